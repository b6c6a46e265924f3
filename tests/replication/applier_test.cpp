#include "ecs/query.h"
#include "replication/receive/receiver.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/replication/support/records.h"
#include "tests/replication/support/relations.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl::applier_test {
namespace {

using relations::Knows;
using sim::Aim;
using sim::Name;
using sim::Position;
using sim::Squad;
using sim::Wolf;
using Verdict = Receiver::Verdict;

// References

TEST(Applier, Rule03AnUnresolvedReferenceIsNullAndIsFilledInWhenItsTargetArrives) {
    Pair pair;
    const ecs::Entity aimer = pair.spawn(Aim{{}, 1}, Squad{});
    pair.exchange();
    const ecs::Entity target = pair.spawn(at(1));
    const SentPacket late = pair.tick_and_encode();
    pair.world.set(aimer, Aim{target, 1});
    pair.world.set(aimer, Squad{{target, aimer, target}, ""});
    const SentPacket first = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(first), Verdict::accepted);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, ecs::Entity{});
    EXPECT_EQ(pair.on_client<Squad>(aimer).members[1], pair.replica(aimer));
    int told = 0;
    ecs::Hook hook = pair.mirror.on_change<Aim>([&](ecs::World&, ecs::Entity, const Aim& aim) {
        EXPECT_EQ(aim.target, pair.replica(target));
        EXPECT_TRUE(pair.mirror.has<Position>(aim.target))
            << "the hook must see the target with its components";
        ++told;
    });
    EXPECT_EQ(pair.receive(late), Verdict::accepted);
    pair.receiver.apply();
    EXPECT_EQ(told, 1);
    EXPECT_EQ(pair.on_client<Squad>(aimer).members[2], pair.replica(target));
    for (int i = 0; i < 3; ++i) {
        pair.spawn(at(2));
        pair.exchange();
        EXPECT_EQ(told, 1) << "it does not change again";
    }
}

TEST(Applier, Rule03AReferenceBecomesNullWhenItsTargetIsDestroyed) {
    Pair pair;
    const ecs::Entity target = pair.spawn(at(1)), aimer = pair.spawn(Aim{target, 1});
    pair.exchange();
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, pair.replica(target));
    pair.world.destroy(target);
    pair.exchange();
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, ecs::Entity{});
    EXPECT_TRUE(pair.worlds_are_equal());
}

TEST(Applier, Rule03ForgetsTheReferencesOfADestroyedReplica) {
    Pair pair;
    const ecs::Entity target = pair.spawn(at(1)), aimer = pair.spawn(Aim{target, 1});
    pair.exchange();
    EXPECT_TRUE(pair.receiver.is_consistent());
    pair.world.destroy(aimer);
    const SentPacket gone = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(gone), Verdict::accepted);
    EXPECT_TRUE(pair.receiver.is_consistent());
    pair.receiver.apply();
    EXPECT_TRUE(pair.receiver.is_consistent());
}

TEST(Applier, Rule03EntitiesThatReferToEachOtherSpawnWithTheirReferences) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), b = pair.spawn(Aim{a, 1});
    pair.world.set(a, Aim{b, 1});
    int hooks = 0;
    ecs::Hook hook = pair.mirror.on_add<Aim>([&](ecs::World&, ecs::Entity, const Aim& aim) {
        EXPECT_TRUE(aim.target);
        ++hooks;
    });
    pair.exchange();
    EXPECT_EQ(hooks, 2);
    EXPECT_TRUE(pair.worlds_are_equal());
}

// Entities of the client's game

