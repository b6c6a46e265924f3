#include "receiver.h"

#include <algorithm>
#include <cassert>

namespace shoal::replication::impl {
namespace {

/// The image that the world has of a replica; no shape if there is none yet.
Image shown_image(const Replicas::Replica& replica) {
    if (!replica.applied) return {};
    const std::optional<Version> version = replica.versions.find(*replica.applied);
    assert(version);  // Replicas keeps it
    return version->image;
}

// A set of components in ascending order.
void insert(std::vector<ComponentIndex>& set, ComponentIndex component) {
    const auto place = std::lower_bound(set.begin(), set.end(), component);
    if (place == set.end() || *place != component) set.insert(place, component);
}
bool erase(std::vector<ComponentIndex>& set, ComponentIndex component) {
    const auto place = std::lower_bound(set.begin(), set.end(), component);
    if (place == set.end() || *place != component) return false;
    set.erase(place);
    return true;
}

}  // namespace

Receiver::Receiver(ecs::World& world, const Schema& schema, const ReceiverOptions& options)
    : options_(options),
      binding_(world, schema),
      replicas_(world, options.max_versions, BucketHash(options.hash_seed)),
      decoder_(binding_, replicas_, options),
      local_writes_(binding_, replicas_, options_.on_local_write),
      references_(BucketHash(options.hash_seed)) {}

void Receiver::start_clock(net::Duration tick) {
    if (clock_) return;
    clock_.emplace(tick);
    if (heard_) clock_->hear(heard_->first, heard_->second);
}

void Receiver::hear(std::uint64_t number, net::Time now) {
    const std::optional<Tick> tick = decoder_.completion().tick_of(number);
    if (!tick) return;
    if (clock_) return clock_->hear(*tick, now);
    if (!heard_ || is_newer(*tick, heard_->first)) heard_ = {*tick, now};
}

void Receiver::apply_until(std::optional<Tick> render_tick) {
    const LocalWrites::Pause pause(local_writes_);
    replicas_.set_render_tick(render_tick);
    write_due();
    complete_ = render_tick ? shown_complete(*render_tick) : decoder_.completion().complete();
}

/// Of the ticks that were complete when their packets arrived, returns the newest that is not after the
/// render tick, if the world shows nothing newer.
std::optional<Receiver::Complete> Receiver::shown_complete(Tick render_tick) {
    const std::optional<Complete> newest = decoder_.completion().complete();
    const auto at = [this](std::size_t n) -> Complete& { return completes_[n % kCompletes]; };
    if (newest && (complete_count_ == 0 || at(complete_count_ - 1) != *newest))
        at(complete_count_++) = *newest;
    const std::optional<Tick> shown = replicas_.newest_shown();
    for (std::size_t n = complete_count_; n > 0 && n + kCompletes > complete_count_; --n) {
        if (is_newer(at(n - 1).tick, render_tick)) continue;
        if (shown && is_newer(*shown, at(n - 1).tick)) return std::nullopt;
        return at(n - 1);
    }
    return std::nullopt;
}

void Receiver::write_due() {
    assert(!binding_.world().is_deferring());
    replicas_.begin_apply();
    replicas_.end_due();
    destroy_gone();
    follow_keys();
    {
        const ecs::World::DelayHooks delay(binding_.world());
        create_new();
        mark_referrers();
        for (const std::uint32_t index : replicas_.dirty()) write(index);
    }
    for (const std::uint32_t index : replicas_.dirty()) finish(index);
    replicas_.clear_dirty();
    free_archetypes();
}

/// A server can give its entities ever new sets of components and pairs. Without this, the client's world
/// would keep an archetype for each of them.
void Receiver::free_archetypes() {
    ecs::World& world = binding_.world();
    if (world.archetype_count() <= most_archetypes_) return;
    world.free_empty_archetypes();
    most_archetypes_ = std::max(512u, 2 * world.archetype_count());
}

/// Ends the replicas that are gone, except those that messages name.
void Receiver::destroy_gone() {
    ecs::World& world = binding_.world();
    for (const Replicas::Gone& gone : replicas_.gone()) {
        references_.clear(gone.index);
        changed_ids_.push_back(gone.net_id);
        if (!gone.was_suppressed && !world.is_alive(gone.entity)) suppressed_ += 1;
        if (world.is_alive(gone.entity)) {
            kept_.push_back(gone);
        } else {
            replicas_.forget_cost(gone.cost);
        }
    }
    end_kept();
    replicas_.clear_gone();
}

/// Ends the replicas in kept_ that no message names. If the server gave the net id to another entity, nothing
/// keeps the former one.
void Receiver::end_kept(bool ends_all) {
    if (kept_.empty()) return;
    const LocalWrites::Pause pause(local_writes_);
    ecs::World& world = binding_.world();
    named_.clear();
    if (!ends_all && find_named_) find_named_(named_);
    std::sort(named_.begin(), named_.end());
    const auto is_needed = [&](const Replicas::Gone& one) {
        return std::binary_search(named_.begin(), named_.end(), one.net_id) &&
               replicas_.ids().find(one.net_id) == Replicas::kNone;
    };
    const auto first = std::stable_partition(kept_.begin(), kept_.end(), is_needed);
    ending_.assign(first, kept_.end());
    kept_.erase(first, kept_.end());
    std::sort(kept_.begin(), kept_.end(), [](const Replicas::Gone& a, const Replicas::Gone& b) {
        return a.entity.index < b.entity.index;
    });
    for (const Replicas::Gone& one : ending_)
        if (Replica* replica = world.unsafe_raw_unmarked<Replica>(one.entity))
            replica->reason = one.reason;  // without a change hook
    for (const Replicas::Gone& one : ending_)
        if (!one.stays) detach_sources(one.entity);
    for (const Replicas::Gone& one : ending_) {
        replicas_.forget_cost(one.cost);
        if (world.is_alive(one.entity)) end(one.entity, one.reason, one.stays);
    }
    ending_.clear();
}

bool Receiver::is_kept(ecs::Entity entity) const {
    const auto found = std::lower_bound(
        kept_.begin(), kept_.end(), entity.index,
        [](const Replicas::Gone& one, std::uint32_t index) { return one.entity.index < index; });
    return found != kept_.end() && found->entity == entity;
}

ecs::Entity Receiver::kept(NetId net_id) const {
    for (const Replicas::Gone& one : kept_)
        if (one.net_id == net_id && binding_.world().is_alive(one.entity)) return one.entity;
    return {};
}

/// Call it before `target` is destroyed. Its sources of destroy_with_target pairs would die with it. Replicas
/// only lose the pair: if the server's entity dies, too, its own despawn record says so. Entities of the game
/// die with their target, after their own sources were detached in the same way.
void Receiver::detach_sources(ecs::Entity target) {
    ecs::World& world = binding_.world();
    const auto detach = [&](ecs::Entity source, ecs::ComponentId pair) {
        const Replica* const replica = world.try_get<Replica>(source);
        const bool ends = replica && replicas_.ids().find(source) == Replicas::kNone && !is_kept(source);
        if (replica && !(ends && replica->reason == Despawn::destroyed)) {
            world.remove(source, pair);
        } else if (!replica && world.components().pairs().is_target(source)) {
            if (seen_.insert(source.index).second) dying_.push_back(source);
        }
    };
    dying_.assign(1, target);
    // Its clear() takes time in proportion to the most elements that it ever had.
    if (!seen_.empty()) seen_ = std::unordered_set<std::uint32_t>();
    for (std::size_t next = 0; next < dying_.size(); ++next)
        for (const ComponentIndex relation : binding_.destroying_relations()) {
            const ecs::ComponentId pair =
                world.components().pairs().find(binding_.ids()[relation], dying_[next]);
            if (!pair) continue;
            sources_.clear();
            for (const ecs::Entity source : world.sources(pair)) sources_.push_back(source);
            for (const ecs::Entity source : sources_)
                if (world.is_alive(source)) detach(source, pair);  // else a hook destroyed it
        }
}

/// Ends a replica. If `stays` is true, its entity stays as an entity of the game; else it is destroyed.
void Receiver::end(ecs::Entity entity, Despawn reason, bool stays) {
    ecs::World& world = binding_.world();
    if (Replica* replica = world.unsafe_raw_unmarked<Replica>(entity))
        replica->reason = reason;  // without a change hook
    if (stays) {
        world.remove<Replica>(entity);
    } else {
        world.destroy(entity);
    }
}

/// Takes the entity from a replica if the entity lost its key, or if another entity of the game has the key
/// now. create_new() then gives the replica another entity.
void Receiver::follow_keys() {
    for (const auto [net_id, former] : replicas_.update_keys()) {
        changed_ids_.push_back(net_id);
        if (former) remove_pairs_to(former, net_id);
        const std::uint32_t index = replicas_.ids().find(net_id);
        if (index == Replicas::kNone) continue;
        const ecs::Entity local = replicas_.local(net_id), shown = replicas_.ids()[index].entity;
        const bool is_local = replicas_[index].is_local, is_alive = binding_.world().is_alive(shown);
        const bool stays = !local && (!is_alive || !is_local);  // the game destroyed it, or did not spawn it
        if (!shown || shown == local || stays) continue;
        replicas_.unset_entity(index);
        if (is_alive && !is_local) detach_sources(shown);
        if (is_alive) end(shown, Despawn::left, is_local);
    }
}

/// Removes the server's pairs to an entity that does not have the net id any more.
void Receiver::remove_pairs_to(ecs::Entity former, NetId net_id) {
    referrers_.clear();
    references_.for_each_referrer(net_id, [&](std::uint32_t reader) { referrers_.push_back(reader); });
    for (const std::uint32_t reader : referrers_)
        binding_.remove_pairs_to(replicas_.ids()[reader].entity, shown_image(replicas_[reader]), former,
                                 net_id, replicas_[reader].held);
}

/// Creates all new entities before any value is written, so that they can refer to each other.
void Receiver::create_new() {
    ecs::World& world = binding_.world();
    for (const std::uint32_t index : replicas_.dirty()) {
        const NetIds::Row& row = replicas_.ids()[index];
        if (row.net_id == 0 || row.entity) continue;  // closed, or not new
        if (replicas_[index].is_suppressed || !replicas_.due(index)) continue;
        changed_ids_.push_back(row.net_id);
        if (replicas_.expected(index)) {
            adopt(index);
        } else if (!NetIds::is_reserved(row.net_id)) {
            replicas_.set_entity(index, world.spawn(Replica{}));
        } else if (const ecs::Entity local = replicas_.local(row.net_id)) {
            world.set(local, Replica{});
            replicas_.set_entity(index, local, true);
        } else {
            replicas_.set_entity(index, world.spawn(Replica{}, NetIds::key_of(row.net_id)));
        }
    }
}

/// The entity that the client spawned ahead of the server becomes the replica.
void Receiver::adopt(std::uint32_t index) {
    ecs::World& world = binding_.world();
    const Replicas::Expected expected = *replicas_.expected(index);
    replicas_.forget_expected(replicas_[index].pending);  // it is expected once
    if (!world.is_alive(expected.entity)) {
        replicas_[index].is_suppressed = true;
        suppressed_ += 1;
        return;
    }
    world.set(expected.entity, Replica{});
    replicas_.set_entity(index, expected.entity);
    replicas_[index].is_adopted = true;
    replicas_[index].held = expected.held;
}

/// Marks the replicas that refer to entities that appeared or disappeared, so that their references are
/// written again.
void Receiver::mark_referrers() {
    referrers_.clear();
    for (const NetId net_id : changed_ids_)
        references_.for_each_referrer(net_id, [&](std::uint32_t reader) { referrers_.push_back(reader); });
    changed_ids_.clear();
    for (const std::uint32_t reader : referrers_) {
        replicas_[reader].refers_to_changed = true;
        replicas_.touch(reader);
    }
}

/// Returns the version that the world is to get in this apply(), if any.
std::optional<Version> Receiver::news_of(std::uint32_t index) const {
    const Replicas::Replica& replica = replicas_[index];
    if (!replicas_.ids()[index].entity) return std::nullopt;  // ended, or not in the world
    const std::optional<Version> due = replicas_.due(index);
    return due && (due->tick != replica.applied || replica.refers_to_changed) ? due : std::nullopt;
}

void Receiver::write(std::uint32_t index) {
    Replicas::Replica& replica = replicas_[index];
    const ecs::Entity entity = replicas_.ids()[index].entity;
    const std::optional<Version> now = news_of(index);
    if (!now || replica.is_suppressed) return;
    if (!binding_.world().is_alive(entity)) {
        replica.is_suppressed = true;
        suppressed_ += 1;
        return;
    }
    binding_.restore(entity, now->image, shown_image(replica), replicas_, replica.refers_to_changed,
                     replica.held);
}

void Receiver::finish(std::uint32_t index) {
    const Replicas::Replica& replica = replicas_[index];
    const ecs::Entity entity = replicas_.ids()[index].entity;
    const std::optional<Version> now = news_of(index);
    if (!now) return;
    if ((replica.is_local || replica.is_adopted) && !replica.applied)
        binding_.remove_others(entity, now->image, replicas_);
    binding_.finish(entity, now->image, shown_image(replica), replicas_, replica.refers_to_changed,
                    replica.held);
    references_.clear(index);
    binding_.for_each_reference(now->image, [&](NetId net_id) { references_.add(net_id, index); });
    replicas_.set_applied(index, now->tick);
}

bool Receiver::restore(ecs::Entity entity) {
    const LocalWrites::Pause pause(local_writes_);
    const std::uint32_t index = shown_replica(entity);
    if (index == Replicas::kNone) return false;
    const Image image = shown_image(replicas_[index]);
    const std::span<const ComponentIndex> held = replicas_[index].held;
    {
        const ecs::World::DelayHooks delay(binding_.world());
        binding_.restore(entity, image, {}, replicas_, false, held);
    }
    binding_.remove_others(entity, image, replicas_, held);
    binding_.finish(entity, image, {}, replicas_, false, held);
    return true;
}

/// Returns the index of a living replica that was written to the world, or kNone.
std::uint32_t Receiver::shown_replica(ecs::Entity entity) const {
    const std::uint32_t index = replicas_.ids().find(entity);
    const bool is_shown =
        index != Replicas::kNone && replicas_[index].applied && binding_.world().is_alive(entity);
    return is_shown ? index : Replicas::kNone;
}

bool Receiver::hold(ecs::Entity entity, ComponentIndex component) {
    const std::uint32_t index = shown_replica(entity);
    if (index == Replicas::kNone) return false;
    insert(replicas_[index].held, component);
    return true;
}

bool Receiver::release(ecs::Entity entity, ComponentIndex component) {
    const std::uint32_t index = shown_replica(entity);
    if (index == Replicas::kNone || is_in(replicas_[index].overlaid, component)) return false;
    if (!erase(replicas_[index].held, component)) return false;
    return show(entity, shown_image(replicas_[index]), component);
}

bool Receiver::overlay(ecs::Entity entity, ComponentIndex component) {
    if (!hold(entity, component)) return false;
    insert(replicas_[shown_replica(entity)].overlaid, component);
    return true;
}

bool Receiver::end_overlay(ecs::Entity entity, ComponentIndex component) {
    const std::uint32_t index = shown_replica(entity);
    if (index == Replicas::kNone) return false;
    erase(replicas_[index].overlaid, component);
    return release(entity, component);
}

bool Receiver::is_held(ecs::Entity entity, ComponentIndex component) const {
    const std::uint32_t index = shown_replica(entity);
    return index != Replicas::kNone && is_in(replicas_[index].held, component);
}

bool Receiver::is_overlaid(ecs::Entity entity, ComponentIndex component) const {
    const std::uint32_t index = shown_replica(entity);
    return index != Replicas::kNone && is_in(replicas_[index].overlaid, component);
}

bool Receiver::show(ecs::Entity entity, const Image& image, ComponentIndex component) {
    const LocalWrites::Pause pause(local_writes_);
    if (shown_replica(entity) == Replicas::kNone) return false;
    binding_.restore_component(entity, image, component, replicas_);
    return true;
}

void Receiver::capture(ecs::Entity entity, ComponentIndex component, Value& value) {
    value.is_present = binding_.capture_component(entity, component, replicas_, value.words);
}

bool Receiver::show(ecs::Entity entity, ComponentIndex component, const Value& value) {
    const std::span<const ComponentIndex> present(&component, value.is_present ? 1 : 0);
    const Shape* const shape = binding_.shapes().shape(present);
    return show(entity, Image{shape, value.words}, component);
}

std::optional<Tick> Receiver::shown_tick(ecs::Entity entity) const {
    const std::uint32_t index = replicas_.ids().find(entity);
    return index == Replicas::kNone ? std::nullopt : replicas_[index].applied;
}

std::uint32_t Receiver::entity_count() const {
    std::uint32_t count = 0;
    for_each_entity([&](NetId, ecs::Entity) { ++count; });
    return count;
}

void Receiver::reset() {
    const LocalWrites::Pause pause(local_writes_);
    decoder_.reset();
    assert(replicas_.ids().size() == 0);
    replicas_.clear_dirty();
    destroy_gone();
    end_kept(true);
    replicas_.forget_ended();
    changed_ids_.clear();
    assert(references_.size() == 0);
    clock_.reset();
    heard_.reset();
    complete_.reset();
    complete_count_ = 0;
}

}  // namespace shoal::replication::impl
