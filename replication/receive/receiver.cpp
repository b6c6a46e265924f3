#include "receiver.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace shoal::replication {
namespace {

/// How much older, in ticks, the baselines of an overtaken packet can be than those of the packet that
/// overtook it.
constexpr Tick kOvertakenTicks = 16;

}  // namespace

// Construction and lookup

Receiver::Receiver(ecs::World& world, const Schema& schema, const ReceiverOptions& options)
    : world_(world), options_(options), binding_(world, schema) {
    assert(options.max_slots > 0 && options.max_versions >= 4);
    staged_.reserve(kExpectedRecords);
    staged_words_.reserve(kExpectedRecords * 16);
    dirty_.reserve(kExpectedRecords);
    gone_.reserve(kExpectedRecords);
}

const Receiver::Slot* Receiver::find(std::uint32_t index) const {
    const std::size_t page = index / kPageSlots;
    return page < pages_.size() && pages_[page] ? &pages_[page]->slots[index % kPageSlots] : nullptr;
}

Receiver::Slot& Receiver::obtain(std::uint32_t index) {
    const std::size_t page = index / kPageSlots;
    if (page >= pages_.size()) pages_.resize(page + 1);
    if (!pages_[page]) pages_[page] = std::make_unique<Page>();
    return slot(index);
}

ecs::Entity Receiver::entity(std::uint32_t net_id) const {
    const std::uint32_t index = net_id == 0 ? NetIdMap::kAbsent : slot_of_.find(net_id);
    if (index == NetIdMap::kAbsent) return {};
    const ecs::Entity entity = find(index)->entity;
    return world_.is_alive(entity) ? entity : ecs::Entity{};
}

std::uint32_t Receiver::net_id(ecs::Entity entity) const {
    if (entity.index >= slot_at_.size() || slot_at_[entity.index] == NetIdMap::kAbsent) return 0;
    const Slot* slot = find(slot_at_[entity.index]);
    return slot->entity == entity && world_.is_alive(entity) ? slot->net_id : 0;
}

// Receiving

Receiver::Verdict Receiver::receive(std::uint64_t number, std::span<const std::byte> payload) {
    BitReader in(payload);
    const StateHeader header = read_state_header(in);
    Tick tick = header.tick;
    std::optional<Tick> baseline;
    if (header.anchor && in.ok()) {
        baseline = completion_.tick_of(number - header.anchor->distance);
        if (!baseline) {
            stats_.refused_packets += 1;
            return Verdict::refused;
        }
        tick = *baseline + header.anchor->age;
    }
    staged_.clear();
    staged_words_.clear();
    binding_.shapes().drop_unused();
    RecordHeaderReader records(tick, baseline, in);
    for (std::uint32_t i = 0; i < header.record_count && in.ok(); ++i) {
        const RecordHeader record = records.read();
        const Verdict verdict = in.ok() ? stage(record, tick, in) : Verdict::malformed;
        if (verdict == Verdict::accepted) continue;
        (verdict == Verdict::malformed ? stats_.malformed_packets : stats_.refused_packets) += 1;
        return verdict;
    }
    if (!in.at_padding()) {
        stats_.malformed_packets += 1;
        return Verdict::malformed;
    }
    for (const Staged& staged : staged_) commit(staged, tick);
    completion_.insert(number, tick, header.complete);
    return Verdict::accepted;
}

/// Decodes a record into staged_. Requests a rebase if the baseline is missing or max_versions is reached.
Receiver::Verdict Receiver::stage(const RecordHeader& header, Tick tick, BitReader& in) {
    if (header.slot >= options_.max_slots) return Verdict::too_many;
    const Slot* slot = find(header.slot);
    const bool stale = slot && slot->has_tick && !is_newer(tick, slot->last_tick);
    if (!stale && slot && !slot->versions.empty() && !is_newer(tick, slot->versions.oldest()->tick))
        return Verdict::malformed;  // `tick` is 2^31 or more after the oldest version
    Image baseline;
    if (header.kind == RecordKind::delta) {
        const Version* version = slot ? slot->versions.find(header.baseline) : nullptr;
        const bool crowded = slot && slot->versions.size() >= options_.max_versions;
        if (!stale && (!version || crowded)) request_rebase(header.slot);
        if (!version || (!stale && crowded)) return Verdict::refused;
        baseline = version->image;
    }
    Staged staged{header, nullptr, staged_words_.size(), 0};
    if (header.kind != RecordKind::gone) {
        staged.shape = read_image(binding_.shapes(), baseline, in, words_);
        if (!staged.shape) return Verdict::malformed;
        staged.size = words_.size();
        staged_words_.insert(staged_words_.end(), words_.begin(), words_.end());
        const std::size_t bytes = pool_.bytes_in_use() + staged_words_.size() * sizeof(std::uint32_t);
        if (bytes > options_.max_version_bytes) return Verdict::too_many;
    }
    staged_.push_back(staged);
    return Verdict::accepted;
}

