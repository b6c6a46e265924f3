// What strangers can and cannot do to sealed connections. The test delivers each packet itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/net/support/addresses.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

using Datagram = std::vector<std::byte>;

/// A host and a client whose datagrams the test delivers.
struct Table {
    explicit Table(const HostConfig& host_with = host_config(),
                   const ClientConfig& client_with = client_config())
        : host(host_with, at_host, from_host), client(client_with, at_client, from_client) {}

    void connect() {
        client.connect(kServer, as_bytes("hello"), now);
        client.flush(now);
    }
    Datagram take(Wire& wire) {
        EXPECT_FALSE(wire.sent.empty());
        if (wire.sent.empty()) return {};
        Datagram bytes = std::move(wire.sent.front().second);
        wire.sent.pop_front();
        return bytes;
    }
    void to_host(const Datagram& bytes) {
        const Datagram exact(bytes);
        const std::size_t before = from_host.bytes;
        const bool is_clear = exact.empty() || (exact[0] & std::byte(0x60)) != std::byte(0x20);
        host.receive(kClient, exact, now);
        if (is_clear) {
            EXPECT_LE(from_host.bytes - before, exact.size()) << "amplification";
        }
    }
    void to_client(const Datagram& bytes) {
        const Datagram exact(bytes);
        client.receive(kServer, exact, now);
    }
    /// Delivers all datagrams until both sides are silent.
    void settle() {
        while (!from_host.sent.empty() || !from_client.sent.empty()) {
            if (!from_client.sent.empty()) to_host(take(from_client));
            if (!from_host.sent.empty()) to_client(take(from_host));
        }
    }
    void run(Duration duration) {
        for (const Time end = now + duration; now < end;) {
            now += 10ms;
            host.update(now);
            client.update(now);
            host.flush(now);
            client.flush(now);
            settle();
        }
    }
    std::uint64_t host_drops() const {
        return host.endpoint_stats().drops.total() + host.stats(at_host.newest).drops.total();
    }
    std::uint64_t client_drops() const {
        return client.endpoint_stats().drops.total() + client.stats(client.server()).drops.total();
    }

    Time now = 100s;
    Wire from_host, from_client;
    Recorder at_host, at_client;
    Host host;
    Client client;
};

/// Calls fn with every truncation of `whole` and with every flipped bit, in buffers of exact size.
template <class Fn>
void for_each_damage(const Datagram& whole, Fn&& fn) {
    for (std::size_t size = 0; size < whole.size(); ++size)
        fn(Datagram(whole.begin(), whole.begin() + std::ptrdiff_t(size)));
    for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
        Datagram damaged = whole;
        damaged[bit / 8] ^= std::byte(1u << bit % 8);
        fn(damaged);
    }
}

// Goal: no damaged handshake packet connects a client or keeps one out; the undamaged packet works
// afterwards.
TEST(Security, DamagedHandshakePacketsChangeNothing) {
    Table table;
    table.connect();
    const Datagram request = table.take(table.from_client);
    // A damaged request is another request, or invalid.
    const auto try_request = [&](const Datagram& bytes) {
        const std::uint64_t before = table.host_drops();
        table.to_host(bytes);
        ASSERT_EQ(table.host_drops() - before + table.from_host.sent.size(), 1u);
        table.from_host.sent.clear();
        ASSERT_TRUE(table.host.is_idle());
    };
    for_each_damage(request, try_request);
    table.to_host(request);
    const Datagram cookie = table.take(table.from_host);
    // With a damaged cookie the client's connect is refused.
    for_each_damage(cookie, [&](const Datagram& bytes) {
        table.to_client(bytes);
        ASSERT_EQ(table.client.state(), Client::State::connecting);
    });
    table.from_client.sent.clear();
    while (table.from_client.sent.size() < 40) {  // the genuine cookie is tried among the damaged ones
        table.to_client(cookie);
        table.now += 10ms;
        table.client.flush(table.now);
    }
    Datagram connect;
    for (const auto& [to, bytes] : table.from_client.sent) {
        Connect packet;
        CookieReply genuine;
        if (!read(bytes, packet) && !read(cookie, genuine) && packet.cookie == genuine.cookie)
            connect = bytes;
    }
    ASSERT_FALSE(connect.empty());
    table.from_client.sent.clear();
    const auto try_connect = [&](const Datagram& bytes) {
        const std::uint64_t hints = table.host.endpoint_stats().refusals_sent;
        const std::uint64_t before = table.host_drops();
        table.to_host(bytes);
        ASSERT_LE(table.host_drops() - before, 1u);
        ASSERT_GE(table.host_drops() - before + table.host.endpoint_stats().refusals_sent - hints, 1u);
        ASSERT_TRUE(table.host.is_idle());
    };
    for_each_damage(connect, try_connect);
    // Again for each byte, while attempts are allowed: the tag is wrong.
    for (std::size_t byte = 1; byte < connect.size(); byte += byte < 70 ? 1 : 37) {
        table.now += 100ms;
        Datagram damaged = connect;
        damaged[byte] ^= std::byte(0x40);
        try_connect(damaged);
    }
    EXPECT_GT(table.host.endpoint_stats().drops[Drop::bad_tag], 60u);
    EXPECT_EQ(table.at_host.admissions, 0);
    table.from_host.sent.clear();
    table.now = 106s;
    table.to_host(connect);
    EXPECT_EQ(table.at_host.admissions, 1);
    const Datagram answer = table.take(table.from_host);
    for_each_damage(answer, [&](const Datagram& bytes) {
        const std::uint64_t before = table.client_drops();
        table.to_client(bytes);
        const bool is_hint = !bytes.empty() && read_kind(bytes[0]) != PacketKind::answer;
        ASSERT_LE(table.client_drops() - before, 1u);
        ASSERT_TRUE(is_hint || table.client_drops() == before + 1);
        ASSERT_EQ(table.client.state(), Client::State::connecting);
    });
    table.from_client.sent.clear();
    table.to_client(answer);
    table.settle();
    EXPECT_EQ(table.at_host.connects.size(), 1u);
    EXPECT_EQ(table.at_client.connects.size(), 1u);
}

