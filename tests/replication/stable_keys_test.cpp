// Entities that server and client load by themselves, and that a StableKey names on both sides.

#include "replication/schema/own_components.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/replication/support/link.h"
#include "tests/replication/support/records.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

using sim::Aim;
using sim::Name;
using sim::Position;
using sim::Secret;
using sim::Wolf;
using Verdict = Receiver::Verdict;

constexpr StableKey kDoor{17};
constexpr NetId kDoorId = NetIds::kFirstReserved + 17;

std::vector<ecs::Entity> with_key(ecs::World& world, StableKey key) {
    std::vector<ecs::Entity> found;
    world.each_entity([&](ecs::Entity entity) {
        const StableKey* has = world.try_get<StableKey>(entity);
        if (has && has->value == key.value) found.push_back(entity);
    });
    return found;
}

/// A Pair that notes what the hooks of Replica tell about entities with a key.
class KeyPair : public Pair {
public:
    using Pair::Pair;
    ecs::Entity spawn_door(float x) { return spawn(at(x), kDoor); }
    ecs::Entity spawn_local(float x = 50) { return mirror.spawn(at(x), kDoor, Secret{3}); }

    std::vector<ecs::Entity> came, ended;
    std::vector<Despawn> reasons;

private:
    ecs::Hook add_ = mirror.on_add<Replica>(
        [this](ecs::World&, ecs::Entity entity, const Replica&) { came.push_back(entity); });
    ecs::Hook remove_ =
        mirror.on_remove<Replica>([this](ecs::World&, ecs::Entity entity, const Replica& replica) {
            ended.push_back(entity);
            reasons.push_back(replica.reason);
        });
};

// Matching

TEST(StableKeys, Rule27AnEntityThatBothSidesHaveIsMatched) {
    for (const bool client_is_first : {true, false}) {
        KeyPair pair;
        ecs::Entity local = client_is_first ? pair.spawn_local() : ecs::Entity{};
        const ecs::Entity door = pair.spawn(at(1), Name{"door"}, kDoor);
        if (!client_is_first) {
            pair.tick();
            local = pair.spawn_local();
        }
        pair.mirror.add<Wolf>(local);
        pair.exchange();
        EXPECT_EQ(pair.sender.net_id(door), kDoorId);
        EXPECT_EQ(pair.replica(door), local);
        EXPECT_EQ(pair.mirror.size(), 1u);
        EXPECT_EQ(pair.came, (std::vector{local}));
        EXPECT_EQ(pair.mirror.get<Position>(local).x, 1);
        EXPECT_EQ(pair.mirror.get<Name>(local).text, "door");
        EXPECT_EQ(pair.mirror.get<Secret>(local).value, 3) << "the schema does not have it: it stays";
        EXPECT_FALSE(pair.mirror.has<Wolf>(local)) << "the server's entity does not have it";
        EXPECT_TRUE(pair.worlds_are_equal());
        pair.world.set(door, at(2));
        pair.exchange();
        EXPECT_EQ(pair.mirror.get<Position>(local).x, 2);
        EXPECT_EQ(pair.receiver.stats().rebases, 0u);
        EXPECT_TRUE(pair.receiver.is_consistent());
        EXPECT_TRUE(pair.sender.is_consistent());
    }
}

