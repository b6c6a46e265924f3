#pragma once
// What the workloads of the ecs bench have in common: components, their values, ids, and the clock.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ecs/world.h"

namespace ecs_bench {

using namespace shoal::ecs::impl;

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

inline double cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// The compiler must assume that this reads and writes all memory.
inline void keep(const void* what) {
    asm volatile("" : : "g"(what) : "memory");
}

[[noreturn]] inline void fail(const std::string& why) {
    std::fprintf(stderr, "ecs: %s\n", why.c_str());
    std::exit(2);
}

inline void require(bool is_so, const char* what) {
    if (!is_so) fail(std::string("wrong result: ") + what);
}

/// Runs `fn` once, `operations` of them; in ns each.
template <class Fn>
double timed(double operations, Fn&& fn) {
    const double start = cpu_ns();
    fn();
    return (cpu_ns() - start) / operations;
}

inline Position position(std::uint32_t i) {
    return {static_cast<float>(i), 1, 2};
}
inline Velocity velocity(std::uint32_t i) {
    return {1, static_cast<float>(i), 3};
}

inline Entities room(std::uint32_t count) {
    Entities entities(count);  // its pages are there before the clock starts
    entities.clear();
    return entities;
}

inline Entities fill(World& world, std::uint32_t count = kMany) {
    Entities entities = room(count);
    for (std::uint32_t i = 0; i < count; ++i) entities.push_back(world.spawn(position(i), velocity(i)));
    return entities;
}

template <class T>
std::vector<T> shuffled(std::vector<T> values) {
    std::shuffle(values.begin(), values.end(), std::mt19937(12345));
    return values;
}

inline std::vector<std::uint32_t> shuffled_rows(std::uint32_t count) {
    std::vector<std::uint32_t> rows(count);
    std::iota(rows.begin(), rows.end(), 0u);
    return shuffled(std::move(rows));
}

/// The values of P and V on bare arrays, which grow by turns as those of a world do: how the pages of
/// memory lie shows in loops over more than the caches hold.
struct Arrays {
    explicit Arrays(std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            positions.push_back(position(i));
            velocities.push_back(velocity(i));
        }
    }
    std::vector<Position> positions;
    std::vector<Velocity> velocities;
};

}  // namespace ecs_bench
