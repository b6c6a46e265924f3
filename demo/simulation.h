#pragma once
// The rules of the game that only the server knows. Schools wander, pikes hunt, pilots follow, creatures are
// born and die. The rules that clients know too are in moves.h.

#include <array>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "arena.h"
#include "ecs/query.h"

namespace shoal::demo {

/// Writes components, and adds the tag Replicated to creatures and reefs. The same seed and the same calls
/// give the same result.
class Simulation {
public:
    /// The world must outlive the simulation. `creatures`: the number of creatures at first, and about the
    /// number later; the creatures of players do not count.
    Simulation(ecs::World& world, std::uint32_t creatures, std::uint64_t seed);

    /// Returns where an entity was on a player's screen; nothing if it was not there.
    using Eyes = std::function<std::optional<Position>(ecs::Entity entity)>;
    /// Returns the eyes of the player who shot `bubble`.
    using SeenBy = std::function<Eyes(ecs::Entity bubble)>;
    /// Sets the function that says where a shooter saw the creatures that a bubble may hit. Without it
    /// bubbles hit creatures where they are.
    void set_seen_by(SeenBy seen_by) { seen_by_ = std::move(seen_by); }

    /// Runs one step, except the movements in step_moves(). Call it after step_moves().
    void step(float dt_s);

    /// Returns the new creature of a player. It can die in any step.
    ecs::Entity spawn_player(const std::string& name);

private:
    static constexpr std::size_t kSchools = 6;

    struct School {
        Position at;
        float angle = 0;
    };
    struct Sight {
        ecs::Entity entity;
        Position at;
    };

    static ecs::Entity nearest(const std::vector<Sight>& sights, const Position& from, float farthest,
                               ecs::Entity except = {});
    ecs::Entity hit_by(ecs::Entity bubble, const Position& at, ecs::Entity shooter) const;
    float uniform(float min, float max);
    bool chance(float probability) { return uniform(0, 1) < probability; }
    Position anywhere();
    std::string make_name();
    template <class Species>
    ecs::Entity spawn(Species species, const Position& at, std::string name, int health);
    void spawn_minnow();
    void spawn_pike();

    void run_clock(float dt_s);
    void look_around();
    void swim_in_schools(float dt_s);
    void graze(float dt_s);
    void crawl(float dt_s);
    void hunt(float dt_s);
    void play(float dt_s);
    void burst_bubbles(float dt_s);
    void use_up_baits(float dt_s);
    void escort(float dt_s);
    void bite(ecs::Entity prey, int damage, ecs::Entity hunter);
    void bury_and_breed(float dt_s);

    ecs::World& world_;
    SeenBy seen_by_;
    std::mt19937_64 random_;
    std::size_t players_spawned_ = 0;
    std::uint32_t wanted_minnows_ = 0, wanted_pikes_ = 0;
    std::array<School, kSchools> schools_;

    ecs::Query<const Position, ecs::Without<Crab>, ecs::Without<Pilot>, ecs::Without<Reef>,
               ecs::Without<Bubble>, ecs::Without<Bait>>
        fish_;
    ecs::Query<const Position, ecs::Mut<Reef>> reefs_;
    ecs::Query<Position, Velocity, ecs::With<Minnow>> minnows_;
    ecs::Query<ecs::Mut<Position>, Velocity, ecs::With<Crab>> crabs_;
    ecs::Query<Position, Velocity, ecs::Mut<Health>, ecs::Optional<const Target>, ecs::With<Pike>> pikes_;
    ecs::Query<const Position, ecs::Mut<Health>, ecs::Mut<Ammo>, ecs::With<Player>> players_;
    ecs::Query<const Position, Flight, ecs::With<Bubble>> bubbles_;
    ecs::Query<const Position, Flight, ecs::With<Bait>> baits_;
    ecs::Query<const Position, ecs::With<Pilot>, ecs::Without<Follows>> astray_;
    ecs::Query<Position, Velocity, ecs::Pair<Follows>> escorts_;

    std::vector<Sight> prey_, hunters_, leaders_, food_;  // of this step
    std::vector<ecs::Entity> dead_;
};

}  // namespace shoal::demo
