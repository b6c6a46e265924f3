#include "change_collector.h"

#include <algorithm>
#include <cassert>

namespace shoal::ecs::impl {

/// The first word of the entity's row. Adds a row if it has none.
inline std::uint64_t* ChangeCollector::row_of(Entity entity) {
    if (is_entered(entity)) return &rows_[at_[entity.index]];
    if (entity.index >= at_.size() || end_ + stride_ > rows_.size()) grow(entity.index);
    std::uint64_t* const row = &rows_[end_];
    at_[entity.index] = static_cast<std::uint32_t>(end_);
    end_ += stride_;
    row[0] = std::bit_cast<std::uint64_t>(entity);
    row[1] = 0;
    if (stride_ > 2) std::fill_n(row + 2, stride_ - 2, 0);
    return row;
}

/// Makes room for one more row, and for this index in at_.
void ChangeCollector::grow(std::uint32_t index) {
    if (index >= at_.size())
        at_.resize(std::max({index + std::size_t{1}, std::size_t{world_.size()}, at_.size() * 2}));
    if (end_ + stride_ > rows_.size()) rows_.resize(2 * rows_.size() + stride_);
}

/// Gives each row one more word. Keeps unused rows and old positions, because is_entered() reads them.
void ChangeCollector::widen() {
    const std::size_t wider = stride_ + 1;
    std::vector<std::uint64_t> rows(rows_.size() / stride_ * wider);
    for (std::size_t at = 0; at < end_; at += stride_)
        std::copy_n(&rows_[at], stride_, &rows[at / stride_ * wider]);
    for (std::uint32_t& at : at_) at = static_cast<std::uint32_t>(at / stride_ * wider);
    end_ = end_ / stride_ * wider;
    rows_.swap(rows);
    stride_ = wider;
}

inline void ChangeCollector::touch(std::span<const Entity> entities, Bit bit) {
    for (const Entity entity : entities) row_of(entity)[bit.word] |= bit.mask;
}

ChangeCollector::ChangeCollector(World& world) : world_(world) {
    rows_.resize(1024);
    destroyed_.reserve(512);
    hooks_.push_back(world.on_destroy([this](World&, std::span<const Entity> entities) {
        for (const Entity entity : entities) forget(entity);
        destroyed_.insert(destroyed_.end(), entities.begin(), entities.end());
    }));
}

std::uint32_t ChangeCollector::watch(ComponentId id) {
    const auto known = std::find(watched_.begin(), watched_.end(), id);
    const auto watch = static_cast<std::uint32_t>(known - watched_.begin());
    if (known != watched_.end()) return watch;

    watched_.push_back(id);
    if (watch / 64 + 1 == stride_) widen();

    using Batch = std::span<const Entity>;
    const auto on_value = [this, bit = bit_of(watch)](World&, Batch entities, const void*) {
        touch(entities, bit);
    };
    hooks_.push_back(world_.on(HookKind::add, id, on_value));
    hooks_.push_back(world_.on(HookKind::change, id, on_value));
    hooks_.push_back(world_.on(HookKind::remove, id,
                               [this, bit = bit_of(watch)](World&, Batch entities, const void*, Removal why) {
                                   if (why == Removal::component) touch(entities, bit);
                               }));
    return watch;
}

void ChangeCollector::mark(Entity entity, std::uint32_t watch) {
    assert(watch < watch_count());
    if (watch < watch_count() && world_.is_alive(entity) && !world_.is_dying(entity))
        touch({&entity, 1}, bit_of(watch));
}

void ChangeCollector::mark_all(Entity entity) {
    if (!world_.is_alive(entity) || world_.is_dying(entity)) return;
    std::uint64_t* const row = row_of(entity);
    for (const ComponentId id : world_.components_of(entity)) {
        const ComponentId told = world_.components().type_of(id);  // for a pair its relation, as in hooks
        for (std::uint32_t watch = 0; watch < watch_count(); ++watch)
            if (watched_[watch] == told) row[bit_of(watch).word] |= bit_of(watch).mask;
    }
}

void ChangeCollector::forget(Entity entity) {
    if (!is_entered(entity)) return;
    const std::uint32_t at = at_[entity.index];
    end_ -= stride_;  // the last row takes the place
    std::copy_n(&rows_[end_], stride_, &rows_[at]);
    at_[entity_at(at).index] = at;
}

void ChangeCollector::clear() {
    end_ = 0;
    destroyed_.clear();
}

bool ChangeCollector::is_consistent() const {
    if (end_ > rows_.size() || end_ % stride_ != 0) return false;
    for (const std::uint32_t at : at_)
        if (at % stride_ != 0 || at + stride_ > rows_.size()) return false;
    for (std::size_t at = 0; at < end_; at += stride_)
        if (entity_at(at).index >= at_.size() || at_[entity_at(at).index] != at) return false;
    return std::none_of(destroyed_.begin(), destroyed_.end(), [this](Entity e) { return is_entered(e); });
}

}  // namespace shoal::ecs::impl
