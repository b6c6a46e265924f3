#include "net/socket/system_random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace shoal::net::impl {
namespace {

// 1,000 bytes are more than one call of any system returns. A correct source fails with a chance below 2^-50.
TEST(SystemRandom, FillsEveryByteAnew) {
    std::vector<std::byte> first(1000), second(1000);
    ASSERT_TRUE(fill_random(first));
    ASSERT_TRUE(fill_random(second));
    for (std::size_t start = 0; start + 8 <= first.size(); start += 8) {
        const auto from = first.begin() + static_cast<std::ptrdiff_t>(start);
        EXPECT_FALSE(std::equal(from, from + 8, second.begin() + static_cast<std::ptrdiff_t>(start)));
        EXPECT_FALSE(std::all_of(from, from + 8, [](std::byte byte) { return byte == std::byte{0}; }));
    }
}

TEST(SystemRandom, WritesNothingOutsideTheSpan) {
    std::vector<std::byte> bytes(300, std::byte{7});
    ASSERT_TRUE(fill_random(std::span(bytes).subspan(10, 280)));
    ASSERT_TRUE(fill_random({}));
    for (std::size_t i = 0; i < 10; ++i) {
        EXPECT_EQ(bytes[i], std::byte{7});
        EXPECT_EQ(bytes[290 + i], std::byte{7});
    }
}

}  // namespace
}  // namespace shoal::net::impl
