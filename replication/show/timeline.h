#pragma once
// Estimates when the ticks of a server happen, on the clock of the observer.

#include <algorithm>
#include <array>
#include <cstdint>

#include "../../net/endpoint.h"
#include "../schema/image.h"

namespace shoal::replication::all {

/// Observations are late by amounts that vary. The estimate uses the least late observation of the last two
/// seconds. If all observations of the last half second are later than that one by more than a tick, the
/// estimate uses only these. A few observations after a pause do not count for this, because packets that
/// waited in a queue are late. Not thread-safe.
class Timeline {
public:
    /// `tick`: time between two ticks, > 0.
    explicit Timeline(net::Duration tick) : tick_ms_(ms(tick)) {}

    /// Observes that `tick` has begun. Ticks may come in any order, less than 2^31 apart.
    void add(Tick tick, net::Time now);

    bool is_empty() const { return is_empty_; }

    /// Returns how many ticks after the first observed tick the server is at `now`, with a fraction. Requires
    /// !is_empty().
    double position(net::Time now) const { return (ms(now - first_time_) + offset_ms_) / tick_ms_; }
    /// Returns how many ticks after the first observed tick `tick` is. Requires that it is less than 2^31
    /// ticks from the newest observed tick.
    std::int64_t unwrapped(Tick tick) const {
        return newest_ + static_cast<std::int32_t>(tick - (first_tick_ + static_cast<Tick>(newest_)));
    }
    /// Inverse of unwrapped(): returns the tick that is `ticks` ticks after the first observed tick.
    Tick wrapped(std::int64_t ticks) const { return first_tick_ + static_cast<Tick>(ticks); }
    /// The time at which `tick` begins, or began.
    net::Time time_of(Tick tick) const {
        return first_time_ + from_ms(static_cast<double>(unwrapped(tick)) * tick_ms_ - offset_ms_);
    }

    static double ms(net::Duration duration) {
        return std::chrono::duration<double, std::milli>(duration).count();
    }
    /// The nearest duration within 10,000 years.
    static net::Duration from_ms(double ms) {
        return std::chrono::duration_cast<net::Duration>(
            std::chrono::duration<double, std::milli>(std::clamp(ms, -3e14, 3e14)));
    }

private:
    static constexpr std::int64_t kBucketMs = 100;
    static constexpr std::size_t kBuckets = 20;      // two seconds
    static constexpr std::size_t kNewest = 5;        // half a second
    static constexpr std::uint32_t kFewSamples = 8;  // fewer new samples do not replace the older ones

    struct Bucket {
        std::int64_t number = -1;  // time / kBucketMs; -1: empty
        double offset_ms = 0;      // the greatest offset of the samples
        std::uint32_t samples = 0;
    };

    double tick_ms_;
    bool is_empty_ = true;
    Tick first_tick_ = 0;
    net::Time first_time_{0};
    std::int64_t newest_ = 0;  // the newest tick, counted from first_tick_
    double offset_ms_ = 0;  // of the least late sample: its ticks as time, minus the time since first_time_
    std::array<Bucket, kBuckets> buckets_{};
};

}  // namespace shoal::replication::all
