#pragma once
// One number for everything that replicates, computed from a world's components: the proof, from
// outside, that two worlds are the same.

#include <cstdint>
#include <vector>

#include "receiver.h"
#include "shadow.h"

namespace shoal::replication {

/// Equal for a server's world at a tick and a client's world that is complete at it. Not secret,
/// not collision-proof against an attacker.
class WorldHash {
public:
    /// Both must outlive it.
    WorldHash(ecs::World& world, const Schema& schema)
        : world_(world), schema_(schema), ids_(bind(schema, world)) {}

    struct Sum {
        std::uint64_t hash = 0;  // does not depend on order
        std::uint32_t entities = 0;
    };

    /// Of all Replicated entities; `shadow` only names them, and must be up to date.
    Sum of_server(const Shadow& shadow);
    /// Of all replicas.
    Sum of_client(const Receiver& receiver);

private:
    std::uint64_t of_entity(std::uint32_t net_id, ecs::Entity entity, EntityMap& map);

    ecs::World& world_;
    const Schema& schema_;
    std::vector<ecs::ComponentId> ids_;
    std::vector<std::uint32_t> lanes_, parts_;
};

}  // namespace shoal::replication
