#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl::delayed_replicas_test {
namespace {

struct Place {
    float x = 0;
};
struct Score {
    std::int32_t points = 0;
};
struct Aim {
    ecs::Entity target;
};
struct Bond {
    static constexpr auto relation = ecs::exclusive;
    float strength = 0;
};
struct PartOf {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};

Schema schema_to_delay() {
    Schema schema;
    schema.component<Place>("place", linear(), predicted());
    schema.component<Score>("score");
    schema.component<Aim>("aim");
    schema.pair<PartOf>("part_of");
    schema.tag<Mine>("mine", to_owner());
    return schema;
}

/// The receiver shows a tick that is `delay` ticks before that of the sender.
struct Delayed {
    explicit Delayed(Tick first_tick = 1, const ReceiverOptions& options = {})
        : pair({}, options, first_tick, 1, schema_to_delay()) {}

    /// A tick whose packets all arrive. The receiver applies what is due.
    void step() {
        pair.forward_rebases();
        pair.tick();
        while (const std::optional<SentPacket> packet = pair.encode()) pair.deliver(*packet);
        pair.receiver.apply(shown());
        EXPECT_TRUE(pair.receiver.is_consistent());
    }
    void steps(Tick count) {
        while (count-- > 0) step();
    }
    Tick shown() const { return pair.next_tick - 1 - delay; }
    ecs::Entity replica(NetId id) const { return pair.receiver.entity(id); }
    NetId id_of(ecs::Entity entity) const { return pair.sender.net_id(entity); }

