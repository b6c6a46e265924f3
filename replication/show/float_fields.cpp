#include "float_fields.h"

#include <cmath>
#include <cstddef>

namespace shoal::replication::all {

FloatFields::FloatFields(const ComponentLayout& layout) {
    for (const Leaf& leaf : layout.leaves()) {
        if (!is_float(leaf.type)) continue;
        if (leaf.codec.kind == FieldCodec::Kind::unit_vector) directions.push_back(all.size());
        const auto bytes = static_cast<std::uint32_t>(size_of(leaf.type));
        for (std::uint32_t n = 0; n < leaf.scalars; ++n) all.push_back({leaf.offset + n * bytes, leaf.type});
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
