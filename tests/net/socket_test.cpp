#include "net/socket/socket.h"

#include <gtest/gtest.h>

#ifdef __linux__
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#endif

#include <chrono>
#include <cstring>
#include <thread>

#include "tests/net/support/real_socket.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

/// A whole session over loopback, with real sockets and real time.
void talk(const Address& bind_server, const Address& reach_server, const Address& bind_client) {
    Result<Socket> server_socket = Socket::open(bind_server);
    ASSERT_TRUE(server_socket) << describe(server_socket.error());
    Result<Socket> client_socket = Socket::open(bind_client);
    ASSERT_TRUE(client_socket) << describe(client_socket.error());
    Result<Address> bound = server_socket.value().local_address();
    ASSERT_TRUE(bound);
    ASSERT_NE(bound.value().port, 0);
    Address target = reach_server;
    target.port = bound.value().port;

    Recorder at_server, at_client;
    Host host(host_config(), at_server, server_socket.value());
    Client client(client_config(), at_client, client_socket.value());
    client.connect(target, as_bytes("hi"), real_now());
    const Time end = real_now() + 10s;
    bool asked = false;
    while (at_server.disconnects.empty() && real_now() < end) {
        const Time now = real_now();
        receive_all(server_socket.value(), host, now);
        receive_all(client_socket.value(), client, now);
        host.update(now);
        client.update(now);
        if (!asked && host.is_connected(at_server.newest)) {
            asked = true;
            EXPECT_EQ(host.address(at_server.newest).family, target.family);
            at_server.send(host, at_server.newest, as_bytes("state"), now);
            EXPECT_EQ(client.send_message(client.server(), Channel::reliable, as_bytes("hello")),
                      SendResult::queued);
        }
        if (!at_server.fates.empty() && !at_server.messages.empty()) {
            client.disconnect(client.server(), DisconnectReason::closed, "done", now);
        }
        host.flush(now);
        client.flush(now);
        std::this_thread::yield();
    }
    ASSERT_EQ(at_client.payloads.size(), 1u);
    EXPECT_EQ(at_client.payloads[0].second, "state");
    ASSERT_EQ(at_server.fates.size(), 1u);
    EXPECT_TRUE(at_server.fates[0].delivered);
    EXPECT_EQ(at_server.texts(Channel::reliable), std::vector<std::string>{"hello"});
    EXPECT_EQ(at_server.last_reason, DisconnectReason::closed_by_peer);
    EXPECT_EQ(at_server.last_text, "done");
}

bool has_ipv6() {
    return bool(Socket::open(Address::parse("[::1]:0").value()));
}

TEST(Socket, TalksOverIpv4) {
    const Address loopback = Address::ipv4(127, 0, 0, 1, 0);
    talk(loopback, loopback, Address::any_ipv4(0));
}

TEST(Socket, TalksOverIpv6) {
    const Address loopback = Address::parse("[::1]:0").value();
    if (has_ipv6()) return talk(loopback, loopback, Address::any(0));
    EXPECT_NE(Socket::open(loopback).error(), NetError::none);  // an error, not a crash
}

TEST(Socket, DualStackServesIpv4) {
    const Address loopback = Address::ipv4(127, 0, 0, 1, 0);
    if (has_ipv6()) return talk(Address::any(0), loopback, Address::any_ipv4(0));
    talk(Address::any_ipv4(0), loopback, Address::any_ipv4(0));  // as a server without IPv6
}

