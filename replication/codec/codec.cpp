#include "codec.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace shoal::replication {
namespace {

// Image, bit-packed, least significant bit first. g(k): Golomb code of order k, see bits.h.
//   bits        field          present when
//   g(2)        count          no baseline: number of components
//   g(0)        gap            no baseline, once per component: its index minus the previous index, minus 1;
//                              for the first component its index
//   1           reshaped       baseline: components were added or removed
//   g(0)        removed        reshaped: number of components removed
//   g(0)        gap            once per removed component: as above, of its position in the baseline's list
//                              of components
//   g(0)        added          reshaped: number of components added
//   g(0)        gap            once per added component: as above, of its index in the schema
// Then for each component with lanes or parts, in order of the schema:
//   1           changed        always; a new component is compared with zeros and empty parts
// and, if the component changed, first for each of its groups, then for each of its parts:
//   1           differs        groups and parts of the component are more than one together
//   group/part  value          the group or part differs
//
// Group, by the kind of its lanes; `base` is the baseline's lane, or 0 for a new component:
//   quantity    g(k) of zigzag(value - base) per lane. k is 4 for the first such code of the group. For each
//               later one it is the bit width of the previous code's zigzag, minus 1, at least 0 and at most
//               20. A bounded lane of a new component: the value in lane.bits bits.
//   symbol      is alone in its group. If its maximum is 1, nothing: the value is 1 - base. If the lane is
//               bounded, the value in lane.bits bits. Else g(3) of the value.
//   real        if the value equals base, or is a whole number other than whole(base): a 0 bit, then g(k) of
//               zigzag(whole(value) - whole(base)), k as for a quantity. A zigzag of 0 means that value and
//               base have the same bits. Else a 1 bit, then g(k) of zigzag(order(value) - order(base)). These
//               codes have a k of their own: 16 for the first one of the group, then by the rule for a
//               quantity. whole(): the float truncated to an integer, 0 if the float is not within +-2^24.
//               order(): the bits of the float; if it is negative, all bits except the sign are inverted
//   reference   g(8) of the net id
//
// Part:
//   g(3)        prefix         the component is not new: number of elements kept at the start
//   g(1)        suffix         the component is not new: number of elements kept at the end
//   g(3)        count          always: number of elements between prefix and suffix
//   lanes       value          once per element between prefix and suffix: each lane like a changed group of
//                              a new component, but a symbol whose maximum is 1 takes one bit
// Lanes and groups follow from the types of the fields: see append_lanes() and finish() in schema/lanes.cpp.
// Rejected: values over a lane's maximum; indices and positions that do not exist in the schema or the
// baseline; components that are added twice; parts with too many elements.

constexpr unsigned kFirstOrder = 4;
constexpr unsigned kRealOrder = 16;
constexpr unsigned kSymbolOrder = 3;
constexpr unsigned kReferenceOrder = 8;
constexpr unsigned kMaxOrder = 20;  // greatest k; up to it, no code is longer than an escaped value

unsigned next_order(std::uint32_t folded) {
    const unsigned width = static_cast<unsigned>(std::bit_width(folded));
    return width == 0 ? 0 : std::min(width - 1, kMaxOrder);
}

/// Returns whether the float with these bits is an integer within +-2^24; false for -0.
bool is_whole(std::uint32_t bits) {
    const float value = std::bit_cast<float>(bits);
    if (!(std::abs(value) < 0x1p24f)) return false;
    return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(value))) == bits;
}
std::uint32_t whole_part(std::uint32_t bits) {
    const float value = std::bit_cast<float>(bits);
    if (!(std::abs(value) < 0x1p24f)) return 0;
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
}
std::uint32_t whole_bits(std::uint32_t whole) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(whole)));
}

/// Maps the bits of a float to a signed integer. The integers have the order of the floats, and close floats
/// have close integers. The function is its own inverse.
std::uint32_t ordered(std::uint32_t bits) {
    return (bits >> 31) != 0 ? ~bits ^ 0x80000000u : bits;
}

void write_real(std::uint32_t base, std::uint32_t value, unsigned& whole_order, unsigned& bits_order,
                BitWriter& out) {
    const std::uint32_t step = zigzag(whole_part(value) - whole_part(base));
    if (value == base || (is_whole(value) && step != 0)) {
        const std::uint32_t folded = value == base ? 0 : step;
        out.write_bool(false);
        out.write_golomb(folded, whole_order);
        whole_order = next_order(folded);
        return;
    }
    const std::uint32_t folded = zigzag(ordered(value) - ordered(base));
    out.write_bool(true);
    out.write_golomb(folded, bits_order);
    bits_order = next_order(folded);
}

