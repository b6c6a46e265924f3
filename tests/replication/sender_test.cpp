#include "replication/send/sender.h"

#include <gtest/gtest.h>

#include <random>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "replication/codec/bits.h"
#include "replication/codec/state_packet.h"
#include "tests/replication/support/world.h"
#include "tests/support/allocations.h"

namespace shoal::replication {
namespace {

using sim::Aim;
using sim::Counters;
using sim::Name;
using sim::Position;
using sim::Wolf;

StateHeader header_of(const SentPacket& packet) {
    BitReader in(packet.bytes);
    const StateHeader header = read_state_header(in);
    EXPECT_TRUE(in.ok());
    return header;
}

// Versions

TEST(Sender, Rule01AnEmptyDeltaIsSentWhileANewerRecordIsInFlight) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(entity, at(2));
    const SentPacket b = pair.tick_and_encode();
    pair.world.set(entity, at(1));
    const SentPacket empty = pair.tick_and_encode();
    EXPECT_EQ(pair.sender.stats(pair.peer).empty_records, 1u);
    pair.deliver(b);
    pair.deliver(empty);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 1);
}

TEST(Sender, Rule01AnEmptyDeltaIsSentBecauseALostRecordMayHaveArrived) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(entity, at(2));
    const SentPacket b = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(b), Receiver::Verdict::accepted);  // its ack is lost
    pair.world.set(entity, at(1));
    pair.lose(b);
    pair.exchange();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 1);
    EXPECT_EQ(pair.sender.stats(pair.peer).empty_records, 1u);
}

TEST(Sender, Rule01AnEmptyDeltaIsRepeatedUntilOneArrives) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(entity, at(2));
    const SentPacket b = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(b), Receiver::Verdict::accepted);
    pair.world.set(entity, at(1));
    SentPacket empty = pair.tick_and_encode();
    pair.lose(b);
    for (int i = 0; i < 5; ++i) {
        pair.lose(empty);
        empty = pair.tick_and_encode();
    }
    pair.deliver(empty);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 1);
    pair.tick();
    EXPECT_FALSE(pair.encode()) << "after the ack no more is sent";
}

TEST(Sender, Rule01WritesOfTheSameValueSendNothingAndKeepTheBaseline) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    for (int i = 0; i < 20; ++i) {  // writes without a change
        pair.world.set(entity, at(1));
        pair.tick();
        EXPECT_FALSE(pair.encode());
    }
    pair.world.set(entity, at(5));
    EXPECT_EQ(pair.exchange(), 1);  // a delta of the only version that the peer has
    EXPECT_EQ(pair.on_client<Position>(entity).x, 5);
    EXPECT_EQ(pair.receiver.stats().refused_packets, 0u);
}

TEST(Sender, ALostRecordIsReplacedByOneWithTheNewestState) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    const SentPacket first = pair.tick_and_encode();
    pair.world.set(entity, at(2));
    pair.lose(first);
    EXPECT_EQ(pair.exchange(), 1);
    EXPECT_EQ(pair.on_client<Position>(entity).x, 2);
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, 2u);
}

TEST(Sender, ALostRecordIsNotReplacedWhileANewerOneIsInFlight) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(entity, at(2));
    const SentPacket old = pair.tick_and_encode();
    pair.world.set(entity, at(3));
    const SentPacket newer = pair.tick_and_encode();
    pair.lose(old);
    pair.tick();
    EXPECT_FALSE(pair.encode()) << "the newer record is in flight";
    pair.deliver(newer);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 3);
}

TEST(Sender, Rule06ARecordWhoseBaselineIsForgottenIsFull) {
    SenderOptions options;
    options.history_s = 0.1;  // 6 ticks
    Pair pair(options);
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    for (int i = 0; i < 20; ++i) {  // nothing arrives
        pair.world.set(entity, at(static_cast<float>(i)));
        pair.lose(pair.tick_and_encode());
    }
    const std::uint64_t whole_before = pair.sender.stats(pair.peer).full_records;
    pair.world.set(entity, at(30));
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, whole_before + 1);
    EXPECT_EQ(pair.on_client<Position>(entity).x, 30);
    EXPECT_EQ(pair.receiver.entity_count(), 1u) << "it must be the same entity";
}