// Goal: a damaged packet of a connection, sealed or insecure, changes only a counter.
TEST(Security, DamagedPacketsChangeNothing) {
    for (const bool is_sealed : {true, false}) {
        SCOPED_TRACE(is_sealed);
        Table table(is_sealed ? host_config() : insecure(host_config()),
                    is_sealed ? client_config() : insecure(client_config()));
        table.connect();
        table.settle();
        ASSERT_TRUE(table.host.is_connected(table.at_host.newest));
        (void)table.client.send_message(table.client.server(), Channel::reliable, as_bytes("message"));
        table.at_client.send(table.client, table.client.server(), as_bytes("input"), table.now);
        const Datagram data = table.take(table.from_client);
        table.client.disconnect(table.client.server(), DisconnectReason::closed, "bye", table.now);
        const Datagram goodbye = table.take(table.from_client);
        table.from_client.sent.clear();
        for (const Datagram& packet : {data, goodbye}) {
            for_each_damage(packet, [&](const Datagram& bytes) {
                const std::uint64_t before = table.host_drops();
                table.to_host(bytes);
                ASSERT_EQ(table.host_drops(), before + 1);
                ASSERT_TRUE(table.from_host.sent.empty());
                ASSERT_TRUE(table.at_host.payloads.empty() && table.at_host.messages.empty());
                ASSERT_TRUE(table.at_host.disconnects.empty());
            });
        }
        table.to_host(data);
        EXPECT_EQ(table.at_host.payloads.size(), 1u);
        const std::uint64_t before = table.host_drops();
        table.to_host(data);
        EXPECT_EQ(table.host_drops(), before + 1) << "replayed";
        EXPECT_EQ(table.at_host.payloads.size(), 1u);
        table.to_host(goodbye);
        EXPECT_EQ(table.at_host.last_reason, DisconnectReason::closed_by_peer);
        table.to_host(goodbye);
        EXPECT_EQ(table.at_host.disconnects.size(), 1u);
    }
}

TEST(Security, ReflectedReplayedAndForeignPacketsAreDropped) {
    Table table, other(host_config(8), client_config(71));
    table.connect();
    const Datagram request = table.take(table.from_client);
    table.to_host(request);
    table.to_client(table.take(table.from_host));
    const Datagram connect = table.take(table.from_client);
    table.to_host(connect);
    const Datagram answer = table.take(table.from_host);
    table.to_client(answer);
    table.settle();
    other.connect();
    other.settle();
    const PeerId peer = table.at_host.newest;
    ASSERT_TRUE(table.host.is_connected(peer) && other.host.is_connected(other.at_host.newest));

    // The server's own packet, reflected.
    table.at_host.send(table.host, peer, as_bytes("state"), table.now);
    const Datagram state = table.take(table.from_host);
    const std::uint64_t before = table.host_drops();
    table.to_host(state);
    EXPECT_EQ(table.host_drops(), before + 1);
    // A packet of another connection with the same packet numbers.
    other.at_host.send(other.host, other.at_host.newest, as_bytes("other"), other.now);
    table.to_client(other.take(other.from_host));
    EXPECT_TRUE(table.at_client.payloads.empty());
    // Repeated handshake packets do not affect the connection.
    table.to_client(answer);
    table.to_host(connect);
    table.to_host(request);
    table.to_client(state);
    table.to_client(state);
    EXPECT_EQ(table.at_client.payloads.size(), 1u);
    EXPECT_TRUE(table.host.is_connected(peer));
    EXPECT_EQ(table.at_host.connects.size(), 1u);
    EXPECT_TRUE(table.at_client.disconnects.empty());
}

