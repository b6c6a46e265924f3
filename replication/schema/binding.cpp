#include "binding.h"

#include <cassert>
#include <new>

namespace shoal::replication {

Binding::Binding(ecs::World& world, const Schema& schema) : world_(world), shapes_(schema) {
    schema.use();
    for (const SchemaComponent& component : schema.components()) {
        ids_.push_back(component.bind(world));
        const std::align_val_t align{component.align};
        memory_.push_back(component.is_tag ? nullptr : ::operator new(component.size, align));
    }
}

Binding::~Binding() {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
        const std::align_val_t align{schema().components()[i].align};
        if (memory_[i]) ::operator delete(memory_[i], align);
    }
}

const Shape* Binding::present_shape(ecs::Entity entity) {
    assert(world_.is_alive(entity));
    components_.clear();
    for (std::size_t i = 0; i < ids_.size(); ++i)
        if (world_.has(entity, ids_[i])) components_.push_back(static_cast<ComponentIndex>(i));
    return shapes_.shape(components_);
}

void Binding::restore(ecs::Entity entity, const Image& now, const Image& before, EntityMap& map,
                      bool references_changed) {
    assert(world_.is_alive(entity));
    const std::vector<SchemaComponent>& all = schema().components();
    components_.clear();
    added_ids_.clear();
    added_values_.clear();
    ImageCursor old(schema(), before);
    for (ImageCursor value(schema(), now); !value.at_end(); value.next()) {
        const ComponentIndex component = value.component();
        const ComponentLayout& layout = value.layout();
        const bool known = old.seek(component);
        const bool is_stale = references_changed && layout.has_references();
        if (known && (layout.empty() || (same_value(old, value) && !is_stale))) continue;
        const bool written = known && world_.patch(entity, ids_[component], [&](void* at) {
            layout.restore(value.lanes(), value.parts(), map, at);
        });
        if (written) continue;
        if (void* at = memory_[component]) {
            all[component].construct(at);
            layout.restore(value.lanes(), value.parts(), map, at);
        }
        components_.push_back(component);
        added_ids_.push_back(ids_[component]);
        added_values_.push_back(memory_[component]);
    }
    if (!components_.empty()) world_.set(entity, added_ids_, added_values_);
    for (const ComponentIndex component : components_)
        if (memory_[component]) all[component].destroy(memory_[component]);
}

void Binding::remove_missing(ecs::Entity entity, const Image& now, const Image& before) {
    assert(now.shape);
    if (!before.shape || before.shape == now.shape) return;
    for (const ComponentIndex component : before.shape->components)
        if (now.shape->find(component) == Shape::kAbsent && world_.is_alive(entity))
            world_.remove(entity, ids_[component]);
}

}  // namespace shoal::replication
