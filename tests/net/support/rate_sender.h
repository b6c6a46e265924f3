#pragma once
// A sender with a RateController over a simple model of a path.

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <random>
#include <vector>

#include "net/rate/rate_controller.h"

namespace shoal::net::impl {

using namespace std::chrono_literals;

constexpr double kBulk = 1e9;  // more than any path here carries
constexpr Duration kTick = 16'667us;
constexpr Time kStart = 100s;

inline double seconds(Duration duration) {
    return std::chrono::duration<double>(duration).count();
}

struct PathConfig {
    double capacity = 0;  // bytes per second; 0: without a bottleneck
    double queue_bytes = std::numeric_limits<double>::infinity();  // datagrams that do not fit are lost
    double policer_bytes = 0;                                      // > 0: a token bucket instead of a queue
    Duration round_trip = 50ms;                                    // without queue and jitter
    Duration jitter{0};   // random addition up to this, uniform; the order is kept
    Duration foreign{0};  // delay added by the queue of another flow
    double loss = 0;
    Duration ack_interval = kTick;  // time between the receiver's ticks
    bool is_polled = false;         // the receiver reads its socket only in its ticks, so it knows no delay
};

/// A sender with a RateController, which ticks at 60 Hz, and an ideal receiver that acknowledges all packets
/// at each of its ticks.
class Sender {
public:
    explicit Sender(const PathConfig& path_config, std::uint32_t seed = 1,
                    std::uint64_t max_rate = 10'000'000, std::uint64_t first_rate = 32'000)
        : path(path_config),
          rate(first_rate, max_rate, kStart, stats),
          random(seed),
          max_rate_(static_cast<double>(max_rate)) {}

    /// Runs a tick of the sender.
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
        // The rate between two ticks may be higher than in both.
        EXPECT_LE(overdraft_, 1'300) << "more than the first burst, what the rate allowed and one packet";
        const auto got = static_cast<double>(stats.bytes_delivered - delivered);
        const auto missed = static_cast<double>(stats.bytes_lost - lost);
        goodput = got / seconds(now - began);
        loss = missed / std::max(1.0, got + missed);
    }
    /// Sends one packet after the breaker opened. Returns whether the breaker closes.
    bool revive() {
        send(100);
        for (const Time end = now + 5s; rate.is_broken() && now < end;) step();
        return !rate.is_broken();
    }
    /// Stalls the path: datagrams that would arrive within `duration` arrive at its end.
    void stall(Duration duration) { last_arrival_ = std::max(last_arrival_, now + duration); }
    /// Median wait in the bottleneck, in the last run.
    Duration median_queue() {
        const auto middle = queues.begin() + static_cast<std::ptrdiff_t>(queues.size() / 2);
        std::nth_element(queues.begin(), middle, queues.end());
        return *middle;
    }
    Duration queue_now() const {
        return path.capacity == 0 ? Duration(0)
                                  : Duration(static_cast<Duration::rep>(1e6 * queued_ / path.capacity));
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
        Duration delay{0};  // since the newest packet arrived
        std::vector<std::uint64_t> numbers;
    };

    void send(std::size_t bytes) {
        Packet packet{next_number_++, now, now, bytes, false};
        stats.bytes_in_flight += bytes;
        rate.on_sent(bytes, now, stats);
        owed_ -= static_cast<double>(bytes);
        sent_ += static_cast<double>(bytes);
        packet.is_dropped = std::uniform_real_distribution<double>(0, 1)(random) < path.loss;
        if (path.policer_bytes > 0) {
            tokens_ = std::min(path.policer_bytes, tokens_ + path.capacity * seconds(now - policed_));
            policed_ = now;
            if (tokens_ < static_cast<double>(bytes))
                packet.is_dropped = true;
            else
                tokens_ -= static_cast<double>(bytes);
        } else if (queued_ + static_cast<double>(bytes) > path.queue_bytes) {
            packet.is_dropped = true;
        }
        open_.push_back(packet);
        if (packet.is_dropped) return;
        if (path.capacity > 0 && path.policer_bytes == 0) {
            queue_.push_back(packet);
            queued_ += static_cast<double>(bytes);
        } else {
            travel(packet, now);
        }
    }
    void move_queue() {
        while (!queue_.empty()) {
            const Packet& packet = queue_.front();
            const auto takes =
                static_cast<Duration::rep>(1e6 * static_cast<double>(packet.bytes) / path.capacity);
            const Time done = std::max(link_free_, packet.sent) + Duration(takes);
            if (done > now) return;
            link_free_ = done;
            queued_ -= static_cast<double>(packet.bytes);
            travel(packet, done);
            queue_.pop_front();
        }
    }
    /// Latency to the receiver: half of the round trip, and all of the jitter.
    void travel(Packet packet, Time from) {
        const auto extra = static_cast<Duration::rep>(static_cast<double>(path.jitter.count()) *
                                                      std::uniform_real_distribution<double>(0, 1)(random));
        last_arrival_ = std::max(last_arrival_, from + path.round_trip / 2 + path.foreign + Duration(extra));
        packet.arrives = last_arrival_;
        travelling_.push_back(packet);
    }
    /// Runs a tick of the receiver.
    void acknowledge() {
        const Time tick = next_ack_;
        next_ack_ += path.ack_interval;
        Ack ack;
        for (; !travelling_.empty() && travelling_.front().arrives <= tick; travelling_.pop_front()) {
            ack.numbers.push_back(travelling_.front().number);
            if (!path.is_polled) ack.delay = tick - travelling_.front().arrives;
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
            // Three newer packets arrived.
            for (auto packet = open_.begin();
                 packet != open_.end() && packet->number <= ack.numbers.back();) {
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
    double owed_ = 0, tokens_ = 0, queued_ = 0;
};

}  // namespace shoal::net::impl