// The round trip is longer than history_s: up to max_history_s, deltas go on.
TEST(Sender, Rule31VersionsStayWhileAPeerNeedsThem) {
    for (const std::size_t round_trip : {3u, 10u, 25u, 55u, 130u}) {
        SenderOptions options;
        options.history_s = 0.1;    // 6 ticks
        options.max_history_s = 2;  // 120 ticks
        Pair pair(options);
        const ecs::Entity entity = pair.spawn(at(0));
        std::vector<SentPacket> open;
        std::uint64_t full_records = 0;
        for (int i = 1; i <= 400; ++i) {
            pair.world.set(entity, at(static_cast<float>(i % 60)));
            open.push_back(pair.tick_and_encode());
            EXPECT_EQ(pair.receive(open.back()), Receiver::Verdict::accepted);
            pair.receiver.apply();
            if (open.size() > round_trip) {
                pair.tell(open.front(), i % 50 != 0);  // some acks are lost
                open.erase(open.begin());
            }
            if (i == 250) full_records = pair.sender.stats(pair.peer).full_records;
        }
        if (round_trip < 60) {
            EXPECT_EQ(pair.sender.stats(pair.peer).full_records, full_records) << round_trip;
        } else {
            EXPECT_GT(pair.sender.stats(pair.peer).full_records, full_records) << round_trip;
        }
    }
}

TEST(Sender, Rule06AnOldVersionStaysABaselineWhileNothingChanges) {
    SenderOptions options;
    options.history_s = 0.1;
    Pair pair(options);
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    for (int i = 0; i < 500; ++i) pair.exchange();
    const std::uint64_t whole_before = pair.sender.stats(pair.peer).full_records;
    pair.world.set(entity, at(2));
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, whole_before);
    EXPECT_EQ(pair.on_client<Position>(entity).x, 2);
}

// Slots

TEST(Sender, Rule08ALostDespawnRecordIsRepeatedAndItsAckFreesTheSlot) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.destroy(entity);
    for (int i = 0; i < 5; ++i) {
        pair.lose(pair.tick_and_encode());
        EXPECT_EQ(pair.sender.stats(pair.peer).slots, 1u);
    }
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).slots, 0u);
    EXPECT_EQ(pair.mirror.size(), 0u);
    pair.tick();
    EXPECT_FALSE(pair.encode());
}

TEST(Sender, Rule08RemovingTheTagAndAddingItAgainOpensANewSlot) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    const NetId first = pair.sender.net_id(entity);
    pair.world.remove<Replicated>(entity);
    const SentPacket gone = pair.tick_and_encode();
    pair.world.add<Replicated>(entity);
    const SentPacket back = pair.tick_and_encode();
    EXPECT_EQ(pair.sender.stats(pair.peer).slots, 2u);
    EXPECT_EQ(pair.receive(back), Receiver::Verdict::accepted);  // arrives first
    pair.receiver.apply();
    EXPECT_EQ(pair.mirror.size(), 2u);
    EXPECT_EQ(pair.receive(gone), Receiver::Verdict::accepted);
    pair.receiver.apply();
    EXPECT_EQ(pair.mirror.size(), 1u);
    EXPECT_NE(pair.sender.net_id(entity), first);
    EXPECT_EQ(pair.on_client<Position>(entity).x, 1);
}

