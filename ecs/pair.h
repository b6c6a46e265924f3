#pragma once
// Ids of components and of pairs, and the table of pairs: relations with a target.

#include <compare>
#include <cstdint>
#include <vector>

#include "entity.h"

namespace shoal::ecs::impl {

class Archetype;

/// Names a component or a pair within one world. Components are numbered from 0, in the order of their
/// registration. A pair's id is invalid once its target is dead.
struct ComponentId {
    std::uint32_t value = 0xFFFF'FFFF;  // default: none
    // 0 for a component. For a pair: 1 for the first pair with this value, 2 for the second, and so on.
    std::uint32_t generation = 0;

    bool is_pair() const { return generation != 0; }
    explicit operator bool() const { return value != 0xFFFF'FFFF; }
    /// The order is by value, then by generation. Both are compared as one 64-bit number: a defaulted
    /// operator would need two comparisons.
    friend constexpr bool operator==(const ComponentId& a, const ComponentId& b) {
        return a.as_number() == b.as_number();
    }
    friend constexpr std::strong_ordering operator<=>(const ComponentId& a, const ComponentId& b) {
        return a.as_number() <=> b.as_number();
    }

private:
    constexpr std::uint64_t as_number() const { return std::uint64_t{value} << 32 | generation; }
};

/// The pairs of one world. A pair is added by the first id_of(), and removed after its target is destroyed.
class PairTable {
public:
    /// A slot of the table: a pair, or free if `relation` is none.
    struct Pair {
        ComponentId relation;
        Entity target;
        std::uint32_t generation;
        // Slot of the target's next pair, or kNone; kDead after the target's death. If this slot is free: the
        // next free slot, or kNone.
        std::uint32_t next;
        // Archetypes whose entities have the pair, the oldest first; null where one was freed.
        std::vector<Archetype*> archetypes{};
        std::uint32_t freed = 0;  // number of nulls; at most half of the list
    };

    /// The pair's id; adds the pair if it is new. Requires a living target.
    ComponentId id_of(ComponentId relation, Entity target);

    /// The pair's id; none if id_of() was never called for the pair, or the target is dead.
    ComponentId find(ComponentId relation, Entity target) const;

    /// The pair with this id. Null if the id names no pair, or if release_dead() was called after the
    /// target was destroyed.
    const Pair* find(ComponentId id) const { return holds(id) ? &pairs_[slot_of(id)] : nullptr; }
    Pair* find(ComponentId id) { return holds(id) ? &pairs_[slot_of(id)] : nullptr; }

    /// Returns whether the id names a pair with a living target.
    bool is_current(ComponentId id) const { return holds(id) && pairs_[slot_of(id)].next != kDead; }

    bool is_target(Entity entity) const { return first_of(entity) != kNone; }

    /// Ids of all pairs with this target, the newest first.
    std::vector<ComponentId> of_target(Entity target) const;

    /// Marks the pairs with this target as dead, and returns their ids, which are not current any more.
    /// Another entity with the same index then gets pairs of its own.
    std::vector<ComponentId> mark_dead(Entity target);

    /// Frees the slots of dead pairs, to be used again under another generation.
    void release_dead();
    /// Number of dead pairs whose slots are not free yet.
    std::size_t dead_count() const { return dead_count_; }

private:
    static constexpr std::uint32_t kFirstValue = 0x8000'0000;  // id value of slot 0; above all components
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
    std::vector<std::uint32_t> first_of_target_;  // slot of the newest pair, or kNone; by the target's index
    std::vector<std::uint32_t> dead_;
    std::size_t dead_count_ = 0;  // equals dead_.size(); a world reads it at the end of each operation
    std::uint32_t first_free_ = kNone;
};

}  // namespace shoal::ecs::impl
