#include "replication/show/mixer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl::mixer_test {
namespace {

struct Height {
    float metres = 0;
};
struct Mast {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};

/// Two images of a height and a mast, with at most one target each. Each image is followed by another word.
struct Journey {
    /// Returns what is shown after a quarter of the way from 0 to 8 metres.
    float quarter(std::vector<std::uint32_t> from_targets, std::vector<std::uint32_t> to_targets) {
        const std::vector<std::uint32_t> from = words_of(0, from_targets), to = words_of(8, to_targets);
        const auto image = [&](const std::vector<std::uint32_t>& words) {
            return Image{shape, std::span(words).first(words.size() - 1)};
        };
        Height height{-1};
        mixer.mix(static_cast<ComponentIndex>(schema.find<Height>()), {image(from), image(to), 0.25f}, nobody,
                  &height);
        return height.metres;
    }
    static std::vector<std::uint32_t> words_of(float metres, const std::vector<std::uint32_t>& targets) {
        std::vector<std::uint32_t> words{std::bit_cast<std::uint32_t>(metres),
                                         static_cast<std::uint32_t>(targets.size())};
        words.insert(words.end(), targets.begin(), targets.end());
        words.push_back(std::bit_cast<std::uint32_t>(metres));
        return words;
    }
    static Schema declared() {
        Schema out;
        out.component<Height>("height", linear());
        out.pair<Mast>("mast");
        return out;
    }

