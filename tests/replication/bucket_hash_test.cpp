#include "replication/history/bucket_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "replication/history/net_ids.h"

namespace shoal::replication::impl::bucket_hash_test {
namespace {

/// The number of keys in the fullest of 4,096 buckets.
std::size_t fullest(const BucketHash& hash, const std::vector<NetId>& keys) {
    std::vector<std::size_t> counts(4'096);
    for (const NetId key : keys) counts[hash(key, counts.size())] += 1;
    return *std::max_element(counts.begin(), counts.end());
}

TEST(BucketHash, KeysThatCollideWithOneSeedDoNotWithOthers) {
    std::vector<NetId> colliding, in_a_row;
    for (NetId id = 1; colliding.size() < 500; ++id)
        if (BucketHash(1)(id, 4'096) == 7) colliding.push_back(id);
    for (NetId id = 1; id <= 2'000; ++id) in_a_row.push_back(id);
    EXPECT_EQ(fullest(BucketHash(1), colliding), 500u);
    std::mt19937_64 random(3);
    for (int i = 0; i < 200; ++i) {
        const BucketHash hash(random());
        EXPECT_LT(fullest(hash, colliding), 50u) << "seed number " << i;
        EXPECT_LT(fullest(hash, in_a_row), 50u) << "seed number " << i;
    }
}

}  // namespace
}  // namespace shoal::replication::impl::bucket_hash_test
