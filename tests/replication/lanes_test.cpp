#include "replication/schema/lanes.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

template <class T>
constexpr FieldType type_of() {
    if (std::is_same_v<T, float>) return FieldType::f32;
    if (std::is_same_v<T, double>) return FieldType::f64;
    if (std::is_same_v<T, bool>) return FieldType::boolean;
    constexpr FieldType kSigned[] = {FieldType::i8, FieldType::i16, FieldType::i32, FieldType::i64};
    constexpr FieldType kUnsigned[] = {FieldType::u8, FieldType::u16, FieldType::u32, FieldType::u64};
    return (std::is_signed_v<T> ? kSigned : kUnsigned)[std::bit_width(sizeof(T)) - 1];
}

/// A component with one scalar field.
template <class T>
class Scalar {
public:
    explicit Scalar(const FieldCodec& codec = {}, bool is_enum = false) {
        layout.add_leaf({type_of<T>(), is_enum, 0, codec});
        error = layout.finish();
    }
    std::vector<std::uint32_t> quantise(T value) {
        std::vector<std::uint32_t> lanes(layout.lanes().size()), parts;
        layout.quantise(&value, map, lanes.data(), parts, misfits);
        return lanes;
    }
    T restore(const std::vector<std::uint32_t>& lanes) {
        T value{};
        layout.restore(lanes.data(), nullptr, map, &value);
        return value;
    }
    std::uint32_t max() const { return layout.lanes()[0].max; }

    ComponentLayout layout;
    std::string error;
    NoEntities map;
    ComponentLayout::Misfits misfits;
};

struct Range {
    double min, max, step;
};
constexpr Range kRanges[] = {
    {-64, 64, 0.01},         {0, 1, 1.0 / 255}, {-1, 1, 0.1},          {0, 1, 0.3},
    {-180, 180, 0.5},        {0, 100, 1},       {-5, -1, 0.25},        {1000, 1001, 0.001},
    {-1e6, 1e6, 1},          {0, 360, 0.0055},  {-0.5, 0.5, 1e-3},     {3, 4, 5},
    {-1000, 1000, 1.0 / 64}, {0, 7, 1.0 / 3},   {-8192, 8192, 0.0625},
};

template <class T>
void expect_idempotent(const Range& range) {
    SCOPED_TRACE(testing::Message() << range.min << ".." << range.max << " by " << range.step << ", "
                                    << sizeof(T) << " bytes");
    Scalar<T> scalar(quantised(range.min, range.max, range.step));
    if (range.step > range.max - range.min) {
        EXPECT_NE(scalar.error, "") << "less than one step";
        return;
    }
    ASSERT_EQ(scalar.error, "");
    const std::uint32_t max = scalar.max();
    const std::uint32_t stride = 1 + max / 200'000;
    for (std::uint64_t lane = 0; lane <= max; lane += stride) {
        const std::vector<std::uint32_t> lanes{static_cast<std::uint32_t>(lane)};
        ASSERT_EQ(scalar.quantise(scalar.restore(lanes)), lanes);
    }
    for (const std::uint32_t lane : {0u, 1u, max - 1, max})
        ASSERT_EQ(scalar.quantise(scalar.restore({lane})), (std::vector{lane}));
    std::mt19937_64 random(1);
    for (int i = 0; i < 20'000; ++i) {
        const double at = range.min + static_cast<double>(random() % (std::uint64_t{max} + 1)) * range.step;
        const T tie = static_cast<T>(at + range.step / 2);
        for (const T value : {tie, std::nextafter(tie, T(-1e30)), std::nextafter(tie, T(1e30)),
                              static_cast<T>(at + range.step * 0.3)}) {
            const auto lanes = scalar.quantise(value);
            ASSERT_LE(lanes[0], max);
            ASSERT_EQ(scalar.quantise(scalar.restore(lanes)), lanes) << value;
            const bool inside = value >= static_cast<T>(range.min) && value <= static_cast<T>(range.max);
            const double error = std::abs(double{scalar.restore(lanes)} - double{value});
            ASSERT_TRUE(!inside || error <= range.step * 0.8) << value;
        }
    }
}

