#include "message_store.h"

#include <algorithm>
#include <cstring>

namespace shoal::net {

std::uint32_t MessageStore::put(std::span<const std::byte> message) {
    std::uint32_t first = kNoIndex;
    std::uint32_t last = kNoIndex;
    while (!message.empty()) {
        const std::uint32_t index = blocks_.take();
        Block& block = blocks_[index];
        const std::size_t count = std::min(message.size(), block.bytes.size());
        std::memcpy(block.bytes.data(), message.data(), count);
        (last == kNoIndex ? first : blocks_[last].next) = index;
        last = index;
        message = message.subspan(count);
    }
    return first;
}

void MessageStore::read(std::uint32_t handle, std::span<std::byte> out) const {
    while (!out.empty()) {
        const Block& block = blocks_[handle];
        const std::size_t count = std::min(out.size(), block.bytes.size());
        std::memcpy(out.data(), block.bytes.data(), count);
        out = out.subspan(count);
        handle = block.next;
    }
}

void MessageStore::release(std::uint32_t handle) {
    while (handle != kNoIndex) {
        const std::uint32_t next = blocks_[handle].next;
        blocks_.release(handle);
        handle = next;
    }
}

}  // namespace shoal::net