std::uint32_t read_real(std::uint32_t base, unsigned& whole_order, unsigned& bits_order, BitReader& in) {
    if (!in.read_bool()) {
        const std::uint32_t folded = in.read_golomb(whole_order);
        whole_order = next_order(folded);
        return folded == 0 ? base : whole_bits(whole_part(base) + unzigzag(folded));
    }
    const std::uint32_t folded = in.read_golomb(bits_order);
    bits_order = next_order(folded);
    return ordered(ordered(base) + unzigzag(folded));
}

void write_group(const std::vector<Lane>& lanes, const LaneGroup& group, const std::uint32_t* base,
                 const std::uint32_t* value, BitWriter& out) {
    unsigned order = kFirstOrder;
    unsigned bits_order = kRealOrder;
    for (std::uint32_t i = group.first; i < group.first + group.count; ++i) {
        const Lane& lane = lanes[i];
        const std::uint32_t from = base ? base[i] : 0;
        switch (lane.kind) {
            case LaneKind::quantity:
                if (lane.bounded && !base) {
                    out.write(value[i], lane.bits);
                } else {
                    const std::uint32_t folded = zigzag(value[i] - from);
                    out.write_golomb(folded, order);
                    order = next_order(folded);
                }
                break;
            case LaneKind::symbol:
                if (lane.max == 1) break;
                if (lane.bounded) {
                    out.write(value[i], lane.bits);
                } else {
                    out.write_golomb(value[i], kSymbolOrder);
                }
                break;
            case LaneKind::real:
                write_real(from, value[i], order, bits_order, out);
                break;
            case LaneKind::reference:
                out.write_golomb(value[i], kReferenceOrder);
                break;
        }
    }
}

void read_group(const std::vector<Lane>& lanes, const LaneGroup& group, const std::uint32_t* base,
                std::uint32_t* value, BitReader& in) {
    unsigned order = kFirstOrder;
    unsigned bits_order = kRealOrder;
    for (std::uint32_t i = group.first; i < group.first + group.count; ++i) {
        const Lane& lane = lanes[i];
        const std::uint32_t from = base ? base[i] : 0;
        switch (lane.kind) {
            case LaneKind::quantity:
                if (lane.bounded && !base) {
                    value[i] = in.read(lane.bits);
                } else {
                    const std::uint32_t folded = in.read_golomb(order);
                    order = next_order(folded);
                    value[i] = from + unzigzag(folded);
                }
                break;
            case LaneKind::symbol:
                value[i] = lane.max == 1  ? from ^ 1
                           : lane.bounded ? in.read(lane.bits)
                                          : in.read_golomb(kSymbolOrder);
                break;
            case LaneKind::real:
                value[i] = read_real(from, order, bits_order, in);
                break;
            case LaneKind::reference:
                value[i] = in.read_golomb(kReferenceOrder);
                break;
        }
        if (value[i] > lane.max) in.fail();
    }
}

bool group_differs(const LaneGroup& group, const std::uint32_t* base, const std::uint32_t* value) {
    const std::uint32_t* first = value + group.first;
    if (base) return !std::equal(first, first + group.count, base + group.first);
    return std::any_of(first, first + group.count, [](std::uint32_t lane) { return lane != 0; });
}

/// Writes elements of a part. Each lane of an element is a group of its own, without a baseline.
void write_elements(const Part& part, const std::uint32_t* elements, std::size_t count, BitWriter& out) {
    for (std::size_t n = 0; n < count; ++n, elements += part.lanes.size())
        for (std::uint32_t i = 0; i < part.lanes.size(); ++i) {
            if (part.lanes[i].kind == LaneKind::symbol && part.lanes[i].max == 1)
                out.write_bool(elements[i] != 0);
            write_group(part.lanes, {i, 1}, nullptr, elements, out);
        }
}

void read_elements(const Part& part, std::uint32_t* elements, std::size_t count, BitReader& in) {
    for (std::size_t n = 0; n < count && in.ok(); ++n, elements += part.lanes.size())
        for (std::uint32_t i = 0; i < part.lanes.size(); ++i) {
            const bool is_bit = part.lanes[i].kind == LaneKind::symbol && part.lanes[i].max == 1;
            if (is_bit) {
                elements[i] = in.read(1);
            } else {
                read_group(part.lanes, {i, 1}, nullptr, elements, in);
            }
        }
}

