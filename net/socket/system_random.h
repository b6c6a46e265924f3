#pragma once
// Unpredictable bytes, from the operating system.

#include <cstddef>
#include <span>

namespace shoal::net::impl {

/// Fills `bytes` from the system's source for keys. Returns false if there is none: the bytes are then not
/// random, and the game must stop. May block while the machine starts up.
[[nodiscard]] bool fill_random(std::span<std::byte> bytes);

}  // namespace shoal::net::impl

namespace shoal::net {
using impl::fill_random;
}  // namespace shoal::net
