#include "rate_controller.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace shoal::net {
namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

// Rounds end by the clock, so that all connections of a host act together. 100 ms are several ticks of both
// ends; four acks are the fewest that say something.
constexpr Duration kRound = 100ms;
constexpr int kRoundAcks = 4;
constexpr double kUsed = 0.8;  // of the rate was sent: what limits is the rate, not the game

// The start: 1.75 per round trip doubles the rate, because acks come a round trip after the rate they raise.
constexpr double kStartGain = 1.75;
constexpr float kStartLead = 5;  // over what was delivered, which is known a round trip and a round late
constexpr float kStillGrows = 1.1F;
constexpr int kRoundsWithoutGrowth = 4;

// Growth. Equal steps make fast flows equal; after ten of them speed counts more.
constexpr double kStep = 250;  // bytes per second, or:
constexpr double kStepShare = 0.01;
constexpr float kEvenSteps = 10;
constexpr float kStepGrowth = 1.25F;
constexpr float kMaxLead = 1.15F;          // over what was delivered
constexpr float kPeakFades = 0.9F;         // per round
constexpr Duration kCareful = 8s;          // after loss that was ours: no delay warns of more
constexpr Duration kStandingQueue = 20ms;  // allowed: it keeps the path busy
constexpr Duration kSomeQueue = 10ms;      // the path is full
constexpr double kFullMemory_s = 0.5;

// Drains. The figures were tuned on build/bench/paths, as were those of start and growth.
constexpr float kKept = 0.92F;  // of the delivered rate, after a drain: the rest of the queue leaves, too
constexpr float kKeptInJitter = 0.98F;  // where a verdict may be chance, cuts must not add up
constexpr double kStrongest = 0.1, kStrongTest = 0.3, kGentlest = 0.5;  // parts of the full rate
constexpr float kWeakest = 0.9F;
constexpr double kEasilyDrained_s = 0.2;
constexpr Duration kShortestDrain = 100ms, kLongestTest = 500ms, kLongestDrain = 4s;
constexpr Duration kSeenAfter = 300ms;   // of a long drain
constexpr Duration kShortQueue = 150ms;  // delivered rates from before are still true
constexpr double kMuchLonger = 1.5;
constexpr double kAnswer = 0.3;  // of what a drain must take from a queue of ours
constexpr int kVerdictAcks = 2;
constexpr Duration kLongestVerdict = 8s;
constexpr int kStandsLong = 16;  // rounds: also a game that uses less finds out whose queue it is
constexpr Duration kWideSpread = 45ms;
constexpr int kProofRounds = 30;
constexpr float kLessThanProven = 0.98F, kProofFades = 0.97F;
constexpr int kMostDisbelieved = 2;  // in a row
constexpr Duration kFirstWait = 1s, kLongestWait = 8s;
constexpr Duration kLookEvery = 10s, kLook = 200ms;
constexpr Duration kLongSilence = 200ms;

constexpr float kTrialCut = 0.85F;  // of what is delivered, to see whether loss falls

constexpr int kBreakerTimeouts = 3;
constexpr Duration kMaxProbeInterval = 1s;

Duration round_length(Duration rtt) {
    return kRound * std::max<Duration::rep>(1, (rtt + kRound - Duration(1)) / kRound);
}

Duration to_duration(Seconds seconds) {
    return std::chrono::duration_cast<Duration>(seconds);
}

}  // namespace

RateController::RateController(std::uint64_t first_rate, std::uint64_t max_rate, Time now,
                               ConnectionStats& stats)
    : first_rate_(static_cast<float>(first_rate)),
      max_rate_(static_cast<float>(max_rate)),
      budget_(now),
      last_news_(now) {
    assert(max_rate_ >= kMinRate);
    set_rate(first_rate_);
    round_.began = last_look_ = now;
    round_trips_.restart(now);
    loss_.restart(now);
    stats.rate = rate_;
}

void RateController::update(Time now, Duration timeout, ConnectionStats& stats) {
    budget_.accrue(rate_, now);
    if (!is_broken_ && stats.bytes_in_flight > 0 && now - last_news_ >= kBreakerTimeouts * timeout) {
        is_broken_ = true;
        probe_interval_ = timeout;
    }
    if (now >= drain_.ends) end_drain();
    judge_drain(now, stats);
    // While nothing is heard, all is lost, and that says nothing about the rate.
    if (!is_broken_ && now - last_news_ < timeout) watch_loss(now, stats);
    const Duration floor = round_trips_.floor();
    const Duration length = round_length(floor > Duration(0) ? floor : stats.rtt);
    if (now / length != round_.began / length && now - round_.began >= length / 2) {
        if (round_.acks >= kRoundAcks) {
            end_round(now, stats);
        } else if (round_.acks == 0) {
            round_ = {.began = now};
        }
    }
    stats.rate = rate_;
    stats.queue_delay = round_trips_.queue();
    stats.rate_limit = is_broken_                    ? RateLimit::breaker
                       : round_.ran_out || was_used_ ? RateLimit::network
                                                     : RateLimit::application;
}

