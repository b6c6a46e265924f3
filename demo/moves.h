#pragma once
// What clients do ahead of the server: the movements of players and bubbles, and shots. Server and clients
// call the same functions.

#include "arena.h"
#include "replication/action/action.h"
#include "replication/predict/step.h"

namespace shoal::demo {

/// Returns where something is after dt_s seconds. It does not leave the arena.
Position moved(const Position& at, const Velocity& velocity, float dt_s);

/// Moves the players' creatures where their players steer, and the bubbles.
void step_moves(const replication::Step& step);

/// The action of a player: takes one bubble of its Ammo, and shoots it.
struct Shoot {
    Direction direction = Direction::right;  // not none

    std::string validate(const replication::Act& act) const;
    void mutate(replication::Act& act) const;
};

}  // namespace shoal::demo
