#pragma once
// The quantised state of all replicated entities, with their recent versions. It is shared by all peers, and
// updated from the world's hooks: an entity that did not change costs no time.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../../ecs/change_collector.h"
#include "../../ecs/world.h"
#include "../../net/fifo.h"
#include "../codec/codec.h"
#include "../codec/state_packet.h"
#include "../schema/binding.h"
#include "../schema/image.h"
#include "../schema/own_components.h"
#include "history.h"
#include "keyed_entities.h"
#include "net_ids.h"
#include "reference_index.h"

namespace shoal::replication::impl {

class Shadow final : public EntityMap {
public:
    static constexpr std::uint32_t kNone = 0xffffffff;

    struct Entry {
        ecs::Entity entity;  // null: the entry is closed
        NetId net_id = 0;
        Tick captured = 0;               // tick of the last update() that quantised the entity
        bool refers_to_changed = false;  // the entity's references must be quantised again in this update()
        Despawn reason = Despawn::destroyed;  // why the entry was closed last
        bool is_too_large = false;  // the newest version is older than the entity's state: see TooLarge
        std::optional<std::uint32_t> cluster;  // id of the entity's Cluster, as of the last update()
        History versions;                      // the newest is the state as of the last update()
    };

    /// Keeps a version for `history_ticks` after a newer one replaced it. World and schema must outlive the
    /// shadow. The first update() also opens entries for the entities that have the tag already. `tag`: the
    /// tag of the entities that replicate, which must not be in the schema; null: Replicated.
    Shadow(ecs::World& world, const Schema& schema, std::uint32_t history_ticks, ecs::ComponentId tag = {});
    Shadow(const Shadow&) = delete;
    Shadow& operator=(const Shadow&) = delete;

    /// Takes the changes of the world since the last call. `tick` is the tick of the world now, newer than in
    /// the last call. Gives the schema's singletons the tag. Call it outside of hooks and queries.
    void update(Tick tick);

    /// Sets for how long versions are kept, from the next update() on. Versions that were forgotten do not
    /// come back. With less ticks, an update forgets the versions of a few ticks at most, so that it takes no
    /// longer than others.
    void set_history(std::uint32_t history_ticks) { history_ticks_ = history_ticks; }

    /// Indices of the entries that the last update() opened (a new entity), changed (a new version) or
    /// closed. An entry that did not change for 2^29 ticks gets a new version of the same image. The next
    /// update() can use the index of a closed entry again.
    std::span<const std::uint32_t> opened() const { return opened_; }
    std::span<const std::uint32_t> changed() const { return changed_; }
    std::span<const std::uint32_t> closed() const { return closed_; }

    /// Entries whose entity left its cluster, or moved to another one, before the last update(). Does not
    /// contain entries that this update() opened.
    std::span<const std::uint32_t> moved() const { return moved_; }

    /// An entity whose full record would exceed kMaxEntityBytes. The shadow keeps its last version within the
    /// limit. This version has no components if there was none.
    struct TooLarge {
        ecs::Entity entity;
        std::size_t bytes = 0;       // size of the full record
        ComponentIndex largest = 0;  // the component that takes most bytes of it
    };
    /// Entities that became too large in the last update().
    std::span<const TooLarge> too_large() const { return too_large_; }
    /// Number of entities that are too large.
    std::uint32_t too_large_count() const { return too_large_count_; }

    const Entry& operator[](std::uint32_t index) const { return entries_[index]; }
    std::uint32_t index_count() const { return static_cast<std::uint32_t>(entries_.size()); }
    std::uint32_t open_count() const { return open_count_; }

    /// Versions that were replaced at this tick or before were dropped.
    Tick horizon() const { return horizon_; }
    /// How many net ids have ended.
    std::uint64_t ended_count() const { return ids_.released_count(); }

    /// The version of an entry that a peer of these view classes can have as of `tick`, if the history
    /// reaches back so far. The image is valid until the next update().
    std::optional<Version> at(std::uint32_t index, Tick tick, ViewClasses viewers) const {
        return entries_[index].versions.at(tick, horizon_, viewers);
    }

