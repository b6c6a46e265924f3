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
    schema.component<Target>("target");
    schema.component<Clock>("clock", field(&Clock::text, max_length(16)));
    schema.tag<Minnow>("minnow");
    schema.tag<Crab>("crab");
    schema.tag<Pike>("pike");
    schema.tag<Player>("player");
    assert(schema.error().empty());
    return schema;
}

}  // namespace shoal::demo
