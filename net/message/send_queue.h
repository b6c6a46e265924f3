#pragma once
// The sending half of a connection's messages: queued messages, by weight, and messages in flight. The class
// Scheduler decides which weight goes first.

#include "inbox.h"

namespace shoal::net::impl {

/// A reliable message is in flight until a packet with it is delivered. If all packets with it are lost, it
/// is queued again. Calls take time in proportion to the messages touched.
class SendQueue {
public:
    static constexpr std::uint32_t kNone = kNoIndex;
    /// An unsent message or piece counts as its bytes plus this in the limit of its queue. Its
    /// heap never exceeds the sum.
    static constexpr std::size_t kEntryBytes = 176;

    /// `max_bytes`: limit of each queue, one for each channel and weight. `first_id`: >= 1, on both sides.
    SendQueue(std::uint64_t first_id, std::uint32_t max_bytes) : max_bytes_(max_bytes), base_(first_id) {}

    /// Returns whether an empty queue can hold a message of this size.
    bool could_hold(std::size_t message_bytes) const { return cost_in_queue(message_bytes) <= max_bytes_; }
    /// Queues a copy. If the queue has no room, an unreliable or sequenced message takes the place of the
    /// oldest ones; a reliable one is not queued, and the result is false. Requires could_hold().
    bool push(const Delivery& how, std::span<const std::byte> message);
    /// Sets the queue time of messages that are pushed from now on.
    void set_time(Time now) { now_ = now; }
    /// Drops unreliable messages older than `max_age` that waited in an earlier flush. Further calls at the
    /// same time have no effect.
    void drop_old(Duration max_age, Time now);

    /// What the SendQueue must know of the packet that is to be filled.
    struct Terms {
        Time now{0};
        double loss = 0;              // part of the packets that is lost, 0..1; decides whether to repeat
        bool beside_payload = false;  // a refused payload withholds the ack: no messages that were lost twice
        bool bulk = true;             // bulk messages may be sent in it
    };
    /// The messages of one weight that can be sent now.
    struct Waiting {
        std::size_t bytes = 0;          // estimated bytes of the messages, with heads; 0: none can be sent
        std::size_t first = 0;          // upper estimate for the first message, head included
        bool needs_own_packet = false;  // the first message needs a packet without payload
        explicit operator bool() const { return bytes > 0; }
    };
    /// While is_held_up(), the result for Weight::normal also counts the bulk messages.
    Waiting waiting(Weight weight) const { return queued_ == 0 ? Waiting{} : waiting_messages(weight); }
    /// Returns whether to send a packet for repeats alone: no other packet took one for 20 ms.
    bool has_repeats(const Terms& terms) const;

    /// The messages chosen for one packet.
    class Draft;
    /// Moves the next message of this weight from its queue into the draft, or returns false.
    bool take(Draft& draft, Weight weight, const Terms& terms) {
        return queued_ > 0 && take_message(draft, weight, terms);
    }
    /// Adds repeats of messages in flight to the draft, within the limit of set_repeat_share().
    void take_repeats(Draft& draft, const Terms& terms);
    /// Writes the draft. Returns the argument for on_fate(), which must be called once when the packet's fate
    /// is known; kNone if the packet has no reliable messages.
    std::uint32_t write(ByteWriter& out, Draft& draft, const Terms& terms, ConnectionStats& stats);
    void on_fate(std::uint32_t carried, bool is_delivered);

    /// Call it when a packet of `bytes` bytes was sent: adds credit for repeats.
    void paid(std::size_t bytes);
    /// The largest share of repeats in all bytes sent, 0 to 1.
    void set_repeat_share(double share) { repeat_share_ = share; }
    /// The limit of each queue. Queued messages stay, even if they exceed a lower limit.
    void set_max_bytes(std::uint32_t max_bytes) { max_bytes_ = max_bytes; }

    /// Returns true if no message is queued, and each reliable message was acknowledged.
    bool is_empty() const { return queued_ == 0 && sent_.empty(); }
    /// Sets the counts of messages that are queued, in flight or dropped.
    void count(ConnectionStats& stats) const;

private:
    friend struct Consistency;                             // tests/net/support/consistency.h
    static constexpr std::uint32_t kTypicalHeadBytes = 4;  // of a message, for the estimates in Waiting

