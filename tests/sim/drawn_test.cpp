// What a client draws never jumps: when prediction begins and ends, when state is late, when an entity stops.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <optional>

#include "net/socket/bad_network.h"
#include "replication/client.h"
#include "replication/server.h"
#include "tests/net/support/server_key.h"

namespace shoal::sim::drawn_test {
namespace {

using namespace std::chrono_literals;
using namespace replication;

struct Quantised {
    float x = 0;
};
struct Plain {
    float x = 0;
};
struct Cut {
    double x = 0;
};
struct Heading {
    float radians = 0;
};
struct Helm {
    std::int8_t x = 0;
};

Schema drawn_schema() {
    Schema schema;
    schema.component<Quantised>("quantised", quantised(-2000, 2000, 0.01), predicted(), linear());
    schema.component<Plain>("plain", predicted(), linear());
    schema.component<Cut>("cut", predicted(), linear(500));
    schema.component<Heading>("heading", angle(16), predicted(), angular());
    schema.input<Helm>("helm", bounded(-1, 1));
    schema.quantise_authority();
    return schema;
}

constexpr float kSpeed = 10;  // units a second; radians for a heading are a tenth
constexpr double kTurn = 2 * std::numbers::pi;

/// Entities without a Helm move, too: on both sides in the same way.
void move(const Step& step) {
    step.each<Quantised>([&](Quantised& at) { at.x += kSpeed * step.dt; });
    step.each<Plain>([&](Plain& at) { at.x += kSpeed * step.dt; });
    step.each<Cut>([&](Cut& at) { at.x += static_cast<double>(kSpeed * step.dt); });
    step.each<Heading>([&](Heading& at) {
        at.radians = static_cast<float>(std::remainder(at.radians + kSpeed / 10 * step.dt, kTurn));
    });
}

net::Seed seed_of(std::uint8_t number) {
    net::Seed seed{};
    seed[0] = std::byte(number);
    return seed;
}

/// One server and one client, each with a rate of its own.
class Stage {
public:
    Stage(double tick_hz, double frame_hz, const net::LinkConfig& link, std::uint64_t seed)
        : tick_(period(tick_hz)),
          frame_(period(frame_hz)),
          network_(link, seed),
          server(world, schema_, network_.at(at_server_), server_options(tick_hz)),
          client(mirror, schema_, network_.at(at_client_), client_options()) {
        server.on_step(move);
        client.on_step(move);
        server.on_join([this](PlayerId id) {
            player = id;
            return own = spawn(300);
        });
        client.connect(at_server_);
    }
    ecs::Entity spawn(float x) {
        return world.spawn(Quantised{x}, Plain{-x}, Cut{static_cast<double>(2 * x)}, Heading{x / 100}, Helm{},
                           Replicated{});
    }
    void run(net::Duration time) {
        for (const net::Time end = now + time; now < end;) {
            now = std::min(next_tick_, next_frame_);
            if (now == next_tick_) {
                next_tick_ += tick_;
                network_.receive_all(at_server_, server.host(), now);
                server.tick(now);
            } else {
                next_frame_ += frame_;
                network_.receive_all(at_client_, client.endpoint(), now);
                client.input(Helm{});
                client.update(now);
                look();
            }
        }
    }
    void set_link(const net::LinkConfig& link) {
        network_.in(at_server_).set_config(link);
        network_.in(at_client_).set_config(link);
    }
    void connect() { client.connect(at_server_, client.ticket()); }

    ecs::World world, mirror;
    PlayerId player;
    ecs::Entity own;
    double fastest = 0;  // greatest change of a drawn number in a frame, in units of kSpeed
    std::uint64_t drawn = 0;
    net::Time now{1s};

private:
    static net::Duration period(double hz) {
        return std::chrono::duration_cast<net::Duration>(std::chrono::duration<double>(1 / hz));
    }
    static ServerOptions server_options(double tick_hz) {
        ServerOptions options;
        options.sender.tick_hz = tick_hz;
        options.host.seed = seed_of(1);
        options.host.connection.timeout = 3s;
        net::impl::give_key(options.host);
        return options;
    }
    static ClientOptions client_options() {
        ClientOptions options;
        options.net.seed = seed_of(2);
        options.net.connection.timeout = 3s;
        net::impl::give_key(options.net);
        return options;
    }

