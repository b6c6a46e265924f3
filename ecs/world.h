#pragma once
// The world: entities, their components, and hooks that are called for every change.

#include <concepts>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "archetype_graph.h"
#include "commands.h"
#include "component.h"
#include "entity.h"
#include "hook_dispatch.h"
#include "hooks.h"
#include "mut.h"
#include "mutator.h"
#include "targets.h"

namespace shoal::ecs::impl {

template <class T>
class WorldMut;
class Sources;
template <Relation R>
class TargetRange;

/// Calls a function of a loop. Returns false if the function returned false, which ends the loop.
template <class Fn, class... Arguments>
bool goes_on(Fn& fn, const Arguments&... arguments) {
    if constexpr (std::is_same_v<std::invoke_result_t<Fn&, const Arguments&...>, bool>) {
        return fn(arguments...);
    } else {
        return fn(arguments...), true;
    }
}

/// Not thread-safe. Handles, ids and hooks are valid only in the world that returned them.
///
/// Deferral: while a hook runs, a query iterates or a Deferral lives, no row moves. Spawns, destroys, adds
/// and removes are queued, and applied in order when the outermost of these ends. A component that an
/// entity already has is written at once, unless an operation on this entity is queued: then the write is
/// queued behind it. Reads see the world without the queued operations. An entity whose spawn is queued is
/// alive and may be used at once; reads and queries find its components only when the spawn is applied.
///
/// Operations on a dead entity do nothing and are counted, see dropped_commands(). A debug build aborts if
/// the handle was stale already at the call, except in destroy() and in functions that only read; get() of
/// a missing value aborts in every build.
class World {
public:
    World();

    /// Calls the on_destroy hooks for every entity, then all remove hooks; the whole world is readable
    /// meanwhile. Operations that these hooks call are dropped. Requires that nothing is deferred or delayed.
    ~World();

    // Components

    /// The id of a type. The first call for a type registers it.
    template <Storable T>
    ComponentId component() {
        return components_.known(type_tag<T>).id;
    }

    /// From now on values of T are moved and destroyed by functions of the calling shared library, instead of
    /// those of the library that used T first in this world. Call it before that library is unloaded, and
    /// copyable<T>() again if it was called.
    template <Storable T>
    void adopt_component() {
        KnownComponent& known = components_.known(type_tag<T>);
        known.move = type_tag<T>.move;
        known.destroy = type_tag<T>.destroy;
    }

    /// Registers a component without a C++ type. Each call returns a new id, also for a name in use.
    ComponentId register_component(const ComponentType& type) { return components_.add(type); }

    /// components()[id] describes a component. The ids are 0 to components().size() - 1.
    const ComponentTable& components() const { return components_; }

    // Entities

    /// Creates an entity with these components, or with none. Calls add hooks when the row is complete.
    template <ComponentValue... Ts>
    Entity spawn(Ts&&... values);

    /// Moves from the values, which must not lie in the world; the value of a tag is null. If an id occurs
    /// twice, the first value is used. Of several pairs of an exclusive relation, only the first is added.
    /// For an invalid id or a missing value, a debug build aborts and a release build returns null.
    Entity spawn(std::span<const ComponentId> ids, std::span<void* const> values);

    /// Creates `count` entities with copies of the values. Add hooks get batches when all rows are complete.
    template <CopyableComponent... Ts>
    std::vector<Entity> spawn_n(std::uint32_t count, const Ts&... values);

    /// Creates `count` entities. For each, calls fn(std::uint32_t index, Ts&...) with default values (T{}),
    /// which `fn` may change; then the entity is created with them. `fn` may read the world, but must not
    /// write to it. The add hooks of the earlier entities have not been called yet.
    template <Component... Ts, std::invocable<std::uint32_t, Ts&...> Fn>
    std::vector<Entity> spawn_n(std::uint32_t count, Fn fn);

