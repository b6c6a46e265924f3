#include "replication/action/server_actions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ecs/query.h"
#include "tests/replication/support/stage_actions.h"

namespace shoal::replication::impl::server_actions_test {
namespace {

using namespace stage_actions;

/// The bits of a section with one run of shouts, as a client sends it.
std::vector<std::byte> section_of_shouts(const Stage& stage, std::uint32_t first, std::uint32_t count,
                                         Tick tick) {
    const auto type = static_cast<std::uint8_t>(type_of<Shout>(stage));
    std::vector<ActionRecord> records;
    for (std::uint32_t i = 0; i < count; ++i) records.push_back({type, tick, 0, 0, {}, {first + i, 0}});
    BitWriter out;
    out.write_bool(false);
    out.write_bool(true);
    write_actions(stage.schema, {first, 0, records}, out);
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    return bytes;
}

bool read(Stage& stage, net::PeerId player, const std::vector<std::byte>& section) {
    BitReader in(section);
    return stage.actions.read_section(stage.player(player), 1, in);
}

TEST(ServerActions, ABurstRunsAtOnceAndThenTheRate) {
    Stage stage(stage_schema(), 1, {30, 4, 20});  // of 60 ticks a second
    Stage::Client& client = stage.add_client();
    stage.run(5);
    for (std::uint32_t i = 0; i < 8; ++i) client.act(Shout{"hey", i});
    stage.step();
    std::vector<std::uint64_t> done;
    for (int i = 0; i < 10; ++i) {
        stage.step();
        done.push_back(stage.action_stats(client.id).accepted);
    }
    EXPECT_EQ(done, (std::vector<std::uint64_t>{4, 4, 5, 5, 6, 6, 7, 7, 8, 8}));
    EXPECT_EQ(stage.action_stats(client.id).deferred, 8u) << "once in each tick in which some waited";
}

TEST(ServerActions, TheRejectionsOfThreeSecondsAreAllowedAtOnce) {
    Stage stage(stage_schema(), 1, {1000, 1000, 2});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const auto shout = [&](int times) {
        for (int i = 0; i < times; ++i) client.act(Shout{"!", 0});
        stage.run(3);
    };
    shout(6);
    EXPECT_EQ(stage.action_stats(client.id).rejected, 6u);
    EXPECT_EQ(client.kicked, "");
    stage.run(60);
    shout(2);
    EXPECT_EQ(client.kicked, "") << "two more a second";
    shout(1);
    EXPECT_EQ(client.kicked, "too many rejected actions");
}

TEST(ServerActions, APlayerWithMoreThan256WaitingActionsIsDisconnected) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const Tick later = stage.next_tick + 40;
    ASSERT_TRUE(read(stage, client.id, section_of_shouts(stage, 0, kMaxWaitingActions, later)));
    stage.actions.commit_section(stage.player(client.id), {});
    EXPECT_EQ(stage.actions_waiting(client.id), kMaxWaitingActions);
    EXPECT_EQ(client.kicked, "");
    ASSERT_TRUE(read(stage, client.id, section_of_shouts(stage, kMaxWaitingActions, 1, later)));
    stage.actions.commit_section(stage.player(client.id), {});
    EXPECT_EQ(client.kicked, "too many actions");
}

TEST(ServerActions, APlayerWhoLeftHasNoActionsAlsoIfAnotherOneHasItsPlace) {
    Stage stage(stage_schema());
    Stage::Client& first = stage.add_client();
    Stage::Client& second = stage.add_client();
    stage.run(5);
    first.act(Shout{"hey", 0});
    stage.run(3);
    EXPECT_EQ(stage.action_stats(first.id).accepted, 1u);
    stage.kick(first, "bye");
    Stage::Client& third = stage.add_client();
    stage.run(5);
    third.act(Shout{"ho", 0});
    second.act(Shout{"hi", 0});
    stage.run(5);
    EXPECT_EQ(stage.action_stats(second.id).accepted, 1u);
    EXPECT_EQ(stage.action_stats(third.id).accepted, 1u);
    EXPECT_EQ(third.actions.stats().accepted, 1u);
    for (const net::PeerId nobody : {first.id, net::PeerId{}, net::PeerId{77}}) {
        EXPECT_EQ(stage.action_stats(nobody).accepted, 0u);
        EXPECT_EQ(stage.actions_waiting(nobody), 0u);
        EXPECT_FALSE(read(stage, nobody, section_of_shouts(stage, 0, 1, 1)));
        stage.actions.commit_section(stage.player(nobody), {});
        stage.set_away(nobody);
        stage.reconnect(nobody, {});
    }
    third.act(Shout{"ho", 0});
    stage.run(5);
    EXPECT_EQ(third.actions.stats().accepted, 2u);
}

TEST(ServerActions, APlayerThatIsAddedTwiceKeepsItsActions) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    client.act(Shout{"hey", 0});
    stage.run(3);
    stage.actions.add_player(stage.player(client.id));
    EXPECT_EQ(stage.action_stats(client.id).accepted, 1u);
}

