#pragma once
// When changes are due and by when they should be sent, for a peer whose schema has every() or
// fresh_within().

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "../schema/image.h"

namespace shoal::replication::impl {

/// Slots whose change is not due yet rest in a wheel with a bucket for each tick. All functions take constant
/// time; advance() takes constant time for each tick and each slot whose change becomes due.
class Schedule {
public:
    static constexpr Tick kMostBuckets = 256;

    struct Slot {
        Tick due = 0;       // if it rests
        Tick deadline = 0;  // of the change that waits to be sent; if it was lost, that of the first record
        std::uint8_t goal = 0;  // index of Schema::goals()
        bool rests = false;

    private:
        friend class Schedule;
        std::uint8_t bucket = 0;
        std::uint32_t next = kNone, previous = kNone;  // in its bucket
    };

    /// `within`: the goals in ticks, which must outlive the schedule. `longest`: the longest interval.
    Schedule(std::span<const Tick> within, Tick longest, Tick now)
        : within_(within),
          buckets_(std::bit_ceil(std::clamp(longest + 1, 2u, kMostBuckets)), kNone),
          now_(now) {}

    void resize(std::size_t count) { slots_.resize(count); }
    const Slot& operator[](std::uint32_t slot) const { return slots_[slot]; }
    /// Number of slots that rest.
    std::uint32_t resting_count() const { return resting_count_; }

    /// Sets the goal of a change that is due now, and with it the deadline.
    void set_goal(std::uint32_t slot, std::uint8_t goal) {
        slots_[slot].goal = goal;
        slots_[slot].deadline = now_ + within_[goal];
    }
    /// Makes a slot rest until the tick `due`, which is in the future. Requires that it does not rest.
    void rest(std::uint32_t slot, std::uint8_t goal, Tick due) {
        slots_[slot].goal = goal;
        slots_[slot].due = due;
        slots_[slot].rests = true;
        resting_count_ += 1;
        link(slot);
    }
    /// Ends the rest of a slot. No effect if it does not rest.
    void wake(std::uint32_t slot);
    /// Sets the tick, and wakes the slots whose changes are due. Calls fn(slot) for each.
    template <class Fn>
    void advance(Tick tick, Fn&& fn) {
        const Tick steps = (std::min)(tick - now_, static_cast<Tick>(buckets_.size()));
        now_ = tick;
        for (Tick ago = steps; ago-- > 0;) empty_bucket(tick - ago, fn);
    }
    Tick now() const { return now_; }
    /// Wakes all slots.
    template <class Fn>
    void wake_all(Fn&& fn) {
        if (resting_count_ == 0) return;
        for (Slot& slot : slots_)
            if (slot.rests) slot.due = now_;
        for (Tick tick = 0; tick < buckets_.size() && resting_count_ != 0; ++tick) empty_bucket(tick, fn);
    }

private:
    static constexpr std::uint32_t kNone = 0xffffffff;

    std::uint32_t& bucket(Tick tick) { return buckets_[tick & (buckets_.size() - 1)]; }
    void link(std::uint32_t slot);
    template <class Fn>
    void empty_bucket(Tick tick, Fn&& fn) {
        for (std::uint32_t at = std::exchange(bucket(tick), kNone); at != kNone;) {
            const std::uint32_t slot = std::exchange(at, slots_[at].next);
            if (is_newer(slots_[slot].due, now_)) {
                link(slot);  // its interval is longer than the wheel
                continue;
            }
            slots_[slot].rests = false;
            resting_count_ -= 1;
            fn(slot);
        }
    }

    std::span<const Tick> within_;
    std::vector<std::uint32_t> buckets_;  // by tick: the first slot in it
    std::vector<Slot> slots_;
    std::uint32_t resting_count_ = 0;
    Tick now_;
};

}  // namespace shoal::replication::impl
