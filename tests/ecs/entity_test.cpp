#include "ecs/entity.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

using namespace shoal::ecs::impl;

TEST(Entity, ADefaultEntityIsNullAndNeverAllocated) {
    EXPECT_FALSE(Entity{});
    EntityTable table;
    EXPECT_FALSE(table.is_alive({}));
    const Entity first = table.take();
    EXPECT_TRUE(first);
    EXPECT_NE(first, Entity{});
    EXPECT_FALSE(table.is_alive({}));
}

TEST(EntityTable, StaleHandlesStayStaleWhenTheIndexIsUsedAgain) {
    EntityTable table;
    const Entity old = table.take();
    table.release(old);
    EXPECT_FALSE(table.is_alive(old));
    const Entity reused = table.take();
    EXPECT_EQ(reused.index, old.index);
    EXPECT_FALSE(table.is_alive(old));
    EXPECT_EQ(table.find(old), nullptr);
    EXPECT_TRUE(table.is_alive(reused));
}

TEST(EntityTable, ForgedHandlesAreDead) {
    EntityTable table;
    const Entity entity = table.take();
    EXPECT_FALSE(table.is_alive({entity.index, entity.generation + 1}));
    EXPECT_FALSE(table.is_alive({entity.index + 1, 1}));
    EXPECT_FALSE(table.is_alive({0xFFFF'FFFF, 0xFFFF'FFFF}));
    table.release(entity);
    EXPECT_FALSE(table.is_alive({entity.index, entity.generation + 1}));  // a free index
}

TEST(EntityTable, TakenEntitiesAreAliveButHaveNoRowUntilMoved) {
    EntityTable table;
    const Entity entity = table.take();
    EXPECT_TRUE(table.is_alive(entity));
    EXPECT_EQ(table.find(entity), nullptr);
    table.move_to(entity, {3, 4});
    ASSERT_NE(table.find(entity), nullptr);
    EXPECT_EQ(table.find(entity)->archetype, 3u);
    EXPECT_EQ(table.find(entity)->row, 4u);
}

// Goal: living entities have different indices, no handle is used twice, size() and at() are right.
TEST(EntityTable, MatchesSetModel) {
    const std::uint32_t seed = 7;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    EntityTable table;
    std::vector<Entity> alive;
    std::set<Entity> ever;
    for (int step = 0; step < 20'000; ++step) {
        if (alive.empty() || random() % 2 == 0) {
            const Entity entity = table.take();
            ASSERT_TRUE(ever.insert(entity).second);
            alive.push_back(entity);
        } else {
            const std::size_t at = random() % alive.size();
            table.release(alive[at]);
            ASSERT_FALSE(table.is_alive(alive[at]));
            alive[at] = alive.back();
            alive.pop_back();
        }
        ASSERT_EQ(table.size(), alive.size());
        if (step % 16 == 0) {
            ASSERT_TRUE(table.is_consistent());
        }
    }
    std::set<std::uint32_t> indices;
    for (const Entity entity : alive) {
        EXPECT_TRUE(indices.insert(entity.index).second);
        EXPECT_EQ(table.at(entity.index), entity);
    }
    for (std::uint32_t index = 0; index < table.index_count(); ++index)
        EXPECT_EQ(static_cast<bool>(table.at(index)), indices.count(index) == 1);
}
