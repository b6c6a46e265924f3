#include "replication/receive/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/replication/support/records.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

using sim::Aim;
using sim::Counters;
using sim::Name;
using sim::Position;
using sim::Wolf;
using Verdict = Receiver::Verdict;

// Baselines

TEST(Decoder, Rule04ADeltaWithoutItsBaselineChangesNothingAndRequestsOneRebase) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1)), other = pair.spawn(at(2));
    pair.exchange();
    ecs::World fresh_world;
    Receiver fresh(fresh_world, pair.schema);
    const SentPacket start = [&] {
        pair.world.set(other, at(3));
        return pair.tick_and_encode();
    }();
    static_cast<void>(fresh.receive(start.number, start.bytes));  // refused, too: it does not have the anchor
    pair.lose(start);
    const Image first = image_of(pair, entity), second = image_of(pair, other);
    const std::vector<std::byte> bytes = payload_of(
        pair.schema, 9,
        {{{0, RecordKind::full, 0, 7}, {}, first}, {{1, RecordKind::delta, 1, 0}, second, second}});
    for (std::uint64_t number = 50; number < 53; ++number)
        EXPECT_EQ(fresh.receive(number, bytes), Verdict::refused);
    ASSERT_EQ(fresh.decoder().rebases().size(), 1u);
    EXPECT_EQ(fresh.decoder().rebases()[0], 1u);
    EXPECT_EQ(fresh.stats().rebases, 1u);
    EXPECT_EQ(fresh.stats().records, 0u) << "the first record is valid, but the packet was refused";
    fresh.apply();
    EXPECT_EQ(fresh_world.size(), 0u);
    EXPECT_TRUE(pair.replica(entity));
}

TEST(Decoder, Rule04ADeltaInASlotThatWasNeverUsedRequestsARebaseAtAnyTick) {
    const Schema schema = game_schema();
    ShapeTable shapes(schema);
    const Image empty{shapes.shape({}), {}};
    for (const Tick tick : {1u, 0x40000000u, 0x7fffffffu, 0x80000000u, 0x90000000u, 0xc0000000u, 0u}) {
        ecs::World world;
        Receiver receiver(world, schema);
        const auto payload = payload_of(schema, tick, {{{3, RecordKind::delta, tick - 2, 0}, empty, empty}});
        EXPECT_EQ(receiver.receive(1, payload), Verdict::refused);
        ASSERT_EQ(receiver.decoder().rebases().size(), 1u) << "tick " << tick;
        EXPECT_EQ(receiver.decoder().rebases()[0], 3u);
        EXPECT_TRUE(receiver.is_consistent());
    }
}

TEST(Decoder, Rule04APacketWhoseAnchorDidNotArriveIsRefused) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.tick();
    const std::vector<ChosenRecord> full = {{{0, RecordKind::full, 0, 5}, {}, image_of(pair, entity)}};
    StateHeader header;
    header.anchor = {2, 3};
    header.complete = StateHeader::Complete{};
    for (const auto& records : {std::vector<ChosenRecord>{}, full}) {
        EXPECT_EQ(pair.receiver.receive(7, payload_of(pair.schema, header, records)), Verdict::refused);
        EXPECT_FALSE(pair.receiver.newest_tick());
        pair.receiver.apply();
        EXPECT_EQ(pair.mirror.size(), 0u);
        EXPECT_FALSE(pair.receiver.complete());
    }
    EXPECT_EQ(pair.receiver.stats().refused_packets, 2u);
    EXPECT_TRUE(pair.receiver.decoder().rebases().empty());
    EXPECT_EQ(pair.receiver.receive(5, payload_of(pair.schema, 100, {})), Verdict::accepted);
    EXPECT_EQ(pair.receiver.receive(7, payload_of(pair.schema, header, full)), Verdict::accepted);
    EXPECT_EQ(pair.receiver.newest_tick(), 103u) << "the anchor's tick and its age";
    pair.receiver.apply();
    EXPECT_EQ(pair.mirror.size(), 1u);
}

