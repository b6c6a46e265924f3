#pragma once
// Write access to one value, which records whether the value was accessed for writing.

#include <cstdint>
#include <utility>

namespace shoal::ecs::impl {

/// Access as non-const counts as a write; read() does not. Cannot be copied or moved. If it was passed to a
/// callback, it must not outlive the callback.
template <class T>
class Mut {
public:
    /// A write sets `bit` in `word`.
    Mut(T* value, std::uint64_t& word, std::uint64_t bit) : value_(value), word_(word), bit_(bit) {}
    Mut(const Mut&) = delete;
    Mut& operator=(const Mut&) = delete;

    const T& read() const { return *value_; }
    const T& operator*() const { return *value_; }
    const T* operator->() const { return value_; }

    T& operator*() { return write(); }
    T* operator->() { return &write(); }
    Mut& operator=(T value) {
        write() = std::move(value);
        return *this;
    }

protected:
    bool has_value() const { return value_ != nullptr; }

private:
    T& write() {
        word_ |= bit_;
        return *value_;
    }

    T* value_;
    std::uint64_t& word_;
    std::uint64_t bit_;
};

}  // namespace shoal::ecs::impl
