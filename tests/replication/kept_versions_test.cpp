// Versions that outlive the history, because a peer that acknowledges nothing may still have them.

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::kept_versions_test {
namespace {

using sim::Health;
using sim::Name;
using sim::Position;

constexpr int kFiveSeconds = 300;  // ticks; the history has 36

/// The peer's packets are lost, and so is what it would say.
void stay_silent(Pair& pair, int ticks, const std::vector<ecs::Entity>& moving) {
    for (int i = 0; i < ticks; ++i) {
        for (const ecs::Entity entity : moving)
            pair.world.patch<Position>(entity, [](Position& p) { p.x = p.x < 50 ? p.x + 0.25f : -50; });
        pair.tick();
        std::vector<SentPacket> lost;
        while (const std::optional<SentPacket> packet = pair.encode()) lost.push_back(*packet);
        for (const SentPacket& packet : lost) pair.lose(packet);
    }
}

TEST(KeptVersions, Rule31ASilentPeerGetsADeltaAgainstWhatItAcknowledged) {
    Pair pair;
    std::vector<ecs::Entity> moving;
    for (int i = 0; i < 20; ++i) moving.push_back(pair.spawn(at(0), Name{"Bartholomew"}));
    pair.spawn(at(3));
    pair.exchange();
    stay_silent(pair, kFiveSeconds, moving);
    EXPECT_EQ(pair.sender.stats(pair.peer).kept, 20u) << "not the one that rests";
    EXPECT_TRUE(pair.sender.is_consistent());
    const auto before = pair.sender.stats(pair.peer);
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, before.full_records);
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_EQ(pair.sender.stats(pair.peer).kept, 0u) << "it acknowledged newer ones";
    EXPECT_TRUE(pair.sender.is_consistent());
}

TEST(KeptVersions, ThereAreNoneWhileAcksArrive) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(0));
    pair.exchange();
    std::vector<SentPacket> under_way;
    for (int tick = 0; tick < 200; ++tick) {
        pair.world.set(entity, at(static_cast<float>(tick % 50)));
        pair.tick();
        while (std::optional<SentPacket> packet = pair.encode()) under_way.push_back(*packet);
        if (under_way.size() > 15) {  // a round trip of a quarter of a second; each fifth packet is lost
            if (under_way.front().number % 5 == 0) pair.lose(under_way.front());
            if (under_way.front().number % 5 != 0) pair.deliver(under_way.front());
            under_way.erase(under_way.begin());
        }
        ASSERT_EQ(pair.sender.stats(pair.peer).kept, 0u);
    }
}

