#include "sender.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>

#include "../../net/endpoint.h"

namespace shoal::replication::impl {
namespace {

constexpr std::size_t kMaxHeaderBytes = 100;  // more than the headers of a payload with one record
constexpr double kPlayHeartbeatS = 1.0 / 30;
constexpr double kQuietS = 0.033;
constexpr double kModelS = 10;    // between two models
constexpr double kCheckS = 0.25;  // between self-checks
static_assert(kMaxEntityBytes + kMaxHeaderBytes <= net::kMaxLargePayloadBytes);

constexpr double kRounding = 1e-6;  // 0.29 s at 100 Hz are 29 ticks, although 0.29 * 100 < 29

std::uint32_t ticks_of(double seconds, double tick_hz) {
    return static_cast<std::uint32_t>(std::max(1.0, std::ceil(seconds * tick_hz)));
}

/// The ticks in 250 ms, as a client that interpolates counts them: a tick has whole microseconds.
Tick long_gap(double tick_hz) {
    return static_cast<Tick>(std::max(1.0, 250'000 / std::max(1.0, std::round(1e6 / tick_hz))));
}

/// How many rebases a peer can get at once.
double most_rebases(const PeerView& view) {
    return std::max(view.used_count(), 100u);
}

}  // namespace

Sender::Sender(ecs::World& world, const Schema& schema, SenderOptions options)
    : history_ticks_(ticks_of(options.history_s, options.tick_hz)),
      max_history_ticks_(ticks_of(options.max_history_s, options.tick_hz)),
      heartbeat_ticks_(ticks_of(options.heartbeat_s, options.tick_hz)),
      play_heartbeat_ticks_(std::min(heartbeat_ticks_, ticks_of(kPlayHeartbeatS, options.tick_hz))),
      tick_s_(1 / options.tick_hz),
      rebases_per_tick_(1 / (10 * options.tick_hz)),
      quiet_ticks_(ticks_of(kQuietS, options.tick_hz)),
      check_ticks_(ticks_of(kCheckS, options.tick_hz)),
      shows_(schema.find<Teleports>() != kMaxComponents),
      long_gap_(options.keeps_deliveries ? long_gap(options.tick_hz) : 0),
      predicts_(schema.predicts()),
      has_inputs_(!schema.structs(StructKind::input).empty()),
      shadow_(world, schema, history_ticks_, options.tag),
      scope_(world, schema, shadow_, audience_,
             [this](Peer peer, ecs::Entity entity) {
                 return owner_of(shadow_.index_of(entity)) == peer || is_predictor(peer, entity);
             }),
      seen_shapes_(schema),
      writer_(shadow_),
      coding_(options.coding),
      models_(schema, options.coding == Coding::range && options.learn_every != 0,
              ticks_of(kModelS, options.tick_hz)) {
    writer_.learn(models_.counts(), options.learn_every);
    assert(options.tick_hz > 0 && options.history_s > 0 && options.heartbeat_s > 0);
    assert(options.max_history_s >= options.history_s);
    for (const double seconds : schema.intervals())
        interval_ticks_.push_back(static_cast<Tick>(std::ceil(seconds * options.tick_hz - kRounding)));
    for (const double seconds : schema.goals())
        goal_ticks_.push_back(static_cast<Tick>(seconds * options.tick_hz + kRounding));
}

void Sender::update(Tick tick) {
    assert(!updated_ || is_newer(tick, tick_));
    tick_ = tick;
    updated_ = true;
    shadow_.set_history(history_ticks(tick));
    shadow_.update(tick);
    writer_.start_tick(tick);
    for (const auto& peer : peers_)
        if (peer) peer->view.wake_due(tick);
    audience_.resize(shadow_.index_count());
    for (const std::uint32_t entry : shadow_.closed()) close_entry(entry);
    for (const std::uint32_t entry : shadow_.moved())
        for (const Audience::Viewer viewer : audience_.of(entry))
            state(viewer.peer).view.set_cluster(viewer.slot, shadow_[entry].cluster);
    scope_.update(static_cast<std::uint32_t>(peers_.size()));
    ended_ = shadow_.ended_count();
    hide_references();
    change_views();
    for (Peer peer = 0; peer < peers_.size(); ++peer)
        if (peers_[peer] && state(peer).stats.waiting != 0) give_slots(peer);
    open_opened();
    seen_shapes_.drop_unused();
    for (const std::uint32_t entry : shadow_.changed()) pass_on_change(entry);
    force_records();
    for (const auto& peer : peers_) {
        if (!peer || peer->rebases == 0) continue;
        peer->rebases = std::max(0.0, peer->rebases - rebases_per_tick_ * most_rebases(peer->view));
        rebase_waiting(*peer);
    }
}

/// Marks the slots of the peers that see the change. Other peers must not learn that something changed.
void Sender::pass_on_change(std::uint32_t entry) {
    const Version newest = *shadow_[entry].versions.newest();
    const ViewClasses viewers = newest.viewers;
    const Tick interval = interval_ticks_[newest.image.shape->interval];
    const std::span<const Audience::Viewer> all = audience_.of(entry);
    for (std::size_t i = 0; i < all.size(); ++i) {
        // The slots of an entity, in the views of all peers, are in no cache.
        if (i + 16 < all.size()) state(all[i + 16].peer).view.prefetch_front();
        if (i + 8 < all.size()) state(all[i + 8].peer).view.prefetch_slot(all[i + 8].slot);
        const Audience::Viewer viewer = all[i];
        PeerState& peer = state(viewer.peer);
        if (!overlap(viewers, peer.view.view_classes(viewer.slot))) continue;
        if (hides_references_ && is_hidden_change(viewer.peer, entry, peer.view.shown(viewer.slot))) continue;
        peer.view.pend_change(viewer.slot, interval, newest.image.shape->goal);
        peer.last_change = tick_;
    }
}

/// A peer's acknowledged version must stay until a newer one is acknowledged, also if a packet is lost in
/// between. So versions stay for twice the age of the oldest packet in flight. A peer that acknowledges
/// nothing for long gets full records of what has changed since.
std::uint32_t Sender::history_ticks(Tick tick) const {
    std::uint32_t most = history_ticks_;
    for (const auto& peer : peers_)
        if (peer && !peer->flight.empty() &&
            tick - peer->silent_since.value_or(tick) < history_ticks_ + 2 * peer->round_trip)
            most = std::max(most, 2 * std::min(tick - peer->flight.oldest_tick(), Tick{1} << 30));
    return std::min(most, max_history_ticks_);
}

// Peers

Sender::Peer Sender::add_peer(const PeerOptions& options) {
    assert(options.max_slots > 0);
    Peer peer = 0;
    while (peer < peers_.size() && peers_[peer]) ++peer;
    if (peer == peers_.size()) peers_.emplace_back();
    make_peer(peer, options);
    return peer;
}

void Sender::make_peer(Peer peer, const PeerOptions& options,
                       std::map<std::uint32_t, ecs::Entity> predicted) {
    peers_[peer] =
        std::make_unique<PeerState>(std::min(options.max_slots, PeerView::kMaxSlots), share(options.numbers));
    state(peer).predicted = std::move(predicted);
    state(peer).view.keep_deliveries(long_gap_);
    state(peer).sees_all = options.sees_all != ViewClasses{};
    state(peer).groups = options.sees_all;
    state(peer).view.set_groups(options.sees_all);
    if (interval_ticks_.size() + goal_ticks_.size() > 2 && !state(peer).sees_all)
        state(peer).view.set_schedule(goal_ticks_, interval_ticks_.back(), tick_);
    state(peer).last_sent = state(peer).last_change = state(peer).last_check = tick_;
    state(peer).round_trip = max_history_ticks_ / 2;
    state(peer).is_held = true;
    if (!options.is_held) start_peer(peer);
}

void Sender::reconnect_peer(Peer index) {
    PeerState& peer = state(index);
    assert(peer.flight.empty());
    peer.flight = {};
    peer.margin.reset();
    peer.large.reset();
    peer.view.forget_oversized();
    peer.wants_marker = true;
    peer.model = {};
}

void Sender::replace_peer(Peer peer, const PeerOptions& options) {
    const ViewClasses groups = state(peer).groups;
    auto predicted = std::move(state(peer).predicted);
    leave_audience(peer);
    make_peer(peer, options, std::move(predicted));
    state(peer).groups = groups;
}

void Sender::start_peer(Peer peer) {
    if (!std::exchange(state(peer).is_held, false)) return;
    state(peer).last_change = tick_;  // also if it sees nothing
    scope_.look(peer);
    const PeerState* const starting = peers_[peer].get();
    const auto is_there = [&] { return peers_[peer].get() == starting; };  // a filter may end the player
    for (std::uint32_t entry = 0; entry < shadow_.index_count() && is_there(); ++entry)
        if (const ecs::Entity entity = shadow_[entry].entity; entity && sees(peer, entity))
            entering_.emplace_back(scope_.is_used() ? scope_.distance(peer, entity) : 0, peer, entry);
    open_nearest_first();
    if (is_there()) state(peer).view.await_all();
}

void Sender::restart_peer(Peer index) {
    PeerState& peer = state(index);
    for (std::uint32_t slot = 0; slot < peer.view.slot_count(); ++slot) peer.view.rebase(slot);
    peer.view.await_all();
    peer.last_change = tick_;
}

/// Returns one table for all peers with equal numbers, which then get the same bits.
std::shared_ptr<const ComponentNumbers> Sender::share(const ComponentNumbers& numbers) const {
    if (numbers.empty()) return nullptr;
    for (const auto& other : peers_)
        if (other && other->numbers && *other->numbers == numbers) return other->numbers;
    return std::make_shared<const ComponentNumbers>(numbers);
}

void Sender::remove_peer(Peer peer) {
    assert(peers_[peer]);
    leave_audience(peer);
    scope_.remove_peer(peer);
    for (Owner& owner : owners_)
        if (owner.peer == peer) owner = {};
    peers_[peer].reset();
}

void Sender::leave_audience(Peer peer) {
    // Deltas are found by the address of their table of numbers. Another table could get this address in this
    // tick.
    if (state(peer).numbers) writer_.start_tick(tick_);
    const PeerView& view = state(peer).view;
    for (std::uint32_t slot = 0; slot < view.slot_count(); ++slot)
        if (view[slot].has_entity()) audience_.remove(view[slot].entry, peer);
}

bool Sender::set_owner(ecs::Entity entity, std::optional<Peer> owner) {
    const std::uint32_t entry = shadow_.assign_index(entity);
    if (entry == Shadow::kNone) return false;
    if (entry >= owners_.size()) owners_.resize(entry + std::size_t{1});
    owners_[entry] = {entity, owner.value_or(kNobody)};
    new_roles_.push_back(entry);
    return true;
}

bool Sender::set_predictor(Peer index, ecs::Entity entity, bool is_predictor) {
    const std::uint32_t entry = shadow_.assign_index(entity);
    if (entry == Shadow::kNone) return false;
    if (is_predictor) {
        state(index).predicted[entry] = entity;
    } else {
        state(index).predicted.erase(entry);
    }
    new_roles_.push_back(entry);
    return true;
}

bool Sender::is_predictor(Peer peer, ecs::Entity entity) const {
    return predicts(peer, shadow_.index_of(entity), entity);
}

bool Sender::predicts(Peer peer, std::uint32_t entry, ecs::Entity entity) const {
    const auto found = peers_[peer]->predicted.find(entry);
    return found != peers_[peer]->predicted.end() && found->second == entity;
}

bool Sender::has_predictors(ecs::Entity entity) const {
    for (Peer peer = 0; peer < peers_.size(); ++peer)
        if (peers_[peer] && is_predictor(peer, entity)) return true;
    return false;
}

PeerView::Roles Sender::roles(Peer peer, std::uint32_t entry) const {
    return {owner_of(entry) == peer, predicts(peer, entry, shadow_[entry].entity)};
}

/// Call it only in an update: a new view needs a record of a new tick. A peer ignores a record that has the
/// same tick as an earlier record.
void Sender::change_views() {
    for (const std::uint32_t entry : new_roles_) {
        if (entry >= audience_.entry_count()) continue;
        if (scope_.is_used())
            for (Peer peer = 0; peer < peers_.size(); ++peer) review(peer, entry);
        for (const Audience::Viewer viewer : audience_.of(entry)) {
            PeerState& peer = state(viewer.peer);
            const PeerView::Roles roles = this->roles(viewer.peer, entry);
            if (peer.view[viewer.slot].roles() == roles) continue;
            const View before = peer.view.shown(viewer.slot);
            peer.view.set_roles(viewer.slot, roles);
            change_view(peer, viewer.slot, before);
        }
    }
    new_roles_.clear();
    for (const auto& peer : peers_) {
        if (!peer || peer->groups == peer->view.groups()) continue;
        const ViewClasses before = peer->view.groups();
        peer->view.set_groups(peer->groups);
        for (std::uint32_t slot = 0; slot < peer->view.slot_count(); ++slot) {
            View old = peer->view.shown(slot);
            old.classes = (old.classes & (to_owner() | to_others() | to_predictors())) | before;
            if (peer->view[slot].has_entity()) change_view(*peer, slot, old);
        }
    }
}

std::optional<std::uint32_t> Sender::slot_of(Peer peer, ecs::Entity entity) const {
    const std::uint32_t entry = shadow_.index_of(entity);
    return entry < audience_.entry_count() ? audience_.slot(entry, peer) : std::nullopt;
}

void Sender::force_records() {
    for (const ToSend& wanted : to_send_) {
        if (const std::optional<std::uint32_t> slot = slot_of(wanted.peer, wanted.entity))
            state(wanted.peer).view.force(*slot);
    }
    to_send_.clear();
}

bool Sender::has_acknowledged(Peer peer, ecs::Entity entity) const {
    const std::optional<std::uint32_t> slot = slot_of(peer, entity);
    return slot && peers_[peer]->view[*slot].has_acked;
}

/// Sends an entity in full if the peer sees other components of it than before, or of a version that it may
/// have.
void Sender::change_view(PeerState& peer, std::uint32_t slot, const View& before) {
    const PeerView::Slot& known = peer.view[slot];
    const View now = peer.view.shown(slot);
    const Schema& schema = shadow_.schema();
    const auto looks_other = [&](const Version& version) {
        const Shape& shape = *version.image.shape;
        if (overlap(version.viewers, before.classes) != overlap(version.viewers, now.classes)) return true;
        if (shape.has_owned && before.is_owner() != now.is_owner()) return true;
        return std::ranges::any_of(shape.components, [&](ComponentIndex component) {
            return before.shows(schema, component) != now.shows(schema, component);
        });
    };
    const History& versions = shadow_[known.entry].versions;
    // With a baseline, all versions that the peer may have are in the history.
    const bool has_baseline = known.has_acked && shadow_.at(known.entry, known.acked, before.classes);
    bool is_restricted = false, is_other = false;
    for (std::uint32_t i = 0; i < versions.size(); ++i) {
        is_restricted = is_restricted || versions[i].image.shape->is_restricted;
        is_other = is_other || looks_other(versions[i]);
    }
    if (!is_other && (has_baseline || !is_restricted)) return;
    peer.view.rebase(slot);
    peer.last_change = tick_;
}

/// Returns whether a version of a slot's entity shows the peer a reference to this net id; 0: to any.
bool Sender::shows_reference(const PeerView& view, std::uint32_t slot, NetId net_id) const {
    const View shown = view.shown(slot);
    const History& versions = shadow_[view[slot].entry].versions;
    bool is_found = false;
    for (std::uint32_t i = 0; i < versions.size() && !is_found; ++i)
        for_each_reference(shadow_.schema(), versions[i].image, shown,
                           [&](NetId named) { is_found = is_found || net_id == 0 || named == net_id; });
    return is_found;
}

std::optional<Sender::Peer> Sender::owner(ecs::Entity entity) const {
    const std::uint32_t entry = shadow_.index_of(entity);
    return owner_of(entry) == kNobody ? std::nullopt : std::optional(owner_of(entry));
}

ecs::Entity Sender::entity_seen_by(Peer peer, NetId net_id) const {
    const ecs::Entity entity = shadow_.entity_of(net_id);
    return slot_of(peer, entity) ? entity : ecs::Entity{};
}

void Sender::set_groups(Peer peer, ViewClasses groups) {
    state(peer).groups = groups & to_all_groups();
}

ecs::Entity Sender::rebase(Peer index, std::uint32_t slot, bool differs) {
    PeerState& peer = state(index);
    if (slot >= peer.view.slot_count() || !peer.view[slot].has_entity() || !peer.view[slot].has_acked)
        return {};
    peer.stats.differences += differs;
    peer.to_rebase.insert(slot);
    rebase_waiting(peer);
    return shadow_[peer.view[slot].entry].entity;
}

void Sender::rebase_waiting(PeerState& peer) {
    while (!peer.to_rebase.empty() && peer.rebases < most_rebases(peer.view)) {
        peer.view.rebase(*peer.to_rebase.begin());
        peer.to_rebase.erase(peer.to_rebase.begin());
        peer.rebases += 1;
    }
}

void Sender::request_marker(Peer peer) {
    state(peer).view.wake_all();
    if (!state(peer).flight.has_marker(tick_)) state(peer).wants_marker = true;
}

bool Sender::is_settled(Peer index) const {
    const PeerState& peer = *peers_[index];
    const bool has_all = !peer.view.has_unsent() && peer.stats.waiting == 0;
    return peer.is_held || (has_all && peer.flight.is_settled(tick_));
}

Sender::PeerStats Sender::stats(Peer index) const {
    const PeerState& peer = *peers_[index];
    PeerStats stats = peer.stats;
    stats.pending = peer.view.pending_count();
    if (const Schedule* const schedule = peer.view.schedule()) stats.pending += schedule->resting_count();
    stats.slots_used = peer.view.used_count();
    stats.unjoined = peer.view.awaited_count();
    stats.model = models_.number_of(peer.model);
    return stats;
}

// Entities

/// If the peer has no free slot, the entity waits for one.
void Sender::open_entry(Peer peer, std::uint32_t entry) {
    PeerView& view = state(peer).view;
    state(peer).last_change = tick_;
    if (view.is_full()) {
        set_waits(state(peer), entry, true);
    } else {
        const std::uint32_t slot = view.open(entry, roles(peer, entry));
        view.set_cluster(slot, shadow_[entry].cluster);
        audience_.add(entry, {peer, slot});
        rebase_referrers(peer, entry);
    }
}

/// The entity stays, but the peer does not see it any more.
void Sender::leave_entry(Peer index, std::uint32_t entry) {
    PeerState& peer = state(index);
    peer.last_change = tick_;
    if (waits(peer, entry)) return set_waits(peer, entry, false);
    peer.view.close(*audience_.slot(entry, index), Despawn::out_of_view);
    audience_.remove(entry, index);
    rebase_referrers(index, entry);
}

/// Begins to hide references, once there is something to hide.
void Sender::hide_references() {
    if (!scope_.is_used() || std::exchange(hides_references_, true)) return;
    shadow_.keep_referrers();
    for (const auto& peer : peers_)
        for (std::uint32_t slot = 0; peer && slot < peer->view.slot_count(); ++slot)
            if (peer->view[slot].has_entity() && shows_reference(peer->view, slot, 0))
                peer->view.rebase(slot);
}

Why Sender::why(Peer index, ecs::Entity entity) const {
    Why why = scope_.why(index, entity);
    if (why.reason != Reason::has_it) return why;
    const std::optional<std::uint32_t> found = slot_of(index, entity);
    const std::uint32_t entry = shadow_.index_of(entity);
    if (peers_[index]->is_held) {
        why.reason = Reason::not_loading;
    } else if (!found) {
        const bool is_waiting = entry != Shadow::kNone && waits(*peers_[index], entry);
        why.reason = is_waiting ? Reason::waits_for_slot : Reason::seen_next_tick;
    } else {
        const PeerView& view = peers_[index]->view;
        const PeerView::Slot& slot = view[*found];
        why.reason = !slot.has_acked   ? (slot.is_fresh ? Reason::waits_to_be_sent : Reason::not_acknowledged)
                     : slot.is_pending ? Reason::waits_to_be_updated
                                       : Reason::has_it;
        if (view.rests(*found)) {
            why.reason = Reason::waits_for_interval;
            const Image image = shadow_[entry].versions.newest()->image;
            why.interval_s = shadow_.schema().intervals()[image.shape->interval];
            why.next_s = tick_s_ * ((*view.schedule())[*found].due - tick_);
        }
        why.tick = slot.has_acked ? slot.acked : slot.sent;
        const Schema& schema = shadow_.schema();
        for (const ComponentIndex component : shadow_[entry].versions.newest()->image.shape->components)
            why.other_views += !view.shown(*found).shows(schema, component);
    }
    return why;
}

/// What a reference in a version of an entity is for the peer.
RefersTo Sender::named(Peer peer, NetId net_id) const {
    const std::uint32_t entry = shadow_.index_of(net_id);
    if (entry == Shadow::kNone) return NetIds::is_reserved(net_id) ? RefersTo::seen : RefersTo::ended;
    return audience_.has(entry, peer) ? RefersTo::seen : RefersTo::hidden;
}

bool Sender::hides(Peer peer, NetId net_id) const {
    if (!scope_.is_used()) return false;
    const ecs::Entity entity = shadow_.entity_of(net_id);
    if (entity && shadow_.replicates(entity)) return !sees(peer, entity);
    return !entity && named(peer, net_id) == RefersTo::hidden;
}

bool Sender::hide(Peer peer, const ComponentLayout& layout, std::span<std::uint32_t> words) const {
    if (!scope_.is_used() || !layout.has_references()) return false;
    bool has_hidden = false;
    layout.for_each_reference(words.data(), words.data() + layout.lanes().size(), [&](std::uint32_t& lane) {
        if (!hides(peer, lane)) return;
        lane = 0;
        has_hidden = true;
    });
    return has_hidden;
}

/// Returns whether, of what the peer sees, the newest version of an entity differs from the one before only
/// in references to what it does not see.
bool Sender::is_hidden_change(Peer peer, std::uint32_t entry, const View& shown) {
    const History& versions = shadow_[entry].versions;
    if (versions.size() < 2) return false;
    Image before = versions[versions.size() - 2].image, now = versions.newest()->image;
    if (!before.shape->has_references && !now.shape->has_references) return false;
    const NameSight sight = [&](NetId net_id) { return named(peer, net_id); };
    const Schema& schema = shadow_.schema();
    if (worst_of(schema, before, shown, sight) == RefersTo::seen &&
        worst_of(schema, now, shown, sight) == RefersTo::seen)
        return false;
    before = visible_part(before, shown, seen_shapes_, seen_words_[2]);
    now = visible_part(now, shown, seen_shapes_, seen_words_[3]);
    return hidden_.remove(before, sight, seen_shapes_, seen_words_[0]) ==
           hidden_.remove(now, sight, seen_shapes_, seen_words_[1]);
}

/// References to an entity that enters or leaves the view are other references for the peer: what it
/// acknowledged is no baseline any more.
void Sender::rebase_referrers(Peer index, std::uint32_t entry) {
    if (!hides_references_ || shadow_[entry].versions.oldest()->tick == tick_) return;
    PeerState& peer = state(index);
    shadow_.for_each_referrer(shadow_[entry].entity, [&](std::uint32_t referrer) {
        const std::optional<std::uint32_t> slot = audience_.slot(referrer, index);
        if (!slot || !shows_reference(peer.view, *slot, shadow_[entry].net_id)) return;
        peer.view.rebase(*slot);
        peer.last_change = tick_;
    });
}

void Sender::set_waits(PeerState& peer, std::uint32_t entry, bool waits) {
    if (entry / 64 >= peer.waiting.size()) peer.waiting.resize(entry / 64 + std::size_t{1});
    peer.waiting[entry / 64] ^= std::uint64_t{1} << entry % 64;
    peer.stats.waiting += waits ? 1u : -1u;
    assert(Sender::waits(peer, entry) == waits);
}

void Sender::close_entry(std::uint32_t entry) {
    if (entry < owners_.size()) owners_[entry] = {};
    for (const auto& peer : peers_) {
        if (!peer) continue;
        peer->predicted.erase(entry);
        if (!waits(*peer, entry)) continue;
        set_waits(*peer, entry, false);
        peer->last_change = tick_;  // the state without it is another one
    }
    for (const Audience::Viewer viewer : audience_.of(entry)) {
        state(viewer.peer).last_change = tick_;
        state(viewer.peer).view.close(viewer.slot, shadow_[entry].reason);
    }
    audience_.clear(entry);
}

/// Opens the new entities for the peers that see them, and applies the rule of the scope to what it touched.
void Sender::open_opened() {
    if (!scope_.is_used()) {
        for (Peer peer = 0; peer < peers_.size(); ++peer)
            if (peers_[peer] && !state(peer).is_held)
                for (const std::uint32_t entry : shadow_.opened()) open_entry(peer, entry);
        return;
    }
    scope_.take_touched(touched_);  // a filter of the game may touch more
    for (const auto [peer, entry] : touched_) {
        if (!can_review(peer, entry)) continue;
        const ecs::Entity entity = shadow_[entry].entity;
        const bool sees = this->sees(peer, entity);
        if (!is_news(peer, entry, sees)) continue;
        if (sees) {
            entering_.emplace_back(scope_.distance(peer, entity), peer, entry);
        } else {
            enter_or_leave(peer, entry, false, 0);
        }
    }
    for (Peer peer = 0; peer < peers_.size(); ++peer)  // the scope touches only what is near a viewpoint
        if (peers_[peer] && state(peer).sees_all)
            for (const std::uint32_t entry : shadow_.opened()) entering_.emplace_back(0, peer, entry);
    open_nearest_first();
}

/// Opens what is in `entering_`, the nearest first: it is sent first, and gets slots if there are too few.
void Sender::open_nearest_first() {
    auto entering = std::move(entering_);  // a filter may start a peer
    entering_.clear();
    std::ranges::sort(entering);
    for (const auto& [distance, peer, entry] : entering)
        if (can_review(peer, entry)) enter_or_leave(peer, entry, true, Scope::kMaxSteps);
    entering.clear();
    entering_ = std::move(entering);
}

bool Sender::can_review(Peer peer, std::uint32_t entry) const {
    return peer < peers_.size() && peers_[peer] && !peers_[peer]->is_held && entry < shadow_.index_count() &&
           shadow_[entry].entity;
}

/// Returns whether the peer begins or ceases to see the entity: `sees` is not what its view has.
bool Sender::is_news(Peer peer, std::uint32_t entry, bool sees) const {
    return peers_[peer] && sees != (audience_.has(entry, peer) || waits(*peers_[peer], entry));
}

void Sender::review(Peer peer, std::uint32_t entry, int steps) {
    if (can_review(peer, entry)) enter_or_leave(peer, entry, sees(peer, shadow_[entry].entity), steps);
}

/// Opens or closes the entity's slot, if the peer begins or ceases to see the entity. What the entity follows
/// comes first, so that it is not sent later.
void Sender::enter_or_leave(Peer peer, std::uint32_t entry, bool sees, int steps) {
    if (!is_news(peer, entry, sees)) return;  // a filter may end the player
    const ecs::Entity entity = shadow_[entry].entity;
    if (sees && steps > 0) review(peer, scope_.followed_by(entity), steps - 1);
    if (!is_news(peer, entry, sees)) return;  // it follows itself, in a circle
    sees ? open_entry(peer, entry) : leave_entry(peer, entry);
    scope_.for_each_follower(entity, [&](std::uint32_t follower) { review(peer, follower); });
}

/// Gives the free slots to entities that wait. Entities that this update() opens come later.
void Sender::give_slots(Peer index) {
    PeerState& peer = state(index);
    const auto count = static_cast<std::uint32_t>(peer.waiting.size() * 64);
    while (peer.stats.waiting != 0 && !peer.view.is_full()) {
        const std::uint32_t entry = peer.next_waiting % count;
        const std::uint64_t bits = peer.waiting[entry / 64] >> entry % 64;
        const std::uint32_t skipped = bits == 0 ? 0 : static_cast<std::uint32_t>(std::countr_zero(bits));
        peer.next_waiting = bits == 0 ? (entry / 64 + 1) * 64 : entry + skipped + 1;
        if (bits == 0) continue;
        set_waits(peer, entry + skipped, false);
        open_entry(index, entry + skipped);
    }
}

// Packets

void Sender::on_fate(Peer index, std::uint64_t number, bool delivered) {
    PeerState& peer = state(index);
    peer.flight.on_fate(number, delivered, [&](SentRecord record, Tick tick) {
        peer.view.on_fate(record, number, tick, delivered);
    });
    if (delivered) peer.silent_since = peer.flight.empty() ? std::nullopt : std::optional(tick_);
    if (delivered) peer.round_trip = tick_ - peer.flight.newest_delivered().value_or(tick_);
    if (peer.flight.needs_marker()) peer.wants_marker = true;
}

std::span<const std::byte> Sender::encode(Peer index, std::uint64_t number, std::size_t capacity,
                                          std::span<std::byte> room, bool may_be_large) {
    assert(room.size() >= kMaxHeaderBytes);
    PeerState& peer = state(index);
    if (!updated_ || peer.is_held) return {};
    // Net ids were released since the last update: it is not known any more who saw their entities.
    if (hides_references_ && ended_ != shadow_.ended_count()) return {};
    if (may_be_large && std::exchange(peer.large, std::nullopt)) peer.view.forget_oversized();
    // A client with inputs, or with entities of its own to predict, learns soon that nothing moved.
    const bool hears_often = peer.sends_inputs || (predicts_ && !peer.view.group().empty());
    const Tick longest = hears_often ? play_heartbeat_ticks_ : heartbeat_ticks_;
    // A client that interpolates learns soon that the world stands still, also if a marker is lost: the time
    // between markers doubles.
    const Tick wanted = shows_ ? std::max(quiet_ticks_, peer.last_sent - peer.last_change) : longest;
    const bool is_urgent = peer.margin && peer.margin->is_late;
    const bool heartbeat = is_urgent || tick_ - peer.last_sent >= std::min(longest, wanted);
    if (peer.view.pending_count() == 0 && !heartbeat && (!peer.wants_marker || peer.view.has_unsent()))
        return {};
    const std::size_t room_bits = std::min(capacity, room.size()) * 8;
    const Tick quiet = tick_ - peer.last_change;
    StateHeader header;
    header.tick = tick_;
    header.anchor = peer.flight.anchor(number, tick_);
    header.complete = peer.flight.marker(number, quiet);
    header.predicts = predicts_;
    header.has_inputs = has_inputs_;
    header.margin = peer.margin;
    header.coding = coding_;
    header.model = models_.number_of(peer.model);
    writer_.set_model(coding_ == Coding::bits ? ModelView() : models_.model_of(peer.model));
    // Leaves room for the longest group marker. Its place is taken below, by a marker with fewer bits or
    // none.
    header.group = StateHeader::Group{kMaxPacketDistance, kMaxPacketDistance};
    const std::size_t most_bytes = may_be_large ? net::kMaxLargePayloadBytes : room.size();
    const NameSight sight = [this, index](NetId net_id) { return named(index, net_id); };
    writer_.set_sight(hides_references_ ? &sight : nullptr);
    if (header.anchor && tick_ - peer.last_check >= check_ticks_) header.check = next_check(peer);
    writer_.gather(peer.view, header, {room_bits, most_bytes * 8, peer.large});
    writer_.set_sight(nullptr);
    peer.stats.parted_clusters += writer_.parted_count();
    writer_.list(header, peer.flight.anchor_slots());
    header.record_count = static_cast<std::uint32_t>(writer_.candidates().size());
    const std::size_t count = writer_.fit(header, room_bits);
    header.record_count = static_cast<std::uint32_t>(count);
    const auto is_last = [&] { return !peer.view.has_unsent() && peer.stats.waiting == 0; };
    const bool is_silent = heartbeat && peer.view.pending_count() == 0 && peer.view.has_unsent();
    if (count == 0 && !is_silent && !(is_last() && header.complete && (peer.wants_marker || heartbeat)))
        return {};
    commit(peer, number, count);
    // After commit() the marker may name fewer packets. The marker never has more bits than fit() counted for
    // it.
    header.complete = is_last() && header.complete ? peer.flight.marker(number, quiet) : std::nullopt;
    header.group = group_marker(peer, number);
    if (header.complete) peer.flight.send_marker(number, *header.complete);
    peer.wants_marker = !header.complete;
    peer.last_sent = tick_;
    if (header.check) {
        peer.last_check = tick_;
        peer.next_check += 1;
    }
    peer.margin.reset();
    const std::span<const std::byte> payload = writer_.write(header, room);
    if (payload.size() > room.size()) peer.large = number;
    peer.stats.state_bytes += payload.size();
    return payload;
}

/// Returns the self-check of the next slot, in turn. Skips a few slots for which there is none.
std::optional<StateHeader::Check> Sender::next_check(PeerState& peer) {
    const std::uint32_t count = peer.view.slot_count();
    for (int tries = 0; tries < 16 && count != 0; ++tries, ++peer.next_check)
        if (const auto found = writer_.check_of(peer.next_check % count, peer.view)) return found;
    return std::nullopt;
}

void Sender::report_margin(Peer index, const StateHeader::Margin& margin) {
    PeerState& peer = state(index);
    const bool is_late = margin.is_late || (peer.margin && peer.margin->is_late);
    peer.margin = margin;
    peer.margin->is_late = is_late;
    peer.sends_inputs = true;
}

/// Returns which packets the peer needs to have its group as of this tick. Returns nothing if changes of the
/// group wait to be sent.
std::optional<StateHeader::Group> Sender::group_marker(const PeerState& peer, std::uint64_t number) const {
    std::uint64_t oldest = number;
    for (const std::uint32_t slot : peer.view.group()) {
        if (peer.view[slot].is_pending) return std::nullopt;
        const std::uint64_t distance = static_cast<std::uint16_t>(number - peer.view[slot].packet);
        if (peer.view[slot].in_flight) oldest = std::min(oldest, number - distance);
    }
    return peer.flight.group(number, oldest);
}

/// Notes that packet `number` carries the first `count` candidates.
void Sender::commit(PeerState& peer, std::uint64_t number, std::size_t count) {
    peer.flight.begin(number, tick_);
    if (!peer.silent_since) peer.silent_since = tick_;
    std::array<std::size_t, PeerView::kQueues> done{};
    for (const PayloadWriter::Candidate& candidate : writer_.candidates().first(count)) {
        done[static_cast<std::size_t>(candidate.queue)] = candidate.position + 1;
        const PeerView::Slot& slot = peer.view[candidate.header.slot];
        if (peer.view.schedule()) {
            peer.stats.goals_missed += peer.view.is_late(candidate.header.slot, tick_);
            peer.view.note_sent(candidate.queue, candidate.bits());
        }
        if (slot.in_flight) peer.flight.overtake(slot.packet);
        peer.flight.add(peer.view.send(candidate.header.slot, number, tick_, candidate.oldest));
        peer.stats.records_sent += 1;
        peer.stats.full_records += candidate.header.kind == RecordKind::full;
        peer.stats.empty_records += candidate.delta.is_empty;
    }
    for (std::size_t which = 0; which < done.size(); ++which)
        peer.view.drop_front(static_cast<PeerView::Queue>(which), done[which]);
    using Queue = PeerView::Queue;
    bool others_wait = false, others_go = false;
    for (std::size_t which = 1; which < done.size(); ++which) {
        others_go = others_go || done[which] != 0;
        others_wait = others_wait || !peer.view.queue(static_cast<Queue>(which)).empty();
    }
    peer.view.set_first(others_wait && !others_go ? Queue::other : Queue::group);
}

/// Returns whether a peer has a slot for each entity that it sees and that does not wait, and for no other.
bool Sender::is_as_seen(Peer index) const {
    std::uint32_t waiting = 0;
    for (std::uint32_t entry = 0; entry < shadow_.index_count(); ++entry) {
        const bool is_waiting = waits(*peers_[index], entry), has = audience_.has(entry, index);
        const ecs::Entity entity = shadow_[entry].entity;
        if ((is_waiting && has) || (has && !entity)) return false;
        if (entity && (is_waiting || has) != sees(index, entity)) return false;
        waiting += is_waiting;
    }
    return waiting == peers_[index]->stats.waiting;
}

}  // namespace shoal::replication::impl
