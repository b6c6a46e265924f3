#pragma once
// Why a player has an entity, or does not have it.

#include <cstdint>
#include <string>
#include <string_view>

#include "../schema/image.h"
#include "rooms.h"

namespace shoal::replication::all {

/// In the order in which they are checked: the first that applies is given.
enum class Reason : std::uint8_t {
    unknown_player,       // there is no such player
    not_replicated,       // the entity is dead, or lacks the tag Replicated
    hidden,               // Server::hide()
    not_in_room,          // the player is in none of the entity's rooms
    too_far,              // beyond the radius of Schema::grid(), from every viewpoint
    filtered,             // a Server::filter() said no
    not_loading,          // the client is not ready, or the game did not admit it
    seen_next_tick,       // the rule of the scope says yes since the last tick()
    waits_for_slot,       // the client's entity slots are full
    waits_to_be_sent,     // there was no room in a packet yet
    not_acknowledged,     // sent, no answer yet
    waits_for_interval,   // sent, perhaps without an answer yet; a newer version waits because of every()
    waits_to_be_updated,  // the client has an older version; a newer one waits for room in a packet
    has_it,               // the client has a version; a newer one may be on its way
};

struct Why {
    Reason reason = Reason::unknown_player;
    // The entity for which the rule gave this answer: the one asked for, or one that it follows.
    ecs::Entity decided_by;
    bool follows = false;               // decided_by is another entity than the one asked for
    Room room{};                        // not_in_room: one of the rooms of decided_by, if it has one
    double distance = 0;                // too_far: to the nearest viewpoint; infinity: there is none
    double radius = 0;                  // too_far: GridOptions::radius
    std::string_view filter{};          // filtered: the type of the component
    double interval_s = 0, next_s = 0;  // waits_for_interval: every(), and the rest of it, in seconds
    Tick tick = 0;  // has_it, waits_to_be_updated: of the client's version. not_acknowledged: sent
    std::uint32_t other_views = 0;  // number of components of the entity that are for other view classes
};

/// For example "is beyond 60 (at 83.2)".
std::string describe(const Why& why);

}  // namespace shoal::replication::all
