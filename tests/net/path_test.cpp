// Clients whose address changes: which events move a connection to another address, and which do not.
#include "net/path.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "net/packet.h"
#include "tests/net/support/addresses.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

const Address kElsewhere = Address::ipv4(10, 0, 0, 1, 6000);

constexpr std::size_t kLong = Path::kChallengeBytes;

std::vector<Address> in_use(const Path& path, Time now) {
    std::vector<Address> result;
    path.each_in_use(now, [&](const Address& address) { result.push_back(address); });
    return result;
}

bool is_proven(Path copy, const Address& address) {
    return !copy.prove(address, true, 0s);
}

Address mallory(int port) {
    return Address::ipv4(10, 0, 0, 66, std::uint16_t(port));
}

TEST(Path, PacketsGoToTheProvenAddressUntilAnotherIsProven) {
    Path path(kHome, 0s);
    EXPECT_TRUE(path.is_alone(kHome));
    EXPECT_FALSE(is_proven(path, kElsewhere));
    path.heard(kElsewhere, true, 10s);
    EXPECT_EQ(in_use(path, 10s), std::vector{kHome}) << "however long it is silent";
    EXPECT_TRUE(path.wants_challenge(kElsewhere, kLong, false, 0, 10s));
    EXPECT_EQ(path.address(), kHome) << "a challenge does not move the connection";
    EXPECT_TRUE(path.prove(kElsewhere, false, 10s));
    EXPECT_EQ(path.address(), kElsewhere);
    path.heard(kElsewhere, true, 12s);
    EXPECT_FALSE(is_proven(path, kHome)) << "another client may have the port now";
}

TEST(Path, OnlyAFewChallengesAreSentInAHundredMilliseconds) {
    for (const bool is_overdue : {false, true}) {
        Path path(kHome, 0s);
        std::mt19937_64 random(1);
        int challenges = 0, first = 0;
        for (int i = 0; i < 100'000; ++i) {
            const bool is_challenged =
                path.wants_challenge(mallory(i), kLong, is_overdue, random(), 1s + i * 100us);
            challenges += is_challenged;
            first += is_challenged && i < 1000;
        }
        const double most = is_overdue ? Path::kMaxChallengesOverdue : Path::kMaxChallenges;
        EXPECT_LE(first, most * 33) << "before the number of candidates is known";
        EXPECT_NEAR(challenges - first, most * 99, most * 20);
    }
}

// The attacker sends each packet from 30 addresses before the client's own copy arrives.
TEST(Path, WhileAnAckIsOverdueAClientAmongThirtyCopiesIsChallengedSoon) {
    for (const Duration later : {0ms, 100ms, 160ms}) {
        Path path(kHome, 0s);
        std::mt19937_64 random(2);
        int challenges = 0;
        for (int packet = 0; packet < 100; ++packet) {
            const Time now = 1s + packet * 1s;
            for (int i = 0; i < 30; ++i) path.wants_challenge(mallory(i), kLong, true, random(), now);
            challenges += path.wants_challenge(kElsewhere, kLong, true, random(), now + later) > 0;
        }
        EXPECT_GE(challenges, 90) << "of 100 packets, " << later.count() << " us later";
    }
}

// Pings and acks are shorter than a challenge: several of them allow one.
TEST(Path, SeveralShortPacketsAllowOneChallenge) {
    Path path(kHome, 0s);
    std::size_t paid = 0, allowed = 0;
    for (int i = 0; i < 100; ++i) {
        paid += 10;
        allowed += path.wants_challenge(kElsewhere, 10, false, 0, 1s + i * 100ms) ? kLong : 0;
        ASSERT_LE(allowed, paid);
    }
    EXPECT_GE(allowed, paid - 50);
}

TEST(Path, BothAddressesInUseGetEveryPacket) {
    Path path(kHome, 0s);
    path.prove(kMallory, false, 1s);
    EXPECT_EQ(in_use(path, 1s), std::vector{kMallory}) << "kHome is silent since then";
    path.heard(kHome, false, 1100ms);
    EXPECT_EQ(in_use(path, 1200ms), (std::vector{kMallory, kHome}))
        << "an old packet does not change the order";
    path.heard(kMallory, true, 1900ms);
    path.heard(kHome, true, 2s);
    EXPECT_EQ(in_use(path, 2s), (std::vector{kHome, kMallory}));
    path.heard(kHome, true, 2500ms);
    EXPECT_EQ(in_use(path, 1900ms + Path::kInUse - 1us).size(), 2u);
    EXPECT_EQ(in_use(path, 1900ms + Path::kInUse), std::vector{kHome}) << "kMallory is silent";
}

