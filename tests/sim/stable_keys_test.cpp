// Levels that server and clients load by themselves: entities with stable keys come and go on both sides,
// over a bad network.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session.h"

namespace shoal::sim {
namespace {

using replication::Replica;
using replication::Replicated;
using replication::StableKey;

constexpr std::uint32_t kKeys = 6, kAimers = 4, kLoaders = 3;

struct Door {
    std::int32_t opened = 0;
};
struct Lamp {
    std::int32_t light = 0;
};
struct Sign {
    ecs::Entity at;
};
struct Sprite {  // only clients have it
    std::uint32_t key = 0;
};

replication::Schema level_schema() {
    replication::Schema schema;
    schema.component<Door>("door");
    schema.component<Lamp>("lamp");
    schema.component<Sign>("sign");
    return schema;
}

/// The living entity with each key, at most one.
std::map<std::uint32_t, ecs::Entity> by_key(ecs::World& world) {
    std::map<std::uint32_t, ecs::Entity> found;
    world.each_entity([&](ecs::Entity entity) {
        if (const StableKey* key = world.try_get<StableKey>(entity)) {
            const bool is_new = found.emplace(key->value, entity).second;
            EXPECT_TRUE(is_new) << "two entities have key " << key->value;
        }
    });
    return found;
}

class KeyedLevel {
public:
    KeyedLevel(std::uint64_t seed, const net::LinkConfig& link)
        : random_(seed), session_(schema_, link, kLoaders, seed) {
        for (std::uint32_t i = 0; i < kAimers; ++i)
            aimers_.push_back(session_.world().spawn(Sign{}, Replicated{}));
    }

    void step(bool with_changes) {
        if (with_changes) {
            change_server();
            for (const auto& guest : session_.guests()) change_client(*guest);
        }
        session_.step();
        for (const auto& guest : session_.guests()) check(*guest);
    }

    void set_link(const net::LinkConfig& link) { session_.set_link(link); }

    /// All clients load what they do not have, when no replica will leave any more.
    void load_everything() {
        session_.converge(600);
        for (const auto& guest : session_.guests())
            for (std::uint32_t key = 0; key < kKeys; ++key)
                if (by_key(guest->world).count(key) == 0) load(*guest, key);
        session_.step();
    }

    void expect_agreement() {
        session_.converge(600);
        std::uint32_t entities = kAimers;
        const auto ours = by_key(session_.world());
        for (const auto& [key, entity] : ours) entities += session_.world().has<Replicated>(entity);
        session_.expect_agreement(entities);
        for (const auto& guest : session_.guests())
            for (const auto& [key, replica] : by_key(guest->world)) {
                const bool exists = ours.count(key) != 0 && session_.world().has<Replicated>(ours.at(key));
                EXPECT_EQ(guest->world.has<Replica>(replica), exists) << "key " << key;
            }
        EXPECT_EQ(session_.server().sender().shadow().refused_keys(), 0u);
    }

    std::uint64_t matched = 0, respawned = 0, merged = 0, reloaded = 0;

private:
    using Visitor = Session::Visitor;

