#pragma once
// The world against a model too simple to be wrong: maps of maps, moved by the same random script.
// Hooks react at random too: they write, spawn, destroy, pair, iterate, connect and disconnect. After each
// step the traces of all hooks, all values, all queries and the collected changes must be equal.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ecs/change_collector.h"
#include "ecs/query.h"
#include "ecs/world.h"
#include "ecs_types.h"

namespace ecs_race {

using namespace shoal::ecs;
using namespace ecs_types;

struct ChildOf {
    static constexpr auto relation = exclusive | destroy_with_target;
};
struct Follows {
    static constexpr auto relation = exclusive;
    int distance = 0;
};
struct Likes {
    static constexpr auto relation = many;
    Counted much{0};
};

constexpr int kKinds = 5;  // of components: Health, Counted, SelfReferential, MoveOnly, Frozen
constexpr int kTag = 4;
constexpr int kRelations = 3;               // numbered after those: ChildOf, Follows, Likes
constexpr int kFirstPair = 1000;            // pairs are numbered as the world's slots for them, from here
constexpr int kCrowd = 80;                  // entities, above which many die
constexpr int kSlots = 24;                  // for hooks
constexpr std::size_t kMaxReactions = 150;  // per step; later events are only traced

enum Event { kAdd, kChange, kRemove, kDestroy };
using Values = std::map<int, int>;  // component to value; entities are known by the order they came in
using Traced = std::tuple<int, int, int, int, int, int,
                          std::set<int>>;  // what, component, entity, value, reason, slot, has

std::uint64_t mix(std::uint64_t x) {
    x += 0x9E37'79B9'7F4A'7C15;
    x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9;
    x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EB;
    return x ^ (x >> 31);
}

/// A world or its model, under one script.
class Side {
public:
    virtual ~Side() = default;
    virtual int spawn(const Values& values) = 0;
    virtual void destroy(int entity) = 0;
    virtual void set(int entity, const Values& values) = 0;
    virtual void add(int entity, int component) = 0;
    virtual void remove(int entity, const std::set<int>& components) = 0;
    virtual int pair(int relation, int target) = 0;  // the component number of the pair
    virtual void spawn_n(int count, int value, bool generated) = 0;
    virtual void destroy_frozen() = 0;
    virtual void destroy_all(const std::vector<int>& entities) = 0;
    virtual void set_singleton(int value) = 0;
    virtual void iterate_sources(int relation, int target) = 0;
    virtual int size() = 0;
    virtual void patch(int entity, int component, int by) = 0;  // by 0: tells "nothing changed"
    virtual void iterate(int component, int mode) = 0;          // 0 reads, 1 adds 1 to all, 2 doubles the odd
    virtual void connect(int slot, int event, int component) = 0;
    virtual void disconnect(int slot) = 0;
    virtual bool is_alive(int entity) = 0;

    void act(std::uint64_t dice) {
        const auto roll = [&](std::uint64_t sides) {
            dice = mix(dice);
            return static_cast<int>(dice % sides);
        };
        const auto some = [&] {
            Values values;
            for (int c = 0; c < kKinds; ++c)
                if (roll(3) == 0) values[c] = c == kTag ? 0 : roll(100);
            return values;
        };
        const auto recent = [&] {
            return spawned == 0 ? 0 : spawned - 1 - roll(std::uint64_t(std::min(spawned, 12)));
        };
        const auto some_pair = [&] {
            const int relation = roll(kRelations), target = recent(), value = roll(100);
            if (spawned == 0 || !is_alive(target)) return Values{};
            return Values{{pair(relation, target), relation == 0 ? 0 : value}};
        };
        const int entity = spawned == 0   ? 0
                           : roll(8) == 0 ? roll(std::uint64_t(spawned))
                                          : spawned - 1 - roll(std::uint64_t(std::min(spawned, 30)));
        const bool usable = spawned != 0 && is_alive(entity);
        const int component = roll(kKinds);
        if (size() > kCrowd) {
            std::vector<int> doomed;
            for (int at = 0; at < spawned; ++at)
                if (is_alive(at) && roll(4) != 0) doomed.push_back(at);
            return destroy_all(doomed);
        }
        switch (roll(24)) {
            case 16:
            case 17:
            case 18: {
                const Values one = some_pair();
                const int how = roll(8);
                if (!usable || one.empty()) break;
                if (how == 0) remove(entity, {one.begin()->first});
                if (how == 1) add(entity, one.begin()->first);
                if (how > 1) set(entity, one);
                break;
            }
            case 19: {
                const Values one = some_pair();
                const int by = roll(4);
                if (usable && !one.empty() && one.begin()->second != 0) patch(entity, one.begin()->first, by);
                break;
            }
            case 20: {
                const int count = 1 + roll(4), value = roll(100);
                spawn_n(count, value, roll(2) == 0);
                break;
            }
            case 21: {
                std::set<int> components;
                for (int c = 0; c < kKinds; ++c)
                    if (roll(2) == 0) components.insert(c);
                const Values one = some_pair();
                if (!one.empty()) components.insert(one.begin()->first);
                if (usable) remove(entity, components);
                break;
            }
            case 22: {
                const int value = roll(100);
                const int which = roll(4);
                if (which == 0) destroy_frozen();
                if (which == 1) set_singleton(value);
                break;
            }
            case 23: {
                const int relation = roll(kRelations), target = recent();
                if (nesting < 2 && spawned != 0) {
                    ++nesting;
                    iterate_sources(relation, target);
                    --nesting;
                }
                break;
            }
            case 0:
            case 1: {
                Values values = some();
                if (roll(3) == 0) values.merge(some_pair());
                spawn(values);
                break;
            }
            case 2:
                if (spawned != 0) destroy(entity);
                break;
            case 3:
            case 4: {
                const int value = roll(100);
                if (usable) set(entity, {{component, component == kTag ? 0 : value}});
                break;
            }
            case 5: {
                Values values = some();
                if (roll(3) == 0) values.merge(some_pair());
                if (usable && !values.empty()) set(entity, values);
                break;
            }
            case 6:
                if (usable) add(entity, component);
                break;
            case 7:
            case 8:
                if (usable) remove(entity, {component});
                break;
            case 9:
            case 10: {
                const int by = roll(4);
                if (usable && component != kTag) patch(entity, component, by);
                break;
            }
            case 11:
            case 15: {
                const int mode = roll(3);
                if (component != kTag && nesting < 2) {
                    ++nesting;
                    iterate(component, mode);
                    --nesting;
                }
                break;
            }
            case 12:
            case 14: {
                const int slot = roll(kSlots);
                disconnect(slot);
                const int event = roll(4);
                connect(slot, event, roll(kKinds + kRelations));
                break;
            }
            case 13:
                if (roll(3) == 0) disconnect(roll(kSlots));
                break;
        }
    }

