#include "world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "dump.h"

namespace shoal::ecs {

namespace {

bool contains(std::span<const ComponentId> ids, ComponentId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// Whether `ids` names what it has at `i` earlier on.
bool is_repeated(std::span<const ComponentId> ids, std::size_t i) {
    return contains(ids.first(i), ids[i]);
}

constexpr std::string_view kIsDead = "the entity is dead";

/// Such as "patch<Health>(12v3): the entity is dead", to the standard error stream.
[[noreturn]] void stop_with(std::string_view operation, std::string_view component, Entity entity,
                            std::string_view what) {
    std::string line(operation);
    line.append("<").append(component).append(">(").append(to_text(entity)).append("): ").append(what);
    std::fprintf(stderr, "%s\n", line.c_str());
    std::abort();
}

/// A mistake of the caller's, which a release build only counts.
void misuse([[maybe_unused]] std::string_view operation, [[maybe_unused]] const std::string& component,
            [[maybe_unused]] Entity entity, [[maybe_unused]] std::string_view what) {
#ifndef NDEBUG
    stop_with(operation, component, entity, what);
#endif
}

/// Replaces a value.
void overwrite(const ComponentType& type, void* to, void* from) {
    if (to == from) return;
    if (type.destroy != nullptr) type.destroy(to);
    type.construct(to, from);
}

}  // namespace

/// Rows of one block.
inline void World::fire(HookKind kind, const Archetype& archetype, const Column& column, std::uint32_t first,
                        std::uint32_t count, Removal reason) {
    if (column.type().has_hook(kind))
        run_hooks(kind, column, first, archetype.entities().subspan(first, count), reason);
}

/// Returns the row in `to`.
inline std::uint32_t World::move_row(Entity entity, std::uint32_t row, Archetype& from, Archetype& to) {
    const std::uint32_t to_row = to.size();
    if (const Entity moved = from.move(entity, row, to, tick_)) entities_.move_to(moved, row);
    entities_.move_to(entity, {to.index(), to_row});
    return to_row;
}

World::World() : commands_(components_), waiting_(components_) {}

World::~World() {
    assert(locks_ == 0 && delays_ == 0);
    ++locks_;  // for good: everything asked for from here on is queued and dropped
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
                fire(HookKind::remove, *archetype, archetype->column(column), first, count, Removal::world);
            }
    entities_.clear();  // what destructors of components see: nobody is alive
    archetypes_.clear();
    hooks_.clear();  // while there is a world left for what the functions own
}

ComponentId World::register_component(const ComponentType& type) {
    return components_.add(type);
}

Entity World::spawn_bare() {
    const Entity entity = entities_.take();
    if (locks_ != 0) {
        commands_.push(CommandQueue::Kind::spawn, entity, {}, {});
    } else {
        append(entity, archetypes_[0]);
    }
    return entity;
}

Entity World::spawn(std::span<const ComponentId> ids, std::span<void* const> values) {
    if (!require_values({}, ids, values)) return {};
    const Entity entity = entities_.take();
    if (locks_ != 0) {
        commands_.push(CommandQueue::Kind::spawn, entity, ids, values);
    } else {
        spawn_now(entity, ids, values);
    }
    return entity;
}

void World::destroy(Entity entity) {
    const EntityTable::Place place = entities_.place(entity);
    if (locks_ == 0 && place.is_somewhere()) {
        destroy_now(entity, place);
    } else if (is_alive(entity)) {
        commands_.push(CommandQueue::Kind::destroy, entity, {}, {});
    } else {
        ++dropped_commands_;
    }
}

void World::destroy_all(std::span<const Entity> entities) {
    if (locks_ != 0) {
        commands_.push_entities(CommandQueue::Kind::destroy_all, entities, {});
    } else {
        destroy_all_now(entities);
    }
}

void World::clear() {
    std::vector<Entity> entities;
    entities.reserve(size());
    for (std::uint32_t index = 0; index < entities_.index_count(); ++index)
        if (const Entity entity = entities_.at(index)) entities.push_back(entity);
    destroy_all(entities);
}

void World::set_id(Entity entity, ComponentId id, void* value) {
    if (id.is_pair() || !is_alive(entity)) {
        set(entity, {&id, 1}, {&value, 1});
    } else if (require_values(entity, {&id, 1}, {&value, 1})) {
        set_elsewhere(entity, components_[id], value);
    }
}

/// What set() of one component, not of a pair, does.
void World::set_elsewhere(Entity entity, const KnownComponent& component, void* value) {
    const EntityTable::Place place = entities_.place(entity);
    Column* const column = component.column(place.archetype);
    if (column == nullptr && locks_ == 0 && place.is_somewhere()) {
        const Deferral deferral(*this);
        Archetype& from = archetypes_[place.archetype];
        Archetype& to = archetypes_.with(from, component.id);
        const std::uint32_t row = move_row(entity, place.row, from, to);
        Column& added = *component.column(to.index());
        added.wrote(row, tick_);
        if (added.has_values()) component.construct(added.at(row), value);
        fire(HookKind::add, to, added, row, 1);
    } else if (column != nullptr && column->has_values() && may_write_at_once(entity)) {
        const Deferral deferral(*this);  // a destructor may be the user's own
        overwrite(component, column->at(place.row), value);
        wrote(entity, *column, place.row, column->at(place.row));
    } else {
        set(entity, {&component.id, 1}, {&value, 1});
    }
}

void World::set(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values) {
    if (!require_alive(entity, "set", ids.empty() ? ComponentId{} : ids[0])) return;
    if (!require_values(entity, ids, values)) return;
    const auto has_it = [&](ComponentId id) { return has(entity, id); };
    if (may_write_at_once(entity) && (locks_ == 0 || std::all_of(ids.begin(), ids.end(), has_it))) {
        set_now(entity, ids, values);
    } else {
        commands_.push(CommandQueue::Kind::set, entity, ids, values);
    }
}

void World::add(Entity entity, ComponentId id, void* value) {
    if (!require_alive(entity, "add", id) || !require_values(entity, {&id, 1}, {&value, 1})) return;
    if (may_write_at_once(entity) && has(entity, id)) return;
    if (locks_ != 0) {
        commands_.push(CommandQueue::Kind::add, entity, {&id, 1}, {&value, 1});
    } else {
        set_now(entity, {&id, 1}, {&value, 1});
    }
}

/// The same of one component, not of a pair.
void World::remove(Entity entity, const KnownComponent& component) {
    const EntityTable::Place place = entities_.place(entity);
    if (locks_ != 0 || !place.is_somewhere()) return remove(entity, {&component.id, 1});
    if (const Column* column = component.column(place.archetype))
        remove_now(entity, place.row, archetypes_[place.archetype], *column);
}

void World::remove(Entity entity, std::span<const ComponentId> ids) {
    if (ids.size() == 1 && locks_ == 0 && is_alive(entity)) return remove_now(entity, ids[0]);
    if (!require_alive(entity, "remove", ids.empty() ? ComponentId{} : ids[0])) return;
    const auto has_it = [&](ComponentId id) { return has(entity, id); };
    if (may_write_at_once(entity) && std::none_of(ids.begin(), ids.end(), has_it)) return;
    if (locks_ != 0) {
        commands_.push(CommandQueue::Kind::remove, entity, ids, {});
    } else {
        remove_now(entity, ids);
    }
}

ComponentId World::pair_id(ComponentId relation, Entity target) {
    if (!is_alive(target) || relation.is_pair() || !components_[relation].is_relation()) return {};
    return components_.pairs().id_of(relation, target);
}

Sources World::sources_of(ComponentId pair) {
    const PairTable::Pair* known = components_.pairs().find(pair);
    if (known == nullptr) return {*this, {}};
    return {*this, known->archetypes};
}

std::span<const Archetype::Pair> World::pairs_of(Entity source, ComponentId relation) const {
    const EntityTable::Place place = entities_.place(source);
    if (!place.is_somewhere()) return {};
    return archetypes_[place.archetype].pairs(relation);
}

World::Cell World::pair_cell(Entity entity, ComponentId id) const {
    const EntityTable::Place place = entities_.place(entity);
    if (!place.is_somewhere()) return {};
    return {archetypes_[place.archetype].find(id), place.row};
}

/// None, and a mistake of the caller's, if one of the two is dead.
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
    if (!place.is_somewhere()) return {};
    return archetypes_[place.archetype].components();
}

