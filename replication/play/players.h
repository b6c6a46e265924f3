#pragma once
// The players of a server, by their ids and by their connections.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../net/endpoint.h"
#include "../../net/handshake/networks.h"
#include "../action/server_actions.h"
#include "../message/message_intake.h"
#include "../predict/input_buffer.h"
#include "../send/sender.h"
#include "../show/rewind.h"
#include "owned_reader.h"
#include "player_id.h"
#include "seat.h"
#include "ticket.h"

namespace shoal::replication::impl {

/// All that a server knows about a player.
struct Player {
    /// Returns whether the server has handled this.
    bool has_done(const Before& before) const {
        return static_cast<std::int16_t>(messages - before.messages) >= 0 &&
               (before.owned == 0 || owned.has_run(before.owned)) &&
               (!before.actions || !actions || actions->inbox.has_run(*before.actions));
    }

    PlayerId id;                  // none: the player has left
    net::PeerId connection;       // none: the player is away
    std::uint64_t client_id = 0;  // of its connect token; 0: it had none
    Sender::Peer peer = 0;
    Seat seat;
    SeatKey key;
    net::impl::Networks networks;               // of its last connection, if the player is away
    std::deque<std::vector<std::byte>> unsent;  // control messages that found no room, the oldest first
    std::size_t unsent_bytes = 0;               // sum of their sizes
    // Entities that messages to the client named before it had acknowledged them, by net id.
    std::vector<NetId> named;
    MessageIntake intake;
    std::uint16_t messages = 0;              // handled ones that are in order with actions, modulo 2^16
    std::unique_ptr<PlayerActions> actions;  // null before it plays, and if the schema has no actions
    std::unique_ptr<InputBuffer> inputs;     // null before the first input
    std::span<const std::uint32_t> input;    // for the tick that ServerInputs::apply() handles
    OwnedValues owned;
    SeenTime seen;
};

/// Not thread-safe.
class Players {
public:
    /// Adds a player with its first connection, which is also its id. Requires that no player has this id.
    /// The object stays valid until remove().
    Player& add(net::PeerId connection, Sender::Peer peer);
    void remove(Player& player);
    /// Gives a new connection to a player that has none.
    void connect(Player& player, net::PeerId connection);
    /// Call it when the player's connection has ended.
    void disconnect(Player& player);

    /// Returns null if there is no such player.
    const Player* find(PlayerId id) const;
    Player* find(PlayerId id) { return const_cast<Player*>(std::as_const(*this).find(id)); }
    /// Returns the player that has this connection, or null.
    const Player* find_connected(net::PeerId connection) const;
    Player* find_connected(net::PeerId connection) {
        return const_cast<Player*>(std::as_const(*this).find_connected(connection));
    }
    const Player* find_peer(Sender::Peer peer) const {
        return peer < by_peer_.size() ? by_peer_[peer] : nullptr;
    }
    /// Returns the player that must leave so that one more player, of these networks, can be away; null if
    /// there is room. At most `most` players are away, and of each machine and network as many as
    /// net::impl::Networks::limit_at() says for `per_machine`. The player that is away longest leaves: of a
    /// network that has no room, or else of the machine that has most players away.
    Player* must_leave(const net::impl::Networks& networks, std::size_t per_machine, std::size_t most);
    /// Returns the player whose seat a connection with this client id can take with the ticket. If there is
    /// none, counts why not, and returns null.
    Player* find_by_ticket(const Ticket& ticket, std::uint64_t client_id, TicketStats& stats);

    /// Calls fn(Player&) for each player. The function may add and remove players.
    template <class Fn>
    void for_each(Fn&& fn) {
        for (std::size_t i = 0; i < players_.size(); ++i)
            if (players_[i].id) fn(players_[i]);
    }
    template <class Fn>
    void for_each(Fn&& fn) const {
        for (std::size_t i = 0; i < players_.size(); ++i)
            if (players_[i].id) fn(players_[i]);
    }

private:
    std::deque<Player> players_;  // a place without a player is used again
    std::unordered_map<PlayerId, Player*> by_id_;
    std::vector<Player*> by_connection_;  // by PeerId::index(); null: there is none
    std::vector<Player*> by_peer_;        // null: there is none
};

}  // namespace shoal::replication::impl
