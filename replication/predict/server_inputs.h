#pragma once
// The inputs of all players on a server.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../../ecs/query.h"
#include "../play/struct_codec.h"
#include "../play/uplink.h"
#include "../send/sender.h"
#include "input_buffer.h"
#include "input_log.h"

namespace shoal::replication::impl {

class Players;

/// Reads the section `inputs` of payloads, and writes the inputs of a tick to the entities of their players.
/// Not thread-safe.
class ServerInputs final : public SectionReader {
public:
    /// Requires that the schema has an input. The arguments must outlive this object. `tick`: time between
    /// two ticks.
    ServerInputs(ecs::World& world, const Schema& schema, Sender& sender, Players& players,
                 net::Duration tick);

    bool read_section(Player& player, std::uint64_t packet, BitReader& in) override;
    void commit_section(Player& player, net::Time now) override;

    /// Writes the inputs of a tick to the input components of the entities that players own. An entity that
    /// has lost its owner gets default values, once. Call it once for each tick, in order.
    void apply(Tick tick, net::Time now);

private:
    /// Translates the references in the inputs of one player. A reference to an entity that this player does
    /// not see becomes null.
    class SeenBy final : public EntityMap {
    public:
        explicit SeenBy(const Sender& sender) : sender_(sender) {}
        std::uint32_t to_net(ecs::Entity entity) override { return sender_.net_id(entity); }
        ecs::Entity to_entity(std::uint32_t net_id) override { return sender_.entity_seen_by(peer, net_id); }
        Sender::Peer peer = 0;

    private:
        const Sender& sender_;
    };

    const Player* player_of(ecs::Entity entity) const;

    static constexpr net::Duration kPatience = std::chrono::milliseconds(250);

    ecs::World& world_;
    Sender& sender_;
    Players& players_;
    const SchemaStruct& type_;
    SeenBy seen_by_;
    StructCodec codec_;
    StructValue value_;
    ecs::ComponentId component_;
    ecs::impl::QueryCore with_input_;
    net::Duration tick_;
    Tick next_ = 0;                     // tick of the next apply()
    std::optional<net::Time> applied_;  // time of the last apply()
    std::vector<std::uint32_t> neutral_;
    std::vector<ecs::Entity> entities_, driven_, former_;  // driven_: got inputs in the last apply()

    // From read_section(), for commit_section().
    InputSection section_;
    std::uint64_t packet_ = 0;
};

}  // namespace shoal::replication::impl