TEST(StableKeys, Rule27AnEntityThatTheGameLoadsAfterItsReplicaCameTakesItsPlace) {
    KeyPair pair;
    const ecs::Entity door = pair.spawn_door(1), aimer = pair.spawn(Aim{door, 1});
    pair.exchange();
    const ecs::Entity spawned = pair.replica(door);
    EXPECT_EQ(with_key(pair.mirror, kDoor), (std::vector{spawned})) << "the game can find it by its key";
    EXPECT_EQ(pair.receiver.entity(kDoor), spawned);
    const ecs::Entity local = pair.spawn_local();
    pair.receiver.apply();
    EXPECT_EQ(with_key(pair.mirror, kDoor), (std::vector{local}));
    EXPECT_EQ(pair.receiver.entity(kDoor), local);
    EXPECT_EQ(pair.ended, (std::vector{spawned}));
    EXPECT_EQ(pair.reasons, (std::vector{Despawn::left}));
    EXPECT_EQ(pair.mirror.get<Position>(local).x, 1);
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, local);
    EXPECT_TRUE(pair.worlds_are_equal());
    pair.world.set(door, at(2));
    pair.exchange();
    EXPECT_EQ(pair.mirror.get<Position>(local).x, 2);
    EXPECT_EQ(pair.receiver.stats().suppressed, 0u);
}

TEST(StableKeys, Rule27AHookOfTheReplicaMayLoadTheGamesEntity) {
    KeyPair pair;
    ecs::Entity local;
    ecs::Hook load = pair.mirror.on_add<Replica>([&](ecs::World& world, ecs::Entity, const Replica&) {
        if (!local) local = world.spawn(kDoor, Secret{3});
    });
    const ecs::Entity door = pair.spawn_door(1);
    pair.exchange();
    pair.receiver.apply();
    EXPECT_EQ(with_key(pair.mirror, kDoor), (std::vector{local}));
    EXPECT_EQ(pair.replica(door), local);
    EXPECT_TRUE(pair.worlds_are_equal());
}

TEST(StableKeys, Rule27ALevelThatWasLoadedBeforeTheClientWasMadeIsMatched) {
    ecs::World mirror;
    const ecs::Entity local = mirror.spawn(kDoor);
    Pair pair;
    pair.spawn(at(1), kDoor);
    Receiver receiver(mirror, pair.schema);
    const SentPacket packet = pair.tick_and_encode();
    EXPECT_EQ(receiver.receive(packet.number, packet.bytes), Verdict::accepted);
    receiver.apply();
    EXPECT_EQ(mirror.size(), 1u);
    EXPECT_EQ(receiver.entity(kDoor), local);
    EXPECT_EQ(mirror.get<Position>(local).x, 1);
}

TEST(StableKeys, Rule27AReplicaChangesItsEntityWhenTheGameMovesTheKey) {
    KeyPair pair;
    const ecs::Entity first = pair.spawn_local(), second = pair.mirror.spawn(Secret{4});
    const ecs::Entity door = pair.spawn_door(1);
    pair.exchange();
    pair.mirror.remove<StableKey>(first);
    pair.mirror.set(second, kDoor);
    pair.receiver.apply();
    EXPECT_EQ(pair.replica(door), second);
    EXPECT_TRUE(pair.mirror.is_alive(first)) << "the game spawned it";
    EXPECT_FALSE(pair.mirror.has<Replica>(first));
    pair.mirror.remove<StableKey>(second);
    pair.receiver.apply();
    EXPECT_NE(pair.replica(door), second);
    EXPECT_EQ(with_key(pair.mirror, kDoor), (std::vector{pair.replica(door)})) << "spawned by the library";
    EXPECT_TRUE(pair.mirror.is_alive(second));
    EXPECT_EQ(pair.reasons, (std::vector{Despawn::left, Despawn::left}));
    EXPECT_TRUE(pair.worlds_are_equal());
}

TEST(StableKeys, Rule27TwoReplicasCanExchangeTheirKeys) {
    KeyPair pair;
    const ecs::Entity a = pair.mirror.spawn(StableKey{1}), b = pair.mirror.spawn(StableKey{2});
    const ecs::Entity one = pair.spawn(at(1), StableKey{1}), two = pair.spawn(at(2), StableKey{2});
    pair.exchange();
    pair.mirror.set(a, StableKey{2});
    pair.mirror.set(b, StableKey{1});
    pair.receiver.apply();
    EXPECT_EQ(pair.replica(one), b);
    EXPECT_EQ(pair.replica(two), a);
    EXPECT_EQ(pair.mirror.size(), 2u);
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_TRUE(pair.receiver.is_consistent());
}

