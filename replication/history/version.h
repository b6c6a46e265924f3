#pragma once
// The recent versions of an entity: images, each with the tick since which it is valid.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../schema/image.h"

namespace shoal::replication {

/// A node of a VersionList. A VersionPool makes it; the words of the image follow it in memory.
struct Version {
    Tick tick = 0;
    Image image;
    Version* older = nullptr;
    Version* newer = nullptr;
};

/// Memory for versions. Blocks are reused by size: nothing is allocated once the pool has grown enough.
class VersionPool {
public:
    /// Copies `image` into a new version, which is in no list. It lives until release(), or as long as the
    /// pool.
    Version* make(Tick tick, const Image& image);
    /// Frees a version of this pool that is in no list.
    void release(Version* version);

    /// Number of versions made and not released.
    std::size_t in_use() const { return in_use_; }
    /// The memory that these versions take.
    std::size_t bytes_in_use() const { return bytes_in_use_; }

private:
    static constexpr std::size_t kFirstChunkBytes = 1 << 18;

    std::vector<std::unique_ptr<std::byte[]>> chunks_;  // each has more bytes than the one before
    std::size_t chunk_bytes_ = 0;
    std::size_t chunk_used_ = 0;
    Version* free_[32] = {};  // by n: unused blocks for up to 2^n words, linked by `older`
    std::size_t in_use_ = 0;
    std::size_t bytes_in_use_ = 0;
};

/// The versions of one entity. Each call must name the same pool, which owns the versions. Call clear()
/// before the list is destroyed, unless the pool is destroyed too.
class VersionList {
public:
    bool empty() const { return newest_ == nullptr; }
    std::uint32_t size() const { return size_; }
    /// Return null if the list is empty.
    const Version* oldest() const { return oldest_; }
    const Version* newest() const { return newest_; }

    /// Adds a version. Requires a tick newer than that of newest().
    void push(Tick tick, const Image& image, VersionPool& pool);

    /// Returns the version with exactly this tick, or null.
    const Version* find(Tick tick) const;
    /// Returns the newest version whose tick is not after `tick`; null if there is none.
    const Version* at(Tick tick) const;

    /// Adds a version that may be older than others. No effect if there is a version with this tick.
    void insert(Tick tick, const Image& image, VersionPool& pool);

    /// Removes a version of this list and gives it back to the pool.
    void drop(const Version* version, VersionPool& pool);
    /// Drops the versions that a newer one replaced at `tick` or before, except the version with tick `kept`.
    void drop_replaced(Tick tick, Tick kept, VersionPool& pool);
    void clear(VersionPool& pool);

    /// For tests: the links in both directions agree, and each version is newer than the one before it.
    bool is_consistent() const;

private:
    Version* oldest_ = nullptr;
    Version* newest_ = nullptr;
    std::uint32_t size_ = 0;
};

}  // namespace shoal::replication
