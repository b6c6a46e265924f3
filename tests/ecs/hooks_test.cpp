#include "ecs/hooks.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ecs/query.h"
#include "ecs/world.h"
#include "tests/ecs/support/types.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;

namespace {

struct Crew {
    static constexpr auto relation = exclusive;
};

struct HookTest : testing::Test {
    World world;
    std::vector<std::string> trace;

    void log(std::string what) { trace.push_back(std::move(what)); }
    void TearDown() override { EXPECT_TRUE(world.is_consistent()); }
};

using Trace = std::vector<std::string>;

}  // namespace

TEST_F(HookTest, AddChangeRemoveSeeTheValue) {
    const Hook add = world.on_add<Health>(
        [&](World&, Entity, const Health& health) { log("add " + std::to_string(health.points)); });
    const Hook change = world.on_change<Health>(
        [&](World&, Entity, const Health& health) { log("change " + std::to_string(health.points)); });
    const Hook remove = world.on_remove<Health>(
        [&](World&, Entity, const Health& health) { log("remove " + std::to_string(health.points)); });
    const Entity entity = world.spawn();
    world.set(entity, Health{1});
    world.set(entity, Health{2});
    world.remove<Health>(entity);
    world.remove<Health>(entity);
    world.spawn(Health{3});
    EXPECT_EQ(trace, (Trace{"add 1", "change 2", "remove 2", "add 3"}));
}

TEST_F(HookTest, TagsHaveHooksWithoutValues) {
    const Hook add = world.on_add<Frozen>([&](World&, Entity) { log("add"); });
    const Hook remove = world.on_remove<Frozen>(
        [&](World&, Entity, Removal why) { log(why == Removal::component ? "remove" : "destroy"); });
    const Hook change = world.on_change<Frozen>([&](World&, std::span<const Entity>) { log("change"); });
    const Entity entity = world.spawn(Frozen{});
    world.set(entity, Frozen{});  // it has the tag already: no event
    world.add<Frozen>(entity);
    world.remove<Frozen>(entity);
    world.add<Frozen>(entity);
    world.destroy(entity);
    EXPECT_EQ(trace, (Trace{"add", "remove", "add", "destroy"}));
}

TEST_F(HookTest, DelayedHooksFindEverythingOfTheBatchComplete) {
    const Entity old = world.spawn(Health{1});
    const Hook added = world.on_add<Health>([&](World& w, Entity entity, const Health& health) {
        log("add " + std::to_string(health.points));
        EXPECT_EQ(w.size(), 3u);
        EXPECT_EQ(w.get<Position>(entity), (Position{5, 6}));
    });
    const Hook changed = world.on_change<Health>([&](World& w, Entity, const Health& health) {
        log("change " + std::to_string(health.points));
        EXPECT_EQ(w.sources(to<Crew>(old)).size(), 2u);
    });
    const Hook paired = world.on_add<Crew>([&](World& w, Entity gunner, Entity tank) {
        log("crew");
        EXPECT_TRUE(w.has<Health>(gunner));
        EXPECT_EQ(w.get<Health>(tank).points, 2);
    });
    {
        const World::DelayHooks delay(world);
        world.set(old, Health{2});
        for (const int points : {10, 20}) {
            const Entity gunner = world.spawn();
            world.add(gunner, to<Crew>(old));
            world.set(gunner, Health{points});
            world.set(gunner, Position{5, 6});
        }
        EXPECT_TRUE(trace.empty());
    }
    EXPECT_EQ(trace, (std::vector<std::string>{"change 2", "crew", "add 10", "crew", "add 20"}));
}

TEST_F(HookTest, DelayedHooksRunBeforeARemoval) {
    const Hook added = world.on_add<Health>([&](World&, Entity, const Health&) { log("add"); });
    const Hook removed = world.on_remove<Health>([&](World&, Entity, const Health&) { log("remove"); });
    const World::DelayHooks delay(world);
    const Entity entity = world.spawn(Health{1});
    world.remove<Health>(entity);
    EXPECT_EQ(trace, (std::vector<std::string>{"add", "remove"}));
    world.destroy(world.spawn(Health{1}));
    EXPECT_EQ(trace.size(), 4u);
    world.spawn(Health{1});
    EXPECT_EQ(trace.size(), 4u);
}

