// The snippets of ecs/README.md, which tests/snippets.sh takes from the page, give the results that the page
// states.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecs/change_collector.h"
#include "ecs/old_values.h"
#include "ecs/query.h"
#include "ecs/world.h"
#include "ecs/write_audit.h"

using namespace shoal::ecs;

namespace {

#include "readme/ecs/pairs_1.inc"
#include "readme/ecs/the_model_1.inc"

struct Clock {
    std::uint32_t now = 0;
};

struct Name {
    std::string text;
};

struct Grid {
    std::map<Entity, Position> cells;
    void insert(Entity e, const Position& p) { cells[e] = p; }
    void move(Entity e, const Position& p) { cells[e] = p; }
    void erase(Entity e, const Position&) { cells.erase(e); }
};

// Lambdas of the page call these without a capture.
int drawn = 0, shown = 0;
void draw(Entity, int) {
    ++drawn;
}
void show(const void*) {
    ++shown;
}

}  // namespace

TEST(Readme, SnippetsGiveTheStatedResults) {
    int used = 0, deaths = 0, obituaries = 0, sent = 0, sent_destroyed_count = 0;
    std::set<std::string> listed;
    const auto use = [&](int points) { used = points; };
    const auto obituary = [&](const Health*) { ++obituaries; };
    const auto send = [&](Entity, const void*) { ++sent; };
    const auto send_destroyed = [&](Entity) { ++sent_destroyed_count; };
    const auto list = [&](std::string_view name) { listed.emplace(name); };
    drawn = shown = 0;
    Grid grid;

#include "readme/ecs/the_model_2.inc"
    EXPECT_FALSE(world.is_alive(bare));
    EXPECT_EQ(world.size(), 1u);

#include "readme/ecs/reading_and_writing_1.inc"
    EXPECT_EQ(here.x, 1);
    EXPECT_EQ(here.y, 3);
    EXPECT_EQ(used, 80);
    EXPECT_FALSE(frozen);

#include "readme/ecs/queries_1.inc"
    EXPECT_EQ(world.get<Position>(ship).x, 2);
    EXPECT_EQ(world.get<Health>(ship).points, 50);

#include "readme/ecs/queries_2.inc"
    redraw_bars();
    redraw_bars();
    EXPECT_EQ(drawn, 1);
    world.set(ship, Health{60});
    redraw_bars();
    EXPECT_EQ(drawn, 2);

#include "readme/ecs/hooks_1.inc"
    Entity rock = world.spawn(Position{10, 0}, Velocity{}, Health{3});
    Entity leaf = world.spawn(Position{-1, 0}, Velocity{});
    EXPECT_EQ(grid.cells.size(), 2u);
    moving.each([](Position& p, const Velocity&) { p.y = 7; });
    EXPECT_EQ(grid.cells.size(), 3u);
    EXPECT_EQ(grid.cells[rock].y, 7);

#include "readme/ecs/what_waits_1.inc"
    EXPECT_FALSE(world.is_alive(leaf));
    EXPECT_EQ(deaths, 1);
    EXPECT_EQ(obituaries, 1);
    EXPECT_EQ(world.get<Health>(rock).points, 10);
    EXPECT_EQ(world.size(), 3u);
    const int before = world.get<Health>(ship).points;
#include "readme/ecs/what_waits_2.inc"
    EXPECT_EQ(world.get<Health>(ship).points, before + 1);

    const auto simulate_one_tick = [&] {
        world.set(ship, Position{1, 1});
        world.set(ship, Health{1});
        world.remove<Health>(ship);
        world.destroy(rock);
    };
#include "readme/ecs/collecting_what_changed_1.inc"
    EXPECT_EQ(sent, 2);
    EXPECT_EQ(sent_destroyed_count, 1);

#include "readme/ecs/without_types_1.inc"
    world.set(ship, mana, &amount);
    EXPECT_EQ(shown, 1);
    EXPECT_TRUE(listed.count("mana"));
    EXPECT_EQ(listed.size(), 3u);
}

TEST(Readme, LinesForOtherLibrariesUsersGiveTheStatedResults) {
    World world;
    const Entity ship = world.spawn(Position{}, Name{"ship"}), turret = world.spawn();
    world.spawn(Position{9, 0});
    Entity found;
#include "readme/ecs/coming_from_flecs_entt_or_bevy_1.inc"
    EXPECT_EQ(left, 4);
    EXPECT_EQ(order.size(), 2u);
    EXPECT_EQ(order[0], ship);
    EXPECT_EQ(parent, ship);
    EXPECT_EQ(found, twin) << "its Health is heard";
    EXPECT_TRUE(world.has<Frozen>(turret));
    EXPECT_EQ(world.get<Name>(twin).text, "ship");
    EXPECT_EQ(saved.get<Health>(twin).points, 4);
    EXPECT_EQ(saved.singleton<Clock>().now, 5u);
    EXPECT_TRUE(what.changes().empty()) << "it watches nothing yet";
    world.set(ship, Health{3});
    EXPECT_EQ(left, 4) << "the old value";
    EXPECT_TRUE(on && to_new);
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

#include "readme/ecs/pairs_2.inc"
    EXPECT_EQ(leader, tanker);
    EXPECT_TRUE(likes);
    EXPECT_EQ(parts, std::vector<Entity>{turret});
    EXPECT_EQ(all_liked, std::vector<Entity>{tanker});

#include "readme/ecs/pairs_3.inc"
    EXPECT_EQ(world.get<Position>(escort).x, 39);

    {
#include "readme/ecs/pairs_4.inc"
        EXPECT_EQ(world.target<Follows>(escort), ship);
    }

    const Entity orphaned_one = world.spawn(Position{});
#include "readme/ecs/pairs_5.inc"
    EXPECT_EQ(world.target<Follows>(orphaned_one), ship);
    world.destroy(orphaned_one);
    world.remove<Health>(ship);

    world.add<Frozen>(world.spawn());
#include "readme/ecs/many_at_once_1.inc"
    EXPECT_EQ(fleet.size(), 100u);
#include "readme/ecs/many_at_once_2.inc"
    EXPECT_TRUE(world.components_of(fleet[0]).empty());
    EXPECT_FALSE(world.is_alive(grid[5]));
    EXPECT_EQ(world.size(), 105u);

#include "readme/ecs/singletons_1.inc"
    EXPECT_EQ(now, 2u);

    world.set(ship, Health{});
#include "readme/ecs/collecting_what_changed_2.inc"
    EXPECT_EQ(reports.size(), 1u);

    world.destroy(ship);
    EXPECT_FALSE(world.is_alive(turret));
}