    Pair pair;
    Tick delay = 5;
};

TEST(DelayedReplicas, AppearChangeAndEndAtTheirTicks) {
    for (const Tick first : {1u, 0u - 8}) {
        Delayed d(first);
        const ecs::Entity ship = d.pair.spawn(Place{1});
        d.step();
        const NetId id = d.id_of(ship);
        d.steps(4);
        EXPECT_FALSE(d.replica(id)) << "not yet";
        d.step();
        ASSERT_TRUE(d.replica(id));
        d.pair.world.set(ship, Place{2});
        d.steps(5);
        EXPECT_EQ(d.pair.mirror.get<Place>(d.replica(id)).x, 1);
        d.step();
        EXPECT_EQ(d.pair.mirror.get<Place>(d.replica(id)).x, 2);
        d.pair.world.destroy(ship);
        d.steps(5);
        EXPECT_TRUE(d.pair.mirror.is_alive(d.replica(id)));
        d.step();
        EXPECT_FALSE(d.replica(id));
        EXPECT_EQ(d.pair.receiver.entity_count(), 0u);
    }
}

TEST(DelayedReplicas, EntitiesWithoutADisplayAreShownAtOnce) {
    Delayed d;
    const ecs::Entity score = d.pair.spawn(Score{1});
    d.step();
    EXPECT_EQ(d.pair.mirror.get<Score>(d.replica(d.id_of(score))).points, 1);
    const NetId id = d.id_of(score);
    d.pair.world.destroy(score);
    d.step();
    EXPECT_FALSE(d.replica(id));
}

TEST(DelayedReplicas, WhatAClientPlaysIsShownAtOnce) {
    Delayed d;
    const ecs::Entity ship = d.pair.spawn(Place{1}, Mine{});
    d.pair.sender.set_owner(ship, d.pair.peer);
    d.step();
    ASSERT_TRUE(d.replica(d.id_of(ship)));
    d.pair.world.set(ship, Place{2});
    d.step();
    EXPECT_EQ(d.pair.mirror.get<Place>(d.replica(d.id_of(ship))).x, 2);
    // It does not go back when somebody else plays it.
    d.pair.world.remove<Mine>(ship);
    d.pair.sender.set_owner(ship, std::nullopt);
    d.pair.world.set(ship, Place{3});
    d.step();
    EXPECT_EQ(d.pair.mirror.get<Place>(d.replica(d.id_of(ship))).x, 2);
    d.steps(5);
    EXPECT_EQ(d.pair.mirror.get<Place>(d.replica(d.id_of(ship))).x, 3);
}

TEST(DelayedReplicas, WhatAClientPlayedDoesNotGoBackToAnOlderVersion) {
    Delayed d;
    const ecs::Entity ship = d.pair.spawn(Place{1}, Mine{});
    d.pair.sender.set_owner(ship, d.pair.peer);
    d.steps(10);
    d.pair.world.set(ship, Place{2});
    d.step();
    const NetId id = d.id_of(ship);
    ASSERT_EQ(d.pair.mirror.get<Place>(d.replica(id)).x, 2);
    d.pair.world.remove<Mine>(ship);
    d.pair.sender.set_owner(ship, std::nullopt);
    d.pair.world.set(ship, Place{3});
    for (Tick i = 0; i < d.delay; ++i) {
        d.step();
        EXPECT_EQ(d.pair.mirror.get<Place>(d.replica(id)).x, 2) << i;
    }
    d.step();
    EXPECT_EQ(d.pair.mirror.get<Place>(d.replica(id)).x, 3);
}

TEST(DelayedReplicas, AnEndingReplicaStaysWhileItsSlotDescribesAnother) {
    Delayed d;
    d.delay = 8;
    const ecs::Entity first = d.pair.spawn(Place{1});
    d.steps(10);
    const NetId first_id = d.id_of(first);
    d.pair.world.destroy(first);
    d.steps(2);  // the despawn record is acknowledged
    const ecs::Entity second = d.pair.spawn(Place{2});
    d.step();
    const NetId second_id = d.id_of(second);
    EXPECT_TRUE(d.pair.mirror.is_alive(d.replica(first_id)));
    bool had_both = false;
    for (int i = 0; i < 8; ++i) {
        d.step();
        had_both |= d.replica(first_id) && d.replica(second_id);
    }
    EXPECT_FALSE(had_both) << "they never lived at the same time";
    EXPECT_FALSE(d.replica(first_id));
    EXPECT_EQ(d.pair.mirror.get<Place>(d.replica(second_id)).x, 2);
}

TEST(DelayedReplicas, AShortLifeBetweenTwoShownTicksIsNotShown) {
    Delayed d;
    d.steps(3);
    int spawned = 0;
    const ecs::Hook hook =
        d.pair.mirror.on_add<Replica>([&](ecs::World&, ecs::Entity, const Replica&) { ++spawned; });
    const ecs::Entity shot = d.pair.spawn(Place{1});
    for (int i = 0; i < 2; ++i) {
        d.pair.tick();
        while (const std::optional<SentPacket> packet = d.pair.encode()) d.pair.deliver(*packet);
        if (i == 0) d.pair.world.destroy(shot);
    }
    d.pair.receiver.apply(d.pair.next_tick + 5);
    EXPECT_EQ(spawned, 0);
    EXPECT_TRUE(d.pair.receiver.is_consistent());
    EXPECT_EQ(d.pair.mirror.size(), 0u);
}

TEST(DelayedReplicas, AnEntityWithAKeyCanReturnBeforeItsEndIsShown) {
    Delayed d;
    const ecs::Entity door = d.pair.spawn(Place{1}, StableKey{7});
    d.steps(8);
    const NetId id = d.id_of(door);
    const ecs::Entity shown = d.replica(id);
    ASSERT_TRUE(shown);
    d.pair.world.destroy(door);
    d.steps(2);
    EXPECT_EQ(d.replica(id), shown);
    const ecs::Entity other = d.pair.spawn(Place{2}, StableKey{7});
    d.steps(8);
    EXPECT_EQ(d.id_of(other), id);
    EXPECT_FALSE(d.pair.mirror.is_alive(shown));
    EXPECT_EQ(d.pair.mirror.get<Place>(d.replica(id)).x, 2);
    EXPECT_EQ(d.pair.receiver.entity_count(), 1u);
}

TEST(DelayedReplicas, PartsEndWithTheirWhole) {
    Delayed d;
    const ecs::Entity tank = d.pair.spawn(Place{1}), turret = d.pair.spawn(Place{2}),
                      flag = d.pair.spawn(Score{3});
    d.pair.world.add(turret, ecs::to<PartOf>(tank));
    d.pair.world.add(flag, ecs::to<PartOf>(turret));
    d.steps(8);
    const ecs::Entity shown_tank = d.replica(d.id_of(tank)), shown_turret = d.replica(d.id_of(turret)),
                      shown_flag = d.replica(d.id_of(flag));
    EXPECT_EQ(d.pair.mirror.target<PartOf>(shown_turret), shown_tank);
    EXPECT_EQ(d.pair.mirror.target<PartOf>(shown_flag), shown_turret);
    d.pair.world.destroy(tank);
    d.steps(5);
    EXPECT_TRUE(d.pair.mirror.is_alive(shown_tank));
    EXPECT_TRUE(d.pair.mirror.is_alive(shown_turret));
    EXPECT_FALSE(d.pair.mirror.is_alive(shown_flag)) << "it is shown as of the newest tick";
    d.step();
    EXPECT_EQ(d.pair.mirror.size(), 0u);
}

TEST(DelayedReplicas, APartThatChangedItsWholeSurvivesTheEndOfTheFirst) {
    Delayed d;
    const ecs::Entity tank = d.pair.spawn(Place{1}), truck = d.pair.spawn(Place{2}),
                      gun = d.pair.spawn(Place{3});
    d.pair.world.add(gun, ecs::to<PartOf>(tank));
    d.steps(8);
    const ecs::Entity shown = d.replica(d.id_of(gun));
    d.pair.world.add(gun, ecs::to<PartOf>(truck));
    d.step();
    d.pair.world.destroy(tank);
    d.steps(8);
    EXPECT_EQ(d.replica(d.id_of(gun)), shown);
    EXPECT_EQ(d.pair.mirror.target<PartOf>(shown), d.replica(d.id_of(truck)));
}

TEST(DelayedReplicas, CostNoTimeOnceTheirNewestVersionIsShown) {
    Delayed delayed;
    std::vector<ecs::Entity> cats;
    for (int i = 0; i < 5; ++i) cats.push_back(delayed.pair.spawn(Place{1}, Score{2}));
    for (int round = 0; round < 3; ++round) {
        delayed.step();
        EXPECT_EQ(delayed.pair.receiver.replicas().dirty().size(), round == 0 ? 5u : 1u);
        delayed.steps(delayed.delay);
        EXPECT_TRUE(delayed.pair.receiver.replicas().dirty().empty());
        delayed.pair.world.set(cats[2], Place{static_cast<float>(round + 2)});
    }
}

// Of the versions between two calls of apply(), one has another whole.
TEST(DelayedReplicas, APartStaysWithTheWholeThatIsShownNow) {
    Delayed delayed;
    delayed.delay = 2;
    Pair& pair = delayed.pair;
    const ecs::Entity first = pair.spawn(), second = pair.spawn(), gun = pair.spawn(Place{1});
    pair.world.add(gun, ecs::to<PartOf>(first));
    delayed.steps(10);
    const ecs::Entity shown = pair.replica(gun);
    ASSERT_EQ(pair.mirror.target<PartOf>(shown), pair.replica(first));
    for (const ecs::Entity whole : {second, first}) {
        pair.world.add(gun, ecs::to<PartOf>(whole));
        delayed.step();
        EXPECT_EQ(pair.mirror.target<PartOf>(shown), pair.replica(first));
    }
    pair.world.destroy(first);
    pair.tick();
    std::vector<SentPacket> packets;
    while (const std::optional<SentPacket> packet = pair.encode(1)) packets.push_back(*packet);
    ASSERT_EQ(packets.size(), 2u);
    pair.deliver(packets[1]);  // the despawn record of the first whole
    pair.receiver.apply(delayed.shown());
    ASSERT_TRUE(pair.mirror.is_alive(shown)) << "it is part of the second whole now";
    EXPECT_EQ(pair.mirror.target<PartOf>(shown), pair.replica(second));
    pair.deliver(packets[0]);
    delayed.steps(4);
    EXPECT_FALSE(pair.mirror.is_alive(shown));
    EXPECT_TRUE(pair.worlds_are_equal());
}

TEST(DelayedReplicas, ReferencesAreFilledInWhenTheirTargetIsShown) {
    Delayed d;
    const ecs::Entity gun = d.pair.spawn(Aim{});
    d.steps(8);
    const ecs::Entity ship = d.pair.spawn(Place{1});
    d.pair.world.set(gun, Aim{ship});
    d.step();
    const NetId id = d.id_of(ship);
    const auto aim = [&] { return d.pair.mirror.get<Aim>(d.replica(d.id_of(gun))).target; };
    EXPECT_FALSE(aim()) << "the gun is shown at once, the ship later";
    d.steps(5);
    EXPECT_EQ(aim(), d.replica(id));
    EXPECT_TRUE(aim());
    d.pair.world.destroy(ship);
    d.pair.world.set(gun, Aim{});
    d.steps(6);
    EXPECT_FALSE(aim());
}

TEST(DelayedReplicas, ANewConnectionEndsThemAll) {
    Delayed d;
    const ecs::Entity first = d.pair.spawn(Place{1});
    d.pair.spawn(Place{2});
    d.steps(8);
    d.pair.world.destroy(first);
    d.pair.spawn(Place{3});
    d.steps(2);
    EXPECT_EQ(d.pair.mirror.size(), 2u);
    d.pair.receiver.reset();
    EXPECT_EQ(d.pair.mirror.size(), 0u);
    EXPECT_TRUE(d.pair.receiver.is_consistent());
}

// A despawn record has arrived, but the world still shows the replica.
TEST(DelayedReplicas, AreShownAtOnceWithoutARenderTick) {
    for (const bool was_delayed : {false, true})
        for (const Tick first : {1u, 0x40000000u, 0x80000000u, 0xc0000000u}) {
            Delayed delayed(first);
            Pair& pair = delayed.pair;
            const ecs::Entity cat = pair.spawn(Place{1}), dog = pair.spawn(Place{1});
            if (was_delayed) {
                delayed.steps(10);
                pair.world.set(cat, Place{2});
                pair.world.destroy(dog);
                delayed.steps(2);
                ASSERT_EQ(pair.on_client<Place>(cat).x, 1);
                ASSERT_EQ(pair.receiver.entity_count(), 2u);
                pair.receiver.apply();
                EXPECT_EQ(pair.on_client<Place>(cat).x, 2);
                EXPECT_EQ(pair.receiver.entity_count(), 1u) << "the end of the dog, too";
            }
            for (int i = 3; i < 6; ++i) {
                pair.world.set(cat, Place{static_cast<float>(i)});
                pair.exchange();
                EXPECT_EQ(pair.on_client<Place>(cat).x, static_cast<float>(i));
                EXPECT_TRUE(pair.worlds_are_equal());
            }
        }
}

TEST(DelayedReplicas, WhatAClientSpawnedAheadIsShownAtOnce) {
    Delayed delayed;
    Pair& pair = delayed.pair;
    delayed.steps(10);
    const ecs::Entity made = pair.mirror.spawn(Place{1});
    pair.receiver.replicas().expect(kFirstPending | 7u, made);
    const ecs::Entity ship = pair.spawn(Place{2});
    pair.sender.set_pending_id(pair.peer, pair.sender.assign_net_id(ship), 7);
    for (int i = 2; i < 9; ++i) {
        pair.world.set(ship, Place{static_cast<float>(i)});
        delayed.step();
        ASSERT_EQ(pair.replica(ship), made);
        EXPECT_EQ(pair.mirror.get<Place>(made).x, static_cast<float>(i));
    }
    pair.world.destroy(ship);
    delayed.step();
    EXPECT_FALSE(pair.mirror.is_alive(made));
}

// The tick that is shown is newer than the baselines of the late packet.
TEST(DelayedReplicas, Rule05APacketThatIsUpToSixteenTicksLateFindsItsBaseline) {
    for (const std::uint64_t late : {1u, 4u, 15u, 16u}) {
        Delayed delayed;
        delayed.delay = 1;
        Pair& pair = delayed.pair;
        const ecs::Entity cat = pair.spawn(Place{0});
        std::optional<SentPacket> held;
        for (std::uint64_t tick = 0; tick < 200; ++tick) {
            pair.world.set(cat, Place{static_cast<float>(tick)});
            const SentPacket packet = pair.tick_and_encode();
            if (tick % 50 == 29) {
                held = packet;
            } else {
                pair.deliver(packet);
            }
            pair.receiver.apply(delayed.shown());
            if (held && tick % 50 == 29 + late) {
                EXPECT_EQ(pair.receive(*held), Receiver::Verdict::accepted) << "late by " << late;
                pair.tell(*held, true);
                held.reset();
            }
        }
        EXPECT_EQ(pair.receiver.stats().refused_packets, 0u);
    }
}

TEST(DelayedReplicas, ANewConnectionEndsThemForTheReasonOfTheirDespawnRecord) {
    for (const bool is_destroyed : {true, false}) {
        Delayed delayed;
        Pair& pair = delayed.pair;
        const ecs::Entity own_door = pair.mirror.spawn(StableKey{3});
        const ecs::Entity cat = pair.spawn(Place{1}), dog = pair.spawn(Place{2}),
                          door = pair.spawn(Place{3}, StableKey{3});
        delayed.steps(10);
        std::vector<std::pair<ecs::Entity, Despawn>> ended;
        ecs::Hook hook =
            pair.mirror.on_remove<Replica>([&](ecs::World&, ecs::Entity entity, const Replica& replica) {
                ended.emplace_back(entity, replica.reason);
            });
        const ecs::Entity shown_cat = pair.replica(cat), shown_dog = pair.replica(dog);
        for (const ecs::Entity entity : {cat, door}) {
            if (is_destroyed) {
                pair.world.destroy(entity);
            } else {
                pair.world.remove<Replicated>(entity);
            }
        }
        delayed.step();
        ASSERT_TRUE(ended.empty());
        pair.receiver.reset();
        const Despawn reason = is_destroyed ? Despawn::destroyed : Despawn::left;
        std::sort(ended.begin(), ended.end());
        std::vector<std::pair<ecs::Entity, Despawn>> expected{
            {shown_cat, reason}, {shown_dog, Despawn::left}, {own_door, reason}};
        std::sort(expected.begin(), expected.end());
        EXPECT_EQ(ended, expected);
        EXPECT_EQ(pair.mirror.is_alive(own_door), !is_destroyed);
        EXPECT_EQ(pair.mirror.size(), is_destroyed ? 0u : 1u);
    }
}

TEST(DelayedReplicas, VersionsAreKeptUntilTheyAreShown) {
    Delayed d;
    d.delay = 60;
    const ecs::Entity ship = d.pair.spawn(Place{0});
    d.steps(1);
    const NetId id = d.id_of(ship);
    for (int i = 1; i < 300; ++i) {
        d.pair.world.set(ship, Place{static_cast<float>(i)});
        d.step();
        if (i < 60) continue;
        ASSERT_EQ(d.pair.mirror.get<Place>(d.replica(id)).x, static_cast<float>(i - 60));
    }
}

TEST(DelayedReplicas, AClientThatSleepsKeepsNoMoreVersionsThanItsLimit) {
    ReceiverOptions options;
    options.max_versions = 16;
    Delayed d(1, options);
    const ecs::Entity ship = d.pair.spawn(Place{0});
    d.steps(8);
    const NetId id = d.id_of(ship);
    for (int i = 1; i < 100; ++i) {  // no apply()
        d.pair.world.set(ship, Place{static_cast<float>(i)});
        d.pair.tick();
        while (const std::optional<SentPacket> packet = d.pair.encode()) d.pair.deliver(*packet);
    }
    EXPECT_LE(d.pair.receiver.replicas()[d.pair.receiver.replicas().ids().find(id)].versions.size(), 16u);
    d.steps(10);
    EXPECT_EQ(d.pair.mirror.get<Place>(d.replica(id)).x, 99);
    EXPECT_EQ(d.pair.receiver.stats().refused_packets, 0u);
}

TEST(DelayedReplicas, AReplicaThatTheGameDestroyedStaysSuppressed) {
    Delayed d;
    const ecs::Entity ship = d.pair.spawn(Place{0});
    d.steps(8);
    d.pair.mirror.destroy(d.replica(d.id_of(ship)));
    d.pair.world.set(ship, Place{1});
    d.steps(8);
    d.pair.world.set(ship, Place{2});
    d.steps(8);
    EXPECT_EQ(d.pair.receiver.stats().suppressed, 1u);
    EXPECT_EQ(d.pair.mirror.size(), 0u);
    d.pair.world.destroy(ship);
    d.steps(8);
    EXPECT_EQ(d.pair.receiver.stats().suppressed, 1u);
}

TEST(Displays, NeedNumbersToMix) {
    const auto error_of = [](auto describe) {
        Schema schema;
        describe(schema);
        return schema.error();
    };
    EXPECT_NE(error_of([](Schema& s) { s.component<Score>("score", linear()); }).find("no floats"),
              std::string::npos);
    EXPECT_NE(error_of([](Schema& s) { s.component<Place>("place", slerp()); }).find("four floats"),
              std::string::npos);
    EXPECT_EQ(error_of([](Schema& s) { s.component<Place>("place", angular()); }), "");
    const auto mix = [](const Bond& a, const Bond&, float) { return a; };
    for (const std::string& error : {error_of([](Schema& s) { s.pair<Bond>("bond", linear()); }),
                                     error_of([&](Schema& s) { s.pair<Bond>("bond", shown_by(mix)); })})
        EXPECT_NE(error.find("'bond' has no floats"), std::string::npos) << error;
}

TEST(Displays, AddAnOptionalComponentThatCountsTeleports) {
    Schema plain, shown;
    plain.component<Place>("place");
    shown.component<Place>("place", linear());
    EXPECT_EQ(plain.components().size(), 1u);
    EXPECT_EQ(shown.components().size(), 2u);
    EXPECT_EQ(plain.hash(), shown.hash()) << "a client without displays can play";
    EXPECT_TRUE(shown.numbers_in(plain.summary()));
    EXPECT_TRUE(plain.numbers_in(shown.summary()));
}

}  // namespace
}  // namespace shoal::replication::impl::delayed_replicas_test