TEST(Decoder, Rule04AnOvertakenDeltaWithoutItsBaselineRequestsNothing) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.tick();
    const Image image = image_of(pair, entity);
    const auto delta = [&](Tick tick, Tick baseline) {
        return payload_of(pair.schema, tick, {{{0, RecordKind::delta, baseline, 0}, image, image}});
    };
    const auto full = payload_of(pair.schema, 100, {{{0, RecordKind::full, 0, 5}, {}, image}});
    EXPECT_EQ(pair.receiver.receive(10, full), Verdict::accepted);
    for (const Tick tick : {99u, 100u})
        EXPECT_EQ(pair.receiver.receive(tick, delta(tick, 50)), Verdict::refused);
    EXPECT_EQ(pair.receiver.stats().rebases, 0u) << "a newer record has arrived";
    EXPECT_EQ(pair.receiver.receive(101, delta(101, 50)), Verdict::refused);
    EXPECT_EQ(pair.receiver.stats().rebases, 1u);
    EXPECT_EQ(pair.receiver.decoder().rebases().size(), 1u);
}

// A full record of a slot whose replica has a newer version.
TEST(Decoder, Rule31AnOvertakenFullRecordIsABaselineOfItsOwnEntityOnly) {
    for (const bool is_same_entity : {true, false}) {
        Pair pair;
        const ecs::Entity entity = pair.spawn(at(1)), other = pair.spawn(at(2));
        pair.tick();
        const Image first = image_of(pair, entity), second = image_of(pair, other);
        const NetId shown = 5, late = is_same_entity ? shown : 4;
        const auto full = [&](Tick tick, NetId net_id, const Image& image) {
            return payload_of(pair.schema, tick, {{{0, RecordKind::full, 0, net_id}, {}, image}});
        };
        EXPECT_EQ(pair.receiver.receive(1, full(5, shown, second)), Verdict::accepted);
        EXPECT_EQ(pair.receiver.receive(3, full(20, shown, second)), Verdict::accepted);
        EXPECT_EQ(pair.receiver.receive(2, full(10, late, first)), Verdict::accepted);
        EXPECT_EQ(pair.receiver.at(shown, 15)->tick, is_same_entity ? 10u : 5u);
        EXPECT_EQ(pair.receiver.at(shown, 20)->tick, 20u);
        EXPECT_FALSE(!is_same_entity && pair.receiver.at(late, 20));
        const auto delta = payload_of(pair.schema, 30, {{{0, RecordKind::delta, 10, 0}, first, second}});
        if (is_same_entity) {
            EXPECT_EQ(pair.receiver.receive(4, delta), Verdict::accepted);
        }
        EXPECT_TRUE(pair.receiver.is_consistent());
        pair.receiver.apply();
        EXPECT_EQ(pair.mirror.get<Position>(pair.receiver.entity(shown)).x, 2);
    }
}

TEST(Decoder, Rule04ARebaseEndsTheRefusals) {
    Pair pair({}, {.max_versions = 4});
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    std::vector<SentPacket> unanswered;
    for (int i = 2; i < 9; ++i) {  // all packets arrive, but no ack does
        pair.world.set(entity, at(static_cast<float>(i)));
        const SentPacket packet = pair.tick_and_encode();
        const Verdict verdict = pair.receive(packet);
        EXPECT_EQ(verdict, i <= 4 ? Verdict::accepted : Verdict::refused) << i;
        unanswered.push_back(packet);
    }
    for (const SentPacket& packet : unanswered) pair.lose(packet);
    for (int i = 0; i < 3; ++i) pair.exchange();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 8);
    EXPECT_TRUE(pair.receiver.complete());
}

TEST(Decoder, Rule04ASlotWithTooManyVersionsRecoversWithoutNewChanges) {
    Pair pair({}, {.max_versions = 4});
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    // Changes that end with the acknowledged state.
    for (int i = 0; i < 4; ++i) {
        pair.world.set(entity, at(i % 2 == 0 ? 2.f : 1.f));
        const SentPacket packet = pair.tick_and_encode();
        static_cast<void>(pair.receive(packet));
        pair.lose(packet);
    }
    for (int i = 0; i < 10; ++i) pair.exchange();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 1);
    pair.tick();
    EXPECT_FALSE(pair.encode()) << "nothing is left to send";
}