// Packets come from both addresses, but only one of them shows that it receives.
TEST(Path, AnAddressThatOnlySendsIsForgotten) {
    for (const bool is_newest : {false, true}) {
        Path path(kHome, 0s);
        path.prove(kMallory, false, 10s);
        int challenges = 0;
        for (Time now = 10s; now < 10s + Path::kProofLife; now += 10ms) {
            path.heard(kHome, !is_newest, now);
            path.heard(kMallory, is_newest, now);
            if (path.wants_challenge(kHome, kLong, false, 0, now)) path.prove(kHome, false, now);
            challenges += path.wants_challenge(kMallory, kLong, false, 0, now);
            ASSERT_TRUE(is_proven(path, kMallory));
        }
        EXPECT_GE(challenges, 19);
        path.heard(kMallory, is_newest, 10s + Path::kProofLife);
        EXPECT_TRUE(path.is_alone(kHome));
    }
}

// An attacker who relays challenges can prove many addresses. Earlier addresses stay while acks come.
TEST(Path, AThirdAddressIsAcceptedOnlyWhileAnAckIsOverdue) {
    Path path(kHome, 0s);
    path.heard(kHome, true, 1s);
    EXPECT_TRUE(path.prove(mallory(1), false, 1100ms));
    EXPECT_FALSE(path.prove(kElsewhere, false, 1200ms));
    EXPECT_FALSE(path.wants_challenge(kElsewhere, kLong, false, 0, 1200ms));
    EXPECT_TRUE(path.wants_challenge(kElsewhere, kLong, true, 0, 1200ms));
    EXPECT_TRUE(path.prove(kElsewhere, true, 1200ms));
    EXPECT_FALSE(is_proven(path, kHome)) << "it was silent for the longer time";
    EXPECT_TRUE(is_proven(path, mallory(1)));
}

// A cheat withholds acks and proves his own addresses in turn, so that each proof finds two addresses.
TEST(Path, ProofsOfOtherAddressesDoNotKeepOneThatOnlySends) {
    Path path(mallory(1), 0s);
    ASSERT_TRUE(path.prove(kHome, false, 10s));
    Time end = 20s;
    for (Time now = 10s; now < end; now += 10ms) {
        path.heard(kHome, false, now);
        if (now % 500ms == 0s) path.prove(mallory(now % 1s == 0s ? 1 : 2), true, now);
        if (!is_proven(path, kHome)) end = now;
    }
    EXPECT_LT(end, 10s + 2 * Path::kProofLife);
}

TEST(Path, APathHasLeftASilentAddressIfAnotherIsInUse) {
    Path path(kHome, 0s);
    EXPECT_FALSE(path.has_left(kHome, 10s)) << "there is no other";
    path.heard(kHome, true, 10s);
    path.prove(kElsewhere, false, 10s);
    EXPECT_FALSE(path.has_left(kHome, 10s + Path::kLeft - 1us));
    EXPECT_TRUE(path.has_left(kHome, 10s + Path::kLeft));
    EXPECT_FALSE(path.has_left(kElsewhere, 20s));
    EXPECT_TRUE(path.has_left(kMallory, 20s)) << "it is not known any more";
}

PacketKind kind_of(std::span<const std::byte> datagram, bool has_id = false) {
    const std::optional<Envelope> envelope = read_envelope(datagram, has_id);
    EXPECT_TRUE(envelope);
    return envelope ? envelope->kind : PacketKind::data;
}

