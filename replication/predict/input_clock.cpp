#include "input_clock.h"

#include <algorithm>
#include <cmath>

namespace shoal::replication::all {

InputClock::Advance InputClock::advance(net::Time now, net::Duration rtt, net::Duration rtt_var) {
    if (timeline_.is_empty()) return {};
    const bool starts = !is_running_, is_pause = !starts && now - last_ > kPause;
    if (starts) {
        is_running_ = true;
        // After only one sample, rtt_var is half of that sample on any path. So its part of the lead is
        // limited.
        const net::Duration lead = rtt + std::min(4 * rtt_var, rtt / 4);
        position_ = timeline_.position(now) + Timeline::ms(lead) / tick_ms_ + 2;
        tick_ = static_cast<std::int64_t>(std::floor(position_)) - 1;
    } else if (is_pause) {
        position_ = std::max(position_, timeline_.position(now) + lead_ticks_);
    } else {
        pass(Timeline::ms(now - last_));
    }
    last_ = now;
    lead_ticks_ = position_ - timeline_.position(now);
    const std::int64_t before = tick_;
    tick_ = std::max(tick_, static_cast<std::int64_t>(std::floor(position_)));
    if (tick_ == before) return {};
    if (starts || is_pause || tick_ - before > kMostTicks) return {tick(), 1, true};
    return {timeline_.wrapped(before + 1), static_cast<std::uint32_t>(tick_ - before), false};
}

/// Advances P by the time that passed and by a part of the shift.
void InputClock::pass(double passed_ms) {
    const double wanted = std::max(std::abs(shift_ms_) / kShiftMs, kLeast);
    double change_ms = std::clamp(std::copysign(wanted, shift_ms_), kSlowest, kFastest) * passed_ms;
    if (is_first_shift_ || shift_ms_ > Timeline::ms(kSetForward)) change_ms = std::max(shift_ms_, -passed_ms);
    if (shift_ms_ < -Timeline::ms(kPause)) change_ms = -passed_ms;  // P does not advance
    if (std::abs(change_ms) > std::abs(shift_ms_)) change_ms = shift_ms_;
    shift_ms_ -= change_ms;
    position_ += (passed_ms + change_ms) / tick_ms_;
    if (shift_ms_ != 0 || !is_shifting_) return;
    is_shifting_ = is_first_shift_ = false;
    shift_parity_ = !shift_parity_;
}

void InputClock::shift(net::Duration by) {
    shift_ms_ = Timeline::ms(by);
    is_shifting_ = true;
}

}  // namespace shoal::replication::all
