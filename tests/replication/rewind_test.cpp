#include "replication/show/rewind.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "replication/play/players.h"
#include "tests/sim/play_session.h"

namespace shoal::replication::impl {
namespace {

struct Whereabouts {
    float x = 0;
};
struct Private {
    int number = 0;
};
struct Score {
    int points = 0;
};
struct Gauge {
    float level = 0;
};

Schema rewind_schema() {
    Schema schema;
    schema.component<Whereabouts>("whereabouts", linear(), predicted());
    schema.component<Private>("private", to_owner());
    schema.component<Score>("score");
    schema.component<Gauge>("gauge", linear(), to_owner());
    schema.tag<Mine>("mine", to_owner());
    return schema;
}

constexpr double kSlack = 6;  // two ticks, and 1/15 of a second

/// Two players who see an entity that moves by one unit per tick. Packets to the second one arrive.
struct Shooting {
    Shooting() {
        for (std::uint32_t i = 0; i < 2; ++i) {
            peers.push_back(sender.add_peer());
            ids.push_back(PlayerId{(1u << 16) | i});
            players.add(ids[i], peers[i]);
        }
    }
    void tick(bool reaches_first) {
        if (now % every == 0) world.set(target, Whereabouts{static_cast<float>(now)});
        sender.update(now++);
        std::byte room[1300];
        for (std::size_t i = 0; i < 2; ++i) {
            const std::uint64_t first = number;
            while (!sender.encode(peers[i], number, 1100, room).empty()) ++number;
            for (std::uint64_t sent = first; sent < number; ++sent)
                sender.on_fate(peers[i], sent, i == 1 || reaches_first);
        }
    }
    std::optional<float> sees(std::size_t player, std::optional<double> time) {
        std::optional<std::uint32_t> lag;
        if (time)
            lag = static_cast<std::uint32_t>((static_cast<double>(now) - *time) * RenderTime::kLagsPerTick);
        rewind.set_time(*players.find(ids[player]), now, lag);
        const auto seen = rewind.seen_by(ids[player]).get<Whereabouts>(target);
        return seen ? std::optional(seen->x) : std::nullopt;
    }

