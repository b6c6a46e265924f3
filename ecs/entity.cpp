#include "entity.h"

namespace shoal::ecs {

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

}  // namespace shoal::ecs
