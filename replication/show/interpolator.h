#pragma once
// Computes the values that a client shows of a replica between two versions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "../history/replicas.h"
#include "../schema/schema.h"
#include "mixer.h"
#include "render_clock.h"

namespace shoal::replication::impl {

/// Mixes the two versions around the render time, for components with a Display: see Mixer. Not thread-safe.
///
/// When state arrives after the state of the render time was missing, the value that was shown last is
/// blended into the right one. The blend takes as long as the state was missing, at most 100 ms. If the next
/// version comes after a gap (Mixer::is_long_gap()), the blend lasts until that version, at most 250 ms. When
/// the client ceases to predict an entity, its predicted values are blended into the interpolated ones for
/// 250 ms.
class Interpolator {
public:
    /// Schema and replicas must outlive the interpolator.
    Interpolator(const Schema& schema, Replicas& replicas)
        : schema_(schema), mixer_(schema), replicas_(replicas) {}

    /// Returns whether the schema has a component with a Display.
    bool is_needed() const { return mixer_.is_needed(); }

    /// Sets the length of a tick, in microseconds; >= 1. Call it before the first set_time().
    void set_tick_us(std::uint32_t tick_us) { mixer_.set_tick_us(tick_us); }
    /// Sets the render time. `newest` is the tick of the newest payload. When no state has been missing for
    /// 250 ms, forgets the entities that are gone.
    void set_time(const RenderTime& time, Tick newest);

    /// Forgets what was shown, before a new connection.
    void reset() {
        blends_.clear();
        last_missing_.reset();
        has_time_ = false;
    }

    /// Changes the numbers of `value` to those at the render time. `value` is a copy of the entity's
    /// component of this C++ type. No effect if the component has no Display, or if the entity is not shown
    /// as of the render time.
    void mix(ecs::Entity entity, const void* type, void* value) const;

    /// Blends `drawn`, what was drawn of a component of this C++ type last, into what mix() shows from now
    /// on. `drawn` has the bytes of a value. No effect for replicas that are not in the world, without a
    /// render time, and for a Display that is shown_by().
    void blend_from(ecs::Entity entity, const void* type, std::span<const std::byte> drawn);

    /// Call it before a version arrives with which the world will jump. What was shown of the replica last is
    /// blended into what is shown from now on.
    void keep_shown(std::uint32_t index);

    /// For tests: number of components of which something is kept to blend them.
    std::size_t blend_count() const { return blends_.size(); }

private:
    /// What was shown of a component while its state was missing.
    struct Blend {
        NetId net_id = 0;
        bool is_missing = false;        // the state was missing at the last mix()
        Tick shown = 0;                 // the version that was shown then
        RenderTime since, until;        // first and last render time at which it was missing
        std::uint64_t continuity = 0;   // Mixer::continuity() at `until`
        std::vector<std::byte> latest;  // the value shown at `until`
        // The blend, if ticks > 0: from the value `from`, shown at `start`.
        float ticks = 0;
        RenderTime start;
        std::vector<std::byte> from;
    };

    bool can_blend(ComponentIndex component) const;
    bool is_at_render_time(const Replicas::Replica& replica) const;
    Mixer::Around around(const Replicas::Replica& replica) const;
    void begin_blend(std::uint32_t index, ComponentIndex component, std::span<const std::byte> from);
    void blend(std::uint32_t index, ComponentIndex component, const Mixer::Around& around, bool is_missing,
               void* value) const;

    const Schema& schema_;
    Mixer mixer_;
    Replicas& replicas_;
    RenderTime time_;
    Tick newest_ = 0;
    bool has_time_ = false;
    mutable std::unordered_map<std::uint64_t, Blend> blends_;  // by index of the replica, and component
    std::vector<std::byte> kept_;                              // scratch of keep_shown()
    mutable std::optional<RenderTime> last_missing_;           // render time at which any state was missing
};

}  // namespace shoal::replication::impl
