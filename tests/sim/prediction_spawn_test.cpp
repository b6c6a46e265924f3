// Entities that a client spawns and predicts before the server has them.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <utility>

#include "ecs/query.h"
#include "replication/action/action.h"
#include "tests/sim/play_session.h"
#include "tests/sim/seeds.h"

namespace shoal::sim::prediction_spawn_test {
namespace {

using namespace std::chrono_literals;
using replication::Step;
using replication::Tick;
using Player = PlaySession::Player;

struct Shell {
    std::uint32_t number = 0;
};
struct Launch {
    std::uint32_t number = 0;
    ecs::Entity mutate(replication::Act& act) const {
        return act.spawn(act.world.get<Spot>(act.player), Speed{30, 0}, Shell{number});
    }
};

// Goal: a shell that a player launches flies at once, and goes on without a jump when it becomes the
// server's. Method: the player rests and launches shells, and is corrected meanwhile; each shell moves by its
// speed in each tick, from its first one on. An action is late if its three packets are lost: then the
// server's shell begins so many ticks later, and the client's is set back by these ticks, once.
TEST(Prediction, Trap12AShellFliesFromItsBirthOnAndDoesNotJumpWhenTheServerHasIt) {
    for (const std::uint64_t seed : kind_seeds(4)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        replication::Schema schema = play_schema();
        schema.component<Shell>("shell");
        schema.action<Launch>("launch", replication::at_most(100));
        net::LinkConfig link = steady(50ms);
        link.loss = seed % 2 == 0 ? 0.1 : 0;
        PlaySession session(schema, link, 1, seed);
        Player& player = *session.players[0];
        session.server.on_step(sail);
        session.run(4s);
        session.server.set_player(session.server.owner(session.ship(player)), session.ship(player));
        player.on_frame = [](Player& of) { of.client.input(Helm{}); };
        session.run(2s);
        ASSERT_EQ(player.client.phase(), replication::Phase::playing);
        struct Flight {
            float last = 0;
            Tick tick = 0;
            int ticks = 0;
        };
        std::map<std::uint32_t, Flight> flights;
        std::map<std::uint32_t, Tick> late;
        session.server.on_action([&](const replication::ActionReport& report) {
            EXPECT_TRUE(report.late_ticks == 0 || link.loss > 0);
            late[static_cast<const Launch*>(report.action)->number] = report.late_ticks;
        });
        std::uint32_t launched = 0;
        player.on_frame = [&](Player& of) {
            of.client.input(Helm{});
            if (of.presses++ % 20 == 0 && launched < 12) {
                const ecs::Entity shell = of.client.act(Launch{++launched});
                ASSERT_TRUE(of.world.is_alive(shell));
                flights[launched] = {of.world.get<Spot>(shell).x, *of.client.predicted_tick(), 0};
            }
        };
        ecs::Query<const Spot, const Shell> shells(player.world);
        const float step = 30 * 0.016667f;
        for (int i = 0; i < 400; ++i) {
            session.run(16ms);
            std::map<std::uint32_t, int> seen;
            const Tick tick = *player.client.predicted_tick();
            shells.each([&](const Spot& spot, const Shell& shell) {
                EXPECT_EQ(++seen[shell.number], 1) << "a duplicate";
                Flight& flight = flights[shell.number];
                if (spot.x < 49) {
                    const float back = flight.last + step * static_cast<float>(tick - flight.tick) - spot.x;
                    const Tick ticks = back > 0.2f ? std::exchange(late[shell.number], Tick{0}) : Tick{0};
                    EXPECT_NEAR(back, step * static_cast<float>(ticks), 0.2) << "shell " << shell.number;
                    flight.ticks += static_cast<int>(tick - flight.tick);
                }
                flight.last = spot.x;
                flight.tick = tick;
            });
        }
        EXPECT_EQ(launched, 12u);
        for (const auto& [number, flight] : flights) EXPECT_GT(flight.ticks, 40) << "shell " << number;
        EXPECT_EQ(player.client.action_stats().accepted, 12u);
    }
}

// Goal: a step may use random numbers for an entity that the client spawned ahead of the server. Method:
// shells move at random, by their own numbers; client and server note the places of each shell, also before
// the client knows the server's shell.
TEST(Prediction, AShellMovesAtRandomAsOnTheServerFromItsBirthOn) {
    replication::Schema schema = play_schema();
    schema.component<Shell>("shell");
    schema.action<Launch>("launch", replication::at_most(100));
    PlaySession session(schema, steady(50ms), 1);
    Player& player = *session.players[0];
    using Places = std::map<std::pair<std::uint32_t, Tick>, float>;
    Places here, there;
    const auto fly = [](Places& places) {
        return [&](const Step& step) {
            sail(step);
            step.each<Spot, const Shell>([&](Spot& spot, const Shell& shell) {
                spot.y += static_cast<float>(step.random(shell.number) % 100) * 0.01f;
                if (step.is_new) places[{shell.number, step.tick}] = spot.y;
            });
        };
    };
    session.server.on_step(fly(there));
    player.client.on_step(fly(here));
    player.on_frame = [](Player& of) { of.client.input(Helm{}); };
    session.run(4s);
    session.server.set_player(session.server.owner(session.ship(player)), session.ship(player));
    session.run(2s);
    for (std::uint32_t number = 1; number <= 5; ++number) {
        ASSERT_TRUE(player.client.act(Launch{number}));
        session.run(300ms);
    }
    session.run(500ms);
    std::size_t compared = 0;
    for (const auto& [key, y] : here) {
        const auto found = there.find(key);
        if (found == there.end()) continue;
        compared += 1;
        EXPECT_NEAR(y, found->second, 0.001) << "shell " << key.first << " at " << key.second;
    }
    EXPECT_GT(compared, 300u);
    EXPECT_EQ(player.client.prediction_stats().mispredictions, 0u);
}

}  // namespace
}  // namespace shoal::sim::prediction_spawn_test
