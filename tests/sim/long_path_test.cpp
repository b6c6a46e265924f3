// Round trips that take longer than the history of the server.

#include <gtest/gtest.h>

#include "tests/sim/simulation.h"

namespace shoal::sim {
namespace {

Plan long_path(std::uint64_t seed, net::Duration round_trip, double loss) {
    Plan plan = plan_of(seed);
    plan.tick_hz = plan.server.sender.tick_hz = 30;
    plan.busy_ticks = 900;
    plan.rest_s = 60;
    plan.kicks = plan.crashes = 0;
    plan.keeps = ~0u;
    plan.style = {.max_entities = 30, .operations = 8, .churn = 0.1, .idle = 0, .is_stable = true};
    plan.server.sender.history_s = 0.6;
    plan.server.host.connection.max_bytes_per_second = 256'000;
    plan.server.host.connection.timeout = std::chrono::seconds(30);
    Player::Plan player = plan.players[0];
    player.up = {.latency = round_trip / 2, .loss = loss};
    player.down = player.up;
    player.calm_latency = round_trip / 2;
    player.joins_at = 0;
    player.leaves = player.partitions = player.sleeps = player.moves = player.destroys = 0;
    player.options.net.connection.timeout = std::chrono::seconds(30);
    player.options.net.connect_timeout = std::chrono::seconds(40);
    player.options.receiver.max_versions = 256;
    plan.players.assign(2, player);
    return plan;
}

// Goal: a version stays while a peer with slow acks needs it as a baseline, also if packets are lost. So most
// records are deltas: only what the peer never acknowledged needs a full record. And all clients converge.
// Method: the checks of Simulation; its entities exist for the whole time, so that each needs full records
// only in the first round trips.
TEST(LongPath, Rule31RecordsAreDeltasIfARoundTripTakesLongerThanTheHistory) {
    const struct {
        int round_trip_ms;
        double loss;
    } paths[] = {{1000, 0.1}, {2000, 0}, {3000, 0.1}};
    for (const auto [round_trip_ms, loss] : paths) {
        SCOPED_TRACE(testing::Message() << round_trip_ms << " ms, loss " << loss);
        Simulation simulation(long_path(1, std::chrono::milliseconds(round_trip_ms), loss));
        EXPECT_EQ(simulation.run(), "");
        const Simulation::Totals totals = simulation.totals();
        EXPECT_EQ(totals.joins, 2u);
        EXPECT_EQ(totals.lost > 0, loss > 0);
        EXPECT_GT(totals.records, 3'000u);
        EXPECT_LT(totals.full_records, totals.records / 4);
        EXPECT_EQ(totals.refused, 0u);
        EXPECT_EQ(totals.rebases, 0u);
    }
}

}  // namespace
}  // namespace shoal::sim
