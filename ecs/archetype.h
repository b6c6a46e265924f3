#pragma once
// All entities with the same set of components: one contiguous array per component.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "component.h"
#include "entity.h"

namespace shoal::ecs {

/// Rows that share a change stamp, and the most that one batch hook is given.
inline constexpr std::uint32_t kBlockRows = 1024;

class Archetype;

/// The values of one component in one archetype. Pointers into it die at the next structural change.
class alignas(64) Column {  // a cache line: queries over many small archetypes read little else
public:
    ComponentId id() const { return id_; }
    /// Of a pair its relation's.
    const KnownComponent& type() const { return *type_; }

    /// The pair's relation and target; of other components their own id, and null.
    ComponentId hook_id() const { return type_->id; }
    Entity target() const { return target_; }

    /// Whether entities have a value here, rather than a tag.
    bool has_values() const { return size_ != 0; }

    /// Null for a tag.
    const void* at(std::uint32_t row) const { return data_ + offset(row); }
    void* at(std::uint32_t row) { return data_ + offset(row); }

    /// The same for who knows the type.
    template <class T>
    T& value(std::uint32_t row) {
        return *(reinterpret_cast<T*>(data_) + row);
    }

    /// Per block: the last tick with a write, or a later one.
    std::uint64_t stamp(std::uint32_t block) const { return stamps_[block]; }

    /// Notes a write to `row` at `tick`; ticks never go back.
    void wrote(std::uint32_t row, std::uint64_t tick) { stamps_[row / kBlockRows] = tick; }

private:
    friend class Archetype;
    friend class ArchetypeList;

    std::size_t offset(std::uint32_t row) const { return std::size_t{row} * size_; }
    void relocate_value(std::byte* from, std::byte* to) const;
    void relocate_by_type(std::byte* from, std::byte* to) const;
    void close_gap(std::uint32_t last, std::uint32_t row);
    void destroy(std::uint32_t row);
    void grow(std::uint32_t rows, std::uint32_t old_capacity, std::uint32_t capacity);
    void free();

    std::byte* data_ = nullptr;  // the stamps follow the rows in the same piece of memory
    std::uint64_t* stamps_ = nullptr;
    KnownComponent* type_ = nullptr;
    std::uint32_t size_ = 0;  // of a value
    bool is_plain_ = true;    // moved by memcpy, destroyed by nothing
    ComponentId id_;
    Entity target_;
};

/// Not for users of a world, but for what iterates one: queries, and tools that read components by
/// id.
class Archetype {
public:
    struct Pair {
        ComponentId relation;
        Entity target;
        std::uint32_t column;
    };

    /// `components` sorted, without duplicates.
    Archetype(std::uint32_t index, std::span<const ComponentId> components, ComponentTable& table);
    ~Archetype();
    Archetype(const Archetype&) = delete;
    Archetype& operator=(const Archetype&) = delete;

    std::uint32_t index() const { return index_; }

    /// 1 for the first made in a world, greater for each later one, never used again.
    std::uint64_t serial() const { return serial_; }
    std::span<const ComponentId> components() const { return components_; }
    std::span<const Entity> entities() const { return entities_; }
    std::uint32_t size() const { return static_cast<std::uint32_t>(entities_.size()); }

    /// Columns are in the order of components().
    Column& column(std::uint32_t column) { return columns_[column]; }
    const Column& column(std::uint32_t column) const { return columns_[column]; }
    std::uint32_t column_count() const { return static_cast<std::uint32_t>(columns_.size()); }
    std::span<const Column> columns() const { return columns_; }

    /// Null if its entities do not have the component.
    const Column* find(ComponentId id) const;
    Column* find(ComponentId id) { return const_cast<Column*>(std::as_const(*this).find(id)); }
    bool has(ComponentId id) const { return find(id) != nullptr; }

    /// All by relation, then target; and those of one relation.
    std::span<const Pair> pairs() const { return pairs_; }
    std::span<const Pair> pairs(ComponentId relation) const;

    /// Room for so many rows in all.
    void reserve(std::uint32_t rows) {
        if (rows > capacity_) grow(rows);
    }

