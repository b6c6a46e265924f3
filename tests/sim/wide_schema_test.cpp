// A schema far larger than a packet: 60 components of ten floats each, and entities of 20 kB, through 5 %
// loss.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/session.h"

namespace shoal::sim {
namespace {

constexpr int kComponents = 60;

template <int>
struct Wide {
    float at[10] = {};
};
struct Freight {
    std::vector<std::uint8_t> bytes;
};

template <int... I>
replication::Schema wide_schema(std::integer_sequence<int, I...>) {
    replication::Schema schema;
    (schema.component<Wide<I>>("wide " + std::to_string(I)), ...);
    schema.component<Freight>("freight", replication::max_length(20'000));
    return schema;
}

/// Writes to one component, or adds or removes it.
template <int I>
void change(ecs::World& world, ecs::Entity entity, Random& random) {
    if (random.chance(0.1)) {
        world.remove<Wide<I>>(entity);
    } else {
        Wide<I> value = world.has<Wide<I>>(entity) ? world.get<Wide<I>>(entity) : Wide<I>{};
        for (float& f : value.at)
            if (random.chance(0.3)) f = static_cast<float>(random.between(-100, 100));
        world.set(entity, value);
    }
}
using Change = void (*)(ecs::World&, ecs::Entity, Random&);
template <int... I>
std::vector<Change> changes(std::integer_sequence<int, I...>) {
    return {&change<I>...};
}

TEST(WideSchema, Rule11SixtyComponentsOfTenFloatsAndEntitiesOf20KilobytesAgreeThroughLoss) {
    const auto all = std::make_integer_sequence<int, kComponents>();
    const replication::Schema schema = wide_schema(all);
    ASSERT_EQ(schema.error(), "");
    const std::vector<Change> change_component = changes(all);
    net::LinkConfig link;
    link.latency = std::chrono::milliseconds(40);
    link.jitter = std::chrono::milliseconds(10);
    link.loss = 0.05;
    Session session(schema, link, 2);
    ecs::World& world = session.world();
    Random random(1);
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 12; ++i) {
        entities.push_back(world.spawn(replication::Replicated{}));
        for (const Change change : change_component) change(world, entities.back(), random);
        if (i % 3 == 0) world.set(entities.back(), Freight{std::vector<std::uint8_t>(20'000, 7)});
    }
    for (int tick = 0; tick < 600; ++tick) {
        for (int n = 0; n < 3; ++n)
            change_component[random.below(kComponents)](world, entities[random.below(12)], random);
        if (tick % 40 == 0)
            world.patch<Freight>(entities[3 * random.below(4)],
                                 [&](Freight& freight) { freight.bytes[random.below(20'000)] += 1; });
        session.step();
    }
    session.converge(3'000);
    session.expect_agreement(12);
}

}  // namespace
}  // namespace shoal::sim