// Goal: a peer that becomes silent makes no update forget more versions than a few ticks', and the history of
// the others hardly longer.
TEST(KeptVersions, ASilentPeerDoesNotMakeTheHistoryJump) {
    Pair pair;
    std::vector<ecs::Entity> moving;
    for (int i = 0; i < 1'200; ++i) moving.push_back(pair.spawn(at(0)));
    pair.exchange();
    Tick longest = 0;
    for (int tick = 0; tick < kFiveSeconds; ++tick) {
        const Tick before = pair.sender.shadow().horizon();
        for (const ecs::Entity entity : moving)
            pair.world.patch<Position>(entity, [&](Position& p) { p.x = static_cast<float>(tick % 100); });
        pair.tick();
        while (pair.encode(1'100, false)) {  // no ack, and no loss
        }
        // Before that there is nothing to forget.
        if (static_cast<std::int32_t>(before) > 2) {
            EXPECT_LE(pair.sender.shadow().horizon() - before, 2u);
        }
        longest = std::max(longest, pair.sender.tick() - pair.sender.shadow().horizon());
    }
    EXPECT_LE(longest, 36u * 5 / 2);
    EXPECT_EQ(pair.sender.tick() - pair.sender.shadow().horizon(), 36u);
    EXPECT_EQ(pair.sender.stats(pair.peer).kept, 1'200u);
    EXPECT_TRUE(pair.sender.is_consistent());
}

TEST(KeptVersions, TakeNoMoreMemoryThanTheOptionsAllow) {
    Pair pair({.max_kept_bytes = 10 * 128});
    std::vector<ecs::Entity> moving;
    for (int i = 0; i < 50; ++i) moving.push_back(pair.spawn(at(0)));
    pair.exchange();
    stay_silent(pair, kFiveSeconds, moving);
    EXPECT_GT(pair.sender.stats(pair.peer).kept, 5u);
    EXPECT_LE(pair.sender.stats(pair.peer).kept, 10u);
    const auto before = pair.sender.stats(pair.peer);
    pair.exchange();
    EXPECT_GE(pair.sender.stats(pair.peer).full_records, before.full_records + 40);
    EXPECT_TRUE(pair.worlds_are_equal());
}

// Two peers, and entities that change one after the other.
TEST(KeptVersions, OfAllPeersAndTicksTakeNoMoreMemoryThanTheOptionsAllow) {
    Pair pair({.max_kept_bytes = 10 * 128});
    std::vector<ecs::Entity> moving;
    for (int i = 0; i < 50; ++i) moving.push_back(pair.spawn(at(0)));
    const Sender::Peer other = pair.sender.add_peer();
    pair.exchange();
    std::byte room[1300];
    while (!pair.sender.encode(other, pair.next_number, 1100, room).empty())
        pair.sender.on_fate(other, pair.next_number++, true);
    pair.sender.suspend_peer(other);
    for (const ecs::Entity entity : moving) stay_silent(pair, 8, {entity});
    stay_silent(pair, 60, {});
    const auto kept = pair.sender.stats(pair.peer).kept + pair.sender.stats(other).kept;
    EXPECT_GT(kept, 5u);
    EXPECT_LE(kept, 10u);
    EXPECT_TRUE(pair.sender.is_consistent());
    pair.exchange();
    EXPECT_TRUE(pair.worlds_are_equal());
}

// One record in each tick: an entity waits for longer than the history lasts.
TEST(KeptVersions, ThereAreNoneForAPeerThatAnswersThoughItsEntitiesWaitLong) {
    Pair pair;
    std::vector<ecs::Entity> moving;
    for (int i = 0; i < 60; ++i) moving.push_back(pair.spawn(at(0)));
    pair.exchange();
    for (int tick = 1; tick <= 200; ++tick) {
        for (const ecs::Entity entity : moving) pair.world.set(entity, at(static_cast<float>(tick % 50)));
        pair.exchange_one(1);
        ASSERT_EQ(pair.sender.stats(pair.peer).kept, 0u) << tick;
    }
    EXPECT_GT(pair.sender.stats(pair.peer).full_records, 100u) << "the history forgot their baselines";
    pair.exchange();
    EXPECT_TRUE(pair.worlds_are_equal());
}

// The first of two packets is acknowledged. Then the path is blocked.
TEST(KeptVersions, APeerIsSilentThatDoesNotAnswerASecondPacket) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(0));
    pair.exchange();
    pair.world.set(entity, at(1));
    const SentPacket first = pair.tick_and_encode();
    pair.world.set(entity, at(2));
    const SentPacket second = pair.tick_and_encode();
    pair.deliver(first);
    for (int tick = 0; tick < kFiveSeconds; ++tick) {
        pair.world.set(entity, at(static_cast<float>(tick % 50)));
        pair.tick();
    }
    EXPECT_EQ(pair.sender.stats(pair.peer).kept, 1u);
    const std::uint64_t full = pair.sender.stats(pair.peer).full_records;
    pair.lose(second);
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, full);
    EXPECT_TRUE(pair.worlds_are_equal());
}

