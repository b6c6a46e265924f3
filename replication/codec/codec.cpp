#include "codec.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <span>
#include <type_traits>

#include "coder.h"

namespace shoal::replication {
namespace {

// The format is specified in ../WIRE.md.
constexpr unsigned kQuantityOrder = 4, kRealOrder = 16, kSymbolOrder = 3, kReferenceOrder = 8;
constexpr unsigned kCountOrder = 2, kChangesOrder = 0;
constexpr unsigned kPrefixOrder = 3, kSuffixOrder = 1, kBetweenOrder = 3;
constexpr unsigned kMaxOrder = 20;  // greatest k; up to it, no code is longer than an escaped value

unsigned next_order(std::uint32_t folded) {
    const unsigned width = static_cast<unsigned>(std::bit_width(folded));
    return width == 0 ? 0 : std::min(width - 1, kMaxOrder);
}

std::uint32_t whole_part(std::uint32_t bits) {
    const float value = std::bit_cast<float>(bits);
    if (!(std::abs(value) < 0x1p24f)) return 0;
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
}
std::uint32_t whole_bits(std::uint32_t whole) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(whole)));
}

/// Returns whether the float with these bits is an integer within +-2^24; false for -0.
bool is_whole(std::uint32_t bits) {
    return whole_bits(whole_part(bits)) == bits;
}

/// Maps the bits of a float to a signed integer. The integers have the order of the floats, and close floats
/// have close integers. The function is its own inverse.
std::uint32_t ordered(std::uint32_t bits) {
    return (bits >> 31) != 0 ? ~bits ^ 0x80000000u : bits;
}

/// Where the values of an image are: lanes and parts that a coder reads into, or writes from. Parts that are
/// read are appended to the words of the image.
template <Coder C>
using Word = std::conditional_t<C::kReads, std::uint32_t, const std::uint32_t>;
template <Coder C>
using Parts = std::conditional_t<C::kReads, std::vector<std::uint32_t>&, const std::uint32_t*>;

template <Coder C>
std::uint32_t code_quantity(C& coder, std::uint32_t base, std::uint32_t value, unsigned& order) {
    const std::uint32_t folded = coder.golomb(zigzag(value - base), order);
    order = next_order(folded);
    return base + unzigzag(folded);
}

template <Coder C>
std::uint32_t code_real(C& coder, std::uint32_t base, std::uint32_t value, unsigned& whole_order,
                        unsigned& bits_order) {
    const std::uint32_t step = zigzag(whole_part(value) - whole_part(base));
    if (coder.flag(value != base && (step == 0 || !is_whole(value))))
        return ordered(code_quantity(coder, ordered(base), ordered(value), bits_order));
    const std::uint32_t folded = coder.golomb(value == base ? 0 : step, whole_order);
    whole_order = next_order(folded);
    return folded == 0 ? base : whole_bits(whole_part(base) + unzigzag(folded));
}

/// Codes `count` neighbouring lanes, all described by `lane`. `base` is null if they have no baseline.
template <Coder C>
void code_lanes(C& coder, Lane lane, std::uint32_t count, const std::uint32_t* base, Word<C>* lanes) {
    const auto each = [&](auto&& code) {
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t value = code(base ? base[i] : 0, C::kReads ? 0 : lanes[i]);
            if constexpr (C::kReads) lanes[i] = value;
            if (C::kReads && value > lane.max) coder.fail();
        }
    };
    const auto fixed = [&](std::uint32_t, std::uint32_t value) { return coder.fixed(value, lane.bits); };
    unsigned order = kQuantityOrder, bits_order = kRealOrder;
    switch (lane.kind) {
        case LaneKind::quantity:
            if (lane.bounded && !base) return each(fixed);
            return each([&](auto from, auto value) { return code_quantity(coder, from, value, order); });
        case LaneKind::symbol:
            if (lane.bounded || lane.max == 1) return each(fixed);
            return each([&](auto, auto value) { return coder.golomb(value, kSymbolOrder); });
        case LaneKind::real:
            return each(
                [&](auto from, auto value) { return code_real(coder, from, value, order, bits_order); });
        case LaneKind::reference:
            return each([&](auto, auto value) { return coder.golomb(value, kReferenceOrder); });
    }
}

