// Players lose their connections, change their addresses, crash and come back, while they act over a bad
// network.

#include <gtest/gtest.h>

#include <vector>

#include "tests/sim/play_session.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session.h"
#include "tests/sim/shooters.h"

namespace shoal::sim::resume_test {
namespace {

using replication::Phase;
using shooters::Ammunition;
using shooters::Calls;
using shooters::count_shots;
using shooters::Log;
using shooters::lose_shots;

// Goal: whatever happens to connections and processes, there is one seat for each player, each action runs at
// most once and in order, no shot exists on one side only, and at rest all worlds agree. A client that
// kept its process loses no action but by a rejection. Strangers with guessed tickets change nothing.
TEST(ResumeSimulation, SeatsOutliveConnectionsAndProcesses) {
    std::uint32_t kept = 0, restarted = 0, lost = 0, ran = 0;
    for (const std::uint64_t seed : kind_seeds(50)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", SHOAL_KIND_SEEDS=" << seed << ":1");
        Random random(seed);
        const replication::Schema schema = shooters::schema();
        const net::LinkConfig link = bad_link(random);
        replication::ServerOptions options = shooters::options();
        options.host.connection.timeout = std::chrono::seconds(2);
        options.host.connection.keep_alive = std::chrono::milliseconds(250);
        Session session(schema, link, 3, seed, {}, options);
        replication::Server& server = session.server();
        ecs::World& world = session.world();
        Log log;
        log.watch(server);
        std::uint32_t joins = 0, leaves = 0, aways = 0, backs = 0;
        server.on_join([&](replication::PlayerId) {
            ++joins;
            return world.spawn(Ammunition{3}, replication::Replicated{});
        });
        server.on_leave([&](replication::PlayerId) { ++leaves; });
        server.on_away([&](replication::PlayerId) { ++aways; });
        server.on_back([&](replication::PlayerId) { ++backs; });
        std::vector<ecs::Entity> things;
        for (int i = 0; i < 60; ++i) things.push_back(world.spawn(replication::Replicated{}, Position{}));
        session.let_join();
        ASSERT_EQ(joins, 3u);
        std::vector<Calls> calls(3);
        bool has_crashed = false;
        for (int tick = 0; tick < 900; ++tick) {
            for (std::size_t i = 0; i < 3; ++i) {
                replication::Client& client = session.guests()[i]->client;
                calls[i].draw(client, random);
                // A crash: another process, at another address, with the ticket that was kept.
                if (random.chance(0.002) && !client.ticket().empty() && client.phase() == Phase::playing) {
                    const std::vector<std::byte> ticket = client.ticket();
                    session.restart(i).client.connect(session.at_server(), ticket);
                    has_crashed = true;
                    ++restarted;
                } else if (random.chance(0.004) && client.phase() == Phase::playing) {
                    client.connect(session.at_server(), client.ticket());
                    ++kept;
                } else if (client.phase() == Phase::disconnected) {
                    client.connect(session.at_server(), client.ticket());
                    ++lost;
                }
            }
            // The path breaks for longer than the timeout.
            if (tick == 400) session.set_link({.loss = 1});
            if (tick == 640) session.set_link(link);
            for (ecs::Entity& thing : things) {
                if (random.chance(0.02))
                    world.set(thing, Position{static_cast<float>(random.below(50)), 0, 0});
                if (random.chance(0.002)) {
                    world.destroy(thing);
                    thing = world.spawn(replication::Replicated{}, Position{});
                }
            }
            lose_shots(world, random);
            session.step();
        }
        for (int tick = 0; tick < 900; ++tick) {
            for (const auto& guest : session.guests())
                if (guest->client.phase() == Phase::disconnected)
                    guest->client.connect(session.at_server(), guest->client.ticket());
            session.step();
        }
        session.let_join();
        for (int tick = 0; tick < 300; ++tick) session.step();
        EXPECT_EQ(joins, 3u);
        EXPECT_EQ(leaves, 0u);
        EXPECT_EQ(aways, backs);
        const std::uint32_t shots = count_shots(world);
        session.expect_agreement(shots + 63);
        for (std::size_t i = 0; i < 3; ++i) {
            const replication::Client& client = session.guests()[i]->client;
            EXPECT_EQ(client.phase(), Phase::playing) << client.failure();
            EXPECT_EQ(count_shots(session.guests()[i]->world), shots) << "a shot that only one side has";
            const replication::impl::ClientActions::Stats& stats = client.action_stats();
            EXPECT_EQ(stats.accepted + stats.rejected + stats.dropped, stats.done) << "all have an answer";
        }
        log.expect_order();
        ran += log.accepted + log.rejected + log.cheers;
        if (!has_crashed) {
            EXPECT_EQ(log.cheers, calls[0].cheered + calls[1].cheered + calls[2].cheered)
                << "no cheer is lost";
        }
    }
    EXPECT_GT(kept, 20u);
    EXPECT_GT(restarted, 5u);
    EXPECT_GT(lost, 5u);
    EXPECT_GT(ran, 1'000u);
}

// Goal: a player that comes back steers and predicts its ship as before.
TEST(ResumeSimulation, InputsAndPredictionGoOn) {
    net::LinkConfig link;
    link.latency = std::chrono::milliseconds(50);
    link.jitter = std::chrono::milliseconds(10);
    link.loss = 0.05;
    PlaySession session(play_schema(), link, 2);
    for (std::size_t i = 0; i < 2; ++i) session.players[i]->on_frame = PlaySession::wander(i);
    session.run(std::chrono::seconds(4));
    PlaySession::Player& player = *session.players[0];
    const ecs::Entity replica = session.replica(player), ship = session.ship(player);
    ASSERT_TRUE(replica && ship);
    for (int round = 0; round < 5; ++round) {
        ASSERT_FALSE(player.client.ticket().empty());
        player.client.connect(session.at_server(), player.client.ticket());
        session.run(std::chrono::seconds(3));
        ASSERT_EQ(player.client.phase(), Phase::playing) << player.client.failure();
        EXPECT_EQ(session.replica(player), replica);
        EXPECT_EQ(session.ship(player), ship);
        EXPECT_TRUE(player.client.is_predicting());
        const auto before = session.input_stats(player);
        session.run(std::chrono::seconds(1));
        EXPECT_GT(session.input_stats(player).in_time, before.in_time + 50);
        EXPECT_EQ(session.input_stats(player).neutral, before.neutral);
    }
    for (const auto& each : session.players)
        each->on_frame = [](PlaySession::Player& at_rest) { at_rest.client.input(Helm{}); };
    session.run(std::chrono::seconds(2));
    for (const auto& each : session.players) EXPECT_TRUE(session.agrees(*each));
}

}  // namespace
}  // namespace shoal::sim::resume_test
