#include "replication/show/mixer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::mixer_test {
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

}  // namespace
}  // namespace shoal::replication::mixer_test
