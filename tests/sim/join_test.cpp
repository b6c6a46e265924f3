// Players join and leave over a bad network.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session.h"

namespace shoal::sim::join_test {
namespace {

struct Badge {
    std::uint32_t number = 0;
};
struct Greeting {
    ecs::Entity player;
    std::uint32_t number = 0;
};

// Goal: over a network that loses packets a client plays only when it has what was there when it began to
// load, and its player's entity; each player is announced once; nothing of a player stays when it leaves.
// Method: clients connect, leave and come back while entities come and go; the server notes its world
// whenever a player begins to load. A message that on_join() sends arrives with the player's entity.
TEST(Join, AClientThatPlaysHasTheWorldAndItsPlayer) {
    std::uint32_t all_joins = 0, all_greetings = 0;
    for (const std::uint64_t seed : kind_seeds(50)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", SHOAL_KIND_SEEDS=" << seed << ":1");
        Random random(seed);
        replication::Schema schema;
        schema.component<Badge>("badge");
        schema.message<Greeting>("greeting");
        net::LinkConfig link;
        link.latency = std::chrono::milliseconds(random.below(120));
        link.jitter = std::chrono::milliseconds(random.below(60));
        link.loss = random.below(4) * 0.08;
        link.duplicate = 0.05;
        replication::ServerOptions options;
        options.join.waits_for_admit = seed % 2 == 0;
        if (seed % 3 == 0) options.host.connection.max_bytes_per_second = 8'000;
        Session session(schema, link, 3, seed, {}, options);
        replication::Server& server = session.server();
        ecs::World& world = session.world();
        std::uint32_t numbers = 0;
        std::map<replication::PlayerId, std::uint32_t> playing;  // with the badge of each
        std::map<replication::PlayerId, std::vector<ecs::Entity>> at_load;
        std::vector<ecs::Entity> entities, before;  // now, and in the tick before
        for (int i = 0; i < 150; ++i)
            entities.push_back(world.spawn(replication::Replicated{}, Badge{++numbers}));
        server.on_join([&](replication::PlayerId player) {
            const ecs::Entity entity = world.spawn(replication::Replicated{}, Badge{++numbers});
            EXPECT_TRUE(playing.emplace(player, numbers).second);
            EXPECT_EQ(server.send(player, Greeting{entity, numbers}), net::SendResult::queued);
            all_joins += 1;
            return entity;
        });
        server.on_leave([&](replication::PlayerId player) { EXPECT_EQ(playing.erase(player), 1u); });
        for (const auto& guest : session.guests())
            guest->client.on<Greeting>([&](const Greeting& greeting, const replication::MessageInfo& info) {
                all_greetings += 1;
                ASSERT_TRUE(greeting.player || info.is_late);
                if (greeting.player) {
                    EXPECT_EQ(guest->world.get<Badge>(greeting.player).number, greeting.number);
                }
            });
        std::vector<bool> was_playing(3);
        const auto check = [&] {
            server.for_each_peer([&](net::PeerId peer) {
                const replication::Phase phase = server.phase(peer);
                if (phase == replication::Phase::waiting && random.chance(0.05)) server.admit(peer);
                if (phase == replication::Phase::loading && at_load.count(peer) == 0) at_load[peer] = before;
                EXPECT_EQ(phase == replication::Phase::playing, playing.count(peer) == 1);
            });
            for (std::size_t i = 0; i < 3; ++i) {
                auto& guest = *session.guests()[i];
                const bool plays = guest.client.phase() == replication::Phase::playing;
                EXPECT_TRUE(plays || !guest.client.player());
                if (!plays || was_playing[i]) {
                    was_playing[i] = plays;
                    continue;
                }
                was_playing[i] = true;
                ASSERT_TRUE(guest.client.player());
                // Not by the address, which can have earlier connections.
                const auto ticket = replication::impl::Ticket::from(guest.client.ticket());
                if (!ticket || playing.count(ticket->seat) == 0) continue;  // the server has lost it already
                const replication::PlayerId id = ticket->seat;
                EXPECT_EQ(guest.world.get<Badge>(guest.client.player()).number, playing[id]);
                for (const ecs::Entity entity : at_load[id]) {
                    if (!world.is_alive(entity)) continue;
                    EXPECT_TRUE(guest.client.receiver().entity(server.assign_net_id(entity)));
                }
            }
        };
        for (int tick = 0; tick < 900; ++tick) {
            if (random.chance(0.3)) {
                std::swap(entities[random.below(std::uint32_t(entities.size()))], entities.back());
                world.destroy(entities.back());
                entities.back() = world.spawn(replication::Replicated{}, Badge{++numbers});
            }
            for (const auto& guest : session.guests()) {
                if (random.chance(0.002)) guest->client.disconnect(session.now());
                if (random.chance(0.002)) guest->client.connect(session.at_server());
            }
            session.step();
            check();
            before = entities;
        }
        for (const auto& guest : session.guests())
            if (!guest->client.is_connected()) guest->client.connect(session.at_server());
        for (int tick = 0; tick < 2'500; ++tick) {
            session.step();
            check();
        }
        EXPECT_EQ(playing.size(), 3u);
        session.converge(600);
        session.expect_agreement(static_cast<std::uint32_t>(entities.size()) + 3);
    }
    EXPECT_GE(all_joins, 3u);
    EXPECT_GT(all_greetings * 2, all_joins);
}

}  // namespace
}  // namespace shoal::sim::join_test
