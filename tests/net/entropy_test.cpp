#include "net/crypto/entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace shoal::net::impl {
namespace {

TEST(Entropy, IsRepeatableAndDependsOnEverySeedByte) {
    std::set<std::uint64_t> firsts;
    for (std::size_t i = 0; i < 32; ++i) {
        Seed seed{};
        seed[i] = std::byte(1);
        Entropy a(seed);
        Entropy b(seed);
        const std::uint64_t first = a.next();
        EXPECT_EQ(first, b.next());
        EXPECT_NE(first, a.next());
        EXPECT_TRUE(firsts.insert(first).second);
    }
}

TEST(Entropy, KeysNeverRepeatAndAreNotTheSeed) {
    Seed seed{};
    seed[3] = std::byte(7);
    Entropy entropy(seed);
    std::set<Bytes32> seen{seed};
    for (int i = 0; i < 1000; ++i) {
        const SecretKey key = entropy.next_key();
        Bytes32 bytes;
        std::ranges::copy(key.bytes(), bytes.begin());
        EXPECT_TRUE(seen.insert(bytes).second);
    }
}

// Goal: two endpoints made from one config, or from copies of it, never have the same seed.
TEST(OneTimeSeed, IsTakenOnceFromAllCopies) {
    Seed bytes{};
    bytes[5] = std::byte(9);
    OneTimeSeed seed = bytes;
    const OneTimeSeed copy = seed;
    EXPECT_FALSE(seed.is_missing());
    EXPECT_TRUE(equal_in_constant_time(copy.take().bytes(), bytes));
    EXPECT_TRUE(seed.is_missing());
    EXPECT_TRUE(copy.is_missing());
    EXPECT_TRUE(equal_in_constant_time(seed.take().bytes(), Seed{}));
    EXPECT_TRUE(OneTimeSeed().is_missing());
    EXPECT_TRUE(equal_in_constant_time(OneTimeSeed().take().bytes(), Seed{}));
}

TEST(OneTimeSeed, GivesASecretNumberWithoutBeingTaken) {
    const OneTimeSeed first = Seed{std::byte(1)}, same = Seed{std::byte(1)}, other = Seed{std::byte(2)};
    EXPECT_EQ(first.number(), same.number());
    EXPECT_NE(first.number(), other.number());
    EXPECT_FALSE(first.is_missing());
    EXPECT_NE(first.number(), Entropy(Seed{std::byte(1)}).next());
    EXPECT_EQ(OneTimeSeed().number(), 0u);
}

TEST(OneTimeSeed, WritingToACopyMakesItAnotherSeed) {
    OneTimeSeed first = Seed{std::byte(1)};
    OneTimeSeed second = first;
    second[1] = std::byte(2);
    const std::span<std::byte> bytes = second;  // as passed to fill_random
    bytes[2] = std::byte(3);
    EXPECT_TRUE(equal_in_constant_time(first.take().bytes(), Seed{std::byte(1)}));
    EXPECT_FALSE(second.is_missing());
    EXPECT_TRUE(
        equal_in_constant_time(second.take().bytes(), Seed{std::byte(1), std::byte(2), std::byte(3)}));
}

}  // namespace
}  // namespace shoal::net::impl