    Schema schema = declared();
    ShapeTable shapes{schema};
    const Shape* shape = shapes.shape(std::vector<ComponentIndex>{0, 1});
    Mixer mixer{schema};
    NoEntities nobody;
};

TEST(Mixer, AnotherTargetIsAnotherJourney) {
    Journey journey;
    EXPECT_FLOAT_EQ(journey.quarter({7}, {7}), 2);
    EXPECT_FLOAT_EQ(journey.quarter({7}, {9}), -1) << "the value in the world is shown";
    EXPECT_FLOAT_EQ(journey.quarter({7}, {}), -1);
    EXPECT_FLOAT_EQ(journey.quarter({}, {}), 2);
}

/// Times between the versions of an entity. Their images are told apart by their words.
struct Times {
    Times() { mixer.set_tick_us(20'000); }  // 100 ms are 5 ticks
    Version version(std::size_t which, Tick tick) const {
        return {tick, Image{nullptr, std::span(words).subspan(which, 1)}};
    }
    /// Returns the weight of the second image; nothing if `shown` is shown unchanged.
    std::optional<float> weight(double time) {
        Mixer::Mix mix;
        const double whole = std::floor(time);
        const RenderTime at{static_cast<Tick>(whole), static_cast<float>(time - whole)};
        if (!mixer.find(around, at, mix)) return std::nullopt;
        EXPECT_EQ(mix.from.words.data(), words + (around.next ? 1 : 0));
        EXPECT_EQ(mix.to.words.data(), words + (around.next ? 2 : 1));
        return mix.weight;
    }

    std::uint32_t words[3] = {};
    Schema schema = Journey::declared();
    Mixer mixer{schema};
    Mixer::Around around;
};

TEST(Mixer, AJourneyTakesTheTimeBetweenTwoVersionsOrTheLastInterval) {
    Times times;
    times.around.shown = times.version(1, 100);
    times.around.next = times.version(2, 108);
    times.around.mean_gap = 4;
    EXPECT_EQ(times.weight(100), std::nullopt);
    EXPECT_FLOAT_EQ(*times.weight(102), 0.25f) << "two intervals";
    EXPECT_FLOAT_EQ(*times.weight(107.5), 7.5f / 8);
    times.around.next = times.version(2, 109);
    EXPECT_EQ(times.weight(102), std::nullopt);
    EXPECT_EQ(times.weight(105), std::nullopt) << "it stood still until an interval before 109";
    EXPECT_FLOAT_EQ(*times.weight(106), 0.25f);
    times.around.mean_gap = 0;  // unknown: a tick
    EXPECT_EQ(times.weight(108), std::nullopt);
    EXPECT_FLOAT_EQ(*times.weight(108.5), 0.5f);
}

TEST(Mixer, MissingStateContinuesTheLastJourneyForTwoIntervalsAndATenthOfASecond) {
    Times times;
    times.around.before = times.version(0, 96);
    times.around.shown = times.version(1, 100);
    times.around.mean_gap = 2;
    times.around.newest = 101;
    EXPECT_EQ(times.weight(100), std::nullopt);
    EXPECT_FLOAT_EQ(*times.weight(101), 1.25f);
    EXPECT_FLOAT_EQ(*times.weight(120), 2) << "two intervals";
    times.around.mean_gap = 4;
    EXPECT_FLOAT_EQ(*times.weight(120), 1 + 5.0f / 4) << "100 ms";
    times.around.newest = 103;
    EXPECT_TRUE(times.weight(101));
    times.around.newest = 104;
    EXPECT_EQ(times.weight(101), std::nullopt) << "a record was due: the entity stands still";
    times.around.newest = 102;
    times.around.mean_gap = 2.5f;
    EXPECT_TRUE(times.weight(101)) << "about three ticks";
    times.around.mean_gap = 2.4f;
    EXPECT_EQ(times.weight(101), std::nullopt) << "about two ticks";
    times.around.mean_gap = 4;
    times.around.newest = 101;
    times.around.before = times.version(0, 92);
    EXPECT_TRUE(times.weight(101));
    times.around.before = times.version(0, 91);
    EXPECT_EQ(times.weight(101), std::nullopt) << "no journey: it stood still before";
    times.around.before = times.version(0, 96);
    times.around.is_last = true;
    EXPECT_EQ(times.weight(101), std::nullopt);
    times.around.is_last = false;
    times.around.before.reset();
    EXPECT_EQ(times.weight(101), std::nullopt);
}

struct Bearing {
    float radians = 0;
    int colour = 0;
};
struct Attitude {
    double x = 0, y = 0, z = 0, w = 1;
};
struct Heading3 {
    float x = 1, y = 0, z = 0;
};
struct Depth {
    double metres = 0;
    float celsius = 0;
};

/// Mixes two values of a component of the schema.
struct Values {
    template <class T>
    T mix(const T& from, const T& to, float weight, const T& in_world, std::uint32_t teleports = 0) {
        const auto component = static_cast<ComponentIndex>(schema.find<T>());
        const auto counter = static_cast<ComponentIndex>(schema.find<Teleports>());
        std::vector<ComponentIndex> both{std::min(component, counter), std::max(component, counter)};
        const Shape* const shape = shapes.shape(both);
        const auto words_of = [&](const T& value, std::uint32_t count) {
            const ComponentLayout& layout = schema.components()[component].layout;
            std::vector<std::uint32_t> lanes(layout.lanes().size()), parts;
            ComponentLayout::Misfits misfits;
            layout.quantise(&value, nobody, lanes.data(), parts, misfits);
            lanes.insert(component < counter ? lanes.end() : lanes.begin(), count);
            return lanes;
        };
        const std::vector<std::uint32_t> a = words_of(from, 0), b = words_of(to, teleports);
        T out = in_world;
        ComponentIndex found = 0;
        EXPECT_TRUE(mixer.shows(&type_address<T>, found));
        EXPECT_EQ(found, component);
        mixer.mix(component, {{shape, a}, {shape, b}, weight}, nobody, &out);
        return out;
    }
    static Schema declared() {
        Schema out;
        out.component<Bearing>("bearing", angular());
        out.component<Attitude>("attitude", slerp());
        out.component<Heading3>("heading", unit_vector(12), linear());
        out.component<Depth>("depth", linear(5));
        EXPECT_EQ(out.error(), "");
        return out;
    }

    Schema schema = declared();
    ShapeTable shapes{schema};
    Mixer mixer{schema};
    NoEntities nobody;
};

TEST(Mixer, AnAngleTakesTheShorterWayAndOtherFieldsStay) {
    Values values;
    const Bearing mixed = values.mix<Bearing>({3, 1}, {-3, 2}, 0.75f, {0, 7});
    const float way = 2 * std::numbers::pi_v<float> - 6;
    EXPECT_NEAR(mixed.radians, 3 + 0.75f * way - 2 * std::numbers::pi_v<float>, 1e-5f);
    EXPECT_EQ(mixed.colour, 7);
    EXPECT_NEAR(values.mix<Bearing>({1, 0}, {2, 0}, 0.75f, {}).radians, 1.75f, 1e-5f);
}

TEST(Mixer, ARotationTakesTheShorterWayAtOneSpeed) {
    Values values;
    const auto turned = [](double radians, double sign) {
        return Attitude{sign * std::sin(radians / 2), 0, 0, sign * std::cos(radians / 2)};
    };
    for (const double angle : {2.8, 0.02})
        for (const double sign : {1.0, -1.0}) {
            const Attitude mixed =
                values.mix<Attitude>(turned(0.5, 1), turned(0.5 + angle, sign), 0.25f, Attitude{});
            EXPECT_NEAR(2 * std::atan2(mixed.x, mixed.w), 0.5 + angle / 4, 1e-6) << angle << ' ' << sign;
            EXPECT_NEAR(std::hypot(mixed.x, mixed.w), 1, 1e-9);
        }
}

TEST(Mixer, ADirectionStaysOfLengthOne) {
    Values values;
    const Heading3 mixed = values.mix<Heading3>({1, 0, 0}, {0, 0, 1}, 0.5f, {});
    EXPECT_NEAR(mixed.x, std::sqrt(0.5f), 1e-3f);
    EXPECT_NEAR(mixed.y, 0, 1e-3f);
    EXPECT_NEAR(mixed.z, std::sqrt(0.5f), 1e-3f);
    EXPECT_NEAR(std::hypot(mixed.x, mixed.y, mixed.z), 1, 1e-6f);
}

TEST(Mixer, AJumpBeyondTheCutOrATeleportIsNotMixed) {
    Values values;
    EXPECT_DOUBLE_EQ(values.mix<Depth>({10, 1}, {15, -1}, 0.5f, {77, 77}).metres, 12.5);
    EXPECT_FLOAT_EQ(values.mix<Depth>({10, 1}, {15, -3}, 0.5f, {77, 77}).celsius, -1);
    EXPECT_DOUBLE_EQ(values.mix<Depth>({10, 1}, {15.5, 1}, 0.5f, {77, 77}).metres, 77);
    EXPECT_DOUBLE_EQ(values.mix<Depth>({10, 1}, {4.5, 1}, 0.5f, {77, 77}).metres, 77);
    EXPECT_DOUBLE_EQ(values.mix<Depth>({10, 7}, {10, 1}, 0.5f, {77, 77}).metres, 77) << "one of the numbers";
    EXPECT_DOUBLE_EQ(values.mix<Depth>({10, 1}, {11, 1}, 0.5f, {77, 77}, 1).metres, 77) << "a teleport";
}

TEST(Mixer, ACutMayBeLessThanOne) {
    Schema schema;
    schema.component<Height>("height", linear(0.5));
    const Mixer mixer(schema);
    const auto height = static_cast<ComponentIndex>(schema.find<Height>());
    const auto halfway = [&](const Height& before, Height value) {
        mixer.blend(height, std::as_bytes(std::span(&before, 1)), 0.5f, &value);
        return value.metres;
    };
    EXPECT_FLOAT_EQ(halfway({1}, {1.5f}), 1.25f);
    EXPECT_FLOAT_EQ(halfway({1}, {1.75f}), 1.75f);
    EXPECT_FLOAT_EQ(halfway({1}, {0.25f}), 0.25f);
}

TEST(Mixer, ABlendBeginsWithWhatWasShown) {
    Values values;
    const auto blend = [&]<class T>(const T& before, T value, float weight) {
        values.mixer.blend(static_cast<ComponentIndex>(values.schema.find<T>()),
                           std::as_bytes(std::span(&before, 1)), weight, &value);
        return value;
    };
    EXPECT_DOUBLE_EQ(blend(Depth{10, 1}, Depth{12, 2}, 0.25f).metres, 10.5);
    EXPECT_FLOAT_EQ(blend(Depth{10, 1}, Depth{12, 2}, 0.25f).celsius, 1.25f);
    EXPECT_DOUBLE_EQ(blend(Depth{10, 1}, Depth{16, 2}, 0.25f).metres, 16) << "beyond the cut";
    EXPECT_NEAR(blend(Bearing{3, 1}, Bearing{-3.1f, 2}, 0.5f).radians, 3.0916f, 1e-3f);
    EXPECT_EQ(blend(Bearing{3, 1}, Bearing{-3.1f, 2}, 0.5f).colour, 2);
}

TEST(Mixer, NormaliseLeavesAVectorWithoutALength) {
    double nothing[3] = {0, 0, 0}, some[4] = {0, 3, 4, 12};
    EXPECT_FALSE(normalise(nothing, 3));
    EXPECT_EQ(nothing[0], 0);
    EXPECT_TRUE(normalise(some, 3));
    EXPECT_DOUBLE_EQ(some[1], 0.6);
    EXPECT_DOUBLE_EQ(some[2], 0.8);
    EXPECT_EQ(some[3], 12);
}

struct Signal {
    float power = 0;
    std::string text;
};

Signal mix_signals(const Signal& from, const Signal& to, float weight) {
    return {100 * from.power + 10 * to.power + weight, from.text + "-" + to.text};
}

TEST(Mixer, ShownByCallsTheFunctionOfTheGameWithBothValues) {
    Schema schema;
    schema.component<Signal>("signal", shown_by(mix_signals));
    ASSERT_EQ(schema.error(), "");
    ShapeTable shapes(schema);
    const Shape* const shape = shapes.shape(std::vector<ComponentIndex>{0});
    NoEntities nobody;
    const auto words_of = [&](const Signal& value) {
        const ComponentLayout& layout = schema.components()[0].layout;
        std::vector<std::uint32_t> words(layout.lanes().size()), parts;
        ComponentLayout::Misfits misfits;
        layout.quantise(&value, nobody, words.data(), parts, misfits);
        words.insert(words.end(), parts.begin(), parts.end());
        return words;
    };
    const std::vector<std::uint32_t> a = words_of({1, "one"}), b = words_of({2, "two"});
    const Mixer mixer(schema);
    Signal shown{7, "in the world"};
    mixer.mix(0, {{shape, a}, {shape, b}, 0.25f}, nobody, &shown);
    EXPECT_FLOAT_EQ(shown.power, 120.25f);
    EXPECT_EQ(shown.text, "one-two");
}

struct Tow {
    static constexpr auto relation = ecs::exclusive;
};
struct Debt {
    static constexpr auto relation = ecs::destroy_with_target;
};

struct Rope {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};

TEST(Mixer, OnlyTargetsOfExclusiveRelationsThatDestroyTheSourceAreJourneys) {
    Schema schema;
    schema.component<Height>("height", linear());
    schema.pair<Tow>("tow");
    schema.pair<Mast>("mast");
    schema.pair<Debt>("debt");
    schema.pair<Rope>("rope");
    ASSERT_EQ(schema.error(), "");
    using Targets = std::map<std::size_t, std::uint32_t>;  // net id by component; 0: none
    const std::size_t tow = schema.find<Tow>(), mast = schema.find<Mast>(), debt = schema.find<Debt>(),
                      rope = schema.find<Rope>();
    const auto height = static_cast<ComponentIndex>(schema.find<Height>());
    std::vector<ComponentIndex> components{height};
    for (const std::size_t relation : {tow, mast, debt, rope})
        components.push_back(static_cast<ComponentIndex>(relation));
    std::ranges::sort(components);
    ShapeTable shapes(schema);
    const Shape* const shape = shapes.shape(components);
    const auto words_of = [](float metres, const Targets& targets) {
        std::vector<std::uint32_t> words{std::bit_cast<std::uint32_t>(metres)};
        for (const auto& [relation, target] : targets) {
            words.push_back(target != 0);
            if (target != 0) words.push_back(target);
        }
        return words;
    };
    const Mixer mixer(schema);
    NoEntities nobody;
    const auto is_mixed = [&](const Targets& from, const Targets& to) {
        const std::vector<std::uint32_t> a = words_of(0, from), b = words_of(8, to);
        Height shown{-1};
        mixer.mix(height, {Image{shape, a}, Image{shape, b}, 0.25f}, nobody, &shown);
        EXPECT_TRUE(shown.metres == 2 || shown.metres == -1);
        return shown.metres == 2;
    };
    const auto with = [](Targets targets, std::size_t relation, std::uint32_t target) {
        targets[relation] = target;
        return targets;
    };
    const Targets before{{tow, 5}, {mast, 6}, {debt, 7}, {rope, 8}};
    EXPECT_TRUE(is_mixed(before, before));
    EXPECT_TRUE(is_mixed(before, with(before, tow, 9))) << "exclusive only";
    EXPECT_TRUE(is_mixed(before, with(before, debt, 9))) << "only destroyed with its target";
    for (const std::size_t relation : {mast, rope}) {
        EXPECT_FALSE(is_mixed(before, with(before, relation, 9)));
        EXPECT_FALSE(is_mixed(before, with(before, relation, 0)));
        EXPECT_FALSE(is_mixed(with(before, relation, 0), before));
    }
    EXPECT_FALSE(is_mixed(before, with(with(before, mast, 8), rope, 6))) << "exchanged";
    EXPECT_FALSE(is_mixed(with(before, rope, 0), with(with(before, mast, 0), rope, 6)));
}

TEST(Mixer, AComponentThatOneVersionLacksIsShownUnchanged) {
    Journey journey;
    const Shape* const mast = journey.shapes.shape(std::vector<ComponentIndex>{1});
    const auto height = static_cast<ComponentIndex>(journey.schema.find<Height>());
    const std::vector<std::uint32_t> with = Journey::words_of(8, {7}), without{1, 7, 3};
    const auto image = [&](const Shape* shape, const std::vector<std::uint32_t>& words) {
        return Image{shape, std::span(words).first(words.size() - 1)};
    };
    Height shown{-1};
    journey.mixer.mix(height, {image(mast, without), image(journey.shape, with), 0.25f}, journey.nobody,
                      &shown);
    EXPECT_EQ(shown.metres, -1);
    journey.mixer.mix(height, {image(journey.shape, with), image(mast, without), 0.25f}, journey.nobody,
                      &shown);
    EXPECT_EQ(shown.metres, -1);
}

TEST(Mixer, AVersionWithoutPairsHasNoTarget) {
    Journey journey;
    const Shape* const alone = journey.shapes.shape(std::vector<ComponentIndex>{0});
    const std::vector<std::uint32_t> words{std::bit_cast<std::uint32_t>(0.0f)};
    const std::vector<std::uint32_t> none = Journey::words_of(8, {}), some = Journey::words_of(8, {7});
    const auto mixed = [&](const std::vector<std::uint32_t>& to) {
        Height height{-1};
        journey.mixer.mix(
            static_cast<ComponentIndex>(journey.schema.find<Height>()),
            {Image{alone, words}, Image{journey.shape, std::span(to).first(to.size() - 1)}, 0.25f},
            journey.nobody, &height);
        return height.metres;
    };
    EXPECT_FLOAT_EQ(mixed(none), 2);
    EXPECT_FLOAT_EQ(mixed(some), -1);
}

TEST(Mixer, AGapIsLongerThanTwoIntervals) {
    Times times;
    times.around.shown = times.version(1, 100);
    const auto is_gap = [&](float mean_gap, Tick next) {
        times.around.mean_gap = mean_gap;
        times.around.next = times.version(2, next);
        return times.mixer.is_long_gap(times.around);
    };
    EXPECT_FALSE(is_gap(4, 108));
    EXPECT_TRUE(is_gap(4, 109));
    EXPECT_FALSE(is_gap(0, 102)) << "unknown: a tick";
    EXPECT_TRUE(is_gap(0, 103));
    EXPECT_FALSE(is_gap(1, 102));
    EXPECT_TRUE(is_gap(1.25f, 103));
    EXPECT_FLOAT_EQ(times.mixer.most_extrapolated(), 5) << "100 ms";
}

struct Arm {
    Attitude shoulder, elbow;
};

TEST(Mixer, ARotationThatDoesNotChangeAndTheSecondOneOfAComponentAreMixedToo) {
    Schema schema;
    schema.component<Arm>("arm", slerp());
    ASSERT_EQ(schema.error(), "");
    ShapeTable shapes(schema);
    const Shape* const shape = shapes.shape(std::vector<ComponentIndex>{0});
    const Mixer mixer(schema);
    NoEntities nobody;
    const auto words_of = [&](const Arm& arm) {
        const ComponentLayout& layout = schema.components()[0].layout;
        std::vector<std::uint32_t> lanes(layout.lanes().size()), parts;
        ComponentLayout::Misfits misfits;
        layout.quantise(&arm, nobody, lanes.data(), parts, misfits);
        return lanes;
    };
    const double half = std::sqrt(0.5);
    const std::vector<std::uint32_t> a = words_of({{0, 1, 0, 0}, {0, 0, 0, 1}}),
                                     b = words_of({{0, 1, 0, 0}, {0, 0, half, half}});
    Arm shown{{half, 0, 0, half}, {half, 0, 0, half}};
    mixer.mix(0, {Image{shape, a}, Image{shape, b}, 0.5f}, nobody, &shown);
    EXPECT_NEAR(shown.shoulder.x, 0, 1e-9);
    EXPECT_NEAR(shown.shoulder.y, 1, 1e-9);
    EXPECT_NEAR(shown.shoulder.w, 0, 1e-9);
    const double eighth = std::numbers::pi / 8;
    EXPECT_NEAR(shown.elbow.x, 0, 1e-9);
    EXPECT_NEAR(shown.elbow.z, std::sin(eighth), 1e-9);
    EXPECT_NEAR(shown.elbow.w, std::cos(eighth), 1e-9);
}

TEST(Mixer, ADirectionOrRotationWithoutALengthBetweenTwoValuesIsLeft) {
    Values values;
    const Heading3 mixed = values.mix<Heading3>({1, 0, 0}, {-1, 0, 0}, 0.5f, {});
    EXPECT_NEAR(std::hypot(mixed.x, mixed.y, mixed.z), 0, 1e-3f) << "not NaN";
    Attitude attitude{0, 0, 0, 1};
    const Attitude before{0, 0, 0, 0};
    Attitude nothing{0, 0, 0, 0};
    const auto index = static_cast<ComponentIndex>(values.schema.find<Attitude>());
    values.mixer.blend(index, std::as_bytes(std::span(&before, 1)), 0.5f, &nothing);
    EXPECT_EQ(nothing.w, 0);
    values.mixer.blend(index, std::as_bytes(std::span(&before, 1)), 0.5f, &attitude);
    EXPECT_NEAR(attitude.w, 1, 1e-9);
}

struct Wind {
    double gusts[2] = {};
    std::int32_t days = 0;
    float mean[2] = {};
    float from[3] = {};
    double to[3] = {};
};

TEST(Mixer, NumbersAreTheFloatsAndDoublesInTheOrderOfTheFields) {
    Schema schema;
    schema.component<Wind>("wind", linear(), field(&Wind::from, unit_vector(10)),
                           field(&Wind::to, unit_vector(10)));
    ASSERT_EQ(schema.error(), "");
    const FloatFields numbers(schema.components()[0].layout);
    Wind wind{{1.5, 2.5}, 3, {4.5f, 5.5f}, {6.5f, 7.5f, 8.5f}, {9, 10, 11}};
    std::vector<double> loaded;
    for (const FloatField& number : numbers.all) loaded.push_back(number.load(&wind));
    EXPECT_EQ(loaded, (std::vector<double>{1.5, 2.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9, 10, 11}));
    EXPECT_EQ(numbers.directions, (std::vector<std::size_t>{4, 7}));
    numbers.all[1].store(&wind, 20);
    numbers.all[3].store(&wind, 50);
    EXPECT_EQ(wind.gusts[1], 20);
    EXPECT_EQ(wind.mean[1], 50);
    EXPECT_EQ(wind.days, 3);
    EXPECT_EQ(wind.from[0], 6.5f);
}

struct Echo {
    float power = 0;
    std::string text;
};

Echo mix_echoes(const Echo& from, const Echo& to, float) {
    return {from.power - to.power, to.text + from.text};
}

TEST(Mixer, ShownByGetsItsComponentAmongOthers) {
    Schema schema;
    schema.component<Signal>("signal", shown_by(mix_signals));
    schema.component<Echo>("echo", shown_by(mix_echoes));
    ASSERT_EQ(schema.error(), "");
    const auto signal = static_cast<ComponentIndex>(schema.find<Signal>()),
               echo = static_cast<ComponentIndex>(schema.find<Echo>());
    ShapeTable shapes(schema);
    NoEntities nobody;
    const Shape* const shape =
        shapes.shape(std::vector<ComponentIndex>{std::min(signal, echo), std::max(signal, echo)});
    const auto words_of = [&](const Signal& a, const Echo& b) {
        std::vector<std::uint32_t> words, all_parts;
        for (const ComponentIndex component : shape->components) {
            const ComponentLayout& layout = schema.components()[component].layout;
            std::vector<std::uint32_t> lanes(layout.lanes().size()), parts;
            ComponentLayout::Misfits misfits;
            const void* const value = component == signal ? static_cast<const void*>(&a) : &b;
            layout.quantise(value, nobody, lanes.data(), parts, misfits);
            words.insert(words.end(), lanes.begin(), lanes.end());
            all_parts.insert(all_parts.end(), parts.begin(), parts.end());
        }
        words.insert(words.end(), all_parts.begin(), all_parts.end());
        return words;
    };
    const std::vector<std::uint32_t> a = words_of({1, "one"}, {5, "five"}),
                                     b = words_of({2, "two"}, {3, "three"});
    const Mixer mixer(schema);
    Signal signal_shown;
    mixer.mix(signal, {{shape, a}, {shape, b}, 0.5f}, nobody, &signal_shown);
    EXPECT_FLOAT_EQ(signal_shown.power, 120.5f);
    EXPECT_EQ(signal_shown.text, "one-two");
    Echo echo_shown;
    mixer.mix(echo, {{shape, a}, {shape, b}, 0.5f}, nobody, &echo_shown);
    EXPECT_FLOAT_EQ(echo_shown.power, 2);
    EXPECT_EQ(echo_shown.text, "threefive");
}

TEST(Mixer, KnowsWhichComponentsHaveADisplay) {
    Schema schema;
    schema.component<Depth>("depth");
    const Mixer none(schema);
    EXPECT_FALSE(none.is_needed());
    ComponentIndex component = 9;
    EXPECT_FALSE(none.shows(&type_address<Depth>, component));
    EXPECT_EQ(component, 9);
    schema.component<Height>("height", linear());
    const Mixer one(schema);
    EXPECT_TRUE(one.is_needed());
    EXPECT_FALSE(one.shows(&type_address<Depth>, component));
    EXPECT_TRUE(one.shows(&type_address<Height>, component));
    EXPECT_EQ(component, schema.find<Height>());
}

}  // namespace
}  // namespace shoal::replication::impl::mixer_test
