#pragma once
// The two sides of a connection in the benchmark. Only this file makes endpoints and sends messages, so
// changes of their configuration affect no other file.

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "net/client.h"
#include "net/host.h"
#include "net/socket/socket.h"
#include "tests/bench/net_process.h"
#include "tests/net/support/server_key.h"

namespace net_bench {

namespace net = shoal::net;

enum class Kind : std::uint8_t { raw, unreliable, reliable };

inline const char* name(Kind kind) {
    constexpr const char* kNames[] = {"raw", "unreliable", "reliable"};
    return kNames[static_cast<std::size_t>(kind)];
}

/// Messages of one kind and size, and their number per flush.
struct Load {
    Kind kind = Kind::reliable;
    std::size_t size = 32;
    std::size_t batch = 1;
};

struct Setup {
    bool is_plain = false;  // insecure packets
    bool is_flood = false;  // more than a game sends per tick, on a path with enough capacity
    double repeat_share = net::ConnectionConfig{}.repeat_share;
    std::uint32_t max_peers = 1;
};

inline net::ConnectionConfig connection_config(const Setup& setup) {
    net::ConnectionConfig config;
    config.repeat_share = setup.repeat_share;
    config.message_queue_bytes = 1 << 20;
    if (setup.is_flood) {
        config.first_bytes_per_second = config.max_bytes_per_second = 4'000'000'000;
        config.max_packets_per_flush = 128;
    }
    return config;
}

/// The seed is the same in every run, so that simulated runs can be repeated.
inline net::Seed seed(unsigned number) {
    std::mt19937 random(number);
    net::Seed seed;
    for (std::byte& byte : seed) byte = static_cast<std::byte>(random() & 0xFF);
    return seed;
}

inline net::Host make_host(const Setup& setup, net::Handler& handler, net::Sink& sink) {
    net::HostConfig config;
    config.seed = seed(1);
    give_key(config);
    if (setup.is_plain) config.security = net::Security::insecure;
    config.max_peers = setup.max_peers;
    config.max_handshakes_per_s_per_ip = std::max(config.max_handshakes_per_s_per_ip, setup.max_peers);
    config.connection = connection_config(setup);
    return net::Host(config, handler, sink);
}

inline net::Client make_client(const Setup& setup, net::Handler& handler, net::Sink& sink,
                               unsigned number = 0) {
    net::ClientConfig config;
    config.seed = seed(2 + number);
    give_key(config);
    if (setup.is_plain) config.security = net::Security::insecure;
    config.connection = connection_config(setup);
    return net::Client(config, handler, sink);
}

/// Returns false if the queue was full.
inline bool send(net::Endpoint& from, net::PeerId to, Kind kind, std::span<const std::byte> message) {
    const auto channel = kind == Kind::reliable ? net::Channel::reliable : net::Channel::unreliable;
    const net::SendResult result = from.send_message(to, channel, message);
    if (result == net::SendResult::too_large || result == net::SendResult::not_connected)
        fail("a message was not sent: " + std::string(describe(result)));
    return result == net::SendResult::queued;
}

/// A handler that counts. `peer` is the one that connected last.
struct Inbox : net::Handler {
    net::PeerId peer;
    bool is_connected = false;
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;

    void on_connected(net::PeerId id) override {
        peer = id;
        is_connected = true;
    }
    void on_disconnected(net::PeerId, net::DisconnectReason reason, std::string_view text) override {
        fail("disconnected: " + std::string(net::describe(reason)) + " " + std::string(text));
    }
    void on_message(net::PeerId, net::Channel, std::span<const std::byte> message) override {
        messages += 1;
        bytes += message.size();
    }
};

inline net::Socket open_socket(std::uint16_t port = 0) {
    net::Result<net::Socket> socket = net::Socket::open(net::Address::ipv4(127, 0, 0, 1, port));
    if (!socket)
        fail("no socket on 127.0.0.1:" + std::to_string(port) + ": " +
             std::string(net::describe(socket.error())));
    return std::move(socket.value());
}

inline net::Address address_of(const net::Socket& socket) {
    net::Result<net::Address> address = socket.local_address();
    if (!address) fail("a socket without address");
    return address.value();
}

/// What a side has sent since it was connected; bytes with 28 of IPv4 and UDP per datagram.
struct Sent {
    std::uint64_t datagrams = 0;
    std::uint64_t wire_bytes = 0;
    friend Sent operator-(Sent a, Sent b) { return {a.datagrams - b.datagrams, a.wire_bytes - b.wire_bytes}; }
};

inline Sent sent(const net::Endpoint& end, net::PeerId peer) {
    const net::ConnectionStats& stats = end.stats(peer);
    return {stats.packets_sent, stats.bytes_sent + 28 * stats.packets_sent};
}

/// Receives, updates and flushes, as a program does once per tick.
inline std::size_t service(net::Socket& socket, net::Endpoint& end, Time now) {
    const std::size_t received = net::receive_all(socket, end, now);
    end.update(now);
    end.flush(now);
    return received;
}

}  // namespace net_bench
