#include "replication/action/client_actions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ecs/query.h"
#include "tests/replication/support/stage.h"

namespace shoal::replication::actions_test {
namespace {

struct Place {
    std::int32_t x = 0;
};
struct Strength {
    std::int32_t points = 0;
};
struct Stunned {};
struct Holds {
    static constexpr auto relation = ecs::many;
};
struct PartOf {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};
struct Secret {
    int number = 0;
};  // of the client alone

/// The server rejects steps of 13.
struct Push {
    ecs::Entity target;
    std::int32_t by = 0;
    std::uint32_t number = 0;
    std::string validate(const Act&) const { return by == 13 ? "thirteen" : ""; }
    void mutate(Act& act) const {
        if (!act.world.is_alive(target)) return;
        act.world.patch<Place>(target, [&](Place& place) { place.x += by; });
    }
};
struct Make {
    std::int32_t x = 0;
    std::uint32_t number = 0;
    std::string validate(const Act&) const { return x == 13 ? "thirteen" : ""; }
    ecs::Entity mutate(Act& act) const { return act.spawn(Place{x}, Strength{3}); }
};
/// Destroys what has no strength left.
struct Hurt {
    ecs::Entity target;
    std::uint32_t number = 0;
    void mutate(Act& act) const {
        const Strength* strength = act.world.is_alive(target) ? act.world.try_get<Strength>(target) : nullptr;
        if (!strength) return;
        if (strength->points <= 1) return act.destroy(target);
        act.world.patch<Strength>(target, [](Strength& s) { s.points -= 1; });
    }
};
struct Stun {
    ecs::Entity target;
    bool ends = false;
    std::uint32_t number = 0;
    std::string validate(const Act& act) const {
        return act.world.is_alive(target) ? "" : "there is no such entity";
    }
    void mutate(Act& act) const {
        if (!act.world.is_alive(target)) return;
        if (ends) {
            act.world.remove<Stunned>(target);
            act.world.remove<Strength>(target);
        } else {
            act.world.add<Stunned>(target);
            act.world.set(target, Strength{9});
        }
    }
};
struct Hold {
    ecs::Entity source, target;
    std::uint32_t number = 0;
    std::string validate(const Act&) const { return number % 5 == 4 ? "four" : ""; }
    void mutate(Act& act) const {
        if (!act.world.is_alive(source) || !act.world.is_alive(target)) return;
        if (act.world.has(source, ecs::to<Holds>(target))) {
            act.world.remove(source, ecs::to<Holds>(target));
        } else {
            act.world.add(source, ecs::to<Holds>(target));
        }
    }
};
/// Fails on the server after its first half.
struct Stumble {
    ecs::Entity target;
    std::uint32_t number = 0;
    void mutate(Act& act) const {
        if (act.world.is_alive(target)) act.world.patch<Place>(target, [](Place& place) { place.x += 1; });
        if (act.is_server) act.fail("stumbled");
    }
};
struct Shout {
    std::string text;
    std::uint32_t number = 0;
    std::string validate(const Act&) const { return text == "!" ? "too loud" : ""; }
};
struct Speech {
    std::string text;
    std::uint32_t number = 0;
};
/// Destroys the player's own entity.
struct Perish {
    std::uint32_t number = 0;
    void mutate(Act& act) const { act.destroy(act.player); }
};

Schema stage_schema() {
    Schema schema;
    schema.component<Place>("place");
    schema.component<Strength>("strength", bounded(0, 100));
    schema.tag<Stunned>("stunned");
    schema.pair<Holds>("holds");
    schema.pair<PartOf>("part_of");
    schema.action<Push>("push", at_most(1000));
    schema.action<Make>("make", at_most(1000));
    schema.action<Hurt>("hurt", at_most(1000));
    schema.action<Stun>("stun", at_most(1000));
    schema.action<Hold>("hold", at_most(1000));
    schema.action<Stumble>("stumble", at_most(1000));
    schema.action<Shout>("shout", at_most(1000), independent());
    schema.action<Speech>("speech", field(&Speech::text, max_length(500)));
    schema.action<Perish>("perish");
    return schema;
}

template <class T>
std::size_t type_of(const Stage& stage) {
    return stage.schema.find_struct<T>(StructKind::action);
}

TEST(Actions, AClientChangesItsWorldAtOnceAndTheServerLater) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{1}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity seen = stage.replica(client, box);
    int told_there = 0, told_here = 0;
    client.actions.on(type_of<Push>(stage),
                      [&](const void*, const Call& call) { told_here += call.is_mine; });
    stage.actions.on(type_of<Push>(stage), [&](const void* action, const Call&) {
        told_there += static_cast<const Push*>(action)->by;
    });
    client.act(Push{seen, 5, 0});
    EXPECT_EQ(client.world.get<Place>(seen).x, 6) << "at once";
    EXPECT_EQ(told_here, 1);
    EXPECT_EQ(stage.world.get<Place>(box).x, 1);
    stage.run(3);
    EXPECT_EQ(stage.world.get<Place>(box).x, 6);
    EXPECT_EQ(told_there, 5);
    EXPECT_EQ(told_here, 1) << "the actor hears of its action once";
    stage.settle();
    EXPECT_EQ(client.actions.stats().accepted, 1u);
    EXPECT_TRUE(stage.is_equal(client));
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

TEST(Actions, OthersHearTheEventAndDoNotMutate) {
    Stage stage(stage_schema());
    const ecs::Entity me = stage.world.spawn(Place{1}, Replicated{});
    Stage::Client& actor = stage.add_client(me);
    Stage::Client& other = stage.add_client();
    stage.run(5);
    std::vector<std::string> heard;
    other.actions.on(type_of<Shout>(stage), [&](const void* action, const Call& call) {
        heard.push_back(static_cast<const Shout*>(action)->text);
        EXPECT_EQ(call.player, stage.replica(other, me));
        EXPECT_FALSE(call.is_mine);
    });
    actor.act(Shout{"hello", 0});
    actor.act(Shout{"again", 0});
    stage.settle();
    EXPECT_EQ(heard, (std::vector<std::string>{"hello", "again"}));
    EXPECT_EQ(other.actions.stats().done, 0u);
}

TEST(Actions, ARejectionRestoresWhatTheActionTouchedAndTellsWhy) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{1}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity seen = stage.replica(client, box);
    std::string why;
    client.actions.on_rejected(type_of<Push>(stage), [&](const void*, std::string_view text) { why = text; });
    client.act(Push{seen, 13, 0});
    EXPECT_EQ(client.world.get<Place>(seen).x, 14);
    stage.settle();
    EXPECT_EQ(client.world.get<Place>(seen).x, 1);
    EXPECT_EQ(why, "thirteen");
    EXPECT_EQ(stage.world.get<Place>(box).x, 1);
}

TEST(Actions, Trap21AnAcceptedActionThatChangesNothingOnTheServerShowsTheServersValue) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{10}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    stage.actions.on(type_of<Push>(stage), [&](const void*, const Call&) {
        stage.world.set(box, Place{10});  // the server takes it back in the same tick
    });
    client.act(Push{stage.replica(client, box), -1, 0});
    stage.settle();
    EXPECT_EQ(client.world.get<Place>(stage.replica(client, box)).x, 10);
    EXPECT_EQ(client.actions.stats().accepted, 1u);
}

