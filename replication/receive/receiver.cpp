#include "receiver.h"

namespace shoal::replication::all {

Receiver::Receiver(ecs::World& world, const Schema& schema, const ReceiverOptions& options)
    : options_(options),
      binding_(world, schema),
      replicas_(world, options.max_versions, BucketHash(options.hash_seed)),
      decoder_(binding_, replicas_, options),
      applier_(binding_, replicas_, BucketHash(options.hash_seed)),
      local_writes_(binding_, replicas_, options_.on_local_write) {}

void Receiver::apply_until(std::optional<Tick> render_tick) {
    const LocalWrites::Pause pause(local_writes_);
    replicas_.set_render_tick(render_tick);
    applier_.apply();
    complete_ = render_tick ? shown_complete(*render_tick) : decoder_.completion().complete();
}

/// Of the ticks that were complete when their packets arrived, returns the newest that is not after the
/// render tick, if the world shows nothing newer.
std::optional<Receiver::Complete> Receiver::shown_complete(Tick render_tick) {
    const std::optional<Complete> newest = decoder_.completion().complete();
    const auto at = [this](std::size_t n) -> Complete& { return completes_[n % kCompletes]; };
    if (newest && (complete_count_ == 0 || at(complete_count_ - 1) != *newest))
        at(complete_count_++) = *newest;
    const std::optional<Tick> shown = replicas_.newest_shown();
    for (std::size_t n = complete_count_; n > 0 && n + kCompletes > complete_count_; --n) {
        if (is_newer(at(n - 1).tick, render_tick)) continue;
        if (shown && is_newer(*shown, at(n - 1).tick)) return std::nullopt;
        return at(n - 1);
    }
    return std::nullopt;
}

bool Receiver::restore(ecs::Entity entity) {
    const LocalWrites::Pause pause(local_writes_);
    return applier_.restore(entity);
}

bool Receiver::release(ecs::Entity entity, ComponentIndex component) {
    const LocalWrites::Pause pause(local_writes_);
    return applier_.release(entity, component);
}

bool Receiver::end_overlay(ecs::Entity entity, ComponentIndex component) {
    const LocalWrites::Pause pause(local_writes_);
    return applier_.end_overlay(entity, component);
}

bool Receiver::show(ecs::Entity entity, const Image& image, ComponentIndex component) {
    const LocalWrites::Pause pause(local_writes_);
    return applier_.show(entity, image, component);
}

void Receiver::capture(ecs::Entity entity, ComponentIndex component, Value& value) {
    value.is_present = binding_.capture_component(entity, component, replicas_, value.words);
}

bool Receiver::show(ecs::Entity entity, ComponentIndex component, const Value& value) {
    const std::span<const ComponentIndex> present(&component, value.is_present ? 1 : 0);
    const Shape* const shape = binding_.shapes().shape(present);
    return show(entity, Image{shape, value.words}, component);
}

std::optional<Tick> Receiver::shown_tick(ecs::Entity entity) const {
    const std::uint32_t index = replicas_.ids().find(entity);
    return index == Replicas::kNone ? std::nullopt : replicas_[index].applied;
}

std::uint32_t Receiver::entity_count() const {
    std::uint32_t count = 0;
    for_each_entity([&](NetId, ecs::Entity) { ++count; });
    return count;
}

void Receiver::reset() {
    const LocalWrites::Pause pause(local_writes_);
    decoder_.reset();
    applier_.reset();
    complete_.reset();
    complete_count_ = 0;
}

bool Receiver::is_consistent() const {
    return replicas_.is_consistent() && decoder_.is_consistent() && applier_.is_consistent();
}

}  // namespace shoal::replication::all