TEST(ServerActions, WhatAPlayersActionSpawnsIsItsOwn) {
    Stage stage(stage_schema());
    stage.add_client();
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity made = client.make(Make{4, 0});
    stage.settle();
    const ecs::Entity entity = stage.sender.entity(client.receiver.net_id(made));
    EXPECT_EQ(stage.sender.owner(entity), client.peer);
    Make own{5, 0};
    stage.actions.begin(type_of<Make>(stage), &own, stage.next_tick);
    const ecs::Entity of_server = own.mutate(stage.actions.act());
    EXPECT_TRUE(stage.actions.end(&own));
    stage.step();
    EXPECT_FALSE(stage.sender.owner(of_server));
}

/// Fails on both sides.
struct Trip {
    void mutate(Act& act) const { act.fail("tripped"); }
};

TEST(ServerActions, AnActionOfTheServerThatFailsIsReportedAndNobodyElseHearsOfIt) {
    Schema schema = stage_schema();
    schema.action<Trip>("trip");
    Stage stage(std::move(schema));
    Stage::Client& client = stage.add_client();
    stage.run(5);
    int heard = 0;
    const auto hear = [&](const void*, const Call&) { heard += 1; };
    stage.actions.on(type_of<Trip>(stage), hear);
    client.actions.on(type_of<Trip>(stage), hear);
    std::vector<std::string> reasons;
    stage.actions.observe([&](const ActionReport& report) {
        EXPECT_FALSE(report.is_accepted);
        EXPECT_EQ(report.late_ticks, 0u);
        reasons.emplace_back(report.why_not);
    });
    Trip trip;
    stage.actions.begin(type_of<Trip>(stage), &trip, stage.next_tick);
    trip.mutate(stage.actions.act());
    EXPECT_FALSE(stage.actions.end(&trip));
    stage.run(5);
    EXPECT_EQ(heard, 0);
    EXPECT_EQ(reasons, std::vector<std::string>{"tripped"});
}

/// Has a number that passes a codec.
struct Turn {
    float angle = 0;
};

TEST(ServerActions, BothSidesActWithTheNumbersThatTheWireHas) {
    Schema schema = stage_schema();
    schema.action<Turn>("turn", quantised(0, 8, 0.5));
    Stage stage(std::move(schema));
    Stage::Client& client = stage.add_client();
    stage.run(5);
    Turn turn{2.1f};
    stage.actions.begin(type_of<Turn>(stage), &turn, stage.next_tick);
    EXPECT_NEAR(turn.angle, 2.0f, 0.01f);
    EXPECT_TRUE(stage.actions.end(&turn));
    Turn other{2.9f};
    ASSERT_TRUE(client.actions.begin(type_of<Turn>(stage), &other));
    EXPECT_NEAR(other.angle, 3.0f, 0.01f);
    client.actions.end(&other);
}

