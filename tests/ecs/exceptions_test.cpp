// The game's code throws wherever the library calls it. Compiled with exceptions, unlike the other tests.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ecs/change_collector.h"
#include "ecs/query.h"
#include "ecs/world.h"
#include "ecs/write_audit.h"

using namespace shoal::ecs;

namespace {

struct Thrown {
    int number;
};

int fuse = -1;   // the game's code throws when this reaches 0; negative: never
int thrown = 0;  // how often it did
void burn() {
    if (fuse > 0 && --fuse == 0) throw Thrown{++thrown};
}

struct Health {
    int points = 0;
};
/// Its default constructor and its copies may throw.
struct Cargo {
    Cargo() { burn(); }
    explicit Cargo(int all) : tons(all) {}
    Cargo(const Cargo& other) : tons(other.tons), name(other.name) { burn(); }
    Cargo(Cargo&&) noexcept = default;
    Cargo& operator=(Cargo&&) noexcept = default;
    int tons = 0;
    std::string name = "long enough to be on the heap, so that leaks are found";
};
struct Docked {};
struct ChildOf {
    static constexpr auto relation = exclusive | destroy_with_target;
};
struct Follows {
    static constexpr auto relation = many;
    int distance = 0;
};

template <class Fn>
int thrown_by(Fn&& fn) {
    try {
        fn();
    } catch (const Thrown& what) {
        return what.number;
    }
    return 0;
}

/// Burns the fuse in a hook of each kind, and keeps what the hooks that never throw were told.
struct Game {
    World world;
    std::vector<Hook> hooks;
    std::map<Entity, int> healths, cargos, docked, children;

    template <class T>
    void watch(std::map<Entity, int>& told, int (*number)(const T&), bool burns_first) {
        const auto burning = [this] {
            const auto fail = [](World&, Entity, const T&) { burn(); };
            hooks.push_back(world.on_add<T>(fail));
            hooks.push_back(world.on_change<T>(fail));
            hooks.push_back(world.on_remove<T>(fail));
        };
        if (burns_first) burning();
        const auto keep = [&told, number](World&, Entity entity, const T& value) {
            told[entity] = number(value);
        };
        hooks.push_back(world.on_add<T>(keep));
        hooks.push_back(world.on_change<T>(keep));
        hooks.push_back(world.on_remove<T>([&told](World&, Entity entity, const T&) { told.erase(entity); }));
        if (!burns_first) burning();
    }

    explicit Game(bool burns_first) {
        watch<Health>(
            healths, [](const Health& health) { return health.points; }, burns_first);
        watch<Cargo>(
            cargos, [](const Cargo& cargo) { return cargo.tons; }, !burns_first);
        hooks.push_back(world.on_add<Docked>([this](World& w, Entity entity) {
            docked[entity] = 1;
            burn();
            if (w.has<Health>(entity)) w.mut<Health>(entity)->points += 1;  // its change hooks wait
        }));
        hooks.push_back(world.on_remove<Docked>([this](World& w, Entity entity) {
            docked.erase(entity);
            w.set(w.spawn(Health{7}), Cargo(3));
            burn();
        }));
        hooks.push_back(
            world.on_add<ChildOf>([this](World&, Entity entity, Entity) { children[entity] = 1; }));
        hooks.push_back(world.on_remove<ChildOf>([this](World&, Entity entity, Entity) {
            children.erase(entity);
            burn();
        }));
        hooks.push_back(world.on_destroy([](World&, Entity) { burn(); }));
    }

