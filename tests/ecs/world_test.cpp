#include "ecs/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/ecs/support/types.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;

namespace {

struct WorldTest : testing::Test {
    World world;

    void TearDown() override { EXPECT_TRUE(world.is_consistent()); }
};

/// A component whose destructor destroys an entity.
struct Owner {
    World* world = nullptr;
    Entity owned;

    Owner(World& w, Entity e) : world(&w), owned(e) {}
    Owner(Owner&& other) noexcept : world(std::exchange(other.world, nullptr)), owned(other.owned) {}
    Owner& operator=(Owner&&) = delete;
    ~Owner() {
        if (world != nullptr) world->destroy(owned);
    }
};

}  // namespace

TEST_F(WorldTest, SpawnSetGetRemoveDestroy) {
    const Entity entity = world.spawn(Position{1, 2}, Velocity{3, 4}, Frozen{});
    EXPECT_EQ(world.get<Position>(entity), (Position{1, 2}));
    EXPECT_EQ(world.get<Velocity>(entity), (Velocity{3, 4}));
    EXPECT_TRUE(world.has<Frozen>(entity));
    world.set(entity, Position{5, 6});
    world.set(entity, Health{7});
    EXPECT_EQ(world.get<Position>(entity), (Position{5, 6}));
    EXPECT_EQ(world.get<Health>(entity).points, 7);
    world.remove<Velocity>(entity);
    world.remove<Velocity>(entity);
    EXPECT_FALSE(world.has<Velocity>(entity));
    EXPECT_EQ(world.try_get<Velocity>(entity), nullptr);
    EXPECT_EQ(world.components_of(entity).size(), 3u);
    EXPECT_EQ(world.size(), 1u);
    world.destroy(entity);
    EXPECT_FALSE(world.is_alive(entity));
    EXPECT_EQ(world.try_get<Position>(entity), nullptr);
    EXPECT_TRUE(world.components_of(entity).empty());
    EXPECT_EQ(world.size(), 0u);
}

TEST_F(WorldTest, EntitiesNeedNoComponents) {
    const Entity entity = world.spawn();
    EXPECT_TRUE(world.is_alive(entity));
    EXPECT_TRUE(world.components_of(entity).empty());
    world.set(entity, Position{});
    world.remove<Position>(entity);
    EXPECT_TRUE(world.is_alive(entity));
}

TEST_F(WorldTest, AddKeepsAnExistingValue) {
    const Entity entity = world.spawn(Health{5});
    world.add<Health>(entity);
    EXPECT_EQ(world.get<Health>(entity).points, 5);
    world.add<Position>(entity);
    EXPECT_EQ(world.get<Position>(entity), Position{});
    world.add<Frozen>(entity);
    EXPECT_TRUE(world.has<Frozen>(entity));
}

TEST_F(WorldTest, SetOfSeveralComponentsIsOneMove) {
    const Entity entity = world.spawn(Health{1});
    const std::uint32_t before = archetype_count(world);
    world.set(entity, Position{1, 1}, Health{2}, Velocity{3, 3}, Frozen{});
    EXPECT_EQ(archetype_count(world), before + 1);
    EXPECT_EQ(world.get<Health>(entity).points, 2);
    EXPECT_EQ(world.get<Velocity>(entity), (Velocity{3, 3}));
    EXPECT_TRUE(world.has<Frozen>(entity));
}

TEST_F(WorldTest, ValuesOfOtherRowsSurviveEveryMove) {
    std::vector<Entity> entities;
    for (int i = 0; i < 100; ++i) entities.push_back(world.spawn(Health{i}));
    for (std::size_t i = 0; i < 100; i += 3) world.set(entities[i], Position{});
    for (std::size_t i = 0; i < 100; i += 6) world.remove<Position>(entities[i]);
    for (std::size_t i = 0; i < 100; i += 5) world.destroy(entities[i]);
    for (std::size_t i = 0; i < 100; ++i) {
        ASSERT_EQ(world.is_alive(entities[i]), i % 5 != 0);
        if (i % 5 == 0) continue;
        ASSERT_EQ(world.get<Health>(entities[i]).points, static_cast<int>(i));
    }
}

