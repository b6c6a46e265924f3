#pragma once
// Applies the records of a Sender to a world. receive() decodes and checks a payload before it is
// acknowledged; apply() changes the world.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "../../ecs/world.h"
#include "../history/reference_index.h"
#include "../history/replicas.h"
#include "../schema/binding.h"
#include "completion.h"
#include "decoder.h"
#include "local_writes.h"
#include "server_clock.h"

namespace shoal::replication::impl {

/// Writes the versions that its Decoder reads to the world. Not thread-safe. The world may have other
/// entities beside the replicas.
class Receiver final : public EntityMap {
public:
    using Verdict = Decoder::Verdict;

    /// The replicas equal the quantised values of the sender's entities in these ticks, except for what the
    /// receiving game itself changed or destroyed.
    using Complete = Completion::Complete;

    struct Stats : Decoder::Stats {
        std::uint64_t suppressed = 0;    // replicas that the game destroyed; counted at their next record
        std::uint64_t local_writes = 0;  // calls of ReceiverOptions::on_local_write; 0 without it
        std::uint64_t refused_keys = 0;  // see KeyedEntities::refused()
    };

    /// World and schema must outlive the receiver. A schema with an error stops the program. The destructor
    /// leaves the replicas in the world.
    Receiver(ecs::World& world, const Schema& schema, const ReceiverOptions& options = {});
    Receiver(const Receiver&) = delete;
    Receiver& operator=(const Receiver&) = delete;

    /// Decodes the payload of packet `number`. Any bytes are safe. Requires number >= 1. Pass each number at
    /// most once.
    Verdict receive(std::uint64_t number, std::span<const std::byte> payload) {
        return decoder_.receive(number, payload);
    }

    /// Applies the newest versions to the world: destroys replicas, creates new ones or finds them by their
    /// StableKey, writes all values, calls the add and change hooks, and then removes components. So these
    /// hooks see every replica with all values of the same call, and references translated to this world's
    /// entities. Only the remove hooks of replicas that end, and of their pairs, run before values are
    /// written. Call it outside of hooks and queries.
    void apply() { apply_until(std::nullopt); }
    /// As apply(), but entities with a component that has a Display (options.h) are shown as they were at
    /// this tick: they are not spawned, changed or destroyed before it. The tick must not be older than in
    /// the last call.
    void apply(Tick render_tick) { apply_until(render_tick); }

    /// Undoes what the game did to the components of the schema, and to the pairs, of a replica: they become
    /// equal to the server's as of the last apply(). Components that are not in the schema stay. All
    /// components of the schema are written, with their hooks. Returns false, without effect, if the entity
    /// is no living replica. References and pairs to replicas that receive() closed since the last apply()
    /// are left out. Call it outside of hooks and queries.
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

    /// The lanes and parts of one component, if it is present.
    struct Value {
        bool is_present = false;
        std::vector<std::uint32_t> words;
    };
    /// Quantises a component as it is in the world; a relation with its pairs. Requires a living entity.
    void capture(ecs::Entity entity, ComponentIndex component, Value& value);
    /// As show(), but with a captured value.
    bool show(ecs::Entity entity, ComponentIndex component, const Value& value);

    /// Tick of the version of a replica that the world has; nothing if the entity is no replica.
    std::optional<Tick> shown_tick(ecs::Entity entity) const;

    /// The ticks at which the replicas equal what this client sees of the sender's entities (see Complete),
    /// as of the last apply(). Nothing if there is no completion marker yet, if a packet that the marker
    /// needs is missing, or if a payload of a newer tick than the marker's has arrived. After apply(Tick) it
    /// is about what the world shows: nothing if entities were changed after the last complete tick up to the
    /// render tick, or are shown as of a newer one.
    std::optional<Complete> complete() const { return complete_; }

    /// Starts the clock. `tick`: time between two ticks of the server, > 0. No effect if it was started.
    void start_clock(net::Duration tick);
    /// Call it when the payload of packet `number` was accepted.
    void hear(std::uint64_t number, net::Time now);
    /// Call it in each update, when everything that has arrived was received.
    void update_clock(net::Time now) {
        if (clock_) clock_->take(now);
    }
    /// Nothing before start_clock(). reconnect() keeps it, and reset() forgets it.
    const std::optional<ServerClock>& clock() const { return clock_; }

    /// Tick of the newest payload accepted; nothing before the first.
    std::optional<Tick> newest_tick() const { return decoder_.completion().newest_tick(); }

    /// Returns whether the last apply() gave the replica with this net id its entity.
    bool is_new(NetId net_id) const {
        const Replicas::Replica* const replica = replicas_.find(net_id);
        return replica && replicas_.is_new(*replica);
    }
    /// Returns the replica with this net id; null if there is none, or the game destroyed it. A replica that
    /// ended is found while messages that name it were not handled, see end_kept(). For the net id
    /// of a key, also returns the game's entity that had the key at the last apply() and is no replica yet.
    ecs::Entity entity(NetId net_id) const {
        const ecs::Entity entity = replicas_.entity(net_id);
        return entity ? entity : kept(net_id);
    }
    /// Returns the entity with this key, as of the last apply(): a replica, or an entity that the game
    /// spawned and the server did not send. Returns null if there is none.
    ecs::Entity entity(StableKey key) const {
        return key.value <= kMaxStableKey ? entity(NetIds::reserved_for(key)) : ecs::Entity{};
    }
    /// Returns 0 if the entity is not a replica and had no key at the last apply().
    NetId net_id(ecs::Entity entity) const { return replicas_.net_id(entity); }
    std::uint32_t to_net(ecs::Entity entity) override { return net_id(entity); }
    ecs::Entity to_entity(std::uint32_t net_id) override { return entity(net_id); }
    /// Sets the function that appends the net ids in the messages that were not handled yet.
    using FindNamed = std::function<void(std::vector<NetId>&)>;
    void set_named(FindNamed fn) { find_named_ = std::move(fn); }
    /// Destroys the entities of ended replicas that apply() kept because messages named them, except those
    /// that are still named. Call it when messages were handled, outside of hooks and queries.
    void end_kept() { end_kept(false); }
    /// Number of replicas in the world. Takes time in proportion to all replicas.
    std::uint32_t entity_count() const;

