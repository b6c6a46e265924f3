#pragma once
// One entity's state as bits, on top of a state that the reader already has. The rest of the
// library sees only this interface, so a better code can replace it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bits.h"
#include "image.h"

namespace shoal::replication {

/// No record is longer. One of these must fit a packet beside its headers.
inline constexpr std::size_t kMaxRecordBytes = 1000;
inline constexpr std::size_t kMaxComponents = 4096;  // in a schema

/// Writes what turns `from` into `to`. With a null shape in `from`: `to` from nothing.
void write_image(const Schema& schema, const Image& from, const Image& to, BitWriter& out);

/// The reverse. Fills `words` and returns the shape, or null where the bits are not something that
/// write_image makes, reader.ok() then being of no interest. Any bits are safe.
const Shape* read_image(ShapeTable& shapes, const Image& from, BitReader& in,
                        std::vector<std::uint32_t>& words);

/// The most bits that write_image spends on one component, and a whole record on one entity.
std::uint32_t max_component_bits(const ComponentLayout& layout);
std::size_t max_record_bits(const Schema& schema);

}  // namespace shoal::replication
