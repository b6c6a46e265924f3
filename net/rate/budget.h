#pragma once
// How many bytes may be sent now: a budget that grows with a rate.

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "../endpoint.h"

namespace shoal::net {

/// The budget of one connection, in bytes of whole datagrams. It may be overdrawn by one packet, which is
/// paid back before the next; what is not used is saved up, for 50 ms or up to two packets. The first burst
/// may be more; it is kept until it is spent.
class Budget {
public:
    explicit Budget(Time now) : accrued_(now) {}

    /// Adds what `bytes_per_second` earned since the last call.
    void accrue(double bytes_per_second, Time now) {
        const double earned = bytes_per_second * std::chrono::duration<double>(now - accrued_).count();
        accrued_ = now;
        const double most = most_saved(bytes_per_second);
        if (bytes_ < most) bytes_ = std::min(bytes_ + earned, most);
        reserve_ = std::min(reserve_ + earned * 0.1, kReserve);
    }
    /// Packets that were never blocked, such as pings, pile up no debt of more than two packets.
    void spend(std::size_t bytes) {
        if (bytes_ <= 0) reserve_ = std::max(reserve_ - static_cast<double>(bytes), -kReserve);
        bytes_ = std::max(bytes_ - static_cast<double>(bytes), -kTwoPackets);
    }
    /// For packets that are sent in any case, such as acks: never overdraws the budget.
    void spend_spare(std::size_t bytes) {
        if (bytes_ > 0) bytes_ = std::max(bytes_ - static_cast<double>(bytes), 0.0);
    }
    /// Call after lowering the rate. Drops saved bytes beyond what the new rate may save, to prevent a burst.
    void limit(double bytes_per_second) { bytes_ = std::min(bytes_, most_saved(bytes_per_second)); }

    bool is_left() const { return bytes_ > 0; }
    /// Whether a few small messages may be sent. A tenth of the rate refills a reserve for them.
    bool is_left_for_urgent() const { return bytes_ > 0 || reserve_ > 0; }

private:
    static double most_saved(double bytes_per_second) {
        return std::max(kTwoPackets, bytes_per_second * 0.05);
    }

    static constexpr double kTwoPackets = 2 * kMaxDatagramBytes;
    static constexpr double kReserve = 300;

    double bytes_ = 10 * kMaxDatagramBytes;  // below 0: overdrawn
    double reserve_ = kReserve;
    Time accrued_;
};

}  // namespace shoal::net
