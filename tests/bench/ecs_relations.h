#pragma once
// What a destruction costs in graphs of relations of three sizes. It should not grow with the graph.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecs/world.h"
#include "tests/bench/ecs_values.h"

namespace ecs_bench {

struct Child {
    static constexpr auto relation = exclusive | destroy_with_target;
};
struct Right {
    static constexpr auto relation = exclusive;
};
struct Down {
    static constexpr auto relation = exclusive;
};
struct Likes {
    static constexpr auto relation = destroy_with_target;
};

/// Builds a graph of about `count` entities, and returns those to destroy, oldest first.
using BuildGraph = Entities (*)(World& world, std::uint32_t count);

inline Entities chain(World& world, std::uint32_t count) {
    Entities all{world.spawn(Position{})};
    while (all.size() < count) {
        const Entity last = all.back();
        all.push_back(world.spawn(Position{}));
        world.add(all.back(), to<Child>(last));
    }
    return all;
}

inline Entities star(World& world, std::uint32_t count) {
    Entities all{world.spawn(Position{})};
    while (all.size() < count) {
        all.push_back(world.spawn(Position{}));
        world.add(all.back(), to<Right>(all.front()));
    }
    return all;
}

/// A source for each target. The sources have a common target as well.
inline Entities targets(World& world, std::uint32_t count) {
    const Entity hall = world.spawn();
    Entities all;
    while (all.size() < count / 2) {
        all.push_back(world.spawn(Position{}));
        const Entity source = world.spawn(Position{});
        world.add(source, to<Down>(hall));
        world.add(source, to<Right>(all.back()));
    }
    return all;
}

/// Each entity of one half points at three of the other half.
inline Entities bipartite(World& world, std::uint32_t count) {
    Entities all;
    std::mt19937 random(7);
    while (all.size() < count / 2) all.push_back(world.spawn(Position{}));
    for (std::uint32_t i = 0; i < count / 2; ++i) {
        const Entity source = world.spawn(Position{});
        for (int n = 0; n < 3; ++n) world.add(source, to<Likes>(all[random() % all.size()]));
    }
    return all;
}

/// Each cell points at the one before it in its row, and at the one before it in its column.
inline Entities grid(World& world, std::uint32_t count) {
    Entities all;
    std::uint32_t width = 1;
    while (width * width < count) ++width;
    for (std::uint32_t i = 0; i < width * width; ++i) {
        all.push_back(world.spawn(Position{}));
        if (i % width != 0) world.add(all.back(), to<Right>(all[i - 1]));
        if (i >= width) world.add(all.back(), to<Down>(all[i - width]));
    }
    return all;
}

/// The time to destroy each entity of a graph, in nanoseconds.
inline double destroy_graph(BuildGraph build, std::string_view order, std::uint32_t count) {
    World world;
    Entities all = build(world, count);
    const double entities = world.size();
    if (order == "newest_first") std::reverse(all.begin(), all.end());
    if (order == "random") std::shuffle(all.begin(), all.end(), std::mt19937(5));
    return timed(entities, [&] {
        for (const Entity entity : all) world.destroy(entity);
    });
}

/// Prints the best of some repetitions for 1,000, 10,000 and 100,000 entities.
inline void print_relations(int repetitions) {
    constexpr std::pair<const char*, BuildGraph> kGraphs[] = {
        {"chain", chain}, {"star", star}, {"targets", targets}, {"bipartite", bipartite}, {"grid", grid}};
    for (const auto& [name, build] : kGraphs)
        for (const char* order : {"oldest_first", "newest_first", "random"})
            for (const std::uint32_t count : {1'000u, 10'000u, 100'000u}) {
                double best = destroy_graph(build, order, count);
                for (int n = 1; n < repetitions; ++n)
                    best = std::min(best, destroy_graph(build, order, count));
                std::printf("ecs.r.%s.%s.%u.best_ns=%.0f\n", name, order, count, best);
                std::fflush(stdout);
            }
}

}  // namespace ecs_bench
