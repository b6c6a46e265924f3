#pragma once
// The declaration of Schema::grid(): players see what is near.

#include <functional>

#include "../../ecs/world.h"

namespace shoal::replication::all {

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

}  // namespace shoal::replication::all
