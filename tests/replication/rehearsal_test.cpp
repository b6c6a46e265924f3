// Rehearses the game of demo/tutorial, which tests/tutorial_parts.sh takes from there, as it is and with
// faults.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "replication/rehearsal/rehearsal.h"

namespace shoal::rehearsed {
namespace {

using namespace ecs;
using namespace replication;

std::string_view planted;
bool is_planted(std::string_view fault) {
    return planted == fault;
}

using Kept = std::vector<std::shared_ptr<void>>;
/// Makes an object that lives as long as `kept`.
template <class T, class... Arguments>
T& keep(Kept& kept, Arguments&... arguments) {
    const auto object = std::make_shared<T>(arguments...);
    kept.push_back(object);
    return *object;
}

/// The tutorial's screen, with keys at random.
struct Keys {
    std::int8_t x = 0, y = 0;
    bool dash = false, fire = false;
    float aim_x = 1, aim_y = 0;
    std::string line;
};
struct Screen {
    explicit Screen(Dice& of_player) : dice(of_player) {}
    Keys keys() {
        if (dice.chance(0.05)) held.x = static_cast<std::int8_t>(dice.below(3)) - 1;
        if (dice.chance(0.05)) held.y = static_cast<std::int8_t>(dice.below(3)) - 1;
        if (dice.chance(0.1)) held.aim_x = dice.chance(0.5) ? 1.0f : -1.0f;
        held.dash = dice.chance(0.02);
        held.fire = dice.chance(0.07);
        held.line = dice.chance(0.01)    ? "ahoy"
                    : dice.chance(0.01)  ? "/name Ann"
                    : dice.chance(0.002) ? "/name "
                                         : "";
        return held;
    }
    void put(float, float, const std::string&) {}
    void text(const std::string& line) { calls += line.ends_with(": ahoy"); }
    void status(const std::string&) {}
    bool show() { return true; }
    Dice& dice;
    Keys held;
    std::uint64_t calls = 0;
};

#include "tutorial_parts/game.inc"

struct Engine {};  // not in the schema

void move(const Step& step) {
    honest_move(step);
    if (is_planted("random numbers without a seed")) {
        static std::minstd_rand random(std::random_device{}());
        step.each<Position>([](Position& at) { at.x += static_cast<float>(random() % 100) * 0.01f; });
    } else if (is_planted("the order of entities")) {
        float wake = 0;
        step.each<Position>([&](Position& at) { at.y += wake, wake = 0.1f; });
    } else if (is_planted("a float from the clock")) {
        const auto time = std::chrono::steady_clock::now().time_since_epoch();
        const float seconds =
            std::chrono::duration<float, std::ratio<1, 1000>>(time % std::chrono::seconds(1)).count();
        step.each<Position>([&](Position& at) { at.x += seconds * 0.01f; });
    } else if (is_planted("an unreplicated input")) {
        step.each<Velocity, const Steer, With<Engine>>(
            [](Velocity& velocity, const Steer&) { velocity.x += 1; });
    }
}

std::function<void()> serve(World& world, Server& server, Rehearsal::Host& host) {
    Kept kept;
#include "tutorial_parts/server.inc"
    // A player has six shots, in the gun or in the air.
    host.always<Ammo>(world, [&](Entity ship, const Ammo& ammo) {
        int all = ammo.left;
        bullets.each(
            [&](Entity bullet, const Position&) { all += server.owner(bullet) == server.owner(ship); });
        return all == 6 ? "" : "a player has " + std::to_string(all) + " shots";
    });
    if (is_planted("an action that is not idempotent about ammunition"))
        server.on<Shoot>([&](const Shoot&, const Call& call) {
            world.patch<Ammo>(call.player, [](Ammo& ammo) { ammo.left = std::max(0, ammo.left - 1); });
        });
    if (is_planted("a check that never passes"))
        server.check<Name>([](PlayerId, Entity, const Name&) { return std::string("no"); });
    return [kept, &world, &ships] {
        if (is_planted("a write that no hook sees"))
            ships.each([](Entity, Mut<Health> health, Mut<Position>) {
                const_cast<Health&>(health.read()).points = 1;
            });
        if (is_planted("random numbers outside of the step"))
            ships.each([&](Entity ship, Mut<Health>, Mut<Position>) {
                world.set(ship, Score{static_cast<int>(std::random_device{}() % 9999)});
            });
        if (!is_planted("an unreplicated input")) return;
        std::vector<Entity> all;
        ships.each([&](Entity ship, Mut<Health>, Mut<Position>) { all.push_back(ship); });
        for (const Entity ship : all) world.set(ship, Engine{});
    };
}

std::function<void()> join(World& world, Client& client, Rehearsal::Player& player) {
    Kept kept;
    Screen& screen = keep<Screen>(kept, player.dice);
    player.handles<Say>(client, [&screen] { return screen.calls; });
    const std::function<void()> frame = [&]() -> std::function<void()> {
#include "tutorial_parts/client.inc"
    }();
    return [frame, &world, &client] {
        frame();
        if (is_planted("a write outside of the step") && client.player())
            world.patch<Position>(client.player(), [](Position& at) { at.x += 0.5f; });
    };
}

Rehearsal rehearsal(RehearsalOptions options = {}) {
    options.server.sender.tick_hz = 60;
    options.command =
        "build/release/tests/shoal_tests --gtest_filter=Rehearsal.FindsNothing* --gtest_random_seed=";
    Rehearsal all(game_schema(), serve, join, std::move(options));
    all.deterministic<Position, Velocity>();
    all.exactly_once<Shoot, Say>();
    return all;
}

TEST(Rehearsal, FindsNothingInTheTutorialsGame) {
    planted = "";
    // For example: REHEARSE=1000 for more seeds, --gtest_random_seed=17 for one.
    const char* const count = std::getenv("REHEARSE");
    const int seed = testing::GTEST_FLAG(random_seed);
    Rehearsal all = rehearsal();
    const auto fault = seed != 0 ? all.run(static_cast<std::uint64_t>(seed))
                                 : all.run(1, count ? std::strtoull(count, nullptr, 10) : 4);
    EXPECT_FALSE(fault) << fault->text();
}

TEST(Rehearsal, NamesTheComponentOfEachPlantedFault) {
    const std::pair<std::string_view, std::string_view> faults[] = {
        {"random numbers without a seed", "position"},
        {"the order of entities", "position"},
        {"a float from the clock", "position"},
        {"an unreplicated input", "velocity"},
        {"a write outside of the step", "position"},
        {"a missed teleport", "position"},
        {"an action that is not idempotent about ammunition", "ammo"},
        {"a leak of entities", "bullet"},
        {"a handler that throws away an event", "say"},
        {"a check that never passes", "name"},
        {"random numbers outside of the step", "score"},
        {"a write that no hook sees", "health"},
    };
    for (const auto& [name, component] : faults) {
        planted = name;
        const auto fault = rehearsal().run(1, 40);
        ASSERT_TRUE(fault) << name;
        EXPECT_NE(fault->component.find(component), std::string::npos) << name << ": " << fault->text();
        EXPECT_GT(fault->tick, 0u) << name;
        const bool is_repeatable = name.find("random") == name.npos && name.find("clock") == name.npos;
        if (is_repeatable) {
            EXPECT_EQ(rehearsal().run(fault->seed)->text(), fault->text());
        }
    }
    planted = "";
}

namespace page {

struct Place {
    float x = 0, y = 0;
};
struct Health {
    int points = 3;
};
struct Stick {
    std::int8_t x = 0, y = 0;
    Press jump;
};
struct Say {
    std::string text;
};
Schema game_schema() {
    Schema schema;
    schema.component<Place>("place", quantised(-50, 50, 0.01), predicted());
    schema.component<Health>("health", bounded(0, 3));
    schema.input<Stick>("stick", bounded(-1, 1));
    schema.action<Say>("say", independent());
    schema.quantise_authority();
    return schema;
}
void walk(const Step& step) {
    step.each<Place, const Stick>(
        [&](Place& place, const Stick& stick) { place.x += static_cast<float>(stick.x) * 8 * step.dt; });
}
struct GameServer {
    GameServer(World& world, Server& server) {
        server.on_step(walk);
        server.on_join([&](PlayerId) { return world.spawn(Place{}, Health{}, Stick{}, Replicated{}); });
    }
    void before_tick() { ticks += 1; }
    int ticks = 0;
};
struct GameClient {
    GameClient(World&, Client& client) {
        client.on_step(walk);
        client.on<Say>([this](const Say&, const Call&) { lines_of_chat += 1; });
    }
    void draw() { frames += 1; }
    std::uint64_t lines_of_chat = 0;
    int frames = 0;
};

#include "readme/replication/rehearsal/rehearsal_1.inc"

TEST(Rehearsal, PlaysTheGameOfItsPage) {
    std::string name = "rehearse", seed = "3";
    char* arguments[] = {name.data(), seed.data()};
    EXPECT_EQ(rehearse(2, arguments), 0);
}

}  // namespace page
}  // namespace
}  // namespace shoal::rehearsed
