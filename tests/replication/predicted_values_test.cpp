#include "replication/predict/predicted_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

namespace shoal::replication::predicted_values_test {
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
    EXPECT_NE(jump.difference(Jump{infinity}, Jump{-infinity}), 0u);
    Schema zero;
    zero.component<Jump>("jump", quantised(0, 10, 0.5), predicted(0));
    EXPECT_EQ(Comparison(std::move(zero)).difference(Jump{1}, Jump{1.5f}), 1u) << "none at all";
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

}  // namespace
}  // namespace shoal::replication::predicted_values_test
