#pragma once
// Numbers and keys that nobody can guess, from a seed.

#include <memory>
#include <utility>

#include "primitives.h"
#include "siphash.h"

namespace shoal::net {

/// 32 bytes that nobody can guess and that no other run of the process had.
using Seed = std::array<std::byte, 32>;

/// A seed that serves once: copies share it until one of them is written to, and take() wipes it in all of
/// them. So two endpoints made of one config, or of copies of it, cannot have the same keys.
class OneTimeSeed {
public:
    OneTimeSeed() = default;
    OneTimeSeed(const Seed& seed) : key_(std::make_shared<Key>(seed)) {}

    /// To be filled: `fill_random(config.seed)`.
    operator std::span<std::byte>();
    std::byte* data() { return std::span<std::byte>(*this).data(); }
    std::byte& operator[](std::size_t index) { return data()[index]; }

    /// Whether all bytes are zero: nobody wrote them, or the seed was taken already.
    bool is_missing() const { return !key_ || equal_in_constant_time(key_->bytes(), Seed{}); }
    /// The seed, which is missing from then on.
    Key take() const;

private:
    std::shared_ptr<Key> key_;
};

/// The same seed gives the same numbers. Whoever learns some of them, or later all that this object holds,
/// cannot compute those that came before: each draw is a keyed BLAKE2s, and replaces the key by another.
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
