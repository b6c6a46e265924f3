#include "render_clock.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shoal::replication::impl {
namespace {

constexpr double kQuantile = 0.98;
constexpr double kCatchUpMs = 1'000;   // an error of the delay is corrected in about this time
constexpr double kLargeErrorMs = 500;  // a larger error is corrected at once
constexpr double kLongGapMs = 250;     // in a longer gap between payloads the server had nothing to send
// By which fraction the render time runs faster or slower at most, and while it is wrong by more than
// kWrongMs, for example because the server's ticks are slower than it says.
constexpr double kMaxRate = 0.05, kMaxRateIfWrong = 0.15, kWrongMs = 200;

}  // namespace

void RenderClock::receive(const ServerClock& server, Tick tick, net::Time arrival, bool is_gapless) {
    const std::int64_t number = server.unwrapped(tick);
    // After a pause of this client or of the path, earlier measurements are useless.
    const double offset = std::exchange(offset_, server.offset());
    const bool is_restart = newest_ && std::abs(offset_ - offset) * server.tick_ms() > kLargeErrorMs;
    if (is_restart) need_count_ = 0;
    const std::int64_t before = newest_.value_or(number);
    newest_ = std::max(before, number);
    if (number <= before) return;
    double gap = static_cast<double>(number - before);
    if (is_gapless) {
        const double regular = interval_;
        if (gap * server.tick_ms() < kLongGapMs) interval_ += std::clamp(gap - interval_, -1.0, 1.0) / 8;
        // The server paused: the render time does not have to wait for such a late payload.
        if (gap > 2 * regular) gap = regular;
    }
    if (is_restart) return;
    // If several payloads arrive together, the first of them has waited longest.
    if (need_count_ > 0 && arrival == need_arrival_) return;
    need_arrival_ = arrival;
    add_need(server.schedule(arrival) - (static_cast<double>(number) - gap));
}

void RenderClock::add_need(double need) {
    needs_[need_count_++ % kNeeds] = need;
    const std::size_t count = std::min(need_count_, kNeeds);
    std::array<double, kNeeds> sorted = needs_;
    const auto rank = static_cast<std::ptrdiff_t>(std::ceil(kQuantile * static_cast<double>(count))) - 1;
    std::nth_element(sorted.begin(), sorted.begin() + rank,
                     sorted.begin() + static_cast<std::ptrdiff_t>(count));
    need_ = sorted[static_cast<std::size_t>(rank)];
}

void RenderClock::update(const ServerClock& server, net::Time now) {
    if (!server.is_running()) return;
    now = std::max(updated_, now);
    const double passed = time_ ? server.ticks(now - updated_) : 0;
    updated_ = now;
    const double needed = need_count_ == 0 ? 2 : server.offset() + need_;
    const double wanted = std::clamp(needed, 1.0, std::max(1.0, server.ticks(kMaxDelay)));
    const double position = server.position(now), aim = position - wanted;
    const double error = aim - (shown_ + passed);  // delay - wanted delay
    const double error_ms = std::abs(error) * server.tick_ms();
    if (!time_) {
        shown_ = aim;
    } else if (server.is_settling(now) || error_ms > kLargeErrorMs) {
        shown_ = std::max(shown_, aim);
    } else {
        const double most = error_ms > kWrongMs ? kMaxRateIfWrong : kMaxRate;
        const double rate = std::clamp(error_ms / kCatchUpMs, 0.0, most);
        shown_ += passed + std::copysign(std::min(rate * passed, std::abs(error)), error);
    }
    delay_ = server.duration(position - shown_);
    wanted_delay_ = server.duration(wanted);
    const double ticks = std::floor(shown_);
    time_ = RenderTime{server.wrapped(static_cast<std::int64_t>(ticks)),
                       std::min(static_cast<float>(shown_ - ticks), 0x1.fffffep-1f)};
}

}  // namespace shoal::replication::impl
