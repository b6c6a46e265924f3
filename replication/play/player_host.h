#pragma once
// What the parts of a server that know its players ask of it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "../../ecs/entity.h"
#include "../history/net_ids.h"
#include "player_id.h"

namespace shoal::replication::impl {

struct Player;
struct SchemaStruct;

class PlayerHost {
public:
    /// Sends a control message, after earlier ones.
    virtual void send_control(Player& player, std::vector<std::byte> message) = 0;
    /// Sends an event, after the reliable messages of the game with the default key. Returns false if the
    /// player's connection is too slow for it.
    [[nodiscard]] virtual bool send_event(Player& player, std::span<const std::byte> message) = 0;
    virtual void disconnect_player(Player& player, std::string_view why) = 0;
    /// Called for each event that was sent. `also`: an entity that the event names beside those in its words;
    /// 0: none.
    virtual void note_named(Player& /*player*/, const SchemaStruct& /*type*/,
                            std::span<const std::uint32_t> /*words*/, NetId /*also*/) {}
    /// Handles the player's messages and values that waited for an action that has run now.
    virtual void handle_waiting(Player& /*player*/) {}
    virtual void give_entity(PlayerId player, ecs::Entity entity) = 0;

protected:
    ~PlayerHost() = default;
};

}  // namespace shoal::replication::impl
