#include "moves.h"

#include <algorithm>
#include <array>

#include "text.h"

namespace shoal::demo {
namespace {

constexpr float kPlayerSpeed = 14, kBubbleSpeed = 40, kBaitSpeed = 30;
constexpr float kBaitLasts_s = 10;

Velocity towards(Direction direction, float speed) {
    constexpr std::array<Velocity, 5> kWays = {{{0, 0}, {0, -1}, {0, 1}, {-1, 0}, {1, 0}}};
    const Velocity way = kWays[static_cast<std::size_t>(direction)];
    return {way.x * speed, way.y * speed};
}

}  // namespace

Position moved(const Position& at, const Velocity& velocity, float dt_s) {
    return {std::clamp(at.x + velocity.x * dt_s, 0.0f, kArenaWidth),
            std::clamp(at.y + velocity.y * dt_s, 0.0f, kArenaHeight)};
}

void step_moves(const replication::Step& step) {
    step.each<ecs::Mut<Position>, const Steer>([&](ecs::Mut<Position> at, const Steer& steer) {
        if (steer.direction == Direction::none) return;  // the position is not written, so nothing is sent
        const Position next = moved(at.read(), towards(steer.direction, kPlayerSpeed), step.dt);
        at = next;
    });
    step.each<Position, const Bubble>([&](Position& at, const Bubble& bubble) {
        at = moved(at, towards(bubble.direction, kBubbleSpeed), step.dt);
    });
    step.each<ecs::Mut<Position>, ecs::Mut<Bait>>([&](ecs::Mut<Position> at, ecs::Mut<Bait> bait) {
        if (bait.read().left <= 0) return;
        const float way = std::min(bait.read().left, kBaitSpeed * step.dt);
        at = moved(at.read(), towards(bait.read().direction, way), 1);
        bait->left -= way;
    });
}

std::string Shoot::validate(const replication::Act& act) const {
    const Ammo* ammo = act.world.try_get<Ammo>(act.player);
    if (ammo == nullptr) return "you have no creature";
    return ammo->bubbles > 0 ? "" : "no bubbles left";
}

/// A client does not validate: it shows the bubble until the server rejects the shot.
void Shoot::mutate(replication::Act& act) const {
    const Position* at = act.world.try_get<Position>(act.player);
    if (at == nullptr) return act.fail("you have no creature");
    const Position mouth = moved(*at, towards(direction, 1), 1);
    act.world.patch<Ammo>(act.player, [](Ammo& ammo) { ammo.bubbles = std::max(0, ammo.bubbles - 1); });
    act.spawn(mouth, Bubble{direction}, Flight{act.player});
}

std::string Throw::validate(const replication::Act& act) const {
    const Ammo* ammo = act.world.try_get<Ammo>(act.player);
    if (ammo == nullptr) return "you have no creature";
    return ammo->baits > 0 ? "" : "no bait left";
}

void Throw::mutate(replication::Act& act) const {
    const Position* at = act.world.try_get<Position>(act.player);
    if (at == nullptr) return act.fail("you have no creature");
    const Position hand = *at;
    act.world.patch<Ammo>(act.player, [](Ammo& ammo) { ammo.baits = std::max(0, ammo.baits - 1); });
    const float distance = kLongestThrow * static_cast<float>(power) / kMaxPower;
    act.spawn(hand, Bait{direction, distance}, Flight{act.player, kBaitLasts_s});
}

std::string Say::validate(const replication::Act&) const {
    return !text.empty() && is_printable(text) ? "" : "you can say printable letters";
}

}  // namespace shoal::demo
