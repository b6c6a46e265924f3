#include "replication/send/sender.h"

#include <gtest/gtest.h>

#include <algorithm>
#include "tests/replication/support/world.h"
#include "tests/support/allocations.h"

namespace shoal::replication::impl {
namespace {

using sim::Name;
using sim::Position;

// Versions

TEST(Sender, Rule01AnEmptyDeltaIsSentWhileANewerRecordIsInFlight) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(entity, at(2));
    const SentPacket b = pair.tick_and_encode();
    pair.world.set(entity, at(1));
    const SentPacket empty = pair.tick_and_encode();
    EXPECT_EQ(pair.sender.stats(pair.peer).empty_records, 1u);
    pair.deliver(b);
    pair.deliver(empty);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 1);
}

TEST(Sender, Rule01AnEmptyDeltaIsSentBecauseALostRecordMayHaveArrived) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(entity, at(2));
    const SentPacket b = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(b), Receiver::Verdict::accepted);  // its ack is lost
    pair.world.set(entity, at(1));
    pair.lose(b);
    pair.exchange();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 1);
    EXPECT_EQ(pair.sender.stats(pair.peer).empty_records, 1u);
}

TEST(Sender, Rule01AnEmptyDeltaIsRepeatedUntilOneArrives) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(entity, at(2));
    const SentPacket b = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(b), Receiver::Verdict::accepted);
    pair.world.set(entity, at(1));
    SentPacket empty = pair.tick_and_encode();
    pair.lose(b);
    for (int i = 0; i < 5; ++i) {
        pair.lose(empty);
        empty = pair.tick_and_encode();
    }
    pair.deliver(empty);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 1);
    pair.tick();
    EXPECT_FALSE(pair.encode()) << "after the ack no more is sent";
}

TEST(Sender, Rule01WritesOfTheSameValueSendNothingAndKeepTheBaseline) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    for (int i = 0; i < 20; ++i) {  // writes without a change
        pair.world.set(entity, at(1));
        pair.tick();
        EXPECT_FALSE(pair.encode());
    }
    pair.world.set(entity, at(5));
    EXPECT_EQ(pair.exchange(), 1);  // a delta of the only version that the peer has
    EXPECT_EQ(pair.on_client<Position>(entity).x, 5);
    EXPECT_EQ(pair.receiver.stats().refused_packets, 0u);
}

TEST(Sender, ALostRecordIsReplacedByOneWithTheNewestState) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    const SentPacket first = pair.tick_and_encode();
    pair.world.set(entity, at(2));
    pair.lose(first);
    EXPECT_EQ(pair.exchange(), 1);
    EXPECT_EQ(pair.on_client<Position>(entity).x, 2);
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, 2u);
}

TEST(Sender, ALostRecordIsNotReplacedWhileANewerOneIsInFlight) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(entity, at(2));
    const SentPacket old = pair.tick_and_encode();
    pair.world.set(entity, at(3));
    const SentPacket newer = pair.tick_and_encode();
    pair.lose(old);
    pair.tick();
    EXPECT_FALSE(pair.encode()) << "the newer record is in flight";
    pair.deliver(newer);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 3);
}

// The picture of send/README.md: a client learns of a packet one tick later, the server of this another one
// later.
TEST(Sender, ThePictureOfALostRecordIsTrue) {
    Pair pair;
    const auto stats = [&] { return pair.sender.stats(pair.peer); };
    const ecs::Entity entity = pair.spawn(at(0));
    const SentPacket tick_10 = pair.tick_and_encode();
    pair.world.set(entity, at(1));
    const SentPacket tick_11 = pair.tick_and_encode();
    EXPECT_EQ(stats().full_records, 2u) << "nothing is acknowledged";
    pair.deliver(tick_10);
    pair.world.set(entity, at(2));
    const SentPacket tick_12 = pair.tick_and_encode();
    pair.deliver(tick_11);
    pair.world.set(entity, at(3));
    const SentPacket tick_13 = pair.tick_and_encode();
    EXPECT_EQ(stats().records_sent, 4u);
    EXPECT_EQ(stats().full_records, 2u) << "since 10, and since 11";
    pair.tick();
    pair.lose(tick_12);
    EXPECT_FALSE(pair.encode()) << "tick 14";
    pair.deliver(tick_13);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 3) << "without the packet of tick 12";
    pair.tick();
    EXPECT_FALSE(pair.encode()) << "tick 15";
    pair.world.set(entity, at(4));
    pair.deliver(pair.tick_and_encode());
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 4);
    EXPECT_EQ(stats().records_sent, 5u);
    EXPECT_EQ(stats().empty_records, 0u);
}