// A cookie is valid for some seconds. A connect replayed in this time only makes a pending handshake.
TEST(Security, AReplayedConnectConnectsNobody) {
    Table table;
    table.connect();
    table.to_host(table.take(table.from_client));
    table.to_client(table.take(table.from_host));
    const Datagram connect = table.take(table.from_client);
    table.to_host(connect);
    const Datagram answer = table.take(table.from_host);
    table.to_client(answer);
    table.client.disconnect(table.client.server(), DisconnectReason::closed, "", table.now);
    table.settle();
    table.host.update(table.now);
    ASSERT_TRUE(table.host.is_idle());
    table.to_host(connect);
    EXPECT_NE(table.take(table.from_host), answer) << "the same keys must not be used twice";
    EXPECT_EQ(table.host.peer_count(), 0u);
    table.now += 10s;
    table.host.update(table.now);
    EXPECT_TRUE(table.host.is_idle());
}

TEST(Security, ForgedDisconnectsAreDropped) {
    Table table;
    table.connect();
    table.settle();
    const PeerId peer = table.at_host.newest;
    table.at_host.send(table.host, peer, as_bytes("state"), table.now);
    Datagram forged = table.take(table.from_host);
    forged[0] = std::byte(0xB0) | (forged[0] & std::byte(7));  // a data packet changed to a disconnect
    table.to_client(forged);
    std::mt19937 random(1);
    for (int i = 0; i < 1000; ++i) {
        for (std::size_t n = 2; n < forged.size(); ++n) forged[n] = std::byte(random());
        table.to_client(forged);
    }
    EXPECT_EQ(table.client.state(), Client::State::connected);
    EXPECT_EQ(table.client.stats(table.client.server()).drops[Drop::bad_tag], 1001u);
}

// The server sends a cookie and an unauthenticated refusal, which the client believes after half of its
// timeout.
TEST(Security, AClientWithAnotherServersKeyIsToldInTheEnd) {
    HostConfig config = host_config();
    config.key = SecretKey(seed_of(99));
    Table table(config);
    table.connect();
    table.settle();
    table.run(4900ms);
    EXPECT_EQ(table.client.state(), Client::State::connecting);
    table.run(1s);
    EXPECT_EQ(table.at_client.last_reason, DisconnectReason::refused_key);
    EXPECT_EQ(describe(DisconnectReason::refused_key), "refused: the server has another key");
    EXPECT_EQ(table.at_host.admissions, 0);
    EXPECT_TRUE(table.host.is_idle());
}

TEST(Security, SealedAndInsecureDoNotMix) {
    for (const bool host_is_sealed : {true, false}) {
        Table table(host_is_sealed ? host_config() : insecure(host_config()),
                    host_is_sealed ? insecure(client_config()) : client_config());
        table.connect();
        table.settle();
        table.run(1100ms);
        EXPECT_EQ(table.at_client.last_reason, DisconnectReason::refused_security);
        EXPECT_EQ(table.at_client.last_text,
                  host_is_sealed ? "the server wants sealed packets" : "the server is insecure");
        EXPECT_EQ(table.at_host.admissions, 0);
    }
    Table both(insecure(host_config()), insecure(client_config()));
    both.connect();
    both.settle();
    EXPECT_TRUE(both.host.is_connected(both.at_host.newest));
}

// An attacker who sees requests can forge refusals, but an authentic answer of the server counts more.
TEST(Security, ForgedHintsDoNotKeepAClientOut) {
    for (const DisconnectReason reason : {DisconnectReason::refused_protocol, DisconnectReason::refused_key,
                                          DisconnectReason::refused_security}) {
        Table table;
        table.connect();
        Request request;
        ASSERT_FALSE(read(table.from_client.sent.front().second, request));
        std::array<std::byte, kMaxDatagramBytes> buffer;
        const auto hint = write(Refuse{request.client_nonce, reason}, buffer);
        table.to_client({hint.begin(), hint.end()});
        table.now += 500ms;
        table.client.update(table.now);
        table.settle();
        EXPECT_EQ(table.client.state(), Client::State::connected);
        table.run(2s);
        EXPECT_EQ(table.client.state(), Client::State::connected);
    }
}

