// Archetypes with several blocks: hook batches and stamps at the borders of words and blocks.

#include "ecs/query.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "ecs/change_collector.h"
#include "tests/ecs/support/types.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;

namespace {

using Batches = std::vector<std::vector<Entity>>;
using Batch = std::span<const Entity>;

std::vector<Entity> rows_of(World& world) {
    std::vector<Entity> rows;
    Query<const Health>(world).each([&](Entity entity, const Health&) { rows.push_back(entity); });
    return rows;
}

unsigned below(unsigned sides, std::mt19937& random) {
    return static_cast<unsigned>(random() % sides);
}

/// A random choice of rows to write, most of them near the ends of words and blocks.
std::vector<bool> some_rows(std::mt19937& random, std::size_t rows) {
    std::vector<bool> chosen(rows);
    const unsigned sides = below(3, random) == 0 ? 4'000 : 1 + below(40, random);  // writes few or many rows
    for (std::size_t row = 0; row < rows; ++row) chosen[row] = random() % sides == 0;
    for (unsigned spans = below(5, random); spans != 0; --spans) {
        const unsigned unit = random() % 2 == 0 ? 64 : kBlockRows;
        const std::size_t end = (random() % (rows / unit + 1)) * unit + random() % 3;
        const bool is_written = random() % 4 != 0;
        for (std::size_t row = end - std::min<std::size_t>(end, random() % 130); row < std::min(end, rows);
             ++row)
            chosen[row] = is_written;
    }
    return chosen;
}

/// Returns the maximal runs of these rows, cut where blocks end.
Batches runs_of(const std::vector<Entity>& rows, const std::vector<bool>& chosen) {
    Batches runs;
    for (std::size_t row = 0; row < rows.size(); ++row) {
        if (!chosen[row]) continue;
        if (row % kBlockRows == 0 || !chosen[row - 1]) runs.emplace_back();
        runs.back().push_back(rows[row]);
    }
    return runs;
}

void write(World& world, const std::vector<bool>& chosen) {
    std::size_t row = 0;
    Query<Mut<Health>>(world).each([&](Mut<Health> health) {
        if (chosen[row++])
            health->points += 1;
        else
            EXPECT_LE(0, health.read().points);
    });
}

}  // namespace

// Goal: hooks, collector, values and stamps of Mut writes equal a model, with several blocks, while rows are
// added and removed. Method: seeded subsets of rows, written outside or inside a hook; one tick per step.
TEST(Blocks, MatchModelUnderRandomMutWrites) {
    for (std::uint32_t seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        World world;
        std::map<Entity, std::pair<int, std::uint64_t>> model;  // value, tick of the last write
        Batches told;
        ChangeCollector collector(world);
        collector.watch<Health>();
        const Hook hook =
            world.on_change<Health>([&](World&, Batch entities, std::span<const Health> values) {
                told.emplace_back(entities.begin(), entities.end());
                for (std::size_t i = 0; i < entities.size(); ++i)
                    EXPECT_EQ(values[i].points, world.get<Health>(entities[i]).points);
            });
        std::vector<bool> chosen;
        const Hook writer = world.on_add<Burning>([&](World& w, Entity) { write(w, chosen); });
        const Entity fire = world.spawn();
        for (const Entity entity : world.spawn_n(kBlockRows * 2 + below(200, random), Health{}))
            model[entity] = {0, world.tick()};
        for (int step = 0; step < 25; ++step) {
            const std::uint64_t before = world.advance_tick();
            const std::vector<Entity> rows = rows_of(world);
            chosen = some_rows(random, rows.size());
            told.clear();
            collector.clear();
            if (step % 3 == 0)
                world.add<Burning>(fire);
            else
                write(world, chosen);
            world.remove<Burning>(fire);
            ASSERT_EQ(told, runs_of(rows, chosen));
            for (std::size_t row = 0; row < rows.size(); ++row)
                if (chosen[row]) model[rows[row]] = {model[rows[row]].first + 1, world.tick()};
            ASSERT_EQ(collector.changes().size(),
                      static_cast<std::size_t>(std::count(chosen.begin(), chosen.end(), true)));

            // The last rows move into gaps in other blocks.
            for (unsigned i = below(40, random); i != 0; --i) {
                const Entity doomed = rows[random() % rows.size()];
                world.destroy(doomed);
                model.erase(doomed);
            }
            for (const Entity entity : world.spawn_n(below(40, random), Health{}))
                model[entity] = {0, world.tick()};
            std::map<Entity, int> found;
            Query<const Health, Changed<Health>>(world).each_since(
                before, [&](Entity entity, const Health& health) { found[entity] = health.points; });
            ASSERT_EQ(world.size(), model.size() + 1);
            for (const auto& [entity, last] : model) {
                ASSERT_EQ(world.get<Health>(entity).points, last.first);
                ASSERT_TRUE(last.second <= before || found.count(entity) != 0);
            }
            ASSERT_TRUE(world.is_consistent());
        }
    }
}

