#pragma once
#include <algorithm>
#include <cmath>
#include <string>

#include "replication/runner.h"
using namespace shoal::ecs;
using namespace shoal::replication;

struct Position { float x = 0, y = 0; };
struct Velocity { float x = 0, y = 0; };  // units a second
struct Health { int points = 3; };
struct Ammo { int left = 6; };
struct Score { int hits = 0; };
struct Name { std::string text = "guest"; };
struct Ship {};
struct Bullet {};
struct Steer { std::int8_t x = 0, y = 0; Press dash; };  // what a player holds and presses in one tick

struct Say { std::string text; };  // an action that only tells
struct Shoot {                     // an action that changes the world
    Velocity aim;  // of length 1
    std::string validate(const Act& act) const {  // on the server: why not; empty if it is allowed
        const Ammo* ammo = act.world.try_get<Ammo>(act.player);
        if (ammo == nullptr || ammo->left == 0) return "out of ammunition";
        return std::abs(std::hypot(aim.x, aim.y) - 1) < 0.01f ? "" : "no bullet flies like that";
    }
    Entity mutate(Act& act) const {  // on the client at once, later on the server
        act.world.patch<Ammo>(act.player, [](Ammo& ammo) { ammo.left = std::max(0, ammo.left - 1); });
        const Position from = act.world.get<Position>(act.player);
        return act.spawn(from, Velocity{aim.x * 30, aim.y * 30}, Bullet{});
    }
};

inline Schema game_schema() {
    Schema schema;
    schema.component<Position>("position", quantised(-40, 40, 0.01), predicted(), linear());
    schema.component<Velocity>("velocity", quantised(-50, 50, 0.1), predicted());
    schema.component<Health>("health", bounded(0, 3));
    schema.component<Ammo>("ammo", bounded(0, 6), to_owner());
    schema.component<Score>("score", bounded(0, 9999));
    schema.component<Name>("name", max_length(16), from_owner());
    schema.tag<Ship>("ship");
    schema.tag<Bullet>("bullet");
    schema.input<Steer>("steer", bounded(-1, 1));  // declares Mine, too
    schema.action<Shoot>("shoot", at_most(10));  // a second and player
    schema.action<Say>("say", max_length(80), at_most(2), independent());
    schema.grid<Position>({.radius = 30});  // players see what is near
    schema.quantise_authority();
    return schema;
}

inline void move(const Step& step) {  // on both sides; on a client also to correct it
    step.each<Velocity, const Steer>([](Velocity& velocity, const Steer& steer) {
        const float speed = steer.dash ? 45.0f : 8.0f;
        velocity = {static_cast<float>(steer.x) * speed, static_cast<float>(steer.y) * speed};
    });
    step.each<Position, const Velocity>([&](Position& at, const Velocity& velocity) {
        at = {std::clamp(at.x + velocity.x * step.dt, -40.0f, 40.0f),
              std::clamp(at.y + velocity.y * step.dt, -20.0f, 20.0f)};
    });
}
