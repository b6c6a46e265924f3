#pragma once
// The contents of a world in the simplest form: an entity is a list of components with values. Everything
// else is found by search.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/ecs/support/race_script.h"

namespace ecs_race {

/// Entities and components have numbers; pairs have the numbers of their slots.
class ModelRows {
public:
    struct Held {
        int component;
        int value;
        std::uint64_t changed_at;  // tick
    };

    /// The entities with the same components.
    struct Table {
        std::vector<int> components;  // sorted
        unsigned kinds;               // one bit per kind
        std::uint64_t serial;
        std::vector<int> rows;  // entities, in order
    };

    struct Being {
        int index;  // of its handle
        bool is_alive = true;
        Table* table = nullptr;          // null while the spawn is queued
        std::vector<Held> has{};         // sorted
        std::vector<int> pairs_to_it{};  // slots, the newest first
        bool is_collected = false;
        unsigned dirty = 0;  // one bit per kind
    };

    struct PairSlot {
        int relation, target;
        bool is_buried;
    };

    Being& being(int entity) { return beings[static_cast<std::size_t>(entity)]; }
    Held* find(int entity, int component) {
        for (Held& held : being(entity).has)
            if (held.component == component) return &held;
        return nullptr;
    }
    bool has(int entity, int component) { return find(entity, component) != nullptr; }
    const PairSlot& slot_of(int pair) const {
        return slots_of_pairs[static_cast<std::size_t>(pair - kFirstPair)];
    }
    int kind_of(int component) const {
        return component < kFirstPair ? component : kKinds + slot_of(component).relation;
    }
    static bool has_value(int kind) { return kind != kTag && kind != kChildOf; }
    /// In the order of their tables, oldest first.
    std::vector<int> all_with(int component) const {
        std::vector<int> result;
        for (const auto& table : tables)
            if (contains(table->components, component))
                result.insert(result.end(), table->rows.begin(), table->rows.end());
        return result;
    }
    /// The sources of a relation, in the order of handles.
    std::vector<Held> targets(int entity, int kind) {
        std::vector<Held> result;
        for (const Held& held : being(entity).has)
            if (held.component >= kFirstPair && kind_of(held.component) == kind) result.push_back(held);
        std::sort(result.begin(), result.end(), [&](const Held& a, const Held& b) {
            return being(slot_of(a.component).target).index < being(slot_of(b.component).target).index;
        });
        return result;
    }
    template <class T>
    static bool contains(const std::vector<T>& all, T one) {
        return std::find(all.begin(), all.end(), one) != all.end();
    }

    std::vector<int> by_index(std::vector<int> entities) {
        std::sort(entities.begin(), entities.end(),
                  [&](int a, int b) { return being(a).index < being(b).index; });
        return entities;
    }
    bool has_any(int entity, const Values& components) {
        return std::any_of(components.begin(), components.end(),
                           [&](const Values::Entry& entry) { return has(entity, entry.component); });
    }
    /// Returns whether adding the first component removes the second.
    bool excludes(int got, int lost) const {
        return got >= kFirstPair && lost >= kFirstPair && got != lost && kind_of(got) == kind_of(lost) &&
               kind_of(got) != kLikes;
    }
    // Changes.

    Table& table(const std::vector<int>& components) {
        for (const auto& table : tables)
            if (table->components == components) return *table;
        unsigned kinds = 0;
        for (const int component : components) kinds |= 1u << kind_of(component);
        tables.push_back(std::make_unique<Table>(Table{components, kinds, ++table_serial, {}}));
        return *tables.back();
    }
    /// Moves an entity to the table of its components, to the last row. The former table's last row fills the
    /// gap.
    void move(int entity) {
        components_.clear();
        for (const Held& held : being(entity).has) components_.push_back(held.component);
        Table& to = table(components_);
        if (being(entity).table == &to) return;
        leave(entity);
        being(entity).table = &to;
        to.rows.push_back(entity);
        for (Held& held : being(entity).has)
            held.changed_at = tick;  // changed for queries that match only `to`
    }
    void leave(int entity) {
        Table* from = std::exchange(being(entity).table, nullptr);
        if (from == nullptr) return;
        *std::find(from->rows.begin(), from->rows.end(), entity) = from->rows.back();
        from->rows.pop_back();
    }
    /// The world frees an archetype with many pairs as soon as it is empty.
    void free_if_rare(const Table* table) {
        const auto is_pair = [](int component) { return component >= kFirstPair; };
        if (table == nullptr || !table->rows.empty()) return;
        if (std::count_if(table->components.begin(), table->components.end(), is_pair) <= 8) return;
        std::erase_if(tables, [&](const auto& it) { return it.get() == table; });
    }
    void give(int entity, int component, int value) {
        std::vector<Held>& has = being(entity).has;
        auto at = has.begin();
        while (at != has.end() && at->component < component) ++at;
        if (at == has.end() || at->component != component) at = has.insert(at, Held{component, 0, 0});
        at->value = value;
        at->changed_at = tick;
    }
    void take_away(int entity, int component) {
        std::erase_if(being(entity).has, [&](const Held& held) { return held.component == component; });
    }
    bool follows(int first, int second) {
        const Table* table = being(first).table;
        const auto at = std::find(table->rows.begin(), table->rows.end(), first);
        return at + 1 != table->rows.end() && at[1] == second;
    }

    std::vector<Being> beings;
    std::vector<int> alive;                      // sorted
    std::vector<std::unique_ptr<Table>> tables;  // the oldest first
    std::vector<PairSlot> slots_of_pairs;
    std::uint64_t tick = 1;

private:
    std::uint64_t table_serial = 0;
    std::vector<int> components_;  // scratch
};

}  // namespace ecs_race