TEST(Actions, Trap22ARejectionShowsTheValueOfAnEarlierActionWithoutAnAnswer) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{0}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity seen = stage.replica(client, box);
    client.act(Push{seen, 2, 0});
    client.act(Shout{"!", 0});  // rejected, and does not drop others
    client.act(Push{seen, 3, 0});
    client.act(Push{seen, 13, 0});  // rejected
    client.act(Push{seen, 50, 0});  // dropped
    EXPECT_EQ(client.world.get<Place>(seen).x, 68);
    std::set<int> shown;
    for (int i = 0; i < 20; ++i) {
        stage.step();
        shown.insert(client.world.get<Place>(seen).x);
    }
    EXPECT_EQ(shown, (std::set<int>{5, 68})) << "never the confirmed 0 in between";
    EXPECT_EQ(client.actions.stats().dropped, 1u);
    EXPECT_EQ(stage.world.get<Place>(box).x, 5);
}

TEST(Actions, Trap19APendingEntityBecomesTheServersWithTheSameHandle) {
    for (int order = 0; order < 3; ++order) {
        SCOPED_TRACE(testing::Message() << "order " << order);
        Stage stage(stage_schema());
        Stage::Client& client = stage.add_client();
        stage.run(5);
        if (order == 1) stage.queue_is_full = true;  // the record comes first
        const ecs::Entity made = client.make(Make{4, 0});
        ASSERT_TRUE(client.world.is_alive(made));
        client.world.set(made, Secret{5});
        client.act(Push{made, 2, 0});      // refers to it before the server knows it
        if (order == 2) stage.loss = 0.9;  // the result comes first
        stage.run(10);
        stage.queue_is_full = false;
        stage.settle();
        ecs::Query<const Place> places(client.world);
        EXPECT_EQ(places.count(), 1u) << "no duplicate";
        EXPECT_NE(client.receiver.net_id(made), 0u) << "the same handle is the replica";
        EXPECT_EQ(client.world.get<Place>(made).x, 6);
        EXPECT_EQ(client.world.get<Secret>(made).number, 5) << "what the client added stays";
        EXPECT_TRUE(stage.is_equal(client));
        EXPECT_TRUE(client.receiver.is_consistent());
    }
}

TEST(Actions, Trap20ABulletThatTheServerAcceptsAndDestroysVanishes) {
    for (int delay = 0; delay < 6; ++delay) {
        SCOPED_TRACE(testing::Message() << "delay " << delay);
        Stage stage(stage_schema(), static_cast<std::uint32_t>(delay + 1));
        Stage::Client& client = stage.add_client();
        stage.run(5);
        ecs::Entity on_server;
        stage.loss = delay % 2 != 0 ? 0.8 : 0;
        int age = -1;
        stage.actions.on(type_of<Make>(stage), [&](const void*, const Call&) { age = 0; });
        stage.on_step = [&] {
            ecs::Query<const Place> places(stage.world);
            places.each([&](ecs::Entity entity, const Place&) { on_server = entity; });
            if (age >= 0 && age++ == delay / 2) stage.world.destroy(on_server);
        };
        client.act(Make{4, 0});
        stage.run(30);
        stage.settle();
        ecs::Query<const Place> places(client.world);
        EXPECT_EQ(places.count(), 0u);
        EXPECT_TRUE(stage.is_equal(client));
    }
}

