#include "arena.h"

#include <cassert>

namespace shoal::demo {

replication::Schema arena_schema() {
    using namespace replication;
    Schema schema;
    schema.component<Position>("position", field(&Position::x, quantised(0, kArenaWidth, 0.05)),
                               field(&Position::y, quantised(0, kArenaHeight, 0.05)));
    schema.component<Health>("health", bounded(0, 100));
    schema.component<Name>("name", field(&Name::text, max_length(kMaxNameBytes)));
    schema.component<Meals>("meals", to_owner());
    schema.tag<Mine>("mine", to_owner());
    schema.component<Target>("target");
    schema.singleton<Clock>("clock", field(&Clock::elapsed_s, quantised(0, 1'000'000, 0.1)));
    schema.tag<Minnow>("minnow");
    schema.tag<Crab>("crab");
    schema.tag<Pike>("pike");
    schema.tag<Player>("player");
    schema.tag<Pilot>("pilot");
    schema.pair<Follows>("follows", field(&Follows::angle, angle(8)));
    assert(schema.error().empty());
    return schema;
}

}  // namespace shoal::demo
