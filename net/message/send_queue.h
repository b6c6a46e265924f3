#pragma once
// The sending half of a connection's messages: what waits, by weight, and which packets carry what is in
// flight. The scheduler decides who goes first.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../bytes.h"
#include "../endpoint.h"
#include "../fifo.h"
#include "../packet.h"
#include "../stats.h"
#include "inbox.h"
#include "message_store.h"

namespace shoal::net {

/// A reliable message is under way until one packet that carries it is delivered, and waits again when all of
/// them are lost. All work is in proportion to the messages touched. Everything is allocated on first use.
class SendQueue {
public:
    static constexpr std::uint32_t kNone = kNoIndex;
    /// What each message counts for in its queue, beside its bytes.
    static constexpr std::size_t kEntryBytes = 32;

    /// `max_bytes` for each channel and weight. Both sides must agree on the first id; >= 1.
    SendQueue(std::uint64_t first_id, std::uint32_t max_bytes) : max_bytes_(max_bytes), base_(first_id) {}

    /// Whether an empty queue could hold it.
    bool could_hold(std::size_t message_bytes) const { return cost_in_queue(message_bytes) <= max_bytes_; }
    /// False, changing nothing, when its queue would be over its bound. What is under way has left it, and is
    /// bounded by the reliable window.
    bool push(const Delivery& how, std::span<const std::byte> message);

    /// What kind of packet is to be filled.
    struct Terms {
        Time now{0};
        double loss = 0;              // of packets, 0..1; decides about repeats
        bool beside_payload = false;  // if the receiver refuses payloads, and so never acknowledges their
                                      // packets, messages must travel in others: so do those lost twice
        bool bulk = true;             // may go, too
    };
    /// What could go now.
    struct Waiting {
        std::size_t bytes = 0;          // about what all of them take in packets; 0: none can go
        std::size_t first = 0;          // the same for the one that goes first
        bool needs_own_packet = false;  // that one goes in packets without payload only
        explicit operator bool() const { return bytes > 0; }
    };
    /// Normal weight includes bulk that holds the others up.
    Waiting waiting(Weight weight) const;
    /// Whether a packet should be sent for a repeat alone: they ride with others, unless none come for a
    /// while.
    bool has_repeats(const Terms& terms) const;

    /// The messages chosen for one packet.
    class Draft;
    /// Moves the next message of this weight from its queue into the draft; false: none can go, or fits.
    bool take(Draft& draft, Weight weight, const Terms& terms);
    /// Copies of messages in flight, as far as their share of the bytes goes.
    void take_repeats(Draft& draft, const Terms& terms);
    /// Writes the draft, at most its room. Returns what on_fate() is to be called with, once, when the
    /// packet's fate is known; kNone: nothing reliable.
    std::uint32_t write(ByteWriter& out, Draft& draft, const Terms& terms, ConnectionStats& stats);
    void on_fate(std::uint32_t carried, bool is_delivered);

    /// Every packet of the connection pays for repeats.
    void paid(std::size_t bytes);
    /// Bytes of repeats for each byte sent, repeats included; 0 (none) to 1. Second ones get three quarters
    /// of it, less what first ones took.
    void set_repeat_share(double share) { repeat_share_ = share; }
    /// What waits already stays.
    void set_max_bytes(std::uint32_t max_bytes) { max_bytes_ = max_bytes; }

    /// What waits, of all weights; pieces of large messages count one each.
    std::uint32_t queued_count() const { return queued_; }
    std::uint32_t queued_bytes() const { return waiting_bytes_[0] + waiting_bytes_[1] + waiting_bytes_[2]; }
    /// Reliable ones from the oldest that is not acknowledged to the newest sent.
    std::uint32_t in_flight_count() const { return static_cast<std::uint32_t>(sent_.size()); }

