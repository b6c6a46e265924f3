#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "net/endpoint.h"
#include "replication/schema/own_components.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

using sim::Position;

/// Entities with a position of x.
std::vector<ecs::Entity> spawn_some(Pair& pair, int count, float x, std::optional<Cluster> cluster = {}) {
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < count; ++i) {
        entities.push_back(pair.spawn(at(x)));
        if (cluster) pair.world.set(entities.back(), *cluster);
    }
    return entities;
}

/// The x of the replicas in the client's world, in ascending order.
std::vector<float> shown(Pair& pair) {
    pair.receiver.apply();
    std::vector<float> all;
    pair.receiver.for_each_entity(
        [&](NetId, ecs::Entity entity) { all.push_back(pair.mirror.get<Position>(entity).x); });
    std::sort(all.begin(), all.end());
    return all;
}

TEST(Clusters, APacketBringsAlongWhatIsInFlight) {
    Pair pair;
    const auto crew = spawn_some(pair, 3, 1, Cluster{7});
    const ecs::Entity single = pair.spawn(at(1));
    pair.exchange();
    pair.exchange();
    pair.world.set(crew[0], at(2));
    pair.world.set(single, at(2));
    pair.tick_and_encode();  // it never arrives
    pair.world.set(crew[1], at(3));
    const SentPacket second = pair.tick_and_encode();
    EXPECT_EQ(header_of(second).record_count, 2u) << "that of crew[0] again, that of the single entity not";
    pair.deliver(second);
    EXPECT_EQ(shown(pair), (std::vector<float>{1, 1, 2, 3}));
    EXPECT_TRUE(pair.sender.is_consistent());
}

TEST(Clusters, WhatIsAcknowledgedIsNotSentAgain) {
    Pair pair;
    const auto crew = spawn_some(pair, 3, 1, Cluster{7});
    pair.exchange();
    pair.exchange();
    pair.world.set(crew[0], at(2));
    EXPECT_EQ(header_of(pair.tick_and_encode()).record_count, 1u);
}

TEST(Clusters, APacketHasAllOfAClusterOrNothing) {
    Pair pair;
    spawn_some(pair, 10, 1);
    spawn_some(pair, 10, 2, Cluster{1});
    spawn_some(pair, 10, 3, Cluster{0xffffffff});
    pair.tick();
    std::vector<std::vector<float>> steps;
    while (const auto packet = pair.encode(150)) {
        pair.deliver(*packet);
        steps.push_back(shown(pair));
    }
    ASSERT_GT(steps.size(), 2u);
    for (const auto& step : steps)
        for (const float x : {2.0f, 3.0f}) {
            const auto count = std::count(step.begin(), step.end(), x);
            EXPECT_TRUE(count == 0 || count == 10) << count << " of 10";
        }
    EXPECT_EQ(steps.back().size(), 30u);
}

// What is pending turns out to equal what the peer has, while another record is in flight.
TEST(Clusters, NothingIsSentIfOnlyRecordsInFlightAreLeft) {
    Pair pair;
    const auto crew = spawn_some(pair, 2, 1, Cluster{7});
    pair.exchange();
    pair.exchange();
    pair.world.set(crew[0], at(2));
    const SentPacket under_way = pair.tick_and_encode();
    pair.world.set(crew[1], at(2));
    pair.tick();
    pair.world.set(crew[1], at(1));
    pair.tick();
    EXPECT_FALSE(pair.encode()) << "crew[1] is as the peer knows it";
    EXPECT_TRUE(pair.sender.is_consistent());
    pair.deliver(under_way);
    EXPECT_EQ(shown(pair), (std::vector<float>{1, 2}));
}

