#pragma once
// The state of a player on a server: from the connection, over loading the world, to playing.

#include <cstdint>

#include "../../ecs/entity.h"
#include "../../net/endpoint.h"

namespace shoal::replication {

enum class Phase : std::uint8_t {
    disconnected,
    waiting,  // until the client is ready and, if required, Server::admit() was called; gets no state
    loading,  // the client gets the world
    playing,
};

struct JoinOptions {
    bool waits_for_admit = false;                      // see Server::admit()
    net::Duration timeout = std::chrono::seconds(30);  // longest loading; then it starts again, once; > 0
    bool destroys_player = true;  // when a player leaves, destroy the entity that on_join() returned
};

/// Not thread-safe.
class Seat {
public:
    /// What the server must do with a loading player.
    enum class Step : std::uint8_t { wait, play, restart, give_up };

    Phase phase() const { return phase_; }
    void connect() { phase_ = Phase::waiting; }
    void set_ready() { is_ready_ = true; }
    void admit() { is_admitted_ = true; }
    bool may_load(const JoinOptions& options) const {
        return phase_ == Phase::waiting && is_ready_ && (is_admitted_ || !options.waits_for_admit);
    }
    void load(net::Time now) {
        phase_ = Phase::loading;
        since_ = now;
    }
    /// Call it in each tick while the player is loading. `unacked`: number of entities of the world that the
    /// client has not acknowledged.
    Step step(const JoinOptions& options, std::uint32_t unacked, net::Time now);

    /// The entity of a player that plays; null if there is none. It may be dead.
    ecs::Entity player() const { return player_; }
    void set_player(ecs::Entity entity) { player_ = entity; }

private:
    Phase phase_ = Phase::disconnected;
    bool is_ready_ = false, is_admitted_ = false, was_restarted_ = false;
    net::Time since_{0};  // when loading began
    ecs::Entity player_;
};

}  // namespace shoal::replication
