#pragma once
// The render time: the point of the server's time that a client shows. It is far enough in the past that the
// state of this time has usually arrived. It never decreases.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "../receive/server_clock.h"
#include "render_time.h"

namespace shoal::replication::impl {

/// Keeps the render time of a client behind the server's clock, by a delay that it computes from the arrivals
/// of state payloads. One per connection; not thread-safe.
///
/// The delay is so long that 98 % of the last 256 payloads arrived in time: before the render time passed
/// the newest state that had arrived earlier. A payload that came late because the server had nothing to
/// send does not count as late.
class RenderClock {
public:
    static constexpr net::Duration kMaxDelay{250'000};

    /// Call it when a payload with the state of `tick` arrives, after ServerClock::hear(). Payloads may
    /// arrive in any order. `is_gapless`: all packets that the server sent between the newest earlier packet
    /// and this packet have arrived.
    void receive(const ServerClock& server, Tick tick, net::Time arrival, bool is_gapless);

    /// Moves the render time on. Times must not decrease.
    void update(const ServerClock& server, net::Time now);

    /// The render time at the last update(). Empty before the first payload.
    const std::optional<RenderTime>& time() const { return time_; }

    /// Time from the arrival of the least delayed payloads until the client shows their ticks, at the last
    /// update().
    net::Duration delay() const { return delay_; }
    /// The delay that the latest payloads need. delay() approaches it by at most 5 % of the time that passes.
    net::Duration wanted_delay() const { return wanted_delay_; }

private:
    static constexpr std::size_t kNeeds = 256;

    void add_need(double need);

    std::optional<std::int64_t> newest_;  // newest tick, as the server's clock counts them
    double interval_ = 1;                 // mean number of ticks from one payload of the server to the next
    double offset_ = 0;                   // of the server's clock at the last payload
    std::array<double, kNeeds> needs_{};  // arrival - the newest tick that arrived earlier, in ticks
    std::size_t need_count_ = 0;
    net::Time need_arrival_{0};  // arrival of the payload of the newest need
    double need_ = 0;            // 0.98 quantile of needs_
    double shown_ = 0;           // the render time, in ticks as the server's clock counts them
    net::Duration delay_{0}, wanted_delay_{0};
    net::Time updated_{0};
    std::optional<RenderTime> time_;
};

}  // namespace shoal::replication::impl
