#pragma once
// How fast one connection may send: a rate that follows the queue of the path. net/RATE.md has the rules in a
// table, the reason for each, and the sources.

#include <array>
#include <cstddef>
#include <cstdint>

#include "../endpoint.h"
#include "../sent_packets.h"
#include "budget.h"
#include "round_trips.h"
#include "usual_loss.h"

namespace shoal::net {

/// One direction of one connection. Bytes are whole datagrams, rates are bytes per second.
/// Reads rtt, latest_rtt and bytes_in_flight of the stats; writes rate, queue_delay and rate_limit.
class RateController {
public:
    static constexpr float kMinRate = 4'000;

    /// `first_rate` holds after the first ten packets, until acks come. `max_rate` is at least kMinRate.
    RateController(std::uint64_t first_rate, std::uint64_t max_rate, Time now, ConnectionStats& stats)
        : RateController(static_cast<float>(first_rate), std::max(kMinRate, static_cast<float>(max_rate)),
                         now) {
        stats.rate = rate_;
    }

    /// Once per tick, after the news was reported: adds to the budget, decides, watches the breaker.
    /// `timeout`: after which an answer is overdue.
    void update(Time now, Duration timeout, ConnectionStats& stats);

    /// A packet whose fate will be known, after SentPackets took it.
    void on_sent(std::size_t bytes, Time now, const ConnectionStats& stats);
    /// A packet without fate, such as an ack.
    void on_sent_untracked(std::size_t bytes) { budget_.spend_spare(bytes); }
    /// Something else than the rate keeps messages and payloads from being sent in this tick.
    void on_denied(RateLimit why) { denied_ = why; }
    /// The fate of a packet, or a late ack.
    void on_news(const SentPackets::News& packet, Time now, const ConnectionStats& stats);
    /// At least kMinRate.
    void set_max_rate(std::uint64_t max_rate);
    /// The path is another one: what was learned of the former is forgotten.
    void restart(Time now);

    /// Whether a packet of any size may go now.
    bool may_send() const { return !is_broken_ && budget_.is_left(); }
    /// The same for a few small messages.
    bool may_send_urgent() const { return !is_broken_ && budget_.is_left_for_urgent(); }
    /// No ack for three timeouts while packets were open: only probes until one comes. Not payloads or
    /// messages: the other side may refuse to acknowledge those.
    bool is_broken() const { return is_broken_; }
    /// How long no ack came, while packets were open; 0 if none are.
    Duration silence(Time now, const ConnectionStats& stats) const {
        return stats.bytes_in_flight > 0 ? now - last_news_ : Duration(0);
    }
    /// While broken, since the packet before: at first one timeout, each time twice as long, up to a second.
    Duration probe_interval() const { return probe_interval_; }

private:
    struct Round {  // one measuring interval
        Time began;
        float delivered = 0, sent = 0;  // bytes
        std::uint16_t acks = 0;
        bool ran_out = false;  // of budget
    };
    /// For a moment less is sent, to see whether the queue answers.
    struct Drain {
        enum class State : std::uint8_t {
            none,
            looking,   // for the smallest round trip, without suspicion
            draining,  // the rate is `part` of `full`
            judging    // until packets sent after it were acknowledged
        };
        State state = State::none;
        bool is_second = false;   // the first one changed nothing
        bool is_growing = false;  // the queue was growing fast when the drain began
        bool is_gentle = false;   // the game used less than the rate when the drain began
        std::uint8_t acks = 0;    // of packets sent after it
        float part = 0;           // of `full` that is sent meanwhile
        float full = 0;           // what the path seems to carry
        float rate_before = 0;
        Time began{0}, ends{0};
        Duration rtt_before{0};
        Duration rtt_after = Duration::max();
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
    Time started_;  // packets sent earlier took, at least in part, another path
    Budget budget_{started_};

    RoundTrips round_trips_{started_};
    UsualLoss loss_{started_};
    Round round_{.began = started_};
    std::array<float, 8> delivered_{};  // rates of the last rounds, newest first; 0: none yet
    float most_sent_ = 0;               // the highest rate_ of the last rounds; fades
    float full_path_rate_ = 0;          // delivered while there was a queue, smoothed
    float growth_steps_ = 0;            // since the last queue
    float best_of_start_ = 0;           // the most that a round of the start delivered
    float rate_before_trial_ = 0;
    float proven_rate_ = 0;             // Drain::full of the last queue that proved to be ours
    std::uint8_t standing_rounds_ = 0;  // rounds in a row that ended with a standing queue
    std::uint8_t disbelieved_ = 0;      // verdicts in a row that were taken for chance
    std::uint8_t rounds_without_growth_ = 0;
    bool is_starting_ = true;
    bool was_used_ = false;  // the previous round used the rate
    bool was_high_ = false;  // the previous round ended with high delay

    Drain drain_;
    Time last_verdict_{0};
    Time wait_until_{0};      // no drain begins before this time
    Duration drain_wait_{0};  // the last wait after a drain that changed nothing; doubles
    Time last_look_ = started_;
    Time careful_until_{0};

    Time last_news_ = started_;  // when the last ack came, or nothing was in flight
    Duration usual_silence_{0};
    Duration probe_interval_{0};
    bool is_broken_ = false;
    RateLimit denied_ = RateLimit::application;  // since the last update
};

}  // namespace shoal::net
