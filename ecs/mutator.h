#pragma once
// What a structural change does, and in which order: hooks, moves of rows, values.

#include <cstdint>
#include <span>
#include <vector>

#include "archetype_graph.h"
#include "commands.h"
#include "component.h"
#include "entity.h"
#include "hook_dispatch.h"

namespace shoal::ecs {

/// Makes the structural changes of one world, each at once. Requires that nothing is deferred, and that the
/// entities are alive. Values are moved from.
class Mutator {
public:
    /// All of them must outlive it.
    Mutator(World& world, EntityTable& entities, ComponentTable& components, ArchetypeGraph& archetypes,
            HookDispatch& hooks, CommandQueue& commands)
        : world_(world),
          entities_(entities),
          components_(components),
          archetypes_(archetypes),
          hooks_(hooks),
          commands_(commands) {}

    /// A new last row for an entity that has none. Its values are the caller's to construct.
    std::uint32_t append(Entity entity, Archetype& archetype) {
        const std::uint32_t row = archetype.append(entity);
        entities_.move_to(entity, {archetype.index(), row});
        return row;
    }

    /// The last `count` rows from `first` have all their values: stamps them, and runs their add hooks.
    void complete_spawn(Archetype& archetype, std::uint32_t first, std::uint32_t count);

    void spawn(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values);
    void set(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values);
    void add(Entity entity, EntityTable::Place place, const KnownComponent& component, void* value);

    /// Those that the entity has.
    void remove(Entity entity, std::span<const ComponentId> ids);
    void remove(Entity entity, ComponentId id);
    void remove(Entity entity, std::uint32_t row, Archetype& from, const Column& column);

    /// The entity and all that dies with it.
    void destroy(Entity entity, EntityTable::Place place);
    /// Those that are alive when it is their turn.
    void destroy_all(std::span<const Entity> entities);

    /// The entity whose destruction hooks are being told of; null if none is.
    Entity dying() const { return dying_; }
    /// The entity whose removal hooks are being told of, and what it loses.
    Entity losing() const { return removing_.entity; }
    std::span<const ComponentId> lost() const { return removing_.ids; }

private:
    /// What can be had of what a command brings.
    struct Possible {
        std::span<const ComponentId> ids;
        std::span<void* const> values;
        std::vector<ComponentId> kept_ids{};
        std::vector<void*> kept_values{};
    };
    void keep_possible(Possible& given);
    std::span<const ComponentId> replaced_by(std::span<const ComponentId> ids, const Archetype& from);
    void fire_removes(const Archetype& archetype, std::uint32_t row, std::span<const ComponentId> ids);
    void tell_of_destruction(Entity entity);
    void destroy_one(Entity entity, EntityTable::Place place, bool is_target);
    std::vector<Entity> cascade(Entity root);
    std::uint32_t move_row(Entity entity, std::uint32_t row, Archetype& from, Archetype& to);

    World& world_;
    EntityTable& entities_;
    ComponentTable& components_;
    ArchetypeGraph& archetypes_;
    HookDispatch& hooks_;
    CommandQueue& commands_;

    Entity dying_;
    struct Removing {
        Entity entity;
        std::span<const ComponentId> ids;
    };
    Removing removing_;
    std::vector<ComponentId> replaced_;  // scratch of set()
    std::vector<std::uint8_t> marks_;    // scratch of cascade(), by entity index
};

}  // namespace shoal::ecs
