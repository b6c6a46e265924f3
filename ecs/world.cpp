#include "world.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace shoal::ecs {

namespace {

std::uint64_t hash_of(std::span<const ComponentId> components) {
    std::uint64_t hash = components.size();
    for (const ComponentId id : components) {
        hash = (hash ^ id.value) * 0x9E37'79B9'7F4A'7C15;
        hash ^= hash >> 32;
    }
    return hash;
}

/// Whether `ids` names what it has at `i` earlier on.
bool is_repeated(std::span<const ComponentId> ids, std::size_t i) {
    return std::find(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i), ids[i]) !=
           ids.begin() + static_cast<std::ptrdiff_t>(i);
}

void construct_from(const ComponentType& type, void* to, void* from) {
    if (type.move == nullptr) {
        std::memcpy(to, from, type.size);
    } else {
        type.move(to, from);
    }
}

/// Replaces a value.
void overwrite(const ComponentType& type, void* to, void* from) {
    if (to == from) return;
    if (type.destroy != nullptr) type.destroy(to);
    construct_from(type, to, from);
}

}  // namespace

World::World() : commands_(components_) {
    archetype_of(std::span<const ComponentId>{});
}

World::~World() {
    assert(locks_ == 0);
    ++locks_;  // for good: everything asked for from here on is queued and dropped
    for (Archetype* archetype : archetypes_)
        for (std::uint32_t first = 0; hooks_.has_on_destroy() && first < archetype->size();
             first += kBlockRows) {
            const std::uint32_t count = std::min(kBlockRows, archetype->size() - first);
            hooks_.run_on_destroy(
                {*this, archetype->entities().subspan(first, count), nullptr, 0, Removal::world});
        }
    for (Archetype* archetype : archetypes_)
        for (std::uint32_t column = 0; column < archetype->column_count(); ++column)
            for (std::uint32_t first = 0; first < archetype->size(); first += kBlockRows) {
                const std::uint32_t count = std::min(kBlockRows, archetype->size() - first);
                fire(HookKind::remove, *archetype, column, first, count, Removal::world);
            }
    entities_ = {};  // what destructors of components see: nobody is alive
    for (Archetype* archetype : archetypes_) delete archetype;
}

ComponentId World::register_component(const ComponentType& type) {
    const ComponentId id = components_.add(type);
    hooks_.resize(components_.size());
    return id;
}

ComponentId World::register_type(const TypeTag& tag) {
    const ComponentId id = components_.id_of(tag);
    hooks_.resize(components_.size());
    return id;
}

Entity World::create() {
    const Entity entity = entities_.take();
    if (locks_ != 0) {
        commands_.push(CommandQueue::Kind::spawn, entity, {}, {});
    } else {
        append(entity, *archetypes_[0]);
    }
    return entity;
}

Entity World::spawn(std::span<const ComponentId> ids, std::span<void* const> values) {
    if (!require_values(ids, values)) return {};
    const Entity entity = entities_.take();
    if (locks_ != 0) {
        commands_.push(CommandQueue::Kind::spawn, entity, ids, values);
    } else {
        spawn_now(entity, ids, values);
    }
    return entity;
}

void World::destroy(Entity entity) {
    if (!is_alive(entity)) {
        ++dropped_commands_;
    } else if (locks_ != 0) {
        commands_.push(CommandQueue::Kind::destroy, entity, {}, {});
    } else {
        destroy_now(entity);
    }
}

void World::set(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values) {
    if (!require_alive(entity) || !require_values(ids, values)) return;
    const auto has_it = [&](ComponentId id) { return has(entity, id); };
    if (may_write_at_once(entity) && (locks_ == 0 || std::all_of(ids.begin(), ids.end(), has_it))) {
        set_now(entity, ids, values);
    } else {
        commands_.push(CommandQueue::Kind::set, entity, ids, values);
    }
}

