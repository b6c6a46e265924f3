#pragma once
// The sending half of a connection's messages: what waits, by weight, and which packets carry what is in
// flight. Who goes first is the scheduler's to say.

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
    SendQueue(std::uint64_t first_id, std::uint32_t max_bytes)
        : max_bytes_(max_bytes), base_(first_id), next_id_(first_id) {}

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
        std::size_t bytes = 0;  // about what all of them take in packets; 0: none can go
        std::size_t first = 0;  // the same for the one that goes first
        bool is_alone = false;  // that one goes in packets without payload only
        explicit operator bool() const { return bytes > 0; }
    };
    /// Of urgent or normal weight; normal includes bulk that holds the others up.
    Waiting waiting(Weight weight) const;
    /// Whether a bulk message can be sent now.
    bool has_bulk() const { return has_next(Weight::bulk); }
    /// Whether a packet should be sent for a repeat alone: they ride with others, unless none come for a
    /// while.
    bool has_repeats(const Terms& terms) const;

    /// Whether repeats wait, which ride with any packet.
    bool has_copies() const { return !repeats_[0].empty() || !repeats_[1].empty(); }

    /// The messages chosen for one packet.
    class Draft;
    enum class Took : std::uint8_t { nothing, no_room, one };
    /// Moves the next message of this weight from its queue into the draft; no_room: one waits that does not
    /// fit.
    Took take(Draft& draft, Weight weight, const Terms& terms);
    /// Copies of messages in flight, as far as their share of the bytes goes.
    void take_repeats(Draft& draft, const Terms& terms);
    /// Writes the draft, at most its room. Returns what to settle, once, when the packet's fate is known;
    /// kNone: nothing reliable.
    std::uint32_t write(ByteWriter& out, Draft& draft, const Terms& terms, ConnectionStats& stats);
    void settle(std::uint32_t carried, bool delivered);

    /// Every packet of the connection pays for repeats.
    void paid(std::size_t bytes);
    /// Bytes of repeats for each byte sent, repeats included; 0 (none) to 1. Second ones get three quarters
    /// of it, less what first ones took.
    void set_repeat_share(double share) { repeat_share_ = share; }
    /// What waits already stays.
    void set_max_bytes(std::uint32_t max_bytes) { max_bytes_ = max_bytes; }

    /// What waits, of all weights; pieces of large messages count one each.
    std::uint32_t queued_count() const { return waiting_[0] + waiting_[1] + waiting_[2]; }
    std::uint32_t queued_bytes() const {
        return static_cast<std::uint32_t>(waiting_bytes_[0] + waiting_bytes_[1] + waiting_bytes_[2]);
    }
    /// Reliable ones from the oldest that is not acknowledged to the newest sent.
    std::uint32_t in_flight_count() const { return static_cast<std::uint32_t>(next_id_ - base_); }

    /// For tests, after every step.
    bool is_consistent() const;
    std::size_t capacity_bytes() const;

