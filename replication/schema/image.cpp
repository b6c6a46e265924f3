#include "image.h"

#include <algorithm>
#include <cassert>

namespace shoal::replication::impl {
namespace {

constexpr std::uint32_t kReplicaBytes = 1024;         // an entity without components
constexpr std::uint32_t kReferenceBytes = 64;         // a reference, so that it is found by its net id
constexpr std::uint32_t kNodeBytes = 64;              // an entry of a map, beside its value
constexpr std::uint32_t kAllocationBytes = 32;        // an allocation of a string, vector or map
constexpr std::uint32_t kArchetypeBytes = 16 * 1024;  // an archetype: 1.5 kB of memory, and time

/// Returns the view classes that see new values of the component. The owner does not see new values of a
/// component with from_owner(). If its viewers include to_others(), this class is enough: every peer but the
/// owner is in it, while the owner can also be in a group.
ViewClasses viewers_of_value(const Schema& schema, ComponentIndex index) {
    const SchemaComponent& component = schema.components()[index];
    if (component.role != Role::owner) return component.viewers;
    if (overlap(component.viewers, to_others())) return to_others();
    return component.viewers & (to_all_groups() | to_predictors());
}

/// Fills `words` with the lanes and then the parts of the components of an image. for_each(append) calls
/// append(cursor) for each component, in order.
template <class ForEach>
Image joined(const Shape* shape, std::vector<std::uint32_t>& words, ForEach&& for_each) {
    words.clear();
    for_each([&](const ImageCursor& value) {
        words.insert(words.end(), value.lanes(), value.lanes() + value.layout().lanes().size());
    });
    for_each([&](const ImageCursor& value) {
        words.insert(words.end(), value.parts(), value.parts() + value.part_words());
    });
    return {shape, words};
}

/// Sets `index` to that of a time, unless it is that of a shorter one.
void set_shortest(std::uint8_t& index, const std::vector<double>& all, const std::optional<double>& time) {
    if (!time) return;
    const auto at = static_cast<std::uint8_t>(std::ranges::lower_bound(all, *time) - all.begin());
    if (index == 0 || at < index) index = at;
}

}  // namespace

std::uint32_t Shape::search(ComponentIndex component) const {
    const auto found = std::lower_bound(components.begin(), components.end(), component);
    if (found == components.end() || *found != component) return kAbsent;
    return static_cast<std::uint32_t>(found - components.begin());
}

bool ShapeTable::Less::operator()(std::span<const ComponentIndex> a,
                                  std::span<const ComponentIndex> b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

const Shape* ShapeTable::shape(std::span<const ComponentIndex> components) {
    if (const auto found = shapes_.find(components); found != shapes_.end()) return found->second.get();
    auto shape = std::make_unique<Shape>();
    shape->components.assign(components.begin(), components.end());
    bool is_displayed = false, is_in_group = false, is_predicted = false;
    shape->cost = kReplicaBytes;
    for (const ComponentIndex index : components) {
        const SchemaComponent& component = schema_.components()[index];
        const ComponentLayout& layout = component.layout;
        shape->lanes.push_back(shape->lane_words);
        shape->lane_words += static_cast<std::uint32_t>(layout.lanes().size());
        shape->cost += component.is_tag ? 0 : component.size;
        shape->has_parts |= !layout.parts().empty();
        shape->has_references |= layout.has_references();
        shape->has_pairs |= static_cast<bool>(component.pairs);
        shape->has_optional |= component.is_optional;
        shape->has_owned |= component.role == Role::owner;
        set_shortest(shape->interval, schema_.intervals(), component.interval);
        set_shortest(shape->goal, schema_.goals(), component.goal);
        if (component.type == &type_address<OwnerState>)
            shape->owner_state = static_cast<std::uint32_t>(shape->lanes.size() - 1);
        shape->is_restricted |= component.viewers != to_everyone() || component.role == Role::owner;
        is_displayed |= component.display.kind != Display::Kind::step;
        is_in_group |= component.type == &type_address<Mine> || component.type == &type_address<ToPredict>;
        is_predicted |= component.role == Role::predicted;
    }
    shape->is_delayed = is_displayed && !(is_in_group && is_predicted);
    if (is_in_group && is_predicted) shape->cost += kPredictedBytes;
    bytes_ += bytes_of(*shape);
    const std::span<const ComponentIndex> key = shape->components;
    return shapes_.emplace(key, std::move(shape)).first->second.get();
}

std::size_t ShapeTable::bytes_of(const Shape& shape) {
    constexpr std::size_t kNode = 64;  // size of a node of the map: its links, the key and the pointer
    return kNode + kArchetypeBytes + sizeof(Shape) +
           shape.components.size() * (sizeof(ComponentIndex) + sizeof(std::uint32_t));
}

void ShapeTable::drop_unused(std::size_t most) {
    if (shapes_.size() <= most) return;
    std::erase_if(shapes_, [&](const auto& entry) {
        if (entry.second->versions != 0) return false;
        bytes_ -= bytes_of(*entry.second);
        return true;
    });
    most_shapes_ = std::max(kFewShapes, 2 * shapes_.size());
}

OwnerState owner_state(const Image& image) {
    if (!image.shape || image.shape->owner_state == Shape::kAbsent) return {};
    const std::uint32_t* const lanes = image.lanes(image.shape->owner_state);
    return {static_cast<std::uint16_t>(lanes[0]), lanes[1]};
}

std::size_t cost_of(const Schema& schema, const Image& image) {
    std::size_t bytes = image.shape->cost;
    if (!image.shape->has_parts && !image.shape->has_references) return bytes;
    for (ImageCursor value(schema, image); !value.at_end(); value.next()) {
        const bool is_relation = static_cast<bool>(schema.components()[value.component()].pairs);
        const std::uint32_t* words = value.parts();
        for (const Part& part : value.layout().parts()) {
            const std::size_t element = part.stride + part.children.size() * kAllocationBytes +
                                        (part.ops.write ? kNodeBytes : 0) + (is_relation ? kPairBytes : 0);
            bytes += *words * element + kAllocationBytes;
            words = part.end(words);
        }
        value.layout().for_each_reference(value.lanes(), value.parts(),
                                          [&](std::uint32_t) { bytes += kReferenceBytes; });
    }
    return bytes;
}

std::uint16_t check_sum(const Schema& schema, const Image& image) {
    std::uint32_t sum = 0x811c9dc5;
    const auto mix = [&](std::uint32_t word) { sum = (sum ^ word) * 0x01000193; };
    for (ImageCursor value(schema, image); !value.at_end(); value.next()) {
        if (schema.components()[value.component()].role == Role::owner) continue;
        mix(value.component());
        std::for_each_n(value.lanes(), value.layout().lanes().size(), mix);
        std::for_each_n(value.parts(), value.part_words(), mix);
    }
    return static_cast<std::uint16_t>(sum ^ sum >> 16);
}

bool operator==(const Image& a, const Image& b) {
    return a.shape == b.shape && std::equal(a.words.begin(), a.words.end(), b.words.begin(), b.words.end());
}

bool same_value(const ImageCursor& a, const ImageCursor& b) {
    assert(a.component() == b.component());
    const std::size_t lanes = a.layout().lanes().size();
    if (!std::equal(a.lanes(), a.lanes() + lanes, b.lanes())) return false;
    const std::size_t words = a.part_words();
    return words == b.part_words() && std::equal(a.parts(), a.parts() + words, b.parts());
}

ViewClasses viewers_of_change(const Schema& schema, const Image& before, const Image& now) {
    ViewClasses viewers;
    const auto add = [&](ComponentIndex index) { viewers = viewers | schema.components()[index].viewers; };
    ImageCursor old(schema, before), value(schema, now);
    while (!old.at_end() || !value.at_end()) {
        if (value.at_end() || (!old.at_end() && old.component() < value.component())) {
            add(old.component());
            old.next();
        } else if (old.at_end() || value.component() < old.component()) {
            add(value.component());
            value.next();
        } else {
            if (!same_value(old, value)) viewers = viewers | viewers_of_value(schema, value.component());
            old.next();
            value.next();
        }
    }
    return viewers;
}

Image visible_part(const Image& image, const View& view, ShapeTable& shapes,
                   std::vector<std::uint32_t>& words) {
    const Schema& schema = shapes.schema();
    ComponentIndex visible[kMaxComponents];
    std::size_t count = 0;
    for (const ComponentIndex index : image.shape->components)
        if (view.shows(schema, index)) visible[count++] = index;
    return joined(shapes.shape({visible, count}), words, [&](auto&& append) {
        for (ImageCursor value(schema, image); !value.at_end(); value.next())
            if (view.shows(schema, value.component())) append(value);
    });
}

Image keep_owned(const Schema& schema, const Image& before, const Image& now,
                 std::vector<std::uint32_t>& words) {
    return joined(now.shape, words, [&](auto&& append) {
        ImageCursor old(schema, before);
        for (ImageCursor value(schema, now); !value.at_end(); value.next()) {
            const bool is_owned = schema.components()[value.component()].role == Role::owner;
            append(is_owned && old.seek(value.component()) ? old : value);
        }
    });
}

}  // namespace shoal::replication::impl
