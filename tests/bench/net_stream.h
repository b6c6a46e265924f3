#pragma once
// The paced workloads, with 60 ticks per second over a Path: wire, lat, xfer.

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/bench/net_path.h"

namespace net_bench {

constexpr std::uint64_t kTicksPerSecond = 60;
constexpr std::uint64_t kTransferBytes = 1 << 20;
constexpr std::uint64_t kLatencyTicks = 1200;

/// How a paced run is driven.
struct Pace {
    bool is_simulated = true;
    bool only_ticks = false;       // both sides are updated once per tick, not every millisecond
    Impairment impairment;         // simulated in this process
    std::uint16_t port = 0;        // the server's; 0: any
    std::uint16_t proxy_port = 0;  // 0: no proxy
    Setup setup;
};

/// A connected client and server, and the path between them. `inbox` belongs to the server.
class Stream {
public:
    Stream(const Pace& pace, Inbox& inbox)
        : pace_(pace),
          path_(make_path(pace)),
          inbox_(inbox),
          host_(make_host(pace.setup, inbox, path_->from_server())),
          client_(make_client(pace.setup, replies_, path_->from_client())) {
        begin();
        client_.connect(path_->server(), {}, path_->now());
        run([&](std::uint64_t) {
            if (seconds(path_->now() - start_) > 10) fail("the client could not connect");
            return !(inbox_.is_connected && replies_.is_connected);
        });
    }

    /// Updates both sides. Calls `tick(n)` for n = 0, 1, 2 ... 60 times per second, between receiving and
    /// sending, until it returns false. Every update also calls `polled()`, which ends the run if it returns
    /// false.
    template <class Tick, class Polled>
    void run(Tick&& tick, Polled&& polled) {
        begin();
        for (std::uint64_t ticks = 0;;) {
            const Time next_tick = start_ + Duration(ticks * 1'000'000 / kTicksPerSecond);
            const Time next_poll = pace_.only_ticks ? next_tick : std::min(next_tick, poll_);
            path_->wait_until(next_poll);
            const Time now = path_->now();
            while (poll_ <= now) poll_ += std::chrono::milliseconds(1);
            path_->carry(host_, client_);
            host_.update(now);
            client_.update(now);
            if (!polled()) return;
            if (now >= next_tick && !tick(ticks++)) return;
            host_.flush(now);
            client_.flush(now);
        }
    }
    template <class Tick>
    void run(Tick&& tick) {
        run(tick, [] { return true; });
    }

    bool send(Kind kind, std::span<const std::byte> message) {
        return net_bench::send(client_, client_.server(), kind, message);
    }
    Time now() const { return path_->now(); }
    /// Time since begin().
    Duration elapsed() const { return path_->now() - start_; }
    Sent forward() const { return sent(client_, client_.server()); }
    Sent reverse() const { return sent(host_, inbox_.peer); }

private:
    static std::unique_ptr<Path> make_path(const Pace& pace) {
        if (pace.is_simulated) return std::make_unique<SimulatedPath>(pace.impairment);
        return std::make_unique<SocketPath>(pace.impairment, pace.port, pace.proxy_port);
    }
    void begin() { start_ = poll_ = path_->now(); }

    Pace pace_;
    std::unique_ptr<Path> path_;
    Inbox& inbox_;
    Inbox replies_;
    net::Host host_;
    net::Client client_;
    Time start_{0};
    Time poll_{0};  // time of the next update
};

/// Per message.
struct WireCost {
    double bytes = 0;  // client to server
    double reverse_bytes = 0;
    double reverse_datagrams = 0;
};

/// `load.batch` messages per tick, from second 5 to second 15 of a connection.
inline WireCost wire(const Pace& pace, const Load& load) {
    constexpr std::uint64_t kFrom = 5 * kTicksPerSecond, kTo = 15 * kTicksPerSecond;
    Inbox inbox;
    Stream stream(pace, inbox);
    const std::vector<std::byte> message(load.size);
    Sent forward, reverse;
    stream.run([&](std::uint64_t tick) {
        if (tick == kFrom) {
            forward = stream.forward();
            reverse = stream.reverse();
        }
        if (tick == kTo) return false;
        for (std::size_t i = 0; i < load.batch; ++i)
            if (!stream.send(load.kind, message)) fail("wire: the queue is full");
        return true;
    });
    forward = stream.forward() - forward;
    reverse = stream.reverse() - reverse;
    const double messages = static_cast<double>((kTo - kFrom) * load.batch);
    return {static_cast<double>(forward.wire_bytes) / messages,
            static_cast<double>(reverse.wire_bytes) / messages,
            static_cast<double>(reverse.datagrams) / messages};
}

/// Messages that begin with the time of sending.
struct TimedInbox : Inbox {
    const Stream* stream = nullptr;
    std::vector<double> latencies_ms;

