#include "net/connection.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

/// Checks fates against a simple model.
struct FateModel {
    void sent(std::uint64_t number) {
        ASSERT_GT(number, newest) << "number used twice";
        newest = number;
        open.insert(number);
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
            ASSERT_TRUE(!fate.delivered || received.contains(fate.number)) << "delivered but never received";
            open.erase(found);
        }
    }
    std::set<std::uint64_t> open;
    std::uint64_t newest = 0;
    std::size_t checked = 0;
};

// Goal: each packet has exactly one fate, "delivered" only if it was accepted; reliable messages arrive once
// and in order, whatever the network does and with any first packet number.
// Method: hundreds of seeded worlds with mixed faults, in both directions.
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
                // The rate may not allow a payload.
                const std::string payload(1 + (kMaxPayloadBytes - 1) * (random() % 5) / 4, 'p');
                const std::uint64_t number = world.send_down(payload);
                if (number != 0) down.sent(number);
            }
            if (random() % 3 == 0) {
                const std::uint64_t number = world.send_up("input");
                if (number != 0) up.sent(number);
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
        for (int i = 0; i < 10 && !has_all(); ++i)
            world.run(1s, 16ms);  // after the worst path the rate is low
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
    const std::uint64_t number = world.send_down("state");
    world.run(130ms);
    ASSERT_EQ(world.server.fates.size(), 1u);
    EXPECT_EQ(world.server.fates[0].number, number);
    EXPECT_TRUE(world.server.fates[0].delivered);
    EXPECT_GE(world.server.fates[0].rtt, 100ms);
    EXPECT_LE(world.server.fates[0].rtt, 120ms);
    ASSERT_EQ(world.player().recorder.payloads.size(), 1u);
    EXPECT_EQ(world.player().recorder.payloads[0], std::pair(number, std::string("state")));
}

TEST(Connection, ThreeLaterDeliveriesLoseAPacket) {
    ConnectedWorld world;
    LinkConfig broken;
    broken.loss = 1;
    world.down.set_config(broken);
    const std::uint64_t gone = world.send_down("gone");
    world.down.set_config({});
    for (int i = 0; i < 3; ++i) world.send_down("here");
    world.step(1ms);
    world.step(1ms);
    ASSERT_EQ(world.server.fates.size(), 4u);
    EXPECT_FALSE(world.server.fates[0].delivered);
    EXPECT_EQ(world.server.fates[0].number, gone);
    for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(world.server.fates[i].delivered);
}

TEST(Connection, LastPacketHasItsFateWithinTwoTimeouts) {
    LinkConfig link;
    link.latency = 30ms;
    ConnectedWorld world(link);
    for (int i = 0; i < 40; ++i) {  // for a good estimate
        world.send_down("state");
        world.step(16ms);
    }
    world.run(500ms);  // all fates are known, no ping is due
    world.server.fates.clear();
    const ConnectionStats& stats = world.host->stats(world.peer());
    const Duration timeout = stats.rtt + std::max<Duration>(4 * stats.jitter, 10ms) + 50ms;
    link.loss = 1;
    world.down.set_config(link);
    world.send_down("last");
    world.run(timeout, 1ms);
    EXPECT_TRUE(world.server.fates.empty());
    world.run(timeout + 1ms, 1ms);
    ASSERT_EQ(world.server.fates.size(), 1u);
    EXPECT_FALSE(world.server.fates[0].delivered);
}