TEST(Decoder, Rule05VersionsOlderThanTheNewestBaselineAreDropped) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    const auto held = [&] {
        std::vector<Tick> ticks;
        pair.receiver.for_each_version(
            [&](std::uint32_t, std::uint32_t, Tick tick, const Image&) { ticks.push_back(tick); });
        return ticks;
    };
    std::vector<SentPacket> open;
    for (Tick tick = 1; tick <= 60; ++tick) {
        pair.world.set(entity, at(static_cast<float>(tick)));
        open.push_back(pair.tick_and_encode());
        EXPECT_EQ(pair.receive(open.back()), Verdict::accepted);
        pair.receiver.apply();
        if (tick >= 4) pair.tell(open[tick - 4], true);  // a round trip of three ticks
        EXPECT_LE(held().size(), 38u) << "a round trip, and 16 to 32 ticks for packets that arrive late";
    }
    EXPECT_EQ(held().back(), 60u);
    EXPECT_GE(held().front(), 24u);
    EXPECT_EQ(pair.receiver.stats().refused_packets, 0u);
}

// Acks are missing for `silence` ticks and then all known at once, so that baselines advance in one step.
TEST(Decoder, Rule05APacketThatIsUpToSixteenTicksLateFindsItsBaseline) {
    for (const std::uint64_t silence : {1u, 5u, 30u})
        for (const std::uint64_t late : {1u, 4u, 15u, 16u}) {
            Pair pair;
            const ecs::Entity entity = pair.spawn(at(0));
            std::vector<SentPacket> unknown;
            std::optional<SentPacket> held;
            for (std::uint64_t tick = 0; tick < 200; ++tick) {
                const std::uint64_t phase = tick % 50;
                pair.world.set(entity, at(static_cast<float>(tick % 60)));
                const SentPacket packet = pair.tick_and_encode();
                if (phase == 29) {
                    held = packet;
                } else {
                    EXPECT_EQ(pair.receive(packet), Verdict::accepted);
                    unknown.push_back(packet);
                }
                pair.receiver.apply();
                if (phase < 30 && phase + silence >= 30) continue;
                for (const SentPacket& known : unknown) pair.tell(known, true);
                unknown.clear();
                if (!held || phase != 29 + late) continue;
                EXPECT_EQ(pair.receive(*held), Verdict::accepted) << silence << " " << late;
                pair.tell(*held, true);
                held.reset();
            }
            EXPECT_EQ(pair.receiver.stats().refused_packets, 0u);
        }
}

// Each pair of packets arrives in the wrong order; their baselines differ.
TEST(Decoder, Rule31AnOvertakenPacketStillFindsItsBaselines) {
    for (const int quiet_ticks : {0, 5, 40}) {
        Pair pair;
        const ecs::Entity entity = pair.spawn(at(0)), other = pair.spawn(at(0));
        pair.exchange();
        for (int i = 1; i < 30; ++i) {
            pair.world.set(entity, at(static_cast<float>(i)));
            const SentPacket base = pair.tick_and_encode();
            EXPECT_EQ(pair.receive(base), Verdict::accepted);
            pair.receiver.apply();  // from now on only the rule keeps the version before `base`
            pair.world.set(entity, at(static_cast<float>(-i)));
            pair.world.set(other, at(static_cast<float>(i)));
            const SentPacket first = pair.tick_and_encode();  // based on what was acknowledged before `base`
            pair.tell(base, true);
            pair.world.set(entity, at(30 + static_cast<float>(i)));
            const SentPacket second = pair.tick_and_encode();  // based on `base`
            EXPECT_EQ(pair.receive(second), Verdict::accepted);
            EXPECT_EQ(pair.receive(first), Verdict::accepted);
            pair.tell(second, true);
            pair.tell(first, true);
            pair.receiver.apply();
            for (int n = 0; n < quiet_ticks; ++n) pair.exchange();
        }
        EXPECT_EQ(pair.receiver.stats().refused_packets, 0u);
        EXPECT_EQ(pair.on_client<Position>(entity).x, 59);
        EXPECT_EQ(pair.on_client<Position>(other).x, 29);
        EXPECT_TRUE(pair.worlds_are_equal());
    }
}

TEST(Decoder, Rule31AnOvertakenRecordIsABaselineIfOnlyItsAckArrives) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(0));
    pair.exchange();
    pair.world.set(entity, at(1));
    const SentPacket first = pair.tick_and_encode();
    pair.world.set(entity, at(2));
    const SentPacket second = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(second), Verdict::accepted);
    EXPECT_EQ(pair.receive(first), Verdict::accepted);
    EXPECT_EQ(pair.receiver.stats().stale_records, 1u);
    pair.tell(first, true);
    pair.lose(second);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 2);
    pair.world.set(entity, at(3));
    EXPECT_EQ(pair.receive(pair.tick_and_encode()), Verdict::accepted);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 3);
}

