#include "players.h"

#include <algorithm>

namespace shoal::demo {

void Players::listen(replication::Server& server) {
    server.on<Chat>([this, &server](replication::PlayerId player, const Chat& chat) {
        const auto seat = std::ranges::find(players_, player, &Seat::peer);
        if (seat == players_.end() || seat->name.empty() || chat.text.empty()) return;
        server.send_all(Chat{seat->name, printable(chat.text)});
    });
}

void Players::step(replication::Server& server) {
    for (Seat& seat : players_) {
        if (seat.has_left) {
            world_.destroy(seat.creature);
        } else if (!seat.name.empty() && !world_.is_alive(seat.creature) &&
                   server.phase(seat.peer) == replication::Phase::playing) {
            seat.creature = simulation_.spawn_player(seat.name);  // the first one, or the last one died
            server.set_player(seat.peer, seat.creature);
        }
    }
    std::erase_if(players_, [](const Seat& seat) { return seat.has_left; });
    left_ = 0;
}

void Players::on_leave(net::PeerId peer, net::DisconnectReason, std::string_view) {
    std::ranges::find(players_, peer, &Seat::peer)->has_left = true;
    left_ += 1;
}

/// Ignores bytes that are not a valid message.
void Players::on_message(net::PeerId peer, net::Channel, std::span<const std::byte> message) {
    Seat& seat = *std::ranges::find(players_, peer, &Seat::peer);
    if (const auto name = read_name(message); name && seat.name.empty()) seat.name = *name;
}

}  // namespace shoal::demo