TEST(Applier, Rule13AReplicaThatTheGameDestroyedIsNotCreatedAgain) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1)), aimer = pair.spawn(Aim{entity, 1});
    pair.exchange();
    const NetId net_id = pair.sender.net_id(entity);
    pair.mirror.destroy(pair.replica(entity));
    for (int i = 0; i < 5; ++i) {
        pair.world.set(entity, at(static_cast<float>(i)));
        pair.world.set(aimer, Aim{entity, static_cast<float>(i)});
        pair.exchange();
        EXPECT_FALSE(pair.receiver.entity(net_id));
        EXPECT_EQ(pair.on_client<Aim>(aimer).target, ecs::Entity{});
    }
    EXPECT_EQ(pair.receiver.stats().suppressed, 1u);
    EXPECT_EQ(pair.receiver.entity_count(), 1u);
    EXPECT_EQ(pair.receiver.stats().refused_packets, 0u) << "its versions are still updated";
    pair.world.destroy(entity);
    pair.exchange();
    EXPECT_EQ(pair.receiver.stats().suppressed, 1u);
    const ecs::Entity next = pair.spawn(at(9));
    pair.exchange();
    EXPECT_EQ(pair.on_client<Position>(next).x, 9) << "the slot works for another entity";
}

TEST(Applier, Rule13AReplicaThatTheGameDestroyedIsCountedAtItsDespawn) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.mirror.destroy(pair.replica(entity));
    pair.world.destroy(entity);
    pair.exchange();
    EXPECT_EQ(pair.receiver.stats().suppressed, 1u);
    EXPECT_EQ(pair.receiver.entity_count(), 0u);
}

TEST(Applier, AnExpectedEntityThatTheGameDestroyedIsNotCreatedByLaterRecords) {
    Pair pair;
    const ecs::Entity made = pair.mirror.spawn(at(1));
    pair.receiver.replicas().expect(kFirstPending | 7u, made);
    pair.mirror.destroy(made);
    const ecs::Entity entity = pair.spawn(at(1)), aimer = pair.spawn(Aim{entity, 1});
    pair.sender.set_pending_id(pair.peer, pair.sender.assign_net_id(entity), 7);
    for (int i = 0; i < 4; ++i) {
        pair.world.set(entity, at(static_cast<float>(i)));
        pair.world.set(aimer, Aim{entity, static_cast<float>(i)});
        pair.exchange();
        EXPECT_EQ(pair.receiver.entity_count(), 1u) << "the aimer";
        EXPECT_EQ(pair.on_client<Aim>(aimer).target, ecs::Entity{});
        EXPECT_EQ(pair.receiver.stats().suppressed, 1u);
    }
    pair.world.destroy(entity);
    pair.exchange();
    EXPECT_EQ(pair.receiver.stats().suppressed, 1u);
    const ecs::Entity next = pair.spawn(at(9));
    pair.exchange();
    EXPECT_EQ(pair.on_client<Position>(next).x, 9) << "the slot works for another entity";
}

TEST(Applier, AnEntityThatIsNotExpectedAnyMoreStaysTheGames) {
    Pair pair;
    const ecs::Entity made = pair.mirror.spawn(at(1)), other = pair.mirror.spawn(at(2));
    pair.receiver.replicas().expect(kFirstPending | 7u, made);
    pair.receiver.replicas().expect(kFirstPending | 8u, other);
    pair.receiver.replicas().forget_expected(kFirstPending | 7u);
    const ecs::Entity first = pair.spawn(at(5)), second = pair.spawn(at(6));
    pair.sender.set_pending_id(pair.peer, pair.sender.assign_net_id(first), 7);
    pair.sender.set_pending_id(pair.peer, pair.sender.assign_net_id(second), 8);
    pair.exchange();
    EXPECT_NE(pair.replica(first), made);
    EXPECT_EQ(pair.replica(second), other);
    EXPECT_EQ(pair.mirror.get<Position>(made).x, 1);
    EXPECT_FALSE(pair.mirror.has<Replica>(made));
    EXPECT_EQ(pair.mirror.size(), 3u);
}

