#include "net/host.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/net/support/addresses.h"
#include "tests/net/support/bare_host.h"

namespace shoal::net::impl {
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

/// A full server, whose only player is at 10.0.0.1 or in 2001:db8::/64 and was silent for `silence`, and a
/// newcomer that tries again and again for `duration`.
struct Ghost {
    Address former, newcomer;
    Duration silence, duration;
    bool is_in;  // expected at the end
};

// Goal: a player whose program ended gets its seat in a full server back after two keep-alive intervals,
// with another port, too. Nobody is told that he is in and then that the server is full.
TEST(Host, ASilentPeerLeavesItsSeatToItsMachine) {
    const auto ipv4 = [](std::uint8_t last, std::uint16_t port) {
        return Address::ipv4(10, 0, 0, last, port);
    };
    const auto ipv6 = [](std::uint8_t net, std::uint8_t last) {
        return Address::ipv6({0x20, 1, 0xd, 0xb8, 0, 0, 0, net, 0, 0, 0, 0, 0, 0, 0, last}, 5000);
    };
    const Ghost kGhosts[] = {{ipv4(1, 5000), ipv4(1, 5000), 2500ms, 300ms, true},
                             {ipv4(1, 5000), ipv4(1, 6000), 2500ms, 300ms, true},
                             {ipv4(1, 5000), ipv4(1, 5000), 300ms, 1500ms, false},
                             {ipv4(1, 5000), ipv4(1, 6000), 300ms, 2000ms, true},
                             {ipv4(1, 5000), ipv4(2, 5000), 300ms, 8s, false},
                             {ipv6(1, 1), ipv6(1, 2), 2500ms, 300ms, true},
                             {ipv6(1, 1), ipv6(2, 1), 2500ms, 6s, false}};
    for (const Ghost& each : kGhosts) {
        SCOPED_TRACE(testing::Message() << each.newcomer.to_string() << " after " << each.former.to_string());
        World world;
        HostConfig config = host_config();
        config.max_peers = 1;
        world.add_host(config);
        auto& former = world.add_client(client_config(1));
        former.move(each.former);
        former.client.connect(world.server_address, {}, world.now);
        world.run(100ms);
        const PeerId ghost = world.server.newest;
        world.remove_clients();
        world.run(each.silence);
        auto& player = world.add_client(client_config(2));
        player.move(each.newcomer);
        for (const Time end = world.now + each.duration; world.now < end; world.step())
            if (player.client.is_idle()) player.client.connect(world.server_address, {}, world.now);
        EXPECT_EQ(player.client.state() == Client::State::connected, each.is_in);
        EXPECT_EQ(player.recorder.connects.size(), each.is_in ? 1u : 0u);
        EXPECT_EQ(world.server.disconnects.contains(ghost), each.is_in);
        EXPECT_TRUE(world.server.admitted.empty()) << "each that was admitted connected, or never will";
    }
}

// Goal: neighbours behind the same address take no seat of a player who is there, however often they try,
// also if packets are lost or the server pauses.
TEST(Host, LivePeersKeepTheirSeatsInAFullServer) {
    LinkConfig link;
    link.latency = 50ms;
    link.loss = 0.05;
    World world(link);
    HostConfig config = host_config();
    config.max_peers = 8;
    world.add_host(config);
    for (std::uint16_t n = 0; n < 16; ++n) world.add_client(client_config(100 + n), std::uint16_t(5000 + n));
    for (std::size_t n = 0; n < 8; ++n) world.players[n]->client.connect(world.server_address, {}, world.now);
    world.run(5s);
    ASSERT_EQ(world.host->peer_count(), 8u);
    for (int round = 0; round < 600; ++round) {
        for (std::size_t n = 8; n < 16; ++n) {
            Client& neighbour = world.players[n]->client;
            if (neighbour.is_idle()) neighbour.connect(world.server_address, {}, world.now);
        }
        world.run(100ms);
        if (round % 100 != 50) continue;
        std::unique_ptr<Host> paused = std::move(world.host);  // what arrives meanwhile is lost
        world.run(3s);
        world.host = std::move(paused);
    }
    EXPECT_TRUE(world.server.disconnects.empty());
    EXPECT_EQ(world.server.connects.size(), 8u);
}

// Goal: a seat that is taken when the first packet of an accepted client comes, and every other way in which
// it does not connect, is reported.
TEST(Host, AnAdmittedClientThatNeverConnectsIsReported) {
    for (const int why : {0, 1, 2}) {
        SCOPED_TRACE(why);
        World world;
        HostConfig config = host_config();
        config.max_peers = 1;
        Host& host = world.add_host(config);
        auto& first = world.add_client(client_config(1), 5000);
        auto& second = world.add_client(client_config(2), 6000);
        world.down.set_config({.latency = 20ms});
        second.client.connect(world.server_address, {}, world.now);
        if (why == 0) first.client.connect(world.server_address, {}, world.now);  // two clients, one seat
        while (world.server.admitted.empty()) world.step();
        const PeerId admitted = world.server.last_admitted;
        if (why == 1) world.remove_clients();
        if (why == 2) host.shut_down({}, world.now);
        world.run(11s);
        ASSERT_EQ(world.server.never_connected.size(), 1u);
        EXPECT_TRUE(world.server.admitted.empty());
        if (why != 0) {
            EXPECT_EQ(world.server.never_connected[0], admitted);
        }
        EXPECT_EQ(host.peer_count(), why == 0 ? 1u : 0u);
        EXPECT_EQ(world.server.connects.size(), why == 0 ? 1u : 0u);
    }
}

// Goal: neither two IPv6 /48 nor eight IPv4 addresses take all 64 seats, and one address with players takes
// max_peers_per_ip of them.
TEST(Host, AFewNetworksDoNotTakeAllSeats) {
    struct Case {
        bool is_ipv6;
        std::uint8_t networks;
        std::uint32_t most, least;
    };
    for (const Case& each :
         {Case{true, 2, 48, 48}, {false, 8, 52, 48}, {false, 1, 8, 8}, {true, 1, 32, 32}}) {
        SCOPED_TRACE(testing::Message() << int(each.networks) << " of IPv6 " << each.is_ipv6);
        World world;
        HostConfig config = host_config();
        config.max_peers_per_ip = HostConfig().max_peers_per_ip;
        world.add_host(config);
        for (std::uint8_t network = 0; network < each.networks; ++network) {
            for (std::uint8_t n = 0; n < (each.is_ipv6 ? 40 : 10); ++n) {
                auto& player = world.add_client(client_config(100 + world.players.size()));
                player.move(each.is_ipv6 ? Address::ipv6({0x20, 1, 0xd, 0xb8, 0, network, n, n}, 5000)
                                         : Address::ipv4(10, 0, 1, network, std::uint16_t(5000 + n)));
                player.client.connect(world.server_address, {}, world.now);
                world.run(60ms);
            }
        }
        EXPECT_LE(world.host->peer_count(), each.most);
        EXPECT_GE(world.host->peer_count(), each.least);
        auto& player = world.add_client(client_config(1));
        player.client.connect(world.server_address, {}, world.now);
        world.run(200ms);
        EXPECT_TRUE(player.client.is_connected(player.client.server()));
    }
    // A group behind one address fills a server that is not larger than its share.
    World world;
    HostConfig config = host_config();
    config.max_peers = config.max_peers_per_ip = 8;
    world.add_host(config);
    for (std::uint16_t n = 0; n < 8; ++n) {
        auto& player = world.add_client(client_config(100 + n), std::uint16_t(5000 + n));
        player.client.connect(world.server_address, {}, world.now);
        world.run(60ms);
    }
    EXPECT_EQ(world.host->peer_count(), 8u);
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

// A peer that takes all it can get leaves to the others what they want.
TEST(Host, TheLimitOfAllPeersTogetherIsSharedFairly) {
    for (const std::uint64_t limit : {100'000u, 500'000u}) {
        for (const std::uint32_t hogs : {1u, 3u}) {
            SCOPED_TRACE(testing::Message() << limit << " bytes/s, " << hogs << " hogs");
            World world;
            HostConfig config = host_config();
            config.max_bytes_per_second = limit;
            config.connection.first_bytes_per_second = 1'000'000;
            world.add_host(config);
            for (std::uint16_t i = 0; i < 8; ++i) {
                world.add_client(client_config(1 + i), static_cast<std::uint16_t>(6000 + i))
                    .client.connect(world.server_address, {}, world.now);
            }
            world.run(500ms);
            std::map<PeerId, std::size_t> waiting;
            std::vector<PeerId> all;
            for (const auto& [peer, is_here] : world.server.connects) all.push_back(peer);
            world.server.source = [&](PeerId peer, PayloadTurn& turn) -> std::size_t {
                if (!waiting.contains(peer)) return fill(turn);
                const std::size_t bytes = std::min(waiting[peer], turn.share);
                waiting[peer] -= bytes;
                return bytes;
            };
            const std::size_t of_tick = limit / 8 / 60 / 2;  // half of an equal part
            for (int tick = 0; tick < 600; ++tick) {
                for (std::size_t i = hogs; i < all.size(); ++i) waiting[all[i]] += of_tick;
                world.run(16667us, 16667us);
            }
            for (const auto& [peer, bytes] : waiting) EXPECT_LE(bytes, 10 * of_tick);
        }
    }
}

// A peer that waits has several turns in one flush; they count as one.
TEST(Host, UnderALimitEachUnreliableMessageMayLeaveInOneFlush) {
    World world;
    HostConfig config = host_config();
    config.max_bytes_per_second = 9'000;
    config.connection.max_message_age = 0ms;
    world.add_host(config);
    world.add_client(client_config()).client.connect(world.server_address, {}, world.now);
    world.run(1s);
    const std::string text(1000, 'm');
    // Three messages use up what the limit allows, so the peer has a debt when the fourth waits.
    for (const int messages : {3, 1, 0, 0, 3, 1, 0, 0, 3, 1, 0}) {
        for (int i = 0; i < messages; ++i)
            ASSERT_EQ(world.host->send_message(world.server.newest, Channel::unreliable, as_bytes(text)),
                      SendResult::queued);
        world.step(200ms);
    }
    EXPECT_EQ(world.host->stats(world.server.newest).messages_dropped, 0u);
    EXPECT_EQ(world.players[0]->recorder.messages.size(), 12u);
}

// Goal: the peer for which the limit left nothing is the first in the next flush, even if the table of peers
// grew in between.
TEST(Host, APeerThatGotNothingIsTheNextAlsoIfAnotherOneEnters) {
    for (int ticks = 0; ticks < 6; ++ticks) {
        SCOPED_TRACE(ticks);
        World world;
        HostConfig config = host_config();
        config.max_bytes_per_second = 48'000;  // two packets in each tick of 50 ms
        config.connection.first_bytes_per_second = 1'000'000;
        world.add_host(config);
        const auto enter = [&](std::uint16_t i) -> Client& {
            Client& client = world.add_client(client_config(1u + i), std::uint16_t(6000 + i)).client;
            client.connect(world.server_address, {}, world.now);
            return client;
        };
        for (std::uint16_t i = 0; i < 6; ++i) enter(i);
        world.run(2s + ticks * 50ms, 50ms);
        ASSERT_EQ(world.host->peer_count(), 6u);
        std::vector<std::uint32_t> writers;
        const Client& seventh = enter(6);
        world.server_tick = [&] {
            if (seventh.state() == Client::State::connected)
                world.server.source = [&](PeerId peer, PayloadTurn& turn) {
                    writers.push_back(peer.index());
                    return fill(turn);
                };
        };
        while (writers.empty()) world.step(50ms);
        ASSERT_EQ(world.host->peer_count(), 6u);
        ASSERT_EQ(writers.size(), 3u) << "one packet more than the limit";
        world.step(50ms);
        ASSERT_EQ(world.host->peer_count(), 7u);
        ASSERT_GE(writers.size(), 4u);
        EXPECT_EQ(writers[3], (writers[2] + 1) % 6);
    }
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
                             DisconnectReason(reason) == DisconnectReason::timed_out;
        const bool is_silent = DisconnectReason(reason) == DisconnectReason::replaced;
        EXPECT_EQ(world.server.disconnects.size(), is_silent ? 0u : 1u);
        EXPECT_EQ(world.server.last_text, is_silent ? "" : "words");
        if (!is_silent) {
            EXPECT_EQ(world.server.last_reason,
                      may_say ? DisconnectReason(reason) : DisconnectReason::closed_by_peer);
        }
        // A server may use more reasons.
        player.client.connect(world.server_address, {}, world.now);
        world.run(100ms);
        world.host->disconnect(world.server.newest, DisconnectReason(reason), "", world.now);
        world.run(100ms);
        const bool is_a_servers = DisconnectReason(reason) == DisconnectReason::shut_down ||
                                  DisconnectReason(reason) == DisconnectReason::kicked || is_silent ||
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
    config.max_handshakes_per_s_per_ip = 1000;
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
}  // namespace shoal::net::impl
