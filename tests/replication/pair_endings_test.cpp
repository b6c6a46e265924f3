// The sources of pairs whose target ends before their own records arrive.

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::pair_endings_test {
namespace {

struct Admires {
    static constexpr auto relation = ecs::many;
};
struct Follows {
    static constexpr auto relation = ecs::exclusive;
    std::int32_t distance = 0;
};
struct PartOf {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};

Schema endings_schema() {
    Schema schema;
    schema.component<sim::Position>("position");
    schema.pair<Admires>("admires");
    schema.pair<Follows>("follows");
    schema.pair<PartOf>("part of");
    return schema;
}

/// Runs a tick and returns its payloads, each of one record if possible.
std::vector<SentPacket> payloads_of_a_tick(Pair& pair) {
    std::vector<SentPacket> payloads;
    pair.tick();
    while (const std::optional<SentPacket> packet = pair.encode(1)) payloads.push_back(*packet);
    return payloads;
}

// Of all records of the tick in which the target ends, one arrives.
TEST(PairEndings, OnlySourcesOfDestroyWithTargetDieWithTheirTarget) {
    int targets_ended = 0;
    for (std::size_t arrives = 0; arrives < 4; ++arrives) {
        for (const bool is_destroyed : {true, false}) {
            SCOPED_TRACE(testing::Message() << "record " << arrives << (is_destroyed ? ", destroyed" : ""));
            Pair pair({}, {}, 1, 1, endings_schema());
            const ecs::Entity target = pair.spawn(at(1)), fan = pair.spawn(at(2)), escort = pair.spawn(at(3)),
                              part = pair.spawn(at(4));
            pair.world.add(fan, ecs::to<Admires>(target));
            pair.world.set(escort, ecs::to<Follows>(target), Follows{5});
            pair.world.add(part, ecs::to<PartOf>(target));
            pair.exchange();
            const ecs::Entity shown = pair.replica(target), shown_fan = pair.replica(fan),
                              shown_escort = pair.replica(escort), shown_part = pair.replica(part);
            ASSERT_TRUE(pair.mirror.has(shown_fan, ecs::to<Admires>(shown)));
            if (is_destroyed) {
                pair.world.destroy(target);
            } else {
                pair.world.remove<Replicated>(target);
            }
            const std::vector<SentPacket> payloads = payloads_of_a_tick(pair);
            ASSERT_EQ(payloads.size(), 4u);
            pair.deliver(payloads[arrives]);
            pair.receiver.apply();
            EXPECT_TRUE(pair.mirror.is_alive(shown_fan));
            EXPECT_TRUE(pair.mirror.is_alive(shown_escort));
            if (!pair.mirror.is_alive(shown)) {
                targets_ended += 1;
                EXPECT_EQ(pair.mirror.is_alive(shown_part), !is_destroyed);
                EXPECT_FALSE(pair.mirror.target<Follows>(shown_escort));
            }
            for (std::size_t i = 0; i < payloads.size(); ++i)
                if (i != arrives) pair.deliver(payloads[i]);
            pair.receiver.apply();
            EXPECT_TRUE(pair.worlds_are_equal());
            EXPECT_EQ(pair.mirror.is_alive(shown_part), !is_destroyed);
            EXPECT_TRUE(pair.receiver.is_consistent());
        }
    }
    EXPECT_EQ(targets_ended, 2) << "once of each kind, before other records";
}

}  // namespace
}  // namespace shoal::replication::pair_endings_test
