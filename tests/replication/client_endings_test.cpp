// Messages and payloads of a hostile or broken server, and what stays when a connection ends.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "replication/message.h"
#include "tests/replication/support/link.h"
#include "tests/sim/play_session.h"

namespace shoal::replication::all::client_endings_test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::initializer_list<int> numbers) {
    Bytes out;
    for (const int number : numbers) out.push_back(static_cast<std::byte>(number));
    return out;
}

struct Doubloon {
    int count = 0;
};
struct Dig {
    int depth = 0;
};

Schema island_schema() {
    Schema schema;
    schema.component<Doubloon>("doubloon");
    schema.message<Doubloon>("found", bounded(0, 5));
    schema.action<Dig>("dig");
    return schema;
}

/// A server whose player plays, and that sends any message to its client.
struct Island {
    explicit Island(const ClientOptions& options = {}) : player(link.add(link.schema, options)) {
        link.server.on_join([this](PlayerId id) {
            peer = id;
            return link.world.spawn(Doubloon{1}, Replicated{});
        });
        link.run(40);
    }
    void send(const Bytes& message) {
        ASSERT_EQ(
            link.server.host().send_message(link.server.connection(peer), net::Channel::reliable, message),
            net::SendResult::queued);
        link.run(4);
    }

    Link link{Link::default_options(), island_schema()};
    Link::Player& player;
    PlayerId peer;
};

TEST(ClientEndings, MalformedMessagesOfTheSchemaEndTheConnection) {
    const std::string typed = "malformed message", actions = "malformed message about actions";
    const std::vector<std::pair<Bytes, std::string>> messages = {
        {bytes({3}), typed},                 // without its stream
        {bytes({3, 0}), typed},              // too few bits
        {bytes({3, 0, 0xff}), typed},        // 7 is over 5, or the padding is not 0
        {bytes({3, 0, 0, 0, 0, 0}), typed},  // too long
        {bytes({4}), actions},
        {bytes({5}), actions},
        {bytes({6, 1, 2}), actions},
        {bytes({4, 0xff, 0xff, 0xff}), actions},
    };
    for (const auto& [message, why] : messages) {
        SCOPED_TRACE(testing::Message()
                     << std::to_integer<int>(message[0]) << ", " << message.size() << " bytes");
        Island island;
        ASSERT_EQ(island.player.client.phase(), Phase::playing);
        island.send(message);
        EXPECT_FALSE(island.player.client.is_connected());
        EXPECT_EQ(island.player.listener.last_reason, net::DisconnectReason::protocol_error);
        EXPECT_EQ(island.player.client.failure(), "protocol error: " + why);
        EXPECT_TRUE(island.player.client.ticket().empty());
        EXPECT_EQ(island.link.listener.leaves, 1);
    }
}

