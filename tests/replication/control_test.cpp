// When a player has control: the server has the inputs of all ticks, and what the player does has an effect
// soon.

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "tests/sim/play_session.h"

namespace shoal::replication::impl::control_test {
namespace {

using namespace std::chrono_literals;

struct Control {
    static constexpr net::Duration kStep = 10ms;
    static ClientOptions patient() {
        ClientOptions options;
        options.net.connection.timeout = 100s;
        return options;
    }
    explicit Control(double hz, const net::LinkConfig& link, std::uint64_t seed = 1)
        : tick(std::chrono::microseconds(std::lround(1e6 / hz))),
          session(sim::play_schema(), link, 1, seed, 0, patient(), tick) {
        session.players[0]->on_frame = [this](sim::PlaySession::Player& self) {
            sim::Helm helm{direction, 0, {}};
            helm.dash = ++frames % 8 == 0;
            presses += helm.dash.count;
            self.client.input(helm);
        };
        session.run(5s);
    }
    sim::PlaySession::Player& player() { return *session.players[0]; }
    std::uint64_t missed() { return sim::missed(session.input_stats(player())); }
    /// Runs for some time. Returns after which time the last tick was without its input; 0: none was.
    net::Duration run(net::Duration time) {
        net::Duration last{0};
        for (net::Duration passed{0}; passed < time;) {
            const std::uint64_t before = missed();
            session.run(kStep);
            passed += kStep;
            if (missed() != before) last = passed;
            const bool turned = session.world.get<sim::Helm>(session.ship(player())).x == direction;
            if (turned && !response) response = session.now - turned_at;
        }
        return last;
    }
    void turn() {
        direction = static_cast<std::int8_t>(-direction);
        response.reset();
        turned_at = session.now;
    }
    double lead_ms() {
        const auto ticks =
            static_cast<std::int32_t>(*player().client.predicted_tick() - session.server.current_tick());
        return ticks * static_cast<double>(session.tick_every.count()) / 1000;
    }
    /// The presses that the server used, and those that were counted as dropped.
    std::uint64_t known_presses() {
        return session.world.get<sim::Dashes>(session.ship(player())).count +
               session.input_stats(player()).dropped_presses +
               player().client.prediction_stats().dropped_presses;
    }

    net::Duration tick;
    std::int8_t direction = 1;
    std::uint32_t frames = 0;
    std::uint64_t presses = 0;
    std::optional<net::Duration> response{0};
    net::Time turned_at{0};
    sim::PlaySession session;
};

constexpr double kRates[] = {10, 60, 128};

TEST(Control, AServerThatStoppedGivesItBackWithinHalfASecond) {
    for (const double hz : kRates)
        for (const double makes_up : {0.0, 0.5, 1.0})  // for this part of the ticks
            for (const net::Duration stop : {200ms, 300ms, 500ms, 2'000ms, 60'000ms}) {
                SCOPED_TRACE(testing::Message()
                             << hz << " Hz, " << stop / 1ms << " ms, makes up " << makes_up);
                Control control(hz, sim::steady(40ms));
                control.session.next_tick += std::chrono::round<net::Duration>(stop * (1 - makes_up));
                control.session.hang(stop);
                control.session.run(stop);
                control.turn();
                EXPECT_LE(control.run(3s), 500ms);
                ASSERT_TRUE(control.response);
                EXPECT_LE(*control.response, 500ms + (hz < 20 ? control.tick : net::Duration(0)));
                EXPECT_LT(control.lead_ms(), hz < 20 ? 500 : 150);
                control.player().on_frame = [](sim::PlaySession::Player& self) {
                    self.client.input(sim::Helm{});
                };
                control.session.run(1s);
                EXPECT_EQ(control.known_presses(), control.presses) << "no press is lost";
            }
}

TEST(Control, AServerWhoseTicksAreTooSlowHasAllInputs) {
    for (const double hz : kRates)
        for (const double rate : {0.95, 0.9}) {
            SCOPED_TRACE(testing::Message() << hz << " Hz, " << rate);
            Control control(hz, sim::steady(40ms));
            control.session.tick_every =
                net::Duration(std::llround(static_cast<double>(control.tick.count()) / rate));
            EXPECT_EQ(control.run(60s), 0ms);
            control.turn();
            EXPECT_EQ(control.run(1s), 0ms);
            EXPECT_LE(control.response.value_or(1s), 500ms);
        }
}

TEST(Control, AClientThatPausedHasItAtOnce) {
    for (const double hz : kRates)
        for (const net::Duration pause : {100ms, 300ms, 1'000ms, 5'000ms}) {
            SCOPED_TRACE(testing::Message() << hz << " Hz, " << pause / 1ms << " ms");
            Control control(hz, sim::steady(40ms));
            control.player().next_frame += pause;
            control.session.run(pause);
            EXPECT_LE(control.run(3s), hz < 20 ? 200ms : 100ms);
        }
}

TEST(Control, APathThatBecomesMuchLongerAndShorterIsFollowed) {
    for (const double hz : kRates) {
        SCOPED_TRACE(hz);
        Control control(hz, sim::steady(1ms));
        control.session.set_link(sim::steady(250ms));
        EXPECT_LE(control.run(5s), 1'200ms) << "two round trips and some packets";
        control.session.set_link(sim::steady(1ms));
        EXPECT_EQ(control.run(15s), 0ms);
        EXPECT_LT(control.lead_ms(), hz < 20 ? 300 : 60);
    }
}

TEST(Control, ClocksMayDrift) {
    for (const double hz : kRates)
        for (const double drift : {-500e-6, 500e-6}) {
            Control control(hz, sim::steady(40ms));
            const double before = control.lead_ms();
            control.session.tick_every +=
                net::Duration(std::llround(static_cast<double>(control.tick.count()) * drift));
            EXPECT_EQ(control.run(60s), 0ms);
            EXPECT_NEAR(control.lead_ms(), before, 1.5 * static_cast<double>(control.tick.count()) / 1000);
        }
}

TEST(Control, AtMostOneInputOf10000IsLateAtRandomLoss) {
    double missed = 0, ticks = 0;
    for (const double hz : kRates)
        for (const double loss : {0.05, 0.2}) {
            net::LinkConfig link = sim::steady(40ms);
            link.loss = loss;
            link.jitter = 15ms;
            Control control(hz, link);
            control.session.run(10s);
            const std::uint64_t before = control.missed();
            control.session.run(200s);
            missed += static_cast<double>(control.missed() - before);
            ticks += 200 * hz;
        }
    EXPECT_LE(missed, ticks * 1e-4);
}

}  // namespace
}  // namespace shoal::replication::impl::control_test
