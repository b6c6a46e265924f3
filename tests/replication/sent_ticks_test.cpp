#include "replication/send/sent_ticks.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/sim/game.h"

namespace shoal::replication::impl {
namespace {

// Method: a plain list of what was sent and acknowledged, at random ticks.
TEST(SentTicks, SaysOnlyWhatIsCertain) {
    int known = 0, none = 0, sure = 0;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        sim::Random random(seed);
        SentTicks ticks;
        std::map<Tick, bool> sent;  // true: acknowledged
        Tick now = 1'000;
        std::optional<Tick> last, acked;
        for (int step = 0; step < 200; ++step) {
            now += random.chance(0.1) ? random.below(60) : random.below(3);
            if (random.chance(0.7)) {
                ticks.send(now, last, acked);
                sent.insert({now, false});
                last = now;
            }
            for (auto& [tick, is_acked] : sent) {
                if (is_acked || !random.chance(0.1)) continue;
                is_acked = true;
                ticks.acknowledge(*last - tick);
                if (!acked || tick > *acked) acked = tick;
            }
            if (!last) continue;
            const Tick from = random.below(20), to = from + random.below(9);
            const SentTicks::Found found = ticks.find(from, to);
            std::optional<Tick> newest;
            for (const auto& [tick, is_acked] : sent)
                if (*last - tick >= from && *last - tick <= to) newest = tick;
            if (found.is_known) {
                ASSERT_EQ(found.age.has_value(), newest.has_value()) << "seed " << seed;
                if (newest) {
                    ASSERT_EQ(*last - *found.age, *newest);
                    ASSERT_TRUE(sent[*newest]);
                }
                (newest ? known : none) += 1;
            }
            if (acked && ticks.sent_none(from, *last - *acked)) {
                for (const auto& [tick, is_acked] : sent)
                    ASSERT_FALSE(tick > *acked && *last - tick >= from) << "seed " << seed;
                sure += 1;
            }
        }
    }
    EXPECT_GT(known, 1'000);
    EXPECT_GT(none, 1'000);
    EXPECT_GT(sure, 1'000);
}

TEST(SentTicks, WhatWasSentBeforeItBeganIsNotKnown) {
    SentTicks ticks;
    ticks.send(100, std::nullopt, std::nullopt);
    ticks.acknowledge(0);
    EXPECT_TRUE(ticks.find(0, 5).is_known);
    EXPECT_FALSE(ticks.find(1, 5).is_known);
}

TEST(SentTicks, VersionsThatAreNotUsedAnyMoreAreNotKnown) {
    SentTicks ticks;
    for (Tick tick = 1; tick <= 20; ++tick) ticks.send(tick, tick - 1, std::nullopt);
    for (Tick age = 0; age < 20; ++age) ticks.acknowledge(age);
    ticks.drop_before(10);
    EXPECT_EQ(ticks.find(10, 12).age, 10u);
    EXPECT_FALSE(ticks.find(11, 12).is_known);
    EXPECT_EQ(ticks.oldest_acknowledged(2, 15), 10u);
}

}  // namespace
}  // namespace shoal::replication::impl
