#include "replication/send/sender.h"

#include <gtest/gtest.h>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

using sim::Position;

TEST(Sender, Rule08ALostDespawnRecordIsRepeatedAndItsAckFreesTheSlot) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.destroy(entity);
    for (int i = 0; i < 5; ++i) {
        pair.lose(pair.tick_and_encode());
        EXPECT_EQ(pair.sender.stats(pair.peer).slots_used, 1u);
    }
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).slots_used, 0u);
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
    EXPECT_EQ(pair.sender.stats(pair.peer).slots_used, 2u);
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
        StateHeader header = read_state_header(in);
        ASSERT_TRUE(header.anchor);
        header.tick = packet.tick;
        const std::uint32_t slot = 0;
        const RecordHeader record = RecordHeaderCoder(header, {&slot, header.is_listed ? 1u : 0u}).read(in);
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
    EXPECT_EQ(pair.sender.stats(pair.peer).slots_used, 0u);
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
    EXPECT_EQ(pair.sender.stats(pair.peer).slots_used, 0u);
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

// Goal: a peer that asks for full records for ever gets its entities anew once, and then a tenth per second.
TEST(Sender, Rule04FullRecordsThatAPeerRequestsAreLimitedInTime) {
    Pair pair;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 300; ++i) entities.push_back(pair.spawn(at(1)));
    pair.exchange();
    for (int tick = 0; tick < 600; ++tick) {  // ten seconds
        for (std::uint32_t slot = 0; slot < 300; ++slot) pair.sender.rebase(pair.peer, slot);
        for (const ecs::Entity entity : entities) pair.world.set(entity, at(static_cast<float>(tick % 40)));
        pair.exchange();
    }
    EXPECT_LE(pair.sender.stats(pair.peer).full_records, 300u + 300u + 300u + 5u);
    EXPECT_GE(pair.sender.stats(pair.peer).full_records, 300u + 300u + 295u) << "none is forgotten";
    EXPECT_TRUE(pair.worlds_are_equal());
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
        EXPECT_EQ(pair.sender.stats(pair.peer).slots_used, 0u);
    }
}

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
        ASSERT_LE(stats.slots_used, kSlots);
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

}  // namespace
}  // namespace shoal::replication::impl
