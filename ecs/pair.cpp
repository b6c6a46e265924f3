#include "pair.h"

#include <cassert>

namespace shoal::ecs::impl {

ComponentId PairTable::id_of(ComponentId relation, Entity target) {
    const ComponentId known = find(relation, target);
    if (known) return known;
    std::uint32_t slot = first_free_;
    if (slot != kNone) {
        first_free_ = pairs_[slot].next;
    } else {
        slot = static_cast<std::uint32_t>(pairs_.size());
        pairs_.push_back({{}, {}, 1, kNone});
    }
    if (target.index >= first_of_target_.size())
        first_of_target_.resize(target.index + std::size_t{1}, kNone);
    std::uint32_t& first = first_of_target_[target.index];
    pairs_[slot].relation = relation;
    pairs_[slot].target = target;
    pairs_[slot].next = first;
    first = slot;
    return id_at(slot);
}

ComponentId PairTable::find(ComponentId relation, Entity target) const {
    for (std::uint32_t slot = first_of(target); slot != kNone; slot = pairs_[slot].next)
        if (pairs_[slot].relation == relation) return id_at(slot);
    return {};
}

std::vector<ComponentId> PairTable::of_target(Entity target) const {
    std::vector<ComponentId> ids;
    for (std::uint32_t slot = first_of(target); slot != kNone; slot = pairs_[slot].next)
        ids.push_back(id_at(slot));
    return ids;
}

std::vector<ComponentId> PairTable::mark_dead(Entity target) {
    std::vector<ComponentId> ids = of_target(target);
    if (!ids.empty()) first_of_target_[target.index] = kNone;
    for (const ComponentId id : ids) {
        dead_.push_back(slot_of(id));
        pairs_[slot_of(id)].next = kDead;
    }
    dead_count_ = dead_.size();
    return ids;
}

void PairTable::release_dead() {
    assert(dead_count_ == dead_.size());
    for (const std::uint32_t slot : dead_) {
        Pair& pair = pairs_[slot];
        assert(pair.archetypes.empty());
        pair.relation = {};
        pair.target = {};
        if (++pair.generation == 0) continue;  // the slot's generations are used up
        pair.next = first_free_;
        first_free_ = slot;
    }
    dead_.clear();
    dead_count_ = 0;
}

}  // namespace shoal::ecs::impl
