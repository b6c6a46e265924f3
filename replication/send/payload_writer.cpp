#include "payload_writer.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "../../net/endpoint.h"
#include "../codec/codec.h"

namespace shoal::replication::impl {
namespace {

constexpr std::size_t kMinRecordBits = 1;    // the smallest record header: one bit for a listed slot
constexpr std::size_t kMaxRecordBits = 150;  // more than the largest record header
constexpr std::size_t kMaxHeaderBits = 400;  // more than the largest header of a payload
constexpr std::size_t kMaxBits = net::kMaxLargePayloadBytes * 8;
// So many bits of records that are too large at present are encoded at most for a payload.
constexpr std::size_t kMaxOversizedBits = std::size_t{16} * 1024 * 8;
constexpr std::size_t kBitsOfGap = 3;  // what a slot that is not listed takes, typically, without its kind
constexpr std::uint64_t kNotListed = std::uint64_t{PeerView::kMaxSlots} << 32;
constexpr std::size_t kNearlyFull = 24;  // bits: less room is not worth another try

std::uint32_t index_of(std::uint64_t key) {
    return static_cast<std::uint32_t>(key);
}

}  // namespace

PayloadWriter::PayloadWriter(const Shadow& shadow) : shadow_(shadow), deltas_(shadow) {
    candidates_.reserve(kExpectedRecords);
    by_slot_.reserve(kExpectedRecords);
}

void PayloadWriter::start_tick(Tick tick) {
    tick_ = tick;
    deltas_.clear();
}

/// Returns a number of bits that no payload with any of the candidates exceeds.
std::size_t PayloadWriter::upper_bits() const {
    return kMaxHeaderBits + listed_.size() + kMaxRecordBits * candidates_.size() + delta_bits_;
}

void PayloadWriter::gather(PeerView& view, const StateHeader& header, const Room& room) {
    candidates_.clear();
    by_slot_.clear();
    delta_bits_ = 0;
    parted_count_ = 0;
    listed_ = {};
    anchor_ = header.anchor;
    view.clusters().start_visits();
    view.move_to_their_queues();
    using Queue = PeerView::Queue;
    const Queue first = view.first(), second = first == Queue::group ? Queue::other : Queue::group;
    next_ = {};
    lead_ = view.lead();
    noted_ = 0;
    gather_from(first, room.bits / 2, view, header, room);
    gather_from(second, room.bits, view, header, room);
    gather_from(first, room.bits, view, header, room);
    if (view.pending_count() == 0) view.tidy();
    if (!std::is_sorted(by_slot_.begin(), by_slot_.end())) std::sort(by_slot_.begin(), by_slot_.end());
}

/// Returns the queue of the record that comes next, of all queues but Queue::group.
PeerView::Queue PayloadWriter::next_queue(const PeerView& view) {
    using Queue = PeerView::Queue;
    if (!view.schedule()) return Queue::other;
    for (; noted_ < candidates_.size(); ++noted_) {
        const Candidate& candidate = candidates_[noted_];
        const auto bits = static_cast<std::int64_t>(candidate.bits());
        if (candidate.queue != Queue::group) lead_ += candidate.queue == Queue::entering ? bits : -bits;
    }
    const auto head = [&](Queue which) -> const std::uint32_t* {
        const net::impl::Fifo<std::uint32_t>& queue = view.queue(which);
        std::size_t& at = next_[static_cast<std::size_t>(which)];
        while (at < queue.size() && !view[queue[at]].is_pending) ++at;
        return at < queue.size() ? &queue[at] : nullptr;
    };
    if (lead_ <= 0 && head(Queue::entering)) return Queue::entering;
    Queue best = Queue::entering;
    Tick earliest = 0;
    for (std::size_t which = 1; which < PeerView::kQueues; ++which) {
        const Queue queue = static_cast<Queue>(which);
        const std::uint32_t* const slot = queue == Queue::entering ? nullptr : head(queue);
        if (!slot) continue;
        const Tick deadline = (*view.schedule())[*slot].deadline;
        if (best != Queue::entering && !is_newer(earliest, deadline)) continue;
        best = queue;
        earliest = deadline;
    }
    return best;
}

/// Begins to load what the records of some later positions of a queue need. Each peer sees other entities, so
/// most of this is in no cache.
void PayloadWriter::look_ahead(const PeerView& view, PeerView::Queue which, std::size_t position) const {
    const net::impl::Fifo<std::uint32_t>& queue = view.queue(which);
    const auto slot = [&](std::size_t ahead) -> const PeerView::Slot* {
        if (position + ahead >= queue.size()) return nullptr;
        const PeerView::Slot& found = view[queue[position + ahead]];
        return found.has_entity() ? &found : nullptr;
    };
    if (const PeerView::Slot* const next = slot(12)) {
        prefetch(&shadow_[next->entry]);
        prefetch(&shadow_[next->entry].versions);
        deltas_.prefetch_first(next->entry, next->acked);
    }
    if (const PeerView::Slot* const next = slot(8)) shadow_[next->entry].versions.prefetch_newest();
    if (const PeerView::Slot* const next = slot(4)) deltas_.prefetch_item(next->entry, next->acked);
}

/// Gathers from a queue until all candidates surely need more than `room_bits`.
void PayloadWriter::gather_from(PeerView::Queue first, std::size_t room_bits, PeerView& view,
                                const StateHeader& header, const Room& room) {
    std::size_t oversized_bits = 0;
    while (oversized_bits < kMaxOversizedBits) {
        if (delta_bits_ + kMinRecordBits * candidates_.size() > room_bits) break;
        const PeerView::Queue which = first == PeerView::Queue::group ? first : next_queue(view);
        const net::impl::Fifo<std::uint32_t>& queue = view.queue(which);
        std::size_t& position = next_[static_cast<std::size_t>(which)];
        if (position == queue.size()) break;
        const std::uint32_t index = queue[position];
        look_ahead(view, which, position);
        const Place place{which, position++};
        if (!view[index].is_pending || (room.large && view.is_oversized(index))) continue;
        if (const std::optional<std::uint32_t> cluster = view.clusters().cluster_of(index)) {
            const bool was_known = view.clusters().exceeds(*cluster, room.most_bits, tick_);
            const bool is_done = gather_cluster(*cluster, view, header, room, place);
            if (!was_known && view.clusters().exceeds(*cluster, room.most_bits, tick_))
                oversized_bits += room.most_bits;
            if (is_done) continue;
        }
        if (room.large && view.is_in(index, *room.large)) continue;
        const std::size_t before = candidates_.size();
        add(index, view, place);
        if (upper_bits() <= room.most_bits || fit_alone(header, before, room.most_bits)) continue;
        oversized_bits += candidates_.back().delta.bits;
        drop_from(before);
        if (room.large) view.note_oversized(index);
    }
}

/// Gathers a cluster, or nothing if it must wait. Returns false if it is too large for any payload: then its
/// slots are gathered one by one.
bool PayloadWriter::gather_cluster(std::uint32_t cluster, PeerView& view, const StateHeader& header,
                                   const Room& room, Place place) {
    ClusterSlots& clusters = view.clusters();
    if (clusters.exceeds(cluster, kMaxBits, tick_)) return false;
    if (!clusters.visit(cluster) || clusters.exceeds(cluster, room.most_bits, tick_)) return true;
    const std::span<const std::uint32_t> slots = clusters.slots_of(cluster);
    const auto is_in_large = [&](std::uint32_t slot) { return view.is_in(slot, *room.large); };
    if (room.large && clusters.is_oversized(cluster)) return true;
    if (room.large && std::any_of(slots.begin(), slots.end(), is_in_large)) return true;
    const std::size_t first = candidates_.size();
    if (add_cluster(slots, view, room.most_bits, place) && fit_alone(header, first, room.most_bits))
        return true;
    drop_from(first);
    clusters.note_excess(cluster, room.most_bits, tick_);
    if (room.large) clusters.note_oversized(cluster);
    const bool is_too_large = room.most_bits == kMaxBits;
    parted_count_ += is_too_large;
    return !is_too_large;
}

/// Returns whether a payload with only the candidates from `first` on has at most `most_bits`.
bool PayloadWriter::fit_alone(const StateHeader& header, std::size_t first, std::size_t most_bits) {
    std::size_t bits = kMaxHeaderBits;
    for (std::size_t i = first; i < candidates_.size(); ++i)
        bits += kMaxRecordBits + candidates_[i].delta.bits;
    if (bits <= most_bits) return true;
    StateHeader alone = header;
    if (most_bits == kMaxBits) alone.anchor.reset();  // as in write()
    alone.record_count = static_cast<std::uint32_t>(candidates_.size() - first);
    const std::span<std::uint64_t> keys = std::span(by_slot_).subspan(first);
    std::sort(keys.begin(), keys.end());
    return measure(alone, keys, candidates_.size()) <= most_bits;
}

void PayloadWriter::drop_from(std::size_t first) {
    for (std::size_t i = first; i < candidates_.size(); ++i) delta_bits_ -= candidates_[i].delta.bits;
    candidates_.resize(first);
    by_slot_.resize(first);
}

/// Adds the next record of a slot, if there is something to send.
void PayloadWriter::add(std::uint32_t index, PeerView& view, Place place) {
    Candidate& candidate = candidates_.emplace_back();
    if (!prepare(index, view, candidate)) {
        candidates_.pop_back();
        return view.unpend(index);
    }
    candidate.queue = place.queue;
    candidate.position = place.position;
    by_slot_.push_back(std::uint64_t{index} << 32 | (candidates_.size() - 1));
    delta_bits_ += candidate.delta.bits;
}

/// Adds the records of a cluster that the peer may not have. These are the pending records, and the records
/// in flight, whose packets can still get lost. Adds none if no pending record is to be sent. Returns false
/// if the records surely need more than `most_bits`; then some were not added.
bool PayloadWriter::add_cluster(std::span<const std::uint32_t> slots, PeerView& view, std::size_t most_bits,
                                Place place) {
    const std::size_t first = candidates_.size(), bits_before = delta_bits_;
    for (const std::uint32_t slot : slots) {
        if (!view[slot].is_pending && !view[slot].in_flight && !view.rests(slot)) continue;
        add(slot, view, place);
        const std::size_t header_bits = kMinRecordBits * (candidates_.size() - first);
        if (delta_bits_ - bits_before + header_bits > most_bits) return false;
    }
    const auto added = std::span(candidates_).subspan(first);
    const auto is_new = [&](const Candidate& candidate) { return view[candidate.header.slot].is_pending; };
    if (std::none_of(added.begin(), added.end(), is_new)) drop_from(first);
    for (std::size_t i = first + 1; i < candidates_.size(); ++i) candidates_[i].joins = true;
    return true;
}

/// Returns the worst of what the references of a version name for the peer. Removes the version if it is not
/// known whether the peer's has a reference or null.
RefersTo PayloadWriter::judge(std::optional<Version>& version, const View& shown) const {
    if (!sight_ || !version) return RefersTo::seen;
    const RefersTo worst = worst_of(shadow_.schema(), version->image, shown, *sight_);
    if (worst == RefersTo::ended) version.reset();
    return worst;
}

std::optional<StateHeader::Check> PayloadWriter::check_of(std::uint32_t index, const PeerView& view) {
    const PeerView::Slot& slot = view[index];
    const View shown = view.shown(index);
    if (!slot.has_entity() || !slot.has_acked || shown.numbers) return std::nullopt;
    std::optional<Version> version = shadow_.at(slot.entry, slot.acked, shown.classes);
    const RefersTo worst = judge(version, shown);
    if (!version) return std::nullopt;
    const NameSight* const sight = worst == RefersTo::seen ? nullptr : sight_;
    return StateHeader::Check{index, tick_ - slot.acked, deltas_.check_sum_of(version->image, shown, sight)};
}

/// Fills an empty candidate with the next record of a slot. Returns false if there is nothing to send.
bool PayloadWriter::prepare(std::uint32_t index, const PeerView& view, Candidate& candidate) {
    const PeerView::Slot& slot = view[index];
    candidate.header.slot = index;
    if (!slot.has_entity()) {
        candidate.header.kind = RecordKind::despawn;
        candidate.header.reason = slot.reason();
        return true;
    }
    const Shadow::Entry& entry = shadow_[slot.entry];
    const View shown = view.shown(index);
    std::optional<Version> baseline =
        slot.has_acked ? shadow_.at(slot.entry, slot.acked, shown.classes) : std::nullopt;
    // The owner does not have the server's values of what it decides, see keep_owned().
    if (baseline && shown.is_owner() &&
        owner_state(baseline->image) != owner_state(entry.versions.newest()->image))
        baseline.reset();
    RefersTo worst = judge(baseline, shown);
    PeerView::Basis basis = baseline ? view.basis(index, tick_, anchor_) : PeerView::Basis{};
    std::optional<Version> older =
        basis.older_tick ? shadow_.at(slot.entry, *basis.older_tick, shown.classes) : std::nullopt;
    std::optional<Version> newest = entry.versions.newest();
    worst = std::max({worst, judge(older, shown), judge(newest, shown)});
    if (basis.older_tick && !older)
        basis = {slot.acked, 0, {}, slot.acked};  // dropped by the shadow or judge()
    const NameSight* const sight = worst == RefersTo::seen ? nullptr : sight_;
    candidate.delta = deltas_.get(slot.entry, baseline, shown, older,
                                  Trend::factor_of(tick_ - basis.baseline, basis.older), sight);
    // An empty delta: the peer acknowledged this state already. But it may also have a version that was sent
    // later, even if its packet was declared lost. So empty deltas are sent until one is acknowledged.
    // Empty deltas are also sent if the peer's schema lacks a component that changes: the peer then gets a
    // newer baseline before the history drops the present one.
    const Tick lasts = shown.numbers ? (tick_ - shadow_.horizon()) / 2 : kLongAgo;
    const bool is_known = candidate.delta.is_empty && slot.sent == slot.acked && tick_ - slot.acked < lasts;
    if (is_known && !slot.is_forced) return false;
    candidate.header.kind = baseline ? RecordKind::delta : RecordKind::full;
    candidate.header.baseline = basis.baseline;
    candidate.header.older = basis.older;
    candidate.oldest = basis.oldest;
    candidate.header.net_id = entry.net_id;
    if (baseline && candidate.delta.bits > kMaxEntityBytes * 8) {  // a full record always fits
        candidate.header.kind = RecordKind::full;
        candidate.delta = deltas_.get(slot.entry, std::nullopt, shown, {}, 0, sight);
    }
    if (candidate.header.kind == RecordKind::full) candidate.header.pending = view.pending_id(entry.net_id);
    return true;
}

/// Returns the size in bits of a payload with the candidates in `keys` that are among the first `count`.
std::size_t PayloadWriter::measure(const StateHeader& header, std::span<const std::uint64_t> keys,
                                   std::size_t count) const {
    std::size_t bits = write_state_header(header, nullptr);
    RecordHeaderCoder headers(header, header.is_listed ? listed_ : std::span<const std::uint32_t>());
    for (const std::uint64_t key : keys)
        if (const Candidate& candidate = candidates_[index_of(key)]; index_of(key) < count)
            bits += headers.write(candidate.header, nullptr) + candidate.delta.bits;
    return bits;
}

void PayloadWriter::list(StateHeader& header, std::span<const std::uint32_t> slots) {
    if (!header.anchor || header.anchor->distance > kMaxListDistance || slots.empty()) return;
    const Tick tick = tick_ - header.anchor->age;
    std::size_t hits = 0;
    bool is_uniform = true;
    auto listed = slots.begin();
    for (std::uint64_t& key : by_slot_) {
        const std::uint32_t slot = static_cast<std::uint32_t>(key >> 32);
        while (listed != slots.end() && *listed < slot) ++listed;
        if (listed == slots.end() || *listed != slot) {
            key += kNotListed;
            continue;
        }
        hits += 1;
        const RecordHeader& record = candidates_[index_of(key)].header;
        is_uniform = is_uniform && record.kind == RecordKind::delta && record.baseline == tick &&
                     record.older == header.anchor->older;
    }
    std::sort(by_slot_.begin(), by_slot_.end());
    header.is_listed = true;
    header.is_uniform = is_uniform;
    listed_ = slots;
    if (hits * kBitsOfGap < slots.size()) unlist(header);
}

void PayloadWriter::unlist(StateHeader& header) {
    if (!std::exchange(header.is_listed, false)) return;
    header.is_uniform = false;
    listed_ = {};
    for (std::uint64_t& key : by_slot_) key &= kNotListed - 1;
    std::sort(by_slot_.begin(), by_slot_.end());
}

std::size_t PayloadWriter::fit(const StateHeader& header, std::size_t room_bits) {
    const auto ends_inside_cluster = [&](std::size_t count) {
        return count < candidates_.size() && candidates_[count].joins;
    };
    std::size_t count = search(header, room_bits);
    while (ends_inside_cluster(count)) --count;
    if (count > 0 || candidates_.empty()) return count;
    do ++count;
    while (ends_inside_cluster(count));
    return count;
}

/// Returns how many records fit, but at least 1 if there is one.
std::size_t PayloadWriter::search(const StateHeader& header, std::size_t room_bits) const {
    std::size_t too_many = candidates_.size(), fits = std::min<std::size_t>(1, too_many);
    if (too_many <= 1 || upper_bits() <= room_bits) return too_many;
    std::size_t too_many_bits = measure(header, by_slot_, too_many);
    if (too_many_bits <= room_bits) return too_many;
    std::size_t fits_bits = measure(header, by_slot_, fits);
    for (int step = 0; too_many - fits > 1 && fits_bits + kNearlyFull <= room_bits; ++step) {
        // By interpolation, as records are of similar size. If they are not, by bisection.
        std::size_t count = (fits + too_many) / 2;
        if (step < 4)
            count = fits + (too_many - fits) * (room_bits - fits_bits) / (too_many_bits - fits_bits);
        count = std::clamp(count, fits + 1, too_many - 1);
        const std::size_t bits = measure(header, by_slot_, count);
        (bits <= room_bits ? fits : too_many) = count;
        (bits <= room_bits ? fits_bits : too_many_bits) = bits;
    }
    return fits;
}

std::span<const std::byte> PayloadWriter::write(const StateHeader& header, std::span<std::byte> room) {
    const auto is_too_large = [&] { return bits_.byte_count() > room.size(); };
    StateHeader plain = header;
    write_bits(plain);
    // What gather() measured alone had no list; for a large payload, no anchor either.
    if (is_too_large()) {
        unlist(plain);
        write_bits(plain);
    }
    if (is_too_large()) {
        plain.anchor.reset();
        write_bits(plain);
    }
    if (is_too_large()) {
        large_.resize(bits_.byte_count());
        room = large_;
    }
    bits_.copy_to(room);
    return room.first(bits_.byte_count());
}

void PayloadWriter::write_bits(const StateHeader& header) {
    bits_.clear();
    write_state_header(header, &bits_);
    RecordHeaderCoder headers(header, header.is_listed ? listed_ : std::span<const std::uint32_t>());
    for (const std::uint64_t key : by_slot_) {
        if (index_of(key) >= header.record_count) continue;
        const Candidate& candidate = candidates_[index_of(key)];
        headers.write(candidate.header, &bits_);
        deltas_.append(candidate.delta, bits_);
    }
}

}  // namespace shoal::replication::impl