TEST(ClientEndings, OtherMessagesThatAreMalformedAreIgnored) {
    Island island;
    Client& client = island.player.client;
    ASSERT_EQ(client.phase(), Phase::playing);
    const ecs::Entity player = client.player();
    const Bytes ticket = client.ticket();
    const std::uint32_t tick_us = client.welcome()->tick_us;
    Bytes of_nobody = write_ticket({}, 5), long_ticket = write_ticket({PlayerId{9}, {}}, 5);
    long_ticket.push_back(std::byte{0});
    for (const Bytes& message :
         {Bytes{}, bytes({1, 0, 0, 0, 0}), bytes({7}), bytes({9, 9}), bytes({255}), bytes({2}),
          bytes({2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), write_welcome({7, 7}), bytes({8, 0, 0, 0}),
          bytes({8, 0, 0, 0, 0, 0}), bytes({12}), bytes({12, 1, 2, 3}), bytes({24}), of_nobody, long_ticket,
          bytes({25}), bytes({25, 2})})
        island.send(message);
    EXPECT_TRUE(client.is_connected()) << client.failure();
    EXPECT_EQ(client.phase(), Phase::playing);
    EXPECT_EQ(client.player(), player);
    EXPECT_EQ(client.ticket(), ticket);
    EXPECT_EQ(client.welcome()->tick_us, tick_us) << "only the first welcome counts";
    EXPECT_TRUE(island.player.listener.messages.empty());
    island.send(bytes({0}));
    EXPECT_EQ(island.player.listener.messages, std::vector<std::string>{""}) << "a message of the game";
}

TEST(ClientEndings, AServerThatFillsTheMemoryIsLeftWithAReason) {
    ClientOptions options;
    options.receiver.max_held_bytes = 200'000;
    Island island(options);
    ASSERT_EQ(island.player.client.phase(), Phase::playing);
    for (int i = 0; i < 2'000; ++i) island.link.world.spawn(Doubloon{i}, Replicated{});
    island.link.run(10);
    EXPECT_FALSE(island.player.client.is_connected());
    EXPECT_EQ(island.player.client.failure(),
              "protocol error: the server sends more than this client may hold");
    EXPECT_NE(island.link.listener.last_text.find("more than this client may hold"), std::string::npos);
}

// Goal: no length of a tick that a server states, and no ticks that it jumps over, break the clocks of a
// client.
TEST(ClientEndings, AServerWithAnAbsurdClockIsHarmless) {
    for (const double hz : {1e6, 1e6 / 4294967295.0}) {
        ServerOptions options = Link::default_options();
        options.sender.tick_hz = hz;
        Link link(options, sim::play_schema());
        link.server.on_join([&](PlayerId) {
            return link.world.spawn(sim::Spot{}, sim::Speed{}, sim::Dashes{}, sim::Helm{}, Replicated{});
        });
        Link::Player& player = link.add();
        player.client.on_step(sim::sail);
        link.server.on_step(sim::sail);
        for (int i = 0; i < 120; ++i) {
            player.client.input(sim::Helm{1, 0, true});
            link.step();
        }
        EXPECT_EQ(player.client.phase(), Phase::playing);
        EXPECT_TRUE(player.client.is_connected());
    }
}

// The seat is gone if the server or the player ended the connection for good.
TEST(ClientEndings, TheTicketStaysIfTheServerMayGiveTheSeatBack) {
    using Reason = net::DisconnectReason;
    const std::vector<std::pair<Reason, bool>> reasons = {
        {Reason::kicked, false},    {Reason::replaced, false}, {Reason::protocol_error, false},
        {Reason::shut_down, false}, {Reason::exhausted, true},
    };
    for (const auto& [reason, stays] : reasons) {
        SCOPED_TRACE(net::describe(reason));
        Island island;
        const Bytes ticket = island.player.client.ticket();
        ASSERT_FALSE(ticket.empty());
        island.link.server.host().disconnect(island.link.server.connection(island.peer), reason, "because",
                                             island.link.now);
        island.link.run(3);
        ASSERT_FALSE(island.player.client.is_connected());
        EXPECT_EQ(island.player.client.ticket(), stays ? ticket : Bytes{});
        EXPECT_EQ(island.player.client.failure(), std::string(net::describe(reason)) + ": because");
    }
    Island left;
    left.player.client.disconnect(left.link.now);
    EXPECT_TRUE(left.player.client.ticket().empty());
    EXPECT_EQ(left.player.client.phase(), Phase::disconnected);
}

// Schemas that differ in more than components and structs.
TEST(ClientEndings, ADifferenceWithoutANameIsARefusalToo) {
    Schema other = island_schema();  // outlives its client
    other.quantise_authority();
    Link link(Link::default_options(), island_schema());
    Link::Player& player = link.add(other);
    link.run(20);
    EXPECT_FALSE(player.client.is_connected());
    EXPECT_NE(player.client.failure().find("the schemas differ"), std::string::npos)
        << player.client.failure();
    EXPECT_EQ(link.listener.joins, 0);
}

}  // namespace
}  // namespace shoal::replication::all::client_endings_test