    /// First destroys the sources of destroy_with_target pairs to this entity, in the same way. Then calls
    /// the on_destroy hooks, which can read the whole entity, removes the other pairs that have it as target,
    /// and calls the remove hooks for each component.
    void destroy(Entity entity);

    /// Destroys every entity that is alive at the call.
    void clear();

    /// Lets clone() and copy_from() copy these components, which are not trivially copyable.
    template <class... Ts>
    requires(std::is_copy_constructible_v<Ts>&&...) void copyable() {
        ((components_.known(type_tag<Ts>).copy =
              [](void* to, const void* from) { ::new (to) Ts(*static_cast<const Ts*>(from)); }),
         ...);
    }

    /// Creates an entity with copies of the entity's components, pairs included. Leaves out components that
    /// are neither trivially copyable nor copyable<T>(), nor have a ComponentType::copy. Returns null if the
    /// entity is dead or its spawn is queued.
    Entity clone(Entity entity);

    /// Makes this world hold the same entities as `other`: the same handles and singletons, and copies of all
    /// components that clone() would copy. Calls clear() first, and the add hooks at last; so an entity of
    /// both worlds is in both lists of a ChangeCollector. Returns false and does nothing if an id names
    /// components in the two worlds that differ in name, layout, relation, or in having a move or destroy
    /// function; also false if hooks spawn entities whenever clear() is called.
    /// Requires that neither world is deferred.
    bool copy_from(const World& other);

    /// Makes room for `more` further entities that have exactly these components. Requires !is_deferring().
    template <Component... Ts>
    void reserve(std::uint32_t more) {
        assert(!is_deferring());
        entities_.reserve(more);
        if constexpr (sizeof...(Ts) != 0) archetype_of<Ts...>().reserve_more(more);
    }

    /// Frees all memory that the present entities do not need, and empty archetypes: as after the largest
    /// battle. Costs as much as to move all rows. Call it outside of hooks and queries.
    void shrink_to_fit();

    bool is_alive(Entity entity) const { return entities_.is_alive(entity); }

    /// Returns whether hooks of the entity's own destruction are running. It is alive until they have run.
    bool is_dying(Entity entity) const { return entity && mutator_.dying() == entity; }

    /// Number of living entities, including those whose spawn is queued.
    std::uint32_t size() const { return entities_.size(); }

    // Components of one entity. A component is named by its type, has<Health>(ship), or by a key: a pair,
    // has(ship, to<Follows>(leader)), or an id, has(ship, id). With an id, a value is passed as void*.

    /// Adds or overwrites components; adds several in one move of the row.
    template <ComponentValue... Ts>
    void set(Entity entity, Ts&&... values);
    /// For an id, `value` points to a value that is moved from; null for a tag.
    template <Key K>
    void set(Entity entity, K key, SetValue<K> value);
    /// `ids` and `values` as in spawn(). If an id or a value is invalid, a release build does nothing.
    void set(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values);

    /// Adds a default value, T{}. Does nothing if the entity has the component.
    template <class T = void, DefaultKey K = TypeKey<T>>
    void add(Entity entity, K key = {});
    /// As add() above, but moves from `*value` instead of using a default value. `value` is null for a tag.
    void add(Entity entity, ComponentId id, void* value);

    /// Removes components, in one move of the row. Components that the entity lacks are ignored.
    template <Component... Ts, Key... Keys>
    void remove(Entity entity, Keys... keys);
    void remove(Entity entity, std::span<const ComponentId> ids);

    /// Calls fn(T&) with the value, or with the queued value if there is one. `fn` may return false, which
    /// means that it changed nothing: then no hook is called. Returns false if there is no value or `fn`
    /// returned false. For an id, `fn` takes a void*.
    template <Value T, class Fn>
    bool patch(Entity entity, Fn&& fn);
    template <ValueKey K, class Fn>
    bool patch(Entity entity, K key, Fn&& fn);