TEST(Clusters, EntitiesJoinAndLeave) {
    Pair pair;
    const auto crew = spawn_some(pair, 3, 1, Cluster{7});
    pair.world.set(crew[0], Cluster{8});
    pair.exchange();
    pair.exchange();
    const auto count_after_loss = [&] {
        pair.world.set(crew[0], at(2));
        const SentPacket lost = pair.tick_and_encode();
        pair.world.set(crew[1], at(3));
        const std::uint32_t count = header_of(pair.tick_and_encode()).record_count;
        pair.lose(lost);
        pair.exchange();
        pair.exchange();
        pair.world.set(crew[0], at(1));
        pair.world.set(crew[1], at(1));
        pair.exchange();
        pair.exchange();
        return count;
    };
    EXPECT_EQ(count_after_loss(), 1u) << "crew[0] is in another cluster";
    pair.world.set(crew[0], Cluster{7});
    EXPECT_EQ(count_after_loss(), 2u);
    pair.world.remove<Cluster>(crew[1]);
    EXPECT_EQ(count_after_loss(), 1u);
    pair.world.set(crew[1], Cluster{7});
    pair.world.remove<Replicated>(crew[1]);
    pair.exchange();
    pair.world.add<Replicated>(crew[1]);
    EXPECT_EQ((pair.exchange(), pair.exchange(), count_after_loss()), 2u) << "it replicates again";
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_TRUE(pair.sender.is_consistent());
}

TEST(Clusters, APeerThatJoinsLaterGetsThemToo) {
    Pair pair;
    spawn_some(pair, 10, 2, Cluster{1});
    pair.exchange();
    pair.sender.remove_peer(pair.peer);
    pair.receiver.reset();
    pair.receiver.apply();
    pair.peer = pair.sender.add_peer();
    pair.tick();
    pair.deliver(*pair.encode(30));
    EXPECT_EQ(shown(pair).size(), 10u);
}

// The despawn record travels in two packets. The second one gets lost when the slot is free already.
TEST(Clusters, AnEntityDiesWithTheChangesOfTheOthers) {
    Pair pair;
    const auto crew = spawn_some(pair, 3, 1, Cluster{7});
    pair.exchange();
    pair.exchange();
    pair.world.destroy(crew[0]);
    pair.world.set(crew[1], at(2));
    const SentPacket first = pair.tick_and_encode();
    pair.world.set(crew[2], at(3));
    const SentPacket second = pair.tick_and_encode();
    EXPECT_EQ(header_of(second).record_count, 3u);
    pair.deliver(first);
    EXPECT_EQ(shown(pair), (std::vector<float>{1, 2}));
    pair.lose(second);
    EXPECT_TRUE(pair.sender.is_consistent());
    pair.spawn(at(4));  // takes the slot
    pair.exchange();
    pair.exchange();
    EXPECT_EQ(shown(pair), (std::vector<float>{2, 3, 4}));
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_EQ(pair.sender.stats(pair.peer).pending, 0u);
}

TEST(Clusters, AClusterAndASingleEntityTakeTurns) {
    Pair pair;
    const auto crew = spawn_some(pair, 20, 1, Cluster{7});
    const ecs::Entity single = pair.spawn(at(1));
    pair.exchange();
    pair.exchange();
    for (int tick = 0; tick < 20; ++tick) {
        for (const ecs::Entity entity : crew) pair.world.set(entity, at(static_cast<float>(tick)));
        pair.world.set(single, at(static_cast<float>(tick)));
        pair.exchange_one(1);
        EXPECT_GE(pair.on_client<Position>(single).x, static_cast<float>(tick - 1)) << "every second tick";
    }
}

