// What the world's operations cost, in CPU time, each next to the same work on bare arrays where there
// is such a thing.
//
//   build/bench/ecs [--reps N] [--only a1,b1,...]
//
//   ecs.<workload>.ns       per entity, or per operation: the median of the repetitions
//   ecs.<workload>.best_ns  the least
//   raw.<workload>.ns       bare arrays, measured in the same run, in turn with ours
//   ecs.<workload>.ratio    ours to raw, the median of the turns
//   ecs.g.*, ecs.h.*        collecting changes; memory
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
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecs/change_collector.h"
#include "ecs/query.h"
#include "ecs/world.h"

namespace {

using namespace shoal::ecs;

struct Position {
    float x, y, z;
};
struct Velocity {
    float x, y, z;
};
struct Accel {
    float x, y, z;
};
struct Extra {
    std::int32_t value;
};
struct TagT {};
struct Data {
    float value;
};
template <int I>
struct Frag {
    char value;
};
template <int I>
struct Bit {
    std::int32_t value;
};

constexpr float kDt = 1.0f / 60;
constexpr std::uint32_t kMany = 1'000'000;

using Entities = std::vector<Entity>;

double cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// The compiler must assume that this reads and writes all memory.
void keep(const void* what) {
    asm volatile("" : : "g"(what) : "memory");
}

[[noreturn]] void fail(const std::string& why) {
    std::fprintf(stderr, "ecs: %s\n", why.c_str());
    std::exit(2);
}

void require(bool is_so, const char* what) {
    if (!is_so) fail(std::string("wrong result: ") + what);
}

/// Runs `fn` once, `operations` of them; in ns each.
template <class Fn>
double timed(double operations, Fn&& fn) {
    const double start = cpu_ns();
    fn();
    return (cpu_ns() - start) / operations;
}

Position position(std::uint32_t i) {
    return {static_cast<float>(i), 1, 2};
}
Velocity velocity(std::uint32_t i) {
    return {1, static_cast<float>(i), 3};
}

Entities room(std::uint32_t count) {
    Entities entities(count);  // its pages are there before the clock starts
    entities.clear();
    return entities;
}

Entities fill(World& world, std::uint32_t count = kMany) {
    Entities entities = room(count);
    for (std::uint32_t i = 0; i < count; ++i) entities.push_back(world.spawn(position(i), velocity(i)));
    return entities;
}

template <class T>
std::vector<T> shuffled(std::vector<T> values) {
    std::shuffle(values.begin(), values.end(), std::mt19937(12345));
    return values;
}

std::vector<std::uint32_t> shuffled_rows(std::uint32_t count) {
    std::vector<std::uint32_t> rows(count);
    std::iota(rows.begin(), rows.end(), 0u);
    return shuffled(std::move(rows));
}

/// The values of P and V on bare arrays.
struct Arrays {
    explicit Arrays(std::uint32_t count) : positions(count), velocities(count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            positions[i] = position(i);
            velocities[i] = velocity(i);
        }
    }
    std::vector<Position> positions;
    std::vector<Velocity> velocities;
};

// a: creation

double a1() {
    World world;
    Entities entities = room(kMany);
    return timed(kMany, [&] {
        for (std::uint32_t i = 0; i < kMany; ++i) {
            const Entity entity = world.create();
            world.set(entity, position(i));
            world.set(entity, velocity(i));
            entities.push_back(entity);
        }
    });
}

/// Values, ids and rows, each in an array that grows.
double a1_raw() {
    std::vector<Position> positions;
    std::vector<Velocity> velocities;
    Entities entities = room(kMany), ids;
    std::vector<std::uint32_t> rows;
    return timed(kMany, [&] {
        for (std::uint32_t i = 0; i < kMany; ++i) {
            positions.push_back(position(i));
            velocities.push_back(velocity(i));
            ids.push_back({i, 1});
            rows.push_back(i);
            entities.push_back({i, 1});
            keep(&rows);
        }
    });
}

void spawn_all(World& world, Entities& entities) {
    for (std::uint32_t i = 0; i < kMany; ++i) entities.push_back(world.spawn(position(i), velocity(i)));
}

double a2() {
    World world;
    Entities entities = room(kMany);
    return timed(kMany, [&] { spawn_all(world, entities); });
}

double a3() {
    const Arrays values(kMany);
    World world;
    Entities entities = room(kMany);
    return timed(kMany, [&] {
        for (std::uint32_t i = 0; i < kMany; ++i)
            entities.push_back(world.spawn(values.positions[i], values.velocities[i]));
    });
}

