#include "moves.h"

#include <algorithm>
#include <array>

namespace shoal::demo {
namespace {

constexpr float kPlayerSpeed = 14;

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
}

}  // namespace shoal::demo
