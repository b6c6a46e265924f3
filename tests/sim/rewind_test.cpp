// What the server says that a player saw, over a bad network.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "replication/action/action.h"
#include "tests/sim/play_session.h"

namespace shoal::sim::rewind_test {
namespace {

/// Looks at an entity, and notes what it sees on both sides.
struct Look {
    ecs::Entity target;
    std::uint32_t number = 0;  // different for each

    using Seen = std::map<std::uint32_t, Spot>;
    static Seen& seen_here(bool is_server) {
        static Seen on_client, on_server;
        return is_server ? on_server : on_client;
    }
    std::string validate(const replication::Act& act) const {
        return act.seen<Spot>(target) ? "" : "there is nothing";
    }
    void mutate(replication::Act& act) const {
        if (act.late_ticks == 0) seen_here(act.is_server).emplace(number, *act.seen<Spot>(target));
    }
};

// Goal: when the server runs the input of a tick, its Past is what the client sampled when it made this
// input. Method: a target moves along a circle and stands still now and then; after each frame the client
// notes its sample for its newest input.
TEST(Rewind, APastIsWhatTheClientShowed) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        net::LinkConfig link;
        link.latency = std::chrono::milliseconds(40);
        link.spread = std::chrono::milliseconds(20);
        link.loss = 0.05;
        PlaySession session(play_schema(), link, 2, seed);
        const ecs::Entity target = session.world.spawn(Spot{}, replication::Replicated{});
        std::vector<std::map<replication::Tick, Spot>> shown(2);
        for (std::size_t i = 0; i < 2; ++i) {
            const auto wander = PlaySession::wander(seed * 10 + i);
            session.players[i]->on_frame = [&, i, wander](PlaySession::Player& player) mutable {
                const ecs::Entity replica =
                    player.client.receiver().entity(session.server.sender().net_id(target));
                const std::optional<Spot> spot = replica ? player.client.sample<Spot>(replica) : std::nullopt;
                const std::optional<replication::Tick> tick = player.client.predicted_tick();
                if (spot && tick) shown[i][*tick + 1] = *spot;  // seen while the next input is made
                wander(player);
            };
        }
        int compared = 0, equal = 0;
        double present_error = 0;
        session.server.on_step([&](const replication::Step& step) {
            sail(step);
            const double seconds = static_cast<double>(step.tick) / 60;
            if (step.tick % 200 < 150)
                session.world.set(target, Spot{static_cast<float>(20 * std::cos(seconds)),
                                               static_cast<float>(20 * std::sin(seconds))});
            session.server.for_each_peer([&](replication::PlayerId id) {
                const auto& address = session.server.host().address(id);
                const std::size_t i = address == session.players[0]->address ? 0 : 1;
                const auto known = shown[i].find(step.tick);
                if (known == shown[i].end() || step.tick < 400) return;
                const std::optional<Spot> past = session.server.seen_by(id).get<Spot>(target);
                ASSERT_TRUE(past);
                const Spot now = session.world.get<Spot>(target);
                const auto error = [&](const Spot& spot) {
                    return std::hypot(static_cast<double>(spot.x - known->second.x),
                                      static_cast<double>(spot.y - known->second.y));
                };
                compared += 1;
                // A sixteenth of a tick at 20 units a second, and a step of the codec.
                equal += error(*past) <= 20.0 / 60 / 16 + 0.011;
                EXPECT_LT(error(*past), 4);
                present_error += error(now);
                const ecs::Entity own = session.ship(*session.players[i]);
                EXPECT_EQ(session.server.seen_by(id).get<Spot>(own)->x, session.world.get<Spot>(own).x);
            });
        });
        session.run(std::chrono::seconds(40));
        EXPECT_GT(compared, 3000);
        EXPECT_GT(equal, compared * 96 / 100);
        EXPECT_GT(present_error / compared, 1.5) << "without lag compensation";
        session.server.for_each_peer([&](replication::PlayerId id) {
            EXPECT_LT(session.server.stats(id).rewind.breaches, 150u)
                << "of 2,400 ticks: while packets are lost";
        });
    }
}

