#include "replication/schema/binding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tests/replication/support/relations.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::binding_test {

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

}  // namespace shoal::replication::binding_test

template <>
struct shoal::replication::Replicate<shoal::replication::binding_test::Gauge> {
    static auto fields(auto& gauge) { return std::tie(gauge.value); }
};
template <>
struct shoal::replication::Replicate<shoal::replication::binding_test::Counted> {
    static auto fields(auto& counted) { return std::tie(counted.number); }
};

namespace shoal::replication::binding_test {
namespace {

using relations::Escorts;
using relations::Knows;
using relations::Owes;
using relations::PartOf;

using sim::Aim;
using sim::Bag;
using sim::Health;
using sim::Name;
using sim::Position;
using sim::Secret;
using sim::Squad;
using sim::Wolf;

/// A world in which entity n has net id n + 1.
class BoundWorld : public EntityMap {
public:
    explicit BoundWorld(Schema of = game_schema()) : schema(std::move(of)) {}

    std::uint32_t to_net(ecs::Entity entity) override {
        return entity && entity != hidden ? entity.index + 1 : 0;
    }
    ecs::Entity to_entity(std::uint32_t net_id) override {
        if (hides_all || net_id == 0 || entities[net_id - 1] == hidden) return {};
        return entities[net_id - 1];
    }

    template <class... Ts>
    ecs::Entity spawn(Ts&&... values) {
        entities.push_back(world.spawn(std::forward<Ts>(values)...));
        return entities.back();
    }

    /// An entity's image and its words.
    struct Picture {
        Image image() const { return {shape, words}; }
        const Shape* shape = nullptr;
        std::vector<std::uint32_t> words;
    };
    Picture picture_of(ecs::Entity entity) {
        Picture out{binding.present_shape(entity, *this), {}};
        std::vector<std::uint32_t> parts;
        out.words.resize(out.shape->lane_words);
        for (std::size_t i = 0; i < out.shape->components.size(); ++i) {
            const ComponentIndex component = out.shape->components[i];
            const ComponentLayout& layout = binding.schema().components()[component].layout;
            ComponentLayout::Misfits misfits;
            if (!layout.empty())
                layout.quantise(world.try_get(entity, binding.ids()[component]), *this,
                                out.words.data() + out.shape->lanes[i], parts, misfits);
        }
        out.words.insert(out.words.end(), parts.begin(), parts.end());
        return out;
    }

    /// As picture_of(), also with pairs.
    Picture capture_of(ecs::Entity entity) {
        const Image image = binding.capture(entity, {}, *this).image;
        return {image.shape, {image.words.begin(), image.words.end()}};
    }

    template <class T>
    ComponentIndex index() const {
        return static_cast<ComponentIndex>(schema.find<T>());
    }
    std::vector<ComponentIndex> only(std::string_view name) const {
        ComponentIndex i = 0;
        while (schema.components()[i].name != name) ++i;
        return {i};
    }

    Schema schema;
    ecs::World world;
    Binding binding{world, schema};
    std::vector<ecs::Entity> entities;
    bool hides_all = false;  // to_entity() returns null
    ecs::Entity hidden;      // has no net id
};

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
    const Shape* shape = bound.binding.present_shape(a, bound);
    EXPECT_EQ(shape->components.size(), 2u);
    EXPECT_EQ(bound.binding.present_shape(b, bound), shape);
    EXPECT_TRUE(bound.binding.present_shape(bare, bound)->components.empty());
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
    EXPECT_EQ(bound.binding.present_shape(entity, bound), now.shape);
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
    EXPECT_EQ(bound.binding.present_shape(entity, bound), bare.shape);
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

struct Chained {
    static constexpr auto relation = ecs::many | ecs::destroy_with_target;
};
struct Trusts {
    static constexpr auto relation = ecs::many;
    ecs::Entity witness;
};

Schema bonds_schema() {
    Schema schema;
    schema.component<Health>("health");
    schema.component<Name>("name");
    schema.pair<Escorts>("escorts");
    schema.pair<Knows>("knows");
    schema.pair<Owes>("owes");
    schema.pair<PartOf>("part_of");
    schema.pair<Chained>("chained");
    schema.pair<Trusts>("trusts");
    return schema;
}

/// A world with relations and a few entities.
struct Bonds final : BoundWorld {
    Bonds() : BoundWorld(bonds_schema()) {}

