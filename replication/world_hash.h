#pragma once
// A hash of everything that replicates, computed from the components of a world, to check that two worlds are
// equal.

#include <cstdint>

#include "history/shadow.h"
#include "receive/receiver.h"
#include "schema/binding.h"
#include "send/sender.h"

namespace shoal::replication::impl {

/// Computes a hash of the components that everyone sees, without the optional ones. It is equal for the
/// server's world at a tick and the world of a client that is complete as of that tick. An attacker can find
/// collisions.
class WorldHash {
public:
    /// World and schema must outlive the WorldHash.
    WorldHash(ecs::World& world, const Schema& schema) : binding_(world, schema) {}

    struct Sum {
        std::uint64_t hash = 0;  // does not depend on the order of entities; without the values in owned_hash
        // Of the values of components with from_owner(). They are the same on both sides once all values that
        // the client wrote have reached the server.
        std::uint64_t owned_hash = 0;
        std::uint32_t entities = 0;
        bool operator==(const Sum&) const = default;
    };

    /// Hash of all entities that `shadow` replicates. Their net ids come from `shadow`: call Shadow::update()
    /// first.
    Sum of_server(const Shadow& shadow);
    /// The same of the entities that a peer sees.
    Sum of_peer(const Sender& sender, Sender::Peer peer);
    /// Hash of all replicas of `receiver`. Of a component that the client holds, for example because it
    /// predicts it, the hash has the server's value.
    Sum of_client(const Receiver& receiver);

private:
    template <class Sees>
    Sum of_world(const Shadow& shadow, EntityMap& map, Sees&& sees);
    void mix_value(Sum& sum, const ImageCursor& value) const;
    /// The components in `held`, ascending, are taken from `shown`.
    void add_entity(Sum& sum, std::uint32_t net_id, ecs::Entity entity, EntityMap& map,
                    const Image& shown = {}, std::span<const ComponentIndex> held = {});

    Binding binding_;
};

}  // namespace shoal::replication::impl

namespace shoal::replication {
using impl::Receiver, impl::WorldHash;
}  // namespace shoal::replication
