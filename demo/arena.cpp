#include "arena.h"

#include "moves.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace shoal::demo {

replication::Schema arena_schema(GameVersion version, double view) {
    using namespace replication;
    const auto kAnyWay = bounded(static_cast<int>(Direction::up), static_cast<int>(Direction::right));
    Schema schema;
    schema.component<Position>("position", field(&Position::x, quantised(0, kArenaWidth, 0.05)),
                               field(&Position::y, quantised(0, kArenaHeight, 0.05)), linear(), predicted());
    schema.input<Steer>("steer", bounded(0, static_cast<int>(Direction::right)));
    schema.quantise_authority();
    schema.component<Health>("health", bounded(0, 100));
    schema.component<Name>("name", max_length(kMaxNameBytes), from_owner());
    schema.component<Score>("score", bounded(0, 100'000));
    schema.component<Ammo>("ammo", bounded(0, std::max(kMaxBubbles, kMaxBaits)), to_owner());
    schema.component<Bubble>("bubble", kAnyWay);
    schema.component<Bait>("bait", field(&Bait::direction, kAnyWay),
                           field(&Bait::left, quantised(0, kLongestThrow, 0.05)), predicted());
    schema.action<Shoot>("shoot", kAnyWay, at_most(10));
    schema.action<Throw>("throw", field(&Throw::direction, kAnyWay),
                         field(&Throw::power, bounded(1, kMaxPower)), at_most(10));
    schema.action<Say>("say", max_length(kMaxSayBytes), at_most(2), independent());
    schema.component<Target>("target");
    schema.singleton<Clock>("clock", field(&Clock::elapsed_s, quantised(0, 1'000'000, 0.1)));
    schema.component<Reef>("reef", quantised(0, 100, 1));
    schema.tag<Minnow>("minnow");
    schema.tag<Crab>("crab");
    schema.tag<Pike>("pike");
    schema.tag<Player>("player");
    schema.tag<Pilot>("pilot");
    if (view > 0) {
        schema.grid<Position>({.radius = view});
        schema.pair<Follows>("follows", field(&Follows::angle, angle(8)), follows());
    } else {
        schema.pair<Follows>("follows", field(&Follows::angle, angle(8)));
    }
    schema.message<Checksum>("checksum");
    if (version == GameVersion::second) {
        schema.component<Colour>("colour");
        schema.optional<Colour>();
    }
    assert(schema.error().empty());
    return schema;
}

std::vector<ecs::Entity> load_reefs(ecs::World& world) {
    constexpr std::array<Position, kReefs> kPlaces = {{{20, 60}, {45, 20}, {80, 50}, {115, 15}, {140, 65}}};
    std::vector<ecs::Entity> reefs;
    for (std::uint32_t i = 0; i < kReefs; ++i)
        reefs.push_back(world.spawn(kPlaces[i], Reef{}, replication::StableKey{i}));
    return reefs;
}

}  // namespace shoal::demo
