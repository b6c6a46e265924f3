// Tests of Endpoint::disconnect() and Host::shut_down() with `deliver_for`.

#include <gtest/gtest.h>

#include <string>

#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

/// One of the two sides of a world, which leaves, and the other side.
struct Leaver {
    Leaver(ConnectedWorld& world, bool is_client)
        : self(is_client ? static_cast<Endpoint&>(world.client()) : *world.host),
          other(is_client ? static_cast<Endpoint&>(*world.host) : world.client()),
          at_self(is_client ? world.player().recorder : world.server),
          at_other(is_client ? world.server : world.player().recorder),
          to_other(is_client ? world.client().server() : world.peer()),
          to_self(is_client ? world.peer() : world.client().server()) {}
    Endpoint &self, &other;
    Recorder &at_self, &at_other;
    PeerId to_other, to_self;
};

TEST(Goodbye, DeliversWhatIsQueuedFirst) {
    for (const double loss : {0.0, 0.2})
        for (const bool is_client : {false, true})
            for (const Weight weight : {Weight::bulk, Weight::normal, Weight::urgent}) {
                SCOPED_TRACE(testing::Message()
                             << "loss " << loss << ", client " << is_client << ", weight " << int(weight));
                ConnectedWorld world({.latency = 30ms, .loss = loss});
                Leaver leaver(world, is_client);
                const auto say = [&](Endpoint& from, PeerId to, std::size_t size) {
                    return from.send_message(to, Delivery(Channel::reliable).with(weight),
                                             as_bytes(std::string(size, 'm')));
                };
                ASSERT_EQ(say(leaver.self, leaver.to_other, 50'000), SendResult::queued);
                for (int i = 0; i < 100; ++i)
                    ASSERT_EQ(say(leaver.self, leaver.to_other, 50), SendResult::queued);
                leaver.self.disconnect(leaver.to_other, DisconnectReason::kicked, "bye", world.now, 60s);
                EXPECT_EQ(say(leaver.self, leaver.to_other, 1), SendResult::not_connected);
                EXPECT_EQ(say(leaver.other, leaver.to_self, 1), SendResult::queued);
                world.run(200ms);
                EXPECT_TRUE(leaver.self.is_connected(leaver.to_other));
                EXPECT_TRUE(loss > 0 || leaver.at_self.messages.size() == 1) << "messages arrive meanwhile";
                for (int i = 0; i < 3000 && leaver.at_self.disconnects.empty(); ++i) world.step();
                EXPECT_EQ(leaver.at_other.messages.size(), 101u);
                EXPECT_EQ(leaver.at_self.last_reason, DisconnectReason::kicked);
                EXPECT_EQ(leaver.at_self.last_text, "bye");
                world.run(1s);
                EXPECT_EQ(leaver.at_other.last_reason,
                          is_client ? DisconnectReason::closed_by_peer : DisconnectReason::kicked);
                EXPECT_EQ(leaver.at_other.last_text, "bye");
            }
}

// The server replaces the former connection itself, and may have done so already.
TEST(Goodbye, AReplacedClientDeliversButSaysNothing) {
    for (const Duration deliver_for : {0s, 60s}) {
        ConnectedWorld world;
        ASSERT_EQ(world.client().send_message(world.client().server(), unordered(), as_bytes("m")),
                  SendResult::queued);
        world.client().disconnect(world.client().server(), DisconnectReason::replaced, {}, world.now,
                                  deliver_for);
        world.run(1s);
        EXPECT_EQ(world.player().recorder.last_reason, DisconnectReason::replaced);
        EXPECT_EQ(world.server.messages.size(), deliver_for > 0s ? 1u : 0u);
        EXPECT_TRUE(world.host->is_connected(world.peer()));
    }
}

TEST(Goodbye, TakesNoTimeIfNothingWaits) {
    ConnectedWorld world;
    world.run(100ms);
    world.host->disconnect(world.peer(), DisconnectReason::kicked, "bye", world.now, 60s);
    EXPECT_TRUE(world.server.disconnects.empty()) << "update() ends the connection";
    world.step();
    EXPECT_EQ(world.server.disconnects.size(), 1u);
}

// A game that calls it in each tick does not wait longer.
TEST(Goodbye, TakesAtMostTheTimeOfItsFirstCall) {
    for (const bool is_client : {false, true}) {
        ConnectedWorld world;
        Leaver leaver(world, is_client);
        world.up.set_config({.loss = 1});
        world.down.set_config({.loss = 1});
        ASSERT_EQ(leaver.self.send_message(leaver.to_other, unordered(), as_bytes("m")), SendResult::queued);
        const Time begin = world.now;
        while (leaver.at_self.disconnects.empty() && world.now < begin + 9s) {
            leaver.self.disconnect(leaver.to_other, DisconnectReason::closed, "", world.now, 2s);
            world.step();
        }
        EXPECT_EQ(world.now, begin + 2s);
    }
    ConnectedWorld world;
    world.up.set_config({.loss = 1});
    ASSERT_EQ(world.host->send_message(world.peer(), unordered(), as_bytes("m")), SendResult::queued);
    world.host->disconnect(world.peer(), DisconnectReason::kicked, "slow", world.now, 60s);
    world.host->disconnect(world.peer(), DisconnectReason::kicked, "now", world.now);
    EXPECT_EQ(world.server.last_text, "now");
}

TEST(Goodbye, AServerThatShutsDownDeliversFirst) {
    ConnectedWorld world({.latency = 30ms, .loss = 0.2});
    ASSERT_EQ(world.host->send_message(world.peer(), unordered(), as_bytes(std::string(20'000, 'm'))),
              SendResult::queued);
    for (int i = 0; i < 1000 && !world.host->is_idle(); ++i) {
        world.host->shut_down("the end", world.now, 5s);
        world.step();
    }
    EXPECT_TRUE(world.host->is_idle());
    ASSERT_EQ(world.player().recorder.messages.size(), 1u);
    EXPECT_EQ(world.player().recorder.last_reason, DisconnectReason::shut_down);
    EXPECT_EQ(world.player().recorder.last_text, "the end");
}

}  // namespace
}  // namespace shoal::net::impl