TEST(Security, HandshakesPerSecondAreLimited) {
    HostConfig config = host_config();
    config.max_handshakes_per_s = 200;
    config.max_peers = 1000;
    Table table(config);
    const auto knock = [&](const Address& from, std::uint64_t nonce, std::span<const std::byte> body) {
        std::array<std::byte, kMaxDatagramBytes> buffer;
        table.from_host.sent.clear();
        table.host.receive(from, write(Request{kWireVersion, nonce, 0xC0FFEE}, buffer), table.now);
        CookieReply reply;
        ASSERT_FALSE(read(table.from_host.sent.back().second, reply));
        const Connect connect{kWireVersion, nonce, 0xC0FFEE, reply.cookie, body};
        table.host.receive(from, write(connect, buffer), table.now);
    };
    const std::array<std::byte, kConnectMessageBytes> nonsense{std::byte(9)};
    const auto tried = [&] { return table.host.endpoint_stats().drops[Drop::bad_tag]; };
    for (std::uint64_t nonce = 1; nonce <= 1000; ++nonce) knock(kClient, nonce, nonsense);
    EXPECT_GE(tried(), 16u);
    EXPECT_LE(tried(), 120u) << "limit of one machine without handshakes before";
    const std::uint64_t before = tried();
    Address many = kClient;
    for (std::uint8_t machine = 10; machine < 200; ++machine) {
        many.ip[2] = machine;
        knock(many, machine, nonsense);
    }
    EXPECT_GE(tried(), before + 15) << "at least half are for other machines";
    // Once the load is known, the limit is exact: 200 per second.
    for (int slice = 0; slice < 50; ++slice) {
        if (slice == 10) many.ip[3] = 1;
        table.now += 100ms;
        const std::uint64_t until_now = tried();
        for (std::uint8_t machine = 10; machine < 200; ++machine) {
            many.ip[2] = machine;
            knock(many, std::uint64_t(slice) * 1000 + machine, nonsense);
        }
        EXPECT_LE(tried() - until_now, 60u);
    }
    const std::uint64_t in_five_seconds = tried() - before;
    EXPECT_GE(in_five_seconds, 500u);
    EXPECT_LE(in_five_seconds, 1600u);
}

// Goal: key updates every few packets, in both directions, work with all faults of a path.
TEST(Security, KeyUpdatesLoseNothing) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(seed);
        HostConfig for_host = host_config(seed);
        ClientConfig for_client = client_config(seed);
        for_host.connection.key_life = for_client.connection.key_life = {1 + seed % 7, 1h};
        LinkConfig link;
        link.latency = Duration(seed * 3000);
        link.jitter = 30ms;
        link.loss = 0.15;
        link.duplicate = 0.1;
        link.reorder = 0.2;
        World world({}, seed);
        world.add_host(for_host);
        auto& player = world.add_client(for_client);
        player.client.connect(world.server_address, {}, world.now);
        world.run(100ms);
        world.up.set_config(link);
        world.down.set_config(link);
        int sent = 0;
        for (int tick = 0; tick < 400; ++tick) {
            if (world.host->send_message(world.server.newest, Channel::reliable,
                                         as_bytes(std::to_string(sent))) == SendResult::queued)
                sent += 1;
            (void)player.client.send_message(player.client.server(), Channel::reliable, as_bytes("up"));
            world.send(world.server.newest, "state");
            world.step(16ms);
        }
        world.up.set_config({});
        world.down.set_config({});
        world.run(3s, 16ms);
        EXPECT_EQ(player.recorder.texts(Channel::reliable).size(), std::size_t(sent));
        EXPECT_GT(world.server.payloads.size() + world.server.messages.size(), 300u);
        EXPECT_TRUE(world.server.disconnects.empty());
    }
}

TEST(Security, AConnectionEndsWhenItsNumbersAreUsedUp) {
    HostConfig config = host_config();
    config.connection.max_packets = 100;
    config.connection.first_packet_number = (1ull << 62) - 7;
    World world;
    world.add_host(config);
    auto& player = world.add_client(client_config());
    player.client.connect(world.server_address, {}, world.now);
    world.server_tick = [&] { world.send(world.server.newest, "x"); };
    world.run(500ms);
    EXPECT_TRUE(world.server.disconnects.empty());
    world.run(1s);
    EXPECT_EQ(world.server.last_reason, DisconnectReason::exhausted);
    EXPECT_EQ(player.recorder.last_reason, DisconnectReason::exhausted);
    EXPECT_EQ(ConnectionConfig{}.max_packets, 1ull << 48);
}

