#include "net/handshake/handshake.h"

#include <gtest/gtest.h>

#include "tests/net/support/world.h"

namespace shoal::net::impl {
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

const Request kRequest{kWireVersion, 0x1122334455667788, 0xC0FFEE, Security::insecure};
const CookieReply kCookie{0x1122334455667788, 0x99};
const std::array<std::byte, kConnectMessageBytes> kMessage = [] {
    std::array<std::byte, kConnectMessageBytes> message{};
    for (std::size_t i = 0; i < message.size(); ++i) message[i] = std::byte(i & 0xFF);
    return message;
}();
const Connect kConnect{kWireVersion, 0x1122334455667788, 0xC0FFEE, 0x99, kMessage};
const Answer kAnswer{0x1122334455667788, 0x99, as_bytes("the message")};
const Refuse kRefuse{0x1122334455667788, DisconnectReason::refused_key};

/// Checks that a packet is read from `least` bytes on, and dropped if it is shorter or of another kind. A
/// packet with more bytes than it was written with is dropped unless `may_be_longer`.
template <class Kind>
void expect_sizes(const Kind& packet, std::size_t least, bool may_be_longer) {
    std::vector<std::byte> bytes = bytes_of(packet);
    Kind out;
    EXPECT_FALSE(read(bytes, out));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + std::ptrdiff_t(size));
        ASSERT_EQ(read(cut, out).has_value(), size < least) << size;
    }
    std::vector<std::byte> longer = bytes;
    longer.push_back(std::byte(0));
    EXPECT_EQ(read(longer, out).has_value(), !may_be_longer);
    for (int kind = 0; kind < 256; ++kind) {
        bytes[0] = std::byte(kind);
        EXPECT_EQ(read(bytes, out).has_value(), bytes[0] != longer[0]) << kind;
    }
}

// Requests are padded, so that answers are smaller than requests: a short request is dropped.
TEST(Handshake, PacketsOfAnotherSizeOrKindAreDropped) {
    expect_sizes(kRequest, kMaxDatagramBytes, false);
    expect_sizes(kCookie, 18, false);
    expect_sizes(kConnect, kMaxDatagramBytes, false);
    expect_sizes(kAnswer, 18, true);
    expect_sizes(kRefuse, 11, true);
    Answer answer;
    EXPECT_EQ(read(std::vector<std::byte>(kMaxDatagramBytes, std::byte(0x98)), answer), Drop::bad_handshake);
}

// The wire format: these bytes must not change without a new kWireVersion.
TEST(Handshake, BytesOfEachKindAreFixed) {
    const auto request = bytes_of(kRequest);
    ASSERT_EQ(request.size(), 1200u);
    EXPECT_EQ(hex(std::span(request).first(20)),
              "80 09 88 77 66 55 44 33 22 11 ee ff c0 00 00 00 00 00 01 00");
    for (std::size_t i = 19; i < request.size(); ++i) ASSERT_EQ(request[i], std::byte(0));
    EXPECT_EQ(hex(bytes_of(kCookie)), "88 09 88 77 66 55 44 33 22 11 99 00 00 00 00 00 00 00");
    const auto connect = bytes_of(kConnect);
    ASSERT_EQ(connect.size(), 1200u);
    EXPECT_EQ(hex(std::span(connect).first(29)),
              "90 09 88 77 66 55 44 33 22 11 ee ff c0 00 00 00 00 00 99 00 00 00 00 00 00 00 00 01 02");
    EXPECT_TRUE(std::equal(kMessage.begin(), kMessage.end(), connect.begin() + 26));
    EXPECT_EQ(hex(bytes_of(kAnswer)),
              "98 09 88 77 66 55 44 33 22 11 99 00 00 00 00 00 00 00 74 68 65 20 6d 65 73 73 61 67 65");
    EXPECT_EQ(hex(bytes_of(kRefuse)), "a0 09 88 77 66 55 44 33 22 11 0c");
}

// Versions recognise each other by packets that all of them can read.
TEST(Handshake, VersionAndNonceOfAnyVersionAreRead) {
    std::vector<std::byte> bytes = bytes_of(Request{4, 7, 0xC0FFEE, Security::sealed});
    Request request;
    ASSERT_FALSE(read(bytes, request));
    EXPECT_EQ(request.version, 4);
    EXPECT_EQ(request.client_nonce, 7u);
    Connect connect;
    ASSERT_FALSE(read(bytes_of(Connect{10, 7, 0, 0, kMessage}), connect));
    EXPECT_EQ(connect.version, 10);
    EXPECT_EQ(connect.client_nonce, 7u);
    bytes = bytes_of(kRefuse);
    bytes[1] = std::byte(4);
    bytes.resize(27);  // as version 4 wrote it
    Refuse refuse;
    ASSERT_FALSE(read(bytes, refuse));
    EXPECT_EQ(refuse.reason, DisconnectReason::refused_key);
    // All other packets must be of this version.
    bytes = bytes_of(kCookie);
    bytes[1] = std::byte(4);
    CookieReply cookie;
    EXPECT_EQ(read(bytes, cookie), Drop::bad_handshake);
    for (int reason = 0; reason < 256; ++reason) {
        bytes = bytes_of(kRefuse);
        bytes[10] = std::byte(reason);
        EXPECT_EQ(!read(bytes, refuse), reason == 8 || reason == 12 || reason == 13) << reason;
    }
}