    void change_server() {
        ecs::World& world = session_.world();
        const std::uint32_t key = random_.below(kKeys);
        const ecs::Entity entity = by_key(world)[key];
        if (!entity) {
            spawn(key);
        } else if (random_.chance(0.15)) {
            world.destroy(entity);
            if (random_.chance(0.6)) spawn(key), ++respawned;  // in the same tick
        } else if (random_.chance(0.1)) {
            world.has<Replicated>(entity) ? world.remove<Replicated>(entity) : world.add<Replicated>(entity);
        } else if (random_.chance(0.3)) {
            world.has<Lamp>(entity) ? world.remove<Lamp>(entity) : world.add<Lamp>(entity);
        } else {
            world.set(entity, Door{static_cast<std::int32_t>(random_.below(1'000))});
        }
        const ecs::Entity target = by_key(world)[random_.below(kKeys)];
        if (random_.chance(0.2)) world.set(aimers_[random_.below(kAimers)], Sign{target});
    }
    void spawn(std::uint32_t key) {
        const ecs::Entity entity = session_.world().spawn(
            Door{static_cast<std::int32_t>(random_.below(1'000))}, StableKey{key}, Sign{});
        if (random_.chance(0.8)) session_.world().add<Replicated>(entity);
    }

    void change_client(Visitor& guest) {
        if (random_.chance(0.01)) {
            guest.client.connect(session_.at_server());
            reloaded += 1;
        }
        if (!random_.chance(0.15)) return;
        const std::uint32_t key = random_.below(kKeys);
        const ecs::Entity entity = by_key(guest.world)[key];
        const bool is_games = entity && guest.world.has<Sprite>(entity);
        if (!is_games) {
            merged += entity ? 1 : 0;
            load(guest, key);
        } else {
            matched += guest.world.has<Replica>(entity);
            if (random_.chance(0.5)) guest.world.destroy(entity);
        }
    }
    static void load(Visitor& guest, std::uint32_t key) {
        guest.world.spawn(Door{-1}, Lamp{-1}, Sprite{key}, StableKey{key});
    }

    /// After an update: no key has two entities, and each entity with a key is where it belongs.
    void check(Visitor& guest) {
        const replication::Receiver& receiver = guest.client.receiver();
        const auto found = by_key(guest.world);
        for (const auto& [key, entity] : found) {
            EXPECT_EQ(receiver.entity(StableKey{key}), entity);
            const Sprite* const sprite = guest.world.try_get<Sprite>(entity);
            EXPECT_TRUE(sprite || guest.world.has<Replica>(entity)) << "a leftover of the library";
            EXPECT_TRUE(!sprite || sprite->key == key);
        }
        guest.world.each_entity([&](ecs::Entity entity) {
            const Sign* const sign = guest.world.try_get<Sign>(entity);
            if (!sign || !sign->at || !guest.world.is_alive(sign->at)) return;
            const StableKey* const key = guest.world.try_get<StableKey>(sign->at);
            ASSERT_TRUE(key);
            EXPECT_EQ(sign->at, found.at(key->value));
        });
        EXPECT_TRUE(receiver.is_consistent());
        EXPECT_TRUE(session_.server().sender().is_consistent());
        EXPECT_EQ(receiver.stats().malformed_packets, 0u);
        EXPECT_EQ(receiver.stats().refused_keys, 0u);
    }

    Random random_;
    const replication::Schema schema_ = level_schema();
    Session session_;
    std::vector<ecs::Entity> aimers_;
};

// Goal: a key never names two entities of a client after an update, and when changes and faults end, the
// worlds are equal, with all references, whatever was lost, overtaken, destroyed, loaded or reconnected.
// Method: one seed determines everything; both sides create and destroy entities with six keys.
TEST(KeyedLevels, Rule27KeysMatchWhicheverSideHasThemFirstThroughLossAndRespawns) {
    std::uint64_t matched = 0, respawned = 0, merged = 0, reloaded = 0;
    const std::vector<std::uint64_t> seeds = kind_seeds(24);
    for (const std::uint64_t seed : seeds) {
        SCOPED_TRACE(testing::Message() << "SHOAL_KIND_SEEDS=" << seed << ":1");
        net::LinkConfig link;
        link.latency = std::chrono::milliseconds(15 * static_cast<int>(seed % 8));
        link.jitter = std::chrono::milliseconds(10);
        link.loss = 0.03 * static_cast<double>(seed % 6);
        link.reorder = seed % 3 == 0 ? 0.2 : 0;
        KeyedLevel level(seed, link);
        for (int tick = 0; tick < 500 && !testing::Test::HasFailure(); ++tick) {
            if (tick % 150 == 80) level.set_link({.loss = 1});
            if (tick % 150 == 110) level.set_link(link);
            level.step(true);
        }
        level.set_link({});
        level.load_everything();
        level.expect_agreement();
        matched += level.matched;
        respawned += level.respawned;
        merged += level.merged;
        reloaded += level.reloaded;
        if (HasFailure()) break;
    }
    for (const std::uint64_t happened : {matched, respawned, merged, reloaded})
        EXPECT_GT(happened, 2 * seeds.size());
}

}  // namespace
}  // namespace shoal::sim
