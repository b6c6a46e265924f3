#include "net/sent_packets.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "net_world.h"

namespace shoal::net {
namespace {

// Goal: each tracked packet is settled once, in the order of numbers within a call; delivered exactly if
// acked before it was settled as lost; lost at once when three later tracked ones are acked.
// Method: random sends, random subsets acked; the model keeps sets and recomputes everything.
TEST(SentPackets, MatchesSetModel) {
    for (std::uint32_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937_64 random(seed);
        const std::uint64_t first = seed % 3 == 0 ? 65'530 : seed % 3 == 1 ? 1 : (1ull << 32) - 20;
        SentPackets sent(first, 64);
        ConnectionStats stats;
        std::set<std::uint64_t> open, tracked, acked, arrived;
        Time now = 1s;
        const auto drain = [&](const std::set<std::uint64_t>& expect_delivered,
                               const std::set<std::uint64_t>& expect_lost) {
            SentPackets::Settled packet;
            std::uint64_t previous = 0;
            std::set<std::uint64_t> delivered, lost;
            while (sent.next_settled(packet)) {
                ASSERT_GT(packet.fate.number, previous);
                previous = packet.fate.number;
                ASSERT_EQ(packet.fate.cookie, packet.fate.number * 3);
                ASSERT_EQ(open.erase(packet.fate.number), 1u);
                (packet.fate.delivered ? delivered : lost).insert(packet.fate.number);
            }
            ASSERT_EQ(delivered, expect_delivered);
            ASSERT_EQ(lost, expect_lost);
        };
        for (int step = 0; step < 3000; ++step) {
            now += 1ms;
            if (random() % 3 != 0 && sent.has_room()) {
                const std::uint64_t number = sent.next_number();
                if (random() % 5 == 0) {
                    sent.sent_untracked();
                } else {
                    SentPackets::Settled packet;
                    packet.fate.cookie = number * 3;
                    sent.sent_tracked(packet, 100, now, stats);
                    open.insert(number);
                    tracked.insert(number);
                }
                if (random() % 4 != 0) arrived.insert(number);
            }
            ASSERT_EQ(stats.bytes_in_flight, open.size() * 100);
            if (random() % 4 != 0 || arrived.empty()) continue;
            // An ack as some receiver could have sent it, perhaps a while ago.
            auto at = std::prev(arrived.end());
            for (std::uint64_t back = random() % 4; back > 0 && at != arrived.begin(); --back) --at;
            Acks acks;
            acks.present = true;
            acks.newest = static_cast<std::uint16_t>(*at);
            std::set<std::uint64_t> named{*at};
            for (std::uint64_t n = 0; n < 64; ++n) {
                const std::uint64_t number = *at - 1 - n;
                if (number >= first && !arrived.contains(number)) continue;
                acks.bits |= 1ull << n;
                if (number >= first) named.insert(number);
            }
            ASSERT_TRUE(sent.plausible(acks));
            sent.acknowledge(acks, now, stats);
            std::set<std::uint64_t> delivered, lost;
            for (const std::uint64_t number : named) {
                if (open.contains(number)) delivered.insert(number);
                if (tracked.contains(number)) acked.insert(number);
            }
            for (const std::uint64_t number : open) {
                const auto later = std::distance(acked.upper_bound(number), acked.end());
                if (!delivered.contains(number) && later >= 3) lost.insert(number);
            }
            drain(delivered, lost);
            if (HasFatalFailure()) return;
            // What is lost in the model can still arrive: late acks.
        }
        const std::set<std::uint64_t> rest = open;
        sent.lose_all(stats);
        drain({}, rest);
        ASSERT_EQ(stats.bytes_in_flight, 0u);
        ASSERT_EQ(stats.packets_delivered + stats.packets_lost, tracked.size());
    }
}

TEST(SentPackets, AcksOfPacketsNeverSentAreImplausible) {
    SentPackets sent(100, 32);
    ConnectionStats stats;
    Acks acks;
    EXPECT_TRUE(sent.plausible(acks));
    acks.present = true;
    acks.newest = 100;
    EXPECT_FALSE(sent.plausible(acks));
    sent.sent_tracked({}, 1, 1s, stats);
    EXPECT_TRUE(sent.plausible(acks));
    acks.newest = 101;
    EXPECT_FALSE(sent.plausible(acks));
    acks.newest = 99;
    EXPECT_FALSE(sent.plausible(acks));
}

TEST(SentPackets, RoomEndsWithCapacityAndReturnsWithFates) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    for (int i = 0; i < 32; ++i) {
        ASSERT_TRUE(sent.has_room());
        sent.sent_tracked({}, 1, 1s, stats);
    }
    EXPECT_FALSE(sent.has_room());
    sent.update(1s + 999ms, stats);
    EXPECT_FALSE(sent.has_room());
    sent.update(2s, stats);  // twice the initial timeout
    EXPECT_TRUE(sent.has_room());
    EXPECT_EQ(stats.packets_lost, 32u);
}

Acks acks_of(std::uint16_t newest, std::uint64_t bits) {
    Acks acks;
    acks.present = true;
    acks.newest = newest;
    acks.bits = bits;
    return acks;
}

TEST(SentPackets, OvertakenPacketsAreLostAfterAnEighthOfARoundTripMore) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    sent.sent_tracked({}, 1, 1s, stats);
    sent.sent_tracked({}, 1, 1s, stats);
    sent.acknowledge(acks_of(2, ~1ull), 1s + 100ms, stats);
    EXPECT_EQ(stats.packets_delivered, 1u);
    sent.update(1s + 112ms, stats);
    EXPECT_EQ(stats.packets_lost, 0u);
    sent.update(1s + 113ms, stats);
    EXPECT_EQ(stats.packets_lost, 1u);
}

