// Clients whose address changes: what moves a connection, and what does not.
#include "net/path.h"

#include <gtest/gtest.h>

#include "net_world.h"

namespace shoal::net {
namespace {

const Address kHome = Address::ipv4(10, 0, 0, 1, 5000);
const Address kElsewhere = Address::ipv4(10, 0, 0, 1, 6000);
const Address kMallory = Address::ipv4(10, 0, 0, 66, 666);

TEST(Path, AllowsWhatCameUntilProven) {
    Path path(kHome);
    EXPECT_TRUE(path.allows(1'000'000));
    path.move(kElsewhere, 10, {});
    path.received(25);
    EXPECT_FALSE(path.allows(0));
    EXPECT_FALSE(path.is_challenge_due(26, 1s, 100ms));
    path.received(Path::kChallengeBytes + 5);
    EXPECT_TRUE(path.allows(30));
    EXPECT_FALSE(path.allows(31)) << "a challenge must fit in";
    path.sent(20);
    EXPECT_TRUE(path.allows(10));
    EXPECT_FALSE(path.allows(11));
    path.echoed(10);  // before it was sent
    EXPECT_FALSE(path.is_proven());
    EXPECT_FALSE(path.challenge().reset_token);
    EXPECT_TRUE(path.is_challenge_due(26, 1s, 100ms));
    path.challenged(1s);
    EXPECT_FALSE(path.is_challenge_due(26, 1099ms, 100ms));
    EXPECT_TRUE(path.is_challenge_due(26, 1100ms, 100ms));
    path.echoed(9);
    EXPECT_FALSE(path.is_proven());
    path.echoed(10);
    EXPECT_TRUE(path.is_proven());
    EXPECT_TRUE(path.allows(1'000'000));
    // One more, which brings the token.
    EXPECT_TRUE(path.is_challenge_due(42, 9s, 100ms));
    path.challenged(9s);
    path.echoed(10);  // came twice
    EXPECT_TRUE(path.is_challenge_due(42, 10s, 100ms));
    path.echoed(path.challenge().number);
    EXPECT_FALSE(path.is_challenge_due(42, 10s, 100ms));
}

TEST(Path, BackWhereItWasProvenNothingIsLeftToProve) {
    Path path(kHome);
    path.move(kMallory, 10, {});
    path.move(kElsewhere, 11, {});
    EXPECT_FALSE(path.is_proven());
    path.move(kHome, 12, {});
    EXPECT_TRUE(path.is_proven());
    EXPECT_TRUE(path.is_challenge_due(26, 1s, 100ms)) << "it brings the token of this address";
    path.move(kElsewhere, 13, {});
    path.received(100);
    path.challenged(1s);
    path.echoed(13);
    path.move(kHome, 14, {});
    EXPECT_FALSE(path.is_proven()) << "the port may be lent to somebody else by now";
}

/// A connected pair whose datagrams are ours to copy.
struct Pair {
    explicit Pair(Security security = Security::sealed) {
        HostConfig host_with = host_config();
        ClientConfig client_with = client_config();
        host_with.security = client_with.security = security;
        world.add_host(host_with);
        player = &world.add_client(client_with);
        player->client.connect(world.server_address, {}, world.now);
        world.run(300ms);
        peer = world.server.newest;
        EXPECT_TRUE(world.host->is_connected(peer));
    }
    /// The client's next packet, kept from the host.
    std::vector<std::byte> packet(std::string_view text) {
        Client& client = player->client;
        EXPECT_NE(client.send_payload(client.server(), as_bytes(text), 0, world.now), 0u);
        LinkConditioner::Datagram datagram;
        EXPECT_TRUE(world.up.pop(world.now, datagram));
        return datagram.bytes;
    }
    void feed(const Address& from, std::span<const std::byte> bytes) {
        world.host->receive(from, bytes, world.now);
    }
    const Address& address() const { return world.host->address(peer); }
    std::uint64_t moves() const { return world.host->endpoint_stats().moves; }