// A hook destroys the local entity after the keys were read, and before the replica would take it.
TEST(StableKeys, Rule27AReplicaStaysIfTheGamesEntityDiedJustBeforeItCame) {
    KeyPair pair;
    const ecs::Entity local = pair.spawn_local();
    const ecs::Entity gate = pair.spawn(at(4), StableKey{4});
    pair.exchange();
    const ecs::Entity former = pair.replica(gate);
    const ecs::Hook hook = pair.mirror.on_remove<Replica>(
        [&](ecs::World& mirror, ecs::Entity, const Replica&) { mirror.destroy(local); });
    pair.mirror.spawn(at(4), StableKey{4});  // takes the place of `former`
    const ecs::Entity door = pair.spawn_door(1);
    pair.exchange();
    const ecs::Entity shown = pair.replica(door);
    ASSERT_TRUE(pair.mirror.is_alive(shown));
    ASSERT_FALSE(pair.mirror.is_alive(local));
    pair.exchange();
    EXPECT_EQ(pair.replica(door), shown);
    EXPECT_EQ(pair.ended, (std::vector{former}));
    EXPECT_TRUE(pair.receiver.is_consistent());
}

// The end of a replica

TEST(StableKeys, Rule27TheGamesEntityIsDestroyedWithTheServers) {
    KeyPair pair;
    const ecs::Entity local = pair.spawn_local(), door = pair.spawn_door(1);
    pair.exchange();
    pair.world.destroy(door);
    pair.exchange();
    EXPECT_FALSE(pair.mirror.is_alive(local));
    EXPECT_EQ(pair.reasons, (std::vector{Despawn::destroyed}));
    EXPECT_EQ(pair.receiver.entity(kDoor), ecs::Entity{});
}

TEST(StableKeys, Rule27TheGamesEntityStaysWhenTheServersStopsReplicating) {
    KeyPair pair;
    const ecs::Entity local = pair.spawn_local(), door = pair.spawn_door(1);
    const ecs::Entity gate = pair.spawn(at(4), StableKey{4});
    pair.exchange();
    for (float x = 2; x < 4; ++x) {
        const ecs::Entity spawned = pair.replica(gate);
        pair.world.remove<Replicated>(door);
        pair.world.remove<Replicated>(gate);
        pair.exchange();
        EXPECT_TRUE(pair.mirror.is_alive(local));
        EXPECT_FALSE(pair.mirror.has<Replica>(local));
        EXPECT_EQ(pair.mirror.get<Position>(local).x, x - 1) << "it keeps its values";
        EXPECT_FALSE(pair.mirror.is_alive(spawned)) << "the library spawned it";
        EXPECT_EQ(pair.receiver.entity_count(), 0u);
        pair.world.set(door, at(x));
        pair.world.add<Replicated>(door);
        pair.world.add<Replicated>(gate);
        pair.exchange();
        EXPECT_EQ(pair.replica(door), local);
        EXPECT_EQ(pair.mirror.get<Position>(local).x, x);
        EXPECT_EQ(pair.mirror.size(), 2u);
        EXPECT_TRUE(pair.worlds_are_equal());
    }
    EXPECT_EQ(pair.reasons, (std::vector(4, Despawn::left)));
    EXPECT_EQ(pair.mirror.get<Secret>(local).value, 3);
}

