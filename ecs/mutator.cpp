#include "mutator.h"

#include <algorithm>
#include <utility>

#include "world.h"

namespace shoal::ecs::impl {
namespace {

bool contains(std::span<const ComponentId> ids, ComponentId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// Returns whether ids[i] also occurs before `i`.
bool is_repeated(std::span<const ComponentId> ids, std::size_t i) {
    return contains(ids.first(i), ids[i]);
}

}  // namespace

/// Moves the entity's row from `from` to `to`, and returns the new row.
inline std::uint32_t Mutator::move_row(Entity entity, std::uint32_t row, Archetype& from, Archetype& to) {
    const std::uint32_t to_row = to.size();
    moving_ = entity;  // destructors and moves of its values may call operations on the entity
    if (const Entity moved = from.move(entity, row, to, world_.tick())) entities_.move_to(moved, row);
    entities_.move_to(entity, {to.index(), to_row});
    moving_ = {};
    return to_row;
}

void Mutator::add(Entity entity, EntityTable::Place place, const KnownComponent& component, void* value) {
    const World::Deferral deferral(world_);
    const ArchetypeStep& step = archetypes_.step_with(place.archetype, component);
    const std::uint32_t row = step.with->size();
    if (step.is_small) {
        Archetype::add_small(step, entity, place.row, value, world_.tick(), entities_);
    } else {
        move_row(entity, place.row, *step.without, *step.with);
        if (step.column->has_values()) component.construct(step.column->at(row), value);
    }
    hooks_.fire(world_, HookKind::add, *step.with, *step.column, row, 1);
    if (!step.is_small) archetypes_.free_if_rare(*step.without);
}

/// Returns the pairs that an entity in `from` loses because `ids` has other pairs of an exclusive relation.
std::span<const ComponentId> Mutator::replaced_by(std::span<const ComponentId> ids, const Archetype& from) {
    bool is_any = false;
    if (from.pairs().empty()) return {};
    for (const ComponentId id : ids) {
        if (!id.is_pair() || !includes(components_[id].relation, exclusive) || from.has(id)) continue;
        // Cleared only here: a remove hook of set() may call a set() that overwrites values. This inner set()
        // finds no pair to replace, and must not change replaced_, which the outer set() still uses.
        if (!std::exchange(is_any, true)) replaced_.clear();
        for (const Archetype::Pair& pair : from.pairs(components_.type_of(id)))
            replaced_.push_back(from.components()[pair.column]);
    }
    return is_any ? std::span<const ComponentId>(replaced_) : std::span<const ComponentId>{};
}

/// Removes pairs with a dead target, and all but the first pair of each exclusive relation, from `given`.
void Mutator::keep_possible(Possible& given) {
    const auto is_pair = [](ComponentId id) { return id.is_pair(); };
    if (std::none_of(given.ids.begin(), given.ids.end(), is_pair)) return;
    const PairTable& pairs = components_.pairs();
    if (given.ids.size() == 1 && pairs.is_current(given.ids[0])) return;
    for (std::size_t i = 0; i < given.ids.size(); ++i) {
        const ComponentId id = given.ids[i];
        const auto excludes_it = [&](ComponentId kept) {
            return kept != id && components_.type_of(kept) == components_.type_of(id);
        };
        if (id.is_pair() && !pairs.is_current(id)) {
            commands_.drop();
        } else if (!id.is_pair() || !includes(components_[id].relation, exclusive) ||
                   std::none_of(given.kept_ids.begin(), given.kept_ids.end(), excludes_it)) {
            given.kept_ids.push_back(id);
            given.kept_values.push_back(given.values[i]);
        }
    }
    given.ids = given.kept_ids;
    given.values = given.kept_values;
}

void Mutator::complete_spawn(Archetype& archetype, std::uint32_t first, std::uint32_t count) {
    for (const std::uint32_t last = first + count; first < last; first += count) {
        count = std::min(last - first, kBlockRows - first % kBlockRows);
        for (const Column& column : archetype.columns())
            hooks_.fire(world_, HookKind::add, archetype, column, first, count);
    }
}

void Mutator::spawn(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values) {
    const World::Deferral deferral(world_);
    Possible given{ids, values};
    keep_possible(given);
    Archetype& archetype = archetypes_.after(archetypes_[0], {}, given.ids);
    const std::uint32_t row = append(entity, archetype, world_.tick());
    for (std::size_t i = 0; i < given.ids.size(); ++i) {
        const ComponentId id = given.ids[i];
        if (components_[id].is_tag() || is_repeated(given.ids, i)) continue;
        components_[id].construct(archetype.find(id)->at(row), given.values[i]);
    }
    complete_spawn(archetype, row, 1);
}

void Mutator::set(Entity entity, std::span<const ComponentId> all_ids, std::span<void* const> all_values) {
    const World::Deferral deferral(world_);
    Possible given{all_ids, all_values};
    keep_possible(given);
    const auto ids = given.ids;
    const EntityTable::Place place = entities_.place(entity);
    Archetype& from = archetypes_[place.archetype];
    const auto replaced = replaced_by(ids, from);
    if (!replaced.empty()) fire_removes(from, place.row, replaced);
    Archetype& to = archetypes_.after(from, replaced, ids);
    const std::uint32_t row = &to == &from ? place.row : move_row(entity, place.row, from, to);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const ComponentType& type = components_[ids[i]];
        const bool is_new = !from.has(ids[i]);
        if (is_repeated(ids, i) || (type.is_tag() && !is_new)) continue;
        Column& column = *to.find(ids[i]);
        column.wrote(row, world_.tick());
        if (type.is_tag()) continue;
        is_new ? type.construct(column.at(row), given.values[i])
               : type.overwrite(column.at(row), given.values[i]);
    }
    for (const Column& written : to.columns()) {
        if (!contains(ids, written.id())) continue;
        if (!from.has(written.id())) {
            hooks_.fire(world_, HookKind::add, to, written, row, 1);
        } else if (written.type().has_hook(HookKind::change) && !written.type().is_tag()) {
            hooks_.fire_changed({world_, {&entity, 1}, written.at(row), &written, Removal::component});
        }
    }
    archetypes_.free_if_rare(from);
}

/// Calls the remove hooks for each of `ids` that the entity in this row has.
void Mutator::fire_removes(const Archetype& archetype, std::uint32_t row, std::span<const ComponentId> ids) {
    for (const Column& column : archetype.columns()) {
        if (!contains(ids, column.id()) || !column.type().has_hook(HookKind::remove)) continue;
        fire_remove(archetype.entities()[row], column, row, ids);
    }
}

/// Calls the remove hooks of one component of the entity, which loses all of `ids`.
inline void Mutator::fire_remove(Entity entity, const Column& column, std::uint32_t row,
                                 std::span<const ComponentId> ids) {
    hooks_.report_delayed(world_);
    removing_ = {entity, ids};
    hooks_.run_hooks(HookKind::remove, {world_, {&entity, 1}, column.at(row), &column, Removal::component});
    removing_ = {};
}

void Mutator::remove(Entity entity, EntityTable::Place place, const KnownComponent& component) {
    const World::Deferral deferral(world_);
    if (component.has_hook(HookKind::remove))
        fire_remove(entity, *component.column(place.archetype), place.row, {&component.id, 1});
    const ArchetypeStep& step = archetypes_.step_without(place.archetype, component);
    if (step.is_small) {
        Archetype::remove_small(step, entity, place.row, world_.tick(), entities_);
    } else {
        move_row(entity, place.row, *step.with, *step.without);
        archetypes_.free_if_rare(*step.with);
    }
}

void Mutator::remove(Entity entity, std::span<const ComponentId> ids) {
    const EntityTable::Place place = entities_.place(entity);
    if (std::ranges::none_of(ids, [&](ComponentId id) { return bool(archetypes_.cell(place, id)); })) return;
    if (ids.size() == 1 && !ids[0].is_pair()) return remove(entity, place, components_[ids[0]]);
    Archetype& from = archetypes_[place.archetype];
    const World::Deferral deferral(world_);
    fire_removes(from, place.row, ids);
    move_row(entity, place.row, from, archetypes_.after(from, ids, {}));
    archetypes_.free_if_rare(from);
}

/// Calls on_destroy hooks, removes the pairs with this target, then calls the remove hooks.
void Mutator::report_destruction(Entity entity) {
    if (hooks_.has_on_destroy())
        hooks_.run_on_destroy({world_, {&entity, 1}, nullptr, nullptr, Removal::entity});
    if (components_.pairs().is_target(entity))
        for (const ComponentId pair : components_.pairs().of_target(entity))
            for (const Entity source : archetypes_.entities_with(pair))
                if (source != entity) remove(source, {&pair, 1});
    const EntityTable::Place place = entities_.place(entity);
    const Archetype& archetype = archetypes_[place.archetype];
    for (const Column& column : archetype.columns())
        hooks_.fire(world_, HookKind::remove, archetype, column, place.row, 1, Removal::entity);
}

/// Returns whether the destruction of an entity in this archetype calls hooks. For an entity that is not the
/// target of a pair.
inline bool Mutator::calls_hooks(const Archetype& archetype) const {
    bool has_hooks = hooks_.has_on_destroy();
    for (const Column& column : archetype.columns()) has_hooks |= column.type().has_hook(HookKind::remove);
    return has_hooks;
}

inline void Mutator::destroy_one(Entity entity, EntityTable::Place place, bool is_target) {
    if (is_target || calls_hooks(archetypes_[place.archetype])) return destroy_with_hooks(entity);
    dying_ = entity;
    release(entity, place);
    dying_ = {};
}

void Mutator::destroy_with_hooks(Entity entity) {
    hooks_.report_delayed(world_);
    dying_ = entity;
    report_destruction(entity);
    const std::vector<ComponentId> ended = components_.pairs().mark_dead(entity);
    // Looks the place up again: the row may have moved when sources in its archetype lost their pairs.
    release(entity, entities_.place(entity));
    dying_ = {};
    archetypes_.free_pairs(ended);
}

inline void Mutator::release(Entity entity, EntityTable::Place place) {
    entities_.release(entity);  // before its values are destroyed: their destructors find it dead
    Archetype& archetype = archetypes_[place.archetype];
    if (const Entity moved = archetype.remove(place.row)) entities_.move_to(moved, place.row);
    archetypes_.free_if_rare(archetype);
}

void Mutator::destroy(Entity entity, EntityTable::Place place) {
    const bool is_target = components_.pairs().is_target(entity);
    const Archetype& archetype = archetypes_[place.archetype];
    if (!is_target && archetype.is_small() && !calls_hooks(archetype)) return release(entity, place);
    const World::Deferral deferral(world_);  // hooks or destructors are called
    if (!is_target) return destroy_one(entity, place, false);
    for (const Entity doomed : cascade(entity)) destroy_one(doomed, entities_.place(doomed), true);
}

void Mutator::destroy_all(std::span<const Entity> entities) {
    const World::Deferral deferral(world_);
    for (const Entity entity : entities) {
        const EntityTable::Place place = entities_.place(entity);
        if (place.has_row()) destroy(entity, place);
    }
}

/// Returns `root` and the entities that are destroyed with it, in the order of destruction: the sources of
/// destroy_with_target pairs before their targets, except in a cycle. Moves no row.
std::vector<Entity> Mutator::cascade(Entity root) {
    enum : std::uint8_t { unseen, open, done };
    marks_.resize(entities_.index_count());
    std::vector<Entity> order, stack{root};
    while (!stack.empty()) {
        const Entity entity = stack.back();
        std::uint8_t& mark = marks_[entity.index];
        if (mark != unseen) {
            if (mark == open) order.push_back(entity);
            mark = done;
            stack.pop_back();
            continue;
        }
        mark = open;
        const auto first = static_cast<std::ptrdiff_t>(stack.size());
        for (const ComponentId pair : components_.pairs().of_target(entity))
            if (includes(components_[pair].relation, destroy_with_target))
                for (const Entity source : archetypes_.entities_with(pair))
                    if (marks_[source.index] == unseen) stack.push_back(source);
        std::reverse(stack.begin() + first, stack.end());
    }
    for (const Entity entity : order) marks_[entity.index] = unseen;
    return order;
}

}  // namespace shoal::ecs::impl
