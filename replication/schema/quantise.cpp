#include "quantise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string_view>

namespace shoal::replication::all {
namespace {

using Kind = FieldCodec::Kind;

constexpr double kTurn = 2 * std::numbers::pi;
constexpr double kLengthTolerance = 0.01;

double load_number(const Leaf& leaf, const void* value, std::size_t index) {
    const std::byte* const at = static_cast<const std::byte*>(value) + leaf.offset;
    if (leaf.type == FieldType::f32) {
        float number;
        std::memcpy(&number, at + index * sizeof number, sizeof number);
        return number;
    }
    double number;
    std::memcpy(&number, at + index * sizeof number, sizeof number);
    return number;
}
void store_number(const Leaf& leaf, void* value, std::size_t index, double number) {
    std::byte* const at = static_cast<std::byte*>(value) + leaf.offset;
    const float narrow = static_cast<float>(number);
    if (leaf.type == FieldType::f32) {
        std::memcpy(at + index * sizeof narrow, &narrow, sizeof narrow);
    } else {
        std::memcpy(at + index * sizeof number, &number, sizeof number);
    }
}

unsigned bits_of(const Leaf& leaf) {
    return static_cast<unsigned>(leaf.codec.step);
}

// half_float(). The halves between -65,504 and 65,504 in their order are the lanes 0 to 2 * kMaxHalf; a half
// of magnitude m has the bits kMaxHalf + m or kMaxHalf - m.
constexpr std::uint32_t kMaxHalf = 0x7bff;  // the bits of 65,504

std::uint32_t quantise_half(double value, std::uint64_t& clamped) {
    const double size = std::abs(value);
    double magnitude = kMaxHalf + 1;  // too large
    if (size < 65536) {
        // Below 2^-14 halves have the exponent of 2^-14.
        const int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
        magnitude = std::nearbyint(std::ldexp(size, 10 - exponent)) + (exponent + 14) * 1024.0;
    }
    if (magnitude > kMaxHalf) ++clamped;  // also if the value is NaN
    if (std::isnan(value)) return kMaxHalf;
    const auto bits = std::min(kMaxHalf, static_cast<std::uint32_t>(magnitude));
    return value < 0 ? kMaxHalf - bits : kMaxHalf + bits;
}
double restore_half(std::uint32_t lane) {
    const bool is_negative = lane < kMaxHalf;
    const std::uint32_t bits = is_negative ? kMaxHalf - lane : lane - kMaxHalf;
    const int exponent = static_cast<int>(bits >> 10), fraction = static_cast<int>(bits & 1023);
    const double size =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    return is_negative ? -size : size;
}

std::uint32_t quantise_fixed(const Leaf& leaf, double value, std::uint64_t& clamped) {
    // 2^31 - 1 is no float: restored, it would be out of range.
    const double low = -0x1p31, high = leaf.type == FieldType::f32 ? 0x1p31 - 128 : 0x1p31 - 1;
    const double nearest = std::floor(std::ldexp(value, static_cast<int>(bits_of(leaf))) + 0.5);
    if (!(nearest >= low && nearest <= high)) ++clamped;
    if (std::isnan(nearest)) return 0;
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(std::clamp(nearest, low, high)));
}
double restore_fixed(const Leaf& leaf, std::uint32_t lane) {
    return std::ldexp(static_cast<std::int32_t>(lane), -static_cast<int>(bits_of(leaf)));
}

// angle(). The lanes begin at -pi, so that only angles around half a turn jump between lanes far apart.
std::uint32_t quantise_angle(const Leaf& leaf, double value, std::uint64_t& clamped) {
    const std::uint64_t parts = std::uint64_t{1} << bits_of(leaf);
    double part = 0;
    if (std::isfinite(value)) {
        part = std::floor(std::remainder(value, kTurn) / kTurn * static_cast<double>(parts) + 0.5);
    } else {
        ++clamped;
    }
    const auto steps = static_cast<std::uint64_t>(static_cast<std::int64_t>(part));  // modulo 2^64
    return static_cast<std::uint32_t>((steps + parts / 2) & (parts - 1));
}
double restore_angle(const Leaf& leaf, std::uint32_t lane) {
    const double parts = static_cast<double>(std::uint64_t{1} << bits_of(leaf));
    return (lane - parts / 2) / parts * kTurn;
}

/// Makes the length of a vector 1. Returns false if it has no direction.
template <std::size_t N>
bool normalise(std::array<double, N>& v, std::uint64_t& clamped) {
    double largest = 0, squares = 0;
    bool is_finite = true;
    for (const double x : v) {
        largest = std::max(largest, std::abs(x));
        is_finite = is_finite && std::isfinite(x);
    }
    if (!is_finite || largest == 0) return ++clamped, false;
    for (double& x : v) squares += (x / largest) * (x / largest);  // the squares alone could overflow
    const double length = std::sqrt(squares);
    if (std::abs(length * largest - 1) > kLengthTolerance) ++clamped;
    for (double& x : v) x = x / largest / length;
    return true;
}

/// The middle of the lanes of a number in [-1, 1] or [-sqrt(1/2), sqrt(1/2)]. The middle stands for 0, and
/// the lanes 0 and 2 * middle for the ends.
std::int32_t middle_of(const Leaf& leaf) {
    return (std::int32_t{1} << (bits_of(leaf) - 1)) - 1;
}

double sign_of(double x) {
    return x < 0 ? -1 : 1;
}

// unit_vector(): the octahedral projection. Source: Cigolle et al., "A Survey of Efficient Representations
// for Independent Unit Vectors", Journal of Computer Graphics Techniques 3 (2), 2014.
using Vector = std::array<double, 3>;

void quantise_unit(const Leaf& leaf, Vector v, std::uint32_t* lanes, std::uint64_t& clamped) {
    if (!normalise(v, clamped)) v = {0, 0, 1};
    const std::int32_t middle = middle_of(leaf);
    const double sum = std::abs(v[0]) + std::abs(v[1]) + std::abs(v[2]);
    double x = v[0] / sum, y = v[1] / sum;
    if (v[2] < 0) {
        const double folded = (1 - std::abs(y)) * sign_of(x);
        y = (1 - std::abs(x)) * sign_of(y);
        x = folded;
    }
    auto a = static_cast<std::int32_t>(std::round(x * middle));
    auto b = static_cast<std::int32_t>(std::round(y * middle));
    // The border of the square is folded in its middle: the points (1, y) and (1, -y) are one direction.
    if (std::abs(a) == middle) b = std::abs(b);
    if (std::abs(b) == middle) a = std::abs(a);
    lanes[0] = static_cast<std::uint32_t>(a + middle);
    lanes[1] = static_cast<std::uint32_t>(b + middle);
}
Vector restore_unit(const Leaf& leaf, const std::uint32_t* lanes) {
    const double middle = middle_of(leaf);
    const double x = lanes[0] / middle - 1, y = lanes[1] / middle - 1;
    Vector v{x, y, 1 - std::abs(x) - std::abs(y)};
    if (v[2] < 0) v = {(1 - std::abs(y)) * sign_of(x), (1 - std::abs(x)) * sign_of(y), v[2]};
    const double length = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (double& number : v) number /= length;
    return v;
}

// smallest_three(): all components except the greatest, which follows from them. Source: Fiedler, "Snapshot
// Compression", 2015. Lanes: the greatest component, then the others in their order.
using Quaternion = std::array<double, 4>;

void quantise_three_once(std::int32_t middle, const Quaternion& q, std::uint32_t* lanes) {
    std::array<std::int32_t, 4> steps;
    for (std::size_t i = 0; i < 4; ++i)
        steps[i] = static_cast<std::int32_t>(std::round(q[i] * std::numbers::sqrt2 * middle));
    // Compares the steps, not the numbers. If two components have equal steps, they are equal after
    // restoring, and quantising the restored quaternion must choose the same one as the greatest.
    std::size_t greatest = 0;
    for (std::size_t i = 1; i < 4; ++i)
        if (std::abs(steps[i]) > std::abs(steps[greatest])) greatest = i;
    const std::int32_t sign = steps[greatest] < 0 ? -1 : 1;
    *lanes++ = static_cast<std::uint32_t>(greatest);
    for (std::size_t i = 0; i < 4; ++i)
        if (i != greatest)
            *lanes++ = static_cast<std::uint32_t>(std::clamp(sign * steps[i], -middle, middle) + middle);
}
Quaternion restore_three(const Leaf& leaf, const std::uint32_t* lanes) {
    const double middle = middle_of(leaf);
    const std::uint32_t greatest = *lanes++;
    Quaternion q{};
    double squares = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        if (i == greatest) continue;
        q[i] = (*lanes++ / middle - 1) * std::numbers::sqrt2 / 2;
        squares += q[i] * q[i];
    }
    q[greatest] = std::sqrt(std::max(0.0, 1 - squares));
    if (squares > 1)  // hostile lanes
        for (double& number : q) number /= std::sqrt(squares);
    return q;
}
void quantise_three(const Leaf& leaf, Quaternion q, std::uint32_t* lanes, std::uint64_t& clamped) {
    if (!normalise(q, clamped)) q = {0, 0, 0, 1};
    quantise_three_once(middle_of(leaf), q, lanes);
    // After restoring, the greatest component can be up to two steps smaller, so that another component is
    // the greatest. Then the other component is left out, and the steps do not change any more.
    quantise_three_once(middle_of(leaf), restore_three(leaf, lanes), lanes);
}

