#include "replication/predict/smoothing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace shoal::replication::play_smoothing_test {
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
        smoothing->show(shown, fraction, &detail::type_address<Buoy>, &value);
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
    Smoothing::Entity shown;
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

}  // namespace
}  // namespace shoal::replication::play_smoothing_test
