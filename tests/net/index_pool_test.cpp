#include "net/index_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "tests/net/support/consistency.h"
#include "tests/support/allocations.h"

namespace shoal::net::impl {
namespace {

struct Item {
    std::uint64_t value = 0;
    std::uint32_t next = kNoIndex;
};

TEST(IndexPool, GivesTheIndexThatWasReleasedLast) {
    IndexPool<Item> pool;
    EXPECT_EQ(pool.take(), 0u);
    EXPECT_EQ(pool.take(), 1u);
    EXPECT_EQ(pool.take(), 2u);
    pool.release(0);
    pool.release(2);
    EXPECT_EQ(pool.take(), 2u);
    EXPECT_EQ(pool.take(), 0u);
    EXPECT_EQ(pool.take(), 3u);
    EXPECT_EQ(pool.used(), 4u);
}

TEST(IndexPool, LeavesAnItemAsItWasExceptForItsLink) {
    IndexPool<Item> pool;
    const std::uint32_t first = pool.take(), second = pool.take();
    pool[first] = {7, second};
    pool.release(second);
    pool.release(first);
    EXPECT_EQ(pool.take(), first);
    EXPECT_EQ(pool[first].value, 7u);
    EXPECT_EQ(pool[first].next, kNoIndex);
}

TEST(IndexPool, MakesNoItemWhileOneIsFree) {
    IndexPool<Item> pool;
    std::size_t allocations = 0;
    for (int round = 0; round < 100; ++round) {
        if (round == 1) allocations = test::allocations();
        for (int i = 0; i < 3; ++i) EXPECT_LT(pool.take(), 3u);
        for (std::uint32_t i = 0; i < 3; ++i) pool.release(i);
    }
    EXPECT_EQ(pool.size(), 3u);
    EXPECT_EQ(pool.used(), 0u);
    EXPECT_EQ(test::allocations(), allocations);
}

// Goal: no index is in use twice, and every item keeps its value while it is in use.
// Method: seeded takes and releases against a map; compare after each step.
TEST(IndexPool, MatchesAMapOfItems) {
    std::mt19937 random(3);
    IndexPool<Item> pool;
    std::map<std::uint32_t, std::uint64_t> model;
    for (std::uint64_t step = 0; step < 20'000; ++step) {
        if (model.empty() || random() % 200 < 100 + (step / 1000) % 2 * 20 - 10) {
            const std::uint32_t index = pool.take();
            ASSERT_TRUE(model.emplace(index, step).second) << index;
            pool[index].value = step;
            pool[index].next = static_cast<std::uint32_t>(random());
        } else {
            const auto any = std::next(model.begin(), std::ptrdiff_t(random() % model.size()));
            ASSERT_EQ(pool[any->first].value, any->second);
            pool.release(any->first);
            model.erase(any);
        }
        ASSERT_EQ(pool.used(), model.size());
        ASSERT_TRUE(is_consistent(pool));
    }
}

}  // namespace
}  // namespace shoal::net::impl
