#pragma once
// The people behind the connections, and which creature is whose.

#include <string>
#include <vector>

#include "replication/server.h"
#include "simulation.h"

namespace shoal::demo {

class Players final : public replication::ServerListener {
public:
    /// Both must outlive it.
    Players(ecs::World& world, Simulation& simulation) : world_(world), simulation_(simulation) {}

    /// Gives those with a name and no creature one, steers, and takes the creatures of those who left.
    /// What peers ask for waits until here, so that a world that stands still does.
    void step();

    /// After the tick, when new creatures have their net ids: tells each player which one is his.
    void announce(replication::Server& server);

    std::size_t count() const { return players_.size() - left_; }

private:
    struct Seat {
        net::PeerId peer;
        bool has_left = false;
        std::string name;  // empty until the peer has told it
        Direction direction = Direction::none;
        ecs::Entity creature;
        std::uint32_t announced = 0;  // net id; 0: none
    };

    void on_join(net::PeerId peer) override {
        players_.push_back({.peer = peer, .name = {}, .creature = {}});
    }
    void on_leave(net::PeerId peer, net::DisconnectReason, std::string_view) override;
    void on_message(net::PeerId peer, net::Channel, std::span<const std::byte> message) override;

    ecs::World& world_;
    Simulation& simulation_;
    std::vector<Seat> players_;
    std::size_t left_ = 0;  // of them: those that have left
};

}  // namespace shoal::demo
