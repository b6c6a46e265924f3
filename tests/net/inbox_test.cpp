#include "net/message/inbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/net/support/consistency.h"

namespace shoal::net::impl {
namespace {

/// A reliable message, or a piece of one.
Frame piece(std::uint64_t id, std::size_t size, std::size_t distance, bool goes_on) {
    Frame frame{};
    frame.id = id;
    frame.size = static_cast<std::uint16_t>(size);
    frame.distance = static_cast<std::uint16_t>(distance);
    frame.channel = Channel::reliable;
    frame.goes_on = goes_on;
    return frame;
}

// Goal: the meaning of a short id depends only on earlier packets, for any sender.
// Method: packets and ids that no correct sender chooses, compared with a model that stores all.
TEST(Inbox, ShortIdsMeanTheIdNearestToThoseOfEarlierPackets) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        Inbox inbox(1);
        std::map<std::uint64_t, std::uint64_t> highest;  // by packet number
        std::uint64_t newest = 100, first_missing = 1;
        for (int step = 0; step < 1000; ++step) {
            newest += random() % 10 == 0 ? random() % 200 : random() % 3;
            Packet packet;
            packet.number = newest - random() % 65;
            packet.message_count = 1;
            const std::uint64_t id = random() % 4 == 0 ? first_missing : first_missing + random() % 4000;
            packet.frames[0] = piece(id, 0, 0, false);
            if (!inbox.plausible(packet)) continue;
            static_cast<void>(inbox.arrive(packet, packet.frames[0]));
            if (id == first_missing) first_missing += 1;  // at least
            highest[packet.number] = std::max(highest[packet.number], id);
            auto packet_before = highest.begin();
            std::uint64_t nearest = 0;
            for (std::uint64_t number = newest - 64; number <= newest + 1; ++number) {
                for (; packet_before != highest.end() && packet_before->first < number; ++packet_before)
                    nearest = std::max(nearest, packet_before->second);
                ASSERT_EQ(inbox.expected_id(number), nearest + 1) << number << " at step " << step;
            }
        }
    }
}

