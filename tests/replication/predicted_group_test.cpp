#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/replication/support/rowing.h"

namespace shoal::replication::impl::predicted_group_test {
namespace {

using namespace std::chrono_literals;
using rowing::Oar;
using rowing::Rowing;
using rowing::Spot;
using rowing::Sum;

TEST(PredictedGroup, StepsSeeOnlyTheEntitiesOfTheGroup) {
    Rowing rowing;
    const ecs::Entity own = rowing.spawn_own(), other = rowing.spawn_other();
    rowing.run(20);
    EXPECT_TRUE(rowing.is_predicted(own));
    EXPECT_FALSE(rowing.is_predicted(other));
    Spot spot;
    EXPECT_FALSE(rowing.predictor.show(rowing.replica(other), &type_address<Spot>, &spot));
    // Another's boat has the values of the tick that arrived.
    EXPECT_EQ(rowing.theirs.get<Sum>(rowing.replica(other)).drawn, rowing.arrived(other).drawn);
    EXPECT_NE(rowing.theirs.get<Sum>(rowing.replica(own)).drawn, rowing.arrived(own).drawn);
}

TEST(PredictedGroup, AnEntityThatTheGameTagsIsPredictedUntilTheTagIsGone) {
    Rowing rowing;
    rowing.spawn_own();
    const ecs::Entity second = rowing.spawn_other(), third = rowing.spawn_own();
    rowing.step = [](const Step& of) { of.each<Spot>([&](Spot& spot) { spot.x += of.dt; }); };
    rowing.run(20);
    EXPECT_FALSE(rowing.is_predicted(second));
    rowing.theirs.add<ToPredict>(rowing.replica(second));
    rowing.run(2);
    EXPECT_TRUE(rowing.is_predicted(second));
    rowing.run(10);
    const auto x = [&](ecs::Entity boat) { return rowing.theirs.get<Spot>(rowing.replica(boat)).x; };
    EXPECT_EQ(x(second), x(third));
    EXPECT_GT(x(second), rowing.world.get<Spot>(second).x);
    EXPECT_EQ(rowing.stats().mispredictions, 0u);
    rowing.theirs.remove<ToPredict>(rowing.replica(second));
    rowing.run();
    EXPECT_FALSE(rowing.is_predicted(second));
    EXPECT_EQ(x(second), rowing.arrived(second).x);
    rowing.run(5);
    EXPECT_EQ(x(second), rowing.arrived(second).x);
    EXPECT_TRUE(rowing.is_predicted(third));
}

TEST(PredictedGroup, EachEntityOfTheGroupIsShownWithItsOwnValues) {
    Rowing rowing;
    std::vector<ecs::Entity> boats;
    for (int i = 0; i < 4; ++i) {
        boats.push_back(rowing.spawn_own());
        rowing.world.set(boats.back(), Spot{static_cast<float>(1000 * i)});
    }
    rowing.run(80);
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(rowing.shown(boats[static_cast<std::size_t>(i)]), 1000 * i, 10);
    rowing.sender->set_owner(boats[0], std::nullopt);
    rowing.world.remove<Mine>(boats[0]);
    rowing.world.destroy(boats[2]);
    rowing.run(10);
    EXPECT_FALSE(rowing.is_predicted(boats[0]));
    Spot spot;
    EXPECT_FALSE(rowing.predictor.show(rowing.replica(boats[0]), &type_address<Spot>, &spot));
    EXPECT_NEAR(rowing.shown(boats[1]), 1000, 10);
    EXPECT_NEAR(rowing.shown(boats[3]), 3000, 10);
    EXPECT_EQ(rowing.stats().mispredictions, 0u);
}

TEST(PredictedGroup, WithoutAnInputOrAStepNothingIsPredicted) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.is_rowing = false;
    rowing.run(20);
    EXPECT_FALSE(rowing.predictor.tick());
    EXPECT_FALSE(rowing.predictor.is_predicting());
    EXPECT_FALSE(rowing.is_predicted(boat));
    EXPECT_TRUE(rowing.predictor.add_pending(rowing.theirs.spawn()).empty());
    rowing.is_rowing = true;
    rowing.predictor.set_on_step(nullptr);
    rowing.run(20);
    EXPECT_TRUE(rowing.predictor.tick());  // inputs are recorded and sent
    EXPECT_FALSE(rowing.predictor.is_predicting());
    EXPECT_FALSE(rowing.is_predicted(boat));
    EXPECT_EQ(rowing.world.get<Oar>(boat).x, 1);
}

TEST(PredictedGroup, WithMoreThanTheLargestLeadTheServersValuesAreInTheWorld) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.run(20);
    rowing.report(4, Rowing::kLead + 25);
    rowing.run(2);
    EXPECT_FALSE(rowing.predictor.is_predicting());
    EXPECT_FALSE(rowing.is_predicted(boat));
    EXPECT_EQ(rowing.theirs.get<Spot>(rowing.replica(boat)).x, rowing.arrived(boat).x);
    const std::uint64_t ticks = rowing.stats().ticks;
    rowing.run(5);
    EXPECT_EQ(rowing.stats().ticks - ticks, 5u);
    EXPECT_EQ(rowing.theirs.get<Spot>(rowing.replica(boat)).x, rowing.arrived(boat).x);
    rowing.report(300, Rowing::kLead - 2);
    EXPECT_TRUE(rowing.predictor.is_predicting());
    EXPECT_TRUE(rowing.is_predicted(boat));
    EXPECT_EQ(rowing.stats().mispredictions, 0u);
}