    /// A message, or a piece of a large one, with consecutive ids. A reliable one keeps its entry until all
    /// with lower ids are delivered, but not its bytes.
    struct Message {
        std::uint64_t id = 0;  // only for a reliable message; 0: no id yet
        Time last_sent{0};     // unsent: when it was queued
        std::uint32_t bytes;   // handle of the bytes in store_
        std::uint32_t next;    // next message in its queue
        std::uint32_t key;
        std::uint16_t size;
        std::uint16_t distance = 0;
        std::uint16_t pieces_left = 0;  // pieces of the same message after this one
        Channel channel;
        Weight weight;
        std::uint8_t losses = 0;  // how often the message was lost, with all its copies; at most 255
        std::uint8_t copies = 0;  // number of packets in flight that carry the message
        bool is_delivered = false;
        bool has_parity = false;  // a parity was sent: the message is not repeated until it was lost twice
    };
    /// The newest reliable message of a key. If its id is below base_, the receiver has delivered it, and the
    /// next message of the key need not wait for it.
    struct Newest {
        std::uint32_t key = 0;
        std::uint32_t unsent = 0;  // number of messages and pieces of the key without an id
        std::uint64_t id = 0;      // newest id of a message of the key; 0: none
        Weight weight{};           // weight of the key's messages without an id
    };
    /// The queues of a weight: lost messages, then the unsent ones of each Channel, which take turns.
    enum Place : std::uint8_t {
        lost_twice,
        lost_once,
        first_unsent,
        unsent_reliable = first_unsent + 2,
        kPlaces
    };
    struct Queue {
        std::uint32_t first = kNone, last = kNone;
    };
    /// Consecutive reliable ids in one packet.
    struct Carried {
        std::uint64_t first;
        std::uint32_t next;
        std::uint32_t count;
    };
    struct Repeat {
        std::uint64_t id;
        Time sent;
    };

    static std::size_t cost_in_queue(std::size_t message_bytes);
    static Place unsent_on(Channel channel) { return Place(first_unsent + std::size_t(channel)); }
    Newest& newest(std::uint32_t key);
    Queue& queue(Weight weight, Place place) { return queues_[std::size_t(weight)][place]; }
    const Queue& queue(Weight weight, Place place) const { return queues_[std::size_t(weight)][place]; }
    void enqueue(std::uint32_t index, Place place);
    void unlink_first(Weight weight, Place place);
    void drop_first(Weight weight, Channel channel);
    Place place_in_turn(std::size_t n) const;
    std::uint32_t first_of(Weight weight, Place place) const;
    Waiting waiting_messages(Weight weight) const;
    bool is_held_up() const;
    bool take_message(Draft& draft, Weight weight, const Terms& terms);
    bool take_next(Draft& draft, Weight weight, const Terms& terms);
    bool window_has_room(const Message& message) const;
    void assign_ids(std::uint32_t index, Newest* entry);
    bool take_parity(Draft& draft, Message& message);
    bool put(Draft& draft, std::uint32_t index);
    static bool joins(const Message& before, const Message& after);
    static Run run_of(const Message& message);
    void write_message(ByteWriter& out, std::uint32_t index, const Terms& terms, ConnectionStats& stats);
    void carry(std::uint32_t& last, const Run& run);
    std::uint64_t next_id() const { return base_ + sent_.size(); }
    /// Requires base_ <= id < next_id().
    std::uint32_t index_of(std::uint64_t id) const { return sent_[static_cast<std::size_t>(id - base_)]; }
    Message* find(std::uint64_t id);

    std::uint32_t max_bytes_;
    std::array<std::array<std::uint32_t, 3>, 3> used_bytes_{};  // bytes in use, by channel and weight
    std::array<std::array<Queue, kPlaces>, 3> queues_;          // by weight
    std::uint32_t queued_ = 0;                                  // number of messages in queues_
    std::array<std::uint32_t, 3> waiting_bytes_{};              // by weight: bytes in queues_ + 4 per message
    Channel next_channel_ = Channel::reliable;                  // its unsent messages have the next turn
    bool bulk_turn_ = false;
    Time now_{0}, last_flush_{0};
    std::uint64_t dropped_ = 0;

    IndexPool<Message> messages_;
    MessageStore store_;
    std::vector<Newest> newest_;            // sorted by key; may contain entries that are not needed any more
    std::vector<std::uint32_t> sequenced_;  // by key: index of the queued message

    std::uint64_t base_;              // the lowest id that is not acknowledged
    Fifo<std::uint32_t> sent_;        // indices of messages by id, from base_
    std::uint32_t window_bytes_ = 0;  // bytes of the messages in sent_
    IndexPool<Carried> carried_;      // for each packet in flight a list of its reliable ids

    Fifo<Repeat> repeats_;  // may be repeated; some may have arrived meanwhile
    double repeat_share_ = 0.5;
    double repeat_credit_ = 0;  // bytes left for repeats
};

class SendQueue::Draft {
public:
    explicit Draft(std::size_t room_bytes) : room(room_bytes) {}
    bool empty() const { return count == 0; }
    std::size_t room;  // bytes left in the packet

private:
    friend class SendQueue;
    struct Column {  // messages of one channel; the array is large, so it is not initialised
        std::array<std::uint32_t, kMaxMessagesPerPacket> messages;
        std::size_t count = 0;
        std::size_t in_run = 0;  // how many messages at the end of the array form one Run
    };
    static constexpr std::size_t kMaxParities = 16;
    std::array<Column, 3> columns;
    // Each entry n stands for the parity of the messages with the ids n - 1 and n.
    std::array<std::uint64_t, kMaxParities> parities;
    std::size_t parity_count = 0;
    std::size_t count = 0;  // number of messages and parities
    bool is_sorted = true;  // the reliable messages are in the order of their ids
};

}  // namespace shoal::net::impl
