#include "replication/action/client_actions.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecs/query.h"
#include "tests/replication/support/stage_actions.h"

namespace shoal::replication::impl::client_actions_test {
namespace {

using namespace stage_actions;

TEST(ClientActions, AnActionNamesOneOfSeveralPendingEntities) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    std::vector<ecs::Entity> made;
    for (int i = 0; i < 3; ++i) made.push_back(client.make(Make{10 * i, 0}));
    client.act(Push{made[1], 1, 0});
    client.act(Push{made[2], 2, 0});
    const auto expect_pushed = [&] {
        EXPECT_EQ(client.world.get<Place>(made[0]).x, 0);
        EXPECT_EQ(client.world.get<Place>(made[1]).x, 11);
        EXPECT_EQ(client.world.get<Place>(made[2]).x, 22);
    };
    expect_pushed();
    stage.settle();
    expect_pushed();
    EXPECT_TRUE(stage.is_equal(client));
}

/// An action that does another one in its mutation.
struct Order {
    ecs::Entity target;
    void mutate(Act& act) const {
        if (!act.is_server) boss->act(Push{target, 4, 0});
    }
    static inline Stage::Client* boss = nullptr;
};

TEST(ClientActions, AnActionInAMutationIsDoneInTheNextUpdate) {
    Schema schema = stage_schema();
    schema.action<Order>("order");
    Stage stage(std::move(schema));
    const ecs::Entity box = stage.world.spawn(Place{1}, Replicated{});
    Stage::Client& client = stage.add_client();
    Order::boss = &client;
    stage.run(5);
    const ecs::Entity seen = stage.replica(client, box);
    client.act(Order{seen});
    EXPECT_EQ(client.actions.stats().done, 1u);
    EXPECT_EQ(client.world.get<Place>(seen).x, 1);
    stage.step();
    EXPECT_EQ(client.actions.stats().done, 2u);
    EXPECT_EQ(client.world.get<Place>(seen).x, 5);
    stage.settle();
    EXPECT_EQ(stage.world.get<Place>(box).x, 5);
}

/// Calls fn() in a query.
template <class Fn>
void in_a_query(Stage::Client& client, Fn&& fn) {
    ecs::Query<const Place> places(client.world);
    places.each([&](ecs::Entity, const Place&) { fn(); });
}

TEST(ClientActions, WhatWaitsIsDoneInOrderAndALongOneIsNotDone) {
    struct Letter {
        std::string text;
        std::string validate(const Act&) const { return ""; }
        void mutate(Act& act) const {
            act.world.patch<Place>(act.player, [](Place& p) { p.x = 9; });
        }
    };
    Schema schema = stage_schema();
    schema.action<Letter>("letter", max_length(2'000));
    Stage stage(std::move(schema));
    const ecs::Entity me = stage.world.spawn(Place{1}, Replicated{});
    Stage::Client& client = stage.add_client(me);
    stage.run(5);
    std::vector<std::string> told;
    client.actions.on(type_of<Shout>(stage), [&](const void* action, const Call& call) {
        EXPECT_TRUE(call.is_mine);
        told.push_back(static_cast<const Shout*>(action)->text);
    });
    in_a_query(client, [&] {
        client.act(Shout{"one", 0});
        client.act(Letter{std::string(600, 'a')});
        client.act(Shout{"two", 0});
    });
    EXPECT_TRUE(told.empty());
    stage.step();
    EXPECT_EQ(told, (std::vector<std::string>{"one", "two"}));
    EXPECT_EQ(client.actions.stats().done, 2u);
    EXPECT_EQ(client.world.get<Place>(stage.replica(client, me)).x, 1);
    client.act(Letter{std::string(600, 'a')});
    EXPECT_EQ(client.actions.stats().done, 2u) << "more than 512 bytes";
    EXPECT_EQ(client.actions.stats().not_begun, 2u);
    client.act(Letter{std::string(500, 'a')});
    EXPECT_EQ(client.actions.stats().done, 3u);
    EXPECT_EQ(client.world.get<Place>(stage.replica(client, me)).x, 9);
}

TEST(ClientActions, AtMost256OfBothStreamsWait) {
    BoxStage stage;
    in_a_query(stage.client, [&] {
        for (std::uint32_t i = 0; i < kMaxWaitingActions + 4; ++i)
            i % 2 == 0 ? stage.client.act(Shout{"even", i}) : stage.client.act(Push{{}, 1, i});
    });
    stage.step();
    EXPECT_EQ(stage.client.actions.stats().done, kMaxWaitingActions);
    stage.settle();
    EXPECT_EQ(stage.client.actions.stats().accepted, kMaxWaitingActions);
}

TEST(ClientActions, AnAnswerToNoActionIsMalformed) {
    const auto answer = [](ActionResult result) { return write_control(ActionResults{5, {result}}); };
    constexpr auto kOrdered = ActionStream::ordered, kIndependent = ActionStream::independent;
    const std::vector<std::vector<std::byte>> messages{
        answer({kOrdered, 1, true, {}, ""}),     answer({kOrdered, 1, false, {}, "no"}),
        answer({kIndependent, 0, true, {}, ""}), answer({kIndependent, 0, false, {}, "no"}),
        answer({kOrdered, 0, true, {}, ""}),     answer({kOrdered, 0, true, {7, 8}, ""}),
    };
    for (std::size_t i = 0; i < messages.size(); ++i) {
        SCOPED_TRACE(i);
        Stage stage(stage_schema());
        Stage::Client& client = stage.add_client();
        stage.run(5);
        const ecs::Entity made = client.make(Make{4, 0});  // number 0
        client.hear(messages[i]);
        EXPECT_FALSE(client.actions.take_answers());
        EXPECT_FALSE(client.update(net::Time{}, {})) << "until the next connection";
        EXPECT_EQ(client.actions.waiting(), 1u);
        EXPECT_EQ(client.actions.stats().accepted + client.actions.stats().rejected, 0u);
        EXPECT_TRUE(client.world.is_alive(made));
        client.actions.reset();
        EXPECT_TRUE(client.actions.take_answers());
        EXPECT_TRUE(client.update(net::Time{}, {}));
    }
}

/// Spawns more entities on the client than on the server.
struct Hatch {
    std::int32_t here = 0, there = 0;
    bool is_ghost = false;  // the server's entities do not replicate
    void mutate(Act& act) const {
        for (std::int32_t i = 0; i < (act.is_server ? there : here); ++i) {
            if (act.is_server && is_ghost) {
                act.world.spawn(Place{i});
            } else {
                act.spawn(Place{i});
            }
        }
    }
};

TEST(ClientActions, AnEntityThatTheServerDoesNotSpawnEnds) {
    for (const Hatch& hatch : {Hatch{2, 0}, Hatch{2, 1}, Hatch{2, 2}, Hatch{1, 3}, Hatch{2, 2, true}}) {
        SCOPED_TRACE(testing::Message() << hatch.here << ' ' << hatch.there << ' ' << hatch.is_ghost);
        Schema schema;
        schema.component<Place>("place");
        schema.action<Hatch>("hatch");
        Stage stage(std::move(schema));
        Stage::Client& client = stage.add_client();
        stage.run(5);
        client.act(hatch);
        ecs::Query<const Place> places(client.world);
        std::vector<ecs::Entity> made;
        places.each([&](ecs::Entity entity, const Place&) { made.push_back(entity); });
        ASSERT_EQ(made.size(), static_cast<std::size_t>(hatch.here));
        stage.settle();
        const std::int32_t there = hatch.is_ghost ? 0 : hatch.there;
        EXPECT_EQ(places.count(), static_cast<std::size_t>(there));
        for (const ecs::Entity entity : made) {
            const bool is_first = entity == made[0];
            const bool stays = (is_first ? 0 : 1) < there;
            EXPECT_EQ(client.world.is_alive(entity), stays);
            if (stays) {
                EXPECT_EQ(client.world.get<Place>(entity).x, is_first ? 0 : 1);
            }
        }
        EXPECT_EQ(client.actions.stats().accepted, 1u);
        EXPECT_TRUE(stage.is_equal(client));
        stage.world.spawn(Place{50}, Replicated{});
        stage.settle();
        EXPECT_TRUE(stage.is_equal(client)) << "and what comes later";
    }
}

/// Spawns three entities and destroys one of them.
struct Pick {
    std::int32_t loser = 0;
    void mutate(Act& act) const {
        std::vector<ecs::Entity> spawned;
        for (std::int32_t x = 0; x < 3; ++x) spawned.push_back(act.spawn(Place{x}));
        act.world.destroy(spawned[static_cast<std::size_t>(loser)]);
    }
};

TEST(ClientActions, AnEntityThatTheMutationDestroyedCountsForTheOthers) {
    for (std::int32_t loser = 0; loser < 3; ++loser) {
        SCOPED_TRACE(loser);
        Schema schema;
        schema.component<Place>("place");
        schema.action<Pick>("pick");
        Stage stage(std::move(schema));
        Stage::Client& client = stage.add_client();
        stage.run(5);
        client.act(Pick{loser});
        std::vector<ecs::Entity> made;
        ecs::Query<const Place>(client.world).each([&](ecs::Entity one, const Place&) {
            made.push_back(one);
        });
        ASSERT_EQ(made.size(), 2u);
        stage.settle();
        EXPECT_TRUE(stage.is_equal(client));
        ecs::Query<const Place>(stage.world).each([&](ecs::Entity theirs, const Place& place) {
            const ecs::Entity ours = stage.replica(client, theirs);
            EXPECT_TRUE(ours == made[0] || ours == made[1]);
            EXPECT_EQ(client.world.get<Place>(ours).x, place.x);
        });
        EXPECT_EQ(client.actions.stats().accepted, 1u);
    }
}

// An accepted entity without a record is kept for the record; only the newest 1,024 of them are.
TEST(ClientActions, OfManyEntitiesWithoutARecordTheOldestEnds) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    std::vector<ecs::Entity> made;
    const auto make = [&](std::size_t until, bool arrives) {
        while (made.size() < until) {
            for (int i = 0; i < 16 && made.size() < until; ++i) made.push_back(client.make(Make{4, 0}));
            stage.step();
            for (auto& packet : client.down) packet.is_lost = !arrives;
        }
        for (int i = 0; i < 4; ++i) {
            stage.step();
            for (auto& packet : client.down) packet.is_lost = !arrives;
        }
        ASSERT_EQ(client.actions.stats().accepted, until);
    };
    make(16, true);
    EXPECT_NE(client.receiver.net_id(made[0]), 0u);
    make(16 + 1024, false);
    ASSERT_EQ(client.receiver.net_id(made[16]), 0u);
    for (const ecs::Entity entity : made) EXPECT_TRUE(client.world.is_alive(entity));
    make(16 + 1025, false);
    EXPECT_TRUE(client.world.is_alive(made[0])) << "it is a replica";
    EXPECT_FALSE(client.world.is_alive(made[16]));
    EXPECT_TRUE(client.world.is_alive(made[17]));
    stage.settle();
    ecs::Query<const Place> places(client.world);
    EXPECT_EQ(places.count(), made.size()) << "its record spawned another entity";
    EXPECT_NE(client.receiver.net_id(made[17]), 0u);
    EXPECT_TRUE(stage.is_equal(client));
}

/// An independent action that changes the world.
struct Nudge {
    ecs::Entity target;
    std::int32_t by = 0;
    std::string validate(const Act&) const { return by == 13 ? "thirteen" : ""; }
    void mutate(Act& act) const {
        if (act.world.is_alive(target)) act.world.patch<Place>(target, [&](Place& p) { p.x += by; });
    }
};

TEST(ClientActions, ARejectionUndoesNothingOfTheOtherStream) {
    for (const bool is_ordered_rejected : {true, false}) {
        SCOPED_TRACE(is_ordered_rejected);
        Schema schema;
        schema.component<Place>("place");
        schema.component<Strength>("strength", bounded(0, 100));
        schema.action<Push>("push");
        schema.action<Nudge>("nudge", independent());
        Stage stage(std::move(schema));
        const ecs::Entity a = stage.world.spawn(Place{0}, Replicated{}),
                          b = stage.world.spawn(Place{0}, Replicated{});
        Stage::Client& client = stage.add_client();
        stage.run(5);
        const ecs::Entity pushed = stage.replica(client, a), nudged = stage.replica(client, b);
        const int by_push = is_ordered_rejected ? 13 : 5, by_nudge = is_ordered_rejected ? 5 : 13;
        client.act(Push{pushed, by_push, 0});
        client.act(Nudge{nudged, by_nudge});
        const ecs::Entity undone = is_ordered_rejected ? pushed : nudged,
                          stays = is_ordered_rejected ? nudged : pushed;
        for (int i = 0; i < 20; ++i) {
            stage.step();
            for (auto& packet : client.down) packet.is_lost = true;  // only the answers arrive
            ASSERT_EQ(client.world.get<Place>(stays).x, 5) << "step " << i;
        }
        EXPECT_EQ(client.world.get<Place>(undone).x, 0);
        EXPECT_EQ(client.actions.stats().rejected, 1u);
        EXPECT_EQ(client.actions.stats().dropped, 0u);
        stage.settle();
        EXPECT_TRUE(stage.is_equal(client));
    }
}

TEST(ClientActions, AResetForgetsWhatWasCalledBefore) {
    BoxStage stage;
    Stage::Client& client = stage.client;
    std::vector<std::string> told;
    const auto tell = [&](const void*, std::string_view why) { told.emplace_back(why); };
    client.actions.on_rejected(type_of<Push>(stage), tell);
    client.act(Push{stage.seen, 1, 0});
    const ecs::Entity made = client.make(Make{4, 0});
    in_a_query(client, [&] { client.act(Shout{"hey", 0}); });
    client.hear(write_control(ActionResults{5, {{ActionStream::ordered, 0, false, {}, "no"}}}));
    client.actions.reset({7, 9}, 0);
    EXPECT_FALSE(client.world.is_alive(made));
    EXPECT_TRUE(client.world.is_alive(stage.seen));
    EXPECT_EQ(client.world.get<Place>(stage.seen).x, 1) << "replicas keep what the actions wrote";
    EXPECT_EQ(client.actions.waiting(), 0u);
    EXPECT_EQ(client.actions.first(), (std::array<std::uint32_t, kActionStreams>{7, 9}));
    EXPECT_TRUE(client.actions.take_answers());
    client.actions.set_player(true, {}, 1);
    EXPECT_TRUE(client.update(net::Time{}, {}));
    EXPECT_EQ(client.actions.stats().done, 2u) << "nothing waits";
    EXPECT_TRUE(told.empty());
    // What the new connection rejects shows the server's value, not that of the former one.
    client.act(Push{stage.seen, 5, 0});
    client.hear(write_control(ActionResults{5, {{ActionStream::ordered, 7, false, {}, "no"}}}));
    EXPECT_TRUE(client.actions.take_answers());
    EXPECT_EQ(told, std::vector<std::string>{"no"});
    EXPECT_EQ(client.world.get<Place>(stage.seen).x, 0);
}

TEST(ClientActions, DoNothingBetweenAResetAndTheNextPlayer) {
    BoxStage stage;
    stage.client.act(Shout{"hey", 0});
    EXPECT_EQ(stage.client.actions.waiting(), 1u);
    stage.client.actions.reset();
    stage.client.act(Shout{"hey", 0});
    EXPECT_EQ(stage.client.actions.stats().done, 1u);
    EXPECT_EQ(stage.client.actions.waiting(), 0u);
}

/// Writes what the server does not decide.
struct Own {
    std::int32_t x = 0;
};
struct Guess {
    std::int32_t x = 0;
};
struct Boast {
    std::int32_t number = 0;
    void mutate(Act& act) const {
        std::vector<ecs::Entity> all;
        ecs::Query<const Own>(act.world).each([&](ecs::Entity entity, const Own&) { all.push_back(entity); });
        for (const ecs::Entity entity : all) act.world.set(entity, Own{number});
    }
};
struct Cheat {
    ecs::Entity target;
    void mutate(Act& act) const {
        if (act.world.is_alive(target)) act.world.set(target, Guess{7});
    }
};

Schema owned_schema() {
    Schema schema;
    schema.component<Own>("own", from_owner());
    schema.component<Guess>("guess", predicted());
    schema.tag<Mine>("mine", to_owner());
    schema.action<Boast>("boast");
    schema.action<Cheat>("cheat");
    return schema;
}

TEST(ClientActions, AnActionMayWriteMoreThan32OwnedEntitiesAndNothingOfThemIsUndone) {
    Stage stage(owned_schema());
    Stage::Client& client = stage.add_client();
    for (int i = 0; i < 40; ++i) stage.give(&client, stage.world.spawn(Own{1}, Replicated{}));
    stage.run(5);
    client.act(Boast{9});
    EXPECT_EQ(client.actions.stats().done, 1u) << "the limit is on what the server decides";
    EXPECT_EQ(client.actions.stats().rejected, 0u);
    EXPECT_EQ(client.actions.stats().bad_writes, 0u);
}

#ifdef NDEBUG
TEST(ClientActions, AWrittenPredictedComponentOfAReplicaIsCounted) {
    Stage stage(owned_schema());
    const ecs::Entity box = stage.world.spawn(Own{1}, Guess{1}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    client.act(Cheat{stage.replica(client, box)});
    client.act(Boast{9});
    EXPECT_EQ(client.actions.stats().bad_writes, 0u) << "nobody predicts it";
    stage.settle();
    client.receiver.hold(stage.replica(client, box), static_cast<ComponentIndex>(stage.schema.find<Guess>()));
    client.act(Cheat{stage.replica(client, box)});
    EXPECT_EQ(client.actions.stats().bad_writes, 1u);
}
#endif

TEST(ClientActions, AnEventWaitsForTheEntityOfThePlayerWhoActed) {
    using namespace std::chrono_literals;
    BoxStage stage;
    std::vector<std::string> heard;
    stage.client.actions.on(type_of<Shout>(stage), [&](const void*, const Call& call) {
        heard.push_back(std::string(call.player ? "somebody" : "nobody") + (call.is_late ? " late" : ""));
    });
    net::Time now{100s};
    const auto hear = [&](NetId player) {
        const auto type = static_cast<std::uint8_t>(type_of<Shout>(stage));
        stage.client.hear(write_event(stage.schema, {7, net::PeerId{5}, player, type, {0, 0}}));
    };
    const auto after = [&](net::Duration time) {
        EXPECT_TRUE(stage.client.update(now += time, {}));
        return std::exchange(heard, {});
    };
    using Heard = std::vector<std::string>;
    hear(stage.client.receiver.net_id(stage.seen));
    EXPECT_EQ(after(0ms), Heard{"somebody"});
    hear(0);
    EXPECT_EQ(after(0ms), Heard{"nobody"}) << "it has no entity";
    hear(77);
    hear(0);
    EXPECT_EQ(after(0ms), Heard{});
    EXPECT_EQ(after(499ms), Heard{});
    EXPECT_EQ(after(1ms), (Heard{"nobody late", "nobody"}));
}

TEST(ClientActions, AnEntityThatIsGoneEndsUnlessItIsAReplica) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity replica = client.make(Make{3, 0});  // has the first id
    stage.settle();
    ASSERT_NE(client.receiver.net_id(replica), 0u);
    const ecs::Entity gone = client.make(Make{4, 0}), stays = client.make(Make{5, 0});
    for (int i = 0; i < 10 && client.actions.stats().accepted < 3; ++i) {
        stage.step();
        for (auto& packet : client.down) packet.is_lost = true;
    }
    ASSERT_EQ(client.actions.stats().accepted, 3u);
    client.hear(write_control(Gone{{kFirstPending + 1, kFirstPending + 2}}));
    EXPECT_TRUE(client.actions.take_answers());
    EXPECT_TRUE(client.world.is_alive(replica));
    EXPECT_FALSE(client.world.is_alive(gone));
    EXPECT_TRUE(client.world.is_alive(stays));
}

TEST(ClientActions, WhyNotTellsTheValidatorWhoAsksAndWhen) {
    struct Ask {
        std::string validate(const Act& act) const {
            return std::to_string(act.tick) + (act.player ? " player" : "") +
                   (act.is_server ? " server" : "");
        }
    };
    Schema schema = stage_schema();
    schema.action<Ask>("ask");
    Stage stage(std::move(schema));
    const ecs::Entity me = stage.world.spawn(Place{}, Replicated{});
    Stage::Client& client = stage.add_client(me);
    stage.run(5);
    client.actions.set_player(true, stage.replica(client, me), 77);
    const Ask ask;
    EXPECT_EQ(client.actions.why_not(type_of<Ask>(stage), &ask), "77 player");
}

}  // namespace
}  // namespace shoal::replication::impl::client_actions_test
