// The race of tests/ecs/support/race.h, with random numbers from the fuzzer: two bytes per step. The fuzzer
// shapes the script, and every input is a valid script.

#include "tests/ecs/support/race.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::size_t at = 0;
    const ecs_race::Outcome outcome = ecs_race::race([&]() -> std::optional<std::uint64_t> {
        if (size - at < 2) return std::nullopt;
        const std::uint64_t dice = ecs_race::mix(data[at] * 256u + data[at + 1] + 1u);
        at += 2;
        return dice;
    });
    if (outcome.difference.empty()) return 0;
    std::fprintf(stderr, "%s\n", outcome.difference.c_str());
    std::abort();
}
