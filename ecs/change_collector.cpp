#include "change_collector.h"

#include <algorithm>
#include <cassert>

namespace shoal::ecs::all {

/// Adds the entity at the end of entities_, with no bit set.
inline void ChangeCollector::enter(Entity entity) {
    if (entity.index >= at_.size() || count_ == entities_.size()) grow(entity.index);
    at_[entity.index] = static_cast<std::uint32_t>(count_);
    entities_[count_] = entity;
    for (std::size_t word = 0; word < words_; ++word) bits_[count_ * words_ + word] = 0;
    ++count_;
}

/// The entity's words of bits_. Enters the entity if necessary.
inline std::uint64_t* ChangeCollector::bits_of(Entity entity) {
    if (!is_entered(entity.index)) enter(entity);
    const std::uint32_t at = at_[entity.index];
    assert(entities_[at] == entity);  // forget() was called for former entities with this index
    return bits_.data() + std::size_t{at} * words_;
}

inline void ChangeCollector::touch(std::span<const Entity> entities, std::uint32_t watch) {
    const std::uint64_t bit = std::uint64_t{1} << watch % 64;
    for (const Entity entity : entities) bits_of(entity)[watch / 64] |= bit;
}

ChangeCollector::ChangeCollector(World& world) : world_(world) {
    constexpr std::size_t kExpected = 512;  // first capacity, in entities
    entities_.resize(kExpected);
    bits_.resize(kExpected);
    destroyed_.reserve(kExpected);
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
    if (watched_.size() > words_ * 64) {
        std::vector<std::uint64_t> wider(entities_.size() * (words_ + 1));
        for (std::size_t at = 0; at < count_; ++at)
            for (std::size_t word = 0; word < words_; ++word)
                wider[at * (words_ + 1) + word] = bits_[at * words_ + word];
        bits_.swap(wider);
        ++words_;
    }

    using Batch = std::span<const Entity>;
    const auto on_value = [this, watch](World&, Batch entities, const void*) { touch(entities, watch); };
    hooks_.push_back(world_.on(HookKind::add, id, on_value));
    hooks_.push_back(world_.on(HookKind::change, id, on_value));
    hooks_.push_back(
        world_.on(HookKind::remove, id, [this, watch](World&, Batch entities, const void*, Removal why) {
            if (why == Removal::component) touch(entities, watch);
        }));
    return watch;
}

void ChangeCollector::mark(Entity entity, std::uint32_t watch) {
    assert(watch < watch_count());
    if (watch < watch_count() && world_.is_alive(entity) && !world_.is_dying(entity))
        touch({&entity, 1}, watch);
}

void ChangeCollector::mark_all(Entity entity) {
    if (!world_.is_alive(entity) || world_.is_dying(entity)) return;
    std::uint64_t* bits = bits_of(entity);
    for (const ComponentId id : world_.components_of(entity)) {
        const ComponentId told = world_.components().type_of(id);  // for a pair its relation, as in hooks
        for (std::uint32_t watch = 0; watch < watch_count(); ++watch)
            if (watched_[watch] == told) bits[watch / 64] |= std::uint64_t{1} << watch % 64;
    }
}

/// Makes room for one more entity in entities_, and for this index in at_.
void ChangeCollector::grow(std::uint32_t index) {
    if (index >= at_.size())
        at_.resize(std::max({index + std::size_t{1}, std::size_t{world_.size()}, at_.size() * 2}));
    if (count_ < entities_.size()) return;
    entities_.resize(2 * count_);
    bits_.resize(2 * count_ * words_);
}

void ChangeCollector::forget(Entity entity) {
    if (!is_entered(entity.index)) return;
    const std::uint32_t at = at_[entity.index];
    if (entities_[at] != entity) return;
    const std::size_t last = --count_;
    if (at != last) {
        entities_[at] = entities_[last];
        at_[entities_[at].index] = at;
        std::copy_n(bits_.begin() + static_cast<std::ptrdiff_t>(last * words_), words_,
                    bits_.begin() + static_cast<std::ptrdiff_t>(at * words_));
    }
}

void ChangeCollector::clear() {
    count_ = 0;
    destroyed_.clear();
}

bool ChangeCollector::is_consistent() const {
    if (count_ > entities_.size() || bits_.size() != entities_.size() * words_) return false;
    for (std::size_t at = 0; at < count_; ++at)
        if (entities_[at].index >= at_.size() || at_[entities_[at].index] != at) return false;
    return std::none_of(destroyed_.begin(), destroyed_.end(), [this](Entity entity) {
        return is_entered(entity.index) && entities_[at_[entity.index]] == entity;
    });
}

}  // namespace shoal::ecs::all
