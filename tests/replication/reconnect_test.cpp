#include "replication/reconnect.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/replication/support/short_timeouts.h"

namespace shoal::replication::impl::reconnect_test {
namespace {

using namespace std::chrono_literals;

/// A server, and a client that comes back with a Reconnect.
struct Ferry {
    explicit Ferry(ServerOptions options = Link::default_options()) : link(short_timeouts(options)) {
        prepare();
    }
    void prepare() {
        link.server.on_join([this](PlayerId) {
            joins += 1;
            return link.world.spawn(Replicated{}, sim::Position{1, 2, 3});
        });
        link.server.on_back([this](PlayerId) { backs += 1; });
    }
    void restart() {
        ServerOptions options = short_timeouts();
        options.host.seed = seed_of(1000 + ++restarts);
        options.host.max_peers = most_peers;
        link.restart(options);
        prepare();
    }
    static ClientOptions client_options() {
        ClientOptions options = short_timeouts_of_client();
        options.net.connect_timeout = 1s;
        return options;
    }
    /// Returns whether the client has not given up after this time.
    bool run(net::Duration time) {
        for (const net::Time end = link.now + time; link.now < end;) {
            link.step();
            if (!reconnect.update(link.now)) return false;
        }
        return true;
    }
    void cut(bool is_cut) {
        link.is_cut = is_cut;
        link.under_way.clear();
    }
    Link link;
    Link::Player& player = link.add(link.schema, client_options());
    std::function<std::optional<net::Servers>()> look_up;
    Reconnect reconnect{player.client, {.time = 5s}, [this] { return look_up ? look_up() : std::nullopt; }};
    int joins = 0, backs = 0;
    std::size_t restarts = 0;
    std::uint32_t most_peers = 16;
};

TEST(Reconnect, ALostConnectionComesBackToItsSeat) {
    Ferry ferry;
    ferry.reconnect.start(ferry.link.wire.address);
    ASSERT_TRUE(ferry.run(1s));
    ASSERT_EQ(ferry.player.client.phase(), Phase::playing);
    for (int round = 1; round <= 3; ++round) {
        ferry.cut(true);
        ASSERT_TRUE(ferry.run(4s));
        EXPECT_NE(ferry.player.client.phase(), Phase::playing);
        EXPECT_EQ(ferry.player.world.size(), 1u) << "the game still shows the world";
        ferry.cut(false);
        ASSERT_TRUE(ferry.run(3s));
        EXPECT_EQ(ferry.player.client.phase(), Phase::playing);
        EXPECT_EQ(ferry.backs, round);
        EXPECT_EQ(ferry.joins, 1);
    }
}

// The server has another address when it is back. The name is looked up only after an attempt has failed.
TEST(Reconnect, LooksTheNameUpAgainWhenTheServerDoesNotAnswer) {
    Ferry ferry;
    const net::Address alive = ferry.link.wire.address, dead = net::Address::ipv4(9, 9, 9, 9, 9);
    net::Address known = alive;
    int looked_up = 0;
    ferry.look_up = [&] {
        looked_up += 1;
        return std::optional<net::Servers>(known);
    };
    ferry.reconnect.start(std::vector{dead, alive});
    ASSERT_TRUE(ferry.run(2s));
    ASSERT_EQ(ferry.player.client.phase(), Phase::playing) << "both addresses are tried";
    ferry.cut(true);
    known = dead;
    ASSERT_TRUE(ferry.run(3s));
    EXPECT_GE(looked_up, 1);
    EXPECT_LE(looked_up, 3);
    ferry.cut(false);
    ASSERT_TRUE(ferry.run(500ms));
    EXPECT_NE(ferry.player.client.phase(), Phase::playing) << "the name stands for another address";
    known = alive;
    ASSERT_TRUE(ferry.run(3s));
    EXPECT_EQ(ferry.player.client.phase(), Phase::playing);
    EXPECT_EQ(ferry.backs, 1);
}

TEST(Reconnect, MakesAPauseBetweenTwoAttempts) {
    Ferry ferry;
    Reconnect reconnect(ferry.player.client, {.time = 60s, .pause = 3s});
    reconnect.start(ferry.link.wire.address);
    ASSERT_TRUE(ferry.run(1s));
    ferry.cut(true);
    const auto wait = [&] {  // until there is no connection, or the attempt failed
        for (int i = 0; i < 150 && ferry.player.client.failure().empty(); ++i) ferry.link.step();
        EXPECT_FALSE(ferry.player.client.failure().empty());
    };
    wait();
    const net::Time first = ferry.link.now;
    EXPECT_TRUE(reconnect.update(first));
    EXPECT_TRUE(ferry.player.client.failure().empty()) << "the first attempt is made at once";
    wait();
    EXPECT_TRUE(reconnect.update(first + 3s - 1us));
    EXPECT_FALSE(ferry.player.client.failure().empty());
    EXPECT_TRUE(reconnect.update(first + 3s));
    EXPECT_TRUE(ferry.player.client.failure().empty());
}

TEST(Reconnect, GivesUpWhenTheTimeIsOver) {
    Ferry ferry;
    ferry.reconnect.start(ferry.link.wire.address);
    ASSERT_TRUE(ferry.run(1s));
    ferry.cut(true);
    ASSERT_TRUE(ferry.run(5s));
    EXPECT_FALSE(ferry.run(3s));
    EXPECT_EQ(ferry.player.client.failure(), net::describe(net::DisconnectReason::unreachable));
}

TEST(Reconnect, AStartAfterItGaveUpHasTheWholeTime) {
    Ferry ferry;
    ferry.reconnect.start(ferry.link.wire.address);
    ASSERT_TRUE(ferry.run(1s));
    const std::vector<std::byte> ticket = ferry.player.client.ticket();
    ferry.cut(true);
    ASSERT_FALSE(ferry.run(10s));
    ferry.reconnect.start(ferry.link.wire.address, ticket);
    EXPECT_TRUE(ferry.run(4s));
    EXPECT_FALSE(ferry.run(6s));
}

TEST(Reconnect, GivesUpAtOnceIfTheSeatIsGone) {
    Ferry ferry;
    ferry.reconnect.start(ferry.link.wire.address);
    ASSERT_TRUE(ferry.run(1s));
    ferry.link.server.host().shut_down("the server ends", ferry.link.now);
    EXPECT_FALSE(ferry.run(200ms));
    EXPECT_NE(ferry.player.client.failure().find("the server ends"), std::string::npos);
    // Without a ticket there is nothing to come back to.
    Ferry alone;
    alone.cut(true);
    alone.reconnect.start(alone.link.wire.address);
    EXPECT_TRUE(alone.run(900ms));
    EXPECT_FALSE(alone.run(500ms));
    // The game may leave without a try.
    Ferry other;
    other.reconnect.start(other.link.wire.address);
    ASSERT_TRUE(other.run(1s));
    other.link.server.disconnect(other.link.listener.last, "enough", other.link.now);
    EXPECT_FALSE(other.run(200ms));
}

TEST(Reconnect, AFullServerIsAskedAgainAfterAPause) {
    ServerOptions options = Link::default_options();
    options.host.max_peers = 1;
    Ferry ferry(options);
    ferry.link.run(60);
    const std::vector<std::byte> ticket = ferry.player.client.ticket();
    ferry.cut(true);
    for (int i = 0; i < 1000 && ferry.link.server.host().peer_count() > 0; ++i) ferry.link.step();
    ferry.cut(false);
    ferry.player.client.disconnect(ferry.link.now);
    Link::Player& other = ferry.link.add(ferry.link.schema, Ferry::client_options());
    ferry.link.run(20);
    ASSERT_TRUE(other.client.is_connected());
    ferry.player.listener.leaves = 0;
    ferry.reconnect.start(ferry.link.wire.address, ticket);
    ASSERT_TRUE(ferry.run(3500ms));
    EXPECT_FALSE(ferry.player.client.is_connected());
    EXPECT_GE(ferry.player.listener.leaves, 3);
    EXPECT_LE(ferry.player.listener.leaves, 5);
    other.client.disconnect(ferry.link.now);
    ASSERT_TRUE(ferry.run(2s));
    EXPECT_EQ(ferry.player.client.phase(), Phase::playing) << ferry.player.client.failure();
}

TEST(Reconnect, AProcessThatStartsWithAnOldTicketJoinsAnew) {
    Ferry ferry;
    const std::vector<std::byte> old = Ticket{PlayerId{7}, {}}.bytes();
    ferry.reconnect.start(ferry.link.wire.address, old);
    ASSERT_TRUE(ferry.run(1s));
    EXPECT_EQ(ferry.player.client.phase(), Phase::playing);
    EXPECT_EQ(ferry.joins, 1);
    EXPECT_NE(ferry.player.client.ticket(), old);
    // Once only: a server that refuses everyone is not asked for ever.
    Ferry closed;
    closed.link.listener.says_no = "members only";
    closed.reconnect.start(closed.link.wire.address, old);
    EXPECT_FALSE(closed.run(1s));
    EXPECT_NE(closed.player.client.failure().find("members only"), std::string::npos);
}

// A server that was restarted knows no ticket: the client joins as a new player, whenever that happens.
TEST(Reconnect, AfterARestartOfTheServerThePlayerJoinsAnew) {
    struct Case {
        const char* name;
        net::Duration until_first;           // from the start to the first restart
        net::Duration away;                  // the network is cut for this long before each restart
        std::vector<net::Duration> further;  // from one restart to the next
        net::Duration stopped = {};          // no server answers for this long after the last restart
        bool has_dead_address = false;
    };
    const std::vector<Case> cases = {
        {"while connecting", 20ms, {}, {}},
        {"while loading", 60ms, {}, {}},
        {"while playing", 1s, {}, {}},
        {"while playing, seen by a time-out", 1s, 0s, {}, 2s},
        {"while away", 1s, 2s, {}},
        {"with several addresses", 1s, {}, {}, {}, true},
        {"twice, while it plays", 1s, {}, {3s}},
        {"twice, while it comes back", 1s, {}, {20ms}},
        {"twice, while it joins anew", 1s, {}, {60ms}},
        {"many times", 1s, {}, {30ms, 50ms, 70ms, 90ms, 110ms, 2s, 130ms, 150ms}},
        {"twice, and away", 1s, 2s, {1s}, 1s},
    };
    for (const Case& test : cases) {
        SCOPED_TRACE(test.name);
        Ferry ferry;
        const net::Address alive = ferry.link.wire.address;
        std::vector<net::Address> addresses{alive};
        if (test.has_dead_address) addresses.insert(addresses.begin(), net::Address::ipv4(9, 9, 9, 9, 9));
        ferry.reconnect.start(addresses);
        ASSERT_TRUE(ferry.run(test.until_first));
        const bool has_played = ferry.player.client.phase() == Phase::playing;
        const auto restart = [&] {
            ferry.cut(true);
            ASSERT_TRUE(ferry.run(test.away));
            ferry.cut(false);
            ferry.restart();
        };
        restart();
        for (const net::Duration time : test.further) {
            ASSERT_TRUE(ferry.run(time)) << ferry.player.client.failure();
            restart();
        }
        ferry.cut(true);
        ASSERT_TRUE(ferry.run(test.stopped)) << ferry.player.client.failure();
        ferry.cut(false);
        const bool goes_on = ferry.run(4500ms);
        if (!has_played && !goes_on) continue;  // it never had a seat
        ASSERT_TRUE(goes_on) << ferry.player.client.failure();
        EXPECT_EQ(ferry.player.client.phase(), Phase::playing) << ferry.player.client.failure();
        EXPECT_EQ(ferry.player.world.size(), 1u) << "nothing is left of the former server";
        EXPECT_EQ(ferry.backs, 0);
        EXPECT_TRUE(ferry.link.is_equal(ferry.player));
    }
}

TEST(Reconnect, AfterARestartAFinalRefusalEndsWithItsText) {
    for (const net::Duration away : {0s, 2s}) {
        Ferry ferry;
        ferry.reconnect.start(ferry.link.wire.address);
        ASSERT_TRUE(ferry.run(1s));
        ferry.cut(true);
        ASSERT_TRUE(ferry.run(away));
        ferry.cut(false);
        ferry.link.listener.says_no = "members only";
        ferry.restart();
        EXPECT_FALSE(ferry.run(4s));
        EXPECT_EQ(ferry.player.client.failure(), "refused: members only");
        EXPECT_TRUE(ferry.player.client.is_refused());
    }
    Ferry full;  // a full server is not final
    full.reconnect.start(full.link.wire.address);
    ASSERT_TRUE(full.run(1s));
    full.most_peers = 1;
    full.restart();
    Link::Player& other = full.link.add(full.link.schema, Ferry::client_options());
    full.link.run(20);
    ASSERT_TRUE(other.client.is_connected());
    ASSERT_TRUE(full.run(2s));
    EXPECT_NE(full.player.client.phase(), Phase::playing);
    other.client.disconnect(full.link.now);
    ASSERT_TRUE(full.run(2s));
    EXPECT_EQ(full.player.client.phase(), Phase::playing) << full.player.client.failure();
}

}  // namespace
}  // namespace shoal::replication::impl::reconnect_test
