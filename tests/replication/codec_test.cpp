#include "replication/codec/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "replication/codec/state_packet.h"
#include "replication/history/shadow.h"
#include "tests/replication/support/bits.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl::codec_test {
namespace {

/// Realistic images: all versions of all entities of a world with many changes.
class Images {
public:
    explicit Images(std::uint64_t seed)
        : schema(game_schema()),
          director(world, seed,
                   {.max_entities = 30, .operations = 20, .churn = 0.4, .cluster = 0, .idle = 0}),
          shadow(world, schema, 1'000),
          random(seed) {
        for (Tick tick = 1; tick < 120; ++tick) {
            director.step();
            shadow.update(tick);
        }
        for (std::uint32_t i = 0; i < shadow.index_count(); ++i)
            if (shadow[i].entity)
                for (std::uint32_t v = 0; v < shadow[i].versions.size(); ++v)
                    all.push_back(shadow[i].versions[v].image);
    }
    /// Returns a random image, or sometimes an empty one.
    Image pick() {
        return random.chance(0.1) ? Image{} : all[random.below(static_cast<std::uint32_t>(all.size()))];
    }

    /// Returns a trend with a random older version, often one with the components of `from`.
    Trend pick_trend(const Image& from) {
        Trend trend{pick(), random.below(Trend::kMaxFactor + 1)};
        const auto is_alike = [&] {
            return trend.older.shape && from.shape && trend.older.shape->components == from.shape->components;
        };
        for (int n = 0; n < 20 && !is_alike(); ++n) trend.older = pick();
        return random.chance(0.2) ? Trend{} : trend;
    }

    Schema schema;
    ecs::World world;
    sim::Director director;
    Shadow shadow;
    sim::Random random;
    std::vector<Image> all;
};

/// Returns the image with the shape object of another table, as a receiver has it.
Image mirror(ShapeTable& shapes, const Image& image) {
    return image.shape ? Image{shapes.shape(image.shape->components), image.words} : Image{};
}

bool is_legal(const Schema& schema, const Image& image) {
    for (ImageCursor at(schema, image); !at.at_end(); at.next()) {
        for (std::size_t i = 0; i < at.layout().lanes().size(); ++i)
            if (at.lanes()[i] > at.layout().lanes()[i].max) return false;
        const std::uint32_t* word = at.parts();
        for (const Part& part : at.layout().parts()) {
            const std::uint32_t count = *word++;
            if (count > part.max_count) return false;
            for (std::uint32_t n = 0; n < count; ++n)
                for (const Lane& lane : part.lanes)
                    if (*word++ > lane.max) return false;
        }
        if (at.part_words() != static_cast<std::size_t>(word - at.parts())) return false;
    }
    return true;
}

/// No model, the built-in one, and a trained one with any probabilities.
struct AllModels {
    explicit AllModels(const Schema& schema) : trained(untrained_model(schema)) {
        std::mt19937 random(9);
        for (std::uint8_t& p : trained)
            p = static_cast<std::uint8_t>(random() % 4 == 0 ? random() % 2 * 254 + 1 : 1 + random() % 255);
    }
    ModelView pick(int round) const {
        return round % 3 == 0 ? ModelView() : round % 3 == 1 ? ModelView(kBuiltInModel) : ModelView(trained);
    }
    CodecModel trained;
};

TEST(Codec, AnyImageIsReadBackWithAnyBaselineAndTrend) {
    Images images(1);
    const AllModels models(images.schema);
    ShapeTable shapes(images.schema);
    std::vector<std::uint32_t> words;
    std::size_t most_bits = 3 * kMaxGolombBits;  // three counts; then a gap and the value per component
    for (const SchemaComponent& component : images.schema.components())
        most_bits += kMaxGolombBits + max_component_bits(component.layout);
    for (int round = 0; round < 20'000; ++round) {
        const Image from = images.pick();
        const Image to = images.all[images.random.below(static_cast<std::uint32_t>(images.all.size()))];
        BitWriter out;
        const bool is_same = from.shape == to.shape && std::ranges::equal(from.words, to.words);
        const Trend trend = images.pick_trend(from);
        const ModelView model = models.pick(round);
        ASSERT_EQ(write_image(images.schema, from, to, out, nullptr, trend, model), !is_same);
        if (model.empty()) {
            ASSERT_LE(from.shape ? 0 : out.bit_count(), most_bits);
        }
        if (!trend.older.shape && model.empty()) {
            ASSERT_EQ(measure_image(images.schema, from, to), out.bit_count());
        }
        const auto bytes = bytes_of(out);
        BitReader in(bytes);
        const Trend theirs{mirror(shapes, trend.older), trend.factor};
        const Shape* shape = read_image(shapes, mirror(shapes, from), in, words, theirs, model);
        ASSERT_TRUE(shape && in.at_padding());
        ASSERT_EQ(shape->components, to.shape->components);
        ASSERT_TRUE(std::equal(words.begin(), words.end(), to.words.begin(), to.words.end()));
    }
}

TEST(Codec, AnUnchangedComponentTakesAtMostOneBit) {
    Images images(2);
    for (const Image& image : images.all) {
        BitWriter out;
        EXPECT_FALSE(write_image(images.schema, image, image, out));
        ASSERT_LE(out.bit_count(), 1 + image.shape->components.size());
    }
}

TEST(Codec, BitsDependOnTheImagesOnly) {
    Images images(3);
    for (int round = 0; round < 500; ++round) {
        const Image from = images.pick(),
                    to = images.all[images.random.below(static_cast<std::uint32_t>(images.all.size()))];
        BitWriter a, b;
        b.write(5, 3);
        write_image(images.schema, from, to, a);
        write_image(images.schema, from, to, b);
        ASSERT_EQ(b.bit_count(), a.bit_count() + 3);
        BitWriter c;
        c.append(b, 3, a.bit_count());
        ASSERT_EQ(bytes_of(a), bytes_of(c));
    }
}

TEST(Codec, EveryTruncatedPrefixIsRefused) {
    Images images(4);
    const AllModels models(images.schema);
    ShapeTable shapes(images.schema);
    std::vector<std::uint32_t> words;
    for (int round = 0; round < 400; ++round) {
        const Image from = images.pick(),
                    to = images.all[images.random.below(static_cast<std::uint32_t>(images.all.size()))];
        BitWriter out;
        const Trend trend = images.pick_trend(from);
        const Trend theirs{mirror(shapes, trend.older), trend.factor};
        const ModelView model = models.pick(round);
        write_image(images.schema, from, to, out, nullptr, trend, model);
        const auto whole = bytes_of(out);
        for (std::size_t size = 0; size < whole.size(); ++size) {
            const std::unique_ptr<std::byte[]> exact(new std::byte[size]);
            std::copy_n(whole.data(), size, exact.get());
            BitReader in({exact.get(), size});
            ASSERT_EQ(read_image(shapes, mirror(shapes, from), in, words, theirs, model), nullptr)
                << size << " of " << whole.size();
        }
    }
}

TEST(Codec, AnyBitsGiveAValidImageOrNone) {
    Images images(5);
    const AllModels models(images.schema);
    ShapeTable shapes(images.schema);
    std::vector<std::uint32_t> words, again;
    int legal = 0;
    for (int round = 0; round < 30'000; ++round) {
        const Image from = mirror(shapes, images.pick());
        const Image to = images.all[images.random.below(static_cast<std::uint32_t>(images.all.size()))];
        Trend trend = images.pick_trend(from);
        trend.older = mirror(shapes, trend.older);
        BitWriter out;
        const ModelView model = models.pick(round / 2);
        write_image(images.schema, from, mirror(shapes, to), out, nullptr, trend, model);
        std::vector<std::byte> bytes = bytes_of(out);
        if (round % 2 == 0) {
            for (std::byte& byte : bytes) byte = static_cast<std::byte>(images.random.below(256));
        } else {
            for (std::uint32_t flips = 1 + images.random.below(4); flips > 0; --flips) {
                const std::uint32_t bit = images.random.below(static_cast<std::uint32_t>(bytes.size() * 8));
                bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
            }
        }
        BitReader in(bytes);
        const Shape* shape = read_image(shapes, from, in, words, trend, model);
        if (!shape) continue;
        ++legal;
        const Image image{shape, words};
        ASSERT_TRUE(is_legal(images.schema, image));
        BitWriter canonical;
        write_image(images.schema, from, image, canonical, nullptr, trend, model);
        const auto rewritten = bytes_of(canonical);
        BitReader second(rewritten);
        ASSERT_EQ(read_image(shapes, from, second, again, trend, model), shape);
        ASSERT_EQ(again, words);
    }
    EXPECT_GT(legal, 1'000);
}

TEST(Codec, AnImageThatAddsAComponentTwiceIsRefusedAndMakesNoShape) {
    Schema schema = game_schema();
    ShapeTable shapes(schema);
    std::vector<ComponentIndex> all;
    for (std::size_t i = 0; i < schema.components().size(); ++i)
        all.push_back(static_cast<ComponentIndex>(i));
    const Shape* const shape = shapes.shape(all);
    std::vector<std::uint32_t> lanes(shape->lane_words), words;
    for (const SchemaComponent& component : schema.components())
        lanes.insert(lanes.end(), component.layout.parts().size(), 0);  // empty parts
    const std::size_t before = shapes.size();
    for (const std::uint32_t count : {1u, static_cast<std::uint32_t>(all.size())}) {
        BitWriter out;
        out.write_bool(true);    // other components
        out.write_golomb(0, 0);  // none removed
        out.write_golomb(count, 0);
        for (std::uint32_t i = 0; i < count; ++i) out.write_golomb(0, 0);  // each after the one before
        for (int i = 0; i < 100; ++i) out.write(0, 64);
        const std::vector<std::byte> bytes = bytes_of(out);
        BitReader in(bytes);
        EXPECT_EQ(read_image(shapes, {shape, lanes}, in, words), nullptr) << count;
        EXPECT_EQ(shapes.size(), before);
    }
}

template <int I>
struct Extra {
    int n = 0;
};

template <int... Is>
Schema schema_of_extras(std::integer_sequence<int, Is...>) {
    Schema schema;
    schema.component<sim::Position>("position");
    (schema.component<Extra<Is>>("extra" + std::to_string(Is)), ...);
    (schema.optional<Extra<Is>>(), ...);
    return schema;
}

// In the reader's schema, the components have numbers that the writer's schema does not have.
TEST(Codec, AReaderMayHaveMoreComponentsThanTheWriter) {
    Pair pair(schema_of_extras(std::make_integer_sequence<int, 3>()),
              schema_of_extras(std::make_integer_sequence<int, 40>()));
    const ecs::Entity entity = pair.spawn(at(1), Extra<0>{1}, Extra<1>{2}, Extra<2>{3});
    const auto expect = [&](int zero, int one, int two) {
        pair.deliver(pair.tick_and_encode());
        pair.receiver.apply();
        const ecs::Entity replica = pair.replica(entity);
        ASSERT_TRUE(replica);
        const auto value = [&](auto* extra) { return extra ? extra->n : -1; };
        EXPECT_EQ(value(pair.mirror.try_get<Extra<0>>(replica)), zero);
        EXPECT_EQ(value(pair.mirror.try_get<Extra<1>>(replica)), one);
        EXPECT_EQ(value(pair.mirror.try_get<Extra<2>>(replica)), two);
    };
    expect(1, 2, 3);
    pair.world.remove<Extra<1>>(entity);
    expect(1, -1, 3);
    pair.world.remove<Extra<0>>(entity);
    pair.world.set(entity, Extra<1>{5});
    pair.world.set(entity, Extra<2>{6});
    expect(-1, 5, 6);
    pair.world.set(entity, Extra<0>{7});
    expect(7, 5, 6);
    EXPECT_EQ(pair.receiver.stats().malformed_packets, 0u);
}

struct Letter {
    std::int32_t stamp = 0;
    std::string text;
    float weight = 0;
    std::vector<std::uint8_t> seals;
};

// Goal: a value of lanes and parts is read back, with a baseline and without one.
TEST(Codec, AnyValueIsReadBackWithAnyBaseline) {
    Schema schema;
    schema.component<Letter>("letter");
    const ComponentLayout& layout = schema.components()[0].layout;
    ASSERT_EQ(layout.lanes().size(), 2u);
    const std::vector<std::vector<std::uint32_t>> values = {
        {0, 0, 0, 0},
        {7, 0, 0, 0},
        {0, 0x3f800000, 0, 0},
        {0, 0, 2, 'h', 'i', 0},
        {0, 0, 0, 1, 200},
        {7, 0x3f800000, 3, 'h', 'i', '!', 2, 200, 1},
        {8, 0x3f800000, 1, 'x', 3, 200, 1, 9},
    };
    for (const std::vector<std::uint32_t>& to : values) {
        std::vector<std::vector<std::uint32_t>> baselines = values;
        baselines.push_back({});
        for (const std::vector<std::uint32_t>& base : baselines) {
            // An empty baseline is none, wherever it is in memory.
            const std::span<const std::uint32_t> from =
                base.empty() ? std::span(to).first(0) : std::span(base);
            BitWriter out;
            write_value(layout, from, to, out);
            const std::vector<std::byte> bytes = bytes_of(out);
            BitReader in(bytes);
            std::vector<std::uint32_t> words{1, 2, 3};
            ASSERT_TRUE(read_value(layout, from, in, words));
            EXPECT_TRUE(in.at_padding());
            EXPECT_EQ(words, to);
            const bool is_same = to == (base.empty() ? values[0] : base);
            EXPECT_EQ(out.bit_count() == 1, is_same) << "an unchanged value takes one bit";
            for (std::size_t size = 0; size < bytes.size(); ++size) {
                BitReader cut({bytes.data(), size});
                EXPECT_FALSE(read_value(layout, from, cut, words));
                EXPECT_FALSE(cut.ok());
            }
        }
    }
}

struct Lamps {
    std::int32_t a = 0, b = 0, c = 0;
    double d = 0;
};

// WIRE.md, "Group": only a symbol of two values is coded as a change.
TEST(Codec, NumbersOfTwoValuesAreAGroup) {
    Schema schema;
    schema.component<Lamps>("lamps", field(&Lamps::a, bounded(0, 1)), field(&Lamps::b, bounded(0, 1)),
                            field(&Lamps::c, bounded(7, 8)), field(&Lamps::d, quantised(0, 1, 1)));
    ASSERT_EQ(schema.error(), "");
    const ComponentLayout& layout = schema.components()[0].layout;
    ASSERT_EQ(layout.groups().size(), 1u);
    for (std::uint32_t from = 0; from <= 16; ++from)
        for (std::uint32_t to = 0; to < 16; ++to) {
            const auto lanes = [](std::uint32_t bits) {
                return std::vector<std::uint32_t>{bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3};
            };
            const std::vector<std::uint32_t> now = lanes(to),
                                             before = from == 16 ? std::vector<std::uint32_t>{} : lanes(from);
            BitWriter out;
            write_value(layout, before, now, out);
            const std::vector<std::byte> bytes = bytes_of(out);
            BitReader in(bytes);
            std::vector<std::uint32_t> words;
            ASSERT_TRUE(read_value(layout, before, in, words));
            EXPECT_TRUE(in.at_padding());
            EXPECT_EQ(words, now) << from << " to " << to;
            const bool is_same = to == from % 16;
            if (from == 16) {
                EXPECT_EQ(out.bit_count(), is_same ? 1u : 5u);
            }
        }
}

struct Nothing {};

TEST(Codec, AValueWithoutFieldsTakesNoBits) {
    Schema schema;
    schema.tag<Nothing>("nothing");
    const ComponentLayout& layout = schema.components()[0].layout;
    BitWriter out;
    write_value(layout, {}, {}, out);
    EXPECT_EQ(out.bit_count(), 0u);
    BitReader in({});
    std::vector<std::uint32_t> words{1};
    EXPECT_TRUE(read_value(layout, {}, in, words));
    EXPECT_TRUE(words.empty());
    EXPECT_TRUE(in.at_padding());
}

enum class Mode : std::uint8_t {};
struct Switches {
    Mode mode{};
    bool is_on = false;
    std::int32_t level = 0;
    std::uint32_t number = 0;
    float x = 0;
    ecs::Entity target;
    double d = 0;
};

// All lanes have the values with the longest codes.
TEST(Codec, TheGreatestSizeOfAComponentIsThatOfItsLongestValues) {
    Schema schema;
    schema.component<Switches>("switches", field(&Switches::level, bounded(0, 1'000)));
    ASSERT_EQ(schema.error(), "");
    const ComponentLayout& layout = schema.components()[0].layout;
    std::vector<std::uint32_t> words;
    for (const Lane& lane : layout.lanes())
        words.push_back(lane.kind == LaneKind::quantity && !lane.bounded ? 0x80000000u : lane.max);
    BitWriter out;
    write_value(layout, {}, words, out);
    // The switch is a symbol of two values: it takes no bits, but counts one.
    EXPECT_EQ(out.bit_count() + 1, max_component_bits(layout));
}

struct Weight {
    float x = 0;
};

std::size_t bits_of_change(float from, float to) {
    Schema schema;
    schema.component<Weight>("weight");
    const std::uint32_t before = std::bit_cast<std::uint32_t>(from), now = std::bit_cast<std::uint32_t>(to);
    BitWriter out;
    write_value(schema.components()[0].layout, {&before, 1}, {&now, 1}, out);
    const std::vector<std::byte> bytes = bytes_of(out);
    BitReader in(bytes);
    std::vector<std::uint32_t> words;
    EXPECT_TRUE(read_value(schema.components()[0].layout, {&before, 1}, in, words));
    EXPECT_EQ(words, std::vector{now}) << from << " to " << to;
    return out.bit_count();
}

// WIRE.md, "Group": which of the two forms a writer takes.
TEST(Codec, AFloatThatBecomesAnotherWholeNumberTakesTheFirstForm) {
    const auto whole_form = [](std::uint32_t step) { return 2 + golomb_bits(zigzag(step), 0); };
    EXPECT_EQ(bits_of_change(100, 101), whole_form(1));
    EXPECT_EQ(bits_of_change(100, 99), whole_form(0u - 1));
    EXPECT_EQ(bits_of_change(0, 1'000), whole_form(1'000));
    EXPECT_EQ(bits_of_change(100.25f, 101), whole_form(1)) << "from no whole number";
    EXPECT_EQ(bits_of_change(0x1p24f, 5), whole_form(5)) << "too large to be whole";
    const auto ordered_form = [](float from, float to) {
        const auto order = [](float x) {
            const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
            return bits >> 31 != 0 ? bits ^ 0x7fffffffu : bits;
        };
        return 2 + golomb_bits(zigzag(order(to) - order(from)), 16);
    };
    for (const auto& [from, to] : {std::pair{100.0f, 100.25f},
                                   {100.25f, 100.0f},
                                   {100.25f, 101.5f},
                                   {0.0f, -0.0f},
                                   {1.0f, -0.0f},
                                   {5.0f, 0x1p24f},
                                   {-1.5f, 1.5f}})
        EXPECT_EQ(bits_of_change(from, to), ordered_form(from, to)) << from << " to " << to;
}

std::vector<std::byte> bytes_of_hex(const char* text) {
    std::vector<std::byte> bytes;
    std::istringstream in(text);
    for (unsigned byte = 0; in >> std::hex >> byte;) bytes.push_back(static_cast<std::byte>(byte));
    return bytes;
}

TEST(Codec, TheExampleOfWireMdHasTheseBytes) {
    struct Place {
        float x = 0, y = 0;
    };
    struct Label {
        std::string text;
    };
    struct Beast {};
    Schema schema;
    schema.tag<Beast>("wolf");
    schema.component<Place>("position", quantised(0, 100, 0.5));
    schema.component<Label>("name");
    ecs::World world;
    Shadow shadow(world, schema, 10);
    const ecs::Entity wolf = world.spawn(Replicated{}, Beast{}, Place{1.5f, 50}, Label{"Bo"});
    shadow.update(1000);
    world.set(wolf, Place{2.5f, 50});
    world.set(wolf, Label{"Bob"});
    shadow.update(1001);
    const Image before = shadow[0].versions.at(1000)->image, now = shadow[0].versions.at(1001)->image;

    StateHeader header;
    header.tick = 1000;
    header.complete = StateHeader::Complete{};
    header.record_count = 1;
    BitWriter first;
    write_state_header(header, &first);
    RecordHeaderCoder(header).write({0, RecordKind::full, 0, 1}, &first);
    write_image(schema, Image{}, before, first);
    EXPECT_EQ(bytes_of(first), bytes_of_hex("d0 07 00 00 82 80 01 00 00 00 8c 24 f4 76 80 0c"));

    header.tick = 1001;
    header.anchor = {1, 1};
    header.record_count = 2;
    RecordHeader left;
    left.slot = 2;
    left.kind = RecordKind::despawn;
    left.reason = Despawn::left;
    BitWriter second;
    write_state_header(header, &second);
    RecordHeaderCoder records(header);
    records.write({0, RecordKind::delta, 1000, 0}, &second);
    write_image(schema, before, now, second);
    records.write(left, &second);
    EXPECT_EQ(bytes_of(second), bytes_of_hex("61 08 84 22 44 2c 82 08"));
}

}  // namespace
}  // namespace shoal::replication::impl::codec_test
