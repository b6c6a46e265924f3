#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "tests/replication/support/rowing.h"

namespace shoal::replication::impl::predictor_steps_test {
namespace {

using namespace std::chrono_literals;
using rowing::Oar;
using rowing::Rowing;
using rowing::Spot;
using rowing::Sum;

TEST(Predictor, HasTheServersValuesBeforeTheServer) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.run(20);
    EXPECT_EQ(*rowing.predictor.tick(), rowing.tick + Rowing::kLead);
    std::map<Tick, std::pair<float, std::uint64_t>> predicted;
    for (int i = 0; i < 60; ++i) {
        rowing.rows = static_cast<std::int8_t>(i % 7 < 3 ? 1 : -1);
        rowing.run();
        const ecs::Entity replica = rowing.replica(boat);
        predicted[*rowing.predictor.tick()] = {rowing.theirs.get<Spot>(replica).x,
                                               rowing.theirs.get<Sum>(replica).drawn};
        if (i < 10) continue;
        EXPECT_EQ(predicted[rowing.tick].first, rowing.world.get<Spot>(boat).x);
        EXPECT_EQ(predicted[rowing.tick].second, rowing.world.get<Sum>(boat).drawn);
    }
    EXPECT_EQ(rowing.stats().mispredictions, 0u);
    EXPECT_EQ(rowing.stats().last_error, 0u);
}

TEST(Predictor, ComparesEachCompleteTickOnce) {
    Rowing rowing;
    rowing.spawn_own();
    rowing.run(20);
    const PredictionStats before = rowing.stats();
    for (int i = 0; i < 40; ++i) {
        rowing.run();
        rowing.short_frame(5ms);
    }
    EXPECT_EQ(rowing.stats().checks - before.checks, 40u);
    EXPECT_EQ(rowing.stats().ticks - before.ticks, 40u);
    EXPECT_EQ(rowing.stats().resimulated, before.resimulated);
}

TEST(Predictor, ComputesAgainTheTicksAfterTheOneThatWasWrong) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.run(20);
    const PredictionStats before = rowing.stats();
    rowing.on_tick = [&] { rowing.world.set(boat, Spot{100}); };
    rowing.run();
    rowing.on_tick = nullptr;
    rowing.run(Rowing::kPath - 1);
    EXPECT_EQ(rowing.stats().mispredictions, before.mispredictions);
    EXPECT_LT(rowing.theirs.get<Spot>(rowing.replica(boat)).x, 100);
    rowing.run();
    EXPECT_EQ(rowing.stats().mispredictions, before.mispredictions + 1);
    EXPECT_EQ(rowing.stats().resimulated - before.resimulated, Rowing::kLead + Rowing::kPath - 1);
    EXPECT_GT(rowing.theirs.get<Spot>(rowing.replica(boat)).x, 100);
    rowing.run(20);
    EXPECT_EQ(rowing.stats().mispredictions, before.mispredictions + 1);
    EXPECT_EQ(rowing.stats().resimulated - before.resimulated, Rowing::kLead + Rowing::kPath - 1);
}

TEST(Predictor, AfterAResetTicksMayBeginAnywhere) {
    for (const Tick first : {Tick{10}, Tick{1040}, Tick{900'000}}) {
        SCOPED_TRACE(first);
        Rowing rowing;
        const ecs::Entity boat = rowing.spawn_own();
        rowing.run(40);
        ASSERT_TRUE(rowing.is_predicted(boat));
        const PredictionStats before = rowing.stats();
        rowing.reconnect(first);
        rowing.run(40);
        EXPECT_TRUE(rowing.predictor.is_predicting());
        EXPECT_TRUE(rowing.is_predicted(boat));
        EXPECT_EQ(*rowing.predictor.tick(), rowing.tick + Rowing::kLead);
        EXPECT_GT(rowing.stats().checks - before.checks, 25u);
        EXPECT_EQ(rowing.stats().mispredictions, 0u);
        EXPECT_LE(rowing.stats().resimulated - before.resimulated, 2 * (Rowing::kLead + Rowing::kPath));
    }
}

// Goal: random numbers of a new connection are the new server's.
TEST(Predictor, TheSeedIsThatOfTheLastStart) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.run(20);
    rowing.seed = 78;
    rowing.reconnect(2000);
    rowing.run(40);
    EXPECT_TRUE(rowing.is_predicted(boat));
    EXPECT_EQ(rowing.stats().mispredictions, 0u);
}

TEST(Predictor, AfterAPauseShownValuesDoNotJumpAndNothingIsCompared) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.run(40);
    const float before = rowing.shown(boat);
    const PredictionStats then = rowing.stats();
    rowing.is_frozen = true;
    rowing.run(40);  // more than InputClock::kPause, with neutral inputs on the server
    rowing.is_frozen = false;
    rowing.run();
    EXPECT_NEAR(rowing.shown(boat), before, 0.1);
    rowing.run(60);
    EXPECT_NEAR(rowing.shown(boat), rowing.theirs.get<Spot>(rowing.replica(boat)).x, 0.05);
    EXPECT_EQ(rowing.stats().mispredictions, then.mispredictions);
}

