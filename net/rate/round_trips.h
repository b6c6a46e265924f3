#pragma once
// What the round trips of one path say about a queue on it, and what is only jitter. Sources: RATE.md.

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "../endpoint.h"

namespace shoal::net {

/// The round trips of one connection, in rounds whose ends the caller sets.
class RoundTrips {
public:
    explicit RoundTrips(Time now) : window_began_(now) { rounds_.fill(Short::max()); }

    /// `is_exact`: the ack names this packet first. The others that it names waited for it: they count for
    /// the smallest round trip and not for the spread.
    void sample(Duration rtt, bool is_exact) {
        smallest_ = std::min(smallest_, rtt);
        if (is_exact) largest_ = std::max(largest_, rtt);
        base_ = std::min(base_, rtt);
    }
    /// No effect if there was no sample since the last call. `learns_spread`: false if the rate was changed
    /// on purpose, which spreads the round trips, too.
    void end_round(Time now, bool learns_spread) {
        if (smallest_ == kNone) return;
        if (learns_spread && largest_ > smallest_) spread_ += (largest_ - smallest_ - spread_) / kSpreadGain;
        std::shift_right(rounds_.begin(), rounds_.end(), 1);
        rounds_[0] = std::chrono::duration_cast<Short>(std::min<Duration>(smallest_, Short::max()));
        const bool is_full = rounds_.back() != Short::max();
        const Duration least = *std::min_element(rounds_.begin(), rounds_.end());
        if (is_full) accepted_ = std::min(accepted_, least);
        queue_ = std::max(Duration(0), smallest_ - floor());
        standing_ = is_full ? std::max(Duration(0), least - floor()) : Duration(0);
        smallest_ = kNone;
        largest_ = Duration(0);
        if (now - window_began_ < kWindow) return;
        base_before_ = std::exchange(base_, kNone);
        window_began_ = now;
    }

    /// The round trip without a queue: the smallest of the last 10 to 20 s, or what was accepted since.
    /// 0 before the first sample.
    Duration floor() const {
        const Duration base = std::min(base_, base_before_);
        return base == kNone ? Duration(0) : std::max(base, accepted_);
    }
    /// The smallest round trip of the newest round, less floor(). At least 0.
    Duration queue() const { return queue_; }
    /// The smallest round trip of the last eight rounds, less floor(). At least 0; 0 before eight rounds.
    Duration standing() const { return standing_; }
    /// How far the round trips of a round lie apart, smoothed.
    Duration spread() const { return spread_; }
    /// The spread, or what the ticks of both ends add, if that is more.
    Duration band() const { return std::max(spread_, kTicks); }
    /// The smallest round trip of the current round and the one before it.
    Duration recent() const { return std::min<Duration>(smallest_, rounds_[0]); }

    /// Even the smallest delay of eight rounds is too much, by this factor.
    bool is_standing(int factor = 1) const {
        return standing_ > factor * (kStandingQueue + tolerated_ + band() / 4);
    }
    /// The delay is more than the path is known to scatter by, or it stands.
    bool is_high(int factor = 1) const {
        return queue_ > factor * (kStandingQueue + tolerated_ + band()) || is_standing(factor);
    }
    /// So little delay that the rate may grow.
    bool is_low() const { return queue_ < kStandingQueue + band() / 2; }
    /// So little delay that a queue is gone.
    bool is_empty(Duration rtt) const { return rtt - floor() <= kStandingQueue + band() / 4; }
    /// The delay scatters so much, or was suspected in vain, that a verdict may be chance.
    bool is_jittery() const { return spread_ > kWideSpread || tolerated_ > Duration(0); }

    /// A delay that does not answer to our rate is the path's: floor() is at least `rtt` until renew(), or
    /// until the smallest of eight rounds is less.
    void accept(Duration rtt) {
        tolerate();
        accepted_ = rtt;
        queue_ = standing_ = Duration(0);
        rounds_.fill(Short::max());
    }
    /// The delay of the last round is not our queue, but it does not stay: allow this much more delay.
    void tolerate() {
        tolerated_ =
            std::clamp(std::max(queue_ - band(), standing_ - band() / 4), tolerated_, kMostTolerated);
    }
    /// Extra delay that is accepted as normal, because drains did not reduce it; at most 100 ms.
    Duration tolerated() const { return tolerated_; }
    /// Forgets what was accepted and halves what is tolerated. To be called every ten seconds or so.
    void renew() {
        accepted_ = Duration(0);
        tolerated_ /= 2;
    }

private:
    using Short = std::chrono::duration<std::uint32_t, std::micro>;
    static constexpr Duration kNone = Duration::max();
    static constexpr Duration kWindow = std::chrono::seconds(10);
    static constexpr Duration kTicks = std::chrono::milliseconds(30);
    static constexpr Duration kStandingQueue = std::chrono::milliseconds(20);
    static constexpr Duration kWideSpread = std::chrono::milliseconds(45);
    static constexpr Duration kMostTolerated = std::chrono::milliseconds(100);
    static constexpr int kSpreadGain = 8;  // rounds

    Duration smallest_ = kNone, largest_{0};       // of this round
    std::array<Short, 8> rounds_;                  // the smallest of each, newest first
    Duration base_ = kNone, base_before_ = kNone;  // the smallest of this window and of the previous one
    Time window_began_;
    Duration spread_{0};
    Duration accepted_{0}, tolerated_{0};
    Duration queue_{0}, standing_{0};
};

}  // namespace shoal::net
