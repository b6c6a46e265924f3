#include "binding.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

namespace shoal::replication::impl {
namespace {

class TargetRecorder final : public EntityMap {
public:
    TargetRecorder(EntityMap& map, std::vector<ecs::Entity>& targets) : map_(map), targets_(targets) {}
    std::uint32_t to_net(ecs::Entity entity) override {
        if (entity) targets_.push_back(entity);
        return map_.to_net(entity);
    }
    ecs::Entity to_entity(std::uint32_t net_id) override { return map_.to_entity(net_id); }

private:
    EntityMap& map_;
    std::vector<ecs::Entity>& targets_;
};

/// The pairs of one relation in an image, in the order of the targets' net ids. The first word of a row is
/// the target's net id.
class PairRows {
public:
    explicit PairRows(const ImageCursor& value)
        : words_(value.parts() + 1),
          count_(value.parts()[0]),
          width_(value.layout().parts()[0].lanes.size()) {}

    /// Returns the words of the row with this target; null if there is none.
    const std::uint32_t* find(std::uint32_t target) const {
        std::size_t first = 0;
        std::size_t last = count_;
        while (first < last) {
            const std::size_t middle = first + (last - first) / 2;
            if ((*this)[middle][0] < target)
                first = middle + 1;
            else
                last = middle;
        }
        return first < count_ && (*this)[first][0] == target ? (*this)[first] : nullptr;
    }
    bool has_row(const std::uint32_t* row) const {
        const std::uint32_t* const found = find(row[0]);
        return found && std::equal(row, row + width_, found);
    }
    const std::uint32_t* operator[](std::size_t at) const { return words_ + at * width_; }
    std::size_t size() const { return count_; }

private:
    const std::uint32_t* words_;
    std::size_t count_, width_;
};

bool has_other_references(const Part& part) {
    return std::any_of(part.lanes.begin() + 1, part.lanes.end(),
                       [](const Lane& lane) { return lane.kind == LaneKind::reference; });
}

ecs::Entity target_of(const std::byte* row) {
    ecs::Entity target;
    std::memcpy(&target, row, sizeof target);
    return target;
}

}  // namespace

Binding::Binding(ecs::World& world, const Schema& schema) : world_(world), shapes_(schema) {
    schema.use();
    for (const SchemaComponent& component : schema.components()) {
        const ComponentIndex index = static_cast<ComponentIndex>(ids_.size());
        ids_.push_back(component.bind(world));
        const std::align_val_t align{component.align};
        memory_.push_back(component.construct ? ::operator new(component.size, align) : nullptr);
        if (!component.pairs) continue;
        component.construct(memory_.back());
        relations_.push_back(index);
        if (component.pairs.destroys_source) destroying_.push_back(index);
    }
}

Binding::~Binding() {
    for (const ComponentIndex relation : relations_) described(relation).destroy(memory_[relation]);
    for (std::size_t i = 0; i < memory_.size(); ++i) {
        const std::align_val_t align{schema().components()[i].align};
        if (memory_[i]) ::operator delete(memory_[i], align);
    }
}

/// Returns the value of a component, or the rows of a relation. Appends targets without net ids to targets_.
const void* Binding::value_of(ecs::Entity entity, ComponentIndex component, EntityMap& map) {
    if (!described(component).pairs) return world_.try_get(entity, ids_[component]);
    described(component).pairs.gather(world_, entity, map, targets_, memory_[component]);
    return memory_[component];
}

bool Binding::has(ecs::Entity entity, ComponentIndex component, EntityMap& map) {
    if (!described(component).pairs) return world_.has(entity, ids_[component]);
    const auto pairs = world_.pairs_of(entity, ids_[component]);
    return std::any_of(pairs.begin(), pairs.end(),
                       [&](const auto& pair) { return map.to_net(pair.target) != 0; });
}

const Shape* Binding::current_shape(ecs::Entity entity, EntityMap& map) {
    assert(world_.is_alive(entity));
    components_.clear();
    for (std::size_t i = 0; i < ids_.size(); ++i)
        if (const ComponentIndex component = static_cast<ComponentIndex>(i); has(entity, component, map))
            components_.push_back(component);
    return shapes_.shape(components_);
}

/// Returns the set of the entity's components: the shape of the last image, unless a component was added or
/// removed since.
const Shape* Binding::shape_of(ecs::Entity entity, const CaptureRequest& request, EntityMap& map) {
    const Shape* const before = request.before.shape;
    if (!before) return current_shape(entity, map);
    const auto moved = [&](ComponentIndex component) {
        return has(entity, component, map) != (before->find(component) != Shape::kAbsent);
    };
    const bool is_other =
        std::any_of(request.changed.begin(), request.changed.end(), moved) ||
        (request.references_changed && std::any_of(relations_.begin(), relations_.end(), moved));
    return is_other ? current_shape(entity, map) : before;
}

/// Copies the last image to words_, and quantises the changed components over the copy. Returns false if the
/// result is not the new image: a component was added or removed, or a changed component has parts or
/// references.
bool Binding::capture_lanes(ecs::Entity entity, const CaptureRequest& request, EntityMap& map) {
    const Shape* const shape = request.before.shape;
    if (!shape || request.references_changed) return false;
    words_.assign(request.before.words.begin(), request.before.words.end());
    const auto give_up = [&, misfits = misfits_] {
        misfits_ = misfits;  // all will be quantised again
        return false;
    };
    for (const ComponentIndex component : request.changed) {
        const ComponentLayout& layout = this->layout(component);
        if (!layout.has_only_lanes()) return give_up();
        const std::uint32_t position = shape->find(component);
        const void* const value = world_.try_get(entity, ids_[component]);
        if ((value != nullptr) != (position != Shape::kAbsent)) return give_up();
        if (value)
            layout.quantise(value, map, words_.data() + shape->lanes[position], parts_, misfits_, &stack_);
    }
    return true;
}

Binding::Capture Binding::capture(ecs::Entity entity, const CaptureRequest& request, EntityMap& map) {
    assert(world_.is_alive(entity));
    assert(std::is_sorted(request.changed.begin(), request.changed.end()));
    if (capture_lanes(entity, request, map)) return {{request.before.shape, words_}, false, {}};
    return capture_all(entity, request, map);
}

/// Builds the image from all components: quantises the changed ones, and copies the others.
Binding::Capture Binding::capture_all(ecs::Entity entity, const CaptureRequest& request, EntityMap& map) {
    const Shape* const shape = shape_of(entity, request, map);
    bool references = !request.before.shape || request.references_changed;
    for (const ComponentIndex component : request.changed)
        references = references || layout(component).has_references();
    words_.resize(shape->lane_words);
    parts_.clear();
    targets_.clear();
    for (const ComponentIndex relation : relations_)
        if (references && shape->find(relation) == Shape::kAbsent)
            value_of(entity, relation, map);  // fills targets_
    TargetRecorder recorder(map, targets_);
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
            layout.quantise(value_of(entity, component, map), recorder, lanes, parts_, misfits_, &stack_);
        } else {
            std::copy_n(before.lanes(), layout.lanes().size(), lanes);
            parts_.insert(parts_.end(), before.parts(), before.parts() + before.part_words());
        }
    }
    words_.insert(words_.end(), parts_.begin(), parts_.end());
    return {{shape, words_}, references, targets_};
}

