// The times of SenderOptions, in seconds at any tick rate.

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl::sender_times_test {
namespace {

constexpr double kTickRates[] = {10, 20, 60, 128};

TEST(SenderTimes, AnIdlePeerHearsOncePerHeartbeat) {
    for (const double tick_hz : kTickRates) {
        for (const double heartbeat_s : {0.3, 1.0, 2.5}) {
            SCOPED_TRACE(testing::Message() << tick_hz << " Hz, " << heartbeat_s << " s");
            Pair pair({.tick_hz = tick_hz, .heartbeat_s = heartbeat_s});
            pair.spawn(at(1));
            pair.exchange();
            const int ticks = static_cast<int>(std::ceil(heartbeat_s * tick_hz));
            for (int beat = 0; beat < 3; ++beat) {
                for (int i = 1; i < ticks; ++i) ASSERT_EQ(pair.exchange(), 0) << i;
                ASSERT_EQ(pair.exchange(), 1);
            }
        }
    }
}

// A version is a baseline until history_s after another one replaced it.
TEST(SenderTimes, ABaselineLastsForTheHistoryAfterItWasReplaced) {
    for (const double tick_hz : kTickRates) {
        for (const double history_s : {0.2, 0.6}) {
            const int ticks = static_cast<int>(std::ceil(history_s * tick_hz));
            for (const int gap : {ticks - 1, ticks, ticks + 1}) {
                SCOPED_TRACE(testing::Message()
                             << tick_hz << " Hz, " << history_s << " s, " << gap << " ticks");
                Pair pair({.tick_hz = tick_hz, .history_s = history_s});
                const ecs::Entity entity = pair.spawn(at(1));
                pair.exchange();
                pair.world.set(entity, at(2));
                pair.lose(pair.tick_and_encode());
                for (int i = 1; i < gap; ++i) pair.tick();
                pair.world.set(entity, at(3));
                pair.exchange();
                EXPECT_EQ(pair.sender.stats(pair.peer).full_records, gap < ticks ? 1u : 2u);
                EXPECT_TRUE(pair.worlds_are_equal());
            }
        }
    }
}

// While acks arrive, versions stay for twice the age of the oldest packet in flight, up to max_history_s.
TEST(SenderTimes, VersionsStayForAPathThatIsAtMostAsLongAsTheOptionAllows) {
    for (const double tick_hz : kTickRates) {
        const int most = static_cast<int>(2 * tick_hz);
        for (const int round_trip : {most / 2, most - 4, most + 2}) {
            SCOPED_TRACE(testing::Message() << tick_hz << " Hz, " << round_trip << " ticks");
            Pair pair({.tick_hz = tick_hz, .history_s = 0.2, .max_history_s = 2}, {.max_versions = 1'000});
            const ecs::Entity entity = pair.spawn(at(1));
            std::deque<SentPacket> open;
            std::uint64_t before = 0;
            for (int tick = 0; tick < 5 * round_trip; ++tick) {
                pair.world.set(entity, at(static_cast<float>(tick % 50)));
                pair.tick();
                open.push_back(*pair.encode());
                if (static_cast<int>(open.size()) <= round_trip) continue;
                pair.deliver(open.front());
                open.pop_front();
                if (tick == 4 * round_trip) before = pair.sender.stats(pair.peer).full_records;
            }
            EXPECT_EQ(pair.sender.stats(pair.peer).full_records == before, round_trip < most);
        }
    }
}

// Another peer always has a packet in flight, which is one tick old.
TEST(SenderTimes, PacketsThatAreAnsweredSoonDoNotLengthenTheHistory) {
    Pair pair;
    const ecs::Entity slow = pair.spawn(at(1)), busy = pair.spawn(at(1));
    const Sender::Peer other = pair.sender.add_peer();
    pair.exchange();
    const std::uint64_t full = pair.sender.stats(pair.peer).full_records;
    pair.world.set(slow, at(2));
    std::byte room[1300];
    std::uint64_t in_flight = 0;
    for (std::uint64_t number = 1; number < 50; ++number) {
        pair.world.set(busy, at(static_cast<float>(number)));
        pair.tick();
        if (in_flight != 0) pair.sender.on_fate(other, in_flight, true);
        ASSERT_FALSE(pair.sender.encode(other, in_flight = number, 1100, room).empty());
    }
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, full + 2) << "36 ticks are over";
    EXPECT_TRUE(pair.worlds_are_equal());
}

}  // namespace
}  // namespace shoal::replication::impl::sender_times_test
