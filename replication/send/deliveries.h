#pragma once
// Which versions of an entity a peer has: the ticks of the records that the peer acknowledged.

#include <bit>
#include <cstdint>
#include <optional>

#include "../schema/image.h"

namespace shoal::replication::impl {

/// Keeps the acknowledged ticks among the last 64 ticks, and the newest acknowledged tick before them.
class Deliveries {
public:
    bool empty() const { return bits_ == 0; }
    /// Requires !empty().
    Tick newest() const { return newest_; }
    /// Mean of ticks between two records, as the peer computes it. `long_gap`: see add(). 0: unknown.
    float mean_gap() const { return mean_gap_; }

    /// Notes that a record of this tick was acknowledged. Pauses of more than `long_gap` ticks do not count
    /// for mean_gap().
    void add(Tick tick, Tick long_gap) {
        if (empty()) {
            newest_ = tick;
            bits_ = 1;
        } else if (is_newer(tick, newest_)) {
            advance(tick - newest_, long_gap);
        } else if (newest_ - tick < 64) {
            bits_ |= std::uint64_t{1} << (newest_ - tick);
        }
    }

    /// The newest tick that is not after `tick`.
    std::optional<Tick> at(Tick tick) const {
        if (empty()) return std::nullopt;
        if (!is_newer(newest_, tick)) return newest_;
        const Tick age = newest_ - tick;
        if (age < 64 && bits_ >> age != 0) return tick - static_cast<Tick>(std::countr_zero(bits_ >> age));
        return has_older_ && !is_newer(older_, tick) ? std::optional(older_) : std::nullopt;
    }
    /// The oldest tick after `tick`, of the last 64.
    std::optional<Tick> after(Tick tick) const {
        if (empty() || !is_newer(newest_, tick)) return std::nullopt;
        const Tick age = newest_ - tick;
        const std::uint64_t newer = age < 64 ? bits_ & ((std::uint64_t{1} << age) - 1) : bits_;
        return newest_ - static_cast<Tick>(63 - std::countl_zero(newer));
    }

private:
    void advance(Tick gap, Tick long_gap) {
        const std::uint64_t lost = gap < 64 ? bits_ & ~(~std::uint64_t{0} >> gap) : bits_;
        if (lost != 0) {
            older_ = newest_ - static_cast<Tick>(std::countr_zero(lost));
            has_older_ = true;
        }
        const float ticks = static_cast<float>(gap);
        if (gap <= long_gap) mean_gap_ = mean_gap_ == 0 ? ticks : mean_gap_ + (ticks - mean_gap_) / 8;
        bits_ = gap < 64 ? bits_ << gap | 1 : 1;
        newest_ += gap;
    }

    std::uint64_t bits_ = 0;  // bit n: the record of newest_ - n
    Tick newest_ = 0, older_ = 0;
    float mean_gap_ = 0;
    bool has_older_ = false;
};

}  // namespace shoal::replication::impl
