#include <gtest/gtest.h>

#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

// Goal: a receiver that has no ack to send sends no empty packet at every flush. It refused the newest
// packets, and those that it accepted are too far behind to be named in an ack.
TEST(Acks, AReceiverWithoutAnAckToSendIsSilent) {
    World world;
    world.add_host(host_config());
    World::Player& player = world.add_client(client_config());
    Client& client = player.client;
    client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    ASSERT_TRUE(client.is_connected(client.server()));
    world.server.withhold = [](std::uint64_t number) { return number > 50; };
    ASSERT_NE(player.send("x", world.now), 0u);  // its ack is delayed
    LinkConfig cut;
    cut.loss = 1;
    world.up.set_config(cut);
    for (int i = 0; i < 64; ++i) ASSERT_NE(player.send("x", world.now), 0u);
    world.up.set_config({});
    ASSERT_NE(player.send("x", world.now), 0u);
    world.up.set_config(cut);
    const std::uint64_t before = world.down.stats().offered;
    world.run(500ms);
    EXPECT_EQ(world.server.payloads.size(), 2u);
    EXPECT_LT(world.down.stats().offered - before, 10u);
}

}  // namespace
}  // namespace shoal::net::impl
