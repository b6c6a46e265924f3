// What the sender writes if nothing is lost and no value returns to an old one.

#include <gtest/gtest.h>

#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/session.h"

namespace shoal::sim {
namespace {

struct Odometer {
    std::uint32_t metres = 0;
};

// Goal: without a reason there is no full record, no empty delta and no rebase: they repair faults, and would
// hide them.
// Method: values only rise, from when the clients have acknowledged all entities.
TEST(NoRepairs, RisingValuesTravelAsDeltasWithChangesIfNothingIsLost) {
    replication::Schema schema;
    schema.component<Odometer>("odometer");
    net::LinkConfig link;
    link.latency = std::chrono::milliseconds(50);
    link.jitter = std::chrono::milliseconds(20);
    Session session(schema, link, 2);
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 200; ++i)
        entities.push_back(session.world().spawn(replication::Replicated{}, Odometer{}));
    session.converge(300);
    for (int tick = 0; tick < 30; ++tick) session.step();  // until the acks arrived
    Random random(3);
    for (int tick = 0; tick < 600; ++tick) {
        for (int n = 0; n < 20; ++n)
            session.world().patch<Odometer>(entities[random.below(200)],
                                            [&](Odometer& odometer) { odometer.metres += 1; });
        session.step();
    }
    session.converge(300);
    session.expect_agreement(200);
    session.server().for_each_peer([&](net::PeerId peer) {
        const replication::Sender::PeerStats stats = session.server().stats(peer).state;
        EXPECT_GT(stats.records_sent, 10'000u);
        EXPECT_EQ(stats.full_records, 200u);
        EXPECT_EQ(stats.empty_records, 0u);
        EXPECT_EQ(session.server().host().stats(peer).packets_lost, 0u);
    });
    for (const auto& guest : session.guests()) {
        const replication::Receiver::Stats& stats = guest->client.receiver().stats();
        EXPECT_EQ(stats.refused_packets, 0u);
        EXPECT_EQ(stats.stale_records, 0u);
        EXPECT_EQ(stats.rebases, 0u);
        EXPECT_EQ(stats.suppressed, 0u);
    }
}

}  // namespace
}  // namespace shoal::sim