// Not seen for long is not overtaken: silence does not make the next loss take longer to notice.
TEST(SentPackets, WhatTimedOutTeachesNothingAboutTheOrder) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    sent.sent_tracked({}, 1, 1s, stats);
    sent.acknowledge(acks_of(1, ~0ull), 1s + 100ms, stats);
    sent.sent_tracked({}, 1, 2s, stats);
    sent.update(4s, stats);
    EXPECT_EQ(stats.packets_lost, 1u);
    sent.acknowledge(acks_of(2, ~0ull), 4s, stats);
    EXPECT_EQ(stats.late_acks, 1u);
    sent.sent_tracked({}, 1, 5s, stats);
    sent.sent_tracked({}, 1, 5s, stats);
    sent.acknowledge(acks_of(4, ~1ull), 5s + 100ms, stats);
    sent.update(5s + 113ms, stats);
    EXPECT_EQ(stats.packets_lost, 2u);
}

// Goal: where the path changes the order, only the first packet that comes late is taken for lost; ten
// seconds after the last one the wait is short again. Method: pairs, the second 30 ms ahead of the first.
TEST(SentPackets, WhatCameLateOnceIsWaitedFor) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    const auto pair = [&](Time at) {
        const auto newest = static_cast<std::uint16_t>(sent.next_number() + 1);
        sent.sent_tracked({}, 1, at, stats);
        sent.sent_tracked({}, 1, at, stats);
        sent.acknowledge(acks_of(newest, ~1ull), at + 100ms, stats);
        sent.update(at + 129ms, stats);
        Acks late = acks_of(newest, ~0ull);
        late.delay = 30ms;  // since the newest came, as peers say it
        sent.acknowledge(late, at + 130ms, stats);
    };
    pair(1s);
    EXPECT_EQ(stats.packets_lost, 1u);
    EXPECT_EQ(stats.late_acks, 1u);
    EXPECT_LT(stats.loss, 0.01);  // nor was it, after all
    pair(2s);
    pair(10s);
    EXPECT_EQ(stats.packets_lost, 1u);
    pair(21s);
    EXPECT_EQ(stats.packets_lost, 2u);
}

TEST(SentPackets, AckDelayIsNotRoundTripTime) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    Acks acks;
    acks.present = true;
    acks.bits = ~0ull;
    for (std::uint16_t i = 1; i <= 50; ++i) {
        const Time at = i * 1s;
        sent.sent_tracked({}, 1, at, stats);
        acks.newest = i;
        acks.delay = i == 1 ? 0ms : 30ms;
        sent.acknowledge(acks, at + 50ms + acks.delay, stats);
    }
    EXPECT_EQ(stats.rtt, 50ms);
    EXPECT_EQ(stats.min_rtt, 50ms);
    EXPECT_LT(stats.jitter, 1ms);
    // Nor can a lie about it make the path shorter than it ever was.
    sent.sent_tracked({}, 1, 100s, stats);
    acks.newest = 51;
    acks.delay = 60ms;
    sent.acknowledge(acks, 100s + 51ms, stats);
    EXPECT_EQ(stats.latest_rtt, 50ms);
    // A path a little faster than the fastest sample is no slow one: all that is not delay is its own.
    sent.sent_tracked({}, 1, 101s, stats);
    acks.newest = 52;
    acks.delay = 30ms;
    sent.acknowledge(acks, 101s + 79ms, stats);
    EXPECT_EQ(stats.latest_rtt, 50ms);
}

}  // namespace
}  // namespace shoal::net
