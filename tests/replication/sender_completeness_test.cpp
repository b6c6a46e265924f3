#include "replication/send/sender.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

using sim::Counters;

TEST(Sender, Rule09AMarkerNeedsEveryPacketInFlightWithANewestRecord) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), b = pair.spawn(at(2));
    pair.exchange();
    pair.world.set(a, at(3));
    const SentPacket holds_a = pair.tick_and_encode();
    pair.world.set(b, at(4));
    const SentPacket holds_b = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(holds_b), Receiver::Verdict::accepted);
    pair.receiver.apply();
    EXPECT_FALSE(pair.receiver.complete()) << "the record of a is missing";
    EXPECT_EQ(pair.receive(holds_a), Receiver::Verdict::accepted);
    pair.receiver.apply();
    ASSERT_TRUE(pair.receiver.complete());
    EXPECT_EQ(pair.receiver.complete()->tick, holds_b.tick);
    EXPECT_TRUE(pair.worlds_are_equal());
}

TEST(Sender, Rule09AMarkerNeedsNoRecordThatANewerOneReplaced) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(a, at(3));
    pair.tick_and_encode();  // lost, but the sender does not know it yet
    pair.world.set(a, at(4));
    const SentPacket second = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(second), Receiver::Verdict::accepted);
    pair.receiver.apply();
    ASSERT_TRUE(pair.receiver.complete());
    EXPECT_EQ(pair.receiver.complete()->tick, second.tick);
}

TEST(Sender, Rule09NoMarkerIsSentWhileStateIsLeftToSend) {
    Pair pair;
    for (int i = 0; i < 200; ++i) pair.spawn(at(static_cast<float>(i) / 4), Counters{i, 99, i, 0, 0, 0, 0});
    int partial = 0;
    for (int i = 0; i < 600 && !pair.receiver.complete(); ++i) {
        pair.exchange_one(200);
        if (pair.sender.stats(pair.peer).pending > 0) {
            EXPECT_FALSE(pair.receiver.complete());
            ++partial;
        }
    }
    EXPECT_GT(partial, 10);
    EXPECT_TRUE(pair.receiver.complete());
    EXPECT_TRUE(pair.worlds_are_equal());
}

TEST(Sender, Rule09APeerIsSettledOnlyWhenItIsComplete) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), b = pair.spawn(at(2));
    pair.exchange();
    pair.world.set(a, at(3));
    const SentPacket first = pair.tick_and_encode();
    pair.world.set(b, at(4));
    const SentPacket missing = pair.tick_and_encode();
    pair.world.set(a, at(5));
    const SentPacket last = pair.tick_and_encode();
    pair.deliver(last);
    pair.deliver(first);
    pair.receiver.apply();
    EXPECT_FALSE(pair.receiver.complete()) << "the missing packet may contain the record of b";
    EXPECT_FALSE(pair.sender.is_settled(pair.peer));
    pair.lose(missing);
    const std::optional<SentPacket> again =
        pair.encode();  // all fates are known, so its marker needs only this packet
    ASSERT_TRUE(again);
    pair.deliver(*again);
    pair.receiver.apply();
    EXPECT_TRUE(pair.receiver.complete());
    EXPECT_TRUE(pair.sender.is_settled(pair.peer));
    EXPECT_TRUE(pair.worlds_are_equal());
}

// A marker does not need packets without state and numbers that were skipped.
TEST(Sender, Rule09PacketNumbersWithoutStateDoNotDelayCompleteness) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), b = pair.spawn(at(2));
    pair.exchange();
    pair.world.set(a, at(3));
    const SentPacket first = pair.tick_and_encode();
    pair.next_number += 5;
    pair.world.set(b, at(4));
    const SentPacket second = pair.tick_and_encode();
    pair.deliver(second);
    pair.receiver.apply();
    EXPECT_FALSE(pair.receiver.complete()) << "the first one is missing";
    EXPECT_FALSE(pair.sender.is_settled(pair.peer));
    pair.deliver(first);
    pair.receiver.apply();
    EXPECT_TRUE(pair.receiver.complete());
    EXPECT_TRUE(pair.sender.is_settled(pair.peer));
    EXPECT_FALSE(pair.encode()) << "nothing more is sent";
}

TEST(Sender, Rule09ALostMarkerIsSentAgainInTheSameTick) {
    Pair pair;
    pair.spawn(at(1));
    SentPacket packet = pair.tick_and_encode();
    for (int i = 0; i < 3; ++i) {
        pair.lose(packet);
        const std::optional<SentPacket> again = pair.encode();
        ASSERT_TRUE(again);
        packet = *again;
    }
    EXPECT_FALSE(pair.sender.is_settled(pair.peer));
    pair.deliver(packet);
    EXPECT_TRUE(pair.sender.is_settled(pair.peer));
    pair.receiver.apply();
    EXPECT_EQ(pair.receiver.complete()->tick, pair.sender.tick());
}

TEST(Sender, Rule09ALostMarkerWithoutRecordsIsSentAgainInTheSameTick) {
    Pair pair;
    SentPacket packet = pair.tick_and_encode();
    for (int i = 0; i < 3; ++i) {
        pair.lose(packet);
        const std::optional<SentPacket> again = pair.encode();
        ASSERT_TRUE(again);
        EXPECT_FALSE(pair.encode()) << "one is in flight";
        packet = *again;
    }
    pair.deliver(packet);
    EXPECT_TRUE(pair.sender.is_settled(pair.peer));
    EXPECT_EQ(pair.sender.stats(pair.peer).records_sent, 0u);
}

// The first packet has no marker, because another entity is left to send. Then this entity changes back.
TEST(Sender, Rule09AMarkerFollowsWhenNothingIsLeftToSendAnyMore) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), b = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(a, at(2));
    pair.world.set(b, at(2));
    pair.tick();
    const std::optional<SentPacket> first = pair.encode(1);
    ASSERT_TRUE(first);
    EXPECT_FALSE(header_of(*first).complete);
    pair.world.set(b, at(1));
    const SentPacket second = pair.tick_and_encode();
    EXPECT_TRUE(header_of(second).complete);
    EXPECT_EQ(header_of(second).record_count, 0u);
    pair.deliver(*first);
    pair.deliver(second);
    pair.receiver.apply();
    EXPECT_TRUE(pair.receiver.complete());
    EXPECT_TRUE(pair.worlds_are_equal());
}

}  // namespace
}  // namespace shoal::replication::impl