TEST(Sender, Rule08ADespawnRecordSaysWhetherTheEntityWasDestroyed) {
    for (const bool is_destroyed : {true, false}) {
        Pair pair;
        const ecs::Entity entity = pair.spawn(at(1));
        pair.exchange();
        is_destroyed ? pair.world.destroy(entity) : static_cast<void>(pair.world.remove<Replicated>(entity));
        const SentPacket packet = pair.tick_and_encode();
        BitReader in(packet.bytes);
        const StateHeader header = read_state_header(in);
        ASSERT_TRUE(header.anchor);
        const RecordHeader record = RecordHeaderReader(packet.tick, Tick{0}, in).read();
        EXPECT_EQ(record.kind, RecordKind::despawn);
        EXPECT_EQ(record.reason, is_destroyed ? Despawn::destroyed : Despawn::left);
    }
}

TEST(Sender, AnEntityThatWasNeverSentNeedsNoDespawnRecord) {
    Pair pair;
    pair.exchange();
    const ecs::Entity entity = pair.spawn(at(1));
    pair.tick();
    pair.world.destroy(entity);
    pair.tick();
    EXPECT_EQ(pair.sender.stats(pair.peer).slots, 0u);
    EXPECT_EQ(pair.sender.stats(pair.peer).pending, 0u);
}

TEST(Sender, FatesOfTheFormerEntityDoNotChangeASlotUsedAgain) {
    Pair pair;
    const ecs::Entity old = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(old, at(2));
    const SentPacket delta = pair.tick_and_encode();
    pair.world.destroy(old);
    const SentPacket gone = pair.tick_and_encode();
    pair.deliver(gone);
    const ecs::Entity entity = pair.spawn(at(7));
    const SentPacket fresh = pair.tick_and_encode();
    pair.tell(delta, true);  // late
    pair.lose(fresh);
    pair.exchange();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 7);
    EXPECT_EQ(pair.mirror.size(), 1u);
}

TEST(Sender, Rule04ARebasedSlotGetsAFullRecord) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.sender.rebase(pair.peer, 0);
    pair.sender.rebase(pair.peer, 63);         // a slot that was never used
    pair.sender.rebase(pair.peer, 123456789);  // a slot that does not exist
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, 2u);
    pair.world.set(entity, at(2));
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, 2u);
    EXPECT_EQ(pair.on_client<Position>(entity).x, 2);
    EXPECT_EQ(pair.mirror.size(), 1u);
}

TEST(Sender, Rule04AnEntityDestroyedAfterARebaseGetsADespawnRecord) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.sender.rebase(pair.peer, 0);
    pair.world.destroy(entity);
    pair.exchange();
    EXPECT_EQ(pair.mirror.size(), 0u) << "the replica must be destroyed";
    EXPECT_EQ(pair.sender.stats(pair.peer).slots, 0u);
}

TEST(Sender, Rule04AfterARebaseFatesOfEarlierPacketsAreIgnored) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(entity, at(2));
    const SentPacket before = pair.tick_and_encode();
    pair.tick();
    pair.sender.rebase(pair.peer, 0);
    pair.deliver(before);
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, 2u);
    EXPECT_EQ(pair.on_client<Position>(entity).x, 2);
    EXPECT_TRUE(pair.sender.is_settled(pair.peer));
}

// Completeness

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

// Fates

TEST(Sender, Rule14FatesOfUnknownPacketsAndSecondFatesChangeNothing) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(entity, at(2));
    const SentPacket packet = pair.tick_and_encode();
    pair.sender.on_fate(pair.peer, 999, true);
    pair.sender.on_fate(pair.peer, 0, false);
    pair.deliver(packet);
    pair.lose(packet);  // net/ never reports twice, but it must be safe
    pair.tick();
    EXPECT_FALSE(pair.encode());
    EXPECT_EQ(pair.sender.stats(pair.peer).pending, 0u);
}

