#pragma once
// What clients do ahead of the server: the movements of players, bubbles and baits, and the actions of
// players. Server and clients call the same functions.

#include "arena.h"
#include "replication/action/action.h"
#include "replication/predict/step.h"

namespace shoal::demo {

/// Returns where something is that moved from `at` for dt_s seconds. It stops at the edge of the arena.
Position moved(const Position& at, const Velocity& velocity, float dt_s);

/// Moves the players' creatures where their players steer, the bubbles, and the baits until they have landed.
void step_moves(const replication::Step& step);

/// The action of a player: takes one bubble of its Ammo, and shoots it.
struct Shoot {
    Direction direction = Direction::right;  // not none

    std::string validate(const replication::Act& act) const;
    void mutate(replication::Act& act) const;
};

inline constexpr int kMaxPower = 5;

/// The action of a player: throws one bait of its Ammo.
struct Throw {
    Direction direction = Direction::right;  // not none
    int power = 1;                           // 1 to kMaxPower: how far it flies

    std::string validate(const replication::Act& act) const;
    void mutate(replication::Act& act) const;
};

/// The action of a player: says something to all players. Changes nothing.
struct Say {
    std::string text;

    std::string validate(const replication::Act& act) const;
};

}  // namespace shoal::demo
