#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "replication/play/struct_codec.h"
#include "replication/predict/predictor.h"
#include "replication/receive/receiver.h"
#include "replication/send/sender.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::predictor_steps_test {
namespace {

using namespace std::chrono_literals;

struct Spot {
    float x = 0;
};
struct Sum {
    std::uint64_t drawn = 0;  // of random numbers
};
struct Oar {
    std::int8_t x = 0;
};

/// A server and the predictor of its client without connections. Payloads arrive kPath ticks after they were
/// sent. The client is kLead ticks ahead of the server, and its inputs are always in time.
struct Rowing {
    static constexpr net::Duration kTick = 16ms;
    static constexpr int kPath = 3;
    static constexpr Tick kLead = 5;

    Rowing() {
        step = [](const Step& of) {
            of.each<Spot, const Oar>(
                [&](Spot& spot, const Oar& oar) { spot.x += static_cast<float>(oar.x) * of.dt; });
            of.each<Sum>([&](Sum& sum) { sum.drawn += of.random(7); });
        };
        predictor.set_on_step([this](const Step& of) { step(of); });
        predictor.start(kTick, seed);
    }
    ecs::Entity spawn() { return world.spawn(Spot{}, Sum{}, Oar{}, Replicated{}, Mine{}); }
    /// A boat that the client's player owns.
    ecs::Entity spawn_own() {
        const ecs::Entity boat = spawn();
        sender->set_owner(boat, peer);
        return boat;
    }
    /// A boat of nobody.
    ecs::Entity spawn_other() { return world.spawn(Spot{}, Sum{}, Oar{}, Replicated{}); }
    ecs::Entity replica(ecs::Entity boat) const { return receiver.entity(sender->net_id(boat)); }

    /// One tick of the server, and one frame of the client.
    void run(int ticks = 1) {
        for (int i = 0; i < ticks; ++i) {
            now += kTick;
            serve();
            if (is_frozen) continue;
            receive();
            frame();
        }
    }
    void frame() {
        if (is_rowing) {
            const Oar input{rows};
            predictor.set_input(&input);
        }
        receiver.apply();
        predictor.update(now, kRtt, 0us);
    }
    /// A frame between two ticks.
    void short_frame(net::Duration after) {
        now += after;
        frame();
        now -= after;
    }
    /// The client connects to a new server with the same world.
    void reconnect(Tick first) {
        down.clear();
        sender.emplace(world, schema);
        receiver.reset();
        predictor.reset();
        EXPECT_FALSE(predictor.tick());
        EXPECT_FALSE(predictor.is_predicting());
        tick = first;
        peer = sender->add_peer();
        ecs::Query<ecs::With<Mine>>(world).each([&](ecs::Entity boat) { sender->set_owner(boat, peer); });
        predictor.start(kTick, seed);
    }
    float shown(ecs::Entity boat) const {
        Spot spot = theirs.get<Spot>(replica(boat));
        EXPECT_TRUE(predictor.show(replica(boat), &detail::type_address<Spot>, &spot));
        return spot.x;
    }
    bool is_predicted(ecs::Entity boat) const { return theirs.has<Predicted>(replica(boat)); }
    const PredictionStats& stats() const { return predictor.stats(); }

    static Schema described() {
        Schema schema;
        schema.component<Spot>("spot", linear(), predicted());
        schema.component<Sum>("sum", predicted());
        schema.input<Oar>("oar", bounded(-1, 1));
        return schema;
    }

    Schema schema = described();
    ecs::World world, theirs;
    std::optional<Sender> sender{std::in_place, world, schema};
    Receiver receiver{theirs, schema};
    NoEntities map;
    Predictor predictor{theirs, schema, receiver, map, 500ms};
    Sender::Peer peer = sender->add_peer();
    OnStep step;                    // of both sides
    std::function<void()> on_tick;  // of the server, after its step
    std::int8_t rows = 1;
    bool is_rowing = true, is_cut = false, is_frozen = false;
    std::uint64_t seed = 77;
    Tick tick = 1000;
    net::Time now{100s};
    struct Values {
        float x = 0;
        std::uint64_t drawn = 0;
    };
    /// The server's values of the tick whose state has arrived.
    Values arrived(ecs::Entity boat) { return history_[{tick - kPath, boat.index}]; }

private:
    static constexpr net::Duration kRtt = kTick * (kPath + kLead - 2);
    struct Payload {
        Tick due = 0;
        std::uint64_t number = 0;
        std::vector<std::byte> bytes;
    };

