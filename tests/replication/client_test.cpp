#include "replication/client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "tests/replication/support/link.h"
#include "tests/replication/support/records.h"

namespace shoal::replication::impl {
namespace {

using sim::Position;

/// A host that sends any payloads.
class FalseServer final : public net::Handler {
public:
    explicit FalseServer(Link& in) : link(in), host(config(in.schema), *this, in.wire) {}
    static net::HostConfig config(const Schema& schema) {
        net::HostConfig out;
        out.protocol_id = 5;
        out.schema_hash = schema.hash();
        out.seed = seed_of(3);
        give_key(out);
        return out;
    }
    void on_connected(net::PeerId id) override { peer = id; }
    void on_disconnected(net::PeerId, net::DisconnectReason, std::string_view) override { gone = true; }
    void on_fate(net::PeerId, const net::PacketFate& fate) override { fates.push_back(fate); }
    void on_message(net::PeerId, net::Channel, std::span<const std::byte> message) override {
        messages.emplace_back(message.begin(), message.end());
    }
    void step() {
        link.now += std::chrono::milliseconds(17);
        for (int round = 0; round < 3; ++round)
            for (const Link::Datagram& datagram : std::exchange(link.under_way, {})) {
                if (datagram.to == link.wire.address) host.receive(datagram.from, datagram.bytes, link.now);
                for (const auto& player : link.players)
                    if (datagram.to == player->wire.address)
                        player->client.endpoint().receive(datagram.from, datagram.bytes, link.now);
            }
        host.update(link.now);
        host.flush(link.now);
        for (const auto& player : link.players) player->client.update(link.now);
    }
    void send(std::span<const std::byte> payload) {
        to_send.assign(payload.begin(), payload.end());
        host.flush(link.now);
        EXPECT_TRUE(to_send.empty());
    }
    std::size_t write_payload(net::PeerId, net::PayloadTurn& turn) override {
        const std::vector<std::byte> payload = std::exchange(to_send, {});
        std::copy(payload.begin(), payload.end(), turn.room.begin());
        return payload.size();
    }

