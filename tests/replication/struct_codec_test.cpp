#include "replication/play/struct_codec.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "replication/codec/codec.h"

namespace shoal::replication::struct_codec_test {
namespace {

struct Talk {
    std::string text;
    ecs::Entity about;
    float loudness = 0;
    std::vector<std::uint16_t> to;
};
struct Nod {};

/// Entity n has the net id n + 1000.
struct ShiftedIds final : EntityMap {
    std::uint32_t to_net(ecs::Entity entity) override { return entity ? entity.index + 1000 : 0; }
    ecs::Entity to_entity(std::uint32_t net_id) override {
        return net_id == 0 ? ecs::Entity{} : ecs::Entity{net_id - 1000, 1};
    }
};

Schema talk_schema() {
    Schema schema;
    schema.message<Talk>("talk", field(&Talk::loudness, quantised(0, 1, 0.25)),
                         field(&Talk::text, max_length(20)));
    schema.message<Nod>("nod");
    return schema;
}

Talk random_talk(std::mt19937& random) {
    Talk talk;
    talk.text.assign(random() % 21, static_cast<char>('a' + random() % 26));
    if (random() % 2 != 0) talk.about = {static_cast<std::uint32_t>(random() % 100), 1};
    talk.loudness = static_cast<float>(random() % 5) * 0.25f;
    talk.to.resize(random() % 5);
    for (std::uint16_t& id : talk.to) id = static_cast<std::uint16_t>(random());
    return talk;
}

void expect_equal(const Talk& a, const Talk& b) {
    EXPECT_EQ(a.text, b.text);
    EXPECT_EQ(a.about, b.about);
    EXPECT_EQ(a.loudness, b.loudness);
    EXPECT_EQ(a.to, b.to);
}

// Goal: any struct arrives as it was quantised, with and without a baseline.
TEST(StructCodec, ValuesArriveWithAndWithoutABaseline) {
    const Schema schema = talk_schema();
    const SchemaStruct& type =
        schema.structs(StructKind::message)[schema.find_struct<Talk>(StructKind::message)];
    ShiftedIds ids;
    StructCodec codec(ids);
    std::mt19937 random(1);
    std::vector<std::uint32_t> before, now, read;
    for (int round = 0; round < 500; ++round) {
        SCOPED_TRACE(testing::Message() << "round " << round);
        const Talk talk = random_talk(random);
        codec.quantise(type, &talk, now);
        BitWriter bits;
        write_value(type.layout, before, now, bits);
        std::vector<std::byte> bytes(bits.byte_count());
        bits.copy_to(bytes);
        BitReader in(bytes);
        ASSERT_TRUE(read_value(type.layout, before, in, read));
        EXPECT_TRUE(in.at_padding());
        EXPECT_EQ(read, now);
        Talk back = random_talk(random);
        codec.restore(type, read, &back);
        expect_equal(talk, back);
        if (round % 3 == 0) before = now;
    }
    EXPECT_EQ(codec.misfits(), ComponentLayout::Misfits{});
}

TEST(StructCodec, TruncatedBytesAreRefused) {
    const Schema schema = talk_schema();
    const SchemaStruct& type =
        schema.structs(StructKind::message)[schema.find_struct<Talk>(StructKind::message)];
    ShiftedIds ids;
    StructCodec codec(ids);
    const Talk talk{"hello", {5, 1}, 0.5f, {1, 2, 3}};
    std::vector<std::uint32_t> words, read;
    codec.quantise(type, &talk, words);
    BitWriter bits;
    write_value(type.layout, {}, words, bits);
    std::vector<std::byte> bytes(bits.byte_count());
    bits.copy_to(bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const std::vector<std::byte> prefix(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        BitReader in(prefix);
        EXPECT_FALSE(read_value(type.layout, {}, in, read)) << "size " << size;
    }
}

TEST(StructCodec, AStructWithoutFieldsTakesNoBits) {
    const Schema schema = talk_schema();
    const SchemaStruct& type =
        schema.structs(StructKind::message)[schema.find_struct<Nod>(StructKind::message)];
    BitWriter bits;
    write_value(type.layout, {}, {}, bits);
    EXPECT_EQ(bits.bit_count(), 0u);
    BitReader in({});
    std::vector<std::uint32_t> words;
    EXPECT_TRUE(read_value(type.layout, {}, in, words));
    EXPECT_TRUE(words.empty());
}

TEST(SchemaStructs, CountInTheHash) {
    Schema without, with, other;
    with.message<Talk>("talk");
    other.message<Talk>("talk", field(&Talk::text, max_length(9)));
    EXPECT_NE(with.hash(), without.hash());
    EXPECT_NE(with.hash(), other.hash());
}

TEST(SchemaStructs, MistakesNameTheKindAndTheName) {
    Schema twice;
    twice.message<Talk>("talk");
    twice.message<Talk>("say");
    EXPECT_EQ(twice.error(), "message 'say' is of a type that is declared already, as 'talk'");
    Schema one_name;
    one_name.message<Talk>("talk");
    one_name.message<Nod>("talk");
    EXPECT_EQ(one_name.error(), "message 'talk' has the name of another, or one with the same hash: 'talk'");
}

struct Speed {
    float x = 0;
};

TEST(ComponentOptions, ComeInAnyOrder) {
    Schema a, b;
    a.component<Speed>("speed", quantised(0, 1, 0.5), to_owner(), linear(3), predicted());
    b.component<Speed>("speed", predicted(), linear(3), to_owner(), quantised(0, 1, 0.5));
    EXPECT_TRUE(a.error().empty()) << a.error();
    EXPECT_EQ(a.hash(), b.hash());
    for (const Schema* schema : {&a, &b}) {
        EXPECT_EQ(schema->components()[0].viewers, to_owner());
        EXPECT_EQ(schema->components()[0].display, linear(3));
        EXPECT_EQ(schema->components()[0].role, Role::predicted);
    }
    Schema two_roles;
    two_roles.component<Speed>("speed", predicted(), from_owner());
    EXPECT_EQ(two_roles.error(),
              "component 'speed' has two roles: it can be predicted() or from_owner(), not both");
}

struct Sack {
    std::vector<std::int32_t> items;
};

TEST(ComponentOptions, ALengthAndACodecForNumbersCombine) {
    Schema one, two, of_field, of_element;
    one.component<Sack>("sack", bounded(0, 500).up_to(40));
    two.component<Sack>("sack", max_length(40), bounded(0, 500), to_owner());
    of_field.component<Sack>("sack", field(&Sack::items, bounded(0, 500), max_length(40)));
    of_element.component<Sack>("sack", element(&Sack::items, max_length(40), bounded(0, 500)));
    for (const Schema* schema : {&two, &of_field, &of_element}) {
        EXPECT_EQ(schema->error(), "");
        EXPECT_EQ(schema->hash(), one.hash());
    }
}

TEST(ComponentOptions, TwoCodecsForTheSameFieldsAreAnError) {
    const std::string why = "component 'sack' has two codecs for the same fields";
    Schema numbers, lengths, of_field, of_element, message;
    numbers.component<Sack>("sack", bounded(0, 500), bounded(0, 5));
    lengths.component<Sack>("sack", max_length(40), max_length(50));
    of_field.component<Sack>("sack", field(&Sack::items, max_length(40), bounded(0, 5).up_to(5)));
    of_element.component<Sack>("sack", element(&Sack::items, bounded(0, 5), quantised(0, 5, 1)));
    for (const Schema* schema : {&numbers, &lengths, &of_field, &of_element}) EXPECT_EQ(schema->error(), why);
    message.message<Sack>("sack", bounded(0, 500), bounded(0, 5));
    EXPECT_EQ(message.error(), "message 'sack' has two codecs for the same fields");
}

TEST(ComponentOptions, ShownByIsTheOnlyDisplayAndNotEmpty) {
    const auto mix = [](const Speed& a, const Speed&, float) { return a; };
    Schema good, two, reversed, empty;
    good.component<Speed>("speed", shown_by(mix));
    EXPECT_EQ(good.error(), "");
    EXPECT_NE(good.find<Teleports>(), kMaxComponents);
    two.component<Speed>("speed", shown_by(mix), linear());
    EXPECT_EQ(two.error(), "component 'speed' is shown in two ways, of which shown_by() is one");
    reversed.component<Speed>("speed", linear(), shown_by(mix));
    EXPECT_EQ(reversed.error(), two.error());
    empty.component<Speed>("speed", shown_by(std::function<Speed(const Speed&, const Speed&, float)>()));
    EXPECT_EQ(empty.error(), "component 'speed' is shown_by() an empty function");
}

}  // namespace
}  // namespace shoal::replication::struct_codec_test
