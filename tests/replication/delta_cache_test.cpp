#include "replication/send/delta_cache.h"

#include <gtest/gtest.h>

#include "replication/codec/codec.h"
#include "tests/replication/support/bits.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

struct Cached {
    Cached() : schema(game_schema()), shadow(world, schema, 100), cache(shadow) {}
    void tick() {
        shadow.update(++now);
        cache.clear();
    }
    std::vector<std::byte> bits(const DeltaCache::Delta& delta) const {
        BitWriter out;
        cache.append(delta, out);
        EXPECT_EQ(out.bit_count(), delta.bits);
        return bytes_of(out);
    }
    std::vector<std::byte> expected(std::uint32_t entry, const Image& from) const {
        BitWriter out;
        write_image(schema, from, shadow[entry].versions.newest()->image, out);
        return bytes_of(out);
    }
    Schema schema;
    ecs::World world;
    Shadow shadow;
    DeltaCache cache;
    Tick now = 0;
};

TEST(DeltaCache, EachBaselineOfEachEntityHasItsBits) {
    Cached c;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 3; ++i) entities.push_back(c.world.spawn(at(static_cast<float>(i)), Replicated{}));
    for (int n = 0; n < 4; ++n) {
        for (const ecs::Entity entity : entities)
            c.world.patch<sim::Position>(entity, [](sim::Position& p) { p.y += 1; });
        c.tick();
    }
    for (int round = 0; round < 2; ++round)  // the second time from the cache
        for (std::uint32_t entry = 0; entry < 3; ++entry) {
            EXPECT_EQ(c.bits(c.cache.get(entry, std::nullopt)), c.expected(entry, Image{}));
            const History& versions = c.shadow[entry].versions;
            for (std::uint32_t i = 0; i < versions.size(); ++i) {
                const Version v = versions[i];
                const DeltaCache::Delta delta = c.cache.get(entry, v);
                EXPECT_EQ(c.bits(delta), c.expected(entry, v.image));
                EXPECT_EQ(delta.is_empty, i + 1 == versions.size());
                EXPECT_EQ(delta.offset, c.cache.get(entry, v).offset) << "encoded twice";
            }
        }
}

TEST(DeltaCache, ADeltaToAnOldVersionOfEqualStateIsEmpty) {
    Cached c;
    const ecs::Entity entity = c.world.spawn(at(1), Replicated{});
    c.tick();
    c.world.set(entity, at(3));
    c.tick();
    c.world.set(entity, at(1));
    c.tick();
    EXPECT_TRUE(c.cache.get(0, c.shadow[0].versions[0]).is_empty);
    EXPECT_FALSE(c.cache.get(0, c.shadow[0].versions[1]).is_empty);
    EXPECT_FALSE(c.cache.get(0, std::nullopt).is_empty);
}

TEST(DeltaCache, PeersOfAllKindsShareTheBitsOfWhatEveryoneSees) {
    Cached c;
    const ecs::Entity entity = c.world.spawn(at(1), Replicated{});
    c.tick();
    c.world.set(entity, at(3));
    c.tick();
    const ComponentNumbers numbers(c.schema.components().size());
    for (const std::optional<Version> baseline :
         {std::optional(c.shadow[0].versions[0]), std::optional<Version>()}) {
        const DeltaCache::Delta delta = c.cache.get(0, baseline);
        for (const ViewClasses classes : {to_owner(), to_others(), to_others() | to_group(3)})
            EXPECT_EQ(c.cache.get(0, baseline, {classes}).offset, delta.offset) << "encoded twice";
        EXPECT_EQ(c.cache.get(0, baseline, {to_everyone(), &numbers}).offset, delta.offset);
    }
}

TEST(DeltaCache, ANewTickForgetsEverything) {
    Cached c;
    const ecs::Entity entity = c.world.spawn(at(1), Replicated{});
    c.world.spawn(at(5), Replicated{});
    c.tick();
    c.cache.get(1, std::nullopt);
    c.cache.get(0, std::nullopt);
    c.world.set(entity, at(3));
    c.tick();
    EXPECT_EQ(c.bits(c.cache.get(0, std::nullopt)), c.expected(0, Image{}));
    EXPECT_EQ(c.cache.get(0, std::nullopt).offset, 0u);
}

}  // namespace
}  // namespace shoal::replication::impl
