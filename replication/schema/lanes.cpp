#include "lanes.h"

#include "quantise.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace shoal::replication {
namespace {

constexpr double kMostSteps = 4294967295.0;

template <class T>
T load(const void* value, std::uint32_t offset) {
    T out;
    std::memcpy(&out, static_cast<const std::byte*>(value) + offset, sizeof out);
    return out;
}
template <class T>
void store(void* value, std::uint32_t offset, T field) {
    std::memcpy(static_cast<std::byte*>(value) + offset, &field, sizeof field);
}

bool is_float(FieldType type) {
    return type == FieldType::f32 || type == FieldType::f64;
}
bool is_wide(FieldType type) {
    return type == FieldType::u64 || type == FieldType::i64 || type == FieldType::f64;
}
bool is_signed(FieldType type) {
    return type == FieldType::i8 || type == FieldType::i16 || type == FieldType::i32 ||
           type == FieldType::i64;
}
unsigned type_bits(FieldType type) {
    switch (type) {
        case FieldType::boolean:
            return 1;
        case FieldType::u8:
        case FieldType::i8:
            return 8;
        case FieldType::u16:
        case FieldType::i16:
            return 16;
        default:
            return 32;
    }
}

std::int64_t load_integer(const void* value, const Leaf& leaf) {
    switch (leaf.type) {
        case FieldType::boolean:
        case FieldType::u8:
            return load<std::uint8_t>(value, leaf.offset);
        case FieldType::i8:
            return load<std::int8_t>(value, leaf.offset);
        case FieldType::u16:
            return load<std::uint16_t>(value, leaf.offset);
        case FieldType::i16:
            return load<std::int16_t>(value, leaf.offset);
        case FieldType::u32:
            return load<std::uint32_t>(value, leaf.offset);
        case FieldType::i32:
            return load<std::int32_t>(value, leaf.offset);
        default:
            return load<std::int64_t>(value, leaf.offset);
    }
}
void store_integer(void* value, const Leaf& leaf, std::int64_t field) {
    switch (leaf.type) {
        case FieldType::boolean:
            return store(value, leaf.offset, field != 0);
        case FieldType::u8:
            return store(value, leaf.offset, static_cast<std::uint8_t>(field));
        case FieldType::i8:
            return store(value, leaf.offset, static_cast<std::int8_t>(field));
        case FieldType::u16:
            return store(value, leaf.offset, static_cast<std::uint16_t>(field));
        case FieldType::i16:
            return store(value, leaf.offset, static_cast<std::int16_t>(field));
        case FieldType::u32:
            return store(value, leaf.offset, static_cast<std::uint32_t>(field));
        case FieldType::i32:
            return store(value, leaf.offset, static_cast<std::int32_t>(field));
        default:
            return store(value, leaf.offset, field);
    }
}

/// Number of whole steps in the range. Tolerates a small rounding error: a double does not hold a
/// step like 0.01 exactly.
double step_count(const FieldCodec& codec) {
    return std::floor((codec.max - codec.min) / codec.step + 1e-6);
}

/// Returns the nearest step, ties upwards. A restored value gives the same step again: finish() refuses a
/// codec if rounding to the field's type could change a value by more than a quarter of a step.
std::uint32_t nearest_step(double value, const Leaf& leaf, std::uint64_t& clamped) {
    const double nearest = std::floor((value - leaf.codec.min) / leaf.codec.step + 0.5);
    if (!(nearest >= 0 && (nearest <= leaf.steps || value <= leaf.codec.max))) ++clamped;
    if (!(nearest > 0)) return 0;  // also if the value is NaN
    return static_cast<std::uint32_t>(std::min(nearest, leaf.steps));
}

[[gnu::always_inline]] inline std::uint32_t* quantise_leaf(const Leaf& leaf, const void* value,
                                                           EntityMap& map, std::uint32_t* lanes,
                                                           std::uint64_t& clamped) {
    const FieldCodec& codec = leaf.codec;
    if (leaf.type == FieldType::entity) {
        *lanes++ = map.to_net(load<ecs::Entity>(value, leaf.offset));
    } else if (codec.kind == FieldCodec::Kind::quantised) {
        const bool is_single = leaf.type == FieldType::f32;
        const double field = is_single ? load<float>(value, leaf.offset) : load<double>(value, leaf.offset);
        *lanes++ = nearest_step(field, leaf, clamped);
    } else if (leaf.type == FieldType::f32) {
        if (is_computed(codec.kind)) return quantise_computed(leaf, value, lanes, clamped);
        *lanes++ = load<std::uint32_t>(value, leaf.offset);
    } else if (is_wide(leaf.type) && codec.kind != FieldCodec::Kind::bounded) {
        if (is_computed(codec.kind)) return quantise_computed(leaf, value, lanes, clamped);
        const std::uint64_t bits = load<std::uint64_t>(value, leaf.offset);
        *lanes++ = static_cast<std::uint32_t>(bits);
        *lanes++ = static_cast<std::uint32_t>(bits >> 32);
    } else {
        std::int64_t field = load_integer(value, leaf);
        if (codec.kind == FieldCodec::Kind::bounded) {
            if (leaf.type == FieldType::u64 && field < 0) field = std::numeric_limits<std::int64_t>::max();
            if (field < leaf.low || field > leaf.high) ++clamped;
            field = std::clamp(field, leaf.low, leaf.high) - leaf.low;
        }
        *lanes++ = static_cast<std::uint32_t>(field);  // sign-extended
    }
    return lanes;
}

/// Quantises the fields of a component or element. Returns the end of their lanes.
[[gnu::noinline]] std::uint32_t* quantise_row(const std::vector<Leaf>& leaves, const void* value,
                                              EntityMap& map, std::uint32_t* lanes, std::uint64_t& clamped) {
    for (const Leaf& leaf : leaves) lanes = quantise_leaf(leaf, value, map, lanes, clamped);
    return lanes;
}

const std::uint32_t* restore_leaf(const Leaf& leaf, const std::uint32_t* lanes, EntityMap& map, void* value) {
    const FieldCodec& codec = leaf.codec;
    if (leaf.type == FieldType::entity) {
        store(value, leaf.offset, map.to_entity(*lanes++));
    } else if (codec.kind == FieldCodec::Kind::quantised) {
        const double field = codec.min + *lanes++ * codec.step;
        if (leaf.type == FieldType::f32) {
            store(value, leaf.offset, static_cast<float>(field));
        } else {
            store(value, leaf.offset, field);
        }
    } else if (codec.kind == FieldCodec::Kind::bounded) {
        store_integer(value, leaf, leaf.low + *lanes++);
    } else if (is_computed(codec.kind)) {
        lanes = restore_computed(leaf, lanes, value);
    } else if (is_wide(leaf.type)) {
        store(value, leaf.offset, std::uint64_t{lanes[0]} | std::uint64_t{lanes[1]} << 32);
        lanes += 2;
    } else if (leaf.type == FieldType::f32) {
        store(value, leaf.offset, *lanes++);
    } else {
        store_integer(value, leaf, *lanes++);
    }
    return lanes;
}

Lane full_lane(LaneKind kind) {
    return Lane{kind, 32, false, 0xffffffffu};
}

Lane bounded_lane(LaneKind kind, std::uint32_t max) {
    return Lane{kind, static_cast<std::uint8_t>(std::bit_width(std::max(1u, max))), true, max};
}

/// Appends the lanes of a leaf. Returns why the codec does not fit the field, or an empty text if it fits.
std::string append_lanes(Leaf& leaf, std::vector<Lane>& lanes) {
    const FieldCodec& codec = leaf.codec;
    if (codec.max_length != 0) return "max_length() is for strings and vectors";
    if (is_computed(codec.kind)) return append_computed_lanes(leaf, lanes);
    if (leaf.is_enum && codec.kind == FieldCodec::Kind::quantised)
        return "quantised() is for float and double";
    const LaneKind ordered = leaf.is_enum ? LaneKind::symbol : LaneKind::quantity;
    if (codec.kind == FieldCodec::Kind::quantised) {
        if (!is_float(leaf.type)) return "quantised() is for float and double";
        if (!(codec.min < codec.max) || !(codec.step > 0)) return "quantised() needs min < max and step > 0";
        const double steps = leaf.steps = step_count(codec);
        if (!(steps >= 1 && steps <= kMostSteps)) return "quantised() has no step or more than 2^32";
        const double rounding = leaf.type == FieldType::f32 ? 0x1p-23 : 0x1p-50;
        const double reach = std::max(std::abs(codec.min), std::abs(codec.min + steps * codec.step));
        if (reach * rounding > codec.step / 4) return "quantised() has steps finer than the field's type";
        lanes.push_back(bounded_lane(LaneKind::quantity, static_cast<std::uint32_t>(steps)));
    } else if (codec.kind == FieldCodec::Kind::bounded) {
        if (is_float(leaf.type) || leaf.type == FieldType::entity || leaf.type == FieldType::boolean)
            return "bounded() is for integers and enums";
        if (!(codec.min <= codec.max) || std::abs(codec.min) > 0x1p53 || std::abs(codec.max) > 0x1p53 ||
            codec.max - codec.min > kMostSteps || codec.min != std::floor(codec.min) ||
            codec.max != std::floor(codec.max))
            return "bounded() needs whole numbers min <= max, at most 2^32 of them";
        const double bits = is_wide(leaf.type) ? 63 : type_bits(leaf.type);
        const double low = is_signed(leaf.type) ? -std::exp2(is_wide(leaf.type) ? 63 : bits - 1) : 0;
        const double high = std::exp2(is_signed(leaf.type) && !is_wide(leaf.type) ? bits - 1 : bits) - 1;
        if (codec.min < low || codec.max > high) return "bounded() exceeds the field's type";
        leaf.low = static_cast<std::int64_t>(codec.min);
        leaf.high = static_cast<std::int64_t>(codec.max);
        lanes.push_back(bounded_lane(ordered, static_cast<std::uint32_t>(codec.max - codec.min)));
    } else if (leaf.type == FieldType::entity) {
        lanes.push_back(full_lane(LaneKind::reference));
    } else if (leaf.type == FieldType::f32) {
        lanes.push_back(full_lane(LaneKind::real));
    } else if (is_wide(leaf.type)) {
        Lane half = full_lane(leaf.type == FieldType::f64 ? LaneKind::symbol : ordered);
        half.bounded = leaf.type == FieldType::f64;
        lanes.push_back(half);
        lanes.push_back(half);
    } else if (type_bits(leaf.type) == 32 || is_signed(leaf.type)) {
        // A signed field of 8 or 16 bits is sign-extended. restore_leaf() stores only the lane's low bits.
        lanes.push_back(full_lane(ordered));
    } else {
        const std::uint32_t max = 0xffffffffu >> (32 - type_bits(leaf.type));
        Lane lane = bounded_lane(leaf.type == FieldType::boolean ? LaneKind::symbol : ordered, max);
        lane.bounded = type_bits(leaf.type) <= 8 && !leaf.is_enum;
        lanes.push_back(lane);
    }
    return {};
}

bool in_one_group(const Lane& a, const Lane& b) {
    return a == b && a.kind != LaneKind::symbol;
}

}  // namespace

