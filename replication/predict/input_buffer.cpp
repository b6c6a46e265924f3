#include "input_buffer.h"

#include <algorithm>
#include <cassert>

#include "input_log.h"

namespace shoal::replication::impl {

InputBuffer::InputBuffer(const SchemaStruct& type, std::span<const std::uint32_t> neutral, Tick patience,
                         net::Duration tick)
    : type_(type),
      neutral_(neutral.begin(), neutral.end()),
      last_(neutral_),
      out_(neutral_),
      patience_(patience),
      slots_(2 * std::size_t{2 * ticks_kept(tick)}),
      waiting_(type.layout.presses().size()) {
    assert(patience >= 1);
    for (Slot& slot : slots_) slot.words.reserve(neutral_.size());  // later ticks allocate nothing
}

void InputBuffer::insert(Tick tick, std::span<const std::uint32_t> words, std::optional<std::uint32_t> lag,
                         Tick next) {
    const auto ahead = static_cast<std::int32_t>(tick - next);
    if (ahead >= static_cast<std::int32_t>(reach())) {
        stats_.early += 1;
        return;
    }
    const bool is_repeat = newest_ && !is_newer(tick, *newest_);
    if (!is_repeat) newest_ = tick;
    if (ahead < -static_cast<std::int32_t>(reach())) {
        if (is_repeat) return;  // the client sent it before the ack reached it
        stats_.late += 1;
        return join_presses(words, false);
    }
    Slot& slot = this->slot(tick);
    if (slot.is_held && slot.tick == tick) return;
    slot.tick = tick;
    slot.is_held = true;
    slot.lag = lag;
    slot.words.assign(words.begin(), words.end());
    if (ahead >= 0) return;
    if (!lag_tick_ || is_newer(tick, *lag_tick_)) set_lag(slot);
    stats_.late += 1;
    join_presses(words, next - tick <= patience_);
}

void InputBuffer::join_presses(std::span<const std::uint32_t> words, bool is_in_time) {
    const std::vector<std::uint32_t>& presses = type_.layout.presses();
    for (std::size_t i = 0; i < presses.size(); ++i) {
        const std::uint32_t count = words[presses[i]];
        const std::uint32_t taken =
            is_in_time ? std::min<std::uint32_t>(count, kMaxWaiting - waiting_[i]) : 0;
        waiting_[i] = static_cast<std::uint8_t>(waiting_[i] + taken);
        stats_.joined_presses += taken;
        stats_.dropped_presses += count - taken;
    }
}

std::span<const std::uint32_t> InputBuffer::take(Tick tick) {
    const std::vector<std::uint32_t>& presses = type_.layout.presses();
    const Slot& slot = this->slot(tick);
    if (slot.is_held && slot.tick == tick) {
        stats_.in_time += 1;
        age_ = 0;
        last_ = slot.words;
        out_ = last_;
        set_lag(slot);
    } else {
        if (age_) *age_ += *age_ != 0xffffffff;
        const bool repeats = age_ && *age_ <= patience_;
        if (age_) (repeats ? stats_.repeated : stats_.neutral) += 1;
        out_ = repeats ? last_ : neutral_;
        for (const std::uint32_t press : presses) out_[press] = 0;
    }
    for (std::size_t i = 0; i < presses.size(); ++i) {
        const std::uint32_t all = out_[presses[i]] + waiting_[i];
        out_[presses[i]] = std::min<std::uint32_t>(all, Press::kMax);
        waiting_[i] = static_cast<std::uint8_t>(all - out_[presses[i]]);
    }
    return out_;
}

}  // namespace shoal::replication::impl