void write_part(const Part& part, const std::uint32_t* base, const std::uint32_t* value, BitWriter& out) {
    const std::size_t width = part.lanes.size();
    const std::size_t count = value[0];
    std::size_t prefix = 0, suffix = 0;
    if (base) {
        const std::size_t common = std::min<std::size_t>(count, base[0]);
        const auto same = [&](std::size_t a, std::size_t b) {
            return std::equal(value + 1 + a * width, value + 1 + (a + 1) * width, base + 1 + b * width);
        };
        while (prefix < common && same(prefix, prefix)) ++prefix;
        while (prefix + suffix < common && same(count - 1 - suffix, base[0] - 1 - suffix)) ++suffix;
        out.write_golomb(static_cast<std::uint32_t>(prefix), 3);
        out.write_golomb(static_cast<std::uint32_t>(suffix), 1);
    }
    const std::size_t between = count - prefix - suffix;
    out.write_golomb(static_cast<std::uint32_t>(between), 3);
    write_elements(part, value + 1 + prefix * width, between, out);
}

void read_part(const Part& part, const std::uint32_t* base, BitReader& in,
               std::vector<std::uint32_t>& words) {
    const std::size_t width = part.lanes.size();
    const std::size_t old = base ? base[0] : 0;
    const std::size_t prefix = base ? in.read_golomb(3) : 0;
    const std::size_t suffix = base ? in.read_golomb(1) : 0;
    const std::size_t between = in.read_golomb(3);
    if (prefix + suffix > old || prefix + suffix + between > part.max_count) in.fail();
    if (!in.ok()) return words.push_back(0);
    words.push_back(static_cast<std::uint32_t>(prefix + suffix + between));
    if (prefix != 0) words.insert(words.end(), base + 1, base + 1 + prefix * width);
    const std::size_t at = words.size();
    words.resize(at + between * width);
    read_elements(part, words.data() + at, between, in);
    if (suffix != 0) words.insert(words.end(), base + 1 + (old - suffix) * width, base + 1 + old * width);
}

bool part_differs(const Part& part, const std::uint32_t* base, const std::uint32_t* value) {
    if (!base) return value[0] != 0;
    const std::size_t words = 1 + value[0] * part.lanes.size();
    return value[0] != base[0] || !std::equal(value, value + words, base);
}
const std::uint32_t* next_part(const Part& part, const std::uint32_t* words) {
    return words ? words + 1 + words[0] * part.lanes.size() : nullptr;
}

/// Writes the component at `value`. `base` is at the same component of the baseline; it is null if the
/// baseline lacks the component.
void write_component(const ImageCursor& value, const ImageCursor* base, BitWriter& out) {
    const ComponentLayout& layout = value.layout();
    const std::uint32_t* from = base ? base->lanes() : nullptr;
    const std::uint32_t* part_from = base ? base->parts() : nullptr;
    const std::uint32_t* part_value = value.parts();
    bool changed = false;
    for (const LaneGroup& group : layout.groups())
        changed = changed || group_differs(group, from, value.lanes());
    for (const Part& part : layout.parts()) {
        changed = changed || part_differs(part, part_from, part_value);
        part_from = next_part(part, part_from);
        part_value = next_part(part, part_value);
    }
    out.write_bool(changed);
    if (!changed) return;
    const bool flags = layout.groups().size() + layout.parts().size() > 1;
    for (const LaneGroup& group : layout.groups()) {
        const bool differs = group_differs(group, from, value.lanes());
        if (flags) out.write_bool(differs);
        if (differs) write_group(layout.lanes(), group, from, value.lanes(), out);
    }
    part_from = base ? base->parts() : nullptr;
    part_value = value.parts();
    for (const Part& part : layout.parts()) {
        const bool differs = part_differs(part, part_from, part_value);
        if (flags) out.write_bool(differs);
        if (differs) write_part(part, part_from, part_value, out);
        part_from = next_part(part, part_from);
        part_value = next_part(part, part_value);
    }
}

/// Fills the component's lanes in `words` at `lanes_at` and appends its parts.
void read_component(const ComponentLayout& layout, const ImageCursor* base, std::size_t lanes_at,
                    BitReader& in, std::vector<std::uint32_t>& words) {
    const std::uint32_t* from = base ? base->lanes() : nullptr;
    const std::uint32_t* part_from = base ? base->parts() : nullptr;
    if (from)
        std::copy(from, from + layout.lanes().size(), words.begin() + static_cast<std::ptrdiff_t>(lanes_at));
    const bool changed = in.read_bool();
    const bool flags = layout.groups().size() + layout.parts().size() > 1;
    for (const LaneGroup& group : layout.groups())
        if (changed && (!flags || in.read_bool()))
            read_group(layout.lanes(), group, from, words.data() + lanes_at, in);
    for (const Part& part : layout.parts()) {
        if (changed && (!flags || in.read_bool())) {
            read_part(part, part_from, in, words);
        } else if (part_from) {
            words.insert(words.end(), part_from, next_part(part, part_from));
        } else {
            words.push_back(0);
        }
        part_from = next_part(part, part_from);
    }
}

