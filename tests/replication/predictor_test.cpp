#include "replication/predict/predictor.h"

#include <gtest/gtest.h>

#include "tests/sim/play_session.h"

namespace shoal::replication::predictor_test {
namespace {

using namespace std::chrono_literals;

/// A player who steers to the right, for two seconds.
struct Steering {
    Steering() {
        player.on_frame = [this](sim::PlaySession::Player& self) { self.client.input(helm); };
        session.run(2s);
        EXPECT_TRUE(player.client.is_predicting());
    }
    static net::LinkConfig path() {
        net::LinkConfig link;
        link.latency = 30ms;
        return link;
    }

    sim::Helm helm{1, 0, {}};
    sim::PlaySession session{sim::play_schema(), path(), 1};
    sim::PlaySession::Player& player = *session.players[0];
};

TEST(Predictor, ChangeHooksOfTheInputRunWhenThePlayerDoesSomethingElse) {
    Steering steering;
    int calls = 0;
    const ecs::Hook hook = steering.player.world.on_change<sim::Helm>(
        [&](ecs::World&, ecs::Entity, const sim::Helm&) { ++calls; });
    steering.session.run(500ms);
    EXPECT_EQ(calls, 0);
    steering.helm.x = -1;
    steering.session.run(500ms);
    EXPECT_GT(calls, 0);
}

// Goal: the ticks that the client did not compute are not compared with the server's.
TEST(Predictor, AfterAPauseThePredictionBeginsWithTheServersState) {
    for (const net::Duration pause : {1000ms, 3000ms}) {
        SCOPED_TRACE(testing::Message() << pause.count() << " us");
        Steering steering;
        const PredictionStats before = steering.player.client.prediction_stats();
        steering.player.next_frame += pause;
        steering.session.run(pause + 1s);
        const PredictionStats& after = steering.player.client.prediction_stats();
        EXPECT_EQ(after.mispredictions, before.mispredictions);
        EXPECT_GT(after.checks, before.checks + 40);
    }
}

TEST(Predictor, EachEntityOfTheGroupIsComparedWithItsOwnState) {
    Steering steering;
    sim::PlaySession& session = steering.session;
    const ecs::Entity second =
        session.world.spawn(sim::Spot{-20, 7}, sim::Speed{}, sim::Dashes{3}, sim::Helm{}, Replicated{});
    session.server.give(session.server.owner(session.ship(steering.player)), second);
    session.run(500ms);
    ASSERT_EQ(steering.player.client.mine().size(), 2u);
    const PredictionStats before = steering.player.client.prediction_stats();
    session.run(1s);
    const PredictionStats& after = steering.player.client.prediction_stats();
    EXPECT_GT(after.checks, before.checks + 40);
    EXPECT_EQ(after.mispredictions, before.mispredictions);
    session.world.set(second, sim::Dashes{50});  // what no step does
    session.run(500ms);
    EXPECT_EQ(after.mispredictions, before.mispredictions + 1);
}

TEST(Predictor, CountsPressesThatFindNoRoom) {
    Steering steering;
    steering.player.on_frame = nullptr;
    for (int i = 0; i < 40; ++i) steering.player.client.input(sim::Helm{1, 0, true});
    EXPECT_EQ(steering.player.client.prediction_stats().dropped_presses, 8u);
    steering.session.run(1s);
    steering.player.client.input(sim::Helm{1, 0, true});
    EXPECT_EQ(steering.player.client.prediction_stats().dropped_presses, 8u);
}

}  // namespace
}  // namespace shoal::replication::predictor_test
