#include "replication/history/replicas.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

class ReplicasTest : public testing::Test {
protected:
    static constexpr std::uint32_t kMaxVersions = 8;

    std::uint32_t open(NetId net_id, std::uint32_t slot, Tick tick) {
        const std::uint32_t index = replicas.bind(net_id, slot, tick);
        replicas.push(index, tick, image, std::nullopt);
        return index;
    }
    /// What apply() does with a replica.
    void apply(std::uint32_t index) {
        if (!replicas.ids()[index].entity) replicas.set_entity(index, world.spawn());
        replicas.set_applied(index, replicas[index].versions.newest()->tick);
        replicas.clear_dirty();
    }
    std::vector<Tick> ticks(std::uint32_t index) const {
        std::vector<Tick> out;
        for (std::uint32_t i = 0; i < replicas[index].versions.size(); ++i)
            out.push_back(replicas[index].versions[i].tick);
        return out;
    }
    void TearDown() override { EXPECT_TRUE(replicas.is_consistent()); }

    ecs::World world;
    Schema schema = game_schema();
    ShapeTable shapes{schema};
    Image image{shapes.shape({}), {}};
    Replicas replicas{world, kMaxVersions};
};

TEST_F(ReplicasTest, AnEntityIsKnownOnlyWhileTheWorldHasIt) {
    const std::uint32_t index = open(7, 3, 10);
    EXPECT_EQ(replicas.ids().find(NetId{7}), index);
    EXPECT_FALSE(replicas.entity(7));
    apply(index);
    const ecs::Entity entity = replicas.entity(7);
    EXPECT_TRUE(world.is_alive(entity));
    EXPECT_EQ(replicas.net_id(entity), 7u);
    int seen = 0;
    const auto count = [&](NetId net_id, ecs::Entity) { seen += net_id == 7; };
    replicas.for_each_entity(count);
    world.destroy(entity);
    EXPECT_FALSE(replicas.entity(7));
    EXPECT_EQ(replicas.net_id(entity), 0u);
    replicas.for_each_entity(count);
    EXPECT_EQ(seen, 1);
}

// The server computes the same mean, see Deliveries.
TEST_F(ReplicasTest, LongerGapsThanTheLongestDoNotCountForTheMean) {
    replicas.set_long_gap(15);
    const std::uint32_t index = open(7, 3, 10);
    EXPECT_EQ(replicas[index].mean_gap, 0) << "unknown";
    replicas.push(index, 20, image, std::nullopt);
    EXPECT_FLOAT_EQ(replicas[index].mean_gap, 10);
    replicas.push(index, 35, image, std::nullopt);
    EXPECT_FLOAT_EQ(replicas[index].mean_gap, 10 + 5.0f / 8) << "15 counts";
    replicas.push(index, 51, image, std::nullopt);
    EXPECT_FLOAT_EQ(replicas[index].mean_gap, 10 + 5.0f / 8) << "16 does not";
}

TEST_F(ReplicasTest, TheLongestGapThatCountsCanBeSet) {
    replicas.set_long_gap(3);
    const std::uint32_t index = open(7, 3, 10);
    replicas.push(index, 14, image, std::nullopt);
    EXPECT_EQ(replicas[index].mean_gap, 0);
    replicas.push(index, 17, image, std::nullopt);
    EXPECT_EQ(replicas[index].mean_gap, 3);
    replicas.set_long_gap(100);
    replicas.push(index, 117, image, std::nullopt);
    EXPECT_FLOAT_EQ(replicas[index].mean_gap, 3 + 97.0f / 8);
}

TEST_F(ReplicasTest, Rule29AKnownNetIdKeepsItsEntityAndVersionsInAnotherSlot) {
    const std::uint32_t index = open(7, 3, 10);
    apply(index);
    const ecs::Entity entity = replicas.entity(7);
    EXPECT_EQ(open(7, 8, 11), index);
    EXPECT_EQ(replicas[index].slot, 8u);
    EXPECT_EQ(replicas.entity(7), entity);
    EXPECT_EQ(ticks(index), (std::vector<Tick>{10, 11}));
    EXPECT_EQ(replicas[index].applied, 10u);
}

