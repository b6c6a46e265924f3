#include "net/handshake/cookie_sample.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace shoal::net::impl {
namespace {

TEST(CookieSample, GivesEachCookieOnce) {
    std::mt19937_64 random(1);
    CookieSample sample;
    EXPECT_FALSE(sample.has_more());
    EXPECT_FALSE(sample.take(random()));
    sample.add(1, random());
    EXPECT_EQ(sample.came(), 1u);
    EXPECT_TRUE(sample.has(1)) << "it was not given yet";
    EXPECT_EQ(sample.take(random()), 1u);
    EXPECT_FALSE(sample.has(1)) << "it was given";
    EXPECT_EQ(sample.came(), 1u);
    std::set<std::uint64_t> given;
    for (std::uint64_t cookie = 2; cookie < 2 + CookieSample::kMax; ++cookie) sample.add(cookie, random());
    EXPECT_EQ(sample.came(), CookieSample::kMax + 1);
    while (const auto cookie = sample.take(random())) EXPECT_TRUE(given.insert(cookie->number).second);
    EXPECT_EQ(given.size(), CookieSample::kMax - 1) << "with the first one this is the maximum";
    EXPECT_FALSE(sample.has_more());
    sample.clear();
    EXPECT_EQ(sample.came(), 0u);
    sample.add(1, random());
    EXPECT_EQ(sample.take(random()), 1u);
}

// Goal: every cookie has the same chance to be kept and tried, whenever it arrived.
// Method: 100 cookies, 20,000 times; 32 of 100 are kept, so the standard deviation is 66.
TEST(CookieSample, GivesEveryCookieTheSameChance) {
    std::mt19937_64 random(2);
    std::array<int, 100> tried{}, first{};
    for (int round = 0; round < 20'000; ++round) {
        CookieSample sample;
        for (std::uint64_t cookie = 0; cookie < tried.size(); ++cookie) sample.add(cookie, random());
        for (bool is_first = true; const auto cookie = sample.take(random()); is_first = false) {
            tried[cookie->number] += 1;
            first[cookie->number] += is_first;
        }
    }
    for (std::size_t cookie = 0; cookie < tried.size(); ++cookie) {
        EXPECT_NEAR(tried[cookie], 6400, 300) << cookie;
        EXPECT_NEAR(first[cookie], 200, 75) << cookie;
    }
}

}  // namespace
}  // namespace shoal::net::impl