/// A connected host and client. The test can take and copy their datagrams.
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
    /// Returns the client's next packet, which the host does not get.
    std::vector<std::byte> packet(std::string_view text) {
        LinkConditioner::Datagram datagram, newer;
        while (world.up.pop(world.now, datagram)) {
        }
        EXPECT_NE(player->send(text, world.now), 0u);
        EXPECT_TRUE(world.up.pop(world.now, datagram));
        while (world.up.pop(world.now, newer))
            datagram = newer;  // a packet with only an ack may be sent first
        return datagram.bytes;
    }
    void feed(const Address& from, std::span<const std::byte> bytes) {
        world.host->receive(from, bytes, world.now);
    }
    /// Returns the datagrams of the host, which nobody gets.
    std::vector<LinkConditioner::Datagram> take_sent() {
        std::vector<LinkConditioner::Datagram> result;
        for (LinkConditioner::Datagram datagram; world.down.pop(world.now, datagram);)
            result.push_back(datagram);
        return result;
    }
    void deliver_down() {
        for (const auto& sent : take_sent())
            if (sent.to == player->address)
                player->client.receive(world.server_address, sent.bytes, world.now);
    }
    const Address& address() const { return world.host->address(peer); }
    std::uint64_t moves() const { return world.host->endpoint_stats().moves; }

    World world;
    World::Player* player = nullptr;
    PeerId peer;
};

TEST(Path, OnlyAnEchoProvesANewAddress) {
    for (const Security security : {Security::sealed, Security::insecure}) {
        Pair pair(security);
        const std::string padding(40, ' ');  // else the packets are too short for a challenge
        const auto older = pair.packet("older" + padding);
        const auto newer = pair.packet("newer" + padding);
        for (std::size_t i = 5; i < newer.size(); ++i) {  // damaged after the connection id
            auto forged = newer;
            forged[i] ^= std::byte(0x10);
            pair.feed(kMallory, forged);
        }
        EXPECT_TRUE(pair.world.server.payloads.empty());
        EXPECT_TRUE(pair.take_sent().empty()) << "no challenge for a forged packet";
        pair.feed(kElsewhere, newer);
        const auto sent = pair.take_sent();
        ASSERT_EQ(sent.size(), 1u);
        EXPECT_EQ(sent[0].to, kElsewhere);
        EXPECT_EQ(kind_of(sent[0].bytes), PacketKind::challenge);
        // A replayed packet is dropped, a late one accepted. Neither moves the connection.
        pair.feed(kMallory, newer);
        EXPECT_EQ(pair.world.host->stats(pair.peer).drops[Drop::duplicate], 1u);
        pair.feed(kMallory, older);
        EXPECT_EQ(pair.address(), kHome);
        EXPECT_EQ(pair.moves(), 0u);
        ASSERT_EQ(pair.world.server.payloads.size(), 2u);
        EXPECT_EQ(pair.world.server.payloads[1].second, "older" + padding);
    }
}

// Goal: the server sends to a new address one round trip after the first packet from there.
TEST(Path, ANewAddressIsUsedAfterOneRoundTrip) {
    for (const Address& to : {kElsewhere, Address::ipv4(10, 0, 9, 9, 9)}) {
        Pair pair;
        LinkConfig link;
        link.latency = 30ms;
        pair.world.up.set_config(link);
        pair.world.down.set_config(link);
        pair.player->move(to);
        EXPECT_NE(pair.player->send("what a player does in a tick", pair.world.now), 0u);
        pair.world.run(30ms, 1ms);
        EXPECT_EQ(pair.world.server.payloads.size(), 1u) << "the client's state arrives meanwhile";
        EXPECT_EQ(pair.address(), kHome);
        pair.world.run(59ms, 1ms);
        EXPECT_EQ(pair.address(), kHome);
        pair.world.run(3ms, 1ms);
        EXPECT_EQ(pair.address(), to);
        EXPECT_NE(pair.world.send(pair.peer, "state"), 0u);
        pair.world.run(31ms, 1ms);
        ASSERT_EQ(pair.player->recorder.payloads.size(), 1u);
        pair.world.run(2s, 10ms);
        EXPECT_EQ(pair.moves(), 1u);
    }
}

// An attacker sends a copy of each packet from another address, and the copy arrives first.
TEST(Path, CopiesThatArriveFirstMoveNoConnection) {
    Pair pair;
    for (std::size_t i = 1; i <= 50; ++i) {
        const auto raced = pair.packet("raced");
        pair.feed(kMallory, raced);
        pair.feed(kHome, raced);  // now a duplicate
        EXPECT_EQ(pair.address(), kHome);
        for (const auto& datagram : pair.take_sent()) {
            EXPECT_TRUE(datagram.to == kHome || kind_of(datagram.bytes) == PacketKind::challenge);
        }
        EXPECT_NE(pair.world.send(pair.peer, "state"), 0u);
        pair.deliver_down();
        pair.world.now += 10ms;
        EXPECT_EQ(pair.player->recorder.payloads.size(), i);
    }
    EXPECT_EQ(pair.moves(), 0u);
    EXPECT_EQ(pair.world.server.payloads.size(), 50u);
}

