// Components that only some peers see, without a network.

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "replication/receive/receiver.h"
#include "replication/send/sender.h"

namespace shoal::replication::all {
namespace {

struct Shown {
    int x = 0;
};
struct Hidden {
    int number = 0;
};

Schema hidden_schema() {
    Schema schema;
    schema.component<Shown>("place");
    schema.component<Hidden>("secret", to_owner());
    schema.tag<Mine>("mine", to_owner());
    return schema;
}

/// A peer with its own world.
struct Viewer {
    Viewer(Sender& its_sender, const Schema& schema) : sender(its_sender), receiver(world, schema) {}

    /// Returns the payloads of this tick. Each arrives.
    std::vector<std::vector<std::byte>> exchange() {
        std::vector<std::vector<std::byte>> payloads;
        std::byte room[1300];
        for (;;) {
            const auto payload = sender.encode(peer, number, 1100, room);
            if (payload.empty()) break;
            payloads.emplace_back(payload.begin(), payload.end());
            EXPECT_EQ(receiver.receive(number, payload), Receiver::Verdict::accepted);
            sender.on_fate(peer, number++, true);
        }
        receiver.apply();
        return payloads;
    }
    template <class T>
    const T* see(ecs::Entity entity) {
        return world.try_get<T>(receiver.entity(sender.net_id(entity)));
    }

