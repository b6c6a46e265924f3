// Rule 41: what is called inside of something else works, or waits, and changes nothing that runs.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecs/query.h"
#include "tests/replication/support/play.h"

namespace shoal::replication::impl::called_from_inside_test {
namespace {

struct Spot {
    float x = 0;
};
struct Hull {
    int points = 9;
};
struct Helm {
    std::int8_t turn = 0;
    Press fire;
};
struct Flag {
    std::string text = "none";
};
/// The longer one of two actions. Its arguments must not change while it runs.
struct Long {
    std::int32_t a = 0, b = 0, c = 0;
    void mutate(Act&) const { inside(); }
    static inline std::function<void()> inside = [] {};
};
struct Short {
    std::int32_t a = 0;
    std::string validate(const Act&) const { return inside(), ""; }
    static inline std::function<void()> inside = [] {};
};
struct Kill {
    ecs::Entity target;
    std::string validate(const Act& act) const { return act.is_server && rejects ? "no" : ""; }
    void mutate(Act& act) const { act.destroy(target); }
    static inline bool rejects = true;
};
struct Move {
    ecs::Entity target;
    std::string validate(const Act& act) const { return act.is_server && Kill::rejects ? "no" : ""; }
    void mutate(Act& act) const {
        act.world.set(target, Spot{50});
        act.world.set(target, Flag{"taken"});
    }
};

Schema bay_schema() {
    Schema out;
    out.component<Spot>("spot", quantised(-100, 100, 0.01), predicted());
    out.component<Hull>("hull");
    out.component<Flag>("flag", from_owner());
    out.input<Helm>("helm", field(&Helm::turn, bounded(-1, 1)));
    out.action<Long>("long", at_most(1000));
    out.action<Short>("short", at_most(1000));
    out.action<Kill>("kill");
    out.action<Move>("move");
    return out;
}

void sail(const Step& step) {
    step.each<Spot, const Helm>([&](Spot& spot, const Helm& helm) { spot.x += helm.turn * step.dt; });
}

/// A player that owns a ship and a boat, and sees a rock. Others see the player.
struct Bay : Play {
    explicit Bay(const ClientOptions& options = {}) : Play(bay_schema()), first(join_both(options)) {
        run(40);
        me = first.client.player();
    }
    Guest& join_both(const ClientOptions& options) {
        Long::inside = Short::inside = [] {};
        Kill::rejects = true;
        server.on_step(sail);
        server.on_join([this](PlayerId id) {
            const ecs::Entity entity = world.spawn(Spot{3}, Hull{}, Flag{}, Helm{}, Replicated{});
            if (!ship) {
                player = id;
                ship = entity;
                server.give(id, boat);
            }
            return entity;
        });
        Guest& guest = join(options);
        guest.client.on_step(sail);
        guest.on_frame = [&guest] { guest.client.input(Helm{}); };
        join();
        return guest;
    }
    Guest& second() { return *guests[1]; }

