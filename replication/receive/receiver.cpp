#include "receiver.h"

namespace shoal::replication {

Receiver::Receiver(ecs::World& world, const Schema& schema, const ReceiverOptions& options)
    : options_(options),
      binding_(world, schema),
      replicas_(world, options.max_versions, BucketHash(options.hash_seed)),
      decoder_(binding_, replicas_, options),
      applier_(binding_, replicas_, BucketHash(options.hash_seed)),
      local_writes_(binding_, replicas_, options_.on_local_write) {}

void Receiver::apply() {
    const LocalWrites::Pause pause(local_writes_);
    applier_.apply();
    complete_ = decoder_.completion().complete();
}

bool Receiver::restore(ecs::Entity entity) {
    const LocalWrites::Pause pause(local_writes_);
    return applier_.restore(entity);
}

bool Receiver::release(ecs::Entity entity, ComponentIndex component) {
    const LocalWrites::Pause pause(local_writes_);
    return applier_.release(entity, component);
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
}

bool Receiver::is_consistent() const {
    return replicas_.is_consistent() && decoder_.is_consistent() && applier_.is_consistent();
}

}  // namespace shoal::replication
