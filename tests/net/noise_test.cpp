#include "net/crypto/noise.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/net/support/hex.h"

namespace shoal::net::impl {
namespace {

using Buffer = std::vector<std::byte>;

SecretKey key_of(std::string_view digits) {
    const Buffer bytes = from_hex(digits);
    return SecretKey(std::span(bytes).first<kKeyBytes>());
}

/// Test vectors of cacophony, a Noise implementation in Haskell.
constexpr std::string_view kPrologue = "4a6f686e2047616c74";
constexpr std::string_view kServerName = "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893";
constexpr std::string_view kServerPublic = "31e0303fd6418d2f8c0e78b91f22e8caed0fbe48656dcf4767e4834f701b8f62";
constexpr std::string_view kInitiatorEphemeral =
    "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a";
constexpr std::string_view kResponderEphemeral =
    "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b";

PublicKey server_public() {
    const Buffer bytes = from_hex(kServerPublic);
    PublicKey key;
    std::ranges::copy(bytes, key.begin());
    return key;
}

/// A buffer for a handshake message with its payload.
Buffer message_with(std::string_view payload_digits) {
    const Buffer payload = from_hex(payload_digits);
    Buffer message(payload.size() + kNoiseOverheadBytes);
    std::ranges::copy(payload, noise_payload(message).begin());
    return message;
}

struct Exchange {
    Buffer prologue = from_hex(kPrologue);
    NoiseExchange client{prologue, server_public()};
    NoiseExchange server{prologue, server_public()};

    Buffer first() {
        Buffer message = message_with("4c756477696720766f6e204d69736573");
        EXPECT_TRUE(client.write(key_of(kInitiatorEphemeral), message));
        return message;
    }
    Buffer second() {
        Buffer message = message_with("4d757272617920526f746862617264");
        EXPECT_TRUE(server.write(key_of(kResponderEphemeral), message));
        return message;
    }
};

/// Messages in both directions, sealed with the keys of the handshake and numbered from zero.
void expect_transport(const Exchange& exchange, const std::string_view (&sealed)[4]) {
    constexpr std::string_view kTexts[] = {"462e20412e20486179656b", "4361726c204d656e676572",
                                           "4a65616e2d426170746973746520536179",
                                           "457567656e2042f6686d20766f6e2042617765726b"};
    for (const NoiseKeys& keys : {exchange.client.split(), exchange.server.split()}) {
        for (std::size_t i = 0; i < 4; ++i) {
            Buffer text = from_hex(kTexts[i]);
            Tag tag;
            seal(i % 2 == 0 ? keys.to_responder : keys.to_initiator, nonce_from(i / 2), {}, text, tag);
            EXPECT_EQ(to_hex(text) + to_hex(tag), sealed[i]);
        }
    }
}

TEST(Noise, MatchesThePublishedVectors) {
    Exchange exchange;
    Buffer first = exchange.first();
    EXPECT_EQ(to_hex(first),
              "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944"
              "54ae7612d1724af42adb130160a9a94e67b5b169b4e00c189f6467cd17eb7cad");
    ASSERT_TRUE(exchange.server.read(key_of(kServerName), first));
    EXPECT_EQ(to_hex(noise_payload(first)), "4c756477696720766f6e204d69736573");
    Buffer second = exchange.second();
    EXPECT_EQ(to_hex(second),
              "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843"
              "986a5c929337e337ac8b4a074af12ab9f76318a5f18c8b599a443af07383ce");
    ASSERT_TRUE(exchange.client.read(key_of(kInitiatorEphemeral), second));
    EXPECT_EQ(to_hex(noise_payload(second)), "4d757272617920526f746862617264");

    expect_transport(exchange,
                     {"550027c7a5d450017bcb5e12b8253b1c53fd2213aeda84891d5f95",
                      "dfbce0c38210ccee35e830aca9dd8b8b3997b933e75bfc8864b759",
                      "4c487a88330c7c65e44d430addf3d92d2a15b081a2892b96693e00b68aec0adac2",
                      "471cb9f8252d8ae7b25c93f4b4aebdbf25e5baa23f14bc743559e3ef7fd065e69cfaef55ee"});
}

TEST(Noise, DamageToAnyPartOfTheFirstMessageIsRefused) {
    const Buffer message = Exchange().first();
    for (std::size_t bit = 0; bit < message.size() * 8; ++bit) {
        Buffer damaged = message;
        damaged[bit / 8] ^= std::byte(1u << bit % 8);
        EXPECT_FALSE(Exchange().server.read(key_of(kServerName), damaged)) << bit;
    }
    for (std::size_t size = 0; size < message.size(); ++size) {
        Buffer cut(message.begin(), message.begin() + std::ptrdiff_t(size));
        EXPECT_FALSE(Exchange().server.read(key_of(kServerName), cut)) << size;
    }
    Buffer whole = message;
    EXPECT_FALSE(Exchange().server.read(key_of(kResponderEphemeral), whole)) << "another server's key";
    NoiseExchange elsewhere(from_hex("00"), server_public());
    EXPECT_FALSE(elsewhere.read(key_of(kServerName), whole)) << "another prologue";
}

TEST(Noise, ForgedAnswersLeaveTheInitiatorWaiting) {
    Exchange exchange;
    Buffer first = exchange.first();
    ASSERT_TRUE(exchange.server.read(key_of(kServerName), first));
    const Buffer answer = exchange.second();
    for (std::size_t bit = 0; bit < answer.size() * 8; ++bit) {
        Buffer damaged = answer;
        damaged[bit / 8] ^= std::byte(1u << bit % 8);
        EXPECT_FALSE(exchange.client.read(key_of(kInitiatorEphemeral), damaged)) << bit;
    }
    for (std::size_t size = 0; size < answer.size(); ++size) {
        Buffer cut(answer.begin(), answer.begin() + std::ptrdiff_t(size));
        EXPECT_FALSE(exchange.client.read(key_of(kInitiatorEphemeral), cut)) << size;
    }
    Buffer zeros(answer.size());
    EXPECT_FALSE(exchange.client.read(key_of(kInitiatorEphemeral), zeros)) << "an invalid key";
    Buffer whole = answer;
    EXPECT_TRUE(exchange.client.read(key_of(kInitiatorEphemeral), whole));
}

TEST(Noise, AnInvalidPublicKeyIsRefused) {
    NoiseExchange client({}, PublicKey{});
    Buffer message(100);
    EXPECT_FALSE(client.write(key_of(kInitiatorEphemeral), message));
    NoiseExchange server({}, server_public());
    Buffer zeros(100);
    EXPECT_FALSE(server.read(key_of(kServerName), zeros));
}

}  // namespace
}  // namespace shoal::net::impl
