#include "replication/schema/options.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "replication/schema/schema.h"

namespace shoal::replication::impl::options_test {
namespace {

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

struct Hot {};

TEST(ComponentOptions, AnEmptyComponentTakesViewClassesOnly) {
    Schema to_some;
    to_some.component<Hot>("hot", to_owner());
    EXPECT_EQ(to_some.error(), "");
    EXPECT_EQ(to_some.components()[0].viewers, to_owner());
    const auto mix = [](const Hot& a, const Hot&, float) { return a; };
    std::vector<Schema> schemas(7);
    schemas[0].component<Hot>("hot", linear());
    schemas[1].component<Hot>("hot", shown_by(mix));
    schemas[2].component<Hot>("hot", predicted());
    schemas[3].component<Hot>("hot", predicted(0.5));
    schemas[4].component<Hot>("hot", to_owner(), from_owner());
    schemas[5].component<Hot>("hot", bounded(0, 1));
    schemas[6].component<Hot>("hot", max_length(3));
    for (std::size_t i = 0; i < schemas.size(); ++i)
        EXPECT_EQ(schemas[i].error(),
                  "component 'hot' is empty: of the options it takes only view classes and "
                  "everywhere()")
            << i;
}

TEST(ComponentOptions, DisplaysHaveTheirKindAndOnlyLinearHasACut) {
    EXPECT_EQ(linear(), (Display{Display::Kind::linear, 0}));
    EXPECT_EQ(linear(3), (Display{Display::Kind::linear, 3}));
    EXPECT_EQ(angular(), (Display{Display::Kind::angular, 0}));
    EXPECT_EQ(slerp(), (Display{Display::Kind::slerp, 0}));
    EXPECT_EQ(Display{}, (Display{Display::Kind::step, 0}));
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
    Schema around, first;
    around.component<Speed>("speed", shown_by(mix), Display{}, shown_by(mix));
    first.component<Speed>("speed", shown_by(mix), linear(), linear());
    for (const Schema* schema : {&around, &first}) EXPECT_EQ(schema->error(), two.error());
    EXPECT_EQ(good.components()[good.find<Speed>()].display, (Display{Display::Kind::own, 0}));
    empty.component<Speed>("speed", shown_by(std::function<Speed(const Speed&, const Speed&, float)>()));
    EXPECT_EQ(empty.error(), "component 'speed' is shown_by() an empty function");
}

}  // namespace
}  // namespace shoal::replication::impl::options_test
