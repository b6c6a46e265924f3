// Who sees an entity, and how it enters and leaves a peer's view. The peers are receivers without
// connections.

#include "replication/scope/scope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "replication/receive/receiver.h"
#include "replication/send/sender.h"

namespace shoal::replication::all::scope_test {
namespace {

struct Spot {
    float x = 0, y = 0;
};
struct Height {
    double x = 0, y = 0, z = 0;
};
struct Scoreboard {};
struct Stealth {
    int level = 0;
};
struct HeldBy {
    static constexpr auto relation = ecs::exclusive;
};
struct Note {
    int text = 0;
    ecs::Entity about;
};

struct Secret {
    int number = 0;
    ecs::Entity about;
};

Schema near_schema() {
    Schema schema;
    schema.component<Spot>("spot");
    schema.tag<Scoreboard>("scoreboard", everywhere());
    schema.component<Stealth>("stealth");
    schema.component<Note>("note");
    schema.pair<HeldBy>("held_by", follows());
    schema.grid<Spot>({.radius = 16, .leave_radius = 20});
    return schema;
}

/// A sender whose peers receive at once, or lose what `loses` says.
struct Town {
    struct Peer {
        Peer(const Schema& schema, Sender::Peer its_number) : receiver(world, schema), number(its_number) {
            hook = world.on_remove<Replica>([this](ecs::World&, ecs::Entity, const Replica& replica) {
                reasons.push_back(replica.reason);
            });
        }
        ecs::World world;
        Receiver receiver;
        ecs::Hook hook;
        Sender::Peer number;
        std::uint64_t next = 1;
        std::vector<Despawn> reasons;
    };

    explicit Town(Schema described = near_schema()) : schema(std::move(described)), sender(world, schema) {}

    Peer& add_peer() {
        peers.push_back(std::make_unique<Peer>(schema, sender.add_peer()));
        return *peers.back();
    }
    Peer& add_peer_at(float x, float y) {
        Peer& peer = add_peer();
        look_from(peer, x, y);
        return peer;
    }
    void look_from(const Peer& peer, double x, double y) { look_from(peer.number, x, y); }
    void look_from(Sender::Peer peer, double x, double y) {
        const GridPlace place{x, y};
        sender.scope().view_from(peer, std::span(&place, 1));
    }
    ecs::Entity spawn_at(float x, float y) { return world.spawn(Replicated{}, Spot{x, y}); }
    void step(bool arrives = true) {
        sender.update(++tick);
        if (is_checked) {
            ASSERT_TRUE(sender.is_consistent() && sender.scope().is_consistent()) << "tick " << tick;
        }
        for (const auto& peer : peers) {
            std::byte room[1300];
            while (true) {
                const auto payload = sender.encode(peer->number, peer->next, 1200, room);
                if (payload.empty()) break;
                if (arrives) {
                    EXPECT_EQ(peer->receiver.receive(peer->next, payload), Receiver::Verdict::accepted);
                }
                sender.on_fate(peer->number, peer->next++, arrives);
            }
            peer->receiver.apply();
        }
    }
    bool has(const Peer& peer, ecs::Entity entity) const {
        const NetId net_id = sender.net_id(entity);
        return net_id != 0 && peer.receiver.entity(net_id) != ecs::Entity{};
    }
    ecs::Entity replica(const Peer& peer, ecs::Entity entity) const {
        return peer.receiver.entity(sender.net_id(entity));
    }

