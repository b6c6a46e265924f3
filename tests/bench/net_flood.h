#pragma once
// The workloads that measure CPU time per message: lock and two, each also over plain sockets.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "tests/bench/net_ends.h"

namespace net_bench {

/// CPU time of a run; lock sets only cpu_us.
struct Cost {
    double cpu_us = 0;            // per message
    double tx_us = 0, rx_us = 0;  // per message sent, per message received
    double per_second = 0;        // messages received, by the real clock
    double arrived = 1;           // share of the messages
    double datagrams = 1;         // in both directions, per message
    double wire_bytes = 0;        // client to server, per message
};

/// Sends and receives with one system call each, on 127.0.0.1.
class BareSocket {
public:
    BareSocket() : handle_(::socket(AF_INET, SOCK_DGRAM, 0)) {
        address_.sin_family = AF_INET;
        address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address_;
        const int buffer = 1 << 20;
        setsockopt(handle_, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
        setsockopt(handle_, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
        if (handle_ < 0 || bind(handle_, plain(address_), sizeof address_) != 0 ||
            getsockname(handle_, plain(address_), &length) != 0)
            fail("no socket on 127.0.0.1");
    }
    BareSocket(const BareSocket&) = delete;
    BareSocket& operator=(const BareSocket&) = delete;
    ~BareSocket() { close(handle_); }

    bool send(const BareSocket& to, std::span<const std::byte> bytes) {
        sockaddr_in address = to.address_;
        return sendto(handle_, bytes.data(), bytes.size(), MSG_DONTWAIT, plain(address), sizeof address) >= 0;
    }
    bool receive() {
        sockaddr_in from;
        socklen_t length = sizeof from;
        return recvfrom(handle_, buffer_.data(), buffer_.size(), MSG_DONTWAIT, plain(from), &length) >= 0;
    }
    int handle() const { return handle_; }

private:
    static sockaddr* plain(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }
    int handle_;
    sockaddr_in address_{};
    std::array<std::byte, 2048> buffer_;
};

/// Waits until a datagram can be read, at most a millisecond.
inline void wait_for(std::intptr_t handle) {
    pollfd waiting{static_cast<int>(handle), POLLIN, 0};
    poll(&waiting, 1, 1);
}

/// Runs `round`, which returns the number of messages delivered, for 0.3 * duration to warm up, then for
/// `duration`.
template <class Round>
Cost measure_rounds(Duration duration, Round&& round) {
    for (const Time end = wall_now() + duration * 3 / 10; wall_now() < end;) round();
    std::uint64_t messages = 0;
    const Time start = wall_now();
    const double cpu_before = cpu_us();
    while (wall_now() < start + duration) messages += round();
    const double count = static_cast<double>(std::max<std::uint64_t>(1, messages));
    Cost cost;
    cost.cpu_us = (cpu_us() - cpu_before) / count;
    cost.per_second = count / seconds(wall_now() - start);
    return cost;
}

/// Sends `per_round` datagrams, then receives them.
inline Cost lock_raw(std::size_t size, std::size_t per_round, Duration duration) {
    const Pin pin(1);
    BareSocket from, to;
    const std::vector<std::byte> datagram(size);
    return measure_rounds(duration, [&] {
        for (std::size_t i = 0; i < per_round; ++i)
            if (!from.send(to, datagram)) fail("sendto");
        std::uint64_t received = 0;
        for (int misses = 0; received < per_round && misses < 1000;) {
            const bool is_received = to.receive();
            received += is_received;
            misses += !is_received;
        }
        return received;
    });
}

/// Client to server in one thread. A round queues `per_round` messages, flushes after each load.batch of
/// them, updates the server until it has them all, and then delivers its acks.
inline Cost lock(const Setup& setup, const Load& load, std::size_t per_round, Duration duration) {
    const Pin pin(1);
    net::Socket server_socket = open_socket(), client_socket = open_socket();
    Inbox inbox, replies;
    net::Host host = make_host(setup, inbox, server_socket);
    net::Client client = make_client(setup, replies, client_socket);
    client.connect(address_of(server_socket), {}, wall_now());
    for (const Time end = wall_now() + std::chrono::seconds(5);
         !inbox.is_connected || !replies.is_connected;) {
        if (wall_now() > end) fail("the client could not connect");
        service(client_socket, client, wall_now());
        service(server_socket, host, wall_now());
    }

    const std::vector<std::byte> message(load.size);
    std::uint64_t offered = 0;
    const auto round = [&]() -> std::uint64_t {
        const std::uint64_t before = inbox.messages;
        Time now = wall_now();
        for (std::size_t queued = 0; queued < per_round;) {
            for (std::size_t i = 0; i < load.batch && queued < per_round; ++i, ++queued)
                if (!send(client, client.server(), load.kind, message)) fail("lock: the queue is full");
            client.flush(now);
        }
        offered += per_round;
        net::receive_all(server_socket, host, now);
        for (int misses = 0; inbox.messages < before + per_round;) {
            now = wall_now();
            if (service(server_socket, host, now) == 0) misses += 1;
            service(client_socket, client, now);
            if (load.kind == Kind::unreliable && misses == 1000) break;
        }
        host.update(now);
        host.flush(now);
        net::receive_all(client_socket, client, now);
        client.update(now);
        return inbox.messages - before;
    };

    round();
    const std::uint64_t messages_before = inbox.messages, offered_before = offered;
    const Sent up = sent(client, client.server()), down = sent(host, inbox.peer);
    Cost cost = measure_rounds(duration, round);
    const Sent forward = sent(client, client.server()) - up, reverse = sent(host, inbox.peer) - down;
    const double messages = static_cast<double>(inbox.messages - messages_before);
    cost.arrived = messages / static_cast<double>(offered - offered_before);
    cost.datagrams = static_cast<double>(forward.datagrams + reverse.datagrams) / messages;
    cost.wire_bytes = static_cast<double>(forward.wire_bytes) / messages;
    return cost;
}

/// Memory shared by the receiving and the sending process.
struct Progress {
    std::atomic<std::uint64_t> received = 0;
    std::atomic<bool> is_measuring = false, is_over = false, is_ready = false;
    double rx_cpu_us = 0;  // since is_measuring
    std::uint64_t rx_messages = 0;
};

/// Main function of the receiving process: `receive` reads all datagrams and returns the number of messages
/// so far.
template <class Receive>
void receive_until_over(Progress& progress, std::intptr_t handle, Receive&& receive) {
    double cpu_before = 0;
    std::uint64_t before = 0, messages = 0;
    bool is_measuring = false;
    while (!progress.is_over.load()) {
        const std::uint64_t now = receive();
        if (now == messages) wait_for(handle);
        messages = now;
        progress.received.store(messages);
        if (is_measuring || !progress.is_measuring.load()) continue;
        is_measuring = true;
        cpu_before = cpu_us();
        before = messages;
    }
    progress.rx_cpu_us = cpu_us() - cpu_before;
    progress.rx_messages = messages - before;
}

/// Main function of the sending process: `step` sends messages and returns their number so far.
template <class Step>
Cost send_until_over(Progress& progress, Child& receiver, Duration duration, Step&& step) {
    for (const Time end = wall_now() + duration * 3 / 10; wall_now() < end;) step();
    progress.is_measuring = true;
    const Time start = wall_now();
    const double cpu_before = cpu_us();
    const std::uint64_t before = step();
    std::uint64_t offered = before;
    while (wall_now() < start + duration) offered = step();
    const double tx_us = cpu_us() - cpu_before;
    const double took = seconds(wall_now() - start);
    progress.is_over = true;
    if (!receiver.wait()) std::exit(2);
    const double tx = static_cast<double>(std::max<std::uint64_t>(1, offered - before));
    const double rx = static_cast<double>(std::max<std::uint64_t>(1, progress.rx_messages));
    Cost cost;
    cost.tx_us = tx_us / tx;
    cost.rx_us = progress.rx_cpu_us / rx;
    cost.cpu_us = cost.tx_us + cost.rx_us;
    cost.per_second = rx / took;
    cost.arrived = std::min(1.0, rx / tx);
    return cost;
}

/// As fast as sendto accepts datagrams, from CPU 0 to CPU 1.
inline Cost two_raw(std::size_t size, Duration duration) {
    BareSocket from, to;
    Shared<Progress> progress;
    Child receiver([&] {
        const Pin pin(1);
        std::uint64_t received = 0;
        receive_until_over(*progress, to.handle(), [&] {
            for (int i = 0; i < 64 && to.receive(); ++i) received += 1;
            return received;
        });
    });
    const Pin pin(0);
    const std::vector<std::byte> datagram(size);
    std::uint64_t offered = 0;
    return send_until_over(*progress, receiver, duration, [&] {
        for (int i = 0; i < 64; ++i) offered += from.send(to, datagram);
        return offered;
    });
}

/// Client on CPU 0, server on CPU 1; at most kOutstanding messages are queued or in flight. The server's
/// process reports how many reliable messages arrived. Unreliable messages are in flight until their packet
/// has a fate.
inline Cost two(const Setup& setup, const Load& load, Duration duration) {
    constexpr std::uint64_t kOutstanding = 512;
    net::Socket server_socket = open_socket();
    Shared<Progress> progress;
    Child receiver([&] {
        const Pin pin(1);
        Inbox inbox;
        net::Host host = make_host(setup, inbox, server_socket);
        receive_until_over(*progress, server_socket.handle(), [&] {
            service(server_socket, host, wall_now());
            progress->is_ready = inbox.is_connected;
            return inbox.messages;
        });
    });
    const Pin pin(0);
    net::Socket client_socket = open_socket();
    Inbox replies;
    net::Client client = make_client(setup, replies, client_socket);
    client.connect(address_of(server_socket), {}, wall_now());
    for (const Time end = wall_now() + std::chrono::seconds(5); !progress->is_ready;) {
        if (wall_now() > end) fail("the client could not connect");
        service(client_socket, client, wall_now());
        wait_for(client_socket.handle());
    }

    const std::vector<std::byte> message(load.size);
    std::uint64_t offered = 0;
    const auto outstanding = [&]() -> std::uint64_t {
        if (load.kind == Kind::reliable) return offered - progress->received.load();
        const net::ConnectionStats& stats = client.stats(client.server());
        return offered - stats.messages_sent + stats.bytes_in_flight / (load.size + 2);
    };
    const auto step = [&] {
        const bool has_room = outstanding() + load.batch <= kOutstanding;
        for (std::size_t i = 0; has_room && i < load.batch; ++i) {
            if (!send(client, client.server(), load.kind, message)) break;
            offered += 1;
        }
        const std::size_t received = service(client_socket, client, wall_now());
        if (received == 0 && !has_room) wait_for(client_socket.handle());
        return offered;
    };
    return send_until_over(*progress, receiver, duration, step);
}

}  // namespace net_bench
