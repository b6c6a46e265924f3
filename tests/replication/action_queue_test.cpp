#include "replication/action/action_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/replication/support/action_desk.h"
#include "tests/replication/support/stage_actions.h"

namespace shoal::replication::impl::action_queue_test {
namespace {

using action_desk::Chat;
using action_desk::Desk;
using action_desk::Novel;
using action_desk::Row;
using action_desk::Words;
using stage_actions::Push;
using stage_actions::Speech;
using stage_actions::stage_schema;
using stage_actions::type_of;

/// A client's queue, and the runs of its payloads.
struct Outgoing : Desk {
    template <class T = Row>
    void add(std::uint32_t number) {
        queue.add(std::is_same_v<T, Chat> ? ActionStream::independent : ActionStream::ordered,
                  record<T>(number));
    }
    /// Returns the actions that the next payload brings to the inbox; nothing if there is no section.
    std::optional<Words> send(std::size_t room_bits = 9'000) {
        BitWriter out;
        if (!queue.write_section(packet + 1, room_bits, out)) return std::nullopt;
        ++packet;
        EXPECT_LE(out.bit_count(), room_bits);
        EXPECT_TRUE(queue.is_consistent());
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        BitReader in(bytes);
        Words numbers;
        for (std::size_t i = 0; i < kActionStreams; ++i) {
            if (!in.read_bool()) continue;
            std::vector<ActionRecord> records;
            ActionRun run;
            EXPECT_TRUE(read_actions(schema, 0, in, records, run));
            epoch = run.epoch;
            for (const ActionRecord& one : run.records) numbers.push_back(one.words[0]);
        }
        EXPECT_TRUE(in.at_padding());
        return numbers;
    }

