// Since when a client is complete: the tick of the newest change that it sees, of whatever kind.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl::sender_since_test {
namespace {

struct Place {
    int x = 0;
};
struct Purse {
    int coins = 0;
};
struct Rumour {
    int number = 0;
};
struct Lit {};

Schema town_schema() {
    Schema schema;
    schema.component<Place>("place");
    schema.component<Purse>("purse", to_owner());
    schema.component<Rumour>("rumour", to_group(1));
    schema.tag<Lit>("lit");
    return schema;
}

struct Town {
    Town() { pair.exchange(); }

    /// Makes a change, and runs some ticks more than a heartbeat is long. Returns since when the client is
    /// complete, counted from the tick of the change: 0, or negative if the client does not see the change.
    int since(const std::function<void()>& change) {
        change();
        pair.exchange();
        const Tick changed = pair.sender.tick();
        for (int i = 0; i < 70; ++i) pair.exchange();
        const auto complete = pair.receiver.complete();
        if (!complete || complete->tick - changed > 70u) return -1'000'000;
        return static_cast<int>(complete->since - changed);
    }

    Pair pair{{}, {}, 1, 1, town_schema()};
    ecs::Entity house = pair.spawn(Place{1}, Purse{5}, Rumour{7}), other = pair.spawn(Place{2});
};

TEST(SenderSince, AnyChangeThatThePeerSeesBeginsANewTime) {
    Town town;
    Pair& pair = town.pair;
    ecs::World& world = pair.world;
    EXPECT_EQ(town.since([&] { world.set(town.house, Place{2}); }), 0);
    EXPECT_EQ(town.since([&] { world.add<Lit>(town.house); }), 0);
    EXPECT_EQ(town.since([&] { world.remove<Lit>(town.house); }), 0);
    EXPECT_EQ(town.since([&] { pair.spawn(Place{3}); }), 0);
    EXPECT_EQ(town.since([&] { world.destroy(town.other); }), 0);
    EXPECT_EQ(town.since([&] { pair.sender.set_owner(town.house, pair.peer); }), 0);
    EXPECT_EQ(town.since([&] { world.set(town.house, Purse{6}); }), 0);
    EXPECT_EQ(town.since([&] { pair.sender.set_groups(pair.peer, to_group(1)); }), 0);
    EXPECT_EQ(town.since([&] { world.set(town.house, Rumour{8}); }), 0);
    EXPECT_EQ(town.since([&] { pair.sender.set_owner(town.house, {}); }), 0);
    EXPECT_EQ(town.since([&] { pair.sender.set_groups(pair.peer, {}); }), 0);
    EXPECT_EQ(town.since([&] { world.remove<Replicated>(town.house); }), 0);
}

TEST(SenderSince, WhatThePeerDoesNotSeeChangesNothing) {
    Town town;
    Pair& pair = town.pair;
    ecs::World& world = pair.world;
    ASSERT_EQ(town.since([&] { world.set(town.house, Place{2}); }), 0);
    EXPECT_EQ(town.since([&] { world.set(town.house, Place{2}); }), -71);
    EXPECT_EQ(town.since([&] { world.set(town.house, Purse{6}); }), -142);
    EXPECT_EQ(town.since([&] { world.set(town.house, Rumour{8}); }), -213);
    EXPECT_EQ(town.since([&] { pair.sender.set_owner(town.other, pair.peer); }), -284)
        << "its owner sees the same";
}

}  // namespace
}  // namespace shoal::replication::impl::sender_since_test