    /// Write access to the value. The destructor of the returned object calls the change hooks if the value
    /// was accessed as non-const. Structural changes are queued while the object lives. Requires has(), or
    /// that a value is queued, else aborts the program. A value that a queued operation or the entity's
    /// destruction is going to remove can be written until then; no change hook is called for it.
    template <Value T>
    [[nodiscard]] WorldMut<T> mut(Entity entity);
    /// As mut(), but the result converts to false if there is no value or the entity is dead.
    template <Value T>
    [[nodiscard]] WorldMut<T> try_mut(Entity entity);

    template <class T = void, Key K = TypeKey<T>>
    bool has(Entity entity, K key = {}) const {
        static_assert(is_named_once<T, K>);
        return static_cast<bool>(cell(entity, key));
    }

    /// Requires that the entity has the value, else aborts the program. The reference is valid until the next
    /// structural change.
    template <class T = void, TypedKey K = TypeKey<T>>
    const ValueOf<K>& get(Entity entity, K key = {}) const {
        static_assert(is_named_once<T, K>);
        const ValueOf<K>* const value = try_get(entity, key);
        if (value == nullptr) stop("get", type_tag<ValueOf<K>>.name, entity);
        return *value;
    }

    /// Returns null if the entity is dead or lacks the component. Valid until the next structural change.
    /// Tags have no values: for a tag type that the entity has, returns the address of a constant; for the id
    /// of a tag, null.
    template <class T = void, Key K = TypeKey<T>>
    const ValueOf<K>* try_get(Entity entity, K key = {}) const {
        static_assert(is_named_once<T, K>);
        const Cell found = cell(entity, key);
        if (!found) return nullptr;
        if constexpr (std::is_empty_v<ValueOf<K>>) {
            return reinterpret_cast<const ValueOf<K>*>(tag_value<ValueOf<K>>);
        } else {
            return static_cast<const ValueOf<K>*>(found.at());
        }
    }

    /// Bypasses change detection: a write through the pointer calls no hook and sets no stamp. Null as for
    /// try_get().
    template <Value T>
    T* unsafe_raw_unmarked(Entity entity) {
        return const_cast<T*>(try_get<T>(entity));
    }

    // Pairs. A pair is a component of its source, and is removed when its target is destroyed.

    /// The target of an exclusive relation; null if the source has none or is dead.
    template <ExclusiveRelation R>
    Entity target(Entity source) const {
        const auto pairs = pairs_of(source, components_.find(type_tag<R>));
        return pairs.empty() ? Entity{} : pairs[0].target;
    }

    /// Ranges of all targets of a source, and of all sources that have a pair. Structural changes are queued
    /// while the range lives.
    template <Relation R>
    TargetRange<R> targets(Entity source) const;
    template <Key K>
    Sources sources(K pair) const;

    /// The pairs that a source has of a relation, sorted by target. Valid until the next structural change.
    std::span<const Archetype::Pair> pairs_of(Entity source, ComponentId relation) const;

    /// Returns the id of a pair, for functions that take a ComponentId. It is invalid once the target is
    /// dead. Hooks are connected to the relation, not to the id of a pair. Returns no id if the target is
    /// dead or `relation` is not a relation. components().pairs().find(id) returns the relation and target
    /// of an id.
    ComponentId pair_id(ComponentId relation, Entity target);

    // Singletons: values that exist once in a world. Each is a component of an entity of its own, created
    // when the value is first set, or of an entity passed to adopt_singleton().

    template <ComponentValue... Ts>
    void set_singleton(Ts&&... values) {
        (set(need_singleton(component<std::remove_cvref_t<Ts>>()), std::forward<Ts>(values)), ...);
    }

    /// As patch(). Returns false if there is no singleton.
    template <Value T, class Fn>
    bool patch_singleton(Fn&& fn) {
        const Entity holder = singleton_entity<T>();
        return holder && patch<T>(holder, std::forward<Fn>(fn));
    }

    /// The value of the singleton T. Aborts the program if there is none. The reference is valid until the
    /// next structural change.
    template <Value T>
    const T& singleton() const {
        return get<T>(singleton_entity<T>());
    }

