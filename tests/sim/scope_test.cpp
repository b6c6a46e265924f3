// Players who see different parts of a world, through loss and reordering: viewpoints and entities that move
// and jump, rooms, filters, show and hide, holders that change hands, references to what is hidden.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "replication/receive/receiver.h"
#include "replication/send/sender.h"
#include "replication/world_hash.h"
#include "tests/sim/seeds.h"

namespace shoal::sim {
namespace {

using namespace replication;
using replication::impl::NetId;
using replication::impl::Room;
using replication::impl::Tick;

struct Here {
    float x = 0, y = 0;
};
struct HiddenNumber {
    std::uint64_t number = 0;  // of no other entity
};
struct Cloak {
    std::int32_t level = 0;
};
struct Banner {};
struct Thoughts {
    ecs::Entity about;
    std::vector<ecs::Entity> others;
};
struct Carried {
    static constexpr auto relation = ecs::exclusive;
};
struct Knows {
    static constexpr auto relation = ecs::many;
};

Schema parts_schema() {
    Schema schema;
    schema.component<Here>("here");
    schema.component<HiddenNumber>("secret");
    schema.component<Cloak>("cloak", fresh_within(std::chrono::milliseconds(100)));
    schema.tag<Banner>("banner", everywhere());
    schema.component<Thoughts>("thoughts", every(std::chrono::milliseconds(200)));
    schema.pair<Carried>("carried", follows());
    schema.pair<Knows>("knows");
    schema.grid<Here>({.radius = 20, .leave_radius = 24});
    return schema;
}

/// One world, and clients that see parts of it.
class Parts {
public:
    explicit Parts(std::uint64_t seed, std::size_t clients)
        : random_(static_cast<std::uint32_t>(seed)), schema_(parts_schema()), sender_(world_, schema_) {
        sender_.scope().set_filter(
            world_.component<Cloak>(), "Cloak", [](std::uint32_t peer, ecs::Entity, const void* cloak) {
                return static_cast<const Cloak*>(cloak)->level % 5 <= static_cast<int>(peer % 4);
            });
        for (std::size_t i = 0; i < clients; ++i) add_client();
        for (int i = 0; i < 30; ++i) spawn();
    }

    void step(bool is_quiet) {
        if (!is_quiet)
            for (int i = 0; i < 12; ++i) change();
        sender_.update(++tick_);
        ASSERT_TRUE(sender_.is_consistent() && sender_.scope().is_consistent()) << "tick " << tick_;
        for (const auto& client : clients_) {
            note_seen(*client);
            send(*client, is_quiet);
            receive(*client, is_quiet);
            check(*client);
        }
    }

    /// Without loss, until every client has what it sees.
    void settle() {
        for (int i = 0; i < 40; ++i) step(true);
        for (const auto& client : clients_) {
            ASSERT_TRUE(client->receiver.complete() && client->receiver.complete()->tick == tick_);
            const WorldHash::Sum seen = server_hash_.of_peer(sender_, client->peer);
            EXPECT_EQ(client->hash.of_client(client->receiver).hash, seen.hash) << client->peer;
        }
    }

    std::uint64_t compared = 0;

private:
    struct Datagram {
        std::uint64_t number;
        Tick due;
        bool is_lost;
        std::vector<std::byte> bytes;
    };
    struct Client {
        Client(const Schema& schema, impl::Sender::Peer its_peer)
            : receiver(world, schema), hash(world, schema), peer(its_peer) {}
        ecs::World world;
        Receiver receiver;
        WorldHash hash;
        impl::Sender::Peer peer;
        ecs::Entity viewpoint;
        std::uint64_t next = 1;
        std::deque<Datagram> flight;
        std::set<NetId> seen;             // net ids that the client may have heard of
        std::set<std::uint64_t> secrets;  // of these entities
    };

