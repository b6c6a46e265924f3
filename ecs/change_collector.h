#pragma once
// Collects which entities of a world changed: one bit per entity and watched component.

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hooks.h"
#include "world.h"

namespace shoal::ecs::impl {

/// Connects hooks to the watched components. Needs memory for each entity that changed, and 4 bytes for each
/// entity index. Several collectors may watch one world. A collector may outlive its world; after that
/// watch(), mark() and mark_all() must not be called.
///
/// Collected since the last clear(), each entity once:
///  - changes(): living entities of which a watched component was added, written or removed. Each has one
///    bit per watched component. A set bit does not say which of the three happened; look up whether the
///    entity has the component now.
///  - destroyed(): entities that were destroyed, also those created after the last clear(). They are not in
///    changes(), unless World::copy_from() created them again.
class ChangeCollector {
public:
    struct Change {
        Entity entity;
        std::span<const std::uint64_t> dirty;  // bit n % 64 of word n / 64: the component with watch index n

        bool has(std::uint32_t watch) const {
            assert(watch / 64 < dirty.size());
            return watch / 64 < dirty.size() && (dirty[watch / 64] >> watch % 64 & 1) != 0;
        }
        /// Calls fn(watch) for each component that changed, in the order of the watch indices.
        template <class Fn>
        void for_each(Fn&& fn) const {
            for (std::uint32_t word = 0; word < dirty.size(); ++word)
                for (std::uint64_t bits = dirty[word]; bits != 0; bits &= bits - 1)
                    fn(word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
        }
    };

    explicit ChangeCollector(World& world);
    ChangeCollector(const ChangeCollector&) = delete;
    ChangeCollector& operator=(const ChangeCollector&) = delete;

    /// Watches a component or relation. Returns its watch index: 0 for the first, 1 for the second and so on;
    /// the same index for the same id. Components that exist already are not collected; use mark() for these.
    std::uint32_t watch(ComponentId id);
    template <Storable T>
    std::uint32_t watch() {
        return watch(world_.component<T>());
    }

    std::uint32_t watch_count() const { return static_cast<std::uint32_t>(watched_.size()); }
    ComponentId watched(std::uint32_t watch) const { return watched_[watch]; }

    /// Collects the component as if it had been written. Does nothing if the entity is dead or dying.
    void mark(Entity entity, std::uint32_t watch);

    /// Collects each watched component of the entity as if it had been written. The entity is in changes()
    /// then, even if it has no watched component. Does nothing if it is dead or dying.
    void mark_all(Entity entity);

    /// Removes the entity from changes().
    void forget(Entity entity);

    struct Changes;
    using Iterator = IndexIterator<Changes>;

    /// A view of the collected changes. It and its spans are valid until the world or the collector changes.
    struct Changes {
        const ChangeCollector* collector = nullptr;

        std::size_t size() const { return collector->end_ / collector->stride_; }
        bool empty() const { return size() == 0; }
        Change operator[](std::size_t at) const { return collector->change(at); }
        Iterator begin() const { return {*this, 0}; }
        Iterator end() const { return {*this, size()}; }
    };

    /// The order is unspecified, but the same in each run of the program.
    Changes changes() const { return {this}; }

    /// The destroyed entities, in the order of their destruction.
    std::span<const Entity> destroyed() const { return destroyed_; }

    /// Empties changes() and destroyed(). Keeps the memory.
    void clear();

    /// For tests: whether each entity is in one list, at most once; not so after World::copy_from().
    bool is_consistent() const;

private:
    Entity entity_at(std::size_t begin) const { return std::bit_cast<Entity>(rows_[begin]); }
    Change change(std::size_t row) const {
        const std::size_t begin = row * stride_;
        return {entity_at(begin), {rows_.data() + begin + 1, stride_ - 1}};
    }

    /// Returns whether the entity has a row.
    bool is_entered(Entity entity) const {
        if (entity.index >= at_.size()) return false;
        // at_ may hold an old position: not less than end_, or now used by another entity. Both conditions
        // are computed without a branch, as a branch on the first one is often mispredicted.
        const std::size_t at = at_[entity.index];
        return static_cast<bool>(static_cast<int>(at < end_) & static_cast<int>(entity_at(at) == entity));
    }
    void grow(std::uint32_t index);
    void widen();
    std::uint64_t* row_of(Entity entity);

    /// Where a row has the bit of a watch.
    struct Bit {
        std::size_t word;
        std::uint64_t mask;
    };
    static Bit bit_of(std::uint32_t watch) { return {1 + watch / 64, std::uint64_t{1} << watch % 64}; }
    void touch(std::span<const Entity> entities, Bit bit);

    World& world_;
    std::vector<ComponentId> watched_;
    std::size_t stride_ = 2;           // words of a row: the handle of an entity that changed, then its bits
    std::vector<std::uint64_t> rows_;  // only the words before end_ are used
    std::size_t end_ = 0;
    std::vector<std::uint32_t> at_;  // by entity index: where its row begins, if is_entered()
    std::vector<Entity> destroyed_;
    std::vector<Hook> hooks_;
};

}  // namespace shoal::ecs::impl

namespace shoal::ecs {
using impl::ChangeCollector;
}  // namespace shoal::ecs
