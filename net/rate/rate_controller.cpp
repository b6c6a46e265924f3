#include "rate_controller.h"

#include <cmath>

namespace shoal::net::impl {
namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

// The constants were tuned with build/bench/paths. RATE.md has the rule that uses each.
constexpr Duration kRound = 100ms;
constexpr int kRoundAcks = 4;
// A round that sends more than this part of what the rate allows is limited by the rate, not by the game.
constexpr double kUsed = 0.8;
constexpr Duration kLongSilence = 200ms;

constexpr double kStartGain = 1.75;
constexpr float kStartLead = 5, kStillGrows = 1.1F;
constexpr int kRoundsWithoutGrowth = 4;

constexpr double kStep = 250, kStepShare = 0.01;
constexpr float kEvenSteps = 10, kStepGrowth = 1.25F;
constexpr float kMaxLead = 1.15F, kPeakFades = 0.9F;
constexpr Duration kCareful = 8s;

// Limits of Drain::part; a lower part is a stronger drain. Lower limit: kStrongest if the queue grows fast or
// in a second drain, else kStrongTest. Upper limit: kGentlest, or kWeakest near the lowest rate.
constexpr double kStrongest = 0.1, kStrongTest = 0.3, kGentlest = 0.5;
constexpr float kWeakest = 0.9F;
constexpr double kEasilyDrained_s = 0.2;
constexpr Duration kShortestDrain = 100ms, kLongestTest = 500ms, kLongestDrain = 4s, kSeenAfter = 300ms;
constexpr Duration kSomeQueue = 10ms, kShortQueue = 150ms;
constexpr double kFullMemory_s = 0.5;
constexpr double kMuchLonger = 1.5;
// A queue that stands for this many rounds is drained even if the game sends less than the rate.
constexpr int kStandsLong = 16;
constexpr Duration kLookEvery = 10s, kLook = 200ms;

// If a drain shortens the queue by at least this part of the expected decrease, our packets made the queue.
constexpr double kAnswer = 0.3;
constexpr int kVerdictAcks = 2;
constexpr float kKept = 0.92F, kKeptInJitter = 0.98F;
constexpr float kLessThanProven = 0.98F;
constexpr int kMaxDisbelieved = 2;
constexpr Duration kFirstWait = 1s, kLongestWait = 8s;

constexpr float kTrialCut = 0.85F;
constexpr int kBreakerTimeouts = 3;
constexpr std::uint32_t kBreakerPackets = 12;  // fewer without an ack may all be lost on a path that works
constexpr Duration kMaxProbeInterval = 1s;

Duration round_length(Duration rtt) {
    return kRound * std::max<Duration::rep>(1, (rtt + kRound - Duration(1)) / kRound);
}

Duration to_duration(Seconds seconds) {
    return std::chrono::duration_cast<Duration>(seconds);
}

}  // namespace

RateController::RateController(float first_rate, float max_rate, Time now)
    : first_rate_(first_rate), max_rate_(max_rate), started_(now) {
    assert(max_rate_ >= kMinRate);
    set_rate(first_rate_);
}

void RateController::update(Time now, Duration timeout, ConnectionStats& stats) {
    budget_.accrue(rate_, now);
    if (!is_broken_ && unanswered_ >= kBreakerPackets &&
        silence(now, stats) >= kBreakerTimeouts * std::max(timeout, usual_silence_)) {
        is_broken_ = true;
        probe_interval_ = timeout;
    }
    judge_drain(now, stats);
    // Without acks all packets seem lost, which says nothing about the rate.
    if (!is_broken_ && now - last_news_ < timeout) watch_loss(now, stats);
    const Duration floor = round_trips_.floor();
    const Duration length = round_length(floor > Duration(0) ? floor : stats.rtt);
    const bool is_round_over = now / length != round_.began / length && now - round_.began >= length / 2;
    // If acks are rare, a round lasts from one ack to another: in this time the acked bytes were delivered.
    // Before the first ack of packets sent in this round, the length of the round means nothing.
    const bool is_first_ack_due = stats.rtt == Duration(0) || last_news_ > round_.began;
    const bool waits_for_ack = stats.bytes_in_flight > 0 && usual_silence_ > kRound;
    const bool has_news = std::exchange(has_news_, false);
    if (is_round_over && round_.acks >= kRoundAcks && (has_news || !waits_for_ack)) end_round(now, stats);
    if (is_round_over && round_.acks == 0 && (is_first_ack_due || !waits_for_ack)) round_ = {.began = now};
    stats.rate = rate_;
    stats.queue_delay = round_trips_.queue();
    const RateLimit denied = std::exchange(denied_, RateLimit::application);
    stats.rate_limit = is_broken_                         ? RateLimit::breaker
                       : denied != RateLimit::application ? denied
                       : round_.ran_out || was_used_      ? RateLimit::network
                                                          : RateLimit::application;
}

