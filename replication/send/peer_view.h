#pragma once
// What one peer sees: a slot for each entity, with what the peer acknowledged of it, and the queues of slots
// that have something to send.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "../../net/fifo.h"
#include "../codec/state_packet.h"
#include "../history/net_ids.h"
#include "../history/prefetch.h"
#include "cluster_slots.h"
#include "deliveries.h"
#include "schedule.h"
#include "sent_ticks.h"

namespace shoal::replication::impl {

/// A record in a packet: what PeerView::on_fate() needs when the packet is delivered or lost.
struct SentRecord {
    std::uint32_t slot : 21;
    std::uint32_t generation : 10;  // generation of the slot when the record was sent
    std::uint32_t is_despawn : 1;
};
static_assert(sizeof(SentRecord) == 4);

/// Which version of each entity one peer has acknowledged, and which entities wait for a record. Takes 24
/// bytes per slot, and 4 more while the slot is in a queue.
class PeerView {
public:
    static constexpr std::uint32_t kMaxSlots = 1u << 21;
    static constexpr std::uint32_t kNone = 0x1fffffff;
    /// In place of an entry: the entity is gone, and the lowest bits say why (Despawn).
    static constexpr std::uint32_t kGone = 0x1ffffff0;

    /// What a peer does with an entity. The peer's group: the entities that it owns or predicts.
    struct Roles {
        bool owns = false;
        bool predicts = false;  // see Server::predict()

        bool operator==(const Roles&) const = default;
    };

    struct Slot {
        // Index in the shadow; kGone and up: no entity; kNone: the slot is free.
        std::uint32_t entry : 29 = kNone;
        std::uint32_t is_owner : 1 = 0;      // Roles::owns
        std::uint32_t is_predictor : 1 = 0;  // Roles::predicts
        std::uint32_t is_forced : 1 = 0;     // the next record is sent even if it is an empty delta
        Tick acked = 0;                      // tick of the newest version acknowledged, if has_acked
        Tick sent = 0;                       // tick of the newest version sent, if was_sent
        std::uint16_t packet =
            0;  // low bits of the number of the packet with the newest record, if in_flight
        // Rises when the slot is opened or rebased, and wraps. The fate of a record of an earlier generation
        // says nothing about this one. A generation lasts for at least one packet.
        std::uint16_t generation : 10 = 0;
        std::uint16_t is_pending : 1 = 0;  // there is something to send
        std::uint16_t is_queued : 1 = 0;   // the slot is in a queue
        std::uint16_t was_sent : 1 = 0;    // the peer may have a version of the entity
        std::uint16_t has_acked : 1 = 0;   // the peer acknowledged a version of this generation
        std::uint16_t is_fresh : 1 = 0;    // no record of this generation was sent
        std::uint16_t in_flight : 1 = 0;   // the fate of the newest record is not known
        SentTicks ticks;                   // of the records of this generation; the newest one is `sent`

        bool has_entity() const { return entry < kGone; }
        Roles roles() const { return {is_owner != 0, is_predictor != 0}; }
        bool is_in_group() const { return is_owner || is_predictor; }
        /// Requires !has_entity(), and that the slot is not free.
        Despawn reason() const { return static_cast<Despawn>(entry - kGone); }
    };
    static_assert(sizeof(Slot) == 24);

    /// 1 <= max_slots <= kMaxSlots. `numbers`: the component numbers of the peer's schema; null: it has the
    /// same schema.
    explicit PeerView(std::uint32_t max_slots, const ComponentNumbers* numbers = nullptr);
    PeerView(const PeerView&) = delete;
    PeerView& operator=(const PeerView&) = delete;

    const Slot& operator[](std::uint32_t slot) const { return slots_[slot]; }
    /// Begins to load what pend() needs. prefetch_slot() reads what prefetch_front() loads, so call it some
    /// time later.
    void prefetch_front() const {
        prefetch(&pending_count_);
        prefetch(&queues_[static_cast<std::size_t>(Queue::other)]);
    }
    void prefetch_slot(std::uint32_t slot) const { prefetch(&slots_[slot]); }
    /// Slots below this number have been used.
    std::uint32_t slot_count() const { return static_cast<std::uint32_t>(slots_.size()); }
    /// Slots that are not free: of entities, and of despawn records that are not acknowledged.
    std::uint32_t used_count() const { return used_count_; }
    std::uint32_t pending_count() const { return pending_count_; }
    bool is_full() const { return used_count_ == max_slots_; }
    bool is_free(std::uint32_t slot) const { return (free_slots_[slot / 64] >> (slot % 64) & 1) != 0; }