std::string misfit_of(Leaf leaf) {
    std::vector<Lane> lanes;
    leaf.scalars = scalars_of(leaf.codec.kind);
    return append_lanes(leaf, lanes);
}

std::string ComponentLayout::finish() {
    lanes_.clear();
    groups_.clear();
    for (Leaf& leaf : leaves_)
        if (std::string error = append_lanes(leaf, lanes_); !error.empty()) return error;
    for (Part& part : parts_) {
        part.lanes.clear();
        for (Leaf& leaf : part.leaves)
            if (std::string error = append_lanes(leaf, part.lanes); !error.empty()) return error;
    }
    for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
        const bool joins =
            !groups_.empty() && groups_.back().count < 4 && in_one_group(lanes_[i - 1], lanes_[i]);
        if (joins) {
            groups_.back().count += 1;
        } else {
            groups_.push_back({i, 1});
        }
    }
    piece_count_ = static_cast<std::uint32_t>(groups_.size() + parts_.size());
    const auto refers = [](const Lane& lane) { return lane.kind == LaneKind::reference; };
    has_references_ = std::any_of(lanes_.begin(), lanes_.end(), refers);
    for (const Part& part : parts_)
        has_references_ = has_references_ || std::any_of(part.lanes.begin(), part.lanes.end(), refers);
    return {};
}

