#include "replication/schema/walk.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <string_view>

#include "replication/schema/schema.h"
#include "tests/replication/support/schema_errors.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl::walk_test {

/// A type of a maths library: constructors, one of them with two arguments, and private members.
class Vec {
public:
    Vec() = default;
    Vec(float x, float y) : x_(x), y_(y) {}
    bool operator==(const Vec&) const = default;

private:
    friend struct shoal::replication::Replicate<Vec>;
    float x_ = 0, cached_length_ = 7, y_ = 0;
};

struct Named {
    Named() = default;
    explicit Named(std::string text) : name(std::move(text)) {}
    bool operator==(const Named&) const = default;
    std::string name;
};
struct Ship : Named, Vec {
    using Named::Named;
    bool operator==(const Ship&) const = default;
    Vec speed;
    std::vector<Vec> path;
};

struct Spot {
    float x = 0, y = 0;
};
struct Base {
    int a = 0;
    float height = 0;
};
struct Tower : Spot, Base {
    Spot corners[3];
    Spot top;
};

/// An aggregate of which one field is not replicated.
struct Cached {
    int value = 0;
    int* cache = nullptr;
};

/// Neither an aggregate nor named by Replicate.
class NoParts {
public:
    NoParts() = default;
    int get() const { return number_; }

private:
    int number_ = 0;
};

inline float elsewhere = 0;
struct Elsewhere {
    float x = 0;
};
struct Copied {
    float x = 0;
};
struct Itself {
    float x = 0;
};
struct Bad {
    Bad() {}
    int a = 0;
    int* p = nullptr;
};

}  // namespace shoal::replication::impl::walk_test

namespace walk_test = shoal::replication::impl::walk_test;
template <>
struct shoal::replication::Replicate<walk_test::Vec> {
    static auto fields(auto& v) { return std::tie(v.x_, v.y_); }
};
template <>
struct shoal::replication::Replicate<walk_test::Named> {
    static auto fields(const walk_test::Named& n) { return std::tie(n.name); }
};
template <>
struct shoal::replication::Replicate<walk_test::Ship> {
    static auto fields(walk_test::Ship& s) {
        return std::tie(static_cast<walk_test::Named&>(s), static_cast<walk_test::Vec&>(s), s.speed, s.path);
    }
};
template <>
struct shoal::replication::Replicate<walk_test::Tower> {
    static auto fields(auto& t) { return std::tie(t.x, t.y, t.a, t.height, t.corners); }
};
template <>
struct shoal::replication::Replicate<walk_test::Cached> {
    static auto fields(auto& c) { return std::tie(c.value); }
};
template <>
struct shoal::replication::Replicate<walk_test::Elsewhere> {
    static auto fields(auto& e) { return std::tie(e.x, walk_test::elsewhere); }
};
template <>
struct shoal::replication::Replicate<walk_test::Copied> {
    static auto fields(auto& c) { return std::make_tuple(c.x); }
};
template <>
struct shoal::replication::Replicate<walk_test::Itself> {
    static auto fields(auto& i) { return std::tie(i); }
};
template <>
struct shoal::replication::Replicate<walk_test::Bad> {
    static auto fields(auto& b) { return std::tie(b.a, b.p); }
};

