#include "net/crypto/packet_cipher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/net/support/hex.h"

namespace shoal::net::impl {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kHeaderBytes = 3;
constexpr std::uint64_t kCipherProtocol = 0x0123456789ABCDEF;

SecretKey key_of(int byte) {
    Bytes32 bytes;
    bytes.fill(std::byte(byte));
    return SecretKey(bytes);
}

Security security_of(bool is_sealed) {
    return is_sealed ? Security::sealed : Security::insecure;
}

struct Ends {
    explicit Ends(bool is_sealed = true, std::uint64_t first = 1)
        : a(security_of(is_sealed), kCipherProtocol, key_of(1), key_of(2), first, 0s),
          b(security_of(is_sealed), kCipherProtocol, key_of(2), key_of(1), first, 0s) {}
    PacketCipher a, b;
};

struct Sealed {
    std::uint64_t number;
    bool phase;
    std::vector<std::byte> bytes;
};

Sealed seal(const PacketCipher& cipher, std::uint64_t number, bool phase, const std::string& body) {
    Sealed packet{number, phase, std::vector<std::byte>(kHeaderBytes, std::byte(phase ? 0xAC : 0xA8))};
    for (const char letter : body) packet.bytes.push_back(std::byte(letter));
    packet.bytes.resize(packet.bytes.size() + cipher.tag_bytes());
    cipher.seal(number, packet.bytes, kHeaderBytes);
    return packet;
}

bool open(PacketCipher& cipher, Sealed packet, Time now = 0s, Duration linger = 1s) {
    return cipher.open(packet.number, packet.phase, packet.bytes, kHeaderBytes, now, linger);
}

// Expected bytes of a second implementation.
TEST(PacketCipher, BytesAreFixed) {
    Ends sealed;
    EXPECT_EQ(to_hex(seal(sealed.a, 7, false, "body").bytes),
              "a8a8a859cf8499242a8d82e5b2d38bff097603e9bf35bb");
    const KeyLife soon{1, 1h};
    EXPECT_TRUE(sealed.a.prepare(8, 1, soon, 0s));
    EXPECT_EQ(to_hex(seal(sealed.a, 8, true, "body").bytes),
              "acacac2e0ff42f9539dd7223115977121c75ccaf8fdebb");
}

TEST(PacketCipher, ChangedBitsNumbersDirectionsAndProtocolsAreRefused) {
    for (const bool is_sealed : {true, false}) {
        SCOPED_TRACE(is_sealed);
        Ends ends(is_sealed);
        const Sealed packet = seal(ends.a, 7, false, "some body");
        for (std::size_t bit = 0; bit < packet.bytes.size() * 8; ++bit) {
            Sealed damaged = packet;
            damaged.bytes[bit / 8] ^= std::byte(1u << bit % 8);
            const std::vector<std::byte> before = damaged.bytes;
            ASSERT_FALSE(ends.b.open(7, false, damaged.bytes, kHeaderBytes, 0s, 1s)) << bit;
            ASSERT_EQ(damaged.bytes, before);
        }
        for (std::size_t size = 0; size < packet.bytes.size(); ++size) {
            Sealed cut = packet;
            cut.bytes.resize(size);
            cut.bytes.shrink_to_fit();
            ASSERT_FALSE(open(ends.b, cut)) << size;
        }
        Sealed renumbered = packet;
        renumbered.number = 8;
        EXPECT_FALSE(open(ends.b, renumbered));
        EXPECT_FALSE(open(ends.a, packet)) << "reflected";
        PacketCipher elsewhere(security_of(is_sealed), 1, key_of(2), key_of(1), 1, 0s);
        EXPECT_FALSE(open(elsewhere, packet));
        EXPECT_TRUE(open(ends.b, packet));
    }
}

TEST(PacketCipher, SealingHidesTheBodyAndInsecureDoesNot) {
    const std::string body = "attack at dawn";
    const auto shows = [&](bool is_sealed) {
        Ends ends(is_sealed);
        const Sealed packet = seal(ends.a, 1, false, body);
        const auto wanted = std::as_bytes(std::span(body));
        const auto& bytes = packet.bytes;
        return std::search(bytes.begin(), bytes.end(), wanted.begin(), wanted.end()) != bytes.end();
    };
    EXPECT_FALSE(shows(true));
    EXPECT_TRUE(shows(false));
}

// Goal: whatever is lost, late or duplicated, every packet is opened with the key that sealed it, and the two
// sides never have different keys.
// Method: keys for three packets; the path drops and delays at random.
TEST(PacketCipher, KeyUpdatesWorkUnderLossAndReordering) {
    for (unsigned seed = 1; seed <= 300; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        Ends ends;
        const KeyLife life{1 + seed % 3, 1h};
        std::vector<Sealed> under_way;
        std::uint64_t newest_opened = 0, newest_acked = 0, opened = 0, turns = 0;
        bool phase = false;
        for (std::uint64_t number = 1; number <= 400; ++number) {
            const bool next = ends.a.prepare(number, newest_acked, life, 0s);
            turns += next != phase;
            phase = next;
            if (random() % 4 != 0) under_way.push_back(seal(ends.a, number, phase, "body"));
            while (under_way.size() > random() % 6) {
                const auto chosen =
                    under_way.begin() + static_cast<std::ptrdiff_t>(random() % under_way.size());
                // A key seals at least life.packets packets, so there is at most one update in between.
                const bool is_recent = chosen->number + life.packets > newest_opened;
                const bool is_open = open(ends.b, *chosen);
                ASSERT_TRUE(is_open || !is_recent) << chosen->number;
                opened += is_open;
                if (is_open) newest_opened = std::max(newest_opened, chosen->number);
                under_way.erase(chosen);
            }
            if (random() % 3 == 0) newest_acked = newest_opened;
        }
        EXPECT_GT(turns, 20u);
        EXPECT_GT(opened, 200u);
        // Whatever happened before, the next packet is opened.
        EXPECT_TRUE(open(ends.b, seal(ends.a, 401, ends.a.prepare(401, newest_opened, life, 0s), "body")));
    }
}

TEST(PacketCipher, AKeyIsNotUpdatedBeforeTheOtherSideFollowed) {
    Ends ends;
    const KeyLife life{4, 10s};
    EXPECT_FALSE(ends.a.prepare(4, 3, life, 0s));
    EXPECT_FALSE(ends.a.prepare(100, 0, life, 100s)) << "nothing was acknowledged";
    EXPECT_TRUE(ends.a.prepare(101, 1, life, 100s));
    EXPECT_TRUE(ends.a.prepare(200, 100, life, 200s)) << "no packet of this key was acknowledged";
    EXPECT_FALSE(ends.a.prepare(201, 101, life, 200s));
    EXPECT_FALSE(ends.a.prepare(202, 201, life, 209s));
    EXPECT_TRUE(ends.a.prepare(203, 201, life, 210s)) << "its life has ended";
}

TEST(PacketCipher, TheFormerKeyIsValidForOneSecond) {
    const KeyLife life{2, 1h};
    for (const Duration wait : {Duration(0), Duration(999ms), Duration(1s)}) {
        Ends ends;
        const Sealed late = seal(ends.a, 2, false, "late");
        ASSERT_TRUE(open(ends.b, seal(ends.a, 1, false, "first")));
        ASSERT_TRUE(open(ends.b, seal(ends.a, 3, ends.a.prepare(3, 1, life, 0s), "next"), 5s));
        ends.b.update(5s + wait);
        EXPECT_EQ(open(ends.b, late, 5s + wait), wait < 1s);
    }
}

// An attacker who flips the phase bit, or replays a packet of an earlier key, causes no key update.
TEST(PacketCipher, ForgeriesCauseNoKeyUpdate) {
    Ends ends;
    const KeyLife life{1, 1h};
    const Sealed old = seal(ends.a, 1, false, "old");
    ASSERT_TRUE(open(ends.b, old));
    ASSERT_TRUE(open(ends.b, seal(ends.a, 2, ends.a.prepare(2, 1, life, 0s), "two")));
    ASSERT_TRUE(open(ends.b, seal(ends.a, 3, ends.a.prepare(3, 2, life, 0s), "three")));
    EXPECT_FALSE(open(ends.b, old));
    Sealed flipped = seal(ends.a, 4, false, "four");
    flipped.phase = true;
    EXPECT_FALSE(open(ends.b, flipped));
    flipped.number = 1000;
    EXPECT_FALSE(open(ends.b, flipped));
    EXPECT_TRUE(open(ends.b, seal(ends.a, 4, false, "four")));
}

// The keys of a handshake serve both security modes: sealed, they encrypt; insecure, they only make tags.
TEST(PacketCipher, SecurityDecidesHowTheKeysOfAHandshakeAreUsed) {
    for (const Security security : {Security::sealed, Security::insecure}) {
        PacketCipher a(security, kCipherProtocol, key_of(1), key_of(2), 1, 0s);
        PacketCipher b(security, kCipherProtocol, key_of(2), key_of(1), 1, 0s);
        EXPECT_EQ(a.tag_bytes(), security == Security::sealed ? kTagBytes : kInsecureTagBytes);
        EXPECT_TRUE(open(b, seal(a, 1, false, "body")));
        EXPECT_TRUE(open(a, seal(b, 1, false, "body")));
        EXPECT_FALSE(open(a, seal(a, 2, false, "body"))) << "each direction has its own key";
    }
}

TEST(PacketCipher, TooManyForgeriesEndAKey) {
    EXPECT_EQ(PacketCipher::kMaxForgeries, 1ull << 36);
    Ends ends;
    Sealed forged = seal(ends.a, 1, false, "forged");
    forged.bytes.back() ^= std::byte(1);
    ends.b.add_forgeries(PacketCipher::kMaxForgeries - 2);
    EXPECT_FALSE(open(ends.b, forged));
    EXPECT_TRUE(open(ends.b, seal(ends.a, 1, false, "true")));
    // The next key begins with a count of zero.
    const KeyLife soon{1, 1h};
    ASSERT_TRUE(open(ends.b, seal(ends.a, 2, ends.a.prepare(2, 1, soon, 0s), "two")));
    EXPECT_FALSE(open(ends.b, forged));
    ASSERT_TRUE(open(ends.b, seal(ends.a, 3, true, "three")));
    ends.b.add_forgeries(PacketCipher::kMaxForgeries - 2);
    EXPECT_FALSE(open(ends.b, forged));
    EXPECT_FALSE(open(ends.b, seal(ends.a, 4, true, "four")));
    EXPECT_TRUE(open(ends.a, seal(ends.b, 1, false, "good-bye")));
}

TEST(PacketCipher, WipedKeysOpenNothing) {
    for (const bool is_sealed : {true, false}) {
        Ends ends(is_sealed);
        const Sealed packet = seal(ends.a, 1, false, "body");
        ends.b.forget_receive_keys();
        EXPECT_FALSE(open(ends.b, packet));
        EXPECT_TRUE(open(ends.a, seal(ends.b, 1, false, "it can still seal")));
        ends.b.forget_send_key();
        EXPECT_FALSE(open(ends.b, packet));
#ifndef NDEBUG
        EXPECT_DEATH((void)seal(ends.b, 2, false, "body"), "send_");
#endif
    }
}

}  // namespace
}  // namespace shoal::net::impl
