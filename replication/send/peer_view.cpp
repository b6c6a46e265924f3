#include "peer_view.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace shoal::replication::impl {
PeerView::PeerView(std::uint32_t max_slots, const ComponentNumbers* numbers)
    : max_slots_(max_slots), numbers_(numbers) {
    assert(max_slots > 0 && max_slots <= kMaxSlots);
    queues_[static_cast<std::size_t>(Queue::other)].reserve(kExpectedRecords);
}

std::uint32_t PeerView::open(std::uint32_t entry, Roles roles) {
    assert(!is_full() && entry < kGone);
    while (first_free_word_ < free_slots_.size() && free_slots_[first_free_word_] == 0) ++first_free_word_;
    if (first_free_word_ == free_slots_.size()) {
        free_slots_.push_back(~std::uint64_t{0});
        // Grows by an eighth: a vector that doubles leaves half of its memory unused.
        if (slots_.size() + 64 > slots_.capacity()) slots_.reserve(slots_.size() + slots_.size() / 8 + 64);
        slots_.resize(slots_.size() + 64);
    }
    const unsigned bit = static_cast<unsigned>(std::countr_zero(free_slots_[first_free_word_]));
    free_slots_[first_free_word_] &= ~(std::uint64_t{1} << bit);
    const std::uint32_t index = static_cast<std::uint32_t>(first_free_word_ * 64 + bit);
    Slot& slot = slots_[index];
    slot.entry = entry & kNone;
    slot.is_forced = 0;
    if (schedule_) schedule_->resize(slots_.size());
    if (long_gap_ != 0) {
        deliveries_.resize(slots_.size());
        deliveries_[index] = {};
    }
    set_roles(index, roles);
    slot.was_sent = 0;
    slot.in_flight = 0;
    start_generation(slot);
    used_count_ += 1;
    pend(index);
    return index;
}

void PeerView::set_roles(std::uint32_t index, Roles roles) {
    Slot& slot = slots_[index];
    const bool was_in_group = slot.is_in_group();
    slot.is_owner = roles.owns;
    slot.is_predictor = roles.predicts;
    if (slot.is_in_group() == was_in_group) return;
    const auto place = std::lower_bound(group_.begin(), group_.end(), index);
    if (was_in_group) {
        group_.erase(place);
    } else {
        group_.insert(place, index);
    }
    is_any_misplaced_ = is_any_misplaced_ || slot.is_pending;
    if (rests(index)) pend(index);
}

void PeerView::start_generation(Slot& slot) {
    slot.generation = (slot.generation + 1u) & 1023u;
    slot.has_acked = 0;
    slot.is_fresh = 1;
    slot.ticks.restart();
}

void PeerView::close(std::uint32_t index, Despawn reason) {
    Slot& slot = slots_[index];
    assert(slot.has_entity());
    stop_awaiting(index);
    set_roles(index, {});
    slot.entry = (kGone + static_cast<std::uint32_t>(reason)) & kNone;
    if (slot.was_sent) return pend(index);
    unpend(index);
    free(index);
}

void PeerView::free(std::uint32_t index) {
    assert(!is_free(index) && used_count_ > 0);
    slots_[index].entry = kNone;
    slots_[index].in_flight = 0;  // a copy of the despawn record may still be in flight
    clusters_.put(index, std::nullopt);
    free_slots_[index / 64] |= std::uint64_t{1} << (index % 64);
    first_free_word_ = std::min<std::size_t>(first_free_word_, index / 64);
    used_count_ -= 1;
}

void PeerView::rebase(std::uint32_t index) {
    if (index >= slots_.size()) return;
    Slot& slot = slots_[index];
    if (!slot.has_entity() || slot.is_fresh) return;
    start_generation(slot);
    pend(index);
}

PeerView::Queue PeerView::queue_of(std::uint32_t index) const {
    const Slot& slot = slots_[index];
    if (slot.is_in_group()) return Queue::group;
    if (!schedule_ || !slot.has_entity()) return Queue::other;
    if (!slot.was_sent) return Queue::entering;
    const std::uint8_t goal = (*schedule_)[index].goal;
    return goal == 0 ? Queue::other
                     : static_cast<Queue>(static_cast<std::size_t>(Queue::first_goal) + goal - 1);
}

