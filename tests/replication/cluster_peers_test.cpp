// Clusters as several peers get them.

#include <gtest/gtest.h>

#include <vector>

#include "replication/schema/own_components.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl::cluster_peers_test {
namespace {

/// Peers without receivers, whose packets arrive unless the test says otherwise.
struct ThreePeers {
    ThreePeers() {
        for (int i = 0; i < 3; ++i) peers.push_back(sender.add_peer());
    }
    void update() { sender.update(++tick); }
    /// Returns the number of records in the next payload of each peer.
    std::vector<std::uint32_t> encode(bool arrives) {
        std::vector<std::uint32_t> records;
        ++number;
        for (const Sender::Peer peer : peers) {
            std::byte room[1300];
            const auto payload = sender.encode(peer, number, 1100, room);
            BitReader in(payload);
            records.push_back(payload.empty() ? 0 : read_state_header(in).record_count);
            if (arrives) sender.on_fate(peer, number, true);
        }
        return records;
    }

    const Schema schema = game_schema();
    ecs::World world;
    Sender sender{world, schema};
    std::vector<Sender::Peer> peers;
    Tick tick = 0;
    std::uint64_t number = 0;
};

using Counts = std::vector<std::uint32_t>;

// One entity changes in a packet whose fate is not known, another one in the next tick. If they are in one
// cluster, both records are in the second packet.
TEST(ClusterPeers, AllLearnThatAnEntityJoinedOrLeft) {
    ThreePeers three;
    ecs::World& world = three.world;
    const ecs::Entity member = world.spawn(Replicated{}, at(1), Cluster{7});
    const ecs::Entity other = world.spawn(Replicated{}, at(2));
    const auto records_together = [&] {
        for (int i = 0; i < 2; ++i) {
            three.update();
            three.encode(true);
        }
        world.patch<sim::Position>(member, [](sim::Position& position) { position.x += 1; });
        three.update();
        EXPECT_EQ(three.encode(false), Counts(3, 1));
        world.patch<sim::Position>(other, [](sim::Position& position) { position.x += 1; });
        three.update();
        const Counts records = three.encode(true);
        for (const Sender::Peer peer : three.peers) three.sender.on_fate(peer, three.number - 1, true);
        EXPECT_TRUE(three.sender.is_consistent());
        return records;
    };
    EXPECT_EQ(records_together(), Counts(3, 1)) << "the other entity is alone";
    world.set(other, Cluster{7});
    EXPECT_EQ(records_together(), Counts(3, 2));
    world.set(other, Cluster{8});
    EXPECT_EQ(records_together(), Counts(3, 1));
    world.set(member, Cluster{8});
    EXPECT_EQ(records_together(), Counts(3, 2));
    world.remove<Cluster>(other);
    EXPECT_EQ(records_together(), Counts(3, 1));
}

}  // namespace
}  // namespace shoal::replication::impl::cluster_peers_test
