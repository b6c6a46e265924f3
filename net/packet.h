#pragma once
// The packets of a connection, as bytes. WIRE.md has the tables.

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
constexpr std::size_t kConnectionIdBytes = 4;  // client to server only
constexpr std::size_t kMaxMessagesPerPacket = 255;
constexpr std::size_t kMaxRepeatedBytes = 128;   // larger reliable messages have no repeats or parities
constexpr std::uint64_t kReliableWindow = 4096;  // ids from the oldest unacknowledged to the newest sent
constexpr std::size_t kMaxFragments = 64;        // of one large payload
constexpr std::uint64_t kMaxFragmentDistance = 32'767;  // packet numbers from the first fragment to the last
constexpr std::size_t kMaxFragmentHeadBytes = 3;
/// Kind, connection id, number, flags, acks.
constexpr std::size_t kMaxHeaderBytes = 1 + kConnectionIdBytes + 4 + 1 + 11;
static_assert(kMaxHeaderBytes + kMaxFragmentHeadBytes + kMaxPayloadBytes + kMaxTagBytes <= kMaxDatagramBytes);

/// Flags of a data packet. The upper four bits say which groups of acks are present.
constexpr unsigned kHasAcks = 1, kIsPing = 2, kHasMessages = 4, kHasPayload = 8;
constexpr unsigned kHasFragment = kIsPing | kHasPayload;  // a payload needs no ping

/// Which packets of the other side arrived and were accepted.
struct Acks {
    bool present = false;
    std::uint16_t newest = 0;  // newest accepted, modulo 2^16
    std::uint64_t bits = 0;    // bit n: newest - 1 - n was accepted, or lies before the first packet
    Duration delay{0};         // since `newest` arrived, rounded to 256 us, at most 65 ms
};

/// One message of a packet. Left uninitialised, as a Packet has many.
struct Frame {
    std::uint64_t id;      // reliable only
    std::uint16_t offset;  // of its bytes, in the datagram
    std::uint16_t size;
    std::uint16_t distance;  // reliable: deliver after message id - distance; 0: at once
    Channel channel;
    std::uint8_t key;  // sequenced only
    bool goes_on;      // reliable: a piece of a message; the next id is its next one
    bool is_parity;    // reliable: the bytes are those of messages id and id - 1, combined by exclusive or
};

/// Neighbouring messages of one channel and size; if reliable, of consecutive ids and one distance.
struct Run {
    Channel channel = Channel::unreliable;
    bool goes_on = false;       // reliable: pieces, none of them the last of its message
    bool is_parity = false;     // one Frame::is_parity
    bool is_last = false;       // the last run of its packet
    bool fills_packet = false;  // is_last and no payload follows: the size is left out
    std::uint8_t count = 1;
    std::uint8_t id_bytes = 0;  // 1 or 2; 0: it continues the reliable run before; parity: its id is one less
    std::uint16_t distance = 0;
    std::uint16_t size = 0;
    std::uint64_t first_id = 0;
};

/// Which piece of a large payload a packet carries.
struct Fragment {
    std::uint16_t distance = 0;  // packet numbers after the one with the first fragment; >= index
    std::uint8_t index = 0;
    bool is_last = false;
};

/// What a genuine reset carries: see handshake/handshake.h.
using ResetToken = std::array<std::byte, 16>;

/// What a server sends to an address that its client moved to.
struct Challenge {
    std::uint64_t number = 0;               // secret; comes back in an echo
    std::optional<ResetToken> reset_token;  // for the client at this address, once that is proven
};

/// What is readable without the key.
struct Envelope {
    PacketKind kind = PacketKind::data;
    std::uint32_t connection_id = 0;  // client to server
    std::uint32_t truncated_number = 0;
    std::uint8_t number_bytes = 0;
    std::uint8_t body_offset = 0;
    bool key_phase = false;
};

/// A decoded packet; views point into its own buffer, so it stays where it is.
struct Packet {
    Packet() = default;
    Packet(const Packet&) = delete;
    Packet& operator=(const Packet&) = delete;

    std::array<std::byte, kMaxDatagramBytes> buffer;  // uninitialised on purpose, like the frames
    std::span<const std::byte> datagram;              // in the clear, without the tag
    PacketKind kind = PacketKind::data;
    std::uint64_t number = 0;
    Acks acks;
    bool ping = false;  // wants an ack although it carries nothing
    bool has_payload = false;
    bool is_fragment = false;  // the payload is: of a large one, and not empty
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

/// The kind, if the first byte is one that this version writes.
std::optional<PacketKind> read_kind(std::byte first);

/// How many bytes of `number` the receiver needs, 1 to 4, if it knows all up to `acked`. Also for ids of
/// reliable messages.
std::uint8_t number_bytes(std::uint64_t number, std::uint64_t acked);
/// The number closest to `expected` whose low bytes are `truncated`. Source: RFC 9000, appendix A.3.
std::uint64_t expand_number(std::uint32_t truncated, std::uint8_t bytes, std::uint64_t expected);

void write_envelope(ByteWriter& out, PacketKind kind, bool key_phase,
                    std::optional<std::uint32_t> connection_id, std::uint64_t number, std::uint8_t bytes);
std::optional<Envelope> read_envelope(std::span<const std::byte> datagram, bool with_connection_id);

/// Returns the flags that say what was written.
unsigned write_acks(ByteWriter& out, const Acks& acks);
/// Goes before the bytes of a fragment.
void write_fragment_head(ByteWriter& out, const Fragment& fragment);
/// Bytes of the head of such a run, its size included.
std::size_t run_bytes(const Run& run);
/// Writes the head of a run. The caller then writes the messages, `size` bytes each; a key byte goes before
/// each sequenced one.
void write_run(ByteWriter& out, const Run& run);

/// Reads everything after the envelope; the tag is cut off already. Returns false, `packet` half filled, if
/// it is malformed. Ids are those nearest to `expected_id`.
bool read_body(std::span<const std::byte> datagram, const Envelope& envelope, std::uint64_t expected_id,
               Packet& packet);

}  // namespace shoal::net
