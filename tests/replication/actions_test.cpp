#include "replication/action/client_actions.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecs/query.h"
#include "tests/replication/support/stage_actions.h"

namespace shoal::replication::impl::actions_test {
namespace {

using namespace stage_actions;

TEST(Actions, AClientChangesItsWorldAtOnceAndTheServerLater) {
    BoxStage stage(1);
    int told_there = 0, told_here = 0;
    stage.client.actions.on(type_of<Push>(stage),
                            [&](const void*, const Call& call) { told_here += call.is_mine; });
    stage.actions.on(type_of<Push>(stage), [&](const void* action, const Call&) {
        told_there += static_cast<const Push*>(action)->by;
    });
    stage.client.act(Push{stage.seen, 5, 0});
    EXPECT_EQ(stage.client.world.get<Place>(stage.seen).x, 6) << "at once";
    EXPECT_EQ(told_here, 1);
    EXPECT_EQ(stage.world.get<Place>(stage.box).x, 1);
    stage.run(3);
    EXPECT_EQ(stage.world.get<Place>(stage.box).x, 6);
    EXPECT_EQ(told_there, 5);
    EXPECT_EQ(told_here, 1) << "the actor hears of its action once";
    stage.settle();
    EXPECT_EQ(stage.client.actions.stats().accepted, 1u);
    EXPECT_TRUE(stage.is_equal(stage.client));
}

TEST(Actions, AnAcceptedValueStaysUntilItsRecordArrives) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Stage stage(stage_schema(), seed);
        const ecs::Entity box = stage.world.spawn(Place{1}, Replicated{});
        Stage::Client& client = stage.add_client();
        stage.run(5);
        stage.loss = 0.5;
        const ecs::Entity seen = stage.replica(client, box);
        client.act(Push{seen, 5, 0});
        for (int i = 0; i < 40; ++i) {
            stage.step();
            ASSERT_EQ(client.world.get<Place>(seen).x, 6) << "step " << i;
        }
        EXPECT_EQ(client.actions.stats().accepted, 1u);
    }
}

TEST(Actions, ARejectionRestoresWhatTheActionTouchedAndTellsWhy) {
    BoxStage stage(1);
    std::string why;
    stage.client.actions.on_rejected(type_of<Push>(stage),
                                     [&](const void*, std::string_view text) { why = text; });
    stage.client.act(Push{stage.seen, 13, 0});
    EXPECT_EQ(stage.client.world.get<Place>(stage.seen).x, 14);
    stage.settle();
    EXPECT_EQ(stage.client.world.get<Place>(stage.seen).x, 1);
    EXPECT_EQ(why, "thirteen");
    EXPECT_EQ(stage.world.get<Place>(stage.box).x, 1);
}

TEST(Actions, Trap21AnAcceptedActionThatChangesNothingOnTheServerShowsTheServersValue) {
    BoxStage stage(10);
    stage.actions.on(type_of<Push>(stage), [&](const void*, const Call&) {
        stage.world.set(stage.box, Place{10});  // the server takes it back in the same tick
    });
    stage.client.act(Push{stage.seen, -1, 0});
    stage.settle();
    EXPECT_EQ(stage.client.world.get<Place>(stage.seen).x, 10);
    EXPECT_EQ(stage.client.actions.stats().accepted, 1u);
}

TEST(Actions, Trap22ARejectionShowsTheValueOfAnEarlierActionWithoutAnAnswer) {
    BoxStage stage;
    stage.client.act(Push{stage.seen, 2, 0});
    stage.client.act(Shout{"!", 0});  // rejected, and does not drop others
    stage.client.act(Push{stage.seen, 3, 0});
    stage.client.act(Push{stage.seen, 13, 0});  // rejected
    stage.client.act(Push{stage.seen, 50, 0});  // dropped
    EXPECT_EQ(stage.client.world.get<Place>(stage.seen).x, 68);
    std::set<int> shown;
    for (int i = 0; i < 20; ++i) {
        stage.step();
        shown.insert(stage.client.world.get<Place>(stage.seen).x);
    }
    EXPECT_EQ(shown, (std::set<int>{5, 68})) << "never the confirmed 0 in between";
    EXPECT_EQ(stage.client.actions.stats().dropped, 1u);
    EXPECT_EQ(stage.world.get<Place>(stage.box).x, 5);
}

