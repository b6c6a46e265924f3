#include "replication/send/flight.h"

#include <gtest/gtest.h>

#include <vector>

namespace shoal::replication::impl {
namespace {

/// Sends packet `number` of `tick` with a record of each slot.
void send(Flight& flight, std::uint64_t number, Tick tick, std::vector<std::uint32_t> slots) {
    flight.begin(number, tick);
    for (const std::uint32_t slot : slots) flight.add({slot & 0x1fffff, 0, 0});
}

std::vector<std::uint32_t> settle(Flight& flight, std::uint64_t number, bool delivered) {
    std::vector<std::uint32_t> slots;
    flight.on_fate(number, delivered, [&](SentRecord record, Tick) { slots.push_back(record.slot); });
    return slots;
}

TEST(Flight, AFateReachesTheRecordsOfItsPacketOnce) {
    Flight flight;
    send(flight, 5, 1, {1, 2});
    send(flight, 7, 2, {});
    send(flight, 8, 3, {2, 3, 4});
    EXPECT_EQ(settle(flight, 6, true), std::vector<std::uint32_t>{});  // had no state
    EXPECT_EQ(settle(flight, 8, true), (std::vector<std::uint32_t>{2, 3, 4}));
    EXPECT_EQ(settle(flight, 8, true), std::vector<std::uint32_t>{});
    EXPECT_EQ(settle(flight, 5, false), (std::vector<std::uint32_t>{1, 2}));
    EXPECT_EQ(flight.oldest_tick(), 2u);
    EXPECT_EQ(settle(flight, 7, true), std::vector<std::uint32_t>{});
    EXPECT_TRUE(flight.empty() && flight.is_consistent());
    for (const std::uint64_t number : {0u, 5u, 7u, 8u, 9u})
        EXPECT_EQ(settle(flight, number, true), std::vector<std::uint32_t>{}) << number;
}

TEST(Flight, TheAnchorIsTheNewestPacketThatArrived) {
    Flight flight;
    EXPECT_FALSE(flight.anchor(1, 1));
    for (std::uint32_t i = 1; i <= 4; ++i) send(flight, i, 10 * i, {i});
    settle(flight, 3, true);
    settle(flight, 1, true);   // older
    settle(flight, 4, false);  // lost
    const auto anchor = flight.anchor(9, 55);
    ASSERT_TRUE(anchor);
    EXPECT_EQ(anchor->distance, 6u);
    EXPECT_EQ(anchor->age, 25u);
}

TEST(Flight, AnchorsAndMarkersReachToTheLimitOfTheFormat) {
    Flight flight;
    send(flight, 10, 1, {1});
    settle(flight, 10, true);
    EXPECT_TRUE(flight.anchor(10 + kMaxPacketDistance, 9));
    EXPECT_FALSE(flight.anchor(11 + kMaxPacketDistance, 9));
    send(flight, 20, 2, {1});
    const auto marker = flight.marker(20 + kMaxPacketDistance, 0);
    ASSERT_TRUE(marker);
    EXPECT_EQ(marker->distance, kMaxPacketDistance);
    EXPECT_EQ(marker->others, kMaxPacketDistance - 1);  // all but packet 20 carried no state
    EXPECT_FALSE(flight.marker(21 + kMaxPacketDistance, 0));
    const auto group = flight.group(20 + kMaxPacketDistance, 20);
    ASSERT_TRUE(group);
    EXPECT_EQ(group->distance, kMaxPacketDistance);
    EXPECT_EQ(group->others, kMaxPacketDistance - 1);
    EXPECT_FALSE(flight.group(21 + kMaxPacketDistance, 20));
}

TEST(Flight, Rule09AMarkerHoldsWhenEveryPacketThatItNeedsArrived) {
    for (const bool old_first : {true, false}) {
        Flight flight;
        send(flight, 1, 1, {1});
        send(flight, 2, 2, {2});
        flight.overtake(1);  // slot 1 is written again
        send(flight, 3, 2, {1});
        const auto marker = flight.marker(3, 0);
        ASSERT_TRUE(marker);
        EXPECT_EQ(marker->distance, 1u);  // packet 1 has no newest record any more
        EXPECT_EQ(marker->others, 0u);
        flight.send_marker(3, *marker);
        EXPECT_TRUE(flight.has_marker(2));
        EXPECT_FALSE(flight.has_marker(3));
        settle(flight, old_first ? 2 : 3, true);
        EXPECT_FALSE(flight.is_settled(2));
        settle(flight, old_first ? 3 : 2, true);
        EXPECT_TRUE(flight.is_settled(2));
        EXPECT_FALSE(flight.is_settled(3));
        EXPECT_FALSE(flight.needs_marker());
    }
}

TEST(Flight, Rule09ALostPacketThatTheMarkerNeedsAsksForAnother) {
    Flight flight;
    send(flight, 1, 1, {1});
    send(flight, 2, 1, {2});
    flight.send_marker(2, *flight.marker(2, 0));
    settle(flight, 2, true);
    EXPECT_FALSE(flight.needs_marker());  // packet 1 may still arrive
    settle(flight, 1, false);
    EXPECT_TRUE(flight.needs_marker());
    EXPECT_FALSE(flight.is_settled(1));
}

TEST(Flight, Rule09APacketAfterTheMarkerDoesNotStandForALostOneBeforeIt) {
    Flight flight;
    send(flight, 1, 1, {1});
    send(flight, 2, 1, {2});
    flight.send_marker(2, *flight.marker(2, 0));
    send(flight, 3, 1, {3});
    settle(flight, 2, true);
    settle(flight, 3, true);
    settle(flight, 1, false);
    EXPECT_TRUE(flight.needs_marker());
    EXPECT_FALSE(flight.is_settled(1));
}

TEST(Flight, Rule09AMarkerDoesNotWaitForPacketsThatArrivedBeforeIt) {
    Flight flight;
    for (std::uint32_t number = 1; number <= 3; ++number) send(flight, number, 1, {number});
    settle(flight, 2, true);
    send(flight, 4, 1, {4});
    const auto marker = flight.marker(4, 0);
    ASSERT_TRUE(marker);
    EXPECT_EQ(marker->distance, 3u);
    EXPECT_EQ(marker->others, 0u);
    flight.send_marker(4, *marker);
    settle(flight, 1, true);
    settle(flight, 4, true);
    EXPECT_FALSE(flight.is_settled(1)) << "packet 3 is in flight";
    settle(flight, 3, true);
    EXPECT_TRUE(flight.is_settled(1));
    EXPECT_FALSE(flight.needs_marker());
}

TEST(Flight, Rule09APacketBeforeThoseOfTheMarkerDoesNotStandForOneOfThem) {
    for (const bool arrives : {true, false}) {
        Flight flight;
        send(flight, 1, 1, {1});
        flight.overtake(1);
        send(flight, 2, 2, {1});
        send(flight, 3, 2, {2});
        flight.send_marker(3, *flight.marker(3, 0));
        settle(flight, 1, arrives);
        settle(flight, 2, true);
        EXPECT_FALSE(flight.is_settled(2)) << "packet 3 is in flight";
        settle(flight, 3, true);
        EXPECT_TRUE(flight.is_settled(2));
        EXPECT_FALSE(flight.needs_marker());
    }
}

// Ticks may begin with 0.
TEST(Flight, Rule09NothingIsSettledBeforeTheFirstMarker) {
    Flight flight;
    EXPECT_FALSE(flight.has_marker(0) || flight.is_settled(0));
    EXPECT_FALSE(flight.newest_delivered());
    send(flight, 1, 0, {});
    EXPECT_FALSE(flight.has_marker(0));
    flight.send_marker(1, *flight.marker(1, 0));
    EXPECT_TRUE(flight.has_marker(0));
    settle(flight, 1, true);
    EXPECT_TRUE(flight.is_settled(0));
    EXPECT_EQ(flight.newest_delivered(), 0u);
}

// A number is found by its low 16 bits, also where they wrap.
TEST(Flight, OvertakenPacketsAreFoundAcrossTheWrapOfTheirNumbers) {
    Flight flight;
    const std::uint64_t first = 0x1fff0;
    for (std::uint64_t number = first; number < first + 40; ++number) send(flight, number, 1, {1});
    for (std::uint64_t number = first; number < first + 39; ++number)
        flight.overtake(static_cast<std::uint16_t>(number));
    EXPECT_TRUE(flight.is_consistent());
    const auto marker = flight.marker(first + 40, 0);
    ASSERT_TRUE(marker);
    EXPECT_EQ(marker->distance, 1u);
}

}  // namespace
}  // namespace shoal::replication::impl
