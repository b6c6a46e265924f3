#include "net/host.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/net/support/addresses.h"
#include "tests/net/support/world.h"

namespace shoal::net {
namespace {

/// A host whose packets are stored, and clients whose packets the test writes.
struct Bare {
    explicit Bare(const HostConfig& config = host_config())
        : security(config.security), host(config, recorder, wire) {}

    /// Passes bytes to the host, in a buffer of exact size, and checks that it sends no more bytes than
    /// these.
    void feed(const Address& from, std::span<const std::byte> bytes) {
        const std::vector<std::byte> exact(bytes.begin(), bytes.end());
        const std::size_t before = wire.bytes;
        host.receive(from, exact, now);
        EXPECT_LE(wire.bytes - before, bytes.size()) << "amplification";
        EXPECT_TRUE(host.is_consistent());
    }
    template <class Kind>
    void feed_packet(const Address& from, const Kind& packet) {
        std::array<std::byte, kMaxDatagramBytes> buffer;
        feed(from, write(packet, buffer));
    }
    /// Returns the last packet sent, if it is of this kind.
    template <class Kind>
    std::optional<Kind> last() {
        Kind packet;
        if (wire.sent.empty() || read(wire.sent.back().second, packet)) return std::nullopt;
        return packet;
    }
    std::uint64_t cookie_for(const Address& from, std::uint64_t nonce) {
        feed_packet(from, Request{kWireVersion, nonce, 0xC0FFEE, security});
        const auto reply = last<CookieReply>();
        return reply ? reply->cookie : 0;
    }
    Connect connect_for(const Address& from, std::uint64_t nonce) {
        visitor.emplace(nonce, ClientHello{0x5C4E, 1, {}, {}}, security);
        return visitor->connect(cookie_for(from, nonce));
    }
    /// Returns the verdict in the last packet, for the last visitor.
    std::optional<Verdict> verdict() {
        return wire.sent.empty() || !visitor ? std::nullopt : visitor->open(wire.sent.back().second);
    }
    std::uint64_t dropped(Drop reason) { return host.endpoint_stats().drops[reason]; }