TEST_F(HookTest, DelayedHooksInAHookWaitForTheirBatchToo) {
    const Hook added = world.on_add<Health>([&](World& w, Entity, const Health& health) {
        log("add " + std::to_string(health.points) + " of " + std::to_string(w.size()));
        if (health.points != 1) return;
        const World::DelayHooks delay(w);
        w.spawn(Health{2});
        w.set(w.spawn(), Health{3});
    });
    world.spawn(Health{1});
    EXPECT_EQ(trace, (std::vector<std::string>{"add 1 of 1", "add 2 of 3", "add 3 of 3"}));
}

TEST_F(HookTest, DelayedHooksOfWritesInALoopWaitForTheEndOfTheDelay) {
    const Entity a = world.spawn(Health{1}), b = world.spawn(Health{1});
    const Hook changed = world.on_change<Health>(
        [&](World& w, Entity, const Health&) { log("b is " + std::to_string(w.get<Health>(b).points)); });
    Query<const Position> none(world);
    world.set(world.spawn(), Position{});
    none.each([&](const Position&) {
        const World::DelayHooks delay(world);
        world.set(a, Health{2});
        world.set(b, Health{2});
    });
    EXPECT_EQ(trace, (Trace{"b is 2", "b is 2"}));
}

TEST_F(HookTest, ARemovalThatNoHookHearsOfDoesNotEndTheDelay) {
    const Entity leader = world.spawn(), other = world.spawn(), gunner = world.spawn();
    world.add(gunner, to<Crew>(leader));
    const Hook added = world.on_add<Position>(
        [&](World& w, Entity entity, const Position&) { log(w.has<Health>(entity) ? "complete" : "half"); });
    {
        const World::DelayHooks delay(world);
        const Entity entity = world.spawn(Position{});
        world.add(gunner, to<Crew>(other));
        world.set(entity, Health{1});
    }
    EXPECT_EQ(trace, (Trace{"complete"}));
}

TEST_F(HookTest, AFunctionThatWritesWhenItIsDestroyedFindsNoDisconnectedHook) {
    struct Guard {
        World* world = nullptr;
        Entity entity;
        Guard(World& in, Entity of) : world(&in), entity(of) {}
        Guard(const Guard&) = delete;
        ~Guard() {
            world->patch<Health>(entity, [](Health& health) { ++health.points; });
        }
    };
    const Entity entity = world.spawn(Health{1});
    Hook changed = world.on_change<Health>([&](World&, Entity, const Health&) { log("changed"); });
    Hook added;
    added = world.on_add<Position>(
        [&, guard = std::make_shared<Guard>(world, entity)](World&, Entity, const Position&) {
            changed.disconnect();
            added.disconnect();
        });
    world.set(entity, Position{});
    EXPECT_EQ(world.get<Health>(entity).points, 2);
    EXPECT_TRUE(trace.empty());
}

TEST_F(HookTest, HooksWithoutATypeGetPointers) {
    const ComponentId id = world.component<Health>();
    const Hook single = world.on(HookKind::add, id, [&](World&, Entity, const void* value) {
        log(std::to_string(static_cast<const Health*>(value)->points));
    });
    const Hook batch = world.on(HookKind::remove, id,
                                [&](World&, std::span<const Entity> entities, const void* values, Removal) {
                                    log(std::to_string(entities.size()) + ":" +
                                        std::to_string(static_cast<const Health*>(values)->points));
                                });
    world.destroy(world.spawn(Health{4}));
    EXPECT_EQ(trace, (Trace{"4", "1:4"}));
}