// The last packet arrived, but its ack is lost. A ping makes the other side send acks again.
TEST(Connection, APingRepairsALostAckOfTheLastPacket) {
    ConnectedWorld world;
    world.send_down("state");
    world.run(200ms);
    world.server.fates.clear();
    world.send_down("last");
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

TEST(Connection, ALateAckIsOnlyCounted) {
    ConnectedWorld world;
    world.send_down("warm");
    world.run(200ms);
    world.server.fates.clear();
    LinkConfig slow;
    slow.latency = 400ms;
    world.down.set_config(slow);
    world.send_down("late");
    world.run(2s, 5ms);
    ASSERT_EQ(world.server.fates.size(), 1u);
    EXPECT_FALSE(world.server.fates[0].delivered);
    EXPECT_EQ(world.player().recorder.payloads.back().second, "late");
    EXPECT_GE(world.host->stats(world.peer()).late_acks, 1u);
}

TEST(Connection, DisconnectReportsAllOpenFatesAsLostFirst) {
    LinkConfig link;
    link.latency = 50ms;
    ConnectedWorld world(link);
    for (std::uint64_t i = 0; i < 5; ++i) world.send_down("x");
    const PeerId peer = world.peer();
    world.host->disconnect(peer, DisconnectReason::kicked, "bye", world.now);
    EXPECT_EQ(world.server.fates.size(), 5u);
    for (const PacketFate& fate : world.server.fates) EXPECT_FALSE(fate.delivered);
    EXPECT_EQ(world.server.disconnects.at(peer), std::pair(DisconnectReason::kicked, std::string("bye")));
    EXPECT_FALSE(world.host->is_connected(peer));
    EXPECT_EQ(world.send(peer, "x"), 0u);
    EXPECT_EQ(world.host->send_message(peer, Channel::reliable, as_bytes("x")), SendResult::not_connected);
    world.run(500ms);
    EXPECT_EQ(world.server.fates.size(), 5u);
    EXPECT_EQ(world.player().recorder.last_reason, DisconnectReason::kicked);
    EXPECT_EQ(world.player().recorder.last_text, "bye");
    EXPECT_TRUE(world.host->is_idle());
    EXPECT_TRUE(world.client().is_idle());
}

TEST(Connection, DisconnectArrivesDespiteLoss) {
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
    EXPECT_NEAR(double(world.host->stats(world.peer()).silence.count()), 9e6, 1e6);
    world.run(1100ms);
    EXPECT_EQ(world.server.last_reason, DisconnectReason::timed_out);
    EXPECT_EQ(world.player().recorder.last_reason, DisconnectReason::timed_out);
    EXPECT_EQ(world.server.disconnects.size(), 1u);
    EXPECT_EQ(world.server.last_text, "the server heard nothing from the client for 10.0 s");
    EXPECT_EQ(world.player().recorder.last_text, "the client heard nothing from the server for 10.0 s");
}

// Goal: the text says which direction of the path failed, and a game can see it long before.
TEST(Connection, SilenceSaysWhoHeardNothing) {
    ConnectedWorld world;
    world.run(5s);
    EXPECT_LE(world.host->stats(world.peer()).silence, 1100ms);
    EXPECT_LE(world.client().stats(world.client().server()).silence, 1100ms);
    world.up.set_config({.loss = 1});
    world.run(3s);
    EXPECT_GE(world.host->stats(world.peer()).silence, 2s);
    EXPECT_LE(world.client().stats(world.client().server()).silence, 1100ms);
    world.run(9s);
    EXPECT_EQ(world.player().recorder.last_reason, DisconnectReason::timed_out);
    EXPECT_EQ(world.player().recorder.last_text, "the server heard nothing from the client for 10.0 s");
}

TEST(Connection, IdleConnectionsStayOpenWithFewPackets) {
    ConnectedWorld world;
    world.run(60s);
    EXPECT_TRUE(world.server.disconnects.empty());
    const ConnectionStats& stats = world.host->stats(world.peer());
    EXPECT_LT(stats.packets_sent, 200u);
    EXPECT_LT(stats.bytes_sent, 200u * 20);
}

// The receiver refuses every payload, so packets with payloads are never acknowledged.
TEST(Connection, ReliableMessagesArriveAlthoughEveryPayloadIsRefused) {
    ConnectedWorld world;
    world.player().recorder.withhold = [](std::uint64_t) { return true; };
    world.server_tick = [&] { world.send_down("nonsense"); };
    for (int i = 0; i < 400; ++i) {
        if (i < 50)
            (void)world.host->send_message(world.peer(), Channel::reliable, as_bytes(std::to_string(i)));
        world.step(16ms);
    }
    EXPECT_EQ(world.player().recorder.texts(Channel::reliable).size(), 50u);
    for (const PacketFate& fate : world.server.fates) EXPECT_FALSE(fate.delivered);
    EXPECT_GT(world.server.fates.size(),
              150u);  // sometimes the breaker stops it until a ping is answered
    // The sender knows that they arrived: nothing is repeated any more.
    const std::uint64_t repeated = world.host->stats(world.peer()).messages_repeated;
    world.run(4s, 16ms);
    EXPECT_EQ(world.host->stats(world.peer()).messages_repeated, repeated);
}

TEST(Connection, SizesAreBounded) {
    ConnectedWorld world;
    EXPECT_EQ(world.host->send_message(world.peer(), Channel::reliable, as_bytes("0123456789")),
              SendResult::queued);
    const std::string big(kMaxMessageBytes, 'm');
    EXPECT_EQ(world.host->send_message(world.peer(), Channel::unreliable, as_bytes(big)), SendResult::queued);
    const std::string too_big(kMaxMessageBytes + 1, 'm');
    EXPECT_EQ(world.host->send_message(world.peer(), Channel::unreliable, as_bytes(too_big)),
              SendResult::too_large);
    const std::string far_too_big(kMaxReliableBytes + 1, 'm');
    EXPECT_EQ(world.host->send_message(world.peer(), Channel::reliable, as_bytes(far_too_big)),
              SendResult::too_large);
    EXPECT_EQ(world.host->send_message(world.peer(), unordered().with(Weight::bulk),
                                       as_bytes(std::string(kMaxReliableBytes, 'm'))),
              SendResult::queued);
    // 64 kB hold 55 pieces of 1,000 bytes and one of 680, each with 176 bytes more.
    ConnectionOptions small;
    small.message_queue_bytes = 64 * 1024;
    world.host->set_options(world.peer(), small);
    for (const std::size_t bytes : {55'680u, 55'681u}) {
        EXPECT_EQ(world.host->send_message(world.peer(), unordered().with(Weight::urgent),
                                           as_bytes(std::string(bytes, 'm'))),
                  bytes == 55'680 ? SendResult::queued : SendResult::too_large);
    }
    const std::string state(kMaxPayloadBytes, 's');  // more than its share, so messages wait
    world.send_down(state);
    world.run(50ms);
    EXPECT_EQ(world.player().recorder.payloads.at(0).second, state);
    EXPECT_EQ(world.player().recorder.texts(Channel::unreliable).at(0), big);
    EXPECT_EQ(world.player().recorder.texts(Channel::reliable).at(0), "0123456789");
}

// Goal: a flush calls write_payload until it returns 0, and not again.
TEST(Connection, WritePayloadIsCalledUntilItReturnsZero) {
    for (const int count : {0, 1, 3}) {
        ConnectedWorld world;
        int asked = 0, left = count;
        std::vector<std::uint64_t> numbers;
        world.server.source = [&](PeerId peer, PayloadTurn& turn) -> std::size_t {
            asked += 1;
            EXPECT_EQ(peer, world.peer());
            EXPECT_EQ(turn.now, world.now);
            EXPECT_EQ(turn.share, kMaxPayloadBytes) << "nothing else uses the room";
            if (left == 0) return 0;
            left -= 1;
            numbers.push_back(turn.packet_number);
            return fill(turn, 100);
        };
        ASSERT_EQ(world.host->send_message(world.peer(), Channel::reliable, as_bytes("small")),
                  SendResult::queued);
        (void)world.send_down("first");
        world.run(50ms);
        asked = 0;
        left = count;
        numbers.clear();
        world.player().recorder.payloads.clear();
        world.host->flush(world.now);
        EXPECT_EQ(asked, count + 1);
        world.host->flush(world.now);
        EXPECT_EQ(asked, count + 2) << "the next flush calls it again";
        world.server.source = nullptr;
        world.run(50ms);
        ASSERT_EQ(world.player().recorder.payloads.size(), numbers.size());
        for (std::size_t i = 0; i < numbers.size(); ++i)
            EXPECT_EQ(world.player().recorder.payloads[i].first, numbers[i])
                << "write_payload got the right number";
        EXPECT_EQ(world.server.fates.size(),
                  world.player().recorder.payloads.size() + 1 + std::size_t(count));
    }
}

// Goal: the limit of packets per flush also applies to state; the next flush continues.
TEST(Connection, AFlushWritesAtMostMaxPacketsPerFlushPayloads) {
    ConnectionConfig config;
    config.max_packets_per_flush = 3;
    ConnectedWorld world({}, 1, config);
    int written = 0;
    world.server.source = [&](PeerId, PayloadTurn& turn) {
        written += 1;
        return fill(turn, 10);
    };
    world.host->flush(world.now);
    EXPECT_EQ(written, 3);
    world.host->flush(world.now);
    EXPECT_EQ(written, 6);
}

// Goal: queued messages and state both get their share of the bytes.
// Method: a slow connection where both always wait; small messages, and messages of 1,000 bytes, which do not
// fit beside a payload.
TEST(Connection, QueuedMessagesAndStateShareTheRate) {
    struct Case {
        Weight weight;
        std::size_t size;
        double state_part;
    };
    for (const Case& each : {Case{Weight::normal, 1000, 2.0 / 3}, Case{Weight::normal, 50, 2.0 / 3},
                             Case{Weight::urgent, 1000, 0.4}, Case{Weight::urgent, 50, 0.4}}) {
        SCOPED_TRACE(testing::Message() << "weight " << int(each.weight) << ", messages of " << each.size);
        ConnectionConfig config;
        config.max_bytes_per_second = 50'000;
        ConnectedWorld world({}, 1, config);
        const std::string message(each.size, 'm');
        world.server.source = [&](PeerId, PayloadTurn& turn) { return fill(turn); };
        world.server_tick = [&] {
            while (world.host->send_message(world.peer(), Delivery(Channel::unreliable).with(each.weight),
                                            as_bytes(message)) == SendResult::queued) {
            }
        };
        world.run(2s);
        Recorder& at_client = world.player().recorder;
        at_client.payloads.clear();
        at_client.messages.clear();
        world.run(20s);
        double state = 0, messages = double(at_client.messages.size() * (each.size + 3));
        for (const auto& payload : at_client.payloads) state += double(payload.second.size());
        EXPECT_NEAR(state / (state + messages), each.state_part, 0.06);
        EXPECT_GT(state + messages, 0.8 * 20 * 50'000) << "the rate must be used";
    }
}

TEST(Connection, OptionsCanBeChangedDuringTheConnection) {
    ConnectedWorld world;
    const PeerId peer = world.peer();
    const std::string text(900, 'm');
    ConnectionOptions options;
    options.message_queue_bytes = 72 * 1024;
    world.host->set_options(peer, options);
    // Queues: with a lower limit queued messages stay, and no more are accepted.
    int queued = 0;
    while (world.host->send_message(peer, Channel::reliable, as_bytes(text)) == SendResult::queued)
        queued += 1;
    EXPECT_GT(queued, 60);
    options.message_queue_bytes = 2'000;
    options.max_bytes_per_second = 4'000;
    world.host->set_options(peer, options);
    EXPECT_EQ(world.host->send_message(peer, Channel::reliable, as_bytes(text)), SendResult::queue_full);
    EXPECT_EQ(world.host->send_message(peer, Channel::reliable, as_bytes(std::string(3'000, 'm'))),
              SendResult::too_large);
    world.run(1s);
    EXPECT_LE(world.host->stats(peer).rate, 4'000);
    const std::uint64_t before = world.host->stats(peer).bytes_sent;
    world.run(5s);
    EXPECT_LE(world.host->stats(peer).bytes_sent - before, 5 * 4'000u + 2 * kMaxDatagramBytes);
    options.max_bytes_per_second = 1'000'000;
    options.message_queue_bytes = 72 * 1024;
    world.host->set_options(peer, options);
    world.run(10s);
    EXPECT_EQ(world.player().recorder.messages.size(), std::size_t(queued)) << "all queued messages arrived";
    EXPECT_EQ(world.host->send_message(peer, Channel::reliable, as_bytes(text)), SendResult::queued);
    // Packets per flush.
    options.max_packets_per_flush = 1;
    world.host->set_options(peer, options);
    for (int i = 0; i < 5; ++i) (void)world.host->send_message(peer, Channel::reliable, as_bytes(text));
    world.run(3s);
    const std::uint64_t packets = world.host->stats(peer).packets_sent;
    for (int i = 0; i < 5; ++i)
        ASSERT_EQ(world.host->send_message(peer, Channel::unreliable, as_bytes(text)), SendResult::queued);
    world.host->flush(world.now);
    EXPECT_EQ(world.host->stats(peer).packets_sent - packets, 1u);
    // Timeout.
    options.timeout = 2s;
    world.host->set_options(peer, options);
    LinkConfig broken;
    broken.loss = 1;
    world.up.set_config(broken);
    world.run(1900ms);
    EXPECT_TRUE(world.server.disconnects.empty());
    world.run(200ms);
    EXPECT_EQ(world.server.last_reason, DisconnectReason::timed_out);
    world.host->set_options(peer, options);  // no effect
}

TEST(Connection, StatsCountQueuedMessagesAndMessagesInFlight) {
    LinkConfig link;
    link.latency = 50ms;
    ConnectedWorld world(link);
    const PeerId peer = world.peer();
    const ConnectionStats& stats = world.host->stats(peer);
    EXPECT_EQ(stats.messages_queued, 0u);
    EXPECT_EQ(stats.message_bytes_queued, 0u);
    EXPECT_EQ(stats.messages_in_flight, 0u);
    ASSERT_EQ(world.host->send_message(peer, Channel::reliable, as_bytes(std::string(100, 'm'))),
              SendResult::queued);
    ASSERT_EQ(world.host->send_message(peer, Channel::unreliable, as_bytes(std::string(50, 'm'))),
              SendResult::queued);
    ASSERT_EQ(
        world.host->send_message(peer, unordered().with(Weight::bulk), as_bytes(std::string(2'500, 'm'))),
        SendResult::queued);
    EXPECT_EQ(stats.messages_queued, 5u) << "the large message has three pieces";
    EXPECT_GE(stats.message_bytes_queued, 2'650u);
    EXPECT_LE(stats.message_bytes_queued, 2'650u + 5 * 16);
    EXPECT_EQ(stats.messages_in_flight, 0u);
    // A newer sequenced message replaces an older one.
    ASSERT_EQ(world.host->send_message(peer, latest_of(1), as_bytes("1234567890")), SendResult::queued);
    const std::uint64_t with = stats.message_bytes_queued;
    ASSERT_EQ(world.host->send_message(peer, latest_of(1), as_bytes("12345")), SendResult::queued);
    EXPECT_EQ(stats.messages_queued, 6u);
    EXPECT_EQ(stats.message_bytes_queued, with - 5);
    world.host->flush(world.now);
    EXPECT_EQ(stats.messages_queued, 0u);
    EXPECT_EQ(stats.message_bytes_queued, 0u);
    EXPECT_EQ(stats.messages_in_flight, 4u) << "the reliable messages";
    world.run(200ms);
    EXPECT_EQ(world.player().recorder.messages.size(), 4u);
    EXPECT_EQ(stats.messages_in_flight, 0u);
}

TEST(Connection, QueuesAreBounded) {
    LinkConfig broken;
    broken.loss = 1;
    ConnectionConfig config;
    config.max_open_packets = 256;
    ConnectedWorld world(broken, 1, config);
    const std::string message(500, 'm');
    int fates = 0;
    for (int i = 0; i < 10'000; ++i) fates += world.send_down("x") != 0;
    EXPECT_GE(fates, 250) << "acks take numbers, too";
    EXPECT_LE(fates, 256);
    int queued = 0;
    while (world.host->send_message(world.peer(), Channel::reliable, as_bytes(message)) == SendResult::queued)
        queued += 1;
    EXPECT_EQ(queued, 512 * 1024 / 676);
    world.run(2s);
    EXPECT_EQ(world.server.fates.size(), std::size_t(fates));
    EXPECT_EQ(world.send_down("x"), 0u) << "the breaker is open, as nobody answers";
    world.up.set_config({});
    world.down.set_config({});
    world.run(2s);
    EXPECT_NE(world.send_down("x"), 0u);
}

TEST(Connection, EstimatesFollowThePath) {
    LinkConfig link;
    link.latency = 40ms;
    link.loss = 0.1;
    ConnectedWorld world(link, 3);
    for (int i = 0; i < 1500; ++i) {
        world.send_down("state");
        world.send_up("input");
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

// All prefixes and all single-byte changes of a genuine packet are dropped and counted. The genuine packet is
// accepted afterwards, and its replays are not.
TEST(Connection, DamagedForgedAndReplayedPacketsChangeNothing) {
    ConnectedWorld world;
    Wire wire;
    Recorder recorder;
    // A second client, whose packets the test delivers.
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
    recorder.send(client, client.server(), as_bytes("three"), world.now);
    const std::vector<std::byte> packet = wire.sent.front().second;
    wire.sent.clear();

    const auto total = [&] {
        return world.host->stats(peer).drops.total() + world.host->endpoint_stats().drops.total();
    };
    std::uint64_t drops = total();
    const auto feed = [&](const std::vector<std::byte>& bytes) {
        const std::vector<std::byte> exact(bytes);  // of exact size, for the address sanitizer
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
    // The server's own packet, reflected, is not accepted.
    world.send(peer, "state");
    ASSERT_TRUE(world.down.pop(world.now, answer));
    world.host->receive(address, answer.bytes, world.now);
    EXPECT_EQ(world.server.payloads.size(), 1u);
}

}  // namespace
}  // namespace shoal::net::impl