TEST(Decoder, Rule05MemoryIsBoundedWhateverASenderSends) {
    ReceiverOptions options;
    options.max_versions = 8;
    options.max_slots = 16;
    SenderOptions sender_options;
    sender_options.history_s = 0.1;
    Pair pair(sender_options, options);
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 16; ++i) entities.push_back(pair.spawn(at(0)));
    sim::Random random(1);
    for (int tick = 0; tick < 500; ++tick) {
        for (const ecs::Entity entity : entities)
            pair.world.set(entity, at(static_cast<float>(random.below(60))));
        pair.tick();
        while (const auto packet = pair.encode()) {
            static_cast<void>(pair.receive(*packet));
            pair.lose(*packet);
            if (random.chance(0.5)) break;
        }
        if (random.chance(0.1)) pair.receiver.apply();
        std::size_t versions = 0;
        pair.receiver.for_each_version([&](std::uint32_t, std::uint32_t, Tick, const Image&) { ++versions; });
        ASSERT_LE(versions, 16u * (8 + 1));
    }
    pair.spawn(at(1));
    pair.tick();
    bool too_many = false;
    while (const auto packet = pair.encode()) {
        too_many = too_many || pair.receive(*packet) == Verdict::too_many;
        pair.tell(*packet, true);
    }
    EXPECT_TRUE(too_many) << "there is one entity more than max_slots";
}

// Old records

TEST(Decoder, Rule07ALateSpawnAfterTheDespawnIsIgnored) {
    Pair pair;
    pair.exchange();
    const ecs::Entity entity = pair.spawn(at(1));
    const SentPacket spawn = pair.tick_and_encode();
    pair.lose(spawn);
    const SentPacket again = pair.tick_and_encode();
    pair.deliver(again);
    pair.world.destroy(entity);
    pair.exchange();
    EXPECT_EQ(pair.mirror.size(), 0u);
    EXPECT_EQ(pair.sender.stats(pair.peer).slots_used, 0u);
    EXPECT_EQ(pair.receive(spawn), Verdict::accepted);
    pair.receiver.apply();
    EXPECT_EQ(pair.mirror.size(), 0u);
    EXPECT_EQ(pair.receiver.stats().stale_records, 1u);
}

TEST(Decoder, Rule07ALateSpawnIsIgnoredHoweverManyPacketsCameBeforeIt) {
    for (const Tick first : {1u, 0x18000000u, 0x90000000u, 0xfffffff0u}) {
        Pair pair({}, {}, first);
        const ecs::Entity other = pair.spawn(at(1));
        pair.exchange();
        const ecs::Entity entity = pair.spawn(at(2));
        const SentPacket late = pair.tick_and_encode();
        pair.world.destroy(entity);
        const SentPacket despawn = pair.tick_and_encode();
        EXPECT_EQ(pair.receive(despawn), Verdict::accepted);  // its ack is lost, so the slot stays closed
        for (int i = 0; i < 40; ++i) {
            pair.world.set(other, at(static_cast<float>(i)));
            const SentPacket packet = pair.tick_and_encode();
            EXPECT_EQ(pair.receive(packet), Verdict::accepted);
            pair.receiver.apply();
        }
        EXPECT_EQ(pair.receive(late), Verdict::accepted);
        pair.receiver.apply();
        EXPECT_EQ(pair.mirror.size(), 1u);
        EXPECT_EQ(pair.receiver.stats().stale_records, 1u);
    }
}

TEST(Decoder, Rule07ALateDespawnDoesNotDestroyTheNextEntityOfTheSlot) {
    Pair pair;
    const ecs::Entity old = pair.spawn(at(1));
    pair.exchange();
    pair.world.destroy(old);
    const SentPacket gone = pair.tick_and_encode();
    pair.lose(gone);
    const SentPacket again = pair.tick_and_encode();
    pair.deliver(again);
    const ecs::Entity fresh = pair.spawn(at(2));
    pair.exchange();
    EXPECT_EQ(pair.receive(gone), Verdict::accepted);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(fresh).x, 2);
}

