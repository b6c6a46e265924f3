#pragma once
// Finds the scalars, strings, vectors and optionals of a component, level by level: those of an aggregate by
// its fields, those of other types by the parts that Replicate names.

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../../ecs/component.h"
#include "../../ecs/entity.h"
#include "fields.h"
#include "lanes.h"

namespace shoal::replication {

/// Specialise it for a type that is not an aggregate, or of which only some members replicate. The function
/// returns references to members or base classes of the object; their order is the order of the lanes:
///
///     template <>
///     struct shoal::replication::Replicate<Vec3> {
///         static auto fields(auto& v) { return std::tie(v.x, v.y, v.z); }
///     };
///
/// Used for the type wherever it occurs: as a component, a field, or an element of an array or vector. The
/// references must refer to the same members of every object. For private members, declare
/// `friend struct shoal::replication::Replicate<Vec3>;` in the type.
template <class T>
struct Replicate {
    using NotSpecialised = void;
};

namespace detail {

template <class T>
concept Customised = !requires {
    typename Replicate<T>::NotSpecialised;
};

template <class T>
inline constexpr bool is_string = std::same_as<T, std::string>;
template <class T>
inline constexpr bool is_vector = false;
template <class T, class Allocator>
inline constexpr bool is_vector<std::vector<T, Allocator>> = !std::same_as<T, bool>;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_duration = false;
template <class Rep, class Period>
inline constexpr bool is_duration<std::chrono::duration<Rep, Period>> = true;
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

enum class SequenceKind : std::uint8_t { string, vector, optional };

template <class T>
inline constexpr SequenceKind sequence_kind = is_string<T>     ? SequenceKind::string
                                              : is_optional<T> ? SequenceKind::optional
                                                               : SequenceKind::vector;

template <class T>
inline constexpr bool is_sequence = is_string<T> || is_vector<T> || is_optional<T>;

template <class T>
SequenceOps sequence_ops() {
    return {[](const void* s) { return static_cast<const T*>(s)->size(); },
            [](const void* s) -> const void* { return static_cast<const T*>(s)->data(); },
            [](void* s, std::size_t count) -> void* {
                static_cast<T*>(s)->resize(count);
                return static_cast<T*>(s)->data();
            }};
}
/// An optional is a sequence of at most one element.
template <class T>
requires is_optional<T> SequenceOps sequence_ops() {
    return {[](const void* s) { return static_cast<std::size_t>(static_cast<const T*>(s)->has_value()); },
            [](const void* s) -> const void* {
                const T& optional = *static_cast<const T*>(s);
                return optional ? &*optional : nullptr;
            },
            [](void* s, std::size_t count) -> void* {
                T& optional = *static_cast<T*>(s);
                if (count == 0) optional.reset();
                if (count != 0 && !optional) optional.emplace();
                return optional ? &*optional : nullptr;
            }};
}

/// Why a field of type T that is no scalar, string, vector, array or small aggregate cannot replicate.
template <class T>
constexpr std::string_view why_not() {
    if constexpr (std::is_pointer_v<T>) {
        return "a pointer means nothing on another machine";
    } else if constexpr (std::same_as<T, std::string_view>) {
        return "a string_view does not own its text: use std::string";
    } else if constexpr (is_sequence<T>) {
        return "elements of a vector or optional can be neither strings, vectors nor optionals, and need a "
               "default constructor";
    } else if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T>) {
        return "a struct has at most 24 fields: nest some of them";
    } else {
        return "it is neither a number, bool, enum, string, vector, optional, array, duration or "
               "ecs::Entity, nor a struct without constructors, base classes and private fields, nor does "
               "Replicate name its parts";
    }
}

/// Which field a walk has reached, and the first mistake that it found.
class Trail {
public:
    void enter(std::string_view type) { steps_.push_back({type, 0}); }
    void next_field() { steps_.back().field += 1; }
    void leave() { steps_.pop_back(); }

