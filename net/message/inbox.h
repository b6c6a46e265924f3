#pragma once
// The receiving half of a connection's messages: what is old or known is dropped, what comes too early waits.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../fifo.h"
#include "../packet.h"
#include "message_store.h"

namespace shoal::net {

/// All reliable messages under way have at most this many bytes together. So an Inbox keeps no more, but for
/// the first pieces of one large message, which may be under way no longer.
constexpr std::uint32_t kReliableWindowBytes = 1024 * 1024;

/// Everything is allocated on first use.
class Inbox {
public:
    explicit Inbox(std::uint64_t first_id) : base_(first_id), newest_id_(first_id - 1) {}

    /// What the ids in this packet are nearest to. The number may be at most 64 behind the newest.
    std::uint64_t expected_id(std::uint64_t packet_number) const;
    /// Whether a correct sender could send these messages now.
    bool plausible(const Packet& packet) const;

    /// Whether the messages of a plausible packet can be kept: the slots for their ids are a small multiple
    /// of those that messages have used. If not, the packet must not be acknowledged: the sender repeats
    /// them. Those that is_next() is true of can arrive all the same.
    bool has_room(const Packet& packet) const;
    /// Whether no other message must come first.
    bool is_next(const Frame& frame) const {
        return frame.channel != Channel::reliable || (frame.id == base_ && !frame.is_parity);
    }

    enum class Arrival : std::uint8_t { now, whole, kept, known, outdated };
    /// now: deliver this message. whole: deliver whole(), which this one completes. If it is reliable, after
    /// any of these but `known` everything from take_ready(). Requires that the packet was plausible.
    Arrival arrive(const Packet& packet, const Frame& frame);
    /// The message of several pieces that is complete now. Valid until the next one is.
    std::span<const std::byte> whole() const { return whole_; }
    /// The next message that need wait no longer, copied into `buffer`, or whole().
    std::optional<std::span<const std::byte>> take_ready(std::span<std::byte, kMaxMessageBytes> buffer);

    std::uint32_t waiting_bytes() const { return waiting_bytes_; }

private:
    static constexpr std::uint32_t kNone = kNoIndex;
    enum class State : std::uint8_t { missing, waiting, delivered };
    struct Slot {
        std::uint32_t waiters = kNone;  // messages to deliver after this one
        std::uint32_t pieces = kNone;   // the latest one of the message that this one goes on with
        State state = State::missing;
    };
    struct Waiting {
        std::uint64_t id;
        std::uint32_t bytes;    // in store_
        std::uint32_t next;     // in the same list; of a piece the one before
        std::uint32_t message;  // pieces: bytes of all up to this one
        std::uint16_t size;
        bool goes_on;
    };
    /// The bytes of one message; or a parity, of messages id and id - 1.
    struct Small {
        std::uint64_t id = 0;  // 0: none
        std::uint16_t size = 0;
        std::array<std::byte, kMaxRepeatedBytes> bytes;
    };

    State state(std::uint64_t id) const;
    Slot& slot(std::uint64_t id);
    bool must_wait(std::uint64_t id, std::uint16_t distance) const;
    std::uint32_t keep(std::uint64_t id, std::span<const std::byte> bytes, bool goes_on);
    void release(std::uint32_t index);
    void wait(std::uint64_t id, std::uint16_t distance, std::span<const std::byte> bytes, bool goes_on);
    Arrival deliver(std::uint64_t id, std::span<const std::byte> bytes, bool goes_on);
    void note_id(std::uint64_t packet_number, std::uint64_t id);
    Arrival arrive_parity(const Frame& frame, std::span<const std::byte> bytes);
    void remember(std::uint64_t id, std::span<const std::byte> bytes);
    bool recover(const Small& parity);

    std::uint64_t base_;           // the lowest reliable id not delivered
    Fifo<Slot> slots_;             // ids from base_
    IndexPool<Waiting> waiting_;   // in lists: of each slot, of each large message, ready
    std::uint32_t ready_ = kNone;  // to be delivered, in this order
    std::uint32_t waiting_bytes_ = 0;
    MessageStore store_;
    std::vector<std::byte> whole_;
    // From the first parity on: recent messages, by id modulo their count; then parities of two missing ones.
    std::vector<Small> small_;
    std::uint8_t next_parity_ = 0;

    std::uint64_t newest_id_;                // in all packets
    std::uint64_t newest_packet_ = 0;        // that had reliable messages
    std::vector<std::uint64_t> newest_ids_;  // in all packets up to a number, by number modulo 128
    std::vector<std::uint64_t> sequenced_;   // by key: newest packet that brought one
};

}  // namespace shoal::net
