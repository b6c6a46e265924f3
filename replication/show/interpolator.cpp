#include "interpolator.h"

#include <algorithm>

namespace shoal::replication {

namespace {

constexpr float kLongest = 2.5f;  // longest blend, as a multiple of Mixer::kMaxExtrapolation

float ticks_from(const RenderTime& a, const RenderTime& b) {
    return static_cast<float>(static_cast<std::int32_t>(b.tick - a.tick)) + b.fraction - a.fraction;
}

}  // namespace

void Interpolator::set_time(const RenderTime& time, Tick newest) {
    time_ = time;
    newest_ = newest;
    if (!last_missing_ || ticks_from(*last_missing_, time_) <= kLongest * mixer_.most_extrapolated()) return;
    last_missing_.reset();
    std::erase_if(blends_, [this](const auto& entry) {
        return replicas_.ids()[static_cast<std::uint32_t>(entry.first >> 16)].net_id != entry.second.net_id;
    });
}

void Interpolator::mix(ecs::Entity entity, const void* type, void* value) const {
    ComponentIndex component = 0;
    if (!mixer_.shows(type, component)) return;
    const std::uint32_t index = replicas_.ids().find(entity);
    if (index == Replicas::kNone) return;
    const Replicas::Replica& replica = replicas_[index];
    const std::vector<ComponentIndex>& held = replica.held;
    if (!held.empty() && std::binary_search(held.begin(), held.end(), component)) return;
    if (!replica.applied || !replicas_.is_delayed(replica)) return;
    const History& versions = replica.versions;
    const std::uint32_t count = versions.count_until(time_.tick);
    if (count == 0 || versions[count - 1].tick != *replica.applied) return;
    Mixer::Around around{versions[count - 1], {}, {}, replica.mean_gap, newest_, replica.ends.has_value()};
    if (count < versions.size()) around.next = versions[count];
    if (count > 1) around.before = versions[count - 2];
    Mixer::Mix found;
    const bool is_mixed = mixer_.find(around, time_, found);
    if (is_mixed) mixer_.mix(component, found, replicas_, value);
    const bool can_blend = schema_.components()[component].display.kind != Display::Kind::own;
    const bool is_missing = is_mixed && !around.next && can_blend;
    if (is_missing || last_missing_) blend(index, component, around, is_missing, value);
}

/// Blends what was shown while the state was missing into `value`, which is shown next. If the state is
/// missing, keeps a copy of `value`.
void Interpolator::blend(std::uint32_t index, ComponentIndex component, const Mixer::Around& around,
                         bool is_missing, void* value) const {
    if (is_missing) last_missing_ = time_;
    const std::uint64_t key = std::uint64_t{index} << 16 | component;
    const auto found = is_missing ? blends_.try_emplace(key).first : blends_.find(key);
    if (found == blends_.end()) return;
    Blend& blend = found->second;
    const NetId net_id = replicas_.ids()[index].net_id;
    if (blend.net_id != net_id) {
        blend.net_id = net_id;
        blend.is_missing = false;
        blend.ticks = 0;
    }
    const std::uint64_t continuity = mixer_.continuity(around.shown.image);
    if (continuity != blend.continuity) blend.ticks = 0;
    // For a gap, Mixer assumes that the entity stood still. Here the state was only missing, so the entity
    // moves to the next version from now on.
    const bool is_after_gap = around.next && mixer_.is_long_gap(around);
    if (blend.is_missing && !is_missing && continuity == blend.continuity) {
        blend.ticks = std::min(ticks_from(blend.since, time_), mixer_.most_extrapolated());
        if (is_after_gap)
            blend.ticks = std::clamp(ticks_from(blend.until, {around.next->tick, 0}), blend.ticks,
                                     kLongest * mixer_.most_extrapolated());
        blend.start = blend.until;
        blend.from = blend.latest;
    }
    const float passed = ticks_from(blend.start, time_);
    if (passed < 0 || passed >= blend.ticks) blend.ticks = 0;
    if (blend.ticks > 0) {
        if (is_after_gap)
            mixer_.mix(component, {around.shown.image, around.next->image, 1}, replicas_, value);
        mixer_.blend(component, blend.from, passed / blend.ticks, value);
    }
    if (is_missing && !blend.is_missing) blend.since = time_;
    blend.is_missing = is_missing;
    if (!is_missing) return;
    const auto* const bytes = static_cast<const std::byte*>(value);
    blend.latest.assign(bytes, bytes + schema_.components()[component].size);
    blend.until = time_;
    blend.continuity = continuity;
}

}  // namespace shoal::replication
