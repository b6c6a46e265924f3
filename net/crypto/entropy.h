#pragma once
// Derives unpredictable numbers and keys from a seed.

#include <memory>
#include <utility>

#include "primitives.h"
#include "siphash.h"

namespace shoal::net {

/// 32 unpredictable bytes, different for each run of the process.
using Seed = std::array<std::byte, 32>;

/// A seed for one use: copies share it until one of them is written, and take() wipes it in all copies. So
/// two endpoints made from copies of one config cannot have the same keys.
class OneTimeSeed {
public:
    OneTimeSeed() = default;
    OneTimeSeed(const Seed& seed) : key_(std::make_shared<Key>(seed)) {}

    /// For filling it: `fill_random(config.seed)`.
    operator std::span<std::byte>();
    std::byte* data() { return std::span<std::byte>(*this).data(); }
    std::byte& operator[](std::size_t index) { return data()[index]; }

    /// Returns whether all bytes are zero: not filled, or already taken.
    bool is_missing() const { return !key_ || equal_in_constant_time(key_->bytes(), Seed{}); }
    /// Returns the seed and wipes it in all copies; is_missing() is true afterwards.
    Key take() const;

private:
    std::shared_ptr<Key> key_;
};

/// The same seed gives the same numbers. From some of the numbers, or from the state of this object, nobody
/// can compute earlier numbers: each call derives a number and a new key by keyed BLAKE2s.
class Entropy {
public:
    explicit Entropy(const Key& seed) : state_(seed) {}
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