bool Binding::capture_component(ecs::Entity entity, ComponentIndex component, EntityMap& map,
                                std::vector<std::uint32_t>& words) {
    assert(world_.is_alive(entity));
    words.clear();
    if (!has(entity, component, map)) return false;
    const ComponentLayout& layout = this->layout(component);
    if (layout.empty()) return true;
    parts_.clear();
    words.resize(layout.lanes().size());
    layout.quantise(value_of(entity, component, map), map, words.data(), parts_, misfits_, &stack_);
    words.insert(words.end(), parts_.begin(), parts_.end());
    return true;
}

void Binding::restore(ecs::Entity entity, const Image& now, const Image& before, EntityMap& map,
                      bool references_changed, std::span<const ComponentIndex> held) {
    assert(world_.is_alive(entity));
    components_.clear();
    ImageCursor old(schema(), before);
    for (ImageCursor value(schema(), now); !value.at_end(); value.next()) {
        const ComponentIndex component = value.component();
        const ComponentLayout& layout = value.layout();
        const bool known = old.seek(component);
        const bool is_stale = references_changed && layout.has_references();
        // Without memory for a value: it is of an empty type, or only a recording knows it.
        if (known && (!memory_[component] || layout.empty() || (same_value(old, value) && !is_stale)))
            continue;
        if (is_in(held, component)) continue;
        if (described(component).pairs) {
            add_pairs(entity, value, known ? &old : nullptr, map, references_changed);
        } else {
            restore_value(entity, value, known, map);
        }
    }
    set_added(entity);
}