struct Limits {
    std::string_view name;
    unsigned min, max;  // range of the codec's number of bits
};

Limits limits_of(const Leaf& leaf) {
    switch (leaf.codec.kind) {
        case Kind::fixed_point:
            return {"fixed_point()", 0, 30};
        case Kind::angle:
            return {"angle()", 1, leaf.type == FieldType::f32 ? 22u : 32u};
        case Kind::unit_vector:
            return {"unit_vector()", 2, 16};
        case Kind::smallest_three:
            return {"smallest_three()", 4, 12};  // with more, a float does not hold the rotation
        default:
            return {"half_float()", 0, 0};
    }
}

Lane quantity_up_to(std::uint32_t max) {
    return {.kind = LaneKind::quantity,
            .bits = static_cast<std::uint8_t>(std::bit_width(max)),
            .bounded = true,
            .max = max};
}

}  // namespace

std::string append_computed_lanes(const Leaf& leaf, std::vector<Lane>& lanes) {
    const Limits limits = limits_of(leaf);
    const std::string name(limits.name);
    if (leaf.type != FieldType::f32 && leaf.type != FieldType::f64) return name + " is for float and double";
    const unsigned bits = bits_of(leaf);
    if (bits < limits.min || bits > limits.max)
        return name + " takes " + std::to_string(limits.min) + " to " + std::to_string(limits.max) + " bits";
    if (const std::uint32_t scalars = scalars_of(leaf.codec.kind); leaf.scalars != scalars)
        return name + " is for " + (scalars == 3 ? "three" : "four") + " neighbouring floats or doubles";
    switch (leaf.codec.kind) {
        case Kind::fixed_point:
            lanes.push_back({});
            break;
        case Kind::angle:
            lanes.push_back(quantity_up_to(0xffffffffu >> (32 - bits)));
            break;
        case Kind::smallest_three:
            lanes.push_back({.kind = LaneKind::symbol, .bits = 2, .bounded = true, .max = 3});
            lanes.insert(lanes.end(), 3, quantity_up_to((1u << bits) - 2));
            break;
        case Kind::unit_vector:
            lanes.insert(lanes.end(), 2, quantity_up_to((1u << bits) - 2));
            break;
        default:
            lanes.push_back(quantity_up_to(2 * kMaxHalf));
    }
    return {};
}