// README, "Things that both sides load": only the first record removes components.
TEST(StableKeys, Rule27WhatTheGameAddsToItsEntityAfterTheFirstRecordStays) {
    KeyPair pair;
    const ecs::Entity local = pair.spawn_local(), door = pair.spawn_door(1);
    pair.exchange();
    pair.mirror.set(local, Name{"mine"});
    pair.mirror.add<Wolf>(local);
    pair.world.set(door, at(2));
    pair.exchange();
    EXPECT_EQ(pair.mirror.get<Position>(local).x, 2);
    EXPECT_EQ(pair.mirror.get<Name>(local).text, "mine");
    EXPECT_TRUE(pair.mirror.has<Wolf>(local));
    pair.world.remove<Replicated>(door);
    pair.exchange();
    EXPECT_EQ(pair.mirror.get<Name>(local).text, "mine");
    pair.world.add<Replicated>(door);
    pair.exchange();
    EXPECT_EQ(pair.replica(door), local);
    EXPECT_FALSE(pair.mirror.has<Name>(local)) << "the first record of another replica";
    EXPECT_FALSE(pair.mirror.has<Wolf>(local));
}

TEST(StableKeys, Rule27AnotherConnectionMatchesAgain) {
    Link link;
    Link::Player& player = link.add();
    const ecs::Entity local = player.world.spawn(kDoor, Secret{3});
    const ecs::Entity door = link.world.spawn(at(1), kDoor, Replicated{});
    link.run(20);
    ASSERT_TRUE(link.is_equal(player));
    EXPECT_TRUE(player.world.has<Replica>(local));
    for (int round = 0; round < 2; ++round) {
        player.client.connect(link.wire.address);
        player.client.update(link.now);
        EXPECT_TRUE(player.world.is_alive(local));
        EXPECT_FALSE(player.world.has<Replica>(local));
        link.run(40);
        ASSERT_TRUE(player.client.is_connected());
        EXPECT_EQ(player.client.receiver().entity(link.server.assign_net_id(door)), local);
        EXPECT_EQ(player.world.size(), 1u);
        EXPECT_TRUE(link.is_equal(player));
    }
}

TEST(StableKeys, Rule27AnEntityThatTheGameDestroyedIsMatchedWhenTheGameLoadsItAgain) {
    KeyPair pair;
    const ecs::Entity local = pair.spawn_local(), door = pair.spawn_door(1);
    const ecs::Entity aimer = pair.spawn(Aim{door, 1});
    pair.exchange();
    pair.mirror.destroy(local);
    pair.world.set(door, at(2));
    pair.exchange();
    EXPECT_EQ(pair.receiver.entity_count(), 1u) << "it is not spawned again";
    EXPECT_EQ(pair.receiver.stats().suppressed, 1u);
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, ecs::Entity{});
    const ecs::Entity next = pair.spawn_local();
    pair.receiver.apply();
    EXPECT_EQ(pair.replica(door), next);
    EXPECT_EQ(pair.mirror.get<Position>(next).x, 2);
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, next);
    pair.mirror.destroy(next);
    const ecs::Entity last = pair.spawn_local();  // between two calls of apply()
    pair.world.set(door, at(3));
    pair.exchange();
    EXPECT_EQ(pair.replica(door), last);
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_EQ(pair.receiver.stats().suppressed, 1u);
}

// References

TEST(StableKeys, Rule27AKeyedEntityIsAReferenceBeforeItArrives) {
    KeyPair pair;
    const ecs::Entity door = pair.world.spawn(kDoor);  // does not replicate
    const ecs::Entity aimer = pair.spawn(Aim{door, 1});
    EXPECT_EQ(pair.sender.assign_net_id(door), kDoorId);
    EXPECT_FALSE(pair.sender.set_owner(door, pair.peer)) << "only entities that replicate have owners";
    pair.exchange();
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, ecs::Entity{}) << "the client has not loaded it";
    int told = 0;
    ecs::Hook hook = pair.mirror.on_change<Aim>(
        [&](ecs::World&, ecs::Entity, const Aim& aim) { told += aim.target ? 1 : 0; });
    const ecs::Entity local = pair.spawn_local();
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, local);
    EXPECT_EQ(told, 1);
    EXPECT_EQ(pair.receiver.entity(kDoorId), local) << "as named by a message";
    EXPECT_TRUE(pair.worlds_are_equal());

    const ecs::Entity late = pair.spawn(Aim{door, 2});
    pair.exchange();
    EXPECT_EQ(pair.on_client<Aim>(late).target, local);
    pair.world.add<Replicated>(door);
    pair.exchange();
    EXPECT_EQ(pair.replica(door), local);
    EXPECT_EQ(pair.on_client<Aim>(late).target, local);
    pair.world.remove<Replicated>(door);
    pair.exchange();
    EXPECT_EQ(pair.on_client<Aim>(late).target, local) << "the game still has it";
    EXPECT_TRUE(pair.worlds_are_equal());
}

