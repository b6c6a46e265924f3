// The limits of each codec, and what a schema says about a codec beyond them.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "replication/codec/codec.h"
#include "replication/schema/schema.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl::codec_limits_test {
namespace {

struct Single {
    float x = 0;
};
struct Double {
    double x = 0;
};
struct Vec {
    float x = 0, y = 0, z = 0;
};
struct Turn {
    float x = 0, y = 0, z = 0, w = 1;
};
struct Number {
    std::int32_t n = 0;
};
struct Byte {
    std::uint8_t n = 0;
};
struct Small {
    std::int8_t n = 0;
};
struct Wide {
    std::int64_t n = 0;
};
struct Flag {
    bool is_set = false;
};
struct Target {
    ecs::Entity entity;
};
struct Cargo {
    std::vector<std::uint8_t> bytes;
};

/// Returns the schema's error after the name of the component and the type of the field; empty if it is
/// right.
template <class T>
std::string why_not(const FieldCodec& codec) {
    Schema schema;
    schema.component<T>("culprit", codec);
    const std::string& error = schema.error();
    if (error.empty()) return {};
    EXPECT_EQ(error.find("component 'culprit' has a codec that does not fit"), 0u) << error;
    const std::size_t begin = error.find(": ") + 2;
    return error.substr(begin, error.rfind(" (field") - begin);
}

template <class T>
void expect_bits(FieldCodec (*codec)(unsigned), const std::string& name, unsigned least, unsigned most) {
    const std::string error =
        name + " takes " + std::to_string(least) + " to " + std::to_string(most) + " bits";
    EXPECT_EQ(why_not<T>(codec(least)), "");
    EXPECT_EQ(why_not<T>(codec(most)), "");
    EXPECT_EQ(why_not<T>(codec(most + 1)), error);
    if (least > 0) {
        EXPECT_EQ(why_not<T>(codec(least - 1)), error);
    }
}

TEST(CodecLimits, OfTheNumbersOfBits) {
    expect_bits<Single>(fixed_point, "fixed_point()", 0, 30);
    expect_bits<Double>(fixed_point, "fixed_point()", 0, 30);
    expect_bits<Single>(angle, "angle()", 1, 22);
    expect_bits<Double>(angle, "angle()", 1, 32);
    expect_bits<Vec>(unit_vector, "unit_vector()", 2, 16);
    expect_bits<Turn>(smallest_three, "smallest_three()", 4, 12);
}

TEST(CodecLimits, OfTheFieldsThatACodecIsFor) {
    EXPECT_EQ(why_not<Number>(half_float()), "half_float() is for float and double");
    EXPECT_EQ(why_not<Number>(fixed_point(4)), "fixed_point() is for float and double");
    EXPECT_EQ(why_not<Number>(quantised(0, 1, 0.1)), "quantised() is for float and double");
    EXPECT_EQ(why_not<sim::Mood>(quantised(0, 1, 0.1)), "quantised() is for float and double");
    EXPECT_EQ(why_not<Single>(bounded(0, 1)), "bounded() is for integers and enums");
    EXPECT_EQ(why_not<Flag>(bounded(0, 1)), "bounded() is for integers and enums");
    EXPECT_EQ(why_not<Target>(bounded(0, 1)), "bounded() is for integers and enums");
    EXPECT_EQ(why_not<Number>(max_length(5)), "max_length() is for strings and vectors");
    EXPECT_EQ(why_not<Turn>(unit_vector(8)), "unit_vector() is for three neighbouring floats or doubles");
    EXPECT_EQ(why_not<Vec>(smallest_three(8)), "smallest_three() is for four neighbouring floats or doubles");
}

TEST(CodecLimits, OfQuantised) {
    const std::string order = "quantised() needs min < max and step > 0";
    for (const FieldCodec& codec :
         {quantised(1, 1, 0.5), quantised(2, 1, 0.5), quantised(0, 1, 0), quantised(0, 1, -1),
          quantised(std::nan(""), 1, 0.5), quantised(0, std::nan(""), 0.5), quantised(0, 1, std::nan(""))})
        EXPECT_EQ(why_not<Double>(codec), order);
    const std::string count = "quantised() has no step or more than 2^32";
    EXPECT_EQ(why_not<Double>(quantised(0, 1, 1)), "");
    EXPECT_EQ(why_not<Double>(quantised(0, 1, 1.5)), count);
    EXPECT_EQ(why_not<Double>(quantised(0, 0x1p32 - 1, 1)), "");
    EXPECT_EQ(why_not<Double>(quantised(0, 0x1p32, 1)), count);
    EXPECT_EQ(why_not<Double>(quantised(0, std::numeric_limits<double>::infinity(), 1)), count);
    EXPECT_EQ(why_not<Single>(quantised(-1e39, 1e39, 1e37)), "quantised() exceeds the field's type");
    EXPECT_EQ(why_not<Double>(quantised(-1e39, 1e39, 1e37)), "");
    EXPECT_EQ(why_not<Number>(any_float()), "any_float() is for float and double");
    // A float has 24 significant bits: rounding may move a value by a quarter of a step.
    const std::string fine = "quantised() has steps finer than the field's type";
    EXPECT_EQ(why_not<Single>(quantised(0, 0x1p21, 1)), "");
    EXPECT_EQ(why_not<Single>(quantised(0, 0x1p21 + 1, 1)), fine);
    EXPECT_EQ(why_not<Single>(quantised(-0x1p21 - 1, 0, 1)), fine);
    EXPECT_EQ(why_not<Double>(quantised(0, 0x1p21 + 1, 1)), "");
    EXPECT_EQ(why_not<Double>(quantised(0x1p48 - 8, 0x1p48, 1)), "");
    EXPECT_EQ(why_not<Double>(quantised(0x1p48, 0x1p48 + 8, 1)), fine);
}

TEST(CodecLimits, OfBounded) {
    const std::string whole = "bounded() needs whole numbers min <= max, at most 2^32 of them";
    for (const FieldCodec& codec : {bounded(1, 0), bounded(0.5, 3), bounded(0, 3.5), bounded(std::nan(""), 1),
                                    bounded(0, std::nan(""))})
        EXPECT_EQ(why_not<Number>(codec), whole);
    EXPECT_EQ(why_not<Number>(bounded(7, 7)), "") << "one number";
    EXPECT_EQ(why_not<Wide>(bounded(0, 0x1p32 - 1)), "");
    EXPECT_EQ(why_not<Wide>(bounded(0, 0x1p32)), whole);
    EXPECT_EQ(why_not<Wide>(bounded(0x1p53 - 1, 0x1p53)), "");
    EXPECT_EQ(why_not<Wide>(bounded(0x1p53, 0x1p53 + 2)), whole);
    EXPECT_EQ(why_not<Wide>(bounded(-0x1p53 - 2, -0x1p53)), whole);
    const std::string exceeds = "bounded() exceeds the field's type";
    EXPECT_EQ(why_not<Byte>(bounded(0, 255)), "");
    EXPECT_EQ(why_not<Byte>(bounded(0, 256)), exceeds);
    EXPECT_EQ(why_not<Byte>(bounded(-1, 5)), exceeds);
    EXPECT_EQ(why_not<Small>(bounded(-128, 127)), "");
    EXPECT_EQ(why_not<Small>(bounded(0, 128)), exceeds);
    EXPECT_EQ(why_not<Small>(bounded(-129, 0)), exceeds);
    EXPECT_EQ(why_not<Number>(bounded(-0x1p31, 0x1p31 - 1)), "");
    EXPECT_EQ(why_not<Number>(bounded(0, 0x1p31)), exceeds);
}

TEST(CodecLimits, OfAComponentThatAnEntityCouldNotHold) {
    const auto error_with = [](std::uint32_t length) {
        Schema schema;
        schema.component<Cargo>("cargo", max_length(length));
        return schema.error();
    };
    std::uint32_t fits = 31'000;
    while (error_with(fits + 1).empty() && fits < 33'000) fits += 1;
    EXPECT_GT(fits, kMaxEntityBytes - 50) << "nearly all of it are the bytes themselves";
    EXPECT_LT(fits, kMaxEntityBytes);
    EXPECT_EQ(error_with(fits + 1),
              "component 'cargo' can take 32001 bytes, and an entity at most 32000: make it smaller, with "
              "max_length() or another codec");
    // What the schema allows can be sent.
    Schema schema;
    schema.component<Cargo>("cargo", max_length(fits));
    Pair pair({}, {}, 1, 1, schema);
    Cargo cargo;
    for (std::uint32_t i = 0; i < fits; ++i) cargo.bytes.push_back(static_cast<std::uint8_t>(i * i >> 3));
    const ecs::Entity ship = pair.spawn(cargo);
    pair.exchange();
    EXPECT_EQ(pair.sender.shadow().too_large_count(), 0u);
    EXPECT_EQ(pair.on_client<Cargo>(ship).bytes, cargo.bytes);
}

TEST(CodecLimits, AHalfFloatHasNoNegativeZero) {
    Schema schema;
    schema.component<Single>("single", half_float());
    Pair pair({}, {}, 1, 1, schema);
    for (const float zero : {0.0f, -0.0f, -1e-9f, std::nanf("")}) {
        const ecs::Entity entity = pair.spawn(Single{zero});
        pair.exchange();
        EXPECT_EQ(pair.on_client<Single>(entity).x, 0);
        EXPECT_FALSE(std::signbit(pair.on_client<Single>(entity).x)) << zero;
    }
}

}  // namespace
}  // namespace shoal::replication::impl::codec_limits_test
