#include "replication/play/owned_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "replication/codec/bits.h"
#include "tests/replication/support/harbour.h"

namespace shoal::replication::impl::owned_writer_test {
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
        update();
    }
    void update() { writer().update({}); }
    void write_all(const std::string& text) {
        for (std::size_t i = 0; i < ships.size(); ++i) write(i, text);
    }
    /// Returns the number of bits of the section of an update; 0: there is none. The server reads it.
    std::size_t section(std::size_t room) {
        update();
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
        EXPECT_TRUE(stage().owned.read_section(stage().player(client().id), number, in));
        EXPECT_TRUE(in.at_padding());
        stage().owned.commit_section(stage().player(client().id), {});
        stage().owned.run(stage().player(client().id), 0, {});
        EXPECT_TRUE(writer().is_consistent());
        return out.bit_count();
    }
    /// As section(), until a payload has arrived.
    std::size_t delivered(std::size_t room) {
        const std::size_t bits = section(room);
        if (bits != 0) writer().on_fate(next - 1, true);
        return bits;
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
    const std::size_t all = fleet.delivered(100'000);
    EXPECT_EQ(fleet.count("sixteen letters!"), 10);
    EXPECT_EQ(fleet.section(100'000), 0u) << "everything was sent";
    EXPECT_FALSE(fleet.writer().lacked_room());
    fleet.write_all("SIXTEEN LETTERS!");
    for (const int sent : {3, 6, 9, 10}) {
        EXPECT_GT(fleet.delivered(all * 40 / 100), 0u);
        EXPECT_EQ(fleet.count("SIXTEEN LETTERS!"), sent);
        EXPECT_FALSE(fleet.writer().lacked_room()) << "the section was not empty";
    }
    EXPECT_EQ(fleet.section(100'000), 0u);
    EXPECT_EQ(fleet.writer().stats().sent, 20u);
}

TEST(OwnedWriter, AShipThatAlwaysHasNewValuesDoesNotKeepTheOthersWaiting) {
    Fleet fleet(5);
    fleet.write(0, "sixteen letters!");
    const std::size_t one = fleet.delivered(100'000);
    fleet.write_all("SIXTEEN LETTERS!");
    for (int i = 0; i < 5; ++i) {
        fleet.write(0, "sixteen letters" + std::to_string(i));
        EXPECT_GT(fleet.delivered(one + 30), 0u);
    }
    EXPECT_EQ(fleet.count("SIXTEEN LETTERS!"), 4);
}

TEST(OwnedWriter, ASectionLacksRoomIfTheOldestValueNeedsMoreThanAllOfIt) {
    Fleet fleet(2);
    fleet.write(0, "sixteen letters!");
    const std::size_t one = fleet.delivered(100'000);
    EXPECT_FALSE(fleet.writer().lacked_room());
    fleet.write(0, "SIXTEEN LETTERS!");
    fleet.write(1, "a");
    EXPECT_EQ(fleet.section(one - 20), 0u);
    EXPECT_TRUE(fleet.writer().lacked_room());
    EXPECT_EQ(fleet.banner(1), "0") << "it does not overtake";
    EXPECT_GT(fleet.delivered(100'000), 0u);
    EXPECT_FALSE(fleet.writer().lacked_room());
    EXPECT_EQ(fleet.section(0), 0u);
    EXPECT_FALSE(fleet.writer().lacked_room()) << "nothing is to be sent";
}

TEST(OwnedWriter, ASectionKeepsRoomForTheGreatestCount) {
    Fleet fleet(1);
    fleet.write(0, "a");
    const std::size_t one = fleet.delivered(100'000);
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
    EXPECT_EQ(stage.world.get<Aim>(tower).target, target);
}

TEST(OwnedWriter, ASectionHasAtMost256Values) {
    Fleet fleet(300);
    fleet.write_all("a");
    EXPECT_GT(fleet.delivered(1'000'000), 0u);
    EXPECT_EQ(fleet.count("a"), 256);
    EXPECT_GT(fleet.delivered(1'000'000), 0u);
    EXPECT_EQ(fleet.count("a"), 300);
}

TEST(OwnedWriter, ASmallValueIsSentThreeTimesAndAgainWhenItIsLost) {
    Fleet fleet(2);
    fleet.write(0, "a");
    for (int i = 0; i < 3; ++i) EXPECT_GT(fleet.section(1'000), 0u);
    EXPECT_EQ(fleet.section(1'000), 0u);
    fleet.writer().on_fate(fleet.next - 2, false);
    EXPECT_GT(fleet.section(1'000), 0u);
    EXPECT_EQ(fleet.section(1'000), 0u);
    fleet.writer().on_fate(fleet.next - 3, true);
    fleet.writer().on_fate(fleet.next - 4, false);
    EXPECT_EQ(fleet.section(1'000), 0u) << "one of them has arrived";
    EXPECT_EQ(fleet.writer().stats().sent, 4u);
    EXPECT_EQ(fleet.banner(1), "0");
}

TEST(OwnedWriter, AnUpdateHasOneSection) {
    Fleet fleet(1);
    fleet.write(0, "a");
    BitWriter out;
    EXPECT_TRUE(fleet.writer().write_section(1, 1'000, out));
    EXPECT_FALSE(fleet.writer().write_section(2, 1'000, out));
}

TEST(OwnedWriter, AValueThatAnActionNamesIsSentBesideANewerOne) {
    Fleet fleet(1);
    std::vector<std::string> seen;
    const ecs::Hook hook = fleet.stage().world.on_change<Banner>(
        [&](ecs::World&, ecs::Entity, const Banner& banner) { seen.push_back(banner.text); });
    fleet.write(0, "a");
    fleet.write(0, "b");
    EXPECT_EQ(fleet.writer().name_newest({}), 2u);
    fleet.write(0, "c");
    fleet.write(0, "d");
    EXPECT_GT(fleet.delivered(1'000), 0u);
    EXPECT_EQ(seen, (std::vector<std::string>{"b", "d"}));
}

TEST(OwnedWriter, ActionsAndMessagesKeepAtMost256Values) {
    Fleet fleet(2);
    fleet.write(1, "kept");
    fleet.writer().name_newest({});
    for (int i = 1; i <= 1'000; ++i) {
        fleet.write(0, std::to_string(i));
        EXPECT_EQ(fleet.writer().name_newest({}), static_cast<std::uint32_t>(i) + 1);
    }
    EXPECT_GT(fleet.delivered(100'000), 0u);
    EXPECT_EQ(fleet.writer().stats().sent, 256u) << "the newest";
    EXPECT_EQ(fleet.banner(0), "1000");
    EXPECT_EQ(fleet.banner(1), "kept") << "there is no newer value of this ship";
}

TEST(OwnedWriter, AnEntityWithoutAPresentValueSendsNone) {
    Fleet fleet(2);
    ecs::World& mirror = fleet.client().world;
    const ecs::Entity replica = fleet.stage().replica(fleet.client(), fleet.ships[0]);
    mirror.remove<Banner>(replica);
    EXPECT_EQ(fleet.section(1'000), 0u) << "only the server removes components";
    EXPECT_EQ(fleet.banner(0), "0");
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
    EXPECT_GT(other.stage().player(other.client().id).owned.stats.ignored, 0u);
    EXPECT_TRUE(other.writer().is_consistent());
}

TEST(OwnedWriter, ARefusalIsToldWhenTheServersValueIsThere) {
    Harbour harbour;
    const ComponentIndex banner = Harbour::component<Banner>();
    OwnedWriter& writer = harbour.first.owned;
    const std::vector<std::string>& told = harbour.refusals[&harbour.first];
    harbour.write(harbour.first, "bad");
    harbour.stage.run(10);
    EXPECT_EQ(harbour.banner_of(harbour.first), "guest");
    EXPECT_EQ(told.size(), 1u);
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    for (const NetId net_id : {own, own + 1'000, NetId{0}})
        EXPECT_TRUE(writer.receive(OwnedRefusal{1'000, 0, net_id, banner, "no"}));
    harbour.stage.run(10);
    EXPECT_EQ(told.size(), 1u) << "no record says so";
    EXPECT_TRUE(writer.receive(OwnedRefusal{1, 0, own, banner, "no"}));
    harbour.stage.run(1);
    EXPECT_EQ(told.size(), 2u);
    EXPECT_FALSE(writer.receive(std::nullopt));
    EXPECT_FALSE(writer.receive(OwnedRefusal{1, 0, own, Harbour::component<harbour::Cargo>(), "no"}));
    EXPECT_FALSE(writer.receive(OwnedRefusal{1, 0, own, 0x8000, "no"}));
    for (std::uint32_t i = 0; i < 1'000; ++i)
        EXPECT_TRUE(writer.receive(OwnedRefusal{1'000 + i, 1, own, banner, "no"}));
    harbour.stage.run(1);
    EXPECT_LE(told.size(), 66u) << "they are bounded";
}

TEST(OwnedWriter, AReconnectedClientSendsTheValuesThatHaveNotArrived) {
    Fleet fleet(3);
    fleet.write(1, "a");
    EXPECT_GT(fleet.delivered(1'000), 0u);
    fleet.write(2, "b");
    for (int i = 0; i < 3; ++i) EXPECT_GT(fleet.section(1'000), 0u);
    for (int i = 1; i <= 3; ++i)
        fleet.writer().on_fate(fleet.next - static_cast<std::uint64_t>(i), false);  // the connection ended
    const std::uint64_t sent = fleet.writer().stats().sent;
    fleet.writer().reconnect();
    fleet.next = 1;
    EXPECT_GT(fleet.delivered(1'000), 0u);
    EXPECT_EQ(fleet.writer().stats().sent, sent + 1);
    EXPECT_EQ(fleet.section(1'000), 0u);
}

TEST(OwnedWriter, AResetForgetsEntitiesAndValues) {
    Fleet fleet(3);
    fleet.write(1, "a");
    fleet.client().receiver.reset();
    fleet.writer().reset();
    EXPECT_TRUE(fleet.writer().is_consistent());
    EXPECT_EQ(fleet.section(1'000), 0u);
}

}  // namespace
}  // namespace shoal::replication::impl::owned_writer_test
