#pragma once
// The frame around records: what a state payload says beside its entities.

#include <cstdint>
#include <optional>

#include "bits.h"
#include "image.h"

namespace shoal::replication {

/// Greatest distance, in packets, at which a state packet may refer to an earlier one.
inline constexpr std::uint32_t kMaxPacketDistance = 255;

struct StateHeader {
    Tick tick = 0;  // of every record

    /// An earlier state packet that the receiver has: its tick is the common baseline.
    struct Anchor {
        std::uint32_t distance = 0;  // packets back, 1 to kMaxPacketDistance
        Tick age = 0;                // ticks back
    };
    std::optional<Anchor> anchor;

    /// Nothing is left to send. A receiver that has accepted this packet and those with state among the
    /// `distance` before it holds every entity as of the tick.
    struct Complete {
        std::uint32_t distance = 0;  // packets back, 0 to kMaxPacketDistance
        std::uint32_t others = 0;    // of these, numbers without state; at most distance
        Tick quiet = 0;              // ticks since anything changed in the sender's world
    };
    std::optional<Complete> complete;

    std::uint32_t record_count = 0;
};

/// What a record does.
enum class RecordKind : std::uint8_t {
    delta,  // an entity that the receiver has, from a baseline
    whole,  // an entity from nothing, with its net id
    gone,   // the entity is no more, or not for this receiver; its slot is closed
};

struct RecordHeader {
    std::uint32_t slot = 0;
    RecordKind kind = RecordKind::delta;
    Tick baseline = 0;         // delta
    std::uint32_t net_id = 0;  // whole
};

/// Writes the record headers of one packet, slots rising. The records' bits go in between.
/// Given a null writer it only counts.
class RecordHeaderWriter {
public:
    RecordHeaderWriter(const StateHeader& header, BitWriter* out) : header_(header), out_(out) {}
    std::size_t write(const RecordHeader& record);  // returns its bits

private:
    StateHeader header_;
    BitWriter* out_;
    std::uint32_t next_slot_ = 0;
    std::uint32_t last_net_id_ = 0;
};

/// Reads them. A failed reader yields nonsense: test its ok().
class RecordHeaderReader {
public:
    /// `tick` is the header's, `baseline` the anchor's tick if there is one.
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

std::size_t write_state_header(const StateHeader& header, BitWriter* out);  // returns its bits

/// With an anchor, `tick` is left 0: it is the anchor's tick plus its age.
StateHeader read_state_header(BitReader& in);

}  // namespace shoal::replication
