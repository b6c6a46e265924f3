#include "replication/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "replication/message.h"
#include "tests/replication/support/link.h"
#include "tests/sim/session.h"

namespace shoal::replication::impl {
namespace {

using sim::Position;

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

TEST(Server, ReplicatesTheWorldToEveryPeer) {
    Link link;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 50; ++i) entities.push_back(link.world.spawn(Replicated{}, Position{1, 2, 3}));
    link.add();
    link.add();
    link.run(20);
    EXPECT_EQ(link.listener.joins, 2);
    Link::Player& late = link.add();
    for (int i = 0; i < 30; ++i) {
        for (const ecs::Entity entity : entities)
            link.world.set(entity, Position{static_cast<float>(i), 0, 0});
        link.step();
    }
    link.run(10);
    for (const auto& player : link.players) EXPECT_TRUE(link.is_equal(*player));
    EXPECT_EQ(late.world.size(), 50u);
    int peers = 0;
    link.server.for_each_peer([&](net::PeerId peer) {
        ++peers;
        EXPECT_EQ(link.server.stats(peer).state.pending, 0u);
        EXPECT_EQ(link.server.stats(peer).state.slots_used, 50u);
    });
    EXPECT_EQ(peers, 3);
}

TEST(Server, Rule11AnEntityLargerThanADatagramReachesThePeers) {
    Link link;
    Link::Player& player = link.add();
    link.run(10);
    sim::Hold hold;
    for (std::size_t i = 0; i < 10'000; ++i) hold.bytes.push_back(static_cast<std::uint8_t>(i * i >> 3));
    const ecs::Entity entity = link.world.spawn(Replicated{}, hold);
    link.run(60);
    EXPECT_TRUE(player.client.is_connected());
    EXPECT_TRUE(link.is_equal(player));
    EXPECT_TRUE(player.client.receiver().entity(link.server.sender().net_id(entity)));
}

// The connection allows 4 kB/s, less than the changes need: clients get fewer updates, and the newest state.
TEST(Server, KeepsTheRateLimitOfTheConnection) {
    ServerOptions options = Link::default_options();
    options.host.connection.max_bytes_per_second = 4'000;
    Link link(options);
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 300; ++i) entities.push_back(link.world.spawn(Replicated{}, Position{1, 2, 3}));
    link.add();
    link.run(5);
    const auto& sent = link.server.host().stats(link.listener.last).bytes_sent;
    const std::uint64_t before = sent;
    for (int i = 0; i < 600; ++i) {
        for (const ecs::Entity entity : entities)
            link.world.set(entity, Position{static_cast<float>(i), static_cast<float>(i % 7), 0});
        link.step();
    }
    EXPECT_NEAR(static_cast<double>(sent - before), 12'000 + 40'000, 8'000) << "a first burst, then 4 kB/s";
    link.run(120);
    EXPECT_TRUE(link.is_equal(*link.players[0]));
}

TEST(Server, CountsTicksFromFirstTickAndWrapsAround) {
    ServerOptions options = Link::default_options();
    options.first_tick = 0xffffffff;
    Link link(options);
    EXPECT_EQ(link.server.tick(link.now), 0xffffffffu);
    EXPECT_EQ(link.server.tick(link.now), 0u);
    EXPECT_EQ(link.server.current_tick(), 0u);
}

TEST(Server, ResendCompletesTheLastTickWithoutANewOne) {
    Link link;
    link.add();
    link.run(10);
    const ecs::Entity entity = link.world.spawn(Replicated{}, Position{});
    link.run(5);
    link.is_cut = true;
    link.world.set(entity, Position{5, 0, 0});
    const Tick last = link.server.tick(link.now);
    link.run(0);
    for (int i = 0; i < 5; ++i) link.step(false);
    EXPECT_FALSE(link.server.is_settled());
    link.is_cut = false;
    for (int i = 0; i < 200 && !link.server.is_settled(); ++i) link.step(false);
    EXPECT_TRUE(link.server.is_settled());
    EXPECT_EQ(link.server.current_tick(), last);
    ASSERT_TRUE(link.players[0]->client.receiver().complete());
    EXPECT_EQ(link.players[0]->client.receiver().complete()->tick, last);
    EXPECT_TRUE(link.is_equal(*link.players[0]));
}

TEST(Server, ResendServesTheOthersAfterAPeerLeft) {
    Link link;
    Link::Player& leaver = link.add();
    Link::Player& other = link.add();
    const ecs::Entity entity = link.world.spawn(Replicated{}, Position{});
    link.run(10);
    ASSERT_EQ(link.listener.joins, 2);
    leaver.client.disconnect(link.now);
    link.run(10);
    ASSERT_EQ(link.listener.leaves, 1);
    link.world.set(entity, Position{5, 0, 0});
    link.step();
    for (int i = 0; i < 200 && !link.server.is_settled(); ++i) link.step(false);
    EXPECT_TRUE(link.server.is_settled());
    EXPECT_TRUE(link.is_equal(other));
}

/// A tick has more entities for the client than the rate allows.
struct CrowdedLink : Link {
    CrowdedLink() : Link(slow()) {
        add();
        run(10);
        for (int i = 0; i < 1'000; ++i)
            world.spawn(Replicated{}, sim::Counters{i * 1'000'000'000'000ll, 5, 6, 7, 8, 9, 10});
        step();
    }
    static ServerOptions slow() {
        ServerOptions options = default_options();
        options.host.connection.max_bytes_per_second = 4'000;
        return options;
    }
};

TEST(Server, Rule15ResendSendsTheRestAsTheRateAllows) {
    CrowdedLink link;
    EXPECT_FALSE(link.is_equal(*link.players[0])) << "it exceeds the first burst";
    for (int i = 0; i < 1'200 && !link.server.is_settled(); ++i) link.step(false);
    EXPECT_TRUE(link.server.is_settled());
    EXPECT_TRUE(link.is_equal(*link.players[0]));
}

// poll() sends what is left of the last tick, but no new changes.
TEST(Server, PollSendsWhatTheRateDidNotAllowBefore) {
    CrowdedLink link;
    link.world.spawn(Replicated{}, Position{1, 2, 3});
    for (int i = 0; i < 1'200; ++i) {
        link.now += std::chrono::microseconds(16'667);
        link.exchange();
        link.server.poll(link.now);
        link.exchange();
        link.players[0]->client.update(link.now);
    }
    EXPECT_EQ(link.players[0]->world.size(), 1'000u) << "all entities of the tick, but no new one";
}

TEST(Server, RefusesAClientWithTheReasonOfTheGame) {
    Link link;
    link.listener.says_no = "members only";
    Link::Player& player = link.add();
    link.run(30);
    EXPECT_FALSE(player.client.is_connected());
    EXPECT_EQ(player.listener.leaves, 1);
    EXPECT_NE(player.client.failure().find("members only"), std::string::npos) << player.client.failure();
    EXPECT_EQ(link.listener.joins, 0);
}

TEST(Server, AcceptsAConnectTokenOnceAndPassesItsClientIdToTheGame) {
    ServerOptions options = Link::default_options();
    options.host.tokens.backend_key = net::SecretKey(seed_of(9));
    options.host.tokens.servers = {net::Address::ipv4(10, 0, 0, 1, 7000)};
    Link link(options);
    const net::TokenRequest request{
        5, 42, 1000, options.host.tokens.servers, {}, net::public_key(net::impl::server_key())};
    const auto token = net::issue_token(request, options.host.tokens.backend_key, seed_of(10));
    ASSERT_TRUE(token);
    Link::Player& first = link.add();
    first.client.connect(link.wire.address, *token);
    link.run(10);
    EXPECT_TRUE(first.client.is_connected());
    EXPECT_EQ(link.listener.client_id, 42u);
    Link::Player& second = link.add();
    second.client.connect(link.wire.address, *token);
    link.run(10);
    EXPECT_FALSE(second.client.is_connected());
    EXPECT_EQ(second.client.failure(), "refused: no valid connect token: connect token used before");
}

TEST(Server, RefusesAnotherSchemaAndNamesTheComponent) {
    struct Extra {
        int value = 0;
    };
    Schema other = game_schema();
    other.component<Extra>("extra");
    Link link;
    Link::Player& player = link.add(other);
    link.run(30);
    EXPECT_FALSE(player.client.is_connected());
    EXPECT_NE(player.client.failure().find("'extra' is unknown to the server"), std::string::npos)
        << player.client.failure();
}

TEST(Server, PassesMessagesInBothDirections) {
    Link link;
    Link::Player& player = link.add();
    link.run(10);
    EXPECT_EQ(player.client.send_message(net::Channel::reliable, bytes_of("hello")), net::SendResult::queued);
    EXPECT_EQ(player.client.send_message(net::Channel::unreliable, {}), net::SendResult::queued);
    link.run(5);
    std::sort(link.listener.messages.begin(), link.listener.messages.end());  // two channels
    EXPECT_EQ(link.listener.messages, (std::vector<std::string>{"", "hello"}));
    EXPECT_EQ(link.server.send_message(link.listener.last, net::Channel::reliable, bytes_of("welcome")),
              net::SendResult::queued);
    link.run(5);
    EXPECT_EQ(player.listener.messages, (std::vector<std::string>{"welcome"}));
}

TEST(Server, DisconnectSendsTheReasonAndForgetsThePeer) {
    Link link;
    Link::Player& player = link.add();
    link.world.spawn(Replicated{}, Position{});
    link.run(10);
    net::PeerId peer;
    link.server.for_each_peer([&](net::PeerId id) { peer = id; });
    link.server.disconnect(peer, "too noisy", link.now);
    link.run(10);
    EXPECT_EQ(link.listener.leaves, 1);
    EXPECT_NE(player.listener.last_text.find("too noisy"), std::string::npos);
    EXPECT_EQ(player.world.size(), 1u) << "the replicas stay until the next connect";
    EXPECT_EQ(link.server.stats(peer).state.slots_used, 0u);
    EXPECT_EQ(link.server.send_message(peer, net::Channel::reliable, bytes_of("x")),
              net::SendResult::not_connected);
    player.client.connect(link.wire.address);
    player.client.update(link.now);
    EXPECT_EQ(player.world.size(), 0u);
    link.run(20);
    EXPECT_TRUE(link.is_equal(player));
    EXPECT_EQ(link.listener.joins, 2);
}

struct Balloon {
    float height = 0;
};

TEST(Server, TeleportsAreCounted) {
    Schema schema;
    schema.component<Balloon>("balloon", linear());
    sim::Session session(schema, {}, 1);
    const ecs::Entity balloon = session.world().spawn(Balloon{}, Replicated{});
    session.server().teleport(balloon);
    EXPECT_EQ(session.world().get<Teleports>(balloon).count, 1);
    session.world().set(balloon, Teleports{65'535});
    session.server().teleport(balloon);
    EXPECT_EQ(session.world().get<Teleports>(balloon).count, 0);
    session.converge(50);
    EXPECT_EQ(session.server().sender().shadow().misfits(), ComponentLayout::Misfits{});
}

TEST(Server, TeleportHasNoEffectIfNothingIsInterpolated) {
    Schema schema;
    schema.component<Balloon>("balloon");
    Link link(Link::default_options(), std::move(schema));
    const ecs::Entity balloon = link.world.spawn(Balloon{}, Replicated{});
    link.server.teleport(balloon);
    EXPECT_FALSE(link.world.has<Teleports>(balloon));
}

struct Deck {
    std::vector<std::uint8_t> boxes;
};
struct Cellar {
    std::vector<std::uint8_t> boxes;
};

TEST(Server, AnEntityThatIsTooLargeIsReportedOnce) {
    Schema schema;
    schema.component<Deck>("deck", max_length(31'000));
    schema.component<Cellar>("cellar", max_length(31'000));
    Link link(Link::default_options(), std::move(schema));
    const ecs::Entity entity = link.world.spawn(Replicated{}, Deck{std::vector<std::uint8_t>(15'000)},
                                                Cellar{std::vector<std::uint8_t>(20'000)});
    link.run(3);
    ASSERT_EQ(link.listener.too_large.size(), 1u);
    EXPECT_EQ(link.listener.too_large[0].entity, entity);
    EXPECT_EQ(link.listener.too_large[0].component, "cellar");
    EXPECT_GT(link.listener.too_large[0].bytes, kMaxEntityBytes);
}

TEST(Server, GiveNeedsAPlayerAndAnEntityThatReplicates) {
    Link link;
    link.add();
    link.run(10);
    const PlayerId id = link.listener.last;
    const ecs::Entity ship = link.world.spawn(Replicated{}, Position{}), local = link.world.spawn(Position{});
    const ecs::Entity dead = link.world.spawn(Replicated{});
    link.world.destroy(dead);
    EXPECT_FALSE(link.server.give(id, local));
    EXPECT_FALSE(link.server.give(id, dead));
    EXPECT_TRUE(link.server.give(id, ship));
    EXPECT_FALSE(link.server.give(PlayerId{(9u << 16) | 3}, ship)) << "there is no such player";
    EXPECT_EQ(link.server.owner(ship), id) << "without effect";
    EXPECT_TRUE(link.server.give({}, ship));
    EXPECT_FALSE(link.server.owner(ship));
    EXPECT_EQ(link.server.stats({}).state.slots_used, 0u);
    EXPECT_EQ(link.server.phase({}), Phase::disconnected);
    EXPECT_FALSE(link.server.player({}));
    link.server.set_player({}, ship);
    link.server.view({}).set_groups(to_group(1));
    link.server.disconnect({}, "nobody", link.now);
    link.run(5);
    EXPECT_EQ(link.listener.leaves, 0);
}

struct Rudder {
    std::int8_t turn = 0;
};
struct Course {
    float degrees = 0;
};

/// Players steer courses, which their clients predict.
Schema rudder_schema(bool is_authority_quantised = true) {
    Schema schema;
    schema.component<Course>("course", quantised(0, 360, 0.5), predicted());
    schema.input<Rudder>("rudder", bounded(-1, 1));
    if (is_authority_quantised) schema.quantise_authority();
    return schema;
}

TEST(Server, APlayerThatLeavesOwnsAndSteersNothing) {
    Link link(Link::default_options(), rudder_schema());
    Link::Player& player = link.add();
    link.add();
    link.run(20);
    std::vector<PlayerId> ids;
    link.server.for_each_peer([&](PlayerId id) { ids.push_back(id); });
    ASSERT_EQ(ids.size(), 2u);
    const bool is_first = link.server.host().address(ids[0]) == player.wire.address;
    const PlayerId leaver = ids[is_first ? 0 : 1], other = ids[is_first ? 1 : 0];
    const ecs::Entity ship = link.world.spawn(Rudder{1}, Course{}, Replicated{});
    const ecs::Entity second = link.world.spawn(Rudder{1}, Course{}, Replicated{});
    const ecs::Entity ball = link.world.spawn(Course{}, Replicated{}),
                      net = link.world.spawn(Course{}, Replicated{});
    EXPECT_TRUE(link.server.give(leaver, ship));
    EXPECT_TRUE(link.server.give(other, second));
    EXPECT_TRUE(link.world.has<Mine>(ship));
    for (const ecs::Entity entity : {ball, net}) EXPECT_TRUE(link.server.predict(leaver, entity));
    EXPECT_TRUE(link.server.predict(other, net));
    link.run(1);
    player.client.disconnect(link.now);
    link.run(5);
    EXPECT_EQ(link.listener.last_reason, net::DisconnectReason::closed_by_peer);
    EXPECT_FALSE(link.world.has<Mine>(ship));
    EXPECT_EQ(link.world.get<Rudder>(ship).turn, 0);
    EXPECT_FALSE(link.server.owner(ship));
    EXPECT_TRUE(link.world.has<Mine>(second));
    EXPECT_EQ(link.world.get<Rudder>(second).turn, 1);
    EXPECT_EQ(link.server.owner(second), other);
    EXPECT_FALSE(link.world.has<ToPredict>(ball));
    EXPECT_TRUE(link.world.has<ToPredict>(net)) << "the other player predicts it";
    EXPECT_TRUE(link.server.give({}, second));
    EXPECT_FALSE(link.world.has<Mine>(second));
}

TEST(Server, PredictNeedsAPlayerAnEntityThatReplicatesAndASchemaThatPredicts) {
    Link link(Link::default_options(), rudder_schema());
    link.add();
    link.run(10);
    const PlayerId id = link.listener.last;
    const ecs::Entity ball = link.world.spawn(Course{}, Replicated{}), local = link.world.spawn(Course{});
    EXPECT_FALSE(link.server.predict(id, local));
    EXPECT_FALSE(link.server.predict({}, ball));
    EXPECT_FALSE(link.world.has<ToPredict>(ball));
    EXPECT_FALSE(link.server.is_predicted_by(id, ball));
    EXPECT_TRUE(link.server.predict(id, ball));
    EXPECT_TRUE(link.server.is_predicted_by(id, ball));
    EXPECT_FALSE(link.server.is_predicted_by({}, ball));
    EXPECT_TRUE(link.world.has<ToPredict>(ball));
    EXPECT_TRUE(link.server.predict(id, ball, false));
    EXPECT_FALSE(link.server.is_predicted_by(id, ball));
    EXPECT_FALSE(link.world.has<ToPredict>(ball));
    Link plain;
    plain.add();
    plain.run(10);
    EXPECT_FALSE(plain.server.predict(plain.listener.last, plain.world.spawn(Replicated{})));
}

TEST(Server, AStepIsThatOfTheTickAndItsValuesAreRounded) {
    ServerOptions options = Link::default_options();
    options.sender.tick_hz = 40;
    options.first_tick = 500;
    Link link(options, rudder_schema());
    const ecs::Entity ship = link.world.spawn(Course{}, Replicated{}), local = link.world.spawn(Course{});
    std::vector<Tick> ticks;
    link.server.on_step([&](const Step& step) {
        ticks.push_back(step.tick);
        EXPECT_FLOAT_EQ(step.dt, 0.025f);
        EXPECT_TRUE(step.is_new);
        step.each<Course>([](Course& course) { course.degrees += 1.2f; });
    });
    link.run(2);
    EXPECT_EQ(ticks, (std::vector<Tick>{500, 501}));
    EXPECT_FLOAT_EQ(link.world.get<Course>(ship).degrees, 2) << "to 1, and 2.2 to 2";
    EXPECT_FLOAT_EQ(link.world.get<Course>(local).degrees, 2.4f) << "it does not replicate";
}

TEST(Server, RoundsNoValuesUnlessTheSchemaSaysSo) {
    Link link(Link::default_options(), rudder_schema(false));
    const ecs::Entity ship = link.world.spawn(Course{}, Replicated{});
    link.server.on_step(
        [&](const Step& step) { step.each<Course>([](Course& course) { course.degrees += 1.2f; }); });
    link.run(2);
    EXPECT_FLOAT_EQ(link.world.get<Course>(ship).degrees, 2.4f);
}

TEST(Server, AnEntityOfAPlayerThatTheJoinHandlerDisconnectsEndsAsTheOptionsSay) {
    for (const bool destroys : {true, false}) {
        ServerOptions options = Link::default_options();
        options.join.destroys_player = destroys;
        Link link(options);
        ecs::Entity ship;
        int left = 0;
        link.server.on_join([&](PlayerId id) {
            ship = link.world.spawn(Replicated{}, Position{});
            link.server.disconnect(id, "full", link.now);
            return ship;
        });
        link.server.on_leave([&](PlayerId) { ++left; });
        Link::Player& player = link.add();
        link.run(20);
        ASSERT_TRUE(ship);
        EXPECT_FALSE(player.client.is_connected());
        EXPECT_EQ(link.world.is_alive(ship), !destroys);
        EXPECT_FALSE(link.server.owner(ship));
        EXPECT_EQ(left, 1);
        EXPECT_EQ(link.listener.leaves, 1);
    }
}

TEST(Server, StatesTheLengthOfATickInWholeMicroseconds) {
    for (const auto& [tick_hz, tick_us] : {std::pair{60.0, 16'667u}, std::pair{128.0, 7'813u}}) {
        ServerOptions options = Link::default_options();
        options.sender.tick_hz = tick_hz;
        Link link(options);
        Link::Player& player = link.add();
        link.run(10);
        ASSERT_TRUE(player.client.welcome());
        EXPECT_EQ(player.client.welcome()->tick_us, tick_us);
    }
}

struct Chirp {
    std::uint8_t number = 0;
};

TEST(Server, PollHandlesMessagesThatHadToWait) {
    ServerOptions options = Link::default_options();
    options.messages.messages_per_s = 10;
    options.messages.burst_s = 0.5;
    options.messages.max_wait = std::chrono::seconds(10);
    Schema schema;
    schema.message<Chirp>("chirp");
    Link link(options, std::move(schema));
    int heard = 0;
    link.server.on<Chirp>([&](PlayerId, const Chirp& chirp) { EXPECT_EQ(chirp.number, heard++); });
    Link::Player& player = link.add();
    link.run(30);
    for (std::uint8_t i = 0; i < 30; ++i) ASSERT_EQ(player.client.send(Chirp{i}), net::SendResult::queued);
    link.run(3);
    const int at_once = heard;
    EXPECT_LT(at_once, 10);
    for (int i = 0; i < 60; ++i) link.step(false);
    EXPECT_NEAR(heard, at_once + 10, 2) << "a second later";
}

/// Sends reliable messages until the queue of a connection has no room for one byte.
template <class Send>
void fill_queue(Send&& send) {
    const std::vector<std::byte> big(900);
    for (const std::size_t size : {900u, 1u})
        while (send(std::span(big).first(size)) == net::SendResult::queued) {
        }
}

/// A server that fills the queue of its player before it tells it that it plays.
struct FullQueue {
    FullQueue() {
        link.server.on_join([&](PlayerId id) {
            fill_queue([&](std::span<const std::byte> bytes) {
                return link.server.send_message(id, net::Channel::reliable, bytes);
            });
            return ship = link.world.spawn(Replicated{}, Position{});
        });
        while (link.server.phase(link.listener.last) != Phase::playing) link.step();
    }
    Link link;
    Link::Player& player = link.add();
    ecs::Entity ship;
};

TEST(Server, AControlMessageThatFindsNoRoomWaitsAndIsInOrder) {
    FullQueue full;
    Link& link = full.link;
    const PlayerId id = link.listener.last;
    link.run(3);
    EXPECT_EQ(full.player.client.phase(), Phase::loading) << "it was not told";
    const ecs::Entity last = link.world.spawn(Replicated{}, at(1));
    for (int i = 0; i < 100; ++i) link.server.set_player(id, i % 2 != 0 ? full.ship : last);
    link.server.set_player(id, last);
    for (int i = 0; i < 3'000 && full.player.client.phase() != Phase::playing; ++i) link.step();
    ASSERT_EQ(full.player.client.phase(), Phase::playing) << full.player.client.failure();
    link.run(60);
    EXPECT_EQ(full.player.client.player(),
              full.player.client.receiver().entity(link.server.assign_net_id(last)));
    EXPECT_EQ(link.listener.leaves, 0);
}

TEST(Server, APlayerForWhichTooManyControlMessagesWaitIsDisconnectedByTheNextTick) {
    FullQueue full;
    Link& link = full.link;
    const PlayerId id = link.listener.last;
    // A player message takes 5 bytes, the ticket after it 25.
    for (int i = 0; i < 65'536 / 30 + 200; ++i) link.server.set_player(id, full.ship);
    EXPECT_EQ(link.server.phase(id), Phase::playing);
    link.run(20);
    EXPECT_EQ(link.listener.leaves, 1);
    EXPECT_FALSE(full.player.client.is_connected());
    EXPECT_NE(full.player.client.failure().find("too many messages wait for it"), std::string::npos)
        << full.player.client.failure();
}

TEST(Server, AClientThatFindsNoRoomSaysLaterThatItIsReady) {
    Link link;
    ClientOptions options;
    options.is_ready_at_once = false;
    Link::Player& player = link.add(link.schema, options);
    link.run(5);
    ASSERT_TRUE(player.client.is_connected());
    fill_queue([&](std::span<const std::byte> bytes) {
        return player.client.send_message(net::Channel::reliable, bytes);
    });
    player.client.ready();
    for (int i = 0; i < 3'000 && player.client.phase() != Phase::playing; ++i) link.step();
    EXPECT_EQ(player.client.phase(), Phase::playing) << player.client.failure();
}

TEST(Server, APlayerWhoseEntityIsDeadHasNone) {
    Link link;
    link.server.on_join([&](PlayerId) { return link.world.spawn(Replicated{}, Position{}); });
    Link::Player& player = link.add();
    link.run(20);
    const PlayerId id = link.listener.last;
    const ecs::Entity ship = link.server.player(id);
    ASSERT_TRUE(ship);
    link.world.destroy(ship);
    EXPECT_FALSE(link.server.player(id));
    link.run(5);
    EXPECT_EQ(player.client.phase(), Phase::playing);
    player.client.disconnect(link.now);
    link.run(5);
    EXPECT_EQ(link.listener.leaves, 1);
}

TEST(Server, APlaceInItsTablesIsUsedAgain) {
    Link link;
    std::vector<PlayerId> ids;
    for (int i = 0; i < 3; ++i) {
        link.add();
        link.run(10);
        ids.push_back(link.listener.last);
    }
    link.server.disconnect(ids[1], "one", link.now);
    link.run(5);
    EXPECT_EQ(link.listener.last_reason, net::DisconnectReason::kicked);
    EXPECT_EQ(link.server.phase(ids[1]), Phase::disconnected);
    Link::Player& late = link.add();
    link.run(20);
    const PlayerId id = link.listener.last;
    EXPECT_EQ(link.server.phase(id), Phase::playing);
    for (const std::size_t i : {0u, 2u}) {
        EXPECT_EQ(link.server.phase(ids[i]), Phase::playing);
        EXPECT_TRUE(link.is_equal(*link.players[i]));
    }
    EXPECT_EQ(link.server.send_message(id, net::Channel::reliable, bytes_of("hi")), net::SendResult::queued);
    link.run(5);
    EXPECT_EQ(late.listener.messages, std::vector<std::string>{"hi"});
    EXPECT_TRUE(link.players[0]->listener.messages.empty());
}

TEST(Server, Rule30AClientGetsNoMoreEntitiesThanItSaysItCanTake) {
    Link link;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 30; ++i) entities.push_back(link.world.spawn(Replicated{}, at(1)));
    ClientOptions options;
    options.receiver.max_slots = 10;
    Link::Player& small = link.add(link.schema, options);
    Link::Player& large = link.add();
    link.run(20);
    EXPECT_EQ(small.client.receiver().entity_count(), 10u);
    EXPECT_EQ(large.client.receiver().entity_count(), 30u);
    EXPECT_TRUE(link.is_equal(large));
    EXPECT_FALSE(small.client.receiver().complete());
    // Everything is destroyed, and as much comes: the slots of despawn records are in use until their acks.
    for (const ecs::Entity entity : entities) link.world.destroy(entity);
    for (int i = 0; i < 10; ++i) link.world.spawn(Replicated{}, at(2));
    link.run(40);
    EXPECT_EQ(small.listener.leaves, 0);
    EXPECT_TRUE(link.is_equal(small));
    EXPECT_TRUE(link.is_equal(large));
}

}  // namespace
}  // namespace shoal::replication::impl