TEST(Sender, Rule06ARecordWhoseBaselineIsForgottenIsFull) {
    SenderOptions options;
    options.history_s = 0.1;  // 6 ticks
    Pair pair(options);
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    for (int i = 0; i < 20; ++i) {  // nothing arrives
        pair.world.set(entity, at(static_cast<float>(i)));
        pair.lose(pair.tick_and_encode());
    }
    const std::uint64_t whole_before = pair.sender.stats(pair.peer).full_records;
    pair.world.set(entity, at(30));
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, whole_before + 1);
    EXPECT_EQ(pair.on_client<Position>(entity).x, 30);
    EXPECT_EQ(pair.receiver.entity_count(), 1u) << "it must be the same entity";
}

// The round trip is longer than history_s: up to max_history_s, deltas go on.
TEST(Sender, Rule31VersionsStayWhileAPeerNeedsThem) {
    for (const std::size_t round_trip : {3u, 10u, 25u, 55u, 130u}) {
        SenderOptions options;
        options.history_s = 0.1;    // 6 ticks
        options.max_history_s = 2;  // 120 ticks
        Pair pair(options);
        const ecs::Entity entity = pair.spawn(at(0));
        std::vector<SentPacket> open;
        std::uint64_t full_records = 0;
        for (int i = 1; i <= 400; ++i) {
            pair.world.set(entity, at(static_cast<float>(i % 60)));
            open.push_back(pair.tick_and_encode());
            EXPECT_EQ(pair.receive(open.back()), Receiver::Verdict::accepted);
            pair.receiver.apply();
            if (open.size() > round_trip) {
                pair.tell(open.front(), i % 50 != 0);  // some acks are lost
                open.erase(open.begin());
            }
            if (i == 250) full_records = pair.sender.stats(pair.peer).full_records;
        }
        if (round_trip < 60) {
            EXPECT_EQ(pair.sender.stats(pair.peer).full_records, full_records) << round_trip;
        } else {
            EXPECT_GT(pair.sender.stats(pair.peer).full_records, full_records) << round_trip;
        }
    }
}

TEST(Sender, Rule06AnOldVersionStaysABaselineWhileNothingChanges) {
    Pair pair({.history_s = 0.1});
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    for (int i = 0; i < 500; ++i) pair.exchange();
    const std::uint64_t whole_before = pair.sender.stats(pair.peer).full_records;
    pair.world.set(entity, at(2));
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, whole_before);
    EXPECT_EQ(pair.on_client<Position>(entity).x, 2);
}

// A component changes in each tick, for longer than the history lasts. The peer's schema lacks it.
TEST(Sender, Rule31APeerThatDoesNotKnowWhatChangesKeepsItsBaseline) {
    struct Hat {
        int size = 0;
    };
    Schema schema, of_peer;
    schema.component<Position>("position");
    of_peer.component<Position>("position");
    schema.component<Hat>("hat");
    schema.optional<Hat>();
    ecs::World world, mirror;
    Sender sender(world, schema);
    Receiver receiver(mirror, of_peer);
    const Sender::Peer peer = sender.add_peer({.numbers = schema.numbers_in(of_peer.summary()).value()});
    const ecs::Entity entity = world.spawn(Replicated{}, Position{}, Hat{});
    for (Tick tick = 1; tick <= 300; ++tick) {
        world.set(entity, Hat{static_cast<int>(tick)});
        if (tick == 250) world.set(entity, at(5));
        sender.update(tick);
        std::byte room[1300];
        const auto payload = sender.encode(peer, tick, 1100, room);
        if (payload.empty()) continue;
        ASSERT_EQ(receiver.receive(tick, payload), Receiver::Verdict::accepted);
        sender.on_fate(peer, tick, true);
    }
    receiver.apply();
    EXPECT_EQ(mirror.get<Position>(receiver.entity(sender.net_id(entity))).x, 5);
    EXPECT_EQ(sender.stats(peer).full_records, 1u);
    EXPECT_LT(sender.stats(peer).records_sent, 60u) << "not in each tick";
}