bool group_differs(const LaneGroup& group, const std::uint32_t* base, const std::uint32_t* lanes) {
    for (std::uint32_t i = group.first; i < group.first + group.count; ++i)
        if (lanes[i] != (base ? base[i] : 0)) return true;
    return false;
}

/// Codes a group that differs. `lanes` and `base` are those of the component.
template <Coder C>
void code_group(C& coder, const Lane& lane, const LaneGroup& group, const std::uint32_t* base,
                Word<C>* lanes) {
    if (lane.kind != LaneKind::symbol || lane.max != 1)
        return code_lanes(coder, lane, group.count, base ? base + group.first : nullptr, lanes + group.first);
    if constexpr (C::kReads) lanes[group.first] = base ? base[group.first] ^ 1 : 1;
}

const std::uint32_t* next_part(const Part& part, const std::uint32_t* words) {
    return words ? words + 1 + words[0] * part.lanes.size() : nullptr;
}

bool part_differs(const Part& part, const std::uint32_t* base, const std::uint32_t* value) {
    if (!base) return value[0] != 0;
    return value[0] != base[0] || !std::equal(value, next_part(part, value), base);
}

/// How a part follows from the baseline's: the elements at its start and end stay, those between are new.
struct Splice {
    std::uint32_t prefix = 0, between = 0, suffix = 0;
};

Splice find_splice(const Part& part, const std::uint32_t* base, const std::uint32_t* value) {
    const std::size_t width = part.lanes.size();
    const std::uint32_t count = value[0], old = base ? base[0] : 0, common = std::min(count, old);
    const auto same = [&](std::size_t a, std::size_t b) {
        return std::equal(value + 1 + a * width, value + 1 + (a + 1) * width, base + 1 + b * width);
    };
    Splice splice;
    while (splice.prefix < common && same(splice.prefix, splice.prefix)) ++splice.prefix;
    while (splice.prefix + splice.suffix < common && same(count - 1 - splice.suffix, old - 1 - splice.suffix))
        ++splice.suffix;
    splice.between = count - splice.prefix - splice.suffix;
    return splice;
}

/// Appends a part. Returns its elements between prefix and suffix, which are zero.
std::uint32_t* append_part(const Part& part, const Splice& splice, const std::uint32_t* base,
                           std::vector<std::uint32_t>& words) {
    const std::size_t width = part.lanes.size();
    words.push_back(splice.prefix + splice.between + splice.suffix);
    if (splice.prefix != 0) words.insert(words.end(), base + 1, base + 1 + splice.prefix * width);
    words.resize(words.size() + splice.between * width);
    const std::uint32_t* end = next_part(part, base);
    if (splice.suffix != 0) words.insert(words.end(), end - splice.suffix * width, end);
    return words.data() + words.size() - (splice.between + splice.suffix) * width;
}

/// Codes a part that differs.
template <Coder C>
void code_part(C& coder, const Part& part, const std::uint32_t* base, Parts<C> parts) {
    Splice splice;
    if constexpr (!C::kReads) splice = find_splice(part, base, parts);
    if (base) {
        splice.prefix = coder.golomb(splice.prefix, kPrefixOrder);
        splice.suffix = coder.golomb(splice.suffix, kSuffixOrder);
    }
    splice.between = coder.golomb(splice.between, kBetweenOrder);
    Word<C>* elements;
    if constexpr (C::kReads) {
        const std::uint64_t kept = std::uint64_t{splice.prefix} + splice.suffix;
        if (kept > (base ? base[0] : 0) || kept + splice.between > part.max_count) coder.fail();
        elements = append_part(part, coder.ok() ? splice : Splice{}, base, parts);
    } else {
        elements = parts + 1 + splice.prefix * part.lanes.size();
    }
    for (std::uint32_t n = 0; n < splice.between && coder.ok(); ++n)
        for (const Lane& lane : part.lanes) code_lanes(coder, lane, 1, nullptr, elements++);
}

