#include "replication/predict/smoothing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace shoal::replication::impl::smoothing_test {
namespace {

using namespace std::chrono_literals;

struct Buoy {
    float x = 0;
    int colour = 0;
    double depth = 0;
};

struct Shown {
    explicit Shown(double cut = 0) {
        schema.component<Buoy>("buoy", field(&Buoy::x, quantised(-100, 100, 0.01)), predicted(), linear(cut));
        smoothing.emplace(world, schema);
        buoy = world.spawn(Buoy{});
    }
    void tick(float x) {
        world.set(buoy, Buoy{x, 7, 2.0 * static_cast<double>(x)});
        smoothing->take_tick(buoy, shown);
    }
    Buoy show(double fraction) {
        Buoy value = world.get<Buoy>(buoy);
        smoothing->show(shown, fraction, &type_address<Buoy>, &value);
        return value;
    }
    /// The ticks -1 and 0 are computed again.
    void correct(float before, float now, double fraction) {
        smoothing->begin_jump(shown, fraction);
        tick(before);
        tick(now);
        smoothing->end_jump(shown, fraction);
    }

    ecs::World world;
    Schema schema;
    std::optional<Smoothing> smoothing;
    Smoothing::Shown shown;
    ecs::Entity buoy;
};

TEST(Smoothing, ShowsAMixOfTheLastTwoTicks) {
    Shown shown;
    shown.tick(10);
    EXPECT_FLOAT_EQ(shown.show(0.5).x, 10) << "the first tick";
    shown.tick(12);
    EXPECT_FLOAT_EQ(shown.show(0).x, 10);
    EXPECT_FLOAT_EQ(shown.show(0.25).x, 10.5);
    EXPECT_DOUBLE_EQ(shown.show(0.5).depth, 22);
    EXPECT_EQ(shown.show(0.5).colour, 7);
}

TEST(Smoothing, ACorrectionIsShownOverSomeTime) {
    Shown shown;
    shown.tick(10);
    shown.tick(12);
    shown.correct(15, 17, 0.5);
    EXPECT_NEAR(shown.show(0.5).x, 11, 1e-5) << "as before";
    shown.smoothing->decay(shown.shown, 100ms);
    EXPECT_NEAR(shown.show(0.5).x, 16 - 5 / std::exp(1.0), 1e-5);
    shown.smoothing->decay(shown.shown, 2s);
    EXPECT_NEAR(shown.show(0.5).x, 16, 1e-5);
}

struct Vane {
    double radians = 0;
};
struct Pose {
    double x = 0, y = 0, z = 0, w = 1;
};
Pose turned(double radians, double sign = 1) {
    return {0, 0, sign * std::sin(radians / 2), sign * std::cos(radians / 2)};
}

/// A vane and a pose that turn around the same axis.
struct Turning {
    Turning() {
        schema.component<Vane>("vane", predicted(), angular());
        schema.component<Pose>("pose", predicted(), slerp());
        smoothing.emplace(world, schema);
        ship = world.spawn(Vane{}, Pose{});
    }
    /// `sign`: of the quaternion.
    void tick(double radians, double sign = 1) {
        world.set(ship, Vane{std::remainder(radians, 2 * std::numbers::pi)});
        world.set(ship, turned(radians, sign));
        smoothing->take_tick(ship, shown);
    }
    void correct(double before, double now, double fraction, double sign = 1) {
        smoothing->begin_jump(shown, fraction);
        tick(before, sign);
        tick(now, -sign);
        smoothing->end_jump(shown, fraction);
    }
    /// Expects that both are shown turned so far.
    void expect(double radians, double fraction, double tolerance) const {
        Vane vane;
        smoothing->show(shown, fraction, &type_address<Vane>, &vane);
        EXPECT_NEAR(std::remainder(vane.radians - radians, 2 * std::numbers::pi), 0, tolerance);
        EXPECT_LE(std::abs(vane.radians), std::numbers::pi);
        Pose pose;
        smoothing->show(shown, fraction, &type_address<Pose>, &pose);
        EXPECT_NEAR(std::remainder(2 * std::atan2(pose.z, pose.w) - radians, 2 * std::numbers::pi), 0,
                    tolerance);
        EXPECT_NEAR(std::hypot(std::hypot(pose.x, pose.y), std::hypot(pose.z, pose.w)), 1, 1e-9);
    }

