#include "net/crypto/entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace shoal::net {
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
        const Key key = entropy.next_key();
        Bytes32 bytes;
        std::ranges::copy(key.bytes(), bytes.begin());
        EXPECT_TRUE(seen.insert(bytes).second);
    }
}

}  // namespace
}  // namespace shoal::net
