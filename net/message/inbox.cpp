#include "inbox.h"

namespace shoal::net::impl {
namespace {

// Number of packets in newest_ids_; a power of two. expected_id() looks at most 65 packet numbers back.
constexpr std::uint64_t kRememberedPackets = 128;
constexpr std::size_t kMaxLeap = 256;
constexpr std::size_t kMaxWaitingBytes = kReliableWindowBytes + kMaxReliableBytes;
// How many small messages, and how many parities of missing messages, small_ keeps. Few are enough: a sender
// sends a parity soon after its two messages.
constexpr std::size_t kRecentMessages = 32, kRecentParities = 8;

}  // namespace

// Returns one more than the highest id in packets with lower numbers: a late packet is read as if in order.
std::uint64_t Inbox::expected_id(std::uint64_t packet_number) const {
    if (packet_number > newest_packet_) return newest_id_ + 1;
    assert(newest_packet_ - packet_number <= 64);
    return newest_ids_[(packet_number - 1) % kRememberedPackets] + 1;
}

void Inbox::note_id(std::uint64_t packet_number, std::uint64_t id) {
    if (newest_ids_.empty()) newest_ids_.assign(kRememberedPackets, newest_id_);
    const auto newest_in = [&](std::uint64_t number) -> std::uint64_t& {
        return newest_ids_[number % kRememberedPackets];
    };
    const std::uint64_t remembered = packet_number - std::min(packet_number, kRememberedPackets);
    for (newest_packet_ = std::max(newest_packet_, remembered); newest_packet_ < packet_number;)
        newest_in(++newest_packet_) = newest_id_;
    for (std::uint64_t number = packet_number; number <= newest_packet_ && newest_in(number) < id; ++number)
        newest_in(number) = id;
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
    return bytes <= kMaxWaitingBytes;
}

bool Inbox::has_room(const Packet& packet) const {
    const std::size_t slots = std::max(kMaxLeap, 2 * slots_.capacity());
    const std::span<const Frame> frames = std::span(packet.frames).first(packet.message_count);
    return std::ranges::all_of(frames, [&](const Frame& frame) {
        return frame.channel != Channel::reliable || frame.is_parity || state(frame.id) != State::missing ||
               frame.id - base_ < slots;
    });
}

Inbox::Arrival Inbox::arrive(const Packet& packet, const Frame& frame) {
    if (frame.channel == Channel::unreliable) return Arrival::now;
    if (frame.channel == Channel::sequenced) {
        if (sequenced_.empty()) sequenced_.resize(kSequencedKeys);
        std::uint64_t& newest = sequenced_[frame.key];
        if (packet.number < newest) return Arrival::outdated;
        newest = packet.number;
        return Arrival::now;
    }
    const std::span<const std::byte> bytes = packet.bytes(frame);
    if (frame.is_parity) return arrive_parity(frame, bytes);
    note_id(packet.number, frame.id);
    if (state(frame.id) != State::missing) return Arrival::known;
    const bool waits = must_wait(frame.id, frame.distance);
    if (waits) wait(frame.id, frame.distance, bytes, frame.goes_on);
    const Arrival arrival = waits ? Arrival::kept : deliver(frame.id, bytes, frame.goes_on);
    if (!frame.goes_on) remember(frame.id, bytes);
    return arrival;
}

Inbox::Arrival Inbox::arrive_parity(const Frame& frame, std::span<const std::byte> bytes) {
    small_.resize(kRecentMessages + kRecentParities);
    Small parity{frame.id, frame.size, {}};
    std::copy(bytes.begin(), bytes.end(), parity.bytes.begin());
    if (recover(parity)) return Arrival::kept;
    if (state(frame.id) != State::missing || state(frame.id - 1) != State::missing) return Arrival::known;
    small_[kRecentMessages + next_parity_] = parity;
    next_parity_ = (next_parity_ + 1) % kRecentParities;
    return Arrival::kept;
}

/// Keeps the bytes of a message for parities, and uses parities that wait for it.
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
        recover(found);  // calls remember() for the recovered message
    }
}

