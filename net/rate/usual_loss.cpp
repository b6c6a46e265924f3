#include "usual_loss.h"

#include <cmath>

namespace shoal::net::impl {
namespace {

// Length of an epoch: kPeriod, doubled while it is below three round trips and below kLongest.
constexpr Duration kPeriod = std::chrono::seconds(1);
constexpr Duration kLongest = std::chrono::seconds(4);
// An epoch is prolonged if fewer than kFates packets were delivered or lost. Outside a trial, an epoch with a
// loss above kBorne is also prolonged if it has fewer than kRuns loss_runs.
constexpr int kFates = 24, kRuns = 8;
constexpr float kBorne = 0.05F;  // a loss of usual_ + kBorne or less begins no trial, but see kDoubtful
// usual_ is at most kMaxUsual. One trial raises it by at most kMaxMore.
constexpr float kMaxUsual = 0.35F, kMaxMore = 0.1F;
constexpr float kCured = 0.4F;  // a trial that leaves at most this part of loss_before_ lowered the loss
constexpr float kFading = 1.0F / 16;
// If usual_ is above kDoubtful, it may be wrong: then every kDoubtEvery epochs a loss above kBorne begins a
// trial. kDoubtful is less than kMaxMore: a wrong trial can raise usual_ above it, but then others follow.
constexpr float kDoubtful = 0.08F;
constexpr int kDoubtEvery = 16;

}  // namespace

void UsualLoss::on_delivered(Time sent, std::size_t bytes, bool is_late) {
    if (sent < epoch_.began) return;
    epoch_.delivered += static_cast<float>(bytes);
    if (is_late) {
        epoch_.lost = std::max(0.0F, epoch_.lost - static_cast<float>(bytes));
    } else {
        epoch_.fates += 1;
        epoch_.was_lost = false;
    }
}

void UsualLoss::on_lost(Time sent, std::size_t bytes) {
    if (sent < epoch_.began) return;
    epoch_.lost += static_cast<float>(bytes);
    epoch_.fates += 1;
    epoch_.loss_runs += !epoch_.was_lost;
    epoch_.was_lost = true;
}

UsualLoss::Verdict UsualLoss::update(Time now, Duration rtt, bool can_try) {
    Duration period = kPeriod;
    while (period < 3 * rtt && period < kLongest) period *= 2;
    const Time::rep turn = now / period;
    const Duration age = now - epoch_.began;
    if (turn == epoch_.began / period || age < rtt + period / 2 || epoch_.fates == 0) return Verdict::none;
    const float loss = epoch_.lost / (epoch_.lost + epoch_.delivered);
    const bool is_sure = epoch_.fates >= kFates && (is_trial_ || loss <= kBorne || epoch_.loss_runs >= kRuns);
    if (!is_sure && age < rtt + kLongest) return Verdict::none;
    delivered_rate_ = epoch_.delivered / std::chrono::duration<float>(age - rtt).count();
    if (is_trial_) {
        abandon(now);
        if (loss <= kCured * loss_before_) {
            usual_ = std::min(usual_, loss);
            return Verdict::congestion;
        }
        usual_ = std::min({loss, usual_ + kMaxMore, kMaxUsual});
        return Verdict::harmless;
    }
    const bool is_doubted = usual_ > kDoubtful && turn % kDoubtEvery == 0;
    const float noise = 2 * loss / std::sqrt(static_cast<float>(epoch_.loss_runs + 1));
    const bool is_suspect = loss > usual_ + kBorne + noise || (is_doubted && loss > kBorne);
    if (is_suspect && (turn % 2 != 0 || !can_try)) return Verdict::none;
    abandon(now);
    if (!is_suspect) {
        if (loss < usual_) usual_ += (loss - usual_) * kFading;
        return Verdict::none;
    }
    is_trial_ = true;
    loss_before_ = loss;
    return Verdict::suspicion;
}

void UsualLoss::abandon(Time now) {
    is_trial_ = false;
    epoch_ = {.began = now};
}

}  // namespace shoal::net::impl
