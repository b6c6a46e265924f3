#pragma once
// Estimates how much of the round trips of a path is queue, and how much jitter. Sources: RATE.md.

#include "../endpoint.h"

namespace shoal::net::impl {

/// Statistics of one connection's round-trip times. RATE.md explains round, floor, queue and spread.
class RoundTrips {
public:
    explicit RoundTrips(Time now) : window_began_(now) { rounds_.fill((Short::max)()); }

    /// Takes the round trip of a packet. `is_exact`: it is the newest packet that the ack names. The others
    /// waited longer for the ack: they count for the smallest round trip, but not for the largest.
    void sample(Duration rtt, bool is_exact) {
        smallest_ = (std::min)(smallest_, rtt);
        if (is_exact) largest_ = (std::max)(largest_, rtt);
        base_ = (std::min)(base_, rtt);
    }
    /// No effect without a sample since the last call. `learns_spread`: false during and just after a drain,
    /// because round trips then differ, but not by jitter.
    void end_round(Time now, bool learns_spread) {
        if (smallest_ == kNone) return;
        if (learns_spread && largest_ > smallest_) spread_ += (largest_ - smallest_ - spread_) / kSpreadGain;
        std::shift_right(rounds_.begin(), rounds_.end(), 1);
        rounds_[0] = std::chrono::duration_cast<Short>((std::min<Duration>)(smallest_, (Short::max)()));
        const bool is_full = rounds_.back() != (Short::max)();
        const Duration least = *std::min_element(rounds_.begin(), rounds_.end());
        if (is_full) accepted_ = (std::min)(accepted_, least);
        queue_ = (std::max)(Duration(0), smallest_ - floor());
        standing_ = is_full ? (std::max)(Duration(0), least - floor()) : Duration(0);
        smallest_ = kNone;
        largest_ = Duration(0);
        if (now - window_began_ < kWindow) return;
        base_before_ = std::exchange(base_, kNone);
        window_began_ = now;
    }

    /// The smallest round trip of the last 10 to 20 s, or the argument of accept() if larger; at first 0.
    Duration floor() const {
        const Duration base = (std::min)(base_, base_before_);
        return base == kNone ? Duration(0) : (std::max)(base, accepted_);
    }
    /// The smallest round trip of the newest round, less floor(). At least 0.
    Duration queue() const { return queue_; }
    /// The smallest round trip of the last eight rounds, less floor(). At least 0; 0 before eight rounds.
    Duration standing() const { return standing_; }
    /// The largest round trip of a round less the smallest, smoothed.
    Duration spread() const { return spread_; }
    /// The spread, but at least kTicks, the delay that the ticks of both ends add.
    Duration band() const { return (std::max)(spread_, kTicks); }
    /// The smallest round trip of the current round and the one before it.
    Duration recent() const { return (std::min<Duration>)(smallest_, rounds_[0]); }

    /// Returns whether a queue has lasted for eight rounds.
    bool is_standing(int factor = 1) const {
        return standing_ > factor * (kStandingQueue + tolerated_ + band() / 4);
    }
    /// Returns whether the known spread of the path does not explain the delay.
    bool is_high(int factor = 1) const {
        return queue_ > factor * (kStandingQueue + tolerated_ + band()) || is_standing(factor);
    }
    /// Returns whether queue() is so low that the rate may grow.
    bool is_low() const { return queue_ < kStandingQueue + band() / 2; }
    /// Returns whether this round trip shows that the queue is empty.
    bool is_empty(Duration rtt) const { return rtt - floor() <= kStandingQueue + band() / 4; }
    /// Returns whether the round trip may fall by chance during a drain, so that this proves nothing.
    bool is_jittery() const { return spread_ > kWideSpread || tolerated_ > Duration(0); }

    /// Call it if the delay does not depend on our rate: floor() is at least `rtt` until renew(), or until
    /// the smallest round trip of eight rounds is less.
    void accept(Duration rtt) {
        tolerate();
        accepted_ = rtt;
        queue_ = standing_ = Duration(0);
        rounds_.fill((Short::max)());
    }
    /// Raises tolerated() to the part of the delay that the spread does not explain.
    void tolerate() {
        tolerated_ =
            std::clamp((std::max)(queue_ - band(), standing_ - band() / 4), tolerated_, kMaxTolerated);
    }
    /// Delay accepted as normal: drains did not reduce it, or perhaps only by chance. At most 100 ms.
    Duration tolerated() const { return tolerated_; }
    /// Forgets the accepted floor and halves tolerated(). To be called about every ten seconds.
    void renew() {
        accepted_ = Duration(0);
        tolerated_ /= 2;
    }

private:
    using Short = std::chrono::duration<std::uint32_t, std::micro>;
    static constexpr Duration kNone = (Duration::max)();
    static constexpr Duration kWindow = std::chrono::seconds(10);
    static constexpr Duration kTicks = std::chrono::milliseconds(30);
    static constexpr Duration kStandingQueue = std::chrono::milliseconds(20);
    static constexpr Duration kWideSpread = std::chrono::milliseconds(45);
    static constexpr Duration kMaxTolerated = std::chrono::milliseconds(100);
    static constexpr int kSpreadGain = 8;  // rounds over which spread_ is smoothed

    Duration smallest_ = kNone, largest_{0};  // smallest and largest round trip of this round so far
    std::array<Short, 8> rounds_;             // smallest round trip of each of the last rounds, newest first
    // Smallest round trip: base_ of this window, base_before_ of the last one. A window lasts about kWindow.
    Duration base_ = kNone, base_before_ = kNone;
    Time window_began_;
    Duration spread_{0};
    Duration accepted_{0}, tolerated_{0};
    Duration queue_{0}, standing_{0};
};

}  // namespace shoal::net::impl