TEST_F(WorldTest, PatchMarksUnlessItReturnsFalse) {
    const Entity entity = world.spawn(Health{5});
    int changes = 0;
    const Hook hook = world.on_change<Health>([&](World&, Entity, const Health&) { ++changes; });
    EXPECT_TRUE(world.patch<Health>(entity, [](Health& health) { health.points = 6; }));
    EXPECT_EQ(changes, 1);
    EXPECT_FALSE(world.patch<Health>(entity, [](Health&) { return false; }));
    EXPECT_EQ(changes, 1);
    EXPECT_TRUE(world.patch<Health>(entity, [](Health&) { return true; }));
    EXPECT_EQ(changes, 2);
    EXPECT_FALSE(world.patch<Position>(entity, [](Position&) { FAIL(); }));
}

TEST_F(WorldTest, MutRunsChangeHooksOnceAndOnlyIfUsed) {
    const Entity entity = world.spawn(Health{5});
    std::vector<int> told;
    const Hook hook =
        world.on_change<Health>([&](World&, Entity, const Health& health) { told.push_back(health.points); });
    { const auto health = world.mut<Health>(entity); }
    {
        auto health = world.mut<Health>(entity);
        EXPECT_EQ(health.read().points, 5);
    }
    EXPECT_TRUE(told.empty());
    {
        auto health = world.mut<Health>(entity);
        health->points = 6;
        health->points += 1;
        EXPECT_TRUE(told.empty());
    }
    EXPECT_EQ(told, (std::vector{7}));
    world.mut<Health>(entity) = Health{9};
    EXPECT_EQ(told, (std::vector{7, 9}));
}

TEST_F(WorldTest, NoRowMovesWhileAMutLives) {
    const Entity entity = world.spawn(Health{5});
    {
        auto health = world.mut<Health>(entity);
        world.destroy(entity);
        health->points = 6;
        EXPECT_TRUE(world.is_alive(entity));
    }
    EXPECT_FALSE(world.is_alive(entity));
}

TEST_F(WorldTest, NoRowMovesDuringAPatch) {
    const Entity entity = world.spawn(Health{5});
    world.patch<Health>(entity, [&](Health& health) {
        for (int i = 0; i < 100; ++i) world.spawn(Health{0});
        world.destroy(entity);
        health.points = 6;
    });
    EXPECT_FALSE(world.is_alive(entity));
    EXPECT_EQ(world.size(), 100u);
}

TEST_F(WorldTest, AlignedMoveOnlyAndSelfReferentialComponentsStayIntact) {
    std::vector<Entity> entities;
    for (int i = 0; i < 200; ++i) {
        entities.push_back(world.spawn(Counted(i), MoveOnly{std::make_unique<int>(i)}, Wide{}));
        world.set(entities.back(), SelfReferential(i));
    }
    for (std::size_t i = 0; i < 200; i += 2) world.remove<Counted>(entities[i]);
    for (std::size_t i = 0; i < 200; i += 7) world.destroy(entities[i]);
    for (std::size_t i = 0; i < 200; ++i) {
        if (i % 7 == 0) continue;
        ASSERT_EQ(*world.get<MoveOnly>(entities[i]).value, static_cast<int>(i));
        ASSERT_TRUE(world.get<Wide>(entities[i]).is_aligned());
        ASSERT_TRUE(world.get<SelfReferential>(entities[i]).is_intact());
        world.set(entities[i], MoveOnly{std::make_unique<int>(-1)}, SelfReferential(-1));
        ASSERT_TRUE(world.get<SelfReferential>(entities[i]).is_intact());
        ASSERT_EQ(*world.get<MoveOnly>(entities[i]).value, -1);
    }
    for (const Entity entity : entities) world.destroy(entity);
    EXPECT_EQ(Counted::alive, 0);
}

TEST(World, DestroysItsValues) {
    {
        World world;
        for (int i = 0; i < 50; ++i) world.spawn(Counted(i), Health{i});
        World::Deferral deferral(world);
        world.spawn(Counted(99));
    }
    EXPECT_EQ(Counted::alive, 0);
}

