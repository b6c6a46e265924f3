#pragma once
// The movements that clients predict. Server and clients call the same functions.

#include "arena.h"
#include "replication/play/step.h"

namespace shoal::demo {

/// Returns where something is after dt_s seconds. It does not leave the arena.
Position moved(const Position& at, const Velocity& velocity, float dt_s);

/// Moves the players' creatures where their players steer.
void step_moves(const replication::Step& step);

}  // namespace shoal::demo