    /// Compares the world with what the hooks were told.
    void check() {
        ASSERT_TRUE(world.is_consistent());
        ASSERT_FALSE(world.is_deferring());
        std::map<Entity, int> now[4];
        world.each_entity([&](Entity entity) {
            if (const Health* health = world.try_get<Health>(entity)) now[0][entity] = health->points;
            if (const Cargo* cargo = world.try_get<Cargo>(entity)) now[1][entity] = cargo->tons;
            if (world.has<Docked>(entity)) now[2][entity] = 1;
            if (world.target<ChildOf>(entity)) now[3][entity] = 1;
        });
        ASSERT_EQ(now[0], healths);
        ASSERT_EQ(now[1], cargos);
        ASSERT_EQ(now[2], docked);
        ASSERT_EQ(now[3], children);
    }
};

/// Calls every function of the world that calls the game's code.
class Script {
public:
    Script(Game& game, unsigned seed) : world(game.world), random(seed) {}

    void step(int depth = 0) {
        const int what = pick(20);
        const Entity e = any(), other = any();
        if (what < 12 && !e) return;
        if (what == 0) world.set(e, Health{pick(9)}, Cargo(pick(9)));
        if (what == 1) world.set(e, Cargo(pick(9)));
        if (what == 2) world.add<Cargo>(e), world.add<Docked>(e);
        if (what == 3) world.remove<Cargo>(e);
        if (what == 4) world.remove<Docked, Health>(e);
        if (what == 5) world.destroy(e);
        if (what == 6 && other != e) world.add(e, to<ChildOf>(other));
        if (what == 7) world.set(e, to<Follows>(other), Follows{pick(9)});
        if (what == 8) world.patch<Health>(e, [](Health& health) { ++health.points, burn(); });
        if (what == 9 && world.has<Cargo>(e)) {
            auto cargo = world.mut<Cargo>(e);
            ++cargo->tons, burn();
        }
        if (what == 10)
            world.patch(e, world.component<Health>(), [](void* health) {
                static_cast<Health*>(health)->points += 2, burn();
                return true;
            });
        if (what == 11)
            for (const Entity source : world.sources(to<ChildOf>(e)))
                world.patch<Health>(source, [](Health& h) { h.points = 1, burn(); });
        if (what == 12) world.spawn(Health{1}, Cargo(2), Docked{});
        if (what == 13) world.spawn_n(3, Cargo(4));
        if (what == 14)
            world.spawn_n<Health, Cargo>(
                3, [](unsigned i, Health& health, Cargo&) { health.points = int(i), burn(); });
        if (what == 15) all.each([&](Entity, Health& health, const Cargo*) { ++health.points, burn(); });
        if (what == 16) some.each([&](Mut<Cargo> cargo, const Health&) { cargo->tons += 1, burn(); });
        if (what == 17 && depth < 3)
            world.each_entity([&](Entity) { pick(4) == 0 ? step(depth + 1) : burn(); });
        if (what == 18 && depth < 3) {
            const World::DelayHooks delay(world);
            for (int i = 0; i < 4; ++i) step(depth + 1);
        }
        if (what == 19 && depth < 3) {
            const World::Deferral deferral(world);
            for (int i = 0; i < 4; ++i) step(depth + 1);
        }
        if (world.size() > 60) all.destroy_all();
    }

    int pick(int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); }

private:
    Entity any() {
        std::vector<Entity> entities;
        world.each_entity([&](Entity entity) { entities.push_back(entity); });
        return entities.empty() ? Entity{} : entities[static_cast<std::size_t>(pick(int(entities.size())))];
    }

    World& world;
    std::mt19937 random;
    Query<Health, Optional<const Cargo>> all{world};
    Query<Mut<Cargo>, const Health> some{world};
};

}  // namespace

