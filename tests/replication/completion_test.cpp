#include "replication/receive/completion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace shoal::replication::impl {
namespace {

using Complete = Completion::Complete;
using Marker = StateHeader::Complete;

TEST(Completion, NothingIsCompleteBeforeTheFirstMarker) {
    Completion completion;
    EXPECT_FALSE(completion.newest_tick() || completion.complete() || completion.tick_of(1));
    completion.insert(1, 10, {});
    EXPECT_EQ(completion.newest_tick(), 10u);
    EXPECT_EQ(completion.tick_of(1), 10u);
    EXPECT_FALSE(completion.complete());
    completion.insert(2, 11, Marker{0, 0, 3});
    EXPECT_EQ(completion.complete(), (Complete{8, 11}));
}

TEST(Completion, Rule09NeedsEachPacketThatTheMarkerNames) {
    Completion completion;
    completion.insert(5, 10, Marker{2, 0, 0});  // 3, 4 and 5
    EXPECT_FALSE(completion.complete());
    completion.insert(3, 8, {});
    completion.insert(2, 8, {});
    EXPECT_FALSE(completion.complete());
    completion.insert(4, 9, {});
    EXPECT_EQ(completion.complete(), (Complete{10, 10}));
    completion.insert(6, 11, {});
    EXPECT_FALSE(completion.complete()) << "tick 11 has no marker";
}

TEST(Completion, Rule09PacketsWithoutStateAreNotNeeded) {
    Completion completion;
    completion.insert(9, 10, Marker{3, 2, 0});  // two of 6, 7 and 8 carried no state
    EXPECT_FALSE(completion.complete());
    completion.insert(7, 9, {});
    EXPECT_TRUE(completion.complete());
}

using Group = StateHeader::Group;

TEST(Completion, AGroupIsCompleteWhenAllItsPacketsArrived) {
    Completion completion;
    EXPECT_FALSE(completion.group_complete());
    completion.insert(5, 10, {}, Group{2, 1});  // 5, and one of 3 and 4
    EXPECT_FALSE(completion.group_complete());
    completion.insert(6, 11, {}, {});
    EXPECT_FALSE(completion.group_complete());
    completion.insert(3, 8, {}, {});
    EXPECT_EQ(completion.group_complete(), 10u);
    completion.insert(7, 12, {}, Group{0, 0});
    EXPECT_EQ(completion.group_complete(), 12u);
    EXPECT_TRUE(completion.is_consistent());
}

TEST(Completion, AGroupOfTheFirstPacketIsComplete) {
    Completion completion;
    completion.insert(1, 10, {}, Group{0, 0});
    EXPECT_EQ(completion.group_complete(), 10u);
}

TEST(Completion, PacketsWithoutAGroupMarkerCompleteNoGroup) {
    for (const bool has_group : {false, true}) {
        for (const Tick first : {1u, 0x90000000u}) {
            Completion completion;
            completion.insert(1, first, {}, has_group ? std::optional(Group{0, 0}) : std::nullopt);
            for (std::uint32_t number = 2; number < 3'000; ++number) {
                completion.insert(number, first + number, {}, {});
                ASSERT_EQ(completion.group_complete(), has_group ? std::optional(first) : std::nullopt)
                    << "packet " << number;
            }
        }
    }
}

TEST(Completion, Trap11AnOlderTickAfterANewerOneIsIgnored) {
    Completion completion;
    completion.insert(9, 20, {}, Group{0, 0});
    completion.insert(8, 19, {}, Group{0, 0});
    EXPECT_EQ(completion.group_complete(), 20u);
    completion.insert(5, 16, {}, Group{1, 0});
    completion.insert(4, 15, {}, {});
    EXPECT_EQ(completion.group_complete(), 20u);
}

TEST(Completion, ALateGroupMarkerDoesNotReplaceANewerOneThatWaits) {
    for (std::uint64_t late = 1; late < 40; ++late) {
        Completion completion;
        completion.insert(40, 50, {}, Group{1, 0});
        completion.insert(late, 9, {}, Group{1, 0});
        completion.insert(39, 49, {}, {});
        EXPECT_EQ(completion.group_complete(), 50u) << "packet " << late;
    }
}

TEST(Completion, AGroupThatNeedsPacketsBeforeTheFirstIsIgnored) {
    Completion completion;
    completion.insert(2, 10, {}, Group{2, 0});
    completion.insert(1, 9, {}, Group{1, 1});
    EXPECT_FALSE(completion.group_complete());
}

TEST(Completion, Rule09AMarkerThatNeedsPacketsBeforeTheFirstIsIgnoredWhateverItCounts) {
    for (const std::uint64_t number : {1u, 2u, 3u, 200u, 255u})
        for (std::uint32_t distance = 0; distance <= kMaxPacketDistance; ++distance)
            for (const std::uint32_t others : {0u, distance == 0 ? 0 : distance - 1, distance}) {
                Completion completion;
                completion.insert(number, 9, Marker{distance, others, 0});
                ASSERT_EQ(completion.complete().has_value(), distance < number && others == distance)
                    << "packet " << number << ", distance " << distance << ", others " << others;
                ASSERT_TRUE(completion.is_consistent());
            }
}

TEST(Completion, Rule09AMarkerOfAnOlderTickDoesNotReplaceThatOfTheNewest) {
    for (const std::uint64_t other : {1u, 3u}) {
        Completion completion;
        completion.insert(2, 10, Marker{0, 0, 1});
        completion.insert(other, 9, Marker{0, 0, 0});
        EXPECT_EQ(completion.complete(), (Complete{9, 10})) << "packet " << other;
    }
}

TEST(Completion, Rule09AMarkerThatIsIgnoredDoesNotReplaceOthers) {
    Completion completion;
    completion.insert(1, 9, Marker{0, 0, 0});
    completion.insert(2, 9, Marker{2, 0, 0});
    EXPECT_EQ(completion.complete(), (Complete{9, 9}));
    completion.insert(3, 10, Marker{3, 1, 0});
    EXPECT_FALSE(completion.complete()) << "it is the newest state all the same";
}

TEST(Completion, ForgetsPacketsThatAreFarBack) {
    Completion completion;
    completion.insert(1, 10, {});
    completion.insert(1024, 11, {});
    EXPECT_EQ(completion.tick_of(1), 10u);
    completion.insert(1025, 12, {});
    EXPECT_FALSE(completion.tick_of(1));
    EXPECT_EQ(completion.tick_of(1025), 12u);
    completion.insert(1, 10, {});  // arrives very late
    EXPECT_EQ(completion.tick_of(1025), 12u);
    EXPECT_FALSE(completion.tick_of(0));
}

TEST(Completion, ANewConnectionCountsItsOwnPackets) {
    Completion completion;
    completion.insert(500, 10, Marker{0, 0, 4}, Group{0, 0});
    ASSERT_EQ(completion.complete(), (Complete{6, 10}));
    completion.reconnect();
    EXPECT_FALSE(completion.complete());
    EXPECT_FALSE(completion.tick_of(500));
    EXPECT_EQ(completion.newest_tick(), 10u);
    EXPECT_EQ(completion.group_complete(), 10u);
    completion.insert(1, 10, Marker{0, 0, 2}, Group{0, 0});
    EXPECT_EQ(completion.complete(), (Complete{8, 10})) << "of the same tick, with a lower number";
    completion.insert(515, 11, {}, Group{5, 0});  // five packets are missing; 515 modulo 16 is 3
    completion.reconnect();
    completion.insert(3, 12, Marker{2, 0, 0}, Group{2, 0});
    completion.insert(1, 11, {}, {});
    EXPECT_FALSE(completion.complete()) << "packet 2 is missing";
    EXPECT_EQ(completion.group_complete(), 10u);
    completion.insert(2, 11, {}, {});
    EXPECT_EQ(completion.complete(), (Complete{12, 12}));
    EXPECT_EQ(completion.group_complete(), 12u);
    EXPECT_TRUE(completion.is_consistent());
}

/// Keeps all packets, with ticks that do not wrap around.
struct NaiveCompletion {
    struct Packet {
        std::uint64_t tick = 0;
        std::optional<Marker> marker;
    };
    std::optional<std::uint64_t> newest_tick() const {
        std::optional<std::uint64_t> newest;
        for (const auto& [number, packet] : packets) newest = std::max(newest, std::optional(packet.tick));
        return newest;
    }
    std::optional<Complete> complete() const {
        const std::optional<std::uint64_t> newest = newest_tick();
        std::optional<Complete> out;
        for (const auto& [number, packet] : packets) {
            if (packet.tick != newest || !packet.marker || packet.marker->distance >= number) continue;
            const std::uint32_t distance = packet.marker->distance;
            std::uint32_t arrived = 0;
            for (std::uint64_t n = number - distance; n <= number; ++n) arrived += packets.contains(n);
            out.reset();
            const Tick tick = static_cast<Tick>(packet.tick);
            if (arrived == distance + 1 - packet.marker->others)
                out = Complete{tick - packet.marker->quiet, tick};
        }
        return out;
    }
    std::map<std::uint64_t, Packet> packets;
};

// Goal: equals a model that keeps all packets. Method: seeded packets with loss and reordering; of a few
// ticks per packet number or many; correct and hostile markers; ticks wrap around.
TEST(Completion, MatchesANaiveModelThroughLossAndReordering) {
    int complete = 0, hostile = 0;
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        const auto below = [&](std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); };
        Completion completion;
        NaiveCompletion model;
        struct Sent {
            std::uint64_t number;
            NaiveCompletion::Packet packet;
        };
        std::vector<Sent> under_way;
        std::uint64_t tick = 0xffffff80u;
        std::vector<bool> has_state{false};  // by packet number
        for (std::uint64_t number = 1; number <= 400; ++number) {
            tick += below(3);
            has_state.push_back(below(8) != 0);
            if (has_state.back()) {
                Sent sent{number, {tick, {}}};
                if (below(2) == 0) {
                    Marker marker{below(std::min<std::uint32_t>(static_cast<std::uint32_t>(number), 12)), 0,
                                  below(5)};
                    for (std::uint64_t n = number - marker.distance; n < number; ++n)
                        marker.others += !has_state[n];
                    if (below(6) == 0) {
                        marker.distance = below(kMaxPacketDistance + 1);
                        marker.others = below(marker.distance + 1);
                        ++hostile;
                    }
                    sent.packet.marker = marker;
                }
                if (below(10) != 0) under_way.push_back(sent);
            }
            while (under_way.size() > below(6)) {
                const std::size_t which = below(static_cast<std::uint32_t>(under_way.size()));
                const Sent arrived = under_way[which];
                under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
                model.packets[arrived.number] = arrived.packet;
                completion.insert(arrived.number, static_cast<Tick>(arrived.packet.tick),
                                  arrived.packet.marker);
                ASSERT_EQ(completion.newest_tick(), static_cast<Tick>(*model.newest_tick()));
                ASSERT_EQ(completion.complete(), model.complete()) << "packet " << arrived.number;
                ASSERT_TRUE(completion.is_consistent());
                complete += completion.complete().has_value();
            }
            const std::uint64_t probe = below(static_cast<std::uint32_t>(number) + 1);
            ASSERT_EQ(completion.tick_of(probe).has_value(), model.packets.contains(probe));
        }
    }
    EXPECT_GT(complete, 1'000);
    EXPECT_GT(hostile, 500);
}

}  // namespace
}  // namespace shoal::replication::impl
