#pragma once
// What a client shows of a replica between two of its versions.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../history/replicas.h"
#include "../schema/schema.h"
#include "render_clock.h"

namespace shoal::replication {

/// Mixes the two versions around the render time, for components with a Display. Not thread-safe.
///
/// A replica's interval is the mean time between its last versions. Up to two intervals between two versions
/// are mixed as a whole. After a longer time the entity stood still, and is shown moving during the last
/// interval before the newer version. Versions are not mixed across a teleport, and if the entity got another
/// target of an exclusive destroy_with_target relation in between: its place may be relative to the target's.
///
/// While state of the render time is missing, the last change goes on, for at most two intervals or 100 ms.
class Interpolator {
public:
    static constexpr net::Duration kMaxExtrapolation{100'000};

    /// Schema and replicas must outlive the interpolator.
    Interpolator(const Schema& schema, Replicas& replicas);

    /// Whether the schema has a component with a Display.
    bool is_needed() const { return !shown_.empty(); }

    /// The length of a tick, in microseconds; >= 1. Call it before the first set_time().
    void set_tick_us(std::uint32_t tick_us);
    /// `time` is shown from now on. `newest` is the tick of the newest payload.
    void set_time(const RenderTime& time, Tick newest);

    /// `value` is the component of this C++ type that the world has. Changes its numbers to those at the
    /// time to show. No effect if the component is not one to mix.
    void mix(ecs::Entity entity, const void* type, void* value) const;

private:
    struct Number {
        std::uint32_t offset;  // in the component
        bool is_double;
    };
    struct Shown {
        const void* type;
        ComponentIndex component;
        std::vector<Number> numbers;
        std::vector<std::size_t> directions;  // first numbers of those that are three of a unit vector
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
