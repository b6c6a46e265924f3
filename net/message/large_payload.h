#pragma once
// A payload that takes several packets: the sender cuts it into fragments, the receiver puts them together.
// Lost fragments are sent again. The payload has one fate.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../packet.h"
#include "../stats.h"

namespace shoal::net::all {

/// Sending half of one connection. One payload is on its way at a time. It has exactly one fate: delivered
/// when all of its fragments are acknowledged; lost if one of them was lost kMaxFragmentSends times. The
/// number of a payload is the number of the first packet that carried fragment 0.
class OutgoingPayload {
public:
    /// Keeps a copy. Requires !is_open(), and a payload of kMaxPayloadBytes + 1 to kMaxLargePayloadBytes.
    void start(std::span<const std::byte> payload, std::uint64_t number);
    /// Returns whether a payload is on its way: its fate is not known.
    bool is_open() const { return is_open_; }
    /// Returns whether a fragment waits to be sent, for the first time or again.
    bool is_leaving() const { return is_open_ && (left_ < bytes_.size() || !again_.empty()); }
    /// Returns whether a fragment waits to be sent and the packet with this number may carry it: it is at
    /// most kMaxFragmentDistance above the number of the payload.
    bool can_continue(std::uint64_t packet_number) const;

    struct Piece {
        Fragment fragment;
        std::span<const std::byte> bytes;  // valid until the next start()
    };
    /// Returns the fragment to send in this packet. A lost fragment is sent first, with its former size. Else
    /// the next fragment is cut, with at most `room` bytes; room >= kMinPayloadBytes. Requires
    /// can_continue(packet_number).
    Piece take(std::uint64_t packet_number, std::size_t room);

    /// Call it when the fate of a packet with a fragment is known. Returns the fate of the payload if this
    /// packet decides it.
    std::optional<PacketFate> on_fate(std::uint64_t payload_number, std::uint8_t index, bool delivered,
                                      Duration rtt);
    /// If a fragment waits but can_continue() is false, gives up the payload and returns its fate.
    std::optional<PacketFate> update(std::uint64_t next_packet_number);
    /// At the end of the connection: declares the payload lost, if there is one.
    std::optional<PacketFate> lose();

    /// For tests: the fragments follow each other, and each is acknowledged, in flight or waits.
    bool is_consistent() const;

private:
    struct Sent {
        std::uint32_t offset;
        std::uint16_t size;
        std::uint8_t sends;
        bool is_acked;
    };
    PacketFate close(bool delivered, Duration rtt);

    bool is_open_ = false;
    std::uint64_t number_ = 0;
    std::vector<std::byte> bytes_;
    std::size_t left_ = 0;             // number of bytes, from the start, that were sent at least once
    std::vector<Sent> fragments_;      // the fragments that were sent, by index
    std::uint32_t unacked_ = 0;        // number of sent fragments that are not acknowledged
    std::vector<std::uint8_t> again_;  // indices of lost fragments, to be sent again in this order
};

/// Receiving half of one connection. Puts together the newest payload; memory grows with the bytes that
/// arrived and is reused. All fragments of a payload are acknowledged, so that the sender sees it as
/// delivered, only if it was complete before a newer one began, and the handler accepted it. A fragment that
/// arrives again is acknowledged like the first copy, whose ack may have been lost.
class IncomingPayload {
public:
    /// Returns whether a correct sender can send this fragment. `first_packet_number`: the sender's first
    /// packet number.
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

    std::size_t capacity_bytes() const { return bytes_.capacity(); }

    /// For tests: bytes_ has the size of the fragments that arrived, and is empty without an open payload.
    bool is_consistent() const;

private:
    /// Returns whether this fragment of the open payload arrived before.
    bool is_known(const Fragment& fragment) const {
        return fragment.index < sizes_.size() && sizes_[fragment.index] != 0;
    }

    std::uint64_t number_ = 0;
    bool is_open_ = false;              // payload number_ is incomplete
    bool was_accepted_ = false;         // payload number_ was complete, and the handler accepted it
    bool has_last_ = false;             // the last fragment arrived, so sizes_ does not grow any more
    std::vector<std::uint16_t> sizes_;  // by fragment index, up to the highest that arrived; 0: not arrived
    std::vector<std::byte> bytes_;      // bytes of the fragments that arrived, in the order of their indices
};

}  // namespace shoal::net::all
