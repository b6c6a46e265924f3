#include "replication/schema/binding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication {
namespace {

using sim::Aim;
using sim::Name;
using sim::Position;
using sim::Secret;
using sim::Squad;
using sim::Wolf;

/// A world in which entity n has net id n + 1.
class BoundWorld final : public EntityMap {
public:
    std::uint32_t to_net(ecs::Entity entity) override { return entity ? entity.index + 1 : 0; }
    ecs::Entity to_entity(std::uint32_t net_id) override {
        return hides_all || net_id == 0 ? ecs::Entity{} : entities[net_id - 1];
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

    std::vector<ComponentIndex> only(std::string_view name) const {
        ComponentIndex i = 0;
        while (schema.components()[i].name != name) ++i;
        return {i};
    }

    Schema schema = game_schema();
    ecs::World world;
    Binding binding{world, schema};
    std::vector<ecs::Entity> entities;
    bool hides_all = false;  // to_entity() returns null
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

}  // namespace
}  // namespace shoal::replication
