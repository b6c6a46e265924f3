#pragma once
// The codecs that compute more than a division: half_float, fixed_point, angle, unit_vector and
// smallest_three. All are for floats and doubles. A restored value gives the same lanes again.

#include <cstdint>
#include <string>
#include <vector>

#include "lanes.h"

namespace shoal::replication::impl {

/// Returns whether the functions below are for this codec.
constexpr bool is_computed(FieldCodec::Kind kind) {
    return kind > FieldCodec::Kind::bounded && kind < FieldCodec::Kind::any_float;
}

/// Appends the lanes of a leaf. Returns why the codec does not fit the field, or an empty text if it fits.
std::string append_computed_lanes(const Leaf& leaf, std::vector<Lane>& lanes);

/// Writes the lanes of a leaf of the component or element `value`, and returns their end. Adds 1 to `clamped`
/// if the codec cannot represent the value.
std::uint32_t* quantise_computed(const Leaf& leaf, const void* value, std::uint32_t* lanes,
                                 std::uint64_t& clamped);

/// Writes the fields of a leaf, and returns the end of its lanes. Any lanes up to Lane::max are safe.
const std::uint32_t* restore_computed(const Leaf& leaf, const std::uint32_t* lanes, void* value);

}  // namespace shoal::replication::impl
