#include "replication/play/owned_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "replication/codec/bits.h"
#include "tests/replication/support/harbour.h"

namespace shoal::replication::all::owned_writer_test {
namespace {

using harbour::Aim;
using harbour::Banner;
using harbour::Harbour;
using harbour::owned_schema;

/// A client that owns many ships. The test writes and reads the sections itself.
struct Fleet {
    explicit Fleet(int size) {
        for (int i = 0; i < size; ++i) {
            ships.push_back(stage().world.spawn(Replicated{}, Banner{"0"}));
            stage().give(&client(), ships.back());
        }
        stage().run(10);
        EXPECT_EQ(writer().stats().sent, 0u) << "the game has written nothing";
    }
    Stage& stage() { return harbour.stage; }
    Stage::Client& client() { return harbour.first; }
    OwnedWriter& writer() { return client().owned; }
    void write(std::size_t ship, const std::string& text) {
        client().world.set(stage().replica(client(), ships[ship]), Banner{text});
        writer().update();
    }
    void write_all(const std::string& text) {
        for (std::size_t i = 0; i < ships.size(); ++i) write(i, text);
    }
    /// Returns the number of bits of a section; 0: there is none. The server reads it.
    std::size_t section(std::size_t room) {
        BitWriter out;
        const std::uint64_t number = next++;
        if (!writer().write_section(number, room, out)) {
            EXPECT_EQ(out.bit_count(), 0u);
            return 0;
        }
        EXPECT_LE(out.bit_count(), room);
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        BitReader in(bytes);
        EXPECT_TRUE(stage().owned.read_section(client().id, number, in));
        EXPECT_TRUE(in.at_padding());
        stage().owned.commit_section(client().id, {});
        EXPECT_TRUE(writer().is_consistent());
        return out.bit_count();
    }
    std::string banner(std::size_t ship) { return stage().world.get<Banner>(ships[ship]).text; }
    int count(const std::string& text) {
        int count = 0;
        for (std::size_t i = 0; i < ships.size(); ++i) count += banner(i) == text;
        return count;
    }