TEST(PredictedGroup, AComponentThatTheServerRemovedIsGoneAndComesBack) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.run(20);
    rowing.world.remove<Sum>(boat);
    rowing.run(10);
    EXPECT_FALSE(rowing.theirs.has<Sum>(rowing.replica(boat)));
    EXPECT_EQ(rowing.stats().mispredictions, 1u);
    rowing.world.set(boat, Sum{5});
    rowing.run(10);
    EXPECT_TRUE(rowing.theirs.has<Sum>(rowing.replica(boat)));
    EXPECT_EQ(rowing.stats().mispredictions, 2u);
}

TEST(PredictedGroup, AnEntityThatJoinsTheGroupLaterIsComparedFromThenOn) {
    Rowing rowing;
    rowing.spawn_own();
    const ecs::Entity late = rowing.spawn_other();
    rowing.run(30);
    rowing.world.add<Mine>(late);
    rowing.sender->set_owner(late, rowing.peer);
    rowing.run(2 * (Rowing::kLead + Rowing::kPath));
    EXPECT_TRUE(rowing.is_predicted(late));
    const PredictionStats before = rowing.stats();
    EXPECT_EQ(before.mispredictions, 0u);
    rowing.run(20);
    EXPECT_EQ(rowing.stats().checks - before.checks, 20u);
    EXPECT_EQ(rowing.stats().resimulated, before.resimulated);
}

TEST(PredictedGroup, AnEntityThatTheGameDestroyedIsLeftOut) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own(), other = rowing.spawn_own();
    rowing.run(30);
    rowing.theirs.destroy(rowing.replica(other));
    rowing.on_tick = [&] { rowing.world.set(boat, Spot{20}); };
    rowing.run();
    rowing.on_tick = nullptr;
    rowing.run(20);
    EXPECT_TRUE(rowing.is_predicted(boat));
    EXPECT_GT(rowing.theirs.get<Spot>(rowing.replica(boat)).x, 20);
}

TEST(PredictedGroup, TheInputIsWrittenOnlyToEntitiesThatHaveIt) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    const ecs::Entity raft = rowing.world.spawn(Spot{}, Sum{}, Replicated{}, Mine{});
    rowing.sender->set_owner(raft, rowing.peer);
    rowing.run(30);
    EXPECT_TRUE(rowing.is_predicted(raft));
    EXPECT_EQ(rowing.theirs.get<Oar>(rowing.replica(boat)).x, 1);
    EXPECT_FALSE(rowing.theirs.has<Oar>(rowing.replica(raft)));
    EXPECT_EQ(rowing.theirs.get<Spot>(rowing.replica(raft)).x, 0);
    EXPECT_EQ(rowing.stats().mispredictions, 0u);
}

TEST(PredictedGroup, AResetLeavesTheWorldWithoutPredictedEntities) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.run(30);
    const ecs::Entity born = rowing.theirs.spawn(Spot{}, Oar{});
    rowing.predictor.add_pending(born);
    ASSERT_TRUE(rowing.is_predicted(boat));
    ASSERT_TRUE(rowing.theirs.has<Predicted>(born));
    rowing.predictor.reset();
    EXPECT_FALSE(rowing.is_predicted(boat));
    EXPECT_FALSE(rowing.theirs.has<Predicted>(born));
    EXPECT_FALSE(rowing.predictor.is_predicting());
    rowing.frame();  // before the next start() nothing happens
    EXPECT_FALSE(rowing.predictor.tick());
    EXPECT_FALSE(rowing.is_predicted(boat));
}

}  // namespace
}  // namespace shoal::replication::impl::predicted_group_test