    Sender& sender;
    ecs::World world;
    Receiver receiver;
    Sender::Peer peer = sender.add_peer();
    std::uint64_t number = 1;
};

TEST(ViewClass, OnlyTheOwnerGetsAComponentForTheOwner) {
    const Schema schema = hidden_schema();
    ecs::World world;
    Sender sender(world, schema);
    Viewer first(sender, schema), second(sender, schema);
    const ecs::Entity entity = world.spawn(Replicated{}, Shown{1}, Hidden{7});
    sender.set_owner(entity, first.peer);  // before the first update that finds the entity
    sender.update(1);
    first.exchange();
    second.exchange();
    EXPECT_EQ(first.see<Hidden>(entity)->number, 7);
    EXPECT_EQ(second.see<Hidden>(entity), nullptr);
    EXPECT_EQ(second.see<Shown>(entity)->x, 1);

    sender.set_owner(entity, second.peer);
    sender.update(2);
    first.exchange();
    second.exchange();
    EXPECT_EQ(first.see<Hidden>(entity), nullptr);
    EXPECT_EQ(second.see<Hidden>(entity)->number, 7);
    EXPECT_EQ(sender.owner(entity), second.peer);

    sender.set_owner(entity, std::nullopt);
    sender.update(3);
    second.exchange();
    EXPECT_EQ(second.see<Hidden>(entity), nullptr);
    EXPECT_EQ(sender.owner(entity), std::nullopt);
    EXPECT_TRUE(sender.is_consistent());
}

TEST(ViewClass, AnEntityThatTakesTheIndexOfADestroyedOneHasNoOwner) {
    const Schema schema = hidden_schema();
    ecs::World world;
    Sender sender(world, schema);
    Viewer peer(sender, schema);
    for (Tick tick = 1; tick < 20; ++tick) {
        const ecs::Entity owned = world.spawn(Replicated{}, Hidden{1});
        sender.set_owner(owned, peer.peer);
        if (tick % 3 == 0) world.destroy(owned);  // before an update finds it
        const ecs::Entity other = world.spawn(Replicated{}, Hidden{2});
        sender.update(tick);
        peer.exchange();
        EXPECT_EQ(peer.see<Hidden>(other), nullptr);
        EXPECT_TRUE(sender.is_consistent());
        world.destroy(other);
        if (world.is_alive(owned)) world.destroy(owned);
    }
}

TEST(ViewClass, APeerThatTakesTheNumberOfALeftOneOwnsNothing) {
    const Schema schema = hidden_schema();
    ecs::World world;
    Sender sender(world, schema);
    const ecs::Entity entity = world.spawn(Replicated{}, Hidden{7});
    {
        Viewer left(sender, schema);
        sender.set_owner(entity, left.peer);
        sender.update(1);
        left.exchange();
        EXPECT_NE(left.see<Hidden>(entity), nullptr);
        sender.remove_peer(left.peer);
    }
    Viewer next(sender, schema);
    sender.update(2);
    next.exchange();
    EXPECT_EQ(next.see<Hidden>(entity), nullptr);
    EXPECT_EQ(sender.owner(entity), std::nullopt);
}

TEST(ViewClass, OnlyWhoPredictsAnEntityGetsAComponentForPredictors) {
    Schema schema;
    schema.component<Shown>("place", predicted());
    schema.component<Hidden>("secret", to_predictors());
    ecs::World world;
    Sender sender(world, schema);
    Viewer a(sender, schema), b(sender, schema);
    const ecs::Entity ball = world.spawn(Shown{1}, Hidden{2}, ToPredict{}, Replicated{});
    EXPECT_TRUE(sender.set_predictor(a.peer, ball, true));
    const auto has_tag = [&](const Viewer& viewer) {
        return viewer.world.has<ToPredict>(viewer.receiver.entity(sender.net_id(ball)));
    };
    auto tick = [&, now = Tick{0}]() mutable {
        sender.update(++now);
        a.exchange();
        b.exchange();
        EXPECT_TRUE(sender.is_consistent());
    };
    tick();
    EXPECT_TRUE(a.see<Hidden>(ball) && has_tag(a));
    EXPECT_FALSE(b.see<Hidden>(ball) || has_tag(b));
    EXPECT_TRUE(b.see<Shown>(ball));
    EXPECT_TRUE(sender.set_predictor(b.peer, ball, true));
    EXPECT_TRUE(sender.set_predictor(a.peer, ball, false));
    EXPECT_TRUE(a.see<Hidden>(ball)) << "not before the next tick";
    tick();
    EXPECT_FALSE(a.see<Hidden>(ball) || has_tag(a));
    EXPECT_TRUE(b.see<Hidden>(ball) && has_tag(b));
    world.remove<Replicated>(ball);
    tick();
    EXPECT_FALSE(sender.has_predictors(ball));
    EXPECT_FALSE(sender.set_predictor(b.peer, ball, true)) << "it does not replicate";
    world.add<Replicated>(ball);
    tick();
    EXPECT_FALSE(b.see<Hidden>(ball));
}

TEST(ViewClass, GroupsComeAndGo) {
    Schema schema;
    schema.component<Shown>("place");
    schema.component<Hidden>("secret", to_group(2) | to_group(5), bounded(0, 100));
    ecs::World world;
    Sender sender(world, schema);
    Viewer peer(sender, schema);
    const ecs::Entity entity = world.spawn(Replicated{}, Shown{1}, Hidden{7});
    Tick tick = 1;
    for (const ViewClasses groups : {to_group(2), ViewClasses{}, to_group(1), to_group(5) | to_group(1)}) {
        sender.set_groups(peer.peer, groups);
        sender.update(tick++);
        peer.exchange();
        EXPECT_EQ(peer.see<Hidden>(entity) != nullptr, overlap(groups, to_group(2) | to_group(5)));
    }
}

/// Returns all payloads for a peer that does not see the secrets. Some are lost. The secrets change, appear
/// and disappear as `secret_seed` says; everything else as `seed` says.
std::vector<std::vector<std::byte>> payloads_of_a_stranger(std::uint32_t seed, std::uint32_t secret_seed) {
    std::mt19937 random(seed), secrets(secret_seed);
    const Schema schema = hidden_schema();
    ecs::World world;
    Sender sender(world, schema);
    Viewer owner(sender, schema);
    const Sender::Peer stranger = sender.add_peer();
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 10; ++i) {
        entities.push_back(world.spawn(Replicated{}, Shown{i}));
        sender.set_owner(entities.back(), owner.peer);
    }
    std::vector<std::vector<std::byte>> payloads;
    std::vector<std::uint64_t> open;
    std::byte room[1300];
    std::uint64_t number = 1;
    for (Tick tick = 1; tick < 400; ++tick) {
        if (tick % 100 < 60 && random() % 2 == 0)
            world.set(entities[random() % 10], Shown{static_cast<int>(random() % 1000)});
        const ecs::Entity told = entities[secrets() % 10];
        if (secrets() % 2 == 0) world.set(told, Hidden{static_cast<int>(secrets() % 1000)});
        if (secrets() % 7 == 0) world.remove<Hidden>(told);
        sender.update(tick);
        owner.exchange();
        for (;;) {
            const auto payload = sender.encode(stranger, number, 200, room);
            if (payload.empty()) break;
            payloads.emplace_back(payload.begin(), payload.end());
            open.push_back(number++);
        }
        // Longer than the history. For odd seeds nothing arrives then, else little.
        const bool is_silent = tick % 130 > 60 && (seed % 2 == 1 || random() % 12 != 0);
        for (; open.size() > 4; open.erase(open.begin()))
            sender.on_fate(stranger, open.front(), !is_silent && random() % 4 != 0);
    }
    return payloads;
}

// Neither values nor the times at which they change reach the others.
TEST(ViewClass, Rule02WhatAPeerMayNotSeeDoesNotChangeABitOfItsPayloads) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        const auto payloads = payloads_of_a_stranger(seed, 1);
        EXPECT_GT(payloads.size(), 100u);
        for (std::uint32_t secret_seed = 2; secret_seed < 5; ++secret_seed)
            ASSERT_EQ(payloads_of_a_stranger(seed, secret_seed), payloads) << "seed " << seed;
    }
}

