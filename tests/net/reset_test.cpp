#include "net/handshake/handshake.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/net/support/addresses.h"
#include "tests/net/support/hex.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

std::vector<std::byte> bytes_of(const Reset& packet) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const auto written = write(packet, buffer);
    return {written.begin(), written.end()};
}

TEST(Reset, BytesAreFixed) {
    const Reset packet{0xAABB0001, 0x0706'0504'0302'0100};
    const auto bytes = bytes_of(packet);
    EXPECT_EQ(to_hex(bytes), "b80100bbaa0001020304050607");
    Reset out;
    ASSERT_FALSE(read(bytes, out));
    EXPECT_EQ(out.connection_id, packet.connection_id);
    EXPECT_EQ(out.token, packet.token);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + std::ptrdiff_t(size));
        EXPECT_EQ(read(cut, out), Drop::truncated);
    }
    auto longer = bytes;
    longer.push_back(std::byte(0));
    EXPECT_EQ(read(longer, out), Drop::oversized);
}

const PublicKey& known() {
    static const PublicKey key = public_key(server_key());
    return key;
}

// The token depends on the key, the game, the server, the connection and the salt, and on nothing else.
TEST(Reset, TokenBytesAreFixed) {
    const ResetKey resets(server_key(), known(), 7, 0);
    const std::uint64_t salt = resets.make_salt(1, 0x1122'3344'5566'7788);
    EXPECT_EQ(salt, 0x1122'3344'5566'2cb4u);  // computed with another BLAKE2s and SipHash
    const std::uint64_t token = resets.token(1, salt);
    EXPECT_EQ(token, 0x103b'faaa'8ade'5c98u);
    EXPECT_EQ(token, ResetKey(server_key(), known(), 7, 0).token(1, salt));
    for (const ResetKey& other :
         {ResetKey(server_key(), known(), 7, 1), ResetKey(server_key(), known(), 8, 0),
          ResetKey(server_key(), {}, 7, 0), ResetKey(SecretKey(seed_of(1)), known(), 7, 0)})
        EXPECT_NE(token, other.token(1, salt));
    EXPECT_NE(token, resets.token(2, salt));
    EXPECT_NE(token, resets.token(1, salt ^ 1));
    // Strangers do not know which numbers are salts.
    std::mt19937_64 random(1);
    int salts = 0;
    for (int i = 0; i < 655'360; ++i) salts += resets.is_salt(1, random());
    EXPECT_NEAR(salts, 10, 9);
    EXPECT_TRUE(resets.is_salt(1, salt));
    EXPECT_FALSE(resets.is_salt(2, salt));
}

/// A client in a connection of 50 ms one way, with a server that can restart.
struct Restart {
    explicit Restart(Security security = Security::sealed) : world(link()) {
        host_with = host_config();
        ClientConfig client_with = client_config();
        host_with.security = client_with.security = security;
        world.add_host(host_with);
        player = &world.add_client(client_with);
        client().connect(world.server_address, {}, world.now);
        world.run(1s);
        EXPECT_TRUE(client().is_connected(client().server()));
    }
    static LinkConfig link() {
        LinkConfig link;
        link.latency = 50ms;
        return link;
    }
    Client& client() { return player->client; }
    /// Restarts the server with the same private key.
    void restart() {
        host_with.seed = seed_of(99);
        world.server = Recorder();
        world.add_host(host_with);
    }
    bool is_over() const { return !player->recorder.disconnects.empty(); }
    /// Returns the time from now to the end of the connection, at most 20 s.
    Duration time_to_notice() {
        const Time start = world.now;
        while (!is_over() && world.now - start < 20s) world.step();
        return world.now - start;
    }
    /// Returns the client's next packet, which the host does not get.
    std::vector<std::byte> packet() {
        world.up.set_config({});
        EXPECT_NE(player->send("x", world.now), 0u);
        LinkConditioner::Datagram datagram;
        EXPECT_TRUE(world.up.pop(world.now, datagram));
        return datagram.bytes;
    }

    /// Returns the probe that the client sends when an ack is overdue; the host does not get it.
    std::vector<std::byte> probe() {
        LinkConditioner::Datagram datagram;
        while (world.up.pop(world.now, datagram)) {
        }
        EXPECT_NE(player->send("x", world.now), 0u);
        for (int i = 0; i < 300; ++i) {
            world.now += 10ms;
            client().update(world.now);
            client().flush(world.now);
            while (world.up.pop(world.now, datagram))
                if (read_kind(datagram.bytes[0]) == PacketKind::probe) return datagram.bytes;
        }
        ADD_FAILURE() << "no probe";
        return {};
    }

    World world;
    HostConfig host_with;
    World::Player* player;
};

TEST(Reset, RestartIsNoticedARoundTripAfterAnAckIsOverdue) {
    Restart test;
    test.restart();
    test.player->send("anyone?", test.world.now);
    EXPECT_LE(test.time_to_notice(), 600ms);
    EXPECT_EQ(test.player->recorder.last_reason, DisconnectReason::server_restarted);
    EXPECT_GE(test.world.host->endpoint_stats().resets_sent, 1u);
    EXPECT_TRUE(test.client().is_idle());
    test.client().connect(test.world.server_address, {}, test.world.now);
    test.world.run(500ms);
    EXPECT_TRUE(test.client().is_connected(test.client().server()));
    // A client without traffic pings once per second.
    test.player->recorder.disconnects.clear();
    test.host_with.seed = seed_of(100);
    test.world.add_host(test.host_with);
    EXPECT_LE(test.time_to_notice(), 1700ms);
}

TEST(Reset, RestartIsNoticedFromAnyAddressAndWhileTheClientKeepsSending) {
    for (const bool keeps_sending : {false, true}) {
        for (const bool moves_meanwhile : {false, true}) {
            Restart test;
            test.player->move(Address::ipv4(10, 0, 7, 7, 9));
            test.world.run(2s);
            test.restart();
            if (moves_meanwhile) test.player->move(Address::ipv4(10, 0, 0, 1, 5001));
            if (keeps_sending) test.world.server_tick = [&] { test.player->send("input", test.world.now); };
            test.player->send("anyone?", test.world.now);
            EXPECT_LE(test.time_to_notice(), 500ms);
            EXPECT_EQ(test.player->recorder.last_reason, DisconnectReason::server_restarted);
        }
    }
}

// An insecure server, or one with another key, cannot make a valid reset.
TEST(Reset, ARestartWithAnotherKeyEndsByTimeout) {
    for (const Security security : {Security::sealed, Security::insecure}) {
        Restart test(security);
        test.host_with.key = SecretKey(seed_of(5));
        test.restart();
        EXPECT_GE(test.time_to_notice(), 8s);
        EXPECT_EQ(test.player->recorder.last_reason, DisconnectReason::timed_out);
        EXPECT_GT(test.world.host->endpoint_stats().drops[Drop::unknown_connection], 0u);
        EXPECT_EQ(test.world.host->endpoint_stats().resets_sent, 0u) << "it is not its salt";
    }
}

TEST(Reset, ForgedResetsAreCountedAndIgnored) {
    Restart test;
    const std::vector<std::byte> bytes = test.probe();
    const std::optional<Envelope> probe = read_envelope(bytes, true);
    ASSERT_TRUE(probe);
    const std::uint32_t id = probe->connection_id;
    const ResetKey resets(server_key(), known(), 0xC0FFEE, 0);
    const Reset reset{id, resets.token(id, probe->reset_salt)};
    Client& client = test.client();
    const auto feed = [&](const Reset& packet) {
        client.receive(test.world.server_address, bytes_of(packet), test.world.now);
    };
    feed({id, 0});
    for (std::size_t bit = 0; bit < 64; ++bit) feed({id, reset.token ^ 1ull << bit});
    feed({id + 1, reset.token});
    EXPECT_EQ(client.endpoint_stats().drops[Drop::bad_reset], 66u);
    client.receive(kHome, bytes_of(reset), test.world.now);
    EXPECT_EQ(client.endpoint_stats().drops[Drop::wrong_address], 1u);
    EXPECT_FALSE(test.is_over());
    feed(reset);
    EXPECT_TRUE(test.is_over());
    EXPECT_TRUE(client.is_idle()) << "it sends nothing more";
    feed(reset);
    EXPECT_EQ(client.endpoint_stats().drops[Drop::closed], 1u);
}

TEST(Reset, ALiveConnectionIsNeverAnsweredWithAReset) {
    Restart test;
    Host& host = *test.world.host;
    for (const std::vector<std::byte>& bytes : {test.packet(), test.probe()}) {
        for (std::size_t i = 5; i < bytes.size(); ++i) {
            auto forged = bytes;
            forged[i] ^= std::byte(1);
            host.receive(kHome, forged, test.world.now);
            host.receive(Address::ipv4(6, 6, 6, 6, 6), forged, test.world.now);
        }
        host.receive(kHome, bytes, test.world.now);
        host.receive(kHome, bytes, test.world.now);
    }
    // Also while it is being closed.
    const auto late = test.probe();
    host.disconnect(test.world.server.newest, DisconnectReason::kicked, "", test.world.now);
    host.receive(kHome, late, test.world.now);
    EXPECT_EQ(host.endpoint_stats().resets_sent, 0u);
    test.world.run(1s);
    EXPECT_EQ(test.player->recorder.last_reason, DisconnectReason::kicked);
}

/// A packet of a connection that the host does not have, with a salt that the host made.
std::vector<std::byte> stray_probe(const HostConfig& config, std::size_t size) {
    const ResetKey resets(server_key(), known(), config.protocol_id, config.server_id);
    std::vector<std::byte> packet(kMaxDatagramBytes, std::byte(0x55));
    ByteWriter out(packet);
    write_envelope(out, PacketKind::probe, false, 77, 1, 1);
    out.u64(resets.make_salt(77, 12345678));
    packet.resize(size);
    return packet;
}

TEST(Reset, AResetIsShorterThanItsCause) {
    Recorder recorder;
    Wire wire;
    const HostConfig config = host_config();
    Host host(config, recorder, wire);
    Time now = 100s;
    for (std::size_t size = 0; size <= kMaxDatagramBytes; ++size) {
        now += 100ms;
        const std::size_t before = wire.bytes;
        host.receive(kHome, stray_probe(config, size), now);
        const bool is_whole = size >= 1 + 4 + 1 + 8 + 1 + kInsecureTagBytes;
        ASSERT_EQ(wire.bytes - before, is_whole ? kResetBytes : 0) << size;
        ASSERT_TRUE(!is_whole || wire.bytes - before < size);
    }
    const auto probe = stray_probe(config, 40);
    // Other packets get no reset, so that two hosts never answer each other for ever.
    wire.sent.clear();
    now += 20s;
    for (const unsigned kind : {0xa8u, 0xb0u, 0xc8u}) {
        auto other = probe;
        other[0] = std::byte(kind);
        host.receive(kHome, other, now);
    }
    host.receive(kHome, bytes_of({1, {}}), now);
    EXPECT_TRUE(wire.sent.empty());
    EXPECT_EQ(host.endpoint_stats().drops[Drop::wrong_direction], 1u);
    EXPECT_TRUE(host.is_idle());
}

// Strangers who saw no salt send 20,000 datagrams a second, some of them of this very connection.
TEST(Reset, StrangersGetNoResets) {
    Restart test;
    const auto seen = test.packet();
    test.restart();
    std::mt19937_64 random(1);
    for (int i = 0; i < 20'000; ++i) {
        auto blind = stray_probe(test.host_with, 60);
        for (std::size_t at = 6; at < 14; ++at) blind[at] = std::byte(random() & 0xFF);
        for (std::size_t at = 1; at < 5; ++at) blind[at] = i % 2 ? seen[at] : std::byte(random() & 0xFF);
        test.world.host->receive(Address::ipv4(6, 6, 6, 6, std::uint16_t(i)), blind, test.world.now);
    }
    EXPECT_LE(test.world.host->endpoint_stats().resets_sent, 4u) << "one of 65,536";
}

// The host gives up a handshake when its answer has just arrived: the client believes that it is connected.
TEST(Reset, EndsAClientWhoseHandshakeTheServerGaveUp) {
    LinkConfig link;
    link.latency = 50ms;
    World world(link);
    HostConfig config = host_config();
    config.handshake_timeout = 80ms;  // less than a round trip
    world.add_host(config);
    auto& player = world.add_client(client_config());
    player.client.connect(world.server_address, {}, world.now);
    while (player.recorder.connects.empty()) world.step();
    const Time connected = world.now;
    while (player.recorder.disconnects.empty() && world.now - connected < 20s) world.step();
    EXPECT_EQ(player.recorder.last_reason, DisconnectReason::server_restarted);
    EXPECT_LE(world.now - connected, 700ms)
        << "before the first measured round trip an ack is overdue after 500";
    EXPECT_EQ(world.host->endpoint_stats().handshakes_expired, 1u);
    EXPECT_TRUE(world.server.connects.empty());
}

}  // namespace
}  // namespace shoal::net::impl
