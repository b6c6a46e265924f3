#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl::held_components_test {
namespace {

using sim::Health;
using sim::Name;
using sim::Position;
using sim::Wolf;

struct Hunts {
    static constexpr auto relation = ecs::exclusive;
    std::int32_t rank = 0;
};
struct Knows {
    static constexpr auto relation = ecs::many;
};

Schema schema_to_hold() {
    Schema schema;
    schema.component<Position>("position");
    schema.component<Health>("health");
    schema.component<Name>("name");
    schema.tag<Wolf>("wolf");
    schema.pair<Hunts>("hunts");
    schema.pair<Knows>("knows");
    return schema;
}

struct Holding {
    template <class T>
    ComponentIndex index() const {
        return static_cast<ComponentIndex>(pair.schema.find<T>());
    }
    /// Returns a new entity and its replica.
    template <class... Components>
    std::pair<ecs::Entity, ecs::Entity> add(const Components&... components) {
        const ecs::Entity entity = pair.spawn(components...);
        pair.exchange();
        return {entity, pair.replica(entity)};
    }
    Pair pair{{}, {}, 1, 1, schema_to_hold()};
};

TEST(HeldComponents, StayAsTheClientWroteThemUntilTheyAreReleased) {
    Holding holding;
    Pair& pair = holding.pair;
    const auto [cat, replica] = holding.add(at(1), Health{10});
    ASSERT_TRUE(pair.receiver.hold(replica, holding.index<Position>()));
    pair.mirror.set(replica, at(50));
    pair.world.set(cat, at(2));
    pair.world.set(cat, Health{11});
    pair.exchange();
    EXPECT_EQ(pair.mirror.get<Position>(replica).x, 50) << "held";
    EXPECT_EQ(pair.mirror.get<Health>(replica).points, 11) << "not held";
    pair.receiver.restore(replica);
    EXPECT_EQ(pair.mirror.get<Position>(replica).x, 50) << "restore() does not end a hold";
    EXPECT_TRUE(pair.receiver.release(replica, holding.index<Position>()));
    EXPECT_EQ(pair.mirror.get<Position>(replica).x, 2) << "the server's value of the last record";
    EXPECT_FALSE(pair.receiver.release(replica, holding.index<Position>())) << "not held any more";
    pair.world.set(cat, at(3));
    pair.exchange();
    EXPECT_EQ(pair.mirror.get<Position>(replica).x, 3);
}

TEST(HeldComponents, CountInAHashAsWhatTheServerSaid) {
    Holding holding;
    Pair& pair = holding.pair;
    const ecs::Entity cat = pair.spawn(at(1), Health{10}, Name{"cat"}), dog = pair.spawn(at(2), Health{3});
    pair.exchange();
    for (const ecs::Entity entity : {cat, dog}) {
        pair.receiver.hold(pair.replica(entity), holding.index<Position>());
        pair.receiver.hold(pair.replica(entity), holding.index<Name>());
    }
    pair.mirror.set(pair.replica(cat), at(50));
    pair.mirror.remove<Position>(pair.replica(dog));
    pair.mirror.set(pair.replica(dog), Name{"dog"});
    EXPECT_TRUE(pair.worlds_are_equal());
    pair.world.set(cat, at(4));
    pair.world.remove<Name>(cat);
    pair.exchange();
    EXPECT_TRUE(pair.worlds_are_equal());
    pair.mirror.set(pair.replica(cat), Health{99});
    EXPECT_FALSE(pair.worlds_are_equal()) << "not held";
}

TEST(HeldComponents, CanBeAbsentOnOneSide) {
    Holding holding;
    Pair& pair = holding.pair;
    const auto [cat, replica] = holding.add(at(1), Health{10});
    for (const ComponentIndex component :
         {holding.index<Health>(), holding.index<Name>(), holding.index<Wolf>()})
        ASSERT_TRUE(pair.receiver.hold(replica, component));
    pair.mirror.remove<Health>(replica);
    pair.mirror.set(replica, Name{"mine"});
    pair.world.set(cat, Health{11});
    pair.world.add<Wolf>(cat);
    pair.exchange();
    EXPECT_FALSE(pair.mirror.has<Health>(replica));
    EXPECT_FALSE(pair.mirror.has<Wolf>(replica));
    EXPECT_TRUE(pair.mirror.has<Name>(replica));
    pair.world.remove<Wolf>(cat);
    pair.world.set(cat, Name{"server's"});
    pair.exchange();
    pair.world.remove<Name>(cat);
    pair.exchange();
    EXPECT_EQ(pair.mirror.get<Name>(replica).text, "mine");
    for (const ComponentIndex component :
         {holding.index<Health>(), holding.index<Name>(), holding.index<Wolf>()})
        ASSERT_TRUE(pair.receiver.release(replica, component));
    EXPECT_EQ(pair.mirror.get<Health>(replica).points, 11);
    EXPECT_FALSE(pair.mirror.has<Name>(replica));
    EXPECT_TRUE(pair.worlds_are_equal());
}

TEST(HeldComponents, StayWhenRestoreRemovesWhatTheServerLacks) {
    Holding holding;
    Pair& pair = holding.pair;
    const auto [cat, replica] = holding.add(at(1));
    ASSERT_TRUE(pair.receiver.hold(replica, holding.index<Name>()));
    pair.mirror.set(replica, Name{"mine"});
    pair.mirror.set(replica, Health{5});
    EXPECT_TRUE(pair.receiver.restore(replica));
    EXPECT_TRUE(pair.mirror.has<Name>(replica)) << "held";
    EXPECT_FALSE(pair.mirror.has<Health>(replica));
}

TEST(HeldComponents, EndWithTheReplica) {
    Holding holding;
    Pair& pair = holding.pair;
    const auto [cat, replica] = holding.add(at(1));
    ASSERT_TRUE(pair.receiver.hold(replica, holding.index<Position>()));
    pair.world.destroy(cat);
    pair.exchange();
    EXPECT_FALSE(pair.receiver.release(replica, holding.index<Position>()));
    EXPECT_FALSE(pair.receiver.hold(replica, holding.index<Position>()));
    const ecs::Entity next = pair.spawn(at(7));
    pair.exchange();
    pair.world.set(next, at(8));
    pair.exchange();
    EXPECT_EQ(pair.mirror.get<Position>(pair.replica(next)).x, 8)
        << "the slot is used again, without the hold";
}

TEST(HeldComponents, AreReleasedOneByOne) {
    Holding holding;
    Pair& pair = holding.pair;
    const auto [cat, replica] = holding.add(at(1), Health{10}, Name{"cat"});
    const ComponentIndex all[] = {holding.index<Position>(), holding.index<Health>(), holding.index<Name>()};
    for (const ComponentIndex held : all) {
        ASSERT_TRUE(pair.receiver.hold(replica, held));
        ASSERT_TRUE(pair.receiver.hold(replica, held)) << "it is held already";
        EXPECT_EQ(pair.receiver.held(pair.receiver.net_id(replica)).size(), 1u);
        for (const ComponentIndex other : all) {
            if (other != held) {
                EXPECT_FALSE(pair.receiver.release(replica, other));
            }
        }
        EXPECT_TRUE(pair.receiver.release(replica, held));
        EXPECT_FALSE(pair.receiver.release(replica, held));
        EXPECT_TRUE(pair.receiver.held(pair.receiver.net_id(replica)).empty());
    }
}

TEST(HeldComponents, AreOnlyThoseOfLivingReplicas) {
    Holding holding;
    Pair& pair = holding.pair;
    const auto [cat, replica] = holding.add(at(1));
    const ecs::Entity own = pair.mirror.spawn(at(5)), gone = pair.mirror.spawn();
    pair.mirror.destroy(gone);
    const ComponentIndex position = holding.index<Position>(), health = holding.index<Health>();
    Receiver::Value value, none;
    pair.receiver.capture(replica, position, value);
    pair.receiver.capture(replica, health, none);
    ASSERT_TRUE(value.is_present && !none.is_present);
    pair.mirror.set(own, Health{4});
    for (const ecs::Entity entity : {own, gone, ecs::Entity{}}) {
        EXPECT_FALSE(pair.receiver.hold(entity, position));
        EXPECT_FALSE(pair.receiver.release(entity, position));
        EXPECT_FALSE(pair.receiver.show(entity, position, value));
        EXPECT_FALSE(pair.receiver.show(entity, health, none));
    }
    EXPECT_EQ(pair.mirror.get<Position>(own).x, 5);
    EXPECT_EQ(pair.mirror.get<Health>(own).points, 4);
    pair.mirror.set(replica, at(9));
    pair.mirror.set(replica, Health{3});
    EXPECT_TRUE(pair.receiver.show(replica, position, value));
    EXPECT_TRUE(pair.receiver.show(replica, health, none));
    EXPECT_EQ(pair.mirror.get<Position>(replica).x, 1);
    EXPECT_FALSE(pair.mirror.has<Health>(replica));
    pair.mirror.destroy(replica);
    EXPECT_FALSE(pair.receiver.hold(replica, position));
    EXPECT_FALSE(pair.receiver.show(replica, position, value));
}

TEST(HeldComponents, AreNotThoseOfAReplicaThatApplyIsCreating) {
    Holding holding;
    Pair& pair = holding.pair;
    int calls = 0;
    const ecs::Hook hook =
        pair.mirror.on(ecs::HookKind::add, pair.mirror.component<Position>(),
                       [&](ecs::World&, std::span<const ecs::Entity> entities, const void*) {
                           calls += 1;
                           EXPECT_FALSE(pair.receiver.hold(entities[0], holding.index<Position>()));
                       });
    const auto [cat, replica] = holding.add(at(1), Health{10});
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(pair.mirror.get<Health>(replica).points, 10);
    pair.world.set(cat, at(2));
    pair.exchange();
    EXPECT_EQ(pair.mirror.get<Position>(replica).x, 2) << "not held";
}

TEST(HeldComponents, DoNotPassToAnotherEntityOfTheReplica) {
    Holding holding;
    Pair& pair = holding.pair;
    const ecs::Entity door = pair.world.spawn(at(1), StableKey{7}, Replicated{});
    pair.exchange();
    ASSERT_TRUE(pair.receiver.hold(pair.replica(door), holding.index<Position>()));
    const ecs::Entity loaded = pair.mirror.spawn(at(50), StableKey{7});
    pair.exchange();
    ASSERT_EQ(pair.replica(door), loaded) << "the game's entity takes the place of the first one";
    pair.world.set(door, at(2));
    pair.exchange();
    EXPECT_EQ(pair.mirror.get<Position>(loaded).x, 2);
}

TEST(HeldComponents, PairsDoNotFollowTheKeyOfTheirTarget) {
    Holding holding;
    Pair& pair = holding.pair;
    const ecs::Entity cat = pair.spawn(at(1)), lamp = pair.world.spawn(StableKey{6});
    const ecs::Entity first = pair.mirror.spawn(StableKey{6}), second = pair.mirror.spawn();
    pair.world.add(cat, ecs::to<Knows>(lamp));
    pair.world.set(cat, ecs::to<Hunts>(lamp), Hunts{2});
    pair.exchange();
    const ecs::Entity replica = pair.replica(cat);
    ASSERT_TRUE(pair.receiver.hold(replica, holding.index<Knows>()));
    pair.mirror.remove<StableKey>(first);
    pair.mirror.set(second, StableKey{6});
    pair.receiver.apply();
    EXPECT_EQ(pair.mirror.target<Hunts>(replica), second);
    EXPECT_TRUE(pair.mirror.has(replica, ecs::to<Knows>(first))) << "held";
    EXPECT_FALSE(pair.mirror.has(replica, ecs::to<Knows>(second)));
    EXPECT_TRUE(pair.receiver.release(replica, holding.index<Knows>()));
    EXPECT_FALSE(pair.mirror.has(replica, ecs::to<Knows>(first)));
    EXPECT_TRUE(pair.mirror.has(replica, ecs::to<Knows>(second)));
}

// Goal: whatever the client does to held components and the server to its own, after the last release the
// replica is the server's entity again.
TEST(HeldComponents, ReleasedOnesAreTheServersWhateverHappenedBefore) {
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        Holding holding;
        Pair& pair = holding.pair;
        std::vector<ecs::Entity> cats;
        for (int i = 0; i < 4; ++i) cats.push_back(pair.spawn(at(static_cast<float>(i))));
        const auto any = [&] { return cats[random() % cats.size()]; };
        const auto scramble = [&](ecs::World& world, ecs::Entity cat, ecs::Entity other) {
            switch (random() % 9) {
                case 0:
                    return static_cast<void>(world.set(cat, at(static_cast<float>(random() % 100))));
                case 1:
                    return static_cast<void>(
                        world.set(cat, Health{static_cast<std::int32_t>(random() % 100)}));
                case 2:
                    return static_cast<void>(world.remove<Health>(cat));
                case 3:
                    return static_cast<void>(world.set(cat, Name{std::string(random() % 9, 'x')}));
                case 4:
                    return static_cast<void>(world.remove<Name>(cat));
                case 5:
                    if (world.has<Wolf>(cat)) return static_cast<void>(world.remove<Wolf>(cat));
                    return static_cast<void>(world.add<Wolf>(cat));
                case 6:
                    return static_cast<void>(world.set(cat, ecs::to<Hunts>(other),
                                                       Hunts{static_cast<std::int32_t>(random() % 9)}));
                case 7:
                    return static_cast<void>(world.remove(cat, ecs::to<Hunts>(world.target<Hunts>(cat))));
                default:
                    if (world.has(cat, ecs::to<Knows>(other)))
                        return static_cast<void>(world.remove(cat, ecs::to<Knows>(other)));
                    return static_cast<void>(world.add(cat, ecs::to<Knows>(other)));
            }
        };
        pair.exchange();
        const auto count = static_cast<std::uint32_t>(pair.schema.components().size());
        for (const ecs::Entity cat : cats)
            for (std::uint32_t i = 0; i < count; ++i)
                pair.receiver.hold(pair.replica(cat), static_cast<ComponentIndex>(i));
        for (int step = 0; step < 60; ++step) {
            scramble(pair.world, any(), any());
            scramble(pair.mirror, pair.replica(any()), pair.replica(any()));
            if (random() % 3 == 0) pair.exchange();
            if (random() % 8 == 0) {
                const ecs::Entity replica = pair.replica(any());
                const auto component = static_cast<ComponentIndex>(random() % count);
                pair.receiver.release(replica, component);
                pair.receiver.hold(replica, component);
            }
        }
        pair.exchange();
        for (const ecs::Entity cat : cats)
            for (std::uint32_t i = 0; i < count; ++i)
                pair.receiver.release(pair.replica(cat), static_cast<ComponentIndex>(i));
        EXPECT_TRUE(pair.worlds_are_equal());
        EXPECT_TRUE(pair.receiver.is_consistent());
    }
}

}  // namespace
}  // namespace shoal::replication::impl::held_components_test
