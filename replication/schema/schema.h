#pragma once
// Names the components and tags that replicate. One function, used by server and clients, declares them:
//
//     void describe(Schema& schema) {
//         schema.component<Position>("position", field(&Position::x, quantised(-64, 64, 0.01)),
//                                    field(&Position::y, quantised(-64, 64, 0.01)));
//         schema.component<Name>("name");
//         schema.component<Ammo>("ammo", to_owner());  // see view_class.h
//         schema.tag<Wolf>("wolf");
//     }
//
// Fields may be integers, floats, bools, enums, strings, vectors, arrays, entities and structs of these.
// Fields without a codec keep their exact value, but strings and vectors are cut to a default length.

#include <array>
#include <concepts>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../../ecs/world.h"
#include "fields.h"
#include "lanes.h"
#include "view_class.h"

namespace shoal::replication {

/// An entity is replicated while it has this tag.
struct Replicated {};

/// Why a replica ends.
enum class Despawn : std::uint8_t {
    destroyed,  // on the server
    left,       // the entity does not replicate to this client any more, or the connection ended
    frozen,     // no records follow; not sent yet, and to a client the same as `left`
};

/// A client's entity has this component while it is the replica of an entity of the server. The add hook of
/// Replica runs when the replica has all its values; in the remove hook `reason` is known.
struct Replica {
    Despawn reason = Despawn::destroyed;  // until the remove hook: destroyed
};

/// Greatest size of a full record without its header: what one entity can hold. A payload of several packets
/// has room for one record of this size and all headers.
inline constexpr std::size_t kMaxEntityBytes = 32'000;
inline constexpr std::size_t kMaxComponents = 4096;  // in a schema

/// Index of a component in Schema::components(), which are sorted by name_id(): the same on both sides.
using ComponentIndex = std::uint16_t;

/// Returns the hash of a component's name (FNV-1a, 32 bits).
constexpr std::uint32_t name_id(std::string_view name) {
    std::uint32_t hash = 2166136261u;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    return hash;
}

/// A field of T and its codec, which applies to every scalar inside the field. Made by field().
template <class T>
struct Field {
    std::size_t (*offset)(const void* member, const T& object);
    alignas(void*) std::array<std::byte, sizeof(int T::*)> member;
    std::size_t size;
    FieldCodec codec;
};

/// The type of a data member; a member function does not have such a type.
template <class T>
concept Object = std::is_object_v<T>;

template <class T, Object Member>
Field<T> field(Member T::*member, FieldCodec codec) {
    static_assert(sizeof member <= sizeof(Field<T>::member));
    Field<T> out{};
    new (out.member.data()) (Member T::*)(member);
    out.offset = [](const void* stored, const T& object) {
        const Member& found = object.*(*static_cast<Member T::*const*>(stored));
        return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&found) -
                                        reinterpret_cast<const std::byte*>(&object));
    };
    out.size = sizeof(Member);
    out.codec = codec;
    return out;
}

/// One component or tag of the schema.
struct SchemaComponent {
    std::string name;
    std::uint32_t id = 0;         // name_id(name)
    std::uint32_t signature = 0;  // hash of the layout; equal if both sides encode the component alike
    ComponentLayout layout;       // empty for a tag
    bool is_tag = false;
    ViewClasses viewers = to_everyone();  // only the server needs it: not part of the signature
    std::uint32_t max_bits = 0;           // greatest number of bits that it takes in a full record
    std::uint32_t size = 0, align = 1;    // of the C++ type, in bytes
    const void* type = nullptr;           // identifies the C++ type in this program
    ecs::ComponentId (*bind)(ecs::World& world) = nullptr;  // returns the component's id in a world
    void (*construct)(void* at) = nullptr;
    void (*destroy)(void* value) = nullptr;
};

namespace detail {

template <class T>
inline constexpr char type_address = 0;

}  // namespace detail

class Schema {
public:
    /// Declares T, with codecs for some of its fields (see lanes.h). The name must be the same on both sides.
    template <std::default_initializable T, std::same_as<Field<T>>... Fields>
    void component(std::string_view name, Fields... fields);

    /// Declares T, with one codec for all fields.
    template <std::default_initializable T>
    void component(std::string_view name, FieldCodec codec);

    /// Declares T as above. Only the peers in `viewers` get it.
    template <std::default_initializable T, class... Codecs>
    void component(std::string_view name, ViewClasses viewers, Codecs... codecs);

    /// Declares an empty component: only its presence replicates.
    template <ecs::Tag T>
    void tag(std::string_view name, ViewClasses viewers = to_everyone());

    /// The first mistake in the declarations, with the component's name; empty if there is none. A sender or
    /// receiver that gets a schema with an error prints it and stops the program. A declaration
    /// after the schema was given to a sender or receiver also stops the program.
    const std::string& error() const { return error_; }

    /// Equal on both sides if they have the same component names and encode all components alike.
    std::uint64_t hash() const;

    /// Describes the schema for difference(): 8 bytes for each of the first 73 components.
    std::vector<std::byte> summary() const;

