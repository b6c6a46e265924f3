#pragma once
// The bytes of waiting messages: in blocks, so that room freed by one serves any other.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "../index_pool.h"

namespace shoal::net {

/// Grows with what is in it and keeps what it has; its owner bounds that. No allocation once grown.
class MessageStore {
public:
    /// Keeps a copy; the handle is kNoIndex for no bytes at all.
    std::uint32_t put(std::span<const std::byte> message) {
        std::uint32_t after = kNoIndex;
        while (!message.empty()) {  // the last block first
            const std::span<const std::byte> last = message.subspan((message.size() - 1) / kBlock * kBlock);
            const std::uint32_t index = blocks_.take();
            std::memcpy(blocks_[index].bytes.data(), last.data(), last.size());
            blocks_[index].next = after;
            after = index;
            message = message.first(message.size() - last.size());
        }
        return after;
    }
    /// The first out.size() bytes, which must be there.
    void read(std::uint32_t handle, std::span<std::byte> out) const {
        for (; !out.empty(); handle = blocks_[handle].next) {
            const std::size_t count = std::min(out.size(), kBlock);
            std::memcpy(out.data(), blocks_[handle].bytes.data(), count);
            out = out.subspan(count);
        }
    }
    void release(std::uint32_t handle) {
        while (handle != kNoIndex) {
            const std::uint32_t next = blocks_[handle].next;
            blocks_.release(handle);
            handle = next;
        }
    }

private:
    static constexpr std::size_t kBlock = 60;  // bytes
    struct Block {
        std::array<std::byte, kBlock> bytes;
        std::uint32_t next;  // of the same message
    };
    IndexPool<Block> blocks_;
};

}  // namespace shoal::net