    PlayerId player;
    ecs::Entity ship, boat = world.spawn(Spot{5}, Hull{}, Flag{}, Helm{}, Replicated{}),
                      rock = world.spawn(Spot{7}, Hull{}, Flag{}, Replicated{});
    Guest& first;
    ecs::Entity me;
};

TEST(CalledFromInside, AnActionKeepsItsArguments) {
    Bay bay;
    std::vector<std::int32_t> heard;
    bay.server.on<Long>([&](const Long& it, const Call&) { heard.insert(heard.end(), {it.a, it.b, it.c}); });
    bay.second().client.on<Long>([&](const Long& it, const Call&) {
        heard.insert(heard.end(), {it.a, it.b, it.c});
    });
    int shorts = 0;
    bay.server.on<Short>([&](const Short& it, const Call&) { shorts += it.a; });
    Long::inside = [&] { bay.first.client.act(Short{7}); };
    bay.first.client.act(Long{1, 2, 3});
    Long::inside = [] {};
    bay.run(20);
    EXPECT_EQ(heard, (std::vector<std::int32_t>{1, 2, 3, 1, 2, 3}));
    EXPECT_EQ(shorts, 7);
}

TEST(CalledFromInside, AnActionOfTheServerWaitsForItsNextTick) {
    for (const char* const where : {"mutation", "validator", "hook", "query"}) {
        SCOPED_TRACE(where);
        Bay bay;
        int done = 0, heard = 0;
        bay.server.on<Short>([&](const Short& it, const Call& call) { done += call.who ? 0 : it.a; });
        bay.first.client.on<Short>(
            [&](const Short& it, const Call& call) { heard += call.is_mine ? 0 : it.a; });
        std::vector<std::int32_t> longs;
        bay.second().client.on<Long>([&](const Long& it, const Call&) { longs = {it.a, it.b, it.c}; });
        const auto act = [&] {
            bay.server.act(Short{5});
            EXPECT_EQ(done, 0);
        };
        ecs::Hook hook;
        if (where == std::string_view("mutation")) {
            Long::inside = act;
            bay.server.act(Long{1, 2, 3});
        } else if (where == std::string_view("validator")) {
            Short::inside = act;
            bay.first.client.act(Short{0});
        } else if (where == std::string_view("hook")) {
            hook = bay.world.on_change<Hull>([&](ecs::World&, ecs::Entity, const Hull&) { act(); });
            bay.world.set(bay.rock, Hull{1});
        } else {
            ecs::Query<const Flag> flags(bay.world);
            flags.each([&](ecs::Entity entity, const Flag&) {
                if (entity == bay.rock) act();
            });
        }
        Long::inside = [] {};
        bay.run(4);
        Short::inside = [] {};
        bay.run(16);
        EXPECT_EQ(done, where == std::string_view("validator") ? done : 5);
        EXPECT_EQ(heard, done);
        EXPECT_GE(done, 5);
        const bool is_mutation = where == std::string_view("mutation");
        EXPECT_EQ(longs, is_mutation ? (std::vector<std::int32_t>{1, 2, 3}) : std::vector<std::int32_t>{});
    }
}

TEST(CalledFromInside, AnActionThatWaitsStillNamesATargetThatDies) {
    Bay bay;
    ecs::Entity heard;
    bay.first.client.on<Kill>([&](const Kill& it, const Call&) { heard = it.target; });
    const ecs::Entity seen = bay.replica(bay.first, bay.rock);
    ecs::Query<const Flag> flags(bay.world);
    flags.each([&](ecs::Entity entity, const Flag&) {
        if (entity == bay.rock) bay.server.act(Kill{entity});
    });
    bay.world.destroy(bay.rock);
    bay.run(20);
    EXPECT_EQ(heard, seen);
    EXPECT_FALSE(bay.first.world.is_alive(seen));
}

#ifdef NDEBUG  // otherwise the program stops
TEST(CalledFromInside, UpdateAndTickHaveNoEffectInsideOfHandlers) {
    Bay bay;
    int calls = 0;
    const auto run_client = [&] {
        calls += 1;
        bay.network.receive_all(bay.first.at, bay.first.client.endpoint(), bay.now);
        bay.first.client.update(bay.now);
    };
    const auto run_server = [&] {
        calls += 1;
        const Tick tick = bay.server.current_tick();
        EXPECT_EQ(bay.server.tick(bay.now), tick);
    };
    bay.first.client.on<Long>([&](const Long&, const Call&) { run_client(); });
    bay.first.client.on<Kill>([&](const Kill&, const Call&) { run_client(); });
    bay.first.client.on_rejected<Kill>([&](const Kill&, std::string_view) { run_client(); });
    bay.first.client.on_refused<Flag>([&](ecs::Entity, std::string_view) { run_client(); });
    const ecs::Hook hook =
        bay.first.world.on_change<Hull>([&](ecs::World&, ecs::Entity, const Hull&) { run_client(); });
    bay.server.check<Flag>([&](PlayerId, ecs::Entity, const Flag&) { return run_server(), "no"; });
    bay.server.on<Kill>([&](const Kill&, const Call&) { run_server(); });
    bay.server.on_action([&](const ActionReport&) { run_server(); });
    Long::inside = [&] { run_client(); };
    for (int i = 0; i < 20; ++i) {
        bay.first.client.act(Kill{bay.replica(bay.first, bay.rock)});
        bay.first.client.act(Long{1, 2, 3});
        bay.first.world.set(bay.me, Flag{std::to_string(i)});
        bay.world.set(bay.rock, Hull{i});
        bay.run(2);
    }
    EXPECT_GE(calls, 100);
    EXPECT_TRUE(bay.first.client.receiver().is_consistent());
    EXPECT_EQ(bay.first.client.phase(), Phase::playing) << bay.first.client.failure();
}
#endif

TEST(CalledFromInside, OnLeaveMayActWhileAMutationDisconnects) {
    Bay bay;
    bay.server.on_leave([&](PlayerId) { bay.server.act(Long{4, 5, 6}); });
    std::vector<std::int32_t> heard;
    bay.second().client.on<Long>([&](const Long& it, const Call&) {
        heard.insert(heard.end(), {it.a, it.c});
    });
    Long::inside = [&] {
        if (bay.server.player(bay.player)) bay.server.disconnect(bay.player, "out", bay.now);
    };
    bay.server.act(Long{1, 2, 3});
    EXPECT_EQ(bay.server.phase(bay.player), Phase::disconnected);
    bay.run(10);
    EXPECT_EQ(heard, (std::vector<std::int32_t>{1, 3, 4, 6}));
}

TEST(CalledFromInside, AnActionOfOnJoinReachesTheJoiner) {
    Bay bay;
    bay.server.on_join([&](PlayerId) {
        bay.server.act(Long{1, 2, 3});
        return bay.world.spawn(Spot{}, Replicated{});
    });
    int heard = 0;
    bay.add().client.on<Long>([&](const Long& it, const Call&) { heard += it.c; });
    bay.run(60);
    EXPECT_EQ(heard, 3);
}

TEST(CalledFromInside, ARemoveHookOfAnOwnedComponentMayDestroyAnotherOwnedEntity) {
    Bay bay;
    const ecs::Entity boat = bay.replica(bay.first, bay.boat), me = bay.me;
    int removed = 0;
    const ecs::Hook hook =
        bay.first.world.on_remove<Flag>([&](ecs::World& world, ecs::Entity entity, const Flag&) {
            removed += 1;
            for (const ecs::Entity other : {boat, me})
                if (other != entity && world.is_alive(other)) world.destroy(other);
        });
    bay.world.remove<Flag>(bay.boat);
    bay.world.remove<Flag>(bay.ship);
    bay.run(20);
    EXPECT_GE(removed, 1);
    EXPECT_TRUE(bay.first.client.receiver().is_consistent());
}

TEST(CalledFromInside, WhatHasNoOwnerHasNoInput) {
    Bay bay;
    for (const char* const how : {"given to nobody", "not replicated"}) {
        SCOPED_TRACE(how);
        bay.server.give(bay.player, bay.boat);
        bay.first.on_frame = [&] { bay.first.client.input(Helm{1, {}}); };
        bay.run(20);
        EXPECT_EQ(bay.world.get<Helm>(bay.boat).turn, 1);
        if (how == std::string_view("not replicated")) {
            bay.world.remove<Replicated>(bay.boat);
        } else {
            bay.server.give({}, bay.boat);
        }
        bay.run(2);
        EXPECT_EQ(bay.world.get<Helm>(bay.boat).turn, 0);
        EXPECT_EQ(bay.world.get<Helm>(bay.ship).turn, 1);
    }
}

TEST(CalledFromInside, WhatWasGivenInTheTickInWhichThePlayerLeavesHasNoInput) {
    for (const bool is_same_tick : {true, false}) {
        Bay bay;
        bay.first.on_frame = [&] { bay.first.client.input(Helm{1, {}}); };
        bay.run(20);
        const ecs::Entity gift = bay.world.spawn(Spot{9}, Helm{}, Replicated{});
        bay.server.give(bay.player, gift);
        if (!is_same_tick) bay.run(1);
        EXPECT_EQ(bay.world.get<Helm>(gift).turn, is_same_tick ? 0 : 1);
        bay.server.disconnect(bay.player, "out", bay.now);
        bay.run(2);
        EXPECT_EQ(bay.world.get<Helm>(gift).turn, 0);
        EXPECT_EQ(bay.world.get<Helm>(bay.boat).turn, 0);
        EXPECT_FALSE(bay.server.owner(gift));
    }
}

TEST(CalledFromInside, PressesBeforeTheClientPlaysAreDropped) {
    Bay bay;
    int shots = 0;
    bay.server.on_step([&](const Step& step) {
        step.each<const Helm>([&](const Helm& helm) { shots += static_cast<int>(helm.fire.count); });
    });
    Play::Guest& late = bay.add();
    Helm helm;
    helm.fire = true;
    while (late.client.phase() != Phase::playing) {
        late.client.input(helm);
        bay.run(1);
    }
    const std::uint64_t dropped = late.client.prediction_stats().dropped_presses;
    EXPECT_GT(dropped, 0u);
    late.client.input(Helm{});
    bay.run(30);
    EXPECT_EQ(shots, 0);
    late.client.input(helm);
    bay.run(1);
    late.client.input(Helm{});
    bay.run(30);
    EXPECT_EQ(shots, 1);
    EXPECT_EQ(late.client.prediction_stats().dropped_presses, dropped);
}

TEST(ClientActions, MayDestroyAndWriteWhatTheClientDoesNotPredict) {
    for (const bool rejects : {true, false})
        for (const bool is_own : {true, false}) {
            SCOPED_TRACE(testing::Message() << "rejects " << rejects << " own " << is_own);
            Bay bay;
            Kill::rejects = rejects;
            const ecs::Entity target = is_own ? bay.boat : bay.rock;
            const ecs::Entity seen = bay.replica(bay.first, target);
            ecs::World& mirror = bay.first.world;
            if (is_own) mirror.set(seen, Flag{"mine"});
            bay.run(20);
            const auto expect_whole = [&](float x, const char* flag) {
                ASSERT_TRUE(mirror.is_alive(seen) && mirror.has<Spot>(seen) && mirror.has<Hull>(seen));
                EXPECT_NEAR(mirror.get<Spot>(seen).x, x, 0.02f);
                EXPECT_EQ(mirror.get<Flag>(seen).text, flag);
                EXPECT_EQ(mirror.has<Helm>(seen), is_own);
                EXPECT_EQ(mirror.has<Mine>(seen), is_own);
            };
            if (!is_own) {  // nobody predicts it: the action decides
                bay.first.client.act(Move{seen});
                EXPECT_EQ(mirror.get<Spot>(seen).x, 50);
                bay.run(20);
                expect_whole(rejects ? 7 : 50, rejects ? "none" : "taken");
            }
            bay.first.client.act(Kill{seen});
            EXPECT_FALSE(mirror.has<Spot>(seen) || mirror.has<Hull>(seen));
            bay.run(1);
            EXPECT_FALSE(mirror.has<Spot>(seen)) << "while it waits for its answer";
            bay.run(20);
            EXPECT_EQ(bay.first.client.action_stats().bad_writes, 0u);
            EXPECT_EQ(mirror.is_alive(seen), rejects);
            if (!rejects) continue;
            expect_whole(is_own ? 5 : 7, is_own ? "mine" : "none");
            bay.first.on_frame = [&] { bay.first.client.input(Helm{1, {}}); };
            bay.run(40);
            EXPECT_EQ(mirror.get<Spot>(seen).x > 5.5f, true) << "it is predicted again";
            EXPECT_TRUE(bay.first.client.receiver().is_consistent());
        }
}

TEST(LocalWrites, AreNotThoseOfPredictionAndActions) {
    ClientOptions options;
    std::vector<std::string> found;
    options.receiver.on_local_write = [&](ecs::Entity, std::string_view name) { found.emplace_back(name); };
    Bay bay(options);
    bay.first.on_frame = [&] { bay.first.client.input(Helm{1, {}}); };
    const ecs::Entity rock = bay.replica(bay.first, bay.rock);
    for (int i = 0; i < 10; ++i) {
        bay.world.patch<Spot>(bay.ship, [](Spot& spot) { spot.x -= 2; });  // mispredicted
        if (i % 3 == 0) bay.first.client.act(i % 2 == 0 ? Move{rock} : Move{rock});
        if (i % 3 == 1) bay.first.client.act(Kill{rock});
        bay.first.world.set(bay.me, Flag{std::string(1, static_cast<char>('a' + i))});  // the player's own
        bay.run(15);
    }
    bay.server.give({}, bay.boat);
    bay.run(20);
    EXPECT_GT(bay.first.client.prediction_stats().mispredictions, 5u);
    EXPECT_EQ(found, std::vector<std::string>{});
    bay.first.world.set(rock, Hull{1});
    bay.first.world.set(rock, Flag{"not mine"});
    bay.first.world.set(bay.me, Spot{1});
    EXPECT_EQ(found, (std::vector<std::string>{"hull", "flag", "spot"}));
}

struct ReturnsBool {
    bool validate(const Act&) const;
};
struct NotConst {
    void mutate(Act&);
};
struct IsPrivate {
private:
    std::string validate(const Act&) const;
};
struct Overloaded {
    void mutate() const;
    void mutate(int) const;
};
struct HasMember {
    int validate = 0;
};
struct TakesValue {
    template <class T>
    void mutate(T*) const;
};
struct Inherits : ReturnsBool {};
static_assert(!ValidatorFits<ReturnsBool> && !MutationFits<NotConst> && !ValidatorFits<IsPrivate>);
static_assert(!MutationFits<Overloaded> && !ValidatorFits<HasMember> && !MutationFits<TakesValue>);
static_assert(!ValidatorFits<Inherits>);
static_assert(ValidatorFits<Kill> && MutationFits<Kill> && ValidatorFits<Flag> && MutationFits<Flag>);

}  // namespace
}  // namespace shoal::replication::impl::called_from_inside_test
