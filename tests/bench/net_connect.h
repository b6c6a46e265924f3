#pragma once
// Measures CPU time per datagram of handshakes, and of datagrams that strangers can send.

#include <ctime>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/client.h"
#include "net/host.h"
#include "tests/net/support/handshake_packets.h"
#include "tests/net/support/server_key.h"

namespace net_bench {

namespace connect_mode {

using namespace shoal;
using Datagram = std::vector<std::byte>;

constexpr int kRepetitions = 7;
constexpr std::uint64_t kProtocol = 1;
constexpr std::size_t kCount = 400;  // datagrams of each kind per repetition
const net::Address kServer = net::Address::ipv4(10, 0, 0, 1, 7777);

inline double cpu_ns() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return double(time.tv_sec) * 1e9 + double(time.tv_nsec);
}

struct Caught : net::Sink {
    void send(const net::Address&, std::span<const std::byte> datagram) override {
        last.assign(datagram.begin(), datagram.end());
        sent += 1;
    }
    Datagram last;
    std::size_t sent = 0;
};

template <class Config>
Config config_with(std::uint64_t seed) {
    Config config;
    config.protocol_id = kProtocol;
    for (std::size_t i = 0; i < 8; ++i) config.seed[i] = std::byte(seed >> (8 * i) & 0xFF);
    give_key(config);
    return config;
}

/// A client on a machine of its own, and the config of a server with room for all clients.
struct Server {
    Server() : host(config(), handler, sink) {}
    static net::HostConfig config() {
        net::HostConfig config = config_with<net::HostConfig>(1);
        config.max_peers = 10'000;
        config.max_handshakes_per_s = 10'000'000;
        return config;
    }
    net::Handler handler;
    Caught sink;
    net::Host host;
};
struct Visitor {
    explicit Visitor(std::size_t number)
        : address(net::Address::ipv4(10, 1, std::uint8_t(number >> 8), std::uint8_t(number & 0xFF), 5000)),
          client(config_with<net::ClientConfig>(number + 2), handler, sink) {}
    /// Returns the request, the connect for a server's cookie, or the first packet.
    Datagram begin(net::Time now) {
        client.connect(kServer, {}, now);
        client.flush(now);
        return sink.last;
    }
    Datagram answer_to(Server& server, const Datagram& datagram, net::Time now) {
        server.host.receive(address, datagram, now);
        client.receive(kServer, server.sink.last, now);
        return sink.last;
    }
    net::Address address;
    net::Handler handler;
    Caught sink;
    net::Client client;
};

constexpr net::Time kNow = std::chrono::seconds(100);

/// Returns the CPU time of `act` per datagram that `prepare` made for it, in nanoseconds: the best of several
/// runs.
template <class Prepare>
void measure(const char* name, Prepare&& prepare) {
    double best = 1e18;
    for (int repetition = 0; repetition < kRepetitions; ++repetition) {
        std::function<void(std::size_t)> act = prepare();
        const double start = cpu_ns();
        for (std::size_t i = 0; i < kCount; ++i) act(i);
        best = std::min(best, (cpu_ns() - start) / double(kCount));
    }
    std::printf("net.connect.%s.cpu_ns_per_datagram=%.0f\n", name, best);
    std::fflush(stdout);
}

/// Sends each visitor's datagram, after `change`, to a new server that is prepared up to `stage`.
template <class Make>
void measure_server(const char* name, Make&& make) {
    measure(name, [&] {
        auto server = std::make_shared<Server>();
        auto all = std::make_shared<std::vector<std::pair<net::Address, Datagram>>>();
        for (std::size_t i = 0; i < kCount; ++i) {
            Visitor visitor(i);
            Datagram datagram = make(*server, visitor);
            all->emplace_back(visitor.address, std::move(datagram));
        }
        return
            [server, all](std::size_t i) { server->host.receive((*all)[i].first, (*all)[i].second, kNow); };
    });
}

/// Returns a client in a stage: 1 request sent, 2 connect sent, 3 connected.
template <class Make>
void measure_client(const char* name, int stage, Make&& make) {
    measure(name, [&] {
        auto server = std::make_shared<Server>();
        auto visitor = std::make_shared<Visitor>(1);
        Datagram sent = visitor->begin(kNow);
        for (int i = 1; i < stage; ++i) sent = visitor->answer_to(*server, sent, kNow);
        auto all = std::make_shared<std::vector<Datagram>>();
        for (std::size_t i = 0; i < kCount; ++i) all->push_back(make(*server, sent, i));
        return [server, visitor, all](std::size_t i) { visitor->client.receive(kServer, (*all)[i], kNow); };
    });
}

template <class Packet>
Datagram bytes_of(const Packet& packet) {
    std::array<std::byte, net::kMaxDatagramBytes> buffer;
    const auto bytes = net::impl::write(packet, buffer);
    return {bytes.begin(), bytes.end()};
}

inline void whole_handshakes() {
    double both = 1e18, server_alone = 1e18;
    for (int repetition = 0; repetition < kRepetitions; ++repetition) {
        Server server;
        double at_server = 0;
        const double start = cpu_ns();
        for (std::size_t i = 0; i < kCount; ++i) {
            Visitor visitor(i);
            Datagram sent = visitor.begin(kNow);
            for (int step = 0; step < 3; ++step) {
                const double before = cpu_ns();
                server.host.receive(visitor.address, sent, kNow);
                at_server += cpu_ns() - before;
                if (step == 2) break;
                visitor.client.receive(kServer, server.sink.last, kNow);
                sent = visitor.sink.last;
            }
        }
        both = std::min(both, (cpu_ns() - start) / double(kCount));
        server_alone = std::min(server_alone, at_server / double(kCount));
        if (server.host.peer_count() != kCount) std::printf("net.connect.failed=1\n");
    }
    std::printf("net.connect.both.handshakes_per_cpu_second=%.0f\n", 1e9 / both);
    std::printf("net.connect.server.handshakes_per_cpu_second=%.0f\n", 1e9 / server_alone);
}

inline void run() {
    whole_handshakes();
    const auto connect_of = [](Server& server, Visitor& visitor) {
        return visitor.answer_to(server, visitor.begin(kNow), kNow);
    };
    measure_server("server.request", [](Server&, Visitor& visitor) { return visitor.begin(kNow); });
    measure_server("server.request_of_another_version", [](Server&, Visitor& visitor) {
        Datagram bytes = visitor.begin(kNow);
        bytes[1] ^= std::byte(0x40);
        return bytes;
    });
    measure_server("server.connect_with_bad_cookie", [&](Server& server, Visitor& visitor) {
        Datagram bytes = connect_of(server, visitor);
        bytes[20] ^= std::byte(1);
        return bytes;
    });
    measure_server("server.connect_with_bad_tag", [&](Server& server, Visitor& visitor) {
        Datagram bytes = connect_of(server, visitor);
        bytes.back() ^= std::byte(1);
        return bytes;
    });
    measure_server("server.connect", connect_of);
    measure_server("server.connect_repeated", [&](Server& server, Visitor& visitor) {
        const Datagram bytes = connect_of(server, visitor);
        server.host.receive(visitor.address, bytes, kNow);
        return bytes;
    });
    const auto first_packet_of = [&](Server& server, Visitor& visitor) {
        return visitor.answer_to(server, connect_of(server, visitor), kNow);
    };
    measure_server("server.first_packet", first_packet_of);
    measure_server("server.data_of_unknown_connection", [](Server&, Visitor&) {
        Datagram bytes(100, std::byte(0x55));
        bytes[0] = std::byte(0xd0);
        return bytes;
    });
    measure_server("server.data_with_bad_tag", [&](Server& server, Visitor& visitor) {
        Datagram bytes = first_packet_of(server, visitor);
        server.host.receive(visitor.address, bytes, kNow);
        bytes.resize(100);
        return bytes;
    });
    measure_server("server.garbage", [](Server&, Visitor&) { return Datagram(100, std::byte(0x33)); });

    const auto nonce_of = [](const Datagram& sent) {
        return net::impl::ByteReader(std::span(sent).subspan(2)).u64();
    };
    measure_client("client.forged_cookie", 1, [&](Server&, const Datagram& sent, std::size_t i) {
        return bytes_of(net::impl::CookieReply{nonce_of(sent), i + 1});
    });
    measure_client("client.forged_answer", 2, [&](Server&, const Datagram& sent, std::size_t i) {
        const std::uint64_t cookie = net::impl::ByteReader(std::span(sent).subspan(18)).u64();
        const Datagram message(net::impl::kNoiseOverheadBytes + net::impl::kAcceptanceBytes,
                               std::byte(i & 0xFF));
        return bytes_of(net::impl::Answer{nonce_of(sent), cookie, message});
    });
    measure_client("client.forged_refusal", 2, [&](Server&, const Datagram& sent, std::size_t) {
        return bytes_of(net::impl::Refuse{nonce_of(sent), net::DisconnectReason::refused_key});
    });
    measure_client("client.forged_reset", 3, [](Server&, const Datagram& sent, std::size_t) {
        Datagram bytes(net::impl::kResetBytes, std::byte(0x55));
        bytes[0] = std::byte(0xb8);
        std::copy_n(sent.begin() + 1, 4, bytes.begin() + 1);
        return bytes;
    });
    measure_client("client.forged_data", 3, [](Server&, const Datagram&, std::size_t i) {
        Datagram bytes(100, std::byte(i & 0xFF));
        bytes[0] = std::byte(0xa8);
        return bytes;
    });
}

}  // namespace connect_mode
}  // namespace net_bench