TEST(StableKeys, Rule27AReferenceToAKeyThatAnEntityGetsLaterIsFilledIn) {
    KeyPair pair;
    const ecs::Entity local = pair.spawn_local(), door = pair.world.spawn();
    const ecs::Entity aimer = pair.spawn(Aim{door, 1});
    pair.exchange();
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, ecs::Entity{});
    pair.world.set(door, kDoor);
    pair.exchange();
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, local);
    pair.world.remove<StableKey>(door);
    pair.exchange();
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, ecs::Entity{});
}

TEST(StableKeys, Rule27AReferenceToADeadEntityIsNullThoughTheClientHasItsKey) {
    for (const bool replicates : {false, true}) {
        KeyPair pair;
        const ecs::Entity local = pair.spawn_local(), door = pair.world.spawn(kDoor);
        const ecs::Entity aimer = pair.spawn(Aim{door, 1});
        if (replicates) pair.world.add<Replicated>(door);
        pair.exchange();
        EXPECT_EQ(pair.on_client<Aim>(aimer).target, local);
        pair.world.destroy(door);
        pair.world.spawn();  // may get the index of the dead entity
        pair.spawn_door(5);  // another entity, to which nothing refers
        pair.exchange();
        EXPECT_EQ(pair.receiver.entity_count(), 2u);
        EXPECT_EQ(pair.on_client<Aim>(aimer).target, ecs::Entity{});
        EXPECT_TRUE(pair.worlds_are_equal());
    }
}

TEST(StableKeys, AReferenceToADeadEntityWithoutAKeyIsNotSentAgain) {
    KeyPair pair;
    const ecs::Entity target = pair.spawn(at(1)), aimer = pair.spawn(Aim{target, 1});
    pair.exchange();
    pair.exchange();
    pair.world.destroy(target);
    const std::uint64_t before = pair.sender.stats(pair.peer).records_sent;
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).records_sent, before + 1) << "only the despawn record";
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, ecs::Entity{});
}

// A key that comes back

TEST(StableKeys, Rule27AKeyCanComeBackInTheTickInWhichItsEntityDied) {
    for (const bool has_lower_slot : {false, true}) {
        KeyPair pair;
        const ecs::Entity other = pair.spawn(at(0)), door = pair.spawn_door(1);
        pair.exchange();
        if (has_lower_slot) pair.world.destroy(other);
        pair.exchange();
        const ecs::Entity first = pair.replica(door);
        pair.world.destroy(door);
        const ecs::Entity next = pair.spawn_door(2);
        EXPECT_EQ(pair.sender.assign_net_id(next), kDoorId) << "also before the tick";
        EXPECT_TRUE(pair.sender.shadow().is_consistent());
        pair.exchange();
        EXPECT_EQ(pair.sender.net_id(next), kDoorId);
        EXPECT_FALSE(pair.mirror.is_alive(first));
        EXPECT_EQ(pair.reasons.back(), Despawn::destroyed);
        EXPECT_EQ(pair.ended.back(), first);
        EXPECT_EQ(pair.on_client<Position>(next).x, 2);
        EXPECT_EQ(with_key(pair.mirror, kDoor).size(), 1u);
        EXPECT_TRUE(pair.worlds_are_equal());
        EXPECT_TRUE(pair.receiver.is_consistent());
        EXPECT_TRUE(pair.sender.is_consistent());
    }
}

