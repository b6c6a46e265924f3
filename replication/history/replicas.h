#pragma once
// What a client knows about the entities of its server: their recent versions, and which entities of the
// client's world are their replicas.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "../../ecs/world.h"
#include "history.h"
#include "keyed_entities.h"
#include "net_ids.h"

namespace shoal::replication::impl {

/// The net ids of entities that ended lately. Net ids rise, and a net id takes the place of the one that is
/// lower by kSize. So an ended entity is forgotten when about kSize newer entities were created.
class EndedIds {
public:
    static constexpr std::size_t kSize = 4'096;

    /// Requires a net id that is not 0.
    void insert(NetId net_id) { ids_[net_id % kSize] = net_id; }
    void erase(NetId net_id) {
        if (contains(net_id)) ids_[net_id % kSize] = 0;
    }
    bool contains(NetId net_id) const { return ids_[net_id % kSize] == net_id; }
    void clear() { ids_.assign(kSize, 0); }

private:
    std::vector<NetId> ids_ = std::vector<NetId>(kSize);  // by net id modulo kSize; 0: none
};

/// The replicas of a client: its copies of the server's entities. A replica is open from its first record
/// until end(). Its index is also the index of its row in ids(). Not thread-safe.
class Replicas final : public EntityMap {
public:
    static constexpr std::uint32_t kNone = NetIds::kNone;

    struct Replica {
        History versions;             // not empty while the replica is open, except between bind() and push()
        std::uint32_t slot = kNone;   // entity slot of the replica's records; kNone: the replica is not open
        Tick floor = 0;               // no newer record is based on a version replaced at this tick or before
        Tick late_floor = 0;          // as floor, for records that arrive at most kLateTicks late
        Tick next_late_floor = 0;     // becomes late_floor, at the earliest kLateTicks after next_since
        Tick next_since = 0;          // tick at which next_late_floor was the floor
        std::optional<Tick> dropped;  // tick of the oldest version that surely has no dropped one after it
        std::optional<Tick> bound;    // versions before this tick came in another slot: they are only shown
        std::optional<Tick> applied;  // tick of the version that was written to the world last
        bool is_suppressed = false;   // the game destroyed the entity
        bool is_local = false;        // the game spawned the entity, with a StableKey
        bool refers_to_changed = false;           // an entity that this one refers to appeared or disappeared
        bool is_dirty = false;                    // the index is in dirty()
        std::optional<Tick> ends;                 // tick of a despawn record that the world does not show yet
        Despawn end_reason = Despawn::destroyed;  // the reason, if `ends`
        // What the newest version costs, see cost_of(), and the greatest cost of the versions since
        // the one that the world shows.
        std::size_t newest_cost = 0, cost = 0;
        float mean_gap = 0;  // mean number of ticks between the last versions, without long gaps; 0: unknown
        std::uint32_t pending = 0;      // pending id in the full record; 0: none. See expect()
        bool is_adopted = false;        // the replica took over an expected entity
        std::uint32_t first_apply = 0;  // number of the apply() that gave it its entity
        // Ascending: the components that this client decides currently, see Receiver::hold().
        std::vector<ComponentIndex> held;
        std::vector<ComponentIndex> overlaid;  // those of `held` that have the value of an action
    };

    /// A replica that was closed after it had been written to the world.
    struct Gone {
        std::uint32_t index;
        NetId net_id;
        ecs::Entity entity;  // dead if the game destroyed it
        bool was_suppressed;
        bool stays;  // the game spawned the entity, and it was not destroyed on the server
        Despawn reason;
        std::size_t cost;  // until forget_cost()
    };

    /// How many ticks a version stays at least after newer records stopped using it as a baseline. A late
    /// packet has older baselines than the packets that overtook it.
    static constexpr Tick kLateTicks = 16;

    /// Keeps at most `max_versions` per replica. Requires max_versions >= 4. The world must outlive the
    /// replicas.
    Replicas(ecs::World& world, std::uint32_t max_versions, BucketHash hash = BucketHash{});

    /// Makes `slot` the entity slot of the replica with this net id, because of a full record of `tick`.
    /// Opens a replica if the net id is unknown: it has no entity and no version yet. Returns the index.
    std::uint32_t bind(NetId net_id, std::uint32_t slot, Tick tick);

