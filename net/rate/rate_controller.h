#pragma once
// How fast one connection may send, by the queue of the path. RATE.md has the rules, reasons and sources.

#include "../sent_packets.h"
#include "budget.h"
#include "round_trips.h"
#include "usual_loss.h"

namespace shoal::net::impl {

/// One direction of one connection. Bytes count whole datagrams; rates are bytes per second. Reads
/// rtt, latest_rtt and bytes_in_flight of the stats; writes rate, queue_delay and rate_limit.
class RateController {
public:
    static constexpr float kMinRate = 4'000;

    /// `first_rate` is the rate until acks come, after a first burst of ten packets. `max_rate` >= kMinRate.
    RateController(std::uint64_t first_rate, std::uint64_t max_rate, Time now, ConnectionStats& stats)
        : RateController(float(first_rate), (std::max)(kMinRate, float(max_rate)), now) {
        stats.rate = rate_;
    }

    /// Call it once per tick, after on_news(): adds to the budget, changes the rate, opens the breaker.
    /// `timeout`: the time after which an ack is overdue.
    void update(Time now, Duration timeout, ConnectionStats& stats);

    /// Call it when a packet was sent that will have a fate, after SentPackets::sent_tracked().
    void on_sent(std::size_t bytes, Time now, const ConnectionStats& stats);
    /// The same for a packet that will have no fate, such as one with only acks.
    void on_sent_untracked(std::size_t bytes) { budget_.spend_spare(bytes); }
    /// The same for a copy to another address. It counts in full if the host's limit holds packets back; else
    /// the part by which packets and copies would exceed the limit of set_max_rate().
    void on_copy(std::size_t bytes, const ConnectionStats& stats) {
        const bool is_full = stats.rate_limit == RateLimit::host;
        const double excess = is_full ? 1 : std::clamp(2.0 * double(rate_) / double(max_rate_) - 1, 0.0, 1.0);
        budget_.spend(static_cast<std::size_t>(excess * double(bytes)));
    }
    /// Call it if messages or payloads are held back in this tick for a reason other than the rate: `why`.
    void on_denied(RateLimit why) { denied_ = why; }
    /// Takes the fate of a packet, or a late ack.
    void on_news(const SentPackets::News& packet, Time now, const ConnectionStats& stats);
    /// Requires max_rate >= kMinRate.
    void set_max_rate(std::uint64_t max_rate);
    /// Call it when the path has changed: forgets the estimates of the former path.
    void restart(Time now);

    /// Returns whether a packet of any size may be sent now.
    bool may_send() const { return !is_broken_ && budget_.is_left(); }
    /// Returns whether a few small messages may be sent now.
    bool may_send_urgent() const { return !is_broken_ && budget_.is_left_for_urgent(); }
    /// Returns whether the circuit breaker is open (RATE.md). Then only pings are sent until an ack comes:
    /// the other side may withhold acks of payloads, but not of pings.
    bool is_broken() const { return is_broken_; }
    /// Time without an ack while packets are in flight; 0 if none are.
    Duration silence(Time now, const ConnectionStats& stats) const {
        return stats.bytes_in_flight > 0 ? now - last_news_ : Duration(0);
    }
    /// Time between pings while is_broken(): at first one timeout, then doubled each time, up to a second.
    Duration probe_interval() const { return probe_interval_; }

private:
    struct Round {  // one measuring interval
        Time began;
        float delivered = 0, sent = 0;  // bytes in this round
        std::uint16_t acks = 0;
        bool ran_out = false;  // the budget was used up in this round
    };
    /// A drain: sends less for a moment, to see whether the queue becomes shorter.
    struct Drain {
        enum class State : std::uint8_t {
            none,
            looking,   // sends at half the rate to measure RoundTrips::floor(); no queue is suspected
            draining,  // sends at the rate `part` * `full`
            judging    // the drain is over; waits for acks of packets sent after it
        };
        State state = State::none;
        bool is_second = false;   // follows a first drain that did not shorten the queue
        bool is_growing = false;  // the queue was growing fast when the drain began
        bool is_gentle = false;   // the game used less than the rate when the drain began
        std::uint8_t acks = 0;    // acks of packets sent after the drain
        float part = 0;           // the part of `full` that is sent during the drain
        float full = 0;           // estimated capacity of the path in bytes per second
        float rate_before = 0;
        Time began{0}, ends{0};
        Duration rtt_before{0};
        Duration rtt_after = (Duration::max)();
    };

    RateController(float first_rate, float max_rate, Time now);
    void start_anew(float rate, Time now);
    void set_rate(double rate);
    float undrained_rate() const;

    void end_round(Time now, const ConnectionStats& stats);
    void watch_start(float delivered_rate);
    void grow(Time now, double length_s);
    bool must_drain(Time now, bool was_used, const ConnectionStats& stats) const;
    void begin_drain(bool is_second, Time now, const ConnectionStats& stats);
    void continue_drain();
    void judge_drain(Time now, const ConnectionStats& stats);
    void believe_drain();
    void watch_loss(Time now, const ConnectionStats& stats);
    bool is_queue_growing(Time now, const ConnectionStats& stats) const;
    float best() const;
    float delivered_lately() const;

    float first_rate_, max_rate_;
    float rate_ = kMinRate;
    Time started_;  // packets sent earlier are ignored; they may have taken another path
    Budget budget_{started_};

    RoundTrips round_trips_{started_};
    UsualLoss loss_{started_};
    Round round_{.began = started_};
    std::array<float, 8> delivered_{};  // delivered rates of the last rounds, newest first; 0: none
    float most_sent_ = 0;               // the highest rate_ of the last rounds; decays by 10 % a round
    float full_path_rate_ = 0;          // smoothed delivered rate of rounds with a queue
    float growth_steps_ = 0;            // steps of growth so far; a drain resets or halves them
    float best_of_start_ = 0;           // the highest delivered rate of a round since the start began
    float rate_before_trial_ = 0;
    float proven_rate_ = 0;             // Drain::full when a drain last proved that we cause the queue
    std::uint8_t standing_rounds_ = 0;  // consecutive rounds with a standing queue
    std::uint8_t disbelieved_ = 0;      // drains in a row whose effect on the delay was taken for chance
    std::uint8_t rounds_without_growth_ = 0;
    bool is_starting_ = true;
    bool was_used_ = false;  // the previous round used up its budget, or sent over 80 % of the rate
    bool was_high_ = false;  // round_trips_.is_high() at the end of the previous round
    Drain drain_;
    Time last_verdict_{0};
    Time wait_until_{0};      // no drain begins before this time
    Duration drain_wait_{0};  // last pause after two drains that did not shorten the queue; doubles
    Time last_look_ = started_;
    Time careful_until_{0};

    Time last_news_ = started_;     // latest time when an ack came or nothing was in flight
    Duration usual_silence_{0};     // smoothed time between acks while packets are in flight; 0: unknown
    std::uint32_t unanswered_ = 0;  // packets sent since the latest ack
    Duration probe_interval_{0};
    bool is_broken_ = false;
    bool has_news_ = false;                      // an ack came since the last update()
    RateLimit denied_ = RateLimit::application;  // argument of the last on_denied() since update()
};

}  // namespace shoal::net::impl
