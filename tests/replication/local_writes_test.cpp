#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecs/query.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

using sim::Health;
using sim::Name;
using sim::Position;

struct Chases {
    static constexpr auto relation = ecs::exclusive;
    std::int32_t rank = 0;
};
struct Tracks {
    static constexpr auto relation = ecs::many;
};
struct Sparkle {};  // not in the schema

Schema schema_with_pairs() {
    Schema schema;
    schema.component<Position>("position");
    schema.component<Health>("health");
    schema.component<Name>("name");
    schema.pair<Chases>("chases");
    schema.pair<Tracks>("tracks");
    return schema;
}

/// A pair of worlds that notes what the client's game writes.
struct Watched {
    static ReceiverOptions noting(std::vector<std::string>& notes) {
        ReceiverOptions options;
        options.on_local_write = [&notes](ecs::Entity, std::string_view name) { notes.emplace_back(name); };
        return options;
    }
    std::vector<std::string> notes;
    Pair pair{{}, noting(notes), 1, 1, schema_with_pairs()};
};

using Notes = std::vector<std::string>;

TEST(LocalWrites, AreToldWithTheirComponent) {
    Watched watched;
    Pair& pair = watched.pair;
    const ecs::Entity cat = pair.spawn(at(1)), mouse = pair.spawn(at(2), Health{5});
    pair.exchange();
    pair.world.set(cat, at(3));
    pair.world.add(cat, ecs::to<Tracks>(mouse));
    pair.exchange();
    EXPECT_EQ(watched.notes, Notes{}) << "the library wrote this";
    const ecs::Entity own = pair.mirror.spawn(at(1)), replica = pair.replica(cat);
    pair.mirror.set(own, at(5));
    pair.mirror.add<Sparkle>(replica);
    EXPECT_EQ(watched.notes, Notes{}) << "not a replica, or not in the schema";
    pair.mirror.set(replica, at(5));
    pair.mirror.patch<Position>(replica, [](Position& position) { position.x = 6; });
    pair.mirror.set(replica, Health{1});
    pair.mirror.remove<Health>(replica);
    pair.mirror.remove(replica, ecs::to<Tracks>(pair.replica(mouse)));
    EXPECT_EQ(watched.notes, (Notes{"position", "position", "health", "health", "tracks"}));
    EXPECT_EQ(pair.receiver.stats().local_writes, 5u);
    pair.mirror.destroy(replica);
    pair.world.destroy(mouse);
    pair.exchange();
    pair.receiver.reset();
    EXPECT_EQ(pair.receiver.stats().local_writes, 5u) << "entities that die are not written";
}

TEST(LocalWrites, OfAQueryAreToldForEachEntity) {
    std::vector<ecs::Entity> told;
    ReceiverOptions options;
    options.on_local_write = [&](ecs::Entity entity, std::string_view) { told.push_back(entity); };
    Pair pair({}, options);
    for (int i = 0; i < 5; ++i) pair.spawn(at(1), Health{5, 0});
    pair.exchange();
    ASSERT_TRUE(told.empty());
    std::vector<ecs::Entity> replicas;
    pair.receiver.for_each_entity([&](NetId, ecs::Entity entity) { replicas.push_back(entity); });
    std::sort(replicas.begin(), replicas.end());
    const auto take = [&] {
        std::sort(told.begin(), told.end());
        return std::exchange(told, {});
    };
    ecs::Query<Position>(pair.mirror).each([](Position& position) { position.x = 2; });
    EXPECT_EQ(take(), replicas) << "in one batch";
    ecs::Query<const Health>(pair.mirror).each([&](ecs::Entity entity, const Health&) {
        pair.mirror.remove<Health>(entity);
    });
    EXPECT_EQ(take(), replicas);
    for (const ecs::Entity entity : replicas) pair.mirror.add<sim::Wolf>(entity);
    EXPECT_EQ(take(), replicas);
    EXPECT_EQ(pair.receiver.stats().local_writes, 15u);
}

TEST(LocalWrites, AreNotFoundUnlessTheGameAsks) {
    Pair pair;
    const ecs::Entity cat = pair.spawn(at(1));
    pair.exchange();
    pair.mirror.set(pair.replica(cat), at(5));
    EXPECT_EQ(pair.receiver.stats().local_writes, 0u);
}

TEST(LocalWrites, RestoreUndoesThem) {
    Watched watched;
    Pair& pair = watched.pair;
    sim::Random random(1);
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 10; ++i) entities.push_back(pair.spawn(at(static_cast<float>(i))));
    const auto any = [&] { return entities[random.below(10)]; };
    // Changes an entity of either world; the entities are given in the names of that world.
    const auto change = [&](ecs::World& world, auto&& named) {
        const ecs::Entity entity = named(any()), target = named(any());
        switch (random.below(8)) {
            case 0:
                return world.set(entity, at(static_cast<float>(random.below(50))));
            case 1:
                return world.set(entity, Health{static_cast<std::int32_t>(random.below(50)), 0});
            case 2:
                return world.set(entity, Name{std::string(random.below(9), 'x')});
            case 3:
                return static_cast<void>(world.remove<Position>(entity));
            case 4:
                return static_cast<void>(world.remove<Health>(entity));
            case 5:
                return world.set(entity, ecs::to<Chases>(target), Chases{static_cast<int>(random.below(9))});
            case 6:
                return static_cast<void>(world.add(entity, ecs::to<Tracks>(target)));
            default:
                world.remove(entity, ecs::to<Tracks>(target));
                world.remove(entity, ecs::to<Chases>(target));
        }
    };
    std::size_t undone = 0;
    for (int round = 0; round < 300; ++round) {
        for (int i = 0; i < 10; ++i) change(pair.world, [](ecs::Entity entity) { return entity; });
        pair.exchange();
        pair.mirror.add<Sparkle>(pair.replica(any()));
        watched.notes.clear();
        for (int i = 0; i < 10; ++i)
            change(pair.mirror, [&](ecs::Entity entity) { return pair.replica(entity); });
        undone += watched.notes.size();
        watched.notes.clear();
        const bool was_equal = pair.worlds_are_equal();
        for (const ecs::Entity entity : entities) ASSERT_TRUE(pair.receiver.restore(pair.replica(entity)));
        ASSERT_TRUE(pair.worlds_are_equal()) << "round " << round << ", before equal: " << was_equal;
        ASSERT_TRUE(pair.receiver.is_consistent());
    }
    EXPECT_EQ(watched.notes, Notes{}) << "to restore is not to write";
    EXPECT_GT(undone, 1'000u);
    const ecs::Entity sparkling = pair.replica(entities[0]);
    pair.mirror.add<Sparkle>(sparkling);
    EXPECT_TRUE(pair.receiver.restore(sparkling) && pair.mirror.has<Sparkle>(sparkling));
}

TEST(LocalWrites, OnlyLivingReplicasCanBeRestored) {
    Pair pair;
    const ecs::Entity cat = pair.spawn(at(1));
    pair.exchange();
    const ecs::Entity replica = pair.replica(cat), own = pair.mirror.spawn(at(1));
    EXPECT_TRUE(pair.receiver.restore(replica));
    EXPECT_FALSE(pair.receiver.restore(own));
    EXPECT_FALSE(pair.receiver.restore({}));
    pair.mirror.destroy(replica);
    EXPECT_FALSE(pair.receiver.restore(replica));
}

}  // namespace
}  // namespace shoal::replication::impl
