#pragma once
// A made-up match, as traffic to train on: players run, jump and shoot on a map with pickups and doors. The
// same seed gives the same match. Its fields are as games have them: whole numbers in floats, enums, flags,
// times, and parts that rarely change.

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "ecs/world.h"
#include "replication/schema/schema.h"

namespace train {

namespace ecs = shoal::ecs::impl;
using shoal::replication::bounded;
using shoal::replication::field;
using shoal::replication::Replicated;

enum class Kind : std::uint8_t { player, shot, pickup, door, effect };
enum class Course : std::uint8_t { still, linear, falling, played };
enum class Pose : std::uint8_t {};
enum class Cue : std::uint16_t {};
enum class Traits : std::uint32_t {};
enum class Ground : std::uint16_t {};

struct Body {
    Course course{};
    std::int32_t since = 0;  // ms
    float at[3] = {}, speed[3] = {};
};
struct Facing {
    Course course{};
    float angles[3] = {}, turn[3] = {};
};
struct Look {
    Pose legs{}, chest{};
    std::uint8_t weapon = 0, team = 0;
    Kind kind{};
    std::uint32_t colour = 0;
};
struct Sounds {
    Cue cue{};
    std::uint8_t detail = 0;
    std::int32_t when = 0;
    Cue hum{};
};
struct Condition {
    Traits traits{};
    Ground ground{};
    std::int16_t health = 100;
    std::uint16_t boost = 0;
    Ground other{}, owner{};
};
struct Extra {
    float aim = 0, lean = 0, offset[3] = {};
    std::int32_t until = 0;
    bool is_hidden = false;
};

class Match {
public:
    static constexpr double kHz = 30;

    explicit Match(ecs::World& world, unsigned seed) : world_(world), random_(seed) {
        for (std::uint16_t i = 0; i < 12; ++i) {
            Item item = make(Kind::player, Course::played);
            item.look.team = static_cast<std::uint8_t>(i % 2 + 1);
            item.condition.owner = Ground{i};
            players_.push_back(item);
        }
        for (int i = 0; i < 40; ++i)
            others_.push_back(make(i < 30 ? Kind::pickup : Kind::door, Course::still));
        for (Item& item : others_) spawn(item);
    }
    static void describe(shoal::replication::Schema& schema) {
        schema.component<Body>("body");
        schema.component<Facing>("facing");
        schema.component<Look>("look", field(&Look::colour, bounded(0, 0xffffff)));
        schema.component<Sounds>("sounds", field(&Sounds::detail, bounded(0, 255)));
        schema.component<Condition>("condition", field(&Condition::ground, bounded(0, 1023)));
        schema.component<Extra>("extra");
    }

    void step() {
        now_ += 33 + (random() % 3 == 0);
        for (Item& player : players_) play(player);
        for (std::size_t i = 0; i < others_.size();) {
            change(others_[i]);
            if (others_[i].left != 0) {
                ++i;
                continue;
            }
            world_.destroy(others_[i].entity);
            others_[i] = others_.back();
            others_.pop_back();
        }
    }

private:
    struct Item {
        ecs::Entity entity;
        Body body;
        Facing facing;
        Look look;
        Sounds sounds;
        Condition condition;
        Extra extra;
        float heading = 0, wish = 0, spin = 0, fall = 0, real[3] = {}, pitch = 0;
        int left = -1, gone = 0;  // steps until it ends, or is seen again
    };

    std::uint32_t random() { return static_cast<std::uint32_t>(random_()); }
    bool chance(double p) { return random() < p * 0x1p32; }
    float uniform(float low, float high) {
        return low + (high - low) * static_cast<float>(random() * 0x1p-32);
    }
    static float whole(float x) { return std::trunc(x); }

    Item make(Kind kind, Course course) {
        Item item;
        item.look.kind = kind;
        item.look.colour = static_cast<std::uint32_t>(random() % 8) * 0x020a0f;
        item.look.weapon = static_cast<std::uint8_t>(random() % 9);
        item.body.course = course;
        for (int i = 0; i < 3; ++i) item.body.at[i] = item.real[i] = whole(uniform(-2000, 2000));
        item.condition.ground = Ground{1023};
        return item;
    }
    void spawn(Item& item) {
        item.entity = world_.spawn(item.body, item.facing, item.look, item.sounds, item.condition, item.extra,
                                   Replicated{});
    }
    void write(const Item& item) {
        world_.set(item.entity, item.body, item.facing, item.look, item.sounds, item.condition, item.extra);
    }
    /// A cue has two bits that change with each, so that two of a kind in a row are two.
    void cue(Item& item, unsigned which, unsigned detail) {
        const unsigned turn = (static_cast<unsigned>(item.sounds.cue) + 0x100) & 0x300;
        item.sounds.cue = Cue{static_cast<std::uint16_t>(turn | which)};
        item.sounds.detail = static_cast<std::uint8_t>(detail);
    }
    static void toggle(Pose& pose, unsigned to) {
        pose = Pose{static_cast<std::uint8_t>(((static_cast<unsigned>(pose) & 128) ^ 128) | to)};
    }

