#include "shadow.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace shoal::replication::impl {
namespace {

// An update forgets the versions of at most this many ticks, or this many versions if these are more ticks.
constexpr std::size_t kTicksAtOnce = 2, kVersionsAtOnce = 1'000;

/// Compares an upper bound with the limit: no word takes more than 7 bytes, and no component more than 4
/// beside its words.
bool may_be_too_large(const Image& image) {
    return image.words.size() * 7 + image.shape->components.size() * 4 > kMaxEntityBytes;
}

}  // namespace

Shadow::Shadow(ecs::World& world, const Schema& schema, std::uint32_t history_ticks, ecs::ComponentId tag)
    : world_(world),
      tag_(tag ? tag : world.component<Replicated>()),
      binding_(world, schema),
      changes_(world),
      history_ticks_(history_ticks) {
    superseded_.reserve(kExpectedRecords * 8);
    changes_.watch(tag_);
    for (const ecs::ComponentId id : binding_.ids()) {
        assert(id != tag_);  // the tag must not be in the schema
        changes_.watch(id);
    }
    key_watch_ = changes_.watch(world.component<StableKey>());
    cluster_watch_ = changes_.watch(world.component<Cluster>());
    for (const SchemaComponent& component : schema.components())
        if (component.singleton) singletons_.push_back(&component);
    world.each_entity([&](ecs::Entity entity) {
        if (world.has(entity, tag_)) changes_.mark(entity, kTagWatch);
    });
}

std::uint32_t Shadow::find(ecs::Entity entity) const {
    const std::uint32_t index = ids_.find(entity);
    return index < entries_.size() && entries_[index].entity ? index : kNone;
}

NetId Shadow::net_id(ecs::Entity entity) const {
    const NetId net_id = ids_.net_id(entity);
    return net_id != 0 ? net_id : keyed_net_id(world_, entity);
}

NetId Shadow::assign(ecs::Entity entity) {
    const std::uint32_t index = assign_index(entity);
    return index == kNone ? keyed_net_id(world_, entity) : ids_[index].net_id;
}

std::uint32_t Shadow::assign_index(ecs::Entity entity) {
    if (!world_.has(entity, tag_)) return kNone;
    forget_destroyed();
    if (ids_.find(entity) == kNone) assigned_.push_back(allocate(entity));
    return ids_.find(entity);
}

/// Gives an entity the net id that its StableKey reserves; if it has no key, or the key is refused, a new net
/// id. Returns the index in ids_.
std::uint32_t Shadow::allocate(ecs::Entity entity) {
    if (!world_.has<StableKey>(entity)) return ids_.allocate(entity);
    const NetId net_id = keyed_net_id(world_, entity);
    const std::uint32_t holder = ids_.find(net_id);
    const bool is_taken = holder != kNone && world_.has(ids_[holder].entity, tag_);
    assert(net_id != 0);  // the key must be at most kMaxStableKey
    assert(!is_taken);    // no other replicated entity may have the key
    if (net_id == 0 || is_taken) {
        refused_keys_ += 1;
        return ids_.allocate(entity);
    }
    if (holder != kNone) release(holder);
    return ids_.adopt(net_id, entity);
}

/// Takes the net id from an entity that does not replicate any more, because a new entity may have the same
/// index in the world, or the same key.
void Shadow::release(std::uint32_t index) {
    ids_.release(index);
    if (index < entries_.size() && entries_[index].entity) to_close_.push_back(index);
}

void Shadow::forget_destroyed() {
    for (; destroyed_seen_ < changes_.destroyed().size(); ++destroyed_seen_) {
        const ecs::Entity entity = changes_.destroyed()[destroyed_seen_];
        const std::uint32_t index = find(entity);
        // References to an ordinary net id of a dead entity can stay: no client finds an entity by this net
        // id. But a reserved net id can pass to another entity with the same key.
        if (keeps_referrers_ || index == kNone || NetIds::is_reserved(entries_[index].net_id))
            add_referrers(entity);
        if (index != kNone) release(index);
    }
}

void Shadow::update(Tick tick) {
    assert(!updated_ || is_newer(tick, tick_));
    if (updated_) {
        forget_past(tick);
    } else {
        horizon_ = tick - history_ticks_;
    }
    tick_ = tick;
    for (const std::uint32_t index : closed_) ids_.recycle(index);
    opened_.clear();
    changed_.clear();
    closed_.clear();
    moved_.clear();
    too_large_.clear();
    binding_.shapes().drop_unused();
    replicate_singletons();
    take_changes();
    refresh_one();
    updated_ = true;
}

