#include "net/socket/bad_network.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/net/support/addresses.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

/// The result of a session over a bad network, with two clients and a host in one process.
struct Outcome {
    std::vector<std::string> messages[2];
    std::vector<std::pair<std::uint64_t, bool>> fates;
    Duration rtt{0};
    LinkStats to_server;
    bool operator==(const Outcome& other) const {
        return std::ranges::equal(messages, other.messages) && fates == other.fates && rtt == other.rtt &&
               to_server.lost == other.to_server.lost && to_server.offered == other.to_server.offered;
    }
};

Outcome play(std::uint64_t seed) {
    Recorder at_server, at_client[2];
    const Address home[2] = {Address::ipv4(10, 0, 0, 2, 5), Address::parse("[fd00::1]:6").value()};

    BadNetwork network({.latency = 50ms, .loss = 0.05}, seed);
    Host host(host_config(), at_server, network.at(kServer));
    Client first(client_config(), at_client[0], network.at(home[0]));
    Client second(client_config(2), at_client[1], network.at(home[1]));
    Client* const clients[2] = {&first, &second};
    for (Client* client : clients) client->connect(kServer, {}, Time(0));
    for (Time now{0}; now < 10s; now += 10ms) {
        network.receive_all(kServer, host, now);
        host.update(now);
        for (std::size_t i = 0; i < 2; ++i) {
            network.receive_all(home[i], *clients[i], now);
            clients[i]->update(now);
            const PeerId server = clients[i]->server();
            if (clients[i]->is_connected(server) && now % 100ms == 0ms)
                (void)clients[i]->send_message(server, Channel::reliable, as_bytes(i == 0 ? "a" : "b"));
            if (clients[i]->is_connected(server)) {
                at_client[i].send(*clients[i], server, as_bytes("state"), now);
            } else {
                clients[i]->flush(now);
            }
        }
        host.flush(now);
    }
    EXPECT_TRUE(std::ranges::count(home, host.address(at_server.newest)) == 1);
    Outcome result;
    for (const std::string& text : at_server.texts(Channel::reliable))
        result.messages[text == "a" ? 0 : 1].push_back(text);
    for (const PacketFate& fate : at_client[0].fates) result.fates.push_back({fate.number, fate.delivered});
    result.rtt = first.stats(first.server()).rtt;
    result.to_server = network.in(kServer).stats();
    EXPECT_EQ(network.out().stats().offered, 0u);
    return result;
}

TEST(BadNetwork, ConnectsEndpointsOfOneProgram) {
    const Outcome outcome = play(1);
    for (const auto& messages : outcome.messages) EXPECT_GT(messages.size(), 80u);
    EXPECT_GE(outcome.rtt, 100ms);
    EXPECT_LE(outcome.rtt, 130ms);
    const auto lost = std::ranges::count(outcome.fates, false, &std::pair<std::uint64_t, bool>::second);
    EXPECT_GT(lost, 10);
    EXPECT_NEAR(double(outcome.to_server.lost) / double(outcome.to_server.offered), 0.05, 0.02);
}

TEST(BadNetwork, SameSeedGivesTheSameSession) {
    const Outcome outcome = play(1);
    EXPECT_TRUE(outcome == play(1));
    EXPECT_FALSE(outcome == play(2));
}

TEST(BadNetwork, DelaysBothDirectionsOfASocket) {
    const Address loopback = Address::ipv4(127, 0, 0, 1, 0);
    Socket near = std::move(Socket::open(loopback).value()), far = std::move(Socket::open(loopback).value());
    const Address near_address = near.local_address().value(), far_address = far.local_address().value();
    BadNetwork network(near, {.latency = 30ms}, 1);
    network.in().set_config({.latency = 50ms});
    Recorder recorder;
    Host host(host_config(), recorder, network);  // drops the datagrams and counts them
    EXPECT_EQ(network.receive_all(near, host, 0ms), 0u);
    EXPECT_EQ(network.next_due(1s), 1s);
    network.send(far_address, as_bytes("out"));
    for (const char* text : {"in 1", "in 2", "in 3"}) far.send(near_address, as_bytes(text));
    ASSERT_TRUE(wait_readable(near, 10s));
    EXPECT_EQ(network.receive_all(near, host, 5ms), 0u);
    EXPECT_EQ(network.next_due(1s), 30ms);

    network.flush(29ms);
    EXPECT_FALSE(wait_readable(far, 0ms));
    network.flush(30ms);
    EXPECT_TRUE(wait_readable(far, 10s));
    EXPECT_EQ(network.next_due(1s), 55ms);

    EXPECT_EQ(network.receive_all(near, host, 54ms), 0u);
    EXPECT_EQ(network.receive_all(near, host, 55ms, 2), 2u);
    EXPECT_EQ(network.receive_all(near, host, 56ms), 1u);
    EXPECT_EQ(network.in().stats().delivered, 3u);
    EXPECT_EQ(network.out().stats().delivered, 1u);
}

TEST(BadNetwork, DropsDatagramsToUnknownAddresses) {
    BadNetwork network({}, 1);
    Recorder recorder;
    Host host(host_config(), recorder, network);  // drops the datagrams and counts them
    Sink& here = network.at(kServer);
    EXPECT_EQ(&network.at(kServer), &here);
    here.send(Address::ipv4(10, 0, 0, 9, 1), as_bytes("lost"));
    here.send(kServer, as_bytes("to myself"));
    EXPECT_EQ(network.receive_all(kServer, host, 0ms), 1u);
    EXPECT_EQ(network.next_due(1s), 1s);
}

}  // namespace
}  // namespace shoal::net::impl