TEST(ServerActions, WhatWaitsForRoomCountsOnlyUntilItIsSent) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    stage.actions.keep_results();
    for (int round = 0; round < 6; ++round) {
        stage.queue_is_full = true;
        for (int step = 0; step < 15; ++step) {
            for (int i = 0; i < 16; ++i) client.act(Shout{"?", 0});
            stage.step();
        }
        stage.run(2);
        stage.queue_is_full = false;
        if (round % 2 != 0) stage.set_away(client.id);
        if (round % 2 != 0) client.unsent.clear();  // what waits is forgotten with the connection
        if (round % 4 == 1) stage.reconnect(client.id, client.actions.first());
        if (round % 4 == 3) {
            const Resumed resumed = stage.replace_client(client.id);
            client.actions.reset(resumed.next_actions, resumed.epoch);
        }
        stage.run(5);
        EXPECT_EQ(client.actions.waiting(), 0u);
        EXPECT_EQ(client.kicked, "") << round;
    }
}

/// A client whose state records never arrive, with a server that keeps results.
struct Seat {
    Seat() {
        stage.actions.keep_results();
        stage.run(5);
    }
    /// Returns the results that the server sends after a new connection, message by message.
    std::vector<ActionResults> come_back(const std::array<std::uint32_t, kActionStreams>& first) {
        stage.set_away(client.id);
        client.messages.clear();
        stage.reconnect(client.id, first);
        stage.actions.finish();
        std::vector<ActionResults> out;
        gone.reset();
        for (const Stage::Bytes& message : client.messages) {
            const auto kind = static_cast<MessageKind>(message.bytes[0]);
            const std::span<const std::byte> bytes = std::span(message.bytes).subspan(1);
            if (kind == MessageKind::action_results)
                out.push_back(read_control<ActionResults>(bytes).value());
            if (kind == MessageKind::gone) gone = read_control<Gone>(bytes).value().ids;
        }
        client.messages.clear();
        return out;
    }
    /// Steps during which no record arrives.
    void run(int steps) {
        for (int i = 0; i < steps; ++i) {
            stage.step();
            for (auto& packet : client.down) packet.is_lost = true;
        }
    }

    Stage stage{stage_schema()};
    Stage::Client& client = stage.add_client();
    std::optional<std::vector<PendingId>> gone;
};

TEST(ServerActions, KeptResultsHaveTheirTicksAndThoseOfOneTickAreInOneMessage) {
    Seat seat;
    std::vector<Tick> ticks;
    seat.stage.actions.observe([&](const ActionReport& report) { ticks.push_back(report.tick); });
    for (const int count : {1, 3, 2}) {
        for (int i = 0; i < count; ++i) seat.client.act(Push{{}, 1, 0});
        seat.run(3);
    }
    ASSERT_EQ(ticks.size(), 6u);
    std::vector<ActionResults> sent = seat.come_back({0, 0});
    ASSERT_EQ(sent.size(), 3u);
    const std::size_t firsts[] = {0, 1, 4}, counts[] = {1, 3, 2};
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(sent[i].tick, ticks[firsts[i]]);
        ASSERT_EQ(sent[i].results.size(), counts[i]);
        for (std::size_t n = 0; n < counts[i]; ++n) EXPECT_EQ(sent[i].results[n].sequence, firsts[i] + n);
    }
    sent = seat.come_back({2, 0});
    ASSERT_EQ(sent.size(), 2u);
    ASSERT_EQ(sent[0].results.size(), 2u);
    EXPECT_EQ(sent[0].results[0].sequence, 2u);
    EXPECT_TRUE(seat.come_back({6, 0}).empty());
    EXPECT_FALSE(seat.gone);
}