bool World::require_alive(Entity entity, const char* operation, ComponentId id) {
    if (is_alive(entity)) return true;
    misuse(operation, to_text(*this, id), entity, kIsDead);
    ++dropped_commands_;
    return false;
}

/// One value for each component that is not a tag.
bool World::require_values(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values) {
    std::string_view fault = ids.size() == values.size() ? "" : "not one value for each id";
    std::size_t i = 0;
    for (; fault.empty() && i < ids.size(); ++i) {
        const bool has_value = values[i] != nullptr || components_[ids[i]].is_tag();
        fault = !components_.can_be_had(ids[i]) ? "no entity can have this id" : has_value ? "" : "no value";
    }
    if (fault.empty()) return true;
    misuse("set", i == 0 ? "" : to_text(*this, ids[i - 1]), entity, fault);
    ++dropped_commands_;
    return false;
}

/// Whether an operation on the entity is queued or half done, so that others must queue behind it.
bool World::is_busy(Entity entity) const {
    return commands_.has(entity) || (entity && (dying_ == entity || removing_.entity == entity));
}

/// For entities that lack the value, or have operations queued or half done: a write queues behind a
/// queued value by going to that one.
World::Writable World::unusual_writable(Entity entity, ComponentId id, const Cell& found) {
    if (!require_alive(entity, "patch", id)) return {};
    if (!components_.can_be_had(id) || components_[id].is_tag()) return {};
    if (may_write_at_once(entity)) return found ? Writable{found.at(), found.column, found.row} : Writable{};

    const bool is_going = removing_.entity == entity && contains(removing_.ids, id);
    void* queued = nullptr;
    CommandQueue::Fate fate = commands_.fate(entity, id, found && !is_going, queued);
    if (is_dying(entity) || (fate == CommandQueue::Fate::untouched && is_going))
        fate = CommandQueue::Fate::removed;
    if (fate == CommandQueue::Fate::queued) return {queued};
    if (fate == CommandQueue::Fate::untouched && found) return {found.at(), found.column, found.row};
    if (fate == CommandQueue::Fate::removed) ++dropped_commands_;
    return {};
}

