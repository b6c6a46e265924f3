#pragma once
// Finds the fields of an aggregate at compile time, without macros and without a list of fields. Method: an
// aggregate with n fields can be initialised from n values of a type that converts to anything, but not from
// n + 1. Structured bindings then give access to the fields. A C array takes as many values as it has
// elements (brace elision), so arrays are counted separately.

#include <cstddef>
#include <cstdlib>
#include <type_traits>
#include <utility>

namespace shoal::replication::impl {

/// Greatest number of direct fields of a struct; nest structs to have more.
inline constexpr std::size_t kMaxFields = 24;

struct Anything {
    /// Never called: used in unevaluated expressions. clang++ wants a definition nevertheless if a constexpr
    /// constructor (of std::optional) takes it for a type of an unnamed namespace.
    template <class T>
    operator T() const noexcept {
        std::abort();
    }
};

template <std::size_t>
using AnythingAt = Anything;

template <class T, std::size_t... Before, std::size_t... Inside, std::size_t... After>
constexpr bool accepts(std::index_sequence<Before...>, std::index_sequence<Inside...>,
                       std::index_sequence<After...>) {
    return requires {
        T{AnythingAt<Before>{}..., {AnythingAt<Inside>{}...}, AnythingAt<After>{}...};
    };
}

template <class T, std::size_t... I>
constexpr bool accepts_flat(std::index_sequence<I...>) {
    return requires {
        T{AnythingAt<I>{}...};
    };
}

/// Greatest number of values that initialise T without inner braces. An array takes one value per element.
/// Counting stops at kMaxFields * 16 + 1.
template <class T, std::size_t Tried = 0>
constexpr std::size_t flat_count() {
    if constexpr (Tried > kMaxFields * 16) {
        return Tried;
    } else if constexpr (accepts_flat<T>(std::make_index_sequence<Tried + 1>{})) {
        return flat_count<T, Tried + 1>();
    } else {
        return Tried;
    }
}

/// Returns how many values initialise one field: the number of elements if the field is an array, else 1.
/// `At`: how many values initialise the fields before it. `Total`: flat_count() of T.
template <class T, std::size_t Total, std::size_t At, std::size_t Tried = 0>
constexpr std::size_t field_width() {
    // Tries to initialise T with `At` values, then `Tried` values in inner braces, then the other values.
    // Empty braces stand for one value; a class may have constructors, so the number of values that its
    // braces take says nothing. Only an array is not initialised then, because it takes several values.
    constexpr std::size_t kWidth = Tried == 0 ? 1 : Tried;
    if constexpr (accepts<T>(std::make_index_sequence<At>{}, std::make_index_sequence<Tried>{},
                             std::make_index_sequence<Total - At - kWidth>{})) {
        return kWidth;
    } else if constexpr (At + Tried < Total) {
        return field_width<T, Total, At, Tried + 1>();
    } else {
        return 1;
    }
}

template <class T, std::size_t Total, std::size_t At = 0>
constexpr std::size_t count_from() {
    if constexpr (At >= Total) {
        return 0;
    } else {
        return 1 + count_from<T, Total, At + field_width<T, Total, At>()>();
    }
}

/// An array, or a struct without constructors, private fields and virtual functions.
template <class T>
concept Aggregate = std::is_aggregate_v<T>;

/// Returns the number of direct fields of T; an array counts as one.
template <Aggregate T>
constexpr std::size_t field_count() {
    return count_from<T, flat_count<T>()>();
}

/// Returns fn(fields...) with the direct fields of `object`, in order of declaration.
/// Requires field_count<T>() <= kMaxFields and no base class.
template <class T, class Fn>
decltype(auto) with_fields(T& object, Fn&& fn) {
    constexpr std::size_t count = field_count<T>();
    static_assert(count <= kMaxFields, "too many fields in one struct: nest them");
    if constexpr (count == 0) {
        return fn();
    } else if constexpr (count == 1) {
        auto& [a] = object;
        return fn(a);
    } else if constexpr (count == 2) {
        auto& [a, b] = object;
        return fn(a, b);
    } else if constexpr (count == 3) {
        auto& [a, b, c] = object;
        return fn(a, b, c);
    } else if constexpr (count == 4) {
        auto& [a, b, c, d] = object;
        return fn(a, b, c, d);
    } else if constexpr (count == 5) {
        auto& [a, b, c, d, e] = object;
        return fn(a, b, c, d, e);
    } else if constexpr (count == 6) {
        auto& [a, b, c, d, e, f] = object;
        return fn(a, b, c, d, e, f);
    } else if constexpr (count == 7) {
        auto& [a, b, c, d, e, f, g] = object;
        return fn(a, b, c, d, e, f, g);
    } else if constexpr (count == 8) {
        auto& [a, b, c, d, e, f, g, h] = object;
        return fn(a, b, c, d, e, f, g, h);
    } else if constexpr (count == 9) {
        auto& [a, b, c, d, e, f, g, h, i] = object;
        return fn(a, b, c, d, e, f, g, h, i);
    } else if constexpr (count == 10) {
        auto& [a, b, c, d, e, f, g, h, i, j] = object;
        return fn(a, b, c, d, e, f, g, h, i, j);
    } else if constexpr (count == 11) {
        auto& [a, b, c, d, e, f, g, h, i, j, k] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k);
    } else if constexpr (count == 12) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l);
    } else if constexpr (count == 13) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l, m);
    } else if constexpr (count == 14) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
    } else if constexpr (count == 15) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
    } else if constexpr (count == 16) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
    } else if constexpr (count == 17) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q);
    } else if constexpr (count == 18) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r);
    } else if constexpr (count == 19) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s);
    } else if constexpr (count == 20) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t);
    } else if constexpr (count == 21) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u);
    } else if constexpr (count == 22) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v);
    } else if constexpr (count == 23) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w);
    } else if constexpr (count == 24) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x] = object;
        return fn(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x);
    }
}

/// Calls visit(field) for each of them.
template <class T, class Visit>
void for_each_field(T& object, Visit&& visit) {
    with_fields(object, [&](auto&... fields) { (visit(fields), ...); });
}

}  // namespace shoal::replication::impl