TEST(Sender, Rule14FatesMayComeInAnyOrder) {
    Pair pair({}, {}, 0xfffffff8u, 0xfffffff0u);  // ticks and packet numbers wrap around
    const ecs::Entity entity = pair.spawn(at(0)), other = pair.spawn(at(0));
    sim::Random random(1);
    std::vector<SentPacket> open;
    for (int i = 1; i < 400; ++i) {
        pair.world.set(random.chance(0.5) ? entity : other, at(static_cast<float>(random.below(4))));
        pair.tick();
        if (const auto packet = pair.encode()) open.push_back(*packet);
        while (open.size() > 8) {
            const std::size_t which = random.below(static_cast<std::uint32_t>(open.size()));
            const bool arrives = random.chance(0.6);
            const bool accepted = arrives && pair.receive(open[which]) == Receiver::Verdict::accepted;
            pair.tell(open[which], accepted && random.chance(0.8));  // some acks are lost
            ASSERT_TRUE(pair.sender.is_consistent());
            open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
            pair.forward_rebases();
            pair.receiver.apply();
        }
    }
    for (const SentPacket& packet : open) pair.lose(packet);
    for (int i = 0; i < 3; ++i) pair.exchange();
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_EQ(pair.receiver.stats().malformed_packets, 0u);
}

// Goal: slots of destroyed entities are used again, also beyond the first 64.
TEST(Sender, FreedSlotsAreUsedAgain) {
    Pair pair;
    for (int round = 0; round < 3; ++round) {
        std::vector<ecs::Entity> entities;
        for (int i = 0; i < 130; ++i) entities.push_back(pair.spawn(at(1)));
        pair.exchange();
        pair.receiver.for_each_version(
            [&](std::uint32_t slot, std::uint32_t, Tick, const Image&) { ASSERT_LT(slot, 130u) << round; });
        for (const ecs::Entity entity : entities) pair.world.destroy(entity);
        pair.exchange();
        pair.exchange();
        EXPECT_EQ(pair.sender.stats(pair.peer).slots, 0u);
    }
}

// Goal: an ack that arrives after that of a newer packet changes neither the baseline, to a version that the
// receiver dropped (there would be a rebase), nor the anchor.
TEST(Sender, ALateAckDoesNotMoveTheBaselineBack) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    const SentPacket first = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(first), Receiver::Verdict::accepted);
    pair.world.set(entity, at(2));
    const SentPacket second = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(second), Receiver::Verdict::accepted);
    pair.tell(second, true);
    pair.world.set(entity, at(3));
    const SentPacket third = pair.tick_and_encode();  // based on the second
    EXPECT_EQ(pair.receive(third), Receiver::Verdict::accepted);
    pair.receiver.apply();
    pair.tell(first, true);
    pair.world.set(entity, at(4));
    const SentPacket fourth = pair.tick_and_encode();
    ASSERT_TRUE(header_of(fourth).anchor);
    EXPECT_EQ(header_of(fourth).anchor->distance, fourth.number - second.number);
    EXPECT_EQ(pair.receive(fourth), Receiver::Verdict::accepted);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 4);
    EXPECT_EQ(pair.receiver.stats().rebases, 0u);
}

// Goal: anchors and completion markers refer exactly as far back as the format and the receiver allow.
TEST(Sender, DistancesReachExactlyTheLimitOfTheFormat) {
    for (std::uint64_t distance = 250; distance <= 260; ++distance) {
        SCOPED_TRACE(distance);
        const bool is_near = distance <= kMaxPacketDistance;
        Pair anchored;
        const ecs::Entity a = anchored.spawn(at(1));
        const SentPacket start = anchored.tick_and_encode();
        anchored.deliver(start);
        anchored.receiver.apply();
        anchored.next_number = start.number + distance;
        anchored.world.set(a, at(2));
        const SentPacket packet = anchored.tick_and_encode();
        ASSERT_EQ(packet.number, start.number + distance);
        EXPECT_EQ(header_of(packet).anchor.has_value(), is_near);
        EXPECT_EQ(anchored.receive(packet), Receiver::Verdict::accepted);
        anchored.receiver.apply();
        EXPECT_EQ(anchored.on_client<Position>(a).x, 2);

        Pair undecided;
        const ecs::Entity b = undecided.spawn(at(1)), c = undecided.spawn(at(1));
        undecided.exchange();
        undecided.world.set(b, at(2));
        const SentPacket open = undecided.tick_and_encode();
        EXPECT_EQ(undecided.receive(open), Receiver::Verdict::accepted);  // the sender does not know it
        undecided.next_number = open.number + distance;
        undecided.world.set(c, at(2));
        const SentPacket last = undecided.tick_and_encode();
        ASSERT_EQ(header_of(last).complete.has_value(), is_near);
        EXPECT_EQ(undecided.receive(last), Receiver::Verdict::accepted);
        undecided.receiver.apply();
        EXPECT_EQ(undecided.receiver.complete().has_value(), is_near);
    }
}

