#pragma once
// The components and tags that belong to the library.

#include <cstdint>

namespace shoal::replication::impl {

/// An entity is replicated while it has this tag.
struct Replicated {};

/// The reason why a client destroys a replica.
enum class Despawn : std::uint8_t {
    destroyed,    // the entity was destroyed on the server
    left,         // the entity does not replicate any more, or the connection ended
    out_of_view,  // the entity exists, but this client does not see it any more, see scope/scope.h
};

/// A client's entity has this component while it is the replica of an entity of the server. The add hook of
/// Replica runs when the replica has all its values. In the remove hook `reason` says why the replica ends.
struct Replica {
    Despawn reason = Despawn::destroyed;  // also if the client's game destroys the replica
};

/// How often the server moved an entity to a place that it did not travel to, see Server::teleport(). A
/// schema has this component, as an optional one, if another component has a Display.
struct Teleports {
    std::uint16_t count = 0;  // wraps around
};

/// What the server tells the owner of an entity about the components with from_owner(). A schema with such a
/// component has this one. An entity has it once an owner lost it, or the server refused a value.
struct OwnerState {
    std::uint16_t epoch = 0;    // rises when an owner loses the entity; wraps around
    std::uint32_t refused = 0;  // version of the newest value of this epoch that was refused, see OwnedValue
    friend bool operator==(const OwnerState&, const OwnerState&) = default;
};

/// Tag of the entities that the server gave to this client. Declare it with
/// schema.tag<Mine>("mine", to_owner()). On the server, every entity with an owner has it.
struct Mine {};

/// Tag of the entities that this client predicts although it does not own them. A schema with a component
/// that is predicted() has this tag, as an optional one. On the server, every entity that a client predicts
/// in this way has it.
struct ToPredict {};

/// Greatest legal value of a StableKey.
inline constexpr std::uint32_t kMaxStableKey = 0x00ff'ffff;

/// Names an entity that exists on both sides without being sent: an object of a level, or a thing with a
/// name. Server and client give it the same key, and the client's entity becomes the replica of the server's.
/// `value` is 0 to kMaxStableKey. Two living entities of a world must not have the same key. If two
/// replicated entities have it, only the first keeps the key, and a debug build aborts.
struct StableKey {
    std::uint32_t value = 0;
};

/// Replicated entities with the same id are a cluster. A client gets all changes of a cluster in one apply(),
/// or none of them. So a client's replicas of a cluster always show the same tick. Entities join with
/// world.set(entity, Cluster{id}) and leave with world.remove<Cluster>(entity). Any id is legal. Only the
/// server reads the component; it needs no place in the schema.
struct Cluster {
    std::uint32_t id = 0;
    bool operator==(const Cluster&) const = default;
};

}  // namespace shoal::replication::impl
