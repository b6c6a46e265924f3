// Components that clients decide: OwnedWriter, OwnedReader and their messages.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/replication/support/harbour.h"
#include "tests/replication/support/link.h"

namespace shoal::replication::all::owned_state_test {
namespace {

using harbour::Aim;
using harbour::Banner;
using harbour::Cargo;
using harbour::Harbour;
using harbour::owned_schema;

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
    EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.taken, 2u);
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
    EXPECT_EQ(stage.player(harbour.first.id).owned.stats.taken, 2u);
    stage.world.set(harbour.ship, Banner{"by the server"});
    const std::uint64_t outdated = stage.player(harbour.first.id).owned.stats.outdated;
    EXPECT_TRUE(stage.uplink.read(stage.player(harbour.first.id), packet.number, packet.bytes, net::Time{}));
    stage.owned.run(stage.player(harbour.first.id), stage.next_tick, net::Time{});
    EXPECT_EQ(stage.player(harbour.first.id).owned.stats.outdated, outdated + 2);
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
    EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.taken, 1u);
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
    EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.refused, 2u);
}

// Goal: a value that was sent twice, because its first packet seemed to be lost, is refused once.
TEST(OwnedState, AValueThatArrivesTwiceIsRefusedOnce) {
    Harbour harbour;
    Stage& stage = harbour.stage;
    harbour.write(harbour.first, "bad one");
    stage.step();
    ASSERT_EQ(harbour.first.up.size(), 1u);
    Stage::Bytes& packet = harbour.first.up[0];
    EXPECT_TRUE(stage.uplink.read(stage.player(harbour.first.id), packet.number, packet.bytes, net::Time{}));
    packet.is_lost = true;
    stage.run(6);
    EXPECT_EQ(stage.player(harbour.first.id).owned.stats.refused, 1u);
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
    EXPECT_GT(harbour.stage.player(harbour.first.id).owned.stats.ignored, 0u);
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

TEST(OwnedState, ACheckThatAcceptsAValueMayRemoveTheComponentOrTheEntity) {
    for (const bool destroys : {false, true}) {
        Harbour harbour;
        ecs::World& world = harbour.stage.world;
        harbour.stage.owned.set_check(Harbour::component<Banner>(),
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
        EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.taken, 0u);
        EXPECT_TRUE(harbour.stage.is_equal(harbour.first));
    }
}

TEST(OwnedState, ACheckThatRefusesAValueMayRemoveTheComponentOrTheEntity) {
    for (const bool destroys : {false, true}) {
        Harbour harbour;
        ecs::World& world = harbour.stage.world;
        harbour.stage.owned.set_check(Harbour::component<Banner>(),
                                      [&](net::PeerId, ecs::Entity entity, const void*) {
                                          destroys ? world.destroy(entity) : world.remove<Banner>(entity);
                                          return std::string("no");
                                      });
        harbour.write(harbour.first, "ours");
        harbour.stage.settle(20);
        EXPECT_EQ(world.is_alive(harbour.ship), !destroys);
        EXPECT_FALSE(world.has<Banner>(harbour.ship));
        EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.refused, 1u);
        EXPECT_TRUE(harbour.refusals[&harbour.first].empty()) << "there is no value to restore";
        EXPECT_TRUE(harbour.stage.is_equal(harbour.first));
    }
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
    EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.ignored, 1u);
    EXPECT_TRUE(harbour.first.owned.is_consistent());
    EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.taken, 0u);
}

// Goal: at rest all worlds agree, whatever is lost, delayed, refused, given away, removed or destroyed.
// Method: each value has a number that rises; the server must see the numbers of one owner rise, too.
TEST(OwnedState, WorldsAgreeAtRestWhateverTheLinkDoes) {
    std::uint64_t taken = 0, refused = 0;
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
            EXPECT_GE(std::stoi(banner.text), last);
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
        taken += stage.player(harbour.first.id).owned.stats.taken;
        refused += stage.player(harbour.first.id).owned.stats.refused;
    }
    EXPECT_GT(taken, 800u);
    EXPECT_GT(refused, 200u);
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

// Goal: hooks that run while a player comes back find it there, and may end it.
TEST(OwnedState, AHookMayEndThePlayerThatComesBack) {
    for (const bool ends_it : {false, true}) {
        Link link(Link::default_options(), owned_schema());
        PlayerId id;
        link.server.on_join([&](PlayerId player) {
            id = player;
            return link.world.spawn(Replicated{}, Banner{"guest"});
        });
        Link::Player& first = link.add();
        link.run(20);
        std::vector<Phase> phases;
        const auto hook = [&](ecs::World&, ecs::Entity, const OwnerState&) {
            phases.push_back(link.server.phase(id));
            if (ends_it) link.server.disconnect(id, "enough", link.now);
        };
        const ecs::Hook on_add = link.world.on_add<OwnerState>(hook);
        const ecs::Hook on_change = link.world.on_change<OwnerState>(hook);
        Link::Player& second = link.add();
        second.client.connect(link.wire.address, first.client.ticket());
        link.run(40);
        EXPECT_EQ(phases, std::vector{Phase::waiting});
        EXPECT_EQ(link.server.phase(id), ends_it ? Phase::disconnected : Phase::playing);
        EXPECT_EQ(second.client.is_connected(), !ends_it);
    }
}

}  // namespace
}  // namespace shoal::replication::all::owned_state_test
