#pragma once
// A client's clock for what its player does: the tick P that the inputs of this moment are for. P is ahead of
// the server, so that inputs arrive before their tick.

#include <cstdint>

#include "timeline.h"

namespace shoal::replication {

/// P never goes back. Its lead is a guess at first; then the server, which sees how early inputs arrive, asks
/// for shifts. Not thread-safe.
class InputClock {
public:
    /// `tick`: time between two ticks of the server, > 0.
    explicit InputClock(net::Duration tick) : timeline_(tick), tick_ms_(Timeline::ms(tick)) {}

    /// A state of this tick arrived.
    void hear(Tick tick, net::Time now) { timeline_.add(tick, now); }

    /// The ticks that begin in an update.
    struct Advance {
        Tick first = 0;
        std::uint32_t count = 0;
        bool is_set = false;  // the ticks before `first` were skipped
    };
    /// Moves P to `now`. The first call after hear() starts the clock; `rtt` and `rtt_var` decide its lead.
    /// After a pause of more than kPause, P is set instead: the ticks in between never begin.
    Advance advance(net::Time now, net::Duration rtt, net::Duration rtt_var);

    /// The server asks for so much more lead. Replaces what is left of the request before.
    void shift(net::Duration by);
    /// Number of requests that are fulfilled, modulo 2.
    bool parity() const { return parity_; }

    bool is_running() const { return is_running_; }
    /// P without its fraction. Requires is_running().
    Tick tick() const { return timeline_.wrapped(tick_); }
    /// How much of this tick has passed, 0 to 1.
    double fraction() const { return position_ - static_cast<double>(tick_); }
    /// How far P is ahead of the newest states that could have arrived now: the path, and the lead over it.
    net::Duration lead(net::Time now) const {
        return Timeline::from_ms((position_ - timeline_.position(now)) * tick_ms_);
    }

    static constexpr net::Duration kPause = std::chrono::milliseconds(250);
    static constexpr net::Duration kSetForward = std::chrono::milliseconds(100);

private:
    void pass(double passed_ms);

    static constexpr double kSlowest = -0.03, kFastest = 0.08;  // change of the rate of P
    static constexpr double kShiftMs = 500;  // a shift takes about that long, as far as the rate allows
    static constexpr double kLeast = 0.01;   // change of the rate that ends a shift

    Timeline timeline_;
    double tick_ms_;
    bool is_running_ = false, parity_ = false, is_shifting_ = false;
    net::Time last_{0};      // argument of the last advance()
    double position_ = 0;    // P, counted from the timeline's first tick
    std::int64_t tick_ = 0;  // the whole ticks of position_
    double lead_ticks_ = 0;  // position_ less the timeline's, at last_
    double shift_ms_ = 0;    // that is left
};

}  // namespace shoal::replication