// The attacker relays the challenges, too, and so proves its address. Goal: the client still gets each
// packet, and is the only receiver two seconds after the attack ended.
TEST(Path, AnAttackerWhoRelaysEveryPacketGetsCopiesAndTheClientLosesNothing) {
    Pair pair;
    World& world = pair.world;
    Client& client = pair.player->client;
    std::size_t states = 0, copies = 0;
    const auto tick = [&](bool attacks) {
        world.now += 10ms;
        LinkConditioner::Datagram datagram;
        while (world.up.pop(world.now, datagram)) {
            if (attacks) pair.feed(kMallory, datagram.bytes);
            pair.feed(kHome, datagram.bytes);
        }
        for (const auto& sent : pair.take_sent()) {
            copies += sent.to == kMallory;
            const bool is_challenge = kind_of(sent.bytes) == PacketKind::challenge;
            if (sent.to == kHome || is_challenge) client.receive(world.server_address, sent.bytes, world.now);
        }
        world.host->update(world.now);
        client.update(world.now);
        states += world.send(pair.peer, "state") != 0;
        EXPECT_NE(pair.player->send("what a player does in a tick", world.now), 0u);
    };
    for (int i = 0; i < 300; ++i) tick(true);
    EXPECT_GT(copies, 250u) << "else there was no attack";
    EXPECT_EQ(pair.moves(), 0u) << "the client's address did not change";
    tick(false);
    EXPECT_EQ(states, 301u);
    EXPECT_EQ(pair.player->recorder.payloads.size(), 300u) << "the last one is in flight";
    EXPECT_EQ(world.server.payloads.size(), 300u);
    for (int i = 0; i < 210; ++i) tick(false);
    copies = 0;
    for (int i = 0; i < 20; ++i) tick(false);
    EXPECT_EQ(copies, 0u);
    EXPECT_EQ(pair.address(), kHome);
    EXPECT_TRUE(client.is_connected(client.server()));
}