/// Returns the index of the first group or part that differs; piece_count() if none does.
[[gnu::always_inline]] inline std::size_t first_difference(const ComponentLayout& layout,
                                                           const std::uint32_t* base,
                                                           const std::uint32_t* base_parts,
                                                           const std::uint32_t* lanes,
                                                           const std::uint32_t* parts) {
    const std::size_t count = layout.lanes().size();
    std::size_t same = 0;
    if (base) {
        while (same < count && lanes[same] == base[same]) ++same;
    } else {
        while (same < count && lanes[same] == 0) ++same;
    }
    std::size_t index = 0;
    for (const LaneGroup& group : layout.groups()) {
        if (same < group.first + group.count) return index;
        ++index;
    }
    for (const Part& part : layout.parts()) {
        if (part_differs(part, base_parts, parts)) return index;
        ++index;
        base_parts = next_part(part, base_parts);
        parts = next_part(part, parts);
    }
    return index;
}

/// Codes the lanes and parts of a component. `base` and `base_parts` are null if the baseline lacks the
/// component. Lanes to be read into are equal to `base` or zero before.
template <Coder C>
void code_component(C& coder, const ComponentLayout& layout, const std::uint32_t* base,
                    const std::uint32_t* base_parts, Word<C>* lanes, Parts<C> parts) {
    const std::size_t count = layout.piece_count();
    std::size_t first = count;
    if constexpr (!C::kReads) first = first_difference(layout, base, base_parts, lanes, parts);
    const bool changed = coder.flag(first != count);
    std::size_t index = 0;
    const auto code_differs = [&](auto&& compare) {
        const bool differs = !C::kReads && index >= first && (index == first || compare());
        ++index;
        return changed && (count == 1 || coder.flag(differs));
    };
    if (changed)
        for (const LaneGroup& group : layout.groups())
            if (code_differs([&] { return group_differs(group, base, lanes); }))
                code_group(coder, layout.lanes()[group.first], group, base, lanes);
    for (const Part& part : layout.parts()) {
        if constexpr (C::kReads) {
            if (code_differs([] { return false; })) {
                code_part(coder, part, base_parts, parts);
            } else {
                append_part(part, {base_parts ? base_parts[0] : 0, 0, 0}, base_parts, parts);
            }
        } else {
            if (!changed) return;
            if (code_differs([&] { return part_differs(part, base_parts, parts); }))
                code_part(coder, part, base_parts, parts);
            parts = next_part(part, parts);
        }
        base_parts = next_part(part, base_parts);
    }
}

/// An image to be read.
struct NewImage {
    ShapeTable& shapes;
    std::vector<std::uint32_t>& words;
    const Shape* shape = nullptr;
};
template <Coder C>
using Target = std::conditional_t<C::kReads, NewImage, const Image>;

struct IndexList {
    std::uint32_t size = 0;
    ComponentIndex items[kMaxComponents];

    void push(std::size_t index) { items[size++] = static_cast<ComponentIndex>(index); }
};

/// Codes a list of rising numbers below `limit`, which is at most kMaxComponents.
template <Coder C>
void code_rising(C& coder, IndexList& list, unsigned count_order, std::size_t limit) {
    const std::uint32_t count = coder.golomb(list.size, count_order);
    if (count > limit) return coder.fail();
    std::uint32_t next = 0;
    for (list.size = 0; list.size < count && coder.ok(); ++list.size) {
        ComponentIndex& item = list.items[list.size];
        const std::uint64_t value = std::uint64_t{next} + coder.golomb(C::kReads ? 0 : item - next, 0);
        if (value >= limit) return coder.fail();
        item = static_cast<ComponentIndex>(value);
        next = item + 1u;
    }
}

/// Codes the set of components of an image, as its difference to `from` unless `from` is null. `numbers` are
/// those that the reader uses; null if they are the indices in the schema.
template <Coder C>
void code_shape(C& coder, const Schema& schema, const Shape* from, Target<C>& image,
                const ComponentNumbers* numbers) {
    const std::span<const ComponentIndex> old =
        from ? std::span(from->components) : std::span<ComponentIndex>();
    IndexList removed, added;  // positions in `old`, indices in the schema
    if constexpr (!C::kReads) {
        for (std::size_t i = 0; i < old.size(); ++i)
            if (image.shape->find(old[i]) == Shape::kAbsent) removed.push(i);
        for (const ComponentIndex index : image.shape->components)
            if (!from || from->find(index) == Shape::kAbsent) added.push(numbers ? (*numbers)[index] : index);
    }
    if (from) code_rising(coder, removed, kChangesOrder, old.size());
    code_rising(coder, added, from ? kChangesOrder : kCountOrder,
                numbers ? kMaxComponents : schema.components().size());
    if constexpr (C::kReads) {
        for (std::uint32_t i = 0; i < added.size; ++i)
            if (from && from->find(added.items[i]) != Shape::kAbsent) coder.fail();
        if (!coder.ok()) return;
        IndexList& all = added;
        for (std::uint32_t i = 0, skipped = 0; i < old.size(); ++i)
            if (skipped < removed.size && removed.items[skipped] == i) {
                ++skipped;
            } else {
                all.push(old[i]);
            }
        std::sort(all.items, all.items + all.size);  // std::inplace_merge would allocate memory
        image.shape = image.shapes.shape({all.items, all.size});
    }
}

