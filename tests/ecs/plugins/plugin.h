#pragma once
// What a shared library of plugin.cpp offers to plugin_test.

#include "ecs/world.h"

struct Plugin {
    /// Number of bytes of this library's Cargo.
    std::uint32_t cargo_bytes;
    shoal::ecs::ComponentId (*cargo)(shoal::ecs::World&);
    /// The id of a type that has the same name in each library, in an unnamed namespace.
    shoal::ecs::ComponentId (*local)(shoal::ecs::World&);
    /// Creates an entity with all components of the library; `number` is in each of their values.
    shoal::ecs::Entity (*spawn)(shoal::ecs::World&, int number);
    /// Adds 1 to each byte of each Cargo that this library knows. Returns the number of entities.
    int (*write)(shoal::ecs::World&);
    /// Returns whether the entity has this library's Cargo and Crew with this number.
    bool (*has)(shoal::ecs::World&, shoal::ecs::Entity, int number);
    void (*adopt)(shoal::ecs::World&);
};
