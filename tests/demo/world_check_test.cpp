#include "demo/world_check.h"

#include <gtest/gtest.h>

#include "demo/simulation.h"
#include "replication/send/sender.h"

namespace shoal::demo {
namespace {

TEST(WorldCheck, FindsAWorldThatDiffers) {
    ecs::World world;
    const replication::Schema schema = arena_schema();
    Simulation simulation(world, 10, 6);
    replication::Sender sender(world, schema);
    replication::WorldHash hash(world, schema);
    ecs::World mirror;
    replication::Receiver receiver(mirror, schema);
    replication::WorldHash mirror_hash(mirror, schema);
    load_reefs(mirror);
    WorldCheck check;
    const replication::Sender::Peer peer = sender.add_peer();
    for (std::uint64_t number = 1; number <= 120; ++number) {
        const auto tick = static_cast<replication::Tick>(number);
        simulation.step(1 / 30.0f);
        sender.update(tick);
        const Checksum server = WorldCheck::checksum(tick, hash.of_server(sender.shadow()));
        std::byte room[1200];
        const auto payload = sender.encode(peer, number, sizeof room, room);
        ASSERT_EQ(receiver.receive(number, payload), replication::Receiver::Verdict::accepted);
        sender.on_fate(peer, number, true);
        receiver.apply();
        if (number == 115) ecs::Query<Health>(mirror).each([](Health& health) { health.percent = 1; });
        const bool is_late =
            number > 60;  // the server's checksum arrives before the client is complete, or later
        if (!is_late) check.hear(server);
        check.note(mirror_hash, receiver);
        if (is_late) check.hear(server);
        check.hear(server);  // counts once
        EXPECT_EQ(check.compared(), number / WorldCheck::kEvery);
        EXPECT_EQ(check.divergences(), number < 120 ? 0u : 1u);
    }
}

}  // namespace
}  // namespace shoal::demo
