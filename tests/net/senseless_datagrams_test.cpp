// Datagrams that are repeated, reflected, damaged or invented.

#include <gtest/gtest.h>

#include "tests/net/support/attacks.h"
#include "tests/net/support/disturbance.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl::attacks {
namespace {

using namespace std::chrono_literals;

// Goal: only counters change, and when all clients have left, no state is left.
TEST(Attacks, RepeatedReflectedDamagedAndInventedDatagramsChangeNothing) {
    for (std::uint64_t seed = 30; seed < 34; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Battle battle(seed);
        battle.add<Vandal>(seed, 6s);
        battle.enter_and_wait(PlayerPath{20ms, 0.02});
        battle.enter(PlayerPath{100ms, 0});
        Flood::Plan plan;
        plan.bytes_per_second = 200'000;
        plan.duration = 2s;
        battle.add<Flood>(plan);
        battle.run(4s);
        for (const auto& player : battle.players) {
            expect_undisturbed(*player, 1s);
            player->client().disconnect(player->client().server(), DisconnectReason::closed, {}, battle.now);
        }
        battle.run(12s);
        EXPECT_EQ(battle.at_server.connects, 2u);
        EXPECT_TRUE(battle.host->is_idle());
        EXPECT_EQ(battle.amplified_bytes(), 0u);
        EXPECT_GT(battle.injected, 1000u);
    }
}

}  // namespace
}  // namespace shoal::net::impl::attacks
