#include "seat.h"

#include <cassert>
#include <utility>

namespace shoal::replication::impl {

std::string_view describe(Phase phase) {
    constexpr std::string_view kTexts[] = {"not connected", "waiting to load", "loading the world",
                                           "playing",       "connection lost", "coming back"};
    return kTexts[static_cast<std::size_t>(phase)];
}

Seat::Next Seat::advance(const JoinOptions& options, std::uint32_t unacked, net::Time now) {
    assert(phase_ == Phase::loading && options.timeout > net::Duration(0));
    if (unacked == 0) {
        phase_ = Phase::playing;
        has_joined_ = true;
        return Next::play;
    }
    if (now - since_ < options.timeout) return Next::wait;
    since_ = now;
    return std::exchange(was_restarted_, true) ? Next::give_up : Next::restart;
}

void Seat::come_back(bool keeps, net::Time now) {
    assert(phase_ == Phase::away);
    is_ready_ = was_restarted_ = false;
    connect(now);
    if (keeps) load(now);
}

}  // namespace shoal::replication::impl