// Slots

TEST(Sender, Rule30APeerGetsNoMoreSlotsThanItCanTakeAndTheOthersWait) {
    constexpr std::uint32_t kSlots = 50;
    Pair pair;
    pair.sender.remove_peer(pair.peer);
    pair.peer = pair.sender.add_peer({.max_slots = kSlots});
    sim::Random random(1);
    std::vector<ecs::Entity> entities;
    for (int tick = 0; tick < 400; ++tick) {
        for (std::uint32_t n = random.below(tick < 300 ? 60 : 1); n > 0; --n)
            entities.push_back(pair.spawn(at(static_cast<float>(tick % 60))));
        for (std::uint32_t n = random.below(tick < 300 ? 60 : 1); n > 0 && !entities.empty(); --n) {
            const std::size_t which = random.below(static_cast<std::uint32_t>(entities.size()));
            pair.world.destroy(entities[which]);
            entities.erase(entities.begin() + static_cast<std::ptrdiff_t>(which));
        }
        for (; tick >= 300 && entities.size() > kSlots; entities.pop_back())  // in the end all fit
            pair.world.destroy(entities.back());
        for (const ecs::Entity entity : entities)
            if (random.chance(0.1)) pair.world.set(entity, at(static_cast<float>(random.below(60))));
        pair.tick();
        for (int i = 0; i < 3; ++i)
            if (const auto packet = pair.encode(300))
                random.chance(0.2) ? pair.lose(*packet) : pair.deliver(*packet);
        pair.receiver.apply();
        const Sender::PeerStats stats = pair.sender.stats(pair.peer);
        ASSERT_LE(stats.slots, kSlots);
        ASSERT_TRUE(pair.sender.is_consistent());
        if (stats.waiting != 0) {
            ASSERT_FALSE(pair.sender.is_settled(pair.peer));
            ASSERT_FALSE(pair.receiver.complete() && pair.receiver.complete()->tick == pair.sender.tick());
        }
        pair.receiver.for_each_version(
            [&](std::uint32_t slot, std::uint32_t, Tick, const Image&) { ASSERT_LT(slot, kSlots); });
    }
    ASSERT_LE(entities.size(), kSlots);
    for (int i = 0; i < 20; ++i) pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).waiting, 0u);
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_TRUE(pair.receiver.complete());
}

// The only slot goes from entity to entity. New entities take the entries of those that are gone.
TEST(Sender, Rule30NoEntityWaitsForASlotForeverWhileOthersComeAndGo) {
    constexpr int kWaiting = 5;
    Pair pair;
    pair.sender.remove_peer(pair.peer);
    pair.peer = pair.sender.add_peer({.max_slots = 1});
    std::vector<ecs::Entity> first, all;
    for (int i = 0; i <= kWaiting; ++i) first.push_back(pair.spawn(at(1)));
    all = first;
    for (int round = 0; round < 3 * kWaiting; ++round) {
        for (int i = 0; i < 3; ++i) pair.exchange();
        ASSERT_EQ(pair.receiver.entity_count(), 1u);
        for (const ecs::Entity entity : all)
            if (pair.world.is_alive(entity) && pair.replica(entity)) pair.world.destroy(entity);
        all.push_back(pair.spawn(at(2)));
    }
    for (const ecs::Entity entity : first) EXPECT_FALSE(pair.world.is_alive(entity)) << "it had the slot";
}