TEST(World, ValuesQueuedByHooksAtItsEndAreDestroyed) {
    {
        World world;
        world
            .on_remove<Health>([](World& dying, Entity entity, const Health&) {
                dying.spawn(Counted(1));
                dying.set(entity, Counted(2));
                dying.destroy(entity);
            })
            .release();
        world.spawn(Health{1});
    }
    EXPECT_EQ(Counted::alive, 0);
}

TEST_F(WorldTest, DestructorsOfComponentsMayUseTheWorld) {
    const Entity owned = world.spawn(Health{1});
    const Entity second = world.spawn(Health{2});
    const Entity owner = world.spawn(Health{0}, Owner(world, owned));
    world.set(owner, Owner(world, second));  // destroys the old value
    EXPECT_FALSE(world.is_alive(owned));
    EXPECT_TRUE(world.is_alive(second));
    world.destroy(owner);
    EXPECT_FALSE(world.is_alive(second));
    world.spawn(Owner(world, world.spawn()));  // its destructor runs at the end of the world
}

// A component's destructor sees that its entity is dead, and cannot write to it.
struct Nosy {
    Nosy() = default;
    Nosy(World& in, Entity of) : world(&in), self(of) {}
    Nosy(Nosy&& other) noexcept : world(std::exchange(other.world, nullptr)), self(other.self) {}
    Nosy& operator=(Nosy&&) = delete;
    ~Nosy() {
        if (world != nullptr) was_alive = world->is_alive(self) && world->try_get<Health>(self) != nullptr;
    }
    World* world = nullptr;
    Entity self;
    static inline bool was_alive = true;
};

TEST_F(WorldTest, DestructorsOfComponentsSeeTheirEntityAsDead) {
    const Entity entity = world.spawn(Health{1});
    world.set(entity, Nosy(world, entity));
    world.destroy(entity);
    EXPECT_FALSE(Nosy::was_alive);
}

TEST_F(WorldTest, DeferralOutlivesTheHookThatBeganIt) {
    std::optional<World::Deferral> hold;
    const Hook hook = world.on_add<Frozen>([&](World& in, Entity) { hold.emplace(in); });
    const Entity first = world.spawn(Health{1}), second = world.spawn(Health{2});
    {
        const World::Deferral deferral(world);
        world.add<Frozen>(first);
        world.remove<Health>(second);
    }
    EXPECT_TRUE(world.is_deferring());
    EXPECT_TRUE(world.has<Health>(second));
    hold.reset();
    EXPECT_FALSE(world.is_deferring());
    EXPECT_FALSE(world.has<Health>(second));
    world.add<Health>(second);
    EXPECT_TRUE(world.has<Health>(second));
}

// Components by id

TEST_F(WorldTest, ComponentsCanBeRegisteredWithoutACppType) {
    static int alive = 0;
    const ComponentType type{"scripted", 16, 16,
                             [](void* to, void* from) {
                                 std::memcpy(to, from, 16);
                                 ++alive;
                             },
                             [](void*) { --alive; }};
    const ComponentId scripted = world.register_component(type);
    const ComponentId flag = world.register_component({"flag"});
    EXPECT_EQ(world.components()[scripted].name, "scripted");
    alignas(16) std::uint64_t value[2] = {1, 2};
    void* const values[] = {value, nullptr};
    const ComponentId ids[] = {scripted, flag};
    const Entity entity = world.spawn(ids, values);
    EXPECT_TRUE(world.has(entity, flag));
    EXPECT_EQ(world.try_get(entity, flag), nullptr);
    EXPECT_EQ(static_cast<const std::uint64_t*>(world.try_get(entity, scripted))[1], 2u);
    world.remove(entity, flag);
    value[1] = 3;
    world.set(entity, scripted, value);
    EXPECT_EQ(static_cast<const std::uint64_t*>(world.try_get(entity, scripted))[1], 3u);
    EXPECT_EQ(alive, 1);
    world.destroy(entity);
    EXPECT_EQ(alive, 0);
}