/// Writes a component in place if the entity has it, or else prepares it to be added. `is_known`: the entity
/// probably has it.
void Binding::restore_value(ecs::Entity entity, const ImageCursor& value, bool is_known, EntityMap& map) {
    const ComponentIndex component = value.component();
    const auto write = [&](void* at) {
        value.layout().restore(value.lanes(), value.parts(), map, at, &stack_);
    };
    if (is_known && world_.patch(entity, ids_[component], write)) return;
    if (void* at = memory_[component]) {
        described(component).construct(at);
        write(at);
    }
    components_.push_back(component);
    added_ids_.push_back(ids_[component]);
    added_values_.push_back(memory_[component]);
}

void Binding::set_added(ecs::Entity entity) {
    if (!added_ids_.empty()) world_.set(entity, added_ids_, added_values_);
    for (const ComponentIndex component : components_)
        if (described(component).adopt) described(component).adopt(world_, entity);
    for (const ComponentIndex component : components_)
        if (memory_[component]) described(component).destroy(memory_[component]);
    added_ids_.clear();
    added_values_.clear();
}

void Binding::restore_component(ecs::Entity entity, const Image& image, ComponentIndex component,
                                EntityMap& map) {
    assert(world_.is_alive(entity) && image.shape);
    components_.clear();
    const bool is_relation = static_cast<bool>(described(component).pairs);
    ImageCursor value(schema(), image);
    if (value.seek(component)) {
        if (is_relation) {
            add_pairs(entity, value, nullptr, map, false);
        } else if (!value.layout().empty() || !world_.has(entity, ids_[component])) {
            restore_value(entity, value, true, map);
        }
        set_added(entity);
        if (is_relation && described(component).pairs.is_exclusive) replace_target(entity, value, map);
    } else if (!is_relation) {
        world_.remove(entity, ids_[component]);
    }
    if (is_relation && world_.is_alive(entity)) remove_other_pairs(entity, component, image, map);
}

/// Restores the rows of a relation. Returns the first one.
std::byte* Binding::restore_rows(const ImageCursor& now, EntityMap& map) {
    void* const rows = memory_[now.component()];
    now.layout().restore(now.lanes(), now.parts(), map, rows, &stack_);
    return static_cast<std::byte*>(now.layout().parts()[0].ops.resize(rows, now.parts()[0]));
}

/// Writes the pairs whose value changed, and prepares new pairs to be set. Leaves out a pair whose target is
/// not in the world. Leaves out the new target of an exclusive relation if the source has another target:
/// finish() replaces it.
void Binding::add_pairs(ecs::Entity source, const ImageCursor& now, const ImageCursor* before, EntityMap& map,
                        bool references_changed) {
    const ComponentIndex relation = now.component();
    const PairOps& ops = described(relation).pairs;
    const Part& part = now.layout().parts()[0];
    std::byte* row = restore_rows(now, map);
    const PairRows rows(now);
    const bool is_stale = references_changed && has_other_references(part);
    for (std::size_t i = 0; i < rows.size(); ++i, row += part.stride) {
        if (!target_of(row)) continue;
        const ecs::ComponentId pair = world_.pair_id(ids_[relation], target_of(row));
        const bool is_there = world_.has(source, pair);
        const bool is_equal =
            ops.value_offset == 0 || (before && !is_stale && PairRows(*before).has_row(rows[i]));
        if (is_there && is_equal) continue;
        const auto write = [&](void* at) { now.layout().restore_pair(rows[i], ops.value_offset, map, at); };
        if (is_there && world_.patch(source, pair, write)) continue;
        if (!is_there && ops.is_exclusive && !world_.pairs_of(source, ids_[relation]).empty()) continue;
        added_ids_.push_back(pair);
        added_values_.push_back(ops.value_offset == 0 ? nullptr : row + ops.value_offset);
    }
}

