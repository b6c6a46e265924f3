#include "ecs/change_collector.h"

#include <gtest/gtest.h>

#include <ranges>

#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <vector>

#include "ecs/query.h"
#include "tests/ecs/support/types.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;

namespace {

struct CollectorTest : testing::Test {
    World world;
    ChangeCollector collector{world};
    const std::uint32_t position = collector.watch<Position>();
    const std::uint32_t health = collector.watch<Health>();
    const std::uint32_t frozen = collector.watch<Frozen>();

    using Seen = std::map<Entity, std::set<std::uint32_t>>;

    Seen seen() const {
        Seen result;
        for (const ChangeCollector::Change change : collector.changes()) {
            auto& bits = result[change.entity];
            for (std::uint32_t watch = 0; watch < collector.watch_count(); ++watch)
                if (change.has(watch)) bits.insert(watch);
        }
        EXPECT_EQ(result.size(), collector.changes().size());  // no entity occurs twice
        return result;
    }
    std::vector<Entity> destroyed() const {
        return {collector.destroyed().begin(), collector.destroyed().end()};
    }
};

}  // namespace

TEST_F(CollectorTest, AddsChangesAndRemovesCoalesceToOneBit) {
    const Entity entity = world.spawn(Position{}, Velocity{});
    world.set(entity, Position{1, 1});
    world.remove<Position>(entity);
    world.set(entity, Position{2, 2});
    EXPECT_EQ(seen(), (Seen{{entity, {position}}}));
    collector.clear();
    EXPECT_TRUE(collector.changes().empty());
    world.remove<Position>(entity);
    EXPECT_EQ(seen(), (Seen{{entity, {position}}}));
    collector.clear();
    world.add<Frozen>(entity);
    world.set(entity, Health{1});
    EXPECT_EQ(seen(), (Seen{{entity, {health, frozen}}}));
}

TEST_F(CollectorTest, UnwatchedComponentsAreNotCollected) {
    const Entity entity = world.spawn(Velocity{});
    world.set(entity, Velocity{1, 1});
    EXPECT_TRUE(collector.changes().empty());
}

TEST_F(CollectorTest, Rule25WritesOfQueriesAreCollected) {
    std::vector<Entity> entities;
    for (int i = 0; i < 10; ++i) entities.push_back(world.spawn(Health{i}));
    collector.clear();
    Query<Mut<Health>>(world).each([](Mut<Health> h) {
        if (h.read().points % 2 == 0) h->points += 1;
    });
    EXPECT_EQ(collector.changes().size(), 5u);
    Query<Health>(world).each([](Health&) {});
    EXPECT_EQ(collector.changes().size(), 10u);
    EXPECT_EQ(collector.changes()[0].entity, entities[0]);
}

TEST_F(CollectorTest, ADestroyedEntityIsNotListedAsChanged) {
    const Entity old = world.spawn(Health{}, Position{});
    const Entity bare = world.spawn();
    collector.clear();
    world.set(old, Health{1});
    world.destroy(old);
    world.destroy(bare);
    const Entity brief = world.spawn(Health{});
    world.destroy(brief);
    EXPECT_EQ(seen(), Seen{});
    EXPECT_EQ(destroyed(), (std::vector{old, bare, brief}));
    collector.clear();
    EXPECT_TRUE(destroyed().empty());
}

TEST_F(CollectorTest, Rule26AnIndexUsedAgainMeansTheNewEntity) {
    const Entity other = world.spawn(Position{});
    const Entity old = world.spawn(Health{1});
    collector.clear();
    world.set(old, Health{2});
    world.set(other, Position{1, 1});
    world.destroy(old);
    const Entity reused = world.spawn(Position{});
    ASSERT_EQ(reused.index, old.index);
    EXPECT_EQ(seen(), (Seen{{other, {position}}, {reused, {position}}}));
    world.destroy(reused);
    const Entity again = world.spawn(Health{});
    ASSERT_EQ(again.index, old.index);
    EXPECT_EQ(seen(), (Seen{{other, {position}}, {again, {health}}}));
    EXPECT_EQ(destroyed(), (std::vector{old, reused}));
}

TEST_F(CollectorTest, MarkSetsABitByHand) {
    const Entity entity = world.spawn(Health{}, Frozen{}, Velocity{});
    const Entity bare = world.spawn();
    const Entity dead = world.spawn();
    world.destroy(dead);
    collector.clear();
    collector.mark(entity, position);
    EXPECT_EQ(seen(), (Seen{{entity, {position}}}));
    collector.clear();
    collector.mark_all(entity);
    collector.mark_all(bare);
    collector.mark_all(dead);
    collector.mark(dead, health);
    EXPECT_EQ(seen(), (Seen{{entity, {health, frozen}}, {bare, {}}}));
    collector.forget(entity);
    collector.forget(dead);
    EXPECT_EQ(seen(), (Seen{{bare, {}}}));
}

