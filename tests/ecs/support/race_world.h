#pragma once
// The world of a race: runs the script's operations with all functions of the world that can do them.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecs/change_collector.h"
#include "ecs/query.h"
#include "ecs/world.h"
#include "tests/ecs/support/race_script.h"

namespace ecs_race {

class WorldSide : public Side {
public:
    WorldSide() {
        for (int kind = 0; kind < kAll; ++kind)
            with_type(kind, [&]<class T>() {
                ids[kind] = world->component<T>();
                collector.watch<T>();
            });
        // Connected first, so that all rows of a spawn_n() have their numbers before other hooks run.
        numbering =
            world->on_add<Health>([this](World&, std::span<const Entity> rows, std::span<const Health>) {
                for (const Entity entity : rows) number(entity);
            });
    }

    // Numbers for entities and components.

    /// Entities that an operation creates get numbers in the order of their rows.
    int number(Entity entity) {
        if (entity.index >= known.size() || known[entity.index].generation != entity.generation)
            note(entity, pending_number++);
        return known[entity.index].number;
    }
    void note(Entity entity, int as) {
        if (entity.index >= known.size()) known.resize(entity.index + 1);
        const auto place = static_cast<std::size_t>(as);
        if (entities.size() <= place) entities.resize(place + 1);
        Known& last = known[entity.index];
        if (last.generation >= entity.generation) {  // hooks numbered it; may be dead
            if (entities[place] != entity) fault = "a handle that was given before";
            return;
        }
        last = {entity.generation, as};
        entities[place] = entity;
    }
    Entity at(int entity) const { return entities[static_cast<std::size_t>(entity)]; }
    static int component_number(ComponentId id) {
        return id.is_pair() ? kFirstPair + static_cast<int>(id.value & 0x7FFF'FFFF)
                            : static_cast<int>(id.value);
    }
    ComponentId id_of(int component) const {
        return component < kFirstPair ? ids[component]
                                      : pairs[static_cast<std::size_t>(component - kFirstPair)].id;
    }
    std::uint64_t digest_of(Entity entity) const {
        std::uint64_t has = 0;
        for (const ComponentId id : world->components_of(entity)) has = digest(has, component_number(id));
        return has;
    }
    int size() override { return static_cast<int>(world->size()); }
    bool is_alive(int entity) override {
        return entity >= 0 && static_cast<std::size_t>(entity) < entities.size() &&
               world->is_alive(at(entity));
    }
    std::vector<int> living() override {
        std::vector<int> result;
        for (std::uint32_t index = 0; index < known.size(); ++index)
            if (world->is_alive({index, known[index].generation})) result.push_back(known[index].number);
        std::sort(result.begin(), result.end());
        return result;
    }

    // Entities.

    void spawn(const Values& values) override {
        const int before = std::exchange(pending_number, spawned++);  // for hooks
        const int mine = pending_number;
        const auto typed = [&]<class... Ts>() {
            note(world->spawn(make<Ts>(values.find(kind_of_type<Ts>)->value)...), mine);
        };
        if (values.empty()) {
            note(world->spawn(), mine);
        } else if (!with_types(values, typed)) {
            with_values(values,
                        [&](auto chosen, auto pointers) { note(world->spawn(chosen, pointers), mine); });
        }
        pending_number = before;
    }
    void spawn_n(int count, int value, bool is_generated) override {
        const int before = std::exchange(pending_number, spawned);
        const int first = spawned;
        spawned += count;
        const auto many = static_cast<std::uint32_t>(count);
        const auto generate = [&](std::uint32_t i, Health& health, MoveOnly& only) {
            health.points = value + static_cast<int>(i);
            only = make<MoveOnly>(value);
        };
        const std::vector<Entity> made =
            is_generated ? world->spawn_n<Health, MoveOnly>(many, generate)
                         : world->spawn_n(many, make<Health>(value), make<Counted>(value));
        for (int i = 0; i < count; ++i) note(made[static_cast<std::size_t>(i)], first + i);
        pending_number = before;
    }
    void destroy(int entity) override { world->destroy(at(entity)); }
    void destroy_frozen() override { query<With<Frozen>>().destroy_all(); }
    void clear() override { world->clear(); }
    void set_singleton(int value) override {
        const bool is_new = !world->singleton_entity<Health>();
        const int before = pending_number;
        if (is_new) pending_number = spawned++;
        const int mine = pending_number;
        world->set_singleton(make<Health>(value));
        const bool is_met = entities.size() > static_cast<std::size_t>(mine) && at(mine);  // by hooks
        if (is_new && !is_met) note(world->singleton_entity<Health>(), mine);
        pending_number = before;
    }
    void set_singletons(int entity) override { world->adopt_singleton<Health>(at(entity)); }

    // Values.

    void set(int entity, const Values& values, int how) override {
        const Entity to = at(entity);
        const auto typed = [&]<class... Ts>() {
            world->set(to, make<Ts>(values.find(kind_of_type<Ts>)->value)...);
        };
        const auto [component, value] = *values.begin();
        if (how == 0 && with_types(values, typed)) return;
        if (how == 1 && values.size() == 1 && component >= kFirstPair)
            return with_pair(component, [&, v = value]<class R>(Entity target) {
                world->set(to, shoal::ecs::to<R>(target), make<R>(v));
            });
        with_values(values, [&](auto chosen, auto pointers) {
            if (how == 1 && values.size() == 1)
                world->set(to, chosen[0], pointers[0]);
            else
                world->set(to, chosen, pointers);
        });
    }
    void add(int entity, int component, int how) override {
        const Entity to = at(entity);
        if (component >= kFirstPair && how != 2)
            return with_pair(component,
                             [&]<class R>(Entity target) { world->add(to, shoal::ecs::to<R>(target)); });
        if (component != kMoveOnly && how != 2)  // whose T{} would be null
            return with_type(component, [&]<class T>() {
                if constexpr (Component<T>) world->add<T>(to);
            });
        Values value;
        value.set(component, 0);
        with_values(value, [&](auto chosen, auto pointers) { world->add(to, chosen[0], pointers[0]); });
    }
    void remove(int entity, const Values& components, int how) override {
        const Entity from = at(entity);
        const int first = components.begin()->component;
        if (how == 0 && with_types(components, [&]<class... Ts>() { world->remove<Ts...>(from); })) return;
        if (how == 0 && components.size() == 1 && first >= kFirstPair)
            return with_pair(first,
                             [&]<class R>(Entity target) { world->remove(from, shoal::ecs::to<R>(target)); });
        if (how == 1 && components.size() == 1) return world->remove(from, id_of(first));
        ComponentId list[kAll];
        std::size_t count = 0;
        for (const auto& entry : components) list[count++] = id_of(entry.component);
        world->remove(from, std::span<const ComponentId>(list, count));
    }
    void patch(int entity, int component, int by, int how) override {
        const Entity to = at(entity);
        const auto change = [by]<class T>(T& value) {
            number_in(value) += by;
            return by != 0;
        };
        const auto change_for_sure = [by]<class T>(T& value) { number_in(value) += by; };
        const auto with_kind = [&]<class T>(Entity target) {
            const bool is_sure = how == 0 && by != 0;
            if constexpr (std::is_empty_v<T>) {
                fault = "patched what has no value";
            } else if (how == 2) {
                world->patch(to, id_of(component),
                             [&](void* value) { return change(*static_cast<T*>(value)); });
            } else if constexpr (Relation<T>) {
                is_sure ? world->patch(to, shoal::ecs::to<T>(target), change_for_sure)
                        : world->patch(to, shoal::ecs::to<T>(target), change);
            } else {
                is_sure ? world->patch<T>(to, change_for_sure) : world->patch<T>(to, change);
            }
        };
        if (component >= kFirstPair) return with_pair(component, with_kind);
        with_type(component, [&]<class T>() { with_kind.template operator()<T>(Entity{}); });
    }
    void mut(int entity, int component, int by) override {
        with_type(component, [&]<class T>() {
            if constexpr (Value<T>) {
                bool is_there = false;
                world->patch<T>(at(entity), [&](T&) {
                    is_there = true;
                    return false;
                });
                if (!is_there) return;
                auto value = world->mut<T>(at(entity));
                visit(component, entity, value_of(value.read()), by);
                if (by != 0) number_in(*value) += by;
            }
        });
    }
    int pair(int relation, int target) override {
        const ComponentId id = world->pair_id(ids[kKinds + relation], at(target));
        const int component = component_number(id);
        const auto slot = static_cast<std::size_t>(component - kFirstPair);
        if (pairs.size() <= slot) pairs.resize(slot + 1);
        PairId& last = pairs[slot];
        if (last.id == id && last.target != at(target)) fault = "an id that a dead pair had";
        if (last.id != id && world->components().pairs().find(last.id) != nullptr)
            fault = "the id of a dead pair";
        last = {id, at(target)};
        return component;
    }

    // Iterations.

    void iterate(int component, int mode, int how) override {
        const auto see = [&](Entity entity, int value) { visit(component, number(entity), value, mode); };
        const auto add_one = [](auto& value) { return number_in(value)++; };
        const auto lower_odd = []<class T>(Mut<T>& value) {
            const int old = value_of(value.read());
            if (old % 2 != 0) number_in(*value) = old - 1;
            return old;
        };
        if (mode == 4)
            return query<Mut<Counted>, Health>().each([&](Entity e, Mut<Counted> value, Health& health) {
                const int old = lower_odd(value);
                add_one(health);
                visit(kCounted, number(e), old, mode);
            });
        with_type(component, [&]<class T>() {
            if constexpr (Value<T>) {
                if (mode == 0 && how == 0)
                    Query<const T>(*world).each([&](Entity e, const T& v) { see(e, value_of(v)); });
                else if (mode == 0)
                    query<const T>().each([&](Entity e, const T& v) { see(e, value_of(v)); });
                else if (mode == 1)
                    query<T, Without<Frozen>>().each([&](Entity e, T& v) { see(e, add_one(v)); });
                else if (mode == 2)
                    query<Mut<T>>().each([&](Entity e, Mut<T> v) { see(e, lower_odd(v)); });
                else
                    query<Optional<T>, Without<Frozen>>().each(
                        [&](Entity e, T* v) { see(e, v != nullptr ? add_one(*v) : 0); });
            }
        });
    }
    /// None if nobody asked for the pair yet.
    ComponentId known_pair(int relation, int target) const {
        return world->components().pairs().find(ids[kKinds + relation], at(target));
    }
    void iterate_sources(int relation, int target, int how) override {
        if (!is_alive(target)) return;
        if (how == 2 && relation + kKinds == kLikes)
            return query<Pair<Likes>>().each_to<Likes>(
                at(target), [&](Entity e, const Targets<Likes>&) { visit(relation, number(e), 0, 1); });
        if (how == 1) {
            for (const Entity source : world->sources(known_pair(relation, target)))
                visit(relation, number(source), 0, 0);
            return;
        }
        with_type(kKinds + relation, [&]<class T>() {
            if constexpr (Relation<T>)
                for (const Entity source : world->sources(to<T>(at(target))))
                    visit(relation, number(source), 0, 0);
        });
    }
    void iterate_targets(int relation, int source) override {
        if (!is_alive(source)) return;
        with_type(kKinds + relation, [&]<class T>() {
            if constexpr (Relation<T>) {
                const auto targets = world->targets<T>(at(source));
                for (std::size_t i = 0; i < targets.size(); ++i) {
                    int value = 0;
                    if constexpr (!std::is_empty_v<T>) value = value_of(targets.value(i));
                    visit(component_number(world->pair_id(world->component<T>(), targets[i])),
                          number(targets[i]), value, 0);
                }
            }
        });
    }
    void iterate_entities() override {
        world->each_entity([&](Entity entity) { visit(0, number(entity), 0, 0); });
    }
    void defer(std::uint64_t first, std::uint64_t second) override {
        const World::Deferral deferral(*world);
        act(first);
        act(second);
    }
    void delay_hooks(std::uint64_t first, std::uint64_t second) override {
        const World::DelayHooks delay(*world);
        act(first);
        act(second);
    }
    void keep_deferral() override {
        const auto ending = std::move(kept_deferral);  // its end may keep another one
        if (ending == nullptr) kept_deferral = std::make_unique<World::Deferral>(*world);
    }
    bool keeps_deferral() const override { return kept_deferral != nullptr; }

    // Hooks and collected changes.

    void connect(int slot, Connection how) override {
        if (how.event == kDestroy) {
            if (how.is_batch)
                hooks[slot] = world->on_destroy([this, slot](World&, std::span<const Entity> rows) {
                    tell_batch(kDestroy, 0, rows, Removal::entity, slot, [](std::size_t) { return 0; });
                });
            else
                hooks[slot] = world->on_destroy(
                    [this, slot](World&, Entity e) { tell_one(kDestroy, 0, e, 0, Removal::entity, slot); });
            return;
        }
        with_type(how.kind, [&]<class T>() {
            if constexpr (Relation<T>)
                connect_pair<T>(slot, how);
            else
                connect_component<T>(slot, how);
        });
    }
    void disconnect(int slot) override { hooks[slot].disconnect(); }
    void release(int slot) override { hooks[slot].release(); }
    void mark(int entity, int kind) override {
        if (kind == kAll)
            collector.mark_all(at(entity));
        else
            collector.mark(at(entity), static_cast<std::uint32_t>(kind));
    }
    void forget(int entity) override { collector.forget(at(entity)); }

    /// Made at the first use, kept as long as the world.
    template <class... Terms>
    Query<Terms...>& query() {
        auto& kept = std::get<std::optional<Query<Terms...>>>(queries);
        if (!kept) kept.emplace(*world);
        return *kept;
    }

    struct PairId {
        ComponentId id;
        Entity target;
    };

    std::unique_ptr<World> world = std::make_unique<World>();
    ChangeCollector collector{*world};
    ComponentId ids[kAll];
    std::vector<PairId> pairs;  // by slot: the last one seen
    Hook hooks[kSlots];
    std::vector<Entity> entities;  // by number
    bool is_over = false;          // hooks are not traced any more
    const char* fault = nullptr;   // an error that a model cannot have

private:
    struct Known {
        std::uint32_t generation = 0;
        int number = 0;
    };

    /// Calls fn with ids and pointers to values, in descending order. They outlive the call.
    template <class Fn>
    void with_values(const Values& values, Fn fn) {
        ComponentId chosen[kAll];
        void* pointers[kAll];
        struct Box {
            void* memory = nullptr;
            void (*destroy)(void*) = nullptr;
            alignas(std::max_align_t) std::byte bytes[sizeof(SelfReferential) + sizeof(Likes)];
        };
        Box boxes[kAll];
        auto count = static_cast<std::size_t>(values.size());
        std::size_t at = count;
        for (const auto& entry : values) {
            chosen[--at] = id_of(entry.component);
            const int kind = component_number(world->components().type_of(chosen[at]));
            with_type(kind, [&]<class T>() {
                if constexpr (!std::is_empty_v<T>) {
                    static_assert(sizeof(T) <= sizeof(Box::bytes));
                    boxes[at].memory = ::new (boxes[at].bytes) T(make<T>(entry.value));
                    boxes[at].destroy = [](void* value) { static_cast<T*>(value)->~T(); };
                }
            });
            pointers[at] = boxes[at].memory;
        }
        fn(std::span<const ComponentId>(chosen, count), std::span<void* const>(pointers, count));
        for (Box& box : boxes)
            if (box.destroy != nullptr) box.destroy(box.memory);
    }

    /// Calls fn with the type and the target of a pair.
    template <class Fn>
    void with_pair(int component, Fn&& fn) {
        const PairTable::Pair* const pair = world->components().pairs().find(id_of(component));
        const Entity target = pair->target;
        with_type(component_number(pair->relation), [&]<class T>() {
            if constexpr (Relation<T>) fn.template operator()<T>(target);
        });
    }

    // Released hooks are still connected at the end.

    void note_event(int event, int component, Entity entity, int value, Removal why, int slot) {
        const int detail =
            static_cast<int>(event >= kRemove ? why : Removal{}) + (world->is_dying(entity) ? 8 : 0);
        trace.push_back({event, component, number(entity), value, detail, slot, digest_of(entity)});
    }
    void tell_one(int event, int component, Entity entity, int value, Removal why, int slot) {
        if (is_over) return;
        note_event(event, component, entity, value, why, slot);
        react();
    }
    template <class ValueAt>
    void tell_batch(int event, int component, std::span<const Entity> rows, Removal why, int slot,
                    ValueAt value) {
        if (is_over) return;
        trace.push_back({kBatch, component, static_cast<int>(rows.size()), 0, 0, slot, 0});
        for (std::size_t i = 0; i < rows.size(); ++i)
            note_event(event, component, rows[i], value(i), why, slot);
        react();
    }

    // Add and change hooks take a Removal here, too; it is not Removal::entity.

    template <class T, class Fn>
    Hook on_type(int event, Fn fn) {
        if (event == kAdd) return world->on_add<T>(fn);
        if (event == kChange) return world->on_change<T>(fn);
        return world->on_remove<T>(fn);
    }
    template <class Fn>
    Hook on_id(int event, ComponentId id, Fn fn) {
        if (event == kAdd) return world->on(HookKind::add, id, fn);
        if (event == kChange) return world->on(HookKind::change, id, fn);
        return world->on(HookKind::remove, id, fn);
    }
    /// For a component that is not a pair.
    template <class T>
    void connect_component(int slot, Connection how) {
        using Rows = std::span<const Entity>;
        const int event = how.event, kind = how.kind;
        const auto one = [this, slot, event, kind](World& w, Entity e, const void* at, Removal why) {
            int value = 0;
            if constexpr (Value<T>) {
                if (at != w.try_get<T>(e)) fault = "the value in a hook";
                value = value_of(*static_cast<const T*>(at));
            }
            tell_one(event, kind, e, value, why, slot);
        };
        const auto batch = [this, slot, event, kind](World&, Rows rows, const void* values, Removal why) {
            tell_batch(event, kind, rows, why, slot, value_in<T>(values));
        };
        if (how.is_by_id) {
            hooks[slot] = how.is_batch ? on_id(event, ids[kind], batch) : on_id(event, ids[kind], one);
        } else if constexpr (Tag<T>) {
            const auto typed = [one](World& w, Entity e, Removal why) { one(w, e, nullptr, why); };
            const auto all = [batch](World& w, Rows rows, Removal why) { batch(w, rows, nullptr, why); };
            hooks[slot] = how.is_batch ? on_type<T>(event, all) : on_type<T>(event, typed);
        } else {
            const auto typed = [one](World& w, Entity e, const T& v, Removal why) { one(w, e, &v, why); };
            const auto all = [batch](World& w, Rows rows, std::span<const T> values, Removal why) {
                batch(w, rows, values.data(), why);
            };
            hooks[slot] = how.is_batch ? on_type<T>(event, all) : on_type<T>(event, typed);
        }
    }
    template <class T>
    void connect_pair(int slot, Connection how) {
        using Rows = std::span<const Entity>;
        const int event = how.event, kind = how.kind;
        const auto one = [this, slot, event](World& w, Entity e, Entity to, const void* at, Removal why) {
            int value = 0;
            if constexpr (!std::is_empty_v<T>) {
                if (at != w.try_get(e, shoal::ecs::to<T>(to))) fault = "the value in a pair's hook";
                value = value_of(*static_cast<const T*>(at));
            }
            tell_one(event, component_number(w.pair_id(w.component<T>(), to)), e, value, why, slot);
        };
        const auto batch = [this, slot, event](World& w, Rows rows, Entity to, const void* values,
                                               Removal why) {
            tell_batch(event, component_number(w.pair_id(w.component<T>(), to)), rows, why, slot,
                       value_in<T>(values));
        };
        if (how.is_by_id) {
            hooks[slot] = how.is_batch ? on_id(event, ids[kind], batch) : on_id(event, ids[kind], one);
        } else if constexpr (std::is_empty_v<T>) {
            const auto typed = [one](World& w, Entity e, Entity to, Removal why) {
                one(w, e, to, nullptr, why);
            };
            const auto all = [batch](World& w, Rows rows, Entity to, Removal why) {
                batch(w, rows, to, nullptr, why);
            };
            hooks[slot] = how.is_batch ? on_type<T>(event, all) : on_type<T>(event, typed);
        } else {
            const auto typed = [one](World& w, Entity e, Entity to, const T& v, Removal why) {
                one(w, e, to, &v, why);
            };
            const auto all = [batch](World& w, Rows rows, Entity to, std::span<const T> values, Removal why) {
                batch(w, rows, to, values.data(), why);
            };
            hooks[slot] = how.is_batch ? on_type<T>(event, all) : on_type<T>(event, typed);
        }
    }
    template <class T>
    static auto value_in(const void* values) {
        return [=](std::size_t i) {
            if constexpr (std::is_empty_v<T>)
                return 0;
            else
                return value_of(static_cast<const T*>(values)[i]);
        };
    }

    template <class... Q>
    using Kept = std::tuple<std::optional<Q>...>;
    template <class T>
    using KeptOf =
        Kept<Query<const T>, Query<T, Without<Frozen>>, Query<Mut<T>>, Query<Optional<T>, Without<Frozen>>>;
    using Others =
        Kept<Query<With<Frozen>>, Query<Mut<Counted>, Health>, Query<Pair<Likes>>,
             Query<const Health, Without<Frozen>, With<Counted>, Optional<const MoveOnly>>,
             Query<const Counted, Pair<Likes>, Without<ChildOf>>, Query<const Health, Changed<Health>>>;
    decltype(std::tuple_cat(std::declval<Others>(), std::declval<KeptOf<Health>>(),
                            std::declval<KeptOf<Counted>>(), std::declval<KeptOf<SelfReferential>>(),
                            std::declval<KeptOf<MoveOnly>>())) queries;

    std::vector<Known> known;  // by index
    int pending_number = 0;
    Hook numbering;
    std::unique_ptr<World::Deferral> kept_deferral;
};

}  // namespace ecs_race
