#pragma once
// The world: entities, their components, and the hooks that hear of every change.

#include <cassert>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "archetype.h"
#include "commands.h"
#include "component.h"
#include "entity.h"
#include "hooks.h"
#include "mut.h"

namespace shoal::ecs {

template <class T>
class WorldMut;
class Sources;
template <Relation R>
class HeldTargets;

/// The targets that one source has, sorted, with the values of their pairs. Valid until the next
/// structural change.
template <Relation R>
class Targets {
public:
    using Pairs = std::span<const Archetype::Pair>;

    Targets() = default;
    Targets(Pairs pairs, const Archetype& archetype, std::uint32_t row)
        : pairs_(pairs), archetype_(&archetype), row_(row) {}

    std::size_t size() const { return pairs_.size(); }
    bool empty() const { return pairs_.empty(); }
    Entity operator[](std::size_t at) const { return pairs_[at].target; }
    const R& value(std::size_t at) const requires(!std::is_empty_v<R>) {
        return *static_cast<const R*>(archetype_->column(pairs_[at].column).at(row_));
    }

    class Iterator {
    public:
        explicit Iterator(Pairs::iterator at) : at_(at) {}
        Entity operator*() const { return at_->target; }
        Iterator& operator++() {
            ++at_;
            return *this;
        }
        bool operator==(const Iterator& other) const { return at_ == other.at_; }

    private:
        Pairs::iterator at_;
    };
    Iterator begin() const { return Iterator(pairs_.begin()); }
    Iterator end() const { return Iterator(pairs_.end()); }

private:
    Pairs pairs_;
    const Archetype* archetype_ = nullptr;
    std::uint32_t row_ = 0;
};

/// One thread at a time. Handles, ids and hooks belong to the world that gave them.
///
/// Deferral. While a hook runs, a query iterates or a Deferral lives, nothing moves: spawns,
/// destroys, adds and removes are queued, and applied in order when the outermost one ends. Values
/// of components that an entity has are written at once, unless something is queued for this entity:
/// then they queue behind it. Reads always see the world as it is. An entity created meanwhile is
/// alive and can be used at once; its components, and queries over it, come when it is applied.
///
/// Operations on a dead entity do nothing. Those that were queued before it died, or came from its
/// own destruction's hooks, are counted; issuing one on a stale handle is an assert as well, but for
/// destroy(), is_alive(), has() and try_get().
class World {
public:
    World();

    /// Fires on_destroy for every entity, then every remove hook, with the whole world readable.
    /// What those hooks ask for is dropped. Requires that no hook runs and no query iterates.
    ~World();

    World(const World&) = delete;
    World& operator=(const World&) = delete;

    // Components

    /// The id of a type, given on first use.
    template <Storable T>
    ComponentId component() {
        const ComponentId known = components_.find_here(type_tag<T>);
        return known ? known : register_type(type_tag<T>);
    }

    /// A new component that needs no C++ type. Names are not compared with those of other ones.
    ComponentId register_component(const ComponentType& type);

    const ComponentType& component_type(ComponentId id) const { return components_[id]; }

    /// Ids are 0 to component_count() - 1.
    std::uint32_t component_count() const { return components_.size(); }

    // Entities

    Entity create();

    /// One archetype move; add hooks run when the row is complete.
    template <class... Ts>
    requires(sizeof...(Ts) > 0 && (Component<std::remove_cvref_t<Ts>> && ...)) Entity spawn(Ts&&... values);

    /// Moves from the values, which must not lie in the world; null for tags. Of an id given twice the
    /// first value counts, of an exclusive relation the first pair.
    Entity spawn(std::span<const ComponentId> ids, std::span<void* const> values);

    /// As many, each with copies of the values. Add hooks get batches when all rows are complete.
    template <class... Ts>
    requires(sizeof...(Ts) > 0 && ((Component<Ts> && std::is_copy_constructible_v<Ts>)&&...))
        std::vector<Entity> spawn_n(std::uint32_t count, const Ts&... values);

    /// The same, each with what fn(std::uint32_t index, Ts&...) makes of T{}.
    template <class... Ts, class Fn>
    requires(sizeof...(Ts) > 0 &&
             std::is_invocable_v<Fn&, std::uint32_t, Ts&...>) std::vector<Entity> spawn_n(std::uint32_t count,
                                                                                          Fn fn);