TEST(StableKeys, Rule27AKeyCanPassToAnotherEntityInOneTick) {
    for (const bool is_assigned : {false, true}) {
        KeyPair pair;
        const ecs::Entity local = pair.spawn_local();
        ecs::Entity a = pair.spawn_door(1), b = pair.world.spawn(at(2), kDoor);
        pair.exchange();
        for (int i = 0; i < 4; ++i) {
            pair.world.add<Replicated>(b);
            pair.world.remove<Replicated>(a);
            if (is_assigned) {
                EXPECT_EQ(pair.sender.assign_net_id(b), kDoorId);
            }
            pair.exchange();
            EXPECT_EQ(pair.sender.net_id(b), kDoorId);
            EXPECT_EQ(pair.replica(b), local);
            EXPECT_EQ(pair.mirror.get<Position>(local).x, pair.world.get<Position>(b).x);
            EXPECT_EQ(pair.reasons.back(), Despawn::left);
            EXPECT_EQ(pair.mirror.size(), 1u);
            EXPECT_EQ(pair.sender.shadow().open_count(), 1u);
            EXPECT_TRUE(pair.sender.is_consistent());
            std::swap(a, b);
        }
    }
}

TEST(StableKeys, AnAssignedKeyIsFreeWhenItsEntityDiesBeforeTheTick) {
    for (const int earlier : {0, 3}) {
        KeyPair pair;
        for (int i = 0; i < earlier; ++i) {  // their entries are used again
            const ecs::Entity brief = pair.spawn(at(1));
            pair.exchange();
            pair.world.destroy(brief);
            pair.exchange();
        }
        pair.exchange();
        const ecs::Entity first = pair.spawn_door(1);
        EXPECT_EQ(pair.sender.assign_net_id(first), kDoorId);
        pair.world.destroy(first);
        const ecs::Entity second = pair.spawn_door(2);
        EXPECT_EQ(pair.sender.assign_net_id(second), kDoorId);
        pair.world.remove<Replicated>(second);
        const ecs::Entity third = pair.spawn_door(3);
        pair.exchange();
        EXPECT_EQ(pair.sender.net_id(third), kDoorId);
        EXPECT_EQ(pair.on_client<Position>(third).x, 3);
        EXPECT_EQ(pair.receiver.entity_count(), 1u);
        EXPECT_EQ(pair.sender.shadow().open_count(), 1u);
        EXPECT_TRUE(pair.sender.is_consistent());
    }
}

TEST(StableKeys, TheOwnerOfAnEntityDoesNotOwnTheNextOneWithItsKey) {
    KeyPair pair;
    const ecs::Entity door = pair.spawn_door(1);
    EXPECT_TRUE(pair.sender.set_owner(door, pair.peer));
    pair.exchange();
    pair.world.destroy(door);
    const ecs::Entity next = pair.spawn_door(2);
    EXPECT_EQ(pair.sender.owner(next), std::nullopt);
    pair.exchange();
    EXPECT_EQ(pair.sender.owner(next), std::nullopt);
}

