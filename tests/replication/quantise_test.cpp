#include "replication/schema/quantise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <numbers>
#include <random>

#include "replication/schema/schema.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl::quantise_test {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

/// N neighbouring numbers with one codec.
template <class T, std::size_t N>
class Coded {
public:
    using Value = std::array<T, N>;

    explicit Coded(const FieldCodec& codec) {
        Leaf leaf{sizeof(T) == 4 ? FieldType::f32 : FieldType::f64, false, 0, codec};
        leaf.scalars = N;
        layout.add_leaf(leaf);
        error = layout.finish();
    }
    std::vector<std::uint32_t> quantise(const Value& value) {
        std::vector<std::uint32_t> lanes(layout.lanes().size()), parts;
        layout.quantise(&value, map, lanes.data(), parts, misfits);
        for (std::size_t i = 0; i < lanes.size(); ++i) EXPECT_LE(lanes[i], layout.lanes()[i].max);
        return lanes;
    }
    Value restore(const std::vector<std::uint32_t>& lanes) {
        Value value{};
        layout.restore(lanes.data(), nullptr, map, &value);
        return value;
    }
    /// Quantises and restores; checks that the restored value is no misfit and gives the same lanes.
    Value round(const Value& value) {
        const auto lanes = quantise(value);
        const Value out = restore(lanes);
        const std::uint64_t clamped = misfits.clamped;
        EXPECT_EQ(quantise(out), lanes) << value[0] << ' ' << value[N - 1];
        EXPECT_EQ(misfits.clamped, clamped) << value[0] << ' ' << value[N - 1];
        return out;
    }

    ComponentLayout layout;
    std::string error;
    NoEntities map;
    ComponentLayout::Misfits misfits;
};

/// Floats of all magnitudes: random bits, made finite.
template <class T>
T random_number(std::mt19937_64& random) {
    const double mantissa = static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63;
    return static_cast<T>(std::ldexp(mantissa, static_cast<int>(random() % 80) - 40));
}

TEST(QuantisedBits, IsQuantisedWithAllValuesOfTheBits) {
    for (unsigned bits = 1; bits <= 32; ++bits) {
        Coded<double, 1> coded(quantised_bits(-3, 7, bits));
        ASSERT_EQ(coded.error, "") << bits;
        EXPECT_EQ(coded.layout.lanes()[0].max, 0xffffffffu >> (32 - bits));
        EXPECT_EQ(coded.layout.lanes()[0].bits, bits);
        EXPECT_NEAR(coded.round({7})[0], 7, 1e-9);
        EXPECT_EQ(coded.round({-3})[0], -3);
    }
    EXPECT_NE((Coded<float, 1>(quantised_bits(0, 1, 0)).error), "");
    EXPECT_NE((Coded<double, 1>(quantised_bits(0, 1, 33)).error), "");
}

