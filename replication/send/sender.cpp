#include "sender.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>

#include "../../net/endpoint.h"

namespace shoal::replication {
namespace {

constexpr std::size_t kMinRecordBits = 3;     // the smallest record header: gap and kind
constexpr std::size_t kMaxHeaderBytes = 100;  // more than the headers of a payload with one record
static_assert(kMaxEntityBytes + kMaxHeaderBytes <= net::kMaxLargePayloadBytes);

std::uint32_t ticks_of(double seconds, double tick_hz) {
    return static_cast<std::uint32_t>(std::max(1.0, std::ceil(seconds * tick_hz)));
}

}  // namespace

Sender::Sender(ecs::World& world, const Schema& schema, SenderOptions options)
    : options_(options), shadow_(world, schema, ticks_of(options.history_s, options.tick_hz)) {
    assert(options.tick_hz > 0 && options.history_s > 0 && options.heartbeat_s > 0);
    assert(options.max_history_s >= options.history_s);
    candidates_.reserve(kExpectedRecords);
    by_slot_.reserve(kExpectedRecords);
    memo_.reserve(kExpectedRecords);
}

void Sender::update(Tick tick) {
    assert(!updated_ || is_newer(tick, tick_));
    tick_ = tick;
    updated_ = true;
    shadow_.set_history(history_ticks(tick));
    shadow_.update(tick);
    memo_.clear();
    memo_bits_.clear();
    memo_of_.resize(shadow_.index_count(), kNone);
    for (const auto& peer : peers_)
        if (peer->in_use) update_peer(*peer);
}

/// A peer's acknowledged version must stay until a newer one is acknowledged, also if a packet is lost in
/// between. So versions stay for twice the age of the oldest packet in flight.
std::uint32_t Sender::history_ticks(Tick tick) const {
    std::uint32_t most = ticks_of(options_.history_s, options_.tick_hz);
    for (const auto& peer : peers_)
        if (peer->in_use && !peer->packets.empty())
            most = std::max(most, 2 * std::min(tick - peer->packets[0].tick, Tick{1} << 30));
    return std::min(most, ticks_of(options_.max_history_s, options_.tick_hz));
}

void Sender::update_peer(PeerState& peer) {
    peer.slot_of.resize(shadow_.index_count(), kNone);
    for (const std::uint32_t entry : shadow_.closed()) close_slot(peer, entry);
    if (peer.stats.waiting != 0) give_slots(peer);
    for (const std::uint32_t entry : shadow_.opened()) open_slot(peer, entry);
    for (const std::uint32_t entry : shadow_.changed())
        if (peer.slot_of[entry] != kNone) pend(peer, peer.slot_of[entry]);
}

/// Opens slots for entities that wait, as many as there are. Entities that an update() opens wait behind
/// them.
void Sender::give_slots(PeerState& peer) {
    const std::uint32_t count = shadow_.index_count();
    std::uint32_t looked_at = 0;
    for (; looked_at < count && peer.stats.waiting != 0; ++looked_at) {
        if (peer.stats.slots >= peer.options.max_slots) break;
        const std::uint32_t entry = (peer.next_waiting + looked_at) % count;
        if (!shadow_[entry].entity || peer.slot_of[entry] != kNone) continue;
        if (shadow_[entry].versions.oldest()->tick == tick_) continue;  // opened by this update()
        peer.stats.waiting -= 1;
        open_slot(peer, entry);
    }
    peer.next_waiting = count == 0 ? 0 : (peer.next_waiting + looked_at) % count;
}

// Peers

Sender::Peer Sender::add_peer(const PeerOptions& options) {
    assert(options.max_slots > 0);
    Peer index = 0;
    while (index < peers_.size() && peers_[index]->in_use) ++index;
    if (index == peers_.size()) peers_.push_back(std::make_unique<PeerState>());
    PeerState& peer = *peers_[index];
    peer.in_use = true;
    peer.options = options;
    peer.last_sent = tick_;
    peer.queue.reserve(kExpectedRecords);
    peer.packets.reserve(kMaxPacketDistance + 1);
    peer.records.reserve(kExpectedRecords * 8);
    peer.slot_of.resize(shadow_.index_count(), kNone);
    for (std::uint32_t entry = 0; entry < shadow_.index_count(); ++entry)
        if (shadow_[entry].entity) open_slot(peer, entry);
    return index;
}

void Sender::remove_peer(Peer peer) {
    assert(peers_[peer]->in_use);
    *peers_[peer] = PeerState{};
}

/// Resets the slot like a new one. But `sent` stays set: the peer may have a version of the entity, so when
/// the slot is closed, a despawn record must be sent.
void Sender::rebase(Peer peer_index, std::uint32_t index) {
    PeerState& peer = *peers_[peer_index];
    if (index >= peer.slots.size()) return;
    Slot& slot = peer.slots[index];
    if (slot.entry == kNone) return;           // free, or despawned
    if (slot.sent == slot.opened - 1) return;  // the next record is a full one anyway
    slot.opened = slot.sent = tick_;
    slot.acked = tick_ - 1;
    pend(peer, index);
}

void Sender::request_mark(Peer index) {
    PeerState& peer = *peers_[index];
    if (peer.mark_number == 0 || peer.mark_tick != tick_) peer.wants_mark = true;
}

bool Sender::is_settled(Peer index) const {
    const PeerState& peer = *peers_[index];
    if (peer.pending_count != 0 || peer.stats.waiting != 0) return false;
    if (peer.mark_number == 0 || peer.mark_tick != tick_) return false;
    for (std::size_t i = 0; i < peer.packets.size(); ++i)
        if (!peer.packets[i].settled && peer.packets[i].newest_count != 0) return false;
    return peer.mark_missing == 0;
}

Sender::PeerStats Sender::stats(Peer index) const {
    PeerStats stats = peers_[index]->stats;
    stats.pending = peers_[index]->pending_count;
    return stats;
}

// Slots

/// If the peer has no free slot, the entity waits for one.
void Sender::open_slot(PeerState& peer, std::uint32_t entry) {
    if (peer.stats.slots >= peer.options.max_slots) {
        peer.stats.waiting += 1;
        return;
    }
    std::size_t word = peer.first_free_word;
    while (word < peer.free_slots.size() && peer.free_slots[word] == 0) ++word;
    peer.first_free_word = word;
    if (word == peer.free_slots.size()) {
        peer.free_slots.push_back(~std::uint64_t{0});
        peer.slots.resize(peer.slots.size() + 64);
        peer.is_pending.resize(peer.slots.size());
        peer.is_queued.resize(peer.slots.size());
    }
    const unsigned bit = static_cast<unsigned>(std::countr_zero(peer.free_slots[word]));
    peer.free_slots[word] &= ~(std::uint64_t{1} << bit);
    const std::uint32_t index = static_cast<std::uint32_t>(word * 64 + bit);
    peer.slots[index] = {entry, tick_, tick_ - 1, tick_ - 1, 0};
    peer.slot_of[entry] = index;
    peer.stats.slots += 1;
    pend(peer, index);
}

/// Makes the next record a despawn record. If no record of the entity was sent, frees the slot instead.
void Sender::close_slot(PeerState& peer, std::uint32_t entry) {
    const std::uint32_t index = std::exchange(peer.slot_of[entry], kNone);
    if (index == kNone) {
        peer.stats.waiting -= 1;
        return;
    }
    Slot& slot = peer.slots[index];
    slot.entry = kNone;
    if (slot.sent == slot.opened - 1) {
        unpend(peer, index);
        free_slot(peer, index);
    } else {
        pend(peer, index);
    }
}

void Sender::free_slot(PeerState& peer, std::uint32_t index) {
    peer.free_slots[index / 64] |= std::uint64_t{1} << (index % 64);
    peer.first_free_word = std::min<std::size_t>(peer.first_free_word, index / 64);
    peer.stats.slots -= 1;
}

void Sender::pend(PeerState& peer, std::uint32_t index) {
    if (peer.is_pending[index]) return;
    peer.is_pending[index] = true;
    peer.pending_count += 1;
    if (peer.is_queued[index]) return;
    peer.is_queued[index] = true;
    peer.queue.push(index);
}

void Sender::unpend(PeerState& peer, std::uint32_t index) {
    if (!peer.is_pending[index]) return;
    peer.is_pending[index] = false;  // the slot leaves the queue when it reaches the front
    peer.pending_count -= 1;
}

void Sender::drop_front(PeerState& peer, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) peer.is_queued[peer.queue[i]] = false;
    peer.queue.pop(count);
}

