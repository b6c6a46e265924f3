#include "replication/play/struct_codec.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "replication/codec/codec.h"

namespace shoal::replication::impl::struct_codec_test {
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

TEST(StructValue, OwnsOneValueOfItsType) {
    struct Counted {
        Counted() { ++count(); }
        ~Counted() { --count(); }
        static int& count() {
            static int alive = 0;
            return alive;
        }
        alignas(64) int number = 5;
    };
    SchemaType type;
    type.size = sizeof(Counted);
    type.align = alignof(Counted);
    type.construct = [](void* at) { new (at) Counted; };
    type.destroy = [](void* at) { static_cast<Counted*>(at)->~Counted(); };
    {
        StructValue value(type);
        EXPECT_EQ(Counted::count(), 1);
        EXPECT_EQ(static_cast<Counted*>(value.get())->number, 5);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(value.get()) % 64, 0u);
    }
    EXPECT_EQ(Counted::count(), 0);
}

}  // namespace
}  // namespace shoal::replication::impl::struct_codec_test