TEST(Predictor, ACorrectionIsShownOverSomeTime) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.rows = 0;
    rowing.run(40);
    EXPECT_EQ(rowing.shown(boat), 0);
    rowing.on_tick = [&] { rowing.world.set(boat, Spot{4}); };
    rowing.run();
    rowing.on_tick = nullptr;
    rowing.run(Rowing::kPath);
    EXPECT_EQ(rowing.theirs.get<Spot>(rowing.replica(boat)).x, 4);
    EXPECT_EQ(rowing.shown(boat), 0);
    float last = 0;
    for (int i = 0; i < 60; ++i) {
        rowing.run();
        EXPECT_GT(rowing.shown(boat), last);
        EXPECT_LT(rowing.shown(boat) - last, 1);
        last = rowing.shown(boat);
        if (last > 3.99f) break;
    }
    EXPECT_NEAR(last, 4, 0.02);
}

TEST(Predictor, ATeleportIsShownAtOnceAndTheNextCorrectionIsNot) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.rows = 0;
    rowing.run(40);
    std::uint8_t teleports = 0;
    for (const float to : {40.0f, -7.0f, 12.0f}) {
        rowing.on_tick = [&] {
            rowing.world.set(boat, Spot{to});
            rowing.world.set(boat, Teleports{++teleports});
        };
        rowing.run();
        rowing.on_tick = nullptr;
        rowing.run(Rowing::kPath);
        EXPECT_EQ(rowing.shown(boat), to);
        rowing.on_tick = [&] { rowing.world.set(boat, Spot{to + 1}); };
        rowing.run();
        rowing.on_tick = nullptr;
        rowing.run(Rowing::kPath);
        EXPECT_EQ(rowing.shown(boat), to);
        rowing.run(60);
        EXPECT_NEAR(rowing.shown(boat), to + 1, 0.01);
    }
}

// Goal: a NaN of the client alone costs one restore in a round trip, and is gone when its cause is gone.
TEST(Predictor, ANanIsCountedAndRestoredOncePerRoundTrip) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.run(40);
    bool is_broken = true;
    rowing.predictor.set_on_step([&](const Step& of) {
        rowing.step(of);
        if (is_broken) of.each<Spot>([](Spot& spot) { spot.x = std::numeric_limits<float>::quiet_NaN(); });
    });
    const PredictionStats before = rowing.stats();
    rowing.run(Rowing::kLead);
    EXPECT_EQ(rowing.stats().nan_fields - before.nan_fields, Rowing::kLead);
    rowing.run(10 * (Rowing::kLead + Rowing::kPath));
    EXPECT_GE(rowing.stats().mispredictions - before.mispredictions, 8u);
    EXPECT_LE(rowing.stats().mispredictions - before.mispredictions, 12u);
    is_broken = false;
    rowing.run(3 * (Rowing::kLead + Rowing::kPath));
    EXPECT_FALSE(std::isnan(rowing.theirs.get<Spot>(rowing.replica(boat)).x));
    const std::uint64_t mispredictions = rowing.stats().mispredictions;
    rowing.run(30);
    EXPECT_EQ(rowing.stats().mispredictions, mispredictions);
}

TEST(Predictor, ANanIsForgottenByAReset) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    bool is_broken = true;
    rowing.predictor.set_on_step([&](const Step& of) {
        rowing.step(of);
        if (is_broken) of.each<Spot>([](Spot& spot) { spot.x = std::numeric_limits<float>::quiet_NaN(); });
    });
    rowing.tick = 5000;
    rowing.run(40);
    ASSERT_GT(rowing.stats().nan_fields, 0u);
    is_broken = false;
    rowing.reconnect(20);
    rowing.run(40);
    EXPECT_TRUE(rowing.is_predicted(boat));
    EXPECT_FALSE(std::isnan(rowing.theirs.get<Spot>(rowing.replica(boat)).x));
}