// Packets delivered or lost

Sender::Packet* Sender::find_packet(PeerState& peer, std::uint32_t low_number) {
    std::size_t first = 0, last = peer.packets.size();
    if (last == 0) return nullptr;
    const std::uint64_t oldest = peer.packets[0].number;
    const std::uint64_t number = oldest + (low_number - static_cast<std::uint32_t>(oldest));
    while (first < last) {
        const std::size_t middle = (first + last) / 2;
        if (peer.packets[middle].number < number) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    if (first == peer.packets.size() || peer.packets[first].number != number) return nullptr;
    return peer.packets[first].settled ? nullptr : &peer.packets[first];
}

void Sender::on_fate(Peer peer_index, std::uint64_t number, bool delivered) {
    PeerState& peer = *peers_[peer_index];
    std::size_t first_record = 0;
    for (std::size_t i = 0; i < peer.packets.size(); ++i) {
        Packet& packet = peer.packets[i];
        if (packet.number == number && !packet.settled) {
            packet.settled = true;
            packet.delivered = delivered;
            for (std::uint32_t r = 0; r < packet.record_count; ++r)
                settle_record(peer, packet, peer.records[first_record + r], delivered);
            if (delivered && number > peer.anchor_number) {
                peer.anchor_number = number;
                peer.anchor_tick = packet.tick;
            }
            if (delivered && number >= peer.mark_first && number <= peer.mark_number) peer.mark_missing -= 1;
            break;
        }
        first_record += packet.record_count;
    }
    while (!peer.packets.empty() && peer.packets[0].settled) {
        peer.records.pop(peer.packets[0].record_count);
        peer.packets.pop();
    }
    // A packet that the last completion marker needs was lost, and no state packet is in flight any more. So
    // a new marker needs no packet but its own.
    if (peer.packets.empty() && peer.mark_missing != 0) peer.wants_mark = true;
}

void Sender::settle_record(PeerState& peer, const Packet& packet, std::uint32_t record, bool delivered) {
    const std::uint32_t index = record & ~kGoneFlag;
    Slot& slot = peer.slots[index];
    if (is_newer(slot.opened, packet.tick)) return;  // sent before the slot was opened or rebased
    const bool is_newest = slot.sent_number == static_cast<std::uint32_t>(packet.number);
    if (!delivered) {
        if (is_newest) pend(peer, index);
        return;
    }
    if ((record & kGoneFlag) != 0) {
        if (peer.free_slots[index / 64] >> (index % 64) & 1) return;  // another despawn record freed the slot
        unpend(peer, index);
        free_slot(peer, index);
        return;
    }
    if (is_newer(packet.tick, slot.acked)) slot.acked = packet.tick;
}

// Encoding

/// Fills `candidate` with the next record of a slot. Returns false if there is nothing to send.
bool Sender::prepare(std::uint32_t index, const Slot& slot, Candidate& candidate) {
    candidate = {};
    candidate.header.slot = index;
    if (slot.entry == kNone) {
        candidate.header.kind = RecordKind::gone;
        return true;
    }
    const Shadow::Entry& entry = shadow_[slot.entry];
    const bool has_acked = slot.acked != slot.opened - 1;
    const Version* baseline = has_acked ? entry.versions.at(slot.acked) : nullptr;
    const Version& now = *entry.versions.newest();
    candidate.is_empty = baseline && (baseline == &now || baseline->image == now.image);
    // An empty delta: the peer acknowledged this state already. But it may also have a version that was sent
    // later, even if its packet was declared lost. So empty deltas are sent until one is acknowledged.
    if (candidate.is_empty && slot.sent == slot.acked) return false;
    candidate.header.kind = baseline ? RecordKind::delta : RecordKind::whole;
    candidate.header.baseline = slot.acked;
    candidate.header.net_id = entry.net_id;
    const MemoEntry* bits = &memo(slot.entry, baseline);
    if (baseline && bits->bits > kMaxEntityBytes * 8) {  // a full record always fits
        candidate.header.kind = RecordKind::whole;
        bits = &memo(slot.entry, nullptr);
    }
    candidate.body_offset = bits->offset;
    candidate.body_bits = bits->bits;
    return true;
}

const Sender::MemoEntry& Sender::memo(std::uint32_t entry, const Version* baseline) {
    // `head`: index of the entity's first MemoEntry. memo_of_ is not cleared every tick: an index that is
    // left from an earlier tick is recognised, because memo_ has no entry of this entity there.
    std::uint32_t& head = memo_of_[entry];
    if (head >= memo_.size() || memo_[head].entry != entry) head = kNone;
    for (std::uint32_t i = head; i != kNone; i = memo_[i].next)
        if (memo_[i].from_nothing == !baseline && (!baseline || memo_[i].baseline == baseline->tick))
            return memo_[i];
    const std::size_t offset = memo_bits_.bit_count();
    const Image& now = shadow_[entry].versions.newest()->image;
    write_image(shadow_.schema(), baseline ? baseline->image : Image{}, now, memo_bits_);
    memo_.push_back(
        {entry, !baseline, baseline ? baseline->tick : 0, offset, memo_bits_.bit_count() - offset, head});
    head = static_cast<std::uint32_t>(memo_.size() - 1);
    return memo_.back();
}

/// Fills candidates_ with pending records, oldest first, until they surely need more than `room_bits`. Slots
/// with nothing to send stop being pending.
void Sender::gather(PeerState& peer, std::size_t room_bits) {
    candidates_.clear();
    std::size_t bits = 0;
    Candidate candidate;
    for (std::size_t position = 0; position < peer.queue.size() && bits <= room_bits; ++position) {
        const std::uint32_t index = peer.queue[position];
        if (!peer.is_pending[index]) continue;
        if (!prepare(index, peer.slots[index], candidate)) {
            unpend(peer, index);
            continue;
        }
        candidate.position = position;
        candidates_.push_back(candidate);
        bits += candidate.body_bits + kMinRecordBits;
    }
    if (peer.pending_count == 0) drop_front(peer, peer.queue.size());
    by_slot_.clear();
    for (std::uint32_t i = 0; i < candidates_.size(); ++i) by_slot_.push_back(i);
    std::sort(by_slot_.begin(), by_slot_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return candidates_[a].header.slot < candidates_[b].header.slot;
    });
}

