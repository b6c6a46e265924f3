// What the world's operations cost, in CPU time, each next to the same work on bare arrays where there
// is such a thing.
//
//   build/bench/ecs [--reps N] [--only a1,b1,...]
//
//   ecs.<workload>.ns       per entity, or per operation: the median of the repetitions
//   ecs.<workload>.best_ns  the least
//   raw.<workload>.ns       bare arrays, measured in the same run, in turn with ours
//   ecs.<workload>.ratio    ours to raw, the median of the turns
//   ecs.g.*, ecs.h.*        collecting changes; memory. list: only who changed, which does not depend on
//                           the size of the world; collect: with the values, which miss the caches of a
//                           large world, bare arrays' no less
//
// Every repetition has a fresh world, built outside the timer, and ids in a vector of ours in the order
// of creation; one repetition before the first does not count. What others need for the same, in ns,
// with g++ 12 -O3 on 2 CPUs of an AMD EPYC (Zen 5), by the same definitions:
//
//         EnTT 3.16  flecs 4.1.6  gaia-ecs 0.9.3        EnTT 3.16  flecs 4.1.6  gaia-ecs 0.9.3
//     a1       46.5         98.3             322    d1       34.6         51.9             407
//     a2       46.8         89.8             278    d2       4.44         4.81            67.7
//     a3       36.7         30.6            31.8    e1       28.3         15.4             486
//     a4       31.0         62.7             473    e2        273          178             848
//     b1       3.89         0.37            0.73    e3       1.73         38.2            1.82
//     b2       1.58         0.22            0.40    f1       5.04         9.64             109
//     b3       6.44         0.72            1.63    f2       5.90         40.6             104
//     b4       0.39         0.06            0.10    f3       5.16         8.09             166
//     b5       0.41         0.45            1.39    f4       5.86         29.8             154
//     b6       1.62         1.01            6.06    f5       26.8          142             493
//     c1       13.5         55.8             143    f6       23.3         85.7             482
//     c2       10.0         35.6             341    f7       69.3          154            1087
//     c3       20.5         66.2             484    f8       65.9         95.1             748
//     c4       10.5         46.2             129    g modify 13.7           58             282
//     c5        7.7         28.9             340    g collect, us 5.31    6.40             105
//     c6       34.6          461            1144    h, bytes 48.3         56.4            95.9

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecs/change_collector.h"
#include "ecs/world.h"
#include "tests/bench/ecs_workloads.h"

namespace {

using namespace ecs_bench;

// g: 1,000 different random entities written per tick, then collected: each into a vector, its
// position read. 50 ticks.

constexpr std::uint32_t kTicks = 50;
constexpr std::uint32_t kWrites = 1000;

struct Collecting {
    double modify_ns = 0;
    double list_us = 0;     // who changed
    double collect_us = 0;  // who changed, and what is there now
};

/// The first kWrites of `values` become different random ones of them.
template <class T>
void draw(std::vector<T>& values, std::mt19937& random) {
    for (std::uint32_t i = 0; i < kWrites; ++i)
        std::swap(values[i], values[i + random() % (values.size() - i)]);
}

Collecting collect_changes(std::uint32_t count) {
    World world;
    Entities entities = fill(world, count);
    ChangeCollector collector{world};
    collector.watch<Position>();
    std::mt19937 random(12345);
    Entities found = room(kWrites);
    Collecting total;
    float sum = 0;
    for (std::uint32_t tick = 0; tick < kTicks; ++tick) {
        draw(entities, random);
        total.modify_ns += timed(kWrites * kTicks, [&] {
            for (std::uint32_t i = 0; i < kWrites; ++i)
                world.patch<Position>(entities[i], [](Position& p) { p.x += 1; });
        });
        found.clear();
        total.list_us += timed(1000.0 * kTicks, [&] {
            for (const ChangeCollector::Change change : collector.changes()) found.push_back(change.entity);
        });
        found.clear();
        total.collect_us += timed(1000.0 * kTicks, [&] {
            for (const ChangeCollector::Change change : collector.changes()) {
                found.push_back(change.entity);
                sum += world.get<Position>(change.entity).x;
            }
            collector.clear();
        });
        require(found.size() == kWrites, "collected changes");
    }
    keep(&sum);
    return total;
}

/// A dirty bit for each row, and a list.
Collecting collect_changes_raw(std::uint32_t count) {
    Arrays arrays(count);
    std::vector<std::uint8_t> dirty(count);
    std::vector<std::uint32_t> rows(count), list(kWrites), found(kWrites);
    std::iota(rows.begin(), rows.end(), 0u);
    std::mt19937 random(12345);
    Collecting total;
    float sum = 0;
    for (std::uint32_t tick = 0; tick < kTicks; ++tick) {
        draw(rows, random);
        list.clear();
        total.modify_ns += timed(kWrites * kTicks, [&] {
            for (std::uint32_t i = 0; i < kWrites; ++i) {
                arrays.positions[rows[i]].x += 1;
                if (std::exchange(dirty[rows[i]], std::uint8_t{1}) == 0) list.push_back(rows[i]);
            }
        });
        found.clear();
        total.collect_us += timed(1000.0 * kTicks, [&] {
            for (const std::uint32_t row : list) {
                found.push_back(row);
                sum += arrays.positions[row].x;
                dirty[row] = 0;
            }
        });
    }
    keep(&sum);
    return total;
}

// h: memory, each figure in a process of its own, forked before anything was allocated.

/// In bytes: "VmRSS", or "VmHWM" for the most it ever was.
double memory(std::string_view field) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.compare(0, field.size(), field) == 0) return std::stod(line.substr(field.size() + 1)) * 1024;
    fail("no VmRSS in /proc/self/status");
}

