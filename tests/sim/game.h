#pragma once
// The game that the simulations replicate. It has every kind of field that a schema supports. Snapshots of it
// compare worlds without the library's own quantisation.

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecs/world.h"
#include "replication/schema/image.h"
#include "replication/schema/schema.h"

namespace shoal::sim {

enum class Stance : std::uint8_t { idle, walk, run, fly };
enum class Weather : std::int32_t { clear = -2, rain = 1000, storm = 70'000 };

struct Vec2 {
    float x = 0, y = 0;
};
struct Item {
    std::uint16_t kind = 0;
    std::int32_t count = 0;
    bool is_equipped = false;
};
struct Limb {
    Vec2 at;
    std::uint8_t joints[3] = {};
};

struct Position {  // quantised
    float x = 0, y = 0, z = 0;
};
struct Velocity {  // quantised doubles
    double dx = 0, dy = 0;
};
struct Health {
    std::int32_t points = 0;  // bounded
    std::uint8_t armour = 0;
};
struct Counters {
    std::int64_t nanoseconds = 0;
    std::uint64_t bits = 0;
    std::int32_t score = 0;
    std::int16_t small = 0;
    std::int8_t tiny = 0;
    std::uint16_t port = 0;
    std::uint32_t big = 0;
};
struct Mood {
    Stance stance = Stance::idle;
    Weather weather = Weather::clear;
    bool is_alert = false, is_hidden = false;
};
struct Body {
    Limb limbs[2];
    Vec2 centre;  // quantised
    std::array<std::int16_t, 3> angles{};
};
struct Raw {
    float f = 0;
    double d = 0;
    Vec2 v;
};
struct Name {
    std::string text;
};
struct Bag {
    std::vector<Item> items;
    std::int32_t gold = 0;
};
struct Aim {
    ecs::Entity target;
    float range = 0;  // quantised
};
struct Squad {
    std::vector<ecs::Entity> members;
    std::string motto;
};
struct Hold {  // large only if Director::Style::large says so
    std::vector<std::uint8_t> bytes;
};
struct Wolf {};
struct Frozen {};

/// Not in the schema.
struct Secret {
    int value = 0;
};

inline constexpr std::uint32_t kMaxName = 12, kMaxItems = 6, kMaxMembers = 5, kMaxMotto = 10,
                               kMaxHold = 30'000;

/// `display`: of Position.
void describe(replication::Schema& schema, const replication::Display& display = {});

class Random {
public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}
    std::uint64_t next() { return engine_(); }
    std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(engine_() % limit); }
    bool chance(double probability) { return static_cast<double>(engine_() >> 11) * 0x1p-53 < probability; }
    double between(double low, double high) {
        return low + (high - low) * (static_cast<double>(engine_() >> 11) * 0x1p-53);
    }
    template <class T, std::size_t N>
    T pick(const T (&from)[N]) {
        return from[below(static_cast<std::uint32_t>(N))];
    }

private:
    std::mt19937_64 engine_;
};

/// The replicated values of some components as numbers. References are separate, because server and client
/// name entities differently.
struct Snapshot {
    std::vector<std::int64_t> values;
    std::vector<std::uint64_t> references;  // 0: null
    std::uint64_t components = 0;           // bit n: has game_components()[n]; zero for a single component

    bool operator==(const Snapshot&) const = default;
    std::string to_string() const;
};

using NameOf = std::function<std::uint64_t(ecs::Entity)>;
using PickEntity = std::function<ecs::Entity(Random&)>;
using Undo = std::function<void(ecs::World&)>;

/// One component of the game, without its type.
struct GameComponent {
    std::string_view name;
    ecs::ComponentId (*bind)(ecs::World& world);
    void (*take)(const void* value, const NameOf& name_of, Snapshot& out);  // appends it; null for tags
    /// Adds the component with a random value.
    void (*add)(ecs::World& world, ecs::Entity entity, Random& random, const PickEntity& pick);
    /// Writes a random value, sometimes the old one; removes a tag. The entity must have the component.
    /// Returns a function that restores the old value.
    Undo (*change)(ecs::World& world, ecs::Entity entity, Random& random, const PickEntity& pick);
};
std::span<const GameComponent> game_components();

/// The ids of game_components() in a world.
std::vector<ecs::ComponentId> bind_game(ecs::World& world);

/// `which` has a bit for each component that the snapshot may have, as Snapshot::components.
Snapshot snapshot_of(const ecs::World& world, std::span<const ecs::ComponentId> ids, ecs::Entity entity,
                     const NameOf& name_of, std::uint64_t which = ~std::uint64_t{0});
/// References are the net ids of the image.
Snapshot snapshot_of(const replication::Schema& schema, const replication::impl::Image& image);

/// Changes a world at random.
class Director {
public:
    struct Style {
        std::uint32_t max_entities = 40;
        double operations = 6;   // mean per tick
        double churn = 0.2;      // share of operations that create, destroy, add or remove
        double cluster = 0.02;   // chance of a tick with ten times the operations
        double idle = 0.05;      // chance that a pause of 1 to 40 ticks begins
        double large = 0;        // chance per tick that an entity gets 1 to 30 kB
        bool is_stable = false;  // no entity is destroyed or loses the tag Replicated
        double turnover = 0;     // chance per tick that all entities are replaced by as many new ones
    };

    Director(ecs::World& world, std::uint64_t seed, const Style& style);

    void step();
    /// Destroys entities until at most `count` are left.
    void shrink_to(std::size_t count);
    /// Destroys all entities and creates as many.
    void turn_over();
    void create();
    std::uint64_t turnovers() const { return turnovers_; }
    const std::vector<ecs::Entity>& entities() const { return entities_; }

private:
    void operate();
    void add_something(ecs::Entity entity);
    void load_hold(ecs::Entity entity);
    ecs::Entity pick_target();

    ecs::World& world_;
    Random random_;
    Style style_;
    std::vector<ecs::ComponentId> ids_;
    std::vector<ecs::Entity> entities_;  // alive
    std::vector<ecs::Entity> dead_;
    std::vector<Undo> undo_;
    std::uint32_t pause_ticks_ = 0;
    std::uint64_t turnovers_ = 0;
};

}  // namespace shoal::sim
