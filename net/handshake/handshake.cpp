#include "handshake.h"

#include <algorithm>
#include <cassert>

#include "../packet.h"

namespace shoal::net {
namespace {

constexpr std::size_t kPreludeBytes = 1 + 1 + 8;  // kind, version, nonce
constexpr Duration kCookieSlice = std::chrono::seconds(8);
constexpr std::uint64_t kMaxFirstNumber = 1ull << 62;

ByteWriter begin(DatagramBuffer buffer, PacketKind kind, std::uint8_t version, std::uint64_t client_nonce) {
    ByteWriter out(buffer);
    out.u8(0x80u | static_cast<unsigned>(kind) << 3);
    out.u8(version);
    out.u64(client_nonce);
    return out;
}

/// Checks kind and size, and reads the prelude.
std::optional<Drop> open(std::span<const std::byte> datagram, PacketKind kind, ByteReader& in,
                         std::uint8_t& version, std::uint64_t& client_nonce) {
    const bool is_padded = kind == PacketKind::request || kind == PacketKind::connect;
    if (datagram.size() < (is_padded ? kMaxDatagramBytes : kPreludeBytes)) return Drop::truncated;
    if (datagram.size() > kMaxDatagramBytes) return Drop::oversized;
    if (read_kind(datagram[0]) != kind) return Drop::unknown_kind;
    in = ByteReader(datagram);
    in.u8();
    version = in.u8();
    client_nonce = in.u64();
    return std::nullopt;
}

std::optional<Drop> bad_unless(bool is_good) {
    return is_good ? std::nullopt : std::optional(Drop::bad_handshake);
}

bool is_first_number_valid(std::uint64_t number) {
    return number >= 1 && number <= kMaxFirstNumber;
}

std::uint64_t cookie_of_slice(const SipKey& key, const Address& client, std::uint64_t client_nonce,
                              std::uint64_t slice) {
    const std::uint64_t place = std::uint64_t(client.scope) << 32 | std::uint64_t(client.port) << 16 |
                                static_cast<std::uint64_t>(client.family);
    const std::uint64_t cookie =
        siphash(key, {slice, client_nonce, place}, std::as_bytes(std::span(client.ip)));
    return cookie != 0 ? cookie : 1;
}

std::uint64_t slice_at(Time now) {
    return static_cast<std::uint64_t>(now / kCookieSlice);
}

}  // namespace

std::span<const std::byte> write(const Request& packet, DatagramBuffer buffer) {
    ByteWriter out = begin(buffer, PacketKind::request, packet.version, packet.client_nonce);
    out.u64(packet.protocol_id);
    out.u8(static_cast<std::uint8_t>(packet.security));
    out.pad_to(kMaxDatagramBytes);
    return out.written();
}

std::optional<Drop> read(std::span<const std::byte> datagram, Request& packet) {
    ByteReader in({});
    if (const auto drop = open(datagram, PacketKind::request, in, packet.version, packet.client_nonce))
        return drop;
    if (packet.version != kWireVersion) return std::nullopt;
    packet.protocol_id = in.u64();
    packet.security = static_cast<Security>(in.u8());
    return std::nullopt;
}

std::span<const std::byte> write(const CookieReply& packet, DatagramBuffer buffer) {
    ByteWriter out = begin(buffer, PacketKind::cookie, kWireVersion, packet.client_nonce);
    out.u64(packet.cookie);
    return out.written();
}

std::optional<Drop> read(std::span<const std::byte> datagram, CookieReply& packet) {
    ByteReader in({});
    std::uint8_t version = 0;
    if (const auto drop = open(datagram, PacketKind::cookie, in, version, packet.client_nonce)) return drop;
    packet.cookie = in.u64();
    return bad_unless(in.ok() && in.remaining() == 0 && version == kWireVersion && packet.cookie != 0);
}

std::span<const std::byte> write(const Connect& packet, DatagramBuffer buffer) {
    assert(packet.message.size() == kConnectMessageBytes);
    ByteWriter out = begin(buffer, PacketKind::connect, packet.version, packet.client_nonce);
    out.u64(packet.protocol_id);
    out.u64(packet.cookie);
    out.bytes(packet.message);
    return out.written();
}

std::optional<Drop> read(std::span<const std::byte> datagram, Connect& packet) {
    ByteReader in({});
    if (const auto drop = open(datagram, PacketKind::connect, in, packet.version, packet.client_nonce))
        return drop;
    if (packet.version != kWireVersion) return std::nullopt;
    packet.protocol_id = in.u64();
    packet.cookie = in.u64();
    packet.message = in.rest();
    return std::nullopt;
}

std::span<const std::byte> write(const Answer& packet, DatagramBuffer buffer) {
    assert(packet.message.size() <= kMaxAnswerMessageBytes);
    ByteWriter out = begin(buffer, PacketKind::answer, kWireVersion, packet.client_nonce);
    out.u64(packet.cookie);
    out.bytes(packet.message);
    return out.written();
}

std::optional<Drop> read(std::span<const std::byte> datagram, Answer& packet) {
    ByteReader in({});
    std::uint8_t version = 0;
    if (const auto drop = open(datagram, PacketKind::answer, in, version, packet.client_nonce)) return drop;
    packet.cookie = in.u64();
    packet.message = in.rest();
    return bad_unless(in.ok() && version == kWireVersion && packet.message.size() <= kMaxAnswerMessageBytes);
}

std::span<const std::byte> write(const Refuse& packet, DatagramBuffer buffer) {
    ByteWriter out = begin(buffer, PacketKind::refuse, kWireVersion, packet.client_nonce);
    out.u8(static_cast<std::uint8_t>(packet.reason));
    return out.written();
}

std::optional<Drop> read(std::span<const std::byte> datagram, Refuse& packet) {
    ByteReader in({});
    std::uint8_t version = 0;  // any, and whatever follows: so old and new can tell each other
    if (const auto drop = open(datagram, PacketKind::refuse, in, version, packet.client_nonce)) return drop;
    packet.reason = static_cast<DisconnectReason>(in.u8());
    return bad_unless(in.ok() && (packet.reason == DisconnectReason::refused_protocol ||
                                  packet.reason == DisconnectReason::refused_key ||
                                  packet.reason == DisconnectReason::refused_security));
}

void write(const Introduction& introduction, std::span<std::byte, kIntroductionBytes> buffer) {
    assert(introduction.token.size() <= kMaxSealedTokenBytes);
    assert(introduction.hello.size() <= kMaxHelloBytes);
    assert(is_first_number_valid(introduction.first_packet_number));
    ByteWriter out(buffer);
    out.u64(introduction.schema_hash);
    out.u64(introduction.first_packet_number);
    out.u16(introduction.token.size());
    out.bytes(introduction.token);
    out.u16(introduction.hello.size());
    out.bytes(introduction.hello);
    out.pad_to(buffer.size());
}

bool read(std::span<const std::byte> bytes, Introduction& introduction) {
    ByteReader in(bytes);
    introduction.schema_hash = in.u64();
    introduction.first_packet_number = in.u64();
    introduction.token = in.bytes(in.u16());
    introduction.hello = in.bytes(in.u16());
    return in.ok() && bytes.size() == kIntroductionBytes && introduction.hello.size() <= kMaxHelloBytes &&
           introduction.token.size() <= kMaxSealedTokenBytes &&
           is_first_number_valid(introduction.first_packet_number);
}

std::size_t write(const Verdict& verdict, std::span<std::byte, kMaxVerdictBytes> buffer) {
    ByteWriter out(buffer);
    if (verdict.is_accepted) {
        assert(is_first_number_valid(verdict.first_packet_number));
        out.u8(0);
        out.u64(verdict.first_packet_number);
        out.u32(verdict.connection_id);
        out.bytes(verdict.reset_token);
    } else {
        assert(verdict.text.size() <= kMaxReasonBytes);
        out.u8(static_cast<std::uint8_t>(verdict.reason));
        out.u64(verdict.schema_hash);
        out.bytes(std::as_bytes(std::span(verdict.text)));
    }
    return out.size();
}

bool read(std::span<const std::byte> bytes, Verdict& verdict) {
    ByteReader in(bytes);
    const std::uint8_t reason = in.u8();
    verdict.is_accepted = reason == 0;
    if (verdict.is_accepted) {
        verdict.first_packet_number = in.u64();
        verdict.connection_id = in.u32();
        const std::span<const std::byte> token = in.bytes(verdict.reset_token.size());
        if (in.ok()) std::copy(token.begin(), token.end(), verdict.reset_token.begin());
        return in.ok() && in.remaining() == 0 && is_first_number_valid(verdict.first_packet_number);
    }
    verdict.reason = static_cast<DisconnectReason>(reason);
    verdict.schema_hash = in.u64();
    const std::span<const std::byte> text = in.rest();
    verdict.text = {reinterpret_cast<const char*>(text.data()), text.size()};
    return in.ok() && text.size() <= kMaxReasonBytes &&
           (verdict.reason == DisconnectReason::refused_schema ||
            verdict.reason == DisconnectReason::refused_full || verdict.reason == DisconnectReason::refused ||
            verdict.reason == DisconnectReason::refused_token);
}

std::array<std::byte, 26> handshake_prologue(std::uint64_t protocol_id, Security security,
                                             std::uint64_t client_nonce, std::uint64_t cookie) {
    std::array<std::byte, 26> prologue;
    ByteWriter out(prologue);
    out.u64(protocol_id);
    out.u8(kWireVersion);
    out.u8(static_cast<std::uint8_t>(security));
    out.u64(client_nonce);
    out.u64(cookie);
    return prologue;
}

std::uint64_t make_cookie(const SipKey& key, const Address& client, std::uint64_t client_nonce, Time now) {
    return cookie_of_slice(key, client, client_nonce, slice_at(now));
}

bool is_cookie_valid(const SipKey& key, const Address& client, std::uint64_t client_nonce,
                     std::uint64_t cookie, Time now) {
    const std::uint64_t slice = slice_at(now);
    return cookie == cookie_of_slice(key, client, client_nonce, slice) ||
           cookie == cookie_of_slice(key, client, client_nonce, slice - 1);
}

}  // namespace shoal::net
