#pragma once
// Writes the changes of a world into payloads for peers. For each peer and entity it knows the newest version
// that the peer acknowledged; a record contains all changes since that version. Lost payloads are not resent:
// the next record is written against the newest acknowledged version.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "../history/shadow.h"
#include "../scope/scope.h"
#include "audience.h"
#include "flight.h"
#include "learned_models.h"
#include "payload_writer.h"
#include "peer_view.h"

namespace shoal::replication::impl {

struct SenderOptions {
    double tick_hz = 60.0;       // ticks per second, to convert the times below to ticks; > 0
    double history_s = 0.6;      // how long a version can be a baseline after it was replaced; > 0
    double max_history_s = 4.0;  // limit if a peer's acks take long; at least history_s
    double heartbeat_s = 1.0;    // time between completion markers while nothing changes; > 0
    // The tag of the entities that this sender replicates; it must not be in the schema. Null: Replicated.
    ecs::ComponentId tag = {};
    Coding coding = Coding::range;   // how the state of entities becomes bits
    std::uint32_t learn_every = 30;  // Coding::range: learns from one in so many records; 0: from none
    // Whether PeerView::deliveries() are kept, which takes 24 bytes for each slot.
    bool keeps_deliveries = false;
};

struct PeerOptions {
    /// Number of entity slots of the peer. An entity without a slot waits until another entity's despawn
    /// record is acknowledged.
    std::uint32_t max_slots = 65'536;  // >= 1; at most PeerView::kMaxSlots are used
    ComponentNumbers numbers = {};     // numbers in the peer's schema, see Schema::numbers_in()
    bool is_held = false;              // the peer gets nothing before start_peer()
    // Not {}: the peer has all entities, whatever the scope says, and gets each change in its tick, whatever
    // every() says. These are its view classes for all entities, besides to_others().
    ViewClasses sees_all = {};
};

/// Not thread-safe.
class Sender {
public:
    /// A small number that stands for a peer, from 0. add_peer() reuses the number of a removed peer.
    using Peer = std::uint32_t;

    struct PeerStats {
        std::uint64_t records_sent = 0;
        std::uint64_t full_records = 0;   // full records; also counted in records_sent
        std::uint64_t empty_records = 0;  // deltas without changes; also counted in records_sent
        std::uint64_t state_bytes = 0;    // sum of all payload sizes
        // Clusters that needed more than the largest payload, so that their entities did not arrive together.
        // A cluster counts once for each tick.
        std::uint64_t parted_clusters = 0;
        std::uint64_t goals_missed = 0;  // records sent later than fresh_within() says
        std::uint64_t differences = 0;   // self-checks that found other values at the peer, as it says
        std::uint32_t pending = 0;       // entity slots with something to send, now or after an interval
        std::uint32_t slots_used = 0;    // entity slots in use
        std::uint32_t waiting = 0;       // entities that wait for a slot
        std::uint32_t unjoined = 0;      // see start_peer()
        std::uint8_t model = 0;          // number of the trained model in use; 0: the built-in one
    };

    /// World and schema must outlive the sender. A schema with an error stops the program.
    Sender(ecs::World& world, const Schema& schema, SenderOptions options = {});

    /// Takes the changes of the world since the last call. `tick` is the tick of the world now, newer than in
    /// the last call. Call it at the end of a tick.
    void update(Tick tick);

    /// Adds a peer that has no entities yet.
    Peer add_peer(const PeerOptions& options = {});
    void remove_peer(Peer peer);
    /// Begins to send all entities that the peer sees (scope()), the nearest first, to a peer that was added
    /// with PeerOptions::is_held. PeerStats::unjoined becomes the number of these entities, and falls as the
    /// peer acknowledges them. Entities that were destroyed or that got no slot do not count.
    void start_peer(Peer peer);
    /// The peer has a new connection: packet numbers begin anew. Requires that the fates of all packets of
    /// the former connection were reported. What the peer acknowledged is kept. All other packets count as
    /// lost, so their records are sent again, even if the peer received them.
    void reconnect_peer(Peer peer);
    /// As reconnect_peer(), but forgets what the peer acknowledged. The peer's groups, and the entities that
    /// it owns and predicts, stay.
    void replace_peer(Peer peer, const PeerOptions& options);
    /// Forgets what a peer acknowledged. The peer gets all entities again, and PeerStats::unjoined counts
    /// them.
    void restart_peer(Peer peer);