// Fates

TEST(Sender, Rule14FatesOfUnknownPacketsAndSecondFatesChangeNothing) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(entity, at(2));
    const SentPacket packet = pair.tick_and_encode();
    pair.sender.on_fate(pair.peer, 999, true);
    pair.sender.on_fate(pair.peer, 0, false);
    pair.deliver(packet);
    pair.lose(packet);  // net/ never reports twice, but it must be safe
    pair.tick();
    EXPECT_FALSE(pair.encode());
    EXPECT_EQ(pair.sender.stats(pair.peer).pending, 0u);
}

TEST(Sender, Rule14FatesMayComeInAnyOrder) {
    Pair pair({}, {}, 0xfffffff8u, 0xfffffff0u);  // ticks and packet numbers wrap around
    const ecs::Entity entity = pair.spawn(at(0)), other = pair.spawn(at(0));
    sim::Random random(1);
    std::vector<SentPacket> open;
    for (int i = 1; i < 400; ++i) {
        pair.world.set(random.chance(0.5) ? entity : other, at(static_cast<float>(random.below(4))));
        pair.tick();
        if (const auto packet = pair.encode()) open.push_back(*packet);
        while (open.size() > 8) {
            const std::size_t which = random.below(static_cast<std::uint32_t>(open.size()));
            const bool arrives = random.chance(0.6);
            const bool accepted = arrives && pair.receive(open[which]) == Receiver::Verdict::accepted;
            pair.tell(open[which], accepted && random.chance(0.8));  // some acks are lost
            ASSERT_TRUE(pair.sender.is_consistent());
            open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
            pair.forward_rebases();
            pair.receiver.apply();
        }
    }
    for (const SentPacket& packet : open) pair.lose(packet);
    for (int i = 0; i < 3; ++i) pair.exchange();
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_EQ(pair.receiver.stats().malformed_packets, 0u);
}

// Goal: an ack that arrives after that of a newer packet changes neither the baseline, to a version that the
// receiver dropped (there would be a rebase), nor the anchor.
TEST(Sender, ALateAckDoesNotMoveTheBaselineBack) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    const SentPacket first = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(first), Receiver::Verdict::accepted);
    pair.world.set(entity, at(2));
    const SentPacket second = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(second), Receiver::Verdict::accepted);
    pair.tell(second, true);
    pair.world.set(entity, at(3));
    const SentPacket third = pair.tick_and_encode();  // based on the second
    EXPECT_EQ(pair.receive(third), Receiver::Verdict::accepted);
    pair.receiver.apply();
    pair.tell(first, true);
    pair.world.set(entity, at(4));
    const SentPacket fourth = pair.tick_and_encode();
    ASSERT_TRUE(header_of(fourth).anchor);
    EXPECT_EQ(header_of(fourth).anchor->distance, fourth.number - second.number);
    EXPECT_EQ(pair.receive(fourth), Receiver::Verdict::accepted);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 4);
    EXPECT_EQ(pair.receiver.stats().rebases, 0u);
}

