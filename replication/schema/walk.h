#pragma once
// Finds the scalars, strings, vectors, optionals and maps of a component, level by level. In an aggregate it
// visits the fields, in another type the parts that Replicate names.

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
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

namespace impl {

/// A field of an input that says how often something was pressed in one tick. A press is in exactly one tick,
/// also if the frames of a client are shorter or longer than a tick. Unlike other fields it is not held: an
/// input that is missing at its tick has no press. Codecs do not apply to it.
struct Press {
    static constexpr std::uint8_t kMax = 3;  // most presses in one tick; more wait for the next tick

    constexpr Press() = default;
    constexpr Press(bool is_pressed) : count(is_pressed ? 1 : 0) {}
    constexpr explicit operator bool() const { return count != 0; }

    std::uint8_t count = 0;
};

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
inline constexpr bool is_ordered_map = false;
template <class K, class V, class Compare, class Allocator>
inline constexpr bool is_ordered_map<std::map<K, V, Compare, Allocator>> = true;
template <class T>
inline constexpr bool is_map = is_ordered_map<T>;
template <class K, class V, class Hash, class Equal, class Allocator>
inline constexpr bool is_map<std::unordered_map<K, V, Hash, Equal, Allocator>> = true;
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

template <class T>
inline constexpr bool is_sequence = is_string<T> || is_vector<T> || is_optional<T> || is_map<T>;

/// A map with entries that can be created and, if it is unordered, sorted.
template <class T>
concept UsableMap = is_map<T> && std::is_default_constructible_v<typename T::value_type> &&
    std::is_copy_constructible_v<typename T::key_type> &&
    (is_ordered_map<T> || requires(const typename T::key_type& key) {
        { key < key } -> std::convertible_to<bool>;
    });

template <class T>
void read_elements(const void* from, std::size_t count, PointerStack& out) {
    const T& sequence = *static_cast<const T*>(from);
    if constexpr (is_optional<T>) {
        if (count != 0) out.push_back(&*sequence);
    } else if constexpr (is_map<T>) {
        const auto first = static_cast<std::ptrdiff_t>(out.size());
        for (const auto& entry : sequence) out.push_back(&entry);
        if constexpr (!is_ordered_map<T>)
            std::sort(out.begin() + first, out.end(), [](const void* a, const void* b) {
                using Entry = typename T::value_type;
                return static_cast<const Entry*>(a)->first < static_cast<const Entry*>(b)->first;
            });
        out.resize(static_cast<std::size_t>(first) + count);
    } else {
        for (std::size_t i = 0; i < count; ++i) out.push_back(sequence.data() + i);
    }
}

template <UsableMap T>
void write_entries(void* to, std::size_t count, PointerStack& stack,
                   const std::function<void(void* at, bool is_key)>& restore) {
    T& map = *static_cast<T*>(to);
    const std::size_t first = stack.size();
    typename T::key_type key{};
    for (std::size_t i = 0; i < count; ++i) {
        restore(&key, true);
        auto& entry = *map.try_emplace(key).first;
        restore(&entry, false);
        stack.push_back(&entry);
    }
    const auto written = stack.begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(written, stack.end(), std::less<>());
    std::erase_if(map, [&](const auto& entry) {
        return !std::binary_search(written, stack.end(), static_cast<const void*>(&entry), std::less<>());
    });
    stack.resize(first);
}

/// An optional is a sequence of at most one element.
template <class T>
void* resize_sequence(void* to, std::size_t count) {
    T& sequence = *static_cast<T*>(to);
    if constexpr (is_optional<T>) {
        if (count == 0) sequence.reset();
        if (count != 0 && !sequence) sequence.emplace();
        return sequence ? &*sequence : nullptr;
    } else {
        sequence.resize(count);
        return sequence.data();
    }
}

template <class T>
SequenceOps sequence_ops() {
    const auto size = [](const void* s) -> std::size_t {
        if constexpr (is_optional<T>)
            return static_cast<const T*>(s)->has_value();
        else
            return static_cast<const T*>(s)->size();
    };
    if constexpr (is_map<T>) {
        return {size, read_elements<T>, nullptr, write_entries<T>};
    } else {
        return {size, read_elements<T>, resize_sequence<T>, nullptr};
    }
}

/// Why a field of type T that is no scalar, array or small aggregate, and no usable string, vector, optional
/// or map, cannot replicate.
template <class T>
constexpr std::string_view why_not() {
    if constexpr (std::is_pointer_v<T>) {
        return "a pointer means nothing on another machine";
    } else if constexpr (std::same_as<T, std::string_view>) {
        return "a string_view does not own its text: use std::string";
    } else if constexpr (is_map<T>) {
        return "keys and values of a map need a default constructor, keys a copy constructor, and those of "
               "an "
               "unordered_map an operator <";
    } else if constexpr (is_sequence<T>) {
        return "elements of a vector or optional need a default constructor";
    } else if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T>) {
        return "a struct has at most 24 fields: nest some of them";
    } else {
        return "it is neither a number, bool, enum, string, vector, optional, map, array, duration or "
               "ecs::Entity, nor a struct without constructors, base classes and private fields, nor does "
               "Replicate name its parts";
    }
}