/// A parity is the XOR of the messages parity.id and parity.id - 1. If one of them is missing and small_ has
/// the other, computes the missing message and keeps it until it can be delivered. Returns whether it did so.
bool Inbox::recover(const Small& parity) {
    const bool is_first_missing = state(parity.id) == State::missing;
    const std::uint64_t missing = is_first_missing ? parity.id : parity.id - 1;
    const std::uint64_t known = is_first_missing ? parity.id - 1 : parity.id;
    const Small& other = small_[known % kRecentMessages];
    if (state(missing) != State::missing || other.id != known || other.size != parity.size ||
        missing - base_ >= kReliableWindow || waiting_bytes_ + parity.size > kMaxWaitingBytes)
        return false;
    std::array<std::byte, kMaxRepeatedBytes> buffer;
    const std::span<std::byte> bytes = std::span(buffer).first(parity.size);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = parity.bytes[i] ^ other.bytes[i];
    wait(missing, 1, bytes, false);
    remember(missing, bytes);
    return true;
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

/// Delivers a message that need not wait. The pieces of a long message are kept until its last piece comes.
/// An erroneous sender's piece counts as the last one if the message would exceed kMaxReliableBytes, or the
/// next id was delivered before.
Inbox::Arrival Inbox::deliver(std::uint64_t id, std::span<const std::byte> bytes, bool goes_on) {
    if (slots_.empty() && id == base_ && !goes_on) {
        base_ += 1;
        return Arrival::now;
    }
    slot(id).state = State::delivered;
    const Slot now = slot(id);
    for (std::uint32_t i = now.waiters; i != kNone;)
        i = std::exchange(waiting_[i].next, std::exchange(ready_, i));
    for (; state(base_) == State::delivered; ++base_) slots_.pop();
    const std::size_t size = bytes.size() + (now.pieces == kNone ? 0 : waiting_[now.pieces].message);
    if (goes_on && size + kMaxMessageBytes <= kMaxReliableBytes && state(id + 1) != State::delivered) {
        const std::uint32_t index = keep(id, bytes, true);
        waiting_[index].message = static_cast<std::uint32_t>(size);
        waiting_[index].next = now.pieces;
        slot(id + 1).pieces = index;
        return Arrival::kept;
    }
    if (now.pieces == kNone) return Arrival::now;
    whole_.resize(size);
    std::size_t at = size - bytes.size();
    std::copy(bytes.begin(), bytes.end(), whole_.begin() + std::ptrdiff_t(at));
    for (std::uint32_t index = now.pieces; index != kNone;) {
        const Waiting piece = waiting_[index];
        at -= piece.size;
        store_.read(piece.bytes, std::span(whole_).subspan(at, piece.size));
        release(std::exchange(index, piece.next));
    }
    return Arrival::whole;
}

Inbox::State Inbox::state(std::uint64_t id) const {
    if (id < base_) return State::delivered;
    if (id - base_ >= slots_.size()) return State::missing;
    return slots_[static_cast<std::size_t>(id - base_)].state;
}

Inbox::Slot& Inbox::slot(std::uint64_t id) {
    assert(id >= base_ && id - base_ < kReliableWindow);
    while (id - base_ >= slots_.size()) slots_.push({});
    return slots_[static_cast<std::size_t>(id - base_)];
}

/// Returns whether message `id` must wait until message id - distance is delivered. With distance 0 it need
/// not wait. Ids below base_ count as delivered, also those below the first id of the connection.
bool Inbox::must_wait(std::uint64_t id, std::uint16_t distance) const {
    return distance > 0 && distance <= id - base_ && state(id - distance) != State::delivered;
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

/// Keeps the message until its predecessor is delivered, or, if it need not wait, until take_ready().
void Inbox::wait(std::uint64_t id, std::uint16_t distance, std::span<const std::byte> bytes, bool goes_on) {
    const std::uint32_t index = keep(id, bytes, goes_on);
    slot(id).state = State::waiting;
    std::uint32_t& list = must_wait(id, distance) ? slot(id - distance).waiters : ready_;
    waiting_[index].next = std::exchange(list, index);
}

}  // namespace shoal::net::impl
