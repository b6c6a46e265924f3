#pragma once
// Codes groups of lanes, and elements of strings, vectors and optionals. The format is specified in
// ../WIRE.md.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "../schema/lanes.h"
#include "coder.h"

namespace shoal::replication::all {

inline constexpr unsigned kQuantityOrder = 4, kRealOrder = 16, kSymbolOrder = 3, kReferenceOrder = 8;
inline constexpr unsigned kMaxOrder = 20;  // greatest k

/// A lane that a coder reads into, or writes from.
template <Coder C>
using Word = std::conditional_t<C::kReads, std::uint32_t, const std::uint32_t>;

inline unsigned next_order(std::uint32_t folded) {
    const unsigned width = static_cast<unsigned>(std::bit_width(folded));
    return width == 0 ? 0 : (std::min)(width - 1, kMaxOrder);
}

inline std::uint32_t whole_part(std::uint32_t bits) {
    const float value = std::bit_cast<float>(bits);
    if (!(std::abs(value) < 0x1p24f)) return 0;
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
}
inline std::uint32_t whole_bits(std::uint32_t whole) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(whole)));
}

/// Returns whether the float with these bits is an integer within +-2^24; false for -0.
inline bool is_whole(std::uint32_t bits) {
    return whole_bits(whole_part(bits)) == bits;
}

/// Maps the bits of a float to a signed integer. The integers have the order of the floats, and close floats
/// have close integers. The function is its own inverse.
inline std::uint32_t ordered(std::uint32_t bits) {
    return (bits >> 31) != 0 ? ~bits ^ 0x80000000u : bits;
}

template <Coder C>
std::uint32_t code_quantity(C& coder, std::uint32_t base, std::uint32_t value, unsigned& order) {
    const std::uint32_t folded = coder.golomb(zigzag(value - base), order);
    order = next_order(folded);
    return base + unzigzag(folded);
}

template <Coder C>
std::uint32_t code_real(C& coder, std::uint32_t base, std::uint32_t value, unsigned& whole_order,
                        unsigned& bits_order) {
    const std::uint32_t step = zigzag(whole_part(value) - whole_part(base));
    if (coder.flag(value != base && (step == 0 || !is_whole(value))))
        return ordered(code_quantity(coder, ordered(base), ordered(value), bits_order));
    const std::uint32_t folded = coder.golomb(step, whole_order);
    whole_order = next_order(folded);
    return folded == 0 ? base : whole_bits(whole_part(base) + unzigzag(folded));
}

/// Codes the lanes of a group, all described by `lane`. `base` is null if they have no baseline.
template <Coder C>
void code_lanes(C& coder, Lane lane, LaneGroup group, const std::uint32_t* base, Word<C>* lanes) {
    // Always inline: otherwise the captured variables would be kept in memory.
    const auto each = [&](auto&& code) __attribute__((always_inline)) {
        for (std::uint32_t i = group.first; i < group.first + group.count; ++i) {
            const std::uint32_t value = code(base ? base[i] : 0, C::kReads ? 0 : lanes[i]);
            if constexpr (C::kReads) lanes[i] = value;
            if (C::kReads && !lane.is_legal(value)) coder.fail();
        }
    };
    const auto fixed = [&](std::uint32_t, std::uint32_t value) { return coder.fixed(value, lane.bits); };
    switch (lane.kind) {
        case LaneKind::quantity: {
            if (lane.bounded && !base) return each(fixed);
            unsigned order = kQuantityOrder;
            return each([&](auto from, auto value) { return code_quantity(coder, from, value, order); });
        }
        case LaneKind::symbol:
            if (lane.bounded || lane.max == 1) return each(fixed);
            return each([&](auto, auto value) { return coder.golomb(value, kSymbolOrder); });
        case LaneKind::real: {
            unsigned order = kQuantityOrder, bits_order = kRealOrder;
            return each(
                [&](auto from, auto value) { return code_real(coder, from, value, order, bits_order); });
        }
        case LaneKind::reference:
            return each([&](auto, auto value) { return coder.golomb(value, kReferenceOrder); });
    }
}

inline bool group_differs(const LaneGroup& group, const std::uint32_t* base, const std::uint32_t* lanes) {
    for (std::uint32_t i = group.first; i < group.first + group.count; ++i)
        if (lanes[i] != (base ? base[i] : 0)) return true;
    return false;
}

/// Codes a group that differs from the baseline. `lanes` and `base` are all lanes of the component, and of
/// its baseline.
template <Coder C>
void code_group(C& coder, const Lane& lane, const LaneGroup& group, const std::uint32_t* base,
                Word<C>* lanes) {
    if (lane.kind != LaneKind::symbol || lane.max != 1) return code_lanes(coder, lane, group, base, lanes);
    if constexpr (C::kReads) lanes[group.first] = base ? base[group.first] ^ 1 : 1;
}

/// Codes an element that has no baseline.
template <Coder C>
void code_element(C& coder, const Part& part, Word<C>* element) {
    for (const Lane& lane : part.lanes) code_lanes(coder, lane, {0, 1}, nullptr, element++);
}

/// Codes an element that differs from `old`. A reader must copy `old` to the element before the call.
template <Coder C>
void code_changed_element(C& coder, const Part& part, const std::uint32_t* old, Word<C>* element) {
    for (std::uint32_t i = 0; i < part.lanes.size(); ++i)
        if (part.lanes.size() == 1 || coder.flag(element[i] != old[i]))
            code_group(coder, part.lanes[i], {i, 1}, old, element);
}

}  // namespace shoal::replication::all
