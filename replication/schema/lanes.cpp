#include "lanes.h"

#include "quantise.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <span>

namespace shoal::replication::all {
namespace {

constexpr double kMostSteps = 4294967295.0;

template <class T>
T load(const void* value, std::size_t offset) {
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

/// Returns the bits of a field. Integers are sign-extended.
std::int64_t load_bits(const void* value, std::size_t offset, FieldType type) {
    switch (type) {
        case FieldType::boolean:
        case FieldType::u8:
            return load<std::uint8_t>(value, offset);
        case FieldType::i8:
            return load<std::int8_t>(value, offset);
        case FieldType::u16:
            return load<std::uint16_t>(value, offset);
        case FieldType::i16:
            return load<std::int16_t>(value, offset);
        case FieldType::u32:
        case FieldType::f32:
            return load<std::uint32_t>(value, offset);
        case FieldType::i32:
            return load<std::int32_t>(value, offset);
        default:
            return load<std::int64_t>(value, offset);
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
        const bool is_single = leaf.type == FieldType::f32;
        const double field = is_single ? load<float>(value, leaf.offset) : load<double>(value, leaf.offset);
        *lanes++ = nearest_step(field, leaf, clamped);
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
    return Lane{kind, 32};
}

Lane bounded_lane(LaneKind kind, std::uint32_t max) {
    return {.kind = kind,
            .bits = static_cast<std::uint8_t>(std::bit_width(std::max(1u, max))),
            .bounded = true,
            .max = max};
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
        if (!(steps >= 1 && steps <= kMostSteps)) return "quantised() has no step or more than 2^32";
        const double rounding = leaf.type == FieldType::f32 ? 0x1p-23 : 0x1p-50;
        const double reach = std::max(std::abs(codec.min), std::abs(codec.min + steps * codec.step));
        if (reach * rounding > codec.step / 4) return "quantised() has steps finer than the field's type";
        const bool is_single = leaf.type == FieldType::f32;
        if (is_single && reach > std::numeric_limits<float>::max())
            return "quantised() exceeds the field's type";
        lanes.push_back(bounded_lane(LaneKind::quantity, static_cast<std::uint32_t>(steps)));
    } else if (codec.kind == FieldCodec::Kind::bounded) {
        if (is_float(leaf.type) || leaf.type == FieldType::entity || leaf.type == FieldType::boolean)
            return "bounded() is for integers and enums";
        if (!(codec.min <= codec.max) || std::abs(codec.min) > 0x1p53 || std::abs(codec.max) > 0x1p53 ||
            codec.max - codec.min > kMostSteps || codec.min != std::floor(codec.min) ||
            codec.max != std::floor(codec.max))
            return "bounded() needs whole numbers min <= max, at most 2^32 of them";
        const unsigned sign_bits = is_signed(leaf.type) ? 1 : 0;
        const double limit = std::exp2(is_wide(leaf.type) ? 63 : type_bits(leaf.type) - sign_bits);
        const double low = is_signed(leaf.type) ? -limit : 0, high = limit - 1;
        if (codec.min < low || codec.max > high) return "bounded() exceeds the field's type";
        leaf.low = static_cast<std::int64_t>(codec.min);
        leaf.high = static_cast<std::int64_t>(codec.max);
        lanes.push_back(bounded_lane(ordered, static_cast<std::uint32_t>(codec.max - codec.min)));
    } else if (leaf.type == FieldType::entity) {
        lanes.push_back(full_lane(LaneKind::reference));
    } else if (leaf.type == FieldType::f32) {
        lanes.push_back(full_lane(LaneKind::real));
        lanes.back().is_finite = codec.kind == FieldCodec::Kind::automatic;
    } else if (leaf.type == FieldType::f64) {
        lanes.insert(lanes.end(), 2, bounded_lane(LaneKind::symbol, 0xffffffff));
        lanes.back().is_finite = codec.kind == FieldCodec::Kind::automatic;
    } else if (is_wide(leaf.type)) {
        lanes.insert(lanes.end(), 2, full_lane(ordered));
    } else if (is_signed(leaf.type)) {
        // A field of 8 or 16 bits is sign-extended. restore_leaf() stores only the lane's low bits.
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

const std::byte* at_offset(const void* object, std::uint32_t offset) {
    return static_cast<const std::byte*>(object) + offset;
}
std::byte* at_offset(void* object, std::uint32_t offset) {
    return static_cast<std::byte*>(object) + offset;
}

/// Quantises one part of a component: all strings, vectors, optionals or maps that it stands for.
class PartQuantiser {
public:
    PartQuantiser(const std::vector<Part>& parts, const Part& part, EntityMap& map,
                  std::vector<std::uint32_t>& words, ComponentLayout::Misfits& misfits, PointerStack& stack)
        : parts_(parts),
          part_(part),
          map_(map),
          words_(words),
          misfits_(misfits),
          stack_(stack),
          start_(words.size()) {
        for (const Part* step = &part; step->parent != Part::kNone; step = &parts[step->parent]) ++depth_;
        std::size_t at = depth_;
        path_[at] = &part;
        while (at > 0) {
            path_[at - 1] = &parts[path_[at]->parent];
            --at;
        }
        words_.push_back(0);
    }

    /// Appends the words of the part. The constructor has appended the first one.
    void quantise(const void* component) { read_sequence(0, component); }

private:
    class Entries final : public EntryReader {
    public:
        Entries(PartQuantiser& to, std::size_t depth) : to_(to), depth_(depth) {}
        void read(const void* entry) override { to_.read_element(depth_, entry); }

    private:
        PartQuantiser& to_;
        const std::size_t depth_;
    };

    /// Reads the sequence of path_[depth] in `container`.
    void read_sequence(std::size_t depth, const void* container) {
        const Part& part = *path_[depth];
        const void* const sequence = at_offset(container, part.offset);
        const std::size_t size = part.ops.size(sequence);
        const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(size, part.max_length));
        if (depth == depth_) {
            if (size > count) ++misfits_.cut;
            next_ = words_.size();
            words_.resize(next_ + count * part.lanes.size());
            words_[start_] += count;
        }
        if (part.ops.read) {
            Entries entries(*this, depth);
            return part.ops.read(sequence, count, stack_, entries);
        }
        const std::byte* element = static_cast<const std::byte*>(part.ops.data(sequence));
        for (std::uint32_t n = 0; n < count; ++n, element += part.stride) read_element(depth, element);
    }
    void read_element(std::size_t depth, const void* element) {
        if (depth != depth_) return read_sequence(depth + 1, element);
        std::uint32_t* out =
            quantise_row(part_.leaves, element, map_, words_.data() + next_, misfits_.clamped);
        for (const std::uint32_t child : part_.children) {
            const Part& inner = parts_[child];
            const std::size_t size = inner.ops.size(at_offset(element, inner.offset));
            *out++ = static_cast<std::uint32_t>(std::min<std::size_t>(size, inner.max_length));
        }
        next_ += part_.lanes.size();
    }

    const std::vector<Part>& parts_;
    const Part& part_;
    EntityMap& map_;
    std::vector<std::uint32_t>& words_;
    ComponentLayout::Misfits& misfits_;
    PointerStack& stack_;
    const std::size_t start_;  // the word that contains the count
    std::size_t depth_ = 0;    // number of parts around part_
    std::size_t next_ = 0;     // the next element's first word
    const Part* path_[kMaxNesting] = {};
};

/// Restores nested parts, and maps.
class PartRestorer {
public:
    /// `words`: the words of all parts.
    PartRestorer(const std::vector<Part>& parts, const std::uint32_t* words, EntityMap& map,
                 PointerStack& stack)
        : parts_(parts), map_(map), stack_(stack), first_(stack.size()) {
        for (const Part& part : parts) {
            stack.push_back(words + 1);
            words += 1 + std::size_t{words[0]} * part.lanes.size();
        }
    }
    ~PartRestorer() { stack_.resize(first_); }
    PartRestorer(const PartRestorer&) = delete;
    PartRestorer& operator=(const PartRestorer&) = delete;

    /// Restores a part without a parent, and all parts inside it.
    void restore(std::uint32_t index, std::uint32_t count, void* component) {
        write_sequence(index, count, component);
    }

private:
    class Entries final : public EntryWriter {
    public:
        Entries(PartRestorer& from, std::uint32_t part) : from_(from), part_(part) {}
        void write_key(void* key) override {
            words_ = from_.take_element(part_);
            from_.write_fields(part_, words_, true, key);
        }
        void write_value(void* entry) override { from_.write_fields(part_, words_, false, entry); }

    private:
        PartRestorer& from_;
        const std::uint32_t part_;
        const std::uint32_t* words_ = nullptr;  // words of the entry
    };

    /// Returns the words of the part's next element.
    const std::uint32_t* take_element(std::uint32_t index) {
        const void*& next = stack_[first_ + index];
        const auto* const words = static_cast<const std::uint32_t*>(next);
        next = words + parts_[index].lanes.size();
        return words;
    }
    void write_sequence(std::uint32_t index, std::uint32_t count, void* container) {
        const Part& part = parts_[index];
        void* const sequence = at_offset(container, part.offset);
        if (part.ops.write) {
            Entries entries(*this, index);
            return part.ops.write(sequence, count, stack_, entries);
        }
        std::byte* element = static_cast<std::byte*>(part.ops.resize(sequence, count));
        for (std::uint32_t n = 0; n < count; ++n, element += part.stride)
            write_fields(index, take_element(index), false, element);
    }
    /// Writes the key of a map's entry, or all other fields of an element.
    void write_fields(std::uint32_t index, const std::uint32_t* words, bool is_key, void* element) {
        const Part& part = parts_[index];
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
            if ((parts_[child].offset < part.value_offset) == is_key) write_sequence(child, length, element);
        }
    }

    const std::vector<Part>& parts_;
    EntityMap& map_;
    PointerStack& stack_;  // from first_ on: the next element of each part
    const std::size_t first_;
};

/// The lane with the length of a sequence inside an element.
Lane length_lane(std::uint32_t max_length) {
    return bounded_lane(max_length == 1 ? LaneKind::symbol : LaneKind::quantity, max_length);
}

}  // namespace

std::size_t size_of(FieldType type) {
    if (is_wide(type) || type == FieldType::entity) return 8;
    return (type_bits(type) + 7) / 8;
}

double load_scalar(const Leaf& leaf, const void* value, std::uint32_t index) {
    assert(leaf.type != FieldType::entity);
    if (leaf.type == FieldType::f32) return load<float>(value, leaf.offset + index * sizeof(float));
    if (leaf.type == FieldType::f64) return load<double>(value, leaf.offset + index * sizeof(double));
    const std::size_t offset = leaf.offset + index * size_of(leaf.type);
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
        const bool is_float = leaf.type == FieldType::f32 || leaf.type == FieldType::f64;
        for (std::size_t i = first; i < lanes_.size(); ++i)
            is_rounded_.push_back(is_float && lanes_[i].kind == LaneKind::quantity);
    }
    for (std::uint32_t i = 0; i < parts_.size(); ++i) {
        Part& part = parts_[i];
        for (Leaf& leaf : part.leaves) {
            const std::size_t first = part.lanes.size();
            if (std::string error = append_lanes(leaf, part.lanes); !error.empty()) return error;
            leaf.lane_count = static_cast<std::uint32_t>(part.lanes.size() - first);
        }
        part.max_count = part.max_length;
        if (part.ops.read) has_maps_ = true;
        if (part.parent == Part::kNone) continue;
        assert(part.parent < i);
        has_children_ = true;
        parts_[part.parent].children.push_back(i);
        const std::uint64_t count = std::uint64_t{parts_[part.parent].max_count} * part.max_length;
        part.max_count = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, 0xffffffff));
    }
    for (Part& part : parts_)
        for (const std::uint32_t child : part.children)
            part.lanes.push_back(length_lane(parts_[child].max_length));
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
    has_only_lanes_ = !lanes_.empty() && parts_.empty() && !has_references_;
    return {};
}

