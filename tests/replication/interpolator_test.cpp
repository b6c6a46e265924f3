#include "replication/show/interpolator.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::interpolator_test {
namespace {

struct Place {
    float x = 0;
};

Schema schema_to_show() {
    Schema schema;
    schema.component<Place>("place", linear());
    return schema;
}

/// Shows each tick half a tick after it, so that the state of the next tick is missing.
struct Shown {
    void step(bool moves) {
        if (moves)
            for (const ecs::Entity ship : ships) pair.world.set(ship, Place{static_cast<float>(++moved)});
        pair.tick();
        while (const std::optional<SentPacket> packet = pair.encode()) pair.deliver(*packet);
        const Tick tick = pair.next_tick - 1;
        interpolator.set_time({tick, 0.5f}, tick);
        pair.receiver.apply(tick);
        for (const ecs::Entity ship : ships) {
            Place place;
            interpolator.mix(pair.receiver.entity(pair.sender.net_id(ship)), &detail::type_address<Place>,
                             &place);
        }
    }
    void steps(int count, bool moves) {
        while (count-- > 0) step(moves);
    }

    Pair pair{{}, {}, 1, 1, schema_to_show()};
    Interpolator interpolator{pair.schema, pair.receiver.replicas()};
    std::vector<ecs::Entity> ships;
    int moved = 0;
};

TEST(Interpolator, ForgetsEntitiesThatAreGone) {
    Shown shown;
    shown.interpolator.set_tick_us(10'000);
    for (int i = 0; i < 10; ++i) shown.ships.push_back(shown.pair.spawn(Place{}));
    shown.steps(5, true);
    EXPECT_EQ(shown.interpolator.blend_count(), 10u);
    while (shown.ships.size() > 4) {
        shown.pair.world.destroy(shown.ships.back());
        shown.ships.pop_back();
    }
    shown.steps(20, false);  // 200 ms
    EXPECT_EQ(shown.interpolator.blend_count(), 10u) << "may be used still";
    shown.steps(10, false);
    EXPECT_EQ(shown.interpolator.blend_count(), 4u);
}

// Goal: an entity that takes the place of another one is not blended with what was shown of that one.
TEST(Interpolator, ANewEntityIsNotBlendedWithOneThatIsGone) {
    Shown shown;
    shown.interpolator.set_tick_us(10'000);
    const auto index = [&](ecs::Entity ship) {
        const Replicas& replicas = shown.pair.receiver.replicas();
        return replicas.ids().find(shown.pair.receiver.entity(shown.pair.sender.net_id(ship)));
    };
    shown.ships.push_back(shown.pair.spawn(Place{}));
    shown.steps(5, true);
    const std::uint32_t former = index(shown.ships[0]);
    shown.pair.world.destroy(shown.ships[0]);
    shown.ships.clear();
    shown.step(false);
    const ecs::Entity ship = shown.pair.spawn(Place{1'000});
    Place place;
    for (int i = 1; i <= 3; ++i) {
        shown.pair.world.set(ship, Place{1'000 + static_cast<float>(i)});
        shown.pair.tick();
        while (const std::optional<SentPacket> packet = shown.pair.encode()) shown.pair.deliver(*packet);
        const Tick tick = shown.pair.next_tick - 1;
        if (i == 3) shown.interpolator.set_time({tick - 1, 0.5f}, tick);
        shown.pair.receiver.apply(tick - 1);
    }
    ASSERT_EQ(index(ship), former);
    shown.interpolator.mix(shown.pair.receiver.entity(shown.pair.sender.net_id(ship)),
                           &detail::type_address<Place>, &place);
    EXPECT_FLOAT_EQ(place.x, 1'002.5f);
}

TEST(Interpolator, AVersionThatIsNotInTheWorldYetIsNotMixed) {
    Shown shown;
    shown.interpolator.set_tick_us(10'000);
    shown.ships.push_back(shown.pair.spawn(Place{}));
    shown.steps(5, true);
    shown.pair.world.set(shown.ships[0], Place{50});
    shown.pair.deliver(shown.pair.tick_and_encode());
    const Tick tick = shown.pair.next_tick - 1;
    shown.interpolator.set_time({tick, 0.5f}, tick);
    const auto mixed = [&] {
        Place place{-1};
        shown.interpolator.mix(shown.pair.receiver.entity(shown.pair.sender.net_id(shown.ships[0])),
                               &detail::type_address<Place>, &place);
        return place.x;
    };
    EXPECT_EQ(mixed(), -1);
    shown.pair.receiver.apply(tick);
    EXPECT_GT(mixed(), 50);
}

}  // namespace
}  // namespace shoal::replication::interpolator_test
