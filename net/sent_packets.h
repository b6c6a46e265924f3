#pragma once
// Packets in flight, their fates, and estimates of round-trip time and loss. Source of the estimators: RFC
// 6298 (round-trip time) and RFC 9002 (loss).

#include "fifo.h"
#include "packet.h"

namespace shoal::net::impl {

/// Sending half of one connection. Each tracked packet has one fate, delivered or lost, reported once.
/// Packets that want no ack take a number and are not tracked.
class SentPackets {
public:
    /// What is remembered of a packet's contents until the fate of the packet is known.
    struct Content {
        std::uint32_t carried = 0xFFFF'FFFF;  // reliable messages: the result of SendQueue::write()
        std::uint16_t distance = 0;           // if is_fragment: Fragment::distance
        std::uint8_t index = 0;               // if is_fragment: Fragment::index
        std::uint8_t has_payload : 1 = 0;     // then the fate of the payload is reported to the handler
        std::uint8_t is_fragment : 1 = 0;     // the payload is a fragment of a large one
    };
    /// The fate of one packet, or an ack that arrived after the fate `lost`.
    struct News {
        PacketFate fate;
        Time sent{0};
        Content content;
        std::uint16_t bytes = 0;
        bool is_late = false;   // an ack of a packet that was reported as lost
        bool measures = false;  // fate.rtt is a round-trip sample: of the newest packet of an ack
    };

    /// `first`: the first packet number. `capacity`: the most packets in flight, a power of two.
    SentPackets(std::uint64_t first, std::uint32_t capacity);

    std::uint64_t next_number() const { return next_; }
    /// The highest number that an ack named; first - 1 before the first ack.
    std::uint64_t newest_acked() const { return newest_acked_; }
    /// Returns whether the next packet can be tracked. False: too many packets are in flight.
    bool has_room() const;

    /// Takes the next number for a packet that wants an ack. Requires has_room(). `bytes`: of the datagram.
    void sent_tracked(const Content& content, std::size_t bytes, Time now, ConnectionStats& stats);
    void sent_untracked() { next_ += 1; }  // for a packet that wants no ack
    /// Leaves the next number unused, so that an ack which names it is known to be forged.
    void skip();

    /// Returns whether the acks name only packets that were sent. Of skipped numbers it checks the last two.
    bool plausible(const Acks& acks) const;
    /// Declares a packet delivered if the acks name it, and lost if three later packets were delivered.
    /// Requires plausible(acks).
    void acknowledge(const Acks& acks, Time now, ConnectionStats& stats);
    /// Declares packets as lost by time (ALONE.md, Fates).
    void update(Time now, ConnectionStats& stats);
    void lose_all(ConnectionStats& stats);
    /// Takes the next fate or late ack; returns false if there is none. One acknowledge() or update() adds
    /// late acks, newest first, and then fates, by packet number.
    bool next_news(News& out);
    /// Call it when the path has changed: forgets the round-trip time.
    void restart(ConnectionStats& stats);

    /// Time until an ack is overdue; 500 ms at first, at most 3 s.
    Duration answer_timeout(const ConnectionStats& stats) const;
    /// answer_timeout(), doubled for each timeout since the last ack: ALONE.md, Fates.
    Duration retransmission_timeout(const ConnectionStats& stats) const;
    std::uint32_t open_packets() const { return open_; }
    Time newest_sent() const { return newest_sent_; }  // when the newest tracked packet was sent

private:
    friend struct Consistency;  // tests/net/support/consistency.h
    enum class State : std::uint8_t {
        open,
        overtaken,  // lost: later packets were delivered
        timed_out,  // lost
        acked,      // named by the present ack; acknowledge() is about to declare it delivered
        delivered
    };
    struct Slot {
        std::uint64_t number = 0;  // 0: the slot was never used
        Time sent{0};
        Content content;
        std::uint16_t bytes = 0;
        State state = State::delivered;
    };
    std::size_t index(std::uint64_t number) const {
        return static_cast<std::size_t>(number) & (slots_.size() - 1);
    }
    Slot* find(std::uint64_t number);
    bool is_open(std::uint64_t number) const {
        const Slot& slot = slots_[index(number)];
        return slot.number == number && slot.state == State::open;
    }
    void decide(Slot& slot, State state, Duration rtt, bool measures, ConnectionStats& stats);
    void note_late(Slot& slot, Duration rtt, bool measures, Time now, ConnectionStats& stats);
    void sample_rtt(Duration rtt, Duration ack_delay, ConnectionStats& stats);
    /// Returns the newest number below next_ whose low 16 bits equal `truncated`. It may be below first_.
    std::uint64_t expand_ack(std::uint16_t truncated) const;

    std::vector<Slot> slots_;  // by number modulo slots_.size(), which is at most capacity_
    Fifo<News> news_;
    std::array<std::uint64_t, 2> skipped_{};  // skipped numbers, newest first
    std::uint32_t capacity_;
    std::uint64_t first_, next_;
    std::uint64_t oldest_open_;  // no packet with a lower number is open
    std::uint64_t newest_acked_;
    std::uint64_t measured_from_ = 0;  // packets with lower numbers were sent before the path changed
    std::uint32_t open_ = 0;
    Time newest_sent_{0};
    std::uint8_t timeouts_in_a_row_ = 0;  // since the last ack
    Time timed_out_at_{0};                // time of the latest counted timeout
    // For 10 s after reordered_at_, an overtaken packet is lost no sooner than a round trip plus this time.
    Duration reorder_wait_{0};
    Time reordered_at_{0};  // when the latest ack came for a packet that was declared lost as overtaken
};

}  // namespace shoal::net::impl
