#pragma once
// SipHash-2-4 with 64-bit output, and a stream of random numbers made from it.
// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace shoal::net {

struct SipKey {
    std::uint64_t low = 0;   // bytes 0..7 of the 16-byte key, little-endian
    std::uint64_t high = 0;  // bytes 8..15
    friend bool operator==(const SipKey&, const SipKey&) = default;
};

/// Hash of the `prefix` words (eight little-endian bytes each) followed by `bytes`.
std::uint64_t siphash(const SipKey& key, std::initializer_list<std::uint64_t> prefix,
                      std::span<const std::byte> bytes = {});

/// 32 bytes that nobody can guess and that no other run of the process had.
using Seed = std::array<std::byte, 32>;

/// From a source like std::random_device, called 32 times.
template <class Random>
Seed make_seed(Random& random) {
    Seed seed;
    for (std::byte& byte : seed) byte = static_cast<std::byte>(random() & 0xFF);
    return seed;
}

/// Unpredictable numbers from a seed: SipHash in counter mode. The same seed gives the same numbers.
class Entropy {
public:
    explicit Entropy(const Seed& seed);
    std::uint64_t next();
    SipKey next_key() {
        const std::uint64_t low = next();
        return {low, next()};
    }

private:
    SipKey key_;
    SipKey salt_;
    std::uint64_t counter_ = 0;
};

}  // namespace shoal::net