TEST_F(WorldTest, ValuesMayBeReferencesIntoTheWorld) {
    struct Text {
        std::string text;
    };
    const std::string long_text(100, 'x');
    const Entity first = world.spawn(Text{long_text});
    for (int i = 0; i < 100; ++i) world.spawn(world.get<Text>(first));  // the column is reallocated meanwhile
    world.set(first, world.get<Text>(first));
    EXPECT_EQ(world.get<Text>(first).text, long_text);
    const Entity second = world.spawn();
    world.set(second, world.get<Text>(first));
    EXPECT_EQ(world.get<Text>(second).text, long_text);
    EXPECT_EQ(world.get<Text>(first).text, long_text);
    for (const Entity copy : world.spawn_n(1'000, world.get<Text>(first)))
        ASSERT_EQ(world.get<Text>(copy).text, long_text);
}

TEST_F(WorldTest, UnknownIdsRemoveNothing) {
    const Entity entity = world.spawn(Health{3});
    world.remove(entity, ComponentId{world.component<Health>().value, 5});
    EXPECT_EQ(world.get<Health>(entity).points, 3);
    EXPECT_TRUE(world.is_consistent());
}

TEST_F(WorldTest, OperationsByIdMoveFromTheirValues) {
    const ComponentId ids[] = {world.component<MoveOnly>(), world.component<Frozen>(),
                               world.component<Health>()};
    MoveOnly mine{std::make_unique<int>(5)};
    Health health{6};
    void* const values[] = {&mine, nullptr, &health};
    const Entity entity = world.spawn(ids, values);
    EXPECT_EQ(mine.value, nullptr);
    EXPECT_EQ(*world.get<MoveOnly>(entity).value, 5);
    EXPECT_TRUE(world.has<Frozen>(entity));
    mine.value = std::make_unique<int>(7);
    world.set(entity, ids[0], &mine);
    EXPECT_EQ(*world.get<MoveOnly>(entity).value, 7);
    const Entity other = world.spawn();
    mine.value = std::make_unique<int>(8);
    world.set(other, ids, values);
    EXPECT_EQ(*world.get<MoveOnly>(other).value, 8);
}

TEST_F(WorldTest, PatchByIdMarksUnlessItReturnsFalse) {
    const ComponentId id = world.component<Health>();
    const Entity entity = world.spawn(Health{5}, Frozen{});
    int changes = 0;
    const Hook hook = world.on_change<Health>([&](World&, Entity, const Health&) { ++changes; });
    EXPECT_TRUE(world.patch(entity, id, [](void* value) { static_cast<Health*>(value)->points = 6; }));
    EXPECT_FALSE(world.patch(entity, id, [](void*) { return false; }));
    EXPECT_FALSE(world.patch(entity, world.component<Frozen>(), [](void*) { FAIL(); }));
    EXPECT_FALSE(world.patch(entity, ComponentId{99}, [](void*) { FAIL(); }));
    EXPECT_EQ(changes, 1);
    EXPECT_EQ(world.get<Health>(entity).points, 6);
}

TEST_F(WorldTest, RepeatedIdsAreHarmless) {
    const ComponentId id = world.component<Counted>();
    const ComponentId ids[] = {id, id};
    {
        Counted first(1), second(2);
        void* const values[] = {&first, &second};
        const Entity entity = world.spawn(ids, values);
        EXPECT_EQ(world.get<Counted>(entity).value, 1);
        Counted third(3), fourth(4);
        void* const others[] = {&third, &fourth};
        world.set(entity, ids, others);
        EXPECT_EQ(world.get<Counted>(entity).value, 3);
        world.destroy(entity);
    }
    EXPECT_EQ(Counted::alive, 0);
}

TEST_F(WorldTest, ListsEntitiesByIndexAndComponentsById) {
    const Entity first = world.spawn(Velocity{}, Position{});
    const Entity second = world.spawn();
    world.destroy(first);
    const Entity third = world.spawn(Position{}, Health{}, Velocity{});
    std::vector<Entity> seen;
    world.each_entity([&](Entity entity) { seen.push_back(entity); });
    EXPECT_EQ(seen, (std::vector{third, second}));
    const auto ids = world.components_of(third);
    EXPECT_EQ(ids.size(), 3u);
    EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
}

TEST_F(WorldTest, ConstReadsDoNotRegister) {
    const Entity entity = world.spawn();
    EXPECT_FALSE(world.has<Position>(entity));
    EXPECT_EQ(world.try_get<Position>(entity), nullptr);
    EXPECT_EQ(world.components().size(), 0u);
}

// Misuse

TEST_F(WorldTest, OperationsOnDeadEntitiesDoNothingAndAreCounted) {
    const Entity dead = world.spawn(Health{1});
    world.destroy(dead);
    world.destroy(dead);
    EXPECT_EQ(world.dropped_commands(), 1u);
    EXPECT_DEBUG_DEATH(world.set(dead, Health{2}), "set<.*Health>\\(0v1\\): the entity is dead");
    EXPECT_DEBUG_DEATH(world.set(dead, Health{2}, Position{}), "set<.*>\\(0v1\\): the entity is dead");
    EXPECT_DEBUG_DEATH(world.add<Position>(dead), "add<.*Position>\\(0v1\\): the entity is dead");
    EXPECT_DEBUG_DEATH(world.remove<Health>(dead), "remove<.*Health>\\(0v1\\): the entity is dead");
    EXPECT_DEATH(world.mut<Health>(dead)->points = 1, "mut<.*Health>\\(0v1\\): the entity is dead");
    EXPECT_DEBUG_DEATH(world.patch<Health>(dead, [](Health&) {}),
                       "patch<.*Health>\\(0v1\\): the entity is dead");
#ifdef NDEBUG
    EXPECT_EQ(world.dropped_commands(), 6u);
#endif
    EXPECT_FALSE(world.has<Health>(dead));
    EXPECT_EQ(world.size(), 0u);
}

TEST_F(WorldTest, GetOfAMissingValueStopsTheProgram) {
    const Entity entity = world.spawn(Health{1});
    EXPECT_DEATH((void)world.get<Position>(entity), "get<.*Position>.*the entity has no such value");
    EXPECT_DEATH((void)world.mut<Position>(entity), "mut<.*Position>.*the entity has no such value");
}

TEST_F(WorldTest, UnknownIdsAndMissingValuesAreRefused) {
    const ComponentId unknown{77};
    Health health{1};
    const Entity entity = world.spawn(Health{2});
    EXPECT_DEBUG_DEATH(world.set(entity, unknown, &health), "no entity can have this id");
    EXPECT_DEBUG_DEATH(world.set(entity, world.component<Health>(), nullptr), "Health>.*no value");
    world.remove(entity, unknown);
    EXPECT_FALSE(world.has(entity, unknown));
    EXPECT_EQ(world.try_get(entity, unknown), nullptr);
    EXPECT_EQ(world.get<Health>(entity).points, 2);
}

// Deferral

TEST_F(WorldTest, DeferredSpawnGivesAHandleAtOnce) {
    Entity entity, empty;
    {
        const World::Deferral deferral(world);
        entity = world.spawn(Health{5}, Frozen{});
        empty = world.spawn();
        EXPECT_TRUE(world.is_alive(entity));
        EXPECT_EQ(world.size(), 2u);
        EXPECT_FALSE(world.has<Health>(entity));
        EXPECT_TRUE(world.components_of(entity).empty());
        world.set(entity, Position{1, 2});
        world.set(empty, Health{6});
        EXPECT_TRUE(world.patch<Health>(entity, [](Health& health) { health.points += 10; }));
    }
    EXPECT_EQ(world.get<Health>(entity).points, 15);
    EXPECT_EQ(world.get<Position>(entity), (Position{1, 2}));
    EXPECT_EQ(world.get<Health>(empty).points, 6);
}

TEST_F(WorldTest, DeferralsCanBeNested) {
    const Entity entity = world.spawn();
    {
        const World::Deferral outer(world);
        {
            const World::Deferral inner(world);
            world.set(entity, Health{1});
        }
        EXPECT_FALSE(world.has<Health>(entity));
    }
    EXPECT_TRUE(world.has<Health>(entity));
}

TEST_F(WorldTest, Rule23OperationsQueueBehindThoseQueuedForTheirEntity) {
    const Entity entity = world.spawn(Health{1});
    const Entity other = world.spawn(Health{1});
    {
        const World::Deferral deferral(world);
        world.remove<Health>(entity);
        world.set(entity, Health{2});  // queued, or the removal would delete it
        world.set(other, Health{2});
        EXPECT_EQ(world.get<Health>(entity).points, 1);
        EXPECT_EQ(world.get<Health>(other).points, 2);  // nothing is queued for it: written at once
    }
    ASSERT_TRUE(world.has<Health>(entity));
    EXPECT_EQ(world.get<Health>(entity).points, 2);
}

TEST_F(WorldTest, Rule23WritesInPlaceReachTheQueuedValue) {
    const Entity entity = world.spawn(Health{1}, Velocity{1, 1});
    int changes = 0;
    const Hook hook = world.on_change<Health>([&](World&, Entity, const Health&) { ++changes; });
    {
        const World::Deferral deferral(world);
        world.remove<Health>(entity);
        EXPECT_FALSE(world.patch<Health>(entity, [](Health&) { FAIL(); }));  // removed by then
        world.set(entity, Health{10});
        EXPECT_TRUE(world.patch<Health>(entity, [](Health& health) { health.points += 1; }));
        world.mut<Health>(entity)->points += 1;
        world.add<Health>(entity);  // exists by then: no effect
        EXPECT_TRUE(world.patch<Health>(entity, [](Health& health) { health.points += 1; }));
        EXPECT_TRUE(world.patch<Velocity>(entity, [](Velocity& velocity) { velocity.x = 2; }));  // not queued
        EXPECT_EQ(world.get<Velocity>(entity), (Velocity{2, 1}));
    }
    EXPECT_EQ(world.get<Health>(entity).points, 13);
    EXPECT_EQ(changes, 0);  // it was removed and added
    {
        const World::Deferral deferral(world);
        world.add<Position>(entity);
        EXPECT_TRUE(world.patch<Position>(entity, [](Position& position) { position.x = 4; }));
        world.add<Position>(entity);
        EXPECT_TRUE(world.patch<Position>(entity, [](Position& position) { position.y = 5; }));
        world.destroy(world.spawn(Position{}));
    }
    EXPECT_EQ(world.get<Position>(entity), (Position{4, 5}));
}

TEST_F(WorldTest, QueuedCommandsForDestroyedEntitiesAreCounted) {
    const Entity entity = world.spawn(Health{1});
    {
        const World::Deferral deferral(world);
        world.destroy(entity);
        world.destroy(entity);
        world.set(entity, Counted(5));
        world.remove<Health>(entity);
        EXPECT_FALSE(world.patch<Health>(entity, [](Health&) { FAIL(); }));
    }
    EXPECT_EQ(world.dropped_commands(), 4u);
    EXPECT_EQ(Counted::alive, 0);
}

TEST_F(WorldTest, AHundredThousandRowsCanBeAddedAndRemoved) {
    std::vector<Entity> entities;
    for (int i = 0; i < 100'000; ++i) entities.push_back(world.spawn(Health{i}));
    for (int i = 0; i < 100'000; ++i)
        ASSERT_EQ(world.get<Health>(entities[static_cast<std::size_t>(i)]).points, i);
    for (const Entity entity : entities) world.destroy(entity);
    EXPECT_EQ(world.size(), 0u);
    EXPECT_EQ(world.spawn(Health{}).index, entities.back().index);
}

TEST_F(WorldTest, ManyArchetypesAndIdsWork) {
    std::vector<ComponentId> ids;
    for (int i = 0; i < 400; ++i) ids.push_back(world.register_component({"tag" + std::to_string(i)}));
    const Entity entity = world.spawn(Health{3});
    for (const ComponentId id : ids) world.set(entity, id, nullptr);
    EXPECT_EQ(world.components_of(entity).size(), 401u);
    for (const ComponentId id : ids) EXPECT_TRUE(world.has(entity, id));
    for (std::size_t i = 0; i < ids.size(); i += 2) world.remove(entity, ids[i]);
    for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(world.has(entity, ids[i]), i % 2 == 1);
    EXPECT_EQ(world.get<Health>(entity).points, 3);
}

/// Calls a function when a value that lives in a world is destroyed or moved.
struct Touchy {
    explicit Touchy(std::function<void()>* when_touched) : touched(when_touched) {}
    Touchy(Touchy&& other) noexcept : touched(std::exchange(other.touched, nullptr)) { touch(); }
    Touchy& operator=(Touchy&&) = delete;
    ~Touchy() { touch(); }
    void touch() const {
        if (touched != nullptr && *touched) std::exchange(*touched, nullptr)();
    }
    std::function<void()>* touched;
};

TEST(World, OperationsThatADestructorCallsOnItsEntityFollowTheRemoval) {
    std::function<void()> touched;
    World world;
    const Entity entity = world.spawn(Touchy(&touched));
    touched = [&] { world.set(entity, Touchy(&touched)); };
    world.remove<Touchy>(entity);
    EXPECT_TRUE(world.has<Touchy>(entity));
    EXPECT_TRUE(world.is_consistent());
}

TEST(World, OperationsThatAMoveCallsOnItsEntityFollowTheAddition) {
    std::function<void()> touched;
    World world;
    const Entity entity = world.spawn(Touchy(&touched));
    touched = [&] { world.remove<Health>(entity); };
    world.set(entity, Health{3});
    EXPECT_FALSE(world.has<Health>(entity));
    EXPECT_TRUE(world.has<Touchy>(entity));
    EXPECT_TRUE(world.is_consistent());
}

// has() and get() show a value until it is removed, so mut() writes it until then.
TEST(World, MutWritesAValueThatIsGoingToBeRemoved) {
    for (int place = 0; place < 5; ++place) {
        SCOPED_TRACE(testing::Message() << "place " << place);
        World world;
        int changes = 0, seen = 0;
        const auto write = [&](Entity entity) {
            ASSERT_TRUE(world.has<Health>(entity));
            world.mut<Health>(entity)->points = 41;
            if (auto health = world.try_mut<Health>(entity)) health->points += 1;
            seen = world.get<Health>(entity).points;
            EXPECT_FALSE(world.try_mut<Velocity>(entity));
        };
        Hook change = world.on_change<Health>([&](World&, Entity, const Health&) { ++changes; });
        Hook hook;
        if (place == 2) hook = world.on_destroy([&](World&, Entity each) { write(each); });
        if (place > 2)
            hook = world.on_remove<Position>([&](World&, Entity each, const Position&) { write(each); });
        const Entity entity = world.spawn(Position{}, Health{1});
        if (place < 2) {
            const World::Deferral deferral(world);
            if (place == 0) world.remove<Health>(entity);
            if (place == 1) world.destroy(entity);
            write(entity);
        }
        if (place == 3) world.remove<Position, Health>(entity);
        if (place != 0) world.destroy(entity);
        EXPECT_EQ(seen, 42);
        EXPECT_EQ(changes, 0);
        EXPECT_FALSE(world.try_mut<Health>(entity));
        EXPECT_FALSE(world.has<Health>(entity));
    }
}

TEST(World, GenericCodeNeedsNoExceptionForTagsAndForNoComponents) {
    World world;
    const auto has_equal = [&]<class T>(Entity entity, const T&) {
        const T* const found = world.try_get<T>(entity);
        return found != nullptr && found == &world.get<T>(entity);
    };
    const std::vector<Entity> bare = world.spawn_n(5u);
    EXPECT_EQ(bare.size(), 5u);
    {
        const World::Deferral deferral(world);
        EXPECT_EQ(world.spawn_n(2u).size(), 2u);
    }
    EXPECT_EQ(world.size(), 7u);
    world.set(bare[0], Frozen{}, Health{3});
    EXPECT_TRUE(has_equal(bare[0], Frozen{}) && has_equal(bare[0], Health{}));
    EXPECT_EQ(world.try_get<Frozen>(bare[1]), nullptr);
    EXPECT_TRUE(world.is_consistent());
}