    /// For the server: returns a text that names a component in which this schema differs from the client's,
    /// whose summary() is given; empty if none is found. A component that the server does not have is named
    /// by its hash, see explain(). Any bytes are safe.
    std::string difference(std::span<const std::byte> peer_summary) const;

    /// For the client. `text` is the result of the server's difference(). Returns `text` with the name of
    /// the component instead of its hash, if this schema has the component.
    std::string explain(std::string_view text) const;

    /// Sorted by SchemaComponent::id.
    const std::vector<SchemaComponent>& components() const { return components_; }
    /// Returns the index of T in components(), or kMaxComponents if T is not declared.
    template <class T>
    std::size_t find() const {
        return find(&detail::type_address<T>);
    }

private:
    template <class T>
    SchemaComponent describe(std::string_view name, const std::vector<Field<T>>& fields, FieldCodec all);
    void add(SchemaComponent component);
    std::size_t find(const void* type) const;
    void show_to(const void* type, ViewClasses viewers);
    void fail(std::string_view name, std::string_view why);

    friend class Binding;
    /// Stops the program if there is an error. Later declarations are errors.
    void use() const;

    std::vector<SchemaComponent> components_;
    std::string error_;
    mutable bool is_used_ = false;
};

namespace detail {

template <class T>
inline constexpr bool is_string = std::same_as<T, std::string>;
template <class T>
inline constexpr bool is_vector = false;
template <class T, class Allocator>
inline constexpr bool is_vector<std::vector<T, Allocator>> = !std::same_as<T, bool>;
template <class T>
inline constexpr bool is_std_array = false;
template <class T, std::size_t N>
inline constexpr bool is_std_array<std::array<T, N>> = true;

template <class T>
inline constexpr bool is_scalar =
    (std::is_arithmetic_v<T> && sizeof(T) <= 8) || std::is_enum_v<T> || std::same_as<T, ecs::Entity>;

template <class T>
constexpr FieldType field_type() {
    if constexpr (std::same_as<T, ecs::Entity>) {
        return FieldType::entity;
    } else if constexpr (std::is_enum_v<T>) {
        return field_type<std::underlying_type_t<T>>();
    } else if constexpr (std::same_as<T, bool>) {
        return FieldType::boolean;
    } else if constexpr (std::is_floating_point_v<T>) {
        return sizeof(T) == 4 ? FieldType::f32 : FieldType::f64;
    } else {
        constexpr FieldType kUnsigned[] = {FieldType::u8, FieldType::u16, FieldType::u32, FieldType::u64};
        constexpr FieldType kSigned[] = {FieldType::i8, FieldType::i16, FieldType::i32, FieldType::i64};
        constexpr int kSize = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
        return std::is_signed_v<T> ? kSigned[kSize] : kUnsigned[kSize];
    }
}

template <class T>
SequenceOps sequence_ops() {
    return {[](const void* s) { return static_cast<const T*>(s)->size(); },
            [](const void* s) -> const void* { return static_cast<const T*>(s)->data(); },
            [](void* s, std::size_t count) -> void* {
                static_cast<T*>(s)->resize(count);
                return static_cast<T*>(s)->data();
            }};
}

/// Why a field of type T that is no scalar, string, vector, array or small aggregate cannot replicate.
template <class T>
constexpr std::string_view why_not() {
    if constexpr (std::is_pointer_v<T>) {
        return "a pointer means nothing on another machine";
    } else if constexpr (is_vector<T>) {
        return "elements of a vector can be neither strings nor vectors, and need a default constructor";
    } else if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T>) {
        return "a struct has at most 24 fields: nest some of them";
    } else {
        return "it is neither a number, bool, enum, string, vector, array or ecs::Entity, nor a struct "
               "without "
               "constructors, base classes and private fields";
    }
}

/// Visits the fields of an object: passes each scalar, string and vector to `sink`, with its offset from
/// `base`. Returns false if a field cannot replicate, after it told the sink why.
template <class T, class Sink>
bool walk(const T& object, const std::byte* base, Sink& sink) {
    const std::size_t offset = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&object) - base);
    // The structured binding of a bit-field is a temporary copy outside of the component.
    if (offset > sink.size() || sizeof(T) > sink.size() - offset)
        return sink.refuse(ecs::type_name<T>(), "a bit-field has no address");
    if constexpr (is_scalar<T>) {
        sink.scalar(field_type<T>(), std::is_enum_v<T>, offset);
        return true;
    } else if constexpr (is_string<T>) {
        sink.sequence(offset, sequence_ops<T>(), 1, true);
        sink.element().scalar(FieldType::u8, true, 0);
        return true;
    } else if constexpr (is_vector<T>) {
        using Element = typename T::value_type;
        if constexpr (Sink::kNested || is_string<Element> || is_vector<Element> ||
                      !std::is_default_constructible_v<Element>) {
            return sink.refuse(ecs::type_name<T>(), why_not<T>());
        } else {
            sink.sequence(offset, sequence_ops<T>(), sizeof(Element), false);
            const Element element{};
            auto inner = sink.element();
            return walk(element, reinterpret_cast<const std::byte*>(&element), inner);
        }
    } else if constexpr (std::is_bounded_array_v<T> || is_std_array<T>) {
        for (const auto& element : object)
            if (!walk(element, base, sink)) return false;
        return true;
    } else if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T>) {
        if constexpr (field_count<T>() > kMaxFields) {
            return sink.refuse(ecs::type_name<T>(), why_not<T>());
        } else {
            bool ok = true;
            for_each_field(object, [&](const auto& field) { ok = ok && walk(field, base, sink); });
            return ok;
        }
    } else {
        return sink.refuse(ecs::type_name<T>(), why_not<T>());
    }
}