void World::add(Entity entity, ComponentId id, void* value) {
    if (!require_alive(entity) || !require_values({&id, 1}, {&value, 1})) return;
    if (may_write_at_once(entity) && has(entity, id)) return;
    if (locks_ != 0) {
        commands_.push(CommandQueue::Kind::add, entity, {&id, 1}, {&value, 1});
    } else {
        set_now(entity, {&id, 1}, {&value, 1});
    }
}

void World::remove(Entity entity, ComponentId id) {
    if (!require_alive(entity)) return;
    if (may_write_at_once(entity) && !has(entity, id)) return;
    if (locks_ != 0) {
        commands_.push(CommandQueue::Kind::remove, entity, {&id, 1}, {});
    } else {
        remove_now(entity, id);
    }
}

std::span<const ComponentId> World::components_of(Entity entity) const {
    const EntityTable::Place* place = entities_.find(entity);
    return place != nullptr ? archetypes_[place->archetype]->components() : std::span<const ComponentId>{};
}

bool World::require_alive(Entity entity) {
    assert(is_alive(entity));
    if (is_alive(entity)) return true;
    ++dropped_commands_;
    return false;
}

/// One value for each component that is not a tag.
bool World::require_values(std::span<const ComponentId> ids, std::span<void* const> values) {
    bool is_fine = ids.size() == values.size();
    for (std::size_t i = 0; is_fine && i < ids.size(); ++i)
        is_fine = ids[i].value < component_count() && (values[i] != nullptr || components_[ids[i]].is_tag());
    assert(is_fine);
    if (!is_fine) ++dropped_commands_;
    return is_fine;
}

/// Whether an operation on the entity is queued or half done, so that others must queue behind it.
bool World::is_busy(Entity entity) const {
    return commands_.has(entity) || (under_way_.entity == entity && entity);
}

/// Where a value is to be written in place. Queues behind a queued value by writing to that one.
World::Target World::target(Entity entity, ComponentId id) {
    if (!require_alive(entity)) return {};
    if (id.value >= component_count() || components_[id].is_tag()) return {};
    const Cell found = cell(entity, id);
    if (locks_ == 0 || !is_busy(entity)) return found ? Target{found.at(), found} : Target{};

    const bool is_going = under_way_.entity == entity && under_way_.removed == id;
    void* queued = nullptr;
    CommandQueue::Fate fate = commands_.fate(entity, id, found && !is_going, queued);
    if (is_dying(entity) || (fate == CommandQueue::Fate::untouched && is_going))
        fate = CommandQueue::Fate::removed;
    if (fate == CommandQueue::Fate::queued) return {queued, {}};
    if (fate == CommandQueue::Fate::untouched && found) return {found.at(), found};
    if (fate == CommandQueue::Fate::removed) ++dropped_commands_;
    return {};
}

void World::stop() {
    std::abort();
}

Archetype& World::archetype_of(std::span<const TypeTag* const> pack) {
    const std::uint32_t known = packs_.find(pack.data());
    if (known != AddressMap::kAbsent) return *archetypes_[known];
    std::vector<ComponentId> ids;
    for (const TypeTag* tag : pack) ids.push_back(register_type(*tag));
    std::sort(ids.begin(), ids.end());
    Archetype& archetype = archetype_of(ids);
    packs_.insert(pack.data(), archetype.index());
    return archetype;
}

Archetype& World::archetype_of(std::span<const ComponentId> sorted) {
    const std::uint64_t hash = hash_of(sorted);
    auto at = std::lower_bound(by_components_.begin(), by_components_.end(), hash,
                               [](const Hashed& entry, std::uint64_t key) { return entry.hash < key; });
    for (; at != by_components_.end() && at->hash == hash; ++at) {
        const auto components = at->archetype->components();
        if (std::equal(components.begin(), components.end(), sorted.begin(), sorted.end()))
            return *at->archetype;
    }
    archetypes_.push_back(new Archetype(archetype_count(), sorted, components_));
    by_components_.insert(at, {hash, archetypes_.back()});
    return *archetypes_.back();
}

