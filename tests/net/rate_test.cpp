#include "net/rate/rate_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

constexpr double kBulk = 1e9;  // more than any path here carries

double seconds(Duration duration) {
    return std::chrono::duration<double>(duration).count();
}

/// A path with a bottleneck towards the client, whose queue has room for `queue`.
LinkConfig bottleneck(std::uint64_t rate, Duration one_way = 25ms, Duration queue = 300ms) {
    LinkConfig link;
    link.latency = one_way;
    link.bytes_per_second = rate;
    link.queue_bytes = static_cast<std::size_t>(static_cast<double>(rate) * seconds(queue));
    return link;
}

/// A server that sends state to clients over one path, as much as each flow wants and its rate allows.
struct Flows {
    explicit Flows(const LinkConfig& path, Duration step = 5ms, std::size_t count = 1)
        : world(path), tick(step) {
        LinkConfig back = path;
        back.bytes_per_second = 0;
        world.up.set_config(back);
        HostConfig config = host_config();
        config.connection.max_open_packets = 2048;
        config.connection.timeout = 60s;
        world.add_host(config);
        world.server_tick = [this] { send(); };
        world.server.source = [this](PeerId peer, PayloadTurn& turn) {
            double& left = owed[std::size_t(std::find(peers.begin(), peers.end(), peer) - peers.begin())];
            const std::size_t size = fill(turn, static_cast<std::size_t>(left));
            left -= static_cast<double>(size);
            return size;
        };
        for (std::size_t i = 0; i < count; ++i) join();
    }
    /// Adds a client that wants no state yet.
    void join() {
        ClientConfig config = client_config(70 + peers.size());
        config.connection.timeout = 60s;
        auto& player = world.add_client(config, static_cast<std::uint16_t>(5000 + peers.size()));
        player.client.connect(world.server_address, {}, world.now);
        const std::size_t known = world.server.connects.size();
        wanted.push_back(0);
        owed.push_back(0);
        while (world.server.connects.size() == known) world.step(tick);
        peers.push_back(world.server.newest);
    }
    void send() {
        for (std::size_t flow = 0; flow < peers.size(); ++flow) {
            owed[flow] = std::min(owed[flow] + wanted[flow] * seconds(tick), wanted[flow]);
            const double rate = stats(flow).rate;
            lowest_rate = std::min(lowest_rate, rate);
            highest_rate = std::max(highest_rate, rate);
        }
        queues.push_back(world.down.queue_delay(world.now));
        world.server.fates.clear();
        for (const auto& player : world.players) player->recorder.payloads.clear();
    }
    const ConnectionStats& stats(std::size_t flow = 0) const { return world.host->stats(peers[flow]); }
    /// Runs, and returns the bytes per second delivered to each flow.
    std::vector<double> run_all(Duration duration) {
        std::vector<double> result;
        for (std::size_t i = 0; i < peers.size(); ++i)
            result.push_back(static_cast<double>(stats(i).bytes_delivered));
        queues.clear();
        lowest_rate = kBulk;
        highest_rate = 0;
        world.run(duration, tick);
        for (std::size_t i = 0; i < peers.size(); ++i)
            result[i] = (static_cast<double>(stats(i).bytes_delivered) - result[i]) / seconds(duration);
        return result;
    }
    double run(Duration duration) { return run_all(duration)[0]; }
    /// Returns the waiting time in the bottleneck that `part` of the last run did not exceed.
    Duration queue(double part) {
        std::sort(queues.begin(), queues.end());
        return queues[static_cast<std::size_t>(part * static_cast<double>(queues.size() - 1))];
    }

    World world;
    Duration tick;
    std::vector<PeerId> peers;
    std::vector<double> wanted;  // bytes per second, by flow
    std::vector<double> owed;
    std::vector<Duration> queues;  // this and the next two: of the last run
    double lowest_rate = 0, highest_rate = 0;
};

