#include "replication/schema/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replication/history/history.h"

#include "tests/replication/support/world.h"

namespace shoal::replication::impl::image_test {
namespace {

TEST(Tick, IsComparedAcrossTheWraparound) {
    EXPECT_TRUE(is_newer(1, 0));
    EXPECT_TRUE(is_newer(0, 0xffffffff));
    EXPECT_TRUE(is_newer(5, 0xfffffff0));
    EXPECT_FALSE(is_newer(0xfffffff0, 5));
    EXPECT_FALSE(is_newer(7, 7));
    EXPECT_TRUE(is_newer(0x80000000, 0x7fffffff));
}

TEST(ShapeTable, EqualSetsHaveTheSameShape) {
    const Schema schema = game_schema();
    ShapeTable shapes(schema);
    const ComponentIndex some[] = {0, 2, 5}, others[] = {0, 2};
    const Shape* shape = shapes.shape(some);
    EXPECT_EQ(shapes.shape(std::vector<ComponentIndex>{0, 2, 5}), shape);
    EXPECT_NE(shapes.shape(others), shape);
    EXPECT_EQ(shape->find(2), 1u);
    EXPECT_EQ(shape->find(3), Shape::kAbsent);
    EXPECT_TRUE(shapes.shape({})->components.empty());
    std::uint32_t words = 0;
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(shape->lanes[i], words);
        words += static_cast<std::uint32_t>(schema.components()[some[i]].layout.lanes().size());
    }
    EXPECT_EQ(shape->lane_words, words);
}

TEST(ShapeTable, Rule30DropsOnlyShapesThatNoVersionHas) {
    const Schema schema = game_schema();
    ShapeTable shapes(schema);
    VersionPool pool;
    std::vector<History> histories;
    const std::uint32_t sets = std::min<std::uint32_t>(1u << schema.components().size(), 5'000);
    ASSERT_GE(sets, 4'000u);
    EXPECT_EQ(shapes.bytes(), 0u);
    const auto set_of = [](std::uint32_t bits) {
        std::vector<ComponentIndex> set;
        for (ComponentIndex i = 0; bits >> i != 0; ++i)
            if (bits >> i & 1) set.push_back(i);
        return set;
    };
    for (std::uint32_t bits = 0; bits < sets; ++bits) {
        const Shape* shape = shapes.shape(set_of(bits));
        if (bits % 10 == 0) histories.emplace_back().push(1, Image{shape, {}}, pool);
    }
    EXPECT_EQ(shapes.size(), sets);
    const std::size_t bytes_of_all = shapes.bytes();
    EXPECT_GE(bytes_of_all, sets * sizeof(Shape));
    shapes.drop_unused();
    EXPECT_EQ(shapes.size(), histories.size());
    EXPECT_LT(shapes.bytes(), bytes_of_all);
    EXPECT_GE(shapes.bytes(), histories.size() * sizeof(Shape));
    for (std::uint32_t bits = 0; bits < sets; bits += 10)
        EXPECT_EQ(shapes.shape(set_of(bits)), histories[bits / 10].newest()->image.shape);
    for (History& history : histories) history.clear();
    EXPECT_EQ(pool.bytes_in_use(), 0u);
    for (std::uint32_t bits = 0; bits < sets; ++bits) static_cast<void>(shapes.shape(set_of(bits)));
    EXPECT_EQ(shapes.bytes(), bytes_of_all);
    shapes.drop_unused();
    EXPECT_EQ(shapes.size(), 0u);
    EXPECT_EQ(shapes.bytes(), 0u);
}

/// Numbers from `first` on make sets of components that no other number makes.
void add_shapes(ShapeTable& shapes, std::uint32_t first, std::uint32_t count, std::vector<History>* users,
                VersionPool& pool) {
    for (std::uint32_t bits = first; bits < first + count; ++bits) {
        std::vector<ComponentIndex> set;
        for (ComponentIndex i = 0; bits >> i != 0; ++i)
            if (bits >> i & 1) set.push_back(i);
        const Shape* const shape = shapes.shape(set);
        if (users) users->emplace_back().push(1, Image{shape, {}}, pool);
    }
}

TEST(ShapeTable, Keeps1024ShapesOrTwiceAsManyAsAreInUse) {
    const Schema schema = game_schema();
    ShapeTable shapes(schema);
    VersionPool pool;
    std::vector<History> users;
    add_shapes(shapes, 0, 1'024, nullptr, pool);
    shapes.drop_unused();
    EXPECT_EQ(shapes.size(), 1'024u);
    add_shapes(shapes, 1'024, 1, nullptr, pool);
    shapes.drop_unused();
    EXPECT_EQ(shapes.size(), 0u);
    add_shapes(shapes, 0, 800, &users, pool);
    add_shapes(shapes, 800, 300, nullptr, pool);
    shapes.drop_unused();
    EXPECT_EQ(shapes.size(), 800u);
    add_shapes(shapes, 800, 800, nullptr, pool);
    shapes.drop_unused();
    EXPECT_EQ(shapes.size(), 1'600u) << "twice as many as are in use";
    add_shapes(shapes, 1'600, 1, nullptr, pool);
    shapes.drop_unused();
    EXPECT_EQ(shapes.size(), 800u);
    for (History& history : users) history.clear();
    add_shapes(shapes, 800, 801, nullptr, pool);
    shapes.drop_unused();
    EXPECT_EQ(shapes.size(), 0u);
    add_shapes(shapes, 0, 1'025, nullptr, pool);
    shapes.drop_unused();
    EXPECT_EQ(shapes.size(), 0u) << "the limit of 1,024 is back";
}

struct Spot {
    std::int32_t x = 0, y = 0;
};
struct Label {
    std::int32_t size = 0;
    std::string text;
    std::vector<std::uint8_t> dots;
};
struct Course {
    std::int32_t heading = 0;
    std::string plan;
};
struct Goal {
    ecs::Entity entity;
};
struct Speed {
    float x = 0;
};
struct Slide {
    float x = 0;
};
struct Likes {
    static constexpr auto relation = ecs::many;
};
struct Flag {};

/// Returns the shape of the components with these names.
const Shape* shape_of(ShapeTable& shapes, std::initializer_list<std::string_view> names) {
    std::vector<ComponentIndex> set;
    const auto& all = shapes.schema().components();
    for (ComponentIndex i = 0; i < all.size(); ++i)
        if (std::find(names.begin(), names.end(), all[i].name) != names.end()) set.push_back(i);
    EXPECT_EQ(set.size(), names.size());
    return shapes.shape(set);
}

TEST(Shape, KnowsWhatItsComponentsAre) {
    Schema schema;
    schema.component<Spot>("spot");
    schema.component<Label>("label");
    schema.optional<Label>();
    schema.component<Course>("course", from_owner());
    schema.component<Goal>("goal");
    schema.pair<Likes>("likes");
    schema.tag<Flag>("flag", to_group(0));
    schema.tag<Mine>("mine", to_owner());
    ASSERT_EQ(schema.error(), "");
    ShapeTable shapes(schema);
    const auto expect = [&](std::initializer_list<std::string_view> names, bool has_references,
                            bool has_pairs, bool has_optional, bool has_owned, bool is_restricted) {
        SCOPED_TRACE(names.size() == 0 ? "nothing" : *names.begin());
        const Shape& shape = *shape_of(shapes, names);
        EXPECT_EQ(shape.has_references, has_references);
        EXPECT_EQ(shape.has_pairs, has_pairs);
        EXPECT_EQ(shape.has_optional, has_optional);
        EXPECT_EQ(shape.has_owned, has_owned);
        EXPECT_EQ(shape.is_restricted, is_restricted);
        EXPECT_FALSE(shape.is_delayed);
    };
    expect({}, false, false, false, false, false);
    expect({"spot"}, false, false, false, false, false);
    expect({"label"}, false, false, true, false, false);
    expect({"course"}, false, false, false, true, true);
    expect({"goal"}, true, false, false, false, false);
    expect({"likes"}, true, true, false, false, false);
    expect({"flag"}, false, false, false, false, true);
    expect({"spot", "label", "goal", "likes"}, true, true, true, false, false);
    expect({"spot", "label", "course", "goal", "likes", "flag", "mine"}, true, true, true, true, true);
}

// A client shows the entities that it predicts at once. The names decide the order of the components.
TEST(Shape, IsDelayedIfAComponentIsMixedUnlessTheClientPredictsTheEntity) {
    for (const std::string_view mine : {"me", "mine", "own", "player", "yours"}) {
        SCOPED_TRACE(mine);
        Schema schema;
        schema.component<Spot>("spot");
        schema.component<Slide>("slide", linear());
        schema.component<Speed>("speed", predicted());
        schema.tag<Mine>(mine, to_owner());
        ASSERT_EQ(schema.error(), "");
        ShapeTable shapes(schema);
        const auto is_delayed = [&](std::initializer_list<std::string_view> names) {
            return shape_of(shapes, names)->is_delayed;
        };
        EXPECT_FALSE(is_delayed({"spot", "speed", mine}));
        EXPECT_TRUE(is_delayed({"slide"}));
        EXPECT_TRUE(is_delayed({"slide", "spot"}));
        EXPECT_TRUE(is_delayed({"slide", "speed"}));
        EXPECT_TRUE(is_delayed({"slide", mine}));
        EXPECT_TRUE(is_delayed({"slide", "shoal.to_predict"}));
        EXPECT_FALSE(is_delayed({"slide", "speed", mine}));
        EXPECT_FALSE(is_delayed({"slide", "speed", "shoal.to_predict"}));
    }
}

TEST(Shape, FindsExactlyItsComponents) {
    Shape shape;
    shape.components = {0, 1, 3, 4};
    shape.components.pop_back();  // leaves the 4 behind the last component
    const std::uint32_t absent = Shape::kAbsent, expected[] = {0, 1, absent, 2, absent, absent};
    for (ComponentIndex i = 0; i < 6; ++i) EXPECT_EQ(shape.find(i), expected[i]) << i;
    shape.components = {0, 1, 2};
    shape.components.pop_back();
    EXPECT_EQ(shape.find(2), absent);
}

/// What an entity has of four components.
struct Kinds {
    std::optional<Spot> spot;
    std::optional<Label> label;
    std::optional<Course> course;
    bool has_flag = false;
};

/// Makes images of Kinds.
class Album {
public:
    explicit Album(ViewClasses of_course = to_everyone()) {
        schema.component<Spot>("spot", to_group(0));
        schema.component<Label>("label", to_owner() | to_group(1));
        schema.component<Course>("course", from_owner(), of_course);
        schema.tag<Flag>("flag", to_group(3));
        schema.tag<Mine>("mine", to_owner());
        EXPECT_EQ(schema.error(), "");
    }
    Image image(const Kinds& kinds) {
        std::vector<ComponentIndex> set;
        std::vector<std::uint32_t>& words = words_.emplace_back();
        std::vector<std::uint32_t> parts;
        const auto add = [&](ComponentIndex index, const void* value) {
            set.push_back(index);
            const ComponentLayout& layout = schema.components()[index].layout;
            const std::size_t first = words.size();
            words.resize(first + layout.lanes().size());
            if (!layout.empty()) layout.quantise(value, map_, words.data() + first, parts, misfits_);
        };
        for (ComponentIndex i = 0; i < schema.components().size(); ++i) {
            const std::string& name = schema.components()[i].name;
            if (name == "spot" && kinds.spot) add(i, &*kinds.spot);
            if (name == "label" && kinds.label) add(i, &*kinds.label);
            if (name == "course" && kinds.course) add(i, &*kinds.course);
            if (name == "flag" && kinds.has_flag) add(i, nullptr);
        }
        words.insert(words.end(), parts.begin(), parts.end());
        return {shapes.shape(set), words};
    }

    Schema schema;
    ShapeTable shapes{schema};

private:
    NoEntities map_;
    ComponentLayout::Misfits misfits_;
    std::deque<std::vector<std::uint32_t>> words_;
};

/// The Kinds in which bit n of `has` says whether there is component n. Values of components with a bit in
/// `changed` are others.
Kinds kinds_of(unsigned has, unsigned changed = 0) {
    Kinds out;
    if (has & 1) out.spot = changed & 1 ? Spot{1, 3} : Spot{1, 2};
    if (has & 2) out.label = changed & 2 ? Label{4, "label", {1, 2, 4}} : Label{4, "label", {1, 2, 3}};
    if (has & 4) out.course = changed & 4 ? Course{8, "straight"} : Course{7, "straight"};
    out.has_flag = has & 8;
    return out;
}

TEST(Image, IsEqualIfComponentsAndValuesAreEqual) {
    Album album;
    const Kinds all = kinds_of(15);
    const Image image = album.image(all);
    EXPECT_EQ(image, album.image(all));
    for (const unsigned component : {1u, 2u, 4u}) EXPECT_NE(image, album.image(kinds_of(15, component)));
    for (const unsigned component : {1u, 2u, 4u, 8u}) EXPECT_NE(image, album.image(kinds_of(15 - component)));
    EXPECT_EQ(Image{}, Image{});
    EXPECT_NE(album.image({}), Image{});
    Kinds longer = all;
    longer.label->text += 'l';
    EXPECT_NE(image, album.image(longer));
}

TEST(ImageCursor, SeeksForwardToAComponentWithItsLanesAndParts) {
    Album album;
    const auto index = [&]<class T>(std::type_identity<T>) {
        return static_cast<ComponentIndex>(album.schema.find<T>());
    };
    const ComponentIndex of_label = index(std::type_identity<Label>{});
    const Image with = album.image(kinds_of(15)), without = album.image(kinds_of(13));
    ImageCursor label(album.schema, with);
    ASSERT_TRUE(label.seek(of_label));
    EXPECT_TRUE(label.seek(of_label)) << "stays";
    EXPECT_EQ(label.lanes()[0], 4u);
    EXPECT_EQ(label.part_words(), 1u + 5 + 1 + 3);
    EXPECT_EQ(label.parts()[0], 5u);
    EXPECT_EQ(label.parts()[1], std::uint32_t{'l'});
    EXPECT_EQ(label.parts()[6], 3u);
    ImageCursor other(album.schema, without);
    EXPECT_FALSE(other.seek(of_label));
    EXPECT_TRUE(other.at_end() || other.component() > of_label);
    ImageCursor last(album.schema, with);
    EXPECT_FALSE(last.seek(kMaxComponents));
    EXPECT_TRUE(last.at_end());
    EXPECT_TRUE(ImageCursor(album.schema, Image{}).at_end());
}

TEST(SameValue, ComparesLanesAndParts) {
    Album album;
    const auto are_same = [&](const Label& a, const Label& b) {
        Kinds left = kinds_of(15), right = kinds_of(15, 15);
        left.label = a;
        right.label = b;
        const Image images[] = {album.image(left), album.image(right)};
        ImageCursor of_a(album.schema, images[0]), of_b(album.schema, images[1]);
        const auto index = static_cast<ComponentIndex>(album.schema.find<Label>());
        EXPECT_TRUE(of_a.seek(index) && of_b.seek(index));
        EXPECT_EQ(same_value(of_b, of_a), same_value(of_a, of_b));
        return same_value(of_a, of_b);
    };
    const Label label{4, "label", {1, 2, 3}};
    EXPECT_TRUE(are_same(label, label));
    EXPECT_TRUE(are_same({}, {}));
    for (const Label& other :
         {Label{5, "label", {1, 2, 3}}, Label{4, "lab", {1, 2, 3}}, Label{4, "labels", {1, 2, 3}},
          Label{4, "lapel", {1, 2, 3}}, Label{4, "label", {1, 2}}, Label{4, "label", {1, 2, 4}},
          Label{4, "label", {}}, Label{4, "", {1, 2, 3}}})
        EXPECT_FALSE(are_same(label, other));
}

// All pairs of sets of components, and all sets of changed values.
TEST(ViewersOfChange, AreThoseOfComponentsThatWereAddedRemovedOrChanged) {
    struct Case {
        ViewClasses of_course, of_its_value;
    };
    for (const Case& one :
         {Case{to_everyone(), to_others()}, Case{to_others(), to_others()}, Case{to_owner(), {}},
          Case{to_owner() | to_group(2), to_group(2)}, Case{to_owner() | to_predictors(), to_predictors()},
          Case{to_others() | to_group(2), to_others()}}) {
        Album album(one.of_course);
        const ViewClasses of_label = to_owner() | to_group(1);
        const ViewClasses viewers[] = {to_group(0), of_label, one.of_course, to_group(3)};
        const ViewClasses value_viewers[] = {to_group(0), of_label, one.of_its_value, {}};
        for (unsigned before = 0; before < 16; ++before)
            for (unsigned now = 0; now < 16; ++now)
                for (unsigned changed = 0; changed < 8; ++changed) {
                    ViewClasses expected;
                    for (unsigned i = 0; i < 4; ++i) {
                        const bool had = before >> i & 1, has = now >> i & 1;
                        if (had != has) expected = expected | viewers[i];
                        if (had && has && (changed >> i & 1)) expected = expected | value_viewers[i];
                    }
                    ASSERT_EQ(viewers_of_change(album.schema, album.image(kinds_of(before)),
                                                album.image(kinds_of(now, changed))),
                              expected)
                        << before << " became " << now << ", changed " << changed;
                }
        EXPECT_EQ(viewers_of_change(album.schema, Image{}, album.image(kinds_of(5))),
                  to_group(0) | one.of_course)
            << "no state before";
    }
}

TEST(VisiblePart, HasTheComponentsThatTheViewShows) {
    Album album(to_others());
    const std::size_t count = album.schema.components().size();
    const ViewClasses classes[] = {to_group(0), to_group(1), to_others(), to_group(3)};
    const std::size_t indices[] = {album.schema.find<Spot>(), album.schema.find<Label>(),
                                   album.schema.find<Course>(), album.schema.find<Flag>()};
    std::vector<std::uint32_t> words;
    for (unsigned has = 0; has < 16; ++has)
        for (unsigned seen = 0; seen < 16; ++seen)
            for (unsigned known = 0; known < 16; ++known) {
                View view{{}, nullptr};
                ComponentNumbers numbers(count, 0);
                for (unsigned i = 0; i < 4; ++i) {
                    if (seen >> i & 1) view.classes = view.classes | classes[i];
                    if (!(known >> i & 1)) numbers[indices[i]] = kUnknownComponent;
                }
                const Image image = album.image(kinds_of(has));
                ASSERT_EQ(visible_part(image, view, album.shapes, words), album.image(kinds_of(has & seen)));
                view.numbers = &numbers;
                ASSERT_EQ(visible_part(image, view, album.shapes, words),
                          album.image(kinds_of(has & seen & known)));
            }
}

TEST(View, IsOfTheOwnerOnlyIfItIsNotOfTheOthersToo) {
    EXPECT_TRUE((View{to_owner(), nullptr}).is_owner());
    EXPECT_TRUE((View{to_owner() | to_group(1), nullptr}).is_owner());
    EXPECT_FALSE((View{to_others(), nullptr}).is_owner());
    EXPECT_FALSE((View{to_group(0), nullptr}).is_owner());
    EXPECT_FALSE(View{}.is_owner()) << "everyone";
}

TEST(KeepOwned, TakesComponentsOfTheOwnerFromTheImageBeforeIfBothHaveThem) {
    Album album;
    std::vector<std::uint32_t> words;
    for (unsigned before = 0; before < 16; ++before)
        for (unsigned now = 0; now < 16; ++now) {
            Kinds old = kinds_of(before, 15), expected = kinds_of(now);
            if (old.course) old.course->plan = "another plan";
            if (old.course && expected.course) expected.course = old.course;
            ASSERT_EQ(keep_owned(album.schema, album.image(old), album.image(kinds_of(now)), words),
                      album.image(expected))
                << before << " became " << now;
        }
    EXPECT_EQ(keep_owned(album.schema, Image{}, album.image(kinds_of(15)), words), album.image(kinds_of(15)));
}

}  // namespace
}  // namespace shoal::replication::impl::image_test
