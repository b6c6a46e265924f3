#include "entity.h"

#include <cassert>

namespace shoal::ecs {

Entity EntityTable::take_free() {
    const std::uint32_t index = first_free_;
    Slot& slot = slots_[index];
    first_free_ = slot.place.row;
    slot.place = {kNowhere, 0};
    return Entity{index, slot.generation};
}

void EntityTable::release(Entity entity) {
    assert(is_alive(entity));
    Slot& slot = slots_[entity.index];
    slot.generation += 1;
    slot.place = {kFree, kNoIndex};
    --alive_;
    if (slot.generation == 0) return;  // every handle this index can name was handed out
    slot.place.row = first_free_;
    first_free_ = entity.index;
}

Entity EntityTable::at(std::uint32_t index) const {
    if (index >= count_ || slots_[index].place.archetype == kFree) return {};
    return Entity{index, slots_[index].generation};
}

}  // namespace shoal::ecs
