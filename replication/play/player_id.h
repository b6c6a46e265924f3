#pragma once
// The id of a player in the game's code.

#include "../../net/endpoint.h"

namespace shoal::replication::impl {

/// The id of a player's seat, equal to the id of the player's first connection.
using PlayerId = net::PeerId;

}  // namespace shoal::replication::impl
