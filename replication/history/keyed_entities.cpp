#include "keyed_entities.h"

#include <cassert>

namespace shoal::replication::impl {

NetId keyed_net_id(const ecs::World& world, ecs::Entity entity) {
    const StableKey* const key = world.try_get<StableKey>(entity);
    return key && key->value <= kMaxStableKey ? NetIds::reserved_for(*key) : 0;
}

KeyedEntities::KeyedEntities(ecs::World& world) : world_(world) {
    const auto touch = [this](ecs::World&, ecs::Entity entity, const StableKey&) {
        touched_.push_back(entity);
    };
    on_add_ = world.on_add<StableKey>(touch);
    on_change_ = world.on_change<StableKey>(touch);
    on_remove_ = world.on_remove<StableKey>(touch);
    world.each_entity([&](ecs::Entity entity) {
        if (world.has<StableKey>(entity)) touched_.push_back(entity);
    });
}

void KeyedEntities::drop(ecs::Entity entity) {
    const std::uint32_t index = ids_.find(entity);
    if (index == NetIds::kNone || ids_[index].net_id == keyed_net_id(world_, entity)) return;
    changed_.push_back({ids_[index].net_id, entity});
    ids_.release(index);
    ids_.recycle(index);
}

void KeyedEntities::take(ecs::Entity entity) {
    if (!world_.has<StableKey>(entity) || ids_.find(entity) != NetIds::kNone) return;
    const NetId net_id = keyed_net_id(world_, entity);
    const bool is_taken = ids_.find(net_id) != NetIds::kNone;
    assert(net_id != 0);  // the key must be at most kMaxStableKey
    assert(!is_taken);    // no other living entity may have the key
    if (net_id == 0 || is_taken) {
        refused_ += 1;
        return;
    }
    ids_.adopt(net_id, entity);
    changed_.push_back({net_id, {}});
}

}  // namespace shoal::replication::impl
