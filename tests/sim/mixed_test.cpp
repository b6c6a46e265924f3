// A server whose entities have every kind of state at once: owners, groups, pairs, wholes with parts, stable
// keys, clusters, optional components, states that are too large, a singleton. Kinds change together in one
// tick. When all is at rest, each client has exactly what it should see.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session.h"

namespace shoal::sim::mixed {
namespace {

using replication::NetId;
using replication::Replicated;

constexpr std::size_t kGuests = 3;
constexpr std::uint32_t kMaxBeings = 24, kKeys = 5;

struct Body {
    std::int32_t weight = 0;
    ecs::Entity friendly;
};
struct Notes {
    std::vector<std::string> lines;
};
struct Secret {
    std::int32_t number = 0;
};
struct Disguise {
    std::int32_t number = 0;
};
struct Orders {
    std::int32_t number = 0;
};
struct Hat {
    std::int32_t size = 0;
};
struct Bow {
    std::vector<std::uint32_t> first;
};
struct Stern {
    std::vector<std::uint32_t> second;
};
struct Round {
    std::int32_t number = 0;
};
struct Leads {
    static constexpr auto relation = ecs::exclusive;
    std::int32_t rank = 0;
};
struct Trades {
    static constexpr auto relation = ecs::many;
    std::int32_t price = 0;
};
struct PartOf {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};
struct Sprite {};  // of entities that a client loaded

void describe(replication::Schema& schema, bool has_hats) {
    using namespace replication;
    schema.component<Body>("body");
    schema.component<Notes>("notes");
    schema.component<Secret>("secret", to_owner());
    schema.component<Disguise>("disguise", to_others());
    schema.component<Orders>("orders", to_group(0));
    schema.component<Bow>("bow", field(&Bow::first, max_length(5'000)));
    schema.component<Stern>("stern", field(&Stern::second, max_length(5'000)));
    schema.singleton<Round>("round");
    schema.pair<Leads>("leads");
    schema.pair<Trades>("trades", max_length(100));
    schema.pair<PartOf>("part of");
    schema.tag<Mine>("mine", to_owner());
    if (!has_hats) return;
    schema.component<Hat>("hat");
    schema.optional<Hat>();
}

class MixedWorld {
public:
    MixedWorld(std::uint64_t seed, const net::LinkConfig& link) : random_(seed), link_(link) {
        describe(schema_, true);
        describe(without_hats_, false);
        session_.emplace(schema_, link, kGuests, seed,
                         std::vector<const replication::Schema*>{&without_hats_});
        world().set_singleton(Round{});
    }

    void step(bool with_changes) {
        if (with_changes) {
            for (std::uint32_t scenes = random_.below(4); scenes > 0; --scenes) play_scene();
            for (const auto& guest : session_->guests()) change_client(*guest);
            if (random_.chance(0.02)) silent_for_ = random_.below(70);
            if (silent_for_ > 0 && --silent_for_ == 0) session_->set_link(link_);
            if (silent_for_ > 0) session_->set_link(silence());
        }
        session_->step();
        for (std::size_t guest = 0; guest < kGuests; ++guest) check(guest);
        ASSERT_TRUE(server().sender().is_consistent());
    }

    /// Without changes and without loss, until each client is complete. A connection that met long silences
    /// may need many seconds for a large payload.
    void rest() {
        session_->set_link({});
        const replication::Tick began = server().sender().tick();
        for (int i = 0; i < 5'000 && !is_at_rest(began) && !testing::Test::HasFatalFailure(); ++i) {
            for (const auto& guest : session_->guests()) come_back(*guest);  // also who finds out only now
            step(false);
        }
        for (int i = 0; i < 100 && !testing::Test::HasFatalFailure(); ++i) step(false);
    }

    void expect_agreement() {
        for (std::size_t guest = 0; guest < kGuests; ++guest) {
            SCOPED_TRACE(testing::Message() << "guest " << guest);
            ASSERT_TRUE(client(guest).is_connected()) << client(guest).failure();
            ASSERT_TRUE(receiver(guest).complete());
            std::uint32_t entities = 0;
            world().each_entity([&](ecs::Entity entity) {
                if (!world().has<Replicated>(entity)) return;
                entities += 1;
                expect_equal(guest, entity);
            });
            EXPECT_EQ(receiver(guest).entity_count(), entities);
            EXPECT_EQ(mirror(guest).singleton<Round>().number, world().singleton<Round>().number);
            EXPECT_EQ(receiver(guest).stats().suppressed, 0u);
            EXPECT_EQ(receiver(guest).stats().malformed_packets, 0u);
            check_keys(guest);
        }
    }

private:
    ecs::World& world() { return session_->world(); }
    replication::Server& server() { return session_->server(); }
    ecs::World& mirror(std::size_t guest) { return session_->guests()[guest]->world; }
    replication::Client& client(std::size_t guest) { return session_->guests()[guest]->client; }
    const replication::Receiver& receiver(std::size_t guest) { return client(guest).receiver(); }
    std::int32_t any_number() { return static_cast<std::int32_t>(random_.below(1'000)); }
    ecs::Entity any() { return beings_[random_.below(static_cast<std::uint32_t>(beings_.size()))]; }

    static net::LinkConfig silence() {
        net::LinkConfig link;
        link.loss = 1;
        return link;
    }

    // What happens on the server

    ecs::Entity spawn() {
        const ecs::Entity being = world().spawn(Replicated{}, Body{any_number(), {}});
        if (random_.chance(0.4)) world().set(being, replication::Cluster{random_.below(3)});
        if (random_.chance(0.4)) server().give(any_peer(), being);
        beings_.push_back(being);
        return being;
    }
    /// Gives a key to the entity before it replicates, if no other one has it.
    void spawn_keyed(std::uint32_t key) {
        if (holder_of(world(), key)) return;
        const ecs::Entity being =
            world().spawn(Replicated{}, replication::StableKey{key}, Body{any_number(), {}});
        beings_.push_back(being);
    }
    static ecs::Entity holder_of(ecs::World& world, std::uint32_t key) {
        ecs::Entity found;
        world.each_entity([&](ecs::Entity entity) {
            const auto* const known = world.try_get<replication::StableKey>(entity);
            if (known && known->value == key) found = entity;
        });
        return found;
    }
    net::PeerId any_peer() {
        std::vector<net::PeerId> peers{{}};
        server().for_each_peer([&](net::PeerId peer) { peers.push_back(peer); });
        return peers[random_.below(static_cast<std::uint32_t>(peers.size()))];
    }
    /// The guest's address can have earlier connections, of which the server does not know that they ended.
    std::optional<net::PeerId> peer_of(std::size_t guest) {
        const auto ticket = replication::impl::Ticket::from(client(guest).ticket());
        return ticket ? std::optional(ticket->seat) : std::nullopt;
    }
    bool is_inside(ecs::Entity entity, ecs::Entity whole) {
        while (entity && entity != whole) entity = world().target<PartOf>(entity);
        return entity == whole;
    }

    /// Some things that happen to one or two entities in one tick.
    void play_scene() {
        std::erase_if(beings_, [&](ecs::Entity being) { return !world().is_alive(being); });
        if (beings_.size() < 4 || (beings_.size() < kMaxBeings && random_.chance(0.15))) spawn();
        if (random_.chance(0.1)) spawn_keyed(random_.below(kKeys));
        const ecs::Entity first = any(), second = any();
        const ecs::Entity whole = world().target<PartOf>(first);
        for (std::uint32_t acts = 1 + random_.below(5); acts > 0; --acts) act(first, second);
        if (random_.chance(0.1) && world().is_alive(whole)) world().destroy(whole);
        if (!world().is_alive(first) || random_.chance(0.95)) return;
        const auto* const key = world().try_get<replication::StableKey>(first);
        const std::optional<std::uint32_t> number = key ? std::optional(key->value) : std::nullopt;
        world().destroy(first);
        if (number && random_.chance(0.7)) spawn_keyed(*number);
    }

    void act(ecs::Entity first, ecs::Entity second) {
        if (!world().is_alive(first) || !world().is_alive(second)) return;
        const std::int32_t number = any_number();
        switch (random_.below(20)) {
            case 0:
                return world().set(first, Body{number, second});
            case 1:
                return world().set(first,
                                   Notes{{std::string(random_.below(9), 'n'), std::to_string(number)}});
            case 2:
                return world().set(first, Secret{number});
            case 3:
                return world().set(first, Disguise{number});
            case 4:
                return world().set(first, Orders{number});
            case 5:
                return world().set(first, Hat{number});
            case 6:
                return world().remove<Secret, Hat, Notes>(first);
            case 7:
                return static_cast<void>(server().give(any_peer(), first));
            case 8:
                return change_groups();
            case 9:
                return world().set(first, ecs::to<Leads>(second), Leads{number});
            case 10:
                return world().set(first, ecs::to<Trades>(second), Trades{number});
            case 11:
                world().remove(first, ecs::to<Leads>(second));
                return world().remove(first, ecs::to<Trades>(second));
            case 12:
            case 13:
                if (!is_inside(second, first)) world().add(first, ecs::to<PartOf>(second));
                return;
            case 14:
                return world().remove(first, ecs::to<PartOf>(world().target<PartOf>(first)));
            case 15:
                return world().set(first, replication::Cluster{random_.below(3)});
            case 16:
                return world().remove<replication::Cluster>(first);
            case 17:  // off, on, or off and on within a tick
                if (world().has<Replicated>(first)) world().remove<Replicated>(first);
                if (random_.chance(0.6)) world().add<Replicated>(first);
                return;
            case 18:
                return change_size(first);
            default:
                world().patch_singleton<Round>([&](Round& round) { round.number = number; });
        }
    }

    void change_groups() {
        const net::PeerId peer = any_peer();
        const bool is_in = random_.chance(0.5);
        if (!peer) return;
        is_in_group_[peer] = is_in;
        server().view(peer).set_groups(is_in ? replication::to_group(0) : replication::ViewClasses{});
    }

    /// Two halves together are more than an entity may have.
    void change_size(ecs::Entity being) {
        if (random_.chance(0.5)) return world().remove<Bow, Stern>(being);
        if (random_.chance(0.7)) return;
        const std::vector<std::uint32_t> many(4'500, 0x8000'0000u + random_.below(100));
        world().set(being, Bow{many});
        if (random_.chance(0.7)) world().set(being, Stern{many});
    }

    // What happens on a client

    void change_client(Session::Visitor& guest) {
        const std::uint32_t key = random_.below(kKeys);
        if (random_.chance(0.05) && !holder_of(guest.world, key))
            guest.world.spawn(replication::StableKey{key}, Sprite{});
        if (random_.chance(0.005)) {
            guest.client.disconnect(net::Time(0));
            away_.insert(&guest);
            if (random_.chance(0.7)) come_back(guest);
        }
        if (random_.chance(0.05)) come_back(guest);
    }
    void come_back(Session::Visitor& guest) {
        if (away_.erase(&guest) == 0 && guest.client.failure().empty()) return;
        guest.client.connect(session_->at_server());
    }

    // What must hold

    bool is_at_rest(replication::Tick began) {
        for (std::size_t guest = 0; guest < kGuests; ++guest) {
            const auto complete = receiver(guest).complete();
            if (!complete || replication::is_newer(began + 10, complete->tick)) return false;
        }
        return true;
    }

    void check(std::size_t guest) {
        ASSERT_TRUE(receiver(guest).is_consistent());
        ASSERT_EQ(receiver(guest).stats().malformed_packets, 0u);
        receiver(guest).for_each_entity([&](NetId, ecs::Entity replica) {
            EXPECT_TRUE(mirror(guest).has<replication::Replica>(replica));
        });
    }

    void check_keys(std::size_t guest) {
        std::set<std::uint32_t> seen;
        mirror(guest).each_entity([&](ecs::Entity entity) {
            const auto* const key = mirror(guest).try_get<replication::StableKey>(entity);
            if (!key) return;
            EXPECT_TRUE(seen.insert(key->value).second) << "two entities have key " << key->value;
            const ecs::Entity truth = holder_of(world(), key->value);
            const bool replicates = truth && world().has<Replicated>(truth);
            EXPECT_EQ(mirror(guest).has<replication::Replica>(entity), replicates) << "key " << key->value;
        });
    }

    bool is_too_large(ecs::Entity entity) {
        const replication::impl::Shadow& shadow = server().sender().shadow();
        return shadow[shadow.index_of(entity)].is_too_large;
    }

    template <class T, class Equal>
    void expect_same(std::size_t guest, ecs::Entity entity, ecs::Entity replica, bool is_visible,
                     const char* name, Equal&& equal) {
        const T* const truth = world().try_get<T>(entity);
        const T* const copy = mirror(guest).try_get<T>(replica);
        ASSERT_EQ(copy != nullptr, truth != nullptr && is_visible) << name;
        EXPECT_TRUE(!copy || equal(*truth, *copy)) << name;
    }

    template <class R>
    std::map<NetId, std::int64_t> pairs_of(ecs::World& of, ecs::Entity source, auto&& net_id_of) {
        std::map<NetId, std::int64_t> pairs;
        for (const ecs::Entity target : of.targets<R>(source)) {
            std::int64_t value = 0;
            if constexpr (std::is_same_v<R, Leads>) value = of.get(source, ecs::to<R>(target)).rank;
            if constexpr (std::is_same_v<R, Trades>) value = of.get(source, ecs::to<R>(target)).price;
            pairs[net_id_of(target)] = value;
        }
        return pairs;
    }
    template <class R>
    void expect_same_pairs(std::size_t guest, ecs::Entity entity, ecs::Entity replica, const char* name) {
        auto expected = pairs_of<R>(world(), entity,
                                    [&](ecs::Entity target) { return server().sender().net_id(target); });
        std::erase_if(expected, [&](const auto& pair) {
            return pair.first == 0 || !receiver(guest).entity(pair.first);
        });
        const auto is = pairs_of<R>(mirror(guest), replica,
                                    [&](ecs::Entity target) { return receiver(guest).net_id(target); });
        EXPECT_EQ(is, expected) << name;
    }

    void expect_equal(std::size_t guest, ecs::Entity entity) {
        const NetId net_id = server().sender().net_id(entity);
        SCOPED_TRACE(testing::Message() << "net id " << net_id);
        const ecs::Entity replica = receiver(guest).entity(net_id);
        ASSERT_TRUE(mirror(guest).is_alive(replica));
        ASSERT_TRUE(mirror(guest).has<replication::Replica>(replica));
        if (is_too_large(entity)) return;  // the client has its last state that was not
        const auto peer = peer_of(guest);
        ASSERT_TRUE(peer);
        const bool is_owner = server().owner(entity) == *peer, is_in_group = is_in_group_[*peer];
        const auto same_number = [](const auto& a, const auto& b) { return a.number == b.number; };
        expect_same<Body>(guest, entity, replica, true, "body", [&](const Body& a, const Body& b) {
            const NetId known = server().sender().net_id(a.friendly);
            return a.weight == b.weight &&
                   b.friendly == (known ? receiver(guest).entity(known) : ecs::Entity{});
        });
        expect_same<Notes>(guest, entity, replica, true, "notes",
                           [](const Notes& a, const Notes& b) { return a.lines == b.lines; });
        expect_same<Secret>(guest, entity, replica, is_owner, "secret", same_number);
        expect_same<Disguise>(guest, entity, replica, !is_owner, "disguise", same_number);
        expect_same<Orders>(guest, entity, replica, is_in_group, "orders", same_number);
        expect_same<Hat>(guest, entity, replica, guest != 0, "hat",
                         [](const Hat& a, const Hat& b) { return a.size == b.size; });
        expect_same<Bow>(guest, entity, replica, true, "bow",
                         [](const Bow& a, const Bow& b) { return a.first == b.first; });
        expect_same<Stern>(guest, entity, replica, true, "stern",
                           [](const Stern& a, const Stern& b) { return a.second == b.second; });
        EXPECT_EQ(mirror(guest).has<replication::Mine>(replica), is_owner) << "mine";
        expect_same_pairs<Leads>(guest, entity, replica, "leads");
        expect_same_pairs<Trades>(guest, entity, replica, "trades");
        expect_same_pairs<PartOf>(guest, entity, replica, "part of");
    }

    Random random_;
    net::LinkConfig link_;
    replication::Schema schema_, without_hats_;
    std::optional<Session> session_;
    std::vector<ecs::Entity> beings_;
    std::map<net::PeerId, bool> is_in_group_;
    std::set<const Session::Visitor*> away_;  // they disconnected
    std::uint32_t silent_for_ = 0;
};

TEST(MixedWorld, EachClientHasWhatItShouldSeeWhenAllKindsOfStateMeet) {
    for (const std::uint64_t seed : kind_seeds(8)) {
        SCOPED_TRACE(testing::Message() << "SHOAL_KIND_SEEDS=" << seed << ":1");
        net::LinkConfig link;
        link.latency = std::chrono::milliseconds(10 * static_cast<int>(seed % 12));
        if (seed % 2 == 0) link.jitter = std::chrono::milliseconds(25);
        link.loss = 0.04 * static_cast<double>(seed % 6);
        link.duplicate = seed % 3 == 0 ? 0.05 : 0;
        MixedWorld game(seed, link);
        for (int tick = 0; tick < 500 && !testing::Test::HasFatalFailure(); ++tick) game.step(true);
        game.rest();
        game.expect_agreement();
        if (testing::Test::HasFailure()) break;
    }
}

}  // namespace
}  // namespace shoal::sim::mixed
