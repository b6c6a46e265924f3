#pragma once
// The time of the server that a client shows: late enough that the state for it has usually arrived, and
// never going back.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "../../net/endpoint.h"
#include "../schema/image.h"

namespace shoal::replication {

/// A time of the server.
struct RenderTime {
    Tick tick = 0;
    float fraction = 0;  // of a tick, in [0, 1): how much of the time until the next tick has passed
};

/// Computes the render time of a client from the arrivals of state payloads. One per connection; not
/// thread-safe.
///
/// The delay covers 98 % of the last 256 payloads: had it been less, a payload would have come after the
/// time that the one before it could show. A payload that came late because the server had nothing to send
/// does not count as late.
class RenderClock {
public:
    static constexpr net::Duration kMaxDelay{250'000};

    /// `tick_us`: the length of a tick, in microseconds; >= 1.
    explicit RenderClock(std::uint32_t tick_us);

    /// A payload with the state of `tick` arrived, in any order. `is_gapless`: all packets that the server
    /// sent between this one and the newest one before it have arrived, too.
    void receive(Tick tick, net::Time arrival, bool is_gapless);

    /// Moves the render time on. Times must not decrease.
    void update(net::Time now);

    /// As of the last update(); nothing before the first payload.
    const std::optional<RenderTime>& time() const { return time_; }

    /// How long after the least delayed payloads the client shows their ticks, as of the last update().
    net::Duration delay() const { return net::Duration(static_cast<std::int64_t>(delay_us_)); }
    /// The delay that the latest payloads need. delay() follows it by at most 5 % of the time passed.
    net::Duration wanted_delay() const { return net::Duration(static_cast<std::int64_t>(wanted_us_)); }

private:
    static constexpr std::size_t kNeeds = 256;
    static constexpr std::size_t kSpans = 20;       // of the arrivals: 2 s
    static constexpr std::size_t kRecentSpans = 5;  // 0.5 s
    static constexpr std::int64_t kSpanUs = 100'000;
    static constexpr std::uint32_t kFewArrivals = 10;

    /// What arrived in 100 ms.
    struct Span {
        std::int64_t number = -1;  // of the span, from the first arrival on; -1: none
        double lead_us = 0;        // greatest of (time of the tick - arrival)
        std::uint32_t arrivals = 0;
    };

    void add_lead(double lead_us, std::int64_t arrival_us);
    void add_need(double need_us);

    const double tick_us_;
    bool is_started_ = false;
    net::Time epoch_{0};       // the first arrival; times in microseconds count from it
    Tick first_ = 0;           // the first tick; times of the server count from it
    std::int64_t newest_ = 0;  // newest tick, from first_ on
    double interval_ = 1;      // mean of ticks between two payloads of the server
    std::array<Span, kSpans> spans_{};
    double lead_us_ = 0;                  // of the least delayed payloads: time of their ticks - arrival
    std::array<double, kNeeds> needs_{};  // arrival - time of the newest tick that could be shown until then
    std::size_t need_count_ = 0;
    net::Time need_arrival_{0};  // of the last one
    double need_us_ = 0;         // 0.98 quantile of needs_
    double shown_us_ = 0;        // the render time
    double delay_us_ = 0, wanted_us_ = 0;
    net::Time updated_{0};
    std::optional<RenderTime> time_;
};

}  // namespace shoal::replication
