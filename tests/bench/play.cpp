// Measures what players see over simulated paths: each path has a latency, a jitter of +- so much in each
// direction, independent of each other, and a loss. The server has 60 ticks a second, the client 125 frames.
//
//   build/bench/play [--seconds N]
//
//   play.PATH.delay_ms             how late the client shows the server's state, beyond the mean latency of
//   the
//                                  path (median)
//   play.PATH.least_delay_ms       the delay with which 98 % of the frames would have had newer state to mix
//                                  with
//   play.PATH.error_mean, _p99     distance of the place shown from the place at the render time, in units;
//   an
//                                  entity moves at 20 units a second in a circle, and places have steps of
//                                  0.01
//   play.PATH.late_frames_percent  frames for which no newer state had arrived
//   play.sample_ns                 CPU time of sample() of one entity, of 1,000 that move; best of all frames
//   play.apply_idle_ns             CPU time of update() for each of them, when nothing is new

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>
#include <vector>

#include "tests/sim/show.h"

namespace {

using namespace shoal;
using replication::Replicated;
using replication::Tick;
using sim::Place;
using sim::Show;

double cpu_ns() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

double quantile(std::vector<double> values, double share) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

Place place_at(double seconds) {
    return {static_cast<float>(50 * std::sin(0.4 * seconds)),
            static_cast<float>(50 * std::cos(0.4 * seconds))};
}

struct NamedPath {
    const char* name;
    Show::Path path;
};

void measure_interpolation(const NamedPath& named, double seconds) {
    Show show(named.path);
    const ecs::Entity ship = show.world.spawn(Place{}, Replicated{});
    const double tick_s = static_cast<double>(show.tick_us) / 1e6;
    show.on_tick = [&](Tick tick) { show.world.set(ship, place_at((tick - 1) * tick_s)); };
    show.run(5000);
    std::vector<double> errors, delays, needs;
    double sum = 0, late = 0;
    show.on_frame = [&] {
        const auto place = show.client.sample<Place>(show.replica(ship));
        if (!place) return;
        const Place truth = place_at(show.shown() * tick_s);
        errors.push_back(
            std::hypot(static_cast<double>(place->x - truth.x), static_cast<double>(place->y - truth.y)));
        sum += errors.back();
        delays.push_back(show.delay_ms());
        needs.push_back(show.newest_delay_ms());
        const Tick tick = show.client.render_time()->tick;
        late += replication::is_newer(tick + 1, *show.client.receiver().newest_tick());
    };
    show.run(seconds * 1000);
    const double frames = static_cast<double>(errors.size());
    std::printf("play.%s.delay_ms=%.1f\n", named.name, quantile(delays, 0.5));
    std::printf("play.%s.least_delay_ms=%.1f\n", named.name, quantile(needs, 0.98));
    std::printf("play.%s.error_mean=%.4f\n", named.name, sum / frames);
    std::printf("play.%s.error_p99=%.4f\n", named.name, quantile(errors, 0.99));
    std::printf("play.%s.late_frames_percent=%.2f\n", named.name, 100 * late / frames);
}

void measure_costs() {
    Show show({20, 0, 0});
    constexpr std::uint32_t kShips = 1000;
    std::vector<ecs::Entity> ships;
    for (std::uint32_t i = 0; i < kShips; ++i) ships.push_back(show.world.spawn(Place{}, Replicated{}));
    show.on_tick = [&](Tick tick) {
        for (std::uint32_t i = 0; i < kShips; ++i)
            show.world.set(ships[i], place_at(tick * 0.0167 + static_cast<double>(i)));
    };
    show.run(2000);
    double best_sample = 1e300, best_apply = 1e300, sum = 0;
    show.on_frame = [&] {
        double start = cpu_ns();
        show.client.each_shown<Place>(
            [&](ecs::Entity, const Place& at) { sum += static_cast<double>(at.x); });
        best_sample = std::min(best_sample, cpu_ns() - start);
        start = cpu_ns();
        show.client.update(show.now);
        best_apply = std::min(best_apply, cpu_ns() - start);
    };
    show.run(2000);
    std::printf("play.sample_ns=%.1f\nplay.apply_idle_ns=%.1f\n", best_sample / kShips, best_apply / kShips);
    if (sum == 0.5) std::printf("\n");  // the sum is used
}

}  // namespace

int main(int count, char** words) {
    double seconds = 60;
    if (count == 3 && std::string_view(words[1]) == "--seconds") {
        const char* const end = words[2] + std::strlen(words[2]);
        if (std::from_chars(words[2], end, seconds).ptr != end || !(seconds > 0)) count = 2;
    }
    if (count != 1 && count != 3) {
        std::fprintf(stderr, "usage: play [--seconds N]\n");
        return 2;
    }
    for (const NamedPath& named :
         {NamedPath{"rtt30", {15, 5, 0.01}}, NamedPath{"rtt150_jitter30_loss5", {75, 30, 0.05}},
          NamedPath{"rtt250_jitter30_loss5", {125, 30, 0.05}},
          NamedPath{"rtt200_jitter80_loss5", {100, 80, 0.05}},
          NamedPath{"rtt150_jitter30_loss20", {75, 30, 0.2}}})
        measure_interpolation(named, seconds);
    measure_costs();
}
