#pragma once
// What the round trips of one path say about a queue on it, and what is only jitter.
// Sources: Brakmo and Peterson, "TCP Vegas", 1995, and RFC 6817, LEDBAT (queueing delay: the delay above the
// smallest delay seen); Arun and Balakrishnan, "Copa", 2018 (the smallest delay of a round hides jitter). The
// learned spread is ours: delay within the spread that the path is known to have is no queue.

#include <array>
#include <cstdint>

#include "../endpoint.h"

namespace shoal::net {

/// The round trips of one connection, in rounds whose ends the caller sets.
class RoundTrips {
public:
    /// `is_exact`: the ack names this packet first. Other packets that the same ack names waited for
    /// it. Their round trips are too long, so they count for the smallest round trip and not for the spread.
    void sample(Duration rtt, bool is_exact);
    /// `now` ages the smallest round trip. No effect if there was no sample since the last call.
    /// `learns_spread`: false if the rate was changed on purpose, which spreads the round trips, too.
    void end_round(Time now, bool learns_spread);

    /// The round trip without a queue: the smallest of the last 10 to 20 s, or what was accepted since.
    /// 0 before the first sample.
    Duration floor() const;
    /// The smallest round trip of the newest round, less floor(). At least 0.
    Duration queue() const { return queue_; }
    /// The smallest round trip of the last eight rounds, less floor(). At least 0; 0 before eight rounds.
    Duration standing() const { return standing_; }
    /// How far the round trips of a round lie apart, smoothed.
    Duration spread() const { return spread_; }
    /// The spread, or what the ticks of both ends do to a round trip if that is more.
    Duration band() const;
    /// The smallest round trip of the current round and the one before it.
    Duration recent() const;

    /// A delay that does not answer to our rate is the path's: floor() is at least `rtt` until renew(), or
    /// until the smallest of eight rounds is less.
    void accept(Duration rtt);
    /// The delay of the last round is not our queue, but it does not stay: allow this much more delay.
    void tolerate();
    /// Extra queueing delay that is accepted as normal, because drains did not reduce it; at most 100 ms.
    Duration tolerated() const { return tolerated_; }
    /// Forgets what was accepted and halves what is tolerated. To be called every ten seconds or so.
    void renew();
    /// The path is another one.
    void restart(Time now);

private:
    static constexpr std::size_t kRounds = 8;

    Duration smallest_ = Duration::max(), largest_{0};     // of this round
    std::array<std::uint32_t, kRounds> round_smallest_{};  // microseconds; 0: none yet
    std::uint8_t next_round_ = 0;
    Duration base_ = Duration::max(),
             base_before_ = Duration::max();  // of this and the previous window of 10 s
    Time base_began_{0};
    Duration spread_{0};
    Duration accepted_{0}, tolerated_{0};
    Duration queue_{0}, standing_{0};
};

}  // namespace shoal::net