TEST(Rate, FillsTheBottleneckAndKeepsItsQueueShort) {
    for (const std::uint64_t rate : {100'000u, 500'000u, 2'000'000u}) {
        for (const Duration one_way : {2ms, 25ms}) {
            for (const Duration tick : {1'000us, 16'667us}) {
                Flows flows(bottleneck(rate, one_way), tick);
                flows.wanted[0] = kBulk;
                flows.run(5s);
                const double part = flows.run(20s) / static_cast<double>(rate);
                const Duration packet(1'000'000 * kMaxDatagramBytes / rate);
                SCOPED_TRACE(testing::Message() << rate << " bytes/s, " << one_way.count() << " us, ticks of "
                                                << tick.count() << " us: " << part << " of it");
                EXPECT_GE(part, 0.85);
                EXPECT_LE(flows.queue(0.5), 60ms + packet);
                EXPECT_LE(flows.queue(0.99), 150ms + packet);
                for (int second = 0; second < 10; ++second)
                    EXPECT_GE(flows.run(1s), 0.5 * static_cast<double>(rate)) << "the rate must not swing";
                EXPECT_LE(flows.stats().loss, 0.01);
                EXPECT_EQ(flows.stats().rate_limit, RateLimit::network);
            }
        }
    }
}

// A client that runs four times per second or less acknowledges rarely, and reads its socket rarely. The
// queue of the bottleneck may have any length.
TEST(Rate, AClientThatRunsRarelyDoesNotLetTheQueueGrow) {
    for (const Duration interval : {100ms, 250ms, 500ms}) {
        for (const std::uint64_t rate : {20'000u, 200'000u}) {
            for (const Duration one_way : {5ms, 25ms, 75ms}) {
                SCOPED_TRACE(testing::Message() << "each " << interval.count() << " us, " << rate
                                                << " bytes/s, " << one_way.count() << " us");
                Flows flows(bottleneck(rate, one_way, 1000s), 16'667us);
                flows.world.client_tick = interval;
                flows.wanted[0] = kBulk;
                flows.run(10s);
                EXPECT_LE(flows.queue(1), 5s) << "the queue of the start";
                flows.run(20s);
                const double got = flows.run(30s);
                EXPECT_LE(flows.queue(0.5), 2 * (2 * one_way + interval));
                EXPECT_LE(flows.queue(1), 1500ms);
                EXPECT_GE(got, 0.85 * static_cast<double>(rate));
            }
        }
    }
}

TEST(Rate, AClientThatRunsRarelyGetsWhatAFreePathCarries) {
    for (const Duration interval : {100ms, 250ms, 500ms}) {
        for (const Duration one_way : {5ms, 25ms, 75ms}) {
            SCOPED_TRACE(testing::Message()
                         << "each " << interval.count() << " us, " << one_way.count() << " us");
            LinkConfig link;
            link.latency = one_way;
            Flows flows(link, 16'667us);
            flows.world.client_tick = interval;
            flows.wanted[0] = 200'000;
            flows.run(4s);
            EXPECT_GE(flows.run(30s), 0.98 * 200'000);
        }
    }
}

// The queue is too short to be seen as delay. Loss shows the capacity; a lower rate reduces most of it.
TEST(Rate, ShallowQueueIsFoundByLoss) {
    for (const std::uint64_t rate : {200'000u, 2'000'000u}) {
        Flows flows(bottleneck(rate, 25ms, 12ms), 1ms);
        flows.wanted[0] = kBulk;
        flows.run(10s);
        const std::uint64_t lost = flows.stats().bytes_lost, delivered = flows.stats().bytes_delivered;
        const double part = flows.run(30s) / static_cast<double>(rate);
        const double loss = static_cast<double>(flows.stats().bytes_lost - lost) /
                            static_cast<double>(flows.stats().bytes_delivered - delivered);
        EXPECT_GE(part, 0.7) << rate;
        EXPECT_LE(loss, 0.15) << rate;
    }
}

// Random loss is not congestion: loss that a lower rate does not reduce does not lower the rate.
TEST(Rate, RandomLossDoesNotLowerTheRate) {
    for (const double loss : {0.05, 0.2}) {
        for (const std::uint64_t capacity : {1'000'000u, 0u}) {
            LinkConfig path = bottleneck(1'000'000);
            path.bytes_per_second = capacity;  // 0: no limit; the game sends a megabyte per second
            Flows clean(path), lossy(path);
            path.loss = loss;
            path.jitter = 10ms;
            lossy.world.down.set_config(path);
            clean.wanted[0] = lossy.wanted[0] = capacity > 0 ? kBulk : 1e6;
            clean.run(2s);
            lossy.run(2s);
            const double best = clean.run(20s), got = lossy.run(20s);
            EXPECT_GE(got, 0.7 * best)
                << loss << " lost, capacity " << capacity << ": " << got << " of " << best;
        }
    }
}

TEST(Rate, TwoFlowsShareABottleneck) {
    for (const std::uint64_t rate : {100'000u, 1'000'000u}) {
        for (const bool is_late : {false, true}) {
            for (const Duration tick : {1'000us, 16'667us}) {
                Flows flows(bottleneck(rate), tick, is_late ? 1 : 2);
                flows.wanted[0] = kBulk;
                if (is_late) {
                    flows.run(10s);
                    flows.join();
                }
                flows.wanted[1] = kBulk;
                const std::vector<double> got = flows.run_all(30s);
                const double share = got[0] / (got[0] + got[1]);
                SCOPED_TRACE(testing::Message() << rate << " bytes/s, late " << is_late << ", ticks of "
                                                << tick.count() << " us: " << got[0] << " and " << got[1]);
                EXPECT_GE(share, 0.3);
                EXPECT_LE(share, 0.7);
                EXPECT_GE(got[0] + got[1], 0.85 * static_cast<double>(rate));
                flows.run(10s);  // until it is stable
                EXPECT_LE(flows.queue(0.5), 100ms);
            }
        }
    }
}

LinkConfig bad_path(double loss) {
    LinkConfig link;  // 50 +- 10 ms each way
    link.latency = 40ms;
    link.jitter = 20ms;
    link.loss = loss;
    return link;
}

// 1 MiB of state over a new connection with 5 % loss, where lost parts are sent again.
TEST(Rate, AMebibyteOfStateArrivesWithinASecond) {
    std::vector<Duration> took;
    for (std::uint64_t seed = 1; seed <= 9; ++seed) {
        World world(bad_path(0.05), seed);
        HostConfig config = host_config(seed);
        config.connection.max_open_packets = 2048;
        world.add_host(config);
        auto& player = world.add_client(client_config(seed));
        player.client.connect(world.server_address, {}, world.now);
        while (world.server.connects.empty()) world.step(1ms);
        std::vector<std::uint64_t> waiting(1024);  // one KiB each
        for (std::size_t i = 0; i < waiting.size(); ++i) waiting[i] = i;
        std::map<std::uint64_t, std::uint64_t> chunks;  // by packet number
        world.server_tick = [&] {
            for (const PacketFate& fate : world.server.fates)
                if (!fate.delivered) waiting.push_back(chunks.at(fate.number));
            world.server.fates.clear();
        };
        world.server.source = [&](PeerId, PayloadTurn& turn) -> std::size_t {
            if (waiting.empty()) return 0;
            chunks[turn.packet_number] = waiting.back();
            std::memcpy(turn.room.data(), &waiting.back(), sizeof waiting.back());
            waiting.pop_back();
            return 1024;
        };
        std::set<std::string> arrived;
        const Time start = world.now;
        while (arrived.size() < 1024 && world.now < start + 10s) {
            world.step(1ms);
            for (const auto& [number, chunk] : player.recorder.payloads) arrived.insert(chunk.substr(0, 8));
            player.recorder.payloads.clear();
        }
        took.push_back(world.now - start);
    }
    std::sort(took.begin(), took.end());
    EXPECT_LE(took[4], 1000ms) << "us, median";
    EXPECT_LE(took[8], 1500ms) << "us, slowest: a packet was lost several times";
}

// 1 MiB of reliable messages. With loss the window of messages limits the rate: it waits for each lost
// message.
TEST(Rate, AMebibyteOfMessagesArrivesInAboutASecond) {
    for (const double loss : {0.0, 0.05}) {
        World world(bad_path(loss));
        HostConfig config = host_config();
        config.connection.message_queue_bytes = 2 << 20;
        world.add_host(config);
        auto& player = world.add_client(client_config());
        player.client.connect(world.server_address, {}, world.now);
        while (world.server.connects.empty()) world.step(1ms);
        const std::string message(kMaxMessageBytes, 'x');
        const std::size_t count = (1 << 20) / kMaxMessageBytes + 1;
        for (std::size_t i = 0; i < count; ++i) {
            ASSERT_EQ(world.host->send_message(world.server.newest, Channel::reliable, as_bytes(message)),
                      SendResult::queued);
        }
        const Time start = world.now;
        while (player.recorder.messages.size() < count && world.now < start + 10s) world.step(1ms);
        EXPECT_LE(world.now - start, loss > 0 ? 1200ms : 1000ms) << "us, with loss " << loss;
    }
}

TEST(Rate, IdleGameDoesNotRaiseItsRateAndBulkAfterItIsFast) {
    Flows flows(bottleneck(500'000), 16'667us);
    flows.wanted[0] = 20'000;
    flows.run(60s);
    const auto first_rate = static_cast<double>(ConnectionConfig{}.first_bytes_per_second);
    EXPECT_EQ(flows.highest_rate, first_rate);
    EXPECT_EQ(flows.lowest_rate, first_rate);
    EXPECT_EQ(flows.stats().rate_limit, RateLimit::application);
    flows.wanted[0] = 0;
    flows.run(30s);
    flows.wanted[0] = kBulk;
    flows.run(2s);
    const double got = flows.run(5s);
    EXPECT_GE(got, 0.85 * 500'000) << got;
    flows.wanted[0] = 0;
    flows.run(30s);
    EXPECT_GE(flows.stats().rate, 0.4 * 500'000) << "an idle connection keeps its rate";
    flows.wanted[0] = kBulk;
    const double again = flows.run(5s);
    EXPECT_GE(again, 0.85 * 500'000) << again;
}

TEST(Rate, AFullWindowOfOpenPacketsIsShownAsRateLimit) {
    LinkConfig link;
    link.latency = 300ms;
    ConnectionConfig config;
    config.max_open_packets = 32;
    ConnectedWorld world(link, 1, config);
    world.server.source = [](PeerId, PayloadTurn& turn) { return fill(turn); };
    world.run(5s, 16ms);
    bool is_named = false;
    for (int i = 0; i < 50; ++i) {
        world.step(16ms);
        is_named |= world.host->stats(world.peer()).rate_limit == RateLimit::packets;
    }
    EXPECT_TRUE(is_named);
}

// Without acks only pings are sent, soon one per second. The first ack restores half of the rate, and soon
// all of it.
TEST(Rate, APartitionOpensTheBreakerAndTheRateReturnsAfterIt) {
    for (const bool only_acks : {false, true}) {
        Flows flows(bottleneck(500'000));
        flows.wanted[0] = kBulk;
        flows.run(10s);
        const double rate = flows.stats().rate;
        const LinkConfig down = flows.world.down.config(), up = flows.world.up.config();
        LinkConfig cut = down;
        cut.loss = 1;
        (only_acks ? flows.world.up : flows.world.down).set_config(cut);
        flows.run(2s);
        EXPECT_EQ(flows.stats().rate_limit, RateLimit::breaker);
        EXPECT_EQ(flows.world.send(flows.peers[0], "state"), 0u);
        const std::uint64_t before = flows.stats().packets_sent;
        EXPECT_EQ(flows.run(10s), 0);
        const std::uint64_t probes = flows.stats().packets_sent - before;
        EXPECT_GE(probes, 9u);
        EXPECT_LE(probes, 11u + (only_acks ? 0u : 11u)) << "pings, and acks of the client's keep-alives";
        EXPECT_GE(flows.stats().rate, rate / 2);
        flows.world.down.set_config(down);
        flows.world.up.set_config(up);
        const Time healed = flows.world.now;
        while (flows.stats().rate_limit == RateLimit::breaker && flows.world.now < healed + 2s) {
            flows.world.step(flows.tick);
        }
        EXPECT_LE(flows.world.now - healed, 1'100ms);
        EXPECT_GE(flows.stats().rate, 0.49 * rate) << "half of the former rate";
        flows.run(1s);
        const double got = flows.run(5s);
        EXPECT_GE(got, 0.85 * 500'000) << got;
    }
}

// A trial cannot lower the rate of a game that sends less than the lowest rate. So a loss that ends during a
// trial must not end the start, which makes the rate grow fast when the game sends more.
TEST(Rate, ALargePayloadArrivesSoonAfterSilencesWithLoss) {
    LinkConfig path;
    path.latency = 25ms;
    for (int i = 0; i < 12; ++i) {
        Flows flows(path, 16'667us);
        flows.wanted[0] = 1'000;
        flows.run(5s + i * 100ms);
        for (int silence = 0; silence < 8; ++silence) {
            LinkConfig bad = path;
            for (const double loss : {1.0, 0.2, 0.0}) {
                bad.loss = loss;
                flows.world.down.set_config(bad);
                flows.run(loss == 0.2 ? 3s + i * 100ms : 2500ms);
            }
        }
        flows.wanted[0] = 100'000;
        const std::uint64_t before = flows.stats().bytes_delivered;
        const Time began = flows.world.now;
        while (flows.stats().bytes_delivered < before + 20'000 && flows.world.now < began + 20s)
            flows.world.step(flows.tick);
        EXPECT_LE(flows.world.now - began, 1500ms) << "run " << i << "; at 4 kB/s it would take 5 s";
    }
}

// If the IP address changes, the path is another one and is measured anew. If only the port changes, it is
// the same path.
TEST(Rate, AnotherNetworkIsMeasuredAnew) {
    Flows flows(bottleneck(1'000'000, 10ms));
    flows.wanted[0] = kBulk;
    flows.run(5s);
    EXPECT_GE(flows.stats().rate, 800'000);
    World::Player& player = *flows.world.players[0];
    flows.world.server_tick = [&] {
        flows.send();
        player.send("what a player presses", flows.world.now);
    };
    player.move(Address::ipv4(10, 0, 0, 1, 6000));
    flows.run(1s);
    EXPECT_EQ(flows.world.host->endpoint_stats().moves, 1u);
    EXPECT_GE(flows.lowest_rate, 700'000) << "only the port changed";

    const auto change = [&](const LinkConfig& down, const Address& to) {
        flows.world.down.set_config(down);
        LinkConfig up = down;
        up.bytes_per_second = 0;
        flows.world.up.set_config(up);
        player.move(to);
        flows.run(200ms + 4 * down.latency);  // until the new address is proven
    };
    change(bottleneck(100'000, 100ms), Address::ipv4(10, 0, 9, 9, 6000));
    EXPECT_LE(flows.lowest_rate, 1.5 * static_cast<double>(ConnectionConfig{}.first_bytes_per_second));
    flows.run(1s);
    EXPECT_GE(flows.stats().min_rtt, 200ms);
    EXPECT_LE(flows.stats().queue_delay, 100ms);
    flows.run(4s);  // the start can fill the queue
    const double slow = flows.run(5s);
    EXPECT_LE(flows.queue(0.5), 100ms);
    EXPECT_GE(slow, 0.85 * 100'000) << slow;

    change(bottleneck(1'000'000, 10ms), Address::ipv4(10, 0, 0, 1, 7000));
    flows.run(2s);
    EXPECT_LE(flows.stats().min_rtt, 40ms);
    const double fast = flows.run(5s);
    EXPECT_GE(fast, 0.85 * 1'000'000) << fast;
    EXPECT_EQ(flows.world.host->endpoint_stats().moves, 3u);
}

// A route that is 100 ms longer looks like a queue of 100 ms, but does not become shorter when less is sent.
TEST(Rate, ALongerRouteIsNotTakenForAQueueForLong) {
    for (const Duration tick : {5ms, 16ms}) {
        for (const double rate : {100'000.0, 500'000.0}) {
            Flows flows(bottleneck(static_cast<std::uint64_t>(rate), 1ms), tick);
            flows.wanted[0] = kBulk;
            flows.run(10s);
            LinkConfig down = flows.world.down.config(), up = flows.world.up.config();
            down.latency = up.latency = 51ms;
            flows.world.down.set_config(down);
            flows.world.up.set_config(up);
            flows.run(3s);
            EXPECT_GE(flows.lowest_rate, rate / 20) << rate;
            const double got = flows.run(5s);
            EXPECT_GE(got, 0.85 * rate) << got;
            EXPECT_LE(flows.queue(0.5), 150ms);
        }
    }
}

// The same delay caused by a queue: the path has become slower, and the queue must drain first.
TEST(Rate, ASlowerPathIsTakenForAQueue) {
    for (const double rate : {100'000.0, 250'000.0}) {
        Flows flows(bottleneck(500'000));
        flows.wanted[0] = kBulk;
        flows.run(10s);
        const auto slower = bottleneck(static_cast<std::uint64_t>(rate));
        flows.world.down.set_config(slower);
        flows.run(5s);
        const double got = flows.run(5s);
        EXPECT_GE(got, 0.85 * rate) << got;
        EXPECT_LE(flows.queue(0.5), 60ms) << rate;
    }
}

// A process that was stopped has saved at most 50 ms of its rate, and recovers.
TEST(Rate, AClockJumpCausesNoBurst) {
    Flows flows(bottleneck(500'000));
    flows.wanted[0] = kBulk;
    flows.run(10s);
    for (const Duration jump : {1s, 30s}) {
        const std::uint64_t before = flows.stats().bytes_sent;
        const double rate = flows.stats().rate;
        flows.world.step(jump);
        EXPECT_LE(static_cast<double>(flows.stats().bytes_sent - before),
                  rate * 0.05 + 2 * kMaxDatagramBytes);
        flows.run(2s);
        const double got = flows.run(5s);
        EXPECT_GE(got, 0.85 * 500'000) << got << " after " << seconds(jump) << " s";
    }
}

// However bad the path is, the rate is at least 4 kB/s, and rises again when the path recovers.
TEST(Rate, TheRateNeverFallsBelowItsMinimum) {
    LinkConfig path = bottleneck(500'000);
    Flows flows(path);
    flows.wanted[0] = kBulk;
    flows.run(5s);
    for (const bool is_narrow : {true, false}) {
        LinkConfig terrible = bottleneck(is_narrow ? 5'000 : 500'000, 25ms, 1s);
        terrible.loss = is_narrow ? 0 : 0.9;
        flows.world.down.set_config(terrible);
        const double got = flows.run(60s);
        EXPECT_GE(got, is_narrow ? 2'500 : 300) << is_narrow;
        EXPECT_GE(flows.lowest_rate, RateController::kMinRate);
    }
    flows.world.down.set_config(path);
    flows.run(10s);
    const double back = flows.run(10s);
    EXPECT_GE(back, 0.7 * 500'000) << back;
}

// 67 bytes per tick are less than a packet: they add up.
TEST(Rate, SmallBudgetsAddUpToPackets) {
    ConnectionStats stats;
    Time now = 1s;
    RateController rate(4'000, 4'000, now, stats);
    std::size_t sent = 0;
    int packets = 0;
    for (int tick = 0; tick < 600; ++tick) {
        now += 16'667us;
        rate.update(now, 100ms, stats);
        while (rate.may_send()) {
            rate.on_sent(1'200, now, stats);
            sent += 1'200;
            packets += 1;
        }
    }
    EXPECT_NEAR(static_cast<double>(sent), 10 * 1'200 + 10 * 4'000, 1'300) << "a first burst, then 4 kB/s";
    EXPECT_EQ(stats.rate, 4'000);
    now += 3600s;
    rate.update(now, 100ms, stats);
    for (packets = 0; rate.may_send(); ++packets) rate.on_sent(1'200, now, stats);
    EXPECT_EQ(packets, 2) << "the limit of a burst";
}

TEST(Rate, AcksUseUpBudgetButNeverOverdrawIt) {
    ConnectionStats stats;
    RateController rate(4'000, 4'000, 0s, stats);
    for (int i = 0; i < 10'000; ++i) rate.on_sent_untracked(25);
    EXPECT_FALSE(rate.may_send());
    rate.update(1ms, 100ms, stats);
    EXPECT_TRUE(rate.may_send());
}

// State uses all of 4 kB/s. A few small urgent messages are sent at once, and state continues.
TEST(Rate, UrgentMessagesAndStateDoNotStarveEachOther) {
    World world;
    HostConfig config = host_config();
    config.connection.max_bytes_per_second = 4'000;
    world.add_host(config);
    auto& player = world.add_client(client_config());
    player.client.connect(world.server_address, {}, world.now);
    world.run(100ms);
    const PeerId peer = world.server.newest;
    Time sent{0};
    Duration longest{0};
    std::size_t asked = 0, payload_bytes = 0;
    world.server.source = [&](PeerId, PayloadTurn& turn) {
        payload_bytes += kMinPayloadBytes;
        return fill(turn, kMinPayloadBytes);
    };
    world.server_tick = [&] {
        if (player.recorder.messages.size() < asked) longest = std::max(longest, world.now - sent);
        if (player.recorder.messages.size() < asked || world.now - sent < 250ms) return;
        sent = world.now;
        asked += 1;
        ASSERT_EQ(world.host->send_message(peer, Channel::reliable, as_bytes("urgent")), SendResult::queued);
    };
    world.run(5s);  // the first burst is over
    asked = player.recorder.messages.size();
    const std::size_t before = asked;
    longest = Duration(0);
    payload_bytes = 0;
    world.run(20s);
    EXPECT_GE(asked - before, 75u) << "one every 250 ms, after the last one arrived";
    EXPECT_LE(longest, 50ms);
    EXPECT_GE(payload_bytes, 20u * 3'200u);
}

// Goal: messages that cannot be sent beside a payload (large ones, and those lost twice) and state do not
// stop each other. Method: a message every 100 ms while state uses the whole rate, with and without loss.
TEST(Rate, MessagesThatNeedAPacketOfTheirOwnTakeTurnsWithState) {
    for (const auto& [loss, size] : {std::pair(0.0, kMaxMessageBytes), std::pair(0.05, std::size_t(300))}) {
        SCOPED_TRACE(size);
        LinkConfig link;
        link.latency = 25ms;
        link.loss = loss;
        World world(link, 5);
        HostConfig config = host_config();
        config.connection.max_bytes_per_second = 60'000;
        world.add_host(config);
        auto& player = world.add_client(client_config());
        player.client.connect(world.server_address, {}, world.now);
        world.run(2s);
        const PeerId peer = world.server.newest;
        const std::string message(size, 'm');
        std::size_t asked = 0, payload_bytes = 0;
        Time next = world.now;
        world.server_tick = [&] {
            if (asked < 200 && world.now >= next) {
                ASSERT_EQ(world.host->send_message(peer, Channel::reliable, as_bytes(message)),
                          SendResult::queued);
                asked += 1;
                next += 100ms;
            }
        };
        world.server.source = [&](PeerId, PayloadTurn& turn) {
            payload_bytes += turn.share;
            return fill(turn);
        };
        world.run(20s, 16ms);
        EXPECT_GE(player.recorder.messages.size(), 190u);
        world.run(4s, 16ms);
        EXPECT_EQ(player.recorder.messages.size(), 200u);
        EXPECT_GE(payload_bytes, 24u * 60'000u / 2);
    }
}

}  // namespace
}  // namespace shoal::net::impl
