#include "inbox.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace shoal::net {
namespace {

constexpr std::size_t kRememberedPackets = 128;  // a power of two over 65, the packets that may still arrive
constexpr std::size_t kKeys = 256;               // of sequenced messages
constexpr std::size_t kFirstSlots = 16;
constexpr std::size_t kMaxLeap = 256;
// Parities name messages of the last few packets.
constexpr std::size_t kRecentMessages = 32, kRecentParities = 8;

}  // namespace

// A packet's sender shortens ids as far as the packets before it allow, so those decide, and not what has
// arrived since: else a late packet could be misread.
std::uint64_t Inbox::expected_id(std::uint64_t packet_number) const {
    if (packet_number > newest_packet_) return newest_id_ + 1;
    assert(newest_packet_ - packet_number <= 64);
    return newest_ids_[(packet_number - 1) % kRememberedPackets] + 1;
}

void Inbox::note_id(std::uint64_t packet_number, std::uint64_t id) {
    if (packet_number >= newest_packet_ && id <= newest_id_) return;
    if (newest_ids_.empty()) newest_ids_.assign(kRememberedPackets, newest_id_);
    if (packet_number > newest_packet_) {
        const std::uint64_t gap = std::min<std::uint64_t>(packet_number - newest_packet_, kRememberedPackets);
        for (std::uint64_t i = 0; i < gap; ++i)
            newest_ids_[(packet_number - i) % kRememberedPackets] = newest_id_;
        newest_packet_ = packet_number;
    }
    for (std::uint64_t number = packet_number; number <= newest_packet_; ++number) {
        std::uint64_t& newest = newest_ids_[number % kRememberedPackets];
        if (newest >= id) break;  // so have all later ones
        newest = id;
    }
    newest_id_ = std::max(newest_id_, id);
}

bool Inbox::plausible(const Packet& packet) const {
    std::size_t bytes = waiting_bytes_;
    for (std::size_t i = 0; i < packet.message_count; ++i) {
        const Frame& frame = packet.frames[i];
        if (frame.channel != Channel::reliable || state(frame.id) != State::missing) continue;
        if (frame.id - base_ + frame.goes_on >= kReliableWindow) return false;
        if (!frame.is_parity) bytes += frame.size;
    }
    return bytes <= kReliableWindowBytes + kMaxReliableBytes;
}

bool Inbox::has_room(const Packet& packet) const {
    std::size_t bytes = waiting_bytes_;
    for (std::size_t i = 0; i < packet.message_count; ++i) {
        const Frame& frame = packet.frames[i];
        if (frame.channel != Channel::reliable || state(frame.id) != State::missing || frame.id == base_ ||
            frame.is_parity)
            continue;
        bytes += frame.size;
        // A slot for each id up to this one: an id alone must not take much memory.
        if (frame.id - base_ >= std::max<std::size_t>(kMaxLeap, 2 * slots_.size())) return false;
    }
    return bytes <= std::max<std::size_t>(max_bytes_, kMaxDatagramBytes);
}

Inbox::Arrival Inbox::arrive(const Packet& packet, const Frame& frame) {
    switch (frame.channel) {
        case Channel::unreliable:
            return Arrival::now;
        case Channel::sequenced: {
            if (sequenced_.empty()) sequenced_.resize(kKeys);
            std::uint64_t& newest = sequenced_[frame.key];
            if (packet.number < newest) return Arrival::outdated;
            newest = packet.number;
            return Arrival::now;
        }
        case Channel::reliable:
            break;
    }
    if (frame.is_parity) return arrive_parity(frame, packet.bytes(frame));
    const Arrival arrival = arrive_reliable(packet.number, frame, packet.bytes(frame));
    if (arrival != Arrival::known && !frame.goes_on) remember(frame.id, packet.bytes(frame));
    return arrival;
}

