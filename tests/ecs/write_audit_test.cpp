#include "ecs/write_audit.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ecs/query.h"
#include "tests/ecs/support/types.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;

namespace {

struct Name {
    std::string text;
};
struct Admires {
    static constexpr auto relation = many;
    int much = 0;
};

std::uint64_t hash_name(const void* value, std::size_t) {
    const std::string& text = static_cast<const Name*>(value)->text;
    return WriteAudit::hash_bytes(text.data(), text.size());
}

}  // namespace

TEST(WriteAudit, NamesComponentAndEntityOfARawWrite) {
    World world;
    std::vector<Entity> entities;
    for (int i = 0; i < 100; ++i) entities.push_back(world.spawn(Health{i}, Position{}, Name{"n"}));
    WriteAudit audit{world};
    audit.watch<Health>();
    audit.watch<Position>();
    audit.watch<Name>(hash_name);
    EXPECT_TRUE(audit.compare().empty());

    world.unsafe_raw_unmarked<Health>(entities[42])->points = -1;
    std::vector<WriteAudit::Missed> missed = audit.compare();
    ASSERT_EQ(missed.size(), 1u);
    EXPECT_EQ(missed[0].entity, entities[42]);
    EXPECT_EQ(missed[0].component, world.component<Health>());
    EXPECT_EQ(missed[0].name, "ecs_types::Health");
    EXPECT_TRUE(audit.compare().empty());  // reported once

    world.patch<Name>(entities[7], [](Name& name) {
        name.text = "other";
        return false;  // although it wrote
    });
    missed = audit.compare();
    ASSERT_EQ(missed.size(), 1u);
    EXPECT_EQ(missed[0].entity, entities[7]);
    EXPECT_EQ(missed[0].component, world.component<Name>());
}

TEST(WriteAudit, ReportsRawWritesToPairs) {
    World world;
    const Entity a = world.spawn(), b = world.spawn(), c = world.spawn();
    WriteAudit audit{world};
    audit.watch<Admires>();
    world.add(a, to<Admires>(b));
    world.add(a, to<Admires>(c));
    EXPECT_TRUE(audit.compare().empty());
    world.patch(a, to<Admires>(b), [](Admires& l) { l.much = 1; });
    EXPECT_TRUE(audit.compare().empty());
    const_cast<Admires*>(world.try_get(a, to<Admires>(c)))->much = 2;
    const auto missed = audit.compare();
    ASSERT_EQ(missed.size(), 1u);
    EXPECT_EQ(missed[0].entity, a);
}

// Goal: every seeded raw write is reported, and nothing else, whatever rows move.
TEST(WriteAudit, ReportsRawWritesOnly) {
    std::mt19937 random(1);
    World world;
    WriteAudit audit{world};
    audit.watch<Health>();
    audit.watch<Name>(hash_name);
    Query<Health, Without<Frozen>> all{world};
    Query<Mut<Health>> some{world};
    std::vector<Entity> entities;
    int caught = 0;
    for (int step = 0; step < 2'000; ++step) {
        const Entity entity = entities.empty() ? Entity{} : entities[random() % entities.size()];
        switch (random() % 9) {
            case 0:
                entities.push_back(world.spawn(Health{1}, Name{std::string(random() % 40, 'x')}));
                break;
            case 1:
                if (random() % 4 == 0) world.destroy(entity);
                break;
            case 2:
                if (world.is_alive(entity)) world.add<Frozen>(entity);
                break;
            case 3:
                if (world.is_alive(entity)) world.remove<Frozen>(entity);
                break;
            case 4:
                if (world.is_alive(entity)) world.set(entity, Name{std::string(random() % 40, 'y')});
                break;
            case 5:
                all.each([](Health& health) { ++health.points; });
                break;
            case 6:
                some.each([](Mut<Health> health) {
                    if (health.read().points % 3 == 0) ++health->points;
                });
                break;
            case 7:
                if (world.is_alive(entity)) world.remove<Health>(entity);
                break;
            case 8:
                ASSERT_TRUE(audit.compare().empty()) << step;
                if (Health* health = world.unsafe_raw_unmarked<Health>(entity)) {
                    ++health->points;
                    const auto missed = audit.compare();
                    ASSERT_EQ(missed.size(), 1u);
                    EXPECT_EQ(missed[0].entity, entity);
                    ++caught;
                }
                break;
        }
    }
    EXPECT_GT(caught, 50);
}