// Goal: whatever throws, the world is usable, and hooks that do not throw are told everything.
// Method: random operations, nested in deferrals, delays and hooks; the fuse makes any piece of the game's
// code
//   throw. After each step the world is compared with what its hooks were told.
TEST(Exceptions, LeaveAWorldOfWhichHooksWereToldEverything) {
    thrown = 0;
    for (unsigned seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        fuse = -1;
        Game game(seed % 2 == 0);
        WriteAudit audit(game.world);
        audit.watch<Health>();
        audit.compare();
        Script script(game, seed);
        for (int step = 0; step < 300; ++step) {
            fuse = script.pick(12);
            const int before = thrown;
            const bool was_armed = fuse > 0;
            thrown_by([&] { script.step(); });
            if (was_armed && fuse == 0) {
                ASSERT_GT(thrown, before);
            }
            fuse = -1;
            game.check();
            if (testing::Test::HasFatalFailure()) FAIL() << "step " << step;
            ASSERT_TRUE(audit.compare().empty()) << "step " << step;
        }
        fuse = script.pick(9);  // the world's end does not throw
    }
    EXPECT_GT(thrown, 2'000);
    fuse = -1;
}

TEST(Exceptions, WritesBeforeAThrowAreChanges) {
    World world;
    world.spawn_n(3'000, Health{});
    ChangeCollector collector(world);
    collector.watch<Health>();
    Query<Health> written(world);
    Query<Mut<Health>> marked(world);
    fuse = 100;
    EXPECT_GT(thrown_by([&] { written.each([](Health& health) { health.points = 1, burn(); }); }), 0);
    EXPECT_GE(collector.changes().size(), 100u);  // a whole block counts as written
    EXPECT_LE(collector.changes().size(), 1'024u);
    collector.clear();
    fuse = 100;
    EXPECT_GT(thrown_by([&] { marked.each([](Mut<Health> health) { health->points = 2, burn(); }); }), 0);
    EXPECT_EQ(collector.changes().size(), 100u);

    const Entity leader = world.spawn();
    for (int i = 0; i < 200; ++i) world.set(world.spawn(Health{}), to<Follows>(leader), Follows{});
    Query<Mut<Health>, Pair<Follows>> followers(world);
    collector.clear();
    fuse = 100;
    EXPECT_GT(thrown_by([&] {
                  followers.each_to<Follows>(leader, [](Mut<Health> health, const Targets<Follows>&) {
                      health->points = 3, burn();
                  });
              }),
              0);
    EXPECT_EQ(collector.changes().size(), 100u);
}

TEST(Exceptions, TheFirstOfSeveralHooksThatThrowIsThrownWhenAllWereCalled) {
    World world;
    std::vector<int> calls;
    std::vector<Hook> hooks;
    for (int i = 1; i <= 3; ++i) {
        hooks.push_back(world.on_add<Health>(
            [&, i](World&, Entity, const Health&) { calls.push_back(i), throw Thrown{i}; }));
        hooks.push_back(world.on_remove<Health>(
            [&, i](World&, Entity, const Health&) { calls.push_back(i), throw Thrown{10 + i}; }));
        hooks.push_back(world.on_destroy([&, i](World&, Entity) { throw Thrown{20 + i}; }));
    }
    Entity entity;
    EXPECT_EQ(thrown_by([&] { world.spawn(Health{}); }), 1);
    EXPECT_EQ(calls, (std::vector<int>{1, 2, 3}));
    world.each_entity([&](Entity each) { entity = each; });
    EXPECT_EQ(thrown_by([&] { world.remove<Health>(entity); }), 13);
    EXPECT_FALSE(world.has<Health>(entity));
    EXPECT_EQ(thrown_by([&] {
                  const World::Deferral deferral(world);
                  EXPECT_EQ(thrown_by([&] { world.set(entity, Health{}); }), 0);  // later
                  world.destroy(entity);
              }),
              1);
    EXPECT_FALSE(world.is_alive(entity));
    EXPECT_EQ(thrown_by([&] {
                  const World::KeepThrown keep(world), inner(world);
                  EXPECT_EQ(thrown_by([&] { world.destroy(world.spawn(Health{})); }), 0);
              }),
              1);
    EXPECT_EQ(thrown_by([&] {
                  const World::Deferral deferral(world);
                  world.spawn(Health{});
                  throw Thrown{99};  // goes on, instead of what the hooks throw
              }),
              99);
    EXPECT_EQ(world.size(), 1u);
    EXPECT_TRUE(world.is_consistent() && !world.is_deferring());
}
