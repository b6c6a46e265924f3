#pragma once
// Tells the old value together with the new one, for an index by value: a team, a cell, a name.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hooks.h"
#include "world.h"

namespace shoal::ecs::impl {

/// Keeps a copy of each value of T, and calls fn(Entity, const T* old, const T* now) when the hooks of T are
/// called: for each value that is added (`old` is null), written, or removed (`now` is null).
/// `old` is what the last call for this entity passed as `now`. Calls it for the values that exist at the
/// beginning, too.
/// Must not outlive its world, and cannot be moved.
template <class T>
class OldValues {
public:
    template <class Fn>
    OldValues(World& world, Fn fn) {
        static_assert(Value<T> && std::is_copy_constructible_v<T>,
                      "a component with a value that can be copied");
        const auto tell = [this, fn = std::make_shared<Fn>(std::move(fn))](Entity entity, const T* now) {
            if (entity.index >= kept_.size()) kept_.resize(entity.index + std::size_t{1});
            const std::optional<T> old = std::move(kept_[entity.index]);
            kept_[entity.index].reset();
            if (now != nullptr) kept_[entity.index].emplace(*now);
            (*fn)(entity, old ? &*old : nullptr, now);
        };
        const auto written = [tell](World&, Entity entity, const T& now) { tell(entity, &now); };
        added_ = world.on_add<T>(written);
        changed_ = world.on_change<T>(written);
        removed_ = world.on_remove<T>([tell](World&, Entity entity, const T&) { tell(entity, nullptr); });
        world.each_entity([&](Entity entity) {
            if (const T* value = world.try_get<T>(entity)) tell(entity, value);
        });
    }
    OldValues(const OldValues&) = delete;
    OldValues& operator=(const OldValues&) = delete;

private:
    std::vector<std::optional<T>> kept_;  // by entity index
    Hook added_, changed_, removed_;
};

}  // namespace shoal::ecs::impl

namespace shoal::ecs {
using impl::OldValues;
}  // namespace shoal::ecs
