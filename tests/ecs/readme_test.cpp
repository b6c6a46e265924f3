// The snippets of ecs/README.md, in order. Change both together.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecs/change_collector.h"
#include "ecs/query.h"
#include "ecs/world.h"
#include "ecs/write_audit.h"

using namespace shoal::ecs;

namespace {

// clang-format off
struct Position { float x = 0, y = 0; };
struct Velocity { float x = 0, y = 0; };
struct Health { int points = 100; };
struct Frozen {};
struct ChildOf { static constexpr auto relation = exclusive | destroy_with_target; };
struct Follows { static constexpr auto relation = exclusive; float distance = 10; };
struct Likes { static constexpr auto relation = many; };
struct Clock { std::uint32_t now = 0; };
// clang-format on

struct Grid {
    std::map<Entity, Position> cells;
    void insert(Entity e, const Position& p) { cells[e] = p; }
    void move(Entity e, const Position& p) { cells[e] = p; }
    void erase(Entity e, const Position&) { cells.erase(e); }
};

}  // namespace

TEST(Readme, SnippetsGiveTheStatedResults) {
    int used = 0, drawn = 0, deaths = 0, obituaries = 0, sent = 0, sent_destroyed_count = 0, shown = 0;
    std::set<std::string> listed;
    const auto use = [&](int points) { used = points; };
    const auto draw = [&](Entity, int) { ++drawn; };
    const auto obituary = [&](const Health*) { ++obituaries; };
    const auto send = [&](Entity, const void*) { ++sent; };
    const auto send_destroyed = [&](Entity) { ++sent_destroyed_count; };
    const auto show = [&](const void*) { ++shown; };
    const auto list = [&](std::string_view name) { listed.emplace(name); };
    Grid grid;

    // clang-format off
    // The model

    World world;
    Entity ship = world.spawn(Position{0, 0}, Velocity{1, 0});  // one row, written once
    Entity bare = world.spawn();

    world.set(ship, Health{80});                      // adds, or overwrites
    world.set(bare, Position{5, 5}, Velocity{0, 1});  // several: one move
    world.add<Frozen>(bare);                          // a default value, or a tag, if it has none yet
    world.remove<Velocity>(bare);
    world.destroy(bare);                              // from now on the handle is stale, for ever

    EXPECT_FALSE(world.is_alive(bare));
    EXPECT_EQ(world.size(), 1u);

    // Reading and writing

    const Position& here = world.get<Position>(ship);       // it must have one
    if (const Health* health = world.try_get<Health>(ship)) use(health->points);
    bool frozen = world.has<Frozen>(ship);

    world.patch<Position>(ship, [](Position& p) { p.x += 1; });
    world.patch<Health>(ship, [](Health& h) { return std::exchange(h.points, 50) != 50; });  // false: no change
    world.mut<Position>(ship)->y = 3;                       // a change when it is used, none if only read()

    EXPECT_EQ(here.x, 1);
    EXPECT_EQ(here.y, 3);
    EXPECT_EQ(used, 80);
    EXPECT_FALSE(frozen);

    // Queries

    Query<Position, const Velocity, Without<Frozen>> moving{world};
    moving.each([](Position& p, const Velocity& v) {
        p.x += v.x;
        p.y += v.y;
    });

    Query<Mut<Health>, Optional<const Position>, With<Velocity>> hurt{world};
    hurt.each([](Entity entity, Mut<Health> health, const Position* where) {
        EXPECT_TRUE(entity);
        if (where != nullptr && where->x > 100) health->points -= 1;  // only these rows count as changed
    });

    EXPECT_EQ(world.get<Position>(ship).x, 2);
    EXPECT_EQ(world.get<Health>(ship).points, 50);

    Query<const Health, Changed<Health>> bars{world};
    std::uint64_t seen = 0;
    auto redraw_bars = [&] {
        const std::uint64_t now = world.advance_tick();   // ends the tick that `now` names
        bars.each_since(seen, [&](Entity entity, const Health& health) { draw(entity, health.points); });
        seen = now;
    };

    redraw_bars();
    redraw_bars();
    EXPECT_EQ(drawn, 1);
    world.set(ship, Health{60});
    redraw_bars();
    EXPECT_EQ(drawn, 2);

    // Hooks

    Hook entered = world.on_add<Position>([&](World&, Entity e, const Position& p) { grid.insert(e, p); });
    Hook moved = world.on_change<Position>(
        [&](World&, std::span<const Entity> entities, std::span<const Position> positions) {  // a batch
            for (std::size_t i = 0; i < entities.size(); ++i) grid.move(entities[i], positions[i]);
        });
    Hook left = world.on_remove<Position>([&](World&, Entity e, const Position& p, Removal why) {
        grid.erase(e, p);
        if (why == Removal::entity) ++deaths;  // it was not just the component that went
    });
    Hook died = world.on_destroy([&](World& w, Entity e) { obituary(w.try_get<Health>(e)); });

    Entity rock = world.spawn(Position{10, 0}, Velocity{}, Health{3});
    Entity leaf = world.spawn(Position{-1, 0}, Velocity{});
    EXPECT_EQ(grid.cells.size(), 2u);
    moving.each([](Position& p, const Velocity&) { p.y = 7; });
    EXPECT_EQ(grid.cells.size(), 3u);
    EXPECT_EQ(grid.cells[rock].y, 7);

    // What waits

    moving.each([&](Entity e, Position& p, const Velocity&) {
        if (p.x < 0) world.destroy(e);
        if (p.x > 9) {
            Entity spark = world.spawn(Position{p.x, p.y});  // alive and usable now, its row comes later
            world.set(spark, Health{1});
            world.remove<Health>(e);
            world.set(e, Health{10});                        // after the removal: it ends up with 10
        }
    });

    EXPECT_FALSE(world.is_alive(leaf));
    EXPECT_EQ(deaths, 1);
    EXPECT_EQ(obituaries, 1);
    EXPECT_EQ(world.get<Health>(rock).points, 10);
    EXPECT_EQ(world.size(), 3u);

    // Collecting what changed

    ChangeCollector collector{world};
    const std::uint32_t position = collector.watch<Position>();
    const std::uint32_t health = collector.watch<Health>();
    world.set(ship, Position{1, 1});
    world.set(ship, Health{1});
    world.remove<Health>(ship);
    world.destroy(rock);
    for (const ChangeCollector::Change change : collector.changes()) {
        if (change.has(position)) send(change.entity, world.try_get<Position>(change.entity));  // null: removed
        if (change.has(health)) send(change.entity, world.try_get<Health>(change.entity));
    }
    for (const Entity dead : collector.destroyed()) send_destroyed(dead);
    collector.clear();

    EXPECT_EQ(sent, 2);
    EXPECT_EQ(sent_destroyed_count, 1);

    // Without types

    const ComponentId mana = world.register_component({"mana", sizeof(float), alignof(float)});
    float amount = 3;
    world.set(ship, mana, &amount);  // moved from, here copied
    Hook spent = world.on(HookKind::change, mana, [&](World&, Entity, const void* value) { show(value); });
    for (const ComponentId id : world.components_of(ship)) list(world.components()[id].name);

    world.set(ship, mana, &amount);
    EXPECT_EQ(shown, 1);
    EXPECT_TRUE(listed.count("mana"));
    EXPECT_EQ(listed.size(), 3u);
    // clang-format on
}

