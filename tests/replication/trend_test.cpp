#include "replication/codec/trend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace shoal::replication::impl {
namespace {

TEST(Trend, WhatMovesEvenlyIsPredictedExactly) {
    const std::uint32_t factor = Trend::factor_of(6, 2);  // three times the change
    EXPECT_EQ(predict_quantity(1'000, 990, factor, 5'000), 1'030u);
    EXPECT_EQ(predict_quantity(990, 1'000, factor, 5'000), 960u);
    EXPECT_EQ(predict_quantity(10, 1'000, factor, 5'000), 0u) << "clamped";
    EXPECT_EQ(predict_quantity(4'000, 1'000, factor, 5'000), 5'000u) << "clamped";
    EXPECT_EQ(predict_quantity(5, 10, factor, 0xffffffff), 0u - 10u) << "modulo 2^32";
}

TEST(Trend, TheFactorIsRoundedAndLimited) {
    EXPECT_EQ(Trend::factor_of(1, 0), 0u);
    EXPECT_EQ(Trend::factor_of(1, 3), 85u);
    EXPECT_EQ(Trend::factor_of(2, 3), 171u);
    EXPECT_EQ(Trend::factor_of(100'000, 1), Trend::kMaxFactor);
    EXPECT_EQ(Trend::factor_of(1, 0xffffffff), 0u);
}

TEST(Trend, ASquareRootIsRoundedDown) {
    std::mt19937_64 random(1);
    for (int round = 0; round < 10'000; ++round) {
        const std::uint64_t square = random() >> (random() % 64);
        const std::uint64_t root = square_root(square);
        ASSERT_LE(root * root, square);
        if (root < 0xffffffff) {
            ASSERT_GT((root + 1) * (root + 1), square);
        }
    }
}

/// Lanes of a rotation about the z axis: the index of the greatest number, then the three others.
std::vector<std::uint32_t> turned(double angle, std::uint32_t max) {
    const double numbers[4] = {0, 0, std::sin(angle / 2), std::cos(angle / 2)};
    std::uint32_t greatest = 0;
    for (std::uint32_t i = 1; i < 4; ++i)
        if (std::abs(numbers[i]) > std::abs(numbers[greatest])) greatest = i;
    std::vector<std::uint32_t> out{greatest};
    for (std::uint32_t i = 0; i < 4; ++i) {
        const double number = numbers[greatest] < 0 ? -numbers[i] : numbers[i];
        if (i != greatest)
            out.push_back(static_cast<std::uint32_t>(std::lround((number * std::sqrt(2) + 1) * max / 2)));
    }
    return out;
}

TEST(Trend, ARotationIsPredictedAlsoWhenAnotherNumberBecomesTheGreatest) {
    constexpr std::uint32_t kMax = 4'094;
    int changes = 0;
    for (double angle = 0; angle < 12; angle += 0.05) {
        const auto older = turned(angle, kMax), base = turned(angle + 0.1, kMax),
                   now = turned(angle + 0.3, kMax);
        changes += base[0] != now[0] || older[0] != now[0];
        std::uint32_t predicted[4];
        predict_rotation({base.data(), older.data(), Trend::factor_of(4, 2)}, 1, now[0], kMax, predicted);
        for (std::size_t i = 0; i < 3; ++i)
            EXPECT_NEAR(double(predicted[i]), double(now[i + 1]), 60) << "angle " << angle;
    }
    EXPECT_GT(changes, 10);
}

}  // namespace
}  // namespace shoal::replication::impl
