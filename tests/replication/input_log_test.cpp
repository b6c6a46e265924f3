#include "replication/predict/input_log.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/replication/support/tiller.h"

namespace shoal::replication::impl::input_log_test {
namespace {

struct LogDesk : TillerWords {
    void frame(const Tiller& tiller) { dropped_presses += log.set_input(of(tiller)); }
    Tiller record() {
        log.record(next);
        return from(log.at(next++));
    }
    /// Returns the section of the next packet; empty if there is none.
    std::vector<std::byte> write(std::size_t room_bits = 8'000) {
        BitWriter out;
        if (!log.write_section(++packet, room_bits, out)) return {};
        EXPECT_LE(out.bit_count(), room_bits);
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        bits = out.bit_count();
        return bytes;
    }
    InputSection read(std::span<const std::byte> bytes) {
        InputSection section;
        BitReader in(bytes);
        EXPECT_TRUE(section.read(type, neutral, in));
        EXPECT_TRUE(in.at_padding());
        return section;
    }

    InputLog log{type, neutral};
    std::uint32_t dropped_presses = 0;
    Tick next = 5'000;
    std::uint64_t packet = 0;
    std::size_t bits = 0;
};

TEST(InputLog, Trap01APressOfOneFrameIsInExactlyOneTick) {
    LogDesk desk;
    desk.frame({1, 0, false, false});
    desk.frame({1, 0, true, false});
    desk.frame({-1, 0, false, false});
    const Tiller tick = desk.record();
    EXPECT_EQ(tick.x, -1) << "the last frame's values";
    EXPECT_EQ(tick.dash.count, 1);
    EXPECT_FALSE(desk.record().dash);
}

TEST(InputLog, Trap02OfSeveralTicksInAFrameTheFirstHasThePress) {
    LogDesk desk;
    desk.frame({1, 0, true, false});
    EXPECT_TRUE(desk.record().dash);
    for (int i = 0; i < 2; ++i) {
        const Tiller tick = desk.record();
        EXPECT_EQ(tick.x, 1);
        EXPECT_FALSE(tick.dash);
    }
}

TEST(InputLog, PressesOfATickAddUpToThreeAndTheOthersWait) {
    LogDesk desk;
    for (int i = 0; i < 5; ++i) desk.frame({0, 0, true, i == 0});
    const Tiller first = desk.record();
    EXPECT_EQ(first.dash.count, 3);
    EXPECT_EQ(first.jump.count, 1);
    EXPECT_EQ(desk.record().dash.count, 2);
    EXPECT_EQ(desk.record().dash.count, 0);
}

TEST(InputLog, ThirtyTwoPressesOfAFieldWaitAndTheOthersAreCounted) {
    LogDesk desk;
    for (int i = 0; i < 32; ++i) {
        desk.frame({0, 0, true, i < 30});
        EXPECT_EQ(desk.dropped_presses, 0u);
    }
    desk.frame({0, 0, false, true});
    EXPECT_EQ(desk.dropped_presses, 0u) << "the other field has room";
    Tiller thrice;
    thrice.dash.count = thrice.jump.count = 3;
    desk.frame(thrice);
    EXPECT_EQ(desk.dropped_presses, 3u + 2u);
    int dashes = 0, jumps = 0;
    for (int i = 0; i < 12; ++i) {
        const Tiller tick = desk.record();
        dashes += tick.dash.count;
        jumps += tick.jump.count;
    }
    EXPECT_EQ(dashes, 32);
    EXPECT_EQ(jumps, 32);
}

TEST(InputLog, SendsAllInputsThatAreNotAcknowledged) {
    LogDesk desk;
    EXPECT_TRUE(desk.write().empty()) << "nothing recorded";
    std::vector<std::vector<std::uint32_t>> expected;
    std::mt19937 random(1);
    for (int i = 0; i < 10; ++i) {
        desk.frame({static_cast<std::int8_t>(random() % 3 - 1), 1, random() % 2 == 0, false});
        expected.push_back(desk.of(desk.record()));
        const InputSection section = desk.read(desk.write());
        EXPECT_TRUE(desk.write().empty()) << "said in this update";
        ASSERT_EQ(section.count, expected.size());
        EXPECT_EQ(section.newest_near(desk.next + 500), desk.next - 1);
        for (std::size_t n = 0; n < expected.size(); ++n) EXPECT_EQ(section.words[n], expected[n]);
    }
    desk.log.on_fate(18, false);
    desk.log.on_fate(14, true);
    desk.log.on_fate(500, true);  // another section's
    desk.record();
    EXPECT_EQ(desk.read(desk.write()).count, 4u) << "packet 14 had the first seven inputs";
}

TEST(InputLog, SendsAtMostThirtyTwoInputsAndWhatFits) {
    LogDesk desk;
    for (int i = 0; i < 50; ++i) {
        desk.frame({static_cast<std::int8_t>(i % 3 - 1), 0, false, false});
        desk.record();
    }
    EXPECT_EQ(desk.read(desk.write()).count, 32u);
    desk.record();
    const InputSection section = desk.read(desk.write(100));
    EXPECT_LT(section.count, 32u);
    EXPECT_EQ(section.newest_near(desk.next), desk.next - 1);
    desk.record();
    EXPECT_TRUE(desk.write(10).empty());
}

TEST(InputLog, AnUnchangedInputTakesABit) {
    LogDesk desk;
    for (int i = 0; i < 9; ++i) desk.record();
    desk.write();
    EXPECT_EQ(desk.bits, 12 + 5 + 1 + 9u);
}

TEST(InputLog, AfterASkippedTickTheEarlierInputsAreForgotten) {
    LogDesk desk;
    desk.record();
    desk.next += 3;
    desk.record();
    EXPECT_TRUE(desk.log.at(desk.next - 5).empty());
    EXPECT_TRUE(desk.log.at(desk.next - 2).empty());
    EXPECT_FALSE(desk.log.at(desk.next - 1).empty());
    EXPECT_TRUE(desk.log.at(desk.next).empty());
    EXPECT_EQ(desk.read(desk.write()).count, 1u);
}

TEST(InputLog, TruncatedSectionsAreRefused) {
    LogDesk desk;
    for (int i = 0; i < 5; ++i) {
        desk.frame({static_cast<std::int8_t>(i % 3 - 1), 0, true, false});
        desk.record();
    }
    const std::vector<std::byte> bytes = desk.write();
    InputSection section;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const std::vector<std::byte> prefix(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        BitReader in(prefix);
        EXPECT_FALSE(section.read(desk.type, desk.neutral, in)) << "size " << size;
    }
}

TEST(InputLog, Trap06TheNearestTickWithTheLowBitsIsMeant) {
    InputSection section;
    section.newest = 5;
    EXPECT_EQ(section.newest_near(4'000), 4'101u);
    EXPECT_EQ(section.newest_near(0xffff'fff0), 5u);
    section.newest = 4'090;
    EXPECT_EQ(section.newest_near(3), 0xffff'fffau);
}

TEST(InputLog, Trap06TheLowBitsNameTicksUpTo2048Away) {
    InputSection section;
    for (const Tick expected : {10'000u, 100u, 0xffff'ff00u})
        for (const std::int32_t away : {-2'048, -1'500, -1'024, 0, 1'024, 1'500, 2'047}) {
            const Tick tick = expected + static_cast<Tick>(away);
            section.newest = tick % 4'096;
            EXPECT_EQ(section.newest_near(expected), tick) << expected << ' ' << away;
        }
}

TEST(InputLog, AfterAnAckOfTheNewestInputOnlyLaterOnesAreSent) {
    LogDesk desk;
    for (int i = 0; i < 3; ++i) desk.record();
    EXPECT_EQ(desk.read(desk.write()).count, 3u);
    desk.log.on_fate(desk.packet, true);
    desk.record();
    EXPECT_EQ(desk.read(desk.write()).count, 1u);
}

// Goal: fates of packets that had no inputs change nothing, also if their numbers are equal modulo the number
// of packets that are remembered.
TEST(InputLog, TheFateOfAPacketWithoutInputsChangesNothing) {
    LogDesk desk;
    desk.next = 0;
    for (int i = 0; i < 3; ++i) desk.record();
    desk.write();
    for (const std::uint64_t other :
         {std::uint64_t{0}, desk.packet + 1, desk.packet + 256, desk.packet + 512})
        desk.log.on_fate(other, true);
    desk.log.on_fate(desk.packet, false);
    desk.record();
    EXPECT_EQ(desk.read(desk.write()).count, 4u);
}

// Goal: each input says what the player saw when it was made. All inputs of a frame saw the same time, so the
// lags rise with their ticks.
TEST(InputLog, EachInputStatesItsLag) {
    LogDesk desk;
    desk.record();  // nothing was shown yet
    std::vector<std::uint32_t> lags{0};
    for (const auto& [back, fraction, inputs] : {std::tuple(5u, 0.25f, 3), std::tuple(9u, 0.5f, 1),
                                                 std::tuple(3u, 0.0f, 2), std::tuple(600u, 0.0f, 1)}) {
        const RenderTime seen{desk.next - back, fraction};
        desk.log.set_seen(seen);
        for (int i = 0; i < inputs; ++i) {
            lags.push_back(seen.lag(desk.next));
            desk.record();
        }
    }
    EXPECT_EQ(lags, (std::vector<std::uint32_t>{0, 76, 92, 108, 136, 48, 64, 9'600}));
    lags[0] = lags.back();
    const InputSection section = desk.read(desk.write());
    EXPECT_TRUE(section.is_delayed);
    EXPECT_EQ(section.lags, lags) << "an input from before the first render time has that of the newest one";
    desk.log.set_seen(RenderTime{desk.next + 5, 0});
    desk.record();
    EXPECT_EQ(desk.read(desk.write()).lags.back(), 0u);
    desk.log.set_seen({});
    desk.record();
    EXPECT_EQ(desk.read(desk.write()).lag(0), std::nullopt) << "the newest versions";
}

TEST(InputLog, KeepsTheInputsOfASecond) {
    for (const int hz : {10, 60, 128, 250, 1000}) {
        LogDesk desk;
        const Tick kept = ticks_kept(net::Duration(1'000'000 / hz));
        EXPECT_GE(kept, static_cast<Tick>(hz));
        desk.log.keep(kept);
        for (Tick i = 0; i < kept + 40; ++i) {
            desk.frame({static_cast<std::int8_t>(static_cast<int>(i % 3) - 1), 0, false, false});
            desk.record();
        }
        const Tick newest = desk.next - 1;
        EXPECT_EQ(desk.log.newest(), newest);
        for (Tick age = 0; age < kept; ++age) {
            ASSERT_FALSE(desk.log.at(newest - age).empty()) << age;
            EXPECT_EQ(desk.from(desk.log.at(newest - age)).x, static_cast<int>((kept + 39 - age) % 3) - 1);
        }
        EXPECT_TRUE(desk.log.at(newest - kept).empty());
        EXPECT_TRUE(desk.log.at(newest + 1).empty());
    }
}

TEST(InputLog, TellsWhetherItLackedRoom) {
    LogDesk desk;
    desk.record();
    BitWriter out;
    EXPECT_FALSE(desk.log.write_section(1, 10, out));
    EXPECT_EQ(out.bit_count(), 0u);
    EXPECT_TRUE(desk.log.lacked_room());
    EXPECT_FALSE(desk.write().empty()) << "it is not sent yet";
    EXPECT_FALSE(desk.log.lacked_room());
    desk.record();
    EXPECT_TRUE(desk.write(10).empty());
    EXPECT_FALSE(desk.write(20).empty()) << "12 + 5 + 1 + 1";
}

TEST(InputLog, AfterAResetNothingOfTheFormerConnectionIsLeft) {
    LogDesk desk;
    desk.log.set_seen(RenderTime{desk.next - 7, 0});
    desk.frame({1, 1, true, true});
    desk.record();
    const InputSection before = desk.read(desk.write());
    EXPECT_EQ(before.lag(0), 7u * 16);
    desk.frame({1, 1, true, true});
    desk.record();
    desk.frame({1, 1, true, true});
    EXPECT_TRUE(desk.log.is_in_use());
    desk.log.reset();
    EXPECT_FALSE(desk.log.is_in_use());
    EXPECT_EQ(desk.log.newest(), std::nullopt);
    EXPECT_TRUE(desk.log.at(desk.next - 1).empty());
    EXPECT_TRUE(desk.write().empty());
    desk.next = 5'000;
    const Tiller first = desk.record();
    EXPECT_EQ(first.x, 0);
    EXPECT_EQ(first.dash.count + first.jump.count, 0);
    desk.packet = 10;
    const InputSection after = desk.read(desk.write());
    EXPECT_EQ(after.count, 1u);
    EXPECT_EQ(after.lag(0), std::nullopt);
    desk.log.on_fate(1, true);  // of this connection, without inputs
    desk.record();
    EXPECT_EQ(desk.read(desk.write()).count, 2u);
}

TEST(InputLog, AnInputOutOfItsRangeIsRefused) {
    LogDesk desk;
    BitWriter out;
    out.write(0xfff, 12);
    out.write(31, 5);
    for (int i = 0; i < 400; ++i) out.write_bool(true);
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    BitReader in(bytes);
    InputSection section;
    EXPECT_FALSE(section.read(desk.type, desk.neutral, in));
}

}  // namespace
}  // namespace shoal::replication::impl::input_log_test
