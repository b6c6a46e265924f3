#include "walk.h"

#include <utility>

namespace shoal::replication::detail {
namespace {

/// Returns whether a scalar continues the last leaf, whose codec is for several scalars. Counts it.
bool continues_leaf(std::vector<Leaf>& leaves, const Leaf& scalar) {
    if (leaves.empty() || leaves.back().scalars == scalars_of(leaves.back().codec.kind)) return false;
    Leaf& leaf = leaves.back();
    const std::uint32_t size = leaf.type == FieldType::f32 ? sizeof(float) : sizeof(double);
    if (scalar.type != leaf.type || scalar.codec != leaf.codec) return false;
    if (scalar.offset != leaf.offset + leaf.scalars * size) return false;
    leaf.scalars += 1;
    return true;
}

/// Appends a leaf. Returns false if its codec does not fit, after it told the trail why.
bool add_leaf(std::vector<Leaf>& leaves, const ScalarType& type, std::size_t offset, const FieldCodec& codec,
              Trail& trail) {
    Leaf leaf{type.type, type.is_enum, static_cast<std::uint32_t>(offset), codec};
    if (const std::string why = misfit_of(leaf); !why.empty()) return trail.refuse_codec(type.name, why);
    if (!continues_leaf(leaves, leaf)) leaves.push_back(leaf);
    return true;
}

/// Returns the first range that contains the byte at `offset`; null if there is none.
CodecRange* find_range(std::vector<CodecRange>& ranges, std::size_t offset) {
    for (CodecRange& range : ranges) {
        if (offset < range.offset || offset >= range.offset + range.size) continue;
        range.used = true;
        return &range;
    }
    return nullptr;
}

FieldCodec codec_at(std::vector<CodecRange>& ranges, std::size_t offset, const FieldCodec& otherwise) {
    const CodecRange* range = find_range(ranges, offset);
    return range ? range->codec : otherwise;
}

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

std::string Trail::place() const {
    std::string text;
    for (const Step& step : steps_) {
        text.append(text.empty() ? " (field " : ", field ").append(std::to_string(step.field));
        text.append(" of ").append(step.type);
    }
    return text.empty() ? text : text + ")";
}

bool Trail::refuse(std::string_view type, std::string_view why) {
    problem_.assign(steps_.empty() ? "is of type " : "has a field of type ").append(type);
    problem_.append(", which cannot replicate: ").append(why).append(place());
    return false;
}

bool Trail::refuse_codec(std::string_view type, std::string_view why) {
    problem_.assign("has a codec that does not fit type ").append(type);
    problem_.append(": ").append(why).append(place());
    return false;
}

bool ElementSink::scalar(const ScalarType& type, std::size_t offset) {
    return add_leaf(part_.leaves, type, offset, codec_at(ranges_, offset, codec_), trail_);
}

bool LayoutSink::scalar(const ScalarType& type, std::size_t offset) {
    return add_leaf(leaves, type, offset, codec_at(ranges_, offset, all_), trail_);
}

void LayoutSink::sequence(std::size_t offset, const SequenceOps& ops, std::size_t stride, SequenceKind kind) {
    CodecRange* const range = find_range(ranges_, offset);
    element_codec_ = range ? range->codec : all_;
    element_ranges_ = range ? &range->elements : &no_ranges_;
    Part part;
    part.offset = static_cast<std::uint32_t>(offset);
    part.stride = static_cast<std::uint32_t>(stride);
    part.ops = ops;
    part.max_count = 1;
    // misfit_of() refuses max_length() for the element of an optional.
    if (kind != SequenceKind::optional) {
        const std::uint32_t usual = kind == SequenceKind::string ? kDefaultMaxString : kDefaultMaxVector;
        part.max_count = element_codec_.max_length != 0 ? element_codec_.max_length : usual;
        element_codec_.max_length = 0;
    }
    // The bytes of a string are symbols. By default bounded(0, 255) makes each of them take 8 bits. If the
    // game declares a bounded() for the string, its bytes are clamped. misfit_of() refuses quantised().
    if (kind == SequenceKind::string && element_codec_.kind == FieldCodec::Kind::automatic)
        element_codec_ = bounded(0, 255);
    parts.push_back(std::move(part));
}

}  // namespace shoal::replication::detail
