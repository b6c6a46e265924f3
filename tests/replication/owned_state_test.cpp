// Components that clients decide: OwnedWriter, OwnedReader and their messages.

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "replication/codec/codec.h"
#include "tests/replication/support/link.h"
#include "tests/replication/support/stage.h"

namespace shoal::replication::owned_state_test {
namespace {

struct Banner {
    std::string text;
};
struct Aim {
    float angle = 0;
    ecs::Entity target;
};
struct Cargo {
    int tons = 0;
};

Schema owned_schema() {
    Schema schema;
    schema.component<Banner>("banner", max_length(16), from_owner());
    schema.component<Aim>("aim", from_owner(), field(&Aim::angle, quantised(0, 7, 0.125)));
    schema.component<Cargo>("cargo", bounded(0, 1000));
    schema.tag<Mine>("mine", to_owner());
    return schema;
}

/// Two clients; the first one owns a ship.
struct Harbour {
    explicit Harbour(std::uint32_t seed = 1) : stage(owned_schema(), seed) {
        stage.give(&first, ship);
        stage.owned.check(component<Banner>(), [](net::PeerId, ecs::Entity, const void* value) {
            const std::string& text = static_cast<const Banner*>(value)->text;
            return std::string(text.starts_with("bad") ? "no such words" : "");
        });
        for (Stage::Client* const client : {&first, &second})
            client->owned.on_refused(component<Banner>(), [this, client](ecs::Entity, std::string_view why) {
                refusals[client].emplace_back(why);
            });
        stage.run(4);
    }
    template <class T>
    static ComponentIndex component() {
        return static_cast<ComponentIndex>(owned_schema().find<T>());
    }
    std::string banner_of(Stage::Client& client) {
        const Banner* const banner = client.world.try_get<Banner>(stage.replica(client, ship));
        return banner ? banner->text : "(none)";
    }
    std::string banner() const { return stage.world.get<Banner>(ship).text; }
    void write(Stage::Client& client, std::string text) {
        client.world.set(stage.replica(client, ship), Banner{std::move(text)});
    }

    Stage stage;
    Stage::Client& first = stage.add_client();
    Stage::Client& second = stage.add_client();
    const ecs::Entity ship = stage.world.spawn(Replicated{}, Banner{"guest"}, Aim{}, Cargo{3});
    std::map<Stage::Client*, std::vector<std::string>> refusals;
};

TEST(OwnedState, WhatTheOwnerWritesReachesTheServerAndTheOthers) {
    Harbour harbour;
    EXPECT_EQ(harbour.banner_of(harbour.first), "guest") << "the server gives the first value";
    harbour.write(harbour.first, "Ann");
    harbour.stage.run(6);
    EXPECT_EQ(harbour.banner(), "Ann");
    EXPECT_EQ(harbour.banner_of(harbour.second), "Ann");
    EXPECT_EQ(harbour.banner_of(harbour.first), "Ann");
    EXPECT_EQ(harbour.first.owned.stats().sent, 1u);
    const Aim aim{3, harbour.stage.replica(harbour.first, harbour.ship)};
    harbour.first.world.set(aim.target, aim);
    harbour.stage.run(6);
    EXPECT_EQ(harbour.stage.world.get<Aim>(harbour.ship).angle, 3);
    EXPECT_EQ(harbour.stage.world.get<Aim>(harbour.ship).target, harbour.ship);
    EXPECT_TRUE(harbour.stage.is_equal(harbour.first) && harbour.stage.is_equal(harbour.second));
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).taken, 2u);
}

TEST(OwnedState, APacketBringsAllComponentsOfAnEntityOnce) {
    Harbour harbour;
    Stage& stage = harbour.stage;
    harbour.write(harbour.first, "Ann");
    harbour.first.world.set(stage.replica(harbour.first, harbour.ship), Aim{3, {}});
    stage.step();
    ASSERT_EQ(harbour.first.up.size(), 1u);
    const Stage::Bytes packet = harbour.first.up[0];
    stage.run(6);
    EXPECT_EQ(harbour.banner(), "Ann");
    EXPECT_EQ(stage.world.get<Aim>(harbour.ship).angle, 3);
    EXPECT_EQ(stage.owned.stats(harbour.first.id).taken, 2u);
    EXPECT_EQ(stage.owned.stats(harbour.first.id).outdated, 0u);
    stage.world.set(harbour.ship, Banner{"by the server"});
    EXPECT_TRUE(stage.uplink.read(harbour.first.id, packet.number, packet.bytes, net::Time{}));
    EXPECT_EQ(stage.owned.stats(harbour.first.id).outdated, 2u);
    EXPECT_EQ(harbour.banner(), "by the server");
}

TEST(OwnedState, ValuesUnderWayAreNotInTheHashOfATick) {
    Harbour harbour;
    Stage& stage = harbour.stage;
    WorldHash server(stage.world, stage.schema), client(harbour.first.world, stage.schema);
    const auto ours = [&] { return server.of_server(stage.sender.shadow()); };
    const auto theirs = [&] { return client.of_client(harbour.first.receiver); };
    ASSERT_EQ(ours(), theirs());
    harbour.write(harbour.first, "Ann");
    EXPECT_EQ(ours().hash, theirs().hash);
    EXPECT_NE(ours().owned_hash, theirs().owned_hash);
    stage.run(6);
    EXPECT_EQ(ours(), theirs());
    stage.world.remove<Banner>(harbour.ship);
    stage.run(1);
    const WorldHash::Sum without = ours();
    stage.world.set(harbour.ship, Banner{"Ann"});
    EXPECT_NE(ours().hash, without.hash) << "whether it is there";
}

TEST(OwnedState, WhatAHookWritesWhenTheEntityArrivesIsSent) {
    Harbour harbour;
    const ecs::Hook hook = harbour.second.world.on_add<Mine>(
        [](ecs::World& world, ecs::Entity entity) { world.set(entity, Banner{"at once"}); });
    harbour.stage.give(&harbour.second, harbour.ship);
    harbour.stage.run(6);
    EXPECT_EQ(harbour.banner(), "at once");
    EXPECT_EQ(harbour.banner_of(harbour.first), "at once");
}

TEST(OwnedState, ALostValueIsSentAgainAndANewerOneReplacesIt) {
    Harbour harbour;
    harbour.stage.loss = 1;
    harbour.write(harbour.first, "Ann");
    harbour.stage.run(1);
    harbour.write(harbour.first, "Bob");
    harbour.stage.run(3);
    EXPECT_EQ(harbour.banner(), "guest");
    harbour.stage.settle(6);
    EXPECT_EQ(harbour.banner(), "Bob");
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).taken, 1u);
    const std::uint64_t sent = harbour.first.owned.stats().sent;
    harbour.stage.run(30);
    EXPECT_EQ(harbour.first.owned.stats().sent, sent) << "nothing is under way any more";
}

