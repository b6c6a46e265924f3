// Copies of entities and worlds, memory given back, reads of a const world, and the old values of components.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ecs/change_collector.h"
#include "ecs/old_values.h"
#include "ecs/query.h"
#include "ecs/world.h"
#include "tests/ecs/support/types.h"
#include "tests/support/allocations.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;

namespace ecs_copy_test {

namespace {

struct Name {
    std::string text;
};
struct Handle {  // trivial, but only moved
    int number = 0;
    Handle() = default;
    explicit Handle(int n) : number(n) {}
    Handle(Handle&&) = default;
    Handle& operator=(Handle&&) = default;
};
struct ChildOf {
    static constexpr auto relation = exclusive | destroy_with_target;
};
struct Knows {
    static constexpr auto relation = many;
    int since = 0;
};
struct Remembers {
    static constexpr auto relation = many;
    std::string what;
};
struct Score {
    int points = 0;
};

/// Changes a world at random. Its entities have plain, owning, over-aligned and move-only values, tags and
/// pairs.
class Changes {
public:
    explicit Changes(std::uint32_t seed) : random_(seed) {}

    void step(World& world, std::vector<Entity>& alive) {
        const auto any = [&] { return alive[random_() % alive.size()]; };
        if (alive.size() < 20 || random_() % 4 == 0)
            alive.push_back(world.spawn(Health{int(random_() % 100)}));
        const Entity entity = any();
        switch (random_() % 14) {
            case 0:
                return world.set(entity, Name{std::string(random_() % 60, 'n')});
            case 1:
                return world.set(entity, Counted(int(random_() % 9)), Position{float(random_() % 9), 0});
            case 2:
                return world.set(entity, Wide{{double(random_() % 9)}});
            case 3:
                return world.set(entity, MoveOnly{std::make_unique<int>(1)}, Handle(2));
            case 4:
                return world.add<Frozen>(entity);
            case 5:
                return world.set(entity, to<Knows>(any()), Knows{int(random_() % 9)});
            case 6:
                return world.set(entity, to<Remembers>(any()), Remembers{std::string(random_() % 60, 'r')});
            case 7:
                if (const Entity parent = any(); parent != entity) world.add(entity, to<ChildOf>(parent));
                return;
            case 8:
                return world.remove<Health, Name>(entity);
            case 9:
                world.destroy(entity);
                std::erase_if(alive, [&](Entity one) { return !world.is_alive(one); });
                return;
            default:
                world.patch<Health>(entity, [](Health& health) { ++health.points; });
        }
    }

private:
    std::mt19937 random_;
};

/// All that a copy has of an entity: its components without the move-only ones, by name, and their values.
std::string text_of(const World& world, Entity entity) {
    std::string text;
    const auto add = [&](const char* name, const auto& value) {
        text.append(name).append(value).append("; ");
    };
    if (const auto* health = world.try_get<Health>(entity)) add("health ", std::to_string(health->points));
    if (const auto* name = world.try_get<Name>(entity)) add("name ", name->text);
    if (const auto* counted = world.try_get<Counted>(entity)) add("counted ", std::to_string(counted->value));
    if (const auto* place = world.try_get<Position>(entity)) add("place ", std::to_string(place->x));
    if (const auto* wide = world.try_get<Wide>(entity)) {
        EXPECT_TRUE(wide->is_aligned());
        add("wide ", std::to_string(wide->lanes[0]));
    }
    if (world.has<Frozen>(entity)) add("frozen", "");
    const auto targets = world.targets<Knows>(entity);
    for (std::size_t i = 0; i < targets.size(); ++i)
        add("knows ", std::to_string(targets[i].index) + " since " + std::to_string(targets.value(i).since));
    const auto remembered = world.targets<Remembers>(entity);
    for (std::size_t i = 0; i < remembered.size(); ++i)
        add("remembers ", std::to_string(remembered[i].index) + " as " + remembered.value(i).what);
    if (const Entity parent = world.target<ChildOf>(entity)) add("child of ", std::to_string(parent.index));
    return text;
}

std::map<Entity, std::string> texts_of(const World& world) {
    std::map<Entity, std::string> texts;
    world.each_entity([&](Entity entity) { texts[entity] = text_of(world, entity); });
    return texts;
}

}  // namespace

TEST(Copy, OfAWorldEqualsItAndIsIndependent) {
    for (std::uint32_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(seed);
        Changes changes(seed);
        World world;
        world.copyable<Name, Counted, Remembers>();
        auto copy = std::make_unique<World>();
        std::vector<Entity> alive;
        for (int round = 0; round < 4; ++round) {
            for (int step = 0; step < 150; ++step) changes.step(world, alive);
            ASSERT_TRUE(copy->copy_from(world));
            const auto texts = texts_of(world);
            ASSERT_EQ(texts_of(*copy), texts);
            ASSERT_TRUE(copy->is_consistent());
            EXPECT_EQ((Query<With<MoveOnly>>(*copy).count() + Query<With<Handle>>(*copy).count()), 0u);
            std::vector<Entity> alive_there = alive;  // the next handles are the same, too
            if (seed % 2 == 0) {
                for (int step = 0; step < 50; ++step) changes.step(*copy, alive_there);
                ASSERT_TRUE(copy->is_consistent());
                ASSERT_EQ(texts_of(world), texts);
            }
        }
        // Back: the world forgets what it did since.
        const auto texts = texts_of(*copy);
        ASSERT_TRUE(world.copy_from(*copy));
        ASSERT_EQ(texts_of(world), texts);
        ASSERT_EQ(world.spawn(), copy->spawn());
        world.shrink_to_fit();
        ASSERT_TRUE(world.is_consistent());
        std::map<Entity, std::string> shrunk = texts_of(world);
        std::erase_if(shrunk, [&](const auto& one) { return texts.count(one.first) == 0; });
        ASSERT_EQ(shrunk, texts);
    }
    EXPECT_EQ(Counted::alive, 0);
}

TEST(Copy, OfAWorldCallsHooksAndKeepsSingletons) {
    World world;
    world.copyable<Name>();
    const Entity target = world.spawn(), source = world.spawn(Health{1});
    world.set(source, to<Knows>(target), Knows{5});
    world.set_singleton(Name{"clock"});
    World other;
    std::vector<std::string> events;
    const Hook added = other.on_add<Health>([&](World& w, Entity entity, const Health& health) {
        events.push_back("add " + std::to_string(health.points));
        EXPECT_EQ((w.get(entity, to<Knows>(target)).since), 5) << "complete before heard";
    });
    const Hook removed =
        other.on_remove<Health>([&](World&, Entity, const Health&) { events.push_back("remove"); });
    ASSERT_FALSE(other.copy_from(world)) << "Health is the first component here, and the second there";
    EXPECT_TRUE(events.empty());
    World third;
    third.component<Name>();
    Hook heard = third.on_add<Health>([&](World&, Entity, const Health&) { events.push_back("third"); });
    ASSERT_TRUE(third.copy_from(world));
    ASSERT_TRUE(third.copy_from(world)) << "a second time";
    EXPECT_EQ(events, (std::vector<std::string>{"third", "third"}));
    EXPECT_EQ(third.singleton<Name>().text, "clock");
}

TEST(Copy, TakesAWorldWhoseHooksSpawn) {
    for (const bool is_endless : {false, true}) {
        World world, saved;
        saved.spawn(Score{7});
        const Hook debris = world.on_destroy([&](World& w, Entity entity) {
            if (is_endless || w.has<Score>(entity)) w.spawn(Name{"debris"});
        });
        for (int i = 0; i < 5; ++i) world.spawn(Score{i});
        EXPECT_EQ(world.copy_from(saved), !is_endless);
        EXPECT_TRUE(world.is_consistent());
        EXPECT_TRUE(is_endless || world.size() == 1);
    }
}

TEST(Copy, OfAnEntityHasItsComponentsAndPairs) {
    World world;
    world.copyable<Name, Remembers>();
    const Entity parent = world.spawn();
    const Entity one = world.spawn(Health{3}, Name{std::string(50, 'x')}, Frozen{}, Handle(7));
    world.add(one, to<ChildOf>(parent));
    world.set(one, to<Remembers>(parent), Remembers{std::string(50, 'y')});
    std::vector<Entity> added;
    const Hook hook =
        world.on_add<Health>([&](World&, Entity entity, const Health&) { added.push_back(entity); });
    const Entity copy = world.clone(one);
    EXPECT_EQ(text_of(world, copy), text_of(world, one));
    EXPECT_FALSE(world.has<Handle>(copy));
    EXPECT_EQ(added, std::vector{copy});

    // The value is copied at the call, also if the row comes later.
    Entity later, of_nothing;
    Query<const Health> query(world);
    query.each([&](Entity entity, const Health&) {
        if (entity != one) return;
        later = world.clone(one);
        of_nothing = world.clone(later);  // its spawn is queued
        world.set(one, Health{9});
    });
    EXPECT_EQ(world.get<Health>(later).points, 3);
    EXPECT_FALSE(of_nothing);
    world.destroy(copy);
    EXPECT_FALSE(world.clone(copy));
    world.destroy(parent);
    EXPECT_EQ(world.size(), 0u);
}

TEST(Copy, OfAWorldHasOnlyTheArchetypesThatItNeeds) {
    World world, copy;
    std::vector<ComponentId> ids;
    for (int i = 0; i < 8; ++i) ids.push_back(world.register_component({"tag"}));
    const Entity last = world.spawn(Health{});
    for (const ComponentId id : ids) world.add(last, id, nullptr);
    ASSERT_TRUE(copy.copy_from(world));
    EXPECT_EQ(text_of(copy, last), text_of(world, last));
    EXPECT_EQ(copy.archetype_count(), 2u) << "one is without components";
    world.clear();
    ASSERT_TRUE(copy.copy_from(world));
    EXPECT_EQ(copy.archetype_count(), 2u) << "those of earlier copies stay";
}

// A library was rebuilt, and its type is no longer moved and destroyed in the same way.
TEST(Copy, RefusesATypeOfOtherOperations) {
    const ComponentType plain{"Cargo", 8, 8};
    ComponentType moved = plain, owning = plain;
    moved.move = owning.move = [](void*, void*) {};
    owning.destroy = [](void*) {};
    const ComponentType types[] = {plain, moved, owning};
    for (const ComponentType& ours : types)
        for (const ComponentType& theirs : types) {
            World from, to;
            from.register_component(theirs);
            to.register_component(ours);
            EXPECT_EQ(to.copy_from(from), &ours == &theirs);
        }
    ComponentType copied = owning;
    copied.copy = [](void*, const void*) {};
    World from, to;
    from.register_component(copied);
    to.register_component(owning);
    EXPECT_TRUE(to.copy_from(from)) << "only one world has copyable<Cargo>()";
}

TEST(Copy, WithoutTypesTakesTheCopyOperationOfTheComponent) {
    World world;
    ComponentType type{"counter", 4, 4};
    type.move = [](void* to, void* from) { *static_cast<int*>(to) = *static_cast<int*>(from); };
    const ComponentId moved = world.register_component(type);
    type.copy = [](void* to, const void* from) {
        *static_cast<int*>(to) = *static_cast<const int*>(from) + 1;
    };
    const ComponentId copied = world.register_component(type);
    int value = 5;
    const Entity one = world.spawn();
    world.set(one, moved, &value);
    world.set(one, copied, &value);
    const Entity two = world.clone(one);
    EXPECT_FALSE(world.has(two, moved));
    EXPECT_EQ(*static_cast<const int*>(world.try_get(two, copied)), 6);
}

TEST(Memory, IsGivenBackAndReserved) {
    const auto bytes = [before = shoal::test::held_bytes()] { return shoal::test::held_bytes() - before; };
    World world;
    const std::vector<Entity> many = world.spawn_n(50'000, Position{}, Velocity{}, Health{});
    {
        const World::Deferral deferral(world);
        for (const Entity entity : many) world.remove<Velocity>(entity);
    }
    for (const Entity entity : many)
        if (entity != many[7]) world.destroy(entity);
    const std::size_t most = bytes();
    world.shrink_to_fit();
    EXPECT_LT(bytes(), 50'000 * (12 + 8) + 20'000u)
        << "12 bytes for each handle, and 8 in `many`; before: " << most;
    EXPECT_EQ(world.get<Health>(many[7]).points, 0);
    EXPECT_TRUE(world.is_consistent());

    World tags;
    std::vector<ComponentId> ids;
    for (int i = 0; i < 12; ++i) ids.push_back(tags.register_component({"tag"}));
    Query<const Health> query(tags);
    const std::size_t few = bytes();
    std::vector<void*> none(ids.size());
    for (std::uint32_t set = 0; set < 4'096; ++set) {
        std::vector<ComponentId> some;
        for (std::uint32_t i = 0; i < 12; ++i)
            if ((set >> i & 1) != 0) some.push_back(ids[i]);
        tags.destroy(tags.spawn(some, std::span<void* const>(none).first(some.size())));
    }
    EXPECT_GT(bytes(), few + 1'000'000);
    tags.shrink_to_fit();
    EXPECT_LT(bytes(), few + 20'000);
    tags.spawn(Health{});
    EXPECT_EQ(query.count(), 1u);
    EXPECT_TRUE(tags.is_consistent());

    World reserved;
    reserved.reserve<Position, Health>(10'000);
    reserved.spawn(Position{}, Health{});
    const std::size_t before = shoal::test::allocations();
    for (int i = 1; i < 10'000; ++i) reserved.spawn(Position{}, Health{});
    EXPECT_EQ(shoal::test::allocations(), before);
}

TEST(Memory, AWorldInAUniquePtrMovesWithItsQueriesHooksAndCollectors) {
    struct Level {
        std::unique_ptr<World> world = std::make_unique<World>();
        std::unique_ptr<Query<Health>> query = std::make_unique<Query<Health>>(*world);
        std::unique_ptr<ChangeCollector> changed = std::make_unique<ChangeCollector>(*world);
        Hook hook;
    };
    Level first;
    int heard = 0;
    first.hook = first.world->on_change<Health>([&](World&, Entity, const Health&) { ++heard; });
    first.changed->watch<Health>();
    first.world->spawn(Health{});
    Level second = std::move(first);
    second.query->each([](Health& health) { ++health.points; });
    EXPECT_EQ(heard, 1);
    EXPECT_EQ(second.changed->changes().size(), 1u);
}

TEST(ConstWorld, ReadsAllThatAWorldReads) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        Changes changes(seed);
        World world;
        const World& reader = world;
        Query<const Health, Optional<const Name>, Pair<Knows>> kept(reader);
        static_assert(!std::is_constructible_v<Query<Health>, const World&>);
        static_assert(!std::is_constructible_v<Query<Mut<Health>>, const World&>);
        static_assert(!std::is_constructible_v<Query<Optional<Health>>, const World&>);
        static_assert(std::is_constructible_v<Query<const Health, Changed<Health>>, const World&>);
        std::vector<Entity> alive;
        for (int step = 0; step < 300; ++step) {
            changes.step(world, alive);
            std::map<Entity, std::set<Entity>> sources;
            std::size_t expected = 0, found = 0, visited = 0;
            reader.each_entity([&](Entity entity) {
                EXPECT_TRUE(world.is_deferring());
                ++visited;
                for (const Entity target : reader.targets<Knows>(entity)) sources[target].insert(entity);
                expected += reader.has<Health>(entity) && !reader.targets<Knows>(entity).empty();
            });
            for (const auto& [target, known] : sources) {
                const auto range = reader.sources(to<Knows>(target));
                ASSERT_EQ((std::set<Entity>(range.begin(), range.end())), known);
            }
            kept.each([&](const Health&, const Name*, const Targets<Knows>&) { ++found; });
            ASSERT_EQ(found, expected);
            std::size_t rows = 0;
            reader.each_archetype([&](const Archetype& archetype) { rows += archetype.size(); });
            ASSERT_EQ(rows, visited);
            ASSERT_EQ(visited, reader.size());
            ASSERT_FALSE(world.is_deferring());
        }
    }
}

TEST(OldValues, KeepAnIndexEqualToTheWorldWhateverWritesIt) {
    for (std::uint32_t seed = 1; seed <= 30; ++seed) {
        World world;
        std::vector<Entity> alive{world.spawn(Score{3}), world.spawn()};
        std::map<int, std::set<Entity>> index;
        std::mt19937 random(seed);
        {
            OldValues<Score> scores(world, [&](Entity entity, const Score* old, const Score* now) {
                EXPECT_TRUE(old == nullptr || index[old->points].erase(entity) == 1);
                EXPECT_TRUE(now == nullptr || index[now->points].insert(entity).second);
            });
            Query<Score> all(world);
            Query<Mut<Score>> some(world);
            for (int step = 0; step < 400; ++step) {
                const Entity entity = alive[random() % alive.size()];
                const int points = static_cast<int>(random() % 5);
                switch (random() % 9) {
                    case 0:
                        alive.push_back(world.spawn(Score{points}, Health{}));
                        break;
                    case 1:
                        if (alive.size() > 2) world.destroy(entity), std::erase(alive, entity);
                        break;
                    case 2:
                        world.remove<Score>(entity);
                        break;
                    case 3:
                        all.each([&](Score& score) { score.points = points; });
                        break;
                    case 4:
                        some.each([&](Mut<Score> score) {
                            if (score.read().points == points) score->points = 0;
                        });
                        break;
                    case 5: {
                        const World::DelayHooks delay(world);
                        world.set(entity, Score{points});
                        world.set(entity, Score{points + 1});
                        if (points == 1) world.remove<Score>(entity);
                        break;
                    }
                    case 6:
                        world.patch<Score>(entity, [&](Score& score) { score.points = points; });
                        break;
                    default:
                        world.set(entity, Score{points});
                }
                std::map<int, std::set<Entity>> expected;
                Query<const Score>(world).each(
                    [&](Entity one, const Score& score) { expected[score.points].insert(one); });
                std::erase_if(index, [](const auto& entry) { return entry.second.empty(); });
                ASSERT_EQ(index, expected) << "seed " << seed << ", step " << step;
            }
        }
        world.set(alive[0], Score{9});
        EXPECT_EQ(index.count(9), 0u) << "it ended";
    }
}

TEST(EarlyExit, EachEndsWhenTheFunctionReturnsFalse) {
    for (const std::uint32_t rows : {1u, 3u, 1'024u, 5'000u})
        for (const std::uint32_t last : {1u, 2u, 1'023u, 1'024u, 1'025u, 4'999u}) {
            World world;
            world.spawn_n(rows, Score{});
            world.spawn_n(rows, Score{}, Frozen{});
            const std::uint32_t expected = std::min(last, 2 * rows);
            std::uint32_t told = 0, visited = 0;
            const auto next = [&] { return ++visited != last; };
            Query<Score> writes(world);
            writes.each([&](Score&) { return next(); });
            EXPECT_EQ(std::exchange(visited, 0), expected);
            const Hook hook =
                world.on_change<Score>([&](World&, std::span<const Entity> batch, std::span<const Score>) {
                    told += std::uint32_t(batch.size());
                });
            writes.each([&](Entity, Score& score) { return ++score.points, next(); });
            EXPECT_EQ(std::exchange(visited, 0), expected);
            EXPECT_EQ(std::exchange(told, 0), expected) << "only visited rows count as written";
            Query<Mut<Score>>(world).each([&](Mut<Score> score) { return ++score->points, next(); });
            EXPECT_EQ(std::exchange(visited, 0), expected);
            EXPECT_EQ(std::exchange(told, 0), expected);
            world.each_entity([&](Entity) { return next(); });
            EXPECT_EQ(std::exchange(visited, 0), expected);
            EXPECT_FALSE(world.is_deferring());
            // A type that is not bool ends nothing.
            Query<const Score>(world).each([&](const Score&) { return visited++ * 0; });
            EXPECT_EQ(visited, 2 * rows);
        }
    World world;
    const Entity target = world.spawn();
    for (int i = 0; i < 4; ++i)
        world.add(i % 2 == 0 ? world.spawn() : world.spawn(Health{}), to<Knows>(target));
    Query<Pair<Knows>> query(world);
    int visited = 0;
    query.each_to<Knows>(target, [&](const Targets<Knows>&) { return ++visited != 3; });
    EXPECT_EQ(visited, 3);
    visited = 0;
    world.each_archetype([&](const Archetype&) { return ++visited != 2; });
    EXPECT_EQ(visited, 2);
}

}  // namespace ecs_copy_test
