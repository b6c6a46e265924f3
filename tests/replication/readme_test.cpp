// The snippets of replication/README.md and of the pages of its rooms, which tests/snippets.sh takes from the
// pages, give the results that the pages state.

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ecs/query.h"
#include "net/socket/bad_network.h"
#include "net/socket/system_random.h"
#include "replication/action/action.h"
#include "replication/client.h"
#include "replication/record/replay.h"
#include "replication/runner.h"
#include "replication/server.h"
#include "tests/net/support/server_key.h"
#include "tests/sim/session.h"

namespace {

struct Vec3 {
    Vec3() : x(0), y(0), z(0) {}
    float x, y, z;
};

}  // namespace

#include "readme/replication/schema/fields_1.inc"

namespace shoal::replication {
namespace {

struct Position {
    float x = 0, y = 0;
};
struct Health {
    int points = 0;
};
struct Name {
    std::string text;
};
struct Vec {
    float x = 0, y = 0;
};
struct Body {
    Vec centre;
};
struct Item {
    int kind = 0, count = 0;
};
struct Bag {
    std::vector<Item> items;
};
struct Ship {
    struct {
        float x = 0, y = 0, z = 1;
    } up;
    struct {
        float x = 0, y = 0, z = 0, w = 1;
    } turn;
    float heading = 0, fuel = 0;
};
struct Target {
    ecs::Entity entity;
};
struct Wolf {};

struct Door {
    int opened = 0;
};
struct Sound {
    int number = 0;
};

struct Course {
    float radians = 0;
};
struct Turn {
    float x = 0, y = 0, z = 0, w = 1;
};

struct Ammunition {
    int shots = 0;
};
struct Disguise {
    int model = 0;
};
struct Orders {
    std::string text;
};

int messages = 0;

#include "readme/replication/action/actions_1.inc"
#include "readme/replication/play/listeners_1.inc"
struct Hat {
    int size = 0;
};
struct Scoreboard {};
struct Runner {};
struct Tree {};
struct HeldBy {
    static constexpr auto relation = ecs::exclusive;
};
struct Stealth {
    int level = 0;
};
#include "readme/replication/message/messages_1.inc"
#include "readme/replication/schema/pairs_and_singletons_1.inc"
#include "readme/replication/show/what_a_client_draws_and_what_a_player_saw_1.inc"
struct Crane {
    float length = 0;
    std::string load;
};
#include "readme/replication/schema/codecs_1.inc"
#include "readme/replication/schema/the_schema_1.inc"
#include "readme/replication/schema/updating_a_game_1.inc"
#include "readme/replication/schema/vectors_of_strings_and_maps_1.inc"
#include "readme/replication/schema/who_sees_a_component_1.inc"
#include "readme/replication/send/two_servers_with_one_world_1.inc"
#include "readme/replication/show/between_two_versions_1.inc"

void Game::on_message(net::PeerId, net::Channel, std::span<const std::byte>) {
    messages += 1;
}

TEST(Readme, CodecsFitTheirFields) {
    Schema schema;
    describe_ship(schema);
    EXPECT_EQ(schema.error(), "");
    EXPECT_EQ(schema.components()[0].layout.lanes().size(), 2u + 4 + 1 + 1);
}

TEST(Readme, CodecsReachNestedFields) {
    Schema schema;
    describe_guild(schema);
    ASSERT_EQ(schema.error(), "");
    const auto& parts = schema.components()[0].layout.parts();
    EXPECT_EQ(parts[1].max_length, 20u) << "motto";
    EXPECT_EQ(parts[3].max_count, 30u * 40) << "map_rows";
    EXPECT_EQ(parts[5].max_length, 24u) << "name of a member";
    EXPECT_EQ(parts[8].lanes[0].max, 1'000'000u) << "treasury";
    EXPECT_EQ(parts[9].max_length, 12u) << "its keys";
}

TEST(Readme, AClientOfVersionOneFitsVersionTwo) {
    Schema first, second;
    first.component<Health>("health");
    describe_version_2(second);
    EXPECT_EQ(second.error(), "");
    EXPECT_EQ(first.hash(), second.hash());
    EXPECT_TRUE(second.numbers_in(first.summary()));
}

TEST(Readme, AClientShowsMovementSmoothly) {
    Schema schema;
    describe_moves(schema);
    ASSERT_EQ(schema.error(), "");
    sim::Session session(schema, {}, 1);
    const ecs::Entity entity = session.world().spawn(Position{1, 2}, Replicated{});
    for (int i = 0; i < 100; ++i) {
        session.world().patch<Position>(entity, [](Position& at) { at.x += 0.1f; });
        session.step();
    }
    Client& client = session.guests()[0]->client;
    const ecs::Entity ship = client.receiver().entity(session.server().sender().net_id(entity));
    std::vector<float> drawn;
    const auto draw = [&](const Position& at) { drawn.push_back(at.x); };
#include "readme/replication/show/what_a_client_draws_and_what_a_player_saw_2.inc"
    ASSERT_EQ(drawn.size(), 1u);
    ASSERT_TRUE(eye && newest);
    EXPECT_EQ(drawn[0], eye->x);
    EXPECT_LT(eye->x, newest->x);
}

TEST(Readme, APlayerSeesWhatTheRuleSays) {
    Schema schema;
    schema.component<Position>("position");
    schema.component<Stealth>("stealth");
#include "readme/replication/scope/how_often_and_what_comes_first_1.inc"
#include "readme/replication/scope/the_rule_1.inc"
#include "readme/replication/scope/who_sees_an_entity_1.inc"
    ASSERT_EQ(schema.error(), "");
    sim::Session session(schema, {}, 1);
    Server& server = session.server();
    ecs::World& world = session.world();
    const auto run = [&] {
        for (int i = 0; i < 50; ++i) session.step();
    };
    run();
    PlayerId player;
    server.for_each_peer([&](PlayerId id) { player = id; });
    const auto spawn = [&](float x) { return world.spawn(Position{x, 0}, Replicated{}); };
    const ecs::Entity camera = spawn(0), ghost = spawn(500), thief = spawn(1), door = spawn(2),
                      gate = spawn(3);
    const ecs::Entity far = spawn(83.2f), near = spawn(20), spy = spawn(4), board = spawn(900);
    world.set(spy, Stealth{3});
    world.add<Scoreboard>(board);
    world.add(near, ecs::to<HeldBy>(far));
#include "readme/replication/scope/the_rule_2.inc"
    view.from(camera);
    view.unset(ghost);
    run();
#include "readme/replication/scope/why_a_player_does_not_have_it_1.inc"
    EXPECT_EQ(text, "is beyond 60 (at 500)");
    const auto why = [&](ecs::Entity entity) { return describe(view.why(entity)); };
    EXPECT_EQ(why(far), "is beyond 60 (at 83.2)");
    EXPECT_EQ(why(near), "follows an entity: is beyond 60 (at 83.2)");
    EXPECT_EQ(why(thief), "is hidden");
    EXPECT_EQ(view.why(door).reason, Reason::has_it);
    EXPECT_EQ(view.why(gate).reason, Reason::has_it);
    EXPECT_EQ(view.why(board).reason, Reason::has_it);
    EXPECT_EQ(view.why(spy).reason, Reason::filtered);
    view.leave(Room{12});
    run();
    EXPECT_EQ(why(door), "the player is not in room 12");
    ecs::World& mirror = session.guests()[0]->world;
    int explosions = 0;
#include "readme/replication/scope/at_the_edge_of_view_1.inc"
    world.set(gate, Position{900, 0});
    run();
    EXPECT_EQ(explosions, 0);
    world.destroy(board);
    run();
    EXPECT_EQ(explosions, 1);
}

TEST(Readme, ReplicateNamesThePartsOfAType) {
    Schema schema;
    schema.component<Vec3>("vec");
    EXPECT_EQ(schema.error(), "");
}

TEST(Readme, SnippetsGiveTheStatedResults) {
    const net::Address at_server = net::Address::ipv4(10, 0, 0, 1, 7000);
    const net::Address at_client = net::Address::ipv4(10, 0, 0, 2, 5000);
    net::BadNetwork network({}, 1);
    Schema schema;
    describe(schema);
    ASSERT_EQ(schema.error(), "");
    ecs::World world, mirror;
    Game game(world);
    ServerOptions server_options;
    server_options.host.seed[0] = std::byte(1);
    give_key(server_options.host);
    Server server(world, schema, network.at(at_server), server_options, &game);
    ClientOptions client_options;
    client_options.net.seed[0] = std::byte(2);
    give_key(client_options.net);
    Client client(mirror, schema, network.at(at_client), client_options);

#include "readme/replication/what_replicates_1.inc"
    int explosions = 0;
#include "readme/replication/play/players_1.inc"
    std::string shown;
    const auto show = [&](PlayerId player, const char* what) {
        EXPECT_TRUE(server.player(player));
        shown += what;
    };
#include "readme/replication/play/coming_back_1.inc"
#include "readme/replication/receive/what_the_clients_world_has_1.inc"
    client.connect(at_server);
    net::Time now{0};
    const auto run = [&](int ticks) {
        for (; ticks > 0; --ticks) {
            now += std::chrono::milliseconds(20);
            network.receive_all(at_server, server.host(), now);
            server.tick(now);
            network.receive_all(at_client, client.endpoint(), now);
            client.update(now);
        }
    };
    ecs::Query<const Position, ecs::Without<Wolf>> ships(mirror);
    ecs::Query<const Health, ecs::With<Wolf>> wolves(mirror);
    run(50);
    EXPECT_EQ(client.phase(), Phase::playing);
    EXPECT_EQ(mirror.get<Health>(client.player()).points, 100);
    EXPECT_EQ(game.ship_of.size(), 1u);
    EXPECT_EQ(ships.count(), 2u) << "of the listener, and of on_join()";
    EXPECT_EQ(wolves.count(), 1u);
    world.destroy(wolf);
    EXPECT_EQ(client.send_message(net::Channel::reliable, {}), net::SendResult::queued);
    run(50);
    EXPECT_EQ(wolves.count(), 0u);
    EXPECT_EQ(explosions, 1);
    EXPECT_EQ(messages, 1);
    const ecs::Entity mine = client.player();
    for (int ticks = 0; ticks < 510; ++ticks) {  // no datagram arrives for ten seconds
        now += std::chrono::milliseconds(20);
        server.tick(now);
        client.update(now);
    }
    EXPECT_EQ(shown, "lost its connection");
#include "readme/replication/play/coming_back_2.inc"
    run(50);
    EXPECT_EQ(shown, "lost its connectionis back");
    EXPECT_EQ(client.player(), mine);
    client.disconnect(now);
    run(1);
    EXPECT_EQ(game.ship_of.size(), 0u);
    EXPECT_EQ(world.size(), 0u);
}

net::SecretKey my_private_key;
net::PublicKey known_public_key;
int simulated = 0;
void simulate() {
    simulated += 1;
}
void stop(std::string_view why) {
    FAIL() << why;
}
bool draw(Client& client) {
    return client.phase() != Phase::playing;
}
#include "readme/replication/your_own_loop_1.inc"
#include "readme/replication/your_own_loop_2.inc"

TEST(Readme, APlayerHostsTheGame) {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("shoal_readme_host" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    const std::string key_file = (folder / "server.key").string();
    ecs::World world, mirror;
    ServerRunner host(world, {}, {.port = 0, .key_file = key_file});
    ASSERT_EQ(host.error(), "");
    ClientRunner own(mirror, {},
                     {.server = "127.0.0.1:" + std::to_string(host.address()->port),
                      .key_file = (folder / "server.pub").string()});
    bool joined = false;
    host.server().on_join([&](PlayerId) { return joined = true, ecs::Entity{}; });
    play(host, own);
    EXPECT_TRUE(joined);
    std::filesystem::remove_all(folder);
}

TEST(Readme, AnOwnLoopServesAClient) {
    my_private_key = net::impl::server_key();
    known_public_key = net::public_key(my_private_key);
    net::Result<net::Socket> at_server = net::Socket::open(net::Address::ipv4(127, 0, 0, 1, 0));
    net::Result<net::Socket> at_client = net::Socket::open(net::Address::ipv4(127, 0, 0, 1, 0));
    ASSERT_TRUE(at_server && at_client);
    Schema schema;
    ecs::World world, mirror;
    Server server(world, schema, at_server.value(), server_options());
    Client client(mirror, schema, at_client.value(), client_options());
    client.connect(at_server.value().local_address().value());
    net::Time now{0};
    for (int i = 0; i < 1'000 && client.phase() != Phase::playing; ++i) {
        now += std::chrono::milliseconds(20);
        tick(at_server.value(), server, now);
        frame(at_client.value(), client, now);
    }
    EXPECT_EQ(client.phase(), Phase::playing);
    EXPECT_GT(simulated, 0);
}

TEST(Readme, MessagesReachEveryClient) {
    Schema schema;
    schema.component<Position>("position");
    describe_messages(schema);
    ASSERT_EQ(schema.error(), "");
    sim::Session session(schema, {}, 1);
    Server& server = session.server();
    Client& client = session.guests()[0]->client;
    std::string logged;
    const auto log = [&](const std::string& text) { logged += text; };
    for (int tick = 0; tick < 50; ++tick) session.step();
#include "readme/replication/message/messages_2.inc"
    for (int tick = 0; tick < 50; ++tick) session.step();
    EXPECT_EQ(logged, "ahoy");
}

TEST(Readme, ActionsRunOnBothSides) {
    Schema schema;
    schema.component<Position>("position");
    describe_actions(schema);
    ASSERT_EQ(schema.error(), "");
    sim::Session session(schema, {}, 1);
    Server& server = session.server();
    Client& client = session.guests()[0]->client;
    server.on_join([&](PlayerId) { return session.world().spawn(Position{1, 2}, Freight{3}, Replicated{}); });
    std::vector<std::string> logged;
    const auto log = [&](const std::string& text, ecs::Entity) { logged.push_back(text); };
    for (int tick = 0; tick < 50; ++tick) session.step();
    ASSERT_EQ(client.phase(), Phase::playing);
    const ecs::World& mirror = session.guests()[0]->world;
#include "readme/replication/action/actions_2.inc"
    EXPECT_EQ(mirror.get<Freight>(client.player()).crates, 1);
    EXPECT_EQ(logged, std::vector<std::string>{"splash"});
    for (int tick = 0; tick < 50; ++tick) session.step();
    EXPECT_NE(client.receiver().net_id(crate), 0u);
    EXPECT_EQ(mirror.get<Position>(crate).y, 2);
    client.act(Drop{2});
    for (int tick = 0; tick < 50; ++tick) session.step();
    EXPECT_EQ(logged.back(), "not that many crates");
    EXPECT_EQ(mirror.get<Freight>(client.player()).crates, 1);
}

TEST(Readme, PairsAndSingletonsReachTheClient) {
    Schema schema;
    describe_bonds(schema);
    ASSERT_EQ(schema.error(), "");
    sim::Session session(schema, {}, 1);
    ecs::World& world = session.world();
    ecs::World& mirror = session.guests()[0]->world;
    const ecs::Entity escort = world.spawn(Replicated{}), leader = world.spawn(Replicated{});
    const ecs::Entity turret = world.spawn(Replicated{}), tank = world.spawn(Replicated{});
#include "readme/replication/schema/pairs_and_singletons_2.inc"
    const auto run = [&] {
        for (int tick = 0; tick < 50; ++tick) session.step();
    };
    mirror.set_singleton(Round{-1});
    const ecs::Entity former = mirror.singleton_entity<Round>();
    run();
    const auto replica = [&](ecs::Entity entity) {
        return session.guests()[0]->client.receiver().entity(session.server().assign_net_id(entity));
    };
    EXPECT_EQ(mirror.target<Follows>(replica(escort)), replica(leader));
    EXPECT_EQ(mirror.get(replica(escort), ecs::to<Follows>(replica(leader))).distance, 5);
    EXPECT_EQ(mirror.target<PartOf>(replica(turret)), replica(tank));
    EXPECT_EQ(mirror.singleton<Round>().number, 1);
    EXPECT_EQ(mirror.get<Round>(former).number, -1) << "not lost";
    world.patch_singleton<Round>([](Round& round) { round.number = 2; });
    world.destroy(tank);
    run();
    EXPECT_EQ(mirror.singleton<Round>().number, 2);
    EXPECT_EQ(mirror.size(), 4u) << "escort, leader, two rounds";
    world.destroy(world.singleton_entity<Round>());
    run();
    EXPECT_FALSE(mirror.is_alive(mirror.singleton_entity<Round>()));
    world.set_singleton(Round{3});
    run();
    EXPECT_EQ(mirror.singleton<Round>().number, 3);
}

TEST(Readme, Rule27AnEntityThatBothSidesLoadIsNotSpawnedTwice) {
    Schema schema;
    schema.component<Door>("door");
    ASSERT_EQ(schema.error(), "");
    sim::Session session(schema, {}, 1);
    ecs::World& world = session.world();
    ecs::World& mirror = session.guests()[0]->world;
    const Client& client = session.guests()[0]->client;
#include "readme/replication/receive/things_that_both_sides_load_1.inc"
    mirror.spawn(Door{}, StableKey{18});  // the server destroyed it earlier
    session.converge(100);
    EXPECT_TRUE(mirror.has<Replica>(own_door));
    EXPECT_EQ(client.receiver().entity(StableKey{17}), own_door);
    EXPECT_EQ(mirror.size(), 2u);
#include "readme/replication/receive/things_that_both_sides_load_2.inc"
    EXPECT_EQ(mirror.size(), 1u);
    world.set(door, Door{1});
    session.step();
    session.converge(100);
    EXPECT_EQ(mirror.get<Door>(own_door).opened, 1);
    EXPECT_EQ(mirror.get<Sound>(own_door).number, 3);
    session.expect_agreement(1);
}

TEST(Readme, AGameRunsWithoutSockets) {
#include "readme/replication/the_smallest_game_in_one_program_1.inc"
    EXPECT_EQ(client.failure(), "");
    ASSERT_EQ(ecs::Query<const Position>(mirror).count(), 1u);
    EXPECT_GT(mirror.get<Position>(client.player()).x, 10);
}

TEST(Readme, ThePacketsOfAPlayerAreLimited) {
    Schema schema;
    schema.component<Position>("position");
    sim::Session session(schema, {}, 1);
    Server& server = session.server();
    const ecs::Entity flag = session.world().spawn(Position{1, 2}, Replicated{});
    session.converge(100);
    PlayerId player;
    server.for_each_peer([&](PlayerId id) { player = id; });
    const std::uint64_t records_sent = server.stats(player).state.records_sent;
    std::string logged;
    const auto log = [&](const std::string& text) { logged += text; };
#include "readme/replication/send/what_a_packet_carries_1.inc"
    for (int tick = 0; tick < 50; ++tick) session.step();
    EXPECT_EQ(logged, "");
    EXPECT_EQ(server.stats(player).state.records_sent, records_sent + 1);
    EXPECT_LE(server.host().stats(player).rate, 20'000u);
}

TEST(Readme, AServerHasATagOfItsOwn) {
    ecs::World world;
    Schema schema;
    schema.component<Position>("position");
    Sender sender(world, schema, options_for_spectators(world).sender);
    world.spawn(Replicated{}, Position{});
    const ecs::Entity camera = world.spawn(ForSpectators{}, Position{});
    sender.update(1);
    EXPECT_NE(sender.net_id(camera), 0u);
    EXPECT_EQ(sender.shadow().open_count(), 1u);
}

TEST(Readme, LocalWritesAreFoundAndUndone) {
    Schema schema;
    schema.component<Position>("position");
    ClientOptions options;
    std::string logged;
    const auto log = [&](const std::string& text) { logged += text; };
#include "readme/replication/receive/what_the_game_writes_itself_1.inc"
    ecs::World world, mirror;
    Sender sender(world, schema);
    Receiver receiver(mirror, schema, options.receiver);
    const ecs::Entity ship = world.spawn(Replicated{}, Position{1, 2});
    sender.update(1);
    std::byte room[1'160];
    ASSERT_EQ(receiver.receive(1, sender.encode(sender.add_peer(), 1, 1'000, room)),
              Receiver::Verdict::accepted);
    receiver.apply();
    const ecs::Entity replica = receiver.entity(sender.net_id(ship));
    mirror.set(replica, Position{9, 9});
    EXPECT_EQ(logged, "the game wrote position");
    EXPECT_TRUE(receiver.restore(replica));
    EXPECT_EQ(mirror.get<Position>(replica).x, 1);
}

// The client is asked after each packet: it never has one of the two without the other.
TEST(Readme, FerryAndTruckArriveTogether) {
    Schema schema;
    schema.component<Position>("position");
    ecs::World world, mirror;
    Sender sender(world, schema);
    Receiver receiver(mirror, schema);
    const Sender::Peer peer = sender.add_peer();
    for (int i = 0; i < 20; ++i) world.spawn(Replicated{}, Position{1, 2});
#include "readme/replication/send/things_that_arrive_together_1.inc"
    sender.update(1);
    std::uint64_t packets = 0;
    std::byte room[1'160];
    for (bool is_done = false; !is_done;) {
        const auto payload = sender.encode(peer, ++packets, 40, room);
        is_done = payload.empty();
        const bool is_used = !is_done && receiver.receive(packets, payload) == Receiver::Verdict::accepted;
        EXPECT_NE(is_used, is_done);
        receiver.apply();
        const auto has = [&](ecs::Entity entity) {
            return mirror.is_alive(receiver.entity(sender.net_id(entity)));
        };
        EXPECT_EQ(has(ferry), has(truck));
        EXPECT_TRUE(!is_done || has(truck));
    }
    EXPECT_GT(packets, 3u);
}

TEST(Readme, AComponentForTheOwnerReachesOnlyTheOwner) {
    Schema schema;
    describe_ships(schema);
    ASSERT_EQ(schema.error(), "");
    sim::Session session(schema, {}, 2);
    ecs::World& world = session.world();
    Server& server = session.server();
    const auto& guests = session.guests();
    const auto run = [&](int ticks) {
        while (ticks-- > 0) session.step();
    };
    run(50);
    std::vector<net::PeerId> peers;
    server.for_each_peer([&](net::PeerId id) { peers.push_back(id); });
    ASSERT_EQ(peers.size(), 2u);
    const ecs::Entity ship = world.spawn(Ammunition{3}, Disguise{2}, Orders{"wait"}, Replicated{});
    for (std::size_t owner = 0; owner < 2; ++owner) {
        const net::PeerId peer = peers[owner];
#include "readme/replication/schema/who_sees_a_component_2.inc"
        run(50);
        EXPECT_EQ(server.owner(ship), peer);
        for (std::size_t i = 0; i < 2; ++i) {
            const bool is_owner = server.host().address(peer) == guests[i]->address;
            ASSERT_EQ(guests[i]->client.mine().size(), is_owner ? 1u : 0u);
            const ecs::Entity replica = guests[i]->client.receiver().entity(server.assign_net_id(ship));
            EXPECT_EQ(guests[i]->world.has<Ammunition>(replica), is_owner);
            EXPECT_EQ(guests[i]->world.has<Orders>(replica), is_owner);
            EXPECT_EQ(guests[i]->world.has<Disguise>(replica), !is_owner);
        }
    }
    server.view(peers[0]).set_groups(to_group(0));
    run(50);
    for (std::size_t i = 0; i < 2; ++i)
        EXPECT_TRUE(
            guests[i]->world.has<Orders>(guests[i]->client.receiver().entity(server.assign_net_id(ship))));
    server.give({}, ship);
    EXPECT_EQ(server.owner(ship), net::PeerId{});
    EXPECT_FALSE(world.has<Mine>(ship));
    server.give(peers[1], ship);
    server.disconnect(peers[1], "bye", net::Time{std::chrono::seconds(200)});
    EXPECT_FALSE(world.has<Mine>(ship)) << "its owner left";
    EXPECT_TRUE(server.give(peers[0], ship));
    world.destroy(ship);
    EXPECT_FALSE(server.give(peers[0], ship)) << "the entity is dead";
    server.disconnect(
        peers[0], "bye",
        net::Time{std::chrono::seconds(200)});  // an owner leaves in the tick in which its entity died
    EXPECT_FALSE(server.give(peers[1], ship)) << "not connected";
    EXPECT_EQ(server.owner(ship), net::PeerId{});
}

#include "readme/replication/play/what_a_player_decides_itself_1.inc"

TEST(Readme, APlayersOwnValuesAreChecked) {
    Schema schema;
    describe_callsigns(schema);
    sim::Session session(schema, {}, 2);
    Server& server = session.server();
    Client& client = session.guests()[0]->client;
    ecs::World& mirror = session.guests()[0]->world;
    std::string printed;
    const auto print = [&](std::string_view text) { printed = text; };
#include "readme/replication/play/what_a_player_decides_itself_2.inc"
    for (int i = 0; i < 50; ++i) session.step();
    const ecs::Entity ship = session.world().spawn(Replicated{}, Callsign{});
    server.for_each_peer([&](net::PeerId peer) {
        if (server.host().address(peer) == session.guests()[0]->address) server.give(peer, ship);
    });
    for (int i = 0; i < 50; ++i) session.step();
    const ecs::Entity me = client.mine().at(0);
#include "readme/replication/play/what_a_player_decides_itself_3.inc"
    for (int i = 0; i < 50; ++i) session.step();
    EXPECT_EQ(session.world().get<Callsign>(ship).text, "Ann");
    session.expect_agreement(1);
    mirror.set(me, Callsign{""});
    for (int i = 0; i < 50; ++i) session.step();
    EXPECT_EQ(printed, "a callsign needs a letter");
    session.expect_agreement(1);
}

#include "readme/replication/predict/inputs_and_prediction_1.inc"

TEST(Readme, Playing) {
    Schema schema;
    describe_play(schema);
    sim::Session session(schema, {}, 1);
    ecs::World& world = session.world();
    Server& server = session.server();
    Client& client = session.guests()[0]->client;
    const bool key_is_pressed = false;
    for (int i = 0; i < 20; ++i) session.step();
    net::PeerId player;
    server.for_each_peer([&](net::PeerId peer) { player = peer; });
#include "readme/replication/predict/inputs_and_prediction_2.inc"
    for (int i = 0; i < 120; ++i) session.step();
    EXPECT_TRUE(client.is_predicting());
    EXPECT_EQ(server.stats(player).input_age, 0u);
    const Place& ahead = session.guests()[0]->world.get<Place>(client.mine().at(0));
    ecs::Query<const Place>(world).each([&](const Place& place) {
        EXPECT_GT(place.x, 5);
        EXPECT_GT(ahead.x, place.x);
        EXPECT_LT(ahead.x, place.x + 2);
        EXPECT_EQ(place.y, 0);
    });
    EXPECT_EQ(client.prediction_stats().mispredictions, 0u);
}

TEST(Readme, StepsAreChecked) {
    Schema schema;
    describe_play(schema);
    describe_crane(schema);
    EXPECT_EQ(schema.error(), "");
    ClientOptions options;
    std::string logged;
    const auto log = [&](const std::string& text) { logged += text; };
#include "readme/replication/predict/the_step_function_1.inc"
    ecs::World world;
    const ecs::Entity ship = world.spawn(Place{}, Predicted{});
    impl::StepCheck check(world, schema, options.check_every, options.on_step_fault);
    float runs = 0;
    check.run(10, [&](bool) { world.set(ship, Place{++runs, 0}); });
    EXPECT_EQ(logged, "place is wrong: {1, 0}, then {2, 0}");
}

#include "readme/replication/show/what_a_player_saw_2.inc"

TEST(Readme, WhatAPlayerSaw) {
    Schema schema;
    describe_play(schema);
    schema.action<Snap>("snap");
    sim::Session session(schema, {}, 1);
    Server& server = session.server();
    for (int i = 0; i < 50; ++i) session.step();
    net::PeerId shooter;
    server.for_each_peer([&](net::PeerId peer) { shooter = peer; });
    const ecs::Entity target = session.world().spawn(Replicated{}, Place{5, 0});
    const float aimed_at = 5;
    int hits = 0;
#include "readme/replication/show/what_a_player_saw_1.inc"
    for (int i = 0; i < 50; ++i) session.step();
    EXPECT_GT(hits, 30);
    Client& client = session.guests()[0]->client;
    const ecs::Entity replica = client.receiver().entity(server.assign_net_id(target));
    EXPECT_EQ(client.why_not(Snap{replica, 5}), "");
    client.act(Snap{replica, 5});
    client.act(Snap{replica, 8});
    for (int i = 0; i < 20; ++i) session.step();
    EXPECT_EQ(server.stats(shooter).actions.accepted, 1u);
    EXPECT_EQ(server.stats(shooter).actions.rejected, 1u);
}

TEST(Readme, ARecordingIsPlayed) {
    const auto game_schema = [] {
        Schema schema;
        schema.component<Position>("position");
        return schema;
    };
    const Schema of_server = game_schema();
    sim::Session session(of_server, {}, 1);
    Server& server = session.server();
    const ecs::Entity ship = session.world().spawn(Replicated{}, Position{});
    std::vector<std::byte> file;
#include "readme/replication/record/recordings_1.inc"
    for (float tick = 1; tick <= 200; ++tick) {
        session.world().set(ship, Position{tick, 0});
        session.step();
#include "readme/replication/record/recordings_2.inc"
    }
    using ecs::World;
    const impl::NetId victim = server.assign_net_id(ship);
    std::vector<float> drawn;
    const auto draw = [&](World& world, ecs::Entity entity) {
        drawn.push_back(world.get<Position>(entity).x);
    };
    [&] {
#include "readme/replication/record/recordings_3.inc"
    }();
    EXPECT_NEAR(static_cast<double>(drawn.size()), 300, 30);
    EXPECT_EQ(drawn.front(), 50);
    EXPECT_EQ(drawn.back(), 200);
}

}  // namespace
}  // namespace shoal::replication