    /// For tests, after every step.
    bool is_consistent() const;

private:
    /// A reliable message keeps its entry until every message with a lower id is delivered as well; its bytes
    /// are freed at once. A large message is several entries, its pieces, with consecutive ids.
    struct Message {
        std::uint64_t id = 0;  // reliable; 0: not sent yet
        Time last_sent{0};     // reliable
        std::uint32_t bytes;   // in store_
        std::uint32_t next;    // in its queue
        std::uint32_t key;
        std::uint16_t size;
        std::uint16_t distance = 0;
        std::uint16_t pieces_left = 0;  // after this one
        Channel channel;
        Weight weight;
        std::uint8_t losses = 0;  // saturates
        std::uint8_t copies = 0;  // open packets that carry it
        bool is_delivered = false;
        bool has_parity = false;  // so it is not repeated, until it is lost twice
    };
    /// The newest reliable message of a key. Once all before base_ are delivered, the receiver has certainly
    /// handed them over, so the next one of the same key need not name an older id than that.
    struct Newest {
        std::uint32_t key = 0;
        std::uint32_t unsent = 0;  // messages without id
        std::uint64_t id = 0;      // the last one given; 0: none
        Weight weight{};           // of unsent ones
    };
    /// Where a message waits, in order of precedence; the last two in turn.
    enum Place : std::uint8_t { lost_twice, lost_once, unsent_reliable, unsent_unreliable, kPlaces };
    struct Queue {
        std::uint32_t first = kNone;
        std::uint32_t last = kNone;
    };
    /// Consecutive ids in one packet.
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
    Newest& newest(std::uint32_t key);
    Queue& queue(Weight weight, Place place) { return queues_[std::size_t(weight)][place]; }
    const Queue& queue(Weight weight, Place place) const { return queues_[std::size_t(weight)][place]; }
    void enqueue(std::uint32_t index, Place place);
    std::array<Place, kPlaces> places_in_turn() const;
    std::uint32_t first_of(Weight weight, Place place) const;
    bool is_held_up() const;
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
    Message* find(std::uint64_t id);

    std::uint32_t max_bytes_;
    std::array<std::array<std::uint32_t, 3>, 3> used_bytes_{};  // of unsent messages, by channel and weight
    std::array<std::array<Queue, kPlaces>, 3> queues_;          // by weight
    std::uint32_t queued_ = 0;                                  // messages in these
    std::array<std::uint32_t, 3> waiting_bytes_{};              // in these, with 4 each for the head
    bool unreliable_turn_ = false;
    bool bulk_turn_ = false;

    IndexPool<Message> messages_;
    MessageStore store_;
    std::vector<Newest> newest_;            // by key; some are not needed any more
    std::vector<std::uint32_t> sequenced_;  // by key: the message that waits

    std::uint64_t base_;              // the lowest id not known to be delivered
    Fifo<std::uint32_t> sent_;        // messages by id, from base_
    std::uint32_t window_bytes_ = 0;  // of these
    IndexPool<Carried> carried_;      // a list for each open packet

    std::array<Fifo<Repeat>, 2> repeats_;  // first ones, second ones; some may be delivered or lost by now
    double repeat_share_ = 0.5;
    std::array<double, 2> repeat_credit_{};  // bytes that may be spent on first and on second repeats
};

class SendQueue::Draft {
public:
    explicit Draft(std::size_t room_bytes) : room(room_bytes) {}
    bool empty() const { return count == 0; }
    std::size_t room;  // bytes left

private:
    friend class SendQueue;
    struct Column {  // one channel; the array is left uninitialised, there are many
        std::array<std::uint32_t, kMaxMessagesPerPacket> messages;
        std::size_t count = 0;
        std::size_t in_run = 0;  // of the last ones, which share a head
    };
    static constexpr std::size_t kMaxParities = 16;
    std::array<Column, 3> columns;
    std::array<std::uint64_t, kMaxParities> parities;  // of the message of this id and the one before
    std::size_t parity_count = 0;
    std::size_t count = 0;  // with parities
    bool is_sorted = true;  // the reliable ones by id
};

}  // namespace shoal::net
