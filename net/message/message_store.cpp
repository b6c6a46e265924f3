#include "message_store.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace shoal::net {

std::uint32_t MessageStore::put(std::span<const std::byte> message) {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
    while (!message.empty()) {
        std::uint32_t index = free_;
        if (index == kNone) {
            index = static_cast<std::uint32_t>(blocks_.size());
            blocks_.emplace_back();
        } else {
            free_ = blocks_[index].next;
        }
        Block& block = blocks_[index];
        const std::size_t count = std::min(message.size(), block.bytes.size());
        std::memcpy(block.bytes.data(), message.data(), count);
        block.next = kNone;
        (last == kNone ? first : blocks_[last].next) = index;
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
    if (handle == kNone) return;
    std::uint32_t last = handle;
    while (blocks_[last].next != kNone) last = blocks_[last].next;
    blocks_[last].next = free_;
    free_ = handle;
}

}  // namespace shoal::net
