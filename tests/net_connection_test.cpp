#include "net/connection.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "net_world.h"

namespace shoal::net {
namespace {

/// A connected pair.
struct Pair : World {
    explicit Pair(const LinkConfig& link = {}, std::uint64_t seed = 1,
                  const ConnectionConfig& connection = {}, std::uint64_t server_first = 1,
                  std::uint64_t client_first = 1)
        : World({}, seed) {
        HostConfig for_host = host_config(seed);
        for_host.connection = connection;
        for_host.connection.first_packet_number = server_first;
        const bool is_insecure = seed % 7 == 0;
        add_host(is_insecure ? insecure(for_host) : for_host);
        ClientConfig for_client = client_config(seed + 1);
        for_client.connection = connection;
        for_client.connection.first_packet_number = client_first;
        Player& player = add_client(is_insecure ? insecure(for_client) : for_client);
        player.client.connect(server_address, {}, now);
        for (int i = 0; i < 10 && server.connects.empty(); ++i) step();
        EXPECT_EQ(server.connects.size(), 1u);
        up.set_config(link);
        down.set_config(link);
    }
    Player& player() { return *players[0]; }
    Client& client() { return players[0]->client; }
    PeerId peer() const { return server.newest; }
};

/// Fates checked against a model that only counts.
struct FateModel {
    void sent(std::uint64_t number, std::uint64_t cookie) {
        ASSERT_NE(number, 0u);
        ASSERT_TRUE(open.insert({number, cookie}).second) << "number used twice";
    }
    void check(const std::vector<PacketFate>& fates,
               const std::vector<std::pair<std::uint64_t, std::string>>& got) {
        std::set<std::uint64_t> received;
        for (const auto& payload : got)
            ASSERT_TRUE(received.insert(payload.first).second) << "received twice";
        for (; checked < fates.size(); ++checked) {
            const PacketFate& fate = fates[checked];
            const auto found = open.find(fate.number);
            ASSERT_NE(found, open.end()) << "fate of an unknown packet, or a second one: " << fate.number;
            ASSERT_EQ(found->second, fate.cookie);
            ASSERT_TRUE(!fate.delivered || received.contains(fate.number)) << "delivered but never received";
            open.erase(found);
        }
    }
    std::map<std::uint64_t, std::uint64_t> open;
    std::size_t checked = 0;
};

// Goal: exactly one fate per packet, never "delivered" for one that was not accepted; reliable messages
// arrive once and in order; whatever the network does and wherever packet numbers start.
// Method: hundreds of seeded worlds with mixed faults; both directions; counters as the model.
TEST(Connection, FatesExactlyOnceAndReliableInOrderUnderAllFaults) {
    const std::uint64_t starts[] = {1, 200, 65'500, (1ull << 24) - 60, (1ull << 32) - 60, (1ull << 62) - 60};
    for (std::uint64_t seed = 1; seed <= 240; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937_64 random(seed);
        LinkConfig link;
        link.latency = Duration(random() % 80'000);
        link.jitter = Duration(random() % 40'000);
        link.loss = double(random() % 30) / 100;
        link.burst = seed % 3 == 0 ? 0.02 : 0;
        link.duplicate = seed % 2 == 0 ? 0.2 : 0;
        link.reorder = seed % 4 == 0 ? 0.2 : 0;
        link.corrupt = seed % 5 == 0 ? 0.1 : 0;
        Pair world(link, seed, {}, starts[seed % 6], starts[seed / 6 % 6]);
        FateModel down, up;
        int queued_down = 0;
        int queued_up = 0;
        const auto check = [&] {
            down.check(world.server.fates, world.player().recorder.payloads);
            up.check(world.player().recorder.fates, world.server.payloads);
        };
        for (int tick = 0; tick < 250; ++tick) {
            if (random() % 4 != 0) {
                const std::string payload(world.host->payload_capacity(world.peer()) * (random() % 5) / 4,
                                          'p');
                const std::uint64_t cookie = random();
                const bool may = world.host->payload_capacity(world.peer()) > 0;  // else the budget is spent
                const std::uint64_t number =
                    world.host->send_payload(world.peer(), as_bytes(payload), cookie, world.now);
                ASSERT_EQ(number != 0, may);
                if (may) down.sent(number, cookie);
            }
            if (random() % 3 == 0) {
                const std::uint64_t cookie = random();
                const bool may = world.client().payload_capacity(world.client().server()) > 0;
                const std::uint64_t number = world.client().send_payload(
                    world.client().server(), as_bytes("input"), cookie, world.now);
                ASSERT_EQ(number != 0, may);
                if (may) up.sent(number, cookie);
            }
            for (std::uint64_t n = random() % 3; n > 0; --n) {
                const std::string text = std::to_string(queued_down);
                if (world.host->send_message(world.peer(), Channel::reliable, as_bytes(text)) ==
                    SendResult::queued)
                    queued_down += 1;
                (void)world.host->send_message(world.peer(), Channel::unreliable, as_bytes(text));
            }
            const std::size_t most = random() % 8 == 0 ? 6'000 : 900;
            const std::string big = std::to_string(queued_up) + std::string(random() % most, '.');
            if (random() % 8 == 0 && world.client().send_message(world.client().server(), Channel::reliable,
                                                                 as_bytes(big)) == SendResult::queued) {
                queued_up += 1;
            }
            world.step(16ms);
            check();
            if (HasFatalFailure() || HasNonfatalFailure()) return;
        }
        world.up.set_config({});
        world.down.set_config({});
        world.run(3s, 16ms);
        const auto has_all = [&] {
            return world.server.texts(Channel::reliable).size() == std::size_t(queued_up);
        };
        for (int i = 0; i < 10 && !has_all(); ++i) world.run(1s, 16ms);  // the worst path left a low rate
        check();
        ASSERT_TRUE(down.open.empty());
        ASSERT_TRUE(up.open.empty());
        const auto check_stream = [](const std::vector<std::string>& got, int expected) {
            ASSERT_EQ(got.size(), std::size_t(expected));
            for (int i = 0; i < expected; ++i) ASSERT_EQ(std::stoi(got[std::size_t(i)]), i);
        };
        check_stream(world.player().recorder.texts(Channel::reliable), queued_down);
        check_stream(world.server.texts(Channel::reliable), queued_up);
        const auto unreliable = world.player().recorder.texts(Channel::unreliable);
        ASSERT_LE(unreliable.size(), std::size_t(world.host->stats(world.peer()).messages_sent));
        ASSERT_TRUE(world.server.disconnects.empty());
        ASSERT_TRUE(world.player().recorder.disconnects.empty());
        if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(Connection, DeliveredIsReportedAfterOneRoundTrip) {
    LinkConfig link;
    link.latency = 50ms;
    Pair world(link);
    const std::uint64_t number = world.host->send_payload(world.peer(), as_bytes("state"), 42, world.now);
    world.run(130ms);
    ASSERT_EQ(world.server.fates.size(), 1u);
    EXPECT_EQ(world.server.fates[0].number, number);
    EXPECT_EQ(world.server.fates[0].cookie, 42u);
    EXPECT_TRUE(world.server.fates[0].delivered);
    EXPECT_GE(world.server.fates[0].rtt, 100ms);
    EXPECT_LE(world.server.fates[0].rtt, 120ms);
    ASSERT_EQ(world.player().recorder.payloads.size(), 1u);
    EXPECT_EQ(world.player().recorder.payloads[0], std::pair(number, std::string("state")));
}

TEST(Connection, EmptyPayloadIsAPayload) {
    Pair world;
    world.host->send_payload(world.peer(), {}, 1, world.now);
    world.run(50ms);
    ASSERT_EQ(world.player().recorder.payloads.size(), 1u);
    EXPECT_EQ(world.server.fates.size(), 1u);
}

/// A peer whose packets the test writes by hand, with the right key.
struct Hand {
    explicit Hand(const ConnectionConfig& config = {})
        : connection(config, session(), cipher(), recorder, wire, now) {
        connection.announce();
    }
    static Session session() {
        Session result;
        result.peer = PeerId{0x10000};
        result.address = Address::ipv4(1, 2, 3, 4, 5);
        return result;
    }
    static PacketCipher cipher(bool is_peer = false) {
        Bytes32 ours{std::byte(1)}, theirs{std::byte(2)};
        if (is_peer) std::swap(ours, theirs);
        return PacketCipher::sealed(77, Key(ours), Key(theirs), 1, 0s);
    }
    std::vector<std::byte> seal(std::uint64_t number, const std::vector<int>& body,
                                PacketKind kind = PacketKind::data) {
        std::array<std::byte, kMaxDatagramBytes> buffer;
        ByteWriter out(buffer);
        write_envelope(out, kind, false, std::nullopt, number, 1);
        const std::size_t header_bytes = out.size();
        for (const int byte : body) out.u8(unsigned(byte));
        cipher(true).seal(number, out.append(kTagBytes), header_bytes);
        return {out.written().begin(), out.written().end()};
    }
    void feed(std::uint64_t number, const std::vector<int>& body, PacketKind kind = PacketKind::data) {
        const std::vector<std::byte> bytes = seal(number, body, kind);
        Packet packet;
        if (connection.open(bytes, packet, now)) connection.apply(packet, now);
    }
    Time now = 5s;
    Wire wire;
    Recorder recorder;
    Connection connection;
};

// Together the two calls name every packet that was accepted, each once, whatever it carried.
TEST(Connection, PacketsWithoutPayloadAreNamedToo) {
    struct Namer : Recorder {
        void on_packet(PeerId, std::uint64_t number) override { without_payload.push_back(number); }
        std::vector<std::uint64_t> without_payload;
    };
    Hand hand;
    Namer namer;
    Connection connection({}, Hand::session(), Hand::cipher(), namer, hand.wire, 5s);
    connection.announce();
    EXPECT_EQ(connection.next_packet_number(), 1u);
    connection.ping(5s);
    EXPECT_EQ(connection.next_packet_number(), 2u);
    const std::vector<std::vector<int>> bodies = {{0}, {8, 'p'}, {2}, {4, 4, 'a'}};
    for (std::size_t i = 0; i < bodies.size(); ++i) {
        const auto bytes = hand.seal(i + 1, bodies[i]);
        Packet packet;
        ASSERT_TRUE(connection.open(bytes, packet, 5s));
        connection.apply(packet, 5s);
    }
    EXPECT_EQ(namer.without_payload, (std::vector<std::uint64_t>{1, 3, 4}));
    ASSERT_EQ(namer.payloads.size(), 1u);
    EXPECT_EQ(namer.payloads[0].first, 2u);
}

TEST(Connection, ThreeLaterDeliveriesLoseAPacket) {
    Pair world;
    LinkConfig broken;
    broken.loss = 1;
    world.down.set_config(broken);
    world.host->send_payload(world.peer(), as_bytes("gone"), 1, world.now);
    world.down.set_config({});
    for (std::uint64_t i = 2; i <= 4; ++i)
        world.host->send_payload(world.peer(), as_bytes("here"), i, world.now);
    world.step(1ms);
    world.step(1ms);
    ASSERT_EQ(world.server.fates.size(), 4u);
    EXPECT_FALSE(world.server.fates[0].delivered);
    EXPECT_EQ(world.server.fates[0].cookie, 1u);
    for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(world.server.fates[i].delivered);
}

TEST(Connection, LastPacketIsSettledWithinTwoTimeouts) {
    LinkConfig link;
    link.latency = 30ms;
    Pair world(link);
    for (int i = 0; i < 40; ++i) {  // a good estimate first
        world.host->send_payload(world.peer(), as_bytes("state"), 0, world.now);
        world.step(16ms);
    }
    world.run(500ms);  // everything is settled, no ping is due
    world.server.fates.clear();
    const ConnectionStats& stats = world.host->stats(world.peer());
    const Duration timeout = stats.rtt + std::max<Duration>(4 * stats.jitter, 10ms) + 50ms;
    link.loss = 1;
    world.down.set_config(link);
    world.host->send_payload(world.peer(), as_bytes("last"), 99, world.now);
    world.run(timeout, 1ms);
    EXPECT_TRUE(world.server.fates.empty());
    world.run(timeout + 1ms, 1ms);
    ASSERT_EQ(world.server.fates.size(), 1u);
    EXPECT_FALSE(world.server.fates[0].delivered);
}

// The answer to the last packet is lost, not the packet: a ping makes the other side repeat it.
TEST(Connection, LostAckOfTheLastPacketIsAskedForAgain) {
    Pair world;
    world.host->send_payload(world.peer(), as_bytes("state"), 0, world.now);
    world.run(200ms);
    world.server.fates.clear();
    world.host->send_payload(world.peer(), as_bytes("last"), 99, world.now);
    LinkConfig broken;
    broken.loss = 1;
    world.up.set_config(broken);
    world.run(40ms, 1ms);
    EXPECT_TRUE(world.server.fates.empty());
    world.up.set_config({});
    world.run(200ms, 1ms);
    ASSERT_EQ(world.server.fates.size(), 1u);
    EXPECT_TRUE(world.server.fates[0].delivered);
}

TEST(Connection, LateAckIsOnlyAStatistic) {
    Pair world;
    world.host->send_payload(world.peer(), as_bytes("warm"), 0, world.now);
    world.run(200ms);
    world.server.fates.clear();
    LinkConfig slow;
    slow.latency = 400ms;
    world.down.set_config(slow);
    world.host->send_payload(world.peer(), as_bytes("late"), 5, world.now);
    world.run(2s, 5ms);
    ASSERT_EQ(world.server.fates.size(), 1u);
    EXPECT_FALSE(world.server.fates[0].delivered);
    EXPECT_EQ(world.player().recorder.payloads.back().second, "late");
    EXPECT_GE(world.host->stats(world.peer()).late_acks, 1u);
}

TEST(Connection, DisconnectLosesAllOpenFatesFirst) {
    LinkConfig link;
    link.latency = 50ms;
    Pair world(link);
    for (std::uint64_t i = 0; i < 5; ++i) world.host->send_payload(world.peer(), as_bytes("x"), i, world.now);
    const PeerId peer = world.peer();
    world.host->disconnect(peer, DisconnectReason::kicked, "bye", world.now);
    EXPECT_EQ(world.server.fates.size(), 5u);
    for (const PacketFate& fate : world.server.fates) EXPECT_FALSE(fate.delivered);
    EXPECT_EQ(world.server.disconnects.at(peer), std::pair(DisconnectReason::kicked, std::string("bye")));
    EXPECT_FALSE(world.host->is_connected(peer));
    EXPECT_EQ(world.host->payload_capacity(peer), 0u);
    EXPECT_EQ(world.host->send_payload(peer, as_bytes("x"), 0, world.now), 0u);
    EXPECT_EQ(world.host->send_message(peer, Channel::reliable, as_bytes("x")), SendResult::not_connected);
    world.run(500ms);
    EXPECT_EQ(world.server.fates.size(), 5u);
    EXPECT_EQ(world.player().recorder.last_reason, DisconnectReason::kicked);
    EXPECT_EQ(world.player().recorder.last_text, "bye");
    EXPECT_TRUE(world.host->is_idle());
    EXPECT_TRUE(world.client().is_idle());
}

TEST(Connection, DisconnectSurvivesLoss) {
    int told = 0;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        LinkConfig link;
        link.loss = 0.3;
        Pair world(link, seed);
        world.client().disconnect(world.client().server(), DisconnectReason::closed, "", world.now);
        world.run(500ms);
        if (world.server.disconnects.empty()) continue;
        told += 1;
        EXPECT_EQ(world.server.last_reason, DisconnectReason::closed_by_peer);
    }
    EXPECT_GE(told, 46);  // 0.3^4 of 50 is 0.4
}

TEST(Connection, SilenceTimesOut) {
    Pair world;
    LinkConfig broken;
    broken.loss = 1;
    world.up.set_config(broken);
    world.down.set_config(broken);
    world.run(9s);
    EXPECT_TRUE(world.server.disconnects.empty());
    world.run(1100ms);
    EXPECT_EQ(world.server.last_reason, DisconnectReason::timed_out);
    EXPECT_EQ(world.player().recorder.last_reason, DisconnectReason::timed_out);
    EXPECT_EQ(world.server.disconnects.size(), 1u);
}

TEST(Connection, IdleConnectionsStayUpOnLittle) {
    Pair world;
    world.run(60s);
    EXPECT_TRUE(world.server.disconnects.empty());
    const ConnectionStats& stats = world.host->stats(world.peer());
    EXPECT_LT(stats.packets_sent, 200u);
    EXPECT_LT(stats.bytes_sent, 200u * 20);
}

// The receiver refuses every payload, so none of their packets is ever acknowledged.
TEST(Connection, ReliableMessagesArriveThoughEveryPayloadIsWithheld) {
    Pair world;
    world.player().recorder.withhold = [](std::uint64_t) { return true; };
    world.server_tick = [&] { world.host->send_payload(world.peer(), as_bytes("nonsense"), 0, world.now); };
    for (int i = 0; i < 400; ++i) {
        if (i < 50)
            (void)world.host->send_message(world.peer(), Channel::reliable, as_bytes(std::to_string(i)));
        world.step(16ms);
    }
    EXPECT_EQ(world.player().recorder.texts(Channel::reliable).size(), 50u);
    for (const PacketFate& fate : world.server.fates) EXPECT_FALSE(fate.delivered);
    EXPECT_GT(world.server.fates.size(),
              150u);  // now and then the breaker stops it, until a ping is answered
    // And the sender knows it: nothing is repeated any more, though payloads go on.
    const std::uint64_t repeated = world.host->stats(world.peer()).messages_repeated;
    world.run(4s, 16ms);
    EXPECT_EQ(world.host->stats(world.peer()).messages_repeated, repeated);
}

TEST(Connection, CapacityKeepsRoomForBothStateAndMessages) {
    Pair world;
    EXPECT_EQ(world.host->payload_capacity(world.peer()), kMaxPayloadBytes);
    EXPECT_EQ(world.host->send_message(world.peer(), Channel::reliable, as_bytes("0123456789")),
              SendResult::queued);
    EXPECT_EQ(world.host->payload_capacity(world.peer()), kMaxPayloadBytes - 14);
    const std::string big(kMaxMessageBytes, 'm');
    EXPECT_EQ(world.host->send_message(world.peer(), Channel::unreliable, as_bytes(big)), SendResult::queued);
    EXPECT_EQ(world.host->payload_capacity(world.peer()), kMinPayloadBytes);
    const std::string too_big(kMaxMessageBytes + 1, 'm');
    EXPECT_EQ(world.host->send_message(world.peer(), Channel::unreliable, as_bytes(too_big)),
              SendResult::too_large);
    const std::string far_too_big(kMaxReliableBytes + 1, 'm');
    EXPECT_EQ(world.host->send_message(world.peer(), Channel::reliable, as_bytes(far_too_big)),
              SendResult::too_large);
    // In 64 kB fit 63 pieces of 1,000 bytes, for each of which 32 more count, and a last one of 488.
    for (const std::size_t bytes : {63'488u, 63'489u}) {
        EXPECT_EQ(world.host->send_message(world.peer(), unordered().with(Weight::bulk),
                                           as_bytes(std::string(bytes, 'm'))),
                  bytes == 63'488 ? SendResult::queued : SendResult::too_large);
    }
    const std::string state(kMaxPayloadBytes, 's');  // more than the advice: messages wait for the flush
    world.host->send_payload(world.peer(), as_bytes(state), 0, world.now);
    world.run(50ms);
    EXPECT_EQ(world.player().recorder.payloads.at(0).second, state);
    EXPECT_EQ(world.player().recorder.texts(Channel::unreliable).at(0), big);
    EXPECT_EQ(world.player().recorder.texts(Channel::reliable).at(0), "0123456789");
}

TEST(Connection, QueuesAreBounded) {
    LinkConfig broken;
    broken.loss = 1;
    Pair world(broken, 1, {.max_open_packets = 256});
    const std::string message(500, 'm');
    int fates = 0;
    for (int i = 0; i < 10'000; ++i)
        fates += world.host->send_payload(world.peer(), as_bytes("x"), 0, world.now) != 0;
    EXPECT_EQ(fates, 256);
    EXPECT_EQ(world.host->payload_capacity(world.peer()), 0u);
    int queued = 0;
    while (world.host->send_message(world.peer(), Channel::reliable, as_bytes(message)) == SendResult::queued)
        queued += 1;
    EXPECT_GT(queued, 100);
    EXPECT_LT(queued, 64 * 1024 / 500);
    world.run(2s);
    EXPECT_EQ(world.server.fates.size(), 256u);
    EXPECT_EQ(world.host->payload_capacity(world.peer()), 0u) << "the breaker: nobody answers";
    world.up.set_config({});
    world.down.set_config({});
    world.run(2s);
    EXPECT_GT(world.host->payload_capacity(world.peer()), 0u);
}

TEST(Connection, EstimatesFollowThePath) {
    LinkConfig link;
    link.latency = 40ms;
    link.loss = 0.1;
    Pair world(link, 3);
    for (int i = 0; i < 1500; ++i) {
        world.host->send_payload(world.peer(), as_bytes("state"), 0, world.now);
        world.client().send_payload(world.client().server(), as_bytes("input"), 0, world.now);
        world.step(10ms);
    }
    const ConnectionStats& stats = world.host->stats(world.peer());
    EXPECT_GE(stats.rtt, 80ms);
    EXPECT_LE(stats.rtt, 100ms);
    EXPECT_LE(stats.jitter, 10ms);
    EXPECT_NEAR(double(stats.packets_lost) / double(stats.packets_lost + stats.packets_delivered), 0.1, 0.03);
    EXPECT_NEAR(stats.loss, 0.1, 0.09);
    EXPECT_LE(stats.bytes_in_flight, stats.bytes_sent);
}

// A stranger cannot change anything with bytes: all prefixes and all single-byte changes of a real packet
// are dropped and counted, and the real one still works afterwards. Replays of it do not.
TEST(Connection, DamagedForgedAndReplayedPacketsChangeNothing) {
    Pair world;
    Wire wire;
    Recorder recorder;
    // A second client, whose packets we hold in our hands.
    Client client(client_config(9), recorder, wire);
    const Address address = Address::ipv4(10, 0, 0, 9, 9);
    client.connect(world.server_address, {}, world.now);
    client.flush(world.now);
    LinkConditioner::Datagram answer;
    const auto pass = [&] {
        while (!wire.sent.empty()) {
            world.host->receive(address, wire.sent.front().second, world.now);
            wire.sent.pop_front();
        }
        while (world.down.pop(world.now, answer))
            client.receive(world.server_address, answer.bytes, world.now);
    };
    for (int i = 0; i < 4; ++i) pass();
    ASSERT_EQ(world.server.connects.size(), 2u);
    const PeerId peer = world.server.newest;

    ASSERT_EQ(client.send_message(client.server(), Channel::reliable, as_bytes("one")), SendResult::queued);
    ASSERT_EQ(client.send_message(client.server(), Channel::unreliable, as_bytes("two")), SendResult::queued);
    client.send_payload(client.server(), as_bytes("three"), 0, world.now);
    const std::vector<std::byte> packet = wire.sent.front().second;
    wire.sent.clear();

    const auto total = [&] {
        return world.host->stats(peer).drops.total() + world.host->endpoint_stats().drops.total();
    };
    std::uint64_t drops = total();
    const auto feed = [&](const std::vector<std::byte>& bytes) {
        const std::vector<std::byte> exact(bytes);  // exactly sized, for the address sanitizer
        world.host->receive(address, exact, world.now);
        ASSERT_EQ(total(), ++drops);
        ASSERT_TRUE(world.server.payloads.empty());
        ASSERT_TRUE(world.server.messages.empty());
        ASSERT_TRUE(world.server.disconnects.empty());
    };
    for (std::size_t size = 0; size < packet.size(); ++size) {
        feed({packet.begin(), packet.begin() + std::ptrdiff_t(size)});
    }
    for (std::size_t i = 0; i < packet.size(); ++i) {
        for (unsigned change = 1; change < 256; ++change) {
            std::vector<std::byte> damaged = packet;
            damaged[i] ^= std::byte(change);
            feed(damaged);
        }
    }
    std::vector<std::byte> longer = packet;
    longer.push_back(std::byte(0));
    feed(longer);

    world.host->receive(address, packet, world.now);
    EXPECT_EQ(world.server.payloads.size(), 1u);
    EXPECT_EQ(world.server.messages.size(), 2u);
    world.host->receive(address, packet, world.now);
    EXPECT_EQ(world.host->stats(peer).drops[Drop::duplicate], 1u);
    EXPECT_EQ(world.server.payloads.size(), 1u);
    EXPECT_EQ(world.server.messages.size(), 2u);
    // The server's own packet, sent back to it, is not taken either.
    world.host->send_payload(peer, as_bytes("state"), 0, world.now);
    ASSERT_TRUE(world.down.pop(world.now, answer));
    world.host->receive(address, answer.bytes, world.now);
    EXPECT_EQ(world.server.payloads.size(), 1u);
}

TEST(Connection, AuthenticNonsenseEndsIt) {
    const std::vector<std::vector<int>> bodies = {
        {1, 0, 0, 0},                   // acknowledges a packet that was never sent
        {1},                            // acks announced, none there
        {0x10},                         // ack bits without acks
        {4},                            // messages announced, none there
        {4, 7, 'a'},                    // a piece without id
        {4, 0x14, 1, 'a'},              // an id of an unreliable message
        {4, 0x44, 'a'},                 // an unreliable message behind another
        {4, 0x15, 1, 'a'},              // an id of a sequenced one
        {4, 5},                         // a sequenced one without key
        {4, 0, 1, 'a'},                 // no last run
        {0xC, 4, 5, 'a'},               // message longer than the packet
        {0xC, 0, 1, 'a', 4, 1},         // a last message that is not there
        {4, 0xC, 0},                    // a run of none
        {4, 0xC, 1, 'a'},               // a count where there is one
        {4, 0xC, 2, 'a', 'b', 'c'},     // two messages of equal size in three bytes
        {4, 0xD, 3, 'a', 'b'},          // fewer bytes than keys
        {0xC, 4, 0x81, 0, 'a'},         // size in two bytes that needs one
        {0xC, 4, 0xFF, 0x7F},           // size over the limit
        {0xC, 4, 0x80, 0xFF},           // the same
        {4, 6, 'a'},                    // reliable, continues a run that is not there
        {4, 0x36, 1, 'a'},              // three bytes of id
        {4, 0x17, 1, 'a'},              // a piece that goes on and is not full
        {0xC, 0x17, 1, 'a'},            // the same, beside a payload
        {4, 0x26, 1, 0x10, 'a'},        // reliable id far ahead of the window
        {4, 0xD6, 1, 'a'},              // unknown predecessor
        {4, 0x96, 1},                   // distance announced, none there
        {4, 0x96, 1, 1, 'a'},           // a distance that has a shorter form
        {4, 0x96, 1, 0x82, 0, 'a'},     // the same
        {4, 0x96, 1, 0x80, 0x20, 'a'},  // a distance of the window or more
        {0, 'x'},                       // bytes but no payload flag
        {10},                           // a fragment announced, none there
        {10, 0},                        // a fragment of no bytes
        {10, 0x41, 1},                  // the same, not the first
        {10, 0x81},                     // a distance that is not there
        {10, 0x80, 'a'},                // a first fragment that is the last
        {10, 0x40, 0x40, 'a'},          // one fragment too many
        {10, 2, 1, 'a'},                // fewer packets since the first than fragments
        {10, 1, 1, 'a'},                // a first fragment before the first packet
        {10, 1, 0x81, 0, 'a'},          // a distance in two bytes that needs one
        {14, 4, 'a'},                   // messages with a size, which a fragment follows, without one
    };
    for (std::size_t i = 0; i < bodies.size(); ++i) {
        SCOPED_TRACE(i);
        Hand hand;
        hand.feed(1, bodies[i]);
        EXPECT_FALSE(hand.connection.is_open());
        EXPECT_EQ(hand.recorder.last_reason, DisconnectReason::protocol_error);
        EXPECT_EQ(hand.connection.stats().drops[Drop::malformed], 1u);
        EXPECT_TRUE(hand.recorder.messages.empty());
    }
}

TEST(Connection, PacketsTooOldToAcknowledgeAreStale) {
    Hand hand;
    hand.feed(100, {8, 'a'});
    hand.feed(36, {8, 'b'});
    hand.feed(35, {8, 'c'});
    EXPECT_EQ(hand.recorder.payloads.size(), 2u);
    EXPECT_EQ(hand.connection.stats().drops[Drop::stale], 1u);
}

// The sender learns of a loss as soon as it can.
TEST(Connection, AMissingPacketIsToldAtOnce) {
    Hand hand;
    hand.feed(1, {8, 'a'});
    hand.connection.flush(hand.now);
    EXPECT_EQ(hand.wire.sent.size(), 0u);  // one packet in order may wait for the next
    hand.now += 20ms;
    hand.connection.flush(hand.now);
    EXPECT_EQ(hand.wire.sent.size(), 1u);
    hand.feed(3, {8, 'c'});
    hand.connection.flush(hand.now);
    EXPECT_EQ(hand.wire.sent.size(), 2u);
    hand.feed(4, {8, 'd'});
    hand.connection.flush(hand.now);
    EXPECT_EQ(hand.wire.sent.size(), 2u);
}

// The delay counts from the arrival of the newest one, which is what acks name first.
TEST(Connection, ALatePacketDoesNotShortenTheAckDelay) {
    Hand hand;
    Wire wire;
    Recorder recorder;
    Connection peer({}, Hand::session(), Hand::cipher(true), recorder, wire, hand.now);
    peer.announce();
    peer.send_payload(as_bytes("late"), 0, hand.now);
    peer.send_payload(as_bytes("newest"), 0, hand.now);
    const auto deliver = [&](std::size_t which) {
        Packet packet;
        ASSERT_TRUE(hand.connection.open(wire.sent[which].second, packet, hand.now));
        hand.connection.apply(packet, hand.now);
    };
    deliver(1);
    hand.now += 15ms;
    deliver(0);
    hand.now += 4ms;
    hand.connection.flush(hand.now);
    ASSERT_EQ(hand.wire.sent.size(), 1u);
    Packet acks;
    ASSERT_TRUE(peer.open(hand.wire.sent[0].second, acks, hand.now));
    EXPECT_EQ(acks.acks.newest, 2u);
    EXPECT_EQ(acks.acks.bits, ~0ull);
    EXPECT_EQ(acks.acks.delay, 19ms / 256us * 256us);
}

TEST(Connection, AFlushSendsSoManyPacketsAtMost) {
    for (const std::uint32_t most : {1u, 3u, 8u}) {
        ConnectionConfig config;
        config.max_packets_per_flush = most;
        Hand hand(config);
        const std::string text(1000, 'm');
        for (int i = 0; i < 9; ++i)
            ASSERT_EQ(hand.connection.send_message(Channel::reliable, as_bytes(text)), SendResult::queued);
        hand.connection.flush(hand.now);
        EXPECT_EQ(hand.wire.sent.size(), most);
        hand.connection.flush(hand.now);
        EXPECT_EQ(hand.wire.sent.size(), std::min(2 * most, 9u));
    }
}

TEST(Connection, PacketsForAClosedOneAreCountedAsThat) {
    Hand hand;
    hand.connection.close(DisconnectReason::kicked, {}, true, hand.now);
    hand.feed(1, {8, 'p'});
    hand.feed(2, {0}, PacketKind::disconnect);
    EXPECT_EQ(hand.connection.stats().drops[Drop::closed], 2u);
    EXPECT_EQ(hand.connection.stats().drops.total(), 2u);
    EXPECT_EQ(hand.connection.stats().packets_received, 0u);
    EXPECT_TRUE(hand.recorder.payloads.empty());
}

// Goal: no bytes whatever, even authentic ones, break an invariant or touch memory that is not theirs.
// Method: random and mutated bodies under the right key, exactly sized; the sanitizers watch.
TEST(Connection, SurvivesRandomAuthenticBodies) {
    std::mt19937 random(5);
    std::uint64_t taken = 0;
    for (int round = 0; round < 20'000; ++round) {
        Hand hand;
        hand.connection.send_payload(as_bytes("state"), 1, hand.now);
        (void)hand.connection.send_message(Channel::reliable, as_bytes("hello"));
        hand.connection.flush(hand.now);
        for (std::uint64_t number = 1; number <= 4 && hand.connection.is_open(); ++number) {
            std::vector<int> body(random() % 24);
            for (int& byte : body) byte = random() % 3 ? int(random() % 8) : int(random() % 256);
            if (!body.empty() && random() % 2) body[0] &= 0x0F;
            hand.feed(number, body, random() % 20 == 0 ? PacketKind::disconnect : PacketKind::data);
        }
        taken += hand.connection.stats().packets_received;
        hand.connection.close(DisconnectReason::closed, {}, false, hand.now);
        ASSERT_EQ(hand.recorder.fates.size(), 1u);
        ASSERT_EQ(hand.recorder.disconnects.size(), 1u);
    }
    EXPECT_GT(taken, 1000u);  // else the bodies are too wild to reach much
}

TEST(Connection, HandlerMayDisconnectAnywhere) {
    struct Quitter : Recorder {
        void maybe(int at) {
            if (where == at) connection->close(DisconnectReason::kicked, "enough", true, 6s);
        }
        bool on_payload(PeerId peer, std::uint64_t number, std::span<const std::byte> bytes,
                        Time now) override {
            maybe(0);
            return where == 0 || Recorder::on_payload(peer, number, bytes, now);
        }
        void on_message(PeerId peer, Channel channel, std::span<const std::byte> bytes) override {
            Recorder::on_message(peer, channel, bytes);
            maybe(1);
        }
        void on_fate(PeerId peer, const PacketFate& fate) override {
            Recorder::on_fate(peer, fate);
            maybe(2);
        }
        int where = 0;
        Connection* connection = nullptr;
    };
    for (int where = 0; where < 3; ++where) {
        SCOPED_TRACE(where);
        Hand hand;
        Quitter quitter;
        Connection connection({}, Hand::session(), Hand::cipher(), quitter, hand.wire, 5s);
        quitter.where = where;
        quitter.connection = &connection;
        connection.announce();
        for (std::uint64_t i = 0; i < 5; ++i) connection.send_payload(as_bytes("s"), i, 5s);
        // Acks 1..3, carries two messages and a payload.
        const auto bytes = hand.seal(1, {0x0D, 3, 0, 0, 0x0C, 2, 1, 'a', 'b', 'p'});
        Packet packet;
        ASSERT_TRUE(connection.open(bytes, packet, 6s));
        connection.apply(packet, 6s);
        EXPECT_FALSE(connection.is_open());
        EXPECT_EQ(quitter.fates.size(), 5u);
        EXPECT_EQ(quitter.disconnects.size(), 1u);
        EXPECT_EQ(quitter.messages.size(), where == 0 ? 2u : where == 1 ? 1u : 0u);
    }
}

}  // namespace
}  // namespace shoal::net
