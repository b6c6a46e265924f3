#include "replication/predict/input_clock.h"

#include <gtest/gtest.h>

#include <random>

namespace shoal::replication::all::input_clock_test {
namespace {

using namespace std::chrono_literals;

constexpr net::Duration kTick = 16'667us;

/// A clock that hears each tick of a server at once.
struct Clock {
    InputClock::Advance step(net::Duration frame, net::Duration rtt_var = 5ms) {
        now += frame;
        for (; (heard + 1) * kTick <= now; ++heard) clock.hear(heard + 1, (heard + 1) * kTick);
        return clock.advance(now, 40ms, rtt_var);
    }
    InputClock clock{kTick};
    net::Time now{0};
    Tick heard = 0;
};

TEST(InputClock, SkipsTicksIfMoreThan64BeginAtOnce) {
    InputClock clock(1us);  // a hostile server says so
    clock.hear(5, 1s);
    EXPECT_EQ(clock.advance(1s, 40ms, 5ms).count, 1u);
    EXPECT_EQ(clock.advance(1s + 64us, 40ms, 5ms).count, 64u);
    const InputClock::Advance skipped = clock.advance(1s + 64us + 65us, 40ms, 5ms);
    EXPECT_EQ(skipped.count, 1u);
    EXPECT_TRUE(skipped.has_jumped);
    EXPECT_EQ(skipped.first, clock.tick());
}

TEST(InputClock, StartsAheadByTheRoundTripAndItsVariationAndTwoTicks) {
    Clock clock;
    const InputClock::Advance start = clock.step(20ms, 2ms);
    EXPECT_TRUE(start.has_jumped);
    EXPECT_EQ(start.count, 1u);
    EXPECT_EQ(start.first, 6u) << "1.2 + 48 / 16.7 + 2";
    EXPECT_NEAR(Timeline::ms(clock.clock.lead(clock.now)), 48 + 2 * 16.667, 0.1);
}

// Goal: the variation before there are samples of it does not make the lead a multiple of the round trip.
TEST(InputClock, StartsAheadByAtMostAQuarterOfTheRoundTripForItsVariation) {
    Clock clock;
    clock.step(20ms, 20ms);
    EXPECT_NEAR(Timeline::ms(clock.clock.lead(clock.now)), 50 + 2 * 16.667, 0.1);
}

TEST(InputClock, TheFirstShiftIsDoneAtOnceButNeverGoesBack) {
    for (const net::Duration shift : {60ms, -60ms}) {
        Clock clock;
        clock.step(20ms);
        const double before = Timeline::ms(clock.clock.lead(clock.now));
        clock.clock.shift(shift);
        for (int frame = 0; frame < 6; ++frame) {
            const Tick tick = clock.clock.tick();
            clock.step(10ms);
            EXPECT_FALSE(is_newer(tick, clock.clock.tick()));
            EXPECT_TRUE(clock.clock.shift_parity() || shift < 0ms);
        }
        clock.step(10ms);
        EXPECT_TRUE(clock.clock.shift_parity());
        EXPECT_NEAR(Timeline::ms(clock.clock.lead(clock.now)) - before, Timeline::ms(shift), 0.2);
    }
}

TEST(InputClock, EachTickBeginsOnce) {
    Clock clock;
    Tick next = clock.step(20ms).first + 1;
    std::mt19937 random(2);
    for (int frame = 0; frame < 1'000; ++frame) {
        const InputClock::Advance advance = clock.step(std::chrono::milliseconds(1 + random() % 60));
        EXPECT_FALSE(advance.has_jumped);
        EXPECT_TRUE(advance.count == 0 || advance.first == next);
        next += advance.count;
        EXPECT_EQ(clock.clock.tick(), next - 1);
        EXPECT_GE(clock.clock.fraction(), 0);
        EXPECT_LT(clock.clock.fraction(), 1);
    }
}

TEST(InputClock, AShiftChangesTheRateWithinItsLimits) {
    for (const auto shift : {50ms, -50ms}) {
        Clock clock;
        clock.step(20ms);
        clock.clock.shift(0ms);
        clock.step(10ms);
        ASSERT_TRUE(clock.clock.shift_parity()) << "the first shift is over";
        const double before = Timeline::ms(clock.clock.lead(clock.now));
        clock.clock.shift(shift);
        double last = before;
        int frames = 0;
        for (; clock.clock.shift_parity(); ++frames) {
            clock.step(10ms);
            const double lead = Timeline::ms(clock.clock.lead(clock.now));
            EXPECT_LE(lead - last, 0.802);
            EXPECT_GE(lead - last, -0.302);
            last = lead;
            ASSERT_LT(frames, 1'000);
        }
        EXPECT_NEAR(last - before, Timeline::ms(shift), 0.2);
    }
}

TEST(InputClock, Trap09ALargeShiftForwardIsDoneAtOnceAndNoneGoesBack) {
    Clock clock;
    clock.step(20ms);
    const Tick before = clock.clock.tick();
    clock.clock.shift(150ms);
    const InputClock::Advance jump = clock.step(10ms);
    EXPECT_EQ(jump.first, before + 1) << "no tick is left out";
    EXPECT_NEAR(jump.count, 10, 1);
    EXPECT_TRUE(clock.clock.shift_parity());
    clock.clock.shift(-400ms);
    Tick last = clock.clock.tick();
    for (int frame = 0; frame < 1'000; ++frame) {
        clock.step(10ms);
        EXPECT_GE(static_cast<std::int32_t>(clock.clock.tick() - last), 0);
        last = clock.clock.tick();
    }
    EXPECT_FALSE(clock.clock.shift_parity());
}

TEST(InputClock, Trap08AfterAPauseTheClockIsSetOnceAndOneTickBegins) {
    Clock clock;
    clock.step(20ms);
    const double lead = Timeline::ms(clock.clock.lead(clock.now));
    const InputClock::Advance set = clock.step(10s);
    EXPECT_TRUE(set.has_jumped);
    EXPECT_EQ(set.count, 1u);
    EXPECT_NEAR(Timeline::ms(clock.clock.lead(clock.now)), lead, 0.1);
    const InputClock::Advance next = clock.step(kTick);
    EXPECT_FALSE(next.has_jumped);
    EXPECT_EQ(next.first, set.first + 1);
}

/// A clock whose first shift is over. A frame takes 10 ms.
struct Settled : Clock {
    Settled() {
        step(20ms);
        clock.shift(0ms);
        step(10ms);
        EXPECT_TRUE(clock.shift_parity());
    }
    double lead_ms() const { return Timeline::ms(clock.lead(now)); }
};

TEST(InputClock, AShiftForwardByMoreThan100MsIsDoneAtOnceAlsoLater) {
    for (const net::Duration shift : {100ms, 101ms}) {
        Settled settled;
        const double before = settled.lead_ms();
        settled.clock.shift(shift);
        settled.step(10ms);
        EXPECT_EQ(settled.clock.shift_parity(), shift == 100ms);
        EXPECT_NEAR(settled.lead_ms() - before, shift == 100ms ? 0.8 : 101, 0.1);
    }
}

TEST(InputClock, AShiftBackByMoreThan250MsStopsTheClock) {
    for (const net::Duration shift : {-250ms, -255ms}) {
        Settled settled;
        const double before = settled.lead_ms();
        settled.clock.shift(shift);
        settled.step(4ms);
        EXPECT_NEAR(settled.lead_ms() - before, shift == -250ms ? -0.12 : -4, 0.05);
        settled.step(4ms);
        settled.step(4ms);
        EXPECT_NEAR(settled.lead_ms() - before, shift == -250ms ? -0.36 : -8.12, 0.05)
            << "until 250 ms are left";
    }
}

TEST(InputClock, AShiftReplacesTheRestOfTheLastOne) {
    Settled settled;
    const double before = settled.lead_ms();
    settled.clock.shift(80ms);
    for (int i = 0; i < 10; ++i) settled.step(10ms);
    const double done = settled.lead_ms() - before;
    EXPECT_GT(done, 5);
    EXPECT_TRUE(settled.clock.shift_parity());
    settled.clock.shift(-5ms);
    for (int i = 0; i < 200; ++i) settled.step(10ms);
    EXPECT_FALSE(settled.clock.shift_parity()) << "one shift was finished";
    EXPECT_NEAR(settled.lead_ms() - before, done - 5, 0.2);
}

TEST(InputClock, AFrameOf250MsIsNoPause) {
    for (const net::Duration frame : {250ms, 251ms}) {
        Settled settled;
        const Tick before = settled.clock.tick();
        const InputClock::Advance advance = settled.step(frame);
        EXPECT_EQ(advance.has_jumped, frame == 251ms);
        EXPECT_EQ(advance.first, frame == 250ms ? before + 1 : settled.clock.tick());
    }
}

}  // namespace
}  // namespace shoal::replication::all::input_clock_test
