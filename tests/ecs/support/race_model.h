#pragma once
// A model of a world: operations, the queue, hooks, collected changes.

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "tests/ecs/support/race_rows.h"
#include "tests/ecs/support/race_script.h"

namespace ecs_race {

class ModelSide : public Side, public ModelRows {
public:
    ModelSide() { table({}); }

    // Questions.

    int size() override { return static_cast<int>(alive.size()); }
    bool is_alive(int entity) override { return entity >= 0 && entity < spawned && being(entity).is_alive; }
    std::vector<int> living() override { return alive; }
    bool keeps_deferral() const override { return is_deferral_kept; }

    // Operations; applied at once or queued.

    void spawn(const Values& values) override {
        const int entity = take();
        if (locks != 0)
            queue.push_back({Do::spawn, entity, values});
        else
            spawn_now({entity}, {possible(values)});
    }
    void spawn_n(int count, int value, bool is_generated) override {
        std::vector<int> rows;
        std::vector<Values> all;
        for (int i = 0; i < count; ++i) {
            rows.push_back(take());
            Values& values = all.emplace_back();
            values.set(kHealth, is_generated ? value + i : value);
            values.set(is_generated ? kMoveOnly : kCounted, value);
            if (locks != 0) queue.push_back({Do::spawn, rows.back(), values});
        }
        if (locks == 0) spawn_now(rows, all);
    }
    void destroy(int entity) override {
        if (!is_alive(entity))
            ++dropped;
        else if (locks != 0)
            queue.push_back({Do::destroy, entity});
        else
            destroy_now(entity);
    }
    void destroy_all(const std::vector<int>& entities) {
        if (locks != 0)
            queue.push_back({Do::destroy_all, -1, {}, entities});
        else
            destroy_all_now(entities);
    }
    void destroy_frozen() override { destroy_all(all_with(kTag)); }
    void clear() override { destroy_all(by_index(alive)); }
    void set(int entity, const Values& values, int) override {
        bool at_once = locks == 0 || !is_busy(entity);
        for (const auto& entry : values) at_once = at_once && (locks == 0 || has(entity, entry.component));
        if (at_once)
            set_now(entity, values);
        else
            queue.push_back({Do::set, entity, values});
    }
    void add(int entity, int component, int) override {
        Values values;
        values.set(component, 0);
        if ((locks == 0 || !is_busy(entity)) && has(entity, component)) return;
        if (locks != 0)
            queue.push_back({Do::add, entity, values});
        else
            set_now(entity, values);
    }
    void remove(int entity, const Values& components, int) override {
        if ((locks == 0 || !is_busy(entity)) && !has_any(entity, components)) return;
        if (locks != 0)
            queue.push_back({Do::remove, entity, components});
        else
            remove_now(entity, components);
    }
    void patch(int entity, int component, int by, int) override {
        bool is_queued = false;
        int* value = writable(entity, component, is_queued);
        if (value == nullptr) return;
        *value += by;
        if (by != 0 && !is_queued) changed({entity}, component);
    }
    void mut(int entity, int component, int by) override {
        bool is_queued = false;
        int* value = writable(entity, component, is_queued);
        if (value == nullptr) return;
        ++locks;
        visit(component, entity, *value, by);
        *value += by;
        if (by != 0 && !is_queued) changed({entity}, component);
        unlock();
    }
    /// The slot that was freed last is used first. Slots of a dead target are freed when the queue is empty.
    int pair(int relation, int target) override {
        for (const int slot : being(target).pairs_to_it)
            if (slots_of_pairs[std::size_t(slot)].relation == relation) return kFirstPair + slot;
        int slot = static_cast<int>(slots_of_pairs.size());
        if (free_slots.empty()) {
            slots_of_pairs.emplace_back();
        } else {
            slot = free_slots.back();
            free_slots.pop_back();
        }
        slots_of_pairs[std::size_t(slot)] = {relation, target, false};
        being(target).pairs_to_it.insert(being(target).pairs_to_it.begin(), slot);
        return kFirstPair + slot;
    }
    void set_singleton(int value) override {
        if (!is_alive(singletons)) {
            singletons = spawned;
            spawn({});
        }
        Values values;
        values.set(kHealth, value);
        set(singletons, values, 0);
    }
    void set_singletons(int entity) override { singletons = entity; }

