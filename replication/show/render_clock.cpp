#include "render_clock.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace shoal::replication::all {
namespace {

constexpr double kQuantile = 0.98;
constexpr double kCatchUpUs = 1e6;      // an error of the delay is corrected in about this time
constexpr double kMaxRate = 0.05;       // the render time runs at most by this fraction faster or slower
constexpr double kLargeErrorUs = 5e5;   // a larger error is corrected at once
constexpr double kSettlingUs = 1e6;     // time after the first payload in which errors are corrected at once
constexpr double kLongGapUs = 250'000;  // in a longer gap between payloads the server had nothing to send

}  // namespace

RenderClock::RenderClock(std::uint32_t tick_us) : tick_us_(tick_us) {
    assert(tick_us > 0);
}

void RenderClock::receive(Tick tick, net::Time arrival, bool is_gapless) {
    if (!is_started_) {
        is_started_ = true;
        epoch_ = updated_ = arrival;
        first_ = tick;
    }
    const std::int64_t number =
        newest_ + static_cast<std::int32_t>(tick - first_ - static_cast<Tick>(newest_));
    const std::int64_t arrival_us = (arrival - epoch_).count();
    const double lead_before = lead_us_;
    add_lead(static_cast<double>(number) * tick_us_ - static_cast<double>(arrival_us), arrival_us);
    // After a pause of this client or of the path, earlier measurements are useless.
    const bool is_restart = std::abs(lead_us_ - lead_before) > kLargeErrorUs;
    if (is_restart) need_count_ = 0;
    if (number <= newest_) return;
    double gap = static_cast<double>(number - newest_);
    newest_ = number;
    if (is_gapless) {
        const double regular = interval_;
        if (gap * tick_us_ < kLongGapUs) interval_ += std::clamp(gap - interval_, -1.0, 1.0) / 8;
        // The server paused: the render time does not have to wait for such a late payload.
        if (gap > 2 * regular) gap = regular;
    }
    if (is_restart) return;
    // If several payloads arrive together, the first of them has waited longest.
    if (need_count_ > 0 && arrival == need_arrival_) return;
    need_arrival_ = arrival;
    add_need(static_cast<double>(arrival_us) - (static_cast<double>(number) - gap) * tick_us_);
}

/// The lead is the greatest one of the last 2 s. If the greatest one of the last 0.5 s is less by more than
/// a tick, and at least kFewArrivals payloads arrived in this time, the lead is this one instead.
void RenderClock::add_lead(double lead_us, std::int64_t arrival_us) {
    const std::int64_t now = std::max<std::int64_t>(0, arrival_us / kSpanUs);
    Span& span = spans_[static_cast<std::size_t>(now) % kSpans];
    if (span.number != now) span = {now, lead_us, 0};
    span.lead_us = std::max(span.lead_us, lead_us);
    span.arrivals += 1;
    double greatest = lead_us, recent = lead_us;
    std::uint32_t arrivals = 0;
    for (const Span& other : spans_) {
        if (other.number < 0 || now - other.number >= static_cast<std::int64_t>(kSpans)) continue;
        greatest = std::max(greatest, other.lead_us);
        if (now - other.number >= static_cast<std::int64_t>(kRecentSpans)) continue;
        recent = std::max(recent, other.lead_us);
        arrivals += other.arrivals;
    }
    lead_us_ = arrivals >= kFewArrivals && recent + tick_us_ < greatest ? recent : greatest;
}

void RenderClock::add_need(double need_us) {
    needs_[need_count_++ % kNeeds] = need_us;
    const std::size_t count = std::min(need_count_, kNeeds);
    std::array<double, kNeeds> sorted = needs_;
    const auto rank = static_cast<std::ptrdiff_t>(std::ceil(kQuantile * static_cast<double>(count))) - 1;
    std::nth_element(sorted.begin(), sorted.begin() + rank,
                     sorted.begin() + static_cast<std::ptrdiff_t>(count));
    need_us_ = sorted[static_cast<std::size_t>(rank)];
}

void RenderClock::update(net::Time now) {
    if (!is_started_) return;
    const double now_us = static_cast<double>((now - epoch_).count());
    const double passed_us = static_cast<double>(std::max<std::int64_t>(0, (now - updated_).count()));
    updated_ = std::max(updated_, now);
    const double max_us = static_cast<double>(kMaxDelay.count());
    const double needed_us = need_count_ == 0 ? 2 * tick_us_ : lead_us_ + need_us_;
    wanted_us_ = std::clamp(needed_us, tick_us_, std::max(tick_us_, max_us));
    const double aim_us = now_us + lead_us_ - wanted_us_;
    const double error_us = aim_us - (shown_us_ + passed_us);  // delay - wanted delay
    if (!time_) {
        shown_us_ = aim_us;
    } else if (now_us < kSettlingUs || std::abs(error_us) > kLargeErrorUs) {
        shown_us_ = std::max(shown_us_, aim_us);
    } else {
        const double rate = std::clamp(error_us / kCatchUpUs, -kMaxRate, kMaxRate);
        const double correction_us = std::clamp(rate * passed_us, -std::abs(error_us), std::abs(error_us));
        shown_us_ += passed_us + correction_us;
    }
    delay_us_ = now_us + lead_us_ - shown_us_;
    const double ticks = std::floor(shown_us_ / tick_us_);
    const float fraction = static_cast<float>(shown_us_ / tick_us_ - ticks);
    time_ = RenderTime{first_ + static_cast<Tick>(static_cast<std::int64_t>(ticks)),
                       std::min(fraction, 0x1.fffffep-1f)};
}

}  // namespace shoal::replication::all