TEST(Actions, Trap23ARejectionDropsWhatWasCalledWithoutKnowingOfIt) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{0}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity seen = stage.replica(client, box);
    client.act(Push{seen, 13, 0});
    for (int i = 0; i < 3; ++i) client.act(Push{seen, 100, 0});
    while (client.actions.stats().rejected == 0) stage.step();
    client.act(Push{seen, 1, 0});
    stage.settle();
    EXPECT_EQ(stage.world.get<Place>(box).x, 1);
    EXPECT_EQ(client.actions.stats().dropped, 3u);
    EXPECT_EQ(stage.actions.stats(client.id).accepted, 1u);
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

TEST(Actions, Trap31APendingEntityThatTheClientDestroysDoesNotComeBack) {
    for (const bool is_late : {false, true}) {
        Stage stage(stage_schema());
        Stage::Client& client = stage.add_client();
        stage.run(5);
        const ecs::Entity made = client.make(Make{4, 0});
        if (is_late) stage.step();
        client.world.destroy(made);
        stage.settle();
        ecs::Query<const Place> places(client.world);
        EXPECT_EQ(places.count(), 0u);
        EXPECT_EQ(client.receiver.stats().suppressed, 1u);
    }
}

TEST(Actions, Trap34AMutationThatFailsHalfWayLeavesItsHalfEverywhere) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{0}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    std::string reported;
    stage.actions.observe([&](const ActionReport& report) { reported = report.why_not; });
    client.act(Stumble{stage.replica(client, box), 0});
    stage.settle();
    EXPECT_EQ(reported, "stumbled");
    EXPECT_EQ(stage.world.get<Place>(box).x, 1);
    EXPECT_EQ(client.world.get<Place>(stage.replica(client, box)).x, 1);
    EXPECT_EQ(client.actions.stats().rejected, 1u);
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
    EXPECT_GT(stage.actions.stats(client.id).deferred, 0u);
    stage.settle();
    EXPECT_EQ(stage.world.get<Place>(box).x, 30) << "deferred, not lost";
    for (int step = 0; step < 400 && client.kicked.empty(); ++step) {
        client.act(Shout{"!", 0});
        stage.step();
    }
    EXPECT_EQ(client.kicked, "too many rejected actions");
}

TEST(Actions, TheServersOwnReachAll) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{0}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    int heard = 0;
    client.actions.on(type_of<Push>(stage), [&](const void* action, const Call& call) {
        heard += static_cast<const Push*>(action)->by;
        EXPECT_FALSE(call.player);
    });
    Push push{box, 7, 0};
    stage.actions.begin(type_of<Push>(stage), &push, stage.next_tick);
    push.mutate(stage.actions.act());
    EXPECT_TRUE(stage.actions.end(&push));
    EXPECT_EQ(stage.world.get<Place>(box).x, 7);
    stage.settle();
    EXPECT_EQ(heard, 7);
    EXPECT_TRUE(stage.is_equal(client));
}

TEST(Actions, EventsWaitWhileTheQueueToAClientIsFull) {
    Stage stage(stage_schema());
    Stage::Client& actor = stage.add_client();
    Stage::Client& other = stage.add_client();
    stage.run(5);
    std::vector<std::uint32_t> heard;
    other.actions.on(type_of<Shout>(stage), [&](const void* action, const Call&) {
        heard.push_back(static_cast<const Shout*>(action)->number);
    });
    std::vector<std::uint32_t> expected;
    for (std::uint32_t i = 0; i < 60; ++i) {
        stage.queue_is_full = i % 20 >= 4;
        actor.act(Shout{"hey", i});
        expected.push_back(i);
        stage.step();
    }
    EXPECT_LT(heard.size(), 50u);
    stage.queue_is_full = false;
    stage.settle();
    EXPECT_EQ(heard, expected) << "each once and in order";
}

TEST(Actions, AClientForWhichTooManyEventsWaitIsDisconnectedWithAReason) {
    Stage stage(stage_schema());
    Stage::Client& slow = stage.add_client();
    stage.run(5);
    stage.queue_is_full = true;
    const std::size_t bytes = 500;
    std::size_t sent = 0;
    while (slow.kicked.empty() && sent < 2 * ServerActions::kMaxUnsentBytes) {
        for (int i = 0; i < 10; ++i) {
            Speech speech{std::string(bytes, 'a'), 0};
            stage.actions.begin(type_of<Speech>(stage), &speech, stage.next_tick);
            EXPECT_TRUE(stage.actions.end(&speech));
            sent += bytes;
        }
        stage.step();
    }
    EXPECT_EQ(slow.kicked, "too many results and events of actions wait for it");
    EXPECT_GT(sent, ServerActions::kMaxUnsentBytes * 9 / 10);
}