    /// on_destroy first, with everything readable; then pairs that have it as their target go; then
    /// remove hooks by component. Sources of a destroy_with_target relation die before it, children first.
    void destroy(Entity entity);

    /// All of them, one after the other; those that are dead by then are no mistake.
    void destroy_all(std::span<const Entity> entities);

    /// Every entity alive now.
    void clear();

    bool is_alive(Entity entity) const { return entities_.is_alive(entity); }

    /// Whether the entity's own destruction runs its hooks now; it is alive until they have run.
    bool is_dying(Entity entity) const { return entity && dying_ == entity; }

    /// Entities alive, also those still queued.
    std::uint32_t size() const { return entities_.size(); }

    // Values

    /// Adds or overwrites; several at once in one move.
    template <class... Ts>
    requires(sizeof...(Ts) > 0 && (Component<std::remove_cvref_t<Ts>> && ...)) void set(Entity entity,
                                                                                        Ts&&... values);
    /// As spawn().
    void set(Entity entity, ComponentId id, void* value);
    void set(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values);

    /// T{} if the entity does not have one yet; else nothing happens.
    template <Component T>
    requires std::is_default_constructible_v<T>
    void add(Entity entity) {
        T value{};
        void* const pointer = Tag<T> ? nullptr : &value;
        add(entity, component<T>(), pointer);
    }
    void add(Entity entity, ComponentId id, void* value);

    /// Of what the entity does not have nothing happens. Several at once in one move.
    template <Component T, Component... More>
    void remove(Entity entity) {
        const ComponentId ids[] = {component<T>(), component<More>()...};
        remove(entity, std::span<const ComponentId>(ids));
    }
    void remove(Entity entity, ComponentId id);
    void remove(Entity entity, std::span<const ComponentId> ids);

    /// Calls fn(T&), which may return false for "nothing changed". Returns whether the entity had the
    /// value, or has it queued, and it was changed.
    template <Value T, class Fn>
    bool patch(Entity entity, Fn&& fn);

    /// The same without the type: calls fn(void*).
    template <class Fn>
    bool patch(Entity entity, ComponentId id, Fn&& fn);

    /// Write access that fires the change hooks when it ends, if it was used. Structural changes wait
    /// while it lives. Requires that the entity has the value; without one it stops the program.
    template <Value T>
    [[nodiscard]] WorldMut<T> mut(Entity entity);

    template <Component T>
    bool has(Entity entity) const {
        return has(entity, components_.find(type_tag<T>));
    }
    bool has(Entity entity, ComponentId id) const { return static_cast<bool>(cell(entity, id)); }

    /// Requires that the entity has the value; without one it stops the program. Valid until the next
    /// structural change.
    template <Value T>
    const T& get(Entity entity) const {
        const T* value = try_get<T>(entity);
        assert(value != nullptr);
        if (value == nullptr) stop();
        return *value;
    }

    /// Null if the entity is dead or lacks the value. Valid until the next structural change.
    template <Value T>
    const T* try_get(Entity entity) const {
        return static_cast<const T*>(try_get(entity, components_.find(type_tag<T>)));
    }

    /// Null for tags too.
    const void* try_get(Entity entity, ComponentId id) const {
        const Cell found = cell(entity, id);
        return found && found.column().has_values() ? found.at() : nullptr;
    }

    /// Writes through it are not seen by anyone: no hook, no stamp. Null as for try_get().
    template <Value T>
    T* unsafe_raw_unmarked(Entity entity) {
        return const_cast<T*>(try_get<T>(entity));
    }

    // Pairs of a relation and a target, held by a source. They end with any of the three.

    /// T{} if the source does not have the pair yet.
    template <Relation R>
    requires std::is_default_constructible_v<R>
    void pair(Entity source, Entity target) {
        R value{};
        void* const pointer = std::is_empty_v<R> ? nullptr : &value;
        if (const ComponentId id = require_pair(source, component<R>(), target)) add(source, id, pointer);
    }

    /// Adds or overwrites.
    template <Relation R>
    void pair(Entity source, Entity target, R value) {
        if (const ComponentId id = require_pair(source, component<R>(), target)) set(source, id, &value);
    }