// Goal: anchors and completion markers refer exactly as far back as the format and the receiver allow.
TEST(Sender, DistancesReachExactlyTheLimitOfTheFormat) {
    for (std::uint64_t distance = 250; distance <= 260; ++distance) {
        SCOPED_TRACE(distance);
        const bool is_near = distance <= kMaxPacketDistance;
        Pair anchored;
        const ecs::Entity a = anchored.spawn(at(1));
        const SentPacket start = anchored.tick_and_encode();
        anchored.deliver(start);
        anchored.receiver.apply();
        anchored.next_number = start.number + distance;
        anchored.world.set(a, at(2));
        const SentPacket packet = anchored.tick_and_encode();
        ASSERT_EQ(packet.number, start.number + distance);
        EXPECT_EQ(header_of(packet).anchor.has_value(), is_near);
        EXPECT_EQ(anchored.receive(packet), Receiver::Verdict::accepted);
        anchored.receiver.apply();
        EXPECT_EQ(anchored.on_client<Position>(a).x, 2);

        Pair undecided;
        const ecs::Entity b = undecided.spawn(at(1)), c = undecided.spawn(at(1));
        undecided.exchange();
        undecided.world.set(b, at(2));
        const SentPacket open = undecided.tick_and_encode();
        EXPECT_EQ(undecided.receive(open), Receiver::Verdict::accepted);  // the sender does not know it
        undecided.next_number = open.number + distance;
        undecided.world.set(c, at(2));
        const SentPacket last = undecided.tick_and_encode();
        ASSERT_EQ(header_of(last).complete.has_value(), is_near);
        EXPECT_EQ(undecided.receive(last), Receiver::Verdict::accepted);
        undecided.receiver.apply();
        EXPECT_EQ(undecided.receiver.complete().has_value(), is_near);
    }
}

// Cost

TEST(Sender, AnIdleTickSendsNothingAndReadsNoEntity) {
    Pair pair;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 500; ++i) entities.push_back(pair.spawn(at(1)));
    while (pair.exchange() > 0) {
    }
    // Writes that change detection does not see must not be found: then no entity was read.
    for (const ecs::Entity entity : entities) pair.world.unsafe_raw_unmarked<Position>(entity)->x = 50;
    const std::uint64_t records = pair.sender.stats(pair.peer).records_sent;
    const std::size_t allocations = test::allocations();
    int packets = 0;
    for (int i = 0; i < 600; ++i) {
        pair.tick();
        while (const auto packet = pair.encode()) {
            pair.deliver(*packet);
            ++packets;
        }
    }
    EXPECT_EQ(pair.sender.stats(pair.peer).records_sent, records);
    EXPECT_LE(packets, 11) << "one heartbeat per second";
    EXPECT_LE(test::allocations() - allocations, 11u * 8) << "allocations of the test itself";
}

TEST(Sender, PeersWithTheSameBaselineGetTheSameBits) {
    Pair pair;
    const Sender::Peer second = pair.sender.add_peer();
    const ecs::Entity entity = pair.spawn(at(1), Name{"both"});
    for (int i = 0; i < 5; ++i) {
        pair.world.set(entity, at(static_cast<float>(i)));
        const SentPacket packet = pair.tick_and_encode();
        std::byte room[1300];
        const auto payload = pair.sender.encode(second, packet.number, 1100, room);
        EXPECT_EQ(std::vector<std::byte>(payload.begin(), payload.end()), packet.bytes);
        pair.tell(packet, true);
        pair.sender.on_fate(second, packet.number, true);
    }
}

TEST(Sender, ANewPeerGetsEverythingAndARemovedOneLeavesNoState) {
    Pair pair;
    for (int i = 0; i < 100; ++i) pair.spawn(at(1));
    pair.exchange();
    for (int round = 0; round < 5; ++round) {
        const Sender::Peer late = pair.sender.add_peer();
        EXPECT_EQ(late, 1u) << "the number of a removed peer is used again";
        EXPECT_EQ(pair.sender.stats(late).pending, 100u);
        EXPECT_EQ(pair.sender.stats(late).records_sent, 0u);
        pair.sender.remove_peer(late);
        pair.exchange();
    }
}

