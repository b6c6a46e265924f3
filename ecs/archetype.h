#pragma once
// All entities with the same set of components: one contiguous array per component.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "component.h"
#include "entity.h"

namespace shoal::ecs::impl {

/// Rows that share a change stamp; also the maximum number of rows in a batch for a hook.
inline constexpr std::uint32_t kBlockRows = 1024;

class Archetype;

/// The values of one component in one archetype. Pointers to them are valid until the next structural change.
class alignas(64) Column {  // one cache line: queries over many small archetypes mostly read Columns
public:
    ComponentId id() const { return id_; }
    /// The component; for a pair, its relation.
    const KnownComponent& type() const { return *type_; }

    /// The id to which hooks are connected: a pair's relation, else id(). Only pairs have a target().
    ComponentId hook_id() const { return type_->id; }
    Entity target() const { return target_; }

    /// Returns whether the component has values; false for a tag.
    bool has_values() const { return size_ != 0; }

    /// The value in a row; null for a tag.
    const void* at(std::uint32_t row) const { return data_ + offset(row); }
    void* at(std::uint32_t row) { return data_ + offset(row); }

    /// Typed version of at(). Not for tags.
    template <class T>
    T& value(std::uint32_t row) {
        return *(reinterpret_cast<T*>(data_) + row);
    }

    /// Stamps the block of `row` with `tick`, which must not be less than the previous stamp. See
    /// Archetype::stamp().
    void wrote(std::uint32_t row, std::uint64_t tick) { stamps_[row / kBlockRows] = tick; }

private:
    friend class Archetype;
    friend class ArchetypeList;

    std::size_t offset(std::uint32_t row) const { return std::size_t{row} * size_; }
    void relocate_value(std::byte* from, std::byte* to) const;
    void relocate_by_type(std::byte* from, std::byte* to) const noexcept;
    void raise_stamp(std::uint32_t last, std::uint32_t row);
    void close_gap(std::uint32_t last, std::uint32_t row);
    void close_gap_small(std::uint32_t last, std::uint32_t row);
    void shift_small(std::uint32_t row, std::uint32_t last, std::byte* to);
    void destroy(std::uint32_t row);
    void reallocate(std::uint32_t rows, std::uint32_t old_capacity, std::uint32_t capacity);
    void free();

    std::byte* data_ = nullptr;        // the stamps follow the rows in the same allocation
    std::uint64_t* stamps_ = nullptr;  // by block: tick of the last write; see arrivals_
    KnownComponent* type_ = nullptr;
    std::uint32_t size_ = 0;  // bytes of a value
    bool is_plain_ = true;    // values are moved by memcpy and need no destruction
    ComponentId id_;
    Entity target_;
};

/// The rows of one archetype. For queries, and for tools that read components by id.
class Archetype {
public:
    struct Pair {
        ComponentId relation;
        Entity target;
        std::uint32_t column;
        std::uint32_t place = 0;  // for ArchetypeGraph: position in PairTable::Pair::archetypes
    };

    /// Requires that `components` is sorted and has no duplicates.
    Archetype(std::uint32_t index, std::span<const ComponentId> components, ComponentTable& table);
    ~Archetype();
    Archetype(const Archetype&) = delete;
    Archetype& operator=(const Archetype&) = delete;

    std::uint32_t index() const { return index_; }

    /// 1 for the first archetype of a world, greater for each later one. A serial is never used again.
    std::uint64_t serial() const { return serial_; }
    std::span<const ComponentId> components() const { return components_; }
    std::span<const Entity> entities() const { return {entities_, size_}; }
    std::uint32_t size() const { return size_; }

    /// Columns are in the order of components().
    Column& column(std::uint32_t column) { return columns_[column]; }
    const Column& column(std::uint32_t column) const { return columns_[column]; }
    std::uint32_t column_count() const { return static_cast<std::uint32_t>(columns_.size()); }
    std::span<const Column> columns() const { return columns_; }
    std::span<Column> columns() { return columns_; }

    /// The column of a component; null if the archetype lacks it.
    const Column* find(ComponentId id) const;
    Column* find(ComponentId id) { return const_cast<Column*>(std::as_const(*this).find(id)); }
    bool has(ComponentId id) const { return find(id) != nullptr; }

    /// All pairs among the components, sorted by relation, then by target.
    std::span<const Pair> pairs() const { return pairs_; }
    /// The pairs of one relation, sorted by target.
    std::span<const Pair> pairs(ComponentId relation) const;
    /// For ArchetypeGraph, which maintains the places of pairs. Requires that the archetype has the pair.
    std::span<Pair> pairs() { return pairs_; }
    Pair& pair(ComponentId relation, Entity target);

    /// Makes room for at least `rows` rows in total.
    void reserve(std::uint32_t rows) {
        if (rows > capacity_) grow(rows);
    }
    void reserve_more(std::uint32_t rows) { reserve(size_ + rows); }
    /// Frees memory that the present rows do not need.
    void shrink();

    /// Adds a last row, stamps its block with `tick`, and returns it. The caller must construct all values of
    /// the row.
    std::uint32_t append(Entity entity, std::uint64_t tick) {
        if (size_ == capacity_) grow(size_ + 1);
        entities_[size_] = entity;
        arrivals_[size_ / kBlockRows] = tick;
        return size_++;
    }

    /// The tick of the last write to the column in this block, or a later tick if a row was moved into the
    /// block. A row that is new to the archetype counts as written: a query that matches only this archetype
    /// has not visited it.
    std::uint64_t stamp(const Column& column, std::uint32_t block) const {
        return (std::max)(column.stamps_[block], arrivals_[block]);
    }

