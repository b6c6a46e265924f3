#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "replication/schema/binding.h"
#include "tests/replication/support/bound_world.h"
#include "tests/replication/support/relations.h"

namespace shoal::replication::impl::binding_pairs_test {
namespace {

using relations::Escorts;
using relations::Knows;
using relations::Owes;
using relations::PartOf;

using sim::Health;
using sim::Name;

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
}  // namespace shoal::replication::impl::binding_pairs_test
