#include "replication/predict/lead_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "replication/predict/input_clock.h"

namespace shoal::replication::all::lead_meter_test {
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
    measured.expect_nothing(200, -30ms);  // until the client has done that, too
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

TEST(LeadMeter, OfAFullMeterTheLastLatePacketsAreKept) {
    Measured measured;
    measured.expect_nothing(300, 14ms);
    EXPECT_EQ(measured.packet(-10ms), 6ms);
    measured.parity = true;
    measured.expect_nothing(1, 20ms);
    measured.expect_nothing(3, -30ms);
    EXPECT_EQ(measured.packet(-30ms), 50ms) << "so that they are a tick early";
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

/// The meter as its header describes it, computed from all samples anew each time.
struct NaiveMeter {
    struct Sample {
        double margin_ms;
        net::Time at;
        std::uint64_t number, received;
    };
    static constexpr double kTickMs = 16.667;

    void follow(std::uint64_t number, std::uint64_t received, Tick newest) {
        if (number <= last.number) return;
        const bool lost_none = last.number != 0 && number - last.number <= received - last.received;
        const Tick ticks = newest - newest_tick;
        if (lost_none && ticks * kTickMs <= 250) {
            ticks_per_packet = std::clamp<Tick>(ticks, 1, 8);
            mean_ticks += (ticks_per_packet - mean_ticks) / 16;
        }
        last.number = number;
        last.received = received;
        newest_tick = newest;
    }
    void add(std::uint64_t number, std::uint64_t received, Tick newest, net::Duration margin, bool now_parity,
             net::Time now) {
        if (now_parity != parity) {
            for (Sample& sample : samples) sample.margin_ms += asked_ms.value_or(0);
            asked_ms.reset();
            parity = now_parity;
        }
        follow(number, received, newest);
        const double margin_ms = Timeline::ms(margin) - (ticks_per_packet - 1) * kTickMs;
        late_in_a_row = margin_ms < 0 ? late_in_a_row + 1 : 0;
        if (late_in_a_row == 4) {
            const std::size_t kept = asked_ms ? 0 : 3;
            while (samples.size() > kept) samples.pop_front();
            late.clear();
            asked_ms.reset();
            last_shift = net::Time{0};
        }
        if (asked_ms && late_in_a_row < 4) return;
        samples.push_back({margin_ms, now, last.number, received});
        if (samples.size() > 256) samples.pop_front();
    }
    void note_late(net::Time now) {
        if (asked_ms) return;
        late.push_back(now);
        if (late.size() > 16) late.pop_front();
    }
    double greatest(net::Duration span, net::Time now) const {
        double greatest = -1e9;
        for (const Sample& sample : samples)
            if (now - sample.at <= span) greatest = std::max(greatest, sample.margin_ms);
        return greatest;
    }
    double risk(double lead_ms, double margin_ms, double loss) const {
        double all = 1;
        for (double left = lead_ms; all > 1e-4; left -= mean_ticks * kTickMs) {
            if (left < 0) return 1;
            const auto too_late = std::count_if(samples.begin(), samples.end(), [&](const Sample& sample) {
                return sample.margin_ms < margin_ms - left;
            });
            all *= loss + (1 - loss) * static_cast<double>(too_late) / static_cast<double>(samples.size());
        }
        return all;
    }
    std::optional<net::Duration> take_shift(net::Time now) {
        const bool is_urgent = late_in_a_row >= 4;
        if (asked_ms || samples.size() < (is_urgent ? 2u : 32u)) return std::nullopt;
        if ((!is_urgent && now - last_shift < 500ms) || now - samples.back().at > 2s) return std::nullopt;
        double margin = greatest(2s, now);
        const double recent = greatest(500ms, now);
        if (samples.size() >= 4 && now - samples[samples.size() - 4].at <= 500ms && recent < margin - kTickMs)
            margin = recent;
        while (!late.empty() && now - late.front() > 10s) late.pop_front();
        if (samples.size() >= 32) {
            double loss = 0;
            if (const auto numbers = samples.back().number - samples.front().number)
                loss = 1 - static_cast<double>(samples.back().received - samples.front().received) /
                               static_cast<double>(numbers);
            loss = std::clamp(loss, 0.0, 0.5);
            int eighths = 0;
            const auto is_enough = [&] {
                wanted_ms = eighths * (kTickMs / 8);
                return wanted_ms >= 1'000 || risk(wanted_ms, margin, loss) <= 1e-4;
            };
            while (!is_enough()) ++eighths;
        }
        const double wanted =
            std::max(wanted_ms, kTickMs / 2) + kTickMs / 2 * static_cast<double>(late.size());
        const double shift = wanted - margin;
        if (shift <= kTickMs / 4 && (shift >= -kTickMs || now - last_shift <= 2s)) return std::nullopt;
        last_shift = now;
        asked_ms = std::clamp(shift, -1'000.0, 1'000.0);
        return Timeline::from_ms(*asked_ms);
    }

    std::deque<Sample> samples;
    std::deque<net::Time> late;
    Sample last{0, net::Time{0}, 0, 0};
    Tick newest_tick = 0;
    std::uint32_t ticks_per_packet = 1;
    double mean_ticks = 1, wanted_ms = 2 * kTickMs;
    std::size_t late_in_a_row = 0;
    bool parity = false;
    std::optional<double> asked_ms;
    net::Time last_shift{0};
};

// Goal: the meter asks for the same shifts as a simple model. Method: random paths that change, clients with
// frames of other lengths, pauses, packets without inputs, packets that overtake, and clients that take some
// time for a shift or never do it.
TEST(LeadMeter, AsksForTheShiftsOfASimpleModel) {
    for (std::uint32_t seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
        const auto one_in = [&](std::uint32_t n) { return below(n) == 0; };
        LeadMeter meter(kTick);
        NaiveMeter model;
        net::Time now{10s};
        std::uint64_t number = 0, received = 0;
        Tick tick = below(0xffff'ffff);
        double lead_ms = 60, path_ms = 0, jitter_ms = 5, to_shift_ms = 0;
        std::uint32_t frame_ticks = 1, loss_of_100 = 0, shift_in = 0;
        bool parity = false;
        int shifts = 0;
        for (int i = 0; i < 1'500; ++i) {
            if (one_in(300)) path_ms = below(120);
            if (one_in(300)) jitter_ms = 1 + below(60);
            if (one_in(400)) frame_ticks = 1 + below(10);
            if (one_in(300)) loss_of_100 = below(30);
            std::uint32_t passed = one_in(400) ? below(200) : frame_ticks;
            tick += passed;
            now += kTick * static_cast<int>(passed);
            for (std::uint32_t others = below(3); others > 0; --others) {
                ++number;
                received += below(100) >= loss_of_100;
            }
            ++number;
            if (shift_in != 0 && --shift_in == 0) {
                lead_ms += std::exchange(to_shift_ms, 0);
                parity = !parity;
            }
            if (below(100) >= loss_of_100) {
                ++received;
                // A packet that another one has overtaken.
                const std::uint64_t arrived =
                    number - (one_in(20) ? std::min<std::uint64_t>(number - 1, 3) : 0);
                const Tick newest = tick - (arrived == number ? 0 : 2 * frame_ticks);
                const net::Duration margin = Timeline::from_ms(
                    lead_ms - path_ms - static_cast<double>(below(1'000)) / 1'000 * jitter_ms);
                if (one_in(30)) {
                    meter.follow(arrived, received, newest);
                    model.follow(arrived, received, newest);
                } else {
                    meter.add(arrived, received, newest, margin, parity, now);
                    model.add(arrived, received, newest, margin, parity, now);
                }
                if (margin < 0us || one_in(200)) {
                    meter.note_late(now);
                    model.note_late(now);
                }
            }
            const std::optional<net::Duration> shift = meter.take_shift(now),
                                               expected = model.take_shift(now);
            ASSERT_EQ(shift.has_value(), expected.has_value()) << i;
            ASSERT_NEAR(Timeline::ms(shift.value_or(0us)), Timeline::ms(expected.value_or(0us)), 0.01) << i;
            ASSERT_TRUE(meter.is_consistent());
            if (!shift) continue;
            to_shift_ms = Timeline::ms(*shift);
            shift_in = one_in(10) ? 100'000 : 1 + below(30);
            ++shifts;
        }
        EXPECT_GT(shifts, 3);
    }
}

TEST(LeadMeter, APacketThatArrivesAtItsTickIsNotLate) {
    Measured exact, late;
    exact.expect_nothing(10, 0ms);
    late.expect_nothing(3, -1us);
    EXPECT_TRUE(late.packet(-1us));
}

TEST(LeadMeter, AShiftThatIsAtMostAQuarterOfATickOrATickBackIsNotWorthIt) {
    for (const auto& [margin, shift] :
         {std::pair(5ms, 0ms), std::pair(4ms, 6ms), std::pair(30ms, 0ms), std::pair(31ms, -21ms)}) {
        Measured measured;
        measured.expect_nothing(31, margin);
        EXPECT_EQ(measured.packet(margin).value_or(0ms), shift) << margin.count() << " ms";
    }
}

// Goal: a better path is noticed at once: the packet with the greatest margin was delayed least.
TEST(LeadMeter, TheGreatestMarginIsThatOfAPacketThatThePathDidNotDelay) {
    Measured measured;
    measured.expect_nothing(32, 25ms);
    EXPECT_EQ(measured.packet(60ms), -25ms) << "the others, which are delayed by 35 ms, are just in time";
}

TEST(LeadMeter, AfterAShiftTheFormerMarginsCountAsIfTheyHadBeenShifted) {
    Measured measured;
    for (int i = 0; i < 31; ++i) EXPECT_EQ(measured.packet(100ms, 600ms), std::nullopt);
    EXPECT_EQ(measured.packet(100ms, 600ms), -90ms);
    measured.parity = true;
    EXPECT_EQ(measured.packet(10ms, 600ms), std::nullopt);
    measured.meter.note_late(measured.now);
    EXPECT_EQ(measured.packet(10ms, 600ms), 10ms) << "half a tick for the late input";
}

// While the client changes its lead, late inputs say nothing about the path.
TEST(LeadMeter, InputsThatAreLateDuringAShiftDoNotCount) {
    Measured measured;
    measured.expect_nothing(31, 100ms);
    EXPECT_EQ(measured.packet(100ms), -90ms);
    for (int i = 0; i < 5; ++i) measured.meter.note_late(measured.now);
    measured.expect_nothing(200, 100ms);
    measured.parity = true;
    measured.expect_nothing(200, 10ms);
}

TEST(LeadMeter, APathThatBecomesLongerDuringAShiftIsMeasuredAnew) {
    Measured measured;
    measured.expect_nothing(31, 100ms);
    EXPECT_EQ(measured.packet(100ms), -90ms);
    measured.expect_nothing(4, -30ms);
    EXPECT_EQ(measured.packet(-25ms), 35ms) << "of the last two packets, the better one counts";
}

TEST(LeadMeter, OfLatePacketsInARowTheBestOneCounts) {
    Measured measured;
    measured.expect_nothing(10, 50ms);
    measured.expect_nothing(1, -30ms);
    measured.expect_nothing(1, -10ms);
    measured.expect_nothing(1, -30ms);
    EXPECT_EQ(measured.packet(-30ms), 50ms) << "two ticks more than the best one lacks";
}

TEST(LeadMeter, APathThatBecameLongerByATickOrLessIsMeasuredOverTwoSeconds) {
    for (const auto& [margin, shift] : {std::pair(20ms, 0ms), std::pair(19ms, 11ms)}) {
        Measured measured;
        measured.expect_nothing(3, -30ms);
        EXPECT_EQ(measured.packet(-30ms), 70ms);
        measured.parity = true;
        measured.expect_nothing(34, 40ms);
        measured.expect_nothing(25, margin);
        for (int i = 0; i < 2; ++i) measured.meter.note_late(measured.now);
        EXPECT_EQ(measured.packet(margin).value_or(0ms), shift);
    }
}

TEST(LeadMeter, NoShiftIsAskedForIfTheLastPacketIsOlderThanTwoSeconds) {
    for (const auto& [silence, is_asked] : {std::pair(2'000ms, true), std::pair(2'001ms, false)}) {
        LeadMeter meter{20ms};
        for (std::uint64_t i = 1; i <= 32; ++i)
            meter.add(i, i, static_cast<Tick>(i), 100ms, false, net::Time(100s + 20ms * i));
        EXPECT_EQ(meter.take_shift(net::Time(100s + 20ms * 32) + silence).has_value(), is_asked);
    }
}

/// A client whose packets have this many new inputs. Of `every` packets, one arrives.
struct Sparse {
    std::optional<net::Duration> run(int packets, Tick ticks, std::uint64_t every, net::Duration margin) {
        std::optional<net::Duration> asked;
        for (int i = 0; i < packets; ++i) {
            EXPECT_EQ(asked, std::nullopt);
            number += every;
            newest += ticks;
            now += 20ms * ticks;
            meter.add(number, ++received, newest, margin, parity, now);
            asked = meter.take_shift(now);
        }
        return asked;
    }
    LeadMeter meter{20ms};
    net::Time now{100s};
    std::uint64_t number = 0, received = 0;
    Tick newest = 1'000;
    bool parity = false;
};

TEST(LeadMeter, OfTheNewInputsInAPacketTheOldestOneIsMeasured) {
    Sparse one, two, eight, twelve, paused;
    EXPECT_EQ(one.run(32, 1, 1, 300ms), -290ms);
    EXPECT_EQ(two.run(32, 2, 1, 300ms), -280ms) << "of the first packet only one input counts";
    EXPECT_EQ(eight.run(32, 8, 1, 300ms), -150ms) << "the first packet is too old";
    EXPECT_EQ(twelve.run(32, 12, 1, 300ms), -150ms) << "as with eight ticks";
    paused.run(31, 1, 1, 300ms);
    EXPECT_EQ(paused.run(1, 13, 1, 300ms), -290ms) << "260 ms without packets are a pause";
}

// Goal: a packet is lost, so the next one repeats its inputs: these are no new ones of a long frame. The lead
// is such that an input can be repeated until one of its packets arrives.
TEST(LeadMeter, LostPacketsAreRepeatedAndNotMistakenForLongFrames) {
    Sparse half;
    EXPECT_EQ(half.run(32, 2, 2, 100ms), 160ms) << "14 packets, of which each is lost with 1/2";
    half.parity = true;
    EXPECT_EQ(half.run(250, 2, 2, 260ms), std::nullopt);
    // A packet that was overtaken does not change the newest one.
    half.meter.add(half.number - 101, ++half.received, half.newest - 100, 260ms - 2'000ms, true, half.now);
    EXPECT_EQ(half.meter.take_shift(half.now), std::nullopt);
}

TEST(LeadMeter, PacketsThatWereLostBetweenTheFirstAndTheSecondSampleCount) {
    Sparse sparse;
    sparse.run(1, 1, 1, 100ms);
    sparse.run(1, 1, 32, 100ms);
    EXPECT_EQ(sparse.run(30, 1, 1, 100ms), 160ms) << "31 of 62";
    Sparse most;
    EXPECT_EQ(most.run(32, 2, 10, 100ms), 160ms) << "more than a half counts as a half";
}

TEST(LeadMeter, InputsThatWereLateOnTheFormerPathDoNotCountOnALongerOne) {
    Measured measured;
    for (int i = 0; i < 3; ++i) measured.meter.note_late(measured.now);
    measured.expect_nothing(10, 50ms);
    measured.expect_nothing(3, -30ms);
    EXPECT_EQ(measured.packet(-30ms), 70ms);
}

TEST(LeadMeter, BetweenTwoShiftsIsHalfASecond) {
    Measured measured;
    measured.expect_nothing(31, 100ms);
    EXPECT_EQ(measured.packet(100ms), -90ms);
    measured.parity = true;
    measured.expect_nothing(1, 10ms);
    for (int i = 0; i < 2; ++i) measured.meter.note_late(measured.now);
    measured.expect_nothing(23, 10ms);
    EXPECT_EQ(measured.packet(10ms), 20ms);
}

}  // namespace
}  // namespace shoal::replication::all::lead_meter_test
