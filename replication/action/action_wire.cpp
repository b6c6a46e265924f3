#include "action_wire.h"

#include <cassert>
#include <utility>

#include "../codec/codec.h"
#include "../play/control_codec.h"

namespace shoal::replication::impl {
namespace {

constexpr unsigned kTypeOrder = 2, kAgeOrder = 2, kCountOrder = 0, kNetIdOrder = 8, kLagOrder = 7;

void write_header(const ActionRecord& record, Tick tick, BitWriter& out) {
    out.write_golomb(record.type, kTypeOrder);
    out.write_golomb(zigzag(record.tick - tick), kAgeOrder);
    out.write_bool(record.lag.has_value());
    if (record.lag) out.write_golomb(*record.lag, kLagOrder);
    out.write_golomb(record.created, kCountOrder);
    if (record.created > 0) out.write(record.first_pending & 0xff'ffff, 24);
    out.write_golomb(static_cast<std::uint32_t>(record.touched.size()), kCountOrder);
    for (const NetId net_id : record.touched) out.write_golomb(net_id, kNetIdOrder);
}

bool read_header(const Schema& schema, Tick tick, BitReader& in, ActionRecord& record) {
    const std::uint32_t type = in.read_golomb(kTypeOrder);
    if (type >= schema.structs(StructKind::action).size()) return false;
    record.type = static_cast<std::uint8_t>(type);
    record.tick = tick + unzigzag(in.read_golomb(kAgeOrder));
    record.lag.reset();
    if (in.read_bool()) record.lag = in.read_golomb(kLagOrder);
    record.created = in.read_golomb(kCountOrder);
    if (record.created > kMaxCreated) return false;
    record.first_pending = record.created > 0 ? kFirstPending | in.read(24) : 0;
    const std::uint32_t touched = in.read_golomb(kCountOrder);
    if (touched > kMaxTouched) return false;
    record.touched.resize(touched);
    for (NetId& net_id : record.touched) net_id = in.read_golomb(kNetIdOrder);
    return in.ok();
}

const ComponentLayout& layout_of(const Schema& schema, const ActionRecord& record) {
    return schema.structs(StructKind::action)[record.type].layout;
}

/// Reads the arguments of an action.
bool read_arguments(const ComponentLayout& layout, BitReader& in, std::vector<std::uint32_t>& words) {
    const std::size_t before = in.bits_read();
    return read_value(layout, {}, in, words) && in.ok() && in.bits_read() - before <= kMaxActionBytes * 8;
}

}  // namespace

void write_actions(const Schema& schema, const ActionRun& run, BitWriter& out) {
    assert(!run.records.empty() && run.records.size() <= kMaxWaitingActions);
    out.write(run.first & 0xffff, 16);
    out.write(run.epoch, 8);
    const Tick tick = run.records.front().tick;
    out.write(tick, 32);
    out.write_golomb(static_cast<std::uint32_t>(run.records.size() - 1), 0);
    std::uint16_t messages = run.records.front().messages;
    out.write(messages, 16);
    std::uint32_t owned = run.records.front().owned;
    if (schema.has_owned()) out.write(owned, 32);
    for (const ActionRecord& record : run.records) {
        write_header(record, tick, out);
        out.write_golomb(static_cast<std::uint16_t>(record.messages - messages), 0);
        messages = record.messages;
        if (schema.has_owned()) out.write_golomb(record.owned - std::exchange(owned, record.owned), 0);
        write_value(layout_of(schema, record), {}, record.words, out);
    }
}

bool read_actions(const Schema& schema, std::uint32_t expected, BitReader& in,
                  std::vector<ActionRecord>& records, ActionRun& run) {
    const auto low = static_cast<std::uint16_t>(in.read(16));
    run.first = expected + static_cast<std::uint32_t>(static_cast<std::int16_t>(low - expected));
    run.epoch = static_cast<std::uint8_t>(in.read(8));
    const Tick tick = in.read(32);
    const std::uint64_t count = std::uint64_t{in.read_golomb(0)} + 1;
    if (!in.ok() || count > kMaxWaitingActions) return false;
    records.resize(static_cast<std::size_t>(count));
    std::uint32_t messages = in.read(16), owned = schema.has_owned() ? in.read(32) : 0;
    for (ActionRecord& record : records) {
        if (!read_header(schema, tick, in, record)) return false;
        messages += in.read_golomb(0);
        record.messages = static_cast<std::uint16_t>(messages);
        record.owned = owned += schema.has_owned() ? in.read_golomb(0) : 0;
        if (!in.ok() || !read_arguments(layout_of(schema, record), in, record.words)) return false;
    }
    run.records = records;
    return in.ok();
}

bool fits_action(const SchemaStruct& type, std::span<const std::uint32_t> words) {
    BitWriter out;
    write_value(type.layout, {}, words, out);
    return out.byte_count() <= kMaxActionBytes;
}

std::size_t measure_action(const Schema& schema, const ActionRecord& record) {
    BitWriter out;
    write_actions(schema, {0, 0, {&record, 1}}, out);
    return out.bit_count() + 64;  // in a run of several actions the tick and the count can take more bits
}

void write_earlier(const EarlierActions& actions, std::vector<std::byte>& out) {
    BitWriter bits;
    write_field(actions, bits);
    const std::vector<std::byte> bytes = to_bytes(bits);
    out.insert(out.end(), bytes.begin(), bytes.end());
}

std::optional<EarlierActions> take_earlier(std::span<const std::byte>& in) {
    BitReader bits(in);
    EarlierActions actions;
    read_field(actions, bits);
    if (!bits.ok()) return std::nullopt;
    in = in.subspan(bits.bits_read() / 8);
    return actions;
}

std::vector<std::byte> write_event(const Schema& schema, const ActionEvent& event) {
    BitWriter out;
    write_field(MessageKind::action_event, out);
    out.write(event.tick, 32);
    out.write(event.who.value, 32);
    if (event.who) out.write(event.player, 32);
    out.write_golomb(event.type, kTypeOrder);
    write_value(schema.structs(StructKind::action)[event.type].layout, {}, event.words, out);
    return to_bytes(out);
}

bool read_event(const Schema& schema, std::span<const std::byte> bytes, ActionEvent& event) {
    BitReader in(bytes);
    event.tick = in.read(32);
    event.who = {in.read(32)};
    event.player = event.who ? in.read(32) : 0;
    const std::uint32_t type = in.read_golomb(kTypeOrder);
    const std::vector<SchemaStruct>& actions = schema.structs(StructKind::action);
    if (type >= actions.size()) return false;
    event.type = static_cast<std::uint8_t>(type);
    return in.ok() && read_arguments(actions[type].layout, in, event.words) && in.at_padding();
}

}  // namespace shoal::replication::impl
