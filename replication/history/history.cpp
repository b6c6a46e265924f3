#include "history.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace shoal::replication::impl {
namespace {

constexpr std::uint32_t kFirstChunks = 4;     // 1 MiB; memory that is not used yet takes no pages
constexpr std::uint32_t kMaxChunks = 256;     // most chunks in one allocation: 64 MiB
constexpr std::uint32_t kAllChunks = 0x8000;  // 8 GiB: a block's number has 31 bits
constexpr std::uint32_t kFirstCapacity = 2;   // versions
constexpr std::size_t kStoredWords = 3;       // size of a version in a ring

/// Blocks of a class have the same size: up to 8 words exactly as many as asked for, then four sizes between
/// two powers of two, so that at most a fifth is not used.
struct SizeClass {
    std::size_t index, words;
};
SizeClass size_class(std::size_t words) {
    words = std::max<std::size_t>(words, 1);
    if (words <= 8) return {words - 1, words};
    const unsigned shift = static_cast<unsigned>(std::bit_width(words - 1)) - 3;
    const std::size_t quarter = ((words - 1) >> shift) + 1;  // 5 to 8
    return {8 + (shift - 1) * 4 + (quarter - 5), quarter << shift};
}

}  // namespace

// Blocks

std::uint32_t VersionPool::allocate(std::size_t count) {
    const SizeClass size = size_class(count);
    assert(size.index < kClasses);
    words_in_use_ += size.words;
    std::uint32_t& first = free_[size.index];
    if (first != 0) {
        const std::uint32_t block = first - 1;
        first = *words(block);
        return block;
    }
    if (size.words > chunk_left_) grow(size.words);
    const std::uint32_t used = kChunkWords - chunk_left_;
    const std::uint32_t block = chunk_ << 16 | used;
    chunk_left_ -= static_cast<std::uint32_t>(std::min<std::size_t>(size.words, chunk_left_));
    return block;
}

/// Begins a chunk with room for a block of `count` words. Blocks larger than a chunk take several.
void VersionPool::grow(std::size_t count) {
    const std::uint32_t needed = static_cast<std::uint32_t>((count + kChunkWords - 1) / kChunkWords);
    if (next_chunk_ + needed > chunks_.size()) {
        const std::uint32_t size = static_cast<std::uint32_t>(chunks_.size());
        const std::uint32_t step = std::clamp(3 * size, kFirstChunks, kMaxChunks);
        const std::uint32_t added = std::max(needed, std::min(step, kAllChunks - size));
        const std::size_t bytes = std::size_t{added} * kChunkWords * sizeof(std::uint32_t);
        next_chunk_ = static_cast<std::uint32_t>(chunks_.size());  // large blocks must be in one piece
        assert(next_chunk_ + added <= kAllChunks);
        chunks_.reserve(chunks_.size() + added);
        memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
        for (std::uint32_t i = 0; i < added; ++i)
            chunks_.push_back(reinterpret_cast<std::uint32_t*>(memory_.back().get()) +
                              std::size_t{i} * kChunkWords);
    }
    chunk_ = next_chunk_;
    next_chunk_ += needed;
    chunk_left_ = kChunkWords;
}

void VersionPool::free(std::uint32_t block, std::size_t count) {
    const SizeClass size = size_class(count);
    assert(words_in_use_ >= size.words);
    words_in_use_ -= size.words;
    *words(block) = free_[size.index];
    free_[size.index] = block + 1;
}

// Versions in blocks

void VersionPool::give_index(const Shape& shape) {
    if (free_shapes_.empty()) {
        free_shapes_.push_back(static_cast<std::uint32_t>(shapes_.size()));
        shapes_.push_back(nullptr);
    }
    shape.pool_index = free_shapes_.back();
    free_shapes_.pop_back();
    assert(shape.pool_index < ShapeTable::kMaxShapes);
    shapes_[shape.pool_index] = &shape;
}

