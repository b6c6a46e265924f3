#include "net/sent_packets.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/net/support/consistency.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

// A late ack of a packet on the former path must not be used for the present path.
TEST(SentPackets, LateAcksOfAFormerPathAreNotReported) {
    for (const bool moves : {false, true}) {
        SentPackets sent(1, 128);
        ConnectionStats stats;
        for (int i = 0; i < 6; ++i) sent.sent_tracked({}, 100, 1s, stats);
        sent.acknowledge({true, 6, 0b01111, 0us}, 2s, stats);  // all except the first
        SentPackets::News news;
        int fates = 0;
        while (sent.next_news(news)) fates += 1;
        EXPECT_EQ(fates, 6) << "the first one is lost";
        if (moves) sent.restart(stats);
        sent.acknowledge({true, 6, 0b11111, 0us}, 3s, stats);
        EXPECT_EQ(sent.next_news(news), !moves);
        EXPECT_EQ(stats.late_acks, 1u);
    }
}

// Goal: each tracked packet has one fate, in the order of numbers within a call; delivered exactly if its ack
// arrives before it is declared lost; lost at once when three later tracked packets are acknowledged.
// Method: random sends, skipped numbers, random subsets acknowledged; the model computes everything from
// sets.
TEST(SentPackets, MatchesSetModel) {
    for (std::uint32_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937_64 random(seed);
        const std::uint64_t first = seed % 3 == 0 ? 65'530 : seed % 3 == 1 ? 1 : (1ull << 32) - 20;
        SentPackets sent(first, 128);  // more than one ack can name
        ConnectionStats stats;
        std::set<std::uint64_t> open, tracked, acked, arrived, reported_lost;
        std::uint64_t left_out = 0;  // the last skipped number
        Time now = 1s;
        const auto drain = [&](const std::set<std::uint64_t>& expect_delivered,
                               const std::set<std::uint64_t>& expect_lost) {
            SentPackets::News packet;
            std::uint64_t previous = 0;
            std::set<std::uint64_t> delivered, lost;
            while (sent.next_news(packet)) {
                if (packet.is_late) {
                    ASSERT_EQ(previous, 0u) << "late acks are reported before the fates";
                    ASSERT_TRUE(packet.fate.delivered);
                    ASSERT_EQ(reported_lost.erase(packet.fate.number), 1u);
                    continue;
                }
                ASSERT_GT(packet.fate.number, previous);
                previous = packet.fate.number;
                ASSERT_EQ(packet.content.distance, std::uint16_t(packet.fate.number * 3));
                ASSERT_EQ(open.erase(packet.fate.number), 1u);
                (packet.fate.delivered ? delivered : lost).insert(packet.fate.number);
            }
            ASSERT_EQ(delivered, expect_delivered);
            ASSERT_EQ(lost, expect_lost);
            ASSERT_TRUE(is_consistent(sent));
            reported_lost.insert(lost.begin(), lost.end());
        };
        for (int step = 0; step < 3000; ++step) {
            now += 1ms;
            if (random() % 40 == 0) {
                left_out = sent.next_number();
                sent.skip();
                ASSERT_EQ(sent.next_number(), left_out + 1);
            }
            if (random() % 3 != 0 && sent.has_room()) {
                const std::uint64_t number = sent.next_number();
                if (random() % 5 == 0) {
                    sent.sent_untracked();
                } else {
                    SentPackets::Content content;
                    content.distance = std::uint16_t(number * 3);
                    sent.sent_tracked(content, 100, now, stats);
                    open.insert(number);
                    tracked.insert(number);
                }
                if (random() % 4 != 0) arrived.insert(number);
            }
            ASSERT_EQ(stats.bytes_in_flight, open.size() * 100);
            if (random() % 4 != 0 || arrived.empty()) continue;
            // An ack that a receiver can have sent, perhaps some time ago.
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
            const std::uint64_t behind = *at - left_out;
            if (left_out != 0 && left_out < *at && behind <= 64) {
                Acks lie = acks;
                lie.bits |= 1ull << (behind - 1);
                ASSERT_FALSE(sent.plausible(lie)) << "it names " << left_out;
            }
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
            // Packets that are lost in the model can still arrive: late acks.
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

// Goal: an ack that names a skipped number anywhere is implausible, and no other ack is.
TEST(SentPackets, AcksOfSkippedNumbersAreImplausible) {
    for (const std::uint64_t first :
         std::initializer_list<std::uint64_t>{1, 65'470, (1ull << 32) - 70, 1ull << 62}) {
        SCOPED_TRACE(first);
        SentPackets sent(first, 256);
        ConnectionStats stats;
        const auto ack = [](std::uint64_t newest, std::uint64_t bits) {
            Acks acks;
            acks.present = true;
            acks.newest = static_cast<std::uint16_t>(newest);
            acks.bits = bits;
            return acks;
        };
        sent.sent_tracked({}, 1, 1s, stats);
        const std::uint64_t skipped = sent.next_number();
        sent.skip();
        EXPECT_FALSE(sent.plausible(ack(skipped, 0))) << "the newest number, and nothing sent after it";
        EXPECT_TRUE(sent.plausible(ack(skipped - 1, ~0ull)));
        for (std::uint64_t behind = 1; behind <= 70; ++behind) {
            sent.sent_tracked({}, 1, 1s, stats);
            EXPECT_FALSE(sent.plausible(ack(skipped, 0)));
            const std::uint64_t newest = skipped + behind;
            if (behind > 64) {
                EXPECT_TRUE(sent.plausible(ack(newest, ~0ull)))
                    << behind << ": too old for an ack to name it";
                continue;
            }
            const std::uint64_t bit = 1ull << (behind - 1);
            EXPECT_FALSE(sent.plausible(ack(newest, bit))) << behind;
            EXPECT_FALSE(sent.plausible(ack(newest, ~0ull))) << behind;
            EXPECT_TRUE(sent.plausible(ack(newest, ~bit))) << behind;
            EXPECT_TRUE(sent.plausible(ack(newest, 0))) << behind;
        }
        // Of several skipped numbers the last two are known.
        const std::uint64_t second = sent.next_number();
        sent.skip();
        sent.sent_tracked({}, 1, 1s, stats);
        EXPECT_FALSE(sent.plausible(ack(skipped, 0)));
        EXPECT_FALSE(sent.plausible(ack(second, 0)));
        EXPECT_FALSE(sent.plausible(ack(second + 1, 1)));
        EXPECT_TRUE(sent.plausible(ack(second + 1, ~1ull)));
        EXPECT_TRUE(sent.plausible(ack(second - 1, ~0ull)));
    }
}

// A skipped number is neither lost nor delivered, and delays nothing.
TEST(SentPackets, SkippedNumbersHaveNoFate) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    for (int i = 0; i < 100; ++i) {
        const Time at = 1s + i * 100ms;
        const std::uint64_t before = sent.next_number();
        ASSERT_TRUE(sent.has_room());
        sent.sent_tracked({}, 1, at, stats);
        sent.skip();
        sent.sent_tracked({}, 1, at, stats);
        Acks acks;
        acks.present = true;
        acks.newest = static_cast<std::uint16_t>(before + 2);
        acks.bits = 2;  // the one before the skipped number
        sent.acknowledge(acks, at + 50ms, stats);
        SentPackets::News news;
        ASSERT_TRUE(sent.next_news(news));
        EXPECT_EQ(news.fate.number, before);
        ASSERT_TRUE(sent.next_news(news));
        EXPECT_EQ(news.fate.number, before + 2);
        ASSERT_FALSE(sent.next_news(news));
        EXPECT_EQ(sent.open_packets(), 0u);
    }
    EXPECT_EQ(stats.packets_delivered, 200u);
    EXPECT_EQ(stats.packets_lost, 0u);
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

// A packet that timed out was not overtaken, so it does not lengthen the wait for reordered packets.
TEST(SentPackets, ATimeoutDoesNotCountAsReordering) {
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
    sent.acknowledge(acks_of(4, ~1ull), 5s + stats.rtt, stats);
    sent.update(5s + stats.rtt * 9 / 8 + 1ms, stats);
    EXPECT_EQ(stats.packets_lost, 2u);
}

// After a jump of the round trip every packet is declared lost before its ack arrives. Goal: the late acks
// still measure the new round trip, and the next packet is not declared lost too early.
TEST(SentPackets, Rule33LateAcksAreMeasured) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    sent.sent_tracked({}, 1, 1s, stats);
    sent.acknowledge(acks_of(1, ~0ull), 1s + 10ms, stats);
    sent.sent_tracked({}, 1, 2s, stats);
    sent.update(2s + 500ms, stats);
    EXPECT_EQ(stats.packets_lost, 1u);
    SentPackets::News news;
    while (sent.next_news(news)) {
    }
    sent.acknowledge(acks_of(2, ~0ull), 2s + 800ms, stats);
    EXPECT_EQ(stats.latest_rtt, 800ms);
    ASSERT_TRUE(sent.next_news(news));
    EXPECT_TRUE(news.is_late);
    EXPECT_TRUE(news.measures);
    EXPECT_EQ(news.fate.number, 2u);
    EXPECT_EQ(news.fate.rtt, 800ms);
    EXPECT_EQ(news.sent, 2s);
    EXPECT_FALSE(sent.next_news(news)) << "its fate does not change";
    EXPECT_GT(2 * sent.retransmission_timeout(stats), 800ms);
}

// Source of the expected times: RFC 6298, section 5.5, with a bound of 3 s.
TEST(SentPackets, Rule33TimeoutsBackOffAndAreBounded) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    sent.sent_tracked({}, 1, 1s, stats);
    sent.acknowledge(acks_of(1, ~0ull), 1s + 100ms, stats);
    const Duration timeout = sent.retransmission_timeout(stats);
    EXPECT_EQ(timeout, 350ms);  // 100 ms, 4 x 50 ms of jitter, 50 ms
    Time now = 2s;
    for (const Duration expected : {700ms, 1'400ms, 2'800ms, 3'000ms, 3'000ms}) {
        sent.sent_tracked({}, 1, now, stats);
        sent.sent_tracked({}, 1, now, stats);
        now += 2 * sent.retransmission_timeout(stats);
        sent.update(now, stats);
        EXPECT_EQ(sent.retransmission_timeout(stats), expected)
            << "two packets that time out together back off once";
        EXPECT_EQ(sent.answer_timeout(stats), timeout);
        now += 1ms;
    }
    EXPECT_EQ(stats.packets_lost, 10u);
    const auto newest = static_cast<std::uint16_t>(sent.next_number());
    sent.sent_tracked({}, 1, now, stats);
    sent.acknowledge(acks_of(newest, 0), now + 100ms, stats);
    EXPECT_LE(sent.retransmission_timeout(stats), timeout);
    // A pause of eight seconds is measured, and does not make a timeout of 16 s.
    sent.sent_tracked({}, 1, now, stats);
    sent.acknowledge(acks_of(newest + 1, 0), now + 8s, stats);
    EXPECT_EQ(sent.retransmission_timeout(stats), 3s);
}

TEST(SentPackets, AMoveEndsTheBackoffOfTimeouts) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    const Duration first = sent.retransmission_timeout(stats);
    sent.sent_tracked({}, 1, 1s, stats);
    sent.update(10s, stats);
    ASSERT_EQ(sent.retransmission_timeout(stats), 2 * first);
    sent.restart(stats);
    EXPECT_EQ(sent.retransmission_timeout(stats), first);
}

// The smoothed round trip follows a sudden rise only slowly.
TEST(SentPackets, AnOvertakenPacketIsWaitedForAsLongAsTheNewestRoundTrip) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    sent.sent_tracked({}, 1, 1s, stats);
    sent.acknowledge(acks_of(1, ~0ull), 1s + 100ms, stats);
    sent.sent_tracked({}, 1, 2s, stats);
    sent.sent_tracked({}, 1, 2s, stats);
    sent.acknowledge(acks_of(3, ~1ull), 2s + 300ms, stats);
    ASSERT_LT(stats.rtt, 200ms);
    sent.update(2s + 330ms, stats);
    EXPECT_EQ(stats.packets_lost, 0u);
    sent.update(2s + 338ms, stats);
    EXPECT_EQ(stats.packets_lost, 1u) << "an eighth of a round trip later";
}

