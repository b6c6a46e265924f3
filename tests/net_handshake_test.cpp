#include "net/handshake/handshake.h"

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
const std::array<std::byte, kConnectBodyBytes> kBody = [] {
    std::array<std::byte, kConnectBodyBytes> body{};
    for (std::size_t i = 0; i < body.size(); ++i) body[i] = std::byte(i & 0xFF);
    return body;
}();
const Connect kConnect{kWireVersion, 0x1122334455667788, 0xC0FFEE, Way::key, 0x99, kBody};
const Answer kAnswer{0x1122334455667788, as_bytes("the body")};
const Refuse kRefuse{0x1122334455667788, DisconnectReason::refused_key};

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
    expect_only_the_whole_is_read(kAnswer);
    expect_only_the_whole_is_read(kRefuse);
}

// The padding is what keeps answers smaller than questions: an intact but short question is none.
TEST(Handshake, ShortQuestionsAreDroppedThoughTheirChecksumHolds) {
    constexpr SipKey kKey{0x6168206c616f6873, 0x20656b616873646e};
    const auto shortened = [&](std::vector<std::byte> bytes, std::size_t size) {
        bytes.resize(size - kChecksumBytes);
        const std::uint64_t checksum = siphash(kKey, {}, bytes);
        for (unsigned i = 0; i < kChecksumBytes; ++i) bytes.push_back(std::byte(checksum >> (8 * i)));
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
              "80 04 88 77 66 55 44 33 22 11 ee ff c0 00 00 00 00 00 00 00");
    EXPECT_EQ(hex(std::span(request).last(9)), "00 37 9e c0 ba ae 7e 56 1c");
    EXPECT_EQ(hex(bytes_of(kCookie)),
              "88 04 88 77 66 55 44 33 22 11 99 00 00 00 00 00 00 00 7c a6 1b c7 8f f7 7e e8");
    const auto connect = bytes_of(kConnect);
    ASSERT_EQ(connect.size(), 1200u);
    EXPECT_EQ(hex(std::span(connect).first(30)),
              "90 04 88 77 66 55 44 33 22 11 ee ff c0 00 00 00 00 00 01 99 00 00 00 00 00 00 00 00 01 02");
    EXPECT_EQ(hex(std::span(connect).last(9)), "8c 35 76 7f 60 76 d7 ae 4d");
    EXPECT_EQ(hex(bytes_of(kAnswer)),
              "98 04 88 77 66 55 44 33 22 11 74 68 65 20 62 6f 64 79 b4 5e e5 6f ad 2f 2b 8b");
    EXPECT_EQ(hex(bytes_of(kRefuse)),
              "a0 04 88 77 66 55 44 33 22 11 0c 00 00 00 00 00 00 00 00 55 e0 fb 2b b0 bf 1f 3e");
}

TEST(Handshake, IntroductionAndVerdictArePinned) {
    std::array<std::byte, kIntroductionBytes> introduction;
    write(Introduction{0x5C4E, 7, as_bytes("hello")}, introduction);
    EXPECT_EQ(hex(std::span(introduction).first(24)),
              "4e 5c 00 00 00 00 00 00 07 00 00 00 00 00 00 00 05 00 68 65 6c 6c 6f 00");
    Introduction read_introduction;
    ASSERT_TRUE(read(introduction, read_introduction));
    EXPECT_EQ(read_introduction.schema_hash, 0x5C4Eu);
    EXPECT_EQ(read_introduction.first_packet_number, 7u);
    EXPECT_EQ(as_text(read_introduction.hello), "hello");

    std::array<std::byte, kMaxVerdictBytes> buffer;
    Verdict verdict;
    verdict.is_accepted = true;
    verdict.first_packet_number = 9;
    verdict.connection_id = 0xAABB0001;
    verdict.reset_token.fill(std::byte(0x77));
    EXPECT_EQ(hex(std::span(buffer).first(write(verdict, buffer))),
              "00 09 00 00 00 00 00 00 00 01 00 bb aa 77 77 77 77 77 77 77 77 77 77 77 77 77 77 77 77");
    verdict = {};
    verdict.reason = DisconnectReason::refused_schema;
    verdict.schema_hash = 0x5C4F;
    verdict.text = "Health";
    const auto refused = std::span(buffer).first(write(verdict, buffer));
    EXPECT_EQ(hex(refused), "09 4f 5c 00 00 00 00 00 00 48 65 61 6c 74 68");
    Verdict read_verdict;
    ASSERT_TRUE(read(refused, read_verdict));
    EXPECT_FALSE(read_verdict.is_accepted);
    EXPECT_EQ(read_verdict.reason, DisconnectReason::refused_schema);
    EXPECT_EQ(read_verdict.schema_hash, 0x5C4Fu);
    EXPECT_EQ(read_verdict.text, "Health");
}

TEST(Handshake, WhatIsInsideIsCheckedToo) {
    std::array<std::byte, kIntroductionBytes> bytes;
    Introduction introduction;
    write(Introduction{1, 2, {}}, bytes);
    const auto with = [&](std::size_t at, int value) {
        auto changed = bytes;
        changed[at] = std::byte(value);
        return read(changed, introduction);
    };
    EXPECT_TRUE(with(16, 132));
    EXPECT_FALSE(with(17, 4)) << "a hello of more than 900 bytes";
    EXPECT_FALSE(with(8, 0)) << "a first number of zero";
    EXPECT_FALSE(with(15, 0x80)) << "a first number beyond 2^62";
    for (std::size_t size = 0; size < kIntroductionHeadBytes; ++size)
        EXPECT_FALSE(read(std::span(bytes).first(size), introduction));
    EXPECT_TRUE(read(std::span(bytes).first(kIntroductionHeadBytes), introduction)) << "beside a token";
    bytes[16] = std::byte(1);
    EXPECT_FALSE(read(std::span(bytes).first(kIntroductionHeadBytes), introduction)) << "a hello cut off";

    Verdict verdict;
    verdict.is_accepted = true;
    verdict.first_packet_number = 1;
    std::array<std::byte, kMaxVerdictBytes> buffer;
    const std::size_t size = write(verdict, buffer);
    for (std::size_t cut = 0; cut < size; ++cut) EXPECT_FALSE(read(std::span(buffer).first(cut), verdict));
    EXPECT_FALSE(read(std::span(buffer).first(size + 1), verdict));
    for (int reason = 1; reason < 256; ++reason) {
        buffer[0] = std::byte(reason);
        const bool is_refusal = (reason >= 9 && reason <= 11) || reason == 17;
        EXPECT_EQ(read(std::span(buffer).first(20), verdict), is_refusal) << reason;
    }
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

TEST(Handshake, InsecureKeysDependOnEverything) {
    std::set<std::uint64_t> words;
    const auto add = [&](const InsecureKeys& keys) {
        for (const std::uint64_t word : {keys.client_to_server.low, keys.client_to_server.high,
                                         keys.server_to_client.low, keys.server_to_client.high}) {
            EXPECT_TRUE(words.insert(word).second);
        }
    };
    add(derive_insecure_keys(1, 2, 3, 4, 5));
    add(derive_insecure_keys(9, 2, 3, 4, 5));
    add(derive_insecure_keys(1, 9, 3, 4, 5));
    add(derive_insecure_keys(1, 2, 9, 4, 5));
    add(derive_insecure_keys(1, 2, 3, 9, 5));
    add(derive_insecure_keys(1, 2, 3, 4, 9));
}

}  // namespace
}  // namespace shoal::net
