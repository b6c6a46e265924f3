// Tests of the messages of a connection, over the simulated network.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "net/connection.h"
#include "net/message/inbox.h"
#include "net/message/send_queue.h"
#include "tests/net/support/world.h"
#include "tests/support/allocations.h"

namespace shoal::net::impl {
namespace {

struct Latencies {
    double p95_ms, p99_ms, bytes;  // per message, with 28 bytes of IP and UDP per packet
};

/// Sends messages of 64 bytes at 60 Hz; the client is updated every millisecond; 50 +- 10 ms one way.
Latencies measure(std::uint32_t keys, double loss) {
    std::vector<double> latencies;
    std::uint64_t bytes = 0;
    std::uint64_t sent = 0;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        LinkConfig link;
        link.latency = 40ms;
        link.jitter = 20ms;
        link.loss = loss;
        World world(link, seed);
        world.add_host(host_config(seed));
        Client& client = world.add_client(client_config(seed + 9)).client;
        client.connect(world.server_address, {}, world.now);
        world.run(3s);
        std::uint64_t before = 0;
        for (int ms = 0; ms < 40'000; ++ms) {
            const bool is_settled = ms > 4000;  // then the loss is known
            if (ms == 4000) {
                world.server.messages.clear();
                before = client.stats(client.server()).bytes_sent +
                         28 * client.stats(client.server()).packets_sent;
            }
            if (ms * 60 / 1000 != (ms + 1) * 60 / 1000) {
                std::string text = std::to_string((world.now + 1ms).count());
                text.resize(64, ' ');
                EXPECT_EQ(client.send_message(client.server(), ordered_by(std::uint32_t(ms) % keys),
                                              as_bytes(text)),
                          SendResult::queued);
                sent += is_settled;
            }
            const std::size_t had = world.server.messages.size();
            world.step(1ms);
            for (std::size_t i = had; i < world.server.messages.size(); ++i) {
                const Duration age = world.now - Duration(std::stoll(world.server.messages[i].second));
                if (is_settled) latencies.push_back(double(age.count()) / 1000);
            }
        }
        const ConnectionStats& stats = client.stats(client.server());
        bytes += stats.bytes_sent + 28 * stats.packets_sent - before;
    }
    std::sort(latencies.begin(), latencies.end());
    return {latencies[latencies.size() * 95 / 100], latencies[latencies.size() * 99 / 100],
            double(bytes) / double(sent)};
}

// With one repeat in the next packet, almost no loss causes a delay.
TEST(Messages, LossesCostLittleTimeAndFewBytes) {
    const Latencies clean = measure(1, 0);
    EXPECT_LE(clean.p99_ms, 61);
    EXPECT_LE(clean.bytes, 118);  // 28, 25 of packet and message headers, 64
    const Latencies ordered = measure(1, 0.05);
    EXPECT_LE(ordered.p95_ms, 75);
    EXPECT_LE(ordered.p99_ms, 160);
    EXPECT_LE(ordered.bytes, 190);
    const Latencies keyed = measure(1000, 0.05);
    EXPECT_LE(keyed.p95_ms, 65);
    EXPECT_LE(keyed.p99_ms, 80);
    EXPECT_LE(keyed.bytes, 190);
}

// Urgent messages are sent with the next packet, however much bulk waits.
TEST(Messages, BulkMessagesDoNotDelayUrgentOnes) {
    std::vector<int> packets[2];
    for (const bool has_bulk : {false, true}) {
        LinkConfig link;
        link.latency = 60ms;
        ConnectedWorld world(link);
        World::Player& player = world.player();
        const std::string big(900, 'b');
        for (int tick = 0; tick < 300; ++tick) {
            while (has_bulk && world.host->send_message(world.server.newest, unordered().with(Weight::bulk),
                                                        as_bytes(big)) == SendResult::queued) {
            }
            const auto how = ordered_by(unsigned(tick % 3)).with(Weight::urgent);
            ASSERT_EQ(
                world.host->send_message(world.server.newest, how, as_bytes("u" + std::to_string(tick))),
                SendResult::queued);
            world.step(16ms);
            for (const auto& message : player.recorder.messages) {
                if (message.second[0] == 'u')
                    packets[has_bulk].push_back(tick - std::stoi(message.second.substr(1)));
            }
            player.recorder.messages.clear();
        }
    }
    EXPECT_GT(packets[0].size(), 290u);
    EXPECT_EQ(packets[0], packets[1]);
}

// Goal: a bulk message in progress that gets no room, because state uses all of it, does not stop messages
// with later ids.
// Method: 100 kB/s, as much state as allowed, four urgent messages per tick, and one bulk message in pieces
// or many small ones. If bulk stopped the others, the window would be full after 17 seconds.
TEST(Messages, ABulkMessageInProgressDoesNotStopOtherMessages) {
    for (const std::size_t size : {60'000u, 1'000u}) {
        SCOPED_TRACE(size);
        LinkConfig link;
        link.latency = 30ms;
        ConnectedWorld world(link);
        World::Player& player = world.player();
        link.bytes_per_second = 100'000;
        world.down.set_config(link);
        const PeerId peer = world.peer();
        int urgent = 0;
        world.server_tick = [&] {
            for (int i = 0; i < 4; ++i, ++urgent)
                ASSERT_EQ(world.host->send_message(peer, unordered().with(Weight::urgent), as_bytes("u")),
                          SendResult::queued);
            if (urgent < 20) return;  // bulk may begin
            world.server.source = [](PeerId, PayloadTurn& turn) { return fill(turn); };
        };
        for (std::size_t sent = 0; sent < 60'000; sent += size)
            ASSERT_EQ(world.host->send_message(peer, unordered().with(Weight::bulk),
                                               as_bytes(std::string(size, 'b'))),
                      SendResult::queued);
        world.run(30s, 16ms);
        if (HasFatalFailure()) return;
        const auto texts = player.recorder.texts(Channel::reliable);
        const auto heard = [&](char what) {
            return std::ranges::count_if(texts, [&](const std::string& text) { return text[0] == what; });
        };
        EXPECT_GT(heard('u'), urgent - 60);
        EXPECT_GE(heard('b'), 1);
        EXPECT_GT(world.server.fates.size(), 1'500u) << "state must be sent meanwhile";
    }
}

// On a path with long round trips bulk could fill the window of open packets, and urgent messages would wait.
TEST(Messages, BulkLeavesHalfOfTheOpenPacketsToOthers) {
    LinkConfig link;
    link.latency = 300ms;
    ConnectionConfig config;
    config.max_open_packets = 64;
    config.message_queue_bytes = 1 << 20;
    ConnectedWorld world(link, 1, config);
    for (int i = 0; i < 700; ++i)
        ASSERT_EQ(world.host->send_message(world.peer(), unordered().with(Weight::bulk),
                                           as_bytes(std::string(1'000, 'b'))),
                  SendResult::queued);
    std::uint64_t most = 0;
    for (int i = 0; i < 300; ++i) {
        world.step(16ms);
        most = std::max(most, world.host->stats(world.peer()).bytes_in_flight);
    }
    EXPECT_GT(most, 20 * kMaxMessageBytes) << "else the window was never full";
    EXPECT_LE(most, 33 * kMaxDatagramBytes);
}

// Goal: bulk messages that were lost twice are never sent beside a payload. They get packets of their own,
// although there is always a payload to send.
TEST(Messages, BulkMessagesLostTwiceAreSentAgain) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(seed);
        LinkConfig link;
        link.latency = 30ms;
        link.loss = 0.2;
        ConnectionConfig config;
        config.max_bytes_per_second = 60'000;
        ConnectedWorld world(link, seed, config);
        world.server.source = [](PeerId, PayloadTurn& turn) { return fill(turn, 600); };
        for (int i = 0; i < 40; ++i)
            ASSERT_EQ(world.host->send_message(world.peer(), Delivery(Channel::reliable).with(Weight::bulk),
                                               as_bytes(std::to_string(i) + std::string(300, 'b'))),
                      SendResult::queued);
        world.run(30s, 16ms);
        EXPECT_EQ(world.player().recorder.messages.size(), 40u);
        EXPECT_GT(world.server.fates.size(), 1'000u) << "state must be sent meanwhile";
    }
}

/// One side of a connection sends numbered messages at a multiple of its rate; no message is lost.
struct Voice {
    Voice(bool is_up, Duration each_tick, std::size_t size_in_bytes, Weight of_weight)
        : is_from_client(is_up), tick(each_tick), size(size_in_bytes), weight(of_weight) {
        options.max_bytes_per_second = 10'000;
        sender().set_options(peer(), options);
    }
    Endpoint& sender() { return is_from_client ? static_cast<Endpoint&>(world.client()) : *world.host; }
    PeerId peer() { return is_from_client ? world.client().server() : world.peer(); }
    Recorder& receiver() { return is_from_client ? world.server : world.player().recorder; }

    /// Sends `bytes_per_second` in each tick, for this time. Returns the age of the oldest message on
    /// arrival.
    Duration talk(double bytes_per_second, Duration time) {
        Duration oldest{0};
        double due = 0;
        const auto speak = [&] {
            for (due += bytes_per_second * std::chrono::duration<double>(tick).count(); due >= double(size);
                 due -= double(size)) {
                std::string text = std::to_string(world.now.count());
                text.resize(size, ' ');
                EXPECT_EQ(
                    sender().send_message(peer(), Delivery(Channel::unreliable).with(weight), as_bytes(text)),
                    SendResult::queued);
                sent += 1;
            }
        };
        if (!is_from_client) world.server_tick = speak;
        for (const Time end = world.now + time; world.now < end;) {
            const std::size_t had = receiver().messages.size();
            world.step(tick);
            for (std::size_t i = had; i < receiver().messages.size(); ++i)
                oldest = std::max(oldest, world.now - Duration(std::stoll(receiver().messages[i].second)));
            if (is_from_client) speak();
        }
        return oldest;
    }

    ConnectedWorld world{LinkConfig{.latency = 20ms}};
    ConnectionOptions options;
    bool is_from_client;
    Duration tick;
    std::size_t size;
    Weight weight;
    std::uint64_t sent = 0;
};

// Goal: voice that exceeds the rate arrives late by at most max_message_age, its oldest parts are dropped and
// counted, and it is as new as ever when the rate suffices again. An arrival is seen up to two ticks late.
TEST(Messages, UnreliableMessagesAreNeverTooOld) {
    for (const Duration tick : {5ms, 16ms, 50ms, 200ms})
        for (const std::size_t size : {20u, 200u, 1000u})
            for (const Weight weight : {Weight::bulk, Weight::normal, Weight::urgent})
                for (const bool is_up : {false, true}) {
                    SCOPED_TRACE(testing::Message() << tick.count() << " us, " << size << " bytes, weight "
                                                    << int(weight) << ", from the client: " << is_up);
                    Voice voice(is_up, tick, size, weight);
                    const Duration oldest = voice.talk(25'000, 20s);
                    EXPECT_LE(oldest, voice.options.max_message_age + 20ms + 3 * tick);
                    EXPECT_GE(oldest, std::min<Duration>(100ms, 2 * tick)) << "the queue is used";
                    EXPECT_GT(voice.receiver().messages.size() * size, 20u * 5'000u) << "the rate is used";
                    voice.options.max_bytes_per_second = 1'000'000;
                    voice.sender().set_options(voice.peer(), voice.options);
                    voice.talk(25'000, 10s);  // the rate grows
                    EXPECT_LE(voice.talk(25'000, 3s), 20ms + 3 * tick) << "nothing old is left";
                    voice.talk(0, 1s);
                    const ConnectionStats& stats = voice.sender().stats(voice.peer());
                    EXPECT_EQ(voice.receiver().messages.size() + stats.messages_dropped, voice.sent);
                    EXPECT_GT(stats.messages_dropped, 0u);
                }
}

// A slow loop is no reason to drop: a message that no earlier flush could have sent is sent.
TEST(Messages, EachUnreliableMessageMayLeaveInOneFlush) {
    ConnectionConfig config;
    config.max_message_age = 0ms;
    ConnectedWorld world({}, 1, config);
    for (int i = 0; i < 20; ++i) {
        const Delivery how = i % 2 ? Channel::unreliable : latest_of(std::uint8_t(i));
        ASSERT_EQ(world.host->send_message(world.peer(), how, as_bytes("m")), SendResult::queued);
        world.step(200ms);
    }
    world.step(200ms);
    EXPECT_EQ(world.player().recorder.messages.size(), 20u);
}

TEST(Messages, AFullQueueDropsItsOldestUnreliableMessages) {
    ConnectedWorld world;
    ConnectionOptions options;
    options.message_queue_bytes = 1'800;  // two messages of 500 bytes, or of 500 and 900
    world.host->set_options(world.peer(), options);
    const auto send = [&](const Delivery& how, char letter, std::size_t size) {
        return world.host->send_message(world.peer(), how, as_bytes(std::string(size, letter)));
    };
    for (char letter = 'a'; letter <= 'e'; ++letter) {
        const SendResult with_drop = letter < 'c' ? SendResult::queued : SendResult::replaced_oldest;
        EXPECT_EQ(send(Channel::unreliable, letter, 500), with_drop);
        EXPECT_EQ(send(latest_of(std::uint8_t(letter)), letter, 500), with_drop);
        EXPECT_EQ(send(unordered(), letter, 500), letter < 'c' ? SendResult::queued : SendResult::queue_full);
    }
    EXPECT_EQ(send(latest_of('e'), 'f', 900), SendResult::queued) << "in place of its predecessor";
    EXPECT_EQ(send(latest_of('e'), 'g', 1000), SendResult::replaced_oldest) << "larger than its predecessor";
    EXPECT_EQ(world.host->stats(world.peer()).messages_dropped, 7u);
    world.run(1s);
    const auto letters = [&](Channel channel) {
        std::string result;
        for (const std::string& text : world.player().recorder.texts(channel)) result += text[0];
        return result;
    };
    EXPECT_EQ(letters(Channel::unreliable), "de");
    EXPECT_EQ(letters(Channel::sequenced), "g");
    EXPECT_EQ(letters(Channel::reliable), "ab");
}

/// Returns the heap that the function leaves behind.
template <class Fn>
std::size_t heap_of(Fn&& fn) {
    const std::size_t before = test::held_bytes();
    fn();
    return test::held_bytes() - before;
}

// Goal: however small the messages, the limit of a queue is the heap that they take, but for the spare room
// of growing vectors; and a join burst of 1,000 small messages fits.
TEST(Messages, TheLimitOfAQueueBoundsItsHeap) {
    constexpr std::uint32_t kLimit = ConnectionOptions().message_queue_bytes;
    for (const std::size_t size : {0u, 1u, 60u, 61u, 100u, 999u, 1000u, 256'000u}) {
        SCOPED_TRACE(size);
        const std::string message(size, 'm');
        SendQueue queue(1, kLimit);
        std::size_t count = 0;
        const std::size_t heap = heap_of([&] {
            while (queue.push(unordered(), as_bytes(message))) count += 1;
        });
        EXPECT_LE(heap, kLimit * 5 / 4 + 4'096);
        EXPECT_GE(count * size, size == 100 ? 100'000u : 0u);
    }
}

/// Messages with rising ids that wait for the first one.
std::size_t heap_of_waiting(std::size_t size, bool is_in_pieces) {
    const std::vector<std::byte> bytes(kMaxDatagramBytes);
    Inbox inbox(1);
    Packet packet;
    packet.datagram = bytes;
    packet.message_count = 1;
    return heap_of([&] {
        for (std::uint64_t id = 2; id < kReliableWindow; ++id) {
            packet.number = id;
            Frame& frame = packet.frames[0] = Frame{};
            frame.channel = Channel::reliable;
            frame.id = id;
            frame.distance = 1;
            frame.size = static_cast<std::uint16_t>(size);
            frame.goes_on = is_in_pieces;
            if (!inbox.plausible(packet)) break;
            static_cast<void>(inbox.arrive(packet, frame));
        }
        EXPECT_GE(inbox.waiting_bytes(), std::min<std::size_t>(1'300'000, (kReliableWindow - 2) * size));
    });
}

TEST(Messages, WhatAPeerCanMakeAnInboxHoldIsBounded) {
    std::size_t most = 0;
    for (const std::size_t size : {0u, 1u, 61u, 121u, 181u, 241u, 301u, 321u, 361u, 500u, 1000u})
        for (const bool is_in_pieces : {false, true})
            most = std::max(most, heap_of_waiting(size, is_in_pieces));
    EXPECT_LE(heap_of_waiting(1, false), 450'000u);
    EXPECT_LE(most, 2'250'000u);
    EXPECT_GE(most, 1'400'000u);
}

TEST(Messages, AnIdleConnectionTakesLittleMemory) {
    const std::size_t before = test::allocations();
    const SendQueue queue(1, 65'536);
    const Inbox inbox(1);
    EXPECT_EQ(test::allocations() - before, 0u);
    EXPECT_LE(sizeof(Connection) + 16 * (48 + sizeof(SentPackets::News)), 4224u);
}

}  // namespace
}  // namespace shoal::net::impl
