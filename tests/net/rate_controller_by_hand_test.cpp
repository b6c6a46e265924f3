// RateController alone, driven step by step: the breaker, the budget, and what a new path resets.

#include "net/rate/rate_controller.h"

#include <gtest/gtest.h>

#include "tests/net/support/rate_sender.h"

namespace shoal::net::impl {
namespace {

/// A controller that is driven step by step.
struct BareController {
    explicit BareController(std::uint64_t first_rate = 100'000)
        : rate(first_rate, 1'000'000, kStart, stats) {}
    void send(std::size_t bytes = 100) {
        stats.bytes_in_flight += bytes;
        rate.on_sent(bytes, now, stats);
    }
    void deliver(bool is_late, Duration rtt = 50ms, std::uint16_t bytes = 100) {
        SentPackets::News news;
        news.fate.delivered = true;
        news.fate.rtt = rtt;
        news.sent = now - rtt;
        news.bytes = bytes;
        news.is_late = is_late;
        news.measures = true;
        if (!is_late) stats.bytes_in_flight -= bytes;
        rate.on_news(news, now, stats);
    }
    void lose(std::uint16_t bytes = 100) {
        SentPackets::News news;
        news.sent = now - 50ms;
        news.bytes = bytes;
        stats.bytes_in_flight -= bytes;
        rate.on_news(news, now, stats);
    }
    void wait(Duration duration) {
        now += duration;
        rate.update(now, kTimeout, stats);
    }
    static constexpr Duration kTimeout = 100ms;

    ConnectionStats stats;
    RateController rate;
    Time now = kStart;
};

TEST(RateController, BreakerOpensAfterThreeTimeoutsWithoutAcks) {
    BareController bare;
    bare.wait(10s);
    EXPECT_FALSE(bare.rate.is_broken()) << "nothing was sent";
    BareController few;
    for (int i = 0; i < 11; ++i) few.send();
    few.wait(10s);
    EXPECT_FALSE(few.rate.is_broken()) << "so few may be lost on a path that works";
    for (int i = 0; i < 11; ++i) bare.send();
    bare.wait(200ms);
    bare.send();  // later packets do not delay it
    bare.wait(99ms);
    bare.lose();
    EXPECT_FALSE(bare.rate.is_broken());
    bare.wait(1ms);
    EXPECT_TRUE(bare.rate.is_broken());
    EXPECT_FALSE(bare.rate.may_send());
    EXPECT_FALSE(bare.rate.may_send_urgent());
    EXPECT_EQ(bare.stats.rate_limit, RateLimit::breaker);
    EXPECT_EQ(bare.stats.rate, 100'000) << "the rate to return to half of";
}

TEST(RateController, AcksAndIdlenessKeepTheBreakerClosed) {
    BareController bare;
    for (int i = 0; i < 100; ++i) {
        bare.send();
        bare.wait(290ms);
        bare.deliver(false);
        EXPECT_FALSE(bare.rate.is_broken());
    }
    bare.wait(60s);  // no packet is in flight
    bare.send();
    bare.wait(290ms);
    EXPECT_FALSE(bare.rate.is_broken());
}

TEST(RateController, PingsOfTheBreakerBecomeRarer) {
    BareController bare;
    for (int i = 0; i < 16; ++i) bare.send();
    bare.wait(300ms);
    ASSERT_TRUE(bare.rate.is_broken());
    EXPECT_EQ(bare.rate.probe_interval(), 100ms);
    for (const Duration expected : {200ms, 400ms, 800ms, 1'000ms, 1'000ms, 1'000ms}) {
        bare.send();
        EXPECT_EQ(bare.rate.probe_interval(), expected);
        bare.wait(expected);
        EXPECT_EQ(bare.rate.probe_interval(), expected) << "time alone causes no ping";
    }
    EXPECT_TRUE(bare.rate.is_broken());
}

// After a jump of the round trip all acks are late.
TEST(RateController, Rule33LateAckClosesTheBreaker) {
    for (const bool is_late : {true, false}) {
        SCOPED_TRACE(is_late);
        BareController bare;
        for (int i = 0; i < 16; ++i) bare.send();
        bare.wait(300ms);
        ASSERT_TRUE(bare.rate.is_broken());
        bare.lose();
        EXPECT_TRUE(bare.rate.is_broken()) << "a loss is not an answer";
        bare.deliver(is_late, 2s);
        EXPECT_FALSE(bare.rate.is_broken());
        bare.wait(1ms);
        EXPECT_EQ(bare.stats.rate, 50'000);
        EXPECT_NE(bare.stats.rate_limit, RateLimit::breaker);
        EXPECT_TRUE(bare.rate.may_send());
    }
}

// The queue has drained meanwhile, or the route has changed.
TEST(RateController, RoundTripsFromBeforeTheBreakerAreForgotten) {
    Sender sender({}, 1, 500'000);
    sender.run(10s);
    const PathConfig before = sender.path;
    sender.path.loss = 1;
    sender.run(5s);
    ASSERT_TRUE(sender.rate.is_broken());
    EXPECT_EQ(sender.stats.rate_limit, RateLimit::breaker);
    EXPECT_EQ(sender.highest_rate, 500'000) << "losing everything does not show a capacity";
    EXPECT_EQ(sender.stats.rate, 500'000);
    sender.path = before;
    sender.path.round_trip = 300ms;
    ASSERT_TRUE(sender.revive());
    EXPECT_EQ(sender.stats.rate, 250'000);
    sender.run(3s);
    EXPECT_GE(sender.lowest_rate, 250'000) << "250 ms more are not taken for a queue";
    EXPECT_EQ(sender.stats.rate, 500'000);
}

TEST(RateController, RestartForgetsThePath) {
    Sender sender({}, 1, 500'000);
    sender.run(10s);
    sender.path.round_trip = 300ms;
    sender.run(350ms);  // the new address is proven a round trip later
    sender.rate.restart(sender.now);
    sender.stats.rtt = 300ms;
    sender.step();
    EXPECT_EQ(sender.stats.rate, 32'000) << "the first rate, which is less than half of the former rate";
    sender.run(3s);
    EXPECT_EQ(sender.stats.rate, 500'000);
    EXPECT_GE(sender.lowest_rate, 32'000);
    sender.run(5s);
    EXPECT_EQ(sender.lowest_rate, 500'000) << "250 ms more are not taken for a queue";

    BareController slow(20'000);
    slow.rate.restart(slow.now);
    slow.wait(1ms);
    EXPECT_EQ(slow.stats.rate, 10'000) << "half of the former rate, which is less than the first rate";
}

// Packets in flight when the path changes took the old one. With their round trips the new, longer path would
// look like a queue.
TEST(RateController, PacketsFromBeforeAMoveAreNotMeasured) {
    ConnectionStats stats;
    RateController rate(32'000, 10'000'000, kStart, stats);
    const Time moved = kStart + 1s;
    rate.restart(moved);
    const auto acknowledge = [&](Time sent, Duration rtt, Time now) {
        SentPackets::News news;
        news.fate.delivered = true;
        news.fate.rtt = rtt;
        news.sent = sent;
        news.bytes = 1'200;
        news.measures = true;
        rate.on_news(news, now, stats);
    };
    for (int i = 0; i < 20; ++i) acknowledge(moved - 5ms, 10ms, moved + 5ms);
    Time now = moved + 5ms;
    for (int tick = 0; tick < 60; ++tick, now += kTick) {
        if (now >= moved + 200ms) acknowledge(now - 200ms, 200ms, now);
        stats.rtt = stats.latest_rtt = 200ms;
        rate.update(now, 300ms, stats);
    }
    EXPECT_EQ(stats.queue_delay, 0ms);
    EXPECT_GE(stats.rate, 16'000);
}

TEST(RateController, PingsDoNotAccumulateDebt) {
    BareController bare;
    for (int i = 0; i < 1'000; ++i) bare.send();
    EXPECT_FALSE(bare.rate.may_send());
    bare.wait(23ms);
    EXPECT_FALSE(bare.rate.may_send());
    bare.wait(2ms);
    EXPECT_TRUE(bare.rate.may_send()) << "two packets take 24 ms";
}

TEST(RateController, ALowerRateReducesSavedBytes) {
    Sender sender({}, 1, 1'000'000);
    sender.run(5s);
    sender.demand = 1'000;
    sender.run(1s);  // 50 kB are saved
    sender.rate.restart(sender.now);
    int packets = 0;
    for (; sender.rate.may_send(); ++packets) sender.rate.on_sent(1'200, sender.now, sender.stats);
    EXPECT_EQ(packets, 2);
}

TEST(RateController, UntrackedPacketsUseTheBudget) {
    BareController bare;
    for (int i = 0; i < 1'000; ++i) bare.rate.on_sent_untracked(100);
    EXPECT_FALSE(bare.rate.may_send());
    EXPECT_TRUE(bare.rate.may_send_urgent());
    bare.wait(1ms);
    EXPECT_TRUE(bare.rate.may_send()) << "they never overdraw";
}

}  // namespace
}  // namespace shoal::net::impl
