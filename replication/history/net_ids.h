#pragma once
// Net ids, the names of entities in packets, and the entities that have them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../../ecs/entity.h"
#include "../schema/own_components.h"
#include "../schema/pending_id.h"
#include "bucket_hash.h"

namespace shoal::replication::impl {

/// Name of an entity in packets: never 0. A sender uses an ordinary net id for one entity only. A reserved
/// one names the entity that has a StableKey, and later perhaps another entity with this key.
using NetId = std::uint32_t;

/// A table with one row per net id. The index of a row is a small number, so that other tables can have rows
/// for the same entities. A sender allocates net ids; a client adopts its sender's net ids. No memory is
/// allocated once the tables have grown to the number of entities. Not thread-safe.
class NetIds {
public:
    static constexpr std::uint32_t kNone = 0xffffffff;

    /// Net ids from this one on are reserved for stable keys; allocate() returns neither them nor pending
    /// ids.
    static constexpr NetId kFirstReserved = 0xff00'0000;
    static constexpr bool is_reserved(NetId net_id) { return net_id >= kFirstReserved; }
    /// Requires key.value <= kMaxStableKey.
    static constexpr NetId reserved_for(StableKey key) { return kFirstReserved + key.value; }
    /// Requires is_reserved(net_id).
    static constexpr StableKey key_of(NetId net_id) { return {net_id - kFirstReserved}; }

    struct Row {
        NetId net_id = 0;    // 0: the row is not in use
        ecs::Entity entity;  // null: the net id has no entity yet
    };

    explicit NetIds(BucketHash hash = BucketHash{}) : hash_(hash) {}

    /// Adds a row with a new net id. Returns its index. Requires a handle that is in no row; the entity of a
    /// row may be dead.
    std::uint32_t allocate(ecs::Entity entity);

    /// Gives the net id this entity, or none if it is null. Adds a row if the net id has none. Returns the
    /// row's index. Requires net_id != 0, and a handle that is null or in no other row.
    std::uint32_t adopt(NetId net_id, ecs::Entity entity);

    /// Forgets the net id and the entity of a row. Its index is not used again before recycle(index).
    void release(std::uint32_t index);
    void recycle(std::uint32_t index);

    /// Return the index of a row, or kNone.
    std::uint32_t find(NetId net_id) const;
    std::uint32_t find(ecs::Entity entity) const;

    /// Returns 0 if the entity has no net id.
    NetId net_id(ecs::Entity entity) const;
    /// Returns null if the net id is unknown or has no entity. The entity may be dead.
    ecs::Entity entity(NetId net_id) const;

    const Row& operator[](std::uint32_t index) const { return rows_[index]; }
    /// All indices are less than this number.
    std::uint32_t index_count() const { return static_cast<std::uint32_t>(rows_.size()); }
    /// Number of net ids.
    std::size_t size() const { return size_; }
    /// Number of calls of release().
    std::uint64_t released_count() const { return released_; }

    bool is_consistent() const;  // consistency.cpp

private:
    std::size_t home(NetId net_id) const { return hash_(net_id, buckets_.size()); }
    std::size_t next(std::size_t i) const { return (i + 1) & (buckets_.size() - 1); }
    std::uint32_t add_row(NetId net_id);
    void set_entity(std::uint32_t index, ecs::Entity entity);
    void fill_bucket(std::uint32_t index);
    void empty_bucket(NetId net_id);

    BucketHash hash_;
    std::vector<Row> rows_;
    std::vector<std::uint32_t> recycled_;
    // A hash table with linear probing: row indices, or kNone. The size is a power of two; at most half of
    // the buckets are full.
    std::vector<std::uint32_t> buckets_;
    std::vector<std::uint32_t> by_entity_;  // by entity index: the row's index, or kNone
    std::size_t size_ = 0;
    NetId next_ = 1;
    std::uint64_t released_ = 0;
};

}  // namespace shoal::replication::impl
