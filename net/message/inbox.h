#pragma once
// The receiving half of a connection's messages: drops old and duplicate messages, and keeps early ones.

#include "../fifo.h"
#include "../packet.h"
#include "message_store.h"

namespace shoal::net::impl {

/// A sender's reliable messages from the oldest unacknowledged one on have at most this many bytes together.
/// An Inbox keeps up to kMaxReliableBytes more: acknowledged pieces of an incomplete message.
constexpr std::uint32_t kReliableWindowBytes = 1024 * 1024;

/// One per connection. Allocates no memory before the first message that needs it.
class Inbox {
public:
    explicit Inbox(std::uint64_t first_id) : base_(first_id), newest_id_(first_id - 1) {}

    /// Returns the reliable id that read_body() needs to expand the truncated ids of this packet. Requires a
    /// packet number at most 64 below the newest one.
    std::uint64_t expected_id(std::uint64_t packet_number) const;
    /// Returns false if the id of a reliable message is outside the window, or the reliable messages would
    /// exceed the limit of kept bytes: no correct sender can send such a packet now.
    bool plausible(const Packet& packet) const;

    /// Returns whether the messages of a plausible packet can be kept: one high id must not allocate many
    /// slots. If false, do not acknowledge the packet; arrive() may still take what is_next().
    bool has_room(const Packet& packet) const;
    /// True for unreliable and sequenced messages, and for the lowest reliable id that is not delivered.
    bool is_next(const Frame& frame) const {
        return frame.channel != Channel::reliable || (frame.id == base_ && !frame.is_parity);
    }

    enum class Arrival : std::uint8_t {
        now,       // deliver this message
        whole,     // this piece completes a message: deliver whole()
        kept,      // the message or piece waits for others
        known,     // it arrived before
        outdated,  // a newer sequenced message of its key arrived before
    };
    /// Takes a message. If it is reliable and not known, call take_ready() until it returns nothing, and
    /// deliver each result. Requires plausible(packet).
    Arrival arrive(const Packet& packet, const Frame& frame);
    /// The last complete message of several pieces. Valid until the next such message is complete.
    std::span<const std::byte> whole() const { return whole_; }
    /// Returns the next message that need not wait any longer, in `buffer` or whole(); or nothing.
    std::optional<std::span<const std::byte>> take_ready(std::span<std::byte, kMaxMessageBytes> buffer);

    std::uint32_t waiting_bytes() const { return waiting_bytes_; }

private:
    friend struct Consistency;  // tests/net/support/consistency.h
    static constexpr std::uint32_t kNone = kNoIndex;
    enum class State : std::uint8_t { missing, waiting, delivered };
    struct Slot {
        std::uint32_t waiters = kNone;  // list of messages to deliver after this one
        std::uint32_t pieces = kNone;   // list of the earlier pieces of this message, the last one first
        State state = State::missing;
    };
    struct Waiting {
        std::uint64_t id;
        std::uint32_t bytes;    // handle of the bytes in store_
        std::uint32_t next;     // index of the next message of the same list
        std::uint32_t message;  // in Slot::pieces: bytes of this piece and all earlier ones; else 0
        std::uint16_t size;
        bool goes_on;
    };
    /// The bytes of a small message, or the parity of messages id and id - 1.
    struct Small {
        std::uint64_t id = 0;  // 0: this entry is unused
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

    std::uint64_t base_;           // the lowest reliable id that is not delivered
    Fifo<Slot> slots_;             // one for each id, from base_ on
    IndexPool<Waiting> waiting_;   // kept messages, in the lists Slot::waiters, Slot::pieces, ready_
    std::uint32_t ready_ = kNone;  // first of the messages to deliver now, a list in this order
    std::uint32_t waiting_bytes_ = 0;
    MessageStore store_;
    std::vector<std::byte> whole_;
    // Empty before the first parity arrives. Then 32 entries for recent small messages, by id modulo 32, and
    // after them 8 entries for parities that arrived while both of their messages were missing.
    std::vector<Small> small_;
    std::uint8_t next_parity_ = 0;

    std::uint64_t newest_id_;                // highest reliable id that arrived
    std::uint64_t newest_packet_ = 0;        // highest number of a packet with reliable messages
    std::vector<std::uint64_t> newest_ids_;  // by packet number modulo 128: highest id in packets up to it
    std::vector<std::uint64_t> sequenced_;   // by key: number of the newest packet with a message of this key
};

}  // namespace shoal::net::impl
