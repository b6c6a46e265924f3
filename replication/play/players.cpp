#include "players.h"

#include <algorithm>
#include <cassert>
#include <optional>

namespace shoal::replication::impl {

Player& Players::add(net::PeerId connection, Sender::Peer peer) {
    assert(!find(connection) && "the player was added before");
    auto place = std::ranges::find_if(players_, [](const Player& player) { return !player.id; });
    Player& player = place != players_.end() ? *place : players_.emplace_back();
    player.id = connection;
    player.peer = peer;
    by_id_[connection] = &player;
    if (peer >= by_peer_.size()) by_peer_.resize(peer + std::size_t{1});
    by_peer_[peer] = &player;
    connect(player, connection);
    return player;
}

void Players::remove(Player& player) {
    disconnect(player);
    by_id_.erase(player.id);
    by_peer_[player.peer] = nullptr;
    player = {};
}

void Players::connect(Player& player, net::PeerId connection) {
    assert(!player.connection && "the player has a connection");
    const std::uint32_t index = connection.index();
    if (index >= by_connection_.size()) by_connection_.resize(index + std::size_t{1});
    by_connection_[index] = &player;
    player.connection = connection;
}

void Players::disconnect(Player& player) {
    if (player.connection) by_connection_[player.connection.index()] = nullptr;
    player.connection = {};
    player.unsent.clear();
    player.unsent_bytes = 0;
}

const Player* Players::find(PlayerId id) const {
    const auto place = by_id_.find(id);
    return place == by_id_.end() ? nullptr : place->second;
}

const Player* Players::find_connected(net::PeerId connection) const {
    if (!connection || connection.index() >= by_connection_.size()) return nullptr;
    const Player* const player = by_connection_[connection.index()];
    return player && player->connection == connection ? player : nullptr;
}

Player* Players::must_leave(const net::impl::Networks& networks, std::size_t per_machine, std::size_t most) {
    std::size_t away = 0, most_of_machine = 0;
    std::unordered_map<std::uint64_t, std::size_t> counts;
    for_each([&](const Player& player) {
        if (player.seat.phase() != Phase::away) return;
        away += 1;
        for (const std::uint64_t hash : player.networks.hashes()) counts[hash] += 1;
        most_of_machine = std::max(most_of_machine, counts[player.networks.machine()]);
    });
    std::optional<std::uint64_t> full;
    for (std::size_t place = 0; place < networks.hashes().size(); ++place) {
        const std::uint64_t hash = networks.hashes()[place];
        if (counts.contains(hash) && counts[hash] >= net::impl::Networks::limit_at(place, per_machine))
            full = hash;
    }
    Player* longest = nullptr;
    if (!full && away < most) return longest;
    for_each([&](Player& player) {
        if (player.seat.phase() != Phase::away) return;
        const bool is_there = full ? std::ranges::count(player.networks.hashes(), *full) != 0
                                   : counts[player.networks.machine()] == most_of_machine;
        if (is_there && (!longest || player.seat.since() < longest->seat.since())) longest = &player;
    });
    return longest;
}

Player* Players::find_by_ticket(const Ticket& ticket, std::uint64_t client_id, TicketStats& stats) {
    Player* const player = find(ticket.seat);
    if (!player || !player->seat.has_joined()) {
        stats.unknown_seats += 1;
    } else if (!player->key.accepts(ticket)) {
        (player->key.is_outdated(ticket) ? stats.outdated : stats.wrong_secrets) += 1;
    } else if (player->client_id != client_id) {
        stats.wrong_players += 1;
    } else {
        return player;
    }
    return nullptr;
}

}  // namespace shoal::replication::impl
