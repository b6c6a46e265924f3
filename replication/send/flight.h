#pragma once
// The state packets in flight to one peer, with the records that they carry. Also the anchor and the
// completion markers, which follow from the fates of packets.

#include <array>
#include <cassert>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../../net/fifo.h"
#include "../codec/state_packet.h"
#include "peer_view.h"

namespace shoal::replication::impl {

class Flight {
public:
    Flight();

    bool empty() const { return packets_.empty(); }
    /// Tick of the oldest packet in flight. Requires !empty().
    Tick oldest_tick() const { return packets_[0].tick; }

    /// Begins packet `number`, which must be higher than the last packet number.
    void begin(std::uint64_t number, Tick tick);
    /// Adds a record to the packet that was begun last.
    void add(SentRecord record) {
        assert(!packets_.empty());
        packets_[packets_.size() - 1].record_count += 1;
        packets_[packets_.size() - 1].newest_count += 1;
        records_.push(record);
    }
    /// Notes that a packet does not carry the newest record of one slot any more. `low` is the low 16 bits of
    /// the packet's number. Requires that the packet is in flight.
    void overtake(std::uint16_t low);

    /// Notes the fate of packet `number`. Calls fn(record, tick) for each of its records. Ignores numbers of
    /// packets without state.
    template <class Fn>
    void on_fate(std::uint64_t number, bool delivered, Fn&& fn);

    /// Returns the anchor for packet `number` of `tick`: the newest acknowledged packet. Nothing if there is
    /// none, or if it is more than kMaxPacketDistance numbers back.
    std::optional<StateHeader::Anchor> anchor(std::uint64_t number, Tick tick) const;
    /// The slots with a delta or full record in the anchor's packet, ascending.
    std::span<const std::uint32_t> anchor_slots() const { return anchor_slots_; }

    /// The tick of the newest acknowledged packet; nothing if there is none.
    std::optional<Tick> newest_delivered() const {
        return anchor_number_ == 0 ? std::nullopt : std::optional(anchor_tick_);
    }

    /// Returns a completion marker for packet `number`. Packet X is the oldest packet in flight that carries
    /// the newest record of a slot. The peer is complete once it has all state packets from X to `number`.
    /// Returns nothing if X is more than kMaxPacketDistance numbers back. `quiet`: see StateHeader::Complete.
    std::optional<StateHeader::Complete> marker(std::uint64_t number, Tick quiet) const;
    /// Returns a group marker for packet `number` that names the packets from `oldest` on. Returns nothing if
    /// `oldest` is more than kMaxPacketDistance numbers back.
    std::optional<StateHeader::Group> group(std::uint64_t number, std::uint64_t oldest) const;
    /// Notes that packet `number`, the last one begun, carries this completion marker.
    void send_marker(std::uint64_t number, const StateHeader::Complete& marker);
    /// Returns whether a completion marker for this tick was sent.
    bool has_marker(Tick tick) const { return marker_number_ != 0 && marker_tick_ == tick; }
    /// Returns whether a packet that the last completion marker names was lost, and no state packet is in
    /// flight. A new completion marker then names only its own packet.
    bool needs_marker() const { return packets_.empty() && marker_missing_ != 0; }

    /// Returns whether the peer acknowledged the newest record of each slot, and a marker for this tick with
    /// all packets that it needs.
    bool is_settled(Tick tick) const;

    bool is_consistent() const;  // consistency.cpp

private:
    struct Packet {
        std::uint64_t number;
        Tick tick;
        std::uint32_t record_count;
        std::uint32_t newest_count;  // how many of its records are the newest of their slot
        bool settled;                // the packet was delivered or lost
        bool delivered;
    };

    std::size_t find(std::uint64_t number) const;
    void note_fate(Packet& packet, bool delivered, std::size_t first_record);
    void set_anchor(const Packet& packet, std::size_t first_record);

    net::impl::Fifo<Packet> packets_;      // by number, from the oldest one in flight on
    net::impl::Fifo<SentRecord> records_;  // records of all packets, in the same order
    std::uint64_t anchor_number_ = 0;      // 0: no state packet was acknowledged
    Tick anchor_tick_ = 0;
    std::vector<std::uint32_t> anchor_slots_;
    // Ticks of acknowledged packets, newest last. The tick of the older versions, which never decreases, is
    // one of them.
    std::array<Tick, 8> delivered_{};
    Tick older_tick_ = 0;
    // The newest completion marker. It holds once all state packets from marker_first_ to marker_number_
    // arrived.
    std::uint64_t marker_number_ = 0;  // 0: no marker was sent
    std::uint64_t marker_first_ = 0;
    std::uint64_t marker_missing_ = 0;  // how many of these state packets are not acknowledged
    Tick marker_tick_ = 0;
};

template <class Fn>
void Flight::on_fate(std::uint64_t number, bool delivered, Fn&& fn) {
    const std::size_t index = find(number);
    if (index == packets_.size() || packets_[index].settled) return;
    std::size_t record = 0;
    for (std::size_t i = 0; i < index; ++i) record += packets_[i].record_count;
    for (std::uint32_t i = 0; i < packets_[index].record_count; ++i)
        fn(records_[record + i], packets_[index].tick);
    note_fate(packets_[index], delivered, record);
}

}  // namespace shoal::replication::impl