template <class T>
void expect_angles(unsigned bits) {
    SCOPED_TRACE(testing::Message() << bits << " bits, " << sizeof(T) << " bytes");
    Coded<T, 1> coded(angle(bits));
    ASSERT_EQ(coded.error, "");
    const double step = 2 * kPi / std::exp2(bits);
    std::mt19937_64 random(bits);
    std::vector<T> values{0, T(-0.0), T(kPi), T(-kPi), T(2 * kPi), T(1e30), std::numeric_limits<T>::max()};
    for (int i = 0; i < 5'000; ++i) values.push_back(random_number<T>(random));
    for (int i = -40; i < 40; ++i) {
        const T tie = static_cast<T>((i + 0.5) * step);
        values.insert(values.end(), {tie, std::nextafter(tie, T(-9)), std::nextafter(tie, T(9))});
    }
    for (const T value : values) {
        const T out = coded.round({value})[0];
        ASSERT_GE(out, static_cast<T>(-kPi));
        ASSERT_LT(out, static_cast<T>(kPi));
        ASSERT_TRUE(std::abs(value) >= 100 ||
                    std::abs(std::remainder(double{out} - double{value}, 2 * kPi)) <= step * 0.8)
            << value;
    }
    EXPECT_EQ(coded.misfits.clamped, 0u) << "finite angles fit";
    for (const double value : {kInfinity, -kInfinity, kNan}) EXPECT_EQ(coded.round({T(value)})[0], 0);
    EXPECT_EQ(coded.misfits.clamped, 3u);
}

TEST(Angle, WrapsAndIsIdempotent) {
    for (const unsigned bits : {1u, 2u, 8u, 13u, 22u}) expect_angles<float>(bits);
    for (const unsigned bits : {1u, 2u, 9u, 22u, 31u, 32u}) expect_angles<double>(bits);
    EXPECT_NE((Coded<float, 1>(angle(23)).error), "") << "finer than a float";
    EXPECT_NE((Coded<double, 1>(angle(0)).error), "");
}

/// The float that a half stands for, by the definition of IEEE 754.
double half_value(unsigned bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double fraction = bits & 1023;
    const double size = exponent == 0 ? fraction * 0x1p-24 : (1024 + fraction) * std::exp2(exponent - 25);
    return bits >> 15 ? -size : size;
}

TEST(HalfFloat, EveryHalfIsRestoredAndOthersAreRoundedToTheNearest) {
    Coded<float, 1> coded(half_float());
    ASSERT_EQ(coded.error, "");
    for (unsigned bits = 0; bits < 0x7c00; ++bits) {
        for (const unsigned sign : {0u, 0x8000u})
            ASSERT_EQ(coded.round({static_cast<float>(half_value(bits | sign))})[0], half_value(bits | sign));
        if (bits % 7 != 0 || bits + 1 == 0x7c00) continue;
        const double low = half_value(bits), high = half_value(bits + 1), middle = (low + high) / 2;
        const float f = static_cast<float>(middle);
        ASSERT_EQ(coded.round({std::nextafter(f, 0.0f)})[0], low);
        ASSERT_EQ(coded.round({std::nextafter(f, 1e6f)})[0], high);
        ASSERT_EQ(coded.round({f})[0], bits % 2 == 0 ? low : high) << "ties to even";
    }
    EXPECT_EQ(coded.misfits.clamped, 0u);
    EXPECT_EQ(coded.layout.lanes()[0].bits, 16);
}

TEST(HalfFloat, ValuesThatAreNoHalfAreClamped) {
    Coded<double, 1> coded(half_float());
    ASSERT_EQ(coded.error, "");
    EXPECT_EQ(coded.round({65519})[0], 65504);
    EXPECT_EQ(coded.misfits.clamped, 0u) << "less than half a step outside is rounding";
    for (const double value : {65520.0, 65536.0, 65537.0}) EXPECT_EQ(coded.round({value})[0], 65504);
    EXPECT_EQ(coded.round({-1e300})[0], -65504);
    EXPECT_EQ(coded.round({kInfinity})[0], 65504);
    EXPECT_EQ(coded.round({-kInfinity})[0], -65504);
    EXPECT_EQ(coded.round({kNan})[0], 0);
    EXPECT_EQ(coded.misfits.clamped, 7u);
    EXPECT_EQ(coded.round({5e-324})[0], 0);
    EXPECT_FALSE(std::signbit(coded.round({-0.0})[0]));
}

template <class T>
void expect_fixed(unsigned bits) {
    SCOPED_TRACE(testing::Message() << bits << " bits, " << sizeof(T) << " bytes");
    Coded<T, 1> coded(fixed_point(bits));
    ASSERT_EQ(coded.error, "");
    const double unit = std::exp2(-static_cast<int>(bits)), limit = 0x1p31 * unit;
    std::mt19937_64 random(bits);
    for (int i = 0; i < 5'000; ++i) {
        const T value = random_number<T>(random);
        const T out = coded.round({value})[0];
        ASSERT_TRUE(std::abs(value) > limit * 0.99 || std::abs(double{out} - double{value}) <= unit / 2);
    }
    coded.misfits = {};
    EXPECT_EQ(coded.round({T(-limit)})[0], -limit);
    EXPECT_EQ(coded.misfits.clamped, 0u);
    for (const double value : {limit, kInfinity}) EXPECT_NEAR(coded.round({T(value)})[0] / limit, 1, 1e-7);
    EXPECT_EQ(coded.round({T(-kInfinity)})[0], -limit);
    EXPECT_EQ(coded.round({T(kNan)})[0], 0);
    EXPECT_EQ(coded.misfits.clamped, 4u);
}

TEST(FixedPoint, IsIdempotentAndClamped) {
    for (const unsigned bits : {0u, 1u, 8u, 16u, 30u}) {
        expect_fixed<float>(bits);
        expect_fixed<double>(bits);
    }
    EXPECT_NE((Coded<float, 1>(fixed_point(31)).error), "");
}

TEST(FixedPoint, ReachesExactlyToTheGreatestAndLeastNumberOfTheType) {
    Coded<double, 1> wide(fixed_point(0));
    Coded<float, 1> narrow(fixed_point(0));
    EXPECT_EQ(wide.round({0x1p31 - 1})[0], 0x1p31 - 1);
    EXPECT_EQ(wide.round({0x1p31 - 1.25})[0], 0x1p31 - 1) << "rounded up";
    EXPECT_EQ(wide.round({-0x1p31})[0], -0x1p31);
    EXPECT_EQ(narrow.round({0x1p31f - 128})[0], 0x1p31f - 128) << "the greatest float below 2^31";
    EXPECT_EQ(narrow.round({-0x1p31f})[0], -0x1p31f);
    EXPECT_EQ(wide.misfits.clamped + narrow.misfits.clamped, 0u);
    EXPECT_EQ(wide.round({0x1p31 - 0.5})[0], 0x1p31 - 1);
    EXPECT_EQ(wide.round({-0x1p31 - 1})[0], -0x1p31);
    EXPECT_EQ(narrow.round({0x1p31f})[0], 0x1p31f - 128);
    EXPECT_EQ(narrow.round({-0x1p31f - 256})[0], -0x1p31f);
    EXPECT_EQ(wide.misfits.clamped, 2u);
    EXPECT_EQ(narrow.misfits.clamped, 2u);
    Coded<double, 1> quarters(fixed_point(2));
    EXPECT_EQ(quarters.round({1.125})[0], 1.25) << "ties go up";
    EXPECT_EQ(quarters.round({-1.125})[0], -1);
    EXPECT_EQ(quarters.round({1.124})[0], 1);
}

template <class T, std::size_t N>
std::array<T, N> random_direction(std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    std::array<double, N> v;
    double squares = 0;
    for (double& x : v) {
        x = random() % 4 == 0 ? std::round(normal(random)) : normal(random);  // many equal components
        squares += x * x;
    }
    if (squares == 0) squares = v[0] = 1;
    std::array<T, N> out;
    for (std::size_t i = 0; i < N; ++i) out[i] = static_cast<T>(v[i] / std::sqrt(squares));
    return out;
}

template <class T, std::size_t N>
double dot(const std::array<T, N>& a, const std::array<T, N>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < N; ++i) sum += double{a[i]} * double{b[i]};
    return sum;
}