// Goal: what the player steers is as new as the budget allows. Method: everything changes in each tick, and a
// packet has room for a few records.
TEST(Sender, WithATightBudgetOwnedEntitiesAreNeverOlderThanOthers) {
    ecs::World world;
    const Schema schema = game_schema();
    Sender sender(world, schema);
    const Sender::Peer peer = sender.add_peer();
    std::vector<ecs::Entity> all;
    for (int i = 0; i < 100; ++i) all.push_back(world.spawn(at(static_cast<float>(i)), Replicated{}));
    const std::vector<ecs::Entity> owned{all[90], all[50], all[7]};
    for (const ecs::Entity entity : owned) sender.set_owner(entity, peer);
    std::byte room[1300];
    std::uint64_t number = 0;
    for (Tick tick = 1; tick <= 300; ++tick) {
        for (const ecs::Entity entity : all) world.set(entity, at(static_cast<float>(tick) / 8));
        sender.update(tick);
        ASSERT_FALSE(sender.encode(peer, ++number, 60, room).empty());
        sender.on_fate(peer, number, tick % 7 != 0);
        for (const ecs::Entity entity : owned)
            ASSERT_EQ(sender.view(peer)[*sender.slot_of(peer, entity)].sent, tick);
        ASSERT_TRUE(sender.is_consistent());
    }
    for (const ecs::Entity entity : all)
        EXPECT_LT(300 - sender.view(peer)[*sender.slot_of(peer, entity)].sent, 40u) << "others come, too";
}

// Goal: a player that owns more than a packet has room for still sees the others.
TEST(Sender, ManyOwnedEntitiesLeaveHalfOfTheBudgetToOthers) {
    ecs::World world;
    const Schema schema = game_schema();
    Sender sender(world, schema);
    const Sender::Peer peer = sender.add_peer();
    std::vector<ecs::Entity> owned, others;
    for (int i = 0; i < 200; ++i) {
        owned.push_back(world.spawn(at(static_cast<float>(i)), Replicated{}));
        sender.set_owner(owned.back(), peer);
        if (i % 10 == 0) others.push_back(world.spawn(at(static_cast<float>(i)), Replicated{}));
    }
    std::byte room[1300];
    for (Tick tick = 1; tick <= 300; ++tick) {
        for (const ecs::Entity entity : owned) world.set(entity, at(static_cast<float>(tick) / 8));
        for (const ecs::Entity entity : others) world.set(entity, at(static_cast<float>(tick) / 8));
        sender.update(tick);
        ASSERT_FALSE(sender.encode(peer, tick, 150, room).empty());
        sender.on_fate(peer, tick, true);
    }
    for (const ecs::Entity entity : owned)
        EXPECT_LT(300 - sender.view(peer)[*sender.slot_of(peer, entity)].sent, 40u);
    for (const ecs::Entity entity : others)
        EXPECT_LT(300 - sender.view(peer)[*sender.slot_of(peer, entity)].sent, 10u);
    EXPECT_TRUE(sender.is_consistent());
}

// Goal: an owned entity that changes in each tick does not keep others away, also if what it leaves of each
// packet is too small for any of them.
TEST(Sender, ALargeOwnedRecordInEachPacketDoesNotKeepOthersAway) {
    ecs::World world;
    const Schema schema = game_schema();
    Sender sender(world, schema);
    const Sender::Peer peer = sender.add_peer();
    const ecs::Entity owned = world.spawn(at(1), Name{std::string(20, 'a')}, Replicated{});
    sender.set_owner(owned, peer);
    std::vector<ecs::Entity> others;
    for (int i = 0; i < 10; ++i)
        others.push_back(world.spawn(at(static_cast<float>(i)), Name{std::string(20, 'b')}, Replicated{}));
    std::byte room[1300];
    for (Tick tick = 1; tick <= 600; ++tick) {
        world.set(owned, Name{std::string(20, static_cast<char>('a' + tick % 20))});
        sender.update(tick);
        ASSERT_FALSE(sender.encode(peer, tick, 40, room).empty());
        sender.on_fate(peer, tick, true);
    }
    for (const ecs::Entity entity : others)
        EXPECT_TRUE(sender.view(peer)[*sender.slot_of(peer, entity)].has_acked);
    EXPECT_LT(600 - sender.view(peer)[*sender.slot_of(peer, owned)].sent, 3u);
    EXPECT_TRUE(sender.is_consistent());
}

