#include "local_writes.h"

#include <algorithm>
#include <span>

namespace shoal::replication::impl {

LocalWrites::LocalWrites(Binding& binding, const Replicas& replicas, const OnLocalWrite& on_local_write)
    : replicas_(replicas), on_local_write_(on_local_write) {
    if (!on_local_write) return;
    for (std::size_t i = 0; i < binding.ids().size(); ++i)
        watch(binding.world(), binding.ids()[i], binding.schema().components()[i],
              static_cast<ComponentIndex>(i));
}

void LocalWrites::watch(ecs::World& world, ecs::ComponentId id, const SchemaComponent& component,
                        ComponentIndex component_index) {
    using Entities = std::span<const ecs::Entity>;
    const std::string_view name = component.name;
    const bool is_owners = component.role == Role::owner;
    const auto tell = [this, name, is_owners, component_index](Entities entities) {
        if (pauses_ != 0) return;
        for (const ecs::Entity entity : entities) {
            const std::uint32_t index = replicas_.ids().find(entity);
            if (index == Replicas::kNone) continue;
            // The owner of an entity decides this component.
            if (is_owners && std::ranges::count(replicas_[index].held, component_index) != 0) continue;
            count_ += 1;
            on_local_write_(entity, name);
        }
    };
    const auto on_value = [tell](ecs::World&, Entities entities, const void*) { tell(entities); };
    hooks_.push_back(world.on(ecs::HookKind::add, id, on_value));
    hooks_.push_back(world.on(ecs::HookKind::change, id, on_value));
    hooks_.push_back(world.on(ecs::HookKind::remove, id,
                              [tell](ecs::World&, Entities entities, const void*, ecs::Removal why) {
                                  if (why == ecs::Removal::component) tell(entities);
                              }));
}

}  // namespace shoal::replication::impl
