#include "tests/ecs/support/race.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/ecs/support/race_model.h"
#include "tests/ecs/support/race_script.h"
#include "tests/ecs/support/race_world.h"

namespace ecs_race {
namespace {

/// Finds the first difference between a world and its model.
class Comparison {
public:
    Comparison(WorldSide& side, ModelSide& model) : side_(side), world_(*side.world), model_(model) {}

    /// Returns a description of the difference, or null. Changes after tick `since` are compared, too.
    const char* difference(std::uint64_t since) {
        what_ = nullptr;
        traces();
        whole();
        if (what_ == nullptr) rows();
        if (what_ == nullptr) entities();
        if (what_ == nullptr) plain_query();
        if (what_ == nullptr) pair_query(since);
        if (what_ == nullptr) changed_query(since);
        if (what_ == nullptr) collected();
        return what_;
    }

private:
    using Being = ModelSide::Being;
    using Table = ModelSide::Table;

    void expect(bool is_true, const char* what) {
        if (!is_true && what_ == nullptr) what_ = what;
    }

    void traces() {
        expect(side_.trace == model_.trace, "traces");
        expect(side_.spawned == model_.spawned, "number of entities ever");
        expect(side_.fault == nullptr, side_.fault);
        for (int slot = 0; slot < kSlots; ++slot)
            expect(static_cast<bool>(side_.hooks[slot]) == model_.is_connected(slot), "connected hooks");
    }

    void whole() {
        expect(world_.is_consistent(), "is_consistent");
        expect(!world_.is_deferring(), "is_deferring");
        expect(world_.dropped_commands() == model_.dropped, "dropped_commands");
        expect(world_.size() == model_.alive.size(), "size");
        expect(archetype_count(world_) == model_.tables.size(), "archetype_count");
        const bool has_singletons = model_.is_alive(model_.singletons);
        const Entity singletons = has_singletons ? side_.at(model_.singletons) : Entity{};
        expect(world_.singleton_entity<Health>() == singletons, "singletons");
        const Health* health = world_.try_get<Health>(world_.singleton_entity<Health>());
        const bool has_health = has_singletons && model_.has(model_.singletons, kHealth);
        expect((health != nullptr) == has_health, "try_singleton");
        if (health != nullptr) expect(&world_.singleton<Health>() == health, "singleton");
    }

    /// Compares all rows of all archetypes.
    void rows() {
        by_serial_.clear();
        for (const auto& table : model_.tables) {
            if (by_serial_.size() <= table->serial) by_serial_.resize(table->serial + 1);
            by_serial_[table->serial] = table.get();
        }
        counted_ = 0;
        world_.each_archetype([&](const Archetype& archetype) {
            const Table* table =
                archetype.serial() < by_serial_.size() ? by_serial_[archetype.serial()] : nullptr;
            expect(table != nullptr, "archetypes");
            if (what_ == nullptr) rows_of(archetype, *table);
        });
        expect(Counted::alive == counted_, "living instances");
    }
    void rows_of(const Archetype& archetype, const Table& table) {
        const std::uint32_t columns = archetype.column_count(), size = archetype.size();
        expect(columns == table.components.size() && size == table.rows.size(), "size of an archetype");
        if (what_ != nullptr) return;
        for (std::uint32_t row = 0; row < size; ++row) {
            const Entity entity = archetype.entities()[row];
            expect(side_.at(table.rows[row]) == entity, "rows");
            expect(world_.components_of(entity).data() == archetype.components().data(), "components_of");
        }
        for (std::uint32_t column = 0; column < columns && what_ == nullptr; ++column) {
            const int component = table.components[column];
            expect(side_.component_number(archetype.components()[column]) == component, "components");
            if (size != 0) column_of(archetype, table, column, component, model_.kind_of(component));
        }
        if (size != 0) pairs_of(archetype, table);
    }
    void column_of(const Archetype& archetype, const Table& table, std::uint32_t column, int component,
                   int kind) {
        const auto& values = archetype.column(column);
        const auto size = static_cast<std::uint32_t>(table.rows.size());
        counted_ += kind == kCounted || kind == kLikes ? static_cast<int>(size) : 0;
        with_type(kind, [&]<class T>() {
            for (std::uint32_t row = 0; row < size; ++row) {
                const ModelSide::Held& held = model_.being(table.rows[row]).has[column];
                expect(held.component == component, "the model");
                expect(archetype.stamp(values, row / kBlockRows) >= held.changed_at, "stamps");
                const void* at = world_.try_get(archetype.entities()[row], values.id());
                if constexpr (std::is_empty_v<T>) {
                    expect(at == nullptr && world_.has(archetype.entities()[row], values.id()), "tags");
                } else {
                    const T* value = static_cast<const T*>(at);
                    expect(value != nullptr && value == values.at(row), "try_get");
                    expect(value != nullptr && value_of(*value) == held.value, "values");
                }
            }
        });
    }
    void pairs_of(const Archetype& archetype, const Table& table) {
        const Entity entity = archetype.entities()[0];
        std::size_t pairs = 0;
        for (const int component : table.components) {
            if (component < kFirstPair) continue;
            ++pairs;
            const Entity target = side_.at(model_.slot_of(component).target);
            expect(world_.components().pairs().find(side_.id_of(component))->target == target, "pairs");
            with_type(model_.kind_of(component), [&]<class T>() {
                if constexpr (Relation<T>) expect(world_.has(entity, to<T>(target)), "has_pair");
                if constexpr (std::is_same_v<T, Follows>)
                    expect(world_.target<T>(entity) == target, "target");
            });
        }
        expect(archetype.pairs().size() == pairs, "pairs");
        if ((table.kinds & 1u << kFollows) == 0) expect(!world_.target<Follows>(entity), "target of none");
    }

