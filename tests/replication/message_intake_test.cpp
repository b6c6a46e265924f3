#include "replication/message/message_intake.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace shoal::replication::impl::message_intake_test {
namespace {

using namespace std::chrono_literals;

MessageIntake::Verdict receive(MessageIntake& intake, const MessageLimits& limits, net::Time now,
                               std::size_t size, net::Channel channel = net::Channel::reliable) {
    MessageIntake::Item message{channel, std::vector<std::byte>(size), false, {}, now};
    return intake.arrive(limits, message, false);
}

TEST(MessageIntake, KeepsTheRateOverALongTime) {
    const MessageLimits limits;
    MessageIntake intake;
    MessageIntake::Item item;
    std::mt19937 random(1);
    std::uint64_t handled = 0;
    net::Time now{5s};
    for (int i = 0; i < 6'000; ++i, now += 10ms) {
        while (intake.take(limits, now, item)) handled += 1;
        if (intake.waiting() < 200 && random() % 4 != 0)
            handled += receive(intake, limits, now, 10) == MessageIntake::Verdict::deliver;
    }
    EXPECT_NEAR(static_cast<double>(handled), 100 + 60 * 50, 10);
}

TEST(MessageIntake, ABurstIsDeliveredAndTheRestWaitsInOrder) {
    MessageLimits limits;
    limits.messages_per_s = 10;
    limits.burst_s = 0.5;
    limits.max_waiting = 2;
    MessageIntake intake;
    net::Time now{5s};
    const std::vector<std::byte> bytes(7);
    const auto arrive = [&](net::Channel channel = net::Channel::reliable) {
        return receive(intake, limits, now, 7, channel);
    };
    for (int i = 0; i < 5; ++i) EXPECT_EQ(arrive(), MessageIntake::Verdict::deliver);
    EXPECT_EQ(arrive(net::Channel::sequenced), MessageIntake::Verdict::wait);
    now += 50ms;
    EXPECT_EQ(arrive(net::Channel::unreliable), MessageIntake::Verdict::wait) << "behind the one that waits";
    EXPECT_EQ(intake.waiting(), 2u);
    EXPECT_EQ(intake.waiting_bytes(), 14u);
    EXPECT_EQ(arrive(), MessageIntake::Verdict::flood);
    MessageIntake::Item item;
    EXPECT_FALSE(intake.take(limits, now, item));
    now += 51ms;
    ASSERT_TRUE(intake.take(limits, now, item));
    EXPECT_EQ(item.channel, net::Channel::sequenced);
    EXPECT_EQ(item.bytes, bytes);
    EXPECT_FALSE(intake.take(limits, now, item)) << "one in a tenth of a second";
    EXPECT_EQ(intake.waiting_bytes(), 7u);
    now += 100ms;
    ASSERT_TRUE(intake.take(limits, now, item));
    EXPECT_EQ(item.channel, net::Channel::unreliable);
    now += 10s;
    for (int i = 0; i < 5; ++i) EXPECT_EQ(arrive(), MessageIntake::Verdict::deliver);
    EXPECT_EQ(arrive(), MessageIntake::Verdict::wait) << "silence saves no more than a burst";
}

TEST(MessageIntake, BytesAreLimitedToo) {
    MessageLimits limits;
    limits.bytes_per_s = 1'000;
    limits.burst_s = 1;
    limits.max_waiting_bytes = 500;
    MessageIntake intake;
    net::Time now{5s};
    const auto arrive = [&](std::size_t size) { return receive(intake, limits, now, size); };
    EXPECT_EQ(arrive(999), MessageIntake::Verdict::deliver);
    EXPECT_EQ(arrive(1'000), MessageIntake::Verdict::deliver) << "a byte was left";
    EXPECT_EQ(arrive(0), MessageIntake::Verdict::wait) << "a large message is paid off first";
    MessageIntake::Item item;
    EXPECT_FALSE(intake.take(limits, now + 990ms, item));
    EXPECT_TRUE(intake.take(limits, now += 1s, item));
    EXPECT_EQ(arrive(2), MessageIntake::Verdict::deliver);
    EXPECT_EQ(arrive(500), MessageIntake::Verdict::wait) << "at most so many bytes wait";
    EXPECT_EQ(arrive(1), MessageIntake::Verdict::flood);
}

TEST(MessageIntake, MessagesThatWaitForTooLongAreAFlood) {
    MessageLimits limits;
    limits.messages_per_s = 1;
    limits.burst_s = 1;
    MessageIntake intake;
    MessageIntake::Item item;
    net::Time now{5s};
    const std::vector<std::byte> bytes(7);
    EXPECT_FALSE(intake.is_flood(limits, now + 1h)) << "nothing waits";
    const auto arrive = [&] { return receive(intake, limits, now, bytes.size()); };
    EXPECT_EQ(arrive(), MessageIntake::Verdict::deliver);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(arrive(), MessageIntake::Verdict::wait);
    EXPECT_FALSE(intake.is_flood(limits, now + 2'999ms));
    EXPECT_TRUE(intake.is_flood(limits, now + 3s));
    now += 2s;
    EXPECT_TRUE(intake.take(limits, now, item));
    EXPECT_EQ(arrive(), MessageIntake::Verdict::wait);
    EXPECT_TRUE(intake.is_flood(limits, now + 1s)) << "there always was a message that waited";
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(intake.take(limits, now += 1s, item));
    EXPECT_EQ(arrive(), MessageIntake::Verdict::wait);
    EXPECT_FALSE(intake.is_flood(limits, now + 2'999ms)) << "a new wait began";
}

TEST(MessageIntake, AMessageBehindOneThatWaitsWaitsAlsoIfTheRateAllowsIt) {
    MessageLimits limits;
    limits.messages_per_s = 10;
    limits.burst_s = 0.1;
    MessageIntake intake;
    const auto arrive = [&](net::Time now) { return receive(intake, limits, now, 7); };
    EXPECT_EQ(arrive(net::Time{0s}), MessageIntake::Verdict::deliver) << "the clock may begin with 0";
    EXPECT_EQ(arrive(net::Time{0s}), MessageIntake::Verdict::wait);
    EXPECT_EQ(arrive(net::Time{2s}), MessageIntake::Verdict::wait);
    MessageIntake::Item item;
    EXPECT_TRUE(intake.take(limits, net::Time{2s}, item));
    EXPECT_FALSE(intake.take(limits, net::Time{2s}, item));
    EXPECT_TRUE(intake.take(limits, net::Time{3s}, item));
    EXPECT_FALSE(intake.take(limits, net::Time{9s}, item));
}

TEST(MessageIntake, WhenAllBytesAreUsedTheNextMessageWaits) {
    MessageLimits limits;
    limits.bytes_per_s = 1'000;
    limits.burst_s = 1;
    limits.max_waiting = 3;
    limits.max_waiting_bytes = 500;
    MessageIntake intake;
    const net::Time now{5s};
    const auto arrive = [&](std::size_t size) { return receive(intake, limits, now, size); };
    EXPECT_EQ(arrive(1'000), MessageIntake::Verdict::deliver);
    EXPECT_EQ(arrive(200), MessageIntake::Verdict::wait) << "no byte is left";
    EXPECT_EQ(arrive(301), MessageIntake::Verdict::flood);
    EXPECT_EQ(arrive(300), MessageIntake::Verdict::wait);
    EXPECT_EQ(arrive(0), MessageIntake::Verdict::wait);
    EXPECT_EQ(arrive(0), MessageIntake::Verdict::flood) << "three wait";
    EXPECT_EQ(intake.waiting(), 3u);
    EXPECT_EQ(intake.waiting_bytes(), 500u);
}

}  // namespace
}  // namespace shoal::replication::impl::message_intake_test
