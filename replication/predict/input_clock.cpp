#include "input_clock.h"

#include <algorithm>
#include <cmath>

namespace shoal::replication::all {

InputClock::Advance InputClock::advance(const ServerClock& server, std::optional<double> lead, net::Time now,
                                        net::Duration rtt, net::Duration rtt_var) {
    const bool starts = !is_running_, is_pause = !starts && now - last_ > kPause;
    const double passed = starts ? 0 : server.ticks(now - last_);
    last_ = now;
    // After only one sample, rtt_var is half of that sample on any path. So its part of the lead is limited.
    const double guess = server.offset() + server.ticks(rtt + std::min(4 * rtt_var, rtt / 4)) + 2;
    lead_ = lead ? *lead : starts ? guess : std::min(lead_, guess);
    if (starts) {
        is_running_ = true;
        position_ = server.schedule(now) + lead_;
        tick_ = static_cast<std::int64_t>(std::floor(position_)) - 1;
    } else if (now - server.heard() > std::max(kPause, server.duration(4))) {
        has_stood_ = true;
    } else {
        const double error = server.schedule(now) + lead_ - position_ - passed;
        const bool at_once = is_pause || has_stood_ || server.is_settling(now);
        has_stood_ = false;
        if (at_once || std::abs(error) > server.ticks(kAtOnce)) {
            position_ = std::max(position_, position_ + passed + error);
        } else {
            const double rate = std::abs(error) / server.ticks(error > 0 ? kIfBehind : kIfAhead);
            const double change =
                std::min(std::abs(error), std::clamp(rate, kMinChange, kMaxChange) * passed);
            position_ += passed + std::copysign(change, error);
        }
    }
    const std::int64_t before = tick_;
    tick_ = std::max(tick_, static_cast<std::int64_t>(std::floor(position_)));
    if (tick_ == before) return {};
    const auto most =
        std::clamp(static_cast<std::int64_t>(server.ticks(kMaxAtOnce)), std::int64_t{1}, kMaxTicks);
    if (starts || is_pause || tick_ - before > most) return {server.wrapped(tick_), 1, true};
    return {server.wrapped(before + 1), static_cast<std::uint32_t>(tick_ - before), false};
}

}  // namespace shoal::replication::all
