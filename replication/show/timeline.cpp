#include "timeline.h"

#include <algorithm>

namespace shoal::replication::all {

void Timeline::add(Tick tick, net::Time now) {
    if (is_empty_) {
        first_tick_ = tick;
        first_time_ = now;
    }
    const std::int64_t ticks = unwrapped(tick);
    newest_ = std::max(newest_, ticks);
    const double offset_ms = static_cast<double>(ticks) * tick_ms_ - ms(now - first_time_);
    const auto number = static_cast<std::int64_t>(ms(now - first_time_)) / kBucketMs;
    Bucket& bucket = buckets_[static_cast<std::size_t>(number) % kBuckets];
    if (bucket.number != number) bucket = {number, offset_ms, 0};
    bucket.offset_ms = std::max(bucket.offset_ms, offset_ms);
    bucket.samples += 1;
    is_empty_ = false;

    double all = offset_ms, recent = offset_ms;
    std::size_t covered = 0, recently_covered = 0;
    std::uint32_t samples = 0;
    for (const Bucket& other : buckets_) {
        if (other.number < 0 || number - other.number >= static_cast<std::int64_t>(kBuckets)) continue;
        all = std::max(all, other.offset_ms);
        ++covered;
        if (number - other.number >= static_cast<std::int64_t>(kNewest)) continue;
        recent = std::max(recent, other.offset_ms);
        ++recently_covered;
        samples += other.samples;
    }
    if (all >= offset_ms_ || covered >= kBuckets / 2) offset_ms_ = all;
    const bool has_changed = recently_covered + 1 >= kNewest && samples >= kFewSamples;
    if (!has_changed || offset_ms_ - recent <= tick_ms_) return;
    offset_ms_ = recent;
    for (Bucket& other : buckets_)
        if (number - other.number >= static_cast<std::int64_t>(kNewest)) other.number = -1;
}

}  // namespace shoal::replication::all
