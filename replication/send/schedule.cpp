#include "schedule.h"

#include <cassert>

namespace shoal::replication::impl {

void Schedule::link(std::uint32_t index) {
    Slot& slot = slots_[index];
    const Tick last = now_ + static_cast<Tick>(buckets_.size()) - 1;
    const Tick tick = is_newer(slot.due, last) ? last : slot.due;
    slot.bucket = static_cast<std::uint8_t>(tick & (buckets_.size() - 1));
    slot.previous = kNone;
    slot.next = std::exchange(bucket(tick), index);
    if (slot.next != kNone) slots_[slot.next].previous = index;
}

void Schedule::wake(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (!std::exchange(slot.rests, false)) return;
    (slot.previous == kNone ? buckets_[slot.bucket] : slots_[slot.previous].next) = slot.next;
    if (slot.next != kNone) slots_[slot.next].previous = slot.previous;
    resting_count_ -= 1;
}

}  // namespace shoal::replication::impl