TEST_F(HookTest, AddSeesTheWholeRow) {
    const Hook hook = world.on_add<Position>([&](World& w, Entity entity, const Position&) {
        EXPECT_EQ(w.get<Velocity>(entity), (Velocity{3, 4}));
        EXPECT_EQ(w.get<Health>(entity).points, 5);
        EXPECT_TRUE(w.has<Frozen>(entity));
        log("add");
    });
    world.spawn(Position{1, 2}, Velocity{3, 4}, Health{5}, Frozen{});
    world.set(world.spawn(), Position{1, 2}, Velocity{3, 4}, Health{5}, Frozen{});
    EXPECT_EQ(trace.size(), 2u);
}

TEST_F(HookTest, RemoveSeesAllSiblingsAndTheReason) {
    const auto hook_for = [&](const char* name) {
        return [this, name](World& w, Entity entity, const auto&, Removal why) {
            EXPECT_TRUE(w.is_alive(entity));
            EXPECT_NE(w.try_get<Position>(entity), nullptr);
            EXPECT_NE(w.try_get<Health>(entity), nullptr);
            EXPECT_NE(w.try_get<Velocity>(entity), nullptr);
            log(name + std::to_string(static_cast<int>(why)));
        };
    };
    const Hook position = world.on_remove<Position>(hook_for("position"));
    const Hook velocity = world.on_remove<Velocity>(hook_for("velocity"));
    const Hook health = world.on_remove<Health>(hook_for("health"));
    const Entity entity = world.spawn(Health{1}, Velocity{}, Position{});
    world.remove<Velocity>(entity);
    world.set(entity, Velocity{});
    world.destroy(entity);
    EXPECT_EQ(trace, (Trace{"velocity0", "position1", "velocity1", "health1"}));
}

TEST_F(HookTest, Rule24HooksOfSeveralComponentsRunInComponentOrder) {
    const ComponentId first = world.component<Velocity>(), second = world.component<Position>();
    ASSERT_LT(first, second);
    const Hook b = world.on_add<Position>([&](World&, Entity, const Position&) { log("position"); });
    const Hook a = world.on_add<Velocity>([&](World&, Entity, const Velocity&) { log("velocity"); });
    const Hook c =
        world.on_change<Velocity>([&](World&, Entity, const Velocity&) { log("velocity changed"); });
    const Entity entity = world.spawn(Position{}, Velocity{});
    world.remove<Position>(entity);
    world.set(entity, Position{}, Velocity{});
    EXPECT_EQ(trace, (Trace{"velocity", "position", "velocity changed", "position"}));
}

TEST_F(HookTest, RegistrationOrderOnAddReverseOnRemove) {
    std::vector<Hook> hooks;
    for (const char* name : {"a", "b", "c"}) {
        hooks.push_back(world.on_add<Health>([=, this](World&, Entity, const Health&) { log(name); }));
        hooks.push_back(world.on_change<Health>([=, this](World&, Entity, const Health&) { log(name); }));
        hooks.push_back(world.on_remove<Health>([=, this](World&, Entity, const Health&) { log(name); }));
        hooks.push_back(world.on_destroy([=, this](World&, Entity) { log(std::string("destroy ") + name); }));
    }
    const Entity entity = world.spawn(Health{});
    world.set(entity, Health{1});
    world.destroy(entity);
    EXPECT_EQ(trace,
              (Trace{"a", "b", "c", "a", "b", "c", "destroy c", "destroy b", "destroy a", "c", "b", "a"}));
}

TEST_F(HookTest, Rule26DestroyFiresFirstWithEverythingReadable) {
    const Hook destroy = world.on_destroy([&](World& w, Entity entity) {
        EXPECT_TRUE(w.is_alive(entity));
        EXPECT_TRUE(w.is_dying(entity));
        log("destroy " + std::to_string(w.get<Health>(entity).points));
    });
    const Hook remove = world.on_remove<Health>([&](World&, Entity, const Health&) { log("remove"); });
    const Entity entity = world.spawn(Health{7});
    world.destroy(entity);
    EXPECT_EQ(trace, (Trace{"destroy 7", "remove"}));
    EXPECT_FALSE(world.is_dying(entity));
}

