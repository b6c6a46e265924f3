#pragma once
// The headers in a state payload: one for the payload, and one for each record.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "../schema/image.h"
#include "../schema/pending_id.h"
#include "bits.h"
#include "codec.h"

namespace shoal::replication::impl {

/// Greatest distance, in packet numbers, from a packet to an earlier packet that its header names.
inline constexpr std::uint32_t kMaxPacketDistance = 255;

/// Greatest distance, in packet numbers, to an anchor whose slots a payload lists. A receiver keeps the slots
/// of twice as many packets.
inline constexpr std::uint32_t kMaxListDistance = 32;

/// The older version of a record is at most so many ticks older than the tick that names it.
inline constexpr Tick kOlderTicks = 8;

/// Initial capacity, in records, of the buffers of a sender and of a receiver.
inline constexpr std::size_t kExpectedRecords = 512;

struct StateHeader {
    Tick tick = 0;  // all records of the payload describe their entities as of this tick

    /// An earlier state packet that the receiver acknowledged. Its tick is the baseline of most deltas.
    struct Anchor {
        std::uint32_t distance = 0;  // in packet numbers, 1 to kMaxPacketDistance
        Tick age = 0;                // this packet's tick minus the anchor's
        Tick older = 0;              // RecordHeader::older of most deltas
    };
    std::optional<Anchor> anchor;
    /// What the receiver should have of an entity: a self-check. Only with an anchor.
    struct Check {
        std::uint32_t slot = 0;
        Tick age = 0;           // this packet's tick minus that of the version
        std::uint16_t sum = 0;  // see check_sum()
    };
    std::optional<Check> check;
    // The records of slots that have a record in the anchor's packet come first, with one bit for each of
    // these slots.
    bool is_listed = false;
    bool is_uniform = false;  // is_listed: these records are deltas with the anchor's tick and `older`

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
    Coding coding = Coding::bits;  // of the images
    std::uint8_t model = 0;        // Coding::range: number of the trained model; 0: the built-in one
};

enum class RecordKind : std::uint8_t {
    delta,    // changes since a baseline
    full,     // full record: the net id and the complete state, without a baseline
    despawn,  // despawn record: the slot is closed
};

struct RecordHeader {
    std::uint32_t slot = 0;
    RecordKind kind = RecordKind::delta;
    // Used only by a delta: the baseline is the newest version at this tick.
    Tick baseline = 0;
    std::uint32_t net_id = 0;   // used only by a full record
    std::uint32_t pending = 0;  // used only by a full record: pending id minus kFirstPending, if the client
                                // spawned the entity ahead of the server; 0: none
    Despawn reason = Despawn::destroyed;  // used only by a despawn record
    // Used only by a delta: the newest version at this number of ticks before `baseline` is known, too, if it
    // is at most kOlderTicks older. 0: no older version is used.
    Tick older = 0;
};

/// Writes or reads the record headers of one payload, in order. After each header comes the record's image.
/// First come the records of the slots in `listed`, which rise, then the others; the slots of both rise.
class RecordHeaderCoder {
public:
    /// For a payload that lists no slots and whose deltas have no older version.
    RecordHeaderCoder(Tick tick, std::optional<Tick> anchor_tick) : tick_(tick), anchor_tick_(anchor_tick) {}
    /// `header.tick` is the payload's tick, also if the payload has an anchor. `listed` is empty unless
    /// header.is_listed, and must outlive the coder.
    explicit RecordHeaderCoder(const StateHeader& header, std::span<const std::uint32_t> listed = {})
        : tick_(header.tick), listed_(listed), is_uniform_(header.is_uniform) {
        if (!header.anchor) return;
        anchor_tick_ = header.tick - header.anchor->age;
        anchor_older_ = header.anchor->older;
    }

    /// Returns the number of bits. If `out` is null, only counts them.
    std::size_t write(RecordHeader record, BitWriter* out);
    /// The header is meaningless if in.ok() is false after the call.
    RecordHeader read(BitReader& in);

private:
    template <class C>
    void code(C& coder, RecordHeader& record);
    template <class C>
    bool code_slot(C& coder, RecordHeader& record);
    template <class C>
    void code_versions(C& coder, RecordHeader& record);

    Tick tick_;
    std::span<const std::uint32_t> listed_;
    bool is_uniform_ = false;
    std::optional<Tick> anchor_tick_;
    Tick anchor_older_ = 0;
    std::optional<Tick> other_tick_;  // of the last delta without the anchor's versions
    Tick other_older_ = 0;
    std::size_t next_listed_ = 0;  // index in listed_
    unsigned gap_order_ = 1;
    std::uint32_t next_slot_ = 0;
    std::uint32_t last_net_id_ = 0;
};

/// Writes a header and returns its size in bits. If `out` is null, the function only counts the bits.
std::size_t write_state_header(StateHeader header, BitWriter* out);

/// Reads a header; the flags: see StateHeader. If it has an anchor, StateHeader::tick stays 0: the caller
/// knows the anchor's tick, and adds the anchor's age.
StateHeader read_state_header(BitReader& in, bool predicts = false, bool has_inputs = false);

}  // namespace shoal::replication::impl
