#pragma once
// Draws the arena as characters.

#include <string>
#include <string_view>
#include <vector>

#include "arena.h"
#include "ecs/query.h"
#include "screen.h"

namespace shoal::demo {

/// Draws a world with the arena's components. Adds a component to each entity with a Position: where it is
/// drawn, and which way it faces.
class View {
public:
    /// The world must outlive the view.
    explicit View(ecs::World& world) : world_(world), hunts_(world), reefs_(world) {}

    /// Sets where an entity is drawn. Call it in each frame for each entity with a Position.
    void move(ecs::Entity entity, const Position& at);

    /// Draws the whole screen. The first line is about the creature `own`, and has the clock; then comes the
    /// arena; the last line is `status`.
    void draw(Screen& screen, ecs::Entity own, std::string_view status);

private:
    struct Drawn {
        float x = 0, y = 0;
        bool faces_left = false;
    };
    struct Look {
        std::string_view left, right;
        std::uint8_t ink = 7;
        bool is_named = false;
    };

    template <class Species>
    void draw_all(Screen& screen, const Look& look, ecs::Entity own);
    void draw_reefs(Screen& screen);
    void draw_shots(Screen& screen);
    std::string describe(ecs::Entity own);

    ecs::World& world_;
    ecs::Query<const Target, const Name> hunts_;
    ecs::Query<const Position, const Reef> reefs_;
    std::vector<ecs::Entity> hunted_;  // in this frame
};

}  // namespace shoal::demo
