#include "net/rate/usual_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <vector>

namespace shoal::net::impl {
namespace {

using namespace std::chrono_literals;
using Verdict = UsualLoss::Verdict;

constexpr Duration kTick = 10ms;
constexpr std::size_t kBytes = 500;

/// A flow of packets with simulated fates; `chance` is the probability of loss. A fate is reported one round
/// trip after sending, in the order of sending.
struct LossyFlow {
    struct Event {
        Time at{0};
        Verdict verdict = Verdict::none;
        float usual = 0;  // the usual loss after the event
    };
    struct Packet {
        Time sent{0};
        bool is_lost = false;
        bool was_reported = false;  // reported as lost, although it arrives
    };

    explicit LossyFlow(std::uint32_t seed, Time start = 0s) : loss(start), now(start), random(seed) {}
    void step() {
        now += kTick;
        for (; !open.empty() && open.front().sent + rtt <= now; open.pop_front()) {
            const Packet& packet = open.front();
            if (packet.is_lost || packet.was_reported) loss.on_lost(packet.sent, kBytes);
            if (!packet.is_lost) loss.on_delivered(packet.sent, kBytes, packet.was_reported);
        }
        const Verdict verdict = loss.update(now, rtt, can_try);
        if (verdict != Verdict::none) events.push_back({now, verdict, loss.usual()});
        highest_usual = std::max(highest_usual, loss.usual());
        owed += packets_per_second * std::chrono::duration<double>(kTick).count();
        for (; owed >= 1; owed -= 1) {
            const bool is_hit =
                std::uniform_real_distribution<double>(0, 1)(random) < chance(loss.is_trial());
            open.push_back({now, is_hit && !is_late, is_hit && is_late});
        }
    }
    void run(Duration duration) {
        events.clear();
        highest_usual = 0;
        for (const Time end = now + duration; now < end;) step();
    }
    /// Loses `part` of the packets over the capacity; no loss while less is sent.
    void lose_by_congestion(double part) {
        chance = [part](bool is_trial) { return is_trial ? 0 : part; };
    }
    void lose_at_random(double part) {
        chance = [part](bool) { return part; };
    }
    long count(Verdict verdict) const {
        return std::count_if(events.begin(), events.end(),
                             [&](const Event& event) { return event.verdict == verdict; });
    }

