#pragma once
// The players of the server, and the creature of each.

#include <string>
#include <vector>

#include "replication/server.h"
#include "simulation.h"

namespace shoal::demo {

class Players final : public replication::ServerListener {
public:
    /// World and simulation must outlive it.
    Players(ecs::World& world, Simulation& simulation) : world_(world), simulation_(simulation) {}

    /// Passes on what players with a name say. Call it once, before the first tick.
    void listen(replication::Server& server);

    /// Gives a creature to each player who plays, has a name and has no living creature, and destroys the
    /// creatures of players who left. Only this function changes the world, not the callbacks.
    void step(replication::Server& server);

    std::size_t count() const { return players_.size() - left_; }

private:
    struct Seat {
        net::PeerId peer;
        bool has_left = false;
        std::string name;  // empty until the peer sent it
        ecs::Entity creature;
    };

    void on_join(net::PeerId peer) override {
        players_.push_back({.peer = peer, .name = {}, .creature = {}});
    }
    void on_leave(net::PeerId peer, net::DisconnectReason, std::string_view) override;
    void on_message(net::PeerId peer, net::Channel, std::span<const std::byte> message) override;

    ecs::World& world_;
    Simulation& simulation_;
    std::vector<Seat> players_;
    std::size_t left_ = 0;  // of players_: those that have left
};

}  // namespace shoal::demo
