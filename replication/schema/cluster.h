#pragma once
// The component that names entities which arrive together.

#include <cstdint>

namespace shoal::replication::all {

/// Replicated entities with the same id are a cluster. A client gets all changes of a cluster in one apply(),
/// or none of them. So a client's replicas of a cluster always show the same tick. Entities join with
/// world.set(entity, Cluster{id}) and leave with world.remove<Cluster>(entity). Any id is legal. Only the
/// server reads the component; it needs no place in the schema.
struct Cluster {
    std::uint32_t id = 0;
    bool operator==(const Cluster&) const = default;
};

}  // namespace shoal::replication::all
