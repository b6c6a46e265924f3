#include "replication/history/net_id_map.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace shoal::replication {
namespace {

TEST(NetIdMap, IsEmptyAtFirst) {
    NetIdMap map;
    EXPECT_EQ(map.find(1), NetIdMap::kAbsent);
    map.erase(1);
    EXPECT_EQ(map.size(), 0u);
}

// Goal: equals std::unordered_map. Method: seeded sets and erases of ids that collide and ids that do not.
TEST(NetIdMap, MatchesAnUnorderedMap) {
    const std::uint32_t seed = 1;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    NetIdMap map;
    std::unordered_map<std::uint32_t, std::uint32_t> model;
    for (int step = 0; step < 200'000; ++step) {
        const std::uint32_t wide = static_cast<std::uint32_t>(random()) | 1;
        const std::uint32_t net_id =
            random() % 3 == 0 ? (wide & 0xffu) << 24 | 1 : 1 + static_cast<std::uint32_t>(random() % 300);
        if (random() % 2 == 0) {
            map.set(net_id, static_cast<std::uint32_t>(step));
            model[net_id] = static_cast<std::uint32_t>(step);
        } else {
            map.erase(net_id);
            model.erase(net_id);
        }
        ASSERT_EQ(map.size(), model.size());
        if (step % 16 == 0) {
            ASSERT_TRUE(map.is_consistent());
        }
        const std::uint32_t probe = 1 + static_cast<std::uint32_t>(random() % 300);
        for (const std::uint32_t id : {net_id, probe}) {
            const auto found = model.find(id);
            ASSERT_EQ(map.find(id), found == model.end() ? NetIdMap::kAbsent : found->second);
        }
    }
    for (const auto& [net_id, index] : model) ASSERT_EQ(map.find(net_id), index);
}

}  // namespace
}  // namespace shoal::replication
