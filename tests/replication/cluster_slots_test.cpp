#include "replication/send/cluster_slots.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

#include "tests/sim/game.h"

namespace shoal::replication::impl::cluster_slots_test {
namespace {

TEST(ClusterSlots, EqualAMapUnderRandomMoves) {
    sim::Random random(5);
    ClusterSlots slots;
    std::map<std::uint32_t, std::uint32_t> model;
    for (int step = 0; step < 20'000; ++step) {
        const std::uint32_t slot = random.below(50), cluster = random.below(6) * 0x3333'3333u;
        if (random.below(4) == 0) {
            slots.put(slot, std::nullopt);
            model.erase(slot);
        } else {
            slots.put(slot, cluster);
            model[slot] = cluster;
        }
        std::set<std::uint32_t> expected;
        for (const auto& [known, of] : model)
            if (of == cluster) expected.insert(known);
        const auto found = slots.slots_of(cluster);
        ASSERT_EQ(std::set<std::uint32_t>(found.begin(), found.end()), expected) << "step " << step;
        ASSERT_EQ(slots.cluster_of(slot).has_value(), model.contains(slot));
        ASSERT_TRUE(slots.is_consistent());
    }
}

TEST(ClusterSlots, AVisitLastsForOneRoundAndAnExcessForOneTick) {
    ClusterSlots slots;
    slots.put(3, 9);
    slots.start_visits();
    EXPECT_TRUE(slots.visit(9));
    EXPECT_FALSE(slots.visit(9));
    slots.start_visits();
    EXPECT_TRUE(slots.visit(9));
    EXPECT_FALSE(slots.exceeds(9, 1, 0) || slots.exceeds(9, 1, 5));
    slots.note_excess(9, 800, 5);
    EXPECT_TRUE(slots.exceeds(9, 800, 5) && slots.exceeds(9, 700, 5));
    EXPECT_FALSE(slots.exceeds(9, 801, 5)) << "not known";
    EXPECT_FALSE(slots.exceeds(9, 800, 6));
}

}  // namespace
}  // namespace shoal::replication::impl::cluster_slots_test
