// Messages and payloads of a hostile or broken server, and what stays when a connection ends.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "replication/message.h"
#include "tests/replication/support/link.h"
#include "tests/sim/play_session.h"

namespace shoal::replication::impl::client_endings_test {
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

TEST(ClientEndings, AMalformedMessageEndsTheConnectionWhicheverItIs) {
    const auto longer = [](Bytes message) {
        message.push_back(std::byte{0});
        return message;
    };
    const ActionResult wordy{ActionStream::ordered, 0, false, {}, std::string(65, 'a')};
    const ActionResult fertile{ActionStream::ordered, 0, true, std::vector<NetId>(33, 9), ""};
    const std::vector<Bytes> messages = {
        Bytes{},
        bytes({3}),                 // without its stream
        bytes({3, 0}),              // too few bits
        bytes({3, 0, 0xff}),        // 7 is over 5, or the padding is not 0
        bytes({3, 0, 0, 0, 0, 0}),  // too long
        bytes({4}),
        bytes({4, 0xff, 0xff, 0xff}),
        longer(write_control(ActionResults{})),
        write_control(ActionResults{5, {wordy}}),
        write_control(ActionResults{5, {fertile}}),
        write_control(ActionResults{5, std::vector<ActionResult>(513)}),
        bytes({5}),
        longer(write_event(island_schema(), {1, {}, 0, 0, {0}})),
        bytes({6}),
        bytes({6, 1, 2}),
        longer(write_control(Gone{{7}})),
        write_control(Rebase{{0}}),  // a client says this
        write_control(CanLoad{}),
        bytes({9, 9}),
        bytes({255}),
        bytes({2}),
        write_control(Welcome{7, 7}),  // the second one
        bytes({8, 0, 0, 0}),
        longer(write_control(PlayerEntity{})),
        bytes({12}),
        bytes({12, 1, 2, 3}),
        write_control(OwnedRefusal{}),  // of a component that the player does not decide
        bytes({13}),
        write_control(NextModel{1, {1, 2, 3}}),
        write_control(HasModel{1}),  // a client says this
        bytes({24}),
        write_control(NextTicket{{}, 5}),  // of nobody
        longer(write_control(NextTicket{{PlayerId{9}, {}}, 5})),
        bytes({25}),
        write_control(Resumed{}),  // it did not ask
    };
    for (const Bytes& message : messages) {
        SCOPED_TRACE(testing::Message() << (message.empty() ? -1 : std::to_integer<int>(message[0])) << ", "
                                        << message.size() << " bytes");
        Island island;
        ASSERT_EQ(island.player.client.phase(), Phase::playing);
        island.send(message);
        EXPECT_FALSE(island.player.client.is_connected());
        EXPECT_EQ(island.player.listener.last_reason, net::DisconnectReason::protocol_error);
        EXPECT_EQ(island.player.client.failure(), "protocol error: malformed message");
        EXPECT_TRUE(island.player.client.ticket().empty());
        EXPECT_EQ(island.link.listener.leaves, 1);
    }
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
}  // namespace shoal::replication::impl::client_endings_test