TEST(Actions, Trap23ARejectionDropsWhatWasCalledWithoutKnowingOfIt) {
    BoxStage stage;
    stage.client.act(Push{stage.seen, 13, 0});
    for (int i = 0; i < 3; ++i) stage.client.act(Push{stage.seen, 100, 0});
    while (stage.client.actions.stats().rejected == 0) stage.step();
    stage.client.act(Push{stage.seen, 1, 0});
    stage.settle();
    EXPECT_EQ(stage.world.get<Place>(stage.box).x, 1);
    EXPECT_EQ(stage.client.actions.stats().dropped, 3u);
    EXPECT_EQ(stage.action_stats(stage.client.id).accepted, 1u);
}

TEST(Actions, Trap25ADestroyedEntityComesBackWithItsHandleIfTheServerRejectsThat) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{0}, Strength{1}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity seen = stage.replica(client, box);
    client.act(Push{seen, 13, 0});
    client.act(Hurt{seen, 0});
    EXPECT_FALSE(client.world.has<Place>(seen));
    EXPECT_TRUE(client.world.is_alive(seen));
    stage.settle();
    EXPECT_EQ(client.world.get<Place>(seen).x, 0);
    EXPECT_EQ(client.world.get<Strength>(seen).points, 1);
}

TEST(Actions, Trap26AfterARejectedRemovalTheNewerValueIsThere) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{0}, Strength{1}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity seen = stage.replica(client, box);
    client.act(Push{seen, 13, 0});
    client.act(Stun{seen, true, 0});
    EXPECT_FALSE(client.world.has<Strength>(seen));
    stage.world.set(box, Strength{50});
    stage.settle();
    EXPECT_EQ(client.world.get<Strength>(seen).points, 50);
}

TEST(Actions, Trap30AnActionInALoopRunsOnceAfterIt) {
    Stage stage(stage_schema());
    stage.world.spawn(Place{0}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    ecs::Query<const Place> places(client.world);
    places.each([&](ecs::Entity entity, const Place&) { client.act(Push{entity, 4, 0}); });
    EXPECT_EQ(client.actions.stats().done, 0u);
    stage.settle();
    EXPECT_EQ(client.actions.stats().done, 1u);
    places.each([&](ecs::Entity, const Place& place) { EXPECT_EQ(place.x, 4); });
    EXPECT_TRUE(stage.is_equal(client));
}

TEST(Actions, Trap34AMutationThatFailsHalfWayLeavesItsHalfEverywhere) {
    BoxStage stage;
    std::string reported;
    stage.actions.observe([&](const ActionReport& report) { reported = report.why_not; });
    stage.client.act(Stumble{stage.seen, 0});
    stage.settle();
    EXPECT_EQ(reported, "stumbled");
    EXPECT_EQ(stage.world.get<Place>(stage.box).x, 1);
    EXPECT_EQ(stage.client.world.get<Place>(stage.seen).x, 1);
    EXPECT_EQ(stage.client.actions.stats().rejected, 1u);
}

TEST(Actions, AreDeferredOverTheirRateAndAFloodIsDisconnected) {
    Stage stage(stage_schema(), 1, {60, 10, 20});
    const ecs::Entity box = stage.world.spawn(Place{0}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity seen = stage.replica(client, box);
    for (int i = 0; i < 30; ++i) client.act(Push{seen, 1, 0});
    stage.run(4);
    EXPECT_LT(stage.world.get<Place>(box).x, 20);
    EXPECT_GT(stage.action_stats(client.id).deferred, 0u);
    stage.settle();
    EXPECT_EQ(stage.world.get<Place>(box).x, 30) << "deferred, not lost";
    for (int step = 0; step < 400 && client.kicked.empty(); ++step) {
        client.act(Shout{"!", 0});
        stage.step();
    }
    EXPECT_EQ(client.kicked, "too many rejected actions");
}

TEST(Actions, APlayerThatItsActionDisconnectsLeaves) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    stage.actions.observe([&](const ActionReport&) { stage.kick(client, "by an observer"); });
    client.act(Make{4, 0});
    client.act(Make{5, 0});
    stage.run(5);
    EXPECT_EQ(client.kicked, "by an observer");
    EXPECT_EQ(stage.actions_waiting(client.id), 0u);
}

TEST(Actions, AReferenceToAnEntityThatThePlayerWasNotSentIsNull) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    const ecs::Entity own = client.world.spawn(Place{0}, StableKey{17});
    stage.run(5);
    client.act(Push{own, 5, 0});
    stage.step();
    const ecs::Entity door = stage.world.spawn(Place{1}, StableKey{17}, Replicated{});
    EXPECT_EQ(stage.sender.assign_net_id(door), client.receiver.net_id(own));
    stage.step();
    EXPECT_EQ(stage.action_stats(client.id).accepted, 1u);
    EXPECT_EQ(stage.world.get<Place>(door).x, 1) << "the player cannot know it yet";
    stage.settle();
    client.act(Push{own, 5, 0});
    stage.settle();
    EXPECT_EQ(stage.world.get<Place>(door).x, 6);
}

