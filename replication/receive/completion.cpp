#include "completion.h"

#include <cassert>

namespace shoal::replication::impl {

void Completion::insert(std::uint64_t number, Tick tick, const std::optional<StateHeader::Complete>& marker,
                        const std::optional<StateHeader::Group>& group) {
    assert(number != 0);
    Packet& packet = packets_[number % kSize];
    if (packet.number < number) packet = {number, tick};
    if (!newest_tick_ || is_newer(tick, *newest_tick_)) newest_tick_ = tick;
    const auto replace = [&](Marker& known, const auto& needed, Tick quiet) {
        assert(needed.distance <= kMaxPacketDistance && needed.others <= needed.distance);
        const std::uint64_t count = std::uint64_t{needed.distance} + 1 - needed.others;
        known = {tick, number - needed.distance, number, count, quiet};
    };
    Marker& known_group = groups_[static_cast<std::size_t>(number % groups_.size())];
    if (group && group->distance < number && known_group.last < number) replace(known_group, *group, 0);
    check_groups();
    if (!marker || marker->distance >= number) return;
    const bool is_newest =
        marker_.last == 0 || is_newer(tick, marker_.tick) || (tick == marker_.tick && number > marker_.last);
    if (is_newest) replace(marker_, *marker, marker->quiet);
}

void Completion::reconnect() {
    packets_ = {};
    groups_ = {};
    marker_ = {};
}

std::optional<Tick> Completion::tick_of(std::uint64_t number) const {
    const Packet& packet = packets_[number % kSize];
    if (number == 0 || packet.number != number) return std::nullopt;
    return packet.tick;
}

std::optional<Completion::Complete> Completion::complete() const {
    if (marker_.last == 0 || newest_tick_ != marker_.tick || !has_all(marker_)) return std::nullopt;
    return Complete{marker_.tick - marker_.quiet, marker_.tick};
}

/// Returns whether all packets that the marker needs have arrived.
bool Completion::has_all(const Marker& marker) const {
    assert(marker.first != 0);  // the number of entries that are not in use
    std::uint64_t found = 0;
    for (std::uint64_t number = marker.first; number <= marker.last; ++number)
        found += packets_[number % kSize].number == number;
    return found == marker.count;
}

void Completion::check_groups() {
    for (Marker& marker : groups_) {
        if (marker.last == 0) continue;
        const bool is_newer_tick = !group_complete_ || is_newer(marker.tick, *group_complete_);
        const bool is_complete = is_newer_tick && has_all(marker);
        if (is_complete) group_complete_ = marker.tick;
        if (is_complete || !is_newer_tick) marker.last = 0;
    }
}

}  // namespace shoal::replication::impl