// The same seed gives the same bytes; another seed gives different ones.
TEST(Security, ASeedReproducesTheBytes) {
    const auto bytes_of = [](std::uint64_t seed) {
        Table table(host_config(seed), client_config(seed));
        std::vector<Datagram> all;
        table.connect();
        for (int i = 0; i < 20 && (!table.from_host.sent.empty() || !table.from_client.sent.empty()); ++i) {
            if (!table.from_client.sent.empty()) {
                all.push_back(table.from_client.sent.front().second);
                table.to_host(table.take(table.from_client));
            }
            if (!table.from_host.sent.empty()) {
                all.push_back(table.from_host.sent.front().second);
                table.to_client(table.take(table.from_host));
            }
        }
        EXPECT_TRUE(table.host.is_connected(table.at_host.newest));
        return all;
    };
    EXPECT_EQ(bytes_of(5), bytes_of(5));
    EXPECT_NE(bytes_of(5), bytes_of(6));
}

#ifdef NDEBUG
// With asserts the program stops; without them no connection is made without protection.
TEST(Security, AMissingKeyPreventsConnections) {
    ClientConfig keyless = client_config();
    keyless.server_key = {};
    Table client_forgot(host_config(), keyless);
    client_forgot.connect();
    EXPECT_TRUE(client_forgot.from_client.sent.empty());
    client_forgot.run(20ms);
    EXPECT_EQ(client_forgot.at_client.last_reason, DisconnectReason::misconfigured);

    HostConfig forgotten = host_config();
    forgotten.key = SecretKey();
    ClientConfig pinned = client_config();
    pinned.server_key = public_key(SecretKey());
    Table host_forgot(forgotten, pinned);
    host_forgot.connect();
    host_forgot.settle();
    host_forgot.run(1100ms);
    EXPECT_EQ(host_forgot.at_client.last_reason, DisconnectReason::refused_key);
}

TEST(Security, AMissingSeedPreventsConnections) {
    for (const bool is_sealed : {true, false}) {
        ClientConfig client_with = is_sealed ? client_config() : insecure(client_config());
        HostConfig host_with = is_sealed ? host_config() : insecure(host_config());
        client_with.seed = OneTimeSeed();
        Table client_forgot(host_with, client_with);
        client_forgot.connect();
        client_forgot.run(20ms);
        EXPECT_TRUE(client_forgot.from_client.sent.empty());
        EXPECT_EQ(client_forgot.at_client.last_reason, DisconnectReason::misconfigured);
        EXPECT_EQ(client_forgot.at_client.last_text, "the seed is missing");

        client_with.seed = seed_of(5);
        host_with.seed = OneTimeSeed();
        Table host_forgot(host_with, client_with);
        host_forgot.connect();
        host_forgot.settle();
        host_forgot.run(1100ms);
        EXPECT_EQ(host_forgot.at_client.last_reason, DisconnectReason::refused_key);
        EXPECT_TRUE(host_forgot.at_host.connects.empty());
        EXPECT_TRUE(host_forgot.host.is_idle());
    }
}
// Two endpoints with the same seed would use the same keys.
TEST(Security, ASecondEndpointOfOneConfigHasNoSeed) {
    const HostConfig config = host_config();
    const HostConfig copy = config;
    Table table(config);
    Table second(copy);
    second.connect();
    second.settle();
    second.run(1100ms);
    EXPECT_EQ(second.at_client.last_reason, DisconnectReason::refused_key);
    table.connect();
    table.settle();
    EXPECT_EQ(table.client.state(), Client::State::connected);
}
#else
TEST(Security, AMissingSeedStopsTheProgram) {
    HostConfig host_with = host_config();
    host_with.seed = OneTimeSeed();
    Wire wire;
    Recorder recorder;
    EXPECT_DEATH(Host(host_with, recorder, wire), "has_seed_");
    ClientConfig client_with = client_config();
    client_with.seed = OneTimeSeed();
    Client client(client_with, recorder, wire);
    EXPECT_DEATH(client.connect(Address::ipv4(1, 2, 3, 4, 5), {}, 1s), "has_seed_");
}
#endif

}  // namespace
}  // namespace shoal::net::impl
