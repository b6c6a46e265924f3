#pragma once
// Writes versions of the replicas to the world: the newest ones, or the versions of a render tick.

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_set>
#include <vector>

#include "../history/reference_index.h"
#include "../history/replicas.h"
#include "../schema/binding.h"

namespace shoal::replication::all {

/// Not thread-safe.
class Applier {
public:
    /// Binding and replicas must outlive the applier, and must belong to the same world.
    Applier(Binding& binding, Replicas& replicas, BucketHash hash = BucketHash{});
    Applier(const Applier&) = delete;
    Applier& operator=(const Applier&) = delete;

    /// Writes the versions that are due to the world, see Replicas::due(). First destroys the entities of
    /// ended replicas. Then gives each new replica an entity: the game's entity with its stable key, or a new
    /// entity. Then writes all values, calls the add and change hooks, and at last removes components. Call
    /// it outside of hooks and queries.
    void apply();

    /// Writes to a replica all values of the version that the world has, and removes the components and pairs
    /// of the schema that this version does not have. Returns false, without effect, if the entity is no
    /// living replica. Call it outside of hooks and queries.
    bool restore(ecs::Entity entity);

    /// From now on the client decides this component of a replica: apply() and restore() leave it as it is.
    /// Returns false, without effect, if the entity is no living replica, or if this apply() creates it. The
    /// hold ends with release(), or when the replica ends.
    bool hold(ecs::Entity entity, ComponentIndex component);
    /// Ends a hold(): sets the component to its value in the replica's version, or removes it if this version
    /// lacks it. Returns false, without effect, if it is not held. Call it outside of hooks and queries.
    bool release(ecs::Entity entity, ComponentIndex component);
    /// As hold(), for a value of an action: until end_overlay(), release() has no effect on the component.
    bool overlay(ecs::Entity entity, ComponentIndex component);
    /// Ends an overlay() and the hold(), as release() does.
    bool end_overlay(ecs::Entity entity, ComponentIndex component);
    /// Return whether there is a hold() or an overlay().
    bool is_held(ecs::Entity entity, ComponentIndex component) const;
    bool is_overlaid(ecs::Entity entity, ComponentIndex component) const;
    /// Sets a component of a replica to its value in an image, or removes it if the image lacks it. Returns
    /// false, without effect, if the entity is no living replica. Call it outside of hooks and queries.
    bool show(ecs::Entity entity, const Image& image, ComponentIndex component);

    /// Sets the function that appends the net ids that messages name which were not handled yet.
    using FindNamed = std::function<void(std::vector<NetId>&)>;
    void set_named(FindNamed fn) { find_named_ = std::move(fn); }
    /// Destroys the entities of ended replicas that apply() kept because messages named them, except those
    /// that are still named. Call it when messages were handled, outside of hooks and queries.
    void end_kept() { end_kept(false); }
    /// Returns the entity that end_kept() would destroy, or null.
    ecs::Entity kept(NetId net_id) const;

    /// Destroys the entities of ended replicas and forgets all references. Requires that all replicas are
    /// closed.
    void reset();

    /// Number of replicas that the game destroyed; each is counted when its next record is applied.
    std::uint64_t suppressed() const { return suppressed_; }

    /// For tests: returns whether the known references equal the references in the versions that the world
    /// has.
    bool is_consistent() const;

private:
    /// A replica that ended, and whose entity is not destroyed yet.
    struct Kept {
        NetId net_id;
        ecs::Entity entity;
        Despawn reason;
        bool stays;        // see end()
        std::size_t cost;  // see Replicas::forget_cost()
    };

    void destroy_gone();
    void end_kept(bool ends_all);
    bool is_kept(ecs::Entity entity) const;
    void detach_sources(ecs::Entity target);
    void detach_from(ecs::Entity target, ComponentIndex relation);
    void end(ecs::Entity entity, Despawn reason, bool stays);
    void follow_keys();
    void remove_pairs_to(ecs::Entity former, NetId net_id);
    void create_new();
    void adopt(std::uint32_t index);
    void mark_referrers();
    std::optional<Version> news_of(std::uint32_t index) const;
    void write(std::uint32_t index);
    void finish(std::uint32_t index);
    void free_archetypes();
    std::uint32_t shown_replica(ecs::Entity entity) const;

    Binding& binding_;
    Replicas& replicas_;
    ReferenceIndex references_;                 // net id -> replicas whose version in the world refers to it
    std::vector<NetId> changed_ids_;            // net ids that appeared or disappeared in this apply()
    std::vector<std::uint32_t> referrers_;      // the replicas that refer to changed_ids_
    std::vector<ecs::Entity> dying_, sources_;  // scratch of detach_sources() and detach_from()
    std::unordered_set<std::uint32_t> seen_;  // scratch: indices of entities of the game that were in dying_
    FindNamed find_named_;
    std::vector<NetId> named_;         // scratch of end_kept()
    std::vector<Kept> kept_, ending_;  // kept_: by the index of the entity; ending_: scratch of end_kept()
    std::uint64_t suppressed_ = 0;
    std::uint32_t most_archetypes_ = 512;  // above this, free_archetypes() frees archetypes without entities
};

}  // namespace shoal::replication::all