TEST_F(HookTest, Rule26TheIndexIsFreeOnlyAfterTheHooks) {
    const Hook hook = world.on_destroy([&](World& w, Entity entity) {
        EXPECT_NE(w.spawn().index, entity.index);
        log("destroy");
    });
    world.destroy(world.spawn());
    EXPECT_EQ(trace.size(), 1u);
    EXPECT_EQ(world.size(), 1u);
}

// Connecting and disconnecting

TEST_F(HookTest, DestroyedHandlesDisconnect) {
    {
        const Hook hook = world.on_add<Health>([&](World&, Entity, const Health&) { log("add"); });
        EXPECT_TRUE(hook);
        world.spawn(Health{});
    }
    world.spawn(Health{});
    EXPECT_EQ(trace.size(), 1u);
}

TEST_F(HookTest, HandlesCanBeMovedAndReleased) {
    const auto count = [&](World&, Entity, const Health&) { log("add"); };
    Hook first = world.on_add<Health>(count);
    Hook second = std::move(first);
    EXPECT_FALSE(first);
    EXPECT_TRUE(second);
    world.spawn(Health{});
    EXPECT_EQ(trace.size(), 1u);
    second = world.on_add<Health>(count);  // disconnects the old one
    world.spawn(Health{});
    EXPECT_EQ(trace.size(), 2u);
    second.release();
    EXPECT_FALSE(second);
    second.disconnect();
    world.spawn(Health{});
    EXPECT_EQ(trace.size(), 3u);
}

TEST(Hook, MayOutliveItsWorld) {
    auto witness = std::make_shared<int>(0);
    Hook hook, moved;
    {
        World world;
        hook = world.on_add<Health>([witness](World&, Entity, const Health&) {});
        moved = world.on_destroy([witness](World&, Entity) {});
        EXPECT_EQ(witness.use_count(), 3);
    }
    EXPECT_EQ(witness.use_count(), 1);  // the world destroys its functions
    EXPECT_FALSE(hook);
    Hook third = std::move(moved);
    third.disconnect();
}

TEST(Hook, FunctionsThatOwnHooksMayBeDestroyedInAnyOrder) {
    World world;
    auto inner = std::make_unique<Hook>(world.on_add<Health>([](World&, Entity, const Health&) {}));
    Hook outer = world.on_add<Health>([owned = std::move(inner)](World&, Entity, const Health&) {});
    outer.disconnect();
    auto second = std::make_unique<Hook>(world.on_add<Health>([](World&, Entity, const Health&) {}));
    world.on_add<Position>([owned = std::move(second)](World&, Entity, const Position&) {}).release();
}

