#pragma once
// The options of one declaration in a schema: which there are for a component, a tag, a relation, a message
// and an action, and what they say together. Games use field(), element() and inner().

#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include "lanes.h"
#include "options.h"
#include "view_class.h"
#include "walk.h"

namespace shoal::replication::impl {

template <class T>
struct Field;

template <class F, class T>
inline constexpr bool is_field_of = false;
template <class Base, class T>
inline constexpr bool is_field_of<Field<Base>, T> = std::same_as<Base, T> || std::derived_from<T, Base>;

template <class T, class Member>
CodecRange range_of(Member T::*member, const FieldCodec& codec) {
    const T object{};
    return {offset_in(object, object.*member), sizeof(Member), ecs::impl::type_name<Member>(), codec, {}};
}

/// Appends ranges inside of an object at `offset`.
inline void append_ranges(std::vector<CodecRange>& to, const std::vector<CodecRange>& ranges,
                          std::size_t offset) {
    for (const CodecRange& range : ranges) {
        to.push_back(range);
        to.back().offset += offset;
    }
}

/// Codecs of a field of T, and of fields inside it. Made by field() and element().
template <class T>
struct Field {
    std::vector<CodecRange> ranges;  // the first one that contains a scalar applies to it
};

/// The type of a data member; a member function does not have such a type.
template <class T>
concept Object = std::is_object_v<T>;

/// Codecs for a field of T, or of a base class of T.
template <class F, class T>
concept FieldOf = is_field_of<F, T>;

/// A codec in the declaration of a T: of a field, or for all fields.
template <class Option, class T>
concept CodecOption = FieldOf<Option, T> || std::same_as<Option, FieldCodec>;

/// An option in the declaration of a message.
template <class Option, class T>
concept MessageOption = CodecOption<Option, T> || std::same_as<Option, WithState>;

/// An option in the declaration of an action.
template <class Option, class T>
concept ActionOption =
    MessageOption<Option, T> || std::same_as<Option, AtMost> || std::same_as<Option, Independent>;

template <class Option, class T>
inline constexpr bool is_shown_by = false;
template <class Fn, class T>
inline constexpr bool is_shown_by<ShownBy<Fn>, T> = std::is_move_assignable_v<T>;

/// An option in the declaration of a tag.
template <class Option>
concept TagOption = std::same_as<Option, ViewClasses> || std::same_as<Option, SeenEverywhere> ||
    std::same_as<Option, Every> || std::same_as<Option, FreshWithin>;

/// An option in the declaration of a component.
template <class Option, class T>
concept ComponentOption =
    CodecOption<Option, T> || std::same_as<Option, Display> || std::same_as<Option, Role> ||
    std::same_as<Option, Tolerance> || TagOption<Option> || is_shown_by<Option, T>;

/// An option in the declaration of a relation.
template <class Option, class R>
concept PairOption = ComponentOption<Option, R> || std::same_as<Option, FollowsTarget>;

/// Writes to `out` the value at the part `t` of the way from `a` to `b`. All are values of one C++ type;
/// `out` is neither `a` nor `b`.
using MixValues = std::function<void(const void* a, const void* b, float t, void* out)>;

/// What a component's options say, except its codecs. No part of the signature: it has no effect on the bytes
/// of the state.
struct ComponentTraits {
    ViewClasses viewers = to_everyone();
    Display display{};
    MixValues mix{};  // only with Display::Kind::own
    Role role = Role::server;
    std::optional<double> tolerance{};                   // see predicted(); empty: the default
    bool is_everywhere = false, follows_target = false;  // see everywhere() and follows()
    std::optional<double> interval{}, goal{};            // see every() and fresh_within(); in seconds
};
/// What the options of a message or an action say, except its codecs.
struct StructTraits {
    bool has_state = false;  // see with_state(); part of the signature
    bool is_independent = false;
    double per_second = 60;
};

/// The options of one declaration.
template <class T>
struct Declared : ComponentTraits, StructTraits {
    template <class... Given>
    explicit Declared(const Given&... given) {
        (take(given), ...);
    }