    /// Nothing happens if the source does not have it.
    template <Relation R>
    void unpair(Entity source, Entity target) {
        remove(source, components_.pairs().find(component<R>(), target));
    }

    template <Relation R>
    bool has_pair(Entity source, Entity target) const {
        return has(source, find_pair<R>(target));
    }

    /// Null if it has none. As for other values: valid until the next structural change.
    template <Relation R>
    requires(!std::is_empty_v<R>) const R* try_get_pair(Entity source, Entity target) const {
        return static_cast<const R*>(try_get(source, find_pair<R>(target)));
    }

    /// As patch().
    template <Relation R, class Fn>
    requires(!std::is_empty_v<R>) bool patch_pair(Entity source, Entity target, Fn&& fn) {
        return patch(source, find_pair<R>(target),
                     [&fn](void* value) { return fn(*static_cast<R*>(value)); });
    }

    /// Of an exclusive relation; null if it has none.
    template <Relation R>
    requires(includes(R::relation, exclusive)) Entity target(Entity source)
    const {
        const auto pairs = pairs_of(source, components_.find(type_tag<R>));
        return pairs.empty() ? Entity{} : pairs[0].target;
    }

    /// All targets of a source, and all sources of a target, to loop over: structural changes wait
    /// while the range lives.
    template <Relation R>
    HeldTargets<R> targets(Entity source);
    template <Relation R>
    Sources sources(Entity target);
    Sources sources(ComponentId relation, Entity target);

    /// The pair's id, for all that takes one but for hooks, which are of the relation. It means nothing
    /// any more once the target is dead. None if it is already, or if that is no relation.
    template <Relation R>
    ComponentId pair_id(Entity target) {
        return pair_id(component<R>(), target);
    }
    ComponentId pair_id(ComponentId relation, Entity target);

    struct Pair {
        ComponentId relation;
        Entity target;
    };
    /// What a pair's id stands for; nulls if it is none.
    Pair pair_of(ComponentId id) const;

    // Singletons: components of one ordinary entity, made when first needed.

    template <class T>
    requires Component<std::remove_cvref_t<T>>
    void set_singleton(T&& value) { set(need_singletons(), std::forward<T>(value)); }

    /// As get() and try_get(); patch(), mut(), remove() and pairs go by singletons().
    template <Value T>
    const T& singleton() const {
        return get<T>(singletons_);
    }
    template <Value T>
    const T* try_singleton() const {
        return try_get<T>(singletons_);
    }

    /// The entity that has them; null if there is none.
    Entity singletons() const { return is_alive(singletons_) ? singletons_ : Entity{}; }

    /// Makes it another entity, such as one that came over the network.
    void set_singletons(Entity entity) { singletons_ = entity; }

    // All of it

    /// Sorted; empty if the entity is dead or still queued. Valid until the next structural change.
    std::span<const ComponentId> components_of(Entity entity) const;

    /// Calls fn(Entity) in the order of indices; those still queued are left out.
    template <class Fn>
    void each_entity(Fn&& fn) {
        const Deferral deferral(*this);
        for (std::uint32_t index = 0; index < entities_.index_count(); ++index) {
            const Entity entity = entities_.at(index);
            if (entities_.find(entity) != nullptr) fn(entity);
        }
    }

    std::uint32_t archetype_count() const { return archetypes_.size(); }

    /// Calls fn(const Archetype&).
    template <class Fn>
    void each_archetype(Fn&& fn) {
        const Deferral deferral(*this);
        for (std::uint32_t index = 0; index < archetypes_.index_count(); ++index)
            if (const Archetype* archetype = archetypes_.at(index)) fn(*archetype);
    }

    // Hooks: what a function may take is written at make_hook_function().
    // Add: the value is final, the row complete. Change: after the write; writes made by hooks are
    // told once the outermost operation ends. Remove: before anything moves, all siblings readable.