void RateController::on_sent(std::size_t bytes, Time now, const ConnectionStats& stats) {
    if (is_broken_) probe_interval_ = std::min(2 * probe_interval_, kMaxProbeInterval);
    if (stats.bytes_in_flight == bytes) last_news_ = now;
    budget_.spend(bytes);
    round_.sent += static_cast<float>(bytes);
    if (!budget_.is_left()) round_.ran_out = true;
}

void RateController::on_news(const SentPackets::News& packet, Time now, const ConnectionStats& stats) {
    if (!packet.fate.delivered) {
        loss_.on_lost(packet.sent, packet.bytes);
        return;
    }
    note_silence(now, stats);
    if (is_broken_) {
        // What was lost says nothing about the rate: find it anew from half of it. Nor is the round trip what
        // it was: what queued has drained meanwhile, or the route is another one.
        is_broken_ = false;
        start_slowly(undrained_rate() / 2, now);
        round_trips_.restart(now);
    }
    if (packet.sent < measured_from_) return;
    loss_.on_delivered(packet.sent, packet.bytes, packet.is_late);
    round_.delivered += static_cast<float>(packet.bytes);
    round_.acks += 1;
    round_trips_.sample(packet.fate.rtt, packet.measures);
    if (drain_.state != Drain::State::none) {
        if (packet.sent < std::min(drain_.ends, drain_.began + kSeenAfter)) return;
        drain_.rtt_after = std::min(drain_.rtt_after, packet.fate.rtt);
        if (packet.sent >= drain_.ends && drain_.acks < kVerdictAcks) drain_.acks += 1;
    } else if (is_starting_ && !loss_.is_trial() && (round_.ran_out || was_used_)) {
        const double grown =
            rate_ + kStartGain * packet.bytes / Seconds(std::max<Duration>(stats.rtt, kRound)).count();
        const float delivered = *std::max_element(delivered_.begin(), delivered_.end());
        const double most = delivered > 0 ? std::max(rate_, kStartLead * delivered) : max_rate_;
        set_rate(std::min(grown, most));
    }
}

/// After a silence, the acks of all packets sent during it arrive late and together. The cause is a stall of
/// the path or a step of its round trip. That is no queue of ours. A round trip later there is something to
/// see again.
void RateController::note_silence(Time now, const ConnectionStats& stats) {
    if (now == last_news_) return;
    const Duration silence = now - last_news_;
    if (silence >= std::max<Duration>(kLongSilence, 4 * usual_silence_)) {
        wait_until_ = std::max(wait_until_, now + stats.rtt + 2 * round_length(stats.rtt));
        was_high_ = false;
    }
    usual_silence_ += (silence - usual_silence_) / 8;
    last_news_ = now;
}

void RateController::set_max_rate(std::uint64_t max_rate) {
    max_rate_ = static_cast<float>(max_rate);
    assert(max_rate_ >= kMinRate);
    set_rate(rate_);
}

void RateController::restart(Time now) {
    start_slowly(std::min(undrained_rate() / 2, first_rate_), now);
    round_trips_.restart(now);
    loss_.restart(now);
    last_look_ = last_news_ = now;
    is_broken_ = false;
}

void RateController::start_slowly(float rate, Time now) {
    set_rate(rate);
    is_starting_ = true;
    rounds_without_growth_ = 0;
    best_of_start_ = 0;
    delivered_.fill(0);
    was_used_ = was_high_ = false;
    growth_steps_ = full_path_rate_ = proven_rate_ = most_sent_ = 0;
    disbelieved_ = 0;
    standing_rounds_ = 0;
    drain_ = {};
    last_verdict_ = careful_until_ = Time(0);
    drain_wait_ = usual_silence_ = Duration(0);
    wait_until_ = measured_from_ = now;
    round_ = {.began = now};
    loss_.abandon(now);
}

/// A drain or a trial lowers the rate for a moment only.
float RateController::undrained_rate() const {
    if (drain_.state == Drain::State::looking || drain_.state == Drain::State::draining)
        return drain_.rate_before;
    return loss_.is_trial() ? std::max(rate_, rate_before_trial_) : rate_;
}

