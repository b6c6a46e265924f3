#include "step.h"

namespace shoal::replication {
namespace {

/// Source of the mixer: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
std::uint64_t mix(std::uint64_t hash, std::uint64_t number) {
    hash += number + 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
    return hash ^ hash >> 31;
}

}  // namespace

std::uint64_t Step::random(ecs::Entity entity, std::uint32_t salt) const {
    const std::uint64_t what = std::uint64_t{context_.map.to_net(entity)} << 32 | salt;
    return mix(mix(context_.seed, tick), what);
}

}  // namespace shoal::replication
