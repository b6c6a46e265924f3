#pragma once
// The floating-point numbers of a component, which are mixed and smoothed.

#include <cstdint>
#include <vector>

#include "../schema/schema.h"

namespace shoal::replication::all {

/// A float or double in a component.
struct FloatField {
    std::uint32_t offset;  // in the component, in bytes
    FieldType type;

    double load(const void* component) const { return load_float(type, component, offset); }
    void store(void* component, double number) const { store_float(type, component, offset, number); }
};

/// The floats and doubles of a component, in the order of its fields.
struct FloatFields {
    explicit FloatFields(const ComponentLayout& layout);

    std::vector<FloatField> all;
    std::vector<std::size_t> directions;  // for each unit vector: the index of its first number
};

/// Scales a vector of `size` numbers to the length 1. Returns false, without effect, if its length is 0 or
/// NaN.
bool normalise(double* numbers, std::size_t size);

}  // namespace shoal::replication::all
