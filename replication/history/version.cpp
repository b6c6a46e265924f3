#include "version.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <new>

namespace shoal::replication {
namespace {

std::size_t size_class(std::size_t words) {
    return words < 2 ? 0 : static_cast<std::size_t>(std::bit_width(words - 1));
}

std::size_t block_bytes(std::size_t words) {
    const std::size_t bytes = sizeof(Version) + (std::size_t{1} << size_class(words)) * sizeof(std::uint32_t);
    return (bytes + alignof(Version) - 1) / alignof(Version) * alignof(Version);
}

}  // namespace

Version* VersionPool::make(Tick tick, const Image& image) {
    Version*& free = free_[size_class(image.words.size())];
    std::byte* block = reinterpret_cast<std::byte*>(free);
    if (free) {
        free = free->older;
    } else {
        const std::size_t bytes = block_bytes(image.words.size());
        if (chunk_used_ + bytes > chunk_bytes_) {
            chunk_bytes_ = std::max({kFirstChunkBytes, chunk_bytes_ * 4, bytes});
            chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(chunk_bytes_));
            chunk_used_ = 0;
        }
        block = chunks_.back().get() + chunk_used_;
        chunk_used_ += bytes;
    }
    std::uint32_t* words = reinterpret_cast<std::uint32_t*>(block + sizeof(Version));
    std::copy(image.words.begin(), image.words.end(), words);
    ++in_use_;
    bytes_in_use_ += block_bytes(image.words.size());
    if (image.shape) ++image.shape->versions;
    return ::new (block) Version{tick, {image.shape, {words, image.words.size()}}, nullptr, nullptr};
}

void VersionPool::release(Version* version) {
    bytes_in_use_ -= block_bytes(version->image.words.size());
    if (version->image.shape) --version->image.shape->versions;
    Version*& free = free_[size_class(version->image.words.size())];
    version->older = free;
    free = version;
    --in_use_;
}

void VersionList::push(Tick tick, const Image& image, VersionPool& pool) {
    assert(empty() || is_newer(tick, newest_->tick));
    insert(tick, image, pool);
}

void VersionList::insert(Tick tick, const Image& image, VersionPool& pool) {
    Version* newer = nullptr;
    Version* older = newest_;
    for (; older && is_newer(older->tick, tick); older = older->older) newer = older;
    if (older && older->tick == tick) return;
    Version* version = pool.make(tick, image);
    version->older = older;
    version->newer = newer;
    (older ? older->newer : oldest_) = version;
    (newer ? newer->older : newest_) = version;
    ++size_;
}

const Version* VersionList::find(Tick tick) const {
    const Version* version = at(tick);
    return version && version->tick == tick ? version : nullptr;
}

const Version* VersionList::at(Tick tick) const {
    const Version* version = newest_;
    while (version && is_newer(version->tick, tick)) version = version->older;
    return version;
}

void VersionList::drop(const Version* version, VersionPool& pool) {
    Version*& from_older = version->older ? version->older->newer : oldest_;
    Version*& from_newer = version->newer ? version->newer->older : newest_;
    Version* const dropped = from_older;
    from_older = version->newer;
    from_newer = version->older;
    --size_;
    pool.release(dropped);
}

void VersionList::drop_replaced(Tick tick, Tick kept, VersionPool& pool) {
    for (const Version* version = oldest_; version != newest_ && !is_newer(version->newer->tick, tick);) {
        const Version* newer = version->newer;
        if (version->tick != kept) drop(version, pool);
        version = newer;
    }
}

void VersionList::clear(VersionPool& pool) {
    while (!empty()) drop(oldest_, pool);
}

bool VersionList::is_consistent() const {
    const Version* before = nullptr;
    std::uint32_t count = 0;
    for (const Version* version = oldest_; version; before = version, version = version->newer) {
        if (version->older != before || (before && !is_newer(version->tick, before->tick))) return false;
        ++count;
    }
    return before == newest_ && count == size_;
}

}  // namespace shoal::replication
