#include "net_ids.h"

#include <algorithm>
#include <cassert>

namespace shoal::replication::impl {

std::uint32_t NetIds::allocate(ecs::Entity entity) {
    assert(entity && find(entity) == kNone);
    assert(next_ < kFirstPending);  // there are net ids left
    const std::uint32_t index = add_row(next_++);
    set_entity(index, entity);
    return index;
}

std::uint32_t NetIds::adopt(NetId net_id, ecs::Entity entity) {
    assert(net_id != 0);
    std::uint32_t index = find(net_id);
    if (index == kNone) index = add_row(net_id);
    assert(!entity || find(entity) == kNone || find(entity) == index);
    set_entity(index, entity);
    return index;
}

void NetIds::release(std::uint32_t index) {
    assert(rows_[index].net_id != 0);
    set_entity(index, {});
    empty_bucket(rows_[index].net_id);
    rows_[index].net_id = 0;
    --size_;
    ++released_;
}

void NetIds::recycle(std::uint32_t index) {
    assert(rows_[index].net_id == 0);
    recycled_.push_back(index);
}

std::uint32_t NetIds::find(NetId net_id) const {
    if (buckets_.empty() || net_id == 0) return kNone;
    for (std::size_t i = home(net_id); buckets_[i] != kNone; i = next(i))
        if (rows_[buckets_[i]].net_id == net_id) return buckets_[i];
    return kNone;
}

std::uint32_t NetIds::find(ecs::Entity entity) const {
    if (!entity || entity.index >= by_entity_.size()) return kNone;
    const std::uint32_t index = by_entity_[entity.index];
    return index != kNone && rows_[index].entity == entity ? index : kNone;
}

NetId NetIds::net_id(ecs::Entity entity) const {
    const std::uint32_t index = find(entity);
    return index == kNone ? 0 : rows_[index].net_id;
}

ecs::Entity NetIds::entity(NetId net_id) const {
    const std::uint32_t index = find(net_id);
    return index == kNone ? ecs::Entity{} : rows_[index].entity;
}

std::uint32_t NetIds::add_row(NetId net_id) {
    std::uint32_t index = index_count();
    if (recycled_.empty()) {
        rows_.emplace_back();
    } else {
        index = recycled_.back();
        recycled_.pop_back();
    }
    assert(rows_[index].net_id == 0 && !rows_[index].entity);
    rows_[index].net_id = net_id;
    if (++size_ * 2 > buckets_.size()) {
        buckets_.assign(std::max<std::size_t>(16, buckets_.size() * 2), kNone);
        for (std::uint32_t i = 0; i < index_count(); ++i)
            if (rows_[i].net_id != 0 && i != index) fill_bucket(i);
    }
    fill_bucket(index);
    return index;
}

/// A row of a dead entity may have the same entity index: the table keeps the last row that was set.
void NetIds::set_entity(std::uint32_t index, ecs::Entity entity) {
    const ecs::Entity former = rows_[index].entity;
    if (former && by_entity_[former.index] == index) by_entity_[former.index] = kNone;
    rows_[index].entity = entity;
    if (!entity) return;
    if (entity.index >= by_entity_.size()) by_entity_.resize(entity.index + std::size_t{1}, kNone);
    by_entity_[entity.index] = index;
}

void NetIds::fill_bucket(std::uint32_t index) {
    std::size_t i = home(rows_[index].net_id);
    while (buckets_[i] != kNone) i = next(i);
    buckets_[i] = index;
}

/// Moves indices behind the emptied bucket into its place where needed, so that find() still reaches them.
void NetIds::empty_bucket(NetId net_id) {
    std::size_t gap = home(net_id);
    while (rows_[buckets_[gap]].net_id != net_id) gap = next(gap);
    const std::size_t mask = buckets_.size() - 1;
    for (std::size_t i = next(gap); buckets_[i] != kNone; i = next(i)) {
        const std::size_t distance = (i - home(rows_[buckets_[i]].net_id)) & mask;
        if (distance < ((i - gap) & mask)) continue;
        buckets_[gap] = buckets_[i];
        gap = i;
    }
    buckets_[gap] = kNone;
}

}  // namespace shoal::replication::impl
