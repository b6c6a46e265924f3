#include "handshake.h"

#include <algorithm>
#include <cassert>

namespace shoal::net {
namespace {

// "shoal handshake ": no secret, the same for everyone, against damage only.
constexpr SipKey kChecksumKey{0x6168206c616f6873, 0x20656b616873646e};

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

std::span<const std::byte> finish(ByteWriter& out) {
    out.u64(siphash(kChecksumKey, {}, out.written()));
    return out.written();
}

/// Checks size and checksum, and reads the prelude. The reader then ends before the checksum.
std::optional<Drop> open(std::span<const std::byte> datagram, PacketKind kind, ByteReader& in,
                         std::uint8_t& version, std::uint64_t& client_nonce) {
    if (datagram.size() < kPreludeBytes + kChecksumBytes) return Drop::truncated;
    if (datagram.size() > kMaxDatagramBytes) return Drop::oversized;
    if (read_kind(datagram[0]) != kind) return Drop::unknown_kind;
    const bool is_padded = kind == PacketKind::request || kind == PacketKind::connect;
    if (is_padded && datagram.size() < kMaxDatagramBytes) return Drop::truncated;
    ByteReader checksum(datagram.last(kChecksumBytes));
    const std::span<const std::byte> covered = datagram.first(datagram.size() - kChecksumBytes);
    if (siphash(kChecksumKey, {}, covered) != checksum.u64()) return Drop::bad_checksum;
    in = ByteReader(covered);
    in.u8();
    version = in.u8();
    client_nonce = in.u64();
    return std::nullopt;
}

bool is_first_number_valid(std::uint64_t number) {
    return number >= 1 && number <= kMaxFirstNumber;
}

}  // namespace

std::span<const std::byte> write(const Request& packet, DatagramBuffer buffer) {
    ByteWriter out = begin(buffer, PacketKind::request, packet.version, packet.client_nonce);
    out.u64(packet.protocol_id);
    out.pad_to(kMaxDatagramBytes - kChecksumBytes);
    return finish(out);
}

std::optional<Drop> read(std::span<const std::byte> datagram, Request& packet) {
    ByteReader in({});
    if (const auto drop = open(datagram, PacketKind::request, in, packet.version, packet.client_nonce))
        return drop;
    if (packet.version != kWireVersion) return std::nullopt;
    packet.protocol_id = in.u64();
    return std::nullopt;
}

std::span<const std::byte> write(const CookieReply& packet, DatagramBuffer buffer) {
    ByteWriter out = begin(buffer, PacketKind::cookie, kWireVersion, packet.client_nonce);
    out.u64(packet.cookie);
    return finish(out);
}

std::optional<Drop> read(std::span<const std::byte> datagram, CookieReply& packet) {
    ByteReader in({});
    std::uint8_t version = 0;
    if (const auto drop = open(datagram, PacketKind::cookie, in, version, packet.client_nonce)) return drop;
    packet.cookie = in.u64();
    const bool is_good = in.ok() && in.remaining() == 0 && version == kWireVersion && packet.cookie != 0;
    return is_good ? std::nullopt : std::optional(Drop::bad_handshake);
}

std::span<const std::byte> write(const Connect& packet, DatagramBuffer buffer) {
    assert(packet.body.size() == kConnectBodyBytes);
    ByteWriter out = begin(buffer, PacketKind::connect, packet.version, packet.client_nonce);
    out.u64(packet.protocol_id);
    out.u8(static_cast<std::uint8_t>(packet.way));
    out.u64(packet.cookie);
    out.bytes(packet.body);
    return finish(out);
}

std::optional<Drop> read(std::span<const std::byte> datagram, Connect& packet) {
    ByteReader in({});
    if (const auto drop = open(datagram, PacketKind::connect, in, packet.version, packet.client_nonce))
        return drop;
    if (packet.version != kWireVersion) return std::nullopt;
    packet.protocol_id = in.u64();
    packet.way = static_cast<Way>(in.u8());
    packet.cookie = in.u64();
    packet.body = in.bytes(kConnectBodyBytes);
    return in.ok() && in.remaining() == 0 ? std::nullopt : std::optional(Drop::bad_handshake);
}

std::span<const std::byte> write(const Answer& packet, DatagramBuffer buffer) {
    assert(packet.body.size() <= kMaxAnswerBodyBytes);
    ByteWriter out = begin(buffer, PacketKind::answer, kWireVersion, packet.client_nonce);
    out.bytes(packet.body);
    return finish(out);
}

std::optional<Drop> read(std::span<const std::byte> datagram, Answer& packet) {
    ByteReader in({});
    std::uint8_t version = 0;
    if (const auto drop = open(datagram, PacketKind::answer, in, version, packet.client_nonce)) return drop;
    packet.body = in.rest();
    const bool is_good = version == kWireVersion && packet.body.size() <= kMaxAnswerBodyBytes;
    return is_good ? std::nullopt : std::optional(Drop::bad_handshake);
}

std::span<const std::byte> write(const Refuse& packet, DatagramBuffer buffer) {
    ByteWriter out = begin(buffer, PacketKind::refuse, kWireVersion, packet.client_nonce);
    out.u8(static_cast<std::uint8_t>(packet.reason));
    out.u64(0);  // version 1 told its schema hash here, and a text behind it
    return finish(out);
}

std::optional<Drop> read(std::span<const std::byte> datagram, Refuse& packet) {
    ByteReader in({});
    std::uint8_t version = 0;  // any: this packet stays as it is, so that old and new can tell each other
    if (const auto drop = open(datagram, PacketKind::refuse, in, version, packet.client_nonce)) return drop;
    packet.reason = static_cast<DisconnectReason>(in.u8());
    const bool is_hint = packet.reason == DisconnectReason::refused_protocol ||
                         packet.reason == DisconnectReason::refused_key ||
                         packet.reason == DisconnectReason::refused_security ||
                         packet.reason == DisconnectReason::refused_token;
    return in.ok() && is_hint ? std::nullopt : std::optional(Drop::bad_handshake);
}

static_assert(kIntroductionBytes - 2 - kMaxSealedTokenBytes - kIntroductionHeadBytes == kMaxTokenHelloBytes);

void write(const Introduction& introduction, std::span<std::byte> buffer) {
    assert(buffer.size() <= kIntroductionBytes);
    assert(introduction.hello.size() <= kMaxHelloBytes);
    assert(introduction.hello.size() + kIntroductionHeadBytes <= buffer.size());
    assert(is_first_number_valid(introduction.first_packet_number));
    ByteWriter out(buffer);
    out.u64(introduction.schema_hash);
    out.u64(introduction.first_packet_number);
    out.u16(introduction.hello.size());
    out.bytes(introduction.hello);
    out.pad_to(buffer.size());
}

bool read(std::span<const std::byte> bytes, Introduction& introduction) {
    ByteReader in(bytes);
    introduction.schema_hash = in.u64();
    introduction.first_packet_number = in.u64();
    const std::size_t hello_bytes = in.u16();
    introduction.hello = in.bytes(hello_bytes);
    return in.ok() && bytes.size() <= kIntroductionBytes && hello_bytes <= kMaxHelloBytes &&
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

std::array<std::byte, 18> handshake_prologue(std::uint64_t protocol_id, Way way, std::uint64_t client_nonce) {
    std::array<std::byte, 18> prologue;
    ByteWriter out(prologue);
    out.u64(protocol_id);
    out.u8(kWireVersion);
    out.u8(static_cast<std::uint8_t>(way));
    out.u64(client_nonce);
    return prologue;
}

TokenBody begin_token_body(std::span<const std::byte> sealed, std::span<std::byte> body) {
    assert(sealed.size() <= kMaxSealedTokenBytes);
    ByteWriter out(body);
    out.u16(sealed.size());
    out.bytes(sealed);
    return {out.written().subspan(2), body.subspan(out.size())};
}

std::optional<TokenBody> split_token_body(std::span<std::byte> body) {
    ByteReader in(body);
    const std::size_t sealed_bytes = in.u16();
    const std::span<const std::byte> sealed = in.bytes(sealed_bytes);
    if (!in.ok() || sealed_bytes > kMaxSealedTokenBytes || in.remaining() <= kNoiseOverheadBytes)
        return std::nullopt;
    return TokenBody{sealed, body.subspan(2 + sealed_bytes)};
}

TokenPrologue token_prologue(std::uint64_t protocol_id, std::uint64_t client_nonce, std::uint64_t cookie,
                             std::span<const std::byte> sealed) {
    TokenPrologue prologue;
    ByteWriter out(prologue.buffer);
    out.bytes(handshake_prologue(protocol_id, Way::token, client_nonce));
    out.u64(cookie);
    out.bytes(sealed);
    prologue.size = out.size();
    return prologue;
}

namespace {

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

std::uint64_t make_cookie(const SipKey& key, const Address& client, std::uint64_t client_nonce, Time now) {
    return cookie_of_slice(key, client, client_nonce, slice_at(now));
}

bool is_cookie_valid(const SipKey& key, const Address& client, std::uint64_t client_nonce,
                     std::uint64_t cookie, Time now) {
    const std::uint64_t slice = slice_at(now);
    return cookie == cookie_of_slice(key, client, client_nonce, slice) ||
           cookie == cookie_of_slice(key, client, client_nonce, slice - 1);
}

InsecureKeys derive_insecure_keys(std::uint64_t protocol_id, std::uint64_t schema_hash,
                                  std::uint64_t client_nonce, std::uint64_t server_nonce,
                                  std::uint32_t connection_id) {
    const SipKey root{client_nonce, server_nonce};
    const auto derive = [&](std::uint64_t label) {
        return siphash(root, {protocol_id, schema_hash, connection_id, label});
    };
    return {{derive(0), derive(1)}, {derive(2), derive(3)}};
}

}  // namespace shoal::net