TEST(ServerActions, OfEachStreamTheLast256ResultsAreKept) {
    Seat seat;
    for (std::uint32_t i = 0; i < kMaxWaitingActions + 44; ++i) {
        seat.client.act(Shout{"hey", i});
        if (i < 3) seat.client.act(Push{{}, 1, 0});
        seat.run(1);
    }
    seat.run(5);
    std::array<std::vector<std::uint32_t>, kActionStreams> numbers;
    for (const ActionResults& message : seat.come_back({0, 0}))
        for (const ActionResult& result : message.results)
            numbers[static_cast<std::size_t>(result.stream)].push_back(result.sequence);
    EXPECT_EQ(numbers[0], (std::vector<std::uint32_t>{0, 1, 2}));
    ASSERT_EQ(numbers[1].size(), kMaxWaitingActions);
    EXPECT_EQ(numbers[1].front(), 44u);
    EXPECT_EQ(numbers[1].back(), kMaxWaitingActions + 43u);
}

TEST(ServerActions, APlayerThatComesBackHearsOfWhatItDoesFromThenOn) {
    Seat seat;
    seat.client.act(Shout{"hey", 0});
    seat.run(3);
    EXPECT_EQ(seat.come_back(seat.client.actions.first()).size(), 0u);
    seat.client.act(Shout{"hey", 1});
    seat.run(3);
    EXPECT_EQ(seat.client.actions.stats().accepted, 2u);
    seat.stage.set_away(seat.client.id);
    const Resumed resumed = seat.stage.replace_client(seat.client.id);
    seat.client.actions.reset(resumed.next_actions, resumed.epoch);
    seat.run(1);
    seat.client.act(Shout{"hey", 2});
    seat.run(3);
    EXPECT_EQ(seat.client.actions.stats().accepted, 3u);
}

TEST(ServerActions, AKeptResultDoesNotNameAnEntityThatDied) {
    Seat seat;
    static_cast<void>(seat.client.make(Make{4, 0}));
    static_cast<void>(seat.client.make(Make{5, 0}));
    seat.run(3);
    std::vector<ecs::Entity> all;
    ecs::Query<const Place>(seat.stage.world).each([&](ecs::Entity entity, const Place& place) {
        if (place.x == 4) all.push_back(entity);
    });
    ASSERT_EQ(all.size(), 1u);
    seat.stage.world.destroy(all[0]);
    const std::vector<ActionResults> sent = seat.come_back({0, 0});
    ASSERT_EQ(sent.size(), 1u);
    ASSERT_EQ(sent[0].results.size(), 2u);
    EXPECT_EQ(sent[0].results[0].created, std::vector<NetId>{0});
    ASSERT_EQ(sent[0].results[1].created.size(), 1u);
    EXPECT_NE(sent[0].results[1].created[0], 0u);
}

TEST(ServerActions, TheLast256IdsOfEntitiesThatEndedAreSentAgain) {
    Seat seat;
    constexpr std::uint32_t kMade = 300;
    for (std::uint32_t i = 0; i < kMade; ++i) {
        static_cast<void>(seat.client.make(Make{4, 0}));
        if (i % 20 == 0) seat.run(1);
    }
    seat.run(5);
    ASSERT_EQ(seat.client.actions.stats().accepted, kMade);
    ecs::Query<const Place>(seat.stage.world).destroy_all();
    seat.run(2);
    static_cast<void>(seat.come_back(seat.client.actions.first()));
    ASSERT_TRUE(seat.gone);
    ASSERT_EQ(seat.gone->size(), 256u);
    EXPECT_EQ(seat.gone->front(), kFirstPending + 1 + (kMade - 256));
    EXPECT_EQ(seat.gone->back(), kFirstPending + kMade);
}

// The new client of a player counts its pending entities anew.
TEST(ServerActions, ANewClientHearsNothingOfTheEntitiesOfTheFormerOne) {
    Seat seat;
    static_cast<void>(seat.client.make(Make{4, 0}));
    static_cast<void>(seat.client.make(Make{4, 0}));
    seat.run(3);
    ecs::Entity first;
    ecs::Query<const Place>(seat.stage.world).each([&](ecs::Entity entity, const Place&) { first = entity; });
    seat.stage.world.destroy(first);
    seat.run(3);
    seat.client.act(Push{{}, 1, 0});
    seat.stage.set_away(seat.client.id);
    const Resumed resumed = seat.stage.replace_client(seat.client.id);
    seat.client.actions.reset(resumed.next_actions, resumed.epoch);
    seat.client.messages.clear();
    ecs::Query<const Place>(seat.stage.world).destroy_all();
    seat.stage.actions.finish();
    EXPECT_TRUE(seat.client.messages.empty()) << "of those that end later";
    EXPECT_TRUE(seat.come_back({0, 0}).empty());
    EXPECT_FALSE(seat.gone) << "of those that had ended";
}