    template <Storable T, class Fn>
    Hook on_add(Fn fn) {
        return hooks_.connect(HookKind::add, component<T>(), make_hook_function<T>(std::move(fn)));
    }
    template <Storable T, class Fn>
    Hook on_change(Fn fn) {
        return hooks_.connect(HookKind::change, component<T>(), make_hook_function<T>(std::move(fn)));
    }
    template <Storable T, class Fn>
    Hook on_remove(Fn fn) {
        return hooks_.connect(HookKind::remove, component<T>(), make_hook_function<T>(std::move(fn)));
    }
    template <class Fn>
    Hook on_add(ComponentId id, Fn fn) {
        return hooks_.connect(HookKind::add, id, make_hook_function<void>(std::move(fn)));
    }
    template <class Fn>
    Hook on_change(ComponentId id, Fn fn) {
        return hooks_.connect(HookKind::change, id, make_hook_function<void>(std::move(fn)));
    }
    template <class Fn>
    Hook on_remove(ComponentId id, Fn fn) {
        return hooks_.connect(HookKind::remove, id, make_hook_function<void>(std::move(fn)));
    }

    /// fn(World&, Entity) or fn(World&, std::span<const Entity>); connected last, called first.
    template <class Fn>
    Hook on_destroy(Fn fn) {
        struct None {};
        return hooks_.connect_on_destroy(make_hook_function<None>(std::move(fn)));
    }

    // Time and deferral

    /// Stamps every write; starts at 1.
    std::uint64_t tick() const { return tick_; }

    /// Begins the next tick. Returns the one just ended: nothing will be stamped with it any more.
    std::uint64_t advance_tick() { return tick_++; }

    /// While one lives, structural changes are queued.
    class [[nodiscard]] Deferral {
    public:
        explicit Deferral(World& world) : world_(world) { ++world_.locks_; }
        ~Deferral() {
            if (--world_.locks_ == 0 && world_.must_settle()) world_.settle();
        }
        Deferral(const Deferral&) = delete;
        Deferral& operator=(const Deferral&) = delete;

        World& world() const { return world_; }

    private:
        World& world_;
    };

    bool is_deferring() const { return locks_ != 0; }

    /// Operations that did nothing because their entity was dead or dying.
    std::uint64_t dropped_commands() const { return dropped_commands_; }

    /// Every index agrees with every other; for tests.
    bool is_consistent() const;

private:
    friend class QueryCore;
    template <class T>
    friend class WorldMut;

    /// Where a value is; false if nowhere.
    struct Cell {
        Archetype* archetype = nullptr;
        std::uint32_t column_index = 0;
        std::uint32_t row = 0;

        explicit operator bool() const { return archetype != nullptr; }
        Archetype::Column& column() const { return archetype->column(column_index); }
        void* at() const { return column().at(row); }
    };

    /// A value to be written in place, where it is now or in the queue.
    struct Writable {
        void* value = nullptr;
        Cell cell;  // unset if the value is queued
    };

    Cell cell(Entity entity, ComponentId id) const {
        const EntityTable::Place* place = entities_.find(entity);
        if (place == nullptr) return {};
        Archetype& archetype = *archetypes_.at(place->archetype);
        const std::uint32_t column = archetype.column_of(id);
        if (column == Archetype::kNoColumn) return {};
        return {&archetype, column, place->row};
    }

    bool may_write_at_once(Entity entity) const { return locks_ == 0 || !is_busy(entity); }

    /// Where a value is to be written in place.
    Writable writable(Entity entity, ComponentId id) {
        const Cell found = cell(entity, id);
        if (found && found.column().has_values() && may_write_at_once(entity)) return {found.at(), found};
        const Writable unusual = unusual_writable(entity, id);
        return {unusual.value, unusual.cell};
    }

    void wrote(Entity entity, const Cell& written) {
        Archetype::Column& column = written.column();
        column.wrote(written.row, tick_);
        if (hooks_.has(HookKind::change, column.hook_id())) fire_changed(column, written.row, {&entity, 1});
    }

    template <Relation R>
    ComponentId find_pair(Entity target) const {
        return components_.pairs().find(components_.find(type_tag<R>), target);
    }
    std::span<const Archetype::Pair> pairs_of(Entity source, ComponentId relation) const;
    ComponentId require_pair(Entity source, ComponentId relation, Entity target);
    Entity need_singletons();

    template <class... Ts>
    Entity spawn_owned(Ts&&... values);
    template <class... Ts, class Make>
    std::vector<Entity> spawn_many(std::uint32_t count, Make make);
    template <class... Ts>
    std::uint32_t append_row(Entity entity, Archetype& archetype, Ts&&... values);
    template <class T>
    void set_one(Entity entity, T&& value);

