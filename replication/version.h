#pragma once
// The recent past of an entity: images with the tick at which they began to hold.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "image.h"

namespace shoal::replication {

/// One version in its list; made by a pool, its words lie behind it.
struct Version {
    Tick tick = 0;
    Image image;
    Version* older = nullptr;
    Version* newer = nullptr;
};

/// Memory for versions, recycled by size: nothing is allocated in steady state.
class VersionPool {
public:
    /// A copy of `image`, in no list, that lives until release(), or as long as the pool.
    Version* make(Tick tick, const Image& image);
    void release(Version* version);

    /// Versions made and not released.
    std::size_t in_use() const { return in_use_; }

private:
    static constexpr std::size_t kFirstChunkBytes = 1 << 18;

    /// Each larger than all before it; untouched memory costs nothing.
    std::vector<std::unique_ptr<std::byte[]>> chunks_;
    std::size_t chunk_bytes_ = 0;
    std::size_t chunk_used_ = 0;
    Version* free_[32] = {};  // by power of two of the words; threaded through `older`
    std::size_t in_use_ = 0;
};

/// The versions of one entity. They belong to the pool given to each call; the owner clears the
/// list before it goes, or lets the pool go with it.
class VersionList {
public:
    bool empty() const { return newest_ == nullptr; }
    std::uint32_t size() const { return size_; }
    const Version* oldest() const { return oldest_; }
    /// Null if empty.
    const Version* newest() const { return newest_; }

    /// Requires a tick newer than newest()'s.
    void push(Tick tick, const Image& image, VersionPool& pool);

    /// The version with exactly this tick, or null.
    const Version* find(Tick tick) const;
    /// The newest version not newer than `tick`, or null.
    const Version* at(Tick tick) const;

    /// Requires that it is in the list.
    void drop(const Version* version, VersionPool& pool);
    /// Drops every version older than `tick`, but for the one of tick `kept`.
    void drop_older(Tick tick, Tick kept, VersionPool& pool);
    void clear(VersionPool& pool);

private:
    Version* oldest_ = nullptr;
    Version* newest_ = nullptr;
    std::uint32_t size_ = 0;
};

}  // namespace shoal::replication
