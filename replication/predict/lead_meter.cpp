#include "lead_meter.h"

#include <algorithm>
#include <cmath>

namespace shoal::replication {

LeadMeter::LeadMeter(net::Duration tick) : tick_ms_(Timeline::ms(tick)), last_wanted_ms_(2 * tick_ms_) {
    samples_.reserve(kSamples);
    jitter_ms_.reserve(kSamples);
    late_.reserve(kMostLateNoted);
}

void LeadMeter::add(std::uint64_t number, Tick newest, net::Duration margin, bool parity, net::Time now) {
    if (parity != parity_) {
        parity_ = parity;
        // Ignores the packets since the last sample: moves all numbers, so that no number is missing.
        const std::uint64_t gap = number > newest_sample() ? number - newest_sample() - 1 : 0;
        for (Sample& sample : samples_) {
            sample.margin_ms += pending_ms_.value_or(0);
            sample.number += gap;
        }
        pending_ms_.reset();
    }
    if (number > newest_number_) {
        if (number == newest_number_ + 1) {
            ticks_per_packet_ = std::clamp<Tick>(newest - newest_tick_, 1, kMostTicksPerPacket);
            mean_ticks_per_packet_ += (ticks_per_packet_ - mean_ticks_per_packet_) / 16;
        }
        newest_number_ = number;
        newest_tick_ = newest;
    }
    // Of the new inputs in this packet the oldest one is needed first.
    const double margin_ms = Timeline::ms(margin) - (ticks_per_packet_ - 1) * tick_ms_;
    late_in_a_row_ = margin_ms < 0 ? late_in_a_row_ + 1 : 0;
    if (late_in_a_row_ == kLateInARow) rebase();
    // While the client changes its lead, margins do not measure the path.
    if (pending_ms_ && late_in_a_row_ < kLateInARow) return;
    const Sample sample{margin_ms, now, number};
    if (samples_.size() < kSamples) {
        samples_.push_back(sample);
    } else {
        samples_[next_] = sample;
    }
    next_ = (next_ + 1) % kSamples;
}

std::uint64_t LeadMeter::newest_sample() const {
    std::uint64_t newest = 0;
    for (const Sample& sample : samples_) newest = std::max(newest, sample.number);
    return newest;
}

/// Drops the measurements of a path that has become longer: all but those of the late packets before this
/// one.
void LeadMeter::rebase() {
    std::rotate(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(next_), samples_.end());
    const std::size_t kept = pending_ms_ ? 0 : std::min(samples_.size(), kLateInARow - 1);
    samples_.erase(samples_.begin(), samples_.end() - static_cast<std::ptrdiff_t>(kept));
    next_ = kept;
    late_.clear();
    pending_ms_.reset();
    last_shift_ = net::Time{0};
}

void LeadMeter::note_late(net::Time now) {
    if (pending_ms_) return;  // the client is still changing its lead
    if (late_.size() == kMostLateNoted) late_.erase(late_.begin());
    late_.push_back(now);
}

/// Returns the greatest margin of the last two seconds. If the greatest margin of the last half second is
/// less by more than a tick, returns this one instead.
double LeadMeter::margin_ms(net::Time now) const {
    double all = -1e9, recent = -1e9;
    std::size_t recent_count = 0;
    for (const Sample& sample : samples_) {
        if (now - sample.at > kWindow) continue;
        all = std::max(all, sample.margin_ms);
        if (now - sample.at > kWindow / 4) continue;
        recent = std::max(recent, sample.margin_ms);
        ++recent_count;
    }
    return recent_count >= kLateInARow && recent < all - tick_ms_ ? recent : all;
}

/// Returns whether at most the fraction kMostLate of inputs would be late. An input is late only if its own
/// packet and all packets that repeat it are late or lost.
bool LeadMeter::is_late_risk_low(double margin_ms, double loss) const {
    double risk = 1;
    for (double left = margin_ms; risk > kMostLate; left -= mean_ticks_per_packet_ * tick_ms_) {
        if (left < 0) return false;  // later packets are always late
        const auto later = jitter_ms_.end() - std::upper_bound(jitter_ms_.begin(), jitter_ms_.end(), left);
        const double share = static_cast<double>(later) / static_cast<double>(jitter_ms_.size());
        risk *= loss + (1 - loss) * share;
    }
    return true;
}

/// Returns the least margin for which is_late_risk_low() holds.
double LeadMeter::wanted_ms(double margin_ms, net::Time now) {
    std::erase_if(late_, [&](net::Time at) { return now - at > kLateWindow; });
    if (samples_.size() >= kFewSamples) {
        jitter_ms_.clear();
        std::uint64_t oldest = newest_number_;
        for (const Sample& sample : samples_) {
            jitter_ms_.push_back(std::max(0.0, margin_ms - sample.margin_ms));
            oldest = std::min(oldest, sample.number);
        }
        std::sort(jitter_ms_.begin(), jitter_ms_.end());
        const double sent = static_cast<double>(newest_sample() - oldest) + 1;
        const double loss = std::clamp(1 - static_cast<double>(samples_.size()) / sent, 0.0, 0.5);
        double wanted = 0;
        while (wanted < 1'000 && !is_late_risk_low(wanted, loss)) wanted += tick_ms_ / 8;
        last_wanted_ms_ = wanted;
    }
    return std::max(last_wanted_ms_, tick_ms_ / 2) + tick_ms_ / 2 * static_cast<double>(late_.size());
}

std::optional<net::Duration> LeadMeter::take_shift(net::Time now) {
    const bool is_urgent = late_in_a_row_ >= kLateInARow;
    if (pending_ms_ || samples_.empty() || (!is_urgent && samples_.size() < kFewSamples)) return std::nullopt;
    if (is_urgent && samples_.size() < 2) return std::nullopt;
    if (!is_urgent && now - last_shift_ < kWindow / 4) return std::nullopt;
    const double margin = margin_ms(now);
    const double shift = wanted_ms(margin, now) - margin;
    const bool is_too_late = shift > tick_ms_ / 4, is_too_early = shift < -tick_ms_;
    if (!is_too_late && !(is_too_early && now - last_shift_ > kWindow)) return std::nullopt;
    last_shift_ = now;
    pending_ms_ = std::clamp(shift, -1'000.0, 1'000.0);
    return Timeline::from_ms(*pending_ms_);
}

}  // namespace shoal::replication
