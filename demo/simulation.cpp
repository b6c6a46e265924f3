#include "simulation.h"

#include "moves.h"
#include "replication/schema/own_components.h"
#include "replication/schema/schema.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace shoal::demo {
namespace {

constexpr float kCruise = 7, kFlight = 11, kStalk = 3, kChase = 12, kSchoolSpeed = 5, kEscort = 18;  // speeds
constexpr float kFear = 9;                     // a minnow flees from a pike that is nearer
constexpr float kSight = 60;                   // a pike hunts prey that is nearer
constexpr float kReach = 1.6f;                 // greatest distance of a bite
constexpr float kBurst = 2.5f;                 // a bubble hits a creature that is nearer
constexpr float kScent = 30;                   // minnows swim to a bait that is nearer
constexpr float kPasture = 12;                 // minnows that are nearer to a reef graze there
constexpr float kGrowth = 4, kGrazing = 0.4f;  // percent of food per second; kGrazing for each minnow
constexpr float kAside = 5;                    // distance of a pilot from its leader
constexpr int kHungry = 75;                    // a pike with less health, in percent, starts to hunt

float distance(const Position& a, const Position& b) {
    return std::hypot(a.x - b.x, a.y - b.y);
}

/// Velocity from `a` to `b`, at most `speed`.
Velocity towards(const Position& a, const Position& b, float speed) {
    const float length = std::max(distance(a, b), 0.001f);
    const float scale = std::min(1.0f, speed / length);
    return {(b.x - a.x) * scale, (b.y - a.y) * scale};
}

/// Changes `velocity` towards `wish`, over about a quarter of a second.
void turn(Velocity& velocity, const Velocity& wish, float dt_s) {
    const float share = std::min(1.0f, 4 * dt_s);
    velocity.x += (wish.x - velocity.x) * share;
    velocity.y += (wish.y - velocity.y) * share;
}

}  // namespace

Simulation::Simulation(ecs::World& world, std::uint32_t creatures, std::uint64_t seed)
    : world_(world),
      random_(seed),
      fish_(world),
      reefs_(world),
      minnows_(world),
      crabs_(world),
      pikes_(world),
      players_(world),
      bubbles_(world),
      baits_(world),
      astray_(world),
      escorts_(world) {
    const std::uint32_t crabs = creatures / 10;
    wanted_pikes_ = std::min(creatures / 16, 24u);
    const std::uint32_t pilots = 2 * wanted_pikes_;
    wanted_minnows_ = creatures - crabs - wanted_pikes_ - pilots;
    for (School& school : schools_) school = {anywhere(), uniform(0, 6.28f)};
    world_.set_singleton(Clock{});
    for (const ecs::Entity reef : load_reefs(world_)) world_.add<replication::Replicated>(reef);
    for (std::uint32_t i = 0; i < crabs; ++i) spawn(Crab{}, anywhere(), make_name(), 100);
    for (std::uint32_t i = 0; i < wanted_pikes_; ++i) spawn_pike();
    for (std::uint32_t i = 0; i < pilots; ++i) spawn(Pilot{}, anywhere(), make_name(), 100);
    for (std::uint32_t i = 0; i < wanted_minnows_; ++i) spawn_minnow();
}

void Simulation::step(float dt_s) {
    run_clock(dt_s);
    look_around();
    swim_in_schools(dt_s);
    graze(dt_s);
    crawl(dt_s);
    hunt(dt_s);
    play(dt_s);
    burst_bubbles(dt_s);
    use_up_baits(dt_s);
    escort(dt_s);
    bury_and_breed(dt_s);
}

ecs::Entity Simulation::spawn_player(const std::string& name) {
    constexpr std::array<std::uint8_t, 6> kInks = {213, 120, 75, 222, 203, 159};
    const ecs::Entity player = spawn(Player{}, anywhere(), name, 100);
    world_.set(player, Steer{});
    world_.set(player, Score{});
    world_.set(player, Ammo{});
    world_.set(player, Colour{kInks[players_spawned_++ % kInks.size()]});
    return player;
}

/// Returns the nearest entity of `sights`, except `except`. Null if none is nearer than `farthest`.
ecs::Entity Simulation::nearest(const std::vector<Sight>& sights, const Position& from, float farthest,
                                ecs::Entity except) {
    ecs::Entity found;
    for (const Sight& sight : sights)
        if (const float away = distance(from, sight.at); away < farthest && sight.entity != except) {
            farthest = away;
            found = sight.entity;
        }
    return found;
}

float Simulation::uniform(float min, float max) {
    return min + (max - min) * static_cast<float>(random_() >> 40) * 0x1p-24f;
}

Position Simulation::anywhere() {
    const float x = uniform(0, kArenaWidth);
    return {x, uniform(0, kArenaHeight)};
}

std::string Simulation::make_name() {
    constexpr std::array<const char*, 12> kSyllables = {"ba", "do", "fi", "gu", "ka", "lo",
                                                        "mi", "nu", "ra", "so", "ti", "zu"};
    std::string name;
    for (std::uint64_t left = 2 + random_() % 2; left > 0; --left)
        name += kSyllables[static_cast<std::size_t>(random_() % kSyllables.size())];
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    return name;
}