    /// Calls fn(net_id, entity) for each replica in the world.
    template <class Fn>
    void for_each_entity(Fn&& fn) const {
        replicas_.for_each_entity(fn);
    }

    /// What was received: which packets, what it costs, and the slots that need a full record. Send these to
    /// the server in a reliable message, so that it calls Sender::rebase() for each.
    const Decoder& decoder() const { return decoder_; }
    Decoder& decoder() { return decoder_; }
    /// The entity in a slot; null if there is none.
    ecs::Entity entity_in(std::uint32_t slot) const {
        const std::uint32_t replica = decoder_.replica_in(slot);
        return replica == Replicas::kNone ? ecs::Entity{} : replicas_.ids()[replica].entity;
    }

    /// For a new connection to a sender that still knows what this receiver has: forgets packet numbers only.
    void reconnect() { decoder_.reconnect(); }

    /// Destroys all replicas and forgets all versions and packets, for a new connection. The entities that
    /// the game spawned with a StableKey stay, and only lose the component Replica.
    void reset();

    Stats stats() const {
        return {decoder_.stats(), suppressed_, local_writes_.count(), replicas_.keys().refused()};
    }
    const ReceiverOptions& options() const { return options_; }

    /// Returns the state of the entity with this net id at a tick: its newest version that is not after
    /// it. The image is valid until the next receive() or apply().
    std::optional<Version> at(NetId net_id, Tick tick) const {
        const Replicas::Replica* const replica = replicas_.find(net_id);
        return replica ? replica->versions.at(tick) : std::nullopt;
    }

    /// The components that the client holds of the entity with this net id, ascending.
    std::span<const ComponentIndex> held(NetId net_id) const {
        const Replicas::Replica* const replica = replicas_.find(net_id);
        return replica ? std::span(replica->held) : std::span<const ComponentIndex>();
    }
    /// The version of the entity with this net id that the world shows; nothing if there is none. In the
    /// world, the components that the client holds can differ from it. Valid as long as the result of at().
    std::optional<Version> shown(NetId net_id) const {
        const Replicas::Replica* const replica = replicas_.find(net_id);
        if (!replica || !replica->applied) return std::nullopt;
        return replica->versions.find(*replica->applied);
    }

    /// Calls fn(slot, net_id, tick, image) for each version kept; for tests and tools.
    template <class Fn>
    void for_each_version(Fn&& fn) const {
        decoder_.for_each_replica([&](std::uint32_t slot, std::uint32_t index) {
            const History& versions = replicas_[index].versions;
            for (std::uint32_t i = 0; i < versions.size(); ++i)
                fn(slot, replicas_.ids()[index].net_id, versions[i].tick, versions[i].image);
        });
    }

    /// The replicas with all their versions; for the library itself.
    Replicas& replicas() { return replicas_; }
    const Replicas& replicas() const { return replicas_; }
    /// For a LocalWrites::Pause while the library runs the game's steps and mutations.
    LocalWrites& local_writes() { return local_writes_; }

    bool is_consistent() const;  // consistency.cpp

private:
    void apply_until(std::optional<Tick> render_tick);
    void write_due();
    void destroy_gone();
    void end_kept(bool ends_all);
    bool is_kept(ecs::Entity entity) const;
    void detach_sources(ecs::Entity target);
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
    ecs::Entity kept(NetId net_id) const;
    std::optional<Complete> shown_complete(Tick render_tick);

    static constexpr std::size_t kCompletes = 64;  // covers more ticks than the delay of the render time

    ReceiverOptions options_;
    Binding binding_;
    Replicas replicas_;
    Decoder decoder_;
    LocalWrites local_writes_;
    ReferenceIndex references_;                 // net id -> replicas whose version in the world refers to it
    std::vector<NetId> changed_ids_;            // net ids that appeared or disappeared in this apply()
    std::vector<std::uint32_t> referrers_;      // the replicas that refer to changed_ids_
    std::vector<ecs::Entity> dying_, sources_;  // scratch of detach_sources()
    std::unordered_set<std::uint32_t> seen_;  // scratch: indices of entities of the game that were in dying_
    FindNamed find_named_;
    std::vector<NetId> named_;             // scratch of end_kept()
    std::vector<Replicas::Gone> kept_;     // their entities are not destroyed yet; by the entity's index
    std::vector<Replicas::Gone> ending_;   // scratch of end_kept()
    std::uint64_t suppressed_ = 0;         // see Stats
    std::uint32_t most_archetypes_ = 512;  // above this, free_archetypes() frees archetypes without entities
    std::optional<ServerClock> clock_;
    std::optional<std::pair<Tick, net::Time>> heard_;  // the newest state, while there is no clock
    std::optional<Complete> complete_;
    std::array<Complete, kCompletes> completes_{};  // a ring of the newest ones
    std::size_t complete_count_ = 0;
};

}  // namespace shoal::replication::impl