    ecs::World world;
    Schema schema;
    std::optional<Smoothing> smoothing;
    Smoothing::Shown shown;
    ecs::Entity ship;
};

// A prediction begins with a correction: the server's state is restored, and the ticks since then are
// computed.
TEST(Smoothing, WhatBeginsWithinACorrectionIsShownWhereItIs) {
    enum class Way { new_entity, new_component, after_forget };
    for (const Way way : {Way::new_entity, Way::new_component, Way::after_forget}) {
        for (const double cut : {0.0, 1'000.0}) {
            Shown shown(cut);
            if (way == Way::after_forget) shown.tick(50);
            if (way == Way::after_forget) shown.smoothing->forget(shown.shown);
            if (way == Way::new_component) {
                shown.world.remove<Buoy>(shown.buoy);
                shown.smoothing->take_tick(shown.buoy, shown.shown);
                shown.world.add<Buoy>(shown.buoy);
            }
            shown.correct(90, 100, 0.5);
            EXPECT_FLOAT_EQ(shown.show(0.5).x, 95) << static_cast<int>(way) << " " << cut;
            EXPECT_DOUBLE_EQ(shown.show(0.5).depth, 190) << static_cast<int>(way) << " " << cut;
        }
    }
    Turning turning;
    turning.correct(3.0, 3.1, 0.5);
    turning.expect(3.05, 0.5, 1e-4);
}

// Angles on both sides of half a turn, and quaternions whose signs change.
TEST(Smoothing, Trap40AnglesAndRotationsAreMixedTheShorterWay) {
    Turning turning;
    turning.tick(3.1);
    turning.tick(3.2, -1);
    turning.expect(3.1, 0, 1e-9);
    turning.expect(3.15, 0.5, 1e-4);
    turning.tick(3.3);
    turning.expect(3.225, 0.25, 1e-4);
}

TEST(Smoothing, Trap40ACorrectionOfAnAngleOrRotationTakesTheShorterWayOverSomeTime) {
    for (const double sign : {1.0, -1.0}) {
        Turning turning;
        turning.tick(3.0);
        turning.tick(3.1);
        turning.correct(3.4, 3.5, 0.5, sign);
        turning.expect(3.05, 0.5, 1e-6);  // as before
        turning.smoothing->decay(turning.shown, 100ms);
        turning.expect(3.45 - 0.4 / std::exp(1.0), 0.5, 0.005);
        turning.tick(3.6, sign);
        turning.expect(3.55 - 0.4 / std::exp(1.0), 0.5, 0.005);
        turning.smoothing->decay(turning.shown, 3s);
        turning.expect(3.55, 0.5, 1e-4);
    }
}

struct Beam {
    float x = 1, y = 0, z = 0;
};

TEST(Smoothing, ADirectionStaysOfLengthOne) {
    Schema schema;
    schema.component<Beam>("beam", unit_vector(12), predicted(), linear());
    ecs::World world;
    const Smoothing smoothing(world, schema);
    Smoothing::Shown shown;
    const ecs::Entity ship = world.spawn(Beam{});
    smoothing.take_tick(ship, shown);
    world.set(ship, Beam{0, 1, 0});
    smoothing.take_tick(ship, shown);
    Beam beam;
    smoothing.show(shown, 0.5, &type_address<Beam>, &beam);
    EXPECT_NEAR(beam.x, std::sqrt(0.5f), 1e-6f);
    EXPECT_NEAR(beam.y, std::sqrt(0.5f), 1e-6f);
}

TEST(Smoothing, Trap17AGreatJumpOrATeleportIsShownAtOnce) {
    Shown cut(20);
    cut.tick(0);
    cut.tick(0);
    cut.correct(80, 80, 0.5);
    EXPECT_FLOAT_EQ(cut.show(0.5).x, 80);
    Shown teleported;
    teleported.tick(0);
    teleported.tick(0);
    teleported.correct(0, 80, 0.5);
    teleported.smoothing->forget(teleported.shown);
    teleported.smoothing->take_tick(teleported.buoy, teleported.shown);
    EXPECT_FLOAT_EQ(teleported.show(0.5).x, 80);
}

TEST(Smoothing, Trap18NanLeavesNoError) {
    Shown shown;
    shown.tick(1);
    shown.tick(std::numeric_limits<float>::quiet_NaN());
    shown.correct(5, 5, 0.5);
    EXPECT_FLOAT_EQ(shown.show(0.5).x, 5);
}

TEST(Smoothing, AnEntityWithoutTheComponentIsLeftOut) {
    Shown shown;
    shown.tick(10);
    shown.world.remove<Buoy>(shown.buoy);
    shown.smoothing->take_tick(shown.buoy, shown.shown);
    shown.smoothing->begin_jump(shown.shown, 0.5);
    shown.smoothing->take_tick(shown.buoy, shown.shown);
    shown.smoothing->end_jump(shown.shown, 0.5);
    shown.tick(10);
    EXPECT_FLOAT_EQ(shown.show(0.5).x, 10);
}

TEST(Smoothing, ACorrectionAsGreatAsTheCutIsShownOverSomeTime) {
    Shown cut(20);
    cut.tick(0);
    cut.tick(0);
    cut.correct(8, 8, 0.5);  // the depth, which is twice as great, too
    EXPECT_FLOAT_EQ(cut.show(0.5).x, 0);
    cut.correct(10, 10, 1);
    EXPECT_FLOAT_EQ(cut.show(0.5).x, 0);
    EXPECT_FLOAT_EQ(static_cast<float>(cut.show(0.5).depth), 0);
    cut.correct(20.5f, 20.5f, 1);
    EXPECT_FLOAT_EQ(cut.show(0.5).x, 20.5f);
}

TEST(Smoothing, BeforeTheFirstTickAndAfterForgetTheValueIsShownUnchanged) {
    Shown shown;
    shown.smoothing->begin_jump(shown.shown, 0.5);
    shown.smoothing->end_jump(shown.shown, 0.5);
    EXPECT_FLOAT_EQ(shown.show(0.5).x, 0);
    shown.tick(10);
    shown.tick(12);
    shown.correct(15, 17, 0.5);
    shown.smoothing->forget(shown.shown);
    EXPECT_FLOAT_EQ(shown.show(0.5).x, 17);
    shown.tick(19);
    EXPECT_FLOAT_EQ(shown.show(0.5).x, 19);
    shown.tick(21);
    EXPECT_FLOAT_EQ(shown.show(0.5).x, 20);
}

TEST(Smoothing, OnlyPredictedComponentsWithADisplayAreChanged) {
    Schema schema;
    schema.component<Buoy>("buoy", linear());
    schema.component<Vane>("vane", predicted());
    schema.component<Beam>("beam", predicted(), linear());
    ecs::World world;
    const Smoothing smoothing(world, schema);
    Smoothing::Shown shown;
    const ecs::Entity ship = world.spawn(Buoy{}, Vane{}, Beam{0, 0, 0});
    smoothing.take_tick(ship, shown);
    world.set(ship, Buoy{4, 0, 4});
    world.set(ship, Vane{4});
    world.set(ship, Beam{4, 0, 0});
    smoothing.take_tick(ship, shown);
    Buoy buoy{4, 0, 4};
    Vane vane{4};
    Beam beam{4, 0, 0};
    smoothing.show(shown, 0.5, &type_address<Buoy>, &buoy);
    smoothing.show(shown, 0.5, &type_address<Vane>, &vane);
    smoothing.show(shown, 0.5, &type_address<Beam>, &beam);
    EXPECT_EQ(buoy.x, 4);
    EXPECT_EQ(vane.radians, 4);
    EXPECT_EQ(beam.x, 2);
}

}  // namespace
}  // namespace shoal::replication::impl::smoothing_test
