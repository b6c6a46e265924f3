#include "net/rate/budget.h"

#include <gtest/gtest.h>

namespace shoal::net::impl {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPacket = kMaxDatagramBytes;
constexpr double kRate = 100'000;  // bytes per second: 100 bytes per ms; the budget saves up to 50 ms

/// Spends packets of `bytes` until nothing is left, and returns their number.
int spend_all(Budget& budget, std::size_t bytes) {
    int packets = 0;
    for (; budget.is_left(); ++packets) budget.spend(bytes);
    return packets;
}

/// Returns the milliseconds until `is_ready` at kRate; checks every millisecond.
template <class Condition>
int wait(Budget& budget, Time& now, Condition is_ready) {
    int waited = 0;
    for (; !is_ready() && waited < 1'000; ++waited) budget.accrue(kRate, now += 1ms);
    return waited;
}

TEST(Budget, BeginsWithTenPackets) {
    Budget budget(5s);
    EXPECT_EQ(spend_all(budget, kPacket), 10);
    EXPECT_FALSE(budget.is_left());
}

// Idle time before the first packet makes the burst neither smaller nor larger.
TEST(Budget, IdleTimeDoesNotChangeTheFirstBurst) {
    Budget budget(5s);
    for (Time now = 5s; now < 60s; now += 16ms) budget.accrue(kRate, now);
    EXPECT_EQ(spend_all(budget, kPacket), 10);
}

TEST(Budget, SavesUpFiftyMilliseconds) {
    Budget budget(0s);
    spend_all(budget, kPacket);
    budget.accrue(kRate, 3600s);
    EXPECT_EQ(spend_all(budget, 100), 50);
    budget.accrue(kRate, 3600s + 10ms);
    EXPECT_EQ(spend_all(budget, 100), 10) << "less idle time saves up less";
}

TEST(Budget, SavesUpTwoPacketsHoweverLowTheRate) {
    Budget budget(0s);
    spend_all(budget, kPacket);
    budget.accrue(1'000, 3600s);
    EXPECT_EQ(spend_all(budget, kPacket), 2);
}

TEST(Budget, PaysBackTheOverdraftBeforeTheNextPacket) {
    Budget budget(0s);
    Time now{0};
    spend_all(budget, kPacket);
    budget.accrue(kRate, now += 1ms);  // 100 bytes
    ASSERT_TRUE(budget.is_left());
    budget.spend(kPacket);
    EXPECT_FALSE(budget.is_left());
    EXPECT_EQ(wait(budget, now, [&] { return budget.is_left(); }), 12) << "1,100 bytes of debt, and one byte";
}

// Pings are sent without regard to the budget.
TEST(Budget, DebtIsAtMostTwoPackets) {
    Budget budget(0s);
    Time now{0};
    for (int i = 0; i < 100; ++i) budget.spend(kPacket);
    EXPECT_EQ(wait(budget, now, [&] { return budget.is_left(); }), 25);
}

TEST(Budget, ReserveIsForUrgentMessagesOnly) {
    Budget budget(0s);
    spend_all(budget, kPacket);
    ASSERT_TRUE(budget.is_left_for_urgent()) << "packets within the budget do not use the reserve";
    EXPECT_FALSE(budget.is_left());
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(budget.is_left_for_urgent()) << i;
        budget.spend(100);
    }
    EXPECT_FALSE(budget.is_left_for_urgent());
}

TEST(Budget, ReserveGrowsByATenthOfTheRate) {
    Budget budget(0s);
    Time now{0};
    for (int i = 0; i < 100; ++i) budget.spend(100);  // the first burst
    spend_all(budget, 100);
    for (int i = 0; i < 4; ++i) budget.spend(100);  // the reserve of 300, and 100 bytes more
    ASSERT_FALSE(budget.is_left_for_urgent());
    // State uses the rest, so that only the reserve is left.
    const int waited = wait(budget, now, [&] {
        while (budget.is_left()) budget.spend(100);
        return budget.is_left_for_urgent();
    });
    EXPECT_NEAR(waited, 11, 1) << "100 bytes at 10 per millisecond";
}

TEST(Budget, ReserveIsBounded) {
    Budget budget(0s);
    spend_all(budget, kPacket);
    budget.accrue(kRate, 3600s);
    spend_all(budget, 100);
    int messages = 0;
    for (; budget.is_left_for_urgent() && messages < 100; ++messages) budget.spend(100);
    EXPECT_EQ(messages, 3);
}

TEST(Budget, LimitReducesSavedBytesToWhatTheLowerRateCanSave) {
    Budget budget(0s);
    budget.limit(kRate);
    EXPECT_EQ(spend_all(budget, 100), 50);
    budget.accrue(kRate, 1s);
    budget.limit(4'000);
    EXPECT_EQ(spend_all(budget, kPacket), 2);
    budget.limit(kRate);
    EXPECT_FALSE(budget.is_left()) << "a higher limit adds nothing";
}

TEST(Budget, SpareBytesNeverOverdrawAndNeverPayBack) {
    Budget budget(0s);
    Time now{0};
    for (int i = 0; i < 1'000; ++i) budget.spend_spare(25);
    EXPECT_FALSE(budget.is_left());
    EXPECT_TRUE(budget.is_left_for_urgent());
    budget.accrue(kRate, now += 1ms);
    EXPECT_TRUE(budget.is_left());
    budget.spend(kPacket);  // 1,100 bytes of debt
    for (int i = 0; i < 1'000; ++i) budget.spend_spare(25);
    EXPECT_EQ(wait(budget, now, [&] { return budget.is_left(); }), 12);
}

TEST(Budget, ASparePacketLargerThanTheRestDoesNotOverdraw) {
    Budget budget(0s);
    spend_all(budget, kPacket);
    budget.accrue(kRate, 1ms);  // 100 bytes
    budget.spend_spare(kPacket);
    EXPECT_FALSE(budget.is_left());
    budget.accrue(kRate, 2ms);
    EXPECT_TRUE(budget.is_left());
}

TEST(Budget, SpareBytesAreCounted) {
    Budget budget(0s);
    for (int i = 0; i < 10; ++i) budget.spend_spare(600);
    EXPECT_EQ(spend_all(budget, kPacket), 5);
}

}  // namespace
}  // namespace shoal::net::impl
