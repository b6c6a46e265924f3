#pragma once
// A schema in use with a world: reads and writes the components of the world's entities as images.

#include <span>
#include <vector>

#include "../../ecs/world.h"
#include "image.h"
#include "schema.h"

namespace shoal::replication::impl {

/// Owns the shapes of all images of the world's entities. World and schema must outlive the binding. Not
/// thread-safe.
class Binding {
public:
    /// Registers the schema's components with the world. No declaration may follow. A schema with an error
    /// stops the program with a message.
    Binding(ecs::World& world, const Schema& schema);
    ~Binding();
    Binding(const Binding&) = delete;
    Binding& operator=(const Binding&) = delete;

    ecs::World& world() const { return world_; }
    const Schema& schema() const { return shapes_.schema(); }
    ShapeTable& shapes() { return shapes_; }
    /// The components' ids in the world, by ComponentIndex.
    std::span<const ecs::ComponentId> ids() const { return ids_; }

    /// Returns the shape of the schema's components that a living entity has. It has a relation if a target
    /// has a net id.
    const Shape* current_shape(ecs::Entity entity, EntityMap& map);

    /// The work for capture().
    struct CaptureRequest {
        Image before;  // the last image of the entity; without a shape, all components are captured
        std::span<const ComponentIndex> changed;  // ascending: components to capture
        bool references_changed = false;          // capture all components with references, too
    };
    /// The result of capture(). Valid until the next call.
    struct Capture {
        Image image;
        bool has_targets = false;  // true: `targets` are all entities that the entity refers to; false: the
                                   // targets did not change
        std::span<const ecs::Entity> targets;
    };
    /// Quantises the changed components of a living entity, and takes the other components from the last
    /// image. `map` gives the net ids of references.
    Capture capture(ecs::Entity entity, const CaptureRequest& request, EntityMap& map);

    /// Quantises one component of a living entity, with its pairs if it is a relation: fills `words` with
    /// lanes and parts. Returns false if the entity does not have it.
    bool capture_component(ecs::Entity entity, ComponentIndex component, EntityMap& map,
                           std::vector<std::uint32_t>& words);

    /// How many values did not fit their codecs, in all captures. A value counts each time it is quantised.
    const ComponentLayout::Misfits& misfits() const { return misfits_; }

    /// Writes to a living entity the components of `now` that differ from `before`: changed ones in place,
    /// then all new ones in one operation. A new singleton becomes the world's singleton. Components that the
    /// entity lost in the meantime count as new. `before` has no shape if nothing was written yet. If
    /// `references_changed`, components with references are written although their lanes are equal, because
    /// `map` translates them differently now. Components and pairs that `now` does not have, and the target
    /// of an exclusive relation, stay until finish(). The components in `held`, ascending, are left as they
    /// are.
    void restore(ecs::Entity entity, const Image& now, const Image& before, EntityMap& map,
                 bool references_changed, std::span<const ComponentIndex> held = {});

    /// Makes the changes that restore() left out, because they call remove hooks: removes the components and
    /// pairs of `before` that `now` does not have, and replaces the targets of exclusive relations. A hook
    /// may destroy the entity. `held`: see restore().
    void finish(ecs::Entity entity, const Image& now, const Image& before, EntityMap& map,
                bool references_changed, std::span<const ComponentIndex> held = {});

    /// Sets one component of a living entity to its value in the image, or removes it if the image does not
    /// have it. For a relation, sets all its pairs. A hook may destroy the entity.
    void restore_component(ecs::Entity entity, const Image& image, ComponentIndex component, EntityMap& map);

    /// Returns whether the image has a pair of the relation with the target of this net id.
    bool has_pair(const Image& image, ComponentIndex relation, std::uint32_t target) const;
    /// The relations with destroy_with_target.
    std::span<const ComponentIndex> destroying_relations() const { return destroying_; }

    /// Removes from `source` the pairs of `now` whose target has this net id. Until now, `target` was the
    /// entity with this net id. Keeps pairs of relations in `held`. A hook of the removal may destroy either
    /// entity.
    void remove_pairs_to(ecs::Entity source, const Image& now, ecs::Entity target, std::uint32_t net_id,
                         std::span<const ComponentIndex> held);

    /// Removes all components of the schema that `now` does not have, except those in `held`. A hook of the
    /// removal may destroy the entity.
    void remove_others(ecs::Entity entity, const Image& now, EntityMap& map,
                       std::span<const ComponentIndex> held = {});

    /// Calls fn(net_id) for each reference of an image that is not null; more than once if it occurs twice.
    template <class Fn>
    void for_each_reference(const Image& image, Fn&& fn) const {
        if (!image.shape || !image.shape->has_references) return;
        for (ImageCursor value(schema(), image); !value.at_end(); value.next())
            value.layout().for_each_reference(value.lanes(), value.parts(), fn);
    }

private:
    const void* value_of(ecs::Entity entity, ComponentIndex component, EntityMap& map);
    bool has(ecs::Entity entity, ComponentIndex component, EntityMap& map);
    const Shape* shape_of(ecs::Entity entity, const CaptureRequest& request, EntityMap& map);
    bool capture_lanes(ecs::Entity entity, const CaptureRequest& request, EntityMap& map);
    Capture capture_all(ecs::Entity entity, const CaptureRequest& request, EntityMap& map);
    void restore_value(ecs::Entity entity, const ImageCursor& value, bool is_known, EntityMap& map);
    void set_added(ecs::Entity entity);
    std::byte* restore_rows(const ImageCursor& now, EntityMap& map);
    void add_pairs(ecs::Entity source, const ImageCursor& now, const ImageCursor* before, EntityMap& map,
                   bool references_changed);
    void remove_pairs(ecs::Entity source, const ImageCursor& before, const Image& now, EntityMap& map);
    void remove_other_pairs(ecs::Entity source, ComponentIndex relation, const Image& now, EntityMap& map);
    void replace_target(ecs::Entity source, const ImageCursor& now, EntityMap& map);
    const SchemaComponent& described(ComponentIndex component) const {
        return schema().components()[component];
    }
    const ComponentLayout& layout(ComponentIndex component) const { return described(component).layout; }

    ecs::World& world_;
    ShapeTable shapes_;
    std::vector<ecs::ComponentId> ids_;
    // By ComponentIndex: memory for one value, not constructed; null for a component of an empty type. For a
    // relation: a constructed vector of PairRow.
    std::vector<void*> memory_;
    std::vector<ComponentIndex> relations_, destroying_;

    // Scratch of the current call.
    std::vector<ComponentIndex> components_;
    std::vector<ecs::ComponentId> added_ids_;
    std::vector<void*> added_values_;
    std::vector<std::uint32_t> words_, parts_;  // words of the captured image
    std::vector<ecs::Entity> targets_;
    PointerStack stack_;

    ComponentLayout::Misfits misfits_;
};

}  // namespace shoal::replication::impl
