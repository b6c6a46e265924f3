#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/replication/support/relations.h"

namespace shoal::replication::impl::parts_test {
namespace {

using relations::Pairs;
using relations::PartOf;

// The records of the parts come with the parent's or a moment later. No part dies before its own record.
TEST_F(Pairs, AParentAndItsPartsAreDestroyedEachByItsRecord) {
    const ecs::Entity hull = spawn(), turret = spawn(), barrel = spawn(), crew = spawn();
    chain({hull, turret, barrel});
    world.add(crew, ecs::to<PartOf>(hull));
    for (int i = 0; i < 96; ++i) world.add(spawn(), ecs::to<PartOf>(barrel));
    exchange();
    const ecs::Entity replicas[] = {replica(hull), replica(turret), replica(barrel), replica(crew)};
    const ecs::Entity label = mirror.spawn();
    mirror.add(label, ecs::to<PartOf>(replicas[1]));  // of the client's game
    std::vector<Despawn> reasons;
    auto hook = mirror.on_remove<Replica>(
        [&](ecs::World&, ecs::Entity, const Replica& replica) { reasons.push_back(replica.reason); });
    world.destroy(hull);
    std::vector<SentPacket> packets = tick_in_packets_of(20);
    ASSERT_GE(packets.size(), 3u);
    deliver(packets.back());  // with the record of the hull, which the server destroyed last
    packets.pop_back();
    receiver.apply();
    EXPECT_FALSE(mirror.is_alive(replicas[0]));
    EXPECT_GT(receiver.entity_count(), 50u);
    EXPECT_TRUE(receiver.is_consistent());
    for (const SentPacket& packet : packets) deliver(packet);
    receiver.apply();
    EXPECT_EQ(mirror.size(), 0u) << "the label, too";
    exchange();
    EXPECT_EQ(reasons, std::vector<Despawn>(100, Despawn::destroyed));
    EXPECT_EQ(receiver.entity_count(), 0u);
    EXPECT_EQ(receiver.stats().suppressed, 0u) << "nothing was destroyed by the game";
}

// The record of the new parent is late.
TEST_F(Pairs, APartWithANewParentStaysWhenTheOldOneIsDestroyed) {
    const ecs::Entity old_hull = spawn(), new_hull = spawn(), turret = spawn(sim::Health{5});
    world.add(turret, ecs::to<PartOf>(old_hull));
    exchange();
    world.add(turret, ecs::to<PartOf>(new_hull));
    const SentPacket late = tick_and_encode();
    world.destroy(old_hull);
    tick_and_apply();
    const ecs::Entity kept = replica(turret);
    ASSERT_TRUE(mirror.is_alive(kept));
    EXPECT_FALSE(mirror.target<PartOf>(kept)) << "its newest version still has the old parent";
    EXPECT_TRUE(receiver.is_consistent());
    deliver(late);
    exchange();
    ASSERT_EQ(replica(turret), kept);
    EXPECT_EQ(mirror.target<PartOf>(replica(turret)), replica(new_hull));
    EXPECT_EQ(mirror.get<sim::Health>(replica(turret)).points, 5);
}

// A pair with a parent that has ended arrives after the game destroyed the part; then a pair with another
// parent.
TEST_F(Pairs, APartThatTheGameDestroyedDoesNotComeBackWithANewParent) {
    const ecs::Entity old_hull = spawn(), new_hull = spawn(), turret = spawn();
    exchange();
    mirror.destroy(replica(turret));
    world.add(turret, ecs::to<PartOf>(old_hull));
    const SentPacket late = tick_and_encode();
    world.add(turret, ecs::to<PartOf>(new_hull));
    const SentPacket less_late = tick_and_encode();
    world.destroy(old_hull);
    tick_and_apply();
    for (const SentPacket& packet : {late, less_late}) {
        deliver(packet);
        receiver.apply();
        EXPECT_EQ(receiver.entity_count(), 1u) << "the new hull";
        EXPECT_EQ(receiver.stats().suppressed, 1u);
    }
    world.set(turret, sim::Health{6});
    Pair::exchange();
    EXPECT_EQ(mirror.size(), 1u);
    EXPECT_EQ(receiver.stats().suppressed, 1u);
    EXPECT_TRUE(receiver.is_consistent());
}

TEST_F(Pairs, PartsWithoutTheirParentAreForgottenWhenTheConnectionEnds) {
    const ecs::Entity old_hull = spawn(), new_hull = spawn(), turret = spawn();
    world.add(turret, ecs::to<PartOf>(old_hull));
    exchange();
    world.add(turret, ecs::to<PartOf>(new_hull));
    tick_and_encode();  // lost
    world.destroy(old_hull);
    tick_and_apply();
    receiver.reset();
    EXPECT_EQ(mirror.size(), 0u);
    EXPECT_EQ(receiver.stats().suppressed, 0u);
    EXPECT_TRUE(receiver.is_consistent());
}

TEST_F(Pairs, PartsThatBecomePartsOfEachOtherStay) {
    const ecs::Entity hull = spawn(), turret = spawn(), barrel = spawn();
    chain({hull, turret, barrel});
    exchange();
    world.add(turret, ecs::to<PartOf>(barrel));
    const SentPacket late = tick_and_encode();
    world.destroy(hull);
    tick_and_apply();
    EXPECT_EQ(receiver.entity_count(), 2u);
    deliver(late);
    exchange();
    EXPECT_EQ(mirror.target<PartOf>(replica(barrel)), replica(turret));
    EXPECT_EQ(mirror.target<PartOf>(replica(turret)), replica(barrel));
}

TEST_F(Pairs, APartThatTheGameLoadedStaysWhenItsPairComesAfterTheEndOfItsParent) {
    const ecs::Entity tank = spawn(), door = spawn(StableKey{17});
    const ecs::Entity own_door = mirror.spawn(StableKey{17});
    exchange();
    world.add(door, ecs::to<PartOf>(tank));
    const SentPacket late = tick_and_encode();
    world.remove(door, ecs::to<PartOf>(tank));
    const SentPacket less_late = tick_and_encode();
    world.destroy(tank);
    tick_and_apply();
    for (const SentPacket& packet : {late, less_late}) {
        deliver(packet);
        receiver.apply();
        EXPECT_EQ(replica(door), own_door);
        EXPECT_TRUE(mirror.is_alive(own_door));
        EXPECT_FALSE(mirror.target<PartOf>(own_door));
    }
    exchange();
}

// The key of the new parent is that of the old one, so nothing changes in the part's record.
TEST_F(Pairs, APartOfAParentWhoseKeyComesBackStays) {
    const ecs::Entity old_hull = spawn(StableKey{5}), turret = spawn();
    world.add(turret, ecs::to<PartOf>(old_hull));
    exchange();
    const ecs::Entity kept = replica(turret);
    world.remove(turret, ecs::to<PartOf>(old_hull));
    world.destroy(old_hull);
    const ecs::Entity new_hull = spawn(StableKey{5});
    world.add(turret, ecs::to<PartOf>(new_hull));
    exchange();
    EXPECT_EQ(replica(turret), kept);
    ASSERT_TRUE(mirror.is_alive(kept));
    EXPECT_EQ(mirror.target<PartOf>(kept), replica(new_hull));
}

TEST_F(Pairs, APartThatTheGameLoadedStaysWhenTheConnectionEnds) {
    const ecs::Entity tank = spawn(), door = spawn(StableKey{17});
    const ecs::Entity own_door = mirror.spawn(StableKey{17});
    world.add(door, ecs::to<PartOf>(tank));
    exchange();
    ASSERT_EQ(mirror.target<PartOf>(own_door), replica(tank));
    receiver.reset();
    EXPECT_TRUE(mirror.is_alive(own_door));
    EXPECT_EQ(mirror.size(), 1u);
}

TEST_F(Pairs, APartThatTheGameLoadedStaysWhileItsNewParentIsLate) {
    const ecs::Entity tank = spawn(), carrier = spawn(), door = spawn(StableKey{17});
    const ecs::Entity own_door = mirror.spawn(StableKey{17});
    world.add(door, ecs::to<PartOf>(tank));
    exchange();
    world.add(door, ecs::to<PartOf>(carrier));
    const SentPacket late = tick_and_encode();
    world.destroy(tank);
    tick_and_apply();
    EXPECT_TRUE(mirror.is_alive(own_door));
    EXPECT_FALSE(mirror.target<PartOf>(own_door));
    deliver(late);
    exchange();
    EXPECT_EQ(mirror.target<PartOf>(own_door), replica(carrier));
}

TEST_F(Pairs, APartIsNotDestroyedWhenTheGameLoadsItsParent) {
    const ecs::Entity tank = spawn(StableKey{5}), turret = spawn();
    world.add(turret, ecs::to<PartOf>(tank));
    exchange();
    const ecs::Entity kept = replica(turret), own_tank = mirror.spawn(StableKey{5});
    receiver.apply();
    EXPECT_TRUE(mirror.is_alive(kept));
    EXPECT_EQ(mirror.target<PartOf>(kept), own_tank);
    exchange();
}

// The game has made the label a part of the hull, and the lamp a part of the label.
TEST_F(Pairs, AReplicaThatTheGameMadeAPartOfItsOwnEntityStaysWhenThisDies) {
    const ecs::Entity hull = spawn(), lamp = spawn();
    exchange();
    const ecs::Entity kept = replica(lamp), label = mirror.spawn(), screw = mirror.spawn();
    mirror.add(label, ecs::to<PartOf>(replica(hull)));
    mirror.add(screw, ecs::to<PartOf>(label));
    mirror.add(kept, ecs::to<PartOf>(label));
    world.destroy(hull);
    exchange();
    EXPECT_FALSE(mirror.is_alive(label) || mirror.is_alive(screw));
    EXPECT_EQ(replica(lamp), kept);
    EXPECT_TRUE(mirror.is_alive(kept));
    EXPECT_FALSE(mirror.target<PartOf>(kept));
    EXPECT_EQ(receiver.stats().suppressed, 0u);
}

TEST_F(Pairs, PartsOfAnEntityOfTheGameStayWhenTheServersStopsReplicating) {
    const ecs::Entity door = spawn(StableKey{17}), lamp = spawn(), sign = spawn();
    const ecs::Entity own_door = mirror.spawn(StableKey{17});
    world.add(sign, ecs::to<PartOf>(door));
    exchange();
    const ecs::Entity sticker = mirror.spawn();
    mirror.add(sticker, ecs::to<PartOf>(own_door));
    mirror.add(replica(lamp), ecs::to<PartOf>(own_door));
    int removed = 0;
    ecs::Hook hook = mirror.on_remove<PartOf>([&](ecs::World&, ecs::Entity, ecs::Entity) { ++removed; });
    world.remove<Replicated>(door);
    Pair::exchange();
    EXPECT_TRUE(mirror.is_alive(own_door) && !mirror.has<Replica>(own_door));
    for (const ecs::Entity part : {sticker, replica(lamp), replica(sign)})
        EXPECT_EQ(mirror.target<PartOf>(part), own_door);
    EXPECT_EQ(removed, 0);
}

// The door does not end, though another entity becomes the replica.
TEST_F(Pairs, PartsThatTheGameAddsToAnEntityStayWhenItTakesTheKeyAway) {
    const ecs::Entity door = spawn(StableKey{17}), lamp = spawn();
    const ecs::Entity own_door = mirror.spawn(StableKey{17});
    exchange();
    ASSERT_EQ(replica(door), own_door);
    const ecs::Entity sticker = mirror.spawn();
    mirror.add(sticker, ecs::to<PartOf>(own_door));
    mirror.add(replica(lamp), ecs::to<PartOf>(own_door));
    mirror.remove<StableKey>(own_door);
    receiver.apply();
    EXPECT_NE(replica(door), own_door);
    EXPECT_FALSE(mirror.has<Replica>(own_door));
    EXPECT_EQ(mirror.target<PartOf>(sticker), own_door);
    EXPECT_EQ(mirror.target<PartOf>(replica(lamp)), own_door);
    EXPECT_TRUE(receiver.is_consistent());
}

struct LocalPart {
    static constexpr auto relation = ecs::many | ecs::destroy_with_target;
};

TEST_F(Pairs, ACycleOfTheGamesOwnPairsEnds) {
    const ecs::Entity hull = spawn();
    exchange();
    const ecs::Entity a = mirror.spawn(), b = mirror.spawn();
    mirror.add(a, ecs::to<PartOf>(a));
    mirror.add(b, ecs::to<PartOf>(replica(hull)));
    mirror.add(a, ecs::to<PartOf>(b));
    mirror.add(b, ecs::to<LocalPart>(a));
    world.destroy(hull);
    exchange();
    EXPECT_EQ(mirror.size(), 0u);
}

TEST_F(Pairs, APartStaysWhenItsParentOnlyLeaves) {
    const ecs::Entity hull = spawn(), turret = spawn();
    world.add(turret, ecs::to<PartOf>(hull));
    exchange();
    const ecs::Entity kept = replica(turret);
    world.remove<Replicated>(hull);
    exchange();
    EXPECT_EQ(replica(turret), kept);
    EXPECT_TRUE(mirror.is_alive(kept));
    EXPECT_FALSE(mirror.target<PartOf>(kept));
    world.add<Replicated>(hull);
    exchange();
    EXPECT_EQ(mirror.target<PartOf>(kept), replica(hull));
}

TEST_F(Pairs, APartThatGotAnotherParentInTheSameTickStays) {
    const ecs::Entity hull = spawn(), turret = spawn();
    world.add(turret, ecs::to<PartOf>(hull));
    exchange();
    const ecs::Entity kept = replica(turret);
    world.remove(turret, ecs::to<PartOf>(hull));
    world.destroy(hull);
    exchange();
    EXPECT_EQ(replica(turret), kept);
    EXPECT_TRUE(mirror.is_alive(kept));
}

struct CrewOf {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};

// Two relations let the entities of a circle die with one outside of it.
TEST(CirclesOfParts, OfTheGameDieWithTheirTarget) {
    Schema schema;
    schema.pair<PartOf>("part_of");
    schema.pair<CrewOf>("crew_of");
    Pair pair({}, {}, 1, 1, std::move(schema));
    const ecs::Entity hull = pair.spawn(), other = pair.spawn();
    pair.exchange();
    const ecs::Entity cabin = pair.mirror.spawn(), pilot = pair.mirror.spawn();
    pair.mirror.add(cabin, ecs::to<PartOf>(pair.replica(hull)));
    pair.mirror.add(pilot, ecs::to<PartOf>(cabin));
    pair.mirror.add(cabin, ecs::to<CrewOf>(pilot));
    pair.world.destroy(hull);
    pair.exchange();
    EXPECT_EQ(pair.mirror.size(), 1u);
    EXPECT_TRUE(pair.mirror.is_alive(pair.replica(other)));
}

struct Crates {
    std::vector<std::uint32_t> weights;
};
struct Barrels {
    std::vector<std::uint32_t> weights;
};

// Its last state within the limit names the old hull.
TEST(LargeParts, OneThatLeavesItsHullKeepsItsLastStateWhenTheHullIsDestroyed) {
    Schema schema;
    schema.component<sim::Health>("health");
    schema.component<Crates>("crates", field(&Crates::weights, max_length(5'000)));
    schema.component<Barrels>("barrels", field(&Barrels::weights, max_length(5'000)));
    schema.pair<PartOf>("part_of");
    Pair pair({}, {}, 1, 1, std::move(schema));
    const ecs::Entity hull = pair.spawn(), turret = pair.spawn(sim::Health{5});
    pair.world.add(turret, ecs::to<PartOf>(hull));
    pair.exchange();
    const std::vector<std::uint32_t> weights(4'000, 0x9999'9999u);
    pair.world.set(turret, Crates{weights});
    pair.world.set(turret, Barrels{weights});
    pair.exchange();
    EXPECT_TRUE(pair.mirror.has<sim::Health>(pair.replica(turret))) << "the last state within the limit";
    pair.world.remove(turret, ecs::to<PartOf>(hull));
    pair.world.destroy(hull);
    pair.exchange();
    ASSERT_TRUE(pair.mirror.is_alive(pair.replica(turret)));
    EXPECT_TRUE(pair.mirror.has<sim::Health>(pair.replica(turret)));
    EXPECT_FALSE(pair.mirror.target<PartOf>(pair.replica(turret)));
    pair.world.remove<Barrels>(turret);
    pair.exchange();
    EXPECT_TRUE(pair.mirror.has<sim::Health>(pair.replica(turret)));
    EXPECT_TRUE(pair.worlds_are_equal());
}

}  // namespace
}  // namespace shoal::replication::impl::parts_test