    Link& link;
    net::Host host;
    net::PeerId peer;
    std::vector<std::byte> to_send;
    bool gone = false;
    std::vector<net::PacketFate> fates;
    std::vector<std::vector<std::byte>> messages;
};

TEST(Client, Rule04AMalformedPayloadEndsTheConnectionWithAReason) {
    Link link;
    FalseServer server(link);
    Link::Player& player = link.add();
    for (int i = 0; i < 10; ++i) server.step();
    ASSERT_TRUE(player.client.is_connected());
    const std::vector<std::byte> noise(40, std::byte{0xff});
    server.send(noise);
    for (int i = 0; i < 10; ++i) server.step();
    EXPECT_FALSE(player.client.is_connected());
    EXPECT_NE(player.client.failure().find("malformed state"), std::string::npos) << player.client.failure();
    EXPECT_EQ(player.listener.leaves, 1);
    EXPECT_TRUE(server.gone);
}

TEST(Client, Rule04ARefusedPayloadIsNotAcknowledgedAndARebaseIsRequested) {
    Link link;
    FalseServer server(link);
    Link::Player& player = link.add();
    for (int i = 0; i < 10; ++i) server.step();
    server.send(baseless(link.schema, 300));
    for (int i = 0; i < 120; ++i) server.step();
    EXPECT_TRUE(player.client.is_connected());
    ASSERT_EQ(server.fates.size(), 1u);
    EXPECT_FALSE(server.fates[0].delivered);
    EXPECT_EQ(player.client.stats().payloads_withheld, 1u);
    const std::vector<std::byte> rebase = write_control(Rebase{{300}});
    const std::vector<std::byte> ready = {std::byte{7}};
    EXPECT_EQ(server.messages, (std::vector<std::vector<std::byte>>{ready, rebase}));
    EXPECT_TRUE(player.client.receiver().decoder().rebases().empty());
}

// Goal: a request to rebase is kept while the message queue is full. Method: the game fills the queue once.
TEST(Client, ARebaseRequestWaitsWhileTheMessageQueueIsFull) {
    Link link;
    FalseServer server(link);
    Link::Player& player = link.add();
    for (int i = 0; i < 10; ++i) server.step();
    server.send(baseless(link.schema, 300));
    const std::vector<std::byte> big(900);
    const auto fill = [&] {
        for (const std::size_t size : {900u, 1u})
            while (player.client.send_message(net::Channel::reliable, std::span(big).first(size)) ==
                   net::SendResult::queued) {
            }
    };
    fill();
    server.step();
    EXPECT_EQ(player.client.receiver().decoder().rebases().size(), 1u)
        << "the queue is full: the request must wait";
    for (int i = 0; i < 400 && !player.client.receiver().decoder().rebases().empty(); ++i) server.step();
    EXPECT_TRUE(player.client.receiver().decoder().rebases().empty());
    for (int i = 0; i < 400; ++i) server.step();
    const std::vector<std::byte> rebase = write_control(Rebase{{300}});
    EXPECT_EQ(std::count(server.messages.begin(), server.messages.end(), rebase), 1);
}

// The client keeps a reference to its schema, and so does the server.
static_assert(std::is_constructible_v<Client, ecs::World&, const Schema&, net::Sink&, ClientOptions>);
static_assert(!std::is_constructible_v<Client, ecs::World&, Schema, net::Sink&, ClientOptions>);
static_assert(!std::is_constructible_v<Client, ecs::World&, const Schema, net::Sink&, ClientOptions>);
static_assert(std::is_constructible_v<Server, ecs::World&, const Schema&, net::Sink&, ServerOptions>);
static_assert(!std::is_constructible_v<Server, ecs::World&, Schema, net::Sink&, ServerOptions>);

TEST(Client, LearnsTheLengthOfATickAndTheRandomSeed) {
    ServerOptions options = Link::default_options();
    options.sender.tick_hz = 50;
    options.random_seed = 77;
    Link link(options);
    Link::Player& player = link.add();
    EXPECT_FALSE(player.client.welcome());
    link.run(20);
    ASSERT_TRUE(player.client.welcome());
    EXPECT_EQ(player.client.welcome()->tick_us, 20'000u);
    EXPECT_EQ(player.client.welcome()->random_seed, 77u);
    player.client.connect(link.wire.address);
    player.client.update(link.now);
    EXPECT_FALSE(player.client.welcome());
}

TEST(Client, ConnectingAgainDestroysTheOldReplicas) {
    Link link;
    for (int i = 0; i < 20; ++i) link.world.spawn(Replicated{}, Position{});
    Link::Player& player = link.add();
    const ecs::Entity own = player.world.spawn(Position{});
    for (int round = 0; round < 4; ++round) {
        link.run(20);
        EXPECT_TRUE(link.is_equal(player));
        EXPECT_EQ(player.world.size(), 21u);
        player.client.disconnect(link.now);
        EXPECT_FALSE(player.client.is_connected());
        link.run(round);
        player.client.connect(link.wire.address);
        player.client.update(link.now);
        EXPECT_EQ(player.world.size(), 1u);
    }
    EXPECT_TRUE(player.world.is_alive(own));
    EXPECT_EQ(player.listener.joins, player.listener.leaves);
}

TEST(Client, ConnectEndsTheFormerConnectionAtTheNextUpdate) {
    Link link;
    link.world.spawn(Replicated{}, Position{});
    Link::Player& player = link.add();
    link.run(20);
    player.client.connect(link.wire.address);
    EXPECT_EQ(player.world.size(), 1u) << "until the next update";
    player.client.update(link.now);
    EXPECT_EQ(player.world.size(), 0u);
    EXPECT_EQ(player.listener.leaves, 1);
    link.run(20);
    EXPECT_TRUE(link.is_equal(player));
    EXPECT_EQ(link.listener.joins, 2);
}

// The server takes nobody without a token.
TEST(Client, ConnectWithoutATokenForgetsTheTokenOfTheConnectBefore) {
    for (const bool has_token : {true, false}) {
        ServerOptions options = Link::default_options();
        options.host.tokens.backend_key = net::SecretKey(seed_of(9));
        options.host.tokens.servers = {net::Address::ipv4(10, 0, 0, 1, 7000)};
        const net::TokenRequest request{
            5, 42, 1000, options.host.tokens.servers, {}, net::public_key(net::impl::server_key())};
        const auto token = net::issue_token(request, options.host.tokens.backend_key, seed_of(10));
        ASSERT_TRUE(token);
        Link link(options);
        Link::Player& player = link.add();
        player.client.connect(link.wire.address, *token);
        if (!has_token) player.client.connect(link.wire.address);
        link.run(10);
        EXPECT_EQ(player.client.is_connected(), has_token);
        EXPECT_EQ(player.client.failure().find("token") != std::string::npos, !has_token);
    }
}

TEST(Client, ConnectsWithATokenAlone) {
    ServerOptions options = Link::default_options();
    options.host.tokens.backend_key = net::SecretKey(seed_of(9));
    options.host.tokens.servers = {net::Address::ipv4(10, 0, 0, 1, 7000)};
    const net::TokenRequest request{
        5, 42, 1000, options.host.tokens.servers, {}, net::public_key(net::impl::server_key())};
    const auto token = net::issue_token(request, options.host.tokens.backend_key, seed_of(10));
    ASSERT_TRUE(token);
    Link link(options);
    Link::Player& player = link.add();
    link.run(10);
    ASSERT_FALSE(player.client.is_connected());
    ASSERT_NE(player.client.failure(), "");
    player.client.connect(link.wire.address, *token);
    EXPECT_EQ(player.client.failure(), "");
    link.run(10);
    EXPECT_TRUE(player.client.is_connected());
    // Disconnecting before the update() that would connect.
    player.client.connect(link.wire.address, *token);
    player.client.disconnect(link.now);
    link.run(10);
    EXPECT_FALSE(player.client.is_connected());
    EXPECT_EQ(player.listener.leaves, 2) << "the refusal, and the connection";
}

TEST(Client, SaysOnceForEachConnectionThatItIsReady) {
    Link link;
    FalseServer server(link);
    ClientOptions options;
    options.is_ready_at_once = false;
    Link::Player& player = link.add(link.schema, options);
    const std::vector<std::byte> ready = {std::byte{7}};
    player.client.ready();
    for (int i = 0; i < 10; ++i) server.step();
    ASSERT_TRUE(player.client.is_connected());
    EXPECT_TRUE(server.messages.empty()) << "it was not connected";
    player.client.ready();
    player.client.ready();
    for (int i = 0; i < 10; ++i) server.step();
    player.client.ready();
    for (int i = 0; i < 10; ++i) server.step();
    EXPECT_EQ(server.messages, std::vector<std::vector<std::byte>>{ready});
    player.client.connect(link.wire.address);
    for (int i = 0; i < 10; ++i) server.step();
    ASSERT_TRUE(player.client.is_connected());
    player.client.ready();
    for (int i = 0; i < 10; ++i) server.step();
    EXPECT_EQ(server.messages, (std::vector<std::vector<std::byte>>{ready, ready}));
}

// State that arrived earlier would be forgotten with the world.
TEST(Client, WithATicketItIsReadyOnlyAfterTheAnswerToTheTicket) {
    Link link;
    FalseServer server(link);
    ClientOptions options;
    options.is_ready_at_once = false;
    Link::Player& player = link.add(link.schema, options);
    player.client.connect(link.wire.address, Ticket{PlayerId{1u << 16}, {}}.bytes());
    for (int i = 0; i < 10; ++i) server.step();
    ASSERT_TRUE(player.client.is_connected());
    player.client.ready();
    for (int i = 0; i < 10; ++i) server.step();
    EXPECT_TRUE(server.messages.empty());
    EXPECT_EQ(player.client.phase(), Phase::resuming);
    ASSERT_EQ(server.host.send_message(server.peer, net::Channel::reliable, write_control(Resumed{})),
              net::SendResult::queued);
    for (int i = 0; i < 10; ++i) server.step();
    EXPECT_EQ(server.messages, (std::vector<std::vector<std::byte>>{{std::byte{7}}}));
    EXPECT_EQ(player.client.phase(), Phase::waiting) << "it loads the world, as a new player";
}

TEST(Client, TheAnswerToATicketDoesNotMakeItReady) {
    Link link;
    FalseServer server(link);
    ClientOptions options;
    options.is_ready_at_once = false;
    Link::Player& player = link.add(link.schema, options);
    player.client.connect(link.wire.address, Ticket{PlayerId{1u << 16}, {}}.bytes());
    for (int i = 0; i < 10; ++i) server.step();
    ASSERT_EQ(server.host.send_message(server.peer, net::Channel::reliable, write_control(Resumed{})),
              net::SendResult::queued);
    for (int i = 0; i < 10; ++i) server.step();
    EXPECT_TRUE(server.messages.empty());
    player.client.ready();
    for (int i = 0; i < 10; ++i) server.step();
    EXPECT_EQ(server.messages, (std::vector<std::vector<std::byte>>{{std::byte{7}}}));
}

TEST(Client, WaitsForStateThenLoadsThenPlays) {
    Link link;
    FalseServer server(link);
    Link::Player& player = link.add();
    EXPECT_EQ(player.client.phase(), Phase::disconnected);
    for (int i = 0; i < 10; ++i) server.step();
    EXPECT_EQ(player.client.phase(), Phase::waiting);
    server.send(payload_of(link.schema, 5, {}));
    for (int i = 0; i < 3; ++i) server.step();
    EXPECT_EQ(player.client.phase(), Phase::loading);
    EXPECT_FALSE(player.client.player());
    ASSERT_EQ(server.host.send_message(server.peer, net::Channel::reliable, write_control(PlayerEntity{})),
              net::SendResult::queued);
    for (int i = 0; i < 3; ++i) server.step();
    EXPECT_EQ(player.client.phase(), Phase::playing);
    EXPECT_FALSE(player.client.player()) << "without an entity";
}

struct Gust {
    float x = 0;
};
struct Streamer {
    int colour = 0;
};
struct Sheet {
    std::int8_t pull = 0;
};

/// A client whose player owns an entity with all of these.
struct Dinghy {
    static Schema declared() {
        Schema schema;
        schema.component<Gust>("gust", linear());
        schema.component<Streamer>("streamer", from_owner());
        schema.input<Sheet>("sheet", bounded(-1, 1));
        return schema;
    }
    explicit Dinghy(const ClientOptions& options = {}) : player(link.add(link.schema, options)) {
        link.server.on_join([this](PlayerId player_id) {
            id = player_id;
            return boat = link.world.spawn(Gust{}, Streamer{}, Sheet{}, Replicated{});
        });
        run(60);
        EXPECT_EQ(player.client.phase(), Phase::playing);
    }
    void run(int ticks) {
        for (int i = 0; i < ticks; ++i) {
            if (link.world.is_alive(boat)) link.world.patch<Gust>(boat, [](Gust& gust) { gust.x += 1; });
            player.client.input(Sheet{1});
            link.step();
        }
    }

    Link link{Link::default_options(), declared()};
    Link::Player& player;
    PlayerId id;
    ecs::Entity boat;
};

TEST(Client, SendsAValueOfTheOwnerAgainIfItWasLost) {
    Dinghy dinghy;
    dinghy.player.world.set(dinghy.player.client.player(), Streamer{7});
    dinghy.link.is_cut = true;
    dinghy.run(3);
    dinghy.link.is_cut = false;
    EXPECT_EQ(dinghy.link.world.get<Streamer>(dinghy.boat).colour, 0);
    dinghy.run(60);
    EXPECT_EQ(dinghy.link.world.get<Streamer>(dinghy.boat).colour, 7);
}

TEST(Client, StatesNoLagWithoutARenderTime) {
    for (const bool interpolates : {true, false}) {
        ClientOptions options;
        options.receiver.interpolate = interpolates;
        Dinghy dinghy(options);
        dinghy.run(60);
        EXPECT_EQ(dinghy.link.server.stats(dinghy.id).rewind.breaches, 0u) << interpolates;
        EXPECT_EQ(dinghy.link.world.get<Sheet>(dinghy.boat).pull, 1);
    }
}

struct Blow {
    std::uint8_t force = 0;
};

TEST(Client, ShowsAnActionOfTheServerWhenTheRenderTimeReachesItsTick) {
    for (const bool interpolates : {true, false}) {
        SCOPED_TRACE(interpolates);
        Schema schema;
        schema.component<Gust>("gust", linear());
        schema.action<Blow>("blow");
        Link link(Link::default_options(), std::move(schema));
        ClientOptions options;
        options.receiver.interpolate = interpolates;
        Link::Player& player = link.add(link.schema, options);
        std::vector<Tick> shown_at;
        player.client.on<Blow>([&](const Blow&, const Call& call) {
            shown_at.push_back(call.tick);
            if (!interpolates) return;
            ASSERT_TRUE(player.client.render_time());
            EXPECT_GE(player.client.render_time()->tick, call.tick);
            EXPECT_LT(player.client.render_time()->tick, call.tick + 3);
        });
        const ecs::Entity gust = link.world.spawn(Replicated{}, Gust{});
        const auto run = [&](int ticks) {
            for (int i = 0; i < ticks; ++i) {
                link.world.patch<Gust>(gust, [](Gust& g) { g.x += 1; });
                link.step();
            }
        };
        run(60);
        for (std::size_t i = 1; i <= 5; ++i) {
            link.server.act(Blow{static_cast<std::uint8_t>(i)});
            run(2);
            if (!interpolates) {
                EXPECT_EQ(shown_at.size(), i) << "without a render time at once";
            }
            run(18);
            EXPECT_EQ(shown_at.size(), i);
        }
    }
}

/// A game that calls connect() or disconnect() as soon as its connection has ended.
struct Restless final : ClientListener, net::Sink {
    explicit Restless(net::Address address) : next(address) {}
    static ClientOptions options() {
        ClientOptions out;
        out.net.seed = seed_of(9);
        give_key(out.net);
        return out;
    }
    void send(const net::Address& to, std::span<const std::byte>) override { last_to = to; }
    void on_leave(net::DisconnectReason, std::string_view text) override {
        next ? client.connect(*next) : client.disconnect({});
        last_text = text;
    }
    std::optional<net::Address> next;  // disconnect() if none
    net::Address last_to;
    std::string last_text = "none";
    Schema schema = game_schema();
    ecs::World world;
    Client client{world, schema, *this, options(), this};
};

TEST(Client, AServerNamedInOnLeaveReplacesTheServerOfTheConnectThatEndedTheConnection) {
    const auto address = [](std::uint8_t number) { return net::Address::ipv4(10, 0, 0, number, 7777); };
    const net::Time now = std::chrono::seconds(100);
    Restless game(address(3));
    game.client.connect(address(1));
    game.client.update(now);
    EXPECT_EQ(game.last_to, address(1));
    game.client.connect(address(2));
    game.client.update(now);
    EXPECT_EQ(game.last_to, address(3));
    EXPECT_EQ(game.last_text, net::describe(net::DisconnectReason::closed))
        << "though connect() empties failure()";
}

TEST(Client, DisconnectInOnLeaveCancelsTheConnectThatEndedTheConnection) {
    const net::Time now = std::chrono::seconds(100);
    Restless game(net::Address::ipv4(10, 0, 0, 1, 7777));
    game.client.connect(*game.next);
    game.client.update(now);
    game.client.connect(net::Address::ipv4(10, 0, 0, 2, 7777));
    game.next.reset();
    game.client.update(now);
    EXPECT_EQ(game.last_to, net::Address::ipv4(10, 0, 0, 1, 7777));
    EXPECT_TRUE(game.client.endpoint().is_idle());
}

TEST(Client, FailureSaysWhyItCouldNotConnect) {
    Link link;
    link.is_cut = true;
    Link::Player& player = link.add();
    EXPECT_EQ(player.client.failure(), "");
    link.run(700);
    EXPECT_EQ(player.listener.leaves, 1);
    EXPECT_NE(player.client.failure(), "");
    link.is_cut = false;
    player.client.connect(link.wire.address);
    EXPECT_EQ(player.client.failure(), "");
    link.run(30);
    EXPECT_TRUE(player.client.is_connected());
}

// Two players of a link have different seeds.
TEST(Client, ItsHashTablesHaveASecretSeed) {
    Link link;
    const auto of = [](const Link::Player& player) { return player.client.receiver().options().hash_seed; };
    const std::uint64_t first = of(link.add()), second = of(link.add());
    EXPECT_NE(first, 0u);
    EXPECT_NE(first, second);
}

}  // namespace
}  // namespace shoal::replication::impl
