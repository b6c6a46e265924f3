#include "players.h"

#include <algorithm>

#include "text.h"

namespace shoal::demo {

void Players::listen(replication::Server& server) {
    server.on_join([this](replication::PlayerId player) {
        players_.push_back({player, "guest"});
        return simulation_.spawn_player(players_.back().name);
    });
    server.check<Name>([this](replication::PlayerId player, ecs::Entity, const Name& name) -> std::string {
        if (name.text.empty() || !is_printable(name.text)) return "a name has 1 to 16 printable letters";
        if (Seat* const seat = find(player)) seat->name = name.text;
        return "";
    });
    server.on_warning([this](replication::PlayerId player, replication::Warning warning) {
        complaints_.push_back(name_of(player) + (warning == replication::Warning::messages_deferred
                                                     ? " sends too many messages"
                                                     : " takes too long to load"));
    });
    simulation_.set_seen_by([&server](ecs::Entity bubble) {
        return [seen = server.seen_by(server.owner(bubble))](ecs::Entity entity) {
            return seen.get<Position>(entity);
        };
    });
}

void Players::step(replication::Server& server) {
    for (const Seat& seat : players_)
        if (!server.player(seat.id)) server.set_player(seat.id, simulation_.spawn_player(seat.name));
}

bool Players::on_admit(const net::Admission&, std::string& refusal) {
    if (is_closed_) refusal = "this server is about to stop";
    return !is_closed_;
}

void Players::on_leave(net::PeerId player, net::DisconnectReason reason, std::string_view text) {
    if (reason == net::DisconnectReason::kicked)
        complaints_.push_back("kicked " + name_of(player) + ": " + printable(text));
    std::erase_if(players_, [&](const Seat& seat) { return seat.id == player; });
}

Players::Seat* Players::find(replication::PlayerId player) {
    const auto seat = std::ranges::find(players_, player, &Seat::id);
    return seat == players_.end() ? nullptr : &*seat;
}

std::string Players::name_of(replication::PlayerId player) {
    const Seat* const seat = find(player);
    return seat ? seat->name : "somebody who joins";
}

}  // namespace shoal::demo
