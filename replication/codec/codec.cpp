#include "codec.h"

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>

#include "coder.h"
#include "group.h"
#include "part.h"
#include "range_coder.h"

namespace shoal::replication::impl {
namespace {

// The format is specified in ../WIRE.md.
constexpr unsigned kCountOrder = 2, kChangesOrder = 0;
constexpr std::uint32_t kMaxUsualPieces = 64;
// A full record of more bits is not coded by a range coder, whose codes of unlikely states are longer.
constexpr std::size_t kMostRangeBits = 8 * 2'000;

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

/// Codes the lanes and parts of a component. Returns whether they differ from the baseline. `base_parts` is
/// null if the baseline lacks the component. `usual`: bit n says whether group or part n differs; without it
/// that is coded. Before the call, a reader must set the lanes to those of the baseline, or to zero if it
/// lacks the component.
template <Coder C>
[[gnu::always_inline]] inline bool code_component(C& coder, const ComponentLayout& layout, const Known& known,
                                                  const std::uint32_t* base_parts, Word<C>* lanes,
                                                  Parts<C> parts, std::optional<std::uint64_t> usual = {},
                                                  std::optional<std::uint64_t> moved = {}) {
    const unsigned count = layout.piece_count();
    std::size_t first = count;
    if constexpr (!C::kReads)
        if (!usual) first = first_difference(layout, known.base, base_parts, lanes, parts);
    const unsigned changed_slot = known.first_slot == 0 ? kChangedSlot : known.first_slot;
    const unsigned state = !known.base ? 0 : !moved ? 1 : low_bits(*moved, count) == 0 ? 2 : 3;
    const bool changed =
        usual ? low_bits(*usual, count) != 0 : coder.flag(first != count, changed_slot + state);
    unsigned before = 0;  // bit 0: the last group or part differs, bit 1: another one does
    std::size_t index = 0, start = 0;
    if constexpr (C::kReads) start = parts.size();
    const auto code_differs = [&](std::uint32_t slot, auto&& compare) {
        if (usual) return (*usual >> index++ & 1) != 0;
        const bool differs = !C::kReads && index >= first && (index == first || compare());
        if (!changed || count == 1) return changed;
        const unsigned one = state < 2 ? state : 2 + (*moved >> index & 1);
        ++index;
        const unsigned differs_slot = known.first_slot == 0 ? kDiffersSlot : known.first_slot + slot;
        const bool coded = coder.flag(differs, differs_slot + 4 * one + before);
        before = (before != 0 ? 2 : 0) + coded;
        return coded;
    };
    unsigned last = kFirstWidth;
    if (changed)
        for (const LaneGroup& group : layout.groups())
            if (code_differs(group.slot, [&] { return group_differs(group, known.base, lanes); }))
                code_group(coder, layout.lanes()[group.first], group, known, lanes, last);
    for (const Part& part : layout.parts()) {
        if constexpr (C::kReads) {
            if (code_differs(part.slot, [] { return false; })) {
                code_part(coder, part, base_parts, parts);
            } else {
                static_cast<void>(PartBuilder(part, base_parts, parts).finish());
            }
        } else {
            if (!changed) return false;
            if (code_differs(part.slot, [&] { return part_differs(part, base_parts, parts); }))
                code_part(coder, part, base_parts, parts);
            parts = next_part(part, parts);
        }
        base_parts = next_part(part, base_parts);
    }
    if constexpr (C::kReads)
        if (coder.ok() && !layout.lengths_match(parts.data() + start)) coder.fail();
    return changed;
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

/// Codes the set of components of an image, as its difference to `from` unless `from` is null. `numbers`: the
/// component numbers that the reader uses; null if they are the indices in the schema.
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

/// Returns which groups and parts differ between two images of one shape, one bit each; 0 if they have more
/// than 64. If `skips_owned`, components with from_owner() count as equal: their owner has other values than
/// the server.
std::uint64_t pieces_that_differ(const Schema& schema, const Image& before, const Image& now,
                                 bool skips_owned) {
    std::uint64_t out = 0;
    unsigned index = 0;
    for (ImageCursor a(schema, before), b(schema, now); !b.at_end(); a.next(), b.next()) {
        const ComponentLayout& layout = b.layout();
        const bool is_owned = skips_owned && schema.components()[b.component()].role == Role::owner;
        if (index + layout.piece_count() > kMaxUsualPieces) return 0;
        for (const LaneGroup& group : layout.groups())
            out |= std::uint64_t{!is_owned && group_differs(group, a.lanes(), b.lanes())} << index++;
        const std::uint32_t *old = a.parts(), *value = b.parts();
        for (const Part& part : layout.parts()) {
            out |= std::uint64_t{!is_owned && part_differs(part, old, value)} << index++;
            old = part.end(old);
            value = part.end(value);
        }
    }
    return out;
}

/// Codes an image. `trained`: the coder has slots for the components. Returns whether it differs from the
/// baseline. If the reader fails, coder.ok() is false or the shape of the image is null.
template <Coder C>
bool code_image(C& coder, const Schema& schema, const Image& from, const Trend& trend, Target<C>& image,
                const ComponentNumbers* numbers = nullptr, bool trained = false) {
    const bool has_trend = from.shape && trend.older.shape == from.shape && trend.factor != 0;
    std::optional<std::uint64_t> usual, moved;
    if (has_trend) moved = usual = pieces_that_differ(schema, trend.older, from, true);
    const bool moves = usual.value_or(0) != 0;
    if (moves) {
        bool is_usual = false;
        if constexpr (!C::kReads)
            is_usual = image.shape == from.shape && pieces_that_differ(schema, from, image, false) == *usual;
        const unsigned pieces = static_cast<unsigned>(std::popcount(*moved));
        if (!coder.flag(is_usual, kUsualSlot + (std::min)(pieces, 7u))) usual.reset();
    } else {
        usual.reset();
        moved.reset();
    }
    if (usual) {
        if constexpr (C::kReads) image.shape = from.shape;
    } else if (!from.shape || coder.flag(image.shape != from.shape, kShapeSlot)) {
        code_shape(coder, schema, from.shape, image, numbers);
    } else if constexpr (C::kReads) {
        image.shape = from.shape;
    }
    if (!coder.ok()) return false;
    const Shape& shape = *image.shape;
    const std::uint32_t* parts = nullptr;
    if constexpr (C::kReads) {
        image.words.assign(shape.lane_words, 0);
    } else {
        parts = image.parts();
    }
    const bool is_same_shape = from.shape == image.shape;
    bool differs = !is_same_shape;
    if (!is_same_shape) moved.reset();
    ImageCursor known(schema, from);
    const std::uint32_t* const older = moves && is_same_shape ? trend.older.words.data() : nullptr;
    for (std::size_t i = 0; i < shape.components.size() && coder.ok(); ++i) {
        const ComponentLayout& layout = schema.components()[shape.components[i]].layout;
        if (is_same_shape && i > 0) known.next();
        const bool is_known = is_same_shape || known.seek(shape.components[i]);
        if (layout.empty()) continue;
        Known before{
            .base = is_known ? known.lanes() : nullptr,
            .factor = trend.factor,
            .first_slot = trained ? kModelSlots + schema.components()[shape.components[i]].first_slot : 0};
        if (older && schema.components()[shape.components[i]].role != Role::owner)
            before.older = older + shape.lanes[i];
        const std::uint32_t* base_parts = is_known ? known.parts() : nullptr;
        Word<C>* lanes = image.words.data() + shape.lanes[i];
        if constexpr (C::kReads) {
            if (before.base) std::copy_n(before.base, layout.lanes().size(), lanes);
            differs |= code_component(coder, layout, before, base_parts, lanes, image.words, usual, moved);
        } else {
            differs |= code_component(coder, layout, before, base_parts, lanes, parts, usual, moved);
            parts = layout.parts_end(parts);
        }
        for (auto* bits : {&usual, &moved})
            if (*bits) **bits = layout.piece_count() >= 64 ? 0 : **bits >> layout.piece_count();
    }
    return differs;
}

/// Returns the greatest number of bits that the lane takes in a full record.
std::uint32_t max_lane_bits(const Lane& lane) {
    switch (lane.kind) {
        case LaneKind::quantity:
            return lane.bounded ? lane.bits : kMaxGolombBits;
        case LaneKind::symbol:
            return lane.bounded ? lane.bits : golomb_bits(lane.max, kSymbolOrder);
        case LaneKind::real:
            return 1 + kMaxGolombBits;
        default:
            return kMaxGolombBits;
    }
}

}  // namespace

bool write_image(const Schema& schema, const Image& from, const Image& to, BitWriter& out,
                 const ComponentNumbers* numbers, const Trend& trend, ModelView model) {
    if (!model.empty() && !from.shape) {
        BitCounter counter;
        code_image(counter, schema, from, trend, to, numbers);
        if (counter.bits() > kMostRangeBits) model = {};
        out.write_bool(model.empty());
    }
    if (model.empty()) {
        BitEncoder coder(out);
        return code_image(coder, schema, from, trend, to, numbers);
    }
    RangeEncoder coder(out, model);
    const bool differs = code_image(coder, schema, from, trend, to, numbers, model.size() > kModelSlots);
    coder.finish();
    return differs;
}

void count_decisions(const Schema& schema, const Image& from, const Image& to, const Trend& trend,
                     DecisionCounts& counts) {
    DecisionCounter coder(counts);
    code_image(coder, schema, from, trend, to, nullptr, true);
}

std::size_t measure_image(const Schema& schema, const Image& from, const Image& to) {
    BitCounter coder;
    code_image(coder, schema, from, {}, to);
    return coder.bits();
}

const Shape* read_image(ShapeTable& shapes, const Image& from, BitReader& in,
                        std::vector<std::uint32_t>& words, const Trend& trend, ModelView model) {
    NewImage image{shapes, words};
    if (model.empty() || (!from.shape && in.read_bool())) {
        BitDecoder coder(in);
        code_image(coder, shapes.schema(), from, trend, image);
    } else {
        RangeDecoder coder(in, model);
        code_image(coder, shapes.schema(), from, trend, image, nullptr, model.size() > kModelSlots);
        coder.finish();
    }
    return in.ok() ? image.shape : nullptr;
}

void write_value(const ComponentLayout& layout, std::span<const std::uint32_t> from,
                 std::span<const std::uint32_t> to, BitWriter& out) {
    if (layout.empty()) return;
    const std::size_t lanes = layout.lanes().size();
    const bool has_base = !from.empty();
    BitEncoder coder(out);
    code_component(coder, layout, {.base = has_base ? from.data() : nullptr},
                   has_base ? from.data() + lanes : nullptr, to.data(), to.data() + lanes);
}

bool read_value(const ComponentLayout& layout, std::span<const std::uint32_t> from, BitReader& in,
                std::vector<std::uint32_t>& words) {
    const std::size_t lanes = layout.lanes().size();
    const bool has_base = !from.empty();
    words.assign(lanes, 0);
    if (has_base) std::copy_n(from.begin(), lanes, words.begin());
    if (layout.empty()) return true;
    BitDecoder coder(in);
    code_component(coder, layout, {.base = has_base ? from.data() : nullptr},
                   has_base ? from.data() + lanes : nullptr, words.data(), words);
    return in.ok();
}

std::uint32_t max_component_bits(const ComponentLayout& layout) {
    std::size_t bits = 1 + layout.groups().size() + layout.parts().size();
    for (const Lane& lane : layout.lanes()) bits += max_lane_bits(lane);
    for (const Part& part : layout.parts()) {
        std::size_t element = 0;
        for (const Lane& lane : part.lanes) element += max_lane_bits(lane);
        bits += 3 * kMaxGolombBits + part.max_count * element;
    }
    return static_cast<std::uint32_t>(std::min<std::size_t>(bits, 0x7fffffff));
}

}  // namespace shoal::replication::impl
