#pragma once
// A point of the server's time, between two ticks.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "../schema/image.h"

namespace shoal::replication::impl {

struct RenderTime {
    Tick tick = 0;
    float fraction = 0;  // in [0, 1): the part of the time from `tick` to the next tick that has passed

    static constexpr std::uint32_t kLagsPerTick = 16;
    /// Returns the lag: by how much this time is before `later`, in 1 / kLagsPerTick of a tick. 0 if it is
    /// not before.
    std::uint32_t lag(Tick later) const {
        const double ticks = static_cast<double>(static_cast<std::int32_t>(later - tick)) - fraction;
        return static_cast<std::uint32_t>(std::clamp(std::round(ticks * kLagsPerTick), 0.0, 4e9));
    }
};

}  // namespace shoal::replication::impl