    void entities() {
        for (const int entity : model_.alive) expect(side_.is_alive(entity), "is_alive");
        for (int back = 1; back < 5 && back <= side_.spawned; ++back) {
            const int entity = side_.spawned - back;
            if (model_.is_alive(entity)) continue;
            expect(!side_.is_alive(entity) && !world_.has<Health>(side_.at(entity)), "the dead");
            expect(world_.components_of(side_.at(entity)).empty(), "components of the dead");
        }
    }

    /// Compares a query with every kind of filter.
    void plain_query() {
        found_.clear();
        auto& query = side_.query<const Health, Without<Frozen>, With<Counted>, Optional<const MoveOnly>>();
        query.each([&](Entity entity, const Health& health, const MoveOnly* only) {
            const int number = side_.number(entity);
            found_.push_back(number);
            const ModelSide::Held* expected = model_.find(number, kHealth);
            expect(expected != nullptr && expected->value == health.points, "queried values");
            expect((only != nullptr) == model_.has(number, kMoveOnly), "optional values");
        });
        expected_.clear();
        const unsigned with = 1u << kHealth | 1u << kCounted, without = 1u << kTag;
        for (const auto& table : model_.tables)
            if ((table->kinds & (with | without)) == with) append(expected_, table->rows);
        expect(found_ == expected_, "a query");
        expect(query.count() == expected_.size(), "count");
    }

    /// Compares queries for all targets, then for one.
    void pair_query(std::uint64_t since) {
        const int one = side_.spawned - 1 - static_cast<int>(since % 7) % std::max(side_.spawned, 1);
        const auto gather = [&](Entity entity, const Counted&, const Targets<Likes>& liked) {
            found_.push_back(side_.number(entity));
            for (std::size_t i = 0; i < liked.size(); ++i) {
                found_.push_back(side_.number(liked[i]));
                found_.push_back(value_of(liked.value(i)));
            }
        };
        auto& query = side_.query<const Counted, Pair<Likes>, Without<ChildOf>>();
        const unsigned with = 1u << kCounted | 1u << kLikes, without = 1u << kChildOf;
        for (const bool is_narrow : {false, true}) {
            if (is_narrow && one < 0) break;
            found_.clear();
            expected_.clear();
            is_narrow ? query.each_to<Likes>(side_.at(one), gather) : query.each(gather);
            for (const auto& table : model_.tables) {
                if ((table->kinds & (with | without)) != with || table->rows.empty()) continue;
                if (is_narrow && !likes(table->rows[0], one)) continue;
                for (const int row : table->rows) append_likes(row);
            }
            expect(found_ == expected_, is_narrow ? "a query narrowed to a target" : "a query of pairs");
        }
    }
    bool likes(int entity, int target) {
        for (const ModelSide::Held& held : model_.being(entity).has)
            if (held.component >= kFirstPair && model_.kind_of(held.component) == kLikes &&
                model_.slot_of(held.component).target == target)
                return true;
        return false;
    }
    void append_likes(int entity) {
        expected_.push_back(entity);
        for (const ModelSide::Held& held : model_.targets(entity, kLikes)) {
            expected_.push_back(model_.slot_of(held.component).target);
            expected_.push_back(held.value);
        }
    }