TEST_F(HookTest, UnknownIdsAreNotConnected) {
    const auto nothing = [](World&, Entity, const void*) { FAIL(); };
    const ComponentId last = world.component<Health>();
    for (const ComponentId id : {ComponentId{}, ComponentId{last.value + 1}, ComponentId{0x5555'5555}}) {
        EXPECT_DEBUG_DEATH((void)world.on(HookKind::add, id, nothing), "is_known");
        EXPECT_DEBUG_DEATH((void)world.on(HookKind::remove, id, nothing), "is_known");
    }
    EXPECT_TRUE(world.on(HookKind::remove, last, [](World&, Entity, const void*) {}));
    world.destroy(world.spawn(Health{}));
}

TEST_F(HookTest, Rule24HooksMayDisconnectHooks) {
    std::optional<Hook> self, later;
    self = world.on_add<Health>([&](World&, Entity, const Health&) {
        log("self");
        self.reset();
        later.reset();  // must not be called any more, also for this event
        log("still here");
    });
    later = world.on_add<Health>([&](World&, Entity, const Health&) { log("later"); });
    world.spawn(Health{});
    world.spawn(Health{});
    EXPECT_EQ(trace, (Trace{"self", "still here"}));
}

TEST_F(HookTest, AFunctionDisconnectedWhileItRunsIsDestroyedAfterwards) {
    auto witness = std::make_shared<int>(5);
    std::optional<Hook> self;
    self = world.on_add<Health>([this, &self, witness](World&, Entity, const Health&) {
        self.reset();
        log(std::to_string(*witness) + " of " + std::to_string(witness.use_count()));
    });
    world.spawn(Health{});
    EXPECT_EQ(trace, (Trace{"5 of 2"}));
    EXPECT_EQ(witness.use_count(), 1);
}

TEST_F(HookTest, DisconnectingEndsTheCallsForABatchRowByRow) {
    for (int i = 0; i < 5; ++i) world.spawn(Health{i});
    std::optional<Hook> self;
    self = world.on_change<Health>([&](World&, Entity, const Health& health) {
        log(std::to_string(health.points));
        if (health.points == 2) self.reset();
    });
    Query<Health>(world).each([](Health&) {});
    EXPECT_EQ(trace, (Trace{"0", "1", "2"}));
}

TEST_F(HookTest, Rule24ConnectingInsideAHookTakesEffectAfterIt) {
    std::vector<Hook> hooks;
    hooks.push_back(world.on_add<Health>([&](World& w, Entity, const Health&) {
        log("first");
        for (int i = 0; i < 100; ++i)  // makes the list of hooks reallocate
            hooks.push_back(w.on_add<Health>([&](World&, Entity, const Health&) { log("new"); }));
    }));
    world.spawn(Health{});
    EXPECT_EQ(trace.size(), 1u);
    hooks[0].disconnect();
    world.spawn(Health{});
    EXPECT_EQ(trace.size(), 101u);
}

TEST_F(HookTest, RemoveHooksThatConnectHooksKeepTheReverseOrder) {
    std::vector<Hook> hooks;
    for (int i = 0; i < 3; ++i)
        hooks.push_back(world.on_remove<Health>([&, i](World& w, Entity, const Health&) {
            log(std::to_string(i));
            hooks.push_back(w.on_remove<Health>([](World&, Entity, const Health&) {}));
        }));
    hooks.reserve(100);
    world.destroy(world.spawn(Health{}));
    EXPECT_EQ(trace, (Trace{"2", "1", "0"}));
}

TEST_F(HookTest, LateHooksGetChangesOfExistingEntities) {
    const Entity entity = world.spawn(Health{1});
    Query<Health> query(world);
    query.each([](Health&) {});
    const Hook hook = world.on_change<Health>([&](World&, Entity, const Health&) { log("change"); });
    world.set(entity, Health{2});
    query.each([](Health&) {});
    EXPECT_EQ(trace.size(), 2u);
}

TEST_F(HookTest, ComponentsCanBeRegisteredInsideHooks) {
    const Hook hook = world.on_add<Health>([&](World& w, Entity, const Health&) {
        for (int i = 0; i < 50; ++i) w.register_component({"late", 4, 4});
        log("add");
    });
    const Hook second = world.on_add<Health>([&](World&, Entity, const Health&) { log("add"); });
    world.spawn(Health{});
    EXPECT_EQ(trace.size(), 2u);
}

// Changing the world inside hooks

TEST_F(HookTest, Rule24StructuralChangesWaitForTheOutermostOperation) {
    const Hook on_health = world.on_add<Health>([&](World& w, Entity entity, const Health&) {
        w.set(entity, Position{1, 1});
        w.add<Frozen>(entity);
        EXPECT_FALSE(w.has<Position>(entity));
        log("health");
    });
    const Hook on_health_too = world.on_add<Health>([&](World& w, Entity entity, const Health&) {
        EXPECT_FALSE(w.has<Position>(entity));
        log("health too");
    });
    const Hook on_position = world.on_add<Position>([&](World& w, Entity entity, const Position&) {
        EXPECT_FALSE(w.has<Frozen>(entity));
        w.remove<Health>(entity);
        EXPECT_TRUE(w.has<Health>(entity));
        log("position");
    });
    const Hook on_frozen = world.on_add<Frozen>([&](World& w, Entity entity) {
        EXPECT_TRUE(w.has<Health>(entity));  // queued before the removal
        log("frozen");
    });
    const Entity entity = world.spawn(Health{1});
    EXPECT_EQ(trace, (Trace{"health", "health too", "position", "frozen"}));
    EXPECT_FALSE(world.has<Health>(entity));
    EXPECT_TRUE(world.has<Frozen>(entity));
}

TEST_F(HookTest, Rule24WritesInHooksApplyAtOnceAndTheirHooksRunInOrder) {
    const Entity other = world.spawn(Velocity{}, Position{});
    const Hook on_health = world.on_change<Health>([&](World& w, Entity, const Health&) {
        log("health");
        w.set(other, Velocity{1, 0});
        w.patch<Position>(other, [](Position& position) { position.x = 2; });
        EXPECT_EQ(w.get<Velocity>(other), (Velocity{1, 0}));
        log("health end");
    });
    const Hook on_velocity = world.on_change<Velocity>([&](World& w, Entity entity, const Velocity&) {
        log("velocity");
        EXPECT_EQ(w.get<Position>(entity), (Position{2, 0}));
        w.set(entity, Position{3, 0});
    });
    const Hook on_position = world.on_change<Position>([&](World&, Entity, const Position& position) {
        log("position " + std::to_string(int(position.x)));
    });
    const Entity entity = world.spawn(Health{});
    world.set(entity, Health{1});
    EXPECT_EQ(trace, (Trace{"health", "health end", "velocity", "position 3", "position 3"}));
}

TEST_F(HookTest, Rule24QueuedChangeHooksOfADestroyedEntityDoNotRun) {
    const Entity other = world.spawn(Position{});
    const Hook on_health = world.on_change<Health>([&](World& w, Entity, const Health&) {
        w.destroy(other);
        w.set(other, Position{1, 1});  // queued after the destroy, dropped
    });
    const Hook on_health_before = world.on_change<Health>([&](World& w, Entity, const Health&) {
        if (!w.is_alive(other)) return;
    });
    const Hook on_position =
        world.on_change<Position>([&](World&, Entity, const Position&) { log("position"); });
    const Entity entity = world.spawn(Health{});
    world.set(entity, Health{1});
    EXPECT_TRUE(trace.empty());
    EXPECT_EQ(world.dropped_commands(), 1u);
}

TEST_F(HookTest, Rule23ARemoveHookCanBringTheComponentBack) {
    const Hook hook =
        world.on_remove<Health>([&](World& w, Entity entity, const Health& health, Removal why) {
            if (why != Removal::component) return;
            w.set(entity, Health{health.points - 1});  // queued after the removal
            EXPECT_EQ(w.get<Health>(entity).points, health.points);
            EXPECT_TRUE(w.patch<Health>(entity, [](Health& queued) { queued.points *= 2; }));
            EXPECT_TRUE(w.patch<Position>(entity, [](Position& position) { position.x = 1; }));
        });
    const Entity entity = world.spawn(Health{5}, Position{});
    world.remove<Health>(entity);
    ASSERT_TRUE(world.has<Health>(entity));
    EXPECT_EQ(world.get<Health>(entity).points, 8);
    EXPECT_EQ(world.get<Position>(entity).x, 1);
}

TEST_F(HookTest, CommandsOnADyingEntityAreDroppedAndCounted) {
    const Hook destroy = world.on_destroy([&](World& w, Entity entity) {
        w.set(entity, Health{9});
        w.set(entity, Counted(1));
        EXPECT_FALSE(w.patch<Health>(entity, [](Health&) { FAIL(); }));
    });
    const Hook remove = world.on_remove<Health>([&](World& w, Entity entity, const Health& health) {
        EXPECT_EQ(health.points, 1);
        w.remove<Health>(entity);
        w.destroy(entity);
    });
    const Entity entity = world.spawn(Health{1});
    world.destroy(entity);
    EXPECT_FALSE(world.is_alive(entity));
    EXPECT_EQ(world.dropped_commands(), 5u);
    EXPECT_EQ(Counted::alive, 0);
    EXPECT_EQ(world.size(), 0u);
}

TEST_F(HookTest, HooksCanDestroyTheirEntity) {
    const Hook add = world.on_add<Health>([&](World& w, Entity entity, const Health& health) {
        if (health.points < 0) w.destroy(entity);
    });
    const Entity bad = world.spawn(Health{-1});
    const Entity good = world.spawn(Health{1});
    EXPECT_FALSE(world.is_alive(bad));
    EXPECT_TRUE(world.is_alive(good));
}

TEST_F(HookTest, HooksCanSpawnEntitiesWhoseHooksSpawnMore) {
    const Hook add = world.on_add<Health>([&](World& w, Entity, const Health& health) {
        if (health.points == 0) return;
        const Entity next = w.spawn(Health{health.points - 1});
        w.set(next, Position{float(health.points), 0});
        EXPECT_TRUE(w.is_alive(next));
    });
    world.spawn(Health{1'000});
    EXPECT_EQ(world.size(), 1'001u);
}

TEST_F(HookTest, ChangeHooksOfQueriesInsideHooksWait) {
    for (int i = 0; i < 3; ++i) world.spawn(Position{});
    world.spawn(Position{}, Velocity{});
    Query<Position> query(world);
    const Hook on_health = world.on_add<Health>([&](World&, Entity, const Health&) {
        query.each([](Position& position) { position.x += 1; });
        log("health");
    });
    const Hook on_position = world.on_change<Position>(
        [&](World&, std::span<const Entity> entities, std::span<const Position> values) {
            EXPECT_EQ(values.front().x, 1);
            log(std::to_string(entities.size()));
        });
    world.spawn(Health{});
    EXPECT_EQ(trace, (Trace{"health", "3", "1"}));
}

// The end of the world

TEST(World, DestructorRunsDestroyThenRemoveHooksWithAllValuesReadable) {
    std::vector<std::string> trace;
    std::vector<Hook> hooks;
    {
        World world;
        for (int i = 0; i < 2; ++i) world.spawn(Health{i});
        const Entity other = world.spawn(Position{1, 2});
        hooks.push_back(world.on_destroy([&, other](World& w, Entity) {
            EXPECT_EQ(w.get<Position>(other), (Position{1, 2}));
            trace.push_back("destroy");
        }));
        hooks.push_back(
            world.on_remove<Health>([&, other](World& w, Entity, const Health& health, Removal why) {
                EXPECT_EQ(why, Removal::world);
                EXPECT_EQ(w.get<Position>(other), (Position{1, 2}));
                trace.push_back("remove " + std::to_string(health.points));
                w.set(other, Position{1, 2});
                w.spawn(Health{5});
                w.destroy(other);
            }));
    }
    EXPECT_EQ(trace, (Trace{"destroy", "destroy", "destroy", "remove 0", "remove 1"}));
}

TEST(World, DestructorAllowsHookFunctionsWhoseDestructorsUseTheWorld) {
    struct Busy {
        World* world;
        ~Busy() {
            world->spawn();
            for (int i = 0; i < 9; ++i) world->on_add<Health>([](World&, Entity, const Health&) {}).release();
        }
    };
    auto world = std::make_unique<World>();
    auto busy = std::make_shared<Busy>(Busy{world.get()});
    world->on_add<Health>([busy](World&, Entity, const Health&) {}).release();
    world->on_add<Health>([](World&, Entity, const Health&) {}).release();
    busy.reset();
    world.reset();  // sanitizers report errors
}

TEST(Hook, MayBeOwnedByItsOwnFunction) {
    World world;
    int told = 0;
    auto hook = std::make_shared<Hook>();
    *hook = world.on_add<Health>([hook, &told](World&, Entity, const Health&) { ++told; });
    Hook* const only = hook.get();
    hook.reset();
    world.spawn(Health{});
    only->disconnect();  // destroys the function, and with it the handle
    world.spawn(Health{});
    EXPECT_EQ(told, 1);
}
