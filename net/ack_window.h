#pragma once
// Records which packets arrived, to drop duplicates, and which of them were accepted, to acknowledge them.

#include "packet.h"

namespace shoal::net::impl {

/// Receiving half of one connection. An arrived packet is accepted, and then acknowledged, if the handler
/// takes its payload and there is room for its messages. The window has 65 packet numbers: the newest that
/// arrived and the 64 before it. A packet with a lower number is stale: no ack can name it.
///
/// An attacker on the path can send fast copies of a few packets, which would make those before them stale.
/// So a skipped number costs one of at most 64 credits. A fresh packet earns one; if it is the newest, four,
/// because skipped packets may be lost. A packet that skips more numbers than there are credits is early, and
/// is dropped, unless it is the last of kRun with consecutive numbers, or follows kGap without fresh packets.
class AckWindow {
public:
    static constexpr Duration kGap = std::chrono::milliseconds(100);
    /// So many early packets in a row mean that the path has changed.
    static constexpr int kRun = 16;

    /// `first`: the other side's first packet number, >= 1. Lower numbers count as arrived and accepted.
    explicit AckWindow(std::uint64_t first) : first_(first), arrived_{first - 1}, accepted_{first - 1} {
        assert(first >= 1);
    }

    enum class State : std::uint8_t { fresh, duplicate, stale, early };
    /// The state of a packet that arrives at `now`.
    State state(std::uint64_t number, Time now) const {
        if (number > arrived_.newest) {
            const bool ends_run = early_count_ >= kRun - 1 && number == early_ + 1;
            const bool is_free = number - arrived_.newest <= credit_ + 1 || now - arrived_at_ >= kGap;
            return is_free || ends_run ? State::fresh : State::early;
        }
        if (arrived_.newest - number > 64) return State::stale;
        return arrived_.contains(number) ? State::duplicate : State::fresh;
    }
    /// Marks a fresh packet as arrived. Only accept() adds the packet to the acks.
    void arrive(std::uint64_t number, Time now) {
        assert(state(number, now) == State::fresh);
        const bool is_newest = number > arrived_.newest;
        const std::uint64_t skipped = is_newest ? number - arrived_.newest - 1 : 0;
        credit_ =
            skipped > credit_ ? 64 : (std::min<std::uint64_t>)(credit_ - skipped + (is_newest ? 4 : 1), 64);
        arrived_.insert(number);
        arrived_at_ = now;
        early_count_ = 0;
    }
    void drop_early(std::uint64_t number) {
        early_count_ = number == early_ + 1 ? early_count_ + 1 : 1;
        early_ = number;
    }
    /// Marks a packet that arrived at `now` as accepted. Call it at most once per packet.
    void accept(std::uint64_t number, Time now) {
        assert(state(number, now) == State::duplicate);
        accepted_.insert(number);
        if (accepted_.newest == number) newest_accepted_at_ = now;
    }

    std::uint64_t newest_arrived() const { return arrived_.newest; }
    bool has_acks() const { return accepted_.newest >= first_ && behind() <= 64; }
    /// Returns the acks of all accepted packets that are not stale.
    Acks acks(Time now) const {
        if (!has_acks()) return {};
        const std::uint64_t bits = behind() == 64 ? 0 : accepted_.bits & (~0ull >> behind());
        return {true, static_cast<std::uint16_t>(accepted_.newest), bits, now - newest_accepted_at_};
    }

private:
    struct Window {
        std::uint64_t newest;
        std::uint64_t bits = ~0ull;  // bit n is set if the window contains newest - 1 - n

        bool contains(std::uint64_t number) const {
            return number == newest || (bits >> (newest - number - 1) & 1);
        }
        /// Requires !contains(number) and number + 64 >= newest.
        void insert(std::uint64_t number) {
            if (number < newest) {
                bits |= 1ull << (newest - number - 1);
                return;
            }
            const std::uint64_t ahead = number - newest;
            // The former newest becomes bit `ahead - 1`. Two shifts, because one by 64 is undefined.
            bits = ahead > 64 ? 0 : (bits << (ahead - 1) << 1) | 1ull << (ahead - 1);
            newest = number;
        }
    };
    std::uint64_t behind() const { return arrived_.newest - accepted_.newest; }

    std::uint64_t first_;
    Window arrived_, accepted_;
    std::uint64_t credit_ = 64;   // how many numbers may be skipped now
    std::uint64_t early_ = 0;     // number of the last early packet
    int early_count_ = 0;         // consecutive early packets since a fresh one
    Time arrived_at_{0};          // when the last fresh packet arrived
    Time newest_accepted_at_{0};  // when the newest accepted packet arrived
};

}  // namespace shoal::net::impl
