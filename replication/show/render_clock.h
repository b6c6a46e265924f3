#pragma once
// The render time: the point of the server's time that a client shows. It is far enough in the past that the
// state of this time has usually arrived. It never decreases.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "../../net/endpoint.h"
#include "render_time.h"

namespace shoal::replication::all {

/// Computes the render time of a client from the arrivals of state payloads. One per connection; not
/// thread-safe.
///
/// The delay is so long that 98 % of the last 256 payloads arrived in time: before the render time passed
/// the newest state that had arrived earlier. A payload that came late because the server had nothing to
/// send does not count as late.
class RenderClock {
public:
    static constexpr net::Duration kMaxDelay{250'000};

    /// `tick_us`: the length of a tick, in microseconds; >= 1.
    explicit RenderClock(std::uint32_t tick_us);

    /// Call it when a payload with the state of `tick` arrives. Payloads may arrive in any order.
    /// `is_gapless`: all packets that the server sent between the newest earlier packet and this packet have
    /// arrived.
    void receive(Tick tick, net::Time arrival, bool is_gapless);

    /// Moves the render time on. Times must not decrease.
    void update(net::Time now);

    /// The render time at the last update(). Empty before the first payload.
    const std::optional<RenderTime>& time() const { return time_; }

    /// Time from the arrival of the least delayed payloads until the client shows their ticks, at the last
    /// update().
    net::Duration delay() const { return net::Duration(static_cast<std::int64_t>(delay_us_)); }
    /// The delay that the latest payloads need. delay() approaches it by at most 5 % of the time that passes.
    net::Duration wanted_delay() const { return net::Duration(static_cast<std::int64_t>(wanted_us_)); }

private:
    static constexpr std::size_t kNeeds = 256;
    static constexpr std::size_t kSpans = 20;       // spans of kSpanUs that are kept: 2 s
    static constexpr std::size_t kRecentSpans = 5;  // the newest of them: 0.5 s
    static constexpr std::int64_t kSpanUs = 100'000;
    static constexpr std::uint32_t kFewArrivals = 10;

    /// The payloads that arrived within 100 ms.
    struct Span {
        std::int64_t number = -1;  // number of the span; 0 begins at the first arrival; -1: unused
        double lead_us = 0;        // greatest of (time of the tick - arrival)
        std::uint32_t arrivals = 0;
    };

    void add_lead(double lead_us, std::int64_t arrival_us);
    void add_need(double need_us);

    const double tick_us_;
    bool is_started_ = false;
    net::Time epoch_{0};       // the first arrival; times in microseconds count from it
    Tick first_ = 0;           // the first tick; times of the server count from it
    std::int64_t newest_ = 0;  // newest tick, relative to first_
    double interval_ = 1;      // mean number of ticks from one payload of the server to the next
    std::array<Span, kSpans> spans_{};
    double lead_us_ = 0;                  // time of the tick - arrival, for the least delayed payloads
    std::array<double, kNeeds> needs_{};  // arrival - time of the newest tick that arrived earlier
    std::size_t need_count_ = 0;
    net::Time need_arrival_{0};  // arrival of the payload of the newest need
    double need_us_ = 0;         // 0.98 quantile of needs_
    double shown_us_ = 0;        // the render time
    double delay_us_ = 0, wanted_us_ = 0;
    net::Time updated_{0};
    std::optional<RenderTime> time_;
};

}  // namespace shoal::replication::all