TEST(Applier, AnExpectedEntityGetsTheServersComponentsWithItsFirstRecord) {
    Pair pair;
    const ecs::Entity made = pair.mirror.spawn(at(1), Wolf{}, Name{"mine"}, sim::Secret{3});
    const auto held = static_cast<ComponentIndex>(pair.schema.find<sim::Health>());
    pair.mirror.set(made, sim::Health{50});
    pair.receiver.replicas().expect(kFirstPending | 7u, made, {&held, 1});
    const ecs::Entity entity = pair.spawn(at(2), Name{"server's"}, sim::Health{9});
    pair.sender.set_pending_id(pair.peer, pair.sender.assign_net_id(entity), 7);
    pair.exchange();
    ASSERT_EQ(pair.replica(entity), made);
    EXPECT_EQ(pair.mirror.get<Position>(made).x, 2);
    EXPECT_EQ(pair.mirror.get<Name>(made).text, "server's");
    EXPECT_EQ(pair.mirror.get<sim::Secret>(made).value, 3) << "the schema does not have it";
    EXPECT_FALSE(pair.mirror.has<Wolf>(made)) << "the server's entity does not have it";
    EXPECT_TRUE(pair.mirror.has<Replica>(made));
    EXPECT_EQ(pair.mirror.get<sim::Health>(made).points, 50) << "held";
    EXPECT_TRUE(pair.receiver.release(made, held));
    EXPECT_EQ(pair.mirror.get<sim::Health>(made).points, 9);
    pair.mirror.add<Wolf>(made);
    pair.world.set(entity, at(3));
    pair.exchange();
    EXPECT_TRUE(pair.mirror.has<Wolf>(made)) << "what the game adds later stays";
    EXPECT_EQ(pair.mirror.get<Position>(made).x, 3);
}

TEST(Applier, DoesNotChangeTheGamesOwnEntitiesAndComponents) {
    Pair pair;
    const ecs::Entity own = pair.mirror.spawn(at(5), Wolf{});
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.mirror.set(pair.replica(entity), sim::Secret{3});
    pair.world.set(entity, at(2));
    pair.world.add<Wolf>(entity);
    pair.exchange();
    EXPECT_EQ(pair.mirror.get<sim::Secret>(pair.replica(entity)).value, 3);
    EXPECT_EQ(pair.receiver.net_id(own), 0u);
    pair.receiver.reset();
    EXPECT_EQ(pair.mirror.size(), 1u);
    EXPECT_TRUE(pair.mirror.has<Wolf>(own));
}

TEST(Applier, HooksMayDestroyReplicasWhileTheyAreApplied) {
    Pair pair;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 10; ++i) entities.push_back(pair.spawn(at(1), Name{"x"}));
    ecs::Hook hook =
        pair.mirror.on_add<Position>([&](ecs::World& world, ecs::Entity entity, const Position&) {
            if (entity.index % 2 == 0) world.destroy(entity);
        });
    pair.exchange();
    for (int i = 0; i < 3; ++i) {
        for (const ecs::Entity entity : entities) {
            pair.world.set(entity, at(static_cast<float>(i + 2)));
            pair.world.add<Wolf>(entity);
        }
        pair.exchange();
        EXPECT_EQ(pair.mirror.size(), 5u);
    }
    EXPECT_EQ(pair.receiver.stats().suppressed, 5u);
    EXPECT_EQ(pair.receiver.entity_count(), 5u);
}

// Applying

TEST(Applier, DestroysBeforeItSpawnsAndSpawnsWithAllComponentsAtOnce) {
    Pair pair;
    const ecs::Entity old = pair.spawn(at(1));
    pair.exchange();
    std::string order;
    ecs::Hook gone = pair.mirror.on_remove<Position>(
        [&](ecs::World&, ecs::Entity, const Position&) { order += "destroy "; });
    ecs::Hook come =
        pair.mirror.on_add<Position>([&](ecs::World& world, ecs::Entity entity, const Position& p) {
            EXPECT_TRUE(world.has<Name>(entity) && world.has<Wolf>(entity));
            EXPECT_EQ(world.get<Name>(entity).text, "new");
            EXPECT_EQ(p.x, 4);
            order += "spawn ";
        });
    pair.world.destroy(old);
    pair.spawn(at(4), Name{"new"}, Wolf{});
    pair.exchange();
    EXPECT_EQ(order, "destroy spawn ");
}