    /// The entity of the singleton T; null if there is none.
    template <Component T>
    Entity singleton_entity() const {
        const std::uint32_t id = components_.find(type_tag<T>).value;
        return id < singletons_.size() && is_alive(singletons_[id]) ? singletons_[id] : Entity{};
    }

    /// Makes the component T of this entity the singleton. The entity may have been received over the
    /// network, for example. The entity of the former singleton is not changed.
    template <Component T>
    void adopt_singleton(Entity entity) {
        singleton_place(component<T>()) = entity;
    }

    // Enumeration

    /// Ids of the entity's components, sorted; empty if the entity is dead or its spawn is queued. Valid
    /// until the next structural change.
    std::span<const ComponentId> components_of(Entity entity) const;

    /// Calls fn(Entity) for each entity, in the order of indices. Queued spawns are left out. If fn returns a
    /// bool, false ends the loop.
    template <class Fn>
    void each_entity(Fn&& fn) const {
        const Deferral deferral(*this);
        for (std::uint32_t index = 0; index < entities_.index_count(); ++index) {
            const Entity entity = entities_.at(index);
            if (entities_.find(entity) != nullptr && !goes_on(fn, entity)) return;
        }
    }

    /// Number of archetypes, empty ones included.
    std::uint32_t archetype_count() const { return archetypes_.size(); }
    /// Frees the archetypes without entities. A world keeps them for later entities, so its memory can grow
    /// without limit if entities have new sets of components or pairs again and again. Call it outside of
    /// hooks and queries.
    void free_empty_archetypes();

    /// Calls fn(const Archetype&) for each archetype, also for empty ones. If fn returns a bool, false ends
    /// the loop.
    template <class Fn>
    void each_archetype(Fn&& fn) const {
        const Deferral deferral(*this);
        for (std::uint32_t index = 0; index < archetypes_.index_count(); ++index)
            if (const Archetype* archetype = archetypes_.at(index); archetype && !goes_on(fn, *archetype))
                return;
    }

    // Hooks. make_hook_function() lists the parameters that a function may take. Add hooks are called when
    // the row is complete and the value is final. Change hooks are called after the write; for a write made
    // by a hook, when the outermost operation ends. Remove hooks are called before the row moves, when all
    // components of the entity are readable.

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
    /// Connects a function to the id of a component or of a relation.
    template <class Fn>
    Hook on(HookKind kind, ComponentId id, Fn fn) {
        return hooks_.connect(kind, id, make_hook_function<void>(std::move(fn)));
    }

    /// Connects fn(World&, Entity) or fn(World&, std::span<const Entity>). The function that was connected
    /// last is called first.
    template <class Fn>
    Hook on_destroy(Fn fn) {
        struct Bare {};
        return hooks_.connect_on_destroy(make_hook_function<Bare>(std::move(fn)));
    }

    // Time and deferral

    /// The world's tick, with which writes are stamped; starts at 1.
    std::uint64_t tick() const { return tick_; }

    /// Adds 1 to the tick. Returns the tick that ends: no later write is stamped with it.
    std::uint64_t advance_tick() { return tick_++; }

    /// While a Deferral lives, structural changes are queued.
    class [[nodiscard]] Deferral {
    public:
        /// Also of a const world: to iterate over it does not change it.
        explicit Deferral(const World& world) : world_(const_cast<World&>(world)) { ++world_.locks_; }
        ~Deferral() noexcept(false) {  // throws what a hook threw
            // A predicted branch avoids a dependency between the counter updates of consecutive operations.
            if (world_.locks_ != 1) {
                --world_.locks_;
                return;
            }
            world_.locks_ = 0;
            if (world_.must_flush()) world_.flush_commands();
        }
        Deferral(const Deferral&) = delete;
        Deferral& operator=(const Deferral&) = delete;

        World& world() const { return world_; }

    private:
        World& world_;
    };

    bool is_deferring() const { return locks_ != 0 || hooks_.is_delaying(); }