TEST(Handshake, PrologueIsFixed) {
    EXPECT_EQ(hex(handshake_prologue(0xC0FFEE, Security::insecure, 0x1122334455667788, 0x99)),
              "ee ff c0 00 00 00 00 00 09 01 88 77 66 55 44 33 22 11 99 00 00 00 00 00 00 00");
}

TEST(Handshake, BytesOfClientHelloAndVerdictAreFixed) {
    std::array<std::byte, kClientHelloBytes> bytes;
    write(ClientHello{0x5C4E, 7, as_bytes("token"), as_bytes("hello")}, bytes);
    EXPECT_EQ(hex(std::span(bytes).first(31)),
              "4e 5c 00 00 00 00 00 00 07 00 00 00 00 00 00 00 05 00 74 6f 6b 65 6e 05 00 68 65 6c 6c 6f 00");
    ClientHello read_hello;
    ASSERT_TRUE(read(bytes, read_hello));
    EXPECT_EQ(read_hello.schema_hash, 0x5C4Eu);
    EXPECT_EQ(read_hello.first_packet_number, 7u);
    EXPECT_EQ(as_text(read_hello.token), "token");
    EXPECT_EQ(as_text(read_hello.hello), "hello");

    std::array<std::byte, kMaxVerdictBytes> buffer;
    Verdict verdict;
    verdict.is_accepted = true;
    verdict.first_packet_number = 9;
    verdict.connection_id = 0xAABB0001;
    verdict.reset_salt = 0x7766554433221100;
    verdict.reset_token = 0xFFEEDDCCBBAA9988;
    EXPECT_EQ(hex(std::span(buffer).first(write(verdict, buffer))),
              "00 09 00 00 00 00 00 00 00 01 00 bb aa 00 11 22 33 44 55 66 77 88 99 aa bb cc dd ee ff");
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

TEST(Handshake, ContentsOfClientHelloAndVerdictAreChecked) {
    std::array<std::byte, kClientHelloBytes> bytes;
    ClientHello hello;
    write(ClientHello{1, 2, {}, {}}, bytes);
    const auto with = [&](std::size_t at, int low, int high) {
        auto changed = bytes;
        changed[at] = std::byte(low);
        changed[at + 1] = std::byte(high);
        return read(changed, hello);
    };
    EXPECT_TRUE(with(18, 0x84, 3)) << "a hello of 900 bytes";
    EXPECT_FALSE(with(18, 0x85, 3)) << "a hello of 901 bytes";
    EXPECT_FALSE(with(18, 0xFF, 0xFF));
    EXPECT_TRUE(with(16, 0xDA, 1)) << "a token of 474 bytes";
    EXPECT_FALSE(with(16, 0xDB, 1)) << "a token of 475 bytes";
    EXPECT_FALSE(with(16, 0xFF, 0xFF));
    EXPECT_FALSE(with(8, 0, 0)) << "the first packet number is zero";
    EXPECT_FALSE(with(14, 0, 0x80)) << "the first packet number exceeds 2^62";
    for (std::size_t size = 0; size < bytes.size(); ++size)
        EXPECT_FALSE(read(std::span(bytes).first(size), hello));
    write(ClientHello{1, 1ull << 62, {}, {}}, bytes);
    EXPECT_TRUE(read(bytes, hello)) << "the first packet number is 2^62";

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

TEST(Handshake, AnAddressProofIsValidForOneAddressOneNameAndAShortTime) {
    const AddressProof proof{{1, 2}, 8s};
    const Address address = Address::ipv4(1, 2, 3, 4, 5);
    for (Time made = 100s; made < 117s; made += 500ms) {
        const std::uint64_t number = proof.make(address, 7, made);
        EXPECT_TRUE(proof.is_valid(address, 7, number, made));
        EXPECT_TRUE(proof.is_valid(address, 7, number, made + 8s));
        EXPECT_FALSE(proof.is_valid(address, 7, number, made + 16s));
        EXPECT_FALSE(proof.is_valid(address, 8, number, made));
        EXPECT_FALSE(proof.is_valid(Address::ipv4(1, 2, 3, 5, 5), 7, number, made));
        EXPECT_FALSE(proof.is_valid(Address::ipv4(1, 2, 3, 4, 6), 7, number, made));
        EXPECT_FALSE((AddressProof{{1, 3}, 8s}.is_valid(address, 7, number, made)));
        EXPECT_FALSE(proof.is_valid(address, 7, number + 1, made));
    }
}

}  // namespace
}  // namespace shoal::net::impl
