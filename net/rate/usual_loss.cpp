#include "usual_loss.h"

#include <algorithm>
#include <cmath>

namespace shoal::net {
namespace {

constexpr Duration kPeriod = std::chrono::seconds(1);  // doubled until it is three round trips
constexpr Duration kLongest = std::chrono::seconds(4);
constexpr int kFates = 24;
constexpr int kRuns = 8;         // loss runs that are enough for an estimate
constexpr float kBorne = 0.05F;  // loss so far above the usual loss starts no trial
constexpr float kMostUsual = 0.35F;
constexpr float kCured = 0.4F;  // of the loss before: a full queue loses less than this after the cut
constexpr float kFading = 1.0F / 16;
constexpr float kMostMore = 0.1F;   // by one trial, which may have met another connection's loss
constexpr float kDoubtful = 0.08F;  // less than one trial can add
constexpr int kDoubtEvery = 16;     // periods: by all connections at once

Duration period_of(Duration rtt) {
    Duration result = kPeriod;
    while (result < 3 * rtt && result < kLongest) result *= 2;
    return result;
}

}  // namespace

void UsualLoss::on_delivered(Time sent, std::size_t bytes, bool is_late) {
    if (sent < began_) return;
    delivered_ += static_cast<float>(bytes);
    if (is_late) {
        lost_ = std::max(0.0F, lost_ - static_cast<float>(bytes));
    } else {
        fates_ += 1;
        was_lost_ = false;
    }
}

void UsualLoss::on_lost(Time sent, std::size_t bytes) {
    if (sent < began_) return;
    lost_ += static_cast<float>(bytes);
    fates_ += 1;
    loss_runs_ += !was_lost_;
    was_lost_ = true;
}

UsualLoss::Verdict UsualLoss::update(Time now, Duration rtt, bool can_try) {
    const Duration period = period_of(rtt);
    const Time::rep turn = now / period;
    if (turn == began_ / period || now - began_ < rtt + period / 2 || fates_ == 0) return Verdict::none;
    const float loss = lost_ / (lost_ + delivered_);
    const bool is_sure = fates_ >= kFates && (is_trial_ || loss <= kBorne || loss_runs_ >= kRuns);
    if (!is_sure && now - began_ < rtt + kLongest) return Verdict::none;
    delivered_rate_ = delivered_ / std::chrono::duration<float>(now - began_ - rtt).count();
    if (is_trial_) {
        is_trial_ = false;
        begin(now);
        if (loss <= kCured * loss_before_) {
            usual_ = std::min(usual_, loss);
            return Verdict::congestion;
        }
        usual_ = std::min({loss, usual_ + kMostMore, kMostUsual});
        return Verdict::harmless;
    }
    const bool is_doubted = usual_ > kDoubtful && turn % kDoubtEvery == 0;
    const float noise = 2 * loss / std::sqrt(static_cast<float>(loss_runs_ + 1));
    if (loss > usual_ + kBorne + noise || (is_doubted && loss > kBorne)) {
        if (turn % 2 != 0 || !can_try) return Verdict::none;
        is_trial_ = true;
        loss_before_ = loss;
        begin(now);
        return Verdict::suspicion;
    }
    begin(now);
    if (loss < usual_) usual_ += (loss - usual_) * kFading;
    return Verdict::none;
}

void UsualLoss::abandon(Time now) {
    is_trial_ = false;
    begin(now);
}

void UsualLoss::restart(Time now) {
    *this = UsualLoss();
    began_ = now;
}

void UsualLoss::begin(Time now) {
    began_ = now;
    delivered_ = lost_ = 0;
    fates_ = loss_runs_ = 0;
    was_lost_ = false;
}

}  // namespace shoal::net
