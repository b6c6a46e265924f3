// Typed messages over a bad network.

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session.h"

namespace shoal::sim::messages_test {
namespace {

struct Tag {
    std::uint32_t number = 0;
};
struct Report {
    std::uint32_t number = 0;
    std::uint8_t stream = 0;
    ecs::Entity subject;
    std::uint32_t tag = 0;  // of the subject
    std::string text;
};

replication::Schema report_schema() {
    replication::Schema schema;
    schema.component<Tag>("tag");
    schema.message<Report>("report", field(&Report::text, replication::max_length(100)));
    return schema;
}

/// Checks the messages that one side gets from another.
struct Ear {
    void hear(const Report& report, bool is_late, std::uint32_t tag_here) {
        const bool is_ordered = report.stream < 2;
        if (is_ordered) {
            EXPECT_EQ(report.number, next[report.stream]++) << "stream " << int(report.stream);
        } else {
            EXPECT_TRUE(seen.insert({report.number, 0}).second) << "twice";
        }
        late += is_late;
        count += 1;
        if (report.subject) {
            EXPECT_EQ(tag_here, report.tag) << "another entity";
        }
        if (!report.subject && report.tag != 0) nulls += 1;
    }
    std::map<std::uint32_t, int> seen;
    std::uint32_t next[2] = {}, late = 0, nulls = 0, count = 0;
};

// Goal: over a network that loses, repeats and reorders packets, each reliable message is handled once, in
// the order of its key, and the entities in it are the right ones; on a client its references are only null
// if the entity is gone. Method: entities are spawned and destroyed all the time; messages in both directions
// name them. A message that names a living entity must not come with a null.
TEST(Messages, EachArrivesOnceInOrderWithTheRightEntities) {
    for (const std::uint64_t seed : kind_seeds(50)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", SHOAL_KIND_SEEDS=" << seed << ":1");
        Random random(seed);
        const replication::Schema schema = report_schema();
        replication::ServerOptions options;
        options.messages.messages_per_s = 1'000;  // the limits are not the subject
        options.messages.bytes_per_s = 1'000'000;
        Session session(schema, bad_link(random), 2, seed, {}, options);
        replication::Server& server = session.server();
        ecs::World& world = session.world();
        std::vector<ecs::Entity> entities;
        std::vector<Ear> by_client(2);
        std::map<replication::PlayerId, Ear> by_server;
        std::uint32_t tags = 0, said[3] = {};
        std::vector<std::array<std::uint32_t, 3>> said_up(2);
        for (std::size_t i = 0; i < 2; ++i)
            session.guests()[i]->client.on<Report>(
                [&, i](const Report& report, const replication::MessageInfo& info) {
                    const ecs::World& mirror = session.guests()[i]->world;
                    const Tag* tag = report.subject ? mirror.try_get<Tag>(report.subject) : nullptr;
                    by_client[i].hear(report, info.is_late, tag ? tag->number : 0);
                });
        server.on<Report>([&](replication::PlayerId from, const Report& report) {
            const Tag* tag = report.subject ? world.try_get<Tag>(report.subject) : nullptr;
            by_server[from].hear(report, false, tag ? tag->number : 0);
        });
        const auto make = [&](std::uint32_t* numbers, ecs::Entity subject, const ecs::World& of) {
            const auto stream = static_cast<std::uint8_t>(random.below(3));
            const Tag* tag = subject ? of.try_get<Tag>(subject) : nullptr;
            return Report{numbers[stream]++, stream, subject, tag ? tag->number : 0,
                          std::string(random.below(90), 'x')};
        };
        const auto delivery = [](const Report& report) {
            return report.stream < 2 ? net::ordered_by(report.stream) : net::unordered();
        };
        session.let_join();
        std::uint32_t peers = 0;
        server.for_each_peer([&](net::PeerId) { peers += 1; });
        ASSERT_EQ(peers, 2u);
        for (int tick = 0; tick < 400; ++tick) {
            if (random.chance(0.2)) entities.push_back(world.spawn(replication::Replicated{}, Tag{++tags}));
            if (!entities.empty() && random.chance(0.3)) {
                const Report report =
                    make(said,
                         random.chance(0.7) ? entities.back()
                                            : entities[random.below(std::uint32_t(entities.size()))],
                         world);
                ASSERT_EQ(server.send_all(report, delivery(report)), 2u);
            }
            for (std::size_t i = 0; i < 2; ++i) {
                const auto& guest = session.guests()[i];
                if (!random.chance(0.2)) continue;
                std::vector<ecs::Entity> replicas;
                guest->client.receiver().for_each_entity(
                    [&](replication::NetId, ecs::Entity entity) { replicas.push_back(entity); });
                const ecs::Entity subject =
                    replicas.empty() ? ecs::Entity{} : replicas[random.below(std::uint32_t(replicas.size()))];
                const Report report = make(said_up[i].data(), subject, guest->world);
                ASSERT_EQ(guest->client.send(report, delivery(report)), net::SendResult::queued);
            }
            // The newest entities live on: messages name them.
            if (entities.size() > 40) {
                world.destroy(entities.front());
                entities.erase(entities.begin());
            }
            session.step();
        }
        for (int tick = 0; tick < 600; ++tick) session.step();
        session.expect_agreement(static_cast<std::uint32_t>(entities.size()));
        const std::uint32_t total = said[0] + said[1] + said[2];
        for (const Ear& ear : by_client) {
            EXPECT_EQ(ear.count, total);
            EXPECT_LE(ear.late, ear.nulls);
            EXPECT_LE(ear.nulls, total / 5) << "only entities that died on the way";
        }
        ASSERT_EQ(by_server.size(), 2u);
        std::uint32_t heard = 0, said_by_all = 0;
        for (const auto& [player, ear] : by_server) heard += ear.count;
        for (const auto& numbers : said_up) said_by_all += numbers[0] + numbers[1] + numbers[2];
        EXPECT_EQ(heard, said_by_all);
        EXPECT_EQ(server.stats().messages.malformed, 0u);
    }
}

}  // namespace
}  // namespace shoal::sim::messages_test
