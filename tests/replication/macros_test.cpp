// Every header of replication/ compiles behind the macros of other systems, and its templates too. A game
// that uses the namespaces of all three libraries has common words for its own types.

#include <gtest/gtest.h>

#include "tests/support/foreign_macros.h"
// after the macros; all of them, listed by the Makefile
#include "headers/replication.cpp"

using namespace shoal::ecs;
using namespace shoal::net;
using namespace shoal::replication;

namespace {

// words of the libraries' insides
struct Tag {};
struct Value {};
struct Component {};
struct Hello {};
struct Lane {};
struct Image {};
struct View {};
struct Part {};
struct Flight {};
int all(int count) {
    return count;
}

struct Place {
    float x = 0;
};
struct Look {
    int angle = 0;
};
struct Shot {
    Entity at;
};

}  // namespace

TEST(Macros, OfOtherSystemsDoNotReachReplication) {
    Schema schema;
    EXPECT_EQ(all(1), 1);
    schema.component<Place>("place", field(&Place::x, quantised(0, 100, 0.1f)));
    schema.input<Look>("look");
    schema.action<Shot>("shot");
    World world;
    const Entity one = world.spawn(Replicated{}, Place{5}, Tag{}, Value{}, Component{}, Hello{}, Lane{});
    world.set(one, Image{}, View{}, Part{}, Flight{});
    EXPECT_NE(schema.find<Place>(), schema.find<Look>());
    EXPECT_TRUE(world.has<Replicated>(one));
}
