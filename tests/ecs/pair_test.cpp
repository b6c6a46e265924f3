#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ecs/change_collector.h"
#include "ecs/query.h"
#include "ecs/world.h"
#include "tests/ecs/support/types.h"

using namespace shoal::ecs::all;
using namespace ecs_types;

namespace {

struct ChildOf {
    static constexpr auto relation = exclusive | destroy_with_target;
};
struct Follows {
    static constexpr auto relation = exclusive;
    int distance = 1;
};
struct Likes {
    static constexpr auto relation = many;
    int much = 5;
};
struct Knows {
    static constexpr auto relation = many;
};
struct PartOf {
    static constexpr auto relation = many | destroy_with_target;
};
/// A relation whose value is counted.
struct Holds {
    static constexpr auto relation = many;
    Counted counted;
};

static_assert(Relation<ChildOf> && !Component<ChildOf> && Component<Health> && !Relation<Health>);
static_assert(!Tag<ChildOf> && !Value<Likes>);
static_assert(includes(PartOf::relation, destroy_with_target) && !includes(PartOf::relation, exclusive));
static_assert(includes(ChildOf::relation, exclusive) && !includes(Knows::relation, exclusive));

template <class Range>
std::vector<Entity> list(const Range& range) {
    std::vector<Entity> all;
    for (const Entity entity : range) all.push_back(entity);
    return all;
}

using Entities = std::vector<Entity>;

}  // namespace

// The next archetype gets the index of the freed one.
TEST(Pair, AFreedArchetypeLeavesNoColumns) {
    World world;
    const Entity ann = world.spawn(Health{1}), bob = world.spawn();
    world.add(ann, to<Knows>(bob));
    world.destroy(bob);
    EXPECT_EQ(world.get<Health>(ann).points, 1);
    const Entity cat = world.spawn(Position{1, 2});
    EXPECT_FALSE(world.has<Health>(cat));
    EXPECT_EQ(world.try_get<Health>(cat), nullptr);
    EXPECT_EQ(world.get<Position>(cat), (Position{1, 2}));
    EXPECT_TRUE(world.is_consistent());
}

TEST(Pair, AStoredStepOfAFreedArchetypeIsNotTaken) {
    for (const bool ends_with_removal : {false, true}) {
        for (const bool has_velocity : {false, true}) {  // one of the new archetypes gets the freed index
            World world;
            const Entity bob = world.spawn();
            for (int i = 0; i < 3; ++i) {
                const Entity ann = world.spawn(Health{1});
                world.add(ann, to<Knows>(bob));
                world.add<Frozen>(ann);
                if (ends_with_removal) world.remove<Frozen>(ann);
            }
            world.destroy(bob);
            const Entity plain = world.spawn(Position{1, 2});
            const Entity moving = world.spawn(Position{1, 2}, Velocity{3, 4});
            const Entity entity = has_velocity ? moving : plain;
            world.add<Frozen>(entity);
            EXPECT_TRUE(world.is_consistent());
            EXPECT_TRUE(world.has<Frozen>(entity));
            EXPECT_FALSE(world.has<Health>(entity));
            EXPECT_EQ(world.get<Position>(entity), (Position{1, 2}));
            world.remove<Frozen>(entity);
            EXPECT_TRUE(world.is_consistent());
            EXPECT_FALSE(world.has<Frozen>(entity));
        }
    }
}

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

TEST(Pair, ADestructorThatReusesTheIndexOfADyingTargetGetsPairsOfItsOwn) {
    struct OnDeath {
        std::function<void()> act;
        explicit OnDeath(std::function<void()> fn) : act(std::move(fn)) {}
        OnDeath(OnDeath&& other) noexcept : act(std::exchange(other.act, nullptr)) {}
        ~OnDeath() {
            if (act) act();
        }
    };
    World world;
    const Entity one = world.spawn(Health{1}), two = world.spawn(Health{2}), target = world.spawn();
    Entity heir;
    world.set(target, OnDeath([&] {
                  heir = world.spawn();
                  world.add(two, to<Likes>(heir));
              }));
    world.add(one, to<Follows>(target));
    world.destroy(target);
    ASSERT_EQ(heir.index, target.index);
    EXPECT_TRUE(world.is_consistent());
    world.add(two, to<Follows>(heir));
    EXPECT_EQ(world.target<Follows>(two), heir);
    EXPECT_TRUE(world.has(two, to<Likes>(heir)));
    EXPECT_FALSE(world.target<Follows>(one));
}

