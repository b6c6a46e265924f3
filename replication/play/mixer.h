#pragma once
// Values between two versions of an entity: what clients show, and what the server says they showed.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "../history/history.h"
#include "../schema/schema.h"
#include "render_clock.h"

namespace shoal::replication {

/// Mixes components with a Display. Not thread-safe.
///
/// An entity's interval is the mean time between its last versions. Up to two intervals between two versions
/// are mixed as a whole. After a longer time the entity stood still, and is shown moving during the last
/// interval before the newer version. Versions are not mixed across a teleport, and if the entity got another
/// target of an exclusive destroy_with_target relation in between: its place may be relative to the target's.
///
/// While state of the render time is missing, the last change goes on, for at most two intervals or 100 ms.
class Mixer {
public:
    static constexpr net::Duration kMaxExtrapolation{100'000};

    /// The schema must outlive the mixer.
    explicit Mixer(const Schema& schema);

    /// Whether the schema has a component with a Display.
    bool is_needed() const { return !shown_.empty(); }
    /// The length of a tick, in microseconds; >= 1. Call it before the first find().
    void set_tick_us(std::uint32_t tick_us);

    /// The versions around a time to show.
    struct Around {
        Version shown;                // the newest one that is not after the time
        std::optional<Version> next;  // the one after it
        std::optional<Version> before;
        float mean_gap = 0;    // mean of ticks between versions, without long gaps; 0: unknown
        Tick newest = 0;       // of the newest state
        bool is_last = false;  // there is no version after `shown`, because the entity ends
    };
    /// The result is `from` + (`to` - `from`) * weight.
    struct Mix {
        Image from, to;
        float weight = 0;
    };
    /// Returns false if the version `shown` is shown as it is.
    bool find(const Around& around, const RenderTime& time, Mix& mix) const;

    /// Whether components of this C++ type have a Display. If so, sets `component` to their index.
    bool shows(const void* type, ComponentIndex& component) const;
    /// Changes the numbers of `value`, a component for which shows() is true. No effect if the images are not
    /// to be mixed. `map` translates the references in them.
    void mix(ComponentIndex component, const Mix& mix, EntityMap& map, void* value) const;

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

    bool is_one_journey(const Image& a, const Image& b) const;
    void mix_numbers(const Shown& shown, float weight, void* value) const;
    void mix_rotations(const Shown& shown, float weight, void* value) const;

    const Schema& schema_;
    std::vector<Shown> shown_;
    std::vector<ComponentIndex> parents_;  // exclusive relations with destroy_with_target
    ComponentIndex teleports_ = kUnknownComponent;
    float most_extrapolated_ = 0;               // ticks
    mutable std::vector<std::byte> from_, to_;  // the fields of a component
};

}  // namespace shoal::replication