std::uint32_t* quantise_computed(const Leaf& leaf, const void* value, std::uint32_t* lanes,
                                 std::uint64_t& clamped) {
    const auto number = [&](std::size_t index) { return load_number(leaf, value, index); };
    switch (leaf.codec.kind) {
        case Kind::fixed_point:
            *lanes = quantise_fixed(leaf, number(0), clamped);
            return lanes + 1;
        case Kind::angle:
            *lanes = quantise_angle(leaf, number(0), clamped);
            return lanes + 1;
        case Kind::unit_vector:
            quantise_unit(leaf, {number(0), number(1), number(2)}, lanes, clamped);
            return lanes + 2;
        case Kind::smallest_three:
            quantise_three(leaf, {number(0), number(1), number(2), number(3)}, lanes, clamped);
            return lanes + 4;
        default:
            *lanes = quantise_half(number(0), clamped);
            return lanes + 1;
    }
}

const std::uint32_t* restore_computed(const Leaf& leaf, const std::uint32_t* lanes, void* value) {
    const auto store_all = [&](const auto& numbers) {
        for (std::size_t i = 0; i < numbers.size(); ++i) store_number(leaf, value, i, numbers[i]);
    };
    switch (leaf.codec.kind) {
        case Kind::fixed_point:
            store_number(leaf, value, 0, restore_fixed(leaf, *lanes));
            return lanes + 1;
        case Kind::angle:
            store_number(leaf, value, 0, restore_angle(leaf, *lanes));
            return lanes + 1;
        case Kind::unit_vector:
            store_all(restore_unit(leaf, lanes));
            return lanes + 2;
        case Kind::smallest_three:
            store_all(restore_three(leaf, lanes));
            return lanes + 4;
        default:
            store_number(leaf, value, 0, restore_half(*lanes));
            return lanes + 1;
    }
}

}  // namespace shoal::replication::all
