#include "replication/predict/input_clock.h"

#include <gtest/gtest.h>

#include <random>

#include "replication/predict/lead_meter.h"

namespace shoal::replication::play_input_clock_test {
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
    EXPECT_TRUE(skipped.is_set);
    EXPECT_EQ(skipped.first, clock.tick());
}

TEST(InputClock, StartsAheadByTheRoundTripAndItsVariationAndTwoTicks) {
    Clock clock;
    const InputClock::Advance start = clock.step(20ms, 2ms);
    EXPECT_TRUE(start.is_set);
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
            EXPECT_TRUE(clock.clock.parity() || shift < 0ms);
        }
        clock.step(10ms);
        EXPECT_TRUE(clock.clock.parity());
        EXPECT_NEAR(Timeline::ms(clock.clock.lead(clock.now)) - before, Timeline::ms(shift), 0.2);
    }
}

TEST(InputClock, EachTickBeginsOnce) {
    Clock clock;
    Tick next = clock.step(20ms).first + 1;
    std::mt19937 random(2);
    for (int frame = 0; frame < 1'000; ++frame) {
        const InputClock::Advance advance = clock.step(std::chrono::milliseconds(1 + random() % 60));
        EXPECT_FALSE(advance.is_set);
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
        ASSERT_TRUE(clock.clock.parity()) << "the first shift is over";
        const double before = Timeline::ms(clock.clock.lead(clock.now));
        clock.clock.shift(shift);
        double last = before;
        int frames = 0;
        for (; clock.clock.parity(); ++frames) {
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
    EXPECT_TRUE(clock.clock.parity());
    clock.clock.shift(-400ms);
    Tick last = clock.clock.tick();
    for (int frame = 0; frame < 1'000; ++frame) {
        clock.step(10ms);
        EXPECT_GE(static_cast<std::int32_t>(clock.clock.tick() - last), 0);
        last = clock.clock.tick();
    }
    EXPECT_FALSE(clock.clock.parity());
}

TEST(InputClock, Trap08AfterAPauseTheClockIsSetOnceAndOneTickBegins) {
    Clock clock;
    clock.step(20ms);
    const double lead = Timeline::ms(clock.clock.lead(clock.now));
    const InputClock::Advance set = clock.step(10s);
    EXPECT_TRUE(set.is_set);
    EXPECT_EQ(set.count, 1u);
    EXPECT_NEAR(Timeline::ms(clock.clock.lead(clock.now)), lead, 0.1);
    const InputClock::Advance next = clock.step(kTick);
    EXPECT_FALSE(next.is_set);
    EXPECT_EQ(next.first, set.first + 1);
}

/// Packets of a client that arrive with jitter at a server; the meter steers the client.
struct Steered {
    explicit Steered(std::uint32_t seed) : random(seed) {}
    /// Sends `count` packets. Returns how many inputs were late, redundancy included.
    int run(int count, double jitter_ms, double loss) {
        int late = 0;
        for (int i = 0; i < count; ++i) {
            const auto loses = [&] { return std::uniform_real_distribution<>(0, 1)(random) < loss; };
            for (int other = 0; other < without_inputs; ++other) {
                ++number;
                received += !loses();
            }
            ++number;
            ++tick;
            now += kTick;
            const bool is_lost = loses();
            const double delay = std::uniform_real_distribution<>(0, jitter_ms)(random);
            if (!is_lost) {
                for (int back = 0; back <= lost_in_a_row; ++back)
                    late += margin_ms - delay - back * 16.667 < 0;
                meter.add(number, ++received, tick, Timeline::from_ms(margin_ms - delay), parity, now);
            }
            lost_in_a_row = is_lost ? lost_in_a_row + 1 : 0;
            if (const auto shift = meter.take_shift(now)) {
                margin_ms += Timeline::ms(*shift);
                parity = !parity;
                ++shifts;
            }
            EXPECT_TRUE(meter.is_consistent());
        }
        return late;
    }
    LeadMeter meter{kTick};
    std::mt19937 random;
    net::Time now{1s};
    std::uint64_t number = 0, received = 0;
    Tick tick = 0;
    int without_inputs = 0;  // packets without inputs that the client sends in a tick
    double margin_ms = 100;  // of a packet without delay
    bool parity = false;
    int lost_in_a_row = 0, shifts = 0;
};

TEST(LeadMeter, APathWithoutJitterNeedsLittleLead) {
    Steered steered(1);
    steered.run(600, 0.1, 0);
    EXPECT_GT(steered.margin_ms, 4);
    EXPECT_LT(steered.margin_ms, 30);
    const int shifts = steered.shifts;
    EXPECT_EQ(steered.run(6'000, 0.1, 0), 0);
    EXPECT_LE(steered.shifts - shifts, 2) << "it settles";
}

TEST(LeadMeter, JitterAndLossAreCoveredByMarginAndRepetition) {
    Steered steered(2);
    steered.run(1'000, 30, 0.05);
    EXPECT_GT(steered.margin_ms, 30);
    EXPECT_LT(steered.margin_ms, 100);
    EXPECT_LE(steered.run(100'000, 30, 0.05), 10) << "at most 1 in 10,000";
}

// Goal: a client whose first lead is much too small gets a larger one soon, although some packets are in
// time.
TEST(LeadMeter, ALeadThatIsTooSmallIsMeasuredWithTheLatePackets) {
    int late = 0;
    for (std::uint32_t seed = 1; seed <= 100; ++seed) {
        Steered steered(seed);
        steered.margin_ms = 15;
        late += steered.run(300, 60, 0);
    }
    EXPECT_LE(late, 17 * 100);
}

TEST(LeadMeter, Trap08AClientThatSendsNothingGetsNoShift) {
    Steered steered(1);
    steered.run(600, 10, 0);
    for (int tick = 0; tick < 1'000; ++tick) {
        steered.now += kTick;
        EXPECT_FALSE(steered.meter.take_shift(steered.now));
    }
}

TEST(LeadMeter, Trap07PacketsThatWaitedForTheServerAreNotLost) {
    Steered steered(1);
    steered.run(600, 0.1, 0);
    const double before = steered.margin_ms;
    for (int packet = 0; packet < 60; ++packet) {
        steered.now += kTick;
        steered.meter.skip(++steered.number, ++steered.received, ++steered.tick);
    }
    steered.run(100, 0.1, 0);
    EXPECT_NEAR(steered.margin_ms, before, 1);
}

// Goal: packets that bring no inputs, for example acks alone, are not mistaken for lost ones. Method: the
// lead is compared with that of a client that sends none of them.
TEST(LeadMeter, PacketsWithoutInputsAreNotLost) {
    for (const double loss : {0.0, 0.1}) {
        Steered plain(4), chatty(5);
        chatty.without_inputs = 3;
        plain.run(3'000, 10, loss);
        chatty.run(3'000, 10, loss);
        EXPECT_NEAR(chatty.margin_ms, plain.margin_ms, 17) << "loss " << loss;
    }
}

TEST(LeadMeter, ALongerPathIsNoticedAfterAFewPackets) {
    Steered steered(3);
    steered.run(1'000, 10, 0);
    steered.margin_ms -= 150;
    const int shifts = steered.shifts;
    EXPECT_LE(steered.run(60, 10, 0), 8);
    EXPECT_GT(steered.shifts, shifts);
    EXPECT_LT(steered.margin_ms, 80) << "late inputs of the change do not raise the lead for long";
}

}  // namespace
}  // namespace shoal::replication::play_input_clock_test
