#include "archetype_graph.h"

#include <algorithm>

namespace shoal::ecs::impl {

ArchetypeGraph::ArchetypeGraph(ComponentTable& components) : components_(components) {
    of(std::span<const ComponentId>{});
}

Archetype& ArchetypeGraph::of(std::span<const TypeTag* const> pack, std::uint64_t key) {
    std::vector<ComponentId> ids;
    for (const TypeTag* tag : pack) ids.push_back(components_.id_of(*tag));
    std::sort(ids.begin(), ids.end());
    Archetype& archetype = of(ids);
    packs_.insert(key, archetype.index());
    return archetype;
}

Archetype& ArchetypeGraph::of(std::span<const ComponentId> sorted) {
    if (Archetype* known = find(sorted)) return *known;
    Archetype& archetype = add(sorted, components_);
    for (Archetype::Pair& pair : archetype.pairs()) {
        std::vector<Archetype*>& list = components_.pairs().find(sorted[pair.column])->archetypes;
        pair.place = static_cast<std::uint32_t>(list.size());
        list.push_back(&archetype);
    }
    return archetype;
}

Cell ArchetypeGraph::pair_cell(EntityTable::Place place, ComponentId id) const {
    if (!place.has_row()) return {};
    return {(*this)[place.archetype].find(id), place.row};
}

Archetype& ArchetypeGraph::after(Archetype& from, std::span<const ComponentId> removed,
                                 std::span<const ComponentId> added) {
    if (removed.size() + added.size() != 1) return find_after(from, removed, added);
    const bool is_added = removed.empty();
    const ComponentId id = is_added ? added[0] : removed[0];
    if (from.has(id) == is_added) return from;
    if (id.is_pair()) return find_after(from, removed, added);
    Archetype* known = is_added ? from.edge(id).with : from.edge(id).without;
    if (known == nullptr) {  // both archetypes store the edge, so that cut_edges() finds it
        known = &find_after(from, removed, added);
        (is_added ? from.edge(id).with : from.edge(id).without) = known;
        (is_added ? known->edge(id).without : known->edge(id).with) = &from;
    }
    return *known;
}

/// Finds the archetype that differs from `archetype` only in the component `id`, and adds it if it does not
/// exist. Returns the step between the two archetypes, which is the component's last_step.
const ArchetypeStep& ArchetypeGraph::find_step(std::uint32_t archetype, ComponentId id) {
    Archetype& from = (*this)[archetype];
    const bool has_it = from.has(id);
    Archetype& without = has_it ? after(from, {&id, 1}, {}) : from;
    Archetype& with = has_it ? from : after(from, {}, {&id, 1});
    return components_[id].last_step = {without.index(), with.index(),  &without,
                                        &with,           with.find(id), with.is_small()};
}

Archetype& ArchetypeGraph::find_after(Archetype& from, std::span<const ComponentId> removed,
                                      std::span<const ComponentId> added) {
    const auto components = from.components();
    wanted_.assign(components.begin(), components.end());
    std::erase_if(wanted_, [&](ComponentId id) {
        return std::find(removed.begin(), removed.end(), id) != removed.end();
    });
    wanted_.insert(wanted_.end(), added.begin(), added.end());
    std::sort(wanted_.begin(), wanted_.end());
    wanted_.erase(std::unique(wanted_.begin(), wanted_.end()), wanted_.end());
    return of(wanted_);
}

std::vector<Entity> ArchetypeGraph::entities_with(ComponentId pair) const {
    std::vector<Entity> entities;
    for (const Archetype* archetype : components_.pairs().find(pair)->archetypes)
        if (archetype != nullptr)
            entities.insert(entities.end(), archetype->entities().begin(), archetype->entities().end());
    return entities;
}

void ArchetypeGraph::free_pairs(std::span<const ComponentId> ids) {
    PairTable& pairs = components_.pairs();
    for (const ComponentId id : ids) {
        const std::vector<Archetype*> doomed = pairs.find(id)->archetypes;
        for (Archetype* archetype : doomed)
            if (archetype != nullptr) free(*archetype);
    }
}

void ArchetypeGraph::free_empty() {
    packs_ = {};  // has indices of archetypes
    for (Archetype *archetype = newest(), *older; archetype != nullptr; archetype = older) {
        older = ArchetypeList::older(*archetype);
        if (archetype->size() == 0 && archetype->index() != 0) free(*archetype);
    }
}

void ArchetypeGraph::free(Archetype& archetype) {
    for (const Archetype::Pair& pair : archetype.pairs()) {
        PairTable::Pair& known = *components_.pairs().find(archetype.components()[pair.column]);
        known.archetypes[pair.place] = nullptr;
        if (++known.freed <= known.archetypes.size() / 2) continue;
        known.freed = 0;
        std::erase(known.archetypes, nullptr);
        for (std::uint32_t i = 0; i < known.archetypes.size(); ++i)
            known.archetypes[i]->pair(pair.relation, pair.target).place = i;
    }
    for (const Archetype::Edge& edge : archetype.edges()) components_[edge.id].last_step = {};
    ArchetypeList::free(archetype);
}

}  // namespace shoal::ecs::impl
