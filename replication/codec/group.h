#pragma once
// Codes groups of lanes, and elements of strings, vectors and optionals. The format is specified in
// ../WIRE.md.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "../schema/lanes.h"
#include "coder.h"
#include "trend.h"

namespace shoal::replication::impl {

inline constexpr unsigned kQuantityOrder = 4, kRealOrder = 16, kReferenceOrder = 8;
inline constexpr unsigned kMaxOrder = 20;  // greatest k

/// A lane that a coder reads into, or writes from.
template <Coder C>
using Word = std::conditional_t<C::kReads, std::uint32_t, const std::uint32_t>;

inline unsigned next_order(std::uint32_t folded) {
    const unsigned width = static_cast<unsigned>(std::bit_width(folded));
    return width == 0 ? 0 : (std::min)(width - 1, kMaxOrder);
}

inline unsigned width_of(std::uint32_t difference) {
    return static_cast<unsigned>(std::bit_width(zigzag(difference)));
}

/// Order of the Golomb code of a predicted quantity. `expected`: width of the change that is predicted;
/// `last`: width of the last such code in the component, or kFirstWidth.
inline unsigned trend_order(unsigned expected, unsigned last) {
    return (std::min)((expected + 2 * last + 3) / 4, kMaxOrder);
}
inline constexpr unsigned kFirstWidth = 5;

/// The same for a whole number in a float.
inline unsigned whole_order(unsigned expected) {
    return (std::min)(expected < 8 ? expected / 2 : expected - 2, kMaxOrder);
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
std::uint32_t code_quantity(C& coder, std::uint32_t base, std::uint32_t value, unsigned& order,
                            const Residual& of) {
    const std::uint32_t folded = coder.residual(zigzag(value - base), order, of);
    order = next_order(folded);
    return base + unzigzag(folded);
}

/// Codes a lane that has moved: `predicted` instead of `base` is the value that costs least.
template <Coder C>
std::uint32_t code_moving(C& coder, std::uint32_t base, std::uint32_t predicted, std::uint32_t value,
                          unsigned& last, std::uint32_t factor) {
    const unsigned expected = width_of(predicted - base);
    const std::uint32_t folded =
        coder.residual(zigzag(value - predicted), trend_order(expected, last),
                       Residual::predicted(expected, last, factor, sign_of(predicted - base)));
    last = static_cast<unsigned>(std::bit_width(folded));
    return predicted + unzigzag(folded);
}

/// Codes the bits of a float. `older` is equal to `base` if nothing is predicted.
template <Coder C>
std::uint32_t code_real(C& coder, std::uint32_t base, std::uint32_t older, std::uint32_t factor,
                        std::uint32_t value, unsigned& order, unsigned& bits_order, bool is_known,
                        unsigned slot) {
    const bool moves = base != older;
    const auto change_of = [&](std::uint32_t now, std::uint32_t before) {
        return static_cast<std::uint32_t>(extrapolate(now - before, factor));
    };
    const std::uint32_t change = change_of(whole_part(base), whole_part(older));
    const std::uint32_t whole = whole_part(base) + change, step = zigzag(whole_part(value) - whole);
    const bool by_bits = moves ? !is_whole(value) : value != base && (step == 0 || !is_whole(value));
    if (coder.flag(by_bits, slot + 2 * is_known + moves)) {
        const std::uint32_t bits = ordered(base) + change_of(ordered(base), ordered(older));
        return ordered(code_quantity(coder, bits, ordered(value), bits_order, Residual::bits(moves)));
    }
    const unsigned width = width_of(change);
    const std::uint32_t folded =
        coder.residual(step, is_known ? whole_order(width) : order,
                       is_known ? Residual::whole(width, sign_of(change)) : Residual::first_whole());
    order = next_order(folded);
    return folded == 0 && !moves ? base : whole_bits(whole + unzigzag(folded));
}

/// Codes the quantities of a group that a trend predicts.
template <Coder C>
void code_predicted(C& coder, Lane lane, LaneGroup group, const Known& known, Word<C>* lanes,
                    unsigned& last) {
    std::uint32_t predicted[4];
    if (group.is_rotation) {
        predict_rotation(known, group.first, lanes[group.first - 1], lane.max, predicted);
    } else {
        for (std::uint32_t i = 0; i < group.count; ++i)
            predicted[i] = predict_quantity(known.base[group.first + i], known.older[group.first + i],
                                            known.factor, lane.max);
    }
    for (std::uint32_t i = 0; i < group.count; ++i) {
        Word<C>& word = lanes[group.first + i];
        const std::uint32_t value = code_moving(coder, known.base[group.first + i], predicted[i],
                                                C::kReads ? 0 : word, last, known.older ? known.factor : 0);
        if constexpr (C::kReads) word = value;
        if (C::kReads && !lane.is_legal(value)) coder.fail();
    }
}

/// Codes the lanes of a group, all described by `lane`. `last`: see trend_order().
template <Coder C>
void code_lanes(C& coder, Lane lane, LaneGroup group, const Known& known, Word<C>* lanes, unsigned& last) {
    const std::uint32_t* const base = known.base;
    const unsigned slot = known.first_slot == 0 ? 0 : known.first_slot + group.slot + kDiffersSlots;
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
            const bool turns = group.is_rotation && base && base[group.first - 1] != lanes[group.first - 1];
            if (known.older || turns) return code_predicted(coder, lane, group, known, lanes, last);
            if (lane.bounded && !base) return each(fixed);
            unsigned order = kQuantityOrder;
            return each([&](auto from, auto value) {
                return code_quantity(coder, from, value, order, Residual::plain(order));
            });
        }
        case LaneKind::symbol:
            if (lane.max == 1) return each(fixed);
            return each([&](auto from, auto value) {
                return coder.symbol(value, base ? std::optional(from) : std::nullopt, lane, slot);
            });
        case LaneKind::real: {
            unsigned order = kQuantityOrder, bits_order = kRealOrder;
            const std::uint32_t* older = known.older ? known.older + group.first : nullptr;
            return each([&](auto from, auto value) {
                const std::uint32_t before = older ? *older++ : from;
                return code_real(coder, from, before, known.factor, value, order, bits_order, base != nullptr,
                                 slot == 0 ? kByBitsSlot : slot);
            });
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

/// Codes a group that differs from the baseline. `lanes` and `known` are all lanes of the component.
template <Coder C>
void code_group(C& coder, const Lane& lane, const LaneGroup& group, const Known& known, Word<C>* lanes,
                unsigned& last) {
    if (lane.kind != LaneKind::symbol || lane.max != 1)
        return code_lanes(coder, lane, group, known, lanes, last);
    if constexpr (C::kReads) lanes[group.first] = known.at(group.first) ^ 1;
}

/// Codes an element that has no baseline.
template <Coder C>
void code_element(C& coder, const Part& part, Word<C>* element) {
    unsigned last = kFirstWidth;
    for (const Lane& lane : part.lanes) code_lanes(coder, lane, {0, 1}, {}, element++, last);
}

/// Codes an element that differs from `old`. A reader must copy `old` to the element before the call.
template <Coder C>
void code_changed_element(C& coder, const Part& part, const std::uint32_t* old, Word<C>* element) {
    unsigned last = kFirstWidth;
    for (std::uint32_t i = 0; i < part.lanes.size(); ++i)
        if (part.lanes.size() == 1 || coder.flag(element[i] != old[i]))
            code_group(coder, part.lanes[i], {i, 1}, {.base = old}, element, last);
}

}  // namespace shoal::replication::impl