/// Adds all components in one operation, so that hooks see a complete creature.
template <class Species>
ecs::Entity Simulation::spawn(Species species, const Position& at, std::string name, int health) {
    return world_.spawn(at, Velocity{}, Health{health}, Name{std::move(name)}, species,
                        replication::Replicated{});
}

void Simulation::spawn_minnow() {
    const School& school = schools_[static_cast<std::size_t>(random_() % kSchools)];
    spawn(Minnow{}, school.at, make_name(), 100);
}

void Simulation::spawn_pike() {
    const int health = static_cast<int>(uniform(50, 90));
    spawn(Pike{}, anywhere(), make_name(), health);
}

void Simulation::run_clock(float dt_s) {
    world_.patch_singleton<Clock>([&](Clock& clock) { clock.elapsed_s += static_cast<double>(dt_s); });
}

void Simulation::look_around() {
    prey_.clear();
    hunters_.clear();
    leaders_.clear();
    food_.clear();
    baits_.each([&](ecs::Entity bait, const Position& at, const Flight&) { food_.push_back({bait, at}); });
    fish_.each([&](ecs::Entity entity, const Position& at) {
        (world_.has<Pike>(entity) ? hunters_ : prey_).push_back({entity, at});
        if (!world_.has<Minnow>(entity)) leaders_.push_back({entity, at});
    });
}

void Simulation::swim_in_schools(float dt_s) {
    for (School& school : schools_) {
        school.angle += uniform(-1.5f, 1.5f) * std::sqrt(dt_s);
        const Velocity way{std::cos(school.angle) * kSchoolSpeed, std::sin(school.angle) * kSchoolSpeed};
        const Position next = moved(school.at, way, dt_s);
        if (distance(next, school.at) < kSchoolSpeed * dt_s * 0.99f) school.angle += 2.5f;  // at a wall
        school.at = next;
    }
    const float turned = static_cast<float>(world_.singleton<Clock>().elapsed_s) * 0.4f;
    minnows_.each([&](ecs::Entity entity, Position& at, Velocity& velocity) {
        const School& school = schools_[entity.index % kSchools];
        const float angle = static_cast<float>(entity.index) * 2.4f + turned;
        const float radius = 2 + static_cast<float>(entity.index * 7 % 23) * 0.5f;
        const Position place{school.at.x + std::cos(angle) * radius, school.at.y + std::sin(angle) * radius};
        const ecs::Entity bait = nearest(food_, at, kScent);
        Velocity wish = towards(at, bait ? world_.get<Position>(bait) : place, kCruise);
        for (const Sight& hunter : hunters_)
            if (distance(at, hunter.at) < kFear) {
                const Velocity flight = towards(hunter.at, at, 1);
                wish = {flight.x * kFlight, flight.y * kFlight};
            }
        turn(velocity, wish, dt_s);
        at = moved(at, velocity, dt_s);
    });
}

void Simulation::graze(float dt_s) {
    reefs_.each([&](const Position& at, ecs::Mut<Reef> reef) {
        float change = kGrowth;
        for (const Sight& sight : prey_)
            if (distance(at, sight.at) < kPasture && world_.has<Minnow>(sight.entity)) change -= kGrazing;
        const float food = std::clamp(reef.read().food + change * dt_s, 0.0f, 100.0f);
        if (food != reef.read().food) reef->food = food;
    });
}

void Simulation::crawl(float dt_s) {
    crabs_.each([&](ecs::Mut<Position> at, Velocity& velocity) {
        if (chance(0.4f * dt_s)) velocity = {chance(0.7f) ? 0 : uniform(-4, 4), 0};
        if (velocity.x == 0) return;  // the position is not written, so nothing is sent
        const Position next = moved(at.read(), velocity, dt_s);
        at = next;
    });
}

void Simulation::hunt(float dt_s) {
    pikes_.each([&](ecs::Entity pike, Position& at, Velocity& velocity, ecs::Mut<Health> health,
                    const Target* target) {
        if (chance(2 * dt_s)) health->percent -= 1;
        if (health.read().percent <= 0) dead_.push_back(pike);

        const ecs::Entity prey = target ? target->prey : ecs::Entity{};
        if (const Position* seen = world_.try_get<Position>(prey)) {
            const Velocity chase = towards(at, *seen, 1);
            turn(velocity, {chase.x * kChase, chase.y * kChase}, dt_s);
            if (distance(at, *seen) < kReach && chance(12 * dt_s)) bite(prey, 40, pike);
        } else {
            if (target) world_.remove<Target>(pike);
            if (health.read().percent < kHungry && chance(dt_s))
                if (const ecs::Entity found = nearest(prey_, at, kSight)) world_.set(pike, Target{found});
            const School& school = schools_[pike.index % kSchools];
            turn(velocity, towards(at, {kArenaWidth - school.at.x, school.at.y}, kStalk), dt_s);
        }
        at = moved(at, velocity, dt_s);
    });
}

