// Every header of ecs/ compiles behind the macros of other systems, and its templates too. A game that uses
// the namespace has common words for its own types.

#include <gtest/gtest.h>

#include "tests/support/foreign_macros.h"
// after the macros; all of them, listed by the Makefile
#include "headers/ecs.cpp"

using namespace shoal::ecs;

namespace {

struct Place {
    float x = 0;
};
struct Marked {};
// words of the library's inside
struct Tag {};
struct Value {
    int number = 0;
};
struct Key {};
struct Component {};
struct Relation {};
struct Column {};
struct Cell {};
struct Sources {};
int all(int count) {
    return count;
}

struct Likes {
    static constexpr auto relation = many;
    int much = 0;
};

}  // namespace

TEST(Macros, OfOtherSystemsDoNotReachTheWorld) {
    World world;
    Hook died = world.on_destroy([](World&, Entity) {});
    Hook placed = world.on_change<Place>([](World&, std::span<const Entity>, std::span<const Place>) {});
    Hook unmarked = world.on_remove<Marked>([](World&, Entity, Removal) {});
    ChangeCollector collector(world);
    collector.watch<Place>();
    WriteAudit audit(world);
    audit.watch<Place>();
    EXPECT_TRUE(audit.compare().empty());

    const Entity one = world.spawn(Place{}, Marked{});
    world.add(one, to<Likes>(one));
    world.set_singleton(Place{1});
    Query<Mut<Place>, Optional<const Place>, With<Marked>, Pair<Likes>> query(world);
    query.each([](Mut<Place> place, const Place*, const Targets<Likes>& likes) {
        for (const Entity liked : likes) place->x = static_cast<float>(liked.index + 1);
    });
    Query<const Place, Changed<Place>> changed(world);
    std::uint32_t seen = 0;
    changed.each_since(0, [&](const Place&) { ++seen; });
    for (const Entity liked : world.targets<Likes>(one)) EXPECT_EQ(liked, one);
    for (const Entity source : world.sources(to<Likes>(one))) EXPECT_EQ(source, one);
    EXPECT_EQ(world.get<Place>(one).x, 1);
    EXPECT_EQ(seen, 2u);
    EXPECT_EQ(collector.changes().size(), 2u);
    world.destroy(one);
    EXPECT_TRUE(audit.compare().empty());
    const Entity own =
        world.spawn(Tag{}, Value{1}, Key{}, Component{}, Relation{}, Column{}, Cell{}, Sources{});
    EXPECT_EQ(world.get<Value>(own).number, all(1));
    EXPECT_NE(dump(world, one).find("dead"), std::string::npos);
}
