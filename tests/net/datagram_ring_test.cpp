#include "net/socket/network_thread.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <thread>

namespace shoal::net::impl {
namespace {

void fill(DatagramRing::Slot& slot, std::uint64_t number) {
    slot.peer = Address::ipv4(10, 0, 0, 1, static_cast<std::uint16_t>(number));
    slot.time = Time(static_cast<Time::rep>(number));
    slot.size = static_cast<std::uint16_t>(16 + number % (kMaxDatagramBytes - 15));
    std::memcpy(slot.bytes.data(), &number, sizeof number);
    std::memcpy(slot.bytes.data() + slot.size - 8, &number, sizeof number);
}

bool holds(const DatagramRing::Slot& slot, std::uint64_t number) {
    DatagramRing::Slot expected;
    fill(expected, number);
    return slot.peer == expected.peer && slot.time == expected.time && slot.size == expected.size &&
           std::memcmp(slot.bytes.data(), &number, 8) == 0 &&
           std::memcmp(slot.bytes.data() + slot.size - 8, &number, 8) == 0;
}

// Goal: the ring equals a bounded queue, over many rounds.
// Method: seeded pushes and pops in one thread; compares each.
TEST(DatagramRing, MatchesQueueModel) {
    std::mt19937 random(1);
    DatagramRing ring(5);
    ASSERT_EQ(ring.capacity(), 8u);
    std::deque<std::uint64_t> model;
    std::uint64_t next = 0;
    for (int step = 0; step < 10'000; ++step) {
        if (random() % 2 == 0) {
            DatagramRing::Slot* const slot = ring.writable();
            ASSERT_EQ(slot != nullptr, model.size() < ring.capacity());
            if (!slot) continue;
            fill(*slot, next);
            ring.commit();
            model.push_back(next++);
        } else {
            const DatagramRing::Slot* const slot = ring.readable();
            ASSERT_EQ(slot != nullptr, !model.empty());
            if (!slot) continue;
            ASSERT_TRUE(holds(*slot, model.front()));
            ring.release();
            model.pop_front();
        }
    }
}

TEST(DatagramRing, ACapacityOfZeroBecomesOne) {
    DatagramRing ring(0);
    EXPECT_EQ(ring.capacity(), 1u);
    EXPECT_EQ(ring.readable(), nullptr);
    ASSERT_NE(ring.writable(), nullptr);
    ring.commit();
    EXPECT_EQ(ring.writable(), nullptr);
    ASSERT_NE(ring.readable(), nullptr);
    ring.release();
    EXPECT_EQ(ring.readable(), nullptr);
}

// For the thread sanitizer: the reader gets complete datagrams in order.
TEST(DatagramRing, CarriesBetweenThreads) {
    constexpr std::uint64_t kCount = 50'000;
    DatagramRing ring(16);
    std::thread writer([&] {
        for (std::uint64_t number = 0; number < kCount;) {
            if (DatagramRing::Slot* const slot = ring.writable()) {
                fill(*slot, number++);
                ring.commit();
            } else {
                std::this_thread::yield();
            }
        }
    });
    std::uint64_t wrong = 0;
    for (std::uint64_t number = 0; number < kCount;) {
        if (const DatagramRing::Slot* const slot = ring.readable()) {
            wrong += !holds(*slot, number++);
            ring.release();
        } else {
            std::this_thread::yield();
        }
    }
    writer.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(ring.readable(), nullptr);
}

}  // namespace
}  // namespace shoal::net::impl
