#pragma once
// Finds the archetype that a row moves to when its entity gets or loses components.

#include <cstdint>
#include <span>
#include <vector>

#include "archetype.h"
#include "component.h"
#include "entity.h"

namespace shoal::ecs::impl {

/// The column and row of a component of an entity; converts to false if the entity lacks it.
struct Cell {
    Column* column = nullptr;
    std::uint32_t row = 0;

    explicit operator bool() const { return column != nullptr; }
    void* at() const { return column->at(row); }
    template <class T>
    T& value() const {
        return column->value<T>(row);
    }
};

/// The archetypes of a world, created when first needed. A step leads from an archetype to an archetype with
/// one component more or less. Steps are stored, so that each is looked up only once.
class ArchetypeGraph : public ArchetypeList {
public:
    /// Creates the archetype without components, at index 0.
    explicit ArchetypeGraph(ComponentTable& components);

    /// The archetype with exactly these components.
    Archetype& of(std::span<const ComponentId> sorted);

    /// The archetype that of() returned for this key; null if of() was not called.
    Archetype* find_pack(std::uint64_t key) const {
        const std::uint32_t known = packs_.find(key);
        return known != KeyMap::kAbsent ? &(*this)[known] : nullptr;
    }
    /// The archetype with exactly these types. Requires that find_pack(key) is null; no other list of types
    /// may have this key.
    Archetype& of(std::span<const TypeTag* const> pack, std::uint64_t key);

    /// The cell of a component of the entity at `place`.
    static Cell cell(EntityTable::Place place, const KnownComponent& component) {
        return {component.column(place.archetype), place.row};
    }
    Cell cell(EntityTable::Place place, ComponentId id) const {
        return id.is_pair() ? pair_cell(place, id) : cell(place, components_[id]);
    }
    Cell pair_cell(EntityTable::Place place, ComponentId id) const;

    /// The step that adds a component to the entities of the archetype with this index. The archetype must
    /// lack the component. Valid until the next structural change.
    const ArchetypeStep& step_with(std::uint32_t archetype, const KnownComponent& component) {
        const ArchetypeStep& last = component.last_step;
        return last.index_without == archetype ? last : find_step(archetype, component.id);
    }

    /// The step that removes a component from entities of the archetype with this index, which has it.
    /// Valid until the next structural change.
    const ArchetypeStep& step_without(std::uint32_t archetype, const KnownComponent& component) {
        const ArchetypeStep& last = component.last_step;
        return last.index_with == archetype ? last : find_step(archetype, component.id);
    }

    /// The archetype with the components of `from` without `removed`, and with `added`.
    Archetype& after(Archetype& from, std::span<const ComponentId> removed,
                     std::span<const ComponentId> added);

    /// All entities that have the pair. Requires an id for which PairTable::find() is not null.
    std::vector<Entity> entities_with(ComponentId pair) const;

    /// Frees all archetypes that have one of these pairs. Requires that they are empty.
    void free_pairs(std::span<const ComponentId> ids);

    /// Call it when an entity has left the archetype or was destroyed.
    void free_if_rare(Archetype& archetype) {
        if (archetype.size() == 0 && archetype.is_rare()) free(archetype);
    }

    /// Frees all archetypes without rows, except the one without components.
    void free_empty();

private:
    void free(Archetype& archetype);
    const ArchetypeStep& find_step(std::uint32_t archetype, ComponentId id);
    Archetype& find_after(Archetype& from, std::span<const ComponentId> removed,
                          std::span<const ComponentId> added);

    ComponentTable& components_;
    KeyMap packs_;                     // index of the archetype of a list of types, by its key, see of()
    std::vector<ComponentId> wanted_;  // scratch of find_after()
};

}  // namespace shoal::ecs::impl
