// What a pair is, and how it is found.

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ecs/change_collector.h"
#include "ecs/query.h"
#include "ecs/world.h"
#include "tests/ecs/support/relations.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;

namespace ecs_pair_test {

using ecs_relations::ChildOf, ecs_relations::Entities, ecs_relations::Follows, ecs_relations::Holds,
    ecs_relations::Knows, ecs_relations::Likes, ecs_relations::list, ecs_relations::PartOf;

static_assert(Relation<ChildOf> && !Component<ChildOf> && Component<Health> && !Relation<Health>);
static_assert(!Tag<ChildOf> && !Value<Likes>);
static_assert(includes(PartOf::relation, destroy_with_target) && !includes(PartOf::relation, exclusive));
static_assert(includes(ChildOf::relation, exclusive) && !includes(Knows::relation, exclusive));

TEST(Pair, ASourceHasPairsWithAndWithoutValues) {
    World world;
    const Entity ann = world.spawn(Health{1}), bob = world.spawn(), cat = world.spawn();
    world.add(ann, to<Likes>(bob));
    world.set(ann, to<Likes>(cat), Likes{9});
    world.add(ann, to<Knows>(cat));

    EXPECT_TRUE(world.has(ann, to<Likes>(bob)));
    EXPECT_FALSE(world.has(bob, to<Likes>(ann)));
    EXPECT_FALSE(world.has(ann, to<Knows>(bob)));
    EXPECT_EQ(world.try_get(ann, to<Likes>(bob))->much, 5);
    EXPECT_EQ(world.try_get(ann, to<Likes>(cat))->much, 9);
    EXPECT_EQ(world.try_get(cat, to<Likes>(ann)), nullptr);
    EXPECT_EQ(list(world.targets<Likes>(ann)), (Entities{bob, cat}));
    EXPECT_EQ(list(world.sources(to<Likes>(cat))), Entities{ann});
    EXPECT_TRUE(world.sources(to<Likes>(ann)).empty());
    EXPECT_TRUE(world.targets<Likes>(bob).empty());

    world.add(ann, to<Likes>(bob));  // exists: no effect
    EXPECT_TRUE(world.patch(ann, to<Likes>(bob), [](Likes& likes) { likes.much = 6; }));
    EXPECT_FALSE(world.patch(bob, to<Likes>(ann), [](Likes&) { FAIL(); }));
    world.set(ann, to<Likes>(cat), Likes{8});
    {
        const auto targets = world.targets<Likes>(ann);
        EXPECT_EQ(targets.value(0).much, 6);
        EXPECT_EQ(targets.value(1).much, 8);
    }

    world.remove(ann, to<Likes>(bob));
    world.remove(ann, to<Likes>(bob));
    EXPECT_FALSE(world.has(ann, to<Likes>(bob)));
    EXPECT_EQ(world.get<Health>(ann).points, 1);
    EXPECT_TRUE(world.is_consistent());
    EXPECT_EQ(world.dropped_commands(), 0u);
}

TEST(Pair, IsAComponentIdLikeAnyOther) {
    World world;
    const Entity ann = world.spawn(), bob = world.spawn();
    const ComponentId id = world.pair_id(world.component<Likes>(), bob);
    Likes much{7};
    world.set(ann, id, &much);
    EXPECT_TRUE(world.has(ann, id));
    EXPECT_EQ(static_cast<const Likes*>(world.try_get(ann, id))->much, 7);
    EXPECT_TRUE(world.patch(ann, id, [](void* value) { static_cast<Likes*>(value)->much = 8; }));
    EXPECT_EQ(world.try_get(ann, to<Likes>(bob))->much, 8);
    EXPECT_EQ(world.components()[id].size, sizeof(Likes));
    ASSERT_EQ(world.components_of(ann).size(), 1u);
    EXPECT_EQ(world.components_of(ann)[0], id);
    const PairTable& pairs = world.components().pairs();
    EXPECT_EQ(pairs.find(id)->relation, world.component<Likes>());
    EXPECT_EQ(pairs.find(id)->target, bob);
    EXPECT_EQ(pairs.find(world.component<Health>()), nullptr);
    world.remove(ann, id);
    EXPECT_FALSE(world.has(ann, to<Likes>(bob)));

    // One spawn makes one row.
    const ComponentId ids[] = {id, world.component<Health>()};
    Health health{3};
    void* const values[] = {&much, &health};
    const Entity cat = world.spawn(ids, values);
    EXPECT_TRUE(world.has(cat, to<Likes>(bob)));
    world.remove(cat, ids);
    EXPECT_TRUE(world.components_of(cat).empty());

    // Without a C++ type.
    ComponentType type{"orbits", sizeof(float), alignof(float)};
    type.relation = exclusive;
    const ComponentId orbits = world.register_component(type);
    float radius = 2;
    world.set(ann, world.pair_id(orbits, bob), &radius);
    world.set(ann, world.pair_id(orbits, cat), &radius);
    EXPECT_FALSE(world.has(ann, world.pair_id(orbits, bob)));
    EXPECT_EQ(list(world.sources(world.pair_id(orbits, cat))), Entities{ann});
    EXPECT_FALSE(world.pair_id(world.component<Health>(), bob));
}

TEST(Pair, AnExclusiveRelationReplacesItsTargetInOneMove) {
    World world;
    const Entity ship = world.spawn(Health{1}), one = world.spawn(), two = world.spawn();
    std::vector<std::tuple<char, Entity, int>> trace;
    const Hook added = world.on_add<Follows>([&](World& w, Entity source, Entity target, const Follows& f) {
        EXPECT_EQ(source, ship);
        EXPECT_EQ(w.target<Follows>(source), target);
        trace.emplace_back('+', target, f.distance);
    });
    const Hook removed =
        world.on_remove<Follows>([&](World& w, Entity source, Entity target, const Follows& f, Removal why) {
            EXPECT_EQ(why, Removal::component);
            EXPECT_EQ(w.target<Follows>(source), target);
            EXPECT_TRUE(w.has<Health>(source));
            trace.emplace_back('-', target, f.distance);
        });
    const Hook changed = world.on_change<Follows>([&](World&, Entity, Entity target, const Follows& f) {
        trace.emplace_back('=', target, f.distance);
    });
    world.add(ship, to<Follows>(one));
    world.set(ship, to<Follows>(one), Follows{2});
    world.set(ship, to<Follows>(two), Follows{3});
    world.add(ship, to<Follows>(two));
    world.remove(ship, to<Follows>(one));
    EXPECT_EQ(world.target<Follows>(ship), two);
    world.remove(ship, to<Follows>(two));
    EXPECT_EQ(world.target<Follows>(ship), Entity{});
    const std::vector<std::tuple<char, Entity, int>> expected = {
        {'+', one, 1}, {'=', one, 2}, {'-', one, 2}, {'+', two, 3}, {'-', two, 3}};
    EXPECT_EQ(trace, expected);
    EXPECT_EQ(world.get<Health>(ship).points, 1);
}

TEST(Pair, QueriesFindAnyTargetOrANamedOne) {
    World world;
    const Entity red = world.spawn(), blue = world.spawn(), green = world.spawn();
    const Entity a = world.spawn(Health{1}), b = world.spawn(Health{2}), c = world.spawn(Health{3});
    const Entity d = world.spawn(Health{4}, Frozen{}), bare = world.spawn(Health{5});
    world.set(a, to<Likes>(red), Likes{1});
    world.set(b, to<Likes>(red), Likes{2});
    world.set(b, to<Likes>(blue), Likes{3});
    world.set(c, to<Likes>(blue), Likes{4});
    world.set(d, to<Likes>(red), Likes{5});

    Query<Health, Pair<Likes>, Without<Frozen>> likes{world};
    std::set<std::tuple<Entity, Entity, int>> found;
    const auto note = [&](Entity entity, Health& health, const Targets<Likes>& targets) {
        health.points += 10;
        for (std::size_t i = 0; i < targets.size(); ++i)
            found.emplace(entity, targets[i], targets.value(i).much);
    };
    likes.each(note);
    const std::set<std::tuple<Entity, Entity, int>> all = {
        {a, red, 1}, {b, red, 2}, {b, blue, 3}, {c, blue, 4}};
    EXPECT_EQ(found, all);

    found.clear();
    likes.each_to<Likes>(blue, note);
    const std::set<std::tuple<Entity, Entity, int>> of_blue = {{b, red, 2}, {b, blue, 3}, {c, blue, 4}};
    EXPECT_EQ(found, of_blue);
    EXPECT_EQ(world.get<Health>(a).points, 11);
    EXPECT_EQ(world.get<Health>(b).points, 22);

    found.clear();
    likes.each_to<Likes>(green, note);
    likes.each_to<Likes>(Entity{}, note);
    EXPECT_TRUE(found.empty());

    Query<const Health, Without<Likes>> alone{world};
    EXPECT_EQ(alone.count(), 1u);
    alone.each([&](Entity entity, const Health&) { EXPECT_EQ(entity, bare); });
    Query<With<Likes>> any{world};
    EXPECT_EQ(any.count(), 4u);
    world.destroy(red);
    EXPECT_EQ(any.count(), 2u);
    EXPECT_EQ(alone.count(), 3u);
    world.destroy(blue);
    EXPECT_EQ(any.count(), 0u);
}

TEST(Pair, LoopsOverSourcesMayChangeThem) {
    World world;
    const Entity old = world.spawn(), fresh = world.spawn();
    for (int i = 0; i < 10; ++i) world.add(world.spawn(Health{i}), to<Follows>(old));
    int visited = 0;
    for (const Entity source : world.sources(to<Follows>(old))) {
        world.add(source, to<Follows>(fresh));
        if (++visited == 3) world.destroy(old);
    }
    EXPECT_EQ(visited, 10);
    EXPECT_FALSE(world.is_alive(old));
    EXPECT_EQ(world.sources(to<Follows>(fresh)).size(), 10u);
    for (const Entity target : world.targets<Follows>(*world.sources(to<Follows>(fresh)).begin()))
        world.destroy(target);
    EXPECT_FALSE(world.is_alive(fresh));
    EXPECT_TRUE(world.is_consistent());
}

TEST(Pair, APairQueuedForADestroyedTargetIsDropped) {
    World world;
    const Entity source = world.spawn(), doomed = world.spawn(), other = world.spawn();
    {
        const World::Deferral deferral(world);
        world.destroy(doomed);
        world.set(source, to<Holds>(doomed), Holds{Counted{1}});
        world.set(source, to<Holds>(other), Holds{Counted{2}});
        const ComponentId ids[] = {world.pair_id(world.component<Knows>(), doomed),
                                   world.component<Health>()};
        Health health{4};
        void* const values[] = {nullptr, &health};
        world.set(source, ids, values);
    }
    EXPECT_EQ(world.dropped_commands(), 2u);
    EXPECT_EQ(world.targets<Holds>(source).size(), 1u);
    EXPECT_EQ(world.get<Health>(source).points, 4);
    EXPECT_EQ(Counted::alive, 1);
    world.clear();
    EXPECT_EQ(Counted::alive, 0);
}

TEST(Pair, QueuedWritesSeeQueuedReplacements) {
    World world;
    const Entity source = world.spawn(), one = world.spawn(), two = world.spawn();
    world.set(source, to<Follows>(one), Follows{1});
    {
        const World::Deferral deferral(world);
        world.set(source, to<Follows>(two), Follows{2});
        EXPECT_FALSE(world.patch(source, to<Follows>(one), [](Follows&) { FAIL(); }));
        EXPECT_TRUE(world.patch(source, to<Follows>(two), [](Follows& f) { f.distance = 3; }));
    }
    EXPECT_EQ(world.try_get(source, to<Follows>(two))->distance, 3);
}

TEST(Pair, CollectorWatchesTheRelationAsAWhole) {
    World world;
    const Entity a = world.spawn(), b = world.spawn(), c = world.spawn(), target = world.spawn();
    world.add(a, to<Likes>(target));
    world.add(b, to<Likes>(target));
    ChangeCollector collector{world};
    const std::uint32_t likes = collector.watch<Likes>();
    world.add(c, to<Likes>(a));
    world.patch(b, to<Likes>(target), [](Likes& l) { l.much = 1; });
    std::set<Entity> changed;
    const auto collect = [&] {
        changed.clear();
        for (const auto change : collector.changes())
            if (change.has(likes)) changed.insert(change.entity);
        collector.clear();
        return changed;
    };
    EXPECT_EQ(collect(), (std::set<Entity>{b, c}));
    world.destroy(target);
    EXPECT_EQ(collect(), (std::set<Entity>{a, b}));
}

TEST(Pair, ChangedSinceAndBatchesWorkForPairs) {
    World world;
    const Entity target = world.spawn();
    for (int i = 0; i < 5; ++i) world.add(world.spawn(Health{i}), to<Likes>(target));
    const std::uint64_t before = world.advance_tick();
    Query<const Health, Pair<Likes>, Changed<Health>> changed{world};
    int rows = 0;
    changed.each_since(before, [&](const Health&, const Targets<Likes>&) { ++rows; });
    EXPECT_EQ(rows, 0);
    world.patch<Health>(*world.sources(to<Likes>(target)).begin(), [](Health& h) { h.points = 9; });
    changed.each_since(before, [&](const Health&, const Targets<Likes>&) { ++rows; });
    EXPECT_EQ(rows, 5);
}

TEST(Pair, RangesWorkWithAlgorithmsOfTheStandardLibrary) {
    World world;
    const Entity ann = world.spawn(), bob = world.spawn(), cat = world.spawn();
    world.add(ann, to<Likes>(cat));
    world.add(bob, to<Likes>(cat));
    world.add(ann, to<Likes>(bob));
    {
        const auto sources = world.sources(to<Likes>(cat));
        EXPECT_EQ(Entities(sources.begin(), sources.end()).size(), 2u);
        const auto targets = world.targets<Likes>(ann);
        EXPECT_EQ(Entities(targets.begin(), targets.end()), (Entities{bob, cat}));
    }
    world.set(ann, to<Follows>(bob), Follows{7});
    const auto follows = world.targets<Follows>(ann);
    EXPECT_EQ(follows.target(), bob);
    EXPECT_EQ(world.targets<Follows>(bob).target(), Entity{});
    EXPECT_EQ(follows.value().distance, 7);
}

#ifdef NDEBUG
TEST(Pair, MistakesAreHarmless) {
    World world;
    const Entity source = world.spawn(), dead = world.spawn();
    world.destroy(dead);
    world.add(source, to<Likes>(dead));
    world.add(dead, to<Likes>(source));
    world.set(source, to<Likes>(Entity{}), Likes{1});
    world.remove(source, to<Likes>(dead));
    EXPECT_EQ(world.dropped_commands(), 3u);
    EXPECT_FALSE(world.has(source, to<Likes>(dead)));
    EXPECT_TRUE(world.targets<Likes>(dead).empty());
    EXPECT_TRUE(world.sources(to<Likes>(dead)).empty());
    EXPECT_FALSE(world.pair_id(world.component<Likes>(), dead));
    Likes much;
    world.set(source, world.component<Likes>(), &much);  // a relation without a target
    EXPECT_EQ(world.dropped_commands(), 4u);
    EXPECT_TRUE(world.components_of(source).empty());
    EXPECT_EQ(world.components()[ComponentId{}].name, "");
}
#endif

}  // namespace ecs_pair_test
