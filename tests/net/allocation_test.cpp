#include <gtest/gtest.h>

#include <utility>

#include "tests/net/support/world.h"
#include "tests/support/allocations.h"

namespace shoal::net::impl {
namespace {

/// Counts calls and stores nothing.
struct Counter : Handler {
    bool on_payload(PeerId, std::uint64_t, std::span<const std::byte> bytes, Time) override {
        larges += bytes.size() > kMaxPayloadBytes;
        return ++payloads > 0;
    }
    void on_message(PeerId, Channel, std::span<const std::byte> bytes) override {
        messages += 1;
        large_messages += bytes.size() > kMaxMessageBytes;
    }
    void on_fate(PeerId, const PacketFate&) override { fates += 1; }
    void on_connected(PeerId peer) override { newest = peer; }
    std::size_t write_payload(PeerId, PayloadTurn& turn) override {
        if (!turn.may_be_large && to_send.size() > turn.room.size()) return 0;
        const std::string_view payload = std::exchange(to_send, {});
        if (payload.size() > turn.room.size())
            turn.large = as_bytes(payload);
        else if (!payload.empty())
            std::memcpy(turn.room.data(), payload.data(), payload.size());
        return payload.size();
    }
    std::string_view to_send;
    PeerId newest;
    std::uint64_t payloads = 0, larges = 0, messages = 0, large_messages = 0, fates = 0;
};

// Goal: once all buffers have grown, packets cause no allocation, also with loss, repeats and reordering.
TEST(Net, SteadyStateDoesNotAllocate) {
    LinkConfig link;
    link.latency = 30ms;
    link.jitter = 10ms;
    link.loss = 0.05;
    link.duplicate = 0.05;
    link.reorder = 0.05;
    LinkConditioner up(link, 1), down(link, 2);
    struct Into : Sink {
        void send(const Address& to, std::span<const std::byte> bytes) override {
            link->push(from, to, bytes, *now);
        }
        LinkConditioner* link = nullptr;
        Address from;
        Time* now = nullptr;
    };
    Time now = 1s;
    const Address server_address = Address::ipv4(1, 1, 1, 1, 1);
    const Address client_address = Address::ipv4(2, 2, 2, 2, 2);
    Into server_sink, client_sink;
    server_sink.link = &down;
    server_sink.from = server_address;
    client_sink.link = &up;
    client_sink.from = client_address;
    server_sink.now = client_sink.now = &now;
    Counter at_server, at_client;
    Host host(host_config(), at_server, server_sink);
    Client client(client_config(), at_client, client_sink);
    client.connect(server_address, {}, now);

    LinkConditioner::Datagram datagram;
    const std::string state(900, 's');
    const std::string message(40, 'm');
    const std::string large(6'000, 'l');
    const auto run = [&](int ticks) {
        for (int tick = 0; tick < ticks; ++tick) {
            now += 16ms;
            while (up.pop(now, datagram)) host.receive(datagram.from, datagram.bytes, now);
            while (down.pop(now, datagram)) client.receive(datagram.from, datagram.bytes, now);
            host.update(now);
            client.update(now);
            at_server.to_send = tick % 50 ? state : large;
            at_client.to_send = message;
            (void)host.send_message(at_server.newest, Channel::reliable, as_bytes(message));
            (void)host.send_message(at_server.newest, Channel::unreliable, as_bytes(message));
            (void)host.send_message(at_server.newest, latest_of(std::uint8_t(tick)), as_bytes(message));
            (void)host.send_message(at_server.newest, unordered().with(Weight::urgent), as_bytes(message));
            (void)host.send_message(at_server.newest, ordered_by(std::uint32_t(tick)), as_bytes(message));
            (void)host.send_message(at_server.newest, unordered().with(Weight::bulk), as_bytes(state));
            if (tick % 50 == 0) (void)host.send_message(at_server.newest, Channel::reliable, as_bytes(large));
            (void)client.send_message(client.server(), Channel::reliable, as_bytes(message));
            host.flush(now);
            client.flush(now);
        }
    };
    // The number of buffers is that of the most messages ever waiting: a worse path makes them grow first.
    LinkConfig worse = link;
    worse.loss = 0.2;
    up.set_config(worse);
    down.set_config(worse);
    run(3000);
    ASSERT_GT(at_client.payloads, 2000u);
    worse.loss = 1;
    up.set_config(worse);
    down.set_config(worse);
    run(300);
    up.set_config(link);
    down.set_config(link);
    for (int i = 0; i < 200; ++i) {  // makes room for so many datagrams in flight
        up.push(client_address, server_address, as_bytes("x"), now);
        down.push(server_address, client_address, as_bytes("x"), now);
    }
    run(1000);
    const std::size_t before = test::allocations();
    run(3000);
    EXPECT_EQ(test::allocations() - before, 0u);
    EXPECT_GT(at_client.payloads, 5000u);
    EXPECT_GT(at_client.larges, 50u);
    EXPECT_GT(at_client.messages, 5000u);
    EXPECT_GT(at_client.large_messages, 50u);
    EXPECT_GT(at_server.fates, 5000u);
}

}  // namespace
}  // namespace shoal::net::impl