Inbox::Arrival Inbox::arrive_parity(const Frame& frame, std::span<const std::byte> bytes) {
    small_.resize(kRecentMessages + kRecentParities);
    Small parity{frame.id, frame.size, {}};
    std::copy(bytes.begin(), bytes.end(), parity.bytes.begin());
    if (recover(parity)) return Arrival::kept;
    const bool is_useful = state(frame.id) == State::missing && state(frame.id - 1) == State::missing;
    if (!is_useful) return Arrival::known;
    small_[kRecentMessages + next_parity_] = parity;
    next_parity_ = (next_parity_ + 1) % kRecentParities;
    return Arrival::kept;
}

/// Keeps the bytes of a message for parities, and makes use of those that wait for it.
void Inbox::remember(std::uint64_t id, std::span<const std::byte> bytes) {
    if (small_.empty() || bytes.size() > kMaxRepeatedBytes) return;
    Small& message = small_[id % kRecentMessages];
    message.id = id;
    message.size = static_cast<std::uint16_t>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), message.bytes.begin());
    for (Small& parity : std::span(small_).last(kRecentParities)) {
        if (parity.id != id && parity.id - 1 != id) continue;
        const Small found = parity;
        parity.id = 0;
        recover(found);  // which remembers what it recovered
    }
}

/// If just one of the two messages is missing, computes it. It is handed over like one that waited. Both were
/// sent to be delivered after the id before.
bool Inbox::recover(const Small& parity) {
    const bool is_first_missing = state(parity.id) == State::missing;
    const std::uint64_t missing = is_first_missing ? parity.id : parity.id - 1;
    const std::uint64_t known = is_first_missing ? parity.id - 1 : parity.id;
    const Small& other = small_[known % kRecentMessages];
    if (state(missing) != State::missing || other.id != known || other.size != parity.size ||
        missing - base_ >= kReliableWindow || waiting_bytes_ + parity.size > max_bytes_)
        return false;
    std::array<std::byte, kMaxRepeatedBytes> buffer;
    const std::span<std::byte> bytes = std::span(buffer).first(parity.size);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = parity.bytes[i] ^ other.bytes[i];
    if (missing > base_ && state(missing - 1) != State::delivered) {
        Frame frame{};
        frame.id = missing;
        frame.distance = 1;
        wait(frame, bytes);
    } else {
        slot(missing).state = State::waiting;
        const std::uint32_t index = keep(missing, bytes, false);
        waiting_[index].next = std::exchange(ready_, index);
    }
    remember(missing, bytes);
    return true;
}

Inbox::Arrival Inbox::arrive_reliable(std::uint64_t packet_number, const Frame& frame,
                                      std::span<const std::byte> bytes) {
    note_id(packet_number, frame.id);
    if (state(frame.id) != State::missing) return Arrival::known;
    // All before base_ are delivered, also those that never were.
    const bool is_behind = frame.distance > 0 && frame.distance <= frame.id - base_;
    if (is_behind && state(frame.id - frame.distance) != State::delivered) {
        wait(frame, bytes);
        return Arrival::kept;
    }
    return deliver(frame.id, bytes, frame.goes_on);
}

std::optional<std::span<const std::byte>> Inbox::take_ready(std::span<std::byte, kMaxMessageBytes> buffer) {
    while (ready_ != kNone) {
        const Waiting message = waiting_[ready_];
        const std::span<std::byte> bytes = buffer.first(message.size);
        store_.read(message.bytes, bytes);
        release(std::exchange(ready_, message.next));
        const Arrival arrival = deliver(message.id, bytes, message.goes_on);
        if (arrival == Arrival::now) return bytes;
        if (arrival == Arrival::whole) return whole_;
    }
    return std::nullopt;
}

