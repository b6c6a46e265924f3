// Players that lose their connection and come back to their seats.

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/replication/support/short_timeouts.h"

namespace shoal::replication::all::resume_test {
namespace {

using namespace std::chrono_literals;
using sim::Position;

/// A server that notes what its players do.
struct Bay {
    explicit Bay(const ServerOptions& options = short_timeouts()) : link(options) {
        link.server.on_join([this](PlayerId player) {
            note("join", player);
            return link.world.spawn(Position{9, 0, 0}, Replicated{});
        });
        link.server.on_leave([this](PlayerId player) {
            EXPECT_TRUE(link.server.player(player));
            link.server.disconnect(player, "it leaves anyway", link.now);
            note("leave", player);
        });
        link.server.on_away([this](PlayerId player) {
            EXPECT_EQ(link.server.phase(player), Phase::away);
            note("away", player);
        });
        link.server.on_back([this](PlayerId player) {
            EXPECT_EQ(link.server.phase(player), Phase::playing);
            note("back", player);
        });
    }
    void note(const char* what, PlayerId player) {
        notes += (notes.empty() ? "" : " ") + std::string(what);
        id = player;
    }
    Link::Player& add() { return link.add(link.schema, short_timeouts_of_client()); }
    std::vector<ecs::Entity> spawn(int count) {
        std::vector<ecs::Entity> entities;
        for (int i = 0; i < count; ++i) entities.push_back(link.world.spawn(Replicated{}, Position{1, 2, 3}));
        return entities;
    }
    /// Cuts all connections, until both sides notice.
    void cut(int ticks = 90) { link.cut(ticks); }
    void connect(Link::Player& player, std::span<const std::byte> ticket) {
        player.client.connect(link.wire.address, ticket);
    }
    void connect(Link::Player& player) { connect(player, player.client.ticket()); }

