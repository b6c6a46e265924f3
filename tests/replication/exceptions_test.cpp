// Functions of the game that throw, compiled with exceptions.

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/replication/support/play.h"

namespace shoal::replication::exceptions_test {
namespace {

struct Spot {
    std::int32_t x = 0;
};
struct Flag {
    std::string text = "none";
};
struct Say {
    std::int32_t a = 0;
};
struct Wave {
    std::int32_t a = 0;
};

Schema square() {
    Schema out;
    out.component<Spot>("spot");
    out.component<Flag>("flag", from_owner());
    out.tag<Mine>("mine", to_owner());
    out.message<Say>("say");
    out.action<Wave>("wave");
    return out;
}

TEST(Exceptions, AFunctionOfTheGameThatThrowsSilencesNobody) {
    for (const std::string_view where :
         {"server's message", "server's action", "check", "client's message", "client's action"}) {
        SCOPED_TRACE(where);
        Play play(square());
        play.server.on_join([&](PlayerId) { return play.world.spawn(Spot{}, Flag{}, Replicated{}); });
        Play::Guest& guest = play.join();
        Play::Guest& other = play.join();
        bool throws = true;
        int calls = 0;
        const auto call = [&] {
            calls += 1;
            if (throws) throw std::runtime_error("the game's");
        };
        if (where == "server's message") play.server.on<Say>([&](PlayerId, const Say&) { call(); });
        if (where == "server's action") play.server.on<Wave>([&](const Wave&, const Call&) { call(); });
        if (where == "check")
            play.server.check<Flag>(
                [&](PlayerId, ecs::Entity, const Flag&) { return call(), std::string(); });
        if (where == "client's message")
            other.client.on<Say>([&](const Say&, const MessageInfo&) { call(); });
        if (where == "client's action") other.client.on<Wave>([&](const Wave&, const Call&) { call(); });
        const auto run = [&](int ticks) {
            int thrown = 0;
            for (int i = 0; i < ticks; ++i) {
                guest.client.send(Say{});
                play.server.send_all(Say{});
                if (i % 4 == 0) guest.client.act(Wave{1});
                guest.world.set(guest.client.player(), Flag{std::to_string(i) + (throws ? "a" : "b")});
                try {
                    play.run(1);
                } catch (const std::runtime_error&) {
                    thrown += 1;
                }
            }
            return thrown;
        };
        EXPECT_GE(run(20), 1);
        throws = false;
        calls = 0;
        EXPECT_EQ(run(40), 0);
        EXPECT_GE(calls, 5);
        EXPECT_EQ(guest.client.phase(), Phase::playing) << guest.client.failure();
        EXPECT_EQ(other.client.phase(), Phase::playing) << other.client.failure();
    }
}

}  // namespace
}  // namespace shoal::replication::exceptions_test
