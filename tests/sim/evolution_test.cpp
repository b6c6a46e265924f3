// A server plays with clients whose schemas differ from its own in optional components. Each client has what
// both know, under loss.

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session.h"

namespace shoal::sim {
namespace {

struct Hat {  // the server's form; older clients have another one
    std::int32_t size = 0;
    ecs::Entity from;
};
struct OldHat {
    float size = 0;
};
struct Cape {
    std::vector<std::int32_t> colours;
};
struct Purse {
    std::int32_t coins = 0;
};
struct Glow {};
struct Fears {
    static constexpr auto relation = ecs::many;
};
struct Smell {  // only of a client
    std::int32_t strength = 0;
};

void describe_old(replication::Schema& schema) {
    schema.component<Health>("health");
    schema.component<Position>("position");
}
void describe_new(replication::Schema& schema) {
    describe_old(schema);
    schema.component<Cape>("cape");
    schema.optional<Cape>();
    schema.component<Purse>("purse", replication::to_owner());
    schema.optional<Purse>();
    schema.tag<Glow>("glow");
    schema.optional<Glow>();
    schema.pair<Fears>("fears");
    schema.optional<Fears>();
}

class EvolvingWorld {
public:
    EvolvingWorld(std::uint64_t seed, const net::LinkConfig& link) : random_(seed) {
        describe_new(server_);
        server_.component<Hat>("hat");
        server_.optional<Hat>();
        describe_old(bare_);
        describe_new(other_hat_);
        other_hat_.component<OldHat>("hat");
        other_hat_.optional<OldHat>();
        describe_old(other_set_);
        other_set_.tag<Glow>("glow");
        other_set_.optional<Glow>();
        other_set_.component<Smell>("smell");
        other_set_.optional<Smell>();
        const std::vector<const replication::Schema*> schemas = {&bare_, &other_hat_, &other_set_, &bare_,
                                                                 &server_};
        for (const replication::Schema* schema : schemas) EXPECT_EQ(schema->error(), "");
        session_.emplace(server_, link, schemas.size(), seed, schemas);
    }

    void step(bool with_changes) {
        for (std::uint32_t i = with_changes ? random_.below(5) : 0; i > 0; --i) change();
        session_->step();
        for (const auto& guest : session_->guests()) EXPECT_TRUE(guest->client.receiver().is_consistent());
    }
    void heal() { session_->set_link({}); }

    void expect_agreement() {
        const auto& guests = session_->guests();
        for (std::size_t i = 0; i < guests.size(); ++i) {
            SCOPED_TRACE("guest " + std::to_string(i));
            ASSERT_TRUE(guests[i]->client.is_connected()) << guests[i]->client.failure();
            EXPECT_EQ(guests[i]->client.receiver().entity_count(), entities_.size());
            for (const ecs::Entity entity : entities_) expect_equal(entity, i);
        }
        EXPECT_TRUE(session_->server().sender().is_consistent());
    }

private:
    ecs::Entity any() { return entities_[random_.below(static_cast<std::uint32_t>(entities_.size()))]; }

    void change() {
        ecs::World& world = session_->world();
        const std::int32_t number = static_cast<std::int32_t>(random_.below(1'000));
        if (entities_.size() < 3 || (entities_.size() < 20 && random_.chance(0.1))) {
            entities_.push_back(world.spawn(replication::Replicated{}, Health{number, 0}));
            return;
        }
        const ecs::Entity entity = any();
        switch (random_.below(12)) {
            case 0:
                world.destroy(entity);
                std::erase(entities_, entity);
                return;
            case 1:
                return world.set(entity, Health{number, 0});
            case 2:
                return world.set(entity, Position{static_cast<float>(number), 0, 0});
            case 3:
            case 4:
                return world.set(entity, Hat{number, any()});
            case 5:
                return world.set(entity, Cape{std::vector<std::int32_t>(random_.below(8), number)});
            case 6:
                return world.set(entity, Purse{number});
            case 7:
                return world.add<Glow>(entity);
            case 8:
                return world.add(entity, ecs::to<Fears>(any()));
            case 9:
                return world.remove<Hat, Glow>(entity);
            case 10:
                return world.remove<Cape, Position>(entity);
            default:
                session_->server().for_each_peer([&](net::PeerId peer) {
                    if (random_.chance(0.3)) session_->server().give(peer, entity);
                });
        }
    }

    template <class T, class Get>
    void expect_same(ecs::Entity entity, std::size_t guest, bool is_known, Get&& get) {
        ecs::World& mirror = session_->guests()[guest]->world;
        const T* const truth = session_->world().try_get<T>(entity);
        const T* const copy = mirror.try_get<T>(replica(entity, guest));
        EXPECT_EQ(copy != nullptr, is_known && truth != nullptr);
        if (copy && truth) {
            EXPECT_EQ(get(*copy), get(*truth));
        }
    }

    ecs::Entity replica(ecs::Entity entity, std::size_t guest) {
        return session_->guests()[guest]->client.receiver().entity(
            session_->server().sender().net_id(entity));
    }

    void expect_equal(ecs::Entity entity, std::size_t guest) {
        const bool is_new = guest == 1 || guest == 4, has_hat = guest == 4, has_glow = is_new || guest == 2;
        ecs::World& mirror = session_->guests()[guest]->world;
        ASSERT_TRUE(replica(entity, guest));
        expect_same<Health>(entity, guest, true, [](const Health& health) { return health.points; });
        expect_same<Position>(entity, guest, true, [](const Position& position) { return position.x; });
        expect_same<Hat>(entity, guest, has_hat, [](const Hat& hat) { return hat.size; });
        expect_same<Cape>(entity, guest, is_new, [](const Cape& cape) { return cape.colours; });
        EXPECT_EQ(mirror.has<Glow>(replica(entity, guest)), has_glow && session_->world().has<Glow>(entity));
        EXPECT_EQ(mirror.targets<Fears>(replica(entity, guest)).size(),
                  is_new ? session_->world().targets<Fears>(entity).size() : 0);
        const bool is_owner = session_->server().host().address(session_->server().owner(entity)) ==
                              session_->guests()[guest]->address;
        expect_same<Purse>(entity, guest, is_new && is_owner, [](const Purse& purse) { return purse.coins; });
        EXPECT_FALSE(mirror.has<OldHat>(replica(entity, guest)));
        EXPECT_FALSE(mirror.has<Smell>(replica(entity, guest)));
    }

    Random random_;
    replication::Schema server_, bare_, other_hat_, other_set_;
    std::optional<Session> session_;
    std::vector<ecs::Entity> entities_;
};

TEST(Evolution, ClientsWithOtherOptionalComponentsHaveWhatBothKnow) {
    for (const std::uint64_t seed : kind_seeds(8)) {
        SCOPED_TRACE(testing::Message() << "SHOAL_KIND_SEEDS=" << seed << ":1");
        net::LinkConfig link;
        link.latency = std::chrono::milliseconds(15 * static_cast<int>(seed % 9));
        link.jitter = std::chrono::milliseconds(10);
        link.loss = 0.03 * static_cast<double>(seed % 5);
        EvolvingWorld game(seed, link);
        for (int tick = 0; tick < 400; ++tick) game.step(true);
        game.heal();
        for (int tick = 0; tick < 200; ++tick) game.step(false);
        game.expect_agreement();
        if (testing::Test::HasFailure()) break;
    }
}

}  // namespace
}  // namespace shoal::sim
