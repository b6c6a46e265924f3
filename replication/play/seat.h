#pragma once
// The state of a player on a server. The player connects, loads the world and then plays.

#include <cstdint>
#include <string_view>

#include "../../ecs/entity.h"
#include "../../net/endpoint.h"

namespace shoal::replication::impl {

enum class Phase : std::uint8_t {
    disconnected,
    waiting,  // until the client is ready and, if required, Server::admit() was called; gets no state
    loading,  // the client gets the world
    playing,
    away,      // server: the connection was lost, and the seat waits for the player, see JoinOptions
    resuming,  // client: connects with a ticket, or got its seat back and plays soon
};

std::string_view describe(Phase phase);

struct JoinOptions {
    bool waits_for_admit = false;  // see Server::admit()
    // A player that loads for longer begins again, and the second time is disconnected; > 0.
    net::Duration timeout = std::chrono::seconds(30);
    // A client that is not ready for so long is disconnected, see ClientOptions::is_ready_at_once. 0: no
    // limit.
    net::Duration ready_timeout = std::chrono::minutes(2);
    bool destroys_player = true;  // when a player leaves, destroy its entity, see Server::player()
    // A player whose connection is lost keeps the seat for this time, see Server::on_away(). 0: the player
    // leaves at once.
    net::Duration resume_time = std::chrono::seconds(30);
};

/// The place of one player on a server. The player keeps it while its connection is lost. Not thread-safe.
class Seat {
public:
    /// What the server must do with a loading player.
    enum class Next : std::uint8_t { wait, play, restart, give_up };

    Phase phase() const { return phase_; }
    void connect(net::Time now) { enter(Phase::waiting, now); }
    void set_ready() { is_ready_ = true; }
    void admit() { is_admitted_ = true; }
    bool may_load(const JoinOptions& options) const {
        return phase_ == Phase::waiting && is_ready_ && (is_admitted_ || !options.waits_for_admit);
    }
    void load(net::Time now) { enter(Phase::loading, now); }
    /// Call it in each tick while the player is loading. `unacked`: number of entities of the world that the
    /// client has not acknowledged.
    Next advance(const JoinOptions& options, std::uint32_t unacked, net::Time now);

    /// Returns whether the player plays, or is away and will play again when it comes back.
    bool has_joined() const { return has_joined_; }
    /// Call it when the connection was lost. Requires has_joined().
    void go_away(net::Time now) { enter(Phase::away, now); }
    /// Call it when a new connection has the seat. `keeps`: its client has the world, and loads at once.
    /// Otherwise the player joins as at first, but needs no Server::admit().
    void come_back(bool keeps, net::Time now);
    /// Returns whether the player has been away for resume_time. Requires that the player is away.
    bool is_overdue(const JoinOptions& options, net::Time now) const {
        return now - since_ >= options.resume_time;
    }
    /// Returns whether the client should have been ready before.
    bool is_late(const JoinOptions& options, net::Time now) const {
        return phase_ == Phase::waiting && !is_ready_ && options.ready_timeout > net::Duration(0) &&
               now - since_ >= options.ready_timeout;
    }
    /// When the player connected, or loading began, or the connection was lost.
    net::Time since() const { return since_; }
    /// Call it when the player is about to leave.
    void leave() { phase_ = Phase::disconnected; }

    /// The entity of a player that has joined; null if there is none. It may be dead.
    ecs::Entity player() const { return player_; }
    void set_player(ecs::Entity entity) { player_ = entity; }

private:
    void enter(Phase phase, net::Time now) {
        phase_ = phase;
        since_ = now;
    }

    Phase phase_ = Phase::disconnected;
    bool is_ready_ = false, is_admitted_ = false, was_restarted_ = false;
    bool has_joined_ = false;
    net::Time since_{0};
    ecs::Entity player_;
};

}  // namespace shoal::replication::impl