    template <class T, class Read>
    void look_at(std::size_t kind, Read&& read) {
        client.each_shown<T>([&](ecs::Entity entity, const T& shown) {
            const double number = read(shown);
            Seen& seen = seen_[{entity, kind}];
            if (seen.frame + 1 == frames_) {
                double change = number - seen.number;
                if constexpr (std::is_same_v<T, Heading>) change = std::remainder(change, kTurn) * 10;
                const double seconds = std::chrono::duration<double>(frame_).count();
                fastest = std::max(fastest, std::abs(change) / static_cast<double>(kSpeed) / seconds);
                drawn += 1;
            }
            seen = {frames_, number};
        });
    }
    void look() {
        frames_ += 1;
        look_at<Quantised>(0, [](const Quantised& at) { return static_cast<double>(at.x); });
        look_at<Plain>(1, [](const Plain& at) { return static_cast<double>(at.x); });
        look_at<Cut>(2, [](const Cut& at) { return at.x; });
        look_at<Heading>(3, [](const Heading& at) { return static_cast<double>(at.radians); });
    }

    struct Seen {
        std::uint64_t frame = 0;
        double number = 0;
    };
    net::Duration tick_, frame_;
    Schema schema_ = drawn_schema();
    net::Address at_server_ = net::Address::ipv4(10, 0, 0, 1, 7000);
    net::Address at_client_ = net::Address::ipv4(10, 0, 0, 2, 5000);
    net::BadNetwork network_;
    net::Time next_tick_{1s}, next_frame_{1s + 3ms};
    std::uint64_t frames_ = 0;
    std::map<std::pair<ecs::Entity, std::size_t>, Seen> seen_;

public:
    Server server;
    Client client;
};

struct Rates {
    double tick_hz, frame_hz;
};

// Goal: rule 35. Entities move at a constant speed, far from the origin; what is drawn never moves at many
// times this speed, in any way in which prediction begins and ends.
TEST(Drawn, GoesOnFromWhatWasDrawnWhenPredictionBeginsAndEnds) {
    for (const Rates rates : {Rates{60, 60}, Rates{30, 144}, Rates{20, 30}, Rates{128, 240}})
        for (const double loss : {0.0, 0.05}) {
            SCOPED_TRACE(testing::Message() << rates.tick_hz << " ticks, " << rates.frame_hz
                                            << " frames a second, loss " << loss);
            const net::LinkConfig link{.latency = 40ms, .jitter = 5ms, .loss = loss};
            Stage stage(rates.tick_hz, rates.frame_hz, link, 7);
            stage.run(4s);
            ASSERT_TRUE(stage.client.is_predicting());
            const ecs::Entity car = stage.spawn(-400), ball = stage.spawn(-500);
            stage.run(1500ms);
            ASSERT_GT(stage.drawn, 0u);
            for (int round = 0; round < 3; ++round) {
                stage.server.give(stage.player, car);
                stage.run(700ms);
                stage.server.predict(stage.player, ball);
                stage.run(700ms);
                stage.server.give({}, car);
                stage.run(round * 150ms);
                stage.server.predict(stage.player, ball, false);
                stage.run(700ms);
            }
            const double before = stage.fastest;
            EXPECT_LT(before, 6) << "times its speed";
            stage.server.give(stage.player, car);
            stage.run(700ms);
            stage.set_link({.latency = 40ms, .loss = 1});
            stage.run(5s);  // the connection is lost; the world goes on without the client
            stage.set_link(link);
            stage.connect();
            stage.run(3s);
            EXPECT_EQ(stage.client.phase(), Phase::playing);
            // The entities went on by 50 units meanwhile, some in one second.
            EXPECT_LT(stage.fastest, 70);
        }
}

}  // namespace
}  // namespace shoal::sim::drawn_test
