#include <gtest/gtest.h>

#include "tests/replication/support/rowing.h"

namespace shoal::replication::impl::pending_prediction_test {
namespace {

using namespace std::chrono_literals;
using rowing::Oar;
using rowing::Rowing;
using rowing::Spot;
using rowing::Sum;

/// A boat that the client spawns ahead of the server, which spawns it `answer` ticks later with the values
/// that the client had.
struct Launch : Rowing {
    void launch(int answer, bool is_own = true) {
        spawn_own();
        run(40);
        born = theirs.spawn(Spot{50}, Sum{}, Oar{1});
        receiver.replicas().expect(kFirstPending + 1, born, predictor.add_pending(born));
        run(answer);
        on_tick = [this, is_own, x = theirs.get<Spot>(born).x] {
            boat = is_own ? spawn_own() : spawn_other();
            world.set(boat, Spot{x});
            sender->set_pending_id(peer, sender->assign_net_id(boat), 1);
        };
        run();
        on_tick = nullptr;
    }
    ecs::Entity born, boat;
};

TEST(PendingPrediction, APendingEntityIsPredictedFromItsBirthOn) {
    Launch launch;
    launch.launch(5);
    EXPECT_TRUE(launch.theirs.has<Predicted>(launch.born));
    EXPECT_NEAR(launch.theirs.get<Spot>(launch.born).x, 50 + 6 * 0.016f, 1e-3);
    float last = launch.theirs.get<Spot>(launch.born).x;
    for (int i = 0; i < 20; ++i) {
        launch.run();
        EXPECT_TRUE(launch.theirs.has<Predicted>(launch.born));
        EXPECT_GT(launch.theirs.get<Spot>(launch.born).x, last) << i;
        last = launch.theirs.get<Spot>(launch.born).x;
        Spot spot;
        EXPECT_EQ(launch.predictor.show(launch.born, &type_address<Spot>, &spot),
                  launch.receiver.net_id(launch.born) != 0);
    }
    ASSERT_EQ(launch.replica(launch.boat), launch.born);
    EXPECT_GT(launch.theirs.get<Spot>(launch.born).x, launch.world.get<Spot>(launch.boat).x);
    const std::uint64_t mispredictions = launch.stats().mispredictions;
    launch.run(20);
    EXPECT_EQ(launch.stats().mispredictions, mispredictions);
}

TEST(PendingPrediction, TicksThatAreComputedAgainLeaveAPendingEntityAsItIs) {
    Launch launch;
    const ecs::Entity boat = launch.spawn_own();
    launch.run(40);
    const ecs::Entity born = launch.theirs.spawn(Spot{50}, Sum{}, Oar{1});
    launch.predictor.add_pending(born);
    const PredictionStats before = launch.stats();
    for (int i = 1; i <= 10; ++i) {
        launch.on_tick = [&] { launch.world.set(boat, Spot{static_cast<float>(10 * i)}); };
        launch.run();
        EXPECT_NEAR(launch.theirs.get<Spot>(born).x, 50 + static_cast<float>(i) * 0.016f, 1e-3);
        EXPECT_TRUE(launch.theirs.has<Predicted>(born));
    }
    EXPECT_GT(launch.stats().resimulated, before.resimulated + 30);
}

TEST(PendingPrediction, APendingEntityThatIsNotOfTheGroupShowsTheServersValues) {
    Launch launch;
    launch.launch(5, false);
    launch.run(Rowing::kPath + 2);
    ASSERT_EQ(launch.replica(launch.boat), launch.born);
    EXPECT_FALSE(launch.theirs.has<Predicted>(launch.born));
    launch.world.set(launch.boat, Spot{-3});
    launch.run(Rowing::kPath + 1);
    EXPECT_EQ(launch.theirs.get<Spot>(launch.born).x, -3);
}

TEST(PendingPrediction, APendingEntityMayDieOrStopBeingPredicted) {
    Launch launch;
    launch.spawn_own();
    launch.run(40);
    const ecs::Entity dead = launch.theirs.spawn(Spot{}, Oar{}), born = launch.theirs.spawn(Spot{}, Oar{});
    launch.predictor.add_pending(dead);
    launch.predictor.add_pending(born);
    launch.theirs.destroy(dead);
    launch.run(3);
    EXPECT_TRUE(launch.theirs.has<Predicted>(born));
    launch.report(4, Rowing::kLead + 25);
    launch.run(2);
    ASSERT_FALSE(launch.predictor.is_predicting());
    EXPECT_FALSE(launch.theirs.has<Predicted>(born));
}

}  // namespace
}  // namespace shoal::replication::impl::pending_prediction_test
