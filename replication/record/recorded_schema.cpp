#include "recorded_schema.h"

#include <algorithm>
#include <array>
#include <utility>

#include "../codec/codec.h"
#include "chunk.h"

namespace shoal::replication::impl {
namespace {

using net::impl::ByteReader;

constexpr std::size_t kMaxLanes = 8 * kMaxEntityBytes;  // of a component, or elements; more than it can have

/// A tag for entities with an optional component that only the recording knows.
template <std::size_t>
struct Unknown {};

using Bind = ecs::ComponentId (*)(ecs::World& world);
template <std::size_t... N>
constexpr std::array<Bind, sizeof...(N)> make_binds(std::index_sequence<N...>) {
    return {+[](ecs::World& world) { return world.component<Unknown<N>>(); }...};
}
constexpr std::array kBinds = make_binds(std::make_index_sequence<kMaxOptionalComponents>());

std::size_t optional_count(const Schema& schema) {
    return static_cast<std::size_t>(
        std::ranges::count(schema.components(), true, &SchemaComponent::is_optional));
}

void describe_lanes(std::span<const Lane> lanes, std::vector<std::byte>& out) {
    append_number(out, lanes.size(), 4);
    for (const Lane& lane : lanes) {
        append_number(out, static_cast<unsigned>(lane.kind) | lane.bounded * 4u | lane.is_finite * 8u, 1);
        append_number(out, lane.bits, 1);
        append_number(out, lane.max, 4);
    }
}

std::optional<std::vector<Lane>> read_lanes(ByteReader& in) {
    const std::uint32_t count = in.u32();
    if (!in.ok() || count > kMaxLanes || count > in.remaining()) return std::nullopt;
    std::vector<Lane> lanes(count);
    for (Lane& lane : lanes) {
        const unsigned flags = in.u8();
        lane.kind = static_cast<LaneKind>(flags & 3);
        lane.bounded = (flags & 4) != 0;
        lane.is_finite = (flags & 8) != 0;
        lane.bits = in.u8();
        lane.max = in.u32();
        const bool fits = lane.bits >= 1 && lane.bits <= 32 && std::uint64_t{lane.max} >> lane.bits == 0;
        const bool is_free = lane.kind == LaneKind::real || lane.kind == LaneKind::reference;
        if (!in.ok() || flags > 15 || !fits || (is_free && (lane.bounded || lane.bits != 32)))
            return std::nullopt;
    }
    return lanes;
}

/// Reads the lanes and parts of a component without a C++ type.
bool read_layout(ByteReader& in, ComponentLayout& layout) {
    const std::optional<std::vector<Lane>> lanes = read_lanes(in);
    if (!lanes) return false;
    for (const Lane& lane : *lanes) layout.add_lane(lane);
    const std::uint32_t parts = in.u32();
    if (parts > in.remaining()) return false;
    for (std::uint32_t i = 0; i < parts; ++i) {
        Part part;
        part.max_length = in.u32();
        part.parent = in.u32();
        std::optional<std::vector<Lane>> elements = read_lanes(in);
        if (!elements || (part.parent != Part::kNone && part.parent >= i)) return false;
        part.lanes = std::move(*elements);
        layout.add_part(std::move(part));
    }
    if (!layout.finish().empty()) return false;
    for (const Part& part : layout.parts())
        if (part.max_count > kMaxLanes) return false;
    return max_component_bits(layout) <= 8 * kMaxEntityBytes;
}

void describe_component(const SchemaComponent& component, std::vector<std::byte>& out) {
    append_number(out, component.id, 4);
    append_number(out, component.signature, 4);
    append_number(out, component.role == Role::predicted, 1);
    describe_lanes(component.layout.lanes(), out);
    append_number(out, component.layout.parts().size(), 4);
    for (const Part& part : component.layout.parts()) {
        append_number(out, part.max_length, 4);
        append_number(out, part.parent, 4);
        describe_lanes(std::span(part.lanes).first(part.lanes.size() - part.children.size()), out);
    }
}

/// `unknown`: number of the components before it that have no type.
std::optional<SchemaComponent> read_component(const Schema& schema, ByteReader& in, std::size_t unknown) {
    SchemaComponent out;
    out.id = in.u32();
    out.signature = in.u32();
    out.role = in.u8() != 0 ? Role::predicted : Role::server;
    if (!read_layout(in, out.layout) || !in.ok()) return std::nullopt;
    for (const SchemaComponent& known : schema.components())
        if (known.is_optional && known.id == out.id && known.signature == out.signature) return known;
    out.bind = kBinds[unknown];
    return out;
}

/// A difference that Schema::difference() found, in the words of a recording.
std::string in_words(std::string text) {
    for (const auto& [from, to] :
         {std::pair("the server", "this program"), std::pair("the client", "the recording")})
        for (std::size_t at = 0; (at = text.find(from, at)) != text.npos;)
            text.replace(at, std::string_view(from).size(), to);
    return text.empty() ? "the schemas differ" : text;
}

}  // namespace

void describe_schema(const Schema& schema, std::vector<std::byte>& out) {
    const std::vector<std::byte> summary = schema.summary();
    append_number(out, schema.hash(), 8);
    append_number(out, summary.size(), 4);
    out.insert(out.end(), summary.begin(), summary.end());
    append_number(out, schema.predicts(), 1);
    append_number(out, optional_count(schema), 1);
    for (const SchemaComponent& component : schema.components())
        if (component.is_optional) describe_component(component, out);
}

std::optional<Schema> recorded_schema(const Schema& schema, std::span<const std::byte> description,
                                      std::string& why) {
    ByteReader in(description);
    const std::uint64_t hash = in.u64();
    const std::span<const std::byte> summary = in.bytes(in.u32());
    const bool predicts = in.u8() != 0;
    const std::size_t count = in.u8();
    why = "its schema is malformed";
    const std::size_t required = schema.components().size() - optional_count(schema);
    if (!in.ok() || count > std::min(kMaxOptionalComponents, kMaxComponents - required)) return std::nullopt;
    if (hash != schema.hash()) {
        why = in_words(schema.difference(summary));
        return std::nullopt;
    }
    std::vector<SchemaComponent> optional;
    std::size_t unknown = 0;
    for (std::size_t i = 0; i < count; ++i) {
        std::optional<SchemaComponent> component = read_component(schema, in, unknown);
        if (!component || (i > 0 && component->id <= optional.back().id)) return std::nullopt;
        unknown += component->type == nullptr;
        optional.push_back(std::move(*component));
    }
    if (in.remaining() != 0) return std::nullopt;
    Schema out = schema.with_optional(std::move(optional));
    why = out.predicts() == predicts ? "" : "only one of them predicts components";
    return why.empty() ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace shoal::replication::impl