/// Returns the size in bits of a payload with the oldest `count` candidates.
std::size_t Sender::measure(const StateHeader& header, std::size_t count) {
    std::size_t bits = write_state_header(header, nullptr);
    RecordHeaderWriter headers(header, nullptr);
    for (const std::uint32_t i : by_slot_)
        if (i < count) bits += headers.write(candidates_[i].header) + candidates_[i].body_bits;
    return bits;
}

/// Returns how many of the oldest candidates fit `room_bits` together; at least 1.
std::size_t Sender::fit(const StateHeader& header, std::size_t room_bits) {
    std::size_t count = candidates_.size();
    std::size_t bits = measure(header, count);
    while (count > 1 && bits > room_bits) {
        std::size_t excess = bits - room_bits;
        while (count > 1 && excess > 0) {
            const std::size_t saved = candidates_[--count].body_bits + kMinRecordBits;
            excess -= std::min(excess, saved);
        }
        bits = measure(header, count);
    }
    return count;
}

std::span<const std::byte> Sender::encode(Peer peer_index, std::uint64_t number, std::size_t capacity,
                                          std::span<std::byte> room) {
    assert(room.size() >= kMaxHeaderBytes);
    PeerState& peer = *peers_[peer_index];
    if (!updated_) return {};
    const std::size_t room_bits = std::min(capacity, room.size()) * 8;
    gather(peer, room_bits);

    StateHeader header = make_header(peer, number);
    header.record_count = static_cast<std::uint32_t>(candidates_.size());
    header.complete = make_mark(peer, number);
    const std::size_t count = candidates_.empty() ? 0 : fit(header, room_bits);
    assert(count > 0 || candidates_.empty());
    header.record_count = static_cast<std::uint32_t>(count);
    const bool is_last = count == peer.pending_count && peer.stats.waiting == 0;
    const bool heartbeat = tick_ - peer.last_sent >= ticks_of(options_.heartbeat_s, options_.tick_hz);
    if (count == 0 && !(is_last && header.complete && (peer.wants_mark || heartbeat))) return {};
    commit(peer, number, count);
    if (!is_last) header.complete.reset();
    // After commit() the marker may need fewer packets. It never has more bits than fit() counted for it.
    if (header.complete) header.complete = make_mark(peer, number);

    packet_bits_.clear();
    write_state_header(header, &packet_bits_);
    RecordHeaderWriter headers(header, &packet_bits_);
    for (const std::uint32_t i : by_slot_) {
        if (i >= count) continue;
        headers.write(candidates_[i].header);
        packet_bits_.append(memo_bits_, candidates_[i].body_offset, candidates_[i].body_bits);
    }
    if (header.complete) {
        peer.mark_number = number;
        peer.mark_first = number - header.complete->distance;
        peer.mark_missing = header.complete->distance + 1 - header.complete->others;
        peer.mark_tick = tick_;
        for (std::size_t i = 0; i < peer.packets.size(); ++i)
            peer.mark_missing -= peer.packets[i].delivered && peer.packets[i].number >= peer.mark_first;
    }
    peer.wants_mark = !header.complete;
    peer.last_sent = tick_;
    const std::size_t bytes = packet_bits_.byte_count();
    peer.stats.state_bytes += bytes;
    if (bytes > room.size()) {
        large_.resize(bytes);
        room = large_;
    }
    packet_bits_.copy_to(room);
    return room.first(bytes);
}

