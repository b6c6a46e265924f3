#pragma once
// When the ticks of the server happen, on the clock of this client.

#include <algorithm>
#include <array>
#include <cstdint>

#include "../../net/endpoint.h"
#include "../schema/image.h"

namespace shoal::replication::impl {

/// The greatest of values that measure the same quantity, less errors that vary, for example delays: the
/// greatest of the last two seconds. If all values of the last half second are less than that by more than 1,
/// the quantity has changed, and the greatest of these counts. A few values after a pause do not count for
/// this, because packets that waited in a queue are late.
class RecentGreatest {
public:
    void add(double value, net::Time now);
    bool is_empty() const { return is_empty_; }
    /// Requires !is_empty().
    double value() const { return value_; }

private:
    static constexpr net::Duration kSpan = std::chrono::milliseconds(100);
    static constexpr std::size_t kSpans = 20;  // two seconds
    static constexpr std::size_t kNewest = 5;  // half a second

    struct Span {
        std::int64_t number = -1;  // time / kSpan; -1: empty
        double value = 0;          // the greatest
    };

    bool is_empty_ = true;
    double value_ = 0;
    std::array<Span, kSpans> spans_{};
};

/// The position of the server is its tick with a fraction, as a client sees it: when a tick begins, its state
/// arrives if the path delays it least. It is counted in ticks from the first tick heard.
///
/// If the server stops for a time and does not make up for its ticks, the schedule is set back when its next
/// state arrives. This is so if, after more than 300 ms without state, the state is late by more than 300 ms.
/// After a pause of the client itself, it must be late by almost all of this time, because to a silent client
/// a server sends less and less. If the server then makes up for the ticks within a second, the schedule
/// follows it. One per connected client; not thread-safe.
class ServerClock {
public:
    /// `tick`: time between two ticks, > 0.
    explicit ServerClock(net::Duration tick) : tick_ms_(ms(tick)) {}

    /// Call it when state of this tick has arrived. Ticks may come in any order, less than 2^31 apart.
    void hear(Tick tick, net::Time now);
    /// Uses what was heard since the last call. Call it when everything that has arrived was heard: of what
    /// waited in a queue, the newest state says whether the server stopped.
    void take(net::Time now);

    /// Returns whether a tick was heard. All functions below require it.
    bool is_running() const { return !offset_.is_empty(); }
    double position(net::Time now) const { return schedule(now) + offset_.value(); }
    /// The position without the delay of the path from the server: it advances evenly, except when the server
    /// stops, and begins with 0 at the first tick heard.
    double schedule(net::Time now) const { return ms(now - start_) / tick_ms_ - stood_; }
    double offset() const { return offset_.value(); }

    /// The time of the last hear().
    net::Time heard() const { return heard_; }
    /// The time of the first hear(), or of the last one that found that the server had stopped.
    net::Time began() const { return began_; }
    /// Returns whether began() was less than a second ago.
    bool is_settling(net::Time now) const { return now - began_ < std::chrono::seconds(1); }

    /// Returns how many ticks after the first tick heard `tick` is. Requires that it is less than 2^31 ticks
    /// from the newest tick heard.
    std::int64_t unwrapped(Tick tick) const {
        return newest_ + static_cast<std::int32_t>(tick - (first_tick_ + static_cast<Tick>(newest_)));
    }
    /// Inverse of unwrapped().
    Tick wrapped(std::int64_t ticks) const { return first_tick_ + static_cast<Tick>(ticks); }

    double tick_ms() const { return tick_ms_; }
    double ticks(net::Duration duration) const { return ms(duration) / tick_ms_; }
    /// The nearest duration within 10,000 years.
    net::Duration duration(double ticks) const {
        return std::chrono::round<net::Duration>(
            std::chrono::duration<double, std::milli>(std::clamp(ticks * tick_ms_, -3e14, 3e14)));
    }
    static double ms(net::Duration duration) {
        return std::chrono::duration<double, std::milli>(duration).count();
    }

private:
    static constexpr net::Duration kLate = std::chrono::milliseconds(300);
    static constexpr double kNever = -1e300;

    double tick_ms_;
    Tick first_tick_ = 0;
    net::Time start_{0}, heard_{0}, taken_{0}, began_{0}, updated_{0};
    std::int64_t newest_ = 0;  // the newest tick, counted from first_tick_
    double best_ = kNever;     // greatest tick - schedule() heard since the last take()
    double stood_ = 0;         // ticks that the server did not make up for
    RecentGreatest offset_;    // position - schedule()
};

}  // namespace shoal::replication::impl
