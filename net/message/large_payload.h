#pragma once
// A payload that takes several packets: the sender cuts it into fragments, the receiver puts them together.
// Lost fragments are sent again. The payload has one fate.

#include "../packet.h"

namespace shoal::net::impl {

/// Fragments of one payload: bit i stands for the one with index i.
using Fragments = std::uint64_t;
static_assert(kMaxFragments == 64);

/// Sending half of one connection. One payload is on its way at a time. It has exactly one fate: delivered
/// when all of its fragments are acknowledged; lost if one of them was lost kMaxFragmentSends times. The
/// number of a payload is the number of the first packet that carried fragment 0.
class OutgoingPayload {
public:
    /// Keeps a copy. Requires !is_open(), and a payload of kMaxPayloadBytes + 1 to kMaxLargePayloadBytes.
    void start(std::span<const std::byte> payload, std::uint64_t number);
    bool is_open() const { return unacked_ != 0; }     // the fate of the payload is not known
    bool is_leaving() const { return waiting_ != 0; }  // a fragment waits to be sent, perhaps again
    /// Returns whether a fragment waits to be sent and the packet with this number may carry it: it is at
    /// most kMaxFragmentDistance above the number of the payload.
    bool can_continue(std::uint64_t packet_number) const {
        return is_leaving() && packet_number - number_ <= kMaxFragmentDistance;
    }

    struct Piece {
        Fragment fragment;
        std::span<const std::byte> bytes;  // valid until the next start()
    };
    /// Returns the fragment to send in this packet. Requires can_continue(packet_number).
    Piece take(std::uint64_t packet_number);

    /// Takes the fate of a packet with a fragment. Returns the fate of the payload if this decides it.
    std::optional<PacketFate> on_fate(std::uint64_t payload_number, std::uint8_t index, bool delivered,
                                      Duration rtt);
    /// If a fragment waits but can_continue() is false, gives up the payload and returns its fate.
    std::optional<PacketFate> update(std::uint64_t next_packet_number);
    /// At the end of the connection: declares the payload lost, if there is one.
    std::optional<PacketFate> lose();

private:
    friend struct Consistency;  // tests/net/support/consistency.h
    std::uint64_t number_ = 0;
    std::vector<std::byte> bytes_;
    Fragments unacked_ = 0;                          // not acknowledged; some of them are in flight
    Fragments waiting_ = 0;                          // unsent or lost
    std::array<std::uint8_t, kMaxFragments> sends_;  // by index: how often the fragment was sent
};

/// Receiving half of one connection. Puts together the newest payload; memory grows with the bytes that
/// arrived and is reused. WIRE.md, Fragments, says which fragments are acknowledged.
class IncomingPayload {
public:
    /// Returns whether a correct sender can send this fragment. `first_packet_number`: the sender's.
    bool plausible(const Packet& packet, std::uint64_t first_packet_number) const;

    enum class Arrival : std::uint8_t {
        kept,      // acknowledge it
        complete,  // give whole() to the handler, then finish(); acknowledge it if the handler accepted
        outdated,  // a newer payload has begun, or the handler refused this one: withhold the ack
    };
    /// Adds the fragment of a plausible packet. Call it once for each packet.
    Arrival arrive(const Packet& packet, ConnectionStats& stats);

    /// The number of the newest payload, which is the number of the packet with its first fragment.
    std::uint64_t number() const { return number_; }
    std::span<const std::byte> whole() const { return bytes_; }
    void finish(bool is_accepted);

private:
    friend struct Consistency;  // tests/net/support/consistency.h
    std::uint64_t number_ = 0;
    bool was_accepted_ = false;      // payload number_ was complete, and the handler accepted it
    Fragments arrived_ = 0;          // of payload number_; 0: it was complete
    unsigned last_ = kMaxFragments;  // index of its last fragment; kMaxFragments: not known yet
    std::vector<std::byte> bytes_;   // of arrived_, in the order of their indices
};

}  // namespace shoal::net::impl
