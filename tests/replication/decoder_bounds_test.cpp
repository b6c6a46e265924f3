#include "replication/receive/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/replication/support/records.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {
namespace {

using sim::Counters;
using sim::Position;
using Verdict = Receiver::Verdict;

// Bounds

template <int>
struct Flag {};
constexpr int kFlags = 15;
template <int... I>
void declare_flags(Schema& schema, std::integer_sequence<int, I...>) {
    (schema.tag<Flag<I>>("flag " + std::to_string(I)), ...);
}

// 20 entities with random sets of 15 tags: 6,000 sets in all. Those of the last 32 ticks are in use.
TEST(Decoder, Rule30SetsOfComponentsThatNobodyHasAnyMoreAreForgotten) {
    Schema schema;
    declare_flags(schema, std::make_integer_sequence<int, kFlags>());
    ecs::World world, mirror;
    Sender sender(world, schema);
    ReceiverOptions options;
    options.max_held_bytes = 30'000'000;
    Receiver receiver(mirror, schema, options);
    const Sender::Peer peer = sender.add_peer();
    const Binding binding(world, schema);
    const auto flags = binding.ids();
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 20; ++i) entities.push_back(world.spawn(Replicated{}));
    sim::Random random(1);
    std::byte room[1300];
    std::uint64_t number = 1;
    for (Tick tick = 1; tick <= 300; ++tick) {
        for (const ecs::Entity entity : entities) {
            const std::uint32_t set = random.below(1 << kFlags);
            for (std::uint32_t i = 0; i < kFlags; ++i)
                set >> i & 1 ? world.add(entity, flags[i], nullptr) : world.remove(entity, flags[i]);
        }
        sender.update(tick);
        for (;;) {
            const auto payload = sender.encode(peer, number, 1100, room);
            if (payload.empty()) break;
            ASSERT_EQ(receiver.receive(number, payload), Verdict::accepted) << tick;
            sender.on_fate(peer, number++, true);
        }
        receiver.apply();
    }
    WorldHash server(world, schema), client(mirror, schema);
    EXPECT_EQ(server.of_server(sender.shadow()).hash, client.of_client(receiver).hash);
}

// A server sends records from the newest to the oldest: each is overtaken.
TEST(Decoder, Rule30OvertakenRecordsDoNotExceedMaxVersions) {
    Pair pair({}, {.max_versions = 8});
    const ecs::Entity entity = pair.spawn(at(0));
    pair.exchange();
    std::vector<SentPacket> packets;
    for (int i = 1; i <= 50; ++i) {
        pair.world.set(entity, at(static_cast<float>(i)));
        packets.push_back(pair.tick_and_encode());
    }
    for (; !packets.empty(); packets.pop_back()) EXPECT_EQ(pair.receive(packets.back()), Verdict::accepted);
    std::size_t versions = 0;
    pair.receiver.for_each_version([&](std::uint32_t, std::uint32_t, Tick, const Image&) { ++versions; });
    EXPECT_LE(versions, 8u);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Position>(entity).x, 50);
}

TEST(Decoder, Rule30AServerThatFillsTheMemoryForVersionsIsDisconnected) {
    Pair pair({}, {.max_held_bytes = 100'000});
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 20; ++i) entities.push_back(pair.spawn(at(0), Counters{}, sim::Body{}));
    Verdict verdict = Verdict::accepted;
    int packets = 0;
    for (; verdict == Verdict::accepted && packets < 1'000; ++packets) {  // small deltas, never acknowledged
        for (const ecs::Entity entity : entities)
            pair.world.set(entity, at(static_cast<float>(packets % 50)));
        pair.tick();
        const auto packet = pair.encode();
        ASSERT_TRUE(packet);
        verdict = pair.receive(*packet);
        pair.tell(*packet, packets == 0);
    }
    EXPECT_EQ(verdict, Verdict::too_many);
    EXPECT_GT(packets, 10);
    EXPECT_TRUE(pair.receiver.is_consistent());
}

// A payload repeats a state in many slots: it is small, but not its versions.
TEST(Decoder, Rule30OnePayloadCannotExceedTheMemoryForVersions) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(Counters{}, sim::Body{});
    pair.tick();
    const Image image = image_of(pair, entity);
    std::vector<ChosenRecord> records;
    for (std::uint32_t slot = 0; slot < 500; ++slot)
        records.push_back({{slot, RecordKind::full, 0, slot + 1}, {}, image});
    const std::vector<std::byte> payload = payload_of(pair.schema, 1, records);
    const std::size_t of_one = image.words.size() * sizeof(std::uint32_t) + cost_of(pair.schema, image);
    const std::size_t needed = records.size() * of_one;
    for (const bool has_room : {true, false}) {
        ecs::World world;
        Receiver receiver(world, pair.schema, {.max_held_bytes = has_room ? needed + (1 << 20) : needed - 1});
        EXPECT_EQ(receiver.receive(1, payload), has_room ? Verdict::accepted : Verdict::too_many);
        EXPECT_EQ(receiver.stats().records, has_room ? records.size() : 0);
    }
}

