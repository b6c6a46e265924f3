#pragma once
// The world: entities, their components, and the hooks that hear of every change.

#include <cassert>
#include <concepts>
#include <cstdint>
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

namespace shoal::ecs {

template <class T>
class WorldMut;
class Sources;
template <Relation R>
class HeldTargets;

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

    // Components

    /// The id of a type, given on first use.
    template <Storable T>
    ComponentId component() {
        return components_.known(type_tag<T>).id;
    }

    /// A new component that needs no C++ type. Names are not compared with those of other ones.
    ComponentId register_component(const ComponentType& type);

    /// What each id is: components()[id]. Ids of components are 0 to components().size() - 1.
    const ComponentTable& components() const { return components_; }

    // Entities

    /// An entity with these components, or with none. Add hooks run when the row is complete.
    template <ComponentValue... Ts>
    Entity spawn(Ts&&... values);

    /// Moves from the values, which must not lie in the world; null for tags. Of an id given twice the
    /// first value counts, of an exclusive relation the first pair.
    Entity spawn(std::span<const ComponentId> ids, std::span<void* const> values);

    /// As many, each with copies of the values. Add hooks get batches when all rows are complete.
    template <CopyableComponent... Ts>
    std::vector<Entity> spawn_n(std::uint32_t count, const Ts&... values);

    /// The same, each with what fn(std::uint32_t index, Ts&...) makes of T{}. It may read the world, not
    /// write to it: its rows are there one by one, their add hooks run at the end.
    template <Component... Ts, std::invocable<std::uint32_t, Ts&...> Fn>
    std::vector<Entity> spawn_n(std::uint32_t count, Fn fn);

    /// on_destroy first, with everything readable; then pairs that have it as their target go; then
    /// remove hooks by component. Sources of a destroy_with_target relation die before it, children first.
    void destroy(Entity entity);

    /// Every entity alive now.
    void clear();

    bool is_alive(Entity entity) const { return entities_.is_alive(entity); }

    /// Whether the entity's own destruction runs its hooks now; it is alive until they have run.
    bool is_dying(Entity entity) const { return entity && mutator_.dying() == entity; }

    /// Entities alive, also those still queued.
    std::uint32_t size() const { return entities_.size(); }

    // Components of one entity. One is named by its type, has<Health>(ship), or by a key behind the entity: a
    // pair, has(ship, to<Follows>(leader)), or an id, whose value is a void*.

    /// Adds or overwrites; several at once in one move.
    template <ComponentValue... Ts>
    void set(Entity entity, Ts&&... values);
    /// The value for an id is a pointer, moved from; null for a tag.
    template <Key K>
    void set(Entity entity, K key, SetValue<K> value);
    /// As spawn().
    void set(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values);

    /// A default value, T{}, if the entity does not have one yet; else nothing happens.
    template <class T = void, DefaultKey K = TypeKey<T>>
    void add(Entity entity, K key = {});
    /// The value is moved from; null for a tag.
    void add(Entity entity, ComponentId id, void* value);

    /// Several at once in one move. Those that the entity does not have are ignored.
    template <Component... Ts, Key... Keys>
    void remove(Entity entity, Keys... keys);
    void remove(Entity entity, std::span<const ComponentId> ids);

    /// Calls fn(T&), which may return false for "nothing changed". Returns whether the entity had the
    /// value, or has it queued, and it was changed.
    template <Value T, class Fn>
    bool patch(Entity entity, Fn&& fn);
    template <ValueKey K, class Fn>
    bool patch(Entity entity, K key, Fn&& fn);

    /// Write access that fires the change hooks when it ends, if it was used. Structural changes wait
    /// while it lives. Requires that the entity has the value; without one it stops the program.
    template <Value T>
    [[nodiscard]] WorldMut<T> mut(Entity entity);

    template <class T = void, Key K = TypeKey<T>>
    bool has(Entity entity, K key = {}) const {
        return static_cast<bool>(cell(entity, key));
    }

    /// Requires that the entity has the value; without one it stops the program. Valid until the next
    /// structural change.
    template <class T = void, TypedValueKey K = TypeKey<T>>
    const ValueOf<K>& get(Entity entity, K key = {}) const {
        const ValueOf<K>* const value = try_get(entity, key);
        if (value == nullptr) stop("get", type_tag<ValueOf<K>>.name, entity);
        return *value;
    }

    /// Null if the entity is dead or lacks the value. Valid until the next structural change.
    template <class T = void, ValueKey K = TypeKey<T>>
    const ValueOf<K>* try_get(Entity entity, K key = {}) const {
        const Cell found = cell(entity, key);
        return found ? static_cast<const ValueOf<K>*>(found.at()) : nullptr;
    }

    /// Writes through it are not seen by anyone: no hook, no stamp. Null as for try_get().
    template <Value T>
    T* unsafe_raw_unmarked(Entity entity) {
        return const_cast<T*>(try_get<T>(entity));
    }

    // Pairs of a relation and a target, held by a source. They end with any of the three.

    /// Of an exclusive relation; null if it has none.
    template <ExclusiveRelation R>
    Entity target(Entity source) const {
        const auto pairs = pairs_of(source, components_.find(type_tag<R>));
        return pairs.empty() ? Entity{} : pairs[0].target;
    }

    /// All targets of a source, and all sources that have a pair, to loop over: structural changes wait
    /// while the range lives.
    template <Relation R>
    HeldTargets<R> targets(Entity source);
    template <Key K>
    Sources sources(K pair);

    /// The pair's id, usable wherever an id is, but for hooks: these are connected to the relation. It means
    /// nothing any more once the target is dead. None if the target is dead, or if that is no relation.
    /// components().pairs().find(id) tells relation and target of an id.
    ComponentId pair_id(ComponentId relation, Entity target);

