#pragma once
// A pool of items in one vector, for linked lists by index. It allocates only when it grows.

#include <cassert>
#include <cstdint>
#include <vector>

namespace shoal::net::impl {

/// The index of no item; also marks the end of a list.
constexpr std::uint32_t kNoIndex = 0xFFFF'FFFF;

/// T must have a member `std::uint32_t next`. This member belongs to the user while the item is taken, and to
/// the pool while the item is free. A reference to an item is valid until the next take(), an index until its
/// release(). A pool never shrinks.
template <class T>
class IndexPool {
public:
    /// Returns the index of the item that was released last, or of a new T if no item is free. Sets its
    /// `next` to kNoIndex, and leaves the rest of the item unchanged.
    [[nodiscard]] std::uint32_t take() {
        const std::uint32_t index = free_ == kNoIndex ? size() : free_;
        if (items_.size() == items_.capacity() && index == size())
            items_.reserve(items_.size() + items_.size() / 4 + 8);  // never much more than is used
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

    /// Number of items that are taken.
    std::uint32_t used() const { return used_; }
    /// Every index is below this number.
    std::uint32_t size() const { return static_cast<std::uint32_t>(items_.size()); }

private:
    friend struct Consistency;  // tests/net/support/consistency.h
    std::vector<T> items_;
    std::uint32_t free_ = kNoIndex;
    std::uint32_t used_ = 0;
};

}  // namespace shoal::net::impl