/// Codes an image. If the reader fails, coder.ok() is false or the shape of the image is null.
template <Coder C>
void code_image(C& coder, const Schema& schema, const Image& from, Target<C>& image,
                const ComponentNumbers* numbers = nullptr) {
    if (!from.shape || coder.flag(image.shape != from.shape)) {
        code_shape(coder, schema, from.shape, image, numbers);
    } else if constexpr (C::kReads) {
        image.shape = from.shape;
    }
    if (!coder.ok()) return;
    const Shape& shape = *image.shape;
    const std::uint32_t* parts = nullptr;
    if constexpr (C::kReads) {
        image.words.assign(shape.lane_words, 0);
    } else {
        parts = image.parts();
    }
    const bool is_same_shape = from.shape == image.shape;
    ImageCursor known(schema, from);
    for (std::size_t i = 0; i < shape.components.size() && coder.ok(); ++i) {
        const ComponentLayout& layout = schema.components()[shape.components[i]].layout;
        if (is_same_shape && i > 0) known.next();
        const bool is_known = is_same_shape || known.seek(shape.components[i]);
        if (layout.empty()) continue;
        const std::uint32_t* base = is_known ? known.lanes() : nullptr;
        const std::uint32_t* base_parts = is_known ? known.parts() : nullptr;
        Word<C>* lanes = image.words.data() + shape.lanes[i];
        if constexpr (C::kReads) {
            if (base) std::copy_n(base, layout.lanes().size(), lanes);
            code_component(coder, layout, base, base_parts, lanes, image.words);
        } else {
            code_component(coder, layout, base, base_parts, lanes, parts);
            parts += layout.part_words(parts);
        }
    }
}

/// In a full record.
std::uint32_t max_lane_bits(const Lane& lane) {
    switch (lane.kind) {
        case LaneKind::quantity:
            return lane.bounded ? lane.bits : max_golomb_bits(kMaxOrder);
        case LaneKind::symbol:
            return lane.bounded ? lane.bits : golomb_bits(lane.max, kSymbolOrder);
        case LaneKind::real:
            return 1 + max_golomb_bits(kMaxOrder);
        default:
            return max_golomb_bits(kReferenceOrder);
    }
}

}  // namespace

void write_image(const Schema& schema, const Image& from, const Image& to, BitWriter& out,
                 const ComponentNumbers* numbers) {
    BitEncoder coder(out);
    code_image(coder, schema, from, to, numbers);
}

std::size_t measure_image(const Schema& schema, const Image& from, const Image& to) {
    BitCounter coder;
    code_image(coder, schema, from, to);
    return coder.bits();
}

const Shape* read_image(ShapeTable& shapes, const Image& from, BitReader& in,
                        std::vector<std::uint32_t>& words) {
    BitDecoder coder(in);
    NewImage image{shapes, words};
    code_image(coder, shapes.schema(), from, image);
    return in.ok() ? image.shape : nullptr;
}

std::uint32_t max_component_bits(const ComponentLayout& layout) {
    std::size_t bits = 1 + layout.groups().size() + layout.parts().size();
    for (const Lane& lane : layout.lanes()) bits += max_lane_bits(lane);
    for (const Part& part : layout.parts()) {
        std::size_t element = 0;
        for (const Lane& lane : part.lanes) element += lane.bounded ? lane.bits : max_lane_bits(lane);
        bits += 3 * max_golomb_bits(3) + part.max_count * element;
    }
    return static_cast<std::uint32_t>(std::min<std::size_t>(bits, 0x7fffffff));
}

}  // namespace shoal::replication
