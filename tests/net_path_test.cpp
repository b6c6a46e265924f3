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
    path.move(kElsewhere, 10);
    EXPECT_TRUE(path.is_untried(10));
    EXPECT_FALSE(path.allows(1));
    path.received(30);
    EXPECT_TRUE(path.allows(30));
    EXPECT_FALSE(path.allows(31));
    path.sent(20);
    EXPECT_FALSE(path.is_untried(11));
    EXPECT_TRUE(path.allows(10));
    EXPECT_FALSE(path.allows(11));
    path.acknowledged(9);  // was sent before the move
    EXPECT_FALSE(path.is_proven());
    path.acknowledged(10);
    EXPECT_TRUE(path.is_proven());
    EXPECT_TRUE(path.allows(1'000'000));
}

TEST(Path, BackWhereItWasProvenNothingIsLeftToProve) {
    Path path(kHome);
    path.move(kMallory, 10);
    path.move(kElsewhere, 11);
    EXPECT_FALSE(path.is_proven());
    path.move(kHome, 12);
    EXPECT_TRUE(path.is_proven());
    path.move(kElsewhere, 13);
    path.acknowledged(13);
    path.move(kHome, 14);
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
// acknowledged nothing; disconnect packets, too.
TEST(Path, UnprovenAddressGetsThreeTimesItsBytesAtMost) {
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
    // But who comes in anew where a moved peer is proven to be, is that peer.
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