TEST(Decoder, RecordsOlderThanTheLastOneOfTheSlotAreIgnored) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    pair.world.set(entity, at(2));
    const SentPacket old = pair.tick_and_encode();
    pair.world.set(entity, at(3));
    const SentPacket newer = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(newer), Verdict::accepted);
    EXPECT_EQ(pair.receive(old), Verdict::accepted);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 3);
    EXPECT_EQ(pair.receiver.newest_tick(), newer.tick);
}

TEST(Decoder, Rule08AnotherNetIdInASlotReplacesItsEntity) {
    Pair pair;
    const ecs::Entity old = pair.spawn(at(1));
    pair.exchange();
    const ecs::Entity replica = pair.replica(old);
    pair.world.destroy(old);
    const SentPacket gone = pair.tick_and_encode();
    pair.tell(gone, true);  // a false ack: the receiver did not get it
    const ecs::Entity fresh = pair.spawn(at(2));
    pair.tick();
    EXPECT_EQ(pair.receiver.receive(90, full_record(pair, fresh, 0)), Verdict::accepted);
    pair.receiver.apply();
    EXPECT_FALSE(pair.mirror.is_alive(replica));
    EXPECT_EQ(pair.mirror.size(), 1u);
    EXPECT_EQ(pair.on_client<Position>(fresh).x, 2);
}

TEST(Decoder, Rule29AFullRecordWithAKnownNetIdBindsToTheReplica) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1), Wolf{}), aimer = pair.spawn(Aim{entity, 1});
    pair.exchange();
    const ecs::Entity replica = pair.replica(entity);
    pair.mirror.set(replica, sim::Secret{7});
    pair.world.set(entity, at(2));
    pair.world.remove<Wolf>(entity);
    pair.world.set(entity, Name{"back"});
    pair.tick();
    EXPECT_EQ(pair.receiver.receive(500, full_record(pair, entity, 90)), Verdict::accepted);
    EXPECT_TRUE(pair.receiver.is_consistent());
    pair.receiver.apply();
    EXPECT_EQ(pair.mirror.size(), 2u);
    EXPECT_EQ(pair.replica(entity), replica);
    EXPECT_EQ(pair.mirror.get<Position>(replica).x, 2);
    EXPECT_EQ(pair.mirror.get<Name>(replica).text, "back");
    EXPECT_FALSE(pair.mirror.has<Wolf>(replica)) << "what it lost in between is removed";
    EXPECT_EQ(pair.mirror.get<sim::Secret>(replica).value, 7);
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, replica);

    EXPECT_EQ(pair.receiver.receive(501, full_record(pair, entity, 0)), Verdict::accepted);
    EXPECT_EQ(pair.receiver.stats().stale_records, 1u) << "as old as what slot 90 has";
    pair.world.destroy(entity);
    pair.tick();
    for (const std::uint32_t slot : {0u, 90u}) {  // a despawn record for the former slot changes nothing
        const auto gone =
            payload_of(pair.schema, pair.sender.tick(), {{{slot, RecordKind::despawn, 0, 0}, {}, {}}});
        EXPECT_EQ(pair.receiver.receive(502 + slot, gone), Verdict::accepted);
        pair.receiver.apply();
        EXPECT_EQ(pair.mirror.is_alive(replica), slot == 0);
        EXPECT_TRUE(pair.receiver.is_consistent());
    }
    EXPECT_EQ(pair.on_client<Aim>(aimer).target, ecs::Entity{});
}

// Hostile: three full records, each 2^30 ticks after the one before.
TEST(Decoder, TicksThatAreTooFarApartToCompareAreMalformed) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.tick();
    const auto full = [&](std::uint32_t slot, Tick tick) {
        const RecordHeader header{slot, RecordKind::full, 0, 7};
        return payload_of(pair.schema, tick, {{header, {}, image_of(pair, entity)}});
    };
    const Tick step = Tick{1} << 30;
    EXPECT_EQ(pair.receiver.receive(1, full(0, 9)), Verdict::accepted);
    pair.receiver.apply();  // so that version 9 is kept
    EXPECT_EQ(pair.receiver.receive(2, full(0, 9 + step)), Verdict::accepted);
    EXPECT_EQ(pair.receiver.receive(3, full(0, 9 + 2 * step)), Verdict::malformed);
    EXPECT_EQ(pair.receiver.receive(4, full(5, 9 + 2 * step)), Verdict::malformed) << "in another slot";
    EXPECT_TRUE(pair.receiver.is_consistent());
    pair.receiver.apply();
    EXPECT_TRUE(pair.receiver.is_consistent());
}

