#include "replication/schema/pairs.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication {
namespace {

struct Escorts {
    static constexpr auto relation = ecs::exclusive;
    float distance = 1;
};
struct Knows {
    static constexpr auto relation = ecs::many;
};
struct Owes {
    static constexpr auto relation = ecs::many;
    std::int32_t coins = 7;
    ecs::Entity witness;
};
struct PartOf {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};

using Entities = std::vector<ecs::Entity>;

struct Hires {
    static constexpr auto relation = ecs::many;
    std::int32_t note = 0;  // of each side
    std::int32_t wage = 0;
};

}  // namespace

template <>
struct Replicate<Hires> {
    static auto fields(auto& v) { return std::tie(v.wage); }
};

namespace {

class Pairs : public testing::Test, public Pair {
protected:
    Pairs() : Pair({}, {}, 1, 1, describe()) {}

    static Schema describe() {
        Schema out;
        out.component<sim::Health>("health");
        out.pair<Escorts>("escorts", field(&Escorts::distance, quantised(0, 100, 0.5)));
        out.pair<Knows>("knows", max_length(40));
        out.pair<Owes>("owes", field(&Owes::coins, bounded(0, 100)));
        out.pair<PartOf>("part_of");
        out.pair<Hires>("hires");
        return out;
    }
    void exchange() {
        Pair::exchange();
        EXPECT_TRUE(receiver.is_consistent());
        EXPECT_TRUE(sender.shadow().is_consistent());
        EXPECT_TRUE(worlds_are_equal());
    }
    template <class R>
    Entities targets(ecs::Entity source) {
        Entities out;
        for (const ecs::Entity target : mirror.targets<R>(replica(source))) out.push_back(target);
        std::sort(out.begin(), out.end());
        return out;
    }
};

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
    tick();
    std::vector<SentPacket> packets;
    while (const auto packet = encode(12)) packets.push_back(*packet);
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
    tick();
    std::vector<SentPacket> packets;
    while (const auto packet = encode(14)) packets.push_back(*packet);
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

TEST_F(Pairs, AParentAndItsPartsAreDestroyedAsOne) {
    const ecs::Entity hull = spawn(), turret = spawn(), barrel = spawn(), crew = spawn();
    world.add(turret, ecs::to<PartOf>(hull));
    world.add(barrel, ecs::to<PartOf>(turret));
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
    tick();
    std::vector<SentPacket> packets;
    while (const auto packet = encode(20)) packets.push_back(*packet);
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
    deliver(tick_and_encode());
    receiver.apply();
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
    world.add(turret, ecs::to<PartOf>(old_hull));
    world.add(barrel, ecs::to<PartOf>(turret));
    world.add(flag, ecs::to<PartOf>(barrel));
    exchange();
    world.add(turret, ecs::to<PartOf>(new_hull));
    const SentPacket late = tick_and_encode();
    world.destroy(old_hull);
    deliver(tick_and_encode());
    receiver.apply();
    EXPECT_EQ(receiver.entity_count(), 1u) << "the new hull";
    world.set(flag, sim::Health{6});
    deliver(tick_and_encode());
    receiver.apply();
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
    world.add(turret, ecs::to<PartOf>(hull));
    world.add(barrel, ecs::to<PartOf>(turret));
    exchange();
    world.remove(turret, ecs::to<PartOf>(hull));
    world.remove<Replicated>(turret);
    const SentPacket late = tick_and_encode();
    world.destroy(hull);
    deliver(tick_and_encode());
    receiver.apply();
    EXPECT_EQ(receiver.entity_count(), 0u);
    deliver(late);
    receiver.apply();
    EXPECT_EQ(receiver.entity_count(), 1u);
    EXPECT_TRUE(mirror.is_alive(replica(barrel)));
    EXPECT_EQ(receiver.stats().suppressed, 0u);
    exchange();
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
        deliver(tick_and_encode());
        receiver.apply();
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
    deliver(tick_and_encode());
    receiver.apply();
    receiver.reset();
    EXPECT_EQ(mirror.size(), 0u);
    EXPECT_EQ(receiver.stats().suppressed, 0u);
    EXPECT_TRUE(receiver.is_consistent());
}

TEST_F(Pairs, PartsThatBecomePartsOfEachOtherComeBack) {
    const ecs::Entity hull = spawn(), turret = spawn(), barrel = spawn();
    world.add(turret, ecs::to<PartOf>(hull));
    world.add(barrel, ecs::to<PartOf>(turret));
    exchange();
    world.add(turret, ecs::to<PartOf>(barrel));
    const SentPacket late = tick_and_encode();
    world.destroy(hull);
    deliver(tick_and_encode());
    receiver.apply();
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
    tick();
    std::vector<SentPacket> packets;
    while (const auto packet = encode(1)) packets.push_back(*packet);
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
        tick();
        std::vector<SentPacket> packets;
        while (const auto packet = encode(1)) packets.push_back(*packet);
        ASSERT_GE(packets.size(), 2u);
        deliver(packets.back());  // the despawn record of the hull
        if (is_known) receiver.apply();
        deliver(late);
        receiver.apply();
        EXPECT_FALSE(replica(turret) || replica(barrel));
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

// The turret moves to another hull, which is destroyed before the client knows about the move.
TEST_F(Pairs, APartDoesNotComeBackForAParentThatIsDestroyedToo) {
    const ecs::Entity old_hull = spawn(), new_hull = spawn(), turret = spawn();
    world.add(turret, ecs::to<PartOf>(old_hull));
    exchange();
    world.add(turret, ecs::to<PartOf>(new_hull));
    const SentPacket late = tick_and_encode();
    world.destroy(old_hull);
    deliver(tick_and_encode());
    receiver.apply();
    world.destroy(new_hull);
    tick();
    std::vector<SentPacket> packets;
    while (const auto packet = encode(1)) packets.push_back(*packet);
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
    world.remove(turret, ecs::to<PartOf>(old_hull));
    world.destroy(old_hull);
    const ecs::Entity new_hull = spawn(StableKey{5});
    world.add(turret, ecs::to<PartOf>(new_hull));
    exchange();
    ASSERT_TRUE(mirror.is_alive(replica(turret)));
    EXPECT_EQ(mirror.target<PartOf>(replica(turret)), replica(new_hull));
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
    deliver(tick_and_encode());
    receiver.apply();
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
    deliver(tick_and_encode());
    receiver.apply();
    EXPECT_EQ(mirror.size(), 0u);
    deliver(late);
    exchange();
    EXPECT_EQ(mirror.size(), 1u);
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
}  // namespace shoal::replication
