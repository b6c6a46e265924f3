#pragma once
// Describes the effects of an attack on a player.

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/net/support/battle.h"

namespace shoal::net::impl::attacks {

inline double ms(Duration duration) {
    return double(duration.count()) / 1000;
}

/// Returns the number of players from which the server got a message.
inline int inside(const Battle& battle) {
    int count = 0;
    for (const auto& player : battle.players) count += player->heard && !player->end();
    return count;
}

inline std::string describe_end(const Player& player) {
    const std::optional<DisconnectReason> end = player.end();
    return end ? std::string(net::describe(*end)) : "none";
}

/// Returns what went wrong for the player. Empty: it connected, stayed connected, and both sides got messages
/// regularly.
inline std::string disturbance(const Player& player, Duration longest_silence) {
    std::ostringstream text;
    if (!player.heard) text << " never connected;";
    if (player.end()) text << " shown: " << describe_end(player) << ";";
    if (player.silence_at_client() > longest_silence)
        text << " silence at the client " << ms(player.silence_at_client()) << " ms;";
    if (player.silence_at_server() > longest_silence)
        text << " silence at the server " << ms(player.silence_at_server()) << " ms;";
    if (player.disorders() > 0) text << " " << player.disorders() << " messages twice or out of order;";
    if (text.str().empty()) return {};
    return "player " + std::to_string(player.number) + ":" + text.str();
}

inline void expect_undisturbed(const Player& player, Duration longest_silence) {
    EXPECT_EQ(disturbance(player, longest_silence), "");
}

}  // namespace shoal::net::impl::attacks
