#pragma once
// The schema of the second decoder, see naive_decoder.h: described by hand.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "naive_bits.h"

namespace naive_replication {

// Schema

enum class Type : unsigned { boolean, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, entity };
enum class Coding : unsigned {
    none,
    quantised,
    bounded,
    half_float,
    fixed_point,
    angle,
    unit_vector,
    smallest_three,
    any_float
};

struct Field {
    Type type = Type::boolean;
    bool is_enum = false;
    Coding coding = Coding::none;
    double min = 0, max = 0, step = 0;
};

inline Field plain(Type type) {
    return {type, false, Coding::none, 0, 0, 0};
}
inline Field plain_enum(Type type) {
    return {type, true, Coding::none, 0, 0, 0};
}
inline Field steps(Type type, double min, double max, double step) {
    return {type, false, Coding::quantised, min, max, step};
}
inline Field range(Type type, double min, double max) {
    return {type, false, Coding::bounded, min, max, 1};
}
inline Field enum_range(Type type, double min, double max) {
    return {type, true, Coding::bounded, min, max, 1};
}

/// One of the codings from half_float on, in `bits` bits.
inline Field coded(Type type, Coding coding, double bits) {
    return {type, false, coding, 0, 0, bits};
}

enum class LaneKind : unsigned { quantity, symbol, real, reference };

struct Lane {
    LaneKind kind = LaneKind::quantity;
    bool is_bounded = false;
    std::uint32_t greatest = 0xffffffff;
    std::uint32_t exponent = 0;  // refused: a lane with all these bits

