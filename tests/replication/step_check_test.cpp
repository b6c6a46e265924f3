#include "replication/predict/step_check.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <tuple>
#include <vector>

namespace shoal::replication::impl::step_check_test {

/// The fields whose names begin with `local` do not replicate.
struct Meters {
    std::int8_t a = 0;
    std::uint8_t local_a = 0;
    std::int16_t b = 0;
    std::uint8_t local_b = 0;
    std::uint16_t c = 0;
    std::uint8_t local_c = 0;
    bool d = false;
    std::uint8_t local_d = 0;
    float e = 0;
    std::uint8_t local_e = 0;
    double f = 0;
    std::uint8_t local_f = 0;
    std::uint8_t g[3] = {};
    std::uint8_t local_g = 0;
};

struct Mark {
    std::uint8_t kind = 3;
    std::uint8_t local_kind = 77;
};

}  // namespace shoal::replication::impl::step_check_test

template <>
struct shoal::replication::Replicate<shoal::replication::impl::step_check_test::Mark> {
    static auto fields(auto& m) { return std::tie(m.kind); }
};

template <>
struct shoal::replication::Replicate<shoal::replication::impl::step_check_test::Meters> {
    static auto fields(auto& m) { return std::tie(m.a, m.b, m.c, m.d, m.e, m.f, m.g); }
};

namespace shoal::replication::impl::step_check_test {
namespace {

struct Place {
    float x = 0;
    std::int32_t lap = 0;
};
struct Boost {
    float power = 1;
};
struct Purse {
    int coins = 0;
};
struct Footsteps {  // not in the schema
    int count = 0;
};

Schema checked_schema() {
    Schema schema;
    schema.component<Place>("place", field(&Place::x, quantised(-50, 50, 0.5)), predicted());
    schema.component<Boost>("boost", predicted());
    schema.component<Purse>("purse");
    return schema;
}

/// A step function runs in a world with an entity that the client predicts, and one that it does not.
struct Checked {
    /// Runs one tick, and returns the faults as texts.
    std::vector<std::string> run(const std::function<void(bool)>& step) {
        faults.clear();
        check.run(7, step);
        std::vector<std::string> texts;
        for (std::size_t i = 0; i < faults.size(); ++i) {
            const StepFault& fault = faults[i];
            EXPECT_EQ(fault.tick, 7u);
            const std::string who = fault.entity == ours ? "ours" : fault.entity == other ? "other" : "new";
            const char* const kinds[] = {"write", "destroy", "difference"};
            texts.push_back(std::string(kinds[static_cast<int>(fault.kind)]) + " " + who + " " + names[i] +
                            fault.first + fault.second);
        }
        return texts;
    }

