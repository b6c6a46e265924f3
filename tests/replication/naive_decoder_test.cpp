// Two decoders read every payload of simulated connections: the library's, and a simple one written from
// replication/WIRE.md.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "replication/codec/codec.h"
#include "replication/message.h"
#include "replication/message/typed_messages.h"
#include "tests/replication/support/naive_race.h"
#include "tests/replication/support/records.h"

namespace shoal::replication::impl::naive_decoder_test {
namespace {

using naive::Coding;
using naive::Type;

/// The schema of tests/sim, described by hand.
naive::Description game_by_hand() {
    const naive::Field space = naive::steps(Type::f32, -64, 64, 0.01),
                       any = naive::coded(Type::f32, naive::Coding::any_float, 0);
    const naive::Field speed = naive::steps(Type::f64, -20, 20, 1.0 / 64), byte = naive::plain(Type::u8);
    const naive::Field near = naive::steps(Type::f32, -8, 8, 0.125), angle = naive::plain(Type::i16);
    const naive::Field flag = naive::plain(Type::boolean), whole = naive::plain(Type::i32);
    const naive::Part items{6, {naive::plain(Type::u16), whole, flag}};
    return naive::describe({
        {"position", false, {space, space, space}, {}},
        {"velocity", false, {speed, speed}, {}},
        {"health", false, {naive::range(Type::i32, -5, 200), byte}, {}},
        {"counters",
         false,
         {naive::plain(Type::i64), naive::plain(Type::u64), whole, angle, naive::plain(Type::i8),
          naive::plain(Type::u16), naive::plain(Type::u32)},
         {}},
        {"mood", false, {naive::enum_range(Type::u8, 0, 3), naive::plain_enum(Type::i32), flag, flag}, {}},
        {"body",
         false,
         {any, any, byte, byte, byte, any, any, byte, byte, byte, near, near, angle, angle, angle},
         {}},
        {"raw", false, {any, naive::coded(Type::f64, naive::Coding::any_float, 0), any, any}, {}},
        {"name", false, {}, {naive::text(12)}},
        {"bag", false, {whole}, {items}},
        {"aim", false, {naive::plain(Type::entity), naive::steps(Type::f32, 0, 100, 0.5)}, {}},
        {"squad", false, {}, {{5, {naive::plain(Type::entity)}}, naive::text(10)}},
        {"hold", false, {}, {{30'000, {byte}}}},
        {"wolf", true, {}, {}},
        {"frozen", true, {}, {}},
    });
}

enum class Bit : bool {};
enum class Letter : std::uint8_t {};
enum class Distance : std::int64_t {};
struct Odd {
    Bit bit{};
    Letter letter{}, grade{};
    Distance distance{};
    std::uint16_t ports[6] = {};
    std::int8_t temperature = 0;  // bounded
    double exact = 0;
    float f = 0, g = 0, h = 0, i = 0, j = 0;
    ecs::Entity a, b;
    std::uint32_t constant = 0;  // bounded to one value
};
struct OddElement {
    Bit bit{};
    Letter letter{};
    std::uint64_t wide = 0;
    float f = 0;
    double d = 0;
    std::uint8_t byte = 0;
};
struct OddParts {
    std::vector<OddElement> elements;
    std::string text;                 // default length
    std::string digits;               // bounded
    std::vector<std::int16_t> small;  // bounded
    std::int32_t n = 0;
};

struct OddCodecs {
    float up[2][3] = {};
    double turn[4] = {};
    float heading = 0, half = 0;
    double fixed = 0;
    std::optional<OddElement> element;
    std::vector<std::array<float, 4>> turns;
    std::optional<std::chrono::milliseconds> left;
};

/// The kinds of fields that the game does not have.
struct OddPair {
    static constexpr auto relation = ecs::many;
    double weight = 0;
    std::uint8_t grade = 1;
};
struct OddTarget {
    static constexpr auto relation = ecs::exclusive;
};

struct OddInner {
    std::vector<std::string> names;
    std::optional<std::optional<float>> maybe;
    struct Item {
        std::string name;
        std::uint16_t kind = 0;
        std::vector<ecs::Entity> owners;
        std::optional<OddElement> element;
        bool is_open = false;
    };
    std::map<std::int16_t, Item> items;
    std::unordered_map<std::string, std::vector<std::vector<float>>> shapes;
    std::int32_t n = 0;
};

Schema odd_schema() {
    Schema schema;
    using ShapesEntry = decltype(OddInner::shapes)::value_type;
    schema.component<OddInner>(
        "odd inner", element(&OddInner::names, max_length(9), inner<std::string>(max_length(20))),
        element(&OddInner::items, max_length(7)),
        element(&OddInner::shapes, max_length(5), field(&ShapesEntry::first, max_length(8)),
                element(&ShapesEntry::second, max_length(3),
                        inner<std::vector<float>>(quantised(0, 10, 0.1).up_to(4)))));
    schema.component<Odd>("odd", field(&Odd::grade, bounded(1, 5)),
                          field(&Odd::temperature, bounded(-40, 60)), field(&Odd::constant, bounded(7, 7)));
    schema.component<OddParts>("odd parts", field(&OddParts::digits, bounded('0', '9')),
                               field(&OddParts::small, bounded(-3, 300)));
    schema.component<OddCodecs>("odd codecs", field(&OddCodecs::up, unit_vector(10)),
                                field(&OddCodecs::turn, smallest_three(9)),
                                field(&OddCodecs::heading, angle(12)), field(&OddCodecs::half, half_float()),
                                field(&OddCodecs::fixed, fixed_point(16)),
                                element(&OddCodecs::element, field(&OddElement::wide, bounded(0, 99))),
                                field(&OddCodecs::turns, smallest_three(5)));
    schema.pair<OddPair>("odd pair", max_length(9), field(&OddPair::grade, bounded(1, 5)));
    schema.pair<OddTarget>("odd target");
    return schema;
}
naive::Description odd_by_hand() {
    const naive::Field port = naive::plain(Type::u16), real = naive::plain(Type::f32);
    const naive::Field letter = naive::plain_enum(Type::u8), exact = naive::plain(Type::f64);
    const naive::Field bit = naive::plain_enum(Type::boolean), entity = naive::plain(Type::entity);
    return naive::describe(
        {{"odd",
          false,
          {bit,
           letter,
           naive::enum_range(Type::u8, 1, 5),
           naive::plain_enum(Type::i64),
           port,
           port,
           port,
           port,
           port,
           port,
           naive::range(Type::i8, -40, 60),
           exact,
           real,
           real,
           real,
           real,
           real,
           entity,
           entity,
           naive::range(Type::u32, 7, 7)},
          {}},
         {"odd parts",
          false,
          {naive::plain(Type::i32)},
          {{16, {bit, letter, naive::plain(Type::u64), real, exact, naive::plain(Type::u8)}},
           naive::text(),
           {64, {naive::enum_range(Type::u8, '0', '9')}},
           {16, {naive::range(Type::i16, -3, 300)}}}},
         {"odd codecs",
          false,
          {naive::coded(Type::f32, Coding::unit_vector, 10), naive::coded(Type::f32, Coding::unit_vector, 10),
           naive::coded(Type::f64, Coding::smallest_three, 9), naive::coded(Type::f32, Coding::angle, 12),
           naive::coded(Type::f32, Coding::half_float, 0), naive::coded(Type::f64, Coding::fixed_point, 16)},
          {{1, {bit, letter, naive::range(Type::u64, 0, 99), real, exact, naive::plain(Type::u8)}},
           {16, {naive::coded(Type::f32, Coding::smallest_three, 5)}},
           {1, {naive::plain(Type::i64)}}}},
         {"odd inner",
          false,
          {naive::plain(Type::i32)},
          {{9, {}, {naive::text(20)}},
           {1, {}, {{1, {real}}}},
           {7,
            {naive::plain(Type::i16), port, naive::plain(Type::boolean)},
            {naive::text(),
             {16, {entity}},
             {1, {bit, letter, naive::plain(Type::u64), real, exact, naive::plain(Type::u8)}}}},
           {5, {}, {naive::text(8), {3, {}, {{4, {naive::steps(Type::f32, 0, 10, 0.1)}}}}}}}},
         {"odd pair", false, {}, {{9, {entity, exact, naive::range(Type::u8, 1, 5)}}}, true},
         {"odd target", false, {}, {{1, {entity}}}, true}});
}

ComponentIndex game_index(std::string_view name) {
    ComponentIndex index = 0;
    for (const auto& [id, component] : game_by_hand()) {
        if (component.name == name) break;
        ++index;
    }
    return index;
}

constexpr std::uint32_t kFewSlots = 64;

/// The sender uses a model with any probabilities from now on.
void give_model(Pair& pair, Race& race, sim::Random& random) {
    CodecModel model = untrained_model(pair.schema);
    for (std::uint8_t& p : model)
        if (random.chance(0.1)) p = static_cast<std::uint8_t>(1 + random.below(255));
    ASSERT_TRUE(pair.sender.load_model(write_model(model, pair.schema)));
    ASSERT_TRUE(pair.sender.offer_model(pair.peer));
    const std::uint8_t number = pair.sender.models().number();
    ASSERT_NO_FATAL_FAILURE(race.add_model(number, pair.sender.models().bytes()));
    ASSERT_TRUE(pair.sender.confirm_model(pair.peer, number));
}

void converse(std::uint64_t seed, bool is_hostile, Coverage& seen) {
    sim::Random random(seed);
    static constexpr Tick kFirstTicks[] = {1, 1'000, 0xffffffe0u, 0x7ffffff0u};
    static constexpr std::size_t kCapacities[] = {20, 60, 200, 1'100};
    SenderOptions sender_options;
    sender_options.history_s = random.chance(0.3) ? 0.1 : 0.6;
    Pair pair(sender_options, {.max_slots = kFewSlots}, random.pick(kFirstTicks), 1 + random.below(3));
    Race race(pair.receiver, pair.schema, {game_by_hand(), kFewSlots}, seen);
    sim::Director director(pair.world, seed,
                           {.max_entities = 20, .churn = 0.35, .large = is_hostile ? 0 : 0.005});
    NaivePath path(pair, race, random, seen);
    const std::size_t capacity = random.pick(kCapacities);
    path.damage = is_hostile ? 0.6 : 0;
    path.delay = random.pick({0.0, 0.3, 0.7});
    bool is_over = false;
    for (int step = 0; step < 40 && !is_over; ++step) {
        if (step == 10 && seed % 2 == 0) {
            ASSERT_NO_FATAL_FAILURE(give_model(pair, race, random));
        }
        director.step();
        pair.tick();
        path.send(capacity);
        ASSERT_NO_FATAL_FAILURE(path.deliver(is_over));
    }
}

// Goal: WIRE.md is complete and the library follows it.
// Method: both decoders read what a sender writes; loss, reordering, wrap of ticks, small and large packets.
TEST(NaiveStateDecoder, ReadsWhatTheSenderWrites) {
    Coverage seen;
    for (std::uint64_t seed = 1; seed <= 25; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        ASSERT_NO_FATAL_FAILURE(converse(seed, false, seen));
    }
    for (const int count : {seen.accepted, seen.at_anchor, seen.other, seen.same, seen.full, seen.later_full,
                            seen.despawns[0], seen.despawns[1], seen.no_anchor, seen.markers, seen.others,
                            seen.empty, seen.reordered, seen.complete, seen.large, seen.checks, seen.trained})
        EXPECT_GT(count, 0);
    EXPECT_EQ(seen.differences, 0);
}

// Goal: the library refuses a payload exactly if a rule of WIRE.md refuses it.
// Method: flipped bits and changed lengths in what a sender writes.
TEST(NaiveStateDecoder, RefusesWhatTheLibraryRefuses) {
    Coverage seen;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        ASSERT_NO_FATAL_FAILURE(converse(seed, true, seen));
    }
    EXPECT_GT(seen.listed, 100);
    EXPECT_GT(seen.uniform, 50);
    EXPECT_GT(seen.older, 100);
    EXPECT_GT(seen.flipped_accepted, 100);
    EXPECT_GT(seen.flipped_refused, 1'000);
    EXPECT_GT(seen.reasons.size(), 12u) << "rules that refused a payload";
}

// Goal: both decoders keep the same of records that are late, come twice, or give an entity another slot.
// Method: random payloads about few slots and net ids, with ticks close to each other.
TEST(NaiveStateDecoder, KeepsTheSameVersions) {
    const Schema schema = game_schema();
    Coverage seen;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        sim::Random random(seed);
        ecs::World world;
        Receiver receiver(world, schema, {.max_slots = kFewSlots});
        Race race(receiver, schema, {game_by_hand(), kFewSlots}, seen);
        ShapeTable shapes(schema);
        for (std::uint64_t number = 1; number <= 40; ++number) {
            StateHeader header;
            header.tick = static_cast<Tick>(100 + number + random.below(8));
            if (random.chance(0.5))
                header.complete = StateHeader::Complete{random.below(5), 0, random.below(3)};
            std::vector<std::vector<std::uint32_t>> words(8);
            std::vector<ChosenRecord> records;
            for (std::uint32_t slot = 0; slot < 4; ++slot) {
                if (random.chance(0.3)) continue;
                ChosenRecord record{{.slot = slot}, {}, {}};
                const std::uint32_t kind = random.below(5);
                const auto replica = race.decoder.replicas().find(slot);
                words[slot] = {random.below(12'801), 0, 0};
                record.to = {shapes.shape(std::vector{game_index("position")}), words[slot]};
                if (kind == 0) {
                    record.header.kind = RecordKind::despawn;
                    record.header.reason =
                        random.pick({Despawn::destroyed, Despawn::left, Despawn::out_of_view});
                } else if (kind > 2 && replica != race.decoder.replicas().end()) {
                    const auto& versions = replica->second.versions;
                    auto version = versions.begin();
                    std::advance(version, random.below(static_cast<std::uint32_t>(versions.size())));
                    record.header.baseline = version->first;
                    words[slot + 4] = naive_words(version->second);
                    record.from = {record.to.shape, words[slot + 4]};
                } else {
                    record.header.kind = RecordKind::full;
                    record.header.net_id =
                        random.chance(0.5) ? 1 + random.below(4) : 0xff00'0000 + random.below(3);
                    record.header.pending = random.below(2);
                }
                records.push_back(record);
            }
            Receiver::Verdict verdict;
            ASSERT_NO_FATAL_FAILURE(race.receive(number, payload_of(schema, header, records), verdict));
            if (random.chance(0.5)) continue;
            receiver.apply();
            ASSERT_NO_FATAL_FAILURE(race.compare_complete());
            ASSERT_NO_FATAL_FAILURE(race.compare_versions());
        }
    }
    for (const int count : {seen.accepted, seen.ahead, seen.other, seen.despawns[2], seen.complete})
        EXPECT_GT(count, 100);
}

TEST(NaiveStateDecoder, RefusesATickThatCannotBeCompared) {
    const Schema schema = game_schema();
    Coverage seen;
    ecs::World world;
    Receiver receiver(world, schema);
    Race race(receiver, schema, {game_by_hand(), kFewSlots}, seen);
    ShapeTable shapes(schema);
    const Image empty{shapes.shape({}), {}};
    const Tick far = 100 + (Tick{1} << 30), too_far = 105 + (Tick{1} << 31);
    const RecordHeader full{.slot = 0, .kind = RecordKind::full, .net_id = 3};
    const RecordHeader delta{.slot = 0, .kind = RecordKind::delta, .baseline = 100};
    const RecordHeader moved{.slot = 1, .kind = RecordKind::full, .net_id = 3};
    const RecordHeader gone{.slot = 0, .kind = RecordKind::despawn};
    Receiver::Verdict verdict;
    ASSERT_NO_FATAL_FAILURE(race.receive(1, payload_of(schema, 100, {{full, {}, empty}}), verdict));
    ASSERT_NO_FATAL_FAILURE(race.receive(2, payload_of(schema, far, {{delta, empty, empty}}), verdict));
    ASSERT_EQ(verdict, Receiver::Verdict::accepted);
    for (const ChosenRecord& record : {ChosenRecord{delta, empty, empty}, ChosenRecord{full, {}, empty},
                                       ChosenRecord{moved, {}, empty}, ChosenRecord{gone, {}, {}}}) {
        ASSERT_NO_FATAL_FAILURE(race.receive(3, payload_of(schema, too_far, {record}), verdict));
        ASSERT_EQ(verdict, Receiver::Verdict::malformed);
    }
}

/// A state with random lanes, often those of `like`.
naive::State random_state(const naive::Description& schema, const naive::State& like, sim::Random& random) {
    const auto lane_of = [&](const naive::Lane& lane) {
        const std::uint32_t wild = static_cast<std::uint32_t>(random.next() >> random.below(64));
        const std::uint32_t value = lane.greatest == 0xffffffff ? wild : wild % (lane.greatest + 1);
        return (value & lane.exponent) == lane.exponent ? value & ~lane.exponent : value;
    };
    naive::State out;
    std::uint32_t index = 0;
    for (const auto& [id, component] : schema) {
        const std::uint32_t at = index++;
        if (random.chance(0.2)) continue;
        const std::vector<naive::Lane> lanes = naive::lanes_of(component.fields);
        naive::Value value{std::vector<std::uint32_t>(lanes.size()), {}};
        const std::vector<naive::ListedPart> parts = naive::list_parts(component.parts);
        value.parts.resize(parts.size());
        if (like.count(at) != 0) value = like.at(at);
        for (std::size_t i = 0; i < lanes.size(); ++i)
            if (random.chance(0.5)) value.lanes[i] = lane_of(lanes[i]);
        for (std::size_t i = 0; i < parts.size(); ++i) {
            auto& part = value.parts[i];
            const std::vector<naive::Lane> of_element = naive::lanes_of(parts[i].part);
            const std::uint32_t first = random.below(static_cast<std::uint32_t>(part.size() + 1));
            if (random.chance(0.5)) part.erase(part.begin(), part.begin() + first);
            for (auto& element : part) {
                const std::uint32_t at_lane = random.below(static_cast<std::uint32_t>(element.size()));
                if (random.chance(0.2)) element[at_lane] = lane_of(of_element[at_lane]);
                if (random.chance(0.05)) element.swap(part.front());
            }
            std::size_t length = part.size();
            while (length < parts[i].part.max_length && random.chance(0.8)) ++length;
            if (parts[i].is_inner) {
                length = 0;
                for (const auto& element : value.parts[parts[i].around])
                    length += element[parts[i].length_lane];
            }
            part.resize(std::min(part.size(), length));
            while (part.size() < length) {
                part.emplace_back();
                for (const naive::Lane& lane : of_element) part.back().push_back(lane_of(lane));
            }
        }
        out[at] = value;
    }
    return out;
}

// Goal: fields that the game does not have are lanes, groups and codes as in WIRE.md.
// Method: random states, each written as a full record and as a delta to the one before.
TEST(NaiveStateDecoder, ReadsAllKindsOfFields) {
    const Schema schema = odd_schema();
    ASSERT_EQ(schema.error(), "");
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        sim::Random random(seed);
        ShapeTable shapes(schema);
        naive::Decoder decoder(odd_by_hand(), kFewSlots);
        naive::State states[2];
        states[0] = random_state(decoder.schema(), {}, random);
        states[1] = random_state(decoder.schema(), states[0], random);
        const std::vector<std::uint32_t> words[2] = {naive_words(states[0]), naive_words(states[1])};
        const Image from{shapes.shape(naive_indices(states[0])), words[0]};
        const Image to{shapes.shape(naive_indices(states[1])), words[1]};
        const RecordHeader full{.slot = 5, .kind = RecordKind::full, .net_id = 9, .pending = 77};
        ASSERT_TRUE(decoder.receive(1, payload_of(schema, 40, {{full, {}, from}}))) << decoder.why();
        ASSERT_EQ(decoder.payload().records[0].pending, 77u);
        const RecordHeader delta{.slot = 5, .kind = RecordKind::delta, .baseline = 40};
        const RecordHeader gone{.slot = 6, .kind = RecordKind::despawn, .reason = Despawn::out_of_view};
        ASSERT_TRUE(decoder.receive(2, payload_of(schema, 45, {{delta, from, to}, {gone, {}, {}}})))
            << decoder.why();
        ASSERT_EQ(decoder.payload().records[1].reason, 2u);
        const std::map<std::uint32_t, naive::State>& versions = decoder.replicas().at(5).versions;
        ASSERT_EQ(versions.at(40), states[0]);
        ASSERT_EQ(versions.at(45), states[1]);
    }
}

// Goal: any bits of a delta of fields that the game does not have give both decoders the same state, or none.
// Method: flipped bits in what the library writes.
TEST(NaiveStateDecoder, ReadsTheSameOfDamagedDeltas) {
    const Schema schema = odd_schema();
    const naive::Description description = odd_by_hand();
    ShapeTable shapes(schema);
    int accepted = 0, refused = 0;
    for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        sim::Random random(seed);
        const naive::State before = random_state(description, {}, random);
        const naive::State now = random_state(description, before, random);
        const naive::State first = random_state(description, before, random);
        const std::vector<std::uint32_t> words[3] = {naive_words(before), naive_words(now),
                                                     naive_words(first)};
        const std::uint32_t factor = random.below(4) * random.below(500);
        const Trend trend{{shapes.shape(naive_indices(first)), words[2]}, factor};
        const Image from{shapes.shape(naive_indices(before)), words[0]};
        BitWriter out;
        write_image(schema, from, {shapes.shape(naive_indices(now)), words[1]}, out, nullptr, trend);
        std::vector<std::byte> bytes = bytes_of(out);
        for (std::uint32_t flips = random.below(3); flips > 0; --flips)
            bytes[random.below(static_cast<std::uint32_t>(bytes.size()))] ^= std::byte(1u << random.below(8));
        BitReader in(bytes);
        std::vector<std::uint32_t> read;
        const bool is_read = read_image(shapes, from, in, read, trend) != nullptr;
        naive::Bits bits(bytes);
        const naive::State state = naive::StateReader(description, bits).read(&before, {&first, factor});
        ASSERT_EQ(is_read, bits.ok()) << bits.why();
        if (is_read) {
            ASSERT_EQ(naive_words(state), read);
        }
        (is_read ? accepted : refused) += 1;
    }
    EXPECT_GT(accepted, 500);
    EXPECT_GT(refused, 500);
}

TEST(NaiveStateDecoder, ComputesTheHashAndSummaryOfASchema) {
    EXPECT_EQ(naive::hash_of(game_by_hand()), game_schema().hash());
    EXPECT_EQ(naive::summary_of(game_by_hand()), game_schema().summary());
    EXPECT_EQ(naive::hash_of(odd_by_hand()), odd_schema().hash());
    EXPECT_EQ(naive::summary_of(odd_by_hand()), odd_schema().summary());
}

struct Chatter {
    std::string text;
    float volume = 0;
};
struct Nod {};

Schema chatter_schema() {
    Schema schema;
    schema.tag<sim::Wolf>("wolf");
    schema.message<Chatter>("chatter", field(&Chatter::volume, quantised(0, 1, 0.25)));
    schema.message<Nod>("nod");
    schema.message<sim::Position>("position", quantised(0, 100, 0.5));
    return schema;
}
naive::Description chatter_by_hand() {
    const naive::Field step = naive::steps(Type::f32, 0, 100, 0.5);
    return naive::describe({{"chatter", false, {naive::steps(Type::f32, 0, 1, 0.25)}, {naive::text()}},
                            {"nod", false, {}, {}},
                            {"position", false, {step, step, step}, {}}});
}

TEST(NaiveStateDecoder, ComputesTheHashAndSummaryOfASchemaWithMessages) {
    const naive::Description components = naive::describe({{"wolf", true, {}, {}}});
    ASSERT_EQ(chatter_schema().error(), "");
    EXPECT_EQ(naive::hash_of(components, chatter_by_hand()), chatter_schema().hash());
    EXPECT_EQ(naive::summary_of(components, chatter_by_hand()), chatter_schema().summary());
}

TEST(NaiveStateDecoder, ReadsTypedMessages) {
    struct Nothing final : EntityMap {
        std::uint32_t to_net(ecs::Entity) override { return 0; }
        ecs::Entity to_entity(std::uint32_t) override { return {}; }
    } nothing;
    const Schema schema = chatter_schema();
    const naive::Description by_hand = chatter_by_hand();
    TypedMessages writer(schema, nothing);
    const auto read = [&](const auto& value) {
        std::vector<std::byte> bytes;
        writer.write(value, bytes);
        naive::Bits bits(bytes);
        const auto type = static_cast<std::size_t>(bits.number(2));
        naive::StateReader reader(by_hand, bits);
        const naive::Component& component = by_hand.at(type).second;
        const naive::Value value_read =
            component.fields.empty() ? naive::Value{} : reader.read_alone(component);
        EXPECT_TRUE(bits.ok()) << bits.why();
        return std::pair(component.name, naive_words({{0, value_read}}));
    };
    using Numbers = std::vector<std::uint32_t>;
    EXPECT_EQ(read(Chatter{"hi", 0.5f}), std::pair(std::string("chatter"), Numbers{2, 2, 'h', 'i'}));
    EXPECT_EQ(read(Chatter{}), std::pair(std::string("chatter"), Numbers{0, 0}));
    EXPECT_EQ(read(Nod{}), std::pair(std::string("nod"), Numbers{}));
    EXPECT_EQ(read(sim::Position{1, 50, 100}), std::pair(std::string("position"), Numbers{2, 100, 200}));
}

TEST(NaiveStateDecoder, ReadsTheTickOfAMessageWithState) {
    struct Nothing final : EntityMap {
        std::uint32_t to_net(ecs::Entity) override { return 0; }
        ecs::Entity to_entity(std::uint32_t) override { return {}; }
    } nothing;
    Schema schema;
    schema.message<Chatter>("chatter", field(&Chatter::volume, quantised(0, 1, 0.25)), with_state());
    schema.message<Nod>("nod");
    const naive::Component chatter{"chatter", false, {naive::steps(Type::f32, 0, 1, 0.25)}, {naive::text()}};
    const naive::Description by_hand{{naive::id_of(chatter.name), chatter}};
    TypedMessages messages(schema, nothing);
    for (const bool has_tick : {false, true}) {
        std::vector<std::byte> bytes;
        messages.write(Chatter{"hi", 0.5f}, bytes, has_tick ? std::optional<Tick>(0x89abcdef) : std::nullopt);
        naive::Bits bits(bytes);
        EXPECT_EQ(bits.number(1), schema.find_struct<Chatter>(StructKind::message));
        if (has_tick) {
            EXPECT_EQ(bits.number(32), 0x89abcdefu);
        }
        naive::StateReader reader(by_hand, bits);
        const naive::Value value = reader.read_alone(by_hand.at(0).second);
        EXPECT_TRUE(bits.ok()) << bits.why();
        EXPECT_EQ(naive_words({{0, value}}), (std::vector<std::uint32_t>{2, 2, 'h', 'i'}));
        TypedMessages::Message read;
        ASSERT_TRUE(messages.read(bytes, read, has_tick));
        EXPECT_EQ(read.tick, has_tick ? 0x89abcdefu : 0u);
        for (std::size_t size = 0; size < bytes.size(); ++size)
            EXPECT_FALSE(messages.read(std::span(bytes).first(size), read, has_tick));
    }
}

TEST(NaiveStateDecoder, WritesTheHelloOfAClient) {
    std::vector<std::byte> hello;
    naive::put_number(hello, 0x01020304);
    hello.push_back(std::byte{0});
    const std::vector<std::byte> summary = naive::summary_of(game_by_hand());
    hello.insert(hello.end(), summary.begin(), summary.end());
    EXPECT_EQ(write_hello({0x01020304, game_schema().summary()}), hello);
}

TEST(NaiveStateDecoder, ReadsTheExampleOfWireMd) {
    const auto bytes = [](std::vector<unsigned> numbers) {
        std::vector<std::byte> out;
        for (const unsigned number : numbers) out.push_back(std::byte(number));
        return out;
    };
    const naive::Field step = naive::steps(Type::f32, 0, 100, 0.5);
    naive::Decoder decoder(naive::describe({{"wolf", true, {}, {}},
                                            {"position", false, {step, step}, {}},
                                            {"name", false, {}, {naive::text()}}}),
                           kFewSlots);
    ASSERT_TRUE(decoder.receive(9, bytes({0xd0, 0x07, 0x00, 0x00, 0x82, 0x80, 0x01, 0x00, 0x00, 0x00, 0x8c,
                                          0x24, 0xf4, 0x76, 0x80, 0x0c})))
        << decoder.why();
    using NaiveWords = std::vector<std::uint32_t>;
    naive::State state = decoder.replicas().at(0).versions.at(1'000);
    EXPECT_EQ(decoder.replicas().at(0).net_id, 1u);
    EXPECT_EQ(naive_words(state), (NaiveWords{3, 100, 2, 'B', 'o'}));
    EXPECT_EQ(state.size(), 3u);
    ASSERT_TRUE(decoder.receive(10, bytes({0x61, 0x08, 0x84, 0x22, 0x44, 0x2c, 0x82, 0x08})))
        << decoder.why();
    state = decoder.replicas().at(0).versions.at(1'001);
    EXPECT_EQ(naive_words(state), (NaiveWords{5, 100, 3, 'B', 'o', 'b'}));
    const naive::Record& gone = decoder.payload().records.at(1);
    EXPECT_EQ(gone.slot, 2u);
    EXPECT_EQ(gone.kind, naive::Kind::despawn);
    EXPECT_EQ(gone.reason, 1u);
    EXPECT_EQ(decoder.complete(), (std::pair{1'001u, 1'001u}));
}

}  // namespace
}  // namespace shoal::replication::impl::naive_decoder_test