TEST(Socket, ErrorsAreResults) {
    Result<Socket> socket = Socket::open(Address::ipv4(127, 0, 0, 1, 0));
    ASSERT_TRUE(socket);
    std::array<std::byte, 2000> buffer{};
    Address from;
    EXPECT_EQ(socket.value().receive(buffer, from).error(), NetError::would_block);
    EXPECT_EQ(Socket::open(socket.value().local_address().value()).error(), NetError::address_in_use);
    EXPECT_EQ(Socket::open(Address::ipv4(8, 8, 8, 8, 1)).error(), NetError::not_here);
    EXPECT_EQ(Socket::open(Address()).error(), NetError::bad_address);
    EXPECT_EQ(socket.value().try_send(Address::any(5), buffer), NetError::wrong_family);
    const std::vector<std::byte> huge(70'000);
    EXPECT_EQ(socket.value().try_send(Address::ipv4(127, 0, 0, 1, 9), huge), NetError::too_large);
    Socket moved = std::move(socket.value());
    EXPECT_TRUE(moved.local_address());
}

std::uint64_t send_dropped(const Socket& socket) {
    const SocketStats& stats = socket.stats();
    return stats.send_blocked + stats.send_unreachable + stats.send_forbidden + stats.send_too_large +
           stats.send_failed;
}

Address address_of(const Socket& socket) {
    return socket.local_address().value();
}

TEST(Socket, CutsLongDatagramsAndReceivesEmptyOnes) {
    Socket from = open_socket(), to = open_socket();
    const std::array<std::byte, 20> bytes{std::byte{1}};
    from.send(address_of(to), bytes);
    from.send(address_of(to), {});
    from.send(address_of(to), std::span(bytes).first(10));
    EXPECT_EQ(from.stats().sent, 3u);
    EXPECT_EQ(from.stats().bytes_sent, 30u);
    std::array<std::byte, 10> buffer;
    Address sender;
    for (const std::size_t size : {10u, 0u, 10u}) {
        ASSERT_TRUE(wait_readable(to, 10s));
        Result<std::size_t> received = to.receive(buffer, sender);
        ASSERT_TRUE(received);
        EXPECT_EQ(received.value(), size);
        EXPECT_EQ(sender, address_of(from));
    }
    EXPECT_EQ(to.stats().received, 3u);
    EXPECT_EQ(to.stats().receive_cut, 1u);
    EXPECT_EQ(to.stats().bytes_received, 20u);
}

// A closed port answers each datagram with an ICMP error. Other peers must not be affected.
TEST(Socket, SurvivesClosedPorts) {
    Socket socket = open_socket(), peer = open_socket();
    const Socket holder = open_socket();  // keeps the port and receives nothing
    const Address closed = address_of(holder);
#ifdef __linux__
    sockaddr_in nobody{};
    nobody.sin_family = AF_INET;
    nobody.sin_port = htons(9);
    nobody.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(
        connect(static_cast<int>(holder.handle()), reinterpret_cast<const sockaddr*>(&nobody), sizeof nobody),
        0);
    const int on = 1;  // Linux reports errors only if asked
    ASSERT_EQ(setsockopt(static_cast<int>(socket.handle()), IPPROTO_IP, IP_RECVERR, &on, sizeof on), 0);
#endif
    std::array<std::byte, 4> bytes{};
    Address from;
    std::uint64_t arrived = 0;
    for (int round = 0; round < 100; ++round) {
        socket.send(closed, bytes);
        EXPECT_EQ(socket.try_send(address_of(peer), bytes), NetError::none);
        socket.send(closed, bytes);
        peer.send(address_of(socket), bytes);
        Result<std::size_t> received = NetError::would_block;
        while (!received && wait_readable(socket, 10s)) received = socket.receive(bytes, from);
        ASSERT_TRUE(received);
        EXPECT_EQ(from, address_of(peer));
        while (arrived <= static_cast<std::uint64_t>(round) && wait_readable(peer, 10s))
            arrived += bool(peer.receive(bytes, from));
    }
    EXPECT_EQ(arrived, 100u);
    EXPECT_EQ(socket.stats().sent + socket.stats().send_unreachable, 300u);
    EXPECT_EQ(socket.stats().received, 100u);
    EXPECT_EQ(socket.stats().receive_failed, 0u);
#ifdef __linux__
    EXPECT_GE(socket.stats().receive_errors + socket.stats().send_repeats, 1u);
#endif
}

TEST(Socket, CountsEachReasonNotToSend) {
    Socket socket = open_socket();
    const std::array<std::byte, 8> bytes{};
    const std::vector<std::byte> huge(70'000);
    EXPECT_EQ(socket.try_send(Address(), bytes), NetError::bad_address);
    EXPECT_EQ(socket.try_send(Address::any(5), bytes), NetError::wrong_family);
    EXPECT_EQ(socket.stats().send_unreachable, 2u);
    EXPECT_EQ(socket.try_send(Address::ipv4(127, 0, 0, 1, 9), huge), NetError::too_large);
    EXPECT_EQ(socket.stats().send_too_large, 1u);
    EXPECT_NE(socket.try_send(Address::ipv4(127, 255, 255, 255, 9), bytes), NetError::none);  // broadcast
    EXPECT_EQ(send_dropped(socket), 4u);
    EXPECT_EQ(socket.stats().sent, 0u);
    Socket moved = std::move(socket);
    EXPECT_EQ(send_dropped(moved), 4u);
}

#ifdef __linux__
// UDP over loopback never fills the sender's buffer. So the descriptor is replaced by a stream that nobody
// reads; Linux ignores the address of a stream.
TEST(Socket, AFullBufferBlocksNobodyAndIsCounted) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0), stream = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&at), size), 0);
    ASSERT_EQ(::listen(listener, 1), 0);
    ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size), 0);
    ASSERT_EQ(::connect(stream, reinterpret_cast<const sockaddr*>(&at), size), 0);
    const int reader = ::accept(listener, nullptr, nullptr);
    ASSERT_EQ(::fcntl(stream, F_SETFL, O_NONBLOCK), 0);
    Socket socket = open_socket();
    ASSERT_GE(::dup2(stream, static_cast<int>(socket.handle())), 0);

    const std::array<std::byte, kMaxDatagramBytes> bytes{};
    const Address to = Address::ipv4(127, 0, 0, 1, 9);
    std::uint64_t sent = 0;
    NetError error = NetError::none;
    while ((error = socket.try_send(to, bytes)) == NetError::none && sent < 1'000'000) sent += 1;
    EXPECT_EQ(error, NetError::would_block);
    socket.send(to, bytes);
    EXPECT_EQ(socket.stats().sent, sent);
    EXPECT_EQ(socket.stats().send_blocked, 2u);
    EXPECT_EQ(send_dropped(socket), 2u);
    // When there is room again, it sends.
    std::vector<std::byte> drain(1 << 16);
    pollfd writable{stream, POLLOUT, 0};
    while (::poll(&writable, 1, 0) == 0) ASSERT_GT(::read(reader, drain.data(), drain.size()), 0);
    EXPECT_EQ(socket.try_send(to, bytes), NetError::none);
    for (const int handle : {listener, stream, reader}) ::close(handle);
}
#endif

