#include "net/channel.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "net_world.h"

namespace shoal::net {
namespace {

TEST(Fifo, MatchesDeque) {
    std::mt19937 random(1);
    Fifo<int> fifo;
    std::deque<int> model;
    for (int step = 0; step < 20'000; ++step) {
        if (random() % 2 || model.empty()) {
            fifo.push(step);
            model.push_back(step);
        } else {
            const std::size_t count = 1 + random() % model.size();
            fifo.pop(count);
            model.erase(model.begin(), model.begin() + std::ptrdiff_t(count));
        }
        ASSERT_EQ(fifo.size(), model.size());
        for (std::size_t i = 0; i < model.size(); ++i) ASSERT_EQ(fifo[i], model[i]);
    }
}

TEST(MessageQueue, KeepsBytesAndBounds) {
    MessageQueue queue(1000);
    EXPECT_TRUE(queue.push(as_bytes("one")));
    EXPECT_TRUE(queue.push({}));
    EXPECT_TRUE(queue.push(as_bytes("three")));
    EXPECT_FALSE(queue.push(as_bytes(std::string(900, 'x'))));
    EXPECT_EQ(as_text(queue[0]), "one");
    queue.pop();
    EXPECT_EQ(as_text(queue[0]), "");
    EXPECT_EQ(as_text(queue[1]), "three");
    queue.pop();
    queue.pop();
    EXPECT_TRUE(queue.push(as_bytes(std::string(900, 'x'))));
    int empty = 0;
    MessageQueue other(1000);
    while (other.push({})) empty += 1;
    EXPECT_EQ(empty, 31);  // even nothing costs something
}

// Goal: whatever packets do, messages arrive once and in order, and all of them in the end.
// Method: sender and receiver joined by a list of packets, each of them lost, late, or delivered at random,
// with ids that cross 2^16.
TEST(Reliable, OnceAndInOrderWhateverPacketsDo) {
    for (std::uint32_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        const auto first = static_cast<std::uint16_t>(65'536 - random() % 700);
        ReliableSender sender(first, 4096 * MessageQueue::kEntryBytes);
        ReliableReceiver receiver(first);
        struct Sent {
            std::uint64_t number;
            std::vector<std::pair<std::uint16_t, std::string>> messages;
        };
        std::vector<Sent> flying;
        std::uint64_t number = 1;
        int queued = 0;
        int arrived = 0;
        const auto arrive = [&](const Sent& packet) {
            for (const auto& [id, text] : packet.messages) {
                ASSERT_TRUE(receiver.plausible(id));
                if (receiver.arrive(id, as_bytes(text)) != ReliableReceiver::Arrival::now) continue;
                ASSERT_EQ(text, std::to_string(arrived++));
                while (const auto next = receiver.take_next()) {
                    ASSERT_EQ(as_text(*next), std::to_string(arrived++));
                }
            }
        };
        for (int step = 0; step < 4000 && !(queued == 2000 && arrived == 2000 && flying.empty()); ++step) {
            for (std::uint64_t n = random() % 8; n > 0 && queued < 2000; --n) {
                if (sender.push(as_bytes(std::to_string(queued)))) queued += 1;
            }
            Sent packet{number++, {}};
            auto next = sender.next_pending(0, random() % 2 == 0);
            for (std::uint64_t n = random() % 10; n > 0 && next; --n) {
                packet.messages.push_back({sender.id(*next), as_text(sender.message(*next))});
                sender.sent(*next, packet.number);
                next = sender.next_pending(*next + 1, false);
            }
            flying.push_back(packet);
            while (flying.size() > random() % 12) {
                const std::size_t pick = random() % flying.size();
                const Sent chosen = flying[pick];
                flying.erase(flying.begin() + std::ptrdiff_t(pick));
                const std::uint64_t luck = random() % 10;
                if (luck >= 3) arrive(chosen);  // 0..2: lost on the way
                if (luck >= 3 && luck != 9) {
                    sender.delivered(chosen.number);
                } else {
                    sender.lost(chosen.number);  // 9: only its ack was
                }
                if (HasFatalFailure()) return;
            }
        }
        ASSERT_EQ(arrived, 2000);
        ASSERT_FALSE(sender.has_pending());
    }
}

TEST(Reliable, SendsNoFurtherThanTheWindow) {
    ReliableSender sender(0, 1 << 20);
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(sender.push(as_bytes("x")));
    int sent = 0;
    for (auto next = sender.next_pending(0, false); next; next = sender.next_pending(0, false)) {
        sender.sent(*next, 1 + std::uint64_t(sent++));
    }
    EXPECT_EQ(sent, kReliableWindow);
    sender.delivered(2);  // not the oldest: the window stays
    EXPECT_FALSE(sender.has_pending());
    sender.delivered(1);
    EXPECT_TRUE(sender.has_pending());
}

TEST(Reliable, ReceiverRefusesIdsBeyondTheWindow) {
    ReliableReceiver receiver(65'500);
    EXPECT_TRUE(receiver.plausible(65'500));
    EXPECT_TRUE(receiver.plausible(static_cast<std::uint16_t>(65'500 + kReliableWindow - 1)));
    EXPECT_FALSE(receiver.plausible(static_cast<std::uint16_t>(65'500 + kReliableWindow)));
    EXPECT_TRUE(receiver.plausible(65'499));  // an old one, to be ignored
    EXPECT_EQ(receiver.arrive(65'499, {}), ReliableReceiver::Arrival::duplicate);
}

}  // namespace
}  // namespace shoal::net
