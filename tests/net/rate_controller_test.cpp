// RateController alone, with a simple model of a path. rate_test.cpp tests it with Host and Client.

#include "net/rate/rate_controller.h"

#include <gtest/gtest.h>

#include "tests/net/support/rate_sender.h"

namespace shoal::net::impl {
namespace {

TEST(RateController, BeginsWithTenPacketsAndTheFirstRate) {
    ConnectionStats stats;
    RateController rate(32'000, 1'000'000, kStart, stats);
    EXPECT_EQ(stats.rate, 32'000);
    int packets = 0;
    for (; rate.may_send(); ++packets) rate.on_sent(1'200, kStart, stats);
    EXPECT_EQ(packets, 10);
    for (Time now = kStart; now < kStart + 10s; now += kTick) rate.update(now, 20s, stats);
    EXPECT_EQ(stats.rate, 32'000) << "without acks the rate does not change";
}

TEST(RateController, RatesAreBounded) {
    ConnectionStats stats;
    RateController slow(1, 5'000, kStart, stats);
    EXPECT_EQ(stats.rate, RateController::kMinRate);
    RateController fast(9'000, 5'000, kStart, stats);
    EXPECT_EQ(stats.rate, 5'000);

    for (const double capacity : {3'000.0, 1e6}) {
        Sender sender({.capacity = capacity, .queue_bytes = 20'000}, 1, 50'000);
        sender.run(30s);
        EXPECT_GE(sender.lowest_rate, RateController::kMinRate);
        EXPECT_LE(sender.highest_rate, 50'000);
    }
}

TEST(RateController, StartDoublesEachRoundTrip) {
    for (const Duration round_trip : {60ms, 120ms, 240ms}) {
        SCOPED_TRACE(round_trip.count());
        Sender sender({.round_trip = round_trip});
        while (sender.stats.rate < 1'000'000 && sender.now < kStart + 20s) sender.step();
        const double round_trips =
            seconds(sender.now - kStart) / seconds(std::max<Duration>(round_trip, 100ms));
        EXPECT_GE(round_trips, 2);
        EXPECT_LE(round_trips, 8) << "five doublings of a round trip and two ticks";
    }
}

// If a game does not use its rate, the path is not measured.
TEST(RateController, RateDoesNotRiseWithoutTraffic) {
    Sender sender({});
    sender.demand = 10'000;
    sender.run(20s);
    EXPECT_LE(sender.stats.rate, 100'000);
    EXPECT_EQ(sender.stats.rate_limit, RateLimit::application);
}

TEST(RateController, StartEndsWhenThePathIsFull) {
    for (const double capacity : {100e3, 300e3, 1e6}) {
        for (const Duration round_trip : {20ms, 60ms, 100ms}) {
            SCOPED_TRACE(testing::Message() << capacity << " bytes/s, " << round_trip.count() << " us");
            Sender sender({.capacity = capacity, .round_trip = round_trip});
            sender.run(4s);
            EXPECT_LE(sender.highest_rate, 6 * capacity + 50'000) << "about five times the delivered rate";
            sender.run(1s);
            EXPECT_LE(sender.highest_rate, 1.2 * capacity);
            EXPECT_GE(sender.goodput, 0.85 * capacity);
            EXPECT_LE(sender.worst_queue, 200ms);
        }
    }
}

// A policer causes no queue: only the delivered rate shows the capacity.
TEST(RateController, StartEndsWhenNoMoreIsDelivered) {
    Sender sender({.capacity = 200'000, .policer_bytes = 10'000});
    sender.run(5s);
    sender.run(5s);
    EXPECT_LE(sender.highest_rate, 1.6 * 200'000);
}

TEST(RateController, BottleneckIsUsedAndItsQueueIsShort) {
    for (const double capacity : {100e3, 300e3, 1e6, 2e6}) {
        for (const Duration round_trip : {20ms, 60ms, 120ms}) {
            SCOPED_TRACE(testing::Message() << capacity << " bytes/s, " << round_trip.count() << " us");
            Sender sender({.capacity = capacity, .round_trip = round_trip});
            sender.run(10s);
            double mean_rate = 0;
            for (int second = 0; second < 30; ++second) {
                sender.run(1s);
                EXPECT_LE(sender.highest_rate, 1.2 * capacity);
                EXPECT_LE(sender.median_queue(), 150ms);
                EXPECT_LE(sender.worst_queue, 250ms);
                mean_rate += sender.stats.rate / 30;
            }
            EXPECT_GE(mean_rate, 0.7 * capacity);
            EXPECT_LE(mean_rate, 1.15 * capacity);
            sender.run(20s);
            EXPECT_GE(sender.goodput, 0.85 * capacity);
            EXPECT_LE(sender.median_queue(), 60ms);
        }
    }
}

TEST(RateController, GrowsIntoAFasterPath) {
    Sender sender({.capacity = 200'000});
    sender.run(15s);
    sender.path.capacity = 1e6;
    sender.run(15s);
    sender.run(10s);
    EXPECT_GE(sender.goodput, 0.85 * 1e6);
}

// Delay within the known spread of the path does not lower the rate.
TEST(RateController, Rule34JitterIsNotTakenForAQueue) {
    for (const std::uint32_t seed : {1u, 2u, 3u}) {
        for (const Duration jitter : {20ms, 40ms, 60ms}) {
            SCOPED_TRACE(testing::Message() << "seed " << seed << ", jitter " << jitter.count() << " us");
            Sender sender({.jitter = jitter}, seed);
            sender.demand = 80'000;
            sender.run(5s);
            for (int second = 0; second < 60; ++second) {
                sender.run(1s);
                EXPECT_GE(sender.lowest_rate, 80'000);
                EXPECT_GE(sender.goodput, 0.9 * 80'000);
            }
            Sender bulk({.jitter = jitter}, seed, 300'000);
            bulk.run(10s);
            bulk.run(60s);
            EXPECT_GE(bulk.goodput, 0.95 * 300'000);
            EXPECT_GE(bulk.lowest_rate, 150'000) << "half of the rate for 200 ms, to find the floor";
        }
    }
}

TEST(RateController, Rule34AGameThatSendsLessThanItsRateKeepsTheRate) {
    for (const std::uint32_t seed : {1u, 2u, 3u}) {
        for (const Duration jitter : {0ms, 30ms, 60ms}) {
            SCOPED_TRACE(testing::Message() << "seed " << seed << ", jitter " << jitter.count() << " us");
            Sender sender({}, seed, 400'000);
            sender.run(5s);
            ASSERT_EQ(sender.stats.rate, 400'000);
            sender.path.jitter = jitter;
            sender.demand = 80'000;
            sender.run(60s);
            EXPECT_EQ(sender.lowest_rate, 400'000);
            EXPECT_EQ(sender.highest_rate, 400'000);
            EXPECT_EQ(sender.stats.rate_limit, RateLimit::application);
        }
    }
}

TEST(RateController, Rule34AShortDelayDoesNotCutAGameThatSendsLessThanItsRate) {
    Sender sender({}, 1, 400'000);
    sender.run(5s);
    ASSERT_EQ(sender.stats.rate, 400'000);
    sender.demand = 80'000;
    sender.run(2s);
    for (int i = 0; i < 10; ++i) {
        sender.path.foreign = 100ms;
        sender.run(1s);
        EXPECT_EQ(sender.lowest_rate, 400'000);
        sender.path.foreign = Duration(0);
        sender.run(2s);
        EXPECT_EQ(sender.lowest_rate, 400'000);
    }
}

// A drain cannot lower the rate of a game that sends less than the lowest rate, so it would prove nothing.
TEST(RateController, Rule34ADelayDoesNotCutAGameThatSendsLittle) {
    for (int i = 0; i < 20; ++i) {
        Sender sender({});
        sender.demand = 1'000;
        sender.run(5s);
        for (int delay = 0; delay < 8; ++delay) {
            sender.path.foreign = 150ms;
            sender.run(1s + i * 150ms);
            sender.path.foreign = Duration(0);
            sender.run(2500ms);
        }
        EXPECT_EQ(sender.stats.rate, 32'000) << "delays of " << seconds(1s + i * 150ms) << " s";
    }
}

// With jitter of more than twice the round trip the verdicts are random, but the cuts must not accumulate.
TEST(RateController, WideJitterDoesNotPreventTheWantedRate) {
    for (const std::uint32_t seed : {1u, 2u, 3u, 4u}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Sender sender({.jitter = 120ms}, seed);
        sender.demand = 80'000;
        sender.run(10s);
        sender.run(60s);
        EXPECT_GE(sender.goodput, 0.95 * 80'000);
    }
}

TEST(RateController, QueueOfADrainIsNotTakenForJitter) {
    Sender sender({.capacity = 300'000});
    sender.run(20s);
    sender.run(60s);
    EXPECT_LE(sender.median_queue(), 50ms);
    EXPECT_LE(sender.worst_queue, 200ms);
}

// A longer route looks like a queue. A lower rate does not shorten its delay, so the rate rises again.
TEST(RateController, ACutThatDoesNotShortenTheDelayIsUndone) {
    for (const Duration longer : {100ms, 150ms}) {
        SCOPED_TRACE(longer.count());
        Sender bulk({}, 1, 500'000);
        bulk.run(15s);
        bulk.path.round_trip += longer;
        bulk.run(4s);
        EXPECT_LT(bulk.lowest_rate, 250'000) << "the rate was cut";
        EXPECT_EQ(bulk.stats.rate, 500'000);
        bulk.run(10s);
        bulk.run(10s);
        EXPECT_GE(bulk.goodput, 0.95 * 500'000) << "the new floor is accepted";
        EXPECT_GE(bulk.lowest_rate, 250'000);

        Sender game({}, 1, 500'000);
        game.run(5s);
        game.demand = 100'000;
        game.run(10s);
        game.path.round_trip += longer;
        game.run(10s);
        EXPECT_LT(game.lowest_rate, 250'000);
        game.run(10s);
        EXPECT_EQ(game.stats.rate, 500'000);
        EXPECT_GE(game.goodput, 0.95 * 100'000);

        Sender limited({.capacity = 300'000});
        limited.run(15s);
        limited.path.round_trip += longer;
        limited.run(4s);
        EXPECT_GE(limited.stats.rate, 0.85 * 300'000);
        limited.run(20s);
        EXPECT_GE(limited.goodput, 0.85 * 300'000);
    }
}

TEST(RateController, AMuchLongerRouteIsAcceptedInTheEnd) {
    for (const Duration longer : {200ms, 250ms, 300ms, 400ms}) {
        SCOPED_TRACE(longer.count());
        Sender bulk({}, 1, 500'000);
        bulk.run(15s);
        bulk.path.round_trip += longer;
        bulk.run(20s);
        bulk.run(10s);
        EXPECT_GE(bulk.goodput, 0.95 * 500'000);
        Sender game({}, 1, 500'000);
        game.run(5s);
        game.demand = 100'000;
        game.run(10s);
        game.path.round_trip += longer;
        game.run(20s);
        game.run(10s);
        EXPECT_GE(game.lowest_rate, 100'000);
        EXPECT_GE(game.goodput, 0.95 * 100'000);
    }
}

// The test for a standing queue takes at most half of the bytes of a game that sends less than its rate, for
// half a second at a time.
TEST(RateController, Rule34DrainsCostAGameBelowItsRateLittle) {
    Sender game({.round_trip = 10ms});
    game.demand = 80'000;
    game.run(10s);
    const double before = game.stats.rate;
    game.path.round_trip += 230ms;
    game.run(8s);
    EXPECT_GE(game.lowest_rate, 0.4 * game.demand);
    EXPECT_GE(game.goodput, 0.85 * game.demand);
    EXPECT_GE(game.stats.rate, before);
}

TEST(RateController, ShorterRouteIsUsedAtOnce) {
    Sender sender({.capacity = 300'000, .round_trip = 200ms});
    sender.run(20s);
    sender.path.round_trip = 40ms;
    sender.run(2s);
    EXPECT_LT(sender.stats.rtt, 150ms);
    sender.run(20s);
    EXPECT_GE(sender.goodput, 0.85 * 300'000);
    EXPECT_LE(sender.median_queue(), 60ms);
}

// Another flow keeps a queue that a lower rate does not shorten. The queue is accepted while it exists.
TEST(RateController, ForeignQueueIsAcceptedAndForgotten) {
    for (const double capacity : {300e3, 1e6}) {
        for (const Duration foreign : {40ms, 80ms}) {
            SCOPED_TRACE(testing::Message() << capacity << " bytes/s, " << foreign.count() << " us");
            Sender sender({.capacity = capacity});
            sender.run(15s);
            sender.path.foreign = foreign;
            sender.run(5s);
            sender.run(25s);
            EXPECT_GE(sender.goodput, 0.85 * capacity);
            sender.path.foreign = Duration(0);
            sender.run(30s);
            sender.run(20s);
            EXPECT_GE(sender.goodput, 0.85 * capacity);
            EXPECT_LE(sender.median_queue(), 80ms);
            EXPECT_LE(sender.worst_queue, 180ms);
        }
    }
}

TEST(RateController, QueueDrainsAfterATenfoldDrop) {
    for (const Duration round_trip : {20ms, 40ms, 60ms}) {
        SCOPED_TRACE(round_trip.count());
        Sender sender({.capacity = 1e6, .round_trip = round_trip});
        sender.run(15s);
        sender.path.capacity = 1e5;
        sender.run(5s);
        EXPECT_LE(sender.worst_queue, 4s);
        sender.run(2s);
        EXPECT_LE(sender.worst_queue, 250ms);
        EXPECT_GE(sender.goodput, 0.75 * 1e5);
        sender.run(10s);
        EXPECT_GE(sender.goodput, 0.85 * 1e5);
        EXPECT_LE(sender.median_queue(), 80ms);
    }
}

TEST(RateController, RandomLossDoesNotLowerTheRate) {
    for (const std::uint32_t seed : {1u, 2u, 3u, 4u}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Sender sender({.loss = 0.2}, seed);
        sender.demand = 80'000;
        sender.run(15s);
        EXPECT_GE(sender.highest_rate, 80'000);
        int seconds_below = 0;
        for (int second = 0; second < 60; ++second) {
            sender.run(1s);
            seconds_below += sender.stats.rate < 80'000;
        }
        EXPECT_LE(seconds_below, 6) << "a trial of a second every sixteen seconds";
        sender.run(15s);
        EXPECT_GE(sender.goodput, 0.7 * 80'000);
    }
}

TEST(RateController, RateStaysBelowAPolicer) {
    for (const std::uint32_t seed : {1u, 2u}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Sender sender({.capacity = 200'000, .policer_bytes = 10'000}, seed);
        sender.run(15s);
        sender.run(30s);
        EXPECT_LE(sender.loss, 0.07);
        EXPECT_GE(sender.goodput, 0.85 * 200'000);
    }
}

TEST(RateController, ShallowQueueIsFoundByLoss) {
    for (const double queue_bytes : {6'000.0, 12'000.0}) {
        SCOPED_TRACE(queue_bytes);
        Sender sender({.capacity = 300'000, .queue_bytes = queue_bytes});
        sender.run(15s);
        sender.run(60s);
        EXPECT_LE(sender.loss, 0.045) << "after a cut for loss the rate grows slowly";
        EXPECT_GE(sender.goodput, 0.85 * 300'000);
    }
}

// After a stall the path delivers everything that was sent meanwhile, late and at once.
TEST(RateController, AStallIsNotTakenForAQueue) {
    Sender sender({}, 1, 300'000);
    sender.run(15s);
    for (int stall = 0; stall < 5; ++stall) {
        sender.stall(300ms);
        sender.run(3s);
        EXPECT_GE(sender.lowest_rate, 150'000) << "half of the rate, to find the floor";
        sender.run(1s);
        EXPECT_EQ(sender.highest_rate, 300'000);
        EXPECT_GE(sender.goodput, 0.85 * 300'000);
        sender.run(3s);
    }
}

// The queue of a stall is caused by this connection, but it drains without a lower rate.
TEST(RateController, StallsOfABottleneckCostLittle) {
    for (const Duration stall : {150ms, 300ms}) {
        SCOPED_TRACE(stall.count());
        Sender sender({.capacity = 300'000});
        sender.run(15s);
        for (int i = 0; i < 6; ++i) {
            sender.stall(stall);
            sender.run(3s);
            EXPECT_GE(sender.goodput, 0.9 * 300'000) << i;
            EXPECT_LE(sender.worst_queue, 200ms) << i;
        }
    }
}

TEST(RateController, QueueOfALongStallDrains) {
    Sender sender({.capacity = 300'000});
    sender.run(15s);
    for (int i = 0; i < 6; ++i) {
        sender.stall(600ms);
        sender.run(3s);
        EXPECT_LE(sender.worst_queue, 2s) << i;
    }
    sender.run(10s);
    EXPECT_LE(sender.worst_queue, 300ms);
    EXPECT_LE(sender.median_queue(), 120ms);
}

TEST(RateController, PeaksFromBeforeADropAreForgotten) {
    Sender sender({.capacity = 300'000});
    sender.run(15s);
    sender.path.capacity = 60'000;
    sender.run(3s);
    sender.run(3s);
    EXPECT_LE(sender.worst_queue, 200ms);
    EXPECT_LE(sender.median_queue(), 80ms);
    EXPECT_GE(sender.goodput, 0.85 * 60'000);
}

// Acks that come more rarely than rounds end must not make the delivered rate look higher than it is.
TEST(RateController, RareAcksDoNotLetTheQueueGrow) {
    for (const bool is_polled : {false, true}) {
        for (const Duration interval : {50ms, 100ms, 250ms, 500ms}) {
            for (const double capacity : {20e3, 200e3, 2e6}) {
                for (const Duration round_trip : {10ms, 50ms, 150ms}) {
                    SCOPED_TRACE(testing::Message()
                                 << "acks each " << interval.count() << " us, polled " << is_polled << ", "
                                 << capacity << " bytes/s, " << round_trip.count() << " us");
                    Sender sender({.capacity = capacity,
                                   .round_trip = round_trip,
                                   .ack_interval = interval,
                                   .is_polled = is_polled});
                    sender.run(10s);
                    EXPECT_LE(sender.worst_queue, 5s) << "the queue of the start";
                    sender.run(20s);
                    sender.run(60s);
                    EXPECT_LE(sender.median_queue(), 2 * (round_trip + interval));
                    EXPECT_LE(sender.worst_queue, 1s);
                    EXPECT_GE(sender.goodput, 0.85 * capacity);
                }
            }
        }
    }
}

// Acks that come more rarely than timeouts end must not open the breaker again and again.
TEST(RateController, RareAcksDoNotStarveAFreePath) {
    for (const bool is_polled : {false, true}) {
        for (const Duration interval : {50ms, 100ms, 250ms, 500ms}) {
            for (const double demand : {20e3, 200e3, 1e6}) {
                for (const Duration round_trip : {10ms, 50ms, 150ms}) {
                    SCOPED_TRACE(testing::Message()
                                 << "acks each " << interval.count() << " us, polled " << is_polled << ", "
                                 << demand << " bytes/s, " << round_trip.count() << " us");
                    Sender sender(
                        {.round_trip = round_trip, .ack_interval = interval, .is_polled = is_polled});
                    sender.demand = demand;
                    sender.run(4s);
                    sender.run(30s);
                    EXPECT_GE(sender.goodput, 0.98 * demand);
                    EXPECT_GE(sender.lowest_rate, demand);
                }
            }
        }
    }
}

}  // namespace
}  // namespace shoal::net::impl