    template <class Base>
    void take(const Field<Base>& field) {
        std::size_t offset = 0;
        if constexpr (!std::same_as<T, Base>) {
            const T object{};
            offset = offset_in(object, static_cast<const Base&>(object));
        }
        append_ranges(ranges, field.ranges, offset);
    }
    void take(const FieldCodec& codec) { all = combined(all, codec); }
    void take(const ViewClasses& classes) { viewers = classes; }
    void take(const Display& shown) {
        has_two_displays = has_two_displays || display.kind == Display::Kind::own;
        display = shown;
    }
    template <class Fn>
    void take(const ShownBy<Fn>& shown) {
        static_assert(std::is_invocable_r_v<T, const Fn&, const T&, const T&, float>,
                      "the function of shown_by() must be: T(const T&, const T&, float)");
        has_two_displays = has_two_displays || display.kind != Display::Kind::step;
        display = {Display::Kind::own, 0};
        if constexpr (std::is_constructible_v<bool, const Fn&>)
            if (!static_cast<bool>(shown.fn)) return;  // an error: nothing mixes
        mix = [fn = shown.fn](const void* a, const void* b, float t, void* out) {
            *static_cast<T*>(out) = fn(*static_cast<const T*>(a), *static_cast<const T*>(b), t);
        };
    }
    void take(const AtMost& rate) { per_second = rate.per_second; }
    void take(const Independent&) { is_independent = true; }
    void take(const WithState&) { has_state = true; }
    void take(const SeenEverywhere&) { is_everywhere = true; }
    void take(const FollowsTarget&) { follows_target = true; }
    void take(const Every& given) { interval = given.seconds; }
    void take(const FreshWithin& given) { goal = given.seconds; }
    void take(const Role& given) {
        has_two_roles = has_two_roles || (role != Role::server && given != role);
        role = given;
    }
    void take(const Tolerance& given) {
        take(Role::predicted);
        tolerance = given.difference;
    }

    /// Returns whether no option needs a value of T.
    bool fits_tag() const {
        return ranges.empty() && all == FieldCodec{} && display == Display{} && role == Role::server;
    }

    std::vector<CodecRange> ranges;
    FieldCodec all;  // the codec of all fields without a codec in `ranges`
    bool has_two_displays = false, has_two_roles = false;
};

/// A field's codec applies to every scalar inside the field, except those for which `given` has a codec. May
/// be one max_length() and one codec for numbers. `given` also names fields of the struct in this field or,
/// if the field is an array, of its elements: field(&Body::centre, field(&Vec::x, quantised(-1, 1, 0.1))).
template <std::default_initializable T, Object Member, CodecOption<Innermost<Member>>... Given>
requires(sizeof...(Given) > 0) Field<T> field(Member T::*member, const Given&... given) {
    const Declared<Innermost<Member>> inside(given...);
    Field<T> out;
    const CodecRange range = range_of(member, inside.all);
    for (std::size_t at = 0; at < sizeof(Member); at += sizeof(Innermost<Member>))
        append_ranges(out.ranges, inside.ranges, range.offset + at);
    if ((std::same_as<Given, FieldCodec> || ...)) out.ranges.push_back(range);
    return out;
}

/// Codecs for the fields of a vector's elements, of the value in an optional, or of a map's entries, which
/// are pairs (`first` is the key). A codec applies to the other fields of the elements; max_length() to the
/// member itself: element(&Bag::items, max_length(40), field(&Item::kind, bounded(0, 500))). It is not for
/// strings, vectors and maps inside the elements.
template <std::default_initializable T, Object Member, CodecOption<ElementOf<Member>>... Given>
requires(sizeof...(Given) > 0) Field<T> element(Member T::*member, const Given&... given) {
    const Declared<ElementOf<Member>> inside(given...);
    Field<T> out{{range_of(member, inside.all)}};
    out.ranges[0].elements = inside.ranges;
    return out;
}

/// Codecs for elements of type T, which is itself a string, vector, optional or map, as element() has them
/// for a member: element(&Grid::rows, max_length(8),
///                   inner<std::vector<Cell>>(max_length(9), field(&Cell::kind, bounded(0, 5)))).
template <class T, CodecOption<typename T::value_type>... Given>
requires(is_sequence<T> && sizeof...(Given) > 0) Field<T> inner(const Given&... given) {
    const Declared<typename T::value_type> inside(given...);
    return {{{0, sizeof(T), ecs::impl::type_name<T>(), inside.all, inside.ranges}}};
}

}  // namespace shoal::replication::impl
