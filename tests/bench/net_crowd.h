#pragma once
// The workloads with many idle connections: mem and idle. The clients run in another process, each with a
// socket.

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/bench/net_ends.h"

namespace net_bench {

constexpr Duration kTick = Duration(1'000'000 / 60);

/// Main function of the clients' process: connects them, a few at a time, and updates them 60 times a second
/// until the parent process ends.
inline void be_a_crowd(const net::Address& server, const Setup& setup, std::uint32_t count) {
    struct Member {
        net::Socket socket = open_socket();
        Inbox inbox;
        net::Client client;
        Member(const Setup& as, unsigned number) : client(make_client(as, inbox, socket, number)) {}
    };
    constexpr std::uint32_t kConnecting = 8;
    const pid_t parent = getppid();
    std::vector<std::unique_ptr<Member>> members;
    std::uint32_t connected = 0;
    for (Time next = wall_now(); getppid() == parent;) {
        const Time now = wall_now();
        while (members.size() < count && members.size() < connected + kConnecting) {
            members.push_back(std::make_unique<Member>(setup, static_cast<unsigned>(members.size())));
            members.back()->client.connect(server, {}, now);
        }
        const bool is_complete = connected == count;
        // While others connect, connected clients are updated once per tick only.
        const bool is_tick = now >= next;
        for (std::size_t i = is_tick ? 0 : connected; i < members.size(); ++i)
            service(members[i]->socket, members[i]->client, now);
        while (connected < members.size() && members[connected]->inbox.is_connected) connected += 1;
        if (is_tick) next += kTick;
        if (is_complete) sleep_until(next);
    }
}

struct Memory {
    double resident = 0;  // bytes per connection, including the host itself
    double heap = 0;
};

struct CrowdCost {
    Memory memory;
    double cpu_percent = 0;  // of one CPU, without the clients
};

/// A server with 60 ticks per second. Must run in a process of its own: see in_child.
inline CrowdCost crowd(Setup setup, std::uint32_t count, Duration duration) {
    raise_descriptor_limit();
    setup.max_peers = count;
    net::Socket socket = open_socket();
    const net::Address address = address_of(socket);
    const Child clients([&] { be_a_crowd(address, setup, count); });

    const double resident_before = resident_bytes(), heap_before = heap_bytes();
    Inbox inbox;
    net::Host host = make_host(setup, inbox, socket);
    const Time give_up = wall_now() + std::chrono::seconds(60);
    for (std::uint32_t connected = 0; connected < count; connected = host.peer_count()) {
        if (wall_now() > give_up)
            fail("only " + std::to_string(connected) + " of " + std::to_string(count) + " clients connected");
        for (int i = 0; i < 64; ++i)
            if (service(socket, host, wall_now()) == 0) sleep_until(wall_now() + Duration(100));
    }
    Time next = wall_now();
    const auto serve = [&](Duration how_long) {
        for (const Time end = wall_now() + how_long; next < end; next += kTick) {
            sleep_until(next);
            service(socket, host, wall_now());
        }
    };
    serve(std::chrono::milliseconds(1500));  // until both sides of each connection sent a ping
    const double peers = static_cast<double>(count);
    CrowdCost cost;
    cost.memory.resident = (resident_bytes() - resident_before) / peers;
    cost.memory.heap = (heap_bytes() - heap_before) / peers;
    const Time start = wall_now();
    const double cpu_before = cpu_us();
    serve(duration);
    cost.cpu_percent = (cpu_us() - cpu_before) / static_cast<double>((wall_now() - start).count()) * 100;
    if (host.peer_count() != count) fail("connections were lost");
    return cost;
}

}  // namespace net_bench
