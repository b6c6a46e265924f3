#pragma once
// Which archetype a row goes to when its entity gets or loses components.

#include <cstdint>
#include <span>
#include <vector>

#include "archetype.h"
#include "component.h"
#include "entity.h"

namespace shoal::ecs {

/// Where a component of an entity is; false if nowhere.
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

/// The archetypes of a world, made when first needed. Edges lead from each to those with one component more
/// or less, so that a row's way is looked up once for each pair of archetypes.
class ArchetypeGraph : public ArchetypeList {
public:
    /// Begins with the archetype that has no components, at index 0.
    explicit ArchetypeGraph(ComponentTable& components);

    /// The archetype with exactly these components.
    Archetype& of(std::span<const ComponentId> sorted);

    /// The same by types. `pack` must be a static array, one for each list of types; `hash` is that of their
    /// names.
    Archetype& of(std::span<const TypeTag* const> pack, std::uint32_t hash);

    /// Where a component is of an entity that is at this place.
    static Cell cell(EntityTable::Place place, const KnownComponent& component) {
        return {component.column(place.archetype), place.row};
    }
    Cell cell(EntityTable::Place place, ComponentId id) const {
        return id.is_pair() ? pair_cell(place, id) : cell(place, components_[id]);
    }
    Cell pair_cell(EntityTable::Place place, ComponentId id) const;

    /// Where entities of `from` go that get one component. `from` itself if it has the component.
    Archetype& with(Archetype& from, ComponentId id) {
        Archetype* const known = from.edge(id).with;
        return known != nullptr ? *known : after(from, {}, {&id, 1});
    }

    /// Where entities of `from` go that lose one component. `from` itself if it lacks the component.
    Archetype& without(Archetype& from, ComponentId id) {
        Archetype* const known = from.edge(id).without;
        return known != nullptr ? *known : after(from, {&id, 1}, {});
    }

    /// Where entities of `from` go that lose some components and then get some.
    Archetype& after(Archetype& from, std::span<const ComponentId> removed,
                     std::span<const ComponentId> added);

    /// All entities that have the pair, archetype by archetype.
    std::vector<Entity> entities_with(ComponentId pair) const;

    /// Frees all archetypes that have one of these pairs. Requires that they are empty.
    void free_pairs(std::span<const ComponentId> ids);

private:
    Archetype& find_after(Archetype& from, std::span<const ComponentId> removed,
                          std::span<const ComponentId> added);

    ComponentTable& components_;
    AddressMap packs_;                 // to indices of archetypes
    std::vector<ComponentId> wanted_;  // scratch
};

}  // namespace shoal::ecs
