#include "game.h"

int main() {
    World world;
    ServerRunner runner(world, game_schema(), {.port = 40000, .key_file = "server.key", .tick_hz = 60});
    Server& server = runner.server();
    Query<const Position, With<Bullet>> bullets(world);
    Query<Mut<Health>, Mut<Position>, With<Ship>> ships(world);

    server.on_join([&](PlayerId) {
        return world.spawn(Position{}, Velocity{}, Health{}, Ammo{}, Score{}, Name{}, Ship{}, Steer{},
                           Replicated{});
    });
    server.check<Name>([](PlayerId, Entity, const Name& name) {
        return std::string(name.text.empty() ? "a name needs a letter" : "");
    });
    server.on_step([&](const Step& step) {  // in each tick
        move(step);
        bullets.each([&](Entity bullet, const Position& at) {
            const PlayerId shooter = server.owner(bullet);
            const Entity player = server.player(shooter);
            if (!player) return world.destroy(bullet);  // the shooter left
            bool is_over = std::abs(at.x) >= 40 || std::abs(at.y) >= 20;
            const Past seen = server.seen_by(shooter);  // other ships as they are on the shooter's screen
            ships.each([&](Entity ship, Mut<Health> health, Mut<Position> place) {
                const auto there = seen.get<Position>(ship);
                if (is_over || !there || server.owner(ship) == shooter) return;
                if (std::hypot(there->x - at.x, there->y - at.y) > 1) return;
                is_over = true;
                world.patch<Score>(player, [](Score& score) { score.hits += 1; });
                if (health.read().points > 1) {
                    health->points -= 1;
                } else {  // sunk: starts anew
                    health = Health{};
                    place = Position{};
                    server.teleport(ship);  // clients show a jump, not a journey
                }
            });
            if (!is_over) return;
            world.patch<Ammo>(player, [](Ammo& ammo) { ammo.left = std::min(6, ammo.left + 1); });
            world.destroy(bullet);
        });
    });
    return runner.run();
}
