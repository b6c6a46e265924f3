#include "state_packet.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "coder.h"

namespace shoal::replication::impl {

// The format is specified in ../WIRE.md.
namespace {

constexpr unsigned kMaxGapOrder = 16;
constexpr Tick kUsualOlder = 2;
constexpr std::uint32_t kExtension = 255;

/// Codes the packets that a completion or group marker names.
template <Coder C, class Needed>
void code_needed(C& coder, Needed& needed) {
    needed.distance = coder.golomb(needed.distance, 2);
    if (needed.distance > kMaxPacketDistance) coder.fail();
    if (needed.distance > 0) needed.others = coder.golomb(needed.others, 0);
    if (needed.others > needed.distance) coder.fail();
}

template <Coder C>
void code_state_header(C& coder, StateHeader& header) {
    if (coder.flag(header.anchor.has_value())) {
        if (!header.anchor) header.anchor = StateHeader::Anchor{};
        StateHeader::Anchor& anchor = *header.anchor;
        std::uint32_t distance = coder.golomb(header.check ? kExtension : anchor.distance - 1, 2);
        if (distance == kExtension) {
            if (!header.check) header.check = StateHeader::Check{};
            header.check->slot = coder.golomb(header.check->slot, 8);
            header.check->age = coder.golomb(header.check->age, 3);
            header.check->sum = static_cast<std::uint16_t>(coder.fixed(header.check->sum, 16));
            distance = coder.golomb(anchor.distance - 1, 2);
        }
        anchor.distance = distance + 1;
        if (anchor.distance == 0 || anchor.distance > kMaxPacketDistance) coder.fail();
        anchor.age = anchor.distance + unzigzag(coder.golomb(zigzag(anchor.age - anchor.distance), 0));
        anchor.older = kUsualOlder + unzigzag(coder.golomb(zigzag(anchor.older - kUsualOlder), 0));
        header.is_listed = coder.flag(header.is_listed);
        if (header.is_listed && anchor.distance > kMaxListDistance) coder.fail();
        header.is_uniform = header.is_listed && coder.flag(header.is_uniform);
    } else {
        header.tick = coder.fixed(header.tick, 32);
    }
    if (coder.flag(header.complete.has_value())) {
        if (!header.complete) header.complete = StateHeader::Complete{};
        StateHeader::Complete& complete = *header.complete;
        code_needed(coder, complete);
        complete.quiet = coder.golomb(complete.quiet, 0);
        header.group = StateHeader::Group{complete.distance, complete.others};
    } else if (header.predicts && coder.flag(header.group.has_value())) {
        if (!header.group) header.group = StateHeader::Group{};
        code_needed(coder, *header.group);
    }
    if (header.has_inputs && coder.flag(header.margin.has_value())) {
        if (!header.margin) header.margin = StateHeader::Margin{};
        StateHeader::Margin& margin = *header.margin;
        margin.packet = static_cast<std::uint8_t>(coder.fixed(margin.packet, 8));
        margin.eighths = static_cast<std::int32_t>(
            unzigzag(coder.golomb(zigzag(static_cast<std::uint32_t>(margin.eighths)), 4)));
        margin.is_late = coder.flag(margin.is_late);
    }
    header.record_count = coder.golomb(header.record_count, 3);
    header.coding = coder.flag(header.coding == Coding::range) ? Coding::range : Coding::bits;
    if (header.coding == Coding::range && coder.flag(header.model != 0)) {
        header.model = static_cast<std::uint8_t>(coder.fixed(header.model, 2));
        if (C::kReads && header.model == 0) coder.fail();
    }
}

/// Calls code(coder). Returns the number of bits that are written to `out`; only counts them if it is null.
template <class Code>
std::size_t write_bits(BitWriter* out, Code&& code) {
    BitCounter counter;
    if (!out) return code(counter), counter.bits();
    const std::size_t before = out->bit_count();
    BitEncoder encoder(*out);
    code(encoder);
    return out->bit_count() - before;
}

}  // namespace

/// Codes which slot the record is of. Returns whether it is a listed one.
template <class C>
bool RecordHeaderCoder::code_slot(C& coder, RecordHeader& record) {
    while (next_listed_ < listed_.size()) {
        const std::uint32_t slot = listed_[next_listed_++];
        if (!coder.flag(record.slot == slot)) continue;
        record.slot = slot;
        return true;
    }
    assert(C::kReads || record.slot >= next_slot_);
    const std::uint32_t gap = coder.golomb(record.slot - next_slot_, gap_order_);
    gap_order_ = std::min((gap_order_ + static_cast<unsigned>(std::bit_width(gap)) + 1) / 2, kMaxGapOrder);
    const std::uint64_t slot = std::uint64_t{next_slot_} + gap;
    if (slot >= 0xffffffffu) coder.fail();
    record.slot = static_cast<std::uint32_t>(slot);
    next_slot_ = record.slot + 1;
    return false;
}

/// Codes the versions of a delta that differ from those of the anchor.
template <class C>
void RecordHeaderCoder::code_versions(C& coder, RecordHeader& record) {
    const bool is_same = record.baseline == other_tick_ && record.older == other_older_;
    if (other_tick_ && coder.flag(is_same)) {
        record.baseline = *other_tick_;
        record.older = other_older_;
    } else {
        record.baseline = tick_ - coder.golomb(tick_ - record.baseline - 1, 5) - 1;
        record.older = coder.golomb(record.older, 1);
    }
    other_tick_ = record.baseline;
    other_older_ = record.older;
}

template <class C>
void RecordHeaderCoder::code(C& coder, RecordHeader& record) {
    const bool is_listed = code_slot(coder, record);
    const bool is_delta = record.kind == RecordKind::delta;
    const bool has_usual = is_delta && record.baseline == anchor_tick_ && record.older == anchor_older_;
    if ((is_listed && is_uniform_) || coder.flag(has_usual)) {
        if (!anchor_tick_) coder.fail();
        record.kind = RecordKind::delta;
        record.baseline = anchor_tick_.value_or(0);
        record.older = anchor_older_;
    } else if (coder.flag(is_delta)) {
        record.kind = RecordKind::delta;
        code_versions(coder, record);
    } else if (coder.flag(record.kind == RecordKind::full)) {
        record.kind = RecordKind::full;
        record.net_id = last_net_id_ == 0
                            ? coder.fixed(record.net_id, 32)
                            : last_net_id_ + unzigzag(coder.golomb(zigzag(record.net_id - last_net_id_), 2));
        if (record.net_id == 0 || is_pending(record.net_id)) coder.fail();
        last_net_id_ = record.net_id;
        if (coder.flag(record.pending != 0)) {
            record.pending = coder.golomb(record.pending, 8);
            if (record.pending == 0 || record.pending > 0xff'ffff) coder.fail();
        }
    } else {
        record.kind = RecordKind::despawn;
        record.reason = static_cast<Despawn>(coder.fixed(static_cast<std::uint32_t>(record.reason), 2));
        if (record.reason > Despawn::out_of_view) coder.fail();
    }
}

std::size_t RecordHeaderCoder::write(RecordHeader record, BitWriter* out) {
    return write_bits(out, [&](auto& coder) { code(coder, record); });
}

RecordHeader RecordHeaderCoder::read(BitReader& in) {
    RecordHeader record;
    BitDecoder decoder(in);
    code(decoder, record);
    return record;
}

std::size_t write_state_header(StateHeader header, BitWriter* out) {
    return write_bits(out, [&](auto& coder) { code_state_header(coder, header); });
}

StateHeader read_state_header(BitReader& in, bool predicts, bool has_inputs) {
    StateHeader header;
    header.predicts = predicts;
    header.has_inputs = has_inputs;
    BitDecoder decoder(in);
    code_state_header(decoder, header);
    return header;
}

}  // namespace shoal::replication::impl