/// Returns false if the slot is pending already. If not, the caller puts it into its queue.
bool PeerView::start_pending(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.is_pending) return false;
    if (schedule_) schedule_->wake(index);
    pending_count_ += 1;
    // The slot was sent before its turn, for example with its cluster, and is still in the queue. This place
    // is too far in front, because other slots wait longer now. tidy() removes all such slots from the
    // queues, so it is rarely called.
    if (slot.is_queued) tidy();
    slot.is_pending = slot.is_queued = 1;
    return true;
}

void PeerView::pend(std::uint32_t index) {
    const bool is_new = start_pending(index);
    if (!is_new && (!schedule_ || (*schedule_)[index].goal == 0)) return;
    if (schedule_) schedule_->set_goal(index, 0);
    if (is_new)
        push(index);
    else
        is_any_misplaced_ = true;
}

/// A lost record keeps its deadline, and its place before newer ones.
void PeerView::pend_lost(std::uint32_t index) {
    if (!schedule_) return pend(index);
    if (start_pending(index)) queues_[static_cast<std::size_t>(queue_of(index))].push_front(index);
}

void PeerView::pend_change(std::uint32_t index, Tick interval, std::uint8_t goal) {
    const Slot& slot = slots_[index];
    if (slot.is_pending) return;
    if (!schedule_ || slot.is_in_group()) return pend(index);
    const Tick due = slot.sent + interval;
    if (rests(index) && !is_newer((*schedule_)[index].due, due)) return;
    schedule_->wake(index);
    if (slot.was_sent && is_newer(due, schedule_->now())) return schedule_->rest(index, goal, due);
    start_pending(index);
    schedule_->set_goal(index, goal);
    push(index);
}

void PeerView::set_schedule(std::span<const Tick> within, Tick longest, Tick now) {
    schedule_ = std::make_unique<Schedule>(within, longest, now);
    schedule_->resize(slots_.size());
}

void PeerView::wake_due(Tick tick) {
    if (!schedule_) return;
    schedule_->advance(tick, [this](std::uint32_t slot) { pend_change(slot, 0, (*schedule_)[slot].goal); });
}

void PeerView::wake_all() {
    if (schedule_) schedule_->wake_all([this](std::uint32_t slot) { pend(slot); });
}

void PeerView::note_sent(Queue which, std::size_t bits) {
    if (which == Queue::group) return;
    constexpr std::int32_t kMost = 8'192;
    const std::int32_t more = static_cast<std::int32_t>(std::min<std::size_t>(bits, kMost));
    lead_ = std::clamp(which == Queue::entering ? lead_ + more : lead_ - more, -kMost, kMost);
}

void PeerView::unpend(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (schedule_) schedule_->wake(index);
    if (!slot.is_pending) return;
    slot.is_pending = 0;  // the slot leaves its queue when it reaches the front
    pending_count_ -= 1;
}

void PeerView::force(std::uint32_t index) {
    assert(slots_[index].has_entity());
    slots_[index].is_forced = 1;
    pend(index);
}

void PeerView::set_pending_id(NetId net_id, std::uint32_t id) {
    if (id != 0) {
        pending_ids_[net_id] = id;
    } else {
        pending_ids_.erase(net_id);
    }
}

std::uint32_t PeerView::pending_id(NetId net_id) const {
    const auto found = pending_ids_.find(net_id);
    return found == pending_ids_.end() ? 0 : found->second;
}

void PeerView::drop_front(Queue which, std::size_t count) {
    net::impl::Fifo<std::uint32_t>& queue = queues_[static_cast<std::size_t>(which)];
    std::size_t left = count;
    for (std::size_t i = count; i-- > 0;) {
        const std::uint32_t index = queue[i];
        slots_[index].is_queued = slots_[index].is_pending;
        if (slots_[index].is_pending) queue[--left] = index;
    }
    queue.pop(left);
}

void PeerView::tidy() {
    for (std::size_t which = 0; which < kQueues; ++which)
        drop_front(static_cast<Queue>(which), queues_[which].size());
}

