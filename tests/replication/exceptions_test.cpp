// Functions of the game that throw, compiled with exceptions.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/replication/support/play.h"

namespace shoal::replication::impl::exceptions_test {
namespace {

struct Spot {
    std::int32_t x = 0;
};
struct Pace {
    std::int32_t x = 0;
};
template <int>
struct Bulk {
    std::vector<std::uint32_t> words;
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
    out.component<Bulk<0>>("bulk", max_length(5'500));
    out.component<Bulk<1>>("more bulk", max_length(5'500));
    out.component<Flag>("flag", from_owner());
    out.input<Helm>("helm");
    out.message<Say>("say");
    out.action<Wave>("wave", at_most(1'000), independent());
    return out;
}

using namespace std::chrono_literals;

/// A server and two players, of which one acts and speaks in each tick. What runs at `where` throws.
struct Square : Play {
    explicit Square(std::string_view where_it_throws, const ServerOptions& options = server_options(),
                    ServerListener* listener = nullptr)
        : Play(square(), {}, 1, options, listener), where(where_it_throws) {
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
        if (throws && !(throws_once && calls > 1)) throw std::runtime_error("the game's");
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
    bool throws = true, throws_once = false;
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

/// Whom a Story is about. The two other players join before the Story is complete.
struct Cast {
    Play::Guest* third = nullptr;
    std::optional<net::Address> deaf;
};
/// A third player plays a story in which each callback is called. The first call of `where` throws.
struct Story : ServerListener, ClientListener, Cast, Square {
    static ServerOptions short_timeouts() {
        ServerOptions options = server_options();
        options.host.connection.timeout = options.host.handshake_timeout = 1s;
        options.host.connection.keep_alive = 500ms;
        return options;
    }
    explicit Story(std::string_view where_it_throws) : Square("nowhere", short_timeouts(), this) {
        server.on_warning([this](PlayerId, Warning) { call("warning"); });
        server.on_away([this](PlayerId) { call("away"); });
        server.on_back([this](PlayerId) { call("back"); });
        server.on_leave([this](PlayerId) { call("leave"); });
        server.on_join([this](PlayerId id) {
            last = id;
            call("join");
            return world.spawn(Spot{}, Pace{}, Helm{}, Replicated{});
        });
        server.on<Say>([this](PlayerId, const Say&) { said += 1; });
        where = where_it_throws;
        throws_once = true;
        ClientOptions options;
        options.net.connection.timeout = 1s;
        options.net.connection.keep_alive = 500ms;
        options.check_every = 1;
        options.on_step_fault = [this](const StepFault&) { call("step fault"); };
        third = &add(options, this);
        third->client.on_step(
            [n = 0](const Step& step) mutable { step.each<Pace>([&](Pace& pace) { pace.x = ++n; }); });
    }
    void step(int ticks) {
        for (int i = 0; i < ticks; ++i) {
            third->client.input(Helm{});
            const Tick before = server.current_tick();
            catching([&] { run(1); });
            EXPECT_EQ(server.current_tick(), before + 1);
        }
    }
    void tell() {
        step(30);
        if (third->client.phase() != Phase::playing) third->client.connect(at_server);  // it was refused
        step(60);
        deaf = add().at;  // it never connects
        step(80);
        const std::byte bytes[] = {std::byte(1)};
        for (int i = 0; i < 3; ++i) {
            EXPECT_TRUE(net::is_queued(server.send_message(last, net::Channel::reliable, bytes)));
            EXPECT_TRUE(net::is_queued(third->client.send_message(net::Channel::reliable, bytes)));
        }
        for (int i = 0; i < 120; ++i) third->client.send(Say{});
        const std::vector<std::uint32_t> words(5'500, 0x8765'4321);
        world.set(ship, Bulk<0>{words}, Bulk<1>{words});
        step(80);
        EXPECT_EQ(said, 120);
        world.set(ship, Bulk<0>{}, Bulk<1>{});
        network.in(third->at).set_config({.loss = 1});
        step(120);
        network.in(third->at).set_config({});
        third->client.connect(at_server, third->client.ticket());
        step(60);
        EXPECT_EQ(third->client.phase(), Phase::playing) << third->client.failure();
        catching([&] { server.disconnect(last, "out", now); });
        world.set(ship, Spot{77});
        step(30);
    }

    bool on_admit(const net::Admission& admission, std::string&) override {
        if (!third) return true;
        if (deaf && admission.address == *deaf) network.in(*deaf).set_config({.loss = 1});
        call("admit");
        return true;
    }
    void on_never_connected(net::PeerId) override { call("never connected"); }
    void on_join(net::PeerId) override { call("server's join"); }
    void on_leave(net::PeerId, net::DisconnectReason, std::string_view) override { call("server's leave"); }
    void on_message(net::PeerId, net::Channel, std::span<const std::byte>) override {
        bytes_up += 1;
        call("server's bytes");
    }
    void on_too_large(ecs::Entity, std::string_view, std::size_t) override { call("too large"); }
    void on_join() override { call("client's join"); }
    void on_leave(net::DisconnectReason, std::string_view) override { call("client's leave"); }
    void on_message(net::Channel, std::span<const std::byte>) override {
        bytes_down += 1;
        call("client's bytes");
    }

    int said = 0, bytes_up = 0, bytes_down = 0;
};

TEST(Exceptions, ACallbackThatThrowsCutsNothingShort) {
    for (const std::string_view where :
         {"admit", "never connected", "server's join", "join", "server's bytes", "warning", "too large",
          "away", "back", "leave", "server's leave", "client's join", "client's bytes", "client's leave",
          "step fault"}) {
        SCOPED_TRACE(where);
        Story story(where);
        story.tell();
        EXPECT_GE(story.calls, 1);
        EXPECT_EQ(story.thrown, 1) << "it comes out once";
        EXPECT_EQ(story.bytes_up, 3);
        EXPECT_EQ(story.bytes_down, 3);
        int players = 0;
        story.server.for_each_peer([&](PlayerId) { players += 1; });
        EXPECT_EQ(players, 2);
        for (Play::Guest* const one : {story.guest, story.other}) {
            const ecs::Entity ship = story.replica(*one, story.ship);
            ASSERT_TRUE(one->world.is_alive(ship));
            EXPECT_EQ(one->world.get<Spot>(ship).x, 77);
        }
    }
}

TEST(Exceptions, AnActionOfTheServerThrowsWhatItsHandlersThrow) {
    Square square("server's action");
    square.catching([&] { square.server.act(Wave{1}); });
    EXPECT_EQ(square.thrown, 1);
    EXPECT_NO_THROW(square.world.set(square.ship, Spot{1}));
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

TEST(Exceptions, AFilterThatThrowsShowsNothing) {
    Square square("nowhere");
    const ecs::Entity ghost = square.world.spawn(Pace{1}, Replicated{});
    bool throws = true;
    square.server.filter<Pace>([&](PlayerId, ecs::Entity, const Pace&) {
        if (throws) throw std::runtime_error("filter");
        return true;
    });
    for (int i = 0; i < 20; ++i) square.catching([&] { square.run(1); });
    EXPECT_GE(square.thrown, 1);
    EXPECT_FALSE(square.replica(*square.guest, ghost));
    throws = false;
    square.server.recheck(ghost);
    square.run(20);
    EXPECT_TRUE(square.replica(*square.guest, ghost));
}

}  // namespace
}  // namespace shoal::replication::impl::exceptions_test