    /// Returns the net id of an entity that replicated at the last update() or got one by assign(). For other
    /// entities returns the net id that their StableKey reserves, or 0 if they have none.
    NetId net_id(ecs::Entity entity) const;
    /// Returns the net id of a living entity with the tag, and gives it one if it has none yet. For other
    /// living entities returns the net id that their StableKey reserves, or 0.
    NetId assign(ecs::Entity entity);
    /// As assign(), but returns the index of the entry; kNone for entities without the tag.
    std::uint32_t assign_index(ecs::Entity entity);
    /// Returns the living entity that has this net id; null if there is none. Any number is safe.
    ecs::Entity entity_of(NetId net_id) const {
        const ecs::Entity entity = ids_.entity(net_id);
        return world_.is_alive(entity) ? entity : ecs::Entity{};
    }
    /// Returns the index of an entity's entry, even if assign() made the entry and no update() has opened it.
    /// Returns kNone if there is no entry.
    std::uint32_t index_of(ecs::Entity entity) const { return ids_.find(entity); }
    /// Returns the entity of an index; null if there is none.
    ecs::Entity entity(std::uint32_t index) const {
        return index < ids_.index_count() ? ids_[index].entity : ecs::Entity{};
    }
    /// Returns the index of the open entry with this net id, as of the last update(); kNone if there is none,
    /// or if the net id was released since then.
    std::uint32_t index_of(NetId net_id) const {
        const std::uint32_t index = ids_.find(net_id);
        return index < entries_.size() && entries_[index].entity ? index : kNone;
    }
    /// From now on a reference becomes null when its entity is destroyed, and for_each_referrer() knows all
    /// versions from now on.
    void keep_referrers() { keeps_referrers_ = true; }
    /// Calls fn(index) for the entries of which some version refers to the entity, and for some others.
    template <class Fn>
    void for_each_referrer(ecs::Entity entity, Fn&& fn) const {
        references_.for_each_referrer(entity.index, fn);
    }
    const Schema& schema() const { return binding_.schema(); }
    bool replicates(ecs::Entity entity) const { return world_.has(entity, tag_); }
    /// The tag of the entities that replicate.
    ecs::ComponentId tag() const { return tag_; }

    /// Number of times that a replicated entity with a StableKey got an ordinary net id, because another
    /// replicated entity has the key or because the key is over kMaxStableKey. A debug build aborts instead.
    std::uint64_t refused_keys() const { return refused_keys_; }

    /// How many values did not fit their codecs, in all updates. A value counts each time it is quantised.
    const ComponentLayout::Misfits& misfits() const { return binding_.misfits(); }

    bool is_consistent() const;  // consistency.cpp

private:
    static constexpr std::uint32_t kTagWatch = 0;  // watch index of the tag; component i has i + 1

    std::uint32_t to_net(ecs::Entity entity) override { return net_id(entity); }
    ecs::Entity to_entity(std::uint32_t) override { return {}; }

    std::uint32_t find(ecs::Entity entity) const;
    std::uint32_t allocate(ecs::Entity entity);
    void release(std::uint32_t index);
    void open(ecs::Entity entity);
    void close(std::uint32_t index, Despawn reason);
    void forget_destroyed();
    void open_and_close();
    void take_changes();
    void replicate_singletons();
    bool update_cluster(std::uint32_t index);
    void capture(std::uint32_t index, bool everything);
    void add_version(std::uint32_t index, const Image& image, ViewClasses viewers);
    bool is_too_large(Entry& entry, const Image& now);
    ComponentIndex largest_component(const Image& image) const;
    void add_referrers(ecs::Entity target);
    void refresh_one();
    bool is_oldest_old(const Entry& entry) const;
    Tick next_horizon(Tick tick) const;
    void forget_past(Tick tick);

    ecs::World& world_;
    ecs::ComponentId tag_;
    Binding binding_;
    ecs::ChangeCollector changes_;
    std::vector<const SchemaComponent*> singletons_;
    std::uint32_t key_watch_;      // watch index of StableKey
    std::uint32_t cluster_watch_;  // watch index of Cluster

    std::vector<Entry> entries_;
    NetIds ids_;  // net ids of the entries, by index; and net ids from assign() of entities without an entry
    std::uint32_t open_count_ = 0;
    std::size_t destroyed_seen_ = 0;       // entities in changes_.destroyed() that were handled
    std::vector<std::uint32_t> to_close_;  // entries whose net id was released since the last update()
    std::vector<ecs::Entity> to_open_;     // entities that get entries in this update()
    std::vector<std::uint32_t> assigned_;  // net ids from assign() since the last update()
    ReferenceIndex references_;  // entity index of a target, replicated or not -> entries that refer to it

    VersionPool pool_;
    struct Superseded {
        Tick tick;
        std::uint32_t index;
    };
    net::impl::Fifo<Superseded> superseded_;  // entries that got a new version, with the tick; oldest first
    std::uint32_t history_ticks_;
    Tick tick_ = 0;
    Tick horizon_ = 0;  // versions that were replaced at this tick or before were dropped
    bool updated_ = false;
    std::uint32_t next_refresh_ = 0;  // index of the entry that refresh_one() looks at next

    bool keeps_referrers_ = false;
    std::uint64_t refused_keys_ = 0;
    std::vector<std::uint32_t> opened_, changed_, closed_, moved_;
    std::vector<ComponentIndex> dirty_;  // changed components of the entity being captured, ascending
    std::vector<std::uint32_t>
        referrers_;  // entries that refer to entities with a new net id; some are closed
    std::vector<TooLarge> too_large_;
    std::uint32_t too_large_count_ = 0;
};

}  // namespace shoal::replication::impl
