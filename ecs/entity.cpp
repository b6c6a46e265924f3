#include "entity.h"

namespace shoal::ecs::impl {

Entity EntityTable::take_free() {
    const std::uint32_t index = first_free_;
    Slot& slot = slots_[index];
    first_free_ = slot.place.row;
    slot.place = {kNoArchetype, 0};
    return Entity{index, slot.generation};
}

Entity EntityTable::at(std::uint32_t index) const {
    if (index >= count_ || slots_[index].place.archetype == kFree) return {};
    return Entity{index, slots_[index].generation};
}

bool EntityTable::is_consistent() const {
    std::uint32_t alive = 0, used_up = 0, free = 0;
    for (const Slot& slot : slots_) {
        const bool is_alive = slot.place.archetype != kFree;
        if (is_alive && slot.generation == 0) return false;
        alive += is_alive;
        used_up += slot.generation == 0;
    }
    for (std::uint32_t index = first_free_; index != kNoIndex; index = slots_[index].place.row) {
        if (index >= slots_.size() || slots_[index].place.archetype != kFree) return false;
        if (slots_[index].generation == 0 || ++free > slots_.size()) return false;
    }
    return alive == alive_ && alive + used_up + free == count_ && count_ == slots_.size();
}

}  // namespace shoal::ecs::impl
