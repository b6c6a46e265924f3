// What the world's operations cost, in CPU time, each next to the same work on bare arrays where there
// is such a thing.
//
//   build/bench/ecs [--reps N] [--only a1,b1,...]
//
//   ecs.<workload>.ns       per entity, or per operation: the median of the repetitions
//   ecs.<workload>.best_ns  the least
//   raw.<workload>.ns       bare arrays, measured in the same run, in turn with ours; also best_ns
//   ecs.<workload>.ratio    ours to raw, the median of the turns
//   ecs.g.*, ecs.h.*        collecting changes; memory. list: only who changed, which does not depend on
//                           the size of the world; collect: with the values, which miss the caches of a
//                           large world, bare arrays' no less
//   ecs.r.<graph>.<order>.<entities>.best_ns   destroying an entity of a graph of relations
//
// Every repetition has a fresh world, built outside the timer, and ids in a vector of ours in the order
// of creation; one repetition before the first does not count. The bare arrays of c1, c2, c6, e2 and f6 are
// tables whose rows are moved by hand. c1a and c4a are c1 and c4 through add() in place of set().
//
// The ratios of other libraries to the same work on bare arrays, and of c1, c2, c6 and e2 to rows moved by
// hand, measured in turns in one program (g++ 12 -O3, x86-64, the best of 18):
//
//           EnTT 3.16  flecs 4.1.6  gaia-ecs 0.9.3          EnTT 3.16  flecs 4.1.6  gaia-ecs 0.9.3
//     a1          2.3          5.5                    b6          6.4          5.0              28
//     a3          3.9          3.0             4.0    c1         0.56          2.5
//     b1          6.5         0.95             2.0    c2          2.1          6.0
//     b2          7.7          1.0             1.8    c6         0.23          2.9
//     b3          5.5         0.94             2.3    e2          6.3          4.8
//     b4          8.1          1.0             2.3    f1           10           19
//     b5          5.2          5.5              21

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
#include "tests/bench/ecs_relations.h"
#include "tests/bench/ecs_rows.h"
#include "tests/bench/ecs_values.h"
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
    {"a1", a1, a1_raw},  {"a2", a2, nullptr}, {"a3", a3, a3_raw},  {"a4", a4, nullptr},
    {"b1", b1, b1_raw},  {"b2", b2, b2_raw},  {"b3", b3, b3_raw},  {"b4", b4, b4_raw},
    {"b5", b5, b5_raw},  {"b6", b6, b6_raw},  {"c1", c1, c1_raw},  {"c1a", c1a, c1_raw},
    {"c2", c2, c2_raw},  {"c3", c3, nullptr}, {"c4", c4, nullptr}, {"c4a", c4a, nullptr},
    {"c5", c5, nullptr}, {"c6", c6, c6_raw},  {"d1", d1, d1_raw},  {"d2", d2, d2_raw},
    {"e1", e1, nullptr}, {"e2", e2, e2_raw},  {"e3", e3, nullptr}, {"f1", f1, f1_raw},
    {"f2", f2, nullptr}, {"f3", f3, nullptr}, {"f4", f4, nullptr}, {"f5", f5, nullptr},
    {"f6", f6, f6_raw},  {"f7", f7, nullptr}, {"f8", f8, nullptr}, {"i1", b1, i1_raw},
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
        std::printf("raw.%s.best_ns=%.3f\n", name.c_str(), least(raw));
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
    if (is_wanted("r")) print_relations(std::min(repetitions, 3));
}