StateHeader Sender::make_header(const PeerState& peer, std::uint64_t number) const {
    StateHeader header;
    header.tick = tick_;
    if (peer.anchor_number != 0 && number - peer.anchor_number <= kMaxPacketDistance)
        header.anchor = {static_cast<std::uint32_t>(number - peer.anchor_number), tick_ - peer.anchor_tick};
    return header;
}

/// Returns a completion marker for packet `number`. The peer is complete once it has this packet and all
/// state packets from packet X on: the oldest one in flight with the newest record of a slot. Returns nothing
/// if X is more than kMaxPacketDistance numbers back.
std::optional<StateHeader::Complete> Sender::make_mark(const PeerState& peer, std::uint64_t number) const {
    std::uint64_t oldest = number;
    std::size_t before = peer.packets.size();
    if (before > 0 && peer.packets[before - 1].number == number) before -= 1;
    std::size_t with_state = 0;  // packets with state, from `oldest` to the one before `number`
    for (std::size_t i = before; i-- > 0;) {
        if (peer.packets[i].settled || peer.packets[i].newest_count == 0) continue;
        oldest = peer.packets[i].number;
        with_state = before - i;
    }
    const std::uint64_t distance = number - oldest;
    if (distance > kMaxPacketDistance) return std::nullopt;
    return StateHeader::Complete{static_cast<std::uint32_t>(distance),
                                 static_cast<std::uint32_t>(distance - with_state),
                                 tick_ - shadow_.last_change()};
}

