#include "channel.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace shoal::net {

bool MessageQueue::push(std::span<const std::byte> message) {
    if ((entries_.size() + 1) * kEntryBytes + bytes_.size() + message.size() > max_bytes_) return false;
    entries_.push({popped_bytes_ + bytes_.size(), static_cast<std::uint32_t>(message.size())});
    bytes_.push(message);
    return true;
}

std::span<const std::byte> MessageQueue::operator[](std::size_t index) const {
    const Entry& entry = entries_[index];
    return bytes_.view(static_cast<std::size_t>(entry.position - popped_bytes_), entry.size);
}

void MessageQueue::pop() {
    const std::size_t size = entries_[0].size;
    entries_.pop();
    bytes_.pop(size);
    popped_bytes_ += size;
}

bool ReliableSender::push(std::span<const std::byte> message) {
    if (!queue_.push(message)) return false;
    entries_.push(Entry{});
    pending_ += 1;
    return true;
}

std::size_t ReliableSender::window() const {
    return std::min<std::size_t>(entries_.size(), kReliableWindow);
}

std::optional<std::size_t> ReliableSender::next_pending(std::size_t index, bool beside_payload) const {
    if (pending_ == 0) return std::nullopt;
    for (; index < window(); ++index) {
        const Entry& entry = entries_[index];
        if (entry.packet == 0 && !entry.delivered && !(beside_payload && entry.losses >= 2)) return index;
    }
    return std::nullopt;
}

bool ReliableSender::sent(std::size_t index, std::uint64_t packet_number) {
    Entry& entry = entries_[index];
    assert(entry.packet == 0 && !entry.delivered);
    assert(index < kReliableWindow);
    const bool repeated = entry.sent;
    entry.packet = packet_number;
    entry.sent = true;
    pending_ -= 1;
    return repeated;
}

void ReliableSender::delivered(std::uint64_t packet_number) {
    for (std::size_t index = 0; index < window(); ++index) {
        Entry& entry = entries_[index];
        if (entry.packet != packet_number) continue;
        entry.packet = 0;
        entry.delivered = true;
    }
    while (!entries_.empty() && entries_[0].delivered) {
        entries_.pop();
        queue_.pop();
        first_id_ += 1;
    }
}

void ReliableSender::lost(std::uint64_t packet_number) {
    for (std::size_t index = 0; index < window(); ++index) {
        Entry& entry = entries_[index];
        if (entry.packet != packet_number) continue;
        entry.packet = 0;
        if (entry.losses < 255) entry.losses += 1;
        pending_ += 1;
    }
}

bool ReliableReceiver::plausible(std::uint16_t id) const {
    return static_cast<std::int16_t>(id - next_) < kReliableWindow;
}

ReliableReceiver::Arrival ReliableReceiver::arrive(std::uint16_t id, std::span<const std::byte> message) {
    assert(plausible(id));
    const std::int16_t ahead = static_cast<std::int16_t>(id - next_);
    if (ahead < 0) return Arrival::duplicate;
    if (ahead == 0) {
        next_ += 1;
        return Arrival::now;
    }
    if (slots_.empty()) slots_.resize(kReliableWindow);
    Slot& slot = slots_[id % kReliableWindow];
    if (slot.filled) return Arrival::duplicate;
    if (!spare_.empty()) {
        slot.bytes = std::move(spare_.back());
        spare_.pop_back();
    }
    slot.bytes.assign(message.begin(), message.end());
    slot.filled = true;
    return Arrival::later;
}

std::optional<std::span<const std::byte>> ReliableReceiver::take_next() {
    if (slots_.empty()) return std::nullopt;
    Slot& slot = slots_[next_ % kReliableWindow];
    if (!slot.filled) return std::nullopt;
    slot.filled = false;
    next_ += 1;
    if (taken_.capacity() > 0) spare_.push_back(std::move(taken_));
    taken_ = std::move(slot.bytes);
    return std::span<const std::byte>(taken_);
}

}  // namespace shoal::net
