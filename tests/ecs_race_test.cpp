// The race of the world against its model, on fixed seeds: 40 of 400 steps, or RACE_SEEDS of RACE_STEPS
// from RACE_FIRST on.

#include "ecs_race.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST(World, MatchesMapOfMapsUnderRandomHooks) {
    const std::uint64_t seeds = setting("RACE_SEEDS", 40), steps = setting("RACE_STEPS", 400);
    const std::uint64_t first = setting("RACE_FIRST", 1);
    std::size_t events = 0;
    for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::uint64_t step = 0;
        events += ecs_race::race([&]() -> std::optional<std::uint64_t> {
            if (step == steps) return std::nullopt;
            return ecs_race::mix(seed * 1'000'003 + step++);
        });
        if (HasFailure()) return;
    }
    EXPECT_GT(events, seeds * 100);  // the hooks did take part
}
