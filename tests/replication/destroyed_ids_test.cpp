#include "replication/history/destroyed_ids.h"

#include <gtest/gtest.h>

namespace shoal::replication::destroyed_ids_test {
namespace {

TEST(DestroyedIds, AreRememberedUntilAsManyOthersWereCreated) {
    DestroyedIds ids;
    ids.insert(5);
    EXPECT_FALSE(ids.contains(5)) << "not enabled";
    ids.enable();
    EXPECT_FALSE(ids.contains(5));
    ids.insert(5);
    ids.insert(6);
    EXPECT_TRUE(ids.contains(5) && ids.contains(6));
    EXPECT_FALSE(ids.contains(7) || ids.contains(5 + DestroyedIds::kSize));
    const auto later = static_cast<NetId>(5 + DestroyedIds::kSize);
    ids.insert(later - 1);
    EXPECT_TRUE(ids.contains(5));
    ids.insert(later);
    EXPECT_TRUE(ids.contains(later));
    EXPECT_FALSE(ids.contains(5)) << "the later one has its place";
    EXPECT_TRUE(ids.contains(6));
    ids.clear();
    EXPECT_FALSE(ids.contains(6) || ids.contains(later));
    ids.insert(6);
    EXPECT_TRUE(ids.contains(6)) << "still enabled";
}

}  // namespace
}  // namespace shoal::replication::destroyed_ids_test