    const Schema schema = rewind_schema();
    ecs::World world;
    Sender sender{world, schema, {.keeps_deliveries = true}};
    Players players;
    Rewind rewind{world, schema, sender, players, 16'667, 24};
    std::vector<Sender::Peer> peers;
    std::vector<PlayerId> ids;
    ecs::Entity target = world.spawn(Replicated{}, Whereabouts{}, Private{3});
    Tick now = 1, every = 1;
    std::uint64_t number = 1;
};

TEST(Rewind, Trap43AVersionThatTheShooterDidNotGetIsNotUsed) {
    Shooting shooting;
    for (int i = 1; i <= 20; ++i) shooting.tick(i != 15 && i != 16 && i != 17);
    shooting.world.set(shooting.target, Whereabouts{100});
    EXPECT_FLOAT_EQ(*shooting.sees(1, 15.5), 15.5f);
    // The first player holds 14, then goes to 18 within its usual interval, one tick.
    EXPECT_FLOAT_EQ(*shooting.sees(0, 15.5), 14);
    shooting.now += 1;
    EXPECT_FLOAT_EQ(*shooting.sees(0, 16.5), 14) << "a mean gap of one tick: 18 comes within the last one";
    shooting.now += 1;
    EXPECT_GT(*shooting.sees(0, 17.5), 14);
    EXPECT_EQ(shooting.players.find(shooting.ids[0])->seen.stats.breaches, 0u);
}

// Goal: a ship that another player steers is rewound. Its owner shows it ahead, but everyone else delayed.
TEST(Rewind, AnEntityOfAnotherPlayerIsRewound) {
    Shooting shooting;
    shooting.sender.set_owner(shooting.target, shooting.peers[0]);
    shooting.world.add<Mine>(shooting.target);
    for (int i = 1; i <= 20; ++i) shooting.tick(true);
    shooting.world.set(shooting.target, Whereabouts{100});
    EXPECT_FLOAT_EQ(*shooting.sees(1, 15.5), 15.5f);
    EXPECT_FLOAT_EQ(*shooting.sees(0, 15.5), 100) << "its own";
    shooting.sender.set_predictor(shooting.peers[1], shooting.target, true);
    EXPECT_FLOAT_EQ(*shooting.sees(1, 15.5), 100) << "it predicts the entity";
}

// A ship rests while only its owner sees a change of it, and the history forgets what was before the change.
TEST(Rewind, AChangeThatThePlayerDoesNotSeeHidesNothing) {
    Shooting shooting;
    shooting.sender.set_owner(shooting.target, shooting.peers[0]);
    shooting.every = 1'000'000;
    for (int i = 1; i <= 2'000; ++i) {
        if (i % 300 == 0) shooting.world.set(shooting.target, Private{i});
        shooting.tick(true);
        if (i < 30) continue;
        ASSERT_TRUE(shooting.sees(1, shooting.now - 5.0)) << "tick " << i;
    }
}

TEST(Rewind, APlayerThatLeavesHasSeenNothing) {
    Shooting shooting;
    for (int i = 1; i <= 20; ++i) shooting.tick(true);
    EXPECT_TRUE(shooting.sees(1, 15.5));
    const Past past = shooting.rewind.seen_by(shooting.ids[1]);
    EXPECT_TRUE(past.get<Whereabouts>(shooting.target));
    shooting.players.remove(*shooting.players.find(shooting.ids[1]));
    EXPECT_FALSE(past.get<Whereabouts>(shooting.target));
}

TEST(Rewind, Trap44ATimeThatNobodyCanSeeIsClampedAndCounted) {
    Shooting shooting;
    for (int i = 1; i <= 60; ++i) shooting.tick(i <= 58);
    EXPECT_FLOAT_EQ(*shooting.sees(0, 60.0), 58) << "newer than the newest acknowledged state";
    EXPECT_EQ(shooting.players.find(shooting.ids[0])->seen.stats.breaches, 1u);
    EXPECT_FLOAT_EQ(*shooting.sees(1, 2.0), 61 - 24) << "too old";
    EXPECT_EQ(shooting.players.find(shooting.ids[1])->seen.stats.breaches, 1u);
    // Back at 37; a jump to 55 in 5 ticks is too fast, and so is one that never was stated.
    for (int i = 0; i < 5; ++i) shooting.tick(true);
    EXPECT_NEAR(*shooting.sees(1, 55.0), 37 + kSlack + 5 * 1.1, 0.1);
    EXPECT_EQ(shooting.players.find(shooting.ids[1])->seen.stats.breaches, 2u);
    EXPECT_NEAR(*shooting.sees(1, 47.0), 47, 0.1);
    EXPECT_EQ(shooting.players.find(shooting.ids[1])->seen.stats.breaches, 2u);
}

TEST(Rewind, WhatThePlayerDidNotHaveIsAbsent) {
    Shooting shooting;
    for (int i = 1; i <= 30; ++i) shooting.tick(i > 20);
    EXPECT_EQ(shooting.sees(0, 19.0), std::nullopt);
    shooting.now += 1;
    EXPECT_TRUE(shooting.sees(0, 22.0));
    const Past past = shooting.rewind.seen_by(shooting.ids[0]);
    EXPECT_FALSE(past.get<Private>(shooting.target)) << "only its owner sees it";
    EXPECT_FALSE(past.get<Whereabouts>({}));
    EXPECT_FALSE(shooting.rewind.seen_by({}).get<Whereabouts>(shooting.target));
    EXPECT_FLOAT_EQ(*shooting.sees(1, std::nullopt), 30) << "a client that does not interpolate";
    shooting.sender.set_owner(shooting.target, shooting.peers[0]);
    shooting.world.set(shooting.target, Whereabouts{50});
    EXPECT_FLOAT_EQ(*shooting.sees(0, 25.0), 50) << "its own entity is not rewound";
    EXPECT_EQ(past.get<Private>(shooting.target)->number, 3);
}

// Goal: the past of a tick is what the client showed when it made the input of exactly this tick. Method:
// frames and ticks have different lengths, so the lag of each input differs from that of the input before.
TEST(Rewind, TheServerUsesTheLagOfTheInputOfItsTick) {
    net::LinkConfig link;
    link.latency = std::chrono::milliseconds(30);
    sim::PlaySession session(sim::play_schema(), link, 1);
    sim::PlaySession::Player& player = *session.players[0];
    player.frame = std::chrono::milliseconds(10);
    const ecs::Entity target = session.world.spawn(sim::Spot{}, Replicated{});
    std::map<Tick, float> shown;
    player.on_frame = [&](sim::PlaySession::Player& self) {
        const ecs::Entity replica = self.client.receiver().entity(session.server.sender().net_id(target));
        const auto spot = replica ? self.client.sample<sim::Spot>(replica) : std::nullopt;
        // The input of the next tick is made while this is shown.
        const auto tick = self.client.predicted_tick();
        if (spot && tick) shown[*tick + 1] = spot->x;
        self.client.input(sim::Helm{});
    };
    int compared = 0, equal = 0;
    session.server.on_step([&](const Step& step) {
        const float per_tick = 0.5f, x = per_tick * static_cast<float>(step.tick % 190) - 47;
        session.world.set(target, sim::Spot{x, 0});
        session.server.for_each_peer([&](PlayerId id) {
            const auto known = shown.find(step.tick);
            const auto past = session.server.seen_by(id).get<sim::Spot>(target);
            if (known == shown.end() || !past || step.tick < 120) return;
            compared += 1;
            equal += std::abs(past->x - known->second) <= per_tick / 16 + 0.011f;
        });
    });
    session.run(std::chrono::seconds(10));
    EXPECT_GT(compared, 400);
    EXPECT_GT(equal, compared * 9 / 10);
}

struct Unknown {
    int number = 0;
};  // not in the schema

TEST(Rewind, AComponentThatIsNotInTheSchemaIsSeenOnlyWhereTheClientIsAheadOfTheServer) {
    Shooting shooting;
    shooting.world.set(shooting.target, Unknown{5});
    for (int i = 1; i <= 20; ++i) shooting.tick(true);
    EXPECT_TRUE(shooting.sees(0, 15.0));
    EXPECT_FALSE(shooting.rewind.seen_by(shooting.ids[0]).get<Unknown>(shooting.target));
    shooting.sender.set_owner(shooting.target, shooting.peers[0]);
    EXPECT_TRUE(shooting.rewind.seen_by(shooting.ids[0]).get<Unknown>(shooting.target));
    EXPECT_FALSE(shooting.rewind.seen_by(shooting.ids[0]).get<Score>(shooting.target)) << "it has none";
}

TEST(Rewind, APlayerThatComesBackStartsAgain) {
    Shooting shooting;
    for (int i = 1; i <= 60; ++i) shooting.tick(true);
    EXPECT_TRUE(shooting.sees(1, 2.0));
    EXPECT_EQ(shooting.players.find(shooting.ids[1])->seen.stats.breaches, 1u);
    shooting.players.find(shooting.ids[1])->seen = {};
    EXPECT_EQ(shooting.players.find(shooting.ids[1])->seen.stats.breaches, 0u);
    EXPECT_FLOAT_EQ(*shooting.sees(1, 58.0), 58) << "its time may be any";
    EXPECT_EQ(shooting.players.find(shooting.ids[1])->seen.stats.breaches, 0u);
}

TEST(Rewind, ATimeThatWentBackReturnsAtMostATenthFasterThanTheServer) {
    Shooting shooting;
    for (int i = 1; i <= 60; ++i) shooting.tick(true);
    EXPECT_FLOAT_EQ(*shooting.sees(1, 56.0), 56);
    shooting.tick(true);
    EXPECT_FLOAT_EQ(*shooting.sees(1, 42.0), 42) << "a lag of 20 ticks";
    EXPECT_EQ(shooting.players.find(shooting.ids[1])->seen.stats.breaches, 0u);
    for (int i = 1; i <= 10; ++i) {
        shooting.tick(true);
        const double most = static_cast<double>(shooting.now) - (20 - kSlack - 0.1 * i);
        EXPECT_NEAR(*shooting.sees(1, most + 1), most, 0.01) << i;
        EXPECT_EQ(shooting.players.find(shooting.ids[1])->seen.stats.breaches, static_cast<std::uint64_t>(i));
    }
}

// Goal: no sequence of inputs and actions moves the time of a player faster than documented. Method: a client
// states any lag, or none, in each tick, for its input and for actions.
TEST(Rewind, ALyingClientCannotMoveItsTimeFaster) {
    for (const int liar : {0, 1, 2, 3}) {
        Shooting shooting;
        shooting.world.set(shooting.target, Whereabouts{0});
        for (int i = 1; i <= 60; ++i) shooting.tick(true);
        std::mt19937 random(static_cast<std::uint32_t>(liar));
        std::vector<std::pair<Tick, float>> seen;
        const auto note = [&] {
            const auto place = shooting.rewind.seen_by(shooting.ids[0]).get<Whereabouts>(shooting.target);
            if (place) seen.emplace_back(shooting.now, place->x);
        };
        for (int i = 0; i < 300; ++i) {
            shooting.tick(true);
            const auto lag = [&]() -> std::optional<std::uint32_t> {
                const bool states = liar == 0 ? i % 2 == 0 : random() % 3 != 0;
                return states ? std::optional(liar == 0 ? 272 : static_cast<std::uint32_t>(random() % 500))
                              : std::nullopt;
            };
            if (liar != 3)
                shooting.rewind.set_time(*shooting.players.find(shooting.ids[0]), shooting.now, lag());
            if (liar != 3) note();
            if (liar < 2) continue;
            const Tick made_for = shooting.now - static_cast<Tick>(random() % 40);
            shooting.rewind.look(shooting.ids[0], made_for, lag(), shooting.now);
            note();
        }
        ASSERT_GT(seen.size(), 250u);
        double fastest = 0;
        for (std::size_t i = 20; i < seen.size(); ++i)  // it has stated something
            for (std::size_t j = i + 1; j < std::min(seen.size(), i + 60); ++j)
                fastest = std::max(fastest, static_cast<double>(seen[j].second - seen[i].second) -
                                                1.1 * (seen[j].first - seen[i].first));
        EXPECT_LE(fastest, kSlack + (liar == 2 ? 1 : 0) + 0.1) << liar;
        EXPECT_GT(shooting.players.find(shooting.ids[0])->seen.stats.breaches, 20u);
    }
}

TEST(Rewind, StateThatTheClientLackedIsContinuedAsOnTheClient) {
    Shooting shooting;
    const ecs::Entity other = shooting.world.spawn(Replicated{}, Whereabouts{});
    shooting.every = 4;
    for (int i = 1; i <= 50; ++i) {
        shooting.world.set(other, Whereabouts{static_cast<float>(i)});  // a payload in each tick
        shooting.tick(true);
    }
    EXPECT_FLOAT_EQ(*shooting.sees(1, 46.5), 46.5f) << "between 44 and 48";
    EXPECT_FLOAT_EQ(*shooting.sees(0, 49.5), 49.5f) << "after 48";
    shooting.every = 1'000;
    for (int i = 51; i <= 60; ++i) {
        shooting.world.set(other, Whereabouts{static_cast<float>(i)});
        shooting.tick(true);
    }
    EXPECT_FLOAT_EQ(*shooting.sees(0, 50.5), 48) << "the client knows that it stopped";
    Shooting uneven;
    const ecs::Entity steady = uneven.world.spawn(Replicated{}, Whereabouts{});
    uneven.every = 2;
    for (int i = 1; i <= 48; ++i) {
        uneven.world.set(steady, Whereabouts{static_cast<float>(i)});
        if (i == 47) uneven.world.set(uneven.target, Whereabouts{48});
        if (i == 48) uneven.every = 1'000;
        uneven.tick(true);
    }
    EXPECT_FLOAT_EQ(*uneven.sees(1, 47.5), 49) << "as from 46 to 47";
}

TEST(Rewind, AVersionIsAsOldAsTheRecordWithIt) {
    Shooting shooting;
    for (int i = 1; i <= 14; ++i) shooting.tick(i != 14);
    shooting.every = 1'000;  // it stays at 14
    for (int i = 15; i <= 20; ++i) shooting.tick(true);
    EXPECT_FLOAT_EQ(*shooting.sees(1, 14.5), 14);
    EXPECT_FLOAT_EQ(*shooting.sees(0, 14.5), 13.75f) << "13 until the record of 15";
}

TEST(Rewind, OnlyWhatTheClientShowsLateIsRewound) {
    Shooting shooting;
    ecs::World& world = shooting.world;
    const ecs::Entity still = world.spawn(Replicated{}, Score{}), hidden = world.spawn(Replicated{}, Score{});
    world.set(hidden, Gauge{});
    for (int i = 1; i <= 20; ++i) {
        for (const ecs::Entity entity : {still, hidden}) world.set(entity, Score{i});
        world.set(hidden, Gauge{static_cast<float>(i)});
        if (i >= 18) world.set(shooting.target, Score{i});
        shooting.tick(true);
    }
    for (const ecs::Entity entity : {still, hidden, shooting.target}) world.set(entity, Score{100});
    EXPECT_FLOAT_EQ(*shooting.sees(1, 15.5), 15.5f);
    const Past past = shooting.rewind.seen_by(shooting.ids[1]);
    EXPECT_EQ(past.get<Score>(still)->points, 20) << "its newest version is shown";
    EXPECT_EQ(past.get<Score>(hidden)->points, 20) << "only its owner shows it late";
    EXPECT_FALSE(past.get<Gauge>(hidden));
    EXPECT_FALSE(past.get<Score>(shooting.target)) << "the entity had none at that time";
    EXPECT_FLOAT_EQ(*shooting.sees(0, 19.5), 19.5f);
    EXPECT_EQ(shooting.rewind.seen_by(shooting.ids[0]).get<Score>(shooting.target)->points, 19)
        << "not mixed";
    EXPECT_FLOAT_EQ(*shooting.sees(0, 19.0), 19);
    EXPECT_EQ(shooting.rewind.seen_by(shooting.ids[0]).get<Score>(shooting.target)->points, 19)
        << "at a whole tick";
    EXPECT_FLOAT_EQ(*shooting.sees(0, std::nullopt), 20) << "a client that does not interpolate any more";
    EXPECT_EQ(shooting.rewind.seen_by(shooting.ids[0]).get<Score>(shooting.target)->points, 20);
}

TEST(Rewind, APlayerThatHasNothingYetSeesNothing) {
    Shooting shooting;
    shooting.now = 0xffff'fffa;  // tick 0 is one of the first
    for (int i = 1; i <= 20; ++i) shooting.tick(i > 12);
    EXPECT_EQ(shooting.sees(0, 5.0), std::nullopt) << "the first record is that of tick 6";
    shooting.now += 1;
    EXPECT_FLOAT_EQ(*shooting.sees(0, 7.5), 7.5f);
    Shooting other;
    other.now = 0xffff'fffa;
    for (int i = 1; i <= 20; ++i) other.tick(false);
    for (const std::optional<double> time : {std::optional(5.0), std::optional<double>()})
        EXPECT_EQ(other.sees(0, time), std::nullopt);
    EXPECT_EQ(other.players.find(other.ids[0])->seen.stats.breaches, 0u);
}

}  // namespace
}  // namespace shoal::replication::impl
