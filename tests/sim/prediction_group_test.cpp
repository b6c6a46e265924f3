// Entities that a player predicts as one: its own, and those that it may predict.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "ecs/query.h"
#include "tests/sim/play_session.h"
#include "tests/sim/seeds.h"

namespace shoal::sim::prediction_group_test {
namespace {

using namespace std::chrono_literals;
using replication::Step;
using Player = PlaySession::Player;

/// A ball is pushed by the ships that touch it.
void play_ball(const Step& step) {
    sail(step);
    // It comes to rest, although speeds are rounded.
    const auto slower = [](float speed) { return std::abs(speed) < 2 ? 0 : speed * 0.95f; };
    step.each<Speed, ecs::Without<Helm>>([&](Speed& speed) { speed = {slower(speed.x), slower(speed.y)}; });
    std::vector<std::pair<Spot, Speed>> ships;
    step.each<const Spot, const Speed, ecs::With<Helm>>(
        [&](const Spot& spot, const Speed& speed) { ships.emplace_back(spot, speed); });
    step.each<const Spot, ecs::Mut<Speed>, ecs::Without<Helm>>([&](const Spot& ball, ecs::Mut<Speed> speed) {
        for (const auto& [ship, push] : ships)
            if (std::hypot(ship.x - ball.x, ship.y - ball.y) < 3) *speed = {push.x * 1.5f, push.y * 1.5f};
    });
}

// Goal: a player that may predict a ball pushes it without any delay and without mispredictions, while nobody
// else does. Method: the player follows the ball; then another player pushes it, too; then the permission
// ends.
TEST(Prediction, APlayerPredictsABallThatItPushes) {
    PlaySession session(play_schema(), steady(50ms), 2);
    Player &player = *session.players[0], &other = *session.players[1];
    session.server.on_step(play_ball);
    for (const auto& one : session.players) {
        one->client.on_step(play_ball);
        one->on_frame = [](Player& of) { of.client.input(Helm{}); };
    }
    session.run(3s);
    session.world.set(session.ship(other), Spot{-45, -45});
    const ecs::Entity ball = session.world.spawn(Spot{5, 0}, Speed{}, replication::Replicated{});
    const net::PeerId id = session.server.owner(session.ship(player));
    ASSERT_TRUE(session.server.predict(id, ball));
    session.run(1s);
    const auto ball_of = [&](const Player& of) {
        return of.client.receiver().entity(session.server.sender().net_id(ball));
    };
    const auto follow = [&](Player& of) {
        const Spot at = of.world.get<Spot>(ball_of(of)), ship = of.world.get<Spot>(session.replica(of));
        const auto towards = [](float distance) {
            return static_cast<std::int8_t>(distance > 1 ? 1 : distance < -1 ? -1 : 0);
        };
        of.client.input(Helm{towards(at.x - ship.x), towards(at.y - ship.y), false});
    };
    player.on_frame = follow;
    float travelled = 0, ahead = 0;
    for (int i = 0; i < 600; ++i) {
        const Spot before = session.world.get<Spot>(ball);
        session.run(16'667us);
        const Spot now = session.world.get<Spot>(ball), there = player.world.get<Spot>(ball_of(player));
        travelled += std::hypot(now.x - before.x, now.y - before.y);
        ahead += std::hypot(there.x - now.x, there.y - now.y);
    }
    EXPECT_GT(travelled, 30) << "the ball was pushed";
    EXPECT_GT(ahead, 60) << "the client was ahead of the server";
    EXPECT_EQ(player.client.prediction_stats().mispredictions, 0u);
    EXPECT_GT(player.client.prediction_stats().checks, 400u);
    EXPECT_FALSE(other.world.has<replication::Predicted>(ball_of(other)));
    EXPECT_FALSE(other.world.has<replication::ToPredict>(ball_of(other)));
    EXPECT_EQ(player.client.mine().size(), 1u) << "the ball is not the player's";

    session.world.set(session.ship(other), Spot{session.world.get<Spot>(ball).x - 5, 0});
    other.on_frame = follow;
    session.run(10s);
    EXPECT_GT(player.client.prediction_stats().mispredictions, 0u);
    for (const auto& one : session.players) one->on_frame = [](Player& of) { of.client.input(Helm{}); };
    session.run(4s);
    const auto difference = [&](const Player& of) {
        const Spot here = session.world.get<Spot>(ball), there = of.world.get<Spot>(ball_of(of));
        return std::hypot(here.x - there.x, here.y - there.y);
    };
    EXPECT_LT(difference(player), 0.011f);
    EXPECT_LT(difference(other), 0.011f);

    ASSERT_TRUE(session.server.predict(id, ball, false));
    session.run(1s);
    EXPECT_FALSE(player.world.has<replication::Predicted>(ball_of(player)));
    EXPECT_FALSE(session.world.has<replication::ToPredict>(ball));
    EXPECT_TRUE(player.client.is_predicting());
    session.world.set(ball, Spot{1, 2});
    session.run(1s);
    EXPECT_LT(difference(player), 0.011f);
}

// Goal: no tick of the client has a ball that joined or left its group, but not the rest of the record.
// Method: the right to predict comes and goes over a bad network, with changes of both ball and ship.
TEST(Prediction, ABallJoinsAndLeavesTheGroupAtOnce) {
    for (const std::uint64_t seed : kind_seeds(3)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        PlaySession session(play_schema(), far_away(), 2, seed);
        session.server.on_step(play_ball);
        for (std::size_t i = 0; i < 2; ++i) {
            session.players[i]->client.on_step(play_ball);
            session.players[i]->on_frame = PlaySession::wander(seed * 10 + i);
        }
        session.run(4s);
        std::mt19937 random(static_cast<std::uint32_t>(seed));
        std::vector<ecs::Entity> balls;
        for (int i = 0; i < 4; ++i)
            balls.push_back(session.world.spawn(Spot{}, Speed{}, replication::Replicated{}));
        for (int i = 0; i < 60; ++i) {
            const Player& player = *session.players[random() % 2];
            ecs::Entity& ball = balls[random() % 4];
            if (random() % 10 == 0) {
                session.world.destroy(ball);
                ball = session.world.spawn(Spot{}, Speed{}, replication::Replicated{});
            }
            session.server.predict(session.server.owner(session.ship(player)), ball, random() % 2 == 0);
            session.run(std::chrono::milliseconds(random() % 500));
            for (const auto& one : session.players)
                ecs::Query<const Spot, ecs::With<replication::Predicted>>(one->world)
                    .each([&](ecs::Entity entity, const Spot&) {
                        EXPECT_TRUE(one->world.has<replication::ToPredict>(entity) ||
                                    one->world.has<replication::Mine>(entity));
                    });
        }
        ASSERT_TRUE(session.server.sender().is_consistent());
        for (const auto& one : session.players) one->on_frame = [](Player& of) { of.client.input(Helm{}); };
        session.run(5s);
        for (const auto& one : session.players) {
            EXPECT_TRUE(session.agrees(*one));
            for (const ecs::Entity ball : balls) {
                const ecs::Entity there = one->client.receiver().entity(session.server.sender().net_id(ball));
                ASSERT_TRUE(one->world.is_alive(there));
                const Spot a = session.world.get<Spot>(ball), b = one->world.get<Spot>(there);
                EXPECT_LT(std::hypot(a.x - b.x, a.y - b.y), 0.016f);
                EXPECT_EQ(one->world.has<replication::Predicted>(there),
                          session.server.sender().is_predictor(
                              *session.server.sender().owner(session.ship(*one)), ball));
            }
        }
    }
}

// Goal: nothing is restored from a tick of which the client has only a part. Method: the player's second ship
// follows the first; a state that mixes ticks would look wrong.
TEST(Prediction, Trap10HalfOfAGroupIsNotCompared) {
    PlaySession session(play_schema(), steady(60ms), 1, 3, 8'000);
    std::vector<ecs::Entity> others;  // so many that never all of the world is complete
    const auto step = [](const Step& of) {
        sail(of);
        Spot first;
        of.each<const Spot, const Helm>([&](const Spot& spot, const Helm&) { first = spot; });
        of.each<Spot, ecs::Without<Helm>>([&](Spot& spot) {
            spot.x += (first.x - spot.x) * 0.2f;
            spot.y += (first.y - spot.y) * 0.2f;
        });
    };
    session.server.on_step([&](const Step& of) {
        step(of);
        for (const ecs::Entity other : others)
            session.world.patch<Speed>(
                other, [&](Speed& speed) { speed.x = static_cast<float>(of.tick % 100) / 2; });
    });
    session.players[0]->client.on_step(step);
    session.players[0]->on_frame = PlaySession::wander(3);
    session.run(10s);
    session.server.give(session.server.owner(session.ship(*session.players[0])),
                        session.world.spawn(Spot{}, replication::Replicated{}));
    session.run(2s);
    for (int i = 0; i < 600; ++i) others.push_back(session.world.spawn(Speed{}, replication::Replicated{}));
    net::LinkConfig link = steady(60ms);
    link.loss = 0.3;
    session.set_downlink(link);
    session.run(60s);
    EXPECT_EQ(session.players[0]->client.mine().size(), 2u);
    const replication::PredictionStats& stats = session.players[0]->client.prediction_stats();
    EXPECT_GT(stats.checks, 100u);
    EXPECT_LE(stats.mispredictions, 2 * missed(session.input_stats(*session.players[0])));
}

}  // namespace
}  // namespace shoal::sim::prediction_group_test
