#include "replication/history/net_ids.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace shoal::replication::impl {
namespace {

TEST(NetIds, IsEmptyAtFirst) {
    const NetIds ids;
    EXPECT_EQ(ids.find(NetId{1}), NetIds::kNone);
    EXPECT_EQ(ids.find(ecs::Entity{}), NetIds::kNone);
    EXPECT_EQ(ids.net_id({3, 1}), 0u);
    EXPECT_FALSE(ids.entity(7));
    EXPECT_FALSE(ids.entity(0));
    EXPECT_EQ(ids.size(), 0u);
    EXPECT_TRUE(ids.is_consistent());
}

TEST(NetIds, AllocatesEachNetIdOnce) {
    NetIds ids;
    std::set<NetId> seen;
    for (std::uint32_t i = 0; i < 1'000; ++i) {
        const ecs::Entity entity{i % 10, 1 + i};
        const std::uint32_t index = ids.allocate(entity);
        EXPECT_TRUE(seen.insert(ids[index].net_id).second);
        EXPECT_LT(ids[index].net_id, NetIds::kFirstReserved);
        EXPECT_EQ(ids.find(entity), index);
        ids.release(index);
        ids.recycle(index);
        EXPECT_EQ(ids.find(entity), NetIds::kNone);
    }
    EXPECT_EQ(ids.index_count(), 1u);
    EXPECT_FALSE(seen.contains(0));
}

TEST(NetIds, AnIndexIsNotUsedAgainBeforeItIsRecycled) {
    NetIds ids;
    const std::uint32_t first = ids.allocate({1, 1});
    ids.release(first);
    EXPECT_EQ(ids.net_id({1, 1}), 0u) << "the net id is forgotten at once";
    EXPECT_EQ(ids[first].net_id, 0u);
    EXPECT_NE(ids.allocate({1, 2}), first);
    ids.recycle(first);
    EXPECT_EQ(ids.allocate({1, 3}), first);
    EXPECT_TRUE(ids.is_consistent());
}

TEST(NetIds, AnAdoptedNetIdCanGetItsEntityLater) {
    NetIds ids;
    const std::uint32_t index = ids.adopt(70, {});
    EXPECT_FALSE(ids.entity(70));
    EXPECT_EQ(ids.adopt(70, {4, 2}), index);
    EXPECT_EQ(ids.entity(70), (ecs::Entity{4, 2}));
    EXPECT_EQ(ids.net_id({4, 2}), 70u);
    EXPECT_EQ(ids.adopt(70, {5, 1}), index);
    EXPECT_EQ(ids.net_id({4, 2}), 0u);
    EXPECT_EQ(ids.size(), 1u);
    EXPECT_EQ(ids.net_id({5, 2}), 0u) << "another generation";
}

TEST(NetIds, ADeadEntityDoesNotHideTheNextOneWithItsIndex) {
    NetIds ids;
    const std::uint32_t dead = ids.adopt(1, {4, 1});
    ids.adopt(2, {4, 2});
    EXPECT_EQ(ids.net_id({4, 2}), 2u);
    ids.release(dead);
    EXPECT_EQ(ids.net_id({4, 2}), 2u);
    EXPECT_TRUE(ids.is_consistent());
}

// Goal: equals std::map. Method: seeded adopts, releases and recycles of net ids that collide and of net ids
// that do not; entity indices are reused with other generations.
TEST(NetIds, MatchesAMap) {
    const std::uint32_t seed = 1;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    NetIds ids;
    std::vector<NetId> colliding;
    for (NetId id = 1; colliding.size() < 200; ++id)
        if (BucketHash()(id, 1'024) == 0) colliding.push_back(id);
    std::map<NetId, ecs::Entity> model;
    std::vector<std::uint32_t> released;
    std::uint32_t generation = 0;
    for (int step = 0; step < 100'000; ++step) {
        const NetId net_id =
            random() % 3 == 0 ? colliding[random() % 200] : 1 + static_cast<NetId>(random() % 300);
        if (random() % 2 == 0) {
            const ecs::Entity entity{static_cast<std::uint32_t>(random() % 1'000), ++generation};
            const std::uint32_t index = ids.adopt(net_id, entity);
            EXPECT_EQ(ids[index].net_id, net_id);
            model[net_id] = entity;
        } else if (const std::uint32_t index = ids.find(net_id); index != NetIds::kNone) {
            ids.release(index);
            released.push_back(index);
            model.erase(net_id);
        }
        if (released.size() > random() % 20) {
            ids.recycle(released.back());
            released.pop_back();
        }
        ASSERT_EQ(ids.size(), model.size());
        if (step % 64 == 0) {
            ASSERT_TRUE(ids.is_consistent());
        }
        for (const NetId id : {net_id, 1 + static_cast<NetId>(random() % 300)}) {
            const auto found = model.find(id);
            ASSERT_EQ(ids.find(id) != NetIds::kNone, found != model.end());
            ASSERT_EQ(ids.entity(id), found == model.end() ? ecs::Entity{} : found->second);
        }
    }
    EXPECT_LE(ids.index_count(), 300u + 256u + 20u);
}

}  // namespace
}  // namespace shoal::replication::impl