    /// Notes that the field reached, of this type, cannot replicate. Returns false.
    bool refuse(std::string_view type, std::string_view why);
    /// Notes that the codec of the field reached, of this type, does not fit. Returns false.
    bool refuse_codec(std::string_view type, std::string_view why);

    /// The mistake, as the rest of a sentence that begins with the component's name; empty: none.
    const std::string& problem() const { return problem_; }

private:
    struct Step {
        std::string_view type;
        unsigned field;  // the first one has number 1
    };

    std::string place() const;

    std::vector<Step> steps_;
    std::string problem_;
};

/// Returns whether `part` lies inside of `whole`.
template <class Whole, class Part>
bool contains(const Whole& whole, const Part& part) {
    const auto first = reinterpret_cast<std::uintptr_t>(&whole), at = reinterpret_cast<std::uintptr_t>(&part);
    return at >= first && at - first <= sizeof(Whole) && sizeof(Part) <= sizeof(Whole) - (at - first);
}

template <class T, class Sink>
bool walk(const T& object, const std::byte* base, Sink& sink);

/// Visits a field or part of `object`. `why_outside`: said of a field that is not inside of the object.
template <class T, class Field, class Sink>
bool walk_field(const T& object, const Field& field, std::string_view why_outside, const std::byte* base,
                Sink& sink) {
    sink.trail().next_field();
    if (!contains(object, field)) return sink.trail().refuse(ecs::type_name<Field>(), why_outside);
    if constexpr (std::same_as<Field, T>) {
        return sink.trail().refuse(ecs::type_name<T>(), "Replicate names the object as a part of itself");
    } else {
        return walk(field, base, sink);
    }
}

/// Visits the parts that Replicate names. Replicate gets an object that is not const, so that its function
/// may take one.
template <class T, class Sink>
bool walk_parts(const T& object, const std::byte* base, Sink& sink) {
    const auto walk_each = [&](const auto&... parts) {
        constexpr std::string_view kOutside = "Replicate has to name members of the object, with std::tie";
        return (walk_field(object, parts, kOutside, base, sink) && ...);
    };
    sink.trail().enter(ecs::type_name<T>());
    const bool ok = std::apply(walk_each, Replicate<T>::fields(const_cast<T&>(object)));
    sink.trail().leave();
    return ok;
}

template <Aggregate T, class Sink>
bool walk_aggregate(const T& object, const std::byte* base, Sink& sink) {
    bool ok = true;
    sink.trail().enter(ecs::type_name<T>());
    for_each_field(object, [&](const auto& field) {
        // The structured binding of a bit-field is a temporary copy outside of the object.
        ok = ok && walk_field(object, field, "a bit-field has no address", base, sink);
    });
    sink.trail().leave();
    return ok;
}

/// Visits an object of the component: passes each scalar and sequence to `sink`, with its offset from
/// `base`. Returns false if a field cannot replicate, after it told the sink's trail why. The object must not
/// be const.
template <class T, class Sink>
bool walk(const T& object, const std::byte* base, Sink& sink) {
    const std::size_t offset = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&object) - base);
    if constexpr (Customised<T>) {
        return walk_parts(object, base, sink);
    } else if constexpr (is_scalar<T>) {
        return sink.scalar({field_type<T>(), std::is_enum_v<T>, ecs::type_name<T>()}, offset);
    } else if constexpr (is_duration<T>) {
        // A duration holds nothing but its count, which it gives no reference to.
        static_assert(sizeof(T) == sizeof(typename T::rep));
        if constexpr (!is_scalar<typename T::rep>) {
            return sink.trail().refuse(ecs::type_name<T>(), "its count is no number");
        } else {
            return sink.scalar({field_type<typename T::rep>(), false, ecs::type_name<T>()}, offset);
        }
    } else if constexpr (is_string<T> && Sink::kNested) {
        return sink.trail().refuse(ecs::type_name<T>(), why_not<T>());
    } else if constexpr (is_string<T>) {
        sink.sequence(offset, sequence_ops<T>(), 1, SequenceKind::string);
        return sink.element().scalar({FieldType::u8, true, ecs::type_name<T>()}, 0);
    } else if constexpr (is_vector<T> || is_optional<T>) {
        using Element = typename T::value_type;
        if constexpr (Sink::kNested || is_sequence<Element> || !std::is_default_constructible_v<Element>) {
            return sink.trail().refuse(ecs::type_name<T>(), why_not<T>());
        } else {
            sink.sequence(offset, sequence_ops<T>(), sizeof(Element), sequence_kind<T>);
            Element element{};
            auto inner = sink.element();
            return walk(element, reinterpret_cast<const std::byte*>(&element), inner);
        }
    } else if constexpr (std::is_bounded_array_v<T> || is_std_array<T>) {
        for (const auto& element : object)
            if (!walk(element, base, sink)) return false;
        return true;
    } else if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T>) {
        if constexpr (field_count<T>() > kMaxFields) {
            return sink.trail().refuse(ecs::type_name<T>(), why_not<T>());
        } else {
            return walk_aggregate(object, base, sink);
        }
    } else {
        return sink.trail().refuse(ecs::type_name<T>(), why_not<T>());
    }
}

