#include "flight.h"

#include <algorithm>

namespace shoal::replication::impl {
namespace {

constexpr Tick kOlderGap = 2;

}  // namespace

Flight::Flight() {
    packets_.reserve(32);
    anchor_slots_.reserve(kExpectedRecords);
    records_.reserve(kExpectedRecords * 8);
}

void Flight::begin(std::uint64_t number, Tick tick) {
    assert(packets_.empty() || number > packets_[packets_.size() - 1].number);
    packets_.push({number, tick, 0, 0, false, false});
}

void Flight::overtake(std::uint16_t low) {
    assert(!packets_.empty());
    const std::uint64_t oldest = packets_[0].number;
    const std::size_t index = find(oldest + static_cast<std::uint16_t>(low - oldest));
    assert(index < packets_.size() && !packets_[index].settled && packets_[index].newest_count > 0);
    packets_[index].newest_count -= 1;
}

/// Returns the index of packet `number` in packets_; their size if it is not there.
std::size_t Flight::find(std::uint64_t number) const {
    if (packets_.empty() || number < packets_[0].number) return packets_.size();
    // Numbers rise: the index is at most the distance to the oldest, and less if some carried no state.
    const std::uint64_t most = std::min<std::uint64_t>(number - packets_[0].number, packets_.size() - 1);
    std::size_t index = static_cast<std::size_t>(most);
    while (packets_[index].number > number) --index;
    return packets_[index].number == number ? index : packets_.size();
}

/// The older versions are those of a packet at least kOlderGap ticks before the anchor, as far as there is
/// one: the change in one tick predicts less well.
void Flight::set_anchor(const Packet& packet, std::size_t first_record) {
    if (anchor_number_ == 0) {
        delivered_.fill(packet.tick);
        older_tick_ = packet.tick;
    }
    anchor_number_ = packet.number;
    anchor_tick_ = packet.tick;
    std::rotate(delivered_.begin(), delivered_.begin() + 1, delivered_.end());
    delivered_.back() = packet.tick;
    for (const Tick tick : delivered_)
        if (!is_newer(tick, packet.tick - kOlderGap) && is_newer(tick, older_tick_)) older_tick_ = tick;
    anchor_slots_.clear();
    for (std::uint32_t i = 0; i < packet.record_count; ++i)
        if (const SentRecord record = records_[first_record + i]; !record.is_despawn)
            anchor_slots_.push_back(record.slot);
    std::sort(anchor_slots_.begin(), anchor_slots_.end());
}

void Flight::note_fate(Packet& packet, bool delivered, std::size_t first_record) {
    packet.settled = true;
    packet.delivered = delivered;
    if (delivered && packet.number > anchor_number_) set_anchor(packet, first_record);
    if (delivered && packet.number >= marker_first_ && packet.number <= marker_number_) marker_missing_ -= 1;
    while (!packets_.empty() && packets_[0].settled) {
        records_.pop(packets_[0].record_count);
        packets_.pop();
    }
}

std::optional<StateHeader::Anchor> Flight::anchor(std::uint64_t number, Tick tick) const {
    if (anchor_number_ == 0 || number - anchor_number_ > kMaxPacketDistance) return std::nullopt;
    return StateHeader::Anchor{static_cast<std::uint32_t>(number - anchor_number_), tick - anchor_tick_,
                               anchor_tick_ - older_tick_};
}

std::optional<StateHeader::Complete> Flight::marker(std::uint64_t number, Tick quiet) const {
    std::size_t before = packets_.size();
    if (before > 0 && packets_[before - 1].number == number) before -= 1;
    std::size_t oldest = 0;
    while (oldest < before && (packets_[oldest].settled || packets_[oldest].newest_count == 0)) ++oldest;
    const std::uint64_t distance = oldest == before ? 0 : number - packets_[oldest].number;
    const std::size_t with_state = before - oldest;  // packets with state, before `number`
    if (distance > kMaxPacketDistance) return std::nullopt;
    return StateHeader::Complete{static_cast<std::uint32_t>(distance),
                                 static_cast<std::uint32_t>(distance - with_state), quiet};
}

std::optional<StateHeader::Group> Flight::group(std::uint64_t number, std::uint64_t oldest) const {
    const std::uint64_t distance = number - oldest;
    if (distance > kMaxPacketDistance) return std::nullopt;
    std::uint64_t with_state = 0;
    for (std::size_t i = packets_.size(); i-- > 0 && packets_[i].number >= oldest;)
        with_state += packets_[i].number < number;
    return StateHeader::Group{static_cast<std::uint32_t>(distance),
                              static_cast<std::uint32_t>(distance - with_state)};
}

void Flight::send_marker(std::uint64_t number, const StateHeader::Complete& marker) {
    assert(!packets_.empty() && packets_[packets_.size() - 1].number == number);
    marker_number_ = number;
    marker_first_ = number - marker.distance;
    marker_tick_ = packets_[packets_.size() - 1].tick;
    marker_missing_ = marker.distance + 1 - marker.others;
    for (std::size_t i = 0; i < packets_.size(); ++i)
        marker_missing_ -= packets_[i].delivered && packets_[i].number >= marker_first_;
}

bool Flight::is_settled(Tick tick) const {
    for (std::size_t i = 0; i < packets_.size(); ++i)
        if (!packets_[i].settled && packets_[i].newest_count != 0) return false;
    return has_marker(tick) && marker_missing_ == 0;
}

}  // namespace shoal::replication::impl
