#pragma once
// Options of a component beside its codecs: how clients show it, who decides its value, and how often it is
// sent. And the grid, with which players see what is near.

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "../../ecs/world.h"

namespace shoal::replication::impl {

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
/// player saw, so its result must depend only on its arguments. The component may hold anything.
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
/// As predicted(), but a client's result is corrected only if a number of the component differs from the
/// server's by more than `tolerance`, or if a bool or enum differs. `tolerance` is in the units of the
/// component, >= 0. Angles with the codec angle() are compared the shorter way. For rotations with
/// smallest_three(), a quaternion equals its negative. Without a tolerance, numbers that the codec rounds may
/// differ by one step; with Schema::quantise_authority(), and for all other numbers, any difference is
/// corrected.
constexpr Tolerance predicted(double tolerance) {
    return {tolerance};
}
/// The owner's client writes the component, see OwnedWriter. Needs the tag Mine in the schema.
constexpr Role from_owner() {
    return Role::owner;
}

/// Option of a tag, component or relation: an entity that has it is seen by every player, see scope/scope.h.
struct SeenEverywhere {};
constexpr SeenEverywhere everywhere() {
    return {};
}
/// Option of a relation: a player sees an entity with a pair of it if, and only if, the player sees the
/// target of the pair, see scope/scope.h.
struct FollowsTarget {};
constexpr FollowsTarget follows() {
    return {};
}

/// Option of a component, tag or relation: changes of an entity that has it are sent to a player not more
/// often than this. Of several intervals of an entity the shortest counts.
struct Every {
    double seconds = 0;  // > 0
};
constexpr Every every(std::chrono::duration<double> interval) {
    return {interval.count()};
}
/// Option of a component, tag or relation: changes of an entity that has it shall be sent to a player within
/// this time. If a player's rate is too low for all changes, those are sent first which would be late first.
/// Of several goals of an entity the shortest counts; without a goal, a change is late at once. A schema has
/// at most kMaxGoals different goals.
struct FreshWithin {
    double seconds = 0;  // > 0
};
constexpr FreshWithin fresh_within(std::chrono::duration<double> time) {
    return {time.count()};
}
inline constexpr std::size_t kMaxGoals = 8;

/// Option of an action: how often a player may do it, on average. If a player does it more often, the actions
/// wait on the server.
struct AtMost {
    double per_second = 0;  // > 0
};
constexpr AtMost at_most(double per_second) {
    return {per_second};
}
/// Option of an action that does not depend on the player's other actions, and on which they do not depend,
/// for example a chat text. It cannot create entities.
struct Independent {};
constexpr Independent independent() {
    return {};
}
/// Option of a message or an action whose handlers on clients need the state of its tick, or newer state, of
/// the entities that it names: the server sends a record of each of them, and the handler waits for it, at
/// most 500 ms. A message to a client takes 4 bytes more.
struct WithState {};
constexpr WithState with_state() {
    return {};
}

/// A place in the world, in the units of the game. Worlds with two dimensions leave z at 0.
struct GridPlace {
    double x = 0, y = 0, z = 0;
    bool operator==(const GridPlace&) const = default;
};

/// Distances, in the units of the game. A player sees each entity that is within `radius` of a viewpoint.
struct GridOptions {
    double radius = 0;        // > 0
    double leave_radius = 0;  // who is seen stays seen up to here; at least radius; 0: 1.1 * radius
    double cell = 0;  // side of a cell; 0: an eighth of the radius, or a quarter with three dimensions
    bool has_height = false;  // three dimensions; set for components with a field z
};

/// What Schema::grid() declared.
struct GridRule {
    GridOptions options;
    std::function<GridPlace(const void* component)> place;
    ecs::ComponentId (*bind)(ecs::World& world) = nullptr;  // null: the schema declares no grid
};

template <class T>
concept HasPlace = requires(const T& at) {
    static_cast<double>(at.x);
    static_cast<double>(at.y);
};
template <class T>
concept HasHeight = requires(const T& at) {
    static_cast<double>(at.z);
};

/// The place in a component with fields x and y, and perhaps z.
template <HasPlace T>
GridPlace place_of(const T& at) {
    GridPlace place{static_cast<double>(at.x), static_cast<double>(at.y)};
    if constexpr (HasHeight<T>) place.z = static_cast<double>(at.z);
    return place;
}

}  // namespace shoal::replication::impl