    /// Destroys the row's values and moves the last row into the gap. Returns the entity that is now at
    /// `row`; null if the removed row was the last.
    Entity remove(std::uint32_t row);

    /// Moves the row to a new last row of `to`, and the last row of this archetype into the gap. Returns the
    /// same as remove(). `entity` is the row's entity: the caller has it at hand, but its entry in entities()
    /// is rarely in the cache. Values of components that `to` lacks are destroyed. The caller must construct
    /// the values of components that only `to` has.
    Entity move(Entity entity, std::uint32_t row, Archetype& to, std::uint64_t tick);

    /// Has more than 8 pairs, so other entities rarely share it: freed when its last entity leaves it.
    bool is_rare() const { return pairs_.size() > 8; }
    /// Not rare, and all values are small: at most 64 bytes, moved by memcpy and without a destructor.
    bool is_small() const { return is_small_ && !is_rare(); }

    /// As move(), along a step of small archetypes: add_small() moves the row from step.without to step.with
    /// and gives it a copy of `value`, which is ignored for a tag; remove_small() moves it back. They store
    /// the places of both moved rows in `places`. They are fast because they call no other function: their
    /// variables stay in registers.
    static void add_small(const ArchetypeStep& step, Entity entity, std::uint32_t row, const void* value,
                          std::uint64_t tick, EntityTable& places);
    static void remove_small(const ArchetypeStep& step, Entity entity, std::uint32_t row, std::uint64_t tick,
                             EntityTable& places);

    /// The archetypes that a row moves to when it gets (`with`) or loses (`without`) the component. Null
    /// until ArchetypeGraph first needs them. Not for pairs: an archetype may have a step to each of 100,000.
    struct Edge {
        ComponentId id;
        Archetype* with = nullptr;
        Archetype* without = nullptr;
    };
    Edge& edge(ComponentId id) {
        const bool is_last = last_edge_ < edges_.size() && edges_[last_edge_].id == id;
        return is_last ? edges_[last_edge_] : find_edge(id);
    }

    std::span<const Edge> edges() const { return edges_; }

    /// Removes all edges to and from this archetype.
    void cut_edges();

private:
    friend class ArchetypeList;

    template <bool is_added>
    static void move_small(const ArchetypeStep& step, Entity entity, std::uint32_t row, const void* value,
                           std::uint64_t tick, EntityTable& places);
    Edge& find_edge(ComponentId id);
    void grow(std::uint32_t rows);
    void reallocate(std::uint32_t capacity);
    Entity close_gap(std::uint32_t row);

    std::vector<Column> columns_;
    Entity* entities_ = nullptr;         // room for capacity_ entities, of which size_ are used
    std::uint64_t* arrivals_ = nullptr;  // by block: when a row last came in; in the same allocation
    std::uint32_t size_ = 0;
    std::uint32_t capacity_ = 0;
    std::uint32_t index_;
    bool is_small_ = true;
    std::vector<ComponentId> components_;
    std::vector<Pair> pairs_;
    std::vector<Edge> edges_;  // sorted by id
    std::size_t last_edge_ = 0;

    // Maintained by the ArchetypeList.
    std::uint64_t serial_ = 0;
    std::uint64_t hash_ = 0;
    Archetype* next_ = nullptr;   // next archetype in the same bucket
    Archetype* older_ = nullptr;  // by serial
    Archetype* newer_ = nullptr;
};

/// Owns the archetypes of one world. An archetype's index is constant; freed indices are used again.
class ArchetypeList {
public:
    ArchetypeList() = default;
    ~ArchetypeList() { clear(); }
    ArchetypeList(const ArchetypeList&) = delete;
    ArchetypeList& operator=(const ArchetypeList&) = delete;

    /// The archetype with exactly these components; null if there is none. Requires that they are sorted.
    Archetype* find(std::span<const ComponentId> components) const;

    /// Adds an archetype. Requires sorted components, and that no archetype has exactly these.
    Archetype& add(std::span<const ComponentId> components, ComponentTable& table);

    /// Destroys an archetype. Requires that it has no rows.
    void free(Archetype& archetype);

    /// Frees memory that the present archetypes do not need.
    void shrink();

    /// Destroys all archetypes with their rows. Destructors of components find an empty list.
    void clear();

    /// Requires that an archetype has this index.
    Archetype& operator[](std::uint32_t index) const { return *slots_[index]; }

    /// Null if no archetype has this index.
    Archetype* at(std::uint32_t index) const { return index < slots_.size() ? slots_[index] : nullptr; }

    /// All indices are less than this.
    std::uint32_t index_count() const { return static_cast<std::uint32_t>(slots_.size()); }
    std::uint32_t size() const { return size_; }

    /// Iteration in the order of serials; null at either end.
    Archetype* newest() const { return newest_; }
    static Archetype* newer(const Archetype& archetype) { return archetype.newer_; }
    static Archetype* older(const Archetype& archetype) { return archetype.older_; }

    /// The highest serial ever used: grows with each new archetype.
    std::uint64_t last_serial() const { return last_serial_; }
    /// Grows when archetypes are destroyed.
    std::uint64_t free_count() const { return free_count_; }

private:
    static void forget_columns(Archetype& archetype);
    void rehash(std::size_t buckets);
    std::size_t bucket_of(std::uint64_t hash) const {
        return static_cast<std::size_t>(hash) & (buckets_.size() - 1);
    }

    std::vector<Archetype*> slots_;
    std::vector<std::uint32_t> free_slots_;
    std::vector<Archetype*> buckets_;  // hash table, linked by next_; the size is a power of two
    std::uint32_t size_ = 0;
    Archetype* newest_ = nullptr;
    std::uint64_t last_serial_ = 0;
    std::uint64_t free_count_ = 0;
};

}  // namespace shoal::ecs::impl