double a3_raw() {
    const Arrays values(kMany);
    Entities entities = room(kMany);
    std::vector<Position> positions;
    std::vector<Velocity> velocities;
    Entities ids;
    std::vector<std::uint32_t> rows;
    return timed(kMany, [&] {
        positions.assign(values.positions.begin(), values.positions.end());
        velocities.assign(values.velocities.begin(), values.velocities.end());
        ids.resize(kMany);
        rows.resize(kMany);
        for (std::uint32_t i = 0; i < kMany; ++i) {
            ids[i] = {i, 1};
            rows[i] = i;
        }
        entities.assign(ids.begin(), ids.end());
        keep(entities.data());
    });
}

double a4() {
    World world;
    Entities entities = fill(world);
    for (const Entity entity : entities) world.destroy(entity);
    entities.clear();
    return timed(kMany, [&] { spawn_all(world, entities); });
}

// b: iteration

/// p += v * dt, ours and on bare arrays.
double iterate(std::uint32_t count, int passes) {
    World world;
    fill(world, count);
    Query<Position, const Velocity> moving{world};
    return timed(double{passes * 1.0} * count, [&] {
        for (int pass = 0; pass < passes; ++pass)
            moving.each([](Position& p, const Velocity& v) {
                p.x += v.x * kDt;
                p.y += v.y * kDt;
                p.z += v.z * kDt;
            });
    });
}

void move_rows(Position* p, const Velocity* v, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
        p[i].x += v[i].x * kDt;
        p[i].y += v[i].y * kDt;
        p[i].z += v[i].z * kDt;
    }
}

double iterate_raw(std::uint32_t count, int passes) {
    Arrays arrays(count);
    return timed(double{passes * 1.0} * count, [&] {
        for (int pass = 0; pass < passes; ++pass) {
            move_rows(arrays.positions.data(), arrays.velocities.data(), count);
            keep(&arrays);
        }
    });
}