// Hostile: the full record takes over the replica of slot 1, and the delta is based on a version of it.
TEST(Decoder, Rule29ADeltaOfASlotThatLostItsReplicaInTheSamePayloadIsIgnored) {
    Pair pair;
    pair.spawn(at(1));
    const ecs::Entity entity = pair.spawn(at(2));
    pair.exchange();
    const Tick tick = pair.sender.tick();
    const NetId net_id = pair.sender.net_id(entity);
    const ecs::Entity replica = pair.replica(entity);
    const Image image = image_of(pair, entity);
    const auto bytes = payload_of(
        pair.schema, tick + 1,
        {{{0, RecordKind::full, 0, net_id}, {}, image}, {{1, RecordKind::delta, tick, 0}, image, image}});
    EXPECT_EQ(pair.receiver.receive(500, bytes), Verdict::accepted);
    EXPECT_EQ(pair.receiver.stats().stale_records, 1u);
    EXPECT_TRUE(pair.receiver.is_consistent());
    pair.receiver.apply();
    EXPECT_TRUE(pair.receiver.is_consistent());
    EXPECT_EQ(pair.mirror.size(), 1u) << "slot 0 described another entity";
    EXPECT_EQ(pair.receiver.entity(net_id), replica);
}

// Hostile: one net id in two slots.
TEST(Decoder, Rule29TheFirstOfTwoFullRecordsWithOneNetIdInOnePayloadIsUsed) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), b = pair.spawn(at(2));
    pair.exchange();
    const auto bytes = payload_of(pair.schema, pair.sender.tick() + 1,
                                  {{{5, RecordKind::full, 0, 77}, {}, image_of(pair, a)},
                                   {{6, RecordKind::full, 0, 77}, {}, image_of(pair, b)}});
    EXPECT_EQ(pair.receiver.receive(500, bytes), Verdict::accepted);
    EXPECT_EQ(pair.receiver.stats().stale_records, 1u);
    EXPECT_TRUE(pair.receiver.is_consistent());
    pair.receiver.apply();
    EXPECT_EQ(pair.mirror.size(), 3u);
    EXPECT_EQ(pair.mirror.get<Position>(pair.receiver.entity(77)).x, 1);
}

// Slot 1 gets the net id of slot 0 and loses its own.
TEST(Decoder, Rule29ASlotWithAReplicaCanTakeOverAnother) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), b = pair.spawn(at(2));
    pair.exchange();
    const ecs::Entity of_a = pair.replica(a), of_b = pair.replica(b);
    pair.tick();
    EXPECT_EQ(pair.receiver.receive(500, full_record(pair, a, 1)), Verdict::accepted);
    EXPECT_TRUE(pair.receiver.is_consistent());
    pair.receiver.apply();
    EXPECT_EQ(pair.replica(a), of_a);
    EXPECT_FALSE(pair.mirror.is_alive(of_b));
    pair.tick();
    EXPECT_EQ(pair.receiver.receive(501, full_record(pair, b, 0)), Verdict::accepted) << "slot 0 is free";
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(b).x, 2);
    EXPECT_EQ(pair.receiver.entity_count(), 2u);
}

TEST(Decoder, CountsPacketsThatAreRefusedAndThoseThatAreMalformed) {
    Pair pair({}, {.max_slots = 2});
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    const auto expect = [&](std::uint64_t refused, std::uint64_t malformed) {
        EXPECT_EQ(pair.receiver.stats().refused_packets, refused);
        EXPECT_EQ(pair.receiver.stats().malformed_packets, malformed);
    };
    expect(0, 0);
    EXPECT_EQ(pair.receiver.receive(50, baseless(pair.schema, 0)), Verdict::refused);
    expect(1, 0);
    EXPECT_EQ(pair.receiver.receive(51, full_record(pair, entity, 2)), Verdict::too_many);
    expect(2, 0);
    EXPECT_EQ(pair.receiver.receive(52, {}), Verdict::malformed);
    expect(2, 1);
    EXPECT_EQ(pair.receiver.receive(53, full_record(pair, entity, 1)), Verdict::accepted);
    expect(2, 1);
}

