#include "replication/history/reference_index.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace shoal::replication::impl {
namespace {

std::multiset<std::uint32_t> referrers(const ReferenceIndex& index, std::uint32_t target) {
    std::multiset<std::uint32_t> out;
    index.for_each_referrer(target, [&](std::uint32_t referrer) { out.insert(referrer); });
    return out;
}

TEST(ReferenceIndex, APairAddedTwiceIsVisitedTwice) {
    ReferenceIndex index;
    EXPECT_TRUE(referrers(index, 1).empty());
    index.clear(3);
    for (int i = 0; i < 3; ++i) index.add(1, 3);
    index.add(1, 4);
    index.add(2, 3);
    EXPECT_EQ(referrers(index, 1), (std::multiset<std::uint32_t>{3, 3, 3, 4}));
    EXPECT_EQ(index.size(), 5u);
    index.clear(3);
    EXPECT_EQ(referrers(index, 1), (std::multiset<std::uint32_t>{4}));
    EXPECT_TRUE(referrers(index, 2).empty());
}

// Goal: equals a multiset of pairs. Method: seeded adds and clears; few targets and many, also colliding
// ones.
TEST(ReferenceIndex, MatchesAMultisetOfPairs) {
    const std::uint32_t seed = 1;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    ReferenceIndex index;
    std::multiset<std::pair<std::uint32_t, std::uint32_t>> model;
    for (int step = 0; step < 40'000; ++step) {
        const std::uint32_t referrer = static_cast<std::uint32_t>(random() % 40);
        const std::uint32_t target = static_cast<std::uint32_t>(random() % 60)
                                     << (random() % 2 == 0 ? 0 : 25);
        if (random() % 12 == 0) {
            index.clear(referrer);
            std::erase_if(model, [&](const auto& pair) { return pair.second == referrer; });
        } else {
            index.add(target, referrer);
            model.insert({target, referrer});
        }
        ASSERT_EQ(index.size(), model.size());
        if (step % 16 == 0) {
            ASSERT_TRUE(index.is_consistent());
        }
        std::multiset<std::uint32_t> expected;
        for (const auto& [t, r] : model)
            if (t == target) expected.insert(r);
        ASSERT_EQ(referrers(index, target), expected);
    }
}

}  // namespace
}  // namespace shoal::replication::impl