    UsualLoss loss;
    Time now;
    Duration rtt = 100ms;
    double packets_per_second = 200;
    bool can_try = true;
    bool is_late = false;  // lost packets arrive after they were reported as lost
    std::function<double(bool)> chance = [](bool) { return 0.0; };
    std::vector<Event> events;  // this and the next: of the last run
    float highest_usual = 0;

private:
    std::mt19937 random;
    std::deque<Packet> open;
    double owed = 0;
};

TEST(UsualLoss, RandomLossBecomesTheUsualLoss) {
    for (const std::uint32_t seed : {1u, 2u, 3u, 4u, 5u}) {
        for (const double part : {0.12, 0.2, 0.3}) {
            SCOPED_TRACE(testing::Message() << "seed " << seed << ", loss " << part);
            LossyFlow flow(seed);
            flow.lose_at_random(part);
            flow.run(16s);
            ASSERT_GE(flow.events.size(), 2u);
            EXPECT_EQ(flow.events[0].verdict, Verdict::suspicion);
            EXPECT_EQ(flow.events[1].verdict, Verdict::harmless);
            EXPECT_EQ(flow.count(Verdict::congestion), 0);
            EXPECT_GE(flow.loss.usual(), part / 2 - 0.001)
                << "half of the loss at least; the rest is random or tolerated";
            EXPECT_LE(flow.loss.usual(), part + 0.05);
            flow.run(120s);
            EXPECT_LE(flow.count(Verdict::suspicion), 12)
                << "the usual loss is tested every 16 s, rarely more often";
            EXPECT_GE(flow.loss.usual(), part / 3);
            EXPECT_LE(flow.loss.usual(), part + 0.05);
        }
    }
}

TEST(UsualLoss, OneTrialRaisesTheUsualByATenthAtMost) {
    for (const std::uint32_t seed : {1u, 2u, 3u}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        LossyFlow flow(seed);
        flow.lose_at_random(0.3);
        flow.run(30s);
        float before = 0;
        int raised = 0;
        for (const LossyFlow::Event& event : flow.events) {
            EXPECT_LE(event.usual, before + 0.1001F);
            raised += event.usual > before + 0.05F;
            before = event.usual;
        }
        EXPECT_GE(raised, 2);
    }
}

TEST(UsualLoss, UsualIsBoundedHoweverMuchIsLost) {
    const std::uint32_t seed = 1;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LossyFlow flow(seed);
    flow.lose_at_random(0.6);
    flow.run(120s);
    EXPECT_GT(flow.highest_usual, 0.3F);
    EXPECT_LE(flow.highest_usual, 0.35F);
}

TEST(UsualLoss, LossThatFallsWithTheRateIsCongestion) {
    for (const std::uint32_t seed : {1u, 2u, 3u, 4u, 5u}) {
        for (const Duration rtt : {20ms, 100ms, 300ms, 600ms}) {
            SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << rtt.count() << " us");
            LossyFlow flow(seed);
            flow.rtt = rtt;
            flow.lose_by_congestion(0.2);
            flow.run(60s);
            ASSERT_GE(flow.count(Verdict::congestion), 3);
            EXPECT_EQ(flow.count(Verdict::harmless), 0);
            EXPECT_EQ(flow.highest_usual, 0);
        }
    }
}

TEST(UsualLoss, LossUpToFivePercentIsNoSuspicion) {
    LossyFlow flow(1);
    int packet = 0;
    flow.chance = [&](bool) { return ++packet % 20 == 0 ? 1.0 : 0.0; };
    flow.run(120s);
    EXPECT_TRUE(flow.events.empty());
    EXPECT_EQ(flow.loss.usual(), 0);
    flow.chance = [&](bool) { return ++packet % 8 == 0 ? 1.0 : 0.0; };
    flow.run(5s);
    EXPECT_EQ(flow.count(Verdict::suspicion), 1) << "a loss of 12.5 % starts a trial";
}

// A burst is one event, however long, and does not show the usual loss.
TEST(UsualLoss, ABurstIsNoSuspicion) {
    LossyFlow flow(1);
    int packet = 0;
    flow.chance = [&](bool) { return ++packet % 1'000 < 150 ? 1.0 : 0.0; };
    flow.run(60s);
    EXPECT_EQ(flow.count(Verdict::suspicion), 0);
}

TEST(UsualLoss, FewPacketsTakeLonger) {
    LossyFlow flow(1);
    flow.packets_per_second = 5;
    int packet = 0;
    flow.chance = [&](bool) { return ++packet % 2 == 0 ? 1.0 : 0.0; };
    flow.run(4s);
    EXPECT_TRUE(flow.events.empty());
    flow.run(20s);
    ASSERT_GE(flow.events.size(), 2u);
    EXPECT_EQ(flow.events[0].verdict, Verdict::suspicion);
    EXPECT_EQ(flow.events[1].verdict, Verdict::harmless);
    EXPECT_GE(flow.events[1].at - flow.events[0].at, 4s);
}

TEST(UsualLoss, NoTrialBeginsUnlessItIsAllowed) {
    const std::uint32_t seed = 1;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LossyFlow flow(seed);
    flow.lose_at_random(0.2);
    flow.can_try = false;
    flow.run(20s);
    EXPECT_TRUE(flow.events.empty());
    EXPECT_FALSE(flow.loss.is_trial());
    flow.can_try = true;
    flow.run(3s);
    EXPECT_GE(flow.count(Verdict::suspicion), 1);
}

// Goal: connections that share a bottleneck begin their trials at the same time, because the loss of one
// would hide the effect of another's trial. Method: flows with other starts and round trips have the same
// loss.
TEST(UsualLoss, TrialsOfOneClockBeginTogether) {
    for (const std::uint32_t seed : {1u, 2u, 3u}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::vector<LossyFlow> flows;
        for (const auto& [start, rtt] :
             {std::pair<Time, Duration>(100ms, 20ms), {1'730ms, 100ms}, {2'900ms, 200ms}, {4'410ms, 300ms}}) {
            LossyFlow& flow = flows.emplace_back(seed + static_cast<std::uint32_t>(flows.size()), start);
            flow.rtt = rtt;
            flow.run(10s - start);
            EXPECT_TRUE(flow.events.empty());
            flow.lose_at_random(0.3);
            flow.run(2'010ms);
            ASSERT_EQ(flow.events.size(), 1u);
            EXPECT_EQ(flow.events[0].verdict, Verdict::suspicion);
            EXPECT_EQ(flow.events[0].at, Time(12s));
            EXPECT_TRUE(flow.loss.is_trial());
            flow.run(1s);
            ASSERT_EQ(flow.events.size(), 1u);
            EXPECT_EQ(flow.events[0].verdict, Verdict::harmless);
            EXPECT_EQ(flow.events[0].at, Time(13s));
            EXPECT_FALSE(flow.loss.is_trial());
        }
    }
}

TEST(UsualLoss, LongRoundTripsHaveLongerEpochs) {
    const std::uint32_t seed = 1;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LossyFlow flow(seed);
    flow.rtt = 600ms;
    flow.run(10s);
    flow.lose_at_random(0.3);
    flow.run(10s);
    ASSERT_GE(flow.events.size(), 2u);
    EXPECT_EQ(flow.events[0].at, Time(12s)) << "an epoch of two seconds, and a second one before the trial";
    EXPECT_EQ(flow.events[1].at, Time(14s));
}

TEST(UsualLoss, LateAcksUndoALoss) {
    const std::uint32_t seed = 1;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LossyFlow flow(seed);
    flow.lose_at_random(0.3);
    flow.is_late = true;
    flow.run(60s);
    EXPECT_TRUE(flow.events.empty());
    EXPECT_EQ(flow.loss.usual(), 0);
}

TEST(UsualLoss, LateAcksOfLossesBeforeTheEpochUndoNothing) {
    UsualLoss loss(10s);
    for (int i = 0; i < 100; ++i) loss.on_delivered(9s, kBytes, true);
    for (int i = 0; i < 100; ++i) {
        if (i % 3 == 0) loss.on_lost(10s, kBytes);
        loss.on_delivered(10s, kBytes, false);
    }
    EXPECT_EQ(loss.update(12s, 100ms, true), Verdict::suspicion);
}

TEST(UsualLoss, AbandonedTrialHasNoVerdict) {
    const std::uint32_t seed = 1;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LossyFlow flow(seed);
    flow.lose_at_random(0.3);
    while (!flow.loss.is_trial() && flow.now < 10s) flow.step();
    ASSERT_TRUE(flow.loss.is_trial());
    flow.run(500ms);
    flow.loss.abandon(flow.now);
    EXPECT_FALSE(flow.loss.is_trial());
    flow.chance = [](bool) { return 0.0; };
    flow.run(30s);
    EXPECT_TRUE(flow.events.empty()) << "earlier losses do not count, either";
    EXPECT_EQ(flow.loss.usual(), 0);
}

TEST(UsualLoss, AbandonBeginsANewEpoch) {
    UsualLoss loss(10s);
    for (int i = 0; i < 100; ++i) {
        loss.on_lost(10s, kBytes);
        loss.on_delivered(10s, kBytes, false);
    }
    loss.abandon(11s);
    for (int i = 0; i < 30; ++i) loss.on_delivered(11'500ms, kBytes, false);
    EXPECT_EQ(loss.update(14s, 100ms, true), Verdict::none);
}

TEST(UsualLoss, EpochLastsHalfAPeriodAndARoundTrip) {
    UsualLoss loss(11'900ms);
    for (int i = 0; i < 100; ++i) {
        loss.on_lost(11'950ms, kBytes);
        loss.on_delivered(11'950ms, kBytes, false);
    }
    EXPECT_EQ(loss.update(12s, 100ms, true), Verdict::none);
    EXPECT_EQ(loss.update(12'490ms, 100ms, true), Verdict::none);
    EXPECT_EQ(loss.update(12'500ms, 100ms, true), Verdict::suspicion);
}

// Loss that was accepted as usual may have been caused by another flow at that time.
TEST(UsualLoss, HighUsualLossIsTestedAgain) {
    for (const std::uint32_t seed : {1u, 2u, 3u}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        LossyFlow flow(seed);
        flow.lose_at_random(0.3);
        flow.run(13s);
        ASSERT_GE(flow.loss.usual(), 0.19F);
        flow.lose_by_congestion(0.15);
        flow.run(4s);
        ASSERT_EQ(flow.events.size(), 2u);
        EXPECT_EQ(flow.events[0].verdict, Verdict::suspicion);
        EXPECT_EQ(flow.events[0].at, Time(16s))
            << "all connections with the same clock test at the same time";
        EXPECT_EQ(flow.events[1].verdict, Verdict::congestion);
        EXPECT_LT(flow.loss.usual(), 0.02F);
    }
}

TEST(UsualLoss, LowUsualLossIsNotTestedAgain) {
    LossyFlow flow(1);
    int packet = 0;
    flow.chance = [&](bool) { return ++packet % 14 == 0 ? 1.0 : 0.0; };
    flow.packets_per_second = 1'000;  // with so many packets, 7 % are surely above 5 %
    flow.run(10s);
    ASSERT_NEAR(flow.loss.usual(), 0.07, 0.01);
    flow.run(60s);
    EXPECT_TRUE(flow.events.empty());
}

TEST(UsualLoss, UsualFadesWhenLessIsLost) {
    const std::uint32_t seed = 1;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LossyFlow flow(seed);
    flow.lose_at_random(0.3);
    flow.run(13s);
    const float before = flow.loss.usual();
    ASSERT_GE(before, 0.19F);
    flow.lose_at_random(0);
    flow.run(5s);
    EXPECT_NEAR(flow.loss.usual(), before * 0.73F, 0.03) << "it falls by a sixteenth per second";
    flow.run(60s);
    EXPECT_LT(flow.loss.usual(), 0.01F);
    EXPECT_TRUE(flow.events.empty());
}

TEST(UsualLoss, FatesOfPacketsSentBeforeTheTrialDoNotCount) {
    for (const bool is_cured : {true, false}) {
        SCOPED_TRACE(is_cured);
        UsualLoss loss(10s);
        for (int i = 0; i < 100; ++i) {
            loss.on_lost(10s, kBytes);
            loss.on_delivered(10s, kBytes, false);
        }
        ASSERT_EQ(loss.update(12s, 100ms, true), Verdict::suspicion);
        // The packets in flight show the opposite of the trial's effect.
        for (int i = 0; i < 400; ++i) {
            if (is_cured) loss.on_lost(11'990ms, kBytes);
            if (!is_cured) loss.on_delivered(11'990ms, kBytes, false);
        }
        for (int i = 0; i < 40; ++i) {
            if (!is_cured) loss.on_lost(12'010ms, kBytes);
            loss.on_delivered(12'010ms, kBytes, false);
        }
        EXPECT_EQ(loss.update(13s, 100ms, true), is_cured ? Verdict::congestion : Verdict::harmless);
    }
}

// The limit is 40 % of the loss before the trial: a full queue loses less than that after the cut.
TEST(UsualLoss, ATrialWithHalfTheLossIsHarmlessAndWithAQuarterCongestion) {
    for (const int lost : {50, 25}) {
        SCOPED_TRACE(lost);
        UsualLoss loss(10s);
        for (int i = 0; i < 100; ++i) {
            loss.on_lost(10s, kBytes);
            loss.on_delivered(10s, kBytes, false);
        }
        ASSERT_EQ(loss.update(12s, 100ms, true), Verdict::suspicion);
        for (int i = 0; i < 200; ++i) {
            if (i < lost)
                loss.on_lost(12s, kBytes);
            else
                loss.on_delivered(12s, kBytes, false);
        }
        EXPECT_EQ(loss.update(13s, 100ms, true), lost == 50 ? Verdict::harmless : Verdict::congestion);
    }
}

TEST(UsualLoss, DeliveredRateIsThatOfTheEpoch) {
    for (const Duration rtt : {20ms, 250ms}) {
        const std::uint32_t seed = 1;
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << rtt.count() << " us");
        LossyFlow flow(seed);
        flow.rtt = rtt;
        flow.lose_at_random(0.3);
        while (!flow.loss.is_trial() && flow.now < 10s) flow.step();
        ASSERT_TRUE(flow.loss.is_trial());
        EXPECT_NEAR(flow.loss.delivered_rate(), 0.7 * 200 * kBytes, 0.1 * 200 * kBytes);
    }
}

}  // namespace
}  // namespace shoal::net::impl
