// Actions over a bad network.

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "tests/sim/seeds.h"
#include "tests/sim/session.h"
#include "tests/sim/shooters.h"

namespace shoal::sim::actions_test {
namespace {

using replication::Call;
using shooters::Ammunition;
using shooters::Calls;
using shooters::Cheer;
using shooters::count_shots;
using shooters::Fire;
using shooters::Log;
using shooters::lose_shots;

// Goal: over a network that loses, repeats, delays and reorders packets, each action runs at most once and in
// the order of its player, the others hear of each one that ran, and at rest all worlds agree, without
// bullets that only one side has.
TEST(ActionsSimulation, EachRunsOnceInOrderAndAllWorldsAgree) {
    std::uint32_t accepted = 0, rejected = 0;
    for (const std::uint64_t seed : kind_seeds(50)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", SHOAL_KIND_SEEDS=" << seed << ":1");
        Random random(seed);
        const replication::Schema schema = shooters::schema();
        Session session(schema, bad_link(random), 3, seed, {}, shooters::options());
        std::uint32_t joins = 0;
        session.server().on_join([&](replication::PlayerId) {
            joins += 1;
            return session.world().spawn(Ammunition{3}, replication::Replicated{});
        });
        Log log;
        log.watch(session.server());
        std::vector<Calls> calls(3);
        std::vector<std::uint32_t> heard(3), own(3);
        for (std::size_t i = 0; i < 3; ++i) {
            replication::Client& client = session.guests()[i]->client;
            client.on<Cheer>(
                [&, i](const Cheer&, const Call& call) { (call.is_mine ? own : heard)[i] += 1; });
            client.on_rejected<Fire>([&](const Fire&, std::string_view why) {
                EXPECT_TRUE(why == "out of ammunition" || why == "an earlier action was rejected") << why;
            });
        }
        session.let_join();
        ASSERT_EQ(joins, 3u);
        for (int tick = 0; tick < 400; ++tick) {
            for (std::size_t i = 0; i < 3; ++i) calls[i].draw(session.guests()[i]->client, random);
            lose_shots(session.world(), random);
            session.step();
        }
        for (int tick = 0; tick < 600; ++tick) session.step();
        const std::uint32_t shots = count_shots(session.world());
        session.expect_agreement(shots + 3);
        const std::uint32_t cheers = calls[0].cheered + calls[1].cheered + calls[2].cheered;
        std::uint64_t heard_or_lost = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            EXPECT_EQ(count_shots(session.guests()[i]->world), shots)
                << "a shot without the server's, or one that is missing";
            EXPECT_EQ(own[i], calls[i].cheered);
            EXPECT_LE(heard[i], cheers - calls[i].cheered) << "each cheer of the others once";
            heard_or_lost += heard[i];
        }
        session.server().for_each_peer([&](replication::PlayerId player) {
            heard_or_lost += session.server().stats(player).actions.lost_events;
        });
        EXPECT_GE(heard_or_lost, 2 * cheers) << "a cheer that is not heard is counted, as shots are";
        log.expect_order();
        accepted += log.accepted;
        rejected += log.rejected;
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
        session.let_join();
        for (int tick = 0; tick < 600; ++tick) {
            for (const auto& guest : session.guests())
                if (random.chance(0.1)) guest->client.act(Cheer{++called});
            session.step();
        }
        for (int tick = 0; tick < 60; ++tick) session.step();
        EXPECT_EQ(heard, called);
        EXPECT_GT(punctual, heard * 9 / 10);
    }
}

}  // namespace
}  // namespace shoal::sim::actions_test
