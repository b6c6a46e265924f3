// Handshakes at a host, until a client is a peer.

#include "net/handshake/gate.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/net/support/addresses.h"
#include "tests/net/support/bare_host.h"

namespace shoal::net::impl {
namespace {

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

TEST(Gate, StoresNothingBeforeAValidCookie) {
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

TEST(Gate, ARepeatedConnectGetsTheSameAnswer) {
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
    bare.now += 10s;
    bare.host.update(bare.now);
    EXPECT_TRUE(bare.host.is_idle());
    EXPECT_TRUE(bare.recorder.disconnects.empty());
    EXPECT_EQ(bare.host.endpoint_stats().handshakes_expired, 1u);
}

// Else repeated connects of strangers would keep the places of all pending handshakes.
TEST(Gate, ARepeatedConnectIsAnsweredAndRenewsNothing) {
    Bare bare;
    const Connect connect = bare.connect_for(kAlice, 1);
    bare.feed_packet(kAlice, connect);
    bare.now += 8s;
    const std::size_t sent = bare.wire.sent.size();
    bare.feed_packet(kAlice, connect);
    EXPECT_EQ(bare.wire.sent.size(), sent + 1);
    bare.now += 2s;
    bare.host.update(bare.now);
    EXPECT_TRUE(bare.host.is_idle());
}

TEST(Gate, AConnectOfAPeerThatIsConnectedIsCountedAndNotAnswered) {
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
TEST(Gate, AnotherKeyUnderTheSameNonceIsAnotherAttempt) {
    Bare bare;
    const std::uint64_t cookie = bare.cookie_for(kAlice, 7);
    Visitor thief(7, {0x5C4E, 9, {}, {}}, Security::sealed), owner(7);
    const Connect copied = thief.connect(cookie);
    std::array<std::byte, kConnectMessageBytes> message{};
    const SecretKey ephemeral(seed_of(1234));
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

TEST(Gate, AConnectRepeatedWhileItsConnectionClosesIsCounted) {
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

TEST(Gate, RefusalsSayWhy) {
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

TEST(Gate, OneAddressCannotUseAllHandshakesPerSecond) {
    Bare bare;
    for (std::uint64_t nonce = 1; nonce <= 400; ++nonce)
        bare.feed_packet(kMallory, bare.connect_for(kMallory, nonce));
    const std::uint64_t refused = bare.dropped(Drop::too_many_attempts);
    EXPECT_GT(refused, 200u) << "the first 50 are accepted, and of the others some, by chance";
    bare.now += 100ms;
    bare.feed_packet(kAlice, bare.connect_for(kAlice, 1));
    const auto verdict = bare.verdict();
    EXPECT_TRUE(verdict && verdict->is_accepted);
}

// From many ports and many machines. A client that completes its handshake is still accepted.
TEST(Gate, UnfinishedHandshakesDoNotCloseTheServer) {
    HostConfig config = host_config();
    config.max_peers = 1;
    Bare bare(config);
    bare.feed_packet(kAlice, bare.connect_for(kAlice, 1));
    const std::uint32_t id = bare.verdict()->connection_id;
    const Visitor alice = *bare.visitor;
    Address many = kMallory;
    for (std::uint16_t port = 1; port <= 400; ++port) {
        many.port = port;
        bare.feed_packet(many, bare.connect_for(many, port));
    }
    const std::uint64_t refused = bare.dropped(Drop::too_many_attempts);
    EXPECT_GT(refused, 200u);
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
    EXPECT_EQ(bare.host.endpoint_stats().handshakes_expired, 0u);
    EXPECT_LT(bare.dropped(Drop::too_many_attempts), refused + 100);
    bare.feed(kAlice, first_packet(alice, id));
    EXPECT_EQ(bare.host.peer_count(), 1u);
}

// The limits of attempts give each handshake its time in the table, so no network has a part of its own.
TEST(Gate, AHandshakeBeyondTheTableReplacesTheOldestOne) {
    HostConfig config = host_config();
    config.handshake_timeout = 10ms;  // a table of 16
    Bare bare(config);
    std::vector<PeerId> admitted;
    for (std::uint8_t n = 0; n < 20; ++n) {
        const Address from = Address::ipv4(10, 1, 1, n, 5000);
        bare.feed_packet(from, bare.connect_for(from, 100u + n));
        admitted.push_back(bare.recorder.last_admitted);
    }
    EXPECT_EQ(bare.host.endpoint_stats().handshakes_expired, 4u);
    EXPECT_EQ(bare.recorder.never_connected, std::vector(admitted.begin(), admitted.begin() + 4));
}

// Half of the handshakes are reserved for networks that had none recently.
TEST(Gate, AFloodFromAFewMachinesDoesNotKeepNewcomersWaiting) {
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

TEST(Gate, OneMachineCannotUseAllPeerSlots) {
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
TEST(Gate, AClientConfirmedTooLateIsToldThatTheServerIsFull) {
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

TEST(Gate, HasRoomForAtLeastOnePeer) {
    World world;
    HostConfig config = host_config();
    config.max_peers = 0;
    world.add_host(config);
    world.add_client(client_config()).client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    EXPECT_EQ(world.host->peer_count(), 1u);
}

TEST(Gate, AForgedFirstPacketConfirmsNothing) {
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
TEST(Gate, ConnectionIdsAreAsRandomAsTheyCanBe) {
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
TEST(Gate, RandomDatagramsOfStrangersChangeNothing) {
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

}  // namespace
}  // namespace shoal::net::impl
