#include "scope.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace shoal::replication::all {
namespace {

GridPlace sane(const GridPlace& place, bool has_height) {
    const auto finite = [](double number) { return std::isfinite(number) ? number : 0; };
    return {finite(place.x), finite(place.y), has_height ? finite(place.z) : 0};
}

}  // namespace

Scope::Scope(ecs::World& world, const Schema& schema, const Shadow& shadow, const Audience& audience,
             HasRole has_role)
    : world_(world),
      shadow_(shadow),
      audience_(audience),
      has_role_(std::move(has_role)),
      changes_(world),
      rule_(&schema.grid()) {
    if (rule_->bind) {
        place_ = rule_->bind(world);
        grid_.emplace(rule_->options);
        watch(place_, kPlace);
    }
    for (const SchemaComponent& component : schema.components()) {
        if (component.follows_target) follows_.push_back(component.bind(world));
        if (component.is_everywhere || component.singleton) everywhere_.push_back(component.bind(world));
    }
    is_used_ = grid_ || !follows_.empty();
    for (const ecs::ComponentId id : follows_) watch(id, kFollows);
    for (const ecs::ComponentId id : everywhere_) watch(id, kEverywhere);
    watch(world.component<Room>(), kRoom);
    watch(world.component<Rooms>(), kRoom);
    if (!follows_.empty()) watch(shadow.tag(), kTag);
    world.each_entity([&](ecs::Entity entity) {
        if (world.has<Room>(entity) || world.has<Rooms>(entity)) changes_.mark_all(entity);
    });
}

void Scope::watch(ecs::ComponentId component, std::uint8_t parts) {
    const std::uint32_t watch = changes_.watch(component);
    if (watch == parts_.size()) parts_.push_back(0);
    parts_[watch] = static_cast<std::uint8_t>(parts_[watch] | parts);
}

void Scope::remove_peer(std::uint32_t peer) {
    rooms_.remove_peer(peer);
    for (auto& [entity, all] : shown_) std::erase_if(all, [&](const Shown& one) { return one.peer == peer; });
    if (peer < viewpoints_.size()) viewpoints_[peer] = {};
    if (grid_) grid_->look(peer, {}, touched_);
}

void Scope::enter(std::uint32_t peer, Room room) {
    is_used_ = has_rooms_ = true;
    if (rooms_.enter(peer, room))
        rooms_.for_each_entry(room, [&](std::uint32_t entry) { touched_.push_back({peer, entry}); });
}

void Scope::leave(std::uint32_t peer, Room room) {
    if (rooms_.leave(peer, room))
        rooms_.for_each_entry(room, [&](std::uint32_t entry) { touched_.push_back({peer, entry}); });
}

void Scope::set_shown(std::uint32_t peer, ecs::Entity entity, std::optional<bool> is_shown) {
    if (!world_.is_alive(entity)) return;
    is_used_ = true;
    std::vector<Shown>& all = shown_[entity];
    std::erase_if(all, [&](const Shown& one) { return one.peer == peer; });
    if (is_shown) all.push_back({peer, *is_shown});
    if (all.empty()) shown_.erase(entity);
    if (const std::uint32_t entry = open_entry(entity); entry != Shadow::kNone)
        touched_.push_back({peer, entry});
}

void Scope::view_by_default(std::uint32_t peer, ecs::Entity entity) {
    if (!grid_) return;
    if (peer >= viewpoints_.size()) viewpoints_.resize(peer + std::size_t{1});
    if (viewpoints_[peer].is_default) viewpoints_[peer].entity = entity;
}

void Scope::view_from(std::uint32_t peer, ecs::Entity entity) {
    if (!grid_) return;
    if (peer >= viewpoints_.size()) viewpoints_.resize(peer + std::size_t{1});
    viewpoints_[peer] = {entity, false, {}};
}

