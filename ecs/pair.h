#pragma once
// The ids of components and of pairs, and the pairs that exist: a relation and its target.

#include <compare>
#include <cstdint>
#include <vector>

#include "entity.h"

namespace shoal::ecs {

class Archetype;

/// Names a component, or a pair, within one world. A component's value is its position in the world's
/// list, from 0. A pair's id means nothing any more once its target is dead.
struct ComponentId {
    std::uint32_t value = 0xFFFF'FFFF;  // default: none
    std::uint32_t generation = 0;       // of pairs only: their values are used again

    bool is_pair() const { return generation != 0; }
    explicit operator bool() const { return value != 0xFFFF'FFFF; }
    friend auto operator<=>(const ComponentId&, const ComponentId&) = default;
};

/// Pairs come into being when first asked for, and go with their target.
class PairTable {
public:
    struct Pair {
        ComponentId relation;
        Entity target;
        std::uint32_t generation;
        std::uint32_t next;                  // of the same target, or free
        std::vector<Archetype*> archetypes;  // whose entities have it
    };

    /// Requires a living target.
    ComponentId id_of(ComponentId relation, Entity target);

    /// None if nobody asked for it yet, or the target is dead.
    ComponentId find(ComponentId relation, Entity target) const;

    /// Null if the id is not that of a pair, or its target died and release_dead() was called since.
    const Pair* find(ComponentId id) const { return holds(id) ? &pairs_[slot_of(id)] : nullptr; }
    Pair* find(ComponentId id) { return holds(id) ? &pairs_[slot_of(id)] : nullptr; }

    /// Whether the pair's target lives.
    bool is_current(ComponentId id) const { return holds(id) && pairs_[slot_of(id)].next != kDead; }

    bool is_target(Entity entity) const { return first_of(entity) != kNone; }

    /// The newest first.
    std::vector<ComponentId> of_target(Entity target) const;

    /// From here on they are not current, and another entity with this index has pairs of its own.
    void bury(Entity target);

    /// The ids of buried pairs may be used again, under another generation.
    void release_dead();
    bool has_dead() const { return !dead_.empty(); }

private:
    static constexpr std::uint32_t kFirstValue = 0x8000'0000;  // above those of all components
    static constexpr std::uint32_t kNone = 0xFFFF'FFFF;
    static constexpr std::uint32_t kDead = 0xFFFF'FFFE;

    static std::uint32_t slot_of(ComponentId id) { return id.value - kFirstValue; }
    ComponentId id_at(std::uint32_t slot) const { return {kFirstValue + slot, pairs_[slot].generation}; }
    bool holds(ComponentId id) const {
        return id.is_pair() && slot_of(id) < pairs_.size() &&
               pairs_[slot_of(id)].generation == id.generation && pairs_[slot_of(id)].relation;
    }
    std::uint32_t first_of(Entity target) const {
        if (target.index >= first_of_target_.size()) return kNone;
        const std::uint32_t first = first_of_target_[target.index];
        return first != kNone && pairs_[first].target == target ? first : kNone;
    }

    std::vector<Pair> pairs_;
    std::vector<std::uint32_t> first_of_target_;  // by entity index
    std::vector<std::uint32_t> dead_;
    std::uint32_t first_free_ = kNone;
};

}  // namespace shoal::ecs
