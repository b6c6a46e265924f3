// What players did shortly before they lost their connection, and what happens to them while they are away:
// actions, inputs, messages, entities and values of their own.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/replication/support/short_timeouts.h"

namespace shoal::replication::impl::interrupted_test {
namespace {

using namespace std::chrono_literals;
using sim::Position;

struct Hail {
    std::uint32_t number = 0;
};
struct Signal {
    std::uint32_t number = 0;
};
struct Tack {
    std::int8_t way = 0;
};

/// A server with actions, messages and inputs.
struct Busy {
    explicit Busy(const ServerOptions& options = short_timeouts()) : link(options, declared()) {
        link.server.on_join([this](PlayerId player) {
            id = player;
            return ship = link.world.spawn(Tack{}, Replicated{});
        });
        link.server.on<Signal>(
            [this](const Signal& signal, const Call&) { signals.push_back(signal.number); });
        link.server.on<Hail>([this](PlayerId, const Hail&) { ++hails; });
        guest = &link.add(link.schema, short_timeouts_of_client());
        link.run(40);
        EXPECT_EQ(guest->client.phase(), Phase::playing);
    }
    static Schema declared() {
        Schema schema;
        schema.input<Tack>("tack", bounded(-1, 1));
        schema.action<Signal>("signal", at_most(100));
        schema.message<Hail>("hail");
        return schema;
    }
    /// Packets of the client arrive at the server for a tick, and no answer comes back. Then silence.
    void lose() {
        link.now += 17ms;
        guest->client.update(link.now);
        while (!link.under_way.empty()) {
            const Link::Datagram datagram = link.under_way.front();
            link.under_way.pop_front();
            if (datagram.to == link.wire.address)
                link.server.host().receive(datagram.from, datagram.bytes, link.now);
        }
        link.server.tick(link.now);
        link.under_way.clear();
        link.is_cut = true;
        link.run(90);
        link.is_cut = false;
        EXPECT_EQ(link.server.phase(id), Phase::away);
    }