TEST(ServerActions, ANewClientCannotNameTheEntitiesOfTheFormerOne) {
    Seat seat;
    const ecs::Entity made = seat.client.make(Make{4, 0});
    seat.run(3);
    seat.client.act(Push{made, 5, 0});  // names the pending id; its client forgets it
    const Resumed resumed = seat.stage.replace_client(seat.client.id);
    seat.run(3);
    ecs::Query<const Place> places(seat.stage.world);
    places.each([](const Place& place) { EXPECT_EQ(place.x, 4); });
    EXPECT_EQ(resumed.next_actions[0], 1u);
}

TEST(ServerActions, AnActionThatNamesADeadPendingEntityNamesNone) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity made = client.make(Make{4, 0});
    for (int i = 0; i < 10 && client.actions.stats().accepted == 0; ++i) {
        stage.step();
        for (auto& packet : client.down) packet.is_lost = true;
    }
    std::vector<std::string> why;
    client.actions.on_rejected(type_of<Stun>(stage),
                               [&](const void*, std::string_view text) { why.emplace_back(text); });
    stage.actions.on(type_of<Stun>(stage), [&](const void* action, const Call&) {
        EXPECT_FALSE(static_cast<const Stun*>(action)->target);
    });
    client.act(Stun{made, false, 0});
    ecs::Query<const Place>(stage.world).destroy_all();
    stage.settle();
    EXPECT_EQ(why, std::vector<std::string>{"there is no such entity"});
}

TEST(ServerActions, TheServersOwnActionMayNameWhatThePlayerBeforeDoesNotKnow) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    client.act(Shout{"hey", 0});
    stage.run(3);
    EXPECT_EQ(stage.action_stats(client.id).accepted, 1u);
    const ecs::Entity unsent = stage.world.spawn(Place{1}, Replicated{});
    Push push{unsent, 7, 0};
    stage.actions.begin(type_of<Push>(stage), &push, stage.next_tick);
    EXPECT_EQ(push.target, unsent);
    push.mutate(stage.actions.act());
    EXPECT_TRUE(stage.actions.end(&push));
    EXPECT_EQ(stage.world.get<Place>(unsent).x, 8);
}

TEST(ServerActions, WhatWaitsDoesNotRunForANewClientOfThePlayer) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    ASSERT_TRUE(read(stage, client.id, section_of_shouts(stage, 0, 3, stage.next_tick + 5)));
    stage.actions.commit_section(stage.player(client.id), {});
    EXPECT_EQ(stage.actions_waiting(client.id), 3u);
    EXPECT_EQ(stage.replace_client(client.id).next_actions[1], 3u);
    EXPECT_EQ(stage.actions_waiting(client.id), 0u);
    stage.run(10);
    EXPECT_EQ(stage.action_stats(client.id).accepted, 0u);
}

TEST(ServerActions, ASchemaWithoutActionsHasNoPlayers) {
    Schema schema;
    schema.component<Place>("place");
    Stage stage(std::move(schema));
    Stage::Client& client = stage.add_client();
    stage.world.spawn(Place{1}, Replicated{});
    stage.run(5);
    EXPECT_EQ(stage.action_stats(client.id).accepted, 0u);
    EXPECT_EQ(stage.replace_client(client.id).epoch, 0);
    EXPECT_TRUE(stage.is_equal(client));
}

}  // namespace
}  // namespace shoal::replication::impl::server_actions_test