    /// While a DelayHooks lives, calls of add and change hooks are delayed; spawns and writes take effect at
    /// once. When the last DelayHooks ends, the hooks are called in the order of the events. Remove and
    /// on_destroy hooks are not delayed: they are called before the removal, after all delayed calls. A hook
    /// that is connected during a delay may be called for earlier events.
    class [[nodiscard]] DelayHooks {
    public:
        explicit DelayHooks(World& world) : world_(world) { world.delay_hooks(true); }
        ~DelayHooks() noexcept(false) { world_.delay_hooks(false); }
        DelayHooks(const DelayHooks&) = delete;
        DelayHooks& operator=(const DelayHooks&) = delete;

    private:
        World& world_;
    };

    /// While a KeepThrown lives, operations go on as if no hook had thrown. When the last one ends, it throws
    /// the first exception that came from a hook or from a function given to call_guarded(). With `later`, it
    /// moves the exception there instead, unless there is an earlier one.
    class [[nodiscard]] KeepThrown {
    public:
        explicit KeepThrown(World& world, std::exception_ptr* later = nullptr)
            : world_(world), later_(later) {
            ++world_.keepers_;
        }
        ~KeepThrown() noexcept(false) {
            if (--world_.keepers_ != 0 || world_.kept_exception_ == nullptr) return;
            if (later_ == nullptr) {
                world_.throw_kept();
            } else if (auto kept = std::exchange(world_.kept_exception_, nullptr); *later_ == nullptr) {
                *later_ = std::move(kept);
            }
        }
        KeepThrown(const KeepThrown&) = delete;
        KeepThrown& operator=(const KeepThrown&) = delete;

    private:
        World& world_;
        std::exception_ptr* later_;
    };

    /// Number of operations that did nothing because the entity or the pair's target was dead or dying, an id
    /// was invalid, a value was missing, or a queued operation removes the value that patch() would write.
    /// Dead entities in a destroy_all() are not counted.
    std::uint64_t dropped_commands() const { return commands_.dropped(); }

    /// Returns whether entities, rows, columns, archetypes and pairs agree with each other; for tests.
    bool is_consistent() const;

private:
    friend class QueryCore;
    friend void keep_exception(World&, std::exception_ptr);
    template <class T>
    friend class WorldMut;

    /// A value that may be written in place: in its column, or in the command queue.
    struct Writable {
        void* value = nullptr;
        Column* column = nullptr;  // null if the value is queued
        std::uint32_t row = 0;
    };

    Cell cell(Entity entity, const KnownComponent& component) const {
        return ArchetypeGraph::cell(entities_.place(entity), component);
    }
    Cell cell(Entity entity, ComponentId id) const { return archetypes_.cell(entities_.place(entity), id); }
    template <class T>
    Cell cell(Entity entity, TypeKey<T>) const {
        return cell(entity, components_.find_known(type_tag<T>));
    }
    template <class R>
    Cell cell(Entity entity, PairKey<R> pair) const {
        return archetypes_.pair_cell(entities_.place(entity), find(pair));
    }

    static ComponentId find(ComponentId id) { return id; }
    /// None if pair_id() was never called for the pair, or the target is dead.
    template <class R>
    ComponentId find(PairKey<R> pair) const {
        return components_.pairs().find(components_.find(type_tag<R>), pair.target);
    }
    template <class T>
    ComponentId find(TypeKey<T>) const {
        return components_.find(type_tag<T>);
    }

    bool may_write_at_once(Entity entity) const { return locks_ == 0 || !is_busy(entity); }

    Writable writable(Entity entity, ComponentId id) {
        const Cell found = cell(entity, id);
        if (found && found.column->has_values() && locks_ == 0) return {found.at(), found.column, found.row};
        return writable_slow(entity, "patch", id, found);
    }
    template <Value T>
    Writable writable(Entity entity, const char* operation) {
        const KnownComponent& component = components_.known(type_tag<T>);
        const Cell found = cell(entity, component);
        if (found && locks_ == 0) return {&found.template value<T>(), found.column, found.row};
        return writable_slow(entity, operation, component.id, found);
    }
    template <Value T>
    Writable writable_or_going(Entity entity);
    template <class Fn>
    bool patch(Entity entity, const Writable& found, Fn&& fn);