struct ForCameras {};

// Each sender replicates the entities with its tag, with net ids of its own; the schema's singleton gets
// both.
TEST(Sender, TwoSendersOfAWorldReplicateTheEntitiesWithTheirTags) {
    struct Clock {
        std::int32_t seconds = 0;
    };
    Schema schema;
    schema.component<Position>("position");
    schema.singleton<Clock>("clock");
    ecs::World world;
    SenderOptions options;
    options.tag = world.component<ForCameras>();
    Sender players(world, schema), spectators(world, schema, options);
    world.spawn(Replicated{}, at(1));
    const ecs::Entity both = world.spawn(Replicated{}, ForCameras{}, at(2));
    const ecs::Entity camera = world.spawn(ForCameras{}, at(3));
    world.set_singleton(Clock{5});
    const auto shown = [&](Sender& sender, ecs::World& mirror) {
        std::byte room[1'160];
        Receiver receiver(mirror, schema);
        const Sender::Peer peer = sender.add_peer();
        EXPECT_EQ(receiver.receive(1, sender.encode(peer, 1, 1'000, room)), Receiver::Verdict::accepted);
        receiver.apply();
        sender.remove_peer(peer);
        WorldHash ours(world, schema), theirs(mirror, schema);
        EXPECT_EQ(ours.of_server(sender.shadow()).hash, theirs.of_client(receiver).hash);
        std::vector<float> all;
        mirror.each_entity([&](ecs::Entity entity) {
            if (const Position* position = mirror.try_get<Position>(entity)) all.push_back(position->x);
        });
        std::sort(all.begin(), all.end());
        EXPECT_EQ(mirror.singleton<Clock>().seconds, 5);
        return all;
    };
    ecs::World first, second, third, fourth;
    players.update(1);
    spectators.update(1);
    EXPECT_EQ(shown(players, first), (std::vector<float>{1, 2}));
    EXPECT_EQ(shown(spectators, second), (std::vector<float>{2, 3}));
    EXPECT_EQ(players.net_id(camera), 0u);
    EXPECT_FALSE(players.set_owner(camera, 0));
    EXPECT_TRUE(spectators.set_owner(camera, 0));
    world.remove<ForCameras>(both);
    players.update(2);
    spectators.update(2);
    EXPECT_EQ(shown(players, third), (std::vector<float>{1, 2}));
    EXPECT_EQ(shown(spectators, fourth), (std::vector<float>{3}));
    EXPECT_TRUE(players.is_consistent() && spectators.is_consistent());
}

TEST(Sender, CountsRecordsOfEachKindAndTheBytesOfAllPayloads) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), b = pair.spawn(at(2));
    std::uint64_t bytes = 0;
    const auto run = [&](bool arrives) {
        const SentPacket packet = pair.tick_and_encode();
        bytes += packet.bytes.size();
        if (arrives) {
            pair.deliver(packet);
        } else {
            pair.lose(packet);
        }
    };
    const auto expect = [&](std::uint64_t records, std::uint64_t full, std::uint64_t empty) {
        const Sender::PeerStats stats = pair.sender.stats(pair.peer);
        EXPECT_EQ(stats.records_sent, records);
        EXPECT_EQ(stats.full_records, full);
        EXPECT_EQ(stats.empty_records, empty);
        EXPECT_EQ(stats.state_bytes, bytes);
    };
    run(true);
    expect(2, 2, 0);
    pair.world.set(a, at(3));
    run(false);
    expect(3, 2, 0);
    pair.world.set(a, at(1));
    run(true);
    expect(4, 2, 1);
    pair.world.destroy(b);
    run(true);
    expect(5, 2, 1);  // a despawn record is of neither kind
}

TEST(Sender, TheNewestDeliveredTickIsThatOfTheNewestPacketThatArrived) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    EXPECT_EQ(pair.sender.newest_delivered(pair.peer), std::nullopt);
    std::vector<SentPacket> packets;
    for (int i = 2; i < 5; ++i) {
        packets.push_back(pair.tick_and_encode());
        pair.world.set(entity, at(static_cast<float>(i)));
    }
    pair.deliver(packets[1]);
    EXPECT_EQ(pair.sender.newest_delivered(pair.peer), packets[1].tick);
    pair.tell(packets[0], true);
    pair.lose(packets[2]);
    EXPECT_EQ(pair.sender.newest_delivered(pair.peer), packets[1].tick);
}

TEST(Sender, Rule09ARequestedMarkerIsSentOnceForEachTick) {
    Pair pair;
    pair.spawn(at(1));
    pair.deliver(pair.tick_and_encode());
    pair.sender.request_marker(pair.peer);
    EXPECT_FALSE(pair.encode()) << "the tick has one";
    pair.tick();
    EXPECT_FALSE(pair.encode()) << "nothing changed";
    pair.sender.request_marker(pair.peer);
    const std::optional<SentPacket> packet = pair.encode();
    ASSERT_TRUE(packet);
    EXPECT_EQ(header_of(*packet).complete->quiet, 1u);
    EXPECT_EQ(header_of(*packet).record_count, 0u);
    EXPECT_FALSE(pair.encode());
}

TEST(Sender, EachPeerGetsTheComponentNumbersOfItsOwnSchema) {
    struct Hat {
        int size = 0;
    };
    struct Boots {
        int size = 0;
    };
    const auto describe = [](bool has_hat, bool has_boots) {
        Schema schema;
        schema.component<Position>("position");
        if (has_hat) schema.component<Hat>("hat"), schema.optional<Hat>();
        if (has_boots) schema.component<Boots>("boots"), schema.optional<Boots>();
        return schema;
    };
    const Schema schema = describe(true, true), hats = describe(true, false), boots = describe(false, true);
    ecs::World world;
    Sender sender(world, schema);
    const ecs::Entity entity = world.spawn(Replicated{}, at(1), Hat{5}, Boots{44});
    sender.update(1);
    for (const Schema* const of_peer : {&hats, &boots}) {
        ecs::World mirror;
        Receiver receiver(mirror, *of_peer);
        const Sender::Peer peer = sender.add_peer({.numbers = schema.numbers_in(of_peer->summary()).value()});
        std::byte room[1300];
        ASSERT_EQ(receiver.receive(1, sender.encode(peer, 1, 1100, room)), Receiver::Verdict::accepted);
        receiver.apply();
        const ecs::Entity replica = receiver.entity(sender.net_id(entity));
        if (of_peer == &hats) {
            EXPECT_EQ(mirror.get<Hat>(replica).size, 5);
            EXPECT_FALSE(mirror.has<Boots>(replica));
        } else {
            EXPECT_EQ(mirror.get<Boots>(replica).size, 44);
            EXPECT_FALSE(mirror.has<Hat>(replica));
        }
    }
}

TEST(Sender, OnlyGroupsAreTakenFromTheClassesOfSetGroups) {
    struct Sealed {
        int code = 0;
    };
    struct Orders {
        int code = 0;
    };
    Schema schema;
    schema.component<Sealed>("secret", to_owner());
    schema.component<Orders>("orders", to_group(1));
    Pair pair({}, {}, 1, 1, std::move(schema));
    const ecs::Entity entity = pair.spawn(Sealed{7}, Orders{8});
    pair.sender.set_groups(pair.peer, to_owner() | to_group(1));
    pair.exchange();
    EXPECT_FALSE(pair.mirror.has<Sealed>(pair.replica(entity)));
    EXPECT_EQ(pair.on_client<Orders>(entity).code, 8);
    pair.sender.set_groups(pair.peer, {});
    pair.exchange();
    EXPECT_FALSE(pair.mirror.has<Orders>(pair.replica(entity)));
}

}  // namespace
}  // namespace shoal::replication::impl