// Goal: an action sees on the server what it saw on the client, and what the client shows.
TEST(Rewind, AnActionSeesTheSameOnBothSides) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        for (const bool is_server : {false, true}) Look::seen_here(is_server).clear();
        net::LinkConfig link;
        link.latency = std::chrono::milliseconds(40);
        link.spread = std::chrono::milliseconds(20);
        link.loss = 0.05;
        replication::Schema schema = play_schema();
        schema.action<Look>("look", replication::at_most(1000));
        PlaySession session(std::move(schema), link, 2, seed);
        const ecs::Entity target = session.world.spawn(Spot{}, replication::Replicated{});
        session.server.on_step([&](const replication::Step& step) {
            sail(step);
            const double angle = static_cast<double>(step.tick) / 60;
            session.world.set(target, Spot{static_cast<float>(20 * std::cos(angle)),
                                           static_cast<float>(20 * std::sin(angle))});
        });
        std::map<std::uint32_t, Spot> present;
        session.server.on_action([&](const replication::ActionReport& report) {
            present.emplace(static_cast<const Look*>(report.action)->number, session.world.get<Spot>(target));
        });
        std::uint32_t number = 0;
        for (std::size_t i = 0; i < 2; ++i)
            session.players[i]->on_frame = [&](PlaySession::Player& player) {
                player.client.input(Helm{});
                const ecs::Entity replica =
                    player.client.receiver().entity(session.server.sender().net_id(target));
                if (!replica || session.now < net::Time(std::chrono::seconds(105)) ||
                    session.random() % 8 != 0)
                    return;
                const Spot sampled = *player.client.sample<Spot>(replica);
                player.client.act(Look{replica, ++number});
                ASSERT_TRUE(Look::seen_here(false).contains(number));
                EXPECT_EQ(Look::seen_here(false).at(number).x, sampled.x);
                EXPECT_EQ(player.client.why_not(Look{replica, 0}), "");
            };
        session.run(std::chrono::seconds(25));
        int compared = 0, equal = 0;
        double present_error = 0;
        for (const auto& [which, there] : Look::seen_here(true)) {
            const Spot& here = Look::seen_here(false).at(which);
            const auto error = [&](const Spot& spot) {
                return std::hypot(static_cast<double>(spot.x - here.x), static_cast<double>(spot.y - here.y));
            };
            compared += 1;
            equal += error(there) <= 20.0 / 60 / 16 + 0.011;
            EXPECT_LT(error(there), 4);
            present_error += error(present.at(which));
        }
        EXPECT_GT(compared, 200);
        EXPECT_GT(equal, compared * 95 / 100);
        EXPECT_GT(present_error / compared, 1.5) << "without lag compensation";
    }
}

// Goal: whatever the rates of frames and ticks, each input and each action is judged by what was drawn when
// it was made. Method: a target moves evenly; nothing is lost, so all times must be equal.
TEST(Rewind, InputsAndActionsSeeWhatWasDrawnAtAllRates) {
    for (const int tick_hz : {10, 20, 30, 60, 128})
        for (const int frame_hz : {15, 20, 30, 60, 75, 144, 240}) {
            SCOPED_TRACE(testing::Message() << tick_hz << " ticks, " << frame_hz << " frames a second");
            for (const bool is_server : {false, true}) Look::seen_here(is_server).clear();
            replication::Schema schema = play_schema();
            schema.action<Look>("look", replication::at_most(1000));
            PlaySession session(std::move(schema), steady(std::chrono::milliseconds(30)), 1, 1, 0, {},
                                net::Duration(1'000'000 / tick_hz));
            PlaySession::Player& player = *session.players[0];
            player.frame = net::Duration(1'000'000 / frame_hz);
            const ecs::Entity target = session.world.spawn(Spot{}, replication::Replicated{});
            std::map<replication::Tick, float> shown;  // by the tick of the input
            std::optional<float> drawn;                // in the last frame
            replication::Tick last = 0;
            std::uint32_t number = 0;
            const double tolerance = 10.0 / tick_hz / 16 + 0.011;
            player.on_frame = [&](PlaySession::Player& self) {
                const auto tick = self.client.predicted_tick();
                for (; drawn && tick && last != *tick; ++last) shown[last + 1] = *drawn;
                if (tick) last = *tick;
                const ecs::Entity replica =
                    self.client.receiver().entity(session.server.sender().net_id(target));
                const auto spot = replica ? self.client.sample<Spot>(replica) : std::nullopt;
                drawn = spot ? std::optional(spot->x) : std::nullopt;
                self.client.input(Helm{});
                if (spot && session.now > net::Time(std::chrono::seconds(104)) && session.random() % 4 == 0)
                    self.client.act(Look{replica, ++number});
            };
            std::map<replication::Tick, float> past;  // that the server computed
            session.server.on_step([&](const replication::Step& step) {
                session.world.set(target, Spot{10 * static_cast<float>(step.tick) * step.dt - 40, 0});
                const net::Time settled(std::chrono::seconds(104));
                session.server.for_each_peer([&](replication::PlayerId id) {
                    const auto spot = session.server.seen_by(id).get<Spot>(target);
                    if (spot && session.now >= settled) past[step.tick] = spot->x;
                });
            });
            session.run(std::chrono::seconds(8));
            int compared = 0;
            for (const auto& [tick, x] : past) {
                const auto known = shown.find(tick);
                if (known == shown.end()) continue;
                compared += 1;
                EXPECT_NEAR(x, known->second, tolerance) << tick;
            }
            EXPECT_GT(compared, 3 * tick_hz);
            int judged = 0;
            for (const auto& [which, there] : Look::seen_here(true)) {
                judged += 1;
                EXPECT_NEAR(there.x, Look::seen_here(false).at(which).x, tolerance) << "shot " << which;
            }
            EXPECT_GT(judged, frame_hz / 2);
            session.server.for_each_peer(
                [&](replication::PlayerId id) { EXPECT_EQ(session.server.stats(id).rewind.breaches, 0u); });
        }
}

}  // namespace
}  // namespace shoal::sim::rewind_test