    /// Sets the owner of a living entity with the sender's tag. If `owner` is empty, the entity has no owner.
    /// The former owner then has the view class of the other peers. What the peers see changes with the next
    /// update(). Ownership ends when the entity stops replicating. Returns false, without effect, if the
    /// entity is dead or lacks the tag.
    bool set_owner(ecs::Entity entity, std::optional<Peer> owner);
    /// Returns nothing if the entity has no owner.
    std::optional<Peer> owner(ecs::Entity entity) const;
    /// Calls fn(entity) for each entity that the peer owns.
    template <class Fn>
    void for_each_owned(Peer peer, Fn&& fn) const {
        for (std::uint32_t entry = 0; entry < owners_.size(); ++entry)
            if (owner_of(entry) == peer) fn(owners_[entry].entity);
    }
    /// Makes the peer one of to_predictors() for a living entity with the sender's tag, or ends this. What
    /// the peer sees changes with the next update(). It ends, too, when the entity stops replicating. Returns
    /// false, without effect, if the entity is dead or lacks the tag.
    bool set_predictor(Peer peer, ecs::Entity entity, bool is_predictor);
    bool is_predictor(Peer peer, ecs::Entity entity) const;
    bool has_predictors(ecs::Entity entity) const;
    /// Calls fn(entity) for each entity that the peer predicts.
    template <class Fn>
    void for_each_predicted(Peer peer, Fn&& fn) const {
        for (const auto& [entry, entity] : peers_[peer]->predicted) fn(entity);
    }
    /// Sets the groups of a peer from the next update() on: to_group(), or several with |; other view
    /// classes have no effect.
    void set_groups(Peer peer, ViewClasses groups);
    ViewClasses groups(Peer peer) const { return peers_[peer]->groups; }

    /// Returns the next state payload of this tick; empty if nothing is left to send. The caller sends it in
    /// packet `number`, which must be higher in each call, and reports with on_fate() whether it was
    /// delivered. The payload exceeds `capacity` bytes only if one record, the records of one cluster, or a
    /// completion marker without records, needs more. The payload is written to `room`, which must have at
    /// least 100 bytes. Only if one record or cluster needs more than `room`, the payload is in memory of the
    /// sender, valid until the next call. It then has at most net::kMaxLargePayloadBytes. Pass `may_be_large`
    /// = false while a large payload is on its way: the entities in it then wait, and so do records that need
    /// more than `room`.
    std::span<const std::byte> encode(Peer peer, std::uint64_t number, std::size_t capacity,
                                      std::span<std::byte> room, bool may_be_large = true);

    /// Says in the next payload how early the inputs in a packet of this peer came. From then on the peer
    /// gets a payload at least every 33 ms (in whole ticks, rounded up), and at once if an input was late.
    void report_margin(Peer peer, const StateHeader::Margin& margin);

    /// Reports that packet `number` was delivered or lost. Numbers of packets without state are ignored.
    void on_fate(Peer peer, std::uint64_t number, bool delivered);

    /// Makes the next record of `slot` a full one, because the peer requested it. Any slot number is safe. No
    /// effect if the peer has no baseline, because then the next record is full anyway. A peer gets all its
    /// entities anew at once, and then a tenth of them per second; further requests wait. `differs`: because a
    /// self-check found other values; PeerStats::differences counts it. Returns the entity; null: no effect.
    ecs::Entity rebase(Peer peer, std::uint32_t slot, bool differs = false);

    /// Sends the peer a record of the entity as of the next update(), even if nothing changed. No effect if
    /// the peer does not see the entity at that time.
    void send_now(Peer peer, ecs::Entity entity) { to_send_.push_back({peer, entity}); }
    /// Returns whether the peer acknowledged a record of the entity.
    bool has_acknowledged(Peer peer, ecs::Entity entity) const;
    /// Makes full records with this net id, which comes from assign_net_id(), contain the peer's pending id
    /// `id`. 0: no pending id any more.
    void set_pending_id(Peer peer, NetId net_id, std::uint32_t id) {
        state(peer).view.set_pending_id(net_id, id);
    }

    /// Makes encode() write a completion marker for tick(), even if nothing changed. No effect if a marker
    /// for this tick was sent to the peer already.
    void request_marker(Peer peer);

    /// Returns true if the peer acknowledged two things: all state of tick(), and a completion marker for
    /// tick().
    bool is_settled(Peer peer) const;

    /// The slot in which a peer has the entity.
    std::optional<std::uint32_t> slot_of(Peer peer, ecs::Entity entity) const;
    /// The tick of the newest payload that the peer acknowledged.
    std::optional<Tick> newest_delivered(Peer peer) const { return peers_[peer]->flight.newest_delivered(); }

