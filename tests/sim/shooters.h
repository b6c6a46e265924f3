#pragma once
// A game whose players do actions: they shoot while they have ammunition, get more of it, and cheer.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ecs/query.h"
#include "replication/action/action.h"
#include "replication/client.h"
#include "replication/server.h"
#include "tests/sim/game.h"

namespace shoal::sim::shooters {

struct Ammunition {
    std::int32_t left = 0;
};
struct Shot {
    std::uint32_t number = 0;
};
struct Fire {
    std::uint32_t number = 0;
    std::string validate(const replication::Act& act) const {
        const Ammunition* ammunition = act.world.try_get<Ammunition>(act.player);
        return ammunition && ammunition->left > 0 ? "" : "out of ammunition";
    }
    ecs::Entity mutate(replication::Act& act) const {
        act.world.patch<Ammunition>(act.player, [](Ammunition& ammunition) { ammunition.left -= 1; });
        return act.spawn(Shot{number});
    }
};
struct Recharge {
    std::uint32_t number = 0;
    void mutate(replication::Act& act) const {
        act.world.patch<Ammunition>(act.player, [](Ammunition& ammunition) { ammunition.left += 2; });
    }
};
struct Cheer {
    std::uint32_t number = 0;
};

inline replication::Schema schema() {
    replication::Schema schema;
    schema.component<Ammunition>("ammunition", replication::bounded(-100, 1000));
    schema.component<Shot>("shot");
    schema.component<Position>("position");
    schema.action<Fire>("fire", replication::at_most(1000));
    schema.action<Recharge>("recharge", replication::at_most(1000));
    schema.action<Cheer>("cheer", replication::independent(), replication::at_most(1000));
    return schema;
}

/// Limits of actions that nobody reaches.
inline replication::ServerOptions options() {
    replication::ServerOptions options;
    options.actions = {1000, 1000, 1000};
    return options;
}

/// The actions that one client called. Their numbers rise from 1.
struct Calls {
    std::uint32_t fired = 0, cheered = 0;

    /// Calls some, if the client plays.
    void draw(replication::Client& client, Random& random) {
        if (client.phase() != replication::Phase::playing) return;
        if (random.chance(0.10)) client.act(Fire{++fired});
        if (random.chance(0.03)) client.act(Recharge{++fired});
        if (random.chance(0.05)) client.act(Cheer{++cheered});
    }
};

/// The actions that came to the server.
struct Log {
    struct OfPlayer {
        std::vector<std::uint32_t> fired, cheered;  // numbers of accepted and rejected ones, in order
    };
    std::map<replication::PlayerId, OfPlayer> players;
    std::uint32_t accepted = 0, rejected = 0, cheers = 0;

    /// Notes all actions of a server.
    void watch(replication::Server& server) {
        server.on_action([this](const replication::ActionReport& report) {
            OfPlayer& player = players[report.who];
            const std::uint32_t number = *static_cast<const std::uint32_t*>(report.action);
            const bool is_cheer = report.name == "cheer";
            (is_cheer ? player.cheered : player.fired).push_back(number);
            (is_cheer ? cheers : report.is_accepted ? accepted : rejected) += 1;
        });
    }
    /// Each action of a player came once, and in order.
    void expect_order() const {
        const auto is_ascending = [](const std::vector<std::uint32_t>& numbers) {
            return std::adjacent_find(numbers.begin(), numbers.end(), std::greater_equal()) == numbers.end();
        };
        for (const auto& [id, player] : players) {
            EXPECT_TRUE(is_ascending(player.fired));
            EXPECT_TRUE(is_ascending(player.cheered));
        }
    }
};

/// Sometimes destroys a shot.
inline void lose_shots(ecs::World& world, Random& random) {
    if (!random.chance(0.1)) return;
    ecs::Entity lost;
    ecs::Query<const Shot>(world).each([&](ecs::Entity shot, const Shot&) { lost = shot; });
    if (lost) world.destroy(lost);
}

/// Returns the number of shots in a world.
inline std::uint32_t count_shots(ecs::World& world) {
    return static_cast<std::uint32_t>(ecs::Query<const Shot>(world).count());
}

}  // namespace shoal::sim::shooters