// The target of a reference comes in a later record of the packet, and a sibling changes in the same tick.
TEST(Applier, Rule28HooksSeeEverythingThatOneApplyBrings) {
    Pair pair;
    const ecs::Entity sibling = pair.spawn(at(1));
    pair.exchange();
    int added = 0, changed = 0;
    const auto check = [&](ecs::World& world, const Aim& aim) {
        ASSERT_TRUE(world.has<Position>(aim.target) && world.has<Name>(aim.target));
        EXPECT_EQ(world.get<Name>(aim.target).text, "target");
        EXPECT_EQ(world.get<Position>(pair.replica(sibling)).x, 2);
        EXPECT_EQ(world.get<Aim>(aim.target).target, pair.replica(sibling));
    };
    ecs::Hook add = pair.mirror.on_add<Aim>([&](ecs::World& world, ecs::Entity, const Aim& aim) {
        if (aim.range == 3) check(world, aim);
        ++added;
    });
    ecs::Hook change =
        pair.mirror.on_change<Position>([&](ecs::World& world, ecs::Entity entity, const Position&) {
            EXPECT_EQ(entity, pair.replica(sibling));
            EXPECT_EQ(world.size(), 3u) << "new replicas exist before a change is reported";
            ++changed;
        });
    const ecs::Entity aimer = pair.spawn(Aim{{}, 3});
    const ecs::Entity target = pair.spawn(at(9), Name{"target"}, Aim{sibling, 1});
    pair.world.set(aimer, Aim{target, 3});
    pair.world.set(sibling, at(2));
    pair.exchange();
    EXPECT_EQ(added, 2);
    EXPECT_EQ(changed, 1);
}

TEST(Applier, AddedAndRemovedComponentsRunTheirHooks) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1), Name{"a"});
    pair.exchange();
    int added = 0, removed = 0, changed = 0;
    ecs::Hook a = pair.mirror.on_add<Wolf>([&](ecs::World&, ecs::Entity) { ++added; });
    ecs::Hook r = pair.mirror.on_remove<Name>([&](ecs::World&, ecs::Entity, const Name& name) {
        EXPECT_EQ(name.text, "a");
        ++removed;
    });
    ecs::Hook c =
        pair.mirror.on_change<Position>([&](ecs::World&, ecs::Entity, const Position&) { ++changed; });
    pair.world.add<Wolf>(entity);
    pair.world.remove<Name>(entity);
    pair.exchange();
    EXPECT_EQ(added, 1);
    EXPECT_EQ(removed, 1);
    EXPECT_EQ(changed, 0) << "an unchanged component is not written";
    EXPECT_TRUE(pair.worlds_are_equal());
}

TEST(Applier, Rule08ADespawnRecordOfAnyReasonDestroysTheReplica) {
    for (const Despawn reason : {Despawn::destroyed, Despawn::left, Despawn::out_of_view}) {
        Pair pair;
        const ecs::Entity entity = pair.spawn(at(1)), aimer = pair.spawn(sim::Aim{entity, 1});
        pair.exchange();
        const ecs::Entity replica = pair.replica(entity);
        Despawn heard = Despawn(3);
        ecs::Hook hook = pair.mirror.on_remove<Replica>(
            [&](ecs::World&, ecs::Entity, const Replica& ended) { heard = ended.reason; });
        RecordHeader header{0, RecordKind::despawn};
        header.reason = reason;
        const auto payload = payload_of(pair.schema, pair.sender.tick() + 1, {{header, {}, {}}});
        EXPECT_EQ(pair.receiver.receive(900, payload), Receiver::Verdict::accepted);
        pair.receiver.apply();
        EXPECT_FALSE(pair.mirror.is_alive(replica));
        EXPECT_EQ(heard, reason);
        EXPECT_EQ(pair.receiver.entity(pair.sender.net_id(entity)), ecs::Entity{});
        EXPECT_EQ(pair.on_client<sim::Aim>(aimer).target, ecs::Entity{});
        EXPECT_TRUE(pair.receiver.is_consistent());
    }
}