    PeerStats stats(Peer peer) const;
    const DeltaCache::Uses& cache_uses() const { return writer_.cache_uses(); }
    const PeerView& view(Peer peer) const { return peers_[peer]->view; }
    const Shadow& shadow() const { return shadow_; }

    /// The models of the range coder.
    const LearnedModels& models() const { return models_; }
    /// As LearnedModels. A peer with another schema is offered none.
    bool renew_model() { return models_.renew(tick_); }
    bool load_model(std::span<const std::byte> bytes) {
        return coding_ == Coding::range && models_.load(bytes, tick_);
    }
    bool offer_model(Peer peer) { return !state(peer).numbers && models_.offer(state(peer).model); }
    bool confirm_model(Peer peer, std::uint8_t number) { return models_.confirm(state(peer).model, number); }

    /// Who sees which entity. What is set here has an effect from the next update() on.
    Scope& scope() { return scope_; }
    const Scope& scope() const { return scope_; }
    /// Why the peer has an entity, or does not have it.
    Why why(Peer peer, ecs::Entity entity) const;
    /// Returns whether a message must not name the entity with this net id to the peer.
    bool hides(Peer peer, NetId net_id) const;
    /// Sets the references in the words of a message to null that name an entity which the peer does not see.
    /// Returns whether there were some.
    bool hide(Peer peer, const ComponentLayout& layout, std::span<std::uint32_t> words) const;
    /// Returns whether the peer sees an entity with the sender's tag. It may not have a slot yet.
    bool sees(Peer peer, ecs::Entity entity) const {
        return !scope_.is_used() || peers_[peer]->sees_all || scope_.sees(peer, entity);
    }
    /// Returns the net id of an entity that replicated at the last update() or got one by assign_net_id().
    /// For other entities returns the net id that their StableKey reserves, or 0 if they have none.
    NetId net_id(ecs::Entity entity) const { return shadow_.net_id(entity); }
    /// Returns the net id of a living entity with the sender's tag, also before the first update() that
    /// finds it. For other living entities returns the net id that their StableKey reserves, or 0.
    NetId assign_net_id(ecs::Entity entity) { return shadow_.assign(entity); }
    /// Returns the living entity with this net id; null if there is none.
    ecs::Entity entity(NetId net_id) const { return shadow_.entity_of(net_id); }
    /// Returns the living entity with this net id, if the peer has an entity slot for it; else null. Any
    /// number is safe.
    ecs::Entity entity_seen_by(Peer peer, NetId net_id) const;
    /// Tick of the last update(); 0 before the first.
    Tick tick() const { return tick_; }

    bool is_consistent() const;  // consistency.cpp

private:
    struct PeerState {
        PeerState(std::uint32_t max_slots, std::shared_ptr<const ComponentNumbers> of_peer)
            : view(max_slots, of_peer.get()), numbers(std::move(of_peer)) {}

        PeerView view;
        std::shared_ptr<const ComponentNumbers> numbers;  // null: the peer has the same schema
        Flight flight;
        std::vector<std::uint64_t> waiting;  // one bit per entry that waits for a slot; may be shorter
        std::uint32_t next_waiting = 0;      // entry where give_slots() continues
        Tick last_sent = 0, last_check = 0;
        std::uint32_t next_check = 0;  // slot
        // The tick since which the sender has waited for an ack of this peer; empty if it does not wait.
        std::optional<Tick> silent_since;
        Tick round_trip = 0;   // age of the newest packet that was acknowledged, at the last ack
        Tick last_change = 0;  // tick of the newest change that the peer sees
        ViewClasses groups;    // valid from the next update() on
        std::map<std::uint32_t, ecs::Entity> predicted;  // by entry; see predicts()
        // Packet number of the newest large payload. Its fate may be known.
        std::optional<std::uint64_t> large;
        std::set<std::uint32_t> to_rebase;  // requests that wait
        double rebases = 0;                 // rebases of this peer, less those it has earned back since
        bool is_held = false;
        LearnedModels::Peer model;
        bool sees_all = false;                      // see PeerOptions
        bool wants_marker = true;                   // send a completion marker, even if there are no records
        bool sends_inputs = false;                  // report_margin() was called
        std::optional<StateHeader::Margin> margin;  // not sent yet
        PeerStats stats;
    };

    static constexpr Peer kNobody = 0xffffffff;

    struct Owner {
        ecs::Entity entity;  // if the entry has another entity now, this owner does not count
        Peer peer = kNobody;
    };

