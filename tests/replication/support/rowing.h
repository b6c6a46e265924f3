#pragma once
// A server and the predictor of its client on an exact clock, without connections.

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "replication/play/struct_codec.h"
#include "replication/predict/predictor.h"
#include "replication/receive/receiver.h"
#include "replication/send/sender.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl::rowing {

using namespace std::chrono_literals;

struct Spot {
    float x = 0;
};
struct Sum {
    std::uint64_t drawn = 0;  // of random numbers
};
struct Oar {
    std::int8_t x = 0;
};

/// A server and the predictor of its client without connections. Payloads arrive kPath ticks after they were
/// sent. The client is kLead ticks ahead of the server, and its inputs are always in time.
struct Rowing {
    static constexpr net::Duration kTick = 16ms;
    static constexpr int kPath = 3;
    static constexpr Tick kLead = 5;

    Rowing() {
        step = [](const Step& of) {
            of.each<Spot, const Oar>(
                [&](Spot& spot, const Oar& oar) { spot.x += static_cast<float>(oar.x) * of.dt; });
            of.each<Sum>([&](Sum& sum) { sum.drawn += of.random(7); });
        };
        predictor.set_on_step([this](const Step& of) { step(of); });
        start();
    }
    void start() {
        receiver.start_clock(kTick);
        predictor.start(kTick, seed);
    }
    ecs::Entity spawn() { return world.spawn(Spot{}, Sum{}, Oar{}, Replicated{}, Mine{}); }
    /// A boat that the client's player owns.
    ecs::Entity spawn_own() {
        const ecs::Entity boat = spawn();
        sender->set_owner(boat, peer);
        return boat;
    }
    /// A boat of nobody.
    ecs::Entity spawn_other() { return world.spawn(Spot{}, Sum{}, Oar{}, Replicated{}); }
    ecs::Entity replica(ecs::Entity boat) const { return receiver.entity(sender->net_id(boat)); }

    /// One tick of the server, and one frame of the client.
    void run(int ticks = 1) {
        for (int i = 0; i < ticks; ++i) {
            now += kTick;
            serve();
            if (is_frozen) continue;
            receive();
            frame();
        }
    }
    void frame() {
        if (is_rowing) {
            const Oar input{rows};
            predictor.set_input(&input);
        }
        receiver.update_clock(now);
        receiver.apply();
        predictor.update(now, kRtt, 0us);
    }
    /// A frame between two ticks.
    void short_frame(net::Duration after) {
        now += after;
        frame();
        now -= after;
    }
    /// The client connects to a new server with the same world.
    void reconnect(Tick first) {
        down.clear();
        sender.emplace(world, schema);
        receiver.reset();
        predictor.reset();
        EXPECT_FALSE(predictor.tick());
        EXPECT_FALSE(predictor.is_predicting());
        tick = first;
        peer = sender->add_peer();
        ecs::Query<ecs::With<Mine>>(world).each([&](ecs::Entity boat) { sender->set_owner(boat, peer); });
        start();
    }
    /// Runs one tick for each of these packets. The server says of each how early it came, if its inputs need
    /// this lead, in ticks, to be just in time.
    void report(int packets, Tick needed) {
        for (int i = 0; i < packets; ++i) {
            run();
            BitWriter out;
            predictor.inputs()->write_section(++packet, 9'000, out);
            const auto margin = static_cast<std::int32_t>(*predictor.tick() - tick - needed);
            predictor.take_margin({static_cast<std::uint8_t>(packet), 8 * margin}, now);
        }
    }
    float shown(ecs::Entity boat) const {
        Spot spot = theirs.get<Spot>(replica(boat));
        EXPECT_TRUE(predictor.show(replica(boat), &type_address<Spot>, &spot));
        return spot.x;
    }
    bool is_predicted(ecs::Entity boat) const { return theirs.has<Predicted>(replica(boat)); }
    const PredictionStats& stats() const { return predictor.stats(); }

    static Schema described() {
        Schema schema;
        schema.component<Spot>("spot", linear(), predicted());
        schema.component<Sum>("sum", predicted());
        schema.input<Oar>("oar", bounded(-1, 1));
        return schema;
    }

    Schema schema = described();
    ecs::World world, theirs;
    std::optional<Sender> sender{std::in_place, world, schema};
    Receiver receiver{theirs, schema};
    NoEntities map;
    Predictor predictor{theirs, schema, receiver, 500ms};
    Sender::Peer peer = sender->add_peer();
    OnStep step;                    // of both sides
    std::function<void()> on_tick;  // of the server, after its step
    std::int8_t rows = 1;
    bool is_rowing = true, is_cut = false, is_frozen = false;
    std::uint64_t seed = 77;
    Tick tick = 1000;
    net::Time now{100s};
    struct Values {
        float x = 0;
        std::uint64_t drawn = 0;
    };
    /// The server's values of the tick whose state has arrived.
    Values arrived(ecs::Entity boat) { return history_[{tick - kPath, boat.index}]; }

private:
    static constexpr net::Duration kRtt = kTick * (kPath + kLead - 2);
    struct Payload {
        Tick due = 0;
        std::uint64_t number = 0;
        std::vector<std::byte> bytes;
    };

    void serve() {
        ++tick;
        const std::span<const std::uint32_t> words = predictor.inputs()->at(tick);
        ecs::Query<Oar, ecs::With<Mine>>(world).each([&](Oar& input) {
            input = {};
            if (!words.empty()) codec.restore(schema.structs(StructKind::input)[0], words, &input);
        });
        const Step::Context context{queries, map, seed, false};
        step(Step(tick, std::chrono::duration<float>(kTick).count(), true, context));
        if (on_tick) on_tick();
        ecs::Query<const Spot, const Sum>(world).each(
            [&](ecs::Entity boat, const Spot& spot, const Sum& sum) {
                history_[{tick, boat.index}] = {spot.x, sum.drawn};
            });
        sender->update(tick);
        std::byte room[1300];
        for (;;) {
            const auto payload = sender->encode(peer, number, 1100, room);
            if (payload.empty()) break;
            if (!is_cut) down.push_back({tick + kPath, number, {payload.begin(), payload.end()}});
            ++number;
        }
    }
    void receive() {
        for (; !down.empty() && !is_newer(down.front().due, tick); down.pop_front()) {
            const Payload& payload = down.front();
            ASSERT_EQ(receiver.receive(payload.number, payload.bytes), Receiver::Verdict::accepted);
            receiver.hear(payload.number, now);
            sender->on_fate(peer, payload.number, true);
        }
    }

    std::map<std::pair<Tick, std::uint32_t>, Values> history_;  // by tick and entity index
    std::uint64_t number = 1;
    std::uint64_t packet = 0;  // of the client
    std::deque<Payload> down;
    StructCodec codec{map};
    StepQueries queries{world};
};

}  // namespace shoal::replication::impl::rowing