/// The codec of a field, and which bytes of the component or element the field occupies.
struct CodecRange {
    std::size_t offset, size;
    std::string_view type;
    FieldCodec codec;
    std::vector<CodecRange> elements;  // codecs of the fields of the elements
    bool used = false;
};

/// Describes a codec that was not used for any scalar, as the rest of a sentence that begins with the
/// component's name. Returns an empty text if all were used.
std::string unused_codec(const std::vector<CodecRange>& ranges);

/// Returns whether a codec is Kind::ambiguous. `rest`: the codec of the fields without one in `ranges`.
bool has_ambiguous_codec(const std::vector<CodecRange>& ranges, const FieldCodec& rest);

/// Collects the leaves and parts of a component, with their codecs. Knows which field the walk has reached.
class LayoutSink {
public:
    /// `codec`: the codec of fields without one in `ranges`. Refuses sequences inside one another deeper than
    /// `max_nesting`.
    LayoutSink(std::vector<CodecRange>& ranges, const FieldCodec& codec,
               std::size_t max_nesting = kMaxNesting)
        : max_nesting_(max_nesting), rows_{{Part::kNone, &ranges, codec}} {}

    /// The fields that follow, until leave_struct(), are of a struct of this type.
    void enter_struct(std::string_view type) { steps_.push_back({type, 0}); }
    void next_field() { steps_.back().field += 1; }
    void leave_struct() { steps_.pop_back(); }

    /// Return false if the field cannot replicate. `type`: the name of its C++ type.
    bool scalar(std::string_view type, FieldType kind, bool is_enum, std::size_t offset);
    bool press(std::size_t offset);
    /// The scalars and sequences that follow, until leave(), are in the elements of `part`. Its max_length is
    /// the default, or 1 for an optional.
    bool enter(std::string_view type, bool is_string, Part part);
    void leave() { rows_.pop_back(); }

    /// Notes that the field, which has this type, cannot replicate. Returns false.
    bool refuse(std::string_view type, std::string_view why);
    /// The mistake, as the rest of a sentence that begins with the component's name; empty: none.
    const std::string& problem() const { return problem_; }

    std::vector<Leaf> leaves;
    std::vector<Part> parts;

private:
    /// A component or element whose fields are visited.
    struct Row {
        std::uint32_t part;  // index; kNone: the component
        std::vector<CodecRange>* ranges;
        FieldCodec codec;  // codec of the fields without a range
    };
    struct Step {
        std::string_view type;
        unsigned field;  // the first one has number 1
    };

    std::string place() const;
    bool is_in_key(std::size_t offset) const;

    const std::size_t max_nesting_;
    std::vector<Step> steps_;  // the structs around the field
    std::string problem_;
    std::vector<Row> rows_;
    std::vector<CodecRange> no_ranges_;
};

/// Returns whether `part` lies inside of `whole`.
template <class Whole, class Part>
bool contains(const Whole& whole, const Part& part) {
    const auto first = reinterpret_cast<std::uintptr_t>(&whole), at = reinterpret_cast<std::uintptr_t>(&part);
    const std::uintptr_t offset = at - first;  // huge if the part is before the object
    return offset <= sizeof(Whole) && sizeof(Part) <= sizeof(Whole) - offset;
}

template <class T>
bool walk(const T& object, const std::byte* base, LayoutSink& sink);

/// Visits a field or part of `object`. `why_outside`: the error text for a field that lies outside of it.
template <class T, class Field>
bool walk_field(const T& object, const Field& field, std::string_view why_outside, const std::byte* base,
                LayoutSink& sink) {
    sink.next_field();
    if (!contains(object, field)) return sink.refuse(ecs::impl::type_name<Field>(), why_outside);
    if constexpr (std::same_as<Field, T>) {
        return sink.refuse(ecs::impl::type_name<T>(), "Replicate names the object as a part of itself");
    } else {
        return walk(field, base, sink);
    }
}

/// Visits the fields or parts of a struct, in order.
template <class T, class... Fields>
bool walk_fields(const T& object, [[maybe_unused]] std::string_view why_outside,
                 [[maybe_unused]] const std::byte* base, LayoutSink& sink, const Fields&... fields) {
    sink.enter_struct(ecs::impl::type_name<T>());
    const bool ok = (walk_field(object, fields, why_outside, base, sink) && ...);
    sink.leave_struct();
    return ok;
}