TEST(Actions, APlayerThatAResultDisconnectsLeaves) {
    Stage stage(stage_schema());
    Stage::Client& slow = stage.add_client();
    stage.run(5);
    stage.queue_is_full = true;
    std::vector<std::uint32_t> words{0, 485};  // `number`, and the length of the text
    words.resize(2 + 485, 'a');
    const std::size_t bytes =
        write_event(stage.schema, {1, {}, 0, static_cast<std::uint8_t>(type_of<Speech>(stage)), words})
            .size();
    for (std::size_t sent = 0; sent + bytes < ServerActions::kMaxUnsentBytes; sent += bytes) {
        Speech speech{std::string(485, 'a'), 0};
        stage.actions.begin(type_of<Speech>(stage), &speech, stage.next_tick);
        EXPECT_TRUE(stage.actions.end(&speech));
    }
    EXPECT_EQ(slow.kicked, "");
    stage.on_step = [&] { ecs::Query<const Place>(stage.world).destroy_all(); };
    for (int step = 0; step < 250 && slow.kicked.empty(); ++step) {
        static_cast<void>(slow.make(Make{1, 0}));
        stage.step();
        for (auto& packet : slow.down) packet.is_lost = true;
    }
    EXPECT_EQ(slow.kicked, "too many results and events of actions wait for it");
}

TEST(Actions, APlayerWhoseEntityTheActionDestroyedIsNamed) {
    for (const std::string_view destroyer : {"mutation", "observer", "handler"}) {
        SCOPED_TRACE(destroyer);
        Stage stage(stage_schema());
        const ecs::Entity me = stage.world.spawn(Place{1}, Replicated{});
        Stage::Client& actor = stage.add_client(me);
        Stage::Client& other = stage.add_client();
        stage.run(5);
        const std::size_t type = destroyer == "mutation" ? type_of<Perish>(stage) : type_of<Shout>(stage);
        if (destroyer == "observer")
            stage.actions.observe([&](const ActionReport&) { stage.world.destroy(me); });
        if (destroyer == "handler")
            stage.actions.on(type, [&](const void*, const Call& call) {
                EXPECT_EQ(call.player, me);
                stage.world.destroy(me);
            });
        int heard = 0;
        const auto hear = [&](const void*, const Call& call) {
            EXPECT_EQ(call.who, actor.id);
            EXPECT_FALSE(call.player);
            heard += 1;
        };
        stage.actions.on(type, hear);
        other.actions.on(type, hear);
        destroyer == "mutation" ? actor.act(Perish{}) : actor.act(Shout{"oh", 0});
        stage.settle();
        EXPECT_EQ(heard, 2);
        EXPECT_TRUE(stage.is_equal(other));
    }
}

TEST(Actions, AnObserverMayActAsTheServer) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{0}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const auto make = [&] {
        Make another{9, 0};
        stage.actions.begin(type_of<Make>(stage), &another, stage.next_tick);
        another.mutate(stage.actions.act());
        EXPECT_TRUE(stage.actions.end(&another));
    };
    stage.actions.observe([&](const ActionReport& report) {
        if (report.type == type_of<Push>(stage) || report.player) make();
    });
    std::vector<std::string> heard;
    client.actions.on(type_of<Push>(stage), [&](const void* action, const Call&) {
        heard.push_back("push " + std::to_string(static_cast<const Push*>(action)->by));
    });
    client.actions.on(type_of<Make>(stage), [&](const void* action, const Call& call) {
        if (!call.is_mine) heard.push_back("make " + std::to_string(static_cast<const Make*>(action)->x));
    });
    const ecs::Entity made = client.make(Make{4, 0});
    stage.settle();
    EXPECT_EQ(stage.world.get<Place>(stage.sender.entity(client.receiver.net_id(made))).x, 4)
        << "not the server's entity";
    Push push{box, 7, 0};
    stage.actions.begin(type_of<Push>(stage), &push, stage.next_tick);
    push.mutate(stage.actions.act());
    EXPECT_TRUE(stage.actions.end(&push));
    stage.settle();
    EXPECT_EQ(heard, (std::vector<std::string>{"make 9", "make 9", "push 7"}));
    EXPECT_TRUE(stage.is_equal(client));
}

TEST(Actions, TheNextEntityDoesNotTakeThePlaceOfOneThatTheServerDestroyedAtOnce) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    int made = 0;
    stage.on_step = [&] {
        ecs::Query<const Place> places(stage.world);
        places.each([&](ecs::Entity entity, const Place& place) {
            made += place.x == 4;
            if (place.x == 4) stage.world.destroy(entity);
        });
    };
    client.act(Make{4, 0});
    stage.run(10);
    EXPECT_EQ(made, 1);
    const ecs::Entity next = stage.world.spawn(Place{5}, Replicated{});
    stage.settle();
    EXPECT_TRUE(stage.replica(client, next));
    EXPECT_TRUE(stage.is_equal(client));
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
    EXPECT_EQ(stage.actions.waiting(client.id), 0u);
}

