#include "replication/schema/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "replication/history/history.h"

#include "tests/replication/support/world.h"

namespace shoal::replication {
namespace {

TEST(Tick, IsComparedAcrossTheWraparound) {
    EXPECT_TRUE(is_newer(1, 0));
    EXPECT_TRUE(is_newer(0, 0xffffffff));
    EXPECT_TRUE(is_newer(5, 0xfffffff0));
    EXPECT_FALSE(is_newer(0xfffffff0, 5));
    EXPECT_FALSE(is_newer(7, 7));
    EXPECT_TRUE(is_newer(0x80000000, 0x7fffffff));
}

TEST(ShapeTable, EqualSetsHaveTheSameShape) {
    const Schema schema = game_schema();
    ShapeTable shapes(schema);
    const ComponentIndex some[] = {0, 2, 5}, others[] = {0, 2};
    const Shape* shape = shapes.shape(some);
    EXPECT_EQ(shapes.shape(std::vector<ComponentIndex>{0, 2, 5}), shape);
    EXPECT_NE(shapes.shape(others), shape);
    EXPECT_EQ(shape->find(2), 1u);
    EXPECT_EQ(shape->find(3), Shape::kAbsent);
    EXPECT_TRUE(shapes.shape({})->components.empty());
    std::uint32_t words = 0;
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(shape->lanes[i], words);
        words += static_cast<std::uint32_t>(schema.components()[some[i]].layout.lanes().size());
    }
    EXPECT_EQ(shape->lane_words, words);
}

TEST(ShapeTable, Rule30DropsOnlyShapesThatNoVersionHas) {
    const Schema schema = game_schema();
    ShapeTable shapes(schema);
    VersionPool pool;
    std::vector<History> histories;
    const std::uint32_t sets = std::min<std::uint32_t>(1u << schema.components().size(), 5'000);
    ASSERT_GE(sets, 4'000u);
    EXPECT_EQ(shapes.bytes(), 0u);
    const auto set_of = [](std::uint32_t bits) {
        std::vector<ComponentIndex> set;
        for (ComponentIndex i = 0; bits >> i != 0; ++i)
            if (bits >> i & 1) set.push_back(i);
        return set;
    };
    for (std::uint32_t bits = 0; bits < sets; ++bits) {
        const Shape* shape = shapes.shape(set_of(bits));
        if (bits % 10 == 0) histories.emplace_back().push(1, Image{shape, {}}, pool);
    }
    EXPECT_EQ(shapes.size(), sets);
    const std::size_t bytes_of_all = shapes.bytes();
    EXPECT_GE(bytes_of_all, sets * sizeof(Shape));
    shapes.drop_unused();
    EXPECT_EQ(shapes.size(), histories.size());
    EXPECT_LT(shapes.bytes(), bytes_of_all);
    EXPECT_GE(shapes.bytes(), histories.size() * sizeof(Shape));
    for (std::uint32_t bits = 0; bits < sets; bits += 10)
        EXPECT_EQ(shapes.shape(set_of(bits)), histories[bits / 10].newest()->image.shape);
    for (History& history : histories) history.clear();
    EXPECT_EQ(pool.bytes_in_use(), 0u);
    for (std::uint32_t bits = 0; bits < sets; ++bits) static_cast<void>(shapes.shape(set_of(bits)));
    EXPECT_EQ(shapes.bytes(), bytes_of_all);
    shapes.drop_unused();
    EXPECT_EQ(shapes.size(), 0u);
    EXPECT_EQ(shapes.bytes(), 0u);
}

}  // namespace
}  // namespace shoal::replication