    void serve() {
        ++tick;
        const std::span<const std::uint32_t> words = predictor.inputs()->at(tick);
        ecs::Query<Oar, ecs::With<Mine>>(world).each([&](Oar& input) {
            input = {};
            if (!words.empty()) codec.restore(schema.structs(StructKind::input)[0], words, &input);
        });
        const Step::Context context{queries, map, seed, false};
        step(Step(tick, std::chrono::duration<float>(kTick).count(), true, context));
        if (on_tick) on_tick();
        ecs::Query<const Spot, const Sum>(world).each(
            [&](ecs::Entity boat, const Spot& spot, const Sum& sum) {
                history_[{tick, boat.index}] = {spot.x, sum.drawn};
            });
        sender->update(tick);
        std::byte room[1300];
        for (;;) {
            const auto payload = sender->encode(peer, number, 1100, room);
            if (payload.empty()) break;
            if (!is_cut) down.push_back({tick + kPath, number, {payload.begin(), payload.end()}});
            ++number;
        }
    }
    void receive() {
        for (; !down.empty() && !is_newer(down.front().due, tick); down.pop_front()) {
            const Payload& payload = down.front();
            ASSERT_EQ(receiver.receive(payload.number, payload.bytes), Receiver::Verdict::accepted);
            predictor.hear(*receiver.tick_of(payload.number), now);
            sender->on_fate(peer, payload.number, true);
        }
    }

