#include "ecs/query.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/ecs/support/types.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;

namespace {

struct QueryTest : testing::Test {
    World world;

    void TearDown() override { EXPECT_TRUE(world.is_consistent()); }
};

using Runs = std::vector<std::pair<std::uint32_t, std::size_t>>;  // first entity's index, length

Hook collect_runs(World& world, Runs& runs) {
    return world.on_change<Health>([&](World&, std::span<const Entity> entities, std::span<const Health>) {
        runs.emplace_back(entities.front().index, entities.size());
    });
}

}  // namespace

TEST_F(QueryTest, VisitsAllMatchesInEveryArchetype) {
    world.spawn(Position{1, 0});
    world.spawn(Position{2, 0}, Velocity{1, 0});
    world.spawn(Position{3, 0}, Velocity{1, 0}, Health{});
    world.spawn(Velocity{1, 0});
    Query<Position, const Velocity> query(world);
    query.each([](Position& position, const Velocity& velocity) { position.x += velocity.x; });
    std::multiset<float> seen;
    Query<const Position>(world).each([&](const Position& position) { seen.insert(position.x); });
    EXPECT_EQ(seen, (std::multiset<float>{1, 3, 4}));
    EXPECT_EQ(query.count(), 2u);
}

TEST_F(QueryTest, FiltersAddNoArgument) {
    const Entity plain = world.spawn(Position{});
    const Entity frozen = world.spawn(Position{}, Frozen{});
    const Entity burning = world.spawn(Position{}, Burning{});
    std::vector<Entity> with, without;
    Query<const Position, With<Frozen>>(world).each(
        [&](Entity entity, const Position&) { with.push_back(entity); });
    Query<Without<Frozen>, const Position, Without<Burning>>(world).each(
        [&](Entity entity, const Position&) { without.push_back(entity); });
    EXPECT_EQ(with, std::vector{frozen});
    EXPECT_EQ(without, std::vector{plain});
    int rows = 0;
    Query<With<Burning>>(world).each([&] { ++rows; });
    Query<With<Burning>>(world).each([&](Entity entity) { rows += entity == burning; });
    EXPECT_EQ(rows, 2);
}

TEST_F(QueryTest, WithoutAloneFindsEntitiesWithoutComponents) {
    const Entity bare = world.spawn();
    world.spawn(Frozen{});
    Query<Without<Frozen>>(world).each([&](Entity entity) { EXPECT_EQ(entity, bare); });
}

TEST_F(QueryTest, OptionalIsNullWhereMissing) {
    world.spawn(Position{}, Health{5});
    world.spawn(Position{});
    int with = 0, without = 0;
    Query<const Position, Optional<const Health>>(world).each([&](const Position&, const Health* health) {
        (health != nullptr ? with : without) += 1;
        if (health != nullptr) {
            EXPECT_EQ(health->points, 5);
        }
    });
    EXPECT_EQ(with, 1);
    EXPECT_EQ(without, 1);
    Runs runs;
    const Hook hook = collect_runs(world, runs);
    Query<const Position, Optional<Health>>(world).each([](const Position&, Health* health) {
        if (health != nullptr) health->points = 6;
    });
    EXPECT_EQ(runs, (Runs{{0, 1}}));
}

TEST_F(QueryTest, FindsArchetypesThatAppearLater) {
    Query<const Position, Without<Frozen>> query(world);
    EXPECT_EQ(query.count(), 0u);
    world.spawn(Position{});
    EXPECT_EQ(query.count(), 1u);
    world.spawn(Position{}, Health{});
    world.spawn(Position{}, Frozen{});
    EXPECT_EQ(query.count(), 2u);
}

TEST_F(QueryTest, Rule23StructuralChangesWaitForTheEndOfTheIteration) {
    std::vector<Entity> entities;
    for (int i = 0; i < 10; ++i) entities.push_back(world.spawn(Health{i}));
    Query<const Health> query(world);
    int visited = 0;
    query.each([&](Entity entity, const Health& health) {
        ++visited;
        if (health.points % 2 == 0) {
            world.destroy(entity);
        } else {
            world.remove<Health>(entity);
            world.set(entity, Health{-1}, Position{});
        }
        world.spawn(Health{100});
        EXPECT_TRUE(world.is_alive(entity));
        EXPECT_EQ(world.get<Health>(entity).points, health.points);
    });
    EXPECT_EQ(visited, 10);
    for (std::size_t i = 0; i < 10; ++i) {
        EXPECT_EQ(world.is_alive(entities[i]), i % 2 == 1);
        if (i % 2 == 1) {
            EXPECT_EQ(world.get<Health>(entities[i]).points, -1);
        }
    }
    EXPECT_EQ(world.size(), 15u);
}