    void on_message(net::PeerId id, net::Channel channel, std::span<const std::byte> message) override {
        Inbox::on_message(id, channel, message);
        std::int64_t sent_us = 0;
        std::memcpy(&sent_us, message.data(), sizeof sent_us);
        latencies_ms.push_back(static_cast<double>(stream->now().count() - sent_us) / 1000);
    }
};

struct Latency {
    double p50 = 0, p95 = 0, p99 = 0, max = 0;  // ms
    double arrived = 0;                         // share of the messages
    double wire_bytes = 0;                      // client to server, per message
};

/// `load.batch` messages of at least 8 bytes in each of 1,200 ticks.
inline Latency latency(const Pace& pace, const Load& load) {
    TimedInbox inbox;
    inbox.latencies_ms.reserve(kLatencyTicks * load.batch);
    Stream stream(pace, inbox);
    inbox.stream = &stream;
    const Sent before = stream.forward();
    std::vector<std::byte> message(load.size);
    const std::uint64_t expected = kLatencyTicks * load.batch;
    stream.run(
        [&](std::uint64_t tick) {
            for (std::size_t i = 0; tick < kLatencyTicks && i < load.batch; ++i) {
                const std::int64_t now_us = stream.now().count();
                std::memcpy(message.data(), &now_us, sizeof now_us);
                if (!stream.send(load.kind, message)) fail("lat: the queue is full");
            }
            // Messages that have not arrived ten seconds after the last one are lost.
            return tick < kLatencyTicks + 10 * kTicksPerSecond;
        },
        [&] { return inbox.messages < expected; });
    if (load.kind == Kind::reliable && inbox.messages != expected) fail("lat: reliable messages were lost");

    std::vector<double>& values = inbox.latencies_ms;
    if (values.empty()) fail("lat: nothing arrived");
    std::sort(values.begin(), values.end());
    const auto percentile = [&](std::size_t percent) {
        return values[std::min(values.size() - 1, values.size() * percent / 100)];
    };
    const double count = static_cast<double>(expected);
    return {percentile(50),
            percentile(95),
            percentile(99),
            values.back(),
            static_cast<double>(inbox.messages) / count,
            static_cast<double>((stream.forward() - before).wire_bytes) / count};
}

struct Transfer {
    double seconds = 0;
    double wire_bytes = 0;  // client to server
};

/// Sends 1 MiB in messages of up to `load.size` bytes, whenever the queue has room.
inline Transfer transfer(const Pace& pace, const Load& load) {
    Inbox inbox;
    Stream stream(pace, inbox);
    const Sent before = stream.forward();
    const std::vector<std::byte> message(load.size);
    std::uint64_t offered = 0;
    const auto feed = [&] {
        while (offered < kTransferBytes) {
            const std::size_t size = std::min<std::size_t>(message.size(), kTransferBytes - offered);
            if (!stream.send(load.kind, std::span(message).first(size))) break;
            offered += size;
        }
        if (seconds(stream.elapsed()) > 120) fail("xfer: not done after two minutes");
        return inbox.bytes < kTransferBytes;
    };
    stream.run([&](std::uint64_t) { return true; }, feed);
    return {seconds(stream.elapsed()), static_cast<double>((stream.forward() - before).wire_bytes)};
}

}  // namespace net_bench