// The round trip of a packet sent before a move is, at least in part, that of the former path.
TEST(SentPackets, PacketsFromBeforeAMoveAreNotMeasured) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    sent.sent_tracked({}, 1, 1s, stats);
    sent.sent_tracked({}, 1, 1s, stats);
    sent.restart(stats);
    EXPECT_EQ(stats.rtt, 0ms);
    sent.acknowledge(acks_of(1, ~0ull), 1s + 400ms, stats);
    EXPECT_EQ(stats.rtt, 0ms);
    EXPECT_EQ(stats.packets_delivered, 1u);
    sent.update(10s, stats);  // the second packet is lost
    sent.acknowledge(acks_of(2, ~0ull), 10s, stats);
    EXPECT_EQ(stats.rtt, 0ms) << "late acks are not measured, either";
    sent.sent_tracked({}, 1, 11s, stats);
    sent.acknowledge(acks_of(3, ~0ull), 11s + 48ms, stats);
    EXPECT_EQ(stats.rtt, 48ms);
}

TEST(SentPackets, TheLastAckBitCounts) {
    for (const unsigned behind : {1u, 2u, 63u, 64u}) {
        SentPackets sent(1, 128);
        ConnectionStats stats;
        for (int i = 0; i < 70; ++i) sent.sent_tracked({}, 1, 1s, stats);
        sent.acknowledge(acks_of(70, 1ull << (behind - 1)), 1s + 50ms, stats);
        EXPECT_EQ(stats.packets_delivered, 2u) << behind;
    }
}

