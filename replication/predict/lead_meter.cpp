#include "lead_meter.h"

#include <algorithm>
#include <cmath>

namespace shoal::replication::all {

void LeadMeter::add(double need, double lead, net::Time now) {
    least_need_.add(-need, now);
    delays_[count_ % kDelays] = need + least_need_.value();
    last_[count_ % kLateInARow] = need;
    count_ += 1;
    const bool is_late = need > wanted_.value_or(lead);
    late_in_a_row_ = is_late ? late_in_a_row_ + 1 : 0;
    if (!wanted_ && is_late && ++late_at_first_ >= kLateInARow) is_urgent_ = true;
    if (late_in_a_row_ < kLateInARow) return;
    // The path has become longer: the last packets alone measure it.
    const std::array<double, kLateInARow> last = last_;
    least_need_ = {};
    late_.clear();
    count_ = late_in_a_row_ = late_at_first_ = 0;
    wanted_.reset();
    is_urgent_ = true;
    for (const double late : last) add(late, late, now);
}

void LeadMeter::note_late(double lead, net::Time now) {
    // Was it sent before the lead was known, or before it was increased?
    if (wanted_ ? lead < *wanted_ - 0.5 : !is_urgent_) return;
    if (late_.size() == kMaxLateNoted) late_.erase(late_.begin());
    late_.push_back(now);
}

/// Returns the least delay, in steps of 1/8 tick, that must be covered. An input is late only if its own
/// packet and all packets that repeat it are late or lost.
double LeadMeter::delay_to_cover(double loss, double inputs_per_packet) {
    sorted_.assign(delays_.begin(), delays_.begin() + static_cast<std::ptrdiff_t>(std::min(count_, kDelays)));
    std::sort(sorted_.begin(), sorted_.end());
    const auto is_enough = [&](int steps) {
        double risk = 1;
        for (double left = steps / 8.0; risk > kMaxLate; left -= inputs_per_packet) {
            if (left < 0) return false;  // later packets are always late
            const auto later = sorted_.end() - std::upper_bound(sorted_.begin(), sorted_.end(), left);
            const double share = static_cast<double>(later) / static_cast<double>(sorted_.size());
            risk *= std::lerp(share, 1.0, std::min(loss, kMaxLoss));
        }
        return true;
    };
    int low = 0, high = static_cast<int>(8 * kMaxDelayMs / tick_ms_) + 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        is_enough(middle) ? high = middle : low = middle + 1;
    }
    return low / 8.0;
}

std::optional<double> LeadMeter::wanted(double loss, double inputs_per_packet, net::Time now) {
    const bool is_few = count_ < kFewDelays;
    if (!is_few) late_at_first_ = 0;
    const bool was_too_late = late_at_first_ >= kLateInARow;
    if (!is_urgent_ && ((is_few && !was_too_late) || now - computed_ < kInterval)) return wanted_;
    computed_ = now;
    std::erase_if(late_, [&](net::Time at) { return now - at > kLateWindow; });
    if (!is_few) cover_ = delay_to_cover(loss, inputs_per_packet);
    // The loss of a few packets says nothing yet.
    if (was_too_late) cover_ = std::max(cover_, delay_to_cover(0, inputs_per_packet));
    const double lead = std::max(cover_, 0.5) +
                        0.5 * std::max(inputs_per_packet, 1.0) * static_cast<double>(late_.size()) -
                        least_need_.value();
    const bool is_too_small = !wanted_ || lead > *wanted_ + 0.25;
    const bool is_too_great = wanted_ && lead < *wanted_ - 1 && now - changed_ > kPatience;
    if (is_too_small || is_too_great) {
        wanted_ = lead;
        changed_ = now;
    }
    is_urgent_ = false;
    return wanted_;
}

}  // namespace shoal::replication::all
