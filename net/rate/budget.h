#pragma once
// The budget: how many bytes a connection may send now. Each second it grows by the rate.

#include "../endpoint.h"

namespace shoal::net::impl {

/// The budget of one connection, in bytes of whole datagrams; RATE.md has its rules. A new budget is ten
/// packets, even if that is more than can be saved; only spending and limit() reduce it.
class Budget {
public:
    explicit Budget(Time now) : accrued_(now) {}

    /// Adds the bytes that `bytes_per_second` allows since the last call.
    void accrue(double bytes_per_second, Time now) {
        const double earned = bytes_per_second * std::chrono::duration<double>(now - accrued_).count();
        accrued_ = now;
        const double most = most_saved(bytes_per_second);
        if (bytes_ < most) bytes_ = (std::min)(bytes_ + earned, most);
        reserve_ = (std::min)(reserve_ + earned * 0.1, kReserve);
    }
    /// Takes the bytes of a packet that waited for the budget, or of a ping. The debt is at most two packets.
    void spend(std::size_t bytes) {
        if (bytes_ <= 0) reserve_ = (std::max)(reserve_ - static_cast<double>(bytes), -kReserve);
        bytes_ = (std::max)(bytes_ - static_cast<double>(bytes), -kTwoPackets);
    }
    /// Takes the bytes of a packet that never waits, such as an ack. Never overdraws the budget.
    void spend_spare(std::size_t bytes) {
        if (bytes_ > 0) bytes_ = (std::max)(bytes_ - static_cast<double>(bytes), 0.0);
    }
    /// Call it after lowering the rate. Drops saved bytes beyond the new maximum, to prevent a burst.
    void limit(double bytes_per_second) { bytes_ = (std::min)(bytes_, most_saved(bytes_per_second)); }

    bool is_left() const { return bytes_ > 0; }
    /// Like is_left(), if only a few small messages wait: a reserve for them grows by a tenth of the rate.
    bool is_left_for_urgent() const { return bytes_ > 0 || reserve_ > 0; }

private:
    static double most_saved(double bytes_per_second) {
        return (std::max)(kTwoPackets, bytes_per_second * 0.05);
    }

    static constexpr double kTwoPackets = 2 * kMaxDatagramBytes;
    static constexpr double kReserve = 300;

    double bytes_ = 10 * kMaxDatagramBytes;  // below 0: overdrawn
    double reserve_ = kReserve;
    Time accrued_;
};

}  // namespace shoal::net::impl