TEST(Decoder, Rule04ANewConnectionForgetsTheRequestsOfTheFormerOne) {
    Pair pair;
    pair.spawn(at(1));
    pair.exchange();
    EXPECT_EQ(pair.receiver.receive(50, baseless(pair.schema, 0)), Verdict::refused);
    pair.receiver.reconnect();
    EXPECT_TRUE(pair.receiver.decoder().rebases().empty());
    EXPECT_EQ(pair.receiver.decoder().completion().tick_of(1), std::nullopt);
    EXPECT_EQ(pair.receiver.newest_tick(), 1u);
    EXPECT_EQ(pair.receiver.receive(1, baseless(pair.schema, 0)), Verdict::refused);
    EXPECT_EQ(pair.receiver.decoder().rebases().size(), 1u) << "requested again";
    EXPECT_TRUE(pair.receiver.is_consistent());
}

// Refused, rebased, refused again: the receiver requests another rebase.
TEST(Decoder, Rule04ASlotCanRequestARebaseAgainAfterItsNextRecord) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    for (std::uint64_t round = 1; round <= 3; ++round) {
        EXPECT_EQ(pair.receiver.receive(pair.next_number++, baseless(pair.schema, 0)), Verdict::refused);
        EXPECT_EQ(pair.receiver.receive(pair.next_number++, baseless(pair.schema, 0)), Verdict::refused);
        EXPECT_EQ(pair.receiver.stats().rebases, round) << "one request per round";
        EXPECT_EQ(pair.receiver.decoder().rebases().size(), 1u);
        pair.world.set(entity, at(static_cast<float>(round + 1)));
        pair.exchange();  // the sender rebases
        EXPECT_EQ(pair.on_client<Position>(entity).x, static_cast<float>(round + 1));
    }
}

// The server heals the slot before the client could send its request.
TEST(Decoder, Rule04ASlotIsInTheListOfRebasesOnce) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    pair.exchange();
    for (std::uint64_t round = 1; round <= 3; ++round) {
        EXPECT_EQ(pair.receiver.receive(pair.next_number++, baseless(pair.schema, 0)), Verdict::refused);
        EXPECT_EQ(pair.receiver.stats().rebases, round);
        EXPECT_EQ(pair.receiver.decoder().rebases().size(), 1u);
        pair.world.set(entity, at(static_cast<float>(round + 1)));
        EXPECT_EQ(pair.receive(pair.tick_and_encode()), Verdict::accepted);
        EXPECT_TRUE(pair.receiver.is_consistent());
    }
    pair.receiver.decoder().drop_rebases(1);
    EXPECT_EQ(pair.receiver.receive(pair.next_number++, baseless(pair.schema, 0)), Verdict::refused);
    EXPECT_EQ(pair.receiver.decoder().rebases().size(), 1u);
}

TEST(Decoder, Rule04DropRebasesRemovesThemFromTheFront) {
    Pair pair;
    for (const std::uint32_t slot : {7u, 3u, 9u})
        EXPECT_EQ(pair.receiver.receive(pair.next_number++, baseless(pair.schema, slot)), Verdict::refused);
    pair.receiver.decoder().drop_rebases(2);
    ASSERT_EQ(pair.receiver.decoder().rebases().size(), 1u);
    EXPECT_EQ(pair.receiver.decoder().rebases()[0], 9u);
    EXPECT_TRUE(pair.receiver.is_consistent());
}

// Packets that were overtaken are older than the despawn record. They must not reopen the slot.
TEST(Decoder, Rule08RecordsThatADespawnRecordOvertookDoNotOpenTheSlotAgain) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    std::vector<SentPacket> late;
    for (int i = 0; i < 6; ++i) {
        pair.world.set(entity, at(static_cast<float>(i)));
        late.push_back(pair.tick_and_encode());
    }
    pair.deliver(late[0]);
    pair.world.destroy(entity);
    pair.deliver(pair.tick_and_encode());
    for (std::size_t i = 1; i < late.size(); ++i) {
        EXPECT_EQ(pair.receive(late[i]), Verdict::accepted);
        pair.receiver.apply();
        EXPECT_EQ(pair.mirror.size(), 0u) << i;
    }
}

}  // namespace
}  // namespace shoal::replication::impl
