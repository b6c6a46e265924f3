#include "struct_codec.h"

#include <algorithm>
#include <new>

namespace shoal::replication::impl {

StructValue::StructValue(const SchemaType& type)
    : type_(type), memory_(::operator new (type.size, std::align_val_t{type.align})) {
    type_.construct(memory_);
}

StructValue::~StructValue() {
    type_.destroy(memory_);
    ::operator delete (memory_, std::align_val_t{type_.align});
}

void StructCodec::quantise(const SchemaType& type, const void* value, std::vector<std::uint32_t>& words) {
    words.assign(type.layout.lanes().size(), 0);
    parts_.clear();
    type.layout.quantise(value, map_, words.data(), parts_, misfits_, &stack_);
    words.insert(words.end(), parts_.begin(), parts_.end());
}

void StructCodec::restore(const SchemaType& type, std::span<const std::uint32_t> words, void* value) {
    type.layout.restore(words.data(), words.data() + type.layout.lanes().size(), map_, value, &stack_);
}

void StructCodec::write(ecs::World& world, ecs::Entity entity, ecs::ComponentId component,
                        const SchemaType& type, std::span<const std::uint32_t> words) {
    world.patch(entity, component, [&](void* value) {
        quantise(type, value, before_);
        if (std::equal(words.begin(), words.end(), before_.begin(), before_.end())) return false;
        restore(type, words, value);
        return true;
    });
}

}  // namespace shoal::replication::impl