// The packets lost at the end of a connection were not lost by the path.
TEST(SentPackets, TheEndOfAConnectionDoesNotChangeTheLossEstimate) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    for (int i = 0; i < 20; ++i) sent.sent_tracked({}, 1, 1s, stats);
    sent.acknowledge(acks_of(10, ~0ull), 1s + 50ms, stats);
    sent.update(1s + 200ms, stats);
    const double loss = stats.loss;
    sent.lose_all(stats);
    EXPECT_EQ(stats.packets_lost, 10u);
    EXPECT_EQ(stats.loss, loss);
}

// Goal: on a path that reorders packets, only the first late packet is declared lost. Ten seconds after the
// last one the wait is short again.
// Method: pairs of packets; the second arrives 30 ms before the first.
TEST(SentPackets, ReorderedPacketsAreWaitedForAfterTheFirst) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    const auto pair = [&](Time at) {
        const auto newest = static_cast<std::uint16_t>(sent.next_number() + 1);
        sent.sent_tracked({}, 1, at, stats);
        sent.sent_tracked({}, 1, at, stats);
        sent.acknowledge(acks_of(newest, ~1ull), at + 100ms, stats);
        sent.update(at + 129ms, stats);
        Acks late = acks_of(newest, ~0ull);
        late.delay = 30ms;  // since the newest one arrived
        sent.acknowledge(late, at + 130ms, stats);
    };
    pair(1s);
    EXPECT_EQ(stats.packets_lost, 1u);
    EXPECT_EQ(stats.late_acks, 1u);
    EXPECT_LT(stats.loss, 0.01);  // the first one was not lost, either
    pair(2s);
    pair(10s);
    EXPECT_EQ(stats.packets_lost, 1u);
    pair(21s);
    EXPECT_EQ(stats.packets_lost, 2u);
}

