#include "owned_wire.h"

#include "../codec/codec.h"
#include "control_codec.h"

namespace shoal::replication::impl {
namespace {

constexpr unsigned kNetIdOrder = 2, kComponentOrder = 2, kEpochOrder = 0, kStepOrder = 0;
constexpr unsigned kVersionBits = 24, kTickBits = 12;

bool has_input(const Schema& schema) {
    return !schema.structs(StructKind::input).empty();
}

/// Returns the number nearest to `expected` that has these low bits.
std::uint32_t nearest(std::uint32_t low, unsigned bits, std::uint32_t expected) {
    const std::uint32_t range = std::uint32_t{1} << bits;
    return expected + ((low - expected + range / 2) % range) - range / 2;
}

}  // namespace

// The format is specified in ../WIRE.md.

void write_owned(const Schema& schema, const OwnedValue& value, const OwnedValue* previous, BitWriter& out) {
    const Before& before = value.before;
    if (!previous) {
        out.write(value.version % (1u << kVersionBits), kVersionBits);
        if (has_input(schema)) out.write(before.tick % (1u << kTickBits), kTickBits);
        out.write(value.net_id, 32);
    } else {
        out.write_golomb(value.version - previous->version - 1, kStepOrder);
        if (has_input(schema)) out.write_golomb(before.tick - previous->before.tick, kStepOrder);
        out.write_golomb(zigzag(value.net_id - previous->net_id), kNetIdOrder);
    }
    const Before last = previous ? previous->before : Before{};
    const bool is_other = before.messages != last.messages || before.actions != last.actions;
    out.write_bool(is_other);
    if (is_other) {
        write_field(before.messages, out);
        out.write_bool(before.actions.has_value());
        if (before.actions) write_field(*before.actions, out);
    }
    out.write_golomb(value.component, kComponentOrder);
    out.write_golomb(value.epoch, kEpochOrder);
    write_value(schema.components()[value.component].layout, {}, value.words, out);
}

bool read_owned(const Schema& schema, const OwnedValue* previous, const OwnedValue& expected, BitReader& in,
                OwnedValue& value) {
    value.before = previous ? previous->before : Before{};
    if (!previous) {
        value.version = nearest(in.read(kVersionBits), kVersionBits, expected.version);
        if (has_input(schema))
            value.before.tick = nearest(in.read(kTickBits), kTickBits, expected.before.tick);
        value.net_id = in.read(32);
    } else {
        value.version = previous->version + in.read_golomb(kStepOrder) + 1;
        if (has_input(schema)) value.before.tick += in.read_golomb(kStepOrder);
        value.net_id = previous->net_id + unzigzag(in.read_golomb(kNetIdOrder));
    }
    if (in.read_bool()) {
        read_field(value.before.messages, in);
        value.before.actions.reset();
        if (in.read_bool()) read_field(value.before.actions.emplace(), in);
    }
    const std::uint32_t component = in.read_golomb(kComponentOrder);
    if (component >= schema.components().size() || schema.components()[component].role != Role::owner)
        return false;
    value.component = static_cast<ComponentIndex>(component);
    const std::uint32_t epoch = in.read_golomb(kEpochOrder);
    value.epoch = static_cast<std::uint16_t>(epoch);
    return epoch <= 0xffff && read_value(schema.components()[component].layout, {}, in, value.words) &&
           in.ok();
}

}  // namespace shoal::replication::impl