    /// Makes the entity what `now` says, if it was `before`.
    void become(ecs::Entity entity, const Image& now, const Image& before,
                std::span<const ComponentIndex> held = {}) {
        binding.restore(entity, now, before, *this, false, held);
        binding.finish(entity, now, before, *this, false, held);
    }
    std::vector<ComponentIndex> sorted(std::vector<ComponentIndex> components) {
        std::sort(components.begin(), components.end());
        return components;
    }
    template <class R>
    bool has(ecs::Entity of, ecs::Entity target) {
        return world.has(of, ecs::to<R>(target));
    }

    const ecs::Entity source = spawn(), model = spawn(), a = spawn(), b = spawn(), c = spawn();
    const Picture bare = capture_of(source);
};

TEST(BindingPairs, OfHeldRelationsAreLeftAsTheyAre) {
    Bonds bonds;
    ecs::World& world = bonds.world;
    world.set(bonds.source, ecs::to<Escorts>(bonds.a), Escorts{1});
    world.set(bonds.source, ecs::to<Owes>(bonds.a), Owes{1, {}});
    world.add(bonds.source, ecs::to<Knows>(bonds.a));
    const auto before = bonds.capture_of(bonds.source);
    world.set(bonds.model, ecs::to<Escorts>(bonds.b), Escorts{2});
    world.add(bonds.model, ecs::to<Chained>(bonds.b));
    const auto now = bonds.capture_of(bonds.model);
    const auto held = bonds.sorted({bonds.index<Escorts>(), bonds.index<Knows>(), bonds.index<Chained>()});
    bonds.become(bonds.source, now.image(), before.image(), held);
    EXPECT_TRUE(bonds.has<Escorts>(bonds.source, bonds.a));
    EXPECT_TRUE(bonds.has<Knows>(bonds.source, bonds.a));
    EXPECT_FALSE(bonds.has<Chained>(bonds.source, bonds.b));
    EXPECT_FALSE(bonds.has<Owes>(bonds.source, bonds.a)) << "not held";
    bonds.become(bonds.source, now.image(), before.image());
    EXPECT_EQ(world.target<Escorts>(bonds.source), bonds.b);
    EXPECT_FALSE(bonds.has<Knows>(bonds.source, bonds.a));
    EXPECT_TRUE(bonds.has<Chained>(bonds.source, bonds.b));
}

TEST(BindingPairs, ChangeWithOneHookForEachChange) {
    Bonds bonds;
    int added = 0, changed = 0, removed = 0;
    using ecs::Entity, ecs::World;
    auto on_add = bonds.world.on_add<Escorts>([&](World&, Entity, Entity, const Escorts&) { ++added; });
    auto on_change =
        bonds.world.on_change<Escorts>([&](World&, Entity, Entity, const Escorts&) { ++changed; });
    auto on_remove =
        bonds.world.on_remove<Escorts>([&](World&, Entity, Entity, const Escorts&) { ++removed; });
    const auto escorting = [&](Entity target, float distance) {
        bonds.world.set(bonds.model, ecs::to<Escorts>(target), Escorts{distance});
        auto picture = bonds.capture_of(bonds.model);
        added = changed = removed = 0;
        return picture;
    };
    const auto counts = [&] { return std::vector{added, changed, removed}; };
    const auto first = escorting(bonds.a, 1);
    bonds.binding.restore(bonds.source, first.image(), bonds.bare.image(), bonds, false);
    EXPECT_EQ(bonds.world.target<Escorts>(bonds.source), bonds.a)
        << "a first target does not wait for finish()";
    bonds.binding.finish(bonds.source, first.image(), bonds.bare.image(), bonds, false);
    EXPECT_EQ(counts(), (std::vector{1, 0, 0}));
    const auto farther = escorting(bonds.a, 2);
    bonds.become(bonds.source, farther.image(), first.image());
    EXPECT_EQ(counts(), (std::vector{0, 1, 0}));
    bonds.become(bonds.source, farther.image(), farther.image());
    EXPECT_EQ(counts(), (std::vector{0, 1, 0})) << "nothing changed";
    bonds.binding.restore_component(bonds.source, first.image(), bonds.index<Escorts>(), bonds);
    EXPECT_EQ(counts(), (std::vector{0, 2, 0}));
    const auto other = escorting(bonds.b, 3);
    bonds.binding.restore(bonds.source, other.image(), farther.image(), bonds, false);
    EXPECT_EQ(bonds.world.target<Escorts>(bonds.source), bonds.a) << "until finish()";
    bonds.binding.finish(bonds.source, other.image(), farther.image(), bonds, false);
    EXPECT_EQ(bonds.world.get(bonds.source, ecs::to<Escorts>(bonds.b)).distance, 3);
    EXPECT_EQ(counts(), (std::vector{1, 0, 1}));
    bonds.binding.restore_component(bonds.source, first.image(), bonds.index<Escorts>(), bonds);
    EXPECT_EQ(bonds.world.get(bonds.source, ecs::to<Escorts>(bonds.a)).distance, 1);
    EXPECT_EQ(counts(), (std::vector{2, 0, 2}));
}

TEST(BindingPairs, AreWrittenIfTheirValueChangedOrTheirReferencesMeanOthers) {
    Bonds bonds;
    int changed = 0;
    const auto count = [&](ecs::World&, ecs::Entity, ecs::Entity, const auto&) { ++changed; };
    const ecs::Hook hooks[] = {bonds.world.on_change<Owes>(count), bonds.world.on_change<Trusts>(count),
                               bonds.world.on_change<Escorts>(count)};
    const auto fill = [&](ecs::Entity entity, std::int32_t coins_of_b) {
        bonds.world.set(entity, ecs::to<Owes>(bonds.a), Owes{1, bonds.c});
        bonds.world.set(entity, ecs::to<Owes>(bonds.b), Owes{coins_of_b, bonds.c});
        bonds.world.set(entity, ecs::to<Owes>(bonds.c), Owes{3, {}});
        bonds.world.set(entity, ecs::to<Trusts>(bonds.a), Trusts{bonds.c});
        bonds.world.set(entity, ecs::to<Escorts>(bonds.a), Escorts{1});
        const auto picture = bonds.capture_of(entity);
        changed = 0;
        return picture;
    };
    const auto before = fill(bonds.source, 2), now = fill(bonds.model, 9);
    bonds.become(bonds.source, now.image(), before.image());
    EXPECT_EQ(changed, 1) << "the pair to b";
    EXPECT_EQ(bonds.world.get(bonds.source, ecs::to<Owes>(bonds.b)).coins, 9);
    const auto restore = [&](bool references_changed) {
        changed = 0;
        bonds.binding.restore(bonds.source, now.image(), now.image(), bonds, references_changed);
        bonds.binding.finish(bonds.source, now.image(), now.image(), bonds, references_changed);
        return changed;
    };
    EXPECT_EQ(restore(false), 0);
    bonds.hidden = bonds.c;
    EXPECT_EQ(restore(true), 3) << "no value without references, and no pair without a target";
    EXPECT_FALSE(bonds.world.get(bonds.source, ecs::to<Owes>(bonds.a)).witness);
    EXPECT_FALSE(bonds.world.get(bonds.source, ecs::to<Owes>(bonds.b)).witness);
    EXPECT_FALSE(bonds.world.get(bonds.source, ecs::to<Trusts>(bonds.a)).witness);
}

TEST(BindingPairs, WithoutATargetInTheWorldAreLeftOutBesideOthers) {
    Bonds bonds;
    bonds.world.set(bonds.model, Health{3, 0});
    for (const ecs::Entity target : {bonds.a, bonds.b, bonds.c}) {
        bonds.world.add(bonds.model, ecs::to<Knows>(target));
        bonds.world.set(bonds.model, ecs::to<Owes>(target), Owes{static_cast<int>(target.index), {}});
    }
    bonds.world.set(bonds.model, ecs::to<Escorts>(bonds.b), Escorts{1});
    const auto now = bonds.capture_of(bonds.model);
    bonds.hidden = bonds.b;
    bonds.become(bonds.source, now.image(), bonds.bare.image());
    EXPECT_EQ(bonds.world.get<Health>(bonds.source).points, 3);
    EXPECT_FALSE(bonds.world.target<Escorts>(bonds.source));
    for (const ecs::Entity target : {bonds.a, bonds.c}) {
        EXPECT_TRUE(bonds.has<Knows>(bonds.source, target));
        EXPECT_EQ(bonds.world.get(bonds.source, ecs::to<Owes>(target)).coins, static_cast<int>(target.index));
    }
    EXPECT_EQ(bonds.world.targets<Knows>(bonds.source).size(), 2u);
    bonds.hidden = {};
    bonds.binding.restore(bonds.source, now.image(), now.image(), bonds, true);
    bonds.binding.finish(bonds.source, now.image(), now.image(), bonds, true);
    EXPECT_EQ(bonds.world.targets<Knows>(bonds.source).size(), 3u);
    EXPECT_EQ(bonds.world.get(bonds.source, ecs::to<Owes>(bonds.b)).coins, static_cast<int>(bonds.b.index));
    EXPECT_EQ(bonds.world.target<Escorts>(bonds.source), bonds.b);
}

// No server sends a relation without a target; a hostile one may.
TEST(BindingPairs, OfAnExclusiveRelationWithoutATargetAreNone) {
    Bonds bonds;
    const std::vector<ComponentIndex> escorts{bonds.index<Escorts>()};
    const std::vector<std::uint32_t> no_rows{0};
    const Image none{bonds.binding.shapes().shape(escorts), no_rows};
    bonds.become(bonds.source, none, bonds.bare.image());
    EXPECT_FALSE(bonds.world.target<Escorts>(bonds.source));
    bonds.world.set(bonds.model, ecs::to<Escorts>(bonds.a), Escorts{1});
    const auto one = bonds.capture_of(bonds.model);
    bonds.become(bonds.source, one.image(), none);
    EXPECT_EQ(bonds.world.target<Escorts>(bonds.source), bonds.a);
    bonds.become(bonds.source, none, one.image());
    EXPECT_FALSE(bonds.world.target<Escorts>(bonds.source));
    EXPECT_EQ(bonds.world.target<Escorts>(bonds.model), bonds.a);
    bonds.become(bonds.source, one.image(), none);
    bonds.binding.restore_component(bonds.source, none, escorts[0], bonds);
    EXPECT_FALSE(bonds.world.target<Escorts>(bonds.source));
}

TEST(BindingPairs, OfTheGameStayIfTheImageBeforeDoesNotHaveThem) {
    Bonds bonds;
    bonds.world.add(bonds.source, ecs::to<Knows>(bonds.a));
    auto before = bonds.capture_of(bonds.source);
    bonds.world.add(bonds.source, ecs::to<Knows>(bonds.b));
    const std::size_t count = before.words.size();
    before.words.push_back(bonds.to_net(bonds.b));  // behind the image
    const Image image{before.shape, std::span(before.words).first(count)};
    bonds.become(bonds.source, bonds.bare.image(), image);
    EXPECT_FALSE(bonds.has<Knows>(bonds.source, bonds.a));
    EXPECT_TRUE(bonds.has<Knows>(bonds.source, bonds.b));
    EXPECT_TRUE(bonds.binding.has_pair(image, bonds.index<Knows>(), bonds.to_net(bonds.a)));
    EXPECT_FALSE(bonds.binding.has_pair(image, bonds.index<Knows>(), bonds.to_net(bonds.b)));
}

TEST(BindingPairs, HasPairFindsEachTargetOfTheImage) {
    Bonds bonds;
    std::vector<ecs::Entity> targets;
    for (int i = 0; i < 9; ++i) targets.push_back(bonds.spawn());
    for (std::size_t i = 0; i < targets.size(); ++i)
        if (i % 2 == 1) bonds.world.set(bonds.source, ecs::to<Owes>(targets[i]), Owes{});
    const auto picture = bonds.capture_of(bonds.source);
    for (std::size_t i = 0; i < targets.size(); ++i) {
        const std::uint32_t net_id = bonds.to_net(targets[i]);
        EXPECT_EQ(bonds.binding.has_pair(picture.image(), bonds.index<Owes>(), net_id), i % 2 == 1) << i;
        EXPECT_FALSE(bonds.binding.has_pair(picture.image(), bonds.index<Knows>(), net_id));
    }
}

TEST(BindingPairs, OfManyTargetsLoseOnlyThoseThatTheImageDoesNotHaveAnyMore) {
    Bonds bonds;
    for (const ecs::Entity target : {bonds.a, bonds.b, bonds.c})
        bonds.world.add(bonds.source, ecs::to<Knows>(target));
    const auto before = bonds.capture_of(bonds.source);
    for (const ecs::Entity target : {bonds.a, bonds.c}) bonds.world.add(bonds.model, ecs::to<Knows>(target));
    const auto now = bonds.capture_of(bonds.model);
    bonds.become(bonds.source, now.image(), before.image());
    EXPECT_EQ(bonds.capture_of(bonds.source).image(), now.image());
}

TEST(BindingPairs, OfAnExclusiveRelationEndWithoutANewTargetInTheWorld) {
    Bonds bonds;
    bonds.world.set(bonds.source, ecs::to<Escorts>(bonds.a), Escorts{1});
    const auto at_a = bonds.capture_of(bonds.source);
    bonds.world.set(bonds.source, ecs::to<Escorts>(bonds.b), Escorts{1});
    const auto at_b = bonds.capture_of(bonds.source);
    bonds.world.set(bonds.source, ecs::to<Escorts>(bonds.a), Escorts{1});
    bonds.hidden = bonds.b;
    bonds.become(bonds.source, at_b.image(), at_a.image());
    EXPECT_FALSE(bonds.world.target<Escorts>(bonds.source)) << "the new target is not in the world";
    bonds.world.set(bonds.source, ecs::to<Escorts>(bonds.c), Escorts{1});  // by the game
    bonds.become(bonds.source, at_b.image(), at_b.image());
    EXPECT_EQ(bonds.world.target<Escorts>(bonds.source), bonds.c);
    bonds.hidden = {};
    bonds.become(bonds.source, at_b.image(), at_b.image());
    EXPECT_EQ(bonds.world.target<Escorts>(bonds.source), bonds.c) << "nothing changed";
    bonds.binding.restore(bonds.source, at_b.image(), at_b.image(), bonds, true);
    bonds.binding.finish(bonds.source, at_b.image(), at_b.image(), bonds, true);
    EXPECT_EQ(bonds.world.target<Escorts>(bonds.source), bonds.b) << "the server's replaces it";
    bonds.become(bonds.source, bonds.bare.image(), at_b.image());
    EXPECT_FALSE(bonds.world.target<Escorts>(bonds.source)) << "the image does not have the relation";
}

TEST(BindingPairs, AHookMayDestroyTheSourceOrATargetWhileOthersAreRemoved) {
    for (const bool is_source : {true, false}) {
        Bonds bonds;
        for (const ecs::Entity target : {bonds.a, bonds.b}) {
            bonds.world.set(bonds.source, ecs::to<Owes>(target), Owes{});
            bonds.world.set(bonds.source, ecs::to<Escorts>(target), Escorts{1});
            bonds.world.add(bonds.source, ecs::to<Knows>(target));
        }
        const auto before = bonds.capture_of(bonds.source);
        bonds.world.set(bonds.model, ecs::to<Escorts>(bonds.a), Escorts{1});
        const auto now = bonds.capture_of(bonds.model);
        const ecs::Hook hook = bonds.world.on_remove<Owes>(
            [&](ecs::World& world, ecs::Entity source, ecs::Entity target, const Owes&) {
                if (target == bonds.a) world.destroy(is_source ? source : bonds.b);
            });
        bonds.become(bonds.source, now.image(), before.image());
        EXPECT_EQ(bonds.world.is_alive(bonds.source), !is_source);
        EXPECT_TRUE(bonds.world.is_alive(bonds.a));
        if (is_source) continue;
        EXPECT_EQ(bonds.capture_of(bonds.source).image(), now.image());
    }
}

TEST(BindingPairs, RestoreComponentLeavesOnlyThePairsOfTheImage) {
    Bonds bonds;
    bonds.world.add(bonds.model, ecs::to<Knows>(bonds.a));
    bonds.world.add(bonds.model, ecs::to<Knows>(bonds.b));
    const auto image = bonds.capture_of(bonds.model);
    bonds.world.add(bonds.source, ecs::to<Knows>(bonds.b));
    bonds.world.add(bonds.source, ecs::to<Knows>(bonds.c));
    bonds.world.add(bonds.source, ecs::to<Chained>(bonds.c));
    const ComponentIndex knows = bonds.index<Knows>();
    bonds.binding.restore_component(bonds.source, image.image(), knows, bonds);
    EXPECT_TRUE(bonds.has<Knows>(bonds.source, bonds.a) && bonds.has<Knows>(bonds.source, bonds.b));
    EXPECT_FALSE(bonds.has<Knows>(bonds.source, bonds.c));
    EXPECT_TRUE(bonds.has<Chained>(bonds.source, bonds.c)) << "another relation";
    bonds.binding.restore_component(bonds.source, bonds.bare.image(), knows, bonds);
    EXPECT_EQ(bonds.world.targets<Knows>(bonds.source).size(), 0u);
    bonds.world.set(bonds.source, ecs::to<Escorts>(bonds.a), Escorts{1});
    const ecs::Hook hook = bonds.world.on_remove<Escorts>(
        [&](ecs::World& world, ecs::Entity of, ecs::Entity, const Escorts&) { world.destroy(of); });
    bonds.binding.restore_component(bonds.source, bonds.bare.image(), bonds.index<Escorts>(), bonds);
    EXPECT_FALSE(bonds.world.is_alive(bonds.source));
}

TEST(BindingPairs, RemoveOthersLeavesThoseOfTheImageAndOfHeldRelations) {
    Bonds bonds;
    bonds.world.add(bonds.model, ecs::to<Knows>(bonds.a));
    const auto now = bonds.capture_of(bonds.model);
    for (const ecs::Entity target : {bonds.a, bonds.b}) {
        bonds.world.add(bonds.source, ecs::to<Knows>(target));
        bonds.world.set(bonds.source, ecs::to<Owes>(target), Owes{});
        bonds.world.add(bonds.source, ecs::to<Chained>(target));
    }
    const std::vector<ComponentIndex> held{bonds.index<Owes>()};
    bonds.binding.remove_others(bonds.source, now.image(), bonds, held);
    EXPECT_TRUE(bonds.has<Knows>(bonds.source, bonds.a));
    EXPECT_FALSE(bonds.has<Knows>(bonds.source, bonds.b));
    EXPECT_EQ(bonds.world.targets<Owes>(bonds.source).size(), 2u) << "held";
    EXPECT_EQ(bonds.world.targets<Chained>(bonds.source).size(), 0u);
}

TEST(BindingPairs, ToAnEntityThatLostItsNetIdAreRemovedIfTheImageHasThem) {
    Bonds bonds;
    bonds.world.add(bonds.source, ecs::to<Knows>(bonds.a));
    bonds.world.set(bonds.source, ecs::to<Owes>(bonds.a), Owes{});
    bonds.world.add(bonds.source, ecs::to<Knows>(bonds.b));
    const auto now = bonds.capture_of(bonds.source);
    bonds.world.add(bonds.source, ecs::to<Chained>(bonds.a));  // of the game
    const std::vector<ComponentIndex> held{bonds.index<Owes>()};
    bonds.binding.remove_pairs_to(bonds.source, now.image(), bonds.a, bonds.to_net(bonds.a), held);
    EXPECT_FALSE(bonds.has<Knows>(bonds.source, bonds.a));
    EXPECT_TRUE(bonds.has<Knows>(bonds.source, bonds.b));
    EXPECT_TRUE(bonds.has<Owes>(bonds.source, bonds.a)) << "held";
    EXPECT_TRUE(bonds.has<Chained>(bonds.source, bonds.a)) << "not in the image";
    bonds.binding.remove_pairs_to(bonds.source, now.image(), bonds.c, bonds.to_net(bonds.a), {});
    EXPECT_TRUE(bonds.has<Owes>(bonds.source, bonds.a)) << "another entity";
    bonds.binding.remove_pairs_to(bonds.source, now.image(), bonds.a, bonds.to_net(bonds.a), {});
    EXPECT_FALSE(bonds.has<Owes>(bonds.source, bonds.a));
}

TEST(BindingPairs, WholesAreTheTargetsWithWhichTheSourceIsDestroyed) {
    Bonds bonds;
    const auto wholes = [&](const BoundWorld::Picture& picture) {
        const auto ids = bonds.binding.wholes(picture.image());
        std::vector<std::uint32_t> out(ids.begin(), ids.end());
        std::sort(out.begin(), out.end());
        return out;
    };
    const std::uint32_t id_a = bonds.to_net(bonds.a), id_b = bonds.to_net(bonds.b);
    ecs::World& world = bonds.world;
    EXPECT_TRUE(wholes(bonds.bare).empty());
    world.add(bonds.source, ecs::to<Knows>(bonds.c));
    const auto knows = bonds.capture_of(bonds.source);
    EXPECT_TRUE(wholes(knows).empty());
    world.add(bonds.source, ecs::to<PartOf>(bonds.a));
    const auto part = bonds.capture_of(bonds.source);
    EXPECT_EQ(wholes(part), std::vector{id_a});
    world.add(bonds.source, ecs::to<Chained>(bonds.a));
    world.add(bonds.source, ecs::to<Chained>(bonds.b));
    const auto all = bonds.capture_of(bonds.source);
    EXPECT_EQ(wholes(all), (std::vector{id_a, id_a, id_b}));
    world.remove(bonds.source, ecs::to<PartOf>(bonds.a));
    const auto chained = bonds.capture_of(bonds.source);
    const auto loses = [&](const BoundWorld::Picture& before, const BoundWorld::Picture& now) {
        return bonds.binding.loses_whole(before.image(), now.image());
    };
    EXPECT_TRUE(loses(part, bonds.bare));
    EXPECT_TRUE(loses(part, knows));
    EXPECT_TRUE(loses(all, part)) << "the whole b";
    EXPECT_FALSE(loses(part, all));
    EXPECT_FALSE(loses(part, chained)) << "another relation to the same whole";
    EXPECT_FALSE(loses(all, chained));
    EXPECT_FALSE(loses(knows, bonds.bare));
    EXPECT_TRUE(bonds.binding.has_pair(all.image(), bonds.index<Chained>(), id_b));
    EXPECT_FALSE(bonds.binding.has_pair(all.image(), bonds.index<PartOf>(), id_b));
    EXPECT_FALSE(bonds.binding.has_pair(knows.image(), bonds.index<PartOf>(), id_a));
}

TEST(BindingPairs, AreCapturedWhileATargetHasANetId) {
    Bonds bonds;
    bonds.hidden = bonds.b;
    bonds.world.add(bonds.source, ecs::to<Knows>(bonds.b));
    const auto hidden = bonds.binding.capture(bonds.source, {}, bonds);
    EXPECT_EQ(hidden.image, bonds.bare.image());
    EXPECT_EQ(std::vector(hidden.targets.begin(), hidden.targets.end()), std::vector{bonds.b});
    std::vector<std::uint32_t> words{1};
    EXPECT_FALSE(bonds.binding.capture_component(bonds.source, bonds.index<Knows>(), bonds, words));
    EXPECT_TRUE(words.empty());
    bonds.world.add(bonds.source, ecs::to<Knows>(bonds.a));
    const std::vector<ComponentIndex> knows{bonds.index<Knows>()};
    const auto both = bonds.binding.capture(bonds.source, {bonds.bare.image(), knows, false}, bonds);
    EXPECT_EQ(both.image.shape->components, knows);
    EXPECT_EQ(std::vector(both.image.words.begin(), both.image.words.end()),
              (std::vector{1u, bonds.to_net(bonds.a)}));
    const std::vector targets{bonds.a, bonds.b};
    EXPECT_TRUE(
        std::is_permutation(both.targets.begin(), both.targets.end(), targets.begin(), targets.end()));
    EXPECT_TRUE(bonds.binding.capture_component(bonds.source, knows[0], bonds, words));
    EXPECT_EQ(words, (std::vector{1u, bonds.to_net(bonds.a)}));
    const auto before = bonds.capture_of(bonds.source);
    bonds.hidden = bonds.a;
    bonds.world.remove(bonds.source, ecs::to<Knows>(bonds.b));
    const auto none = bonds.binding.capture(bonds.source, {before.image(), {}, true}, bonds);
    EXPECT_EQ(none.image, bonds.bare.image());
    bonds.hidden = {};
    bonds.world.set(bonds.model, Name{"a"});
    const auto named = bonds.capture_of(bonds.model);
    bonds.world.set(bonds.model, Name{"b"});
    bonds.world.add(bonds.model, ecs::to<Knows>(bonds.a));
    const std::vector<ComponentIndex> name{bonds.index<Name>()};
    const auto unnamed = bonds.binding.capture(bonds.model, {named.image(), name, false}, bonds);
    EXPECT_EQ(unnamed.image.shape->components, name) << "the relation is not named as changed";
    EXPECT_FALSE(unnamed.has_targets);
}

}  // namespace
}  // namespace shoal::replication::binding_test
