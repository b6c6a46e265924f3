#include "demo/simulation.h"
#include "demo/moves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "replication/send/sender.h"
#include "replication/world_hash.h"

namespace shoal::demo {
namespace {

struct NoReferences final : replication::impl::EntityMap {
    std::uint32_t to_net(ecs::Entity) override { return 0; }
    ecs::Entity to_entity(std::uint32_t) override { return {}; }
};

struct Life {
    ecs::World world;
    replication::Schema schema = arena_schema();
    Simulation simulation;
    replication::Sender sender{world, schema};
    replication::WorldHash hash{world, schema};
    replication::Tick tick = 0;
    replication::impl::StepQueries queries{world};
    NoReferences map;

    Life(std::uint32_t creatures, std::uint64_t seed) : simulation(world, creatures, seed) {}

    replication::WorldHash::Sum step() {
        simulation.step(1 / 30.0f);
        step_moves({tick, 1 / 30.0f, true, {queries, map, 0, false}});
        sender.update(++tick);
        return hash.of_server(sender.shadow());
    }
    void kill_pikes() { ecs::Query<ecs::With<Pike>>(world).destroy_all(); }
    std::vector<ecs::Entity> escorts(ecs::Entity leader) {
        std::vector<ecs::Entity> out;
        for (const ecs::Entity escort : world.sources(ecs::to<Follows>(leader))) out.push_back(escort);
        return out;
    }
};

TEST(Simulation, SameSeedGivesTheSameWorlds) {
    Life a(100, 1), b(100, 1), c(100, 2);
    for (int i = 0; i < 300; ++i) {
        const auto sum = a.step();
        ASSERT_EQ(sum.hash, b.step().hash);
        ASSERT_NE(sum.hash, c.step().hash);
    }
}

TEST(Simulation, CreaturesAreBornAndDieInsideTheArena) {
    Life life(200, 3);
    EXPECT_EQ(life.step().entities, 201u + kReefs);  // with the clock
    std::uint32_t deaths = 0;
    const ecs::Hook hook = life.world.on_destroy([&](ecs::World&, ecs::Entity) { deaths += 1; });
    const ecs::Entity player = life.simulation.spawn_player("Nemo");
    life.world.set(player, Steer{Direction::right});
    for (int i = 0; i < 3000; ++i) {
        const std::uint32_t entities = life.step().entities;
        ASSERT_GT(entities, 120u + kReefs);
        ASSERT_LE(entities, 202u + kReefs);
    }
    EXPECT_GT(deaths, 10u);
    ecs::Query<const Position>(life.world).each([](const Position& at) {
        EXPECT_TRUE(at.x >= 0 && at.x <= kArenaWidth && at.y >= 0 && at.y <= kArenaHeight);
    });
}

TEST(Simulation, WorksWithAnyNumberOfCreatures) {
    for (const std::uint32_t creatures : {0u, 1u, 2u, 15u, 16u, 17u}) {
        Life life(creatures, 5);
        EXPECT_EQ(life.step().entities, creatures + 1 + kReefs);
        for (int i = 0; i < 100; ++i) life.step();
    }
}

TEST(Simulation, PlayersSwimWhereTheySteer) {
    Life life(0, 4);
    const ecs::Entity player = life.simulation.spawn_player("Nemo");
    life.world.set(player, Steer{Direction::up});
    for (int i = 0; i < 300; ++i) life.step();
    EXPECT_EQ(life.world.get<Position>(player).y, 0);
    life.world.set(player, Steer{});
    const Position before = life.world.get<Position>(player);
    life.step();
    EXPECT_EQ(life.world.get<Position>(player).x, before.x);
}

TEST(Simulation, BubblesHitAndCount) {
    Life life(0, 4);
    const ecs::Entity shooter = life.simulation.spawn_player("Nemo");
    const Position at = life.world.get<Position>(shooter);
    const float way = at.x > 80 ? -1 : 1;
    const ecs::Entity pike = life.world.spawn(Position{at.x + way * 20, at.y}, Velocity{}, Health{30},
                                              Name{"P"}, Pike{}, replication::Replicated{});
    const ecs::Entity bubble =
        life.world.spawn(at, Bubble{way < 0 ? Direction::left : Direction::right}, Flight{shooter});
    for (int i = 0; i < 30 && life.world.is_alive(bubble); ++i) life.step();
    EXPECT_FALSE(life.world.is_alive(pike));
    EXPECT_FALSE(life.world.is_alive(bubble));
    EXPECT_EQ(life.world.get<Score>(shooter).points, 5);
}

TEST(Simulation, BubblesHitWhatTheirShooterSees) {
    Life life(0, 4);
    const ecs::Entity shooter = life.simulation.spawn_player("Nemo");
    const ecs::Entity real = life.world.spawn(Position{80, 40}, Velocity{}, Health{100}, Name{"P"}, Pike{});
    const ecs::Entity seen = life.world.spawn(Position{20, 20}, Velocity{}, Health{100}, Name{"Q"}, Pike{});
    const ecs::Entity bubble = life.world.spawn(Position{80, 40}, Bubble{}, Flight{shooter});
    life.simulation.set_seen_by([&](ecs::Entity shot) {
        EXPECT_EQ(shot, bubble);
        return [&](ecs::Entity entity) {
            return entity == seen ? std::optional<Position>({81, 40}) : std::nullopt;
        };
    });
    life.step();
    EXPECT_FALSE(life.world.is_alive(bubble));
    EXPECT_GT(life.world.get<Health>(real).percent, 90);
    EXPECT_LT(life.world.get<Health>(seen).percent, 70);
}

TEST(Simulation, MinnowsSwimToBaitAndEatIt) {
    const auto ticks_until_gone = [](int minnows) {
        Life life(0, 4);
        const ecs::Entity bait = life.world.spawn(Position{80, 40}, Bait{}, Flight{{}, 10});
        std::vector<ecs::Entity> school;
        for (int i = 0; i < minnows; ++i)
            school.push_back(life.world.spawn(Position{60, 40}, Velocity{}, Health{}, Name{"m"}, Minnow{}));
        int ticks = 0;
        for (; life.world.is_alive(bait) && ticks < 1000; ++ticks) {
            life.step();
            if (ticks != 150) continue;
            for (const ecs::Entity minnow : school) EXPECT_NEAR(life.world.get<Position>(minnow).x, 80, 3);
        }
        return ticks;
    };
    EXPECT_NEAR(ticks_until_gone(0), 300, 1);
    EXPECT_LT(ticks_until_gone(1), 280);
}

/// The leader that the simulation must choose, found by a search of all entities.
ecs::Entity nearest_leader(ecs::World& world, ecs::Entity pilot) {
    std::map<float, ecs::Entity> by_distance;
    const Position from = world.get<Position>(pilot);
    ecs::Query<const Position>(world).each([&](ecs::Entity entity, const Position& at) {
        if (world.has<Pike>(entity) || world.has<Player>(entity))
            by_distance[std::hypot(at.x - from.x, at.y - from.y)] = entity;
    });
    return by_distance.begin()->second;
}

TEST(Simulation, PilotsOfADeadLeaderFollowTheNearestOneInTheNextStep) {
    Life life(200, 6);
    life.step();
    std::set<ecs::Entity> leaders;
    ecs::Query<ecs::Pair<Follows>>(life.world).each([&](const ecs::Targets<Follows>& targets) {
        leaders.insert(targets[0]);
    });
    ASSERT_GT(leaders.size(), 3u);
    leaders.erase(leaders.begin());  // one leader stays alive
    for (const ecs::Entity leader : leaders) {
        const std::vector<ecs::Entity> escorts = life.escorts(leader);
        ASSERT_FALSE(escorts.empty());
        life.world.destroy(leader);
        std::map<ecs::Entity, ecs::Entity> expected;
        for (const ecs::Entity escort : escorts) expected[escort] = nearest_leader(life.world, escort);
        life.step();
        for (const ecs::Entity escort : escorts)
            EXPECT_EQ(life.world.target<Follows>(escort), expected[escort]);
    }
}

TEST(Simulation, PilotsWaitUntilThereIsALeader) {
    Life life(200, 6);
    life.step();
    life.kill_pikes();
    ecs::Query<const Position, ecs::With<Pilot>> pilots(life.world);
    ecs::Query<ecs::With<Pilot>, ecs::Without<Follows>> astray(life.world);
    for (int i = 0; i < 100; ++i, life.kill_pikes()) {
        life.step();
        ASSERT_EQ(astray.count(), 24u);  // all of them
    }
    const ecs::Entity player = life.simulation.spawn_player("Nemo");
    life.step();
    EXPECT_EQ(life.escorts(player).size(), 24u);
    for (int i = 0; i < 600; ++i, life.kill_pikes()) life.step();
    const Position leader = life.world.get<Position>(player);
    pilots.each([&](const Position& at) { EXPECT_LT(std::hypot(at.x - leader.x, at.y - leader.y), 6); });
}

TEST(Simulation, MinnowsGrazeAtReefs) {
    Life life(0, 6);
    ecs::Query<ecs::Mut<Reef>> reefs(life.world);
    ASSERT_EQ(reefs.count(), kReefs);
    reefs.each([](ecs::Mut<Reef> reef) { reef->food = 60; });
    ecs::Entity grazed;
    ecs::Query<const Position, ecs::With<Reef>>(life.world).each([&](ecs::Entity reef, const Position&) {
        if (!grazed) grazed = reef;
    });
    const Position at = life.world.get<Position>(grazed);
    for (int i = 0; i < 40; ++i) life.world.spawn(at, Velocity{}, Health{}, Name{"m"}, Minnow{});
    life.step();
    reefs.each([&](ecs::Entity reef, ecs::Mut<Reef> now) {
        EXPECT_EQ(now.read().food < 60, reef == grazed);
        EXPECT_EQ(now.read().food > 60, reef != grazed);
    });
}

// The client has the reefs before it gets anything from the server.
TEST(Simulation, ReefsAreNotSpawnedTwice) {
    Life life(10, 6);
    ecs::World mirror;
    replication::Receiver receiver(mirror, life.schema);
    const std::vector<ecs::Entity> reefs = load_reefs(mirror);
    const replication::Sender::Peer peer = life.sender.add_peer();
    for (std::uint64_t number = 1; number < 60; ++number) {
        const auto sum = life.step();
        std::byte room[1200];
        const auto payload = life.sender.encode(peer, number, sizeof room, room);
        ASSERT_EQ(receiver.receive(number, payload), replication::Receiver::Verdict::accepted);
        life.sender.on_fate(peer, number, true);
        receiver.apply();
        ASSERT_EQ(mirror.size(), sum.entities);
    }
    for (const ecs::Entity reef : reefs) EXPECT_TRUE(mirror.has<replication::Replica>(reef));
    EXPECT_EQ(ecs::Query<ecs::With<Reef>>(mirror).count(), kReefs);
}

TEST(Simulation, ClockAdvancesWithEachStep) {
    Life life(20, 6);
    EXPECT_EQ(life.world.singleton<Clock>().elapsed_s, 0);
    for (int i = 1; i <= 90; ++i) {
        life.step();
        ASSERT_NEAR(life.world.singleton<Clock>().elapsed_s, i / 30.0, 1e-5);
    }
}

}  // namespace
}  // namespace shoal::demo
