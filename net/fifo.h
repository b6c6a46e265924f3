#pragma once
// A queue of trivially copyable items, contiguous in one vector. It allocates only when it grows.

#include <cassert>
#include <utility>
#include <vector>

namespace shoal::net::impl {

/// Index 0 is the oldest item. References are valid until the next push or pop, indices until the next pop.
template <class T>
class Fifo {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    bool empty() const { return head_ == items_.size(); }
    std::size_t size() const { return items_.size() - head_; }
    std::size_t capacity() const { return items_.capacity(); }
    T& operator[](std::size_t index) { return const_cast<T&>(std::as_const(*this)[index]); }
    const T& operator[](std::size_t index) const {
        assert(index < size());
        return items_[head_ + index];
    }

    void push(const T& item) {
        // Reuses the room of popped items before the vector grows. At most half of the vector is moved, so a
        // push takes constant time on average.
        if (items_.size() == items_.capacity() && head_ >= size()) {
            items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
            head_ = 0;
        }
        items_.push_back(item);
    }
    /// Adds an item before index 0. Takes constant time on average.
    void push_front(T item) {
        if (head_ == 0) {
            items_.reserve(3 * size() + 16);  // room for push(), too
            items_.insert(items_.begin(), head_ = size() + 8, item);
        }
        items_[--head_] = item;
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
    std::vector<T> items_;
    std::size_t head_ = 0;
};

}  // namespace shoal::net::impl