TEST(Pair, IsRemovedWhenItsTargetIsDestroyed) {
    World world;
    const Entity leader = world.spawn(Health{1});
    const Entity one = world.spawn(), two = world.spawn();
    world.add(one, to<Follows>(leader));
    world.set(two, to<Follows>(leader), Follows{2});
    world.add(leader, to<Knows>(leader));
    std::vector<std::pair<char, Entity>> trace;
    const Hook died = world.on_destroy([&](World& w, Entity e) {
        EXPECT_EQ(w.sources(to<Follows>(e)).size(), 2u);
        trace.emplace_back('d', e);
    });
    const Hook removed = world.on_remove<Follows>(
        [&](World& w, std::span<const Entity> sources, Entity target, std::span<const Follows>, Removal why) {
            EXPECT_EQ(why, Removal::component);
            EXPECT_TRUE(w.is_dying(target));
            EXPECT_EQ(w.get<Health>(target).points, 1);
            for (const Entity source : sources) trace.emplace_back('f', source);
        });
    const Hook knows = world.on_remove<Knows>([&](World&, Entity source, Entity target, Removal why) {
        EXPECT_EQ(source, target);
        EXPECT_EQ(why, Removal::entity);
        trace.emplace_back('k', source);
    });
    world.destroy(leader);
    const std::vector<std::pair<char, Entity>> expected = {
        {'d', leader}, {'f', one}, {'f', two}, {'k', leader}};
    EXPECT_EQ(trace, expected);
    EXPECT_EQ(world.size(), 2u);
    EXPECT_EQ(world.target<Follows>(one), Entity{});
    EXPECT_TRUE(world.is_consistent());
}

// When the sources lose their pair, they leave the archetype that the dying target is in, and its row fills a
// gap. Its values must be destroyed in the new row.
TEST(Pair, ADyingTargetIsRemovedFromTheRowThatItsSourcesMovedItTo) {
    Counted::alive = 0;
    {
        World world;
        const Entity one = world.spawn(Counted(1)), two = world.spawn(Counted(2));
        const Entity doomed = world.spawn(Counted(3));
        for (const Entity entity : {one, two, doomed}) world.add(entity, to<Likes>(doomed));
        int seen = 0;
        const Hook removed =
            world.on_remove<Counted>([&](World&, Entity, const Counted& value) { seen = value.value; });
        world.destroy(doomed);
        EXPECT_EQ(seen, 3);
        EXPECT_EQ(Counted::alive, 2);
        EXPECT_EQ(world.get<Counted>(one).value, 1);
        EXPECT_EQ(world.get<Counted>(two).value, 2);
        EXPECT_TRUE(world.is_consistent());
        const Entity next = world.spawn(), later = world.spawn();
        EXPECT_NE(next.index, later.index);
    }
    EXPECT_EQ(Counted::alive, 0);
}

TEST(Pair, RemoveHooksCanChooseAnotherTarget) {
    World world;
    const Entity leader = world.spawn(), other = world.spawn(), escort = world.spawn();
    world.add(escort, to<Follows>(leader));
    const Hook removed =
        world.on_remove<Follows>([&](World& w, Entity source, Entity target, const Follows&) {
            w.add(source, to<Follows>(target));  // dropped: the target dies
            w.add(source, to<Follows>(other));
        });
    world.destroy(leader);
    EXPECT_EQ(world.target<Follows>(escort), other);
    EXPECT_EQ(world.dropped_commands(), 1u);
    EXPECT_TRUE(world.is_consistent());
}

TEST(Pair, APairAddedToADyingTargetIsDropped) {
    World world;
    const Entity source = world.spawn(), doomed = world.spawn(Health{});
    const Hook removed = world.on_remove<Health>([&](World& w, Entity e, const Health&) {
        w.add(source, to<Likes>(e));  // the first pair with this target
    });
    world.destroy(doomed);
    EXPECT_EQ(world.dropped_commands(), 1u);
    EXPECT_TRUE(world.components_of(source).empty());
    const Entity again = world.spawn();
    EXPECT_EQ(again.index, doomed.index);
    world.add(source, to<Likes>(again));
    EXPECT_EQ(list(world.targets<Likes>(source)), Entities{again});
    EXPECT_TRUE(world.is_consistent());
}

