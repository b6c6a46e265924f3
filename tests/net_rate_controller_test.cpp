// RateController by itself, against a path too simple to be wrong. net_rate_test.cpp has the same behind the
// real Host and Client.

#include "net/rate/rate_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <random>
#include <vector>

namespace shoal::net {
namespace {

using namespace std::chrono_literals;

constexpr double kBulk = 1e9;  // more than any path here carries
constexpr Duration kTick = 16'667us;
constexpr Time kStart = 100s;

double seconds(Duration duration) {
    return std::chrono::duration<double>(duration).count();
}

struct PathConfig {
    double capacity = 0;  // bytes per second; 0: without a bottleneck
    double queue_bytes = std::numeric_limits<double>::infinity();  // what does not fit is lost
    double policer_bytes = 0;                                      // > 0: a token bucket instead of a queue
    Duration round_trip = 50ms;                                    // without queue and jitter
    Duration jitter{0};   // up to this much more, evenly spread; the order is kept
    Duration foreign{0};  // what the queue of another flow adds
    double loss = 0;
};

/// A sender that uses a RateController over a path with an ideal receiver, which acknowledges all that it got
/// at each of its own ticks. Both ends tick at 60 Hz.
class Sender {
public:
    explicit Sender(const PathConfig& path_config, std::uint32_t seed = 1,
                    std::uint64_t max_rate = 10'000'000, std::uint64_t first_rate = 32'000)
        : path(path_config),
          rate(first_rate, max_rate, kStart, stats),
          random(seed),
          max_rate_(static_cast<double>(max_rate)) {}

    /// One tick of the sender.
    void step() {
        const double rate_before = stats.rate;
        now += kTick;
        move_queue();
        while (next_ack_ <= now) acknowledge();
        receive();
        lose_overdue();
        rate.update(now, timeout(), stats);
        earned_ += std::max(stats.rate, rate_before) * seconds(kTick);
        owed_ = std::min(owed_ + demand * seconds(kTick), std::max(demand, 1'200.0));
        while (owed_ >= 1 && rate.may_send()) send(static_cast<std::size_t>(std::min(owed_, 1'200.0)));
        observe();
    }
    void run(Duration duration) {
        lowest_rate = kBulk;
        highest_rate = 0;
        worst_queue = Duration(0);
        queues.clear();
        const std::uint64_t delivered = stats.bytes_delivered, lost = stats.bytes_lost;
        const Time began = now;
        while (now < began + duration) step();
        EXPECT_GE(lowest_rate, RateController::kMinRate);
        EXPECT_LE(highest_rate, max_rate_);
        EXPECT_LE(overdraft_, 1'200) << "more than the first burst, what the rate allowed and one packet";
        const auto got = static_cast<double>(stats.bytes_delivered - delivered);
        const auto missed = static_cast<double>(stats.bytes_lost - lost);
        goodput = got / seconds(now - began);
        loss = missed / std::max(1.0, got + missed);
    }
    /// After the breaker opened: one probe that arrives, if the path lets it.
    bool revive() {
        send(100);
        for (const Time end = now + 5s; rate.is_broken() && now < end;) step();
        return !rate.is_broken();
    }
    /// What arrives within `duration` comes at its end.
    void stall(Duration duration) { last_arrival_ = std::max(last_arrival_, now + duration); }
    /// Of the bottleneck, in the last run.
    Duration median_queue() {
        const auto middle = queues.begin() + static_cast<std::ptrdiff_t>(queues.size() / 2);
        std::nth_element(queues.begin(), middle, queues.end());
        return *middle;
    }
    Duration queue_now() const {
        double bytes = 0;
        for (const Packet& packet : queue_) bytes += static_cast<double>(packet.bytes);
        return path.capacity == 0 ? Duration(0)
                                  : Duration(static_cast<Duration::rep>(1e6 * bytes / path.capacity));
    }

    PathConfig path;  // may be changed at any time
    ConnectionStats stats;
    RateController rate;
    Time now = kStart;
    double demand = kBulk;                         // bytes per second
    double lowest_rate = kBulk, highest_rate = 0;  // these and the next: of the last run
    double goodput = 0, loss = 0;
    Duration worst_queue{0};
    std::vector<Duration> queues;

private:
    struct Packet {
        std::uint64_t number = 0;
        Time sent{0}, arrives{0};
        std::size_t bytes = 0;
        bool is_dropped = false;
    };
    struct Ack {
        Time arrives{0};
        Duration delay{0};  // since the newest packet came
        std::vector<std::uint64_t> numbers;
    };

    void send(std::size_t bytes) {
        Packet packet{next_number_++, now, now, bytes, false};
        stats.bytes_in_flight += bytes;
        rate.on_sent(bytes, now, stats);
        owed_ -= static_cast<double>(bytes);
        sent_ += static_cast<double>(bytes);
        packet.is_dropped = std::uniform_real_distribution<double>(0, 1)(random) < path.loss;
        double waiting = 0;
        for (const Packet& other : queue_) waiting += static_cast<double>(other.bytes);
        if (path.policer_bytes > 0) {
            tokens_ = std::min(path.policer_bytes, tokens_ + path.capacity * seconds(now - policed_));
            policed_ = now;
            if (tokens_ < static_cast<double>(bytes))
                packet.is_dropped = true;
            else
                tokens_ -= static_cast<double>(bytes);
        } else if (waiting + static_cast<double>(bytes) > path.queue_bytes) {
            packet.is_dropped = true;
        }
        open_.push_back(packet);
        if (packet.is_dropped) return;
        if (path.capacity > 0 && path.policer_bytes == 0)
            queue_.push_back(packet);
        else
            travel(packet, now);
    }
    void move_queue() {
        while (!queue_.empty()) {
            const Packet& packet = queue_.front();
            const auto takes =
                static_cast<Duration::rep>(1e6 * static_cast<double>(packet.bytes) / path.capacity);
            const Time done = std::max(link_free_, packet.sent) + Duration(takes);
            if (done > now) return;
            link_free_ = done;
            travel(packet, done);
            queue_.pop_front();
        }
    }
    /// Half of the round trip, and all of the jitter.
    void travel(Packet packet, Time from) {
        const auto extra = static_cast<Duration::rep>(static_cast<double>(path.jitter.count()) *
                                                      std::uniform_real_distribution<double>(0, 1)(random));
        last_arrival_ = std::max(last_arrival_, from + path.round_trip / 2 + path.foreign + Duration(extra));
        packet.arrives = last_arrival_;
        travelling_.push_back(packet);
    }
    /// The receiver's tick.
    void acknowledge() {
        const Time tick = next_ack_;
        next_ack_ += kTick;
        Ack ack;
        for (; !travelling_.empty() && travelling_.front().arrives <= tick; travelling_.pop_front()) {
            ack.numbers.push_back(travelling_.front().number);
            ack.delay = tick - travelling_.front().arrives;
        }
        ack.arrives = tick + path.round_trip / 2;
        if (!ack.numbers.empty()) acks_.push_back(ack);
    }
    void receive() {
        for (; !acks_.empty() && acks_.front().arrives <= now; acks_.pop_front()) {
            const Ack& ack = acks_.front();
            for (const std::uint64_t number : ack.numbers) {
                const auto packet = std::find_if(open_.begin(), open_.end(),
                                                 [&](const Packet& other) { return other.number == number; });
                if (packet == open_.end()) continue;
                const bool measures = number == ack.numbers.back();
                const Duration rtt = std::max(Duration(1), now - packet->sent - ack.delay);
                if (measures) sample(rtt);
                settle(*packet, true, rtt, measures);
                open_.erase(packet);
            }
            // Three newer ones came.
            for (auto packet = open_.begin(); packet != open_.end();) {
                const bool is_lost = packet->is_dropped && packet->number + 3 <= ack.numbers.back();
                if (is_lost) settle(*packet, false, Duration(0), false);
                packet = is_lost ? open_.erase(packet) : packet + 1;
            }
        }
    }
    void lose_overdue() {
        while (!open_.empty() && open_.front().is_dropped && now - open_.front().sent > 2 * timeout()) {
            settle(open_.front(), false, Duration(0), false);
            open_.pop_front();
        }
    }
    void settle(const Packet& packet, bool is_delivered, Duration rtt, bool measures) {
        SentPackets::News news;
        news.fate = {packet.number, is_delivered, rtt};
        news.sent = packet.sent;
        news.bytes = static_cast<std::uint16_t>(packet.bytes);
        news.measures = measures;
        stats.bytes_in_flight -= packet.bytes;
        (is_delivered ? stats.bytes_delivered : stats.bytes_lost) += packet.bytes;
        rate.on_news(news, now, stats);
    }
    void sample(Duration rtt) {
        const Duration deviation = rtt > stats.rtt ? rtt - stats.rtt : stats.rtt - rtt;
        stats.latest_rtt = rtt;
        if (stats.rtt == Duration(0)) {
            stats.rtt = rtt;
            stats.jitter = rtt / 2;
            return;
        }
        stats.jitter += (deviation - stats.jitter) / 4;
        stats.rtt += (rtt - stats.rtt) / 8;
    }
    Duration timeout() const {
        if (stats.rtt == Duration(0)) return 500ms;
        return std::min<Duration>(stats.rtt + std::max<Duration>(4 * stats.jitter, 10ms) + 50ms, 3s);
    }
    void observe() {
        overdraft_ = std::max(overdraft_, sent_ - earned_ - 12'000);
        lowest_rate = std::min(lowest_rate, stats.rate);
        highest_rate = std::max(highest_rate, stats.rate);
        const Duration waiting = queue_now();
        worst_queue = std::max(worst_queue, waiting);
        queues.push_back(waiting);
    }

    std::mt19937 random;
    double max_rate_;
    double earned_ = 0, sent_ = 0, overdraft_ = 0;  // bytes
    std::deque<Packet> queue_, travelling_, open_;
    std::deque<Ack> acks_;
    Time next_ack_ = kStart + 7ms;
    Time link_free_{0}, last_arrival_{0}, policed_ = kStart;
    std::uint64_t next_number_ = 1;
    double owed_ = 0, tokens_ = 0;
};

TEST(RateController, BeginsWithTenPacketsAndTheFirstRate) {
    ConnectionStats stats;
    RateController rate(32'000, 1'000'000, kStart, stats);
    EXPECT_EQ(stats.rate, 32'000);
    int packets = 0;
    for (; rate.may_send(); ++packets) rate.on_sent(1'200, kStart, stats);
    EXPECT_EQ(packets, 10);
    for (Time now = kStart; now < kStart + 10s; now += kTick) rate.update(now, 20s, stats);
    EXPECT_EQ(stats.rate, 32'000) << "nothing is learned without acks";
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
        EXPECT_LE(round_trips, 8) << "five doublings, and two ticks for each";
    }
}

// A game that does not use its rate learns nothing about the path.
TEST(RateController, StartNeedsUse) {
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
            EXPECT_LE(sender.highest_rate, 6 * capacity + 50'000) << "five times what is delivered";
            sender.run(1s);
            EXPECT_LE(sender.highest_rate, 1.2 * capacity);
            EXPECT_GE(sender.goodput, 0.85 * capacity);
            EXPECT_LE(sender.worst_queue, 200ms);
        }
    }
}

// No queue grows where arrivals are policed to a rate: only what is delivered shows the end.
TEST(RateController, StartEndsWhereNoMoreIsDelivered) {
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

// Delay within the spread that the path is known to have is no suspicion.
TEST(RateController, Rule34JitterIsNoQueue) {
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
            EXPECT_GE(bulk.lowest_rate, 150'000) << "half of it for 200 ms, to look for the floor";
        }
    }
}

TEST(RateController, Rule34GameBelowItsRateKeepsIt) {
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

TEST(RateController, Rule34ShortDelayDoesNotCutAGameBelowItsRate) {
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

// With jitter of more than twice the round trip verdicts are chance, and yet the cuts do not add up.
TEST(RateController, WideJitterMeetsDemand) {
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

// A longer route looks like a queue of ours. It does not answer to a lower rate, and then the rate comes
// back.
TEST(RateController, VainCutIsUndoneOnALongerRoute) {
    for (const Duration longer : {100ms, 150ms}) {
        SCOPED_TRACE(longer.count());
        Sender bulk({}, 1, 500'000);
        bulk.run(15s);
        bulk.path.round_trip += longer;
        bulk.run(4s);
        EXPECT_LT(bulk.lowest_rate, 250'000) << "it was a suspicion";
        EXPECT_EQ(bulk.stats.rate, 500'000);
        bulk.run(10s);
        bulk.run(10s);
        EXPECT_GE(bulk.goodput, 0.95 * 500'000) << "the new floor is known";
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

TEST(RateController, MuchLongerRouteIsLearnedInTheEnd) {
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

// The test of a standing queue costs a game that uses less than its rate at most half of what it sends, for
// half a second at a time.
TEST(RateController, Rule34GameBelowItsRateIsDrainedGently) {
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

// Another flow keeps a queue whatever we do: it is borne while it is there, and not for ever.
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

TEST(RateController, RandomLossIsBorne) {
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
        EXPECT_LE(seconds_below, 6) << "trials of a second, each sixteen";
        sender.run(15s);
        EXPECT_GE(sender.goodput, 0.7 * 80'000);
    }
}

TEST(RateController, PolicerIsObeyed) {
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
        EXPECT_LE(sender.loss, 0.045) << "a rate that was cut for loss grows carefully";
        EXPECT_GE(sender.goodput, 0.85 * 300'000);
    }
}

/// A controller that is driven step by step.
struct Bare {
    explicit Bare(std::uint64_t first_rate = 100'000) : rate(first_rate, 1'000'000, kStart, stats) {}
    void send(std::size_t bytes = 100) {
        stats.bytes_in_flight += bytes;
        rate.on_sent(bytes, now, stats);
    }
    void deliver(bool is_late, Duration rtt = 50ms, std::uint16_t bytes = 100) {
        SentPackets::News news;
        news.fate.delivered = true;
        news.fate.rtt = rtt;
        news.sent = now - rtt;
        news.bytes = bytes;
        news.is_late = is_late;
        news.measures = true;
        if (!is_late) stats.bytes_in_flight -= bytes;
        rate.on_news(news, now, stats);
    }
    void lose(std::uint16_t bytes = 100) {
        SentPackets::News news;
        news.sent = now - 50ms;
        news.bytes = bytes;
        stats.bytes_in_flight -= bytes;
        rate.on_news(news, now, stats);
    }
    void wait(Duration duration) {
        now += duration;
        rate.update(now, kTimeout, stats);
    }
    static constexpr Duration kTimeout = 100ms;

    ConnectionStats stats;
    RateController rate;
    Time now = kStart;
};

TEST(RateController, BreakerOpensAfterThreeTimeoutsWithoutAcks) {
    Bare bare;
    bare.wait(10s);
    EXPECT_FALSE(bare.rate.is_broken()) << "nothing was sent";
    bare.send();
    bare.wait(200ms);
    bare.send();  // what follows does not put it off
    bare.wait(99ms);
    bare.lose();
    EXPECT_FALSE(bare.rate.is_broken());
    bare.wait(1ms);
    EXPECT_TRUE(bare.rate.is_broken());
    EXPECT_FALSE(bare.rate.may_send());
    EXPECT_FALSE(bare.rate.may_send_urgent());
    EXPECT_EQ(bare.stats.rate_limit, RateLimit::breaker);
    EXPECT_EQ(bare.stats.rate, 100'000) << "to come back to half of it";
}

TEST(RateController, AcksAndIdlenessKeepTheBreakerClosed) {
    Bare bare;
    for (int i = 0; i < 100; ++i) {
        bare.send();
        bare.wait(290ms);
        bare.deliver(false);
        EXPECT_FALSE(bare.rate.is_broken());
    }
    bare.wait(60s);  // nothing is open
    bare.send();
    bare.wait(290ms);
    EXPECT_FALSE(bare.rate.is_broken());
}

TEST(RateController, ProbesBecomeRarer) {
    Bare bare;
    bare.send();
    bare.wait(300ms);
    ASSERT_TRUE(bare.rate.is_broken());
    EXPECT_EQ(bare.rate.probe_interval(), 100ms);
    for (const Duration expected : {200ms, 400ms, 800ms, 1'000ms, 1'000ms, 1'000ms}) {
        bare.send();
        EXPECT_EQ(bare.rate.probe_interval(), expected);
        bare.wait(expected);
        EXPECT_EQ(bare.rate.probe_interval(), expected) << "time alone makes none";
    }
    EXPECT_TRUE(bare.rate.is_broken());
}

// After a jump of the round trip only late acks come.
TEST(RateController, Rule33LateAckClosesTheBreaker) {
    for (const bool is_late : {true, false}) {
        SCOPED_TRACE(is_late);
        Bare bare;
        bare.send();
        bare.send();
        bare.wait(300ms);
        ASSERT_TRUE(bare.rate.is_broken());
        bare.lose();
        EXPECT_TRUE(bare.rate.is_broken()) << "a loss is no answer";
        bare.deliver(is_late, 2s);
        EXPECT_FALSE(bare.rate.is_broken());
        bare.wait(1ms);
        EXPECT_EQ(bare.stats.rate, 50'000);
        EXPECT_NE(bare.stats.rate_limit, RateLimit::breaker);
        EXPECT_TRUE(bare.rate.may_send());
    }
}

// What queued has drained meanwhile, or the route is another one.
TEST(RateController, RoundTripsFromBeforeTheBreakerAreForgotten) {
    Sender sender({}, 1, 500'000);
    sender.run(10s);
    const PathConfig before = sender.path;
    sender.path.loss = 1;
    sender.run(5s);
    ASSERT_TRUE(sender.rate.is_broken());
    EXPECT_EQ(sender.stats.rate_limit, RateLimit::breaker);
    EXPECT_EQ(sender.highest_rate, 500'000) << "loss of all says nothing about the rate";
    EXPECT_EQ(sender.stats.rate, 500'000);
    sender.path = before;
    sender.path.round_trip = 300ms;
    ASSERT_TRUE(sender.revive());
    EXPECT_EQ(sender.stats.rate, 250'000);
    sender.run(3s);
    EXPECT_GE(sender.lowest_rate, 250'000) << "250 ms more are no queue";
    EXPECT_EQ(sender.stats.rate, 500'000);
}

TEST(RateController, RestartForgetsThePath) {
    Sender sender({}, 1, 500'000);
    sender.run(10s);
    sender.path.round_trip = 300ms;
    sender.run(350ms);  // the new path is proven a round trip later
    sender.rate.restart(sender.now);
    sender.stats.rtt = 300ms;
    sender.step();
    EXPECT_EQ(sender.stats.rate, 32'000) << "the first rate is less than half of the former";
    sender.run(3s);
    EXPECT_EQ(sender.stats.rate, 500'000);
    EXPECT_GE(sender.lowest_rate, 32'000);
    sender.run(5s);
    EXPECT_EQ(sender.lowest_rate, 500'000) << "250 ms more are no queue";

    Bare slow(20'000);
    slow.rate.restart(slow.now);
    slow.wait(1ms);
    EXPECT_EQ(slow.stats.rate, 10'000) << "half of the former is less than the first rate";
}

// Packets that are in flight when the path changes took the old one. Their round trips would make the new,
// longer path look like a queue.
TEST(RateController, PacketsFromBeforeAMoveTeachNothing) {
    ConnectionStats stats;
    RateController rate(32'000, 10'000'000, kStart, stats);
    const Time moved = kStart + 1s;
    rate.restart(moved);
    const auto acknowledge = [&](Time sent, Duration rtt, Time now) {
        SentPackets::News news;
        news.fate.delivered = true;
        news.fate.rtt = rtt;
        news.sent = sent;
        news.bytes = 1'200;
        news.measures = true;
        rate.on_news(news, now, stats);
    };
    for (int i = 0; i < 20; ++i) acknowledge(moved - 5ms, 10ms, moved + 5ms);
    Time now = moved + 5ms;
    for (int tick = 0; tick < 60; ++tick, now += kTick) {
        if (now >= moved + 200ms) acknowledge(now - 200ms, 200ms, now);
        stats.rtt = stats.latest_rtt = 200ms;
        rate.update(now, 300ms, stats);
    }
    EXPECT_EQ(stats.queue_delay, 0ms);
    EXPECT_GE(stats.rate, 16'000);
}

TEST(RateController, PingsPileUpNoDebt) {
    Bare bare;
    for (int i = 0; i < 1'000; ++i) bare.send();
    EXPECT_FALSE(bare.rate.may_send());
    bare.wait(23ms);
    EXPECT_FALSE(bare.rate.may_send());
    bare.wait(2ms);
    EXPECT_TRUE(bare.rate.may_send()) << "two packets take 24 ms";
}

TEST(RateController, LowerRateTakesSavingsAway) {
    Sender sender({}, 1, 1'000'000);
    sender.run(5s);
    sender.demand = 1'000;
    sender.run(1s);  // 50 kB are saved up
    sender.rate.restart(sender.now);
    int packets = 0;
    for (; sender.rate.may_send(); ++packets) sender.rate.on_sent(1'200, sender.now, sender.stats);
    EXPECT_EQ(packets, 2);
}

TEST(RateController, UntrackedPacketsAreCounted) {
    Bare bare;
    for (int i = 0; i < 1'000; ++i) bare.rate.on_sent_untracked(100);
    EXPECT_FALSE(bare.rate.may_send());
    EXPECT_TRUE(bare.rate.may_send_urgent());
    bare.wait(1ms);
    EXPECT_TRUE(bare.rate.may_send()) << "and never overdraw";
}

// A stall of the path delivers late and at once what was sent meanwhile.
TEST(RateController, StallIsNoQueue) {
    Sender sender({}, 1, 300'000);
    sender.run(15s);
    for (int stall = 0; stall < 5; ++stall) {
        sender.stall(300ms);
        sender.run(3s);
        EXPECT_GE(sender.lowest_rate, 150'000) << "half of it, to look for the floor";
        sender.run(1s);
        EXPECT_EQ(sender.highest_rate, 300'000);
        EXPECT_GE(sender.goodput, 0.85 * 300'000);
        sender.run(3s);
    }
}

// What queued during the stall is a queue of ours, and yet it says little: it drains by itself.
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

}  // namespace
}  // namespace shoal::net
