#pragma once
// The bytes of waiting messages: in blocks, so that room freed by one serves any other.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../index_pool.h"

namespace shoal::net {

/// Grows with what is in it and keeps what it has; its owner bounds that. No allocation once grown.
class MessageStore {
public:
    /// Keeps a copy; the handle is kNoIndex for no bytes at all.
    std::uint32_t put(std::span<const std::byte> message);
    /// The first out.size() bytes, which must be there.
    void read(std::uint32_t handle, std::span<std::byte> out) const;
    void release(std::uint32_t handle);

    std::size_t capacity_bytes() const { return blocks_.capacity_bytes(); }

private:
    struct Block {
        std::array<std::byte, 60> bytes;
        std::uint32_t next;  // of the same message
    };
    IndexPool<Block> blocks_;
};

}  // namespace shoal::net
