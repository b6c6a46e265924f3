// A cluster that just fits into the largest payload, and one that just does not.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/endpoint.h"
#include "replication/schema/own_components.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl::cluster_limit_test {
namespace {

struct Crate {
    std::string label;
};

struct Outcome {
    std::size_t bytes = 0;
    std::uint64_t parted = 0;
};

/// Changes all labels of a cluster of 40 crates, which the peer has, and encodes the first payload. The
/// labels have about 64 kB.
Outcome change_all(std::size_t more_bytes) {
    Schema schema;
    schema.component<Crate>("crate", max_length(8'000));
    Pair pair({}, {}, 1, 1, schema);
    std::vector<ecs::Entity> crates;
    for (int i = 0; i < 40; ++i) crates.push_back(pair.spawn(Crate{}, Cluster{7}));
    for (int i = 0; i < 3; ++i) pair.exchange();
    std::size_t length = 1'500 + more_bytes;
    for (const ecs::Entity crate : crates) {
        pair.world.set(crate, Crate{std::string(length, 'x')});
        length = 1'500;
    }
    pair.tick();
    const std::optional<SentPacket> packet = pair.encode();
    if (!packet) return {};
    EXPECT_EQ(pair.receive(*packet), Receiver::Verdict::accepted);
    return {packet->bytes.size(), pair.sender.stats(pair.peer).parted_clusters};
}

TEST(ClusterLimit, IsThatOfTheLargestPayloadToTheByte) {
    std::size_t more = 5'000;
    Outcome fits = change_all(more);
    for (int i = 0; i < 4 && fits.bytes != net::kMaxLargePayloadBytes; ++i) {
        more += net::kMaxLargePayloadBytes - fits.bytes;
        fits = change_all(more);
        ASSERT_EQ(fits.parted, 0u) << more;
    }
    EXPECT_EQ(fits.bytes, net::kMaxLargePayloadBytes);
    for (std::size_t over = 1; over <= 3; ++over) {
        const Outcome exceeds = change_all(more + over);
        EXPECT_EQ(exceeds.parted, 1u) << over;
        EXPECT_LE(exceeds.bytes, net::kMaxLargePayloadBytes) << over;
    }
}

}  // namespace
}  // namespace shoal::replication::impl::cluster_limit_test
