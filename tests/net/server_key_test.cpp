#include "net/handshake/server_key.h"

#include <gtest/gtest.h>

namespace shoal::net::impl {
namespace {

TEST(ServerKey, TextIsReadAsItWasWrittenAndNothingElseIsAKey) {
    SecretKey key;
    for (std::size_t i = 0; i < kKeyBytes; ++i) key.bytes()[i] = std::byte(17 * i + 3);
    const std::string text = to_text(public_key(key));
    ASSERT_EQ(text.size(), 64u);
    EXPECT_EQ(parse_public_key(text), public_key(key));
    std::string upper = text;
    for (char& letter : upper) letter = static_cast<char>(std::toupper(letter));
    EXPECT_EQ(parse_public_key(upper), public_key(key));
    const std::optional<SecretKey> same = parse_private_key(to_secret_text(key));
    ASSERT_TRUE(same);
    EXPECT_EQ(public_key(*same), public_key(key));

    EXPECT_FALSE(parse_public_key(""));
    EXPECT_FALSE(parse_public_key(text.substr(1)));
    EXPECT_FALSE(parse_public_key(text + "0"));
    EXPECT_FALSE(parse_public_key(text + "\n"));
    for (const char wrong : {'g', ' ', 'x', '-', '\0', '/', ':', '@', '`'}) {
        std::string bad = text;
        bad[31] = wrong;
        EXPECT_FALSE(parse_public_key(bad)) << wrong;
        EXPECT_FALSE(parse_private_key(bad)) << wrong;
    }
}

// The expected value was computed with another library.
TEST(ServerKey, PublicHalfIsThatOfCurve25519) {
    const auto key = parse_private_key("0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20");
    ASSERT_TRUE(key);
    EXPECT_EQ(to_text(public_key(*key)), "07a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2b86d1c7c");
}

TEST(ServerKey, AMissingKeyIsAllZero) {
    EXPECT_TRUE(is_missing(SecretKey()));
    EXPECT_TRUE(is_missing(PublicKey{}));
    for (std::size_t i = 0; i < kKeyBytes; ++i) {
        PublicKey key{};
        key[i] = std::byte(1);
        EXPECT_FALSE(is_missing(key));
        EXPECT_FALSE(is_missing(SecretKey(key)));
    }
}

}  // namespace
}  // namespace shoal::net::impl
