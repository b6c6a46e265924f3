#pragma once
// Names for things in a world, and the table that says where each one's row is.

#include <cassert>
#include <compare>
#include <cstdint>
#include <vector>

namespace shoal::ecs {

/// A handle. Default-constructed it is null, and no world ever hands that out. Once its entity is
/// destroyed a handle is stale for ever: the index is used again, but under another generation.
struct Entity {
    std::uint32_t index = 0;
    std::uint32_t generation = 0;  // 0 only in null handles

    explicit operator bool() const { return generation != 0; }
    friend auto operator<=>(const Entity&, const Entity&) = default;
};

static_assert(sizeof(Entity) == 8, "columns of entities are stored raw");

/// Where each living entity's components are: 12 bytes an entity, one array, free indices threaded
/// through it.
class EntityTable {
public:
    struct Place {
        std::uint32_t archetype;
        std::uint32_t row;
    };

    /// An entity that is alive but in no archetype yet. The index is the one freed last, if any.
    Entity take();

    /// Requires is_alive(entity). Outstanding handles are stale from here on. An index whose
    /// generations have run out is never used again.
    void release(Entity entity);

    bool is_alive(Entity entity) const {
        if (entity.index >= slots_.size()) return false;
        const Slot& slot = slots_[entity.index];
        return slot.generation == entity.generation && slot.place.archetype != kFree;
    }

    /// Null if the entity is dead or in no archetype yet. Valid until the next take().
    const Place* find(Entity entity) const {
        if (entity.index >= slots_.size()) return nullptr;
        const Slot& slot = slots_[entity.index];
        if (slot.generation != entity.generation || slot.place.archetype >= kNowhere) return nullptr;
        return &slot.place;
    }

    /// Requires is_alive(entity).
    void move_to(Entity entity, Place place) {
        assert(is_alive(entity));
        slots_[entity.index].place = place;
    }

    /// The same within its archetype.
    void move_to(Entity entity, std::uint32_t row) {
        assert(find(entity) != nullptr);
        slots_[entity.index].place.row = row;
    }

    /// Entities alive.
    std::uint32_t size() const { return alive_; }

    /// Indices ever used; at() gives the entity alive there, or null.
    std::uint32_t index_count() const { return static_cast<std::uint32_t>(slots_.size()); }
    Entity at(std::uint32_t index) const;

private:
    static constexpr std::uint32_t kNowhere = 0xFFFF'FFFE;  // alive, in no archetype yet
    static constexpr std::uint32_t kFree = 0xFFFF'FFFF;     // then row is the next free index
    static constexpr std::uint32_t kNoIndex = 0xFFFF'FFFF;

    struct Slot {
        Place place;
        std::uint32_t generation;
    };

    std::vector<Slot> slots_;
    std::uint32_t first_free_ = kNoIndex;
    std::uint32_t alive_ = 0;
};

}  // namespace shoal::ecs
