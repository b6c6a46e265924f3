#include "demo/view.h"

#include <gtest/gtest.h>

#include <set>

namespace shoal::demo {
namespace {

/// Returns `bytes` without the escape sequences.
std::string glyphs(const std::string& bytes) {
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] != '\x1b')
            out += bytes[i];
        else
            i = bytes.find_first_of("HJmhl", i);
    }
    return out;
}

struct Scene {
    ecs::World world;
    View view{world};
    Screen screen;

    std::string draw_bytes(int columns, int rows, ecs::Entity own) {
        screen.resize(columns, rows);
        ecs::Query<const Position>(world).each(
            [this](ecs::Entity entity, const Position& at) { view.move(entity, at); });
        view.draw(screen, own, "the status");
        return screen.update();
    }
    std::string draw(int columns, int rows, ecs::Entity own = {}) {
        return glyphs(draw_bytes(columns, rows, own));
    }
};

TEST(View, ShowsNamesClockAndStatus) {
    Scene scene;
    scene.world.set_singleton(Clock{62.3});
    scene.world.spawn(Position{10, 10}, Health{}, Name{"Gnash"}, Pike{});
    const ecs::Entity own = scene.world.spawn(Position{80, 40}, Health{70}, Name{"Nemo"}, Player{});
    scene.world.set(own, Score{12});
    scene.world.set(own, Ammo{3, 2});
    scene.world.spawn(Position{40, 70}, Bubble{});
    scene.world.spawn(Position{20, 70}, Health{}, Name{"Hunter"}, Target{own}, Pike{});
    const std::string shown = scene.draw(80, 24, own);
    for (const char* text :
         {"01:02.3", "><> Gnash", ">@> Nemo 12",
          "Nemo  health 70 %  score 12  bubbles ooo  baits **  hunted by Hunter", "the status"})
        EXPECT_NE(shown.find(text), std::string::npos) << text;
}

TEST(View, ShowsWhetherAReefHasFood) {
    Scene scene;
    const ecs::Entity reef = scene.world.spawn(Position{80, 40}, Reef{80});
    EXPECT_NE(scene.draw(80, 24).find("|Y|Y|Y"), std::string::npos);
    scene.world.set(reef, Reef{20});
    scene.screen = {};  // a new terminal
    EXPECT_EQ(scene.draw(80, 24).find("|Y|Y|Y"), std::string::npos);
}

TEST(View, ShowsPlayersInTheirColours) {
    Scene scene;
    scene.world.spawn(Position{80, 40}, Health{}, Name{"Dory"}, Player{}, Colour{120});
    EXPECT_NE(scene.draw_bytes(80, 24, {}).find("38;5;120"), std::string::npos);
}

TEST(View, ShowsWhichLeaderAPilotFollows) {
    Scene scene;
    const ecs::Entity own = scene.world.spawn(Position{80, 40}, Health{}, Name{"Nemo"}, Player{});
    const ecs::Entity pike = scene.world.spawn(Position{10, 10}, Health{}, Name{"Gnash"}, Pike{});
    std::set<std::string> styles;
    for (const ecs::Entity leader : {own, pike, ecs::Entity{}}) {
        const ecs::Entity pilot = scene.world.spawn(Position{90, 50}, Health{}, Name{"P"}, Pilot{});
        if (leader) scene.world.add(pilot, ecs::to<Follows>(leader));
        scene.screen = {};  // a new terminal
        const std::string bytes = scene.draw_bytes(80, 24, own);
        EXPECT_EQ(glyphs(bytes).find("escorted by 1") != std::string::npos, leader == own);
        const std::size_t glyph = bytes.find('='), style = bytes.rfind('\x1b', glyph);
        ASSERT_NE(glyph, std::string::npos);
        styles.insert(bytes.substr(style, glyph - style));
        scene.world.destroy(pilot);
    }
    EXPECT_EQ(styles.size(), 3u);
}

TEST(View, DrawsAnySizeAndAnyValue) {
    Scene scene;
    scene.world.set_singleton(Clock{1'000'000});
    for (const float at : {-1.0f, 0.0f, kArenaHeight, kArenaWidth})
        scene.world.spawn(Position{at, at}, Health{-5}, Name{"\x1b]0;title\x07"}, Target{}, Player{});
    for (int columns = 0; columns < 12; ++columns)
        for (int rows = 0; rows < 6; ++rows) {
            const std::string shown = scene.draw(columns, rows);
            EXPECT_EQ(shown.find('\x07'), std::string::npos);
        }
}

TEST(View, CreaturesFaceTheWayThatTheyMovedLast) {
    Scene scene;
    const ecs::Entity pike = scene.world.spawn(Position{50, 40}, Health{}, Name{"P"}, Pike{});
    EXPECT_NE(scene.draw(160, 24).find("><>"), std::string::npos);
    scene.world.set(pike, Position{45, 40});
    EXPECT_NE(scene.draw(160, 24).find("<><"), std::string::npos);
    EXPECT_EQ(scene.draw(160, 24), "") << "it has stopped, and faces left";
}

}  // namespace
}  // namespace shoal::demo
