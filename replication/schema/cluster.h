#pragma once
// The component that names entities which arrive together.

#include <cstdint>

namespace shoal::replication {

/// Replicated entities with the same id are a cluster: clients get what changed on them in one apply(), or
/// nothing of it. So a client's replicas of a cluster are always those of one tick. Entities join with
/// world.set(entity, Cluster{id}) and leave with world.remove<Cluster>(entity). Any id is legal. Only the
/// server reads the component; it needs no place in the schema.
struct Cluster {
    std::uint32_t id = 0;
    bool operator==(const Cluster&) const = default;
};

}  // namespace shoal::replication
