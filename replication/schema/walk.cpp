#include "walk.h"

#include <algorithm>
#include <utility>

namespace shoal::replication::impl {
namespace {

/// Returns whether a scalar continues the last leaf, whose codec is for several scalars. If so, counts the
/// scalar.
bool continues_leaf(std::vector<Leaf>& leaves, const Leaf& scalar) {
    if (leaves.empty() || leaves.back().scalars == scalars_of(leaves.back().codec.kind)) return false;
    Leaf& leaf = leaves.back();
    const std::uint32_t size = leaf.type == FieldType::f32 ? sizeof(float) : sizeof(double);
    if (scalar.type != leaf.type || scalar.codec != leaf.codec) return false;
    if (scalar.offset != leaf.offset + leaf.scalars * size) return false;
    leaf.scalars += 1;
    return true;
}

CodecRange* find_range(std::vector<CodecRange>& ranges, std::size_t offset) {
    for (CodecRange& range : ranges) {
        if (offset < range.offset || offset >= range.offset + range.size) continue;
        range.used = true;
        return &range;
    }
    return nullptr;
}

constexpr std::string_view kTooDeep = "strings, vectors, optionals and maps can be nested at most 4 deep";
static_assert(kMaxNesting == 4);
constexpr std::string_view kInPair =
    "the value of a relation can hold neither strings, vectors, optionals nor maps";

}  // namespace

std::string unused_codec(const std::vector<CodecRange>& ranges) {
    for (const CodecRange& range : ranges) {
        if (!range.used)
            return std::string("has a codec that is not used, for a field of type ").append(range.type) +
                   ": it holds nothing to replicate, or has another codec";
        if (std::string inner = unused_codec(range.elements); !inner.empty()) return inner;
    }
    return {};
}

bool has_ambiguous_codec(const std::vector<CodecRange>& ranges, const FieldCodec& rest) {
    return rest.kind == FieldCodec::Kind::ambiguous ||
           std::any_of(ranges.begin(), ranges.end(), [](const CodecRange& range) {
               return has_ambiguous_codec(range.elements, range.codec);
           });
}

std::string LayoutSink::place() const {
    std::string text;
    for (const Step& step : steps_) {
        text.append(text.empty() ? " (field " : ", field ").append(std::to_string(step.field));
        text.append(" of ").append(step.type);
    }
    return text.empty() ? text : text + ")";
}

/// Returns whether a field is in the key of a map's entry, or of an entry around it.
bool LayoutSink::is_in_key(std::size_t offset) const {
    for (std::size_t i = rows_.size(); --i > 0; offset = parts[rows_[i].part].offset)
        if (offset < parts[rows_[i].part].value_offset) return true;
    return false;
}

bool LayoutSink::refuse(std::string_view type, std::string_view why) {
    problem_.assign(steps_.empty() ? "is of type " : "has a field of type ").append(type);
    problem_.append(", which cannot replicate: ").append(why).append(place());
    return false;
}

bool LayoutSink::scalar(std::string_view type, FieldType kind, bool is_enum, std::size_t offset) {
    if ((is_float(kind) || kind == FieldType::entity) && is_in_key(offset))
        return refuse(type, "the key of a map can hold neither floats nor entities");
    const Row& row = rows_.back();
    const CodecRange* const range = find_range(*row.ranges, offset);
    const Leaf leaf{kind, is_enum, static_cast<std::uint32_t>(offset), range ? range->codec : row.codec};
    if (const std::string why = misfit_of(leaf); !why.empty()) {
        problem_.assign("has a codec that does not fit type ").append(type);
        problem_.append(": ").append(why).append(place());
        return false;
    }
    std::vector<Leaf>& to = row.part == Part::kNone ? leaves : parts[row.part].leaves;
    if (!continues_leaf(to, leaf)) to.push_back(leaf);
    return true;
}

bool LayoutSink::press(std::size_t offset) {
    if (rows_.back().part != Part::kNone)
        return refuse(ecs::impl::type_name<Press>(), "it is in a string, vector, optional or map");
    Leaf leaf{FieldType::u8, false, static_cast<std::uint32_t>(offset), bounded(0, Press::kMax)};
    leaf.is_press = true;
    leaves.push_back(leaf);
    return true;
}

bool LayoutSink::enter(std::string_view type, bool is_string, Part part) {
    if (rows_.size() > max_nesting_) return refuse(type, max_nesting_ == kMaxNesting ? kTooDeep : kInPair);
    const Row& row = rows_.back();
    CodecRange* const range = find_range(*row.ranges, part.offset);
    FieldCodec codec = range ? range->codec : row.codec;
    part.parent = row.part;
    // misfit_of() refuses max_length() for the element of an optional.
    if (part.max_length != 1)
        if (const std::uint32_t length = std::exchange(codec.max_length, 0)) part.max_length = length;
    // The bytes of a string are symbols. By default bounded(0, 255) makes each of them take 8 bits. If the
    // game declares a bounded() for the string, its bytes are clamped. misfit_of() refuses quantised().
    if (is_string && codec.kind == FieldCodec::Kind::automatic) codec = bounded(0, 255);
    rows_.push_back(
        {static_cast<std::uint32_t>(parts.size()), range ? &range->elements : &no_ranges_, codec});
    parts.push_back(std::move(part));
    return true;
}

}  // namespace shoal::replication::impl
