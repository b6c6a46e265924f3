#include "replication/predict/lead_meter.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>
#include <utility>

namespace shoal::replication::all::lead_meter_test {
namespace {

using namespace std::chrono_literals;

/// A client that sends an input in each tick of 16.667 ms, on a path with jitter. It takes the wanted lead at
/// once.
struct Steered {
    explicit Steered(std::uint32_t seed) : random(seed) {}
    double uniform(double to) { return std::uniform_real_distribution<>(0, to)(random); }
    /// Sends `count` packets. Returns how many inputs were late, redundancy included. Of `every` packets one
    /// is reported.
    int run(int count, double jitter, double loss, int every = 1) {
        int late = 0;
        for (int i = 0; i < count; ++i) {
            now += 16'667us;
            if (uniform(1) < loss) {
                lost_in_a_row += 1;
            } else {
                const double need = path + uniform(jitter);
                bool is_late = false;
                for (int back = 0; back <= std::exchange(lost_in_a_row, 0); ++back) {
                    is_late = is_late || need + back > lead;
                    late += need + back > lead;
                }
                if (i % every == 0) meter.add(need, lead, now);
                if (is_late) meter.note_late(lead, now);
            }
            lead = meter.wanted(loss, 1, now).value_or(lead);
        }
        return late;
    }
    LeadMeter meter{16'667us};
    std::mt19937 random;
    net::Time now{1s};
    double path = 5, lead = 10;  // in ticks
    int lost_in_a_row = 0;
};

TEST(LeadMeter, APathWithoutJitterNeedsHalfATickMore) {
    Steered steered(1);
    steered.run(600, 0.01, 0);
    EXPECT_NEAR(steered.lead, 5.5, 0.2);
    EXPECT_EQ(steered.run(6'000, 0.01, 0), 0);
}

TEST(LeadMeter, JitterAndLossAreCoveredByTheLeadAndRepetition) {
    for (const int every : {1, 3}) {
        Steered steered(2);
        steered.run(2'000, 2, 0.05, every);
        EXPECT_LT(steered.lead, 5 + 4.5);
        EXPECT_LE(steered.run(100'000, 2, 0.05, every), 10) << "at most 1 in 10,000";
    }
}

TEST(LeadMeter, ALongerPathIsNoticedAfterAFewPackets) {
    for (const double longer : {1.0, 15.0}) {
        Steered steered(3);
        steered.run(1'000, 0.5, 0);
        steered.path += longer;
        EXPECT_LE(steered.run(60, 0.5, 0), 8);
        EXPECT_LT(steered.lead, steered.path + 4)
            << "late inputs of the change do not raise the lead for long";
    }
}

TEST(LeadMeter, AFirstLeadThatIsMuchTooSmallIsNoticedAfterAFewPackets) {
    Steered steered(3);
    steered.lead = 1;
    EXPECT_LE(steered.run(60, 0.5, 0), 5);
}

// Goal: a first lead with which half of the inputs are late is corrected as soon as four are, and these do
// not raise the lead that the measured path needs.
TEST(LeadMeter, AFirstLeadThatIsALittleTooSmallIsNoticedToo) {
    Steered steered(3);
    steered.lead = 7;
    EXPECT_LE(steered.run(30, 4, 0), 6);
    steered.run(100, 4, 0);
    EXPECT_LT(steered.lead, 5 + 4 + 1);
}

TEST(LeadMeter, AShorterPathNeedsLessAfterSomeSeconds) {
    Steered steered(4);
    steered.run(1'000, 0.5, 0);
    steered.path = 1;
    steered.run(500, 0.5, 0);
    EXPECT_LT(steered.lead, 4);
}

/// Packets every 20 ms; the test decides about their needs.
struct Measured {
    std::optional<double> add(int packets, double need, net::Duration gap = 20ms) {
        std::optional<double> wanted;
        for (int i = 0; i < packets; ++i) {
            now += gap;
            meter.add(need, 5, now);
            wanted = meter.wanted(loss, per_packet, now);
        }
        return wanted;
    }
    LeadMeter meter{20ms};
    net::Time now{100s};
    double loss = 0, per_packet = 1;
};

TEST(LeadMeter, FewPacketsThatAreInTimeSayNothing) {
    Measured measured;
    EXPECT_EQ(measured.add(31, 1), std::nullopt);
    EXPECT_EQ(measured.add(1, 1), 1.5);
}

TEST(LeadMeter, EachLateInputOfTheLastTenSecondsAddsHalfATickUpToSixteen) {
    for (const auto& [late, per_packet, gap, lead] :
         {std::tuple(0, 1, 300ms, 1.5), std::tuple(5, 1, 300ms, 4.0), std::tuple(5, 2, 300ms, 6.5),
          std::tuple(5, 1, 330ms, 1.5), std::tuple(40, 1, 300ms, 9.5)}) {
        Measured measured;
        measured.per_packet = per_packet;
        measured.add(32, 1);
        for (int i = 0; i < late; ++i) measured.meter.note_late(1, measured.now);
        EXPECT_EQ(measured.add(32, 1, gap), lead) << late << " late";
    }
}

TEST(LeadMeter, InputsThatWereSentWithASmallerLeadDoNotCountAsLate) {
    for (const double sent_with : {0.9, 1.0}) {
        Measured measured;
        ASSERT_EQ(measured.add(40, 1), 1.5);
        for (int i = 0; i < 5; ++i) measured.meter.note_late(sent_with, measured.now);
        EXPECT_EQ(measured.add(20, 1), sent_with == 1.0 ? 4.0 : 1.5);
    }
}

TEST(LeadMeter, ItIsRaisedByAQuarterOfATickOrMoreAndReducedByATickAfterTwoSeconds) {
    for (const auto& [need, lead] : {std::pair(1.7, 1.5), std::pair(1.8, 1.875)}) {
        Measured measured;
        ASSERT_EQ(measured.add(32, 1), 1.5);
        for (int i = 0; i < 20; ++i) {
            measured.add(1, need);
            EXPECT_EQ(measured.add(1, 1), i < 9 ? measured.meter.wanted(0, 1, measured.now) : lead) << need;
        }
    }
    Measured measured;
    ASSERT_EQ(measured.add(4, 20), 22);
    EXPECT_EQ(measured.add(90, 1), 22);
    EXPECT_EQ(measured.add(20, 1), 1.5);
}

TEST(LeadMeter, ALostPacketIsCoveredByTheNextOnes) {
    for (const auto& [loss, per_packet, lead] :
         {std::tuple(0.0, 1.0, 1.5), std::tuple(0.05, 1.0, 4.0), std::tuple(0.05, 2.0, 7.0),
          std::tuple(0.5, 1.0, 14.0), std::tuple(0.9, 1.0, 14.0)}) {
        Measured measured;
        measured.loss = loss;
        measured.per_packet = per_packet;
        EXPECT_EQ(measured.add(32, 1), lead) << loss;
    }
}

}  // namespace
}  // namespace shoal::replication::all::lead_meter_test
