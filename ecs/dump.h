#pragma once
// Entities and components as text for a debugger, a log or a failed assert. To print the fields of values,
// read the components by their types.

#include <string>

#include "world.h"

namespace shoal::ecs::impl {

/// Index and generation, as "12v3"; "null" for a null handle.
std::string to_text(Entity entity);

/// The component's name, as "Health"; for a pair also the target, as "Follows to 12v3"; "?" for an invalid
/// id.
std::string to_text(const World& world, ComponentId id);

/// One line for the entity and one for each component that it has, with the first 16 bytes of its value in
/// hexadecimal, in the order of memory:
///     12v3
///       Health: 50 00 00 00
///       Follows to 5v1: 00 00 20 41
/// A dead entity has one line that says so.
std::string dump(const World& world, Entity entity);

}  // namespace shoal::ecs::impl

namespace shoal::ecs {
using impl::dump, impl::to_text;
}  // namespace shoal::ecs
