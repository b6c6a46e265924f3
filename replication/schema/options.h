#pragma once
// Options of a component beside its codecs: how clients show it, and who decides its
// value.

#include <cstdint>
#include <utility>

namespace shoal::replication {

/// How a client shows a component at a time between two versions, see Client::sample(). Made by the functions
/// below.
struct Display {
    enum class Kind : std::uint8_t {
        step,     // the value of the older version is shown
        linear,   // each number of the component is mixed by itself
        angular,  // each number is an angle in radians, and takes the shorter way
        slerp,    // each four numbers are a rotation as a quaternion, and take the shorter way
        own,      // the game mixes two values, see shown_by()
    } kind = Kind::step;
    double cut = 0;  // the component is not mixed if one of its numbers jumps further; 0: no limit

    bool operator==(const Display&) const = default;
};
/// linear(), angular() and slerp() require that the component has floats or doubles outside of strings,
/// vectors, optionals and maps. Between two versions, the other fields keep their values of the older
/// version, and three numbers with unit_vector() form a vector of length 1.
constexpr Display linear(double cut = 0) {
    return {Display::Kind::linear, cut};
}
constexpr Display angular() {
    return {Display::Kind::angular, 0};
}
constexpr Display slerp() {
    return {Display::Kind::slerp, 0};
}

/// The game's own way to mix two values of a component.
template <class Fn>
struct ShownBy {
    Fn fn;
};
/// fn(const T& a, const T& b, float t) returns the T to show at the part `t` of the way from `a` to `b`. `t`
/// is over 1 while newer state is missing. The function is called by clients, and by the server for what a
/// player saw, so it must depend on nothing else. The component may hold anything.
template <class Fn>
ShownBy<Fn> shown_by(Fn fn) {
    return {std::move(fn)};
}

/// Who decides the value of a component.
enum class Role : std::uint8_t {
    server,
    predicted,  // the server; but the client that plays the entity computes it ahead of the server
    owner,      // the client that owns the entity; the server checks the value
};
constexpr Role predicted() {
    return Role::predicted;
}
/// How far a predicted component may be off before its client is corrected.
struct Tolerance {
    double difference = 0;
};
/// As predicted(), but a client's result is not corrected while none of the component's numbers differs from
/// the server's by more than `tolerance`, in the units of the component; >= 0. Angles with the codec angle()
/// are compared the shorter way, and rotations with smallest_three() up to their sign. Bools and enums must
/// be equal. Without a tolerance, rounded numbers may differ by one step of their codec, and by nothing with
/// Schema::quantise_authority(); others must be equal.
constexpr Tolerance predicted(double tolerance) {
    return {tolerance};
}
/// The owner's client writes it, see OwnedWriter. Needs the tag Mine in the schema.
constexpr Role from_owner() {
    return Role::owner;
}

/// Option of an action: how often a player may do it, on average. The server lets it wait if it comes more
/// often.
struct AtMost {
    double per_second = 0;  // > 0
};
constexpr AtMost at_most(double per_second) {
    return {per_second};
}
/// Option of an action: it neither depends on the player's other actions nor they on it, for example a chat
/// text. It cannot create entities.
struct Independent {};
constexpr Independent independent() {
    return {};
}

}  // namespace shoal::replication