private:
    /// A reliable message keeps its entry until every message with a lower id is delivered as well; its bytes
    /// are freed at once. From then on the receiver has certainly handed it over, so the next message of the
    /// same key need not name it as predecessor. A large message is several entries, its pieces, with
    /// consecutive ids.
    struct Message {
        std::uint64_t id = 0;  // reliable; 0: not sent yet
        Time last_sent{0};     // reliable
        std::uint32_t bytes;   // in store_
        std::uint32_t next;    // in its list
        std::uint32_t key;
        std::uint32_t predecessor = kNone;  // the previous message with the same key
        std::uint32_t successor = kNone;
        std::uint32_t next_in_bucket = kNone;  // if the newest of its key
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
    struct Queue {
        std::uint32_t first = kNone;
        std::uint32_t last = kNone;
    };
    /// Where a message waits, in order of precedence; the last two in turn.
    enum Place : std::uint8_t {
        alone,
        returned,
        fresh,
        loose,
        kPlaces
    };  // fresh: reliable; loose: the others
    struct Sent {
        std::uint32_t message = kNone;
        std::uint32_t position = 0;  // of its bytes in all ever sent, modulo 2^32
    };
    /// Consecutive ids in one packet.
    struct Carried {
        std::uint64_t first;
        std::uint32_t next;
        std::uint16_t count;
    };
    struct Repeat {
        std::uint64_t id;
        Time sent;
    };

    bool replace(std::uint32_t index, std::span<const std::byte> message);
    static std::size_t cost_in_queue(std::size_t message_bytes);
    std::uint32_t add(const Delivery& how, std::span<const std::byte> message);
    void drop_bytes(Message& message);
    void release(std::uint32_t index);
    std::uint32_t& used_bytes(const Message& message) {
        return used_bytes_[std::size_t(message.channel)][std::size_t(message.weight)];
    }
    void chain(std::uint32_t index);
    void unchain(std::uint32_t index);
    std::uint32_t& bucket(std::uint32_t key);
    std::uint32_t& link_to_newest(std::uint32_t key);
    void grow_buckets();

    Queue& queue(Weight weight, Place place) { return queues_[std::size_t(weight)][place]; }
    const Queue& queue(Weight weight, Place place) const { return queues_[std::size_t(weight)][place]; }
    void enqueue(std::uint32_t index, Place place);
    void dequeue(Weight weight, Place place);

    bool has_next(Weight weight) const;
    /// Whether bulk that was begun or lost waits and half of the window is used: as the window begins with
    /// what is not delivered, nobody could send any more soon.
    bool is_held_up() const;
    Took take_next(Draft& draft, Weight weight, const Terms& terms);
    bool take_parity(Draft& draft, std::uint32_t index);
    std::size_t cost(const Draft& draft, const Message& message) const;
    void put(Draft& draft, std::uint32_t index, std::size_t bytes);
    std::uint32_t write_runs(ByteWriter& out, Draft& draft, bool beside_payload);
    void note_sent(const Draft& draft, const Terms& terms, ConnectionStats& stats);
    bool joins(const Message& before, const Message& after) const;
    Run run_at(const Draft& draft, std::size_t channel, std::size_t at) const;
    void write_parity(ByteWriter& out, const Message& message, Run run) const;
    void carry(std::uint32_t& last, const Run& run);

    bool window_has_room(const Message& message) const;
    std::uint32_t bytes_under_way() const {
        return base_ < next_id_ ? sent_bytes_ - sent(base_).position : 0;
    }
    void assign_id(std::uint32_t index);
    void assign_ids(std::uint32_t index);
    std::uint16_t distance_if_sent_now(const Message& message) const;
    std::uint32_t find(std::uint64_t id) const;
    Sent& sent(std::uint64_t id) { return sent_[id & (sent_.size() - 1)]; }
    const Sent& sent(std::uint64_t id) const { return sent_[id & (sent_.size() - 1)]; }
    void delivered(std::uint32_t index);
    void lost(std::uint32_t index);

    std::uint32_t max_bytes_;
    std::array<std::array<std::uint32_t, 3>, 3> used_bytes_{};  // by channel and weight
    std::array<std::array<Queue, kPlaces>, 3> queues_{};        // by weight
    std::array<std::uint32_t, 3> waiting_{};                    // messages in the queues of each weight
    std::array<std::size_t, 3> waiting_bytes_{};  // of these messages, with 4 bytes each for the head
    bool loose_turn_ = false;
    bool bulk_turn_ = false;

    IndexPool<Message> messages_;
    MessageStore store_;
    std::vector<std::uint32_t> buckets_;    // a hash table of the newest reliable message of each key
    std::vector<std::uint32_t> sequenced_;  // by key: the message that waits

    std::uint64_t base_;  // the lowest id not known to be delivered
    std::uint64_t next_id_;
    std::vector<Sent> sent_;        // ids from base_, modulo the size: a power of two, up to kReliableWindow
    std::uint32_t sent_bytes_ = 0;  // position of next_id_
    IndexPool<Carried> carried_;    // a list for each open packet

    std::array<Fifo<Repeat>, 2> repeats_;  // first ones, second ones; may name messages settled since
    double repeat_share_ = 0.5;
    std::array<double, 2> repeat_credit_{};  // bytes that may be spent on first and on second repeats
};

class SendQueue::Draft {
public:
    explicit Draft(std::size_t room_bytes) : room(room_bytes) {}
    bool empty() const { return count + parity_count == 0; }
    std::size_t room;  // bytes left

private:
    friend class SendQueue;
    struct Column {  // one channel; the array is left uninitialised, there are many
        std::array<std::uint32_t, kMaxMessagesPerPacket> messages;
        std::size_t count = 0;
        std::size_t in_run = 0;  // of the last ones, which share a head
    };
    Column& of(Channel channel) { return columns[std::size_t(channel)]; }
    const Column& of(Channel channel) const { return columns[std::size_t(channel)]; }

    static constexpr std::size_t kMaxParities = 16;
    std::array<Column, 3> columns;
    std::array<std::uint32_t, kMaxParities> parities;  // of such a message and the one before
    std::size_t parity_count = 0;
    std::size_t count = 0;  // without parities
    bool is_sorted = true;  // the reliable ones by id
};

}  // namespace shoal::net