TEST(KeptVersions, EndWithTheirEntityAndTheirPeer) {
    Pair pair;
    std::vector<ecs::Entity> moving;
    for (int i = 0; i < 4; ++i) moving.push_back(pair.spawn(at(0)));
    const Sender::Peer other = pair.sender.add_peer();
    pair.exchange();
    std::byte room[1300];
    while (!pair.sender.encode(other, pair.next_number, 1100, room).empty())
        pair.sender.on_fate(other, pair.next_number++, true);
    pair.sender.suspend_peer(other);
    stay_silent(pair, 100, moving);
    EXPECT_EQ(pair.sender.stats(pair.peer).kept, 4u);
    EXPECT_EQ(pair.sender.stats(other).kept, 4u);
    pair.world.destroy(moving[0]);
    pair.tick();
    EXPECT_EQ(pair.sender.stats(pair.peer).kept, 3u);
    pair.sender.restart_peer(pair.peer);
    EXPECT_EQ(pair.sender.stats(pair.peer).kept, 0u);
    EXPECT_TRUE(pair.sender.is_consistent());
    pair.sender.remove_peer(other);
    EXPECT_TRUE(pair.sender.is_consistent());
    pair.exchange();
    EXPECT_TRUE(pair.worlds_are_equal());
}

struct Purse {
    int coins = 0;
};

// Rule 2. The version that the peer has showed it a component of the owner; no version in the history has it.
TEST(KeptVersions, Rule02AnOwnerThatLosesTheEntityInTheMeantimeGetsAFullRecord) {
    Schema schema;
    sim::describe(schema);
    schema.component<Purse>("purse", to_owner());
    Pair pair({}, {}, 1, 1, schema);
    const ecs::Entity chest = pair.spawn(at(0), Purse{7});
    pair.sender.set_owner(chest, pair.peer);
    pair.exchange();
    ASSERT_EQ(pair.on_client<Purse>(chest).coins, 7);
    pair.world.remove<Purse>(chest);
    stay_silent(pair, kFiveSeconds, {chest});
    EXPECT_EQ(pair.sender.stats(pair.peer).kept, 1u);
    pair.sender.set_owner(chest, std::nullopt);
    stay_silent(pair, 2, {chest});
    pair.exchange_one(1100);
    ASSERT_TRUE(pair.replica(chest));
    EXPECT_FALSE(pair.mirror.has<Purse>(pair.replica(chest)));
    EXPECT_EQ(pair.on_client<Position>(chest).x, pair.world.get<Position>(chest).x);
    EXPECT_EQ(pair.receiver.stats().refused_packets, 0u);
}

// Goal: whatever changes while the peer is silent, it then gets the server's world without asking for
// records.
TEST(KeptVersions, ChangesOfAllKindsInSilencesOfAllLengths) {
    for (std::uint32_t seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        Pair pair;
        std::vector<ecs::Entity> entities;
        for (int i = 0; i < 40; ++i) entities.push_back(pair.spawn(at(0)));
        for (int round = 0; round < 12; ++round) {
            const auto silence = random() % 120;
            for (auto tick = silence; tick > 0; --tick) {
                for (ecs::Entity& entity : entities) {
                    switch (random() % 60) {
                        case 0:
                            pair.world.set(entity, Health{static_cast<std::int32_t>(random() % 3), 0});
                            break;
                        case 1:
                            if (pair.world.has<Health>(entity)) pair.world.remove<Health>(entity);
                            break;
                        case 2:
                            pair.world.set(entity, at(static_cast<float>(random() % 3)));
                            break;
                        case 3:
                            if (random() % 5 != 0) break;
                            pair.world.destroy(entity);
                            entity = pair.spawn(at(1));
                            break;
                    }
                }
                pair.tick();
                // Some packets arrive, but nobody hears of it.
                std::vector<SentPacket> lost;
                while (const std::optional<SentPacket> packet = pair.encode()) lost.push_back(*packet);
                for (const SentPacket& packet : lost) {
                    if (random() % 3 == 0) static_cast<void>(pair.receive(packet));
                    pair.lose(packet);
                }
            }
            for (int i = 0; i < 3; ++i) pair.exchange();
            ASSERT_TRUE(pair.worlds_are_equal()) << "round " << round;
            ASSERT_TRUE(pair.sender.is_consistent());
        }
        EXPECT_EQ(pair.receiver.stats().refused_packets, 0u);
    }
}

}  // namespace
}  // namespace shoal::replication::kept_versions_test
