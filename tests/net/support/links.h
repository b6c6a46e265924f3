#pragma once
// The parts of a simulated path: the link that flows share, the links of each flow, and the datagrams in
// flight. Times are seconds since the start.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "net/endpoint.h"
#include "tests/net/support/paths.h"

namespace shoal::net::impl::paths {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMinQueueBytes = 3'000;
constexpr double kCorrelation = 0.2;   // seconds
constexpr double kLongestBurst = 0.5;  // seconds; limits bursts of senders that send little

/// Uniform and exponential numbers; the same on every platform.
class Random {
public:
    explicit Random(std::uint64_t seed) : bits_(seed) {}
    double uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
    double uniform(double low, double high) { return low + (high - low) * uniform(); }
    double exponential(double mean) { return -mean * std::log(1 - uniform()); }
    double normal() {
        const double radius = std::sqrt(exponential(2));
        return radius * std::cos(2 * std::numbers::pi * uniform());
    }
    bool chance(double p) { return p > 0 && uniform() < p; }
    std::uint64_t next() { return bits_(); }

private:
    std::mt19937_64 bits_;
};

/// A value that changes at given times.
class Schedule {
public:
    Schedule(double first, std::vector<Change> changes) : first_(first), changes_(std::move(changes)) {}
    double at(double time) const {
        double value = first_;
        for (const Change& change : changes_)
            if (time >= change.at_s) value = change.value;
        return value;
    }
    double next_change(double time) const {
        for (const Change& change : changes_)
            if (change.at_s > time) return change.at_s;
        return kNever;
    }
    double lowest() const {
        double value = first_;
        for (const Change& change : changes_) value = std::min(value, change.value);
        return value;
    }
    Schedule at_most(double limit) const {
        Schedule result = *this;
        result.first_ = std::min(first_, limit);
        for (Change& change : result.changes_) change.value = std::min(change.value, limit);
        return result;
    }
    double integral(double from, double until) const {
        double sum = 0;
        while (from < until) {
            const double end = std::min(until, next_change(from));
            sum += at(from) * (end - from);
            from = end;
        }
        return sum;
    }
    /// When the integral from `from` on reaches `amount`.
    double reaches(double from, double amount) const {
        for (;;) {
            const double end = next_change(from), part = at(from) * (end - from);
            if (part >= amount || end == kNever) return from + amount / at(from);
            amount -= part;
            from = end;
        }
    }

private:
    double first_;
    std::vector<Change> changes_;
};

/// The shared link of one direction. Datagrams come in order of time.
class SharedLink {
public:
    explicit SharedLink(const Bottleneck& spec)
        : spec_(spec),
          rate_(spec.bytes_per_second, spec.changes),
          queue_bytes_(std::max(spec.queue_bytes, kMinQueueBytes)),
          tokens_(spec.policer_bytes) {}

    bool is_limited() const { return spec_.bytes_per_second > 0; }
    const Schedule& rate() const { return rate_; }
    /// How long a datagram that arrives now would wait.
    double wait(double now) const { return std::max(0.0, free_at_ - now); }
    /// Returns when the datagram leaves the link, or nothing if it is dropped.
    std::optional<double> push(double now, double bytes) {
        if (!is_limited()) return now;
        if (spec_.policer_bytes > 0) {
            tokens_ = std::min(tokens_ + rate_.integral(refilled_, now), spec_.policer_bytes);
            refilled_ = now;
            if (tokens_ < bytes) return std::nullopt;
            tokens_ -= bytes;
            return now;
        }
        const double begin = std::max(now, free_at_);
        if (rate_.integral(now, begin) + bytes > queue_bytes_) return std::nullopt;
        free_at_ = rate_.reaches(begin, bytes);
        return free_at_;
    }

private:
    Bottleneck spec_;
    Schedule rate_;
    double queue_bytes_;
    double free_at_ = -kNever;
    double tokens_, refilled_ = 0;
};

/// The private links of one flow in one direction: losses before the shared link, delays after it.
class OwnLink {
public:
    OwnLink(const PathSpec& path, double latency_ms, std::uint64_t seed)
        : latency_(latency_ms, path.latency_changes),
          jitter_(path.jitter),
          loss_(path.loss),
          burst_(path.loss_burst),
          random_(seed) {
        grant_phase_ = random_.uniform(0, jitter_.grant_ms / 1000);
        wander_ = random_.normal();
        is_ordered_ = jitter_.out_of_order_ms == 0 && (jitter_.in_order_ms > 0 || jitter_.correlated_ms > 0 ||
                                                       jitter_.pause_every_s > 0 || jitter_.grant_ms > 0);
    }