TEST(Actions, EventsWaitForAnEntityTogetherAndNotOneAfterTheOther) {
    Stage stage(stage_schema());
    const ecs::Entity hidden = stage.world.spawn(Place{1}, Replicated{});
    Stage::Client& actor = stage.add_client();
    Stage::Client& other = stage.add_client();
    stage.run(5);
    stage.queue_is_full = false;
    int heard = 0;
    other.actions.on(type_of<Push>(stage), [&](const void*, const Call& call) { heard += call.is_late; });
    const ecs::Entity target = stage.replica(actor, hidden);
    other.receiver.reset();  // knows no entity, as if their records were still on the way
    stage.on_step = [&] {
        for (auto& packet : other.down) packet.is_lost = true;
    };
    for (int i = 0; i < 10; ++i) actor.act(Push{target, 1, 0});
    stage.run(50);  // 800 ms
    EXPECT_EQ(heard, 10);
}

TEST(Actions, AnEventFiresWhenTheRenderTickReachesItsTick) {
    for (const Tick delay : {0u, 1u, 7u, 20u, 100u}) {
        SCOPED_TRACE(testing::Message() << "delay " << delay);
        Stage stage(stage_schema());
        stage.world.spawn(Place{1}, Replicated{});
        Stage::Client& actor = stage.add_client();
        Stage::Client& other = stage.add_client();
        other.delay = delay;
        stage.run(5);
        stage.on_step = [&] { ecs::Query<Place>(stage.world).each([](Place& place) { place.x += 1; }); };
        int heard = 0, heard_here = 0;
        actor.actions.on(type_of<Shout>(stage), [&](const void*, const Call&) { heard_here += 1; });
        other.actions.on(type_of<Shout>(stage), [&](const void*, const Call& call) {
            heard += 1;
            EXPECT_FALSE(call.is_late) << "no entity is missing";
            // 100 ticks are 1600 ms: the event waits for 500.
            EXPECT_NEAR(*other.receiver.newest_tick() - call.tick, std::min(delay, 500u / 16 + 1), 1);
        });
        actor.act(Shout{"hey", 0});
        EXPECT_EQ(heard_here, 1) << "one's own at once";
        stage.run(50);
        EXPECT_EQ(heard, 1);
    }
}

TEST(Actions, EventsThatWaitFireWhenTooManyDo) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    std::uint32_t heard = 0;
    client.actions.on(type_of<Shout>(stage), [&](const void* action, const Call&) {
        EXPECT_EQ(static_cast<const Shout*>(action)->number, heard);
        heard += 1;
    });
    for (std::uint32_t i = 0; i < 5'000; ++i)
        client.actions.receive(
            write_event(stage.schema, {7, {}, 0, static_cast<std::uint8_t>(type_of<Shout>(stage)), {i, 0}}));
    EXPECT_EQ(heard, 4'096u);
    client.actions.fire_all();
    EXPECT_EQ(heard, 5'000u);
    EXPECT_TRUE(client.actions.take_answers());
}

TEST(Actions, EventsThatWaitFireWhenTheyTakeTooMuchMemory) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    std::uint32_t heard = 0;
    client.actions.on(type_of<Speech>(stage), [&](const void* action, const Call&) {
        EXPECT_EQ(static_cast<const Speech*>(action)->number, heard);
        heard += 1;
    });
    for (int round = 0; round < 2; ++round) {
        SCOPED_TRACE(testing::Message() << "round " << round);
        heard = 0;
        for (std::uint32_t i = 0; i < 200; ++i) {
            std::vector<std::uint32_t> words(2 + 500, 'a');  // number, length and letters
            words[0] = i;
            words[1] = 500;
            client.actions.receive(write_event(
                stage.schema, {7, {}, 0, static_cast<std::uint8_t>(type_of<Speech>(stage)), words}));
        }
        EXPECT_EQ(heard, 130u) << "131 of them take more than 256 kB";
        client.actions.fire_all();
        EXPECT_EQ(heard, 200u);
        EXPECT_TRUE(client.actions.take_answers());
    }
}

TEST(Actions, EventsDoNotWaitForAReplicaThatTheGameDestroyed) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{1}, Replicated{});
    Stage::Client& actor = stage.add_client();
    Stage::Client& other = stage.add_client();
    stage.run(5);
    int heard = 0;
    other.actions.on(type_of<Push>(stage), [&](const void*, const Call&) { ++heard; });
    other.world.destroy(stage.replica(other, box));
    actor.act(Push{stage.replica(actor, box), 1, 0});
    stage.run(5);
    EXPECT_EQ(heard, 1);
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
    EXPECT_EQ(stage.actions.stats(client.id).accepted, 1u);
    EXPECT_EQ(stage.world.get<Place>(door).x, 1) << "the player cannot know it yet";
    stage.settle();
    client.act(Push{own, 5, 0});
    stage.settle();
    EXPECT_EQ(stage.world.get<Place>(door).x, 6);
}

struct ForCameras {};

TEST(Actions, AServerWithATagOfItsOwnSpawnsWithThisTag) {
    Stage stage(stage_schema(), 1, {1000, 1000, 1000},
                [](ecs::World& world) { return world.component<ForCameras>(); });
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity made = client.make(Make{4, 0});
    client.act(Push{made, 2, 0});
    stage.settle();
    EXPECT_NE(client.receiver.net_id(made), 0u) << "the same handle is the replica";
    ecs::Query<const Place, ecs::With<ForCameras>, ecs::Without<Replicated>> on_server(stage.world);
    EXPECT_EQ(on_server.count(), 1u);
    on_server.each([](ecs::Entity, const Place& place) { EXPECT_EQ(place.x, 6); });
    EXPECT_TRUE(stage.is_equal(client));
}