void Scope::view_from(std::uint32_t peer, std::span<const GridPlace> places) {
    view_from(peer, ecs::Entity{});
    if (!grid_) return;
    for (const GridPlace& place : places)
        viewpoints_[peer].places.push_back(sane(place, rule_->options.has_height));
}

void Scope::set_filter(ecs::ComponentId component, std::string_view name, Filter filter) {
    is_used_ = true;
    watch(component, kFilter);
    std::erase_if(filters_, [&](const ComponentFilter& one) { return one.component == component; });
    filters_.push_back({component, std::string(name), std::move(filter)});
    world_.each_entity([&](ecs::Entity entity) {
        if (world_.has(entity, component)) recheck(entity);
    });
}

void Scope::update(std::uint32_t peers) {
    peers_ = peers;
    for (const ecs::ChangeCollector::Change& change : changes_.changes())
        change.for_each([&](std::uint32_t watch) {
            is_used_ = is_used_ || (parts_[watch] & ~(kEverywhere | kTag)) != 0;
        });
    if (is_used_) {
        for (const std::uint32_t entry : shadow_.closed()) close(entry);
        for (const std::uint32_t entry : shadow_.opened()) open(entry);
        for (const ecs::ChangeCollector::Change& change : changes_.changes()) {
            std::uint8_t parts = 0;
            change.for_each([&](std::uint32_t watch) { parts |= parts_[watch]; });
            take(change.entity, parts);
        }
        for (std::uint32_t peer = 0; peer < viewpoints_.size(); ++peer) look(peer);
    }
    for (const ecs::Entity entity : to_recheck_)
        if (const std::uint32_t entry = open_entry(entity); entry != Shadow::kNone) touch_all(entry);
    for (const std::uint32_t peer : peers_to_recheck_)
        for (std::uint32_t entry = 0; entry < shadow_.index_count(); ++entry)
            if (shadow_[entry].entity) touched_.push_back({peer, entry});
    to_recheck_.clear();
    peers_to_recheck_.clear();
    if (!shown_.empty())
        for (const ecs::Entity entity : changes_.destroyed()) shown_.erase(entity);
    changes_.clear();
}

void Scope::open(std::uint32_t entry) {
    if (const std::optional<GridPlace> place = place_of(shadow_[entry].entity))
        grid_->put(entry, *place, touched_);
    take_rooms(entry);
    take_target(entry);
    touch(entry);
}

void Scope::close(std::uint32_t entry) {
    if (grid_) grid_->remove(entry);
    rooms_.remove(entry);
    followers_.clear(entry);
}

void Scope::take(ecs::Entity entity, std::uint8_t parts) {
    if ((parts & kTag) != 0) touch_followers(entity, kMaxSteps + 1);
    const std::uint32_t entry = open_entry(entity);
    if (entry == Shadow::kNone) return;
    if ((parts & kPlace) != 0) take_place(entry);
    if ((parts & kRoom) != 0) take_rooms(entry);
    if ((parts & kFollows) != 0) {
        take_target(entry);
        touch_followers(entity, kMaxSteps + 1);
    }
    if ((parts & (kRoom | kFollows | kEverywhere)) != 0) {
        touch_all(entry);
    } else if ((parts & kFilter) != 0) {
        touch(entry);
    }
}

void Scope::take_place(std::uint32_t entry) {
    if (const std::optional<GridPlace> place = place_of(shadow_[entry].entity)) {
        if (grid_->put(entry, *place, touched_)) touch_all(entry);
    } else if (grid_ && grid_->has(entry)) {
        grid_->remove(entry);
        touch_all(entry);
    }
}

void Scope::take_rooms(std::uint32_t entry) {
    const RoomSpan rooms(world_, shadow_[entry].entity);
    has_rooms_ = has_rooms_ || !rooms.is_anywhere();
    if (has_rooms_) rooms_.put(entry, rooms);
}

