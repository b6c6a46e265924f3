#pragma once
// Predicts lanes from the baseline and an older version: what changed goes on changing. Integers only, so
// that both ends compute the same numbers. The rules are specified in ../WIRE.md.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "../schema/image.h"

namespace shoal::replication::impl {

/// What the reader of a delta has beside the baseline.
struct Trend {
    static constexpr unsigned kShift = 8;
    static constexpr std::uint32_t kMaxFactor = 8u << kShift;

    Image older;  // a version before the baseline; without a shape: none
    // The change since the baseline that is expected, as a multiple of the change from `older` to the
    // baseline, in 1/256; at most kMaxFactor. 0: `older` is not used.
    std::uint32_t factor = 0;

    /// The factor for a baseline of `age` ticks and a version `gap` ticks older; 0 if there is none.
    static std::uint32_t factor_of(Tick age, Tick gap) {
        if (gap == 0) return 0;
        const std::uint64_t factor = ((std::uint64_t{age} << kShift) + gap / 2) / gap;
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(factor, kMaxFactor));
    }
};

/// The lanes of a component in the baseline and in the older version. Null: the version lacks the component.
struct Known {
    const std::uint32_t* base = nullptr;
    const std::uint32_t* older = nullptr;  // null, too, if the two are equal or if nothing is predicted
    std::uint32_t factor = 0;
    unsigned first_slot = 0;  // the first slot of the component in a CodecModel; 0: it has none

    std::uint32_t at(std::uint32_t lane) const { return base ? base[lane] : 0; }
};

/// The change that is expected, given a change before.
inline std::int64_t extrapolate(std::uint32_t change, std::uint32_t factor) {
    const std::int64_t scaled = std::int64_t{static_cast<std::int32_t>(change)} * factor;
    return (scaled + (1 << (Trend::kShift - 1))) >> Trend::kShift;
}

/// Predicts a quantity whose greatest value is `max`.
inline std::uint32_t predict_quantity(std::uint32_t base, std::uint32_t older, std::uint32_t factor,
                                      std::uint32_t max) {
    const std::int64_t sum = base + extrapolate(base - older, factor);
    return static_cast<std::uint32_t>(max == 0xffffffff ? sum : std::clamp<std::int64_t>(sum, 0, max));
}

/// The greatest integer whose square is at most `square`.
inline std::uint32_t square_root(std::uint64_t square) {
    std::uint64_t root = 0;
    for (std::uint64_t bit = std::uint64_t{1} << 31; bit != 0; bit >>= 1)
        if ((root + bit) * (root + bit) <= square) root += bit;
    return static_cast<std::uint32_t>(root);
}

/// A rotation as four integers. `lanes` are the three smallest ones, without the number at `greatest`; their
/// greatest value is `max`.
struct Rotation {
    std::int64_t at[4];

    Rotation(std::uint32_t greatest, const std::uint32_t* lanes, std::uint32_t max) {
        std::int64_t rest = 2 * std::int64_t{max} * max;
        for (std::uint32_t i = 0; i < 4; ++i) {
            if (i == greatest) continue;
            at[i] = 2 * std::int64_t{*lanes++} - max;
            rest -= at[i] * at[i];
        }
        at[greatest & 3] = rest > 0 ? square_root(static_cast<std::uint64_t>(rest)) : 0;
    }
};

/// Predicts the three lanes after `lanes[-1]`, the index of the greatest number of the new rotation.
inline void predict_rotation(const Known& known, std::uint32_t first, std::uint32_t greatest,
                             std::uint32_t max, std::uint32_t* out) {
    const std::uint32_t* const base = known.base + first;
    const std::uint32_t* const older = known.older ? known.older + first : base;
    if (base[-1] == greatest && older[-1] == greatest) {
        for (std::uint32_t i = 0; i < 3; ++i) out[i] = predict_quantity(base[i], older[i], known.factor, max);
        return;
    }
    Rotation now(base[-1], base, max), then(older[-1], older, max);
    std::int64_t product = 0;
    for (std::uint32_t i = 0; i < 4; ++i) product += now.at[i] * then.at[i];
    for (std::uint32_t i = 0; i < 4; ++i) {
        const std::int64_t change = now.at[i] - (product < 0 ? -then.at[i] : then.at[i]);
        now.at[i] += (change * known.factor) >> Trend::kShift;
    }
    const std::int64_t sign = now.at[greatest & 3] < 0 ? -1 : 1;
    for (std::uint32_t i = 0; i < 4; ++i)
        if (i != greatest)
            *out++ = static_cast<std::uint32_t>(
                std::clamp<std::int64_t>((sign * now.at[i] + max + 1) >> 1, 0, max));
}

}  // namespace shoal::replication::impl