TEST(Actions, AReportSaysWhatHappenedWhen) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{0}, Replicated{});
    const ecs::Entity me = stage.world.spawn(Place{1}, Replicated{});
    Stage::Client& client = stage.add_client(me);
    stage.run(5);
    std::vector<std::string> notes;
    stage.actions.observe([&](const ActionReport& report) {
        notes.push_back(std::string(report.name) + (report.is_accepted ? " +" : " -") +
                        std::string(report.why_not));
        EXPECT_EQ(report.type, type_of<Push>(stage));
        EXPECT_EQ(report.who, client.id);
        EXPECT_EQ(report.tick, stage.next_tick);
    });
    stage.actions.on(type_of<Push>(stage), [&](const void*, const Call& call) {
        EXPECT_EQ(call.player, me);
        EXPECT_EQ(call.who, client.id);
        EXPECT_EQ(call.tick, stage.next_tick);
        EXPECT_FALSE(call.is_mine || call.is_late);
        notes.push_back("handler");
    });
    client.act(Push{stage.replica(client, box), 2, 0});
    stage.run(5);
    client.act(Push{stage.replica(client, box), 13, 0});
    stage.settle();
    EXPECT_EQ(notes, (std::vector<std::string>{"push +", "handler", "push -thirteen"}));
}

// At most 2 s: 120 ticks at 60 Hz.
TEST(Actions, WaitForTheirTickButNotForOneThatIsFarAhead) {
    for (const Tick ahead : {0u, 1u, 30u, 120u, 121u, 1'000'000u}) {
        SCOPED_TRACE(testing::Message() << ahead << " ahead");
        Stage stage(stage_schema());
        Stage::Client& client = stage.add_client();
        stage.run(5);
        std::optional<ActionReport> seen;
        stage.actions.observe([&](const ActionReport& report) { seen = report; });
        const Tick called_for = stage.next_tick + 1 + ahead;  // it arrives in the next step
        client.actions.set_player(true, {}, called_for);
        client.act(Shout{"hey", 0});
        EXPECT_EQ(client.actions.stats().done, 1u);
        stage.run(140);
        ASSERT_TRUE(seen);
        const Tick arrived = stage.next_tick - 139;
        EXPECT_EQ(seen->late_ticks, 0u);
        if (ahead <= 120) {
            EXPECT_EQ(seen->tick, called_for);
        } else {
            EXPECT_EQ(seen->tick, arrived);
        }
    }
}

TEST(Actions, ALateActionSaysByHowManyTicks) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(20);
    std::vector<Tick> late;
    stage.actions.observe([&](const ActionReport& report) { late.push_back(report.late_ticks); });
    client.actions.set_player(true, {}, stage.next_tick - 9);
    client.act(Shout{"hey", 0});
    const Tick called_for = stage.next_tick - 9;
    Tick ran = 0;
    while (late.empty()) {
        ran = stage.next_tick;
        stage.step();
    }
    EXPECT_EQ(late, std::vector<Tick>{ran - called_for});
}

/// What an action finds in its Act.
struct Witness {
    struct Seen {
        bool is_server = false;
        Tick tick = 0, late_ticks = 0;
        net::PeerId who;
        ecs::Entity player;
        bool operator==(const Seen&) const = default;
    };
    std::string validate(const Act& act) const {
        seen.push_back({act.is_server, act.tick, act.late_ticks, act.who, act.player});
        return "";
    }
    void mutate(Act& act) const { validate(act); }
    static inline std::vector<Seen> seen;
};

