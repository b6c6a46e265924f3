#include "lanes.h"

#include "quantise.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

namespace shoal::replication::impl {
namespace {

constexpr double kMaxSteps = 4294967295.0;

template <class T>
T load(const void* value, std::size_t offset) {
    T out;
    std::memcpy(&out, static_cast<const std::byte*>(value) + offset, sizeof out);
    return out;
}
template <class T>
void store(void* value, std::size_t offset, T field) {
    std::memcpy(static_cast<std::byte*>(value) + offset, &field, sizeof field);
}

bool is_wide(FieldType type) {
    return type == FieldType::u64 || type == FieldType::i64 || type == FieldType::f64;
}
struct TypeSize {
    std::uint8_t bytes, bits;  // bits: of a lane, if the type is not wide
    bool is_signed = false;    // an integer with a sign
};
constexpr TypeSize kSizes[] = {{1, 1},        {1, 8},  {1, 8, true},  {2, 16}, {2, 16, true}, {4, 32},
                               {4, 32, true}, {8, 32}, {8, 32, true}, {4, 32}, {8, 32},       {8, 32}};

const TypeSize& size_info(FieldType type) {
    return kSizes[static_cast<std::size_t>(type)];
}

/// Calls use(T{}) with the integer type that has the size and the sign of the field.
template <class Use>
[[gnu::always_inline]] inline auto with_integer(FieldType type, Use&& use) {
    switch (type) {
        case FieldType::boolean:
        case FieldType::u8:
            return use(std::uint8_t{});
        case FieldType::i8:
            return use(std::int8_t{});
        case FieldType::u16:
            return use(std::uint16_t{});
        case FieldType::i16:
            return use(std::int16_t{});
        case FieldType::u32:
        case FieldType::f32:
            return use(std::uint32_t{});
        case FieldType::i32:
            return use(std::int32_t{});
        default:
            return use(std::int64_t{});
    }
}
/// Returns the bits of a field. Integers are sign-extended.
std::int64_t load_bits(const void* value, std::size_t offset, FieldType type) {
    return with_integer(type, [&]<class T>(T) -> std::int64_t { return load<T>(value, offset); });
}
void store_integer(void* value, const Leaf& leaf, std::int64_t field) {
    if (leaf.type == FieldType::boolean) field = field != 0;
    with_integer(leaf.type, [&]<class T>(T) { store(value, leaf.offset, static_cast<T>(field)); });
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

/// Returns the difference to the least value of the codec.
std::uint32_t bounded_value(std::int64_t field, const Leaf& leaf, std::uint64_t& clamped) {
    const std::uint64_t lane = static_cast<std::uint64_t>(field) - static_cast<std::uint64_t>(leaf.low);
    const std::uint64_t most = static_cast<std::uint64_t>(leaf.high - leaf.low);
    if (lane <= most) return static_cast<std::uint32_t>(lane);
    ++clamped;
    const bool is_huge = leaf.type == FieldType::u64 && field < 0;
    return field < leaf.low && !is_huge ? 0 : static_cast<std::uint32_t>(most);
}

/// Replaces NaN by 0, and an infinity by the greatest number of its sign. `bits` are of a float or double.
std::int64_t to_finite(std::int64_t bits, FieldType type, std::uint64_t& clamped) {
    const std::int64_t infinity = type == FieldType::f32 ? 0x7f80'0000 : 0x7ff0'0000'0000'0000;
    const std::int64_t fraction = (infinity & -infinity) - 1;
    if ((bits & infinity) != infinity) return bits;
    ++clamped;
    return (bits & fraction) == 0 ? bits - 1 : 0;
}

[[gnu::always_inline]] inline std::uint32_t* quantise_leaf(const Leaf& leaf, const void* value,
                                                           EntityMap& map, std::uint32_t* lanes,
                                                           std::uint64_t& clamped) {
    const FieldCodec::Kind kind = leaf.codec.kind;
    if (is_computed(kind)) return quantise_computed(leaf, value, lanes, clamped);
    if (leaf.type == FieldType::entity) {
        *lanes++ = map.to_net(load<ecs::Entity>(value, leaf.offset));
    } else if (kind == FieldCodec::Kind::quantised) {
        *lanes++ = nearest_step(load_float(leaf.type, value, leaf.offset), leaf, clamped);
    } else {
        std::int64_t bits = load_bits(value, leaf.offset, leaf.type);
        if (kind == FieldCodec::Kind::automatic && is_float(leaf.type))
            bits = to_finite(bits, leaf.type, clamped);
        if (kind == FieldCodec::Kind::bounded) {
            *lanes++ = bounded_value(bits, leaf, clamped);
        } else {
            *lanes++ = static_cast<std::uint32_t>(bits);
            if (is_wide(leaf.type)) *lanes++ = static_cast<std::uint32_t>(bits >> 32);
        }
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
        store_float(leaf.type, value, leaf.offset, field);
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

/// Appends the lanes of a leaf. Returns why the codec does not fit the field, or an empty text if it fits.
std::string append_lanes(Leaf& leaf, std::vector<Lane>& lanes) {
    const FieldCodec& codec = leaf.codec;
    if (codec.max_length != 0) return "max_length() is for strings and vectors";
    if (is_computed(codec.kind)) return append_computed_lanes(leaf, lanes);
    if (codec.kind == FieldCodec::Kind::any_float && !is_float(leaf.type))
        return "any_float() is for float and double";
    const LaneKind ordered = leaf.is_enum ? LaneKind::symbol : LaneKind::quantity;
    if (codec.kind == FieldCodec::Kind::quantised) {
        if (!is_float(leaf.type)) return "quantised() is for float and double";
        if (!(codec.min < codec.max) || !(codec.step > 0)) return "quantised() needs min < max and step > 0";
        const double steps = leaf.steps = step_count(codec);
        if (!(steps >= 1 && steps <= kMaxSteps)) return "quantised() has no step or more than 2^32";
        const double rounding = leaf.type == FieldType::f32 ? 0x1p-23 : 0x1p-50;
        const double reach = std::max(std::abs(codec.min), std::abs(codec.min + steps * codec.step));
        if (reach * rounding > codec.step / 4) return "quantised() has steps finer than the field's type";
        if (leaf.type == FieldType::f32 && reach > std::numeric_limits<float>::max())
            return "quantised() exceeds the field's type";
        lanes.push_back(bounded_lane(LaneKind::quantity, static_cast<std::uint32_t>(steps)));
    } else if (codec.kind == FieldCodec::Kind::bounded) {
        if (is_float(leaf.type) || leaf.type == FieldType::entity || leaf.type == FieldType::boolean)
            return "bounded() is for integers and enums";
        if (!(codec.min <= codec.max) || std::abs(codec.min) > 0x1p53 || std::abs(codec.max) > 0x1p53 ||
            codec.max - codec.min > kMaxSteps || codec.min != std::floor(codec.min) ||
            codec.max != std::floor(codec.max))
            return "bounded() needs whole numbers min <= max, at most 2^32 of them";
        const bool is_signed = size_info(leaf.type).is_signed;
        const double limit = std::exp2(is_wide(leaf.type) ? 63 : size_info(leaf.type).bits - is_signed);
        const double low = is_signed ? -limit : 0, high = limit - 1;
        if (codec.min < low || codec.max > high) return "bounded() exceeds the field's type";
        leaf.low = static_cast<std::int64_t>(codec.min);
        leaf.high = static_cast<std::int64_t>(codec.max);
        lanes.push_back(bounded_lane(ordered, static_cast<std::uint32_t>(codec.max - codec.min)));
    } else if (leaf.type == FieldType::entity) {
        lanes.push_back(Lane{LaneKind::reference});
    } else if (leaf.type == FieldType::f32) {
        lanes.push_back(Lane{LaneKind::real});
        lanes.back().is_finite = codec.kind == FieldCodec::Kind::automatic;
    } else if (leaf.type == FieldType::f64) {
        lanes.insert(lanes.end(), 2, bounded_lane(LaneKind::symbol, 0xffffffff));
        lanes.back().is_finite = codec.kind == FieldCodec::Kind::automatic;
    } else if (is_wide(leaf.type)) {
        lanes.insert(lanes.end(), 2, Lane{ordered});
    } else if (size_info(leaf.type).is_signed) {
        // A field of 8 or 16 bits is sign-extended. restore_leaf() stores only the lane's low bits.
        lanes.push_back(Lane{ordered});
    } else {
        const unsigned bits = size_info(leaf.type).bits;
        const std::uint32_t max = 0xffffffffu >> (32 - bits);
        Lane lane = bounded_lane(leaf.type == FieldType::boolean ? LaneKind::symbol : ordered, max);
        lane.bounded = bits <= 8 && !leaf.is_enum;
        lanes.push_back(lane);
    }
    return {};
}

const std::byte* at_offset(const void* object, std::uint32_t offset) {
    return static_cast<const std::byte*>(object) + offset;
}
std::byte* at_offset(void* object, std::uint32_t offset) {
    return static_cast<std::byte*>(object) + offset;
}

class PartRestorer {
public:
    /// `words`: the words of all parts.
    PartRestorer(const std::vector<Part>& parts, const std::uint32_t* words, EntityMap& map,
                 PointerStack& stack)
        : parts_(parts), map_(map), stack_(stack), first_(stack.size()) {
        for (const Part& part : parts) {
            stack.push_back(words + 1);
            words = part.end(words);
        }
    }
    ~PartRestorer() { stack_.resize(first_); }
    PartRestorer(const PartRestorer&) = delete;
    PartRestorer& operator=(const PartRestorer&) = delete;

    /// Restores one string, vector, optional or map of a part, and the parts inside it.
    void restore(std::uint32_t index, std::uint32_t count, void* container) {
        const Part& part = parts_[index];
        void* const sequence = at_offset(container, part.offset);
        if (!part.ops.write) {
            std::byte* element = static_cast<std::byte*>(part.ops.resize(sequence, count));
            for (std::uint32_t n = 0; n < count; ++n, element += part.stride)
                restore_fields(part, take_element(index), false, element);
            return;
        }
        const std::uint32_t* words = nullptr;  // of the entry
        const auto write = [&](void* at, bool is_key) {
            if (is_key) words = take_element(index);
            restore_fields(part, words, is_key, at);
        };
        part.ops.write(sequence, count, stack_, std::ref(write));
    }

private:
    const std::uint32_t* take_element(std::uint32_t index) {
        const void*& next = stack_[first_ + index];
        const auto* const words = static_cast<const std::uint32_t*>(next);
        next = words + parts_[index].lanes.size();
        return words;
    }
    /// Restores the key of a map's entry, or all other fields of an element.
    void restore_fields(const Part& part, const std::uint32_t* words, bool is_key, void* element) {
        const std::uint32_t* lengths = words + part.lanes.size() - part.children.size();
        for (const Leaf& leaf : part.leaves) {
            if ((leaf.offset < part.value_offset) == is_key) {
                words = restore_leaf(leaf, words, map_, element);
            } else {
                words += leaf.lane_count;
            }
        }
        for (const std::uint32_t child : part.children) {
            const std::uint32_t length = *lengths++;
            if ((parts_[child].offset < part.value_offset) == is_key) restore(child, length, element);
        }
    }

    const std::vector<Part>& parts_;
    EntityMap& map_;
    PointerStack& stack_;  // from first_ on: the next element of each part
    const std::size_t first_;
};

/// Returns the number of elements of the part in the component or element `container` that are not cut.
std::uint32_t length_of(const Part& part, const void* container) {
    const std::size_t size = part.ops.size(at_offset(container, part.offset));
    return static_cast<std::uint32_t>(std::min<std::size_t>(size, part.max_length));
}

}  // namespace

std::size_t size_of(FieldType type) {
    return size_info(type).bytes;
}

double load_float(FieldType type, const void* value, std::size_t offset) {
    return type == FieldType::f32 ? load<float>(value, offset) : load<double>(value, offset);
}

void store_float(FieldType type, void* value, std::size_t offset, double number) {
    if (type == FieldType::f64) return store(value, offset, number);
    store(value, offset, static_cast<float>(number));
}

double load_scalar(const Leaf& leaf, const void* value, std::uint32_t index) {
    assert(leaf.type != FieldType::entity);
    const std::size_t offset = leaf.offset + index * size_of(leaf.type);
    if (is_float(leaf.type)) return load_float(leaf.type, value, offset);
    const std::int64_t bits = load_bits(value, offset, leaf.type);
    return leaf.type == FieldType::u64 ? static_cast<double>(static_cast<std::uint64_t>(bits))
                                       : static_cast<double>(bits);
}

std::string misfit_of(Leaf leaf) {
    std::vector<Lane> lanes;
    leaf.scalars = scalars_of(leaf.codec.kind);
    return append_lanes(leaf, lanes);
}

std::string ComponentLayout::finish() {
    for (Leaf& leaf : leaves_) {
        const std::size_t first = lanes_.size();
        if (leaf.is_press) presses_.push_back(static_cast<std::uint32_t>(first));
        if (std::string error = append_lanes(leaf, lanes_); !error.empty()) return error;
        for (std::size_t i = first; i < lanes_.size(); ++i)
            is_rounded_.push_back(is_float(leaf.type) && lanes_[i].kind == LaneKind::quantity);
    }
    for (std::uint32_t i = 0; i < parts_.size(); ++i) {
        Part& part = parts_[i];
        for (Leaf& leaf : part.leaves) {
            const std::size_t first = part.lanes.size();
            if (std::string error = append_lanes(leaf, part.lanes); !error.empty()) return error;
            leaf.lane_count = static_cast<std::uint32_t>(part.lanes.size() - first);
        }
        part.max_count = part.max_length;
        if (part.ops.write) has_maps_ = true;
        if (part.parent == Part::kNone) continue;
        assert(part.parent < i);
        has_children_ = true;
        parts_[part.parent].children.push_back(i);
        const std::uint64_t count = std::uint64_t{parts_[part.parent].max_count} * part.max_length;
        part.max_count = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, 0xffffffff));
    }
    for (Part& part : parts_)
        for (const std::uint32_t child : part.children) {
            const std::uint32_t max = parts_[child].max_length;
            part.lanes.push_back(bounded_lane(max == 1 ? LaneKind::symbol : LaneKind::quantity, max));
        }
    for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
        const bool joins = i > 0 && groups_.back().count < 4 && lanes_[i].kind != LaneKind::symbol;
        if (joins && lanes_[i - 1] == lanes_[i]) {
            groups_.back().count += 1;
        } else {
            groups_.push_back({i, 1});
        }
    }
    for (LaneGroup& group : groups_) {
        if (group.first == 0 || group.count != 3) continue;
        const Lane &greatest = lanes_[group.first - 1], &other = lanes_[group.first];
        group.is_rotation = greatest.kind == LaneKind::symbol && greatest.bounded && greatest.max == 3 &&
                            other.kind == LaneKind::quantity && other.bounded && other.max < 1u << 20;
    }
    piece_count_ = static_cast<std::uint32_t>(groups_.size() + parts_.size());
    slot_count_ = kChangedSlots;
    for (LaneGroup& group : groups_) {
        group.slot = slot_count_;
        slot_count_ += kDiffersSlots + lane_slots(lanes_[group.first]);
    }
    for (Part& part : parts_) part.slot = std::exchange(slot_count_, slot_count_ + kDiffersSlots);
    const auto refers = [](const Lane& lane) { return lane.kind == LaneKind::reference; };
    has_references_ = std::any_of(lanes_.begin(), lanes_.end(), refers);
    for (const Part& part : parts_)
        has_references_ = has_references_ || std::any_of(part.lanes.begin(), part.lanes.end(), refers);
    has_only_lanes_ = !lanes_.empty() && parts_.empty() && !has_references_;
    return {};
}

void ComponentLayout::quantise(const void* value, EntityMap& map, std::uint32_t* lanes,
                               std::vector<std::uint32_t>& parts, Misfits& misfits,
                               PointerStack* stack) const {
    quantise_row(leaves_, value, map, lanes, misfits.clamped);
    if (!parts_.empty()) quantise_parts(value, map, parts, misfits, stack);
}

/// Quantises part by part. The stack gets the addresses of the elements of all parts, in which their children
/// are.
void ComponentLayout::quantise_parts(const void* value, EntityMap& map, std::vector<std::uint32_t>& parts,
                                     Misfits& misfits, PointerStack* shared_stack) const {
    PointerStack own_stack;
    PointerStack& stack = shared_stack ? *shared_stack : own_stack;
    const std::size_t bottom = stack.size(), start = parts.size();
    stack.push_back(value);
    for (const Part& part : parts_) {
        std::size_t container = bottom, containers = 1;
        if (part.parent != Part::kNone) {
            const std::uint32_t* words = parts.data() + start;
            for (std::uint32_t i = 0; i < part.parent; ++i) {
                container += words[0];
                words = parts_[i].end(words);
            }
            container += 1;
            containers = words[0];
        }
        const std::size_t first = stack.size(), width = part.lanes.size();
        for (std::size_t end = container + containers; container < end; ++container) {
            const void* const sequence = at_offset(stack[container], part.offset);
            const std::uint32_t count = length_of(part, stack[container]);
            if (part.ops.size(sequence) > count) ++misfits.cut;
            part.ops.read(sequence, count, stack);
        }
        const std::size_t count = stack.size() - first;
        parts.push_back(static_cast<std::uint32_t>(count));
        parts.resize(parts.size() + count * width);
        std::uint32_t* out = parts.data() + parts.size() - count * width;
        for (std::size_t i = first; i < stack.size(); ++i) {
            out = quantise_row(part.leaves, stack[i], map, out, misfits.clamped);
            for (const std::uint32_t child : part.children) *out++ = length_of(parts_[child], stack[i]);
        }
    }
    stack.resize(bottom);
}

void ComponentLayout::restore_leaves(const std::uint32_t* lanes, EntityMap& map, void* value) const {
    for (const Leaf& leaf : leaves_) lanes = restore_leaf(leaf, lanes, map, value);
}

void ComponentLayout::restore(const std::uint32_t* lanes, const std::uint32_t* parts, EntityMap& map,
                              void* value, PointerStack* stack) const {
    restore_leaves(lanes, map, value);
    if (has_children_ || has_maps_) {
        assert(lengths_match(parts));
        PointerStack own_stack;
        PartRestorer restorer(parts_, parts, map, stack ? *stack : own_stack);
        for (std::uint32_t i = 0; i < parts_.size(); ++i) {
            if (parts_[i].parent == Part::kNone) restorer.restore(i, *parts, value);
            parts = parts_[i].end(parts);
        }
        return;
    }
    for (const Part& part : parts_) {
        const std::uint32_t count = *parts++;
        std::byte* element = static_cast<std::byte*>(part.ops.resize(at_offset(value, part.offset), count));
        for (std::uint32_t n = 0; n < count; ++n, element += part.stride)
            for (const Leaf& leaf : part.leaves) parts = restore_leaf(leaf, parts, map, element);
    }
}

void ComponentLayout::restore_pair(const std::uint32_t* row, std::size_t value_offset, EntityMap& map,
                                   void* value) const {
    const std::uint32_t* lanes = row + 1;
    for (Leaf leaf : std::span(parts_[0].leaves).subspan(1)) {
        leaf.offset -= static_cast<std::uint32_t>(value_offset);
        lanes = restore_leaf(leaf, lanes, map, value);
    }
}

bool ComponentLayout::sums_match(const std::uint32_t* parts) const {
    const auto words_of = [&](std::uint32_t index) {
        const std::uint32_t* words = parts;
        for (std::uint32_t i = 0; i < index; ++i) words = parts_[i].end(words);
        return words;
    };
    for (std::uint32_t i = 0; i < parts_.size(); ++i) {
        const std::size_t width = parts_[i].lanes.size(), children = parts_[i].children.size();
        const std::uint32_t* const words = words_of(i);
        for (std::size_t c = 0; c < children; ++c) {
            std::uint64_t sum = 0;
            for (std::uint32_t n = 1; n <= words[0]; ++n) sum += words[n * width - children + c + 1];
            if (sum != *words_of(parts_[i].children[c])) return false;
        }
    }
    return true;
}

}  // namespace shoal::replication::impl
