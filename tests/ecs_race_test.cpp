// The world against a model too simple to be wrong: maps of maps, moved by the same random script.
// Hooks react at random too: they write, spawn, destroy, iterate, connect and disconnect. After each
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

using namespace shoal::ecs;
using namespace ecs_types;

namespace {

constexpr int kKinds = 5;  // of components: Health, Counted, SelfReferential, MoveOnly, Frozen
constexpr int kTag = 4;
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
    virtual void remove(int entity, int component) = 0;
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
        const int entity = spawned == 0   ? 0
                           : roll(8) == 0 ? roll(std::uint64_t(spawned))
                                          : spawned - 1 - roll(std::uint64_t(std::min(spawned, 30)));
        const bool usable = spawned != 0 && is_alive(entity);
        const int component = roll(kKinds);
        switch (roll(16)) {
            case 0:
            case 1: {
                const Values values = some();
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
                const Values values = some();
                if (usable && !values.empty()) set(entity, values);
                break;
            }
            case 6:
                if (usable) add(entity, component);
                break;
            case 7:
            case 8:
                if (usable) remove(entity, component);
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
                connect(slot, roll(4), component);
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
    } else if constexpr (std::is_same_v<T, Frozen>) {
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
    }
}

class WorldSide : public Side {
public:
    WorldSide() {
        for (int c = 0; c < kKinds; ++c)
            with_type(c, [&]<class T>() {
                ids[c] = world->component<T>();
                collector.watch<T>();
            });
    }

    int number(Entity entity) const { return numbers.at(entity); }
    int component_number(ComponentId id) const { return static_cast<int>(id.value); }
    std::set<int> components(Entity entity) const {
        std::set<int> result;
        for (const ComponentId id : world->components_of(entity)) result.insert(component_number(id));
        return result;
    }