TEST(Quantiser, Rule12FloatsAreIdempotentOnEveryLaneAndTie) {
    for (const Range& range : kRanges) expect_idempotent<float>(range);
}
TEST(Quantiser, Rule12DoublesAreIdempotentOnEveryLaneAndTie) {
    for (const Range& range : kRanges) expect_idempotent<double>(range);
    expect_idempotent<double>({-1e9, 1e9, 0.5});
    expect_idempotent<double>({0, 4294967295.0, 1});
}

TEST(Quantiser, AStepIsRestoredAsTheNearestFloat) {
    Scalar<float> scalar(quantised(-3, 1000, 0.1));
    for (std::uint32_t lane = 0; lane <= scalar.max(); ++lane)
        ASSERT_EQ(scalar.restore({lane}), static_cast<float>(-3 + lane * 0.1)) << lane;
}

TEST(Quantiser, HasTheWholeStepsOfTheRange) {
    EXPECT_EQ(Scalar<float>(quantised(0, 0.3, 0.1)).max(), 3u) << "although 0.3 / 0.1 is less than 3";
    EXPECT_EQ(Scalar<float>(quantised(0, 0.7, 0.1)).max(), 7u);
    EXPECT_EQ(Scalar<double>(quantised(-1, 1, 0.1)).max(), 20u);
    EXPECT_EQ(Scalar<float>(quantised(0, 0.299, 0.1)).max(), 2u);
    EXPECT_EQ(Scalar<float>(quantised(0, 1, 0.6)).max(), 1u);
    EXPECT_EQ(Scalar<double>(quantised(0, 4'294'967'295, 1)).max(), 0xffffffffu);
    EXPECT_NE(Scalar<double>(quantised(0, 4'294'967'296, 1)).error, "");
    EXPECT_EQ(Scalar<float>(quantised(0, 1, 1)).max(), 1u);
    EXPECT_NE(Scalar<float>(quantised(0, 1, 1.01)).error, "");
}

// A float has 24 significant bits: its rounding may be a quarter of a step.
TEST(Quantiser, AStepIsNotFinerThanFourRoundingsOfTheType) {
    EXPECT_EQ(Scalar<float>(quantised(0, 4'096, 0x1p-9)).error, "");
    EXPECT_NE(Scalar<float>(quantised(0, 4'096, 0x1p-9 * 0.99)).error, "");
    EXPECT_EQ(Scalar<float>(quantised(-4'096, 0, 0x1p-9)).error, "");
    EXPECT_NE(Scalar<float>(quantised(-4'096, 0, 0x1p-9 * 0.99)).error, "");
    EXPECT_EQ(Scalar<double>(quantised(0x1p40 - 1, 0x1p40, 0x1p-8)).error, "");
    EXPECT_NE(Scalar<double>(quantised(0x1p40 - 1, 0x1p40, 0x1p-8 * 0.99)).error, "");
}

TEST(Quantiser, ClampsValuesOutsideTheRangeAndTurnsNaNIntoTheMinimum) {
    Scalar<float> scalar(quantised(-1, 1, 0.5));
    ASSERT_EQ(scalar.max(), 4u);
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(scalar.quantise(-7)[0], 0u);
    EXPECT_EQ(scalar.quantise(-infinity)[0], 0u);
    EXPECT_EQ(scalar.quantise(7)[0], 4u);
    EXPECT_EQ(scalar.quantise(infinity)[0], 4u);
    EXPECT_EQ(scalar.quantise(std::nanf(""))[0], 0u);
    EXPECT_EQ(scalar.misfits.clamped, 5u);
    EXPECT_EQ(scalar.quantise(0.25f)[0], 3u) << "ties go up";
    for (const float inside : {-1.0f, 1.0f, -1.25f, 1.2f}) scalar.quantise(inside);
    EXPECT_EQ(scalar.misfits.clamped, 5u) << "less than half a step outside is rounding";
    Scalar<float> uneven(quantised(0, 1, 0.6));
    EXPECT_EQ(uneven.quantise(1)[0], 1u);
    EXPECT_EQ(uneven.misfits.clamped, 0u) << "inside the range, though above the last whole step";
    Scalar<std::uint64_t> wide(bounded(10, 20));
    for (const std::uint64_t value : {9ull, 10ull, 20ull, 21ull, ~0ull}) wide.quantise(value);
    EXPECT_EQ(wide.misfits, (ComponentLayout::Misfits{0, 3}));
}

template <class T>
void expect_exact(std::initializer_list<T> values) {
    Scalar<T> scalar;
    ASSERT_EQ(scalar.error, "");
    std::mt19937_64 random(1);
    std::vector<T> all(values);
    for (int i = 0; i < 1'000; ++i) all.push_back(static_cast<T>(random()));
    for (const T value : all) {
        const auto lanes = scalar.quantise(value);
        for (std::size_t i = 0; i < lanes.size(); ++i) ASSERT_LE(lanes[i], scalar.layout.lanes()[i].max);
        ASSERT_EQ(scalar.restore(lanes), value);
    }
}

TEST(Lanes, IntegersOfEveryWidthAreRestoredExactly) {
    expect_exact<std::int8_t>({-128, -1, 0, 127});
    expect_exact<std::uint8_t>({0, 255});
    expect_exact<std::int16_t>({-32768, -1, 32767});
    expect_exact<std::uint16_t>({0, 65535});
    expect_exact<std::int32_t>({std::numeric_limits<int>::min(), -1, std::numeric_limits<int>::max()});
    expect_exact<std::uint32_t>({0, 0xffffffffu});
    expect_exact<std::int64_t>(
        {std::numeric_limits<std::int64_t>::min(), -1, std::numeric_limits<std::int64_t>::max()});
    expect_exact<std::uint64_t>({0, ~std::uint64_t{0}, std::uint64_t{1} << 63});
    expect_exact<bool>({false, true});
}

// The lanes of a field begin where those of the field before end.
TEST(Lanes, FieldsOfDifferentTypesStandBesideEachOther) {
    struct All {
        std::int64_t a = -1;
        std::int8_t b = -2;
        double c = 3.5;
        float d = 4.5f;
        std::uint16_t e = 5;
        bool f = true;
        float g = 6.5f;
        std::uint64_t h = 7;
        std::int32_t i = -8;
        bool operator==(const All&) const = default;
    };
    Schema schema;
    schema.component<All>("all", field(&All::g, quantised(0, 10, 0.5)), field(&All::i, bounded(-9, 9)));
    ASSERT_EQ(schema.error(), "");
    const ComponentLayout& layout = schema.components()[0].layout;
    ASSERT_EQ(layout.lanes().size(), 12u);
    std::vector<std::uint32_t> lanes(layout.lanes().size() + 1, 77), parts;
    NoEntities map;
    ComponentLayout::Misfits misfits;
    const All all;
    layout.quantise(&all, map, lanes.data(), parts, misfits);
    EXPECT_EQ(lanes, (std::vector<std::uint32_t>{0xffffffff, 0xffffffff, 0xfffffffe, 0, 0x400c0000,
                                                 0x40900000, 5, 1, 13, 7, 0, 1, 77}));
    All same{0, 0, 0, 0, 0, false, 0, 0, 0};
    layout.restore(lanes.data(), nullptr, map, &same);
    EXPECT_EQ(same, all);
}

TEST(Lanes, AnyFloatKeepsEveryBit) {
    Scalar<float> narrow(any_float());
    Scalar<double> wide(any_float());
    for (const double value : {0.0, -0.0, 1.5, 1e30, -1e-40, HUGE_VAL, std::nan("")}) {
        const float f = static_cast<float>(value);
        EXPECT_EQ(std::bit_cast<std::uint32_t>(narrow.restore(narrow.quantise(f))),
                  std::bit_cast<std::uint32_t>(f));
        EXPECT_EQ(std::bit_cast<std::uint64_t>(wide.restore(wide.quantise(value))),
                  std::bit_cast<std::uint64_t>(value));
    }
}

TEST(Lanes, BoundedIntegersAreClampedAndIdempotent) {
    Scalar<std::int32_t> scalar(bounded(-5, 200));
    ASSERT_EQ(scalar.max(), 205u);
    EXPECT_EQ(scalar.layout.lanes()[0].bits, 8);
    for (std::uint32_t lane = 0; lane <= 205; ++lane)
        EXPECT_EQ(scalar.quantise(scalar.restore({lane})), (std::vector{lane}));
    EXPECT_EQ(scalar.restore(scalar.quantise(-1000)), -5);
    EXPECT_EQ(scalar.restore(scalar.quantise(1000)), 200);

    Scalar<std::uint64_t> wide(bounded(10, 20));
    EXPECT_EQ(wide.restore(wide.quantise(~std::uint64_t{0})), 20u) << "not negative";
    EXPECT_EQ(wide.restore(wide.quantise(0)), 10u);

    Scalar<std::int64_t> far(bounded(-9007199254740992.0, -9007199254740990.0));
    ASSERT_EQ(far.error, "");
    EXPECT_EQ(far.restore(far.quantise(0)), -9007199254740990);
    EXPECT_EQ(Scalar<std::int32_t>(bounded(-2147483648.0, 2147483647)).max(), 0xffffffffu);
    EXPECT_EQ(Scalar<std::uint8_t>(bounded(7, 7)).error, "");
}

TEST(Lanes, CodecsThatDoNotFitAreRefused) {
    EXPECT_NE(Scalar<std::int32_t>(quantised(0, 1, 0.1)).error, "");
    EXPECT_NE(Scalar<float>(bounded(0, 1)).error, "");
    EXPECT_NE(Scalar<bool>(bounded(0, 1)).error, "");
    for (const FieldCodec& codec :
         {quantised(1, 0, 0.1), quantised(1, 1, 0.1), quantised(0, 1, 0), quantised(0, 1, -1)})
        EXPECT_EQ(Scalar<float>(codec).error, "quantised() needs min < max and step > 0");
    EXPECT_EQ(Scalar<float>(max_length(3)).error, "max_length() is for strings and vectors");
    EXPECT_NE(Scalar<float>(quantised(0, std::nan(""), 1)).error, "");
    EXPECT_NE(Scalar<double>(quantised(0, 1e10, 1)).error, "") << "more than 2^32 steps";
    EXPECT_NE(Scalar<float>(quantised(0, 1e6, 0.001)).error, "") << "finer than a float";
    EXPECT_EQ(Scalar<double>(quantised(0, 1e6, 0.001)).error, "");
    EXPECT_NE(Scalar<std::uint8_t>(bounded(0, 256)).error, "");
    EXPECT_NE(Scalar<std::int8_t>(bounded(-129, 0)).error, "");
    EXPECT_EQ(Scalar<std::int8_t>(bounded(-128, 127)).error, "");
    EXPECT_NE(Scalar<std::int8_t>(bounded(0, 128)).error, "");
    EXPECT_NE(Scalar<std::int16_t>(bounded(0, 32'768)).error, "");
    EXPECT_NE(Scalar<std::int32_t>(bounded(0, 2'147'483'648)).error, "");
    EXPECT_NE(Scalar<std::uint32_t>(bounded(-1, 1)).error, "");
    EXPECT_NE(Scalar<std::int32_t>(bounded(2, 1)).error, "");
    EXPECT_NE(Scalar<std::int32_t>(bounded(0.5, 2)).error, "");
    EXPECT_NE(Scalar<std::int32_t>(bounded(0, 2.5)).error, "");
    for (const FieldType type : {FieldType::entity, FieldType::boolean, FieldType::f32, FieldType::f64})
        EXPECT_EQ(misfit_of({type, false, 0, bounded(0, 1)}), "bounded() is for integers and enums");
    for (const FieldType type : {FieldType::entity, FieldType::boolean, FieldType::u8, FieldType::i64})
        EXPECT_EQ(misfit_of({type, false, 0, quantised(0, 1, 1)}), "quantised() is for float and double");
    for (const FieldType type : {FieldType::entity, FieldType::boolean, FieldType::u8, FieldType::i64})
        EXPECT_EQ(misfit_of({type, false, 0, half_float()}), "half_float() is for float and double");
    EXPECT_NE(Scalar<std::int64_t>(bounded(0, 1e10)).error, "");
    EXPECT_NE(Scalar<std::uint8_t>(quantised(0, 1, 1), true).error, "") << "an enum is not a float";
}

TEST(Lanes, BoundedReachesExactlyToTheLimitsOfTheField) {
    const auto error = []<class T>(T, double low, double high) {
        return Scalar<T>(bounded(low, high)).error;
    };
    const auto expect_limits = [&]<class T>(T) {
        const auto low = static_cast<double>(std::numeric_limits<T>::min());
        const auto high = static_cast<double>(std::numeric_limits<T>::max());
        EXPECT_EQ(error(T{}, low, high), "");
        EXPECT_NE(error(T{}, low - 1, low), "");
        EXPECT_NE(error(T{}, high, high + 1), "");
    };
    expect_limits(std::uint8_t{});
    expect_limits(std::int8_t{});
    expect_limits(std::uint16_t{});
    expect_limits(std::int16_t{});
    expect_limits(std::uint32_t{});
    expect_limits(std::int32_t{});
    EXPECT_EQ(error(std::int64_t{}, -0x1p53, 0x1p32 - 1 - 0x1p53), "");
    EXPECT_NE(error(std::int64_t{}, -0x1p53, 0x1p32 - 0x1p53), "") << "2^32 + 1 values";
    EXPECT_NE(error(std::int64_t{}, -0x1p53 - 2, -0x1p53), "");
    EXPECT_EQ(error(std::uint64_t{}, 0x1p53 - 1, 0x1p53), "");
    EXPECT_NE(error(std::uint64_t{}, -1, 1), "");
    EXPECT_NE(error(std::uint64_t{}, 0x1p53, 0x1p53 + 2), "");
    EXPECT_EQ(error(std::int32_t{}, 3, 3), "") << "one value";
}

template <class T>
void expect_loaded(std::initializer_list<T> numbers) {
    EXPECT_EQ(size_of(type_of<T>()), sizeof(T));
    const std::vector<T> values(numbers);
    std::vector<std::byte> bytes(3);  // before the first scalar
    for (const T value : values) {
        bytes.resize(bytes.size() + sizeof value);
        std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
    }
    const Leaf leaf{type_of<T>(), false, 3, {}};
    for (std::uint32_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(load_scalar(leaf, bytes.data(), i), static_cast<double>(values[i])) << i;
}

TEST(Lanes, ScalarsOfEveryTypeAreLoadedAsDoubles) {
    expect_loaded<bool>({true});
    expect_loaded<std::int8_t>({-128, 127, -1});
    expect_loaded<std::uint8_t>({255, 1, 128});
    expect_loaded<std::int16_t>({-32'768, 32'767, -1});
    expect_loaded<std::uint16_t>({65'535, 1, 32'768});
    expect_loaded<std::int32_t>({-5, std::numeric_limits<std::int32_t>::min()});
    expect_loaded<std::uint32_t>({0xffffffffu, 7});
    expect_loaded<std::int64_t>({-5, std::int64_t{1} << 40});
    expect_loaded<std::uint64_t>({std::uint64_t{1} << 63, 3});
    expect_loaded<float>({1.5f, -2.25f, 3});
    expect_loaded<double>({1e300, -2.25});
    EXPECT_EQ(size_of(FieldType::entity), sizeof(ecs::Entity));
}

Leaf leaf_of(FieldType type, const FieldCodec& codec = {}, bool is_enum = false) {
    return {type, is_enum, 0, codec};
}

ComponentLayout layout_of(std::initializer_list<Leaf> leaves) {
    ComponentLayout layout;
    std::uint32_t offset = 0;
    for (Leaf leaf : leaves) {
        leaf.offset = offset;
        leaf.scalars = scalars_of(leaf.codec.kind);
        offset += 32;
        layout.add_leaf(leaf);
    }
    EXPECT_EQ(layout.finish(), "");
    return layout;
}

TEST(Lanes, UpToFourEqualNeighboursAreAGroup) {
    const Leaf number = leaf_of(FieldType::u16), small = leaf_of(FieldType::u8),
               flag = leaf_of(FieldType::boolean), real = leaf_of(FieldType::f32);
    const auto groups = [](const ComponentLayout& layout) {
        std::vector<std::pair<std::uint32_t, std::uint32_t>> out;
        for (const LaneGroup& group : layout.groups()) out.emplace_back(group.first, group.count);
        EXPECT_EQ(layout.piece_count(), out.size());
        return out;
    };
    using Groups = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
    EXPECT_EQ(groups(layout_of({number})), (Groups{{0, 1}}));
    EXPECT_EQ(groups(layout_of({number, number, number, number})), (Groups{{0, 4}}));
    EXPECT_EQ(groups(layout_of({number, number, number, number, number, number})), (Groups{{0, 4}, {4, 2}}));
    EXPECT_EQ(groups(layout_of({number, number, small, number})), (Groups{{0, 2}, {2, 1}, {3, 1}}));
    EXPECT_EQ(groups(layout_of({real, real, number, number, number})), (Groups{{0, 2}, {2, 3}}));
    EXPECT_EQ(groups(layout_of({flag, flag, number})), (Groups{{0, 1}, {1, 1}, {2, 1}})) << "symbols";
    EXPECT_EQ(groups(layout_of({leaf_of(FieldType::u64), leaf_of(FieldType::u64), leaf_of(FieldType::u64)})),
              (Groups{{0, 4}, {4, 2}}));
    EXPECT_TRUE(groups(layout_of({})).empty());
    EXPECT_TRUE(layout_of({}).empty());
    EXPECT_FALSE(layout_of({flag}).empty());
}

// Two machines may round a float to neighbouring steps.
TEST(Lanes, OnlyQuantitiesOfFloatsWithACodecAreRounded) {
    const auto rounded = [](const Leaf& leaf) {
        const ComponentLayout layout = layout_of({leaf, leaf});
        std::vector<bool> out;
        for (std::size_t i = 0; i < layout.lanes().size() / 2; ++i) {
            EXPECT_EQ(layout.is_rounded(i), layout.is_rounded(i + layout.lanes().size() / 2));
            out.push_back(layout.is_rounded(i));
        }
        return out;
    };
    using Bits = std::vector<bool>;
    EXPECT_EQ(rounded(leaf_of(FieldType::f32)), Bits{false});
    EXPECT_EQ(rounded(leaf_of(FieldType::f64)), (Bits{false, false}));
    EXPECT_EQ(rounded(leaf_of(FieldType::i32)), Bits{false});
    EXPECT_EQ(rounded(leaf_of(FieldType::i32, bounded(0, 9))), Bits{false});
    for (const FieldType type : {FieldType::f32, FieldType::f64}) {
        EXPECT_EQ(rounded(leaf_of(type, quantised(0, 1, 0.5))), Bits{true});
        EXPECT_EQ(rounded(leaf_of(type, half_float())), Bits{true});
        EXPECT_EQ(rounded(leaf_of(type, fixed_point(8))), Bits{true});
        EXPECT_EQ(rounded(leaf_of(type, angle(8))), Bits{true});
        EXPECT_EQ(rounded(leaf_of(type, unit_vector(8))), (Bits{true, true}));
        EXPECT_EQ(rounded(leaf_of(type, smallest_three(8))), (Bits{false, true, true, true}));
    }
}

TEST(Lanes, OfEveryFieldTypeAreAsWideAsItsValues) {
    const auto expect = [](const Leaf& leaf, const std::vector<Lane>& lanes) {
        EXPECT_EQ(layout_of({leaf}).lanes(), lanes) << static_cast<int>(leaf.type);
    };
    constexpr std::uint32_t kAll = 0xffffffff;
    const auto lane = [](LaneKind kind, unsigned bits, bool is_bounded, std::uint32_t max) {
        return Lane{kind, static_cast<std::uint8_t>(bits), is_bounded, false, max};
    };
    const Lane full = lane(LaneKind::quantity, 32, false, kAll),
               half = lane(LaneKind::symbol, 32, true, kAll);
    expect(leaf_of(FieldType::boolean), {lane(LaneKind::symbol, 1, true, 1)});
    expect(leaf_of(FieldType::u8), {lane(LaneKind::quantity, 8, true, 255)});
    expect(leaf_of(FieldType::u16), {lane(LaneKind::quantity, 16, false, 65'535)});
    for (const FieldType type : {FieldType::i8, FieldType::i16, FieldType::i32, FieldType::u32})
        expect(leaf_of(type), {full});
    for (const FieldType type : {FieldType::i64, FieldType::u64}) expect(leaf_of(type), {full, full});
    Lane finite = lane(LaneKind::real, 32, false, kAll), finite_half = half;
    expect(leaf_of(FieldType::f32, any_float()), {finite});
    expect(leaf_of(FieldType::f64, any_float()), {half, half});
    finite.is_finite = finite_half.is_finite = true;
    expect(leaf_of(FieldType::f32), {finite});
    expect(leaf_of(FieldType::f64), {half, finite_half});
    expect(leaf_of(FieldType::entity), {lane(LaneKind::reference, 32, false, kAll)});
    expect(leaf_of(FieldType::u8, {}, true), {lane(LaneKind::symbol, 8, false, 255)});
    expect(leaf_of(FieldType::i32, {}, true), {lane(LaneKind::symbol, 32, false, kAll)});
    expect(leaf_of(FieldType::i32, bounded(-3, 4)), {lane(LaneKind::quantity, 3, true, 7)});
    expect(leaf_of(FieldType::i32, bounded(5, 5)), {lane(LaneKind::quantity, 1, true, 0)});
    expect(leaf_of(FieldType::u8, bounded(0, 4), true), {lane(LaneKind::symbol, 3, true, 4)});
    expect(leaf_of(FieldType::f32, quantised(0, 1, 0.25)), {lane(LaneKind::quantity, 3, true, 4)});
    EXPECT_TRUE(layout_of({leaf_of(FieldType::u8), leaf_of(FieldType::entity)}).has_references());
    EXPECT_FALSE(layout_of({leaf_of(FieldType::u8), leaf_of(FieldType::f32)}).has_references());
}

TEST(Lanes, LongStringsAndVectorsAreCutAndCounted) {
    Schema schema = game_schema();
    for (const SchemaComponent& component : schema.components()) {
        if (component.name != "squad") continue;
        NoEntities map;
        sim::Squad squad{std::vector<ecs::Entity>(9), std::string(30, 'm')};
        std::vector<std::uint32_t> parts;
        ComponentLayout::Misfits misfits;
        component.layout.quantise(&squad, map, nullptr, parts, misfits);
        EXPECT_EQ(misfits, (ComponentLayout::Misfits{2, 0}));
        ASSERT_EQ(parts.data() + parts.size(), component.layout.parts_end(parts.data()));
        EXPECT_EQ(parts[0], sim::kMaxMembers);
        component.layout.restore(nullptr, parts.data(), map, &squad);
        EXPECT_EQ(squad.members.size(), sim::kMaxMembers);
        EXPECT_EQ(squad.motto, std::string(sim::kMaxMotto, 'm'));
        parts.clear();
        component.layout.quantise(&squad, map, nullptr, parts, misfits);
        EXPECT_EQ(misfits.cut, 2u) << "nothing more";
    }
}

TEST(Lanes, RestoreOverwritesEveryField) {
    Schema schema = game_schema();
    NoEntities map;
    for (const SchemaComponent& component : schema.components()) {
        if (component.name != "bag") continue;
        const sim::Bag zero{};
        std::vector<std::uint32_t> lanes(component.layout.lanes().size()), parts;
        ComponentLayout::Misfits misfits;
        component.layout.quantise(&zero, map, lanes.data(), parts, misfits);
        sim::Bag old{{{1, 2, true}, {3, 4, false}}, 7};
        component.layout.restore(lanes.data(), parts.data(), map, &old);
        EXPECT_TRUE(old.items.empty());
        EXPECT_EQ(old.gold, 0);
    }
}

}  // namespace
}  // namespace shoal::replication::impl
