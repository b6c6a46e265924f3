// Players lose their connections, change their addresses, crash and come back, while they act over a bad
// network.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ecs/query.h"
#include "replication/action/action.h"
#include "tests/sim/game.h"
#include "tests/sim/play_session.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session.h"

namespace shoal::sim::resume_test {
namespace {

using replication::Act;
using replication::Phase;

struct Coins {
    std::int32_t left = 0;
};
struct Treasure {  // a thing in the ground
    std::uint32_t number = 0;
};
struct Bury {
    std::uint32_t number = 0;
    std::string validate(const Act& act) const {
        const Coins* coins = act.world.try_get<Coins>(act.player);
        return coins && coins->left > 0 ? "" : "no coins";
    }
    ecs::Entity mutate(Act& act) const {
        act.world.patch<Coins>(act.player, [](Coins& coins) { coins.left -= 1; });
        return act.spawn(Treasure{number});
    }
};
struct Earn {
    std::uint32_t number = 0;
    void mutate(Act& act) const {
        act.world.patch<Coins>(act.player, [](Coins& coins) { coins.left += 2; });
    }
};
struct Whistle {
    std::uint32_t number = 0;
};

replication::Schema treasure_schema() {
    replication::Schema schema;
    schema.component<Coins>("coins", replication::bounded(-100, 1000));
    schema.component<Treasure>("treasure");
    schema.component<Position>("position");
    schema.action<Bury>("bury", replication::at_most(1000));
    schema.action<Earn>("earn", replication::at_most(1000));
    schema.action<Whistle>("whistle", replication::independent(), replication::at_most(1000));
    return schema;
}

struct Diary {
    std::map<std::uint32_t, int> ran;  // on the server: number of an action -> times
    std::vector<std::uint32_t> order, whistles;
};

// Goal: whatever happens to connections and processes, there is one seat for each player, each action runs at
// most once and in order, no treasure exists on one side only, and at rest all worlds agree. A client that
// kept its process loses no action but by a rejection. Strangers with guessed tickets change nothing.
TEST(ResumeSimulation, SeatsOutliveConnectionsAndProcesses) {
    std::uint32_t kept = 0, restarted = 0, lost = 0, ran = 0;
    for (const std::uint64_t seed : kind_seeds(12)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", SHOAL_KIND_SEEDS=" << seed << ":1");
        Random random(seed);
        const replication::Schema schema = treasure_schema();
        net::LinkConfig link;
        link.latency = std::chrono::milliseconds(random.below(100));
        link.jitter = std::chrono::milliseconds(random.below(40));
        link.loss = random.below(3) * 0.1;
        link.duplicate = 0.05;
        replication::ServerOptions options;
        options.actions = {1000, 1000, 1000};
        options.host.connection.timeout = std::chrono::seconds(2);
        Session session(schema, link, 3, seed, {}, options);
        replication::Server& server = session.server();
        ecs::World& world = session.world();
        std::map<replication::PlayerId, Diary> diaries;
        std::uint32_t joins = 0, leaves = 0, aways = 0, backs = 0;
        server.on_join([&](replication::PlayerId) {
            ++joins;
            return world.spawn(Coins{3}, replication::Replicated{});
        });
        server.on_leave([&](replication::PlayerId) { ++leaves; });
        server.on_away([&](replication::PlayerId) { ++aways; });
        server.on_back([&](replication::PlayerId) { ++backs; });
        server.on_action([&](const replication::ActionReport& report) {
            Diary& diary = diaries[report.player];
            const std::uint32_t number = *static_cast<const std::uint32_t*>(report.action);
            ++ran;
            if (report.name == "whistle") return diary.whistles.push_back(number);
            diary.ran[number] += 1;
            diary.order.push_back(number);
        });
        std::vector<ecs::Entity> things;
        for (int i = 0; i < 60; ++i) things.push_back(world.spawn(replication::Replicated{}, Position{}));
        for (int tick = 0; tick < 300; ++tick) session.step();
        ASSERT_EQ(joins, 3u);
        std::vector<std::uint32_t> called(3), whistled(3);
        std::vector<bool> has_crashed(3);
        for (int tick = 0; tick < 900; ++tick) {
            for (std::size_t i = 0; i < 3; ++i) {
                replication::Client& client = session.guests()[i]->client;
                if (client.phase() == Phase::playing) {
                    if (random.chance(0.10)) client.act(Bury{++called[i]});
                    if (random.chance(0.03)) client.act(Earn{++called[i]});
                    if (random.chance(0.05)) client.act(Whistle{++whistled[i]});
                }
                // A crash: another process, at another address, with the ticket that was kept.
                if (random.chance(0.002) && !client.ticket().empty() && client.phase() == Phase::playing) {
                    const std::vector<std::byte> ticket = client.ticket();
                    session.restart(i).client.connect(session.at_server(), ticket);
                    has_crashed[i] = true;
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
            ecs::Query<const Treasure> treasures(world);
            if (random.chance(0.1)) {
                ecs::Entity first;
                treasures.each([&](ecs::Entity treasure, const Treasure&) { first = treasure; });
                if (first) world.destroy(first);
            }
            session.step();
        }
        for (int tick = 0; tick < 900; ++tick) {
            for (const auto& guest : session.guests())
                if (guest->client.phase() == Phase::disconnected)
                    guest->client.connect(session.at_server(), guest->client.ticket());
            session.step();
        }
        EXPECT_EQ(joins, 3u);
        EXPECT_EQ(leaves, 0u);
        EXPECT_EQ(aways, backs);
        ecs::Query<const Treasure> on_server(world);
        session.expect_agreement(on_server.count() + 63);
        for (std::size_t i = 0; i < 3; ++i) {
            const replication::Client& client = session.guests()[i]->client;
            EXPECT_EQ(client.phase(), Phase::playing) << client.failure();
            ecs::Query<const Treasure> seen(session.guests()[i]->world);
            EXPECT_EQ(seen.count(), on_server.count()) << "a treasure that only one side has";
            const replication::ClientActions::Stats& stats = client.action_stats();
            EXPECT_EQ(stats.accepted + stats.rejected + stats.dropped, stats.done) << "all have an answer";
        }
        for (const auto& [player, diary] : diaries) {
            for (const auto& [number, times] : diary.ran) EXPECT_EQ(times, 1) << "action " << number;
            EXPECT_TRUE(std::is_sorted(diary.order.begin(), diary.order.end()));
            EXPECT_TRUE(std::is_sorted(diary.whistles.begin(), diary.whistles.end()));
        }
        std::uint32_t uninterrupted = 0, whistles = 0, heard = 0;
        for (std::size_t i = 0; i < 3; ++i) whistles += whistled[i];
        for (const auto& [player, diary] : diaries)
            heard += static_cast<std::uint32_t>(diary.whistles.size());
        for (std::size_t i = 0; i < 3; ++i) uninterrupted += !has_crashed[i];
        if (uninterrupted == 3) {
            EXPECT_EQ(heard, whistles) << "no whistle is lost";
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
