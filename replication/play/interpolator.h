#pragma once
// Computes the values that a client shows of a replica between two versions.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../history/replicas.h"
#include "../schema/schema.h"
#include "render_clock.h"

namespace shoal::replication {

/// Mixes the two versions around the render time, for components with a Display. Not thread-safe.
///
/// A replica's interval is the mean time between its last versions. If two versions are at most two intervals
/// apart, the values change during the whole time between them. If they are further apart, the entity stood
/// still for a time: the values change only during the last interval before the newer version. Two versions
/// are not mixed if there was a teleport between them. They are not mixed either if the target of an
/// exclusive destroy_with_target relation changed: the entity's place may be relative to this target.
///
/// While the state of the render time is missing, the values continue to change as they did last, for at most
/// two intervals and at most 100 ms.
class Interpolator {
public:
    static constexpr net::Duration kMaxExtrapolation{100'000};

    /// Schema and replicas must outlive the interpolator.
    Interpolator(const Schema& schema, Replicas& replicas);

    /// Returns whether the schema has a component with a Display.
    bool is_needed() const { return !shown_.empty(); }

    /// Sets the length of a tick, in microseconds; >= 1. Call it before the first set_time().
    void set_tick_us(std::uint32_t tick_us);
    /// Sets the render time. `newest` is the tick of the newest payload.
    void set_time(const RenderTime& time, Tick newest);

    /// Changes the numbers of `value` to those at the render time. `value` is a copy of the entity's
    /// component of this C++ type. No effect if the component has no Display.
    void mix(ecs::Entity entity, const void* type, void* value) const;

private:
    struct Number {
        std::uint32_t offset;  // in the component, in bytes
        bool is_double;
    };
    struct Shown {
        const void* type;
        ComponentIndex component;
        std::vector<Number> numbers;
        std::vector<std::size_t> directions;  // for each unit vector: the index of its first number
    };
    /// The result is `from` + (`to` - `from`) * weight.
    struct Mix {
        Image from, to;
        float weight = 0;
    };

    bool find_mix(const Replicas::Replica& replica, Mix& mix) const;
    bool is_one_journey(const Image& a, const Image& b) const;
    void mix_numbers(const Shown& shown, float weight, void* value) const;
    void mix_rotations(const Shown& shown, float weight, void* value) const;

    const Schema& schema_;
    Replicas& replicas_;
    std::vector<Shown> shown_;
    std::vector<ComponentIndex> parents_;  // exclusive relations with destroy_with_target
    ComponentIndex teleports_ = kUnknownComponent;
    RenderTime time_;
    Tick newest_ = 0;
    float most_extrapolated_ = 0;               // ticks
    mutable std::vector<std::byte> from_, to_;  // the fields of a component
};

}  // namespace shoal::replication
