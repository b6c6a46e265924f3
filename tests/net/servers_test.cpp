// Servers with several addresses, and local errors: the system says why datagrams do not leave or arrive.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/net/support/real_socket.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

const Address kDead = Address::parse("[2001:db8::1]:7777").value();
const Address kAlive = Address::ipv4(10, 0, 0, 9, 7777);
const Address kHome = Address::ipv4(10, 0, 0, 1, 5000);

/// One host at kAlive and one client, whose system may refuse addresses.
struct Journey {
    struct Gate : Sink {
        Gate(Sink& sink) : next(sink) {}
        void send(const Address& to, std::span<const std::byte> datagram) override {
            sent[to] += 1;
            Request request;
            if (!read(datagram, request)) nonce = request.client_nonce;
            if (const auto found = errors.find(to); found != errors.end() && !is_late) return;
            next.send(to, datagram);
        }
        NetError error_to(const Address& to) const override {
            const auto found = errors.find(to);
            return found != errors.end() && sent.contains(to) ? found->second : NetError::none;
        }
        Sink& next;
        std::map<Address, NetError> errors;
        std::map<Address, int> sent;
        std::uint64_t nonce = 0;  // of the last request
        bool is_late = false;     // an ICMP error: the datagram leaves
    };
    explicit Journey(Duration latency = 20ms) : network({.latency = latency}, 1) {}

    /// Runs until the client is connected or idle. Returns how long it took.
    Duration run(Duration at_most = 30s) {
        const Time begin = now;
        while (client.state() == Client::State::connecting && now < begin + at_most) step();
        return now - begin;
    }
    void step() {
        now += 5ms;
        network.receive_all(kAlive, host, now);
        network.receive_all(kHome, client, now);
        host.update(now), client.update(now);
        host.flush(now), client.flush(now);
    }

    BadNetwork network;
    Recorder at_host, at_client;
    Gate gate{network.at(kHome)};
    Host host{host_config(), at_host, network.at(kAlive)};
    Client client{client_config(), at_client, gate};
    Time now = 1s;
};

TEST(Servers, EachAddressIsTriedInItsTurn) {
    for (const Duration latency : {5ms, 50ms, 400ms})
        for (std::size_t place = 0; place < 4; ++place) {
            SCOPED_TRACE(testing::Message() << latency.count() << " us, alive at " << place);
            Journey journey(latency);
            std::vector<Address> all;
            for (std::uint16_t i = 0; i < 4; ++i) all.push_back(kDead), all.back().port = i;
            all[place] = kAlive;
            journey.client.connect(all, {}, journey.now);
            EXPECT_LE(journey.run(), 5 * latency + 10ms + place * 400ms);
            ASSERT_EQ(journey.client.state(), Client::State::connected);
            ASSERT_EQ(journey.client.send_message(journey.client.server(), unordered(), as_bytes("m")),
                      SendResult::queued);
            for (int i = 0; i < 400; ++i) journey.step();
            EXPECT_EQ(journey.at_host.messages.size(), 1u);
            EXPECT_EQ(journey.at_host.connects.size(), 1u);
        }
}

// Goal: an address that the system refuses costs no time, whether it says so at once or when an ICMP error
// comes back.
TEST(Servers, AnAddressThatTheSystemRefusesIsPassedOver) {
    for (const NetError error : {NetError::wrong_family, NetError::unreachable, NetError::port_closed,
                                 NetError::too_large, NetError::permission})
        for (const bool is_late : {false, true}) {
            Journey journey;
            journey.gate.errors = {{kDead, error}};
            journey.gate.is_late = is_late;
            journey.client.connect(std::vector{kDead, kDead, kAlive}, {}, journey.now);
            EXPECT_LE(journey.run(), 100ms) << describe(error);
            EXPECT_EQ(journey.client.state(), Client::State::connected) << describe(error);
        }
}

TEST(Servers, ForgedCookiesOfADeadAddressDoNotKeepAClientOut) {
    Journey journey;
    journey.client.connect(std::vector{kDead, kAlive}, {}, journey.now);
    Entropy random(seed_of(5));
    while (journey.client.state() == Client::State::connecting && journey.now < 12s) {
        for (int i = 0; i < 10; ++i) {
            std::array<std::byte, kMaxDatagramBytes> buffer;
            journey.client.receive(kDead, write(CookieReply{journey.gate.nonce, random.next()}, buffer),
                                   journey.now);
        }
        for (int i = 0; i < 20; ++i) journey.step();
    }
    EXPECT_EQ(journey.client.state(), Client::State::connected);
}