    // Singletons: values that exist once in a world. Each is the component of an entity of its own, made when
    // first set, which has nothing else unless somebody gives it more.

    template <ComponentValue... Ts>
    void set_singleton(Ts&&... values) {
        (set(need_singleton(component<std::remove_cvref_t<Ts>>()), std::forward<Ts>(values)), ...);
    }

    /// As patch(); false if there is none.
    template <Value T, class Fn>
    bool patch_singleton(Fn&& fn) {
        const Entity holder = singleton_entity<T>();
        return holder && patch<T>(holder, std::forward<Fn>(fn));
    }

    template <Value T>
    const T& singleton() const {
        return get<T>(singleton_entity<T>());
    }

    /// The entity that has it; null if there is none.
    template <Component T>
    Entity singleton_entity() const {
        const std::uint32_t id = components_.find(type_tag<T>).value;
        return id < singletons_.size() && is_alive(singletons_[id]) ? singletons_[id] : Entity{};
    }

    /// Makes the T of this entity the singleton, such as one that came over the network. The former entity
    /// stays as it is.
    template <Component T>
    void adopt_singleton(Entity entity) {
        singleton_place(component<T>()) = entity;
    }

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
    /// The same for an id, of a component or of a relation.
    template <class Fn>
    Hook on(HookKind kind, ComponentId id, Fn fn) {
        return hooks_.connect(kind, id, make_hook_function<void>(std::move(fn)));
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
            // Not a plain decrement: as long as the guess is right no operation waits for the last one's sum.
            if (world_.locks_ != 1) {
                --world_.locks_;
                return;
            }
            world_.locks_ = 0;
            if (world_.must_settle()) world_.settle();
        }
        Deferral(const Deferral&) = delete;
        Deferral& operator=(const Deferral&) = delete;

        World& world() const { return world_; }

    private:
        World& world_;
    };

    bool is_deferring() const { return locks_ != 0; }

    /// While one lives, add and change hooks wait; what is spawned and written is there at once. When the
    /// last one ends the hooks run, in the order of what happened, and find everything complete. Remove hooks
    /// and on_destroy do not wait: they are told before anything goes, and what waits is told before them. A
    /// hook connected meanwhile may be told of what happened before.
    class [[nodiscard]] DelayHooks {
    public:
        explicit DelayHooks(World& world) : world_(world) { world.delay_hooks(true); }
        ~DelayHooks() { world_.delay_hooks(false); }
        DelayHooks(const DelayHooks&) = delete;
        DelayHooks& operator=(const DelayHooks&) = delete;

    private:
        World& world_;
    };

    /// Operations that did nothing: their entity, or their pair's target, was dead or dying, or an id or
    /// value was none. What destroy_all() finds dead does not count.
    std::uint64_t dropped_commands() const { return commands_.dropped(); }

    /// Entities, rows, columns, archetypes and pairs agree with each other; for tests.
    bool is_consistent() const;

private:
    friend class QueryCore;
    template <class T>
    friend class WorldMut;

    /// A value to be written in place, where it is now or in the queue.
    struct Writable {
        void* value = nullptr;
        Column* column = nullptr;  // null if it is queued
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
    /// None if nobody has the pair.
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
        return unusual_writable(entity, id, found);
    }
    template <Value T>
    Writable writable(Entity entity) {
        const KnownComponent& component = components_.known(type_tag<T>);
        const Cell found = cell(entity, component);
        if (found && locks_ == 0) return {&found.template value<T>(), found.column, found.row};
        return unusual_writable(entity, component.id, found);
    }
    template <class Fn>
    bool patch(Entity entity, const Writable& found, Fn&& fn);

    /// Requires a Deferral.
    void wrote(Entity entity, Column& column, std::uint32_t row, const void* value) {
        column.wrote(row, tick_);
        if (column.type().has_hook(HookKind::change))
            hooks_.fire_changed({*this, {&entity, 1}, value, &column, Removal::component});
    }

    std::span<const Archetype::Pair> pairs_of(Entity source, ComponentId relation) const;
    Sources sources_of(ComponentId pair);
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
    bool require_values(Entity entity, std::span<const ComponentId> ids, std::span<void* const> values);
    bool is_busy(Entity entity) const;
    void remove(Entity entity, const KnownComponent& component);
    void set_id(Entity entity, ComponentId id, void* value);
    void set_elsewhere(Entity entity, const TypeTag& tag, void* value) {
        set_elsewhere(entity, components_.known(tag), value);
    }
    void set_elsewhere(Entity entity, const KnownComponent& component, void* value);
    Writable unusual_writable(Entity entity, ComponentId id, const Cell& found);
    [[noreturn]] void stop(std::string_view operation, std::string_view component, Entity entity) const;

    template <class... Ts>
    Archetype& archetype_of();
    void tell_of_write(const Column& column, const void* value, Entity entity);
    void destroy_all(std::span<const Entity> entities);
    void delay_hooks(bool begins);
    bool must_settle() const { return !commands_.empty() || components_.pairs().has_dead(); }
    void settle();
    void apply(const CommandQueue::Command& command);

    EntityTable entities_;
    ComponentTable components_;
    ArchetypeGraph archetypes_{components_};
    CommandQueue commands_{components_};
    HookDispatch hooks_{components_, entities_, archetypes_, commands_};
    Mutator mutator_{*this, entities_, components_, archetypes_, hooks_, commands_};
    std::uint32_t locks_ = 0;  // when 0, nothing is queued
    std::uint64_t tick_ = 1;
    std::vector<Entity> singletons_;  // by component; null where there is none
};

}  // namespace shoal::ecs

#include "world_templates.h"