    std::uint32_t history_ticks(Tick tick) const;
    std::shared_ptr<const ComponentNumbers> share(const ComponentNumbers& numbers) const;
    void make_peer(Peer peer, const PeerOptions& options,
                   std::map<std::uint32_t, ecs::Entity> predicted = {});
    void leave_audience(Peer peer);
    void pass_on_change(std::uint32_t entry);
    void force_records();
    static void rebase_waiting(PeerState& peer);
    void change_views();
    void change_view(PeerState& peer, std::uint32_t slot, const View& before);
    bool shows_reference(const PeerView& view, std::uint32_t slot, NetId net_id) const;
    PeerView::Roles roles(Peer peer, std::uint32_t entry) const;
    /// Returns whether the peer predicts the entity that has the entry. The entry may have another entity
    /// already: then the peer's does not replicate any more.
    bool predicts(Peer peer, std::uint32_t entry, ecs::Entity entity) const;
    Peer owner_of(std::uint32_t entry) const {
        const bool is_known = entry < owners_.size() && owners_[entry].entity == shadow_.entity(entry);
        return is_known ? owners_[entry].peer : kNobody;
    }
    void close_entry(std::uint32_t entry);
    void open_entry(Peer peer, std::uint32_t entry);
    void leave_entry(Peer peer, std::uint32_t entry);
    void open_opened();
    bool can_review(Peer peer, std::uint32_t entry) const;
    bool is_news(Peer peer, std::uint32_t entry, bool sees) const;
    void open_nearest_first();
    void review(Peer peer, std::uint32_t entry, int steps = Scope::kMaxSteps);
    void enter_or_leave(Peer peer, std::uint32_t entry, bool sees, int steps);
    static bool waits(const PeerState& peer, std::uint32_t entry) {
        return entry / 64 < peer.waiting.size() && (peer.waiting[entry / 64] >> entry % 64 & 1) != 0;
    }
    static void set_waits(PeerState& peer, std::uint32_t entry, bool waits);
    void give_slots(Peer peer);
    bool is_as_seen(Peer peer) const;
    bool is_hidden_change(Peer peer, std::uint32_t entry, const View& shown);
    void hide_references();
    RefersTo named(Peer peer, NetId net_id) const;
    void rebase_referrers(Peer peer, std::uint32_t entry);
    std::optional<StateHeader::Group> group_marker(const PeerState& peer, std::uint64_t number) const;
    std::optional<StateHeader::Check> next_check(PeerState& peer);
    void commit(PeerState& peer, std::uint64_t number, std::size_t count);
    PeerState& state(Peer peer) { return *peers_[peer]; }

    // The times of the options, in ticks.
    std::uint32_t history_ticks_, max_history_ticks_, heartbeat_ticks_, play_heartbeat_ticks_;
    double tick_s_;            // length of a tick
    double rebases_per_tick_;  // part of a peer's entities
    Tick quiet_ticks_;         // so long after the last change clients learn that the world stands still
    Tick check_ticks_;
    bool shows_;               // the schema has a component with a Display
    Tick long_gap_;            // 0: no deliveries are kept
    bool predicts_;            // see Schema::predicts()
    bool has_inputs_;          // the schema has an input
    std::vector<Tick> interval_ticks_, goal_ticks_;  // Schema::intervals() and goals()
    Shadow shadow_;
    Audience audience_;
    Scope scope_;
    ShapeTable seen_shapes_;  // scratch of is_hidden_change()
    HiddenReferences hidden_;
    std::array<std::vector<std::uint32_t>, 4> seen_words_;
    std::vector<PeerEntry> touched_;  // by the scope
    // What begins to be seen: how far it is, and the entry.
    std::vector<std::tuple<double, Peer, std::uint32_t>> entering_;
    bool hides_references_ = false;  // null instead of references to what a peer does not see
    std::uint64_t ended_ = 0;        // Shadow::ended_count() as of the last update()
    std::vector<Owner> owners_;      // by entry; shorter if the last entries never had an owner
    std::vector<std::unique_ptr<PeerState>> peers_;  // null: the number is not in use
    struct ToSend {
        Peer peer;
        ecs::Entity entity;
    };
    std::vector<ToSend> to_send_;           // by send_now() since the last update()
    std::vector<std::uint32_t> new_roles_;  // since the last update(): the entries whose peers' roles changed
    PayloadWriter writer_;
    const Coding coding_;
    LearnedModels models_;
    Tick tick_ = 0;
    bool updated_ = false;
};

}  // namespace shoal::replication::impl
