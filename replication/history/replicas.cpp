#include "replicas.h"

#include <algorithm>
#include <cassert>

#include "../codec/state_packet.h"

namespace shoal::replication::impl {
namespace {

constexpr std::size_t kMaxEndedKeys = 64;  // a message that names one more waits

}  // namespace

Replicas::Replicas(ecs::World& world, std::uint32_t max_versions, BucketHash hash)
    : world_(world), max_versions_(max_versions), ids_(hash), keys_(world) {
    assert(max_versions >= 4);
    dirty_.reserve(kExpectedRecords);
    gone_.reserve(kExpectedRecords);
}

std::uint32_t Replicas::bind(NetId net_id, std::uint32_t slot, Tick tick) {
    assert(slot != kNone);
    const std::uint32_t known = ids_.find(net_id);
    const std::uint32_t index = known == kNone ? ids_.adopt(net_id, {}) : known;
    ended_.erase(net_id);  // it was out of view, and came back
    if (index == rows_.size()) rows_.emplace_back();
    Replica& replica = rows_[index];
    assert((known == kNone) == replica.versions.empty());
    replica.slot = slot;
    replica.dropped.reset();
    if (!replica.versions.empty()) replica.bound = replica.versions.newest()->tick + 1;
    // Records of a new slot are based on versions since its first record, which may come later than this one.
    replica.floor = replica.late_floor = replica.next_late_floor = tick - kLateTicks;
    replica.next_since = tick;
    return index;
}

void Replicas::push(std::uint32_t index, Tick tick, const Image& image, std::optional<Tick> oldest) {
    Replica& replica = rows_[index];
    assert(replica.slot != kNone);
    if (oldest && is_newer(*oldest, replica.floor)) replica.floor = *oldest;
    if (replica.bound && tick - *replica.bound > kLongAgo) replica.bound.reset();
    if (is_crowded(index)) replica.floor = tick;
    if (tick - replica.next_since >= kLateTicks) {
        replica.late_floor = replica.next_late_floor;
        replica.next_late_floor = replica.floor;
        replica.next_since = tick;
    }
    if (!replica.versions.empty()) {
        const Tick gap = tick - replica.versions.newest()->tick;
        const float ticks = static_cast<float>(gap);
        if (gap <= long_gap_)
            replica.mean_gap =
                replica.mean_gap == 0 ? ticks : replica.mean_gap + (ticks - replica.mean_gap) / 8;
    }
    if (on_jump_ && replica.applied && !image.shape->is_delayed &&
        (is_delayed(replica) || tick - replica.versions.newest()->tick > long_gap_))
        on_jump_(index);
    replica.versions.push(tick, image, pool_);
    drop_old_versions(replica);
    touch(index);
}

void Replicas::note_cost(std::uint32_t index, Tick tick, std::size_t cost) {
    Replica& replica = rows_[index];
    if (replica.versions.newest()->tick == tick) replica.newest_cost = cost;
    cost_ += std::max(replica.cost, cost) - replica.cost;
    replica.cost = std::max(replica.cost, cost);
}

std::optional<Version> Replicas::due(std::uint32_t index) const {
    const Replica& replica = rows_[index];
    if (!is_delayed(replica)) return replica.versions.newest();
    // A newer version may have been shown before the replica became delayed.
    if (replica.applied && !is_newer(*render_tick_, *replica.applied))
        return replica.versions.find(*replica.applied);
    return replica.versions.at(*render_tick_);
}

void Replicas::insert(std::uint32_t index, Tick tick, const Image& image) {
    assert(rows_[index].slot != kNone);
    if (rows_[index].bound && is_newer(*rows_[index].bound, tick)) return;
    if (is_crowded(index)) {  // drop_old_versions() has noted it
        rows_[index].dropped = rows_[index].versions.newest()->tick;
        return;
    }
    rows_[index].versions.insert(tick, image, pool_);
    drop_old_versions(rows_[index]);
}

/// Drops the versions that are not needed any more. A version is needed if it is shown now or later, or if it
/// is the newest baseline or newer: the sender can still name it. While there is room, the baselines of
/// packets that arrive late are needed, too.
void Replicas::drop_old_versions(Replica& replica) {
    assert(!replica.versions.empty());
    const Tick shown = replica.applied.value_or(replica.versions.newest()->tick);
    const bool is_behind = is_delayed(replica) && is_newer(replica.late_floor, *render_tick_);
    drop_former(replica, shown);
    drop_replaced(replica, is_behind ? *render_tick_ : replica.late_floor, shown);
    if (replica.versions.size() < max_versions_) return;
    // A version that would be shown later is dropped: until its newest version is shown, the replica may
    // differ from the server's entity.
    if (is_delayed(replica)) note_shown(replica.versions.newest()->tick);
    drop_replaced(replica, replica.floor, shown);
}

void Replicas::drop_replaced(Replica& replica, Tick tick, Tick shown) {
    const auto count = [&] {  // of versions that came in the replica's slot
        return replica.versions.size() -
               (replica.bound ? replica.versions.count_until(*replica.bound - 1) : 0);
    };
    const std::uint32_t before = count();
    replica.versions.drop_replaced(tick, shown);
    if (count() != before) replica.dropped = replica.versions.at(tick)->tick;
}

/// Drops the versions that came in another slot, except those that are shown now or later.
void Replicas::drop_former(Replica& replica, Tick shown) const {
    if (!replica.bound || !is_newer(*replica.bound, replica.versions.oldest()->tick)) return;
    const Tick first = replica.versions[replica.versions.count_until(*replica.bound - 1)].tick;
    const bool waits = is_delayed(replica) && is_newer(first, *render_tick_);
    replica.versions.drop_replaced(waits ? *render_tick_ : first, shown);
}

std::optional<Version> Replicas::version_at(std::uint32_t index, Tick tick) const {
    const Replica& replica = rows_[index];
    const std::optional<Version> found =
        may_miss(index, tick) ? replica.versions.find(tick) : replica.versions.at(tick);
    const bool is_former = found && replica.bound && is_newer(*replica.bound, found->tick);
    return is_former ? std::nullopt : found;
}

void Replicas::close(std::uint32_t index, Despawn reason, Tick tick) {
    Replica& replica = rows_[index];
    assert(replica.slot != kNone && !replica.ends);
    if (!is_delayed(replica) || !is_newer(tick, *render_tick_)) return end(index, reason, tick);
    replica.ends = tick;
    replica.end_reason = reason;
    touch(index);
}

void Replicas::end_due() {
    for (const std::uint32_t index : dirty_) {
        const Replica& replica = rows_[index];
        if (!replica.ends || (render_tick_ && is_newer(*replica.ends, *render_tick_))) continue;
        end(index, replica.end_reason, *replica.ends);
    }
}

void Replicas::reset() {
    for (std::uint32_t index = 0; index < rows_.size(); ++index)
        if (rows_[index].slot != kNone)
            end(index, rows_[index].ends ? rows_[index].end_reason : Despawn::left, 0);
    render_tick_.reset();
    newest_shown_.reset();
}

std::size_t Replicas::ending_count() const {
    const auto ends = [](const Replica& replica) { return replica.ends.has_value(); };
    return static_cast<std::size_t>(std::count_if(rows_.begin(), rows_.end(), ends));
}

void Replicas::note_shown(Tick tick) {
    if (!newest_shown_ || is_newer(tick, *newest_shown_)) newest_shown_ = tick;
}

void Replicas::end(std::uint32_t index, Despawn reason, Tick tick) {
    Replica& replica = rows_[index];
    assert(replica.slot != kNone);
    note_shown(tick);
    const NetIds::Row row = ids_[index];
    ids_.release(index);
    if (!NetIds::is_reserved(row.net_id)) ended_.insert(row.net_id);
    if (row.entity) {
        const bool stays = replica.is_local && reason != Despawn::destroyed;
        gone_.push_back({index, row.net_id, row.entity, replica.is_suppressed, stays, reason, replica.cost});
    } else {
        cost_ -= replica.cost;
        ids_.recycle(index);
    }
    replica.versions.clear();
    const bool is_dirty = replica.is_dirty;
    replica = Replica{};
    replica.is_dirty = is_dirty;  // the index stays in dirty_
}

const Replicas::Expected* Replicas::expected(std::uint32_t index) const {
    if (rows_[index].pending == 0) return nullptr;
    const auto found = expected_.find(rows_[index].pending);
    return found == expected_.end() ? nullptr : &found->second;
}

void Replicas::touch(std::uint32_t index) {
    if (rows_[index].is_dirty) return;
    rows_[index].is_dirty = true;
    dirty_.push_back(index);
}

void Replicas::clear_dirty() {
    std::erase_if(dirty_, [this](std::uint32_t index) {
        Replica& replica = rows_[index];
        replica.refers_to_changed = false;
        replica.is_dirty = replica.slot != kNone && waits(replica);
        return !replica.is_dirty;
    });
}

bool Replicas::waits(const Replica& replica) const {
    if (replica.ends) return true;
    return is_delayed(replica) && !replica.is_suppressed &&
           is_newer(replica.versions.newest()->tick, *render_tick_);
}

void Replicas::set_applied(std::uint32_t index, Tick tick) {
    assert(rows_[index].slot != kNone);
    Replica& replica = rows_[index];
    replica.applied = tick;
    if (replica.versions.newest()->tick == tick) {
        cost_ -= replica.cost - replica.newest_cost;
        replica.cost = replica.newest_cost;
    }
    note_shown(tick);
    drop_old_versions(replica);
}

void Replicas::clear_gone() {
    for (const Gone& gone : gone_) ids_.recycle(gone.index);
    gone_.clear();
}

void Replicas::set_entity(std::uint32_t index, ecs::Entity entity, bool is_local) {
    assert(rows_[index].slot != kNone && world_.is_alive(entity));
    ids_.adopt(ids_[index].net_id, entity);
    rows_[index].is_local = is_local;
    rows_[index].first_apply = apply_count_;
}

void Replicas::unset_entity(std::uint32_t index) {
    Replica& replica = rows_[index];
    assert(replica.slot != kNone);
    ids_.adopt(ids_[index].net_id, {});
    replica.applied.reset();
    replica.is_suppressed = replica.is_local = false;
    replica.held.clear();  // these components belonged to the former entity
    replica.overlaid.clear();
    touch(index);
}

std::span<const KeyedEntities::Change> Replicas::update_keys() {
    keys_.update([this](ecs::Entity entity) {
        const std::uint32_t index = ids_.find(entity);
        return index != kNone && !rows_[index].is_local;
    });
    return keys_.changed();
}

ecs::Entity Replicas::local(NetId net_id) const {
    const ecs::Entity entity = keys_.entity(net_id);
    return world_.is_alive(entity) ? entity : ecs::Entity{};
}

NetId Replicas::net_id(ecs::Entity entity) const {
    if (!world_.is_alive(entity)) return 0;
    const NetId net_id = ids_.net_id(entity);
    return net_id != 0 ? net_id : keys_.net_id(entity);
}

ecs::Entity Replicas::entity(NetId net_id) const {
    const ecs::Entity entity = ids_.entity(net_id);
    return world_.is_alive(entity) ? entity : local(net_id);
}

bool Replicas::may_appear(NetId net_id) const {
    if (entity(net_id)) return false;
    const std::uint32_t index = ids_.find(net_id);
    if (index != kNone) return !ids_[index].entity;
    return !ended_.contains(net_id) && std::ranges::count(ended_keys_, net_id) == 0;
}

void Replicas::note_ended(NetId net_id) {
    if (!NetIds::is_reserved(net_id)) return ended_.insert(net_id);
    if (ended_keys_.size() < kMaxEndedKeys && std::ranges::count(ended_keys_, net_id) == 0)
        ended_keys_.push_back(net_id);
}

bool Replicas::is_older_than(NetId net_id, Tick tick) const {
    const Replica* const replica = find(net_id);
    return replica && replica->applied && !replica->is_suppressed && !replica->ends &&
           is_newer(tick, *replica->applied);
}

}  // namespace shoal::replication::impl
