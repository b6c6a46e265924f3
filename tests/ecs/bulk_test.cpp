// Operations on many entities or components: spawn_n, destroy_all, clear, remove of several; and singletons.

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "ecs/change_collector.h"
#include "ecs/query.h"
#include "ecs/world.h"
#include "tests/ecs/support/types.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;

namespace {

struct Owned {
    static constexpr auto relation = exclusive | destroy_with_target;
};
struct Timer {
    int now = 0;
};

}  // namespace

TEST(Bulk, SpawnNCopiesValuesAndRunsHooksInBatches) {
    World world;
    world.spawn(Health{}, Counted{});
    std::vector<std::size_t> batches;
    std::vector<Entity> told;
    const Hook added =
        world.on_add<Health>([&](World& w, std::span<const Entity> entities, std::span<const Health> values) {
            batches.push_back(entities.size());
            for (std::size_t i = 0; i < entities.size(); ++i) {
                EXPECT_EQ(values[i].points, 7);
                EXPECT_EQ(w.get<Counted>(entities[i]).value, 3);
            }
            told.insert(told.end(), entities.begin(), entities.end());
        });
    const std::vector<Entity> entities = world.spawn_n(2'500, Health{7}, Counted{3});
    EXPECT_EQ(told, entities);
    EXPECT_EQ(batches, (std::vector<std::size_t>{1'023, 1'024, 453}));
    EXPECT_EQ(world.size(), 2'501u);
    EXPECT_EQ(archetype_count(world), 2u);
    EXPECT_EQ(Counted::alive, 2'501);
    EXPECT_TRUE(world.spawn_n(0, Health{}).empty());
    EXPECT_TRUE(world.is_consistent());
    world.clear();
    EXPECT_EQ(Counted::alive, 0);
}

TEST(Bulk, SpawnNTakesValuesFromAFunction) {
    World world;
    const std::vector<Entity> entities =
        world.spawn_n<MoveOnly, Wide, Frozen>(100, [&](std::uint32_t i, MoveOnly& only, Wide& wide, Frozen&) {
            only.value = std::make_unique<int>(int(i));
            wide.lanes[0] = i;
            EXPECT_EQ(world.has<MoveOnly>({}), false);  // reading the world is allowed
        });
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(*world.get<MoveOnly>(entities[std::size_t(i)]).value, i);
        EXPECT_TRUE(world.get<Wide>(entities[std::size_t(i)]).is_aligned());
        EXPECT_TRUE(world.has<Frozen>(entities[std::size_t(i)]));
    }
}

TEST(Bulk, OperationsAreQueuedDuringADeferral) {
    World world;
    std::vector<Entity> entities;
    {
        const World::Deferral deferral(world);
        entities = world.spawn_n(3, Health{1});
        EXPECT_TRUE(world.is_alive(entities[2]));
        EXPECT_FALSE(world.has<Health>(entities[2]));
        world.clear();
        EXPECT_TRUE(world.is_alive(entities[2]));
        entities.push_back(world.spawn(Health{2}));
    }
    EXPECT_EQ(world.size(), 1u);
    EXPECT_EQ(world.get<Health>(entities[3]).points, 2);
    EXPECT_EQ(world.dropped_commands(), 0u);
}

TEST(Bulk, QueryDestroysAllThatItMatches) {
    World world;
    const std::vector<Entity> frozen = world.spawn_n(10, Health{}, Frozen{});
    const std::vector<Entity> others = world.spawn_n(10, Health{});
    world.add(frozen[1], to<Owned>(frozen[0]));
    world.add(others[0], to<Owned>(frozen[0]));  // is destroyed, too
    std::vector<Entity> dead;
    const Hook died = world.on_destroy([&](World&, Entity e) { dead.push_back(e); });
    Query<With<Frozen>> query{world};
    query.destroy_all();
    EXPECT_EQ(dead.size(), 11u);
    EXPECT_EQ(query.count(), 0u);
    EXPECT_EQ(world.size(), 9u);
    EXPECT_EQ(world.dropped_commands(), 0u);  // destroying dead ones is not counted
    query.destroy_all();
    world.clear();
    EXPECT_EQ(dead.size(), 20u);
    EXPECT_TRUE(world.is_consistent());
}

TEST(Bulk, SeveralComponentsAreRemovedInOneMove) {
    World world;
    const Entity entity = world.spawn(Health{1}, Counted{2}, Frozen{}, Position{});
    const std::uint32_t before = archetype_count(world);
    const Hook removed = world.on_remove<Counted>([&](World& w, Entity e, const Counted& value) {
        EXPECT_EQ(value.value, 2);
        EXPECT_TRUE(w.has<Health>(e));
        EXPECT_TRUE(w.has<Frozen>(e));
        w.patch<Health>(e, [](Health&) { FAIL(); });  // it is being removed
        w.set(e, Health{5});                          // is queued
    });
    world.remove<Counted, Frozen, Health, Burning>(entity);
    EXPECT_EQ(world.get<Health>(entity).points, 5);
    EXPECT_FALSE(world.has<Counted>(entity));
    EXPECT_FALSE(world.has<Frozen>(entity));
    EXPECT_TRUE(world.has<Position>(entity));
    EXPECT_EQ(archetype_count(world), before + 2);  // no archetypes in between
    EXPECT_EQ(world.dropped_commands(), 1u);
    EXPECT_EQ(Counted::alive, 0);
}

TEST(Singleton, IsAComponentOfAnEntityOfItsOwn) {
    World world;
    EXPECT_FALSE(world.singleton_entity<Timer>());
    EXPECT_EQ(world.try_get<Timer>(world.singleton_entity<Timer>()), nullptr);
    EXPECT_FALSE(world.patch_singleton<Timer>([](Timer& clock) { ++clock.now; }));
    std::vector<int> ticks;
    const Hook added = world.on_add<Timer>([&](World&, Entity, const Timer& c) { ticks.push_back(c.now); });
    const Hook changed =
        world.on_change<Timer>([&](World&, Entity, const Timer& c) { ticks.push_back(c.now); });
    ChangeCollector collector{world};
    collector.watch<Timer>();
    world.set_singleton(Timer{1}, Health{100});
    EXPECT_TRUE(world.patch_singleton<Timer>([](Timer& clock) { ++clock.now; }));
    const Entity holder = world.singleton_entity<Timer>();
    EXPECT_EQ(world.singleton<Timer>().now, 2);
    EXPECT_EQ(world.singleton<Health>().points, 100);
    EXPECT_EQ(ticks, (std::vector<int>{1, 2}));
    EXPECT_EQ(collector.changes()[0].entity, holder);
    EXPECT_NE(holder, world.singleton_entity<Health>());
    EXPECT_FALSE(world.has<Health>(holder));
    EXPECT_EQ(world.size(), 2u);

    // Destroying its entity removes it; the next set makes a new one.
    world.destroy(holder);
    EXPECT_FALSE(world.singleton_entity<Timer>());
    EXPECT_EQ(world.try_get<Timer>(world.singleton_entity<Timer>()), nullptr);
    EXPECT_EQ(world.singleton<Health>().points, 100) << "other singletons stay";
    world.set_singleton(Timer{5});
    EXPECT_EQ(world.singleton<Timer>().now, 5);
}

TEST(Singleton, AdoptReplacesOneSingletonAndKeepsTheOthers) {
    World world;
    world.set_singleton(Timer{1}, Health{100});
    const Entity former = world.singleton_entity<Timer>();
    const Entity replica = world.spawn(Timer{9}, Health{3});
    world.adopt_singleton<Timer>(replica);
    EXPECT_EQ(world.singleton<Timer>().now, 9);
    EXPECT_EQ(world.singleton<Health>().points, 100);
    EXPECT_EQ(world.get<Timer>(former).now, 1);
    world.set_singleton(Timer{10});
    EXPECT_EQ(world.get<Timer>(replica).now, 10);
}

TEST(Singleton, CanBeSetWhileAQueryIterates) {
    World world;
    world.spawn(Health{3});
    Query<const Health> all{world};
    all.each([&](const Health& health) {
        world.set_singleton(Timer{health.points});
        world.set_singleton(Health{4});
    });
    EXPECT_EQ(world.singleton<Timer>().now, 3);
    EXPECT_EQ(world.singleton<Health>().points, 4);
    EXPECT_EQ(world.size(), 3u);
}
