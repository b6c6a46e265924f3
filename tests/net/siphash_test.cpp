#include "net/crypto/siphash.h"

#include <gtest/gtest.h>

#include <vector>

namespace shoal::net::impl {
namespace {

// The reference vectors: key 00 01 .. 0f, messages 00 01 .. of rising length.
TEST(SipHash, MatchesReferenceVectors) {
    constexpr SipKey kKey{0x0706050403020100, 0x0F0E0D0C0B0A0908};
    constexpr std::uint64_t kExpected[] = {
        0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
        0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
        0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
        0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5,
    };
    std::vector<std::byte> message;
    for (const std::uint64_t expected : kExpected) {
        EXPECT_EQ(siphash(kKey, {}, message), expected) << message.size();
        message.push_back(std::byte(message.size()));
    }
}

TEST(SipHash, PrefixEqualsItsBytes) {
    constexpr SipKey kKey{1, 2};
    std::vector<std::byte> bytes;
    for (int i = 0; i < 8; ++i) bytes.push_back(std::byte(0x10 + i));
    for (int i = 0; i < 5; ++i) bytes.push_back(std::byte(i));
    EXPECT_EQ(siphash(kKey, {}, bytes), siphash(kKey, {0x1716151413121110}, std::span(bytes).subspan(8)));
}

}  // namespace
}  // namespace shoal::net::impl
