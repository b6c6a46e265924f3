#include "round_trips.h"

#include <algorithm>

namespace shoal::net {
namespace {

constexpr Duration kBaseWindow = std::chrono::seconds(10);  // two of them are remembered
// Both ends answer only once per tick: about two ticks at 60 Hz.
constexpr Duration kTicks = std::chrono::milliseconds(30);
constexpr Duration kMostTolerated = std::chrono::milliseconds(100);
constexpr int kSpreadGain = 8;  // rounds

}  // namespace

void RoundTrips::sample(Duration rtt, bool is_exact) {
    smallest_ = std::min(smallest_, rtt);
    if (is_exact) largest_ = std::max(largest_, rtt);
    base_ = std::min(base_, rtt);
}

void RoundTrips::end_round(Time now, bool learns_spread) {
    if (smallest_ == Duration::max()) return;
    if (learns_spread && largest_ > smallest_) spread_ += (largest_ - smallest_ - spread_) / kSpreadGain;
    round_smallest_[next_round_] =
        static_cast<std::uint32_t>(std::min<Duration::rep>(smallest_.count(), UINT32_MAX));
    next_round_ = static_cast<std::uint8_t>((next_round_ + 1) % kRounds);

    std::uint32_t least = UINT32_MAX;
    bool is_full = true;
    for (const std::uint32_t rtt : round_smallest_) {
        is_full &= rtt != 0;
        if (rtt != 0) least = std::min(least, rtt);
    }
    if (is_full) accepted_ = std::min(accepted_, Duration(least));
    queue_ = std::max(Duration(0), smallest_ - floor());
    standing_ = is_full ? std::max(Duration(0), Duration(least) - floor()) : Duration(0);

    smallest_ = Duration::max();
    largest_ = Duration(0);
    if (now - base_began_ >= kBaseWindow) {
        base_before_ = base_;
        base_ = Duration::max();
        base_began_ = now;
    }
}

Duration RoundTrips::floor() const {
    const Duration base = std::min(base_, base_before_);
    return base == Duration::max() ? Duration(0) : std::max(base, accepted_);
}

Duration RoundTrips::band() const {
    return std::max(spread_, kTicks);
}

Duration RoundTrips::recent() const {
    const std::uint32_t last = round_smallest_[(next_round_ + kRounds - 1) % kRounds];
    return last == 0 ? smallest_ : std::min(smallest_, Duration(last));
}

void RoundTrips::renew() {
    accepted_ = Duration(0);
    tolerated_ /= 2;
}

void RoundTrips::tolerate() {
    tolerated_ = std::clamp(std::max(queue_ - band(), standing_ - band() / 4), tolerated_, kMostTolerated);
}

void RoundTrips::accept(Duration rtt) {
    tolerate();
    accepted_ = rtt;
    queue_ = standing_ = Duration(0);
    round_smallest_.fill(0);
}

void RoundTrips::restart(Time now) {
    *this = RoundTrips();
    base_began_ = now;
}

}  // namespace shoal::net