double in_child(double (*measure)()) {
    int ends[2];
    if (pipe(ends) != 0) fail("pipe");
    const pid_t child = fork();
    if (child == 0) {
        const double bytes = measure();
        _exit(write(ends[1], &bytes, sizeof bytes) == sizeof bytes ? 0 : 1);
    }
    double bytes = 0;
    if (child < 0 || read(ends[0], &bytes, sizeof bytes) != sizeof bytes) fail("fork");
    waitpid(child, nullptr, 0);
    close(ends[0]);
    close(ends[1]);
    return bytes;
}

double bytes_per_entity() {
    Entities entities = room(kMany);
    const double before = memory("VmRSS");
    World world;
    spawn_all(world, entities);
    return (memory("VmRSS") - before) / kMany;
}

double bytes_per_entity_in_bulk() {
    Entities entities = room(kMany);
    const double before = memory("VmRSS");
    World world;
    entities = world.spawn_n<Position, Velocity>(kMany, [](std::uint32_t i, Position& p, Velocity& v) {
        p = position(i);
        v = velocity(i);
    });
    return (memory("VmHWM") - before) / kMany;
}

/// On average of many, so that pages of code that runs for the first time hardly count.
double bytes_of_an_empty_world() {
    constexpr int kWorlds = 100;
    memory("VmRSS");
    const double before = memory("VmRSS");
    std::vector<std::unique_ptr<World>> worlds;
    for (int i = 0; i < kWorlds; ++i) {
        worlds.push_back(std::make_unique<World>());
        worlds.back()->spawn(Position{}, Velocity{});
    }
    return (memory("VmRSS") - before) / kWorlds;
}

void print_memory() {
    std::printf("ecs.h.bytes_per_entity=%.1f\n", in_child(bytes_per_entity));
    std::printf("ecs.h.bulk_peak.bytes_per_entity=%.1f\n", in_child(bytes_per_entity_in_bulk));
    std::printf("ecs.h.empty_world.kib=%.1f\n", in_child(bytes_of_an_empty_world) / 1024);
}

struct Workload {
    std::string_view name;
    double (*ours)();
    double (*raw)();
};

