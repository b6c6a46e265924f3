#include "quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

namespace shoal::replication::impl {
namespace {

using Kind = FieldCodec::Kind;

constexpr double kTurn = 2 * std::numbers::pi;
constexpr double kLengthTolerance = 0.01;

unsigned bits_of(const Leaf& leaf) {
    return static_cast<unsigned>(leaf.codec.step);
}

// half_float(). The halves between -65,504 and 65,504 in their order are the lanes 0 to 2 * kMaxHalf; a half
// of magnitude m has the bits kMaxHalf + m or kMaxHalf - m.
constexpr std::uint32_t kMaxHalf = 0x7bff;  // the bits of 65,504

void quantise_half(const Leaf&, const double* value, std::uint32_t* lanes, std::uint64_t& clamped) {
    const double size = std::abs(*value);
    double magnitude = kMaxHalf + 1;  // too large
    if (size < 65536) {
        // Below 2^-14 halves have the exponent of 2^-14.
        const int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
        magnitude = std::nearbyint(std::ldexp(size, 10 - exponent)) + (exponent + 14) * 1024.0;
    }
    if (magnitude > kMaxHalf) ++clamped;  // also if the value is NaN
    const std::uint32_t bits =
        std::isnan(*value) ? 0 : std::min(kMaxHalf, static_cast<std::uint32_t>(magnitude));
    *lanes = *value < 0 ? kMaxHalf - bits : kMaxHalf + bits;
}
void restore_half(const Leaf&, const std::uint32_t* lanes, double* value) {
    const bool is_negative = *lanes < kMaxHalf;
    const std::uint32_t bits = is_negative ? kMaxHalf - *lanes : *lanes - kMaxHalf;
    const int exponent = static_cast<int>(bits >> 10), fraction = static_cast<int>(bits & 1023);
    const double size =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    *value = is_negative ? -size : size;
}

void quantise_fixed(const Leaf& leaf, const double* value, std::uint32_t* lanes, std::uint64_t& clamped) {
    // 2^31 - 1 is no float: restored, it would be out of range.
    const double low = -0x1p31, high = leaf.type == FieldType::f32 ? 0x1p31 - 128 : 0x1p31 - 1;
    const double nearest = std::floor(std::ldexp(*value, static_cast<int>(bits_of(leaf))) + 0.5);
    if (!(nearest >= low && nearest <= high)) ++clamped;
    const double number = std::isnan(nearest) ? 0 : std::clamp(nearest, low, high);
    *lanes = static_cast<std::uint32_t>(static_cast<std::int32_t>(number));
}
void restore_fixed(const Leaf& leaf, const std::uint32_t* lanes, double* value) {
    *value = std::ldexp(static_cast<std::int32_t>(*lanes), -static_cast<int>(bits_of(leaf)));
}

// angle(). The lanes begin at -pi, so that only angles around half a turn jump between lanes far apart.
void quantise_angle(const Leaf& leaf, const double* value, std::uint32_t* lanes, std::uint64_t& clamped) {
    const std::uint64_t parts = std::uint64_t{1} << bits_of(leaf);
    double part = 0;
    if (std::isfinite(*value)) {
        part = std::floor(std::remainder(*value, kTurn) / kTurn * static_cast<double>(parts) + 0.5);
    } else {
        ++clamped;
    }
    const auto steps = static_cast<std::uint64_t>(static_cast<std::int64_t>(part));  // modulo 2^64
    *lanes = static_cast<std::uint32_t>((steps + parts / 2) & (parts - 1));
}
void restore_angle(const Leaf& leaf, const std::uint32_t* lanes, double* value) {
    const double parts = static_cast<double>(std::uint64_t{1} << bits_of(leaf));
    *value = (*lanes - parts / 2) / parts * kTurn;
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
void quantise_unit(const Leaf& leaf, const double* value, std::uint32_t* lanes, std::uint64_t& clamped) {
    std::array v{value[0], value[1], value[2]};
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
void restore_unit(const Leaf& leaf, const std::uint32_t* lanes, double* value) {
    const double middle = middle_of(leaf);
    const double x = lanes[0] / middle - 1, y = lanes[1] / middle - 1;
    std::array v{x, y, 1 - std::abs(x) - std::abs(y)};
    if (v[2] < 0) v = {(1 - std::abs(y)) * sign_of(x), (1 - std::abs(x)) * sign_of(y), v[2]};
    const double length = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (const double number : v) *value++ = number / length;
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
void restore_three(const Leaf& leaf, const std::uint32_t* lanes, double* q) {
    const double middle = middle_of(leaf);
    const std::uint32_t greatest = *lanes++;
    double squares = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        if (i == greatest) continue;
        q[i] = (*lanes++ / middle - 1) * std::numbers::sqrt2 / 2;
        squares += q[i] * q[i];
    }
    q[greatest] = std::sqrt(std::max(0.0, 1 - squares));
    for (std::size_t i = 0; squares > 1 && i < 4; ++i) q[i] /= std::sqrt(squares);  // hostile lanes
}
void quantise_three(const Leaf& leaf, const double* value, std::uint32_t* lanes, std::uint64_t& clamped) {
    Quaternion q{value[0], value[1], value[2], value[3]};
    if (!normalise(q, clamped)) q = {0, 0, 0, 1};
    quantise_three_once(middle_of(leaf), q, lanes);
    // After restoring, the greatest component can be up to two steps smaller, so that another component is
    // the greatest. Then the other component is left out, and the steps do not change any more.
    restore_three(leaf, lanes, q.data());
    quantise_three_once(middle_of(leaf), q, lanes);
}

struct Computed {
    std::string_view name;
    unsigned min, max;  // range of the codec's number of bits
    std::uint32_t lanes;
    void (*quantise)(const Leaf& leaf, const double* numbers, std::uint32_t* lanes, std::uint64_t& clamped);
    void (*restore)(const Leaf& leaf, const std::uint32_t* lanes, double* numbers);
};
constexpr Computed kComputed[] = {
    // in the order of FieldCodec::Kind
    {"half_float()", 0, 0, 1, quantise_half, restore_half},
    {"fixed_point()", 0, 30, 1, quantise_fixed, restore_fixed},
    {"angle()", 1, 32, 1, quantise_angle, restore_angle},
    {"unit_vector()", 2, 16, 2, quantise_unit, restore_unit},
    {"smallest_three()", 4, 12, 4, quantise_three, restore_three},  // with more, a float does not hold it
};
constexpr unsigned kMaxFloatAngle = 22;  // bits

const Computed& computed(const Leaf& leaf) {
    return kComputed[static_cast<int>(leaf.codec.kind) - static_cast<int>(Kind::half_float)];
}

}  // namespace

std::string append_computed_lanes(const Leaf& leaf, std::vector<Lane>& lanes) {
    const Computed& codec = computed(leaf);
    const std::string name(codec.name);
    if (!is_float(leaf.type)) return name + " is for float and double";
    const Kind kind = leaf.codec.kind;
    const unsigned bits = bits_of(leaf);
    const unsigned max = kind == Kind::angle && leaf.type == FieldType::f32 ? kMaxFloatAngle : codec.max;
    if (bits < codec.min || bits > max)
        return name + " takes " + std::to_string(codec.min) + " to " + std::to_string(max) + " bits";
    if (const std::uint32_t scalars = scalars_of(kind); leaf.scalars != scalars)
        return name + " is for " + (scalars == 3 ? "three" : "four") + " neighbouring floats or doubles";
    if (kind == Kind::smallest_three) lanes.push_back(bounded_lane(LaneKind::symbol, 3));
    const std::uint32_t most = kind == Kind::half_float ? 2 * kMaxHalf
                               : kind == Kind::angle    ? 0xffffffffu >> (32 - bits)
                                                        : (1u << bits) - 2;
    const Lane lane = kind == Kind::fixed_point ? Lane{} : bounded_lane(LaneKind::quantity, most);
    lanes.insert(lanes.end(), kind == Kind::smallest_three ? 3 : codec.lanes, lane);
    return {};
}

std::uint32_t* quantise_computed(const Leaf& leaf, const void* value, std::uint32_t* lanes,
                                 std::uint64_t& clamped) {
    double numbers[4];
    for (std::uint32_t i = 0; i < leaf.scalars; ++i) numbers[i] = load_scalar(leaf, value, i);
    computed(leaf).quantise(leaf, numbers, lanes, clamped);
    return lanes + computed(leaf).lanes;
}

const std::uint32_t* restore_computed(const Leaf& leaf, const std::uint32_t* lanes, void* value) {
    double numbers[4];
    computed(leaf).restore(leaf, lanes, numbers);
    for (std::uint32_t i = 0; i < leaf.scalars; ++i)
        store_float(leaf.type, value, leaf.offset + i * size_of(leaf.type), numbers[i]);
    return lanes + computed(leaf).lanes;
}

}  // namespace shoal::replication::impl
