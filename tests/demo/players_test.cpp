#include "demo/players.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "demo/moves.h"
#include "replication/client.h"
#include "tests/net/support/server_key.h"

namespace shoal::demo {
namespace {

using namespace std::chrono_literals;

/// A network without faults: queues datagrams for the other side.
struct Wire final : net::Sink {
    std::deque<std::vector<std::byte>> datagrams;
    void send(const net::Address&, std::span<const std::byte> datagram) override {
        datagrams.emplace_back(datagram.begin(), datagram.end());
    }
};

template <class Options>
Options with_protocol(Options options, std::uint8_t seed) {
    auto& config = [&]() -> auto& {
        if constexpr (requires { options.host; })
            return options.host;
        else
            return options.net;
    }
    ();
    if constexpr (requires { options.sender; }) options.sender.tick_hz = 30;
    config.protocol_id = kProtocolId;
    config.seed[0] = static_cast<std::byte>(seed);
    give_key(config);
    return options;
}

/// A server with an empty arena, and one client, which may be of an older version.
struct Match {
    const net::Address server_address = net::Address::ipv4(10, 0, 0, 1, 1),
                       client_address = net::Address::ipv4(10, 0, 0, 2, 2);
    const replication::Schema schema = arena_schema(), client_schema;
    Wire to_client, to_server;
    net::Time now = 1s;

    ecs::World world;
    Simulation simulation{world, 0, 1};
    Players players{simulation};
    replication::Server server{world, schema, to_client, with_protocol(replication::ServerOptions{}, 1),
                               &players};

    ecs::World replica;
    replication::Client client{replica, client_schema, to_server,
                               with_protocol(replication::ClientOptions{}, 2)};

    Steer steer;  // the client's input