TEST(Readme, SnippetsOfPairsAndLaterSectionsGiveTheStatedResults) {
    World world;
    const Entity ship = world.spawn(Position{}, Health{}), turret = world.spawn(),
                 tanker = world.spawn(Position{50, 0});
    const Entity escort = world.spawn(Position{});
    std::vector<Entity> parts, all_liked;
    std::vector<std::string> reports;
    const auto use_part = [&](Entity e) { parts.push_back(e); };
    const auto use_liked = [&](Entity e) { all_liked.push_back(e); };
    const auto report = [&](std::string_view name, Entity) { reports.emplace_back(name); };

    // clang-format off
    // Pairs

    world.add(turret, to<ChildOf>(ship));             // the turret dies with the ship, before it
    world.set(escort, to<Follows>(ship), Follows{5});
    world.add(escort, to<Follows>(tanker));           // replaces the ship, in one move
    world.add(escort, to<Likes>(ship));
    world.add(escort, to<Likes>(tanker));

    Entity leader = world.target<Follows>(escort);  // null if it has none
    bool likes = world.has(escort, to<Likes>(ship));
    world.patch(escort, to<Follows>(leader), [](Follows& f) { f.distance += 1; });
    world.remove(escort, to<Likes>(ship));
    for (Entity part : world.sources(to<ChildOf>(ship))) use_part(part);
    for (Entity liked : world.targets<Likes>(escort)) use_liked(liked);

    EXPECT_EQ(leader, tanker);
    EXPECT_TRUE(likes);
    EXPECT_EQ(parts, std::vector<Entity>{turret});
    EXPECT_EQ(all_liked, std::vector<Entity>{tanker});

    Query<Position, Pair<Follows>> followers{world};
    followers.each([&](Position& p, const Targets<Follows>& follows) {
        if (const Position* to = world.try_get<Position>(follows.target())) p.x = to->x - follows.value().distance;
    });
    EXPECT_EQ(world.get<Position>(escort).x, 39);
    followers.each_to<Follows>(tanker, [](Position& p, const Targets<Follows>&) { p.y = 0; });

    Hook orphaned = world.on_remove<Follows>([&](World& w, Entity follower, Entity dead, const Follows&, Removal why) {
        if (why == Removal::component && w.is_dying(dead)) w.add(follower, to<Follows>(ship));
    });
    world.destroy(tanker);

    EXPECT_EQ(world.target<Follows>(escort), ship);
    orphaned.disconnect();

    const Entity orphaned_one = world.spawn(Position{});
    Query<With<Position>, Without<Follows>> orphans{world};
    orphans.each([&](Entity orphan) { if (orphan != ship) world.add(orphan, to<Follows>(ship)); });

    EXPECT_EQ(world.target<Follows>(orphaned_one), ship);
    world.destroy(orphaned_one);
    world.remove<Health>(ship);

    // Many at once

    std::vector<Entity> fleet = world.spawn_n(100, Position{}, Health{3});  // copies; hooks get batches
    std::vector<Entity> grid = world.spawn_n<Position>(9, [](std::uint32_t i, Position& p) {
        p = {float(i % 3), float(i / 3)};
    });
    EXPECT_EQ(world.get<Position>(grid[5]).x, 2);
    world.remove<Position, Health>(fleet[0]);  // one move
    for (Entity square : grid) world.destroy(square);
    world.add<Frozen>(fleet[1]);
    Query<With<Frozen>> frozen{world};
    frozen.destroy_all();                      // all that match; world.clear() is everyone

    EXPECT_EQ(world.size(), 102u);
    EXPECT_TRUE(world.components_of(fleet[0]).empty());

    // Singletons

    world.set_singleton(Clock{1});
    world.patch_singleton<Clock>([](Clock& clock) { ++clock.now; });
    std::uint32_t now = world.singleton<Clock>().now;

    EXPECT_EQ(now, 2u);

    // Collecting what changed: the audit

    world.set(ship, Health{});
    WriteAudit audit{world};
    audit.watch<Health>();
    audit.check();                                           // remembers
    world.unsafe_raw_unmarked<Health>(ship)->points = 1;     // a mistake
    for (const WriteAudit::Missed& missed : audit.check()) report(missed.name, missed.entity);

    EXPECT_EQ(reports.size(), 1u);
    // clang-format on
    world.destroy(ship);
    EXPECT_FALSE(world.is_alive(turret));
}
