#pragma once
// A queue of plain values in one vector: contiguous, and free of allocations once it has grown.

#include <cassert>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace shoal::net {

/// Pointers and indices into it hold until the next push or pop.
template <class T>
class Fifo {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    bool empty() const { return head_ == items_.size(); }
    std::size_t size() const { return items_.size() - head_; }
    T& operator[](std::size_t index) {
        assert(index < size());
        return items_[head_ + index];
    }
    const T& operator[](std::size_t index) const {
        assert(index < size());
        return items_[head_ + index];
    }
    std::span<const T> view(std::size_t index, std::size_t count) const {
        assert(index + count <= size());
        return std::span<const T>(items_).subspan(head_ + index, count);
    }

    void push(const T& item) { push(std::span<const T>(&item, 1)); }
    void push(std::span<const T> items) {
        // Reuse popped room before growing; moving at most half of the vector keeps this linear.
        if (items_.size() + items.size() > items_.capacity() && head_ >= items_.size() - head_) compact();
        items_.insert(items_.end(), items.begin(), items.end());
    }
    void pop(std::size_t count = 1) {
        assert(count <= size());
        head_ += count;
        if (empty()) clear();
    }
    void clear() {
        items_.clear();
        head_ = 0;
    }
    void reserve(std::size_t count) { items_.reserve(count); }

private:
    void compact() {
        items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
        head_ = 0;
    }

    std::vector<T> items_;
    std::size_t head_ = 0;
};

}  // namespace shoal::net
