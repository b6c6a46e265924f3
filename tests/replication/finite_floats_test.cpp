// Floats and doubles that are NaN or infinite: what readers refuse, and what senders make of them.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "replication/action/action.h"
#include "replication/action/action_wire.h"
#include "replication/codec/codec.h"
#include "replication/message/typed_messages.h"
#include "replication/play/struct_codec.h"
#include "replication/predict/input_log.h"
#include "replication/schema/schema.h"
#include "tests/replication/support/bits.h"

namespace shoal::replication::impl::finite_floats_test {
namespace {

class NoReferences final : public EntityMap {
public:
    std::uint32_t to_net(ecs::Entity) override { return 0; }
    ecs::Entity to_entity(std::uint32_t) override { return {}; }
};

template <class T>
struct Inner {
    std::uint8_t number = 7;
    T value{};
};

/// A T in every place that a schema knows.
template <class T>
struct Everywhere {
    T field = 1;
    T array[2] = {2, 3};
    Inner<T> inner{7, 4};
    std::vector<T> list{5, 6};
    std::optional<T> maybe = 7;
    std::map<std::uint8_t, T> map{{1, 8}, {2, 9}};
    std::vector<std::vector<T>> nested{{10}, {}, {11, 12}};
    std::vector<Inner<T>> structs{{7, 13}, {7, 14}};

    std::vector<T*> places() {
        return {&field,     &array[0],  &array[1],     &inner.value,  &list[1],          &*maybe,
                &map.at(1), &map.at(2), &nested[0][0], &nested[2][1], &structs[0].value, &structs[1].value};
    }
};

template <class T>
Schema schema_of(const FieldCodec& codec) {
    using E = Everywhere<T>;
    const auto of_inner = field(&Inner<T>::value, codec);
    const auto of_map = field(&std::pair<const std::uint8_t, T>::second, codec);
    const auto declare = [&](auto&& one) {
        one(field(&E::field, codec), field(&E::array, codec), field(&E::inner, of_inner),
            field(&E::list, codec), field(&E::maybe, codec), element(&E::map, of_map),
            element(&E::nested, inner<std::vector<T>>(codec)), element(&E::structs, of_inner));
    };
    Schema schema;
    declare([&](const auto&... options) { schema.component<E>("all", options...); });
    declare([&](const auto&... options) { schema.message<E>("all", options...); });
    declare([&](const auto&... options) { schema.action<E>("all", options...); });
    EXPECT_EQ(schema.error(), "");
    return schema;
}

template <class T>
std::vector<T> not_finite() {
    using Limits = std::numeric_limits<T>;
    return {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()};
}

template <class T>
class FiniteFloats : public testing::Test {
protected:
    /// Calls fn(value, place, bad) for each place and each number that is not finite, which is there.
    template <class Fn>
    void for_each(Fn&& fn) {
        for (std::size_t place = 0; place < Everywhere<T>{}.places().size(); ++place)
            for (const T bad : not_finite<T>()) {
                SCOPED_TRACE(testing::Message() << "place " << place << ", " << bad);
                Everywhere<T> value;
                *value.places()[place] = bad;
                fn(value, place, bad);
            }
    }
    std::vector<std::uint32_t> words_of(const SchemaType& type, const Everywhere<T>& value) {
        std::vector<std::uint32_t> words;
        codec.quantise(type, &value, words);
        return words;
    }