void RateController::set_rate(double rate) {
    const float before = rate_;
    rate_ = std::clamp(static_cast<float>(rate), kMinRate, max_rate_);
    if (rate_ < before) budget_.limit(rate_);
}

/// Even the smallest delay of eight rounds is too much.
bool RateController::is_standing(double factor) const {
    const Seconds allowed = kStandingQueue + round_trips_.tolerated();
    return Seconds(round_trips_.standing()) > factor * (allowed + Seconds(round_trips_.band()) / 4);
}

/// The delay is more than the path is known to scatter by.
bool RateController::is_high(double factor) const {
    const Seconds allowed = kStandingQueue + round_trips_.tolerated();
    return Seconds(round_trips_.queue()) > factor * (allowed + round_trips_.band()) || is_standing(factor);
}

/// Delay was suspected in vain, or scatters so much that a verdict may be chance.
bool RateController::is_jittery() const {
    return round_trips_.spread() > kWideSpread || round_trips_.tolerated() > Duration(0);
}

/// An ack shows the queue of one round trip ago. While the queue grows, the bytes in flight show more of it.
bool RateController::is_queue_growing(Time now, const ConnectionStats& stats) const {
    // Just after a drain the delivered rate is still the drain's, while the sender is back at full rate:
    // the quotient below would show a queue that is not there.
    if (now < last_verdict_ + stats.rtt + 2 * kRound) return false;
    const Seconds in_flight(static_cast<double>(stats.bytes_in_flight) /
                            std::max(delivered_lately(), kMinRate));
    return in_flight > kMuchLonger * Seconds(std::max(stats.latest_rtt, stats.rtt)) + Seconds(kRound);
}

/// Highest delivered rate: the best average of two consecutive rounds among the last eight, at most the
/// highest rate sent (after a stall many acks come together and look too fast), plus the usual loss.
float RateController::best() const {
    float most = 0;
    for (std::size_t i = 0; i + 1 < delivered_.size() && delivered_[i + 1] > 0; ++i)
        most = std::max(most, (delivered_[i] + delivered_[i + 1]) / 2);
    if (most == 0) most = delivered_[0];
    return std::min(most, most_sent_) / (1 - loss_.usual());
}

float RateController::delivered_lately() const {
    return std::min(delivered_[1] > 0 ? (delivered_[0] + delivered_[1]) / 2 : delivered_[0], most_sent_);
}

void RateController::end_round(Time now, const ConnectionStats& stats) {
    const double length_s = Seconds(now - round_.began).count();
    const float delivered_rate = round_.delivered / static_cast<float>(length_s);
    std::copy_backward(delivered_.begin(), delivered_.end() - 1, delivered_.end());
    delivered_[0] = delivered_rate;
    most_sent_ = std::max(rate_, kPeakFades * most_sent_);
    const bool is_used = round_.ran_out || round_.sent > kUsed * rate_ * length_s;
    const bool was_used = is_used || was_used_;
    was_used_ = is_used;
    round_ = {.began = now};

    const Duration queue_before = round_trips_.queue();
    // A drain spreads the round trips itself.
    round_trips_.end_round(now, drain_.state == Drain::State::none && now >= last_verdict_ + 2 * kRound);
    const Duration queue = round_trips_.queue();
    if (queue > kSomeQueue && (drain_.state == Drain::State::none || queue < queue_before)) {
        const double gain = full_path_rate_ == 0 ? 1 : std::min(1.0, length_s / kFullMemory_s);
        full_path_rate_ += static_cast<float>((delivered_rate - full_path_rate_) * gain);
    }
    rounds_since_proof_ = std::min<std::uint8_t>(rounds_since_proof_ + 1, kProofRounds + 1);
    standing_rounds_ = is_standing(1) ? std::min<std::uint8_t>(standing_rounds_ + 1, kStandsLong) : 0;
    if (drain_.state != Drain::State::none) {
        continue_drain();
    } else if (!loss_.is_trial() && now / kLookEvery != last_look_ / kLookEvery) {
        last_look_ = now;
        round_trips_.renew();
        if (was_used) look_for_floor(now);
    } else if (must_drain(now, was_used, stats)) {
        begin_drain(now, stats);
    } else if (is_starting_) {
        if (was_used) watch_start(delivered_rate);
    } else if (was_used && !loss_.is_trial() &&
               Seconds(queue) < kStandingQueue + Seconds(round_trips_.band()) / 2) {
        grow(now, length_s);
    }
    was_high_ = is_high(1);
}

