#pragma once
// Unpredictable bytes, from the operating system.

#include <cstddef>
#include <span>

namespace shoal::net {

/// Fills `bytes` from the system's source for keys. False, which no game should survive, when there is none;
/// the bytes are then worthless. May block while the machine starts up.
[[nodiscard]] bool fill_random(std::span<std::byte> bytes);

}  // namespace shoal::net
