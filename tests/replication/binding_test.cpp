#include "replication/schema/binding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tests/replication/support/bound_world.h"

namespace shoal::replication::impl::binding_test {

struct Gauge {
    std::int32_t value = 0;
    std::int32_t of_the_game = 0;  // does not replicate
};

/// Counts its objects.
struct Counted {
    Counted() { ++alive; }
    Counted(const Counted& other) : number(other.number) { ++alive; }
    Counted& operator=(const Counted&) = default;
    ~Counted() { --alive; }
    std::int32_t number = 0;
    static inline int alive = 0;
};

}  // namespace shoal::replication::impl::binding_test

template <>
struct shoal::replication::Replicate<shoal::replication::impl::binding_test::Gauge> {
    static auto fields(auto& gauge) { return std::tie(gauge.value); }
};
template <>
struct shoal::replication::Replicate<shoal::replication::impl::binding_test::Counted> {
    static auto fields(auto& counted) { return std::tie(counted.number); }
};

namespace shoal::replication::impl::binding_test {
namespace {

using sim::Aim;
using sim::Bag;
using sim::Health;
using sim::Name;
using sim::Position;
using sim::Secret;
using sim::Squad;
using sim::Wolf;

TEST(Binding, AgreesWithSeveralWorldsThatNumberTheirComponentsDifferently) {
    Schema schema;
    schema.component<Position>("position");
    schema.tag<Wolf>("wolf");
    ecs::World a, b;
    b.component<Secret>();
    const Binding in_a(a, schema), in_b(b, schema);
    ASSERT_EQ(in_a.ids().size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
        const bool is_tag = schema.components()[i].is_tag;
        EXPECT_EQ(in_a.ids()[i], is_tag ? a.component<Wolf>() : a.component<Position>());
        EXPECT_EQ(in_b.ids()[i], is_tag ? b.component<Wolf>() : b.component<Position>());
    }
}

TEST(Binding, PresentShapeIgnoresComponentsOutsideTheSchema) {
    BoundWorld bound;
    const ecs::Entity a = bound.spawn(Position{}, Wolf{}, Secret{});
    const ecs::Entity b = bound.spawn(Wolf{}, Position{});
    const ecs::Entity bare = bound.spawn(Secret{});
    const Shape* shape = bound.binding.current_shape(a, bound);
    EXPECT_EQ(shape->components.size(), 2u);
    EXPECT_EQ(bound.binding.current_shape(b, bound), shape);
    EXPECT_TRUE(bound.binding.current_shape(bare, bound)->components.empty());
}

TEST(Binding, RestoreAddsAllNewComponentsInOneOperation) {
    BoundWorld bound;
    const ecs::Entity from = bound.spawn(Position{1, 2, 3}, Name{"a name"}, Wolf{});
    const ecs::Entity to = bound.spawn();
    int hooks = 0;
    const ecs::Hook hook =
        bound.world.on_add<Position>([&](ecs::World& world, ecs::Entity entity, const Position& position) {
            EXPECT_EQ(position.y, 2);
            EXPECT_TRUE(world.has<Wolf>(entity) && world.has<Name>(entity));
            ++hooks;
        });
    bound.binding.restore(to, bound.picture_of(from).image(), Image{}, bound, false);
    EXPECT_EQ(hooks, 1);
    EXPECT_EQ(bound.world.get<Name>(to).text, bound.world.get<Name>(from).text);
    EXPECT_EQ(bound.picture_of(to).image(), bound.picture_of(from).image());
}

TEST(Binding, RestoreWritesOnlyWhatDiffersFromTheImageBefore) {
    BoundWorld bound;
    const ecs::Entity entity = bound.spawn(Position{1, 0, 0}, Name{"a"});
    const auto before = bound.picture_of(entity);
    bound.world.set(entity, Name{"b"});
    const auto now = bound.picture_of(entity);
    bound.world.set(entity, Position{5, 0, 0}, Name{"c"});
    int changes = 0;
    const ecs::Hook hook =
        bound.world.on_change<Name>([&](ecs::World&, ecs::Entity, const Name&) { ++changes; });
    bound.binding.restore(entity, now.image(), before.image(), bound, false);
    EXPECT_EQ(bound.world.get<Name>(entity).text, "b");
    EXPECT_EQ(bound.world.get<Position>(entity).x, 5) << "equal in both images: not written";
    EXPECT_EQ(changes, 1);
}

TEST(Binding, RestoreAddsAChangedComponentThatTheGameRemoved) {
    BoundWorld bound;
    const ecs::Entity entity = bound.spawn(Position{1, 0, 0}, Name{"a"});
    const auto before = bound.picture_of(entity);
    bound.world.set(entity, Name{"b"});
    const auto now = bound.picture_of(entity);
    bound.world.remove<Name>(entity);
    bound.binding.restore(entity, now.image(), before.image(), bound, false);
    EXPECT_EQ(bound.world.get<Name>(entity).text, "b");
}

TEST(Binding, RestoreTranslatesEqualReferencesAgainIfTheyChanged) {
    BoundWorld bound;
    const ecs::Entity target = bound.spawn(Position{1, 0, 0});
    const ecs::Entity aimer = bound.spawn(Position{1, 0, 0}, Aim{target, 1}, Squad{{target}, ""});
    const auto picture = bound.picture_of(aimer);
    bound.world.set(aimer, Position{2, 0, 0});
    bound.hides_all = true;
    bound.binding.restore(aimer, picture.image(), picture.image(), bound, false);
    EXPECT_EQ(bound.world.get<Aim>(aimer).target, target);
    bound.binding.restore(aimer, picture.image(), picture.image(), bound, true);
    EXPECT_EQ(bound.world.get<Aim>(aimer).target, ecs::Entity{});
    EXPECT_EQ(bound.world.get<Squad>(aimer).members[0], ecs::Entity{});
    EXPECT_EQ(bound.world.get<Position>(aimer).x, 2) << "a component without references";
}

TEST(Binding, RemovesWhatTheImageDoesNotHaveAnyMore) {
    BoundWorld bound;
    const ecs::Entity entity = bound.spawn(Position{}, Wolf{}, Name{}, Secret{});
    const auto before = bound.picture_of(entity);
    const auto now = bound.picture_of(bound.spawn(Position{}));
    bound.binding.finish(entity, now.image(), Image{}, bound, false);
    EXPECT_TRUE(bound.world.has<Wolf>(entity)) << "nothing was written yet";
    bound.binding.finish(entity, now.image(), before.image(), bound, false);
    EXPECT_EQ(bound.binding.current_shape(entity, bound), now.shape);
    EXPECT_TRUE(bound.world.has<Secret>(entity));
}

TEST(Binding, AHookMayDestroyTheEntityWhileItsComponentsAreRemoved) {
    BoundWorld bound;
    const ecs::Entity entity = bound.spawn(Wolf{}, Name{}, Aim{});
    const auto before = bound.picture_of(entity);
    const auto now = bound.picture_of(bound.spawn());
    const ecs::Hook hook = bound.world.on_remove<Name>(
        [&](ecs::World& world, ecs::Entity of, const Name&) { world.destroy(of); });
    bound.binding.finish(entity, now.image(), before.image(), bound, false);
    EXPECT_FALSE(bound.world.is_alive(entity));
}

TEST(Binding, VisitsEachReferenceThatIsNotNull) {
    BoundWorld bound;
    const ecs::Entity a = bound.spawn(), b = bound.spawn();
    const auto picture = bound.picture_of(bound.spawn(Aim{a, 1}, Squad{{b, {}, b}, ""}));
    std::vector<std::uint32_t> seen;
    const auto collect = [&](std::uint32_t net_id) { seen.push_back(net_id); };
    bound.binding.for_each_reference(picture.image(), collect);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, (std::vector<std::uint32_t>{1, 2, 2}));
    bound.binding.for_each_reference(Image{}, collect);
    bound.binding.for_each_reference(bound.picture_of(a).image(), collect);
    EXPECT_EQ(seen.size(), 3u);
}

TEST(Binding, CaptureReadsOnlyWhatChangedAndNamesTheTargets) {
    BoundWorld bound;
    std::vector<ComponentIndex> none, aims;
    for (ComponentIndex i = 0; i < bound.schema.components().size(); ++i)
        if (bound.schema.components()[i].name == "aim") aims.push_back(i);
    const ecs::Entity target = bound.spawn(), other = bound.spawn();
    const ecs::Entity entity = bound.spawn(at(1), Aim{target, 1});
    const auto first = bound.binding.capture(entity, {{}, none, false}, bound);
    EXPECT_TRUE(first.has_targets);
    EXPECT_EQ(std::vector(first.targets.begin(), first.targets.end()), std::vector{target});
    const std::vector<std::uint32_t> words(first.image.words.begin(), first.image.words.end());
    const Image before{first.image.shape, words};
    EXPECT_EQ(before, bound.picture_of(entity).image());

    bound.world.set(entity, at(2), Aim{other, 2});
    const auto nothing = bound.binding.capture(entity, {before, none, false}, bound);
    EXPECT_EQ(nothing.image, before);
    EXPECT_FALSE(nothing.has_targets);
    for (const bool by_reference : {false, true}) {
        const auto aimed =
            bound.binding.capture(entity, {before, by_reference ? none : aims, by_reference}, bound);
        EXPECT_TRUE(aimed.has_targets);
        EXPECT_EQ(std::vector(aimed.targets.begin(), aimed.targets.end()), std::vector{other});
        bound.world.set(entity, at(1));
        EXPECT_EQ(aimed.image, bound.picture_of(entity).image());  // the position of the last image
        bound.world.set(entity, at(2));
    }
}

TEST(Binding, CaptureSeesComponentsAndTagsThatWereAddedOrRemoved) {
    BoundWorld bound;
    const ecs::Entity entity = bound.spawn(at(1));
    const auto expect_seen = [&](std::string_view name, auto&& change) {
        SCOPED_TRACE(name);
        const auto before = bound.picture_of(entity);
        change();
        const auto now = bound.picture_of(entity);
        ASSERT_NE(now.shape, before.shape);
        const std::vector<ComponentIndex> changed = bound.only(name);
        EXPECT_EQ(bound.binding.capture(entity, {before.image(), changed, false}, bound).image, now.image());
    };
    expect_seen("wolf", [&] { bound.world.add<Wolf>(entity); });
    expect_seen("name", [&] { bound.world.set(entity, Name{"a"}); });
    expect_seen("counters", [&] { bound.world.set(entity, sim::Counters{}); });
    expect_seen("position", [&] { bound.world.remove<Position>(entity); });
    expect_seen("name", [&] { bound.world.remove<Name>(entity); });
    expect_seen("wolf", [&] { bound.world.remove<Wolf>(entity); });
}

TEST(Binding, CaptureFindsAChangedComponentBehindChangedOnesThatTheEntityLacks) {
    BoundWorld bound;
    std::vector<ComponentIndex> all;
    for (ComponentIndex i = 0; i < bound.schema.components().size(); ++i) all.push_back(i);
    const auto expect_found = [&](auto first, auto second) {
        const ecs::Entity entity = bound.spawn(first);
        const auto before = bound.picture_of(entity);
        bound.world.set(entity, second);
        const auto now = bound.picture_of(entity);
        ASSERT_NE(now.image(), before.image());
        EXPECT_EQ(bound.binding.capture(entity, {before.image(), all, false}, bound).image, now.image());
    };
    expect_found(at(1), at(2));
    expect_found(Name{"a"}, Name{"b"});
    expect_found(Aim{{}, 1}, Aim{{}, 2});
    expect_found(Squad{{}, "a"}, Squad{{}, "b"});
}

TEST(Binding, CaptureNamesAllTargetsAlsoIfOnlyOneOfSeveralReferrersChanged) {
    BoundWorld bound;
    const ecs::Entity old = bound.spawn(), fresh = bound.spawn(), member = bound.spawn();
    const ecs::Entity entity = bound.spawn(Aim{old, 1}, Squad{{member}, ""});
    const auto before = bound.picture_of(entity);
    bound.world.set(entity, Aim{fresh, 1});
    const std::vector targets{fresh, member};
    for (const bool is_aim : {true, false}) {
        const std::vector<ComponentIndex> changed = bound.only(is_aim ? "aim" : "squad");
        const auto capture = bound.binding.capture(entity, {before.image(), changed, false}, bound);
        ASSERT_TRUE(capture.has_targets);
        EXPECT_TRUE(std::is_permutation(capture.targets.begin(), capture.targets.end(), targets.begin(),
                                        targets.end()));
    }
}

TEST(Binding, CaptureReadsChangedComponentsWithBothLanesAndParts) {
    BoundWorld bound;
    const ecs::Entity entity = bound.spawn(at(1), Bag{{{1, 2, false}}, 3});
    const auto before = bound.picture_of(entity);
    for (const Bag& bag : {Bag{{{1, 2, true}}, 3}, Bag{{}, 4}, Bag{{{1, 2, false}, {5, 6, true}}, 3}}) {
        bound.world.set(entity, Bag(bag));
        const auto now = bound.picture_of(entity);
        EXPECT_EQ(bound.binding.capture(entity, {before.image(), bound.only("bag"), false}, bound).image,
                  now.image());
    }
}

TEST(Binding, CaptureTakesAllThatIsNotNamedAsChangedFromTheImageBefore) {
    const auto fill = [](BoundWorld& bound, ecs::Entity entity, ecs::Entity target, int number) {
        bound.world.set(entity, at(static_cast<float>(number)));
        bound.world.set(entity, Health{number, 0});
        bound.world.set(entity, Name{std::string(static_cast<std::size_t>(number), 'n')});
        bound.world.set(entity, Bag{{{1, number, false}}, number});
        bound.world.set(entity, Aim{target, 0});
        bound.world.set(entity, Squad{{target, target}, "a"});
    };
    for (const std::string_view name : {"position", "health", "name", "bag", "aim", "squad"}) {
        SCOPED_TRACE(name);
        BoundWorld bound;
        const ecs::Entity old = bound.spawn(), fresh = bound.spawn(), entity = bound.spawn(),
                          expected = bound.spawn();
        fill(bound, entity, old, 1);
        const auto before = bound.picture_of(entity);
        fill(bound, entity, fresh, 2);
        bound.world.add<Wolf>(entity);
        fill(bound, expected, old, 1);
        if (name == "position") bound.world.set(expected, at(2));
        if (name == "health") bound.world.set(expected, Health{2, 0});
        if (name == "name") bound.world.set(expected, Name{"nn"});
        if (name == "bag") bound.world.set(expected, Bag{{{1, 2, false}}, 2});
        if (name == "aim" || name == "squad") {  // both have references
            bound.world.set(expected, Aim{fresh, 0});
            bound.world.set(expected, Squad{{fresh, fresh}, "a"});
        }
        const auto capture = bound.binding.capture(entity, {before.image(), bound.only(name), false}, bound);
        EXPECT_EQ(capture.image, bound.picture_of(expected).image());
        EXPECT_EQ(capture.has_targets, name == "aim" || name == "squad");
    }
}

TEST(Binding, CaptureNamesTheTargetsIfAnyOfSeveralChangedComponentsHasReferences) {
    for (const std::string_view name : {"aim", "squad"}) {
        BoundWorld bound;
        const ecs::Entity target = bound.spawn();
        const ecs::Entity entity = bound.spawn(at(1), Health{}, Name{}, Bag{}, sim::Mood{}, Wolf{});
        if (name == "aim") bound.world.set(entity, Aim{target, 1});
        if (name == "squad") bound.world.set(entity, Squad{{{}, target, {}}, ""});
        const auto before = bound.picture_of(entity);
        std::vector<ComponentIndex> changed = bound.only(name);
        for (const std::string_view other : {"position", "health", "name", "bag", "mood", "wolf"})
            changed.push_back(bound.only(other)[0]);
        std::sort(changed.begin(), changed.end());
        const auto capture = bound.binding.capture(entity, {before.image(), changed, false}, bound);
        EXPECT_TRUE(capture.has_targets);
        EXPECT_EQ(std::vector(capture.targets.begin(), capture.targets.end()), std::vector{target});
    }
}

TEST(Binding, CaptureComponentGivesItsLanesAndParts) {
    BoundWorld bound;
    const ecs::Entity entity = bound.spawn(at(1), Bag{{{1, 2, true}, {3, 4, false}}, 5}, Wolf{});
    for (const std::string_view name : {"position", "bag", "wolf"}) {
        SCOPED_TRACE(name);
        const auto picture = bound.picture_of(entity);
        ImageCursor cursor(bound.schema, picture.image());
        ASSERT_TRUE(cursor.seek(bound.only(name)[0]));
        std::vector<std::uint32_t> words{7, 7, 7}, expected;
        expected.assign(cursor.lanes(), cursor.lanes() + cursor.layout().lanes().size());
        expected.insert(expected.end(), cursor.parts(), cursor.parts() + cursor.part_words());
        EXPECT_TRUE(bound.binding.capture_component(entity, cursor.component(), bound, words));
        EXPECT_EQ(words, expected);
        words = {7, 7};
        EXPECT_FALSE(bound.binding.capture_component(entity, bound.only("name")[0], bound, words));
        EXPECT_TRUE(words.empty());
    }
}

Schema own_types_schema() {
    Schema schema;
    schema.component<Gauge>("gauge");
    schema.component<Counted>("counted");
    schema.component<Name>("name");
    return schema;
}

TEST(Binding, FieldsThatDoNotReplicateKeepTheirValues) {
    BoundWorld bound(own_types_schema());
    const ecs::Entity entity = bound.spawn(Gauge{1, 5});
    const auto before = bound.picture_of(entity);
    bound.world.set(entity, Gauge{2, 6});
    const auto now = bound.picture_of(entity);
    bound.world.set(entity, Gauge{1, 7});
    bound.binding.restore(entity, now.image(), before.image(), bound, false);
    EXPECT_EQ(bound.world.get<Gauge>(entity).value, 2);
    EXPECT_EQ(bound.world.get<Gauge>(entity).of_the_game, 7);
    bound.binding.restore_component(entity, before.image(), bound.index<Gauge>(), bound);
    EXPECT_EQ(bound.world.get<Gauge>(entity).value, 1);
    EXPECT_EQ(bound.world.get<Gauge>(entity).of_the_game, 7);
    const ecs::Entity other = bound.spawn();
    bound.binding.restore(other, now.image(), Image{}, bound, false);
    EXPECT_EQ(bound.world.get<Gauge>(other).of_the_game, 0) << "a new component has the default";
}

TEST(Binding, DestroysTheValuesThatItMadeForNewComponents) {
    {
        BoundWorld bound(own_types_schema());
        const ecs::Entity from = bound.spawn(Counted{}, Name{"a"});
        for (int i = 0; i < 3; ++i)
            bound.binding.restore(bound.spawn(), bound.picture_of(from).image(), Image{}, bound, false);
        bound.binding.restore_component(bound.spawn(), bound.picture_of(from).image(), bound.index<Counted>(),
                                        bound);
        EXPECT_EQ(Counted::alive, 5) << "those in the world";
    }
    EXPECT_EQ(Counted::alive, 0);
    {
        Schema schema;
        schema.input<Counted>("counted");
        BoundWorld bound(std::move(schema));
        const ecs::Entity entity = bound.spawn();
        bound.binding.restore(entity, bound.picture_of(bound.spawn(Counted{})).image(), Image{}, bound,
                              false);
        EXPECT_TRUE(bound.world.has<Counted>(entity));
        EXPECT_EQ(Counted::alive, 2);
    }
    EXPECT_EQ(Counted::alive, 0);
}

TEST(Binding, AMisfitCountsOncePerCapture) {
    for (const std::string_view beside : {"name", "bag", "aim", "squad"}) {
        SCOPED_TRACE(beside);
        BoundWorld bound;
        const ecs::Entity entity = bound.spawn(Health{}, at(1), Name{}, Bag{}, Aim{}, Squad{});
        const auto before = bound.picture_of(entity);
        bound.world.set(entity, Health{1'000'000, 0});
        bound.world.set(entity, at(1e9f));
        std::vector<ComponentIndex> changed;
        for (const std::string_view name : {std::string_view("health"), std::string_view("position"), beside})
            changed.push_back(bound.only(name)[0]);
        std::sort(changed.begin(), changed.end());
        bound.binding.capture(entity, {before.image(), changed, false}, bound);
        EXPECT_EQ(bound.binding.misfits(), (ComponentLayout::Misfits{0, 2}));
    }
}

TEST(Binding, RemoveOthersRemovesEveryComponentThatIsNeitherInTheImageNorHeld) {
    const auto expect_left = [](auto component, bool is_held) {
        using T = decltype(component);
        BoundWorld bound;
        const ecs::Entity entity =
            bound.spawn(Health{}, at(1), Name{}, Bag{}, Aim{}, Squad{}, Wolf{}, sim::Counters{}, sim::Mood{},
                        sim::Body{}, sim::Raw{}, sim::Velocity{}, sim::Hold{}, sim::Frozen{}, Secret{});
        ASSERT_EQ(bound.picture_of(entity).shape->components.size(), bound.schema.components().size());
        const auto now = is_held ? bound.picture_of(bound.spawn()) : bound.picture_of(bound.spawn(component));
        const std::vector<ComponentIndex> held{bound.index<T>()};
        bound.binding.remove_others(entity, now.image(), bound,
                                    is_held ? held : std::vector<ComponentIndex>());
        EXPECT_EQ(bound.picture_of(entity).shape->components, held);
        EXPECT_TRUE(bound.world.has<Secret>(entity));
    };
    for (const bool is_held : {false, true}) {
        expect_left(Health{}, is_held);
        expect_left(Wolf{}, is_held);
        expect_left(Name{}, is_held);
    }
    BoundWorld bound;
    const ecs::Entity entity = bound.spawn(Health{}, at(1), Name{}, Wolf{});
    const auto bare = bound.picture_of(bound.spawn());
    bound.binding.remove_others(entity, bare.image(), bound);
    EXPECT_EQ(bound.binding.current_shape(entity, bound), bare.shape);
}

TEST(Binding, AHookMayDestroyTheEntityWhileOtherComponentsAreRemoved) {
    BoundWorld bound;
    const ecs::Entity entity = bound.spawn(Health{}, at(1), Name{}, Wolf{});
    const auto bare = bound.picture_of(bound.spawn());
    const ecs::Hook hook = bound.world.on_remove<Position>(
        [&](ecs::World& world, ecs::Entity of, const Position&) { world.destroy(of); });
    bound.binding.remove_others(entity, bare.image(), bound);
    EXPECT_FALSE(bound.world.is_alive(entity));
}

TEST(Binding, RestoreComponentSetsAddsOrRemovesExactlyOne) {
    BoundWorld bound;
    const ecs::Entity full = bound.spawn(at(1), Wolf{}, Name{"a"}), entity = bound.spawn();
    const auto image = bound.picture_of(full), bare = bound.picture_of(entity);
    const auto restore = [&]<class T>(std::type_identity<T>, const BoundWorld::Picture& picture) {
        bound.binding.restore_component(entity, picture.image(), bound.index<T>(), bound);
    };
    restore(std::type_identity<Wolf>{}, image);
    restore(std::type_identity<Name>{}, image);
    EXPECT_TRUE(bound.world.has<Wolf>(entity));
    EXPECT_EQ(bound.world.get<Name>(entity).text, "a");
    EXPECT_FALSE(bound.world.has<Position>(entity));
    bound.world.set(entity, at(5), Name{"b"});
    int added = 0, changed = 0;
    const ecs::Hook on_add = bound.world.on_add<Wolf>([&](ecs::World&, ecs::Entity) { ++added; });
    const ecs::Hook on_change =
        bound.world.on_change<Name>([&](ecs::World&, ecs::Entity, const Name&) { ++changed; });
    restore(std::type_identity<Name>{}, image);
    restore(std::type_identity<Wolf>{}, image);
    EXPECT_EQ(bound.world.get<Name>(entity).text, "a");
    EXPECT_EQ(bound.world.get<Position>(entity).x, 5);
    EXPECT_EQ(changed, 1);
    EXPECT_EQ(added, 0) << "the entity has it";
    restore(std::type_identity<Name>{}, bare);
    restore(std::type_identity<Wolf>{}, bare);
    restore(std::type_identity<sim::Mood>{}, bare);
    EXPECT_FALSE(bound.world.has<Name>(entity) || bound.world.has<Wolf>(entity));
    EXPECT_TRUE(bound.world.has<Position>(entity));
}

}  // namespace
}  // namespace shoal::replication::impl::binding_test
