// What players do to a shared world, with the public API: actions, pending entities, and values that a client
// decides. Joining is in tests/replication/seat_test.cpp.

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "ecs/query.h"
#include "replication/action/action.h"
#include "tests/sim/session.h"

namespace shoal::sim::shared_world_test {
namespace {

using ecs::Entity;
using replication::Act;
using replication::Call;
using replication::Client;
using replication::PlayerId;
using replication::Replicated;

struct Gold {
    int coins = 0;
};
struct Motto {
    std::string text;
};
/// Not in the schema: how often mutations ran in a world.
struct Runs {
    int count = 0;
};

void count_run(Act& act) {
    if (!act.world.patch_singleton<Runs>([](Runs& runs) { runs.count += 1; }))
        act.world.set_singleton(Runs{1});
}
int runs(const ecs::World& world) {
    const Runs* found = world.try_get<Runs>(world.singleton_entity<Runs>());
    return found ? found->count : 0;
}

/// Puts a purse into the world, out of the player's own gold if a player does it.
struct Drop {
    int coins = 0;
    std::string validate(const Act& act) const {
        return act.world.get<Gold>(act.player).coins >= coins ? "" : "not that much gold";
    }
    Entity mutate(Act& act) const {
        count_run(act);
        if (act.player) act.world.patch<Gold>(act.player, [this](Gold& gold) { gold.coins -= coins; });
        return act.spawn(Gold{coins});
    }
};
/// Adds to a purse, which may be a pending one.
struct Fill {
    Entity purse;
    int coins = 0;
    void mutate(Act& act) const {
        count_run(act);
        if (!act.world.is_alive(purse)) return act.fail("there is no such purse");
        act.world.patch<Gold>(purse, [this](Gold& gold) { gold.coins += coins; });
    }
};
struct Say {
    std::string text;
};

replication::Schema purse_schema() {
    using namespace replication;
    Schema schema;
    schema.component<Gold>("gold", bounded(-1000, 1000));
    schema.component<Motto>("motto", max_length(16), from_owner());
    schema.tag<Mine>("mine", to_owner());
    schema.action<Drop>("drop", bounded(0, 100));
    schema.action<Fill>("fill", field(&Fill::coins, bounded(0, 100)));
    schema.action<Say>("say", max_length(20), independent());
    return schema;
}

/// A server and two players with 10 coins each.
struct Party {
    explicit Party(const net::LinkConfig& link = {.latency = std::chrono::milliseconds(50)},
                   std::uint64_t seed = 1)
        : session(schema, link, 2, seed) {
        session.world().spawn(Gold{-1});  // so that handles differ on the two sides
        server.on_join([this](PlayerId player) {
            players.push_back(player);
            return session.world().spawn(Gold{10}, Motto{"none"}, Replicated{});
        });
        server.on_action([this](const replication::ActionReport& report) {
            log.push_back(std::string(report.name) + (report.is_accepted ? "" : ": ") +
                          std::string(report.why_not));
        });
        const auto plays = [](const Session::Visitor& one) {
            return one.client.phase() == replication::Phase::playing;
        };
        for (int tick = 0; tick < 1000 && !(plays(first) && plays(second)); ++tick) run(1);
        run(60);  // each knows the other
        EXPECT_EQ(players.size(), 2u);
        if (server.player(players[0]) != real(first.client.player())) std::swap(players[0], players[1]);
    }
    void run(int ticks) {
        for (; ticks > 0; --ticks) session.step();
    }
    /// The server's entity of one of the first player's.
    Entity real(Entity seen) { return server.sender().entity(first.client.receiver().net_id(seen)); }
    int coins(const ecs::World& world, Entity entity) { return world.get<Gold>(entity).coins; }
    static std::uint32_t purses(const ecs::World& world) {
        return ecs::Query<const Gold>(const_cast<ecs::World&>(world)).count();
    }

