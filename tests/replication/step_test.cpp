#include "replication/predict/step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace shoal::replication::impl::step_test {
namespace {

struct Fuel {
    std::uint32_t litres = 0;
};

struct NetIds final : EntityMap {
    std::uint32_t to_net(ecs::Entity entity) override { return entity ? entity.index + 7 : 0; }
    ecs::Entity to_entity(std::uint32_t) override { return {}; }
};

TEST(Step, RandomNumbersDependOnTheTickTheSeedTheNumberAndTheSalt) {
    ecs::World world;
    StepQueries queries(world);
    NetIds map;
    const ecs::Entity a = world.spawn(), b = world.spawn();
    const Step::Context context{queries, map, 5, false}, other_seed{queries, map, 6, false};
    const Step step(100, 0.02f, true, context), next(101, 0.02f, true, context);
    const Step again(100, 0.02f, false, context), elsewhere(100, 0.02f, true, other_seed);
    EXPECT_EQ(step.random(3), again.random(3));
    EXPECT_EQ(step.random(a), again.random(a));
    std::vector<std::uint64_t> all{
        step.random(3), step.random(4), step.random(3, 1), next.random(3), elsewhere.random(3),
        step.random(a), step.random(b), step.random(a, 1), next.random(a), elsewhere.random(a)};
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

// The bits of many numbers are ones as often as zeros.
TEST(Step, RandomNumbersHaveNoPattern) {
    ecs::World world;
    StepQueries queries(world);
    NetIds map;
    const Step::Context context{queries, map, 0, false};
    int ones[64] = {};
    for (Tick tick = 0; tick < 4'000; ++tick) {
        const std::uint64_t number = Step(tick, 0.02f, true, context).random(1);
        for (int bit = 0; bit < 64; ++bit) ones[bit] += number >> bit & 1;
    }
    for (int bit = 0; bit < 64; ++bit) EXPECT_NEAR(ones[bit], 2'000, 160) << bit;
}

TEST(Step, AClientVisitsOnlyWhatItPredicts) {
    ecs::World world;
    StepQueries queries(world);
    NetIds map;
    world.spawn(Fuel{1});
    world.spawn(Fuel{2}, Predicted{});
    std::uint32_t sum = 0;
    const auto add = [&](const Fuel& fuel) { sum += fuel.litres; };
    const Step::Context on_server{queries, map, 0, false}, on_client{queries, map, 0, true};
    Step(1, 0.02f, true, on_client).each<const Fuel>(add);
    EXPECT_EQ(sum, 2u);
    Step(1, 0.02f, true, on_server).each<const Fuel>(add);
    EXPECT_EQ(sum, 5u);
    Step(1, 0.02f, true, on_client).each<const Fuel>(add);
    EXPECT_EQ(sum, 7u);
}

}  // namespace
}  // namespace shoal::replication::impl::step_test