    int spawn(const Values& values) override {
        // Held apart: the values must outlive the call, and be destroyed whether moved from or not.
        Health a = make<Health>(0);
        Counted b(0);
        SelfReferential c(0);
        MoveOnly d = make<MoveOnly>(0);
        void* all[kKinds] = {&a, &b, &c, &d, nullptr};
        std::vector<ComponentId> chosen;
        std::vector<void*> pointers;
        for (auto [component, value] : values) {
            if (component == 0) write(a, value);
            if (component == 1) write(b, value);
            if (component == 2) write(c, value);
            if (component == 3) write(d, value);
            chosen.insert(chosen.begin(), ids[component]);  // not in order
            pointers.insert(pointers.begin(), all[component]);
        }
        // The number must be known to hooks that run within: they see it first in note().
        pending_number = spawned++;
        const Entity entity = world->spawn(chosen, pointers);
        note(entity, pending_number);
        return number(entity);
    }
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
    void set(int entity, const Values& values) override {
        if (values.size() == 1) {
            with_type(values.begin()->first,
                      [&]<class T>() { world->set(at(entity), make<T>(values.begin()->second)); });
            return;
        }
        Health a = make<Health>(values.count(0) ? values.at(0) : 0);
        Counted b(values.count(1) ? values.at(1) : 0);
        SelfReferential c(values.count(2) ? values.at(2) : 0);
        MoveOnly d = make<MoveOnly>(values.count(3) ? values.at(3) : 0);
        void* all[kKinds] = {&a, &b, &c, &d, nullptr};
        std::vector<ComponentId> chosen;
        std::vector<void*> pointers;
        for (auto [component, value] : values) {
            chosen.push_back(ids[component]);
            pointers.push_back(all[component]);
        }
        world->set(at(entity), chosen, pointers);
    }
    void add(int entity, int component) override {
        if (component == 3) {  // T{} would be null
            MoveOnly value = make<MoveOnly>(0);
            world->add(at(entity), ids[3], &value);
            return;
        }
        with_type(component, [&]<class T>() { world->add<T>(at(entity)); });
    }
    void remove(int entity, int component) override { world->remove(at(entity), ids[component]); }
    void patch(int entity, int component, int by) override {
        with_type(component, [&]<class T>() {
            if constexpr (Value<T>) {
                world->patch<T>(at(entity), [&](T& value) {
                    write(value, value_of(value) + by);
                    return by != 0;
                });
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
            if (numbers.count(entity) == 0) note(entity, pending_number);
            trace.emplace_back(event, event == kDestroy ? 0 : component, number(entity), value,
                               static_cast<int>(why), slot, components(entity));
            react();
        };
        with_type(component, [&]<class T>() {
            Hook& hook = hooks[slot];
            if (event == kDestroy) {
                hook = world->on_destroy([told](World&, Entity entity) { told(entity, 0, Removal{}); });
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
    ComponentId ids[kKinds];
    Hook hooks[kSlots];
    std::map<Entity, int> numbers;
    std::vector<Entity> entities;
    int pending_number = 0;
    std::vector<std::vector<int>> visited;  // by iteration, in the order they began
};

class ModelSide : public Side {
public:
    struct Command {
        enum { spawn, set, add, remove, destroy, changed } kind;
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
            spawn_now(entity, values);
        return entity;
    }
    bool is_alive(int entity) override { return alive.count(entity) != 0; }
    bool is_busy(int entity) const {
        if (under_way && under_way->first == entity) return true;
        for (const Command& c : queue)
            if (c.kind != Command::changed && c.entity == entity) return true;
        return false;
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
    void remove(int entity, int component) override {
        if ((locks == 0 || !is_busy(entity)) && !has(entity, component)) return;
        if (locks != 0)
            queue.push_back({Command::remove, entity, {{component, 0}}});
        else
            remove_now(entity, component);
    }
    /// Plays what is queued forward to find where the value will come from.
    void patch(int entity, int component, int by) override {
        int* value = has(entity, component) ? &placed[entity][component] : nullptr;
        bool queued = false, taken = false;
        if (locks != 0 && is_busy(entity)) {
            bool dies = false;
            if (under_way && under_way->first == entity) {
                if (under_way->second == -1) dies = true;
                if (under_way->second == component) value = nullptr, taken = true;
            }
            for (Command& c : queue) {
                if (c.entity != entity) continue;
                if (c.kind == Command::destroy) dies = true;
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
                tables[keys(order[first])]);
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
        dirty[entity].insert(component);
        changed_at[{entity, component}] = tick;
    }
    void fire(int event, int component, const std::vector<int>& rows, Removal why = Removal::component) {
        ++locks;
        running = true;
        const std::pair<int, int> key{event, event == kDestroy ? 0 : component};
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
        for (const int row : rows) dirty[row].insert(component);
        fire(kChange, component, rows);
    }
    void spawn_now(int entity, const Values& values) {
        ++locks;
        placed[entity] = values;
        tables[keys(entity)].push_back(entity);
        for (auto [c, v] : values) changed_at[{entity, c}] = tick;
        for (auto [c, v] : values) {
            mark(entity, c);
            fire(kAdd, c, {entity});
        }
        unlock();
    }
    void set_now(int entity, const Values& values) {
        ++locks;
        const Values before = placed[entity];
        const std::set<int> old_keys = keys(entity);
        for (auto [c, v] : values)
            if (c != kTag || before.count(c) == 0) placed[entity][c] = v, changed_at[{entity, c}] = tick;
        if (keys(entity) != old_keys) {
            leave(entity, old_keys);
            tables[keys(entity)].push_back(entity);
        }
        for (auto [c, v] : values) {
            if (before.count(c) == 0) {
                mark(entity, c);
                fire(kAdd, c, {entity});
            } else if (c != kTag) {
                changed({entity}, c);
            }
        }
        unlock();
    }
    void remove_now(int entity, int component) {
        if (!has(entity, component)) return;
        ++locks;
        under_way = {entity, component};
        dirty[entity].insert(component);
        fire(kRemove, component, {entity});
        under_way.reset();
        leave(entity, keys(entity));
        placed[entity].erase(component);
        tables[keys(entity)].push_back(entity);
        changed_at.erase({entity, component});
        unlock();
    }
    void destroy_now(int entity) {
        ++locks;
        under_way = {entity, -1};
        dirty.erase(entity);
        destroyed.push_back(entity);
        fire(kDestroy, 0, {entity});
        const Values values = placed[entity];
        for (auto [c, v] : values) fire(kRemove, c, {entity}, Removal::entity);
        under_way.reset();
        for (auto [c, v] : values) changed_at.erase({entity, c});
        leave(entity, keys(entity));
        placed.erase(entity);
        alive.erase(entity);
        unlock();
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
            } else if (!is_alive(c.entity)) {
                ++dropped;
            } else if (c.kind == Command::spawn) {
                spawn_now(c.entity, c.values);
            } else if (c.kind == Command::set) {
                set_now(c.entity, c.values);
            } else if (c.kind == Command::add) {
                if (!has(c.entity, c.values.begin()->first)) set_now(c.entity, c.values);
            } else if (c.kind == Command::remove) {
                remove_now(c.entity, c.values.begin()->first);
            } else if (c.kind == Command::destroy) {
                destroy_now(c.entity);
            }
        }
        --locks;
    }
    /// The last row closes the gap that an entity leaves; newcomers go last.
    void leave(int entity, const std::set<int>& has) {
        auto& list = tables[has];
        const auto at = std::find(list.begin(), list.end(), entity);
        *at = list.back();
        list.pop_back();
    }
    bool follows(int first, int second) {
        const auto& list = tables[keys(first)];
        const auto at = std::find(list.begin(), list.end(), first);
        return at + 1 != list.end() && at[1] == second;
    }

    WorldSide* world = nullptr;
    std::size_t iteration = 0;
    std::map<int, Values> placed;
    std::map<std::set<int>, std::vector<int>> tables;  // by components: the entities, in order
    std::set<int> alive;
    std::deque<Command> queue;
    int locks = 0;
    bool running = false;
    std::optional<std::pair<int, int>> under_way;  // entity; component or -1
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
    ASSERT_EQ(side.trace, model.trace);
    ASSERT_EQ(side.spawned, model.spawned);
    World& world = *side.world;
    ASSERT_TRUE(world.is_consistent());
    ASSERT_FALSE(world.is_deferring());
    ASSERT_EQ(world.dropped_commands(), model.dropped);
    ASSERT_EQ(world.size(), model.alive.size());
    int counted = 0;
    for (int number = 0; number < side.spawned; ++number) {
        ASSERT_EQ(side.is_alive(number), model.is_alive(number));
        ASSERT_EQ(side.components(side.at(number)), model.keys(number));
        for (int c = 0; c < kKinds; ++c)
            with_type(c, [&]<class T>() {
                const Entity entity = side.at(number);
                ASSERT_EQ(world.has<T>(entity), model.has(number, c));
                if constexpr (Value<T>) {
                    if (model.has(number, c)) {
                        ASSERT_EQ(value_of(world.get<T>(entity)), model.placed[number][c]);
                    }
                }
            });
        counted += model.has(number, 1) ? 1 : 0;
    }
    ASSERT_EQ(Counted::alive, counted);

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
        for (int c = 0; c < kKinds; ++c)
            if (change.has(static_cast<std::uint32_t>(c))) dirty[side.number(change.entity)].insert(c);
    ASSERT_EQ(dirty, model.dirty);
    std::vector<int> destroyed;
    for (const Entity entity : side.collector.destroyed()) destroyed.push_back(side.number(entity));
    ASSERT_EQ(destroyed, model.destroyed);
}

void race(std::uint64_t seed, int steps, std::size_t& events) {
    WorldSide world;
    ModelSide model;
    model.world = &world;
    std::uint64_t since = 0;
    for (int step = 0; step < steps; ++step) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
        const std::uint64_t dice = mix(seed * 1'000'003 + std::uint64_t(step));
        for (Side* side : {static_cast<Side*>(&world), static_cast<Side*>(&model)}) {
            side->seed = dice;
            side->trace.clear();
            side->visits = 0;
            side->act(mix(dice));
        }
        ASSERT_NO_FATAL_FAILURE(expect_equal(world, model, since));
        ASSERT_EQ(model.iteration, world.visited.size());
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
    world.world.reset();
    EXPECT_EQ(world.collector.destroyed().size(), collected + alive);
    EXPECT_TRUE(world.collector.changes().empty());
    EXPECT_EQ(Counted::alive, 0);
}

}  // namespace

TEST(World, MatchesMapOfMapsUnderRandomHooks) {
    std::size_t events = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        race(seed, 250, events);
        if (HasFatalFailure() || HasNonfatalFailure()) break;
    }
    EXPECT_GT(events, 10'000u);  // the hooks did take part
}