    void react() {
        if (trace.size() + visits >= kMaxReactions) return;
        const std::uint64_t dice = mix(seed ^ mix(trace.size() * 1'000 + visits));
        if (dice % 3 != 0) return;
        act(dice);
        if (dice % 2 == 0) act(~dice);
    }

    std::uint64_t seed = 0;
    std::vector<Traced> trace;
    std::uint64_t visits = 0;
    int nesting = 0;
    int spawned = 0;
};

template <class T>
T make(int value) {
    if constexpr (std::is_same_v<T, MoveOnly>) {
        return MoveOnly{std::make_unique<int>(value)};
    } else if constexpr (std::is_same_v<T, Likes>) {
        return Likes{Counted{value}};
    } else if constexpr (std::is_empty_v<T>) {
        return {};
    } else {
        return T{value};
    }
}
int value_of(const Health& v) {
    return v.points;
}
int value_of(const Counted& v) {
    return v.value;
}
int value_of(const SelfReferential& v) {
    return v.is_intact() ? v.value : -1'000'000;
}
int value_of(const Follows& v) {
    return v.distance;
}
int value_of(const Likes& v) {
    return v.much.value;
}
int value_of(const MoveOnly& v) {
    return v.value == nullptr ? -2'000'000 : *v.value;
}
void write(Health& v, int value) {
    v.points = value;
}
void write(Counted& v, int value) {
    v.value = value;
}
void write(SelfReferential& v, int value) {
    v.value = value;
}
void write(Follows& v, int value) {
    v.distance = value;
}
void write(Likes& v, int value) {
    v.much.value = value;
}
void write(MoveOnly& v, int value) {
    *v.value = value;
}

template <class Fn>
void with_type(int component, Fn fn) {
    switch (component) {
        case 0:
            fn.template operator()<Health>();
            break;
        case 1:
            fn.template operator()<Counted>();
            break;
        case 2:
            fn.template operator()<SelfReferential>();
            break;
        case 3:
            fn.template operator()<MoveOnly>();
            break;
        case 4:
            fn.template operator()<Frozen>();
            break;
        case 5:
            fn.template operator()<ChildOf>();
            break;
        case 6:
            fn.template operator()<Follows>();
            break;
        case 7:
            fn.template operator()<Likes>();
            break;
    }
}

class WorldSide : public Side {
public:
    WorldSide() {
        for (int c = 0; c < kKinds + kRelations; ++c)
            with_type(c, [&]<class T>() {
                ids[c] = world->component<T>();
                collector.watch<T>();
            });
        all_likes.emplace(*world);
        // Before any other hook: all rows of a spawn_n() have their numbers.
        numbering =
            world->on_add<Health>([this](World&, std::span<const Entity> rows, std::span<const Health>) {
                for (const Entity entity : rows) number(entity);
            });
    }

    /// Those that come into being within an operation are met in the order of their rows.
    int number(Entity entity) {
        if (numbers.count(entity) == 0) note(entity, pending_number++);
        return numbers.at(entity);
    }
    int component_number(ComponentId id) const {
        return id.is_pair() ? kFirstPair + static_cast<int>(id.value & 0x7FFF'FFFF)
                            : static_cast<int>(id.value);
    }
    ComponentId id_of(int component) const {
        return component < kFirstPair ? ids[component] : pairs.at(component);
    }
    std::set<int> components(Entity entity) const {
        std::set<int> result;
        for (const ComponentId id : world->components_of(entity)) result.insert(component_number(id));
        return result;
    }

    /// Calls fn with the ids and values in some order. They outlive the call, moved from or not.
    template <class Fn>
    void with_values(const Values& values, Fn fn) {
        std::vector<ComponentId> chosen;
        std::vector<void*> pointers;
        std::deque<Health> healths;
        std::deque<Counted> counteds;
        std::deque<SelfReferential> selves;
        std::deque<MoveOnly> movables;
        std::deque<Follows> follows;
        std::deque<Likes> likes;
        for (auto [component, value] : values) {
            const ComponentId id = id_of(component);
            const ComponentId kind = id.is_pair() ? world->pair_of(id).relation : id;
            void* pointer = nullptr;
            if (kind == ids[0]) pointer = &healths.emplace_back(make<Health>(value));
            if (kind == ids[1]) pointer = &counteds.emplace_back(value);
            if (kind == ids[2]) pointer = &selves.emplace_back(value);
            if (kind == ids[3]) pointer = &movables.emplace_back(make<MoveOnly>(value));
            if (kind == ids[6]) pointer = &follows.emplace_back(make<Follows>(value));
            if (kind == ids[7]) pointer = &likes.emplace_back(make<Likes>(value));
            chosen.insert(chosen.begin(), id);
            pointers.insert(pointers.begin(), pointer);
        }
        fn(chosen, pointers);
    }

    int spawn(const Values& values) override {
        const int before = std::exchange(pending_number, spawned++);  // hooks may need it
        const int mine = pending_number;
        with_values(values,
                    [&](auto& chosen, auto& pointers) { note(world->spawn(chosen, pointers), mine); });
        pending_number = before;
        return mine;
    }
    void spawn_n(int count, int value, bool generated) override {
        const int before = std::exchange(pending_number, spawned);
        const int first = spawned;
        spawned += count;
        const auto many = static_cast<std::uint32_t>(count);
        const std::vector<Entity> made =
            generated
                ? world->spawn_n<Health, MoveOnly>(many,
                                                   [&](std::uint32_t i, Health& health, MoveOnly& only) {
                                                       health.points = value + static_cast<int>(i);
                                                       only = make<MoveOnly>(value);
                                                   })
                : world->spawn_n(many, make<Health>(value), make<Counted>(value));
        for (int i = 0; i < count; ++i) {
            note(made[static_cast<std::size_t>(i)], first + i);
            EXPECT_EQ(number(made[static_cast<std::size_t>(i)]), first + i);
        }
        pending_number = before;
    }
    int pair(int relation, int target) override {
        const ComponentId id = world->pair_id(ids[kKinds + relation], at(target));
        pairs[component_number(id)] = id;
        return component_number(id);
    }
    void destroy_frozen() override { Query<With<Frozen>>(*world).destroy_all(); }
    void destroy_all(const std::vector<int>& doomed) override {
        std::vector<Entity> list;
        for (const int entity : doomed) list.push_back(at(entity));
        world->destroy_all(list);
    }
    void set_singleton(int value) override {
        const bool is_new = !world->singletons();
        const int before = pending_number;
        if (is_new) pending_number = spawned++;
        const int mine = pending_number;
        world->set_singleton(make<Health>(value));
        if (is_new) note(world->singletons(), mine);
        pending_number = before;
    }
    void iterate_sources(int relation, int target) override {
        const std::size_t mine = visited.size();
        visited.emplace_back();
        with_type(kKinds + relation, [&]<class T>() {
            if constexpr (Relation<T>)
                for (const Entity source : world->sources<T>(at(target))) {
                    visited[mine].push_back(number(source));
                    ++visits;
                    react();
                }
        });
    }
    int size() override { return static_cast<int>(world->size()); }
    void note(Entity entity, int as) {
        if (numbers.emplace(entity, as).second) {
            if (entities.size() <= static_cast<std::size_t>(as))
                entities.resize(static_cast<std::size_t>(as) + 1);
            entities[static_cast<std::size_t>(as)] = entity;
        }
    }
    Entity at(int entity) const { return entities[static_cast<std::size_t>(entity)]; }
    bool is_alive(int entity) override {
        return static_cast<std::size_t>(entity) < entities.size() && world->is_alive(at(entity));
    }
    void destroy(int entity) override {
        if (static_cast<std::size_t>(entity) < entities.size()) world->destroy(at(entity));
    }
    /// By type where there is one component, or one pair of an even number.
    void set(int entity, const Values& values) override {
        const auto [component, value] = *values.begin();
        if (values.size() == 1 && component < kFirstPair) {
            with_type(component, [&, v = value]<class T>() {
                if constexpr (Component<T>) world->set(at(entity), make<T>(v));
            });
        } else if (values.size() == 1 && component % 2 == 0) {
            const World::Pair pair = world->pair_of(id_of(component));
            with_type(component_number(pair.relation), [&, v = value]<class T>() {
                if constexpr (Relation<T>) world->pair<T>(at(entity), pair.target, make<T>(v));
            });
        } else {
            with_values(values,
                        [&](auto& chosen, auto& pointers) { world->set(at(entity), chosen, pointers); });
        }
    }
    void add(int entity, int component) override {
        if (component == 3) {  // T{} would be null
            MoveOnly value = make<MoveOnly>(0);
            world->add(at(entity), ids[3], &value);
            return;
        }
        const bool is_pair = component >= kFirstPair;
        const World::Pair pair = is_pair ? world->pair_of(id_of(component)) : World::Pair{};
        with_type(is_pair ? component_number(pair.relation) : component, [&]<class T>() {
            if constexpr (Relation<T>) {
                world->pair<T>(at(entity), pair.target);
            } else {
                world->add<T>(at(entity));
            }
        });
    }
    void remove(int entity, const std::set<int>& components) override {
        std::vector<ComponentId> list;
        for (const int component : components) list.push_back(id_of(component));
        world->remove(at(entity), list);
    }
    void patch(int entity, int component, int by) override {
        const bool is_pair = component >= kFirstPair;
        const World::Pair pair = is_pair ? world->pair_of(id_of(component)) : World::Pair{};
        with_type(is_pair ? component_number(pair.relation) : component, [&]<class T>() {
            if constexpr (!std::is_empty_v<T>) {
                const auto change = [&](T& value) {
                    write(value, value_of(value) + by);
                    return by != 0;
                };
                if constexpr (Relation<T>) {
                    world->patch_pair<T>(at(entity), pair.target, change);
                } else {
                    world->patch<T>(at(entity), change);
                }
            }
        });
    }
    void iterate(int component, int mode) override {
        const std::size_t mine = visited.size();
        visited.emplace_back();
        const auto visit = [&](Entity entity) {
            visited[mine].push_back(number(entity));
            ++visits;
            react();
        };
        with_type(component, [&]<class T>() {
            if constexpr (Value<T>) {
                if (mode == 0)
                    Query<const T>(*world).each([&](Entity entity, const T&) { visit(entity); });
                else if (mode == 1)
                    Query<T, Without<Frozen>>(*world).each([&](Entity entity, T& value) {
                        write(value, value_of(value) + 1);
                        visit(entity);
                    });
                else
                    Query<Mut<T>>(*world).each([&](Entity entity, Mut<T> value) {
                        if (value_of(value.read()) % 2 != 0) write(*value, value_of(value.read()) * 2);
                        visit(entity);
                    });
            }
        });
    }
    void connect(int slot, int event, int component) override {
        const auto told = [this, slot, event, component](Entity entity, int value, Removal why) {
            const int who = number(entity);
            trace.emplace_back(event, event == kDestroy ? 0 : component, who, value, static_cast<int>(why),
                               slot, components(entity));
            react();
        };
        const auto told_of_pair = [this, slot, event](Entity entity, ComponentId pair, int value,
                                                      Removal why) {
            const int who = number(entity);
            trace.emplace_back(event, component_number(pair), who, value, static_cast<int>(why), slot,
                               components(entity));
            react();
        };
        with_type(component, [&]<class T>() {
            Hook& hook = hooks[slot];
            if (event == kDestroy) {
                hook = world->on_destroy([told](World&, Entity entity) { told(entity, 0, Removal{}); });
            } else if constexpr (Relation<T> && std::is_empty_v<T>) {
                if (event == kAdd)
                    hook = world->on_add<T>([told_of_pair](World& w, Entity e, Entity to) {
                        told_of_pair(e, w.pair_id<T>(to), 0, Removal{});
                    });
                if (event == kChange)
                    hook = world->on_change<T>([](World&, Entity, Entity) { ADD_FAILURE(); });
                if (event == kRemove)
                    hook = world->on_remove<T>([told_of_pair](World& w, Entity e, Entity to, Removal why) {
                        told_of_pair(e, w.pair_id<T>(to), 0, why);
                    });
            } else if constexpr (Relation<T>) {
                const auto plain = [told_of_pair](World& w, Entity e, Entity to, const T& value) {
                    EXPECT_EQ(&value, w.try_get_pair<T>(e, to));
                    told_of_pair(e, w.pair_id<T>(to), value_of(value), Removal{});
                };
                if (event == kAdd) hook = world->on_add<T>(plain);
                if (event == kChange) hook = world->on_change<T>(plain);
                if (event == kRemove)
                    hook = world->on_remove<T>(
                        [told_of_pair](World& w, Entity e, Entity to, const T& value, Removal why) {
                            told_of_pair(e, w.pair_id<T>(to), value_of(value), why);
                        });
            } else if constexpr (Tag<T>) {
                if (event == kAdd)
                    hook = world->on_add<T>([told](World&, Entity e) { told(e, 0, Removal{}); });
                if (event == kChange)
                    hook = world->on_change<T>([told](World&, Entity e) { told(e, 0, Removal{}); });
                if (event == kRemove)
                    hook = world->on_remove<T>([told](World&, Entity e, Removal why) { told(e, 0, why); });
            } else {
                const auto plain = [told](World& w, Entity e, const T& value) {
                    EXPECT_EQ(&value, w.try_get<T>(e));
                    told(e, value_of(value), Removal{});
                };
                if (event == kAdd) hook = world->on_add<T>(plain);
                if (event == kChange) hook = world->on_change<T>(plain);
                if (event == kRemove)
                    hook = world->on_remove<T>([told](World&, Entity e, const T& value, Removal why) {
                        told(e, value_of(value), why);
                    });
            }
        });
    }
    void disconnect(int slot) override { hooks[slot].disconnect(); }

    std::unique_ptr<World> world = std::make_unique<World>();
    ChangeCollector collector{*world};
    ComponentId ids[kKinds + kRelations];
    std::map<int, ComponentId> pairs;
    Hook hooks[kSlots];
    std::map<Entity, int> numbers;
    std::vector<Entity> entities;
    int pending_number = 0;
    std::optional<Query<Pair<Likes>>> all_likes;  // lives as long as the world, over all that comes and goes
    Hook numbering;
    std::vector<std::vector<int>> visited;  // by iteration, in the order they began
};

class ModelSide : public Side {
public:
    struct Command {
        enum { spawn, set, add, remove, destroy, destroy_all, changed } kind;
        int entity;
        Values values;  // the keys alone for add and remove
        std::vector<int> rows{};
    };
    struct Subscriber {
        int slot;
        std::uint64_t serial;
        bool connected;
    };

    int spawn(const Values& values) override {
        const int entity = spawned++;
        alive.insert(entity);
        if (locks != 0)
            queue.push_back({Command::spawn, entity, values});
        else
            spawn_now({entity}, {possible(values)});
        return entity;
    }
    bool is_alive(int entity) override { return alive.count(entity) != 0; }
    bool is_busy(int entity) const {
        if (dying == entity || (removing && removing->first == entity)) return true;
        for (const Command& c : queue)
            if (c.kind < Command::destroy_all && c.entity == entity) return true;
        return false;
    }
    int size() override { return static_cast<int>(alive.size()); }

    // Pairs: slots are taken last in, first out; a dead target's are free when the queue is empty.
    struct PairSlot {
        int relation, target;
        bool buried;
    };
    int pair(int relation, int target) override {
        for (const int slot : of_target[target])
            if (slots_of_pairs[slot].relation == relation) return kFirstPair + slot;
        int slot = static_cast<int>(slots_of_pairs.size());
        if (!free_slots.empty()) {
            slot = free_slots.back();
            free_slots.pop_back();
        }
        slots_of_pairs[slot] = {relation, target, false};
        of_target[target].insert(of_target[target].begin(), slot);
        return kFirstPair + slot;
    }
    bool is_pair(int component) const { return component >= kFirstPair; }
    int kind_of(int component) const {
        return is_pair(component) ? kKinds + slots_of_pairs.at(component - kFirstPair).relation : component;
    }
    bool has_value(int component) const { return kind_of(component) != kTag && kind_of(component) != kKinds; }
    /// Whether an entity that gets the first loses the second.
    bool excludes(int got, int lost) const {
        return is_pair(got) && is_pair(lost) && got != lost && kind_of(got) == kind_of(lost) &&
               kind_of(got) < kKinds + 2;
    }
    Values possible(const Values& values) {
        Values result;
        for (auto [c, v] : values) {
            if (is_pair(c) && slots_of_pairs.at(c - kFirstPair).buried)
                ++dropped;
            else
                result[c] = v;
        }
        return result;
    }
    std::vector<int> sources_of(int component) const {
        std::map<std::uint64_t, const Table*> by_age;
        for (const auto& [keys, table] : tables)
            if (keys.count(component) != 0) by_age[table.serial] = &table;
        std::vector<int> result;
        for (const auto& [age, table] : by_age)
            result.insert(result.end(), table->rows.begin(), table->rows.end());
        return result;
    }
    void iterate_sources(int relation, int target) override {
        std::vector<int> expected;
        if (is_alive(target))
            for (const int slot : of_target[target])
                if (slots_of_pairs[slot].relation == relation) expected = sources_of(kFirstPair + slot);
        EXPECT_EQ(world->visited.at(iteration++), expected);
        ++locks;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            ++visits;
            react();
        }
        unlock();
    }
    void spawn_n(int count, int value, bool generated) override {
        std::vector<int> rows;
        std::vector<Values> all;
        for (int i = 0; i < count; ++i) {
            rows.push_back(spawned++);
            alive.insert(rows.back());
            all.push_back(generated ? Values{{0, value + i}, {3, value}} : Values{{0, value}, {1, value}});
        }
        for (int i = 0; locks != 0 && i < count; ++i)
            queue.push_back({Command::spawn, rows[std::size_t(i)], all[std::size_t(i)]});
        if (locks == 0) spawn_now(rows, all);
    }
    void destroy_frozen() override { destroy_all(sources_of(kTag)); }
    void destroy_all(const std::vector<int>& entities) override {
        if (locks != 0)
            queue.push_back({Command::destroy_all, -1, {}, entities});
        else
            destroy_all_now(entities);
    }
    void set_singleton(int value) override {
        if (!is_alive(singletons)) {
            singletons = spawned;
            spawn({});
        }
        set(singletons, {{0, value}});
    }
    bool has(int entity, int component) const {
        return placed.count(entity) != 0 && placed.at(entity).count(component) != 0;
    }
    void destroy(int entity) override {
        if (!is_alive(entity))
            ++dropped;
        else if (locks != 0)
            queue.push_back({Command::destroy, entity, {}});
        else
            destroy_now(entity);
    }
    void set(int entity, const Values& values) override {
        bool at_once = locks == 0 || !is_busy(entity);
        if (locks != 0)
            for (auto [c, v] : values) at_once = at_once && has(entity, c);
        if (at_once)
            set_now(entity, values);
        else
            queue.push_back({Command::set, entity, values});
    }
    void add(int entity, int component) override {
        if ((locks == 0 || !is_busy(entity)) && has(entity, component)) return;
        if (locks != 0)
            queue.push_back({Command::add, entity, {{component, 0}}});
        else
            set_now(entity, {{component, 0}});
    }
    void remove(int entity, const std::set<int>& components) override {
        bool has_one = false;
        for (const int c : components) has_one = has_one || has(entity, c);
        if ((locks == 0 || !is_busy(entity)) && !has_one) return;
        if (locks != 0) {
            Values keys;
            for (const int c : components) keys[c] = 0;
            queue.push_back({Command::remove, entity, keys});
        } else {
            remove_now(entity, components);
        }
    }
    /// Plays what is queued forward to find where the value will come from.
    void patch(int entity, int component, int by) override {
        int* value = has(entity, component) ? &placed[entity][component] : nullptr;
        bool queued = false, taken = false;
        if (locks != 0 && is_busy(entity)) {
            bool dies = false;
            if (dying == entity) dies = true;
            if (removing && removing->first == entity && removing->second.count(component) != 0)
                value = nullptr, taken = true;
            for (Command& c : queue) {
                if (c.entity != entity || c.kind == Command::changed) continue;
                if (c.kind == Command::destroy) dies = true;
                for (auto [got, v] : c.values)
                    if (c.kind != Command::remove && excludes(got, component))
                        value = nullptr, taken = true, queued = false;
                if (c.values.count(component) == 0 || c.kind == Command::changed) continue;
                if (c.kind == Command::remove) value = nullptr, taken = true, queued = false;
                if (c.kind == Command::add && value != nullptr) continue;
                if (c.kind == Command::set || c.kind == Command::add || c.kind == Command::spawn)
                    value = &c.values[component], queued = true, taken = false;
            }
            if (dies || (value == nullptr && taken)) {
                ++dropped;
                return;
            }
        }
        if (value == nullptr) return;
        *value += by;
        if (by != 0 && !queued) changed({entity}, component);
    }
    void iterate(int component, int mode) override {
        const std::vector<int> order =
            world->visited.at(iteration++);  // which archetype first is the world's choice
        std::set<int> expected;
        for (const auto& [entity, values] : placed)
            if (values.count(component) != 0 && (mode != 1 || values.count(kTag) == 0))
                expected.insert(entity);
        EXPECT_EQ(std::set<int>(order.begin(), order.end()), expected);
        EXPECT_EQ(order.size(), expected.size());
        ++locks;
        for (std::size_t first = 0; first < order.size();) {
            std::size_t last = first;  // all rows of one archetype: fewer than a block
            while (last < order.size() && keys(order[last]) == keys(order[first])) ++last;
            EXPECT_EQ(
                std::vector<int>(order.begin() + std::ptrdiff_t(first), order.begin() + std::ptrdiff_t(last)),
                table(keys(order[first])));
            std::vector<std::vector<int>> runs;
            bool open = false;
            for (std::size_t row = first; row < last; ++row) {
                int& value = placed[order[row]][component];
                const bool writes = mode == 1 || (mode == 2 && value % 2 != 0);
                if (writes) value = mode == 1 ? value + 1 : value * 2;
                if (writes && !open) runs.emplace_back();
                if (writes) runs.back().push_back(order[row]);
                open = writes;
                ++visits;
                react();
            }
            for (const auto& run : runs) changed(run, component);
            first = last;
        }
        unlock();
    }
    void connect(int slot, int event, int component) override {
        slots[slot] = {event, event == kDestroy ? 0 : component};
        subscribers[slots[slot]].push_back({slot, ++serial, true});
        serials[slot] = serial;
    }
    void disconnect(int slot) override {
        auto& list = subscribers[slots[slot]];
        for (std::size_t i = 0; i < list.size(); ++i) {
            if (list[i].serial != serials[slot]) continue;
            list[i].connected = false;
            if (!running) list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
            return;
        }
    }

    std::set<int> keys(int entity) const {
        std::set<int> result;
        if (placed.count(entity) != 0)
            for (auto [c, v] : placed.at(entity)) result.insert(c);
        return result;
    }
    void mark(int entity, int component) {
        dirty[entity].insert(kind_of(component));
        changed_at[{entity, component}] = tick;
    }
    void fire(int event, int component, const std::vector<int>& rows, Removal why = Removal::component) {
        ++locks;
        running = true;
        const std::pair<int, int> key{event, event == kDestroy ? 0 : kind_of(component)};
        const std::size_t count = subscribers[key].size();
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t which = event >= kRemove ? count - 1 - i : i;
            for (const int row : rows) {
                if (!subscribers[key][which].connected) break;
                trace.emplace_back(event, component, row, event == kDestroy ? 0 : placed[row][component],
                                   static_cast<int>(why), subscribers[key][which].slot, keys(row));
                react();
            }
        }
        running = false;
        for (auto& [k, list] : subscribers)
            std::erase_if(list, [](const Subscriber& s) { return !s.connected; });
        unlock();
    }
    void changed(const std::vector<int>& rows, int component) {
        for (const int row : rows) changed_at[{row, component}] = tick;
        if (running)
            queue.push_back({Command::changed, rows[0], {{component, 0}}, rows});
        else
            tell(rows, component);
    }
    void tell(const std::vector<int>& rows, int component) {
        for (const int row : rows) dirty[row].insert(kind_of(component));
        fire(kChange, component, rows);
    }
    /// Several: of the same components.
    void spawn_now(const std::vector<int>& rows, const std::vector<Values>& all) {
        ++locks;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            placed[rows[i]] = all[i];
            table(keys(rows[i])).push_back(rows[i]);
            for (auto [c, v] : all[i]) changed_at[{rows[i], c}] = tick;
        }
        for (auto [c, v] : all[0]) {
            for (const int row : rows) mark(row, c);
            fire(kAdd, c, rows);
        }
        unlock();
    }
    void set_now(int entity, const Values& given) {
        ++locks;
        const Values values = possible(given);
        const Values before = placed[entity];
        std::set<int> replaced;
        for (auto [c, v] : values)
            for (auto [old, w] : before)
                if (before.count(c) == 0 && excludes(c, old)) replaced.insert(old);
        fire_removes(entity, replaced);
        const std::set<int> old_keys = keys(entity);
        for (const int c : replaced) placed[entity].erase(c), changed_at.erase({entity, c});
        for (auto [c, v] : values)
            if (has_value(c) || before.count(c) == 0) placed[entity][c] = v, changed_at[{entity, c}] = tick;
        if (keys(entity) != old_keys) {
            leave(entity, old_keys);
            table(keys(entity)).push_back(entity);
        }
        for (auto [c, v] : values) {
            if (before.count(c) == 0) {
                mark(entity, c);
                fire(kAdd, c, {entity});
            } else if (has_value(c)) {
                changed({entity}, c);
            }
        }
        unlock();
    }
    void fire_removes(int entity, const std::set<int>& components) {
        if (components.empty()) return;
        removing = {entity, components};
        for (const int c : components) {
            if (!has(entity, c)) continue;
            dirty[entity].insert(kind_of(c));
            fire(kRemove, c, {entity});
        }
        removing.reset();
    }
    void remove_now(int entity, const std::set<int>& components) {
        const std::set<int> old_keys = keys(entity);
        bool has_one = false;
        for (const int c : components) has_one = has_one || has(entity, c);
        if (!has_one) return;
        ++locks;
        fire_removes(entity, components);
        leave(entity, old_keys);
        for (const int c : components) placed[entity].erase(c), changed_at.erase({entity, c});
        table(keys(entity)).push_back(entity);
        unlock();
    }
    void destroy_all_now(const std::vector<int>& entities) {
        ++locks;
        for (const int entity : entities)
            if (is_alive(entity)) destroy_now(entity);
        unlock();
    }
    void destroy_now(int root) {
        ++locks;
        std::vector<int> order;
        std::set<int> seen;
        gather(root, seen, order);
        for (const int entity : order) destroy_one(entity);
        unlock();
    }
    void gather(int entity, std::set<int>& seen, std::vector<int>& order) {
        seen.insert(entity);
        for (const int slot : of_target[entity])
            if (slots_of_pairs[slot].relation == 0)
                for (const int source : sources_of(kFirstPair + slot))
                    if (seen.count(source) == 0) gather(source, seen, order);
        order.push_back(entity);
    }
    void destroy_one(int entity) {
        dying = entity;
        dirty.erase(entity);
        destroyed.push_back(entity);
        fire(kDestroy, 0, {entity});
        for (const int slot : std::vector<int>(of_target[entity]))
            for (const int source : sources_of(kFirstPair + slot))
                if (source != entity) remove_now(source, {kFirstPair + slot});
        const Values values = placed[entity];
        for (auto [c, v] : values) fire(kRemove, c, {entity}, Removal::entity);
        dying.reset();
        for (auto [c, v] : values) changed_at.erase({entity, c});
        leave(entity, keys(entity));
        placed.erase(entity);
        alive.erase(entity);
        for (const int slot : of_target[entity]) {
            std::erase_if(tables,
                          [&](const auto& entry) { return entry.first.count(kFirstPair + slot) != 0; });
            slots_of_pairs[slot].buried = true;
            dead_slots.push_back(slot);
        }
        of_target.erase(entity);
    }
    void unlock() {
        if (--locks != 0) return;
        ++locks;
        while (!queue.empty()) {
            const Command c = queue.front();
            queue.pop_front();
            if (c.kind == Command::changed) {
                const int component = c.values.begin()->first;
                std::vector<int> run;
                for (const int entity : c.rows) {
                    if (!run.empty() && (!has(entity, component) || !follows(run.back(), entity))) {
                        tell(run, component);
                        run.clear();
                    }
                    if (has(entity, component)) run.push_back(entity);
                }
                if (!run.empty()) tell(run, component);
            } else if (c.kind == Command::destroy_all) {
                destroy_all_now(c.rows);
            } else if (!is_alive(c.entity)) {
                ++dropped;
            } else if (c.kind == Command::spawn) {
                spawn_now({c.entity}, {possible(c.values)});
            } else if (c.kind == Command::set) {
                set_now(c.entity, c.values);
            } else if (c.kind == Command::add) {
                if (!has(c.entity, c.values.begin()->first)) set_now(c.entity, c.values);
            } else if (c.kind == Command::remove) {
                std::set<int> components;
                for (auto [key, v] : c.values) components.insert(key);
                remove_now(c.entity, components);
            } else if (c.kind == Command::destroy) {
                destroy_now(c.entity);
            }
        }
        --locks;
        for (const int slot : dead_slots) free_slots.push_back(slot);
        dead_slots.clear();
    }
    std::vector<int>& table(const std::set<int>& has) {
        Table& result = tables[has];
        if (result.serial == 0) result.serial = ++table_serial;
        return result.rows;
    }
    /// The last row closes the gap that an entity leaves; newcomers go last.
    void leave(int entity, const std::set<int>& has) {
        auto& list = table(has);
        const auto at = std::find(list.begin(), list.end(), entity);
        *at = list.back();
        list.pop_back();
    }
    bool follows(int first, int second) {
        const auto& list = table(keys(first));
        const auto at = std::find(list.begin(), list.end(), first);
        return at + 1 != list.end() && at[1] == second;
    }

