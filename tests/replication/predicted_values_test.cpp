#include "replication/predict/predicted_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "replication/send/sender.h"

namespace shoal::replication::impl::predicted_values_test {
namespace {

enum class Gait : std::uint8_t { walk, run };
struct Pose {
    float x = 0;
    double heading = 0;
    float turn[4] = {0, 0, 0, 1};
    std::int16_t steps = 0;
    Gait gait = Gait::walk;
    bool is_ready = false;
};
struct Jump {
    float height = 0;
};
struct Mood {
    Gait gait = Gait::walk;
};

class NoReferences final : public EntityMap {
public:
    std::uint32_t to_net(ecs::Entity) override { return 0; }
    ecs::Entity to_entity(std::uint32_t) override { return {}; }
};

/// Compares two states of one entity.
struct Comparison {
    explicit Comparison(Schema described) : schema(std::move(described)) {}

    template <class T>
    std::uint32_t difference(const T& a, const T& b) {
        const auto row = [&](const T& value) {
            world.set(entity, value);
            std::vector<std::uint32_t> lanes(values.row_words());
            values.capture(entity, lanes);
            return lanes;
        };
        return values.difference(row(a), row(b));
    }

    Schema schema;
    ecs::World world;
    ecs::Entity entity = world.spawn();
    NoReferences map;
    PredictedValues values{world, schema, map};
};

template <class Option>
Schema pose_schema(const Option& role) {
    Schema schema;
    schema.component<Pose>("pose", field(&Pose::x, quantised(-50, 50, 0.01)),
                           field(&Pose::heading, angle(16)), field(&Pose::turn, smallest_three(9)), role);
    return schema;
}

TEST(PredictedValues, WithoutAToleranceOneStepOfTheCodecIsNoMisprediction) {
    Comparison loose(pose_schema(predicted()));
    EXPECT_EQ(loose.difference(Pose{.x = 1}, Pose{.x = 1.01f}), 0u);
    EXPECT_EQ(loose.difference(Pose{.x = 1}, Pose{.x = 1.03f}), 3u);
    EXPECT_EQ(loose.difference(Pose{.steps = 1}, Pose{.steps = 2}), PredictedValues::kOther);
    Schema schema = pose_schema(predicted());
    schema.quantise_authority();
    Comparison exact(std::move(schema));
    EXPECT_EQ(exact.difference(Pose{.x = 1}, Pose{.x = 1.01f}), 1u);
}

TEST(PredictedValues, AToleranceIsForEachNumberInTheUnitsOfTheComponent) {
    Schema schema = pose_schema(predicted(2.5));
    schema.quantise_authority();
    Comparison pose(std::move(schema));
    EXPECT_EQ(pose.difference(Pose{.x = 1, .steps = -1}, Pose{.x = 3.4f, .steps = 1}), 0u);
    EXPECT_EQ(pose.difference(Pose{.x = 1}, Pose{.x = 3.6f}), 260u) << "in steps of the codec";
    EXPECT_EQ(pose.difference(Pose{.steps = -1}, Pose{.steps = 2}), PredictedValues::kOther);
    EXPECT_EQ(pose.difference(Pose{.heading = -3}, Pose{.heading = 3}), 0u) << "the shorter way";
    EXPECT_NE(pose.difference(Pose{.heading = -1}, Pose{.heading = 1.7}), 0u);
    EXPECT_NE(pose.difference(Pose{.gait = Gait::walk}, Pose{.gait = Gait::run}), 0u);
    EXPECT_NE(pose.difference(Pose{.is_ready = false}, Pose{.is_ready = true}), 0u);
}

TEST(PredictedValues, ARotationIsComparedUpToItsSign) {
    Comparison pose(pose_schema(predicted(0.02)));
    const float half = std::sqrt(0.5f);
    // The greatest of the four numbers is sent as a positive one: it changes between these two.
    const Pose a{.turn = {half + 0.005f, -half, 0, 0}}, b{.turn = {half, -half - 0.005f, 0, 0}};
    EXPECT_EQ(pose.difference(a, b), 0u);
    EXPECT_NE(pose.difference(a, Pose{.turn = {half, half, 0, 0}}), 0u);
}

TEST(PredictedValues, AToleranceWorksForExactNumbersAndNan) {
    Schema schema;
    schema.component<Jump>("jump", predicted(0.5));
    Comparison jump(std::move(schema));
    const float nan = std::numeric_limits<float>::quiet_NaN(),
                infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(jump.difference(Jump{1}, Jump{1.5f}), 0u);
    EXPECT_NE(jump.difference(Jump{1}, Jump{1.6f}), 0u);
    EXPECT_EQ(jump.difference(Jump{nan}, Jump{-nan}), 0u);
    EXPECT_EQ(jump.difference(Jump{infinity}, Jump{infinity}), 0u);
    EXPECT_NE(jump.difference(Jump{nan}, Jump{1}), 0u);
    EXPECT_NE(jump.difference(Jump{1}, Jump{nan}), 0u);
    EXPECT_NE(jump.difference(Jump{infinity}, Jump{-infinity}), 0u);
    Schema zero;
    zero.component<Jump>("jump", quantised(0, 10, 0.5), predicted(0));
    EXPECT_EQ(Comparison(std::move(zero)).difference(Jump{1}, Jump{1.5f}), 1u) << "none at all";
}

template <class T>
struct Gauge {
    T number{};
};

template <class T>
void expect_tolerance_around_zero() {
    Schema schema;
    schema.component<Gauge<T>>("gauge", predicted(2.5));
    Comparison gauge(std::move(schema));
    constexpr T kLow = std::is_signed_v<T> ? T(-1) : T(0);
    EXPECT_EQ(gauge.difference(Gauge<T>{kLow}, Gauge<T>{T(kLow + 2)}), 0u);
    EXPECT_NE(gauge.difference(Gauge<T>{kLow}, Gauge<T>{T(kLow + 3)}), 0u);
    EXPECT_NE(gauge.difference(Gauge<T>{T(kLow + 3)}, Gauge<T>{kLow}), 0u);
}

TEST(PredictedValues, AToleranceWorksForNumbersOfEveryType) {
    expect_tolerance_around_zero<std::int8_t>();
    expect_tolerance_around_zero<std::uint8_t>();
    expect_tolerance_around_zero<std::int16_t>();
    expect_tolerance_around_zero<std::uint16_t>();
    expect_tolerance_around_zero<std::int32_t>();
    expect_tolerance_around_zero<std::uint32_t>();
    expect_tolerance_around_zero<std::int64_t>();
    expect_tolerance_around_zero<std::uint64_t>();
    expect_tolerance_around_zero<float>();
    expect_tolerance_around_zero<double>();
}

struct Leap {
    float height = 0, width = 0;
};

TEST(PredictedValues, ANumberThatIsNanOnBothSidesLeavesTheOthersTheirTolerance) {
    Schema schema;
    schema.component<Leap>("leap", predicted(0.5));
    Comparison leap(std::move(schema));
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(leap.difference(Leap{nan, 1}, Leap{nan, 1.4f}), 0u);
    EXPECT_NE(leap.difference(Leap{nan, 1}, Leap{nan, 1.6f}), 0u);
}

TEST(PredictedValues, ANumberThatIsInfiniteOnBothSidesLeavesTheOthersTheirTolerance) {
    Schema schema;
    schema.component<Leap>("leap", predicted(0.5));
    Comparison leap(std::move(schema));
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(leap.difference(Leap{-infinity, 1}, Leap{-infinity, 1.4f}), 0u);
    EXPECT_NE(leap.difference(Leap{infinity, 1}, Leap{infinity, 1.6f}), 0u);
    EXPECT_NE(leap.difference(Leap{infinity, 1}, Leap{-infinity, 1}), 0u);
    EXPECT_NE(leap.difference(Leap{infinity, 1}, Leap{2, 1}), 0u);
}

TEST(PredictedValues, AToleranceThatMakesNoSenseIsAnErrorOfTheSchema) {
    for (const double wrong : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
        Schema schema;
        schema.component<Jump>("jump", predicted(wrong));
        EXPECT_EQ(schema.error(), "component 'jump' has a tolerance that is not a number of 0 or more");
    }
    Schema moody;
    moody.component<Mood>("mood", predicted(1));
    EXPECT_EQ(moody.error(), "component 'mood' has a tolerance, but no numbers");
    Schema both;
    both.component<Jump>("jump", predicted(1), from_owner());
    EXPECT_EQ(both.error(),
              "component 'jump' has two roles: it can be predicted() or from_owner(), not both");
}

struct Drift {
    float x = 0;
    double y = 0;
};
struct Fuel {
    std::uint32_t litres = 0;
};
struct Glow {
    float light = 0;  // without a codec
};
struct Paint {
    int colour = 0;
};

struct Predicting {
    explicit Predicting(bool is_quantised = false) {
        schema.component<Paint>("paint");
        schema.component<Drift>("drift", quantised(-100, 100, 0.5), predicted());
        schema.component<Fuel>("fuel", predicted());
        schema.component<Glow>("glow", predicted());
        if (is_quantised) schema.quantise_authority();
        EXPECT_EQ(schema.error(), "");
        values.emplace(world, schema, nobody);
    }
    std::vector<std::uint32_t> row(ecs::Entity of) {
        std::vector<std::uint32_t> out(values->row_words(), 0xdead);
        nans = values->capture(of, out);
        return out;
    }
    /// The difference between an entity and another one with these values.
    template <class... Ts>
    std::uint32_t difference(ecs::Entity of, const Ts&... others) {
        return values->difference(row(of), row(world.spawn(others...)));
    }