void Binding::finish(ecs::Entity entity, const Image& now, const Image& before, EntityMap& map,
                     bool references_changed, std::span<const ComponentIndex> held) {
    assert(now.shape);
    if (before.shape && before.shape != now.shape)
        for (const ComponentIndex component : before.shape->components)
            if (now.shape->find(component) == Shape::kAbsent && !described(component).pairs &&
                !is_in(held, component) && world_.is_alive(entity))
                world_.remove(entity, ids_[component]);
    if (before.shape && before.shape->has_pairs)
        for (ImageCursor old(schema(), before); !old.at_end(); old.next())
            if (described(old.component()).pairs && !is_in(held, old.component()))
                remove_pairs(entity, old, now, map);
    if (!now.shape->has_pairs) return;
    ImageCursor old(schema(), before);
    for (ImageCursor value(schema(), now); !value.at_end(); value.next())
        if (described(value.component()).pairs.is_exclusive && !is_in(held, value.component()) &&
            (references_changed || !old.seek(value.component()) || !same_value(old, value)))
            replace_target(entity, value, map);
}

/// Removes the pairs of a relation that `now` does not have, unless replace_target() will do it.
void Binding::remove_pairs(ecs::Entity source, const ImageCursor& before, const Image& now, EntityMap& map) {
    const ComponentIndex relation = before.component();
    const PairRows rows(before);
    if (described(relation).pairs.is_exclusive) {
        ImageCursor next(schema(), now);
        if (next.seek(relation) && next.parts()[0] != 0 && map.to_entity(PairRows(next)[0][0])) return;
    }
    for (std::size_t i = 0; i < rows.size() && world_.is_alive(source); ++i) {
        const std::uint32_t net_id = rows[i][0];
        const ecs::Entity target = map.to_entity(net_id);
        if (!target || has_pair(now, relation, net_id)) continue;
        if (const ecs::ComponentId pair = world_.pair_id(ids_[relation], target); world_.has(source, pair))
            world_.remove(source, pair);
    }
}

/// Sets the target of an exclusive relation if the source has another target in the world.
void Binding::replace_target(ecs::Entity source, const ImageCursor& now, EntityMap& map) {
    const ComponentIndex relation = now.component();
    const PairOps& ops = described(relation).pairs;
    if (now.parts()[0] == 0 || !world_.is_alive(source)) return;
    std::byte* const row = restore_rows(now, map);
    if (!target_of(row)) return;
    const ecs::ComponentId pair = world_.pair_id(ids_[relation], target_of(row));
    if (world_.has(source, pair)) return;
    world_.set(source, pair, ops.value_offset == 0 ? nullptr : row + ops.value_offset);
}

bool Binding::has_pair(const Image& image, ComponentIndex relation, std::uint32_t target) const {
    ImageCursor value(schema(), image);
    return value.seek(relation) && PairRows(value).find(target) != nullptr;
}

void Binding::remove_other_pairs(ecs::Entity source, ComponentIndex relation, const Image& now,
                                 EntityMap& map) {
    targets_.clear();
    for (const auto& pair : world_.pairs_of(source, ids_[relation]))
        if (!has_pair(now, relation, map.to_net(pair.target))) targets_.push_back(pair.target);
    for (const ecs::Entity target : targets_) {
        if (!world_.is_alive(source)) return;
        if (world_.is_alive(target)) world_.remove(source, world_.pair_id(ids_[relation], target));
    }
}

void Binding::remove_pairs_to(ecs::Entity source, const Image& now, ecs::Entity target, std::uint32_t net_id,
                              std::span<const ComponentIndex> held) {
    for (const ComponentIndex relation : relations_) {
        if (!world_.is_alive(source) || !world_.is_alive(target)) return;
        if (is_in(held, relation) || !has_pair(now, relation, net_id)) continue;
        const ecs::ComponentId pair = world_.components().pairs().find(ids_[relation], target);
        if (pair && world_.has(source, pair)) world_.remove(source, pair);
    }
}

void Binding::remove_others(ecs::Entity entity, const Image& now, EntityMap& map,
                            std::span<const ComponentIndex> held) {
    assert(now.shape);
    for (std::size_t i = 0; i < ids_.size() && world_.is_alive(entity); ++i) {
        const auto component = static_cast<ComponentIndex>(i);
        if (now.shape->find(component) == Shape::kAbsent && !is_in(held, component) &&
            world_.has(entity, ids_[i]))
            world_.remove(entity, ids_[i]);
    }
    for (const ComponentIndex relation : relations_)
        if (!is_in(held, relation)) remove_other_pairs(entity, relation, now, map);
}

}  // namespace shoal::replication::impl