/// Calls visit(v) for all vectors with components -1, 0 and 1, less the zero vector, made of length 1.
template <class T, std::size_t N, class Visit>
void for_each_diagonal(Visit&& visit) {
    for (unsigned code = 0; code < std::pow(3, N); ++code) {
        std::array<T, N> v;
        unsigned rest = code;
        for (T& x : v) {
            x = static_cast<T>(static_cast<int>(rest % 3) - 1);
            rest /= 3;
        }
        const double length = std::sqrt(dot(v, v));
        for (T& x : v) x = static_cast<T>(x / length);
        if (length > 0) visit(v);
    }
}

template <class T>
void expect_unit_vectors(unsigned bits) {
    SCOPED_TRACE(testing::Message() << bits << " bits, " << sizeof(T) << " bytes");
    Coded<T, 3> coded(unit_vector(bits));
    ASSERT_EQ(coded.error, "");
    const double tolerance = 3.0 / ((1 << (bits - 1)) - 1) + 1e-6;  // radians
    std::mt19937_64 random(bits);
    const auto check = [&](const std::array<T, 3>& v) {
        const auto out = coded.round(v);
        ASSERT_NEAR(dot(out, out), 1, 1e-6);
        ASSERT_TRUE(tolerance > 1 || dot(out, v) >= std::cos(tolerance) - 1e-6)
            << v[0] << ' ' << v[1] << ' ' << v[2];
    };
    for_each_diagonal<T, 3>(check);
    for (int i = 0; i < 5'000; ++i) check(random_direction<T, 3>(random));
    EXPECT_EQ(coded.misfits.clamped, 0u);
    for (const T sign : {T(1), T(-1)})
        for (std::size_t axis = 0; axis < 3; ++axis) {
            std::array<T, 3> v{};
            v[axis] = sign;
            EXPECT_EQ(coded.round(v), v) << "axes are exact";
        }
    const std::uint32_t max = coded.layout.lanes()[0].max, stride = 1 + max / 60;
    for (std::uint32_t a = 0; a <= max; a += stride)
        for (std::uint32_t b = 0; b <= max; b += stride) coded.round(coded.restore({a, b}));
}

TEST(UnitVector, IsIdempotentAndExactOnAxes) {
    for (const unsigned bits : {2u, 3u, 7u, 8u, 12u, 16u}) {
        expect_unit_vectors<float>(bits);
        expect_unit_vectors<double>(bits);
    }
    EXPECT_NE((Coded<float, 3>(unit_vector(1)).error), "");
    EXPECT_NE((Coded<float, 3>(unit_vector(17)).error), "");
    EXPECT_NE((Coded<float, 2>(unit_vector(8)).error), "");
}

TEST(UnitVector, VectorsOfAnotherLengthAreMisfits) {
    Coded<float, 3> coded(unit_vector(10));
    using V = std::array<float, 3>;
    const float infinity = std::numeric_limits<float>::infinity();
    for (const V& v : {V{}, V{infinity, 0, 0}, V{0, std::nanf(""), 0}})
        EXPECT_EQ(coded.round(v), (V{0, 0, 1}));
    EXPECT_EQ(coded.misfits.clamped, 3u);
    for (const float length : {5.0f, 3e38f, 1e-40f}) EXPECT_EQ(coded.round({0, length, 0}), (V{0, 1, 0}));
    EXPECT_EQ(coded.misfits.clamped, 6u);
    coded.round({0, 1.005f, 0});
    EXPECT_EQ(coded.misfits.clamped, 6u) << "rounding";
}

template <class T>
void expect_quaternions(unsigned bits) {
    SCOPED_TRACE(testing::Message() << bits << " bits, " << sizeof(T) << " bytes");
    Coded<T, 4> coded(smallest_three(bits));
    ASSERT_EQ(coded.error, "");
    const double step = std::numbers::sqrt2 / ((1 << bits) - 2);
    std::mt19937_64 random(bits);
    const auto check = [&](const std::array<T, 4>& q) {
        const auto out = coded.round(q);
        ASSERT_NEAR(dot(out, out), 1, 1e-6);
        ASSERT_GE(std::abs(dot(out, q)), std::cos(4 * step) - 1e-6);
    };
    for_each_diagonal<T, 4>(check);
    for (int i = 0; i < 10'000; ++i) check(random_direction<T, 4>(random));
    EXPECT_EQ(coded.misfits.clamped, 0u);
    EXPECT_EQ(coded.round({0, 0, 0, 1}), (std::array<T, 4>{0, 0, 0, 1}));
    EXPECT_EQ(coded.round({0, 0, 0, -1}), (std::array<T, 4>{0, 0, 0, 1})) << "the same rotation";
    EXPECT_EQ(coded.quantise({T(.8), 0, T(-.6), 0}), coded.quantise({T(-.8), 0, T(.6), 0}));
    const std::uint32_t max = coded.layout.lanes()[1].max, stride = 1 + max / 12;
    for (std::uint32_t i = 0; i < 4; ++i)
        for (std::uint32_t a = 0; a <= max; a += stride)
            for (std::uint32_t b = 0; b <= max; b += stride)
                for (std::uint32_t c = 0; c <= max; c += stride) check(coded.restore({i, a, b, c}));
}

TEST(SmallestThree, IsIdempotentAndKeepsTheRotation) {
    for (const unsigned bits : {4u, 5u, 9u, 12u}) {
        expect_quaternions<float>(bits);
        expect_quaternions<double>(bits);
    }
    EXPECT_NE((Coded<float, 4>(smallest_three(3)).error), "");
    EXPECT_NE((Coded<float, 4>(smallest_three(17)).error), "");
}

TEST(SmallestThree, QuaternionsWithoutADirectionAreMisfits) {
    Coded<float, 4> coded(smallest_three(9));
    using Q = std::array<float, 4>;
    for (const Q& q : {Q{}, Q{HUGE_VALF, 0, 0, 0}, Q{0, 0, 0, std::nanf("")}})
        EXPECT_EQ(coded.round(q), (Q{0, 0, 0, 1}));
    EXPECT_EQ(coded.misfits.clamped, 3u);
    EXPECT_EQ(coded.round({0, 0, 9, 0}), (Q{0, 0, 1, 0}));
    EXPECT_EQ(coded.misfits.clamped, 4u);
}

/// Checks that only the direction of a vector decides its lanes, and that only other lengths are misfits.
template <std::size_t N>
void expect_directions(const FieldCodec& codec) {
    SCOPED_TRACE(N);
    Coded<double, N> coded(codec);
    ASSERT_EQ(coded.error, "");
    std::mt19937_64 random(N);
    std::uint64_t misfits = 0;
    for (int i = 0; i < 200; ++i) {
        const auto v = random_direction<double, N>(random);
        const auto lanes = coded.quantise(v);
        const auto scaled = [&](double scale) {
            auto out = v;
            for (double& x : out) x *= scale;
            return coded.quantise(out);
        };
        for (const double scale : {0x1p-1000, 0.25, 0.989, 1.011, 2.0, 0x1p1000}) {
            ASSERT_EQ(scaled(scale), lanes) << scale;
            ASSERT_EQ(coded.misfits.clamped, ++misfits) << scale;
        }
        for (const double scale : {0.991, 1.009}) {
            ASSERT_EQ(scaled(scale), lanes) << scale;
            ASSERT_EQ(coded.misfits.clamped, misfits) << "within 1%";
        }
    }
}

TEST(ComputedCodecs, OfADirectionIgnoreItsLength) {
    expect_directions<3>(unit_vector(10));
    expect_directions<4>(smallest_three(10));
}

// Three numbers of a quaternion of length 1 cannot all be the greatest ones; a hostile server can send them.
TEST(SmallestThree, LanesOfNoQuaternionAreRestoredAsOne) {
    for (const unsigned bits : {4u, 9u, 12u}) {
        Coded<double, 4> coded(smallest_three(bits));
        const std::uint32_t max = coded.layout.lanes()[1].max;
        for (std::uint32_t greatest = 0; greatest < 4; ++greatest)
            for (unsigned ends = 0; ends < 8; ++ends) {
                std::vector<std::uint32_t> lanes{greatest};
                for (unsigned i = 0; i < 3; ++i) lanes.push_back(ends >> i & 1 ? max : 0);
                const auto q = coded.restore(lanes);
                EXPECT_NEAR(dot(q, q), 1, 1e-12);
                EXPECT_EQ(q[greatest], 0);
                for (std::size_t i = 0, lane = 1; i < 4; ++i) {
                    if (i == greatest) continue;
                    EXPECT_NEAR(q[i], lanes[lane] == max ? std::sqrt(1.0 / 3) : -std::sqrt(1.0 / 3), 1e-12);
                    ++lane;
                }
            }
    }
}

/// Quantises `value` into lanes with others around them.
template <class T, std::size_t N>
void expect_only_its_lanes(const FieldCodec& codec, const std::array<T, N>& value) {
    SCOPED_TRACE(static_cast<int>(codec.kind));
    Coded<T, N> coded(codec);
    ASSERT_EQ(coded.error, "");
    const auto lanes = coded.quantise(value);
    std::vector<std::uint32_t> wide(lanes.size() + 2, 0xabcdef), parts;
    coded.layout.quantise(&value, coded.map, wide.data() + 1, parts, coded.misfits);
    EXPECT_EQ(wide.front(), 0xabcdefu);
    EXPECT_EQ(wide.back(), 0xabcdefu);
    EXPECT_EQ(std::vector(wide.begin() + 1, wide.end() - 1), lanes);
    std::array<T, N + 2> around;
    around.fill(77);
    coded.layout.restore(lanes.data(), nullptr, coded.map, around.data() + 1);
    EXPECT_EQ(around.front(), 77);
    EXPECT_EQ(around.back(), 77);
    const auto restored = coded.restore(lanes);
    EXPECT_TRUE(std::equal(restored.begin(), restored.end(), around.begin() + 1));
}

TEST(ComputedCodecs, WriteOnlyTheirLanesAndNumbers) {
    expect_only_its_lanes<float, 1>(half_float(), {1.5f});
    expect_only_its_lanes<double, 1>(half_float(), {1.5});
    expect_only_its_lanes<float, 1>(fixed_point(8), {1.5f});
    expect_only_its_lanes<double, 1>(angle(12), {1.5});
    expect_only_its_lanes<float, 3>(unit_vector(8), {0.6f, 0, 0.8f});
    expect_only_its_lanes<double, 3>(unit_vector(8), {0.6, 0, 0.8});
    expect_only_its_lanes<float, 4>(smallest_three(8), {0.6f, 0, 0.8f, 0});
    for (std::size_t greatest = 0; greatest < 4; ++greatest) {
        std::array<double, 4> q{0.3, 0.3, 0.3, 0.3};
        q[greatest] = 0.8;
        expect_only_its_lanes<double, 4>(smallest_three(8), q);
    }
}

TEST(ComputedCodecs, TakeTheBitsThatTheyDocumentAndGiveLanesOfThem) {
    const auto expect_limits = [](auto coded_with, unsigned least, unsigned most) {
        for (const unsigned bits : {least, most}) EXPECT_EQ(coded_with(bits), "") << bits;
        EXPECT_NE(coded_with(most + 1), "") << most + 1;
        if (least == 0) return;
        EXPECT_NE(coded_with(least - 1), "") << least - 1;
    };
    expect_limits([](unsigned bits) { return Coded<float, 1>(fixed_point(bits)).error; }, 0, 30);
    expect_limits([](unsigned bits) { return Coded<double, 1>(fixed_point(bits)).error; }, 0, 30);
    expect_limits([](unsigned bits) { return Coded<float, 1>(angle(bits)).error; }, 1, 22);
    expect_limits([](unsigned bits) { return Coded<double, 1>(angle(bits)).error; }, 1, 32);
    expect_limits([](unsigned bits) { return Coded<float, 3>(unit_vector(bits)).error; }, 2, 16);
    expect_limits([](unsigned bits) { return Coded<double, 4>(smallest_three(bits)).error; }, 4, 12);

    using Lanes = std::vector<Lane>;
    const auto bounded_lane = [](LaneKind kind, unsigned bits, std::uint32_t max) {
        return Lane{kind, static_cast<std::uint8_t>(bits), true, false, max};
    };
    EXPECT_EQ((Coded<float, 1>(half_float()).layout.lanes()),
              Lanes{bounded_lane(LaneKind::quantity, 16, 63'486)});
    EXPECT_EQ((Coded<float, 1>(fixed_point(8)).layout.lanes()), Lanes{Lane{}});
    EXPECT_EQ((Coded<double, 1>(angle(32)).layout.lanes()),
              Lanes{bounded_lane(LaneKind::quantity, 32, 0xffffffff)});
    EXPECT_EQ((Coded<float, 1>(angle(1)).layout.lanes()), Lanes{bounded_lane(LaneKind::quantity, 1, 1)});
    EXPECT_EQ((Coded<float, 3>(unit_vector(10)).layout.lanes()),
              Lanes(2, bounded_lane(LaneKind::quantity, 10, 1'022)));
    Lanes three(4, bounded_lane(LaneKind::quantity, 9, 510));
    three[0] = bounded_lane(LaneKind::symbol, 2, 3);
    EXPECT_EQ((Coded<float, 4>(smallest_three(9)).layout.lanes()), three);
}

struct Vec3 {
    float x = 0, y = 0, z = 0;
};
struct Pose {
    float weight = 0;
    Vec3 up[2];
    struct {
        float x = 0, y = 0, z = 0, w = 1;
    } turn;
    double heading = 0;
    std::vector<Vec3> normals;
};

TEST(ComputedCodecs, ApplyToStructsArraysAndElements) {
    Schema schema;
    schema.component<Pose>("pose", field(&Pose::weight, half_float()), field(&Pose::up, unit_vector(10)),
                           field(&Pose::turn, smallest_three(9)), field(&Pose::heading, angle(12)),
                           field(&Pose::normals, unit_vector(6)));
    ASSERT_EQ(schema.error(), "");
    const ComponentLayout& layout = schema.components()[0].layout;
    ASSERT_EQ(layout.lanes().size(), 1u + 2 * 2 + 4 + 1);
    EXPECT_EQ(layout.parts()[0].lanes.size(), 2u);
    const Pose pose{0.5f, {{1, 0, 0}, {0, 0, -1}}, {0, 0, 1, 0}, -kPi / 2, {{0, 1, 0}, {0, -1, 0}}};
    NoEntities map;
    ComponentLayout::Misfits misfits;
    std::vector<std::uint32_t> lanes(layout.lanes().size()), parts;
    layout.quantise(&pose, map, lanes.data(), parts, misfits);
    Pose same;
    layout.restore(lanes.data(), parts.data(), map, &same);
    EXPECT_EQ(misfits.clamped, 0u);
    EXPECT_EQ(same.weight, 0.5f);
    EXPECT_EQ(same.up[0].x, 1);
    EXPECT_EQ(same.up[1].z, -1);
    EXPECT_EQ(same.turn.z, 1);
    EXPECT_EQ(same.turn.w, 0);
    EXPECT_NEAR(same.heading, -kPi / 2, 1e-12);
    ASSERT_EQ(same.normals.size(), 2u);
    EXPECT_EQ(same.normals[1].y, -1);
}

// Each codec takes its own numbers and lanes, wherever the codecs beside it end.
TEST(ComputedCodecs, StandBesideEachOtherInAnyOrder) {
    struct Coding {
        FieldCodec codec;
        std::vector<double> values;
    };
    const std::vector<Coding> codings{{half_float(), {0.5}},
                                      {fixed_point(8), {-3.25}},
                                      {angle(12), {kPi / 2}},
                                      {unit_vector(10), {0, 0, -1}},
                                      {smallest_three(9), {0, 1, 0, 0}},
                                      {quantised(0, 10, 0.5), {7.5}},
                                      {{}, {1.0 / 3}}};
    for (std::size_t first = 0; first < codings.size(); ++first)
        for (std::size_t step = 1; step < codings.size(); ++step) {
            ComponentLayout layout;
            std::vector<double> values, restored;
            for (std::size_t i = 0, at = first; i < codings.size(); ++i, at = (at + step) % codings.size()) {
                Leaf leaf{FieldType::f64, false, static_cast<std::uint32_t>(values.size() * sizeof(double)),
                          codings[at].codec};
                leaf.scalars = scalars_of(leaf.codec.kind);
                layout.add_leaf(leaf);
                values.insert(values.end(), codings[at].values.begin(), codings[at].values.end());
            }
            ASSERT_EQ(layout.finish(), "");
            NoEntities map;
            ComponentLayout::Misfits misfits;
            std::vector<std::uint32_t> lanes(layout.lanes().size()), parts;
            layout.quantise(values.data(), map, lanes.data(), parts, misfits);
            restored.resize(values.size());
            layout.restore(lanes.data(), nullptr, map, restored.data());
            for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(restored[i], values[i], 1e-12);
            EXPECT_EQ(misfits.clamped, 0u);
        }
}

TEST(ComputedCodecs, ThatDoNotFitAreErrors) {
    struct Two {
        float x = 0, y = 0;
    };
    struct Gap {
        float x = 0, y = 0;
        int between = 0;
        float z = 0;
    };
    const auto error_of = []<class T>(T, const FieldCodec& codec) {
        Schema schema;
        schema.component<T>("culprit", codec);
        return schema.error();
    };
    for (const std::string& error : {error_of(Two{}, unit_vector(8)), error_of(Gap{}, unit_vector(8)),
                                     error_of(Vec3{}, smallest_three(8))})
        EXPECT_EQ(error.find("component 'culprit' has a codec that does not fit"), 0u) << error;
    EXPECT_NE(error_of(Gap{}, angle(8)).find("type int: angle() is for float and double (field 3 of "),
              std::string::npos);
}

TEST(ComputedCodecs, OfSeveralNumbersTakeDoublesToo) {
    struct WidePose {
        double up[3] = {}, turn[4] = {};
        double north[3] = {};
    };
    Schema schema;
    schema.component<WidePose>("pose", field(&WidePose::turn, smallest_three(8)), unit_vector(8));
    ASSERT_EQ(schema.error(), "");
    const auto& leaves = schema.components()[0].layout.leaves();
    ASSERT_EQ(leaves.size(), 3u);
    EXPECT_EQ(leaves[1].offset, offsetof(WidePose, turn));
    EXPECT_EQ(leaves[2].offset, offsetof(WidePose, north));
    EXPECT_EQ(schema.components()[0].layout.lanes().size(), 2u + 4 + 2);
}

TEST(ComputedCodecs, OfSeveralNumbersNeedOneCodecAndOneType) {
    struct MixedVec {
        float x = 0, y = 0;
        double z = 0;
    };
    struct FourFloats {
        float x = 0, y = 0, z = 0, w = 0;
    };
    Schema codecs, types, count, two;
    codecs.component<Vec3>("culprit", field(&Vec3::x, unit_vector(8)), unit_vector(9));
    types.component<MixedVec>("culprit", unit_vector(8));
    count.component<FourFloats>("culprit", unit_vector(8));
    two.component<FourFloats>("culprit", field(&FourFloats::w, angle(8)), unit_vector(8));
    for (const Schema* schema : {&codecs, &types, &count})
        EXPECT_NE(schema->error().find("is for three neighbouring floats"), std::string::npos)
            << schema->error();
    EXPECT_EQ(two.error(), "");
}

TEST(ComputedCodecs, OfSeveralNumbersNeedNumbersWithoutGaps) {
    struct Apart {
        float x = 0, y = 0;
        alignas(16) float z = 0;
    };
    Schema schema;
    schema.component<Apart>("apart", unit_vector(8));
    EXPECT_NE(schema.error().find("is for three neighbouring floats"), std::string::npos) << schema.error();
}

TEST(ComputedCodecs, AreInTheHash) {
    std::map<std::uint64_t, int> seen;
    const FieldCodec codecs[] = {
        half_float(), fixed_point(8), fixed_point(9), angle(8), angle(9),
        angle(16),    unit_vector(8), unit_vector(9), {},       quantised_bits(-3.2, 3.1, 8)};
    for (const FieldCodec& codec : codecs) {
        Schema schema;
        schema.component<Vec3>("vec", codec);
        EXPECT_EQ(schema.error(), "");
        EXPECT_EQ(++seen[schema.hash()], 1);
    }
}

}  // namespace
}  // namespace shoal::replication::impl::quantise_test