void RateController::on_sent(std::size_t bytes, Time now, const ConnectionStats& stats) {
    if (is_broken_) probe_interval_ = std::min(2 * probe_interval_, kMaxProbeInterval);
    if (stats.bytes_in_flight == bytes) last_news_ = now;
    unanswered_ += 1;
    budget_.spend(bytes);
    round_.sent += static_cast<float>(bytes);
    if (!budget_.is_left()) round_.ran_out = true;
}

void RateController::on_news(const SentPackets::News& packet, Time now, const ConnectionStats& stats) {
    if (!packet.fate.delivered) return loss_.on_lost(packet.sent, packet.bytes);
    unanswered_ = 0;
    const Duration silence = now - last_news_;
    if (silence != Duration(0)) {
        const bool is_first = usual_silence_ == Duration(0);
        if (!is_first && silence >= std::max<Duration>(kLongSilence, 4 * usual_silence_)) {
            wait_until_ = std::max(wait_until_, now + stats.rtt + 2 * round_length(stats.rtt));
            was_high_ = false;
        }
        usual_silence_ = is_first || is_broken_ ? std::min(silence, kMaxProbeInterval)
                                                : usual_silence_ + (silence - usual_silence_) / 8;
        last_news_ = now;
    }
    if (is_broken_) start_anew(undrained_rate() / 2, now);
    if (packet.sent < started_) return;
    loss_.on_delivered(packet.sent, packet.bytes, packet.is_late);
    round_.delivered += static_cast<float>(packet.bytes);
    round_.acks += 1;
    has_news_ = true;
    round_trips_.sample(packet.fate.rtt, packet.measures);
    if (drain_.state != Drain::State::none) {
        if (packet.sent < std::min(drain_.ends, drain_.began + kSeenAfter)) return;
        drain_.rtt_after = std::min(drain_.rtt_after, packet.fate.rtt);
        if (packet.sent >= drain_.ends && drain_.acks < kVerdictAcks) drain_.acks += 1;
    } else if (is_starting_ && !loss_.is_trial() && (round_.ran_out || was_used_)) {
        const double grown =
            rate_ + kStartGain * packet.bytes /
                        Seconds(std::max<Duration>({stats.rtt, kRound, usual_silence_})).count();
        const float delivered = *std::max_element(delivered_.begin(), delivered_.end());
        const double most = delivered > 0 ? std::max(rate_, kStartLead * delivered) : max_rate_;
        set_rate(std::min(grown, most));
    }
}

void RateController::set_max_rate(std::uint64_t max_rate) {
    assert(max_rate >= static_cast<std::uint64_t>(kMinRate));
    max_rate_ = std::max(kMinRate, static_cast<float>(max_rate));
    set_rate(rate_);
}

void RateController::restart(Time now) {
    start_anew(std::min(undrained_rate() / 2, first_rate_), now);
    loss_ = UsualLoss(now);
    last_look_ = now;
}

void RateController::start_anew(float rate, Time now) {
    set_rate(rate);
    RateController fresh(first_rate_, max_rate_, now);
    fresh.rate_ = rate_;
    fresh.budget_ = budget_;
    fresh.loss_ = loss_;
    fresh.loss_.abandon(now);
    fresh.last_look_ = last_look_;
    fresh.usual_silence_ = usual_silence_;
    *this = fresh;
}

float RateController::undrained_rate() const {
    if (drain_.state == Drain::State::looking || drain_.state == Drain::State::draining)
        return drain_.rate_before;
    return loss_.is_trial() ? std::max(rate_, rate_before_trial_) : rate_;
}