    /// A new last row, its values yet to be constructed by the caller, every one of them.
    std::uint32_t append(Entity entity) {
        const std::uint32_t row = size();
        if (row == capacity_) grow(row + 1);
        entities_.push_back(entity);
        return row;
    }

    /// Destroys the row's values and closes the gap with the last row. Returns the entity that is
    /// now at `row`, or null if none is.
    Entity remove(std::uint32_t row);

    /// Moves the row, which is the entity's, into a new last row of `to` and closes the gap as remove()
    /// does. The entity could be read from the row, where it is unlikely to be in the cache. Values of
    /// components that `to` lacks are destroyed; those that only `to` has are for the caller to
    /// construct and stamp. The others are stamped with `tick`: to a query that sees only `to`, the row
    /// is news.
    Entity move(Entity entity, std::uint32_t row, Archetype& to, std::uint64_t tick);

    /// Where entities go that get or lose one component. Null until first asked for by the world.
    struct Edge {
        ComponentId id;
        Archetype* with = nullptr;
        Archetype* without = nullptr;
    };
    Edge& edge(ComponentId id) {
        const bool is_last = last_edge_ < edges_.size() && edges_[last_edge_].id == id;
        return is_last ? edges_[last_edge_] : find_edge(id);
    }

    /// Makes all who have an edge to it forget it.
    void cut_edges();

private:
    friend class ArchetypeList;

    Edge& find_edge(ComponentId id);
    void grow(std::uint32_t rows);
    Entity close_gap(std::uint32_t row);

    std::vector<Column> columns_;
    std::vector<Entity> entities_;
    std::uint32_t capacity_ = 0;
    std::uint32_t index_;
    std::vector<ComponentId> components_;
    std::vector<Pair> pairs_;
    std::vector<Edge> edges_;  // sorted by id
    std::size_t last_edge_ = 0;

    // Kept by the list that it is in.
    std::uint64_t serial_ = 0;
    std::uint64_t hash_ = 0;
    Archetype* next_ = nullptr;  // with the same hash, as far as buckets go
    Archetype* older_ = nullptr;
    Archetype* newer_ = nullptr;
};

/// The archetypes of one world, owned. They keep their index while they live; indices are used again.
class ArchetypeList {
public:
    ArchetypeList() = default;
    ~ArchetypeList() { clear(); }
    ArchetypeList(const ArchetypeList&) = delete;
    ArchetypeList& operator=(const ArchetypeList&) = delete;

    /// Null if there is none with exactly these, sorted.
    Archetype* find(std::span<const ComponentId> components) const;

    /// Requires that there is none.
    Archetype& add(std::span<const ComponentId> components, ComponentTable& table);

    /// Requires that it is empty.
    void free(Archetype& archetype);

    /// Frees all, with their rows. What destructors of components see is an empty list.
    void clear();

    /// Requires that one has this index.
    Archetype& operator[](std::uint32_t index) const { return *slots_[index]; }

    /// Null if none has this index any more.
    Archetype* at(std::uint32_t index) const { return index < slots_.size() ? slots_[index] : nullptr; }

    /// Indices go up to here.
    std::uint32_t index_count() const { return static_cast<std::uint32_t>(slots_.size()); }
    std::uint32_t size() const { return size_; }

    /// From the oldest to the newest, by serial.
    Archetype* newest() const { return newest_; }
    static Archetype* newer(const Archetype& archetype) { return archetype.newer_; }
    static Archetype* older(const Archetype& archetype) { return archetype.older_; }

    /// Of the newest ever made; how often one was freed.
    std::uint64_t last_serial() const { return last_serial_; }
    std::uint64_t free_count() const { return free_count_; }

private:
    static void forget_columns(Archetype& archetype);
    void rehash();
    std::size_t bucket_of(std::uint64_t hash) const {
        return static_cast<std::size_t>(hash) & (buckets_.size() - 1);
    }

    std::vector<Archetype*> slots_;
    std::vector<std::uint32_t> free_slots_;
    std::vector<Archetype*> buckets_;  // a power of two
    std::uint32_t size_ = 0;
    Archetype* newest_ = nullptr;
    std::uint64_t last_serial_ = 0;
    std::uint64_t free_count_ = 0;
};

}  // namespace shoal::ecs
