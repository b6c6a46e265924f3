// Messages, actions and inputs in a schema.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "replication/schema/schema.h"

namespace shoal::replication::schema_structs_test {
namespace {

struct Talk {
    std::string text;
    ecs::Entity about;
    float loudness = 0;
    std::vector<std::uint16_t> to;
};
struct Nod {};

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

struct Beep {
    std::uint8_t pitch = 0;
};
struct Spot {
    int x = 0;
};

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
}  // namespace shoal::replication::schema_structs_test
