#include "large_payload.h"

namespace shoal::net::impl {

static_assert(kMaxFragments * kFragmentBytes == kMaxLargePayloadBytes);

void OutgoingPayload::start(std::span<const std::byte> payload, std::uint64_t number) {
    assert(!is_open());
    assert(payload.size() > kMaxPayloadBytes && payload.size() <= kMaxLargePayloadBytes);
    bytes_.assign(payload.begin(), payload.end());
    number_ = number;
    unacked_ = waiting_ = ~Fragments(0) >> (kMaxFragments - (payload.size() - 1) / kFragmentBytes - 1);
    sends_.fill(0);
}

OutgoingPayload::Piece OutgoingPayload::take(std::uint64_t packet_number) {
    assert(can_continue(packet_number));
    const auto index = static_cast<std::uint8_t>(std::countr_zero(waiting_));
    waiting_ &= waiting_ - 1;
    sends_[index] += 1;
    const std::span<const std::byte> rest = std::span(bytes_).subspan(index * kFragmentBytes);
    return {{static_cast<std::uint16_t>(packet_number - number_), index, rest.size() <= kFragmentBytes},
            rest.first(std::min(rest.size(), kFragmentBytes))};
}

std::optional<PacketFate> OutgoingPayload::on_fate(std::uint64_t payload_number, std::uint8_t index,
                                                   bool delivered, Duration rtt) {
    if (!is_open() || payload_number != number_) return std::nullopt;
    const Fragments bit = Fragments(1) << index;
    assert((unacked_ & ~waiting_) & bit);
    if (!delivered && sends_[index] >= kMaxFragmentSends) return lose();
    (delivered ? unacked_ : waiting_) ^= bit;
    return is_open() ? std::nullopt : std::optional(PacketFate{number_, true, rtt});
}

std::optional<PacketFate> OutgoingPayload::update(std::uint64_t next_packet_number) {
    return !is_leaving() || can_continue(next_packet_number) ? std::nullopt : lose();
}

std::optional<PacketFate> OutgoingPayload::lose() {
    waiting_ = 0;
    return std::exchange(unacked_, 0) ? std::optional(PacketFate{number_}) : std::nullopt;
}

bool IncomingPayload::plausible(const Packet& packet, std::uint64_t first_packet_number) const {
    assert(packet.is_fragment);
    const Fragment& fragment = packet.fragment;
    if (fragment.distance > packet.number - first_packet_number) return false;
    if (arrived_ == 0 || packet.number - fragment.distance != number_) return true;
    if (last_ < kMaxFragments ? fragment.index > last_ || fragment.is_last != (fragment.index == last_)
                              : fragment.is_last && arrived_ >> fragment.index != 0)
        return false;
    const bool is_known = arrived_ >> fragment.index & 1;  // then it has the same size
    return !is_known || !fragment.is_last || (bytes_.size() - packet.payload.size()) % kFragmentBytes == 0;
}

IncomingPayload::Arrival IncomingPayload::arrive(const Packet& packet, ConnectionStats& stats) {
    const Fragment& fragment = packet.fragment;
    const std::uint64_t number = packet.number - fragment.distance;
    const bool was_complete = number == number_ && arrived_ == 0;
    if (was_complete && was_accepted_) return Arrival::kept;
    if (number < number_ || was_complete) {
        stats.fragments_outdated += 1;
        return Arrival::outdated;
    }
    if (number > number_) {
        if (arrived_ != 0) stats.payloads_superseded += 1;
        finish(false);
        number_ = number;
    }
    const Fragments bit = Fragments(1) << fragment.index;
    if (arrived_ & bit) return Arrival::kept;
    const std::size_t at = kFragmentBytes * std::size_t(std::popcount(arrived_ & (bit - 1)));
    bytes_.insert(bytes_.begin() + std::ptrdiff_t(at), packet.payload.begin(), packet.payload.end());
    arrived_ |= bit;
    if (fragment.is_last) last_ = fragment.index;
    return std::popcount(arrived_) == int(last_) + 1 ? Arrival::complete : Arrival::kept;
}

void IncomingPayload::finish(bool is_accepted) {
    was_accepted_ = is_accepted;
    arrived_ = 0;
    last_ = kMaxFragments;
    bytes_.clear();
}

}  // namespace shoal::net::impl