TEST_F(ReplicasTest, Rule29InAnotherSlotOlderVersionsAreNoBaselinesAnyMore) {
    const std::uint32_t index = open(7, 3, 10);
    replicas.push(index, 20, image, 10);
    open(7, 8, 100);
    EXPECT_EQ(ticks(index), (std::vector<Tick>{100}));
}

TEST_F(ReplicasTest, Rule29OnlyVersionsOfItsOwnSlotCountAtATick) {
    const std::uint32_t index = open(7, 3, 90);
    apply(index);
    open(7, 8, 100);
    replicas.insert(index, 89, image);
    EXPECT_EQ(ticks(index), (std::vector<Tick>{90, 100})) << "90 is shown";
    for (const Tick tick : {89u, 90u, 99u}) {
        EXPECT_FALSE(replicas.version_at(index, tick));
        EXPECT_FALSE(replicas.may_miss(index, tick)) << "surely no version of this slot";
    }
    replicas.insert(index, 95, image);  // of the new slot, but it came late
    EXPECT_EQ(replicas.version_at(index, 99)->tick, 95u);
    EXPECT_FALSE(replicas.version_at(index, 94));
    apply(index);
    EXPECT_EQ(ticks(index), (std::vector<Tick>{95, 100}));
    EXPECT_FALSE(replicas.may_miss(index, 94));
    replicas.push(index, 130, image, 100);
    replicas.push(index, 150, image, 130);
    replicas.push(index, 170, image, 150);
    EXPECT_FALSE(replicas.version_at(index, 94));
    EXPECT_TRUE(replicas.may_miss(index, 94)) << "95 was dropped";
}

TEST_F(ReplicasTest, AClosedReplicaIsGoneOnlyIfTheWorldMayHaveItsEntity) {
    const std::uint32_t unseen = open(7, 3, 10);
    replicas.close(unseen, Despawn::destroyed, 2);
    EXPECT_TRUE(replicas.gone().empty());
    EXPECT_EQ(open(8, 3, 11), unseen) << "the index is used again at once";
    EXPECT_EQ(replicas.dirty().size(), 1u);
    apply(unseen);
    const ecs::Entity entity = replicas.entity(8);
    replicas.close(unseen, Despawn::destroyed, 2);
    EXPECT_FALSE(replicas.entity(8));
    EXPECT_TRUE(world.is_alive(entity)) << "apply() destroys it";
    ASSERT_EQ(replicas.gone().size(), 1u);
    EXPECT_EQ(replicas.gone()[0].net_id, 8u);
    EXPECT_EQ(replicas.gone()[0].entity, entity);
    EXPECT_TRUE(replicas.is_consistent());
    EXPECT_NE(open(9, 3, 12), unseen);
    EXPECT_NE(open(8, 4, 12), unseen) << "the same net id again is another replica";
    replicas.clear_gone();
    EXPECT_EQ(open(10, 5, 12), unseen);
}

TEST_F(ReplicasTest, Rule05KeepsWhatIsShownAndTheBaselinesOfPacketsThatAreSixteenTicksLate) {
    const std::uint32_t index = open(7, 3, 100);
    apply(index);
    replicas.push(index, 110, image, 100);
    replicas.push(index, 120, image, 110);
    EXPECT_EQ(ticks(index), (std::vector<Tick>{100, 110, 120}));
    replicas.push(index, 130, image, 120);
    EXPECT_EQ(ticks(index), (std::vector<Tick>{100, 110, 120, 130})) << "110 was named 10 ticks ago";
    replicas.push(index, 136, image, 130);
    EXPECT_EQ(ticks(index), (std::vector<Tick>{100, 110, 120, 130, 136})) << "100 is shown";
    apply(index);
    EXPECT_EQ(ticks(index), (std::vector<Tick>{110, 120, 130, 136}));
    replicas.insert(index, 125, image);
    replicas.insert(index, 112, image);
    EXPECT_EQ(ticks(index), (std::vector<Tick>{110, 112, 120, 125, 130, 136}));
    replicas.push(index, 152, image, 136);
    EXPECT_EQ(ticks(index), (std::vector<Tick>{130, 136, 152})) << "130 was named at 136, 16 ticks ago";
    apply(index);
    replicas.insert(index, 120, image);
    EXPECT_EQ(ticks(index), (std::vector<Tick>{130, 136, 152})) << "no packet that is so late needs 120";
}

