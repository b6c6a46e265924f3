// Which tickets are valid, and tickets in the wrong hands.

#include "replication/play/ticket.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "tests/replication/support/short_timeouts.h"

namespace shoal::replication::impl::ticket_test {
namespace {

using namespace std::chrono_literals;

/// A server with a resume time of 2 s, and connections that time out after 1 s.
struct Quay {
    explicit Quay(ServerOptions options = Link::default_options()) : link(shorten(options)) {
        link.server.on_join([this](PlayerId player) {
            id = player;
            return link.world.spawn(Replicated{}, sim::Position{1, 2, 3});
        });
    }
    static ServerOptions shorten(ServerOptions options) {
        options = short_timeouts(options);
        options.join.resume_time = 2s;
        return options;
    }
    Link::Player& add() { return link.add(link.schema, short_timeouts_of_client()); }
    /// Lets a thief try a ticket, and returns why it fails.
    std::string attempt(std::span<const std::byte> ticket) {
        Link::Player& thief = add();
        thief.client.connect(link.wire.address, ticket);
        link.run(20);
        EXPECT_FALSE(thief.client.is_connected());
        return thief.client.failure();
    }
    Link link;
    PlayerId id;
};

TEST(SeatKey, AcceptsTheNewestTicketAndTheOneThatWasUsedLast) {
    net::impl::Entropy entropy(seed_of(3));
    SeatKey key;
    EXPECT_EQ(Ticket::kBytes, Ticket{}.bytes().size());
    key.issue(entropy);
    const Ticket first{PlayerId{7}, key.newest()};
    EXPECT_EQ(Ticket::from(first.bytes()), first);
    for (const std::size_t size : {0u, 19u, 21u})
        EXPECT_FALSE(Ticket::from(std::vector<std::byte>(size, std::byte{1}))) << size;
    EXPECT_FALSE(Ticket::from(Ticket{}.bytes())) << "nobody's";
    EXPECT_TRUE(key.accepts(first));
    EXPECT_FALSE(key.accepts({PlayerId{7}, {}}));
    key.use(first, entropy);
    const Ticket second{PlayerId{7}, key.newest()};
    EXPECT_NE(first, second);
    EXPECT_TRUE(key.accepts(first)) << "the client may not have the second one";
    EXPECT_TRUE(key.accepts(second));
    key.use(first, entropy);
    EXPECT_TRUE(key.accepts(first));
    EXPECT_FALSE(key.accepts(second)) << "there is a newer one";
    const Ticket third{PlayerId{7}, key.newest()};
    key.use(third, entropy);
    EXPECT_FALSE(key.accepts(first));
    EXPECT_TRUE(key.accepts(third));
}

TEST(SeatKey, EveryByteOfASecretIsRandom) {
    net::impl::Entropy entropy(seed_of(3));
    std::array<std::byte, 16> any{};
    for (int i = 0; i < 20; ++i) {
        SeatKey key;
        key.issue(entropy);
        for (std::size_t at = 0; at < any.size(); ++at) any[at] |= key.newest()[at];
    }
    for (const std::byte byte : any) EXPECT_NE(byte, std::byte{0});
}

TEST(SeatKey, KnowsTheTicketThatWasValidUntilTheLastUse) {
    net::impl::Entropy entropy(seed_of(3));
    SeatKey key;
    key.issue(entropy);
    const Ticket first{PlayerId{7}, key.newest()};
    key.use(first, entropy);
    const Ticket second{PlayerId{7}, key.newest()};
    key.use(second, entropy);
    EXPECT_TRUE(key.is_outdated(first));
    EXPECT_FALSE(key.accepts(first));
    const Ticket unused{PlayerId{7}, key.newest()};
    EXPECT_FALSE(key.is_outdated(second));
    EXPECT_FALSE(key.is_outdated(unused));
    key.use(second, entropy);  // the client did not receive the newest one
    EXPECT_TRUE(key.is_outdated(unused));
    EXPECT_FALSE(key.accepts(unused));
    EXPECT_FALSE(key.is_outdated(first)) << "it became invalid earlier";
    EXPECT_FALSE(key.is_outdated(second));
    EXPECT_FALSE(key.is_outdated({PlayerId{7}, key.newest()}));
}

TEST(Tickets, AreCountedByTheReasonWhyTheyAreRefused) {
    Quay quay;
    Link& link = quay.link;
    Link::Player& player = quay.add();
    link.run(40);
    const PlayerId id = quay.id;
    const std::vector<std::byte> first = player.client.ticket();
    std::vector<std::byte> guessed = first, of_nobody = first;
    guessed[19] ^= std::byte{1};
    of_nobody[0] ^= std::byte{1};
    EXPECT_EQ(quay.attempt(guessed), "refused: the ticket is not valid");
    EXPECT_GT(link.server.stats().tickets.wrong_secrets, 0u);
    EXPECT_EQ(link.server.stats().tickets.unknown_seats, 0u);
    EXPECT_EQ(quay.attempt(of_nobody), "refused: the ticket is not valid");
    EXPECT_GT(link.server.stats().tickets.unknown_seats, 0u);
    EXPECT_EQ(link.server.stats().tickets.outdated, 0u);
    for (int i = 0; i < 2; ++i) {
        player.client.connect(link.wire.address, player.client.ticket());
        link.run(40);
        ASSERT_EQ(player.client.phase(), Phase::playing);
        EXPECT_EQ(link.server.stats().tickets.used, static_cast<std::uint64_t>(i) + 1);
    }
    const TicketStats before = link.server.stats().tickets;
    EXPECT_EQ(quay.attempt(first), "refused: the ticket is not valid") << "it was used, and then a newer one";
    EXPECT_GT(link.server.stats().tickets.outdated, before.outdated);
    EXPECT_EQ(link.server.stats().tickets.wrong_secrets, before.wrong_secrets);
    EXPECT_EQ(link.server.phase(id), Phase::playing);
    // The player does not come back in time.
    const std::vector<std::byte> late = player.client.ticket();
    link.cut(4 * 60);
    ASSERT_EQ(link.server.phase(id), Phase::disconnected);
    EXPECT_EQ(quay.attempt(late), "refused: the ticket is not valid");
    EXPECT_GT(link.server.stats().tickets.unknown_seats, before.unknown_seats);
    EXPECT_EQ(link.server.stats().tickets.used, 2u);
    EXPECT_EQ(link.server.stats().tickets.wrong_players, 0u);
}

TEST(Tickets, AStolenOneNeedsAConnectTokenOfTheSamePlayer) {
    ServerOptions options = Link::default_options();
    const net::SecretKey backend(seed_of(9));
    options.host.tokens.backend_key = backend;
    options.host.tokens.servers = {net::Address::ipv4(10, 0, 0, 1, 7000)};
    Quay quay(options);
    Link& link = quay.link;
    std::uint64_t seed = 10;
    const auto token_of = [&](std::uint64_t client_id) {
        const net::TokenRequest request{
            5, client_id, 1000, options.host.tokens.servers, {}, net::public_key(net::impl::server_key())};
        return *net::issue_token(request, backend, seed_of(seed++));
    };
    Link::Player& player = quay.add();
    player.client.connect(link.wire.address, token_of(42));
    link.run(40);
    ASSERT_EQ(player.client.phase(), Phase::playing);
    const PlayerId id = quay.id;
    const net::PeerId connection = link.server.connection(id);
    const std::vector<std::byte> ticket = player.client.ticket();
    Link::Player& thief = quay.add();
    thief.client.connect(link.wire.address, token_of(43), ticket);
    link.run(20);
    EXPECT_EQ(thief.client.failure(), "refused: the ticket is not valid");
    EXPECT_EQ(link.server.stats().tickets.wrong_players, 1u);
    EXPECT_EQ(link.server.connection(id), connection);
    EXPECT_NE(quay.attempt(ticket).find("token"), std::string::npos) << "without a token";
    EXPECT_EQ(link.server.connection(id), connection);
    EXPECT_EQ(player.client.phase(), Phase::playing);
    // The player itself, in another process: a new token, and the ticket from a file.
    Link::Player& again = quay.add();
    again.client.connect(link.wire.address, token_of(42), ticket);
    link.run(60);
    EXPECT_EQ(again.client.phase(), Phase::playing) << again.client.failure();
    EXPECT_EQ(quay.id, id);
    EXPECT_FALSE(player.client.is_connected());
    EXPECT_EQ(link.server.stats().tickets.used, 1u);
    // The seat of a player that is away needs the token, too.
    const std::vector<std::byte> newest = again.client.ticket();
    link.cut(75);
    ASSERT_EQ(link.server.phase(id), Phase::away);
    thief.client.connect(link.wire.address, token_of(43), newest);
    link.run(20);
    EXPECT_EQ(thief.client.failure(), "refused: the ticket is not valid");
    EXPECT_EQ(link.server.stats().tickets.wrong_players, 2u);
    again.client.connect(link.wire.address, token_of(42), newest);
    link.run(30);
    EXPECT_EQ(again.client.phase(), Phase::playing) << again.client.failure();
    EXPECT_EQ(link.server.phase(id), Phase::playing);
}

// The game ends the seat after any datagram of the handshake.
TEST(Tickets, ASeatThatEndsDuringTheHandshakeIsNotTaken) {
    int refused = 0, taken = 0;
    for (int after = 1; after <= 10; ++after) {
        SCOPED_TRACE(after);
        Quay quay;
        Link& link = quay.link;
        Link::Player& player = quay.add();
        link.run(40);
        ASSERT_EQ(player.client.phase(), Phase::playing);
        const PlayerId id = quay.id;
        player.client.connect(link.wire.address, player.client.ticket());
        int datagrams = 0;
        for (int tick = 0; tick < 60; ++tick) {
            link.now += 16'667us;
            player.client.update(link.now);
            while (!link.under_way.empty()) {
                const Link::Datagram datagram = link.under_way.front();
                link.under_way.pop_front();
                if (datagram.to == link.wire.address)
                    link.server.host().receive(datagram.from, datagram.bytes, link.now);
                else
                    player.client.endpoint().receive(datagram.from, datagram.bytes, link.now);
                if (++datagrams == after) link.server.disconnect(id, "enough", link.now);
            }
            link.server.tick(link.now);
        }
        EXPECT_EQ(link.server.phase(id), Phase::disconnected);
        EXPECT_FALSE(player.client.is_connected());
        EXPECT_TRUE(player.client.ticket().empty());
        refused += player.client.failure().find("the ticket is not valid") != std::string::npos;
        taken += link.server.stats().tickets.used == 1;
        EXPECT_TRUE(link.server.sender().is_consistent());
    }
    EXPECT_GT(refused, 1);
    EXPECT_GT(taken, 0) << "before it ended";
}

// The hello does not prove that its sender is there: a connect packet can be repeated by anyone.
TEST(Tickets, AHelloAloneDoesNotTakeTheSeat) {
    Quay quay;
    Link& link = quay.link;
    Link::Player& player = quay.add();
    link.run(40);
    const net::PeerId connection = link.server.connection(quay.id);
    Link::Player& thief = quay.add();
    thief.client.connect(link.wire.address, player.client.ticket());
    link.listener.client_id = 99;
    int answers = 0;
    for (int tick = 0; tick < 120; ++tick) {
        link.now += 16'667us;
        link.server.tick(link.now);
        for (const auto& each : link.players) each->client.update(link.now);
        while (!link.under_way.empty()) {
            const Link::Datagram datagram = link.under_way.front();
            link.under_way.pop_front();
            if (datagram.to == thief.wire.address && ++answers > 1) continue;  // it hears the cookie only
            if (datagram.to == link.wire.address)
                link.server.host().receive(datagram.from, datagram.bytes, link.now);
            for (const auto& each : link.players)
                if (datagram.to == each->wire.address)
                    each->client.endpoint().receive(datagram.from, datagram.bytes, link.now);
        }
    }
    EXPECT_GT(answers, 1);
    EXPECT_EQ(link.listener.client_id, 0u) << "its hello was read";
    EXPECT_EQ(link.server.stats().tickets.used, 0u);
    EXPECT_EQ(link.server.connection(quay.id), connection);
    EXPECT_EQ(player.client.phase(), Phase::playing);
}

TEST(Tickets, RecordedPacketsOfAReturnTakeNoSeat) {
    Quay quay;
    Link& link = quay.link;
    Link::Player& player = quay.add();
    link.run(40);
    std::vector<Link::Datagram> recorded;
    player.client.connect(link.wire.address, player.client.ticket());
    for (int tick = 0; tick < 60; ++tick) {
        link.now += 16'667us;
        player.client.update(link.now);
        for (const Link::Datagram& datagram : link.under_way)
            if (datagram.to == link.wire.address) recorded.push_back(datagram);
        link.exchange();
        link.server.tick(link.now);
        link.exchange();
    }
    ASSERT_EQ(player.client.phase(), Phase::playing);
    ASSERT_EQ(link.server.stats().tickets.used, 1u);
    ASSERT_GE(recorded.size(), 5u);
    const net::PeerId connection = link.server.connection(quay.id);
    for (const net::Address& from : {player.wire.address, net::Address::ipv4(10, 0, 0, 99, 5000)}) {
        for (const Link::Datagram& datagram : recorded)
            link.server.host().receive(from, datagram.bytes, link.now);
        link.run(90);
        EXPECT_EQ(link.server.stats().tickets.used, 1u);
        EXPECT_EQ(link.server.connection(quay.id), connection);
        EXPECT_EQ(player.client.phase(), Phase::playing);
    }
}

}  // namespace
}  // namespace shoal::replication::impl::ticket_test
