// Actions over a bad network.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ecs/query.h"
#include "replication/action/action.h"
#include "tests/sim/game.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session.h"

namespace shoal::sim::actions_test {
namespace {

using replication::Act;
using replication::Call;

struct Ammunition {
    std::int32_t left = 0;
};
struct Shot {
    std::uint32_t number = 0;
};
struct Fire {
    std::uint32_t number = 0;
    std::string validate(const Act& act) const {
        const Ammunition* ammunition = act.world.try_get<Ammunition>(act.player);
        return ammunition && ammunition->left > 0 ? "" : "out of ammunition";
    }
    ecs::Entity mutate(Act& act) const {
        act.world.patch<Ammunition>(act.player, [](Ammunition& ammunition) { ammunition.left -= 1; });
        return act.spawn(Shot{number});
    }
};
struct Recharge {
    std::uint32_t number = 0;
    void mutate(Act& act) const {
        act.world.patch<Ammunition>(act.player, [](Ammunition& ammunition) { ammunition.left += 2; });
    }
};
struct Cheer {
    std::string text;
    std::uint32_t number = 0;
};

replication::Schema shooting_schema() {
    replication::Schema schema;
    schema.component<Ammunition>("ammunition", replication::bounded(-100, 1000));
    schema.component<Shot>("shot");
    schema.action<Fire>("fire", replication::at_most(1000));
    schema.action<Recharge>("recharge", replication::at_most(1000));
    schema.action<Cheer>("cheer", replication::independent(), replication::at_most(1000));
    return schema;
}

/// What one player did, and what became of it.
struct Log {
    std::uint32_t fired = 0, cheered = 0;  // numbers of the last ones called
    std::uint32_t rejected = 0;
    std::map<std::uint32_t, int> ran;   // on the server: number of a shot or recharge -> times
    std::vector<std::uint32_t> order;   // the same, in order
    std::vector<std::uint32_t> cheers;  // on the server
};

// Goal: over a network that loses, repeats, delays and reorders packets, each action runs at most once and in
// the order of its player, the others hear of each one that ran, and at rest all worlds agree, without
// bullets that only one side has.
TEST(ActionsSimulation, EachRunsOnceInOrderAndAllWorldsAgree) {
    std::uint32_t accepted = 0, rejected = 0;
    for (const std::uint64_t seed : kind_seeds(12)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", SHOAL_KIND_SEEDS=" << seed << ":1");
        Random random(seed);
        const replication::Schema schema = shooting_schema();
        net::LinkConfig link;
        link.latency = std::chrono::milliseconds(random.below(100));
        link.jitter = std::chrono::milliseconds(random.below(40));
        link.loss = random.below(3) * 0.1;
        link.duplicate = 0.05;
        replication::ServerOptions options;
        options.actions = {1000, 1000, 1000};
        Session session(schema, link, 3, seed, {}, options);
        replication::Server& server = session.server();
        ecs::World& world = session.world();
        std::map<replication::PlayerId, Log> logs;
        std::vector<replication::PlayerId> ids;
        std::vector<ecs::Entity> shots;
        server.on_join([&](replication::PlayerId player) {
            ids.push_back(player);
            return world.spawn(Ammunition{3}, replication::Replicated{});
        });
        server.on_action([&](const replication::ActionReport& report) {
            Log& log = logs[report.player];
            std::uint32_t number = 0;
            if (report.name == "cheer") {
                log.cheers.push_back(static_cast<const Cheer*>(report.action)->number);
                return;
            }
            number = report.name == "fire" ? static_cast<const Fire*>(report.action)->number
                                           : static_cast<const Recharge*>(report.action)->number;
            log.ran[number] += 1;
            log.order.push_back(number);
            (report.is_accepted ? accepted : rejected) += 1;
        });
        std::vector<std::uint32_t> called(3), cheered(3), heard(3), own(3);
        for (std::size_t i = 0; i < 3; ++i) {
            replication::Client& client = session.guests()[i]->client;
            client.on<Cheer>(
                [&, i](const Cheer&, const Call& call) { (call.is_mine ? own : heard)[i] += 1; });
            client.on_rejected<Fire>([&](const Fire&, std::string_view why) {
                EXPECT_TRUE(why == "out of ammunition" || why == "an earlier action was rejected") << why;
            });
        }
        for (int tick = 0; tick < 300; ++tick) session.step();  // everyone joins
        ASSERT_EQ(ids.size(), 3u);
        for (int tick = 0; tick < 400; ++tick) {
            for (std::size_t i = 0; i < 3; ++i) {
                replication::Client& client = session.guests()[i]->client;
                if (client.phase() != replication::Phase::playing) continue;
                if (random.chance(0.10)) client.act(Fire{++called[i]});
                if (random.chance(0.03)) client.act(Recharge{++called[i]});
                if (random.chance(0.05)) client.act(Cheer{"yes", ++cheered[i]});
            }
            ecs::Query<const Shot> flying(world);
            if (random.chance(0.1)) {
                ecs::Entity first;
                flying.each([&](ecs::Entity shot, const Shot&) { first = shot; });
                if (first) world.destroy(first);
            }
            session.step();
        }
        for (int tick = 0; tick < 600; ++tick) session.step();
        ecs::Query<const Shot> on_server(world);
        session.expect_agreement(on_server.count() + 3);
        std::uint32_t cheers = 0;
        for (const std::uint32_t count : cheered) cheers += count;
        for (std::size_t i = 0; i < 3; ++i) {
            const auto& guest = session.guests()[i];
            ecs::Query<const Shot> seen(guest->world);
            EXPECT_EQ(seen.count(), on_server.count())
                << "a shot without the server's, or one that is missing";
            EXPECT_EQ(own[i], cheered[i]);
            EXPECT_EQ(heard[i], cheers - cheered[i]) << "each cheer of the others once";
        }
        for (const auto& [player, log] : logs) {
            for (const auto& [number, times] : log.ran) EXPECT_EQ(times, 1) << "action " << number;
            EXPECT_TRUE(std::is_sorted(log.order.begin(), log.order.end()));
            EXPECT_TRUE(std::is_sorted(log.cheers.begin(), log.cheers.end()));
        }
    }
    EXPECT_GT(accepted, 200u);
    EXPECT_GT(rejected, 50u);
}

// Goal: the handlers for the actions of others run at the render time: the world then has the versions of the
// action's tick. Method: an entity says the server's tick in each tick.
TEST(ActionsSimulation, OthersHearAnActionWhenTheirScreenShowsItsTick) {
    for (const std::uint64_t seed : kind_seeds(4)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", SHOAL_KIND_SEEDS=" << seed << ":1");
        Random random(seed);
        replication::Schema schema;
        schema.component<Position>("position", replication::linear());
        schema.action<Cheer>("cheer", replication::independent(), replication::at_most(1000));
        net::LinkConfig link;
        link.latency = std::chrono::milliseconds(random.below(100));
        link.jitter = std::chrono::milliseconds(random.below(30));
        link.loss = random.below(2) * 0.05;
        Session session(schema, link, 2, seed);
        const ecs::Entity clock = session.world().spawn(Position{}, replication::Replicated{});
        session.server().on_step([&](const replication::Step& step) {
            session.world().set(clock, Position{static_cast<float>(step.tick), 0, 0});
        });
        std::uint32_t heard = 0, punctual = 0, called = 0;
        for (const auto& guest : session.guests()) {
            replication::Client& client = guest->client;
            client.on<Cheer>([&](const Cheer&, const Call& call) {
                if (call.is_mine) return;
                const ecs::Entity replica = client.receiver().entity(session.server().assign_net_id(clock));
                const float shown = guest->world.get<Position>(replica).x - static_cast<float>(call.tick);
                EXPECT_FALSE(replication::is_newer(call.tick, client.render_time()->tick));
                heard += 1;
                punctual += shown >= -1 && shown <= 2;  // the version of this tick may be lost
            });
        }
        for (int tick = 0; tick < 300; ++tick) session.step();
        for (int tick = 0; tick < 600; ++tick) {
            for (const auto& guest : session.guests())
                if (random.chance(0.1)) guest->client.act(Cheer{"yes", ++called});
            session.step();
        }
        for (int tick = 0; tick < 60; ++tick) session.step();
        EXPECT_EQ(heard, called);
        EXPECT_GT(punctual, heard * 9 / 10);
    }
}

}  // namespace
}  // namespace shoal::sim::actions_test