void Receiver::commit(const Staged& staged, Tick tick) {
    const RecordHeader& header = staged.header;
    Slot& slot = obtain(header.slot);
    const Image image{staged.shape, {staged_words_.data() + staged.offset, staged.size}};
    if (slot.has_tick && !is_newer(tick, slot.last_tick)) {
        stats_.stale_records += 1;
        const bool same_entity = header.kind == RecordKind::delta || header.net_id == slot.net_id;
        // The sender may see the ack of this packet only, and base a delta on this version.
        const bool has_room = slot.versions.size() < options_.max_versions;
        if (slot.net_id != 0 && header.kind != RecordKind::gone && same_entity && has_room) {
            slot.versions.insert(tick, image, pool_);
            drop_old_versions(slot);
        }
        return;
    }
    const std::uint32_t former =
        header.kind == RecordKind::whole ? slot_of_.find(header.net_id) : NetIdMap::kAbsent;
    const bool moves = former != NetIdMap::kAbsent && former != header.slot;
    if (moves && !is_newer(tick, this->slot(former).last_tick)) {
        stats_.stale_records += 1;
        return;
    }
    stats_.records += 1;
    slot.has_tick = true;
    slot.last_tick = tick;
    slot.is_rebasing = false;
    const bool another = slot.net_id != 0 && header.kind == RecordKind::whole && slot.net_id != header.net_id;
    if (slot.net_id != 0 && (header.kind == RecordKind::gone || another)) close(header.slot, slot);
    if (header.kind == RecordKind::gone) return;
    if (slot.net_id == 0) {
        if (moves) move_replica(former, header.slot);
        slot.net_id = header.net_id;
        slot.floor = tick;
        slot_of_.set(header.net_id, header.slot);
    }
    if (header.kind == RecordKind::delta && is_newer(header.baseline, slot.floor))
        slot.floor = header.baseline;
    const bool crowded = slot.versions.size() >= options_.max_versions;
    slot.versions.push(tick, image, pool_);
    if (crowded) slot.floor = tick;
    drop_old_versions(slot);
    touch(header.slot, slot);
}

/// Keeps what the sender can still name: the newest baseline and newer versions, and, while there is room,
/// the baselines that packets on their way may name because this one overtook them.
void Receiver::drop_old_versions(Slot& slot) {
    const Tick shown = slot.is_applied ? slot.applied : slot.versions.newest()->tick;
    slot.versions.drop_replaced(slot.floor - kOvertakenTicks, shown, pool_);
    if (slot.versions.size() >= options_.max_versions) slot.versions.drop_replaced(slot.floor, shown, pool_);
}

/// The entity has another slot now. Its replica stays, with all that the game added to it.
void Receiver::move_replica(std::uint32_t from_index, std::uint32_t to_index) {
    Slot& from = slot(from_index);
    Slot& to = slot(to_index);
    to.entity = from.entity;
    to.is_applied = from.is_applied;
    to.is_suppressed = from.is_suppressed;
    to.applied = from.applied;
    to.versions = std::exchange(from.versions, {});
    if (world_.is_alive(to.entity)) slot_at_[to.entity.index] = to_index;
    references_.clear(from_index);  // apply() adds them for `to`
    from.net_id = 0;
    from.entity = {};
    from.is_applied = from.is_suppressed = from.has_news = false;
}

void Receiver::close(std::uint32_t index, Slot& slot) {
    if (slot.is_applied || slot.entity) gone_.push_back({slot.net_id, slot.entity, slot.is_suppressed});
    if (slot_of_.find(slot.net_id) == index) slot_of_.erase(slot.net_id);
    slot.versions.clear(pool_);
    references_.clear(index);
    slot.net_id = 0;
    slot.entity = {};
    slot.is_applied = slot.is_suppressed = slot.has_news = false;
}

void Receiver::touch(std::uint32_t index, Slot& slot) {
    if (slot.is_dirty) return;
    slot.is_dirty = true;
    dirty_.push_back(index);
}

void Receiver::request_rebase(std::uint32_t index) {
    Slot& slot = obtain(index);
    if (slot.is_rebasing) return;
    slot.is_rebasing = true;
    rebases_.push_back(index);
    stats_.rebases += 1;
}