    Schema schema;
    ecs::World world;
    Sender sender;
    Tick tick = 0;
    bool is_checked = true;  // the check calls filters
    std::vector<std::unique_ptr<Peer>> peers;
};

TEST(Scope, APlayerSeesOnlyWhatIsNear) {
    Town town;
    Town::Peer& peer = town.add_peer_at(0, 0);
    const ecs::Entity near = town.spawn_at(15, 0), far = town.spawn_at(40, 0);
    const ecs::Entity nowhere = town.world.spawn(Replicated{});
    town.step();
    EXPECT_TRUE(town.has(peer, near));
    EXPECT_TRUE(town.has(peer, nowhere)) << "the grid does not apply to it";
    EXPECT_FALSE(town.has(peer, far));
    town.world.set(far, Spot{10, 10});
    town.step();
    EXPECT_TRUE(town.has(peer, far));
}

TEST(Scope, AnEntityOutOfViewIsNotDestroyed) {
    Town town;
    Town::Peer& peer = town.add_peer_at(0, 0);
    const ecs::Entity one = town.spawn_at(1, 0), two = town.spawn_at(2, 0), three = town.spawn_at(3, 0);
    town.step();
    town.world.set(one, Spot{500, 0});
    town.step();
    town.world.destroy(two);
    town.step();
    town.world.remove<Replicated>(three);
    town.step();
    EXPECT_EQ(peer.reasons, (std::vector{Despawn::out_of_view, Despawn::destroyed, Despawn::left}));
}

TEST(Scope, WhoIsSeenStaysSeenUpToTheLeaveRadius) {
    Town town;
    Town::Peer& peer = town.add_peer_at(0, 0);
    const ecs::Entity entity = town.spawn_at(100, 0);
    const double cell = 2, reach = 20 + 2.1 * cell;
    for (float x = 40; x > 0; x -= 0.25f) {  // comes near
        town.world.set(entity, Spot{x, 0});
        town.step();
        if (x > reach) {
            EXPECT_FALSE(town.has(peer, entity)) << x;
        }
        if (x <= 16) {
            EXPECT_TRUE(town.has(peer, entity)) << x;
        }
    }
    for (float x = 0; x < 40; x += 0.25f) {  // goes away
        town.world.set(entity, Spot{x, 0});
        town.step();
        if (x <= 20) {
            EXPECT_TRUE(town.has(peer, entity)) << x;
        }
        if (x > reach) {
            EXPECT_FALSE(town.has(peer, entity)) << x;
        }
    }
    EXPECT_EQ(peer.reasons.size(), 1u);
}

// Entities and viewpoints move and jump. What a peer sees is compared with the distances.
TEST(Scope, TheGridKeepsItsPromiseForMovingEntitiesAndViewpoints) {
    std::mt19937 random(5);
    const auto number = [&](float most) {
        return std::uniform_real_distribution<float>(-most, most)(random);
    };
    Town town;
    std::vector<ecs::Entity> entities, viewpoints;
    for (int i = 0; i < 60; ++i) entities.push_back(town.spawn_at(number(60), number(60)));
    for (int i = 0; i < 4; ++i) {
        viewpoints.push_back(town.world.spawn(Spot{number(60), number(60)}));
        town.sender.scope().view_from(town.add_peer().number, viewpoints.back());
    }
    const auto distance = [&](ecs::Entity a, ecs::Entity b) {
        const Spot one = town.world.get<Spot>(a), two = town.world.get<Spot>(b);
        return std::hypot(one.x - two.x, one.y - two.y);
    };
    for (int step = 0; step < 300; ++step) {
        const auto move = [&](ecs::Entity entity) {
            const Spot from = town.world.get<Spot>(entity);
            if (random() % 40 == 0) {
                town.world.set(entity, Spot{number(60), number(60)});
            } else {
                town.world.set(entity, Spot{from.x + number(1), from.y + number(1)});
            }
        };
        for (const ecs::Entity entity : entities) move(entity);
        for (const ecs::Entity entity : viewpoints) move(entity);
        town.step();
        for (std::size_t i = 0; i < viewpoints.size(); ++i)
            for (const ecs::Entity entity : entities) {
                const float away = distance(viewpoints[i], entity);
                const bool has = town.has(*town.peers[i], entity);
                if (away <= 16) {
                    ASSERT_TRUE(has) << away << " step " << step;
                }
                if (away > 20 + 2.1 * 2) {
                    ASSERT_FALSE(has) << away << " step " << step;
                }
            }
    }
}

TEST(Scope, AGridWithHeightHasSpheres) {
    Schema schema;
    schema.component<Height>("height");
    schema.grid<Height>({.radius = 16, .leave_radius = 20});
    Town town(std::move(schema));
    Town::Peer& peer = town.add_peer_at(0, 0);
    const ecs::Entity above = town.world.spawn(Replicated{}, Height{0, 0, 40});
    const ecs::Entity beside = town.world.spawn(Replicated{}, Height{3, 3, 3});
    town.step();
    EXPECT_FALSE(town.has(peer, above));
    EXPECT_TRUE(town.has(peer, beside));
}

TEST(Scope, SeveralViewpointsAreAUnion) {
    Town town;
    Town::Peer& peer = town.add_peer();
    const std::array places{GridPlace{0, 0}, GridPlace{200, 0}};
    town.sender.scope().view_from(peer.number, places);
    const ecs::Entity one = town.spawn_at(5, 0), two = town.spawn_at(205, 0), three = town.spawn_at(100, 0);
    town.step();
    EXPECT_TRUE(town.has(peer, one) && town.has(peer, two));
    EXPECT_FALSE(town.has(peer, three));
    town.look_from(peer, 200, 0);
    town.step();
    EXPECT_FALSE(town.has(peer, one));
    EXPECT_TRUE(town.has(peer, two));
}

TEST(Scope, HideComesBeforeShowEverywhereAndTheGridButAfterTheOwner) {
    Town town;
    Town::Peer &peer = town.add_peer_at(0, 0), &other = town.add_peer_at(0, 0);
    Scope& scope = town.sender.scope();
    const ecs::Entity entity = town.spawn_at(500, 0);
    town.step();
    EXPECT_FALSE(town.has(peer, entity));
    scope.set_shown(peer.number, entity, true);
    town.step();
    EXPECT_TRUE(town.has(peer, entity));
    EXPECT_FALSE(town.has(other, entity));
    town.world.add<Scoreboard>(entity);
    town.step();
    EXPECT_TRUE(town.has(other, entity));
    scope.set_shown(other.number, entity, false);
    town.step();
    EXPECT_FALSE(town.has(other, entity));
    town.sender.set_owner(entity, other.number);
    town.step();
    EXPECT_TRUE(town.has(other, entity));
    town.sender.set_owner(entity, std::nullopt);
    town.step();
    EXPECT_FALSE(town.has(other, entity));
    scope.set_shown(other.number, entity, std::nullopt);
    town.step();
    EXPECT_TRUE(town.has(other, entity)) << "it is everywhere";
    town.world.remove<Scoreboard>(entity);
    scope.set_shown(peer.number, entity, std::nullopt);
    town.step();
    EXPECT_FALSE(town.has(peer, entity) || town.has(other, entity));
}

TEST(Scope, ReplicasOfRoomsAreThoseOfThePlayersInThem) {
    Schema schema;
    schema.component<Spot>("spot");
    Town town(std::move(schema));
    Town::Peer &peer = town.add_peer(), &other = town.add_peer();
    Scope& scope = town.sender.scope();
    const ecs::Entity free = town.world.spawn(Replicated{});
    const ecs::Entity in_one = town.world.spawn(Replicated{}, Room{1});
    const ecs::Entity in_both = town.world.spawn(Replicated{}, Rooms{{{1}, {2}}});
    town.step();
    EXPECT_TRUE(town.has(peer, free) && !town.has(peer, in_one) && !town.has(peer, in_both));
    scope.enter(peer.number, Room{1});
    scope.enter(other.number, Room{2});
    town.step();
    EXPECT_TRUE(town.has(peer, in_one) && town.has(peer, in_both));
    EXPECT_TRUE(!town.has(other, in_one) && town.has(other, in_both));
    scope.leave(peer.number, Room{1});
    town.step();
    EXPECT_TRUE(!town.has(peer, in_one) && !town.has(peer, in_both) && town.has(peer, free));
    town.world.set(in_one, Room{2});
    town.step();
    EXPECT_TRUE(town.has(other, in_one));
    town.world.remove<Room>(in_one);
    town.step();
    EXPECT_TRUE(town.has(peer, in_one));
}

TEST(Scope, AFilterRunsWhenItsComponentChangesOrTheGameAsks) {
    Town town;
    Town::Peer& peer = town.add_peer_at(0, 0);
    town.is_checked = false;
    int calls = 0, eyes = 3;
    town.sender.scope().set_filter(town.world.component<Stealth>(), "Stealth",
                                   [&](std::uint32_t, ecs::Entity, const void* value) {
                                       calls += 1;
                                       return static_cast<const Stealth*>(value)->level <= eyes;
                                   });
    const ecs::Entity thief = town.world.spawn(Replicated{}, Spot{1, 1}, Stealth{2});
    const ecs::Entity bystander = town.spawn_at(2, 2);
    town.step();
    EXPECT_TRUE(town.has(peer, thief) && town.has(peer, bystander));
    town.world.set(thief, Stealth{4});
    town.step();
    EXPECT_FALSE(town.has(peer, thief));
    const int before = calls;
    for (int i = 0; i < 10; ++i) town.step();
    EXPECT_EQ(calls, before);
    eyes = 9;
    town.step();
    EXPECT_FALSE(town.has(peer, thief));
    town.sender.scope().recheck(thief);
    town.step();
    EXPECT_TRUE(town.has(peer, thief));
}

TEST(Scope, Rule41AFilterMayCallTheScope) {
    Town town;
    town.is_checked = false;
    Scope& scope = town.sender.scope();
    for (int i = 0; i < 3; ++i) town.add_peer_at(0, 0);
    const ecs::Entity bystander = town.spawn_at(2, 2);
    int calls = 0;
    scope.set_filter(town.world.component<Stealth>(), "Stealth",
                     [&](std::uint32_t peer, ecs::Entity, const void*) {
                         for (std::uint32_t room = 0; room < 50; ++room) scope.enter(peer, Room{room});
                         scope.set_shown(peer, bystander, false);
                         return ++calls > 0;
                     });
    std::vector<ecs::Entity> thieves;
    for (int i = 0; i < 100; ++i) {
        thieves.push_back(town.world.spawn(Replicated{}, Spot{1, 1}, Stealth{i}));
        if (i % 2 == 0) town.world.set(thieves.back(), Room{static_cast<std::uint32_t>(i % 50)});
    }
    for (int i = 0; i < 4; ++i) town.step();
    for (const auto& peer : town.peers) {
        for (const ecs::Entity thief : thieves) EXPECT_TRUE(town.has(*peer, thief));
        EXPECT_FALSE(town.has(*peer, bystander));
    }
    // The peer whose view a filter reviews may be removed by it.
    scope.set_filter(town.world.component<Stealth>(), "Stealth",
                     [&](std::uint32_t peer, ecs::Entity, const void*) {
                         if (peer == 1 && town.peers.size() == 3) {
                             town.sender.remove_peer(peer);
                             town.peers.erase(town.peers.begin() + 1);
                         }
                         return false;
                     });
    for (int i = 0; i < 4; ++i) town.step();
    ASSERT_EQ(town.peers.size(), 2u);
    for (const auto& peer : town.peers) EXPECT_FALSE(town.has(*peer, thieves[0]));
}

TEST(Scope, WhatIsEverywhereHidesNothing) {
    Schema schema;
    schema.singleton<Stealth>("stealth");
    schema.tag<Scoreboard>("scoreboard", everywhere());
    Town town(std::move(schema));
    const Town::Peer& peer = town.add_peer();
    const ecs::Entity board = town.world.spawn(Replicated{}, Scoreboard{});
    for (int i = 0; i < 3; ++i) {
        town.world.set_singleton(Stealth{i});
        town.step();
        EXPECT_FALSE(town.sender.scope().is_used());
    }
    EXPECT_TRUE(town.has(peer, board));
    town.world.spawn(Replicated{}, Room{1});
    town.step();
    EXPECT_TRUE(town.sender.scope().is_used());
}

TEST(Scope, Rule38AnEventNamesWhatItsActionDestroyed) {
    Town town;
    Town::Peer& peer = town.add_peer_at(0, 0);
    const ecs::Entity seen = town.spawn_at(1, 1), hidden = town.spawn_at(90, 90);
    town.step();
    const NetId of_seen = town.sender.net_id(seen), of_hidden = town.sender.net_id(hidden);
    EXPECT_FALSE(town.sender.hides(peer.number, of_seen));
    EXPECT_TRUE(town.sender.hides(peer.number, of_hidden));
    town.world.destroy(seen);
    EXPECT_FALSE(town.sender.hides(peer.number, of_seen));
    town.sender.assign_net_id(town.spawn_at(2, 2));  // a spawned entity that is given to a player
    EXPECT_FALSE(town.sender.hides(peer.number, of_seen));
    EXPECT_TRUE(town.sender.hides(peer.number, of_hidden));
}

TEST(Scope, Rule45WhoFollowsIsSeenWithWhatItFollows) {
    Town town;
    Town::Peer& peer = town.add_peer_at(0, 0);
    const ecs::Entity near = town.spawn_at(1, 1), far = town.spawn_at(500, 0);
    const ecs::Entity sword = town.world.spawn(Replicated{}, Spot{900, 0});
    const ecs::Entity gem = town.world.spawn(Replicated{});  // in the sword
    town.world.add(sword, ecs::to<HeldBy>(far));
    town.world.add(gem, ecs::to<HeldBy>(sword));
    town.step();
    EXPECT_TRUE(!town.has(peer, sword) && !town.has(peer, gem) && town.has(peer, near));
    town.world.add(sword, ecs::to<HeldBy>(near));  // changes hands
    town.step();
    EXPECT_TRUE(town.has(peer, sword) && town.has(peer, gem));
    town.world.set(near, Spot{300, 0});
    town.step();
    EXPECT_TRUE(!town.has(peer, sword) && !town.has(peer, gem) && !town.has(peer, near));
    town.world.set(near, Spot{2, 0});
    town.step();
    EXPECT_TRUE(town.has(peer, sword) && town.has(peer, gem) && town.has(peer, near));
    town.world.remove<Replicated>(near);
    town.step();
    EXPECT_TRUE(!town.has(peer, sword) && !town.has(peer, gem));
    town.world.add<Replicated>(near);
    town.step();
    EXPECT_TRUE(town.has(peer, sword) && town.has(peer, gem));
    town.world.destroy(near);  // the sword falls where it is
    town.step();
    EXPECT_TRUE(!town.has(peer, sword) && !town.has(peer, gem));
    town.world.set(sword, Spot{0, 0});
    town.step();
    EXPECT_TRUE(town.has(peer, sword) && town.has(peer, gem));
}

TEST(Scope, Rule45EntitiesInACircleAreSeenAsIfTheyFollowedNothing) {
    Town town;
    Town::Peer& peer = town.add_peer_at(0, 0);
    std::vector<ecs::Entity> ring;
    for (int i = 0; i < 3; ++i) ring.push_back(town.spawn_at(i == 0 ? 0.f : 500.f, 0));
    for (std::size_t i = 0; i < 3; ++i) town.world.add(ring[i], ecs::to<HeldBy>(ring[(i + 1) % 3]));
    town.step();
    EXPECT_TRUE(town.has(peer, ring[0]) && !town.has(peer, ring[1]) && !town.has(peer, ring[2]));
    town.world.set(ring[1], Spot{1, 0});
    town.world.set(ring[0], Spot{500, 0});
    town.step();
    EXPECT_TRUE(!town.has(peer, ring[0]) && town.has(peer, ring[1]));
    town.world.remove(ring[1], ecs::to<HeldBy>(ring[2]));  // the circle is a chain
    town.step();
    EXPECT_TRUE(town.has(peer, ring[0]) && town.has(peer, ring[1]) && town.has(peer, ring[2]));
}

TEST(Scope, JoiningCountsWhatIsInViewOnly) {
    Town town;
    for (int i = 0; i < 100; ++i) town.spawn_at(static_cast<float>(i) * 10, 0);
    town.step();
    const Sender::Peer peer = town.sender.add_peer({.is_held = true});
    const GridPlace place{0, 0};
    town.sender.scope().view_from(peer, std::span(&place, 1));
    town.sender.start_peer(peer);
    EXPECT_EQ(town.sender.stats(peer).unjoined, 2u);
    town.sender.update(++town.tick);
    EXPECT_TRUE(town.sender.is_consistent());
}

TEST(Scope, WhatIsNearestComesFirstAndGetsTheSlots) {
    Town town;
    const ecs::Entity sword = town.world.spawn(Replicated{}), sign = town.world.spawn(Replicated{});
    std::vector<ecs::Entity> entities;
    for (const float x : {12.0f, 3.0f, 9.0f, 14.0f}) entities.push_back(town.spawn_at(x, 0));
    town.world.add(sword, ecs::to<HeldBy>(entities[2]));
    town.step();
    const auto order = [&](Sender::Peer peer) {
        const auto& view = town.sender.view(peer);
        std::vector<ecs::Entity> out;
        for (std::uint32_t slot = 0; slot < view.slot_count(); ++slot)
            if (view[slot].has_entity()) out.push_back(town.sender.shadow()[view[slot].entry].entity);
        return out;
    };
    const std::vector<ecs::Entity> nearest{sign, entities[1], entities[2], sword, entities[0], entities[3]};
    const GridPlace place{0, 0}, away{500, 0};
    const auto add = [&](std::uint32_t max_slots, const GridPlace& from) {
        const Sender::Peer peer = town.sender.add_peer({.max_slots = max_slots, .is_held = true});
        town.sender.scope().view_from(peer, std::span(&from, 1));
        town.sender.start_peer(peer);
        return peer;
    };
    EXPECT_EQ(order(add(100, place)), nearest) << "joins";
    EXPECT_EQ(order(add(3, place)), std::vector(nearest.begin(), nearest.begin() + 3)) << "has few slots";
    const Sender::Peer jumps = add(100, away);
    town.sender.scope().view_from(jumps, std::span(&place, 1));
    town.sender.update(++town.tick);
    EXPECT_EQ(order(jumps), nearest) << "jumps";
    EXPECT_TRUE(town.sender.is_consistent());
}

TEST(Scope, Rule41AFilterMayEndAPlayerWhoJoins) {
    Town town;
    town.is_checked = false;
    for (int i = 0; i < 5; ++i) town.world.spawn(Replicated{}, Spot{1, 1}, Stealth{i});
    town.step();
    const Sender::Peer peer = town.sender.add_peer({.is_held = true});
    town.look_from(peer, 0, 0);
    int calls = 0;
    town.sender.scope().set_filter(town.world.component<Stealth>(), "Stealth",
                                   [&](std::uint32_t, ecs::Entity, const void*) {
                                       if (++calls == 3) town.sender.remove_peer(peer);
                                       return true;
                                   });
    town.sender.start_peer(peer);
    EXPECT_EQ(calls, 3);
    town.step();
}

TEST(Scope, AJoinerWithASmallBudgetGetsTheNearestFirst) {
    Town town;
    town.is_checked = false;
    std::mt19937 random(5);
    std::uniform_real_distribution<float> place(-11, 11);
    std::vector<std::pair<float, ecs::Entity>> all;
    for (int i = 0; i < 300; ++i) {
        const float x = place(random), y = place(random);
        all.emplace_back(std::hypot(x, y), town.spawn_at(x, y));
    }
    town.step();
    std::ranges::sort(all, {}, &std::pair<float, ecs::Entity>::first);
    Town::Peer& peer = town.add_peer();
    town.look_from(peer, 0, 0);
    std::size_t had = 0;
    for (int tick = 0; tick < 60 && had < all.size(); ++tick) {
        town.sender.update(++town.tick);
        std::byte room[1300];
        const auto payload = town.sender.encode(peer.number, peer.next, 150, room);
        EXPECT_EQ(peer.receiver.receive(peer.next, payload), Receiver::Verdict::accepted);
        town.sender.on_fate(peer.number, peer.next++, true);
        peer.receiver.apply();
        const auto has = [&](const auto& one) { return town.has(peer, one.second); };
        const auto gap = std::ranges::find_if_not(all, has);
        had = static_cast<std::size_t>(gap - all.begin());
        EXPECT_TRUE(std::none_of(gap, all.end(), has)) << "tick " << tick << " after " << had;
    }
    EXPECT_EQ(had, all.size());
}

TEST(Scope, Rule43AReferenceThatAPeerDoesNotSeeCausesNoFullRecord) {
    Schema schema = near_schema();
    schema.component<Secret>("secret", to_owner());
    Town town(std::move(schema));
    const Town::Peer& peer = town.add_peer_at(0, 0);
    const ecs::Entity thing = town.spawn_at(100, 0), knower = town.spawn_at(1, 0);
    town.world.set(knower, Secret{1, thing});
    for (int i = 0; i < 3; ++i) town.step();
    const auto full = [&] { return town.sender.stats(peer.number).full_records; };
    EXPECT_EQ(full(), 1u);
    town.world.set(thing, Spot{2, 0});
    town.step();
    EXPECT_EQ(full(), 2u) << "what is named enters the view";
    town.world.set(thing, Spot{100, 0});
    town.step();
    town.world.set(knower, Spot{2, 0});
    town.step();
    town.world.destroy(thing);
    town.world.set(knower, Spot{3, 0});
    for (int i = 0; i < 3; ++i) town.step();
    town.world.set(knower, Spot{4, 0});
    town.step();
    EXPECT_EQ(full(), 2u);
    EXPECT_EQ(peer.receiver.shown(town.sender.net_id(knower))->tick, town.tick);
}

TEST(Scope, WhatWaitsForASlotCanLeaveTheView) {
    Town town;
    const Sender::Peer peer = town.sender.add_peer({.max_slots = 2});
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 5; ++i) entities.push_back(town.world.spawn(Replicated{}, Room{1}));
    town.sender.scope().enter(peer, Room{1});
    town.sender.update(++town.tick);
    EXPECT_EQ(town.sender.stats(peer).waiting, 3u);
    town.sender.scope().leave(peer, Room{1});
    town.sender.update(++town.tick);
    EXPECT_EQ(town.sender.stats(peer).waiting, 0u);
    EXPECT_EQ(town.sender.stats(peer).slots_used, 0u) << "nothing was sent";
    EXPECT_TRUE(town.sender.is_consistent());
}

TEST(Scope, ARulesGridThatDoesNotFitIsAnError) {
    const GridOptions wrong[] = {{},
                                 {.radius = -1},
                                 {.radius = 2, .leave_radius = 1},
                                 {.radius = 1e300 * 1e300},
                                 {.radius = 100, .cell = 0.1}};
    for (const GridOptions& options : wrong) {
        Schema schema;
        schema.grid<Spot>(options);
        EXPECT_EQ(schema.error(),
                  "schema 'shoal' has a grid with a radius, leave_radius or cell that does not fit");
    }
}

}  // namespace
}  // namespace shoal::replication::all::scope_test
