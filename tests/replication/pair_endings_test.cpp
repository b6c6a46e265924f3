// The sources of pairs whose target ends before their own records arrive.

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl::pair_endings_test {
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

struct Spot {
    float x = 0;
};

Schema endings_schema() {
    Schema schema;
    schema.component<sim::Position>("position");
    schema.component<Spot>("spot", linear());
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

// Of all records of the tick in which the target ends, one arrives. A source dies by its own record.
TEST(PairEndings, SourcesLoseThePairWithTheirTargetUntilTheirOwnRecordArrives) {
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
                EXPECT_TRUE(pair.mirror.is_alive(shown_part));
                EXPECT_FALSE(pair.mirror.target<PartOf>(shown_part));
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

TEST(PairEndings, ASourceWithAKeyThatArrivesAfterItsTargetEndedDiesByItsOwnRecord) {
    for (const bool is_loaded : {false, true}) {
        SCOPED_TRACE(is_loaded ? "loaded" : "not loaded");
        Pair pair({}, {}, 1, 1, endings_schema());
        const ecs::Entity hull = pair.spawn(at(1));
        const ecs::Entity own = is_loaded ? pair.mirror.spawn(at(5), StableKey{3}) : ecs::Entity{};
        pair.exchange();
        const ecs::Entity turret = pair.spawn(at(2), StableKey{3});
        pair.world.add(turret, ecs::to<PartOf>(hull));
        const SentPacket late = pair.tick_and_encode();
        pair.world.destroy(hull);
        const std::vector<SentPacket> payloads = payloads_of_a_tick(pair);
        ASSERT_EQ(payloads.size(), 2u);
        const SentPacket& of_hull = header_of(payloads[0]).complete ? payloads[0] : payloads[1];
        pair.deliver(of_hull);
        pair.receiver.apply();
        EXPECT_EQ(pair.receiver.entity_count(), 0u);
        pair.deliver(late);
        pair.receiver.apply();
        EXPECT_EQ(pair.receiver.entity_count(), 1u);
        const ecs::Entity shown = pair.receiver.entity(StableKey{3});
        EXPECT_TRUE(!is_loaded || shown == own);
        EXPECT_FALSE(pair.mirror.target<PartOf>(shown));
        for (const SentPacket& payload : payloads)
            if (payload.number != of_hull.number) pair.deliver(payload);
        pair.receiver.apply();
        EXPECT_FALSE(pair.mirror.is_alive(shown)) << "the server destroyed it";
        EXPECT_TRUE(pair.receiver.is_consistent());
    }
}

// The client shows the gun five ticks late, and its wholes at once.
TEST(PairEndings, APartThatIsShownLateStaysWithItsNewWhole) {
    for (const int applies_after : {1, 2}) {
        SCOPED_TRACE(applies_after);
        Pair pair({}, {}, 1, 1, endings_schema());
        const ecs::Entity first = pair.spawn(at(1)), second = pair.spawn(at(2)), gun = pair.spawn(Spot{3});
        pair.world.add(gun, ecs::to<PartOf>(first));
        int ticks = 0;
        const auto step = [&] {
            pair.tick();
            while (const std::optional<SentPacket> packet = pair.encode()) pair.deliver(*packet);
            if (++ticks % applies_after == 0) pair.receiver.apply(pair.sender.tick() - 5);
            EXPECT_TRUE(pair.receiver.is_consistent());
        };
        while (ticks < 8) step();
        const ecs::Entity shown = pair.replica(gun), whole = pair.replica(first);
        ASSERT_TRUE(pair.mirror.has(shown, ecs::to<PartOf>(whole)));
        pair.world.add(gun, ecs::to<PartOf>(second));
        step();
        pair.world.destroy(first);
        step();
        EXPECT_FALSE(pair.mirror.is_alive(whole));
        while (ticks < 20) {
            step();
            ASSERT_EQ(pair.replica(gun), shown) << ticks;
        }
        EXPECT_EQ(pair.mirror.target<PartOf>(shown), pair.replica(second));
    }
}

TEST(PairEndings, AllSourcesFollowTheKeyOfTheirTarget) {
    Pair pair({}, {}, 1, 1, endings_schema());
    const ecs::Entity lamp = pair.world.spawn(StableKey{6});
    const ecs::Entity first = pair.mirror.spawn(StableKey{6}), second = pair.mirror.spawn();
    std::vector<ecs::Entity> sources;
    for (int i = 0; i < 5; ++i) {
        sources.push_back(pair.spawn(at(1)));
        pair.world.add(sources.back(), ecs::to<Admires>(lamp));
    }
    pair.exchange();
    pair.mirror.remove<StableKey>(first);
    pair.mirror.set(second, StableKey{6});
    pair.receiver.apply();
    for (const ecs::Entity source : sources) {
        EXPECT_FALSE(pair.mirror.has(pair.replica(source), ecs::to<Admires>(first)));
        EXPECT_TRUE(pair.mirror.has(pair.replica(source), ecs::to<Admires>(second)));
    }
}

}  // namespace
}  // namespace shoal::replication::impl::pair_endings_test
