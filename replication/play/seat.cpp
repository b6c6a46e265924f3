#include "seat.h"

#include <cassert>
#include <utility>

namespace shoal::replication {

Seat::Step Seat::step(const JoinOptions& options, std::uint32_t unacked, net::Time now) {
    assert(phase_ == Phase::loading && options.timeout > net::Duration(0));
    if (unacked == 0) {
        phase_ = Phase::playing;
        return Step::play;
    }
    if (now - since_ < options.timeout) return Step::wait;
    since_ = now;
    return std::exchange(was_restarted_, true) ? Step::give_up : Step::restart;
}

}  // namespace shoal::replication
