#pragma once
// Packets sent and not yet known to be delivered or lost; what their fates say about the path.
// Source of the estimators: RFC 6298 (round-trip time) and RFC 9002 (loss).

#include <array>
#include <cstdint>
#include <vector>

#include "endpoint.h"
#include "fifo.h"
#include "packet.h"

namespace shoal::net {

/// Sending half of one connection. Each tracked packet has one fate, delivered or lost, which is reported
/// once. Packets that need no ack take a number and are not tracked.
class SentPackets {
public:
    /// What a packet carries, as far as its fate matters.
    struct Content {
        std::uint32_t carried = 0xFFFF'FFFF;  // reliable messages, as SendQueue names them
        std::uint16_t distance = 0;           // of a fragment, to the number of its payload
        bool has_payload = false;             // its fate is reported to the handler
        bool is_fragment = false;             // of a large payload; not reported by itself
    };
    /// The fate of one packet, or an ack that came after the fate `lost`.
    struct News {
        PacketFate fate;
        Time sent{0};
        Content content;
        std::uint16_t bytes = 0;
        bool is_late = false;   // not a fate: the packet was reported as lost before, and arrived after all
        bool measures = false;  // the ack names this packet first, so fate.rtt is a sample of the round trip
    };

    /// `capacity`: numbers between the oldest open packet and the next one; a power of two. Memory grows up
    /// to it as it is needed.
    SentPackets(std::uint64_t first, std::uint32_t capacity);

    std::uint64_t next_number() const { return next_; }
    /// All numbers up to this one are known to the receiver as passed; first - 1 while there is none.
    std::uint64_t newest_acked() const { return newest_acked_; }
    /// Whether the next packet can be tracked. If not, too many fates are open.
    bool has_room() const;

    /// Takes the next number. Tracking requires has_room().
    void sent_tracked(const Content& content, std::size_t bytes, Time now, ConnectionStats& stats);
    void sent_untracked() { next_ += 1; }
    /// Leaves out the next number. An ack that names it proves that the other side acknowledges packets that
    /// it never got.
    void skip();

    /// Whether these acks name only packets that were sent. Of numbers left out, the last two are known.
    bool plausible(const Acks& acks) const;
    /// Declares packets delivered that the acks name, and lost if three later ones were delivered. Requires
    /// plausible(acks).
    void acknowledge(const Acks& acks, Time now, ConnectionStats& stats);
    /// Declares packets lost whose time is over (see README, Fates).
    void update(Time now, ConnectionStats& stats);
    /// Declares every open packet lost.
    void lose_all(ConnectionStats& stats);

    /// Takes the next item; returns false if there is none. The items of one acknowledge() or update() come
    /// in this order: late acks, newest first; then fates, by packet number.
    bool next_news(News& out);

    /// The path is another one, of which nothing is known.
    void restart(ConnectionStats& stats);

    /// How long after sending an answer is overdue: computed from the smoothed round trip and its deviation,
    /// 500 ms before the first sample, at most 3 s.
    Duration answer_timeout(const ConnectionStats& stats) const;
    /// The same, doubled for each timeout since the last ack, at most 3 s. A packet is lost after two of
    /// these. Source of the doubling: RFC 6298, section 5.5.
    Duration retransmission_timeout(const ConnectionStats& stats) const;
    std::uint32_t open_packets() const { return open_; }
    /// When the newest tracked packet was sent.
    Time newest_sent() const { return newest_sent_; }

private:
    enum class State : std::uint8_t {
        open,
        overtaken,  // lost: later packets were delivered
        timed_out,  // lost
        acked,      // open, and about to be declared delivered
        delivered
    };
    struct Slot {
        std::uint64_t number = 0;  // 0: the slot was never used
        Time sent{0};
        Content content;
        std::uint16_t bytes = 0;
        State state = State::delivered;
    };
    std::size_t index(std::uint64_t number) const { return number & (slots_.size() - 1); }
    Slot* find(std::uint64_t number);
    bool is_open(std::uint64_t number) const {
        const Slot& slot = slots_[index(number)];
        return slot.number == number && slot.state == State::open;
    }
    void decide(Slot& slot, State state, Duration rtt, bool measures, ConnectionStats& stats);
    void note_late(Slot& slot, Duration rtt, bool measures, Time now, ConnectionStats& stats);
    void sample_rtt(Duration rtt, Duration ack_delay, ConnectionStats& stats);
    /// The number of the newest packet sent whose low 16 bits equal `truncated`. It may be before first_.
    std::uint64_t expand_ack(std::uint16_t truncated) const;

    std::vector<Slot> slots_;  // by number modulo their count, which is at most capacity_
    Fifo<News> news_;
    std::array<std::uint64_t, 2> skipped_{};  // numbers left out, newest first
    std::uint32_t capacity_;
    std::uint64_t first_;
    std::uint64_t next_;
    std::uint64_t oldest_open_;  // no packet before it is open
    std::uint64_t newest_acked_;
    std::uint64_t measured_from_ = 0;  // earlier packets took, at least in part, another path
    std::uint32_t open_ = 0;
    Time newest_sent_{0};
    std::uint8_t timeouts_in_a_row_ = 0;  // since the last ack
    Time timed_out_at_{0};                // when the latest counted timeout happened
    Duration reorder_wait_{0};            // beyond a round trip, for packets that others overtook
    Time reordered_at_{0};                // when an overtaken packet was acknowledged after it was lost
};

}  // namespace shoal::net
