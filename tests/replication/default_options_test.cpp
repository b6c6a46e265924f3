// Defaults of options, which the READMEs and headers state.

#include <gtest/gtest.h>

#include <chrono>

#include "replication/reconnect.h"
#include "replication/runner.h"

namespace shoal::replication::impl::default_options_test {
namespace {

using namespace std::chrono_literals;

TEST(Options, OfAServerHaveTheDefaultsOfTheManual) {
    const ServerOptions options;
    EXPECT_EQ(options.sender.history_s, 0.6);
    EXPECT_EQ(options.sender.max_history_s, 4);
    EXPECT_EQ(options.sender.heartbeat_s, 1);
    EXPECT_EQ(options.max_rewind_s, 0.4);
    EXPECT_EQ(options.messages.messages_per_s, 50);
    EXPECT_EQ(options.messages.bytes_per_s, 16'000);
    EXPECT_EQ(options.messages.burst_s, 2) << "twice as much at once";
    EXPECT_EQ(options.messages.max_waiting, 256u);
    EXPECT_EQ(options.messages.max_waiting_bytes, 64u * 1024);
    EXPECT_EQ(options.messages.max_wait, 3s);
    EXPECT_EQ(options.actions.per_second, 60);
    EXPECT_EQ(options.join.resume_time, 30s);
    EXPECT_FALSE(options.join.waits_for_admit);
    EXPECT_TRUE(options.join.destroys_player);
    EXPECT_EQ(options.first_tick, 1u);
}

TEST(Options, OfAClientHaveTheDefaultsOfTheManual) {
    const ClientOptions options;
    EXPECT_EQ(options.receiver.max_slots, 65'536u);
    EXPECT_TRUE(options.receiver.interpolate);
    EXPECT_TRUE(options.is_ready_at_once);
    EXPECT_EQ(options.max_lead, 500ms);
    EXPECT_EQ(options.check_every, 0u);
    EXPECT_EQ(ReconnectOptions{}.time, JoinOptions{}.resume_time) << "as long as a seat waits";
    EXPECT_EQ(ReconnectOptions{}.pause, 1s);
}

TEST(Options, OfRunnersFitEachOther) {
    const ServerRunnerOptions server;
    const ClientRunnerOptions client;
    EXPECT_EQ(client.server, "127.0.0.1:" + std::to_string(server.port));
    EXPECT_EQ(server.key_file, "server.key");
    EXPECT_EQ(client.key_file, "server.pub");
    EXPECT_EQ(client.ticket_file, "") << "the ticket is not kept";
    EXPECT_FALSE(client.bad_network);
    EXPECT_EQ(server.tick_hz, 60);
    EXPECT_EQ(client.frame_hz, 60);
}

}  // namespace
}  // namespace shoal::replication::impl::default_options_test
