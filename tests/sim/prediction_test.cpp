// Players steer ships over a bad network, and each client predicts its own ship.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ecs/query.h"
#include "tests/sim/play_session.h"
#include "tests/sim/seeds.h"
#include "tests/support/allocations.h"

namespace shoal::sim::prediction_test {
namespace {

using namespace std::chrono_literals;
using replication::Step;
using Player = PlaySession::Player;

/// Two ships, of which one is given later, and a server that pushes ships.
struct Sailing : PlaySession {
    explicit Sailing(const net::LinkConfig& link, std::uint64_t seed = 1, bool is_quantised = true)
        : PlaySession(play_schema(is_quantised), link, 1, seed) {
        player().on_frame = wander(seed);
        run(4s);
    }
    Player& player() { return *players[0]; }
    const Player& player() const { return *players[0]; }
    const replication::PredictionStats& stats() const { return player().client.prediction_stats(); }
    /// The server moves the ship in the next tick.
    void push(float by) {
        server.on_step([this, by](const Step& step) {
            sail(step);
            world.patch<Spot>(ship(player()), [&](Spot& spot) { spot.x += spot.x > 0 ? -by : by; });
            server.on_step(sail);
        });
    }
    /// The player lets go of the helm.
    void rest() {
        player().on_frame = [](Player& of) { of.client.input(Helm{}); };
        run(3s);
    }
};

// Goal: with quantised authority a client that computes what the server computes is never wrong, and few
// inputs are late. Method: many minutes over a path with jitter and loss; one player has longer frames than
// ticks. SHOAL_PLAY_MINUTES sets another length. Each input that was late in the last ten seconds makes the
// lead longer, by up to a tick, until two seconds later.
TEST(Prediction, ADeterministicMoverIsNeverMispredicted) {
    const char* const wish = std::getenv("SHOAL_PLAY_MINUTES");
    const auto minutes = std::chrono::minutes(wish ? std::atoi(wish) : 3);
    for (const std::uint64_t seed : kind_seeds(2)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        PlaySession session(play_schema(), far_away(), 3, seed);
        session.players[1]->frame = 33ms;
        session.players[2]->frame = 7ms;
        for (std::size_t i = 0; i < 3; ++i) session.players[i]->on_frame = PlaySession::wander(seed * 10 + i);
        session.run(30s);  // until enough was measured
        std::uint64_t late[3] = {};
        for (std::size_t i = 0; i < 3; ++i) late[i] = session.input_stats(*session.players[i]).late;
        for (const auto& player : session.players) ASSERT_TRUE(player->client.is_predicting());
        session.run(minutes - 12s);
        std::uint64_t late_before[3] = {};
        for (std::size_t i = 0; i < 3; ++i) late_before[i] = session.input_stats(*session.players[i]).late;
        session.run(12s);
        for (std::size_t i = 0; i < 3; ++i) {
            const auto& player = session.players[i];
            const replication::PredictionStats& stats = player->client.prediction_stats();
            const replication::InputStats inputs = session.input_stats(*player);
            EXPECT_GT(stats.checks, stats.ticks / 4);
            // An input that is late is computed with other values, and its presses join the next tick.
            EXPECT_LE(stats.mispredictions, 2 * missed(inputs));
            SCOPED_TRACE(testing::Message() << "player " << i);
            EXPECT_LE(inputs.late - late[i], inputs.in_time / 10'000 + 3);
            EXPECT_EQ(inputs.early, 0u);
            EXPECT_LT(*player->client.predicted_tick() - session.server.current_tick(),
                      15 + inputs.late - late_before[i]);
        }
    }
}

// Goal: a client that sends more packets than inputs is not taken for one whose packets are lost. Method: of
// two players one sends a message in each of its many short frames; both must be ahead by about the same
// time.
TEST(Prediction, TheLeadOfAClientThatSendsMoreThanInputsStaysSmall) {
    for (const std::uint64_t seed : kind_seeds(4)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        net::LinkConfig link = far_away();
        link.loss = 0.1;
        PlaySession session(play_schema(), link, 2, seed);
        for (std::size_t i = 0; i < 2; ++i) {
            const auto steer = PlaySession::wander(seed * 10 + i);
            session.players[i]->frame = 5ms;
            session.players[i]->on_frame = [steer, i](Player& player) mutable {
                steer(player);
                if (i == 1)
                    static_cast<void>(
                        player.client.send_message(net::Channel::unreliable, std::array<std::byte, 1>{}));
            };
        }
        session.run(30s);
        const auto lead = [&](std::size_t i) {
            return static_cast<int>(*session.players[i]->client.predicted_tick() -
                                    session.server.current_tick());
        };
        EXPECT_NEAR(lead(1), lead(0), 3);
        EXPECT_LT(lead(1), 15);
    }
}

// Goal: a player predicts within a second after its ship is there, and few inputs are late meanwhile. Method:
// joins over paths with 150 and 300 ms for a round trip, one of them with a jitter of 30 ms.
TEST(Prediction, APlayerPredictsSoonAfterItsShipIsThere) {
    net::LinkConfig jittery;
    jittery.latency = 45ms;
    jittery.jitter = 60ms;
    jittery.loss = 0.05;
    for (const net::LinkConfig& link : {jittery, steady(150ms)}) {
        std::uint64_t late = 0;
        const std::vector<std::uint64_t> seeds = kind_seeds(10);
        for (const std::uint64_t seed : seeds) {
            SCOPED_TRACE(testing::Message() << "latency " << link.latency.count() << " us, seed " << seed);
            PlaySession session(play_schema(), link, 1, seed);
            Player& player = *session.players[0];
            player.on_frame = PlaySession::wander(seed);
            for (int i = 0; i < 500 && !session.replica(player); ++i) session.run(10ms);
            ASSERT_TRUE(session.replica(player));
            session.run(1s);
            EXPECT_TRUE(player.client.is_predicting());
            EXPECT_TRUE(player.world.has<replication::Predicted>(session.replica(player)));
            session.run(3s);
            late += session.input_stats(player).late;
            EXPECT_LE(session.input_stats(player).late, 30u);
        }
        EXPECT_LE(late, 4 * seeds.size()) << "in 4 seconds";
    }
}

// Goal: at rest the client has the server's values, whatever happened before. Method: disturb, then let go.
TEST(Prediction, AfterAnyDisturbanceTheClientEqualsTheServerAtRest) {
    for (const std::uint64_t seed : kind_seeds(50)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Sailing sailing(far_away(), seed, seed % 2 == 0);
        std::mt19937 random(static_cast<std::uint32_t>(seed));
        for (int round = 0; round < 6; ++round) {
            net::LinkConfig link = far_away();
            switch (random() % 6) {
                case 0:
                    sailing.push(3);
                    break;
                case 1:
                    sailing.hang(400ms);
                    break;
                case 2:
                    sailing.player().next_frame += 700ms;
                    break;
                case 3:
                    link.loss = 0.4;
                    break;
                case 4:
                    link.latency = 150ms;
                    break;
                default:
                    link.burst = 0.05;
                    break;
            }
            sailing.set_link(link);
            sailing.run(2s);
            sailing.set_link(far_away());
            sailing.player().on_frame = PlaySession::wander(random());
            sailing.run(1s);
        }
        sailing.rest();
        // Inputs that were late in the last ten seconds make the lead longer.
        for (int second = 0; second < 12 && !sailing.player().client.is_predicting(); ++second)
            sailing.run(1s);
        EXPECT_TRUE(sailing.agrees(sailing.player()));
        EXPECT_TRUE(sailing.player().client.is_predicting());
    }
}

// Goal: the own ship moves at once. Method: the latency is much longer than two frames.
TEST(Prediction, TheOwnShipReactsInTheFrameOfTheKey) {
    Sailing sailing(steady(75ms));
    sailing.rest();
    const Player& player = sailing.player();
    const float before = player.world.get<Spot>(sailing.replica(player)).x;
    const float there = sailing.world.get<Spot>(sailing.ship(player)).x;
    sailing.player().on_frame = [](Player& of) { of.client.input(Helm{1, 0, false}); };
    sailing.run(50ms);
    EXPECT_GT(player.world.get<Spot>(sailing.replica(player)).x, before);
    EXPECT_EQ(sailing.world.get<Spot>(sailing.ship(player)).x, there);
}

TEST(Prediction, OthersSeeTheShipButNotItsInput) {
    PlaySession session(play_schema(), steady(20ms), 2);
    for (const auto& player : session.players) player->on_frame = PlaySession::wander(1);
    session.run(3s);
    for (const auto& player : session.players) {
        int with_input = 0, ships = 0;
        ecs::Query<const Spot, ecs::Optional<const Helm>>(player->world)
            .each([&](const Spot&, const Helm* helm) {
                ++ships;
                with_input += helm != nullptr;
            });
        EXPECT_EQ(ships, 2);
        EXPECT_EQ(with_input, 1);
        EXPECT_EQ(session.server.input_age(session.server.owner(session.ship(*player))), 0u);
    }
}

TEST(Prediction, EachPressIsUsedOnce) {
    Sailing sailing(far_away());
    sailing.rest();
    const std::uint32_t dashes = sailing.world.get<Dashes>(sailing.ship(sailing.player())).count;
    sailing.player().presses = 0;
    sailing.player().on_frame = PlaySession::wander(7);
    sailing.run(20s);
    sailing.rest();
    EXPECT_EQ(sailing.world.get<Dashes>(sailing.ship(sailing.player())).count - dashes,
              sailing.player().presses);
}

TEST(Prediction, Trap05BothSidesComputeWithTheQuantisedInput) {
    replication::Schema schema;
    schema.component<Spot>("spot", replication::predicted());
    schema.component<Speed>("speed", replication::predicted());
    schema.component<Dashes>("dashes");
    schema.input<Helm>("helm", replication::bounded(-1, 1));
    const auto step = [](const Step& of) {
        of.each<Spot, const Helm>([](Spot& spot, const Helm& helm) { spot.x += helm.x; });
    };
    PlaySession session(std::move(schema), steady(30ms), 1);
    session.server.on_step(step);
    session.players[0]->client.on_step(step);
    session.players[0]->on_frame = [](Player& player) { player.client.input(Helm{100, 0, false}); };
    session.run(3s);
    EXPECT_EQ(session.players[0]->world.get<Helm>(session.replica(*session.players[0])).x, 1);
    EXPECT_EQ(session.players[0]->client.prediction_stats().mispredictions, 0u);
}

TEST(Prediction, Trap07AServerThatHangsUsesTheBufferedInputsInOrder) {
    Sailing sailing(steady(50ms));
    sailing.run(10s);
    const auto lead = [&] {
        return *sailing.player().client.predicted_tick() - sailing.server.current_tick();
    };
    const std::uint64_t before = missed(sailing.input_stats(sailing.player()));
    const double usual = lead();
    sailing.hang(200ms);
    sailing.run(2s);
    EXPECT_EQ(missed(sailing.input_stats(sailing.player())), before);
    EXPECT_NEAR(lead(), usual, 1);
    EXPECT_EQ(sailing.stats().mispredictions, 0u);
}

TEST(Prediction, Trap08AClosedLidIsNeutralOnTheServerAndSetsTheClockOnce) {
    Sailing sailing(steady(50ms));
    sailing.player().on_frame = [](Player& of) { of.client.input(Helm{1, 1, false}); };
    sailing.run(3s);
    const std::uint64_t ticks = sailing.stats().ticks;
    sailing.player().next_frame += 5s;
    sailing.run(4s);
    EXPECT_EQ(sailing.world.get<Helm>(sailing.ship(sailing.player())).x, 0);
    sailing.run(2s);
    EXPECT_NEAR(static_cast<double>(sailing.stats().ticks - ticks), 60, 5) << "no burst of ticks";
    EXPECT_EQ(sailing.world.get<Helm>(sailing.ship(sailing.player())).x, 1);
    sailing.rest();
    EXPECT_TRUE(sailing.agrees(sailing.player()));
}

TEST(Prediction, Trap09ALongerPathMakesInputsLateForAboutARoundTrip) {
    Sailing sailing(steady(15ms));
    sailing.run(5s);
    const std::uint64_t before = sailing.input_stats(sailing.player()).in_time;
    const std::uint64_t ticks = sailing.server.current_tick();
    sailing.set_link(steady(125ms));
    replication::Tick newest = *sailing.player().client.predicted_tick();
    for (int i = 0; i < 500; ++i) {
        sailing.run(8ms);
        const replication::Tick now = *sailing.player().client.predicted_tick();
        EXPECT_GE(static_cast<std::int32_t>(now - newest), 0) << "P never goes back";
        newest = now;
    }
    const std::uint64_t late =
        sailing.server.current_tick() - ticks - (sailing.input_stats(sailing.player()).in_time - before);
    EXPECT_LE(late, 250 / 16.667 + 12) << "a round trip, and some packets until it is noticed";
    EXPECT_LT(*sailing.player().client.predicted_tick() - sailing.server.current_tick(), 14u);
}

TEST(Prediction, Trap12AShipIsPredictedFromTheTickInWhichItBecameTheOwn) {
    Sailing sailing(far_away());
    const net::PeerId id = sailing.server.owner(sailing.ship(sailing.player()));
    for (int i = 0; i < 20; ++i) {
        const ecs::Entity ship =
            sailing.world.spawn(Spot{1, 1}, Speed{5, 0}, Dashes{}, replication::Replicated{});
        if (i % 2 != 0) sailing.run(100ms);  // first another's
        sailing.server.give(id, ship);
        sailing.run(300ms);
        if (i % 3 == 0) sailing.world.destroy(ship);
        if (i % 3 == 1) sailing.server.give({}, ship);
    }
    sailing.run(1s);
    EXPECT_LE(sailing.stats().mispredictions, 2 * missed(sailing.input_stats(sailing.player())));
    sailing.rest();
    EXPECT_TRUE(sailing.agrees(sailing.player()));
    int others = 0;
    ecs::Query<ecs::With<Spot>, ecs::Without<replication::Mine>, ecs::With<replication::Predicted>>(
        sailing.player().world)
        .each([&](ecs::Entity) { ++others; });
    EXPECT_EQ(others, 0);
}

TEST(Prediction, Trap13AComponentThatTheServerRemovedIsRemovedByARestore) {
    Sailing sailing(steady(50ms));
    const ecs::Entity ship = sailing.ship(sailing.player()), replica = sailing.replica(sailing.player());
    sailing.world.remove<Speed>(ship);
    sailing.run(1s);
    EXPECT_FALSE(sailing.player().world.has<Speed>(replica));
    EXPECT_EQ(sailing.stats().mispredictions, 1u);
    sailing.world.set(ship, Speed{1, 1});
    sailing.run(1s);
    EXPECT_TRUE(sailing.player().world.has<Speed>(replica));
    sailing.rest();
    EXPECT_TRUE(sailing.agrees(sailing.player()));
}

struct Trail {
    int length = 0;
};

TEST(Prediction, Trap14ARestoreLeavesOtherComponentsAlone) {
    Sailing sailing(steady(50ms));
    const ecs::Entity replica = sailing.replica(sailing.player());
    ecs::World& world = sailing.player().world;
    world.set(replica, Trail{7});
    sailing.push(5);
    sailing.run(1s);
    EXPECT_EQ(sailing.stats().mispredictions, 1u);
    EXPECT_GT(sailing.stats().resimulated, 0u);
    EXPECT_EQ(world.get<Trail>(replica).length, 7);
}

TEST(Prediction, Trap15AJumpThatIsComputedAgainMakesOneSound) {
    Sailing sailing(far_away());
    std::uint64_t sounds = 0, runs = 0;
    sailing.player().client.on_step([&](const Step& step) {
        sail(step);
        step.each<const Helm>([&](const Helm& helm) {
            runs += helm.dash.count;
            sounds += step.is_new ? helm.dash.count : 0;
        });
    });
    sailing.rest();
    sailing.player().presses = sounds = 0;
    sailing.player().on_frame = PlaySession::wander(9);
    for (int i = 0; i < 20; ++i) {
        sailing.push(2);
        sailing.run(250ms);
    }
    sailing.rest();
    EXPECT_EQ(sounds, sailing.player().presses);
    EXPECT_GT(runs, sounds);
}

// Goal: a correction is shown over some time, a teleport at once. Method: the server moves the ship by 3
// units, as a push or as a teleport; the greatest step between two frames tells.
TEST(Prediction, Trap17ACorrectionIsSmoothAndATeleportIsNot) {
    for (const bool is_teleport : {false, true}) {
        Sailing sailing(steady(50ms));
        sailing.rest();
        Player& player = sailing.player();
        const auto shown = [&] { return player.client.sample<Spot>(sailing.replica(player))->x; };
        const float before = shown();
        sailing.push(3);
        if (is_teleport) sailing.server.teleport(sailing.ship(player));
        float last = before, greatest = 0;
        for (int frame = 0; frame < 120; ++frame) {
            sailing.run(16'667us);
            greatest = std::max(greatest, std::abs(shown() - last));
            last = shown();
        }
        EXPECT_NEAR(std::abs(last - before), 3, 0.1);
        EXPECT_EQ(sailing.stats().mispredictions, 1u);
        if (is_teleport) {
            EXPECT_NEAR(greatest, 3, 0.1);
        } else {
            EXPECT_LT(greatest, 0.7);
        }
    }
}

// Goal: what is shown of a steady ship moves evenly, although frames and ticks differ.
TEST(Prediction, APredictedShipIsShownBetweenItsTicks) {
    Sailing sailing(far_away());
    Player& player = sailing.player();
    player.frame = 7ms;
    sailing.rest();
    player.on_frame = [](Player& of) { of.client.input(Helm{1, 0, false}); };
    sailing.run(1s);
    float last = player.client.sample<Spot>(sailing.replica(player))->x;
    for (int frame = 0; frame < 100; ++frame) {
        sailing.run(7ms);
        const float now = player.client.sample<Spot>(sailing.replica(player))->x;
        EXPECT_NEAR(now - last, 8 * 0.007, 0.02);
        last = now;
    }
}

TEST(Prediction, Trap18NanIsCountedAndDoesNotRestoreEachTick) {
    replication::Schema schema;
    schema.component<Spot>("spot", replication::predicted());
    schema.component<Speed>("speed");
    schema.component<Dashes>("dashes");
    schema.input<Helm>("helm", replication::bounded(-1, 1));
    PlaySession session(std::move(schema), steady(50ms), 1);
    Player& player = *session.players[0];
    player.client.on_step([](const Step& step) {
        step.each<Spot>([](Spot& spot) { spot.x = std::numeric_limits<float>::quiet_NaN(); });
    });
    session.server.on_step([](const Step& step) { step.each<Spot>([](Spot& spot) { spot.x += 1; }); });
    player.on_frame = PlaySession::wander(1);
    session.run(5s);
    const replication::PredictionStats& stats = player.client.prediction_stats();
    EXPECT_GT(stats.nan_fields, 0u);
    EXPECT_GT(stats.mispredictions, 0u);
    EXPECT_LT(stats.mispredictions, stats.ticks / 5);
    // If both sides compute it, nothing is wrong.
    session.server.on_step([](const Step& step) {
        step.each<Spot>([](Spot& spot) { spot.x = -std::numeric_limits<float>::quiet_NaN(); });
    });
    session.run(1s);
    const std::uint64_t before = stats.mispredictions;
    session.run(2s);
    EXPECT_EQ(stats.mispredictions, before);
}

TEST(Prediction, WithTooMuchLeadTheOwnShipIsShownAsTheServerSays) {
    Sailing sailing(steady(20ms));
    ASSERT_TRUE(sailing.player().client.is_predicting());
    sailing.set_link(steady(400ms));
    sailing.run(6s);
    EXPECT_FALSE(sailing.player().client.is_predicting());
    EXPECT_FALSE(sailing.player().world.has<replication::Predicted>(sailing.replica(sailing.player())));
    EXPECT_LT(sailing.server.input_age(sailing.server.owner(sailing.ship(sailing.player()))), 5u);
    sailing.rest();
    EXPECT_TRUE(sailing.agrees(sailing.player()));
    sailing.set_link(steady(20ms));
    sailing.run(20s);
    EXPECT_TRUE(sailing.player().client.is_predicting());
}

// Goal: what is kept is a time: with any tick rate a client is corrected while its lead is at most max_lead.
TEST(Prediction, ALongPathIsCorrectedAtAnyTickRate) {
    for (const auto& [hz, latency] :
         {std::pair(10, 150ms), std::pair(60, 150ms), std::pair(144, 220ms), std::pair(250, 150ms),
          std::pair(1'000, 40ms), std::pair(1'000, 150ms)}) {
        SCOPED_TRACE(testing::Message() << hz << " Hz, " << 2 * latency.count() << " ms");
        replication::ClientOptions options;
        options.max_lead = 900ms;
        PlaySession session(play_schema(), steady(latency), 1, 1, 0, options, net::Duration(1'000'000 / hz));
        Player& player = *session.players[0];
        player.on_frame = PlaySession::wander(1);
        session.run(5s);
        const std::uint64_t checks = player.client.prediction_stats().checks;
        session.world.set(session.ship(player), Spot{30, 30});
        session.run(4s);
        EXPECT_GT(player.client.prediction_stats().checks, checks + 20);
        EXPECT_GT(player.client.prediction_stats().mispredictions, 0u);
        EXPECT_EQ(session.input_stats(player).early, 0u);
        player.on_frame = [](Player& of) { of.client.input(Helm{}); };
        session.run(2s);
        session.world.set(session.ship(player), Speed{});  // a speed of 0.2 rounds to itself
        session.run(1s);
        EXPECT_TRUE(session.agrees(player));
    }
}

TEST(Prediction, ANewConnectionBeginsAnew) {
    Sailing sailing(steady(30ms));
    sailing.player().client.connect(sailing.at_server());
    sailing.run(4s);
    EXPECT_TRUE(sailing.player().client.is_predicting());
    sailing.rest();
    EXPECT_TRUE(sailing.agrees(sailing.player()));
}

// Goal: inputs, steps and corrections need no memory in the steady state.
TEST(Prediction, TicksAndCorrectionsAllocateNothing) {
    net::LinkConfig link = far_away();
    Sailing sailing(link, 4);
    sailing.push(2);
    sailing.run(20s);
    std::size_t least = ~std::size_t{0};
    for (int i = 0; i < 10; ++i) {
        sailing.world.patch<Spot>(sailing.ship(sailing.player()),
                                  [](Spot& spot) { spot.x += spot.x > 0 ? -2 : 2; });
        const std::size_t before = test::allocations();
        sailing.run(1s);
        least = std::min(least, test::allocations() - before);
    }
    EXPECT_EQ(least, 0u);
    EXPECT_GE(sailing.stats().mispredictions, 9u);
}

TEST(Prediction, AnOwnEntityThatTheGameLoadedIsNotPredictedInTheNextConnection) {
    Sailing sailing(steady(20ms));
    Player& player = sailing.player();
    const ecs::Entity loaded = player.world.spawn(replication::StableKey{3});
    const ecs::Entity there = sailing.world.spawn(Spot{}, Speed{}, Dashes{}, Helm{},
                                                  replication::StableKey{3}, replication::Replicated{});
    sailing.server.give(sailing.server.owner(sailing.ship(player)), there);
    sailing.run(1s);
    ASSERT_TRUE(player.world.has<replication::Predicted>(loaded));
    player.client.connect(sailing.at_server());
    sailing.run(1s);
    ASSERT_TRUE(player.client.is_predicting());
    EXPECT_FALSE(player.world.has<replication::Predicted>(loaded));
}

// Goal: the checks of steps find nothing in a correct game, change nothing, and name what is wrong in
// another. Method: every tick is checked, also those with shells that the client spawned ahead.
TEST(Prediction, Trap16StepsAreCheckedInAGameAndNamedIfTheyAreWrong) {
    std::vector<std::string> faults;
    replication::ClientOptions options;
    options.check_every = 1;
    options.on_step_fault = [&](const replication::StepFault& fault) {
        faults.push_back(std::string(fault.component) + " " + fault.first + " " + fault.second);
    };
    PlaySession session(play_schema(), steady(50ms), 1, 1, 0, options);
    Player& player = *session.players[0];
    player.on_frame = PlaySession::wander(1);
    session.run(10s);
    EXPECT_EQ(faults, std::vector<std::string>{});
    EXPECT_GT(player.client.prediction_stats().checks, 300u);
    EXPECT_EQ(player.client.prediction_stats().mispredictions, 0u);

    player.on_frame = [](Player& of) { of.client.input(Helm{}); };
    session.run(2s);
    std::uint32_t runs = 0;
    player.client.on_step([&](const Step& step) {
        sail(step);
        step.each<Dashes>([&](Dashes& dashes) { dashes.count = ++runs; });
    });
    session.run(100ms);
    ASSERT_FALSE(faults.empty());
    EXPECT_EQ(faults[0], "dashes {1} {2}");
}

// Goal: a client keeps its own result while it is near enough. Method: the server pushes the ship by less and
// by more than the tolerance.
TEST(Prediction, AResultWithinTheToleranceIsNotCorrected) {
    replication::Schema schema;
    schema.component<Spot>("spot", replication::predicted(0.5), replication::linear());
    schema.component<Speed>("speed", replication::predicted());
    schema.component<Dashes>("dashes", replication::predicted());
    schema.input<Helm>("helm", replication::bounded(-1, 1));
    PlaySession session(std::move(schema), steady(50ms), 1);
    Player& player = *session.players[0];
    player.on_frame = [](Player& of) { of.client.input(Helm{}); };
    session.run(4s);
    const auto push = [&](float by) {
        session.world.patch<Spot>(session.ship(player), [&](Spot& spot) { spot.x += by; });
        session.run(1s);
        return player.client.prediction_stats().mispredictions;
    };
    const auto error = [&] {
        return session.world.get<Spot>(session.ship(player)).x -
               player.world.get<Spot>(session.replica(player)).x;
    };
    EXPECT_EQ(push(0.4f), 0u);
    EXPECT_FLOAT_EQ(error(), 0.4f);
    EXPECT_EQ(push(0.2f), 1u);
    EXPECT_EQ(error(), 0);
}

TEST(Prediction, RandomNumbersOfAStepAreEqualOnBothSides) {
    replication::Schema schema;
    schema.component<Spot>("spot", replication::predicted());
    schema.component<Speed>("speed", replication::predicted());
    schema.component<Dashes>("dashes", replication::predicted());
    schema.input<Helm>("helm", replication::bounded(-1, 1));
    const auto step = [](const Step& of) {
        of.each<Spot, Dashes>([&](ecs::Entity entity, Spot& spot, Dashes& dashes) {
            spot.x = static_cast<float>(of.random(entity) % 1'000);
            dashes.count = static_cast<std::uint32_t>(of.random(entity, 1));
        });
    };
    PlaySession session(std::move(schema), far_away(), 2);
    session.server.on_step(step);
    for (const auto& player : session.players) {
        player->client.on_step(step);
        player->on_frame = PlaySession::wander(1);
    }
    session.run(10s);
    for (const auto& player : session.players) {
        EXPECT_GT(player->client.prediction_stats().checks, 100u);
        EXPECT_EQ(player->client.prediction_stats().mispredictions, 0u);
    }
}

}  // namespace
}  // namespace shoal::sim::prediction_test
