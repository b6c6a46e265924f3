#pragma once
// The steps of each structural change: hook calls, moves of rows, construction and destruction of values.

#include <cstdint>
#include <span>
#include <vector>

#include "archetype_graph.h"
#include "commands.h"
#include "component.h"
#include "entity.h"
#include "hook_dispatch.h"

namespace shoal::ecs::impl {

/// Makes the structural changes of one world immediately; the caller queues changes that must wait. Requires
/// that the entities are alive, that no hook runs and that nothing iterates over the world. Exception: a
/// set() that only overwrites values may run at any time. Arguments named value or values are moved from.
class Mutator {
public:
    /// All arguments must outlive the object.
    Mutator(World& world, EntityTable& entities, ComponentTable& components, ArchetypeGraph& archetypes,
            HookDispatch& hooks, CommandQueue& commands)
        : world_(world),
          entities_(entities),
          components_(components),
          archetypes_(archetypes),
          hooks_(hooks),
          commands_(commands) {}

    /// Adds a last row, stamped with the world's tick, for an entity that has no row. The caller must
    /// construct its values.
    std::uint32_t append(Entity entity, Archetype& archetype, std::uint64_t tick) {
        const std::uint32_t row = archetype.append(entity, tick);
        entities_.move_to(entity, {archetype.index(), row});
        return row;
    }

    /// Calls the add hooks of the `count` rows from `first`, whose values are all constructed. Requires that
    /// they are the last rows.
    void complete_spawn(Archetype& archetype, std::uint32_t first, std::uint32_t count);

    void spawn(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values);
    void set(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values);
    /// Adds one component. Requires that the entity lacks it. Not for pairs.
    void add(Entity entity, EntityTable::Place place, const KnownComponent& component, void* value);
    /// Fast path of add(), with the world's tick. Returns false and does nothing if the entity is not in the
    /// archetype from which component.last_step begins, if that step is not small, or if add hooks are
    /// connected.
    bool add_fast(Entity entity, EntityTable::Place place, const KnownComponent& component, const void* value,
                  std::uint64_t tick) {
        const ArchetypeStep& step = component.last_step;
        if (step.index_without != place.archetype || !step.is_small || component.has_hook(HookKind::add))
            return false;
        Archetype::add_small(step, entity, place.row, value, tick, entities_);
        return true;
    }

    /// Removes components. Ids of components that the entity lacks are ignored.
    void remove(Entity entity, std::span<const ComponentId> ids);
    /// Removes one component. Requires that the entity has it. Not for pairs.
    void remove(Entity entity, EntityTable::Place place, const KnownComponent& component);
    /// Fast path of remove(), see add_fast().
    bool remove_fast(Entity entity, EntityTable::Place place, const KnownComponent& component,
                     std::uint64_t tick) {
        const ArchetypeStep& step = component.last_step;
        if (step.index_with != place.archetype || !step.is_small || component.has_hook(HookKind::remove))
            return false;
        Archetype::remove_small(step, entity, place.row, tick, entities_);
        return true;
    }

    /// Destroys the entity. Before this, destroys all entities with a destroy_with_target pair to it, and in
    /// the same way the sources of these entities, and so on.
    void destroy(Entity entity, EntityTable::Place place);
    /// Destroys entities in order. Skips an entity that is dead when its turn comes.
    void destroy_all(std::span<const Entity> entities);

    /// The entity that is being destroyed; null if none.
    Entity dying() const { return dying_; }
    /// The entity whose remove hooks run now, if it stays alive; else null.
    Entity losing() const { return removing_.entity; }
    /// The ids that the operation removes from losing(). The entity may lack some of them. Empty if losing()
    /// is null.
    std::span<const ComponentId> lost() const { return removing_.ids; }
    /// The entity whose row is moving between archetypes; null if there is none.
    Entity moving() const { return moving_; }

private:
    /// The components given to spawn() or set(). keep_possible() removes those that cannot be added: pairs
    /// with a dead target, and all but the first pair of each exclusive relation.
    struct Possible {
        std::span<const ComponentId> ids;
        std::span<void* const> values;
        std::vector<ComponentId> kept_ids{};
        std::vector<void*> kept_values{};
    };
    void keep_possible(Possible& given);
    std::span<const ComponentId> replaced_by(std::span<const ComponentId> ids, const Archetype& from);
    void fire_removes(const Archetype& archetype, std::uint32_t row, std::span<const ComponentId> ids);
    void fire_remove(Entity entity, const Column& column, std::uint32_t row,
                     std::span<const ComponentId> ids);
    void report_destruction(Entity entity);
    bool calls_hooks(const Archetype& archetype) const;
    void destroy_one(Entity entity, EntityTable::Place place, bool is_target);
    void destroy_with_hooks(Entity entity);
    void release(Entity entity, EntityTable::Place place);
    std::vector<Entity> cascade(Entity root);
    std::uint32_t move_row(Entity entity, std::uint32_t row, Archetype& from, Archetype& to);

    World& world_;
    EntityTable& entities_;
    ComponentTable& components_;
    ArchetypeGraph& archetypes_;
    HookDispatch& hooks_;
    CommandQueue& commands_;

    Entity dying_, moving_;
    struct Removing {
        Entity entity;
        std::span<const ComponentId> ids;
    };
    Removing removing_;
    std::vector<ComponentId> replaced_;  // result of replaced_by()
    std::vector<std::uint8_t> marks_;    // scratch of cascade(), by entity index
};

}  // namespace shoal::ecs::impl
