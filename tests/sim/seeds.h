#pragma once
// Which seeds a simulation runs.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace shoal::sim {

/// Returns the seeds of an environment variable, which is first:count. If it is not set, returns 1 to
/// `count`.
inline std::vector<std::uint64_t> seeds_to_run(const char* variable, unsigned long long count) {
    unsigned long long first = 1;
    if (const char* wish = std::getenv(variable))
        if (std::sscanf(wish, "%llu:%llu", &first, &count) != 2)
            ADD_FAILURE() << variable << " is first:count";
    std::vector<std::uint64_t> seeds(count);
    std::iota(seeds.begin(), seeds.end(), first);
    return seeds;
}

/// The seeds of a simulation with one kind of state: those of SHOAL_KIND_SEEDS, or else 1 to `count`.
inline std::vector<std::uint64_t> kind_seeds(unsigned long long count) {
    return seeds_to_run("SHOAL_KIND_SEEDS", count);
}

}  // namespace shoal::sim
