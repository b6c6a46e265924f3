#include "large_payload.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace shoal::net::all {

// Even if each fragment has only kMinPayloadBytes, kMaxFragments of them carry the largest payload.
static_assert(kMaxFragments * kMinPayloadBytes >= kMaxLargePayloadBytes);

void OutgoingPayload::start(std::span<const std::byte> payload, std::uint64_t number) {
    assert(!is_open_);
    assert(payload.size() > kMaxPayloadBytes && payload.size() <= kMaxLargePayloadBytes);
    bytes_.assign(payload.begin(), payload.end());
    is_open_ = true;
    number_ = number;
    left_ = 0;
    fragments_.clear();
    unacked_ = 0;
    again_.clear();
}

bool OutgoingPayload::can_continue(std::uint64_t packet_number) const {
    return is_leaving() && packet_number - number_ <= kMaxFragmentDistance;
}

OutgoingPayload::Piece OutgoingPayload::take(std::uint64_t packet_number, std::size_t room) {
    assert(can_continue(packet_number));
    assert(room >= kMinPayloadBytes && room <= kMaxPayloadBytes);
    std::size_t index = fragments_.size();
    if (again_.empty()) {
        const std::size_t size = std::min(room, bytes_.size() - left_);
        fragments_.push_back({static_cast<std::uint32_t>(left_), static_cast<std::uint16_t>(size), 0, false});
        left_ += size;
        unacked_ += 1;
    } else {
        index = again_.front();
        again_.erase(again_.begin());
    }
    Sent& sent = fragments_[index];
    sent.sends += 1;
    Piece piece;
    piece.bytes = std::span(bytes_).subspan(sent.offset, sent.size);
    piece.fragment.distance = static_cast<std::uint16_t>(packet_number - number_);
    piece.fragment.index = static_cast<std::uint8_t>(index);
    piece.fragment.is_last = sent.offset + sent.size == bytes_.size();
    return piece;
}

std::optional<PacketFate> OutgoingPayload::on_fate(std::uint64_t payload_number, std::uint8_t index,
                                                   bool delivered, Duration rtt) {
    if (!is_open_ || payload_number != number_) return std::nullopt;
    Sent& sent = fragments_[index];
    assert(!sent.is_acked);
    if (!delivered) {
        if (sent.sends >= kMaxFragmentSends) return close(false, Duration(0));
        again_.push_back(index);
        return std::nullopt;
    }
    sent.is_acked = true;
    unacked_ -= 1;
    if (unacked_ > 0 || left_ < bytes_.size()) return std::nullopt;
    return close(true, rtt);
}

std::optional<PacketFate> OutgoingPayload::update(std::uint64_t next_packet_number) {
    return !is_leaving() || can_continue(next_packet_number) ? std::nullopt : lose();
}

std::optional<PacketFate> OutgoingPayload::lose() {
    return is_open_ ? std::optional(close(false, Duration(0))) : std::nullopt;
}

/// Ends the payload. Its fragments that wait are not sent any more.
PacketFate OutgoingPayload::close(bool delivered, Duration rtt) {
    is_open_ = false;
    return {number_, delivered, rtt};
}

bool OutgoingPayload::is_consistent() const {
    if (!is_open_) return true;
    std::size_t end = 0, unacked = 0;
    for (const Sent& sent : fragments_) {
        if (sent.offset != end || sent.size == 0 || sent.sends == 0 || sent.sends > kMaxFragmentSends)
            return false;
        end += sent.size;
        unacked += !sent.is_acked;
    }
    for (const std::uint8_t index : again_)
        if (fragments_[index].is_acked || std::count(again_.begin(), again_.end(), index) != 1) return false;
    return end == left_ && left_ <= bytes_.size() && unacked == unacked_ &&
           (unacked_ > 0 || left_ < bytes_.size());
}

bool IncomingPayload::plausible(const Packet& packet, std::uint64_t first_packet_number) const {
    assert(packet.is_fragment);
    const Fragment& fragment = packet.fragment;
    if (fragment.distance > packet.number - first_packet_number) return false;
    if (!is_open_ || packet.number - fragment.distance != number_) return true;
    if (is_known(fragment)) {
        const bool was_last = has_last_ && fragment.index + 1u == sizes_.size();
        return fragment.is_last == was_last && sizes_[fragment.index] == packet.payload.size();
    }
    if (fragment.index >= sizes_.size() ? has_last_ : fragment.is_last) return false;
    return bytes_.size() + packet.payload.size() <= kMaxLargePayloadBytes;
}

IncomingPayload::Arrival IncomingPayload::arrive(const Packet& packet, ConnectionStats& stats) {
    const Fragment& fragment = packet.fragment;
    const std::uint64_t number = packet.number - fragment.distance;
    if (number == number_ && !is_open_ && was_accepted_) return Arrival::kept;
    if (number < number_ || (number == number_ && !is_open_)) {
        stats.fragments_outdated += 1;
        return Arrival::outdated;
    }
    if (number > number_) {
        if (is_open_) stats.payloads_superseded += 1;
        finish(false);
        number_ = number;
        is_open_ = true;
    }
    if (is_known(fragment)) return Arrival::kept;
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

void IncomingPayload::finish(bool is_accepted) {
    is_open_ = has_last_ = false;
    was_accepted_ = is_accepted;
    sizes_.clear();
    bytes_.clear();
}

bool IncomingPayload::is_consistent() const {
    const std::size_t bytes = std::accumulate(sizes_.begin(), sizes_.end(), std::size_t(0));
    const bool is_last_missing = sizes_.empty() || sizes_.back() == 0;
    if (is_open_ == bytes_.empty() || (has_last_ && is_last_missing)) return false;
    return bytes == bytes_.size() && bytes <= kMaxLargePayloadBytes;
}

}  // namespace shoal::net::all