TEST(OwnedState, Trap36AnOlderCopyOfTheServerDoesNotReplaceTheOwnValue) {
    Harbour harbour;
    harbour.stage.most_delay = 8;
    for (int i = 0; i < 60; ++i) {
        const std::string text = std::to_string(i);
        harbour.write(harbour.first, text);
        // Full records carry the server's older value.
        if (i % 5 == 0) harbour.stage.sender.rebase(harbour.first.peer, 0);
        harbour.stage.world.set(harbour.ship, Cargo{i});
        harbour.stage.step();
        ASSERT_EQ(harbour.banner_of(harbour.first), text);
    }
    harbour.stage.settle(20);
    EXPECT_EQ(harbour.banner(), "59");
    EXPECT_TRUE(harbour.stage.is_equal(harbour.second));
}

TEST(OwnedState, Trap37AfterARefusalALaterValueIsTaken) {
    Harbour harbour;
    harbour.write(harbour.first, "bad one");
    harbour.stage.run(6);
    EXPECT_EQ(harbour.banner(), "guest");
    EXPECT_EQ(harbour.banner_of(harbour.first), "guest") << "the server's value is back";
    EXPECT_EQ(harbour.refusals[&harbour.first], std::vector<std::string>{"no such words"});
    harbour.write(harbour.first, "good one");
    harbour.stage.run(6);
    EXPECT_EQ(harbour.banner(), "good one");
    // The valid value is under way when the news of the refusal arrives.
    harbour.stage.most_delay = 1;
    harbour.write(harbour.first, "bad two");
    harbour.stage.run(1);
    harbour.write(harbour.first, "good two");
    for (int i = 0; i < 8; ++i) {
        harbour.stage.step();
        EXPECT_EQ(harbour.banner_of(harbour.first), "good two");
    }
    EXPECT_EQ(harbour.banner(), "good two");
    EXPECT_EQ(harbour.refusals[&harbour.first].size(), 2u);
    EXPECT_TRUE(harbour.stage.is_equal(harbour.first) && harbour.stage.is_equal(harbour.second));
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).refused, 2u);
}

// Goal: a value that was sent twice, because its first packet seemed to be lost, is refused once for the
// game.
TEST(OwnedState, ARefusalOfBothCopiesOfAValueIsToldOnce) {
    Harbour harbour;
    Stage& stage = harbour.stage;
    harbour.write(harbour.first, "bad one");
    stage.step();
    ASSERT_EQ(harbour.first.up.size(), 1u);
    Stage::Bytes& packet = harbour.first.up[0];
    EXPECT_TRUE(stage.uplink.read(harbour.first.id, packet.number, packet.bytes, net::Time{}));
    packet.is_lost = true;
    stage.run(6);
    EXPECT_EQ(stage.owned.stats(harbour.first.id).refused, 2u);
    EXPECT_EQ(harbour.first.owned.stats().refused, 1u);
    EXPECT_EQ(harbour.refusals[&harbour.first], std::vector<std::string>{"no such words"});
    EXPECT_EQ(harbour.banner_of(harbour.first), "guest");
}

TEST(OwnedState, Trap38ValuesUnderWayWhenTheEntityChangesHandsAreIgnored) {
    Harbour harbour;
    harbour.stage.most_delay = 6;
    for (int i = 0; i < 5; ++i) {
        harbour.write(harbour.first, "bad" + std::to_string(i));
        harbour.stage.step();
    }
    harbour.stage.give(&harbour.second, harbour.ship);
    harbour.stage.world.set(harbour.ship, Banner{"taken"});
    harbour.stage.settle(20);
    EXPECT_GT(harbour.stage.owned.stats(harbour.first.id).ignored, 0u);
    EXPECT_TRUE(harbour.first.kicked.empty());
    EXPECT_EQ(harbour.banner_of(harbour.first), "taken");
    EXPECT_EQ(harbour.banner_of(harbour.second), "taken");
    harbour.write(harbour.second, "mine");
    harbour.write(harbour.first, "not mine");
    harbour.stage.settle(20);
    EXPECT_EQ(harbour.banner(), "mine");
    harbour.stage.give(&harbour.first, harbour.ship);
    harbour.stage.settle(20);
    EXPECT_EQ(harbour.banner_of(harbour.first), "mine");
    harbour.write(harbour.first, "again");
    harbour.stage.settle(20);
    EXPECT_EQ(harbour.banner(), "again");
    EXPECT_TRUE(harbour.stage.is_equal(harbour.first) && harbour.stage.is_equal(harbour.second));
}

// Goal: at rest the server has the owner's value, although the owner did not notice that another player, or
// nobody, owned the entity for a time.
TEST(OwnedState, AnOwnerThatDidNotNoticeALossSendsItsValuesAgain) {
    for (const bool is_to_nobody : {false, true}) {
        Harbour harbour;
        harbour.write(harbour.first, "ours");
        harbour.stage.settle(20);
        harbour.stage.give(is_to_nobody ? nullptr : &harbour.second, harbour.ship);
        harbour.stage.world.set(harbour.ship, Banner{"theirs"});
        harbour.stage.give(&harbour.first, harbour.ship);
        harbour.stage.settle(20);
        EXPECT_EQ(harbour.banner(), "ours");
        EXPECT_EQ(harbour.banner_of(harbour.first), "ours");
        EXPECT_EQ(harbour.banner_of(harbour.second), "ours");
    }
}

// Goal: a client that gets its entities back, and has written nothing, is not refused and not disconnected,
// although the game accepts no values at that time.
TEST(OwnedState, AValueThatTheServerHasIsNotRefused) {
    Harbour harbour;
    std::vector<ecs::Entity> ships;
    for (int i = 0; i < 100; ++i) {
        ships.push_back(harbour.stage.world.spawn(Replicated{}, Banner{"guest"}));
        harbour.stage.give(&harbour.first, ships.back());
    }
    harbour.stage.settle(20);
    harbour.stage.owned.check(Harbour::component<Banner>(), [](net::PeerId, ecs::Entity, const void*) {
        return std::string("the round has not begun");
    });
    for (const ecs::Entity ship : ships) harbour.stage.give(nullptr, ship);
    for (const ecs::Entity ship : ships) harbour.stage.give(&harbour.first, ship);
    harbour.stage.settle(20);
    EXPECT_GE(harbour.first.owned.stats().sent, 100u);
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).refused, 0u);
    EXPECT_FALSE(harbour.stage.owned.is_flood(harbour.first.id));
    EXPECT_TRUE(harbour.refusals[&harbour.first].empty());
    harbour.write(harbour.first, "ours");
    harbour.stage.settle(20);
    EXPECT_EQ(harbour.refusals[&harbour.first], std::vector<std::string>{"the round has not begun"});
    EXPECT_EQ(harbour.banner_of(harbour.first), "guest");
}

TEST(OwnedState, ACheckThatAcceptsAValueMayRemoveTheComponentOrTheEntity) {
    for (const bool destroys : {false, true}) {
        Harbour harbour;
        ecs::World& world = harbour.stage.world;
        harbour.stage.owned.check(Harbour::component<Banner>(),
                                  [&](net::PeerId, ecs::Entity entity, const void*) {
                                      destroys ? world.destroy(entity) : world.remove<Banner>(entity);
                                      return std::string();
                                  });
        harbour.write(harbour.first, "ours");
        const std::uint64_t dropped = world.dropped_commands();
        harbour.stage.settle(20);
        EXPECT_EQ(world.dropped_commands(), dropped) << "the value is not written";
        EXPECT_EQ(world.is_alive(harbour.ship), !destroys);
        EXPECT_FALSE(world.has<Banner>(harbour.ship));
        EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).taken, 0u);
        EXPECT_TRUE(harbour.stage.is_equal(harbour.first));
    }
}

