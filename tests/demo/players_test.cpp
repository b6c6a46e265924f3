#include "demo/players.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "demo/message.h"
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
    Players players{world, simulation};
    replication::Server server{world, schema, to_client, with_protocol(replication::ServerOptions{}, 1),
                               &players};

    ecs::World replica;
    replication::Client client{replica, client_schema, to_server,
                               with_protocol(replication::ClientOptions{}, 2)};

    Steer steer;  // the client's input

    explicit Match(GameVersion of_client = GameVersion::second) : client_schema(arena_schema(of_client)) {
        players.listen(server);
        server.on_step(step_moves);
        client.on_step(step_moves);
        client.connect(server_address);
        run(10);
    }
    /// The client's creature; null if it has none.
    ecs::Entity own() { return client.player(); }
    void say(std::span<const std::byte> message) {
        EXPECT_EQ(client.send_message(net::Channel::reliable, message), net::SendResult::queued);
        run(5);
    }
    void run(int ticks) {
        for (; ticks > 0; --ticks) {
            now += 33ms;
            for (; !to_server.datagrams.empty(); to_server.datagrams.pop_front())
                server.host().receive(client_address, to_server.datagrams.front(), now);
            players.step(server);
            simulation.step(1 / 30.0f);
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

TEST(Players, GetACreatureWithTheirNameAndLoseItWhenTheyLeave) {
    Match match;
    EXPECT_EQ(match.players.count(), 1u);
    EXPECT_EQ(match.player_count(), 0u);  // no name yet
    match.say(write_name("Nemo"));
    const ecs::Entity own = match.own();
    ASSERT_TRUE(own);
    EXPECT_EQ(match.replica.get<Name>(own).text, "Nemo");
    EXPECT_EQ(match.replica.get<Score>(own).points, 0);
    EXPECT_EQ(match.replica.get<Ammo>(own).bubbles, kMostBubbles);
    EXPECT_TRUE(match.replica.has<Player>(own));

    match.client.disconnect(match.now);
    match.client.update(match.now);
    match.run(2);
    EXPECT_EQ(match.players.count(), 0u);
    EXPECT_EQ(match.player_count(), 0u);
}

TEST(Players, OfTheFirstVersionPlayWithoutColours) {
    for (const GameVersion version : {GameVersion::first, GameVersion::second}) {
        Match match(version);
        match.say(write_name("Nemo"));
        ASSERT_TRUE(match.own());
        EXPECT_EQ(match.replica.get<Name>(match.own()).text, "Nemo");
        EXPECT_EQ(match.replica.has<Colour>(match.own()), version == GameVersion::second);
    }
}

TEST(Players, GetAnotherCreatureWhenTheirsDies) {
    Match match;
    match.say(write_name("Nemo"));
    const ecs::Entity first = match.own();
    ecs::Query<const Position, ecs::With<Player>>(match.world).each([&](ecs::Entity player, const Position&) {
        match.world.destroy(player);
    });
    match.run(5);
    EXPECT_EQ(match.player_count(), 1u);
    EXPECT_TRUE(match.own());
    EXPECT_NE(match.own(), first);
}

TEST(Players, ShootAsLongAsTheyHaveBubbles) {
    Match match;
    match.say(write_name("Nemo"));
    match.run(30);
    ecs::Query<const Position, const Bubble> shown(match.replica), real(match.world);
    std::vector<std::string> rejected;
    match.client.on_rejected<Shoot>([&](const Shoot&, std::string_view why) { rejected.emplace_back(why); });
    const Direction aim =
        match.replica.get<Position>(match.own()).x > 80 ? Direction::left : Direction::right;
    match.client.act(Shoot{aim});
    EXPECT_EQ(shown.count(), 1u) << "at once";
    EXPECT_EQ(match.replica.get<Ammo>(match.own()).bubbles, kMostBubbles - 1);
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

TEST(Players, HearWhatPlayersWithANameSay) {
    Match match;
    std::vector<std::string> heard;
    match.client.on<Chat>([&](const Chat& chat, const replication::MessageInfo&) {
        heard.push_back(chat.name + ": " + chat.text);
    });
    EXPECT_EQ(match.client.send(Chat{"Dory", "nobody knows me"}), net::SendResult::queued);
    match.say(write_name("Nemo"));
    EXPECT_EQ(match.client.send(Chat{"Dory", "a\x1b[2Jb"}), net::SendResult::queued);
    EXPECT_EQ(match.client.send(Chat{}), net::SendResult::queued);
    match.run(5);
    EXPECT_EQ(heard, std::vector<std::string>{"Nemo: a?[2Jb"}) << "the name is that of the server";
}

TEST(Players, InvalidMessagesAreIgnored) {
    Match match;
    const std::vector<std::vector<std::byte>> messages = {
        {}, {std::byte{'n'}}, {std::byte{'s'}, std::byte{1}}, std::vector<std::byte>(900)};
    for (const auto& message : messages) match.say(message);
    EXPECT_EQ(match.player_count(), 0u);
    match.say(write_name("\x1b[2J"));
    match.say(write_name("Second"));
    ASSERT_TRUE(match.own());
    EXPECT_EQ(match.replica.get<Name>(match.own()).text, "?[2J");
}

TEST(Players, SeeTheirCreatureMoveBeforeTheServerMovesIt) {
    Match match;
    match.say(write_name("Nemo"));
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
