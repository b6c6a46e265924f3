#include "net/host.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/net/support/addresses.h"
#include "tests/net/support/bare_host.h"

namespace shoal::net {
namespace {

TEST(Host, AFullServerSaysSoAndAcceptsAgainWhenAPeerLeaves) {
    World world;
    HostConfig config = host_config();
    config.max_peers = 2;
    world.add_host(config);
    for (std::uint16_t i = 0; i < 3; ++i) {
        auto& player = world.add_client(client_config(100 + i), static_cast<std::uint16_t>(5000 + i));
        player.client.connect(world.server_address, {}, world.now);
        world.run(100ms);
    }
    EXPECT_EQ(world.host->peer_count(), 2u);
    EXPECT_EQ(world.players[2]->recorder.last_reason, DisconnectReason::refused_full);
    world.players[0]->client.disconnect(world.players[0]->client.server(), DisconnectReason::closed, "",
                                        world.now);
    world.run(100ms);
    world.players[2]->client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    EXPECT_EQ(world.host->peer_count(), 2u);
    EXPECT_TRUE(world.players[2]->client.is_connected(world.players[2]->client.server()));
}

// A client that crashed can connect from the same port, even to a full server, once its former peer is
// silent.
TEST(Host, ARestartedClientReplacesItsFormerPeer) {
    World world;
    HostConfig config = host_config();
    config.max_peers = 1;
    world.add_host(config);
    world.add_client(client_config(1)).client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    const PeerId before = world.server.newest;
    world.remove_clients();
    world.run(2s);
    auto& again = world.add_client(client_config(2));
    again.client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    const PeerId after = world.server.newest;
    EXPECT_NE(before, after);
    EXPECT_EQ(world.server.disconnects.at(before).first, DisconnectReason::replaced);
    EXPECT_TRUE(world.host->is_connected(after));
    EXPECT_TRUE(again.client.is_connected(again.client.server()));
    EXPECT_EQ(world.host->peer_count(), 1u);
}

TEST(Host, APeerIsReplacedAlsoAfterAnotherPeerAtItsAddressLeft) {
    World world;
    world.add_host(host_config());
    Client& first = world.add_client(client_config(1)).client;
    first.connect(world.server_address, {}, world.now);
    world.run(100ms);
    world.add_client(client_config(2)).client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    const PeerId second = world.server.newest;
    first.disconnect(first.server(), DisconnectReason::closed, {}, world.now);
    world.run(500ms);
    world.remove_clients();
    world.run(2s);
    world.add_client(client_config(3)).client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    ASSERT_TRUE(world.server.disconnects.contains(second));
    EXPECT_EQ(world.server.disconnects.at(second).first, DisconnectReason::replaced);
}

TEST(Host, APeerIsNotReplacedBeforeTwoKeepAliveIntervals) {
    World world;
    world.add_host(host_config());
    world.add_client(client_config(1)).client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    const PeerId before = world.server.newest;
    world.remove_clients();
    world.run(1500ms);
    world.add_client(client_config(2)).client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    EXPECT_TRUE(world.host->is_connected(before));
    EXPECT_EQ(world.host->peer_count(), 2u);
}

// A cookie proves that a client receives at an address, but others may receive there, too.
TEST(Host, ANewcomerDoesNotEndALiveConnectionAtItsAddress) {
    World world;
    world.add_host(host_config());
    auto& victim = world.add_client(client_config(1));
    victim.client.connect(world.server_address, {}, world.now);
    world.run(5s);
    const PeerId before = world.server.newest;
    auto& spy = world.add_client(client_config(2));  // at the victim's address
    spy.client.connect(world.server_address, {}, world.now);
    world.run(5s);
    EXPECT_TRUE(world.server.disconnects.empty());
    EXPECT_TRUE(world.host->is_connected(before));
    EXPECT_TRUE(victim.client.is_connected(victim.client.server()));
    EXPECT_EQ(world.host->peer_count(), 2u);
}

// A late copy of an old connect must not disconnect the client that is at this address now.
TEST(Host, ReplayedConnectDoesNotHarmALiveConnection) {
    Bare bare;
    Wire wire;
    Recorder recorder;
    Client client(client_config(3), recorder, wire);
    std::vector<std::byte> old_connect;
    for (int life = 0; life < 2; ++life) {
        client.connect(kMallory, {}, bare.now);
        client.flush(bare.now);
        while (!wire.sent.empty()) {
            if (wire.sent.front().second[0] == std::byte(0x90) && life == 0)
                old_connect = wire.sent.front().second;
            bare.feed(kAlice, wire.sent.front().second);
            wire.sent.pop_front();
            while (!bare.wire.sent.empty()) {
                client.receive(kMallory, bare.wire.sent.front().second, bare.now);
                bare.wire.sent.pop_front();
            }
        }
        ASSERT_EQ(bare.recorder.connects.size(), std::size_t(life + 1));
        if (life == 0) client.disconnect(client.server(), DisconnectReason::closed, "", bare.now);
        while (!wire.sent.empty()) {
            bare.feed(kAlice, wire.sent.front().second);
            wire.sent.pop_front();
        }
        bare.host.update(bare.now);
    }
    const PeerId peer = bare.recorder.newest;
    bare.feed(kAlice, old_connect);
    EXPECT_TRUE(bare.host.is_connected(peer));
    recorder.send(client, client.server(), as_bytes("still here"), bare.now);
    bare.feed(kAlice, wire.sent.back().second);
    ASSERT_EQ(bare.recorder.payloads.size(), 1u);
    EXPECT_EQ(bare.recorder.disconnects.size(), 1u);
}

// All connections together stay within the host's limit, and each gets its part.
TEST(Host, TheOutputOfAllPeersTogetherIsLimited) {
    World world;
    HostConfig config = host_config();
    config.max_bytes_per_second = 100'000;
    config.connection.first_bytes_per_second = 1'000'000;
    world.add_host(config);
    for (std::uint16_t i = 0; i < 5; ++i) {
        world.add_client(client_config(1 + i), static_cast<std::uint16_t>(6000 + i))
            .client.connect(world.server_address, {}, world.now);
    }
    world.run(500ms);
    ASSERT_EQ(world.host->peer_count(), 5u);
    world.server.source = [&](PeerId, PayloadTurn& turn) {
        std::fill(turn.room.begin(), turn.room.end(), std::byte(7));
        return turn.room.size();
    };
    const auto sent_to = [&](PeerId peer) { return world.host->stats(peer).bytes_sent; };
    std::map<PeerId, std::uint64_t> before;
    for (const auto& [peer, is_here] : world.server.connects) before[peer] = sent_to(peer);
    world.run(10s);
    std::uint64_t all = 0;
    bool is_told = false;
    for (const auto& [peer, sent_before] : before) {
        EXPECT_TRUE(world.host->is_connected(peer));
        EXPECT_GE(sent_to(peer) - sent_before, 100'000u) << "half of a fifth of ten seconds";
        is_told |= world.host->stats(peer).rate_limit == RateLimit::host;
        all += sent_to(peer) - sent_before;
    }
    EXPECT_TRUE(is_told);
    EXPECT_LE(all, 1'100'000u) << "acks and pings may exceed the limit";
    EXPECT_GE(all, 900'000u);
}

// Between two ticks more is earned than the limit allows in 50 ms.
TEST(Host, ALowLimitIsUsedInFullWithRareTicks) {
    World world;
    HostConfig config = host_config();
    config.max_bytes_per_second = 4'000;
    world.add_host(config);
    world.add_client(client_config()).client.connect(world.server_address, {}, world.now);
    world.run(500ms);
    world.server.source = [](PeerId, PayloadTurn& turn) { return fill(turn); };
    world.run(5s, 500ms);
    const std::uint64_t before = world.host->stats(world.server.newest).bytes_sent;
    world.run(20s, 500ms);
    const std::uint64_t sent = world.host->stats(world.server.newest).bytes_sent - before;
    EXPECT_GE(sent, 72'000u);
    EXPECT_LE(sent, 88'000u);
}

TEST(Host, ShutDownIsReportedToEveryPeer) {
    World world;
    world.add_host(host_config());
    for (std::uint16_t i = 0; i < 5; ++i) {
        world.add_client(client_config(1 + i), static_cast<std::uint16_t>(6000 + i))
            .client.connect(world.server_address, {}, world.now);
    }
    world.run(100ms);
    EXPECT_EQ(world.host->peer_count(), 5u);
    world.host->shut_down("maintenance", world.now);
    EXPECT_EQ(world.server.disconnects.size(), 5u);
    world.run(400ms);
    EXPECT_TRUE(world.host->is_idle());
    for (const auto& player : world.players) {
        EXPECT_EQ(player->recorder.last_reason, DisconnectReason::shut_down);
        EXPECT_EQ(player->recorder.last_text, "maintenance");
    }
    auto& late = world.add_client(client_config(9), 7000);
    late.client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    EXPECT_EQ(late.recorder.last_reason, DisconnectReason::refused);
}

TEST(Host, PeerIdsAreNotReused) {
    World world;
    world.add_host(host_config());
    auto& player = world.add_client(client_config());
    for (int i = 0; i < 300; ++i) {
        player.client.connect(world.server_address, {}, world.now);
        world.run(60ms);
        player.client.disconnect(player.client.server(), DisconnectReason::closed, "", world.now);
        world.run(400ms);
    }
    EXPECT_EQ(world.server.connects.size(),
              300u);  // Recorder fails at a second on_connected with the same id
    EXPECT_EQ(world.server.disconnects.size(), 300u);
    for (const auto& [peer, connected] : world.server.connects) EXPECT_LT(peer.index(), 64u + 4 + 16);
}

TEST(Host, AnAdmissionHasTheIdOfTheLaterPeer) {
    World world;
    world.add_host(host_config());
    auto& player = world.add_client(client_config());
    for (int i = 0; i < 3; ++i) {
        player.client.connect(world.server_address, {}, world.now);
        world.run(60ms);
        ASSERT_TRUE(world.server.newest);
        EXPECT_EQ(world.server.newest, world.server.last_admitted);
        player.client.disconnect(player.client.server(), DisconnectReason::closed, "", world.now);
        world.run(400ms);
        EXPECT_EQ(world.host->address(world.server.newest), Address()) << "gone";
    }
}

// A client can disconnect only with reasons of clients.
TEST(Host, AClientCannotDisconnectWithAnyReason) {
    for (int reason = 0; reason <= int(kLastDisconnectReason); ++reason) {
        World world;
        world.add_host(host_config());
        auto& player = world.add_client(client_config());
        player.client.connect(world.server_address, {}, world.now);
        world.run(100ms);
        player.client.disconnect(player.client.server(), DisconnectReason(reason), "words", world.now);
        world.run(100ms);
        const bool may_say = DisconnectReason(reason) == DisconnectReason::protocol_error ||
                             DisconnectReason(reason) == DisconnectReason::exhausted ||
                             DisconnectReason(reason) == DisconnectReason::replaced;
        EXPECT_EQ(world.server.last_reason,
                  may_say ? DisconnectReason(reason) : DisconnectReason::closed_by_peer);
        EXPECT_EQ(world.server.last_text, "words");
        // A server may use more reasons.
        player.client.connect(world.server_address, {}, world.now);
        world.run(100ms);
        world.host->disconnect(world.server.newest, DisconnectReason(reason), "", world.now);
        world.run(100ms);
        const bool is_a_servers = DisconnectReason(reason) == DisconnectReason::shut_down ||
                                  DisconnectReason(reason) == DisconnectReason::kicked ||
                                  DisconnectReason(reason) == DisconnectReason::timed_out ||
                                  DisconnectReason(reason) == DisconnectReason::refused_full ||
                                  DisconnectReason(reason) == DisconnectReason::refused;
        EXPECT_EQ(player.recorder.last_reason,
                  may_say || is_a_servers ? DisconnectReason(reason) : DisconnectReason::closed_by_peer);
    }
}

TEST(Host, AThousandClientsConnectThroughLoss) {
    LinkConfig link;
    link.latency = 30ms;
    link.jitter = 20ms;
    link.loss = 0.1;
    World world(link, 11);
    HostConfig config = host_config();
    config.max_peers = 1000;
    config.max_pending_per_ip = 1000;
    world.add_host(config);
    for (std::uint16_t i = 0; i < 1000; ++i) {
        world.add_client(client_config(1000u + i), static_cast<std::uint16_t>(1000 + i))
            .client.connect(world.server_address, {}, world.now);
    }
    world.run(7s, 20ms);
    for (int i = 0; i < 8 && world.host->peer_count() < 1000; ++i)
        world.run(1s, 20ms);  // for the last clients
    EXPECT_EQ(world.host->peer_count(), 1000u);
    for (const auto& player : world.players)
        EXPECT_TRUE(player->client.is_connected(player->client.server()));
}

}  // namespace
}  // namespace shoal::net
