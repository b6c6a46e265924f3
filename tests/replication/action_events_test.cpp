#include "replication/action/client_actions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecs/query.h"
#include "tests/replication/support/stage_actions.h"

namespace shoal::replication::impl::action_events_test {
namespace {

using namespace stage_actions;

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

TEST(Actions, TheServersOwnReachAll) {
    BoxStage stage;
    int heard = 0;
    stage.client.actions.on(type_of<Push>(stage), [&](const void* action, const Call& call) {
        heard += static_cast<const Push*>(action)->by;
        EXPECT_FALSE(call.player);
    });
    Push push{stage.box, 7, 0};
    stage.actions.begin(type_of<Push>(stage), &push, stage.next_tick);
    push.mutate(stage.actions.act());
    EXPECT_TRUE(stage.actions.end(&push));
    EXPECT_EQ(stage.world.get<Place>(stage.box).x, 7);
    stage.settle();
    EXPECT_EQ(heard, 7);
    EXPECT_TRUE(stage.is_equal(stage.client));
}

TEST(Actions, EventsForWhichAClientIsTooSlowAreCounted) {
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
        Shout shout{"hey", i};
        stage.queue_is_full = i % 20 >= 4;
        stage.actions.begin(type_of<Shout>(stage), &shout, stage.next_tick);
        EXPECT_TRUE(stage.actions.end(&shout));
        if (!stage.queue_is_full) expected.push_back(i);
    }
    stage.queue_is_full = false;
    stage.settle();
    EXPECT_EQ(heard, expected);
    EXPECT_EQ(stage.action_stats(other.id).lost_events, 60u - expected.size());
    EXPECT_EQ(stage.action_stats(actor.id).lost_events, 60u - expected.size());
    EXPECT_EQ(actor.kicked + other.kicked, "");
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
        const auto hear = [&](bool is_client, const Call& call) {
            EXPECT_EQ(call.who, actor.id);
            EXPECT_EQ(bool(call.player), is_client) << "a client hears it before the end";
            heard += 1;
        };
        stage.actions.on(type, [&](const void*, const Call& call) { hear(false, call); });
        other.actions.on(type, [&](const void*, const Call& call) { hear(true, call); });
        destroyer == "mutation" ? actor.act(Perish{}) : actor.act(Shout{"oh", 0});
        stage.settle();
        EXPECT_EQ(heard, 2);
        EXPECT_TRUE(stage.is_equal(other));
    }
}

TEST(Actions, AnObserverMayActAsTheServer) {
    BoxStage stage;
    const auto make = [&] {
        Make another{9, 0};
        stage.actions.begin(type_of<Make>(stage), &another, stage.next_tick);
        another.mutate(stage.actions.act());
        EXPECT_TRUE(stage.actions.end(&another));
    };
    stage.actions.observe([&](const ActionReport& report) {
        if (report.type == type_of<Push>(stage) || report.who) make();
    });
    std::vector<std::string> heard;
    stage.client.actions.on(type_of<Push>(stage), [&](const void* action, const Call&) {
        heard.push_back("push " + std::to_string(static_cast<const Push*>(action)->by));
    });
    stage.client.actions.on(type_of<Make>(stage), [&](const void* action, const Call& call) {
        if (!call.is_mine) heard.push_back("make " + std::to_string(static_cast<const Make*>(action)->x));
    });
    const ecs::Entity made = stage.client.make(Make{4, 0});
    stage.settle();
    EXPECT_EQ(stage.world.get<Place>(stage.sender.entity(stage.client.receiver.net_id(made))).x, 4)
        << "not the server's entity";
    Push push{stage.box, 7, 0};
    stage.actions.begin(type_of<Push>(stage), &push, stage.next_tick);
    push.mutate(stage.actions.act());
    EXPECT_TRUE(stage.actions.end(&push));
    stage.settle();
    EXPECT_EQ(heard, (std::vector<std::string>{"make 9", "make 9", "push 7"}));
    EXPECT_TRUE(stage.is_equal(stage.client));
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

TEST(Actions, EachEventFiresWhenItsOwnTickIsShown) {
    Stage stage(stage_schema());
    stage.world.spawn(Place{1}, Replicated{});
    Stage::Client& actor = stage.add_client();
    Stage::Client& other = stage.add_client();
    other.delay = 10;
    stage.run(20);
    stage.on_step = [&] { ecs::Query<Place>(stage.world).each([](Place& place) { place.x += 1; }); };
    std::vector<std::uint32_t> heard;
    other.actions.on(type_of<Shout>(stage), [&](const void* action, const Call& call) {
        heard.push_back(static_cast<const Shout*>(action)->number);
        EXPECT_FALSE(is_newer(call.tick, *other.receiver.newest_tick() - other.delay));
    });
    for (std::uint32_t i = 0; i < 5; ++i) {
        actor.act(Shout{"hey", i});
        stage.run(2);
    }
    stage.run(20);
    EXPECT_EQ(heard, (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
}

/// A client that gets events of a type of actions, and counts those that fired.
template <class T>
struct Audience {
    Audience() {
        client.actions.on(type_of<T>(stage), [this](const void* action, const Call&) {
            EXPECT_EQ(static_cast<const T*>(action)->number, heard) << "in order";
            heard += 1;
        });
    }
    void receive(std::vector<std::uint32_t> words) {
        const auto type = static_cast<std::uint8_t>(type_of<T>(stage));
        client.hear(write_event(stage.schema, {7, {}, 0, type, std::move(words)}));
    }

    Stage stage{stage_schema()};
    Stage::Client& client = stage.add_client();
    std::uint32_t heard = 0;
};

TEST(Actions, EventsThatWaitFireWhenTooManyDo) {
    Audience<Shout> audience;
    for (std::uint32_t i = 0; i < 5'000; ++i) audience.receive({i, 0});
    EXPECT_EQ(audience.heard, 4'096u);
    audience.client.queue.deliver_all();
    EXPECT_EQ(audience.heard, 5'000u);
    EXPECT_TRUE(audience.client.actions.take_answers());
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

}  // namespace
}  // namespace shoal::replication::impl::action_events_test