TEST(Pair, DestroyWithTargetDestroysSourcesFirst) {
    World world;
    const Entity root = world.spawn(), left = world.spawn(), right = world.spawn(), leaf = world.spawn();
    world.add(left, to<ChildOf>(root));
    world.add(right, to<ChildOf>(root));
    world.add(leaf, to<ChildOf>(left));
    world.add(right, to<PartOf>(leaf));  // so right must be destroyed before leaf
    Entities order;
    const Hook died = world.on_destroy([&](World& w, Entity e) {
        EXPECT_TRUE(w.is_alive(root));
        order.push_back(e);
    });
    int removals = 0;
    const Hook removed = world.on_remove<ChildOf>([&](World&, Entity source, Entity target, Removal why) {
        EXPECT_EQ(why, Removal::entity);
        EXPECT_EQ(source, order.back());
        EXPECT_NE(target, source);
        ++removals;
    });
    world.destroy(root);
    EXPECT_EQ(order, (Entities{right, leaf, left, root}));
    EXPECT_EQ(removals, 3);
    EXPECT_EQ(world.size(), 0u);
    EXPECT_EQ(archetype_count(world), 1u);
}

TEST(Pair, EntitiesInACycleAreDestroyedOnce) {
    World world;
    const Entity a = world.spawn(), b = world.spawn(), c = world.spawn();
    world.add(a, to<ChildOf>(b));
    world.add(b, to<ChildOf>(c));
    world.add(c, to<ChildOf>(a));
    world.add(a, to<PartOf>(a));
    int deaths = 0;
    const Hook died = world.on_destroy([&](World&, Entity) { ++deaths; });
    world.destroy(b);
    EXPECT_EQ(deaths, 3);
    EXPECT_EQ(world.size(), 0u);
    EXPECT_TRUE(world.is_consistent());
}

