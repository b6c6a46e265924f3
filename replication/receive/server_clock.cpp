#include "server_clock.h"

#include <utility>

namespace shoal::replication::impl {

void RecentGreatest::add(double value, net::Time now) {
    const std::int64_t number = now / kSpan;
    Span& span = spans_[static_cast<std::size_t>(number) % kSpans];
    if (span.number != number) span = {number, value};
    span.value = std::max(span.value, value);
    double all = value, recent = value;
    std::size_t covered = 0, recently_covered = 0;
    for (const Span& other : spans_) {
        if (other.number < 0 || number - other.number >= static_cast<std::int64_t>(kSpans)) continue;
        all = std::max(all, other.value);
        ++covered;
        if (number - other.number >= static_cast<std::int64_t>(kNewest)) continue;
        recent = std::max(recent, other.value);
        ++recently_covered;
    }
    if (is_empty_ || all >= value_ || covered >= kSpans / 2) value_ = all;
    is_empty_ = false;
    if (recently_covered + 1 < kNewest || value_ - recent <= 1) return;
    value_ = recent;
    for (Span& other : spans_)
        if (number - other.number >= static_cast<std::int64_t>(kNewest)) other.number = -1;
}

void ServerClock::hear(Tick tick, net::Time now) {
    if (!is_running()) {
        first_tick_ = tick;
        start_ = taken_ = began_ = updated_ = now;
        offset_.add(0, now);
    }
    const std::int64_t ticks = unwrapped(tick);
    newest_ = std::max(newest_, ticks);
    heard_ = now;
    best_ = std::max(best_, static_cast<double>(ticks) - schedule(now));
}

void ServerClock::take(net::Time now) {
    const bool is_pause = now - std::exchange(updated_, now) > kLate;
    if (heard_ == taken_) return;
    const net::Duration silence = now - taken_;
    const double late = offset() - best_;
    const net::Duration least = is_pause ? std::max(silence - kLate, kLate) : kLate;
    const bool has_stood = silence > kLate && late > ticks(least);
    if (has_stood) began_ = now;
    const bool makes_up = late < 0 && began_ != start_ && is_settling(now);
    if (has_stood || makes_up) {
        stood_ += late;
        best_ += late;
    }
    offset_.add(best_, now);
    taken_ = heard_;
    best_ = kNever;
}

}  // namespace shoal::replication::impl
