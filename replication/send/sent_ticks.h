#pragma once
// At which recent ticks records of a slot were sent, and which of them arrived: tells which version a peer
// has.

#include <bit>
#include <cstdint>
#include <optional>

#include "../codec/state_packet.h"

namespace shoal::replication::impl {

/// Bit n stands for the tick n ticks before the newest record of the slot. Its owner keeps that tick.
class SentTicks {
public:
    /// Forgets all. From then on it is not known what was sent before the next record.
    void restart() { *this = {}; }

    /// Notes a record at `tick`. `last`: the tick of the newest record before; nothing if there is none.
    /// `acked`: the newest tick that was acknowledged since restart().
    void send(Tick tick, std::optional<Tick> last, std::optional<Tick> acked) {
        if (last) {
            const Tick by = tick - *last;
            const std::uint32_t newer = acked ? low(*last - *acked) : ~0u;  // than the acknowledged one
            const bool loses_any = (sent_ & newer & ~low(kBits - (by < kBits ? by : kBits))) != 0;
            sent_ = by < kBits ? sent_ << by : 0;
            acked_ = by < kBits ? acked_ << by : 0;
            if (loses_any) sent_ |= kUnknown;
        }
        sent_ |= 1;
    }

    /// Notes that the record of a tick was acknowledged, `age` ticks before the newest one.
    void acknowledge(Tick age) {
        if (age < kBits - 1) acked_ |= 1u << age;
    }

    /// Notes that no record will be based on a version older than the one `age` ticks before the newest
    /// record.
    void drop_before(Tick age) {
        if (age >= kBits - 1) return;
        sent_ |= ~low(age + 1);
        acked_ &= low(age + 1);
    }

    /// Which version a peer has that is the newest one of some ticks.
    struct Found {
        bool is_known = false;         // false: the peer may have one of several versions
        std::optional<Tick> age = {};  // before the newest record; nothing: the peer has none of these ticks
    };
    /// Finds the newest version that is at least `from` and at most `to` ticks older than the newest record.
    Found find(Tick from, Tick to) const {
        if (to >= kBits - 1) return {};
        const std::uint32_t sent = sent_ & ~low(from) & low(to + 1);
        if (sent == 0) return {true};
        const Tick age = static_cast<Tick>(std::countr_zero(sent));
        return (acked_ >> age & 1) != 0 ? Found{true, age} : Found{};
    }
    /// Returns whether no record was sent that is at least `from` ticks older than the newest one, but newer
    /// than the acknowledged one, which is `acked` ticks older.
    bool sent_none(Tick from, Tick acked) const {
        return from < kBits && (sent_ & ~low(from) & low(acked)) == 0;
    }
    /// Returns the age of the oldest acknowledged record that is at least `from` and at most `to` ticks older
    /// than the newest record.
    std::optional<Tick> oldest_acknowledged(Tick from, Tick to) const {
        const std::uint32_t acked = acked_ & ~low(from) & low(to + 1);
        if (acked == 0) return std::nullopt;
        return static_cast<Tick>(std::bit_width(acked) - 1);
    }

private:
    static constexpr Tick kBits = 32;
    /// In sent_: perhaps something older was sent.
    static constexpr std::uint32_t kUnknown = 1u << (kBits - 1);

    static std::uint32_t low(Tick bits) { return bits < kBits ? (1u << bits) - 1 : ~0u; }

    std::uint32_t sent_ = ~0u;  // a tick before restart() counts as sent
    std::uint32_t acked_ = 0;
};

}  // namespace shoal::replication::impl