    Schema schema = checked_schema();
    ecs::World world;
    ecs::Entity ours = world.spawn(Place{}, Purse{}, Footsteps{}, Predicted{});
    ecs::Entity other = world.spawn(Place{}, Purse{});
    std::vector<StepFault> faults;
    std::vector<std::string> names;
    StepCheck check{world, schema, 3, [this](const StepFault& fault) {
                        if (faults.empty()) names.clear();
                        faults.push_back(fault);
                        names.emplace_back(fault.component);
                    }};
};
using Texts = std::vector<std::string>;

TEST(StepCheck, ACorrectStepIsRunTwiceAndCountsOnce) {
    Checked checked;
    std::vector<bool> runs;
    EXPECT_EQ(checked.run([&](bool is_new) {
        runs.push_back(is_new);
        checked.world.patch<Place>(checked.ours, [](Place& place) { place.x += 0.1f; });
        checked.world.has<Boost>(checked.ours) ? checked.world.remove<Boost>(checked.ours)
                                               : checked.world.add<Boost>(checked.ours);
    }),
              Texts{});
    EXPECT_EQ(runs, (std::vector<bool>{true, false}));
    EXPECT_FLOAT_EQ(checked.world.get<Place>(checked.ours).x, 0.1f);
    EXPECT_TRUE(checked.world.has<Boost>(checked.ours));
    EXPECT_EQ(checked.run([&](bool) { checked.world.remove<Boost>(checked.ours); }), Texts{});
    EXPECT_FALSE(checked.world.has<Boost>(checked.ours));
}

TEST(StepCheck, OnlyEachNthTickIsChecked) {
    const Checked checked;
    std::string due;
    for (Tick tick = 0; tick < 7; ++tick) due += checked.check.is_due(tick) ? 'x' : '.';
    EXPECT_EQ(due, "x..x..x");
}

TEST(StepCheck, Trap16AStepThatCountsInALocalComponentIsNamed) {
    Checked checked;
    const Texts faults = checked.run([&](bool) {
        checked.world.patch<Footsteps>(checked.ours, [](Footsteps& steps) { steps.count += 1; });
        const int count = checked.world.get<Footsteps>(checked.ours).count;
        checked.world.patch<Place>(checked.ours, [&](Place& place) {
            place.lap = count;
            place.x = static_cast<float>(count) / 8;
        });
    });
    ASSERT_EQ(faults.size(), 2u);
    EXPECT_NE(faults[0].find("write ours"), std::string::npos);
    EXPECT_NE(faults[0].find("Footsteps"), std::string::npos);
    EXPECT_EQ(faults[1], "difference ours place{0.125, 1}{0.25, 2}");
    EXPECT_EQ(checked.world.get<Place>(checked.ours).lap, 1) << "the first result stays";
}

TEST(StepCheck, Trap16ACountOutsideOfTheWorldIsFoundByItsEffect) {
    Checked checked;
    int count = 0;
    EXPECT_EQ(checked.run([&](bool) {
        checked.world.patch<Place>(checked.ours,
                                   [&](Place& place) { place.x += static_cast<float>(++count); });
    }),
              Texts{"difference ours place{1, 0}{2, 0}"});
    EXPECT_EQ(checked.run([&](bool is_new) {
        if (is_new) checked.world.add<Boost>(checked.ours);
    }),
              Texts{"difference ours boost{1}absent"});
    EXPECT_TRUE(checked.world.has<Boost>(checked.ours));
    checked.world.remove<Boost>(checked.ours);
    EXPECT_EQ(checked.run([&](bool is_new) {
        if (is_new) checked.world.set(checked.ours, Boost{0});
    }),
              Texts{"difference ours boost{0}absent"});
}

TEST(StepCheck, Trap16WritesToOtherComponentsAndEntitiesAreNamed) {
    Checked checked;
    EXPECT_EQ(checked.run([&](bool) { checked.world.set(checked.ours, Purse{1}); }),
              Texts{"write ours purse"});
    EXPECT_EQ(checked.run([&](bool) {
        checked.world.set(checked.other, Place{1, 1});
    }),
              Texts{"write other place"});
    EXPECT_EQ(checked.run([&](bool) { checked.world.remove<Purse>(checked.ours); })[0], "write ours purse");
    struct Late {};
    const Texts late = checked.run([&](bool) { checked.world.add<Late>(checked.ours); });
    EXPECT_EQ(late.size(), 0u) << "a type that the world did not know before";
    checked.world.remove<Late>(checked.ours);
    EXPECT_EQ(checked.run([&](bool) { checked.world.add<Late>(checked.ours); }).size(), 1u);
    EXPECT_EQ(checked.run([&](bool is_new) {
        if (is_new) checked.world.spawn(Place{});
    }),
              Texts{"write new place"});
    EXPECT_EQ(checked.run([&](bool is_new) {
        if (is_new) checked.world.destroy(checked.other);
    }),
              Texts{"destroy other "});
}

TEST(StepCheck, AStepThatDestroysWhatItPredictsIsNamed) {
    Checked checked;
    const Texts faults = checked.run([&](bool is_new) {
        if (is_new) checked.world.destroy(checked.ours);
    });
    EXPECT_EQ(faults, Texts{"destroy ours "});
}

TEST(StepCheck, FieldsThatDoNotReplicateAreNeitherComparedNorRestored) {
    Schema schema;
    schema.component<Meters>("meters", predicted());
    ASSERT_EQ(schema.error(), "");
    ecs::World world;
    const ecs::Entity ours = world.spawn(Meters{}, Predicted{});
    const auto locals = [](Meters& m) {
        return std::array{&m.local_a, &m.local_b, &m.local_c, &m.local_d, &m.local_e, &m.local_f, &m.local_g};
    };
    int faults = 0;
    StepCheck check(world, schema, 1, [&](const StepFault&) { ++faults; });
    check.run(1, [&](bool) {
        world.patch<Meters>(ours, [&](Meters& meters) {
            for (std::uint8_t* const local : locals(meters)) *local = static_cast<std::uint8_t>(*local + 1);
            meters.a = static_cast<std::int8_t>(meters.a + 1);
            meters.g[2] = static_cast<std::uint8_t>(meters.g[2] + 1);
        });
    });
    EXPECT_EQ(faults, 0);
    Meters meters = world.get<Meters>(ours);
    EXPECT_EQ(meters.a, 1);
    EXPECT_EQ(meters.g[2], 1);
    for (const std::uint8_t* const local : locals(meters)) EXPECT_EQ(*local, 2) << "of both runs";
}

struct Turn {
    float q[4] = {0, 0, 0, 1};
};

// Goal: all entities and all numbers of a field are put back before the second run, and compared after it.
TEST(StepCheck, EachEntityAndEachNumberOfAFieldIsComparedAndRestored) {
    Schema schema;
    schema.component<Turn>("turn", smallest_three(9), predicted());
    ASSERT_EQ(schema.error(), "");
    ecs::World world;
    std::vector<ecs::Entity> ours;
    for (int i = 0; i < 3; ++i) ours.push_back(world.spawn(Turn{}, Predicted{}));
    for (std::size_t wrong = 0; wrong <= 12; ++wrong) {
        SCOPED_TRACE(testing::Message() << "number " << wrong);
        std::vector<ecs::Entity> faults;
        StepCheck check(world, schema, 1, [&](const StepFault& fault) {
            EXPECT_EQ(fault.kind, StepFault::Kind::difference);
            faults.push_back(fault.entity);
        });
        for (std::size_t i = 0; i < 3; ++i) world.set(ours[i], Turn{});
        check.run(1, [&](bool is_new) {
            for (std::size_t n = 0; n < 12; ++n)
                world.patch<Turn>(ours[n / 4],
                                  [&](Turn& turn) { turn.q[n % 4] += is_new || n != wrong ? 0.25f : 0.5f; });
        });
        EXPECT_EQ(faults, wrong < 12 ? std::vector{ours[wrong / 4]} : std::vector<ecs::Entity>());
        for (std::size_t n = 0; n < 12; ++n)
            EXPECT_EQ(world.get<Turn>(ours[n / 4]).q[n % 4], n % 4 == 3 ? 1.25f : 0.25f) << n;
    }
}

TEST(StepCheck, AComponentThatAStepRemovedIsPutBackWithDefaultsInItsOtherFields) {
    Schema schema;
    schema.component<Mark>("mark", predicted());
    ecs::World world;
    const ecs::Entity ours = world.spawn(Mark{5, 6}, Predicted{});
    int faults = 0;
    StepCheck check(world, schema, 1, [&](const StepFault&) { ++faults; });
    check.run(1, [&](bool is_new) {
        EXPECT_EQ(world.has<Mark>(ours), true);
        EXPECT_EQ(world.get<Mark>(ours).kind, 5);
        EXPECT_EQ(world.get<Mark>(ours).local_kind, is_new ? 6 : 77);
        world.remove<Mark>(ours);
    });
    EXPECT_EQ(faults, 0);
    EXPECT_FALSE(world.has<Mark>(ours));
}

TEST(StepCheck, ValuesThatAreEqualArePutBackWithoutAChangeHook) {
    Checked checked;
    int changes = 0;
    const ecs::Hook hook =
        checked.world.on_change<Place>([&](ecs::World&, ecs::Entity, const Place&) { ++changes; });
    EXPECT_EQ(checked.run([](bool) {}), Texts{});
    EXPECT_EQ(changes, 0);
}

}  // namespace
}  // namespace shoal::replication::impl::step_check_test