/// Visits the parts that Replicate names. The object is passed to Replicate as not const, because
/// Replicate::fields() may have a parameter that is not const.
template <class T>
bool walk_parts(const T& object, const std::byte* base, LayoutSink& sink) {
    const auto walk_each = [&](const auto&... parts) {
        return walk_fields(object, "Replicate has to name members of the object, with std::tie", base, sink,
                           parts...);
    };
    constexpr bool kFits = requires(T & value) {
        std::apply(walk_each, Replicate<T>::fields(value));
    };
    static_assert(kFits,
                  "Replicate<T> must have: static auto fields(auto& v) { return std::tie(v.a, v.b); }");
    if constexpr (kFits) return std::apply(walk_each, Replicate<T>::fields(const_cast<T&>(object)));
    return false;
}

/// Visits an element of the sequence T.
template <class T, class Element>
bool walk_element(const Element& element, LayoutSink& sink) {
    const auto* const base = reinterpret_cast<const std::byte*>(&element);
    if constexpr (is_string<T>) {
        return sink.scalar(ecs::impl::type_name<T>(), FieldType::u8, true, 0);
    } else if constexpr (is_map<T>) {
        return walk_fields(element, {}, base, sink, element.first, element.second);
    } else {
        return walk(element, base, sink);
    }
}

/// Visits an object of the component: passes each scalar and sequence to `sink`, with its offset from
/// `base`. Returns false if a field cannot replicate.
template <class T>
bool walk(const T& object, const std::byte* base, LayoutSink& sink) {
    const std::size_t offset = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&object) - base);
    if constexpr (std::same_as<T, Press>) {
        return sink.press(offset);
    } else if constexpr (Customised<T>) {
        return walk_parts(object, base, sink);
    } else if constexpr (is_scalar<T>) {
        return sink.scalar(ecs::impl::type_name<T>(), field_type<T>(), std::is_enum_v<T>, offset);
    } else if constexpr (is_duration<T>) {
        // A duration holds nothing but its count, which it gives no reference to.
        static_assert(sizeof(T) == sizeof(typename T::rep));
        if constexpr (!is_scalar<typename T::rep>) {
            return sink.refuse(ecs::impl::type_name<T>(), "its count is no number");
        } else {
            return sink.scalar(ecs::impl::type_name<T>(), field_type<typename T::rep>(), false, offset);
        }
    } else if constexpr (is_sequence<T>) {
        using Element = typename T::value_type;
        if constexpr (!std::is_default_constructible_v<Element> || (is_map<T> && !UsableMap<T>)) {
            return sink.refuse(ecs::impl::type_name<T>(), why_not<T>());
        } else {
            Element element{};
            Part part;
            part.offset = static_cast<std::uint32_t>(offset);
            part.stride = sizeof(Element);
            part.max_length = is_string<T> ? kDefaultMaxString : is_optional<T> ? 1 : kDefaultMaxVector;
            part.ops = sequence_ops<T>();
            if constexpr (is_map<T>) {
                assert(offset_in(element, element.first) == 0);  // a key is restored outside of its entry
                part.value_offset = static_cast<std::uint32_t>(offset_in(element, element.second));
            }
            if (!sink.enter(ecs::impl::type_name<T>(), is_string<T>, std::move(part))) return false;
            const bool ok = walk_element<T>(element, sink);
            sink.leave();
            return ok;
        }
    } else if constexpr (std::is_bounded_array_v<T> || is_std_array<T>) {
        for (const auto& element : object)
            if (!walk(element, base, sink)) return false;
        return true;
    } else if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T>) {
        if constexpr (field_count<T>() > kMaxFields) {
            return sink.refuse(ecs::impl::type_name<T>(), why_not<T>());
        } else {
            // The structured binding of a bit-field is a temporary copy outside of the object.
            return with_fields(object, [&](const auto&... fields) {
                return walk_fields(object, "a bit-field has no address", base, sink, fields...);
            });
        }
    } else {
        return sink.refuse(ecs::impl::type_name<T>(), why_not<T>());
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
requires(is_vector<Innermost<T>> || is_optional<Innermost<T>> || is_map<Innermost<T>>) struct ElementTypeOf {
    using type = typename Innermost<T>::value_type;
};
/// The type of the elements of a vector, optional or map. T may also be an array of vectors, optionals or
/// maps.
template <class T>
using ElementOf = typename ElementTypeOf<T>::type;

}  // namespace impl
}  // namespace shoal::replication