double b1() {
    return iterate(kMany, 10);
}
double b1_raw() {
    return iterate_raw(kMany, 10);
}
double b2() {
    return iterate(10'000, 2000);
}
double b2_raw() {
    return iterate_raw(10'000, 2000);
}

double b3() {
    World world;
    for (std::uint32_t i = 0; i < kMany; ++i) world.spawn(position(i), velocity(i), Accel{1, 2, 3});
    Query<Position, Velocity, const Accel> moving{world};
    return timed(10.0 * kMany, [&] {
        for (int pass = 0; pass < 10; ++pass)
            moving.each([](Position& p, Velocity& v, const Accel& a) {
                v.x += a.x * kDt;
                v.y += a.y * kDt;
                v.z += a.z * kDt;
                p.x += v.x * kDt;
                p.y += v.y * kDt;
                p.z += v.z * kDt;
            });
    });
}

/// Flat: the compiler does not vectorise a loop over three kinds of struct.
double b3_raw() {
    std::vector<float> p(3 * kMany, 1), v(3 * kMany, 2), a(3 * kMany, 3);
    return timed(10.0 * kMany, [&] {
        for (int pass = 0; pass < 10; ++pass) {
            float* const to = p.data();
            float* const by = v.data();
            const float* const add = a.data();
            for (std::uint32_t i = 0; i < 3 * kMany; ++i) {
                by[i] += add[i] * kDt;
                to[i] += by[i] * kDt;
            }
            keep(&p);
        }
    });
}

constexpr std::uint32_t kFragments = 26;

template <int... I>
void fill_fragments(World& world, std::uint32_t each, std::integer_sequence<int, I...>) {
    const auto fill_one = [&]<int J>(Frag<J>) {
        for (std::uint32_t i = 0; i < each; ++i) world.spawn(Data{1}, Frag<J>{1});
    };
    (fill_one(Frag<I>{}), ...);
}

double fragments(std::uint32_t each, int passes) {
    World world;
    fill_fragments(world, each, std::make_integer_sequence<int, kFragments>{});
    Query<Data> all{world};
    return timed(double{passes * 1.0} * kFragments * each, [&] {
        for (int pass = 0; pass < passes; ++pass) all.each([](Data& data) { data.value *= 2; });
    });
}

double fragments_raw(std::uint32_t each, int passes) {
    std::vector<std::vector<float>> tables(kFragments, std::vector<float>(each, 1));
    return timed(double{passes * 1.0} * kFragments * each, [&] {
        for (int pass = 0; pass < passes; ++pass) {
            for (std::vector<float>& table : tables) {
                float* const values = table.data();
                for (std::uint32_t i = 0; i < each; ++i) values[i] *= 2;
            }
            keep(&tables);
        }
    });
}

double b4() {
    return fragments(40'000, 20);
}
double b4_raw() {
    return fragments_raw(40'000, 20);
}
double b5() {
    return fragments(20, 20'000);
}
double b5_raw() {
    return fragments_raw(20, 20'000);
}

double b6() {
    World world;
    const std::array<ComponentId, 8> bits = {world.component<Bit<0>>(), world.component<Bit<1>>(),
                                             world.component<Bit<2>>(), world.component<Bit<3>>(),
                                             world.component<Bit<4>>(), world.component<Bit<5>>(),
                                             world.component<Bit<6>>(), world.component<Bit<7>>()};
    for (std::uint32_t subset = 0; subset < 256; ++subset)
        for (std::uint32_t i = 0; i < 16; ++i) {
            const Entity entity = world.spawn(position(i), velocity(i));
            std::int32_t value = 1;
            for (std::uint32_t bit = 0; bit < 8; ++bit)
                if ((subset >> bit & 1) != 0) world.set(entity, bits[bit], &value);
        }
    Query<Position, const Velocity> moving{world};
    require(moving.count() == 4096, "b6");
    return timed(2000.0 * 4096, [&] {
        for (int pass = 0; pass < 2000; ++pass)
            moving.each([](Position& p, const Velocity& v) {
                p.x += v.x * kDt;
                p.y += v.y * kDt;
                p.z += v.z * kDt;
            });
    });
}

double b6_raw() {
    std::vector<Arrays> tables(256, Arrays(16));
    return timed(2000.0 * 4096, [&] {
        for (int pass = 0; pass < 2000; ++pass)
            for (Arrays& table : tables) {
                move_rows(table.positions.data(), table.velocities.data(), 16);
                keep(&table);
            }
    });
}

// c: structural changes

template <class T>
double add_all() {
    World world;
    const Entities entities = fill(world);
    return timed(kMany, [&] {
        for (const Entity entity : entities) world.set(entity, T{});
    });
}

template <class T>
double remove_all() {
    World world;
    const Entities entities = fill(world);
    for (const Entity entity : entities) world.set(entity, T{});
    return timed(kMany, [&] {
        for (const Entity entity : entities) world.remove<T>(entity);
    });
}

double add_remove_each(World& world, const Entities& entities) {
    return timed(kMany, [&] {
        for (const Entity entity : entities) {
            world.set(entity, Extra{1});
            world.remove<Extra>(entity);
        }
    });
}

double c1() {
    return add_all<Extra>();
}
double c2() {
    return remove_all<Extra>();
}
double c3() {
    World world;
    const Entities entities = fill(world);
    return add_remove_each(world, entities);
}
double c4() {
    return add_all<TagT>();
}
double c5() {
    return remove_all<TagT>();
}
double c6() {
    World world;
    const Entities entities = shuffled(fill(world));
    return timed(kMany, [&] {
        for (const Entity entity : entities) world.set(entity, Extra{1});
        for (const Entity entity : entities) world.remove<Extra>(entity);
    });
}

// d: random access

double read_all(const World& world, const Entities& entities) {
    float sum = 0;
    const double ns = timed(kMany, [&] {
        for (const Entity entity : entities) sum += world.get<Position>(entity).x;
    });
    keep(&sum);
    return ns;
}

double d1() {
    World world;
    return read_all(world, shuffled(fill(world)));
}
double d2() {
    World world;
    return read_all(world, fill(world));
}

double read_all_raw(const std::vector<std::uint32_t>& rows) {
    const Arrays arrays(kMany);
    float sum = 0;
    const double ns = timed(kMany, [&] {
        for (const std::uint32_t row : rows) sum += arrays.positions[row].x;
    });
    keep(&sum);
    return ns;
}

double d1_raw() {
    return read_all_raw(shuffled_rows(kMany));
}
double d2_raw() {
    std::vector<std::uint32_t> rows(kMany);
    std::iota(rows.begin(), rows.end(), 0u);
    return read_all_raw(rows);
}

// e: destruction

double destroy_all(bool in_order) {
    World world;
    Entities entities = fill(world);
    if (!in_order) entities = shuffled(std::move(entities));
    return timed(kMany, [&] {
        for (const Entity entity : entities) world.destroy(entity);
    });
}

double e1() {
    return destroy_all(true);
}
double e2() {
    return destroy_all(false);
}
double e3() {
    auto world = std::make_unique<World>();
    fill(*world);
    return timed(kMany, [&] { world.reset(); });
}

// f: values and hooks. The subscriber adds one to a counter through a pointer.

enum class Write { set, patch };

template <Write write>
double write_all(bool hooked) {
    World world;
    std::uint64_t calls = 0;
    Hook hook;
    if (hooked)
        hook = world.on_change<Position>([count = &calls](World&, Entity, const Position&) { ++*count; });
    const Entities entities = fill(world);
    const double ns = timed(kMany, [&] {
        for (const Entity entity : entities)
            if constexpr (write == Write::set) {
                world.set(entity, Position{1, 2, 3});
            } else {
                world.patch<Position>(entity, [](Position& p) { p.x += 1; });
            }
    });
    require(calls == (hooked ? kMany : 0), "change hooks");
    return ns;
}

double f1() {
    return write_all<Write::set>(false);
}
double f1_raw() {
    Arrays arrays(kMany);
    return timed(kMany, [&] {
        for (Position& p : arrays.positions) {
            p = {1, 2, 3};
            keep(&p);  // one by one, as the caller of set() does
        }
    });
}
double f2() {
    return write_all<Write::set>(true);
}
double f3() {
    return write_all<Write::patch>(false);
}
double f4() {
    return write_all<Write::patch>(true);
}

template <class T>
std::array<Hook, 2> count_add_and_remove(World& world, std::uint64_t& calls) {
    const auto count = [counter = &calls](World&, Entity, const T&) { ++*counter; };
    return {world.on_add<T>(count), world.on_remove<T>(count)};
}

double f5() {
    World world;
    std::uint64_t calls = 0;
    const auto hooks = count_add_and_remove<Extra>(world, calls);
    const Entities entities = fill(world);
    const double ns = add_remove_each(world, entities);
    require(calls == 2 * kMany, "add and remove hooks");
    return ns;
}
double f6() {
    return c3();
}

double create_and_destroy(bool hooked) {
    World world;
    std::uint64_t calls = 0;
    std::array<Hook, 2> hooks;
    if (hooked) hooks = count_add_and_remove<Position>(world, calls);
    Entities entities = room(kMany);
    const double ns = timed(kMany, [&] {
        spawn_all(world, entities);
        for (const Entity entity : entities) world.destroy(entity);
    });
    require(calls == (hooked ? 2 * kMany : 0), "add and remove hooks");
    return ns;
}
double f7() {
    return create_and_destroy(true);
}
double f8() {
    return create_and_destroy(false);
}

// i: iteration that notes what it wrote. By block is what every query does; by row is what Mut is for.

double i1_raw() {
    Arrays arrays(kMany);
    std::vector<std::uint64_t> stamps(kMany / kBlockRows + 1);
    return timed(10.0 * kMany, [&] {
        for (std::uint64_t pass = 0; pass < 10; ++pass)
            for (std::uint32_t first = 0; first < kMany; first += kBlockRows) {
                move_rows(arrays.positions.data() + first, arrays.velocities.data() + first,
                          std::min(kBlockRows, kMany - first));
                stamps[first / kBlockRows] = pass;
            }
        keep(&stamps);
    });
}

double i2() {
    World world;
    fill(world);
    Query<Mut<Position>, const Velocity> moving{world};
    return timed(10.0 * kMany, [&] {
        for (int pass = 0; pass < 10; ++pass)
            moving.each([](Mut<Position> position, const Velocity& v) {
                Position& p = *position;
                p.x += v.x * kDt;
                p.y += v.y * kDt;
                p.z += v.z * kDt;
            });
    });
}

double i2_raw() {
    Arrays arrays(kMany);
    std::vector<std::uint32_t> ticks(kMany);
    return timed(10.0 * kMany, [&] {
        for (std::uint32_t pass = 0; pass < 10; ++pass) {
            move_rows(arrays.positions.data(), arrays.velocities.data(), kMany);
            std::fill(ticks.begin(), ticks.end(), pass);
            keep(&ticks);
        }
    });
}

// g: 1,000 different random entities written per tick, then collected: each into a vector, its
// position read. 50 ticks.

constexpr std::uint32_t kTicks = 50;
constexpr std::uint32_t kWrites = 1000;

struct Collecting {
    double modify_ns = 0;
    double collect_us = 0;
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

double bytes_of_an_empty_world() {
    const double before = memory("VmRSS");
    World world;
    world.spawn(Position{}, Velocity{});
    return memory("VmRSS") - before;
}

void print_memory() {
    std::printf("ecs.h.bytes_per_entity=%.1f\n", in_child(bytes_per_entity));
    std::printf("ecs.h.empty_world.kib=%.0f\n", in_child(bytes_of_an_empty_world) / 1024);
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
        std::vector<double> modify_ns, collect_us;
    };
    Figures figures[] = {{"raw.g", collect_changes_raw, 100'000, {}, {}},
                         {"ecs.g", collect_changes, 100'000, {}, {}},
                         {"ecs.g.1M", collect_changes, 1'000'000, {}, {}}};
    for (int repetition = -1; repetition < repetitions; ++repetition)
        for (Figures& figure : figures) {
            const Collecting measured = figure.measure(figure.entities);
            if (repetition < 0) continue;
            figure.modify_ns.push_back(measured.modify_ns);
            figure.collect_us.push_back(measured.collect_us);
        }
    for (const Figures& figure : figures) {
        std::printf("%s.modify.ns=%.2f\n", figure.name, median(figure.modify_ns));
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