    World world;
    World::Player* player = nullptr;
    PeerId peer;
};

TEST(Path, OnlyANewerAuthenticPacketMovesAConnection) {
    for (const Security security : {Security::sealed, Security::insecure}) {
        Pair pair(security);
        const auto older = pair.packet("older");
        const auto newer = pair.packet("newer");
        for (std::size_t i = 5; i < newer.size(); ++i) {  // forged: behind the connection id
            auto forged = newer;
            forged[i] ^= std::byte(0x10);
            pair.feed(kMallory, forged);
        }
        EXPECT_EQ(pair.address(), kHome);
        EXPECT_TRUE(pair.world.server.payloads.empty());
        pair.feed(kElsewhere, newer);
        EXPECT_EQ(pair.address(), kElsewhere);
        EXPECT_EQ(pair.moves(), 1u);
        // Replayed, and late: the first is not taken, the second is, and neither moves anything.
        pair.feed(kMallory, newer);
        EXPECT_EQ(pair.world.host->stats(pair.peer).drops[Drop::duplicate], 1u);
        pair.feed(kMallory, older);
        EXPECT_EQ(pair.address(), kElsewhere);
        EXPECT_EQ(pair.moves(), 1u);
        ASSERT_EQ(pair.world.server.payloads.size(), 2u);
        EXPECT_EQ(pair.world.server.payloads[1].second, "older");
    }
}

// Somebody who sees the packets sends a copy from his machine, and it arrives first.
TEST(Path, ARacedCopyMovesItForOnePacketAtMost) {
    Pair pair;
    const auto raced = pair.packet("raced");
    const std::uint64_t to_mallory = pair.world.down.stats().offered;
    pair.feed(kMallory, raced);
    EXPECT_EQ(pair.address(), kMallory);
    EXPECT_EQ(pair.world.host->payload_capacity(pair.peer), 0u) << "state does not go to him";
    pair.feed(kHome, raced);  // a duplicate by now
    EXPECT_EQ(pair.address(), kMallory);
    pair.feed(kHome, pair.packet("next"));
    EXPECT_EQ(pair.address(), kHome);
    EXPECT_GT(pair.world.host->payload_capacity(pair.peer), 0u) << "home was proven before";
    EXPECT_EQ(pair.world.down.stats().offered, to_mallory);
    pair.world.run(200ms);
    EXPECT_TRUE(pair.player->client.is_connected(pair.player->client.server()));
    EXPECT_EQ(pair.world.server.payloads.size(), 2u);
}

// Goal: whatever the server has to say, at most as many bytes as came go to an address that has
// echoed nothing; disconnect packets, too.
TEST(Path, UnprovenAddressGetsItsBytesAtMost) {
    Pair pair;
    World& world = pair.world;
    const std::string state(1000, 's');
    world.server_tick = [&] {
        (void)world.host->send_message(pair.peer, Channel::reliable, as_bytes(state));
        world.host->send_payload(pair.peer, as_bytes(state), 0, world.now);
    };
    std::uint64_t bytes_in = 0;
    const auto bytes_out = [&] { return world.host->stats(pair.peer).bytes_sent; };
    const std::uint64_t before = bytes_out();
    for (int i = 0; i < 100; ++i) {
        // The client hears nothing, so nothing is acknowledged: a spoofer's packets.
        const auto bytes = pair.packet("x");
        pair.feed(kElsewhere, bytes);
        bytes_in += bytes.size();
        world.now += 10ms;
        world.host->update(world.now);
        world.server_tick();
        world.host->flush(world.now);
        ASSERT_LE(bytes_out() - before, bytes_in);
    }
    EXPECT_GT(bytes_out(), before);
    pair.feed(kMallory, pair.packet("y"));
    const std::uint64_t at_move = world.down.stats().offered;
    world.host->disconnect(pair.peer, DisconnectReason::kicked, std::string(200, 't'), world.now);
    world.host->flush(world.now + 1s);
    EXPECT_EQ(world.down.stats().offered, at_move);
}

/// A server's connection whose client the test plays: he says that he is at kMallory's, and guesses.
struct Forger {
    Forger() : connection({}, session(), cipher(false), server, wire, now) {
        connection.announce();
        say(kHome, PacketKind::data, [](ByteWriter& out) { out.u8(2); });  // a ping
    }
    static Session session() {
        Session result;
        result.peer = PeerId{0x10000};
        result.address = kHome;
        result.receive_id = true;
        return result;
    }
    static PacketCipher cipher(bool is_client) {
        const SipKey up{1, 2}, down{3, 4};
        return PacketCipher::insecure(0xC0FFEE, is_client ? up : down, is_client ? down : up);
    }
    template <class Write>
    void say(const Address& from, PacketKind kind, const Write& write) {
        std::array<std::byte, kMaxDatagramBytes> buffer;
        ByteWriter out(buffer);
        write_envelope(out, kind, false, 7, ++number, 1);
        const std::size_t header_bytes = out.size();
        write(out);
        const std::span<std::byte> bytes = out.append(kInsecureTagBytes);
        cipher(true).seal(number, bytes, header_bytes);
        Packet packet;
        ASSERT_TRUE(connection.open(bytes, packet, now));
        if (connection.moves(from, packet)) connection.move(from, 0x1234'5678'9ABC'DEF0, {});
        connection.follow(from, packet, now);
        connection.apply(packet, now);
    }
    void say_much_and_acknowledge(const Address& from, std::uint64_t newest) {
        const auto acks = [&](ByteWriter& out) {
            out.u8(8u + (newest > 0));
            write_acks(out, {newest > 0, static_cast<std::uint16_t>(newest), ~0ull, Duration(0)});
            out.append(900);
        };
        say(from, PacketKind::data, acks);
    }
    void echo(const Address& from, std::uint64_t challenge) {
        say(from, PacketKind::echo, [&](ByteWriter& out) { out.u64(challenge); });
    }

    Time now = 5s;
    std::uint64_t number = 0;
    Wire wire;
    Recorder server;
    Connection connection;
};

// A client with keys of its own forges somebody else's address, and acknowledges what it never saw: packet
// numbers count up.
TEST(Path, AcksProveNothing) {
    Forger forger;
    forger.say_much_and_acknowledge(kMallory, 0);
    for (int i = 0; i < 20; ++i) {
        forger.now += 20ms;
        forger.connection.update(forger.now);
        forger.connection.send_payload(as_bytes(std::string(600, 's')), 0, forger.now);
        forger.connection.flush(forger.now);
        const std::uint64_t sent = forger.connection.next_packet_number() - 1;
        forger.say_much_and_acknowledge(kMallory, sent);
        EXPECT_FALSE(forger.connection.path().is_proven());
    }
    EXPECT_GT(forger.connection.stats().packets_delivered, 5u) << "the guesses were good";
    // One number of 64 bits proves it, from there and while it is there.
    constexpr std::uint64_t kRight = 0x1234'5678'9ABC'DEF0;
    for (unsigned bit = 0; bit < 64; ++bit) forger.echo(kMallory, kRight ^ 1ull << bit);
    EXPECT_FALSE(forger.connection.path().is_proven());
    forger.echo(kElsewhere, kRight);
    EXPECT_EQ(forger.connection.path().address(), kElsewhere);
    EXPECT_FALSE(forger.connection.path().is_proven()) << "nothing was sent there";
    forger.say_much_and_acknowledge(kMallory, 0);
    EXPECT_FALSE(forger.connection.path().is_proven());
    forger.connection.flush(forger.now);
    forger.echo(kMallory, kRight);
    EXPECT_TRUE(forger.connection.path().is_proven());
}

// What fills the allowance of an unproven address leaves room for the challenge, which is repeated when lost.
TEST(Path, AChallengeAlwaysHasItsTurn) {
    Pair pair;
    World& world = pair.world;
    LinkConfig broken;
    broken.loss = 1;
    world.down.set_config(broken);
    pair.player->move(kElsewhere);
    const std::string state(1000, 's');
    world.server_tick = [&] {
        (void)world.host->send_message(pair.peer, Channel::reliable, as_bytes(state));
        world.host->send_payload(pair.peer, as_bytes(state), 0, world.now);
        Client& client = pair.player->client;
        client.send_payload(client.server(), as_bytes(state), 0, world.now);
    };
    world.run(300ms);
    world.down.set_config({});
    world.host->disconnect(pair.peer, DisconnectReason::kicked, "", world.now);
    world.run(20ms);
    EXPECT_EQ(pair.player->recorder.last_reason, DisconnectReason::kicked);

    Pair lossy;
    lossy.world.down.set_config(broken);
    lossy.player->move(kElsewhere);
    lossy.world.run(1200ms);  // a keep-alive shows the move
    EXPECT_EQ(lossy.moves(), 1u);
    lossy.world.down.set_config({});
    lossy.world.run(300ms);
    EXPECT_EQ(lossy.world.host->payload_capacity(lossy.peer), kMaxPayloadBytes);
}

// Challenges come from servers, echoes from clients.
TEST(Path, ChallengesAndEchoesHaveADirection) {
    Pair pair;
    std::vector<std::byte> packet(40, std::byte(0));
    packet[0] = std::byte(0xc0);
    pair.feed(kHome, packet);
    EXPECT_EQ(pair.world.host->endpoint_stats().drops[Drop::wrong_direction], 1u);
    packet[0] = std::byte(0xc8);
    pair.player->client.receive(pair.world.server_address, packet, pair.world.now);
    EXPECT_EQ(pair.player->client.endpoint_stats().drops[Drop::wrong_direction], 1u);
}

// A raced move must not let the racer throw the victim out by connecting from that address himself.
TEST(Path, OnlyAProvenAddressIsReplaced) {
    Pair pair;
    World& world = pair.world;
    auto& other = world.add_client(client_config(71), 6000);  // kElsewhere
    world.host->receive(kElsewhere, pair.packet("raced"), world.now);
    EXPECT_EQ(pair.address(), kElsewhere);
    other.client.connect(world.server_address, {}, world.now);
    world.run(500ms);
    EXPECT_TRUE(other.client.is_connected(other.client.server()));
    ASSERT_TRUE(world.host->is_connected(pair.peer));
    EXPECT_EQ(pair.address(), kHome);
    // Two peers live at one address once one has moved to it: it replaces nobody.
    pair.player->move(Address::ipv4(10, 0, 0, 9, 9));
    world.run(1500ms);
    EXPECT_EQ(world.host->peer_count(), 2u);
    EXPECT_EQ(pair.moves(), 3u);
    // But who comes in anew where a moved peer is proven to be, and silent, is that peer.
    world.players.erase(world.players.begin());
    world.run(2s);
    auto& again = world.add_client(client_config(72));
    again.move(Address::ipv4(10, 0, 0, 9, 9));
    again.client.connect(world.server_address, {}, world.now);
    world.run(500ms);
    EXPECT_EQ(world.server.disconnects.at(pair.peer).first, DisconnectReason::replaced);
    EXPECT_EQ(world.host->peer_count(), 2u);
}

// A router forgets the port while the handshake is under way: the first packet comes from another address.
TEST(Path, MovesWithTheFirstPacketToo) {
    LinkConfig link;
    link.latency = 30ms;
    World world(link);
    world.add_host(host_config());
    auto& player = world.add_client(client_config());
    player.client.connect(world.server_address, {}, world.now);
    while (player.recorder.connects.empty()) {
        world.step();
        if (world.host->endpoint_stats().answers_sent == 1) player.sink.address = kElsewhere;
    }
    player.move(kElsewhere);
    world.run(200ms);
    EXPECT_TRUE(world.host->is_connected(world.server.newest));
    EXPECT_EQ(world.host->address(world.server.newest), kElsewhere);
}

// Goal: through loss, reordering and duplicates, and an address that changes twice a second, every reliable
// message arrives once and in order, both ways, and neither side loses the other.
TEST(Path, MessagesArriveOnceAcrossMoves) {
    for (const Security security : {Security::sealed, Security::insecure}) {
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
            SCOPED_TRACE(testing::Message() << "seed " << seed);
            LinkConfig link;
            link.latency = 30ms;
            link.jitter = 20ms;
            link.loss = 0.1;
            link.duplicate = 0.1;
            link.reorder = 0.2;
            link.reorder_delay = 60ms;
            World world(link, seed);
            HostConfig host_with = host_config(seed);
            ClientConfig client_with = client_config(seed);
            host_with.security = client_with.security = security;
            world.add_host(host_with);
            auto& player = world.add_client(client_with);
            Client& client = player.client;
            client.connect(world.server_address, {}, world.now);
            world.run(2s);
            ASSERT_TRUE(client.is_connected(client.server()));
            std::vector<std::string> texts;
            for (std::uint16_t i = 0; i < 200; ++i) {
                const Address next =
                    Address::ipv4(10, 0, 0, std::uint8_t(1 + i % 3), std::uint16_t(6000 + i));
                if (i % 10 == 0) player.move(next);
                texts.push_back("message " + std::to_string(i));
                EXPECT_EQ(client.send_message(client.server(), Channel::reliable, as_bytes(texts.back())),
                          SendResult::queued);
                EXPECT_EQ(
                    world.host->send_message(world.server.newest, Channel::reliable, as_bytes(texts.back())),
                    SendResult::queued);
                world.run(50ms);
            }
            world.run(3s);
            EXPECT_EQ(world.server.texts(Channel::reliable), texts);
            EXPECT_EQ(player.recorder.texts(Channel::reliable), texts);
            EXPECT_EQ(world.host->address(world.server.newest), player.address);
            EXPECT_GE(world.host->endpoint_stats().moves, 19u);
            EXPECT_TRUE(world.server.disconnects.empty());
            EXPECT_EQ(world.server.connects.size(), 1u);
        }
    }
}

}  // namespace
}  // namespace shoal::net