TEST_F(QueryTest, IterationsCanBeNested) {
    for (int i = 0; i < 10; ++i) world.spawn(Health{1});
    Query<Health> query(world);
    int pairs = 0;
    query.each([&](Entity outer, Health&) {
        query.each([&](Entity inner, Health&) { pairs += outer != inner; });
        world.spawn(Health{});
    });
    EXPECT_EQ(pairs, 90);
    EXPECT_EQ(world.size(), 20u);
}

TEST_F(QueryTest, AlignedMoveOnlyAndSelfReferentialComponentsWork) {
    for (int i = 0; i < 20; ++i) world.spawn(Wide{}, SelfReferential(i), MoveOnly{});
    Query<Wide, const SelfReferential, Mut<MoveOnly>> query(world);
    int rows = 0;
    query.each([&](Wide& wide, const SelfReferential& self, Mut<MoveOnly> only) {
        EXPECT_TRUE(wide.is_aligned());
        EXPECT_TRUE(self.is_intact());
        only->value = std::make_unique<int>(++rows);
    });
    EXPECT_EQ(rows, 20);
}

// Which rows count as changed

TEST_F(QueryTest, ConstReadsMarkNothing) {
    world.spawn(Health{});
    Runs runs;
    const Hook hook = collect_runs(world, runs);
    const std::uint64_t seen = world.advance_tick();
    Query<const Health>(world).each([](const Health&) {});
    Query<Optional<const Health>>(world).each([](const Health*) {});
    EXPECT_TRUE(runs.empty());
    int rows = 0;
    Query<const Health, Changed<Health>>(world).each_since(seen, [&](const Health&) { ++rows; });
    EXPECT_EQ(rows, 0);
}

TEST_F(QueryTest, Rule24ReferencesMarkWholeBlocks) {
    for (std::uint32_t i = 0; i < kBlockRows + 10; ++i) world.spawn(Health{});
    world.spawn(Health{}, Position{});
    Runs runs;
    const Hook hook = collect_runs(world, runs);
    std::uint32_t visited = 0;
    Query<Health>(world).each([&](Health& health) {
        health.points = 1;
        ++visited;
        EXPECT_EQ(runs.size(),
                  (visited - 1) / kBlockRows + (visited == kBlockRows + 11));  // after the last row
    });
    EXPECT_EQ(runs, (Runs{{0, kBlockRows}, {kBlockRows, 10}, {kBlockRows + 10, 1}}));
}

