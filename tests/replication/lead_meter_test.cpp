#include "replication/predict/lead_meter.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <tuple>

#include "replication/predict/input_clock.h"

namespace shoal::replication::lead_meter_test {
namespace {

using namespace std::chrono_literals;

constexpr net::Duration kTick = 16'667us;

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
        steered.meter.follow(++steered.number, ++steered.received, ++steered.tick);
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

/// A client that sends one input in each packet. The test decides how early the packets arrive.
struct Measured {
    /// Returns the shift that the meter asks for after a packet.
    std::optional<net::Duration> packet(net::Duration margin, net::Duration gap = 20ms) {
        now += gap;
        ++number;
        meter.add(number, number, static_cast<Tick>(number), margin, parity, now);
        return meter.take_shift(now);
    }
    void expect_nothing(int packets, net::Duration margin) {
        for (int i = 0; i < packets; ++i) EXPECT_EQ(packet(margin), std::nullopt) << i;
    }

    LeadMeter meter{20ms};
    net::Time now{100s};
    std::uint64_t number = 0;
    bool parity = false;
};

TEST(LeadMeter, FourLatePacketsInARowAskForALargerLeadAtOnce) {
    Measured measured;
    measured.expect_nothing(10, 50ms);
    measured.expect_nothing(3, -30ms);
    EXPECT_EQ(measured.packet(-30ms), 70ms) << "so that they are two ticks early";
    measured.expect_nothing(5, -30ms);  // until the client has done that
    measured.parity = true;
    measured.expect_nothing(1, 40ms);
    measured.expect_nothing(3, -30ms);
    EXPECT_EQ(measured.packet(-30ms), 70ms) << "the path became longer once more";
}

TEST(LeadMeter, APathThatBecameLongerByMoreThanATickIsNoticedAfterHalfASecond) {
    Measured measured;
    measured.expect_nothing(3, -30ms);
    EXPECT_EQ(measured.packet(-30ms), 70ms);
    measured.parity = true;
    measured.expect_nothing(34, 40ms);
    measured.expect_nothing(25, 3ms);
    EXPECT_EQ(measured.packet(3ms), 7ms);
}

TEST(LeadMeter, FewPacketsThatAreInTimeAskForNothing) {
    Measured measured;
    measured.expect_nothing(31, 100ms);
    EXPECT_EQ(measured.packet(100ms), -90ms) << "half a tick is enough on a path without jitter";
}

TEST(LeadMeter, EachInputThatWasLateInTheLastTenSecondsAddsHalfATickUpToSixteen) {
    for (const auto& [late, gap, shift] : {std::tuple(0, 320ms, 0ms), std::tuple(5, 320ms, 35ms),
                                           std::tuple(5, 330ms, 0ms), std::tuple(40, 320ms, 145ms)}) {
        SCOPED_TRACE(testing::Message() << late << " late, a packet in " << gap.count() << " ms");
        Measured measured;
        for (int i = 0; i < late; ++i) measured.meter.note_late(measured.now);
        for (int i = 0; i < 31; ++i) EXPECT_EQ(measured.packet(25ms, gap), std::nullopt);
        const std::optional<net::Duration> asked = measured.packet(25ms);
        EXPECT_EQ(asked.value_or(0ms), shift);
    }
}

TEST(LeadMeter, AShiftIsAtMostASecond) {
    Measured late, early;
    late.expect_nothing(3, -5s);
    EXPECT_EQ(late.packet(-5s), 1s);
    early.expect_nothing(31, 5s);
    EXPECT_EQ(early.packet(5s), -1s);
}

TEST(LeadMeter, APacketIsForgottenAfter256Others) {
    Measured measured;
    measured.expect_nothing(256, 14ms);
    EXPECT_EQ(measured.packet(-10ms), 6ms) << "the next packet must repeat the input in time";
    measured.parity = true;
    measured.expect_nothing(300, 20ms);
    measured.expect_nothing(300, 14ms);
}

}  // namespace
}  // namespace shoal::replication::lead_meter_test
