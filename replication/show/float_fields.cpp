#include "float_fields.h"

#include <cmath>
#include <cstddef>
#include <cstring>

namespace shoal::replication::all {

double FloatField::load(const void* component) const {
    const std::byte* const at = static_cast<const std::byte*>(component) + offset;
    if (is_double) {
        double number;
        std::memcpy(&number, at, sizeof number);
        return number;
    }
    float number;
    std::memcpy(&number, at, sizeof number);
    return static_cast<double>(number);
}

void FloatField::store(void* component, double number) const {
    std::byte* const at = static_cast<std::byte*>(component) + offset;
    if (is_double) {
        std::memcpy(at, &number, sizeof number);
    } else {
        const float single = static_cast<float>(number);
        std::memcpy(at, &single, sizeof single);
    }
}

FloatFields::FloatFields(const ComponentLayout& layout) {
    for (const Leaf& leaf : layout.leaves()) {
        const bool is_double = leaf.type == FieldType::f64;
        if (!is_double && leaf.type != FieldType::f32) continue;
        if (leaf.codec.kind == FieldCodec::Kind::unit_vector) directions.push_back(all.size());
        const std::uint32_t bytes = is_double ? sizeof(double) : sizeof(float);
        for (std::uint32_t n = 0; n < leaf.scalars; ++n) all.push_back({leaf.offset + n * bytes, is_double});
    }
}

bool normalise(double* numbers, std::size_t size) {
    double square = 0;
    for (std::size_t i = 0; i < size; ++i) square += numbers[i] * numbers[i];
    if (!(square > 0)) return false;
    const double length = std::sqrt(square);
    for (std::size_t i = 0; i < size; ++i) numbers[i] /= length;
    return true;
}

}  // namespace shoal::replication::all