/// The start ends when the delivered rate stops growing although the game uses the rate.
void RateController::watch_start(float delivered_rate) {
    if (delivered_rate > kStillGrows * best_of_start_) {
        best_of_start_ = delivered_rate;
        rounds_without_growth_ = 0;
        return;
    }
    rounds_without_growth_ += 1;
    if (rounds_without_growth_ < kRoundsWithoutGrowth) return;
    is_starting_ = false;
    set_rate(std::min(rate_, kMaxLead * best()));
}

void RateController::grow(Time now, double length_s) {
    growth_steps_ = now < careful_until_         ? 1
                    : growth_steps_ < kEvenSteps ? growth_steps_ + 1
                                                 : growth_steps_ * kStepGrowth;
    const double step =
        growth_steps_ * std::min(kStep, kStepShare * rate_) * std::sqrt(length_s / Seconds(kRound).count());
    set_rate(std::max<double>(rate_, std::min<double>(rate_ + step, kMaxLead * best())));
}

/// A game that asks for less than its rate has no queue of its own, unless one grows or stands.
bool RateController::must_drain(Time now, bool was_used, const ConnectionStats& stats) const {
    if (!is_high(1) || now < wait_until_) return false;
    if (!was_high_ && !(is_starting_ && was_used && is_high(2))) return false;
    return was_used || standing_rounds_ >= kStandsLong || is_queue_growing(now, stats);
}

void RateController::begin_drain(Time now, const ConnectionStats& stats) {
    const bool is_second = drain_.state == Drain::State::judging;
    // If delivery keeps up with sending, the queue is not growing and a short drain is enough. If it does
    // not, the drain is sized by the bytes in flight.
    const bool is_growing = is_second ? drain_.is_growing : is_queue_growing(now, stats);
    const Duration queue = round_trips_.queue();
    const bool is_gentle = is_second ? drain_.is_gentle : !was_used_ && !is_growing;
    if (!is_second) {
        const float rate_before = undrained_rate();
        drain_ = {};
        drain_.rate_before = rate_before;
        drain_.full = is_starting_ ? best()
                      : is_growing ? std::max(delivered_[0], delivered_[1])
                                   : delivered_lately();
        drain_.full = std::max(drain_.full, kMinRate);
        if (!is_growing && queue < kShortQueue)
            drain_.full = std::max(drain_.full, std::min(full_path_rate_, most_sent_));
    }
    const Seconds in_flight(static_cast<double>(stats.bytes_in_flight) / drain_.full);
    const Seconds most = is_growing ? Seconds(kLongestDrain) : Seconds(3 * queue + kShortestDrain);
    const Seconds backlog =
        std::clamp(in_flight - Seconds(round_trips_.floor()) - Seconds(round_trips_.spread()) / 2,
                   Seconds(queue), std::max(most, Seconds(queue)));
    const double gentle =
        std::clamp(1 - backlog.count() / kEasilyDrained_s, is_growing ? kStrongest : kStrongTest, kGentlest);
    drain_.state = Drain::State::draining;
    drain_.is_second = is_second;
    drain_.is_growing = is_growing;
    drain_.is_gentle = is_gentle;
    // The drain's rate is at least kMinRate, and at most kWeakest of `full`.
    const double part = is_gentle ? kGentlest : is_second ? kStrongest : gentle;
    drain_.part = std::clamp(static_cast<float>(part), std::min(kMinRate / drain_.full, kWeakest), kWeakest);
    drain_.began = now;
    drain_.ends = now + std::clamp<Duration>(to_duration(backlog / (1 - drain_.part)), kShortestDrain,
                                             is_growing ? kLongestDrain : kLongestTest);
    drain_.rtt_before = round_trips_.recent();
    if (is_growing) drain_.rtt_before = std::max(drain_.rtt_before, to_duration(in_flight));
    drain_.rtt_after = Duration::max();
    drain_.acks = 0;
    growth_steps_ = is_jittery() ? growth_steps_ / 2 : 0;
    loss_.abandon(now);
    set_rate(drain_.part * drain_.full);
}

/// All connections of a host do so at once: together they empty the queue that hides its floor.
void RateController::look_for_floor(Time now) {
    drain_ = {.state = Drain::State::looking, .rate_before = rate_, .began = now, .ends = now + kLook};
    set_rate(rate_ / 2);
}