TEST(Applier, HooksOfReplicaTellThatItCameAndWhyItEnds) {
    Pair pair;
    std::vector<float> came;
    std::vector<Despawn> ended;
    ecs::Hook add = pair.mirror.on_add<Replica>([&](ecs::World& world, ecs::Entity entity, const Replica&) {
        came.push_back(world.get<Position>(entity).x);
    });
    ecs::Hook remove =
        pair.mirror.on_remove<Replica>([&](ecs::World& world, ecs::Entity entity, const Replica& replica) {
            EXPECT_TRUE(world.has<Position>(entity)) << "the values are still there";
            ended.push_back(replica.reason);
        });
    const ecs::Entity first = pair.spawn(at(1)), second = pair.spawn(at(2));
    pair.spawn(at(3));
    pair.mirror.spawn(at(9));  // the client's own
    pair.exchange();
    EXPECT_EQ(came, (std::vector<float>{1, 2, 3}));
    ecs::Query<ecs::With<Replica>> replicas(pair.mirror);
    EXPECT_EQ(replicas.count(), 3u);
    EXPECT_EQ((ecs::Query<ecs::With<StableKey>>(pair.mirror).count()), 0u) << "the server's have no key";
    pair.world.destroy(first);
    pair.exchange();
    pair.world.remove<Replicated>(second);
    pair.exchange();
    pair.receiver.reset();
    EXPECT_EQ(ended, (std::vector<Despawn>{Despawn::destroyed, Despawn::left, Despawn::left}));
    EXPECT_EQ(came.size(), 3u);
}

TEST(Applier, AnEntityWithoutComponentsIsReplicatedToo) {
    Pair pair;
    const ecs::Entity entity = pair.spawn();
    pair.exchange();
    EXPECT_TRUE(pair.replica(entity));
    EXPECT_EQ(pair.mirror.size(), 1u);
    pair.world.destroy(entity);
    pair.exchange();
    EXPECT_EQ(pair.mirror.size(), 0u);
}

TEST(Applier, ApplyShowsOnlyTheNewestOfSeveralPackets) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    int added = 0;
    ecs::Hook hook = pair.mirror.on_add<Position>([&](ecs::World&, ecs::Entity, const Position& p) {
        EXPECT_EQ(p.x, 9);
        ++added;
    });
    for (int i = 2; i < 10; ++i) {
        pair.world.set(entity, at(static_cast<float>(i)));
        pair.deliver(pair.tick_and_encode());
    }
    const ecs::Entity brief = pair.spawn(at(1));
    pair.deliver(pair.tick_and_encode());
    pair.world.destroy(brief);
    pair.deliver(pair.tick_and_encode());
    pair.receiver.apply();
    EXPECT_EQ(added, 1);
    EXPECT_EQ(pair.mirror.size(), 1u);
}

TEST(PairMemory, EverNewSetsOfTargetsDoNotFillTheClientsWorld) {
    Schema schema;
    schema.pair<Knows>("knows", max_length(100));
    Pair pair({}, {}, 1, 1, std::move(schema));
    std::vector<ecs::Entity> targets;
    for (int i = 0; i < 12; ++i) targets.push_back(pair.spawn());
    const ecs::Entity source = pair.spawn();
    for (unsigned set = 0; set < 4'096; ++set) {
        for (unsigned bit = 0; bit < 12; ++bit) {
            const auto key = ecs::to<Knows>(targets[bit]);
            if (set >> bit & 1) {
                pair.world.add(source, key);
            } else {
                pair.world.remove(source, key);
            }
        }
        pair.exchange();
        ASSERT_LE(pair.mirror.archetype_count(), 513u);
    }
    EXPECT_EQ(pair.mirror.targets<Knows>(pair.replica(source)).size(), 12u);
    EXPECT_TRUE(pair.worlds_are_equal());
}

}  // namespace
}  // namespace shoal::replication::impl::applier_test