constexpr Workload kWorkloads[] = {
    {"a1", a1, a1_raw},  {"a2", a2, nullptr}, {"a3", a3, a3_raw},  {"a4", a4, nullptr}, {"b1", b1, b1_raw},
    {"b2", b2, b2_raw},  {"b3", b3, b3_raw},  {"b4", b4, b4_raw},  {"b5", b5, b5_raw},  {"b6", b6, b6_raw},
    {"c1", c1, nullptr}, {"c2", c2, nullptr}, {"c3", c3, nullptr}, {"c4", c4, nullptr}, {"c5", c5, nullptr},
    {"c6", c6, nullptr}, {"d1", d1, d1_raw},  {"d2", d2, d2_raw},  {"e1", e1, nullptr}, {"e2", e2, nullptr},
    {"e3", e3, nullptr}, {"f1", f1, f1_raw},  {"f2", f2, nullptr}, {"f3", f3, nullptr}, {"f4", f4, nullptr},
    {"f5", f5, nullptr}, {"f6", f6, nullptr}, {"f7", f7, nullptr}, {"f8", f8, nullptr}, {"i1", b1, i1_raw},
    {"i2", i2, i2_raw},
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

double least(const std::vector<double>& values) {
    return *std::min_element(values.begin(), values.end());
}

void run(const Workload& workload, int repetitions) {
    std::vector<double> ours, raw, ratios;
    for (int repetition = -1; repetition < repetitions; ++repetition) {
        const double raw_ns = workload.raw != nullptr ? workload.raw() : 1;
        const double ours_ns = workload.ours();
        if (repetition < 0) continue;
        ours.push_back(ours_ns);
        raw.push_back(raw_ns);
        ratios.push_back(ours_ns / raw_ns);
    }
    const std::string name(workload.name);
    std::printf("ecs.%s.ns=%.3f\n", name.c_str(), median(ours));
    std::printf("ecs.%s.best_ns=%.3f\n", name.c_str(), least(ours));
    if (workload.raw != nullptr) {
        std::printf("raw.%s.ns=%.3f\n", name.c_str(), median(raw));
        std::printf("ecs.%s.ratio=%.3f\n", name.c_str(), median(ratios));
    }
    std::fflush(stdout);
}

void run_collecting(int repetitions) {
    struct Figures {
        const char* name;
        Collecting (*measure)(std::uint32_t);
        std::uint32_t entities;
        std::vector<double> modify_ns, list_us, collect_us;
    };
    Figures figures[] = {{"raw.g", collect_changes_raw, 100'000, {}, {}, {}},
                         {"ecs.g", collect_changes, 100'000, {}, {}, {}},
                         {"raw.g.1M", collect_changes_raw, 1'000'000, {}, {}, {}},
                         {"ecs.g.1M", collect_changes, 1'000'000, {}, {}, {}}};
    for (int repetition = -1; repetition < repetitions; ++repetition)
        for (Figures& figure : figures) {
            const Collecting measured = figure.measure(figure.entities);
            if (repetition < 0) continue;
            figure.modify_ns.push_back(measured.modify_ns);
            figure.list_us.push_back(measured.list_us);
            figure.collect_us.push_back(measured.collect_us);
        }
    for (const Figures& figure : figures) {
        std::printf("%s.modify.ns=%.2f\n", figure.name, median(figure.modify_ns));
        if (median(figure.list_us) > 0) std::printf("%s.list.us=%.2f\n", figure.name, median(figure.list_us));
        std::printf("%s.collect.us=%.2f\n", figure.name, median(figure.collect_us));
    }
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    int repetitions = 7;
    std::string only;
    for (int i = 1; i < argc; i += 2) {
        const std::string_view flag = argv[i];
        if (i + 1 == argc) fail("a flag needs a value");
        if (flag == "--reps")
            repetitions = std::atoi(argv[i + 1]);
        else if (flag == "--only")
            only = argv[i + 1];
        else
            fail("unknown flag " + std::string(flag));
    }
    if (repetitions < 1) fail("--reps is at least 1");
    const auto is_wanted = [&](std::string_view name) {
        return only.empty() || ("," + only + ",").find("," + std::string(name) + ",") != std::string::npos;
    };
    if (is_wanted("h")) print_memory();
    for (const Workload& workload : kWorkloads) {
        if (is_wanted(workload.name)) run(workload, repetitions);
        if (workload.name == "f8" && is_wanted("g")) run_collecting(repetitions);
    }
}