    /// Opens a slot for an entry of the shadow. The slot is pending. Requires !is_full().
    std::uint32_t open(std::uint32_t entry, Roles roles = {false, false});
    /// Makes the next record of the slot a despawn record, because its entity is gone. If no record of the
    /// entity was sent, the slot is free instead.
    void close(std::uint32_t slot, Despawn reason);
    /// Makes the next record of the slot a full record. No effect if the slot has no entity.
    void rebase(std::uint32_t slot);
    /// The view classes in which the peer is, for the entity of a slot.
    ViewClasses view_classes(std::uint32_t slot) const {
        return groups_ | (slots_[slot].is_owner ? to_owner() : to_others()) |
               (slots_[slot].is_predictor ? to_predictors() : ViewClasses{});
    }
    /// Returns the view of a slot's entity that the peer gets.
    View shown(std::uint32_t slot) const { return {view_classes(slot), numbers_}; }
    /// Sets the roles, which decide the view classes. Call rebase() for slots whose entities look different
    /// now.
    void set_roles(std::uint32_t slot, Roles roles);
    /// The slots of the entities that the peer owns or predicts, ascending.
    std::span<const std::uint32_t> group() const { return group_; }
    void set_groups(ViewClasses groups) { groups_ = groups; }
    ViewClasses groups() const { return groups_; }
    /// Moves the slot into the cluster with this id, until the slot is free. Empty: the slot is in no
    /// cluster.
    void set_cluster(std::uint32_t slot, std::optional<std::uint32_t> cluster) {
        clusters_.put(slot, cluster);
    }
    /// Returns whether packet `number` carries the newest record of the slot, and its fate is not known.
    bool is_in(std::uint32_t slot, std::uint64_t number) const {
        return slots_[slot].in_flight && slots_[slot].packet == low(number);
    }
    /// Notes that a record of the slot is too large while a large payload is on its way.
    void note_oversized(std::uint32_t slot) {
        if (slot >= oversized_.size()) oversized_.resize(slots_.size());
        oversized_[slot] = true;
    }
    bool is_oversized(std::uint32_t slot) const { return slot < oversized_.size() && oversized_[slot]; }
    void forget_oversized() {
        oversized_.clear();
        clusters_.forget_oversized();
    }
    const ClusterSlots& clusters() const { return clusters_; }
    ClusterSlots& clusters() { return clusters_; }
    /// Marks the slot as pending, without a goal. If it was not pending, it is added to the end of its queue.
    void pend(std::uint32_t slot);
    /// As pend(), because the entity changed. With set_schedule() the slot may rest before: `interval` is the
    /// least time from one record to the next, in ticks, and `goal` an index of Schema::goals().
    void pend_change(std::uint32_t slot, Tick interval, std::uint8_t goal);
    /// Marks the slot as not pending, and ends its rest.
    void unpend(std::uint32_t slot);

    /// Makes pend_change() respect intervals and goals. See Schedule.
    void set_schedule(std::span<const Tick> within, Tick longest, Tick now);
    /// Makes resting slots pending whose changes are due at `tick`, or all. No effect without set_schedule().
    void wake_due(Tick tick);
    void wake_all();
    /// Returns null without set_schedule().
    const Schedule* schedule() const { return schedule_.get(); }
    bool rests(std::uint32_t slot) const { return schedule_ && (*schedule_)[slot].rests; }
    /// Returns whether changes of some slots were not sent, because they are pending or because they rest.
    bool has_unsent() const { return pending_count_ != 0 || (schedule_ && schedule_->resting_count() != 0); }
    /// Returns whether a slot is pending and missed its goal.
    bool is_late(std::uint32_t slot, Tick tick) const {
        return slots_[slot].is_pending && queue_of(slot) > Queue::entering &&
               is_newer(tick, (*schedule_)[slot].deadline);
    }

    /// Makes the slot pending until a record of it is sent, which can be an empty delta. Requires that the
    /// slot has an entity.
    void force(std::uint32_t slot);

    /// Starts the count of awaited_count(): the entities that have a slot now and that the peer has not
    /// acknowledged.
    void await_all();
    /// Number of the entities counted by await_all() that still have their slot and are still not
    /// acknowledged.
    std::uint32_t awaited_count() const { return awaited_count_; }

    /// Makes full records with this net id contain the peer's pending id `id`. 0: no pending id any more.
    void set_pending_id(NetId net_id, std::uint32_t id);
    std::uint32_t pending_id(NetId net_id) const;

    /// Notes that packet `number` carries a record of the slot, with its state at `tick`. The slot is not
    /// pending any more. `oldest`: no later record will be based on an older version than that of this tick.
    SentRecord send(std::uint32_t slot, std::uint64_t number, Tick tick, std::optional<Tick> oldest = {});
    /// Notes the fate of a record in packet `number`, sent at `tick`.
    void on_fate(SentRecord record, std::uint64_t number, Tick tick, bool delivered);