    /// From now on, replicas with Shape::is_delayed are shown as of this tick, all other replicas as of their
    /// newest version. Empty: all replicas are shown as of their newest version. The tick must not decrease.
    void set_render_tick(std::optional<Tick> tick) { render_tick_ = tick; }
    const std::optional<Tick>& render_tick() const { return render_tick_; }
    /// Returns whether an open replica is shown as of render_tick(). False for a replica that this client
    /// spawned ahead of the server: it has been shown since then.
    bool is_delayed(const Replica& replica) const {
        return render_tick_ && replica.pending == 0 && replica.versions.newest()->image.shape->is_delayed;
    }
    /// Returns the version of an open replica that the world should show. Returns nothing if all its versions
    /// are newer than render_tick() and the world does not have the replica yet.
    std::optional<Version> due(std::uint32_t index) const;
    /// Sets a function that push() calls with the index of a replica in the world before it adds a version
    /// with which the world will jump: the replica is not delayed any more, or it was not delayed and had no
    /// version for longer than set_long_gap().
    void on_jump(std::function<void(std::uint32_t)> fn) { on_jump_ = std::move(fn); }
    /// Sets the longest time between two versions, in ticks, that counts for Replica::mean_gap.
    void set_long_gap(Tick ticks) { long_gap_ = ticks; }

    /// Adds a version newer than all others. `oldest`: no newer record is based on a version that was
    /// replaced at this tick or before; nothing for a full record.
    void push(std::uint32_t index, Tick tick, const Image& image, std::optional<Tick> oldest);
    /// Returns the version of the replica's slot that was the newest at `tick`; nothing if there is none or
    /// if it may be missing.
    std::optional<Version> version_at(std::uint32_t index, Tick tick) const;
    /// Returns whether a version may be missing that was the newest at `tick`.
    bool may_miss(std::uint32_t index, Tick tick) const {
        return rows_[index].dropped && is_newer(*rows_[index].dropped, tick);
    }

    /// Adds a version that arrived after a newer one. No effect if the replica has max_versions, or if the
    /// version is older than Replica::bound.
    void insert(std::uint32_t index, Tick tick, const Image& image);

    /// Notes what a version costs that was pushed or inserted, see cost_of().
    void note_cost(std::uint32_t index, Tick tick, std::size_t cost);
    /// Call it when the entity of a replica that is gone was destroyed.
    void forget_cost(std::size_t cost) { cost_ -= cost; }

    /// Returns whether the replica has max_versions.
    bool is_crowded(std::uint32_t index) const { return rows_[index].versions.size() >= max_versions_; }

    /// Ends a replica because of a despawn record of this tick. If the world shows the replica as of an
    /// earlier tick, the replica stays until end_due(), but another replica can already use its slot.
    void close(std::uint32_t index, Despawn reason, Tick tick);
    /// Ends a replica at once: removes its net id and versions. Adds the replica to gone() if the world may
    /// have its entity.
    void end(std::uint32_t index, Despawn reason, Tick tick);
    /// Ends the closed replicas that are not shown any more as of render_tick().
    void end_due();
    /// Ends all replicas, and forgets the render tick.
    void reset();
    /// Number of replicas that wait for end_due().
    std::size_t ending_count() const;
    /// The newest tick at which a version was written to the world or a replica ended. Empty at first.
    const std::optional<Tick>& newest_shown() const { return newest_shown_; }

    /// `entity`, which the game spawned, becomes the entity of the replica whose full record names this
    /// pending id. The replica then holds the components `held`, ascending, see Receiver::hold(). If the
    /// entity is dead by then, the replica is suppressed. A call is used for one replica. A second call with
    /// the same id replaces the first.
    void expect(std::uint32_t pending, ecs::Entity entity, std::span<const ComponentIndex> held = {}) {
        expected_[pending] = {entity, {held.begin(), held.end()}};
    }
    void forget_expected(std::uint32_t pending) { expected_.erase(pending); }
    struct Expected {
        ecs::Entity entity;
        std::vector<ComponentIndex> held;
    };
    /// Returns null if no entity is expected for the replica.
    const Expected* expected(std::uint32_t index) const;

