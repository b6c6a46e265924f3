// The limit of what one entity holds, as a Shadow measures it.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "replication/codec/codec.h"
#include "replication/history/shadow.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl::entity_size_test {
namespace {

struct Cargo {
    std::vector<std::uint32_t> crates;
};
struct Label {
    std::string text;
};

TEST(EntitySize, Rule11AnEntityThatIsTooLargeKeepsItsLastGoodVersionAndIsNamed) {
    Schema schema;
    schema.component<Cargo>("cargo", field(&Cargo::crates, max_length(5'000)));
    schema.component<Label>("label", field(&Label::text, max_length(20'000)));
    ASSERT_EQ(schema.error(), "");
    ecs::World world;
    const std::vector<std::uint32_t> half(4'000, 0x9999'9999u);
    const std::string text(18'000, 'x');
    const ecs::Entity ship = world.spawn(Replicated{}, Cargo{half}, Label{"small"});
    const ecs::Entity born_large = world.spawn(Replicated{}, Cargo{half}, Label{text});
    Shadow shadow(world, schema, 10);
    const auto versions_of = [&](ecs::Entity entity) -> const History& {
        std::uint32_t index = 0;
        while (shadow[index].entity != entity) ++index;
        return shadow[index].versions;
    };
    shadow.update(1);
    ASSERT_EQ(shadow.too_large().size(), 1u);
    EXPECT_EQ(shadow.too_large()[0].entity, born_large);
    EXPECT_GT(shadow.too_large()[0].bytes, kMaxEntityBytes);
    EXPECT_EQ(schema.components()[shadow.too_large()[0].largest].name, "label");
    EXPECT_TRUE(versions_of(born_large).newest()->image.shape->components.empty());

    world.set(ship, Label{text});
    shadow.update(2);
    ASSERT_EQ(shadow.too_large().size(), 1u);
    EXPECT_EQ(shadow.too_large()[0].entity, ship);
    EXPECT_EQ(shadow.too_large_count(), 2u);
    EXPECT_EQ(versions_of(ship).newest()->tick, 1u);
    EXPECT_TRUE(shadow.changed().empty());

    world.set(ship, Cargo{{1, 2, 3}});  // now it fits; the label changed while it did not
    world.remove<Cargo>(born_large);
    shadow.update(3);
    EXPECT_TRUE(shadow.too_large().empty());
    EXPECT_EQ(shadow.too_large_count(), 0u);
    for (const ecs::Entity entity : {ship, born_large}) {
        const Image image = versions_of(entity).newest()->image;
        ImageCursor label(schema, image);
        ASSERT_TRUE(label.seek(static_cast<ComponentIndex>(schema.components()[0].name == "label" ? 0 : 1)));
        EXPECT_EQ(label.parts()[0], text.size());
        EXPECT_EQ(versions_of(entity).newest()->tick, 3u);
    }
    world.set(ship, Cargo{half});
    shadow.update(4);
    EXPECT_EQ(shadow.too_large_count(), 1u);
    world.destroy(ship);
    shadow.update(5);
    EXPECT_EQ(shadow.too_large_count(), 0u);
    const std::uint32_t entries = shadow.index_count();
    world.spawn(Replicated{}, Label{"new"});
    shadow.update(6);
    ASSERT_EQ(shadow.index_count(), entries) << "the new entity must take the entry of the ship";
    EXPECT_EQ(shadow.too_large_count(), 0u) << "it is not as large as the ship";
    EXPECT_TRUE(shadow.is_consistent());
}

struct Hold {
    std::vector<std::uint32_t> crates;
};

TEST(EntitySize, Rule11NamesTheComponentThatTakesMost) {
    Schema schema;
    schema.component<Cargo>("cargo", field(&Cargo::crates, max_length(5'000)));
    schema.component<Hold>("hold", field(&Hold::crates, max_length(5'000)));
    schema.component<Label>("label", field(&Label::text, max_length(20'000)));
    ASSERT_EQ(schema.error(), "");
    const std::vector<std::uint32_t> most(5'000, 0x9999'9999u), rest(2'500, 0x9999'9999u);
    ecs::World world;
    Shadow shadow(world, schema, 10);
    Tick tick = 0;
    for (const char* const name : {"cargo", "hold", "label"}) {
        const std::string largest = name;
        const std::string text(largest == "label" ? 20'000 : 1'000, 'x');
        const ecs::Entity ship = world.spawn(Replicated{}, Cargo{largest == "cargo" ? most : rest},
                                             Hold{largest == "hold" ? most : rest}, Label{text});
        shadow.update(++tick);
        ASSERT_EQ(shadow.too_large().size(), 1u);
        EXPECT_EQ(shadow.too_large()[0].entity, ship);
        EXPECT_EQ(schema.components()[shadow.too_large()[0].largest].name, largest);
    }
}

// Many words, but each takes few bits.
TEST(EntitySize, Rule11AnEntityWithinTheLimitIsNotTooLargeHoweverManyWordsItHas) {
    Schema schema;
    schema.component<Cargo>("cargo", field(&Cargo::crates, max_length(5'000)));
    schema.component<Hold>("hold", field(&Hold::crates, max_length(5'000)));
    ecs::World world;
    const std::vector<std::uint32_t> light(5'000, 1), heavy(5'000, 0x9999'9999u);
    const ecs::Entity ship = world.spawn(Replicated{}, Cargo{light}, Hold{light});
    Shadow shadow(world, schema, 10);
    shadow.update(1);
    EXPECT_TRUE(shadow.too_large().empty());
    EXPECT_EQ(shadow.too_large_count(), 0u);
    EXPECT_EQ(shadow[0].versions.newest()->image.shape->components.size(), 2u);
    world.patch<Cargo>(ship, [](Cargo& cargo) { cargo.crates[7] = 2; });
    shadow.update(2);
    EXPECT_TRUE(shadow.too_large().empty());
    EXPECT_EQ(shadow.changed().size(), 1u);
    Tick tick = 2;
    for (const bool is_heavy : {true, false, true, false}) {
        world.set(ship, Cargo{is_heavy ? heavy : light});
        world.set(ship, Hold{is_heavy ? heavy : light});
        shadow.update(++tick);
        EXPECT_EQ(shadow.too_large().size(), is_heavy ? 1u : 0u) << tick;
        EXPECT_EQ(shadow.too_large_count(), is_heavy ? 1u : 0u) << tick;
        world.patch<Cargo>(ship, [](Cargo& cargo) { cargo.crates[7] += 1; });
        shadow.update(++tick);
        EXPECT_TRUE(shadow.too_large().empty()) << "it did not become too large now";
        EXPECT_EQ(shadow.too_large_count(), is_heavy ? 1u : 0u) << tick;
    }
    world.set(ship, Cargo{heavy});
    world.set(ship, Hold{heavy});
    shadow.update(++tick);
    EXPECT_EQ(shadow.too_large_count(), 1u);
    world.set(ship, Cargo{{1, 2}});
    world.set(ship, Hold{});
    shadow.update(++tick);
    EXPECT_EQ(shadow.too_large_count(), 0u) << "now it is far below the limit";
    EXPECT_EQ(shadow[0].versions.newest()->tick, tick);
}

// A large value takes 5.5 bytes in a record, but 4 in memory.
TEST(EntitySize, Rule11AnEntityThatIsTooLargeOnlyAsARecordIsNamed) {
    Schema schema;
    schema.component<Cargo>("cargo", field(&Cargo::crates, max_length(5'000)));
    schema.component<Hold>("hold", field(&Hold::crates, max_length(5'000)));
    ecs::World world;
    const std::vector<std::uint32_t> crates(3'000, 0x9999'9999u);
    static_assert(2 * 3'000 * sizeof(std::uint32_t) < kMaxEntityBytes - 5'000);
    const ecs::Entity ship = world.spawn(Replicated{}, Cargo{crates}, Hold{crates});
    Shadow shadow(world, schema, 10);
    shadow.update(1);
    ASSERT_EQ(shadow.too_large().size(), 1u);
    EXPECT_EQ(shadow.too_large()[0].entity, ship);
    EXPECT_GT(shadow.too_large()[0].bytes, kMaxEntityBytes);
}

TEST(EntitySize, Rule11TheLimitIsExact) {
    Schema schema;
    schema.component<Label>("label", field(&Label::text, max_length(20'000)));
    schema.component<Cargo>("cargo", field(&Cargo::crates, max_length(5'000)));
    ecs::World world;
    const std::vector<std::uint32_t> crates(2'500, 0x9999'9999u);
    const ecs::Entity ship = world.spawn(Replicated{}, Cargo{crates}, Label{});
    Shadow shadow(world, schema, 10);
    Tick tick = 0;
    bool was_too_large = false;
    for (std::size_t size = 18'000; size < 19'000 && !was_too_large; ++size) {
        world.set(ship, Label{std::string(size, 'x')});
        shadow.update(++tick);
        was_too_large = !shadow.too_large().empty();
        const std::size_t bytes = (measure_image(schema, {}, shadow[0].versions.newest()->image) + 7) / 8;
        if (was_too_large) {
            EXPECT_EQ(bytes, kMaxEntityBytes) << "one letter more does not fit";
            EXPECT_EQ(shadow.too_large()[0].bytes, kMaxEntityBytes + 1);
        } else {
            ASSERT_EQ(shadow[0].versions.newest()->tick, tick);
            ASSERT_LE(bytes, kMaxEntityBytes);
        }
    }
    EXPECT_TRUE(was_too_large);
}

}  // namespace
}  // namespace shoal::replication::impl::entity_size_test
