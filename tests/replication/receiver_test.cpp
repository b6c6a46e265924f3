#include "replication/receive/receiver.h"

#include <gtest/gtest.h>

#include "tests/replication/support/records.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

using sim::Aim;
using sim::Counters;
using Verdict = Receiver::Verdict;

// Completeness

TEST(Receiver, Rule09CompleteNeedsNoPacketWithoutState) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), b = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(a, at(2));
    const SentPacket first = pair.tick_and_encode();
    const std::uint64_t without_state = pair.next_number++;
    pair.world.set(b, at(2));
    const SentPacket second = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(first), Verdict::accepted);
    EXPECT_EQ(pair.receive(second), Verdict::accepted);
    pair.receiver.apply();
    EXPECT_TRUE(pair.receiver.complete()) << "packet " << without_state << " has no state";
}

TEST(Receiver, Rule09NewerStateWithoutACompletionMarkerEndsCompleteness) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1));
    pair.exchange();
    ASSERT_TRUE(pair.receiver.complete());
    pair.world.set(a, at(2));
    for (int i = 0; i < 300; ++i) pair.spawn(at(1), Counters{i, ~0ull, i, 1, 1, 1, 1});
    pair.tick();
    const auto part = pair.encode(200);
    ASSERT_TRUE(part);
    EXPECT_EQ(pair.receive(*part), Verdict::accepted);
    EXPECT_TRUE(pair.receiver.complete()) << "only apply() changes it";
    pair.receiver.apply();
    EXPECT_FALSE(pair.receiver.complete());
}

TEST(Receiver, Rule09ALateOlderMarkerOfTheSameTickDoesNotReplaceANewerOne) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(a, at(2));
    const SentPacket lost = pair.tick_and_encode();
    pair.tick();
    pair.sender.request_marker(pair.peer);
    const auto wide = pair.encode();  // needs `lost`
    ASSERT_TRUE(wide);
    pair.lose(lost);
    const auto narrow = pair.encode();  // sends the record again
    ASSERT_TRUE(narrow);
    EXPECT_EQ(pair.receive(*narrow), Verdict::accepted);
    pair.receiver.apply();
    ASSERT_TRUE(pair.receiver.complete());
    EXPECT_EQ(pair.receive(*wide), Verdict::accepted);
    pair.receiver.apply();
    EXPECT_TRUE(pair.receiver.complete());
}

TEST(Receiver, Rule09CompleteNamesTheTickSinceWhichNothingChanged) {
    Pair pair;
    pair.spawn(at(1));
    pair.exchange();
    const Tick changed = pair.sender.tick();
    for (int i = 0; i < 200; ++i) pair.exchange();
    ASSERT_TRUE(pair.receiver.complete());
    EXPECT_EQ(pair.receiver.complete()->since, changed);
    EXPECT_GT(pair.receiver.complete()->tick, changed + 100);
}

TEST(Receiver, Rule09AMarkerThatNeedsPacketsBeforeTheFirstIsIgnored) {
    for (const std::uint32_t distance : {2u, 3u, 4u, 255u}) {
        for (const std::uint32_t others : {0u, distance, distance - 1}) {
            Pair pair;
            StateHeader header;
            header.tick = 9;
            header.complete = {distance, others, 0};
            EXPECT_EQ(pair.receiver.receive(3, payload_of(pair.schema, header, {})), Verdict::accepted);
            pair.receiver.apply();
            EXPECT_EQ(pair.receiver.complete().has_value(), distance == 2 && others == 2)
                << distance << " packet numbers back, of these without state: " << others;
        }
    }
}

TEST(Receiver, KnowsItsGroupIfTheSchemaPredicts) {
    struct Ship {
        float x = 0;
    };
    for (const bool predicts : {false, true}) {
        Schema schema;
        if (predicts) {
            schema.component<Ship>("ship", predicted());
        } else {
            schema.component<Ship>("ship");
        }
        Pair pair({}, {}, 1, 1, std::move(schema));
        const ecs::Entity ship = pair.spawn(Ship{1});
        EXPECT_FALSE(pair.receiver.decoder().completion().group_complete());
        for (int i = 2; i < 5; ++i) {
            pair.world.set(ship, Ship{static_cast<float>(i)});
            pair.exchange();
            ASSERT_TRUE(pair.receiver.complete());
            EXPECT_EQ(pair.receiver.decoder().completion().group_complete(),
                      predicts ? std::optional(pair.sender.tick()) : std::nullopt);
        }
        pair.receiver.reset();
        EXPECT_FALSE(pair.receiver.decoder().completion().group_complete());
    }
}

TEST(Receiver, ResetForgetsEverything) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1));
    pair.spawn(Aim{a, 1});
    pair.exchange();
    EXPECT_EQ(pair.receiver.receive(pair.next_number++, baseless(pair.schema, 0)), Verdict::refused);
    EXPECT_EQ(pair.receiver.decoder().rebases().size(), 1u);
    pair.receiver.reset();
    EXPECT_TRUE(pair.receiver.decoder().rebases().empty());
    EXPECT_EQ(pair.mirror.size(), 0u);
    EXPECT_EQ(pair.receiver.entity_count(), 0u);
    EXPECT_FALSE(pair.receiver.complete() || pair.receiver.newest_tick());
    EXPECT_TRUE(pair.receiver.is_consistent());
    EXPECT_EQ(pair.receiver.receive(1, baseless(pair.schema, 0)), Verdict::refused);
    EXPECT_EQ(pair.receiver.decoder().rebases().size(), 1u) << "no request is open any more";
    pair.receiver.reset();
    const Sender::Peer anew = pair.sender.add_peer();
    std::byte room[1300];
    pair.sender.update(pair.next_tick++);
    EXPECT_EQ(pair.receiver.receive(1, pair.sender.encode(anew, 1, 1100, room)), Verdict::accepted);
    pair.receiver.apply();
    EXPECT_TRUE(pair.worlds_are_equal());
}

}  // namespace
}  // namespace shoal::replication::impl
