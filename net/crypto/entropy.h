#pragma once
// Derives unpredictable numbers and keys from a seed.

#include <memory>
#include <utility>

#include "primitives.h"
#include "siphash.h"

namespace shoal::net::impl {

/// 32 unpredictable bytes, different for each run of the process.
using Seed = std::array<std::byte, 32>;

/// A seed for one use. Copies share the seed until one of them is written; take() wipes it in all copies that
/// share it. So two endpoints made from copies of one config never have the same keys.
class OneTimeSeed {
public:
    OneTimeSeed() = default;
    OneTimeSeed(const Seed& seed) : key_(std::make_shared<SecretKey>(seed)) {}

    /// The bytes of this copy, to fill them: `fill_random(config.seed)`. Other copies keep their seed.
    operator std::span<std::byte>();
    std::byte* data() { return std::span<std::byte>(*this).data(); }
    std::byte& operator[](std::size_t index) { return data()[index]; }

    /// Returns whether all bytes are zero: the seed was never filled, or was taken.
    bool is_missing() const { return !key_ || equal_in_constant_time(key_->bytes(), Seed{}); }
    /// Return a secret number, 0 without a seed, and a secret key that depend on the seed. From these nobody
    /// can compute the seed, or what take() is used for.
    std::uint64_t number() const;
    SecretKey secret() const;
    /// Returns the seed and wipes it in all copies; is_missing() is true afterwards.
    SecretKey take() const;

private:
    std::shared_ptr<SecretKey> key_;
};

/// Makes numbers and keys from a seed; the same seed gives the same sequence. Each call derives its result
/// and the next state from the present state, by keyed BLAKE2s: nobody can compute earlier numbers.
class Entropy {
public:
    explicit Entropy(const SecretKey& seed) : state_(seed) {}
    explicit Entropy(const Seed& seed) : state_(seed) {}

    std::uint64_t next();
    SipKey next_sip_key() {
        const std::uint64_t low = next();
        return {low, next()};
    }
    SecretKey next_key();

private:
    SecretKey state_;
};

}  // namespace shoal::net::impl

namespace shoal::net {
using impl::Entropy, impl::Seed;
}  // namespace shoal::net
