#include "net/handshake.h"

#include <gtest/gtest.h>

#include <set>

#include "net_world.h"

namespace shoal::net {
namespace {

std::string hex(std::span<const std::byte> bytes) {
    std::string result;
    for (const std::byte byte : bytes) {
        char digits[4];
        std::snprintf(digits, sizeof digits, "%02x ", std::to_integer<unsigned>(byte));
        result += digits;
    }
    if (!result.empty()) result.pop_back();
    return result;
}

template <class Kind>
std::vector<std::byte> bytes_of(const Kind& packet) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const auto written = write(packet, buffer);
    return {written.begin(), written.end()};
}

const Request kRequest{kWireVersion, 0x1122334455667788, 0xC0FFEE};
const CookieReply kCookie{0x1122334455667788, 0x99};
const Connect kConnect{kWireVersion, 0x1122334455667788, 0xC0FFEE, 0x5C4E, 0x99, 7, as_bytes("hello")};
const Accept kAccept{0x1122334455667788, 0xAB, 9, 0xAABB0001};
const Refuse kRefuse{0x1122334455667788, DisconnectReason::refused_schema, 0x5C4F, "Health differs"};

template <class Kind>
void expect_only_the_whole_is_read(const Kind& packet) {
    const std::vector<std::byte> whole = bytes_of(packet);
    Kind out;
    EXPECT_FALSE(read(whole, out));
    for (std::size_t size = 0; size < whole.size(); ++size) {
        const std::vector<std::byte> cut(whole.begin(), whole.begin() + std::ptrdiff_t(size));
        ASSERT_TRUE(read(cut, out)) << size;
    }
    for (std::size_t i = 0; i < whole.size(); ++i) {
        std::vector<std::byte> damaged = whole;
        for (unsigned bit = 0; bit < 8; ++bit) {
            damaged[i] ^= std::byte(1u << bit);
            ASSERT_TRUE(read(damaged, out)) << i;
        }
    }
}

TEST(Handshake, TruncatedAndDamagedPacketsAreDropped) {
    expect_only_the_whole_is_read(kRequest);
    expect_only_the_whole_is_read(kCookie);
    expect_only_the_whole_is_read(kConnect);
    expect_only_the_whole_is_read(kAccept);
    expect_only_the_whole_is_read(kRefuse);
}

// The padding is what keeps answers smaller than questions: an intact but short question is none.
TEST(Handshake, ShortQuestionsAreDroppedThoughTheirChecksumHolds) {
    constexpr SipKey kKey{0x6168206c616f6873, 0x20656b616873646e};
    const auto shortened = [&](std::vector<std::byte> bytes, std::size_t size) {
        bytes.resize(size - kTagBytes);
        const std::uint64_t checksum = siphash(kKey, {}, bytes);
        for (unsigned i = 0; i < kTagBytes; ++i) bytes.push_back(std::byte(checksum >> (8 * i)));
        return bytes;
    };
    Request request;
    Connect connect;
    for (std::size_t size = 64; size < kMaxDatagramBytes; size += 8) {
        EXPECT_EQ(read(shortened(bytes_of(kRequest), size), request), Drop::truncated);
        EXPECT_EQ(read(shortened(bytes_of(kConnect), size), connect), Drop::truncated);
    }
    EXPECT_FALSE(read(shortened(bytes_of(kRequest), kMaxDatagramBytes), request));
}

// The wire format is a promise: these bytes never change without a new kWireVersion. The checksums were
// computed by a second implementation.
TEST(Handshake, BytesOfEachKindArePinned) {
    const auto request = bytes_of(kRequest);
    ASSERT_EQ(request.size(), 1200u);
    EXPECT_EQ(hex(std::span(request).first(20)),
              "80 01 88 77 66 55 44 33 22 11 ee ff c0 00 00 00 00 00 00 00");
    EXPECT_EQ(hex(std::span(request).last(9)), "00 9a ca 17 6a 5f 46 7e 25");
    EXPECT_EQ(hex(bytes_of(kCookie)),
              "88 01 88 77 66 55 44 33 22 11 99 00 00 00 00 00 00 00 08 18 61 f5 4c 1b 40 36");
    const auto connect = bytes_of(kConnect);
    ASSERT_EQ(connect.size(), 1200u);
    EXPECT_EQ(hex(std::span(connect).first(50)),
              "90 01 88 77 66 55 44 33 22 11 ee ff c0 00 00 00 00 00 4e 5c 00 00 00 00 00 00 99 00 00 00 00 "
              "00 00 00 "
              "07 00 00 00 00 00 00 00 05 00 68 65 6c 6c 6f 00");
    EXPECT_EQ(hex(std::span(connect).last(9)), "00 ab 78 83 c5 7e 81 37 02");
    EXPECT_EQ(hex(bytes_of(kAccept)),
              "98 01 88 77 66 55 44 33 22 11 ab 00 00 00 00 00 00 00 09 00 00 00 00 00 00 00 01 00 bb aa "
              "99 6b 70 2f 86 b1 a9 19");
    EXPECT_EQ(
        hex(bytes_of(kRefuse)),
        "a0 01 88 77 66 55 44 33 22 11 09 4f 5c 00 00 00 00 00 00 48 65 61 6c 74 68 20 64 69 66 66 65 72 73 "
        "62 5c 9f f8 c8 98 91 4c");
}

TEST(Handshake, FieldsSurvive) {
    Connect connect;
    const auto bytes = bytes_of(kConnect);
    ASSERT_FALSE(read(bytes, connect));
    EXPECT_EQ(connect.cookie, kConnect.cookie);
    EXPECT_EQ(connect.schema_hash, kConnect.schema_hash);
    EXPECT_EQ(connect.first_packet_number, 7u);
    EXPECT_EQ(as_text(connect.hello), "hello");
    Refuse refuse;
    const auto refusal = bytes_of(kRefuse);
    ASSERT_FALSE(read(refusal, refuse));
    EXPECT_EQ(refuse.reason, DisconnectReason::refused_schema);
    EXPECT_EQ(refuse.schema_hash, 0x5C4Fu);
    EXPECT_EQ(refuse.text, "Health differs");
}

TEST(Handshake, CookieHoldsForOneAddressOneNonceAndAShortTime) {
    const SipKey key{1, 2};
    const Address address = Address::ipv4(1, 2, 3, 4, 5);
    for (Time made = 100s; made < 117s; made += 500ms) {
        const std::uint64_t cookie = make_cookie(key, address, 7, made);
        EXPECT_TRUE(is_cookie_valid(key, address, 7, cookie, made));
        EXPECT_TRUE(is_cookie_valid(key, address, 7, cookie, made + 8s));
        EXPECT_FALSE(is_cookie_valid(key, address, 7, cookie, made + 16s));
        EXPECT_FALSE(is_cookie_valid(key, address, 8, cookie, made));
        EXPECT_FALSE(is_cookie_valid(key, Address::ipv4(1, 2, 3, 5, 5), 7, cookie, made));
        EXPECT_FALSE(is_cookie_valid(key, Address::ipv4(1, 2, 3, 4, 6), 7, cookie, made));
        EXPECT_FALSE(is_cookie_valid({1, 3}, address, 7, cookie, made));
        EXPECT_FALSE(is_cookie_valid(key, address, 7, cookie + 1, made));
    }
}

TEST(Handshake, KeysDependOnEverything) {
    std::set<std::uint64_t> words;
    const auto add = [&](const SessionKeys& keys) {
        for (const std::uint64_t word : {keys.client_to_server.low, keys.client_to_server.high,
                                         keys.server_to_client.low, keys.server_to_client.high}) {
            EXPECT_TRUE(words.insert(word).second);
        }
    };
    add(derive_keys(1, 2, 3, 4, 5));
    add(derive_keys(9, 2, 3, 4, 5));
    add(derive_keys(1, 9, 3, 4, 5));
    add(derive_keys(1, 2, 9, 4, 5));
    add(derive_keys(1, 2, 3, 9, 5));
    add(derive_keys(1, 2, 3, 4, 9));
}

}  // namespace
}  // namespace shoal::net
