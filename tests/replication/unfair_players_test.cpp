// What players can do to other players and to the server within their limits.

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/replication/support/play.h"

namespace shoal::replication::impl::unfair_players_test {
namespace {

using namespace std::chrono_literals;

struct Spot {
    std::int32_t x = 0;
};
struct Shout {
    Tick called = 0;
    std::string text;
    ecs::Entity made;
};
/// Makes an entity, names it, and removes it.
struct Flash {
    void mutate(Act& act) const;
};
struct Make {
    ecs::Entity mutate(Act& act) const { return act.spawn(Spot{}); }
};
struct Crush {
    ecs::Entity target;
    void mutate(Act& act) const { act.destroy(target); }
};

Schema square() {
    Schema out;
    out.component<Spot>("spot");
    out.action<Make>("make");
    out.action<Crush>("crush");
    out.action<Shout>("shout", field(&Shout::text, max_length(500)), independent());
    out.action<Flash>("flash");
    return out;
}

Server* server_of_flash = nullptr;
void Flash::mutate(Act& act) const {
    const ecs::Entity made = act.spawn(Spot{});
    if (!act.is_server) return;
    server_of_flash->act(Shout{0, {}, made});  // runs in the next tick
}

net::LinkConfig path(std::uint64_t bytes_per_second, double loss = 0) {
    return {.latency = 30ms, .loss = loss, .bytes_per_second = bytes_per_second, .queue_bytes = 16 * 1024};
}

// Goal: whatever two players do within their limits, a player with a slow path stays, plays, and hears events
// that are not old.
TEST(UnfairPlayers, EventsForASlowPlayerAreDroppedAndNeverItsEnd) {
    for (const std::uint64_t rate : {100'000u, 50'000u, 20'000u, 10'000u})
        for (const double loss : {0.0, 0.05}) {
            SCOPED_TRACE(testing::Message() << rate << " bytes/s, loss " << loss);
            Play play(square());
            const ecs::Entity clock = play.world.spawn(Spot{}, Replicated{});
            for (int i = 0; i < 2; ++i) {
                Play::Guest& loud = play.join();
                loud.on_frame = [&loud, &play] {
                    loud.client.act(Shout{play.server.current_tick(), std::string(490, 'a'), {}});
                };
            }
            Play::Guest& slow = play.join();
            play.network.in(slow.at).set_config(path(rate, loss));
            int heard = 0;
            Tick oldest = 0, newest = 0;
            slow.client.on<Shout>([&](const Shout& shout, const Call&) {
                heard += 1;
                oldest = std::max(oldest, play.server.current_tick() - shout.called);
                EXPECT_GE(shout.called + 10, newest) << "the order of sending";
                newest = std::max(newest, shout.called);
            });
            play.before_tick = [&] {
                play.world.set(clock, Spot{static_cast<std::int32_t>(play.server.current_tick())});
            };
            play.run(1'500);  // 30 seconds
            ASSERT_EQ(slow.client.phase(), Phase::playing) << slow.client.failure();
            EXPECT_GE(heard, static_cast<int>(rate / 500 * 30 / 8));
            EXPECT_LE(oldest, 50u * 9);
            if (rate <= 50'000) {
                PlayerId id;
                play.server.for_each_peer([&](PlayerId player) { id = player; });
                EXPECT_GT(play.server.stats(id).actions.lost_events, 100u);
            }
            const std::int32_t seen = slow.world.get<Spot>(play.replica(slow, clock)).x;
            EXPECT_LE(play.server.current_tick() - static_cast<Tick>(seen), 50u);
        }
}

// Goal: an event that names what was made and removed in one tick holds up nobody's events.
TEST(UnfairPlayers, AnEventAboutWhatWasMadeAndRemovedInOneTickHoldsUpNoOther) {
    Play play(square());
    server_of_flash = &play.server;
    Play::Guest& flasher = play.join();
    Play::Guest& other = play.join();
    Play::Guest& third = play.join();
    int heard = 0;
    Tick oldest = 0;
    other.client.on<Shout>([&](const Shout& shout, const Call&) {
        heard += shout.called != 0;
        if (shout.called != 0) oldest = std::max(oldest, play.server.current_tick() - shout.called);
    });
    play.server.on<Shout>([&](const Shout& shout, const Call&) {
        if (play.world.is_alive(shout.made)) play.world.destroy(shout.made);
    });
    flasher.on_frame = [&, frame = 0]() mutable {
        if (frame++ % 2 == 0) {
            flasher.client.act(Flash{});
        } else {
            flasher.client.act(Crush{flasher.client.act(Make{})});
        }
    };
    third.on_frame = [&] { third.client.act(Shout{play.server.current_tick(), {}, {}}); };
    play.run(200);
    EXPECT_GT(heard, 150);
    EXPECT_LE(oldest, 10u);
}

// Goal: the players of one address, who come and go as fast as they can, take the place of no player that is
// away.
TEST(UnfairPlayers, OneAddressDoesNotTakeThePlacesOfThoseAway) {
    ServerOptions options = Play::server_options();
    options.host.max_peers = 16;
    options.host.connection.timeout = 2s;
    Play play(square(), {}, 1, options);
    Play::Guest& honest = play.join();
    const auto vanish = [&](Play::Guest& guest) {
        play.network.in(guest.at).set_config({.loss = 1});
        guest.client.endpoint().disconnect(guest.client.endpoint().server(), net::DisconnectReason::replaced,
                                           "", play.now);
    };
    PlayerId id;
    play.server.for_each_peer([&](PlayerId player) { id = player; });
    vanish(honest);
    play.run(150);
    ASSERT_EQ(play.server.phase(id), Phase::away);
    std::uint16_t port = 6000;
    for (int round = 0; round < 8; ++round) {
        for (int i = 0; i < 8; ++i) play.add(net::Address::ipv4(66, 0, 0, 1, port++));
        play.run(30);
        for (int i = 0; i < 8; ++i)
            vanish(*play.guests[play.guests.size() - 1 - static_cast<std::size_t>(i)]);
        play.run(110);
        if (play.now > net::Time(34s)) break;
        EXPECT_EQ(play.server.phase(id), Phase::away) << round;
    }
}

TEST(UnfairPlayers, ThatAPlayerWasReplacedIsTheServersOwnFinding) {
    Play play(square());
    Play::Guest& guest = play.join();
    PlayerId id;
    play.server.for_each_peer([&](PlayerId player) { id = player; });
    guest.client.endpoint().disconnect(guest.client.endpoint().server(), net::DisconnectReason::replaced, "",
                                       play.now);
    play.run(10);
    EXPECT_EQ(play.server.phase(id), Phase::playing) << "the server hears nothing";
    play.run(550);
    EXPECT_EQ(play.server.phase(id), Phase::away) << "its own timeout";
}

TEST(UnfairPlayers, AClientThatIsNeverReadyLosesItsPlace) {
    for (const net::Duration limit : {net::Duration(3s), net::Duration(0)}) {
        ServerOptions options = Play::server_options();
        options.join.ready_timeout = limit;
        options.join.waits_for_admit = true;
        Play play(square(), {}, 1, options);
        ClientOptions lazy;
        lazy.is_ready_at_once = false;
        Play::Guest& never = play.add(lazy);
        Play::Guest& late = play.add(lazy);
        Play::Guest& ready = play.add();
        play.run(100);
        late.client.ready();
        play.run(200);
        EXPECT_EQ(never.client.is_connected(), limit == 0s);
        if (limit != 0s) {
            EXPECT_NE(never.client.failure().find("not ready"), std::string::npos);
        }
        EXPECT_TRUE(late.client.is_connected());
        EXPECT_TRUE(ready.client.is_connected()) << "the game lets it wait";
    }
}

}  // namespace
}  // namespace shoal::replication::impl::unfair_players_test
