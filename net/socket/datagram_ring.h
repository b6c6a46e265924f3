#pragma once
// A bounded queue of datagrams from one thread to one other, without locks: each side owns one counter.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../endpoint.h"

namespace shoal::net {

/// One thread writes and another one reads; all memory is made at creation.
class DatagramRing {
public:
    struct Slot {
        Address peer;
        Time time{0};
        std::uint16_t size = 0;
        std::array<std::byte, kMaxDatagramBytes + 1> bytes;  // one more, so that what is too long shows
        std::span<const std::byte> datagram() const { return std::span(bytes).first(size); }
    };

    /// Rounds up to a power of two.
    explicit DatagramRing(std::size_t min_capacity)
        : slots_(std::bit_ceil(std::max<std::size_t>(min_capacity, 1))) {}
    std::size_t capacity() const { return slots_.size(); }

    /// Writer: the slot to fill, which commit() then hands over. Null: the ring is full.
    Slot* writable() {
        const std::size_t at = written_.load(std::memory_order_relaxed);
        const bool is_full = at - read_.load(std::memory_order_acquire) == slots_.size();
        return is_full ? nullptr : &slots_[at & (slots_.size() - 1)];
    }
    void commit() { written_.fetch_add(1, std::memory_order_release); }

    /// Reader: the oldest slot, until release() gives it back. Null: there is none.
    Slot* readable() {
        const std::size_t at = read_.load(std::memory_order_relaxed);
        const bool is_empty = at == written_.load(std::memory_order_acquire);
        return is_empty ? nullptr : &slots_[at & (slots_.size() - 1)];
    }
    void release() { read_.fetch_add(1, std::memory_order_release); }

private:
    std::vector<Slot> slots_;
    // Counts of slots since the beginning, modulo 2^64; a cache line each.
    alignas(64) std::atomic<std::size_t> written_{0};
    alignas(64) std::atomic<std::size_t> read_{0};
};

}  // namespace shoal::net