    float number(float most) { return std::uniform_real_distribution<float>(-most, most)(random_); }
    std::int32_t level() { return static_cast<std::int32_t>(random_() % 8); }
    Room room() { return {static_cast<std::uint32_t>(random_() % 3)}; }
    ecs::Entity any() { return entities_[random_() % entities_.size()]; }

    void add_client() {
        clients_.push_back(std::make_unique<Client>(schema_, sender_.add_peer()));
        clients_.back()->viewpoint = world_.spawn(Here{number(60), number(60)});
        sender_.scope().view_from(clients_.back()->peer, clients_.back()->viewpoint);
    }

    void spawn() {
        const ecs::Entity entity =
            world_.spawn(Replicated{}, HiddenNumber{random_() | std::uint64_t{1} << 60 | ++serial_ << 32});
        if (random_() % 8 != 0) world_.set(entity, Here{number(60), number(60)});
        if (random_() % 6 == 0) world_.set(entity, room());
        if (random_() % 5 == 0) world_.set(entity, Cloak{level()});
        entities_.push_back(entity);
    }

    void change() {
        const ecs::Entity entity = any();
        Client& client = *clients_[random_() % clients_.size()];
        impl::Scope& scope = sender_.scope();
        switch (random_() % 20) {
            case 0:
                return spawn();
            case 1:
                if (entities_.size() < 20) return;
                std::erase(entities_, entity);
                return world_.destroy(entity);
            case 2:
                return scope.set_shown(client.peer, entity,
                                       random_() % 3 == 0 ? std::nullopt : std::optional(random_() % 2 == 0));
            case 3:
                return random_() % 2 == 0 ? scope.enter(client.peer, room())
                                          : scope.leave(client.peer, room());
            case 4:
                return random_() % 2 == 0 ? static_cast<void>(world_.set(entity, room()))
                                          : static_cast<void>(world_.remove<Room>(entity));
            case 5:
                world_.set(entity, Cloak{level()});
                return;
            case 6:
                world_.set(entity, Thoughts{any(), {any(), any()}});
                return;
            case 7:
                world_.add(entity, ecs::to<Carried>(any()));
                return;
            case 8:
                if (const ecs::Entity holder = world_.target<Carried>(entity))
                    world_.remove(entity, ecs::to<Carried>(holder));
                return;
            case 9:
                world_.add(entity, ecs::to<Knows>(any()));
                return;
            case 10:
                sender_.set_owner(entity, random_() % 2 == 0 ? std::optional(client.peer) : std::nullopt);
                return;
            case 11:
                return random_() % 4 == 0 && !world_.has<Banner>(entity)
                           ? static_cast<void>(world_.add<Banner>(entity))
                           : static_cast<void>(world_.remove<Banner>(entity));
            case 12:
                return random_() % 5 != 0               ? void()
                       : world_.has<Replicated>(entity) ? static_cast<void>(world_.remove<Replicated>(entity))
                                                        : static_cast<void>(world_.add<Replicated>(entity));
            case 13:
                world_.set(client.viewpoint, Here{number(60), number(60)});
                return;
            case 14:
                world_.set(entity, Here{number(60), number(60)});
                return;
            default:
                walk(random_() % 4 == 0 ? client.viewpoint : entity);
        }
    }

    void walk(ecs::Entity entity) {
        if (const Here* const at = world_.try_get<Here>(entity))
            world_.set(entity, Here{at->x + number(3), at->y + number(3)});
    }

    /// Notes what the client may hear of from now on.
    void note_seen(Client& client) {
        for (const ecs::Entity entity : entities_) {
            if (!world_.has<Replicated>(entity) || !sender_.sees(client.peer, entity)) continue;
            client.seen.insert(sender_.net_id(entity));
            client.secrets.insert(world_.get<HiddenNumber>(entity).number);
        }
    }

