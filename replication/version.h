#pragma once
// The recent versions of an entity: images, each with the tick since which it is valid.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "image.h"

namespace shoal::replication {

/// A node of a VersionList. A pool makes it; its words follow it in memory.
struct Version {
    Tick tick = 0;
    Image image;
    Version* older = nullptr;
    Version* newer = nullptr;
};

/// Memory for versions. Blocks are reused by size: nothing is allocated once the pool has grown enough.
class VersionPool {
public:
    /// Copies `image` into a version that is in no list. It lives until release(), or as long as the pool.
    Version* make(Tick tick, const Image& image);
    /// Requires a version that is in no list.
    void release(Version* version);

    /// Number of versions made and not released.
    std::size_t in_use() const { return in_use_; }

private:
    static constexpr std::size_t kFirstChunkBytes = 1 << 18;

    std::vector<std::unique_ptr<std::byte[]>> chunks_;  // each larger than the one before
    std::size_t chunk_bytes_ = 0;
    std::size_t chunk_used_ = 0;
    Version* free_[32] = {};  // free blocks by size, in powers of two of words; linked by `older`
    std::size_t in_use_ = 0;
};

/// The versions of one entity. Each call must name the same pool, which owns the versions. Call clear()
/// before the list is destroyed, unless the pool is destroyed too.
class VersionList {
public:
    bool empty() const { return newest_ == nullptr; }
    std::uint32_t size() const { return size_; }
    /// Null if empty.
    const Version* oldest() const { return oldest_; }
    const Version* newest() const { return newest_; }

    /// Requires a tick newer than newest()'s.
    void push(Tick tick, const Image& image, VersionPool& pool);

    /// Returns the version with exactly this tick, or null.
    const Version* find(Tick tick) const;
    /// Returns the newest version whose tick is not after `tick`; null if there is none.
    const Version* at(Tick tick) const;

    /// Requires a version of this list.
    void drop(const Version* version, VersionPool& pool);
    /// Drops every version older than `tick`, except that of tick `kept`.
    void drop_older(Tick tick, Tick kept, VersionPool& pool);
    void clear(VersionPool& pool);

    /// For tests: the links in both directions agree, and each version is newer than the one before it.
    bool is_consistent() const;

private:
    Version* oldest_ = nullptr;
    Version* newest_ = nullptr;
    std::uint32_t size_ = 0;
};

}  // namespace shoal::replication