void Sender::commit(PeerState& peer, std::uint64_t number, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const Candidate& candidate = candidates_[i];
        const std::uint32_t index = candidate.header.slot;
        Slot& slot = peer.slots[index];
        if (slot.sent != slot.opened - 1)
            if (Packet* previous = find_packet(peer, slot.sent_number)) previous->newest_count -= 1;
        slot.sent = tick_;
        slot.sent_number = static_cast<std::uint32_t>(number);
        peer.records.push(candidate.header.kind == RecordKind::gone ? index | kGoneFlag : index);
        unpend(peer, index);
        peer.stats.records_sent += 1;
        peer.stats.whole_records += candidate.header.kind == RecordKind::whole;
        peer.stats.empty_records += candidate.is_empty;
    }
    if (count > 0) drop_front(peer, candidates_[count - 1].position + 1);
    const std::uint32_t records = static_cast<std::uint32_t>(count);
    peer.packets.push({number, tick_, records, records, false, false});
}

bool Sender::is_consistent() const {
    for (const auto& peer : peers_)
        if (peer->in_use && !is_consistent(*peer)) return false;
    return shadow_.is_consistent();
}

bool Sender::is_consistent(const PeerState& peer) const {
    std::size_t open = 0, free = 0, pending = 0, queued = 0, records = 0;
    for (std::uint32_t index = 0; index < peer.slots.size(); ++index) {
        const bool is_open = peer.slots[index].entry != kNone;
        const bool is_free = peer.free_slots[index / 64] >> (index % 64) & 1;
        if (is_open && (is_free || peer.slot_of[peer.slots[index].entry] != index)) return false;
        if (is_free && index / 64 < peer.first_free_word) return false;
        if (peer.is_pending[index] && (is_free || !peer.is_queued[index])) return false;
        open += is_open;
        free += is_free;
        pending += peer.is_pending[index];
        queued += peer.is_queued[index];
    }
    std::vector<bool> is_seen(peer.slots.size());
    for (std::size_t i = 0; i < peer.queue.size(); ++i) {
        if (!peer.is_queued[peer.queue[i]] || is_seen[peer.queue[i]]) return false;
        is_seen[peer.queue[i]] = true;
    }
    for (std::size_t i = 0; i < peer.packets.size(); ++i) {
        const Packet& packet = peer.packets[i];
        if (packet.newest_count > packet.record_count) return false;
        if (i > 0 && packet.number <= peer.packets[i - 1].number) return false;
        records += packet.record_count;
    }
    return open + peer.stats.waiting == shadow_.open_count() &&
           free + peer.stats.slots == peer.slots.size() && pending == peer.pending_count &&
           queued == peer.queue.size() && records == peer.records.size();
}

}  // namespace shoal::replication