void Simulation::play(float dt_s) {
    players_.each([&](ecs::Entity player, const Position& at, ecs::Mut<Health> health, ecs::Mut<Ammo> ammo) {
        if (ammo.read().bubbles < kMaxBubbles && chance(dt_s)) ammo->bubbles += 1;
        if (ammo.read().baits < kMaxBaits && chance(0.1f * dt_s)) ammo->baits += 1;
        if (health.read().percent < 100 && chance(3 * dt_s)) health->percent += 1;
        for (const Sight& sight : prey_)
            if (distance(at, sight.at) < kReach && world_.has<Minnow>(sight.entity))
                bite(sight.entity, 100, player);
    });
}

/// Returns the creature that the shooter sees nearest to the bubble; null if none is near enough to be hit.
ecs::Entity Simulation::hit_by(ecs::Entity bubble, const Position& at, ecs::Entity shooter) const {
    ecs::Entity hit;
    float farthest = kBurst;
    const Eyes eyes = seen_by_ ? seen_by_(bubble) : Eyes();
    for (const std::vector<Sight>* sights : {&prey_, &hunters_})
        for (const Sight& sight : *sights) {
            if (sight.entity == shooter) continue;
            const std::optional<Position> seen = eyes ? eyes(sight.entity) : sight.at;
            if (!seen || distance(at, *seen) >= farthest) continue;
            farthest = distance(at, *seen);
            hit = sight.entity;
        }
    return hit;
}

/// A bubble bursts when it reaches a creature other than its shooter, at a wall, or when its time is over.
void Simulation::burst_bubbles(float dt_s) {
    bubbles_.each([&](ecs::Entity bubble, const Position& at, Flight& flight) {
        flight.left_s -= dt_s;
        const ecs::Entity hit = hit_by(bubble, at, flight.shooter);
        const bool is_at_wall = at.x <= 0 || at.x >= kArenaWidth || at.y <= 0 || at.y >= kArenaHeight;
        if (hit) bite(hit, world_.has<Minnow>(hit) ? 100 : 35, flight.shooter);
        if (hit || is_at_wall || flight.left_s <= 0) dead_.push_back(bubble);
    });
}

/// Each minnow that eats of a bait shortens the time that the bait lasts.
void Simulation::use_up_baits(float dt_s) {
    baits_.each([&](ecs::Entity bait, const Position& at, Flight& flight) {
        flight.left_s -= dt_s;
        for (const Sight& sight : prey_)
            if (distance(at, sight.at) < kReach && world_.has<Minnow>(sight.entity)) flight.left_s -= dt_s;
        if (flight.left_s <= 0) dead_.push_back(bait);
    });
}

/// When a leader dies, its pilots lose the pair Follows. Here they choose the nearest new leader. A leader
/// and its pilots are a cluster, so clients see them as of one tick.
void Simulation::escort(float dt_s) {
    astray_.each([&](ecs::Entity entity, const Position& at) {
        const ecs::Entity leader = nearest(leaders_, at, kArenaWidth + kArenaHeight);
        if (!leader) return;  // tries again in the next step
        world_.set(entity, to<Follows>(leader), Follows{uniform(0, 6.28f)});
        world_.set(entity, replication::Cluster{leader.index});
        world_.set(leader, replication::Cluster{leader.index});
    });
    escorts_.each([&](Position& at, Velocity& velocity, const ecs::Targets<Follows>& follows) {
        const Position& leader = world_.get<Position>(follows.target());  // alive: a dead target has no pairs
        const float angle = follows.value().angle;
        const Position place{leader.x + std::cos(angle) * kAside, leader.y + std::sin(angle) * kAside};
        turn(velocity, towards(at, place, kEscort), dt_s);
        at = moved(at, velocity, dt_s);
    });
}

void Simulation::bite(ecs::Entity prey, int damage, ecs::Entity hunter) {
    if (world_.get<Health>(prey).percent <= 0) return;  // it died in this step
    int left = 0;
    world_.patch<Health>(
        prey, [&](Health& health) { left = health.percent = std::max(0, health.percent - damage); });
    if (left > 0) return;
    dead_.push_back(prey);
    if (!world_.is_alive(hunter)) return;  // the hunter shot a bubble before it died
    const int worth = world_.has<Minnow>(prey) ? 1 : world_.has<Pike>(prey) ? 5 : 10;
    world_.patch<Health>(hunter, [](Health& health) { health.percent = std::min(100, health.percent + 15); });
    world_.patch<Score>(hunter, [&](Score& score) { score.points += worth; });  // no effect on pikes
}

void Simulation::bury_and_breed(float dt_s) {
    for (const ecs::Entity entity : dead_) world_.destroy(entity);  // an entity may be twice in dead_
    dead_.clear();
    const std::uint32_t minnows = minnows_.count(), pikes = pikes_.count();
    const std::uint32_t missing = wanted_minnows_ > minnows ? wanted_minnows_ - minnows : 0;
    for (std::uint32_t i = 0; i < missing; ++i)
        if (chance(0.3f * dt_s)) spawn_minnow();
    if (pikes < wanted_pikes_ && chance(0.5f * dt_s)) spawn_pike();
}

}  // namespace shoal::demo
