#include "schema.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "../../net/bytes.h"
#include "../codec/codec.h"

namespace shoal::replication::impl {
namespace {

// Hash, signature and summary are specified in ../WIRE.md.
constexpr std::size_t kSummaryEntryBytes = 8;
constexpr std::uint64_t kHasState = 16;                            // added to the kind
constexpr std::uint64_t kFirstStructKind = 3;                      // in a signature; components have 0 to 2
constexpr std::uint64_t kQuantisedAuthority = 0x7175616e74697365;  // "quantise"
constexpr std::size_t kMaxSummaryEntries = 73;  // 585 bytes fit into a hello, even with a connect token
static_assert(kMaxOptionalComponents <= kMaxSummaryEntries);

/// A record with one component, less the component itself: three counts and a gap.
constexpr std::size_t kMaxShapeBytes = 4 * kMaxGolombBits / 8 + 1;

class Fnv64 {
public:
    void mix(std::uint64_t number) {
        for (int i = 0; i < 8; ++i) {
            hash_ = (hash_ ^ (number & 0xff)) * 1099511628211u;
            number >>= 8;
        }
    }
    std::uint64_t value() const { return hash_; }

private:
    std::uint64_t hash_ = 14695981039346656037u;
};

std::uint32_t signature_of(const SchemaType& type, std::uint64_t kind) {
    Fnv64 hash;
    hash.mix(kind);
    type.layout.describe([&](std::uint64_t number) { hash.mix(number); });
    return static_cast<std::uint32_t>(hash.value() ^ hash.value() >> 32);
}

/// The components in a peer's summary(): first the optional ones, by rising ids.
class SummaryReader {
public:
    /// Returns nothing if the bytes are malformed. No bytes: a summary without components.
    static std::optional<SummaryReader> open(std::span<const std::byte> bytes) {
        static constexpr std::byte kNoComponents[1]{};
        if (bytes.empty()) bytes = kNoComponents;
        if (bytes.size() % kSummaryEntryBytes != 1) return std::nullopt;
        const SummaryReader reader(bytes);
        if (reader.optional_count() > std::min(reader.count(), kMaxOptionalComponents)) return std::nullopt;
        for (std::size_t i = 1; i < reader.optional_count(); ++i)
            if (reader.id(i) <= reader.id(i - 1)) return std::nullopt;
        return reader;
    }

    std::size_t count() const { return bytes_.size() / kSummaryEntryBytes; }
    std::size_t optional_count() const { return std::to_integer<std::size_t>(bytes_[0]); }
    std::uint32_t id(std::size_t at) const { return number(1 + at * kSummaryEntryBytes); }
    std::uint32_t signature(std::size_t at) const { return number(5 + at * kSummaryEntryBytes); }

private:
    explicit SummaryReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
    std::uint32_t number(std::size_t at) const { return net::impl::load<std::uint32_t>(&bytes_[at]); }

