#include "dump.h"

#include <algorithm>

namespace shoal::ecs::impl {

std::string to_text(Entity entity) {
    return entity ? std::to_string(entity.index) + 'v' + std::to_string(entity.generation) : "null";
}

std::string to_text(const World& world, ComponentId id) {
    const PairTable::Pair* pair = world.components().pairs().find(id);
    const std::string name(world.components()[id].name);
    if (pair != nullptr) return name + " to " + to_text(pair->target);
    return name.empty() ? "?" : name;
}

std::string dump(const World& world, Entity entity) {
    if (!world.is_alive(entity)) return to_text(entity) + ": dead\n";
    std::string text = to_text(entity) + '\n';
    for (const ComponentId id : world.components_of(entity)) {
        text += "  " + to_text(world, id);
        const auto* const bytes = static_cast<const std::byte*>(world.try_get(entity, id));
        const std::size_t size = bytes != nullptr ? world.components()[id].size : 0;
        if (size > 0) text += ':';
        for (std::size_t i = 0; i < std::min<std::size_t>(size, 16); ++i) {
            constexpr char kDigits[] = "0123456789abcdef";
            const auto byte = std::to_integer<std::size_t>(bytes[i]);
            text += {' ', kDigits[byte / 16], kDigits[byte % 16]};
        }
        if (size > 16) text += " ...";
        text += '\n';
    }
    return text;
}

}  // namespace shoal::ecs::impl