// Datagrams that the receiver does not read in time are lost: no call blocks or fails.
TEST(Socket, AFullReceiverLosesDatagramsWithoutAnError) {
    SocketConfig small;
    small.receive_buffer_bytes = 4096;
    Socket from = open_socket(), to = open_socket(small);
    std::array<std::byte, kMaxDatagramBytes> bytes{};
    for (int i = 0; i < 1000; ++i) from.send(address_of(to), bytes);
    EXPECT_EQ(from.stats().sent + from.stats().send_blocked, 1000u);
    ASSERT_TRUE(wait_readable(to, 10s));
    Address sender;
    std::uint64_t received = 0;
    while (to.receive(bytes, sender)) received += 1;
    EXPECT_GE(received, 1u);
    EXPECT_LT(received, 1000u);
    EXPECT_EQ(to.stats().receive_failed, 0u);
}

#ifdef __linux__
TEST(Socket, BuffersAreAsLargeAsAsked) {
    const auto bytes = [](const Socket& socket, int name) {
        int value = 0;
        socklen_t size = sizeof value;
        EXPECT_EQ(getsockopt(static_cast<int>(socket.handle()), SOL_SOCKET, name, &value, &size), 0);
        return value;
    };
    SocketConfig small, large;
    small.receive_buffer_bytes = small.send_buffer_bytes = 16'384;
    large.receive_buffer_bytes = large.send_buffer_bytes =
        UINT32_MAX;  // the system gives less, without an error
    const Socket a = open_socket(small), b = open_socket(large);
    for (const int name : {SO_RCVBUF, SO_SNDBUF}) {
        EXPECT_GE(bytes(a, name), 16'384);
        EXPECT_GT(bytes(b, name), bytes(a, name));
    }
}
#endif

#ifdef IP_MTU_DISCOVER
TEST(Socket, ForbidsFragmentsUnlessAsked) {
    const auto discovery = [](const Socket& socket) {
        int value = -1;
        socklen_t size = sizeof value;
        const int handle = static_cast<int>(socket.handle());
        EXPECT_EQ(getsockopt(handle, IPPROTO_IP, IP_MTU_DISCOVER, &value, &size), 0);
        return value;
    };
    SocketConfig loose;
    loose.fragments = true;
    EXPECT_EQ(discovery(open_socket()), int{IP_PMTUDISC_PROBE});
    EXPECT_NE(discovery(open_socket(loose)), int{IP_PMTUDISC_PROBE});
    if (!has_ipv6()) return;
    Result<Socket> dual = Socket::open(Address::any(0));
    ASSERT_TRUE(dual);
    EXPECT_EQ(discovery(dual.value()), int{IP_PMTUDISC_PROBE});
}
#endif

// With one socket for both, an IPv4 sender has its IPv4 address and can be answered there.
TEST(Socket, DualStackShowsIpv4AsIpv4) {
    Result<Socket> dual = Socket::open(has_ipv6() ? Address::any(0) : Address::any_ipv4(0));
    ASSERT_TRUE(dual) << describe(dual.error());
    const std::uint16_t port = address_of(dual.value()).port;
    std::vector<Address> senders = {kLoopback};
    if (has_ipv6()) senders.push_back(Address::parse("[::1]:0").value());
    for (const Address& at : senders) {
        Result<Socket> sender = Socket::open(at);
        ASSERT_TRUE(sender);
        Address target = at;
        target.port = port;
        std::array<std::byte, 3> bytes{};
        ASSERT_EQ(sender.value().try_send(target, bytes), NetError::none);
        ASSERT_TRUE(wait_readable(dual.value(), 10s));
        Address from;
        ASSERT_TRUE(dual.value().receive(bytes, from));
        EXPECT_EQ(from, address_of(sender.value()));
        ASSERT_EQ(dual.value().try_send(from, bytes), NetError::none);
        ASSERT_TRUE(wait_readable(sender.value(), 10s));
        ASSERT_TRUE(sender.value().receive(bytes, from));
        EXPECT_EQ(from, target);
    }
}

#ifdef __linux__
/// Connects the descriptor: Linux then drops datagrams from other addresses.
void connect_to(const Socket& socket, const Address& to) {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(to.port);
    std::memcpy(&ipv4.sin_addr, to.ip.data(), 4);
    sockaddr_in6 ipv6{};
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(to.port);
    std::memcpy(&ipv6.sin6_addr, to.ip.data(), 16);
    const int handle = static_cast<int>(socket.handle());
    const bool is_ipv4 = to.family == Address::Family::ipv4;
    ASSERT_EQ(is_ipv4 ? ::connect(handle, reinterpret_cast<const sockaddr*>(&ipv4), sizeof ipv4)
                      : ::connect(handle, reinterpret_cast<const sockaddr*>(&ipv6), sizeof ipv6),
              0);
}

/// Sends a datagram there and one back.
void ask(Socket& server, Socket& client, const Address& to, Address& from) {
    std::array<std::byte, 3> bytes{};
    ASSERT_EQ(client.try_send(to, bytes), NetError::none);
    ASSERT_TRUE(wait_readable(server, 10s));
    ASSERT_TRUE(server.receive(bytes, from));
    ASSERT_EQ(server.try_send(from, bytes), NetError::none);
    ASSERT_TRUE(wait_readable(client, 10s)) << "no answer from " << to.to_string();
    Address answered;
    ASSERT_TRUE(client.receive(bytes, answered));
    EXPECT_EQ(answered, to);
}

// Goal: a server with several addresses answers from the address that the client sent to.
// Method: connected clients, which drop answers from other addresses; the system would choose 127.0.0.1.
TEST(Socket, WildcardAnswersFromTheAddressThatWasAsked) {
    for (const bool is_dual : {false, true}) {
        if (is_dual && !has_ipv6()) continue;
        Socket server = std::move(Socket::open(is_dual ? Address::any(0) : Address::any_ipv4(0)).value());
        std::vector<Address> targets = {Address::ipv4(127, 0, 0, 2, 0), Address::ipv4(127, 0, 0, 1, 0),
                                        Address::ipv4(127, 0, 0, 3, 0), Address::ipv4(127, 0, 0, 2, 0)};
        if (is_dual) targets.push_back(Address::parse("[::1]:0").value());
        std::vector<int> numbers;
        for (Address& target : targets) {
            target.port = address_of(server).port;
            const bool is_ipv4 = target.family == Address::Family::ipv4;
            Socket client = std::move(
                Socket::open(is_ipv4 ? Address::any_ipv4(0) : Address::parse("[::]:0").value()).value());
            connect_to(client, target);
            Address from;
            ask(server, client, target, from);
            numbers.push_back(from.local);
            // The local numbers stay valid when the socket is moved.
            Socket moved = std::move(server);
            EXPECT_EQ(moved.try_send(from, std::array<std::byte, 1>{}), NetError::none);
            EXPECT_TRUE(wait_readable(client, 10s));
            server = std::move(moved);
        }
        if (is_dual)
            EXPECT_EQ(numbers, (std::vector<int>{1, 2, 3, 1, 4}));
        else
            EXPECT_EQ(numbers, (std::vector<int>{1, 2, 3, 1}));
    }
}

TEST(Socket, ASocketWithOneAddressIgnoresTheLocalNumber) {
    Socket server = open_socket(), client = open_socket();
    Address from;
    ask(server, client, address_of(server), from);
    EXPECT_EQ(from.local, 0);
    from.local = 9;  // a number of another socket
    EXPECT_EQ(server.try_send(from, std::array<std::byte, 1>{}), NetError::none);
}

// Goal: an invalid local number, or one whose address cannot send, is ignored.
// Method: a broadcast arrives at an address from which nothing can be sent.
TEST(Socket, AnswersFromAnotherAddressIfTheLocalOneCannotSend) {
    const bool is_dual = has_ipv6();
    Socket server = std::move(Socket::open(is_dual ? Address::any(0) : Address::any_ipv4(0)).value());
    Socket client = open_socket();
    const int on = 1;
    ASSERT_EQ(setsockopt(static_cast<int>(client.handle()), SOL_SOCKET, SO_BROADCAST, &on, sizeof on), 0);
    std::array<std::byte, 3> bytes{};
    ASSERT_EQ(client.try_send(Address::ipv4(127, 255, 255, 255, address_of(server).port), bytes),
              NetError::none);
    ASSERT_TRUE(wait_readable(server, 10s));
    Address from;
    ASSERT_TRUE(server.receive(bytes, from));
    for (const int number : {int(from.local), 0, 255}) {
        from.local = static_cast<std::uint8_t>(number);
        EXPECT_EQ(server.try_send(from, bytes), NetError::none) << number;
        ASSERT_TRUE(wait_readable(client, 10s)) << number;
        Address answered;
        EXPECT_TRUE(client.receive(bytes, answered));
    }
    EXPECT_EQ(server.stats().sent, 3u);
    EXPECT_EQ(send_dropped(server), 0u);
}

// Goal: the table has 255 entries; for further local addresses the system chooses the source address.
// Method: 300 addresses of the loopback network; the first 255 get numbers and keep them.
TEST(Socket, RemembersAtMost255Addresses) {
    Socket server = std::move(Socket::open(Address::any_ipv4(0)).value());
    Socket client = open_socket();
    const std::uint16_t port = address_of(server).port;
    std::array<std::byte, 3> bytes{};
    for (int round = 0; round < 2; ++round) {
        for (unsigned i = 0; i < 300; ++i) {
            const auto high = static_cast<std::uint8_t>(i / 100), low = static_cast<std::uint8_t>(i % 100);
            const Address target = Address::ipv4(127, 1, high, std::uint8_t(low + 1), port);
            ASSERT_EQ(client.try_send(target, bytes), NetError::none);
            ASSERT_TRUE(wait_readable(server, 10s));
            Address from;
            ASSERT_TRUE(server.receive(bytes, from));
            ASSERT_EQ(from.local, i < 255 ? i + 1 : 0);
            ASSERT_EQ(server.try_send(from, bytes), NetError::none);
            ASSERT_TRUE(wait_readable(client, 10s));
            ASSERT_TRUE(client.receive(bytes, from));
            ASSERT_EQ(from == target, i < 255);
        }
    }
}

TEST(Socket, AServerWithTwoAddressesTalksOnBoth) {
    talk(Address::any_ipv4(0), Address::ipv4(127, 0, 0, 2, 0), Address::any_ipv4(0));
    if (has_ipv6()) talk(Address::any(0), Address::ipv4(127, 0, 0, 2, 0), Address::any(0));
}
#endif

TEST(Socket, WaitsForTheFirstOfSeveral) {
    Socket a = open_socket(), b = open_socket();
    const std::array<const Socket*, 2> both = {&a, &b};
    EXPECT_FALSE(wait_readable(both, 0s));
    EXPECT_FALSE(wait_readable(both, -1s));
    a.send(address_of(b), std::array<std::byte, 1>{});
    EXPECT_TRUE(wait_readable(both, 10s));
    EXPECT_FALSE(wait_readable(a, 0s));
    EXPECT_TRUE(wait_readable(b, Duration::max()));
}

TEST(Socket, ResolvesLiteralsAndNames) {
    Result<std::vector<Address>> literal = resolve("127.0.0.1:80");
    ASSERT_TRUE(literal);
    EXPECT_EQ(literal.value().at(0), Address::ipv4(127, 0, 0, 1, 80));
    Result<std::vector<Address>> name = resolve("localhost:81");
    ASSERT_TRUE(name) << describe(name.error());
    EXPECT_TRUE(name.value().at(0).is_loopback());
    EXPECT_EQ(name.value().at(0).port, 81);
    EXPECT_EQ(resolve("localhost:99999").error(), NetError::bad_address);
    EXPECT_EQ(resolve("").error(), NetError::bad_address);
    EXPECT_EQ(resolve("no-such-name.invalid:1").error(), NetError::not_found);
}

}  // namespace
}  // namespace shoal::net::impl