// The version that the peer has was replaced for its owner, while an older one stays for the others.
TEST(ViewClass, Rule02AChangeThatWasLostForLongerThanTheHistoryIsSentInFull) {
    for (const int last : {4, 5, 6}) {
        const Schema schema = hidden_schema();
        ecs::World world;
        Sender sender(world, schema);
        Viewer owner(sender, schema);
        const ecs::Entity entity = world.spawn(Replicated{}, Shown{1}, Hidden{6});
        sender.set_owner(entity, owner.peer);
        Tick tick = 1;
        sender.update(tick++);
        owner.exchange();
        world.set(entity, Hidden{5});
        sender.update(tick++);
        owner.exchange();
        world.set(entity, Hidden{4});
        for (int i = 0; i < 60; ++i) {
            if (i == 30) world.set(entity, Hidden{last});
            sender.update(tick++);
            std::byte room[1300];
            if (!sender.encode(owner.peer, owner.number, 1100, room).empty())
                sender.on_fate(owner.peer, owner.number++, false);
        }
        for (int i = 0; i < 3; ++i) {
            sender.update(tick++);
            owner.exchange();
        }
        EXPECT_EQ(owner.see<Hidden>(entity)->number, last);
    }
}

TEST(ViewClass, Rule02AViewThatChangesBetweenTwoPayloadsOfATickIsSentInTheNextTick) {
    const Schema schema = hidden_schema();
    ecs::World world;
    Sender sender(world, schema);
    Viewer first(sender, schema), second(sender, schema);
    const ecs::Entity entity = world.spawn(Replicated{}, Shown{1}, Hidden{7});
    sender.set_owner(entity, first.peer);
    sender.update(1);
    first.exchange();
    second.exchange();
    sender.set_owner(entity, second.peer);
    first.exchange();
    second.exchange();
    for (Tick tick = 2; tick < 6; ++tick) {
        world.set(entity, Shown{static_cast<int>(tick)});
        sender.update(tick);
        first.exchange();
        second.exchange();
        EXPECT_EQ(first.see<Hidden>(entity), nullptr);
        EXPECT_EQ(first.see<Shown>(entity)->x, static_cast<int>(tick));
        EXPECT_EQ(second.see<Hidden>(entity)->number, 7);
        EXPECT_EQ(second.see<Shown>(entity)->x, static_cast<int>(tick));
    }
    EXPECT_TRUE(sender.is_consistent());
}

TEST(ViewClass, ATagChangesAlsoIfNothingElseIsVisible) {
    struct Lit {};
    Schema schema;
    schema.tag<Lit>("lit");
    schema.component<Hidden>("hidden", to_owner());
    ecs::World world;
    Sender sender(world, schema);
    Viewer peer(sender, schema);
    const ecs::Entity entity = world.spawn(Replicated{}, Hidden{7});
    sender.update(1);
    peer.exchange();
    world.add<Lit>(entity);
    sender.update(2);
    peer.exchange();
    EXPECT_TRUE(peer.world.has<Lit>(peer.receiver.entity(sender.net_id(entity))));
}

TEST(ViewClass, EntitiesThatLookTheSameAreNotSentAgain) {
    Schema schema;
    schema.component<Shown>("shown");
    ecs::World world;
    Sender sender(world, schema);
    Viewer peer(sender, schema);
    for (int i = 0; i < 100; ++i) sender.set_owner(world.spawn(Replicated{}, Shown{i}), std::nullopt);
    sender.update(1);
    peer.exchange();
    sender.set_groups(peer.peer, to_group(1) | to_owner());
    world.each_entity([&](ecs::Entity entity) { sender.set_owner(entity, peer.peer); });
    sender.update(2);
    EXPECT_TRUE(peer.exchange().empty());
    EXPECT_EQ(sender.view(peer.peer).view_classes(0), to_owner() | to_group(1));
}