    Link link;
    Link::Player* guest = nullptr;
    PlayerId id;
    ecs::Entity ship;
    std::vector<std::uint32_t> signals;
    int hails = 0;
};

TEST(Resume, AnActionWhoseAnswerIsLostWithTheConnectionIsDoneOnce) {
    Busy busy;
    Link& link = busy.link;
    Client& client = busy.guest->client;
    client.act(Signal{7});
    busy.lose();
    EXPECT_EQ(busy.signals, std::vector<std::uint32_t>{7});
    EXPECT_EQ(client.action_stats().accepted, 0u);
    client.connect(link.wire.address, client.ticket());
    link.run(60);
    ASSERT_EQ(client.phase(), Phase::playing);
    EXPECT_EQ(client.action_stats().accepted, 1u);
    client.act(Signal{8});
    link.run(10);
    EXPECT_EQ(busy.signals, (std::vector<std::uint32_t>{7, 8}));
    // Another process with the ticket goes on as well.
    Link::Player& other = link.add(link.schema, short_timeouts_of_client());
    other.client.connect(link.wire.address, client.ticket());
    link.run(60);
    ASSERT_EQ(other.client.phase(), Phase::playing);
    other.client.act(Signal{9});
    link.run(10);
    EXPECT_EQ(busy.signals, (std::vector<std::uint32_t>{7, 8, 9}));
    EXPECT_EQ(other.client.action_stats().accepted, 1u);
}

// Events that wait for a player would end its seat, if there are too many.
TEST(Resume, ActionEventsOfTheTimeInWhichThePlayerIsAwayAreNeverHeard) {
    Busy busy;
    Link& link = busy.link;
    Client& client = busy.guest->client;
    std::vector<std::uint32_t> heard;
    client.on<Signal>([&](const Signal& signal, const Call&) { heard.push_back(signal.number); });
    link.server.act(Signal{1});
    link.run(10);
    EXPECT_EQ(heard, std::vector<std::uint32_t>{1});
    busy.lose();
    for (int tick = 0; tick < 30; ++tick) {
        for (int i = 0; i < 1'000; ++i) link.server.act(Signal{0xffff'ffff});
        link.run(1);
    }
    EXPECT_EQ(link.server.phase(busy.id), Phase::away);
    client.connect(link.wire.address, client.ticket());
    link.run(60);
    ASSERT_EQ(client.phase(), Phase::playing) << client.failure();
    EXPECT_EQ(heard, std::vector<std::uint32_t>{1});
    link.server.act(Signal{3});
    link.run(10);
    EXPECT_EQ(heard, (std::vector<std::uint32_t>{1, 3}));
}

TEST(Resume, InputsOfAPlayerThatIsAwayAreNeutralAndItsMessagesAreForgotten) {
    ServerOptions options = short_timeouts();
    options.messages.messages_per_s = 10;
    options.messages.burst_s = 0.5;
    options.messages.max_wait = 10s;
    Busy busy(options);
    Link& link = busy.link;
    Client& client = busy.guest->client;
    for (int i = 0; i < 60; ++i) {
        client.input(Tack{1});
        link.step();
    }
    EXPECT_EQ(link.world.get<Tack>(busy.ship).way, 1);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(client.send(Hail{}), net::SendResult::queued);
    busy.lose();
    EXPECT_EQ(link.world.get<Tack>(busy.ship).way, 0);
    EXPECT_EQ(link.server.stats(busy.id).messages_waiting, 0u);
    const int before = busy.hails;
    EXPECT_LT(before, 40);
    link.run(60);
    EXPECT_EQ(busy.hails, before);
    client.connect(link.wire.address, client.ticket());
    for (int i = 0; i < 90; ++i) {
        client.input(Tack{-1});
        link.step();
    }
    EXPECT_EQ(link.world.get<Tack>(busy.ship).way, -1);
}

struct Ensign {
    std::string text;
};

// A refusal that is lost with the connection would leave the client with a value that only it has.
TEST(Resume, AValueOfTheOwnerIsJudgedAgainIfTheRefusalMayBeLost) {
    Schema schema;
    schema.component<Ensign>("ensign", max_length(16), from_owner());
    schema.tag<Mine>("mine", to_owner());
    Link link(short_timeouts(), std::move(schema));
    ecs::Entity ship;
    link.server.on_join([&](PlayerId) { return ship = link.world.spawn(Ensign{"red"}, Replicated{}); });
    link.server.check<Ensign>([](PlayerId, ecs::Entity, const Ensign& ensign) {
        return std::string(ensign.text == "black" ? "no pirates" : "");
    });
    Link::Player& player = link.add();
    link.run(40);
    ASSERT_TRUE(player.client.player());
    player.world.set(player.client.player(), Ensign{"blue"});
    link.run(10);
    EXPECT_EQ(link.world.get<Ensign>(ship).text, "blue");
    player.world.set(player.client.player(), Ensign{"black"});
    player.client.update(link.now);
    while (!link.under_way.empty()) {  // it arrives, and the answers do not
        const Link::Datagram datagram = link.under_way.front();
        link.under_way.pop_front();
        if (datagram.to == link.wire.address)
            link.server.host().receive(datagram.from, datagram.bytes, link.now);
    }
    link.now += 17ms;
    link.server.tick(link.now);
    link.under_way.clear();
    EXPECT_EQ(player.world.get<Ensign>(player.client.player()).text, "black");
    player.client.connect(link.wire.address, player.client.ticket());
    link.run(60);
    ASSERT_EQ(player.client.phase(), Phase::playing);
    EXPECT_EQ(link.world.get<Ensign>(ship).text, "blue");
    EXPECT_EQ(player.world.get<Ensign>(player.client.player()).text, "blue");
    player.world.set(player.client.player(), Ensign{"white"});
    link.run(10);
    EXPECT_EQ(link.world.get<Ensign>(ship).text, "white");
}

}  // namespace
}  // namespace shoal::replication::impl::interrupted_test
