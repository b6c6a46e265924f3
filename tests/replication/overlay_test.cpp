#include "replication/action/overlay.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/replication/support/stage_actions.h"

namespace shoal::replication::impl::overlay_test {
namespace {

using namespace stage_actions;

using Key = Overlay::Key;

/// A client with two boxes, and an overlay of its world.
struct Sheet : BoxStage {
    Sheet() : BoxStage(1) {
        world.set(box, Strength{1});
        other = world.spawn(Place{2}, Replicated{});
        run(5);
        other_seen = replica(client, other);
    }
    void write(Key action, ecs::Entity entity, std::int32_t x) {
        client.world.set(entity, Place{x});
        overlay.add(action, entity, place_index);
    }
    int place() const { return client.world.get<Place>(seen).x; }
    int other_place() const { return client.world.get<Place>(other_seen).x; }

    const ComponentIndex place_index = static_cast<ComponentIndex>(schema.find<Place>());
    ecs::Entity other, other_seen;
    Overlay overlay{client.receiver};
};

const Key kFirst{ActionStream::ordered, 0xffff'ffff}, kSecond{ActionStream::ordered, 0},
    kThird{ActionStream::ordered, 1}, kAside{ActionStream::independent, 0};

TEST(Overlay, AnUndoneActionShowsTheNewestOfTheOthersAndThenTheServersValue) {
    Sheet sheet;
    sheet.write(kFirst, sheet.seen, 10);
    sheet.write(kSecond, sheet.seen, 20);
    sheet.write(kSecond, sheet.other_seen, 30);
    sheet.write(kThird, sheet.seen, 40);
    sheet.overlay.undo(kThird);
    EXPECT_EQ(sheet.place(), 20);
    EXPECT_EQ(sheet.other_place(), 30);
    sheet.overlay.undo(kFirst);
    EXPECT_EQ(sheet.place(), 20) << "a newer one is shown";
    sheet.overlay.undo(kSecond);
    EXPECT_EQ(sheet.place(), 1);
    EXPECT_EQ(sheet.other_place(), 2);
    EXPECT_TRUE(sheet.overlay.empty());
}

TEST(Overlay, ComponentsOfOneEntityAreUndoneEachForItself) {
    Sheet sheet;
    sheet.write(kFirst, sheet.seen, 10);
    sheet.client.world.set(sheet.seen, Strength{50});
    sheet.overlay.add(kSecond, sheet.seen, static_cast<ComponentIndex>(sheet.schema.find<Strength>()));
    sheet.overlay.undo(kSecond);
    EXPECT_EQ(sheet.client.world.get<Strength>(sheet.seen).points, 1);
    EXPECT_EQ(sheet.place(), 10);
    EXPECT_FALSE(sheet.overlay.empty());
}

TEST(Overlay, ActionsFromANumberOnAreThoseOfTheOrderedStreamAlsoWhenTheNumbersWrap) {
    Sheet sheet;
    sheet.write(kFirst, sheet.seen, 10);
    sheet.write(kAside, sheet.other_seen, 20);
    sheet.write(kSecond, sheet.seen, 30);
    sheet.write(kThird, sheet.seen, 40);
    sheet.overlay.undo_from(kSecond.sequence);
    EXPECT_EQ(sheet.place(), 10);
    EXPECT_EQ(sheet.other_place(), 20) << "the independent stream has numbers of its own";
    sheet.overlay.undo_from(kFirst.sequence);
    EXPECT_EQ(sheet.place(), 1);
    sheet.overlay.undo(kAside);
    EXPECT_EQ(sheet.other_place(), 2);
}

TEST(Overlay, AnAcceptedActionEndsWhenTheWorldHasItsTick) {
    Sheet sheet;
    const Tick tick = *sheet.client.receiver.shown_tick(sheet.seen);
    sheet.write(kFirst, sheet.seen, 10);
    sheet.overlay.end_accepted();
    EXPECT_EQ(sheet.place(), 10) << "not accepted";
    sheet.overlay.accept({ActionStream::independent, kFirst.sequence}, tick);
    sheet.overlay.end_accepted();
    EXPECT_EQ(sheet.place(), 10) << "another action was accepted";
    sheet.overlay.accept(kFirst, tick + 1);
    sheet.overlay.end_accepted();
    EXPECT_EQ(sheet.place(), 10);
    EXPECT_FALSE(sheet.overlay.empty());
    sheet.overlay.accept(kFirst, tick);
    sheet.overlay.end_accepted();
    EXPECT_EQ(sheet.place(), 1);
    EXPECT_TRUE(sheet.overlay.empty());
}

TEST(Overlay, ForgetsTheEntitiesThatAreNoReplicas) {
    Sheet sheet;
    const ecs::Entity own = sheet.client.world.spawn(Place{1});
    sheet.overlay.add(kFirst, own, sheet.place_index);
    EXPECT_TRUE(sheet.overlay.empty()) << "never was one";
    sheet.write(kFirst, sheet.seen, 10);
    sheet.write(kFirst, sheet.other_seen, 20);
    sheet.world.destroy(sheet.box);
    sheet.run(3);
    sheet.overlay.end_accepted();
    EXPECT_FALSE(sheet.overlay.empty());
    EXPECT_EQ(sheet.other_place(), 20);
    sheet.world.destroy(sheet.other);
    sheet.run(3);
    sheet.overlay.end_accepted();
    EXPECT_TRUE(sheet.overlay.empty()) << "also without an answer";
}

TEST(Overlay, AfterAResetTheWorldKeepsWhatItHas) {
    Sheet sheet;
    sheet.write(kFirst, sheet.seen, 10);
    sheet.overlay.reset();
    EXPECT_TRUE(sheet.overlay.empty());
    EXPECT_EQ(sheet.place(), 10);
    sheet.overlay.undo(kFirst);
    EXPECT_EQ(sheet.place(), 10);
    sheet.write(kFirst, sheet.seen, 20);
    sheet.overlay.undo(kFirst);
    EXPECT_EQ(sheet.place(), 1);
}

TEST(Overlay, IsFullWith1024Entries) {
    Sheet sheet;
    for (std::uint32_t i = 0; i < Overlay::kFullEntries; ++i) {
        EXPECT_FALSE(sheet.overlay.is_full());
        sheet.overlay.add({ActionStream::ordered, i}, sheet.seen, sheet.place_index);
    }
    EXPECT_TRUE(sheet.overlay.is_full());
    EXPECT_TRUE(sheet.overlay.is_consistent());
    sheet.overlay.undo_from(1'000);
    EXPECT_FALSE(sheet.overlay.is_full());
}

}  // namespace
}  // namespace shoal::replication::impl::overlay_test