    ecs::World world;
    Schema schema;
    NoReferences nobody;
    std::optional<PredictedValues> values;
    std::uint32_t nans = 0;
};

TEST(PredictedValues, DifferencesAreCountedInStepsOfTheCodec) {
    Predicting test;
    ASSERT_EQ(test.values->components().size(), 3u);
    const ecs::Entity ship = test.world.spawn(Drift{3, 4}, Fuel{9}, Paint{1});
    EXPECT_EQ(test.difference(ship, Drift{3, 4}, Fuel{9}, Paint{2}), 0u) << "another one is not predicted";
    EXPECT_EQ(test.difference(ship, Drift{3.1f, 4.2}, Fuel{9}), 0u);
    EXPECT_EQ(test.difference(ship, Drift{3.5f, 3.5}, Fuel{9}), 0u) << "one step may be due to rounding";
    EXPECT_EQ(test.difference(ship, Drift{4, 4}, Fuel{9}), 2u);
    EXPECT_EQ(test.difference(ship, Drift{4, 1}, Fuel{9}), 6u) << "the greatest one";
    EXPECT_EQ(test.difference(ship, Drift{3, 4}, Fuel{10}), PredictedValues::kOther) << "not rounded";
    EXPECT_EQ(test.difference(ship, Drift{3, 4}), PredictedValues::kOther) << "without fuel";
    EXPECT_EQ(test.difference(ship, Drift{3, 4}, Fuel{9}, Glow{}), PredictedValues::kOther);
}

TEST(PredictedValues, CaptureRoundsOnlyWithAQuantisedAuthority) {
    for (const bool is_quantised : {false, true}) {
        Predicting test(is_quantised);
        const ecs::Entity ship = test.world.spawn(Drift{3.1f, 4.4}, Fuel{9});
        int told = 0;
        const ecs::Hook hook =
            test.world.on_change<Drift>([&](ecs::World&, ecs::Entity, const Drift&) { ++told; });
        test.row(ship);
        EXPECT_FLOAT_EQ(test.world.get<Drift>(ship).x, is_quantised ? 3.0f : 3.1f);
        EXPECT_DOUBLE_EQ(test.world.get<Drift>(ship).y, is_quantised ? 4.5 : 4.4);
        EXPECT_EQ(told, 0) << "without change hooks";
    }
}

TEST(PredictedValues, NanIsCountedAndEqualsNan) {
    Predicting test;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const ecs::Entity ship = test.world.spawn(Drift{nan, 4}, Glow{-nan});
    test.row(ship);
    EXPECT_EQ(test.nans, 2u);
    test.row(test.world.spawn(Drift{1, static_cast<double>(nan)}, Glow{1}));
    EXPECT_EQ(test.nans, 1u);
    test.row(test.world.spawn(Drift{1, 2}, Glow{std::numeric_limits<float>::infinity()}));
    EXPECT_EQ(test.nans, 0u);
    const ecs::Entity dim = test.world.spawn(Glow{nan});
    EXPECT_EQ(test.difference(dim, Glow{-nan}), 0u);
    EXPECT_EQ(test.difference(dim, Glow{1}), PredictedValues::kOther);
    EXPECT_EQ(test.difference(test.world.spawn(Glow{1}), Glow{nan}), PredictedValues::kOther);
    EXPECT_EQ(test.difference(test.world.spawn(Fuel{0x7fc0'0001}), Fuel{0x7fc0'0002}),
              PredictedValues::kOther)
        << "integers are no NaN";
    EXPECT_EQ(test.difference(dim, Glow{std::numeric_limits<float>::infinity()}), PredictedValues::kOther);
}

TEST(PredictedValues, ANanBecomesTheNumberThatThePeerGets) {
    for (const bool is_any : {false, true}) {
        Schema schema;
        schema.component<Leap>("leap", predicted(), is_any ? any_float() : FieldCodec{});
        Comparison leap(std::move(schema));
        leap.world.set(leap.entity, Leap{std::numeric_limits<float>::quiet_NaN(), 2});
        std::vector<std::uint32_t> lanes(leap.values.row_words());
        EXPECT_EQ(leap.values.capture(leap.entity, lanes), 1u);
        EXPECT_EQ(std::isnan(leap.world.get<Leap>(leap.entity).height), is_any);
        EXPECT_EQ(leap.world.get<Leap>(leap.entity).width, 2);
    }
}

TEST(PredictedValues, ANanInAnyNumberOfARotationCountsOnceForTheField) {
    Comparison pose(pose_schema(predicted()));
    const auto nans = [&](const Pose& value) {
        pose.world.set(pose.entity, value);
        std::vector<std::uint32_t> lanes(pose.values.row_words());
        return pose.values.capture(pose.entity, lanes);
    };
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(nans({}), 0u);
    EXPECT_EQ(nans({.turn = {nan, 0, 0, 1}}), 1u);
    EXPECT_EQ(nans({.turn = {0, 0, 0, nan}}), 1u);
    EXPECT_EQ(nans({.turn = {nan, nan, nan, nan}}), 1u);
}

TEST(PredictedValues, AnImageFillsARowAsTheEntityDoes) {
    Predicting test;
    const ecs::Entity ship = test.world.spawn(Paint{5}, Drift{3, 4}, Glow{0.5f}, Replicated{});
    Sender sender(test.world, test.schema, {});
    sender.update(1);
    const std::optional<Version> version =
        sender.shadow().at(sender.shadow().index_of(ship), 1, to_everyone());
    ASSERT_TRUE(version);
    std::vector<std::uint32_t> row(test.values->row_words(), 0xdead);
    const PredictedValues& values = *test.values;
    values.capture(version->image, row);
    EXPECT_EQ(row, test.row(ship));
    values.capture(Image{}, row);
    EXPECT_EQ(row, test.row(test.world.spawn(Paint{5})));
}

TEST(PredictedValues, ChangesAreRoundedOfEntitiesThatReplicate) {
    Predicting test(true);
    ecs::ChangeCollector changes(test.world);
    test.values->watch(changes);
    const ecs::Entity ship = test.world.spawn(Drift{}, Glow{}, Replicated{});
    const ecs::Entity local = test.world.spawn(Drift{});
    test.values->round_changes(changes, test.world.component<Replicated>());
    test.world.set(ship, Drift{3.1f, 4.4});
    test.world.set(local, Drift{3.1f, 4.4});
    test.values->round_changes(changes, test.world.component<Replicated>());
    EXPECT_FLOAT_EQ(test.world.get<Drift>(ship).x, 3);
    EXPECT_DOUBLE_EQ(test.world.get<Drift>(ship).y, 4.5);
    EXPECT_FLOAT_EQ(test.world.get<Drift>(local).x, 3.1f) << "not of this one";
    test.world.set(ship, Drift{7.1f, 0});
    test.world.remove<Drift>(ship);
    test.values->round_changes(changes, test.world.component<Replicated>());
    test.world.add<Drift>(ship);
    test.values->round_changes(changes, test.world.component<Replicated>());
}

struct Tower {
    double x = 0;
    double turn[4] = {0, 0, 0, 1};
};

TEST(PredictedValues, OnlyAnglesTakeTheShorterWay) {
    Schema schema;
    schema.component<Jump>("jump", predicted(0.5));
    Comparison jump(std::move(schema));
    EXPECT_NE(jump.difference(Jump{0}, Jump{static_cast<float>(2 * std::numbers::pi)}), 0u);
}

// Goal: each number of a rotation of doubles is read from its own place.
TEST(PredictedValues, EachNumberOfARotationOfDoublesCounts) {
    Schema schema;
    schema.component<Tower>("tower", field(&Tower::turn, smallest_three(9)), predicted(0.02));
    ASSERT_EQ(schema.error(), "");
    Comparison tower(std::move(schema));
    const double half = std::sqrt(0.5);
    EXPECT_EQ(tower.difference(Tower{0, {0, 0, 0.01, 1}}, Tower{0, {0, 0, 0, 1}}), 0u);
    for (std::size_t i = 0; i < 3; ++i) {
        Tower turned{0, {0, 0, 0, half}};
        turned.turn[i] = half;
        EXPECT_NE(tower.difference(Tower{}, turned), 0u) << i;
        Tower broken;
        broken.turn[i] = std::nan("");
        tower.world.set(tower.entity, broken);
        std::vector<std::uint32_t> lanes(tower.values.row_words());
        EXPECT_EQ(tower.values.capture(tower.entity, lanes), 1u) << i;
    }
}

}  // namespace
}  // namespace shoal::replication::impl::predicted_values_test