    Link link;
    std::string notes;
    PlayerId id;
};

// Goal: a client whose own connection timed out does not leave. Method: the client hears nothing more; the
// server hears the client, also its disconnect.
TEST(Resume, AClientThatHeardNothingKeepsItsSeat) {
    ServerOptions slow = short_timeouts();
    slow.host.connection.timeout = 10s;
    Bay bay(slow);
    Link& link = bay.link;
    Link::Player& player = bay.add();
    link.run(60);
    ASSERT_EQ(player.client.phase(), Phase::playing);
    link.deaf = player.wire.address;
    link.run(90);
    link.deaf.reset();
    EXPECT_EQ(player.listener.last_reason, net::DisconnectReason::timed_out);
    EXPECT_EQ(bay.notes, "join away");
    EXPECT_EQ(link.server.phase(bay.id), Phase::away);
    bay.connect(player);
    link.run(60);
    EXPECT_EQ(player.client.phase(), Phase::playing);
    EXPECT_EQ(bay.notes, "join away back");
}

TEST(Resume, AClientThatKeptItsWorldGetsADelta) {
    Bay bay;
    Link& link = bay.link;
    std::vector<ecs::Entity> entities = bay.spawn(300);
    Link::Player& player = bay.add();
    EXPECT_TRUE(player.client.ticket().empty());
    link.run(60);
    ASSERT_EQ(player.client.phase(), Phase::playing);
    const std::vector<std::byte> ticket = player.client.ticket();
    ASSERT_FALSE(ticket.empty());
    const PlayerId id = bay.id;
    const ecs::Entity ours = player.client.player();
    const auto before = link.server.peer_stats(id);
    EXPECT_EQ(link.server.connection(id), id);

    bay.cut();
    EXPECT_EQ(bay.notes, "join away");
    EXPECT_EQ(player.client.phase(), Phase::disconnected);
    EXPECT_EQ(player.client.ticket(), ticket) << "it is kept";
    EXPECT_EQ(link.server.phase(id), Phase::away);
    EXPECT_FALSE(link.server.connection(id));
    EXPECT_TRUE(link.server.player(id)) << "its entity stays";
    EXPECT_EQ(link.server.owner(link.server.player(id)), id);
    EXPECT_EQ(link.server.send_message(id, net::Channel::reliable, {}), net::SendResult::not_connected);
    int peers = 0;
    link.server.for_each_peer([&](PlayerId) { ++peers; });
    EXPECT_EQ(peers, 0);
    EXPECT_TRUE(link.server.is_settled());
    link.world.set(entities[5], Position{8, 8, 8});
    link.world.destroy(entities[6]);
    entities[6] = link.world.spawn(Replicated{}, Position{7, 7, 7});
    link.run(10);

    bay.connect(player);
    player.client.update(link.now);
    EXPECT_EQ(player.client.phase(), Phase::resuming);
    link.run(60);
    EXPECT_EQ(player.client.phase(), Phase::playing);
    EXPECT_EQ(bay.notes, "join away back");
    EXPECT_EQ(bay.id, id) << "the same player";
    EXPECT_EQ(player.client.player(), ours) << "the same replica";
    EXPECT_NE(link.server.connection(id), id);
    EXPECT_NE(player.client.ticket(), ticket);
    EXPECT_TRUE(link.is_equal(player));
    EXPECT_LE(link.server.peer_stats(id).full_records, before.full_records + 1) << "only the new entity";
    EXPECT_EQ(player.client.receiver().stats().refused_packets, 0u);
    EXPECT_TRUE(player.client.receiver().complete());
    EXPECT_TRUE(link.server.sender().is_consistent());
    EXPECT_TRUE(player.client.receiver().is_consistent());
    EXPECT_EQ(link.listener.joins, 1);
    EXPECT_EQ(link.listener.leaves, 0);
    // A second time, and messages arrive.
    bay.cut();
    bay.connect(player);
    link.run(60);
    EXPECT_EQ(bay.notes, "join away back away back");
    EXPECT_EQ(link.server.send_message(id, net::Channel::reliable, {}), net::SendResult::queued);
    EXPECT_EQ(player.client.send_message(net::Channel::reliable, {}), net::SendResult::queued);
    link.run(5);
    EXPECT_EQ(player.listener.messages.size(), 1u);
    EXPECT_EQ(link.listener.last, id) << "the handler gets the player's id";
    link.server.disconnect(id, "enough", link.now);
    link.run(5);
    EXPECT_EQ(bay.notes, "join away back away back leave");
    EXPECT_TRUE(player.client.ticket().empty());
    EXPECT_EQ(link.server.phase(id), Phase::disconnected);
}

// Trap 47: the server does not know what the client got last.
TEST(Resume, Trap47DeltasDecodeAfterAcksWereLostWithTheConnection) {
    Bay bay;
    Link& link = bay.link;
    std::vector<ecs::Entity> entities = bay.spawn(40);
    Link::Player& player = bay.add();
    link.run(60);
    ASSERT_EQ(player.client.phase(), Phase::playing);
    for (int round = 0; round < 5; ++round) {
        // The server's packets arrive, the client's do not. A changes to B, and back to A.
        for (int tick = 0; tick < 6; ++tick) {
            const float x = tick % 2 == 0 ? 20 : 1;
            for (std::size_t i = 0; i < 20; ++i) link.world.set(entities[i], Position{x, 2, 3});
            if (tick == 2) link.world.destroy(entities[20 + static_cast<std::size_t>(round)]);
            link.now += std::chrono::microseconds(16'667);
            link.server.tick(link.now);
            link.exchange();
            player.client.update(link.now);
            link.under_way.clear();
        }
        bay.connect(player);
        for (int tick = 0; tick < 120 && player.client.phase() != Phase::playing; ++tick) link.step();
        ASSERT_EQ(player.client.phase(), Phase::playing);
        link.run(30);
        EXPECT_TRUE(link.is_equal(player)) << "round " << round;
        EXPECT_TRUE(link.server.sender().is_consistent());
        EXPECT_TRUE(player.client.receiver().is_consistent());
    }
    EXPECT_EQ(player.client.receiver().stats().refused_packets, 0u);
    EXPECT_EQ(player.client.receiver().stats().malformed_packets, 0u);
    EXPECT_EQ(bay.notes, "join away back away back away back away back away back");
}

// Trap 49, without actions.
TEST(Resume, Trap49AnotherProcessGetsASnapshotAndTheNewestConnectionWins) {
    Bay bay;
    Link& link = bay.link;
    bay.spawn(100);
    Link::Player& first = bay.add();
    link.run(60);
    const std::vector<std::byte> ticket = first.client.ticket();
    const PlayerId id = bay.id;
    const ecs::Entity ship = link.server.player(id);
    const ecs::Entity gift = link.world.spawn(Replicated{}, Position{4, 4, 4});
    EXPECT_TRUE(link.server.give(id, gift));
    link.run(5);
    Link::Player& second = bay.add();
    bay.connect(second, ticket);
    std::vector<Phase> phases;
    for (int i = 0; i < 60; ++i) {
        link.step();
        if (phases.empty() || phases.back() != second.client.phase()) phases.push_back(second.client.phase());
    }
    EXPECT_EQ(phases.front(), Phase::resuming);
    EXPECT_EQ(phases.back(), Phase::playing);
    EXPECT_EQ(bay.notes, "join away back");
    EXPECT_EQ(bay.id, id);
    EXPECT_FALSE(first.client.is_connected());
    EXPECT_NE(first.client.failure().find("replaced"), std::string::npos) << first.client.failure();
    EXPECT_TRUE(first.client.ticket().empty()) << "the two do not fight for the seat";
    EXPECT_TRUE(link.is_equal(second));
    EXPECT_EQ(link.server.player(id), ship);
    EXPECT_EQ(link.server.owner(gift), id);
    EXPECT_EQ(second.client.player(), second.client.receiver().entity(link.server.assign_net_id(ship)));
    // The first one still has a world, but the server knows another state of it: it loads anew, and keeps
    // nothing.
    bay.connect(first, ticket);
    link.run(60);
    EXPECT_EQ(first.client.phase(), Phase::playing) << first.client.failure();
    EXPECT_TRUE(link.is_equal(first));
    EXPECT_FALSE(second.client.is_connected());
    EXPECT_EQ(first.client.receiver().stats().malformed_packets, 0u);
    EXPECT_TRUE(link.server.sender().is_consistent());
    EXPECT_EQ(link.listener.joins, 1);
}

// Goal: a full server gives a player whose process ended its seat back at once, also at another machine; a
// connection that is alive keeps it.
TEST(Resume, ATicketReplacesASilentConnectionInAFullServer) {
    for (const bool is_alive : {false, true}) {
        ServerOptions options = short_timeouts();
        options.host.max_peers = 1;
        Bay bay(options);
        Link& link = bay.link;
        bay.add();
        link.run(60);
        const std::vector<std::byte> ticket = link.players[0]->client.ticket();
        Link::Player& second = bay.add();
        if (!is_alive) link.players.erase(link.players.begin());
        second.client.disconnect(link.now);
        link.run(35);  // more than two keep-alive intervals, less than the timeout
        bay.connect(second, ticket);
        link.run(20);
        EXPECT_EQ(second.client.phase() == Phase::playing, !is_alive) << second.client.failure();
        EXPECT_EQ(bay.notes, is_alive ? "join" : "join away back");
    }
}

TEST(Resume, TwoProcessesWithOneTicketDoNotMixTheirViews) {
    Bay bay;
    Link& link = bay.link;
    std::vector<ecs::Entity> entities = bay.spawn(50);
    Link::Player& first = bay.add();
    link.run(60);
    const std::vector<std::byte> ticket = first.client.ticket();
    bay.cut();
    ASSERT_FALSE(first.client.is_connected());
    ASSERT_EQ(first.client.ticket(), ticket);
    Link::Player& second = bay.add();
    bay.connect(second, ticket);
    link.run(40);
    ASSERT_EQ(second.client.phase(), Phase::playing);
    link.world.set(entities[5], Position{8, 8, 8});  // only the second one acknowledges this
    link.world.destroy(entities[6]);
    link.world.spawn(Replicated{}, Position{7, 7, 7});
    link.run(20);
    // The ticket that was used last still works, but the world of the first client does not count any more.
    bay.connect(first, ticket);
    link.run(60);
    EXPECT_EQ(first.client.phase(), Phase::playing);
    EXPECT_TRUE(link.is_equal(first));
    EXPECT_EQ(link.server.peer_stats(bay.id).full_records, 51u) << "a snapshot";
    EXPECT_EQ(first.client.receiver().stats().refused_packets, 0u);
}

TEST(Resume, Trap48AGuessedOrOldTicketIsRefusedAndTheSeatLivesOn) {
    Bay bay;
    Link& link = bay.link;
    Link::Player& player = bay.add();
    link.run(40);
    const std::vector<std::byte> old = player.client.ticket();
    const PlayerId id = bay.id;
    for (int i = 0; i < 2; ++i) {  // the second new connection uses a newer ticket
        bay.connect(player);
        link.run(40);
        ASSERT_EQ(player.client.phase(), Phase::playing);
    }
    const std::string before = bay.notes;
    const net::PeerId connection = link.server.connection(id);
    std::vector<std::byte> guessed = player.client.ticket();
    guessed[19] ^= std::byte{1};
    std::vector<std::byte> of_nobody = player.client.ticket();
    of_nobody[0] ^= std::byte{1};
    for (const auto& ticket : {old, guessed, of_nobody}) {
        Link::Player& thief = bay.add();
        bay.connect(thief, ticket);
        link.run(20);
        EXPECT_FALSE(thief.client.is_connected());
        EXPECT_NE(thief.client.failure().find("the ticket is not valid"), std::string::npos)
            << thief.client.failure();
        EXPECT_TRUE(thief.client.ticket().empty());
        EXPECT_EQ(link.server.connection(id), connection);
        // Without a ticket it joins as anyone.
        thief.client.connect(link.wire.address, thief.client.ticket());
        link.run(20);
        EXPECT_EQ(thief.client.phase(), Phase::playing);
        EXPECT_NE(bay.id, id);
        thief.client.disconnect(link.now);
        link.run(20);
    }
    EXPECT_EQ(bay.notes, before + " join leave join leave join leave");
    EXPECT_EQ(player.client.phase(), Phase::playing);
    EXPECT_TRUE(link.is_equal(player));
}

TEST(Resume, APlayerThatDoesNotComeBackLeaves) {
    Bay bay;
    Link& link = bay.link;
    Link::Player& player = bay.add();
    link.run(40);
    const PlayerId id = bay.id;
    const ecs::Entity ship = link.server.player(id);
    bay.cut(5 * 60);
    EXPECT_EQ(bay.notes, "join away");
    bay.cut(2 * 60);
    EXPECT_EQ(bay.notes, "join away leave");
    EXPECT_FALSE(link.world.is_alive(ship));
    EXPECT_EQ(link.listener.leaves, 1);
    EXPECT_EQ(link.server.phase(id), Phase::disconnected);
    bay.connect(player);
    link.run(40);
    EXPECT_FALSE(player.client.is_connected());
    EXPECT_EQ(bay.notes, "join away leave");
    EXPECT_TRUE(link.server.sender().is_consistent());
}

TEST(Resume, OnlyALostConnectionKeepsTheSeat) {
    Bay bay;
    Link& link = bay.link;
    Link::Player& player = bay.add();
    link.run(40);
    ASSERT_FALSE(player.client.ticket().empty());
    player.client.disconnect(link.now);
    link.run(5);
    EXPECT_EQ(bay.notes, "join leave");
    EXPECT_TRUE(player.client.ticket().empty());
    // The game can end the wait.
    Link::Player& other = bay.add();
    link.run(40);
    bay.cut();
    EXPECT_EQ(bay.notes, "join leave join away");
    link.server.disconnect(bay.id, "gone", link.now);
    EXPECT_EQ(bay.notes, "join leave join away leave");
    bay.connect(other);
    link.run(40);
    EXPECT_FALSE(other.client.is_connected());
}

TEST(Resume, TheReasonThatAConnectionEndedDecidesWhetherTheSeatIsKept) {
    using Reason = net::DisconnectReason;
    for (const auto& [reason, stays] :
         {std::pair{Reason::timed_out, true}, std::pair{Reason::replaced, true},
          std::pair{Reason::exhausted, true}, std::pair{Reason::kicked, false},
          std::pair{Reason::protocol_error, false}, std::pair{Reason::shut_down, false}}) {
        SCOPED_TRACE(net::describe(reason));
        Bay bay;
        bay.add();
        bay.link.run(40);
        ASSERT_EQ(bay.notes, "join");
        bay.link.server.host().disconnect(bay.link.server.connection(bay.id), reason, "", bay.link.now);
        EXPECT_EQ(bay.link.server.phase(bay.id), stays ? Phase::away : Phase::disconnected);
        EXPECT_EQ(bay.notes, stays ? "join away" : "join leave");
    }
}

TEST(Resume, WithoutAResumeTimeALostPlayerLeaves) {
    ServerOptions options = short_timeouts();
    options.join.resume_time = {};
    Bay bay(options);
    Link::Player& player = bay.add();
    bay.link.run(40);
    EXPECT_EQ(player.client.phase(), Phase::playing);
    EXPECT_TRUE(player.client.ticket().empty());
    bay.cut();
    EXPECT_EQ(bay.notes, "join leave");
}

TEST(Resume, APlayerThatHasNotPlayedYetLeaves) {
    Bay bay;
    ClientOptions options;
    options.is_ready_at_once = false;
    bay.link.add(bay.link.schema, options);
    bay.link.run(20);
    ASSERT_EQ(bay.link.listener.joins, 1);
    bay.cut();
    EXPECT_EQ(bay.notes, "");
    EXPECT_EQ(bay.link.listener.leaves, 1);
}

TEST(Resume, TheOneThatIsAwayLongestMakesRoom) {
    ServerOptions options = short_timeouts();
    options.host.max_peers = 2;
    Bay bay(options);
    for (int i = 0; i < 3; ++i) {
        bay.add();
        bay.link.run(40);
        bay.cut();
        bay.link.players.pop_back();
    }
    EXPECT_EQ(bay.notes, "join away join away join leave away");
}

// Goal: while a player loses its connection, and another one leaves to make room for it, the game may end it.
TEST(Resume, TheOneThatGoesAwayMayBeEndedByOnLeaveOfTheOneThatMakesRoom) {
    ServerOptions options = short_timeouts();
    options.host.max_peers = 2;
    Bay bay(options);
    std::vector<PlayerId> ids, left;
    bay.link.server.on_leave([&](PlayerId player) {
        left.push_back(player);
        if (left.size() == 1) bay.link.server.disconnect(ids.back(), "enough", bay.link.now);
    });
    for (int i = 0; i < 3; ++i) {
        bay.add();
        bay.link.run(40);
        ids.push_back(bay.id);
        bay.cut();
        bay.link.players.pop_back();
    }
    EXPECT_EQ(left, (std::vector{ids[0], ids[2]}));
    EXPECT_EQ(bay.link.server.phase(ids[2]), Phase::disconnected);
    EXPECT_EQ(bay.link.server.phase(ids[1]), Phase::away);
}

// The order of the connections is another one than that of the losses.
TEST(Resume, OfThoseThatAreAwayTheOneThatIsAwayLongestLeaves) {
    ServerOptions options = short_timeouts();
    options.host.max_peers_per_ip = 0;
    options.host.max_peers = 3;
    options.join.resume_time = 60s;
    Bay bay(options);
    Link& link = bay.link;
    std::vector<PlayerId> ids;
    const auto add = [&] {
        bay.add();
        link.run(40);
        ids.push_back(bay.id);
    };
    const auto lose = [&](std::size_t player) {
        link.players.erase(link.players.begin() + static_cast<std::ptrdiff_t>(player));
        link.run(90);
    };
    for (int i = 0; i < 3; ++i) add();
    lose(1);
    lose(0);
    lose(0);
    for (const PlayerId id : ids) EXPECT_EQ(link.server.phase(id), Phase::away);
    add();
    lose(0);
    EXPECT_EQ(link.server.phase(ids[1]), Phase::disconnected);
    for (const std::size_t i : {0u, 2u, 3u}) EXPECT_EQ(link.server.phase(ids[i]), Phase::away) << i;
    EXPECT_EQ(link.listener.last_reason, net::DisconnectReason::timed_out);
    link.server.disconnect(ids[0], "enough", link.now);
    EXPECT_EQ(link.listener.last_reason, net::DisconnectReason::kicked);
    EXPECT_EQ(link.listener.last_text, "enough");
}

TEST(Resume, APlayerMayGetAnotherEntityWhileItIsAway) {
    Bay bay;
    Link& link = bay.link;
    Link::Player& player = bay.add();
    link.run(40);
    const PlayerId id = bay.id;
    bay.cut();
    const ecs::Entity ship = link.world.spawn(Position{3, 3, 3}, Replicated{});
    link.server.set_player(id, ship);
    EXPECT_EQ(link.server.player(id), ship);
    link.run(5);
    bay.connect(player);
    link.run(40);
    EXPECT_EQ(player.client.phase(), Phase::playing);
    ASSERT_TRUE(player.client.player());
    EXPECT_EQ(player.world.get<Position>(player.client.player()).x, 3);
}

}  // namespace
}  // namespace shoal::replication::all::resume_test
