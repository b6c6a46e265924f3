#include "replication/receive/server_clock.h"

#include <gtest/gtest.h>

#include <random>

namespace shoal::replication::impl::server_clock_test {
namespace {

using namespace std::chrono_literals;

/// Ticks of 20 ms; tick n begins at 100 s + n * 20 ms. A frame hears at most one tick.
struct Heard {
    void hear(Tick tick, net::Duration late = 0ms) { hear_at(tick, 100s + tick * 20ms + late); }
    void hear_at(Tick tick, net::Time at) {
        clock.hear(first + tick, at);
        clock.take(at);
    }
    void until(Tick end, net::Duration late = 0ms) {
        for (; next < end; ++next) hear(next, late);
    }
    /// By how many ticks the clock is ahead of the true position.
    double error(Tick at = 10'000) const {
        return clock.position(100s + at * 20ms) - static_cast<double>(at);
    }
    const Tick first = 0xffff'ff90;
    ServerClock clock{20ms};
    Tick next = 0;
};

TEST(ServerClock, TakesTheLeastLateState) {
    std::mt19937 random(1);
    Heard heard;
    heard.hear(0);
    for (Tick tick = 1; tick < 200; ++tick) {
        heard.hear(tick, std::chrono::milliseconds(tick % 5 == 0 ? 0 : random() % 30));
        EXPECT_NEAR(heard.error(), 0, 0.01) << tick;
    }
    EXPECT_EQ(heard.clock.wrapped(0x80), heard.first + 0x80);
    EXPECT_EQ(heard.clock.unwrapped(0x10), 0x80);
}

TEST(ServerClock, FollowsAPathThatBecomesLongerWithinHalfASecond) {
    Heard heard;
    heard.until(200);
    heard.until(214, 100ms);
    EXPECT_NEAR(heard.error(), 0, 0.01);
    heard.until(235, 100ms);
    EXPECT_NEAR(heard.error(), -5, 0.01);
    EXPECT_NEAR(heard.clock.schedule(200s), 5'000, 0.01) << "the server has not stopped";
    heard.until(236, 0ms);
    EXPECT_NEAR(heard.error(), 0, 0.01) << "a shorter path is noticed at once";
    // By less than a tick, or with few states: within two seconds.
    heard.until(320, 10ms);
    EXPECT_NEAR(heard.error(), 0, 0.01);
    heard.until(350, 10ms);
    EXPECT_NEAR(heard.error(), -0.5, 0.01);
}

TEST(ServerClock, AQueueOfLateStatesSaysNothing) {
    Heard heard;
    heard.until(200);
    for (Tick tick = 200; tick < 260; ++tick) heard.clock.hear(heard.first + tick, 100s + 260 * 20ms);
    heard.clock.take(100s + 260 * 20ms);
    EXPECT_NEAR(heard.error(), 0, 0.01);
    EXPECT_FALSE(heard.clock.is_settling(100s + 260 * 20ms));
}

TEST(ServerClock, AServerThatStoppedSetsTheScheduleBack) {
    for (const net::Duration stop : {250ms, 350ms, 3'000ms, 60'000ms}) {
        Heard heard;
        heard.until(200);
        net::Time now = 100s + 200 * 20ms;
        for (const net::Time end = now + stop - 10ms; now < end; now += 10ms) heard.clock.take(now);
        heard.until(210, stop);
        const double stood = stop > 300ms ? static_cast<double>(stop / 1ms) / 20 : 0;
        EXPECT_NEAR(heard.clock.schedule(200s), 5'000 - stood, 0.01);
        EXPECT_NEAR(heard.error(), -stood, 0.01);
        EXPECT_EQ(heard.clock.is_settling(heard.clock.heard()), stood > 0);
        if (stood == 0) continue;
        heard.until(230, 40ms);  // it makes up for the ticks
        EXPECT_NEAR(heard.clock.schedule(200s), 5'000 - 2, 0.01);
        EXPECT_NEAR(heard.error(), -2, 0.01);
    }
}

// Goal: after a pause of the client, the newest state may be old, because a server sends less and less to a
// silent client. If it is as old as the pause, the server stopped, too: a computer slept.
TEST(ServerClock, APauseOfTheClientIsNoStopOfTheServer) {
    for (const Tick newest : {200u, 240u, 440u}) {
        Heard heard;
        heard.until(200);
        heard.clock.take(100s + 200 * 20ms);
        heard.hear_at(newest, 105s + 200 * 20ms - 20ms);
        EXPECT_NEAR(heard.error(), newest == 200 ? -249 : 0, 0.01) << newest;
    }
}

TEST(ServerClock, OneStateThatIsVeryLateIsNoStop) {
    Heard heard;
    heard.until(200);
    heard.hear(170, 600ms + 10ms);
    heard.until(201);
    EXPECT_NEAR(heard.error(), 0, 0.01);
}

TEST(ServerClock, FollowsAServerThatIsALittleTooSlow) {
    for (const double rate : {0.95, 0.9}) {
        Heard heard;
        net::Time now = 100s;
        for (Tick tick = 0; tick < 1'000; ++tick, now += net::Duration(std::lround(20'000 / rate))) {
            heard.hear_at(tick, now);
            EXPECT_LT(heard.clock.position(now) - tick, 5.5) << "100 ms";
        }
    }
}

TEST(ServerClock, ALongerPathIsNotForgottenInAPause) {
    Heard heard;
    heard.until(200);
    heard.until(235, 100ms);
    heard.hear(255, 100ms);
    EXPECT_NEAR(heard.error(), -5, 0.01);
}

TEST(ServerClock, TicksCanWrapManyTimes) {
    ServerClock clock(20ms);
    const std::int64_t step = std::int64_t{1} << 30;
    for (std::int64_t ticks = 0; ticks <= 9 * step; ticks += step) {
        clock.hear(7 + static_cast<Tick>(ticks), ticks * 20ms);
        EXPECT_EQ(clock.unwrapped(7 + static_cast<Tick>(ticks)), ticks);
        EXPECT_EQ(clock.unwrapped(6 + static_cast<Tick>(ticks)), ticks - 1);
        EXPECT_EQ(clock.wrapped(ticks), 7 + static_cast<Tick>(ticks));
    }
}

}  // namespace
}  // namespace shoal::replication::impl::server_clock_test