    // Iterations.

    void iterate(int component, int mode, int) override {
        ++locks;
        for (std::size_t t = 0; t < tables.size(); ++t) {
            const Table& table = *tables[t];  // a table has fewer rows than a block
            const auto matches = [&](unsigned with, unsigned without) {
                return (table.kinds & with) == with && (table.kinds & without) == 0;
            };
            const unsigned mine = 1u << component, tag = 1u << kTag, health = 1u << kHealth,
                           counted = 1u << kCounted;
            if (mode == 0 && matches(mine, 0)) visit_rows(table, component, mode, kRead);
            if (mode == 1 && matches(mine, tag)) visit_rows(table, component, mode, kWriteAll);
            if (mode == 2 && matches(mine, 0)) visit_rows(table, component, mode, kLowerOdd);
            if (mode == 3 && matches(0, tag))
                visit_rows(table, component, mode, matches(mine, 0) ? kWriteAll : kNothing);
            if (mode == 4 && matches(health | counted, 0))
                visit_rows(table, kCounted, mode, kLowerOddAndHealth);
        }
        unlock();
    }
    void iterate_sources(int relation, int target, int how) override {
        if (!is_alive(target)) return;
        std::vector<int> sources;
        for (const int slot : being(target).pairs_to_it)
            if (slots_of_pairs[std::size_t(slot)].relation == relation) sources = all_with(kFirstPair + slot);
        ++locks;
        for (const int source : sources) visit(relation, source, 0, how == 2 && relation + kKinds == kLikes);
        unlock();
    }
    void iterate_targets(int relation, int source) override {
        if (!is_alive(source)) return;
        ++locks;
        const int kind = kKinds + relation;
        for (const Held& held : targets(source, kind))
            visit(held.component, slot_of(held.component).target,
                  has_value(kind) ? find(source, held.component)->value : 0, 0);
        unlock();
    }
    void iterate_entities() override {
        std::vector<int> placed = by_index(alive);
        std::erase_if(placed, [&](int entity) { return being(entity).table == nullptr; });
        ++locks;
        for (const int entity : placed) visit(0, entity, 0, 0);
        unlock();
    }
    void defer(std::uint64_t first, std::uint64_t second) override {
        ++locks;
        act(first);
        act(second);
        unlock();
    }
    void delay_hooks(std::uint64_t first, std::uint64_t second) override {
        delay(true);
        act(first);
        act(second);
        delay(false);
    }
    void keep_deferral() override {
        is_deferral_kept = !is_deferral_kept;
        if (is_deferral_kept)
            ++locks;
        else
            unlock();
    }

    // Hooks and collected changes.

    void connect(int slot, Connection how) override {
        connected[slot] = {how.event, how.kind, ++serial};
        subscribers[how.event][how.kind].push_back({slot, serial, true, how.is_batch});
    }
    void disconnect(int slot) override {
        const Connected it = std::exchange(connected[slot], {});
        std::vector<Subscriber>& list = subscribers[it.event][it.kind];
        for (std::size_t i = 0; i < list.size(); ++i) {
            if (list[i].serial != it.serial) continue;
            list[i].is_connected = false;
            has_disconnected = true;
            if (!is_running) sweep();
            return;
        }
    }
    void release(int slot) override { connected[slot] = {}; }
    bool is_connected(int slot) const { return connected[slot].serial != 0; }
    void mark(int entity, int kind) override {
        if (dying == entity) return;
        collect(entity, kind < kAll ? 1u << kind : 0);
        if (kind < kAll) return;
        for (const Held& held : being(entity).has) collect(entity, 1u << kind_of(held.component));
    }
    void forget(int entity) override {
        being(entity).is_collected = false;
        being(entity).dirty = 0;
    }
    void clear_collected() {
        for (const int entity : alive) forget(entity);
        destroyed.clear();
    }

