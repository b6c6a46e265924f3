#pragma once
// The path between the two sides of a paced workload, and their clock.

#include <cstdint>
#include <memory>
#include <optional>

#include "net/socket/bad_network.h"
#include "tests/bench/net_ends.h"

namespace net_bench {

/// In each direction. The delay varies by +- jitter; the order is kept.
struct Impairment {
    double loss = 0;
    double delay_ms = 0;
    double jitter_ms = 0;
    std::uint64_t seed = 1;
};

inline net::LinkConfig link_config(const Impairment& impairment) {
    net::LinkConfig config;
    config.latency = from_seconds((impairment.delay_ms - impairment.jitter_ms) / 1000);
    config.jitter = from_seconds(2 * impairment.jitter_ms / 1000);
    config.loss = impairment.loss;
    return config;
}

/// The interface of the paths.
class Path {
public:
    virtual ~Path() = default;
    virtual Time now() const = 0;
    virtual void wait_until(Time when) = 0;
    /// The address to which the client connects.
    virtual net::Address server() const = 0;
    virtual net::Sink& from_client() = 0;
    virtual net::Sink& from_server() = 0;
    /// Delivers the datagrams that are due to both sides.
    virtual void carry(net::Host& host, net::Client& client) = 0;
};

/// A link conditioner per direction and a virtual clock: no sockets, no waiting; the same seed gives the same
/// run.
class SimulatedPath final : public Path {
public:
    explicit SimulatedPath(const Impairment& impairment)
        : up_(link_config(impairment), 2 * impairment.seed),
          down_(link_config(impairment), 2 * impairment.seed + 1) {}

    Time now() const override { return now_; }
    void wait_until(Time when) override { now_ = std::max(now_, when); }
    net::Address server() const override { return kServer; }
    net::Sink& from_client() override { return client_sink_; }
    net::Sink& from_server() override { return server_sink_; }
    void carry(net::Host& host, net::Client& client) override {
        for (bool took = true; took;) {
            took = false;
            for (; up_.pop(now_, datagram_); took = true) host.receive(kClient, datagram_.bytes, now_);
            for (; down_.pop(now_, datagram_); took = true) client.receive(kServer, datagram_.bytes, now_);
        }
    }

private:
    static inline const net::Address kClient = net::Address::ipv4(127, 0, 0, 1, 1);
    static inline const net::Address kServer = net::Address::ipv4(127, 0, 0, 1, 2);

    struct Entry final : net::Sink {
        SimulatedPath& path;
        net::impl::LinkConditioner& link;
        Entry(SimulatedPath& to, net::impl::LinkConditioner& through) : path(to), link(through) {}
        void send(const net::Address& to, std::span<const std::byte> bytes) override {
            link.push(to, to, bytes, path.now_);
        }
    };

    net::impl::LinkConditioner up_, down_;
    Entry client_sink_{*this, up_}, server_sink_{*this, down_};
    net::impl::LinkConditioner::Datagram datagram_;
    Time now_{1'000'000};
};

/// Sockets and the real clock. Loss and delay are applied before sending, in the calls of carry(). With a
/// proxy, the client sends to that port of this machine.
class SocketPath final : public Path {
public:
    SocketPath(const Impairment& impairment, std::uint16_t port, std::uint16_t proxy_port)
        : server_socket_(open_socket(port)),
          client_socket_(open_socket()),
          up_(link_config(impairment), 2 * impairment.seed),
          down_(link_config(impairment), 2 * impairment.seed + 1),
          server_(address_of(server_socket_)) {
        if (proxy_port != 0) server_.port = proxy_port;
    }

    Time now() const override { return wall_now(); }
    void wait_until(Time when) override { sleep_until(when); }
    net::Address server() const override { return server_; }
    net::Sink& from_client() override { return client_sink_; }
    net::Sink& from_server() override { return server_sink_; }
    void carry(net::Host& host, net::Client& client) override {
        const Time now = wall_now();
        while (up_.pop(now, datagram_)) client_socket_.send(datagram_.to, datagram_.bytes);
        while (down_.pop(now, datagram_)) server_socket_.send(datagram_.to, datagram_.bytes);
        net::receive_all(server_socket_, host, now);
        net::receive_all(client_socket_, client, now);
    }

private:
    struct Entry final : net::Sink {
        net::impl::LinkConditioner& link;
        net::Socket& socket;
        Entry(net::impl::LinkConditioner& through, net::Socket& to) : link(through), socket(to) {}
        void send(const net::Address& to, std::span<const std::byte> bytes) override {
            const net::LinkConfig& config = link.config();
            const bool is_clean = config.loss == 0 && config.latency + config.jitter == Duration(0);
            if (is_clean) return socket.send(to, bytes);
            link.push(to, to, bytes, wall_now());
        }
    };

    net::Socket server_socket_, client_socket_;
    net::impl::LinkConditioner up_, down_;
    Entry client_sink_{up_, client_socket_}, server_sink_{down_, server_socket_};
    net::impl::LinkConditioner::Datagram datagram_;
    net::Address server_;
};

}  // namespace net_bench