    const replication::Schema schema = purse_schema();
    Session session;
    replication::Server& server = session.server();
    Session::Visitor &first = *session.guests()[0], &second = *session.guests()[1];
    std::vector<PlayerId> players;  // of first and second
    std::vector<std::string> log;   // name and reason of each action
};

TEST(SharedWorld, A01AGameConsistsOfEntitiesAndPlainStructs) {
    static_assert(std::is_aggregate_v<Gold> && std::is_aggregate_v<Drop>);
    Party party;
    const Entity replica = party.first.client.player();
    party.first.world.set(replica, Runs{7});  // components of the game on a replica, and entities beside it
    const Entity own = party.first.world.spawn(Gold{5});
    party.session.world().set(party.real(replica), Gold{11});
    party.run(20);
    EXPECT_EQ(party.first.world.get<Gold>(replica).coins, 11);
    EXPECT_EQ(party.first.world.get<Runs>(replica).count, 7);
    EXPECT_EQ(party.first.world.get<Gold>(own).coins, 5);
}

TEST(SharedWorld, A02ASharedEntityHasOneNetIdAndAHandleOnEachSide) {
    Party party;
    const Entity ours = party.server.player(party.players[0]);
    const Entity theirs = party.first.client.player();
    const replication::Receiver& receiver = party.first.client.receiver();
    EXPECT_NE(ours, theirs);
    EXPECT_EQ(receiver.net_id(theirs), party.server.assign_net_id(ours));
    EXPECT_EQ(receiver.entity(party.server.assign_net_id(ours)), theirs);
    EXPECT_TRUE(party.first.world.has<replication::Replica>(theirs));
}

TEST(SharedWorld, A03AnActionReturnsTheResultOfItsMutation) {
    Party party;
    const Entity pending = party.first.client.act(Drop{3});
    ASSERT_TRUE(pending);
    EXPECT_EQ(party.coins(party.first.world, pending), 3);
    const Entity of_server = party.server.act(Drop{4});  // the owner is the server
    ASSERT_TRUE(of_server);
    party.first.client.act(Fill{pending, 1});
    party.run(30);
    EXPECT_EQ(party.coins(party.session.world(), party.real(pending)), 4);
    EXPECT_EQ(party.server.owner(party.real(pending)), party.players[0]);
    EXPECT_EQ(party.coins(party.session.world(), of_server), 4);
}

TEST(SharedWorld, A04AClientMutatesAtOnceFiresTheEventAndQueuesTheAction) {
    Party party;
    std::vector<int> heard;
    party.first.client.on<Drop>([&](const Drop& drop, const Call& call) {
        EXPECT_TRUE(call.is_mine);
        EXPECT_EQ(party.purses(party.first.world), 3u) << "the event comes after the mutation";
        heard.push_back(drop.coins);
    });
    party.first.client.act(Drop{3});
    EXPECT_EQ(heard, std::vector<int>{3});
    EXPECT_EQ(party.coins(party.first.world, party.first.client.player()), 7);
    EXPECT_TRUE(party.log.empty());
    party.run(30);
    EXPECT_EQ(party.log, std::vector<std::string>{"drop"});
    EXPECT_EQ(heard, std::vector<int>{3}) << "not again";
}

TEST(SharedWorld, A05APendingEntityCanBeUsedBeforeTheServerAnswers) {
    Party party;
    const Entity purse = party.first.client.act(Drop{3});
    party.first.client.act(Fill{purse, 2});
    party.run(1);
    party.first.client.act(Fill{purse, 4});
    EXPECT_EQ(party.coins(party.first.world, purse), 9);
    EXPECT_EQ(party.first.client.receiver().net_id(purse), 0u) << "the server did not answer yet";
    party.run(30);
    EXPECT_EQ(party.log, (std::vector<std::string>{"drop", "fill", "fill"}));
    EXPECT_EQ(party.coins(party.session.world(), party.real(purse)), 9);
}

TEST(SharedWorld, A06TheServerRunsActionsInOrderAndTheOthersGetTheEventOnly) {
    Party party;
    std::vector<std::string> server_heard, other_heard;
    party.server.on<Drop>([&](const Drop& drop, const Call& call) {
        EXPECT_EQ(call.player, party.server.player(party.players[0]));
        server_heard.push_back(std::to_string(drop.coins));
    });
    party.second.client.on<Drop>([&](const Drop& drop, const Call& call) {
        EXPECT_FALSE(call.is_mine);
        EXPECT_TRUE(party.second.world.is_alive(call.player));
        other_heard.push_back(std::to_string(drop.coins));
    });
    for (const int coins : {1, 2, 3}) party.first.client.act(Drop{coins});
    party.run(30);
    EXPECT_EQ(server_heard, (std::vector<std::string>{"1", "2", "3"}));
    EXPECT_EQ(other_heard, server_heard);
    EXPECT_EQ(runs(party.session.world()), 3);
    EXPECT_EQ(runs(party.first.world), 3);
    EXPECT_EQ(runs(party.second.world), 0) << "it gets the state from the server";
    EXPECT_EQ(party.purses(party.second.world), 5u);
}

// Records and answers travel in different packets, and either may be lost or come first.
TEST(SharedWorld, A07AnApprovedEntityKeepsItsHandleAndIsNeverThereTwice) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        net::LinkConfig link;
        link.latency = std::chrono::milliseconds(30);
        link.jitter = std::chrono::milliseconds(30);
        link.loss = 0.2;
        Party party(link, seed);
        std::vector<Entity> purses;
        for (int tick = 0; tick < 200; ++tick) {
            if (tick % 30 == 0) purses.push_back(party.first.client.act(Drop{1}));
            party.run(1);
            ASSERT_EQ(party.purses(party.first.world), 2 + purses.size());
        }
        party.run(100);
        for (const Entity purse : purses) {
            ASSERT_TRUE(party.first.world.is_alive(purse));
            EXPECT_TRUE(party.real(purse));
        }
        party.session.expect_agreement(static_cast<std::uint32_t>(2 + purses.size()));
    }
}

