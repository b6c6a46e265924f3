#pragma once
// A competing bulk flow. Source: RFC 9438, CUBIC.

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/net/support/meters.h"

namespace shoal::net::impl::paths {

/// A bulk flow of CUBIC, which begins with ten segments. It learns of each loss one round trip later.
class Cubic {
public:
    static constexpr double kSegment = 1'200;

    Cubic(SharedLink& link, double rtt, double start, double duration)
        : passed(duration), link_(link), rtt_(rtt), next_(start) {}

    double next_event() const { return events_.empty() ? next_ : std::min(next_, events_.front().at); }
    void act(double now) {
        next_ = kNever;
        while (!events_.empty() && events_.front().at <= now) {
            std::pop_heap(events_.begin(), events_.end(), is_later);
            const Event event = events_.back();
            events_.pop_back();
            in_flight_ -= 1;
            if (event.is_loss) {
                on_loss(event, now);
            } else {
                on_ack(now);
            }
        }
        while (in_flight_ + 1 <= window_) send(now);
    }

    Series passed;

private:
    static constexpr double kC = 0.4, kBeta = 0.7;
    struct Event {
        double at, sent;
        bool is_loss;
    };
    static bool is_later(const Event& a, const Event& b) { return a.at > b.at; }

    void send(double now) {
        const double wait = link_.wait(now);
        const std::optional<double> through = link_.push(now, kSegment);
        if (through) passed.add(*through, kSegment);
        events_.push_back({through.value_or(now + wait) + rtt_, now, !through});
        std::push_heap(events_.begin(), events_.end(), is_later);
        in_flight_ += 1;
    }
    void on_ack(double now) {
        if (window_ < threshold_) {
            window_ += 1;
            return;
        }
        const double root = std::cbrt((most_ - epoch_window_) / kC);
        const double ahead = now - epoch_ + rtt_ - root;
        const double cubic = std::clamp(kC * ahead * ahead * ahead + most_, window_, 1.5 * window_);
        const double alpha = reno_ < most_ ? 3 * (1 - kBeta) / (1 + kBeta) : 1;
        reno_ += alpha / window_;
        window_ = std::max(window_ + (cubic - window_) / window_, std::min(reno_, window_ + 1));
    }
    void on_loss(const Event& event, double now) {
        if (event.sent < reduced_) return;
        reduced_ = now;
        most_ = window_ < most_ ? window_ * (1 + kBeta) / 2 : window_;
        window_ = threshold_ = std::max(2.0, window_ * kBeta);
        epoch_ = now;
        epoch_window_ = reno_ = window_;
        most_ = std::max(most_, window_);
    }

    SharedLink& link_;
    double rtt_;
    double next_;
    std::vector<Event> events_;  // a heap
    double window_ = 10, threshold_ = kNever, in_flight_ = 0;
    double most_ = 0;  // the window before the last loss
    double epoch_ = 0, epoch_window_ = 0;
    double reno_ = 0;  // the window of Reno
    double reduced_ = -kNever;
};

}  // namespace shoal::net::impl::paths
