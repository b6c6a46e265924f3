#include "net/socket/network_thread.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <ctime>
#include <deque>

#include "tests/net/support/real_socket.h"
#include "tests/net/support/world.h"
#include "tests/support/allocations.h"

namespace shoal::net::impl {
namespace {

std::unique_ptr<NetworkThread> start(std::size_t ring_datagrams = 1024,
                                     std::function<Time()> clock = real_now) {
    NetworkThreadConfig config;
    config.ring_datagrams = ring_datagrams;
    return std::move(NetworkThread::start(open_socket(), std::move(clock), config).value());
}

/// Records the datagrams that it receives.
struct Catcher final : Endpoint {
    struct Arrival {
        Address from;
        std::string bytes;
        Time time;
    };
    std::deque<Arrival> arrivals;

    void receive(const Address& from, std::span<const std::byte> datagram, Time now) override {
        arrivals.push_back({from, as_text(datagram), now});
    }
    void update(Time) override {}
    void flush(Time) override {}
    Connection* connection_of(PeerId) const override { return nullptr; }
};

/// Receives until the inbox has `count` datagrams, at most ten seconds.
void fetch(NetworkThread& thread, Catcher& inbox, std::size_t count) {
    for (const Time end = real_now() + 10s; inbox.arrivals.size() < count && real_now() < end;) {
        thread.wait(end - real_now());
        thread.receive_all(inbox, real_now());
    }
    ASSERT_EQ(inbox.arrivals.size(), count);
}

/// A session where both sides have a network thread: connect, state, its fate, a message, disconnect.
TEST(NetworkThread, CarriesASession) {
    const std::unique_ptr<NetworkThread> server_thread = start(), client_thread = start();
    Recorder at_server, at_client;
    Host host(host_config(), at_server, *server_thread);
    Client client(client_config(), at_client, *client_thread);
    client.connect(server_thread->local_address().value(), as_bytes("hi"), real_now());
    bool has_asked = false;
    for (const Time end = real_now() + 10s; at_server.disconnects.empty() && real_now() < end;) {
        const Time now = real_now();
        server_thread->receive_all(host, now);
        client_thread->receive_all(client, now);
        host.update(now);
        client.update(now);
        if (!has_asked && host.is_connected(at_server.newest)) {
            has_asked = true;
            at_server.send(host, at_server.newest, as_bytes("state"), now);
            EXPECT_EQ(client.send_message(client.server(), Channel::reliable, as_bytes("hello")),
                      SendResult::queued);
        }
        if (!at_server.fates.empty() && !at_server.messages.empty())
            client.disconnect(client.server(), DisconnectReason::closed, "done", now);
        host.flush(now);
        client.flush(now);
        server_thread->flush();
        client_thread->flush();
        server_thread->wait(1ms);
    }
    ASSERT_EQ(at_client.payloads.size(), 1u);
    EXPECT_EQ(at_client.payloads[0].second, "state");
    ASSERT_EQ(at_server.fates.size(), 1u);
    EXPECT_TRUE(at_server.fates[0].delivered);
    EXPECT_EQ(at_server.texts(Channel::reliable), std::vector<std::string>{"hello"});
    EXPECT_EQ(at_server.last_text, "done");
}

// Each datagram is answered by another one, so the thread must wake the game and the game the thread.
TEST(NetworkThread, WakesTheGameAndIsWokenWithoutAllocating) {
    const std::unique_ptr<NetworkThread> here = start(), there = start();
    struct Echo final {
        NetworkThread& thread;
        Catcher inbox;
    } a{*here, {}}, b{*there, {}};
    std::size_t before = 0;
    for (int round = 0; round < 500; ++round) {
        if (round == 100) before = test::allocations();
        for (Echo* from : {&a, &b}) {
            Echo& to = from == &a ? b : a;
            from->thread.send(to.thread.local_address().value(), as_bytes("ping"));
            from->thread.flush();
            fetch(to.thread, to.inbox, 1);
            EXPECT_EQ(to.inbox.arrivals[0].bytes, "ping");
            EXPECT_EQ(to.inbox.arrivals[0].from, from->thread.local_address().value());
            to.inbox.arrivals.clear();
        }
    }
    EXPECT_EQ(test::allocations(), before);
}

TEST(NetworkThread, ArrivalTimesLieBetweenTwoTimesOfTheGame) {
    std::atomic<Time::rep> clock{1000};
    const std::unique_ptr<NetworkThread> thread = start(16, [&] { return Time(clock.load()); });
    const Address address = thread->local_address().value();
    Socket peer = open_socket();
    Catcher inbox;
    const auto arrive = [&](std::string_view text, Time at) {
        clock = at.count();
        peer.send(address, as_bytes(text));
        ASSERT_TRUE(thread->wait(10s));
    };
    arrive("when it came", Time(1500));
    clock = 5000;
    EXPECT_EQ(thread->receive_all(inbox, Time(2000)), 1u);
    arrive("before the last tick", Time(1900));
    EXPECT_EQ(thread->receive_all(inbox, Time(3000)), 1u);
    arrive("after this tick", Time(4500));
    EXPECT_EQ(thread->receive_all(inbox, Time(4000)), 1u);
    EXPECT_EQ(thread->receive_all(inbox, Time(4000)), 0u);
    ASSERT_EQ(inbox.arrivals.size(), 3u);
    EXPECT_EQ(inbox.arrivals[0].time, Time(1500));
    EXPECT_EQ(inbox.arrivals[1].time, Time(2000));
    EXPECT_EQ(inbox.arrivals[2].time, Time(4000));
    EXPECT_EQ(inbox.arrivals[2].from, peer.local_address().value());
}

TEST(NetworkThread, CountsDatagramsThatTheFullQueueDropped) {
    const std::unique_ptr<NetworkThread> thread = start(4);
    const Address address = thread->local_address().value();
    Socket peer = open_socket();
    for (char letter = 'a'; letter < 'a' + 20; ++letter) peer.send(address, as_bytes({&letter, 1}));
    const Time end = real_now() + 10s;
    while (thread->stats().receive_overflow < 16 && real_now() < end) std::this_thread::yield();
    EXPECT_EQ(thread->stats().receive_overflow, 16u);
    Catcher inbox;
    EXPECT_EQ(thread->receive_all(inbox, real_now(), 3), 3u);
    EXPECT_EQ(thread->receive_all(inbox, real_now()), 1u);
    peer.send(address, as_bytes("z"));  // the queue has room again
    fetch(*thread, inbox, 5);
    std::string text;
    for (const Catcher::Arrival& arrival : inbox.arrivals) text += arrival.bytes;
    EXPECT_EQ(text, "abcdz");
    thread->stop();
    EXPECT_EQ(thread->stats().socket.received, 21u);
}

TEST(NetworkThread, CountsDatagramsThatItCannotSend) {
    const std::unique_ptr<NetworkThread> thread = start(4);
    const Socket peer = open_socket();
    const Address address = peer.local_address().value();
    thread->send(address, std::vector<std::byte>(kMaxDatagramBytes + 1));
    EXPECT_EQ(thread->stats().send_overflow, 1u);
    thread->send(Address(), as_bytes("to nobody"));
    thread->stop();
    EXPECT_EQ(thread->stats().socket.send_unreachable, 1u);
    for (int i = 0; i < 10; ++i) thread->send(address, as_bytes("nobody fetches these"));
    EXPECT_EQ(thread->stats().send_overflow, 7u);
    thread->flush();
    EXPECT_FALSE(wait_readable(peer, 0s));
}

TEST(NetworkThread, SendsQueuedDatagramsBeforeItStops) {
    const std::unique_ptr<NetworkThread> thread = start();
    Socket peer = open_socket();
    for (int i = 0; i < 100; ++i) thread->send(peer.local_address().value(), as_bytes("last words"));
    thread->stop();
    thread->stop();
    EXPECT_EQ(thread->stats().socket.sent, 100u);
    std::array<std::byte, 100> buffer;
    Address from;
    int count = 0;
    while (wait_readable(peer, count < 100 ? Duration(10s) : Duration(0))) {
        ASSERT_TRUE(peer.receive(buffer, from));
        count += 1;
    }
    EXPECT_EQ(count, 100);
    EXPECT_EQ(from, thread->local_address().value());
}

TEST(NetworkThread, CanStartAndStopDuringTraffic) {
    Socket peer = open_socket();
    for (int round = 0; round < 50; ++round) {
        const std::unique_ptr<NetworkThread> thread = start(8);
        const Address address = thread->local_address().value();
        for (int i = 0; i < 20; ++i) {
            peer.send(address, as_bytes("in"));
            thread->send(peer.local_address().value(), as_bytes("out"));
            if (i % 4 == 0) thread->flush();
        }
        if (round % 2 == 0) thread->stop();
    }
}

TEST(NetworkThread, UsesNoCpuTimeWhileNothingHappens) {
    const std::unique_ptr<NetworkThread> thread = start();
    EXPECT_FALSE(thread->wait(-1s));
    const std::clock_t before = std::clock();
    EXPECT_FALSE(thread->wait(250ms));
    EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 10);
}

// Phones break the sockets of a game in the background: every call fails then.
TEST(NetworkThread, DoesNotLoopOnABrokenSocket) {
    Socket socket = open_socket();
    const int handle = static_cast<int>(socket.handle());
    const std::unique_ptr<NetworkThread> thread =
        std::move(NetworkThread::start(std::move(socket), real_now).value());
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(dup2(ends[0], handle), handle);
    const Time begin = real_now();
    EXPECT_FALSE(thread->wait(450ms));
    thread->send(Address::ipv4(127, 0, 0, 1, 9), as_bytes("into nothing"));
    thread->stop();
    EXPECT_GE(thread->stats().socket.receive_failed, 1u);
    EXPECT_LE(static_cast<std::int64_t>(thread->stats().socket.receive_failed),
              (real_now() - begin) / 100ms + 2);
    EXPECT_EQ(thread->stats().socket.send_failed, 1u);
    close(ends[0]);
    close(ends[1]);
}

}  // namespace
}  // namespace shoal::net::impl