TEST(Blocks, EachSinceVisitsOnlyBlocksThatWereWritten) {
    World world;
    const std::vector<Entity> rows = world.spawn_n(kBlockRows * 3 + 5, Health{});
    Query<const Health, Changed<Health>> changed(world);
    for (const std::uint32_t row : {0u, 1023u, 1024u, 2047u, 2048u, 3071u, 3072u, 3076u}) {
        const std::uint64_t before = world.advance_tick();
        world.patch<Health>(rows[row], [](Health& health) { health.points += 1; });
        std::vector<Entity> found;
        changed.each_since(before, [&](Entity entity, const Health&) { found.push_back(entity); });
        const auto first = static_cast<std::ptrdiff_t>(row / kBlockRows * kBlockRows);
        const auto last = std::min<std::ptrdiff_t>(first + kBlockRows, std::ssize(rows));
        EXPECT_EQ(found, std::vector<Entity>(rows.begin() + first, rows.begin() + last)) << row;
    }
}

TEST(Blocks, EachSinceFindsAWrittenRowThatMovedToAnotherBlock) {
    World world;
    const std::vector<Entity> rows = world.spawn_n(kBlockRows * 2 + 1, Health{});
    const std::uint64_t before = world.advance_tick();
    world.patch<Health>(rows.back(), [](Health& health) { health.points += 1; });
    world.destroy(rows.front());
    bool is_found = false;
    Query<const Health, Changed<Health>>(world).each_since(
        before, [&](Entity entity, const Health&) { is_found |= entity == rows.back(); });
    EXPECT_TRUE(is_found);
}

TEST(Blocks, QueuedBatchesAreCutAtTheBlocksOfTheRowsAtThatTime) {
    World world;
    world.spawn_n(kBlockRows - 1, Health{});
    const std::vector<Entity> rows = world.spawn_n(3, Health{}, Frozen{});
    const Hook writer = world.on_add<Burning>([&](World& w, Entity) {
        for (const Entity entity : rows) w.remove<Frozen>(entity);
        Query<Health, With<Frozen>>(w).each([](Health& health) { health.points = 1; });
    });
    Batches told;
    const Hook hook = world.on_change<Health>([&](World&, Batch entities, std::span<const Health>) {
        told.emplace_back(entities.begin(), entities.end());
    });
    world.spawn(Burning{});
    EXPECT_EQ(told, (Batches{{rows[0]}, {rows[1], rows[2]}}));
}

TEST(Blocks, BatchesOfAddsAndOfTheWorldsEndStayWithinABlock) {
    for (const std::uint32_t already : {0u, 1u, 1023u, 1024u, 1025u}) {
        std::size_t removed = 0, destroyed = 0;
        std::size_t rows = 0;
        std::vector<std::size_t> adds;
        {
            World world;
            world.spawn_n(already, Counted{1});
            const Hook added =
                world.on_add<Counted>([&](World&, Batch batch, std::span<const Counted> values) {
                    adds.push_back(batch.size());
                    for (const Counted& value : values) EXPECT_EQ(value.value, 2);
                });
            const std::uint32_t count = kBlockRows * 2 + 3;
            world.spawn_n(count, Counted{2});
            std::vector<std::size_t> expected;
            for (std::uint32_t row = already; row < already + count;
                 row += static_cast<std::uint32_t>(expected.back()))
                expected.push_back(std::min(already + count - row, kBlockRows - row % kBlockRows));
            EXPECT_EQ(adds, expected) << already;
            EXPECT_EQ(Counted::alive, static_cast<int>(already + count));
            world
                .on_remove<Counted>([&](World&, Batch batch, std::span<const Counted> values, Removal why) {
                    EXPECT_EQ(why, Removal::world);
                    EXPECT_EQ(batch.size(), values.size());
                    EXPECT_LE(batch.size(), kBlockRows);
                    removed += batch.size();
                })
                .release();
            world.on_destroy([&](World&, Batch batch) { destroyed += batch.size(); }).release();
            rows = world.size();
        }
        EXPECT_EQ(removed, rows);
        EXPECT_EQ(destroyed, rows);
        EXPECT_EQ(Counted::alive, 0);
    }
}

TEST(Blocks, AHookConnectedDuringAQueryGetsAllLaterRows) {
    World world;
    world.spawn_n<Health>(3'000, [](std::uint32_t i, Health& health) { health = {static_cast<int>(i)}; });
    const std::vector<Entity> rows = rows_of(world);
    std::vector<Entity> told;
    Hook hook;
    std::uint32_t visited = 0;
    Query<Health>(world).each([&](Health&) {
        if (visited++ != 2'000) return;
        hook = world.on_change<Health>([&](World&, Batch entities, std::span<const Health>) {
            told.insert(told.end(), entities.begin(), entities.end());
        });
    });
    ASSERT_GE(told.size(), 1'000u);
    EXPECT_TRUE(
        std::equal(told.rbegin(), told.rend(), rows.rbegin(), rows.rbegin() + std::ptrdiff_t(told.size())))
        << "each later row once, in order";
}
