#include "handshake.h"

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
    if (datagram.size() < kPreludeBytes + kTagBytes) return Drop::truncated;
    if (datagram.size() > kMaxDatagramBytes) return Drop::oversized;
    if (read_kind(datagram[0]) != kind) return Drop::unknown_kind;
    const bool is_padded = kind == PacketKind::request || kind == PacketKind::connect;
    if (is_padded && datagram.size() < kMaxDatagramBytes) return Drop::truncated;
    ByteReader checksum(datagram.last(kTagBytes));
    const std::span<const std::byte> covered = datagram.first(datagram.size() - kTagBytes);
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
    out.pad_to(kMaxDatagramBytes - kTagBytes);
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
    assert(packet.hello.size() <= kMaxHelloBytes);
    assert(is_first_number_valid(packet.first_packet_number));
    ByteWriter out = begin(buffer, PacketKind::connect, packet.version, packet.client_nonce);
    out.u64(packet.protocol_id);
    out.u64(packet.schema_hash);
    out.u64(packet.cookie);
    out.u64(packet.first_packet_number);
    out.u16(packet.hello.size());
    out.bytes(packet.hello);
    out.pad_to(kMaxDatagramBytes - kTagBytes);
    return finish(out);
}

std::optional<Drop> read(std::span<const std::byte> datagram, Connect& packet) {
    ByteReader in({});
    if (const auto drop = open(datagram, PacketKind::connect, in, packet.version, packet.client_nonce))
        return drop;
    if (packet.version != kWireVersion) return std::nullopt;
    packet.protocol_id = in.u64();
    packet.schema_hash = in.u64();
    packet.cookie = in.u64();
    packet.first_packet_number = in.u64();
    const std::size_t hello_bytes = in.u16();
    if (hello_bytes > kMaxHelloBytes || !is_first_number_valid(packet.first_packet_number)) {
        return Drop::bad_handshake;
    }
    packet.hello = in.bytes(hello_bytes);
    return in.ok() ? std::nullopt : std::optional(Drop::bad_handshake);
}

std::span<const std::byte> write(const Accept& packet, DatagramBuffer buffer) {
    assert(is_first_number_valid(packet.first_packet_number));
    ByteWriter out = begin(buffer, PacketKind::accept, kWireVersion, packet.client_nonce);
    out.u64(packet.server_nonce);
    out.u64(packet.first_packet_number);
    out.u32(packet.connection_id);
    return finish(out);
}

std::optional<Drop> read(std::span<const std::byte> datagram, Accept& packet) {
    ByteReader in({});
    std::uint8_t version = 0;
    if (const auto drop = open(datagram, PacketKind::accept, in, version, packet.client_nonce)) return drop;
    packet.server_nonce = in.u64();
    packet.first_packet_number = in.u64();
    packet.connection_id = in.u32();
    const bool is_good = in.ok() && in.remaining() == 0 && version == kWireVersion &&
                         is_first_number_valid(packet.first_packet_number);
    return is_good ? std::nullopt : std::optional(Drop::bad_handshake);
}

std::span<const std::byte> write(const Refuse& packet, DatagramBuffer buffer) {
    assert(packet.text.size() <= kMaxReasonBytes);
    ByteWriter out = begin(buffer, PacketKind::refuse, kWireVersion, packet.client_nonce);
    out.u8(static_cast<std::uint8_t>(packet.reason));
    out.u64(packet.schema_hash);
    out.bytes(std::as_bytes(std::span(packet.text)));
    return finish(out);
}

std::optional<Drop> read(std::span<const std::byte> datagram, Refuse& packet) {
    ByteReader in({});
    std::uint8_t version = 0;  // any: this packet stays as it is, so that old and new can tell each other
    if (const auto drop = open(datagram, PacketKind::refuse, in, version, packet.client_nonce)) return drop;
    const std::uint8_t reason = in.u8();
    packet.schema_hash = in.u64();
    const std::span<const std::byte> text = in.rest();
    const bool is_refusal = reason >= static_cast<std::uint8_t>(DisconnectReason::refused_protocol) &&
                            reason <= static_cast<std::uint8_t>(DisconnectReason::refused);
    if (!in.ok() || !is_refusal || text.size() > kMaxReasonBytes) return Drop::bad_handshake;
    packet.reason = static_cast<DisconnectReason>(reason);
    packet.text = {reinterpret_cast<const char*>(text.data()), text.size()};
    return std::nullopt;
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

SessionKeys derive_keys(std::uint64_t protocol_id, std::uint64_t schema_hash, std::uint64_t client_nonce,
                        std::uint64_t server_nonce, std::uint32_t connection_id) {
    const SipKey root{client_nonce, server_nonce};
    const auto derive = [&](std::uint64_t label) {
        return siphash(root, {protocol_id, schema_hash, connection_id, label});
    };
    return {{derive(0), derive(1)}, {derive(2), derive(3)}};
}

}  // namespace shoal::net