// What each local error prints, and when: the table of the README. Only a wrong family is final.
TEST(Servers, AFailureNamesTheLocalError) {
    struct Case {
        NetError error;
        std::string_view says;
    };
    for (const Case& each : {Case{NetError::wrong_family, "the socket is of another address family"},
                             Case{NetError::unreachable, "no route to this address"},
                             Case{NetError::port_closed, "nothing listens on this port"},
                             Case{NetError::too_large, "the path carries no datagrams of this size"},
                             Case{NetError::permission, "not permitted"}}) {
        const bool is_final = each.error == NetError::wrong_family;
        Journey journey;
        journey.gate.errors = {{kDead, each.error}};
        journey.client.connect(kDead, {}, journey.now);
        const Duration time = journey.run();
        EXPECT_EQ(time, is_final ? 10ms : 10s) << each.says;
        EXPECT_EQ(journey.at_client.last_reason, DisconnectReason::unreachable);
        EXPECT_EQ(journey.at_client.last_text, kDead.to_string() + ": " + std::string(each.says));
        // It is not final: the client connects when the error is over.
        if (is_final) continue;
        Journey later;
        later.gate.errors = {{kAlive, each.error}};
        later.client.connect(kAlive, {}, later.now);
        later.run(3s);
        later.gate.errors.clear();
        EXPECT_LE(later.run(), 1s);
        EXPECT_EQ(later.client.state(), Client::State::connected);
        // It does not end a connection, because strangers can forge it, but its timeout names it.
        later.gate.errors = {{kAlive, each.error}};
        for (int i = 0; i < 1900; ++i) later.step();
        EXPECT_EQ(later.client.state(), Client::State::connected);
        for (int i = 0; i < 200; ++i) later.step();
        EXPECT_EQ(later.at_client.last_text,
                  "the server heard nothing from the client for 10.0 s; datagrams of the client: " +
                      std::string(each.says));
    }
    Journey all;
    all.gate.errors = {{kDead, NetError::unreachable}, {kAlive, NetError::port_closed}};
    all.client.connect(std::vector{kDead, kAlive}, {}, all.now);
    all.run();
    EXPECT_EQ(all.at_client.last_text,
              "[2001:db8::1]:7777: no route to this address; 10.0.0.9:7777: nothing listens on this port");
}

// The other side would refuse a longer text.
TEST(Servers, ALocalErrorMakesNoTextLongerThanTheLongest) {
    Journey journey;
    journey.client.connect(kAlive, {}, journey.now);
    journey.run();
    const std::string text(kMaxReasonBytes, 't');
    journey.gate.errors = {{kAlive, NetError::port_closed}};
    journey.gate.is_late = true;
    journey.client.disconnect(journey.client.server(), DisconnectReason::timed_out, text, journey.now);
    for (int i = 0; i < 10; ++i) journey.step();
    EXPECT_EQ(journey.at_client.last_text, text);
    EXPECT_EQ(journey.at_host.last_reason, DisconnectReason::timed_out);
    EXPECT_EQ(journey.at_host.last_text, text);
}

// With real sockets and a virtual clock.
TEST(Servers, ASocketNamesItsErrors) {
    Socket ipv4 = std::move(Socket::open(Address::any_ipv4(0)).value());
    const std::array<std::byte, 4> bytes{};
    const std::vector<std::byte> huge(70'000);
    const Address loopback6 = Address::parse("[::1]:9").value(), loopback4 = Address::ipv4(127, 0, 0, 1, 9);
    EXPECT_EQ(ipv4.try_send(loopback6, bytes), NetError::wrong_family);
    EXPECT_EQ(ipv4.error_to(loopback6), NetError::wrong_family);
    EXPECT_EQ(ipv4.error_to(loopback4), NetError::none);
    EXPECT_EQ(ipv4.try_send(loopback4, huge), NetError::too_large);
    EXPECT_EQ(ipv4.error_to(loopback4), NetError::too_large);
    if (Result<Socket> ipv6 = Socket::open(Address::parse("[::1]:0").value())) {
        EXPECT_EQ(ipv6.value().try_send(loopback4, bytes), NetError::wrong_family);
        EXPECT_EQ(ipv6.value().error_to(loopback4), NetError::wrong_family);
    }
    if (Result<Socket> dual = Socket::open(Address::any(0))) {
        EXPECT_NE(dual.value().try_send(loopback4, bytes), NetError::wrong_family);
    }
}

/// Connects to one of these addresses. Time passes only if it must.
std::string connect(const Servers& servers, Socket& socket, Host* host, Socket* at_host, Duration at_most) {
    Recorder recorder;
    Client client(client_config(), recorder, socket);
    Time now = 1s;
    client.connect(servers, {}, now);
    for (const Time end = now + at_most; now < end && client.state() == Client::State::connecting;) {
        now += 1ms;
        if (host) receive_all(*at_host, *host, now), host->update(now), host->flush(now);
        receive_all(socket, client, now);
        client.update(now);
        client.flush(now);
    }
    return client.state() == Client::State::connected ? "connected" : recorder.last_text;
}

#ifdef __linux__
TEST(Servers, AClosedPortIsNamedAndPassedOver) {
    const bool has_ipv6(Socket::open(Address::parse("[::1]:0").value()));
    for (const bool is_dual : {false, true}) {
        if (is_dual && !has_ipv6) continue;
        const Address any = is_dual ? Address::any(0) : Address::any_ipv4(0);
        Address closed = Address::ipv4(127, 0, 0, 1, 0);
        closed.port = Socket::open(closed).value().local_address().value().port;  // closed again
        Socket socket = std::move(Socket::open(any).value());
        EXPECT_EQ(connect(closed, socket, nullptr, nullptr, 11s),
                  closed.to_string() + ": nothing listens on this port");
        EXPECT_GT(socket.stats().receive_errors, 0u);
        EXPECT_FALSE(wait_readable(socket, 0s)) << "no report is left, which would wake each wait";

        Recorder at_server;
        Socket at_host = open_socket();
        Host host(host_config(), at_server, at_host);
        const Address alive = at_host.local_address().value();
        std::vector<Address> all = {closed, alive};
        if (is_dual) all.insert(all.begin(), Address::parse("[::1]:" + std::to_string(closed.port)).value());
        EXPECT_EQ(connect(all, socket, &host, &at_host, 50ms), "connected");
        EXPECT_EQ(socket.error_to(alive), NetError::none);
    }
}
#endif

}  // namespace
}  // namespace shoal::net::impl