    ComponentId register_type(const TypeTag& tag);
    bool require_alive(Entity entity);
    bool require_values(std::span<const ComponentId> ids, std::span<void* const> values);
    bool is_busy(Entity entity) const;
    Writable unusual_writable(Entity entity, ComponentId id);
    [[noreturn]] static void stop();

    Archetype& archetype_of(std::span<const TypeTag* const> pack);
    Archetype& archetype_of(std::span<const ComponentId> sorted);
    Archetype& archetype_with(Archetype& from, ComponentId id);
    Archetype& archetype_without(Archetype& from, ComponentId id);
    Archetype& archetype_after(Archetype& from, std::span<const ComponentId> removed,
                               std::span<const ComponentId> added);
    void free_pairs(Entity target);
    std::vector<Entity> sources_of(ComponentId pair) const;
    std::vector<ComponentId> replaced_by(std::span<const ComponentId> ids, const Archetype& from) const;

    /// What can be had of what a command brings.
    struct Possible {
        std::span<const ComponentId> ids;
        std::span<void* const> values;
        std::vector<ComponentId> kept_ids{};
        std::vector<void*> kept_values{};
    };
    void keep_possible(Possible& given);

    std::uint32_t append(Entity entity, Archetype& archetype);
    void complete_spawn(Archetype& archetype, std::uint32_t first, std::uint32_t count);
    void spawn_now(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values);
    void add_now(Entity entity, ComponentId id, void* value);
    void set_now(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values);
    void fire_removes(const Archetype& archetype, std::uint32_t row, std::span<const ComponentId> ids);
    void remove_now(Entity entity, ComponentId id);
    void remove_now(Entity entity, std::span<const ComponentId> ids);
    void destroy_now(Entity entity);
    void destroy_one(Entity entity);
    void destroy_all_now(std::span<const Entity> entities);
    std::vector<Entity> cascade(Entity root);
    std::uint32_t move_row(EntityTable::Place place, Archetype& to);

    void fire(HookKind kind, const Archetype& archetype, std::uint32_t column, std::uint32_t first,
              std::uint32_t count, Removal reason = Removal::component);
    void run_hooks(HookKind kind, const Archetype::Column& column, std::uint32_t first,
                   std::span<const Entity> entities, Removal reason);
    void fire_changed(const Archetype::Column& column, std::uint32_t first, std::span<const Entity> entities);
    void tell_changed(std::span<const Entity> entities, ComponentId id);
    bool must_settle() const { return !commands_.empty() || components_.pairs().has_dead(); }
    void settle();
    void apply(const CommandQueue::Command& command);

    EntityTable entities_;
    ComponentTable components_;
    ArchetypeList archetypes_;  // the first has no components
    HookTable hooks_;
    std::uint32_t locks_ = 0;  // when 0, nothing is queued
    std::uint64_t tick_ = 1;

    AddressMap packs_;                 // type packs that were spawned, to archetypes
    std::vector<ComponentId> wanted_;  // scratch
    std::vector<std::uint8_t> marks_;  // scratch of cascade(), by entity index

    // What hooks are being told of.
    Entity dying_;
    struct Removing {
        Entity entity;
        std::span<const ComponentId> ids;
    };
    Removing removing_;
    Entity singletons_;
    CommandQueue commands_;
    std::uint64_t dropped_commands_ = 0;
};

/// What World::targets() gives.
template <Relation R>
class HeldTargets : public Targets<R> {
private:
    friend class World;

    HeldTargets(World& world, Targets<R> targets) : Targets<R>(targets), deferral_(world) {}

    World::Deferral deferral_;
};

/// The entities that have a pair, to loop over: rows of one or several archetypes.
class [[nodiscard]] Sources {
public:
    class Iterator {
    public:
        Entity operator*() const { return (*at_)->entities()[row_]; }
        Iterator& operator++() {
            ++row_;
            skip();
            return *this;
        }
        bool operator==(const Iterator& other) const { return at_ == other.at_ && row_ == other.row_; }

    private:
        friend class Sources;

        using Archetypes = std::span<Archetype* const>;
        Iterator(Archetypes::iterator at, Archetypes::iterator end) : at_(at), end_(end) { skip(); }
        void skip() {
            for (; at_ != end_ && row_ == (*at_)->size(); ++at_) row_ = 0;
        }