void RateController::set_rate(double rate) {
    const float before = std::exchange(rate_, std::clamp(static_cast<float>(rate), kMinRate, max_rate_));
    if (rate_ < before) budget_.limit(rate_);
}

bool RateController::is_queue_growing(Time now, const ConnectionStats& stats) const {
    // Just after a drain the delivered rate is still low: in_flight would show a queue that does not exist.
    if (now < last_verdict_ + stats.rtt + 2 * kRound) return false;
    const Seconds in_flight(static_cast<double>(stats.bytes_in_flight) /
                            std::max(delivered_lately(), kMinRate));
    return in_flight > kMuchLonger * Seconds(std::max(stats.latest_rtt, stats.rtt)) + Seconds(kRound);
}

/// Estimates the rate at which the best two consecutive rounds among the last eight were sent: their average
/// delivered rate, at most most_sent_, divided by 1 - usual loss.
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
    // During and just after a drain the round trips differ because of the drain.
    round_trips_.end_round(now, drain_.state == Drain::State::none && now >= last_verdict_ + 2 * kRound);
    const Duration queue = round_trips_.queue();
    if (queue > kSomeQueue && (drain_.state == Drain::State::none || queue < queue_before)) {
        const double gain = full_path_rate_ == 0 ? 1 : std::min(1.0, length_s / kFullMemory_s);
        full_path_rate_ += static_cast<float>((delivered_rate - full_path_rate_) * gain);
    }
    standing_rounds_ =
        round_trips_.is_standing() ? std::min<std::uint8_t>(standing_rounds_ + 1, kStandsLong) : 0;
    if (drain_.state != Drain::State::none) {
        continue_drain();
    } else if (!loss_.is_trial() && now / kLookEvery != last_look_ / kLookEvery) {
        last_look_ = now;
        round_trips_.renew();
        if (was_used) {
            drain_ = {
                .state = Drain::State::looking, .rate_before = rate_, .began = now, .ends = now + kLook};
            set_rate(rate_ / 2);
        }
    } else if (must_drain(now, was_used, stats)) {
        begin_drain(false, now, stats);
    } else if (is_starting_) {
        if (was_used) watch_start(delivered_rate);
    } else if (was_used && !loss_.is_trial() && round_trips_.is_low()) {
        grow(now, length_s);
    }
    was_high_ = round_trips_.is_high();
}

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

bool RateController::must_drain(Time now, bool was_used, const ConnectionStats& stats) const {
    if (!round_trips_.is_high() || now < wait_until_) return false;
    if (!was_high_ && !(is_starting_ && was_used && round_trips_.is_high(2))) return false;
    if (was_used) return true;
    return delivered_lately() > kMinRate && (standing_rounds_ >= kStandsLong || is_queue_growing(now, stats));
}

void RateController::begin_drain(bool is_second, Time now, const ConnectionStats& stats) {
    const Duration queue = round_trips_.queue();
    if (!is_second) {
        drain_ = {.rate_before = undrained_rate()};
        drain_.is_growing = is_queue_growing(now, stats);
        drain_.is_gentle = !was_used_ && !drain_.is_growing;
        drain_.full = is_starting_        ? best()
                      : drain_.is_growing ? std::max(delivered_[0], delivered_[1])
                                          : delivered_lately();
        drain_.full = std::max(drain_.full, kMinRate);
        if (!drain_.is_growing && queue < kShortQueue)
            drain_.full = std::max(drain_.full, std::min(full_path_rate_, most_sent_));
    }
    const Seconds in_flight(static_cast<double>(stats.bytes_in_flight) / drain_.full);
    const Duration most = drain_.is_growing ? std::max(kLongestDrain, queue) : 3 * queue + kShortestDrain;
    const Seconds backlog = std::clamp<Seconds>(
        in_flight - round_trips_.floor() - Seconds(round_trips_.spread()) / 2, queue, most);
    const double graded = std::clamp(1 - backlog.count() / kEasilyDrained_s,
                                     drain_.is_growing ? kStrongest : kStrongTest, kGentlest);
    const double part = drain_.is_gentle ? kGentlest : is_second ? kStrongest : graded;
    drain_.state = Drain::State::draining;
    drain_.is_second = is_second;
    drain_.part = std::clamp(static_cast<float>(part), std::min(kMinRate / drain_.full, kWeakest), kWeakest);
    drain_.began = now;
    drain_.ends = now + std::clamp<Duration>(to_duration(backlog / (1 - drain_.part)), kShortestDrain,
                                             drain_.is_growing ? kLongestDrain : kLongestTest);
    drain_.rtt_before = round_trips_.recent();
    if (drain_.is_growing) drain_.rtt_before = std::max(drain_.rtt_before, to_duration(in_flight));
    drain_.rtt_after = Duration::max();
    drain_.acks = 0;
    growth_steps_ = round_trips_.is_jittery() ? growth_steps_ / 2 : 0;
    loss_.abandon(now);
    set_rate(drain_.part * drain_.full);
}