// What the server asks for, and what it forgets

TEST(OwnedState, TheServerAsksOnlyForValuesThatTheEntityHasAndThatHadAnOwner) {
    Harbour harbour;
    Stage& stage = harbour.stage;
    const ecs::Entity rock = stage.world.spawn(Replicated{}, Cargo{1});
    stage.run(4);
    ASSERT_TRUE(harbour.first.messages.empty() && harbour.second.messages.empty());
    stage.give(&harbour.first, rock);
    stage.give(&harbour.second, rock);
    EXPECT_TRUE(harbour.second.messages.empty()) << "it has no component of its owner";
    const ecs::Entity boat = stage.world.spawn(Replicated{}, Banner{"boat"});
    stage.give(&harbour.first, boat);
    EXPECT_TRUE(harbour.first.messages.empty()) << "the first owner has the server's value";
    stage.give(&harbour.second, boat);
    ASSERT_EQ(harbour.second.messages.size(), 1u);
    EXPECT_EQ(read_send_owned(harbour.second.messages[0].bytes),
              std::vector<std::uint32_t>{stage.sender.net_id(boat)});
    stage.owned.ask();
    EXPECT_EQ(harbour.second.messages.size(), 1u) << "it was asked";
    stage.give(nullptr, boat);
    EXPECT_TRUE(harbour.first.messages.empty());
    EXPECT_EQ(harbour.second.messages.size(), 1u) << "nobody owns it";
}

TEST(OwnedState, TheServerAsksForManyEntitiesInSeveralMessages) {
    Harbour harbour;
    Stage& stage = harbour.stage;
    std::vector<ecs::Entity> boats;
    for (int i = 0; i < 450; ++i) boats.push_back(stage.world.spawn(Replicated{}, Banner{"boat"}));
    for (const ecs::Entity boat : boats) stage.owned.note_owner(boat, harbour.first.id);
    stage.owned.ask();
    EXPECT_TRUE(harbour.first.messages.empty());
    for (std::size_t i = 0; i < 200; ++i) stage.world.destroy(boats[i]);
    for (std::size_t i = 200; i < 450; ++i) stage.owned.note_owner(boats[i], harbour.second.id);
    stage.owned.ask();
    std::vector<std::uint32_t> asked;
    for (const Stage::Bytes& message : harbour.second.messages) {
        const std::vector<std::uint32_t> some = read_send_owned(message.bytes).value();
        asked.insert(asked.end(), some.begin(), some.end());
    }
    EXPECT_EQ(harbour.second.messages.size(), 2u) << "200 and 50";
    ASSERT_EQ(asked.size(), 250u);
    for (std::size_t i = 0; i < 250; ++i) EXPECT_EQ(asked[i], stage.sender.net_id(boats[200 + i]));
}

TEST(OwnedState, WhatAPlayerWasAskedForIsAskedAgainWhenItReconnects) {
    Harbour harbour;
    Stage& stage = harbour.stage;
    const auto entity = [&](Stage::Client* first, Stage::Client* second) {
        const ecs::Entity boat = stage.world.spawn(Replicated{}, Banner{"boat"});
        stage.run(2);
        stage.give(first, boat);
        if (second) stage.give(second, boat);
        return boat;
    };
    entity(&harbour.first, nullptr);
    const ecs::Entity again = entity(&harbour.second, &harbour.first);
    entity(&harbour.first, &harbour.second);
    stage.run(10);
    ASSERT_TRUE(harbour.first.messages.empty());
    stage.owned.reconnect(harbour.first.id);
    stage.owned.reconnect({});
    stage.owned.ask();
    ASSERT_EQ(harbour.first.messages.size(), 1u);
    EXPECT_EQ(read_send_owned(harbour.first.messages[0].bytes),
              std::vector<std::uint32_t>{stage.sender.net_id(again)});
}

TEST(OwnedState, AnUnknownPlayerHasNoStatistics) {
    Harbour harbour;
    harbour.write(harbour.first, "bad");
    harbour.stage.run(6);
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).refused, 1u);
    harbour.stage.owned.remove_player(harbour.first.id);
    for (const PlayerId player : {harbour.first.id, PlayerId{}}) {
        const OwnedReader::Stats stats = harbour.stage.owned.stats(player);
        EXPECT_EQ(stats.taken + stats.refused + stats.ignored + stats.outdated, 0u);
        EXPECT_FALSE(harbour.stage.owned.is_flood(player));
    }
}

TEST(OwnedState, ACheckThatRefusesAValueMayRemoveTheComponentOrTheEntity) {
    for (const bool destroys : {false, true}) {
        Harbour harbour;
        ecs::World& world = harbour.stage.world;
        harbour.stage.owned.check(Harbour::component<Banner>(),
                                  [&](net::PeerId, ecs::Entity entity, const void*) {
                                      destroys ? world.destroy(entity) : world.remove<Banner>(entity);
                                      return std::string("no");
                                  });
        harbour.write(harbour.first, "ours");
        harbour.stage.settle(20);
        EXPECT_EQ(world.is_alive(harbour.ship), !destroys);
        EXPECT_FALSE(world.has<Banner>(harbour.ship));
        EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).refused, 1u);
        EXPECT_TRUE(harbour.refusals[&harbour.first].empty()) << "there is no value to restore";
        EXPECT_TRUE(harbour.stage.is_equal(harbour.first));
    }
}

TEST(OwnedState, AMessageThatAsksForValuesIsBounded) {
    const std::vector<std::uint32_t> net_ids{3, 0, 0xffff'ffff};
    EXPECT_EQ(read_send_owned(write_send_owned(net_ids)), net_ids);
    std::vector<std::byte> message = write_send_owned(std::vector<std::uint32_t>(kMaxAskedEntities, 9));
    EXPECT_TRUE(read_send_owned(message));
    message.resize(message.size() + 4);
    EXPECT_FALSE(read_send_owned(message));
    message.resize(8);
    EXPECT_FALSE(read_send_owned(message));
    EXPECT_FALSE(read_send_owned({}));
    Harbour harbour;
    for (std::uint32_t i = 0; i < 100'000; ++i)
        EXPECT_TRUE(harbour.first.owned.receive(write_send_owned(std::vector<std::uint32_t>{1'000 + i})));
    EXPECT_LE(harbour.first.owned.asked_count(), 64u);
    harbour.stage.settle(20);
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).taken, 0u);
}

TEST(OwnedState, TheServerDecidesWhetherTheComponentIsThere) {
    Harbour harbour;
    harbour.stage.world.remove<Banner>(harbour.ship);
    harbour.write(harbour.first, "late");
    harbour.stage.run(6);
    EXPECT_FALSE(harbour.stage.world.has<Banner>(harbour.ship));
    EXPECT_EQ(harbour.banner_of(harbour.first), "(none)");
    harbour.stage.world.set(harbour.ship, Banner{"new"});
    harbour.stage.run(6);
    EXPECT_EQ(harbour.banner_of(harbour.first), "new");
    harbour.write(harbour.first, "own");
    harbour.stage.run(6);
    EXPECT_EQ(harbour.banner(), "own");
}

TEST(OwnedState, AnEntityThatDiesOrLeavesEndsItsValues) {
    Harbour harbour;
    harbour.write(harbour.first, "late");
    harbour.stage.world.destroy(harbour.ship);
    harbour.stage.run(8);
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).ignored, 1u);
    EXPECT_TRUE(harbour.first.owned.is_consistent());
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).taken, 0u);
}

