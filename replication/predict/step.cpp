#include "step.h"

#include <cassert>

#include "../history/bucket_hash.h"

namespace shoal::replication::impl {
namespace {

/// Mixes seed and tick one after the other. With their sum, a seed that is less by 1 would give the same
/// random numbers one tick later.
std::uint64_t mix_tick(std::uint64_t seed, Tick tick) {
    return mix(mix(0, seed), tick);
}

}  // namespace

std::uint64_t Step::random(std::uint64_t number, std::uint32_t salt) const {
    return mix(mix(mix_tick(context_.seed, tick), number), salt);
}

std::uint64_t Step::random(ecs::Entity entity, std::uint32_t salt) const {
    const std::uint32_t net_id = context_.map.to_net(entity);
    assert(net_id != 0 && "an entity that the server does not have yet: pass a number of the game");
    return mix(mix_tick(context_.seed, tick), std::uint64_t{net_id} << 32 | salt);
}

}  // namespace shoal::replication::impl
