// Simulations with random worlds, clients and networks; simulation.h says what is checked.
//
// To run other seeds: SHOAL_SIM_SEEDS=first:count with --gtest_filter='Simulation.EveryVersionOfAClient*'.

#include "tests/sim/simulation.h"
#include "tests/sim/seeds.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

namespace shoal::sim {
namespace {

// Goal: whatever the network does, a client that has version v of an entity has exactly the server's entity
// at v, and a client that is complete at tick t has the server's world at t. When changes and faults end, all
// clients become complete, and every reliable message was delivered once and in order. Where nothing provokes
// a refusal, a loss or a request for a full record, there is none: they would hide faults by repairing them.
// Method: one seed determines everything; the server's world is recorded from its components in each tick.
TEST(Simulation, EveryVersionOfAClientIsTheServersAndAllClientsConverge) {
    const std::vector<std::uint64_t> seeds = seeds_to_run("SHOAL_SIM_SEEDS", 240);
    Simulation::Totals sum;
    for (const std::uint64_t seed : seeds) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ": SHOAL_SIM_SEEDS=" << seed << ":1");
        Simulation simulation(plan_of(seed));
        EXPECT_EQ(simulation.run(), "");
        const Simulation::Totals totals = simulation.totals();
        sum.versions_checked += totals.versions_checked;
        sum.worlds_checked += totals.worlds_checked;
        sum.complete_checks += totals.complete_checks;
        sum.joins += totals.joins;
        sum.refused += totals.refused;
        sum.rebases += totals.rebases;
        sum.stale += totals.stale;
        sum.suppressed += totals.suppressed;
        sum.empty_records += totals.empty_records;
        sum.moves += totals.moves;
        sum.large_messages += totals.large_messages;
        sum.lost += totals.lost;
        sum.duplicated += totals.duplicated;
        sum.reordered += totals.reordered;
        sum.corrupted += totals.corrupted;
        sum.quiet_players += totals.quiet_players;
        sum.overtaken_players += totals.overtaken_players;
        sum.replicas_checked += totals.replicas_checked;
        sum.neighbours_checked += totals.neighbours_checked;
        sum.turnovers += totals.turnovers;
        sum.waits += totals.waits;
        sum.crashes += totals.crashes;
        sum.players_in_order += totals.players_in_order;
    }
    if (seeds.size() < 200) return;
    // Checks that the seeds cover all cases.
    EXPECT_GT(sum.versions_checked, 100'000u);
    EXPECT_GT(sum.complete_checks, 1'000u);
    EXPECT_GT(sum.worlds_checked, 10'000u);
    EXPECT_GT(sum.replicas_checked, 50'000u);
    EXPECT_GT(sum.neighbours_checked, 50'000u);
    EXPECT_GT(sum.turnovers, 30u);
    EXPECT_GT(sum.crashes, 10u);
    for (const std::uint64_t happened :
         {sum.joins, sum.refused, sum.rebases, sum.stale, sum.suppressed, sum.empty_records, sum.moves,
          sum.large_messages, sum.lost, sum.duplicated, sum.reordered, sum.corrupted, sum.quiet_players,
          sum.players_in_order, sum.overtaken_players, sum.waits})
        EXPECT_GT(happened, 0u);
    RecordProperty("versions_checked", std::to_string(sum.versions_checked));
    RecordProperty("complete_checks", std::to_string(sum.complete_checks));
}

// As above, but clients show entities that have a Position as of their render time: each replica equals the
// version that is due, and complete() speaks of the worlds that are shown.
TEST(Simulation, ClientsThatInterpolateShowEachVersionWhenItIsDue) {
    Simulation::Totals sum;
    for (const std::uint64_t seed : seeds_to_run("SHOAL_SHOWN_SEEDS", 60)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ": SHOAL_SHOWN_SEEDS=" << seed << ":1");
        Plan plan = plan_of(seed);
        plan.interpolates = true;
        Simulation simulation(plan);
        EXPECT_EQ(simulation.run(), "");
        sum.replicas_checked += simulation.totals().replicas_checked;
        sum.complete_checks += simulation.totals().complete_checks;
    }
    RecordProperty("replicas_checked", std::to_string(sum.replicas_checked));
    RecordProperty("complete_checks", std::to_string(sum.complete_checks));
}

}  // namespace
}  // namespace shoal::sim
