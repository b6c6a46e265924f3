#include "large_payload.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace shoal::net {

// Even if each fragment has only kMinPayloadBytes, kMaxFragments of them carry the largest payload.
static_assert(kMaxFragments * kMinPayloadBytes >= kMaxLargePayloadBytes);

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
    const std::span<const std::byte> rest = std::span(bytes_).subspan(left_);
    Piece piece;
    piece.bytes = rest.first(std::min(room, rest.size()));
    piece.fragment.distance = static_cast<std::uint16_t>(packet_number - open_.back().number);
    piece.fragment.index = next_index_++;
    piece.fragment.is_last = piece.bytes.size() == rest.size();
    left_ += piece.bytes.size();
    open_.back().fragments += 1;
    return piece;
}

std::optional<PacketFate> OutgoingPayload::on_fate(std::uint64_t payload_number, bool delivered,
                                                   Duration rtt) {
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&](const Open& open) { return open.number == payload_number; });
    if (found == open_.end()) return std::nullopt;
    if (!delivered) return close(found, false, Duration(0));
    assert(found->fragments > 0);
    found->fragments -= 1;
    if (found->fragments > 0 || (is_leaving() && found + 1 == open_.end())) return std::nullopt;
    return close(found, true, rtt);
}

std::optional<PacketFate> OutgoingPayload::update(std::uint64_t next_packet_number) {
    if (!is_leaving() || can_continue(next_packet_number)) return std::nullopt;
    return close(open_.end() - 1, false, Duration(0));
}

std::optional<PacketFate> OutgoingPayload::lose() {
    if (open_.empty()) return std::nullopt;
    return close(open_.begin(), false, Duration(0));
}

/// Ends a payload. Its fragments that were not sent yet are not sent any more.
PacketFate OutgoingPayload::close(std::vector<Open>::iterator payload, bool delivered, Duration rtt) {
    if (payload + 1 == open_.end()) left_ = bytes_.size();
    const PacketFate fate{payload->number, delivered, rtt};
    open_.erase(payload);
    return fate;
}

bool OutgoingPayload::is_consistent() const {
    for (std::size_t i = 0; i < open_.size(); ++i) {
        const bool may_leave = i + 1 == open_.size() && is_leaving();
        if (open_[i].fragments == 0 && !may_leave) return false;
        if (i > 0 && open_[i].number <= open_[i - 1].number) return false;
    }
    return left_ <= bytes_.size() && (!is_leaving() || !open_.empty());
}

bool IncomingPayload::plausible(const Packet& packet, std::uint64_t first_packet_number) const {
    assert(packet.is_fragment);
    const Fragment& fragment = packet.fragment;
    if (fragment.distance > packet.number - first_packet_number) return false;
    if (!is_open_ || packet.number - fragment.distance != number_) return true;
    if (fragment.index >= sizes_.size() ? has_last_ : fragment.is_last || sizes_[fragment.index] != 0)
        return false;
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
    if (fragment.index >= sizes_.size()) sizes_.resize(fragment.index + 1u);
    assert(sizes_[fragment.index] == 0 && !packet.payload.empty());
    const auto at =
        bytes_.begin() + std::accumulate(sizes_.begin(), sizes_.begin() + fragment.index, std::ptrdiff_t(0));
    bytes_.insert(at, packet.payload.begin(), packet.payload.end());
    sizes_[fragment.index] = static_cast<std::uint16_t>(packet.payload.size());
    has_last_ |= fragment.is_last;
    const bool is_complete = has_last_ && std::find(sizes_.begin(), sizes_.end(), 0) == sizes_.end();
    return is_complete ? Arrival::complete : Arrival::kept;
}

void IncomingPayload::finish() {
    is_open_ = has_last_ = false;
    sizes_.clear();
    bytes_.clear();
}

bool IncomingPayload::is_consistent() const {
    const std::size_t bytes = std::accumulate(sizes_.begin(), sizes_.end(), std::size_t(0));
    const bool is_last_missing = sizes_.empty() || sizes_.back() == 0;
    if (is_open_ == bytes_.empty() || (has_last_ && is_last_missing)) return false;
    return bytes == bytes_.size() && bytes <= kMaxLargePayloadBytes;
}

}  // namespace shoal::net
