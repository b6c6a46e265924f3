#include "net/connection.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "net_world.h"

namespace shoal::net {
namespace {

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
        ConnectedWorld world(link, seed, {}, starts[seed % 6], starts[seed / 6 % 6]);
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
    ConnectedWorld world(link);
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
    ConnectedWorld world;
    world.host->send_payload(world.peer(), {}, 1, world.now);
    world.run(50ms);
    ASSERT_EQ(world.player().recorder.payloads.size(), 1u);
    EXPECT_EQ(world.server.fates.size(), 1u);
}

TEST(Connection, ThreeLaterDeliveriesLoseAPacket) {
    ConnectedWorld world;
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
    ConnectedWorld world(link);
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
    ConnectedWorld world;
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
    ConnectedWorld world;
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
    ConnectedWorld world(link);
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
        ConnectedWorld world(link, seed);
        world.client().disconnect(world.client().server(), DisconnectReason::closed, "", world.now);
        world.run(500ms);
        if (world.server.disconnects.empty()) continue;
        told += 1;
        EXPECT_EQ(world.server.last_reason, DisconnectReason::closed_by_peer);
    }
    EXPECT_GE(told, 46);  // 0.3^4 of 50 is 0.4
}

TEST(Connection, SilenceTimesOut) {
    ConnectedWorld world;
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
    ConnectedWorld world;
    world.run(60s);
    EXPECT_TRUE(world.server.disconnects.empty());
    const ConnectionStats& stats = world.host->stats(world.peer());
    EXPECT_LT(stats.packets_sent, 200u);
    EXPECT_LT(stats.bytes_sent, 200u * 20);
}

// The receiver refuses every payload, so none of their packets is ever acknowledged.
TEST(Connection, ReliableMessagesArriveThoughEveryPayloadIsWithheld) {
    ConnectedWorld world;
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
    ConnectedWorld world;
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
    ConnectedWorld world(broken, 1, {.max_open_packets = 256});
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
    ConnectedWorld world(link, 3);
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
    ConnectedWorld world;
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

}  // namespace
}  // namespace shoal::net
