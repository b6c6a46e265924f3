#include "replication/action/overlay.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "ecs/query.h"
#include "tests/replication/support/stage_actions.h"

namespace shoal::replication::impl::pending_entities_test {
namespace {

using namespace stage_actions;

struct Secret {
    int number = 0;
};  // of the client alone

TEST(Actions, Trap19APendingEntityBecomesTheServersWithTheSameHandle) {
    for (int order = 0; order < 3; ++order) {
        SCOPED_TRACE(testing::Message() << "order " << order);
        Stage stage(stage_schema());
        Stage::Client& client = stage.add_client();
        stage.run(5);
        if (order == 1) stage.queue_is_full = true;  // the record comes first
        const ecs::Entity made = client.make(Make{4, 0});
        ASSERT_TRUE(client.world.is_alive(made));
        client.world.set(made, Secret{5});
        client.act(Push{made, 2, 0});      // refers to it before the server knows it
        if (order == 2) stage.loss = 0.9;  // the result comes first
        stage.run(10);
        stage.queue_is_full = false;
        stage.settle();
        ecs::Query<const Place> places(client.world);
        EXPECT_EQ(places.count(), 1u) << "no duplicate";
        EXPECT_NE(client.receiver.net_id(made), 0u) << "the same handle is the replica";
        EXPECT_EQ(client.world.get<Place>(made).x, 6);
        EXPECT_EQ(client.world.get<Secret>(made).number, 5) << "what the client added stays";
        EXPECT_TRUE(stage.is_equal(client));
        EXPECT_TRUE(client.receiver.is_consistent());
    }
}

TEST(Actions, Trap20ABulletThatTheServerAcceptsAndDestroysVanishes) {
    for (int delay = 0; delay < 6; ++delay) {
        SCOPED_TRACE(testing::Message() << "delay " << delay);
        Stage stage(stage_schema(), static_cast<std::uint32_t>(delay + 1));
        Stage::Client& client = stage.add_client();
        stage.run(5);
        ecs::Entity on_server;
        stage.loss = delay % 2 != 0 ? 0.8 : 0;
        int age = -1;
        stage.actions.on(type_of<Make>(stage), [&](const void*, const Call&) { age = 0; });
        stage.on_step = [&] {
            ecs::Query<const Place> places(stage.world);
            places.each([&](ecs::Entity entity, const Place&) { on_server = entity; });
            if (age >= 0 && age++ == delay / 2) stage.world.destroy(on_server);
        };
        client.act(Make{4, 0});
        stage.run(30);
        stage.settle();
        ecs::Query<const Place> places(client.world);
        EXPECT_EQ(places.count(), 0u);
        EXPECT_TRUE(stage.is_equal(client));
    }
}

TEST(Actions, Trap31APendingEntityThatTheClientDestroysDoesNotComeBack) {
    for (const bool is_late : {false, true}) {
        Stage stage(stage_schema());
        Stage::Client& client = stage.add_client();
        stage.run(5);
        const ecs::Entity made = client.make(Make{4, 0});
        if (is_late) stage.step();
        client.world.destroy(made);
        stage.settle();
        ecs::Query<const Place> places(client.world);
        EXPECT_EQ(places.count(), 0u);
        EXPECT_EQ(client.receiver.stats().suppressed, 1u);
    }
}

TEST(Actions, TheNextEntityDoesNotTakeThePlaceOfOneThatTheServerDestroyedAtOnce) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    int made = 0;
    stage.on_step = [&] {
        ecs::Query<const Place> places(stage.world);
        places.each([&](ecs::Entity entity, const Place& place) {
            made += place.x == 4;
            if (place.x == 4) stage.world.destroy(entity);
        });
    };
    client.act(Make{4, 0});
    stage.run(10);
    EXPECT_EQ(made, 1);
    const ecs::Entity next = stage.world.spawn(Place{5}, Replicated{});
    stage.settle();
    EXPECT_TRUE(stage.replica(client, next));
    EXPECT_TRUE(stage.is_equal(client));
}

struct ForCameras {};

TEST(Actions, AServerWithATagOfItsOwnSpawnsWithThisTag) {
    Stage stage(stage_schema(), 1, {1000, 1000, 1000},
                [](ecs::World& world) { return world.component<ForCameras>(); });
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity made = client.make(Make{4, 0});
    client.act(Push{made, 2, 0});
    stage.settle();
    EXPECT_NE(client.receiver.net_id(made), 0u) << "the same handle is the replica";
    ecs::Query<const Place, ecs::With<ForCameras>, ecs::Without<Replicated>> on_server(stage.world);
    EXPECT_EQ(on_server.count(), 1u);
    on_server.each([](ecs::Entity, const Place& place) { EXPECT_EQ(place.x, 6); });
    EXPECT_TRUE(stage.is_equal(client));
}

TEST(Actions, AnActionMayNameAnAcceptedEntityWhoseRecordIsMissing) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    const ecs::Entity made = client.make(Make{4, 0});
    for (int i = 0; i < 10 && client.actions.stats().accepted == 0; ++i) {
        stage.step();
        for (auto& packet : client.down) packet.is_lost = true;
    }
    ASSERT_EQ(client.actions.stats().accepted, 1u);
    ASSERT_EQ(client.receiver.net_id(made), 0u);
    client.act(Push{made, 2, 0});
    stage.settle();
    EXPECT_EQ(client.world.get<Place>(made).x, 6);
    EXPECT_TRUE(stage.is_equal(client));
}

