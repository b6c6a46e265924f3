// Messages, actions and inputs in a schema.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "replication/action/action.h"
#include "replication/schema/schema.h"
#include "tests/replication/support/naive_schema.h"

namespace shoal::replication::impl::schema_structs_test {
namespace {

struct Talk {
    std::string text;
    ecs::Entity about;
    float loudness = 0;
    std::vector<std::uint16_t> to;
};
struct Nod {};
struct Beep {
    std::uint8_t pitch = 0;
};
struct Spot {
    int x = 0;
};

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
    Schema codec;
    codec.message<Talk>("talk", field(&Talk::loudness, bounded(0, 1)));
    EXPECT_EQ(codec.error().find("message 'talk' has a codec that does not fit type float: bounded() is"), 0u)
        << codec.error();
    Schema direction;
    direction.message<Talk>("talk", field(&Talk::loudness, unit_vector(8)));
    EXPECT_EQ(direction.error(),
              "message 'talk' has a codec that does not fit: unit_vector() is for three "
              "neighbouring floats or doubles");
}

struct Steer {
    std::int32_t way = 0;
    Press dash;
};
struct Jump {
    std::uint8_t height = 0;
    void mutate(Act&) const {}
};
struct Wave {
    void mutate(Act&) const {}
};
struct Admires {
    static constexpr auto relation = ecs::many;
};
struct Dial {
    float half = 0, fixed = 0;
    double turn = 0;
    float up[3] = {}, spin[4] = {};
    std::string label;
    std::vector<std::int16_t> ticks;
    std::uint64_t serial = 0;
};

// The expected bytes are computed from the page of the wire format alone.
TEST(SchemaStructs, HashAndSummaryHaveAllKindsInTheOrderOfTheirIds) {
    namespace naive = naive_replication;
    Schema schema;
    schema.component<Spot>("spot", bounded(0, 9));
    schema.tag<Nod>("nod");
    schema.optional<Nod>();
    schema.pair<Admires>("admires");
    schema.component<Dial>("dial", field(&Dial::half, half_float()), field(&Dial::fixed, fixed_point(8)),
                           field(&Dial::turn, angle(12)), field(&Dial::up, unit_vector(10)),
                           field(&Dial::spin, smallest_three(9)), field(&Dial::label, max_length(20)),
                           field(&Dial::ticks, max_length(7)));
    schema.message<Beep>("beep");
    schema.message<Nod>("nod", with_state());
    schema.input<Steer>("steer");
    schema.action<Jump>("beep", bounded(0, 5));
    schema.action<Wave>("wave", with_state());
    ASSERT_EQ(schema.error(), "");

    using Components = std::vector<naive::Component>;
    const Components components{
        {"spot", false, {naive::range(naive::Type::i32, 0, 9)}, {}},
        {"nod", true, {}, {}, false, true},
        {"admires", false, {}, {{16, {naive::plain(naive::Type::entity)}}}, true},
        {"dial",
         false,
         {naive::coded(naive::Type::f32, naive::Coding::half_float, 0),
          naive::coded(naive::Type::f32, naive::Coding::fixed_point, 8),
          naive::coded(naive::Type::f64, naive::Coding::angle, 12),
          naive::coded(naive::Type::f32, naive::Coding::unit_vector, 10),
          naive::coded(naive::Type::f32, naive::Coding::smallest_three, 9), naive::plain(naive::Type::u64)},
         {naive::text(20), {7, {naive::plain(naive::Type::i16)}}}},
        {"mine", true, {}, {}},
        {"steer", true, {}, {}}};
    const Components messages{{"beep", false, {naive::plain(naive::Type::u8)}, {}}, {"nod", false, {}, {}}};
    const Components inputs{
        {"steer", false, {naive::plain(naive::Type::i32), naive::range(naive::Type::u8, 0, 3)}, {}}};
    const Components actions{{"beep", false, {naive::range(naive::Type::u8, 0, 5)}, {}},
                             {"wave", false, {}, {}}};
    naive::Hash hash;
    std::vector<std::byte> summary{std::byte{1}};
    naive::put_number(summary, naive::id_of("nod"));
    naive::put_number(summary, naive::signature_of(components[1]));
    for (const auto& [id, component] : naive::describe(components)) {
        if (component.is_optional) continue;
        for (const std::uint32_t number : {id, naive::signature_of(component)}) {
            hash.add(number);
            naive::put_number(summary, number);
        }
    }
    const auto add_structs = [&](const Components& structs, const std::string& kind, std::uint64_t number) {
        for (const auto& [id, one] : naive::describe(structs)) {
            hash.add(id);
            const bool has_state = one.name == "nod" || one.name == "wave";
            const std::uint32_t signature = naive::signature_of(one, number + (has_state ? 16 : 0));
            hash.add(signature);
            naive::put_number(summary, naive::id_of(kind + " " + one.name));
            naive::put_number(summary, signature);
        }
    };
    add_structs(messages, "message", 3);
    add_structs(inputs, "input", 4);
    add_structs(actions, "action", 5);
    EXPECT_EQ(schema.hash(), hash.value());
    EXPECT_EQ(schema.summary(), summary);
}

TEST(SchemaStructs, ActionsHaveTheirOptions) {
    Schema schema;
    schema.action<Wave>("wave");
    schema.action<Jump>("jump", at_most(5), independent(), bounded(0, 9));
    ASSERT_EQ(schema.error(), "");
    const auto& actions = schema.structs(StructKind::action);
    const SchemaStruct& wave = actions[schema.find_struct<Wave>(StructKind::action)];
    const SchemaStruct& jump = actions[schema.find_struct<Jump>(StructKind::action)];
    EXPECT_EQ(wave.per_second, 60);
    EXPECT_FALSE(wave.is_independent);
    EXPECT_EQ(jump.per_second, 5);
    EXPECT_TRUE(jump.is_independent);
    EXPECT_EQ(jump.layout.lanes()[0].max, 9u);
    EXPECT_TRUE(jump.ops.mutate);
    EXPECT_FALSE(jump.ops.validate);
}

template <std::size_t... I>
void declare_messages(Schema& schema, std::index_sequence<I...>) {
    (schema.message<std::integral_constant<std::size_t, I>>("message " + std::to_string(I)), ...);
}

TEST(SchemaStructs, OfOneKindAreAtMost256) {
    Schema schema;
    declare_messages(schema, std::make_index_sequence<256>());
    schema.action<Jump>("jump");
    EXPECT_EQ(schema.error(), "");
    schema.message<Beep>("beep");
    EXPECT_EQ(schema.error(), "message 'beep' is one too many for a schema");
}

TEST(SchemaStructs, ADifferenceIsNamed) {
    Schema server, same, other, fewer;
    for (Schema* schema : {&server, &same, &other, &fewer}) schema->component<Spot>("beep");
    for (Schema* schema : {&server, &same}) schema->message<Beep>("beep");
    other.message<Beep>("beep", bounded(0, 10));
    EXPECT_EQ(server.difference(same.summary()), "");
    EXPECT_EQ(server.difference(other.summary()), "message 'beep' differs");
    EXPECT_EQ(server.difference(fewer.summary()), "message 'beep' is unknown to the client");
    const std::string unknown = fewer.difference(server.summary());
    EXPECT_EQ(unknown.find("beep"), unknown.npos);
    EXPECT_EQ(server.explain(unknown), "message 'beep' is unknown to the server");
}

}  // namespace
}  // namespace shoal::replication::impl::schema_structs_test