    /// Compares the changed blocks; these archetypes have one block each.
    void changed_query(std::uint64_t since) {
        found_.clear();
        side_.query<const Health, Changed<Health>>().each_since(
            since, [&](Entity entity, const Health&) { found_.push_back(side_.number(entity)); });
        std::size_t at = 0;
        for (const auto& table : model_.tables) {
            if ((table->kinds & 1u << kHealth) == 0 || table->rows.empty()) continue;
            const auto is_changed = [&](int row) { return model_.find(row, kHealth)->changed_at > since; };
            const bool is_there = at < found_.size() && found_[at] == table->rows[0];
            if (is_there)
                at += table->rows.size();
            else
                expect(std::none_of(table->rows.begin(), table->rows.end(), is_changed), "missed changes");
        }
        expect(at == found_.size(), "a query of changes");
    }

    /// Compares the collected changes.
    void collected() {
        std::size_t entities = 0;
        for (const int entity : model_.alive) entities += model_.being(entity).is_collected ? 1 : 0;
        expect(side_.collector.is_consistent(), "is_consistent of the collector");
        expect(side_.collector.changes().size() == entities, "number of changes");
        for (const ChangeCollector::Change change : side_.collector.changes()) {
            const int number = side_.number(change.entity);
            expect(model_.is_alive(number) && model_.being(number).is_collected, "changed entities");
            expect(what_ != nullptr || change.dirty[0] == model_.being(number).dirty, "changes");
        }
        const auto destroyed = side_.collector.destroyed();
        expect(destroyed.size() == model_.destroyed.size(), "number of destroyed");
        for (std::size_t i = 0; what_ == nullptr && i < destroyed.size(); ++i)
            expect(destroyed[i] == side_.at(model_.destroyed[i]), "destroyed");
    }

    static void append(std::vector<int>& all, const std::vector<int>& more) {
        all.insert(all.end(), more.begin(), more.end());
    }

    WorldSide& side_;
    World& world_;
    ModelSide& model_;
    const char* what_ = nullptr;
    int counted_ = 0;
    std::vector<const Table*> by_serial_;
    std::vector<int> found_, expected_;
};

/// Destroys the world while hooks count events.
const char* end(WorldSide& side, const ModelSide& model) {
    const std::size_t alive = model.alive.size(), collected = model.destroyed.size();
    for (Hook& hook : side.hooks) hook.disconnect();
    side.is_over = true;
    std::size_t dead = 0;
    int counted = 0;
    const auto living = static_cast<int>(model.all_with(kCounted).size());
    Hook died = side.world->on_destroy([&](World&, std::span<const Entity> them) { dead += them.size(); });
    Hook gone = side.world->on_remove<Counted>([&](World& world, Entity entity, const Counted& value) {
        counted += world.try_get<Counted>(entity) == &value ? 1 : 0;
    });
    if (alive % 2 == 0) {
        side.world->clear();
        if (side.world->size() != 0 || !side.world->is_consistent()) return "clear";
    }
    side.world.reset();
    if (dead != alive || counted != living) return "hooks at the end of the world";
    if (side.collector.destroyed().size() != collected + alive) return "destroyed at the end of the world";
    if (!side.collector.changes().empty()) return "changes at the end of the world";
    return Counted::alive == 0 ? nullptr : "values at the end of the world";
}

}  // namespace

Outcome race(const std::function<std::optional<std::uint64_t>()>& roll) {
    Outcome outcome;
    WorldSide world;
    ModelSide model;
    Comparison comparison(world, model);
    std::uint64_t since = 0;
    for (int step = 0;; ++step) {
        const std::optional<std::uint64_t> dice = roll();
        if (!dice) break;
        world.begin(*dice);
        model.begin(*dice);
        if (const char* what = comparison.difference(since)) {
            outcome.difference = "step " + std::to_string(step) + ": " + what;
            return outcome;
        }
        outcome.events += world.trace.size();
        if (*dice % 11 == 0) {
            world.world->free_empty_archetypes();
            std::erase_if(model.tables, [](const auto& table) {
                return table->rows.empty() && !table->components.empty();
            });
        }
        if (*dice % 5 == 0) {
            world.collector.clear();
            model.clear_collected();
        }
        if (*dice % 7 == 0) {
            since = world.world->advance_tick();
            ++model.tick;
        }
    }
    if (const char* what = end(world, model)) outcome.difference = what;
    return outcome;
}

}  // namespace ecs_race