TEST(SentPackets, ALongWaitForReorderedPacketsIsForgotten) {
    SentPackets sent(1, 32);
    ConnectionStats stats;
    // Sends two packets. The second is acknowledged after 100 ms, the first after `later`, or never.
    const auto send_two = [&](Time at, Duration later) {
        const auto newest = static_cast<std::uint16_t>(sent.next_number() + 1);
        sent.sent_tracked({}, 1, at, stats);
        sent.sent_tracked({}, 1, at, stats);
        sent.acknowledge(acks_of(newest, ~1ull), at + 100ms, stats);
        sent.update(at + later - 1ms, stats);
        Acks late = acks_of(newest, ~0ull);
        late.delay = later - 100ms;
        sent.acknowledge(late, at + later, stats);
    };
    send_two(1s, 300ms);
    send_two(21s, 130ms);
    ASSERT_EQ(stats.late_acks, 2u);
    const std::uint64_t lost = stats.packets_lost;
    sent.sent_tracked({}, 1, 22s, stats);
    sent.sent_tracked({}, 1, 22s, stats);
    sent.acknowledge(acks_of(static_cast<std::uint16_t>(sent.next_number() - 1), ~1ull), 22s + 100ms, stats);
    sent.update(22s + 140ms, stats);
    EXPECT_EQ(stats.packets_lost, lost + 1) << "it has waited as long as the newest late packet";
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
    // A wrong ack delay cannot make the round trip shorter than it ever was.
    sent.sent_tracked({}, 1, 100s, stats);
    acks.newest = 51;
    acks.delay = 60ms;
    sent.acknowledge(acks, 100s + 51ms, stats);
    EXPECT_EQ(stats.latest_rtt, 50ms);
    // The same for an ack delay that is only a little too large.
    sent.sent_tracked({}, 1, 101s, stats);
    acks.newest = 52;
    acks.delay = 30ms;
    sent.acknowledge(acks, 101s + 79ms, stats);
    EXPECT_EQ(stats.latest_rtt, 50ms);
}

}  // namespace
}  // namespace shoal::net::impl
