#include "replication/schema/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "replication/codec/codec.h"
#include "replication/schema/binding.h"
#include "tests/replication/support/schema_errors.h"

namespace shoal::replication::impl::schema_test {

struct Local {
    int of_this_side = 0;  // does not replicate
};

}  // namespace shoal::replication::impl::schema_test

template <>
struct shoal::replication::Replicate<shoal::replication::impl::schema_test::Local> {
    static auto fields(auto&) { return std::tuple<>(); }
};

namespace shoal::replication::impl::schema_test {
namespace {

using schema_errors::error_of;
using schema_errors::expect_words;

struct Position {
    float x = 0, y = 0;
};
struct Health {
    int points = 0;
};
struct Name {
    std::string text;
};
struct Wolf {};
struct Follows {
    static constexpr auto relation = ecs::exclusive;
    int distance = 0;
};
struct Likes {
    static constexpr auto relation = ecs::many;
};
struct Mixed {
    float f = 0;
    int i = 0;
};

template <std::size_t... I>
void declare_tags(Schema& schema, std::index_sequence<I...>) {
    (schema.tag<std::integral_constant<std::size_t, I>>("tag " + std::to_string(I)), ...);
}

template <std::size_t... I>
void make_optional(Schema& schema, std::index_sequence<I...>) {
    (schema.optional<std::integral_constant<std::size_t, I>>(), ...);
}

TEST(Schema, OrderOfDeclarationDoesNotMatter) {
    Schema a, b;
    a.component<Position>("position");
    a.component<Health>("health");
    a.tag<Wolf>("wolf");
    b.tag<Wolf>("wolf");
    b.component<Health>("health");
    b.component<Position>("position");
    EXPECT_EQ(a.error() + b.error(), "");
    EXPECT_EQ(a.hash(), b.hash());
    ASSERT_EQ(a.components().size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(a.components()[i].name, b.components()[i].name);
        EXPECT_TRUE(i == 0 || a.components()[i - 1].id < a.components()[i].id);
    }
    EXPECT_EQ(a.difference(b.summary()), "");
}

TEST(Schema, HashDiffersForEachRelevantDifference) {
    std::vector<Schema> schemas(9);
    schemas[0].component<Position>("position");
    schemas[1].component<Position>("place");
    schemas[2].component<Position>("position", quantised(0, 1, 0.1));
    schemas[3].component<Position>("position", quantised(0, 1, 0.2));
    schemas[4].component<Position>("position", field(&Position::x, quantised(0, 1, 0.1)));
    schemas[5].component<Position>("position", field(&Position::y, quantised(0, 1, 0.1)));
    schemas[6].component<Name>("position");
    schemas[7].component<Name>("position", field(&Name::text, max_length(9)));
    schemas[8].tag<Wolf>("position");
    std::map<std::uint64_t, int> seen;
    for (Schema& schema : schemas) {
        EXPECT_EQ(schema.error(), "");
        EXPECT_EQ(++seen[schema.hash()], 1);
    }
}

TEST(Schema, DifferenceNamesTheComponent) {
    Schema server, same, other, more, fewer;
    for (Schema* schema : {&server, &same, &more, &other}) schema->component<Health>("health");
    for (Schema* schema : {&server, &same, &more, &fewer}) schema->component<Position>("position");
    other.component<Position>("position", quantised(0, 1, 0.1));
    more.tag<Wolf>("wolf");
    EXPECT_EQ(server.difference(same.summary()), "");
    EXPECT_EQ(server.difference(other.summary()), "component 'position' differs");
    EXPECT_EQ(server.difference(fewer.summary()), "component 'health' is unknown to the client");
    const std::string unknown = server.difference(more.summary());
    EXPECT_NE(unknown.find("unknown to the server"), unknown.npos);
    EXPECT_EQ(unknown.find("wolf"), unknown.npos) << "the server cannot know the name";
    EXPECT_EQ(more.explain(unknown), "component 'wolf' is unknown to the server");
    EXPECT_EQ(more.explain("nothing to explain"), "nothing to explain");
    EXPECT_EQ(unknown, "component #78bb9249 is unknown to the server") << "the id of 'wolf'";
    EXPECT_EQ(more.explain("so: " + unknown + ", sorry"),
              "so: component 'wolf' is unknown to the server, sorry");
    EXPECT_EQ(fewer.explain(unknown), unknown) << "has no such name";
}

TEST(Schema, SummaryOfALargeSchemaIsCutAndShowsNoFalseDifference) {
    Schema schema;
    declare_tags(schema, std::make_index_sequence<150>());
    EXPECT_EQ(schema.error(), "");
    EXPECT_LE(schema.summary().size(), 591u);
    EXPECT_EQ(schema.difference(schema.summary()), "");
}

TEST(Schema, DifferencesOf73ComponentsAndStructsAreNamed) {
    const auto with_tags = [](auto tags, std::uint32_t hit, std::uint32_t chat) {
        Schema schema;
        declare_tags(schema, tags);
        schema.message<Health>("hit", bounded(0, hit));
        schema.message<Name>("chat", max_length(chat));
        EXPECT_EQ(schema.error(), "");
        return schema;
    };
    const auto tags = std::make_index_sequence<71>();
    const Schema server = with_tags(tags, 5, 6), more = with_tags(std::make_index_sequence<72>(), 5, 6);
    EXPECT_EQ(server.summary().size(), 1u + 73 * 8);
    EXPECT_EQ(more.summary().size(), server.summary().size()) << "what exceeds 73 is left out";
    EXPECT_EQ(server.difference(with_tags(tags, 7, 6).summary()), "message 'hit' differs");
    EXPECT_EQ(server.difference(with_tags(tags, 5, 7).summary()), "message 'chat' differs");
    const Schema fewer = with_tags(std::make_index_sequence<70>(), 5, 6);
    EXPECT_EQ(server.difference(fewer.summary()), "component 'tag 70' is unknown to the client");
    EXPECT_EQ(server.explain(fewer.difference(server.summary())),
              "component 'tag 70' is unknown to the server");
}

TEST(Schema, DifferenceAcceptsAnyBytes) {
    Schema schema;
    schema.component<Health>("health");
    std::vector<std::byte> bytes(64, std::byte{0x5a});
    for (std::size_t size = 0; size <= bytes.size(); ++size) {
        const std::vector<std::byte> exact(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_EQ(schema.difference(exact), size == 0 ? "component 'health' is unknown to the client"
                                                      : "the summary of the client's schema is malformed");
    }
}

TEST(Schema, OptionalComponentsMayDiffer) {
    struct Hat {
        int size = 0;
    };
    struct Cape {
        float length = 0;
    };
    Schema server, older, other;
    server.component<Hat>("hat");
    server.optional<Hat>();
    for (Schema* schema : {&server, &older, &other}) schema->component<Health>("health");
    for (Schema* schema : {&server, &older, &other}) schema->component<Position>("position");
    server.component<Cape>("cape");
    server.optional<Cape>();
    server.tag<Wolf>("wolf");
    server.optional<Wolf>();
    older.tag<Wolf>("wolf");
    older.optional<Wolf>();
    other.component<Hat>("hat", bounded(0, 9));  // another layout
    other.component<Cape>("cape");
    for (int i = 0; i < 2; ++i) i == 0 ? other.optional<Hat>() : other.optional<Cape>();
    for (const Schema* schema : {&older, &other}) {
        EXPECT_EQ(schema->error(), "");
        EXPECT_EQ(schema->hash(), server.hash());
        EXPECT_EQ(server.difference(schema->summary()), "");
    }
    EXPECT_EQ(server.numbers_in(server.summary()), ComponentNumbers{});
    const auto numbers = [&](const Schema& schema) {  // by name, of the components that both know
        std::map<std::string, std::string> out;
        const ComponentNumbers of = server.numbers_in(schema.summary()).value();
        for (std::size_t i = 0; i < of.size(); ++i)
            if (of[i] != kUnknownComponent)
                out[server.components()[i].name] = schema.components().at(of[i]).name;
        return out;
    };
    using Names = std::map<std::string, std::string>;
    const Names both = {{"health", "health"}, {"position", "position"}};
    Names with_wolf = both, with_cape = both;
    with_wolf["wolf"] = "wolf";
    with_cape["cape"] = "cape";
    EXPECT_EQ(numbers(older), with_wolf);
    EXPECT_EQ(numbers(other), with_cape);
    EXPECT_EQ(server.numbers_in({})->size(), 5u) << "a client that knows no optional component";
    EXPECT_EQ(older.difference(server.summary()), "") << "nor does the server need to know all";
    EXPECT_EQ(older.numbers_in(server.summary()).value().size(), 3u);

    Schema required;
    required.component<Health>("health");
    required.component<Position>("position");
    required.tag<Wolf>("wolf");
    EXPECT_NE(required.hash(), server.hash());
    EXPECT_EQ(server.difference(required.summary()), "component 'wolf' is optional only for the server");
    EXPECT_EQ(required.difference(server.summary()), "component 'wolf' is optional only for the client");
}

// A hostile client can send any summary with an equal hash.
TEST(Schema, AComponentThatIsOptionalOnOneSideIsUnknownToTheOther) {
    Schema server, client;
    server.tag<Wolf>("wolf");
    client.tag<Wolf>("wolf");
    server.optional<Wolf>();
    EXPECT_EQ(server.numbers_in(client.summary()), ComponentNumbers{kUnknownComponent});
    EXPECT_EQ(server.numbers_in(server.summary()), ComponentNumbers{});
    EXPECT_EQ(client.numbers_in(server.summary()), ComponentNumbers{0}) << "the summaries differ";
}

TEST(Schema, AsManyOptionalComponentsNeedNotBeTheSame) {
    Schema wolf, health, bounded_health;
    wolf.tag<Wolf>("wolf");
    wolf.optional<Wolf>();
    for (Schema* schema : {&wolf, &health}) schema->component<Health>("health");
    bounded_health.component<Health>("health", bounded(0, 9));
    for (Schema* schema : {&wolf, &health, &bounded_health}) schema->optional<Health>();
    health.component<Name>("name");
    health.optional<Name>();
    const ComponentNumbers numbers = wolf.numbers_in(health.summary()).value();
    ASSERT_EQ(numbers.size(), 2u);
    EXPECT_EQ(numbers[wolf.find<Wolf>()], kUnknownComponent);
    EXPECT_EQ(numbers[wolf.find<Health>()], health.find<Health>());
    Schema plain;
    plain.component<Health>("health");
    plain.optional<Health>();
    EXPECT_EQ(plain.numbers_in(bounded_health.summary()), ComponentNumbers{kUnknownComponent});
}

TEST(Schema, NumbersAreThoseOfThePeer) {
    Schema all, even;
    declare_tags(all, std::make_index_sequence<12>());
    make_optional(all, std::make_index_sequence<8>());
    (void)all;
    even.tag<std::integral_constant<std::size_t, 2>>("tag 2");
    even.tag<std::integral_constant<std::size_t, 5>>("tag 5");
    even.optional<std::integral_constant<std::size_t, 5>>();
    even.optional<std::integral_constant<std::size_t, 2>>();
    for (int i = 8; i < 12; ++i) {
        if (i == 8) even.tag<std::integral_constant<std::size_t, 8>>("tag 8");
        if (i == 9) even.tag<std::integral_constant<std::size_t, 9>>("tag 9");
        if (i == 10) even.tag<std::integral_constant<std::size_t, 10>>("tag 10");
        if (i == 11) even.tag<std::integral_constant<std::size_t, 11>>("tag 11");
    }
    ASSERT_EQ(all.hash(), even.hash());
    const auto expect_numbers = [](const Schema& here, const Schema& there) {
        const ComponentNumbers numbers = here.numbers_in(there.summary()).value();
        ASSERT_EQ(numbers.size(), here.components().size());
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            const std::size_t number = there.find(here.components()[i].type);
            EXPECT_EQ(numbers[i], number == kMaxComponents ? kUnknownComponent : number) << i;
        }
    };
    expect_numbers(all, even);
    expect_numbers(even, all);
}

TEST(Schema, ComponentsOfTheLibraryAreDeclaredOnceAndOptional) {
    struct Speed {
        float x = 0;
    };
    Schema schema, plain;
    plain.component<Position>("position");
    EXPECT_EQ(plain.components().size(), 1u);
    schema.component<Position>("position", linear(), predicted());
    schema.component<Speed>("speed", linear(), predicted());
    ASSERT_EQ(schema.error(), "");
    ASSERT_EQ(schema.components().size(), 4u);
    const SchemaComponent& teleports = schema.components().at(schema.find<Teleports>());
    EXPECT_EQ(teleports.name, "shoal.teleports");
    EXPECT_TRUE(teleports.is_optional);
    EXPECT_EQ(teleports.viewers, to_everyone());
    EXPECT_EQ(teleports.layout.lanes(), (std::vector{Lane{LaneKind::quantity, 16, false, false, 0xffff}}));
    const SchemaComponent& to_predict = schema.components().at(schema.find<ToPredict>());
    EXPECT_EQ(to_predict.name, "shoal.to_predict");
    EXPECT_TRUE(to_predict.is_optional && to_predict.is_tag);
    EXPECT_EQ(to_predict.viewers, to_predictors());
    EXPECT_TRUE(schema.predicts());
    EXPECT_FALSE(plain.predicts());
}

TEST(Schema, WhatHoldsNothingIsNoComponentOrInput) {
    EXPECT_EQ(error_of<Local>(), "component 'culprit' holds nothing to replicate");
    EXPECT_EQ(error_of<Wolf>(), "") << "a tag";
    Schema input, message;
    input.input<Local>("local");
    EXPECT_EQ(input.error(), "input 'local' holds nothing");
    message.message<Local>("local");
    message.message<Wolf>("wolf");
    EXPECT_EQ(message.error(), "") << "its arrival says something";
}

TEST(Schema, DisplaysThatDoNotFitAreErrors) {
    struct Turn {
        float x = 0, y = 0, z = 0, w = 1;
    };
    struct Wide {
        int lap = 0;
        double x = 0;
    };
    const auto error = []<class T>(std::type_identity<T>, const Display& display) {
        Schema schema;
        schema.component<T>("culprit", display);
        return schema.error();
    };
    const std::type_identity<Health> health;
    const std::type_identity<Turn> turn;
    const std::type_identity<Position> position;
    EXPECT_EQ(error(health, linear()),
              "component 'culprit' has no floats or doubles to mix: it can be shown only in steps");
    EXPECT_EQ(error(health, Display{}), "");
    for (const Display& display : {linear(), angular()}) {
        EXPECT_EQ(error(position, display), "");
        EXPECT_EQ(error(std::type_identity<Wide>{}, display), "");
    }
    EXPECT_EQ(error(position, slerp()),
              "component 'culprit' is shown with slerp(), which needs four floats for each rotation");
    EXPECT_EQ(error(turn, slerp()), "");
    Schema coded, pair, predicted_pair;
    coded.component<Turn>("turn", smallest_three(9), slerp());
    EXPECT_EQ(coded.error(), "");
    pair.pair<Follows>("follows", linear());
    EXPECT_EQ(pair.error(),
              "component 'follows' has no floats or doubles to mix: it can be shown only in steps");
    predicted_pair.pair<Follows>("follows", predicted());
    EXPECT_EQ(predicted_pair.error(), "component 'follows' is a relation: only the server can decide it");
}

TEST(Schema, WhatCannotBePredictedIsAnError) {
    struct Target {
        ecs::Entity entity;
    };
    const auto error = []<class T>(std::type_identity<T>, const auto& role) {
        Schema schema;
        schema.component<T>("culprit", role);
        return schema.error();
    };
    const std::type_identity<Position> position;
    const std::string no_parts =
        "component 'culprit' is predicted(): it can hold neither entities, strings, vectors, optionals nor "
        "maps";
    EXPECT_EQ(error(std::type_identity<Name>{}, predicted()), no_parts);
    EXPECT_EQ(error(std::type_identity<Target>{}, predicted()), no_parts);
    EXPECT_EQ(error(position, predicted()), "");
    for (const double tolerance : {0.0, 0.5}) EXPECT_EQ(error(position, predicted(tolerance)), "");
    for (const double tolerance : {-1.0, static_cast<double>(INFINITY), static_cast<double>(NAN)})
        EXPECT_EQ(error(position, predicted(tolerance)),
                  "component 'culprit' has a tolerance that is not a number of 0 or more");
}

/// Takes 46 bits, and two for each key.
template <int N>
struct Keys {
    std::uint32_t layout = 0;
    std::array<bool, N> are_down{};
};

TEST(Schema, AComponentOfTheOwnerTakesAtMost7200Bits) {
    Schema largest, larger;
    largest.component<Keys<3'577>>("keys", from_owner());
    EXPECT_EQ(largest.error(), "");
    EXPECT_EQ(largest.components()[largest.find<Keys<3'577>>()].max_bits, kMaxOwnedBits);
    larger.component<Keys<3'578>>("keys", from_owner());
    EXPECT_EQ(larger.error(), "component 'keys' can take 7202 bits, and one with from_owner() at most 7200");
}

TEST(Schema, EveryKindOfComponentHasViewers) {
    struct Round {
        int number = 0;
    };
    Schema schema;
    schema.component<Position>("position", to_owner());
    schema.component<Health>("health");
    schema.tag<Wolf>("wolf", to_group(1));
    schema.pair<Likes>("likes", to_group(2));
    schema.pair<Follows>("follows");
    schema.singleton<Round>("round", to_others());
    ASSERT_EQ(schema.error(), "");
    const auto viewers = [&]<class T>(std::type_identity<T>) {
        return schema.components()[schema.find<T>()].viewers;
    };
    EXPECT_EQ(viewers(std::type_identity<Position>{}), to_owner());
    EXPECT_EQ(viewers(std::type_identity<Health>{}), to_everyone());
    EXPECT_EQ(viewers(std::type_identity<Wolf>{}), to_group(1));
    EXPECT_EQ(viewers(std::type_identity<Likes>{}), to_group(2));
    EXPECT_EQ(viewers(std::type_identity<Follows>{}), to_everyone());
    EXPECT_EQ(viewers(std::type_identity<Round>{}), to_others());
    for (const SchemaComponent& component : schema.components()) {
        EXPECT_EQ(component.singleton != nullptr, component.name == "round");
        EXPECT_EQ(component.adopt != nullptr, component.name == "round");
        EXPECT_EQ(static_cast<bool>(component.pairs),
                  component.name == "likes" || component.name == "follows");
        EXPECT_EQ(component.is_tag, component.name == "wolf");
    }
    const PairOps& follows = schema.components()[schema.find<Follows>()].pairs;
    const PairOps& likes = schema.components()[schema.find<Likes>()].pairs;
    EXPECT_TRUE(follows.is_exclusive && !likes.is_exclusive);
    EXPECT_EQ(follows.value_offset, sizeof(ecs::Entity));
    EXPECT_EQ(likes.value_offset, 0u);
    EXPECT_FALSE(follows.destroys_source || likes.destroys_source);
}

TEST(Schema, FindsTypesThatAreDeclared) {
    Schema schema;
    schema.component<Position>("position");
    schema.tag<Wolf>("wolf");
    schema.message<Name>("name");
    schema.message<Health>("health");
    EXPECT_EQ(schema.components()[schema.find<Wolf>()].name, "wolf");
    EXPECT_EQ(schema.components()[schema.find<Position>()].name, "position");
    EXPECT_EQ(schema.find<Health>(), kMaxComponents) << "a message, no component";
    const auto& messages = schema.structs(StructKind::message);
    ASSERT_EQ(messages.size(), 2u);
    EXPECT_LT(messages[0].id, messages[1].id);
    EXPECT_EQ(messages[0].id, name_id(messages[0].name));
    EXPECT_EQ(messages[schema.find_struct<Name>(StructKind::message)].name, "name");
    EXPECT_EQ(messages[schema.require_struct<Health>(StructKind::message)].name, "health");
    EXPECT_EQ(schema.find_struct<Position>(StructKind::message), 2u);
    EXPECT_EQ(schema.find_struct<Name>(StructKind::action), 0u);
}

TEST(Schema, MistakesWithOptionalComponentsAreErrors) {
    Schema early, many;
    early.optional<Wolf>();
    EXPECT_NE(early.error().find("Wolf' is not declared"), std::string::npos) << early.error();
    declare_tags(many, std::make_index_sequence<150>());
    make_optional(many, std::make_index_sequence<64>());
    EXPECT_EQ(many.error(), "");
    make_optional(many, std::make_index_sequence<66>());
    EXPECT_NE(many.error().find("is one too many optional component"), std::string::npos) << many.error();
    Schema again;
    declare_tags(again, std::make_index_sequence<65>());
    make_optional(again, std::make_index_sequence<64>());
    make_optional(again, std::make_index_sequence<64>());
    EXPECT_EQ(again.error(), "") << "they are optional already";
}

TEST(Schema, NumbersOfAMalformedSummaryAreRefused) {
    Schema schema;
    declare_tags(schema, std::make_index_sequence<20>());
    make_optional(schema, std::make_index_sequence<10>());
    const std::vector<std::byte> good = schema.summary();
    ASSERT_TRUE(schema.numbers_in(good));
    for (std::size_t size = 1; size < good.size(); ++size) {
        const bool is_whole = size % 8 == 1 && size / 8 >= 10;
        EXPECT_EQ(schema.numbers_in(std::span(good).first(size)).has_value(), is_whole) << size;
    }
    std::vector<std::byte> twice = good, too_many = good;
    std::copy_n(good.begin() + 1, 8, twice.begin() + 9);
    EXPECT_FALSE(schema.numbers_in(twice)) << "one component twice";
    too_many[0] = std::byte{21};
    EXPECT_FALSE(schema.numbers_in(too_many));
}

TEST(Schema, ASecondDeclarationIsAnErrorThatNamesTheComponent) {
    Schema by_name;
    by_name.component<Position>("thing");
    by_name.component<Health>("thing");
    EXPECT_EQ(by_name.error(), "component 'thing' is declared twice");
    Schema by_type;
    by_type.component<Position>("one");
    by_type.component<Position>("two");
    EXPECT_EQ(by_type.error(), "component 'two' is of a type that is declared already, as 'one'");
}

TEST(Schema, NamesOfEqualHashAreAnErrorThatNamesBoth) {
    std::unordered_map<std::uint32_t, std::string> seen;
    std::string first, second;
    for (int i = 0; first.empty(); ++i) {
        std::string name = "component " + std::to_string(i);
        const auto [place, is_new] = seen.try_emplace(name_id(name), name);
        if (!is_new) {
            first = place->second;
            second = name;
        }
    }
    ASSERT_EQ(name_id(first), name_id(second));
    Schema schema;
    schema.component<Position>(first);
    schema.component<Health>(second);
    EXPECT_NE(schema.error().find("'" + first + "'"), std::string::npos) << schema.error();
    EXPECT_NE(schema.error().find("'" + second + "'"), std::string::npos) << schema.error();
}

TEST(Schema, TypesThatCannotReplicateAreErrorsThatNameTheComponent) {
    struct Pointer {
        int* p = nullptr;
    };
    struct HoldsMultimap {
        int a = 0;
        std::multimap<int, int> m;
    };
    struct InVector {
        std::vector<Pointer> v;
    };
    struct Bits {
        std::vector<bool> v;
    };
    struct Private {
        Private() = default;
        int get() const { return value_; }

    private:
        int value_ = 0;
    };
    struct TooMany {
        int f[1];
        int a, b, c, d, e, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z;
    };
    // g++ writes int*, clang++ int *.
    expect_words(error_of<Pointer>(), {"component 'culprit' has a field of type int", "*, ", "pointer"});
    expect_words(error_of<HoldsMultimap>(),
                 {"component 'culprit' has a field of type std::multimap<int, int"});
    expect_words(error_of<InVector>(), {"component 'culprit' has a field of type int", "*, "});
    expect_words(error_of<Bits>(), {"type std::vector<bool"});
    expect_words(error_of<Private>(), {"Private", "private fields"});
    expect_words(error_of<TooMany>(), {"TooMany", "at most 24 fields"});
}

TEST(Schema, ARelationIsNoComponent) {
    EXPECT_EQ(error_of<Follows>(), "component 'culprit' is a relation: declare it with pair()");
    EXPECT_EQ(error_of<Likes>(), "component 'culprit' is a relation: declare it with pair()");
    Schema schema;
    schema.component<Follows>("follows", bounded(0, 9));
    EXPECT_EQ(schema.error(), "component 'follows' is a relation: declare it with pair()");
}

struct Named {
    static constexpr auto relation = ecs::many;
    std::string name;
};

TEST(Schema, MistakesInPairsNameTheRelation) {
    Schema twice, text, length, codec;
    twice.pair<Likes>("likes");
    twice.pair<Likes>("loves");
    EXPECT_EQ(twice.error(), "component 'loves' is of a type that is declared already, as 'likes'");
    text.pair<Named>("named");
    EXPECT_NE(text.error().find("'named' has a field of type std::"), std::string::npos) << text.error();
    length.pair<Follows>("follows", max_length(2));
    EXPECT_EQ(length.error(), "component 'follows' is exclusive: max_length() is 1");
    codec.pair<Follows>("follows", field(&Follows::distance, quantised(0, 1, 0.1)));
    EXPECT_EQ(codec.error().find("component 'follows' has a codec that does not fit type int"), 0u);
}

// A vector of rows would have the same lanes and parts.
TEST(Schema, APairAndAComponentHaveDifferentSignatures) {
    struct Rows {
        std::vector<ecs::Entity> targets;
    };
    Schema pairs, component;
    pairs.pair<Likes>("likes");
    component.component<Rows>("likes");
    ASSERT_EQ(component.error(), "");
    EXPECT_NE(pairs.hash(), component.hash());
}

TEST(Schema, CodecErrorsNameTheComponent) {
    Schema schema;
    schema.component<Mixed>("mixed", quantised(0, 1, 0.1));
    EXPECT_EQ(schema.error().find("component 'mixed' has a codec that does not fit type int: quantised() is"),
              0u)
        << schema.error();
    Schema second;
    second.component<Position>("position", field(&Position::x, quantised(0, 1e7, 1e-3)));
    EXPECT_EQ(second.error().substr(0, 21), "component 'position' ") << second.error();
    second.component<Name>("name", field(&Name::text, max_length(4'000'000)));
    EXPECT_EQ(second.error().substr(0, 21), "component 'position' ") << "the first error stays";
}

TEST(Schema, TheTagReplicatedCannotBeDeclared) {
    Schema schema;
    schema.component<Position>("position");
    schema.tag<Replicated>("replicated");
    EXPECT_NE(schema.error().find("'replicated'"), std::string::npos) << schema.error();
}

// An enum is coded as a symbol and an integer as a quantity, so the two sides would decode other values.
TEST(Schema, EnumsAndIntegersOfOneWidthDoNotMatch) {
    enum class Color : std::uint8_t { red };
    struct AsEnum {
        Color color = Color::red;
    };
    struct AsInteger {
        std::uint8_t color = 0;
    };
    Schema a, b;
    a.component<AsEnum>("color");
    b.component<AsInteger>("color");
    EXPECT_NE(a.hash(), b.hash());
    EXPECT_EQ(a.difference(b.summary()), "component 'color' differs");
}

TEST(SchemaDeathTest, MisuseStopsTheProgramWithAMessage) {
    ecs::World world;
    Schema twice;
    twice.component<Position>("one");
    twice.component<Position>("two");
    EXPECT_DEATH(Binding(world, twice), "shoal: schema: component 'two' is of a type");
    Schema used;
    used.component<Position>("one");
    EXPECT_EQ(Binding(world, used).ids().size(), 1u);
    EXPECT_DEATH(used.component<Health>("late"),
                 "component 'late' is declared after a sender or receiver got the schema");
    EXPECT_DEATH(used.message<Health>("late"),
                 "message 'late' is declared after a sender or receiver got the schema");
    EXPECT_DEATH(used.optional<Position>(),
                 "component 'one' is made optional after a sender or receiver got the schema");
    EXPECT_DEATH(used.require_struct<Health>(StructKind::message), "Health is not declared as a message");
    EXPECT_DEATH(used.require_struct<Health>(StructKind::action), "Health is not declared as an action");
    EXPECT_DEATH(used.require_owned<Health>(), "Health is not declared as a component");
    EXPECT_DEATH(used.require_owned<Position>(), "component 'one' is not from_owner");
}

// All components together may exceed what an entity can hold: no entity has all of them.
TEST(Schema, Rule11OnlyAComponentThatCouldNeverTravelIsAnError) {
    struct Cargo {
        std::vector<std::uint64_t> crates;
    };
    struct Log {
        std::string text;
    };
    Schema fits;
    fits.component<Cargo>("cargo", field(&Cargo::crates, max_length(2'800)));
    fits.component<Log>("log", field(&Log::text, max_length(31'900)));
    EXPECT_EQ(fits.error(), "");
    Schema longer;
    longer.component<Log>("log", field(&Log::text, max_length(32'000)));
    EXPECT_EQ(longer.error().substr(0, 24), "component 'log' can take") << longer.error();
    std::uint32_t length = 31'900;
    std::string error;
    for (; error.empty(); ++length) {
        Schema schema;
        schema.component<Log>("log", field(&Log::text, max_length(length)));
        error = schema.error();
    }
    expect_words(error, {"can take 32001 bytes, and an entity at most 32000"});
    Schema more;
    more.component<Cargo>("cargo", field(&Cargo::crates, max_length(4'000)));
    EXPECT_EQ(more.error().substr(0, 26), "component 'cargo' can take") << more.error();
}

TEST(Schema, FieldCodecReachesArraysAndNestedStructs) {
    struct Inner {
        double a = 0, b = 0;
    };
    struct Outer {
        Inner inner[2];
        float plain = 0;
    };
    Schema schema;
    schema.component<Outer>("outer", field(&Outer::inner, quantised(0, 10, 1)));
    ASSERT_EQ(schema.error(), "");
    const auto& lanes = schema.components()[0].layout.lanes();
    ASSERT_EQ(lanes.size(), 5u);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(lanes[static_cast<std::size_t>(i)].max, 10u);
    EXPECT_EQ(lanes[4].kind, LaneKind::real);
}

}  // namespace
}  // namespace shoal::replication::impl::schema_test