    int singletons = -1;
    std::vector<int> destroyed;
    std::uint64_t dropped = 0;

private:
    enum class Do { spawn, set, add, remove, destroy, destroy_all, changed, delay_begins, delay_ends };
    struct Command {
        Do kind;
        int entity;       // -1 from destroy_all on
        Values values{};  // without meaning for add and remove
        std::vector<int> rows{};
    };
    struct Waiting {
        int event;
        std::vector<int> rows;
        int component;
    };
    struct Subscriber {
        int slot;
        std::uint64_t serial;
        bool is_connected;
        bool is_batch;
    };
    struct Connected {
        int event = 0, kind = 0;
        std::uint64_t serial = 0;  // 0: none
    };

    int take() {
        int index = static_cast<int>(index_count);
        if (free_indices.empty()) {
            ++index_count;
        } else {
            index = free_indices.back();
            free_indices.pop_back();
        }
        beings.push_back({index});
        alive.push_back(spawned);
        return spawned++;
    }
    bool is_busy(int entity) const {
        if (dying == entity || removing == entity) return true;
        return std::any_of(queue.begin(), queue.end(), [&](const Command& c) { return c.entity == entity; });
    }
    /// Returns the components without pairs whose target died.
    Values possible(const Values& values) {
        Values result;
        for (auto [component, value] : values) {
            if (component >= kFirstPair && slot_of(component).is_buried)
                ++dropped;
            else
                result.set(component, value);
        }
        return result;
    }

    /// Follows the queued commands to find the value that a write changes.
    int* writable(int entity, int component, bool& is_queued) {
        Held* held = find(entity, component);
        int* value = held != nullptr ? &held->value : nullptr;
        if (locks == 0 || !is_busy(entity)) return value;
        bool is_taken = false, dies = dying == entity;
        if (removing == entity && removing_components.has(component)) value = nullptr, is_taken = true;
        for (Command& c : queue) {
            if (c.entity != entity) continue;
            if (c.kind == Do::destroy) dies = true;
            for (const auto& got : c.values)
                if (c.kind == Do::remove ? got.component == component : excludes(got.component, component))
                    value = nullptr, is_taken = true, is_queued = false;
            Values::Entry* given = c.kind != Do::remove ? c.values.find(component) : nullptr;
            if (given != nullptr && (c.kind != Do::add || value == nullptr))
                value = &given->value, is_queued = true, is_taken = false;
        }
        if (!dies && !(value == nullptr && is_taken)) return value;
        ++dropped;
        return nullptr;
    }

    // Operations when they are applied.