void ComponentLayout::quantise(const void* value, EntityMap& map, std::uint32_t* lanes,
                               std::vector<std::uint32_t>& parts, Misfits& misfits) const {
    quantise_row(leaves_, value, map, lanes, misfits.clamped);
    for (const Part& part : parts_) {
        const void* sequence = static_cast<const std::byte*>(value) + part.offset;
        const std::size_t size = part.ops.size(sequence);
        const std::uint32_t count = static_cast<std::uint32_t>(std::min<std::size_t>(size, part.max_count));
        if (size > part.max_count) ++misfits.cut;
        const std::byte* element = static_cast<const std::byte*>(part.ops.data(sequence));
        std::size_t at = parts.size();
        parts.resize(at + 1 + count * part.lanes.size());
        parts[at++] = count;
        std::uint32_t* out = parts.data() + at;
        for (std::uint32_t n = 0; n < count; ++n, element += part.stride)
            out = quantise_row(part.leaves, element, map, out, misfits.clamped);
    }
}

void ComponentLayout::restore(const std::uint32_t* lanes, const std::uint32_t* parts, EntityMap& map,
                              void* value) const {
    for (const Leaf& leaf : leaves_) lanes = restore_leaf(leaf, lanes, map, value);
    for (const Part& part : parts_) {
        const std::uint32_t count = *parts++;
        std::byte* element =
            static_cast<std::byte*>(part.ops.resize(static_cast<std::byte*>(value) + part.offset, count));
        for (std::uint32_t n = 0; n < count; ++n, element += part.stride)
            for (const Leaf& leaf : part.leaves) parts = restore_leaf(leaf, parts, map, element);
    }
}

}  // namespace shoal::replication