    Harbour harbour;
    std::vector<ecs::Entity> ships;
    std::uint64_t next = 1000;
};

TEST(OwnedWriter, ValuesThatDoNotFitIntoASectionFollowInTheNextOnes) {
    Fleet fleet(10);
    fleet.write_all("sixteen letters!");
    const std::size_t all = fleet.section(100'000);
    EXPECT_EQ(fleet.count("sixteen letters!"), 10);
    EXPECT_EQ(fleet.section(100'000), 0u) << "everything was sent";
    EXPECT_FALSE(fleet.writer().lacked_room());
    fleet.write_all("SIXTEEN LETTERS!");
    for (const int sent : {3, 6, 9, 10}) {
        EXPECT_GT(fleet.section(all * 35 / 100), 0u);
        EXPECT_EQ(fleet.count("SIXTEEN LETTERS!"), sent);
        EXPECT_FALSE(fleet.writer().lacked_room()) << "the section was not empty";
    }
    EXPECT_EQ(fleet.writer().stats().sent, 20u);
}

TEST(OwnedWriter, AShipThatAlwaysHasNewValuesDoesNotKeepTheOthersWaiting) {
    Fleet fleet(5);
    fleet.write(0, "sixteen letters!");
    const std::size_t one = fleet.section(100'000);
    fleet.write_all("SIXTEEN LETTERS!");
    for (int i = 0; i < 5; ++i) {
        fleet.write(0, "sixteen letters" + std::to_string(i));
        EXPECT_GT(fleet.section(one + 30), 0u);
    }
    EXPECT_EQ(fleet.count("SIXTEEN LETTERS!"), 4);
}

TEST(OwnedWriter, ASectionLacksRoomIfAValueNeedsMoreThanAllOfIt) {
    Fleet fleet(3);
    fleet.write(0, "sixteen letters!");
    const std::size_t one = fleet.section(100'000);
    EXPECT_FALSE(fleet.writer().lacked_room());
    for (const std::size_t ship : {1u, 2u}) {
        fleet.write(0, "a");
        fleet.write(ship, "sixteen letters!");
        EXPECT_GT(fleet.section(one - 20), 0u);
        EXPECT_EQ(fleet.banner(0), "a") << "it fits";
        EXPECT_EQ(fleet.banner(ship), "0");
        EXPECT_TRUE(fleet.writer().lacked_room());
        EXPECT_GT(fleet.section(one + 30), 0u);
        EXPECT_EQ(fleet.banner(ship), "sixteen letters!");
        EXPECT_FALSE(fleet.writer().lacked_room());
        fleet.write(0, "b");
        fleet.section(100'000);
    }
    fleet.write(0, "c");
    EXPECT_EQ(fleet.section(0), 0u);
    EXPECT_TRUE(fleet.writer().lacked_room());
    EXPECT_GT(fleet.section(100'000), 0u);
    EXPECT_EQ(fleet.section(0), 0u);
    EXPECT_FALSE(fleet.writer().lacked_room()) << "nothing is to be sent";
}

TEST(OwnedWriter, ASectionLacksRoomAlthoughSmallerValuesFit) {
    Fleet fleet(3);
    fleet.write(0, "12345678");
    const std::size_t eight = fleet.section(100'000);
    fleet.write(0, "sixteen letters!");
    fleet.write(1, "abcdefgh");
    fleet.write(2, "abcdefgh");
    EXPECT_GT(fleet.section(eight + 20), 0u);
    EXPECT_EQ(fleet.count("abcdefgh"), 1);
    EXPECT_TRUE(fleet.writer().lacked_room());
}

TEST(OwnedWriter, ASectionKeepsRoomForTheGreatestCount) {
    Fleet fleet(1);
    fleet.write(0, "a");
    const std::size_t one = fleet.section(100'000);
    const std::size_t room =
        one - golomb_bits(0, kOwnedCountOrder) + golomb_bits(kMaxOwnedValues - 1, kOwnedCountOrder);
    fleet.write(0, "b");
    EXPECT_EQ(fleet.section(room - 1), 0u);
    EXPECT_TRUE(fleet.writer().lacked_room());
    EXPECT_EQ(fleet.section(room), one);
}

struct Lamp {
    int brightness = 5;
};

TEST(OwnedWriter, ANewOwnerThatWritesNothingSendsNothing) {
    Schema schema;
    schema.component<Lamp>("lamp", bounded(0, 7), from_owner());
    schema.component<Aim>("aim", from_owner());
    schema.tag<Mine>("mine", to_owner());
    Stage stage(schema);
    Stage::Client& client = stage.add_client();
    const ecs::Entity target = stage.world.spawn(Replicated{}, Lamp{});
    const ecs::Entity tower = stage.world.spawn(Replicated{}, Lamp{}, Aim{2, target});
    int checks = 0;
    stage.owned.set_check(static_cast<ComponentIndex>(schema.find<Aim>()),
                          [&](net::PeerId, ecs::Entity, const void*) {
                              checks += 1;
                              return std::string("no");
                          });
    stage.run(4);
    client.world.destroy(stage.replica(client, target));
    stage.world.set(tower, Aim{3, target});
    stage.run(4);
    stage.give(&client, tower);
    stage.run(6);
    const ecs::Entity replica = stage.replica(client, tower);
    ASSERT_TRUE(client.world.has<Mine>(replica));
    EXPECT_EQ(client.world.get<Aim>(replica).angle, 3);
    EXPECT_FALSE(client.world.get<Aim>(replica).target) << "the client does not have it";
    EXPECT_EQ(client.owned.stats().sent, 0u);
    client.world.set(replica, Aim{4, {}});
    stage.run(8);
    EXPECT_EQ(checks, 1);
    EXPECT_EQ(client.world.get<Aim>(replica).angle, 3) << "it was refused";
    EXPECT_EQ(client.owned.stats().sent, 1u);
    EXPECT_EQ(stage.world.get<Aim>(tower).target, target);
}

TEST(OwnedWriter, ASectionHasAtMost256Values) {
    Fleet fleet(300);
    fleet.write_all("a");
    EXPECT_GT(fleet.section(1'000'000), 0u);
    EXPECT_EQ(fleet.count("a"), 256);
    EXPECT_GT(fleet.section(1'000'000), 0u);
    EXPECT_EQ(fleet.count("a"), 300);
}

TEST(OwnedWriter, OnlyTheNewestPacketOfAValueIsSentAgain) {
    Fleet fleet(2);
    fleet.write(0, "a");
    EXPECT_GT(fleet.section(1'000), 0u);
    fleet.write(0, "b");
    EXPECT_GT(fleet.section(1'000), 0u);
    fleet.writer().on_fate(fleet.next - 2, false);
    EXPECT_EQ(fleet.section(1'000), 0u) << "a newer value is under way";
    fleet.writer().on_fate(fleet.next - 2, false);
    EXPECT_GT(fleet.section(1'000), 0u);
    fleet.writer().on_fate(fleet.next - 1, true);
    EXPECT_EQ(fleet.section(1'000), 0u);
    EXPECT_EQ(fleet.writer().stats().sent, 3u);
    EXPECT_EQ(fleet.banner(1), "0");
}

TEST(OwnedWriter, ValuesThatTheServerAskedForAreSentAlthoughTheyDidNotChange) {
    Fleet fleet(2);
    const auto ask = [&](std::uint32_t net_id) {
        EXPECT_TRUE(fleet.writer().receive(write_send_owned(std::vector<std::uint32_t>{net_id})));
    };
    const ecs::Entity foreign = fleet.stage().world.spawn(Replicated{}, Banner{"foreign"}),
                      local = fleet.client().world.spawn(Mine{}, Banner{"local"});
    fleet.stage().run(4);
    EXPECT_TRUE(fleet.client().world.is_alive(local));
    EXPECT_EQ(fleet.section(1'000), 0u) << "an entity that is not a replica";
    for (const std::uint32_t net_id : {fleet.stage().sender.net_id(foreign), 0u, 12'345u}) ask(net_id);
    EXPECT_EQ(fleet.section(1'000), 0u);
    ask(fleet.stage().sender.net_id(fleet.ships[1]));
    EXPECT_GT(fleet.section(1'000), 0u);
    EXPECT_EQ(fleet.writer().stats().sent, 1u);
    ask(fleet.stage().sender.net_id(fleet.harbour.ship));
    EXPECT_GT(fleet.section(1'000), 0u);
    EXPECT_EQ(fleet.writer().stats().sent, 3u) << "a banner and an aim";
    // It owns the entity only later.
    fleet.stage().sender.set_owner(foreign, fleet.client().peer);
    fleet.stage().world.add<Mine>(foreign);
    fleet.stage().run(4);
    EXPECT_EQ(fleet.writer().stats().sent, 4u);
}

TEST(OwnedWriter, AnEntityWithoutAPresentValueSendsNone) {
    Fleet fleet(2);
    ecs::World& mirror = fleet.client().world;
    const ecs::Entity replica = fleet.stage().replica(fleet.client(), fleet.ships[0]);
    mirror.remove<Banner>(replica);
    fleet.writer().update();
    EXPECT_EQ(fleet.section(1'000), 0u) << "only the server removes components";
    EXPECT_EQ(fleet.banner(0), "0");
    fleet.write(1, "a");
    fleet.stage().world.remove<Banner>(fleet.ships[1]);
    fleet.stage().world.destroy(fleet.ships[0]);
    fleet.stage().run(3);
    fleet.write(1, "b");
    EXPECT_EQ(fleet.section(1'000), 0u);
    EXPECT_TRUE(fleet.writer().is_consistent());
    // The record that removes the component arrives when a value waits.
    Fleet other(1);
    other.stage().world.remove<Banner>(other.ships[0]);
    other.stage().run(1);
    other.write(0, "a");
    other.stage().run(3);
    EXPECT_EQ(other.writer().stats().sent, 0u);
    EXPECT_TRUE(other.writer().is_consistent());
}

TEST(OwnedWriter, ARefusedValueIsNotSentAgain) {
    Harbour harbour;
    const ComponentIndex banner = Harbour::component<Banner>();
    OwnedWriter& writer = harbour.first.owned;
    harbour.write(harbour.first, "bad");
    harbour.stage.run(10);
    EXPECT_EQ(harbour.banner_of(harbour.first), "guest");
    EXPECT_EQ(writer.stats().sent, 1u) << "the server's value is not sent back";
    const Schema schema = owned_schema();
    const std::vector<std::uint32_t> words{2, 'h', 'i'};
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    for (const NetId net_id : {own, own + 1'000, NetId{0}})
        EXPECT_TRUE(writer.receive(write_refusal(schema, {1'000, net_id, banner, "no", words})));
    EXPECT_EQ(harbour.banner_of(harbour.first), "hi");
    EXPECT_TRUE(writer.receive(write_refusal(schema, {1'000, own, banner, "no", words}))) << "told before";
    std::vector<std::byte> malformed = write_refusal(schema, {1'000, own, banner, "no", words});
    malformed.pop_back();
    EXPECT_FALSE(writer.receive(malformed));
    EXPECT_FALSE(writer.receive({}));
    // The game writes before it knows of the refusal.
    const std::size_t told = harbour.refusals[&harbour.first].size();
    harbour.write(harbour.first, "newer");
    EXPECT_TRUE(writer.receive(write_refusal(schema, {1'001, own, banner, "no", words})));
    EXPECT_EQ(harbour.banner_of(harbour.first), "newer");
    EXPECT_EQ(harbour.refusals[&harbour.first].size(), told + 1);
    harbour.stage.run(6);
    EXPECT_EQ(harbour.banner(), "newer");
}

TEST(OwnedWriter, ARefusalOfTheFirstCopyDoesNotRestoreWhileTheSecondOneIsUnderWay) {
    Fleet fleet(1);
    const Schema schema = owned_schema();
    fleet.write(0, "a");
    EXPECT_GT(fleet.section(1'000), 0u);
    fleet.writer().on_fate(fleet.next - 1, false);
    EXPECT_GT(fleet.section(1'000), 0u);
    const ecs::Entity replica = fleet.stage().replica(fleet.client(), fleet.ships[0]);
    const auto refuse = [&](std::uint64_t packet) {
        EXPECT_TRUE(fleet.writer().receive(write_refusal(schema, {packet,
                                                                  fleet.stage().sender.net_id(fleet.ships[0]),
                                                                  Harbour::component<Banner>(),
                                                                  "no",
                                                                  {2, 'h', 'i'}})));
        return fleet.client().world.get<Banner>(replica).text;
    };
    EXPECT_EQ(refuse(fleet.next - 2), "a");
    EXPECT_EQ(refuse(fleet.next - 1), "hi");
    EXPECT_EQ(fleet.writer().stats().refused, 1u);
}

TEST(OwnedWriter, AReconnectedClientSendsTheValuesThatItEverSent) {
    Fleet fleet(3);
    fleet.write(1, "a");
    EXPECT_GT(fleet.section(1'000), 0u);
    EXPECT_EQ(fleet.section(1'000), 0u);
    fleet.write(2, "bad");
    EXPECT_GT(fleet.section(1'000), 0u);
    fleet.stage().run(4);
    EXPECT_EQ(fleet.harbour.refusals[&fleet.client()].size(), 1u);
    const std::uint64_t sent = fleet.writer().stats().sent;
    fleet.writer().reconnect();
    fleet.stage().owned.reconnect(fleet.client().id);
    fleet.next = 1;
    EXPECT_GT(fleet.section(1'000), 0u);
    EXPECT_EQ(fleet.writer().stats().sent, sent + 2);
    EXPECT_EQ(fleet.section(1'000), 0u);
    fleet.write(2, "bad");
    EXPECT_GT(fleet.section(1'000), 0u);
    fleet.stage().run(4);
    EXPECT_EQ(fleet.harbour.refusals[&fleet.client()].size(), 2u) << "packet numbers begin anew";
}

TEST(OwnedWriter, AResetForgetsEntitiesAndValues) {
    Fleet fleet(3);
    fleet.write(1, "a");
    EXPECT_TRUE(fleet.writer().receive(write_send_owned(std::vector<std::uint32_t>{77})));
    EXPECT_EQ(fleet.writer().asked_count(), 1u);
    fleet.client().receiver.reset();
    fleet.writer().reset();
    EXPECT_EQ(fleet.writer().asked_count(), 0u);
    EXPECT_TRUE(fleet.writer().is_consistent());
    EXPECT_EQ(fleet.section(1'000), 0u);
    fleet.writer().update();
    EXPECT_EQ(fleet.section(1'000), 0u);
}

}  // namespace
}  // namespace shoal::replication::all::owned_writer_test