// The despawn record is lost, and the full record of the next entity arrives.
TEST(StableKeys, Rule27AKeyCanComeBackBeforeTheDespawnRecordOfItsEntityArrives) {
    for (const bool is_local : {true, false}) {
        KeyPair pair;
        const ecs::Entity local = is_local ? pair.spawn_local() : ecs::Entity{};
        const ecs::Entity door = pair.spawn_door(1);
        pair.exchange();
        const ecs::Entity shown = pair.replica(door);
        pair.world.destroy(door);
        const SentPacket despawn = pair.tick_and_encode();
        const ecs::Entity next = pair.spawn_door(2);
        const SentPacket full = pair.tick_and_encode();
        EXPECT_EQ(pair.receive(full), Verdict::accepted);
        EXPECT_TRUE(pair.receiver.is_consistent());
        pair.receiver.apply();
        pair.tell(full, true);
        EXPECT_EQ(pair.on_client<Position>(next).x, 2);
        EXPECT_EQ(pair.reasons, (std::vector{Despawn::left})) << "the game hears that the first one ended";
        EXPECT_EQ(pair.mirror.is_alive(shown), is_local) << "only what the game spawned stays";
        EXPECT_EQ(with_key(pair.mirror, kDoor).size(), 1u);
        EXPECT_FALSE(pair.receiver.complete()) << "the despawn record is missing";

        const ecs::Entity replica = pair.replica(next);
        EXPECT_TRUE(!is_local || replica == local);
        pair.lose(despawn);
        pair.exchange();  // sends it again
        EXPECT_EQ(pair.replica(next), replica);
        pair.exchange();
        EXPECT_TRUE(pair.receiver.complete());
        EXPECT_EQ(pair.sender.stats(pair.peer).slots_used, 1u);
        EXPECT_TRUE(pair.worlds_are_equal());
    }
}

// The first record of an entity arrives after its key came back.
TEST(StableKeys, Rule27ALateRecordOfAFormerEntityIsIgnored) {
    KeyPair pair;
    const ecs::Entity door = pair.spawn_door(1);
    const SentPacket late = pair.tick_and_encode();
    pair.world.destroy(door);
    const SentPacket despawn = pair.tick_and_encode();
    const ecs::Entity next = pair.spawn_door(2);
    const SentPacket full = pair.tick_and_encode();
    for (const SentPacket& packet : {full, late, despawn}) {
        pair.deliver(packet);
        pair.receiver.apply();
        EXPECT_EQ(pair.on_client<Position>(next).x, 2);
        EXPECT_EQ(pair.mirror.size(), 1u);
        EXPECT_TRUE(pair.receiver.is_consistent());
    }
    EXPECT_EQ(pair.receiver.stats().stale_records, 1u);
    EXPECT_EQ(pair.came.size(), 1u);
}

// Mistakes of the game

TEST(StableKeys, OfTwoReplicatedEntitiesWithOneKeyTheFirstKeepsIt) {
    KeyPair pair;
    [[maybe_unused]] const ecs::Entity first = pair.spawn_door(1);
    pair.exchange();
    const ecs::Entity second = pair.spawn_door(2);
#ifdef NDEBUG
    pair.exchange();
    EXPECT_EQ(pair.sender.net_id(first), kDoorId);
    EXPECT_LT(pair.sender.net_id(second), NetIds::kFirstReserved);
    EXPECT_EQ(pair.receiver.entity_count(), 2u);
    EXPECT_EQ(pair.sender.shadow().refused_keys(), 1u);
    EXPECT_TRUE(pair.worlds_are_equal());
#else
    EXPECT_DEATH(pair.sender.assign_net_id(second), "is_taken");
#endif
}

TEST(StableKeys, OfTwoEntitiesOfTheClientWithOneKeyTheFirstIsMatched) {
    KeyPair pair;
    [[maybe_unused]] const ecs::Entity first = pair.spawn_local();
    pair.receiver.apply();
    [[maybe_unused]] const ecs::Entity door = pair.spawn_door(1);
    [[maybe_unused]] const ecs::Entity second = pair.spawn_local(60);
#ifdef NDEBUG
    pair.exchange();
    EXPECT_EQ(pair.replica(door), first);
    EXPECT_FALSE(pair.mirror.has<Replica>(second));
    EXPECT_EQ(pair.mirror.get<Position>(second).x, 60);
    EXPECT_EQ(pair.receiver.stats().refused_keys, 1u);
#else
    EXPECT_DEATH(pair.receiver.apply(), "is_taken");
#endif
}

