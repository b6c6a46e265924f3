#include "replication/show/timeline.h"

#include <gtest/gtest.h>

#include <random>

namespace shoal::replication::timeline_test {
namespace {

using namespace std::chrono_literals;

constexpr net::Duration kTick = 16'667us;

TEST(Timeline, TakesTheEarliestObservations) {
    std::mt19937 random(1);
    Timeline timeline(kTick);
    const net::Time start = 50s;
    for (Tick tick = 0; tick < 200; ++tick)
        timeline.add(0xffff'ff90 + tick, start + tick * kTick + std::chrono::milliseconds(random() % 30));
    EXPECT_NEAR(Timeline::ms(timeline.time_of(0xffff'ff90 + 250) - (start + 250 * kTick)), 0, 1.5);
    EXPECT_NEAR(timeline.position(start + 300 * kTick), 300, 0.1);
    EXPECT_EQ(timeline.wrapped(0x80), 0x10u);
}

TEST(Timeline, FollowsAPathThatBecomesLongerWithinHalfASecond) {
    Timeline timeline(kTick);
    Tick tick = 0;
    for (; tick < 200; ++tick) timeline.add(tick, tick * kTick);
    for (; tick < 240; ++tick) timeline.add(tick, tick * kTick + 100ms);
    EXPECT_NEAR(timeline.position(300 * kTick), 300 - 6, 0.1);
}

TEST(Timeline, AQueueOfLateObservationsSaysNothing) {
    Timeline timeline(kTick);
    for (Tick tick = 0; tick < 200; ++tick) timeline.add(tick, tick * kTick);
    for (Tick tick = 200; tick < 260; ++tick) timeline.add(tick, 600 * kTick);  // after a pause
    EXPECT_NEAR(timeline.position(601 * kTick), 601, 0.1);
}

}  // namespace
}  // namespace shoal::replication::timeline_test