    Time now = 100s;
    Security security;
    std::optional<Visitor> visitor;
    Wire wire;
    Recorder recorder;
    Host host;
};

/// Returns a client's first packet, which confirms the handshake. The visitor must have opened the answer.
std::vector<std::byte> first_packet(const Visitor& visitor, std::uint32_t connection_id) {
    const NoiseKeys keys = visitor.keys();
    Session session;
    session.send_id = connection_id;
    Handler nobody;
    Wire wire;
    Connection connection(
        ConnectionConfig{}, session,
        PacketCipher(Security::sealed, 0xC0FFEE, keys.to_responder, keys.to_initiator, 1, Time(0)), nobody,
        wire, Time(0));
    connection.ping(Time(0));
    return wire.sent.front().second;
}

TEST(Host, StoresNothingBeforeAValidCookie) {
    Bare bare;
    for (std::uint64_t nonce = 1; nonce < 2000; ++nonce) EXPECT_NE(bare.cookie_for(kAlice, nonce), 0u);
    EXPECT_TRUE(bare.host.is_idle());
    const std::uint64_t cookie = bare.cookie_for(kAlice, 5);
    bare.wire.sent.clear();
    // A forged cookie, one for another address, one for another nonce, and one that is too old.
    Visitor five(5), six(6);
    bare.feed_packet(kAlice, five.connect(cookie + 1));
    bare.feed_packet(kMallory, five.connect(cookie));
    bare.feed_packet(kAlice, six.connect(cookie));
    bare.now += 17s;
    bare.feed_packet(kAlice, five.connect(cookie));
    EXPECT_EQ(bare.dropped(Drop::bad_cookie), 4u);
    EXPECT_TRUE(bare.wire.sent.empty());
    EXPECT_TRUE(bare.host.is_idle());
    EXPECT_EQ(bare.recorder.admissions, 0);
}

TEST(Host, ARepeatedConnectGetsTheSameAnswer) {
    Bare bare;
    const Connect connect = bare.connect_for(kAlice, 1);
    bare.feed_packet(kAlice, connect);
    const auto first = bare.wire.sent.back().second;
    bare.feed_packet(kAlice, connect);
    EXPECT_EQ(bare.wire.sent.back().second, first);
    EXPECT_TRUE(bare.verdict()->is_accepted);
    EXPECT_EQ(bare.recorder.admissions, 1);
    // With a damaged key it is another attempt, whose tag is wrong.
    Connect damaged = connect;
    std::vector<std::byte> message(connect.message.begin(), connect.message.end());
    message[0] ^= std::byte(1);
    damaged.message = message;
    bare.feed_packet(kAlice, damaged);
    EXPECT_EQ(bare.dropped(Drop::bad_tag), 1u);
    EXPECT_EQ(bare.recorder.admissions, 1);
    // The client is connected only after its first packet. Without it, the handshake expires.
    EXPECT_EQ(bare.host.peer_count(), 0u);
    EXPECT_FALSE(bare.host.is_idle());
    bare.now += 5s;
    bare.host.update(bare.now);
    EXPECT_TRUE(bare.host.is_idle());
    EXPECT_TRUE(bare.recorder.disconnects.empty());
    EXPECT_EQ(bare.host.endpoint_stats().handshakes_expired, 1u);
}

TEST(Host, ARepeatedConnectRenewsOnlyItsOwnHandshake) {
    Bare bare;
    Visitor alice(1), mallory(2);
    const Connect connect = alice.connect(bare.cookie_for(kAlice, 1));
    bare.feed_packet(kAlice, connect);
    bare.now += 1s;
    bare.feed_packet(kMallory, mallory.connect(bare.cookie_for(kMallory, 2)));
    bare.now += 3s;
    bare.feed_packet(kAlice, connect);
    bare.now += 2s;
    bare.host.update(bare.now);
    EXPECT_EQ(bare.host.endpoint_stats().handshakes_expired, 1u) << "Mallory's";
    EXPECT_FALSE(bare.host.is_idle());
    bare.now += 3s;
    bare.host.update(bare.now);
    EXPECT_EQ(bare.host.endpoint_stats().handshakes_expired, 2u);
    EXPECT_TRUE(bare.host.is_idle());
}

TEST(Host, AConnectOfAPeerThatIsConnectedIsCountedAndNotAnswered) {
    Bare bare;
    const Connect connect = bare.connect_for(kAlice, 1);
    bare.feed_packet(kAlice, connect);
    const std::optional<Verdict> verdict = bare.verdict();
    ASSERT_TRUE(verdict && verdict->is_accepted);
    bare.feed(kAlice, first_packet(*bare.visitor, verdict->connection_id));
    EXPECT_EQ(bare.host.peer_count(), 1u);
    const std::size_t sent = bare.wire.sent.size();
    bare.feed_packet(kAlice, connect);
    EXPECT_EQ(bare.dropped(Drop::unexpected), 1u);
    EXPECT_EQ(bare.wire.sent.size(), sent);
}

// An attacker who copies the nonce of a request, and is first, does not keep its owner out.
TEST(Host, AnotherKeyUnderTheSameNonceIsAnotherAttempt) {
    Bare bare;
    const std::uint64_t cookie = bare.cookie_for(kAlice, 7);
    Visitor thief(7, {0x5C4E, 9, {}, {}}, Security::sealed), owner(7);
    const Connect copied = thief.connect(cookie);
    std::array<std::byte, kConnectMessageBytes> message{};
    const Key ephemeral(seed_of(1234));
    NoiseExchange noise(handshake_prologue(0xC0FFEE, Security::sealed, 7, cookie), public_key(server_key()));
    write(ClientHello{0x5C4E, 1, {}, {}}, noise_payload(message).first<kClientHelloBytes>());
    ASSERT_TRUE(noise.write(ephemeral, message));
    bare.feed_packet(kAlice, copied);
    ASSERT_TRUE(thief.open(bare.wire.sent.back().second));
    bare.feed_packet(kAlice, Connect{kWireVersion, 7, 0xC0FFEE, cookie, message});
    const auto answer = bare.last<Answer>();
    ASSERT_TRUE(answer);
    std::vector<std::byte> body(answer->message.begin(), answer->message.end());
    EXPECT_TRUE(noise.read(ephemeral, body));
    EXPECT_EQ(bare.recorder.admissions, 2);
}

TEST(Host, AConnectRepeatedWhileItsConnectionClosesIsCounted) {
    Bare bare;
    const Connect connect = bare.connect_for(kAlice, 5);
    bare.feed_packet(kAlice, connect);
    ASSERT_TRUE(bare.verdict());
    bare.host.shut_down("that is all", bare.now);
    const std::size_t sent = bare.wire.sent.size();
    bare.feed_packet(kAlice, connect);
    EXPECT_EQ(bare.dropped(Drop::closed), 1u);
    EXPECT_EQ(bare.wire.sent.size(), sent);
}

TEST(Host, RefusalsSayWhy) {
    Bare bare;
    Request request{kWireVersion, 1, 0xBAD};
    bare.feed_packet(kAlice, request);
    EXPECT_EQ(bare.last<Refuse>()->reason, DisconnectReason::refused_protocol);
    request = {kWireVersion + 1, 1, 0xC0FFEE};
    bare.feed_packet(kAlice, request);
    EXPECT_EQ(bare.last<Refuse>()->reason, DisconnectReason::refused_protocol);

    bare.recorder.refusal_text = std::string(500, 'H');
    const std::uint64_t cookie = bare.cookie_for(kAlice, 2);
    bare.visitor.emplace(2u, ClientHello{1, 1, {}, as_bytes("my hashes")});
    bare.feed_packet(kAlice, bare.visitor->connect(cookie));
    const std::optional<Verdict> verdict = bare.verdict();
    ASSERT_TRUE(verdict);
    EXPECT_FALSE(verdict->is_accepted);
    EXPECT_EQ(verdict->reason, DisconnectReason::refused_schema);
    EXPECT_EQ(verdict->schema_hash, 0x5C4Eu);
    EXPECT_EQ(verdict->text, std::string(kMaxReasonBytes, 'H'));
    EXPECT_EQ(bare.recorder.last_hello, "my hashes");
    EXPECT_FALSE(bare.recorder.last_schema_matches);

    bare.recorder.refusal_text = "banned";
    bare.recorder.admits = false;
    bare.feed_packet(kAlice, bare.connect_for(kAlice, 3));
    const std::optional<Verdict> ban = bare.verdict();
    ASSERT_TRUE(ban);
    EXPECT_EQ(ban->reason, DisconnectReason::refused);
    EXPECT_EQ(ban->text, "banned");
    EXPECT_TRUE(bare.host.is_idle());
}

TEST(Host, OneAddressCannotUseAllPendingHandshakes) {
    Bare bare;
    for (std::uint64_t nonce = 1; nonce <= 150; ++nonce)
        bare.feed_packet(kMallory, bare.connect_for(kMallory, nonce));
    const std::uint64_t refused = bare.dropped(Drop::too_many_attempts);
    EXPECT_GT(refused, 40u);
    EXPECT_LT(refused, 118u) << "the first 32 are accepted, and of the others some, by chance";
    bare.now += 100ms;
    bare.feed_packet(kAlice, bare.connect_for(kAlice, 1));
    const auto verdict = bare.verdict();
    EXPECT_TRUE(verdict && verdict->is_accepted);
}

// From many ports and many machines. A client that completes its handshake is still accepted.
TEST(Host, UnfinishedHandshakesDoNotCloseTheServer) {
    HostConfig config = host_config();
    config.max_peers = 1;
    Bare bare(config);
    bare.feed_packet(kAlice, bare.connect_for(kAlice, 1));
    const std::uint32_t id = bare.verdict()->connection_id;
    const Visitor alice = *bare.visitor;
    Address many = kMallory;
    for (std::uint16_t port = 1; port <= 200; ++port) {
        many.port = port;
        bare.feed_packet(many, bare.connect_for(many, port));
    }
    const std::uint64_t refused = bare.dropped(Drop::too_many_attempts);
    EXPECT_GT(refused, 70u);
    const std::uint64_t expired = bare.host.endpoint_stats().handshakes_expired;  // of this address
    many.ip[1] = 1;
    bare.now += 100ms;
    for (unsigned machine = 0; machine < 3000; ++machine) {
        many.ip[2] = static_cast<std::uint8_t>(machine >> 8);
        many.ip[3] = static_cast<std::uint8_t>(machine & 0xFF);
        bare.now += 1ms;  // within a thousand handshakes per second
        bare.feed_packet(many, bare.connect_for(many, machine));
        bare.host.update(bare.now);
    }
    EXPECT_GT(bare.host.endpoint_stats().answers_sent, 2900u);
    EXPECT_EQ(bare.host.endpoint_stats().handshakes_expired, expired)
        << "no machine replaced a handshake of another one";
    EXPECT_LT(bare.dropped(Drop::too_many_attempts), refused + 100);
    bare.feed(kAlice, first_packet(alice, id));
    EXPECT_EQ(bare.host.peer_count(), 1u);
}

// At its limit a machine, or an IPv6 prefix, loses its own oldest handshake.
TEST(Host, AMachineAtItsLimitLosesItsOwnOldestHandshake) {
    HostConfig config = host_config();
    config.max_pending_per_ip = 4;
    config.handshake_timeout = 60s;
    Bare bare(config);
    const auto knock = [&](const Address& from, std::uint64_t nonce) {
        bare.now += 300ms;  // with shorter intervals the result is random
        bare.feed_packet(from, bare.connect_for(from, nonce));
        const auto verdict = bare.verdict();
        return verdict && verdict->is_accepted;
    };
    EXPECT_TRUE(knock(kAlice, 100));
    for (std::uint64_t nonce = 1; nonce <= 10; ++nonce) EXPECT_TRUE(knock(kMallory, nonce));
    EXPECT_EQ(bare.host.endpoint_stats().handshakes_expired, 6u);
    // A /56 has the limit of a machine. At the limit a network without a handshake of its own is refused.
    const auto at = [](std::uint8_t fifth, std::uint8_t sixth, std::uint8_t seventh, std::uint8_t eighth) {
        return Address::ipv6({0x20, 1, 0xd, 0xb8, fifth, sixth, seventh, eighth, 1}, 5000);
    };
    for (std::uint8_t n = 0; n < 4; ++n) EXPECT_TRUE(knock(at(0, 0, 0, n), 20u + n));
    EXPECT_FALSE(knock(at(0, 0, 0, 4), 30));
    EXPECT_TRUE(knock(at(0, 0, 0, 3), 31)) << "it replaces its own";
    for (std::uint8_t n = 0; n < 12; ++n)
        EXPECT_TRUE(knock(at(0, 0, static_cast<std::uint8_t>(1 + n / 4), n), 40u + n));
    EXPECT_FALSE(knock(at(0, 0, 9, 0), 60)) << "the limit of a /48 is four times as high";
    EXPECT_TRUE(knock(at(0, 1, 0, 0), 61));
    EXPECT_EQ(bare.host.endpoint_stats().handshakes_expired, 7u);
}

// Half of the handshakes are reserved for networks that had none recently.
TEST(Host, AFloodFromAFewMachinesDoesNotKeepNewcomersWaiting) {
    HostConfig config = host_config();
    config.max_handshakes_per_s = 100;  // ten per slice
    Bare bare(config);
    Address flood = kMallory;
    std::uint64_t nonce = 0;
    for (int slice = 0; slice < 50; ++slice) {
        bare.now += 100ms;
        for (int n = 0; n < 40; ++n) {  // four machines
            flood.ip[3] = static_cast<std::uint8_t>(n % 4);
            flood.port = static_cast<std::uint16_t>(n + 1);
            bare.feed_packet(flood, bare.connect_for(flood, ++nonce));
        }
        Address newcomer = Address::ipv4(10, 1, 0, static_cast<std::uint8_t>(slice), 1000);
        bare.feed_packet(newcomer, bare.connect_for(newcomer, ++nonce));
        const auto verdict = bare.verdict();
        ASSERT_TRUE(verdict && verdict->is_accepted) << slice;
    }
}

TEST(Host, OneMachineCannotUseAllPeerSlots) {
    HostConfig config = host_config();
    config.max_peers_per_ip = 3;
    Bare bare(config);
    const auto enter = [&](const Address& from, std::uint64_t nonce) {
        bare.now += 100ms;
        bare.feed_packet(from, bare.connect_for(from, nonce));
        const auto verdict = bare.verdict();
        if (verdict && verdict->is_accepted)
            bare.feed(from, first_packet(*bare.visitor, verdict->connection_id));
        return verdict;
    };
    Address from = kMallory;
    for (std::uint16_t n = 1; n <= 3; ++n) {
        from.port = n;
        EXPECT_TRUE(enter(from, n)->is_accepted);
    }
    from.port = 4;
    const auto refused = enter(from, 4);
    ASSERT_TRUE(refused && !refused->is_accepted);
    EXPECT_EQ(refused->reason, DisconnectReason::refused_full);
    EXPECT_EQ(refused->text, "too many from your address");
    EXPECT_TRUE(enter(kAlice, 5)->is_accepted);
    // Clients that were accepted while there was room are counted when they are confirmed.
    for (std::uint16_t n = 10; n < 14; ++n) {
        Address loopback = Address::ipv4(127, 0, 0, 1, n);
        EXPECT_TRUE(enter(loopback, n)->is_accepted) << "this machine may have any number";
    }
    EXPECT_EQ(bare.host.peer_count(), 8u);
    // When a peer leaves, there is room again.
    for (const auto& entry : bare.recorder.connects)
        if (bare.host.address(entry.first).port == 1)
            bare.host.disconnect(entry.first, DisconnectReason::kicked, "", bare.now);
    EXPECT_TRUE(enter(from, 20)->is_accepted);
}

// More clients are pending than fit. The decision is made at each client's first packet.
TEST(Host, AClientConfirmedTooLateIsToldThatTheServerIsFull) {
    HostConfig config = host_config();
    config.max_peers = 1;
    Bare bare(config);
    bare.feed_packet(kAlice, bare.connect_for(kAlice, 1));
    const auto first = bare.verdict();
    const Visitor alice = *bare.visitor;
    bare.feed_packet(kMallory, bare.connect_for(kMallory, 2));
    const auto second = bare.verdict();
    ASSERT_TRUE(first && second && first->is_accepted && second->is_accepted);
    bare.feed(kMallory, first_packet(*bare.visitor, second->connection_id));
    EXPECT_EQ(bare.host.peer_count(), 1u);
    bare.wire.sent.clear();
    bare.host.receive(kAlice, first_packet(alice, first->connection_id), bare.now);
    EXPECT_EQ(bare.host.peer_count(), 1u);
    EXPECT_EQ(bare.recorder.connects.size(), 1u);
    ASSERT_FALSE(bare.wire.sent.empty());
    EXPECT_EQ(read_kind(bare.wire.sent.back().second[0]), PacketKind::disconnect);
}

TEST(Host, HasRoomForAtLeastOnePeer) {
    World world;
    HostConfig config = host_config();
    config.max_peers = 0;
    world.add_host(config);
    world.add_client(client_config()).client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    EXPECT_EQ(world.host->peer_count(), 1u);
}

TEST(Host, AForgedFirstPacketConfirmsNothing) {
    Bare bare;
    bare.feed_packet(kAlice, bare.connect_for(kAlice, 1));
    const auto verdict = bare.verdict();
    ASSERT_TRUE(verdict);
    const std::vector<std::byte> good = first_packet(*bare.visitor, verdict->connection_id);
    for (std::size_t bit = 5 * 8; bit < good.size() * 8; ++bit) {
        std::vector<std::byte> damaged = good;
        damaged[bit / 8] ^= std::byte(1u << bit % 8);
        bare.feed(kAlice, damaged);
    }
    for (std::size_t size = 0; size < good.size(); ++size) bare.feed(kAlice, std::span(good).first(size));
    EXPECT_TRUE(bare.recorder.connects.empty());
    EXPECT_EQ(bare.host.endpoint_stats().resets_sent, 0u);
    bare.feed(kAlice, good);
    EXPECT_EQ(bare.host.peer_count(), 1u);
    bare.feed(kAlice, good);
    const ConnectionStats& stats = bare.host.stats(bare.recorder.newest);
    EXPECT_EQ(stats.drops[Drop::duplicate], 1u);
    for (std::size_t size = 5; size < good.size(); ++size) bare.feed(kAlice, std::span(good).first(size));
    EXPECT_EQ(stats.drops[Drop::truncated], good.size() - 5);
}

// All bits of a connection id that the peer slots do not need are random.
TEST(Host, ConnectionIdsAreAsRandomAsTheyCanBe) {
    HostConfig config = host_config();
    config.max_handshakes_per_s = 10;
    Bare bare(config);  // 64 peers, 20 that leave, 50 pending: 8 bits
    std::set<std::uint32_t> randoms;
    for (std::uint64_t nonce = 1; nonce <= 40; ++nonce) {
        bare.now += 1s;
        bare.host.update(bare.now);
        bare.feed_packet(kAlice, bare.connect_for(kAlice, nonce));
        EXPECT_TRUE(randoms.insert(bare.verdict()->connection_id >> 8).second);
    }
    EXPECT_GT(*randoms.rbegin(), 0x800000u) << "the upper bits are random";
    std::set<std::uint32_t> lower;
    for (const std::uint32_t random : randoms) lower.insert(random & 0xFF);
    EXPECT_GT(lower.size(), 20u) << "the lower bits are random";
}

// Goal: whatever strangers send, the host sends no more bytes than it got, admits nobody and does not fail.
TEST(Host, RandomDatagramsOfStrangersChangeNothing) {
    Bare bare;
    std::mt19937 random(1);
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const std::vector<std::byte> connect = [&] {
        const auto bytes = write(bare.connect_for(kAlice, 1), buffer);
        return std::vector<std::byte>(bytes.begin(), bytes.end());
    }();
    bare.wire.bytes = 0;
    for (int round = 0; round < 30'000; ++round) {
        std::vector<std::byte> bytes = connect;
        if (random() % 2) bytes.resize(random() % 1300);
        for (std::size_t n = 1 + random() % 8; n > 0 && !bytes.empty(); --n) {
            bytes[random() % std::min<std::size_t>(bytes.size(), random() % 2 ? 40 : 1300)] =
                std::byte(random());
        }
        if (!bytes.empty() && random() % 4 != 0)
            bytes[0] = std::byte(0x80 | random() % 8 << 3 | random() % 4);
        if (bytes != connect) bare.feed(random() % 2 ? kAlice : kMallory, bytes);
    }
    EXPECT_TRUE(bare.host.is_idle());
    EXPECT_EQ(bare.recorder.admissions, 0);
    for (const Drop reason : {Drop::truncated, Drop::oversized, Drop::unknown_kind, Drop::wrong_direction,
                              Drop::unknown_connection}) {
        EXPECT_GT(bare.dropped(reason), 0u) << describe(reason);
    }
}

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
