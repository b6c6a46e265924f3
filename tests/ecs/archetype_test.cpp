#include "ecs/archetype.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <vector>

#include "tests/ecs/support/types.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;

namespace {

struct ArchetypeTest : testing::Test {
    ComponentTable table;
    ComponentId position = table.id_of(type_tag<Position>);
    ComponentId counted = table.id_of(type_tag<Counted>);
    ComponentId frozen = table.id_of(type_tag<Frozen>);
    ComponentId wide = table.id_of(type_tag<Wide>);
    ComponentId self = table.id_of(type_tag<SelfReferential>);

    template <class T>
    static T& at(Archetype& archetype, ComponentId id, std::uint32_t row) {
        return *static_cast<T*>(archetype.find(id)->at(row));
    }
    template <class T>
    static void make(Archetype& archetype, ComponentId id, std::uint32_t row, auto... args) {
        ::new (archetype.find(id)->at(row)) T{args...};
    }
    void TearDown() override { EXPECT_EQ(Counted::alive, 0); }
};

}  // namespace

TEST_F(ArchetypeTest, HasOnlyTheColumnsOfItsComponents) {
    const ComponentId ids[] = {position, frozen};
    const Archetype archetype(0, ids, table);
    EXPECT_EQ(archetype.find(position), &archetype.column(0));
    EXPECT_EQ(archetype.find(frozen), &archetype.column(1));
    EXPECT_FALSE(archetype.has(counted));
    EXPECT_FALSE(archetype.has(ComponentId{}));
    EXPECT_FALSE(archetype.has(ComponentId{100'000}));
}

TEST_F(ArchetypeTest, FindsColumnsOfHighIds) {
    ComponentId high{};
    for (int i = 0; i < 1'000; ++i) high = table.add({"many", 4, 4});
    const ComponentId ids[] = {position, ComponentId{high.value - 300}, high};
    const Archetype archetype(0, ids, table);
    EXPECT_EQ(archetype.find(position), &archetype.column(0));
    EXPECT_EQ(archetype.find(ComponentId{high.value - 300}), &archetype.column(1));
    EXPECT_EQ(archetype.find(high), &archetype.column(2));
    EXPECT_FALSE(archetype.has(ComponentId{high.value - 1}));
    EXPECT_FALSE(archetype.has(ComponentId{high.value + 1}));
}

TEST_F(ArchetypeTest, ValuesSurviveGrowthAtTheirAlignment) {
    const ComponentId ids[] = {counted, wide, self};
    Archetype archetype(0, ids, table);
    for (std::uint32_t row = 0; row < 3'000; ++row) {
        ASSERT_EQ(archetype.append(Entity{row, 1}, 1), row);
        make<Counted>(archetype, counted, row, static_cast<int>(row));
        make<Wide>(archetype, wide, row);
        ::new (archetype.column(2).at(row)) SelfReferential(static_cast<int>(row));
    }
    EXPECT_EQ(Counted::alive, 3'000);
    for (std::uint32_t row = 0; row < 3'000; ++row) {
        ASSERT_EQ(at<Counted>(archetype, counted, row).value, static_cast<int>(row));
        ASSERT_TRUE(at<Wide>(archetype, wide, row).is_aligned());
        ASSERT_TRUE(at<SelfReferential>(archetype, self, row).is_intact());
    }
}

TEST_F(ArchetypeTest, RemoveMovesTheLastRowIntoTheGap) {
    const ComponentId ids[] = {counted};
    Archetype archetype(0, ids, table);
    for (std::uint32_t row = 0; row < 3; ++row) {
        archetype.append(Entity{row, 1}, 1);
        make<Counted>(archetype, counted, row, static_cast<int>(row));
    }
    EXPECT_EQ(archetype.remove(0), (Entity{2, 1}));
    EXPECT_EQ(at<Counted>(archetype, counted, 0).value, 2);
    EXPECT_EQ(archetype.remove(1), Entity{});
    EXPECT_EQ(archetype.size(), 1u);
    EXPECT_EQ(Counted::alive, 1);
}

TEST_F(ArchetypeTest, MoveKeepsSharedValuesAndDestroysTheOthers) {
    const ComponentId from_ids[] = {position, counted, self};
    const ComponentId to_ids[] = {position, self};
    Archetype from(0, from_ids, table), to(1, to_ids, table);
    for (std::uint32_t row = 0; row < 2; ++row) {
        from.append(Entity{row, 1}, 1);
        make<Position>(from, position, row, float(row), 5.0f);
        make<Counted>(from, counted, row, 1);
        ::new (from.column(2).at(row)) SelfReferential(10 + static_cast<int>(row));
    }
    EXPECT_EQ(from.move(from.entities()[0], 0, to, 1), (Entity{1, 1}));
    EXPECT_EQ(to.entities()[0], (Entity{0, 1}));
    EXPECT_EQ(at<Position>(to, position, 0), (Position{0, 5}));
    EXPECT_EQ(at<SelfReferential>(to, self, 0).value, 10);
    EXPECT_TRUE(at<SelfReferential>(to, self, 0).is_intact());
    EXPECT_TRUE(at<SelfReferential>(from, self, 0).is_intact());
    EXPECT_EQ(at<SelfReferential>(from, self, 0).value, 11);
    EXPECT_EQ(Counted::alive, 1);
}

TEST_F(ArchetypeTest, Rule25AMovedRowRaisesTheStampOfItsNewBlock) {
    const ComponentId from_ids[] = {position, frozen};
    const ComponentId to_ids[] = {position};
    Archetype from(0, from_ids, table), to(1, to_ids, table);
    for (std::uint32_t row = 0; row < kBlockRows + 1; ++row) {
        from.append(Entity{row, 1}, 2);
        from.column(0).wrote(row, row < kBlockRows ? 3 : 8);
    }
    from.remove(0);  // the last row moves from the last block to the first
    EXPECT_EQ(from.stamp(from.column(0), 0), 8u);
    EXPECT_EQ(from.stamp(from.column(1), 0), 2u);
    from.move(from.entities()[5], 5, to, 9);
    EXPECT_EQ(to.stamp(to.column(0), 0), 9u);
    EXPECT_EQ(from.stamp(from.column(1), 0), 2u);
    for (std::uint32_t row = from.size(); row < kBlockRows; ++row) from.append(Entity{row, 2}, 9);
    from.append(Entity{kBlockRows, 2}, 10);
    EXPECT_EQ(from.stamp(from.column(1), 0), 9u);
    EXPECT_EQ(from.stamp(from.column(1), 1), 10u);
    from.remove(0);  // brings the tick at which it came
    EXPECT_EQ(from.stamp(from.column(0), 0), 10u);
    EXPECT_EQ(from.stamp(from.column(1), 0), 10u);
}

// Goal: moves of small values copy every byte of a value, and no byte beside it.
// Method: for each size, rows of two components whose bytes tell the entity; one component is lost and
// gained.
TEST_F(ArchetypeTest, SmallValuesOfEverySizeAreMoved) {
    const auto value_of = [](Entity entity, std::uint32_t size, std::uint32_t column) {
        std::vector<unsigned char> bytes(size);
        for (std::uint32_t i = 0; i < size; ++i)
            bytes[i] = static_cast<unsigned char>(entity.index * 100 + i + column * 50);
        return bytes;
    };
    for (std::uint32_t size = 1; size <= 65; ++size) {
        SCOPED_TRACE(testing::Message() << "size " << size);
        const ComponentId ids[] = {table.add({"kept", size}), table.add({"other", size})};
        Archetype one(0, {ids, 1}, table), both(1, ids, table);
        const ArchetypeStep step{0, 1, &one, &both, &both.column(1), both.is_small()};
        EXPECT_EQ(both.is_small(), size <= 64);
        EntityTable places;
        const auto append = [&] {
            const Entity entity = places.take();
            places.move_to(entity, {1, both.append(entity, 1)});
        };
        const auto move = [&](Archetype& from, std::uint32_t row, Archetype& to) {
            const Entity entity = from.entities()[row];
            if (!step.is_small) {
                from.move(entity, row, to, 1);
            } else if (&from == &both) {
                Archetype::remove_small(step, entity, row, 1, places);
            } else {
                const auto value = value_of(entity, size, 1);
                Archetype::add_small(step, entity, row, value.data(), 1, places);
            }
        };
        const auto expect_places = [&](const Archetype& archetype) {
            for (std::uint32_t row = 0; step.is_small && row < archetype.size(); ++row) {
                const EntityTable::Place place = places.place(archetype.entities()[row]);
                EXPECT_EQ(place.archetype, archetype.index());
                EXPECT_EQ(place.row, row);
            }
        };
        const auto fill = [&](Archetype& archetype, std::uint32_t row, std::uint32_t column) {
            const auto bytes = value_of(archetype.entities()[row], size, column);
            std::memcpy(archetype.column(column).at(row), bytes.data(), size);
        };
        const auto expect_values = [&](const Archetype& archetype) {
            for (std::uint32_t row = 0; row < archetype.size(); ++row)
                for (std::uint32_t column = 0; column < archetype.column_count(); ++column) {
                    const auto bytes = value_of(archetype.entities()[row], size, column);
                    EXPECT_EQ(std::memcmp(archetype.column(column).at(row), bytes.data(), size), 0);
                }
        };
        for (std::uint32_t row = 0; row < 4; ++row) {
            append();
            fill(both, row, 0);
            fill(both, row, 1);
        }
        for (const std::uint32_t row : {1u, 2u, 0u}) {  // in the middle, the last, in the middle
            move(both, row, one);
            expect_values(one);
            expect_values(both);
            expect_places(one);
            expect_places(both);
        }
        for (const std::uint32_t row : {1u, 1u}) {
            move(one, row, both);
            if (!step.is_small) fill(both, both.size() - 1, 1);
            expect_values(one);
            expect_values(both);
            expect_places(one);
            expect_places(both);
        }
        EXPECT_EQ(both.remove(0), both.entities()[0]);
        expect_values(both);
        EXPECT_EQ(one.size(), 1u);
        EXPECT_EQ(both.size(), 2u);
    }
}

TEST_F(ArchetypeTest, EdgesAreKeptPerComponent) {
    Archetype archetype(0, {}, table);
    Archetype other(1, {}, table);
    archetype.edge(frozen).with = &other;
    archetype.edge(position).without = &archetype;
    EXPECT_EQ(archetype.edge(frozen).with, &other);
    EXPECT_EQ(archetype.edge(position).without, &archetype);
    EXPECT_EQ(archetype.edge(counted).with, nullptr);
    EXPECT_EQ(archetype.edge(frozen).with, &other);
}
