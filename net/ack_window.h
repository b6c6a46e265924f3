#pragma once
// Which packets arrived, to refuse duplicates, and which were accepted, to acknowledge them.

#include <cassert>
#include <cstdint>

#include "packet.h"

namespace shoal::net {

/// Receiving half of one connection.
/// A packet that can no longer be acknowledged is not taken either, so that the sender's view ("lost")
/// and ours agree: the window for duplicates and the one for acks have the same 65 numbers.
class AckWindow {
public:
    /// Numbers before `first` count as arrived and accepted. first >= 1.
    explicit AckWindow(std::uint64_t first) : first_(first), arrived_{first - 1}, accepted_{first - 1} {
        assert(first >= 1);
    }

    enum class State : std::uint8_t { fresh, duplicate, stale };
    State state(std::uint64_t number) const {
        if (number > arrived_.newest) return State::fresh;
        if (arrived_.newest - number > 64) return State::stale;
        return arrived_.contains(number) ? State::duplicate : State::fresh;
    }
    /// Marks as arrived. Requires state(number) == fresh. It is not acknowledged until accepted.
    void arrive(std::uint64_t number) {
        assert(state(number) == State::fresh);
        arrived_.insert(number);
    }
    /// Marks as accepted, once, a packet that arrived and is not stale.
    void accept(std::uint64_t number, Time now) {
        assert(state(number) == State::duplicate);
        accepted_.insert(number);
        if (accepted_.newest == number) newest_accepted_at_ = now;
    }

    std::uint64_t newest_arrived() const { return arrived_.newest; }
    /// Whether a packet was accepted that an ack may name.
    bool has_acks() const { return accepted_.newest >= first_ && behind() <= 64; }
    /// Names no packet that would be stale now.
    Acks acks(Time now) const {
        if (!has_acks()) return {};
        const std::uint64_t bits = behind() == 64 ? 0 : accepted_.bits & (~0ull >> behind());
        return {true, static_cast<std::uint16_t>(accepted_.newest), bits, now - newest_accepted_at_};
    }

private:
    struct Window {
        std::uint64_t newest;
        std::uint64_t bits = ~0ull;  // bit n: it contains newest - 1 - n

        bool contains(std::uint64_t number) const {
            return number == newest || (bits >> (newest - number - 1) & 1);
        }
        /// Requires that it does not contain the number, which is newer or at most 64 behind.
        void insert(std::uint64_t number) {
            if (number < newest) {
                bits |= 1ull << (newest - number - 1);
                return;
            }
            const std::uint64_t ahead = number - newest;
            // The former newest becomes bit ahead - 1. Shifting by 64 is undefined, hence in two steps.
            bits = ahead > 64 ? 0 : (bits << (ahead - 1) << 1) | 1ull << (ahead - 1);
            newest = number;
        }
    };
    std::uint64_t behind() const { return arrived_.newest - accepted_.newest; }

    std::uint64_t first_;
    Window arrived_, accepted_;
    Time newest_accepted_at_{0};  // when the newest accepted packet arrived
};

}  // namespace shoal::net