void Scope::take_target(std::uint32_t entry) {
    if (follows_.empty()) return;
    followers_.clear(entry);
    if (const ecs::Entity target = target_of(shadow_[entry].entity)) followers_.add(target.index, entry);
}

/// Touches the peers that can see the entity, and those that see it or what it follows.
void Scope::touch(std::uint32_t entry) {
    const ecs::Entity entity = shadow_[entry].entity, last = leader(entity);
    for (ecs::Entity one = entity;; one = target_of(one)) {
        if (is_everywhere(one)) return touch_all(entry);
        const std::uint32_t of_one = open_entry(one);
        if (of_one < audience_.entry_count())
            for (const Audience::Viewer viewer : audience_.of(of_one))
                touched_.push_back({viewer.peer, entry});
        if (const auto found = shown_.find(one); found != shown_.end())
            for (const Shown& of_peer : found->second) touched_.push_back({of_peer.peer, entry});
        if (one == last) break;
    }
    const std::uint32_t deciding = open_entry(last);
    if (!grid_ || deciding == Shadow::kNone || !grid_->has(deciding)) return touch_all(entry);
    grid_->for_each_watcher(deciding, [&](std::uint32_t peer) { touched_.push_back({peer, entry}); });
}

void Scope::touch_all(std::uint32_t entry) {
    for (std::uint32_t peer = 0; peer < peers_; ++peer) touched_.push_back({peer, entry});
}

void Scope::touch_followers(ecs::Entity entity, int steps) {
    if (steps == 0) return;
    for_each_follower(entity, [&](std::uint32_t follower) {
        touch_all(follower);
        touch_followers(shadow_[follower].entity, steps - 1);
    });
}

void Scope::look(std::uint32_t peer) {
    if (!grid_ || peer >= viewpoints_.size()) return;
    Viewpoints& from = viewpoints_[peer];
    if (const std::optional<GridPlace> place = place_of(from.entity)) from.places.assign(1, *place);
    grid_->look(peer, from.places, touched_);
}

/// Returns the entry of an entity that replicates; Shadow::kNone if it does not.
std::uint32_t Scope::open_entry(ecs::Entity entity) const {
    const std::uint32_t entry = shadow_.index_of(entity);
    return entry < shadow_.index_count() && shadow_[entry].entity == entity ? entry : Shadow::kNone;
}

/// Returns what an entity follows; null if it follows nothing, or does not replicate itself.
ecs::Entity Scope::target_of(ecs::Entity entity) const {
    if (follows_.empty() || !world_.has(entity, shadow_.tag())) return {};
    for (const ecs::ComponentId relation : follows_)
        if (const auto pairs = world_.pairs_of(entity, relation); !pairs.empty()) return pairs[0].target;
    return {};
}

std::optional<GridPlace> Scope::place_of(ecs::Entity entity) const {
    if (!grid_) return std::nullopt;
    const void* const value = world_.try_get(entity, place_);
    if (!value) return std::nullopt;
    return sane(rule_->place(value), rule_->options.has_height);
}

std::optional<bool> Scope::shown(std::uint32_t peer, ecs::Entity entity) const {
    if (shown_.empty()) return std::nullopt;
    const auto found = shown_.find(entity);
    if (found == shown_.end()) return std::nullopt;
    for (const Shown& one : found->second)
        if (one.peer == peer) return one.is_shown;
    return std::nullopt;
}

bool Scope::is_everywhere(ecs::Entity entity) const {
    return std::ranges::any_of(everywhere_,
                               [&](ecs::ComponentId component) { return world_.has(entity, component); });
}

/// The tests of entities that follow nothing.
Reason Scope::test(std::uint32_t peer, ecs::Entity entity) const {
    if (!passes_rooms(peer, entity)) return Reason::not_in_room;
    if (!passes_grid(peer, entity)) return Reason::too_far;
    return failed_filter(peer, entity) ? Reason::filtered : Reason::has_it;
}