TEST_F(QueryTest, Rule24MutMarksMaximalRunsOfRowsWritten) {
    for (std::uint32_t i = 0; i < 2 * kBlockRows; ++i) world.spawn(Health{static_cast<int>(i)});
    Runs runs;
    const Hook hook = collect_runs(world, runs);
    const std::set<int> written = {0,   1,     2,     5,     63,    64,    65,   127,
                                   128, 1'000, 1'022, 1'023, 1'024, 1'030, 2'047};
    Query<Mut<Health>> query(world);
    query.each([&](Mut<Health> health) {
        EXPECT_GE(health.read().points, 0);
        if (written.count(health.read().points) != 0) health->points += 10'000;
    });
    EXPECT_EQ(
        runs,
        (Runs{
            {0, 3}, {5, 1}, {63, 3}, {127, 2}, {1'000, 1}, {1'022, 2}, {1'024, 1}, {1'030, 1}, {2'047, 1}}));
    runs.clear();
    query.each([&](Mut<Health>) {});
    EXPECT_TRUE(runs.empty());
    query.each([&](Mut<Health> health) { health = Health{1}; });
    EXPECT_EQ(runs, (Runs{{0, kBlockRows}, {kBlockRows, kBlockRows}}));
}

TEST_F(QueryTest, Rule24ChangeHooksOfABlockRunInComponentOrder) {
    world.component<Velocity>();
    world.component<Position>();
    world.spawn(Position{}, Velocity{});
    std::vector<std::string> trace;
    const Hook a =
        world.on_change<Position>([&](World&, Entity, const Position&) { trace.push_back("position"); });
    const Hook b =
        world.on_change<Velocity>([&](World&, Entity, const Velocity&) { trace.push_back("velocity"); });
    Query<Position, Mut<Velocity>>(world).each([](Position&, Mut<Velocity> velocity) { velocity->x = 1; });
    EXPECT_EQ(trace, (std::vector<std::string>{"velocity", "position"}));
}

TEST_F(QueryTest, BatchesShowFinalValues) {
    for (int i = 0; i < 5; ++i) world.spawn(Health{i});
    std::vector<int> values;
    const Hook hook =
        world.on_change<Health>([&](World& w, std::span<const Entity> entities, std::span<const Health> all) {
            for (std::size_t i = 0; i < all.size(); ++i) {
                EXPECT_EQ(&all[i], w.try_get<Health>(entities[i]));
                values.push_back(all[i].points);
            }
        });
    Query<Health>(world).each([](Health& health) { health.points *= 2; });
    EXPECT_EQ(values, (std::vector{0, 2, 4, 6, 8}));
}

TEST_F(QueryTest, HooksOfABlockMayChangeTheWorld) {
    for (int i = 0; i < 5; ++i) world.spawn(Health{i});
    const Hook hook = world.on_change<Health>([&](World& w, Entity entity, const Health& health) {
        if (health.points == 3) w.destroy(entity);
        if (health.points == 4) w.set(entity, Position{});
        if (health.points == 1) w.set(entity, Health{100});
    });
    Query<Health>(world).each([](Health&) {});
    EXPECT_EQ(world.size(), 4u);
    EXPECT_EQ(Query<Position>(world).count(), 1u);
    int hundreds = 0;
    Query<const Health>(world).each([&](const Health& health) { hundreds += health.points == 100; });
    EXPECT_EQ(hundreds, 1);
}

// Changed since

TEST_F(QueryTest, Rule25EachSinceVisitsBlocksWrittenSinceATick) {
    std::vector<Entity> entities;
    for (std::uint32_t i = 0; i < 3 * kBlockRows; ++i) entities.push_back(world.spawn(Health{}, Position{}));
    Query<const Health, Changed<Health>> query(world);
    const auto rows_since = [&](std::uint64_t tick) {
        std::uint32_t rows = 0;
        query.each_since(tick, [&](const Health&) { ++rows; });
        return rows;
    };
    EXPECT_EQ(rows_since(0), 3 * kBlockRows);
    std::uint64_t seen = world.advance_tick();
    EXPECT_EQ(rows_since(seen), 0u);
    world.set(entities[5], Position{1, 1});
    EXPECT_EQ(rows_since(seen), 0u);
    world.set(entities[kBlockRows + 5], Health{1});
    EXPECT_EQ(rows_since(seen), kBlockRows);
    seen = world.advance_tick();
    EXPECT_EQ(rows_since(seen), 0u);
    world.patch<Health>(entities[0], [](Health&) {});
    world.mut<Health>(entities[2 * kBlockRows])->points = 1;
    EXPECT_EQ(rows_since(seen), 2 * kBlockRows);
    seen = world.advance_tick();
    Query<Mut<Health>>(world).each([&](Entity entity, Mut<Health> health) {
        if (entity == entities[7]) health->points = 1;
    });
    EXPECT_EQ(rows_since(seen), kBlockRows);
    seen = world.advance_tick();
    Query<Health>(world).each([](Health&) {});
    EXPECT_EQ(rows_since(seen), 3 * kBlockRows);
}

TEST_F(QueryTest, Rule25EachSinceFindsMovedRows) {
    std::vector<Entity> entities;
    for (std::uint32_t i = 0; i < kBlockRows + 1; ++i) entities.push_back(world.spawn(Health{}));
    const std::uint64_t seen = world.advance_tick();
    world.set(entities.back(), Health{1});  // in the second block
    world.destroy(entities[0]);             // moves that row to the first block
    std::set<Entity> found;
    Query<const Health, Changed<Health>> query(world);
    query.each_since(seen, [&](Entity entity, const Health&) { found.insert(entity); });
    EXPECT_TRUE(found.count(entities.back()));
    world.add<Frozen>(entities.back());  // moves it to another archetype
    found.clear();
    query.each_since(seen, [&](Entity entity, const Health&) { found.insert(entity); });
    EXPECT_TRUE(found.count(entities.back()));
}

// An entity that begins to match a query may have changed before: the query must find it.
TEST_F(QueryTest, Rule25EachSinceFindsRowsThatBeganToMatch) {
    const Entity entity = world.spawn(Health{1});
    Query<const Health, Changed<Health>, Without<Frozen>> query(world);
    int seen_value = 0;
    std::uint64_t seen = 0;
    const auto read = [&] {
        query.each_since(seen, [&](const Health& health) { seen_value = health.points; });
        seen = world.advance_tick();
    };
    read();
    world.add<Frozen>(entity);
    world.set(entity, Health{2});
    read();
    EXPECT_EQ(seen_value, 1);
    world.remove<Frozen>(entity);
    read();
    EXPECT_EQ(seen_value, 2);
}

TEST_F(QueryTest, SeveralChangedTermsMatchIfAnyChanged) {
    const Entity entity = world.spawn(Health{}, Position{}, Frozen{});
    Query<const Health, Changed<Health>, Changed<Position>> query(world);
    const std::uint64_t seen = world.advance_tick();
    world.set(entity, Position{1, 1});
    int rows = 0;
    query.each_since(seen, [&](const Health&) { ++rows; });
    EXPECT_EQ(rows, 1);
}

TEST_F(QueryTest, UnsafeRawUnmarkedRunsNoHook) {
    const Entity entity = world.spawn(Health{});
    Runs runs;
    const Hook hook = collect_runs(world, runs);
    world.unsafe_raw_unmarked<Health>(entity)->points = 5;
    EXPECT_TRUE(runs.empty());
    EXPECT_EQ(world.get<Health>(entity).points, 5);
    EXPECT_EQ(world.unsafe_raw_unmarked<Position>(entity), nullptr);
}
