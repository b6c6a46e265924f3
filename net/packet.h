#pragma once
// Reads and writes the packets of a connection. WIRE.md has the formats.

#include "bytes.h"
#include "endpoint.h"

namespace shoal::net::impl {

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
    probe,
    count_
};

constexpr std::size_t kInsecureTagBytes = 8;
constexpr std::size_t kMaxTagBytes = 16;
constexpr std::size_t kMaxMessagesPerPacket = 255;
constexpr std::size_t kSequencedKeys = 256;      // number of keys of sequenced messages
constexpr std::size_t kMaxRepeatedBytes = 128;   // larger reliable messages are repeated only after a loss
constexpr std::uint64_t kReliableWindow = 4096;  // ids from the oldest unacknowledged one to the newest one
constexpr std::size_t kFragmentBytes = 1024;     // of a large payload; its last fragment may have fewer
constexpr std::size_t kMaxFragments = 64;        // fragments of one large payload
constexpr std::uint8_t kMaxFragmentSends = 8;    // most times that one fragment is sent
constexpr std::uint64_t kMaxFragmentDistance = 32'767;  // in packet numbers, within one payload
constexpr std::size_t kMaxFragmentHeadBytes = 3;
/// Bytes of kind, connection id, packet number, flags and acks.
constexpr std::size_t kMaxHeaderBytes = 1 + 4 + 4 + 1 + 11;
static_assert(kMaxHeaderBytes + kMaxFragmentHeadBytes + kMaxPayloadBytes + kMaxTagBytes <= kMaxDatagramBytes);

// The lower four flags of a data packet.
constexpr unsigned kHasAcks = 1, kIsPing = 2, kHasMessages = 4, kHasPayload = 8;
// Both flags together: the payload is a fragment, and the packet is no ping.
constexpr unsigned kHasFragment = kIsPing | kHasPayload;

/// Names the packets of one side that the other side has accepted.
struct Acks {
    bool present = false;
    std::uint16_t newest = 0;  // number of the newest accepted packet, modulo 2^16
    std::uint64_t bits = 0;    // bit n: newest - 1 - n was accepted, or lies before the first packet
    Duration delay{0};         // time since `newest` arrived; sent in units of 256 us, at most 65 ms
};

/// One message of a decoded packet. Not initialised, because a Packet has many frames.
struct Frame {
    std::uint64_t id;        // reliable only
    std::uint16_t offset;    // where the message's bytes begin in Packet::datagram
    std::uint16_t size;      // bytes
    std::uint16_t distance;  // reliable: deliver after the message of id `id - distance`; 0: at once
    Channel channel;
    std::uint8_t key;  // sequenced only
    bool goes_on;      // reliable: a piece of a message; the next piece has the next id
    bool is_parity;    // reliable: the bytes of messages id and id - 1, combined by exclusive or
};

/// Neighbouring messages of a packet that share one head. They have one channel and one size; if reliable,
/// consecutive ids and the same distance.
struct Run {
    Channel channel = Channel::unreliable;
    bool goes_on = false;       // reliable: pieces of messages, none of them a last piece
    bool is_parity = false;     // the run is one parity, not messages; see Frame::is_parity
    bool is_last = false;       // the last run of its packet
    bool fills_packet = false;  // is_last and no payload follows: no size is written
    std::uint8_t count = 1;
    std::uint8_t id_bytes = 0;   // reliable: 1 or 2; 0: omitted, see WIRE.md
    std::uint16_t distance = 0;  // reliable, of each message: see Frame
    std::uint16_t size = 0;      // bytes of each message
    std::uint64_t first_id = 0;
};

/// Says which piece of a large payload a packet carries.
struct Fragment {
    std::uint16_t distance = 0;  // this packet's number minus that of fragment 0's first packet; >= index
    std::uint8_t index = 0;
    bool is_last = false;
};

/// The unencrypted part of a packet.
struct Envelope {
    PacketKind kind = PacketKind::data;
    std::uint32_t connection_id = 0;     // only in packets to the server
    std::uint32_t truncated_number = 0;  // the low bytes of the packet number
    std::uint64_t reset_salt = 0;        // only in a probe; see Reset in handshake/handshake.h
    std::uint8_t number_bytes = 0;       // how many low bytes, 1 to 4
    std::uint8_t body_offset = 0;        // size of the envelope in bytes
    bool key_phase = false;              // see PacketCipher
};

/// A decoded packet. Not copyable, because its views point into its own buffer.
struct Packet {
    Packet() = default;
    Packet(const Packet&) = delete;
    Packet& operator=(const Packet&) = delete;

    std::array<std::byte, kMaxDatagramBytes> buffer;  // not initialised, on purpose, like `frames`
    std::span<const std::byte> datagram;              // decrypted, without the tag
    PacketKind kind = PacketKind::data;               // a probe is read as a data packet
    std::uint64_t number = 0;
    Acks acks;
    bool ping = false;  // wants an ack even without payload and messages
    bool has_payload = false;
    bool is_fragment = false;  // the payload is a fragment of a large one, and not empty
    Fragment fragment;         // if is_fragment
    std::size_t message_count = 0;
    std::span<const std::byte> payload;
    DisconnectReason reason = DisconnectReason::closed_by_peer;  // if kind is disconnect
    std::string_view text;                                       // if kind is disconnect
    std::uint64_t challenge = 0;  // if kind is challenge or echo: a secret number, which the echo returns
    std::array<Frame, kMaxMessagesPerPacket> frames;

    bool wants_ack() const { return ping || has_payload || message_count > 0; }
    std::span<const std::byte> bytes(const Frame& frame) const {
        return datagram.subspan(frame.offset, frame.size);
    }
};

/// Returns nothing if no packet of this version begins with this byte.
std::optional<PacketKind> read_kind(std::byte first);

/// Returns how many low bytes of a packet number, or message id, the packet must contain, 1 to 4, so that the
/// receiver can expand them. `acked`: the highest number that the receiver is known to have; below `number`.
std::uint8_t number_bytes(std::uint64_t number, std::uint64_t acked);
/// Returns the number closest to `expected` whose low `bytes` bytes are `truncated`: RFC 9000, A.3.
std::uint64_t expand_number(std::uint32_t truncated, std::uint8_t bytes, std::uint64_t expected);

void write_envelope(ByteWriter& out, PacketKind kind, bool key_phase,
                    std::optional<std::uint32_t> connection_id, std::uint64_t number, std::uint8_t bytes);
std::optional<Envelope> read_envelope(std::span<const std::byte> datagram, bool with_connection_id);

/// Writes the acks, if present, and returns the flags that they need.
unsigned write_acks(ByteWriter& out, const Acks& acks);
void write_fragment_head(ByteWriter& out, const Fragment& fragment);
/// Returns the number of bytes that write_run() writes.
std::size_t run_bytes(const Run& run);
/// Then the caller writes the messages, `size` bytes each, and a key byte before each sequenced one.
void write_run(ByteWriter& out, const Run& run);

/// Reads the body of a decrypted packet without its tag. Returns false, with `packet` partly filled, if it is
/// malformed. Each id of a reliable message is expanded to the nearest id to `expected_id`.
bool read_body(std::span<const std::byte> datagram, const Envelope& envelope, std::uint64_t expected_id,
               Packet& packet);

}  // namespace shoal::net::impl
