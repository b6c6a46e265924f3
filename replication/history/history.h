#pragma once
// The recent versions of an entity: images, each with the tick since which it is valid.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "../schema/image.h"
#include "prefetch.h"

namespace shoal::replication::all {

struct Version {
    Tick tick = 0;
    Image image;
    ViewClasses viewers = to_everyone();  // who sees that this version differs from the one before it
};

/// Memory for versions and histories. Blocks are reused by size: nothing is allocated once the pool has grown
/// enough. An allocation quadruples the memory, or adds 64 MiB. A version takes 12 bytes beside its words,
/// and 4 more if it has parts. Not thread-safe.
class VersionPool {
public:
    VersionPool() = default;
    VersionPool(const VersionPool&) = delete;
    VersionPool& operator=(const VersionPool&) = delete;

    /// Number of versions in all histories.
    std::size_t in_use() const { return in_use_; }
    /// The memory that versions and histories take, in bytes.
    std::size_t bytes_in_use() const { return words_in_use_ * sizeof(std::uint32_t); }

private:
    friend class History;

    static constexpr std::uint32_t kChunkWords = 1 << 16;
    static constexpr std::uint32_t kHasSize = 0x80000000;  // flag of Stored::block
    static constexpr std::size_t kClasses = 80;

    /// A version in a history.
    struct Stored {
        Tick tick;
        std::uint32_t shape : 23;   // index in shapes_
        std::uint32_t viewers : 9;  // Version::viewers
        std::uint32_t block;        // block of the words; with kHasSize the number of words comes first
    };

    /// A block's number has the chunk in its upper 16 bits, and the first word in the chunk below.
    std::uint32_t allocate(std::size_t words);
    void free(std::uint32_t block, std::size_t words);
    std::uint32_t* words(std::uint32_t block) const { return chunks_[block >> 16] + (block & 0xffff); }
    void grow(std::size_t words);

    Stored store(const Version& version);
    Version load(const Stored& stored) const;
    void release(const Stored& stored);
    void give_index(const Shape& shape);

    std::vector<std::unique_ptr<std::byte[]>> memory_;
    std::vector<std::uint32_t*> chunks_;  // parts of memory_
    std::uint32_t next_chunk_ = 0;        // the first chunk that was not used yet
    std::uint32_t chunk_ = 0;             // the chunk that is being used up
    std::uint32_t chunk_left_ = 0;        // unused words at the end of the newest chunk
    std::uint32_t free_[kClasses] = {};   // by size class: 1 + a free block, whose first word is 1 + the next
    std::vector<const Shape*> shapes_{nullptr};  // shapes with versions, by number; 0: no shape
    std::vector<std::uint32_t> free_shapes_;
    std::size_t in_use_ = 0;
    std::size_t words_in_use_ = 0;
};

/// The versions of one entity, ordered by tick. They are in the memory of a pool, which must be the same in
/// all calls. Copies of a history share this memory. Call clear() of one copy before the last copy is
/// destroyed, unless the pool is destroyed too.
class History {
public:
    bool empty() const { return count_ == 0; }
    std::uint32_t size() const { return count_; }

    /// Index 0 is the oldest version. Its image is valid until the version is dropped.
    Version operator[](std::uint32_t index) const { return pool_->load(stored(index)); }
    /// Return nothing if the history is empty.
    std::optional<Version> oldest() const { return at_index(0); }
    std::optional<Version> newest() const { return at_index(count_ - 1); }

    /// Returns how many versions are not newer than `tick`.
    std::uint32_t count_until(Tick tick) const {
        std::uint32_t count = count_;
        while (count > 0 && is_newer(stored(count - 1).tick, tick)) --count;
        return count;
    }
    /// Begins to load what is read to find one of the newest versions.
    void prefetch_newest() const {
        if (count_ != 0) prefetch(&stored(count_ - 1));
        if (count_ > 5) prefetch(&stored(count_ - 6));
    }
    /// Returns the version with exactly this tick.
    std::optional<Version> find(Tick tick) const {
        const std::uint32_t count = count_until(tick);
        return count != 0 && stored(count - 1).tick == tick ? at_index(count - 1) : std::nullopt;
    }
    /// Returns the newest version whose tick is not after `tick`.
    std::optional<Version> at(Tick tick) const { return at_index(count_until(tick) - 1); }
    /// As at(tick), for peers of some view classes. `horizon`: the newest tick that drop_replaced() got.
    /// Returns nothing if these classes saw a change after `tick` that is not newer than the horizon: then
    /// the version at `tick` may have been dropped, while an older one stayed for another view class.
    std::optional<Version> at(Tick tick, Tick horizon, ViewClasses viewers) const;

    /// Adds a version with a copy of the image. Its tick must be newer than the tick of newest().
    void push(const Version& version, VersionPool& pool);
    void push(Tick tick, const Image& image, VersionPool& pool) { push({tick, image}, pool); }

    /// Adds a version that may be older than others. No effect if there is a version with this tick.
    void insert(const Version& version, VersionPool& pool);
    void insert(Tick tick, const Image& image, VersionPool& pool) { insert({tick, image}, pool); }

    /// Drops the versions that were replaced at `tick` or before, except the version with tick `kept`. For a
    /// view class, a version is replaced by the next version that this class sees. A version is dropped when
    /// it is replaced for every class that sees it. So changes that a peer does not see do not shorten the
    /// time for which the peer has a baseline.
    void drop_replaced(Tick tick, Tick kept);
    void clear();

    bool is_consistent() const;  // consistency.cpp

private:
    /// Returns nothing if there is no such version.
    std::optional<Version> at_index(std::uint32_t index) const {
        return index < count_ ? std::optional((*this)[index]) : std::nullopt;
    }
    VersionPool::Stored& stored(std::uint32_t index) const {
        return ring_[(first_ + index) & (capacity_ - 1)];
    }
    void grow(VersionPool& pool);

    VersionPool* pool_ = nullptr;          // null: no version was added since clear()
    VersionPool::Stored* ring_ = nullptr;  // the versions, in memory of the pool
    std::uint32_t block_ = 0;              // number of the pool's block that holds the ring
    std::uint32_t capacity_ = 0;           // capacity of the ring, in versions: a power of two
    std::uint32_t first_ = 0;              // where the oldest version is in the ring, modulo capacity_
    std::uint32_t count_ = 0;
};

inline Version VersionPool::load(const Stored& stored) const {
    const Shape* const shape = shapes_[stored.shape];
    const std::uint32_t* from = words(stored.block & ~kHasSize);
    std::size_t count = shape ? shape->lane_words : 0;
    if ((stored.block & kHasSize) != 0) count = *from++;
    return {stored.tick, {shape, {from, count}}, {static_cast<std::uint16_t>(stored.viewers)}};
}

inline std::optional<Version> History::at(Tick tick, Tick horizon, ViewClasses viewers) const {
    for (std::uint32_t count = count_; count > 0; --count) {
        const VersionPool::Stored& version = stored(count - 1);
        if (!is_newer(version.tick, tick)) return (*this)[count - 1];
        if (!is_newer(version.tick, horizon) && (version.viewers & viewers.bits) != 0) return std::nullopt;
    }
    return std::nullopt;
}

}  // namespace shoal::replication::all
