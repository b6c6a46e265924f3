// The server tells a client by how much its inputs should be earlier or later.

#include <gtest/gtest.h>

#include <chrono>

#include "tests/sim/play_session.h"

namespace shoal::replication::all::server_shift_test {
namespace {

using namespace std::chrono_literals;

/// Returns how many ticks the newest input of the client is ahead of the server.
int lead_of(const sim::PlaySession& session) {
    return static_cast<int>(*session.players[0]->client.predicted_tick() - session.server.current_tick());
}

TEST(ServerShift, TheLeadFollowsThePath) {
    sim::PlaySession session(sim::play_schema(), {.latency = 120ms}, 1);
    session.players[0]->on_frame = sim::PlaySession::wander(1);
    session.run(5s);
    const int on_the_long_path = lead_of(session);
    EXPECT_GE(on_the_long_path, 8) << "more than half of the round trip";
    session.set_link({.latency = 5ms});
    session.run(20s);
    const int on_the_short_path = lead_of(session);
    EXPECT_LE(on_the_short_path, 5);
    session.set_link({.latency = 120ms});
    session.run(5s);
    EXPECT_GE(lead_of(session), on_the_long_path - 1);
    const InputStats before = session.input_stats(*session.players[0]);
    session.run(5s);
    const InputStats after = session.input_stats(*session.players[0]);
    EXPECT_EQ(after.late, before.late);
    EXPECT_GT(after.in_time, before.in_time + 290);
}

}  // namespace
}  // namespace shoal::replication::all::server_shift_test
