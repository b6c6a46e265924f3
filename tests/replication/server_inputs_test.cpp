#include "replication/predict/server_inputs.h"

#include <gtest/gtest.h>

#include "tests/sim/play_session.h"

namespace shoal::replication::server_inputs_test {
namespace {

TEST(ServerInputs, AreRepeatedForAQuarterOfASecondAndThenNeutral) {
    sim::PlaySession session(sim::play_schema(), {}, 1);
    sim::PlaySession::Player& player = *session.players[0];
    player.on_frame = [](sim::PlaySession::Player& self) { self.client.input(sim::Helm{1, 0, {}}); };
    session.run(std::chrono::seconds(2));
    const ecs::Entity ship = session.ship(player);
    ASSERT_EQ(session.world.get<sim::Helm>(ship).x, 1);
    const InputStats before = session.input_stats(player);
    net::LinkConfig cut;
    cut.loss = 1;
    session.set_link(cut);
    session.run(std::chrono::seconds(1));
    const InputStats after = session.input_stats(player);
    EXPECT_EQ(after.repeated - before.repeated, 14u) << "whole ticks of 16.667 ms in 250 ms";
    EXPECT_GT(after.neutral - before.neutral, 30u);
    EXPECT_EQ(session.world.get<sim::Helm>(ship).x, 0);
}

}  // namespace
}  // namespace shoal::replication::server_inputs_test