TEST(Actions, AnActionMayNameAnAcceptedEntityWhoseRecordIsMissing) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity made = client.make(Make{4, 0});
    for (int i = 0; i < 10 && client.actions.stats().accepted == 0; ++i) {
        stage.step();
        for (auto& packet : client.down) packet.is_lost = true;
    }
    ASSERT_EQ(client.actions.stats().accepted, 1u);
    ASSERT_EQ(client.receiver.net_id(made), 0u);
    client.act(Push{made, 2, 0});
    stage.settle();
    EXPECT_EQ(client.world.get<Place>(made).x, 6);
    EXPECT_TRUE(stage.is_equal(client));
}

TEST(Actions, AnAcceptedEntityWhoseRecordIsMissingEndsWithTheConnection) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    client.act(Make{4, 0});
    for (int i = 0; i < 10 && client.actions.stats().accepted == 0; ++i) {
        stage.step();
        for (auto& packet : client.down) packet.is_lost = true;
    }
    ASSERT_EQ(client.actions.stats().accepted, 1u);
    ecs::Query<const Place> places(client.world);
    ASSERT_EQ(places.count(), 1u);
    client.actions.reset();
    client.receiver.reset();
    EXPECT_EQ(places.count(), 0u);
}

TEST(Actions, ManyEntitiesWhoseRecordsAreLateAreThereOnce) {
    for (const std::uint32_t in_a_step : {5u, 12u}) {
        SCOPED_TRACE(testing::Message() << in_a_step << " in a step");
        Stage stage(stage_schema());
        Stage::Client& client = stage.add_client();
        stage.run(5);
        for (int step = 0; step < 100; ++step) {
            for (std::uint32_t i = 0; i < in_a_step; ++i) client.act(Make{4, 0});
            stage.step();
            for (auto& packet : client.down) packet.is_lost = true;
        }
        stage.settle();
        ecs::Query<const Place> ours(stage.world), theirs(client.world);
        EXPECT_EQ(client.actions.stats().accepted, 100 * in_a_step);
        EXPECT_EQ(ours.count(), 100 * in_a_step);
        EXPECT_EQ(theirs.count(), 100 * in_a_step);
        EXPECT_TRUE(stage.is_equal(client));
    }
}

TEST(Actions, APendingEntityBecomesOneReplicaAlsoIfAHostileServerNamesItTwice) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    const ecs::Entity spawned = client.world.spawn(Place{1});
    client.receiver.expect(kFirstPending | 7u, spawned);
    const ecs::Entity a = stage.world.spawn(Place{1}, Replicated{}),
                      b = stage.world.spawn(Place{2}, Replicated{});
    stage.sender.set_pending_id(client.peer, stage.sender.assign_net_id(a), 7);
    stage.sender.set_pending_id(client.peer, stage.sender.assign_net_id(b), 7);
    stage.settle(10);
    EXPECT_NE(stage.replica(client, a), stage.replica(client, b));
    EXPECT_TRUE(stage.is_equal(client));
    EXPECT_TRUE(client.receiver.is_consistent());
}

TEST(Actions, APendingPartThatDiedWithItsWholeComesBackAsAnotherEntity) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    const ecs::Entity first = stage.world.spawn(Place{1}, Replicated{}),
                      second = stage.world.spawn(Place{2}, Replicated{});
    stage.run(5);
    client.receiver.expect(kFirstPending | 7u, client.world.spawn(Place{3}));
    const ecs::Entity part = stage.world.spawn(Place{3}, Replicated{});
    stage.world.add(part, ecs::to<PartOf>(first));
    stage.sender.set_pending_id(client.peer, stage.sender.assign_net_id(part), 7);
    stage.run(5);
    ASSERT_TRUE(stage.replica(client, part));
    stage.world.add(part, ecs::to<PartOf>(second));
    stage.loss = 1;
    stage.step();
    stage.loss = 0;
    stage.world.destroy(first);
    stage.step();
    stage.step();
    EXPECT_FALSE(stage.replica(client, part)) << "died with its whole";
    stage.settle();
    EXPECT_TRUE(stage.replica(client, part));
    EXPECT_TRUE(stage.is_equal(client));
}

