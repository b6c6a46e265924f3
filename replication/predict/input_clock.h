#pragma once
// A client's clock for inputs. It gives the tick P for which the inputs of this moment are meant. P is ahead
// of the server's tick, so that inputs arrive before the server needs them.

#include <cstdint>
#include <optional>

#include "../receive/server_clock.h"

namespace shoal::replication::all {

/// P never decreases. It keeps the wanted lead, see LeadMeter. If P must change, it runs faster or slower. It
/// stands while no state arrives. Not thread-safe.
class InputClock {
public:
    /// The ticks that begin in an update.
    struct Advance {
        Tick first = 0;
        std::uint32_t count = 0;
        bool has_jumped = false;  // the ticks before `first` were skipped
    };
    /// Moves P to `now`. Requires that the server's clock runs. The first call starts P with a lead computed
    /// from `rtt` and `rtt_var`. While `lead` is empty, it is kept, or is less if they become less. If P is
    /// behind by more than kAtOnce, or after it stood, after a pause of more than kPause, and while the
    /// server's clock settles, P is set at once. If P is ahead by more than kAtOnce, it stands. If ticks of
    /// more than kMaxAtOnce begin at once, or more than kMaxTicks, all but the last one are skipped.
    Advance advance(const ServerClock& server, std::optional<double> lead, net::Time now, net::Duration rtt,
                    net::Duration rtt_var);

    bool is_running() const { return is_running_; }
    /// P in ticks from the first tick that the server's clock heard. Requires is_running().
    double position() const { return position_; }
    /// The position of the last tick that began. Requires is_running().
    std::int64_t tick() const { return tick_; }

    static constexpr net::Duration kPause = std::chrono::milliseconds(250);
    static constexpr net::Duration kAtOnce = std::chrono::milliseconds(100);
    static constexpr net::Duration kMaxAtOnce = std::chrono::milliseconds(500);
    static constexpr std::int64_t kMaxTicks = 32;  // what a packet can carry, see InputLog

private:
    static constexpr double kMinChange = 0.01, kMaxChange = 0.15;  // change of P's rate while it is wrong
    // In about this time an error is corrected: if P is behind, inputs are late.
    static constexpr net::Duration kIfBehind = std::chrono::milliseconds(100);
    static constexpr net::Duration kIfAhead = std::chrono::milliseconds(500);

    bool is_running_ = false, has_stood_ = false;
    net::Time last_{0};      // argument of the last advance()
    double position_ = 0;    // P
    std::int64_t tick_ = 0;  // position_ rounded down
    double lead_ = 0;
};

}  // namespace shoal::replication::all
