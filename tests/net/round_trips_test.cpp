#include "net/rate/round_trips.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace shoal::net::impl {
namespace {

using namespace std::chrono_literals;

/// The round trips of a path, with a clock that advances by 100 ms per round.
struct Rounds {
    explicit Rounds(Time start = 0s) : trips(start), now(start) {}
    /// Adds a round of exact samples.
    void round(std::initializer_list<Duration> rtts, bool learns_spread = true) {
        for (const Duration rtt : rtts) trips.sample(rtt, true);
        now += 100ms;
        trips.end_round(now, learns_spread);
    }
    void rounds(int count, Duration rtt) {
        for (int i = 0; i < count; ++i) round({rtt});
    }

    RoundTrips trips;
    Time now;
};

TEST(RoundTrips, NothingIsKnownBeforeTheFirstSample) {
    Rounds path;
    EXPECT_EQ(path.trips.floor(), 0ms);
    path.round({});
    EXPECT_EQ(path.trips.floor(), 0ms);
    EXPECT_EQ(path.trips.queue(), 0ms);
    EXPECT_EQ(path.trips.standing(), 0ms);
    EXPECT_EQ(path.trips.spread(), 0ms);
    EXPECT_EQ(path.trips.tolerated(), 0ms);
}

TEST(RoundTrips, FloorIsTheSmallestSample) {
    Rounds path;
    path.trips.sample(60ms, true);
    EXPECT_EQ(path.trips.floor(), 60ms) << "at once";
    path.trips.sample(50ms, true);
    path.trips.sample(70ms, true);
    EXPECT_EQ(path.trips.floor(), 50ms);
    path.trips.sample(40ms, false);
    EXPECT_EQ(path.trips.floor(), 40ms) << "a sample with an ack delay is never too small";
    path.rounds(3, 80ms);
    EXPECT_EQ(path.trips.floor(), 40ms);
}

// Goal: the floor includes all samples of the last ten seconds, and none older than twenty.
// Method: one small sample among larger ones, at each time in the window.
TEST(RoundTrips, FloorAgesAfterTenToTwentySeconds) {
    for (int before = 0; before < 200; before += 7) {
        SCOPED_TRACE(before);
        Rounds path(300s);
        path.rounds(before, 80ms);
        path.round({50ms});
        const Time taken = path.now;
        while (path.trips.floor() == 50ms && path.now < taken + 60s) path.round({80ms});
        EXPECT_GE(path.now - taken, 10s);
        EXPECT_LE(path.now - taken, 20s);
        EXPECT_EQ(path.trips.floor(), 80ms);
        path.round({80ms});
        EXPECT_EQ(path.trips.queue(), 0ms) << "the former queue of 30 ms counts as delay of the path now";
    }
}

TEST(RoundTrips, QueueIsTheSmallestOfTheRoundOverTheFloor) {
    Rounds path;
    path.round({50ms, 90ms});
    EXPECT_EQ(path.trips.queue(), 0ms);
    path.round({95ms, 70ms, 80ms});
    EXPECT_EQ(path.trips.queue(), 20ms);
    path.trips.sample(66ms, false);
    path.round({90ms});
    EXPECT_EQ(path.trips.queue(), 16ms);
    path.round({50ms, 95ms});
    EXPECT_EQ(path.trips.queue(), 0ms);
    path.round({45ms});
    EXPECT_EQ(path.trips.queue(), 0ms) << "a new floor";
}

TEST(RoundTrips, StandingIsTheSmallestOfEightRounds) {
    Rounds path;
    path.round({50ms});
    path.round({70ms, 90ms});
    path.rounds(6, 85ms);
    EXPECT_EQ(path.trips.standing(), 0ms) << "the round of the floor is one of the eight";
    path.rounds(1, 85ms);
    EXPECT_EQ(path.trips.standing(), 20ms) << "the round of 70 ms is the oldest of the eight";
    path.rounds(1, 85ms);
    EXPECT_EQ(path.trips.standing(), 35ms);
    path.round({60ms, 200ms});
    EXPECT_EQ(path.trips.standing(), 10ms);
    path.rounds(7, 85ms);
    EXPECT_EQ(path.trips.standing(), 10ms);
    path.rounds(1, 85ms);
    EXPECT_EQ(path.trips.standing(), 35ms);
}

TEST(RoundTrips, SpreadIsTheMeanWidthOfRounds) {
    Rounds path;
    path.round({50ms, 130ms, 90ms});
    EXPECT_EQ(path.trips.spread(), 10ms);
    for (int i = 0; i < 100; ++i) path.round({50ms, 130ms});
    EXPECT_NEAR(static_cast<double>(path.trips.spread().count()), 80'000, 100);
    for (int i = 0; i < 100; ++i) path.round({60ms, 70ms});
    EXPECT_NEAR(static_cast<double>(path.trips.spread().count()), 10'000, 100);
}

// Samples with an ack delay vary with the receiver's ticks, which is not a property of the path.
TEST(RoundTrips, SpreadLearnsFromExactSamplesOnly) {
    Rounds path;
    for (int i = 0; i < 50; ++i) {
        path.trips.sample(200ms, false);
        path.round({50ms});
    }
    EXPECT_EQ(path.trips.spread(), 0ms);
    for (int i = 0; i < 50; ++i) {
        path.trips.sample(50ms, false);
        path.trips.sample(200ms, false);
        path.round({});
    }
    EXPECT_EQ(path.trips.spread(), 0ms);
    path.round({50ms, 130ms});
    EXPECT_EQ(path.trips.spread(), 10ms);
    path.trips.sample(80ms, false);
    path.round({});
    path.rounds(20, 60ms);
    EXPECT_EQ(path.trips.spread(), 10ms) << "one exact sample has no width";
}

TEST(RoundTrips, SpreadIgnoresRoundsThatTheCallerDisturbed) {
    Rounds path;
    path.round({50ms, 130ms}, false);
    EXPECT_EQ(path.trips.spread(), 0ms);
    path.round({130ms, 70ms}, false);
    EXPECT_EQ(path.trips.queue(), 20ms) << "all other estimates are updated";
    path.round({50ms, 130ms});
    EXPECT_EQ(path.trips.spread(), 10ms);
}

TEST(RoundTrips, BandIsTheSpreadAndAtLeastTheDelayThatTicksAdd) {
    Rounds path;
    EXPECT_EQ(path.trips.band(), 30ms);
    path.round({50ms, 130ms});
    EXPECT_EQ(path.trips.band(), 30ms);
    for (int i = 0; i < 100; ++i) path.round({50ms, 130ms});
    EXPECT_EQ(path.trips.band(), path.trips.spread());
    EXPECT_GT(path.trips.band(), 75ms);
}

TEST(RoundTrips, RecentIsOfThisRoundAndTheLast) {
    Rounds path;
    path.trips.sample(90ms, true);
    EXPECT_EQ(path.trips.recent(), 90ms);
    path.round({80ms});
    EXPECT_EQ(path.trips.recent(), 80ms);
    path.trips.sample(95ms, true);
    EXPECT_EQ(path.trips.recent(), 80ms);
    path.trips.sample(70ms, false);
    EXPECT_EQ(path.trips.recent(), 70ms);
    path.round({});
    path.round({85ms});
    EXPECT_EQ(path.trips.recent(), 85ms);
}

TEST(RoundTrips, AcceptedDelayIsTheFloorUntilEightRoundsShowLess) {
    Rounds path;
    path.round({50ms});
    path.rounds(10, 150ms);
    ASSERT_EQ(path.trips.queue(), 100ms);
    ASSERT_EQ(path.trips.standing(), 100ms);
    path.trips.accept(150ms);
    EXPECT_EQ(path.trips.floor(), 150ms);
    EXPECT_EQ(path.trips.queue(), 0ms);
    EXPECT_EQ(path.trips.standing(), 0ms);
    path.rounds(5, 170ms);
    EXPECT_EQ(path.trips.queue(), 20ms);
    EXPECT_EQ(path.trips.standing(), 0ms) << "it counts from the next eight rounds on";
    path.rounds(3, 170ms);
    EXPECT_EQ(path.trips.standing(), 20ms);
    EXPECT_EQ(path.trips.floor(), 150ms);

    path.trips.accept(150ms);
    path.rounds(7, 90ms);
    EXPECT_EQ(path.trips.floor(), 150ms);
    EXPECT_EQ(path.trips.queue(), 0ms);
    path.rounds(1, 95ms);
    EXPECT_EQ(path.trips.floor(), 90ms) << "the smallest of the eight";
    path.rounds(20, 150ms);
    EXPECT_EQ(path.trips.floor(), 90ms) << "the former delay is a queue now";
    EXPECT_EQ(path.trips.queue(), 60ms);
}

TEST(RoundTrips, RenewForgetsTheAcceptedDelayAndHalvesTheToleratedDelay) {
    Rounds path;
    path.round({50ms});
    path.round({150ms});
    path.trips.accept(150ms);
    ASSERT_EQ(path.trips.tolerated(), 70ms) << "a queue of 100 ms minus the band";
    path.trips.renew();
    EXPECT_EQ(path.trips.floor(), 50ms);
    EXPECT_EQ(path.trips.tolerated(), 35ms);
    path.rounds(1, 150ms);
    EXPECT_EQ(path.trips.queue(), 100ms);
    for (int i = 0; i < 20; ++i) path.trips.renew();
    EXPECT_LT(path.trips.tolerated(), 1ms);
}

TEST(RoundTrips, ToleratesDelayAboveTheBandUpToABound) {
    Rounds path;
    path.round({50ms});
    path.round({75ms});
    path.trips.tolerate();
    EXPECT_EQ(path.trips.tolerated(), 0ms) << "25 ms are within the band";
    path.round({120ms});
    path.trips.tolerate();
    EXPECT_EQ(path.trips.tolerated(), 40ms);
    path.round({100ms});
    path.trips.tolerate();
    EXPECT_EQ(path.trips.tolerated(), 40ms) << "a shorter delay does not lower it";
    path.round({5s});
    path.trips.tolerate();
    EXPECT_EQ(path.trips.tolerated(), 100ms);
    path.trips.tolerate();
    EXPECT_EQ(path.trips.tolerated(), 100ms);
}

TEST(RoundTrips, ToleratesAStandingDelay) {
    Rounds path;
    path.round({50ms});
    path.rounds(8, 80ms);
    ASSERT_EQ(path.trips.standing(), 30ms);
    path.trips.tolerate();
    EXPECT_EQ(path.trips.tolerated(), 22'500us) << "a standing delay counts also within the band";
}

TEST(RoundTrips, RoundWithoutSamplesHasNoEffect) {
    Rounds path;
    path.round({50ms, 130ms});
    path.rounds(8, 90ms);
    const Duration spread = path.trips.spread();
    const auto expect_unchanged = [&] {
        EXPECT_EQ(path.trips.floor(), 50ms);
        EXPECT_EQ(path.trips.queue(), 40ms);
        EXPECT_EQ(path.trips.standing(), 40ms);
        EXPECT_EQ(path.trips.spread(), spread);
        EXPECT_EQ(path.trips.recent(), 90ms);
    };
    expect_unchanged();
    for (int i = 0; i < 300; ++i) path.round({});  // 30 s
    expect_unchanged();
    path.trips.accept(90ms);
    for (int i = 0; i < 20; ++i) path.round({});
    EXPECT_EQ(path.trips.floor(), 90ms);
}

}  // namespace
}  // namespace shoal::net::impl
