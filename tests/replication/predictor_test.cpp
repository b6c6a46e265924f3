#include "replication/predict/predictor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/replication/support/world.h"
#include "tests/sim/play_session.h"

namespace shoal::replication::impl::predictor_test {
namespace {

using namespace std::chrono_literals;

/// A player who steers to the right, for two seconds.
struct Steering {
    Steering() {
        player.on_frame = [this](sim::PlaySession::Player& self) { self.client.input(helm); };
        session.run(2s);
        EXPECT_TRUE(player.client.is_predicting());
    }
    static net::LinkConfig path() {
        net::LinkConfig link;
        link.latency = 30ms;
        return link;
    }

    sim::Helm helm{1, 0, {}};
    sim::PlaySession session{sim::play_schema(), path(), 1};
    sim::PlaySession::Player& player = *session.players[0];
};

TEST(Predictor, ChangeHooksOfTheInputRunWhenThePlayerDoesSomethingElse) {
    Steering steering;
    int calls = 0;
    const ecs::Hook hook = steering.player.world.on_change<sim::Helm>(
        [&](ecs::World&, ecs::Entity, const sim::Helm&) { ++calls; });
    steering.session.run(500ms);
    EXPECT_EQ(calls, 0);
    steering.helm.x = -1;
    steering.session.run(500ms);
    EXPECT_GT(calls, 0);
}

// Goal: the ticks that the client did not compute are not compared with the server's.
TEST(Predictor, AfterAPauseThePredictionBeginsWithTheServersState) {
    for (const net::Duration pause : {1000ms, 3000ms}) {
        SCOPED_TRACE(testing::Message() << pause.count() << " us");
        Steering steering;
        const PredictionStats before = steering.player.client.prediction_stats();
        steering.player.next_frame += pause;
        steering.session.run(pause + 1s);
        const PredictionStats& after = steering.player.client.prediction_stats();
        EXPECT_EQ(after.mispredictions, before.mispredictions);
        EXPECT_GT(after.checks, before.checks + 40);
    }
}

TEST(Predictor, EachEntityOfTheGroupIsComparedWithItsOwnState) {
    Steering steering;
    sim::PlaySession& session = steering.session;
    const ecs::Entity second =
        session.world.spawn(sim::Spot{-20, 7}, sim::Speed{}, sim::Dashes{3}, sim::Helm{}, Replicated{});
    session.server.give(session.server.owner(session.ship(steering.player)), second);
    session.run(500ms);
    ASSERT_EQ(steering.player.client.mine().size(), 2u);
    const PredictionStats before = steering.player.client.prediction_stats();
    session.run(1s);
    const PredictionStats& after = steering.player.client.prediction_stats();
    EXPECT_GT(after.checks, before.checks + 40);
    EXPECT_EQ(after.mispredictions, before.mispredictions);
    session.world.set(second, sim::Dashes{50});  // what no step does
    session.run(500ms);
    EXPECT_EQ(after.mispredictions, before.mispredictions + 1);
}

TEST(Predictor, CountsPressesThatFindNoRoom) {
    Steering steering;
    steering.player.on_frame = nullptr;
    for (int i = 0; i < 40; ++i) steering.player.client.input(sim::Helm{1, 0, true});
    EXPECT_EQ(steering.player.client.prediction_stats().dropped_presses, 8u);
    steering.session.run(1s);
    steering.player.client.input(sim::Helm{1, 0, true});
    EXPECT_EQ(steering.player.client.prediction_stats().dropped_presses, 8u);
}

struct Cart {
    float x = 0;
};
struct Laps {
    std::uint32_t count = 0;
};
struct Paint {
    int colour = 0;
};
struct Stick {
    std::int8_t x = 0;
    Press jump;
};

Schema cart_schema() {
    Schema schema;
    schema.component<Cart>("cart", quantised(-1'000, 1'000, 1), predicted(), linear());
    schema.component<Laps>("laps", predicted());
    schema.component<Paint>("paint");
    schema.component<Stick>("stick", field(&Stick::x, bounded(-9, 9)), to_owner());
    schema.input<Stick>("stick", field(&Stick::x, bounded(-9, 9)));
    schema.quantise_authority();
    return schema;
}

/// What server and client compute alike. It does not depend on the order of the entities.
void drive(const Step& step) {
    step.each<Cart, Laps, const Stick>([](Cart& cart, Laps& laps, const Stick& stick) {
        cart.x += static_cast<float>(stick.x);
        laps.count += stick.jump.count;
    });
    step.each<Cart, ecs::Without<Stick>>([](Cart& cart) { cart.x += 1; });
}

/// A predictor, without connections: a state of the server arrives in the moment in which its tick begins.
/// The server uses the inputs that the client recorded for its ticks. A tick takes 20 ms.
struct Road {
    explicit Road(net::Duration round_trip = 50ms, Tick first_tick = 1'000)
        : rtt(round_trip), pair({}, {}, first_tick, 1, cart_schema()) {
        predictor.set_on_step([this](const Step& step) {
            steps.emplace_back(step.tick, step.is_new);
            drive(step);
            if (on_step) on_step(step);
        });
        pair.receiver.start_clock(20ms);
        predictor.start(20ms, 77);
        predictor.set_input(&stick);
    }
    ecs::Entity spawn_ours(float x) {
        const ecs::Entity cart = pair.spawn(Cart{x}, Laps{}, Stick{}, Mine{});
        pair.sender.set_owner(cart, pair.peer);
        return cart;
    }
    /// The server computes a tick; its state arrives.
    void serve() {
        Stick input;
        const Tick tick = pair.next_tick;
        if (const auto words = predictor.inputs()->at(tick); !words.empty())
            codec.restore(type(), words, &input);
        for (const ecs::Entity cart : carts)
            if (pair.world.is_alive(cart)) pair.world.set(cart, input);
        const Step::Context context{queries, pair.receiver, 77, false};
        drive(Step(tick, 0.02f, true, context));
        if (then) std::exchange(then, nullptr)();
        pair.exchange();
        now += 20ms;
        hear();
    }
    /// The last packet has just arrived.
    void hear() {
        pair.receiver.hear(pair.next_number - 1, now);
        pair.receiver.update_clock(now);
    }
    /// A frame of the client.
    void update() {
        predictor.set_input(&stick);
        steps.clear();
        predictor.update(now, rtt, 0ms);
    }
    void run(int ticks) {
        for (int i = 0; i < ticks; ++i) {
            serve();
            update();
        }
    }
    const SchemaStruct& type() const { return pair.schema.structs(StructKind::input)[0]; }
    float x(ecs::Entity cart) { return pair.on_client<Cart>(cart).x; }
    float shown(ecs::Entity cart) {
        Cart value = pair.on_client<Cart>(cart);
        EXPECT_TRUE(predictor.show(pair.replica(cart), &type_address<Cart>, &value));
        return value.x;
    }
    bool is_predicted(ecs::Entity cart) { return pair.mirror.has<Predicted>(pair.replica(cart)); }
    const PredictionStats& stats() const { return predictor.stats(); }

    net::Duration rtt;
    Pair pair;
    Predictor predictor{pair.mirror, pair.receiver_schema, pair.receiver, 500ms};
    NoEntities no_entities;
    StructCodec codec{no_entities};
    StepQueries queries{pair.world};
    Stick stick{1, {}};
    net::Time now{100s};
    std::vector<ecs::Entity> carts{spawn_ours(0)};
    std::vector<std::pair<Tick, bool>> steps;  // of the last update: tick and is_new
    OnStep on_step;                            // after each step of the client
    std::function<void()> then;                // after the server's next step
};

// With a round trip of 50 ms the client is four and a half ticks ahead.
TEST(Predictor, AWrongPredictionIsReplacedByTheServersStateAndItsTicksAreComputedAgain) {
    Road road;
    road.run(20);
    const ecs::Entity cart = road.carts[0];
    const PredictionStats before = road.stats();
    EXPECT_EQ(before.mispredictions, 0u);
    for (int i = 0; i < 10; ++i) {
        road.stick.x = static_cast<std::int8_t>(i);  // each tick has another input
        road.stick.jump = i % 2 == 1;
        road.run(1);
        EXPECT_EQ(road.steps, (std::vector{std::pair(road.pair.next_tick + 3, true)}));
    }
    EXPECT_EQ(road.stats().checks, before.checks + 10);
    EXPECT_EQ(road.stats().ticks, before.ticks + 10);
    EXPECT_EQ(road.stats().resimulated, before.resimulated);
    EXPECT_EQ(road.stats().mispredictions, 0u);
    const float ahead = road.x(cart);
    const std::uint32_t laps = road.pair.on_client<Laps>(cart).count;
    EXPECT_EQ(ahead - road.pair.world.get<Cart>(cart).x, 6 + 7 + 8 + 9.0f);

    road.then = [&] { road.pair.world.patch<Cart>(cart, [](Cart& moved) { moved.x -= 7; }); };
    road.stick = {};
    road.run(1);
    EXPECT_EQ(road.x(cart), ahead - 7);
    EXPECT_EQ(road.pair.on_client<Laps>(cart).count, laps);
    EXPECT_EQ(road.stats().mispredictions, 1u);
    EXPECT_EQ(road.stats().last_error, 7u);
    EXPECT_EQ(road.stats().resimulated, before.resimulated + 3);
    const Tick tick = road.pair.next_tick - 1;
    EXPECT_EQ(road.steps, (std::vector{std::pair(tick + 1, false), std::pair(tick + 2, false),
                                       std::pair(tick + 3, false), std::pair(tick + 4, true)}));
    road.run(10);
    EXPECT_EQ(road.stats().mispredictions, 1u) << "the corrected ticks are right";
    EXPECT_EQ(road.x(cart), road.pair.world.get<Cart>(cart).x);
}

TEST(Predictor, TheLastErrorIsTheGreatestOfTheGroup) {
    for (const std::size_t greater : {0u, 1u}) {
        Road road;
        road.carts.push_back(road.spawn_ours(10));
        road.run(20);
        road.then = [&] {
            for (std::size_t i = 0; i < 2; ++i)
                road.pair.world.patch<Cart>(road.carts[i],
                                            [&](Cart& cart) { cart.x += i == greater ? 9.0f : 3.0f; });
        };
        road.run(5);
        EXPECT_EQ(road.stats().mispredictions, 1u);
        EXPECT_EQ(road.stats().last_error, 9u);
        road.then = [&] { road.pair.world.set(road.carts[greater], Laps{5}); };
        road.run(5);
        EXPECT_EQ(road.stats().last_error, PredictedValues::kOther);
    }
}

TEST(Predictor, AStateIsCheckedOnce) {
    Road road;
    road.run(20);
    const PredictionStats before = road.stats();
    for (int frame = 0; frame < 5; ++frame) road.update();
    EXPECT_EQ(road.stats().checks, before.checks);
    EXPECT_EQ(road.stats().ticks, before.ticks);
    EXPECT_EQ(road.stats().resimulated, before.resimulated);
}

// Goal: each member of the group is found again in each update. Otherwise it would join anew, and all would
// be restored.
TEST(Predictor, AMemberThatJoinsOrLeavesIsTheOnlyOneToDoSo) {
    for (const std::size_t leaving : {0u, 1u, 3u}) {
        SCOPED_TRACE(leaving);
        Road road;
        for (const float x : {10.0f, 20.0f, 30.0f}) road.carts.push_back(road.spawn_ours(x));
        road.run(20);
        const auto expect_ours = [&](std::size_t other) {
            for (std::size_t i = 0; i < 4; ++i) {
                const float ahead = i == other ? 0 : 4;
                EXPECT_EQ(road.is_predicted(road.carts[i]), i != other);
                EXPECT_EQ(road.x(road.carts[i]), road.pair.world.get<Cart>(road.carts[i]).x + ahead);
                Cart value;
                EXPECT_EQ(road.predictor.show(road.pair.replica(road.carts[i]), &type_address<Cart>, &value),
                          i != other);
            }
        };
        const std::uint64_t resimulated = road.stats().resimulated;
        EXPECT_EQ(resimulated, 4u) << "restored once";
        expect_ours(4);
        road.pair.world.remove<Mine>(road.carts[leaving]);
        road.pair.sender.set_owner(road.carts[leaving], std::nullopt);
        road.run(10);
        EXPECT_EQ(road.stats().resimulated, resimulated);
        expect_ours(leaving);
        road.pair.world.add<Mine>(road.carts[leaving]);
        road.pair.sender.set_owner(road.carts[leaving], road.pair.peer);
        road.run(10);
        EXPECT_EQ(road.stats().resimulated, resimulated + 3) << "restored once";
        EXPECT_EQ(road.stats().mispredictions, 0u);
        expect_ours(4);
    }
}

TEST(Predictor, AnEntityToPredictIsAMemberWhileItHasTheTag) {
    Road road;
    const ecs::Entity ball = road.pair.spawn(Cart{50});
    road.run(20);
    EXPECT_FALSE(road.is_predicted(ball));
    road.pair.sender.set_predictor(road.pair.peer, ball, true);
    road.pair.world.add<ToPredict>(ball);
    road.run(10);
    EXPECT_TRUE(road.is_predicted(ball));
    EXPECT_EQ(road.x(ball), road.pair.world.get<Cart>(ball).x + 4);
    road.pair.sender.set_predictor(road.pair.peer, ball, false);
    road.pair.world.remove<ToPredict>(ball);
    road.run(1);
    EXPECT_FALSE(road.is_predicted(ball));
    EXPECT_EQ(road.x(ball), road.pair.world.get<Cart>(ball).x);
    Cart value{3};
    EXPECT_FALSE(road.predictor.show(road.pair.replica(ball), &type_address<Cart>, &value));
    EXPECT_EQ(value.x, 3);
    EXPECT_EQ(road.stats().mispredictions, 0u);
}

TEST(Predictor, NothingIsPredictedWhileTheLeadIsGreaterThanItsLimit) {
    for (const net::Duration rtt : {460ms, 461ms}) {  // and two ticks
        Road road(rtt);
        road.run(40);
        EXPECT_EQ(road.predictor.is_predicting(), rtt == 460ms);
        EXPECT_EQ(road.is_predicted(road.carts[0]), rtt == 460ms);
        EXPECT_EQ(road.stats().checks > 0, rtt == 460ms);
        EXPECT_TRUE(road.predictor.tick()) << "inputs are sent all the same";
    }
}

TEST(Predictor, WhenThePredictionStopsTheServersValuesAreShown) {
    Road road;
    road.run(20);
    const ecs::Entity cart = road.carts[0], early = road.pair.mirror.spawn(Cart{});
    ASSERT_FALSE(road.predictor.add_pending(early).empty());
    for (std::uint8_t packet = 1; packet <= 4; ++packet) {
        road.run(1);
        BitWriter out;
        road.predictor.inputs()->write_section(packet, 8'000, out);
        road.predictor.take_margin({packet, -8 * 30}, road.now);  // it came 600 ms too late
    }
    road.run(2);
    EXPECT_FALSE(road.predictor.is_predicting());
    EXPECT_FALSE(road.is_predicted(cart));
    EXPECT_EQ(road.x(cart), road.pair.world.get<Cart>(cart).x);
    EXPECT_FALSE(road.pair.mirror.has<Predicted>(early));
    Cart value{3};
    EXPECT_FALSE(road.predictor.show(road.pair.replica(cart), &type_address<Cart>, &value));
    EXPECT_TRUE(road.predictor.add_pending(road.pair.mirror.spawn(Cart{})).empty());
    road.run(5);
    EXPECT_EQ(road.x(cart), road.pair.world.get<Cart>(cart).x);
}

TEST(Predictor, WithoutAStepFunctionNothingIsPredicted) {
    Road road;
    road.predictor.set_on_step({});
    road.run(20);
    EXPECT_FALSE(road.predictor.is_predicting());
    EXPECT_FALSE(road.is_predicted(road.carts[0]));
}

TEST(Predictor, RandomNumbersOfAStepAreThoseOfTheServersSeed) {
    Road road;
    std::vector<std::pair<Tick, std::uint64_t>> drawn;
    road.on_step = [&](const Step& step) { drawn.emplace_back(step.tick, step.random(5)); };
    road.run(20);
    ASSERT_GT(drawn.size(), 10u);
    const Step::Context context{road.queries, road.no_entities, 77, false};
    for (const auto& [tick, number] : drawn) EXPECT_EQ(number, Step(tick, 0.02f, true, context).random(5));
}

// Goal: after a reset nothing of the former server has an effect. Method: the next server's ticks are a
// little older than those of the former one, and a NaN had delayed the next restore.
TEST(Predictor, AfterAResetAnOlderTickOfAnotherServerIsPredictedFrom) {
    Road road(50ms, 1'000);
    road.run(20);
    const ecs::Entity kept = road.pair.mirror.spawn(Cart{});
    ASSERT_FALSE(road.predictor.add_pending(kept).empty());
    road.on_step = [&](const Step& step) {
        step.each<Cart>([](Cart& cart) { cart.x = std::numeric_limits<float>::quiet_NaN(); });
    };
    road.then = [&] { road.pair.world.set(road.carts[0], Cart{500}); };
    road.run(5);
    EXPECT_GT(road.stats().nan_fields, 0u);
    road.on_step = nullptr;
    road.predictor.reset();
    EXPECT_FALSE(road.predictor.is_predicting());
    EXPECT_EQ(road.predictor.tick(), std::nullopt);
    EXPECT_FALSE(road.pair.mirror.has<Predicted>(kept));
    EXPECT_FALSE(road.is_predicted(road.carts[0]));
    road.hear();
    road.update();
    EXPECT_TRUE(road.steps.empty()) << "before start()";
    EXPECT_EQ(road.predictor.tick(), std::nullopt);
    const PredictionStats before = road.stats();

    road.predictor.reset();
    road.pair.receiver.reset();
    Road other(50ms, 1'000);
    Predictor& predictor = road.predictor;
    road.pair.receiver.start_clock(20ms);
    predictor.start(20ms, 1);
    for (int i = 0; i < 15; ++i) {
        other.pair.world.set(other.carts[0], Cart{static_cast<float>(i)});
        const SentPacket packet = other.pair.tick_and_encode();
        ASSERT_EQ(road.pair.receive(packet), Receiver::Verdict::accepted);
        other.pair.tell(packet, true);
        road.pair.receiver.apply();
        road.now += 20ms;
        road.pair.receiver.hear(packet.number, road.now);
        road.pair.receiver.update_clock(road.now);
        if (i == 3) {
            predictor.update(road.now, 50ms, 0ms);
            EXPECT_EQ(predictor.tick(), std::nullopt) << "before the first input";
        }
        if (i < 5) continue;
        predictor.set_input(&road.stick);
        road.steps.clear();
        predictor.update(road.now, 50ms, 0ms);
        if (i == 5) {
            EXPECT_EQ(road.steps, (std::vector{std::pair(packet.tick + 4, true)}));
        }
    }
    EXPECT_TRUE(predictor.is_predicting());
    EXPECT_EQ(predictor.tick(), 1'000u + 14 + 4);
    EXPECT_GT(road.stats().checks, before.checks);
    const ecs::Entity replica = road.pair.receiver.entity(other.pair.sender.net_id(other.carts[0]));
    EXPECT_TRUE(road.pair.mirror.has<Predicted>(replica));
    EXPECT_GT(road.stats().resimulated, before.resimulated);
}

TEST(Predictor, AfterANanNothingIsRestoredForARoundTrip) {
    Road road;
    road.run(20);
    bool is_broken = true;
    road.on_step = [&](const Step& step) {
        if (is_broken) step.each<Cart>([](Cart& cart) { cart.x = std::numeric_limits<float>::quiet_NaN(); });
    };
    road.then = [&] { road.pair.world.set(road.carts[0], Cart{500}); };
    road.run(1);
    const PredictionStats before = road.stats();
    EXPECT_EQ(before.mispredictions, 1u);
    is_broken = false;
    for (int i = 0; i < 2; ++i) {
        road.pair.world.set(road.carts[0], Cart{0});
        road.run(1);
        EXPECT_EQ(road.stats().resimulated, before.resimulated) << i;
    }
    road.run(1);
    EXPECT_GT(road.stats().resimulated, before.resimulated);
    const std::uint64_t resimulated = road.stats().resimulated;
    road.then = [&] { road.pair.world.set(road.carts[0], Cart{100}); };
    road.run(1);
    EXPECT_GT(road.stats().resimulated, resimulated) << "at once, if there was no NaN";
    EXPECT_EQ(road.x(road.carts[0]), 104);
}

// Goal: the ticks that a pause skipped are not compared, also if the client was so far ahead that the
// server's state is older than the last tick before the pause.
TEST(Predictor, TicksThatWereSkippedAreNotCompared) {
    Road road(400ms);
    road.run(60);
    ASSERT_TRUE(road.predictor.is_predicting());
    const PredictionStats before = road.stats();
    for (int i = 0; i < 15; ++i) road.serve();
    road.update();
    ASSERT_EQ(road.steps.back().first, road.pair.next_tick - 1 + 22);
    road.run(60);
    EXPECT_EQ(road.stats().mispredictions, before.mispredictions);
    EXPECT_GT(road.stats().checks, before.checks + 20);
    EXPECT_EQ(road.x(road.carts[0]), road.pair.world.get<Cart>(road.carts[0]).x + 22);
}

TEST(Predictor, ATickIsCheckedIfItIsOneOfThoseThatAreKept) {
    const Tick kept = ticks_kept(4ms);
    for (const Tick lead : {kept - 1, kept}) {
        Pair pair({}, {}, 1'000, 1, cart_schema());
        Predictor predictor(pair.mirror, pair.receiver_schema, pair.receiver, 2s);
        predictor.set_on_step([](const Step&) {});
        pair.receiver.start_clock(4ms);
        predictor.start(4ms, 0);
        const ecs::Entity cart = pair.spawn(Cart{}, Mine{});
        pair.sender.set_owner(cart, pair.peer);
        net::Time now{100s};
        for (int i = 0; i < 200; ++i) {
            pair.exchange();
            now += 4ms;
            pair.receiver.hear(pair.next_number - 1, now);
            pair.receiver.update_clock(now);
            const Stick stick;
            predictor.set_input(&stick);
            // Ticks are computed after the check: at its time, the last one is one less ahead.
            predictor.update(now, 4ms * (lead + 1 - 2), 0ms);
        }
        EXPECT_EQ(predictor.stats().checks > 0, lead == kept - 1) << lead;
    }
}

TEST(Predictor, ACorrectionIsShownOverSomeTimeAndATeleportAtOnce) {
    for (const bool is_teleport : {false, true}) {
        Road road;
        road.stick = {};
        road.run(20);
        const ecs::Entity cart = road.carts[0];
        EXPECT_FLOAT_EQ(road.shown(cart), 0);
        road.then = [&] {
            road.pair.world.set(cart, Cart{100});
            if (is_teleport) road.pair.world.set(cart, Teleports{1});  // the first one
        };
        road.run(1);
        EXPECT_NEAR(road.shown(cart), is_teleport ? 100 : 0, 1e-3);
        road.run(5);
        EXPECT_NEAR(road.shown(cart), is_teleport ? 100 : 100 - 100 / std::exp(1), 1e-3);
        road.run(50);
        EXPECT_NEAR(road.shown(cart), 100, 0.1);
        road.then = [&] {
            road.pair.world.set(cart, Cart{200});
            if (is_teleport) road.pair.world.set(cart, Teleports{2});
        };
        road.run(1);
        EXPECT_NEAR(road.shown(cart), is_teleport ? 200 : 100, 0.1);
        road.then = [&] { road.pair.world.set(cart, Cart{300}); };
        road.run(1);
        EXPECT_NEAR(road.shown(cart), is_teleport ? 200 : 118, 1) << "no teleport this time";
    }
}

// Goal: a cart that moves by 1 in each tick is shown where it was when ticks of 90 ms begin at once.
TEST(Predictor, FiveTicksAtOnceAreSmoothedLikeACorrection) {
    for (const int ticks : {4, 5, 20}) {
        Road road;
        road.run(200);
        const float before = road.shown(road.carts[0]);
        EXPECT_FLOAT_EQ(before, road.x(road.carts[0]) - 0.5f) << "half of the tick has passed";
        for (int i = 0; i < ticks; ++i) road.serve();
        road.update();
        EXPECT_NEAR(road.shown(road.carts[0]) - before, ticks < 5 ? ticks : 0, 1e-3);
        const Tick newest = road.pair.next_tick + 3;
        if (ticks == 20) {  // a pause: the ticks before the newest one are skipped
            EXPECT_EQ(road.steps, (std::vector{std::pair(newest, true)}));
            continue;
        }
        ASSERT_GE(road.steps.size(), static_cast<std::size_t>(ticks));
        for (int i = 0; i < ticks; ++i)
            EXPECT_EQ(road.steps[road.steps.size() - 1 - static_cast<std::size_t>(i)],
                      std::pair(newest - static_cast<Tick>(i), true));
        EXPECT_EQ(road.stats().mispredictions, 0u);
    }
}

TEST(Predictor, OnlyNewTicksAreChecked) {
    Road road;
    std::vector<std::pair<Tick, std::string>> faults;
    std::int32_t runs = 0;
    road.predictor.check_steps(3,
                               [&](const StepFault& fault) { faults.emplace_back(fault.tick, fault.first); });
    road.run(20);
    EXPECT_TRUE(faults.empty());
    road.on_step = [&](const Step& step) {
        step.each<Laps>([&](Laps& laps) { laps.count = static_cast<std::uint32_t>(++runs); });
    };
    road.run(9);
    ASSERT_EQ(faults.size(), 3u);
    for (const auto& [tick, first] : faults) EXPECT_EQ(tick % 3, 0u);
    road.predictor.check_steps(0,
                               [&](const StepFault& fault) { faults.emplace_back(fault.tick, fault.first); });
    road.run(9);
    road.predictor.check_steps(1, {});
    road.run(9);
    EXPECT_EQ(faults.size(), 3u);
}

/// A road on which the client spawns a cart ahead of the server.
struct Early : Road {
    Early() {
        run(20);
        early = pair.mirror.spawn(Cart{10});
        const std::span<const ComponentIndex> held = predictor.add_pending(early);
        EXPECT_EQ(held.size(), 3u) << "cart, laps and stick";
        pair.receiver.replicas().expect(kFirstPending | 1u, early, held);
    }
    /// The server has the cart, too: this one.
    void appear(ecs::Entity cart) {
        pair.sender.set_pending_id(pair.peer, pair.sender.assign_net_id(cart), 1);
    }
    float early_x() const { return pair.mirror.get<Cart>(early).x; }
    ecs::Entity early;
};

TEST(Predictor, AnEntityThatTheClientSpawnedIsComputedInNewTicksOnly) {
    Early road;
    EXPECT_TRUE(road.pair.mirror.has<Predicted>(road.early));
    road.run(3);
    EXPECT_EQ(road.early_x(), 13);
    road.then = [&] { road.pair.world.set(road.carts[0], Cart{500}); };
    road.run(1);
    EXPECT_EQ(road.steps.size(), 4u) << "three ticks are computed again";
    EXPECT_EQ(road.early_x(), 14);
    EXPECT_TRUE(road.pair.mirror.has<Predicted>(road.early));
    road.pair.mirror.destroy(road.early);
    road.run(3);
}

TEST(Predictor, AnEntityThatTheClientSpawnedGoesOnAsAMember) {
    for (const bool is_owned : {true, false}) {
        Early road;
        road.run(4);
        const ecs::Entity cart =
            is_owned ? road.pair.spawn(Cart{10}, Mine{}) : road.pair.spawn(Cart{10}, ToPredict{});
        if (is_owned) {
            road.pair.sender.set_owner(cart, road.pair.peer);
        } else {
            road.pair.sender.set_predictor(road.pair.peer, cart, true);
        }
        road.appear(cart);
        for (int i = 0; i < 10; ++i) {
            road.run(1);
            EXPECT_EQ(road.pair.replica(cart), road.early);
            EXPECT_EQ(road.early_x(), static_cast<float>(15 + i)) << i;
            EXPECT_TRUE(road.pair.mirror.has<Predicted>(road.early));
        }
        EXPECT_EQ(road.pair.world.get<Cart>(cart).x, road.early_x() - 4);
        EXPECT_EQ(road.stats().mispredictions, 0u);
    }
}

// Goal: while the rest of the group is under way, the entity goes on from what the client computed. Method: a
// payload has room for one entity.
TEST(Predictor, AnEntityThatTheClientSpawnedGoesOnBeforeItsGroupIsComplete) {
    for (const bool is_owned : {true, false}) {
        Early road;
        const ecs::Entity cart =
            is_owned ? road.pair.spawn(Cart{500}, Mine{}) : road.pair.spawn(Cart{500}, ToPredict{});
        if (is_owned) {
            road.pair.sender.set_owner(cart, road.pair.peer);
        } else {
            road.pair.sender.set_predictor(road.pair.peer, cart, true);
        }
        road.appear(cart);
        for (int i = 0; i < 3; ++i) road.carts.push_back(road.spawn_ours(100));
        road.pair.tick();
        int partial = 0;
        for (float x = 11; partial < 2; ++x) {
            const std::optional<SentPacket> packet = road.pair.encode(1);
            if (!packet) break;
            road.pair.deliver(*packet);
            road.pair.receiver.apply();
            road.now += 20ms;
            road.update();
            if (!road.pair.replica(cart) ||
                road.pair.receiver.decoder().completion().group_complete() == packet->tick)
                continue;
            ASSERT_EQ(road.pair.replica(cart), road.early);
            EXPECT_EQ(road.early_x(), x);
            EXPECT_TRUE(road.pair.mirror.has<Predicted>(road.early));
            EXPECT_NEAR(road.shown(cart), partial == 0 ? x : x - 0.5f, 0.1);
            ++partial;
        }
        EXPECT_GT(partial, 0);
    }
}

TEST(Predictor, AnEntityThatTheClientSpawnedAndMayNotPredictGetsTheServersValues) {
    Early road;
    road.run(4);
    const ecs::Entity cart = road.pair.spawn(Cart{300});
    road.appear(cart);
    road.run(1);
    ASSERT_EQ(road.pair.replica(cart), road.early);
    EXPECT_FALSE(road.pair.mirror.has<Predicted>(road.early));
    EXPECT_EQ(road.early_x(), road.pair.world.get<Cart>(cart).x);
    road.run(5);
    EXPECT_EQ(road.early_x(), road.pair.world.get<Cart>(cart).x);
}

}  // namespace
}  // namespace shoal::replication::impl::predictor_test