TEST(Clusters, WhatNeedsALargePayloadWaitsWhileNoneIsAllowed) {
    Pair pair;
    const auto fleet = spawn_some(pair, 1'000, 1, Cluster{7});
    spawn_some(pair, 5, 2);
    pair.tick();
    const auto small = pair.encode(1100, false);
    ASSERT_TRUE(small);
    EXPECT_EQ(header_of(*small).record_count, 5u);
    EXPECT_FALSE(header_of(*small).complete) << "the others wait";
    EXPECT_FALSE(pair.encode(1100, false));
    EXPECT_FALSE(pair.sender.is_settled(pair.peer));
    pair.deliver(*small);
    EXPECT_EQ(shown(pair).size(), 5u);
    const auto large = pair.encode(1100, true);
    ASSERT_TRUE(large);
    EXPECT_EQ(header_of(*large).record_count, 1'000u);
    EXPECT_TRUE(header_of(*large).complete);
    EXPECT_GT(large->bytes.size(), 5'000u);
    pair.world.set(fleet[0], at(3));
    pair.tick();
    EXPECT_FALSE(pair.encode(1100, false)) << "the large payload can still get lost";
    pair.deliver(*large);
    const auto last = pair.encode(1100, false);
    ASSERT_TRUE(last);
    EXPECT_EQ(header_of(*last).record_count, 1u);
    pair.deliver(*last);
    EXPECT_EQ(shown(pair).size(), 1'005u);
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_TRUE(pair.sender.is_consistent());
}

TEST(Clusters, AClusterLargerThanTheLargestPayloadArrivesInParts) {
    Pair pair;
    for (int i = 0; i < 6'000; ++i)
        pair.spawn(at(1), Cluster{7}, sim::Name{std::string(30, static_cast<char>('a' + i % 26))});
    pair.tick();
    int packets = 0;
    for (; pair.sender.stats(pair.peer).pending != 0; ++packets) {
        const auto packet = pair.encode(1100);
        ASSERT_TRUE(packet);
        ASSERT_LE(packet->bytes.size(), net::kMaxLargePayloadBytes);
        pair.deliver(*packet);
    }
    EXPECT_GT(packets, 10);
    EXPECT_GT(pair.sender.stats(pair.peer).parted_clusters, 0u);
    pair.exchange();
    EXPECT_TRUE(pair.worlds_are_equal());
}

TEST(Clusters, EntitiesThatWaitForASlotArriveLaterThanTheirCluster) {
    Pair pair;
    pair.sender.remove_peer(pair.peer);
    pair.peer = pair.sender.add_peer({.max_slots = 5});
    const ecs::Entity single = pair.spawn(at(1));
    const auto crew = spawn_some(pair, 6, 2, Cluster{7});
    pair.exchange();
    EXPECT_EQ(shown(pair).size(), 5u);
    EXPECT_EQ(pair.sender.stats(pair.peer).waiting, 2u);
    pair.world.destroy(single);
    for (const ecs::Entity entity : crew) pair.world.set(entity, at(3));
    pair.exchange();
    EXPECT_EQ(shown(pair), std::vector<float>(4, 3)) << "those with a slot keep together";
    pair.exchange();
    EXPECT_EQ(shown(pair), std::vector<float>(5, 3));
}

TEST(Clusters, AClusterThatIsTooLargeIsCountedOncePerTick) {
    Pair pair;
    for (int i = 0; i < 6'000; ++i) pair.spawn(at(1), Cluster{7}, sim::Name{std::string(30, 'a')});
    for (std::uint64_t tick = 1; tick <= 3; ++tick) {
        pair.tick();
        for (int i = 0; i < 4; ++i) pair.deliver(*pair.encode(1'100));
        EXPECT_EQ(pair.sender.stats(pair.peer).parted_clusters, tick);
    }
}

TEST(Clusters, AWaitingClusterLeavesInASmallPayloadOnceItFitsOne) {
    Pair pair;
    spawn_some(pair, 1'000, 1, Cluster{7});
    pair.tick();
    const auto large = pair.encode(1'100);
    auto waiting = spawn_some(pair, 1'000, 2, Cluster{8});
    pair.tick();
    EXPECT_FALSE(pair.encode(1'100, false));
    EXPECT_FALSE(pair.encode(1'100, false));
    for (; waiting.size() > 5; waiting.pop_back()) pair.world.destroy(waiting.back());
    pair.tick();
    const auto small = pair.encode(1'100, false);
    ASSERT_TRUE(small && header_of(*small).record_count == 5);
    pair.deliver(*small);
    pair.deliver(*large);
    pair.exchange();
    EXPECT_TRUE(pair.worlds_are_equal());
}

}  // namespace
}  // namespace shoal::replication::impl