TEST_F(ReplicasTest, Rule05AFullRecordLeavesTheBaselinesOfItsSlotAtAnyTick) {
    NetId net_id = 1;
    for (const Tick first : {1u, 0x40000000u, 0x80000005u, 0x90000000u, 0xc0000000u, 0xfffffff0u}) {
        const std::uint32_t index = open(net_id, net_id, first);
        ++net_id;
        for (const Tick age : {30u, 60u, 90u}) {
            replicas.push(index, first + age, image, std::nullopt);
            replicas.set_entity(index,
                                replicas.ids()[index].entity ? replicas.ids()[index].entity : world.spawn());
            replicas.set_applied(index, first + age);
        }
        EXPECT_EQ(ticks(index), (std::vector<Tick>{first, first + 30, first + 60, first + 90}));
    }
}

TEST_F(ReplicasTest, Rule30HasAtMostMaxVersions) {
    const std::uint32_t index = open(7, 3, 10);
    for (Tick tick = 11; !replicas.is_crowded(index); ++tick) replicas.push(index, tick, image, 10);
    EXPECT_EQ(ticks(index).size(), kMaxVersions);
    replicas.insert(index, 9, image);
    EXPECT_EQ(ticks(index).size(), kMaxVersions);
    replicas.push(index, 30, image, std::nullopt);
    EXPECT_EQ(ticks(index), (std::vector<Tick>{30}));
    EXPECT_FALSE(replicas.is_crowded(index));
}

TEST_F(ReplicasTest, Rule30BaselinesOfLatePacketsLeaveRoomForTheNextVersion) {
    const std::uint32_t index = open(7, 3, 10);
    apply(index);
    for (Tick tick = 11; tick < 60; ++tick) {
        replicas.push(index, tick, image, tick - 1);
        apply(index);
        EXPECT_FALSE(replicas.is_crowded(index)) << tick;
        EXPECT_TRUE(replicas[index].versions.find(tick - 1)) << "the newest baseline of tick " << tick;
    }
}

TEST_F(ReplicasTest, Rule30VersionsThatArriveLateLeaveRoomForTheNextVersion) {
    const std::uint32_t index = open(7, 3, 100);
    replicas.push(index, 110, image, 100);
    replicas.push(index, 120, image, 110);
    apply(index);
    for (Tick tick = 101; tick < 110; ++tick) {
        replicas.insert(index, tick, image);
        EXPECT_FALSE(replicas.is_crowded(index)) << tick;
        EXPECT_TRUE(replicas[index].versions.find(110)) << "the newest baseline";
    }
}

TEST_F(ReplicasTest, DirtyNamesEachReplicaOnceInTheOrderOfTheFirstTouch) {
    const std::uint32_t a = open(7, 3, 10), b = open(8, 4, 10);
    replicas.push(a, 11, image, 10);
    replicas.touch(b);
    ASSERT_EQ(replicas.dirty().size(), 2u);
    EXPECT_EQ(replicas.dirty()[0], a);
    EXPECT_EQ(replicas.dirty()[1], b);
    replicas[b].refers_to_changed = true;
    replicas.clear_dirty();
    EXPECT_TRUE(replicas.dirty().empty());
    EXPECT_FALSE(replicas[b].refers_to_changed);
}

}  // namespace
}  // namespace shoal::replication::impl
