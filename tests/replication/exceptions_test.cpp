// Functions of the game that throw, compiled with exceptions.

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/replication/support/play.h"

namespace shoal::replication::all::exceptions_test {
namespace {

struct Spot {
    std::int32_t x = 0;
};
struct Pace {
    std::int32_t x = 0;
};
struct Flag {
    std::string text = "none";
};
struct Helm {
    std::int8_t turn = 0;
};
struct Say {
    std::int32_t a = 0;
};
struct Wave {
    std::int32_t a = 0;
    std::string validate(const Act& act) const {
        if (act.is_server) call("validator");
        return a == 3 && act.is_server ? "three" : "";
    }
    void mutate(Act& act) const {
        if (act.player) act.world.set(act.player, Spot{a});
        call(act.is_server ? "server's mutation" : "client's mutation");
    }
    static inline std::function<void(std::string_view)> call = [](std::string_view) {};
};

Schema square() {
    Schema out;
    out.component<Spot>("spot");
    out.component<Pace>("pace", predicted());
    out.component<Flag>("flag", from_owner());
    out.input<Helm>("helm");
    out.message<Say>("say");
    out.action<Wave>("wave", at_most(1'000), independent());
    return out;
}

/// A server and two players, of which one acts and speaks in each tick. What runs at `where` throws.
struct Square : Play {
    explicit Square(std::string_view where_it_throws) : Play(square()), where(where_it_throws) {
        Wave::call = [this](std::string_view at) { call(at); };
        server.on_join(
            [this](PlayerId) { return ship = world.spawn(Spot{}, Pace{}, Flag{}, Helm{}, Replicated{}); });
        other = &join();
        guest = &join();
        server.on<Say>([this](PlayerId, const Say&) { call("server's message"); });
        server.on<Wave>([this](const Wave&, const Call&) { call("server's action"); });
        server.on_action([this](const ActionReport&) { call("observer"); });
        server.on_step([this](const Step&) { call("server's step"); });
        server.check<Flag>([this](PlayerId, ecs::Entity, const Flag& flag) {
            call("check");
            return std::string(flag.text.ends_with("3x") ? "three" : "");
        });
        guest->client.on_step([this](const Step&) { call("client's step"); });
        guest->client.on_rejected<Wave>([this](const Wave&, std::string_view) { call("rejection"); });
        guest->client.on_refused<Flag>([this](ecs::Entity, std::string_view) { call("refusal"); });
        other->client.on<Say>([this](const Say&, const MessageInfo&) { call("client's message"); });
        other->client.on<Wave>([this](const Wave&, const Call&) {
            heard += 1;
            call("client's action");
        });
        hooks.push_back(other->world.on_change<Spot>(
            [this](ecs::World&, ecs::Entity, const Spot&) { call("client's hook"); }));
        hooks.push_back(
            world.on_change<Spot>([this](ecs::World&, ecs::Entity, const Spot&) { call("server's hook"); }));
        calls = 0;
    }
    ~Square() {
        Wave::call = [](std::string_view) {};
    }
    void call(std::string_view at) {
        if (at != where) return;
        calls += 1;
        if (throws) throw std::runtime_error("the game's");
    }
    template <class Fn>
    void catching(const Fn& fn) {
        try {
            fn();
        } catch (const std::runtime_error&) {
            thrown += 1;
        }
    }
    void play(int ticks) {
        thrown = calls = heard = 0;
        for (int i = 0; i < ticks; ++i) {
            guest->client.send(Say{});
            server.send_all(Say{});
            guest->client.input(Helm{});
            catching([&] { guest->client.act(Wave{i % 4}); });
            guest->world.set(guest->client.player(), Flag{std::to_string(i) + (throws ? "y3x" : "z3x")});
            catching([&] { run(1); });
        }
    }

    std::string_view where;
    bool throws = true;
    int thrown = 0, calls = 0, heard = 0;
    ecs::Entity ship;  // of the guest
    PlayerId last;
    Guest *guest, *other;
    std::vector<ecs::Hook> hooks;
};

TEST(Exceptions, AFunctionOfTheGameThatThrowsSilencesNobody) {
    for (const std::string_view where :
         {"server's message", "server's action", "observer", "validator", "server's mutation",
          "server's step", "server's hook", "check", "client's message", "client's action",
          "client's mutation", "client's step", "client's hook", "rejection", "refusal"}) {
        SCOPED_TRACE(where);
        Square square(where);
        square.play(20);
        EXPECT_GE(square.thrown, 1);
        if (where == "validator" || where == "server's mutation") {
            EXPECT_LE(square.calls, 20) << "no action runs twice";
        }
        if (where == "observer" || where == "server's action") {
            EXPECT_GE(square.heard, 10) << "others are told";
        }
        square.throws = false;
        square.catching([&] { square.run(20); });
        square.play(40);
        EXPECT_EQ(square.thrown, 0);
        EXPECT_GE(square.calls, 5);
        EXPECT_GE(square.heard, 20);
        square.run(20);
        for (Play::Guest* const one : {square.guest, square.other}) {
            EXPECT_EQ(one->client.phase(), Phase::playing) << one->client.failure();
            EXPECT_TRUE(one->client.receiver().is_consistent());
            const ecs::Entity ship = square.replica(*one, square.ship);
            ASSERT_TRUE(one->world.is_alive(ship));
            EXPECT_EQ(one->world.get<Spot>(ship).x, square.world.get<Spot>(square.ship).x);
        }
    }
}

TEST(Exceptions, AMutationThatThrowsIsUndone) {
    Square square("client's mutation");
    ecs::World& world = square.guest->world;
    const ecs::Entity me = square.guest->client.player();
    square.catching([&] { square.guest->client.act(Wave{1}); });
    EXPECT_EQ(square.thrown, 1);
    EXPECT_EQ(world.get<Spot>(me).x, 0);
    square.throws = false;
    square.guest->client.act(Wave{2});
    EXPECT_EQ(world.get<Spot>(me).x, 2);
    square.where = "server's mutation";
    square.throws = true;
    square.catching([&] { square.server.act(Wave{1}); });
    EXPECT_EQ(square.thrown, 2);
    square.throws = false;
    square.server.act(Wave{2});
    EXPECT_EQ(square.calls, 4) << "it does not wait for the next tick";
}

TEST(Exceptions, PlayersJoinAndLeaveAlthoughTheGameThrows) {
    Square square("nowhere");
    square.server.on_join([&](PlayerId id) -> ecs::Entity {
        square.last = id;
        throw std::runtime_error("join");
    });
    square.server.on_leave([&](PlayerId) { throw std::runtime_error("leave"); });
    Play::Guest& late = square.add();
    for (int i = 0; i < 40; ++i) square.catching([&] { square.run(1); });
    EXPECT_EQ(square.thrown, 1);
    EXPECT_EQ(late.client.phase(), Phase::playing);
    EXPECT_EQ(late.client.player(), ecs::Entity{});
    square.catching([&] { square.server.disconnect(square.last, "out", square.now); });
    EXPECT_EQ(square.thrown, 2);
    EXPECT_EQ(square.server.phase(square.last), Phase::disconnected);
    int players = 0;
    square.server.for_each_peer([&](PlayerId) { players += 1; });
    EXPECT_EQ(players, 2);
}

}  // namespace
}  // namespace shoal::replication::all::exceptions_test