    Schema exact_schema = schema_of<T>({}), any_schema = schema_of<T>(any_float());
    NoReferences nobody;
    StructCodec codec{nobody};
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(FiniteFloats, Types);

TYPED_TEST(FiniteFloats, OthersAreMalformedInAnyPlaceOfAValueUnlessTheCodecAllowsThem) {
    const SchemaType &exact = this->exact_schema.components()[0], &any = this->any_schema.components()[0];
    const std::vector<std::uint32_t> usual = this->words_of(any, {});
    this->for_each([&](const Everywhere<TypeParam>& value, std::size_t place, TypeParam bad) {
        const std::vector<std::uint32_t> words = this->words_of(any, value);
        for (const std::vector<std::uint32_t>& base : {std::vector<std::uint32_t>{}, usual}) {
            BitWriter bits;
            write_value(any.layout, base, words, bits);
            const std::vector<std::byte> bytes = bytes_of(bits);
            std::vector<std::uint32_t> read;
            BitReader refused(bytes), accepted(bytes);
            EXPECT_FALSE(read_value(exact.layout, base, refused, read));
            EXPECT_FALSE(refused.ok());
            ASSERT_TRUE(read_value(any.layout, base, accepted, read));
            EXPECT_EQ(read, words);
        }
        Everywhere<TypeParam> restored;
        this->codec.restore(any, words, &restored);
        EXPECT_EQ(std::memcmp(restored.places()[place], &bad, sizeof bad), 0);
    });
    EXPECT_EQ(this->codec.misfits(), ComponentLayout::Misfits{});
    EXPECT_NE(this->exact_schema.hash(), this->any_schema.hash());
}

TYPED_TEST(FiniteFloats, OthersAreMalformedInStateMessagesAndActions) {
    ShapeTable exact_shapes(this->exact_schema), any_shapes(this->any_schema);
    const std::vector<ComponentIndex> all{0};
    TypedMessages messages(this->exact_schema, this->nobody), other_messages(this->any_schema, this->nobody);
    std::uint64_t malformed = 0;
    this->for_each([&](const Everywhere<TypeParam>& value, std::size_t, TypeParam) {
        const std::vector<std::uint32_t> words = this->words_of(this->any_schema.components()[0], value);
        BitWriter state, actions;
        write_image(this->any_schema, {}, {any_shapes.shape(all), words}, state);
        std::vector<std::byte> bytes = bytes_of(state);
        std::vector<std::uint32_t> read;
        BitReader in(bytes);
        EXPECT_EQ(read_image(exact_shapes, {}, in, read), nullptr);

        bytes.clear();
        other_messages.write(value, bytes);
        TypedMessages::Message message;
        EXPECT_FALSE(messages.read(bytes, message));
        EXPECT_EQ(messages.stats().malformed, ++malformed);

        ActionRecord record;
        record.words = words;
        write_actions(this->any_schema, {.records = {&record, 1}}, actions);
        bytes = bytes_of(actions);
        std::vector<ActionRecord> records;
        ActionRun run;
        BitReader of_actions(bytes);
        EXPECT_FALSE(read_actions(this->exact_schema, 0, of_actions, records, run));
    });
}

TYPED_TEST(FiniteFloats, OthersAreReplacedByTheSenderAndCounted) {
    using Limits = std::numeric_limits<TypeParam>;
    const SchemaType& exact = this->exact_schema.components()[0];
    std::uint64_t clamped = 0;
    this->for_each([&](Everywhere<TypeParam> value, std::size_t place, TypeParam bad) {
        const std::vector<std::uint32_t> words = this->words_of(exact, value);
        EXPECT_EQ(this->codec.misfits(), (ComponentLayout::Misfits{0, ++clamped}));
        *value.places()[place] = std::isnan(bad) ? 0 : bad > 0 ? Limits::max() : Limits::lowest();
        EXPECT_EQ(words, this->words_of(exact, value));
        Everywhere<TypeParam> restored;
        this->codec.restore(exact, words, &restored);
        EXPECT_EQ(*restored.places()[place], *value.places()[place]);
    });
}

struct Stick {
    float x = 0;
    double y = 0;
};

TEST(FiniteInputs, OthersAreMalformedUnlessTheCodecAllowsThem) {
    const auto declare = [](const FieldCodec& codec) {
        Schema schema;
        schema.input<Stick>("stick", codec);
        return schema;
    };
    const Schema exact = declare({}), any = declare(any_float());
    const SchemaStruct& type = any.structs(StructKind::input)[0];
    NoReferences nobody;
    StructCodec codec(nobody);
    std::vector<std::uint32_t> neutral, words;
    const Stick still;
    codec.quantise(type, &still, neutral);
    for (const double bad : not_finite<double>())
        for (const Stick& stick : {Stick{static_cast<float>(bad), 1}, Stick{1, bad}}) {
            InputLog log(type, neutral);
            codec.quantise(type, &stick, words);
            log.set_input(words);
            log.record(1);
            BitWriter bits;
            ASSERT_TRUE(log.write_section(1, 1'000, bits));
            const std::vector<std::byte> bytes = bytes_of(bits);
            BitReader refused(bytes), accepted(bytes);
            InputSection section;
            EXPECT_FALSE(section.read(exact.structs(StructKind::input)[0], neutral, refused));
            EXPECT_TRUE(section.read(type, neutral, accepted));
        }
}

}  // namespace
}  // namespace shoal::replication::impl::finite_floats_test