void Shadow::replicate_singletons() {
    for (const SchemaComponent* component : singletons_) {
        const ecs::Entity entity = component->singleton(world_);
        if (world_.is_alive(entity) && !world_.has(entity, tag_)) world_.add(entity, tag_, nullptr);
    }
}

void Shadow::open_and_close() {
    forget_destroyed();
    for (const std::uint32_t index : to_close_)
        close(index, world_.is_alive(entries_[index].entity) ? Despawn::left : Despawn::destroyed);
    to_close_.clear();
    for (const ecs::ChangeCollector::Change change : changes_.changes()) {
        if (change.has(key_watch_)) add_referrers(change.entity);
        if (!change.has(kTagWatch)) continue;
        const bool replicated = world_.has(change.entity, tag_);
        const std::uint32_t index = find(change.entity);
        if (replicated && index == kNone) to_open_.push_back(change.entity);
        if (replicated || index == kNone) continue;
        add_referrers(change.entity);
        close(index, Despawn::left);
    }
    for (const ecs::Entity entity : to_open_) open(entity);  // now: its key may be that of a closed entry
    to_open_.clear();
    entries_.resize(ids_.index_count());
    for (const std::uint32_t index : assigned_) {
        if (entries_[index].entity) continue;
        if (ids_[index].net_id != 0)
            ids_.release(index);  // destroyed, or without the tag, before it was opened
        ids_.recycle(index);
    }
    assigned_.clear();
}

/// First opens the entries of all new entities, and then quantises them, because new entities can refer to
/// each other.
void Shadow::take_changes() {
    open_and_close();
    for (const std::uint32_t index : opened_) capture(index, true);
    for (const std::uint32_t index : opened_) add_referrers(entries_[index].entity);
    for (const ecs::ChangeCollector::Change change : changes_.changes()) {
        const std::uint32_t index = find(change.entity);
        if (index == kNone) continue;
        if (change.has(cluster_watch_) && update_cluster(index)) moved_.push_back(index);
        if (entries_[index].captured == tick_) continue;
        dirty_.clear();
        change.for_each([&](std::uint32_t watch) {
            if (watch - 1 < schema().components().size())
                dirty_.push_back(static_cast<ComponentIndex>(watch - 1));
        });
        capture(index, false);
    }
    changes_.clear();
    destroyed_seen_ = 0;
    for (const std::uint32_t index : referrers_) {
        Entry& entry = entries_[index];
        if (entry.entity && entry.captured != tick_) {
            dirty_.clear();
            capture(index, false);
        }
        entry.refers_to_changed = false;
    }
    referrers_.clear();
}

bool Shadow::update_cluster(std::uint32_t index) {
    const Cluster* const found = world_.try_get<Cluster>(entries_[index].entity);
    const std::optional<std::uint32_t> now = found ? std::optional(found->id) : std::nullopt;
    return std::exchange(entries_[index].cluster, now) != now;
}

/// Visits one entry in each call, all entries in turn: within 2^29 ticks it visits each of them. Gives the
/// entry a new version if its oldest version is so old that its tick could soon not be compared with others.
void Shadow::refresh_one() {
    if (entries_.empty()) return;
    const std::uint32_t index = next_refresh_++ % index_count();
    const Entry& entry = entries_[index];
    if (!entry.entity || !is_oldest_old(entry)) return;
    const Version newest = *entry.versions.newest();
    const bool is_replaced = newest.viewers == to_everyone() && tick_ - newest.tick < kLongAgo;
    if (newest.tick == tick_ || is_replaced) return;
    add_version(index, newest.image, to_everyone());
}

/// A version stays until versions of later ticks have replaced it for all view classes that see it.
bool Shadow::is_oldest_old(const Entry& entry) const {
    return tick_ - entry.versions.oldest()->tick >= kLongAgo;
}

/// Finds the entries that refer to an entity with another net id than before: their references must be
/// quantised again.
void Shadow::add_referrers(ecs::Entity target) {
    references_.for_each_referrer(target.index, [&](std::uint32_t referrer) {
        if (entries_[referrer].refers_to_changed) return;
        entries_[referrer].refers_to_changed = true;
        referrers_.push_back(referrer);
    });
}

void Shadow::open(ecs::Entity entity) {
    const std::uint32_t known = ids_.find(entity);
    const std::uint32_t index = known == kNone ? allocate(entity) : known;
    if (index >= entries_.size()) entries_.resize(index + std::size_t{1});
    entries_[index].entity = entity;
    entries_[index].net_id = ids_[index].net_id;
    update_cluster(index);
    opened_.push_back(index);
    ++open_count_;
}