// A piece too far ahead, and more waiting bytes than the limit, are refused.
TEST(Inbox, WindowsAreBounded) {
    const std::vector<std::byte> bytes(kMaxDatagramBytes);
    Packet packet;
    packet.datagram = bytes;
    packet.number = 1;
    packet.message_count = 1;
    const auto is_plausible = [&](Inbox& inbox, std::uint64_t id, bool goes_on) {
        packet.frames[0] = piece(id, 1'000, 1, goes_on);
        return inbox.plausible(packet);
    };
    Inbox inbox(1);
    EXPECT_TRUE(is_plausible(inbox, kReliableWindow, false));
    EXPECT_FALSE(is_plausible(inbox, kReliableWindow + 1, false));
    EXPECT_TRUE(is_plausible(inbox, kReliableWindow - 1, true));
    EXPECT_FALSE(is_plausible(inbox, kReliableWindow, true));
    std::uint64_t id = 2;  // the first one is missing
    for (; is_plausible(inbox, id, true); ++id)
        ASSERT_EQ(inbox.arrive(packet, packet.frames[0]), Inbox::Arrival::kept);
    EXPECT_EQ(inbox.waiting_bytes(), (kReliableWindowBytes + kMaxReliableBytes) / 1'000 * 1'000);
}

// All pieces say that another one follows. The message ends with the piece that gives it the largest size.
TEST(Inbox, AMessageEndsAtTheLargestSizeIfItsPiecesContinue) {
    Inbox inbox(1);
    const std::vector<std::byte> bytes(kMaxDatagramBytes);
    constexpr std::uint64_t kPieces = kMaxReliableBytes / kMaxMessageBytes;
    for (std::uint64_t id = 1; id <= 2 * kPieces; ++id) {
        Packet packet;
        packet.datagram = bytes;
        packet.number = id;
        packet.message_count = 1;
        packet.frames[0] = piece(id, kMaxMessageBytes, id == 1 ? 0 : 1, true);
        ASSERT_TRUE(inbox.plausible(packet));
        const Inbox::Arrival arrival = inbox.arrive(packet, packet.frames[0]);
        ASSERT_EQ(arrival == Inbox::Arrival::whole, id % kPieces == 0) << id;
        if (arrival == Inbox::Arrival::whole) {
            ASSERT_EQ(inbox.whole().size(), kMaxReliableBytes);
        }
    }
    EXPECT_EQ(inbox.waiting_bytes(), 0u);
}

// Goal: pieces that no correct sender chooses cause no error and keep no memory.
// Method: random ids, distances and sizes of pieces, last or not; every byte must be delivered once.
TEST(Inbox, RandomPiecesAreDeliveredOnceAndKeepNoMemory) {
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        Inbox inbox(1);
        const std::vector<std::byte> bytes(kMaxDatagramBytes);
        std::size_t offered = 0, heard = 0, largest = 0;
        const auto hear = [&](std::size_t size) {
            heard += size;
            largest = std::max(largest, size);
        };
        std::set<std::uint64_t> known;
        const std::uint64_t count = seed % 2 ? 40 : 900;
        const auto offer = [&](std::uint64_t id) {
            const bool goes_on = random() % 16 != 0;
            const auto size = static_cast<std::uint16_t>(goes_on ? 1'000 : random() % 10);
            const auto distance = static_cast<std::uint16_t>(random() % (seed % 3 ? 4 : 2));
            Packet packet;
            packet.datagram = bytes;
            packet.number = 1;
            packet.message_count = 1;
            packet.frames[0] = piece(id, size, distance, goes_on);
            if (!inbox.plausible(packet)) return;
            const bool is_new = known.insert(id).second;
            const Inbox::Arrival arrival = inbox.arrive(packet, packet.frames[0]);
            ASSERT_EQ(arrival == Inbox::Arrival::known, !is_new);
            offered += is_new ? size : 0u;
            if (arrival == Inbox::Arrival::now) hear(size);
            if (arrival == Inbox::Arrival::whole) hear(inbox.whole().size());
            std::array<std::byte, kMaxMessageBytes> room;
            while (const auto next = inbox.take_ready(room)) hear(next->size());
            ASSERT_EQ(offered, heard + inbox.waiting_bytes());
        };
        for (int step = 0; step < 4'000; ++step) {
            offer(1 + random() % count);
            if (step % 16 == 0) {
                ASSERT_TRUE(is_consistent(inbox));
            }
            if (HasFatalFailure()) return;
        }
        for (std::uint64_t id = 1; id <= count; ++id) offer(id);
        if (HasFatalFailure()) return;
        EXPECT_LE(largest, kMaxReliableBytes);
        EXPECT_LE(inbox.waiting_bytes(), kMaxReliableBytes);  // the piece after the last one did not arrive
    }
}

TEST(Inbox, AnIdFarAheadIsRefusedUntilEarlierOnesArrive) {
    Inbox inbox(1);
    const auto has_room_for = [&](std::uint64_t id) {
        Packet packet;
        packet.number = id;
        packet.message_count = 1;
        packet.frames[0] = piece(id, 0, 0, false);
        packet.frames[0].distance = 1;
        const bool has_room = inbox.has_room(packet);
        if (has_room) inbox.arrive(packet, packet.frames[0]);
        return has_room;
    };
    EXPECT_FALSE(has_room_for(300));
    EXPECT_TRUE(has_room_for(256));
    EXPECT_TRUE(has_room_for(300)) << "the table has grown";
    EXPECT_FALSE(has_room_for(3'000));
    Packet empty;
    empty.message_count = 0;
    EXPECT_TRUE(inbox.has_room(empty)) << "pings and payloads need no room";
}

}  // namespace
}  // namespace shoal::net::impl