void PeerView::move_to_their_queues() {
    if (!std::exchange(is_any_misplaced_, false)) return;
    std::vector<std::uint32_t> misplaced;  // the longest wait last
    tidy();
    for (std::size_t which = kQueues; which-- > 0;) {
        net::impl::Fifo<std::uint32_t>& queue = queues_[which];
        std::size_t left = queue.size();
        for (std::size_t i = queue.size(); i-- > 0;) {
            const std::uint32_t index = queue[i];
            if (queue_of(index) == static_cast<Queue>(which)) {
                queue[--left] = index;
            } else {
                misplaced.push_back(index);
            }
        }
        queue.pop(left);
    }
    for (std::size_t i = misplaced.size(); i-- > 0;) push(misplaced[i]);
}

SentRecord PeerView::send(std::uint32_t index, std::uint64_t number, Tick tick, std::optional<Tick> oldest) {
    Slot& slot = slots_[index];
    assert(!is_free(index));
    slot.ticks.send(tick, slot.was_sent ? std::optional(slot.sent) : std::nullopt,
                    slot.has_acked ? std::optional(slot.acked) : std::nullopt);
    if (oldest) slot.ticks.drop_before(tick - *oldest);
    slot.sent = tick;
    slot.packet = low(number);
    slot.was_sent = slot.in_flight = 1;
    slot.is_fresh = 0;
    slot.is_forced = 0;
    unpend(index);
    return {index & (kMaxSlots - 1), slot.generation, !slot.has_entity()};
}

void PeerView::on_fate(SentRecord record, std::uint64_t number, Tick tick, bool delivered) {
    const std::uint32_t index = record.slot;
    Slot& slot = slots_[index];
    const bool is_newest = slot.in_flight && slot.packet == low(number);
    if (is_newest) slot.in_flight = 0;
    if (slot.generation != record.generation) return;
    if (long_gap_ != 0 && delivered && !record.is_despawn) deliveries_[index].add(tick, long_gap_);
    if (!delivered) {
        if (is_newest) pend_lost(index);
    } else if (record.is_despawn) {
        unpend(index);
        if (!is_free(index)) free(index);
    } else {
        slot.ticks.acknowledge(slot.sent - tick);
        if (slot.has_acked && !is_newer(tick, slot.acked)) return;
        slot.acked = tick;
        slot.has_acked = 1;
        stop_awaiting(index);
    }
}

PeerView::Basis PeerView::basis(std::uint32_t index, Tick tick,
                                const std::optional<StateHeader::Anchor>& anchor) const {
    const Slot& slot = slots_[index];
    assert(slot.has_acked);
    const Tick acked = slot.sent - slot.acked;  // ages, in ticks before the newest record
    const auto age_of = [&](Tick at) { return is_newer(at, slot.sent) ? 0 : slot.sent - at; };
    Basis named{slot.acked, 0, std::nullopt, slot.acked};
    if (!anchor) return named;
    const Tick at = tick - anchor->age, then = at - anchor->older, first = then - kOlderTicks;
    if (slot.acked == at || slot.ticks.sent_none(age_of(at), acked)) {
        if (anchor->older == 0 || is_newer(first, slot.sent)) return {at, anchor->older};
        const SentTicks::Found found = slot.ticks.find(age_of(then), slot.sent - first);
        if (found.is_known && !found.age) return {at, anchor->older};
        if (found.is_known) return {at, anchor->older, slot.sent - *found.age};
    }
    if (!is_newer(slot.acked, then)) return named;
    const std::optional<Tick> age = slot.ticks.oldest_acknowledged(acked, slot.sent - then);
    if (!age || *age == acked) return named;
    return {slot.acked, *age - acked, slot.sent - *age, slot.sent - *age};
}

void PeerView::await_all() {
    awaited_.assign(slots_.size() / 64, 0);
    awaited_count_ = 0;
    for (std::uint32_t index = 0; index < slots_.size(); ++index) {
        if (!slots_[index].has_entity() || slots_[index].has_acked) continue;
        awaited_[index / 64] |= std::uint64_t{1} << (index % 64);
        awaited_count_ += 1;
    }
    if (awaited_count_ == 0) awaited_ = {};
}

void PeerView::stop_awaiting(std::uint32_t index) {
    if (index / 64 >= awaited_.size() || (awaited_[index / 64] >> (index % 64) & 1) == 0) return;
    awaited_[index / 64] &= ~(std::uint64_t{1} << (index % 64));
    awaited_count_ -= 1;
    if (awaited_count_ == 0) awaited_ = {};
}

}  // namespace shoal::replication::impl
