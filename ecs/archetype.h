#pragma once
// All entities with the same set of components: one contiguous array per component.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "component.h"
#include "entity.h"

namespace shoal::ecs {

/// Rows that share a change stamp, and the most that one batch hook is given.
inline constexpr std::uint32_t kBlockRows = 1024;

/// Not for users of a world, but for what iterates one: queries, and tools that read components by
/// id. Pointers into columns die at the next structural change.
class Archetype {
public:
    class Column {
    public:
        ComponentId id() const { return id_; }
        const ComponentType& type() const { return *type_; }

        /// Null for a tag.
        const void* at(std::uint32_t row) const { return data_ + offset(row); }
        void* at(std::uint32_t row) { return data_ + offset(row); }

        /// Per block: the last tick with a write, or a later one.
        std::uint64_t stamp(std::uint32_t block) const { return stamps_[block]; }

        /// Notes a write to `row` at `tick`; ticks never go back.
        void wrote(std::uint32_t row, std::uint64_t tick) { stamps_[row / kBlockRows] = tick; }

    private:
        friend class Archetype;

        std::size_t offset(std::uint32_t row) const { return std::size_t{row} * type_->size; }
        void raise_stamp(std::uint32_t row, std::uint64_t tick);

        ComponentId id_;
        const ComponentType* type_ = nullptr;
        std::byte* data_ = nullptr;
        std::vector<std::uint64_t> stamps_;
    };

    static constexpr std::uint32_t kNoColumn = 0xFFFF'FFFF;

    /// `components` sorted, without duplicates.
    Archetype(std::uint32_t index, std::span<const ComponentId> components, const ComponentTable& table);
    ~Archetype();
    Archetype(const Archetype&) = delete;
    Archetype& operator=(const Archetype&) = delete;

    std::uint32_t index() const { return index_; }
    std::span<const ComponentId> components() const { return components_; }
    std::span<const Entity> entities() const { return entities_; }
    std::uint32_t size() const { return static_cast<std::uint32_t>(entities_.size()); }

    /// Columns are in the order of components().
    Column& column(std::uint32_t column) { return columns_[column]; }
    const Column& column(std::uint32_t column) const { return columns_[column]; }
    std::uint32_t column_count() const { return static_cast<std::uint32_t>(columns_.size()); }

    /// kNoColumn if its entities do not have the component.
    std::uint32_t column_of(ComponentId id) const {
        if (id.value < direct_.size()) {
            const std::uint32_t found = direct_[id.value];
            return found == kNoDirect ? kNoColumn : found;
        }
        return id.value < kDirectIds ? kNoColumn : search(id);
    }
    bool has(ComponentId id) const { return column_of(id) != kNoColumn; }

    /// A new last row, its values yet to be constructed by the caller, every one of them.
    std::uint32_t append(Entity entity);

    /// Destroys the row's values and closes the gap with the last row. Returns the entity that is
    /// now at `row`, or null if none is.
    Entity remove(std::uint32_t row);

    /// Moves the row into a new last row of `to` and closes the gap as remove() does. Values of
    /// components that `to` lacks are destroyed; those that only `to` has are for the caller to
    /// construct and stamp. The others are stamped with `tick`: to a query that sees only `to`, the row
    /// is news.
    Entity move(std::uint32_t row, Archetype& to, std::uint64_t tick);

    /// Where entities go that get or lose one component. Null until first asked for by the world.
    struct Edge {
        ComponentId id;
        Archetype* with = nullptr;
        Archetype* without = nullptr;
    };
    Edge& edge(ComponentId id);

private:
    static constexpr std::uint32_t kDirectIds = 256;  // ids below are looked up in one load
    static constexpr std::uint16_t kNoDirect = 0xFFFF;

    std::uint32_t search(ComponentId id) const;
    void grow();
    Entity close_gap(std::uint32_t row);

    std::vector<std::uint16_t> direct_;  // component id to column
    std::vector<Column> columns_;
    std::vector<Entity> entities_;
    std::uint32_t capacity_ = 0;
    std::uint32_t index_;
    std::vector<ComponentId> components_;
    std::vector<Edge> edges_;  // sorted by id
    std::size_t last_edge_ = 0;
};

}  // namespace shoal::ecs
