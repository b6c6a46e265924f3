// State that clients decide, over a bad network.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session.h"

namespace shoal::sim::owned_state_test {
namespace {

struct Heading {
    std::int32_t degrees = 0;
};
struct Slogan {
    std::string text;
};

replication::Schema heading_schema() {
    replication::Schema schema;
    schema.component<Heading>("heading", replication::bounded(0, 359), replication::from_owner());
    schema.component<Slogan>("slogan", replication::max_length(40), replication::from_owner());
    schema.tag<replication::Mine>("mine", replication::to_owner());
    return schema;
}

// Goal: with loss, repeated and reordered packets, refusals and entities that change hands, all worlds agree
// at rest, the newest allowed value of the last owner is the server's, and nobody is disconnected.
TEST(OwnedStateSim, WorldsAgreeAfterABadNetwork) {
    for (const std::uint64_t seed : kind_seeds(50)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", SHOAL_KIND_SEEDS=" << seed << ":1");
        Random random(seed);
        const net::LinkConfig link = bad_link(random);
        const replication::Schema schema = heading_schema();
        Session session(schema, link, 2, seed);
        replication::Server& server = session.server();
        server.check<Slogan>([](replication::PlayerId, ecs::Entity, const Slogan& slogan) {
            return std::string(slogan.text.starts_with("bad") ? "no" : "");
        });
        int refused = 0, written = 0, bad = 0;
        for (const auto& guest : session.guests())
            guest->client.on_refused<Slogan>([&](ecs::Entity, std::string_view) { refused += 1; });
        session.let_join();
        std::vector<net::PeerId> peers;
        server.for_each_peer([&](net::PeerId peer) { peers.push_back(peer); });
        ASSERT_EQ(peers.size(), 2u);
        std::vector<ecs::Entity> ships;
        for (int i = 0; i < 6; ++i)
            ships.push_back(session.world().spawn(replication::Replicated{}, Heading{}, Slogan{}));
        for (const ecs::Entity ship : ships) server.give(peers[random.below(2)], ship);
        for (int tick = 0; tick < 600; ++tick) {
            for (const auto& guest : session.guests())
                for (const ecs::Entity mine : guest->client.mine()) {
                    if (random.chance(0.5))
                        guest->world.set(mine, Heading{static_cast<std::int32_t>(random.below(360))});
                    if (!random.chance(0.02)) continue;
                    const bool is_bad = random.chance(0.3);
                    written += 1;
                    bad += is_bad;
                    guest->world.set(mine, Slogan{(is_bad ? "bad " : "good ") + std::to_string(written)});
                }
            if (random.chance(0.02)) server.give(peers[random.below(2)], ships[random.below(6)]);
            session.step();
        }
        std::map<replication::NetId, std::int32_t> last;
        for (const auto& guest : session.guests())
            for (const ecs::Entity mine : guest->client.mine()) {
                last[guest->client.receiver().net_id(mine)] = 7;
                guest->world.set(mine, Heading{7}, Slogan{"rest"});
            }
        for (int tick = 0; tick < 600; ++tick) session.step();
        session.expect_agreement(6);
        for (const ecs::Entity ship : ships)
            EXPECT_FALSE(session.world().get<Slogan>(ship).text.starts_with("bad"));
        EXPECT_GE(last.size(), 4u) << "some may be between two owners";
        std::uint64_t taken = 0;
        for (const net::PeerId peer : peers) taken += server.stats(peer).owned.taken;
        EXPECT_GT(taken, 400u);
        EXPECT_LE(refused, bad * 2);
        EXPECT_GT(refused, 0);
    }
}

}  // namespace
}  // namespace shoal::sim::owned_state_test