/// Its turn has come: it is handed over, or put by if its message goes on. No correct sender sends a piece
/// after the next one of its message was delivered, or more than kMaxReliableBytes; if one does, the message
/// ends there.
Inbox::Arrival Inbox::deliver(std::uint64_t id, std::span<const std::byte> bytes, bool goes_on) {
    if (slots_.empty() && !goes_on) {
        delivered(id);
        return Arrival::now;
    }
    const std::uint32_t pieces = slot(id).pieces;
    delivered(id);
    const std::size_t size = bytes.size() + (pieces == kNone ? 0 : waiting_[pieces].message);
    if (goes_on && size + kMaxMessageBytes <= kMaxReliableBytes && state(id + 1) != State::delivered) {
        const std::uint32_t index = keep(id, bytes, true);
        waiting_[index].message = static_cast<std::uint32_t>(size);
        waiting_[index].next = pieces == kNone ? index : std::exchange(waiting_[pieces].next, index);
        slot(id + 1).pieces = index;
        return Arrival::kept;
    }
    if (pieces == kNone) return Arrival::now;
    assemble(pieces, bytes);
    return Arrival::whole;
}

void Inbox::assemble(std::uint32_t pieces, std::span<const std::byte> last) {
    const std::size_t before = waiting_[pieces].message;
    whole_.resize(before + last.size());
    std::size_t at = 0;
    for (std::uint32_t index = waiting_[pieces].next; at < before;) {
        const Waiting piece = waiting_[index];
        store_.read(piece.bytes, std::span(whole_).subspan(at, piece.size));
        release(std::exchange(index, piece.next));
        at += piece.size;
    }
    std::copy(last.begin(), last.end(), whole_.begin() + std::ptrdiff_t(at));
}

Inbox::State Inbox::state(std::uint64_t id) const {
    if (id < base_) return State::delivered;
    return id - base_ < slots_.size() ? slots_[id & (slots_.size() - 1)].state : State::missing;
}

Inbox::Slot& Inbox::slot(std::uint64_t id) {
    assert(id >= base_ && id - base_ < kReliableWindow);
    if (id - base_ >= slots_.size()) {
        std::size_t size = std::max(kFirstSlots, slots_.size() * 2);
        while (id - base_ >= size) size *= 2;
        std::vector<Slot> larger(size);
        for (std::size_t i = 0; i < slots_.size(); ++i)
            larger[(base_ + i) & (size - 1)] = slots_[(base_ + i) & (slots_.size() - 1)];
        slots_ = std::move(larger);
    }
    return slots_[id & (slots_.size() - 1)];
}

std::uint32_t Inbox::keep(std::uint64_t id, std::span<const std::byte> bytes, bool goes_on) {
    const std::uint32_t index = waiting_.take();
    waiting_[index] = {id, store_.put(bytes), kNone, 0, static_cast<std::uint16_t>(bytes.size()), goes_on};
    waiting_bytes_ += static_cast<std::uint32_t>(bytes.size());
    return index;
}

void Inbox::release(std::uint32_t index) {
    Waiting& message = waiting_[index];
    store_.release(message.bytes);
    waiting_bytes_ -= message.size;
    waiting_.release(index);
}

void Inbox::wait(const Frame& frame, std::span<const std::byte> bytes) {
    slot(frame.id).state = State::waiting;
    Slot& before = slot(frame.id - frame.distance);
    const std::uint32_t index = keep(frame.id, bytes, frame.goes_on);
    waiting_[index].next = std::exchange(before.waiters, index);
}

/// Its waiters become ready, and base_ moves past everything delivered.
void Inbox::delivered(std::uint64_t id) {
    if (id == base_ && slots_.empty()) {
        base_ += 1;
        return;
    }
    Slot& now = slot(id);
    now.state = State::delivered;
    if (now.waiters != kNone) {
        std::uint32_t last = now.waiters;
        while (waiting_[last].next != kNone) last = waiting_[last].next;
        waiting_[last].next = ready_;
        ready_ = now.waiters;
        now.waiters = kNone;
    }
    while (state(base_) == State::delivered) {
        slot(base_) = Slot{};
        base_ += 1;
    }
}

}  // namespace shoal::net
