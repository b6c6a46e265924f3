#include "replication/send/deliveries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <set>

namespace shoal::replication::impl::deliveries_test {
namespace {

/// Ticks that do not wrap.
class Model {
public:
    void add(std::int64_t tick) {
        if (!ticks_.empty() && tick + 64 <= *ticks_.rbegin()) return;
        ticks_.insert(tick);
        while (ticks_.size() > 1 && *std::next(ticks_.begin()) + 64 <= *ticks_.rbegin())
            ticks_.erase(ticks_.begin());
    }
    std::optional<std::int64_t> at(std::int64_t tick) const {
        const auto after = ticks_.upper_bound(tick);
        return after == ticks_.begin() ? std::nullopt : std::optional(*std::prev(after));
    }
    std::optional<std::int64_t> after(std::int64_t tick) const {
        if (ticks_.empty()) return std::nullopt;
        const auto found = ticks_.upper_bound(std::max(tick, *ticks_.rbegin() - 64));
        return found == ticks_.end() ? std::nullopt : std::optional(*found);
    }
    std::int64_t newest() const { return *ticks_.rbegin(); }

private:
    std::set<std::int64_t> ticks_;  // of the last 64, and the newest one before
};

// Goal: Deliveries equal a set that drops old ticks one by one: reordering, pauses, wrap.
// Method: seeded arrivals, most within 64 ticks of a moving head; each step compares the ticks around it.
TEST(Deliveries, MatchASetAcrossTheTickWraparound) {
    const std::uint32_t seed = 1;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Deliveries deliveries;
    Model model;
    const auto wrap = [](std::optional<std::int64_t> tick) {
        return tick ? std::optional(static_cast<Tick>(*tick)) : std::nullopt;
    };
    EXPECT_EQ(deliveries.at(5), std::nullopt);
    EXPECT_EQ(deliveries.after(5), std::nullopt);
    std::int64_t head = 0xffffff00;  // the ticks wrap early
    for (int step = 0; step < 3'000; ++step) {
        head += random() % 50 == 0 ? random() % 150 : random() % 4;
        const std::int64_t tick = head - static_cast<std::int64_t>(random() % 3 == 0 ? random() % 70 : 0);
        deliveries.add(static_cast<Tick>(tick), 15);
        model.add(tick);
        ASSERT_EQ(deliveries.newest(), static_cast<Tick>(model.newest())) << step;
        for (std::int64_t asked = head - 160; asked <= head + 2; ++asked) {
            ASSERT_EQ(deliveries.at(static_cast<Tick>(asked)), wrap(model.at(asked))) << step << ' ' << asked;
            ASSERT_EQ(deliveries.after(static_cast<Tick>(asked)), wrap(model.after(asked)))
                << step << ' ' << asked;
        }
    }
}

TEST(Deliveries, TheMeanGapMovesByAnEighthAndSkipsLongPauses) {
    Deliveries deliveries;
    deliveries.add(10, 15);
    EXPECT_EQ(deliveries.mean_gap(), 0);
    deliveries.add(14, 15);
    EXPECT_EQ(deliveries.mean_gap(), 4);
    deliveries.add(26, 15);
    EXPECT_EQ(deliveries.mean_gap(), 5);
    deliveries.add(20, 15);
    EXPECT_EQ(deliveries.mean_gap(), 5) << "a late one";
    deliveries.add(42, 15);
    EXPECT_EQ(deliveries.mean_gap(), 5) << "a pause of 16 ticks";
    deliveries.add(55, 13);
    EXPECT_EQ(deliveries.mean_gap(), 6) << "just no pause";
}

TEST(Deliveries, Know64Ticks) {
    Deliveries deliveries;
    deliveries.add(99, 15);
    deliveries.add(163, 15);
    EXPECT_EQ(deliveries.at(162), 99u);
    deliveries.add(100, 15);
    EXPECT_EQ(deliveries.at(162), 100u);
    EXPECT_EQ(deliveries.after(99), 100u);
}

TEST(Deliveries, KnowNothingBeforeTheFirst) {
    for (const Tick first : {0u, 100u, 0x7fff'fff0u, 0x8000'0010u, 0xffff'ff00u}) {
        SCOPED_TRACE(first);
        Deliveries deliveries;
        for (const Tick distance : {0u, 1u, 1'000u, 0x4000'0000u}) {
            EXPECT_EQ(deliveries.at(first + distance), std::nullopt);
            EXPECT_EQ(deliveries.at(first - distance), std::nullopt);
            EXPECT_EQ(deliveries.after(first + distance), std::nullopt);
            EXPECT_EQ(deliveries.after(first - distance), std::nullopt);
        }
        deliveries.add(first, 15);
        deliveries.add(first + 3, 15);
        for (const Tick distance : {1u, 62u, 64u, 1'000u, 0x4000'0000u}) {
            EXPECT_EQ(deliveries.at(first - distance), std::nullopt) << distance;
            EXPECT_EQ(deliveries.after(first - distance), first) << distance;
        }
        EXPECT_EQ(deliveries.at(first), first);
        EXPECT_EQ(deliveries.after(first), first + 3);
        EXPECT_EQ(deliveries.after(first + 3), std::nullopt);
    }
}

TEST(Deliveries, KnowTheNewestOneBefore64Ticks) {
    for (const Tick gap : {62u, 63u, 64u, 65u}) {
        SCOPED_TRACE(testing::Message() << "gap " << gap);
        Deliveries deliveries;
        for (const Tick tick : {80u, 90u, 100u, 100 + gap}) deliveries.add(tick, 15);
        EXPECT_EQ(deliveries.at(100), 100u);
        if (gap >= 63) {
            EXPECT_EQ(deliveries.at(100 + gap - 64), gap > 63 ? 100u : 90u);
        }
    }
}

// The client computes the same mean, see Replicas.
TEST(Deliveries, LongerGapsThanTheLongestDoNotCountForTheMean) {
    Deliveries deliveries;
    for (const Tick tick : {10u, 20u, 35u}) deliveries.add(tick, 15);
    EXPECT_FLOAT_EQ(deliveries.mean_gap(), 10 + 5.0f / 8) << "15 counts";
    deliveries.add(51, 15);
    EXPECT_FLOAT_EQ(deliveries.mean_gap(), 10 + 5.0f / 8) << "16 does not";
}

}  // namespace
}  // namespace shoal::replication::impl::deliveries_test