TEST(Actions, AnActSaysWhoActsWhereAndWhen) {
    Witness::seen.clear();
    Schema schema = stage_schema();
    schema.action<Witness>("witness");
    Stage stage(std::move(schema));
    const ecs::Entity ship = stage.world.spawn(Place{}, Replicated{});
    Stage::Client& client = stage.add_client(ship);
    stage.run(20);
    const ecs::Entity replica = stage.replica(client, ship);
    ASSERT_TRUE(replica);
    const Tick called_for = stage.next_tick - 9;
    client.actions.set_player(true, replica, called_for);
    client.act(Witness{});
    EXPECT_EQ(Witness::seen, (std::vector<Witness::Seen>{{false, called_for, 0, {}, replica}}));
    Tick ran = 0;
    for (Witness::seen.clear(); Witness::seen.empty(); stage.step()) ran = stage.next_tick;
    const Witness::Seen on_server{true, ran, ran - called_for, client.id, ship};
    EXPECT_EQ(Witness::seen, (std::vector<Witness::Seen>{on_server, on_server}));
    Witness::seen.clear();
    Witness witness;
    stage.actions.begin(type_of<Witness>(stage), &witness, 77);
    witness.mutate(stage.actions.act());
    EXPECT_TRUE(stage.actions.end(&witness));
    EXPECT_EQ(Witness::seen, (std::vector<Witness::Seen>{{true, 77, 0, {}, {}}}));
}

TEST(Actions, ATypeHasARateOfItsOwn) {
    Schema schema;
    schema.action<Shout>("shout", at_most(6), independent());
    schema.action<Speech>("speech", field(&Speech::text, max_length(500)));
    Stage stage(std::move(schema));  // the other limit is 1000 a second
    Stage::Client& client = stage.add_client();
    stage.run(5);
    std::vector<std::string> done;
    stage.actions.observe([&](const ActionReport& report) { done.emplace_back(report.name); });
    for (int i = 0; i < 10; ++i) client.act(Shout{"hey", 0});
    client.act(Speech{"a", 0});
    stage.run(2);
    EXPECT_EQ(done,
              (std::vector<std::string>{"speech", "shout", "shout", "shout", "shout", "shout", "shout"}))
        << "a second's worth at once, and the other stream does not wait";
    EXPECT_EQ(stage.actions_waiting(client.id), 4u);
    stage.run(18);
    EXPECT_EQ(done.size(), 8u) << "another one every ten ticks";
    stage.run(60);
    EXPECT_EQ(done.size(), 11u);
}

TEST(Actions, BeginOnlyIfTheClientPlaysAndHasRoom) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    client.actions.set_player(false, {}, 1);
    client.act(Shout{"hey", 0});
    EXPECT_EQ(client.actions.stats().not_begun, 1u);
    client.actions.set_player(true, {}, 1);
    for (std::uint32_t i = 0; i < kMaxWaitingActions + 5; ++i) client.act(Shout{"hey", i});
    EXPECT_EQ(client.actions.stats().not_begun, 6u);
    EXPECT_EQ(client.actions.stats().done, kMaxWaitingActions);
    EXPECT_EQ(client.actions.waiting(), kMaxWaitingActions);
    client.act(Push{{}, 1, 0});
    EXPECT_EQ(client.actions.stats().done, kMaxWaitingActions + 1) << "the other stream has room";
}

TEST(Actions, WhyNotAsksTheValidatorWithTheClientsWorld) {
    BoxStage stage(1);
    const Stun of_nobody{}, of_box{stage.seen, false, 0};
    EXPECT_EQ(stage.client.actions.why_not(type_of<Stun>(stage), &of_nobody), "there is no such entity");
    EXPECT_EQ(stage.client.actions.why_not(type_of<Stun>(stage), &of_box), "");
    const Perish perish;
    EXPECT_EQ(stage.client.actions.why_not(type_of<Perish>(stage), &perish), "") << "it has no validator";
    EXPECT_EQ(stage.client.actions.stats().done, 0u);
}

