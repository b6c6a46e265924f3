// The server changes the level while players are connected. Both sides load the entities of a level
// themselves.

#include <gtest/gtest.h>

#include "ecs/query.h"
#include "tests/sim/session.h"

namespace shoal::replication::impl::levels_test {
namespace {

struct Level {
    int number = 0;
};
struct Door {
    int openings = 0;
};
struct Ship {
    int fuel = 0;
};
/// On one side only: what the game adds to the things of a level.
struct Picture {
    int level = 0;
};

Schema level_schema() {
    Schema schema;
    schema.component<Level>("level");
    schema.component<Door>("door");
    schema.component<Ship>("ship");
    return schema;
}

constexpr int kDoors = 20;

/// The keys are the same in all levels.
template <class... Components>
void load(ecs::World& world, int level, const Components&... components) {
    for (std::uint32_t key = 0; key < kDoors; ++key)
        world.spawn(Door{}, Picture{level}, StableKey{key}, components...);
}

// Goal: after each change of the level every client has the server's doors, each bound to the entity that the
// client loaded for this level, and its ship. Method: changes at random, also two in a row, over bad
// networks.
TEST(Levels, ChangeWhilePlayersAreConnected) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        sim::Random random(seed);
        const Schema schema = level_schema();
        sim::Session session(schema, {}, 3, seed);
        ecs::World& world = session.world();
        const ecs::Entity state = world.spawn(Level{1}, Replicated{});
        load(world, 1, Replicated{});
        session.server().on_join([&](PlayerId) { return world.spawn(Ship{5}, Replicated{}); });
        ecs::Query<ecs::Mut<Door>> doors(world);
        std::vector<int> loaded(3, 0);
        const auto frame = [&] {
            session.step();
            for (std::size_t i = 0; i < 3; ++i) {  // what a client does in each frame
                ecs::World& mirror = session.guests()[i]->world;
                ecs::Query<const Level>(mirror).each([&](const Level& level) {
                    if (level.number == loaded[i]) return;
                    loaded[i] = level.number;
                    ecs::Query<ecs::With<Picture>>(mirror).destroy_all();
                    load(mirror, level.number);
                });
            }
        };
        for (int i = 0; i < 120; ++i) frame();
        int level = 1;
        session.set_link(sim::bad_link(random));
        for (int change = 0; change < 4; ++change) {
            for (unsigned twice = random.below(3) == 0 ? 2 : 1; twice > 0; --twice) {
                ecs::Query<ecs::With<StableKey>>(world).destroy_all();
                world.set(state, Level{++level});
                load(world, level, Replicated{});
                if (twice > 1) frame();
            }
            for (unsigned i = random.below(40); i > 0; --i) {
                frame();
                doors.each([&](ecs::Mut<Door> door) {
                    if (random.below(10) == 0) door->openings += 1;
                });
            }
        }
        session.set_link({});
        for (int i = 0; i < 600; ++i) frame();
        session.expect_agreement(1 + kDoors + 3);
        for (const auto& guest : session.guests()) {
            int bound = 0;
            ecs::Query<const Picture, ecs::With<Replica>>(guest->world).each([&](const Picture& picture) {
                EXPECT_EQ(picture.level, level);
                bound += 1;
            });
            EXPECT_EQ(bound, kDoors);
            EXPECT_EQ(guest->world.size(), std::size_t(1 + kDoors + 3));
            EXPECT_EQ(guest->world.get<Ship>(guest->client.player()).fuel, 5);
        }
    }
}

}  // namespace
}  // namespace shoal::replication::impl::levels_test
