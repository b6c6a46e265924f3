#pragma once
// How a client shows an entity that it predicts: between the entity's last two ticks, and without a jump
// after a correction.

#include <vector>

#include "../../ecs/world.h"
#include "../../net/endpoint.h"
#include "../schema/schema.h"
#include "../show/mixer.h"

namespace shoal::replication::impl {

/// Computes the shown numbers of predicted components with a Display. After a correction, the old shown value
/// minus the new value is the error. It is added to the shown value, and shrinks to about a third in each
/// kDecay. Angles and rotations take the shorter way. Not thread-safe.
class Smoothing {
public:
    static constexpr net::Duration kDecay = std::chrono::milliseconds(100);

    /// World and schema must outlive this object.
    Smoothing(ecs::World& world, const Schema& schema);

    /// What is needed to show one entity.
    struct Shown {
        std::vector<double> previous, current;  // values of the last two ticks, by index of the number
        std::vector<double> error;              // added to the shown values
        std::vector<double> before;             // shown values before a jump
        // By component: `current` has its values; `before` has its values.
        std::vector<bool> is_known, was_shown;
    };

    /// Reads the entity's values after a step from the world. Call it once for each tick that was computed.
    void take_tick(ecs::Entity entity, Shown& shown) const;
    /// A jump is a correction, or the computation of several ticks in one update. Call begin_jump() before it
    /// and end_jump() after it. `fraction`: the part of the newest tick that has passed, in [0, 1].
    void begin_jump(Shown& shown, double fraction) const;
    void end_jump(Shown& shown, double fraction) const;
    /// In place of begin_jump() when an entity begins to be predicted. drawn(type, value) changes `value`, a
    /// component of this C++ type, to what was drawn of the entity before.
    template <class Drawn>
    void begin(ecs::Entity entity, Shown& shown, Drawn&& drawn) const;
    /// Drops the error and the earlier values: the next values are shown unchanged.
    void forget(Shown& shown) const { shown = Shown{}; }
    void decay(Shown& shown, net::Duration passed) const;

    /// Changes the numbers of `value` to the shown numbers. `value` is a component of this C++ type.
    void show(const Shown& shown, double fraction, const void* type, void* value) const;

    /// A predicted component with a Display.
    struct Component {
        const void* type;
        ecs::ComponentId id;
        std::size_t first;  // index of the component's first number
        std::size_t size;   // bytes of a value
        Display display;
        FloatFields numbers;
    };
    const std::vector<Component>& components() const { return components_; }

private:
    void resize(Shown& shown) const;

    static double mixed(const Shown& shown, std::size_t number, double fraction) {
        return shown.previous[number] + (shown.current[number] - shown.previous[number]) * fraction;
    }
    static void align(const Component& component, const std::vector<double>& to, std::vector<double>& numbers,
                      std::vector<double>* offsets = nullptr);

    ecs::World& world_;
    std::vector<Component> components_;
    std::size_t count_ = 0;                 // number of all numbers
    mutable std::vector<double> scratch_;   // the numbers of a component
    mutable std::vector<std::byte> bytes_;  // a value of a component
};

template <class Drawn>
void Smoothing::begin(ecs::Entity entity, Shown& shown, Drawn&& drawn) const {
    resize(shown);
    for (std::size_t i = 0; i < components_.size(); ++i) {
        const Component& component = components_[i];
        const auto* const value = static_cast<const std::byte*>(world_.try_get(entity, component.id));
        shown.was_shown[i] = value != nullptr;
        if (!value) continue;
        bytes_.assign(value, value + component.size);
        if (component.display.kind != Display::Kind::own) drawn(component.type, bytes_.data());
        for (std::size_t n = 0; n < component.numbers.all.size(); ++n)
            shown.before[component.first + n] = component.numbers.all[n].load(bytes_.data());
    }
}

}  // namespace shoal::replication::impl