namespace shoal::replication::impl::walk_test {
namespace {

using schema_errors::error_of;
using schema_errors::expect_words;

/// Quantises `value`, and restores it in `over`.
template <class T>
T restored(const Schema& schema, const T& value, T over = {}) {
    NoEntities map;
    ComponentLayout::Misfits misfits;
    for (const SchemaComponent& component : schema.components()) {
        if (component.type != &type_address<T>) continue;
        std::vector<std::uint32_t> lanes(component.layout.lanes().size()), parts;
        component.layout.quantise(&value, map, lanes.data(), parts, misfits);
        component.layout.restore(lanes.data(), parts.data(), map, &over);
    }
    return over;
}

TEST(Replicate, NamesThePartsOfAComponentWithPrivateMembers) {
    Schema schema;
    schema.component<Vec>("vec", quantised(-10, 10, 0.5));
    ASSERT_EQ(schema.error(), "");
    EXPECT_EQ(schema.components()[0].layout.lanes().size(), 2u);
    EXPECT_EQ(restored(schema, Vec(1.5f, -2)), Vec(1.5f, -2));
}

TEST(Replicate, NamesBaseClassesAndWorksInFieldsAndElements) {
    Schema schema;
    schema.component<Ship>("ship");
    ASSERT_EQ(schema.error(), "");
    Ship ship("Anna");
    static_cast<Vec&>(ship) = Vec(1, 2);
    ship.speed = Vec(3, 4);
    ship.path = {Vec(5, 6), Vec(7, 8)};
    EXPECT_EQ(restored(schema, ship), ship);
}

TEST(Replicate, WorksInAggregatesBesideOtherFields) {
    struct Body {
        Vec corners[2];
        int kind = 0;
        std::array<Vec, 2> ends;
        Named name;
        Vec last;
    };
    static_assert(field_count<Body>() == 5);
    Schema schema;
    schema.component<Body>("body", field(&Body::last, quantised(0, 10, 1)));
    ASSERT_EQ(schema.error(), "");
    const Body body{{Vec(1, 2), Vec(3, 4)}, 5, {Vec(6, 7), Vec(8, 9)}, Named("n"), Vec(1, 2)};
    const Body same = restored(schema, body);
    EXPECT_EQ(same.corners[1], Vec(3, 4));
    EXPECT_EQ(same.kind, 5);
    EXPECT_EQ(same.ends, body.ends);
    EXPECT_EQ(same.name.name, "n");
    EXPECT_EQ(same.last, Vec(1, 2));
}

TEST(Replicate, HasPrecedenceOverTheFieldsOfAnAggregate) {
    Schema schema;
    schema.component<Cached>("cached");
    ASSERT_EQ(schema.error(), "");
    int cache = 0;
    const Cached same = restored(schema, Cached{3, nullptr}, Cached{1, &cache});
    EXPECT_EQ(same.value, 3);
    EXPECT_EQ(same.cache, &cache) << "is not written";
}

// Two lanes, as an aggregate of two floats has.
TEST(Replicate, GivesTheLayoutOfAnAggregateOfTheSameParts) {
    struct Plain {
        float x = 0, y = 0;
    };
    Schema a, b;
    a.component<Vec>("place", quantised(0, 1, 0.1));
    b.component<Plain>("place", quantised(0, 1, 0.1));
    EXPECT_EQ(a.hash(), b.hash());
}

TEST(Replicate, WrongPartsAreErrorsThatNameComponentFieldAndType) {
    struct Outer {
        int a = 0;
        Elsewhere inner;
    };
    expect_words(error_of<Elsewhere>(),
                 {"component 'culprit' has a field of type float, ",
                  "Replicate has to name members of the object", "(field 2 of ", "Elsewhere)"});
    expect_words(error_of<Outer>(), {"(field 2 of ", "Outer, field 2 of ", "Elsewhere)"});
    expect_words(error_of<Copied>(), {"type float", "with std::tie", "Copied)"});
    expect_words(error_of<Itself>(), {"Itself", "as a part of itself"});
    expect_words(error_of<Bad>(), {"type int", "pointer", "(field 2 of ", "Bad)"});
}

TEST(Contains, IsTrueForAPartThatLiesWhollyInside) {
    struct Three {
        std::uint64_t a = 0, b = 0, c = 0;
    };
    const Three three[3] = {};
    const Three& whole = three[1];
    for (const std::uint64_t* part : {&whole.a, &whole.b, &whole.c}) EXPECT_TRUE(contains(whole, *part));
    EXPECT_TRUE(contains(whole, whole));
    for (const Three* other : {&three[0], &three[2]}) {
        EXPECT_FALSE(contains(whole, *other));
        for (const std::uint64_t* part : {&other->a, &other->b, &other->c})
            EXPECT_FALSE(contains(whole, *part));
    }
    EXPECT_FALSE(contains(whole.a, whole)) << "larger";
    const std::array<std::uint64_t, 9> words{};
    const auto& two = reinterpret_cast<const std::array<std::uint64_t, 2>&>(words[5]);
    const auto& front = reinterpret_cast<const std::array<std::uint64_t, 6>&>(words[0]);
    EXPECT_FALSE(contains(front, two)) << "its end is outside";
    EXPECT_FALSE(contains(two, words[4]));
    EXPECT_TRUE(contains(two, words[6]));
    EXPECT_FALSE(contains(two, words[7]));
}

struct Item {
    int kind = 0;
    Vec place;
    std::uint8_t count = 0;
    bool operator==(const Item&) const = default;
};
struct Inventory {
    std::vector<Item> items;
    std::vector<int> counts;
};

const Part& first_part(const Schema& schema) {
    return schema.components()[0].layout.parts()[0];
}

TEST(Element, FieldsOfAVectorsElementHaveCodecsOfTheirOwn) {
    Schema schema;
    schema.component<Inventory>("inventory", element(&Inventory::items, field(&Item::kind, bounded(0, 500)),
                                                     field(&Item::count, bounded(1, 99))));
    ASSERT_EQ(schema.error(), "");
    const Part& part = first_part(schema);
    ASSERT_EQ(part.lanes.size(), 4u);
    EXPECT_EQ(part.lanes[0].max, 500u);
    EXPECT_EQ(part.lanes[1].kind, LaneKind::real) << "no codec";
    EXPECT_EQ(part.lanes[3].max, 98u);
    EXPECT_EQ(part.max_count, kDefaultMaxVector);
    const Inventory bag{{{500, Vec(1, 2), 1}, {501, Vec(3, 4), 99}}, {}};
    const Inventory same = restored(schema, bag);
    EXPECT_EQ(same.items[0], bag.items[0]);
    EXPECT_EQ(same.items[1].kind, 500) << "clamped";
}

TEST(Element, MaxLengthAndACodecForTheOtherFieldsStandBeside) {
    Schema schema;
    schema.component<Inventory>(
        "inventory",
        element(&Inventory::items, quantised(0, 1, 0.5).up_to(40), field(&Item::kind, bounded(0, 500)),
                field(&Item::count, max_length(0))),
        element(&Inventory::counts, max_length(3)));
    ASSERT_EQ(schema.error(), "");
    EXPECT_EQ(first_part(schema).max_count, 40u);
    EXPECT_EQ(first_part(schema).lanes[1].max, 2u) << "Vec has the codec of the element";
    EXPECT_EQ(first_part(schema).lanes[3].max, 255u) << "an empty codec";
    EXPECT_EQ(schema.components()[0].layout.parts()[1].max_count, 3u);
}

TEST(Element, CodecsReachArraysOfVectorsAndNestedStructs) {
    struct Outer {
        int a = 0;
        Inventory bags[2];
        std::array<std::vector<Item>, 2> shelves;
    };
    Schema schema;
    schema.component<Outer>(
        "outer", field(&Outer::bags, element(&Inventory::items, field(&Item::kind, bounded(0, 5)))),
        element(&Outer::shelves, field(&Item::kind, bounded(0, 6))));
    ASSERT_EQ(schema.error(), "");
    const auto& parts = schema.components()[0].layout.parts();
    ASSERT_EQ(parts.size(), 6u);
    for (const std::size_t i : {0u, 2u}) EXPECT_EQ(parts[i].lanes[0].max, 5u);
    for (const std::size_t i : {4u, 5u}) EXPECT_EQ(parts[i].lanes[0].max, 6u);
}

TEST(Element, WrongCodecsAreErrorsThatNameComponentFieldAndType) {
    Schema schema;
    schema.component<Inventory>("bag", element(&Inventory::items, field(&Item::kind, quantised(0, 1, 0.1))));
    expect_words(schema.error(), {"component 'bag' has a codec that does not fit type int: quantised() is",
                                  "(field 1 of ", "Inventory, field 1 of ", "Item)"});
    Schema twice;
    twice.component<Inventory>("bag", element(&Inventory::items, field(&Item::kind, bounded(0, 1)),
                                              field(&Item::kind, bounded(0, 2))));
    expect_words(twice.error(), {"component 'bag' has a codec that is not used, for a field of type int"});
}

TEST(Field, CodecsOfInnerFieldsHavePrecedence) {
    struct Body {
        Spot corners[2][2];
        Spot centre;
    };
    Schema schema;
    schema.component<Body>("body", field(&Body::centre, field(&Spot::x, quantised(0, 9, 1))),
                           field(&Body::corners, quantised(0, 7, 1), field(&Spot::y, quantised(0, 5, 1))));
    ASSERT_EQ(schema.error(), "");
    const auto& lanes = schema.components()[0].layout.lanes();
    ASSERT_EQ(lanes.size(), 10u);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(lanes[i].max, i % 2 == 0 ? 7u : 5u);
    EXPECT_EQ(lanes[8].max, 9u);
    EXPECT_EQ(lanes[9].kind, LaneKind::real);
}

TEST(Field, MembersOfBaseClassesHaveCodecs) {
    Schema schema;
    schema.component<Tower>("tower", field(&Tower::height, quantised(0, 9, 1)),
                            field(&Tower::y, quantised(0, 8, 1)));
    ASSERT_EQ(schema.error(), "");
    const auto& lanes = schema.components()[0].layout.lanes();
    EXPECT_EQ(lanes[1].max, 8u);
    EXPECT_EQ(lanes[3].max, 9u);
}

struct Order {
    std::optional<Item> item;
    std::optional<float> price;
    int count = 0;
    std::optional<ecs::Entity> buyer;
    std::optional<Vec> places[2];
};

TEST(Optional, IsAPartOfAtMostOneElement) {
    static_assert(field_count<Order>() == 5);
    Schema schema;
    schema.component<Order>(
        "order", element(&Order::item, field(&Item::kind, bounded(0, 5)), field(&Item::count, bounded(0, 9))),
        field(&Order::price, quantised(0, 100, 0.5)));
    ASSERT_EQ(schema.error(), "");
    const auto& parts = schema.components()[0].layout.parts();
    ASSERT_EQ(parts.size(), 5u);
    for (const Part& part : parts) EXPECT_EQ(part.max_count, 1u);
    EXPECT_EQ(parts[0].lanes[0].max, 5u);
    EXPECT_EQ(parts[1].lanes[0].max, 200u);
    EXPECT_TRUE(schema.components()[0].layout.has_references());

    Order full{Item{4, Vec(1, 2), 9}, 12.5f, 3, std::nullopt, {Vec(5, 6), std::nullopt}};
    const Order same = restored(schema, full);
    EXPECT_EQ(same.item, full.item);
    EXPECT_EQ(same.price, 12.5f);
    EXPECT_EQ(same.count, 3);
    EXPECT_FALSE(same.buyer);
    EXPECT_EQ(same.places[0], Vec(5, 6));
    EXPECT_FALSE(same.places[1]);
    const Order empty = restored(schema, Order{}, full);
    EXPECT_FALSE(empty.item || empty.price || empty.places[0]) << "is reset";
    full.item->kind = 3;
    EXPECT_EQ(restored(schema, full, same).item->kind, 3) << "is overwritten";
}

TEST(Optional, MaxLengthIsAnErrorThatNamesIt) {
    Schema schema;
    schema.component<Order>("order", field(&Order::price, max_length(2)));
    expect_words(schema.error(),
                 {"'order'", "type float: max_length() is for strings and vectors (field 2 of "});
}

TEST(Duration, ReplicatesItsCount) {
    struct Timer {
        std::chrono::milliseconds left{0};
        std::chrono::duration<float> speed{0};
        std::vector<std::chrono::seconds> laps;
        std::chrono::duration<std::int16_t, std::ratio<60>> minutes{0};
    };
    static_assert(field_count<Timer>() == 4);
    Schema schema;
    schema.component<Timer>("timer", field(&Timer::left, bounded(0, 5'000)),
                            field(&Timer::speed, quantised(0, 10, 0.5)));
    ASSERT_EQ(schema.error(), "");
    const auto& lanes = schema.components()[0].layout.lanes();
    ASSERT_EQ(lanes.size(), 3u);
    EXPECT_EQ(lanes[0].max, 5'000u);
    EXPECT_EQ(lanes[1].max, 20u);
    using namespace std::chrono_literals;
    const Timer timer{1234ms, std::chrono::duration<float>(2.5f), {3s, -4s}, {}};
    const Timer same = restored(schema, timer);
    EXPECT_EQ(same.left, 1234ms);
    EXPECT_EQ(same.speed.count(), 2.5f);
    EXPECT_EQ(same.laps, timer.laps);
}

TEST(Walk, AStringViewIsAnErrorThatSaysWhatToUse) {
    struct Label {
        int a = 0;
        std::string_view text;
    };
    expect_words(error_of<Label>(), {"component 'culprit' has a field of type std::", "string_view",
                                     "use std::string", "(field 2 of ", "Label)"});
}

TEST(Walk, ErrorsSayWhereTheFieldIs) {
    struct Flagged {
        int kind = 0;
        bool* flag = nullptr;
    };
    struct Bag {
        int size = 0;
        std::vector<Flagged> items;
    };
    expect_words(error_of<Bag>(), {"component 'culprit' has a field of type bool", "(field 2 of ",
                                   "Bag, field 2 of ", "Flagged)"});
    struct Pointers {
        float x = 0;
        int* p[2] = {};
    };
    struct Owners {
        std::array<int*, 2> p{};
    };
    expect_words(error_of<Pointers>(), {"field of type int", "pointer", "(field 2 of ", "Pointers)"});
    expect_words(error_of<Owners>(), {"field of type int", "pointer", "(field 1 of ", "Owners)"});
    const std::string whole = error_of<NoParts>();
    EXPECT_EQ(whole.find("component 'culprit' is of type "), 0u) << whole;
    EXPECT_EQ(whole.find("(field"), std::string::npos) << whole;
    EXPECT_NE(whole.back(), ')') << whole;
    struct Mixed {
        float f = 0;
        struct {
            float g[2] = {};
            int i = 0;
        } inner;
    };
    Schema schema;
    schema.component<Mixed>("mixed", quantised(0, 1, 0.1));
    expect_words(schema.error(), {"component 'mixed' has a codec that does not fit type int: quantised() is "
                                  "for float and double (field 2 of ",
                                  "Mixed, field 2 of "});
}

}  // namespace
}  // namespace shoal::replication::impl::walk_test
