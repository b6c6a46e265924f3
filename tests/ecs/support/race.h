#pragma once
// Compares a world with a simple model: the same random script changes both. Hooks react at random, too: they
// write, spawn, destroy, add pairs, iterate, connect and disconnect. After each step the traces of all hooks,
// all values, all queries and the collected changes must be equal.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ecs_race {

/// The output function of splitmix64: makes random numbers from successive integers.
inline std::uint64_t mix(std::uint64_t x) {
    x += 0x9E37'79B9'7F4A'7C15;
    x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9;
    x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EB;
    return x ^ (x >> 31);
}

struct Outcome {
    std::size_t events = 0;  // that hooks were told of, and visits
    std::string difference;  // empty: there was none
};

/// `roll` returns the random numbers of a step, or nothing after the last step.
Outcome race(const std::function<std::optional<std::uint64_t>()>& roll);

}  // namespace ecs_race
