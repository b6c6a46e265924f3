#include "ecs/dump.h"

#include <gtest/gtest.h>

#include "tests/ecs/support/types.h"

namespace shoal::ecs::impl {
namespace {

struct Bytes {
    std::uint8_t byte[18];
};
struct Named {};
struct Meets {
    static constexpr auto relation = many;
};

TEST(Dump, ContainsTheEntityItsComponentsAndPairsAndTheirFirstBytes) {
    World world;
    const Entity friend_of = world.spawn();
    const Entity entity =
        world.spawn(Bytes{{0x50, 0xa1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}});
    world.add<Named>(entity);
    world.add(entity, to<Meets>(friend_of));
    EXPECT_EQ(to_text(friend_of), "0v1");
    EXPECT_EQ(to_text(Entity{}), "null");
    const std::string bytes = to_text(world, world.component<Bytes>());
    EXPECT_NE(bytes.find("Bytes"), std::string::npos);
    const std::string pair = to_text(world, world.pair_id(world.component<Meets>(), friend_of));
    EXPECT_EQ(pair, to_text(world, world.component<Meets>()) + " to 0v1");
    EXPECT_EQ(to_text(world, ComponentId{77}), "?");
    EXPECT_EQ(dump(world, entity), "1v1\n  " + bytes +
                                       ": 50 a1 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f ...\n  " +
                                       to_text(world, world.component<Named>()) + "\n  " + pair + "\n");
    world.destroy(entity);
    EXPECT_EQ(dump(world, entity), "1v1: dead\n");
}

}  // namespace
}  // namespace shoal::ecs::impl
