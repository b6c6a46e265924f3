// Peers that acknowledge nothing for longer than the history lasts.

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl::silent_peer_test {
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

// Rules 6 and 29.
TEST(SilentPeer, GetsFullRecordsOfWhatChangedForTheEntitiesThatItHas) {
    Pair pair;
    std::vector<ecs::Entity> moving;
    for (int i = 0; i < 20; ++i) moving.push_back(pair.spawn(at(0), Name{"Bartholomew"}));
    pair.spawn(at(3));
    pair.exchange();
    const ecs::Entity replica = pair.replica(moving[0]);
    stay_silent(pair, kFiveSeconds, moving);
    const auto before = pair.sender.stats(pair.peer);
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, before.full_records + 20)
        << "not the one that rests";
    EXPECT_EQ(pair.replica(moving[0]), replica);
    EXPECT_TRUE(pair.worlds_are_equal());
}

// Goal: a peer that becomes silent makes no update forget more versions than a few ticks', and the history of
// the others hardly longer.
TEST(SilentPeer, DoesNotMakeTheHistoryJump) {
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
    EXPECT_TRUE(pair.sender.is_consistent());
}

struct Purse {
    int coins = 0;
};

// Rule 2. The version that the peer has showed it a component of the owner; no version in the history has it.
TEST(SilentPeer, Rule02AnOwnerThatLosesTheEntityInTheMeantimeGetsAFullRecord) {
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
TEST(SilentPeer, ChangesOfAllKindsInSilencesOfAllLengths) {
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
}  // namespace shoal::replication::impl::silent_peer_test
