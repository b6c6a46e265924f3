#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/replication/support/relations.h"

namespace shoal::replication::parts_test {
namespace {

using relations::Pairs;
using relations::PartOf;

TEST_F(Pairs, AParentAndItsPartsAreDestroyedAsOne) {
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
    for (const ecs::Entity entity : replicas) EXPECT_FALSE(mirror.is_alive(entity));
    EXPECT_EQ(receiver.entity_count(), 0u);
    EXPECT_EQ(mirror.size(), 0u) << "the label, too";
    EXPECT_TRUE(receiver.is_consistent());
    for (const SentPacket& packet : packets) deliver(packet);
    exchange();
    EXPECT_EQ(reasons, std::vector<Despawn>(100, Despawn::destroyed));
    EXPECT_EQ(receiver.entity_count(), 0u);
    EXPECT_EQ(receiver.stats().suppressed, 0u) << "nothing was destroyed by the game";
}

// The record of the new parent is late.
TEST_F(Pairs, APartWithANewParentComesBack) {
    const ecs::Entity old_hull = spawn(), new_hull = spawn(), turret = spawn(sim::Health{5});
    world.add(turret, ecs::to<PartOf>(old_hull));
    exchange();
    world.add(turret, ecs::to<PartOf>(new_hull));
    const SentPacket late = tick_and_encode();
    world.destroy(old_hull);
    tick_and_apply();
    EXPECT_FALSE(replica(turret)) << "its newest version still had the old parent";
    EXPECT_TRUE(receiver.is_consistent());
    deliver(late);
    exchange();
    ASSERT_TRUE(mirror.is_alive(replica(turret)));
    EXPECT_EQ(mirror.target<PartOf>(replica(turret)), replica(new_hull));
    EXPECT_EQ(mirror.get<sim::Health>(replica(turret)).points, 5);
}

// Nothing changes in the records of the parts of the turret, so that nothing else would bring them back.
TEST_F(Pairs, PartsOfAPartWithANewParentComeBackWithIt) {
    const ecs::Entity old_hull = spawn(), new_hull = spawn(), turret = spawn(), barrel = spawn(),
                      flag = spawn(sim::Health{5});
    chain({old_hull, turret, barrel, flag});
    exchange();
    world.add(turret, ecs::to<PartOf>(new_hull));
    const SentPacket late = tick_and_encode();
    world.destroy(old_hull);
    tick_and_apply();
    EXPECT_EQ(receiver.entity_count(), 1u) << "the new hull";
    world.set(flag, sim::Health{6});
    tick_and_apply();
    EXPECT_FALSE(replica(flag)) << "what it is part of is not there yet";
    deliver(late);
    exchange();
    EXPECT_EQ(receiver.entity_count(), 4u);
    EXPECT_EQ(mirror.target<PartOf>(replica(flag)), replica(barrel));
    EXPECT_EQ(mirror.target<PartOf>(replica(barrel)), replica(turret));
    EXPECT_EQ(mirror.target<PartOf>(replica(turret)), replica(new_hull));
    EXPECT_EQ(mirror.get<sim::Health>(replica(flag)).points, 6);
}

// It leaves its hull before that is destroyed; no other record of its barrel follows.
TEST_F(Pairs, PartsOfAPartThatStopsReplicatingComeBack) {
    const ecs::Entity hull = spawn(), turret = spawn(), barrel = spawn();
    chain({hull, turret, barrel});
    exchange();
    world.remove(turret, ecs::to<PartOf>(hull));
    world.remove<Replicated>(turret);
    const SentPacket late = tick_and_encode();
    world.destroy(hull);
    tick_and_apply();
    EXPECT_EQ(receiver.entity_count(), 0u);
    deliver(late);
    receiver.apply();
    EXPECT_EQ(receiver.entity_count(), 1u);
    EXPECT_TRUE(mirror.is_alive(replica(barrel)));
    EXPECT_EQ(receiver.stats().suppressed, 0u);
    exchange();
}

// Either the record of the turret or that of its barrel arrives.
TEST_F(Pairs, APartOfAPartThatStopsReplicatingComesBackWithTheFirstRecordThatSaysSo) {
    for (const std::size_t first : {0u, 1u}) {
        SCOPED_TRACE(first);
        const ecs::Entity hull = spawn(), turret = spawn(), barrel = spawn();
        chain({hull, turret, barrel});
        exchange();
        world.remove(turret, ecs::to<PartOf>(hull));
        world.remove<Replicated>(turret);
        const std::vector<SentPacket> late = tick_in_packets_of(1);
        ASSERT_EQ(late.size(), 2u);
        world.destroy(hull);
        tick_and_apply();
        EXPECT_FALSE(replica(barrel)) << "died with the turret and the hull";
        deliver(late[first]);
        receiver.apply();
        EXPECT_TRUE(mirror.is_alive(replica(barrel)));
        EXPECT_TRUE(receiver.is_consistent());
        deliver(late[1 - first]);
        receiver.apply();
        EXPECT_TRUE(mirror.is_alive(replica(barrel)));
        exchange();
        world.destroy(barrel);
        exchange();
        EXPECT_EQ(receiver.stats().suppressed, 0u);
    }
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

TEST_F(Pairs, APartWaitsForANewParentThatIsDead) {
    const ecs::Entity new_hull = spawn();
    for (const bool is_swapped : {false, true}) {
        const ecs::Entity old_hull = spawn(), left = spawn(), right = spawn();
        const ecs::Entity parent = is_swapped ? left : right, part = is_swapped ? right : left;
        world.add(left, ecs::to<PartOf>(old_hull));
        world.add(right, ecs::to<PartOf>(old_hull));
        exchange();
        world.add(parent, ecs::to<PartOf>(new_hull));
        const SentPacket late = tick_and_encode();
        world.add(part, ecs::to<PartOf>(parent));
        const SentPacket less_late = tick_and_encode();
        world.destroy(old_hull);
        tick_and_apply();
        deliver(less_late);
        receiver.apply();
        EXPECT_FALSE(replica(part));
        deliver(late);
        exchange();
        EXPECT_EQ(mirror.target<PartOf>(replica(part)), replica(parent));
    }
}

TEST_F(Pairs, PartsThatDiedAreForgottenWhenTheConnectionEnds) {
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

TEST_F(Pairs, PartsThatBecomePartsOfEachOtherComeBack) {
    const ecs::Entity hull = spawn(), turret = spawn(), barrel = spawn();
    chain({hull, turret, barrel});
    exchange();
    world.add(turret, ecs::to<PartOf>(barrel));
    const SentPacket late = tick_and_encode();
    world.destroy(hull);
    tick_and_apply();
    EXPECT_EQ(receiver.entity_count(), 0u);
    deliver(late);
    exchange();
    EXPECT_EQ(mirror.target<PartOf>(replica(barrel)), replica(turret));
    EXPECT_EQ(mirror.target<PartOf>(replica(turret)), replica(barrel));
}

// A record of the turret was under way when its hull was destroyed.
TEST_F(Pairs, APartOfADestroyedParentDoesNotComeBackForAMoment) {
    const ecs::Entity hull = spawn(), turret = spawn();
    world.add(turret, ecs::to<PartOf>(hull));
    exchange();
    world.set(turret, sim::Health{6});
    const SentPacket late = tick_and_encode();
    world.destroy(hull);
    std::vector<SentPacket> packets = tick_in_packets_of(1);
    ASSERT_EQ(packets.size(), 2u);
    deliver(packets[1]);
    receiver.apply();
    EXPECT_EQ(receiver.entity_count(), 0u);
    deliver(late);
    receiver.apply();
    EXPECT_EQ(receiver.entity_count(), 0u);
    deliver(packets[0]);
    exchange();
}

// The record with the pair is late. Without the pair, the turret is in the world already, or not.
TEST_F(Pairs, APartWhosePairComesAfterTheEndOfItsParentDiesToo) {
    for (const bool is_known : {false, true}) {
        const ecs::Entity hull = spawn(), known = spawn();
        exchange();
        const ecs::Entity turret = is_known ? known : spawn();
        const ecs::Entity barrel = is_known ? known : spawn();
        if (!is_known) world.add(barrel, ecs::to<PartOf>(turret));
        world.add(turret, ecs::to<PartOf>(hull));
        const SentPacket late = tick_and_encode();
        world.destroy(hull);
        std::vector<SentPacket> packets = tick_in_packets_of(1);
        ASSERT_GE(packets.size(), 2u);
        deliver(packets.back());  // the despawn record of the hull
        if (is_known) receiver.apply();
        deliver(late);
        receiver.apply();
        EXPECT_FALSE(replica(turret) || replica(barrel));
        EXPECT_EQ(mirror.size(), is_known ? 0u : 1u);
        EXPECT_EQ(receiver.entity_count(), is_known ? 0u : 1u);
        EXPECT_TRUE(receiver.is_consistent());
        packets.pop_back();
        for (const SentPacket& packet : packets) deliver(packet);
        exchange();
        if (!is_known) world.destroy(known);
        exchange();
        EXPECT_EQ(mirror.size(), 0u);
        EXPECT_EQ(receiver.stats().suppressed, 0u);
    }
}

// The barrel, which the world has already, dies in the same apply(); so does what the game added to it.
TEST_F(Pairs, PartsOfAPartWhosePairComesAfterTheEndOfItsParentDieToo) {
    const ecs::Entity hull = spawn(), turret = spawn(), barrel = spawn(), flag = spawn();
    chain({turret, barrel, flag});
    exchange();
    const ecs::Entity label = mirror.spawn();
    mirror.add(label, ecs::to<PartOf>(replica(barrel)));
    world.add(turret, ecs::to<PartOf>(hull));
    const SentPacket late = tick_and_encode();
    world.destroy(hull);
    std::vector<SentPacket> packets = tick_in_packets_of(1);
    ASSERT_EQ(packets.size(), 4u);
    deliver(packets.back());  // the despawn record of the hull
    packets.pop_back();
    receiver.apply();
    EXPECT_EQ(receiver.entity_count(), 3u);
    deliver(late);
    receiver.apply();
    EXPECT_EQ(receiver.entity_count(), 0u);
    EXPECT_EQ(mirror.size(), 0u);
    EXPECT_TRUE(receiver.is_consistent());
    for (const SentPacket& packet : packets) deliver(packet);
    exchange();
    EXPECT_EQ(receiver.stats().suppressed, 0u) << "nothing was destroyed by the game";
}

// In one packet, the records of the parts come before those of what they are part of.
TEST_F(Pairs, ALateChainOfPartsDiesInAnyOrderOfItsRecords) {
    const ecs::Entity hull = spawn();
    exchange();
    const ecs::Entity flag = spawn(), barrel = spawn(), turret = spawn();
    chain({hull, turret, barrel, flag});
    const SentPacket late = tick_and_encode();
    world.destroy(hull);
    std::vector<SentPacket> packets = tick_in_packets_of(1);
    ASSERT_EQ(packets.size(), 4u);
    deliver(packets.back());  // the despawn record of the hull
    packets.pop_back();
    deliver(late);
    receiver.apply();
    EXPECT_EQ(receiver.entity_count(), 0u);
    EXPECT_EQ(mirror.size(), 0u);
    for (const SentPacket& packet : packets) deliver(packet);
    exchange();
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

TEST_F(Pairs, AReferenceToAPartThatDiedWithItsParentIsNull) {
    const ecs::Entity hull = spawn(), turret = spawn(), debtor = spawn(), other = spawn();
    world.add(turret, ecs::to<PartOf>(hull));
    world.set(debtor, ecs::to<relations::Owes>(other), relations::Owes{3, turret});
    exchange();
    const auto pair = ecs::to<relations::Owes>(replica(other));
    const NetId its_id = sender.net_id(turret);
    ASSERT_TRUE(mirror.get(replica(debtor), pair).witness);
    world.destroy(hull);
    std::vector<SentPacket> packets = tick_in_packets_of(1);
    ASSERT_EQ(packets.size(), 2u);
    deliver(packets.back());  // the despawn record of the hull
    receiver.apply();
    EXPECT_FALSE(replica(turret));
    EXPECT_FALSE(receiver.may_appear(its_id));
    EXPECT_FALSE(mirror.get(replica(debtor), pair).witness);
    deliver(packets.front());
    receiver.apply();
    EXPECT_FALSE(mirror.get(replica(debtor), pair).witness);
}

// The turret moves to another hull, which is destroyed before the client knows about the move.
TEST_F(Pairs, APartDoesNotComeBackForAParentThatIsDestroyedToo) {
    const ecs::Entity old_hull = spawn(), new_hull = spawn(), turret = spawn();
    world.add(turret, ecs::to<PartOf>(old_hull));
    exchange();
    world.add(turret, ecs::to<PartOf>(new_hull));
    const SentPacket late = tick_and_encode();
    world.destroy(old_hull);
    tick_and_apply();
    world.destroy(new_hull);
    std::vector<SentPacket> packets = tick_in_packets_of(1);
    ASSERT_EQ(packets.size(), 2u);
    deliver(packets[1]);
    receiver.apply();
    deliver(late);
    receiver.apply();
    EXPECT_EQ(mirror.size(), 0u);
    deliver(packets[0]);
    exchange();
    EXPECT_EQ(mirror.size(), 0u);
}

TEST_F(Pairs, ADestroyedParentIsForgottenWhenTheConnectionEnds) {
    const ecs::Entity hull = spawn();
    exchange();
    const NetId its_id = sender.net_id(hull);
    world.destroy(hull);
    exchange();
    receiver.reset();
    ecs::World other_world;
    Sender other(other_world, schema);
    const Sender::Peer its_peer = other.add_peer();
    const ecs::Entity other_hull = other_world.spawn(Replicated{}), turret = other_world.spawn(Replicated{});
    other_world.add(turret, ecs::to<PartOf>(other_hull));
    other.update(1);
    std::byte room[1'300];
    ASSERT_FALSE(other.encode(its_peer, 1, 1, room).empty());  // the record of the hull is late
    EXPECT_EQ(other.net_id(other_hull), its_id);
    EXPECT_EQ(receiver.receive(2, other.encode(its_peer, 2, 1, room)), Receiver::Verdict::accepted);
    receiver.apply();
    EXPECT_TRUE(receiver.entity(other.net_id(turret)));
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

// As APartWithANewParentComesBack, but what the game added to its entity could not come back.
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

TEST_F(Pairs, APartWhosePairAHookRemovesDiesWithItsParent) {
    const ecs::Entity other = spawn(sim::Health{}), hull = spawn(), turret = spawn();
    world.add(turret, ecs::to<PartOf>(hull));
    exchange();
    const ecs::Entity part = replica(turret), whole = replica(hull);
    auto hook = mirror.on_remove<sim::Health>(
        [&](ecs::World& in, ecs::Entity, const sim::Health&) { in.remove(part, ecs::to<PartOf>(whole)); });
    world.remove(turret, ecs::to<PartOf>(hull));
    const SentPacket late = tick_and_encode();
    world.destroy(other);
    world.destroy(hull);
    tick_and_apply();
    EXPECT_EQ(mirror.size(), 0u);
    deliver(late);
    exchange();
    EXPECT_EQ(mirror.size(), 1u);
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

// Its last state within the limit names the old hull, with which the replica dies.
TEST(LargeParts, OneThatLeavesItsHullIsThereAfterTheHullIsDestroyed) {
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
    EXPECT_FALSE(pair.mirror.has<sim::Health>(pair.replica(turret)));
    pair.world.remove<Barrels>(turret);
    pair.exchange();
    EXPECT_TRUE(pair.mirror.has<sim::Health>(pair.replica(turret)));
    EXPECT_TRUE(pair.worlds_are_equal());
}

}  // namespace
}  // namespace shoal::replication::parts_test
