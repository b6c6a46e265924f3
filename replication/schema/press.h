#pragma once
// A key press in an input.

#include <cstdint>

namespace shoal::replication::all {

/// A field of an input that says how often something was pressed in one tick. A press is in exactly one tick,
/// also if the frames of a client are shorter or longer than a tick. Unlike other fields it is not held: an
/// input that is missing at its tick has no press. Codecs do not apply to it.
struct Press {
    static constexpr std::uint8_t kMax = 3;  // most presses in one tick; more wait for the next tick

    constexpr Press() = default;
    constexpr Press(bool is_pressed) : count(is_pressed ? 1 : 0) {}
    constexpr explicit operator bool() const { return count != 0; }

    std::uint8_t count = 0;
};

}  // namespace shoal::replication::all