Archetype& World::archetype_with(Archetype& from, ComponentId id) {
    Archetype*& cached = from.edge(id).with;
    if (cached == nullptr) {
        const auto components = from.components();
        wanted_.assign(components.begin(), components.end());
        wanted_.insert(std::lower_bound(wanted_.begin(), wanted_.end(), id), id);
        cached = &archetype_of(wanted_);
    }
    return *cached;
}

Archetype& World::archetype_without(Archetype& from, ComponentId id) {
    Archetype*& cached = from.edge(id).without;
    if (cached == nullptr) {
        const auto components = from.components();
        wanted_.assign(components.begin(), components.end());
        wanted_.erase(std::lower_bound(wanted_.begin(), wanted_.end(), id));
        cached = &archetype_of(wanted_);
    }
    return *cached;
}

/// That of `from`'s components, if any, and `ids`.
Archetype& World::archetype_with_all(const Archetype* from, std::span<const ComponentId> ids) {
    wanted_.assign(ids.begin(), ids.end());
    if (from != nullptr) wanted_.insert(wanted_.end(), from->components().begin(), from->components().end());
    std::sort(wanted_.begin(), wanted_.end());
    wanted_.erase(std::unique(wanted_.begin(), wanted_.end()), wanted_.end());
    return archetype_of(wanted_);
}

std::uint32_t World::append(Entity entity, Archetype& archetype) {
    const std::uint32_t row = archetype.append(entity);
    entities_.move_to(entity, {archetype.index(), row});
    return row;
}

void World::complete_spawn(Archetype& archetype, std::uint32_t row) {
    for (std::uint32_t column = 0; column < archetype.column_count(); ++column)
        archetype.column(column).wrote(row, tick_);
    for (std::uint32_t column = 0; column < archetype.column_count(); ++column)
        fire(HookKind::add, archetype, column, row, 1);
}

void World::spawn_now(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values) {
    const Deferral deferral(*this);
    Archetype& archetype = archetype_with_all(nullptr, ids);
    const std::uint32_t row = append(entity, archetype);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const ComponentType& type = components_[ids[i]];
        if (type.is_tag() || is_repeated(ids, i)) continue;
        construct_from(type, archetype.column(archetype.column_of(ids[i])).at(row), values[i]);
    }
    complete_spawn(archetype, row);
}

void World::set_now(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values) {
    const Deferral deferral(*this);
    const EntityTable::Place place = *entities_.find(entity);
    Archetype& from = *archetypes_[place.archetype];
    Archetype& to = ids.size() != 1    ? archetype_with_all(&from, ids)
                    : from.has(ids[0]) ? from
                                       : archetype_with(from, ids[0]);
    std::uint32_t row = place.row;
    if (&to != &from) {
        set_place(from.move(place.row, to, tick_), place.row);
        row = to.size() - 1;
        entities_.move_to(entity, {to.index(), row});
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const ComponentType& type = components_[ids[i]];
        const bool is_new = !from.has(ids[i]);
        if (is_repeated(ids, i) || (type.is_tag() && !is_new)) continue;
        Archetype::Column& column = to.column(to.column_of(ids[i]));
        column.wrote(row, tick_);
        if (type.is_tag()) continue;
        if (is_new) {
            construct_from(type, column.at(row), values[i]);
        } else {
            overwrite(type, column.at(row), values[i]);
        }
    }
    for (std::uint32_t column = 0; column < to.column_count(); ++column) {
        const ComponentId id = to.column(column).id();
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) continue;
        if (!from.has(id)) {
            fire(HookKind::add, to, column, row, 1);
        } else if (hooks_.has(HookKind::change, id) && !components_[id].is_tag()) {
            fire_changed(to, column, row, 1);
        }
    }
}

void World::remove_now(Entity entity, ComponentId id) {
    const Cell found = cell(entity, id);
    if (!found) return;
    const Deferral deferral(*this);
    under_way_ = {entity, id};
    fire(HookKind::remove, *found.archetype, found.column_index, found.row, 1);
    Archetype& to = archetype_without(*found.archetype, id);
    set_place(found.archetype->move(found.row, to, tick_), found.row);
    entities_.move_to(entity, {to.index(), to.size() - 1});
    under_way_ = {};
}

