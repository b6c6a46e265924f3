#pragma once
// The bytes of waiting messages, in blocks of one size, so that any message can use the room of another.

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "../index_pool.h"

namespace shoal::net::impl {

/// The memory grows with the messages and never shrinks; freed blocks are used again without an allocation.
/// The owner limits the number of bytes.
class MessageStore {
public:
    /// Keeps a copy and returns its handle: kNoIndex for an empty message.
    std::uint32_t put(std::span<const std::byte> message) {
        std::uint32_t after = kNoIndex;
        while (!message.empty()) {  // fills the last block first, because each names the next
            const std::span<const std::byte> last = message.subspan((message.size() - 1) / kBlock * kBlock);
            const std::uint32_t index = blocks_.take();
            std::memcpy(blocks_[index].bytes.data(), last.data(), last.size());
            blocks_[index].next = after;
            after = index;
            message = message.first(message.size() - last.size());
        }
        return after;
    }
    /// Copies the first out.size() bytes of the message to `out`. Requires a message of at least this size.
    void read(std::uint32_t handle, std::span<std::byte> out) const {
        for (; !out.empty(); handle = blocks_[handle].next) {
            const std::size_t count = (std::min)(out.size(), kBlock);
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
    friend struct Consistency;                 // tests/net/support/consistency.h
    static constexpr std::size_t kBlock = 60;  // bytes per block
    struct Block {
        std::array<std::byte, kBlock> bytes;
        std::uint32_t next;  // next block of the same message
    };
    IndexPool<Block> blocks_;
};

}  // namespace shoal::net::impl