TEST(ViewClass, Rule43OtherGroupsSendNothingOfAnEntityThatLooksTheSame) {
    Schema schema;
    schema.component<Shown>("place");
    schema.component<Hidden>("secret", to_group(1));
    ecs::World world;
    Sender sender(world, schema);
    Viewer peer(sender, schema);
    const ecs::Entity entity = world.spawn(Replicated{}, Shown{1}, Hidden{7});
    sender.update(1);
    peer.exchange();
    const auto full = [&] { return sender.stats(peer.peer).full_records; };
    EXPECT_EQ(full(), 1u);
    sender.set_groups(peer.peer, to_group(0));
    world.set(entity, Hidden{8});
    sender.update(2);
    EXPECT_TRUE(peer.exchange().empty());
    world.set(entity, Shown{2});
    sender.update(3);
    peer.exchange();
    EXPECT_EQ(peer.see<Shown>(entity)->x, 2);
    EXPECT_EQ(full(), 1u);
    sender.set_groups(peer.peer, to_group(0) | to_group(1));
    sender.update(4);
    peer.exchange();
    EXPECT_EQ(peer.see<Hidden>(entity)->number, 8);
    sender.set_groups(peer.peer, to_group(0));
    sender.update(5);
    peer.exchange();
    EXPECT_EQ(peer.see<Hidden>(entity), nullptr);
    EXPECT_EQ(full(), 3u);
    EXPECT_TRUE(sender.is_consistent());
}

TEST(ViewClass, MineNeedsTheOwner) {
    Schema schema;
    schema.tag<Mine>("mine");
    EXPECT_EQ(schema.error(), "component 'mine' is the tag Mine, which needs to_owner()");
}

TEST(ViewClass, AnEncodedDeltaIsSharedOnlyByPeersThatSeeTheSame) {
    const Schema schema = hidden_schema();
    ecs::World world;
    Sender sender(world, schema);
    Viewer owner(sender, schema), a(sender, schema), b(sender, schema);
    const ecs::Entity entity = world.spawn(Replicated{}, Shown{1}, Hidden{7});
    sender.set_owner(entity, owner.peer);
    for (Tick tick = 1; tick < 10; ++tick) {
        const int hidden = static_cast<int>(tick * tick * tick);
        world.set(entity, Shown{static_cast<int>(tick)}, Hidden{hidden});
        sender.update(tick);
        const auto of_owner = owner.exchange(), of_a = a.exchange(), of_b = b.exchange();
        EXPECT_EQ(of_a, of_b);
        EXPECT_NE(of_a, of_owner);
        EXPECT_EQ(owner.see<Hidden>(entity)->number, hidden);
        EXPECT_EQ(a.see<Shown>(entity)->x, static_cast<int>(tick));
    }
}

struct Motto {
    std::string text;
};

Schema motto_schema(ViewClasses viewers = to_everyone()) {
    Schema schema;
    schema.component<Shown>("place");
    schema.component<Motto>("motto", max_length(16), from_owner(), viewers);
    schema.tag<Mine>("mine", to_owner());
    return schema;
}

TEST(ViewClass, Rule20AnOwnerGetsNoNewValuesOfWhatItDecides) {
    const Schema schema = motto_schema();
    ecs::World world;
    Sender sender(world, schema);
    Viewer owner(sender, schema), other(sender, schema);
    sender.set_groups(owner.peer, to_group(3));
    const ecs::Entity entity = world.spawn(Replicated{}, Shown{1}, Motto{"first"});
    sender.set_owner(entity, owner.peer);
    sender.update(1);
    owner.exchange();
    other.exchange();
    ASSERT_NE(owner.see<Motto>(entity), nullptr) << "a full record has the value";
    EXPECT_EQ(owner.see<Motto>(entity)->text, "first");
    sender.update(2);
    owner.exchange();

    world.set(entity, Motto{"second"});
    sender.update(3);
    EXPECT_TRUE(owner.exchange().empty());
    other.exchange();
    EXPECT_EQ(other.see<Motto>(entity)->text, "second");
    world.set(entity, Shown{2}, Motto{"third"});
    sender.update(4);
    const auto of_owner = owner.exchange(), of_other = other.exchange();
    EXPECT_LT(of_owner.at(0).size() + 3, of_other.at(0).size());
    EXPECT_EQ(owner.see<Shown>(entity)->x, 2);
    EXPECT_EQ(owner.see<Motto>(entity)->text, "first");
    EXPECT_EQ(other.see<Motto>(entity)->text, "third");

    world.remove<Motto>(entity);
    sender.update(5);
    owner.exchange();
    EXPECT_EQ(owner.see<Motto>(entity), nullptr) << "whether the component is there, the server decides";
    world.set(entity, Motto{"fourth"});
    sender.update(6);
    owner.exchange();
    EXPECT_EQ(owner.see<Motto>(entity)->text, "fourth");
    world.set(entity, Motto{"fifth"});
    sender.set_owner(entity, other.peer);
    sender.update(7);
    owner.exchange();
    other.exchange();
    EXPECT_EQ(owner.see<Motto>(entity)->text, "fifth") << "it does not own the entity any more";
    EXPECT_EQ(other.see<Motto>(entity)->text, "fifth");
    EXPECT_TRUE(sender.is_consistent());
}

