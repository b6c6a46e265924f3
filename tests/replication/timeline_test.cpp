#include "replication/show/timeline.h"

#include <gtest/gtest.h>

#include <random>

namespace shoal::replication::all::timeline_test {
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

// The last half second has five tenths. One of them may be without observations.
TEST(Timeline, ALongerPathIsNoticedWithoutObservationsInOneTenthOfASecond) {
    for (const int silent : {0, 1, 2}) {
        SCOPED_TRACE(testing::Message() << silent << " tenths without observations");
        Timeline timeline(20ms);
        for (Tick tick = 0; tick < 200; ++tick) timeline.add(tick, tick * 20ms);
        for (Tick tick = 200; tick < 219; ++tick) {
            const net::Time at = tick * 20ms + 30ms;
            if (at < 4100ms || at >= 4100ms + silent * 100ms) timeline.add(tick, at);
        }
        EXPECT_NEAR(timeline.position(6s), 300, 0.1) << "3.98 s was less than half a second ago";
        timeline.add(219, 4410ms);
        EXPECT_NEAR(timeline.position(6s), silent < 2 ? 298.5 : 300, 0.1);
    }
}

TEST(Timeline, FewerThanEightObservationsDoNotReplaceEarlierOnes) {
    for (const int count : {7, 8}) {
        Timeline timeline(20ms);
        for (Tick tick = 0; tick < 200; ++tick) timeline.add(tick, tick * 20ms);
        for (int i = 0; i < count; ++i) {
            const net::Time at = 4500ms + i * 500ms / 8;
            timeline.add(static_cast<Tick>((at - 100ms) / 20ms), at);
        }
        EXPECT_NEAR(timeline.position(6s), count < 8 ? 300 : 295, 1) << count;
    }
}

TEST(Timeline, TheLeastLateObservationIsForgottenAfterTwoSeconds) {
    Timeline timeline(20ms);
    for (Tick tick = 0; tick < 200; ++tick) timeline.add(tick, tick * 20ms);
    Tick tick = 200;
    for (; tick < 295; ++tick) timeline.add(tick, tick * 20ms + 10ms);  // less than a tick later
    EXPECT_NEAR(timeline.position(6s), 300, 0.1);
    for (; tick < 305; ++tick) timeline.add(tick, tick * 20ms + 10ms);
    EXPECT_NEAR(timeline.position(6s), 299.5, 0.1);
}

TEST(Timeline, ObservationsThatComeInAnotherOrderCountByTheirTicks) {
    Timeline timeline(20ms);
    timeline.add(0xffff'fff0, 1s);
    timeline.add(0xffff'fff4, 1s + 90ms);  // late
    timeline.add(0xffff'fff2, 1s + 95ms);
    EXPECT_EQ(timeline.time_of(0xffff'fff0), net::Time(1s));
    EXPECT_EQ(timeline.time_of(0x10), net::Time(1s + 640ms));
    EXPECT_EQ(timeline.unwrapped(0x10), 32);
    EXPECT_EQ(timeline.unwrapped(0xffff'ffef), -1);
}

// Few observations after a pause say nothing: the estimate stays that of the last half second before it.
TEST(Timeline, APathThatBecameLongerIsNotForgottenInAPause) {
    Timeline timeline(20ms);
    Tick tick = 0;
    for (; tick < 200; ++tick) timeline.add(tick, tick * 20ms);
    for (; tick < 235; ++tick) timeline.add(tick, tick * 20ms + 100ms);
    EXPECT_NEAR(timeline.position(6s), 295, 0.1);
    timeline.add(255, 255 * 20ms + 100ms);
    EXPECT_NEAR(timeline.position(6s), 295, 0.1);
}

TEST(Timeline, TicksCanWrapManyTimes) {
    Timeline timeline(20ms);
    const std::int64_t step = std::int64_t{1} << 30;
    for (std::int64_t ticks = 0; ticks <= 9 * step; ticks += step) {
        timeline.add(7 + static_cast<Tick>(ticks), ticks * 20ms);
        EXPECT_EQ(timeline.unwrapped(7 + static_cast<Tick>(ticks)), ticks);
        EXPECT_EQ(timeline.unwrapped(6 + static_cast<Tick>(ticks)), ticks - 1);
        EXPECT_EQ(timeline.wrapped(ticks), 7 + static_cast<Tick>(ticks));
    }
}

TEST(Timeline, TheLeastLateObservationOfATenthOfASecondCounts) {
    Timeline timeline(20ms);
    for (Tick tick = 0; tick < 199; ++tick) {
        timeline.add(tick, tick * 20ms + (tick % 5 == 0 ? 0ms : 15ms));
        EXPECT_NEAR(timeline.position(6s), 300, 0.01) << tick;
    }
}

TEST(Timeline, AnEstimateIsNeverLaterThanTheLeastLateObservationOfHalfASecond) {
    for (const Tick phase : {0u, 1u}) {
        Timeline timeline(20ms);
        Tick tick = 0;
        for (; tick < 200; ++tick) timeline.add(tick, tick * 20ms);
        for (; tick < 240; ++tick) {
            timeline.add(tick, tick * 20ms + ((tick + phase) % 2 == 0 ? 100ms : 110ms));
            EXPECT_GE(timeline.position(6s), 295 - 0.01) << tick;
        }
        EXPECT_NEAR(timeline.position(6s), 295, 0.01);
    }
}

TEST(Timeline, FewObservationsReplaceOthersAfterTwoSecondsToo) {
    Timeline timeline(20ms);
    for (Tick tick = 0; tick < 200; ++tick) timeline.add(tick, tick * 20ms);
    for (Tick tick = 200; tick < 295; tick += 8) timeline.add(tick, tick * 20ms + 10ms);
    EXPECT_NEAR(timeline.position(6s), 300, 0.01);
    for (Tick tick = 296; tick < 320; tick += 8) timeline.add(tick, tick * 20ms + 10ms);
    EXPECT_NEAR(timeline.position(6s), 299.5, 0.01);
}

}  // namespace
}  // namespace shoal::replication::all::timeline_test
