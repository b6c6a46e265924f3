// Compares the world with a model under random operations: RACE_SEEDS seeds of RACE_STEPS steps, beginning
// with RACE_FIRST. Sanitizers find more errors than the comparison, so most seeds run in g++ builds with
// sanitizers.

#include "tests/ecs/support/race.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

#if defined(__SANITIZE_ADDRESS__)  // g++
constexpr std::uint64_t kSeeds = 1'000;
#else
constexpr std::uint64_t kSeeds = 100;
#endif

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST(World, MatchesModelUnderRandomHooks) {
    const std::uint64_t seeds = setting("RACE_SEEDS", kSeeds), steps = setting("RACE_STEPS", 2'000);
    const std::uint64_t first = setting("RACE_FIRST", 1);
    std::size_t events = 0;
    for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
        std::uint64_t step = 0;
        const ecs_race::Outcome outcome = ecs_race::race([&]() -> std::optional<std::uint64_t> {
            if (step == steps) return std::nullopt;
            return ecs_race::mix(seed * 1'000'003 + step++);
        });
        ASSERT_EQ(outcome.difference, "") << "seed " << seed;
        events += outcome.events;
    }
    EXPECT_GT(events, seeds * steps * 2);  // hooks did run
}
