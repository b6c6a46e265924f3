#pragma once
// Entity handles, and the table that gives the archetype and row of each entity.

#include <cassert>
#include <compare>
#include <cstdint>
#include <string_view>  // and std::hash
#include <vector>

namespace shoal::ecs::impl {

/// A handle. The default is null, and names no entity. After its entity is destroyed, a handle is stale for
/// ever: the index is used again, but with another generation.
struct Entity {
    std::uint32_t index = 0;
    std::uint32_t generation = 0;  // 0 only in null handles

    explicit operator bool() const { return generation != 0; }
    friend auto operator<=>(const Entity&, const Entity&) = default;
};

static_assert(sizeof(Entity) == 8, "columns of entities are stored raw");

/// The place (archetype and row) of each living entity, in one array with 12 bytes for each index. Free
/// indices form a linked list in the same array.
class EntityTable {
public:
    struct Place {
        std::uint32_t archetype;
        std::uint32_t row;

        /// False if the entity is dead or in no archetype yet.
        bool has_row() const { return archetype < kNoArchetype; }
    };

    /// Creates an entity that is alive but in no archetype yet. Uses the index that was freed last, if any.
    Entity take() {
        ++alive_;
        if (first_free_ != kNoIndex) return take_free();
        slots_.push_back({{kNoArchetype, 0}, 1});
        return Entity{count_++, 1};
    }

    /// Makes room for at least `more` further entities.
    void reserve(std::uint32_t more) {
        const std::size_t needed = slots_.size() + more, twice = 2 * slots_.capacity();
        if (needed > slots_.capacity()) slots_.reserve(needed > twice ? needed : twice);
    }

    /// Frees the memory reserved for further entities.
    void shrink() { slots_.shrink_to_fit(); }

    /// Makes the entity's handles stale. Requires is_alive(entity). An index whose generations are used up is
    /// never used again.
    void release(Entity entity) {
        assert(is_alive(entity));
        Slot& slot = slots_[entity.index];
        --alive_;
        const std::uint32_t next = slot.generation + 1;
        const bool is_last = next == 0;  // the index's generations are used up
        slot = {{kFree, is_last ? kNoIndex : first_free_}, next};
        if (!is_last) first_free_ = entity.index;
    }

    bool is_alive(Entity entity) const {
        if (entity.index >= count_) return false;
        const Slot& slot = slots_[entity.index];
        return slot.generation == entity.generation && slot.place.archetype != kFree;
    }

    /// The place of the entity; its has_row() is false if the entity is dead or in no archetype yet.
    Place place(Entity entity) const {
        if (entity.index >= count_) return {kFree, 0};
        const Slot& slot = slots_[entity.index];
        return slot.generation == entity.generation ? slot.place : Place{kFree, 0};
    }

    /// The place of the entity; null if it is dead or in no archetype yet. The pointer is valid until the
    /// next take() or reserve().
    const Place* find(Entity entity) const {
        if (entity.index >= count_) return nullptr;
        const Slot& slot = slots_[entity.index];
        if (slot.generation != entity.generation || slot.place.archetype >= kNoArchetype) return nullptr;
        return &slot.place;
    }

    /// Sets the archetype and the row. Requires is_alive(entity).
    void move_to(Entity entity, Place place) {
        assert(is_alive(entity));
        slots_[entity.index].place = place;
    }

    /// Sets the row within the same archetype. Requires that the entity is in an archetype.
    void move_to(Entity entity, std::uint32_t row) {
        assert(find(entity) != nullptr);
        slots_[entity.index].place.row = row;
    }

    /// Number of living entities.
    std::uint32_t size() const { return alive_; }

    /// Removes all entities. The next handles are the same as those of a new table.
    void clear() { *this = {}; }

    /// Number of indices ever used. at() returns the entity that is alive at an index, or null.
    std::uint32_t index_count() const { return count_; }
    Entity at(std::uint32_t index) const;

    /// For tests: each index is alive, in the list of free indices, or has used up its generations.
    bool is_consistent() const;

private:
    static constexpr std::uint32_t kNoArchetype = 0xFFFF'FFFE;  // alive, in no archetype yet
    static constexpr std::uint32_t kFree = 0xFFFF'FFFF;         // not alive; `row` is the next free index
    static constexpr std::uint32_t kNoIndex = 0xFFFF'FFFF;

    struct Slot {
        Place place;
        std::uint32_t generation;
    };

    Entity take_free();

    std::vector<Slot> slots_;
    std::uint32_t count_ = 0;  // slots_.size()
    std::uint32_t first_free_ = kNoIndex;
    std::uint32_t alive_ = 0;
};

}  // namespace shoal::ecs::impl

namespace shoal::ecs {
using impl::Entity;
}  // namespace shoal::ecs

template <>
struct std::hash<shoal::ecs::Entity> {
    std::size_t operator()(const shoal::ecs::Entity& entity) const {
        return std::hash<std::uint64_t>{}(std::uint64_t{entity.generation} << 32 | entity.index);
    }
};
