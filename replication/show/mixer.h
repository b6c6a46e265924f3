#pragma once
// Values between two versions of an entity: what clients show, and what the server says they showed.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "../history/history.h"
#include "../play/struct_codec.h"
#include "../schema/schema.h"
#include "render_clock.h"

namespace shoal::replication::impl {

/// A float or double in a component.
struct FloatField {
    std::uint32_t offset;  // in the component, in bytes
    FieldType type;

    double load(const void* component) const { return load_float(type, component, offset); }
    void store(void* component, double number) const { store_float(type, component, offset, number); }
};

/// The floats and doubles of a component, in the order of its fields.
struct FloatFields {
    explicit FloatFields(const ComponentLayout& layout);

    std::vector<FloatField> all;
    std::vector<std::size_t> directions;  // for each unit vector: the index of its first number
};

/// Scales a vector of `size` numbers to the length 1. Returns false, without effect, if its length is 0 or
/// NaN.
bool normalise(double* numbers, std::size_t size);

/// Mixes components with a Display. Not thread-safe.
///
/// An entity's interval is the mean time between its last versions. If two versions are at most two intervals
/// apart, the values change during the whole time between them. If they are further apart, the entity stood
/// still for a time: the values change only during the last interval before the newer version. Two versions
/// are not mixed if there was a teleport between them. They are not mixed either if the target of an
/// exclusive destroy_with_target relation changed: the entity's place may be relative to this target.
///
/// While the state of the time to show is missing, the values continue to change as they did last, for at
/// most two intervals and at most 100 ms.
class Mixer {
public:
    static constexpr net::Duration kMaxExtrapolation{100'000};

    /// The schema must outlive the mixer.
    explicit Mixer(const Schema& schema);

    /// Returns whether the schema has a component with a Display.
    bool is_needed() const { return !shown_.empty(); }
    /// Sets the length of a tick, in microseconds; >= 1. Call it before the first find().
    void set_tick_us(std::uint32_t tick_us);

    /// The versions around a time to show.
    struct Around {
        Version shown;                  // the newest one that is not after the time
        std::optional<Version> next;    // the one after `shown`
        std::optional<Version> before;  // the one before `shown`
        float mean_gap = 0;             // mean of ticks between versions, without long gaps; 0: unknown
        Tick newest = 0;                // tick of the newest payload
        bool is_last = false;           // there is no version after `shown`, because the entity ends

        float interval() const { return mean_gap == 0 ? 1 : mean_gap; }
    };
    /// The result is `from` + (`to` - `from`) * weight. The weight is > 1 if the values continue after `to`.
    struct Mix {
        Image from, to;
        float weight = 0;
    };
    /// Finds the two images to mix. Returns false if the version `shown` is to be shown unchanged.
    bool find(const Around& around, const RenderTime& time, Mix& mix) const;

    /// Returns whether components of this C++ type have a Display. If so, sets `component` to their index.
    bool shows(const void* type, ComponentIndex& component) const;
    /// Calls fn(component) for each component with a Display.
    template <class Fn>
    void each_shown(Fn&& fn) const {
        for (const Shown& shown : shown_) fn(shown.component);
    }
    /// Changes `value`, a component for which shows() is true, to the mix. No effect if the images are not
    /// to be mixed. `map` translates the references in them.
    void mix(ComponentIndex component, const Mix& mix, EntityMap& map, void* value) const;

    /// Changes `value` to `before` + (`value` - `before`) * `weight`. `before` has the bytes of another
    /// value of this component. No effect if a number differs by more than its cut. Requires that the
    /// Display is not shown_by().
    void blend(ComponentIndex component, std::span<const std::byte> before, float weight, void* value) const;
    /// Returns a number that stands for the teleports of the entity and the targets of its exclusive
    /// destroy_with_target relations. Two images are mixed only if their numbers are equal.
    std::uint64_t continuity(const Image& image) const;
    /// Returns whether find() assumes that the entity stood still before the next version. Requires
    /// around.next.
    bool is_long_gap(const Around& around) const {
        return static_cast<float>(around.next->tick - around.shown.tick) > 2 * around.interval();
    }
    /// Returns whether the state after `shown` is missing: there is no next version, and no payload of a
    /// whole interval without a record of the entity, which would mean that its values have stopped.
    bool is_missing(const Around& around) const {
        return !around.next && !around.is_last &&
               static_cast<float>(around.newest - around.shown.tick) < std::round(around.interval());
    }
    /// kMaxExtrapolation in ticks.
    float most_extrapolated() const { return most_extrapolated_; }

private:
    struct Shown {
        const void* type;
        ComponentIndex component;
        FloatFields numbers;
        std::unique_ptr<StructValue> from, to;  // memory for shown_by(); else null
    };

    const Shown& shown(ComponentIndex component) const;
    void mix_fields(const Shown& shown, float weight, void* value) const;
    void mix_numbers(const Shown& shown, float weight, void* value) const;
    void mix_rotations(const Shown& shown, float weight, void* value) const;

    const Schema& schema_;
    std::vector<Shown> shown_;
    std::vector<ComponentIndex> parents_;  // exclusive relations with destroy_with_target
    ComponentIndex teleports_ = kUnknownComponent;
    float most_extrapolated_ = 0;               // ticks
    mutable std::vector<std::byte> from_, to_;  // the fields of a component
};

}  // namespace shoal::replication::impl
