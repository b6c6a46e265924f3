#pragma once
// Computes the values that a client shows of a replica between two versions.

#include <cstdint>

#include "../history/replicas.h"
#include "../schema/schema.h"
#include "mixer.h"
#include "render_clock.h"

namespace shoal::replication {

/// Mixes the two versions around the render time, for components with a Display: see Mixer. Not thread-safe.
class Interpolator {
public:
    /// Schema and replicas must outlive the interpolator.
    Interpolator(const Schema& schema, Replicas& replicas) : mixer_(schema), replicas_(replicas) {}

    /// Returns whether the schema has a component with a Display.
    bool is_needed() const { return mixer_.is_needed(); }

    /// Sets the length of a tick, in microseconds; >= 1. Call it before the first set_time().
    void set_tick_us(std::uint32_t tick_us) { mixer_.set_tick_us(tick_us); }
    /// Sets the render time. `newest` is the tick of the newest payload.
    void set_time(const RenderTime& time, Tick newest);

    /// Changes the numbers of `value` to those at the render time. `value` is a copy of the entity's
    /// component of this C++ type. No effect if the component has no Display.
    void mix(ecs::Entity entity, const void* type, void* value) const;

private:
    Mixer mixer_;
    Replicas& replicas_;
    RenderTime time_;
    Tick newest_ = 0;
};

}  // namespace shoal::replication
