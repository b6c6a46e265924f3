#include "net/handshake/handshake.h"

#include <gtest/gtest.h>

#include "tests/net/support/addresses.h"
#include "tests/net/support/hex.h"
#include "tests/net/support/world.h"

namespace shoal::net {
namespace {

constexpr std::byte kResetKind{0xb8};

std::vector<std::byte> bytes_of(const Reset& packet) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const auto written = write(packet, buffer);
    return {written.begin(), written.end()};
}

TEST(Reset, BytesAreFixed) {
    Reset packet{0xAABB0001, {}};
    for (std::size_t i = 0; i < packet.token.size(); ++i) packet.token[i] = std::byte(i);
    const auto bytes = bytes_of(packet);
    EXPECT_EQ(to_hex(bytes), "b80100bbaa000102030405060708090a0b0c0d0e0f");
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

// The token depends on the key, the game, the connection and every part of the address, and on nothing else.
TEST(Reset, TokenBytesAreFixed) {
    const PublicKey known = public_key(server_key());
    const Key key = derive_reset_key(server_key(), known, 0);
    const ResetToken token = make_reset_token(key, 7, 1, kHome);
    EXPECT_EQ(to_hex(token), "b9b318ced860de63819f5973d13c8f23");  // computed with another BLAKE2s
    EXPECT_EQ(token, make_reset_token(derive_reset_key(server_key(), known, 0), 7, 1, kHome));
    EXPECT_NE(token, make_reset_token(derive_reset_key(server_key(), known, 1), 7, 1, kHome))
        << "another server with the same key";
    EXPECT_NE(token, make_reset_token(derive_reset_key(server_key(), {}, 0), 7, 1, kHome));
    Address other = kHome;
    other.port += 1;
    EXPECT_NE(token, make_reset_token(key, 7, 1, other));
    other = kHome;
    other.ip[3] += 1;
    EXPECT_NE(token, make_reset_token(key, 7, 1, other));
    EXPECT_NE(token, make_reset_token(key, 7, 2, kHome));
    EXPECT_NE(token, make_reset_token(key, 8, 1, kHome));
    EXPECT_NE(token, make_reset_token(derive_reset_key(Key(seed_of(1)), known, 0), 7, 1, kHome));
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

    World world;
    HostConfig host_with;
    World::Player* player;
};

TEST(Reset, RestartIsNoticedARoundTripAfterTheNextPacket) {
    Restart test;
    test.restart();
    test.player->send("anyone?", test.world.now);
    EXPECT_LE(test.time_to_notice(), 120ms);
    EXPECT_EQ(test.player->recorder.last_reason, DisconnectReason::server_restarted);
    EXPECT_EQ(test.world.host->endpoint_stats().drops[Drop::unknown_connection],
              test.world.host->endpoint_stats().resets_sent);
    EXPECT_TRUE(test.client().is_idle());
    test.client().connect(test.world.server_address, {}, test.world.now);
    test.world.run(500ms);
    EXPECT_TRUE(test.client().is_connected(test.client().server()));
    // A client without traffic pings once per second.
    test.player->recorder.disconnects.clear();
    test.host_with.seed = seed_of(100);
    test.world.add_host(test.host_with);
    EXPECT_LE(test.time_to_notice(), 1200ms);
}

// A token is valid for one address. So the client gets a new sealed token at each change, also back.
TEST(Reset, RestartIsNoticedAfterMovesToo) {
    Restart test;
    const std::vector<Address> addresses = {Address::ipv4(10, 0, 0, 1, 5001), Address::ipv4(10, 0, 7, 7, 9),
                                            kHome, Address::ipv4(10, 0, 7, 7, 9)};
    std::uint64_t moves = 0;
    for (const Address& address : addresses) {
        test.player->move(address);
        test.world.run(2s);
        EXPECT_EQ(test.world.host->endpoint_stats().moves, ++moves);
    }
    // The address changes, and changes back before the new one is proven.
    test.player->move(Address::ipv4(10, 0, 0, 1, 5002));
    test.player->send("from elsewhere", test.world.now);
    test.world.run(60ms);
    test.player->move(addresses.back());
    test.world.run(2s);
    EXPECT_EQ(test.world.host->endpoint_stats().moves, moves) << "it was back before the echo could arrive";
    test.restart();
    test.player->send("anyone?", test.world.now);
    EXPECT_LE(test.time_to_notice(), 120ms);
    EXPECT_EQ(test.player->recorder.last_reason, DisconnectReason::server_restarted);
}

// The numbers of the server's packets begin anew with each connection.
TEST(Reset, RestartIsNoticedAfterAMoveInTheSecondConnection) {
    Restart test;
    test.world.run(20s);
    test.player->move(Address::ipv4(10, 0, 0, 1, 5001));
    test.world.run(2s);
    test.client().disconnect(test.client().server(), DisconnectReason::closed, {}, test.world.now);
    test.world.run(1s);
    test.player->recorder.disconnects.clear();
    test.client().connect(test.world.server_address, {}, test.world.now);
    test.world.run(500ms);
    test.player->move(Address::ipv4(10, 0, 7, 7, 9));
    test.world.run(2s);
    test.restart();
    test.player->send("anyone?", test.world.now);
    EXPECT_LE(test.time_to_notice(), 120ms);
}

// An insecure server, or one with another key, cannot make a valid reset. A client whose address changed
// meanwhile has no token for it.
TEST(Reset, ARestartWithAnotherKeyOrAddressEndsByTimeout) {
    Restart other_key;
    other_key.host_with.key = Key(seed_of(5));
    other_key.restart();
    EXPECT_GE(other_key.time_to_notice(), 8s);
    EXPECT_EQ(other_key.player->recorder.last_reason, DisconnectReason::timed_out);
    EXPECT_GT(other_key.client().endpoint_stats().drops[Drop::bad_reset], 0u);

    Restart moved;
    moved.restart();
    moved.player->move(Address::ipv4(10, 0, 0, 1, 5001));
    EXPECT_GE(moved.time_to_notice(), 8s);
    EXPECT_EQ(moved.player->recorder.last_reason, DisconnectReason::timed_out);

    Restart insecure(Security::insecure);
    insecure.restart();
    EXPECT_GE(insecure.time_to_notice(), 8s);
    EXPECT_EQ(insecure.player->recorder.last_reason, DisconnectReason::timed_out);
    EXPECT_GT(insecure.world.host->endpoint_stats().drops[Drop::unknown_connection], 0u);
}

TEST(Reset, ForgedResetsAreCountedAndIgnored) {
    for (const Security security : {Security::sealed, Security::insecure}) {
        Restart test(security);
        const auto bytes = test.packet();
        ByteReader in(bytes);
        in.u8();
        const std::uint32_t id = in.u32();
        const Key key = derive_reset_key(server_key(), public_key(server_key()), 0);
        Reset reset{id, make_reset_token(key, 0xC0FFEE, id, kHome)};
        Client& client = test.client();
        const auto feed = [&](const Reset& packet) {
            client.receive(test.world.server_address, bytes_of(packet), test.world.now);
        };
        feed({id, {}});  // the token of an insecure connection
        for (std::size_t bit = 0; bit < 128; ++bit) {
            Reset forged = reset;
            forged.token[bit / 8] ^= std::byte(1u << bit % 8);
            feed(forged);
        }
        feed({id + 1, reset.token});
        EXPECT_EQ(client.endpoint_stats().drops[Drop::bad_reset], 130u);
        client.receive(kHome, bytes_of(reset), test.world.now);
        EXPECT_EQ(client.endpoint_stats().drops[Drop::wrong_address], 1u);
        EXPECT_FALSE(test.is_over());
        feed(reset);
        EXPECT_EQ(test.is_over(), security == Security::sealed);
        // The client sends nothing more, and a second reset has no effect.
        EXPECT_EQ(client.is_idle(), security == Security::sealed);
        feed(reset);
        EXPECT_EQ(client.endpoint_stats().drops[Drop::closed], security == Security::sealed ? 1u : 0u);
    }
}

TEST(Reset, ALiveConnectionIsNeverAnsweredWithAReset) {
    Restart test;
    const auto bytes = test.packet();
    Host& host = *test.world.host;
    for (std::size_t i = 5; i < bytes.size(); ++i) {
        auto forged = bytes;
        forged[i] ^= std::byte(1);
        host.receive(kHome, forged, test.world.now);
        host.receive(Address::ipv4(6, 6, 6, 6, 6), forged, test.world.now);
    }
    host.receive(kHome, bytes, test.world.now);
    host.receive(kHome, bytes, test.world.now);
    // Also while it is being closed.
    const auto late = test.packet();
    host.disconnect(test.world.server.newest, DisconnectReason::kicked, "", test.world.now);
    host.receive(kHome, late, test.world.now);
    EXPECT_EQ(host.endpoint_stats().resets_sent, 0u);
    test.world.run(1s);
    EXPECT_EQ(test.player->recorder.last_reason, DisconnectReason::kicked);
}

TEST(Reset, AResetIsNeverLongerThanItsCauseAndIsLimitedPerSecond) {
    Recorder recorder;
    Wire wire;
    HostConfig config = host_config();
    config.max_resets_per_s = 100;
    Host host(config, recorder, wire);
    Time now = 100s;
    std::vector<std::byte> packet(kMaxDatagramBytes, std::byte(0x55));
    packet[0] = std::byte(0xa8);
    for (std::size_t size = 0; size <= packet.size(); ++size) {
        now += 100ms;
        const std::size_t before = wire.bytes;
        host.receive(kHome, std::span(packet).first(size), now);
        ASSERT_LE(wire.bytes - before, size);
        ASSERT_EQ(wire.bytes - before, size < kResetBytes ? 0 : kResetBytes) << size;
        if (size >= kResetBytes) {
            EXPECT_EQ(wire.sent.back().second[0], kResetKind);
        }
    }
    wire.sent.clear();
    now += 100ms;
    for (int i = 0; i < 10'000; ++i) host.receive(kHome, packet, now + i * 100us);  // in one second
    EXPECT_EQ(wire.sent.size(), 100u);
    // Disconnect packets and resets get no reset, so that two hosts never answer each other for ever.
    wire.sent.clear();
    now += 2s;
    packet[0] = std::byte(0xb0);
    host.receive(kHome, packet, now);
    host.receive(kHome, bytes_of({1, {}}), now);
    EXPECT_TRUE(wire.sent.empty());
    EXPECT_EQ(host.endpoint_stats().drops[Drop::wrong_direction], 1u);
    EXPECT_TRUE(host.is_idle());
}

TEST(Reset, TheGreatestLimitAllowsResets) {
    Recorder recorder;
    Wire wire;
    HostConfig config = host_config();
    config.max_resets_per_s = std::numeric_limits<std::uint32_t>::max();
    Host host(config, recorder, wire);
    std::vector<std::byte> packet(kMaxDatagramBytes, std::byte(0x55));
    packet[0] = std::byte(0xa8);
    host.receive(kHome, packet, 100s);
    EXPECT_EQ(wire.sent.size(), 1u);
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
    EXPECT_LE(world.now - connected, 120ms);
    EXPECT_EQ(world.host->endpoint_stats().handshakes_expired, 1u);
    EXPECT_TRUE(world.server.connects.empty());
}

}  // namespace
}  // namespace shoal::net
