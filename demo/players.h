#pragma once
// The players of the server, and their creatures.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "replication/server.h"
#include "simulation.h"

namespace shoal::demo {

class Players final : public replication::ServerListener {
public:
    /// The simulation must outlive the players.
    explicit Players(Simulation& simulation) : simulation_(simulation) {}

    /// Gives a creature to each player who begins to play, checks the names of creatures, and lets bubbles
    /// hit what their shooters see. Call it once, before the first tick.
    void listen(replication::Server& server);

    /// Gives a new creature to each player whose creature died. Call it in each tick.
    void step(replication::Server& server);

    /// From now on nobody can join or come back.
    void close() { is_closed_ = true; }

    std::size_t count() const { return players_.size(); }
    /// One line about each player that misbehaved since the last call.
    std::vector<std::string> take_complaints() { return std::exchange(complaints_, {}); }

private:
    struct Seat {
        replication::PlayerId id;
        std::string name;  // the last valid name of its creature
    };

    bool on_admit(const net::Admission&, std::string& refusal) override;
    void on_leave(net::PeerId player, net::DisconnectReason reason, std::string_view text) override;
    Seat* find(replication::PlayerId player);
    std::string name_of(replication::PlayerId player);

    Simulation& simulation_;
    std::vector<Seat> players_;
    std::vector<std::string> complaints_;
    bool is_closed_ = false;
};

}  // namespace shoal::demo