// Goal: at rest all worlds agree, whatever is lost, delayed, refused, given away, removed or destroyed.
// Method: each value has a number that rises; the server must see the numbers of one owner rise, too.
TEST(OwnedState, WorldsAgreeAtRestWhateverTheLinkDoes) {
    std::uint64_t taken = 0, refused = 0, older = 0;
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Harbour harbour(seed);
        Stage& stage = harbour.stage;
        std::mt19937 random(seed);
        std::vector<ecs::Entity> ships{harbour.ship};
        for (int i = 0; i < 5; ++i)
            ships.push_back(stage.world.spawn(Replicated{}, Banner{"0"}, Aim{}, Cargo{i}));
        std::map<std::pair<ecs::Entity, Sender::Peer>, int> newest;
        const auto note = [&](ecs::World&, ecs::Entity entity, const Banner& banner) {
            ASSERT_EQ(banner.text.find_first_not_of("0123456789"), std::string::npos);
            int& last = newest[{entity, stage.sender.owner(entity).value()}];
            // An owner that gets the entity back sends the value that it got with it, although the server may
            // have a newer one that the owner had sent before.
            older += std::stoi(banner.text) < last;
            last = std::stoi(banner.text);
        };
        const ecs::Hook hook = stage.world.on_change<Banner>(note);
        int number = 0;
        for (int round = 0; round < 3; ++round) {
            stage.loss = static_cast<double>(random() % 50) / 100;
            stage.most_delay = 1 + static_cast<int>(random() % 12);
            for (int i = 0; i < 120; ++i) {
                const ecs::Entity ship = ships[random() % ships.size()];
                const auto& client = stage.clients[random() % 2];
                const ecs::Entity replica = stage.replica(*client, ship);
                if (replica && client->world.has<Mine>(replica) && client->world.has<Banner>(replica)) {
                    const bool is_bad = random() % 4 == 0;
                    client->world.set(replica, Banner{(is_bad ? "bad" : "") + std::to_string(++number)});
                    if (random() % 3 == 0 && client->world.has<Aim>(replica))
                        client->world.set(replica, Aim{static_cast<float>(random() % 7),
                                                       stage.replica(*client, ships[random() % 6])});
                }
                if (random() % 20 == 0) {
                    stage.give(random() % 4 == 0 ? nullptr : stage.clients[random() % 2].get(), ship);
                }
                if (random() % 100 == 0) stage.world.remove<Aim>(ship);
                if (random() % 5 == 0) stage.world.set(ship, Cargo{static_cast<int>(random() % 1000)});
                stage.step();
            }
            stage.settle(80);
            for (const ecs::Entity ship : ships) stage.world.add<Aim>(ship);
            stage.run(10);
            for (const auto& client : stage.clients) {
                for (const ecs::Entity ship : ships) {
                    const ecs::Entity replica = stage.replica(*client, ship);
                    EXPECT_EQ(client->world.get<Banner>(replica).text, stage.world.get<Banner>(ship).text);
                }
                EXPECT_TRUE(stage.is_equal(*client));
                EXPECT_TRUE(client->receiver.is_consistent());
            }
            EXPECT_TRUE(stage.sender.is_consistent());
        }
        for (const ecs::Entity ship : ships)
            EXPECT_FALSE(stage.world.get<Banner>(ship).text.starts_with("bad"));
        taken += stage.owned.stats(harbour.first.id).taken;
        refused += stage.owned.stats(harbour.first.id).refused;
    }
    EXPECT_GT(taken, 800u);
    EXPECT_LE(older, 3u);
    EXPECT_GT(refused, 200u);
}

// The sections of a client

/// A client that owns many ships. The test writes and reads the sections itself.
struct Fleet {
    explicit Fleet(int size) {
        for (int i = 0; i < size; ++i) {
            ships.push_back(stage().world.spawn(Replicated{}, Banner{"0"}));
            stage().give(&client(), ships.back());
        }
        stage().run(10);
        EXPECT_EQ(writer().stats().sent, 0u) << "the game has written nothing";
    }
    Stage& stage() { return harbour.stage; }
    Stage::Client& client() { return harbour.first; }
    OwnedWriter& writer() { return client().owned; }
    void write(std::size_t ship, const std::string& text) {
        client().world.set(stage().replica(client(), ships[ship]), Banner{text});
        writer().update();
    }
    void write_all(const std::string& text) {
        for (std::size_t i = 0; i < ships.size(); ++i) write(i, text);
    }
    /// Returns the number of bits of a section; 0: there is none. The server reads it.
    std::size_t section(std::size_t room) {
        BitWriter out;
        const std::uint64_t number = next++;
        if (!writer().write_section(number, room, out)) {
            EXPECT_EQ(out.bit_count(), 0u);
            return 0;
        }
        EXPECT_LE(out.bit_count(), room);
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        BitReader in(bytes);
        EXPECT_TRUE(stage().owned.read_section(client().id, number, in));
        EXPECT_TRUE(in.at_padding());
        stage().owned.commit_section(client().id, {});
        EXPECT_TRUE(writer().is_consistent());
        return out.bit_count();
    }
    std::string banner(std::size_t ship) { return stage().world.get<Banner>(ships[ship]).text; }
    int count(const std::string& text) {
        int count = 0;
        for (std::size_t i = 0; i < ships.size(); ++i) count += banner(i) == text;
        return count;
    }

    Harbour harbour;
    std::vector<ecs::Entity> ships;
    std::uint64_t next = 1000;
};