TEST(Predictor, AStepThatWritesWhatItMustNotIsNamed) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.run(20);
    struct Foam {
        Tick tick = 0;
    };
    rowing.theirs.spawn(Foam{});
    std::vector<Tick> faults;
    rowing.predictor.check_steps(4, [&](const StepFault& fault) {
        EXPECT_EQ(fault.kind, StepFault::Kind::write);
        faults.push_back(fault.tick);
    });
    rowing.predictor.set_on_step([&](const Step& of) {
        rowing.step(of);
        if (of.is_new) rowing.theirs.set(rowing.replica(boat), Foam{of.tick});
    });
    rowing.run(4);
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0] % 4, 0u);
    rowing.predictor.check_steps(0, [&](const StepFault&) { ADD_FAILURE(); });
    rowing.run(8);
    EXPECT_EQ(rowing.stats().mispredictions, 0u);
}

TEST(Predictor, IsNewIsTrueOnceForEachTick) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    std::map<Tick, int> runs;
    std::uint64_t repeated = 0;
    rowing.predictor.set_on_step([&](const Step& of) {
        rowing.step(of);
        runs[of.tick] += of.is_new;
        repeated += !of.is_new;
    });
    rowing.run(20);
    const Tick first = *rowing.predictor.tick() + 1;
    for (int i = 0; i < 10; ++i) {
        rowing.on_tick = [&] { rowing.world.set(boat, Spot{static_cast<float>(10 * i)}); };
        rowing.run();
        rowing.on_tick = nullptr;
        rowing.run(2);
    }
    EXPECT_EQ(repeated, rowing.stats().resimulated);
    EXPECT_GT(repeated, 50u);
    for (Tick next = first; next <= *rowing.predictor.tick(); ++next) EXPECT_EQ(runs[next], 1) << next;
}

TEST(Predictor, AnEntityIsShownBetweenItsLastTwoTicks) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.run(40);
    const ecs::Entity replica = rowing.replica(boat);
    const float before = rowing.theirs.get<Spot>(replica).x;
    rowing.run();
    const float current = rowing.theirs.get<Spot>(replica).x;
    ASSERT_GT(current, before);
    for (const auto& [after, part] : {std::pair(4ms, 0.25f), std::pair(8ms, 0.5f), std::pair(12ms, 0.75f)}) {
        rowing.short_frame(after);
        EXPECT_NEAR(rowing.shown(boat), before + (current - before) * part, 1e-4);
        EXPECT_EQ(rowing.theirs.get<Spot>(replica).x, current);
    }
}

// Goal: six ticks in one update are shown as a correction, five are not.
TEST(Predictor, ManyTicksInOneUpdateAreShownOverSomeTime) {
    for (const int missed : {4, 5, 11}) {
        SCOPED_TRACE(missed);
        Rowing rowing;
        const ecs::Entity boat = rowing.spawn_own();
        rowing.run(40);
        const float before = rowing.shown(boat);
        rowing.is_frozen = true;
        rowing.run(missed);
        rowing.is_frozen = false;
        rowing.run();
        const float whole = static_cast<float>(missed + 1) * 0.016f;
        EXPECT_NEAR(rowing.shown(boat) - before, missed < 5 ? whole : 0, 1e-3);
        rowing.run(60);
        // Inputs of a client that was away for longer than its lead are late: the server did without them.
        const int late = std::max(0, missed + 1 - static_cast<int>(Rowing::kLead));
        EXPECT_NEAR(rowing.shown(boat) - before, whole + static_cast<float>(60 - late) * 0.016f, 2e-3);
        EXPECT_EQ(rowing.stats().mispredictions > 0, late > 0);
    }
}

TEST(Predictor, ASchemaWithoutAnInputPredictsNothing) {
    Schema schema;
    schema.component<Spot>("spot", predicted());
    ecs::World world;
    Receiver receiver(world, schema);
    Predictor predictor(world, schema, receiver, 500ms);
    predictor.set_on_step([](const Step&) { ADD_FAILURE(); });
    predictor.start(16ms, 1);
    predictor.take_margin({}, net::Time{100s});
    predictor.update(net::Time{100s} + 16ms, 10ms, 0us);
    EXPECT_FALSE(predictor.tick());
    EXPECT_FALSE(predictor.is_predicting());
    EXPECT_EQ(predictor.inputs(), nullptr);
    predictor.reset();
}

}  // namespace
}  // namespace shoal::replication::impl::predictor_steps_test
