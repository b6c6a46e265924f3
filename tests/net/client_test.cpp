#include "net/client.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

TEST(Client, ConnectsThroughHeavyLossAndReportsItOnce) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        LinkConfig link;
        link.latency = 40ms;
        link.loss = 0.4;
        link.duplicate = 0.3;
        link.corrupt = 0.1;
        link.reorder = 0.2;
        World world(link, seed);
        world.add_host(host_config());
        ClientConfig config = client_config(seed);
        config.connect_timeout = 20s;
        auto& player = world.add_client(config);
        player.client.connect(world.server_address, as_bytes("I am Alice"), world.now);
        world.run(20s);
        ASSERT_EQ(player.recorder.connects.size(), 1u);
        ASSERT_EQ(world.server.connects.size(), 1u);
        ASSERT_EQ(world.server.last_hello, "I am Alice");
        ASSERT_TRUE(player.recorder.disconnects.empty());
    }
}

// Goal: at 50 % loss in each direction, 98 of 100 attempts succeed within connect_timeout.
TEST(Client, ConnectsInTimeThoughHalfOfAllPacketsAreLost) {
    int connected = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        LinkConfig link;
        link.latency = Duration(seed * 1500);
        link.loss = 0.5;
        World world(link, seed);
        world.add_host(host_config());
        auto& player = world.add_client(client_config(seed));
        const PeerId peer = player.client.connect(world.server_address, {}, world.now);
        world.run(10s);
        connected += player.recorder.is_connected(peer) && world.server.connects.size() == 1;
    }
    EXPECT_GE(connected, 196);
}

TEST(Client, GivesUpIfTheServerIsSilent) {
    World world;
    auto& player = world.add_client(client_config());
    const PeerId peer = player.client.connect(world.server_address, {}, world.now);
    EXPECT_EQ(player.client.state(), Client::State::connecting);
    world.run(9900ms);
    EXPECT_TRUE(player.recorder.disconnects.empty());
    EXPECT_LT(world.up.stats().offered, 36u);  // the pauses become longer
    world.run(200ms);
    EXPECT_EQ(player.recorder.disconnects.at(peer).first, DisconnectReason::unreachable);
    EXPECT_TRUE(player.client.is_idle());
}

TEST(Client, RefusalEndsTheAttemptWithReasonTextAndHash) {
    World world;
    world.add_host(host_config());
    world.server.refusal_text = "component Health differs";
    ClientConfig config = client_config();
    config.schema_hash = 1;
    auto& player = world.add_client(config);
    player.client.connect(world.server_address, as_bytes("hashes"), world.now);
    world.run(200ms);
    EXPECT_EQ(player.recorder.last_reason, DisconnectReason::refused_schema);
    EXPECT_EQ(player.recorder.last_text, "component Health differs");
    EXPECT_EQ(player.client.server_schema_hash(), 0x5C4Eu);
    EXPECT_EQ(world.server.last_hello, "hashes");
    EXPECT_TRUE(player.recorder.connects.empty());
    EXPECT_EQ(world.server.admissions, 1);

    config = client_config(71);
    config.protocol_id = 1;
    auto& other = world.add_client(config, 5001);
    other.client.connect(world.server_address, {}, world.now);
    world.run(900ms);
    EXPECT_EQ(other.client.state(), Client::State::connecting) << "the refusal is not authenticated";
    world.run(200ms);
    EXPECT_EQ(other.recorder.last_reason, DisconnectReason::refused_protocol);
}

TEST(Client, SurvivesAnExpiredCookie) {
    World world;
    world.add_host(host_config());
    ClientConfig config = client_config();
    config.connect_timeout = 60s;
    auto& player = world.add_client(config);
    player.client.connect(world.server_address, {}, world.now);
    world.step();
    world.step();  // the client has the cookie, its connect is in flight
    LinkConfig broken;
    broken.loss = 1;
    world.up.set_config(broken);
    world.down.set_config(broken);
    world.run(25s);
    world.up.set_config({});
    world.down.set_config({});
    world.run(4s);
    EXPECT_TRUE(player.client.is_connected(player.client.server()));
    EXPECT_EQ(world.host->peer_count(), 1u);
}

