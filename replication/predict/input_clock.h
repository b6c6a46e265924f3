#pragma once
// A client's clock for inputs. It gives the tick P for which the inputs of this moment are meant. P is ahead
// of the server's tick, so that inputs arrive before the server needs them.

#include <cstdint>

#include "../show/timeline.h"

namespace shoal::replication::all {

/// P never decreases. The client estimates the first lead. Then the server measures how early inputs arrive,
/// and asks the client to change the lead: this is a shift. Not thread-safe.
class InputClock {
public:
    /// `tick`: time between two ticks of the server, > 0.
    explicit InputClock(net::Duration tick) : timeline_(tick), tick_ms_(Timeline::ms(tick)) {}

    /// Call it when a state payload of this tick arrives.
    void hear(Tick tick, net::Time now) { timeline_.add(tick, now); }

    /// The ticks that begin in an update.
    struct Advance {
        Tick first = 0;
        std::uint32_t count = 0;
        bool has_jumped = false;  // the ticks before `first` were skipped
    };
    /// Moves P to `now`. The first call after hear() starts the clock with a lead computed from `rtt` and
    /// `rtt_var`. After a pause of more than kPause, or if more than kMostTicks begin at once, P jumps, and
    /// the ticks in between are skipped.
    Advance advance(net::Time now, net::Duration rtt, net::Duration rtt_var);

    /// Starts a shift: changes the lead by `by` (positive: more lead), gradually unless the change is large.
    /// The first shift corrects the estimate of advance(), and is done as fast as possible. If an earlier
    /// shift has not finished, its rest is dropped.
    void shift(net::Duration by);
    /// Number of finished shifts, modulo 2.
    bool shift_parity() const { return shift_parity_; }

    bool is_running() const { return is_running_; }
    /// P without its fraction. Requires is_running().
    Tick tick() const { return timeline_.wrapped(tick_); }
    /// The fraction of tick() that has passed, in [0, 1].
    double fraction() const { return position_ - static_cast<double>(tick_); }
    /// Time by which P is ahead of the newest tick whose state can have arrived. It includes the delay of the
    /// path from the server.
    net::Duration lead(net::Time now) const {
        return Timeline::from_ms((position_ - timeline_.position(now)) * tick_ms_);
    }

    // Longest time between two calls of advance() without a jump. P stops for a shift back by more than this.
    static constexpr net::Duration kPause = std::chrono::milliseconds(250);
    // A shift forward by more than this is done at once.
    static constexpr net::Duration kSetForward = std::chrono::milliseconds(100);
    static constexpr std::int64_t kMostTicks = 64;  // in one update

private:
    void pass(double passed_ms);

    static constexpr double kSlowest = -0.03, kFastest = 0.08;  // limits of the change of P's rate
    static constexpr double kShiftMs = 500;  // duration of a shift; longer if the rate limits it
    static constexpr double kLeast = 0.01;   // least change of the rate during a shift

    Timeline timeline_;
    double tick_ms_;
    bool is_running_ = false, shift_parity_ = false, is_shifting_ = false, is_first_shift_ = true;
    net::Time last_{0};      // argument of the last advance()
    double position_ = 0;    // P, counted from the timeline's first tick
    std::int64_t tick_ = 0;  // position_ rounded down
    double lead_ticks_ = 0;  // at last_: position_ minus the position of the timeline
    double shift_ms_ = 0;    // the rest of the shift
};

}  // namespace shoal::replication::all
