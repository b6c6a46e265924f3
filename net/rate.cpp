#include "rate.h"

#include <algorithm>
#include <cassert>

namespace shoal::net {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kPacket = kMaxDatagramBytes;

// Budget.
constexpr double kFirstBurst = 10 * kPacket;
constexpr Seconds kSavedUp{0.05};  // of unused time
constexpr double kMinSavedUp = 2 * kPacket;
constexpr double kReserve = 300;  // bytes
constexpr double kReserveShare = 0.1;

// Delay. A round is several ticks at least, because acks come in lumps.
constexpr Duration kMinRound = std::chrono::milliseconds(50);
constexpr int kMinRoundAcks = 3;
constexpr Duration kMinRttWindow = std::chrono::seconds(5);  // two of them are remembered
constexpr Duration kQueueLow = std::chrono::milliseconds(15);
constexpr Duration kQueueStart = std::chrono::milliseconds(25);
constexpr Duration kQueueHigh = std::chrono::milliseconds(35);
constexpr double kCut = 0.85;     // of the bandwidth
constexpr double kStands = 0.75;  // a queue that fell to this does not stand
constexpr double kGrowth = 0.01;
constexpr Duration kGrowthRtt = std::chrono::milliseconds(100);  // a packet more per round trip, or per this
constexpr double kMaxLead = 1.15;                                // over the bandwidth
constexpr double kBandwidthGain = 0.4;

// Slow start. Acks come a round trip after the rate that they raise: 1.5 per round trip is what doubles it.
constexpr double kSlowStartGain = 1.5;
constexpr Duration kSlowStartRtt = std::chrono::milliseconds(10);  // at least
constexpr double kStillGrows = 1.25;
constexpr int kPlateauRounds = 3;

// Loss.
constexpr Duration kMinEpoch = std::chrono::seconds(1);
constexpr int kMinEpochFates = 32;
constexpr double kTooMuchLoss = 0.05;  // over twice the usual
constexpr double kLossCut = 0.7;

constexpr int kBreakerTimeouts = 3;
constexpr Duration kMaxProbeInterval = std::chrono::seconds(1);

}  // namespace

RateController::RateController(std::uint64_t first_rate, std::uint64_t max_rate, Time now,
                               ConnectionStats& stats)
    : first_rate_(static_cast<double>(first_rate)),
      max_rate_(static_cast<double>(max_rate)),
      budget_(kFirstBurst),
      reserve_(kReserve),
      accrued_(now),
      min_rtt_began_(now),
      last_news_(now) {
    assert(max_rate_ >= kMinRate);
    set_rate(first_rate_);
    round_.began = epoch_.began = now;
    stats.rate = rate_;
}

void RateController::update(Time now, Duration timeout, ConnectionStats& stats) {
    accrue(now);
    if (!is_broken_ && stats.bytes_in_flight > 0 && now - last_news_ >= kBreakerTimeouts * timeout) {
        is_broken_ = true;
        probe_interval_ = timeout;
    }
    // While nothing is heard, all is lost, and that says nothing about the rate.
    const bool is_heard = !is_broken_ && now - last_news_ < timeout;
    if (is_heard && now - epoch_.began >= std::max(kMinEpoch, 4 * stats.rtt) &&
        epoch_.fates >= kMinEpochFates) {
        end_epoch(now);
    }
    if (now - round_.began >= std::max(kMinRound, base_rtt()) && round_.acks >= kMinRoundAcks) {
        end_round(now, stats);
    }
    stats.rate = rate_;
    stats.queue_delay = queue_;
    stats.rate_limit = is_broken_                       ? RateLimit::breaker
                       : round_.used_up || was_used_up_ ? RateLimit::network
                                                        : RateLimit::application;
}

void RateController::accrue(Time now) {
    const double earned = rate_ * Seconds(now - accrued_).count();
    accrued_ = now;
    const double most = std::max(kMinSavedUp, rate_ * kSavedUp.count());
    // The first burst is more than may be saved up.
    if (budget_ < most) budget_ = std::min(budget_ + earned, most);
    reserve_ = std::min(reserve_ + earned * kReserveShare, kReserve);
}

void RateController::on_sent(std::size_t bytes, Time now, const ConnectionStats& stats) {
    if (is_broken_) probe_interval_ = std::min(2 * probe_interval_, kMaxProbeInterval);
    if (stats.bytes_in_flight == bytes) last_news_ = now;
    if (budget_ <= 0) reserve_ -= static_cast<double>(bytes);
    // Packets that were never blocked, such as pings, cannot pile up a debt.
    budget_ = std::max(budget_ - static_cast<double>(bytes), -2 * kPacket);
    if (budget_ <= 0) round_.used_up = true;
}

void RateController::on_sent_untracked(std::size_t bytes) {
    if (budget_ > 0) budget_ = std::max(budget_ - static_cast<double>(bytes), 0.0);
}

void RateController::on_delivered(std::size_t bytes, Time now, const ConnectionStats& stats) {
    last_news_ = now;
    if (is_broken_) {
        // What was lost says nothing about the rate. Find it anew from half of it.
        is_broken_ = false;
        start_slowly(rate_ / 2, now);
    }
    const auto count = static_cast<double>(bytes);
    round_.delivered += count;
    round_.acks += 1;
    round_.min_rtt = std::min(round_.min_rtt, stats.latest_rtt);
    min_rtt_ = std::min(min_rtt_, stats.latest_rtt);
    epoch_.delivered += count;
    epoch_.fates += 1;
    if (is_slow_start_ && (round_.used_up || was_used_up_)) {
        const Seconds rtt = std::max(stats.rtt, kSlowStartRtt);
        set_rate(rate_ + kSlowStartGain * count / rtt.count());
    }
}