void World::stop(std::string_view operation, std::string_view component, Entity entity) const {
    stop_with(operation, component, entity, is_alive(entity) ? "the entity has no such value" : kIsDead);
}

/// The pairs that exclusive ones among `ids` take the place of.
std::span<const ComponentId> World::replaced_by(std::span<const ComponentId> ids, const Archetype& from) {
    replaced_.clear();
    if (from.pairs().empty()) return {};
    for (const ComponentId id : ids)
        if (id.is_pair() && includes(components_[id].relation, exclusive) && !from.has(id))
            for (const Archetype::Pair& pair : from.pairs(components_.type_of(id)))
                replaced_.push_back(from.components()[pair.column]);
    return replaced_;
}

/// Leaves out pairs whose target died since, and all but the first of an exclusive relation.
void World::keep_possible(Possible& given) {
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
            ++dropped_commands_;
        } else if (!id.is_pair() || !includes(components_[id].relation, exclusive) ||
                   std::none_of(given.kept_ids.begin(), given.kept_ids.end(), excludes_it)) {
            given.kept_ids.push_back(id);
            given.kept_values.push_back(given.values[i]);
        }
    }
    given.ids = given.kept_ids;
    given.values = given.kept_values;
}

/// Rows that are whole now, the last ones.
void World::complete_spawn(Archetype& archetype, std::uint32_t first, std::uint32_t count) {
    for (const std::uint32_t last = first + count; first < last; first += count) {
        count = std::min(last - first, kBlockRows - first % kBlockRows);
        for (std::uint32_t column = 0; column < archetype.column_count(); ++column)
            archetype.column(column).wrote(first, tick_);
        for (const Column& column : archetype.columns()) fire(HookKind::add, archetype, column, first, count);
    }
}