void RateController::continue_drain() {
    const float out = std::max(delivered_[0], delivered_[1]), put_in = drain_.part * drain_.full;
    if (!was_used_ || !round_trips_.is_high() || !was_high_ || out >= 0.5F * drain_.full) return;
    if (out >= 0.5F * put_in && !(drain_.is_growing && out > 1.3F * put_in)) return;
    drain_.full = std::max(out, kMinRate);
    set_rate(std::min(rate_, kKept * drain_.full));
}

void RateController::judge_drain(Time now, const ConnectionStats& stats) {
    if (drain_.state == Drain::State::none) return;
    if (drain_.state == Drain::State::looking) {
        if (now < drain_.ends) return;
        set_rate(drain_.rate_before);
        drain_ = {};
        return;
    }
    if (drain_.state == Drain::State::draining && now >= drain_.ends) {
        drain_.state = Drain::State::judging;
        set_rate(drain_.is_gentle ? drain_.rate_before : kKept * drain_.full);
    }
    const bool is_over = drain_.acks >= kVerdictAcks;
    if (drain_.rtt_after == Duration::max()) return;
    const Seconds fall = drain_.rtt_before - drain_.rtt_after;
    const bool has_answered =
        is_over && fall >= kAnswer * (1 - drain_.part) * Seconds(drain_.ends - drain_.began);
    if (round_trips_.is_empty(drain_.rtt_after) || has_answered) {
        believe_drain();
    } else if (!is_over) {
        return;
    } else if (!drain_.is_second) {
        return begin_drain(true, now, stats);
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

void RateController::believe_drain() {
    if (round_trips_.is_jittery() && !drain_.is_growing && disbelieved_ < kMaxDisbelieved &&
        drain_.full <= kLessThanProven * proven_rate_) {
        disbelieved_ += 1;
        round_trips_.tolerate();
        set_rate(drain_.rate_before);
    } else {
        disbelieved_ = 0;
        proven_rate_ = drain_.full;
        set_rate((round_trips_.is_jittery() ? kKeptInJitter : kKept) * drain_.full);
    }
    drain_wait_ = Duration(0);
    is_starting_ = false;
}

void RateController::watch_loss(Time now, const ConnectionStats& stats) {
    // Fates of packets sent during a drain say little about the loss of a full path.
    const bool can_try = drain_.state == Drain::State::none && now >= last_verdict_ + stats.rtt + 2 * kRound;
    const UsualLoss::Verdict verdict = loss_.update(now, stats.rtt, can_try);
    if (verdict == UsualLoss::Verdict::suspicion) {
        rate_before_trial_ = rate_;
        const float delivered = best() * (1 - loss_.usual());
        const float cut = kTrialCut * std::min({rate_, delivered, loss_.delivered_rate()});
        if (cut < kMinRate) return loss_.abandon(now);
        set_rate(cut);
    } else if (verdict == UsualLoss::Verdict::harmless) {
        set_rate(std::max(rate_, rate_before_trial_));
    } else if (verdict == UsualLoss::Verdict::congestion) {
        is_starting_ = false;
        careful_until_ = now + kCareful;
        set_rate(std::min(rate_before_trial_, kKept / kTrialCut * loss_.delivered_rate()));
    }
}

}  // namespace shoal::net::impl
