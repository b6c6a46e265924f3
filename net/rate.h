#pragma once
// How fast one connection may send: a byte budget that follows the path. What the path can carry is read
// from the delay of its queue first, from loss only where loss proves to depend on the rate.
// Sources: Jacobson, "Congestion Avoidance and Control", 1988 (slow start, additive increase); Brakmo and
// Peterson, "TCP Vegas", 1995, and RFC 6817, LEDBAT (queueing delay over the smallest one seen); Arun and
// Balakrishnan, "Copa", 2018 (the standing queue: the smallest delay of a round); Cardwell et al., "BBR",
// 2016 (delivered rate; slow start ends when it stops growing); RFC 6928 (ten packets at first); RFC 8085
// (the circuit breaker).

#include <cstddef>
#include <cstdint>

#include "endpoint.h"

namespace shoal::net {

/// One direction of one connection. Bytes are whole datagrams. The budget may be overdrawn by one packet,
/// which is paid back before the next; what is not used is saved up, at most for 50 ms or two packets.
/// Reads rtt, latest_rtt and bytes_in_flight of the stats; writes rate, queue_delay and rate_limit.
class RateController {
public:
    static constexpr double kMinRate = 4'000;  // bytes per second

    /// Bytes per second: `first_rate` after the first ten packets, never more than `max_rate`, which is at
    /// least kMinRate.
    RateController(std::uint64_t first_rate, std::uint64_t max_rate, Time now, ConnectionStats& stats);

    /// Once per tick, after fates are reported: saves up budget, decides, watches the breaker.
    /// `timeout`: after which an answer is overdue.
    void update(Time now, Duration timeout, ConnectionStats& stats);

    /// A packet whose fate will be known, after SentPackets took it.
    void on_sent(std::size_t bytes, Time now, const ConnectionStats& stats);
    /// One without fate, such as an ack: uses up budget, but never overdraws it.
    void on_sent_untracked(std::size_t bytes);
    void on_delivered(std::size_t bytes, Time now, const ConnectionStats& stats);
    /// The path is another one: what was learned of the former is forgotten.
    void restart(Time now);
    void on_lost(std::size_t bytes) { epoch_.lost += static_cast<double>(bytes), epoch_.fates += 1; }

    /// Whether a packet of any size may go now.
    bool may_send() const { return !is_broken_ && budget_ > 0; }
    /// The same for a few small messages: a tenth of the rate is reserved for them.
    bool may_send_urgent() const { return may_send() || (!is_broken_ && reserve_ > 0); }
    /// No ack for three timeouts while packets were open: only probes until one comes. Not payloads or
    /// messages: the other side may refuse to acknowledge those.
    bool is_broken() const { return is_broken_; }
    /// While broken, since the packet before: at first one timeout, each time twice as long, up to a second.
    Duration probe_interval() const { return probe_interval_; }

private:
    struct Round {  // at least one round-trip time
        Time began{0};
        double delivered = 0;
        int acks = 0;
        Duration min_rtt = Duration::max();
        bool used_up = false;  // the budget was
    };
    struct Epoch {  // of loss: about a second
        Time began{0};
        double delivered = 0, lost = 0;
        int fates = 0;
    };
    void accrue(Time now);
    void end_round(Time now, const ConnectionStats& stats);
    void watch_standing_queue(Time now, double delivered_rate, Duration rtt);
    void end_epoch(Time now);
    void start_slowly(double rate, Time now);
    void set_rate(double rate);
    Duration base_rtt() const;

    double first_rate_, max_rate_;
    double rate_ = kMinRate;
    double budget_;   // below 0: overdrawn
    double reserve_;  // the same, of small messages
    Time accrued_;

    Round round_;
    bool was_used_up_ = false;  // in the round before
    double bandwidth_ = 0;      // delivered per second, mean of some rounds that used up the budget
    bool is_slow_start_ = true;
    double best_bandwidth_ = 0;      // of slow start; the next best is a quarter more
    int rounds_without_growth_ = 0;  // of that
    Duration queue_{0};
    Duration standing_queue_{0};  // over kQueueHigh, and has not fallen much since; 0: there is none
    double standing_best_ = 0;    // delivered per second meanwhile, the most of a round
    Time low_since_{0};           // rate_ is at most half of that
    Duration min_rtt_ = Duration::max(),
             min_rtt_before_ = Duration::max();  // of this and the last five seconds
    Time min_rtt_began_;

    Epoch epoch_;
    double usual_loss_ = 0;   // 0..1, does not depend on our rate
    double rate_before_ = 0;  // a trial: the rate was cut, does the loss fall? 0: no trial
    double loss_before_ = 0;

    Time last_news_;  // an ack, or nothing was open
    Duration probe_interval_{0};
    bool is_broken_ = false;
};

}  // namespace shoal::net
