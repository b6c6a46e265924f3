// How a receiver names its replicas, and which version it shows.

#include <gtest/gtest.h>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl::receiver_entities_test {
namespace {

TEST(ReceiverEntities, HaveTheTickOfTheVersionThatTheWorldShows) {
    Pair pair;
    const ecs::Entity cat = pair.spawn(at(1));
    pair.exchange();
    const Tick first = pair.sender.tick();
    const ecs::Entity replica = pair.replica(cat), own = pair.mirror.spawn(at(1));
    EXPECT_EQ(pair.receiver.shown_tick(replica), first);
    EXPECT_FALSE(pair.receiver.shown_tick(own));
    EXPECT_FALSE(pair.receiver.shown_tick({}));
    pair.exchange();
    EXPECT_EQ(pair.receiver.shown_tick(replica), first) << "it did not change";
    pair.world.set(cat, at(2));
    const SentPacket packet = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(packet), Receiver::Verdict::accepted);
    EXPECT_EQ(pair.receiver.shown_tick(replica), first) << "received, but not applied";
    EXPECT_EQ(pair.receiver.shown(pair.receiver.net_id(replica))->tick, first);
    EXPECT_EQ(pair.receiver.at(pair.receiver.net_id(replica), packet.tick)->tick, packet.tick);
    EXPECT_EQ(pair.receiver.at(pair.receiver.net_id(replica), packet.tick - 1)->tick, first);
    EXPECT_FALSE(pair.receiver.at(pair.receiver.net_id(replica), first - 1));
    pair.receiver.apply();
    EXPECT_EQ(pair.receiver.shown_tick(replica), packet.tick);
}

TEST(ReceiverEntities, MayAppearUntilTheyAreThereOrTheGameDestroyedThem) {
    Pair pair;
    const ecs::Entity cat = pair.spawn(at(1));
    const NetId net_id = pair.sender.assign_net_id(cat);
    EXPECT_TRUE(pair.receiver.replicas().may_appear(net_id)) << "no record of it has arrived";
    EXPECT_FALSE(pair.receiver.entity(net_id));
    const SentPacket packet = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(packet), Receiver::Verdict::accepted);
    EXPECT_TRUE(pair.receiver.replicas().may_appear(net_id)) << "not applied yet";
    EXPECT_EQ(pair.receiver.entity_count(), 0u);
    pair.receiver.apply();
    const ecs::Entity replica = pair.receiver.entity(net_id);
    EXPECT_FALSE(pair.receiver.replicas().may_appear(net_id)) << "it is there";
    EXPECT_EQ(pair.receiver.net_id(replica), net_id);
    EXPECT_EQ(pair.receiver.net_id(pair.mirror.spawn(at(1))), 0u);
    EXPECT_EQ(pair.receiver.entity_count(), 1u);
    pair.mirror.destroy(replica);
    EXPECT_FALSE(pair.receiver.replicas().may_appear(net_id)) << "the game destroyed it";
    EXPECT_FALSE(pair.receiver.entity(net_id));
    EXPECT_EQ(pair.receiver.entity_count(), 0u);
}

TEST(ReceiverEntities, ThatTheGameLoadedAreFoundByTheirKey) {
    Pair pair;
    const ecs::Entity own = pair.mirror.spawn(at(1), StableKey{17});
    EXPECT_FALSE(pair.receiver.entity(StableKey{17})) << "as of the last apply()";
    pair.receiver.apply();
    EXPECT_EQ(pair.receiver.entity(StableKey{17}), own);
    EXPECT_EQ(pair.receiver.net_id(own), NetIds::reserved_for(StableKey{17}));
    EXPECT_FALSE(pair.receiver.replicas().may_appear(NetIds::reserved_for(StableKey{17})));
    EXPECT_FALSE(pair.receiver.entity(StableKey{18}));
    EXPECT_FALSE(pair.receiver.entity(StableKey{kMaxStableKey + 1}));
    EXPECT_EQ(pair.receiver.entity_count(), 0u) << "it is no replica";
    EXPECT_FALSE(pair.receiver.shown_tick(own));
    pair.mirror.remove<StableKey>(own);
    pair.receiver.apply();
    EXPECT_FALSE(pair.receiver.entity(StableKey{17}));
    EXPECT_TRUE(pair.receiver.replicas().may_appear(NetIds::reserved_for(StableKey{17})));
    pair.mirror.set(own, StableKey{17});
    pair.receiver.apply();
    EXPECT_EQ(pair.receiver.entity(StableKey{17}), own);
    pair.mirror.destroy(own);
    EXPECT_EQ(pair.receiver.entity(StableKey{17}), ecs::Entity{}) << "dead, also before the next apply()";
    EXPECT_EQ(pair.receiver.net_id(own), 0u);
}

TEST(ReceiverEntities, UnknownOnesHaveNothing) {
    Pair pair;
    const ecs::Entity cat = pair.spawn(at(1));
    pair.exchange();
    const ecs::Entity replica = pair.replica(cat);
    const NetId of_cat = pair.receiver.net_id(replica);
    for (const NetId unknown :
         {NetId{0}, of_cat + 1, NetId{0xffff'ffff}, NetIds::reserved_for(StableKey{3})}) {
        EXPECT_FALSE(pair.receiver.entity(unknown)) << unknown;
        EXPECT_FALSE(pair.receiver.at(unknown, pair.sender.tick())) << unknown;
        EXPECT_FALSE(pair.receiver.shown(unknown)) << unknown;
        EXPECT_TRUE(pair.receiver.held(unknown).empty()) << unknown;
    }
    const ecs::Entity own = pair.mirror.spawn(at(2));
    pair.world.destroy(cat);
    pair.exchange();
    for (const ecs::Entity none : {ecs::Entity{}, own, replica}) {
        EXPECT_EQ(pair.receiver.net_id(none), 0u);
        EXPECT_FALSE(pair.receiver.restore(none));
        EXPECT_FALSE(pair.receiver.hold(none, 0));
        EXPECT_FALSE(pair.receiver.release(none, 0));
        EXPECT_FALSE(pair.receiver.shown_tick(none));
    }
    EXPECT_EQ(pair.mirror.get<sim::Position>(own).x, 2);
    EXPECT_FALSE(pair.receiver.at(of_cat, pair.sender.tick()) || pair.receiver.shown(of_cat));
}

}  // namespace
}  // namespace shoal::replication::impl::receiver_entities_test
