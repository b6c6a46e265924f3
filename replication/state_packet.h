#pragma once
// The headers in a state payload: one for the payload, and one for each record.

#include <cstdint>
#include <optional>

#include "bits.h"
#include "image.h"

namespace shoal::replication {

/// How many packets back a header may refer to an earlier packet.
inline constexpr std::uint32_t kMaxPacketDistance = 255;

struct StateHeader {
    Tick tick = 0;  // of every record

    /// An earlier state packet that the receiver acknowledged. Its tick is the baseline of most deltas.
    struct Anchor {
        std::uint32_t distance = 0;  // in packet numbers, 1 to kMaxPacketDistance
        Tick age = 0;                // in ticks
    };
    std::optional<Anchor> anchor;

    /// Completion marker: nothing is left to send. A receiver has every entity as of the tick if it accepted
    /// this packet and, of the `distance` packet numbers before it, all that carried state.
    struct Complete {
        std::uint32_t distance = 0;  // 0 to kMaxPacketDistance
        std::uint32_t others = 0;    // numbers of these without state; at most distance
        Tick quiet = 0;              // ticks since the last change in the sender's world
    };
    std::optional<Complete> complete;

    std::uint32_t record_count = 0;
};

enum class RecordKind : std::uint8_t {
    delta,  // changes since a baseline
    whole,  // full record: the net id and the complete state, without a baseline
    gone,   // despawn record: the entity does not replicate any more, and its slot is closed
};

struct RecordHeader {
    std::uint32_t slot = 0;
    RecordKind kind = RecordKind::delta;
    Tick baseline = 0;         // if delta
    std::uint32_t net_id = 0;  // if whole
};

/// Writes the record headers of one payload; their slots must rise. After each header the caller writes the
/// record's image. If `out` is null, it only counts bits.
class RecordHeaderWriter {
public:
    RecordHeaderWriter(const StateHeader& header, BitWriter* out) : header_(header), out_(out) {}
    std::size_t write(const RecordHeader& record);  // returns the number of bits

private:
    StateHeader header_;
    BitWriter* out_;
    std::uint32_t next_slot_ = 0;
    std::uint32_t last_net_id_ = 0;
};

/// Reads the record headers of one payload. They are meaningless if in.ok() is false.
class RecordHeaderReader {
public:
    /// `tick` is that of the payload, `baseline` that of the anchor, if there is one.
    RecordHeaderReader(Tick tick, std::optional<Tick> baseline, BitReader& in)
        : tick_(tick), baseline_(baseline), in_(in) {}
    RecordHeader read();

private:
    Tick tick_;
    std::optional<Tick> baseline_;
    BitReader& in_;
    std::uint32_t next_slot_ = 0;
    std::uint32_t last_net_id_ = 0;
};

/// Returns the number of bits. If `out` is null, it only counts them.
std::size_t write_state_header(const StateHeader& header, BitWriter* out);

/// If there is an anchor, `tick` stays 0: the caller computes it as the anchor's tick plus age.
StateHeader read_state_header(BitReader& in);

}  // namespace shoal::replication
