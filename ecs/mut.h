#pragma once
// Write access to one value that knows whether it was used.

#include <cstdint>
#include <utility>

namespace shoal::ecs {

/// Notes a write the first time the value is reached as non-const; read() never does. Stays where it
/// was made, and must not outlive the callback that it was given to.
template <class T>
class Mut {
public:
    /// Writing sets `bit` in `word`.
    Mut(T& value, std::uint64_t& word, std::uint64_t bit) : value_(value), word_(word), bit_(bit) {}
    Mut(const Mut&) = delete;
    Mut& operator=(const Mut&) = delete;

    const T& read() const { return value_; }
    const T& operator*() const { return value_; }
    const T* operator->() const { return &value_; }

    T& operator*() { return write(); }
    T* operator->() { return &write(); }
    Mut& operator=(T value) {
        write() = std::move(value);
        return *this;
    }

private:
    T& write() {
        word_ |= bit_;
        return value_;
    }

    T& value_;
    std::uint64_t& word_;
    std::uint64_t bit_;
};

}  // namespace shoal::ecs
