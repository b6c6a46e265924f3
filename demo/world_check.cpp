#include "world_check.h"

namespace shoal::demo {

void WorldCheck::note(replication::WorldHash& hash, const replication::Receiver& receiver) {
    const auto complete = receiver.complete();
    if (!complete) return;
    const replication::Tick tick = complete->tick - complete->tick % kEvery;
    if (tick < complete->since || tick == 0 || pair(tick).client.tick == tick) return;
    pair(tick).client = checksum(tick, hash.of_client(receiver));
    compare(pair(tick));
}

void WorldCheck::hear(const Checksum& server) {
    if (server.tick == 0 || server.tick % kEvery != 0 || pair(server.tick).server.tick == server.tick) return;
    pair(server.tick).server = server;
    compare(pair(server.tick));
}

void WorldCheck::compare(const Pair& pair) {
    if (pair.server.tick != pair.client.tick) return;
    compared_ += 1;
    divergences_ += pair.server != pair.client;
}

}  // namespace shoal::demo
