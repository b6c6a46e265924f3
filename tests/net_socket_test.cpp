#include "net/socket.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "net_world.h"

namespace shoal::net {
namespace {

Time real_now() {
    return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

/// The one place with real sockets and real time: a whole session over loopback.
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
            host.send_payload(at_server.newest, as_bytes("state"), 7, now);
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
    EXPECT_NE(Socket::open(loopback).error(), NetError::none);  // a reason, not a crash
}

TEST(Socket, DualStackServesIpv4) {
    const Address loopback = Address::ipv4(127, 0, 0, 1, 0);
    if (has_ipv6()) return talk(Address::any(0), loopback, Address::any_ipv4(0));
    talk(Address::any_ipv4(0), loopback, Address::any_ipv4(0));  // what a server falls back to
}

TEST(Socket, ErrorsAreResults) {
    Result<Socket> socket = Socket::open(Address::ipv4(127, 0, 0, 1, 0));
    ASSERT_TRUE(socket);
    std::array<std::byte, 2000> buffer{};
    Address from;
    EXPECT_EQ(socket.value().receive(buffer, from).error(), NetError::would_block);
    EXPECT_EQ(Socket::open(socket.value().local_address().value()).error(), NetError::address_in_use);
    EXPECT_EQ(Socket::open(Address::ipv4(8, 8, 8, 8, 1)).error(), NetError::bad_address);
    EXPECT_EQ(Socket::open(Address()).error(), NetError::bad_address);
    EXPECT_EQ(socket.value().try_send(Address::any(5), buffer), NetError::bad_address);
    const std::vector<std::byte> huge(70'000);
    EXPECT_EQ(socket.value().try_send(Address::ipv4(127, 0, 0, 1, 9), huge), NetError::too_large);
    Socket moved = std::move(socket.value());
    EXPECT_TRUE(moved.local_address());
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
}  // namespace shoal::net