void World::spawn_now(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values) {
    const Deferral deferral(*this);
    Possible given{ids, values};
    keep_possible(given);
    Archetype& archetype = archetypes_.after(archetypes_[0], {}, given.ids);
    const std::uint32_t row = append(entity, archetype);
    for (std::size_t i = 0; i < given.ids.size(); ++i) {
        const ComponentId id = given.ids[i];
        if (components_[id].is_tag() || is_repeated(given.ids, i)) continue;
        components_[id].construct(archetype.find(id)->at(row), given.values[i]);
    }
    complete_spawn(archetype, row, 1);
}

void World::set_now(Entity entity, std::span<const ComponentId> all_ids, std::span<void* const> all_values) {
    const Deferral deferral(*this);
    Possible given{all_ids, all_values};
    keep_possible(given);
    const auto ids = given.ids;
    const EntityTable::Place place = entities_.place(entity);
    Archetype& from = archetypes_[place.archetype];
    const auto replaced = replaced_by(ids, from);
    if (!replaced.empty()) {
        tell_waiting();
        fire_removes(from, place.row, replaced);
    }
    Archetype& to = archetypes_.after(from, replaced, ids);
    const std::uint32_t row = &to == &from ? place.row : move_row(entity, place.row, from, to);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const ComponentType& type = components_[ids[i]];
        const bool is_new = !from.has(ids[i]);
        if (is_repeated(ids, i) || (type.is_tag() && !is_new)) continue;
        Column& column = *to.find(ids[i]);
        column.wrote(row, tick_);
        if (type.is_tag()) continue;
        if (is_new) {
            type.construct(column.at(row), given.values[i]);
        } else {
            overwrite(type, column.at(row), given.values[i]);
        }
    }
    for (std::uint32_t column = 0; column < to.column_count(); ++column) {
        const Column& written = to.column(column);
        if (!contains(ids, written.id())) continue;
        if (!from.has(written.id())) {
            fire(HookKind::add, to, written, row, 1);
        } else if (written.type().has_hook(HookKind::change) && !written.type().is_tag()) {
            fire_changed({*this, {&entity, 1}, written.at(row), &written, Removal::component});
        }
    }
}

/// Of those of `ids` that the entity in this row has.
void World::fire_removes(const Archetype& archetype, std::uint32_t row, std::span<const ComponentId> ids) {
    removing_ = {archetype.entities()[row], ids};
    for (std::uint32_t column = 0; column < archetype.column_count(); ++column)
        if (contains(ids, archetype.components()[column]))
            fire(HookKind::remove, archetype, archetype.column(column), row, 1);
    removing_ = {};
}

void World::remove_now(Entity entity, ComponentId id) {
    const EntityTable::Place place = entities_.place(entity);
    Archetype& from = archetypes_[place.archetype];
    const Column* const column = id.is_pair() ? from.find(id) : components_[id].column(place.archetype);
    if (column != nullptr) remove_now(entity, place.row, from, *column);
}

void World::remove_now(Entity entity, std::uint32_t row, Archetype& from, const Column& column) {
    const ComponentId id = column.id();
    const Deferral deferral(*this);
    tell_waiting();
    if (column.type().has_hook(HookKind::remove)) {
        removing_ = {entity, {&id, 1}};
        run_hooks(HookKind::remove, column, row, {&entity, 1}, Removal::component);
        removing_ = {};
    }
    move_row(entity, row, from, archetypes_.without(from, id));
}

void World::remove_now(Entity entity, std::span<const ComponentId> ids) {
    if (ids.size() == 1) return remove_now(entity, ids[0]);
    const EntityTable::Place place = entities_.place(entity);
    Archetype& from = archetypes_[place.archetype];
    const auto has_it = [&](ComponentId id) { return from.has(id); };
    if (std::none_of(ids.begin(), ids.end(), has_it)) return;
    const Deferral deferral(*this);
    tell_waiting();
    fire_removes(from, place.row, ids);
    move_row(entity, place.row, from, archetypes_.after(from, ids, {}));
}

/// on_destroy, then the pairs that end, then remove hooks.
void World::tell_of_destruction(Entity entity) {
    if (hooks_.has_on_destroy())
        hooks_.run_on_destroy({*this, {&entity, 1}, nullptr, nullptr, Removal::entity});
    if (components_.pairs().is_target(entity))
        for (const ComponentId pair : components_.pairs().of_target(entity))
            for (const Entity source : archetypes_.entities_with(pair))
                if (source != entity) remove_now(source, pair);
    const EntityTable::Place place = entities_.place(entity);
    const Archetype& archetype = archetypes_[place.archetype];
    for (const Column& column : archetype.columns())
        fire(HookKind::remove, archetype, column, place.row, 1, Removal::entity);
}

