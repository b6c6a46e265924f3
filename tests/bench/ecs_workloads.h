#pragma once
// The workloads of the ecs bench, but for collecting and memory: each makes a world, runs once, and
// returns nanoseconds per entity or operation. Those on bare arrays end in _raw; more of those are in
// ecs_rows.h.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "ecs/query.h"
#include "ecs/world.h"
#include "tests/bench/ecs_values.h"

namespace ecs_bench {

// a: creation

inline double a1() {
    World world;
    Entities entities = room(kMany);
    return timed(kMany, [&] {
        for (std::uint32_t i = 0; i < kMany; ++i) {
            const Entity entity = world.spawn();
            world.set(entity, position(i));
            world.set(entity, velocity(i));
            entities.push_back(entity);
        }
    });
}

/// Values, ids and rows, each in an array that grows.
inline double a1_raw() {
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

inline void spawn_all(World& world, Entities& entities) {
    for (std::uint32_t i = 0; i < kMany; ++i) entities.push_back(world.spawn(position(i), velocity(i)));
}

inline double a2() {
    World world;
    Entities entities = room(kMany);
    return timed(kMany, [&] { spawn_all(world, entities); });
}

inline double a3() {
    const Arrays values(kMany);
    World world;
    Entities entities;
    return timed(kMany, [&] {
        entities = world.spawn_n<Position, Velocity>(kMany, [&](std::uint32_t i, Position& p, Velocity& v) {
            p = values.positions[i];
            v = values.velocities[i];
        });
    });
}

inline double a3_raw() {
    const Arrays values(kMany);
    std::vector<Position> positions;
    std::vector<Velocity> velocities;
    Entities ids, entities;
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

inline double a4() {
    World world;
    Entities entities = fill(world);
    for (const Entity entity : entities) world.destroy(entity);
    entities.clear();
    return timed(kMany, [&] { spawn_all(world, entities); });
}

// b: iteration

/// p += v * dt, ours and on bare arrays.
inline double iterate(std::uint32_t count, int passes) {
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

inline void move_rows(Position* p, const Velocity* v, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
        p[i].x += v[i].x * kDt;
        p[i].y += v[i].y * kDt;
        p[i].z += v[i].z * kDt;
    }
}

inline double iterate_raw(std::uint32_t count, int passes) {
    Arrays arrays(count);
    return timed(double{passes * 1.0} * count, [&] {
        for (int pass = 0; pass < passes; ++pass) {
            move_rows(arrays.positions.data(), arrays.velocities.data(), count);
            keep(&arrays);
        }
    });
}

inline double b1() {
    return iterate(kMany, 10);
}
inline double b1_raw() {
    return iterate_raw(kMany, 10);
}
inline double b2() {
    return iterate(10'000, 2000);
}
inline double b2_raw() {
    return iterate_raw(10'000, 2000);
}

inline double b3() {
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
inline double b3_raw() {
    std::vector<float> p, v, a;
    for (std::uint32_t i = 0; i < 3 * kMany; ++i) {
        p.push_back(1);
        v.push_back(2);
        a.push_back(3);
    }
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

inline double fragments(std::uint32_t each, int passes) {
    World world;
    fill_fragments(world, each, std::make_integer_sequence<int, kFragments>{});
    Query<Data> all{world};
    return timed(double{passes * 1.0} * kFragments * each, [&] {
        for (int pass = 0; pass < passes; ++pass) all.each([](Data& data) { data.value *= 2; });
    });
}

inline double fragments_raw(std::uint32_t each, int passes) {
    std::vector<std::vector<float>> tables(kFragments);
    for (std::vector<float>& table : tables)
        for (std::uint32_t i = 0; i < each; ++i) table.push_back(1);
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

inline double b4() {
    return fragments(40'000, 20);
}
inline double b4_raw() {
    return fragments_raw(40'000, 20);
}
inline double b5() {
    return fragments(20, 20'000);
}
inline double b5_raw() {
    return fragments_raw(20, 20'000);
}

inline double b6() {
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

inline double b6_raw() {
    std::vector<Arrays> tables(256, Arrays(16));
    return timed(2000.0 * 4096, [&] {
        for (int pass = 0; pass < 2000; ++pass)
            for (Arrays& table : tables) {
                move_rows(table.positions.data(), table.velocities.data(), 16);
                keep(&table);
            }
    });
}

// c: structural changes. What is added by set() has a value; add() makes the default one.

enum class Addition { set, add };

template <class T, Addition addition = Addition::set>
void add_all(World& world, const Entities& entities) {
    for (const Entity entity : entities)
        if constexpr (addition == Addition::set) {
            world.set(entity, T{});
        } else {
            world.add<T>(entity);
        }
}

template <class T>
void remove_all(World& world, const Entities& entities) {
    for (const Entity entity : entities) world.remove<T>(entity);
}

template <class T, Addition addition = Addition::set>
double time_additions() {
    World world;
    const Entities entities = fill(world);
    return timed(kMany, [&] { add_all<T, addition>(world, entities); });
}

template <class T>
double time_removals() {
    World world;
    const Entities entities = fill(world);
    add_all<T>(world, entities);
    return timed(kMany, [&] { remove_all<T>(world, entities); });
}

inline double time_additions_and_removals(World& world, const Entities& entities) {
    return timed(kMany, [&] {
        add_all<Extra>(world, entities);
        remove_all<Extra>(world, entities);
    });
}

inline double c1() {
    return time_additions<Extra>();
}
inline double c1a() {
    return time_additions<Extra, Addition::add>();
}
inline double c2() {
    return time_removals<Extra>();
}
inline double c3() {
    World world;
    const Entities entities = fill(world);
    return timed(kMany, [&] {
        for (const Entity entity : entities) {
            world.set(entity, Extra{1});
            world.remove<Extra>(entity);
        }
    });
}
inline double c4() {
    return time_additions<TagT>();
}
inline double c4a() {
    return time_additions<TagT, Addition::add>();
}
inline double c5() {
    return time_removals<TagT>();
}
inline double c6() {
    World world;
    return time_additions_and_removals(world, shuffled(fill(world)));
}

// d: random access

inline double read_all(const World& world, const Entities& entities) {
    float sum = 0;
    const double ns = timed(kMany, [&] {
        for (const Entity entity : entities) sum += world.get<Position>(entity).x;
    });
    keep(&sum);
    return ns;
}

inline double d1() {
    World world;
    return read_all(world, shuffled(fill(world)));
}
inline double d2() {
    World world;
    return read_all(world, fill(world));
}

inline double read_all_raw(const std::vector<std::uint32_t>& rows) {
    const Arrays arrays(kMany);
    float sum = 0;
    const double ns = timed(kMany, [&] {
        for (const std::uint32_t row : rows) sum += arrays.positions[row].x;
    });
    keep(&sum);
    return ns;
}

inline double d1_raw() {
    return read_all_raw(shuffled_rows(kMany));
}
inline double d2_raw() {
    std::vector<std::uint32_t> rows(kMany);
    std::iota(rows.begin(), rows.end(), 0u);
    return read_all_raw(rows);
}

// e: destruction

inline double destroy_all(bool in_order) {
    World world;
    Entities entities = fill(world);
    if (!in_order) entities = shuffled(std::move(entities));
    return timed(kMany, [&] {
        for (const Entity entity : entities) world.destroy(entity);
    });
}

inline double e1() {
    return destroy_all(true);
}
inline double e2() {
    return destroy_all(false);
}
inline double e3() {
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

inline double f1() {
    return write_all<Write::set>(false);
}
inline double f1_raw() {
    Arrays arrays(kMany);
    return timed(kMany, [&] {
        for (Position& p : arrays.positions) {
            p = {1, 2, 3};
            keep(&p);  // one by one, as the caller of set() does
        }
    });
}
inline double f2() {
    return write_all<Write::set>(true);
}
inline double f3() {
    return write_all<Write::patch>(false);
}
inline double f4() {
    return write_all<Write::patch>(true);
}

template <class T>
std::array<Hook, 2> count_add_and_remove(World& world, std::uint64_t& calls) {
    const auto count = [counter = &calls](World&, Entity, const T&) { ++*counter; };
    return {world.on_add<T>(count), world.on_remove<T>(count)};
}

inline double f5() {
    World world;
    std::uint64_t calls = 0;
    const auto hooks = count_add_and_remove<Extra>(world, calls);
    const double ns = time_additions_and_removals(world, fill(world));
    require(calls == 2 * kMany, "add and remove hooks");
    return ns;
}
inline double f6() {
    World world;
    return time_additions_and_removals(world, fill(world));
}

inline double create_and_destroy(bool hooked) {
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
inline double f7() {
    return create_and_destroy(true);
}
inline double f8() {
    return create_and_destroy(false);
}

// i: iteration that notes what it wrote. By block is what every query does; by row is what Mut is for.

inline double i1_raw() {
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

inline double i2() {
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

inline double i2_raw() {
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

}  // namespace ecs_bench
