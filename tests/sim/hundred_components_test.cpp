// A schema of 100 components of all kinds: the set of components of an entity is larger than one word, and
// most entities have another set.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/session.h"

namespace shoal::sim {
namespace {

constexpr int kHundred = 100, kKinds = 5;

template <int Number, int Kind>
struct OfHundred;
template <int Number>
struct OfHundred<Number, 0> {
    float x = 0, y = 0;  // quantised
};
template <int Number>
struct OfHundred<Number, 1> {
    std::int32_t points = 0;  // bounded
    std::uint64_t bits = 0;
};
template <int Number>
struct OfHundred<Number, 2> {
    std::string text;
    bool is_shown = false;
};
template <int Number>
struct OfHundred<Number, 3> {
    ecs::Entity target;
    std::vector<ecs::Entity> others;
};
template <int Number>
struct OfHundred<Number, 4> {};
template <int Number>
using Hundred = OfHundred<Number, Number % kKinds>;

template <int Number>
void describe_one(replication::Schema& schema) {
    using C = Hundred<Number>;
    const std::string name = "component " + std::to_string(Number);
    if constexpr (Number % kKinds == 0) schema.component<C>(name, replication::quantised(-64, 64, 0.01));
    if constexpr (Number % kKinds == 1)
        schema.component<C>(name, replication::field(&C::points, replication::bounded(-100, 100)));
    if constexpr (Number % kKinds == 2 || Number % kKinds == 3) schema.component<C>(name);
    if constexpr (Number % kKinds == 4) schema.tag<C>(name);
}

/// Adds, changes or removes one component.
template <int Number>
void alter(ecs::World& world, const std::vector<ecs::Entity>& all, ecs::Entity entity, Random& random) {
    using C = Hundred<Number>;
    const auto pick = [&] { return all[random.below(static_cast<std::uint32_t>(all.size()))]; };
    if (world.has<C>(entity) && random.chance(Number % kKinds == 4 ? 0.5 : 0.2)) {
        world.remove<C>(entity);
        return;
    }
    if constexpr (Number % kKinds == 4) {
        world.add<C>(entity);
    } else {
        C value = world.has<C>(entity) ? world.get<C>(entity) : C{};
        if constexpr (Number % kKinds == 0) value.x = static_cast<float>(random.between(-70, 70));
        if constexpr (Number % kKinds == 1) value = {value.points + 1, random.next() >> random.below(64)};
        if constexpr (Number % kKinds == 2) value = {std::string(random.below(30), 'a'), random.chance(0.5)};
        if constexpr (Number % kKinds == 3) value = {pick(), std::vector(random.below(4), pick())};
        world.set(entity, std::move(value));
    }
}
using Alter = void (*)(ecs::World&, const std::vector<ecs::Entity>&, ecs::Entity, Random&);

template <int... Number>
replication::Schema hundred_schema(std::integer_sequence<int, Number...>) {
    replication::Schema schema;
    (describe_one<Number>(schema), ...);
    return schema;
}
template <int... Number>
std::vector<Alter> alterations(std::integer_sequence<int, Number...>) {
    return {&alter<Number>...};
}

TEST(HundredComponents, AgreeThroughLossWhileEntitiesChangeTheirSetsOfComponents) {
    const auto numbers = std::make_integer_sequence<int, kHundred>();
    const replication::Schema schema = hundred_schema(numbers);
    ASSERT_EQ(schema.error(), "");
    ASSERT_EQ(schema.components().size(), std::size_t{kHundred});
    const std::vector<Alter> alter_component = alterations(numbers);
    net::LinkConfig link;
    link.latency = std::chrono::milliseconds(40);
    link.jitter = std::chrono::milliseconds(10);
    link.loss = 0.05;
    Session session(schema, link, 2);
    Random random(2);
    std::vector<ecs::Entity> entities;
    const auto alter_some = [&](ecs::Entity entity, std::uint32_t count) {
        for (; count > 0; --count)
            alter_component[random.below(kHundred)](session.world(), entities, entity, random);
    };
    for (int i = 0; i < 40; ++i) {
        entities.push_back(session.world().spawn(replication::Replicated{}));
        alter_some(entities.back(), random.below(120));
    }
    for (int tick = 0; tick < 300; ++tick) {
        for (int n = 0; n < 6; ++n) alter_some(entities[random.below(40)], 1);
        if (tick % 10 == 0) {
            ecs::Entity& replaced = entities[random.below(40)];
            session.world().destroy(replaced);
            replaced = session.world().spawn(replication::Replicated{});
            alter_some(replaced, 60);
        }
        session.step();
    }
    session.converge(600);
    session.expect_agreement(40);
}

}  // namespace
}  // namespace shoal::sim