    WorldSide* world = nullptr;
    std::size_t iteration = 0;
    std::map<int, Values> placed;
    struct Table {
        std::vector<int> rows;  // the entities, in order
        std::uint64_t serial = 0;
    };
    std::map<std::set<int>, Table> tables;  // by components
    std::uint64_t table_serial = 0;
    std::map<int, PairSlot> slots_of_pairs;
    std::map<int, std::vector<int>> of_target;  // slots, the newest first
    std::vector<int> free_slots, dead_slots;
    int singletons = -1;
    std::set<int> alive;
    std::deque<Command> queue;
    int locks = 0;
    bool running = false;
    std::optional<int> dying;
    std::optional<std::pair<int, std::set<int>>> removing;
    std::map<std::pair<int, int>, std::vector<Subscriber>> subscribers;
    std::map<int, std::pair<int, int>> slots;
    std::map<int, std::uint64_t> serials;
    std::uint64_t serial = 0;
    std::map<int, std::set<int>> dirty;
    std::vector<int> destroyed;
    std::map<std::pair<int, int>, std::uint64_t> changed_at;
    std::uint64_t tick = 1;
    std::uint64_t dropped = 0;
};

/// All that can be asked of a world, against the model.
void expect_equal(WorldSide& side, ModelSide& model, std::uint64_t since) {
    for (std::size_t i = 0; i < std::min(side.trace.size(), model.trace.size()); ++i)
        ASSERT_EQ(side.trace[i], model.trace[i]) << "event " << i;
    ASSERT_EQ(side.trace.size(), model.trace.size());
    ASSERT_EQ(side.spawned, model.spawned);
    World& world = *side.world;
    ASSERT_TRUE(world.is_consistent());
    ASSERT_FALSE(world.is_deferring());
    ASSERT_EQ(world.dropped_commands(), model.dropped);
    ASSERT_EQ(world.size(), model.alive.size());
    int counted = 0;
    for (int number = 0; number < side.spawned; ++number) {
        ASSERT_EQ(side.is_alive(number), model.is_alive(number));
        if (!model.is_alive(number)) continue;
        const Entity entity = side.at(number);
        ASSERT_EQ(side.components(entity), model.keys(number));
        for (const auto& placed : model.placed[number]) {
            const int component = placed.first;
            const ComponentId id = side.id_of(component);
            with_type(model.kind_of(component), [&, v = placed.second]<class T>() {
                ASSERT_TRUE(world.has(entity, id));
                if constexpr (Relation<T>) {
                    const Entity target = world.pair_of(id).target;
                    ASSERT_EQ(side.number(target), model.slots_of_pairs[component - kFirstPair].target);
                    ASSERT_TRUE(world.has_pair<T>(entity, target));
                }
                if constexpr (!std::is_empty_v<T>) {
                    ASSERT_EQ(value_of(*static_cast<const T*>(world.try_get(entity, id))), v);
                }
            });
            const int kind = model.kind_of(component);
            counted += kind == 1 || kind == kKinds + 2 ? 1 : 0;
        }
    }
    ASSERT_EQ(Counted::alive, counted);
    ASSERT_EQ(world.singletons() ? side.number(world.singletons()) : -1,
              model.is_alive(model.singletons) ? model.singletons : -1);
    std::size_t archetypes = model.tables.size() + (model.tables.count({}) == 0 ? 1 : 0);
    ASSERT_EQ(world.archetype_count(), archetypes);

    // A query with every kind of filter.
    std::set<int> found, expected;
    Query<const Health, Without<Frozen>, With<Counted>, Optional<const MoveOnly>>(world).each(
        [&](Entity entity, const Health& health, const MoveOnly* only) {
            const int number = side.number(entity);
            found.insert(number);
            ASSERT_EQ(health.points, model.placed[number][0]);
            ASSERT_EQ(only != nullptr, model.has(number, 3));
        });
    for (const auto& [number, values] : model.placed)
        if (values.count(0) && values.count(1) && !values.count(kTag)) expected.insert(number);
    ASSERT_EQ(found, expected);

    // Pairs: all targets, then one.
    std::map<int, std::set<int>> targets, of_one;
    std::map<int, std::set<int>> expected_targets, expected_of_one;
    const int one = side.spawned == 0 ? 0 : side.spawned - 1 - static_cast<int>(since % 7) % side.spawned;
    Query<const Counted, Pair<Likes>, Without<ChildOf>> likes(world);
    const auto gather_to = [&](std::map<int, std::set<int>>& all) {
        return [&](Entity entity, const Counted&, const Targets<Likes>& liked) {
            for (const Entity target : liked) all[side.number(entity)].insert(side.number(target));
        };
    };
    likes.each(gather_to(targets));
    if (side.spawned != 0) likes.each_to<Likes>(side.at(one), gather_to(of_one));
    for (const auto& [number, values] : model.placed) {
        std::set<int> mine;
        bool is_child = false;
        for (auto [component, value] : values) {
            is_child = is_child || model.kind_of(component) == kKinds;
            if (model.kind_of(component) == kKinds + 2)
                mine.insert(model.slots_of_pairs[component - kFirstPair].target);
        }
        if (mine.empty() || is_child || values.count(1) == 0) continue;
        expected_targets[number] = mine;
        if (mine.count(one) != 0) expected_of_one[number] = mine;
    }
    ASSERT_EQ(targets, expected_targets);
    ASSERT_EQ(of_one, expected_of_one);
    side.all_likes->each([&](Entity entity, const Targets<Likes>&) { targets.erase(side.number(entity)); });
    ASSERT_TRUE(targets.empty());

    // Nothing changed is missed.
    found.clear();
    Query<const Health, Changed<Health>>(world).each_since(
        since, [&](Entity entity, const Health&) { found.insert(side.number(entity)); });
    for (const auto& [key, tick] : model.changed_at)
        if (key.second == 0 && tick > since) {
            ASSERT_TRUE(found.count(key.first)) << "entity " << key.first;
        }

    // The collector has exactly what happened.
    std::map<int, std::set<int>> dirty;
    for (const ChangeCollector::Change change : side.collector.changes())
        for (int c = 0; c < kKinds + kRelations; ++c)
            if (change.has(static_cast<std::uint32_t>(c))) dirty[side.number(change.entity)].insert(c);
    ASSERT_EQ(dirty, model.dirty);
    std::vector<int> destroyed;
    for (const Entity entity : side.collector.destroyed()) destroyed.push_back(side.number(entity));
    ASSERT_EQ(destroyed, model.destroyed);
}

/// `roll` gives a step's dice, or nothing when the game is over. Returns the number of hooks called.
template <class Roll>
std::size_t race(Roll roll) {
    std::size_t events = 0;
    WorldSide world;
    ModelSide model;
    model.world = &world;
    std::uint64_t since = 0;
    for (int step = 0;; ++step) {
        SCOPED_TRACE(testing::Message() << "step " << step);
        const std::optional<std::uint64_t> rolled = roll();
        if (!rolled) break;
        const std::uint64_t dice = *rolled;
        for (Side* side : {static_cast<Side*>(&world), static_cast<Side*>(&model)}) {
            side->seed = dice;
            side->trace.clear();
            side->visits = 0;
            side->act(mix(dice));
        }
        expect_equal(world, model, since);
        EXPECT_EQ(model.iteration, world.visited.size());
        if (testing::Test::HasFailure()) return events;
        events += world.trace.size();
        world.visited.clear();
        model.iteration = 0;
        if (dice % 5 == 0) {
            world.collector.clear();
            model.dirty.clear();
            model.destroyed.clear();
        }
        if (dice % 7 == 0) {
            since = world.world->advance_tick();
            ++model.tick;
        }
    }
    const std::size_t alive = model.alive.size(), collected = model.destroyed.size();
    for (Hook& hook : world.hooks) hook.disconnect();
    if (alive % 2 == 0) {
        world.world->clear();
        EXPECT_EQ(world.world->size(), 0u);
        EXPECT_TRUE(world.world->is_consistent());
    }
    world.world.reset();
    EXPECT_EQ(world.collector.destroyed().size(), collected + alive);
    EXPECT_TRUE(world.collector.changes().empty());
    EXPECT_EQ(Counted::alive, 0);
    return events;
}

}  // namespace ecs_race