TEST(Pair, LongCascadesDoNotRecurse) {
    World world;
    constexpr int kDepth = 100'000;
    Entities chain{world.spawn()};
    for (int i = 1; i < kDepth; ++i) {
        chain.push_back(world.spawn());
        world.add(chain.back(), to<ChildOf>(chain[chain.size() - 2]));
    }
    Entities order;
    const Hook died = world.on_destroy([&](World&, Entity e) { order.push_back(e); });
    world.destroy(chain[0]);
    std::reverse(order.begin(), order.end());
    EXPECT_EQ(order, chain);
    EXPECT_EQ(archetype_count(world), 1u);

    const Entity root = world.spawn();  // with many children
    for (int i = 0; i < kDepth; ++i) world.add(world.spawn(), to<ChildOf>(root));
    EXPECT_EQ(world.sources(to<ChildOf>(root)).size(), 100'000u);
    world.destroy(root);
    EXPECT_EQ(world.size(), 0u);
    EXPECT_EQ(archetype_count(world), 1u);
}

TEST(Pair, CreatingAndDestroyingTargetsLeaksNothing) {
    World world;
    Query<const Health, Pair<Likes>> query{world};
    const Entity fan = world.spawn(Health{1}), base = world.spawn();
    world.add(fan, to<Knows>(base));
    std::uint32_t archetypes = 0;
    ComponentId first, last;
    for (int round = 0; round < 1'000; ++round) {
        const Entity idol = world.spawn();
        world.add(fan, to<Likes>(idol));
        world.add(base, to<Likes>(idol));
        world.add(idol, to<Likes>(idol));
        last = world.pair_id(world.component<Likes>(), idol);
        if (round == 0) first = last;
        int found = 0;
        query.each([&](Entity entity, const Health&, const Targets<Likes>& targets) {
            EXPECT_EQ(entity, fan);
            EXPECT_EQ(list(targets), Entities{idol});
            ++found;
        });
        EXPECT_EQ(found, 1);
        world.destroy(idol);
        EXPECT_EQ(query.count(), 0u);
        EXPECT_EQ(world.components().pairs().find(last), nullptr);
        EXPECT_FALSE(world.has(fan, last));
        if (round == 0) archetypes = archetype_count(world);
        ASSERT_EQ(archetype_count(world), archetypes);
        ASSERT_TRUE(world.is_consistent());
    }
    EXPECT_EQ(first.value, last.value);  // the same slot each time
    EXPECT_NE(first, last);              // but another id
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

TEST(Pair, TheWorldsEndRunsRemoveHooksWithTheTargetReadable) {
    Hook removed;
    int told = 0;
    {
        World world;
        const Entity target = world.spawn(Health{3});
        for (int i = 0; i < 3; ++i) world.set(world.spawn(), to<Holds>(target), Holds{Counted{i}});
        removed = world.on_remove<Holds>([&](World& w, Entity, Entity to, const Holds&, Removal why) {
            EXPECT_EQ(why, Removal::world);
            EXPECT_EQ(w.get<Health>(to).points, 3);
            ++told;
        });
    }
    EXPECT_EQ(told, 3);
    EXPECT_EQ(Counted::alive, 0);
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

// Goal: targets may be destroyed in any order, whatever graph their pairs form; archetypes do not multiply.
// Method: each graph is built and destroyed in three orders. If a destruction cost as much as there are
// targets,
//   each graph would take seconds.
TEST(Pair, GraphsOfPairsAreDestroyedInAnyOrder) {
    constexpr std::uint32_t kEntities = 20'000, kColumns = 100;
    struct Graph {
        const char* name;
        std::function<void(World&, const Entities&)> link;
    };
    const Graph graphs[] = {
        {"targets with a source each",
         [](World& world, const Entities& all) {
             for (std::size_t i = 0; i + 1 < all.size(); i += 2) world.add(all[i + 1], to<Follows>(all[i]));
         }},
        {"the same with a common target",
         [](World& world, const Entities& all) {
             for (std::size_t i = 1; i + 1 < all.size(); i += 2)
                 world.set(all[i], to<Likes>(all[0]), Likes{}), world.add(all[i], to<Follows>(all[i + 1]));
         }},
        {"a chain",
         [](World& world, const Entities& all) {
             for (std::size_t i = 1; i < all.size(); ++i) world.add(all[i], to<Knows>(all[i - 1]));
         }},
        {"a grid",
         [](World& world, const Entities& all) {
             for (std::size_t i = 0; i < all.size(); ++i)
                 for (const std::size_t near : {i + 1, i + kColumns, i - 1, i - kColumns})
                     if (near < all.size()) world.add(all[i], to<Knows>(all[near]));
         }},
        {"sources with many targets",
         [](World& world, const Entities& all) {
             for (std::size_t i = 0; i < all.size(); ++i)
                 world.add(all[i % 500], to<Knows>(all[i])), world.add(all[i], to<Likes>(all[i * 7 % 500]));
         }},
    };
    for (const Graph& graph : graphs)
        for (const int order : {0, 1, 2}) {
            SCOPED_TRACE(testing::Message() << graph.name << ", order " << order);
            World world;
            Query<const Health, Pair<Likes>> likes(world);
            Entities all = world.spawn_n(kEntities, Health{});
            graph.link(world, all);
            EXPECT_TRUE(world.is_consistent());
            EXPECT_LT(world.archetype_count(), 4 * kEntities + 100);
            if (order == 1) std::reverse(all.begin(), all.end());
            for (std::size_t i = 0; order == 2 && i < all.size(); ++i)
                std::swap(all[i], all[i * 7919 % all.size()]);
            for (std::size_t i = 0; i < all.size(); ++i) {
                world.destroy(all[i]);
                if (i + 1 < all.size()) likes.each_to<Likes>(all[i + 1], [](const Health&, const auto&) {});
                if (i % 5'000 == 0) {
                    ASSERT_TRUE(world.is_consistent());
                }
            }
            EXPECT_EQ(world.size(), 0u);
            EXPECT_LE(world.archetype_count(), 2u);
            EXPECT_EQ(likes.count(), 0u);
        }
}

// An entity with n targets would leave n archetypes with n / 2 columns behind.
TEST(Pair, AnEntityWithManyTargetsLeavesFewArchetypes) {
    World world;
    const Entity source = world.spawn(Health{});
    const Entities targets = world.spawn_n(300, Position{});
    for (const Entity target : targets) world.add(source, to<Likes>(target));
    EXPECT_EQ(world.targets<Likes>(source).size(), 300u);
    EXPECT_LT(world.archetype_count(), 20u);
    for (std::size_t i = 0; i < 100; ++i) world.remove(source, to<Likes>(targets[i]));
    for (std::size_t i = 100; i < 200; ++i) world.destroy(targets[i]);
    EXPECT_EQ(world.targets<Likes>(source).size(), 100u);
    EXPECT_LT(world.archetype_count(), 20u);
    const std::uint32_t count = world.archetype_count();
    world.set(source, Position{});
    world.remove<Position>(source);
    world.add<Frozen>(source);
    EXPECT_EQ(world.archetype_count(), count) << "other components leave none behind either";
    for (const bool has_hooks : {false, true}) {
        const Hook hook = has_hooks ? world.on_remove<Frozen>([](World&, Entity) {}) : Hook();
        const Entity copy = world.clone(source);
        world.add<Frozen>(copy);
        world.remove<Health>(copy);
        EXPECT_EQ(world.archetype_count(), count + 1);
        world.destroy(copy);
        EXPECT_EQ(world.archetype_count(), count) << "nor does a destruction";
    }
    EXPECT_TRUE(world.is_consistent());
}