    /// Spawns several entities with the same components.
    void spawn_now(const std::vector<int>& rows, const std::vector<Values>& all) {
        ++locks;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            for (auto [component, value] : all[i]) give(rows[i], component, value);
            move(rows[i]);
        }
        for (auto [component, value] : all[0]) added(rows, component);
        unlock();
    }
    void set_now(int entity, const Values& given) {
        ++locks;
        const Table* const from = being(entity).table;
        const Values values = possible(given);
        Values replaced;
        for (auto [component, value] : values)
            for (const Held& held : being(entity).has)
                if (!has(entity, component) && excludes(component, held.component))
                    replaced.set(held.component, 0);
        if (!replaced.empty()) tell_waiting();
        tell_removed(entity, replaced);
        Values added_ones;
        for (auto [component, value] : values)
            if (!has(entity, component)) added_ones.set(component, value);
        for (auto [component, value] : replaced) take_away(entity, component);
        for (auto [component, value] : values)
            if (has_value(kind_of(component)) || !has(entity, component)) give(entity, component, value);
        move(entity);
        for (auto [component, value] : values) {
            if (added_ones.has(component))
                added({entity}, component);
            else if (has_value(kind_of(component)))
                changed({entity}, component);
        }
        free_if_rare(from);
        unlock();
    }
    void remove_now(int entity, const Values& components) {
        if (!has_any(entity, components)) return;
        ++locks;
        const Table* const from = being(entity).table;
        tell_waiting();
        tell_removed(entity, components);
        for (auto [component, value] : components) take_away(entity, component);
        move(entity);
        free_if_rare(from);
        unlock();
    }
    void tell_removed(int entity, const Values& components) {
        if (components.empty()) return;
        removing = entity;
        removing_components = components;
        for (auto [component, value] : components) {
            if (!has(entity, component)) continue;
            fire(kRemove, component, {entity}, Removal::component);
            collect(entity, 1u << kind_of(component));  // connected first, runs last
        }
        removing = -1;
    }
    void destroy_all_now(const std::vector<int>& entities) {
        ++locks;
        for (const int entity : entities)
            if (is_alive(entity)) destroy_now(entity);
        unlock();
    }
    void destroy_now(int root) {
        ++locks;
        tell_waiting();
        std::vector<int> seen, order;
        gather(root, seen, order);
        for (const int entity : order) destroy_one(entity);
        unlock();
    }
    void gather(int entity, std::vector<int>& seen, std::vector<int>& order) {
        seen.push_back(entity);
        for (const int slot : being(entity).pairs_to_it)
            if (kKinds + slots_of_pairs[std::size_t(slot)].relation == kChildOf)
                for (const int source : all_with(kFirstPair + slot))
                    if (!contains(seen, source)) gather(source, seen, order);
        order.push_back(entity);
    }
    void destroy_one(int entity) {
        dying = entity;
        forget(entity);
        destroyed.push_back(entity);
        fire(kDestroy, 0, {entity}, Removal::entity);
        for (const int slot : std::vector<int>(being(entity).pairs_to_it))
            for (const int source : all_with(kFirstPair + slot))
                if (source != entity) {
                    Values pair;
                    pair.set(kFirstPair + slot, 0);
                    remove_now(source, pair);
                }
        for (const Held& held : std::vector<Held>(being(entity).has))
            fire(kRemove, held.component, {entity}, Removal::entity);
        dying = -1;
        const Table* const from = being(entity).table;
        leave(entity);
        free_if_rare(from);
        being(entity).has.clear();
        being(entity).is_alive = false;
        std::erase(alive, entity);
        free_indices.push_back(being(entity).index);
        for (const int slot : being(entity).pairs_to_it) {
            std::erase_if(tables,
                          [&](const auto& it) { return contains(it->components, kFirstPair + slot); });
            slots_of_pairs[std::size_t(slot)].is_buried = true;
            dead_slots.push_back(slot);
        }
        being(entity).pairs_to_it.clear();
    }

    // The queue.

    void unlock() {
        if (--locks != 0) return;
        ++locks;
        while (!queue.empty() && locks == 1) {
            const Command command = std::move(queue.front());
            queue.pop_front();
            apply(command);
        }
        --locks;
        if (!queue.empty()) return;
        free_slots.insert(free_slots.end(), dead_slots.begin(), dead_slots.end());
        dead_slots.clear();
    }
    void apply(const Command& c) {
        if (c.kind == Do::changed) return tell_late(kChange, c.rows, c.values.begin()->component);
        if (c.kind == Do::delay_begins || c.kind == Do::delay_ends)
            return delay_now(c.kind == Do::delay_begins);
        if (c.kind == Do::destroy_all) return destroy_all_now(c.rows);
        if (!is_alive(c.entity)) {
            ++dropped;
        } else if (c.kind == Do::spawn) {
            spawn_now({c.entity}, {possible(c.values)});
        } else if (c.kind == Do::set) {
            set_now(c.entity, c.values);
        } else if (c.kind == Do::add) {
            if (!has(c.entity, c.values.begin()->component)) set_now(c.entity, c.values);
        } else if (c.kind == Do::remove) {
            remove_now(c.entity, c.values);
        } else if (c.kind == Do::destroy) {
            destroy_now(c.entity);
        }
    }

    // Calls of hooks.

