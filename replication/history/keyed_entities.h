#pragma once
// The entities of a client's world to which the game gave a StableKey.

#include <cstdint>
#include <span>
#include <vector>

#include "../../ecs/world.h"
#include "../schema/own_components.h"
#include "net_ids.h"

namespace shoal::replication::impl {

/// Returns the net id that the entity's StableKey reserves. Returns 0 if the entity is dead, has no key, or
/// has one over kMaxStableKey.
NetId keyed_net_id(const ecs::World& world, ecs::Entity entity);

/// Finds the entity that has a key. Hooks record the entities whose key changes, so an entity that keeps its
/// key costs no time. Not thread-safe.
class KeyedEntities {
public:
    /// Finds the entities that have a key already, too. The world must outlive the object.
    explicit KeyedEntities(ecs::World& world);
    KeyedEntities(const KeyedEntities&) = delete;
    KeyedEntities& operator=(const KeyedEntities&) = delete;

    /// Takes the keys that were added, written or removed since the last call. Ignores new keys of entities
    /// for which is_excluded(entity) returns true. Call it outside of hooks and queries.
    template <class IsExcluded>
    void update(IsExcluded&& is_excluded) {
        changed_.clear();
        for (const ecs::Entity entity : touched_) drop(entity);
        for (const ecs::Entity entity : touched_)
            if (!is_excluded(entity)) take(entity);
        touched_.clear();
    }

    /// A net id that got or lost an entity.
    struct Change {
        NetId net_id;
        ecs::Entity former;  // the entity that it lost, perhaps dead; null: it had no entity before
    };
    /// The changes that the last update() found.
    std::span<const Change> changed() const { return changed_; }

    /// Returns null if no entity had the key of this net id at the last update(). The entity may be dead.
    ecs::Entity entity(NetId net_id) const { return ids_.entity(net_id); }
    /// Returns 0 if the entity had no key at the last update().
    NetId net_id(ecs::Entity entity) const { return ids_.net_id(entity); }

    /// How many keys were ignored, because another living entity had them or because they are over
    /// kMaxStableKey. A debug build aborts instead.
    std::uint64_t refused() const { return refused_; }

    bool is_consistent() const;  // consistency.cpp

private:
    void drop(ecs::Entity entity);
    void take(ecs::Entity entity);

    ecs::World& world_;
    NetIds ids_;                        // the reserved net ids of the keys, and their entities
    std::vector<ecs::Entity> touched_;  // since the last update(); some twice
    std::vector<Change> changed_;
    std::uint64_t refused_ = 0;
    ecs::Hook on_add_, on_change_, on_remove_;
};

}  // namespace shoal::replication::impl
