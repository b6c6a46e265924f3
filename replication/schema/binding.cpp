#include "binding.h"

#include <algorithm>
#include <cassert>
#include <new>

namespace shoal::replication {
namespace {

/// Notes which entities are translated.
class Listener final : public EntityMap {
public:
    Listener(EntityMap& map, std::vector<ecs::Entity>& targets) : map_(map), targets_(targets) {}
    std::uint32_t to_net(ecs::Entity entity) override {
        if (entity) targets_.push_back(entity);
        return map_.to_net(entity);
    }
    ecs::Entity to_entity(std::uint32_t net_id) override { return map_.to_entity(net_id); }

private:
    EntityMap& map_;
    std::vector<ecs::Entity>& targets_;
};

}  // namespace

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

/// The entity's components: the shape of the last image, unless one that changed was added or removed.
const Shape* Binding::shape_of(ecs::Entity entity, const CaptureRequest& request) {
    const Shape* const before = request.before.shape;
    if (!before) return present_shape(entity);
    for (const ComponentIndex component : request.changed)
        if (world_.has(entity, ids_[component]) != (before->find(component) != Shape::kAbsent))
            return present_shape(entity);
    return before;
}

/// Whether the components that changed can be written over a copy of the last image: none was added or
/// removed, and none has parts or references. Fills values_.
bool Binding::finds_lanes_only(ecs::Entity entity, const CaptureRequest& request) {
    values_.clear();
    if (!request.before.shape || request.references_changed) return false;
    for (const ComponentIndex component : request.changed) {
        const ComponentLayout& layout = this->layout(component);
        if (layout.has_references() || !layout.parts().empty()) return false;
        const bool was_there = request.before.shape->find(component) != Shape::kAbsent;
        const void* const value = layout.empty() ? nullptr : world_.try_get(entity, ids_[component]);
        const bool is_there = value != nullptr || (layout.empty() && world_.has(entity, ids_[component]));
        if (is_there != was_there) return false;
        values_.push_back(value);
    }
    return true;
}

Binding::Capture Binding::capture(ecs::Entity entity, const CaptureRequest& request, EntityMap& map) {
    assert(world_.is_alive(entity));
    assert(std::is_sorted(request.changed.begin(), request.changed.end()));
    if (!finds_lanes_only(entity, request)) return capture_all(entity, request, map);
    const Image& before = request.before;
    words_.assign(before.words.begin(), before.words.end());
    for (std::size_t i = 0; i < values_.size(); ++i) {
        const ComponentIndex component = request.changed[i];
        if (!values_[i]) continue;
        std::uint32_t* const lanes = words_.data() + before.shape->lanes[before.shape->find(component)];
        layout(component).quantise(values_[i], map, lanes, parts_, misfits_);
    }
    return {{before.shape, words_}, false, {}};
}

/// Builds the image from all components: those that changed are quantised, the others copied.
Binding::Capture Binding::capture_all(ecs::Entity entity, const CaptureRequest& request, EntityMap& map) {
    const Shape* const shape = shape_of(entity, request);
    bool references = !request.before.shape || request.references_changed;
    for (const ComponentIndex component : request.changed)
        references = references || layout(component).has_references();
    words_.resize(shape->lane_words);
    parts_.clear();
    targets_.clear();
    Listener listener(map, targets_);
    ImageCursor before(schema(), request.before);
    auto changed = request.changed.begin();
    for (std::uint32_t position = 0; position < shape->components.size(); ++position) {
        const ComponentIndex component = shape->components[position];
        const ComponentLayout& layout = this->layout(component);
        const bool is_known = before.seek(component);
        while (changed != request.changed.end() && *changed < component) ++changed;
        const bool is_changed = changed != request.changed.end() && *changed == component;
        std::uint32_t* const lanes = words_.data() + shape->lanes[position];
        if (layout.empty()) continue;
        if (!is_known || is_changed || (references && layout.has_references())) {
            const void* value = world_.try_get(entity, ids_[component]);
            layout.quantise(value, listener, lanes, parts_, misfits_);
        } else {
            std::copy_n(before.lanes(), layout.lanes().size(), lanes);
            parts_.insert(parts_.end(), before.parts(), before.parts() + before.part_words());
        }
    }
    words_.insert(words_.end(), parts_.begin(), parts_.end());
    return {{shape, words_}, references, targets_};
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

void Binding::remove_others(ecs::Entity entity, const Image& now) {
    assert(now.shape);
    for (std::size_t i = 0; i < ids_.size(); ++i)
        if (now.shape->find(static_cast<ComponentIndex>(i)) == Shape::kAbsent && world_.has(entity, ids_[i]))
            world_.remove(entity, ids_[i]);
}

}  // namespace shoal::replication
