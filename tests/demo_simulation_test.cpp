#include "demo/simulation.h"

#include <gtest/gtest.h>

#include "replication/sender.h"
#include "replication/world_hash.h"

namespace shoal::demo {
namespace {

struct Life {
    ecs::World world;
    replication::Schema schema = arena_schema();
    Simulation simulation;
    replication::Sender sender{world, schema};
    replication::WorldHash hash{world, schema};
    replication::Tick tick = 0;

    Life(std::uint32_t creatures, std::uint64_t seed) : simulation(world, creatures, seed) {}

    replication::WorldHash::Sum step() {
        simulation.step(1 / 30.0f);
        sender.update(++tick);
        return hash.of_server(sender.shadow());
    }
};

TEST(Simulation, SameSeedSameLife) {
    Life a(100, 1), b(100, 1), c(100, 2);
    for (int i = 0; i < 300; ++i) {
        const auto sum = a.step();
        ASSERT_EQ(sum.hash, b.step().hash);
        ASSERT_NE(sum.hash, c.step().hash);
    }
}

TEST(Simulation, CreaturesAreBornAndDieInsideTheArena) {
    Life life(200, 3);
    EXPECT_EQ(life.step().entities, 201u);  // and the clock
    std::uint32_t deaths = 0;
    const ecs::Hook hook = life.world.on_destroy([&](ecs::World&, ecs::Entity) { deaths += 1; });
    const ecs::Entity player = life.simulation.spawn_player("Nemo");
    life.simulation.steer(player, Direction::right);
    for (int i = 0; i < 3000; ++i) {
        const std::uint32_t entities = life.step().entities;
        ASSERT_GT(entities, 120u);
        ASSERT_LE(entities, 202u);
    }
    EXPECT_GT(deaths, 10u);
    ecs::Query<const Position>(life.world).each([](const Position& at) {
        EXPECT_TRUE(at.x >= 0 && at.x <= kArenaWidth && at.y >= 0 && at.y <= kArenaHeight);
    });
}

TEST(Simulation, AnyNumberOfCreaturesWillDo) {
    for (const std::uint32_t creatures : {0u, 1u, 2u, 15u, 16u, 17u}) {
        Life life(creatures, 5);
        EXPECT_EQ(life.step().entities, creatures + 1);
        for (int i = 0; i < 100; ++i) life.step();
    }
}

TEST(Simulation, PlayersSwimWhereTheySteer) {
    Life life(0, 4);
    const ecs::Entity player = life.simulation.spawn_player("Nemo");
    life.simulation.steer(player, Direction::up);
    for (int i = 0; i < 300; ++i) life.step();
    EXPECT_EQ(life.world.get<Position>(player).y, 0);
    life.simulation.steer(player, Direction::none);
    const Position before = life.world.get<Position>(player);
    life.step();
    EXPECT_EQ(life.world.get<Position>(player).x, before.x);
}

}  // namespace
}  // namespace shoal::demo