inline void World::destroy_one(Entity entity, EntityTable::Place place, bool is_target) {
    dying_ = entity;
    Archetype& archetype = archetypes_[place.archetype];
    bool is_heard = is_target || hooks_.has_on_destroy();
    for (const Column& column : archetype.columns()) is_heard |= column.type().has_hook(HookKind::remove);
    if (is_heard) {
        tell_of_destruction(entity);
        place = entities_.place(entity);  // it may have filled the gap that a source of its left
    }
    entities_.release(entity);  // before its values: their destructors may ask for it
    if (const Entity moved = archetype.remove(place.row)) entities_.move_to(moved, place.row);
    dying_ = {};
    if (is_heard && components_.pairs().is_target(entity))
        archetypes_.free_pairs(entity);  // or hooks asked for some
}

void World::destroy_now(Entity entity, EntityTable::Place place) {
    const Deferral deferral(*this);
    tell_waiting();
    if (!components_.pairs().is_target(entity)) return destroy_one(entity, place, false);
    for (const Entity doomed : cascade(entity)) destroy_one(doomed, entities_.place(doomed), true);
}

void World::destroy_all_now(std::span<const Entity> entities) {
    const Deferral deferral(*this);
    for (const Entity entity : entities) {
        const EntityTable::Place place = entities_.place(entity);
        if (place.is_somewhere()) destroy_now(entity, place);
    }
}