template <int>
struct NumberedTag {};

template <int... N>
Schema schema_of_tags(std::integer_sequence<int, N...>) {
    Schema schema;
    (schema.tag<NumberedTag<N>>("tag " + std::to_string(N)), ...);
    return schema;
}

// Each entity has another set of components. A set takes more memory than a version without values.
TEST(Decoder, Rule30AServerThatInventsSetsOfComponentsIsDisconnected) {
    const Schema schema = schema_of_tags(std::make_integer_sequence<int, 14>());
    ecs::World world;
    Receiver receiver(world, schema, {.max_held_bytes = 300'000});
    ShapeTable shapes(schema);
    Verdict verdict = Verdict::accepted;
    std::uint32_t number = 0;
    while (verdict == Verdict::accepted && number < 10'000) {
        ++number;
        std::vector<ComponentIndex> set;
        for (ComponentIndex i = 0; i < 14; ++i)
            if ((number >> i & 1) != 0) set.push_back(i);
        const RecordHeader header{.slot = number, .kind = RecordKind::full, .net_id = number};
        verdict =
            receiver.receive(number, payload_of(schema, number, {{header, {}, {shapes.shape(set), {}}}}));
    }
    EXPECT_EQ(verdict, Verdict::too_many);
    EXPECT_LT(number, 3'000u) << "a set takes 100 bytes at least";
    EXPECT_TRUE(receiver.is_consistent());
}

// Neither of two ticks that are 2^31 apart is newer than the other.
TEST(Decoder, Rule30AFullRecordExactlyHalfAWrapAwayIsNotKeptAsAVersion) {
    for (const bool is_later : {true, false}) {
        Pair pair;
        const ecs::Entity entity = pair.spawn(at(1));
        pair.tick();
        const auto record = [&](Tick tick) {
            return payload_of(
                pair.schema, tick,
                {{{0, RecordKind::full, 0, pair.sender.net_id(entity)}, {}, image_of(pair, entity)}});
        };
        const Tick first = 1'000, second = first + (1u << 31);
        EXPECT_EQ(pair.receiver.receive(1, record(is_later ? first : second)), Verdict::accepted);
        pair.receiver.apply();
        static_cast<void>(pair.receiver.receive(2, record(is_later ? second : first)));
        EXPECT_TRUE(pair.receiver.is_consistent());
        pair.receiver.apply();
        EXPECT_TRUE(pair.receiver.is_consistent());
    }
}

// Bytes from the network

/// A sender and a receiver with many random changes, losses and rebases.
class BusyPair {
public:
    explicit BusyPair(std::uint64_t seed)
        : director(pair.world, seed,
                   {.max_entities = 25, .operations = 8, .churn = 0.3, .cluster = 0, .idle = 0}),
          random(seed) {}

    SentPacket next() {
        for (;;) {
            director.step();
            pair.tick();
            if (const auto packet = pair.encode()) return *packet;
        }
    }
    void settle(const SentPacket& packet) {
        if (random.chance(0.2)) {
            pair.lose(packet);
        } else {
            pair.deliver(packet);
        }
        pair.forward_rebases();
        if (random.chance(0.5)) pair.receiver.apply();
        EXPECT_TRUE(pair.sender.is_consistent());
        EXPECT_TRUE(pair.receiver.is_consistent());
    }
    std::string state() const { return state_of(pair.receiver, pair.schema); }

    Pair pair;
    sim::Director director;
    sim::Random random;
};

TEST(Decoder, EveryTruncatedPrefixOfAPayloadChangesNothing) {
    BusyPair busy(1);
    for (int round = 0; round < 60; ++round) {
        const SentPacket packet = busy.next();
        const std::string before = busy.state();
        for (std::size_t size = 0; size < packet.bytes.size(); ++size) {
            const std::unique_ptr<std::byte[]> exact(new std::byte[size]);
            std::copy_n(packet.bytes.data(), size, exact.get());
            ASSERT_NE(busy.pair.receiver.receive(packet.number, {exact.get(), size}), Verdict::accepted)
                << size << " bytes";
        }
        ASSERT_EQ(busy.state(), before);
        busy.settle(packet);
    }
}

// The baseline is so old that its code has several bytes.
TEST(Decoder, ATruncatedDeltaIsMalformedAndRequestsNothing) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1)), other = pair.spawn(at(2));
    pair.exchange();
    const Tick first = pair.sender.tick();
    const Image image = image_of(pair, entity), next = image_of(pair, other);
    for (const std::uint32_t age : {2u, 300u, 70'000u}) {
        const auto payload = payload_of(pair.schema, first + age,
                                        {{{0, RecordKind::delta, first, 0}, image, next},
                                         {{1, RecordKind::delta, first, 0}, next, image}});
        const std::string before = state_of(pair.receiver, pair.schema);
        for (std::size_t size = 0; size < payload.size(); ++size) {
            EXPECT_EQ(pair.receiver.receive(100 + age, std::span(payload).first(size)), Verdict::malformed)
                << size << " bytes";
            EXPECT_TRUE(pair.receiver.decoder().rebases().empty());
        }
        EXPECT_EQ(state_of(pair.receiver, pair.schema), before);
        EXPECT_EQ(pair.receiver.receive(100 + age, payload), Verdict::accepted);
        EXPECT_EQ(pair.receiver.stats().rebases, 0u);
        pair.receiver.reset();
        EXPECT_EQ(pair.receiver.receive(1, payload_of(pair.schema, first,
                                                      {{{0, RecordKind::full, 0, 1}, {}, image},
                                                       {{1, RecordKind::full, 0, 2}, {}, next}})),
                  Verdict::accepted);
    }
}

TEST(Decoder, PayloadsThatCameBeforeDoNotCountForTheMemoryOfOne) {
    Pair pair({}, {.max_held_bytes = 60'000});
    const ecs::Entity entity = pair.spawn(at(1), sim::Name{std::string(40, 'a')});
    for (int i = 0; i < 1'000; ++i) {
        pair.world.set(entity, sim::Name{std::string(40, static_cast<char>('a' + i % 20))});
        const SentPacket packet = pair.tick_and_encode();
        ASSERT_EQ(pair.receive(packet), Verdict::accepted) << i;
        pair.tell(packet, true);
        pair.receiver.apply();
    }
}

// Goal: any bytes are safe, and a payload that is not accepted changes nothing.
// Method: flipped bits, joined halves of two payloads, and random bytes; compares the receiver's whole state.
TEST(Decoder, DamagedPayloadsAreUsedCompletelyOrNotAtAll) {
    BusyPair busy(2);
    std::vector<SentPacket> past;
    int accepted = 0, others = 0;
    for (int round = 0; round < 150; ++round) {
        const SentPacket packet = busy.next();
        const std::string before = busy.state();
        for (int attempt = 0; attempt < 60; ++attempt) {
            std::vector<std::byte> bytes = packet.bytes;
            switch (busy.random.below(4)) {
                case 0:
                    for (std::byte& byte : bytes) byte = static_cast<std::byte>(busy.random.below(256));
                    break;
                case 1:
                    if (!past.empty()) {
                        const auto& other =
                            past[busy.random.below(static_cast<std::uint32_t>(past.size()))].bytes;
                        const std::size_t cut = busy.random.below(static_cast<std::uint32_t>(bytes.size()));
                        bytes.resize(cut);
                        if (cut < other.size())
                            bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(cut),
                                         other.end());
                    }
                    break;
                default:
                    for (std::uint32_t flips = 1 + busy.random.below(3); flips > 0; --flips) {
                        const std::uint32_t bit =
                            busy.random.below(static_cast<std::uint32_t>(bytes.size() * 8));
                        bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
                    }
            }
            // A new receiver for each attempt, because an accepted damaged payload changes it.
            ecs::World world;
            Receiver victim(world, busy.pair.schema);
            for (const SentPacket& old : past) static_cast<void>(victim.receive(old.number, old.bytes));
            const std::string clean = state_of(victim, busy.pair.schema);
            const Verdict verdict = victim.receive(packet.number, bytes);
            (verdict == Verdict::accepted ? accepted : others) += 1;
            ASSERT_TRUE(verdict == Verdict::accepted || state_of(victim, busy.pair.schema) == clean);
            victim.apply();
            ASSERT_TRUE(world.is_consistent());
            ASSERT_TRUE(victim.is_consistent());
        }
        ASSERT_EQ(busy.state(), before);
        busy.pair.deliver(packet);
        past.push_back(packet);
        if (past.size() > 12) {
            // A new peer, so that the list of past packets stays short.
            past.clear();
            const Sender::Peer old = busy.pair.peer;
            busy.pair.sender.remove_peer(old);
            busy.pair.peer = busy.pair.sender.add_peer();
            busy.pair.receiver.reset();
        }
    }
    EXPECT_GT(accepted, 50);
    EXPECT_GT(others, 1'000);
}

}  // namespace
}  // namespace shoal::replication::impl
