#pragma once
// What changed in a world since last asked: one bit per entity and watched component.

#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "hooks.h"
#include "world.h"

namespace shoal::ecs {

/// Subscribes to what it watches; costs memory for the entities that changed, and 4 bytes for each other one.
/// Several may watch one world. A collector may outlive its world, but must not mark nor watch then.
///
/// Collected since the last clear(), each entity once:
///  - changes(): living entities to which a watched component was added, from which one was removed,
///    or of which one was written. Added, removed and added again is one set bit; what the entity
///    has now is for the reader to look up.
///  - destroyed(): dead ones. They are not in changes(), whether created lately or long ago; an index
///    that is used again stands there for its new entity only.
class ChangeCollector {
public:
    struct Change {
        Entity entity;
        std::span<const std::uint64_t> dirty;  // bit n % 64 of word n / 64: watched component n

        bool has(std::uint32_t watch) const {
            assert(watch / 64 < dirty.size());
            return watch / 64 < dirty.size() && (dirty[watch / 64] >> watch % 64 & 1) != 0;
        }
    };

    explicit ChangeCollector(World& world);
    ChangeCollector(const ChangeCollector&) = delete;
    ChangeCollector& operator=(const ChangeCollector&) = delete;

    /// Returns the component's watch index: 0 for the first, 1 for the second and so on. Watching it
    /// again returns the same. What entities have already is not collected; mark() it if need be.
    std::uint32_t watch(ComponentId id);
    template <Storable T>
    std::uint32_t watch() {
        return watch(world_.component<T>());
    }

    std::uint32_t watch_count() const { return static_cast<std::uint32_t>(watched_.size()); }
    ComponentId watched(std::uint32_t watch) const { return watched_[watch]; }

    /// As if the component had been written. Nothing happens if the entity is dead or dying.
    void mark(Entity entity, std::uint32_t watch);

    /// As if each watched component that the entity has had been written. It is in changes() then
    /// even if it has none.
    void mark_all(Entity entity);

    /// Takes back what was collected of an entity.
    void forget(Entity entity);

    class Iterator {
    public:
        Iterator(const ChangeCollector& collector, std::size_t at) : collector_(&collector), at_(at) {}
        Change operator*() const { return collector_->change(at_); }
        Iterator& operator++() {
            ++at_;
            return *this;
        }
        bool operator==(const Iterator& other) const { return at_ == other.at_; }

    private:
        const ChangeCollector* collector_;
        std::size_t at_;
    };

    /// Valid, like the spans in it, until the world or the collector changes.
    struct Changes {
        const ChangeCollector& collector;

        std::size_t size() const { return collector.count_; }
        bool empty() const { return size() == 0; }
        Change operator[](std::size_t at) const { return collector.change(at); }
        Iterator begin() const { return {collector, 0}; }
        Iterator end() const { return {collector, size()}; }
    };

    /// In no particular order, but the same one in each run of the same program.
    Changes changes() const { return {*this}; }

    /// In the order of their destruction.
    std::span<const Entity> destroyed() const { return destroyed_; }

    /// Begins anew. Keeps the memory.
    void clear();

private:
    Change change(std::size_t at) const { return {entities_[at], {bits_.data() + at * words_, words_}}; }

    /// Whether an entity of this index was entered.
    bool is_entered(std::uint32_t index) const {
        if (index >= at_.size()) return false;
        // What at_ has from before a clear() may lie beyond the count, and a branch on that alone could not
        // be predicted.
        const std::size_t at = at_[index];
        return static_cast<bool>(static_cast<int>(at < count_) &
                                 static_cast<int>(entities_[at].index == index));
    }
    void enter(Entity entity);
    void grow(std::uint32_t index);
    std::uint64_t* bits_of(Entity entity);
    void touch(std::span<const Entity> entities, std::uint32_t watch);

    World& world_;
    std::vector<ComponentId> watched_;
    std::size_t words_ = 1;  // per entity

    std::size_t count_ = 0;            // of entities that changed
    std::vector<Entity> entities_;     // the first count_; the rest is room
    std::vector<std::uint64_t> bits_;  // words_ for each of entities_
    std::vector<std::uint32_t> at_;    // by entity index: where it is in entities_, if it is there
    std::vector<Entity> destroyed_;
    std::vector<Hook> hooks_;
};

}  // namespace shoal::ecs
