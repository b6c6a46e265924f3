#include "interpolator.h"

#include <algorithm>
#include <utility>

namespace shoal::replication::impl {

namespace {

constexpr float kLongest = 2.5f;  // longest blend, as a multiple of Mixer::kMaxExtrapolation

float ticks_from(const RenderTime& a, const RenderTime& b) {
    return static_cast<float>(static_cast<std::int32_t>(b.tick - a.tick)) + b.fraction - a.fraction;
}

}  // namespace

void Interpolator::set_time(const RenderTime& time, Tick newest) {
    const RenderTime before = std::exchange(time_, time);
    newest_ = newest;
    const bool had_time = std::exchange(has_time_, true);
    if (!last_missing_) return;
    const float longest = kLongest * mixer_.most_extrapolated();
    if (had_time && ticks_from(before, time) > longest) {  // after a lost connection
        const auto move = [&](RenderTime& moved) {
            moved = {moved.tick + (time.tick - before.tick), moved.fraction};
        };
        move(*last_missing_);
        for (auto& [key, blend] : blends_) move(blend.since), move(blend.until), move(blend.start);
    }
    if (ticks_from(*last_missing_, time) <= longest) return;
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
    if (is_in(held, component)) return;
    if (!replica.applied) return;
    const Mixer::Around around = this->around(replica);
    const bool is_delayed = is_at_render_time(replica);
    Mixer::Mix found;
    if (is_delayed && mixer_.find(around, time_, found)) mixer_.mix(component, found, replicas_, value);
    const bool is_missing = is_delayed && can_blend(component) && mixer_.is_missing(around);
    if (is_missing || last_missing_) blend(index, component, around, is_missing, value);
}

/// Returns whether the world has the version of the render time. False while a newer one is shown.
bool Interpolator::is_at_render_time(const Replicas::Replica& replica) const {
    const std::uint32_t count = replica.versions.count_until(time_.tick);
    return replicas_.is_delayed(replica) && count > 0 && replica.versions[count - 1].tick == *replica.applied;
}

/// The versions around the one that the world has. Requires replica.applied.
Mixer::Around Interpolator::around(const Replicas::Replica& replica) const {
    const History& versions = replica.versions;
    const std::uint32_t count = versions.count_until(*replica.applied);
    Mixer::Around around{versions[count - 1], {}, {}, replica.mean_gap, newest_, replica.ends.has_value()};
    if (count < versions.size()) around.next = versions[count];
    if (count > 1) around.before = versions[count - 2];
    return around;
}

bool Interpolator::can_blend(ComponentIndex component) const {
    return schema_.components()[component].display.kind != Display::Kind::own;
}

void Interpolator::blend_from(ecs::Entity entity, const void* type, std::span<const std::byte> drawn) {
    ComponentIndex component = 0;
    const std::uint32_t index = replicas_.ids().find(entity);
    if (!has_time_ || !mixer_.shows(type, component) || !can_blend(component)) return;
    if (index != Replicas::kNone && replicas_[index].applied) begin_blend(index, component, drawn);
}

void Interpolator::keep_shown(std::uint32_t index) {
    const Replicas::Replica& replica = replicas_[index];
    if (!has_time_) return;
    const Mixer::Around around = this->around(replica);
    const Mixer::Mix shown{around.shown.image, around.shown.image, 0};
    Mixer::Mix found;
    if (!is_at_render_time(replica) || !mixer_.find(around, time_, found)) found = shown;
    mixer_.each_shown([&](ComponentIndex component) {
        if (!can_blend(component) || around.shown.image.shape->find(component) == Shape::kAbsent) return;
        kept_.assign(schema_.components()[component].size, std::byte{0});
        mixer_.mix(component, shown, replicas_, kept_.data());
        mixer_.mix(component, found, replicas_, kept_.data());  // no effect if it is not mixed
        if (last_missing_) blend(index, component, around, false, kept_.data());
        begin_blend(index, component, kept_);
    });
}

void Interpolator::begin_blend(std::uint32_t index, ComponentIndex component,
                               std::span<const std::byte> from) {
    Blend& blend = blends_[std::uint64_t{index} << 16 | component];
    blend.net_id = replicas_.ids()[index].net_id;
    blend.is_missing = false;
    blend.continuity = mixer_.continuity(replicas_[index].versions.find(*replicas_[index].applied)->image);
    blend.ticks = kLongest * mixer_.most_extrapolated();
    blend.start = time_;
    blend.from.assign(from.begin(), from.end());
    last_missing_ = time_;
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
    const bool is_news = !is_missing || around.shown.tick != blend.shown;
    if (blend.is_missing && is_news && continuity == blend.continuity) {
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
    blend.shown = around.shown.tick;
    if (!is_missing) return;
    const auto* const bytes = static_cast<const std::byte*>(value);
    blend.latest.assign(bytes, bytes + schema_.components()[component].size);
    blend.until = time_;
    blend.continuity = continuity;
}

}  // namespace shoal::replication::impl
