#pragma once
// Numbers and keys that nobody can guess, from a seed.

#include <array>
#include <cstddef>
#include <cstdint>

#include "primitives.h"
#include "siphash.h"

namespace shoal::net {

/// 32 bytes that nobody can guess and that no other run of the process had.
using Seed = std::array<std::byte, 32>;

/// From a source like std::random_device, called 32 times.
template <class Random>
Seed make_seed(Random& random) {
    Seed seed;
    for (std::byte& byte : seed) byte = static_cast<std::byte>(random() & 0xFF);
    return seed;
}

/// The same seed gives the same numbers. Whoever learns some of them, or later all that this object holds,
/// cannot compute those that came before: each draw is a keyed BLAKE2s, and replaces the key by another.
class Entropy {
public:
    explicit Entropy(const Seed& seed) : state_(seed) {}

    std::uint64_t next();
    SipKey next_sip_key() {
        const std::uint64_t low = next();
        return {low, next()};
    }
    Key next_key();

private:
    Key state_;
};

}  // namespace shoal::net
