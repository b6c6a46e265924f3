#pragma once
// Measurements over time: amounts, and the ages of messages.

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <vector>

#include "tests/net/support/links.h"

namespace shoal::net::impl::paths {

constexpr double kStep = 0.005;           // seconds; resolution of the measurements
constexpr double kMessageInterval = 0.1;  // seconds
constexpr std::size_t kMessageBytes = 40;

/// An amount over time, from the start on.
class Series {
public:
    explicit Series(double duration) : sums_(static_cast<std::size_t>(duration / kStep) + 2) {}
    void add(double time, double amount) {
        const double step = std::max(0.0, time / kStep);
        if (step < static_cast<double>(sums_.size())) sums_[static_cast<std::size_t>(step)] += amount;
    }
    /// Call add() only before this, and between() only after it.
    void close() {
        for (std::size_t i = 1; i < sums_.size(); ++i) sums_[i] += sums_[i - 1];
    }
    double between(double from, double until) const { return before(until) - before(from); }

private:
    double before(double time) const {
        const auto step = static_cast<std::size_t>(std::max(0.0, std::round(time / kStep)));
        return step == 0 ? 0 : sums_[std::min(step, sums_.size()) - 1];
    }
    std::vector<double> sums_;
};

/// Reliable messages from one side to the other, one every 100 ms.
class Messages {
public:
    void create(double now) {
        if (next_ > now) return;
        created_.push_back(now);
        next_ = std::max(next_ + kMessageInterval, now);
    }
    void start(double now) { next_ = now; }
    /// Queues the messages that are due, as far as they fit.
    void send(Endpoint& from, PeerId to) {
        std::array<std::byte, kMessageBytes> message{};
        while (queued_ < created_.size() &&
               from.send_message(to, Channel::reliable, message) == SendResult::queued)
            queued_ += 1;
    }
    void arrived(double now) {
        assert(ages_.size() < created_.size());
        ages_.push_back(now - created_[ages_.size()]);
    }
    /// Ages in ms of the messages created from `from` on; a message that has waited a second counts with its
    /// age so far.
    void collect(double from, double now, std::vector<double>& ages) const {
        for (std::size_t i = 0; i < created_.size(); ++i) {
            if (created_[i] < from) continue;
            if (i < ages_.size()) {
                ages.push_back(1000 * ages_[i]);
            } else if (now - created_[i] >= 1) {
                ages.push_back(1000 * (now - created_[i]));
            }
        }
    }

private:
    double next_ = kNever;
    std::vector<double> created_, ages_;
    std::size_t queued_ = 0;
};

}  // namespace shoal::net::impl::paths