// Cost

TEST(Sender, AnIdleTickSendsNothingAndReadsNoEntity) {
    Pair pair;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 500; ++i) entities.push_back(pair.spawn(at(1)));
    while (pair.exchange() > 0) {
    }
    // Writes that change detection does not see must not be found: then no entity was read.
    for (const ecs::Entity entity : entities) pair.world.unsafe_raw_unmarked<Position>(entity)->x = 50;
    const std::uint64_t records = pair.sender.stats(pair.peer).records_sent;
    const std::size_t allocations = test::allocations();
    int packets = 0;
    for (int i = 0; i < 600; ++i) {
        pair.tick();
        while (const auto packet = pair.encode()) {
            pair.deliver(*packet);
            ++packets;
        }
    }
    EXPECT_EQ(pair.sender.stats(pair.peer).records_sent, records);
    EXPECT_LE(packets, 11) << "one heartbeat per second";
    EXPECT_LE(test::allocations() - allocations, 11u * 8) << "allocations of the test itself";
}

TEST(Sender, PeersWithTheSameBaselineGetTheSameBits) {
    Pair pair;
    const Sender::Peer second = pair.sender.add_peer();
    const ecs::Entity entity = pair.spawn(at(1), Name{"both"});
    for (int i = 0; i < 5; ++i) {
        pair.world.set(entity, at(static_cast<float>(i)));
        const SentPacket packet = pair.tick_and_encode();
        std::byte room[1300];
        const auto payload = pair.sender.encode(second, packet.number, 1100, room);
        EXPECT_EQ(std::vector<std::byte>(payload.begin(), payload.end()), packet.bytes);
        pair.tell(packet, true);
        pair.sender.on_fate(second, packet.number, true);
    }
}

TEST(Sender, ANewPeerGetsEverythingAndARemovedOneLeavesNoState) {
    Pair pair;
    for (int i = 0; i < 100; ++i) pair.spawn(at(1));
    pair.exchange();
    for (int round = 0; round < 5; ++round) {
        const Sender::Peer late = pair.sender.add_peer();
        EXPECT_EQ(late, 1u) << "the number of a removed peer is used again";
        EXPECT_EQ(pair.sender.stats(late).pending, 100u);
        EXPECT_EQ(pair.sender.stats(late).records_sent, 0u);
        pair.sender.remove_peer(late);
        pair.exchange();
    }
}

// Wire

std::vector<int> numbers(const SentPacket& packet) {
    std::vector<int> out;
    for (const std::byte byte : packet.bytes) out.push_back(std::to_integer<int>(byte));
    return out;
}

TEST(StatePayload, BytesOfEachKindOfRecordAreFixed) {
    struct Spot {
        std::uint8_t x = 0, y = 0;
    };
    Schema schema;
    schema.component<Spot>("spot");
    ecs::World world;
    Sender sender(world, schema);
    const Sender::Peer peer = sender.add_peer();
    std::uint64_t number = 1;
    const auto packet = [&](Tick tick) {
        sender.update(tick);
        std::byte room[1300];
        const auto payload = sender.encode(peer, number, 1000, room);
        sender.on_fate(peer, number++, true);
        return numbers({0, tick, {payload.begin(), payload.end()}});
    };
    const ecs::Entity entity = world.spawn(Replicated{}, Spot{5, 6});
    EXPECT_EQ(packet(0x01020304), (std::vector<int>{8, 6, 4, 2, 130, 192, 0, 0, 0, 0, 178, 192, 0}));
    world.set(entity, Spot{5, 7});
    EXPECT_EQ(packet(0x01020305), (std::vector<int>{33, 8, 5, 5}));
    world.destroy(entity);
    EXPECT_EQ(packet(0x01020306), (std::vector<int>{33, 8, 0}));
    EXPECT_EQ(packet(0x01020306 + 60), (std::vector<int>{241, 187, 227, 235, 0}));
}

}  // namespace
}  // namespace shoal::replication
