// Measures inputs and prediction over a simulated path with 150 ms of round trip, 30 ms of jitter and 5 %
// loss.
//
//   build/bench/prediction [MINUTES]
//
//   prediction.bytes_per_input.keys    section of inputs in a packet; keys change three times a second
//   prediction.bytes_per_input.mouse   the same if two numbers of 10 bits change in each tick
//   prediction.late_per_10000          inputs that missed their ticks
//   prediction.lead_ticks              how far P is ahead of the server's tick
//   prediction.wrong_per_minute.*      mispredictions; the server pushes a ship once a second in `pushed`
//   prediction.error_steps.pushed      greatest difference of the last one, in steps of the codec
//   prediction.resimulate_ns           CPU time per predicted entity and tick that is computed again, with a
//                                      step that moves 16 ships; the median of the restores

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "replication/play/struct_codec.h"
#include "replication/predict/input_log.h"
#include "tests/sim/play_session.h"

namespace {

using namespace shoal;
using namespace shoal::replication::impl;
using namespace std::chrono_literals;

struct Keys {
    std::int8_t x = 0, y = 0;
    Press dash;
};
struct Mouse {
    float x = 0, y = 0;
    Press shot;
};

double cpu_ns() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

net::LinkConfig path() {
    net::LinkConfig link;
    link.latency = 60ms;
    link.jitter = 30ms;
    link.loss = 0.05;
    return link;
}

class NoEntities final : public EntityMap {
public:
    std::uint32_t to_net(ecs::Entity) override { return 0; }
    ecs::Entity to_entity(std::uint32_t) override { return {}; }
};

/// Returns the mean size of a section with eleven inputs, which 150 ms of round trip make.
template <class T, class Fn>
double input_bytes(const Schema& schema, Fn&& change) {
    NoEntities no_entities;
    StructCodec codec(no_entities);
    const SchemaStruct& type = schema.structs(StructKind::input)[0];
    std::vector<std::uint32_t> neutral, words;
    T value;
    codec.quantise(type, &value, neutral);
    InputLog log(type, neutral);
    std::mt19937 random(1);
    std::size_t bits = 0;
    constexpr Tick kTicks = 6'000;
    for (Tick tick = 1; tick <= kTicks; ++tick) {
        change(value, random);
        codec.quantise(type, &value, words);
        log.set_input(words);
        log.record(tick);
        BitWriter out;
        log.write_section(tick, 8'000, out);
        bits += out.bit_count();
        if (tick > 10) log.on_fate(tick - 10, true);
    }
    return static_cast<double>(bits) / 8 / kTicks;
}

void print(const char* name, double value) {
    std::printf("prediction.%s %.2f\n", name, value);
}

void measure_bytes() {
    Schema keys, mouse;
    keys.input<Keys>("keys", bounded(-1, 1));
    mouse.input<Mouse>("mouse", quantised_bits(-1, 1, 10));
    print("bytes_per_input.keys", input_bytes<Keys>(keys, [](Keys& value, std::mt19937& random) {
              if (random() % 20 == 0) value.x = static_cast<std::int8_t>(static_cast<int>(random() % 3) - 1);
              value.dash = random() % 60 == 0;
          }));
    print("bytes_per_input.mouse", input_bytes<Mouse>(mouse, [](Mouse& value, std::mt19937& random) {
              const auto step = [&] { return (static_cast<float>(random() % 1'000) - 500) / 10'000; };
              value.x = std::clamp(value.x + step(), -1.0f, 1.0f);
              value.y = std::clamp(value.y + step(), -1.0f, 1.0f);
          }));
}

void measure_path(double minutes, bool is_quantised) {
    sim::PlaySession session(sim::play_schema(is_quantised), path(), 1);
    sim::PlaySession::Player& player = *session.players[0];
    player.on_frame = sim::PlaySession::wander(1);
    session.run(20s);
    const PredictionStats& stats = player.client.prediction_stats();
    const std::uint64_t wrong = stats.mispredictions, late = session.input_stats(player).late;
    double lead = 0;
    const int seconds = static_cast<int>(minutes * 60);
    for (int i = 0; i < seconds; ++i) {
        session.run(1s);
        lead += *player.client.predicted_tick() - session.server.current_tick();
    }
    print(is_quantised ? "wrong_per_minute.quantised" : "wrong_per_minute.exact",
          static_cast<double>(stats.mispredictions - wrong) / minutes);
    if (!is_quantised) return;
    print("late_per_10000", static_cast<double>(session.input_stats(player).late - late) / (minutes * 0.36));
    print("lead_ticks", lead / seconds);
}

void measure_restores() {
    sim::PlaySession session(sim::play_schema(), path(), 1);
    sim::PlaySession::Player& player = *session.players[0];
    player.on_frame = sim::PlaySession::wander(1);
    session.run(5s);
    const net::PeerId id = session.server.owner(session.ship(player));
    for (int i = 0; i < 15; ++i)
        session.server.give(
            id, session.world.spawn(sim::Spot{}, sim::Speed{}, sim::Dashes{}, sim::Helm{}, Replicated{}));
    session.run(5s);
    const PredictionStats& stats = player.client.prediction_stats();
    // Measures from the call of the first step that runs again to that of the first new one.
    double start = 0;
    std::uint64_t again = 0;
    std::vector<double> ns;
    player.client.on_step([&](const Step& step) {
        if (!step.is_new && start == 0) {
            start = cpu_ns();
            again = 0;
        }
        if (!step.is_new) ++again;
        if (step.is_new && start != 0) {
            if (again > 1) ns.push_back((cpu_ns() - start) / static_cast<double>(again) / 16);
            start = 0;
        }
        sim::sail(step);
    });
    const std::uint64_t wrong = stats.mispredictions;
    constexpr int kSeconds = 60;
    for (int i = 0; i < kSeconds; ++i) {
        session.world.patch<sim::Spot>(session.ship(player),
                                       [](sim::Spot& spot) { spot.x += spot.x > 0 ? -3 : 3; });
        session.run(1s);
    }
    print("wrong_per_minute.pushed", static_cast<double>(stats.mispredictions - wrong));
    print("error_steps.pushed", stats.last_error);
    std::sort(ns.begin(), ns.end());
    if (!ns.empty()) print("resimulate_ns", ns[ns.size() / 2]);
}

}  // namespace

int main(int count, char** arguments) {
    const double minutes = count > 1 ? std::atof(arguments[1]) : 5;
    measure_bytes();
    measure_path(minutes, true);
    measure_path(minutes, false);
    measure_restores();
}