    void send(Client& client, bool is_quiet) {
        if (is_quiet) sender_.request_marker(client.peer);
        std::byte room[1300];
        while (true) {
            const auto payload = sender_.encode(client.peer, client.next, 300 + random_() % 900, room);
            if (payload.empty()) return;
            const bool is_lost = !is_quiet && random_() % 5 == 0;
            client.flight.push_back({client.next++,
                                     tick_ + static_cast<Tick>(random_() % 6),
                                     is_lost,
                                     {payload.begin(), payload.end()}});
        }
    }

    void receive(Client& client, bool is_quiet) {
        for (std::size_t i = 0; i < client.flight.size();) {
            Datagram& one = client.flight[i];
            if (!is_quiet && impl::is_newer(one.due, tick_)) {
                ++i;
                continue;
            }
            bool arrives = !one.is_lost;
            if (arrives) {
                const Receiver::Verdict verdict = client.receiver.receive(one.number, one.bytes);
                ASSERT_NE(verdict, Receiver::Verdict::malformed);
                arrives = verdict == Receiver::Verdict::accepted;
            }
            sender_.on_fate(client.peer, one.number, arrives);
            client.flight.erase(client.flight.begin() + static_cast<std::ptrdiff_t>(i));
        }
        for (const std::uint32_t slot : client.receiver.decoder().rebases())
            sender_.rebase(client.peer, slot);
        client.receiver.decoder().drop_rebases(client.receiver.decoder().rebases().size());
        client.receiver.apply();
        ASSERT_TRUE(client.receiver.is_consistent());
        ASSERT_EQ(client.receiver.stats().differences, 0u);
    }

    /// Nothing that the client ever got says that there is something it does not see.
    void check(Client& client) {
        client.receiver.for_each_version([&](std::uint32_t, NetId net_id, Tick, const impl::Image& image) {
            ASSERT_TRUE(client.seen.contains(net_id)) << "the client has a hidden entity";
            for (impl::ImageCursor value(schema_, image); !value.at_end(); value.next()) {
                value.layout().for_each_reference(value.lanes(), value.parts(), [&](NetId named) {
                    ASSERT_TRUE(client.seen.contains(named)) << "a reference names a hidden entity";
                });
                if (value.component() != schema_.find<HiddenNumber>()) continue;
                std::uint64_t secret = 0;
                std::memcpy(&secret, value.lanes(), sizeof secret);
                const std::uint64_t swapped = secret << 32 | secret >> 32;
                ASSERT_TRUE(client.secrets.contains(secret) || client.secrets.contains(swapped));
            }
        });
        if (!client.receiver.complete() || client.receiver.complete()->tick != tick_) return;
        compared += 1;
        const WorldHash::Sum seen = server_hash_.of_peer(sender_, client.peer);
        const WorldHash::Sum has = client.hash.of_client(client.receiver);
        ASSERT_EQ(has.entities, seen.entities) << "peer " << client.peer << " tick " << tick_;
        ASSERT_EQ(has.hash, seen.hash) << "peer " << client.peer << " tick " << tick_;
    }

    std::mt19937 random_;
    Schema schema_;
    ecs::World world_;
    impl::Sender sender_;
    WorldHash server_hash_{world_, schema_};
    std::vector<std::unique_ptr<Client>> clients_;
    std::vector<ecs::Entity> entities_;
    std::uint64_t serial_ = 0;
    Tick tick_ = 0;
};

TEST(ScopeSimulation, EveryClientHasWhatItSeesAndNothingElse) {
    std::uint64_t compared = 0;
    for (const std::uint64_t seed : seeds_to_run("SHOAL_SIM_SEEDS", 12)) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Parts parts(seed, seed % 12 == 0 ? 64 : 1 + seed % 5);
        for (int step = 0; step < 120 && !testing::Test::HasFailure(); ++step) parts.step(step % 40 > 30);
        parts.settle();
        if (testing::Test::HasFailure()) return;
        compared += parts.compared;
    }
    EXPECT_GT(compared, 0u);
}

}  // namespace
}  // namespace shoal::sim