TEST(Actions, AnActionMayNameEachOfTheLast256EntitiesWhoseRecordsAreMissing) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    std::vector<ecs::Entity> made;
    while (made.size() < 257) {
        made.push_back(client.make(Make{4, 0}));
        if (made.size() % 32 != 0) continue;
        stage.step();
        for (auto& packet : client.down) packet.is_lost = true;
    }
    for (int i = 0; i < 5; ++i) {
        stage.step();
        for (auto& packet : client.down) packet.is_lost = true;
    }
    ASSERT_EQ(client.actions.stats().accepted, 257u);
    for (const unsigned which : {0u, 1u, 256u}) client.act(Push{made[which], 2, 0});
    stage.settle();
    EXPECT_EQ(client.world.get<Place>(made[0]).x, 4) << "the server has forgotten what it was called";
    EXPECT_EQ(client.world.get<Place>(made[1]).x, 6);
    EXPECT_EQ(client.world.get<Place>(made[256]).x, 6);
    EXPECT_TRUE(stage.is_equal(client));
}

TEST(Actions, AnAcceptedEntityWhoseRecordIsMissingEndsWithTheConnection) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    stage.run(5);
    client.act(Make{4, 0});
    for (int i = 0; i < 10 && client.actions.stats().accepted == 0; ++i) {
        stage.step();
        for (auto& packet : client.down) packet.is_lost = true;
    }
    ASSERT_EQ(client.actions.stats().accepted, 1u);
    ecs::Query<const Place> places(client.world);
    ASSERT_EQ(places.count(), 1u);
    client.actions.reset();
    client.receiver.reset();
    EXPECT_EQ(places.count(), 0u);
}

TEST(Actions, ManyEntitiesWhoseRecordsAreLateAreThereOnce) {
    for (const std::uint32_t in_a_step : {5u, 12u}) {
        SCOPED_TRACE(testing::Message() << in_a_step << " in a step");
        Stage stage(stage_schema());
        Stage::Client& client = stage.add_client();
        stage.run(5);
        for (int step = 0; step < 100; ++step) {
            for (std::uint32_t i = 0; i < in_a_step; ++i) client.act(Make{4, 0});
            stage.step();
            for (auto& packet : client.down) packet.is_lost = true;
        }
        stage.settle();
        ecs::Query<const Place> ours(stage.world), theirs(client.world);
        EXPECT_EQ(client.actions.stats().accepted, 100 * in_a_step);
        EXPECT_EQ(ours.count(), 100 * in_a_step);
        EXPECT_EQ(theirs.count(), 100 * in_a_step);
        EXPECT_TRUE(stage.is_equal(client));
    }
}

TEST(Actions, APendingEntityBecomesOneReplicaAlsoIfAHostileServerNamesItTwice) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    const ecs::Entity spawned = client.world.spawn(Place{1});
    client.receiver.replicas().expect(kFirstPending | 7u, spawned);
    const ecs::Entity a = stage.world.spawn(Place{1}, Replicated{}),
                      b = stage.world.spawn(Place{2}, Replicated{});
    stage.sender.set_pending_id(client.peer, stage.sender.assign_net_id(a), 7);
    stage.sender.set_pending_id(client.peer, stage.sender.assign_net_id(b), 7);
    stage.settle(10);
    EXPECT_NE(stage.replica(client, a), stage.replica(client, b));
    EXPECT_TRUE(stage.is_equal(client));
    EXPECT_TRUE(client.receiver.is_consistent());
}

TEST(Actions, APendingPartStaysTheSameEntityWhenItsFormerWholeDies) {
    Stage stage(stage_schema());
    Stage::Client& client = stage.add_client();
    const ecs::Entity first = stage.world.spawn(Place{1}, Replicated{}),
                      second = stage.world.spawn(Place{2}, Replicated{});
    stage.run(5);
    client.receiver.replicas().expect(kFirstPending | 7u, client.world.spawn(Place{3}));
    const ecs::Entity part = stage.world.spawn(Place{3}, Replicated{});
    stage.world.add(part, ecs::to<PartOf>(first));
    stage.sender.set_pending_id(client.peer, stage.sender.assign_net_id(part), 7);
    stage.run(5);
    const ecs::Entity shown = stage.replica(client, part);
    ASSERT_TRUE(shown);
    stage.world.add(part, ecs::to<PartOf>(second));
    stage.loss = 1;
    stage.step();
    stage.loss = 0;
    stage.world.destroy(first);
    stage.step();
    stage.step();
    EXPECT_EQ(stage.replica(client, part), shown);
    stage.settle();
    EXPECT_EQ(stage.replica(client, part), shown);
    EXPECT_TRUE(stage.is_equal(client));
}

}  // namespace
}  // namespace shoal::replication::impl::pending_entities_test