TEST(SharedWorld, A08ARejectionDropsTheRestOfThePackageAndRestoresTheWorld) {
    Party party;
    std::vector<std::string> why_not;
    party.first.client.on_rejected<Drop>(
        [&](const Drop&, std::string_view why) { why_not.emplace_back(why); });
    const Entity me = party.first.client.player();
    const Entity good = party.first.client.act(Drop{4});
    const Entity bad = party.first.client.act(Drop{40});
    const Entity later = party.first.client.act(Drop{1});
    party.first.client.act(Fill{good, 5});
    EXPECT_EQ(party.coins(party.first.world, me), -35);
    EXPECT_EQ(party.coins(party.first.world, good), 9);
    party.run(30);
    EXPECT_EQ(party.log, (std::vector<std::string>{"drop", "drop: not that much gold"}));
    EXPECT_EQ(why_not, (std::vector<std::string>{"not that much gold", "an earlier action was rejected"}));
    EXPECT_TRUE(party.first.world.is_alive(good));
    EXPECT_FALSE(party.first.world.is_alive(bad) || party.first.world.is_alive(later));
    EXPECT_EQ(party.coins(party.first.world, me), 6);
    EXPECT_EQ(party.coins(party.first.world, good), 4);
}

TEST(SharedWorld, A08AMutationThatFailsOnTheServerIsARejection) {
    Party party;
    const Entity purse = party.first.client.act(Drop{4});
    party.run(30);
    const Entity real = party.real(purse);
    party.session.world().destroy(real);
    party.first.client.act(Fill{purse, 1});  // the client does not know yet
    party.run(30);
    EXPECT_EQ(party.log, (std::vector<std::string>{"drop", "fill: there is no such purse"}));
    EXPECT_EQ(party.first.client.action_stats().rejected, 1u);
    party.session.expect_agreement(2);
}

TEST(SharedWorld, A09APlayerDecidesValuesOfItsOwnEntitiesWhichTheServerChecks) {
    Party party;
    std::vector<std::string> refused;
    party.server.check<Motto>([&](PlayerId player, Entity entity, const Motto& motto) {
        EXPECT_EQ(player, party.players[0]);
        EXPECT_EQ(entity, party.server.player(player));
        return std::string(motto.text == "bad" ? "no such words" : "");
    });
    party.first.client.on_refused<Motto>([&](Entity, std::string_view why) { refused.emplace_back(why); });
    const Entity me = party.first.client.player(), real = party.real(me);
    party.first.world.set(me, Motto{"good"});
    party.run(30);
    EXPECT_EQ(party.session.world().get<Motto>(real).text, "good");
    party.first.world.set(me, Motto{"bad"});
    party.run(30);
    EXPECT_EQ(refused, std::vector<std::string>{"no such words"});
    EXPECT_EQ(party.first.world.get<Motto>(me).text, "good");
    const Entity other = party.second.client.receiver().entity(party.first.client.receiver().net_id(me));
    party.second.world.set(other, Motto{"not mine"});
    party.run(30);
    EXPECT_EQ(party.session.world().get<Motto>(real).text, "good") << "others cannot";
    EXPECT_EQ(party.first.world.get<Motto>(me).text, "good");
}

TEST(SharedWorld, A12EventsOfOneTickAllArriveInOrderWithTheirContext) {
    Party party;
    std::vector<std::string> heard;
    std::vector<replication::Tick> ticks;
    party.second.client.on<Say>([&](const Say& say, const Call& call) {
        EXPECT_EQ(party.second.client.receiver().net_id(call.player),
                  party.server.assign_net_id(party.server.player(party.players[0])));
        heard.push_back(say.text);
        ticks.push_back(call.tick);
    });
    for (const char* text : {"a", "b", "c", "d", "e"}) party.first.client.act(Say{text});
    party.run(30);
    EXPECT_EQ(heard, (std::vector<std::string>{"a", "b", "c", "d", "e"}));
    ASSERT_EQ(ticks.size(), 5u);
    EXPECT_EQ(ticks, std::vector<replication::Tick>(5, ticks[0]));
}

TEST(SharedWorld, A14EachActionIsReportedWithTickOwnerArgumentsAndVerdict) {
    Party party;
    struct Line {
        replication::Tick tick;
        PlayerId player;
        int coins;
        bool is_accepted;
        std::string why_not;
    };
    std::vector<Line> lines;
    party.server.on_action([&](const replication::ActionReport& report) {
        ASSERT_EQ(report.name, "drop");
        lines.push_back({report.tick, report.who, static_cast<const Drop*>(report.action)->coins,
                         report.is_accepted, std::string(report.why_not)});
    });
    party.second.client.act(Drop{2});
    party.second.client.act(Drop{50});
    party.server.act(Drop{1});
    party.run(30);
    ASSERT_EQ(lines.size(), 3u);
    const Line &server = lines[0], &good = lines[1], &bad = lines[2];
    EXPECT_TRUE(!server.player && server.is_accepted && server.coins == 1);
    EXPECT_TRUE(good.player == party.players[1] && good.is_accepted && good.coins == 2);
    EXPECT_TRUE(bad.player == party.players[1] && !bad.is_accepted && bad.coins == 50);
    EXPECT_EQ(bad.why_not, "not that much gold");
    EXPECT_LT(server.tick, good.tick);
}

}  // namespace
}  // namespace shoal::sim::shared_world_test