void RateController::restart(Time now) {
    start_slowly(std::min(rate_ / 2, first_rate_), now);
    budget_ = std::min(budget_, kMinSavedUp);
    was_used_up_ = false;
    bandwidth_ = 0;
    queue_ = standing_queue_ = Duration(0);
    min_rtt_ = min_rtt_before_ = Duration::max();
    min_rtt_began_ = now;
    usual_loss_ = 0;
    last_news_ = now;
    is_broken_ = false;
}

void RateController::start_slowly(double rate, Time now) {
    set_rate(rate);
    is_slow_start_ = true;
    best_bandwidth_ = 0;
    rounds_without_growth_ = 0;
    rate_before_ = 0;
    round_ = {.began = now};
    epoch_ = {.began = now};
}

Duration RateController::base_rtt() const {
    return std::min(min_rtt_, min_rtt_before_);
}

void RateController::end_round(Time now, const ConnectionStats& stats) {
    const Seconds elapsed = now - round_.began;
    const double delivered_rate = round_.delivered / elapsed.count();
    if (round_.used_up) {
        bandwidth_ += (delivered_rate - bandwidth_) * (bandwidth_ == 0 ? 1 : kBandwidthGain);
    }
    const Duration queue_before = queue_;
    queue_ = round_.min_rtt - base_rtt();
    if (is_slow_start_) {
        if (delivered_rate > kStillGrows * best_bandwidth_) {
            best_bandwidth_ = delivered_rate;
            rounds_without_growth_ = 0;
        } else if (round_.used_up) {
            rounds_without_growth_ += 1;
        }
        is_slow_start_ = queue_ <= kQueueStart && rounds_without_growth_ < kPlateauRounds;
        if (!is_slow_start_ && bandwidth_ > 0) set_rate(std::min(rate_, kCut * bandwidth_));
    } else if (queue_ > kQueueHigh) {
        if (queue_ >= queue_before) set_rate(std::min(rate_, kCut * (round_.used_up ? bandwidth_ : rate_)));
        watch_standing_queue(now, delivered_rate, stats.rtt);
    } else if (queue_ < kQueueLow && round_.used_up && rate_before_ == 0) {
        // A packet per round trip per round trip makes flows that share a queue equal; the rest is speed.
        const Seconds rtt = std::max(stats.rtt, kGrowthRtt);
        const double grown = rate_ * (1 + kGrowth) + kPacket / rtt.count() * (elapsed / rtt);
        set_rate(std::max(rate_, std::min(grown, kMaxLead * bandwidth_ / (1 - usual_loss_))));
    }
    if (queue_ <= kQueueHigh) standing_queue_ = Duration(0);
    was_used_up_ = round_.used_up;
    round_ = {.began = now};
    if (now - min_rtt_began_ >= kMinRttWindow) {
        min_rtt_before_ = min_rtt_;
        min_rtt_ = Duration::max();
        min_rtt_began_ = now;
    }
}

/// Half of what the path delivers drains every queue of ours, by a quarter within a round trip after the news
/// of it can come. If not, it is the path that has become longer, or somebody else's queue, which stands at
/// any rate.
void RateController::watch_standing_queue(Time now, double delivered_rate, Duration rtt) {
    if (standing_queue_ == Duration(0) || Seconds(queue_) <= kStands * Seconds(standing_queue_)) {
        standing_queue_ = queue_;
        standing_best_ = 0;
        low_since_ = now;
    }
    standing_queue_ = std::max(standing_queue_, queue_);
    standing_best_ = std::max(standing_best_, delivered_rate);
    if (rate_ > standing_best_ / 2) low_since_ = now;
    if (now - low_since_ < 2 * rtt) return;
    min_rtt_ = min_rtt_before_ = round_.min_rtt;
    min_rtt_began_ = now;
    queue_ = Duration(0);
    set_rate(std::max(rate_, kCut * standing_best_));
}

/// Loss that a lower rate does not cure is a property of the path, like wireless noise. So a cut is a trial:
/// if the loss does not fall by half, as it would from a full queue, it is usual here and the rate comes
/// back.
void RateController::end_epoch(Time now) {
    const double loss = epoch_.lost / (epoch_.lost + epoch_.delivered);
    if (rate_before_ > 0) {
        if (loss > loss_before_ / 2) {
            usual_loss_ = loss;
            set_rate(std::max(rate_, rate_before_));
        }
        rate_before_ = 0;
    } else if (loss > kTooMuchLoss + 2 * usual_loss_ && !is_slow_start_) {
        rate_before_ = rate_;
        loss_before_ = loss;
        set_rate(rate_ * std::min(kLossCut, 1 - loss));
    } else if (loss < usual_loss_) {
        usual_loss_ += (loss - usual_loss_) / 8;
    }
    epoch_ = {.began = now};
}

void RateController::set_rate(double rate) {
    rate_ = std::clamp(rate, kMinRate, max_rate_);
}

}  // namespace shoal::net
