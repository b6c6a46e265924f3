#include "replication/history/keyed_entities.h"

#include <gtest/gtest.h>

#include <vector>

namespace shoal::replication::impl::keyed_entities_test {
namespace {

constexpr NetId kFirst = NetIds::kFirstReserved;

struct Seen {
    NetId net_id;
    ecs::Entity former;
    bool operator==(const Seen&) const = default;
};
using Changes = std::vector<Seen>;

class KeyedEntitiesTest : public testing::Test {
protected:
    /// Returns the changes that update() finds.
    Changes update(ecs::Entity excluded = {}) {
        keys.update([&](ecs::Entity entity) { return entity == excluded; });
        EXPECT_TRUE(keys.is_consistent());
        EXPECT_EQ(keys.refused(), 0u);
        Changes out;
        for (const KeyedEntities::Change& change : keys.changed())
            out.push_back({change.net_id, change.former});
        return out;
    }

    ecs::World world;
    ecs::Entity early = world.spawn(StableKey{1});
    KeyedEntities keys{world};
};
using Keys = KeyedEntitiesTest;

TEST_F(Keys, OfEntitiesThatHadThemBeforeAreFoundInTheFirstUpdate) {
    EXPECT_FALSE(keys.entity(kFirst + 1));
    EXPECT_EQ(update(), (Changes{{kFirst + 1, {}}}));
    EXPECT_EQ(keys.entity(kFirst + 1), early);
    EXPECT_EQ(keys.net_id(early), kFirst + 1);
    EXPECT_FALSE(keys.entity(kFirst + 2));
    EXPECT_EQ(keys.net_id(world.spawn()), 0u);
}

TEST_F(Keys, ThatDidNotChangeAreNotNamed) {
    update();
    EXPECT_EQ(update(), Changes{}) << "each change is named in one update";
    world.set(early, StableKey{1});
    EXPECT_EQ(update(), Changes{}) << "the same key again";
    EXPECT_EQ(keys.entity(kFirst + 1), early);
    world.destroy(world.spawn(StableKey{2}));
    EXPECT_EQ(update(), Changes{}) << "came and went between two updates";
}

TEST_F(Keys, ThatWereWrittenRemovedOrDestroyedAreNamed) {
    update();
    world.set(early, StableKey{2});
    EXPECT_EQ(update(), (Changes{{kFirst + 1, early}, {kFirst + 2, {}}}));
    EXPECT_FALSE(keys.entity(kFirst + 1));
    EXPECT_EQ(keys.entity(kFirst + 2), early);
    world.remove<StableKey>(early);
    EXPECT_EQ(update(), (Changes{{kFirst + 2, early}}));
    EXPECT_EQ(keys.net_id(early), 0u);
    world.set(early, StableKey{3});
    EXPECT_EQ(update(), (Changes{{kFirst + 3, {}}}));
    world.destroy(early);
    EXPECT_EQ(update(), (Changes{{kFirst + 3, early}}));
    EXPECT_FALSE(keys.entity(kFirst + 3));
    const ecs::Entity next = world.spawn(StableKey{3});
    ASSERT_EQ(next.index, early.index);
    EXPECT_EQ(update(), (Changes{{kFirst + 3, {}}}));
    EXPECT_EQ(keys.entity(kFirst + 3), next);
}

TEST_F(Keys, CanPassToAnotherEntityOrBeExchangedInOneUpdate) {
    const ecs::Entity other = world.spawn(StableKey{2});
    update();
    world.set(early, StableKey{2});
    world.set(other, StableKey{1});
    EXPECT_EQ(update(),
              (Changes{{kFirst + 1, early}, {kFirst + 2, other}, {kFirst + 2, {}}, {kFirst + 1, {}}}));
    EXPECT_EQ(keys.entity(kFirst + 1), other);
    EXPECT_EQ(keys.entity(kFirst + 2), early);
    world.destroy(other);
    const ecs::Entity next = world.spawn(StableKey{1});
    EXPECT_EQ(update(), (Changes{{kFirst + 1, other}, {kFirst + 1, {}}}));
    EXPECT_EQ(keys.entity(kFirst + 1), next);
}

TEST_F(Keys, OfExcludedEntitiesAreIgnoredUntilTheyAreWrittenAgain) {
    const ecs::Entity excluded = world.spawn(StableKey{2});
    EXPECT_EQ(update(excluded), (Changes{{kFirst + 1, {}}}));
    EXPECT_EQ(update(), Changes{});
    world.set(excluded, StableKey{2});
    EXPECT_EQ(update(), (Changes{{kFirst + 2, {}}}));
    world.set(excluded, StableKey{3});
    EXPECT_EQ(update(excluded), (Changes{{kFirst + 2, excluded}})) << "its former key is free";
    EXPECT_EQ(keys.net_id(excluded), 0u);
}

TEST_F(Keys, ReserveANetIdUpToTheGreatestKey) {
    EXPECT_EQ(keyed_net_id(world, world.spawn(StableKey{0})), kFirst);
    EXPECT_EQ(keyed_net_id(world, world.spawn(StableKey{kMaxStableKey})), 0xffff'ffffu);
    EXPECT_EQ(keyed_net_id(world, world.spawn(StableKey{kMaxStableKey + 1})), 0u);
    EXPECT_EQ(keyed_net_id(world, world.spawn()), 0u);
    world.destroy(early);
    EXPECT_EQ(keyed_net_id(world, early), 0u);
}

}  // namespace
}  // namespace shoal::replication::impl::keyed_entities_test
