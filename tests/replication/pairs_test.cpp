#include "replication/schema/pairs.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/replication/support/relations.h"

namespace shoal::replication::impl::pairs_test {
namespace {

using relations::Entities;
using relations::Escorts;
using relations::Hires;
using relations::Knows;
using relations::Owes;
using relations::Pairs;

TEST_F(Pairs, Rule27ArriveWithTheirValuesAndTargets) {
    const ecs::Entity a = spawn(), b = spawn(), c = spawn();
    world.set(a, ecs::to<Escorts>(b), Escorts{3.5f});
    world.add(a, ecs::to<Knows>(b));
    world.add(a, ecs::to<Knows>(c));
    world.add(b, ecs::to<Knows>(b));
    world.set(c, ecs::to<Owes>(a), Owes{40, b});
    exchange();
    EXPECT_EQ(mirror.target<Escorts>(replica(a)), replica(b));
    EXPECT_EQ(mirror.get(replica(a), ecs::to<Escorts>(replica(b))).distance, 3.5f);
    EXPECT_EQ(targets<Knows>(a), (Entities{replica(b), replica(c)}));
    EXPECT_EQ(targets<Knows>(b), (Entities{replica(b)})) << "itself";
    EXPECT_EQ(mirror.get(replica(c), ecs::to<Owes>(replica(a))).coins, 40);
    EXPECT_EQ(mirror.get(replica(c), ecs::to<Owes>(replica(a))).witness, replica(b));

    world.patch(c, ecs::to<Owes>(a), [](Owes& owes) { owes.coins = 41; });
    world.set(c, ecs::to<Owes>(b), Owes{1, {}});
    world.remove(a, ecs::to<Knows>(b));
    world.add(a, ecs::to<Escorts>(c));
    world.remove(b, ecs::to<Knows>(b));
    exchange();
    EXPECT_EQ(mirror.get(replica(c), ecs::to<Owes>(replica(a))).coins, 41);
    EXPECT_EQ(targets<Owes>(c), (Entities{replica(a), replica(b)}));
    EXPECT_EQ(targets<Knows>(a), (Entities{replica(c)}));
    EXPECT_EQ(mirror.target<Escorts>(replica(a)), replica(c));
    EXPECT_TRUE(targets<Knows>(b).empty());
}

TEST_F(Pairs, Rule27ATargetThatDoesNotReplicateIsLeftOutUntilItDoes) {
    const ecs::Entity a = spawn(), hidden = world.spawn(), other = spawn();
    world.add(a, ecs::to<Escorts>(hidden));
    world.add(a, ecs::to<Knows>(hidden));
    world.add(a, ecs::to<Knows>(other));
    exchange();
    EXPECT_FALSE(mirror.target<Escorts>(replica(a)));
    EXPECT_EQ(targets<Knows>(a), (Entities{replica(other)}));
    world.add<Replicated>(hidden);
    exchange();
    EXPECT_EQ(mirror.target<Escorts>(replica(a)), replica(hidden));
    EXPECT_EQ(targets<Knows>(a).size(), 2u);
    world.remove<Replicated>(hidden);
    exchange();
    EXPECT_FALSE(mirror.target<Escorts>(replica(a)));
    EXPECT_EQ(targets<Knows>(a), (Entities{replica(other)}));
    world.add<Replicated>(hidden);
    exchange();
    EXPECT_EQ(mirror.target<Escorts>(replica(a)), replica(hidden)) << "under another net id";
}

TEST_F(Pairs, APairWaitsForItsTarget) {
    const ecs::Entity source = spawn(), target = spawn();
    world.set(source, ecs::to<Escorts>(target), Escorts{2});
    std::vector<SentPacket> packets = tick_in_packets_of(12);
    ASSERT_EQ(packets.size(), 2u);
    deliver(packets[0]);
    receiver.apply();
    ASSERT_TRUE(mirror.is_alive(replica(source)));
    EXPECT_FALSE(replica(target));
    EXPECT_FALSE(mirror.target<Escorts>(replica(source)));
    deliver(packets[1]);
    receiver.apply();
    EXPECT_EQ(mirror.target<Escorts>(replica(source)), replica(target));
    EXPECT_EQ(mirror.get(replica(source), ecs::to<Escorts>(replica(target))).distance, 2);
}

TEST_F(Pairs, FieldsOfAValueThatAreNotReplicatedStay) {
    const ecs::Entity a = spawn(), b = spawn(), c = spawn();
    world.set(a, ecs::to<Hires>(b), Hires{1, 10});
    world.set(a, ecs::to<Hires>(c), Hires{2, 20});
    exchange();
    mirror.patch(replica(a), ecs::to<Hires>(replica(c)), [](Hires& hires) { hires.note = 7; });
    world.set(a, ecs::to<Hires>(b), Hires{1, 11});
    world.set(a, ecs::to<Hires>(c), Hires{2, 21});
    exchange();
    const Hires& hires = mirror.get(replica(a), ecs::to<Hires>(replica(c)));
    EXPECT_EQ(hires.wage, 21);
    EXPECT_EQ(hires.note, 7);
    EXPECT_EQ(mirror.get(replica(a), ecs::to<Hires>(replica(b))).wage, 11);
    EXPECT_EQ(mirror.get(replica(a), ecs::to<Hires>(replica(b))).note, 0);
}

TEST_F(Pairs, AReferenceInAValueIsFilledInWhenItsEntityArrives) {
    const ecs::Entity source = spawn(), target = spawn(), witness = world.spawn();
    world.set(source, ecs::to<Owes>(target), Owes{3, witness});
    exchange();
    EXPECT_FALSE(mirror.get(replica(source), ecs::to<Owes>(replica(target))).witness);
    world.add<Replicated>(witness);
    exchange();
    EXPECT_EQ(mirror.get(replica(source), ecs::to<Owes>(replica(target))).witness, replica(witness));
    world.destroy(witness);
    Pair::exchange();
    EXPECT_FALSE(mirror.get(replica(source), ecs::to<Owes>(replica(target))).witness);
}

// The value that the server has is the same; only the client's entity is another one.
TEST_F(Pairs, AValueIsWrittenAgainWhenItsReferenceMeansAnotherEntity) {
    const ecs::Entity source = spawn(), target = spawn(), witness = spawn();
    world.set(source, ecs::to<Owes>(target), Owes{3, witness});
    std::vector<SentPacket> packets = tick_in_packets_of(14);
    ASSERT_GE(packets.size(), 2u);
    for (const SentPacket& packet : packets) {
        deliver(packet);
        receiver.apply();
    }
    EXPECT_EQ(mirror.get(replica(source), ecs::to<Owes>(replica(target))).witness, replica(witness));
}

TEST_F(Pairs, ADestroyedTargetTakesItsPairsWithIt) {
    const ecs::Entity a = spawn(), b = spawn(), c = spawn();
    world.add(a, ecs::to<Escorts>(b));
    world.add(a, ecs::to<Knows>(b));
    world.add(a, ecs::to<Knows>(c));
    exchange();
    world.destroy(b);
    exchange();
    EXPECT_FALSE(mirror.target<Escorts>(replica(a)));
    EXPECT_EQ(targets<Knows>(a), (Entities{replica(c)}));
}

TEST_F(Pairs, HooksAreCalledOncePerPairThatChanged) {
    const ecs::Entity a = spawn(), b = spawn(), c = spawn();
    int added = 0, changed = 0, removed = 0;
    using ecs::Entity;
    auto on_add = mirror.on_add<Owes>([&](ecs::World&, Entity, Entity, const Owes&) { ++added; });
    auto on_change = mirror.on_change<Owes>([&](ecs::World&, Entity, Entity, const Owes&) { ++changed; });
    auto on_remove = mirror.on_remove<Owes>([&](ecs::World&, Entity, Entity, const Owes&) { ++removed; });
    world.set(a, ecs::to<Owes>(b), Owes{1, {}});
    world.set(a, ecs::to<Owes>(c), Owes{2, {}});
    exchange();
    EXPECT_EQ((std::vector{added, changed, removed}), (std::vector{2, 0, 0}));
    world.patch(a, ecs::to<Owes>(c), [](Owes& owes) { owes.coins = 3; });
    world.set(a, ecs::to<Owes>(a), Owes{9, {}});
    exchange();
    EXPECT_EQ((std::vector{added, changed, removed}), (std::vector{3, 1, 0}));
    world.remove(a, ecs::to<Owes>(b));
    exchange();
    EXPECT_EQ((std::vector{added, changed, removed}), (std::vector{3, 1, 1}));
    world.set(b, sim::Health{4});
    exchange();
    EXPECT_EQ((std::vector{added, changed, removed}), (std::vector{3, 1, 1}));
}

// Rule 28 for pairs: whoever hears of one replica finds the pairs of all.
TEST_F(Pairs, Rule28AreThereWhenAddHooksRun) {
    const ecs::Entity a = spawn(sim::Health{1}), b = spawn(sim::Health{2});
    world.set(a, ecs::to<Escorts>(b), Escorts{5});
    world.set(b, ecs::to<Escorts>(a), Escorts{6});
    int seen = 0;
    auto hook =
        mirror.on_add<sim::Health>([&](ecs::World& in, ecs::Entity entity, const sim::Health& health) {
            const ecs::Entity other = in.target<Escorts>(entity);
            ASSERT_TRUE(other);
            EXPECT_EQ(in.get(entity, ecs::to<Escorts>(other)).distance, health.points == 1 ? 5 : 6);
            EXPECT_EQ(in.target<Escorts>(other), entity);
            ++seen;
        });
    exchange();
    EXPECT_EQ(seen, 2);
}

TEST_F(Pairs, PairsOfTheGameWithItsOwnEntitiesStay) {
    const ecs::Entity a = spawn(), b = spawn();
    world.add(a, ecs::to<Knows>(b));
    exchange();
    const ecs::Entity local = mirror.spawn();
    mirror.add(replica(a), ecs::to<Knows>(local));
    world.remove(a, ecs::to<Knows>(b));
    Pair::exchange();
    EXPECT_EQ(targets<Knows>(a), Entities{local});
}

// A reconnected client gets the pairs anew.
TEST_F(Pairs, PairsThatTheServerRemovedMeanwhileGoFromALoadedEntity) {
    const ecs::Entity door = spawn(StableKey{1}), lamp = spawn(StableKey{2});
    const ecs::Entity own_door = mirror.spawn(StableKey{1}), own_lamp = mirror.spawn(StableKey{2});
    world.add(door, ecs::to<Knows>(lamp));
    exchange();
    ASSERT_TRUE(mirror.has(own_door, ecs::to<Knows>(own_lamp)));
    receiver.reset();
    sender.remove_peer(peer);
    world.remove(door, ecs::to<Knows>(lamp));
    peer = sender.add_peer();
    exchange();
    EXPECT_FALSE(mirror.has(own_door, ecs::to<Knows>(own_lamp)));
}

TEST_F(Pairs, FollowTheKeyOfTheirTarget) {
    for (const bool replicates : {false, true}) {
        const StableKey key{replicates ? 5u : 6u};
        const ecs::Entity source = spawn(), lamp = replicates ? spawn(key) : world.spawn(key);
        const ecs::Entity first = mirror.spawn(key), second = mirror.spawn();
        world.add(source, ecs::to<Knows>(lamp));
        world.set(source, ecs::to<Escorts>(lamp), Escorts{2});
        exchange();
        EXPECT_EQ(targets<Knows>(source), Entities{first});
        mirror.remove<StableKey>(first);
        mirror.set(second, key);
        receiver.apply();
        EXPECT_EQ(targets<Knows>(source), Entities{second});
        EXPECT_EQ(mirror.target<Escorts>(replica(source)), second);
        EXPECT_FALSE(mirror.has(replica(source), ecs::to<Escorts>(first)));
        mirror.remove<StableKey>(second);
        receiver.apply();
        EXPECT_FALSE(mirror.has(replica(source), ecs::to<Knows>(second)));
        EXPECT_FALSE(mirror.has(replica(source), ecs::to<Escorts>(second)));
        EXPECT_EQ(targets<Knows>(source).size(), replicates ? 1u : 0u) << "a new replica has the key";
        EXPECT_TRUE(receiver.is_consistent());
        world.destroy(source);
    }
}

TEST_F(Pairs, OfTheGameDoNotFollowTheKeyOfTheirTarget) {
    const ecs::Entity source = spawn(), lamp = world.spawn(StableKey{6});
    const ecs::Entity first = mirror.spawn(StableKey{6}), second = mirror.spawn();
    world.add(source, ecs::to<Knows>(lamp));
    exchange();
    mirror.set(replica(source), ecs::to<Escorts>(first), Escorts{2});
    mirror.remove<StableKey>(first);
    mirror.set(second, StableKey{6});
    receiver.apply();
    EXPECT_EQ(targets<Knows>(source), Entities{second});
    EXPECT_TRUE(mirror.has(replica(source), ecs::to<Escorts>(first)));
}

TEST_F(Pairs, ThoseToTargetsWhoseKeysAreExchangedAreExchanged) {
    const ecs::Entity source = spawn(), door = spawn(StableKey{1}), lamp = spawn(StableKey{2});
    const ecs::Entity own_door = mirror.spawn(StableKey{1}), own_lamp = mirror.spawn(StableKey{2});
    world.set(source, ecs::to<Owes>(door), Owes{1, {}});
    world.set(source, ecs::to<Owes>(lamp), Owes{2, {}});
    exchange();
    mirror.set(own_door, StableKey{2});
    mirror.set(own_lamp, StableKey{1});
    receiver.apply();
    EXPECT_EQ(mirror.get(replica(source), ecs::to<Owes>(own_lamp)).coins, 1);
    EXPECT_EQ(mirror.get(replica(source), ecs::to<Owes>(own_door)).coins, 2);
}

// Between receive() and apply(), the target is still in the world.
TEST_F(Pairs, ToTargetsThatAreAboutToEndAreNotRestored) {
    const ecs::Entity source = spawn(), ending = spawn(), staying = spawn();
    for (const ecs::Entity target : {ending, staying}) world.add(source, ecs::to<Knows>(target));
    world.set(source, ecs::to<Owes>(staying), Owes{5, ending});
    exchange();
    const ecs::Entity end = replica(ending), stay = replica(staying), its_source = replica(source);
    world.remove<Replicated>(ending);
    tick();
    while (const auto packet = encode()) deliver(*packet);
    ASSERT_TRUE(receiver.restore(its_source));
    EXPECT_TRUE(mirror.is_alive(end));
    EXPECT_EQ(targets<Knows>(source), Entities{stay});
    EXPECT_FALSE(mirror.get(its_source, ecs::to<Owes>(stay)).witness);
    exchange();
    EXPECT_EQ(targets<Knows>(source), Entities{stay});
}

TEST_F(Pairs, TargetsBeyondTheGreatestNumberAreCutAndCounted) {
    const ecs::Entity source = spawn();
    Entities others;
    for (int i = 0; i < 50; ++i) {
        others.push_back(spawn());
        world.add(source, ecs::to<Knows>(others.back()));
    }
    Pair::exchange();
    EXPECT_EQ(targets<Knows>(source).size(), 40u);
    EXPECT_GT(sender.shadow().misfits().cut, 0u);
    for (int i = 40; i < 50; ++i) world.destroy(others[static_cast<std::size_t>(i)]);
    exchange();
    EXPECT_EQ(targets<Knows>(source).size(), 40u);
}

TEST_F(Pairs, ATargetThatLeavesGivesItsPlaceToOneThatWasCut) {
    const ecs::Entity source = spawn();
    Entities others;
    for (int i = 0; i < 41; ++i) {
        others.push_back(spawn());
        world.add(source, ecs::to<Knows>(others.back()));
    }
    Pair::exchange();
    EXPECT_EQ(targets<Knows>(source).size(), 40u);
    world.remove<Replicated>(others[3]);
    exchange();
    EXPECT_EQ(targets<Knows>(source).size(), 40u);
    EXPECT_TRUE(mirror.has(replica(source), ecs::to<Knows>(replica(others[40]))));
    world.add<Replicated>(others[3]);
    world.remove<Replicated>(others[40]);
    exchange();
    EXPECT_EQ(targets<Knows>(source).size(), 40u);
    EXPECT_TRUE(mirror.has(replica(source), ecs::to<Knows>(replica(others[3]))));
}

TEST_F(Pairs, AChangeOfOneValueCostsLittle) {
    const ecs::Entity source = spawn();
    for (int i = 0; i < 16; ++i) world.set(source, ecs::to<Owes>(spawn()), Owes{i, {}});
    exchange();
    world.patch(source, ecs::to<Owes>(world.targets<Owes>(source)[8]), [](Owes& owes) { owes.coins += 1; });
    EXPECT_LE(tick_and_encode().bytes.size(), 20u);
}

}  // namespace
}  // namespace shoal::replication::impl::pairs_test
