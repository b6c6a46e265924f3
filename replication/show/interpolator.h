#pragma once
// Computes the values that a client shows of a replica between two versions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "../history/replicas.h"
#include "../schema/schema.h"
#include "mixer.h"
#include "render_clock.h"

namespace shoal::replication {

/// Mixes the two versions around the render time, for components with a Display: see Mixer. Not thread-safe.
///
/// When the state of the render time arrives after it was missing, the value that was shown last is blended
/// into the right one. The blend takes as long as the state was missing, at most 100 ms. If the next version
/// comes after a gap (Mixer::is_long_gap()), the blend lasts until that version, at most 250 ms.
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
    }

    /// Changes the numbers of `value` to those at the render time. `value` is a copy of the entity's
    /// component of this C++ type. No effect if the component has no Display, or if the entity is not shown
    /// as of the render time.
    void mix(ecs::Entity entity, const void* type, void* value) const;

    /// For tests: number of components of which something is kept to blend them.
    std::size_t blend_count() const { return blends_.size(); }

private:
    /// What was shown of a component while its state was missing.
    struct Blend {
        NetId net_id = 0;
        bool is_missing = false;        // the state was missing at the last mix()
        RenderTime since, until;        // first and last render time at which it was missing
        std::uint64_t continuity = 0;   // Mixer::continuity() at `until`
        std::vector<std::byte> latest;  // the value shown at `until`
        // The blend, if ticks > 0: from the value `from`, shown at `start`.
        float ticks = 0;
        RenderTime start;
        std::vector<std::byte> from;
    };

    void blend(std::uint32_t index, ComponentIndex component, const Mixer::Around& around, bool is_missing,
               void* value) const;

    const Schema& schema_;
    Mixer mixer_;
    Replicas& replicas_;
    RenderTime time_;
    Tick newest_ = 0;
    mutable std::unordered_map<std::uint64_t, Blend> blends_;  // by index of the replica, and component
    mutable std::optional<RenderTime> last_missing_;           // render time at which any state was missing
};

}  // namespace shoal::replication
