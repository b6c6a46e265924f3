#pragma once
// Interface for Act::seen(): knows how a player's client shows the world.

#include <cstdint>
#include <optional>

#include "../../ecs/entity.h"
#include "../play/player_id.h"
#include "../schema/image.h"

namespace shoal::replication::impl {

class Sight {
public:
    /// Changes `value` to a component as the player's client shows it. `type`: type_address of the
    /// component. `is_there`: the world has the component, and `value` is a copy of it; else `value` is a
    /// default value. Returns false if the client does not show the component.
    virtual bool see(PlayerId player, ecs::Entity entity, const void* type, bool is_there,
                     void* value) const = 0;

    /// On a server: see() returns what the player's client showed when it made something for the tick
    /// `made_for`, with this lag, see RenderTime::lag(). `now`: the current tick.
    virtual void look(PlayerId /*player*/, Tick /*made_for*/, std::optional<std::uint32_t> /*lag*/,
                      Tick /*now*/) {}

protected:
    ~Sight() = default;
};

}  // namespace shoal::replication::impl