TEST(StableKeys, AKeyOverTheLimitIsNone) {
    KeyPair pair;
    const ecs::Entity most = pair.spawn(StableKey{kMaxStableKey});
    const ecs::Entity local = pair.mirror.spawn(StableKey{kMaxStableKey});
    pair.exchange();
    EXPECT_EQ(pair.sender.net_id(most), 0xffff'ffffu);
    EXPECT_EQ(pair.replica(most), local);
    const ecs::Entity over = pair.spawn(StableKey{kMaxStableKey + 2});
#ifdef NDEBUG
    pair.mirror.spawn(StableKey{kMaxStableKey + 2});
    pair.exchange();
    EXPECT_LT(pair.sender.net_id(over), NetIds::kFirstReserved);
    EXPECT_EQ(pair.sender.shadow().refused_keys(), 1u);
    EXPECT_EQ(pair.receiver.stats().refused_keys, 1u);
    EXPECT_EQ(pair.mirror.size(), 3u);
    EXPECT_EQ(pair.receiver.entity(StableKey{kMaxStableKey + 2}), ecs::Entity{});
#else
    EXPECT_DEATH(pair.sender.assign_net_id(over), "net_id");
#endif
}

TEST(StableKeys, TheKeyIsReadWhenAnEntityBeginsToReplicate) {
    KeyPair pair;
    const ecs::Entity local = pair.spawn_local();
    const ecs::Entity door = pair.spawn_door(1), other = pair.spawn(at(2));
    const ecs::Entity aimer = pair.spawn(Aim{door, 1}), other_aimer = pair.spawn(Aim{other, 1});
    pair.exchange();
    const NetId ordinary = pair.sender.net_id(other);
    pair.world.remove<StableKey>(door);
    pair.world.set(other, kDoor);
    pair.exchange();
    EXPECT_EQ(pair.sender.net_id(door), kDoorId);
    EXPECT_EQ(pair.sender.net_id(other), ordinary);
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, local);
    pair.world.remove<Replicated>(door);
    pair.world.remove<Replicated>(other);
    pair.exchange();
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, ecs::Entity{});
    EXPECT_EQ(pair.on_client<Aim>(other_aimer).target, local);
    EXPECT_TRUE(pair.worlds_are_equal());
    pair.world.add<Replicated>(door);
    pair.world.add<Replicated>(other);
    pair.exchange();
    EXPECT_LT(pair.sender.net_id(door), NetIds::kFirstReserved);
    EXPECT_EQ(pair.sender.net_id(other), kDoorId);
    EXPECT_TRUE(pair.worlds_are_equal());
}

// Hostile servers

TEST(StableKeys, AnyReservedNetIdIsSafe) {
    Pair pair({}, {.max_slots = 8});
    const ecs::Entity entity = pair.spawn(at(1));
    pair.tick();
    const ecs::Entity local = pair.mirror.spawn(kDoor);
    std::uint64_t number = 1;
    const auto send = [&](std::uint32_t slot, NetId net_id, Tick tick) {
        const RecordHeader header{slot, RecordKind::full, 0, net_id};
        EXPECT_EQ(pair.receiver.receive(
                      number++, payload_of(pair.schema, tick, {{header, {}, image_of(pair, entity)}})),
                  Verdict::accepted);
        EXPECT_TRUE(pair.receiver.is_consistent());
    };
    send(0, 0xffff'ffff, 1);
    send(1, NetIds::kFirstReserved, 1);
    for (Tick tick = 1; tick < 2'000; ++tick) {
        send(2 + tick % 4, kDoorId, tick);  // a key that jumps between slots
        if (tick % 3 == 0) pair.receiver.apply();
        EXPECT_LE(with_key(pair.mirror, kDoor).size(), 1u);
    }
    pair.receiver.apply();
    EXPECT_EQ(pair.mirror.size(), 3u);
    EXPECT_EQ(pair.receiver.entity(kDoorId), local);
    EXPECT_TRUE(pair.receiver.entity(StableKey{kMaxStableKey}));
    EXPECT_TRUE(pair.receiver.entity(StableKey{0}));
}

}  // namespace
}  // namespace shoal::replication::impl