TEST(ViewClass, WhatAnOwnerDecidesIsShownOnlyToItsViewers) {
    const Schema schema = motto_schema(to_group(1));
    ecs::World world;
    Sender sender(world, schema);
    Viewer owner(sender, schema), friend_of(sender, schema), other(sender, schema);
    sender.set_groups(friend_of.peer, to_group(1));
    const ecs::Entity entity = world.spawn(Replicated{}, Shown{1}, Motto{"first"});
    sender.set_owner(entity, owner.peer);
    for (Tick tick = 1; tick < 4; ++tick) {
        world.set(entity, Motto{std::to_string(tick)});
        sender.update(tick);
        for (Viewer* const viewer : {&owner, &friend_of, &other}) viewer->exchange();
        EXPECT_EQ(friend_of.see<Motto>(entity)->text, std::to_string(tick));
        EXPECT_EQ(other.see<Motto>(entity), nullptr);
    }
}

// Goal: what an owner decides never breaks a record for it, whatever is lost, changes or is removed.
// Method: at the end all values but the owner's are equal, and all of them after the owner gave it away.
TEST(ViewClass, Rule20RecordsForAnOwnerFitItsVersions) {
    for (std::uint32_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        const Schema schema = motto_schema();
        ecs::World world;
        Sender sender(world, schema);
        Viewer owner(sender, schema);
        std::vector<ecs::Entity> entities;
        for (int i = 0; i < 4; ++i) entities.push_back(world.spawn(Replicated{}, Shown{i}, Motto{"x"}));
        std::vector<std::pair<std::uint64_t, bool>> open;
        const auto any = [&] { return entities[random() % entities.size()]; };
        Tick tick = 1;
        const auto step = [&](double loss) {
            sender.update(tick++);
            std::byte room[1300];
            for (;;) {
                const auto payload = sender.encode(owner.peer, owner.number, 60, room);
                if (payload.empty()) break;
                const bool arrives = static_cast<double>(random() % 100) >= loss * 100;
                if (arrives) {
                    ASSERT_EQ(owner.receiver.receive(owner.number, payload), Receiver::Verdict::accepted);
                }
                open.push_back({owner.number++, arrives});
            }
            for (; open.size() > (loss == 0 ? 0 : random() % 6); open.erase(open.begin()))
                sender.on_fate(owner.peer, open.front().first, open.front().second);
            owner.receiver.apply();
        };
        for (int i = 0; i < 400; ++i) {
            if (random() % 2 == 0) world.set(any(), Shown{static_cast<int>(random() % 100)});
            if (random() % 2 == 0) world.set(any(), Motto{std::string(random() % 16, 'a')});
            if (random() % 9 == 0) world.remove<Motto>(any());
            if (random() % 40 == 0)
                sender.set_owner(any(), random() % 3 == 0 ? std::nullopt : std::optional(owner.peer));
            step(i % 130 > 80 ? 1 : 0.3);
        }
        for (int i = 0; i < 20; ++i) step(0);
        for (const ecs::Entity entity : entities) {
            EXPECT_EQ(owner.see<Shown>(entity)->x, world.get<Shown>(entity).x);
            EXPECT_EQ(owner.see<Motto>(entity) != nullptr, world.has<Motto>(entity));
            sender.set_owner(entity, std::nullopt);
        }
        for (int i = 0; i < 20; ++i) step(0);
        for (const ecs::Entity entity : entities)
            if (const Motto* motto = world.try_get<Motto>(entity)) {
                EXPECT_EQ(owner.see<Motto>(entity)->text, motto->text);
            }
        EXPECT_TRUE(sender.is_consistent() && owner.receiver.is_consistent());
    }
}

}  // namespace
}  // namespace shoal::replication::all
