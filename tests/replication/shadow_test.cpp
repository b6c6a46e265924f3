#include "replication/history/shadow.h"

#include <gtest/gtest.h>

#include "tests/replication/support/world.h"
#include "tests/support/allocations.h"

namespace shoal::replication::impl {
namespace {

std::optional<Version> version_at(const Shadow& shadow, ecs::Entity entity, Tick tick) {
    const std::uint32_t index = shadow.index_of(entity);
    return index < shadow.index_count() ? shadow.at(index, tick, to_everyone()) : std::nullopt;
}

using sim::Aim;
using sim::Counters;
using sim::Name;
using sim::Position;
using sim::Wolf;

class ShadowTest : public testing::Test {
protected:
    const Shadow::Entry* entry_of(ecs::Entity entity) const {
        for (std::uint32_t i = 0; i < shadow.index_count(); ++i)
            if (shadow[i].entity == entity && entity) return &shadow[i];
        return nullptr;
    }
    sim::Snapshot newest(ecs::Entity entity) const {
        return sim::snapshot_of(schema, entry_of(entity)->versions.newest()->image);
    }

    Schema schema = game_schema();
    ecs::World world;
    ecs::Entity early = world.spawn(Replicated{}, Position{1, 2, 3});
    Shadow shadow{world, schema, 10};
};
using Shadows = ShadowTest;

TEST_F(Shadows, FindEntitiesThatHadTheTagBefore) {
    shadow.update(1);
    ASSERT_EQ(shadow.opened().size(), 1u);
    EXPECT_EQ(shadow.net_id(early), 1u);
    EXPECT_EQ(shadow.open_count(), 1u);
    EXPECT_EQ(shadow.refused_keys(), 0u);
}

TEST_F(Shadows, FindTheEntityOfANetId) {
    EXPECT_FALSE(shadow.entity_of(1));
    shadow.update(1);
    const NetId net_id = shadow.net_id(early);
    EXPECT_EQ(shadow.entity_of(net_id), early);
    for (const NetId unknown : {NetId{0}, net_id + 1, NetId{0xffff'ffff}})
        EXPECT_FALSE(shadow.entity_of(unknown)) << unknown;
    world.destroy(early);
    EXPECT_EQ(shadow.entity_of(net_id), ecs::Entity{}) << "dead, also before the next update()";
    shadow.update(2);
    EXPECT_EQ(shadow.entity_of(net_id), ecs::Entity{});
}

TEST_F(Shadows, TellOnceWhichEntitiesMovedToAnotherCluster) {
    const ecs::Entity other = world.spawn(Replicated{}, at(1), Cluster{5});
    using Moved = std::vector<std::uint32_t>;
    Tick tick = 0;
    const auto moved = [&] {
        shadow.update(++tick);
        return Moved(shadow.moved().begin(), shadow.moved().end());
    };
    EXPECT_EQ(moved(), Moved{}) << "new entities";
    const Moved one{shadow.index_of(early)}, two{shadow.index_of(other)};
    world.set(early, Cluster{5});
    EXPECT_EQ(moved(), one) << "came to a cluster";
    EXPECT_EQ(moved(), Moved{});
    world.set(other, Cluster{5});
    world.set(early, at(3));
    EXPECT_EQ(moved(), Moved{}) << "the same cluster, and another change";
    world.set(other, Cluster{6});
    EXPECT_EQ(moved(), two) << "another cluster";
    world.remove<Cluster>(early);
    EXPECT_EQ(moved(), one) << "left its cluster";
    EXPECT_EQ(shadow[one[0]].cluster, std::nullopt);
    world.destroy(other);
    EXPECT_EQ(moved(), Moved{});
}

TEST_F(Shadows, KeepAnEntityWhoseTagComesBackInTheSameTick) {
    shadow.update(1);
    const NetId net_id = shadow.net_id(early);
    world.remove<Replicated>(early);
    world.add<Replicated>(early);
    shadow.update(2);
    EXPECT_TRUE(shadow.opened().empty() && shadow.closed().empty() && shadow.changed().empty());
    EXPECT_EQ(shadow.net_id(early), net_id);
}

struct Weather {
    int wind = 0;
};

TEST(Shadow, GivesTheSingletonsOfItsSchemaTheTag) {
    Schema schema;
    schema.singleton<Weather>("weather");
    ASSERT_EQ(schema.error(), "");
    ecs::World world;
    Shadow shadow(world, schema, 10);
    shadow.update(1);
    EXPECT_EQ(shadow.open_count(), 0u) << "there is none yet";
    world.set_singleton(Weather{3});
    shadow.update(2);
    ASSERT_EQ(shadow.open_count(), 1u);
    EXPECT_EQ(shadow[0].versions.newest()->image.shape->components.size(), 1u);
}

TEST_F(Shadows, DoNotChangeInAnIdleWorld) {
    shadow.update(1);
    for (Tick tick = 2; tick < 50; ++tick) {
        shadow.update(tick);
        EXPECT_TRUE(shadow.opened().empty() && shadow.changed().empty() && shadow.closed().empty());
    }
    EXPECT_EQ(entry_of(early)->versions.size(), 1u);
}

TEST_F(Shadows, IgnoreChangesOfLessThanAStep) {
    shadow.update(1);
    world.set(early, Position{1, 2, 3});
    shadow.update(2);
    EXPECT_TRUE(shadow.changed().empty());
    world.patch<Position>(early, [](Position& p) { p.x += 0.001f; });
    shadow.update(3);
    EXPECT_TRUE(shadow.changed().empty());
    world.patch<Position>(early, [](Position& p) { p.x += 0.02f; });
    shadow.update(4);
    ASSERT_EQ(shadow.changed().size(), 1u);
    EXPECT_EQ(entry_of(early)->versions.newest()->tick, 4u);
}

TEST_F(Shadows, HaveNoEntityForAnIndexWithoutAnEntry) {
    EXPECT_FALSE(shadow.entity(0)) << "no update() found an entity yet";
    EXPECT_NE(shadow.assign(early), 0u);
    EXPECT_EQ(shadow.entity(shadow.index_of(early)), early);
    EXPECT_FALSE(version_at(shadow, early, 0)) << "it has a net id, but no state";
    shadow.update(1);
    EXPECT_EQ(shadow.entity(shadow.index_of(early)), early);
    EXPECT_FALSE(shadow.entity(shadow.index_count()));
    EXPECT_FALSE(shadow.entity(Shadow::kNone));
}

TEST_F(Shadows, IgnoreAChangeThatIsUndoneInTheSameTick) {
    shadow.update(1);
    world.set(early, Position{9, 9, 9});
    world.set(early, Position{1, 2, 3});
    world.add<Wolf>(early);
    world.remove<Wolf>(early);
    shadow.update(2);
    EXPECT_TRUE(shadow.changed().empty());
}

TEST_F(Shadows, Rule13RemovingTheTagClosesTheEntryAndAddingItGivesANewNetId) {
    shadow.update(1);
    const NetId first = shadow.net_id(early);
    world.remove<Replicated>(early);
    shadow.update(2);
    EXPECT_EQ(shadow.closed().size(), 1u);
    EXPECT_EQ(shadow.net_id(early), 0u);
    world.add<Replicated>(early);
    shadow.update(3);
    EXPECT_EQ(shadow.opened().size(), 1u);
    EXPECT_NE(shadow.net_id(early), 0u);
    EXPECT_NE(shadow.net_id(early), first);
}

TEST_F(Shadows, NeverUseANetIdAgainWhenAnEntityIndexIsUsedAgain) {
    shadow.update(1);
    std::vector<bool> seen(2'000);
    ecs::Entity entity = early;
    for (Tick tick = 2; tick < 1'000; ++tick) {
        const NetId net_id = shadow.net_id(entity);
        ASSERT_NE(net_id, 0u);
        ASSERT_FALSE(seen[net_id]);
        seen[net_id] = true;
        const ecs::Entity old = entity;
        world.destroy(old);
        entity = world.spawn(Replicated{}, Position{});
        ASSERT_EQ(entity.index, old.index);
        shadow.update(tick);
        ASSERT_EQ(shadow.net_id(old), 0u);
        ASSERT_EQ(shadow.open_count(), 1u);
    }
    EXPECT_LT(shadow.index_count(), 4u) << "entries must be used again";
}

// Each capture of a squad cuts its motto, so misfits() counts the captures.
TEST_F(Shadows, CaptureAnEntityOnceInAnUpdateHoweverManyReferencesItHas) {
    const std::string long_motto(sim::kMaxMotto + 1, 'x');
    std::vector<ecs::Entity> squads;
    for (int i = 0; i < 40; ++i) squads.push_back(world.spawn(Replicated{}, sim::Squad{{}, long_motto}));
    const auto refer_to_each_other = [&] {
        for (std::size_t i = 0; i < squads.size(); ++i)
            for (std::size_t n = 1; n <= sim::kMaxMembers; ++n)
                world.patch<sim::Squad>(squads[i], [&](sim::Squad& squad) {
                    squad.members.push_back(squads[(i + n) % squads.size()]);
                });
    };
    refer_to_each_other();
    shadow.update(1);
    EXPECT_EQ(shadow.misfits().cut, 40u) << "opened together";

    std::vector<ecs::Entity> hidden;
    for (int i = 0; i < 3; ++i) hidden.push_back(world.spawn(Position{}));
    world.set(squads[0], sim::Squad{{hidden[0], hidden[1], hidden[2]}, long_motto});
    shadow.update(2);
    EXPECT_EQ(shadow.misfits().cut, 41u);
    for (const ecs::Entity entity : hidden) world.add<Replicated>(entity);
    shadow.update(3);
    EXPECT_EQ(shadow.misfits().cut, 42u) << "three targets opened at once";
    for (std::size_t i = 0; i < hidden.size(); ++i)
        EXPECT_EQ(newest(squads[0]).references[i], shadow.net_id(hidden[i]));

    const ecs::Entity late = world.spawn(Position{});
    world.set(squads[1], sim::Squad{{late}, ""});
    shadow.update(4);
    world.add<Replicated>(late);
    world.set(squads[1], Counters{});  // the squad itself does not change
    shadow.update(5);
    EXPECT_EQ(newest(squads[1]).references.at(0), shadow.net_id(late));
    EXPECT_TRUE(shadow.is_consistent());
}

TEST_F(Shadows, IgnoreAnEntityCreatedAndDestroyedInOneTick) {
    shadow.update(1);
    world.destroy(world.spawn(Replicated{}, Position{}));
    shadow.update(2);
    EXPECT_TRUE(shadow.opened().empty() && shadow.closed().empty());
}

TEST_F(Shadows, Rule03ReferencesFollowTargetsThatStartAndStopToReplicate) {
    const ecs::Entity target = world.spawn(Position{});
    const ecs::Entity aimer = world.spawn(Replicated{}, Aim{target, 1});
    const ecs::Entity mutual = world.spawn(Replicated{}, Aim{aimer, 1});
    world.set(aimer, Aim{target, 1});
    shadow.update(1);
    EXPECT_EQ(newest(mutual).references[0], shadow.net_id(aimer)) << "opened in the same tick";
    EXPECT_EQ(newest(aimer).references[0], 0u) << "not replicated yet";
    world.add<Replicated>(target);
    shadow.update(2);
    EXPECT_EQ(newest(aimer).references[0], shadow.net_id(target)) << "without a write to the referrer";
    world.remove<Replicated>(target);
    shadow.update(3);
    world.add<Replicated>(target);
    shadow.update(4);
    EXPECT_EQ(newest(aimer).references[0], shadow.net_id(target)) << "under its new net id";
    world.destroy(target);
    world.set(aimer, Aim{target, 1});
    shadow.update(5);
    EXPECT_EQ(newest(aimer).references[0], 0u) << "dead";
}

TEST_F(Shadows, KeepAVersionForHistoryTicksAfterItWasReplaced) {
    shadow.update(1);
    for (Tick tick = 2; tick <= 40; ++tick) {
        world.set(early, Counters{tick, 0, 0, 0, 0, 0, 0});
        shadow.update(tick);
        const History& versions = entry_of(early)->versions;
        // The version that was valid ten ticks ago, and all newer ones.
        EXPECT_EQ(versions.size(), std::min<Tick>(tick, 11)) << tick;
        EXPECT_TRUE(tick <= 11 || versions.at(tick - 10)->tick == tick - 10);
    }
    for (Tick tick = 41; tick <= 52; ++tick) shadow.update(tick);
    EXPECT_EQ(entry_of(early)->versions.size(), 1u);
}

TEST_F(Shadows, ForgetTheRightVersionsWhenTicksAreSkippedAndWrap) {
    const Tick start = 0xffffffe0;
    shadow.update(start);
    sim::Random random(1);
    Tick tick = start;
    for (int i = 0; i < 300; ++i) {
        tick += 1 + random.below(random.chance(0.1) ? 40 : 3);
        if (random.chance(0.7)) world.set(early, Counters{static_cast<std::int64_t>(tick), 0, 0, 0, 0, 0, 0});
        shadow.update(tick);
        const History& versions = entry_of(early)->versions;
        ASSERT_TRUE(versions.size() == 1 || is_newer(versions[1].tick, tick - 11)) << "kept too long";
    }
    for (int i = 0; i < 15; ++i) shadow.update(++tick);
    EXPECT_EQ(entry_of(early)->versions.size(), 1u);
}

TEST_F(Shadows, ForgetTheReferencesThatAnEntityHadBefore) {
    const ecs::Entity other = world.spawn(Replicated{}), archer = world.spawn(Replicated{}, Aim{early});
    std::size_t allocations = 0;
    for (Tick tick = 1; tick < 3'000; ++tick) {
        if (tick == 500) allocations = test::allocations();
        world.set(archer, Aim{tick % 2 == 0 ? early : other});
        shadow.update(tick);
    }
    EXPECT_EQ(test::allocations(), allocations) << "their memory is used again";
    EXPECT_TRUE(shadow.is_consistent());
}

TEST_F(Shadows, AllocateNothingForATargetThatComesAndGoes) {
    const ecs::Entity target = world.spawn(at(1));
    for (int i = 0; i < 4; ++i) world.spawn(Replicated{}, Aim{target, 1});
    std::size_t allocations = 0;
    for (Tick tick = 1; tick < 6'000; ++tick) {
        if (tick == 500) allocations = test::allocations();
        if (tick % 2 == 0) {
            world.add<Replicated>(target);
        } else {
            world.remove<Replicated>(target);
        }
        shadow.update(tick);
    }
    EXPECT_EQ(test::allocations(), allocations);
    EXPECT_TRUE(shadow.is_consistent());
}

TEST_F(Shadows, CountStringsThatTheyCut) {
    shadow.update(1);
    world.set(early, Name{std::string(100, 'a')});
    shadow.update(2);
    EXPECT_EQ(shadow.misfits().cut, 1u);
    EXPECT_EQ(newest(early).values.size(), 1u + 3 + 1 + 1 + sim::kMaxName);
    world.set(early, at(5));
    shadow.update(3);
    EXPECT_EQ(shadow.misfits().cut, 1u) << "only what changed is quantised";
}

TEST_F(Shadows, KnowTheirHistoryWhateverTheFirstTick) {
    for (const Tick first : {0u, 1u, 8u, 0x7ffffff0u, 0x80000005u, 0x90000000u, 0xfffffff0u}) {
        Shadow young(world, schema, 10);
        EXPECT_FALSE(version_at(young, early, first));
        for (Tick age = 0; age < 30; ++age) {
            world.set(early, at(static_cast<float>(age)));
            young.update(first + age);
            EXPECT_EQ(young.horizon(), first + age - 10);
            EXPECT_FALSE(version_at(young, early, first - 1));
            for (Tick before = 0; before <= std::min<Tick>(age, 10); ++before)
                EXPECT_EQ(version_at(young, early, first + age - before)->tick, first + age - before);
        }
    }
}

TEST_F(Shadows, DoNotRememberWhatTheyForgotWhenTheHistoryGrows) {
    Tick tick = 0;
    const auto update = [&] {
        world.set(early, at(static_cast<float>(++tick % 50)));
        shadow.update(tick);
    };
    while (tick < 40) update();
    EXPECT_EQ(shadow.horizon(), 30u);
    shadow.set_history(25);
    while (tick < 54) {
        update();
        EXPECT_EQ(shadow.horizon(), 30u);
        EXPECT_FALSE(version_at(shadow, early, 28));
        EXPECT_EQ(version_at(shadow, early, 31)->tick, 31u);
    }
    while (tick < 60) update();
    EXPECT_EQ(shadow.horizon(), 35u);
    shadow.set_history(5);
    update();
    EXPECT_EQ(shadow.horizon(), 56u);
    EXPECT_FALSE(version_at(shadow, early, 50));
}

TEST_F(Shadows, LeaveNothingInAClosedEntry) {
    const ecs::Entity member = world.spawn(Replicated{}, at(1), Cluster{5});
    shadow.update(1);
    const std::uint32_t index = shadow.index_of(member);
    ASSERT_EQ(shadow[index].cluster, 5u);
    world.destroy(member);
    shadow.update(2);
    EXPECT_FALSE(shadow[index].entity);
    EXPECT_EQ(shadow[index].net_id, 0u);
    EXPECT_EQ(shadow[index].cluster, std::nullopt);
    EXPECT_TRUE(shadow[index].versions.empty());
    EXPECT_EQ(shadow[index].reason, Despawn::destroyed);
    EXPECT_EQ(shadow.too_large_count(), 0u);
}

TEST_F(Shadows, KnowTheStateOfAnEntityAtATick) {
    for (Tick tick = 1; tick <= 9; ++tick) {
        if (tick % 3 == 0) world.set(early, at(static_cast<float>(tick)));
        shadow.update(tick);
    }
    EXPECT_FALSE(version_at(shadow, early, 0));
    EXPECT_FALSE(version_at(shadow, world.spawn(), 5));
    for (const auto& [tick, since] : {std::pair<Tick, Tick>{2, 1}, {3, 3}, {5, 3}, {6, 6}, {9, 9}, {50, 9}})
        EXPECT_EQ(version_at(shadow, early, tick)->tick, since);
}

struct Purse {
    int coins = 0;
};

class ShadowWithPurses : public testing::Test {
protected:
    static Schema describe() {
        Schema out;
        out.component<Position>("position");
        out.component<Purse>("purse", to_owner());
        return out;
    }

    Schema schema = describe();
    ecs::World world;
    Shadow shadow{world, schema, 10};
};

// Changes that only the owner sees leave older versions behind: they are not the state of a later tick.
TEST_F(ShadowWithPurses, DoesNotTakeAnOlderVersionForOneThatWasDropped) {
    const ecs::Entity entity = world.spawn(Replicated{}, Position{});
    for (Tick tick = 1; tick <= 80; ++tick) {
        if (tick == 20 || tick == 30) world.set(entity, Purse{static_cast<int>(tick)});
        shadow.update(tick);
        if (tick < 30) continue;
        if (const std::optional<Version> version = version_at(shadow, entity, 25)) {
            EXPECT_EQ(version->tick, 20u) << tick;
        }
        ASSERT_TRUE(version_at(shadow, entity, tick));
        EXPECT_EQ(version_at(shadow, entity, tick)->tick, 30u);
    }
    EXPECT_FALSE(version_at(shadow, entity, 25));
}

// A change in each tick, which nobody but the owner sees, for longer than ticks can be compared.
TEST_F(ShadowWithPurses, Rule30VersionsForOthersAreReplacedBeforeTheirTicksWrap) {
    const ecs::Entity entity = world.spawn(Replicated{}, Position{}, Purse{});
    Tick tick = 1;
    for (int step = 0; step < 200; ++step, tick += step < 100 ? 1u << 26 : 1u) {
        world.set(entity, Purse{step});
        shadow.update(tick);
        ASSERT_LE(shadow[0].versions.size(), 16u) << step;
        ASSERT_LE(tick - shadow[0].versions.oldest()->tick, Tick{1} << 30) << step;
        ASSERT_TRUE(shadow.is_consistent());
    }
}

TEST_F(Shadows, AssignNetIdsBeforeTheFirstUpdateThatFindsTheEntity) {
    shadow.update(1);
    const ecs::Entity fresh = world.spawn(Replicated{}, at(1)), local = world.spawn(at(2));
    const NetId net_id = shadow.assign(fresh);
    EXPECT_NE(net_id, 0u);
    EXPECT_EQ(shadow.assign(fresh), net_id);
    EXPECT_EQ(shadow.net_id(fresh), net_id);
    EXPECT_EQ(shadow.assign(local), 0u);
    EXPECT_EQ(shadow.assign(early), shadow.net_id(early));
    EXPECT_EQ(shadow.open_count(), 1u);
    shadow.update(2);
    EXPECT_EQ(shadow.net_id(fresh), net_id);
    EXPECT_EQ(shadow.open_count(), 2u);
    EXPECT_TRUE(shadow.is_consistent());
}

TEST_F(Shadows, ForgetAssignedNetIdsOfEntitiesThatNeverReplicated) {
    shadow.update(1);
    const ecs::Entity destroyed = world.spawn(Replicated{}), untagged = world.spawn(Replicated{});
    const NetId first = shadow.assign(destroyed), second = shadow.assign(untagged);
    EXPECT_NE(first, second);
    world.destroy(destroyed);
    world.remove<Replicated>(untagged);
    EXPECT_EQ(shadow.assign(untagged), 0u);
    shadow.update(2);
    EXPECT_EQ(shadow.net_id(destroyed), 0u);
    EXPECT_EQ(shadow.net_id(untagged), 0u);
    EXPECT_TRUE(shadow.opened().empty() && shadow.closed().empty());
    world.add<Replicated>(untagged);
    shadow.update(3);
    EXPECT_GT(shadow.net_id(untagged), second) << "no net id is used twice";
    EXPECT_TRUE(shadow.is_consistent());
}

TEST_F(Shadows, UseTheEntriesOfEntitiesThatNeverReplicatedAgain) {
    for (Tick tick = 1; tick <= 100; ++tick) {
        const ecs::Entity entity = world.spawn(Replicated{});
        ASSERT_NE(shadow.assign(entity), 0u);
        world.destroy(entity);
        shadow.update(tick);
    }
    EXPECT_EQ(shadow.open_count(), 1u);
    EXPECT_LE(shadow.index_count(), 3u);
}

// The new entity has the index of the old one in the world, and its net id before the old one is closed.
TEST_F(Shadows, AssignANetIdToAnEntityThatTakesTheIndexOfADestroyedOne) {
    shadow.update(1);
    const NetId old_id = shadow.net_id(early);
    world.destroy(early);
    const ecs::Entity fresh = world.spawn(Replicated{}, at(5));
    ASSERT_EQ(fresh.index, early.index);
    const NetId net_id = shadow.assign(fresh);
    EXPECT_GT(net_id, old_id);
    EXPECT_TRUE(shadow.is_consistent());
    shadow.update(2);
    EXPECT_EQ(shadow.closed().size(), 1u);
    EXPECT_EQ(shadow.opened().size(), 1u);
    EXPECT_EQ(shadow.net_id(fresh), net_id);
    EXPECT_EQ(shadow.net_id(early), 0u);
    EXPECT_TRUE(shadow.is_consistent());
}

// Ticks are compared correctly only if they are less than 2^31 apart.
TEST_F(Shadows, Rule30AnEntityThatNobodyTouchedForALongTimeGetsANewVersion) {
    const ecs::Entity other = world.spawn(Replicated{}, at(1));
    Tick tick = 1;
    shadow.update(tick);
    for (int i = 0; i < 64; ++i) {
        shadow.update(tick += 1u << 27);
        for (const ecs::Entity entity : {early, other}) {
            ASSERT_LT(tick - entry_of(entity)->versions.newest()->tick, 1u << 30);
        }
    }
    EXPECT_TRUE(shadow.is_consistent());
}

}  // namespace
}  // namespace shoal::replication::impl
