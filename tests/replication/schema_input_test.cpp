#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/replication/support/tiller.h"

namespace shoal::replication::impl::schema_input_test {
namespace {

TEST(SchemaInput, DeclaresItsComponentForTheOwner) {
    const Schema schema = tiller_schema();
    EXPECT_EQ(schema.error(), "");
    const SchemaComponent& component = schema.components()[schema.input_component()];
    EXPECT_EQ(component.name, "tiller");
    EXPECT_EQ(component.viewers, to_owner());
    EXPECT_TRUE(component.layout.empty());
    struct Wheel {
        double turn = 0;
    };
    Schema wheel;
    wheel.input<Wheel>("wheel");
    EXPECT_EQ(wheel.components()[wheel.input_component()].size, sizeof(Wheel));
    EXPECT_EQ(wheel.components()[wheel.input_component()].align, alignof(Wheel));
    EXPECT_NE(schema.find<Mine>(), kMaxComponents);
    EXPECT_EQ(schema.structs(StructKind::input)[0].layout.presses(), (std::vector<std::uint32_t>{2, 3}));
}

struct Trolley {
    std::int8_t way = 0;
};
struct Crew {
    std::int8_t size = 0;
};

TEST(SchemaInput, TakesDeclarationsOfItsComponentAndOfMine) {
    Schema before, after, twice;
    before.tag<Mine>("ours", to_owner());
    before.component<Trolley>("trolley of all", to_others());
    before.input<Trolley>("trolley");
    EXPECT_EQ(before.error(), "");
    ASSERT_EQ(before.components().size(), 2u);
    EXPECT_EQ(before.components()[before.input_component()].name, "trolley of all");
    EXPECT_EQ(before.components()[before.input_component()].viewers, to_others());
    after.input<Trolley>("trolley");
    after.component<Crew>("crew");
    after.tag<Mine>("mine", to_owner());
    EXPECT_EQ(after.error(), "") << "the game declares it, too";
    EXPECT_EQ(after.components().size(), 3u);
    twice.input<Trolley>("trolley");
    twice.tag<Mine>("mine", to_owner());
    twice.tag<Mine>("mine", to_owner());
    EXPECT_EQ(twice.error(), "component 'mine' is declared twice");
}

struct Rudder {
    float angle = 0;
};
struct Mirror {
    std::vector<Tiller> copies;
};
struct Essay {
    std::string text;
};

/// Takes 46 bits, and two for each key.
template <int N>
struct Keyboard {
    std::uint32_t layout = 0;
    bool keys[N] = {};
};

TEST(SchemaInput, TakesAtMost1024Bits) {
    Schema largest;
    largest.input<Keyboard<489>>("keyboard");
    EXPECT_EQ(largest.error(), "");
    EXPECT_EQ(largest.structs(StructKind::input)[0].max_bits, kMaxInputBits);
    Schema large;
    large.input<Keyboard<490>>("keyboard");
    EXPECT_NE(large.error().find("can take 1026 bits, and an input at most 1024"), std::string::npos);
}

TEST(SchemaInput, Mistakes) {
    Schema two = tiller_schema();
    two.input<Rudder>("rudder");
    EXPECT_EQ(two.error(), "input 'rudder' is the second one of the schema");
    Schema large;
    large.input<Essay>("essay", max_length(1'000));
    EXPECT_NE(large.error().find("and an input at most 1024"), std::string::npos) << large.error();
    Schema nested;
    nested.component<Mirror>("mirror");
    EXPECT_NE(nested.error().find("in a string, vector"), std::string::npos) << nested.error();
    Schema parts;
    parts.component<Essay>("essay", predicted());
    EXPECT_NE(parts.error().find("is predicted()"), std::string::npos) << parts.error();
}

TEST(SchemaInput, QuantisedAuthorityCountsInTheHash) {
    Schema with = tiller_schema(), without = tiller_schema();
    with.quantise_authority();
    EXPECT_NE(with.hash(), without.hash());
}

}  // namespace
}  // namespace shoal::replication::impl::schema_input_test
