#pragma once
// The components of the arena, and the schema that says which of them replicate.

#include <cstdint>
#include <string>
#include <vector>

#include "replication/schema/schema.h"

namespace shoal::demo {

inline constexpr std::uint64_t kProtocolId = 0x73686f616c2d3034;  // number of this game
inline constexpr std::uint16_t kDefaultPort = 40'000;
inline constexpr float kArenaWidth = 160, kArenaHeight = 80;  // in the units of Position
inline constexpr std::uint32_t kMaxNameBytes = 16;
inline constexpr std::uint32_t kMaxSayBytes = 60;
inline constexpr int kMaxBubbles = 6, kMaxBaits = 2;
inline constexpr float kLongestThrow = 40;

struct Position {
    float x = 0, y = 0;
};

/// Not in the schema: clients get only positions. Players' creatures move by their Steer instead.
struct Velocity {
    float x = 0, y = 0;  // per second
};

struct Health {
    int percent = 100;
};

/// The client of a player decides the name of the player's creature.
struct Name {
    std::string text;
};

enum class Direction : std::uint8_t { none, up, down, left, right };

/// The input: where a player steers its creature.
struct Steer {
    Direction direction = Direction::none;
};

/// The colour of a player's creature. Programs of the first version of the game do not know this component.
struct Colour {
    std::uint8_t ink = 213;  // one of the 256 colours of a terminal
};

/// What a player's creature ate and shot: a minnow counts 1, a pike 5, a player 10.
struct Score {
    int points = 0;
};

/// How many bubbles a player can shoot now, and how many baits it can throw. Only the player's client gets
/// this.
struct Ammo {
    int bubbles = kMaxBubbles, baits = kMaxBaits;
};

/// A shot of a player.
struct Bubble {
    Direction direction = Direction::right;  // not none
};

/// Thrown by a player. Minnows swim to it.
struct Bait {
    Direction direction = Direction::right;  // not none
    float left = 0;                          // distance that it still flies
};

/// A bubble or bait has one. Not in the schema.
struct Flight {
    ecs::Entity shooter;
    float left_s = 1.5f;  // seconds until it bursts or is gone
};

/// A pike has one while it hunts. The prey may die, or appear on a client later than the pike.
struct Target {
    ecs::Entity prey;
};

/// The relation of a pilot to its leader.
struct Follows {
    static constexpr auto relation = ecs::exclusive;
    float angle = 0;  // radians; direction from the leader to the pilot's place
};

/// A part of the arena: server and clients spawn it themselves, see load_reefs(). Minnows graze there.
struct Reef {
    float food = 100;  // percent
};
inline constexpr std::uint32_t kReefs = 5;

/// A singleton.
struct Clock {
    double elapsed_s = 0;  // time simulated so far
};

/// A message: the hash of the server's world at a tick, see WorldCheck.
struct Checksum {
    std::uint32_t tick = 0, entities = 0;
    std::uint64_t hash = 0;
    bool operator==(const Checksum&) const = default;
};

// The species.
struct Minnow {};  // swims in schools, flees pikes
struct Crab {};    // crawls on the ground
struct Pike {};    // eats minnows and players
struct Player {};  // eats minnows
struct Pilot {};   // escorts a pike or a player; nobody eats it

enum class GameVersion {
    first,
    second,  // players' creatures have a Colour, which is optional: clients of the first version play on
};

/// Used by server and clients. `view`: only for a server; how far players see; 0: everywhere.
replication::Schema arena_schema(GameVersion version = GameVersion::second, double view = 0);

/// Spawns the reefs of the arena, at the same places and with the same stable keys in each world. Returns
/// them.
std::vector<ecs::Entity> load_reefs(ecs::World& world);

}  // namespace shoal::demo