void Shadow::close(std::uint32_t index, Despawn reason) {
    Entry& entry = entries_[index];
    assert(entry.entity && open_count_ > 0);
    entry.versions.clear();
    references_.clear(index);
    if (ids_[index].net_id != 0) ids_.release(index);
    entry.entity = {};
    entry.net_id = 0;
    entry.reason = reason;
    entry.cluster.reset();
    if (entry.is_too_large) too_large_count_ -= 1;
    entry.is_too_large = false;
    closed_.push_back(index);
    --open_count_;
}

/// Quantises the components in dirty_, or all, and adds a version if the image differs from the newest
/// version.
void Shadow::capture(std::uint32_t index, bool everything) {
    Entry& entry = entries_[index];
    const Image before = everything ? Image{} : entry.versions.newest()->image;
    if (entry.is_too_large) {  // the version is outdated
        dirty_.resize(schema().components().size());
        std::iota(dirty_.begin(), dirty_.end(), ComponentIndex{0});
    }
    const Binding::Capture capture =
        binding_.capture(entry.entity, {before, dirty_, entry.refers_to_changed}, *this);
    entry.captured = tick_;
    entry.refers_to_changed = false;
    if (capture.has_targets) {
        references_.clear(index);
        for (std::uint32_t i = 0; keeps_referrers_ && i < entry.versions.size(); ++i)
            binding_.for_each_reference(entry.versions[i].image, [&](NetId net_id) {
                if (const std::uint32_t target = index_of(net_id); target != kNone)
                    references_.add(entries_[target].entity.index, index);
            });
        // When a target gets a net id, or another one, the entry is quantised again.
        for (const ecs::Entity target : capture.targets)
            if (world_.is_alive(target)) references_.add(target.index, index);
    }
    Image now = capture.image;
    if ((may_be_too_large(now) || entry.is_too_large) && is_too_large(entry, now)) {
        if (!everything) return;
        now = {binding_.shapes().shape({}), {}};
    }
    if (now == before) return;
    if (everything) {
        entry.versions.push(tick_, now, pool_);
    } else {
        const bool is_restricted = now.shape->is_restricted || before.shape->is_restricted;
        const bool is_for_everyone = !is_restricted || is_oldest_old(entry);
        add_version(index, now, is_for_everyone ? to_everyone() : viewers_of_change(schema(), before, now));
    }
}

void Shadow::add_version(std::uint32_t index, const Image& image, ViewClasses viewers) {
    superseded_.push({tick_, index});
    changed_.push_back(index);
    entries_[index].versions.push({tick_, image, viewers}, pool_);
}

/// Updates the entry's flag and too_large_.
bool Shadow::is_too_large(Entry& entry, const Image& now) {
    const std::size_t bytes = (measure_image(schema(), Image{}, now) + 7) / 8;
    const bool is = bytes > kMaxEntityBytes;
    if (is && !entry.is_too_large) too_large_.push_back({entry.entity, bytes, largest_component(now)});
    if (is != entry.is_too_large) too_large_count_ += is ? 1u : -1u;
    entry.is_too_large = is;
    return is;
}

ComponentIndex Shadow::largest_component(const Image& image) const {
    ComponentIndex largest = 0;
    std::size_t most = 0;
    for (ImageCursor value(schema(), image); !value.at_end(); value.next()) {
        const std::size_t words = value.layout().lanes().size() + value.part_words();
        if (words > most) largest = value.component();
        most = std::max(most, words);
    }
    return largest;
}

Tick Shadow::next_horizon(Tick tick) const {
    const Tick last = tick - history_ticks_;
    if (!is_newer(last, horizon_)) return horizon_;
    Tick horizon = horizon_;
    std::size_t ticks = 0;
    for (std::size_t i = 0; i < superseded_.size() && !is_newer(superseded_[i].tick, last); ++i) {
        if (superseded_[i].tick == horizon) continue;
        if (ticks >= kTicksAtOnce && i >= kVersionsAtOnce) return horizon;
        horizon = superseded_[i].tick;
        ticks += 1;
    }
    return last;
}

void Shadow::forget_past(Tick tick) {
    const Tick horizon = horizon_ = next_horizon(tick);
    while (!superseded_.empty() && !is_newer(superseded_[0].tick, horizon)) {
        History& versions = entries_[superseded_[0].index].versions;
        if (!versions.empty()) versions.drop_replaced(horizon, versions.newest()->tick);
        superseded_.pop();
    }
}

}  // namespace shoal::replication::impl
