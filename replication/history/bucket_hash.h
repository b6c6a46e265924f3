#pragma once
// Hash functions.

#include <cstddef>
#include <cstdint>

namespace shoal::replication::impl {

/// Chooses the buckets of a hash table. Only somebody who knows the seed can choose many keys that share a
/// bucket. Use the seed 0 for tables whose keys no stranger chooses. Source: multiply-shift hashing,
/// Dietzfelbinger, "Universal hashing and k-wise independent random variables via integer arithmetic without
/// primes", 1996.
class BucketHash {
public:
    explicit BucketHash(std::uint64_t seed = 0) : factor_((seed ^ 0x9e3779b97f4a7c15u) | 1) {}

    /// Requires that `bucket_count` is a power of two.
    std::size_t operator()(std::uint32_t key, std::size_t bucket_count) const {
        return static_cast<std::size_t>(key * factor_ >> 32) & (bucket_count - 1);
    }

private:
    std::uint64_t factor_;
};

/// Mixes a number into a hash. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014.
inline std::uint64_t mix(std::uint64_t hash, std::uint64_t number) {
    hash += number + 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
    return hash ^ hash >> 31;
}

}  // namespace shoal::replication::impl