    /// Stamps a write and calls the change hooks. Requires a Deferral.
    void wrote(Entity entity, Column& column, std::uint32_t row, const void* value) {
        column.wrote(row, tick_);
        if (column.type().has_hook(HookKind::change)) fire_write(column, value, entity);
    }
    /// Calls the change hooks. Not inlined, so that patch() is small enough to be.
    void fire_write(const Column& column, const void* value, Entity entity);

    Sources sources_of(ComponentId pair) const;
    template <class R>
    ComponentId require_pair(Entity source, PairKey<R> pair) {
        return require_pair(source, component<R>(), pair.target);
    }
    ComponentId require_pair(Entity source, ComponentId relation, Entity target);
    Entity& singleton_place(ComponentId id);
    Entity need_singleton(ComponentId id);

    Entity spawn_bare();
    template <class... Ts>
    Entity spawn_owned(Ts&&... values);
    template <class... Ts, class Make>
    std::vector<Entity> spawn_many(std::uint32_t count, Make make);
    template <class... Ts>
    std::uint32_t append_row(Entity entity, Archetype& archetype, Ts&&... values);
    template <class T>
    void set_one(Entity entity, T&& value);

    bool require_alive(Entity entity, const char* operation, ComponentId id);
    bool require_values(Entity entity, const char* operation, std::span<const ComponentId> ids,
                        std::span<void* const> values);
    bool is_busy(Entity entity) const;
    bool is_consistent(const Archetype& archetype) const;
    bool is_consistent(const KnownComponent& component) const;
    void add(Entity entity, const KnownComponent& component, void* value);
    void remove(Entity entity, const KnownComponent& component);
    void overwrite(Entity entity, const Cell& cell, void* value);
    void set_id(Entity entity, ComponentId id, void* value);
    void set_slow(Entity entity, const TypeTag& tag, void* value);
    void set_slow(Entity entity, const EntityTable::Place* place, const KnownComponent& component,
                  void* value);
    void set_any(Entity entity, const KnownComponent& component, void* value);
    Writable writable_slow(Entity entity, const char* operation, ComponentId id, const Cell& found);
    [[noreturn]] void stop(std::string_view operation, std::string_view component, Entity entity) const;

    template <class... Ts>
    Archetype& archetype_of();
    void report_write(const Column& column, const void* value, Entity entity);
    void destroy_all(std::span<const Entity> entities);
    void delay_hooks(bool begins);
    bool must_flush() const { return (commands_.size() | components_.pairs().dead_count()) != 0; }
    void flush_commands();
    void throw_kept();
    void apply(const CommandQueue::Command& command);

    EntityTable entities_;
    ComponentTable components_;
    ArchetypeGraph archetypes_{components_};
    CommandQueue commands_{components_};
    HookDispatch hooks_{components_, entities_, archetypes_, commands_};
    Mutator mutator_{*this, entities_, components_, archetypes_, hooks_, commands_};
    std::uint32_t locks_ = 0;  // living Deferrals and running flushes; while 0, operations are not queued
    std::uint64_t tick_ = 1;
    std::vector<Entity> singletons_;  // by component id; null if there is none
    std::exception_ptr kept_exception_;
    std::uint32_t keepers_ = 0;  // living KeepThrowns
};

}  // namespace shoal::ecs::impl

namespace shoal::ecs {
using impl::Archetype, impl::ComponentId, impl::ComponentType, impl::destroy_with_target, impl::exclusive,
    impl::Hook, impl::HookKind, impl::kBlockRows, impl::many, impl::Mut, impl::RelationTraits, impl::Removal,
    impl::Storable, impl::Targets, impl::to, impl::World;
}  // namespace shoal::ecs

#include "world_templates.h"