TEST(Actions, AnActionOfTheGreatestSizeIsSent) {
    Stage stage(stage_schema());
    ActionQueue queue(stage.schema);
    std::vector<NetId> touched(kMaxTouched, 0xffff'ffffu);
    std::vector<std::uint32_t> words{0, 500};  // `number`, and the length of the text
    for (int i = 0; i < 500; ++i) words.push_back(static_cast<std::uint32_t>(i * 89 % 251));
    queue.add(ActionStream::ordered,
              {static_cast<std::uint8_t>(type_of<Speech>(stage)), 1, 0, kMaxCreated, touched, words});
    BitWriter out;
    EXPECT_FALSE(queue.write_section(1, 2'000, out));
    EXPECT_TRUE(queue.lacked_room());
    EXPECT_TRUE(queue.write_section(1, std::size_t{net::kMaxPayloadBytes} * 8 - kSections, out));
    EXPECT_FALSE(queue.lacked_room());
    EXPECT_LE(out.bit_count(), std::size_t{net::kMaxPayloadBytes} * 8 - kSections);
}

TEST(Actions, AreNotSentWithoutRoom) {
    Stage stage(stage_schema());
    ActionQueue queue(stage.schema);
    queue.add(ActionStream::ordered,
              {static_cast<std::uint8_t>(type_of<Push>(stage)), 1, 0, 0, {}, {0, 0, 0}});
    for (std::size_t room = 0; room < 40; ++room) {
        BitWriter out;
        EXPECT_FALSE(queue.write_section(1, room, out)) << room;
        EXPECT_TRUE(queue.lacked_room());
        EXPECT_EQ(out.bit_count(), 0u);
    }
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
        EXPECT_EQ(report.player, client.id);
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

TEST(Actions, WaitForTheirTickButNotForOneThatIsFarAhead) {
    for (const Tick ahead : {0u, 1u, 30u, 64u, 65u, 1'000'000u}) {
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
        stage.run(80);
        ASSERT_TRUE(seen);
        const Tick arrived = stage.next_tick - 79;
        EXPECT_EQ(seen->late_ticks, 0u);
        if (ahead <= 64) {
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
    EXPECT_EQ(stage.actions.waiting(client.id), 4u);
    stage.run(18);
    EXPECT_EQ(done.size(), 8u) << "another one every ten ticks";
    stage.run(60);
    EXPECT_EQ(done.size(), 11u);
}

TEST(Actions, AreRefusedUnlessTheClientPlaysAndHasRoom) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    client.actions.set_player(false, {}, 1);
    client.act(Shout{"hey", 0});
    EXPECT_EQ(client.actions.stats().refused, 1u);
    client.actions.set_player(true, {}, 1);
    for (std::uint32_t i = 0; i < kMaxWaitingActions + 5; ++i) client.act(Shout{"hey", i});
    EXPECT_EQ(client.actions.stats().refused, 6u);
    EXPECT_EQ(client.actions.stats().done, kMaxWaitingActions);
    EXPECT_EQ(client.actions.waiting(), kMaxWaitingActions);
    client.act(Push{{}, 1, 0});
    EXPECT_EQ(client.actions.stats().done, kMaxWaitingActions + 1) << "the other stream has room";
}

TEST(Actions, WhyNotAsksTheValidatorWithTheClientsWorld) {
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{1}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const Stun of_nobody{}, of_box{stage.replica(client, box), false, 0};
    EXPECT_EQ(client.actions.why_not(type_of<Stun>(stage), &of_nobody), "there is no such entity");
    EXPECT_EQ(client.actions.why_not(type_of<Stun>(stage), &of_box), "");
    const Perish perish;
    EXPECT_EQ(client.actions.why_not(type_of<Perish>(stage), &perish), "") << "it has no validator";
    EXPECT_EQ(client.actions.stats().done, 0u);
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
            EXPECT_EQ(type, &detail::type_address<Place>);
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
    Stage stage(stage_schema());
    const ecs::Entity box = stage.world.spawn(Place{0}, Replicated{});
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity seen = stage.replica(client, box);
    std::vector<std::string> told;
    client.actions.on_rejected(type_of<Push>(stage), [&](const void* action, std::string_view why) {
        EXPECT_EQ(client.world.get<Place>(seen).x, 0) << "all changes were undone";
        told.push_back(std::to_string(static_cast<const Push*>(action)->by) + " " + std::string(why));
    });
    for (const int by : {13, 1, 2}) client.act(Push{seen, by, 0});
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
        stage.actions.set_away(client.id);
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
    EXPECT_EQ(stage.actions.stats(client.id).accepted, 3u);
    stage.actions.reconnect(client.id, client.actions.first());
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
    stage.actions.reconnect({}, {});
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
    stage.actions.set_away(client.id);
    stage.loss = 1;
    ecs::Query<const Place>(stage.world).destroy_all();
    stage.run(3);
    EXPECT_TRUE(client.world.is_alive(made));
    stage.actions.reconnect(client.id, client.actions.first());
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
    const Resumed resumed = stage.actions.replace_client(client.id);
    EXPECT_EQ(resumed.next_actions, (std::array<std::uint32_t, kActionStreams>{2, 3}));
    EXPECT_EQ(resumed.epoch, 1);
    client.actions.reset(resumed.next_actions, resumed.epoch);
    stage.settle();
    EXPECT_EQ(client.actions.stats().accepted, 0u) << "it gets no answers to what it forgot";
    client.act(Push{{}, 1, 0});
    client.act(Shout{"hey", 0});
    stage.settle();
    EXPECT_EQ(client.actions.stats().accepted, 2u);
    EXPECT_EQ(stage.actions.stats(client.id).accepted, 6u);
    EXPECT_EQ(stage.actions.replace_client({}).epoch, 0);
}

/// Draws actions of several clients over a bad network, and notes what the server does.
class ActionRace {
public:
    explicit ActionRace(std::uint32_t seed) : stage(stage_schema(), seed), random(seed) {
        stage.loss = static_cast<double>(random() % 5) * 0.1;
        stage.most_delay = 1 + static_cast<int>(random() % 6);
        for (int i = 0; i < 4; ++i) boxes.push_back(stage.world.spawn(Place{i}, Strength{5}, Replicated{}));
        for (int i = 0; i < 3; ++i) stage.add_client();
        numbers.resize(3);
        stage.actions.observe([&](const ActionReport& report) { note(report); });
        stage.run(30);
    }

    void step() {
        for (std::size_t i = 0; i < stage.clients.size(); ++i)
            if (random() % 4 == 0) act(i);
        if (random() % 10 == 0) change_on_the_server();
        stage.step();
        for (const auto& client : stage.clients) {
            ASSERT_TRUE(client->actions.is_consistent());
            ASSERT_TRUE(client->receiver.is_consistent());
        }
    }
    void check_at_rest() {
        stage.settle(120);
        for (const auto& client : stage.clients) {
            EXPECT_EQ(client->actions.waiting(), 0u);
            EXPECT_TRUE(stage.is_equal(*client));
            ecs::Query<const Place> ours(stage.world), theirs(client->world);
            EXPECT_EQ(theirs.count(), ours.count());
        }
        EXPECT_TRUE(stage.sender.is_consistent());
    }

    Stage stage;
    std::uint64_t accepted = 0, rejected = 0;

private:
    ecs::Entity any(Stage::Client& client) {
        std::vector<ecs::Entity> all;
        ecs::Query<const Place> places(client.world);
        places.each([&](ecs::Entity entity, const Place&) { all.push_back(entity); });
        return all.empty() ? ecs::Entity{} : all[random() % all.size()];
    }
    void act(std::size_t index) {
        Stage::Client& client = *stage.clients[index];
        const std::uint32_t number = ++numbers[index];
        const auto amount = static_cast<std::int32_t>(random() % 15);
        const ecs::Entity a = any(client), b = any(client);
        switch (random() % 7) {
            case 0:
                return client.act(Push{a, amount, number});
            case 1:
                return client.act(Make{amount, number});
            case 2:
                return client.act(Hurt{a, number});
            case 3:
                return client.act(Stun{a, amount % 2 == 0, number});
            case 4:
                return client.act(Hold{a, b, number});
            case 5:
                return client.act(Stumble{a, number});
            default:
                return client.act(Shout{amount == 3 ? "!" : "hey", number});
        }
    }
    void change_on_the_server() {
        const ecs::Entity box = boxes[random() % boxes.size()];
        if (!stage.world.is_alive(box)) return;
        if (random() % 20 == 0) return stage.world.destroy(box);
        if (random() % 2 == 0) return static_cast<void>(stage.world.set(box, Place{1000}));
        if (stage.world.has<Strength>(box)) return static_cast<void>(stage.world.remove<Strength>(box));
        stage.world.set(box, Strength{7});
    }
    /// Each action runs once, and those of a player in order.
    void note(const ActionReport& report) {
        (report.is_accepted ? accepted : rejected) += 1;
        const std::uint32_t number = number_of(report);
        const bool is_independent = report.type == type_of<Shout>(stage);
        std::uint32_t& last = newest[{report.player.value, is_independent}];
        EXPECT_GT(number, last) << report.name;
        last = number;
    }
    std::uint32_t number_of(const ActionReport& report) const {
        const auto is = [&](std::size_t type) { return report.type == type; };
        if (is(type_of<Push>(stage))) return static_cast<const Push*>(report.action)->number;
        if (is(type_of<Make>(stage))) return static_cast<const Make*>(report.action)->number;
        if (is(type_of<Hurt>(stage))) return static_cast<const Hurt*>(report.action)->number;
        if (is(type_of<Stun>(stage))) return static_cast<const Stun*>(report.action)->number;
        if (is(type_of<Hold>(stage))) return static_cast<const Hold*>(report.action)->number;
        if (is(type_of<Stumble>(stage))) return static_cast<const Stumble*>(report.action)->number;
        return static_cast<const Shout*>(report.action)->number;
    }

    std::mt19937 random;
    std::vector<ecs::Entity> boxes;
    std::vector<std::uint32_t> numbers;
    std::map<std::pair<std::uint32_t, bool>, std::uint32_t> newest;
};

// Goal: after any mix of acceptances, rejections, losses and delays, each action ran once at most and in
// order, and at rest every client equals the server, without entities left over.
TEST(ActionRace, AtRestEveryClientEqualsTheServer) {
    std::uint64_t accepted = 0, rejected = 0;
    const char* const text = std::getenv("SHOAL_ACTION_SEEDS");
    const std::uint32_t count = text ? static_cast<std::uint32_t>(std::atoi(text)) : 60;
    for (std::uint32_t seed = 1; seed <= count; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        ActionRace race(seed);
        for (int step = 0; step < 150; ++step) race.step();
        race.check_at_rest();
        accepted += race.accepted;
        rejected += race.rejected;
        if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(accepted, 20 * count);
    EXPECT_GT(rejected, 5 * count);
}

}  // namespace
}  // namespace shoal::replication::actions_test
