#pragma once
// Loss that a lower rate does not reduce is a property of the path, like radio noise. A trial recognises it:
// it cuts the rate for a moment and compares the loss. Sources: RATE.md.

#include "../endpoint.h"

namespace shoal::net::impl {

/// Loss of one connection, in epochs of a second or more. An epoch ends when the host's clock reaches a
/// multiple of the epoch's length: connections with similar round trips begin their trials together.
class UsualLoss {
public:
    enum class Verdict : std::uint8_t {
        none,       // no epoch ended, the loss of the ended epoch was usual, or no trial may begin now
        suspicion,  // more loss than usual; a trial begins: cut the rate
        harmless,   // the trial did not lower the loss: undo the cut
        congestion  // the trial lowered the loss: keep the rate low
    };

    explicit UsualLoss(Time now) : epoch_{.began = now} {}

    /// Take the fate of a packet sent at time `sent`. `is_late`: on_lost() was called for this packet before.
    void on_delivered(Time sent, std::size_t bytes, bool is_late);
    void on_lost(Time sent, std::size_t bytes);
    /// Ends an epoch if it is due. Call it once per tick. `can_try`: a trial may begin.
    Verdict update(Time now, Duration rtt, bool can_try);

    /// 0..0.35: the part of the sent bytes that is lost even if the rate is low.
    float usual() const { return usual_; }
    bool is_trial() const { return is_trial_; }
    /// Bytes per second delivered in the epoch that ended with the last verdict.
    float delivered_rate() const { return delivered_rate_; }
    /// Ends a trial without a verdict, and begins a new epoch.
    void abandon(Time now);

private:
    struct Epoch {
        Time began;
        float delivered = 0, lost = 0;  // bytes of packets with a fate
        int fates = 0;
        int loss_runs = 0;  // each run of consecutive lost packets counts once
        bool was_lost = false;
    };

    Epoch epoch_;
    bool is_trial_ = false;
    float usual_ = 0;
    float loss_before_ = 0;  // 0..1: loss in the epoch before the trial
    float delivered_rate_ = 0;
};

}  // namespace shoal::net::impl