    void added(const std::vector<int>& rows, int component) { tell_or_hold(kAdd, rows, component); }
    void changed(const std::vector<int>& rows, int component) {
        for (const int row : rows) find(row, component)->changed_at = tick;
        if (!is_running) return tell_or_hold(kChange, rows, component);
        Values what;
        what.set(component, 0);
        queue.push_back({Do::changed, -1, what, rows});
    }
    void tell_or_hold(int event, const std::vector<int>& rows, int component) {
        if (is_held) return waiting.push_back({event, rows, component});
        for (const int row : rows) collect(row, 1u << kind_of(component));
        fire(event, component, rows, Removal::component);
    }
    /// Those that still have it, in runs of rows.
    void tell_late(int event, const std::vector<int>& rows, int component) {
        std::vector<int> run;
        for (const int row : rows) {
            if (!run.empty() && (!has(row, component) || !follows(run.back(), row))) {
                tell_or_hold(event, run, component);
                run.clear();
            }
            if (has(row, component)) run.push_back(row);
        }
        if (!run.empty()) tell_or_hold(event, run, component);
    }
    void tell_waiting() {
        if (waiting.empty()) return;
        is_held = false;
        ++locks;
        for (const Waiting& told : std::exchange(waiting, {}))
            tell_late(told.event, told.rows, told.component);
        unlock();
        is_held = delays != 0;
    }
    void delay(bool begins) {
        if (locks == 0 || (begins && !is_running)) return delay_now(begins);
        queue.push_back({begins ? Do::delay_begins : Do::delay_ends, -1});
    }
    void delay_now(bool begins) {
        delays += begins ? 1 : -1;
        is_held = delays != 0;
        if (delays == 0) tell_waiting();
    }
    void fire(int event, int component, const std::vector<int>& rows, Removal why) {
        std::vector<Subscriber>& list = subscribers[event][event == kDestroy ? 0 : kind_of(component)];
        if (list.empty()) return;
        ++locks;
        is_running = true;
        const std::size_t count = list.size();
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t which = event >= kRemove ? count - 1 - i : i;
            if (!list[which].is_connected) continue;
            const int slot = list[which].slot;
            const bool is_batch = list[which].is_batch;
            if (is_batch) trace.push_back({kBatch, component, static_cast<int>(rows.size()), 0, 0, slot, 0});
            for (const int row : rows) {
                if (!is_batch && !list[which].is_connected) break;
                tell(event, component, row, why, slot);
                if (!is_batch) react();
            }
            if (is_batch) react();
        }
        is_running = false;
        sweep();
        unlock();
    }
    void tell(int event, int component, int row, Removal why, int slot) {
        const bool has_it = event != kDestroy && has_value(kind_of(component));
        std::uint64_t has = 0;
        for (const Held& held : being(row).has) has = digest(has, held.component);
        const int detail = static_cast<int>(event >= kRemove ? why : Removal{}) + (dying == row ? 8 : 0);
        trace.push_back({event, component, row, has_it ? find(row, component)->value : 0, detail, slot, has});
    }
    void sweep() {
        if (!std::exchange(has_disconnected, false)) return;
        for (auto& of_event : subscribers)
            for (std::vector<Subscriber>& list : of_event)
                std::erase_if(list, [](const Subscriber& s) { return !s.is_connected; });
    }
    void collect(int entity, unsigned kinds) {
        being(entity).is_collected = true;
        being(entity).dirty |= kinds;
    }

    enum Visit { kNothing, kRead, kWriteAll, kLowerOdd, kLowerOddAndHealth };
    /// Calls change hooks after the last row.
    void visit_rows(const Table& table, int component, int mode, Visit what) {
        std::vector<std::vector<int>> runs;
        bool is_open = false;
        for (const int row : table.rows) {
            const Held* held = find(row, component);
            const int old = what == kNothing ? 0 : held->value;
            const bool writes = what == kWriteAll || (what >= kLowerOdd && old % 2 != 0);
            if (writes) find(row, component)->value = what == kWriteAll ? old + 1 : old - 1;
            if (what == kLowerOddAndHealth) find(row, kHealth)->value += 1;
            if (writes && !is_open) runs.emplace_back();
            if (writes) runs.back().push_back(row);
            is_open = writes;
            visit(component, row, old, mode);
        }
        if (what == kLowerOddAndHealth && !table.rows.empty()) changed(table.rows, kHealth);
        for (const std::vector<int>& run : runs) changed(run, component);
    }

    std::size_t index_count = 0;
    std::vector<int> free_indices;
    std::vector<int> free_slots, dead_slots;
    std::deque<Command> queue;
    std::vector<Waiting> waiting;  // for the end of the delays
    int delays = 0;
    bool is_held = false;
    int locks = 0;
    bool is_deferral_kept = false;
    bool is_running = false;
    int dying = -1;
    int removing = -1;
    Values removing_components;
    std::vector<Subscriber> subscribers[kDestroy + 1][kAll];
    bool has_disconnected = false;
    Connected connected[kSlots];
    std::uint64_t serial = 0;
};

}  // namespace ecs_race
