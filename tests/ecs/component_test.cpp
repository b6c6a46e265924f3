#include "ecs/component.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ecs/support/types.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;

namespace {

struct Hidden {
    int value;
};

}  // namespace

static_assert(Component<Position> && Value<Position> && !Tag<Position>);
static_assert(Tag<Frozen> && !Value<Frozen>);
static_assert(Component<MoveOnly> && Component<Wide>);
static_assert(!Component<int> && !Component<int*> && !Component<const Position> && !Component<Position&>);
static_assert(!Component<ComponentId> && !Component<std::vector<ComponentId>>);

TEST(TypeTag, NamesTheTypeAsWritten) {
    EXPECT_EQ(type_tag<Position>.name, "ecs_types::Position");
    EXPECT_EQ(type_tag<Frozen>.name, "ecs_types::Frozen");
    EXPECT_TRUE(type_tag<Position>.is_shared);
    EXPECT_FALSE(type_tag<Hidden>.is_shared);
}

TEST(TypeTag, TrivialTypesNeedNoOperations) {
    EXPECT_EQ(type_tag<Position>.move, nullptr);
    EXPECT_EQ(type_tag<Position>.destroy, nullptr);
    EXPECT_NE(type_tag<Counted>.move, nullptr);
    EXPECT_NE(type_tag<Counted>.destroy, nullptr);
    EXPECT_EQ(type_tag<Frozen>.size, 0u);
    EXPECT_EQ(type_tag<Wide>.align, 64u);
}

TEST(ComponentTable, GivesEachTypeOneIdAtItsFirstUse) {
    ComponentTable table;
    EXPECT_FALSE(table.find(type_tag<Position>));
    const ComponentId position = table.id_of(type_tag<Position>);
    EXPECT_EQ(position.value, 0u);
    EXPECT_EQ(table.id_of(type_tag<Position>), position);
    EXPECT_EQ(table.find(type_tag<Position>), position);
    EXPECT_NE(table.id_of(type_tag<Velocity>), position);
    EXPECT_EQ(table[position].name, "ecs_types::Position");
    EXPECT_EQ(table[position].size, sizeof(Position));
}

TEST(ComponentTable, ATypeOfAnotherLibraryIsTheSameIfNameAndLayoutAreEqual) {
    const TypeTag ours = type_tag<Position>, theirs = ours;
    ComponentTable table;
    const ComponentId id = table.id_of(ours);
    EXPECT_EQ(table.find(theirs), id);  // found before the first write
    EXPECT_EQ(table.id_of(theirs), id);
    EXPECT_EQ(&table.known(theirs), &table.known(ours));
    EXPECT_EQ(table.size(), 1u);
}

// A library may be unloaded, and another one loaded at its address.
TEST(ComponentTable, ANewTypeAtTheAddressOfAnOldOneIsAnotherComponent) {
    for (const bool is_shared : {true, false}) {
        ComponentTable table;
        std::string name = "Cargo";
        TypeTag tag = type_tag<Position>;
        tag.name = name;
        tag.is_shared = is_shared;
        const ComponentId id = table.id_of(tag);
        name = "*****";
        EXPECT_EQ(table[id].name, "Cargo");
        name = "Cargo";
        EXPECT_EQ(table.id_of(tag), id);
        const TypeTag moved = tag;
        EXPECT_EQ(table.find(moved) == id, is_shared);
        tag = type_tag<Velocity>;
        tag.is_shared = is_shared;
        EXPECT_FALSE(table.find(tag));
        EXPECT_NE(table.id_of(tag), id);
    }
}

TEST(ComponentTable, TypesInTheSamePlaceOfTheCacheHaveDifferentIds) {
    std::vector<TypeTag> tags(300, type_tag<Position>);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < tags.size(); ++i) names.push_back("type" + std::to_string(i));
    ComponentTable table;
    for (std::uint32_t i = 0; i < tags.size(); ++i) {
        tags[i].name = names[i];
        tags[i].hash = 5 + 1'024 * std::uint64_t{i};
        EXPECT_FALSE(table.find_known(tags[i]).id);
        EXPECT_EQ(table.known(tags[i]).id.value, i);
    }
    for (std::uint32_t i = 0; i < tags.size(); ++i) {
        EXPECT_EQ(table.find_known(tags[i]).name, names[i]);
        EXPECT_EQ(&table.find_known(tags[i]), &table.known(tags[i]));
    }
}

TEST(ComponentTable, ReferencesSurviveGrowth) {
    ComponentTable table;
    const ComponentId first = table.add({"first", 4, 4});
    const ComponentType& type = table[first];
    for (int i = 0; i < 1'000; ++i) table.add({"more", 4, 4});
    EXPECT_EQ(&type, &table[first]);
    EXPECT_EQ(type.name, "first");
}

TEST(ComponentTable, AWrongAlignmentIsReducedSoThatRowsDoNotOverlap) {
    ComponentTable table;
    EXPECT_DEBUG_DEATH(table.add({"odd", 6, 4}), "size % type.align");
#ifdef NDEBUG
    EXPECT_EQ(table[ComponentId{0}].align, 2u);
#endif
}

TEST(KeyMap, FindsAllEntriesAfterGrowth) {
    KeyMap map;
    for (std::uint32_t i = 1; i < 5'000; i += 2) map.insert(i * std::uint64_t{640}, i);
    for (std::uint32_t i = 1; i < 5'000; ++i)
        ASSERT_EQ(map.find(i * std::uint64_t{640}), i % 2 == 1 ? i : KeyMap::kAbsent);
}
