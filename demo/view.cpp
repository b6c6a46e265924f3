#include "view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace shoal::demo {
namespace {

constexpr Style kSea{.ink = 152, .paper = 17};
constexpr Style kBar{.ink = 231, .paper = 24};
constexpr Style kReef{.ink = 72, .paper = 17};
constexpr Style kBubble{.ink = 231, .paper = 17, .bold = true};
constexpr Style kBait{.ink = 215, .paper = 17, .bold = true};
constexpr std::uint8_t kBloodPaper = 88, kHurtInk = 245, kOwnInk = 226, kOwnPaper = 22;

int cell_of(float at, float size, int cells) {
    return static_cast<int>(at / size * static_cast<float>(cells - 1) + 0.5f);
}

std::string text_of(const Clock& clock) {
    const long long tenths = std::llround(clock.elapsed_s * 10);
    std::array<char, 40> text;
    std::snprintf(text.data(), text.size(), "%02lld:%02lld.%lld", tenths / 600, tenths / 10 % 60,
                  tenths % 10);
    return text.data();
}

void draw_bar(Screen& screen, int row, std::string_view text) {
    for (int column = 0; column < screen.columns(); ++column) screen.put(column, row, ' ', kBar);
    screen.text(1, row, text, kBar);
}

}  // namespace

void View::move(ecs::Entity entity, const Position& at) {
    Drawn drawn{at.x, at.y};
    if (const Drawn* before = world_.try_get<Drawn>(entity)) {
        const float dx = at.x - before->x;
        drawn.faces_left = std::abs(dx) < 0.01f ? before->faces_left : dx < 0;
    }
    world_.set(entity, drawn);
}

void View::draw(Screen& screen, ecs::Entity own, std::string_view status) {
    hunted_.clear();
    hunts_.each([&](const Target& target, const Name&) { hunted_.push_back(target.prey); });

    screen.clear(kSea);
    draw_reefs(screen);
    draw_all<Crab>(screen, {"m", "m", 173}, own);
    draw_all<Minnow>(screen, {"<", ">", 117}, own);
    draw_all<Pilot>(screen, {"=", "=", 229}, own);
    draw_all<Pike>(screen, {"<><", "><>", 209, true}, own);
    draw_all<Player>(screen, {"<@<", ">@>", 213, true}, own);
    draw_shots(screen);

    draw_bar(screen, 0, describe(own));
    if (const Clock* clock = world_.try_get<Clock>(world_.singleton_entity<Clock>())) {
        const std::string text = text_of(*clock);
        screen.text(screen.columns() - static_cast<int>(text.size()) - 1, 0, text, kBar);
    }
    draw_bar(screen, screen.rows() - 1, status);
}

void View::draw_reefs(Screen& screen) {
    reefs_.each([&](const Position& at, const Reef& reef) {
        const std::string_view body = reef.food < 50 ? "|,|," : "|Y|Y|Y";
        const int column = cell_of(at.x, kArenaWidth, screen.columns()) - static_cast<int>(body.size()) / 2;
        const int row = 1 + cell_of(at.y, kArenaHeight, screen.rows() - 2);
        screen.text(column, row, body, kReef);
    });
}

void View::draw_shots(Screen& screen) {
    const auto draw = [&](const Drawn& at, char glyph, const Style& style) {
        screen.put(cell_of(at.x, kArenaWidth, screen.columns()),
                   1 + cell_of(at.y, kArenaHeight, screen.rows() - 2), glyph, style);
    };
    ecs::Query<const Drawn, ecs::With<Bubble>>(world_).each([&](const Drawn& at) { draw(at, 'o', kBubble); });
    ecs::Query<const Drawn, ecs::With<Bait>>(world_).each([&](const Drawn& at) { draw(at, '*', kBait); });
}

template <class Species>
void View::draw_all(Screen& screen, const Look& look, ecs::Entity own) {
    ecs::Query<const Drawn, const Health, const Name, ecs::With<Species>> query(world_);
    query.each([&](ecs::Entity entity, const Drawn& at, const Health& health, const Name& name) {
        const std::string_view body = at.faces_left ? look.left : look.right;
        const int column = cell_of(at.x, kArenaWidth, screen.columns()) - static_cast<int>(body.size()) / 2;
        const int row = 1 + cell_of(at.y, kArenaHeight, screen.rows() - 2);
        Style style{look.ink, kSea.paper, look.is_named};
        if (const Colour* colour = world_.try_get<Colour>(entity)) style.ink = colour->ink;
        if (health.percent < 40) style.ink = kHurtInk;
        if (world_.has<Pilot>(entity)) {
            const ecs::Entity leader = world_.target<Follows>(entity);
            style.ink = !leader ? kHurtInk : leader == own ? kOwnInk : style.ink;
        }
        if (entity == own) style.ink = kOwnInk, style.paper = kOwnPaper;
        if (std::ranges::find(hunted_, entity) != hunted_.end()) style.paper = kBloodPaper;
        const Score* score = world_.try_get<Score>(entity);
        if (look.is_named)
            screen.text(column + static_cast<int>(body.size()) + 1, row,
                        score ? name.text + " " + std::to_string(score->points) : name.text,
                        {style.ink, kSea.paper, entity == own});
        screen.text(column, row, body, style);
    });
}

std::string View::describe(ecs::Entity own) {
    const Name* name = world_.try_get<Name>(own);
    const Health* health = world_.try_get<Health>(own);
    if (name == nullptr || health == nullptr) return "shoal";
    std::string out = name->text + "  health " + std::to_string(health->percent) + " %";
    if (const Score* score = world_.try_get<Score>(own)) out += "  score " + std::to_string(score->points);
    const auto row_of = [](int count, char glyph) {
        return std::string(static_cast<std::size_t>(std::clamp(count, 0, 9)), glyph);
    };
    if (const Ammo* ammo = world_.try_get<Ammo>(own))
        out += "  bubbles " + row_of(ammo->bubbles, 'o') + "  baits " + row_of(ammo->baits, '*');
    const std::uint32_t escorts = world_.sources(ecs::to<Follows>(own)).size();
    if (escorts > 0) out += "  escorted by " + std::to_string(escorts);
    hunts_.each([&](const Target& target, const Name& hunter) {
        if (target.prey == own) out += "  hunted by " + hunter.text;
    });
    return out;
}

}  // namespace shoal::demo
