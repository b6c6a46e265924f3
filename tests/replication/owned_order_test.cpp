// Rule 38 for what clients decide: owned values, messages, actions and inputs are handled in the order in
// which the game made them, also when ownership ends, returns, or changes hands, and when a value is refused.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/replication/support/play.h"

namespace shoal::replication::all::owned_order_test {
namespace {

using namespace std::chrono_literals;

struct Gauge {
    std::int32_t number = 0;
};
struct Paint {
    std::int32_t colour = 0;
};
struct Report {
    std::int32_t number = 0;
};
struct Pull {
    std::int32_t number = 0;
};
struct Rudder {
    std::int32_t frame = 0;
};
struct HandBack {};
struct HandBackAction {
    void mutate(Act&) const {}
};

Schema bridge(bool has_input) {
    Schema out;
    out.component<Gauge>("gauge", from_owner());
    out.component<Paint>("paint", from_owner());
    out.tag<Mine>("mine", to_owner());
    out.message<Report>("report");
    out.message<HandBack>("hand_back");
    out.action<Pull>("pull", at_most(1000));
    out.action<HandBackAction>("hand_back_action", at_most(1000));
    if (has_input) out.input<Rudder>("rudder");
    return out;
}

ServerOptions generous() {
    ServerOptions options = Play::server_options();
    options.messages.messages_per_s = options.actions.per_second = options.actions.burst = 1'000;
    return options;
}

TEST(OwnedOrder, ValuesMessagesActionsAndInputsOfAFrameAreHandledAsTheyWereMade) {
    for (const double loss : {0.0, 0.05, 0.2})
        for (const bool has_input : {false, true}) {
            SCOPED_TRACE(testing::Message() << "loss " << loss << ", input " << has_input);
            Play play(bridge(has_input), {.latency = 40ms, .loss = loss}, 3, generous());
            PlayerId id;
            ecs::Entity ship;
            play.server.on_join([&](PlayerId player) {
                id = player;
                ship = play.world.spawn(Gauge{}, Paint{}, Replicated{});
                if (has_input) play.world.set(ship, Rudder{});
                return ship;
            });
            const auto gauge = [&] { return play.world.get<Gauge>(ship).number; };
            int heard = 0, wrong_messages = 0, wrong_actions = 0, inputs = 0, wrong_inputs = 0;
            play.server.on<Report>([&](PlayerId, const Report& it) {
                heard += 1;
                wrong_messages += gauge() != it.number;
            });
            play.server.on<Pull>([&](const Pull& it, const Call&) {
                heard += 1;
                wrong_actions += gauge() != it.number;
            });
            std::uint64_t in_time = 0;
            play.server.on_step([&](const Step&) {
                if (!has_input || !ship) return;
                const std::uint64_t before = std::exchange(in_time, play.server.input_stats(id).in_time);
                if (in_time == before) return;
                const std::int32_t frame = play.world.get<Rudder>(ship).frame;
                if (frame == 0 || frame >= 200) return;
                inputs += 1;
                wrong_inputs += gauge() / 10 != frame;
            });
            Play::Guest& guest = play.join();
            int frame = 0;
            guest.on_frame = [&] {
                const ecs::Entity mine = guest.client.player();
                if (!guest.world.has<Mine>(mine) || ++frame > 200) return;
                const auto write = [&](int number) { guest.world.set(mine, Gauge{frame * 10 + number}); };
                if (frame % 3 == 0) {
                    write(1);
                    guest.client.act(Pull{frame * 10 + 1});
                }
                if (frame % 5 == 0) {
                    write(2);
                    guest.client.send(Report{frame * 10 + 2});
                    guest.client.act(Pull{frame * 10 + 2});
                    write(3);
                    guest.client.send(Report{frame * 10 + 3});
                }
                write(4);
                if (has_input) guest.client.input(Rudder{frame});
            };
            play.run(400);
            EXPECT_EQ(heard, 66 + 3 * 40);
            EXPECT_EQ(wrong_messages, 0);
            EXPECT_EQ(wrong_actions, 0);
            EXPECT_EQ(gauge(), 2004);
            if (has_input) {
                EXPECT_GE(inputs, 150);
                // An input does not wait for a value that follows a lost message.
                EXPECT_LE(wrong_inputs, loss == 0 ? 0 : 10);
            }
            EXPECT_EQ(guest.client.phase(), Phase::playing) << guest.client.failure();
        }
}

// Goal: a tick that has its input has the values of the same frame, neither older nor newer ones.
TEST(OwnedOrder, AnInputFindsTheValuesOfItsFrame) {
    for (const double loss : {0.0, 0.05, 0.2}) {
        SCOPED_TRACE(testing::Message() << "loss " << loss);
        Play play(bridge(true), {.latency = 40ms, .loss = loss}, 3, generous());
        PlayerId id;
        ecs::Entity ship;
        play.server.on_join([&](PlayerId player) {
            id = player;
            return ship = play.world.spawn(Gauge{}, Paint{}, Rudder{}, Replicated{});
        });
        int inputs = 0, wrong = 0;
        play.server.on_step([&](const Step&) {
            const std::int32_t frame = ship ? play.world.get<Rudder>(ship).frame : 0;
            if (frame == 0 || play.server.input_stats(id).in_time == 0) return;
            inputs += 1;
            wrong += play.world.get<Gauge>(ship).number != frame;
        });
        Play::Guest& guest = play.join();
        int frame = 0;
        guest.on_frame = [&] {
            if (!guest.world.has<Mine>(guest.client.player())) return;
            guest.world.set(guest.client.player(), Gauge{++frame});
            guest.client.input(Rudder{frame});
        };
        play.run(500);
        EXPECT_GE(inputs, 450);
        EXPECT_EQ(wrong, 0);
    }
}

// Goal: the last value of an owner that gives the entity back in the same frame is kept.
TEST(OwnedOrder, AValueOfTheFrameInWhichOwnershipEndsIsKept) {
    for (const double loss : {0.0, 0.05, 0.2})
        for (const bool by_action : {false, true}) {
            SCOPED_TRACE(testing::Message() << "loss " << loss << ", by an action " << by_action);
            Play play(bridge(false), {.latency = 40ms, .loss = loss}, 3, generous());
            PlayerId id;
            ecs::Entity ship;
            play.server.on_join([&](PlayerId player) {
                id = player;
                return ship = play.world.spawn(Gauge{}, Paint{}, Replicated{});
            });
            play.server.on<HandBack>([&](PlayerId, const HandBack&) { play.server.give({}, ship); });
            play.server.on<HandBackAction>(
                [&](const HandBackAction&, const Call&) { play.server.give({}, ship); });
            Play::Guest& guest = play.join();
            for (int i = 1; i <= 30; ++i) {
                const ecs::Entity mine = play.replica(guest, ship);
                play.server.give(id, ship);
                for (int wait = 0; wait < 200 && !guest.world.has<Mine>(mine); ++wait) play.run(1);
                guest.world.set(mine, Gauge{i});
                by_action ? static_cast<void>(guest.client.act(HandBackAction{}))
                          : static_cast<void>(guest.client.send(HandBack{}));
                guest.world.set(mine, Gauge{-i});  // after the order to give it back
                for (int wait = 0; wait < 200 && play.server.owner(ship); ++wait) play.run(1);
                play.run(20);
                EXPECT_EQ(play.world.get<Gauge>(ship).number, i);
                for (int wait = 0; wait < 200 && guest.world.has<Mine>(mine); ++wait) play.run(1);
                EXPECT_EQ(guest.world.get<Gauge>(mine).number, i);
            }
        }
}

// Goal: values that were under way when the ownership ended are ignored, although it returned in the same
// tick, and the owner gets the server's value. What it writes afterwards counts.
TEST(OwnedOrder, OwnershipThatReturnsInTheSameTickBeginsWithTheServersValue) {
    for (const double loss : {0.0, 0.05, 0.2})
        for (const int way : {0, 1, 2}) {
            SCOPED_TRACE(testing::Message() << "loss " << loss << ", way " << way);
            Play play(bridge(false), {.latency = 40ms, .loss = loss}, 5, generous());
            std::vector<PlayerId> ids;
            play.server.on_join([&](PlayerId player) {
                ids.push_back(player);
                return ecs::Entity{};
            });
            Play::Guest& first = play.join();
            Play::Guest& second = play.join();
            const ecs::Entity ship = play.world.spawn(Gauge{}, Paint{}, Replicated{});
            play.server.give(ids[0], ship);
            play.run(60);
            for (int i = 1; i <= 10; ++i) {
                const ecs::Entity mine = play.replica(first, ship);
                ASSERT_TRUE(first.world.has<Mine>(mine));
                first.world.set(mine, Gauge{i});
                play.run(1);
                if (way == 0) play.server.give({}, ship);
                if (way == 1) play.server.give(ids[1], ship);
                play.world.set(ship, Gauge{100 + i});
                if (way == 2) play.server.give(ids[1], ship), play.server.give({}, ship);
                play.server.give(ids[0], ship);
                play.run(60);
                EXPECT_EQ(play.world.get<Gauge>(ship).number, 100 + i);
                EXPECT_EQ(first.world.get<Gauge>(mine).number, 100 + i);
                EXPECT_EQ(second.world.get<Gauge>(play.replica(second, ship)).number, 100 + i);
                first.world.set(mine, Gauge{200 + i});
                play.run(60);
                EXPECT_EQ(play.world.get<Gauge>(ship).number, 200 + i);
                EXPECT_EQ(second.world.get<Gauge>(play.replica(second, ship)).number, 200 + i);
            }
        }
}

TEST(OwnedOrder, ANewOwnerBeginsWithTheValueOfTheFormerOne) {
    for (const double loss : {0.0, 0.05, 0.2}) {
        SCOPED_TRACE(testing::Message() << "loss " << loss);
        Play play(bridge(false), {.latency = 40ms, .loss = loss}, 5, generous());
        std::vector<PlayerId> ids;
        play.server.on_join([&](PlayerId player) {
            ids.push_back(player);
            return ecs::Entity{};
        });
        const std::vector<Play::Guest*> guests{&play.join(), &play.join()};
        const ecs::Entity ship = play.world.spawn(Gauge{}, Paint{}, Replicated{});
        for (std::size_t turn = 0; turn < 20; ++turn) {
            Play::Guest &owner = *guests[turn % 2], &other = *guests[(turn + 1) % 2];
            play.server.give(ids[turn % 2], ship);
            play.run(60);
            const ecs::Entity mine = play.replica(owner, ship);
            ASSERT_TRUE(owner.world.has<Mine>(mine));
            EXPECT_FALSE(other.world.has<Mine>(play.replica(other, ship)));
            const std::int32_t before = owner.world.get<Gauge>(mine).number;
            EXPECT_EQ(before, play.world.get<Gauge>(ship).number);
            owner.world.set(mine, Gauge{before + 1});
            play.run(60);
            EXPECT_EQ(play.world.get<Gauge>(ship).number, before + 1);
            EXPECT_EQ(other.world.get<Gauge>(play.replica(other, ship)).number, before + 1);
        }
    }
}

// Goal: a refusal takes back one value: not those of other components, and not a newer one.
TEST(OwnedOrder, ARefusalTakesBackTheValueAndNothingElse) {
    for (const double loss : {0.0, 0.05, 0.2}) {
        SCOPED_TRACE(testing::Message() << "loss " << loss);
        Play play(bridge(false), {.latency = 40ms, .loss = loss}, 7, generous());
        ecs::Entity ship;
        play.server.on_join(
            [&](PlayerId) { return ship = play.world.spawn(Gauge{}, Paint{}, Replicated{}); });
        play.server.check<Gauge>([](PlayerId, ecs::Entity, const Gauge& gauge) {
            return std::string(gauge.number < 0 ? "below zero" : "");
        });
        int seen = 0, told = 0;
        play.server.on<Report>(
            [&](PlayerId, const Report& it) { seen += play.world.get<Gauge>(ship).number == it.number; });
        Play::Guest& guest = play.join();
        play.run(30);
        const ecs::Entity mine = guest.client.player();
        guest.client.on_refused<Gauge>(
            [&](ecs::Entity entity, std::string_view why) { told += entity == mine && why == "below zero"; });
        for (int i = 1; i <= 20; ++i) {
            guest.world.set(mine, Paint{i});
            guest.world.set(mine, Gauge{-i});
            if (i % 2 == 0) guest.client.send(Report{i - 1});  // the server still has the value before
            if (i % 2 == 0) guest.world.set(mine, Gauge{i});
            guest.world.set(mine, Paint{100 + i});
            play.run(60);
            const std::int32_t expected = i % 2 == 0 ? i : i - 1;
            EXPECT_EQ(play.world.get<Gauge>(ship).number, expected);
            EXPECT_EQ(guest.world.get<Gauge>(mine).number, expected);
            EXPECT_EQ(play.world.get<Paint>(ship).colour, 100 + i);
            EXPECT_EQ(guest.world.get<Paint>(mine).colour, 100 + i);
            if (i % 2 != 0) guest.world.set(mine, Gauge{i});
            play.run(60);
            EXPECT_EQ(told, i);
        }
        EXPECT_EQ(seen, 10);
    }
}

/// One message per second is handled; those after it wait, and so do the values after them.
ServerOptions slow_messages() {
    ServerOptions options = generous();
    options.messages.messages_per_s = options.messages.burst_s = 1;
    options.messages.max_wait = 60s;
    return options;
}

// Goal: refused values that waited end the player, too. Method: 70 values wait for messages, and are handled
// while the server gets no packets.
TEST(OwnedOrder, RefusedValuesThatWaitedEndThePlayer) {
    Play play(bridge(false), {}, 7, slow_messages());
    PlayerId id;
    play.server.on_join([&](PlayerId player) { return id = player, ecs::Entity{}; });
    play.server.check<Gauge>([](PlayerId, ecs::Entity, const Gauge&) { return std::string("no"); });
    Play::Guest& guest = play.join();
    for (int i = 0; i < 70; ++i) ASSERT_TRUE(play.server.give(id, play.world.spawn(Gauge{}, Replicated{})));
    play.run(20);
    for (int i = 0; i < 3; ++i) guest.client.send(Report{i});
    for (const ecs::Entity mine : guest.client.mine()) guest.world.set(mine, Gauge{1});
    play.run(10);
    EXPECT_EQ(play.server.owned_stats(id).refused, 0u);
    play.network.in(play.at_server).set_config({.loss = 1});
    play.run(40);
    EXPECT_EQ(play.server.phase(id), Phase::disconnected);
    EXPECT_NE(guest.client.failure().find("too many values were refused"), std::string::npos)
        << guest.client.failure();
}

TEST(OwnedOrder, MessagesThatWaitWhenTheConnectionEndsAreCounted) {
    for (const bool is_cut : {false, true}) {
        Play play(bridge(false), {}, 7, slow_messages());
        PlayerId id;
        play.server.on_join([&](PlayerId player) { return id = player, ecs::Entity{}; });
        Play::Guest& guest = play.join();
        for (int i = 0; i < 40; ++i) guest.client.send(Report{i});
        play.run(5);
        if (is_cut) {
            play.set_link({.loss = 1});
            for (int i = 0; i < 1'000 && play.server.phase(id) == Phase::playing; ++i) play.run(1);
        } else {
            guest.client.disconnect(play.now);
            play.run(5);
        }
        EXPECT_EQ(play.server.phase(id), is_cut ? Phase::away : Phase::disconnected);
        const MessageStats& stats = play.server.message_stats();
        EXPECT_EQ(stats.delivered + stats.unhandled + stats.lost, 40u);
        EXPECT_GT(stats.lost, 20u);
    }
}

}  // namespace
}  // namespace shoal::replication::all::owned_order_test
