#include "world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "dump.h"

namespace shoal::ecs::impl {
namespace {

constexpr std::string_view kIsDead = "the entity is dead";

/// Prints, for example, "patch<Health>(12v3): the entity is dead" to the standard error stream, and aborts.
[[noreturn]] void stop_with(std::string_view operation, std::string_view component, Entity entity,
                            std::string_view what) {
    std::string line(operation);
    line.append("<").append(component).append(">(").append(to_text(entity)).append("): ").append(what);
    std::fprintf(stderr, "%s\n", line.c_str());
    std::abort();
}

/// Reports a bug of the caller: a debug build aborts, a release build does nothing.
void misuse([[maybe_unused]] std::string_view operation, [[maybe_unused]] const World& world,
            [[maybe_unused]] ComponentId id, [[maybe_unused]] Entity entity,
            [[maybe_unused]] std::string_view what) {
#ifndef NDEBUG
    stop_with(operation, id ? to_text(world, id) : "", entity, what);
#endif
}

}  // namespace

World::World() = default;

World::~World() {
    assert(locks_ == 0 && !hooks_.is_delaying());
    ++locks_;  // never decremented: operations called from here on are queued, and never applied
    std::vector<Archetype*> archetypes;
    for (std::uint32_t index = 0; index < archetypes_.index_count(); ++index)
        if (Archetype* archetype = archetypes_.at(index)) archetypes.push_back(archetype);
    for (Archetype* archetype : archetypes)
        for (std::uint32_t first = 0; hooks_.has_on_destroy() && first < archetype->size();
             first += kBlockRows) {
            const std::uint32_t count = std::min(kBlockRows, archetype->size() - first);
            hooks_.run_on_destroy(
                {*this, archetype->entities().subspan(first, count), nullptr, nullptr, Removal::world});
        }
    for (Archetype* archetype : archetypes)
        for (std::uint32_t column = 0; column < archetype->column_count(); ++column)
            for (std::uint32_t first = 0; first < archetype->size(); first += kBlockRows) {
                const std::uint32_t count = std::min(kBlockRows, archetype->size() - first);
                hooks_.fire(*this, HookKind::remove, *archetype, archetype->column(column), first, count,
                            Removal::world);
            }
    entities_.clear();  // destructors of components find no entity alive
    archetypes_.clear();
    hooks_.clear();  // before any member is destroyed: objects that the functions own may use the world
}

Entity World::spawn_bare() {
    const Entity entity = entities_.take();
    locks_ != 0 ? commands_.push(CommandQueue::Kind::spawn, entity, {}, {})
                : void(mutator_.append(entity, archetypes_[0], tick_));
    return entity;
}

Entity World::spawn(std::span<const ComponentId> ids, std::span<void* const> values) {
    if (!require_values({}, "spawn", ids, values)) return {};
    const Entity entity = entities_.take();
    locks_ != 0 ? commands_.push(CommandQueue::Kind::spawn, entity, ids, values)
                : mutator_.spawn(entity, ids, values);
    return entity;
}

void World::destroy(Entity entity) {
    const EntityTable::Place place = entities_.place(entity);
    if (locks_ == 0 && place.has_row()) return mutator_.destroy(entity, place);
    if (!is_alive(entity)) return commands_.drop();
    commands_.push(CommandQueue::Kind::destroy, entity, {}, {});
}

void World::destroy_all(std::span<const Entity> entities) {
    if (locks_ == 0) return mutator_.destroy_all(entities);
    commands_.push_entities(CommandQueue::Kind::destroy_all, entities, {});
}

void World::clear() {
    std::vector<Entity> entities;
    entities.reserve(size());
    for (std::uint32_t index = 0; index < entities_.index_count(); ++index)
        if (const Entity entity = entities_.at(index)) entities.push_back(entity);
    destroy_all(entities);
}

void World::free_empty_archetypes() {
    assert(!is_deferring());
    archetypes_.free_empty();
}

void World::shrink_to_fit() {
    free_empty_archetypes();
    archetypes_.shrink();
    entities_.shrink();
    components_.shrink(archetypes_.index_count());
    commands_.shrink();
    hooks_.shrink();
}

Entity World::clone(Entity entity) {
    const EntityTable::Place place = entities_.place(entity);
    if (!place.has_row()) return {};
    const Deferral deferral(*this);  // the queue owns the copies until the entity gets its row
    std::vector<ComponentId> ids;
    std::vector<void*> values;
    for (Column& column : archetypes_[place.archetype].columns()) {
        if (!column.type().is_copyable()) continue;
        ids.push_back(column.id());
        values.push_back(column.at(place.row));
    }
    const Entity copy = entities_.take();
    commands_.push(CommandQueue::Kind::spawn, copy, ids, values, true);
    return copy;
}

bool World::copy_from(const World& other) {
    assert(this != &other && !is_deferring() && !other.is_deferring());
    if (!components_.register_as(other.components_)) return false;
    for (int i = 0; i < 8 && (i == 0 || size() != 0); ++i) clear();  // hooks may spawn
    if (size() != 0) return false;
    const DelayHooks delay(*this);
    entities_ = other.entities_;  // with places in archetypes of `other`, until each gets a row here
    singletons_ = other.singletons_;
    other.each_archetype([&](const Archetype& from) {
        if (from.size() == 0) return;
        std::vector<ComponentId> ids;
        std::vector<const Column*> columns;
        for (const Column& column : from.columns()) {
            if (!column.type().is_copyable()) continue;
            columns.push_back(&column);
            ids.push_back(column.target() ? pair_id(column.hook_id(), column.target()) : column.id());
        }
        Archetype& to = archetypes_.after(archetypes_[0], {}, ids);
        const std::uint32_t first = to.size();
        to.reserve(first + from.size());
        for (const Entity entity : from.entities()) mutator_.append(entity, to, tick_);
        for (std::size_t i = 0; i < ids.size(); ++i)
            for (std::uint32_t row = 0; columns[i]->has_values() && row < from.size(); ++row)
                columns[i]->type().construct_copy(to.find(ids[i])->at(first + row), columns[i]->at(row));
        mutator_.complete_spawn(to, first, from.size());
    });
    return true;
}

void World::set_id(Entity entity, ComponentId id, void* value) {
    if (id.is_pair() || !is_alive(entity)) {
        set(entity, {&id, 1}, {&value, 1});
    } else if (require_values(entity, "set", {&id, 1}, {&value, 1})) {
        set_slow(entity, entities_.find(entity), components_[id], value);
    }
}

/// Slow path of set() for one component. Not for pairs.
void World::set_slow(Entity entity, const TypeTag& tag, void* value) {
    set_slow(entity, entities_.find(entity), components_.known(tag), value);
}

/// `place` is the place of the entity; null if it has none.
void World::set_slow(Entity entity, const EntityTable::Place* place, const KnownComponent& component,
                     void* value) {
    if (locks_ == 0 && place != nullptr && mutator_.add_fast(entity, *place, component, value, tick_)) return;
    set_any(entity, component, value);
}

/// As set_slow(), for any step and with any hooks.
void World::set_any(Entity entity, const KnownComponent& component, void* value) {
    const EntityTable::Place place = entities_.place(entity);
    Column* const column = component.column(place.archetype);
    if (column == nullptr && locks_ == 0 && place.has_row())
        return mutator_.add(entity, place, component, value);
    if (column != nullptr && column->has_values() && may_write_at_once(entity))
        return overwrite(entity, {column, place.row}, value);
    set(entity, {&component.id, 1}, {&value, 1});
}

void World::overwrite(Entity entity, const Cell& cell, void* value) {
    const Deferral deferral(*this);  // destructors of components may call structural operations
    cell.column->type().overwrite(cell.at(), value);
    wrote(entity, *cell.column, cell.row, cell.at());
}

void World::set(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values) {
    if (!require_alive(entity, "set", ids.empty() ? ComponentId{} : ids[0])) return;
    if (!require_values(entity, "set", ids, values)) return;
    const auto has_it = [&](ComponentId id) { return has(entity, id); };
    if (may_write_at_once(entity) && (locks_ == 0 || std::all_of(ids.begin(), ids.end(), has_it)))
        return mutator_.set(entity, ids, values);
    commands_.push(CommandQueue::Kind::set, entity, ids, values);
}

void World::add(Entity entity, ComponentId id, void* value) {
    if (!require_alive(entity, "add", id) || !require_values(entity, "add", {&id, 1}, {&value, 1})) return;
    if (may_write_at_once(entity) && has(entity, id)) return;
    if (locks_ != 0) return commands_.push(CommandQueue::Kind::add, entity, {&id, 1}, {&value, 1});
    if (id.is_pair()) return mutator_.set(entity, {&id, 1}, {&value, 1});
    mutator_.add(entity, entities_.place(entity), components_[id], value);
}

/// Adds one component if the entity lacks it. Not for pairs.
void World::add(Entity entity, const KnownComponent& component, void* value) {
    const EntityTable::Place* const place = entities_.find(entity);
    if (locks_ != 0 || place == nullptr) return add(entity, component.id, value);
    if (mutator_.add_fast(entity, *place, component, value, tick_)) return;
    if (component.column(place->archetype) == nullptr) mutator_.add(entity, *place, component, value);
}

/// Removes one component. Not for pairs.
void World::remove(Entity entity, const KnownComponent& component) {
    const EntityTable::Place* const place = entities_.find(entity);
    if (locks_ != 0 || place == nullptr) return remove(entity, {&component.id, 1});
    if (mutator_.remove_fast(entity, *place, component, tick_)) return;
    if (component.column(place->archetype) != nullptr) mutator_.remove(entity, *place, component);
}

void World::remove(Entity entity, std::span<const ComponentId> ids) {
    if (ids.size() == 1 && locks_ == 0 && is_alive(entity)) return mutator_.remove(entity, ids);
    if (!require_alive(entity, "remove", ids.empty() ? ComponentId{} : ids[0])) return;
    const auto has_it = [&](ComponentId id) { return has(entity, id); };
    if (may_write_at_once(entity) && std::none_of(ids.begin(), ids.end(), has_it)) return;
    if (locks_ == 0) return mutator_.remove(entity, ids);
    commands_.push(CommandQueue::Kind::remove, entity, ids, {});
}

ComponentId World::pair_id(ComponentId relation, Entity target) {
    if (!is_alive(target) || relation.is_pair() || !components_[relation].is_relation()) return {};
    return components_.pairs().id_of(relation, target);
}

Sources World::sources_of(ComponentId pair) const {
    const PairTable::Pair* known = components_.pairs().find(pair);
    if (known == nullptr) return {*this, {}};
    return {*this, known->archetypes};
}

std::span<const Archetype::Pair> World::pairs_of(Entity source, ComponentId relation) const {
    const EntityTable::Place place = entities_.place(source);
    if (!place.has_row()) return {};
    return archetypes_[place.archetype].pairs(relation);
}

/// The id of the pair; none if the source or the target is dead, which is reported as a bug of the caller.
ComponentId World::require_pair(Entity source, ComponentId relation, Entity target) {
    if (!require_alive(source, "a pair of", relation) || !require_alive(target, "a pair to", relation))
        return {};
    return pair_id(relation, target);
}

Entity& World::singleton_place(ComponentId id) {
    if (id.value >= singletons_.size()) singletons_.resize(id.value + std::size_t{1});
    return singletons_[id.value];
}

Entity World::need_singleton(ComponentId id) {
    Entity& holder = singleton_place(id);
    if (!is_alive(holder)) holder = spawn_bare();
    return holder;
}

std::span<const ComponentId> World::components_of(Entity entity) const {
    const EntityTable::Place place = entities_.place(entity);
    if (!place.has_row()) return {};
    return archetypes_[place.archetype].components();
}

bool World::require_alive(Entity entity, const char* operation, ComponentId id) {
    if (is_alive(entity)) return true;
    misuse(operation, *this, id, entity, kIsDead);
    commands_.drop();
    return false;
}

/// Returns whether each id is valid and each component that is not a tag has a value. If not, reports
/// a bug of the caller and counts the operation as dropped.
bool World::require_values(Entity entity, const char* operation, std::span<const ComponentId> ids,
                           std::span<void* const> values) {
    std::string_view fault = ids.size() == values.size() ? "" : "not one value for each id";
    std::size_t i = 0;
    for (; fault.empty() && i < ids.size(); ++i) {
        const bool has_value = values[i] != nullptr || components_[ids[i]].is_tag();
        fault = !components_.is_addable(ids[i]) ? "no entity can have this id" : has_value ? "" : "no value";
    }
    if (fault.empty()) return true;
    misuse(operation, *this, i == 0 ? ComponentId{} : ids[i - 1], entity, fault);
    commands_.drop();
    return false;
}

/// Returns whether an operation on the entity is queued or in progress, so that later ones must be queued
/// behind it.
bool World::is_busy(Entity entity) const {
    if (commands_.has(entity)) return true;
    return entity &&
           (mutator_.dying() == entity || mutator_.losing() == entity || mutator_.moving() == entity);
}

/// Slow path of writable(): the world is deferred, or the entity lacks the value. If a value is queued for
/// the entity, the result is this value.
World::Writable World::writable_slow(Entity entity, const char* operation, ComponentId id,
                                     const Cell& found) {
    if (!require_alive(entity, operation, id)) return {};
    if (!components_.is_addable(id) || components_[id].is_tag()) return {};
    if (may_write_at_once(entity)) return found ? Writable{found.at(), found.column, found.row} : Writable{};

    const bool is_going = mutator_.losing() == entity && std::ranges::count(mutator_.lost(), id) > 0;
    void* queued = nullptr;
    CommandQueue::Fate fate = commands_.fate(entity, id, found && !is_going, queued);
    if (is_dying(entity) || (fate == CommandQueue::Fate::untouched && is_going))
        fate = CommandQueue::Fate::removed;
    if (fate == CommandQueue::Fate::queued) return {queued};
    if (fate == CommandQueue::Fate::untouched && found) return {found.at(), found.column, found.row};
    if (fate == CommandQueue::Fate::removed) commands_.drop();
    return {};
}

void World::stop(std::string_view operation, std::string_view component, Entity entity) const {
    stop_with(operation, component, entity, is_alive(entity) ? "the entity has no such value" : kIsDead);
}

/// Begins or ends a delay of hook calls, see DelayHooks. In a deferred world the end is queued. The beginning
/// is queued only while a hook runs.
void World::delay_hooks(bool begins) {
    using Kind = CommandQueue::Kind;
    const bool is_at_once = locks_ == 0 || (begins && !hooks_.is_running());
    if (is_at_once) return hooks_.delay(*this, begins);
    commands_.push_entities(begins ? Kind::delay_begins : Kind::delay_ends, {}, {});
}

void World::fire_write(const Column& column, const void* value, Entity entity) {
    hooks_.fire_changed({*this, {&entity, 1}, value, &column, Removal::component});
}

void World::report_write(const Column& column, const void* value, Entity entity) {
    const Deferral deferral(*this);
    fire_write(column, value, entity);
}

void World::flush_commands() {
    ++locks_;  // operations called by hooks are queued behind the others
    // If locks_ is 2, a hook left a Deferral behind; the end of this Deferral applies the other commands.
    while (!commands_.empty() && locks_ == 1) {
        const CommandQueue::Command command = commands_.pop();
        apply(command);
        commands_.finish(command);
    }
    --locks_;
    // An empty queue has no commands that use the ids of dead pairs.
    if (commands_.empty()) components_.pairs().release_dead();
    if (kept_exception_ != nullptr && keepers_ == 0) throw_kept();
}

/// Throws what a hook threw, when nothing is deferred any more. If the stack is unwound already, the
/// exception that does this goes on instead.
void World::throw_kept() {
    if (locks_ != 0) return commands_.push_entities(CommandQueue::Kind::thrown, {}, {});
    const std::exception_ptr kept = std::exchange(kept_exception_, nullptr);
    if (std::uncaught_exceptions() == 0) std::rethrow_exception(kept);
}

void keep_exception(World& world, std::exception_ptr exception) {
    if (world.kept_exception_ == nullptr) world.kept_exception_ = std::move(exception);
    world.commands_.push_entities(CommandQueue::Kind::thrown, {}, {});
}

void World::apply(const CommandQueue::Command& command) {
    using Kind = CommandQueue::Kind;
    if (command.kind == Kind::changed)
        return hooks_.report(*this, HookKind::change, command.entities, command.components[0]);
    if (command.kind == Kind::delay_begins || command.kind == Kind::delay_ends)
        return hooks_.delay(*this, command.kind == Kind::delay_begins);
    if (command.kind == Kind::thrown) return;
    if (command.kind == Kind::destroy_all) return mutator_.destroy_all(command.entities);
    if (!is_alive(command.entity)) return commands_.drop();
    switch (command.kind) {
        case Kind::spawn:
            return mutator_.spawn(command.entity, command.components, command.values);
        case Kind::add:
            if (has(command.entity, command.components[0])) return;
            [[fallthrough]];
        case Kind::set:
            return mutator_.set(command.entity, command.components, command.values);
        case Kind::remove:
            return mutator_.remove(command.entity, command.components);
        case Kind::destroy:
            return mutator_.destroy_all({&command.entity, 1});
        default:  // events of added values wait in HookDispatch
            assert(false);
    }
}

/// Checks an archetype: its pairs, rows and columns.
bool World::is_consistent(const Archetype& archetype) const {
    if (archetypes_.find(archetype.components()) != &archetype) return false;
    for (const Archetype::Pair& pair : archetype.pairs()) {
        const ComponentId id = archetype.components()[pair.column];
        const PairTable::Pair* known = components_.pairs().find(id);
        if (!is_alive(pair.target) || known == nullptr || known->target != pair.target) return false;
        if (pair.place >= known->archetypes.size() || known->archetypes[pair.place] != &archetype)
            return false;
    }
    for (std::uint32_t row = 0; row < archetype.size(); ++row) {
        const EntityTable::Place* place = entities_.find(archetype.entities()[row]);
        if (place == nullptr || place->archetype != archetype.index() || place->row != row) return false;
    }
    for (std::uint32_t column = 0; column < archetype.column_count(); ++column) {
        const ComponentId id = archetype.components()[column];
        const Column& here = archetype.column(column);
        if (here.id() != id || archetype.find(id) != &here) return false;
        if (!id.is_pair() && components_[id].column(archetype.index()) != &here) return false;
        if (column != 0 && !(archetype.components()[column - 1] < id)) return false;
        for (std::uint32_t block = 0; block * kBlockRows < archetype.size(); ++block)
            if (archetype.stamp(here, block) > tick_) return false;
    }
    return true;
}

/// Checks the step that the component stores.
bool World::is_consistent(const KnownComponent& component) const {
    const ArchetypeStep& step = component.last_step;
    if (step.with == nullptr) return true;
    return archetypes_.at(step.index_with) == step.with &&
           archetypes_.at(step.index_without) == step.without &&
           step.without->column_count() + 1 == step.with->column_count() &&
           !step.without->has(component.id) && step.with->find(component.id) == step.column;
}

bool World::is_consistent() const {
    std::uint32_t rows = 0;
    for (std::uint32_t a = 0; a < archetypes_.index_count(); ++a) {
        if (archetypes_.at(a) == nullptr) continue;
        if (archetypes_[a].index() != a || !is_consistent(archetypes_[a])) return false;
        rows += archetypes_[a].size();
    }
    for (std::uint32_t type = 0; type < components_.size(); ++type)
        if (!is_consistent(components_[ComponentId{type}])) return false;
    std::uint32_t alive = 0;
    for (std::uint32_t i = 0; i < entities_.index_count(); ++i) alive += entities_.at(i) ? 1 : 0;
    return entities_.is_consistent() && alive == entities_.size() && rows <= alive &&
           (is_deferring() || rows == alive);
}

}  // namespace shoal::ecs::impl