TEST(Client, IgnoresForgedReplies) {
    World world;
    auto& player = world.add_client(client_config());
    player.client.connect(world.server_address, {}, world.now);
    world.step();
    std::array<std::byte, kMaxDatagramBytes> buffer;
    Client& client = player.client;
    client.receive(world.server_address, write(Refuse{1, DisconnectReason::refused_key}, buffer), world.now);
    client.receive(world.server_address, write(Answer{1, 2, as_bytes("not for you")}, buffer), world.now);
    client.receive(world.server_address, write(CookieReply{1, 2}, buffer), world.now);
    EXPECT_EQ(client.endpoint_stats().drops[Drop::unexpected], 3u);
    client.receive(Address::ipv4(6, 6, 6, 6, 6), write(CookieReply{1, 2}, buffer), world.now);
    EXPECT_EQ(client.endpoint_stats().drops[Drop::wrong_address], 1u);
    EXPECT_EQ(client.state(), Client::State::connecting);
    EXPECT_TRUE(player.recorder.disconnects.empty());
}

// A hello often contains text of a user.
TEST(Client, AHelloThatIsTooLongIsRefusedInOneLine) {
    for (const std::size_t size : {kMaxHelloBytes + 1, std::size_t(5'000)}) {
        World world;
        world.add_host(host_config());
        auto& player = world.add_client(client_config());
        player.client.connect(world.server_address, as_bytes(std::string(size, 'h')), world.now);
        world.run(50ms);
        EXPECT_EQ(player.recorder.last_reason, DisconnectReason::misconfigured);
        EXPECT_EQ(player.recorder.last_text, "the hello is longer than 900 bytes");
        EXPECT_EQ(world.up.stats().offered, 0u);
    }
}

TEST(Client, TriesEachCookieOnceAndNotTooFast) {
    World world;
    auto& player = world.add_client(client_config());
    Client& client = player.client;
    client.connect(world.server_address, {}, world.now);
    client.flush(world.now);
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const std::uint64_t nonce = player.sink.nonce;
    const auto feed = [&](std::uint64_t cookie) {
        client.receive(world.server_address, write(CookieReply{nonce, cookie}, buffer), world.now);
    };
    const auto connects = [&] {
        return client.endpoint_stats().handshake_bytes_sent / kMaxDatagramBytes - 1;
    };
    feed(1);
    EXPECT_EQ(connects(), 1u) << "the first one is sent at once";
    feed(1);  // a duplicate
    EXPECT_EQ(client.endpoint_stats().drops[Drop::unexpected], 1u);
    for (std::uint64_t cookie = 1; cookie <= 1000; ++cookie) feed(cookie);
    client.flush(world.now);
    EXPECT_EQ(connects(), 1u);
    EXPECT_EQ(client.endpoint_stats().drops[Drop::unexpected], 2u) << "the duplicates of the first cookie";
    world.run(400ms);
    EXPECT_EQ(connects(), 11u);
    // Unauthenticated refusals: the client waits before it believes the first one.
    client.receive(world.server_address, write(Refuse{nonce, DisconnectReason::refused_key}, buffer),
                   world.now);
    const std::uint64_t unexpected = client.endpoint_stats().drops[Drop::unexpected];
    client.receive(world.server_address, write(Refuse{nonce, DisconnectReason::refused_security}, buffer),
                   world.now);
    EXPECT_EQ(client.endpoint_stats().drops[Drop::unexpected], unexpected + 1);
    // Nobody answers, and one refusal is not enough for so many connects.
    world.run(9s);
    EXPECT_EQ(client.state(), Client::State::connecting);
    world.run(1s);
    EXPECT_EQ(player.recorder.last_reason, DisconnectReason::unreachable);
}

// A refusal with the reason of the first one is evidence for that reason, so it is not counted as dropped.
TEST(Client, ARepeatedRefusalIsNotCountedAsDropped) {
    for (const int refusals : {3, 15}) {
        World world;
        auto& player = world.add_client(client_config());
        Client& client = player.client;
        client.connect(world.server_address, {}, world.now);
        client.flush(world.now);
        std::array<std::byte, kMaxDatagramBytes> buffer;
        const std::uint64_t nonce = player.sink.nonce;
        client.receive(world.server_address, write(CookieReply{nonce, 1}, buffer), world.now);
        world.run(4s);  // 10 connects; 17 more follow
        for (int i = 0; i < refusals; ++i)
            client.receive(world.server_address, write(Refuse{nonce, DisconnectReason::refused_key}, buffer),
                           world.now);
        world.run(7s);
        EXPECT_EQ(player.recorder.last_reason,
                  refusals == 3 ? DisconnectReason::unreachable : DisconnectReason::refused_key);
        EXPECT_EQ(client.endpoint_stats().drops.total(), 0u);
    }
}

// The right server refuses damaged packets, too.
TEST(Client, TwoRefusalsDoNotEndAnAttemptEarly) {
    for (const bool has_cookie : {false, true})
        for (const int refusals : {2, has_cookie ? 7 : 3}) {
            World world;
            auto& player = world.add_client(client_config());
            Client& client = player.client;
            client.connect(world.server_address, {}, world.now);
            client.flush(world.now);
            std::array<std::byte, kMaxDatagramBytes> buffer;
            const std::uint64_t nonce = player.sink.nonce;
            if (has_cookie)
                client.receive(world.server_address, write(CookieReply{nonce, 1}, buffer), world.now);
            world.run(3s);  // with a cookie: 8 connects; 8 more follow
            for (int i = 0; i < refusals; ++i)
                client.receive(world.server_address,
                               write(Refuse{nonce, DisconnectReason::refused_key}, buffer), world.now);
            world.run(3s);
            EXPECT_EQ(client.state(), refusals == 2 ? Client::State::connecting : Client::State::idle);
        }
}

// Goal: an attacker who sees requests and answers before the server does not keep a client out, and does not
// make it send more than 30 kB/s.
// Method: a number of forged cookies arrives before each genuine one, 100 ms after the request.
TEST(Client, ForgedCookiesDoNotKeepItOut) {
    for (const int forged : {4, 30, 100}) {
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
            SCOPED_TRACE(testing::Message() << forged << " forged, seed " << seed);
            LinkConfig link;
            link.latency = 50ms;
            link.loss = seed % 2 == 0 ? 0.05 : 0;
            World world(link, seed);
            world.add_host(host_config());
            const ClientConfig config = client_config(seed);
            auto& player = world.add_client(config);
            CookieForger forger(world, player, config, forged);
            const Time start = world.now;
            player.client.connect(world.server_address, {}, start);
            while (player.client.state() == Client::State::connecting) {
                world.step();
                const double seconds = std::chrono::duration<double>(world.now - start).count();
                ASSERT_LE(double(player.client.endpoint_stats().handshake_bytes_sent),
                          5'000 + 30'000 * seconds);
            }
            ASSERT_EQ(player.client.state(), Client::State::connected);
            ASSERT_GE(player.client.endpoint_stats().handshake_bytes_received, std::uint64_t(forged) * 18);
            if (forged <= 4 && seed % 2 == 1) {
                ASSERT_LE(world.now - start, 500ms);
            }
        }
    }
}

// Goal: any mix of forged cookies and refusals that arrive before the server's packets does not keep a client
// out, with round trips of up to 600 ms.
TEST(Client, ForgedCookiesAndHintsDoNotKeepItOut) {
    struct Forger : CookieForger {
        Forger(World& in, World::Player& player, int cookies) : CookieForger(in, player, {}, cookies) {
            world.server_tick = [this] {
                const bool is_seen = seen < world.host->endpoint_stats().cookies_sent;
                if (is_seen) hint();  // before the cookies and after them
                forge();
                if (is_seen) hint();
            };
        }
        void hint() {
            constexpr DisconnectReason kReasons[] = {DisconnectReason::refused_protocol,
                                                     DisconnectReason::refused_key,
                                                     DisconnectReason::refused_security};
            std::array<std::byte, kMaxDatagramBytes> buffer;
            const Refuse refuse{victim.sink.nonce, kReasons[random.next() % 3]};
            victim.client.receive(world.server_address, write(refuse, buffer), world.now);
        }
    };
    for (const int forged : {0, 1, 2, 30}) {
        for (const Duration one_way : {Duration(5ms), Duration(150ms), Duration(300ms)}) {
            for (std::uint64_t seed = 1; seed <= 12; ++seed) {
                SCOPED_TRACE(testing::Message()
                             << forged << " forged, " << one_way.count() << " us, seed " << seed);
                LinkConfig link;
                link.latency = one_way;
                link.loss = seed % 3 == 0 ? 0.05 : 0;
                World world(link, seed);
                world.add_host(host_config());
                auto& player = world.add_client(client_config(seed));
                Forger forger(world, player, forged);
                player.client.connect(world.server_address, {}, world.now);
                while (player.client.state() == Client::State::connecting) world.step();
                ASSERT_EQ(player.client.state(), Client::State::connected)
                    << describe(player.recorder.last_reason);
            }
        }
    }
}

// The client tries an answer only with the cookie that the answer names.
TEST(Client, AForgedAnswerIsCountedAndTheGenuineOneIsUsed) {
    World world;
    world.add_host(host_config());
    auto& player = world.add_client(client_config());
    Client& client = player.client;
    client.connect(world.server_address, {}, world.now);
    client.flush(world.now);
    std::array<std::byte, kMaxDatagramBytes> buffer;
    client.receive(world.server_address, write(CookieReply{player.sink.nonce, 7}, buffer), world.now);
    const std::vector<std::byte> noise(kNoiseOverheadBytes + kAcceptanceBytes, std::byte(9));
    const std::uint64_t nonce = player.sink.nonce;
    client.receive(world.server_address, write(Answer{nonce, 7, noise}, buffer), world.now);
    EXPECT_EQ(client.endpoint_stats().drops[Drop::bad_tag], 1u);
    client.receive(world.server_address, write(Answer{nonce, 8, noise}, buffer), world.now);
    EXPECT_EQ(client.endpoint_stats().drops[Drop::unexpected], 1u) << "the client has no such cookie";
    world.run(200ms);
    EXPECT_TRUE(client.is_connected(client.server()));
}

// Each cookie gets a new ephemeral key. A cookie that was tried before gets the same connect again.
TEST(Client, EachCookieGetsAnEphemeralKeyOfItsOwn) {
    Recorder recorder;
    Wire wire;
    Client client(client_config(), recorder, wire);
    const Address server = Address::ipv4(10, 0, 0, 100, 7777);
    Time now = 100s;
    client.connect(server, as_bytes("hello"), now);
    client.flush(now);
    Request request;
    ASSERT_FALSE(read(wire.sent.front().second, request));
    std::array<std::byte, kMaxDatagramBytes> buffer;
    std::map<std::uint64_t, std::vector<std::byte>> connects;
    std::set<std::vector<std::byte>> ephemerals;
    for (int round = 0; round < 400; ++round) {
        for (const std::uint64_t cookie : {1u, 2u, 3u})
            client.receive(server, write(CookieReply{request.client_nonce, cookie}, buffer), now);
        now += 20ms;
        client.flush(now);
        for (; !wire.sent.empty(); wire.sent.pop_front()) {
            const std::vector<std::byte>& bytes = wire.sent.front().second;
            Connect connect;
            if (read(bytes, connect)) continue;
            const auto [known, is_new] = connects.insert({connect.cookie, bytes});
            EXPECT_EQ(known->second, bytes);
            const auto ephemeral = connect.message.first(kNoiseKeyBytes);
            EXPECT_EQ(ephemerals.insert({ephemeral.begin(), ephemeral.end()}).second, is_new);
        }
    }
    EXPECT_EQ(connects.size(), 3u);
}

TEST(Client, DisconnectWhileConnectingIsReported) {
    World world;
    auto& player = world.add_client(client_config());
    const PeerId peer = player.client.connect(world.server_address, {}, world.now);
    player.client.disconnect(peer, DisconnectReason::closed, "changed my mind", world.now);
    EXPECT_EQ(player.recorder.disconnects.at(peer).second, "changed my mind");
    EXPECT_TRUE(player.client.is_idle());
    const PeerId next = player.client.connect(world.server_address, {}, world.now);
    EXPECT_NE(peer, next);
}

// Goal: connect() while a connection or a handshake exists ends it, reports it once, and tells the server,
// also if packets are lost. on_disconnected of the former one cannot begin a third one.
TEST(Client, ConnectEndsTheConnectionOrHandshakeBefore) {
    for (const bool is_connected : {false, true}) {
        World world;
        world.add_host(host_config());
        World::Player& player = world.add_client(client_config());
        Client& client = player.client;
        const PeerId first = client.connect(world.server_address, {}, world.now);
        if (is_connected) world.run(100ms);
        ASSERT_EQ(player.recorder.is_connected(first), is_connected);
        const PeerId at_server = world.server.newest;
        PeerId third = first;
        player.recorder.on_end = [&] {
            third = client.connect(world.server_address, as_bytes("third"), world.now);
        };
        world.up.set_config({.loss = 1});  // the first disconnect packets are lost
        const PeerId second = client.connect(world.server_address, as_bytes("second"), world.now);
        EXPECT_EQ(player.recorder.disconnects.at(first).first, DisconnectReason::closed);
        EXPECT_FALSE(third);
        EXPECT_NE(second, first);
        world.run(30ms);
        world.up.set_config({});
        world.run(500ms);
        EXPECT_TRUE(player.recorder.is_connected(second));
        EXPECT_EQ(world.server.last_hello, "second");
        EXPECT_EQ(world.server.disconnects.size(), is_connected ? 1u : 0u);
        if (is_connected) {
            EXPECT_EQ(world.server.disconnects.at(at_server).first, DisconnectReason::closed_by_peer);
        }
    }
}

// For every end of a connection or attempt: by either side, by a restart, by silence, by a refusal.
TEST(Client, MayConnectAgainFromOnDisconnected) {
    World world;
    world.add_host(host_config(100));
    World::Player& player = world.add_client(client_config());
    Recorder& game = player.recorder;
    Client& client = player.client;
    game.on_end = [&] { client.connect(world.server_address, {}, world.now); };
    client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    ASSERT_EQ(game.connects.size(), 1u);
    world.host->disconnect(world.server.newest, DisconnectReason::kicked, {}, world.now);
    world.run(1s);
    EXPECT_EQ(game.last_reason, DisconnectReason::kicked);
    ASSERT_EQ(game.connects.size(), 2u);
    client.disconnect(client.server(), DisconnectReason::closed, {}, world.now);
    world.run(1s);
    ASSERT_EQ(game.connects.size(), 3u);
    world.server = Recorder();
    world.add_host(host_config(101));
    world.run(3s);
    EXPECT_EQ(game.last_reason, DisconnectReason::server_restarted);
    ASSERT_EQ(game.connects.size(), 4u);
    world.down.set_config({.loss = 1});
    world.run(15s);
    EXPECT_EQ(game.last_reason, DisconnectReason::timed_out);
    world.run(10s);
    EXPECT_EQ(game.last_reason, DisconnectReason::unreachable);
    world.server.admits = false;
    world.down.set_config({});
    world.run(1s);
    EXPECT_EQ(game.last_reason, DisconnectReason::refused);
    world.server.admits = true;
    world.run(1s);
    EXPECT_EQ(game.connects.size(), 5u);
    EXPECT_TRUE(client.is_connected(client.server()));
}

TEST(Client, NoticesARestartedServer) {
    World world;
    world.add_host(host_config(1));
    auto& player = world.add_client(client_config());
    player.client.connect(world.server_address, {}, world.now);
    world.run(1s);
    world.server = Recorder();
    world.add_host(host_config(2));
    world.run(1500ms);  // its next ping is due after a second
    EXPECT_EQ(player.recorder.last_reason, DisconnectReason::server_restarted);
    player.client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    EXPECT_TRUE(player.client.is_connected(player.client.server()));
}

}  // namespace
}  // namespace shoal::net::impl