void write_shape(const Shape& shape, BitWriter& out) {
    out.write_golomb(static_cast<std::uint32_t>(shape.components.size()), 2);
    std::uint32_t next = 0;
    for (const ComponentIndex index : shape.components) {
        out.write_golomb(index - next, 0);
        next = index + 1u;
    }
}

void write_reshape(const Shape& from, const Shape& to, BitWriter& out) {
    std::uint32_t removed = 0, added = 0, next = 0;
    for (const ComponentIndex index : from.components) removed += to.find(index) == Shape::kAbsent;
    for (const ComponentIndex index : to.components) added += from.find(index) == Shape::kAbsent;
    out.write_golomb(removed, 0);
    for (std::uint32_t i = 0; i < from.components.size(); ++i)
        if (to.find(from.components[i]) == Shape::kAbsent) {
            out.write_golomb(i - next, 0);
            next = i + 1;
        }
    out.write_golomb(added, 0);
    next = 0;
    for (const ComponentIndex index : to.components)
        if (from.find(index) == Shape::kAbsent) {
            out.write_golomb(index - next, 0);
            next = index + 1u;
        }
}

/// Reads `count` strictly rising numbers below `limit` and passes them to `use`. Returns false if they are
/// invalid.
template <class Use>
bool read_rising(std::uint32_t count, std::size_t limit, BitReader& in, Use&& use) {
    std::uint64_t next = 0;
    if (count > limit) return false;
    for (std::uint32_t i = 0; i < count; ++i) {
        next += in.read_golomb(0);
        if (!in.ok() || next >= limit) return false;
        use(static_cast<std::uint32_t>(next));
        next += 1;
    }
    return in.ok();
}

const Shape* read_shape(ShapeTable& shapes, const Shape* from, BitReader& in) {
    const std::size_t known = shapes.schema().components().size();
    ComponentIndex list[kMaxComponents];
    std::size_t size = 0;
    if (!from) {
        if (!read_rising(in.read_golomb(2), known, in,
                         [&](std::uint32_t i) { list[size++] = static_cast<ComponentIndex>(i); }))
            return nullptr;
        return shapes.shape({list, size});
    }
    if (!in.read_bool()) return in.ok() ? from : nullptr;
    std::uint32_t kept = 0;
    const auto keep_until = [&](std::uint32_t end) {
        while (kept < end) list[size++] = from->components[kept++];
    };
    const bool removed = read_rising(in.read_golomb(0), from->components.size(), in, [&](std::uint32_t i) {
        keep_until(i);
        kept = i + 1;
    });
    if (!removed) return nullptr;
    keep_until(static_cast<std::uint32_t>(from->components.size()));
    bool twice = false;
    const bool added = read_rising(in.read_golomb(0), known, in, [&](std::uint32_t i) {
        const ComponentIndex index = static_cast<ComponentIndex>(i);
        twice = twice || from->find(index) != Shape::kAbsent;
        if (!twice) list[size++] = index;
    });
    if (!added || twice) return nullptr;
    std::sort(list, list + size);  // std::inplace_merge would allocate memory
    return shapes.shape({list, size});
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

void write_image(const Schema& schema, const Image& from, const Image& to, BitWriter& out) {
    if (!from.shape) {
        write_shape(*to.shape, out);
    } else {
        out.write_bool(from.shape != to.shape);
        if (from.shape != to.shape) write_reshape(*from.shape, *to.shape, out);
    }
    ImageCursor base(schema, from);
    for (ImageCursor value(schema, to); !value.at_end(); value.next()) {
        const bool known = base.seek(value.component());
        if (!value.layout().empty()) write_component(value, known ? &base : nullptr, out);
    }
}

const Shape* read_image(ShapeTable& shapes, const Image& from, BitReader& in,
                        std::vector<std::uint32_t>& words) {
    const Shape* shape = read_shape(shapes, from.shape, in);
    if (!shape) return nullptr;
    const Schema& schema = shapes.schema();
    words.assign(shape->lane_words, 0);
    ImageCursor base(schema, from);
    for (std::uint32_t i = 0; i < shape->components.size() && in.ok(); ++i) {
        const ComponentLayout& layout = schema.components()[shape->components[i]].layout;
        const bool known = base.seek(shape->components[i]);
        if (!layout.empty()) read_component(layout, known ? &base : nullptr, shape->lanes[i], in, words);
    }
    return in.ok() ? shape : nullptr;
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
