#pragma once
// A payload that takes several packets: cut into fragments on one side, put together on the other, with one
// fate. A fragment is never sent twice.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../packet.h"
#include "../stats.h"

namespace shoal::net {

/// Sending half of one connection. One payload leaves at a time; those that have left wait for their fate.
/// Each one started has exactly one fate: lost by the first fragment that is lost, delivered by the last one
/// that is delivered. The number of a payload is that of the packet with its first fragment.
class OutgoingPayload {
public:
    /// Keeps a copy. Requires !is_leaving(), and more bytes than fit one packet.
    void start(std::span<const std::byte> payload, std::uint64_t number);
    /// Whether fragments of the newest one remain to be sent.
    bool is_leaving() const { return left_ < bytes_.size(); }
    /// Whether a fragment remains, and the packet of this number may carry it.
    bool can_continue(std::uint64_t packet_number) const;

    struct Piece {
        Fragment fragment;
        std::span<const std::byte> bytes;  // until the next start()
    };
    /// The next fragment, of at most `room` bytes, room >= kMinPayloadBytes. Requires
    /// can_continue(packet_number).
    Piece take(std::uint64_t packet_number, std::size_t room);

    /// Of a packet with a fragment. Returns the fate of the whole, if this decides it.
    std::optional<PacketFate> on_fate(std::uint64_t payload_number, bool delivered, Duration rtt);
    /// Gives up what cannot continue.
    std::optional<PacketFate> update(std::uint64_t next_packet_number);
    /// At the end of the connection, until there is none: one whose fate is open is lost.
    std::optional<PacketFate> lose();

private:
    struct Open {
        std::uint64_t number;
        std::uint32_t fragments;  // sent and not known to be delivered
    };
    PacketFate close(std::vector<Open>::iterator payload, bool delivered, Duration rtt);

    std::vector<Open> open_;  // by number; while one leaves, it is the last
    std::vector<std::byte> bytes_;
    std::size_t left_ = 0;  // bytes of them
    std::uint8_t next_index_ = 0;
};

/// Receiving half of one connection. Puts together the newest payload that it has heard of; memory grows with
/// the bytes that arrived and is reused. What each call says about an ack makes the sender's fate right:
/// the fragments of one payload are all acknowledged only if all arrived while it was the newest, and if the
/// verdict about the whole, which decides about the one that came last, was good.
class IncomingPayload {
public:
    /// Whether a correct sender could send this. `first_packet_number`: of the connection.
    bool plausible(const Packet& packet, std::uint64_t first_packet_number) const;

    enum class Arrival : std::uint8_t {
        kept,      // acknowledge it
        complete,  // give whole() to the handler, whose verdict decides about its ack, then finish()
        outdated,  // a newer payload has begun: withhold the ack
    };
    /// Takes the fragment of a packet that was plausible, each packet once.
    Arrival arrive(const Packet& packet, ConnectionStats& stats);

    /// The number of the payload that arrive() was about: that of the packet with its first fragment.
    std::uint64_t number() const { return number_; }
    std::span<const std::byte> whole() const { return bytes_; }
    void finish();

    std::size_t capacity_bytes() const { return bytes_.capacity(); }

private:
    std::uint64_t number_ = 0;
    bool is_open_ = false;              // number_ is incomplete
    bool has_last_ = false;             // so sizes_ has all that there are
    std::vector<std::uint16_t> sizes_;  // by index, up to the highest that arrived; 0: not arrived
    std::vector<std::byte> bytes_;      // of those that arrived, by index
};

}  // namespace shoal::net
