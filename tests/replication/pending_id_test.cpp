#include "replication/schema/pending_id.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace shoal::replication::impl::pending_id_test {
namespace {

TEST(PendingId, IsBetweenNetIdsAndReservedNetIds) {
    for (const std::uint32_t id : {0u, 1u, 0xfdff'ffffu, 0xff00'0000u, 0xffff'ffffu})
        EXPECT_FALSE(is_pending(id)) << id;
    for (const std::uint32_t id : {0xfe00'0000u, 0xfe00'0001u, 0xfeff'ffffu}) EXPECT_TRUE(is_pending(id));
}

TEST(PendingId, WrapsAroundToTheSecondId) {
    EXPECT_EQ(pending_after(kFirstPending), 0xfe00'0001u);
    EXPECT_EQ(pending_after(0xfe00'0001), 0xfe00'0002u);
    EXPECT_EQ(pending_after(0xfe00'0001, 0), 0xfe00'0001u);
    EXPECT_EQ(pending_after(0xfe00'0001, 5), 0xfe00'0006u);
    EXPECT_EQ(pending_after(0xfeff'fffe), 0xfeff'ffffu);
    EXPECT_EQ(pending_after(0xfeff'ffff), 0xfe00'0001u) << "the first id is not used";
    EXPECT_EQ(pending_after(0xfeff'fffe, 5), 0xfe00'0004u);
}

}  // namespace
}  // namespace shoal::replication::impl::pending_id_test