    /// The versions that a delta is based on.
    struct Basis {
        Tick baseline = 0, older = 0;  // as the record names them, see RecordHeader
        // A tick at which the peer has the older version, if there is one.
        std::optional<Tick> older_tick = {};
        std::optional<Tick> oldest = {};  // for send()
    };
    /// Chooses the versions for the next delta of a slot, at `tick`: those of the anchor, if it is certain
    /// which versions the peer has at its ticks. The baseline is always the version at Slot::acked. Requires
    /// has_acked.
    Basis basis(std::uint32_t slot, Tick tick, const std::optional<StateHeader::Anchor>& anchor) const;

    /// Which slots wait in a queue.
    enum class Queue : std::uint8_t {
        group,  // the slots of group()
        other,
        // With set_schedule() only, and of `other`: the entities that were never sent; and from first_goal on
        // those with a goal, by goal.
        entering,
        first_goal,
    };
    static constexpr std::size_t kQueues = 3 + kMaxGoals;
    /// A queue of slots, the longest wait first; lost records come before. It can contain slots that are not
    /// pending any more: skip them.
    const net::impl::Fifo<std::uint32_t>& queue(Queue which) const {
        return queues_[static_cast<std::size_t>(which)];
    }
    /// The queue that comes first in the next payload: Queue::group, unless it left no room for any slot of
    /// Queue::other in the last payload.
    Queue first() const { return first_; }
    void set_first(Queue which) { first_ = which; }
    /// How many bits of Queue::entering were sent more than of the other queues but `group`. Forgets what was
    /// long ago.
    std::int32_t lead() const { return lead_; }
    void note_sent(Queue which, std::size_t bits);
    /// Checks the first `count` slots of a queue, and removes the slots that are not pending any more. The
    /// order of the queue does not change.
    void drop_front(Queue which, std::size_t count);
    /// Removes the slots that are not pending any more from all queues.
    void tidy();
    /// The roles of a slot decide to which queue it belongs. Moves each slot that is in a wrong queue to the
    /// end of the right one. Call it after set_roles() or close(), before queue(). set_roles() and close() do
    /// not move slots themselves, because this takes time in proportion to the length of the queues.
    void move_to_their_queues();

    /// Makes on_fate() add the acknowledged records to deliveries(), from now on. `long_gap`: see
    /// Deliveries::add(); 0: keeps none.
    void keep_deliveries(Tick long_gap) { long_gap_ = long_gap; }
    /// The records of the slot's entity that were acknowledged. Requires keep_deliveries().
    const Deliveries& deliveries(std::uint32_t slot) const { return deliveries_[slot]; }

    bool is_consistent() const;  // consistency.cpp

private:
    static std::uint16_t low(std::uint64_t number) { return static_cast<std::uint16_t>(number); }
    Queue queue_of(std::uint32_t slot) const;
    bool start_pending(std::uint32_t slot);
    void pend_lost(std::uint32_t slot);
    void push(std::uint32_t slot) { queues_[static_cast<std::size_t>(queue_of(slot))].push(slot); }
    static void start_generation(Slot& slot);
    void free(std::uint32_t slot);
    void stop_awaiting(std::uint32_t slot);

    std::uint32_t max_slots_;
    std::uint32_t pending_count_ = 0;
    const ComponentNumbers* numbers_;
    std::vector<Slot> slots_;
    ViewClasses groups_;
    Tick long_gap_ = 0;                                           // 0: no deliveries are kept
    std::unique_ptr<Schedule> schedule_;                          // null: no intervals and goals
    std::array<net::impl::Fifo<std::uint32_t>, kQueues> queues_;  // by Queue
    std::vector<Deliveries> deliveries_;                          // by slot
    std::vector<std::uint64_t> free_slots_;                       // one bit per slot; 1: free
    std::size_t first_free_word_ = 0;                             // no word below it has a free slot
    std::vector<std::uint32_t> group_;
    std::int32_t lead_ = 0;
    Queue first_ = Queue::group;
    bool is_any_misplaced_ = false;  // a pending slot may be in another queue than queue_of()
    ClusterSlots clusters_;
    std::vector<bool> oversized_;  // by slot; shorter if the last slots are not
    std::unordered_map<NetId, std::uint32_t> pending_ids_;
    std::vector<std::uint64_t> awaited_;  // one bit per slot; empty if awaited_count_ is 0
    std::uint32_t awaited_count_ = 0;
    std::uint32_t used_count_ = 0;
};

}  // namespace shoal::replication::impl