bool Scope::passes_rooms(std::uint32_t peer, ecs::Entity entity) const {
    if (!has_rooms_) return true;
    const RoomSpan rooms(world_, entity);
    return rooms.is_anywhere() || rooms.any_of([&](Room room) { return rooms_.is_in(peer, room); });
}

bool Scope::passes_grid(std::uint32_t peer, ecs::Entity entity) const {
    if (!grid_) return true;
    const std::uint32_t entry = open_entry(entity);
    if (entry != Shadow::kNone && grid_->has(entry)) {
        const Grid::Sight sight = grid_->sight(peer, entry);
        if (sight == Grid::Sight::edge) return entry < audience_.entry_count() && audience_.has(entry, peer);
        return sight == Grid::Sight::inside;
    }
    const std::optional<GridPlace> place = place_of(entity);
    return !place || grid_->sight(peer, *place) == Grid::Sight::inside;
}

/// Returns the filter that hides the entity from the peer; null if there is none.
const Scope::ComponentFilter* Scope::failed_filter(std::uint32_t peer, ecs::Entity entity) const {
    for (const ComponentFilter& filter : filters_)
        if (world_.has(entity, filter.component) &&
            !filter.fn(peer, entity, world_.try_get(entity, filter.component)))
            return &filter;
    return nullptr;
}

/// Returns whether the entity follows itself, in a circle.
bool Scope::is_in_circle(ecs::Entity entity) const {
    ecs::Entity one = target_of(entity);
    for (int step = 0; step < kMaxSteps && one && one != entity; ++step) one = target_of(one);
    return one == entity;
}

/// Returns the last entity that an entity follows: one that follows nothing, or the first one in a circle.
/// Returns the entity itself if it follows nothing, or if there is no such entity within kMaxSteps.
ecs::Entity Scope::leader(ecs::Entity entity) const {
    ecs::Entity one = entity;
    for (int step = 0; step <= kMaxSteps; ++step) {
        const ecs::Entity target = target_of(one);
        if (!target) return one;
        one = target;
    }
    one = entity;
    for (int step = 0; step <= kMaxSteps; ++step, one = target_of(one))
        if (is_in_circle(one)) return one;
    return entity;
}

Scope::Verdict Scope::verdict(std::uint32_t peer, ecs::Entity entity) const {
    const ecs::Entity last = leader(entity);
    for (ecs::Entity one = entity;; one = target_of(one)) {
        if (!world_.has(one, shadow_.tag())) return {Reason::not_replicated, one};
        if (has_role_(peer, one)) return {Reason::has_it, one};
        if (const std::optional<bool> is_shown = shown(peer, one))
            return {*is_shown ? Reason::has_it : Reason::hidden, one};
        if (is_everywhere(one)) return {Reason::has_it, one};
        if (one == last) return {test(peer, one), one};
    }
}

double Scope::distance(std::uint32_t peer, ecs::Entity entity) const {
    const std::optional<GridPlace> at = place_of(leader(entity));
    double least = at ? std::numeric_limits<double>::infinity() : 0;
    if (at && peer < viewpoints_.size())
        for (const GridPlace& from : viewpoints_[peer].places)
            least = std::min(least, all::distance(from, *at));
    return least;
}

Why Scope::why(std::uint32_t peer, ecs::Entity entity) const {
    const Verdict found = verdict(peer, entity);
    Why why{.reason = found.reason, .decided_by = found.decided_by, .follows = found.decided_by != entity};
    if (why.reason == Reason::not_in_room)
        RoomSpan(world_, why.decided_by).any_of([&](Room room) { return why.room = room, true; });
    if (why.reason == Reason::filtered) why.filter = failed_filter(peer, why.decided_by)->name;
    if (why.reason != Reason::too_far) return why;
    why.radius = rule_->options.radius;
    why.distance = distance(peer, entity);
    return why;
}

}  // namespace shoal::replication::all
