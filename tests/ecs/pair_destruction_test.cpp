// What dies with a target or a source, and what it leaves behind.

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "ecs/query.h"
#include "ecs/world.h"
#include "tests/ecs/support/relations.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;

namespace ecs_pair_destruction_test {

using ecs_relations::ChildOf, ecs_relations::Entities, ecs_relations::Follows, ecs_relations::Holds,
    ecs_relations::Knows, ecs_relations::Likes, ecs_relations::list, ecs_relations::PartOf;

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

// Goal: targets may be destroyed in any order, whatever graph their pairs form; archetypes do not multiply.
// Method: each graph is built and destroyed in three orders. If the time of a destruction grew with the
// number of targets, each graph would take seconds.
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

}  // namespace ecs_pair_destruction_test
