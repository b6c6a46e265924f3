#pragma once
// The packets of a connection, as bytes. README.md has the tables.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "bytes.h"
#include "endpoint.h"
#include "siphash.h"

namespace shoal::net {

enum class PacketKind : std::uint8_t { request, cookie, connect, accept, refuse, data, disconnect, count_ };

constexpr std::size_t kTagBytes = 8;
constexpr std::size_t kConnectionIdBytes = 4;  // client to server only
constexpr std::size_t kMaxFramesPerPacket = 255;
/// Kind, connection id, number, flags, acks.
constexpr std::size_t kMaxHeaderBytes = 1 + kConnectionIdBytes + 4 + 1 + 11;
static_assert(kMaxHeaderBytes + kMaxPayloadBytes + kTagBytes <= kMaxDatagramBytes);

/// Which packets of the other side arrived and were accepted.
struct Acks {
    bool present = false;
    std::uint16_t newest = 0;  // newest accepted, modulo 2^16
    std::uint64_t bits = 0;    // bit n: newest - 1 - n was accepted, or lies before the first packet
    Duration delay{0};         // since `newest` arrived, rounded to 256 us, at most 65 ms
};

/// Says where one message stands in the packet; left uninitialised on purpose, there are many.
struct Frame {
    std::uint16_t offset;  // of its bytes, in the datagram
    std::uint16_t size;
    std::uint16_t id;  // reliable only
    Channel channel;
};

/// What is readable without the key.
struct Envelope {
    PacketKind kind = PacketKind::data;
    std::uint32_t connection_id = 0;  // client to server
    std::uint32_t truncated_number = 0;
    std::uint8_t number_bytes = 0;
    std::uint8_t body_offset = 0;
};

/// A decoded packet; views point into the datagram.
struct Packet {
    std::span<const std::byte> datagram;
    PacketKind kind = PacketKind::data;
    std::uint64_t number = 0;
    Acks acks;
    bool ping = false;  // wants an ack although it carries nothing
    bool has_payload = false;
    std::size_t frame_count = 0;
    std::span<const std::byte> payload;
    DisconnectReason reason = DisconnectReason::closed_by_peer;  // kind disconnect
    std::string_view text;                                       // kind disconnect
    std::array<Frame, kMaxFramesPerPacket> frames;

    bool wants_ack() const { return ping || has_payload || frame_count > 0; }
    std::span<const std::byte> bytes(const Frame& frame) const {
        return datagram.subspan(frame.offset, frame.size);
    }
};

/// The kind, if the first byte is one that this version writes.
std::optional<PacketKind> read_kind(std::byte first);

/// How many bytes of `number` the receiver needs, 1 to 4, when it surely knows all up to `acked`.
std::uint8_t number_bytes(std::uint64_t number, std::uint64_t acked);
/// The number closest to `expected` whose low bytes are `truncated`. Source: RFC 9000, appendix A.3.
std::uint64_t expand_number(std::uint32_t truncated, std::uint8_t bytes, std::uint64_t expected);

void write_envelope(ByteWriter& out, PacketKind kind, std::optional<std::uint32_t> connection_id,
                    std::uint64_t number, std::uint8_t bytes);
std::optional<Envelope> read_envelope(std::span<const std::byte> datagram, bool with_connection_id);

void write_acks(ByteWriter& out, const Acks& acks);
/// The flags byte, which write_data patches in last.
std::uint8_t data_flags(const Acks& acks, bool ping, bool messages, bool payload);
/// Bytes of a frame whose message has `size` bytes.
std::size_t frame_bytes(Channel channel, std::size_t size);
void write_frame(ByteWriter& out, Channel channel, std::uint16_t id, std::span<const std::byte> message);

/// Everything after the envelope, kind data or disconnect; false if it is not what write_* produce.
/// `packet` may be half filled then.
bool read_body(std::span<const std::byte> datagram, const Envelope& envelope, Packet& packet);

/// Over the whole packet but the tag itself, its full number and the protocol id.
std::uint64_t packet_tag(const SipKey& key, std::uint64_t protocol_id, std::uint64_t number,
                         std::span<const std::byte> packet);
bool is_tag_valid(const SipKey& key, std::uint64_t protocol_id, std::uint64_t number,
                  std::span<const std::byte> datagram);

}  // namespace shoal::net