// Applying

void Receiver::apply() {
    assert(!world_.is_deferring());
    destroy_gone();
    {
        const ecs::World::DelayHooks delay(world_);
        create_new();
        announce_news();
        for (const std::uint32_t index : dirty_) write_values(slot(index));
    }
    for (const std::uint32_t index : dirty_) finish_values(index, slot(index));
    dirty_.clear();
    complete_ = completion_.complete();
}

void Receiver::destroy_gone() {
    for (const Gone& gone : gone_) {
        news_.push_back(gone.net_id);
        if (gone.was_suppressed) continue;
        if (world_.is_alive(gone.entity)) {
            world_.destroy(gone.entity);
        } else {
            stats_.suppressed += 1;
        }
    }
    gone_.clear();
}

/// Creates all new replicas before any value is written, so that they can refer to each other.
void Receiver::create_new() {
    for (const std::uint32_t index : dirty_) {
        Slot& slot = this->slot(index);
        if (slot.net_id == 0 || slot.is_applied) continue;
        slot.entity = world_.spawn();
        if (slot.entity.index >= slot_at_.size())
            slot_at_.resize(slot.entity.index + std::size_t{1}, NetIdMap::kAbsent);
        slot_at_[slot.entity.index] = index;
        news_.push_back(slot.net_id);
    }
}

/// Marks the slots that refer to entities that appeared or disappeared, so that
/// apply() writes the references again.
void Receiver::announce_news() {
    readers_.clear();
    for (const std::uint32_t net_id : news_)
        references_.for_each_referrer(net_id, [&](std::uint32_t reader) { readers_.push_back(reader); });
    news_.clear();
    for (const std::uint32_t reader : readers_) {
        slot(reader).has_news = true;
        touch(reader, slot(reader));
    }
}

void Receiver::write_values(Slot& slot) {
    if (slot.net_id == 0 || slot.is_suppressed) return;
    if (!world_.is_alive(slot.entity)) {
        slot.is_suppressed = true;
        stats_.suppressed += 1;
        return;
    }
    const Image before = slot.is_applied ? slot.versions.find(slot.applied)->image : Image{};
    binding_.restore(slot.entity, slot.versions.newest()->image, before, *this, slot.has_news);
}

void Receiver::finish_values(std::uint32_t index, Slot& slot) {
    slot.is_dirty = slot.has_news = false;
    if (slot.net_id == 0) return;
    const Version now = *slot.versions.newest();
    const Image before = slot.is_applied ? slot.versions.find(slot.applied)->image : Image{};
    binding_.remove_missing(slot.entity, now.image, before);
    references_.clear(index);
    binding_.for_each_reference(now.image, [&](std::uint32_t net_id) { references_.add(net_id, index); });
    slot.is_applied = true;
    slot.applied = now.tick;
    drop_old_versions(slot);
}

void Receiver::reset() {
    for (std::size_t page = 0; page < pages_.size(); ++page)
        for (std::uint32_t i = 0; pages_[page] && i < kPageSlots; ++i) {
            Slot& slot = pages_[page]->slots[i];
            if (slot.net_id != 0) close(static_cast<std::uint32_t>(page * kPageSlots + i), slot);
            slot = Slot{};
        }
    dirty_.clear();
    destroy_gone();
    news_.clear();
    rebases_.clear();
    completion_ = {};
    complete_.reset();
}

bool Receiver::is_consistent() const {
    std::vector<bool> is_dirty(pages_.size() * kPageSlots);
    for (const std::uint32_t index : dirty_) {
        if (is_dirty[index]) return false;
        is_dirty[index] = true;
    }
    std::size_t named = 0, versions = 0;
    for (std::uint32_t index = 0; index < is_dirty.size(); ++index) {
        const Slot* slot = find(index);
        if (!slot) continue;
        if (slot->is_dirty != is_dirty[index] || !slot->versions.is_consistent()) return false;
        if ((slot->net_id != 0) == slot->versions.empty()) return false;
        if (slot->is_applied && !slot->versions.find(slot->applied)) return false;
        if (world_.is_alive(slot->entity) && slot_at_[slot->entity.index] != index) return false;
        named += slot->net_id != 0 && slot_of_.find(slot->net_id) == index;
        versions += slot->versions.size();
    }
    return completion_.is_consistent() && named == slot_of_.size() && versions == pool_.in_use() &&
           slot_of_.is_consistent() && references_.is_consistent();
}

}  // namespace shoal::replication