TEST_F(CollectorTest, DyingEntitiesCannotBeMarked) {
    const Hook early = world.on_remove<Health>([&](World&, Entity entity, const Health&) {
        collector.mark(entity, health);
        collector.mark_all(entity);
    });
    world.destroy(world.spawn(Health{}));
    EXPECT_TRUE(collector.changes().empty());
}

TEST_F(CollectorTest, WatchingAComponentTwiceGivesTheSameBit) {
    EXPECT_EQ(collector.watch<Health>(), health);
    EXPECT_EQ(collector.watch_count(), 3u);
    EXPECT_EQ(collector.watched(health), world.component<Health>());
}

static_assert(std::ranges::input_range<ChangeCollector::Changes>);

TEST(ChangeCollector, WatchesMoreThan64Components) {
    World world;
    ChangeCollector collector(world);
    std::vector<ComponentId> ids;
    const Entity early = world.spawn();
    for (std::uint32_t i = 0; i < 200; ++i) {
        ids.push_back(world.register_component({"tag"}));
        EXPECT_EQ(collector.watch(ids.back()), i);
        if (i == 3) world.set(early, ids[3], nullptr);  // existing bits must stay valid
    }
    const Entity entity = world.spawn();
    for (const std::uint32_t i : {0u, 63u, 64u, 127u, 128u, 199u}) world.set(entity, ids[i], nullptr);
    ASSERT_EQ(collector.changes().size(), 2u);
    for (std::uint32_t i = 0; i < 200; ++i) {
        EXPECT_EQ(collector.changes()[0].has(i), i == 3);
        EXPECT_EQ(collector.changes()[1].has(i),
                  i == 0 || i == 63 || i == 64 || i == 127 || i == 128 || i == 199);
    }
    collector.forget(early);
    EXPECT_TRUE(collector.changes()[0].has(199));
}

// Goal: rows and positions of earlier rounds stay valid when a watch needs another word.
TEST(ChangeCollector, WatchesMoreComponentsBetweenRounds) {
    for (const bool clears : {false, true}) {
        World world;
        ChangeCollector collector(world);
        std::vector<ComponentId> ids;
        for (int i = 0; i < 130; ++i) ids.push_back(world.register_component({"tag"}));
        std::vector<Entity> entities;
        for (int i = 0; i < 600; ++i) entities.push_back(world.spawn());
        for (std::uint32_t watch = 0; watch < ids.size(); ++watch) {
            ASSERT_EQ(collector.watch(ids[watch]), watch);
            if (watch % 64 != 0) continue;
            for (const Entity entity : entities) collector.mark(entity, watch);
            ASSERT_TRUE(collector.is_consistent()) << "watch " << watch;
            ASSERT_EQ(collector.changes().size(), entities.size());
            for (const ChangeCollector::Change change : collector.changes()) ASSERT_TRUE(change.has(watch));
            if (clears) collector.clear();
            world.destroy(entities.back());
            entities.pop_back();
        }
    }
}

// Goal: a new watch has a bit at once, also the first one that needs another word, and it is nobody else's
// bit. Method: after each watch() collect this watch for one entity and watch 0 for the next one.
TEST(ChangeCollector, EachNewWatchHasABitOfItsOwnAtOnce) {
    World world;
    ChangeCollector collector(world);
    const Entity first = world.spawn(), second = world.spawn();
    for (std::uint32_t newest = 0; newest < 130; ++newest) {
        SCOPED_TRACE(testing::Message() << "watch " << newest);
        collector.watch(world.register_component({"tag"}));
        collector.clear();
        collector.mark(first, newest);
        collector.mark(second, 0);
        collector.mark(first, newest);
        ASSERT_EQ(collector.changes().size(), 2u);
        for (std::uint32_t watch = 0; watch <= newest; ++watch) {
            ASSERT_EQ(collector.changes()[0].has(watch), watch == newest) << "bit " << watch;
            ASSERT_EQ(collector.changes()[1].has(watch), watch == 0) << "bit " << watch;
        }
    }
}

TEST(ChangeCollector, SeveralCanWatchOneWorldAndOutliveIt) {
    auto world = std::make_unique<World>();
    ChangeCollector first(*world), second(*world);
    first.watch<Health>();
    second.watch<Position>();
    const Entity entity = world->spawn(Health{}, Position{});
    first.clear();
    EXPECT_EQ(second.changes().size(), 1u);
    world.reset();
    EXPECT_EQ(first.destroyed().size(), 1u);
    EXPECT_EQ(second.destroyed()[0], entity);
    EXPECT_TRUE(second.changes().empty());
}