    std::span<const std::byte> bytes_;
};

[[noreturn]] void stop(const std::string& error) {
    std::fprintf(stderr, "shoal: schema: %s\n", error.c_str());
    std::abort();
}

constexpr double kMaxCellsInRadius = 64;             // a viewpoint that jumps visits all cells in its radius
constexpr std::string_view kUnknown = "component ";  // before the hash of a name; also of a struct's

std::string hex_id(std::uint32_t id) {
    char text[10] = "#";
    for (int i = 0; i < 8; ++i) text[1 + i] = "0123456789abcdef"[id >> (28 - 4 * i) & 15];
    return std::string(text, 9);
}

std::string display_error(const SchemaComponent& component) {
    if (component.display.kind == Display::Kind::step) return {};
    if (component.display.kind == Display::Kind::own && !component.pairs)
        return component.mix ? "" : "is shown_by() an empty function";
    std::size_t floats = 0;
    for (const Leaf& leaf : component.layout.leaves())
        if (is_float(leaf.type)) floats += leaf.scalars;
    if (floats == 0) return "has no floats or doubles to mix: it can be shown only in steps";
    if (component.display.kind == Display::Kind::slerp && floats % 4 != 0)
        return "is shown with slerp(), which needs four floats for each rotation";
    return {};
}

std::string tolerance_error(const SchemaComponent& component) {
    if (!component.tolerance) return {};
    if (!(*component.tolerance >= 0) || !std::isfinite(*component.tolerance))
        return "has a tolerance that is not a number of 0 or more";
    const std::vector<Leaf>& leaves = component.layout.leaves();
    const bool has_numbers = std::any_of(leaves.begin(), leaves.end(), is_number);
    return has_numbers ? std::string() : "has a tolerance, but no numbers";
}

}  // namespace

void Schema::check_unused(std::string_view name, std::string_view kind) {
    if (!is_used_) return;
    fail(name, "is declared after a sender or receiver got the schema", kind);
    stop(error_);
}

void Schema::finish(SchemaType& type, std::string_view kind) {
    check_unused(type.name, kind);
    const std::string error = type.layout.finish();
    if (!error.empty()) fail(type.name, "has a codec that does not fit: " + error, kind);
    type.max_bits = max_component_bits(type.layout);
}

void Schema::fail(std::string_view name, std::string_view why, std::string_view kind) {
    if (!error_.empty()) return;
    error_.append(kind).append(" '").append(name).append("' ").append(why);
}

void Schema::add_times(const SchemaComponent& component) {
    const auto add = [&](std::vector<double>& all, const std::optional<double>& seconds, std::size_t most) {
        if (!seconds) return;
        if (!(*seconds > 0 && *seconds <= 3600))
            return fail(component.name, "has a time that is not in (0, 1 h]");
        if (std::ranges::binary_search(all, *seconds)) return;
        all.insert(std::ranges::upper_bound(all, *seconds), *seconds);
        if (all.size() > most + 1)
            fail(component.name,
                 "has a time, but there are " + std::to_string(most) + " different ones already");
    };
    add(intervals_, component.interval, 255);
    add(goals_, component.goal, kMaxGoals);
}

void Schema::add(SchemaComponent component) {
    finish(component, kComponent);
    add_times(component);
    const bool has_parts = !component.layout.parts().empty();
    if (component.role == Role::predicted && (has_parts || component.layout.has_references()))
        fail(component.name,
             "is predicted(): it can hold neither entities, strings, vectors, optionals nor maps");
    if (const std::string error = tolerance_error(component); !error.empty()) fail(component.name, error);
    if (!component.is_tag && component.layout.empty()) fail(component.name, "holds nothing to replicate");
    if (const std::string error = display_error(component); !error.empty()) fail(component.name, error);
    if (component.type == &type_address<Replicated>)
        fail(component.name, "is the tag Replicated, which says what replicates and does not itself");
    if (component.type == &type_address<Mine> && component.viewers != to_owner())
        fail(component.name, "is the tag Mine, which needs to_owner()");
    if (component.type == &type_address<Mine> && std::exchange(implies_mine_, false)) return;
    for (const SchemaComponent& other : components_) {
        if (other.name == component.name) {
            fail(component.name, "is declared twice");
        } else if (other.type == component.type) {
            fail(component.name, "is of a type that is declared already, as '" + other.name + "'");
        } else if (other.id == component.id) {
            fail(component.name, "has a name with the same hash as '" + other.name + "': rename one");
        }
    }
    if (components_.size() == kMaxComponents) fail(component.name, "is one too many for a schema");
    component.signature = signature_of(component, component.is_tag ? 1 : component.pairs ? 2 : 0);
    if (const std::size_t bytes = component.max_bits / 8 + kMaxShapeBytes; bytes > kMaxEntityBytes)
        fail(component.name, "can take " + std::to_string(bytes) + " bytes, and an entity at most " +
                                 std::to_string(kMaxEntityBytes) +
                                 ": make it smaller, with max_length() or another codec");
    if (component.role == Role::owner && component.max_bits > kMaxOwnedBits)
        fail(component.name, "can take " + std::to_string(component.max_bits) +
                                 " bits, and one with from_owner() at most " + std::to_string(kMaxOwnedBits));
    insert(std::move(component));
}

void Schema::add(GridRule rule) {
    GridOptions& options = rule.options;
    check_unused("shoal", "grid of");
    if (grid_.bind) fail("shoal", "has two grids", "schema");
    if (options.leave_radius == 0) options.leave_radius = 1.1 * options.radius;
    if (options.cell == 0) options.cell = options.radius / (options.has_height ? 4 : 8);
    const bool is_finite = std::isfinite(options.leave_radius) && std::isfinite(options.cell);
    if (!is_finite || !(options.radius > 0) || !(options.leave_radius >= options.radius) ||
        !(options.cell >= options.leave_radius / kMaxCellsInRadius))
        fail("shoal", "has a grid with a radius, leave_radius or cell that does not fit", "schema");
    grid_ = std::move(rule);
}

/// Adds the components of the library that a component needs.
void Schema::add_implied(const ComponentTraits& traits) {
    if (traits.display.kind != Display::Kind::step && find<Teleports>() == kMaxComponents) {
        component<Teleports>("shoal.teleports");
        optional<Teleports>();
    }
    if (traits.role == Role::predicted && find<ToPredict>() == kMaxComponents) {
        tag<ToPredict>("shoal.to_predict", to_predictors());
        optional<ToPredict>();
    }
    if (traits.role == Role::owner && find<OwnerState>() == kMaxComponents)
        component<OwnerState>("shoal.owner", to_owner());
}

void Schema::add(StructKind kind, SchemaStruct added) {
    const std::string_view what = kind_name(kind);
    std::vector<SchemaStruct>& all = structs_[static_cast<std::size_t>(kind)];
    finish(added, what);
    for (const SchemaStruct& other : all) {
        if (other.type == added.type) {
            fail(added.name, "is of a type that is declared already, as '" + other.name + "'", what);
        } else if (other.id == added.id) {
            fail(added.name, "has the name of another, or one with the same hash: '" + other.name + "'",
                 what);
        }
    }
    if (kind == StructKind::input && !all.empty()) fail(added.name, "is the second one of the schema", what);
    if (kind == StructKind::input && added.layout.empty()) fail(added.name, "holds nothing", what);
    if (kind == StructKind::input && added.max_bits > kMaxInputBits)
        fail(added.name,
             "can take " + std::to_string(added.max_bits) + " bits, and an input at most " +
                 std::to_string(kMaxInputBits),
             what);
    if (all.size() == kMaxStructs) fail(added.name, "is one too many for a schema", what);
    added.signature = signature_of(
        added, kFirstStructKind + static_cast<std::uint64_t>(kind) + (added.has_state ? kHasState : 0));
    all.insert(std::ranges::upper_bound(all, added.id, {}, &SchemaStruct::id), std::move(added));
}

std::size_t Schema::find_struct(StructKind kind, const void* type) const {
    const std::vector<SchemaStruct>& all = structs(kind);
    return static_cast<std::size_t>(std::ranges::find(all, type, &SchemaStruct::type) - all.begin());
}

std::size_t Schema::require_struct(StructKind kind, const void* type, std::string_view type_name) const {
    const std::size_t index = find_struct(kind, type);
    if (index == structs(kind).size())
        stop(std::string(type_name) + " is not declared as " +
             std::string(kind == StructKind::message ? "a " : "an ") + std::string(kind_name(kind)));
    return index;
}

ComponentIndex Schema::require_owned(std::size_t index, std::string_view type_name) const {
    if (index == kMaxComponents) stop(std::string(type_name) + " is not declared as a component");
    if (components_[index].role != Role::owner)
        stop("component '" + components_[index].name + "' is not from_owner(): no client writes it");
    return static_cast<ComponentIndex>(index);
}

void Schema::insert(SchemaComponent component) {
    const auto key = [](const SchemaComponent& c) { return std::pair(c.is_optional, c.id); };
    const auto place = std::ranges::upper_bound(components_, key(component), {}, key);
    components_.insert(place, std::move(component));
    number_slots();
}

void Schema::number_slots() {
    std::uint32_t next_slot = 0;
    for (SchemaComponent& each : components_)
        each.first_slot = std::exchange(next_slot, next_slot + each.layout.slot_count());
}

void Schema::make_optional(const void* type, std::string_view type_name) {
    const std::size_t index = find(type);
    if (index == kMaxComponents) return fail(type_name, "is not declared: optional() comes after it");
    if (components_[index].is_optional) return;
    SchemaComponent component = std::move(components_[index]);
    if (is_used_) {
        fail(component.name, "is made optional after a sender or receiver got the schema");
        stop(error_);
    }
    if (components_.size() - required_count() == kMaxOptionalComponents)
        fail(component.name, "is one too many optional component");
    if (component.role == Role::owner) fail(component.name, "is from_owner(): it cannot be optional");
    components_.erase(components_.begin() + static_cast<std::ptrdiff_t>(index));
    component.is_optional = true;
    insert(std::move(component));
}

Schema Schema::with_optional(std::vector<SchemaComponent> components) const {
    Schema out = *this;
    out.is_used_ = false;
    out.components_.resize(required_count());
    for (SchemaComponent& one : components) {
        one.is_optional = true;
        out.components_.push_back(std::move(one));
    }
    out.number_slots();
    return out;
}

std::size_t Schema::required_count() const {
    const auto first = std::ranges::find(components_, true, &SchemaComponent::is_optional);
    return static_cast<std::size_t>(first - components_.begin());
}

std::size_t Schema::find(const void* type) const {
    const auto found = std::ranges::find(components_, type, &SchemaComponent::type);
    if (found == components_.end()) return kMaxComponents;
    return static_cast<std::size_t>(found - components_.begin());
}

std::vector<Schema::Named> Schema::declared() const {
    std::vector<Named> all;
    const std::size_t required = required_count(), count = components_.size();
    for (std::size_t i = 0; i < count; ++i) {
        const SchemaComponent& one = components_[(i + required) % count];
        all.push_back({"component '" + one.name + "'", one.id, one, one.is_optional});
    }
    for (std::size_t kind = 0; kind < kStructKinds; ++kind)
        for (const SchemaStruct& one : structs_[kind]) {
            const std::string prefix = std::string(kind_name(static_cast<StructKind>(kind))) + " ";
            all.push_back({prefix + "'" + one.name + "'", name_id(prefix + one.name), one, false});
        }
    return all;
}

std::uint64_t Schema::hash() const {
    Fnv64 hash;
    for (const Named& one : declared()) {
        if (one.is_optional) continue;
        hash.mix(one.type.id);
        hash.mix(one.type.signature);
    }
    if (is_authority_quantised_) hash.mix(kQuantisedAuthority);
    return hash.value();
}

std::vector<std::byte> Schema::summary() const {
    const std::vector<Named> all = declared();
    const std::size_t count = std::min(all.size(), kMaxSummaryEntries);
    std::vector<std::byte> bytes(1 + count * kSummaryEntryBytes);
    net::impl::ByteWriter out(bytes);
    out.u8(components_.size() - required_count());
    for (std::size_t i = 0; i < count; ++i) {
        out.u32(all[i].id);
        out.u32(all[i].type.signature);
    }
    return bytes;
}

std::optional<ComponentNumbers> Schema::numbers_in(std::span<const std::byte> peer_summary) const {
    const std::optional<SummaryReader> peer = SummaryReader::open(peer_summary);
    if (!peer) return std::nullopt;
    const std::size_t required = required_count();
    ComponentNumbers numbers(components_.size(), kUnknownComponent);
    for (std::size_t i = 0; i < required; ++i) numbers[i] = static_cast<ComponentIndex>(i);
    bool is_same = peer->optional_count() + required == components_.size();
    for (std::size_t i = required, at = 0; i < components_.size(); ++i) {
        while (at < peer->optional_count() && peer->id(at) < components_[i].id) ++at;
        const bool is_known = at < peer->optional_count() && peer->id(at) == components_[i].id &&
                              peer->signature(at) == components_[i].signature;
        if (is_known) numbers[i] = static_cast<ComponentIndex>(required + at);
        is_same = is_same && is_known;
    }
    return is_same ? ComponentNumbers{} : numbers;
}

std::string Schema::difference(std::span<const std::byte> peer_summary) const {
    const std::optional<SummaryReader> peer = SummaryReader::open(peer_summary);
    if (!peer) return "the summary of the client's schema is malformed";
    std::vector<Named> all = declared();
    for (std::size_t i = 0; i < peer->count(); ++i) {
        const bool is_optional = i < peer->optional_count();
        const auto found = std::ranges::find(all, peer->id(i), &Named::id);
        if (found == all.end() && is_optional) continue;
        if (found == all.end())
            return std::string(kUnknown) + hex_id(peer->id(i)) + " is unknown to the server";
        found->is_seen = true;
        if (found->is_optional && is_optional) continue;
        if (found->is_optional != is_optional)
            return found->name + " is optional only for the " + (is_optional ? "client" : "server");
        if (found->type.signature != peer->signature(i)) return found->name + " differs";
    }
    const bool is_whole = peer->count() < kMaxSummaryEntries;
    for (const Named& known : all)
        if (is_whole && !known.is_seen && !known.is_optional) return known.name + " is unknown to the client";
    return {};
}

std::string Schema::explain(std::string_view text) const {
    std::string out(text);
    for (const Named& one : declared()) {
        const std::string unknown = std::string(kUnknown) + hex_id(one.id);
        if (const std::size_t at = out.find(unknown); at != out.npos)
            out.replace(at, unknown.size(), one.name);
    }
    return out;
}

void Schema::quantise_authority() {
    is_authority_quantised_ = true;
}

void Schema::use() const {
    if (!error_.empty()) stop(error_);
    for (const SchemaComponent& component : components_)
        if (component.role == Role::owner && find<Mine>() == kMaxComponents)
            stop("component '" + component.name + "' is from_owner(), which needs the tag Mine");
    is_used_ = true;
}

}  // namespace shoal::replication::impl
