#include "replication/world_hash.h"

#include <gtest/gtest.h>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

using sim::Aim;
using sim::Name;
using sim::Position;
using sim::Wolf;

TEST(WorldHash, IsEqualOnBothSidesAlthoughTheHandlesDiffer) {
    Pair pair;
    for (int i = 0; i < 5; ++i) pair.mirror.spawn(Position{});  // entities of the client's game
    const ecs::Entity a = pair.spawn(Position{1, 2, 3}, Name{"a"});
    pair.spawn(Aim{a, 3}, Wolf{});
    pair.exchange();
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_NE(pair.replica(a), a);
}

TEST(WorldHash, DiffersForEveryKindOfChange) {
    Pair pair;
    const ecs::Entity a = pair.spawn(Position{1, 2, 3}, Name{"a"}), b = pair.spawn(Position{1, 2, 3});
    const ecs::Entity aimer = pair.spawn(Aim{a, 3});
    pair.exchange();
    WorldHash hash(pair.world, pair.schema);
    const auto now = [&] { return hash.of_server(pair.sender.shadow()).hash; };
    const std::uint64_t before = now();
    const auto expect_seen = [&](auto&& change, auto&& back) {
        change();
        EXPECT_NE(now(), before);
        back();
        EXPECT_EQ(now(), before);
    };
    expect_seen(
        [&] {
            pair.world.set(a, Position{1, 2, 3.02f});
        },
        [&] {
            pair.world.set(a, Position{1, 2, 3});
        });
    expect_seen([&] { pair.world.set(a, Name{"b"}); }, [&] { pair.world.set(a, Name{"a"}); });
    expect_seen([&] { pair.world.set(aimer, Aim{b, 3}); }, [&] { pair.world.set(aimer, Aim{a, 3}); });
    expect_seen([&] { pair.world.set(aimer, Aim{{}, 3}); }, [&] { pair.world.set(aimer, Aim{a, 3}); });
    expect_seen([&] { pair.world.add<Wolf>(b); }, [&] { pair.world.remove<Wolf>(b); });
    expect_seen(  // two entities exchange their components
        [&] {
            pair.world.set(b, Name{"a"});
            pair.world.remove<Name>(a);
        },
        [&] {
            pair.world.set(a, Name{"a"});
            pair.world.remove<Name>(b);
        });
}

TEST(WorldHash, IgnoresChangesBelowAStepOrOutsideTheSchema) {
    Pair pair;
    const ecs::Entity a = pair.spawn(Position{1, 2, 3});
    pair.exchange();
    WorldHash hash(pair.world, pair.schema);
    const WorldHash::Sum before = hash.of_server(pair.sender.shadow());
    pair.world.set(a, Position{1.001f, 2, 3});
    pair.world.set(a, sim::Secret{5});
    pair.world.spawn(Position{});
    const WorldHash::Sum after = hash.of_server(pair.sender.shadow());
    EXPECT_EQ(before.hash, after.hash);
    EXPECT_EQ(before.entities, after.entities);
}

}  // namespace
}  // namespace shoal::replication::impl