TEST(OwnedState, ValuesThatDoNotFitIntoASectionFollowInTheNextOnes) {
    Fleet fleet(10);
    fleet.write_all("sixteen letters!");
    const std::size_t all = fleet.section(100'000);
    EXPECT_EQ(fleet.count("sixteen letters!"), 10);
    EXPECT_EQ(fleet.section(100'000), 0u) << "everything was sent";
    EXPECT_FALSE(fleet.writer().lacked_room());
    fleet.write_all("SIXTEEN LETTERS!");
    for (const int sent : {3, 6, 9, 10}) {
        EXPECT_GT(fleet.section(all * 35 / 100), 0u);
        EXPECT_EQ(fleet.count("SIXTEEN LETTERS!"), sent);
        EXPECT_FALSE(fleet.writer().lacked_room()) << "the section was not empty";
    }
    EXPECT_EQ(fleet.writer().stats().sent, 20u);
}

TEST(OwnedState, AShipThatAlwaysHasNewValuesDoesNotKeepTheOthersWaiting) {
    Fleet fleet(5);
    fleet.write(0, "sixteen letters!");
    const std::size_t one = fleet.section(100'000);
    fleet.write_all("SIXTEEN LETTERS!");
    for (int i = 0; i < 5; ++i) {
        fleet.write(0, "sixteen letters" + std::to_string(i));
        EXPECT_GT(fleet.section(one + 30), 0u);
    }
    EXPECT_EQ(fleet.count("SIXTEEN LETTERS!"), 4);
}

TEST(OwnedState, ASectionLacksRoomIfAValueNeedsMoreThanAllOfIt) {
    Fleet fleet(3);
    fleet.write(0, "sixteen letters!");
    const std::size_t one = fleet.section(100'000);
    EXPECT_FALSE(fleet.writer().lacked_room());
    for (const std::size_t ship : {1u, 2u}) {
        fleet.write(0, "a");
        fleet.write(ship, "sixteen letters!");
        EXPECT_GT(fleet.section(one - 20), 0u);
        EXPECT_EQ(fleet.banner(0), "a") << "it fits";
        EXPECT_EQ(fleet.banner(ship), "0");
        EXPECT_TRUE(fleet.writer().lacked_room());
        EXPECT_GT(fleet.section(one + 30), 0u);
        EXPECT_EQ(fleet.banner(ship), "sixteen letters!");
        EXPECT_FALSE(fleet.writer().lacked_room());
        fleet.write(0, "b");
        fleet.section(100'000);
    }
    fleet.write(0, "c");
    EXPECT_EQ(fleet.section(0), 0u);
    EXPECT_TRUE(fleet.writer().lacked_room());
    EXPECT_GT(fleet.section(100'000), 0u);
    EXPECT_EQ(fleet.section(0), 0u);
    EXPECT_FALSE(fleet.writer().lacked_room()) << "nothing is to be sent";
}

TEST(OwnedState, ASectionLacksRoomAlthoughSmallerValuesFit) {
    Fleet fleet(3);
    fleet.write(0, "12345678");
    const std::size_t eight = fleet.section(100'000);
    fleet.write(0, "sixteen letters!");
    fleet.write(1, "abcdefgh");
    fleet.write(2, "abcdefgh");
    EXPECT_GT(fleet.section(eight + 20), 0u);
    EXPECT_EQ(fleet.count("abcdefgh"), 1);
    EXPECT_TRUE(fleet.writer().lacked_room());
}

TEST(OwnedState, ASectionKeepsRoomForTheGreatestCount) {
    Fleet fleet(1);
    fleet.write(0, "a");
    const std::size_t one = fleet.section(100'000);
    const std::size_t room =
        one - golomb_bits(0, kOwnedCountOrder) + golomb_bits(kMaxOwnedValues - 1, kOwnedCountOrder);
    fleet.write(0, "b");
    EXPECT_EQ(fleet.section(room - 1), 0u);
    EXPECT_TRUE(fleet.writer().lacked_room());
    EXPECT_EQ(fleet.section(room), one);
}

struct Lamp {
    int brightness = 5;
};

TEST(OwnedState, ANewOwnerThatWritesNothingSendsNothing) {
    Schema schema;
    schema.component<Lamp>("lamp", bounded(0, 7), from_owner());
    schema.component<Aim>("aim", from_owner());
    schema.tag<Mine>("mine", to_owner());
    Stage stage(schema);
    Stage::Client& client = stage.add_client();
    const ecs::Entity target = stage.world.spawn(Replicated{}, Lamp{});
    const ecs::Entity tower = stage.world.spawn(Replicated{}, Lamp{}, Aim{2, target});
    int checks = 0;
    stage.owned.check(static_cast<ComponentIndex>(schema.find<Aim>()),
                      [&](net::PeerId, ecs::Entity, const void*) {
                          checks += 1;
                          return std::string("no");
                      });
    stage.run(4);
    client.world.destroy(stage.replica(client, target));
    stage.world.set(tower, Aim{3, target});
    stage.run(4);
    stage.give(&client, tower);
    stage.run(6);
    const ecs::Entity replica = stage.replica(client, tower);
    ASSERT_TRUE(client.world.has<Mine>(replica));
    EXPECT_EQ(client.world.get<Aim>(replica).angle, 3);
    EXPECT_FALSE(client.world.get<Aim>(replica).target) << "the client does not have it";
    EXPECT_EQ(client.owned.stats().sent, 0u);
    client.world.set(replica, Aim{4, {}});
    stage.run(8);
    EXPECT_EQ(checks, 1);
    EXPECT_EQ(client.world.get<Aim>(replica).angle, 3) << "it was refused";
    EXPECT_EQ(client.owned.stats().sent, 1u);
    EXPECT_EQ(stage.world.get<Aim>(tower).target, target);
}

TEST(OwnedState, ASectionHasAtMost256Values) {
    Fleet fleet(300);
    fleet.write_all("a");
    EXPECT_GT(fleet.section(1'000'000), 0u);
    EXPECT_EQ(fleet.count("a"), 256);
    EXPECT_GT(fleet.section(1'000'000), 0u);
    EXPECT_EQ(fleet.count("a"), 300);
}

TEST(OwnedState, OnlyTheNewestPacketOfAValueIsSentAgain) {
    Fleet fleet(2);
    fleet.write(0, "a");
    EXPECT_GT(fleet.section(1'000), 0u);
    fleet.write(0, "b");
    EXPECT_GT(fleet.section(1'000), 0u);
    fleet.writer().on_fate(fleet.next - 2, false);
    EXPECT_EQ(fleet.section(1'000), 0u) << "a newer value is under way";
    fleet.writer().on_fate(fleet.next - 2, false);
    EXPECT_GT(fleet.section(1'000), 0u);
    fleet.writer().on_fate(fleet.next - 1, true);
    EXPECT_EQ(fleet.section(1'000), 0u);
    EXPECT_EQ(fleet.writer().stats().sent, 3u);
    EXPECT_EQ(fleet.banner(1), "0");
}

TEST(OwnedState, ValuesThatTheServerAskedForAreSentAlthoughTheyDidNotChange) {
    Fleet fleet(2);
    const auto ask = [&](std::uint32_t net_id) {
        EXPECT_TRUE(fleet.writer().receive(write_send_owned(std::vector<std::uint32_t>{net_id})));
    };
    const ecs::Entity foreign = fleet.stage().world.spawn(Replicated{}, Banner{"foreign"}),
                      local = fleet.client().world.spawn(Mine{}, Banner{"local"});
    fleet.stage().run(4);
    EXPECT_TRUE(fleet.client().world.is_alive(local));
    EXPECT_EQ(fleet.section(1'000), 0u) << "an entity that is not a replica";
    for (const std::uint32_t net_id : {fleet.stage().sender.net_id(foreign), 0u, 12'345u}) ask(net_id);
    EXPECT_EQ(fleet.section(1'000), 0u);
    ask(fleet.stage().sender.net_id(fleet.ships[1]));
    EXPECT_GT(fleet.section(1'000), 0u);
    EXPECT_EQ(fleet.writer().stats().sent, 1u);
    ask(fleet.stage().sender.net_id(fleet.harbour.ship));
    EXPECT_GT(fleet.section(1'000), 0u);
    EXPECT_EQ(fleet.writer().stats().sent, 3u) << "a banner and an aim";
    // It owns the entity only later.
    fleet.stage().sender.set_owner(foreign, fleet.client().peer);
    fleet.stage().world.add<Mine>(foreign);
    fleet.stage().run(4);
    EXPECT_EQ(fleet.writer().stats().sent, 4u);
}

TEST(OwnedState, AnEntityWithoutAPresentValueSendsNone) {
    Fleet fleet(2);
    ecs::World& mirror = fleet.client().world;
    const ecs::Entity replica = fleet.stage().replica(fleet.client(), fleet.ships[0]);
    mirror.remove<Banner>(replica);
    fleet.writer().update();
    EXPECT_EQ(fleet.section(1'000), 0u) << "only the server removes components";
    EXPECT_EQ(fleet.banner(0), "0");
    fleet.write(1, "a");
    fleet.stage().world.remove<Banner>(fleet.ships[1]);
    fleet.stage().world.destroy(fleet.ships[0]);
    fleet.stage().run(3);
    fleet.write(1, "b");
    EXPECT_EQ(fleet.section(1'000), 0u);
    EXPECT_TRUE(fleet.writer().is_consistent());
    // The record that removes the component arrives when a value waits.
    Fleet other(1);
    other.stage().world.remove<Banner>(other.ships[0]);
    other.stage().run(1);
    other.write(0, "a");
    other.stage().run(3);
    EXPECT_EQ(other.writer().stats().sent, 0u);
    EXPECT_TRUE(other.writer().is_consistent());
}

TEST(OwnedState, ARefusedValueIsNotSentAgain) {
    Harbour harbour;
    const ComponentIndex banner = Harbour::component<Banner>();
    OwnedWriter& writer = harbour.first.owned;
    harbour.write(harbour.first, "bad");
    harbour.stage.run(10);
    EXPECT_EQ(harbour.banner_of(harbour.first), "guest");
    EXPECT_EQ(writer.stats().sent, 1u) << "the server's value is not sent back";
    const Schema schema = owned_schema();
    const std::vector<std::uint32_t> words{2, 'h', 'i'};
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    for (const NetId net_id : {own, own + 1'000, NetId{0}})
        EXPECT_TRUE(writer.receive(write_refusal(schema, {1'000, net_id, banner, "no", words})));
    EXPECT_EQ(harbour.banner_of(harbour.first), "hi");
    EXPECT_TRUE(writer.receive(write_refusal(schema, {1'000, own, banner, "no", words}))) << "told before";
    std::vector<std::byte> malformed = write_refusal(schema, {1'000, own, banner, "no", words});
    malformed.pop_back();
    EXPECT_FALSE(writer.receive(malformed));
    EXPECT_FALSE(writer.receive({}));
    // The game writes before it knows of the refusal.
    const std::size_t told = harbour.refusals[&harbour.first].size();
    harbour.write(harbour.first, "newer");
    EXPECT_TRUE(writer.receive(write_refusal(schema, {1'001, own, banner, "no", words})));
    EXPECT_EQ(harbour.banner_of(harbour.first), "newer");
    EXPECT_EQ(harbour.refusals[&harbour.first].size(), told + 1);
    harbour.stage.run(6);
    EXPECT_EQ(harbour.banner(), "newer");
}

TEST(OwnedState, ARefusalOfTheFirstCopyDoesNotRestoreWhileTheSecondOneIsUnderWay) {
    Fleet fleet(1);
    const Schema schema = owned_schema();
    fleet.write(0, "a");
    EXPECT_GT(fleet.section(1'000), 0u);
    fleet.writer().on_fate(fleet.next - 1, false);
    EXPECT_GT(fleet.section(1'000), 0u);
    const ecs::Entity replica = fleet.stage().replica(fleet.client(), fleet.ships[0]);
    const auto refuse = [&](std::uint64_t packet) {
        EXPECT_TRUE(fleet.writer().receive(write_refusal(schema, {packet,
                                                                  fleet.stage().sender.net_id(fleet.ships[0]),
                                                                  Harbour::component<Banner>(),
                                                                  "no",
                                                                  {2, 'h', 'i'}})));
        return fleet.client().world.get<Banner>(replica).text;
    };
    EXPECT_EQ(refuse(fleet.next - 2), "a");
    EXPECT_EQ(refuse(fleet.next - 1), "hi");
    EXPECT_EQ(fleet.writer().stats().refused, 1u);
}

TEST(OwnedState, AReconnectedClientSendsTheValuesThatItEverSent) {
    Fleet fleet(3);
    fleet.write(1, "a");
    EXPECT_GT(fleet.section(1'000), 0u);
    EXPECT_EQ(fleet.section(1'000), 0u);
    fleet.write(2, "bad");
    EXPECT_GT(fleet.section(1'000), 0u);
    fleet.stage().run(4);
    EXPECT_EQ(fleet.harbour.refusals[&fleet.client()].size(), 1u);
    const std::uint64_t sent = fleet.writer().stats().sent;
    fleet.writer().reconnect();
    fleet.stage().owned.reconnect(fleet.client().id);
    fleet.next = 1;
    EXPECT_GT(fleet.section(1'000), 0u);
    EXPECT_EQ(fleet.writer().stats().sent, sent + 2);
    EXPECT_EQ(fleet.section(1'000), 0u);
    fleet.write(2, "bad");
    EXPECT_GT(fleet.section(1'000), 0u);
    fleet.stage().run(4);
    EXPECT_EQ(fleet.harbour.refusals[&fleet.client()].size(), 2u) << "packet numbers begin anew";
}

TEST(OwnedState, AResetForgetsEntitiesAndValues) {
    Fleet fleet(3);
    fleet.write(1, "a");
    EXPECT_TRUE(fleet.writer().receive(write_send_owned(std::vector<std::uint32_t>{77})));
    EXPECT_EQ(fleet.writer().asked_count(), 1u);
    fleet.client().receiver.reset();
    fleet.writer().reset();
    EXPECT_EQ(fleet.writer().asked_count(), 0u);
    EXPECT_TRUE(fleet.writer().is_consistent());
    EXPECT_EQ(fleet.section(1'000), 0u);
    fleet.writer().update();
    EXPECT_EQ(fleet.section(1'000), 0u);
}

// Hostile clients

/// A section with one value or more, all of one component.
std::vector<std::byte> owned_section(std::uint32_t count_less_one, std::uint32_t net_id,
                                     std::uint32_t component, const std::string& text) {
    BitWriter out;
    out.write_golomb(count_less_one, kOwnedCountOrder);
    for (std::uint32_t i = 0; i <= std::min(count_less_one, 300u); ++i) {
        if (i == 0) out.write(net_id, 32);
        if (i > 0) out.write_golomb(0, kOwnedNetIdOrder);
        out.write_golomb(component, kOwnedComponentOrder);
        std::vector<std::uint32_t> words{static_cast<std::uint32_t>(text.size())};
        for (const char c : text) words.push_back(static_cast<unsigned char>(c));
        const Schema schema = owned_schema();
        write_value(schema.components()[schema.find<Banner>()].layout, {}, words, out);
    }
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    return bytes;
}

bool read_forged(Harbour& harbour, std::uint64_t packet, const std::vector<std::byte>& section) {
    BitReader in(section);
    if (!harbour.stage.owned.read_section(harbour.first.id, packet, in)) return false;
    harbour.stage.owned.commit_section(harbour.first.id, {});
    return true;
}

TEST(OwnedState, HostileSectionsHaveNoEffect) {
    Harbour harbour;
    const ecs::Entity foreign = harbour.stage.world.spawn(Replicated{}, Banner{"foreign"});
    harbour.stage.run(3);
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    const ComponentIndex banner = Harbour::component<Banner>();
    for (const std::uint32_t net_id : {0u, own + 1000, harbour.stage.sender.net_id(foreign), 0xff000001u})
        EXPECT_TRUE(read_forged(harbour, 1000, owned_section(0, net_id, banner, "x")));
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).ignored, 4u);
    const ecs::Entity unsent = harbour.stage.world.spawn(Replicated{}, Banner{"unsent"});
    harbour.stage.give(&harbour.first, unsent);
    const NetId of_unsent = harbour.stage.sender.net_id(unsent);
    EXPECT_TRUE(read_forged(harbour, 1000, owned_section(0, of_unsent, banner, "x")));
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).ignored, 5u) << "the client does not have it";
    EXPECT_EQ(harbour.stage.world.get<Banner>(unsent).text, "unsent");
    for (const std::uint32_t component : {std::uint32_t{Harbour::component<Cargo>()},
                                          std::uint32_t{Harbour::component<Mine>()}, 4u, 5000u, 70'000u})
        EXPECT_FALSE(read_forged(harbour, 1001, owned_section(0, own, component, "x"))) << component;
    EXPECT_FALSE(read_forged(harbour, 1001, owned_section(256, own, banner, "x")));
    EXPECT_FALSE(read_forged(harbour, 1001, owned_section(0xffffffff, own, banner, "x")));
    const std::vector<std::byte> good = owned_section(0, own, banner, "good");
    for (std::size_t size = 0; size < good.size(); ++size)
        EXPECT_FALSE(
            read_forged(harbour, 1001, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}));
    EXPECT_EQ(harbour.banner(), "guest");
    EXPECT_TRUE(read_forged(harbour, 1001, good));
    EXPECT_EQ(harbour.banner(), "good");
    EXPECT_TRUE(read_forged(harbour, 1000, owned_section(0, own, banner, "older")));
    EXPECT_EQ(harbour.banner(), "good");
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).outdated, 1u);
}

TEST(OwnedState, TooManyRefusalsAreAFlood) {
    Harbour harbour;
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    for (std::uint64_t packet = 1000; packet < 1059; ++packet)
        EXPECT_TRUE(read_forged(harbour, packet, owned_section(0, own, Harbour::component<Banner>(), "bad")));
    EXPECT_FALSE(harbour.stage.owned.is_flood(harbour.first.id));
    for (std::uint64_t packet = 1059; packet < 2000; ++packet)
        EXPECT_TRUE(read_forged(harbour, packet, owned_section(0, own, Harbour::component<Banner>(), "bad")));
    EXPECT_TRUE(harbour.stage.owned.is_flood(harbour.first.id));
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).refused, 60u);
}

TEST(OwnedState, ACheckMayEndThePlayer) {
    for (const bool accepts : {false, true}) {
        Harbour harbour;
        OwnedReader& owned = harbour.stage.owned;
        int checks = 0;
        owned.check(Harbour::component<Banner>(), [&](net::PeerId id, ecs::Entity, const void*) {
            checks += 1;
            owned.remove_player(id);
            return std::string(accepts ? "" : "no");
        });
        const NetId own = harbour.stage.sender.net_id(harbour.ship);
        EXPECT_TRUE(read_forged(harbour, 1000, owned_section(2, own, Harbour::component<Banner>(), "x")));
        EXPECT_EQ(checks, 1) << "the other values of the payload have no effect";
        EXPECT_EQ(harbour.banner(), "guest");
        EXPECT_TRUE(harbour.first.messages.empty());
        EXPECT_TRUE(read_forged(harbour, 1001, owned_section(0, own, Harbour::component<Banner>(), "x")));
        EXPECT_EQ(checks, 1);
    }
}

TEST(OwnedState, TwentyRefusalsPerSecondAreNoFlood) {
    using namespace std::chrono_literals;
    Harbour harbour;
    OwnedReader& owned = harbour.stage.owned;
    const PlayerId id = harbour.first.id;
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    const std::vector<std::byte> bad = owned_section(0, own, Harbour::component<Banner>(), "bad");
    std::uint64_t packet = 1000;
    const auto refused_at = [&](net::Time now, int times) {
        const std::uint64_t before = owned.stats(id).refused;
        for (int i = 0; i < times; ++i) {
            BitReader in(bad);
            EXPECT_TRUE(owned.read_section(id, packet++, in));
            owned.commit_section(id, now);
        }
        return owned.stats(id).refused - before;
    };
    EXPECT_EQ(refused_at(100s, 100), 60u) << "at once";
    EXPECT_TRUE(owned.is_flood(id));
    EXPECT_EQ(refused_at(100s + 49ms, 5), 0u);
    EXPECT_EQ(refused_at(100s + 51ms, 5), 1u);
    EXPECT_EQ(refused_at(101s + 55ms, 100), 20u);
    EXPECT_EQ(refused_at(200s, 100), 60u) << "at most";
}

TEST(OwnedState, AReconnectedPlayerNumbersItsPacketsAnew) {
    Harbour harbour;
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    const ComponentIndex banner = Harbour::component<Banner>();
    EXPECT_TRUE(read_forged(harbour, 1000, owned_section(0, own, banner, "x")));
    EXPECT_TRUE(read_forged(harbour, 1, owned_section(0, own, banner, "y")));
    EXPECT_EQ(harbour.banner(), "x");
    harbour.stage.owned.reconnect(harbour.first.id);
    EXPECT_TRUE(read_forged(harbour, 1, owned_section(0, own, banner, "y")));
    EXPECT_EQ(harbour.banner(), "y");
}

TEST(OwnedState, OlderValuesOfManyEntitiesAreOutdated) {
    Harbour harbour;
    Stage& stage = harbour.stage;
    std::vector<ecs::Entity> ships;
    for (int i = 0; i < 200; ++i) {
        ships.push_back(stage.world.spawn(Replicated{}, Banner{"guest"}));
        stage.give(&harbour.first, ships.back());
    }
    stage.run(10);
    const ComponentIndex banner = Harbour::component<Banner>();
    for (const ecs::Entity ship : ships)
        EXPECT_TRUE(read_forged(harbour, 1000, owned_section(0, stage.sender.net_id(ship), banner, "new")));
    for (const ecs::Entity ship : ships)
        EXPECT_TRUE(read_forged(harbour, 999, owned_section(0, stage.sender.net_id(ship), banner, "old")));
    EXPECT_EQ(stage.owned.stats(harbour.first.id).taken, 200u);
    EXPECT_EQ(stage.owned.stats(harbour.first.id).outdated, 200u);
    for (const ecs::Entity ship : ships) EXPECT_EQ(stage.world.get<Banner>(ship).text, "new");
}

TEST(OwnedState, ReferencesAreReadAsThePlayerSeesThem) {
    Harbour harbour;
    Stage& stage = harbour.stage;
    stage.give(&harbour.second, harbour.ship);
    stage.run(6);
    stage.kick(harbour.first, "enough");
    stage.owned.remove_player(harbour.first.id);
    const ecs::Entity replica = stage.replica(harbour.second, harbour.ship);
    harbour.second.world.set(replica, Aim{3, replica});
    stage.run(6);
    EXPECT_EQ(stage.world.get<Aim>(harbour.ship).target, harbour.ship);
}

TEST(OwnedState, AMalformedRefusalIsNone) {
    const Schema schema = owned_schema();
    const ComponentIndex banner = Harbour::component<Banner>();
    const std::vector<std::byte> message =
        write_refusal(schema, {0x1'2345'6789, 7, banner, std::string(100, '\xfe'), {2, 'h', 'i'}});
    const std::optional<OwnedRefusal> read = read_refusal(schema, message);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->packet, 0x1'2345'6789u);
    EXPECT_EQ(read->net_id, 7u);
    EXPECT_EQ(read->component, banner);
    EXPECT_EQ(read->why, std::string(kMaxRefusalBytes, '\xfe'));
    EXPECT_EQ(read->words, (std::vector<std::uint32_t>{2, 'h', 'i'}));
    for (std::size_t size = 0; size < message.size(); ++size)
        EXPECT_FALSE(read_refusal(schema, std::span(message).first(size)));
    EXPECT_FALSE(read_refusal(schema, write_refusal(schema, {1, 7, Harbour::component<Cargo>(), "no", {5}})))
        << "not a component of the owner";
    const auto with = [&](std::size_t at, std::uint8_t byte) {
        std::vector<std::byte> bytes = message;
        bytes[at] = std::byte{byte};
        return bytes;
    };
    const std::size_t component_at = 13, length_at = 15;
    EXPECT_TRUE(read_refusal(schema, with(component_at, static_cast<std::uint8_t>(banner))));
    EXPECT_FALSE(
        read_refusal(schema, with(component_at, static_cast<std::uint8_t>(schema.components().size()))));
    EXPECT_FALSE(read_refusal(schema, with(component_at + 1, 0x80)));
    EXPECT_FALSE(read_refusal(schema, with(0, 13))) << "another kind";
    std::vector<std::byte> longer = with(length_at, kMaxRefusalBytes + 1);
    longer.insert(longer.begin() + 16, std::byte{'y'});
    EXPECT_FALSE(read_refusal(schema, longer)) << "a reason that is too long";
    longer = message;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(read_refusal(schema, longer)) << "a byte too many";
    std::mt19937 random(1);
    for (int i = 0; i < 20'000; ++i) {
        std::vector<std::byte> bytes = message;
        bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << random() % 8);
        static_cast<void>(read_refusal(schema, bytes));
    }
}

TEST(OwnedState, ASchemaSaysWhatCannotBeOwned) {
    Schema optional;
    optional.component<Cargo>("cargo", from_owner());
    optional.optional<Cargo>();
    EXPECT_EQ(optional.error(), "component 'cargo' is from_owner(): it cannot be optional");
    Schema large;
    large.component<Banner>("banner", from_owner(), max_length(1000));
    EXPECT_NE(large.error().find("one with from_owner() at most 7200"), std::string::npos) << large.error();
    Schema lonely;
    lonely.component<Cargo>("cargo", from_owner());
    ecs::World world;
    EXPECT_DEATH(Binding(world, lonely), "'cargo' is from_owner\\(\\), which needs the tag Mine");
}

TEST(OwnedState, AComponentThatNoClientWritesHasNoRefusalsAndChecks) {
    struct Hull {
        int points = 0;
    };
    struct Hold {
        int crates = 0;
    };
    Schema schema = owned_schema();
    schema.component<Hull>("hull");
    Link link(Link::default_options(), schema);
    Link::Player& player = link.add();
    EXPECT_DEATH(player.client.on_refused<Hull>([](ecs::Entity, std::string_view) {}),
                 "shoal: schema: component 'hull' is not from_owner\\(\\)");
    EXPECT_DEATH(link.server.check<Hull>([](PlayerId, ecs::Entity, const Hull&) { return std::string(); }),
                 "shoal: schema: component 'hull' is not from_owner\\(\\)");
    EXPECT_DEATH(player.client.on_refused<Hold>([](ecs::Entity, std::string_view) {}),
                 "Hold is not declared as a component");
}

// With real connections.

TEST(OwnedState, ServerAndClientTalkAboutIt) {
    Link link(Link::default_options(), owned_schema());
    Link::Player& player = link.add();
    link.run(20);
    const ecs::Entity ship = link.world.spawn(Replicated{}, Banner{"guest"}, Cargo{3});
    link.server.check<Banner>([](PlayerId, ecs::Entity, const Banner& banner) {
        return std::string(banner.text.empty() ? "a letter is missing" : "");
    });
    std::string told;
    player.client.on_refused<Banner>([&](ecs::Entity, std::string_view why) { told = why; });
    ASSERT_TRUE(link.server.give(link.listener.last, ship));
    link.run(20);
    const ecs::Entity mine = player.client.mine().at(0);
    player.world.set(mine, Banner{"Ann"});
    link.run(20);
    EXPECT_EQ(link.world.get<Banner>(ship).text, "Ann");
    player.world.set(mine, Banner{});
    link.run(20);
    EXPECT_EQ(link.world.get<Banner>(ship).text, "Ann");
    EXPECT_EQ(player.world.get<Banner>(mine).text, "Ann");
    EXPECT_EQ(told, "a letter is missing");
    EXPECT_EQ(link.server.owned_stats(link.listener.last).taken, 1u);
    EXPECT_EQ(player.client.owned_stats().refused, 1u);

    for (int i = 0; i < 200 && player.client.is_connected(); ++i) {
        player.world.set(mine, Banner{});
        link.run(1);
        player.world.set(mine, Banner{"Ann"});
        link.run(1);
    }
    EXPECT_FALSE(player.client.is_connected());
    EXPECT_NE(player.client.failure().find("too many values were refused"), std::string::npos);
    player.client.connect(link.wire.address);
    link.run(20);
    EXPECT_TRUE(player.client.is_connected());
    EXPECT_TRUE(player.client.mine().empty());
}

}  // namespace
}  // namespace shoal::replication::owned_state_test
