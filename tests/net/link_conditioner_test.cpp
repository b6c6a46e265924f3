#include "net/socket/bad_network.h"

#include <gtest/gtest.h>

#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

const Address kFrom = Address::ipv4(1, 1, 1, 1, 1);
const Address kTo = Address::ipv4(2, 2, 2, 2, 2);
constexpr int kCount = 20'000;

/// Sends kCount numbered datagrams, one per millisecond, and returns those that arrive, with their times.
std::vector<std::pair<Time, std::string>> run(LinkConditioner& link) {
    std::vector<std::pair<Time, std::string>> result;
    LinkConditioner::Datagram datagram;
    Time now{0};
    for (int i = 0; i < kCount || link.queued() > 0; ++i, now += 1ms) {
        if (i < kCount) link.push(kFrom, kTo, as_bytes(std::to_string(i)), now);
        while (link.pop(now, datagram)) {
            EXPECT_LE(datagram.due, now);
            EXPECT_EQ(datagram.from, kFrom);
            EXPECT_EQ(datagram.to, kTo);
            result.push_back({now, as_text(datagram.bytes)});
        }
    }
    return result;
}

TEST(LinkConditioner, PerfectLinkChangesNothing) {
    LinkConditioner link({}, 1);
    const auto got = run(link);
    ASSERT_EQ(got.size(), std::size_t(kCount));
    for (int i = 0; i < kCount; ++i)
        EXPECT_EQ(got[std::size_t(i)], std::pair(Time(i * 1ms), std::to_string(i)));
}

TEST(LinkConditioner, DelaysWithinBoundsAndInOrder) {
    LinkConfig config;
    config.latency = 50ms;
    config.jitter = 20ms;
    LinkConditioner link(config, 2);
    const auto got = run(link);
    ASSERT_EQ(got.size(), std::size_t(kCount));
    Duration sum{0};
    for (int i = 0; i < kCount; ++i) {
        ASSERT_EQ(got[std::size_t(i)].second, std::to_string(i));
        const Duration delay = got[std::size_t(i)].first - i * 1ms;
        ASSERT_GE(delay, 50ms);
        ASSERT_LE(delay, 71ms);
        sum += delay;
    }
    EXPECT_GT(sum / kCount, 58ms);
}

TEST(LinkConditioner, SpreadIsSymmetricAndNeverBelowZero) {
    for (const Duration latency : {50ms, 5ms}) {
        LinkConditioner link({.latency = latency, .spread = 20ms}, 2);
        LinkConditioner::Datagram datagram;
        Duration sum{0}, shortest = 1h, longest{0};
        for (Time now{0}; now < 1000s; now += 100ms) {  // with pauses, so that no datagram waits for another
            link.push(kFrom, kTo, as_bytes("x"), now);
            ASSERT_TRUE(link.pop(now + 100ms, datagram));
            const Duration delay = datagram.due - now;
            sum += delay;
            shortest = std::min(shortest, delay);
            longest = std::max(longest, delay);
        }
        const Duration least = std::max(latency - 20ms, Duration(0)), most = latency + 20ms;
        EXPECT_GE(shortest, least);
        EXPECT_LE(shortest, least + 100us);
        EXPECT_LE(longest, most);
        EXPECT_GE(longest, most - 100us);
        EXPECT_NEAR(double((sum / 10'000).count()), double(((least + most) / 2).count()), 500);
    }
}

TEST(LinkConditioner, FaultsHaveTheirRates) {
    LinkConfig config;
    config.loss = 0.1;
    config.duplicate = 0.05;
    config.reorder = 0.05;
    config.corrupt = 0.02;
    LinkConditioner link(config, 3);
    const auto got = run(link);
    const LinkStats& stats = link.stats();
    EXPECT_EQ(stats.offered, std::uint64_t(kCount));
    EXPECT_EQ(stats.delivered, got.size());
    EXPECT_EQ(stats.delivered, stats.offered - stats.lost + stats.duplicated);
    EXPECT_NEAR(double(stats.lost), kCount * 0.1, kCount * 0.01);
    EXPECT_NEAR(double(stats.duplicated), kCount * 0.9 * 0.05, kCount * 0.01);
    EXPECT_NEAR(double(stats.reordered), kCount * 0.9 * 1.05 * 0.05, kCount * 0.01);
    EXPECT_NEAR(double(stats.corrupted), kCount * 0.9 * 1.05 * 0.02, kCount * 0.01);
}

TEST(LinkConditioner, BurstsHaveTheirLength) {
    LinkConfig config;
    config.burst = 0.005;
    config.burst_length = 10;
    LinkConditioner link(config, 4);
    const auto got = run(link);
    int bursts = 0;
    int expected = 0;
    for (const auto& [at, text] : got) {
        bursts += std::stoi(text) != expected;
        expected = std::stoi(text) + 1;
    }
    ASSERT_GT(bursts, 40);
    EXPECT_NEAR(double(link.stats().lost_in_bursts) / bursts, 10, 3);
}

TEST(LinkConditioner, SameSeedGivesTheSameResult) {
    LinkConfig config;
    config.latency = 5ms;
    config.jitter = 30ms;
    config.loss = config.duplicate = config.reorder = config.corrupt = config.burst = 0.1;
    LinkConditioner a(config, 5), b(config, 5), c(config, 6);
    const auto of_a = run(a);
    EXPECT_EQ(of_a, run(b));
    EXPECT_NE(of_a, run(c));
}

TEST(LinkConditioner, QueueIsBounded) {
    LinkConfig config;
    config.latency = 1s;
    config.max_queued = 10;
    LinkConditioner link(config, 7);
    for (int i = 0; i < 20; ++i) link.push(kFrom, kTo, as_bytes("x"), 0ms);
    EXPECT_EQ(link.queued(), 10u);
    EXPECT_EQ(link.stats().overflowed, 10u);
    EXPECT_EQ(link.next_due(), 1s);
}

// 1,000 datagrams of 100 bytes at once, into 10 kB/s with room for one second, then 10 ms of latency.
TEST(LinkConditioner, BottleneckQueuesThenDrops) {
    LinkConfig config;
    config.latency = 10ms;
    config.bytes_per_second = 10'000;
    config.queue_bytes = 10'000;
    LinkConditioner link(config, 8);
    const std::string bytes(100, 'x');
    for (int i = 0; i < 1000; ++i) link.push(kFrom, kTo, as_bytes(bytes), 0ms);
    EXPECT_EQ(link.stats().overflowed, 900u);
    EXPECT_EQ(link.queue_delay(0ms), 1s);
    EXPECT_EQ(link.queue_delay(400ms), 600ms);
    LinkConditioner::Datagram datagram;
    for (int i = 1; i <= 100; ++i) {
        ASSERT_EQ(link.next_due(), 10ms + i * 10ms);
        ASSERT_TRUE(link.pop(link.next_due(), datagram));
    }
    link.push(kFrom, kTo, as_bytes(bytes), 5s);
    EXPECT_EQ(link.next_due(), 5s + 20ms) << "an idle bottleneck saves no capacity";
}

}  // namespace
}  // namespace shoal::net::impl
