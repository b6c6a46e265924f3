#pragma once
// Chooses the records of a payload and writes it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "delta_cache.h"
#include "flight.h"
#include "peer_view.h"

namespace shoal::replication::impl {

/// Holds the memory that writing payloads needs. Nothing else is shared between peers while payloads are
/// written, so several threads, each with its own writer, can write for different peers at the same time.
class PayloadWriter {
public:
    /// A record that may be written into the payload.
    struct Candidate {
        RecordHeader header;
        DeltaCache::Delta delta;                         // unless it is a despawn record
        PeerView::Queue queue = PeerView::Queue::other;  // in which this slot, or one of its cluster, waited
        std::size_t position = 0;                        // in this queue
        bool joins = false;               // the record belongs to the same cluster as the one before
        std::optional<Tick> oldest = {};  // for PeerView::send()

        std::size_t bits() const { return delta.bits + 16; }  // roughly, with its header
    };

    /// The shadow must outlive the writer.
    explicit PayloadWriter(const Shadow& shadow);
    void learn(DecisionCounts* counts, std::uint32_t every) { deltas_.learn(counts, every); }
    /// For the next gather(): see DeltaCache.
    void set_model(ModelView model) { deltas_.set_model(model); }

    /// Call it after each update of the shadow, with the tick of the update.
    void start_tick(Tick tick);

    /// Of all payloads so far.
    const DeltaCache::Uses& cache_uses() const { return deltas_.uses(); }

    /// For the next gather(): what the peer sees of the entities that references name. Null: all.
    void set_sight(const NameSight* sight) { sight_ = sight; }

    /// Returns what the peer should have in a slot, as of the version that it acknowledged last. Nothing if
    /// this is not known.
    std::optional<StateHeader::Check> check_of(std::uint32_t slot, const PeerView& view);

    /// Decides whether the payload lists the slots of the anchor's packet, `listed`, which must rise and
    /// outlive write(): only if that makes it smaller. Call it between gather() and fit().
    void list(StateHeader& header, std::span<const std::uint32_t> listed);

    /// Limits for gather().
    struct Room {
        std::size_t bits;       // size of the payload
        std::size_t most_bits;  // greatest size of a record or cluster; a larger one waits
        // Packet number of a large payload that is on its way. The entities in it wait: no other record of
        // them is sent before its fate is known.
        std::optional<std::uint64_t> large = {};
    };

    /// Gathers pending records of a peer until they surely need more than room.bits. First gathers from the
    /// queue view.first() until its records need half of room.bits, then from the other queue, and then the
    /// rest. Within each queue the longest wait is first. With a schedule, Queue::other stands for all queues
    /// but Queue::group: Queue::entering has half of their bits, and of the others the earliest deadline is
    /// first. A pending record of a cluster brings along all records of the cluster that the peer did not
    /// acknowledge. If a cluster would not fit the largest payload with this header, its records are gathered
    /// one by one. Slots with nothing to send stop being pending.
    void gather(PeerView& view, const StateHeader& header, const Room& room);

    /// Returns how many of the gathered records, from the front, fit `room_bits` with this header; at least
    /// the first one with its cluster. Returns 0 only if no record was gathered.
    std::size_t fit(const StateHeader& header, std::size_t room_bits);

    /// Number of clusters that the last gather() split because they are too large. Counts a cluster once per
    /// tick.
    std::uint32_t parted_count() const { return parted_count_; }

    /// The records gathered; fit() counts from the front.
    std::span<const Candidate> candidates() const { return candidates_; }

    /// Writes a payload with the first header.record_count records. It is in `room` if it fits there, or in
    /// memory of the writer, valid until the next call. A payload that does not fit `room` has no anchor:
    /// when its last fragment arrives, the client may have forgotten the packet that the anchor names.
    std::span<const std::byte> write(const StateHeader& header, std::span<std::byte> room);

private:
    /// A slot in a queue of a view.
    struct Place {
        PeerView::Queue queue;
        std::size_t position;
    };

    void gather_from(PeerView::Queue first, std::size_t room_bits, PeerView& view, const StateHeader& header,
                     const Room& room);
    PeerView::Queue next_queue(const PeerView& view);
    void look_ahead(const PeerView& view, PeerView::Queue which, std::size_t position) const;
    bool gather_cluster(std::uint32_t cluster, PeerView& view, const StateHeader& header, const Room& room,
                        Place place);
    void add(std::uint32_t index, PeerView& view, Place place);
    bool add_cluster(std::span<const std::uint32_t> slots, PeerView& view, std::size_t most_bits,
                     Place place);
    std::size_t upper_bits() const;
    bool fit_alone(const StateHeader& header, std::size_t first, std::size_t most_bits);
    void drop_from(std::size_t first);
    std::size_t search(const StateHeader& header, std::size_t room_bits) const;
    RefersTo judge(std::optional<Version>& version, const View& shown) const;
    bool prepare(std::uint32_t index, const PeerView& view, Candidate& candidate);
    void write_bits(const StateHeader& header);
    void unlist(StateHeader& header);
    std::size_t measure(const StateHeader& header, std::span<const std::uint64_t> keys,
                        std::size_t count) const;

    const Shadow& shadow_;
    DeltaCache deltas_;
    const NameSight* sight_ = nullptr;
    Tick tick_ = 0;
    std::vector<Candidate> candidates_;                  // in the order of gather()
    std::array<std::size_t, PeerView::kQueues> next_{};  // by queue: the position where to gather next
    std::int64_t lead_ = 0;  // PeerView::lead(), with the first `noted_` candidates
    std::size_t noted_ = 0;
    std::size_t delta_bits_ = 0;  // bits of the deltas of all candidates
    std::uint32_t parted_count_ = 0;
    // Slot and index in candidates_, ordered by slot. Slots that are not listed count kMaxSlots more.
    std::vector<std::uint64_t> by_slot_;
    std::span<const std::uint32_t> listed_;
    std::optional<StateHeader::Anchor> anchor_;
    BitWriter bits_;
    std::vector<std::byte> large_;  // the last payload that did not fit the caller's memory
};

}  // namespace shoal::replication::impl
