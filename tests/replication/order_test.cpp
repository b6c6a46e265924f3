// Rule 38: the server handles a client's messages and actions in the order in which the game made them.

#include <gtest/gtest.h>

#include <array>

#include "tests/replication/support/play.h"

namespace shoal::replication::impl::order_test {
namespace {

using namespace std::chrono_literals;

struct Say {
    std::int32_t number = 0;
};
struct Do {
    std::int32_t number = 0;
    std::string validate(const Act&) const { return number % 7 == 3 ? "no" : ""; }
};
struct Wave {
    std::int32_t number = 0;
};
struct Spot {
    float x = 0;
};
struct Helm {
    std::int8_t turn = 0;
};

Schema square(bool has_input) {
    Schema out;
    out.component<Spot>("spot");
    out.message<Say>("say");
    out.action<Do>("do", at_most(1000));
    out.action<Wave>("wave", independent(), at_most(1000));
    if (has_input) out.input<Helm>("helm");
    return out;
}

TEST(Order, MessagesAndActionsOfAFrameAreHandledAsTheyWereMade) {
    for (const double loss : {0.0, 0.1})
        for (const bool has_input : {false, true})
            for (const bool rejects : {false, true}) {
                SCOPED_TRACE(testing::Message()
                             << "loss " << loss << ", input " << has_input << ", rejects " << rejects);
                ServerOptions options = Play::server_options();
                options.messages.messages_per_s = options.actions.per_second = options.actions.burst = 1'000;
                options.actions.rejections_per_second = 1'000;
                Play play(square(has_input), {.latency = 40ms, .loss = loss}, 3, options);
                // By kind: the newest number. Actions of the two streams have no order among each other.
                std::array<std::int32_t, 3> newest{-1, -1, -1};
                std::size_t heard = 0, unordered = 0;
                const auto hear = [&](std::size_t kind, std::int32_t number) {
                    heard += 1;
                    for (std::size_t other = 0; other < 3; ++other)
                        unordered += (kind == 0 || other == 0 || other == kind) && newest[other] > number;
                    newest[kind] = number;
                };
                play.server.on<Say>([&](PlayerId, const Say& say) { hear(0, say.number); });
                play.server.on<Do>([&](const Do& it, const Call&) { hear(1, it.number); });
                play.server.on<Wave>([&](const Wave& it, const Call&) { hear(2, it.number); });
                Play::Guest& guest = play.join();
                std::int32_t next = 0;
                const auto say = [&] { guest.client.send(Say{next++}); };
                const auto act = [&](bool is_wave) {
                    while (!rejects && !is_wave && next % 7 == 3) next += 1;
                    is_wave ? static_cast<void>(guest.client.act(Wave{next++}))
                            : static_cast<void>(guest.client.act(Do{next++}));
                };
                int frame = 0;
                guest.on_frame = [&] {
                    if (has_input) guest.client.input(Helm{});
                    if (++frame > 200) return;
                    act(frame % 2 != 0);
                    if (frame % 3 != 0) say();
                    if (frame % 3 == 1) act(frame % 2 == 0);
                    if (frame % 5 == 0) say();
                };
                play.run(400);
                EXPECT_GE(heard, rejects ? 200u : static_cast<std::size_t>(next) * 8 / 10);
                EXPECT_EQ(unordered, 0u);
                EXPECT_EQ(guest.client.phase(), Phase::playing) << guest.client.failure();
            }
}

}  // namespace
}  // namespace shoal::replication::impl::order_test
