#pragma once
// Which packets arrived, to refuse duplicates, and which were accepted, to acknowledge them.

#include <cstdint>

namespace shoal::net {

/// Receiving half of one connection.
/// A packet that can no longer be acknowledged is not taken either, so that the sender's view ("lost")
/// and ours agree: the window for duplicates and the one for acks have the same 65 numbers.
class AckWindow {
public:
    /// Numbers before `first` count as arrived and accepted. first >= 1.
    explicit AckWindow(std::uint64_t first);

    enum class State : std::uint8_t { fresh, duplicate, stale };
    State state(std::uint64_t number) const;

    /// Marks as arrived. Requires state(number) == fresh. It is not acknowledged until accepted.
    void arrive(std::uint64_t number);
    /// Marks as accepted; no effect when the window has moved past it. Requires arrive(number) before.
    void accept(std::uint64_t number);

    std::uint64_t newest_arrived() const { return newest_; }
    bool has_acks() const { return newest_accepted() >= first_; }
    /// first - 1 while there is none.
    std::uint64_t newest_accepted() const;
    /// Bit n: newest_accepted() - 1 - n was accepted.
    std::uint64_t ack_bits() const;

private:
    std::uint64_t first_;
    std::uint64_t newest_;            // newest arrived
    std::uint64_t arrived_ = ~0ull;   // bit n: newest_ - 1 - n arrived
    std::uint64_t accepted_ = ~0ull;  // bit n: newest_ - 1 - n was accepted
    bool newest_is_accepted_ = true;
};

}  // namespace shoal::net