    ActionQueue queue{schema};
    std::uint64_t packet = 0;
    std::uint8_t epoch = 0;
};

TEST(ActionQueue, ASmallActionIsInThreePayloadsAndALargeOneInOne) {
    Outgoing small;
    EXPECT_EQ(small.send(), std::nullopt);
    small.add(5);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(small.send(), Words{5});
    EXPECT_EQ(small.send(), std::nullopt);
    small.queue.on_fate(2, false);
    EXPECT_EQ(small.send(), Words{5}) << "lost: once more";
    EXPECT_EQ(small.send(), std::nullopt);
    small.queue.on_fate(1, true);
    small.queue.on_fate(3, false);
    EXPECT_EQ(small.send(), std::nullopt) << "it has arrived";
    EXPECT_EQ(small.queue.size(), 1u) << "without an answer";
    Outgoing large;
    ActionRecord record = large.record<Novel>(300);
    record.words.resize(301, 200);
    large.queue.add(ActionStream::ordered, record);
    EXPECT_EQ(large.send(), Words{300});
    EXPECT_EQ(large.send(), std::nullopt);
}

TEST(ActionQueue, EachPayloadHasWhatIsNotKnownToHaveArrived) {
    Outgoing desk;
    desk.add(0);
    desk.add<Chat>(100);
    EXPECT_EQ(desk.send(), (Words{0, 100}));
    desk.add(1);
    EXPECT_EQ(desk.send(), (Words{0, 1, 100}));
    desk.queue.on_fate(1, true);
    desk.add(2);
    EXPECT_EQ(desk.send(), (Words{1, 2}));
    desk.queue.on_fate(3, true);
    desk.queue.on_fate(2, true);
    desk.add(3);
    EXPECT_EQ(desk.send(), Words{3});
    EXPECT_EQ(desk.queue.first(ActionStream::ordered), 0u);
    EXPECT_EQ(desk.queue.next(ActionStream::ordered), 4u);
    // Answers, also before the ack.
    EXPECT_EQ(desk.queue.front(ActionStream::ordered, 1), nullptr);
    ASSERT_NE(desk.queue.front(ActionStream::ordered, 0), nullptr);
    for (int i = 0; i < 4; ++i) desk.queue.pop(ActionStream::ordered);
    EXPECT_EQ(desk.queue.front(ActionStream::ordered, 4), nullptr);
    desk.add(4);
    EXPECT_EQ(desk.send(), Words{4});
    EXPECT_EQ(desk.queue.front(ActionStream::ordered, 4)->words, Words{4});
    EXPECT_EQ(desk.queue.size(), 2u);
}

TEST(ActionQueue, AfterARejectionTheStreamGoesOnInANewEpoch) {
    Outgoing desk;
    for (std::uint32_t i = 0; i < 3; ++i) desk.add(i);
    EXPECT_EQ(desk.send(), (Words{0, 1, 2}));
    EXPECT_EQ(desk.epoch, 0);
    EXPECT_EQ(desk.queue.take_ordered().size(), 3u);
    EXPECT_EQ(desk.send(), std::nullopt);
    desk.add(7);
    EXPECT_EQ(desk.queue.first(ActionStream::ordered), 1u);
    EXPECT_EQ(desk.send(), Words{7});
    EXPECT_EQ(desk.epoch, 1);
    desk.queue.on_fate(1, true);
    EXPECT_EQ(desk.send(), Words{7}) << "the packet was of the former epoch";
    desk.queue.reset();
    EXPECT_EQ(desk.queue.size(), 0u);
    EXPECT_EQ(desk.queue.next(ActionStream::ordered), 0u);
    desk.queue.reset({70'000, 9}, 4);
    desk.add(8);
    desk.add<Chat>(9);
    EXPECT_EQ(desk.queue.next(ActionStream::ordered), 70'001u);
    EXPECT_EQ(desk.queue.first(ActionStream::independent), 9u);
    EXPECT_EQ(desk.queue.front(ActionStream::ordered, 70'000 & 0xffff)->words, Words{8});
    EXPECT_TRUE(desk.send());
}

TEST(ActionQueue, TheFateOfAPacketCountsForTheActionsThatAreNotKnownToHaveArrived) {
    Outgoing desk;
    desk.add(5);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(desk.send(), Words{5});
    EXPECT_FALSE(desk.queue.lacked_room());
    EXPECT_EQ(desk.send(), std::nullopt);
    EXPECT_FALSE(desk.queue.lacked_room()) << "nothing is due";
    desk.queue.on_fate(77, false);  // a packet without a section
    EXPECT_EQ(desk.send(), std::nullopt);
    desk.queue.on_fate(3, false);
    EXPECT_EQ(desk.send(), Words{5});
    desk.queue.on_fate(1, true);  // in any order
    desk.add(6);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(desk.send(), Words{6});
    desk.queue.on_fate(2, false);
    EXPECT_EQ(desk.send(), std::nullopt) << "what it had has arrived otherwise";
    desk.queue.on_fate(6, false);
    EXPECT_EQ(desk.send(), Words{6});
}

TEST(ActionQueue, AnAnswerEndsTheCopies) {
    Outgoing desk;
    desk.add(5);
    EXPECT_EQ(desk.send(), Words{5});
    desk.queue.pop(ActionStream::ordered);
    EXPECT_EQ(desk.send(), std::nullopt);
    EXPECT_FALSE(desk.queue.lacked_room());
    desk.queue.on_fate(1, false);
    EXPECT_EQ(desk.send(), std::nullopt);
}

TEST(ActionQueue, ARejectionLeavesNothingOfTheFormerEpoch) {
    Outgoing desk;
    const std::size_t room = measure_action(desk.schema, desk.record<Row>(0)) + 20;  // for one of them
    for (std::uint32_t i = 0; i < 6; ++i) desk.add(i);
    EXPECT_EQ(desk.send(), (Words{0, 1, 2, 3, 4, 5}));
    static_cast<void>(desk.queue.take_ordered());
    ActionRecord large = desk.record<Novel>(300);
    large.words.resize(301, 200);
    desk.queue.add(ActionStream::ordered, large);
    EXPECT_EQ(desk.send(), Words{300});
    EXPECT_EQ(desk.send(), std::nullopt) << "the copies of the small ones ended";
    desk.queue.on_fate(2, true);
    desk.add(7);
    desk.add(8);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(desk.send(room), Words{7});
    EXPECT_EQ(desk.send(room), std::nullopt);
    desk.queue.on_fate(3, true);
    EXPECT_EQ(desk.send(room), Words{8}) << "whatever becomes of the packet of the former epoch";
}

TEST(ActionQueue, TheIndependentStreamHasNoEpoch) {
    Outgoing desk;
    desk.add(0);
    EXPECT_EQ(desk.send(), Words{0});
    static_cast<void>(desk.queue.take_ordered());
    desk.add<Chat>(100);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(desk.send(), Words{100});
    EXPECT_EQ(desk.send(), std::nullopt);
    EXPECT_EQ(desk.epoch, 0);
    desk.queue.on_fate(2, false);
    EXPECT_EQ(desk.send(), Words{100});
    desk.queue.on_fate(3, true);
    desk.add<Chat>(101);
    EXPECT_EQ(desk.send(), Words{101});
}

TEST(ActionQueue, ANewConnectionKnowsNothingOfFormerPackets) {
    Outgoing desk;
    for (std::uint32_t i = 0; i < 3; ++i) desk.add(i);
    desk.add<Chat>(100);
    EXPECT_EQ(desk.send(), (Words{0, 1, 2, 100}));
    for (const bool continues : {false, true}) {
        SCOPED_TRACE(continues);
        desk.packet = 0;
        continues ? desk.queue.reset({70'000, 9}, 4) : desk.queue.reset();
        EXPECT_EQ(desk.queue.size(), 0u);
        desk.add(7);
        EXPECT_EQ(desk.send(), Words{7});
        EXPECT_EQ(desk.epoch, continues ? 4 : 0);
        desk.queue.on_fate(1, true);
        EXPECT_TRUE(desk.queue.is_consistent());
        desk.add(8);
        EXPECT_EQ(desk.send(), Words{8});
        for (const std::uint32_t i : {9u, 10u, 11u}) desk.add(i);
        EXPECT_EQ(desk.send(), (Words{8, 9, 10, 11}));
    }
}

TEST(ActionQueue, TheRoomIsThatOfBothStreamsTogether) {
    Outgoing desk;
    const std::size_t row = measure_action(desk.schema, desk.record<Row>(1)),
                      chat = measure_action(desk.schema, desk.record<Chat>(2));
    desk.add(1);
    EXPECT_EQ(desk.send(row + kActionStreams - 1), std::nullopt);
    EXPECT_TRUE(desk.queue.lacked_room());
    EXPECT_EQ(desk.send(row + kActionStreams), Words{1});
    EXPECT_FALSE(desk.queue.lacked_room());
    desk.add<Chat>(2);
    EXPECT_EQ(desk.send(row + chat + kActionStreams - 1), Words{1});
    EXPECT_TRUE(desk.queue.lacked_room()) << "for the other stream";
    EXPECT_EQ(desk.send(row + chat + kActionStreams), (Words{1, 2}));
    EXPECT_FALSE(desk.queue.lacked_room());
}

TEST(ActionQueue, AStreamIsFullWith256Actions) {
    Outgoing desk;
    for (std::uint32_t i = 0; i < kMaxWaitingActions; ++i) {
        EXPECT_FALSE(desk.queue.is_full(ActionStream::ordered));
        desk.add(i);
    }
    EXPECT_TRUE(desk.queue.is_full(ActionStream::ordered));
    EXPECT_FALSE(desk.queue.is_full(ActionStream::independent));
}

TEST(ActionQueue, TheFirstActionMayTakeAllRoomAndOthersOnlyTheShareOfTheirStream) {
    Outgoing desk;
    for (std::uint32_t i = 0; i < 40; ++i) desk.add(i);
    for (std::uint32_t i = 0; i < 40; ++i) desk.add<Chat>(100 + i);
    const std::optional<Words> sent = desk.send(4'000);
    ASSERT_TRUE(sent);
    EXPECT_TRUE(std::count_if(sent->begin(), sent->end(), [](std::uint32_t n) { return n < 100; }) > 3);
    EXPECT_TRUE(std::count_if(sent->begin(), sent->end(), [](std::uint32_t n) { return n >= 100; }) > 3)
        << "one stream does not take the other one's room";
    EXPECT_LT(sent->size(), 40u);
}

// Goal: every action arrives, without a later one that would make the queue send again. Method: payloads with
// little room are lost or arrive, and their fates and the answers come in any order.
TEST(ActionQueue, WhatDidNotFitIsSentWhenTheRestArrived) {
    for (std::uint32_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        Outgoing desk;
        constexpr std::uint32_t kActions = 40;
        for (std::uint32_t i = 0; i < kActions; ++i) desk.add(i);
        std::uint32_t arrived = 0, answered = 0;
        std::deque<std::pair<std::uint64_t, bool>> flying;
        const auto answer = [&] {
            for (; answered < arrived; ++answered) desk.queue.pop(ActionStream::ordered);
        };
        for (int step = 0; step < 2'000 && answered < kActions; ++step) {
            const bool is_delivered = random() % 4 != 0;
            if (const std::optional<Words> sent = desk.send(200 + random() % 400)) {
                flying.emplace_back(desk.packet, is_delivered);
                for (const std::uint32_t number : *sent) arrived += is_delivered && number == arrived;
            }
            if (random() % 2 == 0) answer();
            while (!flying.empty() && (flying.size() > 5 || random() % 3 == 0)) {
                desk.queue.on_fate(flying.front().first, flying.front().second);
                flying.pop_front();
            }
            ASSERT_TRUE(desk.queue.is_consistent());
        }
        EXPECT_EQ(answered, kActions);
    }
}

TEST(Actions, AnActionOfTheGreatestSizeIsSent) {
    Stage stage(stage_schema());
    ActionQueue queue(stage.schema);
    std::vector<NetId> touched(kMaxTouched, 0xffff'ffffu);
    std::vector<std::uint32_t> words{0, 500};  // `number`, and the length of the text
    for (int i = 0; i < 500; ++i) words.push_back(static_cast<std::uint32_t>(i * 89 % 251));
    queue.add(ActionStream::ordered,
              {static_cast<std::uint8_t>(type_of<Speech>(stage)), 1, 0, kMaxCreated, touched, words});
    BitWriter out;
    EXPECT_FALSE(queue.write_section(1, 2'000, out));
    EXPECT_TRUE(queue.lacked_room());
    EXPECT_TRUE(queue.write_section(1, std::size_t{net::kMaxPayloadBytes} * 8 - kSections, out));
    EXPECT_FALSE(queue.lacked_room());
    EXPECT_LE(out.bit_count(), std::size_t{net::kMaxPayloadBytes} * 8 - kSections);
}

TEST(Actions, AreNotSentWithoutRoom) {
    Stage stage(stage_schema());
    ActionQueue queue(stage.schema);
    queue.add(ActionStream::ordered,
              {static_cast<std::uint8_t>(type_of<Push>(stage)), 1, 0, 0, {}, {0, 0, 0}});
    for (std::size_t room = 0; room < 40; ++room) {
        BitWriter out;
        EXPECT_FALSE(queue.write_section(1, room, out)) << room;
        EXPECT_TRUE(queue.lacked_room());
        EXPECT_EQ(out.bit_count(), 0u);
    }
}

}  // namespace
}  // namespace shoal::replication::impl::action_queue_test
