#include "state_packet.h"

#include <cassert>

namespace shoal::replication {

// State payload, bit-packed, least significant bit first. g(k): Golomb code of order k, see bits.h.
//   bits   field      present when
//   1      anchored   always: 1 if there is an anchor
//   32     tick       not anchored
//   g(2)   distance   anchored: this packet's number minus the anchor's, minus 1
//   g(2)   age        anchored: this tick minus the anchor's
//   1      complete   always: 1 if there is a completion marker
//   g(2)   distance   complete: this packet's number minus that of the oldest packet that the marker needs
//   g(0)   others     complete and distance > 0: how many of these `distance` packets carried no state
//   g(0)   quiet      complete: ticks since the last change in the sender's world
//   g(3)   count      always: number of records
// Record; the slots rise from record to record:
//   g(1)   gap        slot minus the slot of the previous record, minus 1; in the first record the slot
//   1      kind       1: delta, baseline at the anchor's tick; 0: the next bit decides
//   1      kind       1: delta, another baseline; 0: the next bit decides
//   1      kind       1: full record; 0: despawn record
//   g(5)   age        delta with another baseline: this tick minus that of the baseline, minus 1
//   32     net id     first full record of the packet
//   g(2)   net id     later full records: zigzag of the difference to the previous full record's net id
//   image             delta or full record: see codec.cpp
// After the last record: fewer than 8 zero bits. Rejected: distance over kMaxPacketDistance; others over
// distance; an anchor that the receiver did not accept; a delta based on a missing anchor; a slot over the
// receiver's limit; net id 0.

std::size_t write_state_header(const StateHeader& header, BitWriter* out) {
    std::size_t bits = 0;
    const auto fixed = [&](std::uint32_t value, unsigned width) {
        bits += width;
        if (out) out->write(value, width);
    };
    const auto golomb = [&](std::uint32_t value, unsigned k) {
        bits += golomb_bits(value, k);
        if (out) out->write_golomb(value, k);
    };
    fixed(header.anchor ? 1 : 0, 1);
    if (header.anchor) {
        golomb(header.anchor->distance - 1, 2);
        golomb(header.anchor->age, 2);
    } else {
        fixed(header.tick, 32);
    }
    fixed(header.complete ? 1 : 0, 1);
    if (header.complete) {
        golomb(header.complete->distance, 2);
        if (header.complete->distance > 0) golomb(header.complete->others, 0);
        golomb(header.complete->quiet, 0);
    }
    golomb(header.record_count, 3);
    return bits;
}

StateHeader read_state_header(BitReader& in) {
    StateHeader header;
    if (in.read_bool()) {
        StateHeader::Anchor anchor;
        anchor.distance = in.read_golomb(2);
        if (anchor.distance >= kMaxPacketDistance) in.fail();
        anchor.distance += 1;
        anchor.age = in.read_golomb(2);
        header.anchor = anchor;
    } else {
        header.tick = in.read(32);
    }
    if (in.read_bool()) {
        StateHeader::Complete complete;
        complete.distance = in.read_golomb(2);
        if (complete.distance > kMaxPacketDistance) in.fail();
        if (complete.distance > 0) complete.others = in.read_golomb(0);
        if (complete.others > complete.distance) in.fail();
        complete.quiet = in.read_golomb(0);
        header.complete = complete;
    }
    header.record_count = in.read_golomb(3);
    return header;
}

std::size_t RecordHeaderWriter::write(const RecordHeader& record) {
    assert(record.slot >= next_slot_);
    std::size_t bits = 0;
    const auto fixed = [&](std::uint32_t value, unsigned width) {
        bits += width;
        if (out_) out_->write(value, width);
    };
    const auto golomb = [&](std::uint32_t value, unsigned k) {
        bits += golomb_bits(value, k);
        if (out_) out_->write_golomb(value, k);
    };
    golomb(record.slot - next_slot_, 1);
    next_slot_ = record.slot + 1;
    const bool common = record.kind == RecordKind::delta && header_.anchor &&
                        record.baseline == header_.tick - header_.anchor->age;
    fixed(common ? 1 : 0, 1);
    if (common) return bits;
    fixed(record.kind == RecordKind::delta ? 1 : 0, 1);
    if (record.kind == RecordKind::delta) {
        golomb(header_.tick - record.baseline - 1, 5);
        return bits;
    }
    fixed(record.kind == RecordKind::whole ? 1 : 0, 1);
    if (record.kind == RecordKind::gone) return bits;
    if (last_net_id_ == 0) {
        fixed(record.net_id, 32);
    } else {
        golomb(zigzag(record.net_id - last_net_id_), 2);
    }
    last_net_id_ = record.net_id;
    return bits;
}

RecordHeader RecordHeaderReader::read() {
    RecordHeader record;
    const std::uint64_t slot = std::uint64_t{next_slot_} + in_.read_golomb(1);
    if (slot >= 0xffffffffu) in_.fail();
    record.slot = static_cast<std::uint32_t>(slot);
    next_slot_ = record.slot + 1;
    if (in_.read_bool()) {
        if (!baseline_) in_.fail();
        record.baseline = baseline_.value_or(0);
        return record;
    }
    if (in_.read_bool()) {
        record.baseline = tick_ - in_.read_golomb(5) - 1;
        return record;
    }
    record.kind = in_.read_bool() ? RecordKind::whole : RecordKind::gone;
    if (record.kind == RecordKind::gone) return record;
    record.net_id = last_net_id_ == 0 ? in_.read(32) : last_net_id_ + unzigzag(in_.read_golomb(2));
    if (record.net_id == 0) in_.fail();
    last_net_id_ = record.net_id;
    return record;
}

}  // namespace shoal::replication