        Archetypes::iterator at_, end_;
        std::uint32_t row_ = 0;
    };

    Iterator begin() const { return {archetypes_.begin(), archetypes_.end()}; }
    Iterator end() const { return {archetypes_.end(), archetypes_.end()}; }
    bool empty() const { return begin() == end(); }

    std::uint32_t size() const {
        std::uint32_t count = 0;
        for (const Archetype* archetype : archetypes_) count += archetype->size();
        return count;
    }

private:
    friend class World;

    Sources(World& world, Iterator::Archetypes archetypes) : deferral_(world), archetypes_(archetypes) {}

    World::Deferral deferral_;
    Iterator::Archetypes archetypes_;
};

/// What World::mut() gives.
template <class T>
class WorldMut : public Mut<T> {
public:
    using Mut<T>::operator=;

    ~WorldMut() {
        if (written_ != 0 && cell_) deferral_.world().wrote(entity_, cell_);
    }

private:
    friend class World;

    WorldMut(World& world, T& value, Entity entity, World::Cell cell)
        : Mut<T>(value, written_, 1), deferral_(world), entity_(entity), cell_(cell) {}

    std::uint64_t written_ = 0;
    World::Deferral deferral_;  // ends after the hooks were told
    Entity entity_;
    World::Cell cell_;
};

namespace detail {

template <class... Ts>
inline constexpr const TypeTag* type_pack[] = {&type_tag<Ts>...};

template <class T, class... Rest>
constexpr bool are_distinct() {
    if constexpr (sizeof...(Rest) == 0) {
        return true;
    } else {
        return !(std::is_same_v<T, Rest> || ...) && are_distinct<Rest...>();
    }
}

}  // namespace detail

template <class... Ts>
requires(sizeof...(Ts) > 0 &&
         (Component<std::remove_cvref_t<Ts>> && ...)) Entity World::spawn(Ts&&... values) {
    static_assert(detail::are_distinct<std::remove_cvref_t<Ts>...>(), "one value per component");
    // Copies first: what is passed may be a component, which moves when its column grows.
    return spawn_owned(std::remove_cvref_t<Ts>(std::forward<Ts>(values))...);
}

template <class... Ts>
Entity World::spawn_owned(Ts&&... values) {
    const Entity entity = entities_.take();
    if (locks_ != 0) {
        const ComponentId ids[] = {component<Ts>()...};
        void* const pointers[] = {&values...};
        commands_.push(CommandQueue::Kind::spawn, entity, ids, pointers);
        return entity;
    }
    const Deferral deferral(*this);
    Archetype& archetype = archetype_of(detail::type_pack<Ts...>);
    const std::uint32_t row = append_row(entity, archetype, std::move(values)...);
    complete_spawn(archetype, row, 1);
    return entity;
}

template <class... Ts>
std::uint32_t World::append_row(Entity entity, Archetype& archetype, Ts&&... values) {
    const std::uint32_t row = append(entity, archetype);
    const auto construct = [&]<class T>(T& value) {
        if constexpr (Value<T>)
            ::new (archetype.column(archetype.column_of(component<T>())).at(row)) T(std::move(value));
    };
    (construct(values), ...);
    return row;
}

/// `make` is given an index and a function that takes the values of one entity.
template <class... Ts, class Make>
std::vector<Entity> World::spawn_many(std::uint32_t count, Make make) {
    std::vector<Entity> entities;
    entities.reserve(count);
    if (locks_ != 0) {
        for (std::uint32_t i = 0; i < count; ++i)
            make(i, [&](Ts&&... values) { entities.push_back(spawn_owned(std::move(values)...)); });
        return entities;
    }
    const Deferral deferral(*this);
    Archetype& archetype = archetype_of(detail::type_pack<Ts...>);
    const std::uint32_t first = archetype.size();
    archetype.reserve(first + count);
    Archetype::Column* const columns[] = {&archetype.column(archetype.column_of(component<Ts>()))...};
    const auto construct = []<class T>(void* at, T& value) {
        if constexpr (Value<T>) ::new (at) T(std::move(value));
    };
    for (std::uint32_t i = 0; i < count; ++i)
        make(i, [&](Ts&&... values) {
            entities.push_back(entities_.take());
            const std::uint32_t row = append(entities.back(), archetype);
            std::size_t column = 0;
            (construct(columns[column++]->at(row), values), ...);
        });
    complete_spawn(archetype, first, count);
    return entities;
}

template <class... Ts>
requires(sizeof...(Ts) > 0 && ((Component<Ts> && std::is_copy_constructible_v<Ts>)&&...))
    std::vector<Entity> World::spawn_n(std::uint32_t count, const Ts&... values) {
    static_assert(detail::are_distinct<Ts...>(), "one value per component");
    return spawn_many<Ts...>(count, [&](std::uint32_t, auto&& place) { place(Ts(values)...); });
}

template <class... Ts, class Fn>
requires(sizeof...(Ts) > 0 && std::is_invocable_v<Fn&, std::uint32_t, Ts&...>)
    std::vector<Entity> World::spawn_n(std::uint32_t count, Fn fn) {
    static_assert(detail::are_distinct<Ts...>(), "one value per component");
    return spawn_many<Ts...>(count, [&](std::uint32_t i, auto&& place) {
        [&](Ts&&... values) {
            fn(i, values...);
            place(std::move(values)...);
        }(Ts{}...);
    });
}

template <Relation R>
HeldTargets<R> World::targets(Entity source) {
    const auto pairs = pairs_of(source, component<R>());
    if (pairs.empty()) return {*this, {}};
    const EntityTable::Place place = *entities_.find(source);
    return {*this, Targets<R>{pairs, archetypes_[place.archetype], place.row}};
}

template <Relation R>
Sources World::sources(Entity target) {
    return sources(component<R>(), target);
}

template <class... Ts>
requires(sizeof...(Ts) > 0 && (Component<std::remove_cvref_t<Ts>> && ...)) void World::set(Entity entity,
                                                                                           Ts&&... values) {
    static_assert(detail::are_distinct<std::remove_cvref_t<Ts>...>(), "one value per component");
    if constexpr (sizeof...(Ts) == 1) {
        (set_one(entity, std::remove_cvref_t<Ts>(std::forward<Ts>(values))), ...);
    } else {
        const auto set_several = [&](auto&&... owned) {
            const ComponentId ids[] = {component<std::remove_cvref_t<Ts>>()...};
            void* const pointers[] = {&owned...};
            set(entity, std::span<const ComponentId>(ids), std::span<void* const>(pointers));
        };
        set_several(std::remove_cvref_t<Ts>(std::forward<Ts>(values))...);
    }
}

template <class T>
void World::set_one(Entity entity, T&& value) {
    const ComponentId id = component<T>();
    if constexpr (Value<T>) {
        const Cell found = cell(entity, id);
        if (found && may_write_at_once(entity)) {
            T& old = *static_cast<T*>(found.at());
            if constexpr (std::is_trivially_copyable_v<T> && std::is_move_assignable_v<T>) {
                old = std::move(value);
                wrote(entity, found);
            } else {
                const Deferral deferral(*this);  // a destructor may be the user's own
                old.~T();
                ::new (&old) T(std::move(value));
                wrote(entity, found);
            }
            return;
        }
    }
    set(entity, id, static_cast<void*>(&value));
}

template <Value T, class Fn>
bool World::patch(Entity entity, Fn&& fn) {
    return patch(entity, component<T>(), [&fn](void* value) { return fn(*static_cast<T*>(value)); });
}

template <class Fn>
bool World::patch(Entity entity, ComponentId id, Fn&& fn) {
    const Writable found = writable(entity, id);
    if (found.value == nullptr) return false;
    const Deferral deferral(*this);
    if constexpr (std::is_same_v<std::invoke_result_t<Fn&, void*>, bool>) {
        if (!fn(found.value)) return false;
    } else {
        fn(found.value);
    }
    if (found.cell) wrote(entity, found.cell);
    return true;
}

template <Value T>
WorldMut<T> World::mut(Entity entity) {
    const Writable found = writable(entity, component<T>());
    assert(found.value != nullptr);
    if (found.value == nullptr) stop();
    return WorldMut<T>(*this, *static_cast<T*>(found.value), entity, found.cell);
}

}  // namespace shoal::ecs