/// Spawns some entities, and changes others.
struct Flood {
    std::int32_t spawns = 0;
    std::int32_t changes = 0;
    void mutate(Act& act) const {
        for (std::int32_t i = 0; i < spawns; ++i) act.spawn(Place{77});
        std::int32_t left = changes;
        ecs::Query<const Place> places(act.world);
        std::vector<ecs::Entity> found;
        places.each([&](ecs::Entity entity, const Place& place) {
            if (place.x < 77 && left-- > 0) found.push_back(entity);
        });
        for (const ecs::Entity entity : found) act.world.set(entity, Place{50});
    }
};
struct Quiet {
    void mutate(Act& act) const { act.spawn(Place{77}); }
};

TEST(Actions, AnActionThatSpawnsOrChangesTooMuchIsUndoneAtOnce) {
    Schema schema;
    schema.component<Place>("place");
    schema.action<Flood>("flood", at_most(100));
    schema.action<Quiet>("quiet", independent());
    Stage stage(std::move(schema));
    for (int i = 0; i < 40; ++i) stage.world.spawn(Place{i}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    std::vector<std::string> reasons;
    const auto note = [&](const void*, std::string_view why) { reasons.emplace_back(why); };
    client.actions.on_rejected(type_of<Flood>(stage), note);
    client.actions.on_rejected(type_of<Quiet>(stage), note);
    ecs::Query<const Place> places(client.world);
    const auto sum = [&] {
        int all = 0;
        places.each([&](const Place& place) { all += place.x; });
        return all;
    };
    const int before = sum();
    for (const auto& [spawns, changes] : {std::pair{33, 0}, std::pair{0, 33}}) {
        client.act(Flood{spawns, changes});
        EXPECT_EQ(sum(), before);
        EXPECT_EQ(places.count(), 40u);
    }
    client.act(Quiet{});
    EXPECT_EQ(places.count(), 40u);
    const std::string too_many = "the action creates or changes too many entities";
    EXPECT_EQ(reasons,
              (std::vector<std::string>{too_many, too_many, "an independent action cannot create entities"}));
    EXPECT_EQ(client.actions.stats().rejected, 3u);
    EXPECT_EQ(client.actions.stats().done, 0u);
    client.act(Flood{32, 32});
    EXPECT_EQ(places.count(), 72u);
    stage.settle();
    EXPECT_EQ(client.actions.stats().accepted, 1u);
    EXPECT_TRUE(stage.is_equal(client));
}

/// Changes one or two components of the first entities.
struct Paint {
    std::uint32_t entities = 0;
    bool changes_two = false;
    void mutate(Act& act) const {
        std::uint32_t left = entities;
        ecs::Query<ecs::Mut<Place>, ecs::Mut<Strength>> all(act.world);
        all.each([&](ecs::Mut<Place> place, ecs::Mut<Strength> strength) {
            if (left == 0) return;
            left -= 1;
            place->x += 1;
            if (changes_two) strength->points += 1;
        });
    }
};

// The last action that begins before the overlay is full changes two components of each of its entities.
TEST(Actions, TheLastActionThatBeginsMayChangeSeveralComponentsOfItsEntities) {
    Schema schema;
    schema.component<Place>("place");
    schema.component<Strength>("strength");
    schema.action<Paint>("paint", at_most(1000));
    Stage stage(std::move(schema));
    for (std::uint32_t i = 0; i < kMaxTouched; ++i) stage.world.spawn(Place{0}, Strength{0}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    constexpr std::uint32_t kActions = Overlay::kFullEntries / kMaxTouched;
    for (std::uint32_t i = 1; i < kActions; ++i) client.act(Paint{kMaxTouched, false});
    client.act(Paint{kMaxTouched - 1, false});
    client.act(Paint{kMaxTouched, true});
    EXPECT_EQ(client.actions.stats().done, kActions + 1);
    EXPECT_TRUE(client.actions.is_consistent());
    client.act(Paint{1, false});
    EXPECT_EQ(client.actions.stats().not_begun, 1u) << "the overlay is full";
    stage.settle();
    EXPECT_EQ(client.actions.stats().accepted, kActions + 1);
    EXPECT_TRUE(stage.is_equal(client));
}

/// Aims at where the player sees a target.
struct Aim {
    ecs::Entity target;
    std::int32_t seen = 0;
    std::string validate(const Act& act) const { return act.seen<Place>(target) ? "" : "nothing is seen"; }
    void mutate(Act& act) const {
        const std::optional<Place> place = act.seen<Place>(target);
        if (act.world.is_alive(act.player)) act.world.set(act.player, Strength{place ? place->x : 0});
    }
};

TEST(Actions, SeeWhatTheSightShows) {
    struct Binoculars final : Sight {
        bool see(PlayerId player, ecs::Entity, const void* type, bool is_there, void* value) const override {
            EXPECT_EQ(type, &type_address<Place>);
            EXPECT_TRUE(is_there);
            who = player;
            static_cast<Place*>(value)->x += 40;
            return !is_blind;
        }
        mutable PlayerId who;
        bool is_blind = false;
    } of_client, of_server;
    Schema schema;
    schema.component<Place>("place");
    schema.component<Strength>("strength", bounded(0, 100));
    schema.action<Aim>("aim");
    Stage stage(std::move(schema));
    const ecs::Entity me = stage.world.spawn(Place{0}, Strength{0}, Replicated{});
    const ecs::Entity target = stage.world.spawn(Place{2}, Replicated{});
    Stage::Client& client = stage.add_client(me);
    stage.run(5);
    const Aim aim{stage.replica(client, target), 0};
    client.act(aim);
    EXPECT_EQ(client.world.get<Strength>(stage.replica(client, me)).points, 2) << "the world without a sight";
    stage.settle();
    client.actions.set_sight(&of_client);
    stage.actions.set_sight(&of_server);
    client.act(aim);
    EXPECT_EQ(client.world.get<Strength>(stage.replica(client, me)).points, 42);
    EXPECT_FALSE(of_client.who) << "its own player";
    of_client.is_blind = true;
    EXPECT_EQ(client.actions.why_not(0, &aim), "nothing is seen");
    stage.settle();
    EXPECT_EQ(stage.world.get<Strength>(me).points, 42);
    EXPECT_EQ(of_server.who, client.id);
    Aim own{target, 0};
    stage.actions.begin(0, &own, stage.next_tick);
    own.mutate(stage.actions.act());
    EXPECT_TRUE(stage.actions.end(&own)) << "the server itself sees its world";
    EXPECT_EQ(client.actions.stats().accepted, 2u);
}

TEST(Actions, DroppedActionsAreToldAfterTheRejectedOneAndInOrder) {
    BoxStage stage;
    std::vector<std::string> told;
    stage.client.actions.on_rejected(type_of<Push>(stage), [&](const void* action, std::string_view why) {
        EXPECT_EQ(stage.client.world.get<Place>(stage.seen).x, 0) << "all changes were undone";
        told.push_back(std::to_string(static_cast<const Push*>(action)->by) + " " + std::string(why));
    });
    for (const int by : {13, 1, 2}) stage.client.act(Push{stage.seen, by, 0});
    stage.settle();
    const std::string dropped = "an earlier action was rejected";
    EXPECT_EQ(told, (std::vector<std::string>{"13 thirteen", "1 " + dropped, "2 " + dropped}));
}

/// A client whose connection is lost after the server did its actions, and before it hears of that.
struct Lost {
    Lost() : client(stage.add_client()) {
        stage.actions.keep_results();
        stage.run(5);
    }
    void lose_answers() {
        for (int i = 0; i < 3; ++i) {
            stage.step();
            client.messages.clear();
            for (auto& packet : client.down) packet.is_lost = true;
        }
        stage.set_away(client.id);
        stage.run(3);
        EXPECT_TRUE(client.messages.empty()) << "nothing is sent meanwhile";
    }

    Stage stage{stage_schema()};
    Stage::Client& client;
};

TEST(Actions, TheAnswersThatAClientMissedAreSentAgainWhenItComesBack) {
    Lost lost;
    Stage& stage = lost.stage;
    Stage::Client& client = lost.client;
    const ecs::Entity box = stage.world.spawn(Place{0}, Replicated{});
    stage.run(5);
    const ecs::Entity seen = stage.replica(client, box);
    client.act(Push{seen, 4, 0});
    stage.settle();
    const ecs::Entity made = client.make(Make{4, 0}), brief = client.make(Make{50, 0});
    client.act(Shout{"!", 0});
    client.act(Push{seen, 13, 0});
    stage.on_step = [&] {
        std::vector<ecs::Entity> gone;
        ecs::Query<const Place>(stage.world).each([&](ecs::Entity entity, const Place& place) {
            if (place.x == 50) gone.push_back(entity);
        });
        for (const ecs::Entity entity : gone) stage.world.destroy(entity);
    };
    lost.lose_answers();
    EXPECT_EQ(client.actions.waiting(), 4u);
    EXPECT_EQ(stage.action_stats(client.id).accepted, 3u);
    stage.reconnect(client.id, client.actions.first());
    stage.settle();
    EXPECT_EQ(client.actions.waiting(), 0u);
    EXPECT_EQ(client.actions.stats().accepted, 3u) << "the first answer is not sent again";
    EXPECT_EQ(client.actions.stats().rejected, 2u);
    EXPECT_TRUE(client.world.is_alive(made));
    EXPECT_FALSE(client.world.is_alive(brief));
    EXPECT_NE(client.receiver.net_id(made), 0u);
    EXPECT_TRUE(stage.is_equal(client));
    client.act(Push{seen, 1, 0});
    stage.settle();
    EXPECT_EQ(stage.world.get<Place>(box).x, 5);
    stage.reconnect({}, {});
}

TEST(Actions, AnAnswerThatWaitedForRoomInTheLostConnectionIsSentOnce) {
    Lost lost;
    Stage& stage = lost.stage;
    Stage::Client& client = lost.client;
    stage.queue_is_full = true;
    client.act(Shout{"hey", 0});
    client.act(Push{{}, 13, 0});
    stage.run(3);
    EXPECT_EQ(stage.action_stats(client.id).accepted, 1u);
    stage.set_away(client.id);
    client.unsent.clear();
    stage.run(3);
    stage.queue_is_full = false;
    stage.reconnect(client.id, client.actions.first());
    stage.settle();
    EXPECT_EQ(client.actions.stats().accepted, 1u);
    EXPECT_EQ(client.actions.stats().rejected, 1u);
    EXPECT_EQ(client.actions.waiting(), 0u);
}

TEST(Actions, AnEntityThatDiedWhileTheClientWasAwayIsGone) {
    Lost lost;
    Stage& stage = lost.stage;
    Stage::Client& client = lost.client;
    const ecs::Entity made = client.make(Make{4, 0});
    for (int i = 0; i < 3; ++i) {  // the result arrives, no record does
        stage.step();
        for (auto& packet : client.down) packet.is_lost = true;
    }
    EXPECT_EQ(client.actions.stats().accepted, 1u);
    EXPECT_TRUE(client.world.is_alive(made));
    stage.set_away(client.id);
    stage.loss = 1;
    ecs::Query<const Place>(stage.world).destroy_all();
    stage.run(3);
    EXPECT_TRUE(client.world.is_alive(made));
    stage.loss = 0;
    stage.reconnect(client.id, client.actions.first());
    stage.settle();
    EXPECT_FALSE(client.world.is_alive(made));
}

TEST(Actions, AClientThatForgotItsActionsGoesOnWhereTheServerIs) {
    Lost lost;
    Stage& stage = lost.stage;
    Stage::Client& client = lost.client;
    client.act(Push{{}, 13, 0});
    stage.settle();
    for (int i = 0; i < 3; ++i) client.act(Shout{"hey", 0});
    client.act(Push{{}, 1, 0});
    lost.lose_answers();
    const Resumed resumed = stage.replace_client(client.id);
    EXPECT_EQ(resumed.next_actions, (std::array<std::uint32_t, kActionStreams>{2, 3}));
    EXPECT_EQ(resumed.epoch, 1);
    client.actions.reset(resumed.next_actions, resumed.epoch);
    stage.settle();
    EXPECT_EQ(client.actions.stats().accepted, 0u) << "it gets no answers to what it forgot";
    client.act(Push{{}, 1, 0});
    client.act(Shout{"hey", 0});
    stage.settle();
    EXPECT_EQ(client.actions.stats().accepted, 2u);
    EXPECT_EQ(stage.action_stats(client.id).accepted, 6u);
    EXPECT_EQ(stage.replace_client({}).epoch, 0);
}

}  // namespace
}  // namespace shoal::replication::impl::actions_test