// Goal: copies to other addresses do not lower the rate. Method: endless state at 400 kB/s to the client and
// to three addresses that send copies of its packets; measures the last ten of sixty seconds.
TEST(Path, CopiesForOthersDoNotSlowTheConnection) {
    Pair pair;
    World& world = pair.world;
    world.server.source = [](PeerId, PayloadTurn& turn) { return fill(turn); };
    LinkConditioner way({.latency = 20ms, .bytes_per_second = 400'000, .queue_bytes = 120'000}, 1);
    std::size_t received = 0, copies = 0;
    for (int i = 0; i < 6'000; ++i) {
        world.now += 10ms;
        LinkConditioner::Datagram datagram;
        while (world.up.pop(world.now, datagram)) {
            pair.feed(kHome, datagram.bytes);
            for (std::uint8_t copy = 1; copy <= 3; ++copy)
                pair.feed(Address::ipv4(10, 6, 6, copy, 6), datagram.bytes);
        }
        for (const auto& sent : pair.take_sent()) {
            const bool is_home = sent.to == kHome;
            copies += !is_home;
            if (is_home) way.push(world.server_address, kHome, sent.bytes, world.now);
            if (!is_home && kind_of(sent.bytes) == PacketKind::challenge)
                pair.player->client.receive(world.server_address, sent.bytes, world.now);
        }
        while (way.pop(world.now, datagram)) {
            received += i >= 5'000 ? datagram.bytes.size() : 0;
            pair.player->client.receive(world.server_address, datagram.bytes, world.now);
        }
        world.host->update(world.now);
        world.host->flush(world.now);
        pair.player->client.update(world.now);
        pair.player->client.flush(world.now);
    }
    EXPECT_GT(copies, 10'000u) << "else nobody got copies";
    EXPECT_GT(received, 3'400'000u);
    EXPECT_EQ(pair.moves(), 0u);
}

// Goal: an address that is not proven gets only challenges, none longer than the packet that caused it.
TEST(Path, AChallengeIsNeverLongerThanThePacketThatCausedIt) {
    for (const Security security : {Security::sealed, Security::insecure}) {
        Pair pair(security);
        std::set<std::size_t> lengths;
        for (std::uint8_t size = 1; size < 80; ++size) {
            const auto bytes = pair.packet(std::string(size, 'x'));
            const Address from = Address::ipv4(10, 0, 1, size, 1);
            pair.feed(from, bytes);
            std::size_t length = 0;
            for (const auto& sent : pair.take_sent()) {
                if (sent.to != from) continue;
                EXPECT_EQ(length, 0u) << "at most one challenge";
                length = sent.bytes.size();
            }
            EXPECT_LE(length, bytes.size());
            lengths.insert(length);
        }
        EXPECT_EQ(pair.moves(), 0u);
        EXPECT_EQ(lengths.size(), 2u) << "a challenge or none, as the packet's length allows";
    }
}

// A client forges the address of a victim. The server sends its state to the client only.
TEST(Path, ForgedSourceAddressesGetNoState) {
    Pair pair;
    World& world = pair.world;
    std::size_t bytes_in = 0, bytes_out = 0, challenges = 0;
    const std::string text(1000, 's');
    for (int i = 0; i < 200; ++i) {
        const auto bytes = pair.packet("x");
        pair.feed(kMallory, bytes);
        bytes_in += bytes.size();
        world.now += 10ms;
        world.host->update(world.now);
        (void)world.host->send_message(pair.peer, Channel::reliable, as_bytes(text));
        world.send(pair.peer, text);
        if (i == 199)
            world.host->disconnect(pair.peer, DisconnectReason::kicked, std::string(200, 't'), world.now);
        world.host->flush(world.now);
        for (const auto& sent : pair.take_sent()) {
            if (sent.to != kMallory) continue;
            EXPECT_EQ(kind_of(sent.bytes), PacketKind::challenge);
            bytes_out += sent.bytes.size();
            challenges += 1;
        }
        ASSERT_LE(bytes_out, bytes_in);
    }
    EXPECT_GT(bytes_out, 0u);
    EXPECT_LE(challenges, 110u) << "three in 100 ms, on average";
    EXPECT_EQ(pair.moves(), 0u);
}

// The number in a challenge is valid for one address and some seconds.
TEST(Path, AnEchoOfAnotherAddressOrTooLateProvesNothing) {
    for (const bool is_late : {false, true}) {
        Pair pair;
        Client& client = pair.player->client;
        const auto echo_to_challenge_of = [&](const Address& address) {
            pair.world.now += Lottery::kSlice;
            pair.take_sent();
            pair.feed(address, pair.packet(std::string(60, 'x')));
            LinkConditioner::Datagram datagram;
            while (pair.world.up.pop(pair.world.now, datagram)) {
            }
            for (const auto& sent : pair.take_sent())
                if (sent.to == address) client.receive(pair.world.server_address, sent.bytes, pair.world.now);
            EXPECT_TRUE(pair.world.up.pop(pair.world.now, datagram));
            EXPECT_EQ(kind_of(datagram.bytes, true), PacketKind::echo);
            return datagram.bytes;
        };
        const auto echo = echo_to_challenge_of(kElsewhere);
        if (is_late) {
            pair.world.now += 20s;
            pair.feed(kElsewhere, echo);
        } else {
            pair.feed(kMallory, echo);
        }
        EXPECT_EQ(pair.address(), kHome);
        EXPECT_EQ(pair.moves(), 0u);
        const auto good = echo_to_challenge_of(kMallory);
        pair.feed(kMallory, good);
        EXPECT_EQ(pair.address(), kMallory);
        EXPECT_EQ(pair.moves(), 1u);
    }
}

// An old packet, replayed from many addresses, causes challenges. They must not use up the connection's rate
// or its packet numbers.
TEST(Path, ReplaysFromManyAddressesDoNotStarveTheConnection) {
    Pair pair;
    World& world = pair.world;
    std::size_t challenges = 0, states = 0;
    std::vector<std::byte> old;
    for (int i = 0; i < 200; ++i) {
        old = pair.packet(std::string(60, 'x'));
        pair.feed(kHome, old);
        for (std::uint16_t port = 1; port <= 100; ++port)
            pair.feed(Address::ipv4(10, 0, std::uint8_t(i), 2, port), old);
        world.now += 10ms;
        world.host->update(world.now);
        states += world.send(pair.peer, std::string(200, 's')) != 0;
        for (const auto& sent : pair.take_sent()) {
            challenges += sent.to != kHome;
            if (sent.to == kHome) pair.player->client.receive(world.server_address, sent.bytes, world.now);
        }
        pair.player->client.update(world.now);
    }
    EXPECT_GE(states, 190u) << challenges << " challenges";
    EXPECT_GE(pair.player->recorder.payloads.size(), states - 1);
    EXPECT_LE(world.host->stats(pair.peer).loss, 0.05);
    EXPECT_EQ(pair.moves(), 0u);
}

// If a challenge is lost, each packet from the new address causes another one after 50 ms.
TEST(Path, ALostChallengeIsRepeated) {
    LinkConfig broken;
    broken.loss = 1;
    Pair busy;
    busy.world.down.set_config(broken);
    busy.player->move(kElsewhere);
    busy.world.server_tick = [&] { busy.player->send("input", busy.world.now); };
    busy.world.run(300ms);
    EXPECT_EQ(busy.moves(), 0u);
    busy.world.down.set_config({});
    busy.world.run(100ms);
    EXPECT_EQ(busy.moves(), 1u);

    Pair quiet;
    quiet.world.down.set_config(broken);
    quiet.player->move(kElsewhere);
    quiet.world.run(1200ms);  // a keep-alive comes from the new address
    EXPECT_EQ(quiet.moves(), 0u);
    quiet.world.down.set_config({});
    quiet.world.run(1100ms);
    EXPECT_EQ(quiet.moves(), 1u);
    EXPECT_NE(quiet.world.send(quiet.peer, "state"), 0u);
    quiet.world.run(50ms);
    EXPECT_EQ(quiet.player->recorder.payloads.size(), 1u);
}

// Only servers send challenges, and only clients send echoes.
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

// An attacker sends a player's packet from another address, and then connects from there. This must not end
// the player.
TEST(Path, AConnectReplacesOnlyASilentPeerProvenAtItsAddress) {
    Pair pair;
    World& world = pair.world;
    auto& other = world.add_client(client_config(71), 6000);  // kElsewhere
    world.host->receive(kElsewhere, pair.packet("raced"), world.now);
    EXPECT_EQ(pair.address(), kHome);
    other.client.connect(world.server_address, {}, world.now);
    world.run(500ms);
    EXPECT_TRUE(other.client.is_connected(other.client.server()));
    ASSERT_TRUE(world.host->is_connected(pair.peer));
    EXPECT_EQ(pair.address(), kHome);
    // A peer that moves to the address of another peer does not replace it.
    pair.player->move(Address::ipv4(10, 0, 0, 9, 9));
    world.run(1500ms);
    EXPECT_EQ(world.host->peer_count(), 2u);
    EXPECT_EQ(pair.moves(), 1u);
    // A client that connects from the proven address of a silent peer replaces that peer.
    world.players.erase(world.players.begin());
    world.run(2500ms);
    auto& again = world.add_client(client_config(72));
    again.move(Address::ipv4(10, 0, 0, 9, 9));
    again.client.connect(world.server_address, {}, world.now);
    world.run(500ms);
    EXPECT_EQ(world.server.disconnects.at(pair.peer).first, DisconnectReason::replaced);
    EXPECT_EQ(world.host->peer_count(), 2u);
}

// A router changes the client's port during the handshake: the first packet comes from another address.
TEST(Path, TheFirstPacketMayComeFromAnotherAddress) {
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
    world.run(2500ms);  // two keep-alives are long enough for a challenge
    EXPECT_TRUE(world.host->is_connected(world.server.newest));
    EXPECT_EQ(world.host->address(world.server.newest), kElsewhere);
}

// Goal: with loss, reordering, duplicates, and an address that changes twice a second, every reliable message
// arrives once and in order, in both directions, and the connection stays.
TEST(Path, MessagesArriveOnceAcrossMoves) {
    std::uint64_t moves = 0;
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
            moves += world.host->endpoint_stats().moves;
            EXPECT_TRUE(world.server.disconnects.empty());
            EXPECT_EQ(world.server.connects.size(), 1u);
        }
    }
    EXPECT_GE(moves, 40 * 17u) << "of 20 in each run; loss delays some until the next change";
}

}  // namespace
}  // namespace shoal::net::impl
