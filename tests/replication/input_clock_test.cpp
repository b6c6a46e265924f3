#include "replication/predict/input_clock.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace shoal::replication::all::input_clock_test {
namespace {

using namespace std::chrono_literals;

constexpr net::Duration kTick = 16'667us;

/// A clock that hears each tick of a server at once.
struct Clock {
    InputClock::Advance step(net::Duration frame, net::Duration rtt_var = 5ms) {
        now += frame;
        for (; is_served && (heard + 1) * kTick <= now; ++heard) server.hear(heard + 1, now);
        if (!is_served) heard = static_cast<Tick>(now / kTick);
        server.take(now);
        return clock.advance(server, lead, now, rtt, rtt_var);
    }
    /// Runs until the server's clock has settled, with this lead.
    void settle(double with) {
        lead = with;
        for (int i = 0; i < 120; ++i) step(10ms);
        ASSERT_NEAR(ahead(), with, 0.01);
    }
    double ahead() const { return clock.position() - server.schedule(now); }

    ServerClock server{kTick};
    InputClock clock;
    std::optional<double> lead;
    bool is_served = true;
    net::Time now{0};
    net::Duration rtt = 40ms;
    Tick heard = 0;
};

TEST(InputClock, StartsAheadByTheRoundTripAndItsVariationAndTwoTicks) {
    // Before there are samples of the variation, it counts for a quarter of the round trip at most.
    for (const auto& [rtt_var, ms] : {std::pair(2ms, 48), std::pair(20ms, 50)}) {
        Clock clock;
        const InputClock::Advance start = clock.step(20ms, rtt_var);
        EXPECT_TRUE(start.has_jumped);
        EXPECT_EQ(start.count, 1u);
        EXPECT_EQ(start.first, clock.server.wrapped(clock.clock.tick()));
        EXPECT_NEAR(clock.ahead(), ms / 16.667 + 2, 0.01);
    }
}

// The first measured round trip may contain the wait for a lost packet.
TEST(InputClock, UntilTheLeadIsKnownItFallsWithTheMeasuredRoundTrip) {
    for (const net::Duration first : {200ms, 500ms}) {
        Clock clock;
        clock.rtt = first;
        clock.step(20ms);
        clock.rtt = 100ms;
        for (int i = 0; i < 60; ++i) clock.step(10ms);
        EXPECT_NEAR(clock.ahead(), 120 / 16.667 + 2, 0.01);
    }
}

TEST(InputClock, EachTickBeginsOnce) {
    Clock clock;
    Tick next = clock.step(20ms).first + 1;
    std::mt19937 random(2);
    for (int frame = 0; frame < 1'000; ++frame) {
        if (frame % 40 == 0) clock.lead = 4 + random() % 4;
        const InputClock::Advance advance = clock.step(std::chrono::milliseconds(1 + random() % 60));
        EXPECT_FALSE(advance.has_jumped);
        EXPECT_TRUE(advance.count == 0 || advance.first == next);
        next += advance.count;
        EXPECT_EQ(clock.server.wrapped(clock.clock.tick()), next - 1);
        EXPECT_EQ(clock.clock.tick(), std::floor(clock.clock.position()));
    }
}

TEST(InputClock, AnotherLeadChangesTheRateWithinItsLimits) {
    for (const double change : {5.0, -5.0}) {  // ticks
        Clock clock;
        clock.settle(10);
        clock.lead = 10 + change;
        int frames = 0;
        for (double last = 10; std::abs(clock.ahead() - *clock.lead) > 0.01; ++frames) {
            clock.step(10ms);
            EXPECT_LE(std::abs(clock.ahead() - last), 0.151 * 10 / 16.667);
            last = clock.ahead();
            ASSERT_LT(frames, 400);
        }
        EXPECT_LT(frames, change > 0 ? 100 : 300) << "if inputs are late, it is faster";
    }
}

TEST(InputClock, IfItIsWrongByMoreThan100MsItIsSetAtOnceOrStands) {
    for (const double change : {7.0, -7.0, 20.0, -20.0}) {  // 117 to 333 ms
        Clock clock;
        clock.settle(25);
        const Tick before = clock.server.wrapped(clock.clock.tick());
        clock.lead = 25 + change;
        const InputClock::Advance advance = clock.step(10ms);
        if (change > 0) {
            EXPECT_FALSE(advance.has_jumped);
            EXPECT_EQ(advance.first, before + 1) << "no tick is left out";
            EXPECT_NEAR(advance.count, change + 0.6, 1);
            EXPECT_NEAR(clock.ahead(), *clock.lead, 0.01);
        } else {
            EXPECT_EQ(advance.count, 0u);
            EXPECT_NEAR(clock.ahead(), 25 - 0.6, 0.01);
            for (int i = 0; i < 300; ++i) clock.step(10ms);
            EXPECT_NEAR(clock.ahead(), *clock.lead, 0.01);
        }
    }
}

TEST(InputClock, TicksOfMoreThanHalfASecondAreSkipped) {
    for (const double change : {28.0, 31.0}) {
        Clock clock;
        clock.settle(10);
        clock.lead = 10 + change;
        const InputClock::Advance advance = clock.step(1ms);
        EXPECT_EQ(advance.has_jumped, change > 30);
        EXPECT_EQ(advance.first + advance.count - 1, clock.server.wrapped(clock.clock.tick()));
        EXPECT_EQ(advance.count == 1, change > 30);
    }
    InputClock clock;
    ServerClock server(1us);  // a hostile server says so
    server.hear(5, 1s);
    EXPECT_EQ(clock.advance(server, {}, 1s, 40ms, 5ms).count, 1u);
    EXPECT_LE(clock.advance(server, {}, 1s + 32us, 40ms, 5ms).count, 32u);
    EXPECT_EQ(clock.advance(server, {}, 1s + 2'000us, 40ms, 5ms).count, 1u);
}

TEST(InputClock, Trap08AfterAPauseTheClockIsSetOnceAndOneTickBegins) {
    for (const net::Duration frame : {250ms, 251ms, 10'000ms}) {
        Clock clock;
        clock.settle(5);
        const InputClock::Advance set = clock.step(frame);
        EXPECT_EQ(set.has_jumped, frame > 250ms);
        EXPECT_EQ(set.count == 1, frame > 250ms);
        EXPECT_NEAR(clock.ahead(), 5, 0.01);
        EXPECT_FALSE(clock.step(kTick).has_jumped);
    }
}

TEST(InputClock, StandsAfter250MsOrFourTicksWithoutState) {
    Clock clock;
    clock.settle(5);
    clock.is_served = false;
    double before = 0;
    for (int ms = 10; ms <= 1'000; ms += 10) {
        clock.step(10ms);
        if (ms == 300) before = clock.clock.position();
        EXPECT_TRUE(ms < 300 || clock.clock.position() == before) << ms;
        EXPECT_TRUE(ms >= 230 || std::abs(clock.ahead() - 5) < 0.01) << ms;
    }
    clock.is_served = true;
    EXPECT_TRUE(clock.step(10ms).has_jumped) << "the server has not stopped";
    EXPECT_NEAR(clock.ahead(), 5, 0.1);
}

}  // namespace
}  // namespace shoal::replication::all::input_clock_test
