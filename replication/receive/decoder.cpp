#include "decoder.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "../codec/codec.h"

namespace shoal::replication::impl {
namespace {

/// Returns whether `tick` is newer than all versions, but 2^31 ticks or more after the oldest one.
bool is_incomparable(Tick tick, const History& versions) {
    return is_newer(tick, versions.newest()->tick) && !is_newer(tick, versions.oldest()->tick);
}

}  // namespace

Decoder::Decoder(Binding& binding, Replicas& replicas, const ReceiverOptions& options)
    : binding_(binding), replicas_(replicas), options_(options) {
    assert(options.max_slots > 0);
    staged_.reserve(kExpectedRecords);
    staged_words_.reserve(kExpectedRecords * 16);
}

Decoder::Verdict Decoder::receive(std::uint64_t number, std::span<const std::byte> payload) {
    assert(number != 0);
    const Verdict verdict = decode(number, payload);
    stats_.refused_packets += verdict == Verdict::refused || verdict == Verdict::too_many;
    stats_.malformed_packets += verdict == Verdict::malformed;
    return verdict;
}

Decoder::Verdict Decoder::decode(std::uint64_t number, std::span<const std::byte> payload) {
    BitReader in(payload);
    StateHeader header = read_state_header(in, binding_.schema().predicts(),
                                           !binding_.schema().structs(StructKind::input).empty());
    if (header.model != 0 && models_[header.model - 1u].empty()) return Verdict::malformed;
    std::span<const std::uint32_t> listed;
    if (header.anchor && in.ok()) {
        const std::uint64_t anchor = number - header.anchor->distance;
        const std::optional<Tick> anchor_tick = completion_.tick_of(anchor);
        if (!anchor_tick) return Verdict::refused;
        header.tick = *anchor_tick + header.anchor->age;
        const SlotList& list = lists_[anchor % lists_.size()];
        if (header.is_listed && list.number != anchor) return Verdict::refused;
        if (header.is_listed) listed = list.listed;
    }
    const Tick tick = header.tick;
    if (const Verdict verdict = stage_records(header, RecordHeaderCoder(header, listed), in);
        verdict != Verdict::accepted)
        return verdict;
    keep_list(number);
    if (header.check) compare(*header.check, tick);
    for (const bool despawns : {true, false})  // a key may be despawned in one slot, and be back in another
        for (const Staged& staged : staged_)
            if ((staged.header.kind == RecordKind::despawn) == despawns) commit(staged, tick);
    completion_.insert(number, tick, header.complete, header.predicts ? header.group : std::nullopt);
    margin_ = header.margin;
    forget_old_tick(tick);
    return Verdict::accepted;
}

bool Decoder::add_model(std::uint8_t number, std::span<const std::byte> bytes) {
    if (number == 0 || number > kMaxModel) return false;
    std::optional<CodecModel> model = read_model(bytes, binding_.schema());
    if (model) models_[number - 1u] = std::move(*model);
    return model.has_value();
}

ModelView Decoder::model_of(const StateHeader& payload) const {
    if (payload.coding == Coding::bits) return {};
    return payload.model == 0 ? ModelView(kBuiltInModel) : ModelView(models_[payload.model - 1u]);
}

/// Notes the slots of the packet's records: a later payload may list them.
void Decoder::keep_list(std::uint64_t number) {
    SlotList& list = lists_[number % lists_.size()];
    if (list.number > number) return;
    list.number = number;
    list.listed.clear();
    if (staged_.size() > list.listed.capacity())  // all grow together: later packets then allocate nothing
        for (SlotList& each : lists_) each.listed.reserve(2 * staged_.size());
    for (const Staged& staged : staged_)
        if (staged.header.kind != RecordKind::despawn) list.listed.push_back(staged.header.slot);
    std::sort(list.listed.begin(), list.listed.end());
    list.listed.erase(std::unique(list.listed.begin(), list.listed.end()), list.listed.end());
}

/// Visits one slot in each call, all slots in turn, and drops last_tick if it is too old. Otherwise a slot
/// that was closed for 2^31 ticks would take the records of its next entity for overtaken ones.
void Decoder::forget_old_tick(Tick now) {
    if (slots_.empty()) return;
    Slot& slot = slots_[next_to_forget_++ % slots_.size()];
    if (slot.replica != Replicas::kNone || !slot.last_tick || !is_newer(now, *slot.last_tick)) return;
    if (now - *slot.last_tick > kLongAgo) slot.last_tick.reset();
}

/// Decodes all records into staged_.
Decoder::Verdict Decoder::stage_records(const StateHeader& header, RecordHeaderCoder records, BitReader& in) {
    staged_.clear();
    staged_words_.clear();
    staged_cost_ = 0;
    // Must come before the loop: no version refers to the shapes of staged_ yet, so they count as unused.
    binding_.shapes().drop_unused();
    for (std::uint32_t i = 0; i < header.record_count; ++i) {
        const RecordHeader record = records.read(in);
        const Verdict verdict = in.ok() ? stage(record, header, in) : Verdict::malformed;
        if (verdict != Verdict::accepted) return verdict;
    }
    return in.at_padding() ? Verdict::accepted : Verdict::malformed;
}

/// Decodes a record into staged_. Requests a rebase if the baseline is missing or max_versions is reached.
Decoder::Verdict Decoder::stage(const RecordHeader& header, const StateHeader& payload, BitReader& in) {
    const Tick tick = payload.tick;
    if (header.slot >= options_.max_slots || binding_.shapes().size() + 1 >= ShapeTable::kMaxShapes)
        return Verdict::too_many;
    if (header.slot >= slots_.size()) slots_.resize(header.slot + std::size_t{1});
    const Slot& slot = slots_[header.slot];
    const std::uint32_t replica =
        header.kind == RecordKind::full ? replicas_.ids().find(header.net_id) : slot.replica;
    if (replica != Replicas::kNone && is_incomparable(tick, replicas_[replica].versions))
        return Verdict::malformed;
    Image baseline;
    Trend trend;
    if (header.kind == RecordKind::delta) {
        const bool is_stale = slot.last_tick && !is_newer(tick, *slot.last_tick);
        const bool is_open = replica != Replicas::kNone;
        const bool is_usable = is_open && (is_stale || !replicas_.is_crowded(replica)) &&
                               find_versions(replica, header, tick, baseline, trend);
        if (!is_stale && !is_usable) request_rebase(header.slot);
        if (!is_usable) return Verdict::refused;
    }
    Staged staged{header, nullptr, staged_words_.size(), 0, 0};
    if (header.kind != RecordKind::despawn) {
        staged.shape = read_image(binding_.shapes(), baseline, in, words_, trend, model_of(payload));
        if (!staged.shape) return Verdict::malformed;
        staged.size = words_.size();
        staged_words_.insert(staged_words_.end(), words_.begin(), words_.end());
        staged.cost = cost_of(binding_.schema(), {staged.shape, words_});
        const std::size_t known = replica == Replicas::kNone ? 0 : replicas_[replica].cost;
        staged_cost_ += staged.cost - std::min(staged.cost, known) + words_.size() * sizeof(std::uint32_t);
        if (held_bytes() + staged_cost_ > options_.max_held_bytes) return Verdict::too_many;
    }
    staged_.push_back(staged);
    return Verdict::accepted;
}

bool Decoder::find_versions(std::uint32_t replica, const RecordHeader& header, Tick tick, Image& baseline,
                            Trend& trend) const {
    const std::optional<Version> version = replicas_.version_at(replica, header.baseline);
    if (!version) return false;
    baseline = version->image;
    trend.factor = Trend::factor_of(tick - header.baseline, header.older);
    if (trend.factor == 0) return true;
    const Tick at = header.baseline - header.older;
    const std::optional<Version> older = replicas_.version_at(replica, at);
    if (older && at - older->tick <= kOlderTicks) trend.older = older->image;
    return older || !replicas_.may_miss(replica, at);
}

/// Compares what the server says about an older version with the version that is here.
void Decoder::compare(const StateHeader::Check& check, Tick tick) {
    if (check.slot >= slots_.size() || slots_[check.slot].replica == Replicas::kNone) return;
    const auto version = replicas_.version_at(slots_[check.slot].replica, tick - check.age);
    if (version && check_sum(binding_.schema(), version->image) != check.sum)
        request_rebase(check.slot, true);
}

void Decoder::request_rebase(std::uint32_t slot, bool differs) {
    if (slots_[slot].is_rebasing) return;
    slots_[slot].is_rebasing = true;
    stats_.rebases += 1;
    stats_.differences += differs;
    if (slots_[slot].is_listed) return;
    slots_[slot].is_listed = true;
    slots_[slot].differs = differs;
    rebases_.push_back(slot);
}

void Decoder::drop_rebases(std::size_t count) {
    assert(count <= rebases_.size());
    for (const std::uint32_t slot : rebases().first(count)) slots_[slot].is_listed = false;
    rebases_.erase(rebases_.begin(), rebases_.begin() + static_cast<std::ptrdiff_t>(count));
}

void Decoder::commit(const Staged& staged, Tick tick) {
    const RecordHeader& header = staged.header;
    const Image image{staged.shape, {staged_words_.data() + staged.offset, staged.size}};
    if (is_overtaken(header, tick)) {
        stats_.stale_records += 1;
        return keep_overtaken(staged, tick, image);
    }
    stats_.records += 1;
    Slot& slot = slots_[header.slot];
    slot.last_tick = tick;
    slot.is_rebasing = false;
    if (header.kind == RecordKind::despawn) return close(slot, header.reason, tick);
    if (header.kind == RecordKind::full) bind(header, tick);
    assert(slot.replica != Replicas::kNone);
    const bool is_delta = header.kind == RecordKind::delta;
    replicas_.push(slot.replica, tick, image,
                   is_delta ? std::optional(header.baseline - header.older) : std::nullopt);
    replicas_.note_cost(slot.replica, tick, staged.cost);
}

/// Returns whether the slot, or the replica of a full record, has a version as new or newer.
bool Decoder::is_overtaken(const RecordHeader& header, Tick tick) const {
    const Slot& slot = slots_[header.slot];
    if (slot.last_tick && !is_newer(tick, *slot.last_tick)) return true;
    // An earlier record of this payload gave the slot's replica to another slot: no correct sender does that.
    if (header.kind == RecordKind::delta) return slot.replica == Replicas::kNone;
    if (header.kind == RecordKind::despawn) return false;
    const std::uint32_t known = replicas_.ids().find(header.net_id);
    return known != Replicas::kNone && !is_newer(tick, replicas_[known].versions.newest()->tick);
}

/// The sender may see the ack of this packet only, and base a delta on this version.
void Decoder::keep_overtaken(const Staged& staged, Tick tick, const Image& image) {
    const RecordHeader& header = staged.header;
    const std::uint32_t replica = slots_[header.slot].replica;
    if (replica == Replicas::kNone || header.kind == RecordKind::despawn) return;
    if (header.kind == RecordKind::full && header.net_id != replicas_.ids()[replica].net_id) return;
    if (!is_newer(replicas_[replica].versions.newest()->tick, tick)) return;  // exactly 2^31 apart
    replicas_.insert(replica, tick, image);
    replicas_.note_cost(replica, tick, staged.cost);
}

void Decoder::close(Slot& slot, Despawn reason, Tick tick) {
    if (slot.replica != Replicas::kNone) replicas_.close(slot.replica, reason, tick);
    slot.replica = Replicas::kNone;
}

/// Makes the slot the entity slot of a full record's replica. A replica of another slot stays, with all that
/// the game added to it. But if a key reserves its net id, the replica ends: the server has another entity
/// with this key, and the despawn record of the earlier entity has not arrived yet.
void Decoder::bind(const RecordHeader& header, Tick tick) {
    Slot& slot = slots_[header.slot];
    const std::uint32_t known = replicas_.ids().find(header.net_id);
    if (known != Replicas::kNone && known == slot.replica) return;
    close(slot, Despawn::destroyed, tick);
    if (known != Replicas::kNone && replicas_[known].ends) {
        replicas_.end(known, replicas_[known].end_reason, *replicas_[known].ends);
    } else if (known != Replicas::kNone) {
        Slot& former = slots_[replicas_[known].slot];
        if (NetIds::is_reserved(header.net_id))
            replicas_.end(std::exchange(former.replica, Replicas::kNone), Despawn::left, tick);
        former.replica = Replicas::kNone;
    }
    slot.replica = replicas_.bind(header.net_id, header.slot, tick);
    if (header.pending != 0) replicas_[slot.replica].pending = kFirstPending | header.pending;
}

void Decoder::reconnect() {
    completion_.reconnect();
    margin_.reset();
    rebases_.clear();
    lists_ = {};
    models_ = {};
    for (Slot& slot : slots_) slot.is_rebasing = slot.is_listed = false;  // the requests may be lost
}

void Decoder::reset() {
    replicas_.reset();
    binding_.shapes().drop_unused(0);
    slots_.clear();
    lists_ = {};
    models_ = {};
    completion_ = {};
    rebases_.clear();
}

}  // namespace shoal::replication::impl
