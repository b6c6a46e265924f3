#pragma once
// The headers in a state payload: one for the payload, and one for each record.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "../schema/image.h"
#include "../schema/pending_id.h"
#include "bits.h"

namespace shoal::replication::all {

/// Greatest distance, in packet numbers, from a packet to an earlier packet that its header names.
inline constexpr std::uint32_t kMaxPacketDistance = 255;

/// Initial capacity, in records, of the buffers of a sender and of a receiver.
inline constexpr std::size_t kExpectedRecords = 512;

struct StateHeader {
    Tick tick = 0;  // all records of the payload describe their entities as of this tick

    /// An earlier state packet that the receiver acknowledged. Its tick is the baseline of most deltas.
    struct Anchor {
        std::uint32_t distance = 0;  // in packet numbers, 1 to kMaxPacketDistance
        Tick age = 0;                // this packet's tick minus the anchor's
    };
    std::optional<Anchor> anchor;

    /// Completion marker: after this packet nothing is left to send for the tick. A receiver has every entity
    /// as of the tick if it accepted this packet and, among the `distance` packets before it, all packets
    /// with state.
    struct Complete {
        std::uint32_t distance = 0;  // 0 to kMaxPacketDistance
        std::uint32_t others = 0;    // number of packets without state among the `distance` packets
        Tick quiet = 0;              // ticks since the last change that the peer sees
    };
    std::optional<Complete> complete;

    /// Group marker: as Complete, for entities that the receiver owns or predicts. A completion marker
    /// implies a group marker.
    struct Group {
        std::uint32_t distance = 0;
        std::uint32_t others = 0;
    };
    std::optional<Group> group;
    bool predicts = false;  // Schema::predicts() of the schema: if false, `group` is not written

    /// How early the newest input of a client's packet arrived.
    struct Margin {
        std::uint8_t packet = 0;   // the low bits of the packet's number
        std::int32_t eighths = 0;  // 1/8 ticks from its arrival to the tick of its newest input
        bool is_late = false;      // since the last margin an input came after its tick

        double ticks() const { return eighths / 8.0; }
    };
    std::optional<Margin> margin;
    bool has_inputs = false;  // the schema has an input; if false, `margin` is not written

    std::uint32_t record_count = 0;
};

enum class RecordKind : std::uint8_t {
    delta,    // changes since a baseline
    full,     // full record: the net id and the complete state, without a baseline
    despawn,  // despawn record: the slot is closed
};

struct RecordHeader {
    std::uint32_t slot = 0;
    RecordKind kind = RecordKind::delta;
    Tick baseline = 0;          // used only by a delta
    std::uint32_t net_id = 0;   // used only by a full record
    std::uint32_t pending = 0;  // used only by a full record: pending id minus kFirstPending, if the client
                                // spawned the entity ahead of the server; 0: none
    Despawn reason = Despawn::destroyed;  // used only by a despawn record
};

/// Writes or reads the record headers of one payload, in order; their slots must rise. After each header
/// comes the record's image.
class RecordHeaderCoder {
public:
    /// `tick` is the payload's tick. `anchor_tick` is the anchor's tick, if the payload has an anchor.
    RecordHeaderCoder(Tick tick, std::optional<Tick> anchor_tick) : tick_(tick), anchor_tick_(anchor_tick) {}
    explicit RecordHeaderCoder(const StateHeader& header) : tick_(header.tick) {
        if (header.anchor) anchor_tick_ = header.tick - header.anchor->age;
    }

    /// Returns the number of bits. If `out` is null, only counts them.
    std::size_t write(RecordHeader record, BitWriter* out);
    /// The header is meaningless if in.ok() is false after the call.
    RecordHeader read(BitReader& in);

private:
    template <class C>
    void code(C& coder, RecordHeader& record);

    Tick tick_;
    std::optional<Tick> anchor_tick_;
    std::optional<Tick> other_tick_;  // the last baseline that was not at the anchor's tick
    std::uint32_t next_slot_ = 0;
    std::uint32_t last_net_id_ = 0;
};

/// Writes a header and returns its size in bits. If `out` is null, the function only counts the bits.
std::size_t write_state_header(StateHeader header, BitWriter* out);

/// Reads a header; the flags: see StateHeader. If it has an anchor, StateHeader::tick stays 0: the caller
/// knows the anchor's tick, and adds the anchor's age.
StateHeader read_state_header(BitReader& in, bool predicts = false, bool has_inputs = false);

}  // namespace shoal::replication::all