    void play(Item& p) {
        if (p.gone > 0) {  // dead, or out of sight
            if (--p.gone == 0) spawn(p);
            return;
        }
        if (!world_.is_alive(p.entity)) return spawn(p);
        if (chance(0.006)) {
            p.gone = static_cast<int>(random() % 60 + 5);
            return world_.destroy(p.entity);
        }
        const bool in_air = p.fall != 0 || p.real[2] > 0;
        if (chance(0.06)) p.wish = uniform(-3.14f, 3.14f);
        if (chance(0.1)) p.spin = chance(0.4) ? 0 : uniform(-12, 12);
        p.heading += p.spin;
        p.pitch = std::clamp(p.pitch + (chance(0.3) ? uniform(-4, 4) : 0), -60.0f, 60.0f);
        const float fast = chance(0.97) ? 320.0f : 0.0f,
                    want[2] = {fast * std::cos(p.wish), fast * std::sin(p.wish)};
        for (int i = 0; i < 2; ++i)
            p.body.speed[i] += whole((want[i] - p.body.speed[i]) * (in_air ? 0.05f : 0.3f));
        if (!in_air && chance(0.05)) {
            p.fall = 270;
            toggle(p.look.legs, 18);
            cue(p, 14, 0);
        } else if (in_air) {
            p.fall -= 26;
            if (p.real[2] + p.fall / kRate <= 0) {
                p.fall = p.real[2] = 0;
                toggle(p.look.legs, chance(0.7) ? 15 : 20);
                cue(p, 11, 0);
            }
        } else if (chance(0.03)) {
            toggle(p.look.legs, chance(0.8) ? 15 : 22);
        }
        p.body.speed[2] = whole(p.fall);
        for (int i = 0; i < 3; ++i) {
            p.real[i] += p.body.speed[i] / kRate;
            p.body.at[i] = whole(p.real[i]);
        }
        p.body.since = 0;
        p.condition.ground = Ground{static_cast<std::uint16_t>(in_air ? 1023 : 1022)};
        p.facing.angles[1] = whole(p.heading);
        p.facing.angles[0] = whole(p.pitch);
        const float lean = whole(p.wish * 57) / 45;
        if (!in_air) p.extra.lean = whole(lean) * 45;
        act(p);
        write(p);
    }

    void act(Item& p) {
        if (chance(0.02)) {
            p.look.weapon = static_cast<std::uint8_t>(random() % 9 + 1);
            cue(p, 22, 0);
            toggle(p.look.chest, 9);
        }
        const bool fires = (static_cast<unsigned>(p.condition.traits) & 0x100) != 0;
        if (chance(fires ? 0.15 : 0.04))
            p.condition.traits = Traits{static_cast<std::uint32_t>(p.condition.traits) ^ 0x100};
        if (fires && chance(0.25)) {
            toggle(p.look.chest, 7);
            cue(p, 23, 0);
            Item shot = make(Kind::shot, chance(0.7) ? Course::linear : Course::falling);
            for (int i = 0; i < 3; ++i) {
                shot.body.at[i] = p.body.at[i];
                shot.body.speed[i] =
                    shot.body.course == Course::linear ? whole(uniform(-900, 900)) : uniform(-700, 700);
            }
            shot.body.since = now_;
            shot.look.weapon = p.look.weapon;
            shot.condition.owner = p.condition.owner;
            shot.left = static_cast<int>(random() % 40 + 2);
            spawn(shot);
            others_.push_back(shot);
        } else if (chance(0.01)) {
            toggle(p.look.chest, 11);
        }
        if (chance(0.015)) p.condition.health = static_cast<std::int16_t>(random() % 100);
        if (chance(0.003)) p.condition.boost ^= static_cast<std::uint16_t>(1u << random() % 8);
    }

    void change(Item& item) {
        if (item.left > 0) --item.left;
        if (item.left == 1 && item.look.kind == Kind::shot) {  // bursts
            item.look.kind = Kind::effect;
            item.left = 10;
            item.body.course = Course::still;
            const float flown = static_cast<float>(now_ - item.body.since) / 1000;
            for (int i = 0; i < 3; ++i) {
                item.body.at[i] = whole(item.body.at[i] + item.body.speed[i] * flown);
                item.body.speed[i] = 0;
            }
            cue(item, chance(0.5) ? 51 : 50, random() % 256);
            write(item);
        } else if (item.look.kind == Kind::shot && item.body.course == Course::falling && chance(0.04)) {
            for (float& speed : item.body.speed) speed *= -0.6f;  // bounces
            item.body.since = now_;
            cue(item, 44, 0);
            write(item);
        } else if (item.look.kind == Kind::pickup && chance(item.extra.is_hidden ? 0.01 : 0.003)) {
            item.extra.is_hidden = !item.extra.is_hidden;
            item.condition.traits = Traits{item.extra.is_hidden ? 0x80u : 0u};
            cue(item, item.extra.is_hidden ? 19 : 40, random() % 40);
            item.sounds.when = now_;
            write(item);
        } else if (item.look.kind == Kind::door && chance(0.01)) {
            item.body.course = item.body.course == Course::still ? Course::linear : Course::still;
            item.body.since = now_;
            item.body.speed[2] = item.body.course == Course::linear ? 120.0f : 0.0f;
            item.sounds.hum = Cue{static_cast<std::uint16_t>(item.body.course == Course::linear ? 33 : 0)};
            write(item);
        }
    }

    static constexpr float kRate = static_cast<float>(kHz);

    ecs::World& world_;
    std::mt19937 random_;
    std::int32_t now_ = 100'000;
    std::vector<Item> players_, others_;
};

}  // namespace train
