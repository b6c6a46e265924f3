#pragma once
// A payload that takes several packets: the sender cuts it into fragments, the receiver puts them together.
// The payload has one fate. A fragment is never sent twice.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../packet.h"
#include "../stats.h"

namespace shoal::net {

/// Sending half of one connection. One payload is sent at a time; sent payloads wait for their fate. Each
/// payload has exactly one fate: lost as soon as one of its fragments is lost, delivered when all of them are
/// acknowledged. Its number is that of the packet with fragment 0.
class OutgoingPayload {
public:
    /// Keeps a copy. Requires !is_leaving(), and a payload of kMaxPayloadBytes + 1 to kMaxLargePayloadBytes.
    void start(std::span<const std::byte> payload, std::uint64_t number);
    /// Returns whether fragments of the newest payload remain to be sent.
    bool is_leaving() const { return left_ < bytes_.size(); }
    /// Returns whether a fragment remains to be sent and the packet with this number may carry it: it is at
    /// most kMaxFragmentDistance above the number of the payload.
    bool can_continue(std::uint64_t packet_number) const;

    struct Piece {
        Fragment fragment;
        std::span<const std::byte> bytes;  // valid until the next start()
    };
    /// Takes the next fragment, at most `room` bytes, room >= kMinPayloadBytes. Requires
    /// can_continue(packet_number).
    Piece take(std::uint64_t packet_number, std::size_t room);

    /// Takes the fate of a packet with a fragment. Returns the fate of the payload if the packet decides it.
    std::optional<PacketFate> on_fate(std::uint64_t payload_number, bool delivered, Duration rtt);
    /// If fragments remain but can_continue() is false, gives up the payload and returns its fate.
    std::optional<PacketFate> update(std::uint64_t next_packet_number);
    /// At the end of the connection: declares an open payload lost. Call it until it returns nothing.
    std::optional<PacketFate> lose();

    /// For tests: the open payloads are in the order of their numbers, and each waits for a fragment's fate
    /// or has more to send.
    bool is_consistent() const;

private:
    struct Open {
        std::uint64_t number;
        std::uint32_t fragments;  // how many were sent and are not acknowledged
    };
    PacketFate close(std::vector<Open>::iterator payload, bool delivered, Duration rtt);

    std::vector<Open> open_;  // ordered by number; of the last one fragments may remain to be sent
    std::vector<std::byte> bytes_;
    std::size_t left_ = 0;  // how many of bytes_ have left: were sent, or given up
    std::uint8_t next_index_ = 0;
};

/// Receiving half of one connection. Puts together the newest payload; memory grows with the bytes that
/// arrived and is reused. `Arrival` says whether to acknowledge a fragment. All fragments of a payload are
/// acknowledged only if it was complete before a newer one began, and the handler accepted it. Only then does
/// the sender see it as delivered.
class IncomingPayload {
public:
    /// Returns whether a correct sender can send this fragment. `first_packet_number`: the
    /// sender's first packet number.
    bool plausible(const Packet& packet, std::uint64_t first_packet_number) const;

    enum class Arrival : std::uint8_t {
        kept,      // acknowledge it
        complete,  // give whole() to the handler, acknowledge it if the handler accepts it, then finish()
        outdated,  // a newer payload has begun, or this one is complete: withhold the ack
    };
    /// Takes the fragment of a plausible packet, each packet once.
    Arrival arrive(const Packet& packet, ConnectionStats& stats);

    /// The number of the newest payload: that of the packet with its first fragment.
    std::uint64_t number() const { return number_; }
    std::span<const std::byte> whole() const { return bytes_; }
    void finish();

    std::size_t capacity_bytes() const { return bytes_.capacity(); }

    /// For tests: the bytes are those of the fragments that arrived, and there are none without an open
    /// payload.
    bool is_consistent() const;

private:
    std::uint64_t number_ = 0;
    bool is_open_ = false;              // payload number_ is incomplete
    bool has_last_ = false;             // the last fragment arrived, so sizes_ does not grow any more
    std::vector<std::uint16_t> sizes_;  // by fragment index, up to the highest that arrived; 0: not arrived
    std::vector<std::byte> bytes_;      // of the fragments that arrived, in the order of their indices
};

}  // namespace shoal::net
