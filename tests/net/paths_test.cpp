// The rate over families of simulated paths. build/bench/paths prints all results; these tests check the
// claims of net/RATE.md on a sample of the paths.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/net/support/paths.h"

namespace shoal::net::impl::paths {
namespace {

constexpr double kSeconds = 30;

/// SHOAL_PATH_SEEDS=1000:20 selects other seeds.
std::pair<std::uint64_t, std::uint64_t> seeds() {
    const char* const text = std::getenv("SHOAL_PATH_SEEDS");
    if (!text) return {1, 2};
    char* end = nullptr;
    const std::uint64_t first = std::strtoull(text, &end, 10);
    return {first, *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 1};
}

struct Trip {
    std::string name;
    Outcome outcome;
};

/// Runs every path of `group` whose name contains `part`, once per seed.
std::vector<Trip> run_all(const std::string& group, const std::string& part = "") {
    std::vector<Trip> result;
    const auto [first, count] = seeds();
    for (const PathSpec& path : family()) {
        if (path.group != group || path.name.find(part) == std::string::npos) continue;
        for (std::uint64_t seed = first; seed < first + count; ++seed) {
            const std::string name = path.group + "." + path.name + " seed " + std::to_string(seed);
            result.push_back({name, run(path, seed, kSeconds)});
        }
    }
    EXPECT_FALSE(result.empty()) << group << " " << part;
    return result;
}

double median(const std::vector<Trip>& runs, double Outcome::*value) {
    std::vector<double> values;
    for (const Trip& trip : runs) values.push_back(trip.outcome.*value);
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

void expect_goodput(const std::vector<Trip>& runs, double at_median, double at_worst) {
    EXPECT_GE(median(runs, &Outcome::good), at_median);
    for (const Trip& trip : runs) {
        EXPECT_GE(trip.outcome.good, at_worst) << trip.name;
        EXPECT_FALSE(trip.outcome.is_cut) << trip.name;
    }
}

TEST(Paths, Rule34JitterIsNotTakenForAQueue) {
    for (const char* const jitter : {"j15.", "j40."})
        expect_goodput(run_all("free.jitter", jitter), 0.95, 0.8);
    expect_goodput(run_all("free.jitter", "j80.d80"), 0.85, 0.4);
}

TEST(Paths, StallsAndGrantsAreNotTakenForAQueue) {
    expect_goodput(run_all("free.pauses"), 0.95, 0.9);
    expect_goodput(run_all("free.grants"), 0.95, 0.9);
}

TEST(Paths, RandomLossDoesNotLowerTheRate) {
    expect_goodput(run_all("free.loss", "random20.rtt100"), 0.95, 0.7);
    expect_goodput(run_all("free.loss", "burst10.rtt20"), 0.95, 0.65);
    expect_goodput(run_all("free.loss_jitter"), 0.9, 0.6);
}

// A message that is sent three times is lost with a probability of 1 %, twice with 4 %.
TEST(Paths, MessagesAreQuickInSpiteOfTwentyPercentLoss) {
    EXPECT_LE(median(run_all("free.loss", "random20.rtt20"), &Outcome::up99_ms), 70);
}

TEST(Paths, ABottleneckIsUsedFullyWithAShortQueue) {
    const std::vector<Trip> runs = run_all("tight.clean", "c200.q300");
    expect_goodput(runs, 0.9, 0.85);
    for (const Trip& trip : runs) EXPECT_LE(trip.outcome.q50_ms, 60) << trip.name;
    EXPECT_LE(median(runs, &Outcome::q99_ms), 150);
}

TEST(Paths, ABottleneckBehindJitterIsUsedFully) {
    expect_goodput(run_all("tight.jitter", "c200.in_order.j40"), 0.8, 0.6);
    expect_goodput(run_all("tight.pauses", "c200"), 0.8, 0.6);
}

TEST(Paths, APolicerAndAShortQueueLimitTheRate) {
    for (const char* const group : {"tight.policer", "tight.shallow"}) {
        for (const Trip& trip : run_all(group)) {
            EXPECT_GE(trip.outcome.good, 0.8) << trip.name;
            EXPECT_LE(trip.outcome.drop, 0.15) << trip.name;
        }
    }
}

// The queue has room for 50 ms, which are 500 ms after the capacity fell to a tenth.
TEST(Paths, TheQueueDrainsAfterThePathBecomesSlower) {
    for (const Trip& trip : run_all("change.drop", "c400.to40.q50"))
        EXPECT_LE(trip.outcome.settled_s, 2) << trip.name;
}

TEST(Paths, NeitherFlowStarvesBesideAnother) {
    for (const Trip& trip : run_all("flows.two", "q300"))
        EXPECT_GE(trip.outcome.lowest_share(), 0.3) << trip.name;
    for (const char* const queue : {"q50", "q200"}) {
        for (const Trip& trip : run_all("flows.cubic", queue)) {
            EXPECT_GE(trip.outcome.ours, 0.1) << trip.name;
            EXPECT_LE(trip.outcome.ours, 0.9) << trip.name;
        }
    }
}

// Goal: after each change of the round trip between 1 and 1,500 ms, state arrives again within three of the
// longer round trips or 5 s, plus a tick of each side.
TEST(Paths, Rule33NoStepOfTheRoundTripFreezesState) {
    for (const PathSpec& path : family()) {
        if (path.group != "free.jump") continue;
        const double longer_s = 2 * std::max(path.down_ms, path.latency_changes[0].value) / 1000;
        const Outcome outcome = run(path, 1, kSeconds);
        EXPECT_LE(outcome.gap_ms, 1000 * std::min(5.0, 3 * longer_s) + 50) << path.name;
        EXPECT_LE(outcome.resume_s, 5) << path.name;
        EXPECT_FALSE(outcome.is_cut) << path.name;
    }
}

// One side stops while the clock continues, as when a laptop is closed or a debugger stops the program.
TEST(Paths, Rule33NoPauseOfAProcessFreezesState) {
    for (const Trip& trip : run_all("free.stall")) {
        EXPECT_LE(trip.outcome.resume_s, 1.5) << trip.name;
        EXPECT_FALSE(trip.outcome.is_cut) << trip.name;
    }
}

TEST(Paths, StateArrivesWithRoundTripsOfSeconds) {
    expect_goodput(run_all("free.clean", "rtt1500.d80"), 0.9, 0.85);
    expect_goodput(run_all("free.clean", "rtt1000.d400"), 0.9, 0.85);
}

// An ack names 65 packets. A client with long frames has more packets than that in its socket.
TEST(Paths, ASlowClientDoesNotLimitTheRate) {
    for (const double hz : {20.0, 10.0, 5.0}) {
        PathSpec path;
        path.client_tick_hz = hz;
        path.demand = 4'000'000;
        path.down_ms = path.up_ms = 10;
        const Outcome outcome = run(path, 1, kSeconds);
        EXPECT_GE(outcome.good, 0.95) << hz;
    }
}

TEST(Paths, OneSeedReproducesARun) {
    const PathSpec path = family()[30];
    EXPECT_EQ(run(path, 7, 5).good, run(path, 7, 5).good);
}

}  // namespace
}  // namespace shoal::net::impl::paths
