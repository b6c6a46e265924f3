#pragma once
// Items in one vector, named by index: linked lists without pointers; no allocations once grown.

#include <cassert>
#include <cstdint>
#include <vector>

namespace shoal::net {

/// No item; also the end of a list.
constexpr std::uint32_t kNoIndex = 0xFFFF'FFFF;

/// T has a member std::uint32_t `next`: the user owns it while the item is in use, the pool while it is free.
/// References are valid until the next take(), indices until release(). Never shrinks.
template <class T>
class IndexPool {
public:
    /// Returns the item that was released last, unchanged, or a new T; its `next` is kNoIndex.
    [[nodiscard]] std::uint32_t take() {
        const std::uint32_t index = free_ == kNoIndex ? size() : free_;
        if (index == size()) items_.emplace_back().next = kNoIndex;
        free_ = items_[index].next;
        items_[index].next = kNoIndex;
        used_ += 1;
        return index;
    }
    void release(std::uint32_t index) {
        assert(index < size() && index != free_);
        items_[index].next = free_;
        free_ = index;
        used_ -= 1;
    }

    T& operator[](std::uint32_t index) { return items_[index]; }
    const T& operator[](std::uint32_t index) const { return items_[index]; }

    /// Items taken and not released.
    std::uint32_t used() const { return used_; }
    /// Every index is below this number.
    std::uint32_t size() const { return static_cast<std::uint32_t>(items_.size()); }

    /// For tests: each item is either in use or in the list of free items.
    bool is_consistent() const {
        std::uint32_t free = 0;
        for (std::uint32_t i = free_; i != kNoIndex; i = items_[i].next)
            if (i >= size() || ++free > size()) return false;
        return used_ + free == size();
    }

private:
    std::vector<T> items_;
    std::uint32_t free_ = kNoIndex;
    std::uint32_t used_ = 0;
};

}  // namespace shoal::net