    std::map<std::pair<Tick, std::uint32_t>, Values> history_;  // by tick and entity index
    std::uint64_t number = 1;
    std::deque<Payload> down;
    StructCodec codec{map};
    StepQueries queries{world};
};

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

TEST(Predictor, StepsSeeOnlyTheEntitiesOfTheGroup) {
    Rowing rowing;
    const ecs::Entity own = rowing.spawn_own(), other = rowing.spawn_other();
    rowing.run(20);
    EXPECT_TRUE(rowing.is_predicted(own));
    EXPECT_FALSE(rowing.is_predicted(other));
    Spot spot;
    EXPECT_FALSE(rowing.predictor.show(rowing.replica(other), &detail::type_address<Spot>, &spot));
    // Another's boat has the values of the tick that arrived.
    EXPECT_EQ(rowing.theirs.get<Sum>(rowing.replica(other)).drawn, rowing.arrived(other).drawn);
    EXPECT_NE(rowing.theirs.get<Sum>(rowing.replica(own)).drawn, rowing.arrived(own).drawn);
}

TEST(Predictor, AnEntityThatTheGameTagsIsPredictedUntilTheTagIsGone) {
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

TEST(Predictor, EachEntityOfTheGroupIsShownWithItsOwnValues) {
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
    EXPECT_FALSE(rowing.predictor.show(rowing.replica(boats[0]), &detail::type_address<Spot>, &spot));
    EXPECT_NEAR(rowing.shown(boats[1]), 1000, 10);
    EXPECT_NEAR(rowing.shown(boats[3]), 3000, 10);
    EXPECT_EQ(rowing.stats().mispredictions, 0u);
}

TEST(Predictor, WithoutAnInputOrAStepNothingIsPredicted) {
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

TEST(Predictor, WithMoreThanTheLargestLeadTheServersValuesAreInTheWorld) {
    Rowing rowing;
    const ecs::Entity boat = rowing.spawn_own();
    rowing.run(20);
    rowing.predictor.shift(450ms);
    rowing.run(2);
    EXPECT_FALSE(rowing.predictor.is_predicting());
    EXPECT_FALSE(rowing.is_predicted(boat));
    EXPECT_EQ(rowing.theirs.get<Spot>(rowing.replica(boat)).x, rowing.arrived(boat).x);
    const std::uint64_t ticks = rowing.stats().ticks;
    rowing.run(5);
    EXPECT_EQ(rowing.stats().ticks - ticks, 5u);
    EXPECT_EQ(rowing.theirs.get<Spot>(rowing.replica(boat)).x, rowing.arrived(boat).x);
    rowing.predictor.shift(-240ms);
    rowing.run(600);
    EXPECT_TRUE(rowing.predictor.is_predicting());
    EXPECT_TRUE(rowing.is_predicted(boat));
    EXPECT_EQ(rowing.stats().mispredictions, 0u);
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

// Goal: what is too old to be computed again is not restored.
TEST(Predictor, NothingIsComputedAgainFromMoreThan64TicksAgo) {
    Rowing rowing;
    rowing.spawn_own();
    const ecs::Entity other = rowing.spawn_other();
    rowing.run(20);
    rowing.is_cut = true;
    rowing.run(80);
    ASSERT_TRUE(rowing.predictor.is_predicting());
    const PredictionStats before = rowing.stats();
    rowing.theirs.add<ToPredict>(rowing.replica(other));
    rowing.run(5);
    EXPECT_EQ(rowing.stats().resimulated, before.resimulated);
    EXPECT_EQ(rowing.stats().checks, before.checks);
    rowing.is_cut = false;
    rowing.run(20);
    EXPECT_TRUE(rowing.is_predicted(other));
    EXPECT_GT(rowing.stats().checks, before.checks);
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

TEST(Predictor, AComponentThatTheServerRemovedIsGoneAndComesBack) {
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

TEST(Predictor, AnEntityThatJoinsTheGroupLaterIsComparedFromThenOn) {
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

TEST(Predictor, AnEntityThatTheGameDestroyedIsLeftOut) {
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

TEST(Predictor, TheInputIsWrittenOnlyToEntitiesThatHaveIt) {
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

TEST(Predictor, AResetLeavesTheWorldWithoutPredictedEntities) {
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

TEST(Predictor, EachFinishedShiftChangesTheParityOfTheInputs) {
    Rowing rowing;
    rowing.spawn_own();
    rowing.run(30);
    const auto parity = [&] {
        BitWriter out;
        EXPECT_TRUE(rowing.predictor.inputs()->write_section(1, 9000, out));
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        BitReader in(bytes);
        StructCodec codec(rowing.map);
        std::vector<std::uint32_t> neutral;
        const SchemaStruct& type = rowing.schema.structs(StructKind::input)[0];
        const Oar still;
        codec.quantise(type, &still, neutral);
        InputSection section;
        EXPECT_TRUE(section.read(type, neutral, in));
        return section.shift_parity;
    };
    EXPECT_FALSE(parity());
    rowing.predictor.shift(16ms);
    rowing.run(60);
    EXPECT_TRUE(parity());
    EXPECT_EQ(*rowing.predictor.tick(), rowing.tick + Rowing::kLead + 1);
}

TEST(Predictor, ASchemaWithoutAnInputPredictsNothing) {
    Schema schema;
    schema.component<Spot>("spot", predicted());
    ecs::World world;
    Receiver receiver(world, schema);
    NoEntities map;
    Predictor predictor(world, schema, receiver, map, 500ms);
    predictor.set_on_step([](const Step&) { ADD_FAILURE(); });
    predictor.start(16ms, 1);
    predictor.hear(5, net::Time{100s});
    predictor.update(net::Time{100s} + 16ms, 10ms, 0us);
    EXPECT_FALSE(predictor.tick());
    EXPECT_FALSE(predictor.is_predicting());
    EXPECT_EQ(predictor.inputs(), nullptr);
    predictor.reset();
}

/// A boat that the client spawns ahead of the server, which spawns it `answer` ticks later with the values
/// that the client had.
struct Launch : Rowing {
    void launch(int answer, bool is_own = true) {
        spawn_own();
        run(40);
        born = theirs.spawn(Spot{50}, Sum{}, Oar{1});
        receiver.expect(kFirstPending + 1, born, predictor.add_pending(born));
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

TEST(Predictor, APendingEntityIsPredictedFromItsBirthOn) {
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
        EXPECT_EQ(launch.predictor.show(launch.born, &detail::type_address<Spot>, &spot),
                  launch.receiver.net_id(launch.born) != 0);
    }
    ASSERT_EQ(launch.replica(launch.boat), launch.born);
    EXPECT_GT(launch.theirs.get<Spot>(launch.born).x, launch.world.get<Spot>(launch.boat).x);
    const std::uint64_t mispredictions = launch.stats().mispredictions;
    launch.run(20);
    EXPECT_EQ(launch.stats().mispredictions, mispredictions);
}

TEST(Predictor, TicksThatAreComputedAgainLeaveAPendingEntityAsItIs) {
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

TEST(Predictor, APendingEntityThatIsNotOfTheGroupShowsTheServersValues) {
    Launch launch;
    launch.launch(5, false);
    launch.run(Rowing::kPath + 2);
    ASSERT_EQ(launch.replica(launch.boat), launch.born);
    EXPECT_FALSE(launch.theirs.has<Predicted>(launch.born));
    launch.world.set(launch.boat, Spot{-3});
    launch.run(Rowing::kPath + 1);
    EXPECT_EQ(launch.theirs.get<Spot>(launch.born).x, -3);
}

TEST(Predictor, APendingEntityMayDieOrStopBeingPredicted) {
    Launch launch;
    launch.spawn_own();
    launch.run(40);
    const ecs::Entity dead = launch.theirs.spawn(Spot{}, Oar{}), born = launch.theirs.spawn(Spot{}, Oar{});
    launch.predictor.add_pending(dead);
    launch.predictor.add_pending(born);
    launch.theirs.destroy(dead);
    launch.run(3);
    EXPECT_TRUE(launch.theirs.has<Predicted>(born));
    launch.predictor.shift(450ms);
    launch.run(2);
    ASSERT_FALSE(launch.predictor.is_predicting());
    EXPECT_FALSE(launch.theirs.has<Predicted>(born));
}

}  // namespace
}  // namespace shoal::replication::predictor_steps_test
