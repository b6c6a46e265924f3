#include "replication/image.h"

#include <gtest/gtest.h>

#include <vector>

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

}  // namespace
}  // namespace shoal::replication