    unsigned bits() const { return greatest == 0 ? 1 : width_of(greatest); }
    bool operator==(const Lane&) const = default;
};

/// The table of "Lanes and groups".
inline std::vector<Lane> lanes_of(const Field& field) {
    constexpr std::uint32_t kAll = 0xffffffff;
    const bool is_real = field.type == Type::f32 || field.type == Type::f64;
    const LaneKind number = field.is_enum ? LaneKind::symbol : LaneKind::quantity;
    if (field.coding == Coding::quantised && is_real)
        return {{LaneKind::quantity, true,
                 static_cast<std::uint32_t>(std::floor((field.max - field.min) / field.step + 1e-6))}};
    if (field.coding == Coding::bounded)
        return {{number, true, static_cast<std::uint32_t>(field.max - field.min)}};
    const std::uint32_t all_bits = static_cast<std::uint32_t>(std::exp2(field.step) - 1);
    const Lane part_of_unit{LaneKind::quantity, true, all_bits - 1};
    if (field.coding == Coding::half_float) return {{LaneKind::quantity, true, 63'486}};
    if (field.coding == Coding::fixed_point) return {{LaneKind::quantity, false, kAll}};
    if (field.coding == Coding::angle) return {{LaneKind::quantity, true, all_bits}};
    if (field.coding == Coding::unit_vector) return {part_of_unit, part_of_unit};
    if (field.coding == Coding::smallest_three)
        return {{LaneKind::symbol, true, 3}, part_of_unit, part_of_unit, part_of_unit};
    const bool is_any = field.coding == Coding::any_float;
    switch (field.type) {
        case Type::boolean:
            return {{LaneKind::symbol, !field.is_enum, 1}};
        case Type::u8:
            return {{number, !field.is_enum, 255}};
        case Type::u16:
            return {{number, false, 65'535}};
        case Type::u64:
        case Type::i64:
            return {{number, false, kAll}, {number, false, kAll}};
        case Type::f32:
            return {{LaneKind::real, false, kAll, is_any ? 0 : 0x7f80'0000u}};
        case Type::f64:
            return {{LaneKind::symbol, true, kAll},
                    {LaneKind::symbol, true, kAll, is_any ? 0 : 0x7ff0'0000u}};
        case Type::entity:
            return {{LaneKind::reference, false, kAll}};
        default:
            return {{number, false, kAll}};
    }
}

inline std::vector<Lane> lanes_of(const std::vector<Field>& fields) {
    std::vector<Lane> lanes;
    for (const Field& field : fields)
        for (const Lane& lane : lanes_of(field)) lanes.push_back(lane);
    return lanes;
}

struct Part {
    std::uint32_t max_length = 0;
    std::vector<Field> element;
    std::vector<Part> inner = {};  // inside each element
};

inline Part text(std::uint32_t max_length = 64) {
    return {max_length, {enum_range(Type::u8, 0, 255)}, {}};
}

/// The lanes of one element: its fields, then the lengths of the parts inside it.
inline std::vector<Lane> lanes_of(const Part& part) {
    std::vector<Lane> lanes = lanes_of(part.element);
    for (const Part& inner : part.inner)
        lanes.push_back(
            {inner.max_length == 1 ? LaneKind::symbol : LaneKind::quantity, true, inner.max_length});
    return lanes;
}

/// A part in the list of all parts of a component: each one comes before those inside its elements.
struct ListedPart {
    Part part;                                // its max_length is that of all elements together
    std::size_t around = 0, length_lane = 0;  // the part whose elements it is in, if `is_inner`
    bool is_inner = false;
};

inline void list_part(Part part, std::vector<ListedPart>& out) {
    const std::size_t index = out.size(), fields = lanes_of(part.element).size();
    out.push_back({part, 0, 0, false});
    for (std::size_t i = 0; i < part.inner.size(); ++i) {
        const std::size_t first = out.size();
        Part inner = part.inner[i];
        inner.max_length *= part.max_length;
        list_part(inner, out);
        out[first].around = index;
        out[first].length_lane = fields + i;
        out[first].is_inner = true;
    }
}
inline std::vector<ListedPart> list_parts(const std::vector<Part>& parts) {
    std::vector<ListedPart> out;
    for (const Part& part : parts) list_part(part, out);
    return out;
}

struct Component {
    std::string name;
    bool is_tag = false;
    std::vector<Field> fields;
    std::vector<Part> parts;
    bool is_relation = false;
    bool is_optional = false;
    bool is_from_owner = false;
};

/// Indices of a group's lanes.
struct Group {
    std::size_t first = 0, count = 0;
};

inline std::vector<Group> groups_of(const std::vector<Lane>& lanes) {
    std::vector<Group> groups;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        const bool joins = !groups.empty() && lanes[i].kind != LaneKind::symbol &&
                           lanes[groups.back().first] == lanes[i] && groups.back().count < 4;
        if (joins) {
            groups.back().count += 1;
        } else {
            groups.push_back({i, 1});
        }
    }
    return groups;
}

inline std::uint32_t id_of(std::string_view name) {
    std::uint32_t hash = 2166136261u;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    return hash;
}

/// The 64-bit FNV-1a hash of numbers, each as 8 bytes.
class Hash {
public:
    void add(std::uint64_t number) {
        for (unsigned i = 0; i < 8; ++i) value_ = (value_ ^ (number >> 8 * i & 0xff)) * 1099511628211u;
    }
    std::uint64_t value() const { return value_; }

private:
    std::uint64_t value_ = 14695981039346656037u;
};

inline void add_row(const std::vector<Field>& fields, const std::vector<Lane>& lanes, Hash& hash) {
    hash.add(fields.size());
    for (const Field& field : fields) {
        hash.add(static_cast<std::uint64_t>(field.type));
        hash.add(static_cast<std::uint64_t>(field.coding));
        for (const double number : {field.min, field.max, field.step})
            hash.add(std::bit_cast<std::uint64_t>(number));
    }
    for (const Lane& lane : lanes) {
        hash.add(static_cast<std::uint64_t>(lane.kind));
        hash.add(lane.bits());
        hash.add(lane.is_bounded ? 1 : 0);
        hash.add(lane.greatest);
    }
}

inline void add_part(const Part& part, Hash& hash) {
    hash.add(part.max_length);
    add_row(part.element, lanes_of(part), hash);
    for (const Part& inner : part.inner) add_part(inner, hash);
}

/// Messages, inputs and actions have a kind of their own.
inline std::uint32_t signature_of(const Component& component, std::uint64_t struct_kind = 0) {
    Hash hash;
    hash.add(struct_kind != 0 ? struct_kind : component.is_tag ? 1 : component.is_relation ? 2 : 0);
    add_row(component.fields, lanes_of(component.fields), hash);
    for (const Part& part : component.parts) add_part(part, hash);
    return static_cast<std::uint32_t>(hash.value() ^ hash.value() >> 32);
}

/// Components with their ids, in the order of their numbers.
using Description = std::vector<std::pair<std::uint32_t, Component>>;

inline Description describe(const std::vector<Component>& components) {
    Description out;
    for (const Component& component : components) out.push_back({id_of(component.name), component});
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.is_optional, a.first) < std::pair(b.second.is_optional, b.first);
    });
    return out;
}

inline constexpr std::uint64_t kMessageKind = 3;

inline std::uint64_t hash_of(const Description& schema, const Description& messages = {}) {
    Hash hash;
    for (const auto& [id, component] : schema) {
        if (component.is_optional) continue;
        hash.add(id);
        hash.add(signature_of(component));
    }
    for (const auto& [id, message] : messages) {
        hash.add(id);
        hash.add(signature_of(message, kMessageKind));
    }
    return hash.value();
}

/// Whether payloads between the two schemas can contain a component of one of them.
inline bool is_known_in(const Description& peer, const Component& component) {
    for (const auto& [id, other] : peer) {
        if (id != id_of(component.name)) continue;
        return !component.is_optional ||
               (other.is_optional && signature_of(other) == signature_of(component));
    }
    return false;
}

inline void put_number(std::vector<std::byte>& out, std::uint32_t number) {
    for (unsigned i = 0; i < 4; ++i) out.push_back(std::byte(number >> 8 * i & 0xff));
}

inline std::vector<std::byte> summary_of(const Description& schema, const Description& messages = {}) {
    Description order;
    for (const bool is_optional : {true, false})
        for (const auto& entry : schema)
            if (entry.second.is_optional == is_optional) order.push_back(entry);
    std::vector<std::byte> out(1);
    std::size_t count = 0, optional = 0;
    for (const auto& [id, component] : order) {
        optional += component.is_optional;
        if (count++ >= 73) continue;
        put_number(out, id);
        put_number(out, signature_of(component));
    }
    for (const auto& [id, message] : messages) {
        if (count++ >= 73) continue;
        put_number(out, id_of("message " + message.name));
        put_number(out, signature_of(message, kMessageKind));
    }
    out[0] = static_cast<std::byte>(optional);
    return out;
}

}  // namespace naive_replication
