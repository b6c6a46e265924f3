#include "replication/predict/input_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "tests/replication/support/tiller.h"

namespace shoal::replication::impl::input_buffer_test {
namespace {

constexpr Tick kPatience = 15;

struct Desk : TillerWords {
    void insert(Tick tick, const Tiller& tiller) { buffer.insert(tick, of(tiller), {}, next); }
    Tiller take() { return from(buffer.take(next++)); }

    InputBuffer buffer{type, neutral, kPatience, net::Duration(16'667)};
    Tick next = 100;
};

TEST(InputBuffer, GivesEachTickItsInput) {
    Desk desk;
    desk.insert(101, {1, 0, false, false});
    desk.insert(100, {-1, 1, true, false});
    const Tiller first = desk.take();
    EXPECT_EQ(first.x, -1);
    EXPECT_EQ(first.y, 1);
    EXPECT_EQ(first.dash.count, 1);
    EXPECT_EQ(desk.buffer.age(), 0u);
    EXPECT_EQ(desk.take().x, 1);
    EXPECT_EQ(desk.buffer.stats().in_time, 2u);
}

TEST(InputBuffer, BeforeTheFirstInputTheInputIsNeutral) {
    Desk desk;
    EXPECT_EQ(desk.take().x, 0);
    EXPECT_EQ(desk.buffer.age(), std::nullopt);
    EXPECT_EQ(desk.buffer.stats().repeated + desk.buffer.stats().neutral, 0u);
}

TEST(InputBuffer, Trap03AMissingInputRepeatsTheValuesButNotThePresses) {
    Desk desk;
    desk.insert(100, {1, -1, true, true});
    EXPECT_TRUE(desk.take().dash);
    for (Tick missing = 1; missing <= kPatience; ++missing) {
        const Tiller repeated = desk.take();
        EXPECT_EQ(repeated.x, 1);
        EXPECT_EQ(repeated.y, -1);
        EXPECT_FALSE(repeated.dash || repeated.jump);
        EXPECT_EQ(desk.buffer.age(), missing);
    }
    EXPECT_EQ(desk.take().x, 0) << "neutral after some time";
    EXPECT_EQ(desk.buffer.stats().repeated, kPatience);
    EXPECT_EQ(desk.buffer.stats().neutral, 1u);
}

TEST(InputBuffer, Trap04AJumpThatArrivesLateIsInTheNextTickOnce) {
    Desk desk;
    desk.insert(100, {1, 0, false, false});
    desk.take();
    desk.take();  // 101 is missing
    for (int copy = 0; copy < 3; ++copy) desk.insert(101, {-1, 0, false, true});
    const Tiller next = desk.take();
    EXPECT_EQ(next.x, 1) << "the values of a late input are dropped";
    EXPECT_EQ(next.jump.count, 1);
    EXPECT_FALSE(desk.take().jump);
    EXPECT_EQ(desk.buffer.stats().late, 1u);
    EXPECT_EQ(desk.buffer.stats().joined_presses, 1u);
}

TEST(InputBuffer, PressesOfEachFieldOfALateInputAreInTheNextTick) {
    Desk desk;
    desk.insert(100, {1, 0, false, false});
    desk.take();
    desk.take();  // 101 is missing
    desk.insert(101, {0, 0, true, true});
    const Tiller next = desk.take();
    EXPECT_EQ(next.dash.count, 1);
    EXPECT_EQ(next.jump.count, 1);
    EXPECT_EQ(desk.buffer.stats().joined_presses, 2u);
    EXPECT_EQ(desk.buffer.stats().late, 1u);
    desk.insert(101, {0, 0, true, true});
    EXPECT_EQ(desk.buffer.stats().late, 1u) << "a repeated input is no other one";
}

TEST(InputBuffer, PressesThatAreTooLateAreDroppedAndCounted) {
    Desk desk;
    for (Tick i = 0; i < kPatience + 1; ++i) desk.take();
    desk.insert(100, {0, 0, true, true});
    EXPECT_FALSE(desk.take().dash);
    EXPECT_EQ(desk.buffer.stats().dropped_presses, 2u);
}

TEST(InputBuffer, ATickGetsAtMostThreePressesAndTheOthersWait) {
    Desk desk;
    Tiller often;
    often.dash.count = 3;
    for (int i = 0; i < 3; ++i) desk.take();
    for (Tick tick = 100; tick < 103; ++tick) desk.insert(tick, often);
    desk.insert(103, often);
    EXPECT_EQ(desk.take().dash.count, 3) << "its own";
    EXPECT_EQ(desk.take().dash.count, 3);
    EXPECT_EQ(desk.take().dash.count, 3);
    EXPECT_EQ(desk.take().dash.count, 2) << "eight waited at most";
    EXPECT_EQ(desk.take().dash.count, 0);
    EXPECT_EQ(desk.buffer.stats().joined_presses, 8u);
    EXPECT_EQ(desk.buffer.stats().dropped_presses, 1u);
}

TEST(InputBuffer, Trap06InputsOfFarTicksAreDroppedAndTicksMayWrap) {
    Desk desk;
    desk.next = 0xffff'fffe;
    desk.insert(0xffff'fffe + desk.buffer.reach(), {1, 0, false, false});
    desk.insert(desk.next + 0x7fff'ffff, {1, 0, false, false});
    EXPECT_EQ(desk.buffer.stats().early, 2u);
    desk.insert(desk.next + 0x8000'0000, {1, 0, false, false});
    desk.insert(desk.next - desk.buffer.reach() - 1, {1, 0, false, false});
    EXPECT_EQ(desk.buffer.stats().late, 2u);
    for (Tick i = 0; i < 4; ++i)
        desk.insert(0xffff'fffe + i, {static_cast<std::int8_t>(i % 2), 0, false, false});
    for (Tick i = 0; i < 4; ++i) EXPECT_EQ(desk.take().x, static_cast<int>(i % 2));
    EXPECT_EQ(desk.buffer.stats().in_time, 4u);
}

TEST(InputBuffer, AnInputIsLateAndEarlyWithinTwoSeconds) {
    Desk desk;
    const Tick reach = desk.buffer.reach();
    EXPECT_GE(reach, 2u * 60);
    for (int copy = 0; copy < 2; ++copy) desk.insert(desk.next - reach - 1, {1, 0, false, false});
    EXPECT_EQ(desk.buffer.stats().late, 1u);
    for (int copy = 0; copy < 2; ++copy) desk.insert(desk.next - reach, {1, 0, false, false});
    EXPECT_EQ(desk.buffer.stats().late, 2u);
    desk.insert(desk.next + reach - 1, {1, 0, false, false});
    EXPECT_EQ(desk.buffer.stats().early, 0u);
    desk.insert(desk.next + reach, {1, 0, false, false});
    EXPECT_EQ(desk.buffer.stats().early, 1u);
    for (Tick i = 0; i + 1 < reach; ++i) EXPECT_EQ(desk.take().x, 0);
    EXPECT_EQ(desk.take().x, 1);
    for (Tick i = 0; i < 4 * reach; ++i) desk.take();
    EXPECT_EQ(desk.buffer.stats().in_time, 1u) << "the early one was dropped, and no input is used twice";
}

// Goal: what is kept is a time, whatever the tick rate.
TEST(InputBuffer, ReachesTwoSecondsAtAnyTickRate) {
    const Desk desk;
    for (const int hz : {10, 20, 30, 60, 64, 128, 144, 250, 1000}) {
        const InputBuffer buffer(desk.type, desk.neutral, 1, net::Duration(1'000'000 / hz));
        EXPECT_GE(buffer.reach(), 2u * static_cast<Tick>(hz));
        EXPECT_LE(buffer.reach(), std::max(128u, 4u * static_cast<Tick>(hz)));
    }
    for (const std::int64_t us : {1LL, 4'294'967'295LL})
        EXPECT_LE(InputBuffer(desk.type, desk.neutral, 1, net::Duration(us)).reach(), 2'048u);
}

// Goal: each tick gets the lag of its own input. Without an input the time goes on.
TEST(InputBuffer, TheLagIsThatOfTheInputThatIsTaken) {
    Desk desk;
    EXPECT_EQ(desk.buffer.lag(), std::nullopt);
    const auto insert = [&](Tick tick, std::optional<std::uint32_t> lag) {
        desk.buffer.insert(tick, desk.of({}), lag, desk.next);
    };
    insert(101, 50);
    insert(100, 30);
    insert(100, 99);  // a duplicate
    insert(103, std::nullopt);
    for (const std::optional<std::uint32_t> lag :
         {std::optional(30u), std::optional(50u), std::optional(50u), std::optional<std::uint32_t>()}) {
        desk.take();
        EXPECT_EQ(desk.buffer.lag(), lag);
    }
    desk.take();
    insert(104, 7);
    EXPECT_EQ(desk.buffer.lag(), 7u) << "late, but newer than the last one that was used";
    insert(102, 8);
    EXPECT_EQ(desk.buffer.lag(), 7u);
}

TEST(InputBuffer, PressesCountAsLongAsTheValuesAreRepeated) {
    for (const Tick late : {kPatience, kPatience + 1}) {
        Desk desk;
        for (Tick i = 0; i < late; ++i) desk.take();
        desk.insert(100, {0, 0, true, true});
        EXPECT_EQ(desk.take().dash.count, late == kPatience ? 1 : 0);
        EXPECT_EQ(desk.buffer.stats().joined_presses, late == kPatience ? 2u : 0u);
        EXPECT_EQ(desk.buffer.stats().dropped_presses, late == kPatience ? 0u : 2u);
    }
}

}  // namespace
}  // namespace shoal::replication::impl::input_buffer_test