/// The root and all that die with it, each after its own sources. Nobody moves meanwhile.
std::vector<Entity> World::cascade(Entity root) {
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

void World::run_hooks(HookKind kind, const Column& column, std::uint32_t first,
                      std::span<const Entity> entities, Removal reason) {
    const HookCall call{*this, entities, column.at(first), &column, reason};
    if (hooks_.is_held() && kind != HookKind::remove) return tell_later(kind, call);
    const Deferral deferral(*this);
    hooks_.run(kind, column.type(), call);
}

/// Requires that somebody wants to hear of it. Twice in the code, which saves a call per hooked write.
inline void World::tell_or_queue(const HookCall& call) {
    if (hooks_.must_wait()) {
        tell_later(HookKind::change, call);
    } else {
        hooks_.run(HookKind::change, call.column->type(), call);
    }
}

/// The same; requires a Deferral.
void World::fire_changed(const HookCall& call) {
    tell_or_queue(call);
}

void World::fire_changed_alone(const Column& column, const void* value, Entity entity) {
    const Deferral deferral(*this);
    tell_or_queue({*this, {&entity, 1}, value, &column, Removal::component});
}

/// What a hook does is told when the outermost operation ends, the rest when no DelayHooks lives any more.
void World::tell_later(HookKind kind, const HookCall& call) {
    using Kind = CommandQueue::Kind;
    CommandQueue& queue = hooks_.is_running() ? commands_ : waiting_;
    queue.push_entities(kind == HookKind::add ? Kind::added : Kind::changed, call.entities,
                        call.column->id());
}

void World::tell_waiting() {
    if (waiting_.empty()) return;
    hooks_.hold(false);
    {
        const Deferral deferral(*this);
        while (!waiting_.empty()) {
            const CommandQueue::Command told = waiting_.pop();
            const bool is_add = told.kind == CommandQueue::Kind::added;
            tell(is_add ? HookKind::add : HookKind::change, told.entities, told.components[0]);
            waiting_.finish(told);
        }
    }
    hooks_.hold(delays_ != 0);
}

/// Where structural changes wait, the beginning and the end of a delay wait among them.
void World::delay_hooks(bool begins) {
    using Kind = CommandQueue::Kind;
    if (locks_ == 0) return delay_hooks_now(begins);
    commands_.push_entities(begins ? Kind::delay_begins : Kind::delay_ends, {}, {});
}

void World::delay_hooks_now(bool begins) {
    delays_ += begins ? 1 : -1u;
    hooks_.hold(delays_ != 0);
    if (delays_ == 0) tell_waiting();
}

/// Of those that are still there, in runs of rows.
void World::tell(HookKind kind, std::span<const Entity> entities, ComponentId id) {
    Cell run;
    std::size_t first = 0, end = 0;  // of the run, among the entities
    const auto fire_run = [&] {
        if (first != end && run.column->type().has_hook(kind))
            run_hooks(kind, *run.column, run.row, entities.subspan(first, end - first), Removal::component);
    };
    for (std::size_t i = 0; i < entities.size(); ++i) {
        const Cell found = cell(entities[i], id);
        const bool follows = first != end && found.column == run.column &&
                             found.row == run.row + (end - first) && found.row % kBlockRows != 0;
        if (!follows) {
            fire_run();
            run = found;
            first = i;
        }
        end = found ? i + 1 : first;
    }
    fire_run();
}

void World::settle() {
    ++locks_;                                    // hooks queue behind what is queued already
    while (!commands_.empty() && locks_ == 1) {  // a hook may keep a Deferral: the rest waits for its end
        const CommandQueue::Command command = commands_.pop();
        apply(command);
        commands_.finish(command);
    }
    --locks_;
    if (commands_.empty()) components_.pairs().release_dead();  // nothing queued names them any more
}

void World::apply(const CommandQueue::Command& command) {
    using Kind = CommandQueue::Kind;
    if (command.kind == Kind::changed) return tell(HookKind::change, command.entities, command.components[0]);
    if (command.kind == Kind::delay_begins || command.kind == Kind::delay_ends)
        return delay_hooks_now(command.kind == Kind::delay_begins);
    if (command.kind == Kind::destroy_all) return destroy_all_now(command.entities);
    if (!is_alive(command.entity)) {
        ++dropped_commands_;
        return;
    }
    switch (command.kind) {
        case Kind::spawn:
            spawn_now(command.entity, command.components, command.values);
            break;
        case Kind::set:
            set_now(command.entity, command.components, command.values);
            break;
        case Kind::add:
            if (!has(command.entity, command.components[0]))
                set_now(command.entity, command.components, command.values);
            break;
        case Kind::remove:
            remove_now(command.entity, command.components);
            break;
        case Kind::destroy:
            destroy_all_now({&command.entity, 1});
            break;
        default:
            break;
    }
}

bool World::is_consistent() const {
    std::uint32_t rows = 0;
    for (std::uint32_t a = 0; a < archetypes_.index_count(); ++a) {
        if (archetypes_.at(a) == nullptr) continue;
        const Archetype& archetype = archetypes_[a];
        if (archetype.index() != a || archetypes_.find(archetype.components()) != &archetype) return false;
        for (const Archetype::Pair& pair : archetype.pairs()) {
            const ComponentId id = archetype.components()[pair.column];
            const PairTable::Pair* known = components_.pairs().find(id);
            if (!is_alive(pair.target) || known == nullptr || known->target != pair.target) return false;
            if (std::find(known->archetypes.begin(), known->archetypes.end(), &archetype) ==
                known->archetypes.end())
                return false;
        }
        rows += archetype.size();
        for (std::uint32_t row = 0; row < archetype.size(); ++row) {
            const EntityTable::Place* place = entities_.find(archetype.entities()[row]);
            if (place == nullptr || place->archetype != a || place->row != row) return false;
        }
        for (std::uint32_t column = 0; column < archetype.column_count(); ++column) {
            const ComponentId id = archetype.components()[column];
            if (archetype.column(column).id() != id || archetype.find(id) != &archetype.column(column))
                return false;
            if (!id.is_pair() && components_[id].column(a) != &archetype.column(column)) return false;
            if (column != 0 && !(archetype.components()[column - 1] < id)) return false;
            for (std::uint32_t block = 0; block * kBlockRows < archetype.size(); ++block)
                if (archetype.column(column).stamp(block) > tick_) return false;
        }
    }
    std::uint32_t alive = 0;
    for (std::uint32_t index = 0; index < entities_.index_count(); ++index)
        alive += entities_.at(index) ? 1 : 0;
    return alive == entities_.size() && rows <= alive && (is_deferring() || rows == alive);
}

}  // namespace shoal::ecs