template <class T>
struct InnermostOf {
    using type = T;
};
template <class T, std::size_t N>
struct InnermostOf<T[N]> : InnermostOf<T> {};
template <class T, std::size_t N>
struct InnermostOf<std::array<T, N>> : InnermostOf<T> {};
/// The type of the elements of an array, or of an array of arrays; any other type itself.
template <class T>
using Innermost = typename InnermostOf<T>::type;

template <class T>
requires(is_vector<Innermost<T>> || is_optional<Innermost<T>>) struct ElementTypeOf {
    using type = typename Innermost<T>::value_type;
};
/// The type of the elements of a vector or optional, or of those of an array of them.
template <class T>
using ElementOf = typename ElementTypeOf<T>::type;

/// The codec of a field, and which bytes of the component or element the field occupies.
struct CodecRange {
    std::size_t offset, size;
    std::string_view type;
    FieldCodec codec;
    std::vector<CodecRange> elements;  // of the fields of a vector's elements
    bool used = false;
};

/// Describes a codec that was not used for any scalar, as the rest of a sentence that begins with the
/// component's name. Returns an empty text if all were used.
std::string unused_codec(const std::vector<CodecRange>& ranges);

/// What the leaf of a scalar needs to know of its C++ type.
struct ScalarType {
    FieldType type;
    bool is_enum;
    std::string_view name;
};

/// Collects the scalars of an element of a string, vector or optional.
class ElementSink {
public:
    static constexpr bool kNested = true;

    /// `codec`: for fields of the element that have none in `ranges`.
    ElementSink(Part& part, std::vector<CodecRange>& ranges, const FieldCodec& codec, Trail& trail)
        : part_(part), ranges_(ranges), codec_(codec), trail_(trail) {}

    Trail& trail() { return trail_; }
    bool scalar(const ScalarType& type, std::size_t offset);

private:
    Part& part_;
    std::vector<CodecRange>& ranges_;
    FieldCodec codec_;
    Trail& trail_;
};

/// Collects the leaves and parts of a component, with their codecs.
class LayoutSink {
public:
    static constexpr bool kNested = false;

    LayoutSink(std::vector<CodecRange>& ranges, FieldCodec all) : ranges_(ranges), all_(all) {}

    Trail& trail() { return trail_; }
    bool scalar(const ScalarType& type, std::size_t offset);
    void sequence(std::size_t offset, const SequenceOps& ops, std::size_t stride, SequenceKind kind);
    ElementSink element() { return {parts.back(), *element_ranges_, element_codec_, trail_}; }

    std::vector<Leaf> leaves;
    std::vector<Part> parts;

private:
    Trail trail_;
    std::vector<CodecRange>& ranges_;
    FieldCodec all_;
    FieldCodec element_codec_;  // of the last sequence, as element_ranges_
    std::vector<CodecRange>* element_ranges_ = nullptr;
    std::vector<CodecRange> no_ranges_;
};

}  // namespace detail
}  // namespace shoal::replication