    explicit Match(GameVersion of_client = GameVersion::second) : client_schema(arena_schema(of_client)) {
        players.listen(server);
        server.on_step([this](const replication::Step& step) {
            step_moves(step);
            simulation.step(step.dt);
        });
        client.on_step(step_moves);
        client.connect(server_address);
        run(10);
    }
    /// The client's creature; null if it has none.
    ecs::Entity own() { return client.player(); }
    void call_it(const std::string& name) {
        replica.set(own(), Name{name});
        run(5);
    }
    std::string name() {
        const Name* name = world.try_get<Name>(server.player(peer()));
        return name ? name->text : "(none)";
    }
    void run(int ticks) {
        for (; ticks > 0; --ticks) {
            now += 33ms;
            for (; !to_server.datagrams.empty(); to_server.datagrams.pop_front())
                server.host().receive(client_address, to_server.datagrams.front(), now);
            players.step(server);
            server.tick(now);
            for (; !to_client.datagrams.empty(); to_client.datagrams.pop_front())
                client.endpoint().receive(server_address, to_client.datagrams.front(), now);
            client.input(steer);
            client.update(now);
        }
    }
    net::PeerId peer() {
        net::PeerId found;
        server.for_each_peer([&](net::PeerId peer) { found = peer; });
        return found;
    }
    std::uint32_t player_count() { return ecs::Query<ecs::With<Player>>(world).count(); }
};

TEST(Players, GetACreatureNameItAndLoseItWhenTheyLeave) {
    Match match;
    EXPECT_EQ(match.players.count(), 1u);
    const ecs::Entity own = match.own();
    ASSERT_TRUE(own);
    EXPECT_EQ(match.replica.get<Name>(own).text, "guest");
    EXPECT_EQ(match.replica.get<Score>(own).points, 0);
    EXPECT_EQ(match.replica.get<Ammo>(own).bubbles, kMaxBubbles);
    EXPECT_TRUE(match.replica.has<Player>(own));
    match.call_it("Nemo");
    EXPECT_EQ(match.name(), "Nemo");

    match.client.disconnect(match.now);
    match.client.update(match.now);
    match.run(2);
    EXPECT_EQ(match.players.count(), 0u);
    EXPECT_EQ(match.player_count(), 0u);
}

TEST(Players, CannotJoinOrComeBackOnceTheServerIsClosedToThem) {
    Match match;
    match.players.close();
    match.run(30);
    EXPECT_EQ(match.players.count(), 1u) << "who plays, plays on";
    match.client.disconnect(match.now);
    match.run(2);
    match.client.connect(match.server_address);
    match.run(10);
    EXPECT_EQ(match.players.count(), 0u);
    EXPECT_NE(match.client.failure().find("this server is about to stop"), std::string::npos)
        << match.client.failure();
}

TEST(Players, OfTheFirstVersionPlayWithoutColours) {
    for (const GameVersion version : {GameVersion::first, GameVersion::second}) {
        Match match(version);
        ASSERT_TRUE(match.own());
        match.call_it("Nemo");
        EXPECT_EQ(match.name(), "Nemo");
        EXPECT_EQ(match.replica.has<Colour>(match.own()), version == GameVersion::second);
    }
}

TEST(Players, GetAnotherCreatureWhenTheirsDies) {
    Match match;
    match.call_it("Nemo");
    const ecs::Entity first = match.own();
    ecs::Query<const Position, ecs::With<Player>>(match.world).each([&](ecs::Entity player, const Position&) {
        match.world.destroy(player);
    });
    for (int tick = 0; tick < 5; ++tick) {
        match.run(1);
        if (match.own() == first || !match.replica.is_alive(match.own())) continue;
        const Position drawn = *match.client.sample<Position>(match.own());
        const Position& there = match.world.get<Position>(match.server.player(match.peer()));
        EXPECT_NEAR(std::hypot(drawn.x - there.x, drawn.y - there.y), 0, 0.1) << "it does not glide there";
    }
    EXPECT_EQ(match.player_count(), 1u);
    EXPECT_TRUE(match.own());
    EXPECT_NE(match.own(), first);
    EXPECT_EQ(match.replica.get<Name>(match.own()).text, "Nemo") << "as the one before";
}

TEST(Players, ShootAsLongAsTheyHaveBubbles) {
    Match match;
    match.run(30);
    ecs::Query<const Position, const Bubble> shown(match.replica), real(match.world);
    std::vector<std::string> rejected;
    match.client.on_rejected<Shoot>([&](const Shoot&, std::string_view why) { rejected.emplace_back(why); });
    const Direction aim =
        match.replica.get<Position>(match.own()).x > 80 ? Direction::left : Direction::right;
    match.client.act(Shoot{aim});
    EXPECT_EQ(shown.count(), 1u) << "at once";
    EXPECT_EQ(match.replica.get<Ammo>(match.own()).bubbles, kMaxBubbles - 1);
    match.run(10);
    EXPECT_EQ(shown.count(), 1u);
    EXPECT_EQ(real.count(), 1u);

    match.world.set(match.server.player(match.peer()), Ammo{0});
    match.run(2);
    match.client.act(Shoot{aim});
    EXPECT_EQ(shown.count(), 2u);
    match.run(6);
    EXPECT_EQ(shown.count(), 1u);
    EXPECT_EQ(rejected, std::vector<std::string>{"no bubbles left"});
    match.run(60);
    EXPECT_EQ(shown.count() + real.count(), 0u) << "they burst";
    EXPECT_EQ(match.client.prediction_stats().mispredictions, 0u);
}

TEST(Players, SeeTheClockOfTheServer) {
    Match match;
    for (int i = 0; i < 30; ++i) {
        match.run(1);
        const Clock* shown = match.replica.try_get<Clock>(match.replica.singleton_entity<Clock>());
        ASSERT_NE(shown, nullptr);
        ASSERT_NEAR(shown->elapsed_s, match.world.singleton<Clock>().elapsed_s, 0.051);
    }
}

TEST(Players, ThrowBaitAsLongAsTheyHaveSome) {
    Match match;
    match.run(30);
    ecs::Query<const Position, const Bait> shown(match.replica), real(match.world);
    std::vector<std::string> rejected;
    match.client.on_rejected<Throw>([&](const Throw&, std::string_view why) { rejected.emplace_back(why); });
    match.world.set(match.server.player(match.peer()), Ammo{0, 1});
    match.run(10);
    const Position from = match.replica.get<Position>(match.own());
    const Direction aim = from.x > 80 ? Direction::left : Direction::right;
    match.client.act(Throw{aim, 2});
    match.client.act(Throw{aim, 2});
    EXPECT_EQ(shown.count(), 2u) << "at once";
    match.run(60);
    EXPECT_EQ(rejected, std::vector<std::string>{"no bait left"});
    ASSERT_EQ(real.count(), 1u);
    ASSERT_EQ(shown.count(), 1u);
    for (ecs::Query<const Position, const Bait>* baits : {&shown, &real})
        baits->each([&](const Position& at, const Bait& bait) {
            EXPECT_NEAR(std::abs(at.x - from.x), kLongestThrow * 2 / kMaxPower, 0.1);
            EXPECT_EQ(bait.left, 0);
        });
    EXPECT_EQ(match.client.prediction_stats().mispredictions, 0u);
}

TEST(Players, HearWhatPlayersSay) {
    Match match;
    std::vector<std::string> heard, rejected;
    match.client.on<Say>([&](const Say& say, const replication::Call& call) {
        heard.push_back(say.text);
        EXPECT_EQ(call.player, match.own());
    });
    match.client.on_rejected<Say>([&](const Say&, std::string_view why) { rejected.emplace_back(why); });
    const std::uint64_t accepted = match.server.stats(match.peer()).actions.accepted;
    for (const char* text : {"hello", "a\x1b[2Jb", ""}) match.client.act(Say{text});
    match.run(90);
    EXPECT_EQ(heard, (std::vector<std::string>{"hello", "a\x1b[2Jb", ""})) << "one's own texts at once";
    EXPECT_EQ(match.server.stats(match.peer()).actions.accepted, accepted + 1);
    EXPECT_EQ(rejected, std::vector<std::string>(2, "you can say printable letters"));
}

TEST(Players, KeepTheirNameIfTheServerRefusesTheNextOne) {
    Match match;
    std::vector<std::string> refused;
    match.client.on_refused<Name>([&](ecs::Entity, std::string_view why) { refused.emplace_back(why); });
    match.call_it("Nemo");
    match.call_it("\x1b[2J");
    match.call_it("");
    EXPECT_EQ(refused, std::vector<std::string>(2, "a name has 1 to 16 printable letters"));
    EXPECT_EQ(match.name(), "Nemo");
    EXPECT_EQ(match.replica.get<Name>(match.own()).text, "Nemo");
}

TEST(Players, WhoFloodAreWarnedAndKicked) {
    Match match;
    match.call_it("Nemo");
    EXPECT_TRUE(match.players.take_complaints().empty());
    for (int tick = 0; tick < 60 && match.players.count() == 1; ++tick) {
        for (int i = 0; i < 20; ++i) static_cast<void>(match.client.send(Checksum{}));
        match.run(1);
    }
    EXPECT_EQ(match.players.take_complaints(),
              (std::vector<std::string>{"Nemo sends too many messages", "kicked Nemo: too many messages"}));
    match.run(2);
    EXPECT_EQ(match.client.failure(), "kicked: too many messages");
    EXPECT_EQ(match.player_count(), 0u);
}

TEST(Players, SeeTheirCreatureMoveBeforeTheServerMovesIt) {
    Match match;
    match.run(30);
    const ecs::Entity own = match.own();
    const auto server_position = [&] { return match.world.get<Position>(match.server.player(match.peer())); };
    const Position before = server_position();
    match.steer = {before.x > 80 ? Direction::left : Direction::right};
    match.run(1);
    EXPECT_NE(match.replica.get<Position>(own).x, before.x);
    EXPECT_EQ(server_position().x, before.x);
    match.run(20);
    EXPECT_GT(std::abs(server_position().x - before.x), 5);
    EXPECT_EQ(match.client.prediction_stats().mispredictions, 0u);
}

}  // namespace
}  // namespace shoal::demo
