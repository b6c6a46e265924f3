#pragma once
// What the arena is made of, and which of it replicates.

#include <cstdint>
#include <string>

#include "replication/schema.h"

namespace shoal::demo {

inline constexpr std::uint64_t kProtocolId = 0x73686f616c2d3031;  // change it with message.h
inline constexpr std::uint16_t kDefaultPort = 40'000;
inline constexpr float kArenaWidth = 160, kArenaHeight = 80;
inline constexpr std::uint32_t kMaxNameBytes = 16;

struct Position {
    float x = 0, y = 0;
};

/// Not in the schema: clients see where a creature is, never where it wants to go.
struct Velocity {
    float x = 0, y = 0;  // a second
};

struct Health {
    int percent = 100;
};

struct Name {
    std::string text;
};

/// Only hunters on the hunt have one. Their prey may die, or reach a client later than they do.
struct Target {
    ecs::Entity prey;
};

/// The relation of a pilot to its leader.
struct Follows {
    static constexpr auto relation = ecs::exclusive;
    float angle = 0;  // of its place beside the leader
};

/// A singleton.
struct Clock {
    double elapsed_s = 0;  // how long this world has been moving
};

// The species.
struct Minnow {};  // swims in schools, flees pikes
struct Crab {};    // sits about
struct Pike {};    // eats minnows and players
struct Player {};  // eats minnows

/// One more species: escorts a pike or a player, and is left alone.
struct Pilot {
    ecs::Entity leader;  // whom it Follows: pairs do not replicate, references do. May be dead
};

/// The same function on both sides: this is all that the server and its clients must agree on.
replication::Schema arena_schema();

/// For clients, where the Clock comes as a component of some replica: makes it the singleton, for as long as
/// the hook lives.
[[nodiscard]] ecs::Hook adopt_clock(ecs::World& world);

}  // namespace shoal::demo
