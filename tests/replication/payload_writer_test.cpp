#include "replication/send/payload_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>

#include "replication/codec/state_packet.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

using sim::Counters;
using sim::Name;
using sim::Position;

// Small payloads

/// A world with large entities, a sender and a receiver.
struct LargePair {
    struct Cargo {
        std::vector<std::uint32_t> crates;
    };
    struct Map {
        std::array<std::uint8_t, 24'000> cells{};
    };
    explicit LargePair() {
        schema.component<Map>("map");
        schema.component<Cargo>("cargo", field(&Cargo::crates, max_length(5'000)));
        schema.component<Position>("position");
        sender.emplace(world, schema);
        receiver.emplace(mirror, schema);
        peer = sender->add_peer();
    }
    /// Runs a tick and returns the sizes of its payloads. Every third one is lost.
    std::vector<std::size_t> exchange() {
        sender->update(++tick);
        std::vector<std::size_t> sizes;
        std::byte room[1'160];
        for (int i = 0; i < 50; ++i) {
            const auto payload = sender->encode(peer, ++number, 1'000, room);
            if (payload.empty()) break;
            sizes.push_back(payload.size());
            const bool arrives =
                number % 3 != 0 && receiver->receive(number, payload) == Receiver::Verdict::accepted;
            sender->on_fate(peer, number, arrives);
        }
        receiver->apply();
        return sizes;
    }
    bool worlds_are_equal() {
        WorldHash server(world, schema), client(mirror, schema);
        return server.of_server(sender->shadow()).hash == client.of_client(*receiver).hash;
    }

    Schema schema;
    ecs::World world, mirror;
    std::optional<Sender> sender;
    std::optional<Receiver> receiver;
    Sender::Peer peer = 0;
    Tick tick = 0;
    std::uint64_t number = 0;
};

TEST(Sender, Rule11AnEntityLargerThanAPacketTravelsInOnePayload) {
    using Cargo = LargePair::Cargo;
    LargePair pair;
    sim::Random random(1);
    std::vector<ecs::Entity> ships;
    for (int i = 0; i < 6; ++i) {
        std::vector<std::uint32_t> crates(static_cast<std::size_t>(i) * 1'000);
        for (std::uint32_t& crate : crates) crate = static_cast<std::uint32_t>(random.next());
        ships.push_back(pair.world.spawn(Replicated{}, Cargo{crates}, at(1)));
    }
    std::size_t largest = 0, smallest = SIZE_MAX;
    for (int i = 0; i < 60; ++i) {
        const ecs::Entity ship = ships[random.below(6)];
        pair.world.set(ship, at(static_cast<float>(random.below(60))));
        if (i % 8 == 0)
            pair.world.patch<Cargo>(ship, [&](Cargo& cargo) {
                if (!cargo.crates.empty()) cargo.crates[random.below(9) * cargo.crates.size() / 9] += 1;
            });
        for (const std::size_t size : pair.exchange()) {
            largest = std::max(largest, size);
            smallest = std::min(smallest, size);
        }
        ASSERT_TRUE(pair.sender->is_consistent() && pair.receiver->is_consistent());
    }
    while (!pair.exchange().empty()) {
    }
    EXPECT_GT(largest, 25'000u);
    EXPECT_LT(smallest, 40u) << "a delta of a large entity is as small as any";
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_TRUE(pair.receiver->complete());
}

// Every second byte changes by 255, which takes about 12 bits per byte, and 8 in a full record.
TEST(Sender, Rule11ADeltaThatIsTooLargeIsReplacedByAFullRecord) {
    LargePair pair;
    const ecs::Entity map = pair.world.spawn(Replicated{}, LargePair::Map{});
    while (!pair.exchange().empty()) {
    }
    const std::uint64_t whole_before = pair.sender->stats(pair.peer).full_records;
    pair.world.patch<LargePair::Map>(map, [](LargePair::Map& m) {
        for (std::size_t i = 0; i < m.cells.size(); i += 2) m.cells[i] = 255;
    });
    std::size_t largest = 0;
    for (std::vector<std::size_t> sizes = pair.exchange(); !sizes.empty(); sizes = pair.exchange())
        largest = std::max(largest, *std::max_element(sizes.begin(), sizes.end()));
    EXPECT_GT(pair.sender->stats(pair.peer).full_records, whole_before);
    EXPECT_GT(largest, 24'000u);
    EXPECT_LT(largest, kMaxEntityBytes);
    EXPECT_TRUE(pair.worlds_are_equal());
}

// Some records fill a packet by themselves, but not beside a list of slots and without an anchor.
TEST(Sender, APayloadThatMayNotBeLargeFitsItsRoom) {
    LargePair pair;
    sim::Random random(7);
    std::vector<ecs::Entity> buoys, ships;
    for (int i = 0; i < 6; ++i) buoys.push_back(pair.world.spawn(Replicated{}, at(1)));
    for (int i = 0; i < 4; ++i) ships.push_back(pair.world.spawn(Replicated{}, LargePair::Cargo{}));
    std::size_t full = 0;
    for (int i = 0; i < 3'000; ++i) {
        for (const ecs::Entity buoy : buoys)
            if (random.below(3) != 0) pair.world.set(buoy, at(static_cast<float>(random.below(60))));
        for (const ecs::Entity ship : ships) {
            std::vector<std::uint32_t> crates(218 + random.below(35));
            for (std::uint32_t& crate : crates)
                crate = static_cast<std::uint32_t>(random.next()) >> random.below(32);
            pair.world.set(ship, LargePair::Cargo{crates});
        }
        pair.sender->update(++pair.tick);
        std::byte room[1'160];
        for (int packet = 0; packet < 6; ++packet) {
            const auto payload = pair.sender->encode(pair.peer, ++pair.number, sizeof room, room, false);
            if (payload.empty()) break;
            ASSERT_LE(payload.size(), sizeof room) << i;
            full += payload.size() >= 1'158;
            ASSERT_EQ(pair.receiver->receive(pair.number, payload), Receiver::Verdict::accepted);
            pair.sender->on_fate(pair.peer, pair.number, true);
        }
        pair.receiver->apply();
    }
    EXPECT_GT(full, 100u);
}

TEST(Sender, EveryEntityIsSentRegularlyInSmallPayloads) {
    Pair pair;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 300; ++i) entities.push_back(pair.spawn(at(0), Counters{i, 0, 0, 0, 0, 0, 0}));
    std::map<std::uint32_t, Tick> heard;
    Tick longest = 0;
    for (int tick = 1; tick <= 900; ++tick) {
        for (const ecs::Entity entity : entities) pair.world.set(entity, at(static_cast<float>(tick % 60)));
        pair.exchange_one(150);
        pair.receiver.for_each_version(
            [&](std::uint32_t slot, std::uint32_t, Tick version, const Image&) { heard[slot] = version; });
        if (tick > 300)
            for (const auto& [slot, version] : heard)
                longest = std::max(longest, pair.sender.tick() - version);
    }
    EXPECT_EQ(heard.size(), entities.size());
    EXPECT_LT(longest, 120u);
}

TEST(Sender, EntitiesTakeTurnsInPayloadsOfOneRecord) {
    constexpr int kEntities = 7;
    Pair pair;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < kEntities; ++i) entities.push_back(pair.spawn(at(0)));
    pair.exchange();
    for (int round = 1; round <= 5; ++round) {
        for (int tick = 1; tick <= kEntities; ++tick) {
            for (const ecs::Entity entity : entities)
                pair.world.set(entity, Position{static_cast<float>(round), static_cast<float>(tick), 0});
            pair.exchange_one(1);
        }
        for (const ecs::Entity entity : entities)
            EXPECT_EQ(pair.on_client<Position>(entity).x, static_cast<float>(round));
    }
}

// Small deltas of entities in distant slots: their headers are larger than their images.
TEST(Sender, APayloadIsFullWhileMoreIsLeftToSend) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        Pair pair;
        std::vector<ecs::Entity> entities;
        for (int i = 0; i < 3'000; ++i) entities.push_back(pair.spawn(at(static_cast<float>(i % 50))));
        pair.exchange();
        int full = 0;
        for (int tick = 0; tick < 60; ++tick) {
            for (int i = 0; i < 250; ++i)
                pair.world.patch<Position>(entities[random() % entities.size()],
                                           [](Position& p) { p.y = p.y < 5 ? p.y + 0.5f : 0; });
            pair.tick();
            const std::optional<SentPacket> packet = pair.encode(600);
            ASSERT_TRUE(packet);
            ASSERT_LE(packet->bytes.size(), 600u);
            if (pair.sender.stats(pair.peer).pending != 0) {
                ASSERT_GE(packet->bytes.size(), 590u) << tick;
                ++full;
            }
            random() % 8 == 0 ? pair.lose(*packet) : pair.deliver(*packet);
        }
        EXPECT_GT(full, 30);
    }
}

// Method: the same small deltas with every capacity around the size that they need.
TEST(Sender, APayloadNeverExceedsItsCapacity) {
    Pair pair;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 6'000; ++i) entities.push_back(pair.spawn(at(0)));
    pair.exchange();
    const auto change_some = [&] {
        for (std::size_t i = 0; i < entities.size(); i += 60)
            pair.world.patch<Position>(entities[i], [](Position& p) { p.y = p.y < 5 ? p.y + 0.5f : 0; });
        pair.tick();
    };
    change_some();
    const std::optional<SentPacket> whole = pair.encode();
    ASSERT_TRUE(whole && pair.sender.stats(pair.peer).pending == 0) << "all of them fit one payload";
    pair.deliver(*whole);
    for (std::size_t capacity = whole->bytes.size() / 2; capacity < whole->bytes.size() + 9; ++capacity) {
        change_some();
        while (const std::optional<SentPacket> packet = pair.encode(capacity)) {
            ASSERT_LE(packet->bytes.size(), capacity);
            pair.deliver(*packet);
        }
    }
}

TEST(Sender, APayloadThatFillsItsCapacityExactlyHasAllRecords) {
    const auto encode = [](std::size_t letters, std::size_t capacity) {
        Pair pair;
        for (int i = 0; i < 6; ++i) pair.spawn(Position{1, 2, 3}, Counters{1, 2, 3});
        pair.spawn(Name{std::string(letters, 'x')}, Counters{0, std::uint64_t{1} << letters});
        pair.tick();
        return pair.encode(capacity).value_or(SentPacket{});
    };
    for (std::size_t letters = 0; letters < 16; ++letters) {  // other numbers of bits in the last byte
        const SentPacket all = encode(letters, 1'100);
        ASSERT_EQ(header_of(all).record_count, 7u);
        EXPECT_EQ(encode(letters, all.bytes.size()).bytes, all.bytes) << letters;
    }
}

TEST(Sender, ARecordLargerThanTheCapacityIsSentAlone) {
    Pair pair;
    pair.spawn(Name{"abcdefghijkl"}, Counters{-1, ~0ull, -1, -1, -1, 9, 9}, sim::Body{}, Position{1, 2, 3});
    pair.spawn(at(1));
    pair.tick();
    const auto large = pair.encode(8);
    ASSERT_TRUE(large);
    EXPECT_GT(large->bytes.size(), 8u);
    pair.deliver(*large);
    pair.deliver(*pair.encode(1'000));
    pair.receiver.apply();
    EXPECT_TRUE(pair.worlds_are_equal());
}

// Wire

std::vector<int> numbers(const SentPacket& packet) {
    std::vector<int> out;
    for (const std::byte byte : packet.bytes) out.push_back(std::to_integer<int>(byte));
    return out;
}

TEST(StatePayload, BytesOfEachKindOfRecordAreFixed) {
    struct Spot {
        std::uint8_t x = 0, y = 0;
    };
    Schema schema;
    schema.component<Spot>("spot");
    ecs::World world;
    SenderOptions options;
    options.coding = Coding::bits;
    Sender sender(world, schema, options);
    const Sender::Peer peer = sender.add_peer();
    std::uint64_t number = 1;
    const auto packet = [&](Tick tick) {
        sender.update(tick);
        std::byte room[1300];
        const auto payload = sender.encode(peer, number, 1000, room);
        sender.on_fate(peer, number++, true);
        return numbers({0, tick, {payload.begin(), payload.end()}});
    };
    const ecs::Entity entity = world.spawn(Replicated{}, Spot{5, 6});
    EXPECT_EQ(packet(0x01020304), (std::vector<int>{8, 6, 4, 2, 130, 128, 1, 0, 0, 0, 100, 129, 1}));
    world.set(entity, Spot{5, 7});
    EXPECT_EQ(packet(0x01020305), (std::vector<int>{97, 28, 68, 65, 1}));
    world.destroy(entity);
    EXPECT_EQ(packet(0x01020306), (std::vector<int>{33, 5, 17, 0}));
    EXPECT_EQ(packet(0x01020306 + 60), (std::vector<int>{241, 187, 137, 175, 3}));
}

// Small records are sent while a large payload is on its way. What waits for that keeps its place before the
// entity in it, which changes all the time.
TEST(Sender, LargeRecordsTakeTurns) {
    struct Cargo {
        std::vector<std::uint32_t> weights;
    };
    Schema schema;
    schema.component<Position>("position");
    schema.component<Cargo>("cargo", field(&Cargo::weights, max_length(600)));
    Pair pair({}, {}, 1, 1, std::move(schema));
    sim::Random random(3);
    const auto cargo = [&] {
        Cargo out;
        for (int i = 0; i < 500; ++i) out.weights.push_back(random.below(0xffffffff));
        return out;
    };
    const ecs::Entity restless = pair.spawn(cargo()), waiting = pair.spawn(cargo()),
                      small = pair.spawn(sim::Position{});
    for (int round = 0; round < 4 && !pair.replica(waiting); ++round) {
        pair.tick();
        const auto large = pair.encode(1'100, true);
        ASSERT_TRUE(large && large->bytes.size() > 1'200);
        pair.world.set(small, sim::Position{static_cast<float>(round), 0, 0});
        pair.world.set(restless, cargo());
        pair.tick();
        while (const auto packet = pair.encode(1'100, false)) pair.deliver(*packet);
        pair.deliver(*large);
        pair.receiver.apply();
    }
    EXPECT_TRUE(pair.replica(waiting));
}

// Records that are too large at present are encoded once, a few in each payload, and small ones are sent.
TEST(Sender, RecordsThatMustWaitForALargePayloadAreEncodedOnce) {
    for (const bool is_cluster : {false, true}) {
        SCOPED_TRACE(is_cluster);
        struct Cargo {
            std::vector<std::uint32_t> weights;
        };
        Schema schema;
        schema.component<Position>("position");
        schema.component<Cargo>("cargo", field(&Cargo::weights, max_length(600)));
        Pair pair({}, {}, 1, 1, std::move(schema));
        sim::Random random(3);
        std::vector<ecs::Entity> small;
        for (std::uint32_t i = 0; i < 200; ++i) {
            const ecs::Entity entity = pair.world.spawn(Replicated{}, Cargo{});
            pair.world.patch<Cargo>(entity, [&](Cargo& cargo) {
                for (int n = 0; n < 500; ++n) cargo.weights.push_back(random.below(0xffffffff));
            });
            if (is_cluster) pair.world.set(entity, Cluster{i / 2});
            if (i % 10 == 9) small.push_back(pair.spawn(sim::Position{}));
        }
        pair.tick();
        const auto large = pair.encode(1'100, true);
        ASSERT_TRUE(large && large->bytes.size() > 1'200);
        const PeerView& view = pair.sender.view(pair.peer);
        const auto tried = [&] {
            std::size_t count = 0;
            for (std::uint32_t slot = 0; slot < view.slot_count(); ++slot) count += view.is_oversized(slot);
            return count;
        };
        std::size_t before = 0;
        for (int tick = 0; tick < 100; ++tick) {
            pair.tick();
            while (const auto packet = pair.encode(1'100, false)) {
                pair.deliver(*packet);
                EXPECT_LE(tried() - before, 40u);
                before = tried();
            }
            pair.receiver.apply();
        }
        for (const ecs::Entity entity : small) EXPECT_TRUE(pair.replica(entity));
        pair.deliver(*large);
        while (const auto packet = pair.encode()) pair.deliver(*packet);
        EXPECT_TRUE(pair.exchange() >= 0 && pair.worlds_are_equal());
        EXPECT_EQ(tried(), 0u);
    }
}

// While a large payload is on its way, records of its entities would be based on what it may bring.
TEST(Sender, AnEntityInALargePayloadWaitsForItsFateEvenIfItsRecordIsSmall) {
    struct Cargo {
        std::vector<std::uint32_t> weights;
    };
    for (const bool arrives : {true, false}) {
        SCOPED_TRACE(arrives);
        Schema schema;
        schema.component<Position>("position");
        schema.component<Cargo>("cargo", field(&Cargo::weights, max_length(600)));
        Pair pair({}, {}, 1, 1, std::move(schema));
        sim::Random random(3);
        Cargo cargo;
        for (int i = 0; i < 500; ++i) cargo.weights.push_back(random.below(0xffffffff));
        const ecs::Entity heavy = pair.spawn(cargo), light = pair.spawn(at(0));
        pair.exchange();
        pair.exchange();
        Cargo other;
        for (int i = 0; i < 500; ++i) other.weights.push_back(random.below(0xffffffff));
        pair.world.set(heavy, other);
        pair.tick();
        const auto large = pair.encode();
        ASSERT_TRUE(large && large->bytes.size() > 1'300);
        cargo.weights[7] += 1;
        pair.world.set(heavy, cargo);  // a small difference to what the peer acknowledged
        std::vector<SentPacket> small;
        for (int i = 1; i <= 3; ++i) {
            pair.world.set(light, at(static_cast<float>(i)));
            pair.tick();
            const auto packet = pair.encode(1'100, false);
            ASSERT_TRUE(packet) << "an entity in a small payload does not wait";
            EXPECT_EQ(header_of(*packet).record_count, 1u);
            EXPECT_FALSE(pair.encode(1'100, false));
            EXPECT_EQ(pair.sender.stats(pair.peer).pending, 1u);
            small.push_back(*packet);
        }
        for (const SentPacket& packet : small) pair.deliver(packet);
        EXPECT_FALSE(pair.encode(1'100, false)) << "its fate is not known yet";
        arrives ? pair.deliver(*large) : pair.lose(*large);
        pair.tick();
        EXPECT_EQ(pair.encode(1'100, false).has_value(), !arrives) << "as a delta to the first version";
        for (int i = 0; i < 2; ++i) pair.exchange();
        pair.sender.rebase(pair.peer, 0);  // the packet above was not delivered
        for (int i = 0; i < 2; ++i) pair.exchange();
        EXPECT_TRUE(pair.worlds_are_equal());
    }
}

// The room has 1,300 bytes. Method: clusters of many sizes around it.
TEST(Sender, WithoutALargePayloadAClusterIsInTheRoomOrWaits) {
    int small = 0, large = 0;
    for (std::size_t letters = 0; letters <= 60; letters += 3) {
        for (std::uint32_t count = 10; count <= 400; count += count / 2) {
            SCOPED_TRACE(testing::Message() << count << " entities with " << letters << " letters");
            Pair pair;
            for (std::uint32_t i = 0; i < count; ++i) pair.spawn(Name{std::string(letters, 'x')}, Cluster{1});
            pair.tick();
            std::optional<SentPacket> packet = pair.encode(1'100, false);
            if (packet) {
                EXPECT_LE(packet->bytes.size(), 1'300u);
                small += 1;
            } else {
                packet = pair.encode(1'100, true);
                ASSERT_TRUE(packet);
                EXPECT_GT(packet->bytes.size(), 1'290u);
                large += 1;
            }
            EXPECT_EQ(header_of(*packet).record_count, count);
        }
    }
    EXPECT_GT(small, 20);
    EXPECT_GT(large, 20);
}

TEST(Sender, AnEntityThatThePeerGetsWhileItWaitsComesFirst) {
    for (const bool predicts : {false, true}) {
        Pair pair;
        std::vector<ecs::Entity> entities;
        for (int i = 0; i < 30; ++i) entities.push_back(pair.spawn(at(1)));
        pair.sender.set_owner(entities[5], pair.peer);
        pair.exchange();
        pair.exchange();
        for (const ecs::Entity entity : entities) pair.world.set(entity, at(2));
        pair.tick();
        pair.sender.set_owner(entities[5], std::nullopt);
        predicts ? pair.sender.set_predictor(pair.peer, entities[29], true)
                 : pair.sender.set_owner(entities[29], pair.peer);
        pair.exchange_one(1);
        EXPECT_EQ(pair.on_client<Position>(entities[29]).x, 2);
        for (int i = 0; i < 28; ++i) pair.exchange_one(1);
        EXPECT_EQ(pair.on_client<Position>(entities[5]).x, 1) << "it waits behind the others";
        pair.exchange_one(1);
        EXPECT_TRUE(pair.worlds_are_equal());
    }
}

// The others come first only after a payload in which they found no room.
TEST(Sender, WhatWasSentDoesNotCountAsWaiting) {
    Pair pair;
    const ecs::Entity owned = pair.spawn(at(0)), other = pair.spawn(at(0)), second = pair.spawn(at(0));
    pair.sender.set_owner(owned, pair.peer);
    pair.exchange();
    pair.exchange();
    pair.world.set(other, at(1));
    pair.exchange_one(1);
    pair.world.set(owned, at(1));
    pair.exchange_one(1);
    for (const ecs::Entity entity : {owned, second}) pair.world.set(entity, at(2));
    pair.exchange_one(1);
    EXPECT_EQ(pair.on_client<Position>(owned).x, 2);
    EXPECT_EQ(pair.on_client<Position>(second).x, 0);
    pair.world.set(owned, at(3));
    pair.exchange_one(1);
    EXPECT_EQ(pair.on_client<Position>(owned).x, 2) << "now it is the turn of the other one";
    EXPECT_EQ(pair.on_client<Position>(second).x, 2);
}

// The client knows the ticks of the last 1,024 packets only.
TEST(Sender, ALargePayloadIsOfUseAfterAnyNumberOfLaterPackets) {
    Pair pair;
    const auto crew = [&] {
        std::vector<ecs::Entity> entities;
        for (int i = 0; i < 300; ++i) entities.push_back(pair.spawn(at(1), Cluster{1}));
        return entities;
    }();
    const ecs::Entity single = pair.spawn(at(1));
    pair.exchange();
    pair.exchange();
    for (const ecs::Entity entity : crew) pair.world.set(entity, sim::Position{2, 3, 4});
    pair.tick();
    const auto large = pair.encode();
    ASSERT_TRUE(large && large->bytes.size() > 1'300);
    EXPECT_FALSE(header_of(*large).anchor);
    for (int i = 0; i < 1'100; ++i) {
        pair.world.set(single, at(static_cast<float>(i % 50)));
        pair.tick();
        const auto small = pair.encode(1'100, false);
        ASSERT_TRUE(small);
        pair.deliver(*small);
    }
    EXPECT_EQ(pair.receive(*large), Receiver::Verdict::accepted);
    pair.tell(*large, true);
    pair.exchange();
    EXPECT_TRUE(pair.worlds_are_equal());
}

// An anchor that is very old takes more bits than a tick.
TEST(Sender, APayloadThatFitsWithoutItsAnchorIsInTheRoom) {
    int fit_without = 0;
    for (std::size_t size = 100; size < 300; ++size) {
        Pair pair;
        pair.exchange();
        pair.next_tick += 1u << 28;
        for (int i = 0; i < 20; ++i) pair.spawn(at(1), Cluster{1});
        pair.tick();
        std::vector<std::byte> room(size);
        const auto payload = pair.sender.encode(pair.peer, pair.next_number, 1'100, room);
        ASSERT_EQ(payload.data() == room.data(), payload.size() <= size);
        const std::vector<std::byte> bytes(payload.begin(), payload.end());
        const bool is_anchored = header_of({pair.next_number, pair.sender.tick(), bytes}).anchor.has_value();
        fit_without += payload.size() <= size && !is_anchored;
        ASSERT_EQ(pair.receiver.receive(pair.next_number, payload), Receiver::Verdict::accepted);
    }
    EXPECT_GT(fit_without, 0);
}

}  // namespace
}  // namespace shoal::replication::impl