    double latency(double now) const { return latency_.at(now) / 1000; }

    bool loses_next(double now) {
        if (burst_ == 0) return random_.chance(loss_);
        // The mean number of datagrams between bursts gives the mean loss.
        if (in_burst_ && now - burst_began_ > kLongestBurst) in_burst_ = false;
        if (!in_burst_ && random_.chance(1 / (1 + burst_ * (1 - loss_) / loss_))) {
            in_burst_ = true;
            burst_began_ = now;
        }
        const bool is_lost = in_burst_;
        if (in_burst_ && random_.chance(1 / burst_)) in_burst_ = false;
        return is_lost;
    }

    /// Returns when a datagram that leaves the shared link now arrives.
    double arrival(double now) {
        double due = now + latency(now);
        if (jitter_.in_order_ms > 0) due += random_.uniform(-1, 1) * jitter_.in_order_ms / 1000;
        if (jitter_.out_of_order_ms > 0) due += random_.uniform(-1, 1) * jitter_.out_of_order_ms / 1000;
        if (jitter_.correlated_ms > 0) due += wander(now) * jitter_.correlated_ms / 1000;
        due = std::max(due, now);
        if (jitter_.pause_every_s > 0) due = after_pause(due);
        if (jitter_.grant_ms > 0) {
            const double grant = jitter_.grant_ms / 1000;
            due = grant_phase_ + grant * std::ceil((due - grant_phase_) / grant);
        }
        if (is_ordered_) due = last_ = std::max(due, last_);
        return due;
    }

private:
    /// An Ornstein-Uhlenbeck process of deviation 1/2, clamped to -1..1.
    double wander(double now) {
        const double keep = std::exp(-std::max(0.0, now - wandered_) / kCorrelation);
        wander_ = keep * wander_ + std::sqrt(1 - keep * keep) * random_.normal();
        wandered_ = std::max(now, wandered_);
        return std::clamp(wander_ / 2, -1.0, 1.0);
    }
    double after_pause(double due) {
        while (pauses_.empty() || pauses_.back().first <= due) {
            const double free = pauses_.empty() ? 0 : pauses_.back().second;
            const double begin = free + random_.exponential(jitter_.pause_every_s);
            pauses_.emplace_back(begin,
                                 begin + random_.uniform(jitter_.pause_min_ms, jitter_.pause_max_ms) / 1000);
        }
        for (auto pause = pauses_.rbegin(); pause != pauses_.rend(); ++pause)
            if (pause->first <= due) return std::max(due, pause->second);
        return due;
    }

    Schedule latency_;
    Jitter jitter_;
    double loss_, burst_;
    Random random_;
    double grant_phase_ = 0;
    double wander_ = 0, wandered_ = 0;
    std::vector<std::pair<double, double>> pauses_;  // begin and end, in order
    double last_ = -kNever;
    bool is_ordered_ = false;
    bool in_burst_ = false;
    double burst_began_ = 0;
};

/// Datagrams in flight to one endpoint, or in its socket.
class Arrivals {
public:
    struct Datagram {
        double due = 0;
        std::uint64_t turn = 0;
        int flow = 0;
        std::size_t size = 0;
        std::array<std::byte, kMaxDatagramBytes> bytes;
        std::span<const std::byte> contents() const { return std::span(bytes).first(size); }
    };

    void push(double due, int flow, std::span<const std::byte> bytes) {
        std::unique_ptr<Datagram> datagram;
        if (spare_.empty()) {
            datagram.reset(new Datagram);
        } else {
            datagram = std::move(spare_.back());
            spare_.pop_back();
        }
        datagram->due = due;
        datagram->turn = turn_++;
        datagram->flow = flow;
        datagram->size = bytes.size();
        std::copy(bytes.begin(), bytes.end(), datagram->bytes.begin());
        heap_.push_back(std::move(datagram));
        std::push_heap(heap_.begin(), heap_.end(), is_later);
    }
    /// Returns the next datagram that is due, valid until the next call; null if there is none.
    const Datagram* pop(double now) {
        if (heap_.empty() || heap_.front()->due > now) return nullptr;
        std::pop_heap(heap_.begin(), heap_.end(), is_later);
        spare_.push_back(std::move(heap_.back()));
        heap_.pop_back();
        return spare_.back().get();
    }

private:
    static bool is_later(const std::unique_ptr<Datagram>& a, const std::unique_ptr<Datagram>& b) {
        return std::pair(a->due, a->turn) > std::pair(b->due, b->turn);
    }
    std::vector<std::unique_ptr<Datagram>> heap_, spare_;
    std::uint64_t turn_ = 0;
};

}  // namespace shoal::net::impl::paths
