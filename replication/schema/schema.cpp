#include "schema.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "../codec/codec.h"

namespace shoal::replication {
namespace {

// Hash, signature and summary are specified in ../WIRE.md.
constexpr std::size_t kMaxSummaryBytes = 587;  // a hello has room for it, even with a connect token
constexpr std::size_t kSummaryEntryBytes = 8;

/// A record with one component, less the component itself: three counts and a gap.
constexpr std::size_t kMaxShapeBytes = (3 * max_golomb_bits(2) + max_golomb_bits(0)) / 8 + 1;

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

std::uint32_t signature_of(const SchemaComponent& component) {
    Fnv64 hash;
    hash.mix(component.is_tag ? 1 : component.pairs ? 2 : 0);
    component.layout.describe([&](std::uint64_t number) { hash.mix(number); });
    return static_cast<std::uint32_t>(hash.value() ^ hash.value() >> 32);
}

void append_u32(std::vector<std::byte>& bytes, std::uint32_t value) {
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
}
std::uint32_t load_u32(std::span<const std::byte> bytes, std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i);
    return value;
}

[[noreturn]] void stop(const std::string& error) {
    std::fprintf(stderr, "shoal: schema: %s\n", error.c_str());
    std::abort();
}

std::string hex_id(std::uint32_t id) {
    char text[10] = "#";
    for (int i = 0; i < 8; ++i) text[1 + i] = "0123456789abcdef"[id >> (28 - 4 * i) & 15];
    return std::string(text, 9);
}

}  // namespace

void Schema::fail(std::string_view name, std::string_view why) {
    if (!error_.empty()) return;
    error_ = "component '";
    error_.append(name).append("' ").append(why);
}

void Schema::add(SchemaComponent component) {
    if (is_used_) {
        fail(component.name, "is declared after a sender or receiver got the schema");
        stop(error_);
    }
    if (const std::string error = component.layout.finish(); !error.empty())
        fail(component.name, "has a codec that does not fit: " + error);
    if (!component.is_tag && component.layout.empty()) fail(component.name, "holds nothing to replicate");
    if (component.type == &detail::type_address<Replicated>)
        fail(component.name, "is the tag Replicated, which says what replicates and does not itself");
    if (component.type == &detail::type_address<Mine> && component.viewers != to_owner())
        fail(component.name, "is the tag Mine, which needs to_owner()");
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
    component.signature = signature_of(component);
    component.max_bits = max_component_bits(component.layout);
    const auto place = std::lower_bound(components_.begin(), components_.end(), component.id,
                                        [](const SchemaComponent& c, std::uint32_t id) { return c.id < id; });
    if (const std::size_t bytes = component.max_bits / 8 + kMaxShapeBytes; bytes > kMaxEntityBytes)
        fail(component.name, "can take " + std::to_string(bytes) + " bytes, and an entity at most " +
                                 std::to_string(kMaxEntityBytes) +
                                 ": make it smaller, with max_length() or another codec");
    components_.insert(place, std::move(component));
}

std::size_t Schema::find(const void* type) const {
    const auto found = std::find_if(components_.begin(), components_.end(),
                                    [&](const SchemaComponent& c) { return c.type == type; });
    return found == components_.end() ? kMaxComponents
                                      : static_cast<std::size_t>(found - components_.begin());
}

/// Null if the declaration was a mistake.
SchemaComponent* Schema::added(const void* type) {
    const std::size_t index = find(type);
    return index == kMaxComponents ? nullptr : &components_[index];
}

std::uint64_t Schema::hash() const {
    Fnv64 hash;
    for (const SchemaComponent& component : components_) {
        hash.mix(component.id);
        hash.mix(component.signature);
    }
    return hash.value();
}

std::vector<std::byte> Schema::summary() const {
    std::vector<std::byte> bytes;
    for (const SchemaComponent& component : components_) {
        if (bytes.size() + kSummaryEntryBytes > kMaxSummaryBytes) break;
        append_u32(bytes, component.id);
        append_u32(bytes, component.signature);
    }
    return bytes;
}

std::string Schema::difference(std::span<const std::byte> peer_summary) const {
    const std::size_t count = peer_summary.size() / kSummaryEntryBytes;
    const bool whole = (count + 1) * kSummaryEntryBytes <= kMaxSummaryBytes;
    std::vector<bool> seen(components_.size());
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t id = load_u32(peer_summary, i * kSummaryEntryBytes);
        const std::uint32_t signature = load_u32(peer_summary, i * kSummaryEntryBytes + 4);
        const auto found = std::find_if(components_.begin(), components_.end(),
                                        [&](const SchemaComponent& c) { return c.id == id; });
        if (found == components_.end()) return "component " + hex_id(id) + " is unknown to the server";
        if (found->signature != signature) return "component '" + found->name + "' differs";
        seen[static_cast<std::size_t>(found - components_.begin())] = true;
    }
    for (std::size_t i = 0; i < components_.size() && whole; ++i)
        if (!seen[i]) return "component '" + components_[i].name + "' is unknown to the client";
    return {};
}

std::string Schema::explain(std::string_view text) const {
    std::string out(text);
    for (const SchemaComponent& component : components_)
        if (const std::size_t at = out.find(hex_id(component.id)); at != out.npos)
            out.replace(at, 9, "'" + component.name + "'");
    return out;
}

void Schema::use() const {
    if (!error_.empty()) stop(error_);
    is_used_ = true;
}

}  // namespace shoal::replication