    /// The replicas that apply() must write to the world, in the order of touch(). Some may be closed.
    std::span<const std::uint32_t> dirty() const { return dirty_; }
    void touch(std::uint32_t index);
    /// Call it after due() of all dirty replicas was written. Replicas with newer versions stay in dirty().
    void clear_dirty();
    /// Notes that the version of this tick was written to the world.
    void set_applied(std::uint32_t index, Tick tick);
    /// Notes that an entity ended on the server, of which a record may not have arrived.
    void note_ended(NetId net_id);
    void forget_ended() {
        ended_.clear();
        forget_ended_keys();
    }
    /// Call it when all messages were handled. Another entity may come with the same key.
    void forget_ended_keys() { ended_keys_.clear(); }

    /// The replicas that ended since clear_gone(). Their entities must be destroyed, except entities that the
    /// game loaded itself. The indices of the replicas are not used again before clear_gone().
    std::span<const Gone> gone() const { return gone_; }
    void clear_gone();

    Replica& operator[](std::uint32_t index) { return rows_[index]; }
    const Replica& operator[](std::uint32_t index) const { return rows_[index]; }
    /// Returns the open replica with this net id; null if there is none.
    const Replica* find(NetId net_id) const {
        const std::uint32_t index = ids_.find(net_id);
        return index == kNone ? nullptr : &rows_[index];
    }

    /// The net ids and entities of the open replicas, by index. An entity that the game destroyed is dead.
    const NetIds& ids() const { return ids_; }
    /// `is_local`: see Replica.
    void set_entity(std::uint32_t index, ecs::Entity entity, bool is_local = false);
    /// Call it when an apply() begins.
    void begin_apply() { apply_count_ += 1; }
    /// Returns whether the last apply() gave the replica its entity.
    bool is_new(const Replica& replica) const { return replica.first_apply == apply_count_; }
    /// Separates the replica from its entity. The next apply() gives it another one.
    void unset_entity(std::uint32_t index);

    /// Takes the keys of the game's entities that changed since the last call, and returns them.
    std::span<const KeyedEntities::Change> update_keys();
    /// Returns the game's entity with the key of this net id, which may be a replica or not. Returns null if
    /// there is none.
    ecs::Entity local(NetId net_id) const;
    const KeyedEntities& keys() const { return keys_; }

    /// Returns 0 if the entity is dead, or neither a replica nor local().
    NetId net_id(ecs::Entity entity) const;
    /// Returns the replica, or else local(net_id).
    ecs::Entity entity(NetId net_id) const;
    /// Returns whether an entity with this net id can still appear in the world: there is none, the game did
    /// not destroy it, and it did not end lately.
    bool may_appear(NetId net_id) const;
    /// Returns whether the world shows a replica as of an earlier tick, and can show a newer version.
    bool is_older_than(NetId net_id, Tick tick) const;

    /// Calls fn(net_id, entity) for each replica in the world.
    template <class Fn>
    void for_each_entity(Fn&& fn) const {
        for (std::uint32_t index = 0; index < ids_.index_count(); ++index)
            if (world_.is_alive(ids_[index].entity)) fn(ids_[index].net_id, ids_[index].entity);
    }

    /// Memory that the versions of all replicas take, and what their entities cost.
    std::size_t bytes() const { return pool_.bytes_in_use() + cost_; }

    bool is_consistent() const;  // consistency.cpp

private:
    std::uint32_t to_net(ecs::Entity entity) override { return net_id(entity); }
    ecs::Entity to_entity(std::uint32_t net_id) override { return entity(net_id); }

    static void drop_replaced(Replica& replica, Tick tick, Tick shown);
    void drop_former(Replica& replica, Tick shown) const;
    void drop_old_versions(Replica& replica);
    bool waits(const Replica& replica) const;
    void note_shown(Tick tick);

    ecs::World& world_;
    std::uint32_t max_versions_;
    NetIds ids_;
    EndedIds ended_;                 // without reserved ids
    std::vector<NetId> ended_keys_;  // reserved ids of note_ended()
    KeyedEntities keys_;
    VersionPool pool_;
    std::vector<Replica> rows_;                             // by index in ids_
    std::unordered_map<std::uint32_t, Expected> expected_;  // by pending id
    std::vector<std::uint32_t> dirty_;
    std::vector<Gone> gone_;
    std::optional<Tick> render_tick_, newest_shown_;
    Tick long_gap_ = 15;
    std::size_t cost_ = 0;  // sum over the replicas, and over ended ones until forget_cost()
    std::uint32_t apply_count_ = 0;
    std::function<void(std::uint32_t)> on_jump_;
};

}  // namespace shoal::replication::impl
