#include "ack_window.h"

#include <bit>
#include <cassert>

namespace shoal::net {

AckWindow::AckWindow(std::uint64_t first) : first_(first), newest_(first - 1) {
    assert(first >= 1);
}

AckWindow::State AckWindow::state(std::uint64_t number) const {
    if (number > newest_) return State::fresh;
    const std::uint64_t behind = newest_ - number;
    if (behind == 0) return State::duplicate;
    if (behind > 64) return State::stale;
    return arrived_ >> (behind - 1) & 1 ? State::duplicate : State::fresh;
}

void AckWindow::arrive(std::uint64_t number) {
    assert(state(number) == State::fresh);
    if (number < newest_) {
        arrived_ |= 1ull << (newest_ - number - 1);
        return;
    }
    const std::uint64_t ahead = number - newest_;
    if (ahead > 64) {
        arrived_ = 0;
        accepted_ = 0;
    } else {
        // The former newest becomes bit ahead - 1. Shifting by 64 is undefined, hence in two steps.
        arrived_ = (arrived_ << (ahead - 1) << 1) | 1ull << (ahead - 1);
        accepted_ = (accepted_ << (ahead - 1) << 1) | std::uint64_t(newest_is_accepted_) << (ahead - 1);
    }
    newest_ = number;
    newest_is_accepted_ = false;
}

void AckWindow::accept(std::uint64_t number) {
    assert(state(number) != State::fresh);
    if (number == newest_) {
        newest_is_accepted_ = true;
    } else if (newest_ - number <= 64) {
        accepted_ |= 1ull << (newest_ - number - 1);
    }
}

std::uint64_t AckWindow::newest_accepted() const {
    if (newest_is_accepted_) return newest_;
    if (accepted_ == 0) return first_ - 1;
    return newest_ - 1 - static_cast<unsigned>(std::countr_zero(accepted_));
}

std::uint64_t AckWindow::ack_bits() const {
    if (newest_is_accepted_) return accepted_;
    if (accepted_ == 0) return 0;
    return accepted_ >> std::countr_zero(accepted_) >> 1;
}

}  // namespace shoal::net
