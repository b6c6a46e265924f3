#include "large_payload.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace shoal::net {
namespace {

// However many messages wait, an allowed payload does not run out of fragments.
static_assert(kMaxFragments * kMinPayloadBytes >= kMaxLargePayloadBytes);

std::ptrdiff_t offset(std::size_t bytes) {
    return static_cast<std::ptrdiff_t>(bytes);
}

}  // namespace

void OutgoingPayload::start(std::span<const std::byte> payload, std::uint64_t number) {
    assert(!is_leaving());
    assert(payload.size() > kMaxPayloadBytes && payload.size() <= kMaxLargePayloadBytes);
    bytes_.assign(payload.begin(), payload.end());
    left_ = 0;
    next_index_ = 0;
    open_.push_back({number, 0});
}

bool OutgoingPayload::can_continue(std::uint64_t packet_number) const {
    return is_leaving() && packet_number - open_.back().number <= kMaxFragmentDistance;
}

OutgoingPayload::Piece OutgoingPayload::take(std::uint64_t packet_number, std::size_t room) {
    assert(can_continue(packet_number));
    assert(room >= kMinPayloadBytes && room <= kMaxPayloadBytes);
    Open& payload = open_.back();
    const std::size_t size = std::min(room, bytes_.size() - left_);
    Piece piece;
    piece.fragment.distance = static_cast<std::uint16_t>(packet_number - payload.number);
    piece.fragment.index = next_index_;
    piece.fragment.is_last = left_ + size == bytes_.size();
    piece.bytes = std::span(bytes_).subspan(left_, size);
    left_ += size;
    next_index_ += 1;
    payload.fragments += 1;
    return piece;
}

std::optional<PacketFate> OutgoingPayload::settle(std::uint64_t payload_number, bool delivered,
                                                  Duration rtt) {
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&](const Open& open) { return open.number == payload_number; });
    if (found == open_.end()) return std::nullopt;
    const auto index = static_cast<std::size_t>(found - open_.begin());
    if (!delivered) return close(index, false, Duration(0));
    assert(found->fragments > 0);
    found->fragments -= 1;
    const bool has_left = !is_leaving() || index + 1 < open_.size();
    if (found->fragments > 0 || !has_left) return std::nullopt;
    return close(index, true, rtt);
}

std::optional<PacketFate> OutgoingPayload::update(std::uint64_t next_packet_number) {
    if (!is_leaving() || can_continue(next_packet_number)) return std::nullopt;
    return close(open_.size() - 1, false, Duration(0));
}

std::optional<PacketFate> OutgoingPayload::lose() {
    if (open_.empty()) return std::nullopt;
    return close(0, false, Duration(0));
}

/// What has not left yet would be in vain.
PacketFate OutgoingPayload::close(std::size_t index, bool delivered, Duration rtt) {
    const Open payload = open_[index];
    if (index + 1 == open_.size()) left_ = bytes_.size();
    open_.erase(open_.begin() + offset(index));
    return {payload.number, delivered, rtt};
}

bool IncomingPayload::plausible(const Packet& packet, std::uint64_t first_packet_number) const {
    assert(packet.is_fragment);
    const Fragment& fragment = packet.fragment;
    if (fragment.distance > packet.number - first_packet_number) return false;
    const std::uint64_t number = packet.number - fragment.distance;
    if (!is_open_ || number != number_) return true;
    if (sizes_[fragment.index] != 0) return false;
    if (count_ != 0 && (fragment.is_last || fragment.index >= count_)) return false;
    if (fragment.is_last && fragment.index < end_) return false;
    return bytes_.size() + packet.payload.size() <= kMaxLargePayloadBytes;
}

IncomingPayload::Arrival IncomingPayload::arrive(const Packet& packet, ConnectionStats& stats) {
    const Fragment& fragment = packet.fragment;
    const std::uint64_t number = packet.number - fragment.distance;
    if (number < number_ || (number == number_ && !is_open_)) {
        stats.fragments_outdated += 1;
        return Arrival::outdated;
    }
    if (number > number_) {
        if (is_open_) stats.payloads_superseded += 1;
        finish();
        number_ = number;
        is_open_ = true;
    }
    assert(sizes_[fragment.index] == 0 && !packet.payload.empty());
    const std::size_t before =
        std::accumulate(sizes_.begin(), sizes_.begin() + fragment.index, std::size_t(0));
    bytes_.insert(bytes_.begin() + offset(before), packet.payload.begin(), packet.payload.end());
    sizes_[fragment.index] = static_cast<std::uint16_t>(packet.payload.size());
    arrived_ += 1;
    end_ = std::max(end_, static_cast<std::uint8_t>(fragment.index + 1));
    if (fragment.is_last) count_ = end_;
    return arrived_ == count_ ? Arrival::complete : Arrival::kept;
}

void IncomingPayload::finish() {
    is_open_ = false;
    arrived_ = end_ = count_ = 0;
    sizes_.assign(kMaxFragments, 0);
    bytes_.clear();
}

}  // namespace shoal::net
