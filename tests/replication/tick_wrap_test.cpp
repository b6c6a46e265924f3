// Ticks have 32 bits and are compared by their difference. These runs are longer than 2^31 ticks.

#include <gtest/gtest.h>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

/// Lets more than 2^32 ticks pass, in steps of 2^27.
void pass_time(Pair& pair) {
    for (int i = 0; i < 36; ++i) {
        pair.next_tick += 1u << 27;
        pair.exchange();
    }
}

TEST(TickWrap, Rule30AnEntityFollowsAfterItRestedForMoreThanAWrap) {
    Pair pair;
    const ecs::Entity moving = pair.spawn(at(1)), resting = pair.spawn(at(2));
    pair.exchange();
    for (int round = 0; round < 3; ++round) {
        pass_time(pair);
        pair.world.set(moving, at(static_cast<float>(10 + round)));
        pair.exchange();
        ASSERT_EQ(pair.on_client<sim::Position>(moving).x, static_cast<float>(10 + round));
        ASSERT_EQ(pair.on_client<sim::Position>(resting).x, 2);
    }
    EXPECT_EQ(pair.receiver.stats().rebases, 0u);
    EXPECT_EQ(pair.receiver.stats().refused_packets, 0u);
    EXPECT_TRUE(pair.sender.is_consistent() && pair.receiver.is_consistent());
}

TEST(TickWrap, Rule30ASlotThatWasFreeForMoreThanHalfAWrapTakesANewEntity) {
    for (const int steps : {17, 20, 25, 31, 33}) {
        SCOPED_TRACE(steps);
        Pair pair;
        const ecs::Entity first = pair.spawn(at(1));
        pair.exchange();
        pair.world.destroy(first);
        pair.exchange();
        ASSERT_EQ(pair.mirror.size(), 0u);
        for (int i = 0; i < steps; ++i) {
            pair.next_tick += 1u << 27;
            pair.exchange();
        }
        const ecs::Entity second = pair.spawn(at(2));
        pair.exchange();
        ASSERT_EQ(pair.mirror.size(), 1u);
        EXPECT_EQ(pair.on_client<sim::Position>(second).x, 2);
        EXPECT_EQ(pair.receiver.stats().stale_records, 0u);
    }
}

}  // namespace
}  // namespace shoal::replication::impl
