#pragma once
// Message queues of one connection: the reliable stream, both halves, and the unreliable queue.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fifo.h"

namespace shoal::net {

/// At most this many reliable messages lie between the oldest that is not acknowledged and the newest sent.
/// A power of two below 2^15.
constexpr std::uint16_t kReliableWindow = 256;

/// Messages of mixed size in the order queued, bounded in bytes. Bookkeeping counts as kEntryBytes each.
class MessageQueue {
public:
    static constexpr std::size_t kEntryBytes = 32;
    explicit MessageQueue(std::size_t max_bytes) : max_bytes_(max_bytes) {}

    bool empty() const { return entries_.empty(); }
    std::size_t size() const { return entries_.size(); }
    /// False, queueing nothing, when it would be over its bound.
    bool push(std::span<const std::byte> message);
    std::span<const std::byte> operator[](std::size_t index) const;
    void pop();

private:
    struct Entry {
        std::uint64_t position;  // in all bytes ever queued
        std::uint32_t size;
    };
    Fifo<Entry> entries_;
    Fifo<std::byte> bytes_;
    std::uint64_t popped_bytes_ = 0;
    std::size_t max_bytes_;
};

/// Keeps each message until the packet that carried it is delivered; offers it again when that is lost.
class ReliableSender {
public:
    /// Both sides must agree on the first id.
    ReliableSender(std::uint16_t first_id, std::size_t max_bytes) : queue_(max_bytes), first_id_(first_id) {}

    bool push(std::span<const std::byte> message);

    /// Index of the first message at or after `index` that should go into the next packet. With
    /// `beside_payload`, those lost twice are left out: if the receiver refuses payloads, and so never
    /// acknowledges their packets, they must travel in packets without.
    std::optional<std::size_t> next_pending(std::size_t index, bool beside_payload) const;
    bool has_pending() const { return next_pending(0, false).has_value(); }
    std::span<const std::byte> message(std::size_t index) const { return queue_[index]; }
    std::uint16_t id(std::size_t index) const { return static_cast<std::uint16_t>(first_id_ + index); }

    /// The message is in this packet now. Returns whether it was sent before.
    bool sent(std::size_t index, std::uint64_t packet_number);
    /// Forgets the messages that the packet carried, in order from the oldest.
    void delivered(std::uint64_t packet_number);
    void lost(std::uint64_t packet_number);

private:
    struct Entry {
        std::uint64_t packet = 0;  // that carries it; 0: pending
        std::uint8_t losses = 0;   // saturates
        bool sent = false;
        bool delivered = false;
    };
    std::size_t window() const;

    MessageQueue queue_;
    Fifo<Entry> entries_;      // parallel to queue_
    std::uint16_t first_id_;   // of index 0
    std::size_t pending_ = 0;  // in the whole queue
};

/// Puts messages into order. Bytes are kept only of messages that arrived before their turn.
class ReliableReceiver {
public:
    explicit ReliableReceiver(std::uint16_t first_id) : next_(first_id) {}

    /// Whether a correct sender could send this id now.
    bool plausible(std::uint16_t id) const;

    enum class Arrival : std::uint8_t { now, later, duplicate };
    /// now: deliver `message` and then everything from take_next(). Requires plausible(id).
    Arrival arrive(std::uint16_t id, std::span<const std::byte> message);
    /// The next message in order, if it is here; valid until the next take_next().
    std::optional<std::span<const std::byte>> take_next();

private:
    struct Slot {
        std::vector<std::byte> bytes;
        bool filled = false;
    };
    std::vector<Slot> slots_;                    // by id modulo kReliableWindow; empty until first needed
    std::vector<std::vector<std::byte>> spare_;  // buffers to reuse: as many as ever waited at once
    std::vector<std::byte> taken_;
    std::uint16_t next_;
};

}  // namespace shoal::net