void World::destroy_now(Entity entity) {
    const Deferral deferral(*this);
    const EntityTable::Place place = *entities_.find(entity);
    Archetype& archetype = *archetypes_[place.archetype];
    under_way_ = {entity, {}};
    if (hooks_.has_on_destroy())
        hooks_.run_on_destroy(
            {*this, archetype.entities().subspan(place.row, 1), nullptr, 0, Removal::entity});
    for (std::uint32_t column = 0; column < archetype.column_count(); ++column)
        fire(HookKind::remove, archetype, column, place.row, 1, Removal::entity);
    entities_.release(entity);  // before its values: their destructors may ask for it
    set_place(archetype.remove(place.row), place.row);
    under_way_ = {};
}

/// For an entity that moved within its archetype to fill a gap; null for none.
void World::set_place(Entity moved, std::uint32_t row) {
    if (moved) entities_.move_to(moved, {entities_.find(moved)->archetype, row});
}

/// Rows of one block.
void World::fire(HookKind kind, const Archetype& archetype, std::uint32_t column, std::uint32_t first,
                 std::uint32_t count, Removal reason) {
    const Archetype::Column& data = archetype.column(column);
    if (!hooks_.has(kind, data.id())) return;
    const Deferral deferral(*this);
    hooks_.run(kind, data.id(),
               {*this, archetype.entities().subspan(first, count),
                data.type().is_tag() ? nullptr : data.at(first), data.type().size, reason});
}

void World::fire_changed(const Archetype& archetype, std::uint32_t column, std::uint32_t first,
                         std::uint32_t count) {
    if (hooks_.is_running()) {
        commands_.push_changed(archetype.entities().subspan(first, count), archetype.column(column).id());
    } else {
        fire(HookKind::change, archetype, column, first, count);
    }
}

/// Of those that are still there, in runs of rows.
void World::tell_changed(std::span<const Entity> entities, ComponentId id) {
    Cell run;
    std::uint32_t count = 0;
    for (const Entity entity : entities) {
        const Cell found = cell(entity, id);
        const bool follows = count != 0 && found.archetype == run.archetype && found.row == run.row + count &&
                             found.row % kBlockRows != 0;
        if (!follows) {
            if (count != 0) fire(HookKind::change, *run.archetype, run.column_index, run.row, count);
            run = found;
            count = 0;
        }
        if (found) ++count;
    }
    if (count != 0) fire(HookKind::change, *run.archetype, run.column_index, run.row, count);
}

void World::apply_commands() {
    ++locks_;  // hooks queue behind what is queued already
    while (!commands_.empty() && locks_ == 1) {  // a hook may keep a Deferral: the rest waits for its end
        const CommandQueue::Command command = commands_.pop();
        apply(command);
        commands_.finish(command);
    }
    --locks_;
}

void World::apply(const CommandQueue::Command& command) {
    using Kind = CommandQueue::Kind;
    if (command.kind == Kind::changed) return tell_changed(command.entities, command.components[0]);
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
            remove_now(command.entity, command.components[0]);
            break;
        case Kind::destroy:
            destroy_now(command.entity);
            break;
        case Kind::changed:
            break;
    }
}

bool World::is_consistent() const {
    std::uint32_t rows = 0;
    for (std::uint32_t a = 0; a < archetypes_.size(); ++a) {
        const Archetype& archetype = *archetypes_[a];
        if (archetype.index() != a) return false;
        rows += archetype.size();
        for (std::uint32_t row = 0; row < archetype.size(); ++row) {
            const EntityTable::Place* place = entities_.find(archetype.entities()[row]);
            if (place == nullptr || place->archetype != a || place->row != row) return false;
        }
        for (std::uint32_t column = 0; column < archetype.column_count(); ++column) {
            const ComponentId id = archetype.components()[column];
            if (archetype.column(column).id() != id || archetype.column_of(id) != column) return false;
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
