#include "lead_meter.h"

#include <algorithm>
#include <array>
#include <utility>

#include "input_clock.h"

namespace shoal::replication::all {

LeadMeter::LeadMeter(net::Duration tick) : tick_ms_(Timeline::ms(tick)), last_wanted_ms_(2 * tick_ms_) {
    samples_.reserve(kSamples);
    margins_ms_.reserve(kSamples);
    late_.reserve(kMostLateNoted);
}

void LeadMeter::add(std::uint64_t number, std::uint64_t received, Tick newest, net::Duration margin,
                    bool shift_parity, net::Time now) {
    if (shift_parity != shift_parity_) {
        shift_parity_ = shift_parity;
        const double shift_ms = pending_ms_.value_or(0);
        for (Sample& sample : samples_) sample.margin_ms += shift_ms;
        for (double& known : margins_ms_) known += shift_ms;
        of_window_.margin_ms += shift_ms;
        recent_.margin_ms += shift_ms;
        pending_ms_.reset();
    }
    follow(number, received, newest);
    // Of the new inputs in this packet the oldest one is needed first.
    const double margin_ms = Timeline::ms(margin) - (ticks_per_packet_ - 1) * tick_ms_;
    late_in_a_row_ = margin_ms < 0 ? late_in_a_row_ + 1 : 0;
    if (late_in_a_row_ == kLateInARow) drop_former_path();
    // While the client changes its lead, margins do not measure the path.
    if (pending_ms_ && late_in_a_row_ < kLateInARow) return;
    insert({margin_ms, now, newest_number_, received});
}

void LeadMeter::follow(std::uint64_t number, std::uint64_t received, Tick newest) {
    if (number <= newest_number_) return;
    const bool is_gapless = newest_number_ != 0 && received - received_then_ >= number - newest_number_;
    const bool has_paused = (newest - newest_tick_) * tick_ms_ > Timeline::ms(InputClock::kPause);
    if (is_gapless && !has_paused) {
        ticks_per_packet_ = std::clamp<Tick>(newest - newest_tick_, 1, kMostTicksPerPacket);
        mean_ticks_per_packet_ += (ticks_per_packet_ - mean_ticks_per_packet_) / 16;
    }
    newest_number_ = number;
    received_then_ = received;
    newest_tick_ = newest;
}

void LeadMeter::insert(const Sample& sample) {
    if (samples_.size() < kSamples) {
        samples_.push_back(sample);
    } else {
        const Sample oldest = std::exchange(samples_[next_], sample);
        margins_ms_.erase(std::lower_bound(margins_ms_.begin(), margins_ms_.end(), oldest.margin_ms));
        for (Best* const best : {&of_window_, &recent_})
            if (best->at == oldest.at) best->is_known = false;
    }
    next_ = (next_ + 1) % kSamples;
    margins_ms_.insert(std::upper_bound(margins_ms_.begin(), margins_ms_.end(), sample.margin_ms),
                       sample.margin_ms);
    for (Best* const best : {&of_window_, &recent_})
        if (sample.margin_ms >= best->margin_ms) *best = {best->span, sample.margin_ms, sample.at, true};
}

/// Call it when the path has become longer. Drops the samples of the former path and keeps those of the last
/// late packets. Drops these, too, if the client has not fulfilled a shift.
void LeadMeter::drop_former_path() {
    std::rotate(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(next_), samples_.end());
    const std::size_t count = pending_ms_ ? 0 : std::min(samples_.size(), kLateInARow - 1);
    std::array<Sample, kLateInARow> kept;
    std::copy(samples_.end() - static_cast<std::ptrdiff_t>(count), samples_.end(), kept.begin());
    samples_.clear();
    margins_ms_.clear();
    next_ = 0;
    of_window_ = {of_window_.span};
    recent_ = {recent_.span};
    for (std::size_t i = 0; i < count; ++i) insert(kept[i]);
    late_.clear();
    pending_ms_.reset();
    last_shift_ = net::Time{0};
}

void LeadMeter::note_late(net::Time now) {
    if (pending_ms_) return;  // the client is still changing its lead
    if (late_.size() == kMostLateNoted) late_.erase(late_.begin());
    late_.push_back(now);
}

/// Returns the greatest margin of the samples of a span of time. Searches only if the known one is too old
/// or not in samples_ any more.
double LeadMeter::greatest_ms(Best& best, net::Time now) const {
    if (best.is_known && now - best.at <= best.span) return best.margin_ms;
    best = {best.span};
    for (std::size_t age = 1; age <= samples_.size(); ++age) {
        const Sample& sample = samples_[(next_ + kSamples - age) % kSamples];
        if (now - sample.at > best.span) break;
        if (sample.margin_ms > best.margin_ms) best = {best.span, sample.margin_ms, sample.at, true};
    }
    return best.margin_ms;
}

/// Returns the greatest margin of the last two seconds. If at least kLateInARow samples of the last half
/// second have margins that are less by more than a tick, returns the greatest of these.
double LeadMeter::margin_ms(net::Time now) {
    const double all = greatest_ms(of_window_, now), recent = greatest_ms(recent_, now);
    if (samples_.size() < kLateInARow) return all;
    const Sample& few_ago = samples_[(next_ + kSamples - kLateInARow) % kSamples];
    return now - few_ago.at <= recent_.span && recent < all - tick_ms_ ? recent : all;
}

/// Returns whether at most the fraction kMostLate of inputs would be late. An input is late only if its own
/// packet and all packets that repeat it are late or lost.
bool LeadMeter::is_late_risk_low(double wanted_ms, double margin_ms, double loss) const {
    double risk = 1;
    for (double left = wanted_ms; risk > kMostLate; left -= mean_ticks_per_packet_ * tick_ms_) {
        if (left < 0) return false;  // later packets are always late
        const auto later =
            std::lower_bound(margins_ms_.begin(), margins_ms_.end(), margin_ms - left) - margins_ms_.begin();
        const double share = static_cast<double>(later) / static_cast<double>(margins_ms_.size());
        risk *= loss + (1 - loss) * share;
    }
    return true;
}

/// Returns the fraction of packets that are missing between the oldest and the newest sample. Many packets
/// have no inputs, for example those with acks alone.
double LeadMeter::loss() const {
    const Sample& oldest = samples_[samples_.size() < kSamples ? 0 : next_];
    const Sample& newest = samples_[(next_ + kSamples - 1) % kSamples];
    if (newest.number == oldest.number) return 0;
    const auto received = static_cast<double>(newest.received - oldest.received);
    return std::clamp(1 - received / static_cast<double>(newest.number - oldest.number), 0.0, 0.5);
}

/// Returns the least margin for which is_late_risk_low() holds, and half a tick more for each input that was
/// late in the last kLateWindow. `margin_ms`: the margin of a packet that the path did not delay. The search
/// begins at its last result, which is seldom far away.
double LeadMeter::wanted_ms(double margin_ms, net::Time now) {
    std::erase_if(late_, [&](net::Time at) { return now - at > kLateWindow; });
    if (samples_.size() >= kFewSamples) {
        const double loss = this->loss(), step_ms = tick_ms_ / 8;
        const auto is_enough = [&](std::uint32_t steps) {
            return steps * step_ms >= kMostWantedMs || is_late_risk_low(steps * step_ms, margin_ms, loss);
        };
        while (!is_enough(wanted_steps_)) ++wanted_steps_;
        while (wanted_steps_ > 0 && is_enough(wanted_steps_ - 1)) --wanted_steps_;
        last_wanted_ms_ = wanted_steps_ * step_ms;
    }
    return std::max(last_wanted_ms_, tick_ms_ / 2) + tick_ms_ / 2 * static_cast<double>(late_.size());
}

std::optional<net::Duration> LeadMeter::take_shift(net::Time now) {
    const bool is_urgent = late_in_a_row_ >= kLateInARow;
    if (pending_ms_ || samples_.empty() || (!is_urgent && samples_.size() < kFewSamples)) return std::nullopt;
    if (is_urgent && samples_.size() < 2) return std::nullopt;
    if (!is_urgent && now - last_shift_ < kWindow / 4) return std::nullopt;
    if (now - samples_[(next_ + kSamples - 1) % kSamples].at > kWindow) return std::nullopt;
    const double margin = margin_ms(now);
    const double shift = wanted_ms(margin, now) - margin;
    const bool is_too_late = shift > tick_ms_ / 4, is_too_early = shift < -tick_ms_;
    if (!is_too_late && !(is_too_early && now - last_shift_ > kWindow)) return std::nullopt;
    last_shift_ = now;
    pending_ms_ = std::clamp(shift, -1'000.0, 1'000.0);
    return Timeline::from_ms(*pending_ms_);
}

bool LeadMeter::is_consistent() const {
    std::vector<double> margins_ms;
    for (const Sample& sample : samples_) margins_ms.push_back(sample.margin_ms);
    std::sort(margins_ms.begin(), margins_ms.end());
    return margins_ms == margins_ms_;
}

}  // namespace shoal::replication::all
