#pragma once
// Writes the state of an entity as bits, based on a state that the reader has. The rest of the library uses
// only these functions, so that another encoding can replace this one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../schema/image.h"
#include "bits.h"
#include "model.h"
#include "trend.h"

namespace shoal::replication::impl {

/// Writes the difference from `from` to `to`, or all of `to` if from.shape is null. `numbers`: the component
/// numbers in the reader's schema, which must have all components of the images; null if it is the same
/// schema. `trend`: what the reader has beside `from`. Its shape must be of the same table. `model`: of the
/// schema, for a range coder; empty: plain bits. Returns whether the images differ.
bool write_image(const Schema& schema, const Image& from, const Image& to, BitWriter& out,
                 const ComponentNumbers* numbers = nullptr, const Trend& trend = {}, ModelView model = {});

/// Counts the decisions of write_image() with a trained model.
void count_decisions(const Schema& schema, const Image& from, const Image& to, const Trend& trend,
                     DecisionCounts& counts);

/// Returns the number of bits that write_image() writes without a model.
std::size_t measure_image(const Schema& schema, const Image& from, const Image& to);

/// Reads the bits of write_image() with the same `from`, `trend` and `model`: fills `words` and returns the
/// shape. Returns null if the bits are invalid; in.ok() can then be true or false. Any bits are safe.
const Shape* read_image(ShapeTable& shapes, const Image& from, BitReader& in,
                        std::vector<std::uint32_t>& words, const Trend& trend = {}, ModelView model = {});

/// Writes one value of a layout: the difference from `from` to `to`, or all of `to` if `from` is empty. The
/// words of a value are its lanes, then its parts.
void write_value(const ComponentLayout& layout, std::span<const std::uint32_t> from,
                 std::span<const std::uint32_t> to, BitWriter& out);

/// Reads the bits of write_value() with the same `from`: fills `words`. Returns false if the bits are
/// invalid; in.ok() is then false. Any bits are safe.
bool read_value(const ComponentLayout& layout, std::span<const std::uint32_t> from, BitReader& in,
                std::vector<std::uint32_t>& words);

/// Greatest number of bits that write_image writes for one component if there is no baseline.
std::uint32_t max_component_bits(const ComponentLayout& layout);

}  // namespace shoal::replication::impl