VersionPool::Stored VersionPool::store(const Version& version) {
    const Image& image = version.image;
    const std::size_t count = image.words.size();
    const bool has_size = count != (image.shape ? image.shape->lane_words : 0);
    if (image.shape && image.shape->versions++ == 0) give_index(*image.shape);
    const std::uint32_t shape = image.shape ? image.shape->pool_index : 0;
    Stored stored{version.tick, shape & 0x7fffff, version.viewers.bits & 0x1ffu, allocate(count + has_size)};
    std::uint32_t* to = words(stored.block);
    if (has_size) *to++ = static_cast<std::uint32_t>(count);
    std::copy(image.words.begin(), image.words.end(), to);
    if (has_size) stored.block |= kHasSize;
    ++in_use_;
    return stored;
}

void VersionPool::release(const Stored& stored) {
    const bool has_size = (stored.block & kHasSize) != 0;
    free(stored.block & ~kHasSize, load(stored).image.words.size() + has_size);
    --in_use_;
    const Shape* const shape = shapes_[stored.shape];
    if (!shape || --shape->versions != 0) return;
    shapes_[stored.shape] = nullptr;
    free_shapes_.push_back(stored.shape);
}

// Histories

void History::push(const Version& version, VersionPool& pool) {
    assert(empty() || is_newer(version.tick, stored(count_ - 1).tick));
    insert(version, pool);
}

void History::insert(const Version& version, VersionPool& pool) {
    assert(!pool_ || pool_ == &pool);
    const std::uint32_t index = count_until(version.tick);
    if (index > 0 && stored(index - 1).tick == version.tick) return;
    // The image may be one of this pool, whose memory does not move.
    const VersionPool::Stored added = pool.store(version);
    if (count_ == capacity_) grow(pool);
    for (std::uint32_t i = count_; i > index; --i) stored(i) = stored(i - 1);
    stored(index) = added;
    count_ += 1;
}

void History::grow(VersionPool& pool) {
    pool_ = &pool;
    const std::uint32_t capacity = std::max(kFirstCapacity, capacity_ * 2);
    const std::uint32_t block = pool.allocate(capacity * kStoredWords);
    VersionPool::Stored* const ring = reinterpret_cast<VersionPool::Stored*>(pool.words(block));
    for (std::uint32_t i = 0; i < count_; ++i) ring[i] = stored(i);
    if (capacity_ != 0) pool.free(block_, capacity_ * kStoredWords);
    ring_ = ring;
    block_ = block;
    capacity_ = capacity;
    first_ = 0;
}

void History::drop_replaced(Tick tick, Tick kept) {
    // Usually everyone sees the next version.
    const auto is_replaced = [&] {
        return !is_newer(stored(1).tick, tick) && stored(1).viewers == to_everyone().bits &&
               stored(0).tick != kept;
    };
    while (count_ > 1 && is_replaced()) {
        pool_->release(stored(0));
        first_ += 1;
        count_ -= 1;
    }
    if (count_ < 2 || is_newer(stored(1).tick, tick)) return;
    std::uint32_t until = 2;  // versions that are not newer than `tick`
    while (until < count_ && !is_newer(stored(until).tick, tick)) ++until;
    std::uint32_t first = until;  // the versions that stay move up to here
    std::uint32_t replaced = 0;   // view classes
    for (std::uint32_t index = until; index-- > 0;) {
        const VersionPool::Stored version = stored(index);
        if ((version.viewers & ~replaced) == 0 && version.tick != kept) {
            pool_->release(version);
            continue;
        }
        replaced |= version.viewers;
        stored(--first) = version;
    }
    first_ += first;
    count_ -= first;
}

void History::clear() {
    for (std::uint32_t i = 0; i < count_; ++i) pool_->release(stored(i));
    if (capacity_ != 0) pool_->free(block_, capacity_ * kStoredWords);
    *this = {};
}

}  // namespace shoal::replication::impl
