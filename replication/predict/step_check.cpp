#include "step_check.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstring>
#include <utility>

#include "../play/struct_codec.h"

namespace shoal::replication::impl {
namespace {

std::size_t bytes_of(const Leaf& leaf) {
    return leaf.scalars * size_of(leaf.type);
}

/// Copies the fields that replicate. Other fields do not get back their values when a client runs a tick
/// again.
void copy_fields(const ComponentLayout& layout, const void* from, void* to) {
    for (const Leaf& leaf : layout.leaves())
        std::memcpy(static_cast<std::byte*>(to) + leaf.offset,
                    static_cast<const std::byte*>(from) + leaf.offset, bytes_of(leaf));
}

bool same_fields(const ComponentLayout& layout, const void* a, const void* b) {
    return std::all_of(layout.leaves().begin(), layout.leaves().end(), [&](const Leaf& leaf) {
        return std::memcmp(static_cast<const std::byte*>(a) + leaf.offset,
                           static_cast<const std::byte*>(b) + leaf.offset, bytes_of(leaf)) == 0;
    });
}

std::string text_of(const ComponentLayout& layout, const std::byte* value) {
    std::string out = "{";
    for (const Leaf& leaf : layout.leaves())
        for (std::uint32_t i = 0; i < leaf.scalars; ++i) {
            char text[32];
            std::snprintf(text, sizeof text, "%s%.17g", out.size() > 1 ? ", " : "",
                          load_scalar(leaf, value, i));
            out += text;
        }
    return out + "}";
}

}  // namespace

StepCheck::StepCheck(ecs::World& world, const Schema& schema, Tick every, OnStepFault on_fault)
    : world_(world),
      schema_(schema),
      every_(every),
      on_fault_(std::move(on_fault)),
      writes_(world),
      stepped_(world) {
    assert(every >= 1 && on_fault_);
    for (const SchemaComponent& component : schema.components()) {
        if (component.role != Role::predicted) continue;
        predicted_.push_back({&component, component.bind(world), value_bytes_});
        value_bytes_ += component.size;
    }
}

void StepCheck::run(Tick tick, const std::function<void(bool is_new)>& step) {
    watch_new_components();
    entities_.clear();
    stepped_.each([&](ecs::Entity entity) { entities_.push_back(entity); });
    save(before_);
    writes_.clear();
    step(true);
    report_writes(tick);
    save(first_);
    restore(before_);
    step(false);
    save(second_);
    if (report_differences(tick)) restore(first_);
    writes_.clear();
}

/// The game may register components at any time.
void StepCheck::watch_new_components() {
    for (std::uint32_t id = writes_.watch_count(); id < world_.components().size(); ++id)
        writes_.watch(ecs::ComponentId{id});
}

void StepCheck::save(std::vector<Saved>& out) {
    out.resize(entities_.size());
    for (std::size_t i = 0; i < entities_.size(); ++i) {
        Saved& saved = out[i];
        saved.entity = entities_[i];
        saved.present.assign(predicted_.size(), false);
        saved.values.assign(value_bytes_, std::byte{});
        if (!world_.is_alive(saved.entity)) continue;
        for (std::size_t n = 0; n < predicted_.size(); ++n) {
            const Component& component = predicted_[n];
            const void* const value = world_.try_get(saved.entity, component.id);
            if (!value) continue;
            saved.present[n] = true;
            copy_fields(component.described->layout, value, saved.values.data() + component.offset);
        }
    }
}

void StepCheck::restore(const std::vector<Saved>& all) {
    for (const Saved& saved : all)
        for (std::size_t n = 0; n < predicted_.size(); ++n) {
            if (!world_.is_alive(saved.entity)) break;
            const Component& component = predicted_[n];
            const ComponentLayout& layout = component.described->layout;
            const std::byte* const value = saved.values.data() + component.offset;
            if (!saved.present[n]) {
                world_.remove(saved.entity, std::span(&component.id, 1));
            } else if (world_.has(saved.entity, component.id)) {
                world_.patch(saved.entity, component.id, [&](void* now) {
                    if (same_fields(layout, value, now)) return false;
                    copy_fields(layout, value, now);
                    return true;
                });
            } else {
                StructValue added(*component.described);
                copy_fields(layout, value, added.get());
                world_.add(saved.entity, component.id, added.get());
            }
        }
}

bool StepCheck::may_write(ecs::Entity entity, ecs::ComponentId id) const {
    const bool is_stepped = std::find(entities_.begin(), entities_.end(), entity) != entities_.end();
    return is_stepped && std::any_of(predicted_.begin(), predicted_.end(),
                                     [&](const Component& component) { return component.id == id; });
}

std::string_view StepCheck::name_of(ecs::ComponentId id) const {
    for (const SchemaComponent& component : schema_.components())
        if (component.bind(world_) == id) return component.name;
    return world_.components()[id].name;
}

void StepCheck::report_writes(Tick tick) {
    for (const ecs::ChangeCollector::Change change : writes_.changes())
        change.for_each([&](std::uint32_t watch) {
            const ecs::ComponentId id = writes_.watched(watch);
            if (may_write(change.entity, id)) return;
            on_fault_({StepFault::Kind::write, tick, change.entity, name_of(id), {}, {}});
        });
    for (const ecs::Entity entity : writes_.destroyed())
        on_fault_({StepFault::Kind::destroy, tick, entity, {}, {}, {}});
}

/// Returns whether there was a difference.
bool StepCheck::report_differences(Tick tick) {
    bool is_found = false;
    for (std::size_t i = 0; i < entities_.size(); ++i)
        for (std::size_t n = 0; n < predicted_.size(); ++n) {
            const Saved &a = first_[i], &b = second_[i];
            const SchemaComponent& described = *predicted_[n].described;
            const std::byte *const of_a = a.values.data() + predicted_[n].offset, *const of_b =
                                                                                      b.values.data() +
                                                                                      predicted_[n].offset;
            if (a.present[n] == b.present[n] && same_fields(described.layout, of_a, of_b)) continue;
            is_found = true;
            const auto text = [&](bool is_present, const std::byte* value) {
                return is_present ? text_of(described.layout, value) : "absent";
            };
            on_fault_({StepFault::Kind::difference, tick, entities_[i], described.name,
                       text(a.present[n], of_a), text(b.present[n], of_b)});
        }
    return is_found;
}

}  // namespace shoal::replication::impl
