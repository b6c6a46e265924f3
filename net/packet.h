#pragma once
// Reads and writes the packets of a connection. WIRE.md has the formats.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "bytes.h"
#include "endpoint.h"

namespace shoal::net {

enum class PacketKind : std::uint8_t {
    request,
    cookie,
    connect,
    answer,
    refuse,
    data,
    disconnect,
    reset,
    challenge,
    echo,
    count_
};

constexpr std::size_t kInsecureTagBytes = 8;
constexpr std::size_t kMaxTagBytes = 16;
constexpr std::size_t kConnectionIdBytes = 4;  // in packets to the server only
constexpr std::size_t kMaxMessagesPerPacket = 255;
constexpr std::size_t kMaxRepeatedBytes = 128;   // larger reliable messages are repeated only after a loss
constexpr std::uint64_t kReliableWindow = 4096;  // oldest unacknowledged id to newest id
constexpr std::size_t kMaxFragments = 64;        // of one large payload
constexpr std::uint64_t kMaxFragmentDistance = 32'767;  // in packet numbers, first fragment to last
constexpr std::size_t kMaxFragmentHeadBytes = 3;
/// The parts: kind, connection id, number, flags, acks.
constexpr std::size_t kMaxHeaderBytes = 1 + kConnectionIdBytes + 4 + 1 + 11;
static_assert(kMaxHeaderBytes + kMaxFragmentHeadBytes + kMaxPayloadBytes + kMaxTagBytes <= kMaxDatagramBytes);

/// Flags of a data packet. Each of the upper four bits says whether a group of ack bits is present.
constexpr unsigned kHasAcks = 1, kIsPing = 2, kHasMessages = 4, kHasPayload = 8;
constexpr unsigned kHasFragment = kIsPing | kHasPayload;  // a ping beside a payload means a fragment

/// Names the accepted packets of the other side.
struct Acks {
    bool present = false;
    std::uint16_t newest = 0;  // newest accepted, modulo 2^16
    std::uint64_t bits = 0;    // bit n: newest - 1 - n was accepted, or lies before the first packet
    Duration delay{0};         // since `newest` arrived, a multiple of 256 us, at most 65 ms
};

/// One message of a packet. Not initialised, because a Packet has many.
struct Frame {
    std::uint64_t id;      // reliable only
    std::uint16_t offset;  // of its bytes in Packet::datagram
    std::uint16_t size;
    std::uint16_t distance;  // reliable: deliver after message id - distance; 0: deliver at once
    Channel channel;
    std::uint8_t key;  // sequenced only
    bool goes_on;      // reliable: a piece of a message; the next id is its next piece
    bool is_parity;    // reliable: the bytes are those of messages id and id - 1, combined by exclusive or
};

/// Neighbouring messages of one channel and size; if reliable, with consecutive ids and the same distance.
struct Run {
    Channel channel = Channel::unreliable;
    bool goes_on = false;       // reliable: pieces of messages, none of them a last piece
    bool is_parity = false;     // a single parity, see Frame
    bool is_last = false;       // the last run of its packet
    bool fills_packet = false;  // is_last and no payload follows: no size is written
    std::uint8_t count = 1;
    std::uint8_t id_bytes = 0;  // 1 or 2; 0: ids go on from the last in this packet; for a parity see WIRE.md
    std::uint16_t distance = 0;
    std::uint16_t size = 0;
    std::uint64_t first_id = 0;
};

/// Says which piece of a large payload a packet carries.
struct Fragment {
    std::uint16_t distance = 0;  // this packet's number less that of the first fragment; >= index
    std::uint8_t index = 0;
    bool is_last = false;
};

/// Proves that a reset is genuine; see handshake/handshake.h.
using ResetToken = std::array<std::byte, 16>;

/// A server sends a challenge to a new address of its client.
struct Challenge {
    std::uint64_t number = 0;               // secret; the echo returns it
    std::optional<ResetToken> reset_token;  // what a genuine reset to this address carries; may be absent
};

/// The unencrypted part of a packet.
struct Envelope {
    PacketKind kind = PacketKind::data;
    std::uint32_t connection_id = 0;  // client to server
    std::uint32_t truncated_number = 0;
    std::uint8_t number_bytes = 0;
    std::uint8_t body_offset = 0;
    bool key_phase = false;
};

/// A decoded packet. Not copyable, because its views point into its own buffer.
struct Packet {
    Packet() = default;
    Packet(const Packet&) = delete;
    Packet& operator=(const Packet&) = delete;

    std::array<std::byte, kMaxDatagramBytes> buffer;  // not initialised, on purpose, like `frames`
    std::span<const std::byte> datagram;              // decrypted, without the tag
    PacketKind kind = PacketKind::data;
    std::uint64_t number = 0;
    Acks acks;
    bool ping = false;  // empty, but wants an ack
    bool has_payload = false;
    bool is_fragment = false;  // the payload is a fragment of a large one, and not empty
    Fragment fragment;
    std::size_t message_count = 0;
    std::span<const std::byte> payload;
    DisconnectReason reason = DisconnectReason::closed_by_peer;  // kind disconnect
    std::string_view text;                                       // kind disconnect
    Challenge challenge;                                         // kinds challenge and echo
    std::array<Frame, kMaxMessagesPerPacket> frames;

    bool wants_ack() const { return ping || has_payload || message_count > 0; }
    std::span<const std::byte> bytes(const Frame& frame) const {
        return datagram.subspan(frame.offset, frame.size);
    }
};

/// Returns the kind if this version can write this first byte.
std::optional<PacketKind> read_kind(std::byte first);

/// Returns how many bytes of `number` a receiver needs, 1 to 4, if it knows `acked`. Also used for ids of
/// reliable messages.
std::uint8_t number_bytes(std::uint64_t number, std::uint64_t acked);
/// The number closest to `expected` whose low bytes are `truncated`. Source: RFC 9000, appendix A.3.
std::uint64_t expand_number(std::uint32_t truncated, std::uint8_t bytes, std::uint64_t expected);

void write_envelope(ByteWriter& out, PacketKind kind, bool key_phase,
                    std::optional<std::uint32_t> connection_id, std::uint64_t number, std::uint8_t bytes);
std::optional<Envelope> read_envelope(std::span<const std::byte> datagram, bool with_connection_id);

/// Returns the flags for the acks that were written.
unsigned write_acks(ByteWriter& out, const Acks& acks);
/// Writes the head that precedes the bytes of a fragment.
void write_fragment_head(ByteWriter& out, const Fragment& fragment);
/// Returns the number of bytes that write_run() writes.
std::size_t run_bytes(const Run& run);
/// Writes the head of a run. Then the caller writes the messages, `size` bytes each, and a key byte before
/// each sequenced message.
void write_run(ByteWriter& out, const Run& run);

/// Reads the body after the envelope; `datagram` is without the tag. Returns false, with `packet` partly
/// filled, if the body is malformed. Ids are expanded to those nearest to `expected_id`.
bool read_body(std::span<const std::byte> datagram, const Envelope& envelope, std::uint64_t expected_id,
               Packet& packet);

}  // namespace shoal::net