/// The codec of a field, and which bytes of the component the field occupies.
struct CodecRange {
    std::size_t offset, size;
    FieldCodec codec;
    bool used = false;
};

/// Collects the scalars of an element of a string or vector.
struct ElementSink {
    static constexpr bool kNested = true;
    Part& part;
    FieldCodec codec;
    std::string& problem;

    bool refuse(std::string_view type, std::string_view why);
    void scalar(FieldType type, bool is_enum, std::size_t offset) {
        part.leaves.push_back({type, is_enum, static_cast<std::uint32_t>(offset), codec});
    }
    void sequence(std::size_t, const SequenceOps&, std::size_t, bool) {}
    ElementSink& element() { return *this; }
    std::size_t size() const { return part.stride; }
};

/// Collects the leaves and parts of a component, with their codecs.
class LayoutSink {
public:
    static constexpr bool kNested = false;

    LayoutSink(std::size_t size, std::vector<CodecRange>& ranges, FieldCodec all)
        : size_(size), ranges_(ranges), all_(all) {}

    std::size_t size() const { return size_; }  // bytes of the component

    void scalar(FieldType type, bool is_enum, std::size_t offset);
    void sequence(std::size_t offset, const SequenceOps& ops, std::size_t stride, bool is_string);
    ElementSink element() { return {parts.back(), element_codec_, problem}; }
    bool refuse(std::string_view type, std::string_view why);

    std::vector<Leaf> leaves;
    std::vector<Part> parts;
    std::string problem;  // why a field cannot replicate; empty: all can

private:
    FieldCodec codec_at(std::size_t offset);

    std::size_t size_;
    std::vector<CodecRange>& ranges_;
    FieldCodec all_;
    FieldCodec element_codec_;
};

}  // namespace detail

template <class T>
SchemaComponent Schema::describe(std::string_view name, const std::vector<Field<T>>& fields, FieldCodec all) {
    SchemaComponent out;
    out.name = name;
    out.id = name_id(name);
    out.size = sizeof(T);
    out.align = alignof(T);
    out.type = &detail::type_address<T>;
    out.bind = [](ecs::World& world) { return world.component<T>(); };
    out.construct = [](void* at) { ::new (at) T{}; };
    out.destroy = [](void* value) { static_cast<T*>(value)->~T(); };
    const T object{};
    std::vector<detail::CodecRange> ranges;
    for (const Field<T>& field : fields)
        ranges.push_back({field.offset(field.member.data(), object), field.size, field.codec});
    detail::LayoutSink sink(sizeof(T), ranges, all);
    if (!detail::walk(object, reinterpret_cast<const std::byte*>(&object), sink)) fail(name, sink.problem);
    for (const detail::CodecRange& range : ranges)
        if (!range.used) fail(name, "has a codec for a field that holds nothing to replicate");
    for (const Leaf& leaf : sink.leaves) out.layout.add_leaf(leaf);
    for (Part& part : sink.parts) out.layout.add_part(std::move(part));
    return out;
}

template <std::default_initializable T, std::same_as<Field<T>>... Fields>
void Schema::component(std::string_view name, Fields... fields) {
    if constexpr (ecs::Relation<T>) {
        fail(name, "is a relation: pairs do not replicate");
    } else if constexpr (std::is_empty_v<T>) {
        tag<T>(name);
    } else {
        add(describe<T>(name, {fields...}, FieldCodec{}));
    }
}

template <std::default_initializable T>
void Schema::component(std::string_view name, FieldCodec codec) {
    if constexpr (ecs::Relation<T>) {
        fail(name, "is a relation: pairs do not replicate");
    } else {
        add(describe<T>(name, {}, codec));
    }
}

template <std::default_initializable T, class... Codecs>
void Schema::component(std::string_view name, ViewClasses viewers, Codecs... codecs) {
    component<T>(name, codecs...);
    show_to(&detail::type_address<T>, viewers);
}

template <ecs::Tag T>
void Schema::tag(std::string_view name, ViewClasses viewers) {
    SchemaComponent out;
    out.viewers = viewers;
    out.name = name;
    out.id = name_id(name);
    out.is_tag = true;
    out.type = &detail::type_address<T>;
    out.bind = [](ecs::World& world) { return world.component<T>(); };
    add(std::move(out));
}

}  // namespace shoal::replication