void ComponentLayout::quantise(const void* value, EntityMap& map, std::uint32_t* lanes,
                               std::vector<std::uint32_t>& parts, Misfits& misfits,
                               PointerStack* stack) const {
    quantise_row(leaves_, value, map, lanes, misfits.clamped);
    if (!parts_.empty()) quantise_parts(value, map, parts, misfits, stack);
}

void ComponentLayout::quantise_parts(const void* value, EntityMap& map, std::vector<std::uint32_t>& parts,
                                     Misfits& misfits, PointerStack* stack) const {
    PointerStack own_stack;
    for (const Part& part : parts_)
        PartQuantiser(parts_, part, map, parts, misfits, stack ? *stack : own_stack).quantise(value);
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
            parts += 1 + std::size_t{*parts} * parts_[i].lanes.size();
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
    const std::uint32_t* words = parts;
    for (std::uint32_t i = 0; i < parts_.size(); ++i) {
        const Part& part = parts_[i];
        const std::uint32_t* child_words = words;
        std::uint32_t next = i;
        for (std::size_t c = 0; c < part.children.size(); ++c) {
            while (next < part.children[c])
                child_words += 1 + std::size_t{child_words[0]} * parts_[next++].lanes.size();
            const std::size_t lane = part.lanes.size() - part.children.size() + c;
            std::uint64_t sum = 0;
            for (std::uint32_t n = 0; n < words[0]; ++n) sum += words[1 + n * part.lanes.size() + lane];
            if (sum != child_words[0]) return false;
        }
        words += 1 + std::size_t{words[0]} * part.lanes.size();
    }
    return true;
}

}  // namespace shoal::replication::all