/// If the queue stays during the drain, the path is full, and the delivered rate is its capacity: the path
/// became slower. If only what the drain itself sent comes out, the path became longer instead, and nothing
/// is known of its capacity.
void RateController::continue_drain() {
    const float out = std::max(delivered_[0], delivered_[1]), put_in = drain_.part * drain_.full;
    if (!was_used_ || !is_high(1) || !was_high_ || out >= 0.5F * drain_.full) return;
    if (out >= 0.5F * put_in && !(drain_.is_growing && out > 1.3F * put_in)) return;
    drain_.full = std::max(out, kMinRate);
    set_rate(std::min(rate_, kKept * drain_.full));
}

void RateController::end_drain() {
    if (drain_.state == Drain::State::looking) {
        set_rate(drain_.rate_before);
        drain_ = {};
    } else if (drain_.state == Drain::State::draining) {
        drain_.state = Drain::State::judging;
        set_rate(drain_.is_gentle ? drain_.rate_before : kKept * drain_.full);
    }
}

void RateController::judge_drain(Time now, const ConnectionStats& stats) {
    const bool is_test = drain_.state == Drain::State::draining || drain_.state == Drain::State::judging;
    if (!is_test) return;
    const bool is_over = drain_.acks >= kVerdictAcks;
    const bool is_given_up = !is_over && now >= drain_.ends + kLongestVerdict;  // nothing was sent that tells
    if (drain_.rtt_after == Duration::max() && !is_given_up) return;
    const Seconds left = drain_.rtt_after - round_trips_.floor();
    const Seconds fall = drain_.rtt_before - drain_.rtt_after;
    const bool is_empty = left <= kStandingQueue + Seconds(round_trips_.band()) / 4;
    const bool has_answered =
        is_over && fall >= kAnswer * (1 - drain_.part) * Seconds(drain_.ends - drain_.began);
    if (is_given_up) {
        set_rate(drain_.rate_before);
    } else if (is_empty || has_answered) {
        believe_drain();
    } else if (!is_over) {
        return;
    } else if (!drain_.is_second) {
        begin_drain(now, stats);
        return;
    } else {
        disbelieved_ = 0;
        round_trips_.accept(drain_.rtt_after);
        set_rate(drain_.rate_before);
        drain_wait_ = std::clamp<Duration>(2 * drain_wait_, kFirstWait, kLongestWait);
        wait_until_ = now + drain_wait_;
    }
    drain_ = {};
    last_verdict_ = now;
    was_high_ = false;
}

/// The queue was ours, so the rate is cut. With wide jitter many verdicts are chance. If the path carried
/// more a moment ago, the rate is restored instead, at most kMostDisbelieved times in a row.
void RateController::believe_drain() {
    if (drain_.is_gentle && disbelieved_ == 0) {
        // A game that uses less is not cut for one verdict. A queue of its own comes back.
        disbelieved_ = 1;
        set_rate(drain_.rate_before);
        return;
    }
    if (is_jittery() && !drain_.is_growing && rounds_since_proof_ <= kProofRounds &&
        drain_.full <= kLessThanProven * proven_rate_ && disbelieved_ < kMostDisbelieved) {
        disbelieved_ += 1;
        proven_rate_ *= kProofFades;
        round_trips_.tolerate();
        set_rate(drain_.rate_before);
    } else {
        disbelieved_ = 0;
        proven_rate_ = drain_.full;
        set_rate((is_jittery() ? kKeptInJitter : kKept) * drain_.full);
    }
    rounds_since_proof_ = 0;
    drain_wait_ = Duration(0);
    is_starting_ = false;
}

void RateController::watch_loss(Time now, const ConnectionStats& stats) {
    // After a drain of ours the fates say little about a full path.
    const bool can_try = drain_.state == Drain::State::none && now >= last_verdict_ + stats.rtt + 2 * kRound;
    switch (loss_.update(now, stats.rtt, can_try)) {
        case UsualLoss::Verdict::none:
            return;
        case UsualLoss::Verdict::suspicion: {
            rate_before_trial_ = rate_;
            if (best() == 0) {
                loss_.abandon(now);
                return;
            }
            const float delivered = best() * (1 - loss_.usual());
            set_rate(kTrialCut * std::min({rate_, delivered, loss_.delivered_rate()}));
            return;
        }
        case UsualLoss::Verdict::harmless:
            set_rate(std::max(rate_, rate_before_trial_));
            return;
        case UsualLoss::Verdict::congestion:
            is_starting_ = false;
            careful_until_ = now + kCareful;
            set_rate(std::min(rate_before_trial_, kKept / kTrialCut * loss_.delivered_rate()));
            return;
    }
}

}  // namespace shoal::net
